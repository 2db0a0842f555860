/* Packs a large part from its peaks: windows of time around the highest live sums come first, each as a part
 * of its own with nothing in its way, then what is between them, from the next highest sum on. Where live
 * sums go up and down, little is near the bound, so the steps that there are go where they count; elsewhere
 * something may be wasted.
 *
 * A window takes all blocks that live in it and have no place yet. Those with one reach over its edges, since
 * they live in a window before, and are obstacles.
 *
 * Measured (bench_pack, seeds 1 to 3, worst % above the bound without and with this): waves, 30,000 blocks,
 * 2.29 and 0.78; zipf, 30,000, 3.09 and 1.43; log, 100,000, 6.32 and 5.17. Where a window between two others
 * ends too high it is given up, and its steps are missing later: mixed, 10,000, 0.89 and 1.76. No better:
 * windows by pack_skyline's tastes, pack_mend and pack_overlap; narrower windows (what is between them has no
 * room then).
 *
 * Invariant: all offsets are multiples of the part's grain. */
#include "memory/pack_part.h"

#include <string.h>

#define WINDOW  2500 /* blocks that a window should have at least */
#define LIVES   4    /* ... and so many times as many as live at once */
#define SPAN    3    /* ... and as begin in so many lives (of bytes, on average) */
#define LARGEST 16384
#define HIGH    0.95 /* of the target: what is above it is a peak */
#define PEAKS   0.05 /* of the time, at most; else windows would be in one another's way */
#define BUILD   0.5  /* of the steps there are, where windows are the only way to mend; else half of it */
#define MOST    5e8  /* ... at most: a time limit comes with steps without end */
#define SHARE   0.4  /* of those for a window that does not end below the goal at once */
#define FILL    4000 /* steps for each block of a window in any case: more than to fill it once */

struct peaks {
    struct pack_part *part;
    bool *placed;      /* [n] */
    uint64_t *offsets; /* [n] of those */
    bool *done;        /* [sections] */
    uint64_t *live;    /* [sections + 1] */
    uint32_t *begun;   /* [sections + 1] blocks without a place that begin before a section */
    uint32_t *ended;   /* [sections + 1] ... that end before it or where it begins */
    uint32_t *order;   /* [sections] the highest first */
    struct pack_key *keys;
    struct pack_key *spare;
    uint32_t blocks;              /* that a window should have */
    uint32_t begin, end;          /* sections of the window */
    uint32_t room;                /* items and obstacles there is room for */
    struct pack_part window;      /* with offsets[room] */
    struct pack_item *items;      /* [room] its own */
    uint32_t *source;             /* [room] in the part */
    struct pack_obstacle *found;  /* [room] */
    struct pack_obstacle *sorted; /* [room] the left ones, then the right ones */
    uint32_t *marks;              /* [sections + 1] */
    uint64_t steps;
};

static struct peaks layout(struct carve *c, uint32_t n) {
    struct peaks k = {.room = ARITH_MIN(n, (uint32_t)LARGEST)};
    k.placed = carve_take(c, n, sizeof *k.placed);
    k.offsets = carve_take(c, n, sizeof *k.offsets);
    k.done = carve_take(c, n, sizeof *k.done);
    k.live = carve_take(c, (uint64_t)n + 1, sizeof *k.live);
    k.begun = carve_take(c, (uint64_t)n + 1, sizeof *k.begun);
    k.ended = carve_take(c, (uint64_t)n + 1, sizeof *k.ended);
    k.order = carve_take(c, n, sizeof *k.order);
    k.keys = carve_take(c, n, sizeof *k.keys);
    k.spare = carve_take(c, n, sizeof *k.spare);
    k.window.offsets = carve_take(c, k.room, sizeof *k.window.offsets);
    k.items = carve_take(c, k.room, sizeof *k.items);
    k.source = carve_take(c, k.room, sizeof *k.source);
    k.found = carve_take(c, k.room, sizeof *k.found);
    k.sorted = carve_take(c, k.room, sizeof *k.sorted);
    k.marks = carve_take(c, (uint64_t)n + 1, sizeof *k.marks);
    return k;
}

uint64_t pack_peaks_bytes(uint32_t n) {
    struct carve c = carve_count();
    uint32_t room = layout(&c, n).room;
    carve_take(&c, pack_mend_bytes(room), 1);
    return n > PACK_MANY ? c.used : 0;
}

/* In sections, on average. */
static double life_of_a_byte(const struct pack_part *p) {
    double all = 0, lives = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        double length = p->items[i].hi - p->items[i].lo, area = length * (double)p->items[i].size;
        all += area;
        lives += length * area;
    }
    return lives / all;
}

