#include "engine/run/outbox.h"

#include <stdio.h>

void outbox_clear(struct outbox *o) {
    atomic_store_explicit(&o->pushed, 0, memory_order_relaxed);
    atomic_store_explicit(&o->popped, 0, memory_order_relaxed);
    atomic_store_explicit(&o->stalled, false, memory_order_relaxed);
    atomic_store_explicit(&o->ended, false, memory_order_relaxed);
}

uint32_t outbox_waiting(const struct outbox *o) {
    uint32_t popped = atomic_load(&o->popped); /* first, so that it is not beyond the other */
    return atomic_load(&o->pushed) - popped;
}

/* Either this sees the room, or the next pop sees that somebody waits for it. */
bool outbox_has_room(struct outbox *o) {
    if (outbox_waiting(o) + OUTBOX_STEP <= OUTBOX_EVENTS)
        return true;
    atomic_store(&o->stalled, true);
    return outbox_waiting(o) + OUTBOX_STEP <= OUTBOX_EVENTS;
}

uint32_t outbox_spare(const struct outbox *o) {
    uint32_t used = outbox_waiting(o) + OUTBOX_STEP;
    return used < OUTBOX_EVENTS ? OUTBOX_EVENTS - used : 0;
}

void outbox_push(struct outbox *o, const struct outbox_event *ev) {
    uint32_t at = atomic_load_explicit(&o->pushed, memory_order_relaxed);
    CHECK(at - atomic_load(&o->popped) < OUTBOX_EVENTS);
    o->events[at % OUTBOX_EVENTS] = *ev;
    atomic_store(&o->pushed, at + 1);
}

void outbox_end(struct outbox *o, const struct outbox_event *ev, const char *text) {
    CHECK(!atomic_load_explicit(&o->ended, memory_order_relaxed));
    o->end = *ev;
    snprintf(o->end_text, sizeof o->end_text, "%s", text);
    atomic_store(&o->ended, true);
}

bool outbox_is_empty(const struct outbox *o) {
    return !atomic_load(&o->ended) && outbox_waiting(o) == 0;
}

bool outbox_pop(struct outbox *o, struct outbox_event *ev, bool *last, bool *wake) {
    *last = *wake = false;
    bool ended = atomic_load(&o->ended); /* first: all others were pushed before it */
    uint32_t at = atomic_load_explicit(&o->popped, memory_order_relaxed);
    if (at != atomic_load(&o->pushed)) {
        CHECK(atomic_load(&o->pushed) - at <= OUTBOX_EVENTS);
        *ev = o->events[at % OUTBOX_EVENTS];
        atomic_store(&o->popped, at + 1);
        *wake = atomic_load(&o->stalled) && atomic_exchange(&o->stalled, false);
        return true;
    }
    if (!ended)
        return false;
    *ev = o->end;
    *last = true;
    return true;
}
