/* One block of quantised weights taken apart: the common form between the file's blocks, the panels and the
 * scalar matmul. Only block.c knows the file's bit order, only panel.c the panel's, and both decode with the
 * same arithmetic. */
#ifndef STATOR_FORMATS_BLOCK_PARTS_H
#define STATOR_FORMATS_BLOCK_PARTS_H

#include "formats/block.h"

#include <stddef.h>

#define BLOCK_MAX_VALUES 256

struct block_parts {
    uint8_t q[BLOCK_MAX_VALUES]; /* the stored bits in column order: unsigned; of Q8_0 the int8's bits; of
                                    types with a table the index */
    uint8_t sub[16];             /* of 256-value types the scales, block_subs of them, int8 or small */
    uint8_t submin[16];          /* of those with minima: as many */
    float d;                     /* the scale */
    float m;                     /* the minimum, or dmin; 0 where the type has none */
};

/* False for F32, F16, BF16: their "blocks" are single numbers. The type is computable. */
bool block_is_quantised(uint32_t type);

/* How a 256-value type's block is divided: 8 or 16 scales; 0: the type has none. */
uint32_t block_subs(uint32_t type);
/* The type has minima. */
bool block_has_m(uint32_t type);

/* The integers of types whose stored bits are an index. */
extern const int8_t block_iq4_values[16];
extern const int8_t block_mxfp4_values[16];
/* NULL: the type has no table. 16 bytes may be read, whatever the number of codes. */
const int8_t *block_table(uint32_t type);
/* What a block's d is multiplied with, a power of two. */
float block_factor(uint32_t type);

/* The integer of a weight from its stored bits. */
int block_integer(uint32_t type, uint8_t q);

/* One block of the file. Fields that the type does not have are left unchanged, except m, which becomes 0.
 * Not of NVFP4, Q1_0 and Q2_0. */
void block_take_apart(uint32_t type, const uint8_t *block, struct block_parts *p);

/* block_take_apart of the types in block_codes.c. */
void block_take_codes(uint32_t type, const uint8_t *block, struct block_parts *p);

/* The 64 values of a block of NVFP4: float16 has them exactly. */
void block_take_nvfp4(const uint8_t *block, float *out);

/* A block of Q1_0 or Q2_0 as blocks of Q4_0 that decode to the same; returns how many (at most 4). */
uint32_t block_as_q4_0(uint32_t type, const uint8_t *block, uint8_t *to);

/* Q4_K, Q5_K: eight 6-bit scales and eight 6-bit minima in 12 bytes, expanded to bytes. The first four of
 * each lie whole in bytes 0..7; the low nibbles of the others in bytes 8..11, their high two bits on top of
 * bytes 0..7. */
void block_take_scales(const uint8_t *from, uint8_t *sub, uint8_t *submin);

/* The block's floats, as ggml decodes them. */
void block_decode_parts(uint32_t type, const struct block_parts *p, float *out);

#endif
