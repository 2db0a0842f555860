/* Packs a large part in the order of time, as a stream of allocations whose ends are known. Those that live
 * at the highest live sum are stacked without a gap; from there the stream goes on to the end, and, as if
 * time went backwards, to the beginning. A block that begins goes into one of the gaps that there are then,
 * next to a block that ends at about the same time, so that gaps come to lie side by side and grow together.
 * What is free when a block begins stays free for it: nothing else has to be looked at.
 *
 * Where a block finds no gap below the limit, the stream goes back some way and on again, with some chance in
 * its choices, many times; mostly it then also keeps a place for that block, one where all that lies there
 * will have ended. So steps are spent where live sums are high and nowhere else. If that does not help, the
 * next attempt stacks the blocks in another order. The limit is found by halves.
 *
 * Going back undoes what was done in reverse: a list whose members remember their neighbours takes them back
 * as it let them go (Knuth, "Dancing links", 2000).
 *
 * Measured (bench_pack, seeds 1 to 3, worst % above the bound without and with this): two-lives, 100,000
 * blocks, 4.62 and 0.08; log, 5.17 and 1.73; zipf, 2.10 and 1.99; mixed, 1.06 and 0.75; mixed, 10,000, 1.76
 * and 0.03. Where blocks are lost, they are the largest: what is free then is 3 to 6%, in many gaps. No
 * better: the best fit of sizes (with a FIT of 0.1 up to twice as many are lost), large blocks at one end and
 * small ones at the other, lives likewise, gaps of the largest size spared for those, to give up and mend
 * (pack_overlap.c doesn't settle what is left). Without the stack at the peak, 43 of zipf's blocks are lost
 * instead of 5 (six passes).
 *
 * Invariants: between two turns of the stream, the list holds from the floor up those blocks that have a
 * place and have not ended, and `gaps` all gaps between them below the limit. All offsets are multiples of
 * the part's grain. */
#include "memory/pack_part.h"

#include <math.h>
#include <string.h>

#define NONE      UINT32_MAX
#define SHARE     0.7    /* of the steps, at most */
#define MOST      1.2e9  /* ... in any case: a time limit comes with steps without end */
#define LEVEL     0.21   /* of those, at a limit */
#define ATTEMPTS  16     /* ... */
#define FAILED    2      /* limits one after another, and others have to go on */
#define FINE      0.0005 /* of the target: what is not worth another limit */
#define TRIES     600    /* to get past a block that finds no gap */
#define NEAR      0.016  /* how far the first of them go back at most, in lives (of bytes, on average) */
#define FAR       4.0    /* ... and the last */
#define SHAKE     1.0f   /* chance in the choice of a gap */
#define SHAKE_FAR 0.03f  /* ... from further back than KEEP */
#define SHAKE_MID 0.6f   /* ... where a place is kept */
#define SHAKE_FEW 0.1f   /* ... in one of three such tries */
#define SHAKE_AT  2.0f   /* ... in the choice of that place */
#define KEEP      0.3    /* lives, at most, that a place is kept for */
#define FIT       0.01f  /* how much the rest of a gap counts, beside the times between ends */
#define ASK_AFTER 100000 /* steps between two looks at the budget */

struct node {
    uint64_t bottom;
    uint64_t top;
    uint32_t begin; /* sections from the peak, either way */
    uint32_t end;   /* > 0; 0: the floor, the limit */
    uint32_t below; /* neighbours in the list */
    uint32_t above;
    uint32_t under;  /* what was below it when it got its place */
    uint32_t gap;    /* the one above it, or NONE */
    uint32_t source; /* in the part */
};

struct gap {
    uint64_t size;
    uint64_t bottom;
    uint32_t node;    /* below it */
    uint32_t ends[2]; /* of the nodes below and above it */
};

/* Where a block lay on the way that tries start from. */
struct base {
    uint64_t bottom;
    uint32_t under;
};

