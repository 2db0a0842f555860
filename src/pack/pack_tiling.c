/* Guesses how one part was cut: tight instances are often a rectangle of time and bytes that was cut in two
 * again and again (a guillotine cut), perhaps with some pieces left out. This is undone: blocks that begin
 * and end together are joined into one, stacked; and so are blocks of equal size of which the second begins
 * where the first ends, at the same offset. A packing of the joined pieces is a packing of all blocks.
 *
 * Matches also occur by chance, more often where many blocks begin and end, among short lifetimes and small
 * sizes. So pieces are joined in order of the evidence for a joint, which includes the joints that it makes
 * possible. Then doubtful joints are split and joined again at random, as long as that leaves no more pieces.
 *
 * Space that is missing below the limit may be pieces that were left out: it is filled with as few fillers as
 * possible, which are cut where that helps.
 *
 * The few pieces that remain go to pack_valley.c. Guesses may be wrong, so nothing is proven here. */
#include "pack/pack_strategy.h"

#include <string.h>

#define FEWEST              16 /* items; fewer are soon searched */
#define NONE                UINT32_MAX
#define FIRST_TRUST         0x1p-20
#define SURE                1e30f  /* odds of a single block */
#define NOISE               2.0    /* in the odds of later guesses */
#define GUESSES             1000   /* per part */
#define PATIENCE            4000   /* retries without success */
#define SPLITS              32     /* joints split at a time, at most */
#define CROWD               2000   /* pieces that begin or end at a border; with more, it is left alone */
#define OPEN                256    /* fillers at a time */
#define PAIRS               64     /* ... among which two are sought that end together */
#define ASK_AFTER           100000 /* steps between two payments */
#define CORE_STEPS          100000 /* of the search in what remains */
#define CORE_STEPS_PER_PAIR 200    /* ... and for each pair of pieces */

struct piece {
    uint64_t size;
    uint64_t offset;
    uint32_t lo;
    uint32_t hi;
    uint32_t first; /* what it was joined from, or NONE */
    uint32_t second;
    bool in_sequence; /* second follows first; else it lies on top */
    bool joined;
    uint32_t root; /* index in roots */
    float odds;    /* the weakest evidence for a joint in it */
    /* Lists of the pieces that begin and that end at a border. */
    uint32_t next_begin, prev_begin;
    uint32_t next_end, prev_end;
};

/* What retry_joints did, so that it can be undone. */
struct note {
    uint32_t piece;
    enum { JOINED, SPLIT, CUT } what;
};

struct tiling {
    const struct pack_part *part;
    uint64_t limit;
    uint64_t unit;  /* divides all sizes */
    uint64_t *live; /* [sections + 1] sums of sizes */
    uint64_t steps; /* taken since the budget was asked */
    struct pack_budget *budget;
    uint64_t random;

    /* [4 n + 2 SPLITS]: n items, at most n fillers, what is joined from them, and joints that are split at
     * the moment. */
    struct piece *pieces;
    uint32_t n;
    uint32_t free; /* unused ones, linked by `first` */
    uint32_t n_fillers;
    uint32_t *roots;  /* pieces that are not part of chances */
    uint32_t n_roots; /* how many roots */
    struct note *notes;
    uint32_t n_notes;
    double trust; /* joints with odds above 1 / trust are made */
    double last_trust;
    double noise;

    /* Per border of sections, from 0 to sections. */
    uint32_t *begins; /* heads of lists of pieces */
    uint32_t *ends;
    uint32_t *n_begins;
    uint32_t *n_ends;
    uint32_t *queue; /* a stack of borders to look at */
    uint32_t n_queue;
    bool *is_queued;

    /* What remains, for pack_valley.c. */
    struct pack_item *core;
    uint32_t *core_piece;
    uint64_t *core_offsets;
    struct pack_key *keys;
    struct pack_key *spare;
};

