/* Which requests have something to tell: a bit for each, and what the polling thread sleeps on or is told by.
 *
 * The descriptor (eventfd) is written only after somebody has asked for it, once until it is quiet again: it
 * is readable while a bit may be set, and bell_quiet makes it unreadable, after which the bits are to be
 * looked at once more.
 *
 * Threads: any may ring, from a signal handler too; one at a time looks and waits. */
#ifndef STATOR_ENGINE_BELL_H
#define STATOR_ENGINE_BELL_H

#include "base/barrier.h"
#include "base/carve.h"

#include <stdatomic.h>

struct bell {
    struct barrier_event changed;
    _Atomic uint64_t *bits;
    uint32_t n;
    uint32_t next; /* where the next look begins, so that all get their turn */
    int fd;        /* 0: not open */
    _Atomic bool fd_wanted;
    _Atomic bool fd_signalled;
};

void bell_lay_out(struct bell *b, struct carve *c, uint32_t n);
void bell_ring(struct bell *b, uint32_t i);
/* By who looked at i and found that there is more. */
void bell_keep(struct bell *b, uint32_t i);
/* The next that has rung, which is taken note of; false: none. */
bool bell_next(struct bell *b, uint32_t *i);
/* Bits after it are seen by a look after this, or end the wait. */
uint32_t bell_now(const struct bell *b);
void bell_wait(struct bell *b, uint32_t since, uint64_t timeout_ns);

void bell_want_fd(struct bell *b);
bool bell_quiet(struct bell *b);     /* false: nobody wants it */
void bell_signal_fd(struct bell *b); /* there is more after all */

#endif