struct stream {
    struct pack_part *part;
    uint32_t peak;    /* section */
    uint64_t highest; /* live sum there */
    uint32_t stacked; /* blocks that live in it */
    uint32_t *stack;  /* [n] those, from the floor up, in the part */
    double life;      /* how many blocks begin in the life of a byte */
    float per_byte;   /* 1 / size of a block */
    uint64_t limit;
    uint32_t n;         /* blocks of one direction */
    struct node *nodes; /* [part's n + 2] those that are stacked, then the others as they begin */
    uint32_t floor;     /* nodes beyond the blocks */
    uint32_t ceiling;
    struct gap *gaps; /* [part's n + 1] */
    uint32_t n_gaps;
    uint32_t *by_end;  /* [n] nodes */
    uint32_t ended;    /* how many of those have */
    uint32_t done;     /* nodes that have got a place */
    uint32_t kept_for; /* node that a place is kept for, or NONE */
    uint64_t kept;     /* that place */
    uint64_t kept_top;
    struct base *base; /* [n] */
    uint64_t *offsets; /* [part's n] of both directions */
    struct pack_key *keys;
    struct pack_key *spare;
    uint64_t random;
    uint64_t steps;
};

static struct stream layout(struct carve *c, uint32_t n) {
    struct stream s = {.floor = n, .ceiling = n + 1};
    s.stack = carve_take(c, n, sizeof *s.stack);
    s.nodes = carve_take(c, (uint64_t)n + 2, sizeof *s.nodes);
    s.gaps = carve_take(c, (uint64_t)n + 1, sizeof *s.gaps);
    s.by_end = carve_take(c, n, sizeof *s.by_end);
    s.base = carve_take(c, n, sizeof *s.base);
    s.offsets = carve_take(c, (uint64_t)n + 1, sizeof *s.offsets);
    s.keys = carve_take(c, n, sizeof *s.keys);
    s.spare = carve_take(c, n, sizeof *s.spare);
    return s;
}

uint64_t pack_stream_bytes(uint32_t n) {
    struct carve c = carve_count();
    layout(&c, n);
    return n > PACK_STREAM_MORE ? c.used : 0;
}

/* [0, most) */
static inline float chance(uint64_t bits, float most) {
    return most * 0x1p-24f * (float)(uint32_t)(bits & 0xFFFFFF);
}

/* About log2(x), x >= 1, and the same on every machine. */
static inline float about_log2(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (float)(bits - 0x3F800000u) * 0x1p-23f;
}

/* How badly two ends fit; per_life: of the block that is to be placed. */
static inline float mismatch(uint32_t end, uint32_t other, float per_life) {
    if (other == 0)
        return 0;
    uint32_t apart = end > other ? end - other : other - end;
    return about_log2(1 + (float)apart * per_life);
}

static inline float per_life(const struct node *d) {
    return 1 / (float)(d->end - d->begin);
}

static void forget_gap(struct stream *s, uint32_t below) {
    uint32_t g = s->nodes[below].gap;
    if (g == NONE)
        return;
    s->gaps[g] = s->gaps[--s->n_gaps];
    s->nodes[s->gaps[g].node].gap = g;
    s->nodes[below].gap = NONE;
}

static void note_gap(struct stream *s, uint32_t below) {
    struct node *d = &s->nodes[below];
    const struct node *up = &s->nodes[d->above];
    CHECK(d->top <= up->bottom);
    if (d->top == up->bottom) {
        forget_gap(s, below);
        return;
    }
    if (d->gap == NONE)
        d->gap = s->n_gaps++;
    s->gaps[d->gap] = (struct gap){up->bottom - d->top, d->top, below, {d->end, up->end}};
}

/* Gives node k its place. */
static void put(struct stream *s, uint32_t k, uint32_t below, uint64_t bottom) {
    struct node *d = &s->nodes[k];
    d->top = bottom + (d->top - d->bottom);
    d->bottom = bottom;
    d->below = d->under = below;
    d->above = s->nodes[below].above;
    d->gap = NONE;
    s->nodes[d->above].below = k;
    s->nodes[below].above = k;
    note_gap(s, below);
    note_gap(s, k);
}

