/* The definition of attention, token by token and head by head. No state; any thread. */
#include "kernels/kernels.h"
#include "kernels/shared/kv_layout.h"
#include "kernels/shared/num.h"

#include "base/check.h"

#include <string.h>

/* One head of one query; quantised keys meet its integers. */
struct query {
    const float *x;
    int q[KERNELS_MAX_KEY];
    float d[KERNELS_MAX_KEY / KERNELS_KV_GROUP];
};

struct split {
    float max;
    float sum;
    float o[KERNELS_MAX_HEAD];
};

/* The token's slot in the block of K, or V, that begins at p; of quantised values, the integer. */
static float key_at(enum kernels_kv type, const void *k, uint32_t d, uint32_t slot) {
    if (type == KERNELS_KV_F32)
        return ((const float *)k)[d * KERNELS_KV_BLOCK + slot];
    if (type == KERNELS_KV_F16)
        return block_from_f16(((const uint16_t *)k)[d * KERNELS_KV_BLOCK + slot]);
    uint32_t g = d / KERNELS_KV_GROUP, i = d % KERNELS_KV_GROUP;
    if (type == KERNELS_KV_Q8_0)
        return ((const int8_t *)k)[kv_layout_k(type, g, i, slot)];
    int two = ((const uint8_t *)k)[kv_layout_k(type, g, i % 16, slot)];
    return (float)((i < 16 ? two & 15 : two >> 4) - 8);
}

static float value_at(enum kernels_kv type, const void *v, uint32_t dim, uint32_t d, uint32_t slot) {
    if (type == KERNELS_KV_F32)
        return ((const float *)v)[slot * dim + d];
    if (type == KERNELS_KV_F16)
        return block_from_f16(((const uint16_t *)v)[slot * dim + d]);
    uint32_t g = d / KERNELS_KV_GROUP, i = d % KERNELS_KV_GROUP;
    if (type == KERNELS_KV_Q8_0)
        return ((const int8_t *)v)[kv_layout_v(type, dim, g, i, slot)];
    int two = ((const uint8_t *)v)[kv_layout_v(type, dim, g, i % 16, slot)];
    return (float)((i < 16 ? two & 15 : two >> 4) - 8);
}

static float scale_at(enum kernels_kv type, const uint8_t *p, uint32_t dim, uint32_t g, uint32_t slot) {
    const uint16_t *scales = (const uint16_t *)(const void *)(p + kv_layout_scales(type, dim));
    return block_from_f16(scales[kv_layout_scale(g, slot)]);
}

static void quantise_query(struct query *q, uint32_t dim) {
    const float limit = NUM_QUANT_QUERY;
    for (uint32_t g = 0; g < dim / KERNELS_KV_GROUP; g++) {
        const float *x = q->x + (size_t)g * KERNELS_KV_GROUP;
        float amax = 0.0f;
        for (int i = 0; i < KERNELS_KV_GROUP; i++)
            amax = NUM_FABS(x[i]) > amax ? NUM_FABS(x[i]) : amax;
        q->d[g] = amax < NUM_QUANT_MIN ? 0.0f : amax * NUM_QUANT_QUERY_INVERSE;
        float inverse = q->d[g] == 0.0f ? 0.0f : num_rcp(q->d[g]);
        for (int i = 0; i < KERNELS_KV_GROUP; i++) {
            float v = x[i] * inverse;
            v = v > -limit ? v : -limit; /* of a NaN too */
            v = (v < limit ? v : limit) + NUM_ROUND;
            q->q[g * KERNELS_KV_GROUP + i] = (int)(NUM_BITS(v) - NUM_ROUND_BITS);
        }
    }
}

static float dot(const struct kernels_attention *a, const struct query *q, const uint8_t *k, uint32_t slot) {
    float sum = 0.0f;
    if (!kv_layout_quantised(a->type_k)) {
        for (uint32_t d = 0; d < a->head_dim_k; d++)
            sum = fmaf(q->x[d], key_at(a->type_k, k, d, slot), sum);
        return 0.0f + sum;
    }
    for (uint32_t g = 0; g < a->head_dim_k / KERNELS_KV_GROUP; g++) {
        int exact = 0;
        for (uint32_t d = g * KERNELS_KV_GROUP; d < (g + 1) * KERNELS_KV_GROUP; d++)
            exact += q->q[d] * (int)key_at(a->type_k, k, d, slot);
        float scale = q->d[g] * scale_at(a->type_k, k, a->head_dim_k, g, slot);
        sum = fmaf((float)exact, scale, sum);
    }
    return sum;
}

/* Where the token's block begins in a layer's K, or V. */
static uint64_t block_of(const struct kernels_attention *a, uint32_t token) {
    uint32_t block = token / KERNELS_KV_BLOCK;
    return a->blocks[a->ring != 0 ? block % a->ring : block] * a->block_stride;
}

