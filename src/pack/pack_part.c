/* What all strategies share; see pack_part.h. */
#include "pack/pack_part.h"

#include "base/clock.h"

#include <string.h>

#define CLOCK_EVERY 64 /* payments between two looks at the clock */

bool pack_budget_spend(struct pack_budget *b, uint64_t *steps) {
    uint64_t paid = ARITH_MIN(*steps, b->steps);
    b->steps -= paid;
    b->overspent += *steps - paid;
    *steps = 0;
    if (b->deadline > 0 && b->until_clock-- == 0) {
        b->until_clock = CLOCK_EVERY;
        b->expired = b->expired || clock_ns() >= b->deadline;
    }
    b->expired = b->expired || (b->stop != NULL && atomic_load_explicit(b->stop, memory_order_relaxed) != 0);
    return b->steps > 0 && !b->expired;
}

struct pack_budget pack_budget_share(struct pack_budget *all, uint64_t steps) {
    struct pack_budget share = *all;
    share.steps = ARITH_MIN(steps, all->steps);
    share.overspent = 0;
    all->steps -= share.steps;
    return share;
}

void pack_budget_return(struct pack_budget *all, const struct pack_budget *share) {
    all->steps += share->steps;
    uint64_t paid = ARITH_MIN(share->overspent, all->steps);
    all->steps -= paid;
    all->overspent += share->overspent - paid;
    all->until_clock = share->until_clock;
    all->expired = share->expired;
}

void pack_part_measure(struct pack_part *p) {
    p->peak = 0;
    for (uint32_t i = 0; i < p->n; i++)
        p->peak = ARITH_MAX(p->peak, p->offsets[i] + p->items[i].size);
}

void pack_part_live(const struct pack_part *p, uint64_t align, uint64_t *live) {
    memset(live, 0, ((uint64_t)p->sections + 1) * sizeof *live);
    for (uint32_t i = 0; i < p->n; i++) { /* differences, modulo 2^64 */
        uint64_t size = pack_part_align(p->items[i].size, align);
        live[p->items[i].lo] += size;
        live[p->items[i].hi] -= size;
    }
    for (uint32_t k = 1; k <= p->sections; k++)
        live[k] += live[k - 1];
}

void pack_part_sort(struct pack_key *keys, struct pack_key *spare, uint32_t n) {
    struct pack_key *from = keys, *to = spare;
    for (uint64_t run = 1; run < n; run *= 2) {
        for (uint64_t begin = 0; begin < n; begin += 2 * run) {
            uint64_t middle = ARITH_MIN(begin + run, n), end = ARITH_MIN(begin + 2 * run, n);
            uint64_t l = begin, r = middle;
            for (uint64_t out = begin; out < end; out++) {
                const struct pack_key *x = &from[l], *y = &from[r];
                bool left = r == end;
                if (l < middle && r < end) {
                    left = x->a != y->a ? x->a < y->a : x->b != y->b ? x->b < y->b : x->index < y->index;
                }
                to[out] = left ? from[l++] : from[r++];
            }
        }
        struct pack_key *swap = from;
        from = to;
        to = swap;
    }
    if (from != keys)
        memcpy(keys, from, n * sizeof *keys);
}
