/* IQ3_S, IQ3_XXS, IQ2_S, IQ2_XS, IQ2_XXS, IQ1_S, IQ1_M: x = d * (2 l + 1) * v, where l is a small integer of
 * each sub-block and the v of 8 (IQ3: 4) values side by side are one point of the type's grid. Signs lie
 * apart, of some types only an even number of them; IQ1 has none, but a shift of all of a group's v.
 *
 * The search, per sub-block first: the points for several scales, and for each set of points the scale of
 * least error. Then d: that at which the sub-blocks' scales lose least by becoming odd multiples of it. With
 * it each sub-block takes the integer nearest to its own scale and the points for that, d follows by least
 * squares, and once more, now with the better of two integers.
 *
 * The point of least error is found exactly. A point is four letters, the fourth and third its upper half
 * (the order of a grid's points, so that each upper half is a range of them): a letter's error and the least
 * of what the others can add exclude most of them. */
#include "formats/block_grids.h"
#include "formats/encode_parts.h"

#include "base/check.h"

#include <math.h>
#include <pthread.h>

#define MAX_SUBS   16
#define MAX_N      32
#define MAX_GROUPS 8 /* of a sub-block: 32 values of IQ3 */
#define LETTERS    4
#define MAX_CODES  16

#define ALWAYS_INLINE inline __attribute__((always_inline))

typedef float four __attribute__((vector_size(16)));

struct grid {
    const uint16_t *points;
    uint32_t n;
    uint32_t bits;        /* of a letter: two values of 2 bits each, or one of 3 */
    uint16_t starts[257]; /* of the points with that upper half */
};

enum { GRID_IQ2_XXS, GRID_IQ2_XS, GRID_IQ2_S, GRID_IQ3_XXS, GRID_IQ3_S, GRID_IQ1, GRIDS };

static struct grid grids[GRIDS] = {{block_grid_iq2_xxs, 256, 4, {0}}, {block_grid_iq2_xs, 512, 4, {0}},
                                   {block_grid_iq2_s, 1024, 4, {0}},  {block_grid_iq3_xxs, 256, 3, {0}},
                                   {block_grid_iq3_s, 512, 3, {0}},   {block_grid_iq1, 2048, 4, {0}}};
static pthread_once_t grids_once = PTHREAD_ONCE_INIT;

static void make_starts(void) {
    for (uint32_t k = 0; k < GRIDS; k++) {
        struct grid *g = &grids[k];
        uint32_t at = 0;
        for (uint32_t upper = 0; upper <= 256; upper++) {
            while (at < g->n && (uint32_t)g->points[at] >> 2 * g->bits < upper)
                at++;
            CHECK(at == 0 || at == g->n || g->points[at - 1] < g->points[at]);
            g->starts[upper] = (uint16_t)at;
        }
    }
}

struct shape {
    uint32_t type;
    const struct grid *grid;
    uint32_t subs, n, group; /* sub-blocks, values in one, values of a point */
    bool even;               /* the number of negative signs */
    bool shifts;             /* IQ1: all of a group's or sub-block's levels have one of two shifts */
    bool shift_each;         /* .. of a group's */
    float l_most;
    float top;  /* the largest level */
    int starts; /* scales that are tried first: their ratio to that of the farthest x */
    float ratio, ratio_step;
    float levels[2][8]; /* by code; with either shift */
};

struct sub {
    float s;  /* free */
    float vv; /* sum of w v v, for that */
    float l;
    float error;
    uint8_t shift[MAX_GROUPS];
    uint16_t at[MAX_GROUPS];
};

struct trial {
    float d; /* as stored */
    float error;
    struct sub subs[MAX_SUBS];
};

/* A block. x has no signs where the type stores them, and no weight is above 1. */
struct input {
    float x[BLOCK_MAX_VALUES], w[BLOCK_MAX_VALUES], wx[BLOCK_MAX_VALUES];
    float wxx[MAX_SUBS]; /* sums of w x x */
    uint8_t signs[32];   /* of each 8 values */
};

