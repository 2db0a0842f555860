/* Models whose layers differ. Layers with a window have heads of their own (keys
 * ARCH.attention.key_length_swa and value_length_swa, ARCH.rope.dimension_count_swa,
 * ARCH.attention.head_count_kv as an array); the width of the feed-forward differs (ARCH.feed_forward_length
 * as an array); the last layers have no K and V (ARCH.attention.shared_kv_layers). */
#include "model/shape.h"

#include "base/arith.h"

#include <inttypes.h>
#include <stdio.h>

enum { MAX_HEADS = 4096, MAX_WIDTH = 1 << 20 };

/* An array of integers, one per layer. */
static stator_status check_integers(const struct gguf *g, const struct shape *s, const char *key,
                                    const struct gguf_value *v, stator_error *e) {
    if (v->item == GGUF_STRING || v->item == GGUF_F32 || v->item == GGUF_F64 || v->item == GGUF_BOOL)
        return gguf_error(g, e, "key '%s' has type array of %s, expected an integer, or one per layer", key,
                          gguf_kind_name(v->item));
    if (v->count != s->n_layers)
        return gguf_error(g, e,
                          "key '%s' has %" PRIu64 " items, expected one for each of the %" PRIu32 " layers",
                          key, v->count, s->n_layers);
    return STATOR_OK;
}

/* The number of the layers that have the window, or of those that have not. 0 in *n: there are none. */
static stator_status read_kind(const struct gguf *g, const struct shape *s, const char *key,
                               const struct gguf_value *v, bool window, uint32_t *n, stator_error *e) {
    uint32_t first = 0;
    *n = 0;
    for (uint32_t i = 0; i < s->n_layers; i++) {
        if (shape_has_window(s, i) != window)
            continue;
        const int64_t here = gguf_item_i64(v, i);
        if (here < 1 || here > MAX_HEADS)
            return gguf_error(g, e, "key '%s' is %" PRId64 " in layer %" PRIu32 ", expected 1 to %d", key,
                              here, i, MAX_HEADS);
        if (*n != 0 && *n != here)
            return gguf_error(g, e,
                              "key '%s' differs between layers %s a window (%" PRIu32 " in layer %" PRIu32
                              ", %" PRId64 " in layer %" PRIu32 "): expected one number for all of them",
                              key, window ? "with" : "without", *n, first, here, i);
        if (*n == 0)
            first = i;
        *n = (uint32_t)here;
    }
    return STATOR_OK;
}

stator_status shape_read_kv_heads_by_kind(const struct gguf *g, struct shape *s, stator_error *e) {
    char key[96];
    struct gguf_value v;
    uint32_t full = 0, window = 0;
    snprintf(key, sizeof key, "%s.attention.head_count_kv", s->arch_name);
    if (!gguf_find(g, key, &v) || v.kind != GGUF_ARRAY) {
        stator_status st = shape_read_u32(g, s, "attention.head_count_kv", 1, MAX_HEADS, &s->n_kv_heads, e);
        s->window_heads.n_kv = s->n_kv_heads;
        return st;
    }
    stator_status st = check_integers(g, s, key, &v, e);
    if (st == STATOR_OK)
        st = read_kind(g, s, key, &v, false, &full, e);
    if (st == STATOR_OK)
        st = read_kind(g, s, key, &v, true, &window, e);
    s->n_kv_heads = full != 0 ? full : window;
    s->window_heads.n_kv = window != 0 ? window : full;
    return st;
}

