/* engine/run/ring: order, full and empty, waiting, waking; two threads. */
#include "testing.h"

#include "base/clock.h"
#include "engine/run/ring.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

static struct ring *create(uint32_t capacity, uint32_t record) {
    uint64_t bytes = ring_bytes(capacity, record);
    void *memory = aligned_alloc(64, bytes);
    assert_non_null(memory);
    memset(memory, 0xA5, bytes);
    return ring_init(memory, bytes, capacity, record); /* lies at the memory's begin */
}

static void full_and_empty(void **state) {
    (void)state;
    static const uint32_t records[] = {1, 7, 8, 24, 200};
    for (size_t k = 0; k < sizeof records / sizeof records[0]; k++) {
        for (uint32_t capacity = 2; capacity <= 64; capacity *= 2) {
            uint32_t size = records[k];
            struct ring *r = create(capacity, size);
            uint8_t in[200], out[201];
            uint32_t pushed = 0, popped = 0;
            uint64_t rng = capacity;
            out[size] = 0x77;
            assert_false(ring_pop(r, out));
            for (int i = 0; i < 2000; i++) {
                if (testing_below(&rng, 2) == 0) {
                    memset(in, (int)(pushed & 0xFF), size);
                    bool ok = ring_push(r, in);
                    assert_int_equal(ok, pushed - popped < capacity - 1);
                    pushed += ok;
                } else {
                    bool ok = ring_pop(r, out);
                    assert_int_equal(ok, pushed != popped);
                    for (uint32_t b = 0; ok && b < size; b++)
                        assert_int_equal(out[b], popped & 0xFF);
                    popped += ok;
                }
                assert_int_equal(out[size], 0x77);
                assert_int_equal(ring_wait(r, 0), pushed != popped);
            }
            free(r);
        }
    }
}

#define MESSAGES 50000
struct message {
    uint64_t number;
    const uint64_t *attached; /* plain memory that travels with the record */
    uint64_t check[3];
};

struct pair {
    struct ring *there, *back;
    uint64_t *attachments;
};

static void send(struct ring *r, const void *m) {
    while (!ring_push(r, m))
        sched_yield();
}

static void receive(struct ring *r, void *m) {
    while (!ring_pop(r, m))
        assert_true(ring_wait(r, UINT64_MAX));
}

static void *echo(void *argument) {
    struct pair *p = argument;
    for (uint64_t i = 0; i < MESSAGES; i++) {
        struct message m;
        receive(p->there, &m);
        if (m.number != i || *m.attached != ~i || m.check[0] != i * 3 || m.check[2] != i * 5)
            m.number = UINT64_MAX;
        p->attachments[i] = i * 7;
        send(p->back, &m);
    }
    return NULL;
}

/* ahead: messages in flight; more than both rings hold makes both sides meet full rings. */
static void two_threads(uint32_t capacity, uint64_t ahead) {
    struct pair p = {.there = create(capacity, sizeof(struct message)),
                     .back = create(capacity, sizeof(struct message)),
                     .attachments = calloc(MESSAGES, sizeof(uint64_t))};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, echo, &p), 0);
    uint64_t sent = 0;
    for (uint64_t got = 0; got < MESSAGES; got++) {
        for (; sent < MESSAGES && sent < got + ahead; sent++) {
            p.attachments[sent] = ~sent;
            struct message m = {sent, &p.attachments[sent], {sent * 3, 0, sent * 5}};
            if (sent == got)
                send(p.there, &m);
            else if (!ring_push(p.there, &m))
                break;
        }
        struct message m;
        receive(p.back, &m);
        assert_int_equal(m.number, got);
        assert_int_equal(p.attachments[got], got * 7);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    free(p.there);
    free(p.back);
    free(p.attachments);
}

static void threads_full(void **state) {
    (void)state;
    two_threads(4, 100);
    two_threads(64, 1000);
}

static void threads_one_by_one(void **state) {
    (void)state;
    two_threads(2, 1);
}

static void time_out(void **state) {
    (void)state;
    struct ring *r = create(2, 8);
    uint64_t t0 = clock_ns();
    assert_false(ring_wait(r, 5000000));
    uint64_t t1 = clock_ns();
    assert_true(t1 - t0 >= 5000000);
    assert_true(t1 - t0 < 60000000000); /* the machine may be busy */
    free(r);
}

/* A wake before the wait is not lost, and counts once. */
static void wake_comes_first(void **state) {
    (void)state;
    struct ring *r = create(4, 8);
    ring_wake(r);
    ring_wake(r);
    assert_false(ring_wait(r, UINT64_MAX));
    uint64_t t0 = clock_ns(), v = 5;
    assert_false(ring_wait(r, 2000000));
    assert_true(clock_ns() - t0 >= 2000000);
    /* Records come before wakes. */
    ring_wake(r);
    assert_true(ring_push(r, &v));
    assert_true(ring_wait(r, UINT64_MAX));
    assert_true(ring_pop(r, &v));
    assert_false(ring_wait(r, UINT64_MAX));
    free(r);
}

struct sleeper {
    struct ring *r;
    _Atomic int naps;
};

static void *sleep_until_told(void *argument) {
    struct sleeper *s = argument;
    uint64_t v;
    while (!ring_pop(s->r, &v)) {
        ring_wait(s->r, UINT64_MAX);
        atomic_fetch_add(&s->naps, 1);
    }
    return NULL;
}

static void nap(long ns) {
    struct timespec t = {.tv_nsec = ns};
    nanosleep(&t, NULL);
}

static struct ring *signalled_ring;

static void on_signal(int number) {
    (void)number;
    ring_wake(signalled_ring);
}

/* Wakes from a signal handler reach a thread that sleeps deep, be it the one that handles the signal or
 * another. */
static void wake_from_a_handler(void **state) {
    (void)state;
    struct sleeper s = {.r = create(4, 8)};
    signalled_ring = s.r;
    struct sigaction action = {.sa_handler = on_signal}, old;
    sigaction(SIGUSR1, &action, &old);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, sleep_until_told, &s), 0);
    for (int i = 0; i < 6; i++) {
        nap(3000000);
        int before = atomic_load(&s.naps);
        pthread_kill(i % 2 ? thread : pthread_self(), SIGUSR1);
        for (int k = 0; k < 60000 && atomic_load(&s.naps) == before; k++)
            nap(1000000);
        assert_true(atomic_load(&s.naps) > before);
    }
    uint64_t v = 1;
    assert_true(ring_push(s.r, &v));
    assert_int_equal(pthread_join(thread, NULL), 0);
    sigaction(SIGUSR1, &old, NULL);
    free(s.r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_and_empty),     cmocka_unit_test(threads_full),
        cmocka_unit_test(threads_one_by_one), cmocka_unit_test(time_out),
        cmocka_unit_test(wake_comes_first),   cmocka_unit_test(wake_from_a_handler),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
