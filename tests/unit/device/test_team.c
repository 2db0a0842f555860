/* device/cpu/team and base/barrier: every member runs, barriers order memory, nothing is left behind. */
#include "testing.h"

#include "base/barrier.h"
#include "base/clock.h"
#include "os/pages.h"
#include "device/cpu/team.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <xmmintrin.h>

static struct phase phase;

static struct team *create(uint32_t n, const int *cpus, void **memory) {
    stator_error e = {0};
    struct team *t = NULL;
    assert_int_equal(pages_map(team_bytes(n), "team", memory, &e), STATOR_OK);
    stator_status st = team_create(n, cpus, TEAM_ALONE, &phase, *memory, team_bytes(n), &t, &e);
    if (st != STATOR_OK)
        fail_msg("team_create: %s", e.text);
    assert_int_equal(team_size(t), n);
    return t;
}

static void destroy(struct team *t, void *memory, uint32_t n) {
    team_destroy(t);
    pages_unmap(memory, team_bytes(n));
}

/* Plain memory, so that ThreadSanitizer judges the order. */
struct sums {
    struct team *team;
    uint64_t rounds; /* barriers in a run */
    uint64_t cells[TEAM_MAX];
    uint64_t seen[TEAM_MAX]; /* each member's own count of wrong sums */
};

static void add_rounds(void *context, uint32_t member, uint32_t n) {
    struct sums *s = context;
    for (uint64_t r = 1; r <= s->rounds; r++) {
        s->cells[member] += r * (member + 1);
        team_barrier(s->team, member);
        uint64_t sum = 0, first = s->cells[0];
        for (uint32_t i = 0; i < n; i++)
            sum += s->cells[i];
        if (sum != first * n * (n + 1) / 2)
            s->seen[member]++;
        team_barrier(s->team, member);
    }
}

static void runs_and_barriers(void **state) {
    (void)state;
    static const struct {
        uint32_t n;
        uint32_t runs;
        uint32_t rounds;
    } cases[] = {{1, 5000, 4}, {2, 5000, 4}, {3, 1000, 4}, {5, 500, 4},
                 {16, 100, 4}, {2, 4, 3000}, {5, 2, 500}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        void *memory;
        struct sums s = {.rounds = cases[c].rounds};
        s.team = create(cases[c].n, NULL, &memory);
        for (uint32_t r = 0; r < cases[c].runs; r++)
            team_run(s.team, add_rounds, &s);
        uint64_t each = (uint64_t)cases[c].runs * cases[c].rounds * (cases[c].rounds + 1) / 2;
        for (uint32_t i = 0; i < cases[c].n; i++) {
            assert_int_equal(s.cells[i], each * (i + 1));
            assert_int_equal(s.seen[i], 0);
        }
        destroy(s.team, memory, cases[c].n);
    }
}

struct trait {
    unsigned mxcsr;
    bool sealed;
    int processor;
    bool on_given_stack;
    bool blocks_sigint;
    uint8_t *memory;
    uint64_t bytes;
};

static void look_around(void *context, uint32_t member, uint32_t n) {
    (void)n;
    struct trait *t = (struct trait *)context + member;
    t->mxcsr = _mm_getcsr() & ~0x3Fu; /* without the sticky flags */
    t->sealed = phase_thread_is_sealed();
    t->processor = sched_getcpu();
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    t->on_given_stack = here >= (uintptr_t)t->memory && here < (uintptr_t)t->memory + t->bytes;
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    t->blocks_sigint = sigismember(&mask, SIGINT) == 1;
}

