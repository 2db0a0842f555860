/* Packs a large part in two tiers: the few blocks that last long first, as a part of their own, then those
 * that pass soon into the gaps between them, each where it fits lowest.
 *
 * For what windows of time can't mend (pack_mend.c, pack_overlap.c): blocks that outlive every window are
 * never moved again, so they have to lie well before. Alone they are few, and their time line is short.
 * What passes then costs little more than its own size: at most PASSING of the target.
 *
 * Measured (bench_pack, mixed, % above the bound without and with this): seeds 1 to 3 of 50,000 blocks 2.49,
 * 2.41, 3.68 and 0.85, 1.22, 1.13; of 30,000 1.74 and 0.73 on average, of 100,000 1.88 and 0.84. Other
 * families have no two tiers. Best fit instead of the lowest gap, and larger areas first: no better.
 *
 * Invariant: all offsets are multiples of the part's grain. */
#include "memory/pack_part.h"

#include <string.h>

#define PASSING   0.08      /* live sum of what passes, of the target, at most */
#define SHARE     4         /* one in so many blocks may last */
#define STRETCHES 32        /* of the time line, filled one after the other */
#define TASTES    6         /* attempts of pack_skyline before mending */
#define STEPS     900000000 /* of packing what lasts */
#define ASK_AFTER 100000    /* steps between two looks at the budget */

struct tiers {
    struct pack_part *part;
    uint32_t longest; /* sections of a block that passes, at most */
    struct pack_part lasting;
    struct pack_item *items; /* [n / SHARE] its own */
    uint32_t *source;        /* [n / SHARE] in the part */
    uint32_t *passing;       /* [n] in the part */
    uint32_t n_passing;
    bool *placed;      /* [n] of those that pass */
    uint64_t *offsets; /* [n] of the part */
    uint64_t *live;    /* [sections + 1] */
    uint32_t *marks;   /* [sections + 1] */
    struct pack_key *keys;
    struct pack_key *spare;
    struct pack_obstacle *sorted; /* [n / SHARE] what lasts, by bottom */
    struct pack_obstacle *here;   /* [n / SHARE] ... and meets the stretch that is being filled */
    uint32_t n_here;
    struct pack_obstacle *near; /* [n] what passes and lives with the block that is being placed, by bottom */
    uint64_t steps;
};

