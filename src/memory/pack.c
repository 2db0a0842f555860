#include "memory/pack.h"

#include "memory/pack_part.h"

#include <string.h>

/* Inner steps (about 2 ns each) of the searches of all parts together. */
#define STEPS 20000000

struct state {
    struct pack_item *items; /* [n] sorted by first step */
    uint32_t *source;        /* [n] items' blocks */
    uint64_t *offsets;       /* [n] */
    uint64_t *live;          /* [n] live sum per section, for bounds */
    struct pack_key *keys;   /* [n] */
    struct pack_key *spare;  /* [n] */
    struct carve rest;       /* for solvers */
};

static struct state layout(struct carve *c, size_t n) {
    CHECK(n <= INT32_MAX);
    struct state s;
    s.items = carve_take(c, n, sizeof *s.items);
    s.source = carve_take(c, n, sizeof *s.source);
    s.offsets = carve_take(c, n, sizeof *s.offsets);
    s.live = carve_take(c, n, sizeof *s.live);
    s.keys = carve_take(c, n, sizeof *s.keys);
    s.spare = carve_take(c, n, sizeof *s.spare);
    uint64_t bytes = ARITH_MAX(pack_greedy_bytes((uint32_t)n), pack_search_bytes((uint32_t)n));
    uint8_t *rest = carve_take(c, 1, ARITH_MAX(bytes, 1));
    s.rest = rest == NULL ? carve_count() : carve_in(rest, bytes);
    return s;
}

uint64_t pack_work_bytes(size_t n) {
    struct carve c = carve_count();
    layout(&c, n);
    return c.used;
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

static bool lives(const struct pack_block *b) {
    return b->bytes > 0 && b->first < b->end;
}

/* The smallest alignment of live blocks, and their number; false if the sums are too large. */
static bool measure(const struct pack_block *blocks, size_t n, uint64_t *unit, uint32_t *count) {
    *unit = UINT64_MAX;
    *count = 0;
    for (size_t i = 0; i < n; i++) {
        CHECK(arith_is_pow2(blocks[i].align));
        if (lives(&blocks[i])) {
            *unit = ARITH_MIN(*unit, blocks[i].align);
            ++*count;
        }
    }
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t size = 0;
        if (lives(&blocks[i]) &&
            (!arith_align_up(blocks[i].bytes, *unit, &size) || !arith_add(sum, size, &sum) ||
             !arith_add(sum, blocks[i].align, &sum) || sum > INT64_MAX))
            return false;
    }
    return true;
}

/* Fills sections and the live sums of items [begin, end), which are sorted by first step; returns the number
 * of sections. On entry lo and hi hold steps. */
static uint32_t number_sections(const struct state *s, uint32_t begin, uint32_t end) {
    /* Starts of sections, in the sort keys' memory. */
    struct pack_key *starts = s->keys;
    uint32_t sections = 0;
    for (uint32_t i = begin; i < end; i++) {
        if (sections == 0 || starts[sections - 1].a != s->items[i].lo) {
            starts[sections].a = s->items[i].lo;
            s->live[sections++] = 0;
        }
        s->items[i].lo = sections - 1;
    }
    for (uint32_t i = begin; i < end; i++) {
        uint32_t low = s->items[i].lo, high = sections; /* the first section at or after the end */
        while (high - low > 1) {
            uint32_t middle = low + (high - low) / 2;
            if (starts[middle].a < s->items[i].hi)
                low = middle;
            else
                high = middle;
        }
        s->items[i].hi = high;
    }
    /* Differences first: a sum over every section of every item would be quadratic. */
    for (uint32_t i = begin; i < end; i++) {
        s->live[s->items[i].lo] += s->items[i].size;
        if (s->items[i].hi < sections)
            s->live[s->items[i].hi] -= s->items[i].size; /* modulo 2^64 */
    }
    for (uint32_t k = 1; k < sections; k++)
        s->live[k] += s->live[k - 1];
    return sections;
}

