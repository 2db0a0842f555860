/* Packs a large part from its peaks: what lives at the highest live sums is stacked without a gap; from each
 * of these stacks blocks flow (pack_flow.c) in the order of time to the end, and, as if time went backwards,
 * to the beginning, or, between two peaks, to a valley where the two flows meet. So steps are spent where
 * live sums are high and nowhere else. If it fails, the next attempt stacks the blocks in another order and
 * begins with the stretch that failed; a peak that it fails at again is given up. Every other attempt spares
 * places for large blocks ahead: much better where many are equally large (zipf), not where no two are.
 *
 * Two flows that meet: what lies close to the second peak gets its places first, else the first flow takes
 * those that it needs; then the first goes to the valley around all that, and the second one from there
 * around what the first has left. That works if both keep an order: what the first one leaves lies the nearer
 * to one side the longer it lives on, what comes to it from the other side the farther off the longer it has
 * lived, so that there is one border, which moves. Stacks alternate: those that reach far from the first peak
 * lie below, from the second above, and so on. What the second flow finds no gap for gets a place before it
 * is tried again; if there is none, the valley is moved.
 *
 * No better: to meet in the lowest valley, or near the second peak; one flow alone that goes to the stack of
 * the next peak; many places given away (12 instead of 5); lower peaks too (the more there are, the more
 * often one fails); first limits at two thirds or four fifths; two peaks given up for one after two or four
 * failures; some blocks of a stack farther out than the border asks; the limit raised on the way where all
 * tries have failed; to forget which peaks of a stretch failed, or give up those for good; flows that meet in
 * stages of live sums; many short attempts at each limit before long ones.
 *
 * Invariant: all offsets are multiples of the part's grain. */
#include "pack/pack_stream.h"

#include <math.h>
#include <string.h>

#define FIRST    0.05  /* of all areas: the largest blocks, which have places spared ahead */
#define HIGH     0.97  /* of the limit: a peak is as high */
#define DROP     0.1   /* ... and has valleys as much lower at both sides */
#define TWICE    2     /* failed, and a peak is given up */
#define LONG_WAY 2.0   /* lives (of bytes, on average) from a peak to a valley */
#define NO_WAY   0.2   /* ... how much higher a valley seems without that */
#define MEETINGS 6     /* valleys that are tried */
#define PLACES   5     /* that are given away at each of them */
#define BORDER   30.0f /* cost of being as far from the border as the limit is high */
#define CLOSE    0.9   /* of the limit: live sums of what lies around a peak and comes before the rest */
#define ALIKE    2048  /* blocks of a stack that the next one is chosen from */
#define BEYOND   0.5   /* where the second flow goes: how much of what is free then lies between */

/* Where flows meet, another valley or another stack is more than many tries. */
static const struct flow_effort ALONE = {.tries = 300, .far = 4.0}, MEETING = {.tries = 30, .far = 0.5};

/* A block that lives in a valley. */
struct stream_edge {
    uint32_t end;
    uint64_t later; /* bytes of those that end later */
};

/* How long, as logarithms, a block of a stack has lived and will live. */
struct stream_life {
    float before;
    float after;
    uint32_t block; /* in the part */
};

/* Free offsets. */
struct stream_hole {
    uint64_t bottom;
    uint64_t top;
};

struct pack_stream pack_stream_layout(struct carve *c, uint32_t n) {
    struct pack_stream s = {0};
    s.live = carve_take(c, (uint64_t)n + 1, sizeof *s.live);
    s.stacks = carve_take(c, n, sizeof *s.stacks);
    s.lives = carve_take(c, n, sizeof *s.lives);
    s.before.edges = carve_take(c, n, sizeof *s.before.edges);
    s.after.edges = carve_take(c, n, sizeof *s.after.edges);
    s.offsets = carve_take(c, n, sizeof *s.offsets);
    s.holes = carve_take(c, n, sizeof *s.holes);
    s.flow = pack_flow_layout(c, n);
    s.keys = s.flow.keys;
    s.spare = s.flow.spare;
    return s;
}

static inline bool lives_at(const struct pack_item *b, uint32_t section) {
    return b->lo <= section && section < b->hi;
}

static double area(const struct pack_part *p, uint32_t i) {
    return (double)pack_part_rounded(p, i) * (p->items[i].hi - p->items[i].lo);
}

