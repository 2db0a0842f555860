/* Lowers a packing of one part by guided local search: below a limit somewhat under the present peak, blocks
 * may overlap for a while. One after another, those that overlap move to where they overlap least with what
 * lives at the same time; where no move helps any more, the overlaps that are left count more from then on.
 * Once nothing overlaps, that is the packing, and the limit sinks again.
 *
 * An overlap of two blocks counts its height times the steps they share, those more where little slack is
 * left below the bound, times the weight that the pair has come to.
 *
 * What a block meets at a height, weighted, is a staircase along the offsets; so its overlap is a sum between
 * its bottom and its top, which one sweep over the ends of its neighbours follows through all offsets. They
 * are kept sorted from one sweep to the next, since few of them have moved in between.
 *
 * Measured with tools/bench_pack and pack_many_steps, seeds 1 to 30 of mixed and exponential, 1000 and 2000
 * blocks: without this, ten of 120 ended more than 2% above the bound (up to 4.75%), with it none does (up to
 * 1.87%). Where the highest blocks live longer than a window nothing is gained.
 * No better: to begin again with the weights forgotten, other shares and patience (all within chance), a kick
 * for the largest overlaps alone, places drawn among the best. Much worse: overlaps that count their height
 * alone, whatever time they share.
 *
 * The idea is that of Egeblad, Nielsen, Odgaard, "Fast neighborhood search for two- and three-dimensional
 * nesting problems" (2007), and of Umetani et al., "Solving the irregular strip packing problem via guided
 * local search for overlap minimization" (2009); here blocks move along one axis only.
 *
 * Invariants: bottoms and tops are multiples of the max_align, counted in it, and exact in a double. No two
 * fixed blocks overlap. Every free block that overlaps something is marked `bad`. */
#include "pack/pack_strategy.h"

#include <math.h>
#include <string.h>

#define PAIRS       (1u << 20) /* that live together, in a window */
#define WINDOW      4096       /* blocks in a window; their neighbours' ends are numbered in 16 bits */
#define LEAST_WIDTH 64         /* sections of a window, where not all of the part fits */
#define SHRINK      0.1        /* of what may be gained is to be gained next */
#define EASE        0.8        /* ... that times as much where it could not be */
#define PATIENCE    250        /* steps for each pair, after which it could not be */
#define KICK        0.3        /* what the largest overlap adds to its weight */
#define SOFT        0.03       /* slack that halves the weight of a section, of the bound */
#define MOVE        0.999999   /* a move must gain as much, so that rounding makes no circles */
#define NOTHING     1e-7       /* of an overlap: what is left of it by rounding */
#define FEWEST      16         /* blocks */
#define EXACT       (1ull << 50) /* units of the largest alignment, below which sums and differences are exact */
#define ASK_AFTER   100000       /* steps between two looks at the budget */

_Static_assert(2 * WINDOW <= UINT16_MAX, "order");

struct place {
    double bottom;
    double top;
};

/* A block of the window. Its neighbours are those that live with it: n_back that come before it, and all from
 * the next one up to `end`. */
struct node {
    uint32_t source;     /* in the part */
    uint32_t end;        /* one past its last neighbour that comes after it */
    uint32_t first_pair; /* weights of its pairs with them */
    uint32_t first_back;
    uint32_t n_back;
    uint32_t first_order;
    bool is_free;
    bool is_waiting; /* to be moved */
    bool is_bad;
};

/* Two blocks that overlap. */
struct clash {
    uint32_t pair;
    float area;
    float weight; /* that the pair began with */
};