static struct tiling layout(struct carve *c, uint32_t n) {
    struct tiling s = {0};
    uint32_t core = ARITH_MIN(n, (uint32_t)PACK_VALLEY_LARGEST);
    s.pieces = carve_take(c, 4 * (uint64_t)n + 2 * SPLITS, sizeof *s.pieces);
    s.roots = carve_take(c, 4 * (uint64_t)n + 2 * SPLITS, sizeof *s.roots);
    s.notes = carve_take(c, 4 * (uint64_t)n + 2 * SPLITS, sizeof *s.notes);
    s.begins = carve_take(c, (uint64_t)n + 1, sizeof *s.begins);
    s.ends = carve_take(c, (uint64_t)n + 1, sizeof *s.ends);
    s.n_begins = carve_take(c, (uint64_t)n + 1, sizeof *s.n_begins);
    s.n_ends = carve_take(c, (uint64_t)n + 1, sizeof *s.n_ends);
    s.queue = carve_take(c, (uint64_t)n + 1, sizeof *s.queue);
    s.is_queued = carve_take(c, (uint64_t)n + 1, sizeof *s.is_queued);
    s.live = carve_take(c, (uint64_t)n + 1, sizeof *s.live);
    s.core = carve_take(c, core, sizeof *s.core);
    s.core_piece = carve_take(c, core, sizeof *s.core_piece);
    s.core_offsets = carve_take(c, core, sizeof *s.core_offsets);
    s.keys = carve_take(c, core, sizeof *s.keys);
    s.spare = carve_take(c, core, sizeof *s.spare);
    return s;
}

uint64_t pack_tiling_bytes(uint32_t n) {
    struct carve c = carve_count();
    layout(&c, n);
    uint32_t core = ARITH_MIN(n, (uint32_t)PACK_VALLEY_LARGEST);
    return arith_must_add(c.used, pack_valley_bytes(core));
}

static uint64_t below(struct tiling *s, uint64_t n) {
    return pack_part_random(&s->random) % n;
}

static void enqueue(struct tiling *s, uint32_t border) {
    if (!s->is_queued[border]) {
        s->is_queued[border] = true;
        s->queue[s->n_queue++] = border;
    }
}

static void put_in(struct tiling *s, uint32_t i) {
    struct piece *p = &s->pieces[i];
    p->joined = false;
    p->prev_begin = p->prev_end = NONE;
    p->next_begin = s->begins[p->lo];
    p->next_end = s->ends[p->hi];
    if (p->next_begin != NONE)
        s->pieces[p->next_begin].prev_begin = i;
    if (p->next_end != NONE)
        s->pieces[p->next_end].prev_end = i;
    s->begins[p->lo] = s->ends[p->hi] = i;
    s->n_begins[p->lo]++;
    s->n_ends[p->hi]++;
    p->root = s->n_roots;
    s->roots[s->n_roots++] = i;
    enqueue(s, p->lo);
    enqueue(s, p->hi);
}

static uint32_t add(struct tiling *s, struct piece p) {
    uint32_t i = s->free;
    if (i != NONE)
        s->free = s->pieces[i].first;
    else
        i = s->n++;
    s->pieces[i] = p;
    put_in(s, i);
    return i;
}

static void take_out(struct tiling *s, uint32_t i) {
    struct piece *p = &s->pieces[i];
    if (p->prev_begin != NONE)
        s->pieces[p->prev_begin].next_begin = p->next_begin;
    else
        s->begins[p->lo] = p->next_begin;
    if (p->next_begin != NONE)
        s->pieces[p->next_begin].prev_begin = p->prev_begin;
    if (p->prev_end != NONE)
        s->pieces[p->prev_end].next_end = p->next_end;
    else
        s->ends[p->hi] = p->next_end;
    if (p->next_end != NONE)
        s->pieces[p->next_end].prev_end = p->prev_end;
    s->n_begins[p->lo]--;
    s->n_ends[p->hi]--;
    p->joined = true;
    uint32_t last = s->roots[--s->n_roots];
    s->roots[p->root] = last;
    s->pieces[last].root = p->root;
}

