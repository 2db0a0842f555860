/* The searches of encode_minimum.c, for one tier (encode_lanes.h). */
#include "formats/encode_lanes_tmpl.h"

/* q for (s, m), and their error. */
ENCODE_INLINE float TIER(quantise)(const float *x, const float *w, uint32_t n, float most, float s, float m,
                                   float *q) {
    const float inverse = s > 0 ? 1 / s : 0;
    encode_lanes error = {0};
    for (uint32_t i = 0; i < n; i += 8) {
        const encode_lanes value = TIER(at)(x + i);
        const encode_lanes scaled = (value + m) * inverse;
        const encode_lanes code = TIER(put_nearest)(q + i, &scaled, 0, most);
        const encode_lanes off = value - (code * s - m);
        error += TIER(at)(w + i) * off * off;
    }
    return TIER(sum)(&error);
}

/* What does not depend on q: sums of w and w x. */
struct TIER(fixed) {
    float w, x;
};

ENCODE_INLINE struct TIER(fixed) TIER(fixed_sums)(const float *x, const float *w, uint32_t n) {
    encode_lanes lw = {0}, lx = {0};
    for (uint32_t i = 0; i < n; i += 8) {
        const encode_lanes weight = TIER(at)(w + i);
        lw += weight;
        lx += weight * TIER(at)(x + i);
    }
    return (struct TIER(fixed)){TIER(sum)(&lw), TIER(sum)(&lx)};
}

/* And what does: sums of w q, w q q, w q x. */
struct TIER(sums) {
    float q, qq, qx;
};

ENCODE_INLINE struct TIER(sums) TIER(sums_of)(const float *x, const float *w, uint32_t n, const float *q) {
    encode_lanes lq = {0}, lqq = {0}, lqx = {0};
    for (uint32_t i = 0; i < n; i += 8) {
        const encode_lanes code = TIER(at)(q + i);
        const encode_lanes wq = TIER(at)(w + i) * code;
        lq += wq;
        lqq += wq * code;
        lqx += wq * TIER(at)(x + i);
    }
    return (struct TIER(sums)){TIER(sum)(&lq), TIER(sum)(&lqq), TIER(sum)(&lqx)};
}

/* The (s, m) of least error for given q; s > 0 and, unless any m will do, m >= 0. False: there is none. */
ENCODE_INLINE bool TIER(fit)(const float *x, const float *w, uint32_t n, const struct TIER(fixed) * k,
                             const float *q, bool any, float *s, float *m) {
    const struct TIER(sums) t = TIER(sums_of)(x, w, n, q);
    const float det = k->w * t.qq - t.q * t.q;
    if (!(det > 0) || !(t.qq > 0))
        return false;
    *s = (k->w * t.qx - t.q * k->x) / det;
    *m = (t.q * t.qx - t.qq * k->x) / det;
    if (*m < 0 && !any) {
        *m = 0;
        *s = t.qx / t.qq;
    }
    return *s > 0 && isfinite(*s) && isfinite(*m);
}

/* (s, m) of one sub-block without regard to the others. */
ENCODE_INLINE void TIER(search_sub)(const struct shape *f, uint32_t n, const float *x, const float *w,
                                    struct sub *out) {
    const struct TIER(fixed) fixed = TIER(fixed_sums)(x, w, n);
    float lo = f->any ? x[0] : 0, hi = x[0];
    for (uint32_t i = 0; i < n; i++) {
        lo = x[i] < lo ? x[i] : lo;
        hi = x[i] > hi ? x[i] : hi;
    }
    *out = (struct sub){.m = -lo, .error = INFINITY};
    if (!(hi > lo)) { /* all the same, and not above 0: the minimum alone */
        out->error = TIER(quantise)(x, w, n, f->most, 0, out->m, out->q);
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
            const float error = TIER(quantise)(x, w, n, f->most, s, m, q);
            if (error < out->error) {
                out->error = error;
                out->s = s;
                out->m = m;
            } else if (error > f->give_up * out->error) {
                break;
            }
            if (!TIER(fit)(x, w, n, &fixed, q, f->any, &s, &m))
                break;
        }
    }
}

/* The integers of one sub-block for given d and dmin: around what is wanted. */
ENCODE_INLINE void TIER(choose)(const struct shape *f, uint32_t n, const float *x, const float *w, float d,
                                float dmin, struct sub *b) {
    const struct TIER(fixed) fixed = TIER(fixed_sums)(x, w, n);
    const float ls0 = d > 0 ? encode_nearest(b->s / d) : 0;
    b->error = INFINITY;
    for (int k = -1; k <= 1; k++) {
        const float ls = ls0 + (float)k;
        if (ls < 0 || ls > f->scale_most)
            continue;
        float q[MAX_N];
        const float s = d * ls;
        /* The minimum that suits this scale: with the q of the free one. */
        (void)TIER(quantise)(x, w, n, f->most, s, b->m, q);
        encode_lanes off = {0};
        for (uint32_t i = 0; i < n; i += 8)
            off += TIER(at)(w + i) * (TIER(at)(q + i) * s - TIER(at)(x + i));
        const float mean = TIER(sum)(&off) / fixed.w;
        const float want = dmin > 0 && isfinite(mean) ? encode_clamp(mean / dmin, 0, f->scale_most) : 0;
        for (float lm = floorf(want); lm <= ceilf(want); lm++) {
            const float error = TIER(quantise)(x, w, n, f->most, s, dmin * lm, q);
            if (error < b->error) {
                b->error = error;
                b->ls = ls;
                b->lm = lm;
                memcpy(b->q, q, n * sizeof *q);
            }
        }
    }
}