struct overlap {
    struct pack_part *part;
    struct pack_budget *budget;
    uint64_t steps;
    uint64_t random;
    double limit; /* in grains */
    uint32_t n;
    uint32_t most_blocks;
    uint32_t most_pairs;
    struct node *nodes;   /* [n] */
    struct place *places; /* [n] */
    float *weights;       /* [pairs] */
    uint32_t *back;       /* [pairs] */
    uint16_t *order; /* [4 * pairs] of each free block: its neighbours' ends by height; 2 * k and 2 * k + 1 of
                        the k-th neighbour */
    uint32_t *waiting; /* [n] */
    uint32_t *bad;     /* [n] */
    uint32_t n_pairs;
    uint32_t n_waiting;
    uint32_t n_bad;
    struct clash *clashes; /* [n] at most */
    uint32_t n_clashes;
    double *tightness; /* [sections + 1] sum over the sections before */
    /* Of one block's neighbours: */
    double *ends;   /* [2 * n + 1] */
    double *sorted; /* [2 * n + 1] */
    double *weight; /* [n] */
    double *rise;   /* [2 * (2 * n + 1)] at the sorted ends, then the same negated */
};

static uint64_t pairs_for(uint32_t n) {
    uint64_t all = (uint64_t)n * (ARITH_MAX(n, 1u) - 1) / 2;
    return ARITH_MIN(all, (uint64_t)PAIRS);
}

static struct overlap layout(struct carve *c, uint32_t n) {
    uint32_t blocks = ARITH_MIN(n, (uint32_t)WINDOW);
    uint64_t pairs = pairs_for(n), ends = 2 * (uint64_t)blocks + 1;
    struct overlap o = {.most_blocks = blocks, .most_pairs = (uint32_t)pairs};
    o.nodes = carve_take(c, blocks, sizeof *o.nodes);
    o.places = carve_take(c, blocks, sizeof *o.places);
    o.weights = carve_take(c, pairs, sizeof *o.weights);
    o.back = carve_take(c, pairs, sizeof *o.back);
    o.order = carve_take(c, 4 * pairs, sizeof *o.order);
    o.waiting = carve_take(c, blocks, sizeof *o.waiting);
    o.bad = carve_take(c, blocks, sizeof *o.bad);
    o.clashes = carve_take(c, blocks, sizeof *o.clashes);
    o.tightness = carve_take(c, (uint64_t)n + 1, sizeof *o.tightness);
    o.ends = carve_take(c, ends, sizeof *o.ends);
    o.sorted = carve_take(c, ends, sizeof *o.sorted);
    o.weight = carve_take(c, blocks, sizeof *o.weight);
    o.rise = carve_take(c, 2 * ends, sizeof *o.rise);
    return o;
}

uint64_t pack_overlap_bytes(uint32_t n) {
    struct carve c = carve_count();
    layout(&c, n);
    return c.used;
}

static double grains(const struct overlap *o, uint64_t bytes) {
    uint64_t max_align = o->part->max_align;
    return (double)(bytes / max_align + (bytes % max_align != 0));
}

static double size_of(const struct overlap *o, uint32_t source) {
    return grains(o, o->part->items[source].size);
}

static const struct pack_item *item_of(const struct overlap *o, uint32_t i) {
    return &o->part->items[o->nodes[i].source];
}

static uint32_t below(struct overlap *o, uint32_t n) {
    return (uint32_t)(pack_part_random(&o->random) % n);
}

/* Fills tightness; returns what no limit may be below, in grains. */
static double measure_slack(struct overlap *o) {
    const struct pack_part *p = o->part;
    double *live = o->tightness, most = 0, sum = 0;
    memset(live, 0, ((uint64_t)p->sections + 1) * sizeof *live);
    for (uint32_t i = 0; i < p->n; i++) {
        live[p->items[i].lo] += size_of(o, i);
        live[p->items[i].hi] -= size_of(o, i);
    }
    for (uint32_t k = 1; k <= p->sections; k++)
        live[k] += live[k - 1];
    for (uint32_t k = 0; k < p->sections; k++)
        most = ARITH_MAX(most, live[k]);
    for (uint32_t k = 0; k <= p->sections; k++) {
        double tight = SOFT / (SOFT + (most - live[k]) / most);
        live[k] = sum;
        sum += tight;
    }
    return most;
}

static uint32_t count_neighbors(const struct overlap *o, uint32_t i) {
    return o->nodes[i].n_back + (o->nodes[i].end - (i + 1));
}

