/* The panel format: layout, packing, and the way back. Pure functions on the caller's memory, for any thread.
 * Words of four quants (one row, one step of four columns) are moved as u32, which is the same as four bytes
 * because the host is little-endian (block.c checks it). */
#include "formats/panel.h"

#include "base/arith.h"
#include "base/check.h"
#include "formats/panel_parts.h"

#include <string.h>

/* What distinguishes the quantised types here. */
struct planes {
    uint32_t low_bits;  /* of a quant in the quants plane: 2, 4 or 8 */
    uint32_t high_bits; /* of a quant in the high plane: 0, 1, 2 */
    uint32_t subs;      /* bytes of sub-scales in a block */
    uint32_t submins;   /* sub-minima in a block */
    bool m;
    uint32_t d_bytes; /* of a scale */
};

static struct planes planes_of(uint32_t type) {
    switch (type) {
    case BLOCK_Q4_0:
    case BLOCK_IQ4_NL:
        return (struct planes){4, 0, 0, 0, false, 2};
    case BLOCK_Q4_1:
        return (struct planes){4, 0, 0, 0, true, 2};
    case BLOCK_Q5_0:
        return (struct planes){4, 1, 0, 0, false, 2};
    case BLOCK_Q5_1:
        return (struct planes){4, 1, 0, 0, true, 2};
    case BLOCK_Q8_0:
        return (struct planes){8, 0, 0, 0, false, 2};
    case BLOCK_MXFP4:
        return (struct planes){4, 0, 0, 0, false, 1};
    case BLOCK_Q4_K:
        return (struct planes){4, 0, 8, 8, true, 2};
    case BLOCK_Q5_K:
        return (struct planes){4, 1, 8, 8, true, 2};
    case BLOCK_Q2_K:
        return (struct planes){2, 0, 16, 0, true, 2};
    case BLOCK_Q3_K:
        return (struct planes){2, 1, 16, 0, false, 2};
    case BLOCK_IQ2_S:
        return (struct planes){2, 1, 8, 0, false, 2};
    case BLOCK_IQ4_XS:
        return (struct planes){4, 0, 8, 0, false, 2};
    default:
        CHECK(type == BLOCK_Q6_K);
        return (struct planes){4, 2, 16, 0, false, 2};
    }
}

uint32_t panel_type(uint32_t file) {
    switch (file) {
    case BLOCK_IQ3_S:
    case BLOCK_IQ3_XXS:
        return BLOCK_IQ4_XS;
    case BLOCK_IQ2_XS:
    case BLOCK_IQ2_XXS:
    case BLOCK_IQ1_S:
    case BLOCK_IQ1_M:
        return BLOCK_IQ2_S;
    case BLOCK_TQ1_0:
    case BLOCK_TQ2_0:
        return BLOCK_Q2_K;
    case BLOCK_Q1_0:
    case BLOCK_Q2_0:
        return BLOCK_Q4_0;
    case BLOCK_NVFP4:
        return BLOCK_F16;
    default:
        return file;
    }
}

/* Bytes of the quants plane before padding; a row has 1/16 of each. Cannot overflow: cols < 2^32. */
static uint64_t quants_bytes(uint32_t type, uint64_t cols) {
    switch (type) {
    case BLOCK_F32:
        return cols * PANEL_ROWS * 4;
    case BLOCK_F16:
        return cols * PANEL_ROWS * 2;
    case BLOCK_BF16:
        return (cols + 1) / 2 * PANEL_ROWS * 4;
    default:
        return cols * PANEL_ROWS * planes_of(type).low_bits / 8;
    }
}

