#include "server/http/edge_thread.h"

#include "base/check.h"
#include "server/http/edge_pool.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096
#if defined(__SANITIZE_THREAD__) /* whose state is on the stack */
#define STACK (4096 * 1024)
#else
#define STACK (1024 * 1024)
#endif

/* The stack begins with a page that nobody may touch. */
static char *guard(const struct edge_thread *t) {
    return (char *)(((uintptr_t)t->stack + PAGE - 1) / PAGE * PAGE);
}

stator_status edge_thread_prepare(struct edge_thread *t, const char *what, stator_error *e) {
    CHECK(t->stack == NULL);
    t->stack = edge_pool_alloc(STACK + 2 * PAGE);
    if (t->stack == NULL)
        return error_set(e, STATOR_DOES_NOT_FIT, "server.memory is too small for the stack of %s: raise it",
                         what);
    if (mprotect(guard(t), PAGE, PROT_NONE) == 0)
        return STATOR_OK;
    const int why = errno;
    edge_pool_free(t->stack);
    t->stack = NULL;
    return error_set(e, STATOR_FAILED, "a page of the stack of %s can't be protected: %s", what,
                     strerror(why));
}

stator_status edge_thread_start(struct edge_thread *t, const char *what, void *(*run)(void *context),
                                void *context, stator_error *e) {
    CHECK(t->stack != NULL && !t->runs);
    pthread_attr_t attr;
    int rc = pthread_attr_init(&attr);
    CHECK(rc == 0);
    rc = pthread_attr_setstack(&attr, guard(t) + PAGE, STACK);
    if (rc == 0)
        rc = pthread_create(&t->id, &attr, run, context);
    pthread_attr_destroy(&attr);
    t->runs = rc == 0;
    return t->runs ? STATOR_OK : error_set(e, STATOR_FAILED, "%s can't be started: %s", what, strerror(rc));
}

void edge_thread_join(struct edge_thread *t) {
    if (!t->runs)
        return;
    const int rc = pthread_join(t->id, NULL);
    CHECK(rc == 0);
    t->runs = false;
}

void edge_thread_free(struct edge_thread *t) {
    CHECK(!t->runs);
    if (t->stack == NULL)
        return;
    const int rc = mprotect(guard(t), PAGE, PROT_READ | PROT_WRITE); /* the memory is the pool's again */
    CHECK(rc == 0);
    edge_pool_free(t->stack);
    t->stack = NULL;
}