/* Live sums, and how many blocks a window should have; false if there are no peaks to speak of. */
static bool find_peaks(struct peaks *k) {
    const struct pack_part *p = k->part;
    memset(k->live, 0, ((uint64_t)p->sections + 1) * sizeof *k->live);
    memset(k->begun, 0, ((uint64_t)p->sections + 1) * sizeof *k->begun);
    for (uint32_t i = 0; i < p->n; i++) {
        k->live[p->items[i].lo] += pack_part_rounded(p, i);
        k->live[p->items[i].hi] -= pack_part_rounded(p, i); /* modulo 2^64 */
        k->begun[p->items[i].lo]++;
        k->begun[p->items[i].hi]--; /* modulo 2^32 */
    }
    uint32_t high = 0, count = 0, most = 0;
    uint64_t sum = 0;
    for (uint32_t s = 0; s < p->sections; s++) {
        count += k->begun[s];
        most = ARITH_MAX(most, count);
        k->live[s] = sum += k->live[s];
        high += (double)sum > HIGH * (double)p->target;
        k->keys[s] = (struct pack_key){UINT64_MAX - sum, 0, s};
    }
    pack_part_sort(k->keys, k->spare, p->sections);
    for (uint32_t s = 0; s < p->sections; s++)
        k->order[s] = k->keys[s].index;
    k->steps += 40 * (uint64_t)p->n;
    double blocks = SPAN * life_of_a_byte(p) * p->n / p->sections;
    blocks = ARITH_MAX(ARITH_MAX(blocks, (double)WINDOW), LIVES * (double)most);
    k->blocks = (uint32_t)blocks;
    return high <= PEAKS * p->sections && blocks <= LARGEST / 2;
}

/* Fills begun and ended. */
static void count_unplaced(struct peaks *k) {
    const struct pack_part *p = k->part;
    memset(k->begun, 0, ((uint64_t)p->sections + 1) * sizeof *k->begun);
    memset(k->ended, 0, ((uint64_t)p->sections + 1) * sizeof *k->ended);
    for (uint32_t i = 0; i < p->n; i++)
        if (!k->placed[i]) {
            k->begun[p->items[i].lo + 1]++;
            k->ended[p->items[i].hi]++;
        }
    for (uint32_t s = 1; s <= p->sections; s++) {
        k->begun[s] += k->begun[s - 1];
        k->ended[s] += k->ended[s - 1];
    }
    k->steps += p->n + p->sections;
}

/* The window around a section, on whose sides the higher one comes first. What would be left before the next
 * window that is done, if it is not much, belongs to it: both sides of it would be in the way. */
static void choose_window(struct peaks *k, uint32_t section) {
    const struct pack_part *p = k->part;
    uint32_t begin = section, end = section + 1;
    count_unplaced(k);
    while (k->begun[end] - k->ended[begin] < k->blocks) {
        bool left = begin > 0 && !k->done[begin - 1], right = end < p->sections && !k->done[end];
        if (!left && !right)
            break;
        if (left && (!right || k->live[begin - 1] > k->live[end]))
            begin--;
        else
            end++;
    }
    k->begin = begin;
    k->end = end;
    while (begin > 0 && !k->done[begin - 1])
        begin--;
    while (end < p->sections && !k->done[end])
        end++;
    if (k->begun[end] - k->begun[k->end] < k->blocks / 2)
        k->end = end;
    if (k->ended[k->begin] - k->ended[begin] < k->blocks / 2)
        k->begin = begin;
    memset(k->done + k->begin, true, k->end - k->begin);
}

/* Sections [*from, *to) that count: beyond an edge only where somebody has a place already. False if there
 * are too many blocks. */
static bool collect_items(struct peaks *k, uint32_t *from, uint32_t *to) {
    const struct pack_item *items = k->part->items;
    uint32_t n = 0, low = k->begin, high = k->end;
    bool left = false, right = false;
    for (uint32_t i = 0; i < k->part->n && items[i].lo < k->end; i++) {
        if (k->placed[i] || items[i].hi <= k->begin)
            continue;
        if (n == k->room)
            return false;
        k->source[n++] = i;
        low = ARITH_MIN(low, items[i].lo);
        high = ARITH_MAX(high, items[i].hi);
    }
    for (uint32_t i = 0; i < k->part->n && items[i].lo < high; i++) {
        left |= k->placed[i] && items[i].lo < k->begin && low < items[i].hi;
        right |= k->placed[i] && k->end < items[i].hi;
    }
    *from = left ? low : k->begin;
    *to = right ? high : k->end;
    for (uint32_t i = 0; i < n; i++) {
        k->items[i] = items[k->source[i]];
        k->items[i].lo = ARITH_MAX(k->items[i].lo, *from) - *from;
        k->items[i].hi = ARITH_MIN(k->items[i].hi, *to) - *from;
    }
    k->window.n = n;
    k->steps += 2 * (uint64_t)k->part->n;
    return true;
}

