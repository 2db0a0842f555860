/* Packings of one part, however large: the time line is filled from below like a landscape. Here all sizes
 * count rounded up to the largest alignment, so every offset suits every block.
 *
 * A valley is a stretch of sections with equal heights between higher neighbours. Of the blocks that fit into
 * it one is laid on its ground; when none fits, the ground rises to the lower neighbour, and what is below is
 * wasted. A section's slack is what may still be wasted there below the target. Preferred is the block that
 * covers the most sections, those with little slack counting more, since there nothing may be wasted: that
 * leaves the flexible blocks for where flexibility is needed. Valleys do not depend on each other, so their
 * order does not matter.
 *
 * Many attempts differ in how they weigh slack, size and walls, and sections where one ended too high count
 * more in the next. An attempt takes n log n steps and a few for each section of a valley that is lifted. */
#include "pack/pack_skyline.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define WALL        UINT64_MAX
#define ATTEMPTS    12
#define MANY        4096 /* items, from which on one attempt has to do */
#define CANDIDATES  400
#define SHAKE       0.2    /* of attempts after the first round of tastes */
#define BLAME       0.5    /* what ending too high adds to the weight of a section */
#define FADE        0.9    /* ... and what is left of it after another attempt */
#define ASK_AFTER   100000 /* steps between two looks at the budget */
#define LEAST_BLOCK 5      /* log2 of the sections with a common prefix sum, at least */
#define MOST_BLOCK  8      /* ... at most */

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
    s.favour = carve_take(c, n, sizeof *s.favour);
    s.first_item = carve_take(c, (uint64_t)sections + 1, sizeof *s.first_item);
    s.live = carve_take(c, (uint64_t)sections + 1, sizeof *s.live);
    s.blame = carve_take(c, sections, sizeof *s.blame);
    s.weight = carve_take(c, sections, sizeof *s.weight);
    s.inner = carve_take(c, (uint64_t)sections + 1, sizeof *s.inner);
    s.outer = carve_take(c, ((uint64_t)sections >> LEAST_BLOCK) + 2, sizeof *s.outer);
    s.block = carve_take(c, ((uint64_t)sections >> LEAST_BLOCK) + 1, sizeof *s.block);
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

