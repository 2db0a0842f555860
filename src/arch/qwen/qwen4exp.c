/* qwen4exp: qwen35moe with hyper-connections in place of norms and of the residual stream (parts_streams.c),
 * a delta net whose output's gates are sigmoids, and attention that an indexer narrows. */
#include "arch/parts/parts.h"

#include <inttypes.h>

#define MIX_ROW(field, text, ...)                                                                            \
    { SHAPE_LAYER(field), .name = (text), .cols = SHAPE_STREAMS_EMBD, __VA_ARGS__ }
#define MIX(of, text)                                                                                        \
    MIX_ROW(of.norm, text "_norm.weight", ),                                                                 \
        MIX_ROW(of.down, text "_down.weight", .rows = SHAPE_STREAMS_RANK),                                   \
        MIX_ROW(of.inject, text "_inject.weight", .rows = SHAPE_STREAMS), {                                  \
        SHAPE_LAYER(of.up), .name = text "_up.weight", .cols = SHAPE_STREAMS_RANK,                           \
                            .rows = SHAPE_STREAMS_EMBD                                                       \
    }
#define INDEX_ROW(field, text, c, r)                                                                         \
    { SHAPE_LAYER(index.field), .name = (text), .cols = (c), .rows = (r), .layers = SHAPE_FULL_LAYERS }

#define NGRAM_ROW(field, text, c, r, ...)                                                                    \
    {                                                                                                        \
        SHAPE_LAYER(ngram.field), .name = (text), .cols = (c), .rows = (r), .layers = SHAPE_NGRAM_LAYERS,    \
                                  __VA_ARGS__                                                                \
    }

static const struct shape_place layer[] = {
    MIX(mix_attn, "hc_attn"),
    PARTS_DELTA,
    PARTS_DELTA_FACTORS,
    PARTS_GATED_ATTENTION,
    INDEX_ROW(q, "indexer.q_proj.weight", SHAPE_EMBD, SHAPE_INDEX_Q),
    INDEX_ROW(k, "indexer.k_proj.weight", SHAPE_EMBD, SHAPE_INDEX_K),
    INDEX_ROW(q_norm, "indexer.q_norm.weight", SHAPE_INDEX_K, SHAPE_NONE),
    INDEX_ROW(k_norm, "indexer.k_norm.weight", SHAPE_INDEX_K, SHAPE_NONE),
    MIX(mix_ffn, "hc_ffn"),
    NGRAM_ROW(key, "ple_key.weight", SHAPE_NGRAM_EMBD, SHAPE_STREAMS_EMBD, ),
    NGRAM_ROW(value, "ple_value.weight", SHAPE_NGRAM_EMBD, SHAPE_EMBD, ),
    NGRAM_ROW(norm_key, "ple_norm_key.weight", SHAPE_STREAMS_EMBD, SHAPE_NONE, ),
    NGRAM_ROW(norm_query, "ple_norm_query.weight", SHAPE_STREAMS_EMBD, SHAPE_NONE, ),
    NGRAM_ROW(norm_conv, "ple_norm_conv.weight", SHAPE_STREAMS_EMBD, SHAPE_NONE, ),
    NGRAM_ROW(conv, "ple_conv1d.weight", SHAPE_NGRAM_TAPS, SHAPE_STREAMS_EMBD, .f32 = true),
    PARTS_EXPERTS,
    PARTS_SHARED_EXPERT,
    PARTS_SHARED_ROUTER,
};

static const struct shape_place nextn[] = {
    {SHAPE_LAYER(nextn.pair), .name = "nextn.eh_proj.weight", .cols = SHAPE_TWO_EMBD, .rows = SHAPE_EMBD},
    {SHAPE_LAYER(nextn.enorm), .name = "nextn.enorm.weight", .cols = SHAPE_EMBD},
    {SHAPE_LAYER(nextn.hnorm), .name = "nextn.hnorm.weight", .cols = SHAPE_STREAMS_EMBD},
    {SHAPE_LAYER(nextn.mix.norm), .name = "nextn.hc_head_norm.weight", .cols = SHAPE_STREAMS_EMBD},
    {SHAPE_LAYER(nextn.mix.down), .name = "nextn.hc_head_down.weight", .cols = SHAPE_STREAMS_EMBD,
     .rows = SHAPE_STREAMS_RANK},
    {SHAPE_LAYER(nextn.mix.up), .name = "nextn.hc_head_up.weight", .cols = SHAPE_STREAMS_RANK,
     .rows = SHAPE_STREAMS_EMBD},
    {SHAPE_LAYER(nextn.embed), .name = "nextn.embed_tokens.weight", .cols = SHAPE_EMBD, .rows = SHAPE_VOCAB,
     .optional = true},
    {SHAPE_LAYER(nextn.head), .name = "nextn.shared_head_head.weight", .cols = SHAPE_EMBD,
     .rows = SHAPE_VOCAB, .optional = true},
};