/* Errors of one group, without what does not depend on the point, and divided by s * s. */
struct costs {
    float letters[LETTERS][MAX_CODES];
    float least[LETTERS];
    float lower[256]; /* of the two lower letters */
};

static inline four spread(float v) {
    return (four){v, v, v, v};
}

static inline four at4(const float *at) {
    four v;
    memcpy(&v, at, sizeof v);
    return v;
}

static inline void put4(float *at, four v) {
    memcpy(at, &v, sizeof v);
}

static inline float least3(const float *v) {
    const float a = v[0] < v[1] ? v[0] : v[1];
    return a < v[2] ? a : v[2];
}

static ALWAYS_INLINE void costs_of(const struct shape *f, uint32_t bits, uint32_t shift, const float *w,
                                   const float *wx, float twice, struct costs *c) {
    const float *levels = f->levels[shift];
    const four v0 = at4(levels), v1 = at4(levels + 4), vv0 = v0 * v0, vv1 = v1 * v1;
    if (bits == 4) {
        const four none = {0, 0, 0, INFINITY}; /* no such code */
        for (uint32_t k = 0; k < LETTERS; k++) {
            const four a = spread(w[2 * k]) * vv0 - spread(twice * wx[2 * k]) * v0 + none;
            const four b = spread(w[2 * k + 1]) * vv0 - spread(twice * wx[2 * k + 1]) * v0 + none;
            float one[4], two[4];
            put4(one, a);
            put4(two, b);
            c->least[k] = least3(one) + least3(two);
            for (uint32_t i = 0; i < 3; i++)
                put4(c->letters[k] + 4 * i, a + spread(two[i]));
        }
        const four x = at4(c->letters[0]), y = at4(c->letters[0] + 4), z = at4(c->letters[0] + 8);
        for (uint32_t i = 0; i < 11; i++) {
            if (i % 4 == 3)
                continue;
            const four more = spread(c->letters[1][i]);
            put4(c->lower + 16 * i, x + more);
            put4(c->lower + 16 * i + 4, y + more);
            put4(c->lower + 16 * i + 8, z + more);
        }
        return;
    }
    for (uint32_t k = 0; k < LETTERS; k++) {
        const four weight = spread(w[k]), linear = spread(twice * wx[k]);
        const four a = weight * vv0 - linear * v0, b = weight * vv1 - linear * v1;
        put4(c->letters[k], a);
        put4(c->letters[k] + 4, b);
        float least = c->letters[k][0];
        for (uint32_t i = 1; i < 8; i++)
            least = c->letters[k][i] < least ? c->letters[k][i] : least;
        c->least[k] = least;
    }
    const four x = at4(c->letters[0]), y = at4(c->letters[0] + 4);
    for (uint32_t i = 0; i < 8; i++) {
        const four more = spread(c->letters[1][i]);
        put4(c->lower + 8 * i, x + more);
        put4(c->lower + 8 * i + 4, y + more);
    }
}

/* The point of least error, if that is below *least. *at is one to begin with, and in the end that point. */
static ALWAYS_INLINE void nearest_point(const struct grid *g, uint32_t bits, const struct costs *c,
                                        uint16_t *at, float *least) {
    const uint32_t mask = (1u << bits) - 1, n = bits == 4 ? 11 : 8, first = g->points[*at];
    const float two = c->least[0] + c->least[1], three = two + c->least[2];
    const float begin = (c->letters[3][first >> 3 * bits] + c->letters[2][first >> 2 * bits & mask]) +
                        c->lower[first & ((1u << 2 * bits) - 1)];
    uint32_t found = *at;
    float best = begin < *least ? begin : *least;
    for (uint32_t i = 0; i < n; i++) {
        if ((bits == 4 && i % 4 == 3) || !(c->letters[3][i] + three < best))
            continue;
        for (uint32_t k = 0; k < n; k++) {
            const float upper = c->letters[3][i] + c->letters[2][k];
            if ((bits == 4 && k % 4 == 3) || !(upper + two < best))
                continue;
            const uint32_t end = g->starts[(i << bits | k) + 1];
            for (uint32_t p = g->starts[i << bits | k]; p < end; p++) {
                const float error = upper + c->lower[g->points[p] & ((1u << 2 * bits) - 1)];
                if (error < best) {
                    best = error;
                    found = p;
                }
            }
        }
    }
    *at = (uint16_t)found;
    *least = best;
}