static uint32_t join(struct tiling *s, uint32_t a, uint32_t b, bool in_sequence, double evidence) {
    struct piece *p = &s->pieces[a], *q = &s->pieces[b];
    take_out(s, a);
    take_out(s, b);
    float least = ARITH_MIN((float)ARITH_MIN(evidence, 1e30), ARITH_MIN(p->odds, q->odds));
    if (in_sequence)
        enqueue(s, q->lo);
    return add(s, (struct piece){.size = in_sequence ? p->size : p->size + q->size,
                                 .lo = p->lo,
                                 .hi = q->hi,
                                 .first = a,
                                 .second = b,
                                 .odds = least,
                                 .in_sequence = in_sequence});
}

static void split(struct tiling *s, uint32_t i) {
    take_out(s, i);
    put_in(s, s->pieces[i].first);
    put_in(s, s->pieces[i].second);
}

static void rejoin(struct tiling *s, uint32_t i) {
    take_out(s, s->pieces[i].first);
    take_out(s, s->pieces[i].second);
    put_in(s, i);
}

static void set_free(struct tiling *s, uint32_t i) {
    s->pieces[i].first = s->free;
    s->free = i;
}

static void fill_in(struct tiling *s, uint64_t size, uint32_t lo, uint32_t hi) {
    if (size > 0 && lo < hi && s->n_fillers < s->part->n) {
        s->n_fillers++;
        add(s, (struct piece){.size = size, .lo = lo, .hi = hi, .first = NONE, .second = NONE, .odds = SURE});
    }
}

/* Fillers that have begun and not ended. */
struct opened {
    uint64_t size[OPEN];
    uint32_t lo[OPEN];
    uint32_t n;
};

static void close_filler(struct tiling *s, struct opened *o, uint32_t k, uint32_t at) {
    fill_in(s, o->size[k], o->lo[k], at);
    o->n--;
    o->size[k] = o->size[o->n];
    o->lo[k] = o->lo[o->n];
}

static void open_filler(struct tiling *s, struct opened *o, uint64_t size, uint32_t at) {
    if (o->n == OPEN)
        close_filler(s, o, 0, at);
    o->size[o->n] = size;
    o->lo[o->n++] = at;
}

/* The missing space shrinks by x at a border: fillers end. */
static void close_some(struct tiling *s, struct opened *o, uint64_t x, uint32_t at) {
    for (uint32_t k = o->n; k-- > 0;)
        if (o->size[k] == x) {
            close_filler(s, o, k, at);
            return;
        }
    for (uint32_t k = ARITH_MIN(o->n, (uint32_t)PAIRS); k-- > 0;)
        for (uint32_t j = k; j-- > 0;)
            if (o->size[k] + o->size[j] == x) {
                close_filler(s, o, k, at); /* the last takes its border, and j < k */
                close_filler(s, o, j, at);
                return;
            }
    /* A larger one ends in part. */
    uint32_t from = o->n > 0 ? (uint32_t)below(s, o->n) : 0;
    for (uint32_t k = 0; k < o->n; k++) {
        uint32_t i = (from + k) % o->n;
        if (o->size[i] > x) {
            uint64_t rest = o->size[i] - x;
            fill_in(s, x, o->lo[i], at);
            if (below(s, 2) == 0) {
                o->size[i] = rest;
            } else {
                fill_in(s, rest, o->lo[i], at);
                o->size[i] = rest;
                o->lo[i] = at;
            }
            return;
        }
    }
    while (x > 0 && o->n > 0) {
        uint32_t k = o->n - 1;
        if (o->size[k] > x) {
            fill_in(s, x, o->lo[k], at);
            o->size[k] -= x;
            return;
        }
        x -= o->size[k];
        close_filler(s, o, k, at);
    }
}