static const struct shape_place global[] = {
    {SHAPE_GLOBAL(ngram_table), .name = "per_layer_token_embd.weight", .cols = SHAPE_NGRAM_DIM,
     .rows = SHAPE_NGRAM_ROWS, .optional = true}, /* parts_check_ngram */
    {SHAPE_GLOBAL(token_embd), .name = "token_embd.weight", .cols = SHAPE_EMBD, .rows = SHAPE_VOCAB},
    {SHAPE_GLOBAL(mix_out.norm), .name = "output_hc_norm.weight", .cols = SHAPE_STREAMS_EMBD},
    {SHAPE_GLOBAL(mix_out.down), .name = "output_hc_down.weight", .cols = SHAPE_STREAMS_EMBD,
     .rows = SHAPE_STREAMS_RANK},
    {SHAPE_GLOBAL(mix_out.up), .name = "output_hc_up.weight", .cols = SHAPE_STREAMS_RANK,
     .rows = SHAPE_STREAMS_EMBD},
    {SHAPE_GLOBAL(output), .name = "output.weight", .cols = SHAPE_EMBD, .rows = SHAPE_VOCAB,
     .optional = true},
};

static stator_status refuse(const struct gguf *g, const struct shape *s, stator_error *e) {
    if (s->experts.count == 0)
        return gguf_error(g, e, "key '%s.expert_count' is missing or 0: expected experts in every layer",
                          s->arch_name);
    if (s->experts.leading_dense > 0)
        return gguf_error(
            g, e, "key '%s.leading_dense_block_count' is %" PRIu32 ", expected 0: every layer has experts",
            s->arch_name, s->experts.leading_dense);
    if (s->deepstacks > 0)
        return gguf_error(g, e,
                          "key '%s.n_deepstack_layers' is %" PRIu32
                          ": pictures that add to layers' streams are not supported",
                          s->arch_name, s->deepstacks);
    return STATOR_OK;
}

static stator_status read(const struct gguf *g, struct shape *s, stator_error *e) {
    s->experts.norm = s->delta.sigmoid = true;
    stator_status st = shape_read_experts(g, s, e);
    if (st == STATOR_OK)
        st = parts_read_hybrid(g, s, e);
    if (st == STATOR_OK)
        st = shape_read_sections(g, s, e);
    if (st == STATOR_OK)
        st = shape_read_streams(g, s, e);
    if (st == STATOR_OK)
        st = shape_read_index(g, s, e);
    if (st == STATOR_OK)
        st = shape_read_ngram(g, s, e);
    return st == STATOR_OK ? refuse(g, s, e) : st;
}

static void build(struct graph *g, const struct shape *s) {
    struct parts p;
    parts_begin(&p, g, s);
    parts_delta_begin(&p);
    parts_nextn_begin(&p);
    parts_ngram_begin(&p);
    for (uint32_t i = g->want.first_layer; i < g->want.end_layer; i++) {
        const struct shape_layer *l = &s->layers[i];
        parts_ngram(&p, i, p.streams);
        if (shape_is_delta(s, i))
            parts_delta(&p, i, parts_mix(&p, i, "attn", &l->mix_attn, parts_delta_forms(l)));
        else
            parts_attention(&p, i, parts_mix(&p, i, "attn", &l->mix_attn, parts_qkv_forms(l)));
        parts_inject(&p, i);
        parts_experts(&p, i, parts_mix(&p, i, "ffn", &l->mix_ffn, parts_experts_forms(s, i)), GRAPH_SWIGLU);
        parts_inject(&p, i);
    }
    parts_end(&p);
}

const struct arch arch_qwen4exp = {
    .name = "qwen4exp",
    .models = "Qwen3.8-Flash-Next (125B-A6B)",
    .tensors = {SHAPE_TABLE(layer, global), .nextn = nextn, .n_nextn = sizeof nextn / sizeof nextn[0]},
    .read = read,
    .build = build,
    .check = parts_check_ngram,
    .layer = {.ops = 34, .values = 29, .weights = 40}};
