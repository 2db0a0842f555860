#include "app/limits.h"

#include "stator.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#define STACK_LEAST (1u << 20) /* of the process */
#define STACK       (8u << 20) /* the usual one */

struct call {
    int (*f)(int argc, char **argv);
    int argc;
    char **argv;
    int code;
};

static void *run(void *context) {
    struct call *c = context;
    c->code = c->f(c->argc, c->argv);
    return NULL;
}

static int call_on_own_stack(struct call *c) {
    pthread_attr_t a;
    pthread_t thread;
    int rc = pthread_attr_init(&a);
    if (rc == 0)
        rc = pthread_attr_setstacksize(&a, STACK);
    if (rc == 0) /* for the threads of drivers and libraries, which would get the limited size */
        rc = pthread_setattr_default_np(&a);
    if (rc == 0)
        rc = pthread_create(&thread, &a, run, c);
    if (rc == 0)
        rc = pthread_join(thread, NULL);
    if (rc == 0)
        return c->code;
    fprintf(
        stderr,
        "stator: the stack is limited to less than %u KiB (ulimit -s), and another of %u KiB can't be made: "
        "%s\n",
        STACK_LEAST / 1024, STACK / 1024, strerror(rc));
    return STATOR_FAILED;
}

int limits_call(int (*f)(int argc, char **argv), int argc, char **argv) {
    struct call c = {.f = f, .argc = argc, .argv = argv};
    struct rlimit stack;
    /* A write beyond ulimit -f then fails with an error, as one on a full disk does. */
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigemptyset(&ignore.sa_mask);
    sigaction(SIGXFSZ, &ignore, NULL);
    if (getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur != RLIM_INFINITY &&
        stack.rlim_cur < STACK_LEAST)
        return call_on_own_stack(&c);
    return f(argc, argv);
}
