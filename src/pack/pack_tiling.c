/* Guesses how one part was cut: tight instances are often a rectangle of time and bytes that was cut in two
 * again and again, perhaps with some pieces left out. Backwards: blocks that begin and end together become
 * one (one lies on the other), and so do blocks of one size of which the second begins where the first ends
 * (both at one offset). A packing of what is left is a packing of all.
 *
 * Matches also come by chance: rather where many begin and end, rather of short lives and of small sizes. So
 * pieces are joined in order of what speaks for the joint; what it makes possible next speaks for it too.
 * Then doubtful joints are taken apart and joined by lot, over and over, while that does not leave more.
 *
 * What is missing below the limit may be pieces that were left out: it is filled with pieces of its own, as
 * few as one can tell, which are cut again where that helps.
 *
 * The few that remain go to pack_valley. Guesses may be wrong, so nothing is ever proven here. */
#include "pack/pack_strategy.h"

#include <string.h>

#define NONE                UINT32_MAX
#define FIRST_TRUST         0x1p-20
#define SURE                1e30f  /* odds of what is no joint */
#define SHAKE               2.0    /* of odds in later guesses */
#define GUESSES             1000   /* in a part */
#define PATIENCE            4000   /* times that joints are taken apart without success */
#define APART               32     /* joints taken apart at a time, at most */
#define CROWD               2000   /* that begin or end at a place; more are left alone */
#define OPEN                256    /* fillers at one time */
#define PAIRS               64     /* ... of which two are looked for that end together */
#define ASK_AFTER           100000 /* steps between two looks at the budget */
#define CORE_STEPS          100000 /* of the search in what is left */
#define CORE_STEPS_PER_PAIR 200    /* ... and for each pair of pieces */

struct piece {
    uint64_t size;
    uint64_t offset;
    uint32_t lo;
    uint32_t hi;
    uint32_t first; /* what it was joined of, or NONE */
    uint32_t second;
    bool in_time; /* second follows first; else it lies upon it */
    bool joined;
    uint32_t place; /* in roots */
    float odds;     /* the least that speaks for a joint in it */
    /* Lists of those that begin and that end at one place. */
    uint32_t next_begin, prev_begin;
    uint32_t next_end, prev_end;
};

/* What try_again did, to be undone. */
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

    /* [4 n + 2 APART]: n items, at most n fillers, and what is joined of them; and while joints are taken
     * apart, those. */
    struct piece *pieces;
    uint32_t n;
    uint32_t free; /* a list of those not in use, by `first` */
    uint32_t n_fillers;
    uint32_t *roots; /* what is not joined to others */
    uint32_t alive;  /* how many */
    struct note *notes;
    uint32_t n_notes;
    double trust; /* joints whose odds are above 1 / trust are made */
    double last_trust;
    double shake;

    /* Places are borders of sections: 0 to sections. */
    uint32_t *begins; /* heads of lists of pieces */
    uint32_t *ends;
    uint32_t *n_begins;
    uint32_t *n_ends;
    uint32_t *todo; /* a stack of places to be looked at */
    uint32_t n_todo;
    bool *is_todo;

    /* What is left, for pack_valley. */
    struct pack_item *core;
    uint32_t *core_piece;
    uint64_t *core_offsets;
    struct pack_key *keys;
    struct pack_key *spare;
};

