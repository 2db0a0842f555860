/* The state of a run in one mapping: requests, sequences, steps, rings, the devices' own memory, the stack of
 * the engine's thread; and the tokenizer beside it. Thread: the driver's. */
#ifndef STATOR_ENGINE_RUN_STATE_H
#define STATOR_ENGINE_RUN_STATE_H

#include "engine/engine.h"

/* struct planning_engine's run_bytes; engine: a struct stator that has no run's state. */
uint64_t run_state_bytes(void *engine, const struct planning_want *want);
/* Maps both and lays them out for the plan. undo_start of api.c gives them back. */
stator_status run_state_make(struct stator *s, stator_error *e);
/* The frequencies of all angles of RoPE. */
stator_status run_state_fill_angles(struct stator *s, stator_error *e);
/* A run finds out when it makes the tokenizer; who only plans is told the same. */
stator_status run_state_try_tokenizer(struct stator *s, stator_error *e);

#endif