/* Fillers for what is missing below the limit. */
static void fill_gaps(struct tiling *s) {
    struct opened o = {.n = 0};
    uint64_t missing = 0;
    for (uint32_t k = 0; k <= s->part->sections; k++) {
        uint64_t now = k < s->part->sections ? s->limit - s->live[k] : 0;
        if (now > missing)
            open_filler(s, &o, now - missing, k);
        else if (now < missing)
            close_some(s, &o, missing - now, k);
        missing = now;
        s->steps += 4;
    }
}

/* The odds that a match is no coincidence, where so many end or begin and one in `chances` would match by
 * coincidence. */
static double odds(uint32_t n, uint32_t m, uint64_t chances) {
    return (double)chances / ARITH_MAX(n, m);
}

/* Evidence for a piece of this size: one of equal size before or behind it. */
static double sequence_odds(struct tiling *s, uint32_t lo, uint32_t hi, uint64_t size) {
    double best = 1;
    for (uint32_t i = s->ends[lo]; i != NONE; i = s->pieces[i].next_end)
        if (s->pieces[i].size == size)
            best *= ARITH_MAX(1., odds(s->n_begins[lo], s->n_ends[lo], size / s->unit));
    for (uint32_t i = s->begins[hi]; i != NONE; i = s->pieces[i].next_begin)
        if (s->pieces[i].size == size)
            best *= ARITH_MAX(1., odds(s->n_begins[hi], s->n_ends[hi], size / s->unit));
    s->steps += s->n_ends[lo] + s->n_begins[hi];
    return best;
}

/* Evidence for a piece with this lifetime: another one with the same. */
static double stack_odds(struct tiling *s, uint32_t lo, uint32_t hi) {
    s->steps += s->n_begins[lo];
    for (uint32_t i = s->begins[lo]; i != NONE; i = s->pieces[i].next_begin)
        if (s->pieces[i].hi == hi)
            return ARITH_MAX(1., odds(s->n_begins[lo], s->n_ends[hi], hi - lo));
    return 1;
}

static bool trusts(struct tiling *s, double evidence) {
    double noise = 1 + s->noise * (double)(pack_part_random(&s->random) >> 11) * 0x1p-53;
    return evidence * s->trust * noise >= 1;
}

static bool is_crowded(const struct tiling *s, uint32_t at) {
    return s->n_begins[at] > CROWD || s->n_ends[at] > CROWD;
}

/* Joins two pieces that begin here and end together; false if there are none. */
static bool join_stacked(struct tiling *s, uint32_t at) {
    for (uint32_t i = s->begins[at]; i != NONE; i = s->pieces[i].next_begin) {
        uint32_t hi = s->pieces[i].hi;
        for (uint32_t j = s->pieces[i].next_begin; j != NONE; j = s->pieces[j].next_begin) {
            s->steps += 2;
            if (hi != s->pieces[j].hi)
                continue;
            double evidence = odds(s->n_begins[at], s->n_ends[hi], hi - at) *
                              sequence_odds(s, at, hi, s->pieces[i].size + s->pieces[j].size);
            if (trusts(s, evidence)) {
                join(s, i, j, false, evidence);
                return true;
            }
        }
    }
    return false;
}

/* Joins a piece that ends here to the only one of equal size that begins here; false if there is none. */
static bool join_in_sequence(struct tiling *s, uint32_t at) {
    for (uint32_t i = s->ends[at]; i != NONE; i = s->pieces[i].next_end) {
        uint64_t size = s->pieces[i].size;
        uint32_t likes = 0, like = NONE, same = 0;
        for (uint32_t j = s->begins[at]; j != NONE; j = s->pieces[j].next_begin)
            if (s->pieces[j].size == size) {
                like = j;
                likes++;
            }
        s->steps += s->n_begins[at];
        if (likes != 1)
            continue;
        for (uint32_t j = s->ends[at]; j != NONE; j = s->pieces[j].next_end)
            same += s->pieces[j].size == size;
        s->steps += s->n_ends[at];
        if (same != 1)
            continue;
        double evidence = odds(s->n_begins[at], s->n_ends[at], size / s->unit) *
                          stack_odds(s, s->pieces[i].lo, s->pieces[like].hi);
        if (trusts(s, evidence)) {
            join(s, i, like, true, evidence);
            return true;
        }
    }
    return false;
}