/* Live blocks become items, sorted by first step (longest and largest first within one). */
static void sort_items(const struct state *s, const struct pack_block *blocks, size_t n, uint64_t unit) {
    uint32_t k = 0;
    for (size_t i = 0; i < n; i++)
        if (lives(&blocks[i]))
            s->keys[k++] = (struct pack_key){(uint64_t)blocks[i].first << 32 | (UINT32_MAX - blocks[i].end),
                                             UINT64_MAX - blocks[i].bytes, (uint32_t)i};
    pack_part_sort(s->keys, s->spare, k);
    for (uint32_t i = 0; i < k; i++) {
        const struct pack_block *b = &blocks[s->keys[i].index];
        s->source[i] = s->keys[i].index;
        s->items[i] = (struct pack_item){pack_part_align(b->bytes, unit), b->align, b->first, b->end};
    }
}

/* One past the last item of the part that begins at item `begin`. */
static uint32_t part_end(const struct state *s, uint32_t begin, uint32_t count) {
    uint32_t last_step = s->items[begin].hi, i = begin + 1;
    for (; i < count && s->items[i].lo < last_step; i++)
        last_step = ARITH_MAX(last_step, s->items[i].hi);
    return i;
}

/* Largest live sum over all parts; leaves the sections in the items. ends: where parts end, returned through
 * spare. */
static uint64_t cut(const struct state *s, uint32_t count, uint32_t *parts) {
    uint64_t bound = 0;
    *parts = 0;
    for (uint32_t begin = 0; begin < count;) {
        uint32_t end = part_end(s, begin, count);
        uint32_t sections = number_sections(s, begin, end);
        for (uint32_t k = 0; k < sections; k++)
            bound = ARITH_MAX(bound, s->live[k]);
        s->spare[*parts] = (struct pack_key){.a = end, .b = sections};
        ++*parts;
        begin = end;
    }
    return bound;
}

/* No packing of a live set ends below its sum; so one that reaches the largest is optimal. */
static void solve_parts(const struct state *s, uint32_t parts, struct pack_result *r) {
    uint64_t proven = r->lower_bound;
    r->peak = r->lower_bound;
    uint64_t steps = STEPS;
    uint32_t begin = 0;
    for (uint32_t k = 0; k < parts; k++) {
        uint32_t end = (uint32_t)s->spare[k].a;
        struct pack_part p = {.items = s->items + begin,
                              .n = end - begin,
                              .sections = (uint32_t)s->spare[k].b,
                              .target = r->peak,
                              .offsets = s->offsets + begin,
                              .peak = UINT64_MAX,
                              .steps = &steps};
        pack_greedy(&p, s->rest);
        if (p.peak > p.target)
            pack_search(&p, s->rest);
        r->peak = ARITH_MAX(r->peak, p.peak);
        if (p.proven)
            proven = ARITH_MAX(proven, p.peak);
        begin = end;
    }
    r->optimal = r->peak == proven;
}

stator_status pack_solve(struct pack_block *blocks, size_t n, void *work, uint64_t work_bytes,
                         struct pack_result *r, stator_error *e) {
    uint64_t unit = 0;
    uint32_t count = 0, parts = 0;
    if (!measure(blocks, n, &unit, &count))
        return error_set(
            e, STATOR_DOES_NOT_FIT,
            "the %zu blocks to be packed add up to more than 2^63 bytes: no memory is that large", n);
    struct carve c = carve_in(work, work_bytes);
    struct state s = layout(&c, n);
    *r = (struct pack_result){0};
    sort_items(&s, blocks, n, unit);
    r->lower_bound = cut(&s, count, &parts);
    solve_parts(&s, parts, r);
    for (size_t i = 0; i < n; i++)
        blocks[i].offset = 0;
    for (uint32_t i = 0; i < count; i++)
        blocks[s.source[i]].offset = s.offsets[i];
    return STATOR_OK;
}
