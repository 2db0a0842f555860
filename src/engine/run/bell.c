#include "engine/run/bell.h"

#include <errno.h>
#include <unistd.h>

#define SPIN 200 /* about 10 us: who follows a stream closely need not sleep */

void bell_lay_out(struct bell *b, struct carve *c, uint32_t n) {
    b->n = n;
    b->bits = carve_take(c, arith_ceil_div(n, 64), sizeof *b->bits);
    if (c->base != NULL)
        barrier_event_init(&b->changed);
}

void bell_signal_fd(struct bell *b) {
    if (!atomic_load(&b->fd_wanted) || atomic_exchange(&b->fd_signalled, true))
        return;
    int saved = errno;
    uint64_t one = 1;
    ssize_t n = write(b->fd, &one, sizeof one);
    CHECK(n == sizeof one || errno == EAGAIN); /* its count is 0 or 1 */
    errno = saved;
}

void bell_want_fd(struct bell *b) {
    atomic_store(&b->fd_wanted, true);
    for (uint32_t i = 0; i < b->n; i += 64)
        if (atomic_load(&b->bits[i / 64]) != 0)
            bell_signal_fd(b);
}

bool bell_quiet(struct bell *b) {
    if (!atomic_load(&b->fd_wanted))
        return false;
    uint64_t count = 0;
    ssize_t n = read(b->fd, &count, sizeof count);
    (void)n; /* EAGAIN: it is quiet, or who rings has not written yet: then there is one look too many */
    atomic_store(&b->fd_signalled, false);
    return true;
}

void bell_keep(struct bell *b, uint32_t i) {
    CHECK(i < b->n);
    atomic_fetch_or(&b->bits[i / 64], (uint64_t)1 << i % 64);
}

void bell_ring(struct bell *b, uint32_t i) {
    bell_keep(b, i);
    barrier_event_signal(&b->changed);
    bell_signal_fd(b);
}

bool bell_next(struct bell *b, uint32_t *i) {
    uint32_t words = (uint32_t)arith_ceil_div(b->n, 64);
    uint32_t first = b->next / 64;
    for (uint32_t k = 0; k <= words; k++) { /* the first word twice: its upper bits, at last its lower */
        uint32_t w = (first + k) % words;
        uint64_t bits = atomic_load(&b->bits[w]);
        if (k == 0)
            bits &= ~(uint64_t)0 << b->next % 64;
        if (bits == 0)
            continue;
        uint32_t bit = (uint32_t)__builtin_ctzll(bits);
        atomic_fetch_and(&b->bits[w], ~((uint64_t)1 << bit));
        *i = w * 64 + bit;
        CHECK(*i < b->n);
        b->next = (*i + 1) % b->n;
        return true;
    }
    return false;
}

uint32_t bell_now(const struct bell *b) {
    return barrier_event_value(&b->changed);
}

void bell_wait(struct bell *b, uint32_t since, uint64_t timeout_ns) {
    (void)barrier_event_wait(&b->changed, since, SPIN, timeout_ns);
}
