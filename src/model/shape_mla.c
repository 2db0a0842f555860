/* Latent attention (keys ARCH.attention.kv_lora_rank, q_lora_rank, key_length_mla, value_length_mla, as
 * llama.cpp's converter writes them). */
#include "model/shape.h"

#include "base/arith.h"

#include <inttypes.h>
#include <stdio.h>

enum { MAX_WIDTH = 1 << 20, MAX_RANK = 512 /* KERNELS_MAX_HEAD */, MAX_ROT = 128, STEP = 32 };

/* Files of an older converter, with attn_kv_b in one piece: their numbers of heads are those of K and V as
 * each head has them, not those of the row that all share. */
static bool is_older(const struct gguf *g, const struct shape *s) {
    char key[96];
    snprintf(key, sizeof key, "%s.attention.key_length_mla", s->arch_name);
    return !gguf_find(g, key, NULL) && gguf_find_tensor(g, "blk.0.attn_kv_b.weight") != NULL &&
           gguf_find_tensor(g, "blk.0.attn_k_b.weight") == NULL;
}

stator_status shape_read_mla(const struct gguf *g, struct shape *s, stator_error *e) {
    struct shape_mla *m = &s->mla;
    uint32_t key = 0;
    const bool older = is_older(g, s);
    if (older)
        s->n_kv_heads = 1;
    stator_status st = shape_read_u32(g, s, "attention.kv_lora_rank", 1, MAX_RANK, &m->kv_rank, e);
    if (st == STATOR_OK)
        st = shape_read_u32_or(g, s, "attention.q_lora_rank", 0, MAX_WIDTH, 0, &m->q_rank, e);
    if (st == STATOR_OK)
        st = shape_read_u32(g, s, "rope.dimension_count", 2, MAX_ROT, &s->n_rot, e);
    if (st == STATOR_OK)
        st = shape_read_u32(g, s, older ? "attention.key_length" : "attention.key_length_mla", s->n_rot + 1,
                            MAX_WIDTH, &key, e);
    if (st == STATOR_OK)
        st = shape_read_u32(g, s, older ? "attention.value_length" : "attention.value_length_mla", 1,
                            MAX_WIDTH, &m->dim_v, e);
    m->nope = key - s->n_rot;
    /* The cache and the kernels of attention need multiples. */
    s->head_dim_k = (uint32_t)arith_round_up(m->kv_rank + s->n_rot, STEP);
    s->head_dim_v = (uint32_t)arith_round_up(m->kv_rank, STEP);
    if (st == STATOR_OK && s->n_kv_heads != 1)
        st = gguf_error(
            g, e, "key '%s.attention.head_count_kv' is %" PRIu32 ", expected 1: all heads share one row of K",
            s->arch_name, s->n_kv_heads);
    const uint64_t widest = ARITH_MAX(ARITH_MAX(key, m->dim_v), s->head_dim_k);
    if (st == STATOR_OK && s->n_heads * widest > MAX_WIDTH)
        st =
            gguf_error(g, e, "%" PRIu32 " heads of %" PRIu64 " dimensions: at most %d together are supported",
                       s->n_heads, widest, MAX_WIDTH);
    return st;
}
