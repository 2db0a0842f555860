/* Which requests have events: one bit each, and a futex or an eventfd that wakes the polling thread.
 *
 * The eventfd is written only if the caller has asked for it, and only once until bell_quiet reads it. So it
 * is readable while a bit may be set. After bell_quiet the caller must look at the bits once more.
 *
 * Threads: any thread may ring, also in a signal handler. One at a time looks and waits. */
#ifndef STATOR_ENGINE_BELL_H
#define STATOR_ENGINE_BELL_H

#include "base/barrier.h"
#include "base/carve.h"

#include <stdatomic.h>

struct bell {
    struct barrier_event changed;
    _Atomic uint64_t *bits;
    uint32_t n;
    uint32_t next; /* where the next search begins, so that all requests get their turn */
    int fd;        /* 0: not open */
    _Atomic bool fd_wanted;
    _Atomic bool fd_signalled;
};

void bell_lay_out(struct bell *b, struct carve *c, uint32_t n);
void bell_ring(struct bell *b, uint32_t i);
/* Sets i's bit again: request i has more events. */
void bell_keep(struct bell *b, uint32_t i);
/* Finds a set bit and clears it; false: there is none. */
bool bell_next(struct bell *b, uint32_t *i);
/* A time for bell_wait. Bits that are set after this call are found by a later bell_next, or end the wait. */
uint32_t bell_now(const struct bell *b);
void bell_wait(struct bell *b, uint32_t since, uint64_t timeout_ns);

void bell_want_fd(struct bell *b);
bool bell_quiet(struct bell *b);     /* false: there is no descriptor */
void bell_signal_fd(struct bell *b); /* a bit was set after all */

#endif
