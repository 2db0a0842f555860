/* Packs one part, however large, from below with a skyline over time. Sizes count rounded up to the largest
 * alignment here, so every offset suits every block.
 *
 * A valley is a run of sections of equal height between higher neighbours. One of the blocks that fit into it
 * is placed on its floor; when none fits, the floor rises to the lower neighbour, and what lies below is
 * wasted. A section's slack is how much may still be wasted there below the target. The block that covers
 * the most sections is preferred, and sections with little slack count more: this keeps the flexible blocks
 * for where flexibility is needed. Valleys do not depend on each other, so their order does not matter.
 *
 * Attempts differ in how they weigh slack, size and walls, and sections in which one attempt ended too high
 * count more in the next. An attempt takes n log n steps and a few for each section of a valley that is
 * lifted. */
#include "pack/pack_strategy.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define WALL        UINT64_MAX
#define ATTEMPTS    12
#define MANY        4096 /* items above which one attempt has to suffice */
#define CANDIDATES  400
#define NOISE       0.2    /* of attempts after the first round of styles */
#define PENALTY     0.5    /* what ending too high adds to a section's weight */
#define FADE        0.9    /* ... and how much of it remains after the next attempt */
#define ASK_AFTER   100000 /* steps between two payments */
#define LEAST_GROUP 5      /* log2 of the sections in a group with prefix sums of its own, at least */
#define MOST_GROUP  8      /* ... at most */

/* Invariant: offsets and heights are multiples of the largest alignment. */
struct skyline {
    const struct pack_item *items; /* sorted by lo */
    uint32_t n;
    uint32_t sections;
    uint32_t leaves;     /* of the tree of unplaced items: a power of two */
    uint32_t group_log2; /* of the sections in a group */
    uint64_t max_align;  /* the largest alignment */
    uint64_t limit;      /* slack is counted below it */
    uint64_t steps;      /* taken since the budget was asked */
    struct pack_budget *budget;
    bool out_of_steps; /* then the first block that fits is taken, to finish soon */

    double *value;        /* [n] factor in an item's score: its size, and noise */
    uint32_t *first_item; /* [sections + 1] the first item that begins there or later */
    uint64_t *live;       /* [sections + 1] */
    double *penalty;      /* [sections] */
    double *weight;       /* [sections] */
    double *inner;        /* [sections + 1] prefix sum of weights within a group of sections */
    double *outer;        /* [groups + 1] ... over all groups before */
    double *group;        /* [groups] of one group */

    /* The attempt. */
    uint32_t left;     /* items that are not placed yet */
    uint64_t *offsets; /* [n] of those that are */
    uint32_t *least;   /* [2 * leaves] the smallest hi of unplaced items below a node; leaf i is item i */
    uint64_t *wasted;  /* [sections] */
    /* Segments of equal height cover all sections; described where they begin. */
    uint64_t *height;   /* [sections] */
    uint32_t *end;      /* [sections] */
    uint32_t *begin_of; /* [sections + 1] of the segment that ends here */
};

/* What an attempt prefers. */
struct skyline_style {
    double softness; /* slack, as a share of the limit, that halves a section's weight */
    bool squared;
    double size;       /* 0: size does not matter, 1: its square root, 0.5: the root of that */
    double wall;       /* factor for a block that lies against a wall */
    double fit;        /* ... and is level with its top */
    double waste_cost; /* of what can no longer be filled beside a block */
    double noise;      /* share of randomness in a score */
};

static uint32_t leaves_for(uint32_t n) {
    uint32_t leaves = 1;
    while (leaves < n)
        leaves *= 2;
    return leaves;
}

static struct skyline layout(struct carve *c, uint32_t n, uint32_t sections) {
    struct skyline s = {.n = n, .sections = sections};
    s.value = carve_take(c, n, sizeof *s.value);
    s.first_item = carve_take(c, (uint64_t)sections + 1, sizeof *s.first_item);
    s.live = carve_take(c, (uint64_t)sections + 1, sizeof *s.live);
    s.penalty = carve_take(c, sections, sizeof *s.penalty);
    s.weight = carve_take(c, sections, sizeof *s.weight);
    s.inner = carve_take(c, (uint64_t)sections + 1, sizeof *s.inner);
    s.outer = carve_take(c, ((uint64_t)sections >> LEAST_GROUP) + 2, sizeof *s.outer);
    s.group = carve_take(c, ((uint64_t)sections >> LEAST_GROUP) + 1, sizeof *s.group);
    s.offsets = carve_take(c, n, sizeof *s.offsets);
    s.least = carve_take(c, 2 * (uint64_t)leaves_for(n), sizeof *s.least);
    s.wasted = carve_take(c, sections, sizeof *s.wasted);
    s.height = carve_take(c, sections, sizeof *s.height);
    s.end = carve_take(c, sections, sizeof *s.end);
    s.begin_of = carve_take(c, (uint64_t)sections + 1, sizeof *s.begin_of);
    return s;
}