static struct tiers layout(struct carve *c, uint32_t n) {
    struct tiers t = {0};
    t.items = carve_take(c, n / SHARE, sizeof *t.items);
    t.source = carve_take(c, n / SHARE, sizeof *t.source);
    t.lasting.offsets = carve_take(c, n / SHARE, sizeof *t.lasting.offsets);
    t.passing = carve_take(c, n, sizeof *t.passing);
    t.placed = carve_take(c, n, sizeof *t.placed);
    t.offsets = carve_take(c, n, sizeof *t.offsets);
    t.live = carve_take(c, (uint64_t)n + 1, sizeof *t.live);
    t.marks = carve_take(c, (uint64_t)n + 1, sizeof *t.marks);
    t.keys = carve_take(c, n, sizeof *t.keys);
    t.spare = carve_take(c, n, sizeof *t.spare);
    t.sorted = carve_take(c, n / SHARE, sizeof *t.sorted);
    t.here = carve_take(c, n / SHARE, sizeof *t.here);
    t.near = carve_take(c, n, sizeof *t.near);
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

/* The largest live sum of the blocks that last `longest` sections at most, or of the others. */
static uint64_t live_sum(struct tiers *t, uint32_t longest, bool others) {
    const struct pack_part *p = t->part;
    memset(t->live, 0, ((uint64_t)p->sections + 1) * sizeof *t->live);
    for (uint32_t i = 0; i < p->n; i++)
        if ((length_of(t, i) > longest) == others) {
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
    uint32_t low = 0, high = t->part->sections;
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
        t->placed[i] = false;
        if (length_of(t, i) <= t->longest) {
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

/* Stretches one after the other, the largest blocks of each first. */
static void sort_passing(struct tiers *t, uint32_t width) {
    for (uint32_t k = 0; k < t->n_passing; k++) {
        const struct pack_item *it = &t->part->items[t->passing[k]];
        t->keys[k] = (struct pack_key){it->lo / width, UINT64_MAX - it->size, k};
    }
    pack_part_sort(t->keys, t->spare, t->n_passing);
}

static void sort_lasting(struct tiers *t) {
    const struct pack_part *q = &t->lasting;
    for (uint32_t i = 0; i < q->n; i++)
        t->keys[i] = (struct pack_key){q->offsets[i], 0, i};
    pack_part_sort(t->keys, t->spare, q->n);
    for (uint32_t i = 0; i < q->n; i++) {
        uint32_t k = t->keys[i].index;
        const struct pack_item *it = &t->part->items[t->source[k]];
        t->sorted[i] =
            (struct pack_obstacle){q->offsets[k], q->offsets[k] + pack_part_rounded(q, k), it->lo, it->hi};
        t->offsets[t->source[k]] = q->offsets[k];
    }
}

static void enter_stretch(struct tiers *t, uint32_t begin, uint32_t end) {
    t->n_here = 0;
    for (uint32_t i = 0; i < t->lasting.n; i++)
        if (t->sorted[i].lo < end && begin < t->sorted[i].hi)
            t->here[t->n_here++] = t->sorted[i];
    t->steps += t->lasting.n;
}

/* Adds passing block j to what is near if it lives with `it`. */
static uint32_t add_near(struct tiers *t, const struct pack_item *it, uint32_t j, uint32_t n_near) {
    t->steps += 2;
    if (!t->placed[j] || !pack_part_conflict(it, &t->part->items[j]))
        return n_near;
    uint64_t bottom = t->offsets[j];
    uint32_t at = n_near;
    for (; at > 0 && t->near[at - 1].bottom > bottom; at--)
        t->near[at] = t->near[at - 1];
    t->near[at] = (struct pack_obstacle){bottom, bottom + pack_part_rounded(t->part, j), 0, 0};
    t->steps += n_near - at;
    return n_near + 1;
}

static uint32_t find_near(struct tiers *t, uint32_t k) {
    const struct pack_item *items = t->part->items, *it = &items[t->passing[k]];
    uint32_t n = 0;
    for (uint32_t j = k; j-- > 0 && it->lo - items[t->passing[j]].lo < t->longest;)
        n = add_near(t, it, t->passing[j], n);
    for (uint32_t j = k + 1; j < t->n_passing && items[t->passing[j]].lo < it->hi; j++)
        n = add_near(t, it, t->passing[j], n);
    return n;
}

/* The lowest gap of a size between what lasts and n_near others. */
static uint64_t lowest_gap(struct tiers *t, const struct pack_item *it, uint64_t size, uint32_t n_near) {
    uint64_t at = 0;
    uint32_t a = 0, b = 0;
    for (;;) {
        while (b < t->n_here && !(t->here[b].lo < it->hi && it->lo < t->here[b].hi))
            b++;
        const struct pack_obstacle *next = b < t->n_here ? &t->here[b] : NULL;
        bool near = a < n_near && (next == NULL || t->near[a].bottom < next->bottom);
        if (near)
            next = &t->near[a];
        if (next == NULL || next->bottom >= at + size)
            break;
        at = ARITH_MAX(at, next->top);
        a += near;
        b += !near;
    }
    t->steps += a + b;
    return at;
}

/* Places what passes; false if the budget ended before. */
static bool fill_gaps(struct tiers *t, struct pack_budget *budget, uint64_t *peak) {
    const struct pack_part *p = t->part;
    uint32_t width = ARITH_MAX(p->sections / STRETCHES, t->longest), stretch = UINT32_MAX;
    sort_lasting(t);
    sort_passing(t, width);
    *peak = t->lasting.peak;
    for (uint32_t k = 0; k < t->n_passing; k++) {
        uint32_t i = t->passing[t->keys[k].index];
        const struct pack_item *it = &p->items[i];
        if (t->keys[k].a != stretch) {
            stretch = (uint32_t)t->keys[k].a;
            enter_stretch(t, stretch * width, (stretch + 2) * width);
        }
        t->offsets[i] = lowest_gap(t, it, pack_part_rounded(p, i), find_near(t, t->keys[k].index));
        t->placed[i] = true;
        *peak = ARITH_MAX(*peak, t->offsets[i] + it->size);
        if (t->steps >= ASK_AFTER && !pack_budget_take(budget, &t->steps))
            return false;
    }
    return true;
}

bool pack_tiers(struct pack_part *p, struct pack_budget *budget, struct carve work) {
    struct tiers t = layout(&work, p->n);
    t.part = p;
    CHECK(t.near != NULL); /* carved, not counted */
    if (!split(&t))
        return false;
    uint64_t fill = (uint64_t)t.n_passing * t.lasting.n / 3; /* steps, somewhat more than it takes */
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
