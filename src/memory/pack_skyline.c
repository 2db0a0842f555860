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
#include "memory/pack_part.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define WALL       UINT64_MAX
#define CANDIDATES 400 /* looked at in one valley */
#define SHAKE      0.2 /* of attempts after the first round of tastes */
#define BLAME      0.5 /* what ending too high adds to the weight of a section */
#define FADE       0.9 /* ... and what is left of it after another attempt */
#define BLOCK      256 /* sections with a common prefix sum */

struct tree {
    uint32_t leaves; /* a power of two */
    uint32_t *least; /* [2 * leaves] the smallest hi below a node, of items to come; leaf i: item i */
};

struct skyline {
    const struct pack_item *items;
    uint32_t n;
    uint32_t sections;
    uint64_t grain; /* the largest alignment */
    uint64_t limit; /* slack is what is left below it */
    uint64_t steps;

    uint64_t *offsets;    /* [n] of the attempt */
    double *favour;       /* [n] of an item: its size and chance */
    uint32_t *first_item; /* [sections + 1] the first item that begins there or later */
    struct tree tree;

    /* Segments of equal height cover all sections; described where they begin. */
    uint64_t *height;   /* [sections] */
    uint32_t *end;      /* [sections] */
    uint32_t *begin_of; /* [sections + 1] of the segment that ends here */

    uint64_t *live;   /* [sections + 1] */
    uint64_t *wasted; /* [sections] */
    double *blame;    /* [sections] */
    double *weight;   /* [sections] */
    double *inner;    /* [sections + 1] sum of weights from the begin of its block */
    double *outer;    /* [blocks + 1] sum of weights of all blocks before */
    double *block;    /* [blocks] of its own */
    double *change;   /* [sections + 1] of blame */
};

/* How an attempt weighs. */
struct taste {
    double softness; /* a slack of this share of the limit halves a weight */
    bool squared;
    double size;   /* 0: size does not matter, 1: its square root, 0.5: the root of that */
    double wall;   /* worth of lying against a wall */
    double fit;    /* ... and ending level with it */
    double thrift; /* what a loss beside it counts */
    double shake;  /* chance */
};

static struct skyline layout(struct carve *c, uint32_t n) {
    struct skyline s = {.n = n};
    s.tree.leaves = 1;
    while (s.tree.leaves < n)
        s.tree.leaves *= 2;
    s.offsets = carve_take(c, n, sizeof *s.offsets);
    s.favour = carve_take(c, n, sizeof *s.favour);
    s.first_item = carve_take(c, (uint64_t)n + 1, sizeof *s.first_item);
    s.tree.least = carve_take(c, 2 * (uint64_t)s.tree.leaves, sizeof *s.tree.least);
    s.height = carve_take(c, n, sizeof *s.height);
    s.end = carve_take(c, n, sizeof *s.end);
    s.begin_of = carve_take(c, (uint64_t)n + 1, sizeof *s.begin_of);
    s.live = carve_take(c, (uint64_t)n + 1, sizeof *s.live);
    s.wasted = carve_take(c, n, sizeof *s.wasted);
    s.blame = carve_take(c, n, sizeof *s.blame);
    s.weight = carve_take(c, n, sizeof *s.weight);
    s.inner = carve_take(c, (uint64_t)n + 1, sizeof *s.inner);
    s.outer = carve_take(c, (uint64_t)n / BLOCK + 2, sizeof *s.outer);
    s.block = carve_take(c, (uint64_t)n / BLOCK + 1, sizeof *s.block);
    s.change = carve_take(c, (uint64_t)n + 1, sizeof *s.change);
    return s;
}

uint64_t pack_skyline_bytes(uint32_t n) {
    struct carve c = carve_count();
    layout(&c, n);
    return c.used;
}

static void tree_fill(struct skyline *s) {
    uint32_t *least = s->tree.least, leaves = s->tree.leaves;
    for (uint32_t i = 0; i < leaves; i++)
        least[leaves + i] = i < s->n ? s->items[i].hi : UINT32_MAX;
    for (uint32_t k = leaves; k-- > 1;)
        least[k] = ARITH_MIN(least[2 * k], least[2 * k + 1]);
}

static void tree_remove(struct tree *t, uint32_t i) {
    uint32_t k = t->leaves + i;
    t->least[k] = UINT32_MAX;
    for (k /= 2; k > 0; k /= 2)
        t->least[k] = ARITH_MIN(t->least[2 * k], t->least[2 * k + 1]);
}

/* The first item to come from `from` on that ends at `hi` or before; UINT32_MAX if none does. */
static uint32_t tree_next(const struct tree *t, uint32_t from, uint32_t hi) {
    if (from >= t->leaves)
        return UINT32_MAX;
    uint32_t k = t->leaves + from;
    while (t->least[k] > hi) {
        while (k & 1) /* a right child: nothing more below its parent */
            k /= 2;
        if (k == 0)
            return UINT32_MAX;
        k++;
    }
    while (k < t->leaves)
        k = t->least[2 * k] <= hi ? 2 * k : 2 * k + 1;
    return k - t->leaves;
}