static void take_out(struct stream *s, uint32_t k) {
    const struct node *d = &s->nodes[k];
    forget_gap(s, k);
    s->nodes[d->below].above = d->above;
    s->nodes[d->above].below = d->below;
    note_gap(s, d->below);
}

/* Undoes take_out, if all that came after it is undone. */
static void put_back(struct stream *s, uint32_t k) {
    const struct node *d = &s->nodes[k];
    s->nodes[d->below].above = k;
    s->nodes[d->above].below = k;
    note_gap(s, d->below);
    note_gap(s, k);
}

/* What ends before node k begins. */
static void end_blocks(struct stream *s, uint32_t k) {
    uint32_t now = s->nodes[k].begin;
    for (; s->nodes[s->by_end[s->ended]].end <= now; s->ended++) /* k itself ends later */
        take_out(s, s->by_end[s->ended]);
    s->steps += 15;
}

static void undo_ends(struct stream *s, uint32_t k) {
    uint32_t before = s->nodes[k - 1].begin;
    while (s->ended > 0 && s->nodes[s->by_end[s->ended - 1]].end > before)
        put_back(s, s->by_end[--s->ended]);
    s->steps += 15;
}

static void undo_to(struct stream *s, uint32_t k) {
    while (s->done > k) {
        take_out(s, --s->done);
        undo_ends(s, s->done);
    }
}

static void redo_to(struct stream *s, uint32_t k) {
    for (; s->done < k; s->done++) {
        end_blocks(s, s->done);
        put(s, s->done, s->base[s->done].under, s->base[s->done].bottom);
    }
}

/* The best place for a block so far. */
struct choice {
    uint64_t size;
    uint32_t end;
    float per_life;
    float shake;
    float cost;
    uint32_t below; /* NONE: there was none */
    uint64_t bottom;
};

/* Looks at both ends of a gap. */
static inline void consider(struct stream *s, struct choice *c, const struct gap *g) {
    if (g->size < c->size)
        return;
    uint64_t rest = g->size - c->size;
    float low = mismatch(c->end, g->ends[0], c->per_life), high = mismatch(c->end, g->ends[1], c->per_life);
    if (rest == 0) {
        low = high = (low + high) / 2;
    } else {
        float fit = FIT * about_log2(1 + (float)rest * s->per_byte);
        low += fit;
        high += fit;
    }
    if (c->shake > 0) {
        uint64_t r = pack_part_random(&s->random);
        low += chance(r >> 32, c->shake);
        high += chance(r, c->shake);
    }
    float least = ARITH_MIN(low, high);
    if (least < c->cost) {
        c->cost = least;
        c->below = g->node;
        c->bottom = high < low ? g->bottom + rest : g->bottom;
    }
}

/* The same in a gap that reaches into the place that is kept: that counts as if it were taken already. */
static void consider_beside(struct stream *s, struct choice *c, const struct gap *g) {
    const uint32_t end = s->nodes[s->kept_for].end;
    const uint64_t top = g->bottom + g->size;
    if (g->bottom < s->kept)
        consider(s, c, &(struct gap){s->kept - g->bottom, g->bottom, g->node, {g->ends[0], end}});
    if (s->kept_top < top)
        consider(s, c, &(struct gap){top - s->kept_top, s->kept_top, g->node, {end, g->ends[1]}});
}

/* The gap around the place that was kept for node k. */
static void put_where_kept(struct stream *s, uint32_t k) {
    uint32_t g = 0;
    while (s->gaps[g].bottom > s->kept || s->gaps[g].bottom + s->gaps[g].size < s->kept_top) {
        g++;
        CHECK(g < s->n_gaps); /* nothing that lives as long was let in */
    }
    put(s, k, s->gaps[g].node, s->kept);
    s->kept_for = NONE;
}

