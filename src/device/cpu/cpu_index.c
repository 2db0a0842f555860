/* Indexers on the team: their keys, the choice of blocks, and attention to chosen blocks. Of those the tokens
 * of a split are copied side by side, to where the kernels take them for a text of their own: a split's K and
 * V stay in a near cache, and the kernels know nothing of lists. */
#include "device/cpu/cpu_member.h"

#define INDEX_AT_ONCE 1024 /* index blocks that a member scores at a time, where tokens are few */
#define SPLIT_BLOCKS  (KERNELS_SPLIT / KERNELS_KV_BLOCK)

_Static_assert(INDEX_AT_ONCE % KERNELS_KV_BLOCK == 0, "whole blocks of the cache");

/* --- work memory of a member */

struct cpu_index_sizes cpu_index_sizes(const struct device_model *m) {
    struct cpu_index_sizes z = {0};
    for (uint32_t i = 0; i < m->graph->n_ops; i++) {
        const struct graph_op *op = &m->graph->ops[i];
        const struct graph_attention *a = &op->attention;
        if (op->kind == GRAPH_CHOOSE)
            z.scores = ARITH_MAX(z.scores, (size_t)m->caches[op->cache].per_sequence *
                                               (KERNELS_KV_BLOCK / op->index.ratio));
        if (op->kind != GRAPH_ATTENTION || a->ratio == 0)
            continue;
        const size_t splits = arith_ceil_div(((uint64_t)a->keep + 1) * a->ratio, KERNELS_SPLIT);
        z.gathered = ARITH_MAX(z.gathered, SPLIT_BLOCKS * (size_t)m->graph->caches[op->cache].bytes);
        z.parts = ARITH_MAX(z.parts, splits * kernels_attention_part(a->heads / a->kv_heads, a->dim_v));
    }
    z.scores = arith_round_up(z.scores, CARVE_ALIGN / sizeof(float));
    z.gathered = arith_round_up(z.gathered, CARVE_ALIGN);
    z.parts = arith_round_up(z.parts, CARVE_ALIGN / sizeof(float));
    z.all = z.gathered + (z.scores + z.parts) * sizeof(float);
    return z;
}

static uint8_t *work_of(const struct member *m, uint32_t member) {
    return m->d->index_work + member * m->d->index_sizes.all;
}

static float *scores_of(const struct member *m, uint32_t member) {
    return (float *)(void *)(work_of(m, member) + m->d->index_sizes.gathered);
}

static float *parts_of(const struct member *m) {
    return scores_of(m, m->id) + m->d->index_sizes.scores;
}

/* --- keys */

/* A token's key as the cache has it. */
static void raw_key(const struct member *m, const struct graph_op *op, const uint8_t *block, uint32_t slot,
                    float *to) {
    const uint32_t dim = op->index.dim;
    if (m->g->caches[op->cache].type_k == KERNELS_KV_F32) {
        memcpy(to, (const float *)(const void *)block + index_raw(dim, 0, slot), dim * sizeof *to);
        return;
    }
    for (uint32_t d = 0; d < dim; d++)
        to[d] = block_from_f16(((const uint16_t *)(const void *)block)[index_raw(dim, d, slot)]);
}