/* How much two places overlap. */
static inline double common(const struct place *a, const struct place *b) {
    double top = a->top < b->top ? a->top : b->top;
    double bottom = a->bottom > b->bottom ? a->bottom : b->bottom;
    return top > bottom ? top - bottom : 0;
}

static void wait_for_move(struct overlap *o, uint32_t i) {
    struct node *d = &o->nodes[i];
    if (!d->is_free)
        return;
    if (!d->is_waiting)
        o->waiting[o->n_waiting++] = i;
    if (!d->is_bad)
        o->bad[o->n_bad++] = i;
    d->is_waiting = d->is_bad = true;
}

/* What overlaps block i where it lies now, and itself if anything does. */
static void wait_around(struct overlap *o, uint32_t i) {
    const struct node *d = &o->nodes[i];
    const struct place mine = o->places[i];
    bool any = false;
    for (uint32_t k = 0; k < d->n_back; k++) {
        uint32_t j = o->back[d->first_back + k];
        if (common(&mine, &o->places[j]) > 0) {
            wait_for_move(o, j);
            any = true;
        }
    }
    for (uint32_t j = i + 1; j < d->end; j++)
        if (common(&mine, &o->places[j]) > 0) {
            wait_for_move(o, j);
            any = true;
        }
    if (any)
        wait_for_move(o, i);
    o->steps += 2 * (uint64_t)count_neighbors(o, i);
}

/* One neighbour's ends and weight; returns the weighted overlap with it. */
static inline double look_at(struct overlap *o, uint32_t k, const struct place *mine,
                             const struct place *other, float weight) {
    o->ends[2 * (size_t)k] = other->bottom;
    o->ends[2 * (size_t)k + 1] = other->top;
    o->weight[k] = (double)weight;
    return (double)weight * common(mine, other);
}

static double look_around(struct overlap *o, uint32_t i) {
    const struct node *d = &o->nodes[i];
    const struct place *mine = &o->places[i];
    const uint32_t *back = o->back + d->first_back;
    double sum = 0;
    for (uint32_t k = 0; k < d->n_back; k++) {
        uint32_t j = back[k];
        sum += look_at(o, k, mine, &o->places[j], o->weights[o->nodes[j].first_pair + (i - j - 1)]);
    }
    for (uint32_t j = i + 1, k = d->n_back; j < d->end; j++, k++)
        sum += look_at(o, k, mine, &o->places[j], o->weights[d->first_pair + (j - i - 1)]);
    return sum;
}

/* Sorts the ends of a block's n neighbours: mostly as they were. */
static void sort_ends(struct overlap *o, uint32_t i, uint32_t n) {
    uint16_t *order = o->order + o->nodes[i].first_order;
    double *sorted = o->sorted, *rise = o->rise, *fall = rise + 2 * (size_t)n + 1;
    for (uint32_t k = 0; k < 2 * n; k++) {
        uint16_t which = order[k];
        double end = o->ends[which];
        uint32_t at = k;
        for (; at > 0 && sorted[at - 1] > end; at--) {
            sorted[at] = sorted[at - 1];
            order[at] = order[at - 1];
        }
        sorted[at] = end;
        order[at] = which;
        o->steps += k - at;
    }
    for (uint32_t k = 0; k < 2 * n; k++) {
        double w = o->weight[order[k] / 2];
        rise[k] = order[k] % 2 == 0 ? w : -w;
        fall[k] = -rise[k];
    }
    sorted[2 * n] = INFINITY;
    rise[2 * n] = fall[2 * n] = 0;
}

