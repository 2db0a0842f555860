/* Search in one part whose blocks have one alignment, with sizes that are multiples of it: is there a packing
 * with no end above a limit?
 *
 * Depth first over canonical packings (no block can be lowered), built from below. Every section has a
 * height: no unplaced block lies below it. A valley is a run of sections of equal height between higher ones;
 * a block that can lie on its floor lives within it. A branching picks one section of a valley and asks:
 * which block lies on the floor here? Or none; then the floor of this section rises to the lowest offset that
 * the next one could have. These cases exclude each other, so no packing is met twice. The section with the
 * fewest candidates goes first, weighted by how often branches were pruned there.
 *
 * A branch is pruned when the unplaced blocks of some section, each at or above its own lowest offset, end
 * above the limit. Restarts change the order of candidates (pseudo-randomly, but reproducibly) and keep the
 * weights. When every branch is pruned, no packing within the limit exists. */
#include "pack/pack_strategy.h"

#include <string.h>

#define NONE UINT32_MAX
#define WALL ((uint64_t)1 << 63) /* height of a section without unplaced blocks; above every offset */

/* Memory for one path through the tree; a path that needs more ends the attempt. */
#define DEPTH   4   /* branchings per item */
#define CHOICES 16  /* candidates not tried yet, per item */
#define UNDO    160 /* values to restore, per item: 148 was the most on tight instances */

/* Chosen by measurement on tight instances. */
#define FIT_SIDE 2.0 /* score factor for lying against a wall */
#define FIT_BOTH 8.0 /* ... and being level with its top */
#define NOISE    0.6 /* how much restarts vary keys */
#define STRAIGHT 3   /* one in so many steps goes straight for the target */
#define NODES    150 /* of the shortest attempt, besides one for each item */

struct valley {
    uint32_t begin; /* sections [begin, end) */
    uint32_t end;
    uint64_t left; /* heights of its walls */
    uint64_t right;
};

struct branching {
    uint32_t next; /* candidates not tried yet: choices [next, end) */
    uint32_t end;
    uint32_t first;  /* where its choices begin */
    uint32_t undo;   /* changes to undo before the next candidate */
    uint32_t placed; /* item of the candidate being tried, or NONE */
    uint32_t section;
    uint64_t raise; /* the section's height if no block lies on its floor; 0: impossible, or tried */
};

struct change {
    uint64_t *at;
    uint64_t old;
};

enum pack_outcome { PACK_FOUND, PACK_IMPOSSIBLE, PACK_GAVE_UP };

/* What candidates are ordered by. */
enum order { BY_AREA, BY_LENGTH, BY_SIZE, BY_PRESSURE, ORDERS };

struct search {
    const struct pack_item *items;
    uint32_t n;
    uint32_t sections;
    uint64_t limit;
    uint64_t steps; /* taken since the budget was asked */
    struct pack_budget *budget;

    /* Per item. */
    uint64_t *offset; /* the lowest possible; of a placed item its own */
    bool *placed;
    uint32_t *twin;     /* an equal item that is placed before this one, or NONE */
    uint32_t *unplaced; /* the unplaced items, in any order; then the placed ones */
    uint32_t *where;    /* each item's place in unplaced */
    uint32_t left;      /* how many are unplaced */
    double *key;        /* larger: tried earlier */
    double *score;      /* of the candidates being listed */

    /* Per section. */
    uint64_t *height;  /* no unplaced item lies below */
    uint64_t *top;     /* end of the highest block placed */
    uint64_t *second;  /* the lowest possible offset of an unplaced item above height */
    uint64_t *sum;     /* of unplaced sizes */
    uint32_t *count;   /* of unplaced items */
    double *weight;    /* grows where branches are pruned */
    uint32_t *list;    /* items by section, each section's in order of offset, roughly */
    uint32_t *list_at; /* [sections + 1] */
    bool *is_stale;    /* its sum has to be checked again */
    uint32_t *stale;
    uint32_t n_stale;
    uint32_t *valley_of;    /* valley that the section lies in, or NONE */
    uint32_t *candidates;   /* how many blocks could lie on the floor */
    uint64_t *ends_here;    /* size of the smallest unplaced item in the valley whose last section this is */
    uint64_t *begins_here;  /* ... first ... */
    uint64_t *begins_after; /* ... among those in the valley that begin after this section */
    struct valley *valleys;
    uint32_t n_valleys;