/* Live sums, and averages of lives and sizes. */
void pack_stream_begin(struct pack_stream *s, const struct pack_part *p) {
    CHECK(p->grain > 0 && s->live != NULL); /* carved, not counted */
    s->part = p;
    double lives = 0, areas = 0, sizes = 0;
    uint64_t sum = 0;
    uint32_t highest = 0;
    memset(s->live, 0, ((uint64_t)p->n + 1) * sizeof *s->live);
    for (uint32_t i = 0; i < p->n; i++) {
        uint64_t size = pack_part_rounded(p, i);
        double life = p->items[i].hi - p->items[i].lo;
        lives += life * area(p, i);
        areas += area(p, i);
        sizes += (double)size;
        s->live[p->items[i].lo] += size;
        s->live[p->items[i].hi] -= size; /* modulo 2^64 */
    }
    for (uint32_t k = 0; k < p->sections; k++) {
        s->live[k] = sum += s->live[k];
        if (sum > s->live[highest])
            highest = k;
    }
    for (uint32_t i = 0; i < p->n; i++)
        s->most += lives_at(&p->items[i], highest);
    s->highest = s->live[highest];
    s->order = (uint64_t)ALIKE * s->most;
    s->span = lives / areas;
    s->flow.life = s->span * p->n / p->sections;
    s->flow.per_byte = (float)(p->n / sizes);
    s->flow.steps += 5 * (uint64_t)p->n;
}

uint64_t pack_stream_large(struct pack_stream *s, uint64_t steps) {
    const struct pack_part *p = s->part;
    double all = 0, sum = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        all += area(p, i);
        s->keys[i] = (struct pack_key){UINT64_MAX - pack_part_rounded(p, i), 0, i};
    }
    pack_part_sort(s->keys, s->spare, p->n);
    for (uint64_t last = 0; n < p->n && (sum < FIRST * all || s->keys[n].a == last); n++) {
        last = s->keys[n].a;
        sum += area(p, s->keys[n].index);
    }
    s->flow.steps += 25 * (uint64_t)p->n;
    return pack_flow_steps_ahead(n, s->most) < steps ? UINT64_MAX - s->keys[n - 1].a : UINT64_MAX;
}

/* ------------------------------------------------------------------ peaks and valleys */

/* Low ones, far from both peaks. */
static void find_valleys(struct pack_stream *s) {
    s->peaks[0].after = 0;
    for (uint32_t i = 1; i < s->n_peaks; i++) {
        const uint32_t left = s->peaks[i - 1].at, right = s->peaks[i].at;
        double least = INFINITY;
        for (uint32_t k = left + 1; k < right; k++) {
            double way = ARITH_MIN(k - left, right - k) / (LONG_WAY * s->span);
            double seems = (double)s->live[k] / (double)s->highest - NO_WAY * ARITH_MIN(way, 1.0);
            if (seems < least) {
                least = seems;
                s->peaks[i].after = k + 1;
            }
        }
        CHECK(left + 1 < s->peaks[i].after && s->peaks[i].after <= right);
    }
    s->flow.steps += s->n_peaks > 1 ? s->part->sections : 0;
}

static void remove_peak(struct pack_stream *s, uint32_t i) {
    CHECK(s->n_peaks > 1);
    s->n_peaks--;
    memmove(s->peaks + i, s->peaks + i + 1, (s->n_peaks - i) * sizeof *s->peaks);
}

static uint32_t lowest_peak(const struct pack_stream *s) {
    uint32_t lowest = 0;
    for (uint32_t i = 1; i < s->n_peaks; i++)
        if (s->peaks[i].live < s->peaks[lowest].live)
            lowest = i;
    return lowest;
}

static uint32_t highest_peak(const struct pack_stream *s) {
    uint32_t highest = 0;
    for (uint32_t i = 1; i < s->n_peaks; i++)
        if (s->peaks[i].live > s->peaks[highest].live)
            highest = i;
    return highest;
}

static void add_peak(struct pack_stream *s, uint32_t section) {
    if (s->n_peaks == STREAM_PEAKS)
        remove_peak(s, lowest_peak(s));
    s->peaks[s->n_peaks++] = (struct stream_peak){.live = s->live[section], .at = section};
}

