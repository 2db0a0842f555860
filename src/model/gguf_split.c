/* The halves of attn_kv_b: which bytes of the file, or which values of its blocks, a byte of them is. No
 * state. */
#include "model/gguf_split.h"

#include "base/arith.h"
#include "base/check.h"
#include "formats/block.h"

#include <stdio.h>
#include <string.h>

enum { ROWS_AT_ONCE = 8 };

static uint64_t row_bytes(const struct gguf_tensor *t) {
    uint64_t bytes = 0;
    const bool whole = block_row_bytes(t->type, t->ne[0], &bytes);
    CHECK(whole);
    return bytes;
}

/* "blk.3.attn_kv_b.weight" becomes "blk.3.attn_k_b.weight". */
static void name_part(struct gguf_split *s, const char *part) {
    static const char whole[] = "attn_kv_b.weight";
    const struct gguf_text of = s->of->name;
    CHECK(of.length >= sizeof whole - 1);
    const int n =
        snprintf(s->name, sizeof s->name, "%.*s%s", (int)(of.length - (sizeof whole - 1)), of.data, part);
    CHECK(n > 0 && n < GGUF_SPLIT_NAME);
    s->t.name = (struct gguf_text){.data = s->name, .length = (uint64_t)n};
}

void gguf_split_make(struct gguf_split pair[2], const struct gguf_tensor *of, uint32_t k, uint32_t v) {
    const uint64_t heads = of->ne[1] / ((uint64_t)k + v);
    CHECK(of->ne[0] <= GGUF_SPLIT_COLUMNS && heads * ((uint64_t)k + v) == of->ne[1]);
    for (uint32_t i = 0; i < 2; i++) {
        pair[i] = (struct gguf_split){.t = *of, .of = of, .k = k, .v = v, .turned = i == 0};
        pair[i].t.n_dims = 3;
        pair[i].t.ne[2] = heads;
        pair[i].t.factor = 0;
    }
    pair[0].t.type = BLOCK_F32;
    pair[0].t.ne[0] = k;
    pair[0].t.ne[1] = of->ne[0];
    pair[0].t.bytes = arith_must_mul(arith_must_mul(heads * k, of->ne[0]), sizeof(float));
    pair[1].t.ne[1] = v;
    pair[1].t.bytes = arith_must_mul(heads * v, row_bytes(of));
    name_part(&pair[0], "attn_k_b.weight");
    name_part(&pair[1], "attn_v_b.weight");
}

static stator_status load_values(const struct gguf *g, const struct gguf_split *s, uint64_t from, uint64_t n,
                                 uint8_t *out, stator_error *e) {
    const uint64_t row = row_bytes(s->of), head = s->v * row;
    stator_status st = STATOR_OK;
    while (n > 0 && st == STATOR_OK) {
        const uint64_t h = from / head, at = from % head, now = ARITH_MIN(n, head - at);
        st = gguf_load(g, s->of, (h * (s->k + s->v) + s->k) * row + at, now, out, e);
        from += now;
        out += now;
        n -= now;
    }
    return st;
}

/* Bytes [from, from + n) of a float at byte `at` of the tensor, if it is there. */
static void put(float x, uint64_t at, uint64_t from, uint64_t n, uint8_t *out) {
    const uint64_t low = ARITH_MAX(at, from), high = ARITH_MIN(at + sizeof x, from + n);
    if (low < high)
        memcpy(out + (low - from), (const uint8_t *)&x + (low - at), high - low);
}

/* What is wanted of a head: row j of the file is column j here. */
static stator_status load_head(const struct gguf *g, const struct gguf_split *s, uint64_t h, uint64_t from,
                               uint64_t n, uint8_t *out, stator_error *e) {
    const uint64_t row = row_bytes(s->of), line = (uint64_t)s->k * sizeof(float), columns = s->of->ne[0];
    const uint64_t begin = h * columns * line;
    const uint64_t first = from > begin ? (from - begin) / line : 0;
    const uint64_t end = ARITH_MIN(columns, arith_ceil_div(from + n - begin, line));
    uint8_t rows[ROWS_AT_ONCE * GGUF_SPLIT_COLUMNS * sizeof(float)];
    float values[GGUF_SPLIT_COLUMNS];
    for (uint32_t j = 0; j < s->k; j += ROWS_AT_ONCE) {
        const uint32_t now = ARITH_MIN((uint32_t)ROWS_AT_ONCE, s->k - j);
        CHECK(now * row <= sizeof rows);
        stator_status st = gguf_load(g, s->of, (h * (s->k + s->v) + j) * row, now * row, rows, e);
        if (st != STATOR_OK)
            return st;
        for (uint32_t i = 0; i < now; i++) {
            block_decode_row(s->of->type, rows + i * row, values, columns);
            for (uint64_t c = first; c < end; c++)
                put(values[c], begin + c * line + (j + i) * sizeof(float), from, n, out);
        }
    }
    return STATOR_OK;
}

stator_status gguf_split_load(const struct gguf *g, const struct gguf_split *s, uint64_t from, uint64_t n,
                              uint8_t *out, stator_error *e) {
    if (!s->turned)
        return load_values(g, s, from, n, out, e);
    const uint64_t head = s->of->ne[0] * s->k * sizeof(float);
    stator_status st = STATOR_OK;
    for (uint64_t h = from / head; h * head < from + n && st == STATOR_OK; h++)
        st = load_head(g, s, h, from, n, out, e);
    return st;
}