stator_status shape_read_window_heads(const struct gguf *g, struct shape *s, stator_error *e) {
    struct shape_heads *h = &s->window_heads;
    stator_status st = shape_check_groups(g, s, h->n_kv, e);
    if (st == STATOR_OK)
        st = shape_read_u32_or(g, s, "attention.key_length_swa", 1, MAX_WIDTH, s->head_dim_k, &h->dim_k, e);
    if (st == STATOR_OK)
        st = shape_read_u32_or(g, s, "attention.value_length_swa", 1, MAX_WIDTH, s->head_dim_v, &h->dim_v, e);
    if (st == STATOR_OK)
        st = shape_check_head_dim(g, "K (attention.key_length_swa)", h->dim_k, e);
    if (st == STATOR_OK)
        st = shape_check_head_dim(g, "V (attention.value_length_swa)", h->dim_v, e);
    if (st == STATOR_OK && (uint64_t)s->n_heads * ARITH_MAX(h->dim_k, h->dim_v) > MAX_WIDTH)
        st =
            gguf_error(g, e, "%" PRIu32 " heads of %" PRIu32 " dimensions: at most %d together are supported",
                       s->n_heads, ARITH_MAX(h->dim_k, h->dim_v), MAX_WIDTH);
    if (st == STATOR_OK)
        st = shape_read_u32_or(g, s, "rope.dimension_count_swa", 2, h->dim_k, ARITH_MIN(s->n_rot, h->dim_k),
                               &h->n_rot, e);
    if (st == STATOR_OK && h->n_rot % 2 != 0)
        st = gguf_error(g, e, "key '%s.rope.dimension_count_swa' is %" PRIu32 ", expected an even number",
                        s->arch_name, h->n_rot);
    return st;
}

stator_status shape_read_ffs(const struct gguf *g, struct shape *s, stator_error *e) {
    char key[96];
    struct gguf_value v;
    snprintf(key, sizeof key, "%s.feed_forward_length", s->arch_name);
    if (!gguf_find(g, key, &v) || v.kind != GGUF_ARRAY) {
        stator_status st = shape_read_u32(g, s, "feed_forward_length", 1, MAX_WIDTH, &s->n_ff, e);
        for (uint32_t i = 0; i < s->n_layers; i++)
            s->ffs[i] = s->n_ff;
        return st;
    }
    stator_status st = check_integers(g, s, key, &v, e);
    for (uint32_t i = 0; st == STATOR_OK && i < s->n_layers; i++) {
        const int64_t here = gguf_item_i64(&v, i);
        const int least = s->one_part ? 0 : 1;
        if (here < least || here > MAX_WIDTH)
            return gguf_error(g, e, "key '%s' is %" PRId64 " in layer %" PRIu32 ", expected %d to %d", key,
                              here, i, least, MAX_WIDTH);
        s->ffs[i] = (uint32_t)here;
        s->n_ff = ARITH_MAX(s->n_ff, s->ffs[i]);
    }
    return st;
}

/* n_layers: none of the first `owners` layers is of this kind. */
static uint32_t last_of_kind(const struct shape *s, uint32_t owners, bool window) {
    while (owners > 0 && shape_has_window(s, owners - 1) != window)
        owners--;
    return owners > 0 ? owners - 1 : s->n_layers;
}

stator_status shape_read_shared_kv(const struct gguf *g, struct shape *s, stator_error *e) {
    stator_status st =
        shape_read_u32_or(g, s, "attention.shared_kv_layers", 0, s->n_layers - 1, 0, &s->shared_kv, e);
    const uint32_t owners = s->n_layers - s->shared_kv;
    for (uint32_t i = owners; st == STATOR_OK && i < s->n_layers; i++)
        if (last_of_kind(s, owners, shape_has_window(s, i)) == s->n_layers)
            st =
                gguf_error(g, e,
                           "key '%s.attention.shared_kv_layers' is %" PRIu32 ", but layer %" PRIu32
                           " %s a window, and none of the first %" PRIu32
                           " layers (it reads K and V of one of them) does likewise",
                           s->arch_name, s->shared_kv, i, shape_has_window(s, i) ? "has" : "has not", owners);
    return st;
}

uint32_t shape_kv_layer(const struct shape *s, uint32_t layer) {
    const uint32_t owners = s->n_layers - s->shared_kv;
    return layer < owners || layer >= s->n_layers ? layer
                                                  : last_of_kind(s, owners, shape_has_window(s, layer));
}

uint32_t shape_joined_from(const struct shape *s) {
    uint32_t first = s->n_layers - 1;
    for (uint32_t i = s->n_layers - s->shared_kv; i < s->n_layers; i++)
        first = ARITH_MIN(first, shape_kv_layer(s, i));
    return first;
}