bool panel_layout_init(struct panel_layout *l, uint32_t file, uint64_t rows, uint64_t cols) {
    const struct block_info *info = block_info(file);
    if (info == NULL || !info->computable || rows == 0 || cols == 0 || rows > UINT32_MAX ||
        cols > UINT32_MAX || cols % info->values != 0)
        return false;
    const uint32_t type = panel_type(file);
    info = block_info(type);
    struct planes planes = {0};
    if (block_is_quantised(type))
        planes = planes_of(type);
    uint64_t blocks = cols / info->values;
    uint64_t at = arith_round_up(quants_bytes(type, cols), PANEL_ALIGN);
    uint64_t size[5] = {
        cols * PANEL_ROWS * planes.high_bits / 8, blocks * PANEL_ROWS * planes.subs,
        blocks * PANEL_ROWS * planes.submins,     blocks * PANEL_ROWS * planes.d_bytes,
        planes.m ? blocks * PANEL_ROWS * 2 : 0,
    };
    uint64_t offset[5];
    for (uint32_t i = 0; i < 5; i++) {
        offset[i] = at;
        at = arith_round_up(at + size[i], PANEL_ALIGN);
    }
    if (at > UINT32_MAX)
        return false;
    for (uint32_t i = 0; i < 5; i++)
        if (size[i] == 0)
            offset[i] = at;
    *l = (struct panel_layout){
        .type = type,
        .file = file,
        .rows = (uint32_t)rows,
        .cols = (uint32_t)cols,
        .panels = (uint32_t)arith_ceil_div(rows, PANEL_ROWS),
        .panel_bytes = (uint32_t)at,
        .high = (uint32_t)offset[0],
        .sub = (uint32_t)offset[1],
        .submin = (uint32_t)offset[2],
        .d = (uint32_t)offset[3],
        .m = (uint32_t)offset[4],
        .factor = block_factor(file),
    };
    if (block_table(file) != NULL)
        memcpy(l->table, block_table(file), sizeof l->table);
    l->bytes = (uint64_t)l->panels * l->panel_bytes;
    return true;
}