static void find_peaks(struct pack_stream *s, uint64_t least) {
    const uint64_t most = ARITH_MAX(least, (uint64_t)(HIGH * (double)s->flow.limit)),
                   high = ARITH_MIN(s->highest, most);
    const uint64_t drop = (uint64_t)(DROP * (double)s->highest);
    uint32_t top = 0, low = 0;
    bool up = true;
    s->n_peaks = 0;
    for (uint32_t k = 0; k < s->part->sections; k++) {
        const uint64_t live = s->live[k];
        if (up && live > s->live[top])
            top = k;
        if (!up && live < s->live[low])
            low = k;
        if (up && live + drop < s->live[top]) {
            if (s->live[top] >= high)
                add_peak(s, top);
            up = false;
            low = k;
        } else if (!up && s->live[low] + drop < live) {
            up = true;
            top = k;
        }
    }
    if (up && s->live[top] >= high)
        add_peak(s, top);
    CHECK(s->n_peaks > 0);
    s->flow.steps += 2 * s->part->sections;
}

uint32_t pack_stream_start(struct pack_stream *s, uint64_t limit, uint64_t least, uint32_t way) {
    s->flow.limit = limit;
    find_peaks(s, least);
    way = s->n_peaks > 1 ? way % (s->n_peaks + 1) : 0;
    while (way > 0 && s->n_peaks > way)
        remove_peak(s, lowest_peak(s));
    while (way > 0 && s->n_peaks > 1)
        remove_peak(s, highest_peak(s));
    return way;
}

uint64_t pack_stream_lowest(const struct pack_stream *s) {
    return s->peaks[lowest_peak(s)].live;
}

/* This one or the one before it, which it failed together with. */
static void give_up(struct pack_stream *s, uint32_t peak) {
    const struct stream_peak *p = s->peaks + peak;
    if (peak > 0 && p[-1].live < p->live)
        peak--;
    remove_peak(s, peak);
}

/* ------------------------------------------------------------------ borders */

static void find_border(struct pack_stream *s, struct stream_border *b, uint32_t peak) {
    const struct pack_part *p = s->part;
    const uint32_t after = s->peaks[peak + 1].after, next = s->peaks[peak + 1].at;
    b->n = 0;
    b->sum = 0;
    for (uint32_t i = 0; i < p->n; i++)
        if (lives_at(&p->items[i], after - 1) && p->items[i].hi <= next)
            s->keys[b->n++] = (struct pack_key){UINT32_MAX - p->items[i].hi, 0, i};
    pack_part_sort(s->keys, s->spare, b->n);
    for (uint32_t k = 0; k < b->n; k++) {
        b->edges[k] = (struct stream_edge){UINT32_MAX - (uint32_t)s->keys[k].a, b->sum};
        b->sum += pack_part_rounded(p, s->keys[k].index);
    }
    s->flow.steps += p->n + 20 * (uint64_t)b->n;
}

/* Bytes of those that end after that. */
static uint64_t sum_later(const struct stream_border *b, uint32_t section) {
    uint32_t low = 0, high = b->n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (b->edges[middle].end > section)
            low = middle + 1;
        else
            high = middle;
    }
    return low < b->n ? b->edges[low].later : b->sum;
}

/* ------------------------------------------------------------------ stacks */

/* Any block first, then always the one whose life is most like the last one's, seen from the peak. */
static void order_by_likeness(struct pack_stream *s, uint32_t *stack, uint32_t n) {
    for (uint32_t k = 0; k < n; k++) {
        const struct pack_item *b = &s->part->items[stack[k]];
        s->lives[k] = (struct stream_life){pack_flow_log2((float)(s->from + 1 - b->lo)),
                                           pack_flow_log2((float)(b->hi - s->from)), stack[k]};
    }
    for (uint32_t k = 0; k < n; k++) {
        uint32_t next = k;
        if (k == 0)
            next = (uint32_t)(pack_part_random(&s->flow.random) % n);
        float least = INFINITY;
        const uint32_t end = ARITH_MIN(n, k + ALIKE);
        for (uint32_t i = k; k > 0 && i < end; i++) {
            float unlike = fabsf(s->lives[i].before - s->lives[k - 1].before) +
                           fabsf(s->lives[i].after - s->lives[k - 1].after);
            next = unlike < least ? i : next;
            least = ARITH_MIN(unlike, least);
        }
        struct stream_life swap = s->lives[k];
        s->lives[k] = s->lives[next];
        s->lives[next] = swap;
    }
    for (uint32_t k = 0; k < n; k++)
        stack[k] = s->lives[k].block;
    s->flow.steps += 5 * (uint64_t)n + 2 * (uint64_t)n * ARITH_MIN(n, (uint32_t)ALIKE) / 3;
}