static uint64_t rounded(const struct skyline *s, uint32_t i) {
    return pack_part_align(s->items[i].size, s->grain);
}

static double weight_before(const struct skyline *s, uint32_t k) {
    return s->outer[k / BLOCK] + s->inner[k];
}

/* Weights of sections [begin, end) anew, and the sums that depend on them. */
static void weigh(struct skyline *s, const struct taste *t, uint32_t begin, uint32_t end) {
    double limit = (double)s->limit;
    for (uint32_t k = begin; k < end; k++) {
        uint64_t used = s->live[k] + s->wasted[k];
        double slack = used < s->limit ? (double)(s->limit - used) / limit : 0;
        double w = 1 / (t->softness + slack);
        s->weight[k] = (t->squared ? w * w : w) * (1 + s->blame[k]);
    }
    for (uint32_t b = begin / BLOCK; b <= (end - 1) / BLOCK; b++) {
        uint32_t stop = ARITH_MIN((b + 1) * BLOCK, s->sections);
        double sum = 0;
        for (uint32_t k = b * BLOCK; k < stop; k++) {
            s->inner[k] = sum;
            sum += s->weight[k];
        }
        s->inner[stop] = stop % BLOCK != 0 ? sum : 0;
        s->block[b] = sum;
    }
    for (uint32_t b = begin / BLOCK; b * BLOCK < s->sections; b++)
        s->outer[b + 1] = s->outer[b] + s->block[b];
    s->steps += 2 * (end - begin) + BLOCK + s->sections / BLOCK;
}

static void start(struct skyline *s, const struct taste *t, uint64_t seed) {
    for (uint32_t i = 0; i < s->n; i++) {
        double root = sqrt((double)s->items[i].size), favour = 1;
        if (t->size > 0)
            favour = t->size < 1 ? sqrt(root) : root;
        s->favour[i] = favour * (1 + t->shake * 0x1p-53 * (double)(pack_part_random(&seed) >> 11));
    }
    memset(s->wasted, 0, s->sections * sizeof *s->wasted);
    s->outer[0] = 0;
    tree_fill(s);
    weigh(s, t, 0, s->sections);
    s->height[0] = 0;
    s->end[0] = s->sections;
    s->begin_of[s->sections] = 0;
    s->steps += 8 * (uint64_t)s->n;
}

static void set_segment(struct skyline *s, uint32_t begin, uint32_t end, uint64_t height) {
    s->height[begin] = height;
    s->end[begin] = end;
    s->begin_of[end] = begin;
}

/* Joins a segment with neighbours of the same height; returns where the whole begins. */
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

/* What is lost beside an item in its valley because nothing to come fits there. */
static double loss(struct skyline *s, const struct taste *t, uint32_t begin, uint32_t i, uint64_t left,
                   uint64_t right) {
    const struct pack_item *it = &s->items[i];
    uint32_t end = s->end[begin];
    uint64_t ground = s->height[begin], size = rounded(s, i);
    double lost = 0;
    if (it->lo > begin && tree_next(&s->tree, s->first_item[begin], it->lo) >= s->first_item[it->lo])
        lost += (weight_before(s, it->lo) - weight_before(s, begin)) * (double)ARITH_MIN(left - ground, size);
    if (it->hi < end && tree_next(&s->tree, s->first_item[it->hi], end) >= s->first_item[end])
        lost += (weight_before(s, end) - weight_before(s, it->hi)) * (double)ARITH_MIN(right - ground, size);
    s->steps += 24;
    return t->thrift * lost * s->favour[i] / (double)size;
}

/* The block for the ground of a valley, or UINT32_MAX. */
static uint32_t choose(struct skyline *s, const struct taste *t, uint32_t begin, uint64_t left,
                       uint64_t right) {
    uint32_t end = s->end[begin], best = UINT32_MAX, stop = s->first_item[end];
    double most = -DBL_MAX;
    uint32_t i = tree_next(&s->tree, s->first_item[begin], end);
    for (uint32_t tries = 0; i < stop && tries < CANDIDATES; tries++) {
        const struct pack_item *it = &s->items[i];
        uint64_t top = s->height[begin] + rounded(s, i);
        double worth = (weight_before(s, it->hi) - weight_before(s, it->lo)) * s->favour[i];
        if (it->lo == begin)
            worth *= top == left ? t->fit : t->wall;
        if (it->hi == end)
            worth *= top == right ? t->fit : t->wall;
        if (worth > most)
            worth -= loss(s, t, begin, i, left, right);
        if (worth > most) {
            most = worth;
            best = i;
        }
        s->steps += 12;
        i = tree_next(&s->tree, i + 1, end);
    }
    return best;
}