uint64_t pack_skyline_bytes(uint32_t n) {
    struct carve c = carve_count();
    layout(&c, n, n);
    return c.used;
}

static void tree_fill(struct skyline *s) {
    uint32_t *least = s->least, leaves = s->leaves;
    for (uint32_t i = 0; i < leaves; i++)
        least[leaves + i] = i < s->n ? s->items[i].hi : UINT32_MAX;
    for (uint32_t k = leaves; k-- > 1;)
        least[k] = ARITH_MIN(least[2 * k], least[2 * k + 1]);
}

static void tree_remove(struct skyline *s, uint32_t i) {
    uint32_t *least = s->least, k = s->leaves + i;
    least[k] = UINT32_MAX;
    for (k /= 2; k > 0; k /= 2)
        least[k] = ARITH_MIN(least[2 * k], least[2 * k + 1]);
}

/* The first unplaced item from `from` on that ends at `hi` or before; UINT32_MAX if there is none. */
static uint32_t tree_next(const struct skyline *s, uint32_t from, uint32_t hi) {
    const uint32_t *least = s->least;
    if (from >= s->leaves)
        return UINT32_MAX;
    uint32_t k = s->leaves + from;
    while (least[k] > hi) {
        k >>= __builtin_ctz(~k); /* skips right children: their parents hold nothing more */
        if (k == 0)
            return UINT32_MAX;
        k++;
    }
    while (k < s->leaves)
        k = least[2 * k] <= hi ? 2 * k : 2 * k + 1;
    return k - s->leaves;
}

static uint64_t rounded(const struct skyline *s, uint32_t i) {
    return pack_part_align(s->items[i].size, s->max_align);
}

static double weight_before(const struct skyline *s, uint32_t k) {
    return s->outer[k >> s->group_log2] + s->inner[k];
}

/* Recomputes the weights of sections [begin, end) and the sums that depend on them. */
static void weigh(struct skyline *s, const struct skyline_style *t, uint32_t begin, uint32_t end) {
    double limit = (double)s->limit;
    for (uint32_t k = begin; k < end; k++) {
        uint64_t used = s->live[k] + s->wasted[k];
        double slack = used < s->limit ? (double)(s->limit - used) / limit : 0;
        double w = 1 / (t->softness + slack);
        s->weight[k] = (t->squared ? w * w : w) * (1 + s->penalty[k]);
    }
    uint32_t size = 1u << s->group_log2, blocks = ((s->sections - 1) >> s->group_log2) + 1;
    for (uint32_t b = begin / size; b <= (end - 1) / size; b++) {
        uint32_t stop = ARITH_MIN((b + 1) * size, s->sections);
        double sum = 0;
        for (uint32_t k = b * size; k < stop; k++) {
            s->inner[k] = sum;
            sum += s->weight[k];
        }
        s->inner[stop] = stop % size != 0 ? sum : 0;
        s->group[b] = sum;
    }
    for (uint32_t b = begin / size; b < blocks; b++)
        s->outer[b + 1] = s->outer[b] + s->group[b];
    s->steps += 2 * (end - begin) + size + blocks;
}

static void set_segment(struct skyline *s, uint32_t begin, uint32_t end, uint64_t height) {
    s->height[begin] = height;
    s->end[begin] = end;
    s->begin_of[end] = begin;
}

static void begin(struct skyline *s) {
    s->left = s->n;
    memset(s->wasted, 0, s->sections * sizeof *s->wasted);
    tree_fill(s);
    set_segment(s, 0, s->sections, 0);
}

static void set_style(struct skyline *s, const struct skyline_style *t, uint64_t seed) {
    for (uint32_t i = 0; i < s->n; i++) {
        double value = 1;
        if (t->size > 0)
            value = sqrt((double)s->items[i].size);
        if (t->size > 0 && t->size < 1)
            value = sqrt(value);
        s->value[i] = value * (1 + t->noise * 0x1p-53 * (double)(pack_part_random(&seed) >> 11));
    }
    s->outer[0] = 0;
    weigh(s, t, 0, s->sections);
    s->steps += 8 * (uint64_t)s->n;
}

