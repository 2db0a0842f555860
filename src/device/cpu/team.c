#include "device/cpu/team.h"

#include "base/arith.h"
#include "base/barrier.h"
#include "base/carve.h"
#include "os/pages.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <xmmintrin.h>

#define MXCSR_DEFAULT 0x1F80 /* round to nearest even, subnormals kept, exceptions masked */

struct member {
    struct team *team;
    pthread_t thread;
    uint32_t index;
    uint32_t turn[TEAM_LANES]; /* of the sharing that it is in */
    /* Items taken of its share in sharings of each turn. It clears the other turn's when a sharing begins:
     * the one before is over, and the next one comes after a barrier. */
    _Alignas(64) _Atomic uint64_t taken[TEAM_LANES][2];
};

/* A run: member 0 writes f and context, signals `go`, works, and waits in `done`, where the others only
 * arrive; they wait for the next `go`. */
struct team {
    struct barrier_event go;
    struct barrier done;
    struct barrier inner; /* team_barrier */
    void (*f)(void *context, uint32_t member, uint32_t n);
    void *context;
    bool stop; /* written before a go */
    uint32_t n;
    uint32_t started; /* threads that exist */
    uint32_t inside;  /* the spin of waits in a run, */
    uint32_t spin;    /* and of members that wait for the next one: written before a go */
    bool turns;
    const struct phase *phase;
    struct member *members; /* [n]; 0 has no thread of its own */
    uint8_t *stacks;        /* n - 1 times a guard page and a stack */
    bool pinned;
    cpu_set_t caller_set; /* what the caller had before */
    unsigned caller_mxcsr;
};

#define STACK_STRIDE ((uint64_t)PAGES_SIZE + TEAM_STACK)

static struct team *layout(struct carve *c, uint32_t n) {
    struct team *t = carve_take(c, 1, sizeof *t);
    struct member *members = carve_take(c, n, sizeof *members);
    /* One page more, so that guard pages can be whole pages wherever the memory begins. */
    uint8_t *stacks = carve_take(c, 1, arith_must_add(arith_must_mul(n - 1, STACK_STRIDE), PAGES_SIZE));
    if (t != NULL) {
        memset(t, 0, sizeof *t);
        memset(members, 0, n * sizeof *members);
        t->members = members;
        t->stacks = stacks + (PAGES_SIZE - (uintptr_t)stacks % PAGES_SIZE) % PAGES_SIZE;
    }
    return t;
}

uint64_t team_bytes(uint32_t n) {
    CHECK(n > 0 && n <= TEAM_MAX);
    struct carve c = carve_count();
    layout(&c, n);
    return c.used;
}

/* The process's handlers run on its own threads, not on our small stacks; faults of a member stay its own. */
static void block_signals(void) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
    sigset_t all;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        sigdelset(&all, faults[i]);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
}

static void *member_main(void *argument) {
    struct member *m = argument;
    struct team *t = m->team;
    block_signals();
    phase_thread_set(t->phase, PHASE_THREAD_ENGINE);
    _mm_setcsr(MXCSR_DEFAULT);
    uint32_t spin = BARRIER_SPIN_SHORT;
    for (uint32_t seen = 0;;) {
        barrier_event_wait(&t->go, seen, spin, UINT64_MAX);
        if (t->stop)
            return NULL;
        t->f(t->context, m->index, t->n);
        /* Before we arrive there is no next go. */
        seen = barrier_event_value(&t->go);
        spin = t->spin;
        barrier_arrive(&t->done);
    }
}

/* Starts thread i in its stack. */
static int start_member(struct team *t, uint32_t i, const int *cpus) {
    CHECK(i > 0 && i < t->n && t->started == i - 1);
    uint8_t *guard = t->stacks + (i - 1) * STACK_STRIDE;
    pthread_attr_t a;
    int rc = pthread_attr_init(&a);
    if (rc != 0)
        return rc;
    rc = pthread_attr_setstack(&a, guard + PAGES_SIZE, TEAM_STACK);
    if (rc == 0 && cpus != NULL) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET((size_t)cpus[i], &one);
        rc = pthread_attr_setaffinity_np(&a, sizeof one, &one);
    }
    if (rc == 0 && mprotect(guard, PAGES_SIZE, PROT_NONE) != 0)
        rc = errno;
    if (rc == 0) {
        t->members[i].team = t;
        t->members[i].index = i;
        rc = pthread_create(&t->members[i].thread, &a, member_main, &t->members[i]);
        if (rc == 0)
            t->started++;
        else
            mprotect(guard, PAGES_SIZE, PROT_READ | PROT_WRITE);
    }
    pthread_attr_destroy(&a);
    return rc;
}

/* Checks the processor numbers and pins the caller. *distinct: how many different ones there are. */
static stator_status pin_caller(struct team *t, const int *cpus, uint32_t *distinct, stator_error *e) {
    if (sched_getaffinity(0, sizeof t->caller_set, &t->caller_set) != 0)
        return error_set(e, STATOR_FAILED, "can't read the processors that this process may use: %s",
                         strerror(errno));
    cpu_set_t all;
    CPU_ZERO(&all);
    for (uint32_t i = 0; i < t->n; i++) {
        if (cpus[i] < 0 || cpus[i] >= CPU_SETSIZE || !CPU_ISSET((size_t)cpus[i], &t->caller_set))
            return error_set(
                e, STATOR_FAILED,
                "can't pin a worker thread to processor %d: this process may use %d processors, and that "
                "one is not among them (see taskset -p)",
                cpus[i], CPU_COUNT(&t->caller_set));
        CPU_SET((size_t)cpus[i], &all);
    }
    *distinct = (uint32_t)CPU_COUNT(&all);
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET((size_t)cpus[0], &first);
    if (sched_setaffinity(0, sizeof first, &first) != 0)
        return error_set(e, STATOR_FAILED, "can't pin the engine thread to processor %d: %s", cpus[0],
                         strerror(errno));
    t->pinned = true;
    return STATOR_OK;
}