/* Lays an item on the ground of a valley; returns a segment from which to go on. */
static uint32_t lay(struct skyline *s, uint32_t begin, uint32_t i) {
    const struct pack_item *it = &s->items[i];
    uint32_t end = s->end[begin];
    uint64_t ground = s->height[begin];
    s->offsets[i] = ground;
    tree_remove(&s->tree, i);
    if (it->lo > begin)
        set_segment(s, begin, it->lo, ground);
    if (it->hi < end)
        set_segment(s, it->hi, end, ground);
    set_segment(s, it->lo, it->hi, ground + rounded(s, i));
    uint32_t on = join(s, it->lo);
    s->steps += 30;
    return it->lo > begin ? begin : it->hi < end ? it->hi : on;
}

static uint64_t attempt(struct skyline *s, const struct taste *t, uint64_t seed) {
    start(s, t, seed);
    uint64_t peak = 0;
    for (uint32_t left = s->n, at = 0; left > 0;) {
        uint32_t end = s->end[at];
        uint64_t h = s->height[at];
        uint64_t before = at > 0 ? s->height[s->begin_of[at]] : WALL;
        uint64_t after = end < s->sections ? s->height[end] : WALL;
        s->steps += 4;
        if (before < h || after < h) {
            at = before < after ? s->begin_of[at] : end;
            continue;
        }
        uint32_t i = choose(s, t, at, before, after);
        if (i != UINT32_MAX) {
            peak = ARITH_MAX(peak, h + s->items[i].size);
            at = lay(s, at, i);
            left--;
            continue;
        }
        uint64_t lift = ARITH_MIN(before, after);
        CHECK(lift != WALL); /* a flat landscape has room for all */
        for (uint32_t k = at; k < end; k++)
            s->wasted[k] += lift - h;
        weigh(s, t, at, end);
        s->height[at] = lift;
        at = join(s, at);
    }
    return peak;
}

/* Blames the sections under items whose end is in the upper half of what is above the limit. */
static void blame(struct skyline *s, uint64_t peak) {
    uint64_t high = s->limit + (peak - ARITH_MIN(peak, s->limit)) / 2;
    memset(s->change, 0, (s->sections + 1) * sizeof *s->change);
    for (uint32_t i = 0; i < s->n; i++)
        if (s->offsets[i] + s->items[i].size > high) {
            s->change[s->items[i].lo] += 1;
            s->change[s->items[i].hi] -= 1;
        }
    double count = 0;
    for (uint32_t k = 0; k < s->sections; k++) {
        count += s->change[k];
        s->blame[k] = FADE * s->blame[k] + (count > 0.5 ? BLAME : 0);
    }
}

static void prepare(struct skyline *s) {
    memset(s->live, 0, (s->sections + 1) * sizeof *s->live);
    memset(s->blame, 0, s->sections * sizeof *s->blame);
    for (uint32_t i = 0, k = 0; i < s->n; i++) {
        for (; k <= s->items[i].lo; k++)
            s->first_item[k] = i;
        s->live[s->items[i].lo] += rounded(s, i);
        s->live[s->items[i].hi] -= rounded(s, i); /* modulo 2^64 */
        if (i + 1 == s->n)
            for (; k <= s->sections; k++)
                s->first_item[k] = s->n;
    }
    for (uint32_t k = 1; k < s->sections; k++)
        s->live[k] += s->live[k - 1];
}

static const struct taste tastes[] = {
    {.softness = 0.01, .thrift = 1, .wall = 1.5, .fit = 1.5},
    {.softness = 0.01, .thrift = 3, .squared = true, .wall = 1.5, .fit = 1.5},
    {.softness = 0.003, .thrift = 1, .size = 0.5, .wall = 1.5, .fit = 1.5, .shake = 0.1},
    {.softness = 0.05, .thrift = 3, .squared = true, .wall = 1.5, .fit = 3, .shake = 0.1},
    {.softness = 0.003, .thrift = 3, .wall = 1.2, .fit = 2, .shake = 0.1},
    {.softness = 0.01, .size = 1, .wall = 1.5, .fit = 3, .shake = 0.1},
};

void pack_skyline(struct pack_part *p, uint32_t attempts, struct pack_budget *budget, struct carve work) {
    struct skyline s = layout(&work, p->n);
    s.items = p->items;
    s.sections = p->sections;
    s.limit = p->target;
    s.grain = p->grain;
    prepare(&s);
    enum { TASTES = sizeof tastes / sizeof tastes[0] };
    uint64_t least = UINT64_MAX;
    uint32_t best = 0; /* taste of the best attempt: every other one after the first round */
    for (uint32_t k = 0; k < attempts && p->peak > p->target; k++) {
        uint32_t which = k < TASTES || k % 2 == 0 ? k / (k < TASTES ? 1 : 2) % TASTES : best;
        struct taste t = tastes[which];
        if (k >= TASTES)
            t.shake = SHAKE;
        if (p->peak != UINT64_MAX)
            s.limit = p->target + (p->peak - p->target) / 2;
        uint64_t peak = attempt(&s, &t, k);
        if (peak < least) {
            least = peak;
            best = which;
        }
        if (peak < p->peak) {
            p->peak = peak;
            memcpy(p->offsets, s.offsets, p->n * sizeof *p->offsets);
        }
        blame(&s, peak);
        if (!pack_budget_take(budget, &s.steps))
            return;
    }
}
