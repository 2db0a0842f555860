/* Matmul of many tokens with AVX-512 (avx512_matmul_batch.c), and its work memory, whose size is the same for
 * every tier. */
#ifndef STATOR_KERNELS_CPU_AVX512_BATCH_H
#define STATOR_KERNELS_CPU_AVX512_BATCH_H

#include "base/arith.h"
#include "kernels/kernels.h"

#define BATCH_TILE         6   /* 2 * 6 float and 2 * 6 integer sums, 2 weights, 1 activation: 27 registers */
#define BATCH_TILE_FLOAT   12  /* 2 * 12 sums */
#define BATCH_TOKENS       256 /* packed together */
#define BATCH_TOKENS_FLOAT 60
#define BATCH_LEAST        9 /* fewer tokens are faster panel by panel (kernels/cpu/README.md) */
#define BATCH_LEAST_FLOAT  17
#define BATCH_CHUNK        128 /* columns of floats: those of a pair of panels lie in the first cache */
#define BATCH_BLOCKS       (KERNELS_SEGMENT / 32)
#define BATCH_SUPERS       (KERNELS_SEGMENT / 256)

/* One token's activations of a segment. */
struct batch_near32 {
    _Alignas(64) int8_t q[KERNELS_SEGMENT];
    float d[BATCH_BLOCKS];
    int32_t below[BATCH_BLOCKS]; /* -offset * sum: what the unsigned weights add */
    float sum[BATCH_BLOCKS];     /* types with a minimum */
};
struct batch_near256 {
    _Alignas(64) int8_t q[KERNELS_SEGMENT];
    int32_t below[BATCH_SUPERS][32]; /* -offset * sum of each part */
    /* Q4_K, Q5_K: the same taken back, in pairs: offset * sum; Q2_K: sums of 16. */
    int16_t above[BATCH_SUPERS][16];
    int16_t sum[BATCH_SUPERS][8]; /* of 32 */
    float d[BATCH_SUPERS];
};
struct batch_near_float {
    _Alignas(64) float x[KERNELS_SEGMENT];
    float acc[2][16]; /* a pair's sums between chunks */
};

/* A segment of a pair of panels, side by side. */
struct batch_weights32 {
    uint8_t q[BATCH_BLOCKS][8][2][64];
    float d[BATCH_BLOCKS][2][16];
    float m[BATCH_BLOCKS][2][16];
};
struct batch_weights256 {
    uint8_t q[BATCH_BLOCKS][8][2][64];
    /* The scale of 32 columns (Q4_K, IQ4_XS) or 16 as the lower of two int16, the other 0; of wide types as
     * an int32. */
    int32_t sub[BATCH_SUPERS][16][2][16];
    /* Q2_K, Q4_K, Q5_K: two int16, what each two of batch_near256.above are multiplied with. */
    int32_t pairs[BATCH_SUPERS][8][2][16];
    int32_t least[BATCH_SUPERS][4][2][16]; /* Q4_K, Q5_K: two minima */
    float d[BATCH_SUPERS][2][16];
    float m[BATCH_SUPERS][2][16];
};
struct batch_weights_float {
    float w[BATCH_CHUNK][2][16];
};

/* The work memory: this, and behind it one batch_near_ for each token of a block. */
struct batch_work {
    _Alignas(64) union {
        struct batch_weights32 weights32;
        struct batch_weights256 weights256;
        struct batch_weights_float weights_float;
    };
};

/* Floats are multiplied in whole tiles. */
static inline uint32_t batch_padded_float(uint32_t tokens) {
    return (tokens + BATCH_TILE_FLOAT - 1) / BATCH_TILE_FLOAT * BATCH_TILE_FLOAT;
}

/* Bytes for calls of at most this many tokens. */
static inline size_t batch_work_bytes(uint32_t max_tokens) {
    if (max_tokens < BATCH_LEAST)
        return 0;
    size_t integers = ARITH_MIN(max_tokens, (uint32_t)BATCH_TOKENS) *
                      ARITH_MAX(sizeof(struct batch_near32), sizeof(struct batch_near256));
    size_t floats = max_tokens < BATCH_LEAST_FLOAT
                        ? 0
                        : batch_padded_float(ARITH_MIN(max_tokens, (uint32_t)BATCH_TOKENS_FLOAT)) *
                              sizeof(struct batch_near_float);
    return sizeof(struct batch_work) + ARITH_MAX(integers, floats);
}

/* This tier's matmul of a quantised type, for the tier above. */
void avx512_matmul(uint32_t type, const struct kernels_matmul *m);

/* False, and nothing done: so few tokens are faster panel by panel. */
bool avx512_batch(uint32_t type, const struct kernels_matmul *m);

#endif