struct sums {
    float xv, vv;
};

static ALWAYS_INLINE void add_point(const struct shape *f, uint32_t group, uint32_t point, uint32_t shift,
                                    const float *w, const float *wx, struct sums *t) {
    const uint32_t bits = group == 8 ? 2 : 3;
    for (uint32_t i = 0; i < group; i++) {
        const float v = f->levels[shift][point >> bits * i & ((1u << bits) - 1)];
        t->xv += wx[i] * v;
        t->vv += w[i] * (v * v);
    }
}

/* The points for the scale s; their sums. The search begins at the points that were there before. */
static ALWAYS_INLINE struct sums assign_by(const struct shape *f, uint32_t group, uint32_t shifts,
                                           const float *w, const float *wx, float s, struct sub *b) {
    const uint32_t bits = group == 8 ? 4 : 3, groups = f->n / group;
    float all[2] = {0, 0};
    uint16_t at[2][MAX_GROUPS];
    struct costs c;
    struct sums t = {0, 0};
    for (uint32_t k = 0; k < groups; k++) {
        float least[2] = {INFINITY, INFINITY};
        for (uint32_t shift = 0; shift < shifts; shift++) {
            at[shift][k] = b->at[k];
            costs_of(f, bits, shift, w + group * k, wx + group * k, 2 / s, &c);
            if (f->shift_each && shift == 1)
                least[1] = least[0];
            nearest_point(f->grid, bits, &c, &at[shift][k], &least[shift]);
            all[shift] += least[shift];
        }
        b->shift[k] = shifts == 2 && least[1] < least[0];
    }
    for (uint32_t k = 0; k < groups; k++) {
        if (!f->shift_each)
            b->shift[k] = shifts == 2 && all[1] < all[0];
        b->at[k] = at[b->shift[k]][k];
        add_point(f, group, f->grid->points[b->at[k]], b->shift[k], w + group * k, wx + group * k, &t);
    }
    return t;
}

static struct sums assign(const struct shape *f, const float *w, const float *wx, float s, struct sub *b) {
    if (f->shifts)
        return assign_by(f, 8, 2, w, wx, s, b);
    return f->group == 8 ? assign_by(f, 8, 1, w, wx, s, b) : assign_by(f, 4, 1, w, wx, s, b);
}

/* The scale and points of one sub-block without regard to the others: those of the largest (sum w x v)^2 /
 * (sum w v^2), which is what the error lacks of sum w x^2. */
static void search_sub(const struct shape *f, uint32_t j, const struct input *in, struct sub *out) {
    const float *x = in->x + f->n * j, *w = in->w + f->n * j, *wx = in->wx + f->n * j;
    struct sub b = {.s = 0};
    float far = 0, gain = 0, all_w = 0, all_wx = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        far = fabsf(x[i]) > far && w[i] > 0 ? fabsf(x[i]) : far;
        all_w += w[i];
        all_wx += wx[i];
    }
    *out = b;
    for (int k = 0; k < f->starts && far > 0; k++) {
        const struct sums t = assign(f, w, wx, far / f->top * (f->ratio - f->ratio_step * (float)k), &b);
        const float s = t.xv / t.vv;
        if (t.vv > 0 && t.xv * s > gain && s > 0) {
            gain = t.xv * s;
            *out = b;
            out->s = s;
            out->vv = t.vv;
        }
    }
    /* The first point of the grids with signs is the least level everywhere: good where all x are alike. */
    if (!f->shifts && all_wx > 0 && all_wx / all_w * all_wx > gain) {
        const float level = f->levels[0][0];
        *out = (struct sub){.s = all_wx / all_w / level, .vv = all_w * level * level};
    }
}

