#include "base/barrier.h"

#include "base/check.h"

#include <ck_pr.h>

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int monotonic_now(const struct ck_ec_ops *ops, struct timespec *out) {
    (void)ops;
    return clock_gettime(CLOCK_MONOTONIC, out);
}

/* ck checks the value again, whatever the reason for the return. The deadline is absolute, as BITSET
 * requires. */
static void sleep32(const struct ck_ec_wait_state *state, const uint32_t *address, uint32_t expected,
                    const struct timespec *deadline) {
    (void)state;
    int saved = errno;
    syscall(SYS_futex, address, FUTEX_WAIT_BITSET_PRIVATE, expected, deadline, NULL, FUTEX_BITSET_MATCH_ANY);
    errno = saved;
}

static void wake32(const struct ck_ec_ops *ops, const uint32_t *address) {
    (void)ops;
    int saved = errno;
    syscall(SYS_futex, address, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    errno = saved;
}

/* We spin ourselves, so ck need not; and with atomic increments no wake is ever lost, so its first sleep,
 * which has a limit for that case, may be the longest. */
static const struct ck_ec_ops futex_ops = {.gettime = monotonic_now,
                                           .wait32 = sleep32,
                                           .wake32 = wake32,
                                           .busy_loop_iter = 1,
                                           .initial_wait_ns = 1000000000};
static const struct ck_ec_mode futex_mode = {.ops = &futex_ops, .single_producer = false};

void barrier_event_init(struct barrier_event *v) {
    ck_ec32_init(&v->count, 0);
}

uint32_t barrier_event_value(const struct barrier_event *v) {
    uint32_t value = ck_ec32_value(&v->count);
    BARRIER_ACQUIRE(v);
    return value;
}

void barrier_event_signal(struct barrier_event *v) {
    BARRIER_RELEASE(v);
    ck_ec32_inc(&v->count, &futex_mode);
}

bool barrier_event_wait(struct barrier_event *v, uint32_t old, uint32_t spin, uint64_t timeout_ns) {
    bool changed = ck_ec32_value(&v->count) != old;
    for (uint32_t i = 0; i < spin && !changed; i++) {
        ck_pr_stall();
        changed = ck_ec32_value(&v->count) != old;
    }
    if (!changed) {
        struct timespec deadline, timeout = {.tv_sec = (time_t)(timeout_ns / 1000000000),
                                             .tv_nsec = (long)(timeout_ns % 1000000000)};
        bool forever = timeout_ns == UINT64_MAX;
        if (!forever)
            CHECK(ck_ec_deadline(&deadline, &futex_mode, &timeout) == 0);
        /* ck_ec32_wait may return 0 although the value is the old one: it compares the whole word, and a
         * signaller that was held up clears the flag of waiters only now (ck 0.7.1, src/ck_ec.c). A thread
         * that went on then would be one barrier ahead of the others. So the value decides. */
        bool waits;
        do {
            waits = ck_ec32_wait(&v->count, &futex_mode, old, forever ? NULL : &deadline) == 0;
            changed = ck_ec32_value(&v->count) != old;
        } while (!changed && (waits || forever));
    }
    BARRIER_ACQUIRE(v);
    return changed;
}

void barrier_init(struct barrier *b, uint32_t members, uint32_t spin) {
    CHECK(members > 0);
    barrier_event_init(&b->turn);
    b->arrived = 0;
    b->members = members;
    b->spin = spin;
}

uint32_t barrier_arrive(struct barrier *b) {
    /* Read before we arrive: the round cannot end without us. */
    uint32_t ticket = barrier_event_value(&b->turn);
    BARRIER_RELEASE(&b->turn);
    if (ck_pr_faa_32(&b->arrived, 1) + 1 == b->members) {
        /* Nobody arrives for the next round before the signal. */
        ck_pr_store_32(&b->arrived, 0);
        BARRIER_ACQUIRE(&b->turn);
        barrier_event_signal(&b->turn);
    }
    return ticket;
}

void barrier_await(struct barrier *b, uint32_t ticket) {
    barrier_event_wait(&b->turn, ticket, b->spin, UINT64_MAX);
}

void barrier_wait(struct barrier *b) {
    barrier_await(b, barrier_arrive(b));
}

uint32_t barrier_processors(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1; /* more than CPU_SETSIZE processors: the short spin is the safe one */
    int n = CPU_COUNT(&set);
    return n > 0 ? (uint32_t)n : 1;
}
