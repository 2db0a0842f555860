#include "pack/pack.h"

#include "base/clock.h"
#include "pack/pack_part.h"

#include <string.h>

/* Searches go in rounds: each part spends this many steps on its goal in the first, twice as many in the
 * next. */
#define FIRST_ROUND 4000000
#define TILED       8          /* times as many for pack_tiling where it left little */
#define MEND_ROUND  1000000000 /* of a part that is not searched */
#define MEND_ITEM   600000     /* ... for each item of one that is, where searches did not do: a broad beam */
#define MEND_LATER  3          /* ... and from which round on */
#define MEND_LAST   5          /* ... of at most FEW items: searches are the better way for most of them */
#define TASTES      12         /* attempts of pack_skyline in a part before it is searched or mended */
#define TASTES_MANY 1          /* ... if it has more than PACK_MANY items */
#define LARGE_GUESS 600000000  /* steps of pack_tiling in a part that is not searched */
#define TIERS_ROUND 600000000  /* steps of pack_overlap after pack_tiers: the blocks on top pass soon */
#define CROWDED     1000       /* blocks that live at once, on average, and a skyline takes seconds */
#define FEW         512        /* items, up to which pack_greedy is worth its n^2 steps */
#define CLOCK_EVERY 64         /* takes of a budget between two looks at the clock */

struct state {
    struct pack_item *items; /* [n] sorted by first step */
    uint32_t *source;        /* [n] items' blocks */
    uint64_t *offsets;       /* [n] */
    uint64_t *live;          /* [n] live sum per section, for bounds */
    struct pack_key *keys;   /* [n] */
    struct pack_key *spare;  /* [n] */
    struct pack_part *parts; /* [n] */
    uint32_t n_parts;
    uint64_t unit;            /* the smallest alignment */
    struct pack_item *coarse; /* [PACK_VALLEY_LARGEST at most] a part's, with sizes rounded up */
    struct carve rest;        /* for solvers */
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
    s.coarse = carve_take(c, ARITH_MIN(n, (size_t)PACK_VALLEY_LARGEST), sizeof *s.coarse);
    uint64_t bytes = ARITH_MAX(pack_greedy_bytes((uint32_t)n), pack_search_bytes((uint32_t)n));
    bytes = ARITH_MAX(bytes, pack_valley_bytes((uint32_t)n));
    bytes = ARITH_MAX(bytes, pack_skyline_bytes((uint32_t)n));
    bytes = ARITH_MAX(bytes, pack_mend_bytes((uint32_t)n));
    bytes = ARITH_MAX(bytes, pack_overlap_bytes((uint32_t)n));
    bytes = ARITH_MAX(bytes, pack_sink_bytes((uint32_t)n));
    bytes = ARITH_MAX(bytes, pack_tiling_bytes((uint32_t)n));
    bytes = ARITH_MAX(bytes, pack_sweep_bytes((uint32_t)n));
    bytes = ARITH_MAX(bytes, pack_race_bytes((uint32_t)n));
    bytes = ARITH_MAX(bytes, pack_tiers_bytes((uint32_t)n));
    uint8_t *rest = carve_take(c, 1, ARITH_MAX(bytes, 1));
    s.rest = rest == NULL ? carve_count() : carve_in(rest, bytes);
    return s;
}

uint64_t pack_work_bytes(size_t n) {
    struct carve c = carve_count();
    layout(&c, n);
    return c.used;
}

uint64_t pack_many_steps(size_t n) {
    if (n <= PACK_VALLEY_LARGEST)
        return n <= FEW ? 1000000000 : 1300000000;
    return n <= PACK_MANY ? 1200000000 : 1500000000;
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
        if (lives(&blocks[i]))
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
    p->grain = 1;
    for (uint32_t i = 0; i < p->n; i++) {
        p->uniform =
            p->uniform && p->items[i].align == p->items[0].align && p->items[i].size % p->items[0].align == 0;
        p->grain = ARITH_MAX(p->grain, p->items[i].align);
    }
    uint64_t sum = 0;
    for (uint32_t i = 0; i < p->n && p->grain > 0; i++)
        if (!arith_add(sum, p->items[i].size, &sum) || !arith_add(sum, p->grain, &sum) || sum > INT64_MAX)
            p->grain = 0;
}