/* How many peaks after this one a block lives at. */
static uint32_t peaks_later(const struct pack_stream *s, const struct pack_item *b, uint32_t peak) {
    uint32_t n = 0;
    while (peak + n + 1 < s->n_peaks && s->peaks[peak + n + 1].at < b->hi)
        n++;
    return n;
}

/* Where in the stack a block should be at most, counted from the side of those that reach far; UINT64_MAX:
 * anywhere. Sections count for less than a byte. */
static uint64_t depth(const struct pack_stream *s, const struct pack_item *b, uint32_t peak) {
    const uint32_t sections = s->part->sections;
    const struct stream_peak *const last = &s->peaks[s->n_peaks - 1], *const first = s->peaks,
                                    *at = s->peaks + peak;
    uint64_t before = UINT64_MAX, after = UINT64_MAX;
    if (at > first && b->lo < at->after) {
        before = b->lo;
    } else if (at > first) {
        uint64_t later = sum_later(&s->before, b->lo);
        before = later > 0 ? sections + s->before.sum - later : UINT64_MAX;
    }
    if (at < last && b->hi >= at[1].after)
        after = sections + sum_later(&s->after, b->hi);
    return ARITH_MIN(before, after);
}

/* Blocks without a place, those first that must lie farthest at the side. Returns how many. */
static uint32_t order_stack(struct pack_stream *s, uint32_t peak) {
    const struct pack_part *p = s->part;
    uint32_t n = 0;
    s->stack = s->stacks;
    if (peak > 0)
        find_border(s, &s->before, peak - 1);
    if (peak + 1 < s->n_peaks)
        find_border(s, &s->after, peak);
    for (uint32_t i = 0; i < p->n; i++)
        if (lives_at(&p->items[i], s->from) && s->offsets[i] == FLOW_NOWHERE) {
            uint32_t earlier = s->n_peaks - peaks_later(s, &p->items[i], peak);
            s->keys[n++] = (struct pack_key){earlier, depth(s, &p->items[i], peak), i};
        }
    pack_part_sort(s->keys, s->spare, n);
    for (uint32_t k = 0; k < n; k++)
        s->stack[k] = s->keys[k].index;
    for (uint32_t k = 0, first = 0; k < n; k++)
        if (k + 1 == n || s->keys[k + 1].a != s->keys[k].a || s->keys[k + 1].b != s->keys[k].b) {
            if (k > first)
                order_by_likeness(s, s->stack + first, k + 1 - first);
            first = k + 1;
        }
    return n;
}

/* What those leave free that have places at that peak, from before: `holes`, the largest last. */
static uint32_t find_holes(struct pack_stream *s) {
    const struct pack_part *p = s->part;
    uint32_t n = 0, holes = 0;
    uint64_t at = 0;
    for (uint32_t i = 0; i < p->n; i++)
        if (lives_at(&p->items[i], s->from) && s->offsets[i] != FLOW_NOWHERE)
            s->keys[n++] = (struct pack_key){s->offsets[i], 0, i};
    pack_part_sort(s->keys, s->spare, n);
    CHECK(n < p->n); /* a valley lies between */
    for (uint32_t k = 0; k <= n; k++) {
        uint64_t bottom = k < n ? s->keys[k].a : s->flow.limit;
        CHECK(bottom >= at);
        if (bottom > at)
            s->holes[holes++] = (struct stream_hole){at, bottom};
        if (k < n)
            at = bottom + pack_part_rounded(p, s->keys[k].index);
    }
    for (uint32_t k = 0; k < holes; k++)
        s->keys[k] = (struct pack_key){s->holes[k].top - s->holes[k].bottom, s->holes[k].bottom, k};
    pack_part_sort(s->keys, s->spare, holes);
    for (uint32_t k = 0; k < holes; k++)
        s->holes[k] = (struct stream_hole){s->keys[k].b, s->keys[k].b + s->keys[k].a};
    return holes;
}

