/* Blocks get their places in the order of time, like a stream of allocations whose ends are known. A block
 * that begins goes into one of the gaps that there are then, next to a block that ends at about the same
 * time, so that gaps come to lie side by side and grow together. What is free when a block begins stays free
 * for it: nothing else has to be looked at, but places that are given already to blocks that begin later.
 *
 * Where a block finds no gap below the limit, the flow goes back some way and on again, with some chance in
 * its choices, many times; mostly it then also spares a place for that block, one where all that lies there
 * will have ended, and for all before it that are about as large: else the next try ends at one of those.
 *
 * What is lost are the largest blocks: what is free then is 3 to 6%, in many gaps, none of them large enough
 * any more. So places may be spared for large blocks before they begin, wherever they are: those that lie
 * idle until then with the least area (bytes times sections), which mostly is where another large one ends.
 *
 * Going back undoes what was done in reverse: a list whose members remember their neighbours takes them back
 * as it let them go (Knuth, "Dancing links", 2000).
 *
 * No better: the best fit of sizes (with a FIT of 0.1 up to twice as many are lost), large blocks at one end
 * and small ones at the other, lives likewise, gaps of the largest size kept for those, a few small blocks
 * moved elsewhere to make room (rarely is there a place that was free all their life), to give up and mend
 * (pack_overlap.c doesn't settle what is left); places for all large blocks before anything else: better than
 * none where sizes are few (zipf), far worse where no two are alike (long).
 *
 * Invariants: what is spared is free from the present section on but for what ends before its block begins.
 * Between two turns, the list holds from the floor up those blocks that have a place and have not ended, and
 * `gaps` all gaps between them below the limit. */
#include "pack/pack_flow.h"

#include <math.h>

#define NONE        UINT32_MAX
#define NEAR        0.016 /* how far the first tries go back at most, in lives (of bytes, on average) */
#define SHAKE       1.0f  /* chance in the choice of a gap */
#define SHAKE_FAR   0.03f /* ... from further back than SPARE */
#define SHAKE_MID   0.6f  /* ... where a place is spared */
#define SHAKE_FEW   0.1f  /* ... in one of three such tries */
#define SHAKE_AT    0.3f  /* ... in the choice of that place */
#define AHEAD       0.2   /* lives that places are spared for large blocks, at most */
#define LEAST_AHEAD 0.18  /* ... at least: for some at a time, since what lives has to be listed for them */
#define SPARE       0.3   /* ... at most, for a block that found no gap */
#define SPARES      256   /* places that are spared at a time */
#define LARGE       0.7 /* of the block that found no gap: as large a one before it has a place spared, too */
#define FIT         0.01f  /* how much the rest of a gap counts, beside the times between ends */
#define ENOUGH      128    /* gaps that are compared */
#define CHUNK       64     /* ... looked at together */
#define ASK_AFTER   100000 /* steps between two looks at the budget */

struct flow_gap {
    uint64_t size;
    uint64_t bottom;
    uint32_t node;    /* below it */
    uint32_t ends[2]; /* of the nodes below and above it */
    uint32_t places;  /* the first that may reach into it */
    uint32_t until;   /* no place in it begins before that */
    bool spared;      /* something of it is */
};

/* Places by bottom, and how far they were looked at. */
struct look {
    const struct flow_place *places;
    uint32_t n;
    uint32_t at;
};

/* Free, or free from a time on. */
struct flow_range {
    uint64_t bottom;
    uint64_t top;
    uint32_t end;
};

/* Where a block lay on the way that tries start from. */
struct flow_way {
    uint64_t bottom;
    uint32_t under;
};

struct pack_flow pack_flow_layout(struct carve *c, uint32_t n) {
    struct pack_flow f = {.floor = n, .ceiling = n + 1};
    f.nodes = carve_take(c, (uint64_t)n + 2, sizeof *f.nodes);
    f.places = carve_take(c, n, sizeof *f.places);
    f.gaps = carve_take(c, (uint64_t)n + 1, sizeof *f.gaps);
    f.sizes = carve_take(c, (uint64_t)n + 1, sizeof *f.sizes);
    f.spares = carve_take(c, SPARES, sizeof *f.spares);
    f.kept = carve_take(c, SPARES, sizeof *f.kept);
    f.ranges = carve_take(c, 2 * (uint64_t)n + 1, sizeof *f.ranges);
    f.by_end = carve_take(c, n, sizeof *f.by_end);
    f.way = carve_take(c, n, sizeof *f.way);
    f.keys = carve_take(c, n, sizeof *f.keys);
    f.spare = carve_take(c, n, sizeof *f.spare);
    return f;
}