/* The lowest bottom with the least weighted overlap, which goes to *least, of a block with n neighbours. */
static double sweep(const struct overlap *o, uint32_t n, double size, double *least) {
    const double *sorted = o->sorted, *rise = o->rise;
    size_t falls = 2 * (size_t)n + 1, low = 0, high = 0; /* the next ends at the block's bottom and top */
    double sum = 0, slope = 0, at = 0;
    for (; sorted[high] < size; high++) { /* it lies at 0 */
        sum += slope * (sorted[high] - at);
        at = sorted[high];
        slope += rise[high];
    }
    sum += slope * (size - at);
    for (; sorted[high] <= size; high++)
        slope += rise[high];
    for (; sorted[low] <= 0; low++)
        slope -= rise[low];
    double best = 0, most = o->limit - size, good = *least * NOTHING, better = sum * MOVE;
    *least = sum;
    at = 0;
    /* No branch here depends on which end comes first, which nobody can foretell. */
    while (*least > good) {
        double a = sorted[low], b = sorted[high] - size, next = a < b ? a : b;
        if (next >= most) {
            sum += slope * (most - at);
            if (sum < better) {
                *least = sum;
                best = most;
            }
            break;
        }
        size_t first = -(size_t)(a <= b); /* all bits or none */
        sum += slope * (next - at);
        at = next;
        slope += rise[high ^ (first & ((falls + low) ^ high))];
        low -= first;
        high += 1 + first;
        if (__builtin_expect(sum < better, 0)) {
            *least = sum;
            best = at;
            better = sum * MOVE;
        }
    }
    return best;
}

/* Moves a block to where it overlaps least, if that is less than now. */
static void move(struct overlap *o, uint32_t i) {
    struct place *mine = &o->places[i];
    uint32_t n = count_neighbors(o, i);
    double now = look_around(o, i), least = now, size = mine->top - mine->bottom;
    o->steps += 2 * (uint64_t)n;
    if (now <= 0)
        return;
    sort_ends(o, i, n);
    double bottom = sweep(o, n, size, &least);
    o->steps += 23 * (uint64_t)n;
    if (least < now * MOVE) {
        *mine = (struct place){bottom, bottom + size};
        wait_around(o, i);
    }
}

/* The weight that a pair begins with: the tightness of the sections that it shares. */
static double first_weight(const struct overlap *o, uint32_t i, uint32_t j) {
    const struct pack_item *a = item_of(o, i), *b = item_of(o, j);
    return o->tightness[ARITH_MIN(a->hi, b->hi)] - o->tightness[ARITH_MAX(a->lo, b->lo)];
}

/* Notes a pair if it overlaps; false if not. */
static bool note_clash(struct overlap *o, uint32_t i, uint32_t j) {
    double x = common(&o->places[i], &o->places[j]);
    if (x <= 0)
        return false;
    if (o->n_clashes < o->most_blocks) { /* others will be noted another time */
        double w = first_weight(o, i, j);
        o->clashes[o->n_clashes++] =
            (struct clash){o->nodes[i].first_pair + (j - i - 1), (float)(x * w), (float)w};
    }
    return true;
}

/* No move helps any more: what still overlaps counts more from now on. False if nothing does. */
static bool kick(struct overlap *o) {
    uint32_t n_bad = 0;
    o->n_clashes = 0;
    for (uint32_t k = 0; k < o->n_bad; k++) {
        uint32_t i = o->bad[k];
        struct node *d = &o->nodes[i];
        d->is_bad = false;
        for (uint32_t q = 0; q < d->n_back; q++) {
            uint32_t j = o->back[d->first_back + q];
            if (!o->nodes[j].is_free) /* else it is noted there */
                d->is_bad |= note_clash(o, j, i);
            else if (common(&o->places[i], &o->places[j]) > 0)
                d->is_bad = true;
        }
        for (uint32_t j = i + 1; j < d->end; j++)
            d->is_bad |= note_clash(o, i, j);
        if (d->is_bad)
            o->bad[n_bad++] = i;
        o->steps += 2 * (uint64_t)count_neighbors(o, i);
    }
    o->n_bad = n_bad;
    float worst = 0;
    for (uint32_t k = 0; k < o->n_clashes; k++)
        worst = ARITH_MAX(worst, o->clashes[k].area);
    for (uint32_t k = 0; k < o->n_clashes; k++) {
        const struct clash *c = &o->clashes[k];
        o->weights[c->pair] += (float)KICK * c->weight * c->area / worst;
    }
    for (uint32_t k = 0; k < n_bad; k++)
        wait_for_move(o, o->bad[k]);
    return n_bad > 0;
}