    struct branching *path;
    uint32_t depth;
    uint32_t *choices;
    uint32_t n_choices;
    struct change *changes;
    uint32_t n_changes;
};

/* list_length: sections summed over items. */
static struct search layout(struct carve *c, uint32_t n, uint64_t list_length) {
    struct search s = {.n = n};
    s.offset = carve_take(c, n, sizeof *s.offset);
    s.placed = carve_take(c, n, sizeof *s.placed);
    s.twin = carve_take(c, n, sizeof *s.twin);
    s.unplaced = carve_take(c, n, sizeof *s.unplaced);
    s.where = carve_take(c, n, sizeof *s.where);
    s.key = carve_take(c, n, sizeof *s.key);
    s.score = carve_take(c, n, sizeof *s.score);
    s.height = carve_take(c, n, sizeof *s.height);
    s.top = carve_take(c, n, sizeof *s.top);
    s.second = carve_take(c, n, sizeof *s.second);
    s.sum = carve_take(c, n, sizeof *s.sum);
    s.count = carve_take(c, n, sizeof *s.count);
    s.weight = carve_take(c, n, sizeof *s.weight);
    s.list = carve_take(c, list_length, sizeof *s.list);
    s.list_at = carve_take(c, (uint64_t)n + 1, sizeof *s.list_at);
    s.is_stale = carve_take(c, n, sizeof *s.is_stale);
    s.stale = carve_take(c, n, sizeof *s.stale);
    s.valley_of = carve_take(c, n, sizeof *s.valley_of);
    s.candidates = carve_take(c, n, sizeof *s.candidates);
    s.ends_here = carve_take(c, n, sizeof *s.ends_here);
    s.begins_here = carve_take(c, n, sizeof *s.begins_here);
    s.begins_after = carve_take(c, n, sizeof *s.begins_after);
    s.valleys = carve_take(c, n, sizeof *s.valleys);
    s.path = carve_take(c, (uint64_t)n * DEPTH, sizeof *s.path);
    s.choices = carve_take(c, (uint64_t)n * CHOICES, sizeof *s.choices);
    s.changes = carve_take(c, (uint64_t)n * UNDO, sizeof *s.changes);
    return s;
}

uint64_t pack_valley_bytes(uint32_t n) {
    struct carve c = carve_count();
    n = ARITH_MIN(n, (uint32_t)PACK_VALLEY_LARGEST);
    layout(&c, n, (uint64_t)n * n);
    return c.used;
}

/* Memory for one more branching: it changes each value at most twice and lists each item at most once. */
static bool has_room(const struct search *s) {
    return s->depth < s->n * DEPTH && s->n_choices + s->n <= s->n * CHOICES &&
           s->n_changes + 2 * (s->n + 4 * s->sections) <= s->n * UNDO;
}

static void set(struct search *s, uint64_t *at, uint64_t value) {
    s->changes[s->n_changes++] = (struct change){at, *at};
    *at = value;
}

static void mark_stale(struct search *s, uint32_t lo, uint32_t hi) {
    for (uint32_t k = lo; k < hi; k++)
        if (!s->is_stale[k]) {
            s->is_stale[k] = true;
            s->stale[s->n_stale++] = k;
        }
}