/* Those of the stack before this one that end between the two peaks. */
static void avoid_last_stack(struct pack_stream *s, uint32_t peak) {
    const struct pack_part *p = s->part;
    uint32_t n = 0;
    for (uint32_t i = 0; peak > 0 && i < p->n; i++)
        if (lives_at(&p->items[i], s->peaks[peak - 1].at) && p->items[i].hi <= s->from)
            s->keys[n++] = (struct pack_key){s->offsets[i], 0, i};
    pack_part_sort(s->keys, s->spare, n);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = s->keys[k].index;
        s->flow.places[k] = (struct flow_place){.bottom = s->keys[k].a,
                                                .top = s->keys[k].a + pack_part_rounded(p, i),
                                                .begin = p->items[i].lo,
                                                .end = p->items[i].hi};
    }
    pack_flow_take_places(&s->flow, n);
}

/* Fills a hole with blocks of the stack that may be there, from one side on, and takes them from the stack;
 * the first of the stack first, or the last. Returns how many are left. */
static uint32_t fill_hole(struct pack_stream *s, struct stream_hole hole, uint32_t n, bool first,
                          bool upwards) {
    const struct pack_part *p = s->part;
    for (uint32_t k = 0; k < n;) {
        const uint32_t at = first ? k : n - 1 - k, i = s->stack[at];
        const uint64_t size = pack_part_rounded(p, i);
        const uint64_t bottom = upwards ? hole.bottom : hole.top - size;
        s->flow.steps += 2;
        if (size > hole.top - hole.bottom ||
            !pack_flow_is_free(&s->flow, bottom, bottom + size, p->items[i].lo, p->items[i].hi)) {
            k++;
            continue;
        }
        s->offsets[i] = bottom;
        if (upwards)
            hole.bottom += size;
        else
            hole.top -= size;
        n--;
        if (at == 0)
            s->stack++;
        else
            memmove(s->stack + at, s->stack + at + 1, (n - at) * sizeof *s->stack);
        k = 0;
    }
    return n;
}

/* False if it does not find a place for all. */
static bool stack_peak(struct pack_stream *s, uint32_t peak) {
    s->from = s->peaks[peak].at;
    avoid_last_stack(s, peak);
    uint32_t n = order_stack(s, peak), holes = find_holes(s);
    for (uint32_t k = 0; k + 1 < holes; k++)
        n = fill_hole(s, s->holes[k], n, false, true);
    if (holes > 0)
        n = fill_hole(s, s->holes[holes - 1], n, true, peak % 2 == 0);
    s->flow.steps += 5 * (uint64_t)s->part->n;
    return n == 0;
}

/* ------------------------------------------------------------------ flows */

static struct flow_node make_node(const struct pack_stream *s, uint32_t i, bool backwards) {
    const uint32_t lo = s->part->items[i].lo, hi = s->part->items[i].hi, from = s->from;
    struct flow_node d = {
        .target = FLOW_NOWHERE, .spared = FLOW_NOWHERE, .source = i, .fixed = s->offsets[i] != FLOW_NOWHERE};
    if (backwards) {
        d.begin = hi <= from ? from + 1 - hi : 0;
        d.end = from + 1 - lo;
    } else {
        d.begin = lo > from ? lo - from : 0;
        d.end = hi - from;
    }
    d.bottom = d.fixed ? s->offsets[i] : 0;
    d.top = d.bottom + pack_part_rounded(s->part, i);
    return d;
}

static void make_nodes(struct pack_stream *s, uint32_t bound, bool backwards) {
    const struct pack_part *p = s->part;
    struct pack_flow *f = &s->flow;
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n; i++)
        if (lives_at(&p->items[i], s->from)) {
            CHECK(s->offsets[i] != FLOW_NOWHERE);
            s->keys[n++] = (struct pack_key){s->offsets[i], 0, i};
        }
    pack_part_sort(s->keys, s->spare, n);
    f->stacked = n;
    for (uint32_t k = 0; k < n; k++)
        f->nodes[k] = make_node(s, s->keys[k].index, backwards);
    n = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        const struct pack_item *b = &p->items[i];
        if (backwards ? b->hi <= s->from && b->hi > bound : b->lo > s->from && b->lo < bound)
            s->keys[n++] = (struct pack_key){backwards ? s->from - b->hi : b->lo,
                                             UINT64_MAX - pack_part_rounded(p, i), i};
    }
    pack_part_sort(s->keys, s->spare, n);
    f->n = f->stacked + n;
    for (uint32_t k = f->stacked; k < f->n; k++)
        f->nodes[k] = make_node(s, s->keys[k - f->stacked].index, backwards);
}

