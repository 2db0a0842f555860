/* tests/interpose.h catches what a sealed engine thread allocates, and nothing else; and what must not
 * allocate while sealed (team, ring) does not. */
#include "testing.h"

#include "interpose.h"

#include "os/pages.h"
#include "engine/run/ring.h"
#include "device/cpu/team.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

static struct phase phase;
static void *volatile kept; /* volatile: the compiler may not drop a malloc with its free */

static void *do_nothing(void *argument) {
    return argument;
}

static void call_malloc(void) {
    kept = malloc(1234);
    free(kept);
}
static void call_calloc(void) {
    kept = calloc(3, 5);
    free(kept);
}
static void call_realloc(void) {
    kept = NULL; /* of a constant NULL the compiler makes malloc */
    kept = realloc(kept, 77);
    free(kept);
}
static void call_aligned(void) {
    kept = aligned_alloc(64, 640);
    free(kept);
    void *p = NULL;
    if (posix_memalign(&p, 64, 641) == 0)
        free(p);
    kept = memalign(64, 642);
    free(kept);
}
static void call_mmap(void) {
    void *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    p = mremap(p, 8192, 16384, MREMAP_MAYMOVE);
    munmap(p, 16384);
}
static void call_sbrk(void) {
    kept = sbrk(0);
    kept = brk(kept) == 0 ? kept : NULL;
}
static void call_pthread_create(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, do_nothing, NULL) == 0)
        pthread_join(thread, NULL);
}
static void call_strdup(void) /* libc's own malloc */
{
    kept = strdup("a text");
    free(kept);
}
static void call_fopen(void) {
    FILE *f = fopen("/dev/null", "r");
    if (f != NULL)
        fclose(f);
}
static void call_nothing(void) {
    static char text[64];
    snprintf(text, sizeof text, "%d %s %g", 5, "text", 0.25);
    kept = memchr(text, 't', 7);
    free(NULL);
}

static const struct {
    const char *name;
    void (*call)(void);
    const char *functions[7]; /* violations in order; "*": and maybe others behind */
    size_t size;              /* of the first */
} calls[] = {
    {"malloc", call_malloc, {"malloc", "free"}, 1234},
    {"calloc", call_calloc, {"calloc", "free"}, 15},
    {"realloc", call_realloc, {"realloc", "free"}, 77},
    {"aligned", call_aligned, {"aligned_alloc", "free", "posix_memalign", "free", "memalign", "free"}, 640},
    {"mmap", call_mmap, {"mmap", "mremap", "munmap"}, 8192},
    {"sbrk", call_sbrk, {"sbrk", "brk"}, 0},
    {"pthread_create", call_pthread_create, {"pthread_create", "*"}, 0},
    {"strdup", call_strdup, {"malloc", "free"}, 7},
    {"fopen", call_fopen, {"malloc", "*"}, 0},
    {"nothing", call_nothing, {NULL}, 0},
};
#define CALLS (sizeof calls / sizeof calls[0])

struct job {
    enum phase_thread kind;
    void (*call)(void);
};

static void *run_job(void *argument) {
    struct job *j = argument;
    phase_thread_set(&phase, j->kind);
    j->call();
    return NULL;
}

static void in_thread(enum phase_thread kind, void (*call)(void)) {
    struct job j = {kind, call};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_job, &j), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void enter(enum phase_id id) {
    phase_init(&phase);
    for (enum phase_id i = PHASE_START_UP; i < id; i++)
        phase_advance(&phase, i + 1);
}

static void sealed_engine_threads_are_caught(void **state) {
    (void)state;
    INTERPOSE_NEED();
    for (size_t i = 0; i < CALLS; i++) {
        enter(PHASE_SEALED);
        interpose_reset(INTERPOSE_COUNT);
        in_thread(PHASE_THREAD_ENGINE, calls[i].call);
        uint64_t found = interpose_violations(), expected = 0;
        bool more = false;
        for (size_t k = 0; k < 7 && calls[i].functions[k] != NULL; k++) {
            more = strcmp(calls[i].functions[k], "*") == 0;
            if (more)
                break;
            const struct interpose_violation *v = interpose_violation(expected++);
            if (v == NULL)
                fail_msg("%s: %s was not caught", calls[i].name, calls[i].functions[k]);
            assert_string_equal(v->function, calls[i].functions[k]);
            assert_true(v->n_frames >= 3);
            assert_true(k > 0 || calls[i].size == 0 || v->size == calls[i].size);
        }
        if (more ? found < expected : found != expected)
            fail_msg("%s: %llu calls were caught", calls[i].name, (unsigned long long)found);
    }
}

static void others_are_free(void **state) {
    (void)state;
    INTERPOSE_NEED();
    for (size_t i = 0; i < CALLS; i++) {
        enter(PHASE_SEALED);
        interpose_reset(INTERPOSE_ABORT);
        in_thread(PHASE_THREAD_EDGE, calls[i].call);
        in_thread(PHASE_THREAD_DRIVER, calls[i].call);
        calls[i].call(); /* of a thread that never said */
        enter(PHASE_START_UP);
        in_thread(PHASE_THREAD_ENGINE, calls[i].call);
        enter(PHASE_SHUTDOWN);
        in_thread(PHASE_THREAD_ENGINE, calls[i].call);
        assert_int_equal(interpose_violations(), 0);
        assert_true(interpose_calls() > 0); /* they were seen, though */
    }
}

