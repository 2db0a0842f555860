/* Layers whose queries see a window of tokens only: which, and how wide (keys ARCH.attention.sliding_window,
 * sliding_window_pattern, ARCH.rope.freq_base_swa); softcaps. */
#include "model/shape.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* A truth, or a number that is not 0, for each layer. */
static stator_status read_layers(const struct gguf *g, struct shape *s, const char *key,
                                 const struct gguf_value *v, stator_error *e) {
    if (v->item == GGUF_STRING || v->item == GGUF_F32 || v->item == GGUF_F64)
        return gguf_error(g, e, "key '%s' has type array of %s, expected an integer, or bools or integers",
                          key, gguf_kind_name(v->item));
    if (v->count != s->n_layers)
        return gguf_error(g, e,
                          "key '%s' has %" PRIu64 " items, expected one for each of the %" PRIu32 " layers",
                          key, v->count, s->n_layers);
    for (uint32_t i = 0; i < s->n_layers; i++)
        s->windowed[i] = gguf_item_i64(v, i) != 0;
    return STATOR_OK;
}

static stator_status read_pattern(const struct gguf *g, struct shape *s, uint32_t pattern, stator_error *e) {
    char key[96];
    struct gguf_value v;
    uint64_t n = 0;
    snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", s->arch_name);
    if (gguf_find(g, key, &v) && v.kind == GGUF_ARRAY)
        return read_layers(g, s, key, &v, e);
    stator_status st = gguf_read_u64_or(g, key, 1, SHAPE_MAX_LAYERS, pattern, &n, e);
    for (uint32_t i = 0; i < s->n_layers && st == STATOR_OK; i++)
        s->windowed[i] = (i + 1) % n != 0;
    return st;
}

stator_status shape_read_window(const struct gguf *g, struct shape *s, bool zero_is_none, uint32_t pattern,
                                stator_error *e) {
    char key[96];
    uint64_t n = 0;
    snprintf(key, sizeof key, "%s.attention.sliding_window", s->arch_name);
    stator_status st = gguf_read_u64_or(g, key, zero_is_none ? 0 : 1, INT32_MAX, 0, &n, e);
    s->window = (uint32_t)n;
    for (uint32_t i = 0; i < s->n_layers; i++)
        s->windowed[i] = true;
    return st == STATOR_OK && s->window > 0 && pattern > 0 ? read_pattern(g, s, pattern, e) : st;
}

stator_status shape_read_local_base(const struct gguf *g, struct shape *s, float fallback, stator_error *e) {
    char key[96];
    snprintf(key, sizeof key, "%s.rope.freq_base_swa", s->arch_name);
    stator_status st = gguf_read_f32_or(g, key, fallback, &s->rope_local_base, e);
    if (st == STATOR_OK && !(isfinite(s->rope_local_base) && s->rope_local_base > 0))
        st = gguf_error(g, e, "key '%s' is %g, expected a number above 0", key, (double)s->rope_local_base);
    return st;
}

/* Numbers whose reciprocals are far from the ends of float. */
#define LEAST_CAP 1e-6f
#define MOST_CAP  1e6f

static stator_status read_cap(const struct gguf *g, const struct shape *s, const char *name, float fallback,
                              float *cap, stator_error *e) {
    char key[96];
    snprintf(key, sizeof key, "%s.%s", s->arch_name, name);
    stator_status st = gguf_read_f32_or(g, key, fallback, cap, e);
    if (st == STATOR_OK && *cap != 0 && !(*cap >= LEAST_CAP && *cap <= MOST_CAP))
        st = gguf_error(g, e, "key '%s' is %g, expected 0 (none), or %g to %g", key, (double)*cap,
                        (double)LEAST_CAP, (double)MOST_CAP);
    return st;
}

stator_status shape_read_caps(const struct gguf *g, struct shape *s, float attention, float logits,
                              stator_error *e) {
    stator_status st = read_cap(g, s, "attn_logit_softcapping", attention, &s->attention_cap, e);
    return st == STATOR_OK ? read_cap(g, s, "final_logit_softcapping", logits, &s->logit_cap, e) : st;
}