/* Merges a segment with neighbours of the same height; returns where the result begins. */
static uint32_t join(struct skyline *s, uint32_t begin) {
    uint64_t h = s->height[begin];
    uint32_t end = s->end[begin];
    if (end < s->sections && s->height[end] == h)
        end = s->end[end];
    if (begin > 0 && s->height[s->begin_of[begin]] == h)
        begin = s->begin_of[begin];
    set_segment(s, begin, end, h);
    return begin;
}

struct valley {
    uint32_t begin;
    uint32_t end;
    uint64_t floor;
    uint64_t left; /* heights of its walls */
    uint64_t right;
};

/* What would be lost beside an item in its valley because no unplaced one fits there. */
static double loss(struct skyline *s, const struct skyline_style *t, const struct valley *v, uint32_t i) {
    const struct pack_item *it = &s->items[i];
    uint64_t size = rounded(s, i);
    double lost = 0;
    if (it->lo > v->begin && tree_next(s, s->first_item[v->begin], it->lo) >= s->first_item[it->lo])
        lost += (weight_before(s, it->lo) - weight_before(s, v->begin)) *
                (double)ARITH_MIN(v->left - v->floor, size);
    if (it->hi < v->end && tree_next(s, s->first_item[it->hi], v->end) >= s->first_item[v->end])
        lost += (weight_before(s, v->end) - weight_before(s, it->hi)) *
                (double)ARITH_MIN(v->right - v->floor, size);
    s->steps += 24;
    return t->waste_cost * lost * s->value[i] / (double)size;
}

/* The block for the floor of a valley, or UINT32_MAX. */
static uint32_t choose(struct skyline *s, const struct skyline_style *t, const struct valley *v) {
    uint32_t best = UINT32_MAX, stop = s->first_item[v->end];
    double most = -DBL_MAX;
    uint32_t i = tree_next(s, s->first_item[v->begin], v->end);
    for (uint32_t tries = 0; i < stop && tries < CANDIDATES; tries++) {
        const struct pack_item *it = &s->items[i];
        uint64_t top = v->floor + rounded(s, i);
        if (s->out_of_steps)
            return i;
        double score = (weight_before(s, it->hi) - weight_before(s, it->lo)) * s->value[i];
        if (it->lo == v->begin)
            score *= top == v->left ? t->fit : t->wall;
        if (it->hi == v->end)
            score *= top == v->right ? t->fit : t->wall;
        if (score > most)
            score -= loss(s, t, v, i);
        if (score > most) {
            most = score;
            best = i;
        }
        s->steps += 12;
        i = tree_next(s, i + 1, v->end);
    }
    return best;
}

/* Raises sections [lo, hi) of a valley to `top`; returns the segment to continue from. */
static uint32_t raise(struct skyline *s, const struct valley *v, uint32_t lo, uint32_t hi, uint64_t top) {
    if (lo > v->begin)
        set_segment(s, v->begin, lo, v->floor);
    if (hi < v->end)
        set_segment(s, hi, v->end, v->floor);
    set_segment(s, lo, hi, top);
    uint32_t on = join(s, lo);
    s->steps += 30;
    return lo > v->begin ? v->begin : hi < v->end ? hi : on;
}

/* Nothing fits: the floor rises to the lower wall; returns the segment to continue from. */
static uint32_t lift(struct skyline *s, const struct skyline_style *t, const struct valley *v) {
    const uint64_t wall = ARITH_MIN(v->left, v->right);
    CHECK(wall != WALL); /* a flat skyline has room for everything */
    for (uint32_t k = v->begin; k < v->end; k++)
        s->wasted[k] += wall - v->floor;
    if (!s->out_of_steps)
        weigh(s, t, v->begin, v->end);
    s->height[v->begin] = wall;
    return join(s, v->begin);
}

static bool is_valley(const struct valley *v) {
    return v->left >= v->floor && v->right >= v->floor;
}

/* Places one block on the floor of a valley; returns the segment to continue from. */
static uint32_t fill_valley(struct skyline *s, const struct skyline_style *t, const struct valley *v) {
    uint32_t i = choose(s, t, v);
    if (i == UINT32_MAX)
        return lift(s, t, v);
    s->offsets[i] = v->floor;
    tree_remove(s, i);
    s->left--;
    return raise(s, v, s->items[i].lo, s->items[i].hi, v->floor + rounded(s, i));
}