static void members_are_as_promised(void **state) {
    (void)state;
    cpu_set_t before, after;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    int cpus[4], n_cpus = 0;
    for (int i = 0; i < CPU_SETSIZE && n_cpus < 4; i++)
        if (CPU_ISSET((size_t)i, &before))
            cpus[n_cpus++] = i;
    for (int i = n_cpus; i < 4; i++)
        cpus[i] = cpus[i % n_cpus];
    unsigned mxcsr = _mm_getcsr();
    _mm_setcsr(mxcsr | 0x8040); /* flush to zero, denormals are zero */
    void *memory;
    struct team *t = create(4, cpus, &memory);
    struct trait traits[4];
    for (int i = 0; i < 4; i++)
        traits[i] = (struct trait){.memory = memory, .bytes = team_bytes(4)};
    struct phase *p = &phase;
    phase_advance(p, PHASE_SEALED);
    team_run(t, look_around, traits);
    phase_init(p);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(traits[i].mxcsr, 0x1F80);
        assert_int_equal(traits[i].processor, cpus[i]);
        assert_int_equal(traits[i].sealed, i != 0); /* the caller never said */
        assert_int_equal(traits[i].blocks_sigint, i != 0);
#if !defined(__SANITIZE_ADDRESS__) /* has stacks of its own for address-taken locals */
        assert_int_equal(traits[i].on_given_stack, i != 0);
#endif
    }
    destroy(t, memory, 4);
    assert_int_equal(sched_getaffinity(0, sizeof after, &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
    assert_int_equal(_mm_getcsr() & 0x8040, 0x8040);
    _mm_setcsr(mxcsr);
}

static void a_processor_that_is_not_there(void **state) {
    (void)state;
    static const int bad[] = {-1, CPU_SETSIZE, CPU_SETSIZE - 1};
    void *memory;
    stator_error e;
    assert_int_equal(pages_map(team_bytes(2), "team", &memory, &e), STATOR_OK);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cpu_set_t before, after;
        sched_getaffinity(0, sizeof before, &before);
        if (bad[i] == CPU_SETSIZE - 1 && CPU_ISSET((size_t)bad[i], &before))
            continue;
        int first = 0;
        while (!CPU_ISSET((size_t)first, &before))
            first++;
        int cpus[2] = {first, bad[i]};
        struct team *t = (struct team *)memory;
        assert_int_equal(team_create(2, cpus, TEAM_ALONE, &phase, memory, team_bytes(2), &t, &e),
                         STATOR_FAILED);
        assert_null(t);
        char number[16];
        snprintf(number, sizeof number, "%d", bad[i]);
        assert_non_null(strstr(e.text, number));
        sched_getaffinity(0, sizeof after, &after);
        assert_true(CPU_EQUAL(&before, &after));
    }
    pages_unmap(memory, team_bytes(2));
}

static void create_and_destroy(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 60; i++) {
        uint32_t n = 1 + i % 6;
        void *memory;
        struct sums s = {.rounds = i % 3};
        s.team = create(n, NULL, &memory);
        if (i % 2 == 0)
            team_run(s.team, add_rounds, &s);
        destroy(s.team, memory, n);
    }
    team_destroy(NULL);
}

static void touch(void *context, uint32_t member, uint32_t n) {
    (void)n;
    ((uint64_t *)context)[member * 8]++;
}

/* Longer than any spin: the members sleep and must wake. */
static void sleepers_wake(void **state) {
    (void)state;
    void *memory;
    uint64_t cells[3 * 8] = {0};
    struct team *t = create(3, NULL, &memory);
    for (int i = 0; i < 20; i++) {
        struct timespec nap = {.tv_nsec = 3000000};
        nanosleep(&nap, NULL);
        team_run(t, touch, cells);
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(cells[i * 8], 20);
    destroy(t, memory, 3);
}

#define SHARED_ITEMS 1000

struct sharing {
    struct team *team;
    uint64_t rounds;
    uint32_t idle; /* members 0 .. idle - 1 take nothing */
    uint8_t cells[SHARED_ITEMS];
    uint64_t wrong[TEAM_MAX];
};

static uint64_t items_of_round(uint64_t r) {
    return r % 3 == 0 ? r % 7 : (r * 37) % (SHARED_ITEMS + 1);
}

/* Plain bytes: two members at one item are a race for ThreadSanitizer too. */
static void share_rounds(void *context, uint32_t member, uint32_t n) {
    struct sharing *s = context;
    (void)n;
    for (uint64_t r = 0; r < s->rounds; r++) {
        const uint64_t items = items_of_round(r), least = 1 + r % 3, most = least + r % 20;
        struct team_share share = team_share_begin(s->team, member, 0, items);
        for (uint64_t first, end; member >= s->idle && team_share_take(&share, least, most, &first, &end);) {
            s->wrong[member] += first >= end || end > items || end - first > most;
            for (uint64_t i = first; i < end && i < SHARED_ITEMS; i++)
                s->cells[i]++;
        }
        team_barrier(s->team, member);
        if (member == 0)
            for (uint64_t i = 0; i < SHARED_ITEMS; i++) {
                s->wrong[0] += s->cells[i] != (i < items);
                s->cells[i] = 0;
            }
        team_barrier(s->team, member);
    }
}

/* Every item is taken once, whoever of the members works at all. */
static void shares_are_taken_once(void **state) {
    (void)state;
    static const struct {
        uint32_t n;
        uint32_t idle;
        uint64_t rounds;
    } cases[] = {{1, 0, 201}, {2, 0, 2001}, {2, 1, 201}, {3, 2, 201}, {5, 0, 301}, {16, 9, 31}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        void *memory;
        struct sharing s = {.rounds = cases[c].rounds, .idle = cases[c].idle};
        s.team = create(cases[c].n, NULL, &memory);
        for (int r = 0; r < 3; r++) /* an odd number of sharings leaves the other turn's count */
            team_run(s.team, share_rounds, &s);
        for (uint32_t i = 0; i < cases[c].n; i++)
            assert_int_equal(s.wrong[i], 0);
        destroy(s.team, memory, cases[c].n);
    }
}

static void only_barriers(void *context, uint32_t member, uint32_t n) {
    (void)n;
    struct sums *s = context;
    for (uint64_t r = 0; r < s->rounds; r++)
        team_barrier(s->team, member);
}

/* Figures for people; no limits, the machine may be busy. */
static void latency(void **state) {
    (void)state;
    static const uint32_t sizes[] = {2, 5};
    for (size_t c = 0; c < sizeof sizes / sizeof sizes[0]; c++) {
        void *memory;
        uint64_t cells[TEAM_MAX * 8] = {0};
        struct sums s = {.rounds = sizes[c] == 2 ? 20000 : 1000};
        s.team = create(sizes[c], NULL, &memory);
        uint64_t t0 = clock_ns();
        team_run(s.team, only_barriers, &s);
        uint64_t t1 = clock_ns();
        for (uint64_t i = 0; i < s.rounds; i++)
            team_run(s.team, touch, cells);
        uint64_t t2 = clock_ns();
        assert_int_equal(cells[0], s.rounds);
        print_message("# %u members on %u processors: barrier %.2f us, run %.2f us\n", sizes[c],
                      barrier_processors(), (double)(t1 - t0) / 1e3 / (double)s.rounds,
                      (double)(t2 - t1) / 1e3 / (double)s.rounds);
        destroy(s.team, memory, sizes[c]);
    }
}

static void event_times_out(void **state) {
    (void)state;
    struct barrier_event v;
    barrier_event_init(&v);
    uint32_t old = barrier_event_value(&v);
    uint64_t t0 = clock_ns();
    assert_false(barrier_event_wait(&v, old, 1, 5000000));
    assert_true(clock_ns() - t0 >= 5000000);
    assert_false(barrier_event_wait(&v, old, 1, 0));
    barrier_event_signal(&v);
    assert_true(barrier_event_wait(&v, old, 1, UINT64_MAX));
    assert_true(barrier_event_value(&v) != old);
}

struct waiting {
    struct barrier_event event;
    _Atomic uint32_t went_on;
};

static void *wait_for_change(void *context) {
    struct waiting *w = context;
    barrier_event_wait(&w->event, 0, 1, UINT64_MAX);
    atomic_store(&w->went_on, 1);
    return NULL;
}

static void wake_all(const struct ck_ec_ops *ops, const uint32_t *address) {
    (void)ops;
    syscall(SYS_futex, address, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* A signaller may be held up between its change and the end of its signal, and wakes who waits for the next
 * change: that one must go on waiting. */
static void late_wakes(void **state) {
    (void)state;
    static const struct ck_ec_ops ops = {.wake32 = wake_all};
    struct waiting w = {.went_on = 0};
    pthread_t thread;
    barrier_event_init(&w.event);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_change, &w), 0);
    for (uint32_t i = 0; i < 300000; i++)
        ck_ec32_wake(&w.event.count, &ops);
    assert_int_equal(atomic_load(&w.went_on), 0);
    barrier_event_signal(&w.event);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(&w.went_on), 1);
}