/* Updates a section; false if its unplaced items end above the limit. */
static bool check_section(struct search *s, uint32_t k) {
    uint32_t *list = s->list + s->list_at[k];
    uint32_t n = s->list_at[k + 1] - s->list_at[k];
    s->steps += n;
    for (uint32_t a = 1; a < n; a++) { /* nearly sorted since the last time */
        uint32_t i = list[a], b = a;
        uint64_t at = s->offset[i];
        for (; b > 0 && s->offset[list[b - 1]] > at; b--)
            list[b] = list[b - 1];
        list[b] = i;
        s->steps += a - b;
    }
    uint64_t floor = WALL, second = WALL, end = 0;
    for (uint32_t a = 0; a < n; a++) {
        uint32_t i = list[a];
        if (s->placed[i])
            continue;
        uint64_t at = s->offset[i];
        if (floor == WALL)
            floor = end = ARITH_MAX(s->height[k], at);
        else if (at > floor && second == WALL)
            second = at;
        end = ARITH_MAX(end, at) + s->items[i].size;
    }
    if (end > s->limit)
        return false;
    if (floor != s->height[k])
        set(s, &s->height[k], floor);
    if (second != s->second[k])
        set(s, &s->second[k], second);
    return true;
}

/* Checks all stale sections; false if the branch is pruned. */
static bool check(struct search *s) {
    bool ok = true;
    for (uint32_t a = 0; a < s->n_stale; a++) {
        uint32_t k = s->stale[a];
        s->is_stale[k] = false;
        if (!ok || s->count[k] == 0)
            continue;
        ok = check_section(s, k);
        if (!ok)
            s->weight[k] += 1;
    }
    s->n_stale = 0;
    return ok;
}

/* Raises the unplaced items that share a section with [lo, hi) to `end` or above. */
static void push_up(struct search *s, uint32_t lo, uint32_t hi, uint64_t end) {
    s->steps += s->left;
    for (uint32_t a = 0; a < s->left; a++) {
        uint32_t i = s->unplaced[a];
        const struct pack_item *it = &s->items[i];
        if (s->offset[i] < end && it->lo < hi && lo < it->hi) {
            set(s, &s->offset[i], end);
            mark_stale(s, it->lo, it->hi);
        }
    }
}

static void place(struct search *s, uint32_t i) {
    const struct pack_item *it = &s->items[i];
    uint64_t end = s->offset[i] + it->size;
    uint32_t last = s->unplaced[--s->left], at = s->where[i];
    s->placed[i] = true;
    s->unplaced[at] = last;
    s->where[last] = at;
    s->unplaced[s->left] = i;
    s->where[i] = s->left;
    for (uint32_t k = it->lo; k < it->hi; k++) {
        s->sum[k] -= it->size;
        s->count[k]--;
        set(s, &s->height[k], s->count[k] > 0 ? end : WALL);
        set(s, &s->top[k], end);
    }
    mark_stale(s, it->lo, it->hi);
    push_up(s, it->lo, it->hi, end);
}

static void take_back(struct search *s, uint32_t i) {
    const struct pack_item *it = &s->items[i];
    s->placed[i] = false;
    s->left++; /* it is right behind the unplaced ones */
    for (uint32_t k = it->lo; k < it->hi; k++) {
        s->sum[k] += it->size;
        s->count[k]++;
    }
}

static void raise(struct search *s, uint32_t k, uint64_t height) {
    set(s, &s->height[k], height);
    mark_stale(s, k, k + 1);
    push_up(s, k, k + 1, height);
}

static void undo(struct search *s, uint32_t to) {
    while (s->n_changes > to) {
        s->n_changes--;
        *s->changes[s->n_changes].at = s->changes[s->n_changes].old;
    }
}

/* Whether something is right below the item's lowest offset; if not, it could be lowered. */
static bool is_supported(const struct search *s, uint32_t i) {
    if (s->offset[i] == 0)
        return true;
    for (uint32_t k = s->items[i].lo; k < s->items[i].hi; k++)
        if (s->top[k] == s->offset[i])
            return true;
    return false;
}

static bool is_in_valley(const struct search *s, uint32_t i) {
    uint32_t v = s->valley_of[s->items[i].lo];
    return v != NONE && v == s->valley_of[s->items[i].hi - 1];
}

/* The first of equal unplaced items stands for all of them. */
static bool is_candidate(const struct search *s, uint32_t i) {
    return (s->twin[i] == NONE || s->placed[s->twin[i]]) && is_supported(s, i);
}