/* [0, most) */
static inline float chance(uint64_t bits, float most) {
    return most * 0x1p-24f * (float)(uint32_t)(bits & 0xFFFFFF);
}

/* How badly two ends fit; per_life: of the block that is to be placed. */
static inline float mismatch(uint32_t end, uint32_t other, float per_life) {
    if (other == 0)
        return 0;
    uint32_t apart = end > other ? end - other : other - end;
    return pack_flow_log2(1 + (float)apart * per_life);
}

/* The largest distance of an end that may be no worse than that. */
static inline uint32_t as_far_as(float mismatch, const struct flow_node *d) {
    float apart = (pack_flow_exp2(mismatch) - 1) * (float)(d->end - d->begin) + 2;
    return apart < 0x1p31f ? (uint32_t)apart : UINT32_MAX;
}

static inline bool is_far(uint32_t end, uint32_t other, uint32_t apart) {
    return other != 0 && (end > other ? end - other : other - end) > apart;
}

static inline float per_life(const struct flow_node *d) {
    return 1 / (float)(d->end - d->begin);
}

/* The first place that may reach above that. */
static uint32_t places_from(const struct pack_flow *f, uint64_t bottom) {
    uint32_t low = 0, high = f->n_places;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (f->places[middle].highest <= bottom)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The given ones, from the first that may reach above that. */
static struct look look_at_places(const struct pack_flow *f, uint64_t bottom) {
    return (struct look){f->places, f->n_places, places_from(f, bottom)};
}

/* The next one that lies in [bottom, top) in [begin, end). */
static inline const struct flow_place *next_place(struct pack_flow *f, struct look *l, uint64_t bottom,
                                                  uint64_t top, uint32_t begin, uint32_t end) {
    while (l->at < l->n && l->places[l->at].bottom < top) {
        const struct flow_place *p = &l->places[l->at++];
        f->steps += 2;
        if (p->top > bottom && p->begin < end && begin < p->end)
            return p;
    }
    return NULL;
}

void pack_flow_take_places(struct pack_flow *f, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        CHECK(i == 0 || f->places[i - 1].bottom <= f->places[i].bottom);
        f->places[i].highest = ARITH_MAX(f->places[i].top, i > 0 ? f->places[i - 1].highest : 0);
    }
    f->n_places = n;
}

bool pack_flow_is_free(struct pack_flow *f, uint64_t bottom, uint64_t top, uint32_t begin, uint32_t end) {
    struct look l = look_at_places(f, bottom);
    return next_place(f, &l, bottom, top, begin, end) == NULL;
}

static void forget_gap(struct pack_flow *f, uint32_t below) {
    uint32_t g = f->nodes[below].gap;
    if (g == NONE)
        return;
    f->gaps[g] = f->gaps[--f->n_gaps];
    f->sizes[g] = f->sizes[f->n_gaps];
    f->nodes[f->gaps[g].node].gap = g;
    f->nodes[below].gap = NONE;
}

static void look_ahead(struct pack_flow *f, struct flow_gap *g) {
    const uint64_t bottom = g->bottom, top = bottom + g->size;
    uint32_t until = UINT32_MAX, i = g->places;
    for (; i < f->n_places && f->places[i].bottom < top; i++) {
        const struct flow_place *p = &f->places[i];
        const bool counts = p->top > bottom && p->begin >= f->now; /* else it lives, or has ended */
        until = ARITH_MIN(until, counts ? p->begin : UINT32_MAX);
    }
    g->until = until;
    f->steps += 4 + (i - g->places);
}

static void look_at_spares(struct pack_flow *f, struct flow_gap *g) {
    const uint64_t top = g->bottom + g->size;
    g->spared = false;
    for (uint32_t i = 0; i < f->n_spares && f->spares[i].bottom < top; i++)
        g->spared = g->spared || f->spares[i].top > g->bottom;
    f->steps += f->n_spares / 2;
}

