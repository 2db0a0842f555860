/* `run --trace FILE`: the times of steps and ops on all devices, as JSON of Chrome's trace viewer ("Trace
 * Event Format": complete events, "ph": "X", times in microseconds). One process per device: thread 0 has the
 * steps, named by their tokens, thread 1 the ops.
 *
 * Thread: the engine's. Its memory is in the run's state. A write that fails ends the trace, not the run. */
#ifndef STATOR_ENGINE_TRACE_H
#define STATOR_ENGINE_TRACE_H

#include "engine/engine.h"

struct trace; /* NULL in an engine without a trace; these functions then do nothing */

void trace_lay_out(struct stator *s, struct carve *c);
/* STATOR_FAILED: the file cannot be created or written. */
stator_status trace_open(struct stator *s, stator_error *e);
/* Of a tensor split: each device's label says how its values get to each other device. */
void trace_routes(struct stator *s);
/* The step has just ended on the device where it is. */
void trace_step(struct stator *s, const struct engine_step *step);
/* Draft token `number` (from 1 on) of each chunk's sequence, from the ended pass in the step's slot. */
void trace_guess(struct stator *s, const struct engine_step *step, uint32_t number,
                 const struct step_header *h, const struct step_pick *picks);
void trace_close(struct stator *s);
/* After trace_close, on any thread. STATOR_FAILED: the file is incomplete. */
stator_status trace_result(const struct stator *s, stator_error *e);

#endif