static void find_valleys(struct search *s) {
    s->n_valleys = 0;
    for (uint32_t begin = 0, end; begin < s->sections; begin = end) {
        uint64_t h = s->height[begin];
        for (end = begin + 1; end < s->sections && s->height[end] == h; end++) {
        }
        struct valley v = {begin, end, begin > 0 ? s->height[begin - 1] : WALL,
                           end < s->sections ? s->height[end] : WALL};
        bool is_valley = v.left > h && v.right > h;
        for (uint32_t k = begin; k < end; k++) {
            s->valley_of[k] = is_valley ? s->n_valleys : NONE;
            s->candidates[k] = 0;
            s->ends_here[k] = s->begins_here[k] = WALL;
        }
        if (is_valley)
            s->valleys[s->n_valleys++] = v;
    }
    for (uint32_t a = 0; a < s->left; a++) {
        uint32_t i = s->unplaced[a];
        const struct pack_item *it = &s->items[i];
        if (!is_in_valley(s, i))
            continue;
        s->ends_here[it->hi - 1] = ARITH_MIN(s->ends_here[it->hi - 1], it->size);
        s->begins_here[it->lo] = ARITH_MIN(s->begins_here[it->lo], it->size);
        if (is_candidate(s, i)) {
            s->candidates[it->lo]++; /* differences; summed up by choose_section */
            if (it->hi < s->sections)
                s->candidates[it->hi]--;
        }
    }
    s->steps += s->left + 3 * s->sections;
}

/* How the section to branch on is chosen. */
enum choice { FEWEST_CANDIDATES, LEAST_SLACK, CHOICE_KINDS };

/* The section to branch on, in *best; false if some section has no candidate: the branch is pruned. */
static bool choose_section(struct search *s, enum choice by, struct branching *best) {
    double least = 0;
    best->section = NONE;
    for (uint32_t v = 0; v < s->n_valleys; v++) {
        const struct valley *it = &s->valleys[v];
        uint64_t smallest = WALL;
        for (uint32_t k = it->end; k-- > it->begin;) {
            s->begins_after[k] = smallest;
            smallest = ARITH_MIN(smallest, s->begins_here[k]);
        }
        smallest = WALL;
        uint32_t candidates = 0;
        for (uint32_t k = it->begin; k < it->end; k++) {
            candidates += s->candidates[k];
            /* Where the lowest block may lie if not on the floor: at its own lowest offset, or on a block
             * beside this section in the valley, or on one that reaches beyond a wall. */
            uint64_t up =
                ARITH_MIN(ARITH_MIN(smallest, s->begins_after[k]), WALL - s->height[k]) + s->height[k];
            up = ARITH_MIN(ARITH_MIN(up, s->second[k]), ARITH_MIN(it->left, it->right));
            smallest = ARITH_MIN(smallest, s->ends_here[k]);
            bool may_raise = up < WALL && up + s->sum[k] <= s->limit;
            uint32_t branches = candidates + may_raise;
            if (branches == 0) {
                s->weight[k] += 1;
                return false;
            }
            double cost = 0;
            if (branches > 1) {
                cost = (double)branches / s->weight[k];
                if (by == LEAST_SLACK)
                    cost *= (double)(s->limit - s->height[k] - s->sum[k]) + 1;
            }
            if (best->section == NONE || cost < least) {
                least = cost;
                best->section = k;
                best->raise = may_raise ? up : 0;
            }
        }
    }
    CHECK(best->section != NONE);
    return true;
}

/* Lists the candidates of a branching, best first: blocks that fit snugly between the walls. */
static void list_candidates(struct search *s, struct branching *b) {
    const struct valley *v = &s->valleys[s->valley_of[b->section]];
    uint32_t *choices = s->choices + s->n_choices, n = 0;
    for (uint32_t a = s->list_at[b->section]; a < s->list_at[b->section + 1]; a++) {
        uint32_t i = s->list[a];
        const struct pack_item *it = &s->items[i];
        if (s->placed[i] || !is_in_valley(s, i) || !is_candidate(s, i))
            continue;
        uint64_t end = s->offset[i] + it->size;
        double key = s->key[i];
        if (it->lo == v->begin)
            key *= end == v->left ? FIT_BOTH : FIT_SIDE;
        if (it->hi == v->end)
            key *= end == v->right ? FIT_BOTH : FIT_SIDE;
        uint32_t at = n++;
        for (; at > 0 && (s->score[at - 1] < key || (s->score[at - 1] == key && choices[at - 1] > i)); at--) {
            s->score[at] = s->score[at - 1];
            choices[at] = choices[at - 1];
        }
        s->score[at] = key;
        choices[at] = i;
    }
    b->first = b->next = s->n_choices;
    b->end = s->n_choices = b->first + n;
    b->placed = NONE;
    b->undo = s->n_changes;
}

