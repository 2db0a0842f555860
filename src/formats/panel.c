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
    uint32_t low_bits;  /* of a quant in the quants plane: 4 or 8 */
    uint32_t high_bits; /* of a quant in the high plane: 0, 1, 2 */
    uint32_t subs;      /* sub-scales in a block */
    uint32_t submins;   /* sub-minima in a block */
    bool m;
};

static struct planes planes_of(uint32_t type) {
    switch (type) {
    case BLOCK_Q4_0:
        return (struct planes){4, 0, 0, 0, false};
    case BLOCK_Q4_1:
        return (struct planes){4, 0, 0, 0, true};
    case BLOCK_Q5_0:
        return (struct planes){4, 1, 0, 0, false};
    case BLOCK_Q5_1:
        return (struct planes){4, 1, 0, 0, true};
    case BLOCK_Q8_0:
        return (struct planes){8, 0, 0, 0, false};
    case BLOCK_Q4_K:
        return (struct planes){4, 0, 8, 8, true};
    case BLOCK_Q5_K:
        return (struct planes){4, 1, 8, 8, true};
    default:
        CHECK(type == BLOCK_Q6_K);
        return (struct planes){4, 2, 16, 0, false};
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

bool panel_layout_init(struct panel_layout *l, uint32_t type, uint64_t rows, uint64_t cols) {
    const struct block_info *info = block_info(type);
    if (info == NULL || !info->computable || rows == 0 || cols == 0 || rows > UINT32_MAX ||
        cols > UINT32_MAX || cols % info->values != 0)
        return false;
    struct planes planes = {0};
    if (block_is_quantised(type))
        planes = planes_of(type);
    uint64_t blocks = cols / info->values;
    uint64_t at = arith_round_up(quants_bytes(type, cols), PANEL_ALIGN);
    uint64_t size[5] = {
        cols * PANEL_ROWS * planes.high_bits / 8, blocks * PANEL_ROWS * planes.subs,
        blocks * PANEL_ROWS * planes.submins,     block_is_quantised(type) ? blocks * PANEL_ROWS * 2 : 0,
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
        .rows = (uint32_t)rows,
        .cols = (uint32_t)cols,
        .panels = (uint32_t)arith_ceil_div(rows, PANEL_ROWS),
        .panel_bytes = (uint32_t)at,
        .high = (uint32_t)offset[0],
        .sub = (uint32_t)offset[1],
        .submin = (uint32_t)offset[2],
        .d = (uint32_t)offset[3],
        .m = (uint32_t)offset[4],
    };
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

/* Four quants' high bits (from bit 4 on), as the field number `field` of a u32 of the high plane. */
static uint32_t high_word(uint32_t quants, uint32_t high_bits, uint32_t field) {
    uint32_t mask = high_bits == 1 ? 0x01010101 : 0x03030303;
    return (quants >> 4 & mask) << high_bits * field;
}

static uint32_t high_quants(uint32_t word, uint32_t high_bits, uint32_t field) {
    uint32_t mask = high_bits == 1 ? 0x01010101 : 0x03030303;
    return (word >> high_bits * field & mask) << 4;
}

/* The 32 quants q to row r, the panel's 32-block b. */
static void put_quants(const struct panel_layout *l, const struct planes *planes, uint8_t *panel, uint32_t r,
                       uint32_t b, const uint8_t *q) {
    if (planes->low_bits == 8) {
        uint8_t *to = panel + (size_t)b * 512 + 4 * r;
        for (uint32_t s = 0; s < 8; s++)
            store32(to + 64 * s, load32(q + 4 * s));
        return;
    }
    uint8_t *to = panel + (size_t)b * 256 + 4 * r;
    for (uint32_t s = 0; s < 4; s++) {
        uint32_t low = load32(q + 4 * s) & 0x0F0F0F0F;
        uint32_t high = load32(q + 16 + 4 * s) & 0x0F0F0F0F;
        store32(to + 64 * s, low | high << 4);
    }
    uint32_t fields = planes->high_bits == 2 ? 4 : 8;
    for (uint32_t w = 0; w < planes->high_bits; w++) {
        uint32_t word = 0;
        for (uint32_t f = 0; f < fields; f++)
            word |= high_word(load32(q + 4 * (fields * w + f)), planes->high_bits, f);
        store32(panel + l->high + ((size_t)b * planes->high_bits + w) * 64 + 4 * r, word);
    }
}

static void take_quants(const struct panel_layout *l, const struct planes *planes, const uint8_t *panel,
                        uint32_t r, uint32_t b, uint8_t *q) {
    if (planes->low_bits == 8) {
        const uint8_t *from = panel + (size_t)b * 512 + 4 * r;
        for (uint32_t s = 0; s < 8; s++)
            store32(q + 4 * s, load32(from + 64 * s));
        return;
    }
    const uint8_t *from = panel + (size_t)b * 256 + 4 * r;
    for (uint32_t s = 0; s < 4; s++) {
        uint32_t both = load32(from + 64 * s);
        store32(q + 4 * s, both & 0x0F0F0F0F);
        store32(q + 16 + 4 * s, both >> 4 & 0x0F0F0F0F);
    }
    uint32_t fields = planes->high_bits == 2 ? 4 : 8;
    for (uint32_t w = 0; w < planes->high_bits; w++) {
        uint32_t word = load32(panel + l->high + ((size_t)b * planes->high_bits + w) * 64 + 4 * r);
        for (uint32_t f = 0; f < fields; f++) {
            uint8_t *four = q + 4 * (fields * w + f);
            store32(four, load32(four) | high_quants(word, planes->high_bits, f));
        }
    }
}

static void put_f16(uint8_t *plane, uint32_t r, uint32_t block, uint16_t v) {
    memcpy(plane + ((size_t)block * PANEL_ROWS + r) * 2, &v, sizeof v);
}

static uint16_t take_f16(const uint8_t *plane, uint32_t r, uint32_t block) {
    uint16_t v;
    memcpy(&v, plane + ((size_t)block * PANEL_ROWS + r) * 2, sizeof v);
    return v;
}

static void put_block(const struct panel_layout *l, const struct planes *planes, uint8_t *panel, uint32_t r,
                      uint32_t block, const struct block_parts *p) {
    uint32_t values = block_info(l->type)->values;
    for (uint32_t b = 0; b < values / 32; b++)
        put_quants(l, planes, panel, r, block * (values / 32) + b, p->q + 32 * b);
    for (uint32_t j = 0; j < planes->subs; j++)
        panel[l->sub + ((size_t)block * planes->subs + j) * PANEL_ROWS + r] = p->sub[j];
    for (uint32_t j = 0; j < planes->submins; j++)
        panel[l->submin + ((size_t)block * planes->submins + j) * PANEL_ROWS + r] = p->submin[j];
    put_f16(panel + l->d, r, block, p->d);
    if (planes->m)
        put_f16(panel + l->m, r, block, p->m);
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
    p->d = take_f16(panel + l->d, r, block);
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

void panel_pack(const struct panel_layout *l, const void *rows, uint32_t n, void *dst) {
    CHECK(n <= PANEL_ROWS);
    uint64_t row_bytes = 0;
    CHECK(block_row_bytes(l->type, l->cols, &row_bytes));
    const struct block_info *info = block_info(l->type);
    /* Missing rows, a last odd column and the padding behind a plane. */
    memset(dst, 0, l->panel_bytes);
    if (!block_is_quantised(l->type)) {
        uint8_t *panel = dst;
        for (uint32_t r = 0; r < n; r++) {
            const uint8_t *row = (const uint8_t *)rows + r * row_bytes;
            for (uint32_t c = 0; c < l->cols; c++)
                memcpy(panel + float_offset(l->type, r, c), row + (size_t)c * info->bytes, info->bytes);
        }
        return;
    }
    struct planes planes = planes_of(l->type);
    struct block_parts p;
    for (uint32_t block = 0; block < l->cols / info->values; block++) {
        for (uint32_t r = 0; r < n; r++) {
            block_take_apart(l->type, (const uint8_t *)rows + r * row_bytes + (size_t)block * info->bytes,
                             &p);
            put_block(l, &planes, dst, r, block, &p);
        }
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
    struct block_parts p;
    for (uint32_t block = 0; block < l->cols / values; block++) {
        panel_take_apart(l, panel, r, block, &p);
        block_decode_parts(l->type, &p, out + (size_t)block * values);
    }
}
