/* The table of strategies, the split into parts, and the rounds of searches; see pack.h. */
#include "pack/pack.h"

#include "pack/pack_strategy.h"

#include <string.h>

/* Searches go in rounds, each with twice the steps of the one before. */
#define FIRST_ROUND 12000000
#define LAST_ROUND  30 /* ... up to this one */

static const struct pack_strategy fast[] = {
    {"greedy", pack_greedy_can, pack_greedy_bytes, pack_greedy_run},
    {"skyline", pack_skyline_can, pack_skyline_bytes, pack_skyline_run},
};
enum { FAST = sizeof fast / sizeof fast[0] };
static const struct pack_strategy searcher = {"valley", pack_valley_can, pack_valley_bytes, pack_valley_run};

struct state {
    struct pack_item *items; /* [n] sorted by first step */
    uint32_t *source;        /* [n] items' blocks */
    uint64_t *offsets;       /* [n] */
    uint64_t *live;          /* [n] live sum per section, for bounds */
    struct pack_key *keys;   /* [n] */
    struct pack_key *spare;  /* [n] */
    struct pack_part *parts; /* [n] */
    uint32_t n_parts;
    uint64_t unit;             /* the smallest alignment */
    struct pack_item *rounded; /* [PACK_VALLEY_LARGEST at most] a part's, with sizes rounded up */
    struct carve rest;         /* for strategies */
};

static struct state layout(struct carve *c, size_t n) {
    CHECK(n <= INT32_MAX);
    struct state s = {0};
    s.items = carve_take(c, n, sizeof *s.items);
    s.source = carve_take(c, n, sizeof *s.source);
    s.offsets = carve_take(c, n, sizeof *s.offsets);
    s.live = carve_take(c, n, sizeof *s.live);
    s.keys = carve_take(c, n, sizeof *s.keys);
    s.spare = carve_take(c, n, sizeof *s.spare);
    s.parts = carve_take(c, n, sizeof *s.parts);
    s.rounded = carve_take(c, ARITH_MIN(n, (size_t)PACK_VALLEY_LARGEST), sizeof *s.rounded);
    uint64_t bytes = pack_compact_bytes((uint32_t)n);
    bytes = ARITH_MAX(bytes, searcher.bytes((uint32_t)n));
    for (size_t k = 0; k < FAST; k++)
        bytes = ARITH_MAX(bytes, fast[k].bytes((uint32_t)n));
    uint8_t *rest = carve_take(c, 1, ARITH_MAX(bytes, 1));
    s.rest = rest == NULL ? carve_count() : carve_in(rest, bytes);
    return s;
}

uint64_t pack_work_bytes(size_t n) {
    struct carve c = carve_count();
    layout(&c, n);
    return c.used;
}

static bool is_live(const struct pack_block *b) {
    return b->bytes > 0 && b->first < b->end;
}

/* The smallest alignment of live blocks, and their number; false if the sums are too large. */
static bool measure(const struct pack_block *blocks, size_t n, uint64_t *unit, uint32_t *count) {
    *unit = UINT64_MAX;
    *count = 0;
    for (size_t i = 0; i < n; i++) {
        CHECK(arith_is_pow2(blocks[i].align));
        if (is_live(&blocks[i])) {
            *unit = ARITH_MIN(*unit, blocks[i].align);
            ++*count;
        }
    }
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t size = 0;
        if (is_live(&blocks[i]) &&
            (!arith_align_up(blocks[i].bytes, *unit, &size) || !arith_add(sum, size, &sum) ||
             !arith_add(sum, blocks[i].align, &sum) || sum > INT64_MAX))
            return false;
    }
    return true;
}

/* Makes one section of neighbours between which nothing ends; returns the number of sections left. */
static uint32_t merge_sections(const struct state *s, uint32_t begin, uint32_t end, uint32_t sections) {
    /* Numbers of the merged sections, in the memory of the sort keys. */
    struct pack_key *number = s->keys;
    for (uint32_t k = 0; k < sections; k++)
        number[k].a = 0;
    for (uint32_t i = begin; i < end; i++)
        if (s->items[i].hi < sections)
            number[s->items[i].hi].a = 1;
    for (uint32_t k = 1; k < sections; k++)
        number[k].a += number[k - 1].a;
    for (uint32_t i = begin; i < end; i++) {
        struct pack_item *it = &s->items[i];
        it->hi = (uint32_t)number[it->hi - 1].a + 1;
        it->lo = (uint32_t)number[it->lo].a;
    }
    return (uint32_t)number[sections - 1].a + 1;
}

