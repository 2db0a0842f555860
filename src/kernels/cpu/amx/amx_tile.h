/* The tile instructions that the matmul uses, as statements: tiles are numbered by constants, the compiler
 * does not know them. Tiles 0-3 are sums, 4 and 5 activations (a row per token), 6 and 7 weights in the order
 * of a panel. All lie in memory without gaps.
 *
 * A thread configures its tiles before use and releases them after: nothing is kept between calls. */
#ifndef STATOR_KERNELS_CPU_AMX_TILE_H
#define STATOR_KERNELS_CPU_AMX_TILE_H

#include <stdint.h>
#include <string.h>

#define AMX_ROWS 16 /* of a tile; a row has 64 bytes at most */

/* Palette 1: bytes per row and rows of each tile (the layout is Intel's). */
struct amx_config {
    uint8_t palette;
    uint8_t start_row;
    uint8_t reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};
_Static_assert(sizeof(struct amx_config) == 64, "what ldtilecfg reads");

/* Activations: AMX_ROWS rows of depth bytes; weights: depth / 4 rows of 16 outputs. */
static inline void amx_configure(uint32_t depth) {
    struct amx_config c;
    memset(&c, 0, sizeof c);
    c.palette = 1;
    for (int t = 0; t < 8; t++) {
        c.row_bytes[t] = (uint16_t)(t == 4 || t == 5 ? depth : 64);
        c.rows[t] = (uint8_t)(t < 6 ? AMX_ROWS : depth / 4);
    }
    __asm__ volatile("ldtilecfg %0" : : "m"(c));
}

static inline void amx_release(void) {
    __asm__ volatile("tilerelease");
}

/* What a tile's bytes are to the compiler. */
typedef char amx_bytes[AMX_ROWS * 64];

/* A compiler that runs out of general registers keeps addresses in vector registers, whose way back takes the
 * ports that the float step needs: tiles then wait for it (measured: half of the speed). So across a load at
 * most 18 vector registers live (the sums and constants), across AMX_ADDRESSES none, and row lengths are no
 * operands. */
#define AMX_UPPER                                                                                            \
    "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27", "xmm28",       \
        "xmm29", "xmm30", "xmm31"
#define AMX_ADDRESSES                                                                                        \
    __asm__ volatile(""                                                                                      \
                     :                                                                                       \
                     :                                                                                       \
                     : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",       \
                       "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", AMX_UPPER)

#define AMX_ZERO(tile) __asm__ volatile("tilezero %%tmm" #tile:)
#define AMX_LOAD(tile, from, row_bytes)                                                                      \
    __asm__ volatile("movl %2, %%eax\n\ttileloadd (%0,%%rax,1), %%tmm" #tile                                 \
                     :                                                                                       \
                     : "r"(from), "m"(*(const amx_bytes *)(const void *)(from)), "i"(row_bytes)              \
                     : "rax", AMX_UPPER)
#define AMX_STORE(tile, to)                                                                                  \
    __asm__ volatile("movl $64, %%eax\n\ttilestored %%tmm" #tile ", (%1,%%rax,1)"                            \
                     : "=m"(*(amx_bytes *)(void *)(to))                                                      \
                     : "r"(to)                                                                               \
                     : "rax")
/* sum += activations x weights, both signed, or weights unsigned: int32, exact as long as it fits. */
#define AMX_DOT(sum, act, weights) __asm__ volatile("tdpbssd %%tmm" #weights ", %%tmm" #act ", %%tmm" #sum:)
#define AMX_DOT_UNSIGNED(sum, act, weights)                                                                  \
    __asm__ volatile("tdpbsud %%tmm" #weights ", %%tmm" #act ", %%tmm" #sum:)

#endif