stator_status team_create(uint32_t n, const int *cpus, enum team_company company, const struct phase *phase,
                          void *memory, uint64_t bytes, struct team **out, stator_error *e) {
    CHECK(n > 0 && n <= TEAM_MAX && phase != NULL);
    *out = NULL;
    struct carve c = carve_in(memory, bytes);
    struct team *t = layout(&c, n);
    t->n = n;
    t->phase = phase;
    CHECK(c.used <= bytes);
    t->caller_mxcsr = _mm_getcsr();
    uint32_t processors = barrier_processors();
    if (cpus != NULL) {
        stator_status st = pin_caller(t, cpus, &processors, e);
        if (st != STATOR_OK)
            return st;
    }
    const uint32_t inside =
        company != TEAM_CROWDED && n <= processors ? BARRIER_SPIN_LONG : BARRIER_SPIN_SHORT;
    t->turns = company == TEAM_TURNS;
    t->inside = t->spin = inside;
    barrier_event_init(&t->go);
    barrier_init(&t->done, n, inside);
    barrier_init(&t->inner, n, inside);
    _mm_setcsr(MXCSR_DEFAULT);
    for (uint32_t i = 1; i < n; i++) {
        int st = start_member(t, i, cpus);
        if (st != 0) {
            team_destroy(t);
            return error_set(e, STATOR_FAILED, "can't start worker thread %u of %u: %s", i, n - 1,
                             strerror(st));
        }
    }
    *out = t;
    return STATOR_OK;
}

void team_destroy(struct team *t) {
    if (t == NULL)
        return;
    t->stop = true;
    barrier_event_signal(&t->go);
    for (uint32_t i = 1; i <= t->started; i++) {
        int rc = pthread_join(t->members[i].thread, NULL);
        CHECK(rc == 0);
        rc = mprotect(t->stacks + (i - 1) * STACK_STRIDE, PAGES_SIZE, PROT_READ | PROT_WRITE);
        CHECK(rc == 0);
    }
    _mm_setcsr(t->caller_mxcsr);
    if (t->pinned) /* the set may have shrunk meanwhile; then the kernel keeps what is left */
        (void)sched_setaffinity(0, sizeof t->caller_set, &t->caller_set);
}

/* Whose turn it is, of all teams of the process that take turns: tickets are given in order, and the event
 * counts the turns that are over. */
static struct {
    _Atomic uint32_t tickets;
    struct barrier_event over;
    const struct team *last; /* that had a turn; whoever has one may look */
} turns;
#define TICKETS 0x7FFFFFFFu /* bits of an event's value */

/* While a team is the only one that works, its members spin for their next run, else they sleep at once: the
 * processors are the others'. */
static void take_turn(struct team *t) {
    const uint32_t ticket = atomic_fetch_add(&turns.tickets, 1) & TICKETS;
    for (uint32_t over; (over = barrier_event_value(&turns.over)) != ticket;)
        barrier_event_wait(&turns.over, over, BARRIER_SPIN_SHORT, UINT64_MAX);
    t->spin = turns.last == t ? t->inside : BARRIER_SPIN_SHORT;
    turns.last = t;
}

void team_run(struct team *t, void (*f)(void *context, uint32_t member, uint32_t n), void *context) {
    CHECK(f != NULL && !t->stop);
    if (t->turns)
        take_turn(t);
    if (t->n == 1) {
        f(context, 0, 1);
    } else {
        t->f = f;
        t->context = context;
        barrier_event_signal(&t->go);
        f(context, 0, t->n);
        barrier_wait(&t->done);
    }
    if (t->turns)
        barrier_event_signal(&turns.over);
}

void team_barrier(struct team *t, uint32_t member) {
    DCHECK(member < t->n);
    (void)member;
    if (t->n > 1)
        barrier_wait(&t->inner);
}

uint32_t team_size(const struct team *t) {
    return t->n;
}

struct team_share team_share_begin(struct team *t, uint32_t member, uint32_t lane, uint64_t items) {
    CHECK(member < t->n && lane < TEAM_LANES);
    struct member *m = &t->members[member];
    const uint32_t turn = m->turn[lane] ^= 1;
    atomic_store_explicit(&m->taken[lane][turn ^ 1], 0, memory_order_relaxed);
    return (struct team_share){.team = t, .items = items, .member = member, .lane = lane, .turn = turn};
}

/* A quarter of what is left at a time, so that the last pieces are small; alone all. */
bool team_share_take(struct team_share *s, uint64_t least, uint64_t most, uint64_t *first, uint64_t *end) {
    const uint64_t n = s->team->n;
    CHECK(n > 0 && least > 0 && least <= most);
    for (; s->helped < n; s->helped++) {
        const uint64_t whose = (s->member + s->helped) % n;
        const uint64_t begin = s->items * whose / n, all = s->items * (whose + 1) / n - begin;
        _Atomic uint64_t *taken = &s->team->members[whose].taken[s->lane][s->turn];
        const uint64_t before = atomic_load_explicit(taken, memory_order_relaxed);
        if (before >= all)
            continue;
        const uint64_t next = n > 1 ? (all - before) / 4 : all;
        const uint64_t piece = ARITH_MIN(ARITH_MAX(next, least), most);
        const uint64_t at = atomic_fetch_add_explicit(taken, piece, memory_order_relaxed);
        if (at < all) {
            *first = begin + at;
            *end = begin + ARITH_MIN(at + piece, all);
            return true;
        }
    }
    return false;
}
