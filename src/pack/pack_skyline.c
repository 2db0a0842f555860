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
#include "pack/pack_skyline.h"

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

static uint32_t leaves_for(uint32_t n) {
    uint32_t leaves = 1;
    while (leaves < n)
        leaves *= 2;
    return leaves;
}

struct skyline_state pack_skyline_state(struct carve *c, uint32_t n, uint32_t sections) {
    struct skyline_state s = {0};
    s.offsets = carve_take(c, n, sizeof *s.offsets);
    s.least = carve_take(c, 2 * (uint64_t)leaves_for(n), sizeof *s.least);
    s.wasted = carve_take(c, sections, sizeof *s.wasted);
    s.height = carve_take(c, sections, sizeof *s.height);
    s.end = carve_take(c, sections, sizeof *s.end);
    s.begin_of = carve_take(c, (uint64_t)sections + 1, sizeof *s.begin_of);
    return s;
}

struct skyline pack_skyline_layout(struct carve *c, uint32_t n, uint32_t sections) {
    struct skyline s = {.n = n, .sections = sections};
    s.value = carve_take(c, n, sizeof *s.value);
    s.first_item = carve_take(c, (uint64_t)sections + 1, sizeof *s.first_item);
    s.live = carve_take(c, (uint64_t)sections + 1, sizeof *s.live);
    s.penalty = carve_take(c, sections, sizeof *s.penalty);
    s.weight = carve_take(c, sections, sizeof *s.weight);
    s.inner = carve_take(c, (uint64_t)sections + 1, sizeof *s.inner);
    s.outer = carve_take(c, ((uint64_t)sections >> LEAST_GROUP) + 2, sizeof *s.outer);
    s.group = carve_take(c, ((uint64_t)sections >> LEAST_GROUP) + 1, sizeof *s.group);
    s.now = pack_skyline_state(c, n, sections);
    return s;
}

void pack_skyline_copy(const struct skyline *s, struct skyline_state *to, const struct skyline_state *from) {
    to->left = from->left;
    memcpy(to->offsets, from->offsets, s->n * sizeof *to->offsets);
    memcpy(to->least, from->least, 2 * (uint64_t)s->leaves * sizeof *to->least);
    memcpy(to->wasted, from->wasted, s->sections * sizeof *to->wasted);
    memcpy(to->height, from->height, s->sections * sizeof *to->height);
    memcpy(to->end, from->end, s->sections * sizeof *to->end);
    memcpy(to->begin_of, from->begin_of, (s->sections + 1) * sizeof *to->begin_of);
}

uint64_t pack_skyline_bytes(uint32_t n) {
    struct carve c = carve_count();
    pack_skyline_layout(&c, n, n);
    return c.used;
}

static void tree_fill(struct skyline *s) {
    uint32_t *least = s->now.least, leaves = s->leaves;
    for (uint32_t i = 0; i < leaves; i++)
        least[leaves + i] = i < s->n ? s->items[i].hi : UINT32_MAX;
    for (uint32_t k = leaves; k-- > 1;)
        least[k] = ARITH_MIN(least[2 * k], least[2 * k + 1]);
}

static void tree_remove(struct skyline *s, uint32_t i) {
    uint32_t *least = s->now.least, k = s->leaves + i;
    least[k] = UINT32_MAX;
    for (k /= 2; k > 0; k /= 2)
        least[k] = ARITH_MIN(least[2 * k], least[2 * k + 1]);
}

/* The first unplaced item from `from` on that ends at `hi` or before; UINT32_MAX if there is none. */
static uint32_t tree_next(const struct skyline *s, uint32_t from, uint32_t hi) {
    const uint32_t *least = s->now.least;
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
        uint64_t used = s->live[k] + s->now.wasted[k];
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
    s->now.height[begin] = height;
    s->now.end[begin] = end;
    s->now.begin_of[end] = begin;
}

void pack_skyline_begin(struct skyline *s) {
    s->now.left = s->n;
    memset(s->now.wasted, 0, s->sections * sizeof *s->now.wasted);
    tree_fill(s);
    set_segment(s, 0, s->sections, 0);
}

void pack_skyline_set_style(struct skyline *s, const struct skyline_style *t, uint64_t seed) {
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
    uint64_t h = s->now.height[begin];
    uint32_t end = s->now.end[begin];
    if (end < s->sections && s->now.height[end] == h)
        end = s->now.end[end];
    if (begin > 0 && s->now.height[s->now.begin_of[begin]] == h)
        begin = s->now.begin_of[begin];
    set_segment(s, begin, end, h);
    return begin;
}

/* The lowest of sorted obstacles with a bottom in [from, below) that shares a section with [lo, hi); NULL if
 * there is none. */
static const struct pack_obstacle *obstacle_in(struct skyline *s, const struct pack_obstacle *o, uint32_t n,
                                               uint32_t at, uint64_t below, uint32_t lo, uint32_t hi) {
    for (; at < n && o[at].bottom < below; at++) {
        s->steps += 2;
        if (o[at].lo < hi && lo < o[at].hi)
            return &o[at];
    }
    return NULL;
}