/* The integer of one sub-block for a given d: the nearest, or the better of the two that are near. */
static void choose(const struct shape *f, uint32_t j, const struct input *in, float d, bool both,
                   struct sub *b, struct sums *sums) {
    const float *w = in->w + f->n * j, *wx = in->wx + f->n * j;
    const float want = encode_clamp((b->s / d - 1) / 2, 0, f->l_most);
    const float first = both ? floorf(want) : encode_nearest(want), last = both ? ceilf(want) : first;
    struct sub t = *b;
    b->error = INFINITY;
    for (float l = first; l <= last; l++) {
        const float s = d * (2 * l + 1);
        const struct sums got = assign(f, w, wx, s, &t);
        const float error = in->wxx[j] + s * (s * got.vv - 2 * got.xv);
        if (error < b->error) {
            t.error = error;
            t.l = l;
            *b = t;
            *sums = got;
        }
    }
}

/* From d: integers and points, then d once more. The best of it goes to *best. */
static void settle(const struct shape *f, const struct input *in, const struct sub *free_subs, float d,
                   struct trial *best) {
    struct trial t;
    memcpy(t.subs, free_subs, sizeof t.subs);
    for (int round = 0; round < 2; round++) {
        double xv = 0, vv = 0;
        t.d = encode_as_f16(d);
        t.error = 0;
        if (!(t.d > 0))
            return;
        for (uint32_t j = 0; j < f->subs; j++) {
            struct sums sums = {0, 0};
            choose(f, j, in, t.d, round > 0, &t.subs[j], &sums);
            t.error += t.subs[j].error;
            const double l = 2 * (double)t.subs[j].l + 1;
            xv += l * (double)sums.xv;
            vv += l * l * (double)sums.vv;
        }
        if (!(t.error < best->error))
            return;
        *best = t;
        if (!(vv > 0) || !(xv > 0))
            return;
        d = (float)(xv / vv);
    }
}

/* The d whose multiples are nearest to the free scales, of some that come close to their largest. */
static float choose_d(const struct shape *f, const struct sub *subs, float far) {
    float best = 0, least = INFINITY;
    for (int k = 0; k < 16; k++) {
        const float d = far / (2 * f->l_most + 1.5f - 0.5f * (float)k), inverse = 1 / d;
        float loss = 0;
        for (uint32_t j = 0; j < f->subs; j++) {
            const float l = encode_nearest(encode_clamp((subs[j].s * inverse - 1) / 2, 0, f->l_most));
            const float off = subs[j].s - d * (2 * l + 1);
            loss += subs[j].vv * off * off;
        }
        if (loss < least) {
            least = loss;
            best = d;
        }
    }
    return best;
}

static void search(const struct shape *f, const struct input *in, struct trial *best) {
    struct sub subs[MAX_SUBS];
    float far = 0;
    memset(subs, 0, sizeof subs);
    for (uint32_t j = 0; j < f->subs; j++) {
        search_sub(f, j, in, &subs[j]);
        far = subs[j].s > far ? subs[j].s : far;
    }
    settle(f, in, subs, choose_d(f, subs, far), best);
}