static void back_to(struct search *s, struct branching *b) {
    undo(s, b->undo);
    if (b->placed != NONE)
        take_back(s, b->placed);
    b->placed = NONE;
}

/* Goes to the next candidate of the last branching that has one; false if none has. */
static bool next_candidate(struct search *s) {
    while (s->depth > 0) {
        struct branching *b = &s->path[s->depth - 1];
        back_to(s, b);
        if (b->next < b->end) {
            b->placed = s->choices[b->next++];
            place(s, b->placed);
        } else if (b->raise > 0) {
            raise(s, b->section, b->raise);
            b->raise = 0;
        } else {
            s->n_choices = b->first;
            s->depth--;
            continue;
        }
        if (check(s))
            return true;
    }
    return false;
}

static void start(struct search *s) {
    s->left = s->n;
    s->depth = s->n_choices = s->n_changes = s->n_stale = 0;
    memset(s->offset, 0, s->n * sizeof *s->offset);
    memset(s->placed, 0, s->n * sizeof *s->placed);
    memset(s->is_stale, 0, s->sections * sizeof *s->is_stale);
    for (uint32_t i = 0; i < s->n; i++)
        s->unplaced[i] = s->where[i] = i;
    for (uint32_t k = 0; k < s->sections; k++) {
        s->height[k] = s->top[k] = s->sum[k] = 0;
        s->second[k] = WALL;
        s->count[k] = s->list_at[k + 1] - s->list_at[k];
        for (uint32_t a = s->list_at[k]; a < s->list_at[k + 1]; a++)
            s->sum[k] += s->items[s->list[a]].size;
    }
}

/* One search from the root, given up after some nodes. */
static enum pack_outcome attempt(struct search *s, enum choice by, uint64_t nodes) {
    start(s);
    for (uint32_t k = 0; k < s->sections; k++)
        if (s->sum[k] > s->limit)
            return PACK_IMPOSSIBLE;
    while (s->left > 0) {
        if (nodes-- == 0 || !has_room(s) || !pack_budget_spend(s->budget, &s->steps))
            return PACK_GAVE_UP;
        struct branching *b = &s->path[s->depth];
        find_valleys(s);
        if (choose_section(s, by, b)) {
            list_candidates(s, b);
            s->depth++;
        }
        if (!next_candidate(s))
            return PACK_IMPOSSIBLE;
    }
    return PACK_FOUND;
}

static void set_lists(struct search *s) {
    uint32_t at = 0;
    for (uint32_t k = 0; k < s->sections; k++) {
        s->list_at[k] = at;
        for (uint32_t i = 0; i < s->n && s->items[i].lo <= k; i++)
            if (k < s->items[i].hi)
                s->list[at++] = i;
        s->weight[k] = 1;
    }
    s->list_at[s->sections] = at;
    /* Equal items are neighbours: items are sorted by lifetime and size. */
    for (uint32_t i = 0; i < s->n; i++) {
        const struct pack_item *it = &s->items[i], *other = &s->items[i > 0 ? i - 1 : 0];
        bool equal = i > 0 && it->lo == other->lo && it->hi == other->hi && it->size == other->size;
        s->twin[i] = equal ? i - 1 : NONE;
    }
    s->steps += (uint64_t)s->n * s->sections;
}

