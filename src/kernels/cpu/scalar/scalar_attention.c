/* The definition of attention and of the stores into the KV cache, token by token and head by head. No state;
 * any thread. */
#include "kernels/kernels.h"
#include "kernels/num.h"

#include "base/check.h"

static float read_f32(const void *p, size_t i) {
    return ((const float *)p)[i];
}

static float read_f16(const void *p, size_t i) {
    return block_from_f16(((const uint16_t *)p)[i]);
}

struct split {
    float max;
    float sum;
    float o[KERNELS_MAX_HEAD];
};

/* One head of one query over tokens begin .. begin + n - 1, all in one split. */
static void attend_split(const struct kernels_attention *a, float (*read)(const void *, size_t),
                         const float *q, uint32_t begin, uint32_t n, struct split *s) {
    float score[KERNELS_SPLIT];
    float lane[128] = {0};
    s->max = -INFINITY;
    for (uint32_t i = 0; i < n; i++) {
        const void *k = a->k + a->blocks[(begin + i) / KERNELS_KV_BLOCK] * a->block_stride;
        float dot = 0.0f;
        for (uint32_t d = 0; d < a->head_dim_k; d++)
            dot = fmaf(q[d], read(k, d * KERNELS_KV_BLOCK + i % KERNELS_KV_BLOCK), dot);
        score[i] = (0.0f + dot) * a->scale; /* one segment: a head has at most 512 dims */
        s->max = score[i] > s->max ? score[i] : s->max;
    }
    for (uint32_t d = 0; d < a->head_dim_v; d++)
        s->o[d] = 0.0f;
    for (uint32_t i = 0; i < n; i++) {
        const void *v = a->v + a->blocks[(begin + i) / KERNELS_KV_BLOCK] * a->block_stride;
        float e = num_exp(score[i] - s->max);
        lane[i % 128] += e;
        for (uint32_t d = 0; d < a->head_dim_v; d++)
            s->o[d] = fmaf(e, read(v, i % KERNELS_KV_BLOCK * a->head_dim_v + d), s->o[d]);
    }
    s->sum = num_sum128(lane);
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

static void attend(const struct kernels_attention *a, float (*read)(const void *, size_t)) {
    CHECK(a->n_queries >= 1 && a->group >= 1 && a->group <= KERNELS_MAX_GROUP);
    CHECK(a->head_dim_k <= KERNELS_MAX_HEAD && a->head_dim_v <= KERNELS_MAX_HEAD);
    for (uint32_t i = 0; i < a->n_queries; i++) {
        for (uint32_t h = 0; h < a->group; h++) {
            const float *q = a->q + i * a->q_stride + (size_t)h * a->head_dim_k;
            float *out = a->out + i * a->out_stride + (size_t)h * a->head_dim_v;
            uint32_t tokens = a->first_position + i + 1;
            struct split all, next;
            attend_split(a, read, q, 0, tokens < KERNELS_SPLIT ? tokens : KERNELS_SPLIT, &all);
            for (uint32_t t = KERNELS_SPLIT; t < tokens; t += KERNELS_SPLIT) {
                attend_split(a, read, q, t, tokens - t < KERNELS_SPLIT ? tokens - t : KERNELS_SPLIT, &next);
                merge(&all, &next, a->head_dim_v);
            }
            float inverse = num_rcp(all.sum);
            for (uint32_t d = 0; d < a->head_dim_v; d++)
                out[d] = all.o[d] * inverse;
        }
    }
}

static void attention_f32(const struct kernels_attention *a) {
    attend(a, read_f32);
}

static void attention_f16(const struct kernels_attention *a) {
    attend(a, read_f16);
}

static void store_k_f32(void *k, const float *x, uint32_t dim, uint32_t slot) {
    for (uint32_t d = 0; d < dim; d++)
        ((float *)k)[d * KERNELS_KV_BLOCK + slot] = x[d];
}

static void store_k_f16(void *k, const float *x, uint32_t dim, uint32_t slot) {
    for (uint32_t d = 0; d < dim; d++)
        ((uint16_t *)k)[d * KERNELS_KV_BLOCK + slot] = block_to_f16(x[d]);
}

static void store_v_f32(void *v, const float *x, uint32_t dim, uint32_t slot) {
    for (uint32_t d = 0; d < dim; d++)
        ((float *)v)[slot * dim + d] = x[d];
}

static void store_v_f16(void *v, const float *x, uint32_t dim, uint32_t slot) {
    for (uint32_t d = 0; d < dim; d++)
        ((uint16_t *)v)[slot * dim + d] = block_to_f16(x[d]);
}

void scalar_attention_init(struct kernels *k) {
    k->attention[KERNELS_KV_F32] = attention_f32;
    k->attention[KERNELS_KV_F16] = attention_f16;
    k->store_k[KERNELS_KV_F32] = store_k_f32;
    k->store_k[KERNELS_KV_F16] = store_k_f16;
    k->store_v[KERNELS_KV_F32] = store_v_f32;
    k->store_v[KERNELS_KV_F16] = store_v_f16;
}