/* By type, tuned on random weights: more starts gain less than 1%. */
static struct shape shape_of(uint32_t type) {
    struct shape f = {.type = type,
                      .subs = 8,
                      .n = 32,
                      .group = 8,
                      .l_most = 15,
                      .starts = 4,
                      .ratio = 1.05f,
                      .ratio_step = 0.14f};
    switch (type) {
    case BLOCK_IQ3_S:
        f.grid = &grids[GRID_IQ3_S];
        f.group = 4;
        break;
    case BLOCK_IQ3_XXS:
        f.grid = &grids[GRID_IQ3_XXS];
        f.group = 4;
        f.even = true;
        break;
    case BLOCK_IQ2_S:
        f.grid = &grids[GRID_IQ2_S];
        f.subs = f.n = 16;
        break;
    case BLOCK_IQ2_XS:
        f.grid = &grids[GRID_IQ2_XS];
        f.subs = f.n = 16;
        f.even = true;
        break;
    case BLOCK_IQ2_XXS:
        f.grid = &grids[GRID_IQ2_XXS];
        f.even = true;
        break;
    case BLOCK_IQ1_M:
        f.subs = f.n = 16;
        f.shift_each = true;
        /* fall through */
    default:
        CHECK(type == BLOCK_IQ1_S || type == BLOCK_IQ1_M);
        f.grid = &grids[GRID_IQ1];
        f.shifts = true;
        f.l_most = 7;
        f.starts = 2;
        f.ratio = 0.95f;
        f.ratio_step = 0.28f;
    }
    const int8_t *values = block_table(type);
    for (uint32_t i = 0; i < 8; i++) {
        f.levels[0][i] = (float)values[i] * block_factor(type);
        f.levels[1][i] = f.shifts && i < 4 ? (float)values[4 + i] * block_factor(type) : 0;
    }
    f.top = f.levels[0][f.group == 8 ? 2 : 7];
    return f;
}

/* Signs go, where the type stores them. Where their number must be even, that of the value whose loss counts
 * least is wrong. */
static void take_signs(const struct shape *f, struct input *in) {
    for (uint32_t g = 0; g < 32 && !f->shifts; g++) {
        float *x = in->x + 8 * g;
        const float *w = in->w + 8 * g;
        uint32_t least = 0;
        for (uint32_t i = 0; i < 8; i++) {
            in->signs[g] |= (uint8_t)((x[i] < 0) << i);
            x[i] = fabsf(x[i]);
            least = w[i] * x[i] < w[least] * x[least] ? i : least;
        }
        if (f->even && __builtin_parity(in->signs[g])) {
            in->signs[g] ^= (uint8_t)(1u << least);
            x[least] = -x[least];
        }
    }
}

static void take(const struct shape *f, const float *x, const float *w, struct input *in) {
    const float most = 1e9f; /* no scale reaches that far, and its squares are floats */
    float most_w = 0;
    for (uint32_t i = 0; i < BLOCK_MAX_VALUES; i++) {
        in->x[i] = encode_clamp(x[i], -most, most);
        most_w = w[i] > most_w ? w[i] : most_w;
    }
    for (uint32_t i = 0; i < BLOCK_MAX_VALUES; i++)
        in->w[i] = w[i] / most_w; /* weights_of has seen to it that they are not all 0 */
    take_signs(f, in);
    for (uint32_t j = 0; j < f->subs; j++)
        for (uint32_t i = f->n * j; i < f->n * (j + 1); i++) {
            in->wx[i] = in->w[i] * in->x[i];
            in->wxx[j] += in->wx[i] * in->x[i];
        }
}

static void put16(uint8_t *at, uint32_t v) {
    at[0] = (uint8_t)v;
    at[1] = (uint8_t)(v >> 8);
}

static void put_iq3(const struct shape *f, const struct trial *t, const struct input *in, uint8_t *block) {
    encode_put_f16(block, t->d);
    for (uint32_t g = 0; g < 8; g++) {
        const struct sub *b = &t->subs[g];
        const uint32_t l = (uint32_t)b->l;
        uint32_t more = l << 28, high = 0;
        for (uint32_t i = 0; i < 8; i++) {
            block[2 + 8 * g + i] = (uint8_t)b->at[i];
            high |= (uint32_t)(b->at[i] >> 8) << i;
        }
        if (f->type == BLOCK_IQ3_S) {
            block[66 + g] = (uint8_t)high;
            memcpy(block + 74 + 4 * g, in->signs + 4 * g, 4);
            block[106 + g / 2] |= (uint8_t)(l << 4 * (g % 2));
            continue;
        }
        for (uint32_t i = 0; i < 4; i++)
            more |= (in->signs[4 * g + i] & 127u) << 7 * i;
        put16(block + 66 + 4 * g, more);
        put16(block + 68 + 4 * g, more >> 16);
    }
}