/* Keys of an attempt: the order, with noise. */
static void set_keys(struct search *s, enum order by, uint64_t seed) {
    for (uint32_t i = 0; i < s->n; i++) {
        const struct pack_item *it = &s->items[i];
        double length = (double)it->length, size = (double)it->size, key = 0;
        switch (by) {
        case BY_AREA:
            key = length * size;
            break;
        case BY_LENGTH:
            key = length;
            break;
        case BY_SIZE:
            key = size;
            break;
        case BY_PRESSURE: /* the fullest section that it lives in */
            for (uint32_t k = it->lo; k < it->hi; k++)
                key = (double)s->sum[k] > key ? (double)s->sum[k] : key;
            key = key * 0x1p20 + length;
            break;
        case ORDERS:
            CHECK(false);
        }
        uint64_t r = pack_part_random(&seed) >> 11;
        s->key[i] = key * (1 + NOISE * 0x1p-53 * (double)r);
    }
}

/* Luby's sequence, 1 1 2 1 1 2 4 1 1 2 1 1 2 4 8 ...: whatever length a successful attempt needs, not much is
 * wasted on others. */
static uint64_t luby(uint64_t k) {
    for (;;) {
        uint64_t m = 1;
        while (m < k)
            m = 2 * m + 1;
        if (m == k)
            return (m + 1) / 2;
        k -= m / 2;
    }
}

/* Looks for a packing of a part with no end above the limit. */
static enum pack_outcome search_for(struct pack_part *p, uint64_t limit, struct pack_budget *budget,
                                    struct carve work) {
    uint64_t length = 0;
    for (uint32_t i = 0; i < p->n; i++)
        length += p->items[i].hi - p->items[i].lo;
    struct search s = layout(&work, p->n, length);
    s.items = p->items;
    s.sections = p->sections;
    s.limit = limit;
    s.budget = budget;
    set_lists(&s);
    enum pack_outcome o = PACK_GAVE_UP;
    for (uint64_t k = 0; o == PACK_GAVE_UP && pack_budget_spend(budget, &s.steps); k++) {
        start(&s);
        set_keys(&s, (enum order)(k % ORDERS), p->seed++);
        o = attempt(&s, (enum choice)(k / ORDERS % CHOICE_KINDS), p->n + NODES * luby(k + 1));
    }
    pack_budget_spend(budget, &s.steps);
    if (o == PACK_FOUND) {
        memcpy(p->offsets, s.offset, p->n * sizeof *p->offsets);
        pack_part_measure(p);
    }
    return o;
}

bool pack_valley_can(const struct pack_part *p) {
    return p->n <= PACK_VALLEY_LARGEST && p->max_align > 0;
}

/* A search with at most so many steps; what it proves is kept. */
static enum pack_outcome try_limit(struct pack_part *p, uint64_t limit, uint64_t steps,
                                   struct pack_budget *budget, struct carve work) {
    struct pack_budget share = pack_budget_share(budget, steps);
    enum pack_outcome o = search_for(p, limit, &share, work);
    pack_budget_return(budget, &share);
    if (o == PACK_IMPOSSIBLE)
        p->proven = ARITH_MAX(p->proven, limit / p->max_align * p->max_align + p->max_align);
    return o;
}

/* Straight for the target, then as near to it by bisection as the steps go. */
void pack_valley_run(struct pack_part *p, struct pack_budget *budget, struct carve work) {
    const uint64_t steps = budget->steps / STRAIGHT, unit = p->max_align;
    uint64_t low = ARITH_MAX(p->target, p->proven); /* the lowest peak that may be possible and useful */
    if (try_limit(p, low, steps, budget, work) == PACK_IMPOSSIBLE)
        low = ARITH_MAX(p->target, p->proven);
    uint64_t near = ARITH_MAX((p->peak - ARITH_MIN(low, p->peak)) >> (5 + ARITH_MIN(p->round, 50u)), unit);
    while (p->peak > low && p->peak - low >= near && budget->steps > 0 && !budget->expired) {
        uint64_t limit = low + (p->peak - low) / unit / 2 * unit;
        if (try_limit(p, limit, steps / 4, budget, work) != PACK_FOUND)
            low = limit + unit;
    }
}
