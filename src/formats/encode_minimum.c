/* Q2_K, Q4_K, Q5_K: sub-blocks with a scale and a minimum, x = s q - m, where s = d * a 4- or 6-bit integer
 * and m = dmin * another.
 *
 * The search, per sub-block first: from several ranges that q covers, alternately the q of given (s, m) and
 * the (s, m) of least error for given q (linear least squares). Then all together: d and dmin from the
 * largest s and m, each sub-block tries the integers around its own s and m, and for the integers and q that
 * are there d and dmin follow again by least squares. What had the least error in the end, counted with d and
 * dmin as they are stored, stays. */
#include "formats/encode_parts.h"

#include "base/check.h"

#include <math.h>

#define MAX_SUBS 16
#define MAX_N    32

struct shape {
    uint32_t subs, n; /* sub-blocks, values in one */
    float most;       /* the largest q */
    float scale_most; /* the largest integer of scales and minima */
    bool any;         /* minima may be below 0 */
};

struct sub {
    float s, m;   /* free */
    float ls, lm; /* integers */
    float error;
    float q[MAX_N];
};

struct trial {
    float d, dmin; /* as stored */
    float error;
    struct sub subs[MAX_SUBS];
};

/* q for (s, m), and their error. */
static float quantise(const float *x, const float *w, uint32_t n, float most, float s, float m, float *q) {
    const float inverse = s > 0 ? 1 / s : 0;
    float error[4] = {0};
    for (uint32_t i = 0; i < n; i += 4)
        for (uint32_t k = i; k < i + 4; k++) {
            q[k] = encode_nearest(encode_clamp((x[k] + m) * inverse, 0, most));
            const float off = x[k] - (s * q[k] - m);
            error[k - i] += w[k] * off * off;
        }
    return encode_total(error);
}

/* The (s, m) of least error for given q; s > 0 and, unless any m will do, m >= 0. False: there is none. */
static bool fit(const float *x, const float *w, uint32_t n, const float *q, bool any, float *s, float *m) {
    float lw[4] = {0}, lq[4] = {0}, lqq[4] = {0}, lx[4] = {0}, lqx[4] = {0};
    for (uint32_t i = 0; i < n; i += 4)
        for (uint32_t k = i; k < i + 4; k++) {
            const float wq = w[k] * q[k];
            lw[k - i] += w[k];
            lq[k - i] += wq;
            lqq[k - i] += wq * q[k];
            lx[k - i] += w[k] * x[k];
            lqx[k - i] += wq * x[k];
        }
    const float sw = encode_total(lw), sq = encode_total(lq), sqq = encode_total(lqq);
    const float sx = encode_total(lx), sqx = encode_total(lqx);
    const float det = sw * sqq - sq * sq;
    if (!(det > 0) || !(sqq > 0))
        return false;
    *s = (sw * sqx - sq * sx) / det;
    *m = (sq * sqx - sqq * sx) / det;
    if (*m < 0 && !any) {
        *m = 0;
        *s = sqx / sqq;
    }
    return *s > 0 && isfinite(*s) && isfinite(*m);
}

/* (s, m) of one sub-block without regard to the others. */
static void search_sub(const struct shape *f, const float *x, const float *w, struct sub *out) {
    float lo = f->any ? x[0] : 0, hi = x[0];
    for (uint32_t i = 0; i < f->n; i++) {
        lo = x[i] < lo ? x[i] : lo;
        hi = x[i] > hi ? x[i] : hi;
    }
    *out = (struct sub){.m = -lo, .error = INFINITY};
    if (!(hi > lo)) { /* all the same, and not above 0: the minimum alone */
        out->error = quantise(x, w, f->n, f->most, 0, out->m, out->q);
        return;
    }
    const int steps = f->any ? 72 : f->most > 4 ? 7 : 9;
    for (int k = 0; k < steps; k++) {
        float q[MAX_N];
        /* From a little more than the range to clearly less of it. */
        const float each = f->any ? 0.08f : f->most > 4 ? 0.3f : 0.15f;
        const float s0 = (hi - lo) / (f->most - (f->any ? 0.9f : 0.4f) + each * (float)k);
        float s = s0, m = -lo;
        for (int round = 0; round < 3; round++) {
            const float error = quantise(x, w, f->n, f->most, s, m, q);
            if (error < out->error) {
                out->error = error;
                out->s = s;
                out->m = m;
            }
            if (!fit(x, w, f->n, q, f->any, &s, &m))
                break;
        }
    }
}

