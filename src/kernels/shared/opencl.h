/* The GPU kernels as the host sees them: what kernels and host must agree on, and the modules in the binary.
 * Compiles as C and as OpenCL C. The kernels are in kernels/opencl/; how a graph becomes launches of them is
 * device/launch/launch.c. */
#ifndef STATOR_KERNELS_SHARED_OPENCL_H
#define STATOR_KERNELS_SHARED_OPENCL_H

/* Work items of a group of the kernels that say so. */
#define OPENCL_GROUP 256
/* Floats of a row that the norm kernel has in local memory at a time. */
#define OPENCL_NORM_CHUNK 2048
/* Words of local memory that making n values int8 takes. */
#define OPENCL_QUANTISE_WORDS(n) (3 * (n) / 8)
/* Rows of an exchange as int8: the quants of all rows, then the scales, then the sums, each at a multiple of
 * so many bytes (graph/share.h). */
#define OPENCL_PACKED_ALIGN        64
#define OPENCL_PACKED(bytes)       (((bytes) + OPENCL_PACKED_ALIGN - 1) / OPENCL_PACKED_ALIGN * OPENCL_PACKED_ALIGN)
#define OPENCL_SCALES(rows, width) OPENCL_PACKED((rows) * (width))
#define OPENCL_SUMS(rows, width, scaled)                                                                     \
    OPENCL_PACKED(OPENCL_SCALES(rows, width) + (rows) * ((width) / (scaled)) * 4)
/* Bytes of a block that a group sets at a time. */
#define OPENCL_FILL_PART 65536
/* Channels that a group of a gated convolution has: whole groups of int8. */
#define OPENCL_CONV_PART 256
/* Tokens that one pass of a matmul kernel handles. */
#define OPENCL_DECODE_TOKENS 8
#define OPENCL_DECODE_MIXED  2 /* of all types, or all K types */
/* Where registers are wide: at most, and what an item has of them: tokens, and rows of weights. */
#define OPENCL_FEW_TOKENS     32
#define OPENCL_FEW_EACH       4
#define OPENCL_FEW_ROWS       2
#define OPENCL_PREFILL_TOKENS 8 /* of weights with floats */
#define OPENCL_PREFILL_MIXED  2 /* what an item has of those where types of all kinds are mixed */
/* Tokens whose activations a group of a prefill kernel has in local memory, without and with the matrix
 * engine; and what an item has of it: tokens, and rows of weights. */
#define OPENCL_PREFILL_TILE 16
#define OPENCL_PREFILL_EACH 8
#define OPENCL_PREFILL_ROWS 2
#define OPENCL_DPAS_TILE    32
#define OPENCL_DPAS_EACH    8
#define OPENCL_DPAS_ROWS    1
/* The same of the matrix engine with sub-groups of 16: at most, a power of 2 (of experts a tile has
 * OPENCL_DPAS_TILE); tokens and rows, or one row of weights that take more registers, and of several types or
 * IQ2_S fewer tokens. Columns that are staged at a time. */
#define OPENCL_WIDE_TILE  128
#define OPENCL_WIDE_EACH  32
#define OPENCL_WIDE_ROWS  2
#define OPENCL_WIDE_MIXED 16
#define OPENCL_WIDE_STEP  256
/* The same engine for so few tokens that k is dealt out to sub-groups (matmul_dealt.cl): what one has. Bytes
 * of local memory for a token of a segment that is in flight, floats for a sub-group's totals. */
#define OPENCL_DEALT_TOKENS         32
#define OPENCL_DEALT_BYTES          (OPENCL_WIDE_STEP + OPENCL_WIDE_STEP / 32 * 8)
#define OPENCL_DEALT_TOTALS(tokens) (16 * ((tokens) + 1))
/* Rows of q, of all heads and queries of a tile, that an attention group handles at a time. */
#define OPENCL_ATTENTION_ROWS 8
/* Work items of a group of attention without tiles: an item has two tokens of a split. */
#define OPENCL_ATTENTION_GROUP 128
/* Floats of local memory for quantised V: of each row a factor and a unit of each 32 dims. Then the words of
 * the weights that the group's items need at a time, of which 16 share those of four rows; latent attention
 * has the largest scales of eight blocks instead. */
#define OPENCL_TOPS(head_v)    ((head_v) / 32 * 2)
#define OPENCL_WEIGHTS         (OPENCL_ATTENTION_GROUP / 16 * 4 * (OPENCL_SPLIT / 4) * 2)
#define OPENCL_LARGEST(head_v) (OPENCL_ATTENTION_ROWS * ((head_v) / 32) * (OPENCL_SPLIT / 32))
/* A tile of many queries has 64 rows, or 32 where local memory has no room for more; for heads whose V is
 * wider than 128 values there is none. Of K and V of Q8_0 it has OPENCL_TILE_Q8, for all heads. Floats of
 * local memory that it takes. */
