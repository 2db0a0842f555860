/* Reading a vocabulary out of the metadata, and the hash table from text to id: open addressing with linear
 * probing, two thirds full, filled once at start-up. */
#include "tokenizer/vocab.h"

#include "base/hash.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static stator_status read_scores(const struct gguf *g, struct vocab_file *f, stator_error *e) {
    const char *key = "tokenizer.ggml.scores";
    f->has_scores = gguf_find(g, key, &f->scores);
    if (!f->has_scores)
        return STATOR_OK;
    enum gguf_kind item = f->scores.kind == GGUF_ARRAY && f->scores.item == GGUF_I32 ? GGUF_I32 : GGUF_F32;
    stator_status s = gguf_read_array(g, key, item, &f->scores, e);
    if (s != STATOR_OK)
        return s;
    if (f->scores.count != f->tokens.count)
        return error_set(e, STATOR_BAD_MODEL,
                         "%s: %s has %" PRIu64 " items, but there are %" PRIu64 " tokens", gguf_path(g, 0),
                         key, f->scores.count, f->tokens.count);
    return STATOR_OK;
}

static stator_status read_types(const struct gguf *g, struct vocab_file *f, stator_error *e) {
    const char *key = "tokenizer.ggml.token_type";
    f->has_types = gguf_find(g, key, &f->types);
    if (!f->has_types)
        return STATOR_OK;
    enum gguf_kind item = f->types.kind == GGUF_ARRAY && f->types.item == GGUF_U32 ? GGUF_U32 : GGUF_I32;
    stator_status s = gguf_read_array(g, key, item, &f->types, e);
    if (s != STATOR_OK)
        return s;
    if (f->types.count != f->tokens.count)
        return error_set(e, STATOR_BAD_MODEL,
                         "%s: %s has %" PRIu64 " items, but there are %" PRIu64 " tokens", gguf_path(g, 0),
                         key, f->types.count, f->tokens.count);
    for (uint64_t i = 0; i < f->types.count; i++) {
        int64_t type = gguf_item_i64(&f->types, i);
        f->n_special += type >= 2 && type <= 4;
    }
    return STATOR_OK;
}

stator_status vocab_read(const struct gguf *g, struct vocab_file *f, stator_error *e) {
    memset(f, 0, sizeof *f);
    const char *key = "tokenizer.ggml.tokens";
    stator_status s = gguf_read_array(g, key, GGUF_STRING, &f->tokens, e);
    if (s != STATOR_OK)
        return s;
    if (f->tokens.count == 0 || f->tokens.count > VOCAB_TOKENS_MAX)
        return error_set(e, STATOR_BAD_MODEL, "%s: %s has %" PRIu64 " tokens, expected 1 to %u",
                         gguf_path(g, 0), key, f->tokens.count, VOCAB_TOKENS_MAX);
    if (f->tokens.bytes > UINT32_MAX)
        return error_set(e, STATOR_BAD_MODEL,
                         "%s: %s has %" PRIu64 " bytes of texts, expected less than 4 GiB", gguf_path(g, 0),
                         key, f->tokens.bytes);
    s = read_scores(g, f, e);
    return s != STATOR_OK ? s : read_types(g, f, e);
}

void vocab_carve(struct vocab *v, const struct vocab_file *f, struct carve *c) {
    v->n = (uint32_t)f->tokens.count;
    v->n_slots = v->n + v->n / 2 + 1;
    v->at = carve_take(c, v->n, sizeof *v->at);
    v->length = carve_take(c, v->n, sizeof *v->length);
    v->bits = carve_take(c, v->n, sizeof *v->bits);
    v->slots = carve_take(c, v->n_slots, sizeof *v->slots);
}

