/* The events of one request that were not polled yet: a bounded buffer in their order, and a place for the
 * final event.
 *
 * Invariants: the engine's thread pushes, and one thread at a time pops. Before a step, outbox_has_room says
 * whether there is room for the step's events. The final event has a place of its own, so a request can
 * always end. Nothing allocates. */
#ifndef STATOR_ENGINE_OUTBOX_H
#define STATOR_ENGINE_OUTBOX_H

#include "base/carve.h"
#include "stator.h"

#include <stdatomic.h>
#include <stdbool.h>

#define OUTBOX_EVENTS 64 /* a power of two */
#define OUTBOX_STEP   2  /* most events of a step besides draft tokens: a token, the end of a round */

struct outbox_event {
    stator_event_kind kind;
    int32_t token;
    uint32_t position;
    stator_reason reason;
    stator_status status;
    uint32_t n_prompt, n_generated, n_cached, n_guessed, n_kept;
    const float *logits;
    uint64_t queue_ns, prompt_ns, generate_ns;
    uint64_t time_ns;
    float logprob;
    uint32_t n_top;
    uint32_t n_values;
    uint32_t slot;
    uint64_t n_bytes;
    stator_logprob top[STATOR_TOP_LOGPROBS];
};

struct outbox {
    struct outbox_event *events; /* [OUTBOX_EVENTS] */
    _Atomic uint32_t pushed;
    _Atomic uint32_t popped;
    _Atomic bool stalled; /* the engine waits for room */
    _Atomic bool ended;   /* `end` is set */
    struct outbox_event end;
    char end_text[160]; /* why the request failed */
};

/* Empties the outbox for a new request. */
void outbox_clear(struct outbox *o);
/* For the engine's thread. False: there is no room for a step's events; outbox_pop then says when there is.
 */
bool outbox_has_room(struct outbox *o);
/* The number of events that have room besides those of a step. */
uint32_t outbox_spare(const struct outbox *o);
void outbox_push(struct outbox *o, const struct outbox_event *ev);
void outbox_end(struct outbox *o, const struct outbox_event *ev, const char *text);
/* For the polling thread. False: there is no event. *last: it was the final event. *wake: the engine waits
 * for room, so wake it. */
bool outbox_pop(struct outbox *o, struct outbox_event *ev, bool *last, bool *wake);
bool outbox_is_empty(const struct outbox *o);
/* The number of events, without the final one. */
uint32_t outbox_waiting(const struct outbox *o);

#endif