static void note_gap(struct pack_flow *f, uint32_t below) {
    struct flow_node *d = &f->nodes[below];
    const struct flow_node *up = &f->nodes[d->above];
    CHECK(d->top <= up->bottom);
    if (d->top == up->bottom) {
        forget_gap(f, below);
        return;
    }
    if (d->gap == NONE)
        d->gap = f->n_gaps++;
    struct flow_gap *g = &f->gaps[d->gap];
    *g = (struct flow_gap){up->bottom - d->top, d->top,     below, {d->end, up->end},
                           d->places,           UINT32_MAX, false};
    f->sizes[d->gap] = g->size;
    if (f->n_places > 0)
        look_ahead(f, g);
    if (f->n_spares > 0)
        look_at_spares(f, g);
}

/* Gives node k its place. */
static void put(struct pack_flow *f, uint32_t k, uint32_t below, uint64_t bottom) {
    struct flow_node *d = &f->nodes[k];
    d->top = bottom + (d->top - d->bottom);
    d->bottom = bottom;
    d->below = d->under = below;
    d->above = f->nodes[below].above;
    d->gap = NONE;
    d->places = f->n_places > 0 ? places_from(f, d->top) : 0;
    f->nodes[d->above].below = k;
    f->nodes[below].above = k;
    note_gap(f, below);
    note_gap(f, k);
}

static void take_out(struct pack_flow *f, uint32_t k) {
    const struct flow_node *d = &f->nodes[k];
    forget_gap(f, k);
    f->nodes[d->below].above = d->above;
    f->nodes[d->above].below = d->below;
    note_gap(f, d->below);
}

/* Undoes take_out, if all that came after it is undone. */
static void put_back(struct pack_flow *f, uint32_t k) {
    const struct flow_node *d = &f->nodes[k];
    f->nodes[d->below].above = k;
    f->nodes[d->above].below = k;
    note_gap(f, d->below);
    note_gap(f, k);
}

/* What ends before node k begins. */
static void end_blocks(struct pack_flow *f, uint32_t k) {
    f->now = f->nodes[k].begin;
    for (; f->nodes[f->by_end[f->ended]].end <= f->now; f->ended++) /* k itself ends later */
        take_out(f, f->by_end[f->ended]);
    f->steps += 15;
}

static void undo_ends(struct pack_flow *f, uint32_t k) {
    f->now = f->nodes[k - 1].begin;
    while (f->ended > 0 && f->nodes[f->by_end[f->ended - 1]].end > f->now)
        put_back(f, f->by_end[--f->ended]);
    f->steps += 15;
}

static void undo_to(struct pack_flow *f, uint32_t k) {
    while (f->done > k) {
        const uint32_t last = --f->done;
        f->now = f->nodes[last - 1].begin; /* its own place, if it was given one, lies ahead again */
        take_out(f, last);
        undo_ends(f, last);
    }
}

static void redo_to(struct pack_flow *f, uint32_t k) {
    for (; f->done < k; f->done++) {
        end_blocks(f, f->done);
        put(f, f->done, f->way[f->done].under, f->way[f->done].bottom);
    }
}

/* The best place for a block so far. */
struct choice {
    const struct flow_node *node;
    uint64_t size;
    float per_life;
    float shake;
    float cost;
    uint32_t apart; /* ends farther from the block's than this are worse in any case */
    uint32_t below; /* NONE: there was none */
    uint64_t bottom;
};

static inline float distance(uint64_t a, uint64_t b) {
    return (float)(a > b ? a - b : b - a);
}