static void put_iq2_xxs(const struct trial *t, const struct input *in, uint8_t *block) {
    encode_put_f16(block, t->d);
    for (uint32_t g = 0; g < 8; g++) {
        const struct sub *b = &t->subs[g];
        uint32_t more = (uint32_t)b->l << 28;
        for (uint32_t i = 0; i < 4; i++) {
            block[2 + 8 * g + i] = (uint8_t)b->at[i];
            more |= (in->signs[4 * g + i] & 127u) << 7 * i;
        }
        put16(block + 6 + 8 * g, more);
        put16(block + 8 + 8 * g, more >> 16);
    }
}

static void put_iq2(const struct shape *f, const struct trial *t, const struct input *in, uint8_t *block) {
    encode_put_f16(block, t->d);
    for (uint32_t i = 0; i < 32; i++) {
        const uint32_t at = t->subs[i / 2].at[i % 2], l = (uint32_t)t->subs[i / 2].l, shift = 4 * (i / 2 % 2);
        if (f->type == BLOCK_IQ2_XS) {
            put16(block + 2 + 2 * i, at | (in->signs[i] & 127u) << 9);
            block[66 + i / 4] |= (uint8_t)(i % 2 == 0 ? l << shift : 0);
            continue;
        }
        block[2 + i] = (uint8_t)at;
        block[34 + i] = in->signs[i];
        block[66 + i / 4] |= (uint8_t)(at >> 8 << 2 * (i % 4));
        block[74 + i / 4] |= (uint8_t)(i % 2 == 0 ? l << shift : 0);
    }
}

static void put_iq1_s(const struct trial *t, uint8_t *block) {
    encode_put_f16(block, t->d);
    for (uint32_t g = 0; g < 8; g++) {
        const struct sub *b = &t->subs[g];
        uint32_t more = (uint32_t)b->l << 12 | (uint32_t)b->shift[0] << 15;
        for (uint32_t i = 0; i < 4; i++) {
            block[2 + 4 * g + i] = (uint8_t)b->at[i];
            more |= (uint32_t)(b->at[i] >> 8) << 3 * i;
        }
        put16(block + 34 + 2 * g, more);
    }
}

static void put_iq1_m(const struct trial *t, uint8_t *block) {
    const uint32_t d = encode_scale(t->d);
    for (uint32_t i = 0; i < 32; i++) {
        const struct sub *b = &t->subs[i / 2];
        block[i] = (uint8_t)b->at[i % 2];
        block[32 + i / 2] |= (uint8_t)((uint32_t)(b->at[i % 2] >> 8 | b->shift[i % 2] << 3) << 4 * (i % 2));
    }
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t word = (d >> 4 * i & 15) << 12;
        for (uint32_t j = 0; j < 4; j++)
            word |= (uint32_t)t->subs[4 * i + j].l << 3 * j;
        put16(block + 48 + 2 * i, word);
    }
}

void encode_grid(uint32_t type, const float *x, const float *w, uint8_t *block) {
    pthread_once(&grids_once, make_starts);
    const struct shape f = shape_of(type);
    struct input in = {.signs = {0}};
    struct trial best = {.error = INFINITY};
    take(&f, x, w, &in);
    search(&f, &in, &best);
    memset(block, 0, block_info(type)->bytes);
    switch (type) {
    case BLOCK_IQ3_S:
    case BLOCK_IQ3_XXS:
        put_iq3(&f, &best, &in, block);
        break;
    case BLOCK_IQ2_XXS:
        put_iq2_xxs(&best, &in, block);
        break;
    case BLOCK_IQ1_S:
        put_iq1_s(&best, block);
        break;
    case BLOCK_IQ1_M:
        put_iq1_m(&best, block);
        break;
    default:
        put_iq2(&f, &best, &in, block);
    }
}