static uint32_t load32(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static void store32(uint8_t *p, uint32_t v) {
    memcpy(p, &v, sizeof v);
}

/* Field number `field` of `bits` bits in each byte of a word. */
static uint32_t fields_of(uint32_t word, uint32_t bits, uint32_t field) {
    const uint32_t mask = bits == 1 ? 0x01010101 : 0x03030303;
    return word >> bits * field & mask;
}

static void take_quants(const struct panel_layout *l, const struct planes *planes, const uint8_t *panel,
                        uint32_t r, uint32_t b, uint8_t *q) {
    if (planes->low_bits == 8) {
        const uint8_t *from = panel + (size_t)b * 512 + 4 * r;
        for (uint32_t s = 0; s < 8; s++)
            store32(q + 4 * s, load32(from + 64 * s));
        return;
    }
    if (planes->low_bits == 4) {
        const uint8_t *from = panel + (size_t)b * 256 + 4 * r;
        for (uint32_t s = 0; s < 4; s++) {
            uint32_t both = load32(from + 64 * s);
            store32(q + 4 * s, both & 0x0F0F0F0F);
            store32(q + 16 + 4 * s, both >> 4 & 0x0F0F0F0F);
        }
    } else {
        const uint8_t *from = panel + (size_t)b * 128 + 4 * r;
        for (uint32_t s = 0; s < 8; s++)
            store32(q + 4 * s, fields_of(load32(from + 64 * (s / 4)), 2, s % 4));
    }
    uint32_t fields = planes->high_bits == 2 ? 4 : 8;
    for (uint32_t w = 0; w < planes->high_bits; w++) {
        uint32_t word = load32(panel + l->high + ((size_t)b * planes->high_bits + w) * 64 + 4 * r);
        for (uint32_t f = 0; f < fields; f++) {
            uint8_t *four = q + 4 * (fields * w + f);
            store32(four, load32(four) | fields_of(word, planes->high_bits, f) << planes->low_bits);
        }
    }
}

static float take_f16(const uint8_t *plane, uint32_t r, uint32_t block) {
    uint16_t v;
    memcpy(&v, plane + ((size_t)block * PANEL_ROWS + r) * 2, sizeof v);
    return block_from_f16(v);
}

void panel_take_apart(const struct panel_layout *l, const uint8_t *panel, uint32_t r, uint32_t block,
                      struct block_parts *p) {
    struct planes planes = planes_of(l->type);
    uint32_t values = block_info(l->type)->values;
    for (uint32_t b = 0; b < values / 32; b++)
        take_quants(l, &planes, panel, r, block * (values / 32) + b, p->q + 32 * b);
    for (uint32_t j = 0; j < planes.subs; j++)
        p->sub[j] = panel[l->sub + ((size_t)block * planes.subs + j) * PANEL_ROWS + r];
    for (uint32_t j = 0; j < planes.submins; j++)
        p->submin[j] = panel[l->submin + ((size_t)block * planes.submins + j) * PANEL_ROWS + r];
    for (uint32_t j = 0; j < 16 && l->type == BLOCK_Q2_K; j++) {
        p->submin[j] = p->sub[j] >> 4;
        p->sub[j] &= 15;
    }
    for (uint32_t j = 8; j-- > 0 && l->type == BLOCK_IQ2_S;) {
        p->sub[2 * j + 1] = (uint8_t)(2 * (p->sub[j] >> 4) + 1);
        p->sub[2 * j] = (uint8_t)(2 * (p->sub[j] & 15) + 1);
    }
    p->d = planes.d_bytes == 1 ? block_from_e8m0_half(panel[l->d + (size_t)block * PANEL_ROWS + r])
                               : take_f16(panel + l->d, r, block);
    p->m = planes.m ? take_f16(panel + l->m, r, block) : 0;
}

/* Where the number at column c of row r lies in a panel of plain floats. */
static size_t float_offset(uint32_t type, uint32_t r, uint32_t c) {
    if (type == BLOCK_F32)
        return ((size_t)c * PANEL_ROWS + r) * 4;
    if (type == BLOCK_F16)
        return ((size_t)c * PANEL_ROWS + r) * 2;
    return ((size_t)(c / 2) * PANEL_ROWS + r) * 4 + c % 2 * 2;
}

/* --- packing: the file's bits go straight to where the panel has them, four quants at a time. `to` is the
 * row's first word in the plane, words are PANEL_ROWS apart. */
#define WORD (PANEL_ROWS * sizeof(uint32_t))

static inline void copy16(uint8_t *plane, uint32_t block, uint32_t r, const uint8_t *from) {
    memcpy(plane + ((size_t)block * PANEL_ROWS + r) * 2, from, 2);
}

/* A block of 16 bytes of nibbles: the file pairs values 16 apart as the panel does. */
static inline void put_nibbles(uint8_t *to, const uint8_t *from) {
    for (uint32_t s = 0; s < 4; s++)
        store32(to + WORD * s, load32(from + 4 * s));
}

/* 32 bytes whose low nibbles are one 32-block and whose high nibbles are another. */
static inline void put_two_blocks(uint8_t *low, uint8_t *high, const uint8_t *from) {
    for (uint32_t s = 0; s < 4; s++) {
        uint32_t a = load32(from + 4 * s);
        uint32_t b = load32(from + 16 + 4 * s);
        store32(low + WORD * s, (a & 0x0F0F0F0F) | (b & 0x0F0F0F0F) << 4);
        store32(high + WORD * s, (a >> 4 & 0x0F0F0F0F) | (b & 0xF0F0F0F0));
    }
}

/* The bits of x under the mask change places with those `shift` above. */
static inline uint32_t swap_bits(uint32_t x, uint32_t shift, uint32_t mask) {
    uint32_t t = (x ^ x >> shift) & mask;
    return x ^ t ^ t << shift;
}

/* Bit 4s + b becomes bit s of byte b: both halves are transposed as 4 x 4 bits, then their nibbles mixed. */
static inline uint32_t spread_fifth_bits(uint32_t x) {
    x = swap_bits(x, 3, 0x0A0A0A0A);
    x = swap_bits(x, 6, 0x00CC00CC);
    x = swap_bits(x, 8, 0x0000FF00);
    return swap_bits(x, 4, 0x00F000F0);
}

/* In every byte: the fields of a from bit `shift` on are exchanged with those of b below it. */
static inline void exchange(uint32_t *a, uint32_t *b, uint32_t shift, uint32_t mask) {
    uint32_t t = (*a >> shift ^ *b) & mask;
    *b ^= t;
    *a ^= t << shift;
}

/* Bit g of word s becomes bit s of word g, in every byte. */
static inline void transpose_bits(uint32_t w[8]) {
    for (uint32_t i = 0; i < 4; i++)
        exchange(&w[i], &w[i + 4], 4, 0x0F0F0F0F);
    for (uint32_t i = 0; i < 8; i += i % 2 == 0 ? 1 : 3)
        exchange(&w[i], &w[i + 2], 2, 0x33333333);
    for (uint32_t i = 0; i < 8; i += 2)
        exchange(&w[i], &w[i + 1], 1, 0x55555555);
}

/* The same of four words and two-bit fields. */
static inline void transpose_pairs(uint32_t w[4]) {
    exchange(&w[0], &w[2], 4, 0x0F0F0F0F);
    exchange(&w[1], &w[3], 4, 0x0F0F0F0F);
    exchange(&w[0], &w[1], 2, 0x33333333);
    exchange(&w[2], &w[3], 2, 0x33333333);
}

/* One block of a 32-value type to row r; layouts of the file: block.c. */
static inline void put_block32(uint32_t type, const struct panel_layout *l, uint8_t *panel, uint32_t r,
                               uint32_t block, const uint8_t *from) {
    const size_t row = sizeof(uint32_t) * r;
    if (type == BLOCK_MXFP4) {
        panel[l->d + (size_t)block * PANEL_ROWS + r] = from[0];
        put_nibbles(panel + (size_t)block * 256 + row, from + 1);
        return;
    }
    copy16(panel + l->d, block, r, from);
    if (type == BLOCK_Q8_0) {
        for (uint32_t s = 0; s < 8; s++)
            store32(panel + (size_t)block * 512 + WORD * s + row, load32(from + 2 + 4 * s));
        return;
    }
    const uint8_t *at = from + 2;
    if (type == BLOCK_Q4_1 || type == BLOCK_Q5_1) {
        copy16(panel + l->m, block, r, at);
        at += 2;
    }
    if (type == BLOCK_Q5_0 || type == BLOCK_Q5_1) {
        store32(panel + l->high + WORD * block + row, spread_fifth_bits(load32(at)));
        at += 4;
    }
    put_nibbles(panel + (size_t)block * 256 + row, at);
}

static inline void put_k45(uint32_t type, const struct panel_layout *l, uint8_t *panel, uint32_t r,
                           uint32_t super, const uint8_t *from) {
    uint8_t sub[8] = {0}, submin[8] = {0};
    block_take_scales(from + 4, sub, submin);
    copy16(panel + l->d, super, r, from);
    copy16(panel + l->m, super, r, from + 2);
    for (uint32_t j = 0; j < 8; j++) {
        panel[l->sub + ((size_t)super * 8 + j) * PANEL_ROWS + r] = sub[j];
        panel[l->submin + ((size_t)super * 8 + j) * PANEL_ROWS + r] = submin[j];
    }
    const size_t row = sizeof(uint32_t) * r;
    const uint8_t *low = from + 16;
    if (type == BLOCK_Q5_K) {
        uint32_t w[8];
        memcpy(w, low, sizeof w);
        transpose_bits(w);
        for (uint32_t g = 0; g < 8; g++)
            store32(panel + l->high + WORD * (8 * super + g) + row, w[g]);
        low += 32;
    }
    uint8_t *to = panel + (size_t)super * 2048 + row;
    for (uint32_t g = 0; g < 4; g++)
        put_two_blocks(to + (size_t)512 * g, to + (size_t)512 * g + 256, low + 32 * g);
}

static inline void put_k6(const struct panel_layout *l, uint8_t *panel, uint32_t r, uint32_t super,
                          const uint8_t *from) {
    const size_t row = sizeof(uint32_t) * r;
    copy16(panel + l->d, super, r, from + 208);
    for (uint32_t j = 0; j < 16; j++)
        panel[l->sub + ((size_t)super * 16 + j) * PANEL_ROWS + r] = from[192 + j];
    for (uint32_t half = 0; half < 2; half++) {
        uint8_t *to = panel + (size_t)super * 2048 + (size_t)1024 * half + row;
        put_two_blocks(to, to + 512, from + 64 * half);
        put_two_blocks(to + 256, to + 768, from + 64 * half + 32);
        uint8_t *high = panel + l->high + WORD * (16 * super + 8 * half) + row;
        for (uint32_t i = 0; i < 2; i++) { /* the upper bits of steps 4i .. 4i + 3 */
            uint32_t w[4];
            memcpy(w, from + 128 + 32 * half + 16 * i, sizeof w);
            transpose_pairs(w);
            for (uint32_t f = 0; f < 4; f++)
                store32(high + WORD * (2 * f + i), w[f]);
        }
    }
}

/* The quants of 32-block b in the order of columns, below 2^(low_bits + high_bits). */
static inline void put_codes(const struct panel_layout *l, const struct planes *planes, uint8_t *panel,
                             uint32_t r, uint32_t b, const uint8_t *q) {
    const size_t row = sizeof(uint32_t) * r;
    uint32_t w[8];
    memcpy(w, q, sizeof w);
    if (planes->low_bits == 4) {
        for (uint32_t s = 0; s < 4; s++)
            store32(panel + (size_t)b * 256 + WORD * s + row, w[s] | w[s + 4] << 4);
        return;
    }
    uint32_t high = 0;
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t word = 0;
        for (uint32_t f = 0; f < 4; f++) {
            word |= (w[4 * i + f] & 0x03030303) << 2 * f;
            high |= (w[4 * i + f] >> 2 & 0x01010101) << (4 * i + f);
        }
        store32(panel + (size_t)b * 128 + WORD * i + row, word);
    }
    if (planes->high_bits == 1)
        store32(panel + l->high + WORD * b + row, high);
}