/* Of blocks that begin later: forwards, in the next stack, and close to it; backwards, what came from the
 * last one, and what was given away. */
static void find_places(struct pack_stream *s, uint32_t peak, bool backwards) {
    const struct pack_part *p = s->part;
    const bool last = peak + 1 == s->n_peaks;
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        const struct pack_item *b = &p->items[i];
        if (s->offsets[i] != FLOW_NOWHERE &&
            (backwards ? peak > 0 && b->hi <= s->from && b->hi > s->peaks[peak - 1].at
                       : !last && b->lo > s->from && b->lo <= s->peaks[peak + 1].at))
            s->keys[n++] = (struct pack_key){s->offsets[i], 0, i};
    }
    pack_part_sort(s->keys, s->spare, n);
    for (uint32_t k = 0; k < n; k++) {
        struct flow_node d = make_node(s, s->keys[k].index, backwards);
        s->flow.places[k] =
            (struct flow_place){.bottom = d.bottom, .top = d.top, .begin = d.begin, .end = d.end};
    }
    pack_flow_take_places(&s->flow, n);
}

/* For those that live at the border of the valley after a peak. */
static void set_targets(struct pack_stream *s, uint32_t peak) {
    const struct pack_part *p = s->part;
    const uint32_t after = s->peaks[peak + 1].after;
    struct pack_flow *f = &s->flow;
    uint64_t both = 0; /* of blocks that live at both peaks: those lie at the side */
    for (uint32_t i = 0; i < p->n; i++)
        if (lives_at(&p->items[i], s->peaks[peak].at) && lives_at(&p->items[i], s->peaks[peak + 1].at))
            both += pack_part_rounded(p, i);
    find_border(s, &s->after, peak);
    f->per_place = BORDER / (float)f->limit;
    for (uint32_t k = f->stacked; k < f->n; k++) {
        struct flow_node *d = &f->nodes[k];
        const struct pack_item *b = &p->items[d->source];
        const bool beyond = b->lo >= after; /* does not reach over the border */
        const uint64_t later = sum_later(&s->after, beyond ? b->lo : b->hi), size = d->top - d->bottom;
        if (d->fixed || (beyond ? later == 0 : b->hi < after))
            continue;
        uint64_t x = both + later;
        if (beyond)
            x += (uint64_t)(BEYOND * (double)(f->limit - s->live[b->lo]));
        d->target = peak % 2 == 0 ? x : x + size > f->limit ? 0 : f->limit - x - size;
    }
}

/* From a peak to the valley after it, or before it; or to the end, or the beginning; or less far. Blocks
 * begin before section `bound`; backwards, they end after it. */
static bool flow(struct pack_stream *s, struct pack_budget *budget, uint32_t peak, bool backwards,
                 uint32_t bound, const struct flow_effort *effort) {
    const bool last = peak + 1 == s->n_peaks;
    struct pack_flow *f = &s->flow;
    s->from = s->peaks[peak].at;
    make_nodes(s, bound, backwards);
    find_places(s, peak, backwards);
    if (backwards && peak > 0)
        set_targets(s, peak - 1);
    if (!backwards && !last)
        set_targets(s, peak);
    f->steps += 6 * (uint64_t)s->part->n;
    pack_flow_begin(f);
    if (!pack_flow_run(f, effort, budget))
        return false;
    for (uint32_t k = 0; k < f->n; k++)
        s->offsets[f->nodes[k].source] = f->nodes[k].bottom;
    return true;
}

/* Gives a block without a place one that nothing is in that has one; false if there is none. */
static bool give_place(struct pack_stream *s, uint32_t block) {
    const struct pack_part *p = s->part;
    const uint64_t size = pack_part_rounded(p, block);
    uint64_t at = 0, least = UINT64_MAX;
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n; i++)
        if (s->offsets[i] != FLOW_NOWHERE && pack_part_conflict(&p->items[block], &p->items[i]))
            s->keys[n++] = (struct pack_key){s->offsets[i], 0, i};
    pack_part_sort(s->keys, s->spare, n);
    for (uint32_t k = 0; k <= n; k++) {
        const uint64_t bottom = k < n ? s->keys[k].a : s->flow.limit;
        if (bottom >= at && bottom - at >= size) {
            uint64_t random = pack_part_random(&s->flow.random);
            uint64_t rest = bottom - at - size + random % (size / 4 + 1);
            if (rest < least) {
                least = rest;
                s->offsets[block] = random >> 63 ? at : bottom - size;
            }
        }
        if (k < n)
            at = ARITH_MAX(at, bottom + pack_part_rounded(p, s->keys[k].index));
    }
    s->flow.steps += p->n;
    return least < UINT64_MAX;
}