/* The integers of one sub-block for given d and dmin: around what is wanted. */
static void choose(const struct shape *f, const float *x, const float *w, float d, float dmin,
                   struct sub *b) {
    const float ls0 = d > 0 ? encode_nearest(b->s / d) : 0;
    b->error = INFINITY;
    for (int k = -1; k <= 1; k++) {
        const float ls = ls0 + (float)k;
        if (ls < 0 || ls > f->scale_most)
            continue;
        float q[MAX_N];
        const float s = d * ls;
        /* The minimum that suits this scale: with the q of the free one. */
        (void)quantise(x, w, f->n, f->most, s, b->m, q);
        float lw[4] = {0}, off[4] = {0};
        for (uint32_t i = 0; i < f->n; i += 4)
            for (uint32_t at = i; at < i + 4; at++) {
                lw[at - i] += w[at];
                off[at - i] += w[at] * (s * q[at] - x[at]);
            }
        const float mean = encode_total(off) / encode_total(lw);
        const float want = dmin > 0 && isfinite(mean) ? encode_clamp(mean / dmin, 0, f->scale_most) : 0;
        for (float lm = floorf(want); lm <= ceilf(want); lm++) {
            const float error = quantise(x, w, f->n, f->most, s, dmin * lm, q);
            if (error < b->error) {
                b->error = error;
                b->ls = ls;
                b->lm = lm;
                memcpy(b->q, q, sizeof q);
            }
        }
    }
}

/* d and dmin of least error for the integers of a trial. False: there are none. */
static bool refit(const struct shape *f, const float *x, const float *w, const struct trial *t, float *d,
                  float *dmin) {
    double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0; /* x = d a - dmin b */
    for (uint32_t j = 0; j < f->subs; j++) {
        const struct sub *b = &t->subs[j];
        for (uint32_t i = 0; i < f->n; i++) {
            const float weight = w[f->n * j + i];
            const float a = b->ls * b->q[i];
            const float value = x[f->n * j + i];
            aa += (double)(weight * a * a);
            ab += (double)(weight * a * b->lm);
            bb += (double)(weight * b->lm * b->lm);
            ax += (double)(weight * a * value);
            bx += (double)(weight * b->lm * value);
        }
    }
    const double det = aa * bb - ab * ab;
    if (aa > 0 && det > 1e-9 * aa * bb) {
        *d = (float)((ax * bb - bx * ab) / det);
        *dmin = (float)((ax * ab - bx * aa) / det);
    } else if (aa > 0) {
        *d = (float)(ax / aa);
        *dmin = 0;
    } else {
        return false;
    }
    return *d > 0 && *dmin >= 0;
}

/* From d and dmin: integers, then d and dmin again, a few times. The best of it goes to *best. */
static void settle(const struct shape *f, const float *x, const float *w, const struct sub *free_subs,
                   float d, float dmin, struct trial *best) {
    struct trial t;
    memcpy(t.subs, free_subs, sizeof t.subs);
    for (int round = 0; round < 3; round++) {
        t.d = encode_as_f16(d);
        t.dmin = encode_as_f16(dmin);
        t.error = 0;
        for (uint32_t j = 0; j < f->subs; j++) {
            choose(f, x + f->n * j, w + f->n * j, t.d, t.dmin, &t.subs[j]);
            t.error += t.subs[j].error;
        }
        if (!(t.error < best->error))
            return;
        *best = t;
        if (!refit(f, x, w, &t, &d, &dmin))
            return;
    }
}

static void put_scales_6(const struct trial *t, uint8_t *to) {
    for (uint32_t j = 0; j < 4; j++) {
        const uint8_t s = (uint8_t)t->subs[4 + j].ls, m = (uint8_t)t->subs[4 + j].lm;
        to[j] = (uint8_t)((uint8_t)t->subs[j].ls | (s >> 4) << 6);
        to[4 + j] = (uint8_t)((uint8_t)t->subs[j].lm | (m >> 4) << 6);
        to[8 + j] = (uint8_t)((s & 15) | (m & 15) << 4);
    }
}

