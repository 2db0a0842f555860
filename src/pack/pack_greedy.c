/* Greedy packings of one part: blocks in several orders, each at the lowest free offset (first fit),
 * and a skyline that fills the lowest place first. Parts of more than QUADRATIC blocks get a single pass in
 * time order. */
#include "pack/pack_strategy.h"

#include <string.h>

#define FEW       512
#define QUADRATIC 4096

struct placed {
    uint64_t offset;
    uint64_t end;
    uint32_t lo;
    uint32_t hi;
};

struct gap {
    uint64_t offset;
    uint64_t end;
};

struct greedy {
    struct pack_part *part;
    uint64_t steps;         /* taken since the budget was asked */
    struct pack_key *keys;  /* [n] */
    struct pack_key *spare; /* [n] */
    uint32_t *order;        /* [n] */
    uint64_t *offsets;      /* [n] of the attempt */
    uint64_t *live;         /* [n + 1] live sum per section; heights of the skyline */
    struct placed *placed;  /* [n + 1] by offset; in the pass in time order the gaps */
};

static struct greedy layout(struct carve *c, uint32_t n) {
    struct greedy g = {0};
    g.keys = carve_take(c, n, sizeof *g.keys);
    g.spare = carve_take(c, n, sizeof *g.spare);
    g.order = carve_take(c, n, sizeof *g.order);
    g.offsets = carve_take(c, n, sizeof *g.offsets);
    g.live = carve_take(c, (uint64_t)n + 1, sizeof *g.live);
    g.placed = carve_take(c, (uint64_t)n + 1, sizeof *g.placed);
    return g;
}

uint64_t pack_greedy_bytes(uint32_t n) {
    struct carve c = carve_count();
    layout(&c, n);
    return c.used;
}

static bool done(const struct greedy *g) {
    return g->part->peak <= g->part->target;
}

static void keep_if_better(struct greedy *g, uint64_t peak) {
    if (peak < g->part->peak) {
        g->part->peak = peak;
        memcpy(g->part->offsets, g->offsets, g->part->n * sizeof *g->offsets);
    }
}

/* Places all items in g->order. */
static void first_fit(struct greedy *g) {
    const struct pack_item *items = g->part->items;
    uint64_t peak = 0;
    for (uint32_t k = 0; k < g->part->n; k++) {
        const struct pack_item *it = &items[g->order[k]];
        uint64_t at = 0;
        uint32_t i = 0;
        for (; i < k; i++) {
            const struct placed *q = &g->placed[i];
            if (q->lo >= it->hi || it->lo >= q->hi || q->end <= at)
                continue;
            if (q->offset >= at + it->size)
                break;
            at = pack_part_align(q->end, it->align);
        }
        uint32_t low = 0, high = k; /* the first one placed above `at` */
        while (low < high) {
            uint32_t middle = low + (high - low) / 2;
            if (g->placed[middle].offset <= at)
                low = middle + 1;
            else
                high = middle;
        }
        memmove(&g->placed[low + 1], &g->placed[low], (k - low) * sizeof *g->placed);
        g->placed[low] = (struct placed){at, at + it->size, it->lo, it->hi};
        g->offsets[g->order[k]] = at;
        peak = ARITH_MAX(peak, at + it->size);
        g->steps += i + (k - low) / 4;
    }
    keep_if_better(g, peak);
}

enum order { BY_SIZE, BY_AREA, BY_LENGTH, BY_PRESSURE, BY_CONFLICTS, ORDERS };

static uint64_t saturating_mul(uint64_t a, uint64_t b) {
    uint64_t r = UINT64_MAX;
    return arith_mul(a, b, &r) ? r : UINT64_MAX;
}

static void set_order(struct greedy *g, enum order by) {
    const struct pack_item *items = g->part->items;
    uint32_t n = g->part->n;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t length = items[i].hi - items[i].lo, size = items[i].size, a = 0, b = size;
        switch (by) {
        case BY_SIZE:
            a = size;
            b = length;
            break;
        case BY_AREA:
            a = saturating_mul(size, length);
            break;
        case BY_LENGTH:
            a = length;
            break;
        case BY_PRESSURE: /* the fullest section that the block lives in */
            for (uint32_t k = items[i].lo; k < items[i].hi; k++)
                a = ARITH_MAX(a, g->live[k]);
            b = saturating_mul(size, length);
            break;
        case BY_CONFLICTS: /* how many others it shares a step with */
            for (uint32_t k = 0; k < n; k++)
                a += pack_part_conflict(&items[i], &items[k]);
            g->steps += n;
            break;
        case ORDERS:
            CHECK(false);
        }
        g->keys[i] = (struct pack_key){UINT64_MAX - a, UINT64_MAX - b, i}; /* descending */
    }
    pack_part_sort(g->keys, g->spare, n);
    for (uint32_t i = 0; i < n; i++)
        g->order[i] = g->keys[i].index;
    g->steps += 20 * (uint64_t)n;
}

/* Takes the lowest segment of the skyline (the first of equals) and places on it the longest-lived item that
 * fits; if none does, raises the segment to its lower neighbour. */
