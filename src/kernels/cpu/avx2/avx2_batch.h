/* Matmul of many tokens with AVX2 (avx2_matmul_batch.c), and its work memory, which there is in every tier.
 */
#ifndef STATOR_KERNELS_CPU_AVX2_BATCH_H
#define STATOR_KERNELS_CPU_AVX2_BATCH_H

#include "base/arith.h"
#include "kernels/kernels.h"

#define AVX2_BATCH_TOKENS  96 /* packed together */
#define AVX2_BATCH_LEAST   6  /* fewer tokens are faster panel by panel (kernels/cpu/README.md) */
#define AVX2_BATCH_LEAST_K 5
#define AVX2_BATCH_BLOCKS  (KERNELS_SEGMENT / 32)
#define AVX2_BATCH_SUPERS  (KERNELS_SEGMENT / 256)

/* One token's activations of a segment. */
struct avx2_near32 {
    _Alignas(64) int8_t q[2 * KERNELS_SEGMENT]; /* wide types: int16, a block's even k and then its odd k */
    float d[AVX2_BATCH_BLOCKS];
    int32_t below[AVX2_BATCH_BLOCKS]; /* -offset * sum: what the unsigned weights add */
    float sum[AVX2_BATCH_BLOCKS];     /* types with a minimum */
};
struct avx2_near256 {
    _Alignas(64) int8_t q[KERNELS_SEGMENT];
    int32_t below[AVX2_BATCH_SUPERS][16]; /* of each 16: two int16, what weights that are too large add */
    int16_t s[AVX2_BATCH_SUPERS][16];     /* types with a minimum, wide types: sums of 32, or 16 */
    float d[AVX2_BATCH_SUPERS];
};

/* A panel's segment, the 16 rows of each step side by side. */
struct avx2_weights32 {
    uint8_t q[AVX2_BATCH_BLOCKS][16][64]; /* steps; wide types: int16, those of even k, then those of odd k */
    float d[AVX2_BATCH_BLOCKS][16];
    float m[AVX2_BATCH_BLOCKS][16];
};
struct avx2_weights256 {
    uint8_t q[AVX2_BATCH_BLOCKS][16][64]; /* steps; IQ4_XS: the integers' sizes, then the integers */
    /* Two int16, both the scale of a part, which has 32 or 16 columns. */
    int32_t sub[AVX2_BATCH_SUPERS][16][16];
    int32_t minima[AVX2_BATCH_SUPERS][8][16]; /* two int16, those of two parts (IQ2_S, IQ3: their scales) */
    float d[AVX2_BATCH_SUPERS][16];
    float m[AVX2_BATCH_SUPERS][16];
};

/* The work memory: this, and behind it one avx2_near for each token of a block, rounded up to whole tiles. */
struct avx2_batch_work {
    _Alignas(64) union {
        struct avx2_weights32 weights32;
        struct avx2_weights256 weights256;
    };
};

/* Tokens that tiles of 4 and 3 multiply: 5 can't be shared out. */
static inline uint32_t avx2_batch_padded(uint32_t tokens) {
    return tokens == 5 ? 6 : ARITH_MAX(tokens, 3u);
}

/* Bytes for calls of at most this many tokens. */
static inline size_t avx2_batch_bytes(uint32_t max_tokens) {
    if (max_tokens < AVX2_BATCH_LEAST_K)
        return 0;
    return sizeof(struct avx2_batch_work) +
           (size_t)avx2_batch_padded(ARITH_MIN(max_tokens, (uint32_t)AVX2_BATCH_TOKENS)) *
               ARITH_MAX(sizeof(struct avx2_near32), sizeof(struct avx2_near256));
}

/* False, and nothing done: so few tokens are faster panel by panel. */
bool avx2_batch(uint32_t type, const struct kernels_matmul *m);

#endif
