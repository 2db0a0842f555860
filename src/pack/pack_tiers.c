/* Packs a large part in two tiers: the few blocks that last long first, as a part of their own, then those
 * that pass soon into the gaps between them, each where it fits lowest.
 *
 * For what windows of time can't mend (pack_mend.c, pack_overlap.c): blocks that outlive every window are
 * never moved again, so they have to lie well before. Alone they are few, and their time line is short.
 * What passes then costs little more than its own size. Lengths are those in steps: the last section cuts
 * whatever lives there.
 *
 * Taken places are listed in buckets of time, so that filling the gaps takes about as many steps for each
 * block as live at once. A block counts as larger where live sums are high: what those leave is filled last.
 *
 * Measured (% above the bound, without and with this): bench_pack, mixed, seeds 1 to 3, mean, 30,000 blocks
 * 1.74 and 0.82, 100,000 1.88 and 0.87. A third lives up to n/10 steps, the others up to 32, 100,000 blocks:
 * 1.98 to 2.55 and 1.03 to 1.63. Half up to n/4, the others up to 16, 10,000 blocks: three of six above 2
 * (2.36) and none (1.43).
 *
 * No better: best fit instead of the lowest gap, larger areas first, up to a quarter of the target in what
 * passes, a ring for what all lasts equally long (what passes finds no gap that stays).
 *
 * Invariant: all offsets are multiples of the part's grain. */
#include "pack/pack_part.h"

#include <string.h>

#define PASSING   0.05      /* live sum of what passes, of the target, at most */
#define SHARE     2         /* one in so many blocks may last */
#define PLACES    4         /* taken at a time, for each block: one may meet many buckets */
#define STEEP     8         /* power of the live sum in a block's worth */
#define TASTES    6         /* attempts of pack_skyline before mending */
#define STEPS     900000000 /* of packing what lasts */
#define ASK_AFTER 100000    /* steps between two looks at the budget */

struct tiers {
    struct pack_part *part;
    uint32_t longest; /* steps of a block that passes, at most */
    struct pack_part lasting;
    struct pack_item *items; /* [n / SHARE] its own */
    uint32_t *source;        /* [n / SHARE] in the part */
    uint32_t *passing;       /* [n] in the part */
    uint32_t n_passing;
    uint64_t *offsets; /* [n] of the part */
    uint64_t *live;    /* [2 * sections + 1] */
    uint32_t *marks;   /* [sections + 1] */
    struct pack_key *keys;
    struct pack_key *spare;
    /* Places that are taken, in buckets of so many sections, each by bottom. */
    uint32_t width;
    uint32_t *begin;              /* [buckets + 1] of a bucket's places */
    uint32_t *count;              /* [buckets] how many there are so far */
    uint32_t *next;               /* [buckets] for lowest_gap */
    struct pack_obstacle *places; /* [PLACES * n] */
    uint64_t steps;
};

static struct tiers layout(struct carve *c, uint32_t n) {
    struct tiers t = {0};
    t.items = carve_take(c, n / SHARE, sizeof *t.items);
    t.source = carve_take(c, n / SHARE, sizeof *t.source);
    t.lasting.offsets = carve_take(c, n / SHARE, sizeof *t.lasting.offsets);
    t.passing = carve_take(c, n, sizeof *t.passing);
    t.offsets = carve_take(c, n, sizeof *t.offsets);
    t.live = carve_take(c, 2 * (uint64_t)n + 1, sizeof *t.live);
    t.marks = carve_take(c, (uint64_t)n + 1, sizeof *t.marks);
    t.keys = carve_take(c, n, sizeof *t.keys);
    t.spare = carve_take(c, n, sizeof *t.spare);
    t.begin = carve_take(c, (uint64_t)n + 1, sizeof *t.begin);
    t.count = carve_take(c, n, sizeof *t.count);
    t.next = carve_take(c, n, sizeof *t.next);
    t.places = carve_take(c, PLACES * (uint64_t)n, sizeof *t.places);
    return t;
}

uint64_t pack_tiers_bytes(uint32_t n) {
    struct carve c = carve_count();
    layout(&c, n);
    uint64_t solvers = ARITH_MAX(pack_skyline_bytes(n / SHARE), pack_mend_bytes(n / SHARE));
    carve_take(&c, solvers, 1);
    return n > PACK_MANY ? c.used : 0;
}

static uint32_t length_of(const struct tiers *t, uint32_t i) {
    return t->part->items[i].hi - t->part->items[i].lo;
}

static uint32_t first_bucket(const struct tiers *t, uint32_t i) {
    return t->part->items[i].lo / t->width;
}

static uint32_t last_bucket(const struct tiers *t, uint32_t i) {
    return (t->part->items[i].hi - 1) / t->width;
}