/* Moves and kicks until nothing overlaps; false if the steps do not suffice. */
static bool settle(struct overlap *o) {
    do {
        while (o->n_waiting > 0) {
            uint32_t k = below(o, o->n_waiting), i = o->waiting[k];
            o->waiting[k] = o->waiting[--o->n_waiting];
            o->nodes[i].is_waiting = false;
            move(o, i);
            if (o->steps >= ASK_AFTER && !pack_budget_spend(o->budget, &o->steps))
                return false;
        }
    } while (kick(o));
    return true;
}

/* What ends above the limit comes down to it, into what lies there. */
static void lower(struct overlap *o) {
    for (uint32_t i = 0; i < o->n; i++)
        if (o->nodes[i].is_free && o->places[i].top > o->limit) {
            o->places[i].bottom -= o->places[i].top - o->limit;
            o->places[i].top = o->limit;
            wait_around(o, i);
        }
}

/* Collects the blocks that live in sections [begin, end); false if they or their pairs are too many. */
static bool collect(struct overlap *o, uint32_t begin, uint32_t end) {
    const struct pack_part *p = o->part;
    uint64_t pairs = 0;
    o->n = 0;
    for (uint32_t k = 0; k < p->n && p->items[k].lo < end; k++) {
        const struct pack_item *it = &p->items[k];
        if (it->hi <= begin)
            continue;
        if (o->n == o->most_blocks)
            return false;
        double bottom = grains(o, p->offsets[k]);
        o->places[o->n] = (struct place){bottom, bottom + size_of(o, k)};
        o->nodes[o->n++] = (struct node){.source = k, .is_free = begin <= it->lo && it->hi <= end};
    }
    for (uint32_t i = 0, j = 0; i < o->n; i++) {
        uint32_t hi = item_of(o, i)->hi;
        for (j = i + 1; j < o->n && item_of(o, j)->lo < hi; j++)
            ;
        o->nodes[i].end = j;
        o->nodes[i].first_pair = (uint32_t)pairs;
        pairs += j - (i + 1);
        o->steps += j - i;
        if (pairs > o->most_pairs)
            return false;
    }
    o->n_pairs = (uint32_t)pairs;
    return true;
}

/* Lists each block's neighbours, with the weights and the order to begin with. */
static void connect(struct overlap *o) {
    uint32_t backs = 0, ends = 0;
    for (uint32_t i = 0; i < o->n; i++) {
        for (uint32_t j = i + 1; j < o->nodes[i].end; j++)
            o->nodes[j].n_back++;
    }
    for (uint32_t i = 0; i < o->n; i++) {
        struct node *d = &o->nodes[i];
        d->first_back = backs;
        backs += d->n_back;
        d->n_back = 0; /* counted again below */
    }
    for (uint32_t i = 0; i < o->n; i++) {
        for (uint32_t j = i + 1; j < o->nodes[i].end; j++) {
            struct node *d = &o->nodes[j];
            o->back[d->first_back + d->n_back++] = i;
            o->weights[o->nodes[i].first_pair + (j - i - 1)] = (float)first_weight(o, i, j);
        }
        o->nodes[i].first_order = ends;
        uint32_t mine = 2 * count_neighbors(o, i);
        for (uint32_t k = 0; k < mine; k++)
            o->order[ends + k] = (uint16_t)k;
        ends += mine;
    }
    o->steps += 20 * (uint64_t)backs;
    o->n_waiting = o->n_bad = 0;
}

/* A window around a section, as wide as there is room for; false if there is none. */
static bool open_window(struct overlap *o, uint32_t section) {
    uint32_t sections = o->part->sections, begin = 0, end = 0;
    for (uint64_t width = LEAST_WIDTH;; width = width * 3 / 2) {
        uint64_t before = width / 3 + below(o, (uint32_t)(width / 3) + 1);
        uint32_t from = section > before ? section - (uint32_t)before : 0;
        uint32_t to = (uint32_t)ARITH_MIN(from + width, (uint64_t)sections);
        if (!collect(o, from, to))
            break;
        begin = from;
        end = to;
        if (from == 0 && to == sections)
            break;
    }
    return end > begin && collect(o, begin, end);
}