/* d and dmin of least error for the integers of a trial. False: there are none. */
ENCODE_INLINE bool TIER(refit)(const struct shape *f, uint32_t n, const float *x, const float *w,
                               const struct trial *t, float *d, float *dmin) {
    double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0; /* x = d a - dmin b */
    for (uint32_t j = 0; j < f->subs; j++) {
        const struct sub *b = &t->subs[j];
        const struct TIER(fixed) k = TIER(fixed_sums)(x + n * j, w + n * j, n);
        const struct TIER(sums) sums = TIER(sums_of)(x + n * j, w + n * j, n, b->q);
        const double ls = (double)b->ls, lm = (double)b->lm;
        aa += ls * ls * (double)sums.qq;
        ab += ls * lm * (double)sums.q;
        bb += lm * lm * (double)k.w;
        ax += ls * (double)sums.qx;
        bx += lm * (double)k.x;
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
ENCODE_INLINE void TIER(settle)(const struct shape *f, uint32_t n, const float *x, const float *w,
                                const struct sub *free_subs, float d, float dmin, struct trial *best) {
    struct trial t;
    memcpy(t.subs, free_subs, f->subs * sizeof *t.subs);
    for (int round = 0; round < 3; round++) {
        t.d = encode_as_f16(d);
        t.dmin = encode_as_f16(dmin);
        t.error = 0;
        for (uint32_t j = 0; j < f->subs; j++) {
            TIER(choose)(f, n, x + n * j, w + n * j, t.d, t.dmin, &t.subs[j]);
            t.error += t.subs[j].error;
        }
        if (!(t.error < best->error))
            return;
        *best = t;
        if (!TIER(refit)(f, n, x, w, &t, &d, &dmin))
            return;
    }
}

ENCODE_INLINE void TIER(search)(const struct shape *f, uint32_t n, const float *x, const float *w,
                                float *s_most, float *m_most, struct trial *best) {
    struct sub subs[MAX_SUBS];
    float s = 0, m = 0;
    for (uint32_t j = 0; j < f->subs; j++) {
        TIER(search_sub)(f, n, x + n * j, w + n * j, &subs[j]);
        s = subs[j].s > s ? subs[j].s : s;
        m = subs[j].m > m ? subs[j].m : m;
    }
    for (uint32_t j = f->subs; j < MAX_SUBS; j++)
        subs[j] = (struct sub){.s = 0};
    TIER(settle)(f, n, x, w, subs, s / f->scale_most, m / f->scale_most, best);
    *s_most = s;
    *m_most = m;
}

ENCODE_TARGET static void TIER(minimum)(const struct shape *f, const float *x, const float *w, float *s,
                                        float *m, struct trial *best) {
    if (f->n == 16)
        TIER(search)(f, 16, x, w, s, m, best);
    else
        TIER(search)(f, 32, x, w, s, m, best);
}

ENCODE_TARGET static void TIER(offset)(uint32_t type, const float *x, const float *w, uint8_t *block) {
    const struct shape f = {
        .subs = 1, .n = 32, .most = type == BLOCK_Q4_1 ? 15 : 31, .any = true, .give_up = 4.0f};
    struct sub b;
    float q[MAX_N], best = INFINITY;
    uint8_t codes[MAX_N];
    const struct TIER(fixed) fixed = TIER(fixed_sums)(x, w, 32);
    TIER(search_sub)(&f, 32, x, w, &b);
    for (int round = 0; round < 3; round++) { /* with s and m as they are stored */
        const float s = encode_as_f16(b.s), m = encode_as_f16(b.m);
        const float error = TIER(quantise)(x, w, 32, f.most, s, m, q);
        if (round > 0 && !(error < best))
            break;
        best = error;
        encode_put_f16(block, s);
        encode_put_f16(block + 2, -m);
        for (uint32_t i = 0; i < f.n; i++)
            codes[i] = (uint8_t)q[i];
        if (!TIER(fit)(x, w, 32, &fixed, q, true, &b.s, &b.m))
            break;
    }
    if (type == BLOCK_Q5_1)
        encode_put_five(codes, block + 4, block + 8);
    else
        encode_put_nibbles(codes, 16, block + 4);
}