/* Looks at both ends of a gap in which there is no place while the block lives. */
static inline void consider_free(struct pack_flow *f, struct choice *c, const struct flow_gap *g) {
    if (g->size < c->size)
        return;
    uint64_t rest = g->size - c->size;
    float low = mismatch(c->node->end, g->ends[0], c->per_life);
    float high = mismatch(c->node->end, g->ends[1], c->per_life);
    if (rest == 0) {
        low = high = (low + high) / 2;
    } else {
        float fit = FIT * pack_flow_log2(1 + (float)rest * f->per_byte);
        low += fit;
        high += fit;
    }
    if (c->node->target != FLOW_NOWHERE) {
        low += f->per_place * distance(g->bottom, c->node->target);
        high += f->per_place * distance(g->bottom + rest, c->node->target);
    }
    if (c->shake > 0) {
        uint64_t r = pack_part_random(&f->random);
        low += chance(r >> 32, c->shake);
        high += chance(r, c->shake);
    }
    float least = ARITH_MIN(low, high);
    if (least < c->cost) {
        c->cost = least;
        c->apart = as_far_as(least, c->node);
        c->below = g->node;
        c->bottom = high < low ? g->bottom + rest : g->bottom;
    }
}

/* What is left of a gap between places. */
struct cut {
    struct look places;
    struct flow_gap piece; /* the present one */
    uint64_t bottom;       /* of what was not cut yet */
    uint64_t top;
    uint32_t ends[2]; /* of what lies below and above that */
    bool last;
};

static inline struct cut cut_gap(const struct flow_gap *g, struct look places) {
    return (struct cut){places, *g, g->bottom, g->bottom + g->size, {g->ends[0], g->ends[1]}, false};
}

/* The next piece, free while a block lives; false if there was none left. */
static inline bool next_piece(struct pack_flow *f, struct cut *c, const struct flow_node *d) {
    while (!c->last) {
        const struct flow_place *p = next_place(f, &c->places, c->bottom, c->top, d->begin, d->end);
        const uint64_t bottom = c->bottom, top = p != NULL ? p->bottom : c->top;
        c->piece.ends[0] = c->ends[0];
        c->piece.ends[1] = p != NULL ? p->end : c->ends[1];
        c->last = p == NULL;
        if (p != NULL) {
            c->bottom = p->top;
            c->ends[0] = p->end;
        }
        if (bottom < top) {
            c->piece.bottom = bottom;
            c->piece.size = top - bottom;
            return true;
        }
    }
    return false;
}

/* The same between places. */
static void consider_between(struct pack_flow *f, struct choice *c, const struct flow_gap *g) {
    struct cut cut = cut_gap(g, (struct look){f->places, f->n_places, g->places});
    while (next_piece(f, &cut, c->node))
        consider_free(f, c, &cut.piece);
}

static inline void consider(struct pack_flow *f, struct choice *c, const struct flow_gap *g) {
    if (g->size < c->size)
        return;
    if (g->until < c->node->end)
        consider_between(f, c, g);
    else
        consider_free(f, c, g);
}

/* The same between places that are spared: those count as if they were taken already. */
static void consider_beside(struct pack_flow *f, struct choice *c, const struct flow_gap *g) {
    struct cut cut = cut_gap(g, (struct look){f->spares, f->n_spares, 0});
    while (next_piece(f, &cut, c->node))
        consider(f, c, &cut.piece);
}

/* Into the gap around a place that was left free for it. */
static void put_there(struct pack_flow *f, uint32_t k, uint64_t bottom) {
    const uint64_t top = bottom + (f->nodes[k].top - f->nodes[k].bottom);
    uint32_t g = 0;
    while (f->gaps[g].bottom > bottom || f->gaps[g].bottom + f->gaps[g].size < top) {
        g++;
        CHECK(g < f->n_gaps); /* nothing that lives as long was let in */
    }
    f->steps += g;
    put(f, k, f->gaps[g].node, bottom);
}

static bool put_into_best_gap(struct pack_flow *f, uint32_t k, float shake) {
    const struct flow_node *d = &f->nodes[k];
    struct choice c = {d, d->top - d->bottom, per_life(d), shake, INFINITY, UINT32_MAX, NONE, 0};
    uint32_t compared = 0, looked = 0, fits[CHUNK];
    uint32_t at = f->n_gaps > ENOUGH ? (uint32_t)(pack_part_random(&f->random) % f->n_gaps) : 0;
    while (looked < f->n_gaps && (compared < ENOUGH || c.below == NONE)) {
        const uint32_t chunk = ARITH_MIN(ARITH_MIN((uint32_t)CHUNK, f->n_gaps - looked), f->n_gaps - at);
        uint32_t n = 0;
        for (uint32_t i = 0; i < chunk; i++) { /* no branch to be guessed wrong */
            fits[n] = at + i;
            n += f->sizes[at + i] >= c.size;
        }
        for (uint32_t i = 0; i < n; i++) {
            const struct flow_gap *gap = &f->gaps[fits[i]];
            if (gap->until >= d->end && !gap->spared && is_far(d->end, gap->ends[0], c.apart) &&
                is_far(d->end, gap->ends[1], c.apart))
                continue;
            if (gap->spared)
                consider_beside(f, &c, gap);
            else
                consider(f, &c, gap);
        }
        compared += n;
        looked += chunk;
        at = at + chunk == f->n_gaps ? 0 : at + chunk;
    }
    f->steps += looked / 2 + 4 * (uint64_t)compared + 30;
    if (c.below == NONE)
        return false;
    put(f, k, c.below, c.bottom);
    return true;
}