static void write_back(const struct overlap *o) {
    struct pack_part *p = o->part;
    for (uint32_t i = 0; i < o->n; i++) {
        CHECK(!o->nodes[i].is_free || (o->places[i].bottom >= 0 && o->places[i].top <= o->limit));
        p->offsets[o->nodes[i].source] = (uint64_t)o->places[i].bottom * p->max_align;
    }
    pack_part_measure(p);
}

/* The next limit, in grains: a share of what may be gained below the peak. */
static double next_limit(const struct overlap *o, double least, double share) {
    double peak = grains(o, o->part->peak);
    return peak - ARITH_MAX(floor((peak - least) * share), 1.0);
}

/* One of the part's blocks that end above the limit; UINT32_MAX if none does. */
static uint32_t choose_tall(struct overlap *o) {
    const struct pack_part *p = o->part;
    uint32_t n_tall = 0, chosen = UINT32_MAX;
    for (uint32_t i = 0; i < p->n; i++)
        if (grains(o, p->offsets[i] + p->items[i].size) > o->limit && below(o, ++n_tall) == 0)
            chosen = i;
    o->steps += 4 * (uint64_t)p->n;
    return chosen;
}

/* Settles what is open with at most so many steps. */
static bool try_settle(struct overlap *o) {
    struct pack_budget *all = o->budget;
    struct pack_budget share = pack_budget_share(all, PATIENCE * (uint64_t)o->n_pairs);
    o->budget = &share;
    lower(o);
    bool settled = settle(o);
    pack_budget_return(all, &share);
    o->budget = all;
    if (settled)
        write_back(o);
    return settled;
}

static bool can_move(const struct overlap *o, uint32_t source) {
    for (uint32_t i = 0; i < o->n; i++)
        if (o->nodes[i].source == source)
            return o->nodes[i].is_free;
    return false;
}

/* Window by window, until none of the part's blocks ends above the limit. PACK_GAVE_UP: a window could not be
 * settled; PACK_IMPOSSIBLE: a block that must come down lives longer than a window. */
static enum pack_outcome settle_windows(struct overlap *o) {
    const struct pack_item *items = o->part->items;
    for (uint32_t i; (i = choose_tall(o)) != UINT32_MAX;) {
        if (!open_window(o, items[i].lo + below(o, items[i].hi - items[i].lo)) || !can_move(o, i))
            return PACK_IMPOSSIBLE;
        connect(o);
        if (!pack_budget_spend(o->budget, &o->steps) || !try_settle(o))
            return PACK_GAVE_UP;
    }
    return PACK_FOUND;
}

bool pack_overlap_can(const struct pack_part *p) {
    return p->n >= FEWEST && pack_part_is_aligned(p) && p->peak / p->max_align < EXACT;
}

void pack_overlap_run(struct pack_part *p, struct pack_budget *budget, struct carve work) {
    struct overlap o = layout(&work, p->n);
    o.part = p;
    o.budget = budget;
    o.random = p->seed++;
    CHECK(o.rise != NULL); /* carved, not counted */
    double least = ARITH_MAX(measure_slack(&o), grains(&o, p->target)), share = SHRINK;
    bool whole = collect(&o, 0, p->sections);
    if (whole)
        connect(&o);
    while (grains(&o, p->peak) > least && pack_budget_spend(budget, &o.steps)) {
        o.limit = next_limit(&o, least, share);
        enum pack_outcome settled = !whole ? settle_windows(&o) : try_settle(&o) ? PACK_FOUND : PACK_GAVE_UP;
        if (settled == PACK_IMPOSSIBLE)
            break;
        /* Where it is not settled, the places and weights of a whole stay as they are. */
        share = settled == PACK_FOUND ? SHRINK : share * EASE;
    }
    pack_budget_spend(budget, &o.steps);
}
