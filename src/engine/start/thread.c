#include "engine/start/thread.h"

#include "base/clock.h"
#include "engine/run/loop.h"
#include "engine/start/enforce.h"
#include "engine/start/start.h"

#include <time.h>

/* Of the start: who called stator_start reads it. */
static void emit(struct stator *s, const struct engine_event *ev) {
    while (!ring_push(s->start.events, ev) && atomic_load_explicit(&s->stop, memory_order_acquire) == 0) {
        struct timespec pause = {.tv_nsec = 100000};
        nanosleep(&pause, NULL);
    }
}

void *thread_main(void *context) {
    struct stator *s = context;
    uint64_t began = clock_ns();
    phase_thread_set(&s->phase, PHASE_THREAD_ENGINE);
    stator_status st = start_devices(s, &s->start.start_error);
    struct engine_event ev = {.kind = st == STATOR_OK ? ENGINE_STARTED : ENGINE_START_FAILED, .status = st};
    if (st == STATOR_OK) {
        s->start.load_ns = clock_ns() - began;
        phase_advance(&s->phase, PHASE_SEALED);
        emit(s, &ev);
        loop_run(s);
        phase_advance(&s->phase, PHASE_SHUTDOWN);
        if (!s->broken)
            (void)enforce_check(s); /* it has logged */
    } else {
        emit(s, &ev);
    }
    start_close_devices(s);
    return NULL;
}
