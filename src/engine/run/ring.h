/* A bounded queue from one thread to one other: fixed-size records by value, over ck_ring, with an event
 * count to sleep on. No allocation after init; memory is the caller's, aligned to 64.
 *
 * Invariants: one producer thread, one consumer thread; capacity is a power of two (2 at least), one slot of
 * it stays free. What was written before a push is seen after its pop. */
#ifndef STATOR_ENGINE_RING_H
#define STATOR_ENGINE_RING_H

#include <stdbool.h>
#include <stdint.h>

struct ring;

uint64_t ring_bytes(uint32_t capacity, uint32_t record);
struct ring *ring_init(void *memory, uint64_t bytes, uint32_t capacity, uint32_t record);
bool ring_push(struct ring *r, const void *record); /* false: full */
bool ring_pop(struct ring *r, void *record);        /* false: empty */
/* By the consumer. Waits until the ring is not empty or timeout_ns has passed (UINT64_MAX: forever). True if
 * not empty. */
bool ring_wait(struct ring *r, uint64_t timeout_ns);
/* Wakes the waiter without a record (for cancel and shutdown): its ring_wait, the running one or else the
 * next, returns early, with false if the ring is empty. Several wakes may count as one. Async-signal-safe,
 * from any thread. */
void ring_wake(struct ring *r);

#endif