/* Cuts the time line into parts; returns the largest live sum. */
static uint64_t cut(struct state *s, uint32_t count) {
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

uint32_t pack_part_number(uint32_t *marks, uint32_t sections) {
    uint32_t now = 0;
    bool ended = false;
    for (uint32_t k = 0; k < sections; k++) {
        ended = ended || (marks[k] & PACK_MARK_END) != 0;
        if ((marks[k] & PACK_MARK_BEGIN) != 0 && ended) {
            now++;
            ended = false;
        }
        marks[k] = now;
    }
    return now + 1;
}

bool pack_budget_take(struct pack_budget *b, uint64_t *steps) {
    b->steps -= ARITH_MIN(*steps, b->steps);
    b->used += *steps;
    *steps = 0;
    if (b->deadline > 0 && b->until_clock-- == 0) {
        b->until_clock = CLOCK_EVERY;
        b->expired = b->expired || clock_ns() >= b->deadline;
    }
    b->expired = b->expired ||
                 (b->stop != NULL && atomic_load_explicit(b->stop, memory_order_relaxed) != 0) ||
                 (b->fewest != NULL && b->used > atomic_load_explicit(b->fewest, memory_order_relaxed));
    return b->steps > 0 && !b->expired;
}

struct pack_budget pack_budget_share(struct pack_budget *all, uint64_t steps) {
    struct pack_budget share = *all;
    share.steps = ARITH_MIN(steps, all->steps);
    all->steps -= share.steps;
    return share;
}

void pack_budget_return(struct pack_budget *all, const struct pack_budget *share) {
    all->steps += share->steps;
    all->used = share->used;
    all->expired = share->expired;
}

typedef enum pack_outcome searcher(struct pack_part *p, uint64_t limit, struct pack_budget *budget,
                                   struct carve work);

/* A search for a packing below a limit; where alignments are mixed, on sizes rounded up to the largest, which
 * proves nothing. */
static enum pack_outcome search_limit(const struct state *s, struct pack_part *p, searcher *search,
                                      uint64_t limit, struct pack_budget *budget) {
    if (p->uniform)
        return search(p, limit, budget, s->rest);
    struct pack_part q = *p;
    for (uint32_t i = 0; i < p->n; i++) {
        s->coarse[i] = p->items[i];
        s->coarse[i].size = pack_part_align(p->items[i].size, p->grain);
        s->coarse[i].align = p->grain;
    }
    q.items = s->coarse;
    q.uniform = true;
    enum pack_outcome o = search(&q, limit / p->grain * p->grain, budget, s->rest);
    p->attempts = q.attempts;
    p->guesses = q.guesses;
    p->repairs = q.repairs;
    p->looks_tiled = q.looks_tiled;
    p->sweeps = q.sweeps;
    p->sweep_kind = q.sweep_kind;
    p->sweep_bits = q.sweep_bits;
    if (o != PACK_FOUND)
        return PACK_GAVE_UP;
    pack_part_measure(p);
    return o;
}

static bool can_search_valleys(const struct pack_part *p) {
    return p->n <= PACK_VALLEY_LARGEST && p->grain > 0;
}

/* The same with at most so many steps of the budget. */
static enum pack_outcome try_limit(const struct state *s, struct pack_part *p, searcher *search,
                                   uint64_t limit, uint64_t steps, struct pack_budget *budget) {
    struct pack_budget share = pack_budget_share(budget, steps);
    enum pack_outcome o = search_limit(s, p, search, limit, &share);
    pack_budget_return(budget, &share);
    if (o == PACK_IMPOSSIBLE)
        p->proven = ARITH_MAX(p->proven, limit + s->unit);
    return o;
}

/* One round of a part: straight for the target, then by halves as near to it as these steps go. */
static void improve(const struct state *s, struct pack_part *p, uint32_t round, struct pack_budget *budget) {
    uint64_t steps = (uint64_t)FIRST_ROUND << ARITH_MIN(round, 30u);
    uint64_t low = ARITH_MAX(p->target, p->proven); /* the lowest peak that may be possible and useful */
    enum pack_outcome straight =
        try_limit(s, p, pack_tiling, low, p->looks_tiled ? TILED * steps : steps, budget);
    if (straight == PACK_GAVE_UP)
        straight = try_limit(s, p, pack_sweep, low, steps, budget);
    if (straight == PACK_GAVE_UP)
        straight = try_limit(s, p, pack_valley, low, steps, budget);
    if (straight == PACK_IMPOSSIBLE)
        low = p->proven;
    uint64_t near = ARITH_MAX((p->peak - low) >> (5 + ARITH_MIN(round, 50u)), s->unit);
    while (p->peak > low && p->peak - low >= near && budget->steps > 0 && !budget->expired) {
        uint64_t limit = low + (p->peak - low) / s->unit / 2 * s->unit;
        enum pack_outcome o = try_limit(s, p, pack_valley, limit, steps / 4, budget);
        if (o != PACK_FOUND)
            low = limit + s->unit;
    }
}

/* What no packing of all parts can be below. */
static uint64_t proven_peak(const struct state *s) {
    uint64_t proven = 0;
    for (uint32_t k = 0; k < s->n_parts; k++)
        proven = ARITH_MAX(proven, s->parts[k].proven);
    return proven;
}

static uint64_t goal(const struct state *s, const struct pack_options *o) {
    return ARITH_MAX(proven_peak(s), o->capacity / s->unit * s->unit);
}

/* A solver with at most so many steps of the budget. */
static void spend(const struct state *s, struct pack_part *p,
                  void (*solver)(struct pack_part *, struct pack_budget *, struct carve), uint64_t steps,
                  struct pack_budget *budget) {
    struct pack_budget share = pack_budget_share(budget, steps);
    solver(p, &share, s->rest);
    pack_budget_return(budget, &share);
}

/* Few items are a matter of search, many one of mending, and between them of both. */
static uint64_t mend_steps(const struct pack_part *p, uint32_t round) {
    if (!can_search_valleys(p))
        return MEND_ROUND;
    if (round >= (p->n <= FEW ? MEND_LAST : MEND_LATER))
        return MEND_ITEM * (uint64_t)p->n;
    return p->n <= FEW ? 0 : 4 * (uint64_t)FIRST_ROUND << round;
}

/* Searches in rounds, so that no part waits for long and none is given up before the others; true if all
 * parts have reached the goal. */
static bool search(const struct state *s, const struct pack_options *o, struct pack_budget *budget) {
    for (uint32_t round = 0;; round++) {
        bool all = true, any = false;
        uint64_t steps = (uint64_t)FIRST_ROUND << ARITH_MIN(round, 30u);
        for (uint32_t k = 0; k < s->n_parts; k++) {
            struct pack_part *p = &s->parts[k];
            p->target = goal(s, o);
            if (p->peak <= p->target)
                continue;
            all = false;
            bool can_search = can_search_valleys(p);
            uint64_t mend = mend_steps(p, round);
            if (mend > 0 && pack_mend_can(p)) {
                any = true;
                spend(s, p, pack_mend, mend, budget);
            }
            if (p->peak > p->target && can_search) {
                any = true;
                improve(s, p, round, budget);
            }
            if (mend > 0 && p->peak > p->target && pack_mend_can(p))
                spend(s, p, pack_overlap, mend, budget);
            if (p->peak > p->target && !p->uniform && pack_search_can(p)) {
                any = true;
                spend(s, p, pack_search, steps, budget);
            }
        }
        if (all || !any || budget->steps == 0 || budget->expired)
            return all;
    }
}

static bool is_crowded(const struct pack_part *p) {
    uint64_t lives = 0;
    for (uint32_t i = 0; i < p->n; i++)
        lives += p->items[i].hi - p->items[i].lo;
    return p->n > PACK_MANY && p->grain > 0 && lives / p->sections > CROWDED;
}

static void solve_parts(const struct state *s, const struct pack_options *o, struct pack_result *r) {
    struct pack_budget budget = {.steps = o->steps, .deadline = o->deadline, .stop = o->stop};
    for (uint32_t k = 0; k < s->n_parts; k++) {
        struct pack_part *p = &s->parts[k];
        p->target = goal(s, o);
        const bool crowded = is_crowded(p);
        if (crowded)
            pack_race(p, 1, &budget, s->rest);
        if (p->n <= FEW || p->grain == 0)
            pack_greedy(p, s->rest);
        if (p->grain > 0 && p->peak > p->target && !(crowded && p->peak < UINT64_MAX))
            pack_skyline(p, p->n > PACK_MANY ? TASTES_MANY : TASTES, &budget, s->rest);
        if (p->peak > p->target && p->n > PACK_VALLEY_LARGEST && p->uniform)
            try_limit(s, p, pack_tiling, p->target, LARGE_GUESS, &budget);
        if (p->peak > p->target && p->n > PACK_MANY && p->grain > 0 && pack_tiers(p, &budget, s->rest) &&
            p->peak > p->target)
            spend(s, p, pack_overlap, TIERS_ROUND, &budget);
        if (p->peak > p->target && p->n > PACK_RACE_MORE && p->grain > 0)
            pack_race(p, UINT32_MAX, &budget, s->rest);
    }
    search(s, o, &budget);
    r->peak = 0;
    uint64_t reached = 0; /* by searches: what only sinks below the capacity, more steps might change */
    for (uint32_t k = 0; k < s->n_parts; k++) {
        reached = ARITH_MAX(reached, s->parts[k].peak);
        if (!s->parts[k].uniform)
            pack_sink(&s->parts[k], s->rest);
        r->peak = ARITH_MAX(r->peak, s->parts[k].peak);
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
    r->lower_bound = cut(&s, count);
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