/* False if there is no gap for it. */
static bool place(struct stream *s, uint32_t k, float shake) {
    const struct node *d = &s->nodes[k];
    s->steps += 4 * (uint64_t)s->n_gaps;
    if (k == s->kept_for) {
        put_where_kept(s, k);
        return true;
    }
    struct choice c = {d->top - d->bottom, d->end, per_life(d), shake, INFINITY, NONE, 0};
    bool beside = s->kept_for != NONE && d->end > s->nodes[s->kept_for].begin;
    for (uint32_t g = 0; g < s->n_gaps; g++) {
        const struct gap *gap = &s->gaps[g];
        if (gap->size < c.size)
            continue;
        if (beside && gap->bottom < s->kept_top && s->kept < gap->bottom + gap->size)
            consider_beside(s, &c, gap);
        else
            consider(s, &c, gap);
    }
    if (c.below == NONE)
        return false;
    put(s, k, c.below, c.bottom);
    return true;
}

/* Keeps a place for node k that will be free when it begins; false if there is none. */
static bool keep_place(struct stream *s, uint32_t k) {
    const struct node *d = &s->nodes[k];
    const float per = per_life(d);
    uint64_t size = d->top - d->bottom, free = 0; /* from there on */
    uint32_t below_end = 0;
    float least = INFINITY;
    for (uint32_t i = s->nodes[s->floor].above;; i = s->nodes[i].above) {
        const struct node *up = &s->nodes[i];
        s->steps += 2;
        if (i != s->ceiling && up->end <= d->begin)
            continue;
        if (up->bottom - free >= size) {
            uint64_t r = pack_part_random(&s->random);
            float low = mismatch(d->end, below_end, per) + chance(r >> 32, SHAKE_AT);
            float high = mismatch(d->end, up->end, per) + chance(r, SHAKE_AT);
            if (ARITH_MIN(low, high) < least) {
                least = ARITH_MIN(low, high);
                s->kept = low <= high ? free : up->bottom - size;
            }
        }
        if (i == s->ceiling)
            break;
        free = up->top;
        below_end = up->end;
    }
    s->kept_for = least < INFINITY ? k : NONE;
    s->kept_top = s->kept + size;
    return s->kept_for != NONE;
}

/* Live sums, and so the peak and who lives there. */
static void find_peak(struct stream *s) {
    const struct pack_part *p = s->part;
    double lives = 0, areas = 0, sizes = 0;
    uint64_t *live = s->offsets, sum = 0;
    memset(live, 0, ((uint64_t)p->n + 1) * sizeof *live);
    for (uint32_t i = 0; i < p->n; i++) {
        uint64_t size = pack_part_rounded(p, i);
        double life = p->items[i].hi - p->items[i].lo, area = life * (double)size;
        lives += life * area;
        areas += area;
        sizes += (double)size;
        live[p->items[i].lo] += size;
        live[p->items[i].hi] -= size; /* modulo 2^64 */
    }
    s->life = lives / areas * p->n / p->sections;
    s->per_byte = (float)(p->n / sizes);
    for (uint32_t k = 0; k < p->sections; k++) {
        sum += live[k];
        if (sum > s->highest) {
            s->highest = sum;
            s->peak = k;
        }
    }
    for (uint32_t i = 0; i < p->n; i++)
        if (p->items[i].lo <= s->peak && s->peak < p->items[i].hi)
            s->stack[s->stacked++] = i;
    s->steps += 4 * (uint64_t)p->n;
}

/* How different two lives are, seen from the peak. */
static inline float unlike(const struct stream *s, const struct pack_item *a, const struct pack_item *b) {
    float a_left = (float)(s->peak + 1 - a->lo), b_left = (float)(s->peak + 1 - b->lo);
    float a_right = (float)(a->hi - s->peak), b_right = (float)(b->hi - s->peak);
    return about_log2(a_left > b_left ? a_left / b_left : b_left / a_left) +
           about_log2(a_right > b_right ? a_right / b_right : b_right / a_right);
}