/* The largest live sum of the blocks that last `longest` steps at most, or of the others. */
static uint64_t live_sum(struct tiers *t, uint32_t longest, bool others) {
    const struct pack_part *p = t->part;
    memset(t->live, 0, ((uint64_t)p->sections + 1) * sizeof *t->live);
    for (uint32_t i = 0; i < p->n; i++)
        if ((p->items[i].length > longest) == others) {
            t->live[p->items[i].lo] += pack_part_rounded(p, i);
            t->live[p->items[i].hi] -= pack_part_rounded(p, i); /* modulo 2^64 */
        }
    uint64_t sum = 0, most = 0;
    for (uint32_t k = 0; k < p->sections; k++) {
        sum += t->live[k];
        most = ARITH_MAX(most, sum);
    }
    t->steps += 2 * (uint64_t)p->n;
    return most;
}

/* As few last as the share of the others allows; 0: even the shortest are too much. */
static uint32_t choose_longest(struct tiers *t) {
    uint32_t low = 0, high = 0;
    for (uint32_t i = 0; i < t->part->n; i++)
        high = ARITH_MAX(high, t->part->items[i].length);
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if ((double)live_sum(t, middle, false) <= PASSING * (double)t->part->target)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* False where this part has no two tiers. */
static bool split(struct tiers *t) {
    const struct pack_part *p = t->part;
    struct pack_part *q = &t->lasting;
    t->longest = choose_longest(t);
    if (t->longest == 0)
        return false;
    for (uint32_t i = 0; i < p->n; i++) {
        if (p->items[i].length <= t->longest) {
            t->passing[t->n_passing++] = i;
        } else {
            if (q->n == p->n / SHARE)
                return false;
            t->items[q->n] = p->items[i];
            t->source[q->n++] = i;
        }
    }
    if (q->n == 0)
        return false;
    q->items = t->items;
    q->proven = q->target = live_sum(t, t->longest, true);
    q->peak = UINT64_MAX;
    q->uniform = p->uniform;
    q->grain = p->grain;
    memset(t->marks, 0, ((uint64_t)p->sections + 1) * sizeof *t->marks);
    for (uint32_t i = 0; i < q->n; i++)
        pack_part_mark(t->marks, t->items[i].lo, t->items[i].hi);
    q->sections = pack_part_number(t->marks, p->sections);
    for (uint32_t i = 0; i < q->n; i++)
        pack_part_renumber(t->marks, &t->items[i].lo, &t->items[i].hi);
    return true;
}

/* Buckets narrow enough to hold little that lives elsewhere, but no more places than there is room for. */
static void choose_buckets(struct tiers *t) {
    const struct pack_part *p = t->part;
    uint64_t lives = 0;
    CHECK(p->n > 0 && p->sections > 0);
    for (uint32_t i = 0; i < p->n; i++)
        lives += length_of(t, i);
    for (uint64_t width = lives / p->n / 2 + 1, all;; width += width / 2 + 1) {
        t->width = (uint32_t)ARITH_MIN(width, (uint64_t)p->sections);
        all = 0;
        for (uint32_t i = 0; i < p->n; i++)
            all += last_bucket(t, i) - first_bucket(t, i) + 1;
        t->steps += 2 * (uint64_t)p->n;
        if (all <= PLACES * (uint64_t)p->n)
            break;
    }
    uint32_t buckets = (p->sections - 1) / t->width + 1;
    memset(t->begin, 0, ((uint64_t)buckets + 1) * sizeof *t->begin);
    memset(t->count, 0, buckets * sizeof *t->count);
    for (uint32_t i = 0; i < p->n; i++)
        for (uint32_t b = first_bucket(t, i); b <= last_bucket(t, i); b++)
            t->begin[b + 1]++;
    for (uint32_t b = 0; b < buckets; b++)
        t->begin[b + 1] += t->begin[b];
    t->steps += PLACES * (uint64_t)p->n;
}

/* Puts block i where offsets[] says into the buckets that it meets. */
static void put(struct tiers *t, uint32_t i) {
    const struct pack_item *it = &t->part->items[i];
    uint64_t bottom = t->offsets[i], top = bottom + pack_part_rounded(t->part, i);
    for (uint32_t b = first_bucket(t, i); b <= last_bucket(t, i); b++) {
        struct pack_obstacle *places = t->places + t->begin[b];
        const uint32_t n = t->count[b]++, at = pack_obstacles_from(places, n, bottom);
        memmove(&places[at + 1], &places[at], (n - at) * sizeof *places);
        places[at] = (struct pack_obstacle){bottom, top, it->lo, it->hi};
        t->steps += 20 + (n - at) / 4;
    }
}

/* The lowest offset at which nothing is in block i's way. Bucket after bucket raises it above what lies
 * there, until a whole round of them does not. */
static uint64_t lowest_gap(struct tiers *t, uint32_t i) {
    const struct pack_item *it = &t->part->items[i];
    uint32_t from = first_bucket(t, i), n = last_bucket(t, i) - from + 1;
    uint64_t at = 0, size = pack_part_rounded(t->part, i);
    memset(t->next, 0, n * sizeof *t->next);
    for (uint32_t k = 0, agreed = 0; agreed < n; k = k + 1 == n ? 0 : k + 1) {
        const struct pack_obstacle *places = t->places + t->begin[from + k];
        uint32_t q = t->next[k], count = t->count[from + k];
        uint64_t before = at;
        for (; q < count && places[q].bottom < at + size; q++)
            if (places[q].top > at && places[q].lo < it->hi && it->lo < places[q].hi)
                at = places[q].top;
        t->steps += q - t->next[k] + 4;
        t->next[k] = q;
        agreed = at == before ? agreed + 1 : 1;
    }
    return at;
}

/* Live sums of all blocks, the higher one of two nodes above them: leaves are [sections, 2 * sections). */
static void find_peaks(struct tiers *t) {
    const struct pack_part *p = t->part;
    uint64_t *live = t->live + p->sections, sum = 0;
    memset(live, 0, ((uint64_t)p->sections + 1) * sizeof *live);
    for (uint32_t i = 0; i < p->n; i++) {
        live[p->items[i].lo] += pack_part_rounded(p, i);
        live[p->items[i].hi] -= pack_part_rounded(p, i); /* modulo 2^64 */
    }
    for (uint32_t k = 0; k < p->sections; k++)
        live[k] = sum += live[k];
    for (uint32_t k = p->sections; k-- > 1;)
        t->live[k] = ARITH_MAX(t->live[2 * (size_t)k], t->live[2 * (size_t)k + 1]);
}

static uint64_t peak_under(const struct tiers *t, const struct pack_item *it) {
    uint32_t sections = t->part->sections;
    uint64_t peak = 0;
    for (uint64_t lo = it->lo + (uint64_t)sections, hi = it->hi + (uint64_t)sections; lo < hi;
         lo /= 2, hi /= 2) {
        if (lo % 2 == 1) {
            peak = ARITH_MAX(peak, t->live[lo]);
            lo++;
        }
        if (hi % 2 == 1) {
            hi--;
            peak = ARITH_MAX(peak, t->live[hi]);
        }
    }
    return peak;
}

/* The largest first; what lives where live sums are high counts as larger. */
static void sort_passing(struct tiers *t) {
    const struct pack_part *p = t->part;
    find_peaks(t);
    for (uint32_t k = 0; k < t->n_passing; k++) {
        const struct pack_item *it = &p->items[t->passing[k]];
        double high = (double)peak_under(t, it) / (double)p->target, worth = (double)it->size;
        for (int power = 0; power < STEEP; power++)
            worth *= high;
        uint64_t bits; /* of a positive number: they are in the same order */
        memcpy(&bits, &worth, sizeof bits);
        t->keys[k] = (struct pack_key){~bits, 0, t->passing[k]};
    }
    pack_part_sort(t->keys, t->spare, t->n_passing);
    t->steps += 60 * (uint64_t)p->n;
}

/* Places what passes; false if the budget ended before. */
static bool fill_gaps(struct tiers *t, struct pack_budget *budget, uint64_t *peak) {
    const struct pack_part *p = t->part;
    choose_buckets(t);
    for (uint32_t k = 0; k < t->lasting.n; k++) {
        t->offsets[t->source[k]] = t->lasting.offsets[k];
        put(t, t->source[k]);
    }
    sort_passing(t);
    *peak = t->lasting.peak;
    for (uint32_t k = 0; k < t->n_passing; k++) {
        uint32_t i = t->keys[k].index;
        t->offsets[i] = lowest_gap(t, i);
        put(t, i);
        *peak = ARITH_MAX(*peak, t->offsets[i] + p->items[i].size);
        if (t->steps >= ASK_AFTER && !pack_budget_take(budget, &t->steps))
            return false;
    }
    return true;
}

/* Steps of that, somewhat more than it takes: as many as live at once, for each block. */
static uint64_t fill_steps(const struct tiers *t) {
    uint64_t lives = 0;
    for (uint32_t i = 0; i < t->part->n; i++)
        lives += length_of(t, i);
    const uint64_t alive = lives / t->part->sections;
    return (alive + alive / 4 + 100) * t->part->n;
}

bool pack_tiers(struct pack_part *p, struct pack_budget *budget, struct carve work) {
    struct tiers t = layout(&work, p->n);
    t.part = p;
    CHECK(t.places != NULL); /* carved, not counted */
    if (!split(&t))
        return false;
    uint64_t fill = fill_steps(&t);
    if (fill > budget->steps / 2)
        return false;
    struct pack_budget share = *budget;
    share.steps = ARITH_MIN((uint64_t)STEPS, budget->steps - fill);
    budget->steps -= share.steps;
    pack_skyline(&t.lasting, TASTES, &share, work);
    if (t.lasting.peak > t.lasting.target && pack_mend_can(&t.lasting))
        pack_mend(&t.lasting, &share, work);
    pack_budget_return(budget, &share);
    uint64_t peak;
    if (!fill_gaps(&t, budget, &peak) || peak >= p->peak)
        return false;
    p->peak = peak;
    memcpy(p->offsets, t.offsets, p->n * sizeof *p->offsets);
    return true;
}
