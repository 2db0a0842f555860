/* The panel format: how weights lie in device memory, on every device alike. 16 rows (outputs) are a panel,
 * so that vector lanes are outputs; it is the operand order of VNNI, AMX (the B tile), dp4a and dpas.
 *
 * A matrix of `rows` x `cols` (cols = k, the summed index) is ceil(rows / 16) panels, each `panel_bytes`
 * long, one after the other; missing rows of the last panel are zero weights. A panel is a few planes, one
 * after the other, each starting at a multiple of 64 bytes (r = row in the panel, 0..15; "32-block" B = cols
 * 32B..32B+31; s = 0..7 and b = 0..3 stand for column 32B + 4s + b; "super block" S = cols 256S..256S+255;
 * numbers little-endian):
 *
 *   quants   Q8_0                 [B][s][r][b] int8
 *            4-, 5-, 6-bit types  [B][s'][r][b] bytes, s' = 0..3: low nibble is step s', high nibble s' + 4
 *            Q2_K, Q3_K, IQ2_S    [B][w][r] u32, w = 0..1: bits 2f, 2f + 1 of byte b are bits 0, 1 of the
 *                                 weight at step 4w + f, byte b
 *            F32, F16             [col][r]
 *            BF16                 [col / 2][r][2] (a last odd column is padded with zero)
 *   high     5-bit types          [B][r] u32: bit s of byte b is bit 4 of the weight at step s, byte b
 *            Q3_K, IQ2_S          likewise bit 2
 *            Q6_K                 [B][w][r] u32, w = 0..1: bits 2f, 2f + 1 of byte b are bits 4, 5 of the
 *                                 weight at step 4w + f, byte b
 *   sub      Q4_K, Q5_K           [S][8][r] u8, the 6-bit scale of each 32-block expanded to a byte
 *            IQ4_XS               [S][8][r] int8, the scale of each 32-block
 *            Q3_K, Q6_K           [S][16][r] int8, the scale of each 16 columns
 *            IQ2_S                [S][8][r] u8, of each 32-block two scales 2n + 1: low nibble the first n
 *            Q2_K                 [S][16][r] u8, the scale (low) and the minimum (high nibble) of each 16
 *   submin   Q4_K, Q5_K           [S][8][r] u8, the 6-bit minimum of each 32-block expanded to a byte
 *   d        32-value types       [B][r] f16; MXFP4 [B][r] u8, the E8M0 exponent
 *            K types              [S][r] f16
 *   m        Q4_1, Q5_1           [B][r] f16 (the m of the block)
 *            Q2_K, Q4_K, Q5_K     [S][r] f16 (dmin)
 *
 * The integer q of a weight is: Q8_0 the int8; Q3_K 3 bits - 4; Q4_0 nibble - 8; Q5_0 5 bits - 16; Q6_K 6
 * bits - 32; the others unsigned; of IQ4_NL, MXFP4, IQ4_XS and IQ2_S an index into block_table of the file's
 * type. The stored bits are the unsigned ones.
 *
 * Not every type of a file has panels of its own: kernels know few types, and what they compute is exact.
 *
 *   IQ4_XS  also IQ3_S, IQ3_XXS: a size out of 8 and a sign are 4 bits
 *   IQ2_S   also IQ2_XS, IQ2_XXS, IQ1_S, IQ1_M: one of six integers, 3 bits
 *   Q2_K    also TQ1_0, TQ2_0: d * q - d
 *   Q4_0    also Q1_0, Q2_0
 *   F16     also NVFP4, whose every value it has exactly */
#ifndef STATOR_FORMATS_PANEL_H
#define STATOR_FORMATS_PANEL_H

#include "formats/block.h"

#define PANEL_ROWS  16
#define PANEL_ALIGN 64

struct panel_layout {
    uint32_t type; /* enum block_type: of the panels, which kernels know */
    uint32_t file; /* of the rows in the file */
    uint32_t rows;
    uint32_t cols;
    uint32_t panels;
    uint32_t panel_bytes; /* a multiple of PANEL_ALIGN */
    /* Offsets of the planes in a panel; a plane that the type does not have is at panel_bytes. quants is at
     * 0. */
    uint32_t high;
    uint32_t sub;
    uint32_t submin;
    uint32_t d;
    uint32_t m;
    uint64_t bytes; /* panels * panel_bytes */
    /* Where the file's type decides what panels mean (IQ4_XS, IQ2_S): block_table, and block_factor of d. */
    int8_t table[16];
    float factor;
};

/* The type of the panels that a computable type of a file becomes. */
uint32_t panel_type(uint32_t file);

/* False: rows or cols 0, cols not a multiple of the block, the type not computable, a panel of 4 GiB or more.
 */
bool panel_layout_init(struct panel_layout *l, uint32_t file, uint64_t rows, uint64_t cols);

/* Packs n rows (n <= 16; rows n..15 become zero) that lie as in the file, row after row, into one panel.
 * dst: panel_bytes, every byte is written. */
void panel_pack(const struct panel_layout *l, const void *rows, uint32_t n, void *dst);

/* Row `row` of the packed matrix (all panels at `panels`) as floats, bit-equal to block_decode_row of the
 * file's row. */
void panel_decode_row(const struct panel_layout *l, const void *panels, uint32_t row, float *out);

#endif