static struct tiling layout(struct carve *c, uint32_t n) {
    struct tiling s = {0};
    uint32_t core = ARITH_MIN(n, (uint32_t)PACK_VALLEY_LARGEST);
    s.pieces = carve_take(c, 4 * (uint64_t)n + 2 * APART, sizeof *s.pieces);
    s.roots = carve_take(c, 4 * (uint64_t)n + 2 * APART, sizeof *s.roots);
    s.notes = carve_take(c, 4 * (uint64_t)n + 2 * APART, sizeof *s.notes);
    s.begins = carve_take(c, (uint64_t)n + 1, sizeof *s.begins);
    s.ends = carve_take(c, (uint64_t)n + 1, sizeof *s.ends);
    s.n_begins = carve_take(c, (uint64_t)n + 1, sizeof *s.n_begins);
    s.n_ends = carve_take(c, (uint64_t)n + 1, sizeof *s.n_ends);
    s.todo = carve_take(c, (uint64_t)n + 1, sizeof *s.todo);
    s.is_todo = carve_take(c, (uint64_t)n + 1, sizeof *s.is_todo);
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

static void look_at(struct tiling *s, uint32_t place) {
    if (!s->is_todo[place]) {
        s->is_todo[place] = true;
        s->todo[s->n_todo++] = place;
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
    p->place = s->alive;
    s->roots[s->alive++] = i;
    look_at(s, p->lo);
    look_at(s, p->hi);
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
    uint32_t last = s->roots[--s->alive];
    s->roots[p->place] = last;
    s->pieces[last].place = p->place;
}

static uint32_t join(struct tiling *s, uint32_t a, uint32_t b, bool in_time, double for_it) {
    struct piece *p = &s->pieces[a], *q = &s->pieces[b];
    take_out(s, a);
    take_out(s, b);
    float least = ARITH_MIN((float)ARITH_MIN(for_it, 1e30), ARITH_MIN(p->odds, q->odds));
    if (in_time)
        look_at(s, q->lo);
    return add(s, (struct piece){.size = in_time ? p->size : p->size + q->size,
                                 .lo = p->lo,
                                 .hi = q->hi,
                                 .first = a,
                                 .second = b,
                                 .odds = least,
                                 .in_time = in_time});
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

/* Fillers that have begun. */
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

/* What is missing falls by x at a place: fillers end. */
static void close_some(struct tiling *s, struct opened *o, uint64_t x, uint32_t at) {
    for (uint32_t k = o->n; k-- > 0;)
        if (o->size[k] == x) {
            close_filler(s, o, k, at);
            return;
        }
    for (uint32_t k = ARITH_MIN(o->n, (uint32_t)PAIRS); k-- > 0;)
        for (uint32_t j = k; j-- > 0;)
            if (o->size[k] + o->size[j] == x) {
                close_filler(s, o, k, at); /* the last takes its place, and j < k */
                close_filler(s, o, j, at);
                return;
            }
    /* One that is larger ends in part. */
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

/* Pieces for what is missing below the limit. */
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

/* How likely a match is no chance where so many end or begin: one in `others` of those matches by chance. */
static double odds(uint32_t n, uint32_t m, uint64_t others) {
    return (double)others / ARITH_MAX(n, m);
}

/* What speaks for a piece of this size if there is a like before or behind it. */
static double odds_along(struct tiling *s, uint32_t lo, uint32_t hi, uint64_t size) {
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

/* ... and for one that lives so long if there is another. */
static double odds_beside(struct tiling *s, uint32_t lo, uint32_t hi) {
    s->steps += s->n_begins[lo];
    for (uint32_t i = s->begins[lo]; i != NONE; i = s->pieces[i].next_begin)
        if (s->pieces[i].hi == hi)
            return ARITH_MAX(1., odds(s->n_begins[lo], s->n_ends[hi], hi - lo));
    return 1;
}

static bool trusts(struct tiling *s, double for_it) {
    double shake = 1 + s->shake * (double)(pack_part_random(&s->random) >> 11) * 0x1p-53;
    return for_it * s->trust * shake >= 1;
}

static bool is_crowded(const struct tiling *s, uint32_t at) {
    return s->n_begins[at] > CROWD || s->n_ends[at] > CROWD;
}

/* Joins pieces that begin here and end together; true if any. */
static bool join_beside(struct tiling *s, uint32_t at) {
    for (uint32_t i = s->begins[at]; i != NONE; i = s->pieces[i].next_begin) {
        uint32_t hi = s->pieces[i].hi;
        for (uint32_t j = s->pieces[i].next_begin; j != NONE; j = s->pieces[j].next_begin) {
            s->steps += 2;
            if (hi != s->pieces[j].hi)
                continue;
            double for_it = odds(s->n_begins[at], s->n_ends[hi], hi - at) *
                            odds_along(s, at, hi, s->pieces[i].size + s->pieces[j].size);
            if (trusts(s, for_it)) {
                join(s, i, j, false, for_it);
                return true;
            }
        }
    }
    return false;
}

/* Joins a piece that ends here to its like that begins here, if there is one and no other; true if any. */
static bool join_along(struct tiling *s, uint32_t at) {
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
        double for_it = odds(s->n_begins[at], s->n_ends[at], size / s->unit) *
                        odds_beside(s, s->pieces[i].lo, s->pieces[like].hi);
        if (trusts(s, for_it)) {
            join(s, i, like, true, for_it);
            return true;
        }
    }
    return false;
}

/* Joins in order of trust; false if the budget is spent. */
static bool join_all(struct tiling *s) {
    for (s->trust = FIRST_TRUST; s->trust <= s->last_trust && s->alive > 1; s->trust *= 2) {
        for (uint32_t k = 0; k <= s->part->sections; k++)
            look_at(s, k);
        while (s->n_todo > 0) {
            uint32_t at = s->todo[--s->n_todo];
            s->is_todo[at] = false;
            s->steps += 4;
            if (!is_crowded(s, at) && (join_beside(s, at) || join_along(s, at)))
                look_at(s, at);
            if (s->steps >= ASK_AFTER && !pack_budget_spend(s->budget, &s->steps))
                return false;
        }
    }
    return true;
}

/* A joint that could be made at a place, drawn by lot. */
struct lot {
    uint32_t a;
    uint32_t b;
    bool in_time;
    double for_it;
    double sum;
};

static void draw(struct tiling *s, struct lot *l, uint32_t a, uint32_t b, bool in_time, double for_it) {
    double weight = ARITH_MIN(for_it, 1e9);
    l->sum += weight;
    if (weight >= l->sum * (double)(pack_part_random(&s->random) >> 11) * 0x1p-53) {
        l->a = a;
        l->b = b;
        l->in_time = in_time;
        l->for_it = for_it;
    }
}

static bool join_by_lot(struct tiling *s, uint32_t at) {
    struct lot l = {.sum = 0};
    for (uint32_t i = s->begins[at]; i != NONE; i = s->pieces[i].next_begin) {
        uint32_t hi = s->pieces[i].hi;
        for (uint32_t j = s->pieces[i].next_begin; j != NONE; j = s->pieces[j].next_begin)
            if (hi == s->pieces[j].hi)
                draw(s, &l, i, j, false,
                     odds(s->n_begins[at], s->n_ends[hi], hi - at) *
                         odds_along(s, at, hi, s->pieces[i].size + s->pieces[j].size));
    }
    for (uint32_t i = s->ends[at]; i != NONE; i = s->pieces[i].next_end) {
        uint64_t size = s->pieces[i].size;
        for (uint32_t j = s->begins[at]; j != NONE; j = s->pieces[j].next_begin)
            if (size == s->pieces[j].size)
                draw(s, &l, i, j, true,
                     odds(s->n_begins[at], s->n_ends[at], size / s->unit) *
                         odds_beside(s, s->pieces[i].lo, s->pieces[j].hi));
    }
    s->steps += (uint64_t)s->n_begins[at] * (s->n_begins[at] / 2 + s->n_ends[at]) + 8;
    if (l.sum <= 0)
        return false;
    s->notes[s->n_notes++] = (struct note){join(s, l.a, l.b, l.in_time, l.for_it), JOINED};
    return true;
}

static bool is_filler(const struct tiling *s, uint32_t i) {
    return i >= s->part->n && s->pieces[i].first == NONE;
}

/* Cuts a filler in two so that one of them meets its like, if there is any way. */
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

/* Takes some joints apart, those with the least odds rather. */
static void take_apart(struct tiling *s) {
    uint32_t i = s->roots[below(s, s->alive)];
    for (uint32_t k = 0; k < APART && (k < 2 || below(s, 8) != 0); k++) {
        uint32_t a = s->pieces[i].first, b = s->pieces[i].second, next = s->roots[below(s, s->alive)];
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
        if (s->pieces[i].joined) /* it was the one just taken apart */
            i = s->roots[below(s, s->alive)];
    }
}

static void take_back(struct tiling *s) {
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
    while (s->n_todo > 0)
        s->is_todo[s->todo[--s->n_todo]] = false;
}

/* Takes some joints apart and joins by lot; what is worse is taken back. */
static void try_again(struct tiling *s) {
    uint32_t before = s->alive;
    s->n_notes = 0;
    take_apart(s);
    while (s->n_todo > 0) {
        uint32_t pick = (uint32_t)below(s, s->n_todo), at = s->todo[pick];
        s->todo[pick] = s->todo[--s->n_todo];
        s->is_todo[at] = false;
        if (!is_crowded(s, at) && join_by_lot(s, at))
            look_at(s, at);
    }
    if (s->alive > before) {
        take_back(s);
        return;
    }
    for (uint32_t k = 0; k < s->n_notes; k++) {
        struct piece *p = &s->pieces[s->notes[k].piece];
        if (s->notes[k].what != JOINED) {
            set_free(s, s->notes[k].piece);
        } else if (is_filler(s, p->first) && is_filler(s, p->second)) { /* becomes one */
            set_free(s, p->first);
            set_free(s, p->second);
            p->first = p->second = NONE;
            s->n_fillers--;
        }
    }
}

static void begin(struct tiling *s) {
    const struct pack_part *p = s->part;
    s->n = s->n_fillers = s->alive = s->n_todo = s->n_notes = 0;
    s->free = NONE;
    for (uint32_t k = 0; k <= p->sections; k++) {
        s->begins[k] = s->ends[k] = NONE;
        s->n_begins[k] = s->n_ends[k] = 0;
        s->is_todo[k] = false;
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

/* What is not joined becomes a part of its own. */
static void make_core(struct tiling *s, struct pack_part *core) {
    uint32_t n = 0, sections = s->part->sections;
    for (uint32_t k = 0; k < s->alive; k++) {
        const struct piece *p = &s->pieces[s->roots[k]];
        s->keys[n++] = (struct pack_key){(uint64_t)p->lo << 32 | (UINT32_MAX - p->hi), UINT64_MAX - p->size,
                                         s->roots[k]};
    }
    pack_part_sort(s->keys, s->spare, n);
    /* Numbers of the sections that are left: one begins where something begins after something ended. */
    uint32_t *number = s->todo, count = 0;
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

/* From the core's offsets to all. */
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
                b->offset = it->offset + (it->in_time ? 0 : a->size);
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

/* Whether filling what is missing may show what was left out: not where it changes all the time. */
static bool can_fill(const struct tiling *s) {
    uint32_t changes = s->live[0] != s->limit;
    for (uint32_t k = 1; k < s->part->sections; k++)
        changes += s->live[k] != s->live[k - 1];
    return changes > 0 && changes <= s->part->sections / 4 * 3;
}

/* Little is left, as a tiling would. */
static bool is_promising(const struct tiling *s) {
    return s->alive <= s->part->n / 4;
}

/* Kinds of guesses. The best one is slow: it comes first and takes half of the steps, all others
 * together the other half. Large parts have time for it alone, once. */
struct guess {
    double last_trust; /* what stops earlier makes fewer mistakes */
    bool filled;       /* what is missing, if it can be */
    bool repaired;
};
static const struct guess best_guess = {64, true, true};
static const struct guess other_guesses[] = {
    {64, true, false},    {64, false, false},   {64, false, true},    {1, true, false},  {1, false, false},
    {0.5, true, false},   {0.5, false, false},  {2, true, false},     {2, false, false}, {0.25, true, false},
    {0.25, false, false}, {0.125, true, false}, {0.125, false, false}};
enum { OTHERS = sizeof other_guesses / sizeof other_guesses[0] };

/* Joins as far as guess k of its kind goes; false if that is not worth a search. */
static bool guess(struct tiling *s, const struct guess *g, uint32_t k, bool shaken) {
    s->random = k;
    s->last_trust = g->last_trust;
    s->shake = shaken ? SHAKE : 0;
    begin(s);
    if (g->filled && can_fill(s))
        fill_gaps(s);
    if (!join_all(s))
        return false;
    /* Large parts that show no tiling have no time for more. */
    if (s->part->n > PACK_VALLEY_LARGEST && !is_promising(s))
        return false;
    uint32_t least = s->alive;
    for (uint32_t since = 0; g->repaired && s->alive > 1 && since < PATIENCE; since++) {
        try_again(s);
        if (s->alive < least) {
            least = s->alive;
            since = 0;
        }
        if (s->steps >= ASK_AFTER && !pack_budget_spend(s->budget, &s->steps))
            return false;
    }
    return s->alive <= ARITH_MIN(s->part->n, (uint32_t)PACK_VALLEY_LARGEST);
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
    return p->uniform || (p->n <= PACK_VALLEY_LARGEST && p->max_align > 0);
}

void pack_tiling_run(struct pack_part *p, struct pack_budget *budget, struct carve work) {
    struct tiling s = layout(&work, p->n);
    s.part = p;
    s.limit = ARITH_MAX(p->target, p->proven);
    s.budget = budget;
    CHECK(s.live != NULL); /* carved, not counted */
    sum_live(&s);
    for (uint32_t k = 0; k < p->sections; k++)
        if (s.live[k] > s.limit) /* of rounded sizes */
            return;
    const bool large = p->n > PACK_VALLEY_LARGEST, fill = can_fill(&s);
    uint64_t repaired = 0, others = 0; /* steps */
    while (p->fast_guesses + p->slow_guesses < (large ? 1u : GUESSES) &&
           pack_budget_spend(budget, &s.steps)) {
        const bool repair = large || repaired <= others;
        const uint32_t k = repair ? p->slow_guesses++ : p->fast_guesses++;
        const struct guess *g = repair ? &best_guess : &other_guesses[k % OTHERS];
        if (!repair && !g->filled && !fill) /* as the one before */
            continue;
        const uint64_t left = budget->steps;
        if (guess(&s, g, k, k >= (repair ? 1 : OTHERS)) && pack_core(&s, p, work) == PACK_FOUND)
            break;
        p->looks_tiled = p->looks_tiled || (repair && is_promising(&s));
        *(repair ? &repaired : &others) += left - budget->steps;
    }
    pack_budget_spend(budget, &s.steps);
}