static inline void put16(uint8_t *plane, uint32_t block, uint32_t r, uint16_t v) {
    memcpy(plane + ((size_t)block * PANEL_ROWS + r) * 2, &v, sizeof v);
}

/* A 256-value block of the types in block_codes.c. */
static void put_parts(const struct panel_layout *l, uint8_t *panel, uint32_t r, uint32_t super,
                      const uint8_t *from) {
    const struct planes planes = planes_of(l->type);
    struct block_parts p;
    block_take_codes(l->file, from, &p);
    for (uint32_t b = 0; b < 8; b++)
        put_codes(l, &planes, panel, r, 8 * super + b, p.q + (size_t)32 * b);
    for (uint32_t j = 0; j < planes.subs; j++)
        panel[l->sub + ((size_t)super * planes.subs + j) * PANEL_ROWS + r] =
            l->type == BLOCK_Q2_K    ? (uint8_t)(p.sub[j] | p.submin[j] << 4)
            : l->type == BLOCK_IQ2_S ? (uint8_t)(p.sub[2 * j] >> 1 | p.sub[2 * j + 1] >> 1 << 4)
                                     : p.sub[j];
    put16(panel + l->d, super, r, block_to_f16(p.d));
    if (planes.m)
        put16(panel + l->m, super, r, block_to_f16(p.m));
}