/* Fills sections and the live sums of items [begin, end), which are sorted by first step; returns the number
 * of sections. On entry lo and hi hold steps. */
static uint32_t number_sections(const struct state *s, uint32_t begin, uint32_t end) {
    /* Starts of sections, in the sort keys' memory. */
    struct pack_key *starts = s->keys;
    uint32_t sections = 0;
    for (uint32_t i = begin; i < end; i++) {
        if (sections == 0 || starts[sections - 1].a != s->items[i].lo) {
            starts[sections++].a = s->items[i].lo;
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
    sections = merge_sections(s, begin, end, sections);
    memset(s->live, 0, sections * sizeof *s->live);
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
static void sort_items(const struct state *s, const struct pack_block *blocks, size_t n) {
    uint32_t k = 0;
    for (size_t i = 0; i < n; i++)
        if (is_live(&blocks[i]))
            s->keys[k++] = (struct pack_key){(uint64_t)blocks[i].first << 32 | (UINT32_MAX - blocks[i].end),
                                             UINT64_MAX - blocks[i].bytes, (uint32_t)i};
    pack_part_sort(s->keys, s->spare, k);
    for (uint32_t i = 0; i < k; i++) {
        const struct pack_block *b = &blocks[s->keys[i].index];
        s->source[i] = s->keys[i].index;
        s->items[i] = (struct pack_item){pack_part_align(b->bytes, s->unit), b->align, b->first, b->end,
                                         b->end - b->first};
    }
}

/* One past the last item of the part that begins at item `begin`. */
static uint32_t part_end(const struct state *s, uint32_t begin, uint32_t count) {
    uint32_t last_step = s->items[begin].hi, i = begin + 1;
    for (; i < count && s->items[i].lo < last_step; i++)
        last_step = ARITH_MAX(last_step, s->items[i].hi);
    return i;
}

static void set_alignment(struct pack_part *p) {
    p->uniform = true;
    p->max_align = 1;
    for (uint32_t i = 0; i < p->n; i++) {
        p->uniform =
            p->uniform && p->items[i].align == p->items[0].align && p->items[i].size % p->items[0].align == 0;
        p->max_align = ARITH_MAX(p->max_align, p->items[i].align);
    }
    uint64_t sum = 0;
    for (uint32_t i = 0; i < p->n && p->max_align > 0; i++)
        if (!arith_add(sum, p->items[i].size, &sum) || !arith_add(sum, p->max_align, &sum) || sum > INT64_MAX)
            p->max_align = 0;
}

/* Splits the time line into parts; returns the largest live sum. */
static uint64_t split(struct state *s, uint32_t count) {
    uint64_t bound = 0;
    for (uint32_t begin = 0, end; begin < count; begin = end) {
        end = part_end(s, begin, count);
        struct pack_part *p = &s->parts[s->n_parts++];
        *p = (struct pack_part){.items = s->items + begin,
                                .n = end - begin,
                                .sections = number_sections(s, begin, end),
                                .offsets = s->offsets + begin,
                                .peak = UINT64_MAX};
        set_alignment(p);
        for (uint32_t k = 0; k < p->sections; k++)
            p->proven = ARITH_MAX(p->proven, s->live[k]);
        bound = ARITH_MAX(bound, p->proven);
    }
    return bound;
}

/* What no packing of all parts can be below. */
static uint64_t proven_peak(const struct state *s) {
    uint64_t proven = 0;
    for (uint32_t k = 0; k < s->n_parts; k++)
        proven = ARITH_MAX(proven, s->parts[k].proven);
    return proven;
}

/* On sizes rounded up to the largest alignment: a packing of those is one of the part, but they prove nothing
 * about it. */
static void search_rounded(const struct state *s, struct pack_part *p, struct pack_budget *budget) {
    struct pack_part q = *p;
    for (uint32_t i = 0; i < p->n; i++) {
        s->rounded[i] = p->items[i];
        s->rounded[i].size = pack_part_align(p->items[i].size, p->max_align);
        s->rounded[i].align = p->max_align;
    }
    q.items = s->rounded;
    q.uniform = true;
    q.peak = pack_part_align(p->peak, p->max_align); /* a lower one is a lower multiple */
    const uint64_t before = q.peak;
    searcher.run(&q, budget, s->rest);
    p->exhausted = pack_part_align(q.proven, q.max_align) >= q.peak;
    p->seed = q.seed;
    if (q.peak < before)
        pack_part_measure(p); /* q has put the better packing into the offsets that they share */
}

/* One strategy in one part, with at most so many steps. Whatever it does, it costs steps, so that rounds come
 * to an end. */
static void run(const struct state *s, const struct pack_strategy *x, struct pack_part *p, uint64_t steps,
                struct pack_budget *budget) {
    struct pack_budget share = pack_budget_share(budget, steps);
    const uint64_t before = share.steps, peak = p->peak;
    if (x == &searcher && !p->uniform)
        search_rounded(s, p, &share);
    else
        x->run(p, &share, s->rest);
    const uint64_t least = (uint64_t)p->n + 1, spent = before - share.steps;
    uint64_t rest = spent < least ? least - spent : 0;
    pack_budget_spend(&share, &rest);
    pack_budget_return(budget, &share);
    if (p->peak < peak)
        p->found_by = x->name;
    p->target = ARITH_MAX(p->target, p->proven);
}

/* Searches in rounds, so that no part waits for long and none is given up before the others. */
static void search(const struct state *s, uint64_t capacity, struct pack_budget *budget) {
    bool any = true;
    for (uint32_t round = 0; any && budget->steps > 0 && !budget->expired; round++) {
        any = false;
        for (uint32_t k = 0; k < s->n_parts; k++) {
            struct pack_part *p = &s->parts[k];
            p->target = ARITH_MAX(proven_peak(s), capacity);
            p->round = round;
            if (p->peak <= p->target || p->exhausted || !searcher.can(p))
                continue;
            any = true;
            if (budget->steps > 0 && !budget->expired)
                run(s, &searcher, p, (uint64_t)FIRST_ROUND << ARITH_MIN(round, (uint32_t)LAST_ROUND), budget);
        }
    }
}

static void solve_parts(const struct state *s, const struct pack_options *o, struct pack_result *r) {
    struct pack_budget budget = {.steps = o->steps, .deadline = o->deadline, .stop = o->stop};
    const uint64_t capacity = o->capacity / s->unit * s->unit;
    for (uint32_t k = 0; k < s->n_parts; k++) {
        struct pack_part *p = &s->parts[k];
        p->target = ARITH_MAX(proven_peak(s), capacity);
        for (const struct pack_strategy *x = fast; x < fast + FAST; x++)
            if (p->peak > p->target && x->can(p))
                run(s, x, p, UINT64_MAX, &budget);
    }
    search(s, capacity, &budget);
    r->peak = 0;
    uint64_t reached = 0; /* before compaction: with more steps, searches might do better than that */
    for (uint32_t k = 0; k < s->n_parts; k++) {
        struct pack_part *p = &s->parts[k];
        if (!p->exhausted)
            reached = ARITH_MAX(reached, p->peak);
        if (!p->uniform)
            pack_compact(p, s->rest);
        if (p->peak > r->peak)
            r->found_by = p->found_by;
        r->peak = ARITH_MAX(r->peak, p->peak);
    }
    r->proven = proven_peak(s);
    r->optimal = r->peak == r->proven;
    r->finished = reached <= ARITH_MAX(r->proven, o->capacity);
}

stator_status pack_solve_with(struct pack_block *blocks, size_t n, const struct pack_options *options,
                              void *work, uint64_t work_bytes, struct pack_result *r, stator_error *e) {
    static const struct pack_options usual = {.steps = PACK_STEPS};
    uint64_t unit = 0;
    uint32_t count = 0;
    if (!measure(blocks, n, &unit, &count))
        return error_set(
            e, STATOR_DOES_NOT_FIT,
            "the blocks to be packed (%zu) add up to 2^63 bytes or more: no memory is that large", n);
    struct carve c = carve_in(work, work_bytes);
    struct state s = layout(&c, n);
    s.unit = unit;
    *r = (struct pack_result){0};
    sort_items(&s, blocks, n);
    r->lower_bound = split(&s, count);
    solve_parts(&s, options != NULL ? options : &usual, r);
    for (size_t i = 0; i < n; i++)
        blocks[i].offset = 0;
    for (uint32_t i = 0; i < count; i++)
        blocks[s.source[i]].offset = s.offsets[i];
    return STATOR_OK;
}

stator_status pack_solve(struct pack_block *blocks, size_t n, void *work, uint64_t work_bytes,
                         struct pack_result *r, stator_error *e) {
    return pack_solve_with(blocks, n, NULL, work, work_bytes, r, e);
}