/* The first of obstacles sorted by bottom that lies at `height` or above. */
static uint32_t obstacles_from(const struct pack_obstacle *o, uint32_t n, uint64_t height) {
    uint32_t low = 0, high = n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (o[middle].bottom < height)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The valley that is being filled. */
struct valley {
    uint32_t begin;
    uint32_t end;
    uint64_t floor;
    uint64_t left; /* heights of its walls */
    uint64_t right;
    uint32_t left_from; /* the first obstacles at its floor or above */
    uint32_t right_from;
};

static const struct pack_obstacle *obstacle_above(struct skyline *s, const struct valley *v, uint64_t below,
                                                  uint32_t lo, uint32_t hi) {
    const struct pack_obstacle *l = obstacle_in(s, s->left, s->n_left, v->left_from, below, lo, hi);
    const struct pack_obstacle *r =
        obstacle_in(s, s->right, s->n_right, v->right_from, l != NULL ? l->bottom : below, lo, hi);
    return r != NULL ? r : l;
}

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
    for (uint32_t tries = 0; i < stop && tries < s->candidates; tries++) {
        const struct pack_item *it = &s->items[i];
        uint64_t top = v->floor + rounded(s, i);
        bool is_free = obstacle_above(s, v, top, it->lo, it->hi) == NULL;
        if (is_free && s->out_of_steps)
            return i;
        double score = (weight_before(s, it->hi) - weight_before(s, it->lo)) * s->value[i];
        if (it->lo == v->begin)
            score *= top == v->left ? t->fit : t->wall;
        if (it->hi == v->end)
            score *= top == v->right ? t->fit : t->wall;
        if (is_free && score > most)
            score -= loss(s, t, v, i);
        if (is_free && score > most) {
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

/* Nothing fits: the floor rises to the lower wall or to an obstacle; returns the segment to continue from. */
static uint32_t lift(struct skyline *s, const struct skyline_style *t, const struct valley *v) {
    uint64_t wall = ARITH_MIN(v->left, v->right);
    const struct pack_obstacle *o = obstacle_above(s, v, wall, v->begin, v->end);
    if (o != NULL)
        wall = o->bottom;
    CHECK(wall != WALL); /* a flat skyline has room for everything */
    for (uint32_t k = v->begin; k < v->end; k++)
        s->now.wasted[k] += wall - v->floor;
    if (!s->out_of_steps)
        weigh(s, t, v->begin, v->end);
    s->now.height[v->begin] = wall;
    return join(s, v->begin);
}

static bool is_valley(const struct valley *v) {
    return v->left >= v->floor && v->right >= v->floor;
}

/* Places one block or obstacle on the floor of a valley; returns the segment to continue from. */
static uint32_t fill_valley(struct skyline *s, const struct skyline_style *t, struct valley *v) {
    v->left_from = obstacles_from(s->left, s->n_left, v->floor);
    v->right_from = obstacles_from(s->right, s->n_right, v->floor);
    const struct pack_obstacle *o = obstacle_above(s, v, v->floor + 1, v->begin, v->end);
    if (o != NULL)
        return raise(s, v, ARITH_MAX(o->lo, v->begin), ARITH_MIN(o->hi, v->end), o->top);
    uint32_t i = choose(s, t, v);
    if (i == UINT32_MAX)
        return lift(s, t, v);
    s->now.offsets[i] = v->floor;
    tree_remove(s, i);
    s->now.left--;
    return raise(s, v, s->items[i].lo, s->items[i].hi, v->floor + rounded(s, i));
}

void pack_skyline_fill(struct skyline *s, const struct skyline_style *t, uint64_t level) {
    struct skyline_state *now = &s->now;
    /* There is no valley below the level to the left of `at`: heights below it descend towards `at`. */
    for (uint32_t at = 0; now->left > 0 && at < s->sections;) {
        struct valley v = {.begin = at, .end = now->end[at], .floor = now->height[at]};
        v.left = at > 0 ? now->height[now->begin_of[at]] : WALL;
        v.right = v.end < s->sections ? now->height[v.end] : WALL;
        s->steps += 4;
        if (v.floor >= level || !is_valley(&v)) {
            at = v.end;
            continue;
        }
        at = fill_valley(s, t, &v);
        if (s->steps >= ASK_AFTER && !pack_budget_spend(s->budget, &s->steps))
            s->out_of_steps = true;
        while (at > 0 && now->height[now->begin_of[at]] < ARITH_MIN(now->height[at], level))
            at = now->begin_of[at];
    }
}

/* Penalises the sections of items whose top is in the upper half of what exceeds the limit. */
static void penalty(struct skyline *s, uint64_t peak) {
    uint64_t high = s->limit + (peak - ARITH_MIN(peak, s->limit)) / 2;
    double *change = s->inner; /* computed anew before its next use */
    memset(change, 0, (s->sections + 1) * sizeof *change);
    for (uint32_t i = 0; i < s->n; i++)
        if (s->now.offsets[i] + s->items[i].size > high) {
            change[s->items[i].lo] += 1;
            change[s->items[i].hi] -= 1;
        }
    double count = 0;
    for (uint32_t k = 0; k < s->sections; k++) {
        count += change[k];
        s->penalty[k] = FADE * s->penalty[k] + (count > 0.5 ? PENALTY : 0);
    }
}

void pack_skyline_prepare(struct skyline *s) {
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
    struct skyline s = pack_skyline_layout(&work, p->n, p->n);
    s.items = p->items;
    s.candidates = CANDIDATES;
    s.budget = budget;
    s.sections = p->sections;
    s.limit = p->target;
    s.max_align = p->max_align;
    CHECK(s.penalty != NULL); /* carved, not counted */
    pack_skyline_prepare(&s);
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
        pack_skyline_begin(&s);
        pack_skyline_set_style(&s, &t, k);
        pack_skyline_fill(&s, &t, WALL);
        uint64_t peak = 0;
        for (uint32_t i = 0; i < p->n; i++)
            peak = ARITH_MAX(peak, s.now.offsets[i] + p->items[i].size);
        if (peak < least) {
            least = peak;
            best = which;
        }
        if (peak < p->peak) {
            p->peak = peak;
            memcpy(p->offsets, s.now.offsets, p->n * sizeof *p->offsets);
        }
        penalty(&s, peak);
        if (s.out_of_steps || !pack_budget_spend(budget, &s.steps))
            return;
    }
}