static void put_as_q4_0(const struct panel_layout *l, uint8_t *panel, uint32_t r, uint32_t block,
                        const uint8_t *from) {
    uint8_t blocks[4 * 18];
    const uint32_t n = block_as_q4_0(l->file, from, blocks);
    for (uint32_t i = 0; i < n; i++)
        put_block32(BLOCK_Q4_0, l, panel, r, n * block + i, blocks + (size_t)18 * i);
}

static void put_nvfp4(uint8_t *panel, uint32_t r, uint32_t block, const uint8_t *from) {
    float v[64];
    block_take_nvfp4(from, v);
    for (uint32_t c = 0; c < 64; c++)
        put16(panel, 64 * block + c, r, block_to_f16(v[c]));
}

/* A row of 16-bit numbers beside the next one: in each column two rows are one word. */
static void put_f16_rows(const struct panel_layout *l, uint8_t *panel, uint32_t r, const uint8_t *row,
                         const uint8_t *next, uint32_t start, uint32_t end) {
    uint32_t c = start;
    for (; c + 2 <= end; c += 2) {
        uint32_t a = load32(row + (size_t)2 * c);
        uint32_t b = load32(next + (size_t)2 * c);
        store32(panel + float_offset(l->type, r, c), (a & 0xFFFF) | b << 16);
        store32(panel + float_offset(l->type, r, c + 1), a >> 16 | (b & 0xFFFF0000));
    }
    for (; c < end; c++) {
        memcpy(panel + float_offset(l->type, r, c), row + (size_t)2 * c, 2);
        memcpy(panel + float_offset(l->type, r + 1, c), next + (size_t)2 * c, 2);
    }
}

/* Columns start..end of row r: four bytes at a time where they stay together, the rest number by number. */
static void put_floats(const struct panel_layout *l, uint8_t *panel, uint32_t r, const uint8_t *row,
                       uint32_t start, uint32_t end) {
    const uint32_t bytes = block_info(l->type)->bytes;
    const uint32_t together = l->type == BLOCK_F16 ? 0 : 4 / bytes; /* start is even */
    uint32_t c = start;
    for (; together != 0 && c + together <= end; c += together)
        store32(panel + float_offset(l->type, r, c), load32(row + (size_t)bytes * c));
    for (; c < end; c++)
        memcpy(panel + float_offset(l->type, r, c), row + (size_t)2 * c, 2);
}

#define FLOAT_COLS 64 /* packed of all rows before the next: their lines are written whole */