/* Joins in order of evidence; false if the budget is spent. */
static bool join_all(struct tiling *s) {
    for (s->trust = FIRST_TRUST; s->trust <= s->last_trust && s->n_roots > 1; s->trust *= 2) {
        for (uint32_t k = 0; k <= s->part->sections; k++)
            enqueue(s, k);
        while (s->n_queue > 0) {
            uint32_t at = s->queue[--s->n_queue];
            s->is_queued[at] = false;
            s->steps += 4;
            if (!is_crowded(s, at) && (join_stacked(s, at) || join_in_sequence(s, at)))
                enqueue(s, at);
            if (s->steps >= ASK_AFTER && !pack_budget_spend(s->budget, &s->steps))
                return false;
        }
    }
    return true;
}

/* A joint drawn at random from those possible at a border. */
struct sample {
    uint32_t a;
    uint32_t b;
    bool in_sequence;
    double evidence;
    double sum;
};

static void sample(struct tiling *s, struct sample *l, uint32_t a, uint32_t b, bool in_sequence,
                   double evidence) {
    double weight = ARITH_MIN(evidence, 1e9);
    l->sum += weight;
    if (weight >= l->sum * (double)(pack_part_random(&s->random) >> 11) * 0x1p-53) {
        l->a = a;
        l->b = b;
        l->in_sequence = in_sequence;
        l->evidence = evidence;
    }
}

static bool join_at_random(struct tiling *s, uint32_t at) {
    struct sample l = {.sum = 0};
    for (uint32_t i = s->begins[at]; i != NONE; i = s->pieces[i].next_begin) {
        uint32_t hi = s->pieces[i].hi;
        for (uint32_t j = s->pieces[i].next_begin; j != NONE; j = s->pieces[j].next_begin)
            if (hi == s->pieces[j].hi)
                sample(s, &l, i, j, false,
                       odds(s->n_begins[at], s->n_ends[hi], hi - at) *
                           sequence_odds(s, at, hi, s->pieces[i].size + s->pieces[j].size));
    }
    for (uint32_t i = s->ends[at]; i != NONE; i = s->pieces[i].next_end) {
        uint64_t size = s->pieces[i].size;
        for (uint32_t j = s->begins[at]; j != NONE; j = s->pieces[j].next_begin)
            if (size == s->pieces[j].size)
                sample(s, &l, i, j, true,
                       odds(s->n_begins[at], s->n_ends[at], size / s->unit) *
                           stack_odds(s, s->pieces[i].lo, s->pieces[j].hi));
    }
    s->steps += (uint64_t)s->n_begins[at] * (s->n_begins[at] / 2 + s->n_ends[at]) + 8;
    if (l.sum <= 0)
        return false;
    s->notes[s->n_notes++] = (struct note){join(s, l.a, l.b, l.in_sequence, l.evidence), JOINED};
    return true;
}

static bool is_filler(const struct tiling *s, uint32_t i) {
    return i >= s->part->n && s->pieces[i].first == NONE;
}

