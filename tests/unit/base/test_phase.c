/* base/phase: phases go forward one by one; only engine threads of a sealed engine are sealed, each by its
 * own engine. */
#include "testing.h"

#include "os/pages.h"
#include "base/phase.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

static void forward(void **state) {
    (void)state;
    struct phase p;
    phase_init(&p);
    assert_int_equal(phase_get(&p), PHASE_START_UP);
    phase_advance(&p, PHASE_SEALED);
    assert_int_equal(phase_get(&p), PHASE_SEALED);
    phase_advance(&p, PHASE_SHUTDOWN);
    assert_int_equal(phase_get(&p), PHASE_SHUTDOWN);
}

static void skip_a_phase(void) {
    struct phase p;
    phase_init(&p);
    phase_advance(&p, PHASE_SHUTDOWN);
}

static void go_back(void) {
    struct phase p;
    phase_init(&p);
    phase_advance(&p, PHASE_SEALED);
    phase_advance(&p, PHASE_START_UP);
}

static void engine_without_a_phase(void) {
    phase_thread_set(NULL, PHASE_THREAD_ENGINE);
}

static void map_while_sealed(void) {
    struct phase p;
    phase_init(&p);
    phase_thread_set(&p, PHASE_THREAD_ENGINE);
    phase_advance(&p, PHASE_SEALED);
    void *memory = NULL;
    stator_error e;
    pages_map(4096, "test", &memory, &e);
}

static void aborts(void (*f)(void)) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL); /* cmocka catches it */
        assert_non_null(freopen("/dev/null", "w", stderr));
        f();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void wrong_use_aborts(void **state) {
    (void)state;
    aborts(skip_a_phase);
    aborts(go_back);
    aborts(engine_without_a_phase);
    aborts(map_while_sealed);
}

struct thread {
    const struct phase *phase;
    enum phase_thread kind;
    bool says;
    bool sealed;
};

static void *look(void *argument) {
    struct thread *t = argument;
    if (t->says)
        phase_thread_set(t->phase, t->kind);
    t->sealed = phase_thread_is_sealed();
    return NULL;
}

static bool sealed_in_thread(struct thread t) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, look, &t), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    return t.sealed;
}

static void threads_are_told_apart(void **state) {
    (void)state;
    struct phase starting, sealed, closing;
    phase_init(&starting);
    phase_init(&sealed);
    phase_advance(&sealed, PHASE_SEALED);
    phase_init(&closing);
    phase_advance(&closing, PHASE_SEALED);
    phase_advance(&closing, PHASE_SHUTDOWN);
    assert_true(sealed_in_thread((struct thread){&sealed, PHASE_THREAD_ENGINE, true, false}));
    assert_false(sealed_in_thread((struct thread){&sealed, PHASE_THREAD_EDGE, true, true}));
    assert_false(sealed_in_thread((struct thread){&sealed, PHASE_THREAD_DRIVER, true, true}));
    assert_false(sealed_in_thread((struct thread){&sealed, PHASE_THREAD_ENGINE, false, true}));
    assert_false(sealed_in_thread((struct thread){&starting, PHASE_THREAD_ENGINE, true, true}));
    assert_false(sealed_in_thread((struct thread){&closing, PHASE_THREAD_ENGINE, true, true}));
    assert_false(sealed_in_thread((struct thread){NULL, PHASE_THREAD_EDGE, true, true}));
    assert_false(phase_thread_is_sealed());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward),
        cmocka_unit_test(wrong_use_aborts),
        cmocka_unit_test(threads_are_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
