/* A thread whose stack is a part of the edge pool: it takes nothing from the system after the seal. */
#ifndef STATOR_SERVER_EDGE_THREAD_H
#define STATOR_SERVER_EDGE_THREAD_H

#include "base/error.h"

#include <pthread.h>
#include <stdbool.h>

struct edge_thread { /* all zero: there is none */
    pthread_t id;
    void *stack; /* the pool's */
    bool runs;   /* it was started, and not joined yet */
};

/* Takes the stack (1 MiB) from the pool. STATOR_DOES_NOT_FIT: the pool has no room; STATOR_FAILED: its lowest
 * page, which stops what overflows it, can't be protected. what: of the thread, for the error's text. */
stator_status edge_thread_prepare(struct edge_thread *t, const char *what, stator_error *e);
/* Starts it; STATOR_FAILED: the system gives no thread. */
stator_status edge_thread_start(struct edge_thread *t, const char *what, void *(*run)(void *context),
                                void *context, stator_error *e);
/* Waits for its end, if it was started. */
void edge_thread_join(struct edge_thread *t);
/* After edge_thread_join: gives the stack back, if there is one. */
void edge_thread_free(struct edge_thread *t);

#endif
