/* Exact search in one small part: depth first over canonical packings, within a budget of steps.
 *
 * In a canonical packing no block can be lowered; hence each lies at 0 or on top of another that it conflicts
 * with, and the whole is found by placing blocks in order of offset, each where the ones below it end
 * ("floor"). Of blocks with one offset, which can't conflict, only the order by rank is tried. A branch is
 * pruned when
 *  - an unplaced block, or all of a section together, would end above the limit (all lie at or above the last
 *    offset);
 *  - an unplaced block would fit wholly below the next offset: it could be lowered afterwards.
 * When every branch is pruned, no packing within the limit exists. */
#include "pack/pack_strategy.h"

#include <string.h>

/* Larger parts are not searched: the memory is quadratic. */
#define LARGEST 512

#define NONE UINT32_MAX

/* One depth: what it needs to try its next branch and to undo the last one. */
struct frame {
    uint64_t *floor;  /* [n] lowest offset of an unplaced item, given those placed */
    uint64_t *height; /* [sections] end of the highest item placed */
    uint32_t chosen;  /* item, or NONE */
    uint64_t last;    /* offset and rank of the item tried last: branches go up in (offset, rank) */
    uint32_t last_rank;
    uint64_t low_end; /* the smallest floor + size of an unplaced item: offsets at or above are dominated */
};

struct search {
    struct pack_part *part;
    struct frame *frames; /* [n + 1] */
    uint64_t *unplaced;   /* [sections] sum of the sizes still to be placed */
    uint32_t *rank;       /* [n] from 1 */
    bool *is_placed;      /* [n] */
    struct pack_key *keys;
    struct pack_key *spare;
    uint64_t limit; /* no item may end above */
    uint64_t steps;
    struct pack_budget *budget;
};

static struct search layout(struct carve *c, uint32_t n) {
    struct search s = {0};
    if (n > LARGEST)
        n = LARGEST;
    s.frames = carve_take(c, (uint64_t)n + 1, sizeof *s.frames);
    s.unplaced = carve_take(c, n, sizeof *s.unplaced);
    s.rank = carve_take(c, n, sizeof *s.rank);
    s.is_placed = carve_take(c, n, sizeof *s.is_placed);
    s.keys = carve_take(c, n, sizeof *s.keys);
    s.spare = carve_take(c, n, sizeof *s.spare);
    for (uint32_t i = 0; i <= n; i++) {
        uint64_t *floor = carve_take(c, n, sizeof *floor);
        uint64_t *height = carve_take(c, n, sizeof *height);
        if (s.frames != NULL) {
            s.frames[i].floor = floor;
            s.frames[i].height = height;
        }
    }
    return s;
}

uint64_t pack_exact_bytes(uint32_t n) {
    struct carve c = carve_count();
    layout(&c, n);
    return c.used;
}

enum rank_by { RANK_BY_AREA, RANK_BY_LENGTH, RANK_BY_SIZE, RANKS };

static void set_ranks(struct search *s, enum rank_by by) {
    const struct pack_item *items = s->part->items;
    for (uint32_t i = 0; i < s->part->n; i++) {
        uint64_t length = items[i].hi - items[i].lo, area = UINT64_MAX;
        if (!arith_mul(length, items[i].size, &area))
            area = UINT64_MAX;
        uint64_t a = by == RANK_BY_AREA ? area : by == RANK_BY_LENGTH ? length : items[i].size;
        s->keys[i] = (struct pack_key){UINT64_MAX - a, UINT64_MAX - area, i};
    }
    pack_part_sort(s->keys, s->spare, s->part->n);
    for (uint32_t i = 0; i < s->part->n; i++)
        s->rank[s->keys[i].index] = i + 1;
}

/* Prepares a frame; false if it is pruned at once. from: the offset of the item placed last. */
static bool open_frame(struct search *s, struct frame *f, uint64_t from, uint32_t from_rank) {
    f->chosen = NONE;
    f->last = from;
    f->last_rank = from_rank;
    f->low_end = UINT64_MAX;
    uint64_t high_end = 0; /* deeper floors are never below the frame's */
    for (uint32_t i = 0; i < s->part->n; i++) {
        if (s->is_placed[i])
            continue;
        uint64_t end = f->floor[i] + s->part->items[i].size;
        f->low_end = ARITH_MIN(f->low_end, end);
        high_end = ARITH_MAX(high_end, end);
    }
    s->steps += s->part->n + s->part->sections;
    if (f->low_end <= from || high_end > s->limit)
        return false;
    for (uint32_t k = 0; k < s->part->sections; k++)
        if (s->unplaced[k] > 0 && ARITH_MAX(f->height[k], from) + s->unplaced[k] > s->limit)
            return false;
    return true;
}