/* The first item to come from `from` on that ends at `hi` or before; UINT32_MAX if none does. */
static uint32_t tree_next(const struct skyline *s, uint32_t from, uint32_t hi) {
    const uint32_t *least = s->now.least;
    if (from >= s->leaves)
        return UINT32_MAX;
    uint32_t k = s->leaves + from;
    while (least[k] > hi) {
        k >>= __builtin_ctz(~k); /* right children: nothing more below their parents */
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
    return s->outer[k >> s->block_log2] + s->inner[k];
}

/* Weights of sections [begin, end) anew, and the sums that depend on them. */
static void weigh(struct skyline *s, const struct skyline_taste *t, uint32_t begin, uint32_t end) {
    double limit = (double)s->limit;
    for (uint32_t k = begin; k < end; k++) {
        uint64_t used = s->live[k] + s->now.wasted[k];
        double slack = used < s->limit ? (double)(s->limit - used) / limit : 0;
        double w = 1 / (t->softness + slack);
        s->weight[k] = (t->squared ? w * w : w) * (1 + s->blame[k]);
    }
    uint32_t size = 1u << s->block_log2, blocks = ((s->sections - 1) >> s->block_log2) + 1;
    for (uint32_t b = begin / size; b <= (end - 1) / size; b++) {
        uint32_t stop = ARITH_MIN((b + 1) * size, s->sections);
        double sum = 0;
        for (uint32_t k = b * size; k < stop; k++) {
            s->inner[k] = sum;
            sum += s->weight[k];
        }
        s->inner[stop] = stop % size != 0 ? sum : 0;
        s->block[b] = sum;
    }
    for (uint32_t b = begin / size; b < blocks; b++)
        s->outer[b + 1] = s->outer[b] + s->block[b];
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

void pack_skyline_taste(struct skyline *s, const struct skyline_taste *t, uint64_t seed) {
    for (uint32_t i = 0; i < s->n; i++) {
        double favour = 1;
        if (t->size > 0)
            favour = sqrt((double)s->items[i].size);
        if (t->size > 0 && t->size < 1)
            favour = sqrt(favour);
        s->favour[i] = favour * (1 + t->shake * 0x1p-53 * (double)(pack_part_random(&seed) >> 11));
    }
    s->outer[0] = 0;
    weigh(s, t, 0, s->sections);
    s->steps += 8 * (uint64_t)s->n;
}

/* Joins a segment with neighbours of the same height; returns where the whole begins. */
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
    uint64_t ground;
    uint64_t left; /* heights of its walls */
    uint64_t right;
    uint32_t left_from; /* the first obstacles at its ground or above */
    uint32_t right_from;
};

static const struct pack_obstacle *obstacle_above(struct skyline *s, const struct valley *v, uint64_t below,
                                                  uint32_t lo, uint32_t hi) {
    const struct pack_obstacle *l = obstacle_in(s, s->left, s->n_left, v->left_from, below, lo, hi);
    const struct pack_obstacle *r =
        obstacle_in(s, s->right, s->n_right, v->right_from, l != NULL ? l->bottom : below, lo, hi);
    return r != NULL ? r : l;
}

/* What is lost beside an item in its valley because nothing to come fits there. */
static double loss(struct skyline *s, const struct skyline_taste *t, const struct valley *v, uint32_t i) {
    const struct pack_item *it = &s->items[i];
    uint64_t size = rounded(s, i);
    double lost = 0;
    if (it->lo > v->begin && tree_next(s, s->first_item[v->begin], it->lo) >= s->first_item[it->lo])
        lost += (weight_before(s, it->lo) - weight_before(s, v->begin)) *
                (double)ARITH_MIN(v->left - v->ground, size);
    if (it->hi < v->end && tree_next(s, s->first_item[it->hi], v->end) >= s->first_item[v->end])
        lost += (weight_before(s, v->end) - weight_before(s, it->hi)) *
                (double)ARITH_MIN(v->right - v->ground, size);
    s->steps += 24;
    return t->thrift * lost * s->favour[i] / (double)size;
}

/* The block for the ground of a valley, or UINT32_MAX. */
static uint32_t choose(struct skyline *s, const struct skyline_taste *t, const struct valley *v) {
    uint32_t best = UINT32_MAX, stop = s->first_item[v->end];
    double most = -DBL_MAX;
    uint32_t i = tree_next(s, s->first_item[v->begin], v->end);
    for (uint32_t tries = 0; i < stop && tries < s->candidates; tries++) {
        const struct pack_item *it = &s->items[i];
        uint64_t top = v->ground + rounded(s, i);
        bool is_free = obstacle_above(s, v, top, it->lo, it->hi) == NULL;
        if (is_free && s->in_a_hurry)
            return i;
        double worth = (weight_before(s, it->hi) - weight_before(s, it->lo)) * s->favour[i];
        if (it->lo == v->begin)
            worth *= top == v->left ? t->fit : t->wall;
        if (it->hi == v->end)
            worth *= top == v->right ? t->fit : t->wall;
        if (is_free && worth > most)
            worth -= loss(s, t, v, i);
        if (is_free && worth > most) {
            most = worth;
            best = i;
        }
        s->steps += 12;
        i = tree_next(s, i + 1, v->end);
    }
    return best;
}

/* Raises sections [lo, hi) of a valley to `top`; returns a segment from which to go on. */
static uint32_t raise(struct skyline *s, const struct valley *v, uint32_t lo, uint32_t hi, uint64_t top) {
    if (lo > v->begin)
        set_segment(s, v->begin, lo, v->ground);
    if (hi < v->end)
        set_segment(s, hi, v->end, v->ground);
    set_segment(s, lo, hi, top);
    uint32_t on = join(s, lo);
    s->steps += 30;
    return lo > v->begin ? v->begin : hi < v->end ? hi : on;
}

/* Nothing fits: the ground rises to the lower wall or to an obstacle; returns a segment from which to go on.
 */
static uint32_t lift(struct skyline *s, const struct skyline_taste *t, const struct valley *v) {
    uint64_t wall = ARITH_MIN(v->left, v->right);
    const struct pack_obstacle *o = obstacle_above(s, v, wall, v->begin, v->end);
    if (o != NULL)
        wall = o->bottom;
    CHECK(wall != WALL); /* a flat landscape has room for all */
    for (uint32_t k = v->begin; k < v->end; k++)
        s->now.wasted[k] += wall - v->ground;
    if (!s->in_a_hurry)
        weigh(s, t, v->begin, v->end);
    s->now.height[v->begin] = wall;
    return join(s, v->begin);
}

static bool is_valley(const struct valley *v) {
    return v->left >= v->ground && v->right >= v->ground;
}

/* One thing on the ground of a valley; returns a segment from which to go on. */
static uint32_t fill_valley(struct skyline *s, const struct skyline_taste *t, struct valley *v) {
    v->left_from = obstacles_from(s->left, s->n_left, v->ground);
    v->right_from = obstacles_from(s->right, s->n_right, v->ground);
    const struct pack_obstacle *o = obstacle_above(s, v, v->ground + 1, v->begin, v->end);
    if (o != NULL)
        return raise(s, v, ARITH_MAX(o->lo, v->begin), ARITH_MIN(o->hi, v->end), o->top);
    uint32_t i = choose(s, t, v);
    if (i == UINT32_MAX)
        return lift(s, t, v);
    s->now.offsets[i] = v->ground;
    tree_remove(s, i);
    s->now.left--;
    return raise(s, v, s->items[i].lo, s->items[i].hi, v->ground + rounded(s, i));
}

void pack_skyline_fill(struct skyline *s, const struct skyline_taste *t, uint64_t level) {
    struct skyline_state *now = &s->now;
    /* Left of `at` there is no valley below the level: what is lower than the level there falls to `at`. */
    for (uint32_t at = 0; now->left > 0 && at < s->sections;) {
        struct valley v = {.begin = at, .end = now->end[at], .ground = now->height[at]};
        v.left = at > 0 ? now->height[now->begin_of[at]] : WALL;
        v.right = v.end < s->sections ? now->height[v.end] : WALL;
        s->steps += 4;
        if (v.ground >= level || !is_valley(&v)) {
            at = v.end;
            continue;
        }
        at = fill_valley(s, t, &v);
        if (s->steps >= ASK_AFTER && !pack_budget_spend(s->budget, &s->steps))
            s->in_a_hurry = true;
        while (at > 0 && now->height[now->begin_of[at]] < ARITH_MIN(now->height[at], level))
            at = now->begin_of[at];
    }
}

/* Blames the sections under items whose end is in the upper half of what is above the limit. */
static void blame(struct skyline *s, uint64_t peak) {
    uint64_t high = s->limit + (peak - ARITH_MIN(peak, s->limit)) / 2;
    double *change = s->inner; /* is set anew before it is used again */
    memset(change, 0, (s->sections + 1) * sizeof *change);
    for (uint32_t i = 0; i < s->n; i++)
        if (s->now.offsets[i] + s->items[i].size > high) {
            change[s->items[i].lo] += 1;
            change[s->items[i].hi] -= 1;
        }
    double count = 0;
    for (uint32_t k = 0; k < s->sections; k++) {
        count += change[k];
        s->blame[k] = FADE * s->blame[k] + (count > 0.5 ? BLAME : 0);
    }
}

void pack_skyline_prepare(struct skyline *s) {
    s->leaves = leaves_for(s->n);
    s->block_log2 = LEAST_BLOCK; /* about as many blocks as sections in one: the fewest sums */
    while (s->block_log2 < MOST_BLOCK && s->sections >> (2 * s->block_log2) > 1)
        s->block_log2++;
    memset(s->blame, 0, s->sections * sizeof *s->blame);
    for (uint32_t i = 0, k = 0; i <= s->n; i++)
        for (; k <= (i < s->n ? s->items[i].lo : s->sections); k++)
            s->first_item[k] = i;
}

enum { TASTES = 6 };
static const struct skyline_taste tastes[TASTES] = {
    {.softness = 0.01, .thrift = 1, .wall = 1.5, .fit = 1.5},
    {.softness = 0.01, .thrift = 3, .squared = true, .wall = 1.5, .fit = 1.5},
    {.softness = 0.003, .thrift = 1, .size = 0.5, .wall = 1.5, .fit = 1.5, .shake = 0.1},
    {.softness = 0.05, .thrift = 3, .squared = true, .wall = 1.5, .fit = 3, .shake = 0.1},
    {.softness = 0.003, .thrift = 3, .wall = 1.2, .fit = 2, .shake = 0.1},
    {.softness = 0.01, .size = 1, .wall = 1.5, .fit = 3, .shake = 0.1},
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
    CHECK(s.blame != NULL); /* carved, not counted */
    pack_skyline_prepare(&s);
    pack_part_live(p, p->max_align, s.live);
    uint64_t least = UINT64_MAX;
    uint32_t best = 0; /* taste of the best attempt: every other one after the first round */
    for (uint32_t k = 0; k < attempts && p->peak > p->target; k++) {
        uint32_t which = k < TASTES || k % 2 == 0 ? k / (k < TASTES ? 1 : 2) % TASTES : best;
        struct skyline_taste t = tastes[which];
        if (k >= TASTES)
            t.shake = SHAKE;
        if (p->peak != UINT64_MAX)
            s.limit = p->target + (p->peak - p->target) / 2;
        pack_skyline_begin(&s);
        pack_skyline_taste(&s, &t, k);
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
        blame(&s, peak);
        if (s.in_a_hurry || !pack_budget_spend(budget, &s.steps))
            return;
    }
}
