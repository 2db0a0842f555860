/* The searches of encode_scaled.c, for one tier (encode_lanes.h). */
#include "formats/encode_lanes_tmpl.h"

/* v for a scale. */
ENCODE_INLINE void TIER(values)(const struct shape *f, uint32_t n, const float *x, float s, float *v) {
    const float inverse = s != 0 ? 1 / s : 0;
    if (f->type == BLOCK_IQ4_NL || f->type == BLOCK_IQ4_XS)
        for (uint32_t i = 0; i < n; i++)
            v[i] = (float)block_iq4_values[iq4_codes[(
                uint32_t)(2 * encode_clamp(x[i] * inverse, -127.5f, 127.5f) + 256)]];
    else
        for (uint32_t i = 0; i < n; i += 8) {
            const encode_lanes scaled = TIER(at)(x + i) * inverse;
            (void)TIER(put_nearest)(v + i, &scaled, -f->below, f->above);
        }
}

ENCODE_INLINE float TIER(error)(uint32_t n, const float *x, const float *w, float s, const float *v) {
    encode_lanes error = {0};
    for (uint32_t i = 0; i < n; i += 8) {
        const encode_lanes off = TIER(at)(x + i) - TIER(at)(v + i) * s;
        error += TIER(at)(w + i) * off * off;
    }
    return TIER(sum)(&error);
}

/* Sums of w x v and w v v. */
struct TIER(sums) {
    float xv, vv;
};

ENCODE_INLINE struct TIER(sums) TIER(sums_of)(uint32_t n, const float *x, const float *w, const float *v) {
    encode_lanes xv = {0}, vv = {0};
    for (uint32_t i = 0; i < n; i += 8) {
        const encode_lanes value = TIER(at)(v + i), wv = TIER(at)(w + i) * value;
        xv += wv * TIER(at)(x + i);
        vv += wv * value;
    }
    return (struct TIER(sums)){TIER(sum)(&xv), TIER(sum)(&vv)};
}

/* The scale of one sub-block without regard to the others: that of the largest (sum w x v)^2 / (sum w v^2),
 * which is what the error lacks of sum w x^2. *best_vv: that sum w v^2. */
ENCODE_INLINE float TIER(search_sub)(const struct shape *f, uint32_t n, const float *x, const float *w,
                                     float *best_vv) {
    float far = 0, best = 0, best_gain = 0;
    float v[MAX_N];
    for (uint32_t i = 0; i < n; i++)
        far = fabsf(x[i]) > fabsf(far) ? x[i] : far;
    if (far == 0)
        return 0;
    for (int k = 0; k < 2 * f->ratios + 2; k++) {
        /* What fits exactly comes first, and is not given up for what is better by rounding errors. */
        const float ratio = k < 2 ? 1 : f->ratio - f->ratio_step * (float)(k / 2 - 1);
        float s = far / ((k & 1) != 0 ? ratio * f->above : -ratio * f->below);
        for (int round = 0; round < 2; round++) {
            TIER(values)(f, n, x, s, v);
            const struct TIER(sums) t = TIER(sums_of)(n, x, w, v);
            if (!(t.vv > 0))
                break;
            s = t.xv / t.vv;
            if (t.xv * s > best_gain * 1.000001f) {
                best_gain = t.xv * s;
                best = s;
                *best_vv = t.vv;
            } else if (t.xv * s < 0.99f * best_gain) {
                break; /* a second round gains little */
            }
        }
    }
    return best;
}

ENCODE_INLINE void TIER(choose)(const struct shape *f, uint32_t n, const float *x, const float *w, float d,
                                struct sub *b) {
    const float l0 = d != 0 ? encode_nearest(encode_clamp(b->s / d, f->l_least, f->l_most)) : f->l_least;
    b->error = INFINITY;
    for (int k = -1; k <= 1; k++) {
        const float l = l0 + (float)k;
        if (l < f->l_least || l > f->l_most)
            continue;
        float v[MAX_N];
        TIER(values)(f, n, x, d * l, v);
        const float error = TIER(error)(n, x, w, d * l, v);
        if (error < b->error) {
            b->error = error;
            b->l = l;
            memcpy(b->v, v, n * sizeof *v);
        }
    }
}

/* From d: integers and values, then d again, a few times. The best of it goes to *best. */
ENCODE_INLINE void TIER(settle)(const struct shape *f, uint32_t n, const float *x, const float *w,
                                const struct sub *free_subs, float d, struct trial *best) {
    struct trial t;
    // cppcheck-suppress uninitvar ; of a sub-block only its free scale is known yet
    memcpy(t.subs, free_subs, f->subs * sizeof *t.subs);
    for (int round = 0; round < 3; round++) {
        double xv = 0, vv = 0;
        t.d = encode_as_f16(d);
        t.error = 0;
        for (uint32_t j = 0; j < f->subs; j++) {
            struct sub *b = &t.subs[j];
            TIER(choose)(f, n, x + n * j, w + n * j, t.d, b);
            t.error += b->error;
            const struct TIER(sums) sums = TIER(sums_of)(n, x + n * j, w + n * j, b->v);
            xv += (double)b->l * (double)sums.xv;
            vv += (double)b->l * (double)b->l * (double)sums.vv;
        }
        if (!(t.error < best->error))
            return;
        *best = t;
        if (!(vv > 0))
            return;
        d = (float)(xv / vv);
    }
}

/* The d whose multiples are nearest to the sub-blocks' own scales, of some that come close to the largest. */
ENCODE_INLINE float TIER(choose_d)(const struct shape *f, const float *s, const float *vv, float far) {
    float best = 0, least = INFINITY;
    for (int k = 0; k < f->tries; k++) {
        const float d = far / (f->l_least + (float)k * 0.5f), inverse = 1 / d;
        encode_lanes loss = {0};
        for (uint32_t j = 0; j < f->subs; j += 8) {
            float l[8];
            const encode_lanes own = TIER(at)(s + j), scaled = own * inverse;
            const encode_lanes off = own - TIER(put_nearest)(l, &scaled, f->l_least, f->l_most) * d;
            loss += TIER(at)(vv + j) * off * off;
        }
        const float sum = TIER(sum)(&loss);
        if (sum < least) {
            least = sum;
            best = d;
        }
    }
    return best;
}

/* What is largest of the sub-blocks' own scales; the best of all tries goes to *best. */
ENCODE_INLINE float TIER(search)(const struct shape *f, uint32_t n, const float *x, const float *w,
                                 struct trial *best) {
    struct sub subs[MAX_SUBS];
    float far = 0, s[MAX_SUBS] = {0}, vv[MAX_SUBS] = {0};
    for (uint32_t j = 0; j < f->subs; j++) {
        s[j] = TIER(search_sub)(f, n, x + n * j, w + n * j, &vv[j]);
        subs[j].s = s[j];
        far = fabsf(s[j]) > fabsf(far) ? s[j] : far;
    }
    TIER(settle)(f, n, x, w, subs, f->subs == 1 ? far : TIER(choose_d)(f, s, vv, far), best);
    return far;
}

ENCODE_TARGET static float TIER(scaled)(const struct shape *f, const float *x, const float *w,
                                        struct trial *best) {
    return f->n == 16 ? TIER(search)(f, 16, x, w, best) : TIER(search)(f, 32, x, w, best);
}
