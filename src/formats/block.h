/* Block formats of weights as they lie in GGUF files: rows of blocks, each block `values` weights in `bytes`
 * bytes. Source of the layouts: the ggml project's public block structures; checked bit for bit against
 * ggml's own vectors (tests/unit/formats/test_block.c). */
#ifndef STATOR_FORMATS_BLOCK_H
#define STATOR_FORMATS_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* The numbers are ggml's type ids in the file. */
enum block_type {
    BLOCK_F32 = 0,
    BLOCK_F16 = 1,
    BLOCK_Q4_0 = 2,
    BLOCK_Q4_1 = 3,
    BLOCK_Q5_0 = 6,
    BLOCK_Q5_1 = 7,
    BLOCK_Q8_0 = 8,
    BLOCK_Q2_K = 10,
    BLOCK_Q3_K = 11,
    BLOCK_Q4_K = 12,
    BLOCK_Q5_K = 13,
    BLOCK_Q6_K = 14,
    BLOCK_IQ2_XXS = 16,
    BLOCK_IQ2_XS = 17,
    BLOCK_IQ3_XXS = 18,
    BLOCK_IQ1_S = 19,
    BLOCK_IQ4_NL = 20,
    BLOCK_IQ3_S = 21,
    BLOCK_IQ2_S = 22,
    BLOCK_IQ4_XS = 23,
    BLOCK_IQ1_M = 29,
    BLOCK_BF16 = 30,
    BLOCK_TQ1_0 = 34,
    BLOCK_TQ2_0 = 35,
    BLOCK_MXFP4 = 39,
    BLOCK_NVFP4 = 40,
    BLOCK_Q1_0 = 41,
    BLOCK_Q2_0 = 42,
    BLOCK_TYPES = 48 /* ids are below this */
};

struct block_info {
    const char *name; /* "q4_k" */
    uint32_t values;  /* weights in one block */
    uint32_t bytes;   /* of one block */
    bool computable;  /* stator can decode, pack and multiply it; false: ggml knows it and its size is known,
                         but there are no kernels for it */
};

/* NULL: no such type. Types that ggml has and stator cannot compute with are listed with their sizes (for
 * inspect). */
const struct block_info *block_info(uint32_t type);

/* Bytes of a row of n weights; false when n is not a multiple of the block, or on overflow. */
bool block_row_bytes(uint32_t type, uint64_t n, uint64_t *bytes);

/* n decoded weights, bit-equal to ggml's dequantize_row_*. The type is computable, n a multiple of its block.
 */
void block_decode_row(uint32_t type, const void *row, float *out, uint64_t n);

/* Makes random bytes a block of finite numbers (tests, selftest): its scale becomes d, as nearly as the type
 * can, and its minimum m, if it has one. Of F32, F16 and BF16 d is the number. */
void block_put_scales(uint32_t type, void *block, float d, float m);

/* IEEE half, exact to float; to half rounds to nearest even, subnormals kept. */
float block_from_f16(uint16_t h);
uint16_t block_to_f16(float f);
float block_from_bf16(uint16_t h);
/* The scale of a block of MXFP4 (OCP Microscaling Formats v1.0, E8M0), halved: 2^(e - 128), since its table
 * is doubled. Exact, subnormals too. */
float block_from_e8m0_half(uint8_t e);
/* A scale of NVFP4 (E4M3 without a sign), halved as its table is doubled. 0x7F is no number: 0. */
float block_from_e4m3_half(uint8_t v);

#endif
