/* Threads that wait for each other: an event count (spin for a while, then sleep) and a barrier on top of it.
 * Built on Concurrency Kit's ck_pr and ck_ec; ck's own barriers only spin, which costs milliseconds where
 * threads outnumber processors.
 *
 * Invariants: no allocation, no locks; what a thread wrote before a signal or an arrival is seen by the
 * threads that this signal or barrier releases. Under ThreadSanitizer the edges are annotated. Any thread may
 * use these. */
#ifndef STATOR_BASE_BARRIER_H
#define STATOR_BASE_BARRIER_H

#include <ck_ec.h>

#include <stdbool.h>
#include <stdint.h>

/* ck's atomics are inline assembly, which ThreadSanitizer does not see: it is told. */
#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#include <sanitizer/tsan_interface.h>
#define BARRIER_ACQUIRE(p) __tsan_acquire((void *)(uintptr_t)(p))
#define BARRIER_RELEASE(p) __tsan_release((void *)(uintptr_t)(p))
#else
#define BARRIER_ACQUIRE(p) ((void)0)
#define BARRIER_RELEASE(p) ((void)0)
#endif

/* Pause instructions (about 50 ns each) before a waiter sleeps. Sleeping and waking cost about as much as
 * BARRIER_SPIN_LONG. Where threads outnumber processors, the thread that is waited for needs the waiter's
 * processor, so the spin is short. */
#define BARRIER_SPIN_LONG  4000
#define BARRIER_SPIN_SHORT 20

/* An event count. A waiter reads the value, checks whether what it waits for has happened, and if not waits
 * for another value. A signaller makes the change, then signals. */
struct barrier_event {
    _Alignas(64) struct ck_ec32 count;
};

void barrier_event_init(struct barrier_event *v);
uint32_t barrier_event_value(const struct barrier_event *v);
/* Wakes all waiters. Async-signal-safe; keeps errno. */
void barrier_event_signal(struct barrier_event *v);
/* Until the value is not `old`, or timeout_ns has passed (UINT64_MAX: forever). False: timeout. */
bool barrier_event_wait(struct barrier_event *v, uint32_t old, uint32_t spin, uint64_t timeout_ns);

struct barrier {
    struct barrier_event turn; /* counts completed rounds */
    _Alignas(64) uint32_t arrived;
    uint32_t members;
    uint32_t spin;
};

/* spin: BARRIER_SPIN_LONG or _SHORT. */
void barrier_init(struct barrier *b, uint32_t members, uint32_t spin);
/* In two halves: arrive says "I am here" and returns a ticket, await waits until all members of that round
 * have arrived. A member must not arrive twice in one round; it may skip await if it learns of their arrival
 * in another way. */
uint32_t barrier_arrive(struct barrier *b);
void barrier_await(struct barrier *b, uint32_t ticket);
void barrier_wait(struct barrier *b);

/* Processors that the calling thread may run on, at least 1. */
uint32_t barrier_processors(void);

#endif