/* The slot of this text, or the empty one where it belongs. */
static struct vocab_slot *find_slot(const struct vocab *v, const char *text, uint64_t n) {
    uint64_t hash = hash_of(text, n);
    uint32_t tag = (uint32_t)hash;
    uint32_t at = (uint32_t)(((hash >> 32) * v->n_slots) >> 32);
    for (;;) {
        struct vocab_slot *slot = &v->slots[at];
        if (slot->id < 0 ||
            (slot->tag == tag && v->length[slot->id] == n && memcmp(v->base + v->at[slot->id], text, n) == 0))
            return slot;
        at = at + 1 < v->n_slots ? at + 1 : 0;
    }
}

static uint8_t bits_of_type(int64_t type) {
    static const uint8_t bits[] = {0,          VOCAB_NORMAL, VOCAB_UNKNOWN, VOCAB_CONTROL,
                                   VOCAB_USER, VOCAB_UNUSED, VOCAB_BYTE};
    return type >= 0 && type < (int64_t)sizeof bits ? bits[type] : 0;
}

stator_status vocab_fill(struct vocab *v, const struct vocab_file *f, const struct gguf *g, stator_error *e) {
    v->base = (const char *)f->tokens.data;
    v->scores = f->scores;
    v->has_scores = f->has_scores;
    v->longest = 0;
    for (uint32_t i = 0; i < v->n_slots; i++)
        v->slots[i] = (struct vocab_slot){0, -1};
    const uint8_t *cursor = f->tokens.data;
    for (uint32_t i = 0; i < v->n; i++) {
        struct gguf_text text = gguf_next_text(&cursor);
        if (text.length > VOCAB_TEXT_MAX)
            return error_set(e, STATOR_BAD_MODEL,
                             "%s: token %u of tokenizer.ggml.tokens has %" PRIu64
                             " bytes, expected at most %d",
                             gguf_path(g, 0), i, text.length, VOCAB_TEXT_MAX);
        v->at[i] = (uint32_t)(text.data - v->base);
        v->length[i] = (uint16_t)text.length;
        v->bits[i] = f->has_types ? bits_of_type(gguf_item_i64(&f->types, i)) : VOCAB_NORMAL;
        v->longest = ARITH_MAX(v->longest, (uint32_t)text.length);
        if (v->has_scores && isnan(vocab_score(v, (int32_t)i)))
            return error_set(e, STATOR_BAD_MODEL, "%s: tokenizer.ggml.scores: item %u is not a number",
                             gguf_path(g, 0), i);
        if (text.length == 0)
            continue;
        struct vocab_slot *slot = find_slot(v, text.data, text.length);
        if (slot->id >= 0)
            return error_set(e, STATOR_BAD_MODEL,
                             "%s: tokenizer.ggml.tokens: tokens %d and %u have the same text \"%.*s\"",
                             gguf_path(g, 0), slot->id, i, (int)ARITH_MIN(text.length, 64), text.data);
        *slot = (struct vocab_slot){(uint32_t)hash_of(text.data, text.length), (int32_t)i};
    }
    return STATOR_OK;
}

int32_t vocab_find(const struct vocab *v, const char *text, uint64_t n) {
    return n == 0 || n > v->longest ? -1 : find_slot(v, text, n)->id;
}

int32_t vocab_find_name(const struct vocab *v, const char *name) {
    return vocab_find(v, name, strlen(name));
}

float vocab_score(const struct vocab *v, int32_t id) {
    if (!v->has_scores)
        return 0;
    return v->scores.item == GGUF_I32 ? (float)gguf_item_i64(&v->scores, (uint64_t)id)
                                      : gguf_item_f32(&v->scores, (uint64_t)id);
}

stator_status vocab_read_id(const struct gguf *g, const struct vocab *v, const char *key, int32_t fallback,
                            int32_t *id, stator_error *e) {
    *id = fallback < (int32_t)v->n ? fallback : -1;
    struct gguf_value there;
    if (!gguf_find(g, key, &there))
        return STATOR_OK;
    uint64_t value = 0;
    stator_status s = gguf_read_u64(g, key, 0, v->n - 1, &value, e);
    if (s == STATOR_OK)
        *id = (int32_t)value;
    return s;
}