/* Node k has it now. */
static void forget_spare(struct pack_flow *f, uint32_t k) {
    uint32_t i = 0;
    while (f->spares[i].node != k) {
        i++;
        CHECK(i < f->n_spares);
    }
    f->n_spares--;
    memmove(f->spares + i, f->spares + i + 1, (f->n_spares - i) * sizeof *f->spares);
    f->nodes[k].spared = FLOW_NOWHERE;
    f->steps += f->n_spares;
}

/* False if there is no gap for it. */
static bool place(struct pack_flow *f, uint32_t k, float shake) {
    struct flow_node *d = &f->nodes[k];
    if (d->fixed) {
        put_there(f, k, d->bottom);
    } else if (d->spared != FLOW_NOWHERE) {
        put_there(f, k, d->spared);
        forget_spare(f, k);
    } else {
        return put_into_best_gap(f, k, shake);
    }
    return true;
}

/* What is free, or will be, from the floor up. Returns how many. */
static uint32_t list_ranges(struct pack_flow *f) {
    uint32_t n = 0;
    uint64_t at = 0;
    for (uint32_t i = f->nodes[f->floor].above;; i = f->nodes[i].above) {
        const struct flow_node *d = &f->nodes[i];
        if (d->bottom > at)
            f->ranges[n++] = (struct flow_range){at, d->bottom, f->now};
        if (i == f->ceiling)
            break;
        f->ranges[n++] = (struct flow_range){d->bottom, d->top, d->end};
        at = d->top;
    }
    f->steps += 2 * (uint64_t)n;
    return n;
}

static inline uint64_t length(const struct flow_range *r) {
    return r->top - r->bottom;
}

/* How long that many bytes of it lie idle until then. */
static inline double idle(const struct flow_range *r, uint64_t bytes, uint32_t until) {
    return (double)bytes * (double)(until - r->end);
}

/* Takes that place if it has the least idle area so far. */
static void offer(struct pack_flow *f, struct flow_node *d, uint64_t bottom, double area, double *least) {
    const uint64_t top = bottom + (d->top - d->bottom);
    struct look spares = {f->spares, f->n_spares, 0};
    if (area < *least && next_place(f, &spares, bottom, top, d->begin, d->end) == NULL &&
        pack_flow_is_free(f, bottom, top, d->begin, d->end)) {
        *least = area;
        d->spared = bottom;
    }
}

static void note_spare(struct pack_flow *f, uint32_t k) {
    const struct flow_node *d = &f->nodes[k];
    const struct flow_place s = {.bottom = d->spared,
                                 .top = d->spared + (d->top - d->bottom),
                                 .begin = d->begin,
                                 .end = d->end,
                                 .node = k};
    uint32_t i = f->n_spares++;
    CHECK(i < SPARES);
    for (; i > 0 && f->spares[i - 1].bottom > s.bottom; i--)
        f->spares[i] = f->spares[i - 1];
    f->spares[i] = s;
    f->steps += f->n_spares - i;
}