/* Cuts a filler in two so that one of them matches a neighbour, if possible. */
static void cut_filler(struct tiling *s, uint32_t i) {
    struct piece f = s->pieces[i];
    uint64_t size = 0, n = 0;
    uint32_t at = 0;
    for (uint32_t k = s->ends[f.lo]; k != NONE; k = s->pieces[k].next_end)
        if (s->pieces[k].size < f.size && below(s, ++n) == 0)
            size = s->pieces[k].size;
    for (uint32_t k = s->begins[f.hi]; k != NONE; k = s->pieces[k].next_begin)
        if (s->pieces[k].size < f.size && below(s, ++n) == 0)
            size = s->pieces[k].size;
    for (uint32_t k = s->begins[f.lo]; k != NONE; k = s->pieces[k].next_begin)
        if (s->pieces[k].hi < f.hi && below(s, ++n) == 0)
            at = s->pieces[k].hi;
    for (uint32_t k = s->ends[f.hi]; k != NONE; k = s->pieces[k].next_end)
        if (s->pieces[k].lo > f.lo && below(s, ++n) == 0)
            at = s->pieces[k].lo;
    s->steps += s->n_ends[f.lo] + s->n_begins[f.hi] + s->n_begins[f.lo] + s->n_ends[f.hi];
    if (n == 0 || s->n_fillers >= s->part->n)
        return;
    struct piece first = f, second = f;
    if (at > 0) {
        first.hi = second.lo = at;
    } else {
        first.size = size;
        second.size -= size;
    }
    s->n_fillers++;
    take_out(s, i);
    uint32_t a = add(s, first), b = add(s, second);
    s->pieces[i].first = a;
    s->pieces[i].second = b;
    s->notes[s->n_notes++] = (struct note){i, CUT};
}

/* Splits some joints, preferably those with the lowest odds. */
static void split_some(struct tiling *s) {
    uint32_t i = s->roots[below(s, s->n_roots)];
    for (uint32_t k = 0; k < SPLITS && (k < 2 || below(s, 8) != 0); k++) {
        uint32_t a = s->pieces[i].first, b = s->pieces[i].second, next = s->roots[below(s, s->n_roots)];
        if (a != NONE) {
            split(s, i);
            s->notes[s->n_notes++] = (struct note){i, SPLIT};
            bool first = below(s, 4) == 0 ? below(s, 2) == 0 : s->pieces[a].odds < s->pieces[b].odds;
            if (below(s, 6) != 0)
                next = first ? a : b;
        } else if (is_filler(s, i)) {
            cut_filler(s, i);
        }
        i = next;
        if (s->pieces[i].joined) /* it was just split */
            i = s->roots[below(s, s->n_roots)];
    }
}

static void undo(struct tiling *s) {
    while (s->n_notes > 0) {
        struct note *t = &s->notes[--s->n_notes];
        struct piece *p = &s->pieces[t->piece];
        switch (t->what) {
        case JOINED:
            split(s, t->piece);
            set_free(s, t->piece);
            break;
        case SPLIT:
            rejoin(s, t->piece);
            break;
        case CUT:
            rejoin(s, t->piece);
            set_free(s, p->first);
            set_free(s, p->second);
            p->first = p->second = NONE;
            s->n_fillers--;
            break;
        }
    }
    while (s->n_queue > 0)
        s->is_queued[s->queue[--s->n_queue]] = false;
}

/* Splits some joints and joins at random; undoes it all if more pieces are left. */
static void retry_joints(struct tiling *s) {
    uint32_t before = s->n_roots;
    s->n_notes = 0;
    split_some(s);
    while (s->n_queue > 0) {
        uint32_t pick = (uint32_t)below(s, s->n_queue), at = s->queue[pick];
        s->queue[pick] = s->queue[--s->n_queue];
        s->is_queued[at] = false;
        if (!is_crowded(s, at) && join_at_random(s, at))
            enqueue(s, at);
    }
    if (s->n_roots > before) {
        undo(s);
        return;
    }
    for (uint32_t k = 0; k < s->n_notes; k++) {
        struct piece *p = &s->pieces[s->notes[k].piece];
        if (s->notes[k].what != JOINED) {
            set_free(s, s->notes[k].piece);
        } else if (is_filler(s, p->first) && is_filler(s, p->second)) { /* become one */
            set_free(s, p->first);
            set_free(s, p->second);
            p->first = p->second = NONE;
            s->n_fillers--;
        }
    }
}

static void begin(struct tiling *s) {
    const struct pack_part *p = s->part;
    s->n = s->n_fillers = s->n_roots = s->n_queue = s->n_notes = 0;
    s->free = NONE;
    for (uint32_t k = 0; k <= p->sections; k++) {
        s->begins[k] = s->ends[k] = NONE;
        s->n_begins[k] = s->n_ends[k] = 0;
        s->is_queued[k] = false;
    }
    for (uint32_t i = 0; i < p->n; i++)
        add(s, (struct piece){.size = p->items[i].size,
                              .lo = p->items[i].lo,
                              .hi = p->items[i].hi,
                              .first = NONE,
                              .second = NONE,
                              .odds = SURE});
    s->steps += 10 * (uint64_t)p->n;
}