/* Value d of the token in this slot: of V, or of K's beginning where V is that. */
static float value_of(const struct kernels_attention *a, uint64_t block, uint32_t d, uint32_t slot) {
    if (a->v == NULL)
        return key_at(a->type_k, a->k + block, d, slot);
    return value_at(a->type_v, a->v + block, a->head_dim_v, d, slot);
}

static float value_scale(const struct kernels_attention *a, uint64_t block, uint32_t g, uint32_t slot) {
    if (a->v == NULL)
        return scale_at(a->type_k, a->k + block, a->head_dim_k, g, slot);
    return scale_at(a->type_v, a->v + block, a->head_dim_v, g, slot);
}

/* o = fmaf(e, V, o) of tokens from .. n of the split, one after the other. */
static void weigh_floats(const struct kernels_attention *a, const float *e, uint32_t begin, uint32_t from,
                         uint32_t n, float *o) {
    for (uint32_t d = 0; d < a->head_dim_v; d++)
        o[d] = 0.0f;
    for (uint32_t i = from; i < n; i++)
        for (uint32_t d = 0; d < a->head_dim_v; d++)
            o[d] = fmaf(e[i], value_of(a, block_of(a, begin + i), d, i % KERNELS_KV_BLOCK), o[d]);
}

/* e times scale as an integer of 16 bits; factor: NUM_QUANT_WEIGHT over the largest scale. */
static int weight_of(float e, float scale, float factor) {
    const float by = scale * factor;
    return (int16_t)(NUM_BITS(fmaf(e, by, NUM_ROUND)) & 0xFFFF);
}

/* Group g of quantised values: integers throughout, whose sums are exact, so that their order is free. */
static void weigh_group(const struct kernels_attention *a, const float *e, uint32_t begin, uint32_t from,
                        uint32_t n, uint32_t g, float *o) {
    float scale[KERNELS_SPLIT], largest = 0.0f;
    int sum[KERNELS_KV_GROUP] = {0};
    for (uint32_t i = from; i < n; i++) {
        scale[i] = value_scale(a, block_of(a, begin + i), g, i % KERNELS_KV_BLOCK);
        largest = NUM_FABS(scale[i]) > largest ? NUM_FABS(scale[i]) : largest;
    }
    const float factor = largest == 0.0f ? 0.0f : NUM_QUANT_WEIGHT * num_rcp(largest);
    for (uint32_t i = from; i < n; i++) {
        const int weight = weight_of(e[i], scale[i], factor);
        const uint64_t block = block_of(a, begin + i);
        for (uint32_t d = 0; d < KERNELS_KV_GROUP; d++)
            sum[d] += weight * (int)value_of(a, block, g * KERNELS_KV_GROUP + d, i % KERNELS_KV_BLOCK);
    }
    for (uint32_t d = 0; d < KERNELS_KV_GROUP; d++)
        o[d] = (float)sum[d] * (largest * NUM_QUANT_WEIGHT_INVERSE);
}

/* One head of the query at `position` over what it sees of a split. */
static void attend_split(const struct kernels_attention *a, const struct query *q, uint32_t split,
                         uint32_t position, struct split *s) {
    const uint32_t begin = split * KERNELS_SPLIT;
    uint32_t n = position + 1 - begin < KERNELS_SPLIT ? position + 1 - begin : KERNELS_SPLIT;
    const uint32_t hidden = kernels_attention_start(a, position);
    const uint32_t from = hidden > begin ? hidden - begin : 0;
    float score[KERNELS_SPLIT];
    float lane[128] = {0};
    s->max = -INFINITY;
    for (uint32_t i = from; i < n; i++) {
        score[i] = dot(a, q, a->k + block_of(a, begin + i), i % KERNELS_KV_BLOCK) * a->scale;
        if (a->cap != 0)
            score[i] = num_softcap(score[i], a->cap, a->cap_inverse);
        s->max = score[i] > s->max ? score[i] : s->max;
    }
    for (uint32_t i = from; i < n; i++) {
        score[i] = num_exp(score[i] - s->max);
        lane[i % 128] += score[i];
    }
    s->sum = num_sum128(lane);
    if (!kv_layout_quantised(a->type_v)) {
        weigh_floats(a, score, begin, from, n, s->o);
        return;
    }
    for (uint32_t g = 0; g < a->head_dim_v / KERNELS_KV_GROUP; g++)
        weigh_group(a, score, begin, from, n, g, s->o + (size_t)g * KERNELS_KV_GROUP);
}