/* Offers a node the places in ranges [low, end), all of which are free when it begins. */
static void offer_run(struct pack_flow *f, struct flow_node *d, uint32_t low, uint32_t end, double *least) {
    const struct flow_range *ranges = f->ranges;
    const uint64_t size = d->top - d->bottom;
    double area = 0; /* of [low, high) */
    f->steps += 4 * (uint64_t)(end - low);
    for (uint32_t high = low; low < end && ranges[end - 1].top - ranges[low].bottom >= size; low++) {
        for (; high <= low || ranges[high - 1].top - ranges[low].bottom < size; high++)
            area += idle(&ranges[high], length(&ranges[high]), d->begin);
        const struct flow_range *first = &ranges[low], *last = &ranges[high - 1];
        const uint64_t over = last->top - first->bottom - size, random = pack_part_random(&f->random);
        const double below = 1 + (double)chance(random >> 32, SHAKE_AT),
                     above = 1 + (double)chance(random, SHAKE_AT);
        offer(f, d, first->bottom, below * (area - idle(last, over, d->begin)), least);
        if (over < length(first))
            offer(f, d, last->top - size, above * (area - idle(first, over, d->begin)), least);
        area -= idle(first, length(first), d->begin);
    }
}

/* Spares a place for node k that will be free when it begins: of those that begin or end where one of the n
 * ranges does, the one that lies idle until then with the least area. Nothing happens if there is none. */
static void spare_place(struct pack_flow *f, uint32_t k, uint32_t n) {
    if (f->n_spares == SPARES)
        return;
    struct flow_node *d = &f->nodes[k];
    const struct flow_range *ranges = f->ranges;
    const uint64_t size = d->top - d->bottom;
    CHECK(size > 0);   /* else where nothing is free would do */
    uint64_t from = 0; /* all is free from there to the present range, or nothing is */
    double least = INFINITY;
    for (uint32_t i = 0; i < n; i++) { /* they touch each other; no branch to be guessed wrong */
        from = ranges[i].end <= d->begin ? from : ranges[i].top;
        if (ranges[i].top - from < size)
            continue;
        uint32_t low = i;
        while (ranges[low].bottom > from)
            low--;
        while (i + 1 < n && ranges[i + 1].end <= d->begin)
            i++;
        offer_run(f, d, low, i + 1, &least);
    }
    f->steps += n;
    if (d->spared != FLOW_NOWHERE)
        note_spare(f, k);
}

static inline bool wants_place(const struct flow_node *d, uint64_t large) {
    return !d->fixed && d->spared == FLOW_NOWHERE && d->top - d->bottom >= large;
}

static void look_at_all_spares(struct pack_flow *f) {
    for (uint32_t g = 0; g < f->n_gaps; g++)
        look_at_spares(f, &f->gaps[g]);
}

/* For node k, and for those before it that are about as large; false if there is none for it. */
static bool spare_places(struct pack_flow *f, uint32_t k) {
    const uint64_t large = (uint64_t)(LARGE * (double)(f->nodes[k].top - f->nodes[k].bottom));
    const uint32_t n = list_ranges(f);
    f->steps += k - f->done;
    if (wants_place(&f->nodes[k], large))
        spare_place(f, k, n);
    if (f->nodes[k].spared == FLOW_NOWHERE)
        return false;
    for (uint32_t i = k; i-- > f->done;)
        if (wants_place(&f->nodes[i], large))
            spare_place(f, i, n);
    look_at_all_spares(f);
    return true;
}

/* For large blocks that begin soon. */
static void spare_ahead(struct pack_flow *f, uint32_t *ahead) {
    if (f->large == UINT64_MAX || (double)*ahead >= f->done + LEAST_AHEAD * f->life)
        return;
    const uint32_t end = (uint32_t)ARITH_MIN(f->done + AHEAD * f->life, (double)f->n), n = f->n_spares;
    uint32_t ranges = 0;
    for (*ahead = ARITH_MAX(*ahead, f->done); *ahead < end; ++*ahead)
        if (wants_place(&f->nodes[*ahead], f->large)) {
            if (ranges == 0)
                ranges = list_ranges(f);
            spare_place(f, *ahead, ranges);
        }
    if (f->n_spares > n)
        look_at_all_spares(f);
}

static void forget_spares(struct pack_flow *f) {
    for (uint32_t i = 0; i < f->n_spares; i++)
        f->nodes[f->spares[i].node].spared = FLOW_NOWHERE;
    f->n_spares = 0;
}