static void more_than_are_recorded(void) {
    for (int i = 0; i < 3 * INTERPOSE_MOST; i++)
        call_malloc();
}

static void many_are_counted(void **state) {
    (void)state;
    INTERPOSE_NEED();
    enter(PHASE_SEALED);
    interpose_reset(INTERPOSE_COUNT);
    in_thread(PHASE_THREAD_ENGINE, more_than_are_recorded);
    assert_int_equal(interpose_violations(), 6 * INTERPOSE_MOST);
    assert_non_null(interpose_violation(INTERPOSE_MOST - 1));
    assert_null(interpose_violation(INTERPOSE_MOST));
}

static void abort_names_the_call(void **state) {
    (void)state;
    INTERPOSE_NEED();
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL); /* cmocka catches it */
        dup2(fds[1], STDERR_FILENO);
        enter(PHASE_SEALED);
        interpose_reset(INTERPOSE_ABORT);
        phase_thread_set(&phase, PHASE_THREAD_ENGINE);
        call_malloc();
        _exit(0);
    }
    close(fds[1]);
    char text[4096];
    size_t n = 0;
    for (ssize_t got; n < sizeof text - 1 && (got = read(fds[0], text + n, sizeof text - 1 - n)) > 0;)
        n += (size_t)got;
    text[n] = '\0';
    close(fds[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(text, "malloc of 1234 bytes by a sealed engine thread"));
}

static void add_one(void *context, uint32_t member, uint32_t n) {
    (void)n;
    ((uint64_t *)context)[member * 8]++;
}

struct allocating {
    struct team *team;
    uint32_t who;
};

static void allocate_in_one(void *context, uint32_t member, uint32_t n) {
    (void)n;
    struct allocating *a = context;
    team_barrier(a->team, member);
    if (member == a->who)
        call_malloc();
}

/* Runs, barriers, sleeps and wakes allocate nothing; an allocation by any member is seen. */
static void a_sealed_team(void **state) {
    (void)state;
    INTERPOSE_NEED();
    enter(PHASE_START_UP);
    void *memory;
    struct team *t;
    stator_error e;
    assert_int_equal(pages_map(team_bytes(3), "team", &memory, &e), STATOR_OK);
    assert_int_equal(team_create(3, NULL, TEAM_ALONE, &phase, memory, team_bytes(3), &t, &e), STATOR_OK);
    phase_thread_set(&phase, PHASE_THREAD_ENGINE);
    uint64_t cells[3 * 8] = {0};
    interpose_reset(INTERPOSE_COUNT);
    phase_advance(&phase, PHASE_SEALED);
    for (int i = 0; i < 200; i++) {
        struct timespec nap = {.tv_nsec = 2000000};
        if (i % 20 == 0)
            nanosleep(&nap, NULL);
        team_run(t, add_one, cells);
    }
    uint64_t quiet = interpose_violations();
    uint64_t caught[3];
    for (uint32_t i = 0; i < 3; i++) {
        struct allocating a = {t, i};
        team_run(t, allocate_in_one, &a);
        caught[i] = interpose_violations();
    }
    phase_advance(&phase, PHASE_SHUTDOWN);
    phase_thread_set(NULL, PHASE_THREAD_EDGE);
    team_destroy(t);
    pages_unmap(memory, team_bytes(3));
    assert_int_equal(quiet, 0);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(caught[i], 2 * (i + 1));
}

static struct ring *requests, *answers;

static void answer(void) {
    uint64_t v = 0;
    while (v != 99) {
        while (!ring_pop(requests, &v))
            ring_wait(requests, 1000000);
        v++;
        while (!ring_push(answers, &v))
            continue;
        v--;
    }
}

static void *be_engine(void *argument) {
    struct job j = {PHASE_THREAD_ENGINE, answer};
    (void)argument;
    return run_job(&j);
}

static void a_sealed_ring(void **state) {
    (void)state;
    INTERPOSE_NEED();
    enter(PHASE_SEALED);
    interpose_reset(INTERPOSE_COUNT);
    uint64_t bytes = ring_bytes(4, 8);
    void *memory[2] = {aligned_alloc(64, bytes), aligned_alloc(64, bytes)};
    requests = ring_init(memory[0], bytes, 4, 8);
    answers = ring_init(memory[1], bytes, 4, 8);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, be_engine, NULL), 0);
    for (uint64_t i = 0; i < 100; i++) {
        struct timespec nap = {.tv_nsec = 3000000};
        if (i % 20 == 0)
            nanosleep(&nap, NULL);
        uint64_t v = i;
        assert_true(ring_push(requests, &v));
        while (!ring_pop(answers, &v))
            ring_wait(answers, UINT64_MAX);
        assert_int_equal(v, i + 1);
    }
    pthread_join(thread, NULL);
    assert_int_equal(interpose_violations(), 0);
    free(memory[0]);
    free(memory[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sealed_engine_threads_are_caught),
        cmocka_unit_test(others_are_free),
        cmocka_unit_test(many_are_counted),
        cmocka_unit_test(abort_names_the_call),
        cmocka_unit_test(a_sealed_team),
        cmocka_unit_test(a_sealed_ring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