static void skyline(struct greedy *g) {
    const struct pack_item *items = g->part->items;
    uint32_t n = g->part->n, sections = g->part->sections, left = n;
    uint64_t *height = g->live, peak = 0;
    memset(height, 0, sections * sizeof *height);
    for (uint32_t i = 0; i < n; i++)
        g->order[i] = i; /* unplaced items, in order of lo */
    while (left > 0) {
        uint32_t lo = 0;
        for (uint32_t k = 1; k < sections; k++)
            if (height[k] < height[lo])
                lo = k;
        uint32_t hi = lo + 1;
        while (hi < sections && height[hi] == height[lo])
            hi++;
        g->steps += sections + left;
        uint32_t best = UINT32_MAX;
        uint64_t best_length = 0, best_size = 0;
        for (uint32_t k = 0; k < left; k++) {
            const struct pack_item *it = &items[g->order[k]];
            uint64_t length = it->hi - it->lo;
            if (it->lo < lo || it->hi > hi || length < best_length ||
                (length == best_length && it->size <= best_size))
                continue;
            best = k;
            best_length = length;
            best_size = it->size;
        }
        if (best == UINT32_MAX) {
            uint64_t lift = UINT64_MAX;
            if (lo > 0)
                lift = height[lo - 1];
            if (hi < sections)
                lift = ARITH_MIN(lift, height[hi]);
            CHECK(lift != UINT64_MAX); /* everything fits on a flat skyline */
            for (uint32_t k = lo; k < hi; k++)
                height[k] = lift;
            continue;
        }
        const struct pack_item *it = &items[g->order[best]];
        uint64_t at = pack_part_align(height[lo], it->align);
        g->offsets[g->order[best]] = at;
        for (uint32_t k = it->lo; k < it->hi; k++)
            height[k] = at + it->size;
        peak = ARITH_MAX(peak, at + it->size);
        left--;
        memmove(&g->order[best], &g->order[best + 1], (left - best) * sizeof *g->order);
    }
    keep_if_better(g, peak);
}

/* The free gaps of an arena, sorted by offset; the last one is unbounded. No two are adjacent. */
struct gaps {
    struct gap *at;
    uint32_t n;
};

static void gaps_insert(struct gaps *g, uint32_t at, struct gap gap) {
    memmove(&g->at[at + 1], &g->at[at], (g->n - at) * sizeof *g->at);
    g->at[at] = gap;
    g->n++;
}

static void gaps_remove(struct gaps *g, uint32_t at) {
    g->n--;
    memmove(&g->at[at], &g->at[at + 1], (g->n - at) * sizeof *g->at);
}

static void gaps_give_back(struct gaps *g, struct gap freed) {
    uint32_t low = 0, high = g->n; /* the first gap behind it */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (g->at[middle].offset < freed.offset)
            low = middle + 1;
        else
            high = middle;
    }
    bool joins_before = low > 0 && g->at[low - 1].end == freed.offset;
    bool joins_behind = g->at[low].offset == freed.end;
    if (joins_before && joins_behind) {
        g->at[low - 1].end = g->at[low].end;
        gaps_remove(g, low);
    } else if (joins_before) {
        g->at[low - 1].end = freed.end;
    } else if (joins_behind) {
        g->at[low].offset = freed.offset;
    } else {
        gaps_insert(g, low, freed);
    }
}

/* Allocates from the first gap that the item fits into. */
static uint64_t gaps_take(struct gaps *g, const struct pack_item *it) {
    uint32_t k = 0;
    while (pack_part_align(g->at[k].offset, it->align) + it->size > g->at[k].end)
        k++;
    struct gap whole = g->at[k];
    uint64_t at = pack_part_align(whole.offset, it->align);
    gaps_remove(g, k);
    if (at + it->size < whole.end)
        gaps_insert(g, k, (struct gap){at + it->size, whole.end});
    if (whole.offset < at)
        gaps_insert(g, k, (struct gap){whole.offset, at});
    return at;
}

static void in_time_order(struct greedy *g) {
    const struct pack_item *items = g->part->items;
    uint32_t n = g->part->n, ended = 0;
    struct gaps gaps = {(struct gap *)(void *)g->placed, 1};
    gaps.at[0] = (struct gap){0, UINT64_MAX};
    uint64_t peak = 0;
    for (uint32_t i = 0; i < n; i++)
        g->keys[i] = (struct pack_key){items[i].hi, 0, i};
    pack_part_sort(g->keys, g->spare, n);
    for (uint32_t i = 0; i < n; i++) {
        for (; g->keys[ended].a <= items[i].lo; ended++) {
            uint32_t k = g->keys[ended].index;
            gaps_give_back(&gaps, (struct gap){g->offsets[k], g->offsets[k] + items[k].size});
        }
        g->offsets[i] = gaps_take(&gaps, &items[i]);
        peak = ARITH_MAX(peak, g->offsets[i] + items[i].size);
    }
    keep_if_better(g, peak);
}

/* The other passes take n^2 steps: for few blocks, or where no other strategy can work. */
bool pack_greedy_can(const struct pack_part *p) {
    return p->n <= FEW || p->max_align == 0;
}

void pack_greedy_run(struct pack_part *p, struct pack_budget *budget, struct carve work) {
    struct greedy g = layout(&work, p->n);
    g.part = p;
    in_time_order(&g);
    if (p->n > QUADRATIC)
        return;
    pack_part_live(p, 1, g.live);
    for (int by = 0; by < ORDERS && !done(&g) && pack_budget_spend(budget, &g.steps); by++) {
        set_order(&g, by);
        first_fit(&g);
    }
    if (!done(&g) && pack_budget_spend(budget, &g.steps))
        skyline(&g);
    pack_budget_spend(budget, &g.steps);
}