/* The key of the index block whose last token is at `position`, in its block of the cache. */
static void make_key(const struct member *m, const struct graph_op *op, uint8_t *block, uint32_t position) {
    const struct graph_index *x = &op->index;
    const struct kernels *k = &m->d->kernels;
    const enum kernels_kv type = m->g->caches[op->cache].type_k;
    const uint32_t slot = position % KERNELS_KV_BLOCK / x->ratio * x->ratio, at = slot / x->ratio;
    const float *angles =
        (const float *)(const void *)(block + index_angles(type, x->dim, x->ratio)) + (size_t)at * x->n_rot;
    const float share = 1.0f / (float)x->ratio;
    _Alignas(64) float key[KERNELS_MAX_HEAD], other[KERNELS_MAX_HEAD];
    raw_key(m, op, block, slot, key);
    for (uint32_t i = 1; i < x->ratio; i++) {
        raw_key(m, op, block, slot + i, other);
        k->add(key, key, other, x->dim);
    }
    for (uint32_t d = 0; d < x->dim; d++)
        key[d] = key[d] * share;
    k->rms_norm(key, key, plain_weight(m, op->weight[1]), x->dim, x->norm.inv_width, x->norm.eps);
    k->rope(key, angles, x->n_rot / 2, x->neox);
    uint8_t *keys = block + index_keys(type, x->dim);
    for (uint32_t d = 0; d < x->dim; d++) {
        const size_t to = index_key(x->ratio, d, at);
        if (type == KERNELS_KV_F32)
            ((float *)(void *)keys)[to] = key[d];
        else
            ((uint16_t *)(void *)keys)[to] = block_to_f16(key[d]);
    }
}

static uint32_t position_of(const struct step_chunk *c, uint32_t token) {
    return c->position + (token - c->first);
}

static uint8_t *block_of(const struct member *m, const struct graph_op *op, const struct step_chunk *c,
                         uint32_t position) {
    return cache_block(m, op->cache, op->cache_layer, 0,
                       block_table(m, op->cache, c->slot)[position / KERNELS_KV_BLOCK]);
}

static void store_token(const struct member *m, const struct graph_op *op, uint32_t t) {
    const struct graph_index *x = &op->index;
    const struct kernels *k = &m->d->kernels;
    const struct step_chunk *c = chunk_of(m, t);
    const uint32_t position = position_of(c, t), slot = position % KERNELS_KV_BLOCK;
    const enum kernels_kv type = m->g->caches[op->cache].type_k;
    float *row = value_f32(m, op->in) + (size_t)t * m->g->values[op->in].width;
    const float *angles = (const float *)(const void *)(m->slot + m->h->at_rope) +
                          (size_t)t * m->h->rope_stride + m->g->angles[x->angles].first;
    uint8_t *block = block_of(m, op, c, position);
    for (uint32_t h = 0; h < x->heads; h++) {
        float *q = row + (size_t)h * x->dim;
        k->rms_norm(q, q, plain_weight(m, op->weight[0]), x->dim, x->norm.inv_width, x->norm.eps);
        k->rope(q, angles, x->n_rot / 2, x->neox);
    }
    k->store_v[type](block, row + (size_t)x->heads * x->dim, x->dim, slot);
    if (slot % x->ratio == 0)
        memcpy(block + index_angles(type, x->dim, x->ratio) +
                   (size_t)(slot / x->ratio) * x->n_rot * sizeof(float),
               angles, x->n_rot * sizeof(float));
}

/* First every token's key, then the block keys that have become whole. */
void cpu_index_store(const struct member *m, const struct graph_op *op) {
    const uint32_t begin = share_begin(m, m->h->n_tokens), end = share_end(m, m->h->n_tokens);
    CHECK(op->in == op->out && op->n_weights == 2 && op->index.dim <= KERNELS_MAX_HEAD);
    for (uint32_t t = begin; t < end; t++)
        store_token(m, op, t);
    team_barrier(m->d->team, m->id);
    for (uint32_t t = begin; t < end; t++) {
        const struct step_chunk *c = chunk_of(m, t);
        const uint32_t position = position_of(c, t);
        if ((position + 1) % op->index.ratio == 0)
            make_key(m, op, block_of(m, op, c, position), position);
    }
}

/* --- the choice */

/* Scores of a token's index blocks from `first` on, before `end`, but whole blocks of the cache. */
static void score(const struct member *m, const struct graph_op *op, uint32_t t, uint32_t first, uint32_t end,
                  float *scores) {
    const struct graph_index *x = &op->index;
    const struct graph_cache *g = &m->g->caches[op->cache];
    const struct step_chunk *c = chunk_of(m, t);
    const struct kernels_index index = {
        .q = value_f32(m, op->in) + (size_t)t * m->g->values[op->in].width,
        .heads = x->heads,
        .dim = x->dim,
        .ratio = x->ratio,
        .type = g->type_k,
        .keys = cache_block(m, op->cache, op->cache_layer, 0, 0) + index_keys(g->type_k, x->dim),
        .block_stride = g->bytes,
        .blocks = block_table(m, op->cache, c->slot),
        .first = first,
        .n = (uint32_t)arith_round_up(end - first, KERNELS_KV_BLOCK / x->ratio),
        .score = scores + first};
    m->d->kernels.index_scores(&index);
}