static void put(uint32_t type, const struct shape *f, const struct trial *t, uint8_t *block) {
    uint8_t q[BLOCK_MAX_VALUES];
    for (uint32_t j = 0; j < f->subs; j++)
        for (uint32_t i = 0; i < f->n; i++)
            q[f->n * j + i] = (uint8_t)t->subs[j].q[i];
    if (type == BLOCK_Q2_K) {
        for (uint32_t j = 0; j < 16; j++)
            block[j] = (uint8_t)((uint8_t)t->subs[j].ls | (uint8_t)t->subs[j].lm << 4);
        encode_put_pairs(q, block + 16);
        encode_put_f16(block + 80, t->d);
        encode_put_f16(block + 82, t->dmin);
        return;
    }
    encode_put_f16(block, t->d);
    encode_put_f16(block + 2, t->dmin);
    put_scales_6(t, block + 4);
    if (type == BLOCK_Q5_K)
        encode_put_high(q, 4, block + 16);
    for (uint32_t g = 0; g < 4; g++)
        encode_put_nibbles(q + 64 * g, 32, block + (type == BLOCK_Q5_K ? 48 : 16) + 32 * g);
}

void encode_minimum(uint32_t type, const float *x, const float *w, uint8_t *block) {
    const struct shape f = {.subs = type == BLOCK_Q2_K ? 16 : 8,
                            .n = type == BLOCK_Q2_K ? 16 : 32,
                            .most = type == BLOCK_Q2_K   ? 3
                                    : type == BLOCK_Q4_K ? 15
                                                         : 31,
                            .scale_most = type == BLOCK_Q2_K ? 15 : 63};
    struct sub subs[MAX_SUBS];
    float s = 0, m = 0;
    for (uint32_t j = 0; j < f.subs; j++) {
        search_sub(&f, x + f.n * j, w + f.n * j, &subs[j]);
        s = subs[j].s > s ? subs[j].s : s;
        m = subs[j].m > m ? subs[j].m : m;
    }
    for (uint32_t j = f.subs; j < MAX_SUBS; j++)
        subs[j] = (struct sub){.s = 0};
    struct trial best = {.error = INFINITY};
    /* Coarse integers want more than one try: where the largest is not the largest integer. */
    const float wider[] = {1, 0.92f, 1.08f};
    for (uint32_t a = 0; a < (type == BLOCK_Q2_K ? 3 : 1); a++)
        for (uint32_t b = 0; b < (type == BLOCK_Q2_K ? 3 : 1); b++)
            settle(&f, x, w, subs, wider[a] * s / f.scale_most, wider[b] * m / f.scale_most, &best);
    if (!(best.error < INFINITY)) { /* beyond the range of floats: what is largest decides */
        best = (struct trial){.d = encode_as_f16(s / f.scale_most), .dmin = encode_as_f16(m / f.scale_most)};
        for (uint32_t j = 0; j < f.subs; j++)
            best.subs[j].ls = f.scale_most;
    }
    put(type, &f, &best, block);
}

void encode_offset(uint32_t type, const float *x, const float *w, uint8_t *block) {
    const struct shape f = {.subs = 1, .n = 32, .most = type == BLOCK_Q4_1 ? 15 : 31, .any = true};
    struct sub b;
    float q[MAX_N], best = INFINITY;
    uint8_t codes[MAX_N];
    search_sub(&f, x, w, &b);
    for (int round = 0; round < 3; round++) { /* with s and m as they are stored */
        const float s = encode_as_f16(b.s), m = encode_as_f16(b.m);
        const float error = quantise(x, w, f.n, f.most, s, m, q);
        if (round > 0 && !(error < best))
            break;
        best = error;
        encode_put_f16(block, s);
        encode_put_f16(block + 2, -m);
        for (uint32_t i = 0; i < f.n; i++)
            codes[i] = (uint8_t)q[i];
        if (!fit(x, w, f.n, q, true, &b.s, &b.m))
            break;
    }
    if (type == BLOCK_Q5_1)
        encode_put_five(codes, block + 4, block + 8);
    else
        encode_put_nibbles(codes, 16, block + 4);
}