/* Those that were spared where the way of the tries ends. */
static void restore_spares(struct pack_flow *f) {
    f->n_spares = f->n_kept;
    for (uint32_t i = 0; i < f->n_kept; i++) {
        f->spares[i] = f->kept[i];
        f->nodes[f->kept[i].node].spared = f->kept[i].bottom;
    }
    look_at_all_spares(f);
    f->steps += f->n_kept;
}

void pack_flow_begin(struct pack_flow *f) {
    for (uint32_t k = 0; k < f->n; k++)
        f->keys[k] = (struct pack_key){f->nodes[k].end, 0, k};
    pack_part_sort(f->keys, f->spare, f->n);
    for (uint32_t k = 0; k < f->n; k++)
        f->by_end[k] = f->keys[k].index;
    f->nodes[f->floor] = (struct flow_node){.above = f->ceiling, .gap = NONE};
    f->nodes[f->ceiling] =
        (struct flow_node){.bottom = f->limit, .top = f->limit, .below = f->floor, .gap = NONE};
    f->n_gaps = f->ended = f->now = 0;
    f->n_spares = f->n_kept = 0;
    note_gap(f, f->floor);
    for (uint32_t k = 0; k < f->stacked; k++) {
        CHECK(f->nodes[k].fixed && f->nodes[k].begin == 0);
        put(f, k, k == 0 ? f->floor : k - 1, f->nodes[k].bottom);
    }
    f->done = f->stacked;
    f->steps += 120 * (uint64_t)f->n;
}

/* How far the flow came, and what is tried to get further. */
struct frontier {
    uint32_t at;     /* the node that found no gap */
    uint32_t first;  /* where tries may begin; `way` holds where nodes lay from there to the frontier */
    uint32_t branch; /* where the present try left that way */
    uint32_t tries;
    float shake;    /* of the present try */
    uint32_t ahead; /* how far large blocks have places spared */
};

static void advance_frontier(struct pack_flow *f, struct frontier *t, uint32_t k, double lives) {
    const uint32_t far = (uint32_t)ARITH_MIN(lives * f->life + 2, (double)k);
    *t = (struct frontier){.at = k, .first = ARITH_MAX(f->stacked, k - far), .branch = k, .ahead = t->ahead};
    for (uint32_t i = t->first; i < k; i++)
        f->way[i] = (struct flow_way){f->nodes[i].bottom, f->nodes[i].under};
    f->n_kept = f->n_spares;
    memcpy(f->kept, f->spares, f->n_spares * sizeof *f->kept);
    f->steps += k - t->first + f->n_kept;
}

/* Goes back, the further the more was tried. */
static void go_back(struct pack_flow *f, struct frontier *t, const struct flow_effort *effort) {
    double part = (double)++t->tries / effort->tries,
           reach = (NEAR + (effort->far - NEAR) * part * part * part) * f->life + 8;
    uint32_t most = (uint32_t)ARITH_MIN(reach, (double)(t->at - t->first));
    uint32_t back = 1 + (uint32_t)(pack_part_random(&f->random) % most);
    forget_spares(f);
    undo_to(f, ARITH_MIN(t->branch, t->at - back));
    t->branch = t->ahead = t->at - back;
    redo_to(f, t->branch);
    restore_spares(f);
    t->shake = SHAKE;
    if (back > SPARE * f->life)
        t->shake = SHAKE_FAR;
    else if (t->tries % 4 != 0 && spare_places(f, t->at))
        t->shake = t->tries % 4 == 1 ? SHAKE_MID : t->tries % 4 == 2 ? SHAKE_FEW : SHAKE_MID / 2;
}

bool pack_flow_run(struct pack_flow *f, const struct flow_effort *effort, struct pack_budget *budget) {
    struct frontier t = {0};
    while (f->done < f->n) {
        const uint32_t k = f->done;
        if (f->steps >= ASK_AFTER && !pack_budget_take(budget, &f->steps))
            return false;
        end_blocks(f, k);
        spare_ahead(f, &t.ahead);
        if (place(f, k, k > t.at ? 0 : t.shake)) {
            f->done++;
            continue;
        }
        undo_ends(f, k);
        if (k > t.at)
            advance_frontier(f, &t, k, effort->far);
        if (t.tries == effort->tries || t.first == t.at)
            return false;
        go_back(f, &t, effort);
    }
    return true;
}
