/* Q2_K, Q4_K, Q5_K: sub-blocks with a scale and a minimum, x = s q - m, where s = d * a 4- or 6-bit integer
 * and m = dmin * another.
 *
 * The search, per sub-block first: from several ranges that q covers, alternately the q of given (s, m) and
 * the (s, m) of least error for given q (linear least squares). Then all together: d and dmin from the
 * largest s and m, each sub-block tries the integers around its own s and m, and for the integers and q that
 * are there d and dmin follow again by least squares. What had the least error in the end, counted with d and
 * dmin as they are stored, stays. */
#include "formats/encode_lanes.h"

#include "base/check.h"

#include <math.h>

#define MAX_SUBS 16
#define MAX_N    32

struct shape {
    uint32_t subs, n; /* sub-blocks, values in one */
    float most;       /* the largest q */
    float scale_most; /* the largest integer of scales and minima */
    float give_up; /* a range's first error is so many times the best that its further rounds are left out */
    bool any;      /* minima may be below 0 */
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

#define TIER(name) name##_plain
#define ENCODE_TARGET
#include "formats/encode_minimum_tmpl.h"
#undef TIER
#undef ENCODE_TARGET
#if defined ENCODE_TARGET_AVX2
#define TIER(name)    name##_avx2
#define ENCODE_TARGET ENCODE_TARGET_AVX2
#include "formats/encode_minimum_tmpl.h"
#undef TIER
#undef ENCODE_TARGET
#endif

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

void encode_minimum(enum encode_tier tier, uint32_t type, const float *x, const float *w, uint8_t *block) {
    const struct shape f = {.subs = type == BLOCK_Q2_K ? 16 : 8,
                            .n = type == BLOCK_Q2_K ? 16 : 32,
                            .most = type == BLOCK_Q2_K   ? 3
                                    : type == BLOCK_Q4_K ? 15
                                                         : 31,
                            .scale_most = type == BLOCK_Q2_K ? 15 : 63,
                            .give_up = type == BLOCK_Q2_K ? 1.2f : INFINITY};
    struct trial best = {.error = INFINITY};
    float s, m;
    ENCODE_BY(tier, minimum, &f, x, w, &s, &m, &best);
    if (!(best.error < INFINITY)) { /* beyond the range of floats: what is largest decides */
        best = (struct trial){.d = encode_as_f16(s / f.scale_most), .dmin = encode_as_f16(m / f.scale_most)};
        for (uint32_t j = 0; j < f.subs; j++)
            best.subs[j].ls = f.scale_most;
    }
    put(type, &f, &best, block);
}

void encode_offset(enum encode_tier tier, uint32_t type, const float *x, const float *w, uint8_t *block) {
    ENCODE_BY(tier, offset, type, x, w, block);
}
