/* The life of an engine: start-up (may allocate) -> sealed -> shutdown. Each engine owns one struct phase;
 * each of its threads names itself once. Allocation hooks (tests, edge pools) ask phase_thread_is_sealed().
 *
 * Invariants: the phase only moves forward; it is set by the thread that starts and closes the engine, read
 * by any. */
#ifndef STATOR_BASE_PHASE_H
#define STATOR_BASE_PHASE_H

#include <stdatomic.h>
#include <stdbool.h>

enum phase_id { PHASE_START_UP, PHASE_SEALED, PHASE_SHUTDOWN };

/* engine: runs steps, may not allocate while sealed. edge: talks to people, allocates from bounded pools
 * only. driver: threads that a device driver made. A thread that never said is an edge thread. */
enum phase_thread { PHASE_THREAD_EDGE, PHASE_THREAD_ENGINE, PHASE_THREAD_DRIVER };

struct phase {
    _Atomic int id; /* enum phase_id */
};

void phase_init(struct phase *p);
void phase_advance(struct phase *p, enum phase_id next); /* CHECKs that next is the following phase */
enum phase_id phase_get(const struct phase *p);

/* Names the calling thread; p may be NULL only for edge threads. The phase must outlive the thread. */
void phase_thread_set(const struct phase *p, enum phase_thread kind);
/* True on an engine thread of a sealed engine: nothing may be allocated here now. Async-signal-safe, no
 * locks. */
bool phase_thread_is_sealed(void);

#endif
