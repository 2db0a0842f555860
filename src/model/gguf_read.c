/* Values and texts of an open GGUF file: typed reads that say what is wrong. Stateless. */
#include "model/gguf_file.h"

#include "base/arith.h"

#include <inttypes.h>
#include <stdio.h>
#include <math.h>
#include <string.h>

static const char *const kind_names[GGUF_KINDS] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                   "bool", "string", "array", "u64", "i64", "f64"};

const char *gguf_kind_name(enum gguf_kind k) {
    return (unsigned)k < GGUF_KINDS ? kind_names[k] : "unknown";
}

bool gguf_text_is(struct gguf_text t, const char *s) {
    size_t n = strlen(s);
    return t.length == n && memcmp(t.data, s, n) == 0;
}

const char *gguf_show(struct gguf_text t, char *out) {
    const uint64_t room = GGUF_SHOWN - 4;
    uint64_t n = ARITH_MIN(t.length, room);
    for (uint64_t i = 0; i < n; i++)
        out[i] = t.data[i] >= ' ' && t.data[i] <= '~' ? t.data[i] : '?';
    out[n] = '\0';
    if (t.length > room)
        strcpy(out + n, "...");
    return out;
}

stator_status gguf_error(const struct gguf *g, stator_error *e, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    error_vset(e, STATOR_BAD_MODEL, fmt, ap);
    va_end(ap);
    gguf_file_prefix(e, gguf_path(g, 0));
    return STATOR_BAD_MODEL;
}

/* "string" or "array of u32". */
static const char *kind_text(const struct gguf_value *v, char out[32]) {
    snprintf(out, 32, "%s%s", v->kind == GGUF_ARRAY ? "array of " : "",
             gguf_kind_name(v->kind == GGUF_ARRAY ? v->item : v->kind));
    return out;
}

static stator_status mistyped(const struct gguf *g, const char *key, const struct gguf_value *v,
                              const char *expected, stator_error *e) {
    char text[32];
    return gguf_error(g, e, "key '%s' has type %s, expected %s", key, kind_text(v, text), expected);
}

static stator_status missing(const struct gguf *g, const char *key, stator_error *e) {
    return gguf_error(g, e, "key '%s' is missing", key);
}

static stator_status as_u64(const struct gguf *g, const char *key, const struct gguf_value *value,
                            uint64_t min, uint64_t max, uint64_t *v, stator_error *e) {
    if (value->kind == GGUF_ARRAY || value->kind == GGUF_STRING || value->kind == GGUF_BOOL ||
        value->kind == GGUF_F32 || value->kind == GGUF_F64)
        return mistyped(g, key, value, "an integer", e);
    if (!gguf_file_integer(value, v))
        return gguf_error(g, e, "key '%s' is %" PRId64 ", expected %" PRIu64 " to %" PRIu64, key,
                          gguf_item_i64(value, 0), min, max);
    if (*v < min || *v > max)
        return gguf_error(g, e, "key '%s' is %" PRIu64 ", expected %" PRIu64 " to %" PRIu64, key, *v, min,
                          max);
    return STATOR_OK;
}

stator_status gguf_read_u64(const struct gguf *g, const char *key, uint64_t min, uint64_t max, uint64_t *v,
                            stator_error *e) {
    struct gguf_value value;
    return gguf_find(g, key, &value) ? as_u64(g, key, &value, min, max, v, e) : missing(g, key, e);
}

stator_status gguf_read_u64_or(const struct gguf *g, const char *key, uint64_t min, uint64_t max,
                               uint64_t fallback, uint64_t *v, stator_error *e) {
    struct gguf_value value;
    if (gguf_find(g, key, &value))
        return as_u64(g, key, &value, min, max, v, e);
    *v = fallback;
    return STATOR_OK;
}

static stator_status as_f32(const struct gguf *g, const char *key, const struct gguf_value *value, float *v,
                            stator_error *e) {
    if (value->kind != GGUF_F32 && value->kind != GGUF_F64)
        return mistyped(g, key, value, "f32", e);
    *v = gguf_item_f32(value, 0);
    if (!isfinite(*v))
        return gguf_error(g, e, "key '%s' is not a finite number", key);
    return STATOR_OK;
}

stator_status gguf_read_f32(const struct gguf *g, const char *key, float *v, stator_error *e) {
    struct gguf_value value;
    return gguf_find(g, key, &value) ? as_f32(g, key, &value, v, e) : missing(g, key, e);
}