/* False if there are too many. */
static bool collect_obstacles(struct peaks *k, uint32_t from, uint32_t to, uint32_t *n) {
    const struct pack_part *p = k->part;
    *n = 0;
    for (uint32_t i = 0; i < p->n && p->items[i].lo < to; i++) {
        if (!k->placed[i] || p->items[i].hi <= from)
            continue;
        if (*n + k->window.n == k->room)
            return false;
        uint32_t lo = ARITH_MAX(p->items[i].lo, from) - from, hi = ARITH_MIN(p->items[i].hi, to) - from;
        CHECK(lo == 0 || hi == to - from);
        k->keys[*n] = (struct pack_key){k->offsets[i], 0, *n};
        k->found[(*n)++] =
            (struct pack_obstacle){k->offsets[i], k->offsets[i] + pack_part_rounded(p, i), lo, hi};
    }
    k->steps += p->n;
    return true;
}

/* The window becomes a part of its own; false if it is too large. */
static bool open_window(struct peaks *k) {
    struct pack_part *w = &k->window;
    uint32_t from = 0, to = 0, n = 0;
    if (!collect_items(k, &from, &to) || !collect_obstacles(k, from, to, &n))
        return false;
    memset(k->marks, 0, ((uint64_t)(to - from) + 1) * sizeof *k->marks);
    for (uint32_t i = 0; i < w->n; i++)
        pack_part_mark(k->marks, k->items[i].lo, k->items[i].hi);
    for (uint32_t i = 0; i < n; i++)
        pack_part_mark(k->marks, k->found[i].lo, k->found[i].hi);
    w->sections = pack_part_number(k->marks, to - from);
    for (uint32_t i = 0; i < w->n; i++)
        pack_part_renumber(k->marks, &k->items[i].lo, &k->items[i].hi);
    for (uint32_t i = 0; i < n; i++)
        pack_part_renumber(k->marks, &k->found[i].lo, &k->found[i].hi);
    pack_part_sort(k->keys, k->spare, n);
    w->n_left = w->n_right = 0;
    for (uint32_t i = 0; i < n; i++)
        w->n_left += k->found[i].lo == 0;
    w->left = k->sorted;
    w->right = k->sorted + w->n_left;
    for (uint32_t i = 0, left = 0; i < n; i++) {
        const struct pack_obstacle *o = &k->found[k->keys[i].index];
        k->sorted[o->lo == 0 ? left++ : w->n_left + w->n_right++] = *o;
    }
    w->items = k->items;
    w->peak = k->part->peak;
    w->proven = 0;
    return true;
}

/* Packs the window below its target if it can with these steps. */
static void pack_window(struct peaks *k, struct pack_budget *budget, uint64_t steps, struct carve work) {
    struct pack_budget share = pack_budget_share(budget, steps);
    pack_mend_empty(&k->window, &share, work);
    pack_budget_return(budget, &share);
}

static void keep_window(struct peaks *k) {
    for (uint32_t i = 0; i < k->window.n; i++) {
        k->offsets[k->source[i]] = k->window.offsets[i];
        k->placed[k->source[i]] = true;
    }
}

bool pack_peaks(struct pack_part *p, struct pack_budget *budget, struct carve work) {
    struct peaks k = layout(&work, p->n);
    k.part = p;
    CHECK(k.marks != NULL); /* carved, not counted */
    if (!find_peaks(&k))
        return false;
    memset(k.placed, false, p->n);
    memset(k.done, false, p->sections);
    k.window.uniform = p->uniform;
    k.window.grain = p->grain;
    double build = (p->n > PACK_MEND_WHOLE ? BUILD : BUILD / 2) * (double)budget->steps;
    uint64_t peak = p->target, rest = budget->steps - (uint64_t)ARITH_MIN(build, MOST);
    for (uint32_t s = 0; s < p->sections && pack_budget_take(budget, &k.steps); s++) {
        if (k.done[k.order[s]])
            continue;
        choose_window(&k, k.order[s]);
        if (!open_window(&k))
            return false;
        if (k.window.n == 0)
            continue;
        k.window.target = peak; /* another window is as high already */
        double more = budget->steps > rest ? SHARE * (double)(budget->steps - rest) : 0;
        pack_window(&k, budget, (uint64_t)more + FILL * (uint64_t)k.blocks, work);
        peak = ARITH_MAX(peak, k.window.peak);
        if (peak >= p->peak)
            return false;
        keep_window(&k);
    }
    if (budget->steps == 0 || budget->expired)
        return false;
    p->peak = peak;
    memcpy(p->offsets, k.offsets, p->n * sizeof *p->offsets);
    return true;
}
