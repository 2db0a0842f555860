/* What hybrids of delta-net and attention layers have besides: keys ARCH.ssm.* and the interval of attention
 * layers; and MTP heads. */
#include "model/shape.h"

#include "base/check.h"

#include <inttypes.h>
#include <string.h>

enum {
    MAX_WIDTH = 1 << 20, /* as in shape.c */
    MAX_HEADS = 4096,
    MAX_STATE = 256, /* KERNELS_MAX_STATE */
    MAX_TAPS = 16    /* KERNELS_MAX_TAPS */
};

static stator_status check_heads(const struct gguf *g, struct shape *s, uint32_t inner, stator_error *e) {
    struct shape_delta *d = &s->delta;
    if (d->value_heads % d->key_heads != 0)
        return gguf_error(g, e,
                          "%" PRIu32 " value heads (%s.ssm.time_step_rank) do not share %" PRIu32
                          " key heads (%s.ssm.group_count) evenly",
                          d->value_heads, s->arch_name, d->key_heads, s->arch_name);
    if (inner % d->value_heads != 0)
        return gguf_error(g, e,
                          "key '%s.ssm.inner_size' is %" PRIu32 ", expected a multiple of the %" PRIu32
                          " value heads (%s.ssm.time_step_rank)",
                          s->arch_name, inner, d->value_heads, s->arch_name);
    d->dim_v = inner / d->value_heads;
    if ((uint64_t)2 * d->key_heads * d->dim_k + inner > MAX_WIDTH)
        return gguf_error(g, e,
                          "%" PRIu32 " key heads of %" PRIu32
                          " (%s.ssm.group_count, %s.ssm.state_size) and values of "
                          "%" PRIu32 " (%s.ssm.inner_size): at most %d channels together are supported",
                          d->key_heads, d->dim_k, s->arch_name, s->arch_name, inner, s->arch_name, MAX_WIDTH);
    return STATOR_OK;
}

stator_status shape_read_delta(const struct gguf *g, struct shape *s, stator_error *e) {
    struct shape_delta d = {.grouped = s->delta.grouped, .sigmoid = s->delta.sigmoid, .ssd = s->delta.ssd};
    uint32_t inner = 0;
    stator_status st = shape_read_u32(g, s, "ssm.group_count", 1, MAX_HEADS, &d.key_heads, e);
    if (st == STATOR_OK)
        st = shape_read_u32(g, s, "ssm.time_step_rank", 1, MAX_HEADS, &d.value_heads, e);
    if (st == STATOR_OK)
        st = shape_read_u32(g, s, "ssm.state_size", 1, MAX_STATE, &d.dim_k, e);
    if (st == STATOR_OK)
        st = shape_read_u32(g, s, "ssm.inner_size", 1, MAX_WIDTH, &inner, e);
    if (st == STATOR_OK)
        st = shape_read_u32(g, s, "ssm.conv_kernel", 1, MAX_TAPS, &d.taps, e);
    if (st == STATOR_OK)
        st = shape_read_u32_or(g, s, "full_attention_interval", 1, UINT32_MAX, 4, &d.interval, e);
    s->delta = d;
    return st == STATOR_OK ? check_heads(g, s, inner, e) : st;
}

/* What the blocks that count as nextn have: any tensors, and tensors named nextn.*. */
struct nextn_blocks {
    uint32_t filled, real; /* how many have nextn.* tensors; how many have others alone */
    uint32_t first_real;
};

static struct nextn_blocks look_at_nextn(const struct gguf *g, uint32_t first, uint32_t end) {
    bool any[SHAPE_MAX_LAYERS] = {false}, nextn[SHAPE_MAX_LAYERS] = {false};
    struct nextn_blocks b = {0};
    CHECK(first <= end && end <= SHAPE_MAX_LAYERS);
    for (uint64_t i = 0; i < gguf_tensors(g); i++) {
        struct gguf_text rest;
        uint64_t layer = 0;
        if (!shape_split_layer_name(gguf_tensor(g, i)->name, &layer, &rest) || layer < first || layer >= end)
            continue;
        any[layer] = true;
        nextn[layer] |= rest.length > 6 && memcmp(rest.data, "nextn.", 6) == 0;
    }
    for (uint32_t l = first; l < end; l++) {
        b.filled += nextn[l];
        if (any[l] && !nextn[l] && b.real++ == 0)
            b.first_real = l;
    }
    return b;
}

stator_status shape_read_nextn(const struct gguf *g, struct shape *s, stator_error *e) {
    stator_status st = shape_read_u32_or(g, s, "nextn_predict_layers", 0, UINT32_MAX, 0, &s->n_nextn, e);
    if (st == STATOR_OK && s->n_nextn >= s->n_layers)
        st = gguf_error(g, e,
                        "key '%s.nextn_predict_layers' is %" PRIu32
                        ", but %s.block_count, which includes them, is %" PRIu32,
                        s->arch_name, s->n_nextn, s->arch_name, s->n_layers);
    if (st != STATOR_OK || s->n_nextn == 0)
        return st;
    const struct nextn_blocks b = look_at_nextn(g, s->n_layers - s->n_nextn, s->n_layers);
    if (b.real > 0 && b.filled > 0)
        return gguf_error(g, e,
                          "key '%s.nextn_predict_layers' is %" PRIu32 ", so layer %" PRIu32
                          " is an MTP head, but it has tensors and none named blk.%" PRIu32 ".nextn.*",
                          s->arch_name, s->n_nextn, b.first_real, b.first_real);
    if (b.real > 0)
        s->n_nextn = 0;
    s->n_layers -= s->n_nextn;
    return STATOR_OK;
}
