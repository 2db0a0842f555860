/* What the engine thread tells of one request, until it is polled: a bounded buffer of events in the order of
 * their making, and behind them the end of the request.
 *
 * Invariants: one thread pushes (the engine's), one at a time pops (who polls). An event is pushed only where
 * outbox_has_room said so since the last push of one that could follow it; the end has a place of its own, so
 * a request can always end. Nothing allocates. */
#ifndef STATOR_ENGINE_OUTBOX_H
#define STATOR_ENGINE_OUTBOX_H

#include "base/carve.h"
#include "stator.h"

#include <stdatomic.h>
#include <stdbool.h>

#define OUTBOX_EVENTS 64 /* a power of two */
#define OUTBOX_STEP   2  /* that a step adds at most, guesses apart: a token, and the end of a lap */

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
    stator_logprob top[STATOR_TOP_LOGPROBS];
};

struct outbox {
    struct outbox_event *events; /* [OUTBOX_EVENTS] */
    _Atomic uint32_t pushed;
    _Atomic uint32_t popped;
    _Atomic bool stalled; /* the engine waits for room */
    _Atomic bool ended;   /* `end` is there, the last of all */
    struct outbox_event end;
    char end_text[160]; /* why it failed */
};

/* Of a request that begins. */
void outbox_clear(struct outbox *o);
/* By the engine's thread. False: none for a step's events; outbox_pop will say when there is. */
bool outbox_has_room(struct outbox *o);
/* Events that have room beside those of a step. */
uint32_t outbox_spare(const struct outbox *o);
void outbox_push(struct outbox *o, const struct outbox_event *ev);
void outbox_end(struct outbox *o, const struct outbox_event *ev, const char *text);
/* By who polls. False: nothing is there. *last: it was the end. *wake: the engine waits for the room. */
bool outbox_pop(struct outbox *o, struct outbox_event *ev, bool *last, bool *wake);
bool outbox_is_empty(const struct outbox *o);
/* Events that are there, the end not counted. */
uint32_t outbox_waiting(const struct outbox *o);

#endif
