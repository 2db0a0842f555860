/* Compacts a packing: from the lowest block up, each moves down onto the highest of the blocks below it that
 * live at the same time, rounded up to its own alignment. This regains what aligning every block to the
 * largest alignment has lost. No block rises: those below it have not risen, and its old offset was aligned.
 *
 * A tree of maxima tells the highest top in a range of sections; tops only grow. */
#include "pack/pack_strategy.h"

#include <string.h>

struct compaction {
    uint32_t leaves;       /* a power of two */
    uint64_t *highest;     /* [2 * leaves] below a node; leaf i is section i */
    uint64_t *everywhere;  /* [2 * leaves] every section below a node is at least so high */
    struct pack_key *keys; /* [n] */
    struct pack_key *spare;
};

static struct compaction layout(struct carve *c, uint32_t n) {
    struct compaction s = {.leaves = 1};
    while (s.leaves < n)
        s.leaves *= 2;
    s.highest = carve_take(c, 2 * (uint64_t)s.leaves, sizeof *s.highest);
    s.everywhere = carve_take(c, 2 * (uint64_t)s.leaves, sizeof *s.everywhere);
    s.keys = carve_take(c, n, sizeof *s.keys);
    s.spare = carve_take(c, n, sizeof *s.spare);
    return s;
}

uint64_t pack_compact_bytes(uint32_t n) {
    struct carve c = carve_count();
    layout(&c, n);
    return c.used;
}

static uint64_t highest_in(const struct compaction *s, uint32_t lo, uint32_t hi) {
    uint64_t most = 0;
    for (uint32_t l = lo + s->leaves, r = hi + s->leaves; l < r; l /= 2, r /= 2) {
        if (l % 2 == 1) {
            most = ARITH_MAX(most, s->highest[l]);
            l++;
        }
        if (r % 2 == 1) {
            r--;
            most = ARITH_MAX(most, s->highest[r]);
        }
    }
    for (uint32_t l = lo + s->leaves, r = hi - 1 + s->leaves; l > 0; l /= 2, r /= 2) {
        most = ARITH_MAX(most, s->everywhere[l]);
        most = ARITH_MAX(most, s->everywhere[r]);
    }
    return most;
}

static void raise(struct compaction *s, uint32_t lo, uint32_t hi, uint64_t top) {
    for (uint32_t l = lo + s->leaves, r = hi + s->leaves; l < r; l /= 2, r /= 2) {
        if (l % 2 == 1) {
            s->highest[l] = ARITH_MAX(s->highest[l], top);
            s->everywhere[l] = ARITH_MAX(s->everywhere[l], top);
            l++;
        }
        if (r % 2 == 1) {
            r--;
            s->highest[r] = ARITH_MAX(s->highest[r], top);
            s->everywhere[r] = ARITH_MAX(s->everywhere[r], top);
        }
    }
    for (uint32_t l = lo + s->leaves, r = hi - 1 + s->leaves; l > 0; l /= 2, r /= 2) {
        s->highest[l] = ARITH_MAX(s->highest[l], top);
        s->highest[r] = ARITH_MAX(s->highest[r], top);
    }
}

void pack_compact(struct pack_part *p, struct carve work) {
    struct compaction s = layout(&work, p->n);
    CHECK(s.spare != NULL && p->sections <= p->n && p->peak != UINT64_MAX);
    memset(s.highest, 0, 2 * (uint64_t)s.leaves * sizeof *s.highest);
    memset(s.everywhere, 0, 2 * (uint64_t)s.leaves * sizeof *s.everywhere);
    for (uint32_t i = 0; i < p->n; i++)
        s.keys[i] = (struct pack_key){p->offsets[i], 0, i};
    pack_part_sort(s.keys, s.spare, p->n);
    p->peak = 0;
    for (uint32_t k = 0; k < p->n; k++) {
        uint32_t i = s.keys[k].index;
        const struct pack_item *it = &p->items[i];
        uint64_t offset = pack_part_align(highest_in(&s, it->lo, it->hi), it->align);
        CHECK(offset <= p->offsets[i]);
        p->offsets[i] = offset;
        raise(&s, it->lo, it->hi, offset + it->size);
        p->peak = ARITH_MAX(p->peak, offset + it->size);
    }
}