/* The next branch of a frame in order of (floor, rank), or NONE. */
static uint32_t next_branch(struct search *s, const struct frame *f) {
    uint32_t best = NONE;
    for (uint32_t i = 0; i < s->part->n; i++) {
        uint64_t at = f->floor[i];
        if (s->is_placed[i] || at < f->last || (at == f->last && s->rank[i] <= f->last_rank) ||
            at >= f->low_end)
            continue;
        if (best == NONE || at < f->floor[best] || (at == f->floor[best] && s->rank[i] < s->rank[best]))
            best = i;
    }
    s->steps += s->part->n;
    return best;
}

static void place(struct search *s, const struct frame *f, struct frame *next, uint32_t i) {
    const struct pack_item *items = s->part->items;
    uint64_t end = f->floor[i] + items[i].size;
    s->is_placed[i] = true;
    memcpy(next->height, f->height, s->part->sections * sizeof *next->height);
    for (uint32_t k = items[i].lo; k < items[i].hi; k++) {
        next->height[k] = end;
        s->unplaced[k] -= items[i].size;
    }
    for (uint32_t k = 0; k < s->part->n; k++) {
        next->floor[k] = f->floor[k];
        if (!s->is_placed[k] && pack_part_conflict(&items[i], &items[k]))
            next->floor[k] = ARITH_MAX(f->floor[k], pack_part_align(end, items[k].align));
    }
}

static void take_back(struct search *s, uint32_t i) {
    s->is_placed[i] = false;
    for (uint32_t k = s->part->items[i].lo; k < s->part->items[i].hi; k++)
        s->unplaced[k] += s->part->items[i].size;
}

/* Looks for a packing with no end above the limit. */
static enum pack_outcome search_limit(struct search *s, uint64_t limit) {
    const struct pack_part *p = s->part;
    s->limit = limit;
    memset(s->is_placed, 0, p->n * sizeof *s->is_placed);
    memset(s->unplaced, 0, p->sections * sizeof *s->unplaced);
    for (uint32_t i = 0; i < p->n; i++)
        for (uint32_t k = p->items[i].lo; k < p->items[i].hi; k++)
            s->unplaced[k] += p->items[i].size;
    memset(s->frames[0].floor, 0, p->n * sizeof(uint64_t));
    memset(s->frames[0].height, 0, p->sections * sizeof(uint64_t));
    bool open = open_frame(s, &s->frames[0], 0, 0);
    for (uint32_t depth = 0;;) {
        struct frame *f = &s->frames[depth];
        if (!pack_budget_spend(s->budget, &s->steps))
            return PACK_GAVE_UP;
        uint32_t i = open ? next_branch(s, f) : NONE;
        if (i == NONE) {
            if (depth == 0)
                return PACK_IMPOSSIBLE;
            depth--;
            take_back(s, s->frames[depth].chosen);
            open = true;
            continue;
        }
        f->chosen = i;
        f->last = f->floor[i];
        f->last_rank = s->rank[i];
        place(s, f, &s->frames[depth + 1], i);
        depth++;
        if (depth == p->n)
            return PACK_FOUND;
        open = open_frame(s, &s->frames[depth], f->last, f->last_rank);
    }
}

static void keep(struct search *s) {
    struct pack_part *p = s->part;
    for (uint32_t depth = 0; depth < p->n; depth++) {
        uint32_t i = s->frames[depth].chosen;
        p->offsets[i] = s->frames[depth].floor[i];
    }
    pack_part_measure(p);
}

bool pack_exact_can(const struct pack_part *p) {
    return p->n <= LARGEST && !p->uniform; /* pack_valley.c does better */
}

void pack_exact_run(struct pack_part *p, struct pack_budget *budget, struct carve work) {
    struct search s = layout(&work, p->n);
    s.part = p;
    /* The target first: the lower the limit, the more is pruned. */
    uint64_t limit = p->target;
    for (int by = 0; by < RANKS; by++) {
        set_ranks(&s, by);
        struct pack_budget share = pack_budget_share(budget, budget->steps / (uint64_t)(RANKS - by));
        s.budget = &share;
        enum pack_outcome o = PACK_GAVE_UP;
        while (p->peak > p->target && (o = search_limit(&s, limit)) != PACK_GAVE_UP) {
            if (o == PACK_FOUND)
                keep(&s);
            else if (limit == p->peak - 1)
                break;
            /* The target is impossible: then any lower peak is a gain. */
            limit = p->peak - 1;
        }
        pack_budget_spend(&share, &s.steps);
        pack_budget_return(budget, &share);
        if (o == PACK_IMPOSSIBLE)
            p->proven = p->peak;
        if (o == PACK_IMPOSSIBLE || p->peak <= p->target)
            break;
    }
}