static void pack_floats(const struct panel_layout *l, const uint8_t *rows, uint64_t row_bytes, uint32_t n,
                        uint8_t *panel) {
    for (uint32_t start = 0; start < l->cols; start += FLOAT_COLS) {
        uint32_t end = ARITH_MIN(l->cols, start + FLOAT_COLS);
        for (uint32_t r = 0; r < n; r++) {
            const uint8_t *row = rows + r * row_bytes;
            if (l->type == BLOCK_F16 && r + 1 < n) {
                put_f16_rows(l, panel, r, row, row + row_bytes, start, end);
                r++;
            } else {
                put_floats(l, panel, r, row, start, end);
            }
        }
    }
}

/* All rows of one block before the next: whole lines are written. type is a constant, so that no block asks
 * for it. */
static inline void pack_blocks(uint32_t type, const struct panel_layout *l, const uint8_t *rows,
                               uint64_t row_bytes, uint32_t n, uint8_t *panel) {
    const struct block_info *info = block_info(type);
    for (uint32_t block = 0; block < l->cols / info->values; block++) {
        const uint8_t *from = rows + (size_t)block * info->bytes;
        for (uint32_t r = 0; r < n; r++, from += row_bytes) {
            if (type == BLOCK_Q6_K)
                put_k6(l, panel, r, block, from);
            else if (type == BLOCK_Q4_K || type == BLOCK_Q5_K)
                put_k45(type, l, panel, r, block, from);
            else if (type == BLOCK_Q1_0 || type == BLOCK_Q2_0)
                put_as_q4_0(l, panel, r, block, from);
            else if (type == BLOCK_NVFP4)
                put_nvfp4(panel, r, block, from);
            else if (info->values == 256)
                put_parts(l, panel, r, block, from);
            else
                put_block32(type, l, panel, r, block, from);
        }
    }
}

/* Zeros where nothing is packed: missing rows, a last odd column, the padding after each plane (less than
 * PANEL_ALIGN). */
static void clear(const struct panel_layout *l, uint32_t n, uint8_t *panel) {
    const uint32_t ends[] = {l->high, l->sub, l->submin, l->d, l->m, l->panel_bytes};
    if (n < PANEL_ROWS) {
        memset(panel, 0, l->panel_bytes);
        return;
    }
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        memset(panel + ends[i] - PANEL_ALIGN, 0, PANEL_ALIGN);
}

void panel_pack(const struct panel_layout *l, const void *rows, uint32_t n, void *dst) {
    CHECK(n <= PANEL_ROWS);
    uint64_t row_bytes = 0;
    CHECK(block_row_bytes(l->file, l->cols, &row_bytes));
    clear(l, n, dst);
    switch (l->file) {
#define CASE(t)                                                                                              \
    case t:                                                                                                  \
        pack_blocks(t, l, rows, row_bytes, n, dst);                                                          \
        break;
        CASE(BLOCK_Q4_0)
        CASE(BLOCK_Q4_1)
        CASE(BLOCK_Q5_0)
        CASE(BLOCK_Q5_1)
        CASE(BLOCK_Q8_0)
        CASE(BLOCK_IQ4_NL)
        CASE(BLOCK_MXFP4)
        CASE(BLOCK_Q4_K)
        CASE(BLOCK_Q5_K)
        CASE(BLOCK_Q6_K)
#undef CASE
    case BLOCK_F32:
    case BLOCK_F16:
    case BLOCK_BF16:
        pack_floats(l, rows, row_bytes, n, dst);
        break;
    default:
        pack_blocks(l->file, l, rows, row_bytes, n, dst);
    }
}

void panel_decode_row(const struct panel_layout *l, const void *panels, uint32_t row, float *out) {
    CHECK(row < l->rows);
    const uint8_t *panel = (const uint8_t *)panels + (size_t)(row / PANEL_ROWS) * l->panel_bytes;
    uint32_t r = row % PANEL_ROWS;
    if (!block_is_quantised(l->type)) {
        for (uint32_t c = 0; c < l->cols; c++)
            block_decode_row(l->type, panel + float_offset(l->type, r, c), out + c, 1);
        return;
    }
    uint32_t values = block_info(l->type)->values;
    /* Of types whose blocks are of another size the panel's type decodes to the same. */
    const uint32_t type = values == block_info(l->file)->values ? l->file : l->type;
    struct block_parts p;
    for (uint32_t block = 0; block < l->cols / values; block++) {
        panel_take_apart(l, panel, r, block, &p);
        block_decode_parts(type, &p, out + (size_t)block * values);
    }
}