#define OPENCL_TILE_STRIDE(rows)         ((rows) + 4)
#define OPENCL_TILE_FLOATS(rows, head_k) ((head_k)*OPENCL_TILE_STRIDE(rows) + 106 * (rows))
#define OPENCL_TILE_Q8                   32
#define OPENCL_TILE_Q8_FLOATS(head_k, head_v)                                                                \
    (OPENCL_TILE_Q8 * (OPENCL_SPLIT + (head_k) / 2 + (head_k) / 32 + (head_v) / 16 + 7) + OPENCL_GROUP + 8)
/* Tokens of a split (KERNELS_SPLIT), and queries of one sequence that are few: their splits are computed side
 * by side where there are cells. */
#define OPENCL_SPLIT         256
#define OPENCL_SPLIT_QUERIES 4
/* Slices that the KV of one layer may lie in. */
#define OPENCL_KV_SLICES 4

/* A layer's cache in one argument: types of K and V, number of the cache. */
#define OPENCL_CACHE(type_k, type_v, cache) ((type_k) | (type_v) << 8 | (cache) << 16)
#define OPENCL_CACHE_K(a)                   ((a)&255u)
#define OPENCL_CACHE_V(a)                   ((a) >> 8 & 255u)
#define OPENCL_CACHE_NUMBER(a)              ((a) >> 16)

/* What a matmul kernel does with finished sums; the first five are enum graph_epilogue. */
#define OPENCL_STORE    0
#define OPENCL_RESIDUAL 1
#define OPENCL_PAIRS    2
#define OPENCL_SWIGLU   3
#define OPENCL_GEGLU    4
#define OPENCL_ROPE                                                                                          \
    5 /* weights are q, k, v: heads normed (optional), rotated; q stored, k and v to the cache */

/* Of two matrices for one output. */
#define OPENCL_GATED(epilogue) ((epilogue) == OPENCL_SWIGLU || (epilogue) == OPENCL_GEGLU)

/* Bits of the argument `biased`: weight i has a bias; a factor. */
#define OPENCL_BIAS(i)   (1u << (i))
#define OPENCL_FACTOR(i) (16u << (i))

/* Bits of the argument `normed`: heads of q and k, with weights; heads of v, without; and that units are
 * halves of heads. */
#define OPENCL_NORMED_QK 1
#define OPENCL_NORMED_V  2
#define OPENCL_HALVES    4

/* What the kernel `gate` does with heads and gates: sigmoid(gates) * heads; silu(gates) * normed heads;
 * gelu(heads) * gates; silu(gates) * heads, normed with weights for each head; the square of heads above 0;
 * sigmoid(gates) * normed heads. */
#define OPENCL_GATE_SIGMOID 0
#define OPENCL_GATE_NORMED  1
#define OPENCL_GATE_GELU    2
#define OPENCL_GATE_EARLY   3
#define OPENCL_GATE_RELU2   4
#define OPENCL_GATE_BOTH    5

/* Which rows the kernel `norm` works on: those of all tokens, of the tokens that the step wants logits of, or
 * as many of the first ones as it wants. */
#define OPENCL_ROWS_ALL    0
#define OPENCL_ROWS_GATHER 1
#define OPENCL_ROWS_WANTED 2

/* What the kernel `tower_map` does with a row. */
#define OPENCL_MAP_COPY     0
#define OPENCL_MAP_GELU     1
#define OPENCL_MAP_GELU_ERF 2
#define OPENCL_MAP_WEAVE    3
#define OPENCL_MAP_SPREAD   4
#define OPENCL_MAP_MEAN     5
#define OPENCL_MAP_SILU     6

/* What norms of all heads together do (`norm_wide`): before the rotation, after it for each head, nothing,
 * or before it for each head. */
#define OPENCL_WIDE_EARLY 0
#define OPENCL_WIDE_LATE  1
#define OPENCL_WIDE_PLAIN 2
#define OPENCL_WIDE_HEADS 3

/* Forms of a value (graph.h). */
#define OPENCL_F32    1
#define OPENCL_I8_32  2
#define OPENCL_I8_256 4

#ifndef __OPENCL_C_VERSION__

#include <stddef.h>
#include <stdint.h>

/* A SPIR-V module of the program, compressed (device/launch/launch_modules.h inflates it). */
struct opencl_module {
    const char *name;      /* the file's name without ending, e.g. "decode_q4_k" */
    const uint8_t *packed; /* a zstd frame */
    uint64_t packed_bytes;
    uint64_t bytes; /* of the module itself */
    /* A module without a base that is like this one: its bytes are the frame's dictionary. NULL: there is
     * none. */
    const struct opencl_module *base;
};

/* Sorted by name; none in a program that carries no GPU kernels. */
extern const struct opencl_module opencl_modules[];
extern const uint32_t opencl_n_modules;
/* Why there are none: "" when there are some. */
extern const char opencl_missing[];

#endif
#endif
