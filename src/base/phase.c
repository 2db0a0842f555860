#include "base/phase.h"

#include "base/check.h"

#include <stddef.h>

static _Thread_local const struct phase *thread_phase;
static _Thread_local enum phase_thread thread_kind;

void phase_init(struct phase *p) {
    atomic_init(&p->id, PHASE_START_UP);
}

void phase_advance(struct phase *p, enum phase_id next) {
    int now = atomic_load_explicit(&p->id, memory_order_relaxed);
    CHECK((int)next == now + 1);
    atomic_store_explicit(&p->id, (int)next, memory_order_release);
}

enum phase_id phase_get(const struct phase *p) {
    return (enum phase_id)atomic_load_explicit(&p->id, memory_order_acquire);
}

void phase_thread_set(const struct phase *p, enum phase_thread kind) {
    CHECK(p != NULL || kind == PHASE_THREAD_EDGE);
    thread_phase = p;
    thread_kind = kind;
}

bool phase_thread_is_sealed(void) {
    return thread_kind == PHASE_THREAD_ENGINE && thread_phase != NULL &&
           phase_get(thread_phase) == PHASE_SEALED;
}