/* Whole index blocks that the token sees, if some are left out; else 0. */
static uint32_t crowd_of(const struct member *m, const struct graph_op *op, uint32_t t) {
    const uint32_t whole = (position_of(chunk_of(m, t), t) + 1) / op->index.ratio;
    return whole > op->index.keep ? whole : 0;
}

static void choose(const struct member *m, const struct graph_op *op, uint32_t t, const float *scores) {
    uint32_t *row = (uint32_t *)(void *)value_f32(m, op->out) + (size_t)t * m->g->values[op->out].width;
    const uint32_t whole = crowd_of(m, op, t), keep = op->index.keep;
    row[0] = whole > 0 ? keep : 0;
    if (whole == 0)
        return;
    m->d->kernels.index_choose(scores, whole, keep, row + 1);
    row[1 + keep] = whole;
}

/* Tokens that are fewer than members: these share each one's index blocks. */
static void choose_together(const struct member *m, const struct graph_op *op) {
    uint32_t turn = 0;
    for (uint32_t t = 0; t < m->h->n_tokens; t++) {
        const uint32_t whole = crowd_of(m, op, t);
        for (uint32_t i = 0; i < whole; i += INDEX_AT_ONCE, turn++)
            if (turn % m->n == m->id)
                score(m, op, t, i, ARITH_MIN(whole, i + INDEX_AT_ONCE), scores_of(m, t));
    }
    team_barrier(m->d->team, m->id);
    if (m->id < m->h->n_tokens)
        choose(m, op, m->id, scores_of(m, m->id));
}

void cpu_index_choose(const struct member *m, const struct graph_op *op) {
    CHECK(m->g->values[op->out].width == INDEX_WORDS(op->index.keep));
    if (m->h->n_tokens < m->n) {
        choose_together(m, op);
        return;
    }
    struct team_share share = team_share_begin(m->d->team, m->id, m->lane, m->h->n_tokens);
    for (uint64_t first, end; team_share_take(&share, 1, 1, &first, &end);)
        for (uint32_t t = (uint32_t)first; t < end; t++) {
            const uint32_t whole = crowd_of(m, op, t);
            if (whole > 0)
                score(m, op, t, 0, whole, scores_of(m, m->id));
            choose(m, op, t, scores_of(m, m->id));
        }
}

/* --- attention */

/* Lines of `width` bytes, `stride` apart. */
static void copy_lines(uint8_t *to, const uint8_t *from, size_t lines, size_t width, size_t stride) {
    for (size_t i = 0; i < lines; i++)
        memcpy(to + i * stride, from + i * stride, width);
}

/* What copies of four tokens, at `from` of a block to `to` of another, are of K, and of V. */
static void copy_key(uint32_t type, uint32_t dim, uint8_t *to_block, uint32_t to, const uint8_t *from_block,
                     uint32_t from) {
    enum { FOUR = INDEX_LEAST_RATIO };
    if (!kv_layout_quantised(type)) {
        const size_t size = type == KV_LAYOUT_F32 ? sizeof(float) : sizeof(uint16_t);
        copy_lines(to_block + to * size, from_block + from * size, dim, FOUR * size, KV_LAYOUT_BLOCK * size);
        return;
    }
    const size_t words = kv_layout_scales(type, dim) / KV_LAYOUT_STEP, scales = kv_layout_scales(type, dim);
    copy_lines(to_block + to * 4, from_block + from * 4, words, FOUR * 4, KV_LAYOUT_STEP);
    copy_lines(to_block + scales + to * sizeof(uint16_t), from_block + scales + from * sizeof(uint16_t),
               dim / KV_LAYOUT_GROUP, FOUR * sizeof(uint16_t), KV_LAYOUT_BLOCK * sizeof(uint16_t));
}