static uint64_t gcd(uint64_t a, uint64_t b) {
    while (b > 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static void sum_live(struct tiling *s) {
    const struct pack_part *p = s->part;
    pack_part_live(p, 1, s->live);
    s->unit = 0;
    for (uint32_t i = 0; i < p->n; i++)
        s->unit = gcd(s->unit, p->items[i].size);
    s->steps += 20 * (uint64_t)p->n;
}

/* Makes a part of the pieces that remain. */
static void make_core(struct tiling *s, struct pack_part *core) {
    uint32_t n = 0, sections = s->part->sections;
    for (uint32_t k = 0; k < s->n_roots; k++) {
        const struct piece *p = &s->pieces[s->roots[k]];
        s->keys[n++] = (struct pack_key){(uint64_t)p->lo << 32 | (UINT32_MAX - p->hi), UINT64_MAX - p->size,
                                         s->roots[k]};
    }
    pack_part_sort(s->keys, s->spare, n);
    /* Renumbers sections: one begins where a piece begins after another has ended. */
    uint32_t *number = s->queue, count = 0;
    bool ended = true;
    for (uint32_t k = 0; k < sections; k++) {
        ended = ended || s->n_ends[k] > 0;
        if (ended && s->n_begins[k] > 0) {
            count++;
            ended = false;
        }
        number[k] = count - 1;
    }
    for (uint32_t k = 0; k < n; k++) {
        const struct piece *p = &s->pieces[s->keys[k].index];
        s->core_piece[k] = s->keys[k].index;
        s->core[k] = (struct pack_item){p->size, s->part->items[0].align, number[p->lo],
                                        number[p->hi - 1] + 1, p->hi - p->lo};
    }
    *core = (struct pack_part){.items = s->core,
                               .n = n,
                               .sections = count,
                               .target = s->limit,
                               .offsets = s->core_offsets,
                               .peak = UINT64_MAX,
                               .uniform = true,
                               .max_align = s->part->max_align,
                               .seed = s->part->seed};
    s->steps += sections + s->n + 20 * (uint64_t)n;
}

/* Offsets of all blocks from those of the remaining pieces. */
static void keep(struct tiling *s, struct pack_part *p, const struct pack_part *core) {
    for (uint32_t k = 0; k < core->n; k++) {
        uint32_t i = s->core_piece[k];
        s->pieces[i].offset = core->offsets[k];
        s->pieces[i].next_begin = NONE; /* a stack */
        while (i != NONE) {
            struct piece *it = &s->pieces[i];
            uint32_t next = it->next_begin;
            if (it->first != NONE) {
                struct piece *a = &s->pieces[it->first], *b = &s->pieces[it->second];
                a->offset = it->offset;
                b->offset = it->offset + (it->in_sequence ? 0 : a->size);
                b->next_begin = next;
                a->next_begin = it->second;
                next = it->first;
            } else if (i < p->n) {
                p->offsets[i] = it->offset;
            }
            i = next;
        }
    }
    pack_part_measure(p);
}

/* Whether fillers may stand for pieces that were left out: not if the missing space changes all the time. */
static bool can_fill(const struct tiling *s) {
    uint32_t changes = s->live[0] != s->limit;
    for (uint32_t k = 1; k < s->part->sections; k++)
        changes += s->live[k] != s->live[k - 1];
    return changes > 0 && changes <= s->part->sections / 4 * 3;
}

/* Few pieces remain, as in a tiling. */
static bool is_promising(const struct tiling *s) {
    return s->n_roots <= s->part->n / 4;
}

/* Kinds of guesses. The best one is slow: it goes first and takes half of the steps, all chances together
 * take the other half. Large parts have time for the slow one only, once. */
struct guess {
    double last_trust; /* stopping earlier makes fewer mistakes */
    bool filled;       /* with fillers, if can_fill */
    bool repaired;
};
static const struct guess best_guess = {64, true, true};
static const struct guess other_guesses[] = {
    {64, true, false},    {64, false, false},   {64, false, true},    {1, true, false},  {1, false, false},
    {0.5, true, false},   {0.5, false, false},  {2, true, false},     {2, false, false}, {0.25, true, false},
    {0.25, false, false}, {0.125, true, false}, {0.125, false, false}};
enum { OTHERS = sizeof other_guesses / sizeof other_guesses[0] };

/* Makes guess k of its kind; false if the result is not worth a search. */
static bool guess(struct tiling *s, const struct guess *g, uint32_t k, bool noisy) {
    s->random = k;
    s->last_trust = g->last_trust;
    s->noise = noisy ? NOISE : 0;
    begin(s);
    if (g->filled && can_fill(s))
        fill_gaps(s);
    if (!join_all(s))
        return false;
    /* A large part that does not look tiled has no time for more. */
    if (s->part->n > PACK_VALLEY_LARGEST && !is_promising(s))
        return false;
    uint32_t least = s->n_roots;
    for (uint32_t since = 0; g->repaired && s->n_roots > 1 && since < PATIENCE; since++) {
        retry_joints(s);
        if (s->n_roots < least) {
            least = s->n_roots;
            since = 0;
        }
        if (s->steps >= ASK_AFTER && !pack_budget_spend(s->budget, &s->steps))
            return false;
    }
    return s->n_roots <= ARITH_MIN(s->part->n, (uint32_t)PACK_VALLEY_LARGEST);
}

static enum pack_outcome pack_core(struct tiling *s, struct pack_part *p, struct carve work) {
    struct pack_part core;
    make_core(s, &core);
    struct pack_budget share =
        pack_budget_share(s->budget, CORE_STEPS + CORE_STEPS_PER_PAIR * (uint64_t)core.n * core.n);
    enum pack_outcome o = pack_valley_search(&core, s->limit, &share, work);
    pack_budget_return(s->budget, &share);
    if (o == PACK_FOUND)
        keep(s, p, &core);
    return o;
}

bool pack_tiling_can(const struct pack_part *p) {
    return p->n >= FEWEST && (p->uniform || (p->n <= PACK_VALLEY_LARGEST && p->max_align > 0));
}

void pack_tiling_run(struct pack_part *p, struct pack_budget *budget, struct carve work) {
    struct tiling s = layout(&work, p->n);
    s.part = p;
    s.limit = ARITH_MAX(p->target, p->proven);
    s.budget = budget;
    CHECK(s.live != NULL); /* carved, not counted */
    sum_live(&s);
    for (uint32_t k = 0; k < p->sections; k++)
        if (s.live[k] > s.limit) /* sizes were rounded up */
            return;
    const bool large = p->n > PACK_VALLEY_LARGEST, fill = can_fill(&s);
    uint64_t repaired = 0, chances = 0; /* steps */
    while (p->fast_guesses + p->slow_guesses < (large ? 1u : GUESSES) &&
           pack_budget_spend(budget, &s.steps)) {
        const bool repair = large || repaired <= chances;
        const uint32_t k = repair ? p->slow_guesses++ : p->fast_guesses++;
        const struct guess *g = repair ? &best_guess : &other_guesses[k % OTHERS];
        if (!repair && !g->filled && !fill) /* as the one before */
            continue;
        const uint64_t left = budget->steps;
        if (guess(&s, g, k, k >= (repair ? 1 : OTHERS)) && pack_core(&s, p, work) == PACK_FOUND)
            break;
        p->looks_tiled = p->looks_tiled || (repair && is_promising(&s));
        *(repair ? &repaired : &chances) += left - budget->steps;
    }
    pack_budget_spend(budget, &s.steps);
}
