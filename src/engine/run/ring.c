#include "engine/run/ring.h"

#include "base/barrier.h"
#include "base/carve.h"
#include "base/clock.h"

#include <ck_ring.h>

#include <string.h>

/* About 10 us: a consumer that follows a stream closely need not sleep. */
#define SPIN 200

/* ck's ring carries pointers to slots; slot i belongs to place i of the ring.
 *
 * The consumer copies a record after ck has taken its pointer out, when the producer may already push again.
 * That is sound because one slot of ck's ring stays free: until the next pop that is the slot being copied.
 */
struct ring {
    struct ck_ring indices;
    struct barrier_event changed; /* pushes and wakes */
    uint32_t wakes;               /* under ck_pr */
    uint32_t record;
    uint8_t *slots;
    struct ck_ring_buffer *pointers;
    _Alignas(64) uint32_t woken; /* consumer's: wakes already reported */
};

static struct ring *layout(struct carve *c, uint32_t capacity, uint32_t record) {
    CHECK(capacity >= 2 && arith_is_pow2(capacity) && record > 0);
    struct ring *r = carve_take(c, 1, sizeof *r);
    struct ck_ring_buffer *pointers = carve_take(c, capacity, sizeof *pointers);
    uint8_t *slots = carve_take(c, capacity, record);
    if (r != NULL) {
        memset(r, 0, sizeof *r);
        r->record = record;
        r->slots = slots;
        r->pointers = pointers;
    }
    return r;
}

uint64_t ring_bytes(uint32_t capacity, uint32_t record) {
    struct carve c = carve_count();
    layout(&c, capacity, record);
    return c.used;
}

struct ring *ring_init(void *memory, uint64_t bytes, uint32_t capacity, uint32_t record) {
    struct carve c = carve_in(memory, bytes);
    struct ring *r = layout(&c, capacity, record);
    ck_ring_init(&r->indices, capacity);
    barrier_event_init(&r->changed);
    return r;
}

bool ring_push(struct ring *r, const void *record) {
    struct ck_ring_buffer *at = ck_ring_enqueue_reserve_spsc(&r->indices, r->pointers);
    if (at == NULL)
        return false;
    BARRIER_ACQUIRE(&r->woken); /* after the look at the consumer's index: it is done with this slot */
    at->value = r->slots + (uint64_t)(at - r->pointers) * r->record;
    memcpy(at->value, record, r->record);
    BARRIER_RELEASE(r->pointers);
    ck_ring_enqueue_commit_spsc(&r->indices);
    barrier_event_signal(&r->changed);
    return true;
}

bool ring_pop(struct ring *r, void *record) {
    if (ck_ring_size(&r->indices) == 0)
        return false;
    BARRIER_ACQUIRE(r->pointers);
    BARRIER_RELEASE(&r->woken); /* of the slot copied by the last pop */
    void *slot = NULL;
    CHECK(ck_ring_dequeue_spsc(&r->indices, r->pointers, &slot));
    memcpy(record, slot, r->record);
    return true;
}

bool ring_wait(struct ring *r, uint64_t timeout_ns) {
    uint64_t start = timeout_ns == UINT64_MAX ? 0 : clock_ns(), passed = 0;
    for (;;) {
        uint32_t seen = barrier_event_value(&r->changed);
        if (ck_ring_size(&r->indices) != 0)
            return true;
        uint32_t wakes = ck_pr_load_32(&r->wakes);
        if (wakes != r->woken) {
            r->woken = wakes;
            return false;
        }
        if (timeout_ns != UINT64_MAX) {
            passed = clock_ns() - start;
            if (passed >= timeout_ns)
                return false;
        }
        barrier_event_wait(&r->changed, seen, SPIN,
                           timeout_ns == UINT64_MAX ? UINT64_MAX : timeout_ns - passed);
    }
}

void ring_wake(struct ring *r) {
    ck_pr_inc_32(&r->wakes);
    barrier_event_signal(&r->changed);
}