static void merge(struct split *all, const struct split *s, uint32_t dim) {
    float max = s->max > all->max ? s->max : all->max;
    float a = num_exp(all->max - max), b = num_exp(s->max - max);
    float scaled = all->sum * a;
    all->sum = fmaf(s->sum, b, scaled);
    for (uint32_t d = 0; d < dim; d++) {
        scaled = all->o[d] * a;
        all->o[d] = fmaf(s->o[d], b, scaled);
    }
    all->max = max;
}

/* The split as row h of a part, or from there. */
static void put_part(const struct kernels_attention *a, float *part, uint32_t h, const struct split *s) {
    size_t stride = ((size_t)a->head_dim_v + 15) / 16 * 16;
    float *max = part + a->group * stride;
    memcpy(part + h * stride, s->o, a->head_dim_v * sizeof *s->o);
    max[h] = s->max;
    max[(a->group + 15) / 16 * 16 + h] = s->sum;
}

static void get_part(const struct kernels_attention *a, const float *part, uint32_t h, struct split *s) {
    size_t stride = ((size_t)a->head_dim_v + 15) / 16 * 16;
    const float *max = part + a->group * stride;
    memcpy(s->o, part + h * stride, a->head_dim_v * sizeof *s->o);
    s->max = max[h];
    s->sum = max[(a->group + 15) / 16 * 16 + h];
}

static void add_sink(struct split *all, float sink, uint32_t dim) {
    float max = sink > all->max ? sink : all->max;
    float a = num_exp(all->max - max), scaled = all->sum * a;
    all->sum = scaled + num_exp(sink - max);
    for (uint32_t d = 0; d < dim; d++)
        all->o[d] = all->o[d] * a;
}

static void finish(const struct kernels_attention *a, struct split *all, uint32_t head, float *out) {
    if (a->sinks != NULL)
        add_sink(all, a->sinks[head], a->head_dim_v);
    float inverse = num_rcp(all->sum);
    for (uint32_t d = 0; d < a->head_dim_v; d++)
        out[d] = all->o[d] * inverse;
}

static void attend(const struct kernels_attention *a, const struct query *q, uint32_t position, uint32_t head,
                   float *out) {
    struct split all, next;
    uint32_t i = kernels_attention_first(position, a->window);
    attend_split(a, q, i, position, &all);
    for (i++; i <= position / KERNELS_SPLIT; i++) {
        attend_split(a, q, i, position, &next);
        merge(&all, &next, a->head_dim_v);
    }
    finish(a, &all, head, out);
}

static void attend_parts(const struct kernels_attention *a, const struct query *q, uint32_t h) {
    size_t part = kernels_attention_part(a->group, a->head_dim_v);
    uint32_t first = kernels_attention_first(a->first_position, a->window);
    CHECK(a->first_split >= first);
    struct split s;
    for (uint32_t i = a->first_split; i < a->end_split; i++) {
        attend_split(a, q, i, a->first_position, &s);
        put_part(a, a->parts + (i - first) * part, h, &s);
    }
}

static void attention_merge(const struct kernels_attention *a) {
    CHECK(a->n_queries == 1 && a->parts != NULL);
    size_t part = kernels_attention_part(a->group, a->head_dim_v);
    uint32_t splits =
        a->first_position / KERNELS_SPLIT + 1 - kernels_attention_first(a->first_position, a->window);
    for (uint32_t h = 0; h < a->group; h++) {
        struct split all, next;
        get_part(a, a->parts, h, &all);
        for (uint32_t i = 1; i < splits; i++) {
            get_part(a, a->parts + i * part, h, &next);
            merge(&all, &next, a->head_dim_v);
        }
        finish(a, &all, h, a->out + (size_t)h * a->head_dim_v);
    }
}

static void attention(const struct kernels_attention *a) {
    CHECK(a->n_queries >= 1 && a->group >= 1 && a->group <= KERNELS_MAX_GROUP);
    CHECK(kernels_attention_fits(a));
    CHECK(a->head_dim_k % kernels_kv_group(a->type_k) == 0 &&
          a->head_dim_v % kernels_kv_group(a->type_v) == 0);
    CHECK(a->parts == NULL || (a->n_queries == 1 && a->first_split < a->end_split &&
                               (a->end_split - 1) * KERNELS_SPLIT <= a->first_position));
    for (uint32_t i = 0; i < a->n_queries; i++) {
        for (uint32_t h = 0; h < a->group; h++) {
            struct query q = {.x = a->q + i * a->q_stride + (size_t)h * a->head_dim_k};
            if (kv_layout_quantised(a->type_k))
                quantise_query(&q, a->head_dim_k);
            if (a->parts != NULL)
                attend_parts(a, &q, h);
            else
                attend(a, &q, a->first_position + i, h,
                       a->out + i * a->out_stride + (size_t)h * a->head_dim_v);
        }
    }
}

void scalar_attention_init(struct kernels *k) {
    k->attention = attention;
    k->attention_merge = attention_merge;
    scalar_kv_init(k);
}