static void copy_value(uint32_t type, uint32_t dim, uint8_t *to_block, uint32_t to, const uint8_t *from_block,
                       uint32_t from) {
    enum { FOUR = INDEX_LEAST_RATIO };
    const size_t token = kv_layout_quantised(type) ? kv_layout_scales(type, dim) / KV_LAYOUT_BLOCK
                         : type == KV_LAYOUT_F32   ? dim * sizeof(float)
                                                   : dim * sizeof(uint16_t);
    memcpy(to_block + to * token, from_block + from * token, FOUR * token);
    if (!kv_layout_quantised(type))
        return;
    const size_t scales = kv_layout_scales(type, dim);
    copy_lines(to_block + scales + to * sizeof(uint16_t), from_block + scales + from * sizeof(uint16_t),
               dim / KV_LAYOUT_GROUP, FOUR * sizeof(uint16_t), KV_LAYOUT_BLOCK * sizeof(uint16_t));
}

/* The tokens begin .. end - 1 of the list, side by side. */
static void gather(const struct graph_op *op, const struct kernels_attention *a, uint64_t k_bytes,
                   const uint32_t *list, uint32_t begin, uint32_t end, uint8_t *to) {
    const uint32_t ratio = op->attention.ratio;
    for (uint32_t i = begin; i < end; i += INDEX_LEAST_RATIO) {
        const uint32_t token = list[1 + i / ratio] * ratio + i % ratio;
        const uint8_t *from = a->k + a->blocks[token / KERNELS_KV_BLOCK] * a->block_stride;
        uint8_t *block = to + i % KERNELS_SPLIT / KERNELS_KV_BLOCK * a->block_stride;
        copy_key(a->type_k, a->head_dim_k, block, i % KERNELS_KV_BLOCK, from, token % KERNELS_KV_BLOCK);
        if (a->v != NULL)
            copy_value(a->type_v, a->head_dim_v, block + k_bytes, i % KERNELS_KV_BLOCK, from + k_bytes,
                       token % KERNELS_KV_BLOCK);
    }
}

void cpu_index_attention(const struct member *m, const struct graph_op *op, uint32_t token,
                         const struct kernels_attention *a) {
    static const uint32_t in_order[SPLIT_BLOCKS] = {0, 1, 2, 3, 4, 5, 6, 7};
    const uint32_t *list = (const uint32_t *)(const void *)value_f32(m, op->attention.chosen) +
                           (size_t)token * m->g->values[op->attention.chosen].width;
    const uint64_t k_bytes = m->g->caches[op->cache].k_bytes;
    struct kernels_attention all = *a;
    CHECK(a->n_queries == 1 && a->window == 0 && a->ring == 0);
    if (list[0] == 0) {
        m->d->kernels.attention(a);
        return;
    }
    if (a->parts == NULL) {
        all.parts = parts_of(m);
        all.first_split = 0;
        all.end_split = a->first_position / KERNELS_SPLIT + 1;
    }
    for (uint32_t s = all.first_split; s < all.end_split; s++) {
        struct kernels_attention one = all;
        uint8_t *near = work_of(m, m->id);
        gather(op, a, k_bytes, list, s * KERNELS_SPLIT,
               ARITH_MIN(a->first_position + 1, (s + 1) * KERNELS_SPLIT), near);
        one.skip = list[1] == 0 ? a->skip : 0;
        one.k = near;
        one.v = a->v != NULL ? near + k_bytes : NULL;
        one.blocks = in_order;
        one.ring = SPLIT_BLOCKS; /* a call looks at one split's blocks only */
        one.first_split = s;
        one.end_split = s + 1;
        m->d->kernels.attention(&one);
    }
    if (a->parts == NULL)
        m->d->kernels.attention_merge(&all);
}