stator_status gguf_read_f32_or(const struct gguf *g, const char *key, float fallback, float *v,
                               stator_error *e) {
    struct gguf_value value;
    if (gguf_find(g, key, &value))
        return as_f32(g, key, &value, v, e);
    *v = fallback;
    return STATOR_OK;
}

stator_status gguf_read_bool_or(const struct gguf *g, const char *key, bool fallback, bool *v,
                                stator_error *e) {
    struct gguf_value value;
    *v = fallback;
    if (!gguf_find(g, key, &value))
        return STATOR_OK;
    if (value.kind != GGUF_BOOL)
        return mistyped(g, key, &value, "bool", e);
    *v = value.data[0] != 0;
    return STATOR_OK;
}

stator_status gguf_read_text(const struct gguf *g, const char *key, struct gguf_text *v, stator_error *e) {
    struct gguf_value value;
    if (!gguf_find(g, key, &value))
        return missing(g, key, e);
    if (value.kind != GGUF_STRING)
        return mistyped(g, key, &value, "string", e);
    const uint8_t *cursor = value.data;
    *v = gguf_next_text(&cursor);
    return STATOR_OK;
}

stator_status gguf_read_array(const struct gguf *g, const char *key, enum gguf_kind item,
                              struct gguf_value *v, stator_error *e) {
    if (!gguf_find(g, key, v))
        return missing(g, key, e);
    if (v->kind == GGUF_ARRAY && v->item == item)
        return STATOR_OK;
    char expected[32];
    return mistyped(g, key, v, kind_text(&(struct gguf_value){.kind = GGUF_ARRAY, .item = item}, expected),
                    e);
}

struct gguf_text gguf_next_text(const uint8_t **cursor) {
    uint64_t n;
    memcpy(&n, *cursor, sizeof n);
    struct gguf_text t = {(const char *)*cursor + sizeof n, n};
    *cursor += sizeof n + n;
    return t;
}

static enum gguf_kind kind_of(const struct gguf_value *v, uint64_t i) {
    CHECK(i < v->count);
    return v->kind == GGUF_ARRAY ? v->item : v->kind;
}

float gguf_item_f32(const struct gguf_value *v, uint64_t i) {
    float f;
    double d;
    switch (kind_of(v, i)) {
    case GGUF_F32:
        memcpy(&f, v->data + i * sizeof f, sizeof f);
        return f;
    case GGUF_F64:
        memcpy(&d, v->data + i * sizeof d, sizeof d);
        return (float)d;
    default:
        CHECK(!"a float kind");
        return 0;
    }
}

#define ITEM(type)                                                                                           \
    {                                                                                                        \
        type item;                                                                                           \
        memcpy(&item, v->data + i * sizeof item, sizeof item);                                               \
        return (int64_t)item;                                                                                \
    }

int64_t gguf_item_i64(const struct gguf_value *v, uint64_t i) {
    switch (kind_of(v, i)) {
    case GGUF_U8:
        ITEM(uint8_t)
    case GGUF_I8:
        ITEM(int8_t)
    case GGUF_U16:
        ITEM(uint16_t)
    case GGUF_I16:
        ITEM(int16_t)
    case GGUF_U32:
        ITEM(uint32_t)
    case GGUF_I32:
        ITEM(int32_t)
    case GGUF_U64:
        ITEM(uint64_t)
    case GGUF_I64:
        ITEM(int64_t)
    case GGUF_BOOL:
        return v->data[i] != 0;
    default:
        CHECK(!"an integer kind");
        return 0;
    }
}

stator_status gguf_read_token_text(const struct gguf *g, const char *key, struct gguf_text *text,
                                   stator_error *e) {
    static const char tokens_key[] = "tokenizer.ggml.tokens";
    struct gguf_value tokens;
    uint64_t id = 0;
    *text = (struct gguf_text){.data = "", .length = 0};
    if (!gguf_find(g, key, &tokens) || !gguf_find(g, tokens_key, &tokens))
        return STATOR_OK;
    stator_status st = gguf_read_array(g, tokens_key, GGUF_STRING, &tokens, e);
    if (st != STATOR_OK || tokens.count == 0)
        return st;
    st = gguf_read_u64(g, key, 0, tokens.count - 1, &id, e);
    if (st != STATOR_OK)
        return st;
    const uint8_t *cursor = tokens.data;
    *text = gguf_next_text(&cursor);
    for (; id > 0; id--)
        *text = gguf_next_text(&cursor);
    return STATOR_OK;
}