/* Those that live between two peaks lose their places. */
static void clear_between(struct pack_stream *s, uint32_t left, uint32_t right) {
    const struct pack_part *p = s->part;
    for (uint32_t i = 0; i < p->n; i++)
        if (p->items[i].lo > left && p->items[i].hi <= right)
            s->offsets[i] = FLOW_NOWHERE;
}

static bool is_spent(const struct pack_budget *b) {
    return b->steps == 0 || b->expired;
}

/* Where live sums begin to be high before a peak, after the valley. */
static uint32_t near_peak(const struct pack_stream *s, uint32_t peak) {
    uint32_t at = s->peaks[peak].at;
    while (at > s->peaks[peak].after && (double)s->live[at - 1] > CLOSE * (double)s->flow.limit)
        at--;
    return at;
}

/* What lies between a peak and the next one. */
static bool meet(struct pack_stream *s, struct pack_budget *budget, uint32_t peak) {
    const struct pack_item *items = s->part->items;
    const struct pack_flow *f = &s->flow; /* f->done: what got stuck */
    const uint32_t left = s->peaks[peak].at, right = s->peaks[peak + 1].at;
    uint32_t *after = &s->peaks[peak + 1].after, low = left + 1, high = right;
    for (uint32_t i = 0; i < MEETINGS && low <= high; i++) {
        *after = ARITH_MIN(ARITH_MAX(*after, low), high);
        clear_between(s, left, right);
        if (!flow(s, budget, peak + 1, true, near_peak(s, peak + 1), &MEETING))
            return false;
        if (flow(s, budget, peak, false, *after, &MEETING)) {
            for (uint32_t given = 0;; given++) {
                if (flow(s, budget, peak + 1, true, *after, &MEETING))
                    return true;
                if (given == PLACES || is_spent(budget) || !give_place(s, f->nodes[f->done].source))
                    break;
            }
            low = *after + 1;
            *after = items[f->nodes[f->done].source].lo + 1;
        } else {
            high = *after - 1;
            *after = items[f->nodes[f->done].source].lo;
        }
        if (is_spent(budget))
            return false;
    }
    return false;
}

/* ------------------------------------------------------------------ limits */

/* What lies between two peaks, or outside of them: stretch k ends at peak k, the last one begins at the last.
 */
static bool fill_stretch(struct pack_stream *s, struct pack_budget *budget, uint32_t k) {
    if (k == 0)
        return flow(s, budget, 0, true, 0, &ALONE);
    if (k == s->n_peaks)
        return flow(s, budget, s->n_peaks - 1, false, s->part->sections, &ALONE);
    return meet(s, budget, k - 1);
}

/* All stretches: the stacks alone decide what each can be. That first which failed last. */
static bool connect(struct pack_stream *s, struct pack_budget *budget, uint32_t *hardest) {
    const uint32_t first = *hardest;
    for (uint32_t i = 0; i <= s->n_peaks; i++) {
        uint32_t k = i == 0 ? first : i <= first ? i - 1 : i;
        if (!fill_stretch(s, budget, k)) {
            *hardest = k;
            return false;
        }
    }
    return true;
}

bool pack_stream_build(struct pack_stream *s, struct pack_budget *budget) {
    uint32_t hardest = 0;
    for (uint32_t i = 0; pack_budget_take(budget, &s->flow.steps); i++) {
        uint32_t done = 0;
        s->flow.large = i % 2 == 0 ? s->large : UINT64_MAX;
        memset(s->offsets, 0xFF, s->part->n * sizeof *s->offsets); /* FLOW_NOWHERE */
        find_valleys(s);
        while (done < s->n_peaks && pack_budget_take(budget, &s->flow.steps) && stack_peak(s, done))
            done++;
        if (done == s->n_peaks && connect(s, budget, &hardest))
            return true;
        if (done == s->n_peaks)
            done = hardest;
        if (done > 0 && done < s->n_peaks && s->n_peaks > 2 && ++s->peaks[done].failed == TWICE) {
            give_up(s, done);
            hardest = 0;
        }
    }
    return false;
}