/* Any block first, then always the one that is most like the last. */
static void order_stack(struct stream *s) {
    const struct pack_item *items = s->part->items;
    for (uint32_t k = 0; k < s->stacked; k++) {
        uint32_t next = k;
        if (k == 0)
            next = (uint32_t)(pack_part_random(&s->random) % s->stacked);
        float least = INFINITY;
        for (uint32_t i = k; k > 0 && i < s->stacked; i++) {
            float u = unlike(s, &items[s->stack[k - 1]], &items[s->stack[i]]);
            if (u < least) {
                least = u;
                next = i;
            }
        }
        uint32_t swap = s->stack[k];
        s->stack[k] = s->stack[next];
        s->stack[next] = swap;
    }
    s->steps += 2 * (uint64_t)s->stacked * s->stacked;
}

static struct node make_node(const struct stream *s, uint32_t i, bool backwards) {
    const uint32_t lo = s->part->items[i].lo, hi = s->part->items[i].hi, peak = s->peak;
    struct node d = {.top = pack_part_rounded(s->part, i), .gap = NONE, .source = i};
    if (backwards) {
        d.begin = hi <= peak ? peak + 1 - hi : 0;
        d.end = peak + 1 - lo;
    } else {
        d.begin = lo > peak ? lo - peak : 0;
        d.end = hi - peak;
    }
    return d;
}

/* All blocks of one direction, and the stack. */
static void begin(struct stream *s, bool backwards) {
    const struct pack_part *p = s->part;
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n; i++)
        if (backwards ? p->items[i].hi <= s->peak : p->items[i].lo > s->peak) {
            struct node d = make_node(s, i, backwards);
            s->keys[n++] = (struct pack_key){d.begin, UINT64_MAX - d.top, i};
        }
    pack_part_sort(s->keys, s->spare, n);
    s->n = s->stacked + n;
    for (uint32_t k = 0; k < s->n; k++)
        s->nodes[k] = make_node(s, k < s->stacked ? s->stack[k] : s->keys[k - s->stacked].index, backwards);
    for (uint32_t k = 0; k < s->n; k++)
        s->keys[k] = (struct pack_key){s->nodes[k].end, 0, k};
    pack_part_sort(s->keys, s->spare, s->n);
    for (uint32_t k = 0; k < s->n; k++)
        s->by_end[k] = s->keys[k].index;
    s->nodes[s->floor] = (struct node){.above = s->ceiling, .gap = NONE};
    s->nodes[s->ceiling] = (struct node){.bottom = s->limit, .top = s->limit, .below = s->floor, .gap = NONE};
    s->n_gaps = s->ended = 0;
    s->kept_for = NONE;
    note_gap(s, s->floor);
    for (uint32_t k = 0; k < s->stacked; k++)
        put(s, k, k == 0 ? s->floor : k - 1, k == 0 ? 0 : s->nodes[k - 1].top);
    s->done = s->stacked;
    s->steps += 80 * (uint64_t)s->n;
}

/* How far the stream came, and what is tried to get further. */
struct frontier {
    uint32_t at;     /* the node that found no gap */
    uint32_t first;  /* where tries may begin; `base` holds the way from there to the frontier */
    uint32_t branch; /* where the present try left that way */
    uint32_t tries;
    float shake; /* of the present try */
};

static void advance_frontier(struct stream *s, struct frontier *f, uint32_t k) {
    const uint32_t far = (uint32_t)ARITH_MIN(FAR * s->life + 2, (double)k);
    *f = (struct frontier){.at = k, .first = ARITH_MAX(s->stacked, k - far), .branch = k};
    for (uint32_t i = f->first; i < k; i++)
        s->base[i] = (struct base){s->nodes[i].bottom, s->nodes[i].under};
    s->steps += k - f->first;
}

