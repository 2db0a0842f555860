/* Weighs the ways to place blocks at a border of pack_sweep.c, in bits. A sum that matches is worth what
 * speaks against chance, less what there is to choose from; a hole that is not filled costs some. */
#include "pack/pack_sweep.h"

#include "base/check.h"
#include "pack/pack_part.h"

#include <math.h>

#define FRESH     6   /* holes of what ends, up to which all subsets are tried */
#define SUBSETS   400 /* of more, that fit exactly */
#define OLDS_MANY 12  /* other holes of which three are tried together; of more only pairs */

/* Bits. */
#define LIKELY 8.0 /* what a sum that fits is worth, at most */
#define PART   2.0 /* a hole is used in part */
#define REST   2.0 /* ... or the place of what ends */
#define MORE   2.0 /* ... some of which is not needed at all */

struct weighing {
    struct pq *q;
    struct sweep_scale *scale;
};

static void keep_placing(struct placings *c, const struct placing *p) {
    if (c->n == SWEEP_TRIED && p->score <= c->at[SWEEP_TRIED - 1].score)
        return;
    uint32_t at = c->n < SWEEP_TRIED ? c->n++ : SWEEP_TRIED - 1;
    for (; at > 0 && c->at[at - 1].score < p->score; at--)
        c->at[at] = c->at[at - 1];
    c->at[at] = *p;
}

/* What is there for blocks to be placed. */
struct offer {
    const struct pq_token *t;
    uint16_t fresh[SWEEP_EVENTS], old[SWEEP_HOLES + SWEEP_EVENTS]; /* holes: of what ends here, and others */
    uint32_t n_fresh, n_old;
    struct placings *ways;
    /* The blocks, out of `of` besides the first, and their bytes. */
    uint32_t blocks, n, of;
    uint64_t bytes;
    bool all; /* they are all that is left */
};

/* Some of the old holes. */
struct olds {
    uint32_t n;
    uint16_t holes[SWEEP_OLDS]; /* the last one may be used in part */
};

static double log_choose(const struct weighing *s, uint32_t n, uint32_t k) {
    return pack_pq_log_factorial(s->q, n) - pack_pq_log_factorial(s->q, k) -
           pack_pq_log_factorial(s->q, n - k);
}

/* Weighs one set of holes: bits of what ends, and old ones. */
static void weigh(struct weighing *s, const struct offer *f, uint32_t fresh, const struct olds *o) {
    uint64_t sum = 0, least = UINT64_MAX, last = 0;
    for (uint32_t k = 0; fresh >> k != 0; k++)
        if (fresh >> k & 1) {
            sum += f->t[f->fresh[k]].slot;
            least = ARITH_MIN(least, f->t[f->fresh[k]].slot);
        }
    for (uint32_t k = 0; k < o->n; k++)
        sum += last = f->t[o->holes[k]].slot;
    s->q->steps += 2;
    double need = (double)f->bytes, rest = (double)sum - need, tolerance = s->scale->tolerance * need;
    bool fits = rest <= tolerance;
    if (rest < -tolerance || (!fits && f->n > 1 && !f->all) || (!fits && o->n > 0 && (double)last <= rest))
        return;
    struct placing p = {.blocks = f->blocks};
    for (uint32_t k = 0; k < f->n_fresh; k++)
        if (fresh >> k & 1)
            p.holes[p.n_holes++] = f->fresh[k];
    for (uint32_t k = 0; k < o->n; k++)
        p.holes[p.n_holes++] = o->holes[k];
    p.score = -log_choose(s, f->n_fresh + f->n_old, p.n_holes) - log_choose(s, f->of, f->n - 1) -
              s->scale->noise * 0x1p-53 * (double)(pack_part_random(&s->scale->random) >> 11);
    if (fits) {
        double off = tolerance > 0 ? rest / tolerance : 0;
        p.score +=
            ARITH_MIN(pack_pq_log2(need / (2 * tolerance + (double)s->scale->unit)), LIKELY) - 2 * off * off;
    } else if (o->n > 0) {
        if (f->t[o->holes[o->n - 1]].loose)
            p.part = last - (uint64_t)rest;
        p.score -= PART;
    } else {
        p.score -= REST + ((double)least <= rest ? MORE : 0);
    }
    s->q->steps += 10;
    keep_placing(f->ways, &p);
}

/* Subsets of what ends that fit exactly, where there are too many to try all. */
struct subsets {
    const struct offer *offer;
    uint32_t left;                     /* at most so many more */
    uint64_t behind[SWEEP_EVENTS + 1]; /* sums */
};