static void fill(struct skyline *s, const struct skyline_style *t) {
    /* There is no valley to the left of `at`: heights descend towards `at`. */
    for (uint32_t at = 0; s->left > 0 && at < s->sections;) {
        struct valley v = {.begin = at, .end = s->end[at], .floor = s->height[at]};
        v.left = at > 0 ? s->height[s->begin_of[at]] : WALL;
        v.right = v.end < s->sections ? s->height[v.end] : WALL;
        s->steps += 4;
        if (!is_valley(&v)) {
            at = v.end;
            continue;
        }
        at = fill_valley(s, t, &v);
        if (s->steps >= ASK_AFTER && !pack_budget_spend(s->budget, &s->steps))
            s->out_of_steps = true;
        while (at > 0 && s->height[s->begin_of[at]] < s->height[at])
            at = s->begin_of[at];
    }
}

/* Penalises the sections of items whose top is in the upper half of what exceeds the limit. */
static void penalty(struct skyline *s, uint64_t peak) {
    uint64_t high = s->limit + (peak - ARITH_MIN(peak, s->limit)) / 2;
    double *change = s->inner; /* computed anew before its next use */
    memset(change, 0, (s->sections + 1) * sizeof *change);
    for (uint32_t i = 0; i < s->n; i++)
        if (s->offsets[i] + s->items[i].size > high) {
            change[s->items[i].lo] += 1;
            change[s->items[i].hi] -= 1;
        }
    double count = 0;
    for (uint32_t k = 0; k < s->sections; k++) {
        count += change[k];
        s->penalty[k] = FADE * s->penalty[k] + (count > 0.5 ? PENALTY : 0);
    }
}

static void prepare(struct skyline *s) {
    s->leaves = leaves_for(s->n);
    s->group_log2 = LEAST_GROUP; /* about as many groups as sections per group: the fewest sums */
    while (s->group_log2 < MOST_GROUP && s->sections >> (2 * s->group_log2) > 1)
        s->group_log2++;
    memset(s->penalty, 0, s->sections * sizeof *s->penalty);
    for (uint32_t i = 0, k = 0; i <= s->n; i++)
        for (; k <= (i < s->n ? s->items[i].lo : s->sections); k++)
            s->first_item[k] = i;
}

enum { STYLES = 6 };
static const struct skyline_style styles[STYLES] = {
    {.softness = 0.01, .waste_cost = 1, .wall = 1.5, .fit = 1.5},
    {.softness = 0.01, .waste_cost = 3, .squared = true, .wall = 1.5, .fit = 1.5},
    {.softness = 0.003, .waste_cost = 1, .size = 0.5, .wall = 1.5, .fit = 1.5, .noise = 0.1},
    {.softness = 0.05, .waste_cost = 3, .squared = true, .wall = 1.5, .fit = 3, .noise = 0.1},
    {.softness = 0.003, .waste_cost = 3, .wall = 1.2, .fit = 2, .noise = 0.1},
    {.softness = 0.01, .size = 1, .wall = 1.5, .fit = 3, .noise = 0.1},
};

bool pack_skyline_can(const struct pack_part *p) {
    return p->max_align > 0;
}

void pack_skyline_run(struct pack_part *p, struct pack_budget *budget, struct carve work) {
    const uint32_t attempts = p->n > MANY ? 1 : ATTEMPTS;
    struct skyline s = layout(&work, p->n, p->n);
    s.items = p->items;
    s.budget = budget;
    s.sections = p->sections;
    s.limit = p->target;
    s.max_align = p->max_align;
    CHECK(s.penalty != NULL); /* carved, not counted */
    prepare(&s);
    pack_part_live(p, p->max_align, s.live);
    uint64_t least = UINT64_MAX;
    uint32_t best = 0; /* style of the best attempt: used every other time after the first round */
    for (uint32_t k = 0; k < attempts && p->peak > p->target; k++) {
        uint32_t which = k < STYLES || k % 2 == 0 ? k / (k < STYLES ? 1 : 2) % STYLES : best;
        struct skyline_style t = styles[which];
        if (k >= STYLES)
            t.noise = NOISE;
        if (p->peak != UINT64_MAX)
            s.limit = p->target + (p->peak - p->target) / 2;
        begin(&s);
        set_style(&s, &t, k);
        fill(&s, &t);
        uint64_t peak = 0;
        for (uint32_t i = 0; i < p->n; i++)
            peak = ARITH_MAX(peak, s.offsets[i] + p->items[i].size);
        if (peak < least) {
            least = peak;
            best = which;
        }
        if (peak < p->peak) {
            p->peak = peak;
            memcpy(p->offsets, s.offsets, p->n * sizeof *p->offsets);
        }
        penalty(&s, peak);
        if (s.out_of_steps || !pack_budget_spend(budget, &s.steps))
            return;
    }
}
