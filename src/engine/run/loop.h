/* The engine's thread between seal and shutdown. */
#ifndef STATOR_ENGINE_LOOP_H
#define STATOR_ENGINE_LOOP_H

#include "engine/engine.h"

/* Until s->front.stop; no device works any more when it returns. */
void loop_run(struct stator *s);

/* What the engine's thread waits for after a round that changed nothing. */
enum loop_next {
    LOOP_AGAIN,
    LOOP_DEVICES,
    LOOP_SOON, /* for commands, and a little while: only moves of blocks run (kv_moves.h) */
    LOOP_COMMANDS
};
/* One round of loop_run, which never waits. Tests without threads call it themselves. */
enum loop_next loop_round(struct stator *s);
/* Waits for what a round has said. A device that is lost meanwhile ends all requests. */
void loop_wait(struct stator *s, enum loop_next next);

#endif