static void weigh_subsets(struct weighing *s, struct subsets *a, uint32_t at, uint32_t chosen, uint64_t sum) {
    const struct offer *f = a->offer;
    double need = (double)f->bytes, tolerance = s->scale->tolerance * need;
    s->q->steps += 2;
    if (a->left == 0 || (double)sum > need + tolerance)
        return;
    if ((double)sum >= need - tolerance) {
        a->left--;
        weigh(s, f, chosen, &(struct olds){.n = 0});
    }
    if ((double)(sum + a->behind[at]) < need - tolerance)
        return;
    for (uint32_t k = at; k < f->n_fresh; k++)
        weigh_subsets(s, a, k + 1, chosen | 1u << k, sum + f->t[f->fresh[k]].slot);
}

/* Subsets of what ends, with these old holes. */
static void weigh_fresh(struct weighing *s, const struct offer *f, const struct olds *o) {
    uint32_t all = (1u << f->n_fresh) - 1;
    if (f->n_fresh <= FRESH && o->n <= 1) {
        for (uint32_t m = o->n == 0; m <= all; m++)
            weigh(s, f, m, o);
        return;
    }
    if (o->n > 0)
        weigh(s, f, 0, o);
    for (uint32_t a = 0; a < f->n_fresh; a++)
        for (uint32_t b = a; b < (o->n <= 1 ? f->n_fresh : a + 1); b++)
            weigh(s, f, 1u << a | 1u << b, o);
    if (f->n_fresh > 1)
        weigh(s, f, all, o);
}

static void weigh_all(struct weighing *s, const struct offer *f) {
    if (f->n_fresh > FRESH) {
        struct subsets all = {.offer = f, .left = SUBSETS};
        for (uint32_t k = f->n_fresh; k-- > 0;)
            all.behind[k] = f->t[f->fresh[k]].slot + all.behind[k + 1];
        weigh_subsets(s, &all, 0, 0, 0);
    }
    weigh_fresh(s, f, &(struct olds){.n = 0});
    for (uint32_t i = 0; i < f->n_old; i++) {
        weigh_fresh(s, f, &(struct olds){1, {f->old[i]}});
        for (uint32_t j = 0; j < f->n_old; j++) {
            if (j != i)
                weigh_fresh(s, f, &(struct olds){2, {f->old[i], f->old[j]}});
            for (uint32_t k = 0; k < i && f->n_old <= OLDS_MANY && j != i; k++)
                if (k != j)
                    weigh_fresh(s, f, &(struct olds){3, {f->old[k], f->old[i], f->old[j]}});
        }
    }
}

static void find_offer(struct offer *f, const struct pq_tree *t) {
    f->t = t->at;
    for (uint32_t i = 0; i < t->n; i++)
        if (t->at[i].kind == PQ_HOLE) {
            if (t->at[i].fresh && f->n_fresh < SWEEP_EVENTS)
                f->fresh[f->n_fresh++] = (uint16_t)i;
            else if (!t->at[i].fresh && f->n_old < SWEEP_HOLES + SWEEP_EVENTS)
                f->old[f->n_old++] = (uint16_t)i;
        }
}

void pack_sweep_list(struct pq *q, struct sweep_scale *scale, const struct pq_tree *t, const uint64_t *sizes,
                     uint32_t blocks, struct placings *c) {
    struct weighing s = {q, scale};
    uint32_t id[SWEEP_EVENTS] = {0}, n = 0;
    uint64_t size[SWEEP_EVENTS] = {0}, all = 0;
    for (uint32_t k = 0; blocks >> k != 0; k++)
        if (blocks >> k & 1) {
            id[n] = k;
            size[n] = sizes[k];
            all += size[n++];
        }
    CHECK(n > 0);
    struct offer f = {.ways = c, .blocks = 1u << id[0], .n = 1, .of = n - 1, .bytes = size[0], .all = n == 1};
    find_offer(&f, t);
    weigh_all(&s, &f);
    for (uint32_t a = 1; a < n && n > 2; a++) {
        f.n = 2;
        f.blocks = 1u << id[0] | 1u << id[a];
        f.bytes = size[0] + size[a];
        weigh_all(&s, &f);
        for (uint32_t b = a + 1; b < n && n > 3 && n <= 8; b++) {
            f.n = 3;
            f.blocks = 1u << id[0] | 1u << id[a] | 1u << id[b];
            f.bytes = size[0] + size[a] + size[b];
            weigh_all(&s, &f);
        }
    }
    if (n > 1) {
        f.n = n;
        f.blocks = blocks;
        f.bytes = all;
        f.all = true;
        weigh_all(&s, &f);
    }
}
