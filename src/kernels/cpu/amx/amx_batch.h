/* Matmul of int8 with tiles (amx_matmul32.c, amx_matmul_k.c): its work memory. */
#ifndef STATOR_KERNELS_CPU_AMX_BATCH_H
#define STATOR_KERNELS_CPU_AMX_BATCH_H

#include "base/arith.h"
#include "kernels/cpu/amx/amx_tile.h"
#include "kernels/kernels.h"

#define AMX_TOKENS 256 /* that share an unpacking of weights; a multiple of 2 * AMX_ROWS */
#define AMX_LEAST  16  /* fewer tokens are faster without tiles */
#define AMX_BLOCKS (KERNELS_SEGMENT / 32)
#define AMX_SUPERS (KERNELS_SEGMENT / 256)

/* A segment's activations of AMX_ROWS tokens, but for the quants: tiles are loaded from where they lie.
 * Blocks beyond the segment's last, up to a multiple of four, have d = 0. */
struct amx_near32 {
    _Alignas(64) float d[AMX_ROWS][AMX_BLOCKS];
    float sum[AMX_ROWS][AMX_BLOCKS]; /* types with a minimum */
};
struct amx_near256 {
    float d[AMX_SUPERS][AMX_ROWS];
    int16_t sum[AMX_SUPERS][AMX_ROWS][16]; /* types with a minimum: of 32, Q2_K of 16 */
};

/* A segment of one panel: signed quants in the panel's order (of Q8_0 they are read where they are). */
struct amx_weights32 {
    int8_t q[AMX_BLOCKS][8][64];
    float d[AMX_BLOCKS][16]; /* 0 beyond the last block */
    float m[AMX_BLOCKS][16];
};
/* The same, 64 columns at a time: quants times sub-scales, in two planes (low, high). */
struct amx_weights256 {
    uint8_t q[AMX_SUPERS][4][2][16][64];
    int32_t least[AMX_SUPERS][8][16]; /* two minima, int16 each */
    float d[AMX_SUPERS][16];
    float m[AMX_SUPERS][16];
};

/* The work memory: this, and behind it one amx_near for each AMX_ROWS tokens of a block. */
struct amx_work {
    _Alignas(64) union {
        struct amx_weights32 weights32;
        struct amx_weights256 weights256;
    };
    int32_t sums[2][4][AMX_ROWS][16]; /* tiles on their way to registers: one half is written, one read */
};

static inline uint32_t amx_tiles(uint32_t tokens) {
    return (tokens + AMX_ROWS - 1) / AMX_ROWS;
}

/* Bytes for calls of at most this many tokens. */
static inline size_t amx_work_bytes(uint32_t max_tokens) {
    if (max_tokens < AMX_LEAST)
        return 0;
    return sizeof(struct amx_work) + (size_t)amx_tiles(ARITH_MIN(max_tokens, (uint32_t)AMX_TOKENS)) *
                                         ARITH_MAX(sizeof(struct amx_near32), sizeof(struct amx_near256));
}

#endif