/* Goes back, the further the more was tried. */
static void go_back(struct stream *s, struct frontier *f) {
    double part = (double)++f->tries / TRIES,
           reach = (NEAR + (FAR - NEAR) * part * part * part) * s->life + 8;
    uint32_t most = (uint32_t)ARITH_MIN(reach, (double)(f->at - f->first));
    uint32_t back = 1 + (uint32_t)(pack_part_random(&s->random) % most);
    s->kept_for = NONE;
    undo_to(s, ARITH_MIN(f->branch, f->at - back));
    f->branch = f->at - back;
    redo_to(s, f->branch);
    f->shake = SHAKE;
    if (back > KEEP * s->life)
        f->shake = SHAKE_FAR;
    else if (f->tries % 4 != 0 && keep_place(s, f->at))
        f->shake = f->tries % 4 == 1 ? SHAKE_MID : f->tries % 4 == 2 ? SHAKE_FEW : SHAKE_MID / 2;
}

/* The stream of one direction to its end; false if it does not get there. */
static bool flow(struct stream *s, struct pack_budget *budget) {
    struct frontier f = {0};
    while (s->done < s->n) {
        const uint32_t k = s->done;
        if (s->steps >= ASK_AFTER && !pack_budget_take(budget, &s->steps))
            return false;
        end_blocks(s, k);
        if (place(s, k, k > f.at ? 0 : f.shake)) {
            s->done++;
            continue;
        }
        undo_ends(s, k);
        if (k > f.at)
            advance_frontier(s, &f, k);
        if (f.tries == TRIES || f.first == f.at)
            return false;
        go_back(s, &f);
    }
    for (uint32_t k = 0; k < s->n; k++)
        s->offsets[s->nodes[k].source] = s->nodes[k].bottom;
    return true;
}

/* Both directions below the limit, in a few attempts with at most so many steps. */
static bool attempt(struct stream *s, struct pack_budget *budget, uint64_t steps) {
    struct pack_budget share = pack_budget_share(budget, steps);
    bool good = false;
    for (uint32_t i = 0; i < ATTEMPTS && !good && pack_budget_take(&share, &s->steps); i++) {
        order_stack(s);
        begin(s, false);
        good = flow(s, &share);
        if (!good)
            continue;
        begin(s, true);
        good = flow(s, &share);
    }
    pack_budget_return(budget, &share);
    return good;
}

static void take_over(struct stream *s) {
    struct pack_part *p = s->part;
    memcpy(p->offsets, s->offsets, p->n * sizeof *p->offsets);
    pack_part_measure(p);
}

bool pack_stream(struct pack_part *p, struct pack_budget *budget, struct carve work) {
    CHECK(p->n > PACK_STREAM_MORE && p->grain > 0);
    struct stream s = layout(&work, p->n);
    s.part = p;
    CHECK(s.spare != NULL); /* carved, not counted */
    find_peak(&s);
    const double most = ARITH_MIN(SHARE * (double)budget->steps, MOST);
    const uint64_t level = (uint64_t)(LEVEL * most), rest = budget->steps - (uint64_t)most;
    if (4.0 * s.stacked * s.stacked > (double)level) /* even to order them takes too long */
        return false;
    uint64_t low = ARITH_MAX(p->target, s.highest); /* the lowest limit that may be possible and useful */
    uint32_t failed = 0;
    bool found = false;
    while (failed < FAILED && p->peak > low && (double)(p->peak - low) > FINE * (double)low &&
           budget->steps > rest && pack_budget_take(budget, &s.steps)) {
        s.limit = pack_part_align(low + (p->peak - low) / 2, p->grain);
        if (s.limit >= p->peak)
            break;
        if (attempt(&s, budget, level)) {
            take_over(&s);
            found = true;
            failed = 0;
        } else {
            low = s.limit + p->grain;
            failed++;
        }
    }
    return found;
}
