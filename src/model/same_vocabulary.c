#include "model/same_vocabulary.h"

#include "base/arith.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TOKENS "tokenizer.ggml.tokens"
#define KINDS  "tokenizer.ggml.token_type"
#define UNUSED 5 /* of those types */

struct pair {
    const struct gguf *a, *b;
    stator_error *e;
};

__attribute__((format(printf, 2, 3))) static stator_status differ(const struct pair *p, const char *format,
                                                                  ...) {
    char what[256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return error_set(p->e, STATOR_USAGE, "%.120s and %.120s have different vocabularies: %s",
                     gguf_path(p->a, 0), gguf_path(p->b, 0), what);
}

/* The arrays of both, or of neither (*there false); they may have different lengths. */
static stator_status arrays(const struct pair *p, const char *key, struct gguf_value *a, struct gguf_value *b,
                            bool *there) {
    const bool in_a = gguf_find(p->a, key, a), in_b = gguf_find(p->b, key, b);
    *there = in_a && in_b;
    if (in_a != in_b)
        return differ(p, "only the %s has %s", in_a ? "first" : "second", key);
    if (*there && (a->kind != GGUF_ARRAY || b->kind != GGUF_ARRAY || a->item != b->item))
        return differ(p, "%s is of another kind", key);
    return STATOR_OK;
}

static bool is_number(const struct gguf_value *v) {
    return v->item == GGUF_I32 || v->item == GGUF_U32;
}

/* What a file has beyond the other's tokens, `from` on, must be unused: rows that fill its matrices up, of
 * which sizes of one family often have different numbers. */
static stator_status only_padding(const struct pair *p, const struct gguf *g, uint64_t from, uint64_t a,
                                  uint64_t b) {
    struct gguf_value kinds;
    const bool known = gguf_find(g, KINDS, &kinds) && kinds.kind == GGUF_ARRAY && is_number(&kinds);
    for (uint64_t i = from; i < ARITH_MAX(a, b); i++)
        if (!known || i >= kinds.count || gguf_item_i64(&kinds, i) != UNUSED)
            return differ(p,
                          "%" PRIu64 " and %" PRIu64 " tokens, and those beyond are not all unused ones: "
                          "token %" PRIu64 " has %s",
                          a, b, i, known && i < kinds.count ? "another type" : "no type");
    return STATOR_OK;
}

static stator_status same_texts(const struct pair *p) {
    struct gguf_value a, b;
    bool there = false;
    stator_status st = arrays(p, TOKENS, &a, &b, &there);
    if (st != STATOR_OK || !there)
        return st;
    if (a.item != GGUF_STRING)
        return differ(p, TOKENS " are no texts");
    const uint8_t *at_a = a.data, *at_b = b.data;
    const uint64_t n = ARITH_MIN(a.count, b.count);
    if (a.count != b.count)
        st = only_padding(p, a.count > n ? p->a : p->b, n, a.count, b.count);
    for (uint64_t i = 0; i < n && st == STATOR_OK; i++) {
        char shown_a[GGUF_SHOWN], shown_b[GGUF_SHOWN];
        const struct gguf_text x = gguf_next_text(&at_a), y = gguf_next_text(&at_b);
        if (x.length != y.length || memcmp(x.data, y.data, x.length) != 0)
            return differ(p, "token %" PRIu64 " is \"%.60s\" and \"%.60s\"", i, gguf_show(x, shown_a),
                          gguf_show(y, shown_b));
    }
    return st;
}

static stator_status same_kinds(const struct pair *p) {
    struct gguf_value a, b;
    bool there = false;
    stator_status st = arrays(p, KINDS, &a, &b, &there);
    if (st != STATOR_OK || !there)
        return st;
    if (!is_number(&a))
        return differ(p, KINDS " are no numbers");
    for (uint64_t i = 0; i < ARITH_MIN(a.count, b.count); i++)
        if (gguf_item_i64(&a, i) != gguf_item_i64(&b, i))
            return differ(p, "token %" PRIu64 " has the type %" PRId64 " and %" PRId64, i,
                          gguf_item_i64(&a, i), gguf_item_i64(&b, i));
    return STATOR_OK;
}

static stator_status same_specials(const struct pair *p) {
    static const char *const names[] = {"bos", "eos", "eot", "eom", "unknown"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char key[64];
        uint64_t a = 0, b = 0;
        snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", names[i]);
        stator_status st = gguf_read_u64_or(p->a, key, 0, UINT32_MAX, UINT64_MAX, &a, p->e);
        if (st == STATOR_OK)
            st = gguf_read_u64_or(p->b, key, 0, UINT32_MAX, UINT64_MAX, &b, p->e);
        if (st != STATOR_OK)
            return st;
        if ((a == UINT64_MAX) != (b == UINT64_MAX))
            return differ(p, "only the %s has %s", b == UINT64_MAX ? "first" : "second", key);
        if (a != b)
            return differ(p, "%s is %" PRIu64 " and %" PRIu64, key, a, b);
    }
    return STATOR_OK;
}

stator_status same_vocabulary(const struct gguf *a, const struct gguf *b, stator_error *e) {
    const struct pair p = {.a = a, .b = b, .e = e};
    stator_status st = same_texts(&p);
    if (st == STATOR_OK)
        st = same_kinds(&p);
    return st == STATOR_OK ? same_specials(&p) : st;
}