/* Plain memory, so that ThreadSanitizer judges whether one team works at a time. */
struct turn_taker {
    struct team *team;
    uint64_t *shared;
    uint32_t *inside;
    uint32_t runs, wrong;
};

static void add_in_turn(void *context, uint32_t member, uint32_t n) {
    struct turn_taker *t = context;
    (void)n;
    if (member == 0) {
        t->wrong += (*t->inside)++ != 0;
        *t->shared += 1;
    }
    team_barrier(t->team, member);
    if (member == 0)
        (*t->inside)--;
}

static void *take_turns(void *context) {
    struct turn_taker *t = context;
    void *memory = NULL;
    stator_error e;
    assert_int_equal(pages_map(team_bytes(2), "team", &memory, &e), STATOR_OK);
    assert_int_equal(team_create(2, NULL, TEAM_TURNS, &phase, memory, team_bytes(2), &t->team, &e),
                     STATOR_OK);
    for (uint32_t i = 0; i < t->runs; i++)
        team_run(t->team, add_in_turn, t);
    destroy(t->team, memory, 2);
    return NULL;
}

static void teams_take_turns(void **state) {
    (void)state;
    uint64_t shared = 0;
    uint32_t inside = 0;
    struct turn_taker takers[3];
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        takers[i] = (struct turn_taker){.shared = &shared, .inside = &inside, .runs = 2000};
        assert_int_equal(pthread_create(&threads[i], NULL, take_turns, &takers[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(takers[i].wrong, 0);
    }
    assert_int_equal(shared, 6000);
}

int main(void) {
    phase_init(&phase);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(event_times_out),         cmocka_unit_test(runs_and_barriers),
        cmocka_unit_test(members_are_as_promised), cmocka_unit_test(a_processor_that_is_not_there),
        cmocka_unit_test(create_and_destroy),      cmocka_unit_test(sleepers_wake),
        cmocka_unit_test(shares_are_taken_once),   cmocka_unit_test(late_wakes),
        cmocka_unit_test(teams_take_turns),        cmocka_unit_test(latency),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
