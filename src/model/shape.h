/* The shape of a model: what the metadata and the tensor directory say together, checked against each other.
 * Every field that a builder needs is here; builders never read metadata themselves. */
#ifndef STATOR_MODEL_SHAPE_H
#define STATOR_MODEL_SHAPE_H

#include "model/gguf.h"

struct arch; /* arch/arch.h */

#define SHAPE_MAX_LAYERS 512
#define SHAPE_OWN        16 /* tensors of a layer that only its architecture names */

/* What a tensor's columns, rows or matrices must be. */
enum shape_extent {
    SHAPE_NONE, /* 1; of rows: a vector, F32 */
    SHAPE_EMBD,
    SHAPE_TWO_EMBD,
    SHAPE_THREE_EMBD,
    SHAPE_FF,
    SHAPE_HEADS_K,
    SHAPE_HEADS_V,
    SHAPE_KV_K,
    SHAPE_KV_V,
    SHAPE_HEAD_K,
    SHAPE_VOCAB,
    SHAPE_HALF_ROT,
    SHAPE_HEADS,
    SHAPE_QKV,           /* q, then k, then v */
    SHAPE_TWO_FF,        /* gate, then up */
    SHAPE_GATED_HEADS_K, /* heads of q, each with its gate behind it */
    SHAPE_DELTA_QKV,
    SHAPE_DELTA_QKVZ, /* and the gates of the output */
    SHAPE_DELTA_V,
    SHAPE_DELTA_HEADS, /* of values */
    SHAPE_DELTA_TWO_HEADS,
    SHAPE_DELTA_HEAD_V,
    SHAPE_DELTA_TAPS,
    SHAPE_DELTA_KEY_HEADS,
    SHAPE_SSD_IN,    /* gates, what is convolved, and dt of each head */
    SHAPE_SSD_GROUP, /* values of a key head */
    SHAPE_CONV_TAPS,
    SHAPE_EXPERTS,
    SHAPE_EXPERT_FF,
    SHAPE_EXPERT_IN,     /* what experts multiply and give: n_embd, or experts.latent */
    SHAPE_TWO_EXPERT_FF, /* gate, then up */
    SHAPE_SHARED_FF,
    SHAPE_LABELS,
    SHAPE_DENSE,
    SHAPE_LAYER_EMBD,
    SHAPE_ALL_LAYER_EMBD, /* of all layers together */
    SHAPE_MLA_Q,          /* all heads of q before they are absorbed */
    SHAPE_MLA_Q_RANK,
    SHAPE_MLA_KV_RANK,
    SHAPE_MLA_ROW,  /* kv_rank, then what RoPE rotates */
    SHAPE_MLA_NOPE, /* of a head of q: what it does not */
    SHAPE_MLA_KV_B, /* all heads: that many rows of K, then those of V */
    SHAPE_MLA_V,    /* of a head */
    SHAPE_MLA_HEADS_V,
    SHAPE_STREAMS,      /* of the residual stream */
    SHAPE_STREAMS_EMBD, /* all of them side by side */
    SHAPE_STREAMS_RANK,
    SHAPE_INDEX_Q, /* all heads of the indexer's queries */
    SHAPE_INDEX_K,
    SHAPE_NGRAM_DIM,  /* of a row */
    SHAPE_NGRAM_EMBD, /* the rows of a token side by side */
    SHAPE_NGRAM_ROWS, /* as many as the table has */
    SHAPE_NGRAM_TAPS
};

/* Layers that have a tensor. */
enum shape_layers {
    SHAPE_ALL_LAYERS,
    SHAPE_DELTA_LAYERS,  /* shape_is_delta */
    SHAPE_FULL_LAYERS,   /* shape_has_attention */
    SHAPE_CONV_LAYERS,   /* shape.no_attention: a gated convolution in its place */
    SHAPE_NGRAM_LAYERS,  /* shape_has_ngram */
    SHAPE_DENSE_LAYERS,  /* without experts */
    SHAPE_EXPERT_LAYERS, /* shape_has_experts */
    SHAPE_SHARED_LAYERS, /* of those, in models with a shared expert */
    SHAPE_LATENT_LAYERS, /* of those, in models with experts.latent */
    SHAPE_Q_RANK_LAYERS, /* all, in models with mla.q_rank */
    SHAPE_NO_Q_RANK_LAYERS
};

/* One row per tensor name of an architecture. */
struct shape_place {
    const char *name; /* of layer tensors: behind "blk.N." */
    size_t field;     /* of struct shape_layer, or struct shape: SHAPE_LAYER, SHAPE_GLOBAL */
    enum shape_extent cols, rows;
    enum shape_extent matrices; /* of a 3-D tensor: its last dimension */
    bool optional;
    size_t
        fused; /* field of struct shape_layer: its rows are in that tensor instead, if it is there; 0: not */
    bool f32;  /* other types are refused; vectors are F32 anyhow */
    enum shape_layers layers;
};

struct shape;

struct shape_tensors {
    const struct shape_place *layer, *global;
    size_t n_layer, n_global;
    const struct shape_place *nextn; /* what an MTP head has besides an attention layer's; or NULL */
    size_t n_nextn;
    /* Gives layers the tensors that other tensors of the file hold; or NULL. */
    void (*derive)(const struct gguf *g, struct shape *s);
    const char *const *redundant; /* names that may be there and are not read ("blk.N." for those of layers);
                                     NULL at the end; or NULL */
};

#define SHAPE_LAYER(f)  .field = offsetof(struct shape_layer, f)
#define SHAPE_GLOBAL(f) .field = offsetof(struct shape, f)
#define SHAPE_TABLE(l, g)                                                                                    \
    .layer = (l), .n_layer = sizeof(l) / sizeof((l)[0]), .global = (g), .n_global = sizeof(g) / sizeof((g)[0])

/* How the rows of a text's tokens become one vector; values of the key ARCH.pooling_type, as llama.cpp has
 * them. */
enum shape_pooling {
    SHAPE_POOL_NONE, /* a language model: rows are logits */
    SHAPE_POOL_MEAN, /* the mean of all tokens' rows */
    SHAPE_POOL_CLS,  /* the first token's */
    SHAPE_POOL_LAST, /* the last token's */
    SHAPE_POOL_RANK, /* the last token's, times the classifier; without one: its logits */
    SHAPE_POOLINGS
};

/* The tensors of one layer; NULL where the architecture or the file has none. */
struct shape_layer {
    const struct gguf_tensor *attn_norm; /* [n_embd] F32 */
    const struct gguf_tensor *q, *k, *v; /* rows = heads * head_dim, cols = n_embd */
    const struct gguf_tensor *qkv;       /* in place of these three: one after the other */
    const struct gguf_tensor *qkv_bias;  /* likewise */
    const struct gguf_tensor *q_bias, *k_bias, *v_bias;
    const struct gguf_tensor *q_norm, *k_norm; /* [head_dim_k] */
    const struct gguf_tensor *attn_output;     /* rows = n_embd, cols = n_head * head_dim_v */
    const struct gguf_tensor *attn_output_bias;
    const struct gguf_tensor *sinks; /* [n_heads] */
    const struct gguf_tensor *ffn_norm;
    const struct gguf_tensor *gate, *up;           /* rows = n_ff; without gate: up has both, gate first */
    const struct gguf_tensor *down;                /* rows = n_embd */
    const struct gguf_tensor *gate_bias, *up_bias; /* [n_ff] */
    const struct gguf_tensor *down_bias;           /* [n_embd] */
    struct shape_experts_tensors {
        const struct gguf_tensor *router;                  /* [n_embd, experts] */
        const struct gguf_tensor *router_bias;             /* [experts] */
        const struct gguf_tensor *choice_bias;             /* [experts], of what chooses alone */
        const struct gguf_tensor *gate, *up, *down;        /* 3-D, a matrix per expert */
        const struct gguf_tensor *gate_up;                 /* in place of two: gate's rows, then up's */
        const struct gguf_tensor *latent_down, *latent_up; /* [n_embd, latent] before, and back behind */
        const struct gguf_tensor *gate_bias, *up_bias, *down_bias; /* [rows, experts] F32 */
        const struct gguf_tensor *shared_router;                   /* [n_embd] */
        const struct gguf_tensor *shared_gate, *shared_up, *shared_down;
    } experts;
    struct shape_nextn_tensors {                 /* of an MTP head */
        const struct gguf_tensor *pair;          /* [2 n_embd, n_embd]: of an embedding and a hidden state, */
        const struct gguf_tensor *enorm, *hnorm; /* normed with these */
        const struct gguf_tensor *norm;          /* before the output matrix; NULL: output_norm */
        const struct gguf_tensor *embed, *head;  /* NULL: token_embd, output */
        struct shape_mix_tensors {               /* hyper-connections: */
            const struct gguf_tensor *norm;      /* [streams * n_embd] F32 */
            const struct gguf_tensor *down, *up; /* [streams * n_embd, rank] and back */
            const struct gguf_tensor *inject;    /* [streams * n_embd, streams]; not of the last mix */
        } mix;                                   /* in place of `norm` */
    } nextn;
    struct shape_mix_tensors mix_attn, mix_ffn; /* before the mixer, and before the feed-forward */
    struct shape_index_tensors {
        const struct gguf_tensor *q, *k; /* [n_embd, index.heads * index.dim], [n_embd, index.dim] */
        const struct gguf_tensor *q_norm, *k_norm; /* [index.dim] */
    } index;
    struct shape_ngram_tensors {
        const struct gguf_tensor *key;   /* [ngram.heads * ngram.dim, streams * n_embd] */
        const struct gguf_tensor *value; /* [ngram.heads * ngram.dim, n_embd] */
        const struct gguf_tensor *norm_key, *norm_query, *norm_conv; /* [streams * n_embd] F32 */
        const struct gguf_tensor *conv;                              /* [ngram.taps, streams * n_embd] F32 */
    } ngram;
    const struct gguf_tensor *own[SHAPE_OWN];
};

/* Gated delta-net layers; key_heads 0: the model has none. */
struct shape_delta {
    uint32_t key_heads, value_heads; /* value_heads is a multiple */
    uint32_t dim_k, dim_v;
    uint32_t taps;     /* of the convolution, its own token included */
    uint32_t interval; /* every so many layers the last one has attention */
    bool grouped;      /* value heads of one key head lie together, and so do their betas and alphas */
    bool sigmoid;      /* the output's gates are sigmoids, not SiLU */
    bool ssd;          /* layers of Mamba-2: those without attention; key heads are its groups */
};

/* Pair j of YaRN: its frequency is what it was, times 1 - m + m / rope_scale; m = share less 1 at `low` and
 * below, 1 at low + width and above. */
struct shape_yarn {
    float share; /* 0: all pairs are scaled */
    float low, width;
};

/* Heads of K and V, and of q their size. */
struct shape_heads {
    uint32_t n_kv;
    uint32_t dim_k; /* a multiple of 32 */
    uint32_t dim_v;
    uint32_t n_rot; /* dimensions that RoPE rotates, even, <= dim_k */
};

/* Latent attention (MLA): one row of kv_rank + n_rot values per token is K of all heads, and its first
 * kv_rank values are V. n_kv_heads is then 1, head_dim_k is kv_rank + n_rot and head_dim_v kv_rank, both
 * rounded up to multiples of 32. kv_rank 0: none. */
struct shape_mla {
    uint32_t kv_rank;
    uint32_t q_rank;       /* 0: q is one product */
    uint32_t nope, dim_v;  /* of a head before q is absorbed, without what RoPE rotates; of a head's output */
    float score_magnitude; /* scores times its square, by YaRN; 0: 1 */
};

/* Hyper-connections: the residual stream is `count` streams of n_embd values, side by side. count 0: it is
 * one stream, and layers add to it without them. */
struct shape_streams {
    uint32_t count;
    uint32_t rank; /* of the product that says how much of each stream a layer's part reads */
};

/* Indexer of attention: a token's query sees the best top_k / ratio blocks of `ratio` tokens in a row, and
 * the tokens behind the last whole block. heads 0: none. */
struct shape_index {
    uint32_t heads, dim; /* of queries, each as wide as the one key; a multiple of 32, >= n_rot */
    uint32_t top_k;      /* tokens, a multiple of ratio */
    uint32_t ratio;      /* of all layers that have an indexer; 4, 8, 16 or 32; 0: none has */
};

#define SHAPE_MAX_NGRAM       8
#define SHAPE_MAX_NGRAM_HEADS 64

/* n-gram embeddings: before layer `layer` each token adds to the residual stream what heads rows of the table
 * ngram_table give. Head h is of n-grams of n = 2 + h / heads_each tokens, and its row is
 * ((t0 * multipliers[0]) ^ .. ^ (t[n - 1] * multipliers[n - 1])) % sizes[h] + offsets[h] in 64 bits without a
 * sign; t0 is the token, t1 the one before. Where one of t1, t2, .. is `eos`, or before the text, it and all
 * behind it are eos. A picture's tokens are those of its marker, which is what ARCH.ple.image_token_id says.
 * heads 0: none. */
struct shape_ngram {
    uint32_t layer;
    uint32_t size;  /* tokens of the longest n-grams, 2 to SHAPE_MAX_NGRAM */
    uint32_t heads; /* (size - 1) * heads_each */
    uint32_t heads_each;
    uint32_t dim;  /* of a row */
    uint32_t taps; /* of the convolution, `size` tokens apart, its own token included */
    uint32_t eos;  /* token */
    uint64_t multipliers[SHAPE_MAX_NGRAM];
    uint64_t sizes[SHAPE_MAX_NGRAM_HEADS], offsets[SHAPE_MAX_NGRAM_HEADS];
};

/* Mixture of experts; count 0: none. */
struct shape_experts {
    uint32_t count, used;
    uint32_t ff;            /* rows of an expert's gate and up */
    uint32_t shared_ff;     /* of the shared expert; 0: none */
    uint32_t latent;        /* the chosen experts work on products of so many values; 0: on n_embd */
    uint32_t leading_dense; /* layers that have a dense feed-forward */
    bool of_chosen;         /* the softmax is of the logits of the chosen alone */
    bool sigmoid;           /* weights are sigmoids of the router's logits; else a softmax */
    bool norm;              /* divided by the sum of those chosen */
    float scale;            /* of weights; 0: 1 */
    bool may_group;         /* the architecture knows groups */
    uint32_t groups,
        groups_used; /* experts are of so many groups, and those chosen of so many; groups 1: none */
    bool clamped;    /* SwiGLU is clamped */
    float alpha, limit;
};

struct shape {
    const struct arch *arch;
    const struct tower *tower; /* it is a vision tower's; else NULL */
    bool arch_unknown;         /* general.architecture says one that is not in the list */
    char arch_name[32];
    char model_name[128]; /* general.name, or the file's name; without control characters */
    uint32_t n_layers;
    uint32_t n_embd;
    uint32_t n_ff;
    uint32_t n_heads;
    uint32_t n_kv_heads;
    uint32_t head_dim_k; /* a multiple of 32 */
    uint32_t head_dim_v;
    uint32_t n_rot; /* dimensions that RoPE rotates, even, <= head_dim_k */
    bool rope_neox; /* pairs are (j, j + n_rot/2); else (2j, 2j + 1) */
    /* Pairs that turn by a token's place in time, by its row and by its column, which are one number in text;
     * all 0: there is one kind of place. Interleaved, pair j turns by the row if j % 3 is 1 and j < 3
     * rope_sections[1], by the column if j % 3 is 2 and j < 3 rope_sections[2], and else by the time. In
     * order, the first rope_sections[0] pairs turn by the time, those behind them by the row, then the
     * column. */
    uint32_t rope_sections[3];
    bool rope_in_order;
    uint32_t
        deepstacks; /* first layers that add what a vision tower's deepstacks give (n_deepstack_layers) */
    float rope_base;
    float rope_scale; /* angle = position / rope_scale * ...; 1 = none */
    struct shape_yarn rope_yarn;
    float rope_magnitude;   /* cos and sin times this */
    uint32_t rope_original; /* context before it was stretched */
    bool rope_multiplied;   /* yarn_log_multiplier is known to the architecture */
    bool rope_exact_bounds; /* yarn's bounds are not rounded: the published gpt-oss has truncate = false, and
                               no key says so */
    bool rope_attn_factor_whole; /* attn_factor equal to 1 + 0.1 ln(factor) is the whole magnitude (OLMo 3) */
    float query_growth;    /* queries times 1 + this * log(1 + floor(position / rope_original)); 0: not */
    bool rope_needs_freqs; /* llama3: its scaling is in rope_freqs */
    bool rope_long;        /* divisors are rope_factors_short, or _long where a sequence may be longer than
                              rope_original */
    uint32_t window;       /* tokens that a query of windowed layers sees; 0: the model has none */
    bool windowed[SHAPE_MAX_LAYERS]; /* shape_has_window */
    float rope_local_base;           /* of the windowed layers, where they have a base of their own */
    bool heads_by_kind; /* to the architecture layers with the window have heads of their own: window_heads;
                           n_kv_heads, head_dim_k, head_dim_v and n_rot are of the others */
    struct shape_heads window_heads;
    uint32_t window_pattern;        /* of such an architecture, for shape_read_window */
    bool ff_by_layer;               /* to the architecture the feed-forward is as wide as ffs[layer] says */
    uint32_t ffs[SHAPE_MAX_LAYERS]; /* n_ff is the widest */
    bool one_part;        /* with ff_by_layer: to the architecture a layer is a mixer of Mamba-2, attention or
                             (ffs[layer] > 0) a feed-forward, and nothing else */
    uint32_t shared_kv;   /* so many last layers have no K and V: each reads the cache of an earlier layer */
    uint32_t layer_embd;  /* width of an embedding that each layer has of its own; 0: none */
    float embed_scale;    /* embedding times this; 0: as it is */
    float residual_scale; /* what layers add to the residual stream times this; 0: as it is */
    float logit_scale;    /* logits divided by this; 0: as they are */
    float attention_cap, logit_cap; /* softcaps of scores and of logits; 0: none */
    bool layer_norm; /* norms subtract the mean first, and eps is called attention.layer_norm_epsilon */
    bool no_rope;    /* heads are not rotated */
    float norm_eps;
    float attention_scale; /* 1 / sqrt(head_dim_k), or what the metadata says */
    uint32_t vocab;        /* rows of token_embd */
    uint32_t context_trained;
    bool tied;          /* no output.weight: token_embd is the output matrix too */
    uint32_t n_factors; /* tensors that matrices are multiplied with (gguf_factor) */
    const struct gguf_tensor *token_embd;
    const struct gguf_tensor *output; /* == token_embd when tied */
    const struct gguf_tensor *output_norm;
    const struct gguf_tensor *layer_token_embd; /* [layer_embd * n_layers, vocab]: those of all layers */
    const struct gguf_tensor *layer_model_proj; /* [n_embd, layer_embd * n_layers] */
    const struct gguf_tensor *layer_proj_norm;  /* [layer_embd] */
    const struct gguf_tensor *rope_freqs;       /* [n_rot / 2] F32 divisors of the angles, or NULL */
    const struct gguf_tensor *rope_factors_long, *rope_factors_short; /* likewise; both or none */
    enum shape_pooling pooling;                                       /* the file's, or that of the config */
    uint32_t labels;                                                  /* rows of the classifier */
    const struct gguf_tensor *classifier;                             /* cls.output; NULL: none */
    bool sees_ahead; /* tokens also see those behind them: a text is computed in one step, and no text is
                        generated. A window is half before a token and half behind it */
    uint32_t dense; /* an embedding goes through two matrices, between which it has so many values; 0: none */
    const struct gguf_tensor *dense_in, *dense_out;
    uint64_t parameters;
    uint64_t tensor_bytes;
    uint32_t n_nextn;       /* MTP heads, behind the layers: layers[n_layers] .. */
    uint32_t nextn_tensors; /* of them */
    uint64_t nextn_bytes;
    uint32_t vision_tensors; /* of a vision tower in the same file: not read */
    uint64_t vision_bytes;
    bool gated; /* heads of q have gates: attention's output is multiplied by their sigmoid */
    struct shape_mla mla;
    bool latent; /* to the architecture attention is latent: the keys of mla are read */
    struct shape_delta delta;
    bool attention_optional; /* to the architecture attention.head_count_kv 0 is a layer without attention */
    bool no_attention[SHAPE_MAX_LAYERS]; /* such layers */
    uint32_t conv_taps;                  /* of gated convolutions, their own token included */
    struct shape_experts experts;
    struct shape_streams streams;
    struct shape_mix_tensors mix_out; /* in place of output_norm; no inject */
    struct shape_index index;
    bool indexed[SHAPE_MAX_LAYERS]; /* shape_has_index */
    struct shape_ngram ngram;
    const struct gguf_tensor *ngram_table; /* [ngram.dim, rows]: 26.8 GiB in the published model's file */
    struct shape_layer layers[SHAPE_MAX_LAYERS];
};

/* For architectures (arch_read calls them in this order, s->arch_name is set). The gguf must outlive the
 * shape. STATOR_BAD_MODEL: missing or mistyped keys, ... by name. */
stator_status shape_read_name(const struct gguf *g, struct shape *s, stator_error *e);
/* n_rot, base and scaling; the latter needs context_trained. */
stator_status shape_read_rope(const struct gguf *g, struct shape *s, stator_error *e);
/* ARCH.rope.dimension_sections and ARCH.n_deepstack_layers, which may be missing, after those and n_layers.
 */
stator_status shape_read_sections(const struct gguf *g, struct shape *s, stator_error *e);
/* STATOR_BAD_MODEL: the sections don't divide the rotated pairs, or there are none. Text alone needs none. */
stator_status shape_check_sections(const struct gguf *g, const struct shape *s, stator_error *e);
/* The window, after those: a width of 0 is an error, or says that there is none; of `pattern` layers the last
 * one has none, if the file does not say otherwise; 0: all layers have the window. */
stator_status shape_read_window(const struct gguf *g, struct shape *s, bool zero_is_none, uint32_t pattern,
                                stator_error *e);
static inline bool shape_has_window(const struct shape *s, uint32_t layer) {
    return s->window > 0 && s->windowed[layer];
}
/* The heads of a layer; UINT32_MAX: of those without the window. */
static inline struct shape_heads shape_heads_of(const struct shape *s, uint32_t layer) {
    if (s->heads_by_kind && layer < SHAPE_MAX_LAYERS && shape_has_window(s, layer))
        return s->window_heads;
    return (struct shape_heads){s->n_kv_heads, s->head_dim_k, s->head_dim_v, s->n_rot};
}
/* For shapes with heads_by_kind, after the window is known. ARCH.attention.head_count_kv (a number, or one
 * per layer, equal in all layers of a kind): n_kv_heads and window_heads.n_kv. */
stator_status shape_read_kv_heads_by_kind(const struct gguf *g, struct shape *s, stator_error *e);
/* The rest of window_heads, after the other layers' heads: ARCH.attention.key_length_swa, value_length_swa,
 * ARCH.rope.dimension_count_swa; a missing key means the number of the other layers. */
stator_status shape_read_window_heads(const struct gguf *g, struct shape *s, stator_error *e);
/* ARCH.feed_forward_length, a number or one per layer: ffs and n_ff, for shapes with ff_by_layer. With
 * one_part it may be 0 in some layers. */
stator_status shape_read_ffs(const struct gguf *g, struct shape *s, stator_error *e);
static inline uint32_t shape_ff_of(const struct shape *s, uint32_t layer) {
    return s->ff_by_layer && layer < s->n_layers ? s->ffs[layer] : s->n_ff;
}
/* ARCH.attention.shared_kv_layers, after the window is known. At least one layer with a window and one
 * without, where the model has both, must have K and V. */
stator_status shape_read_shared_kv(const struct gguf *g, struct shape *s, stator_error *e);
/* The layer whose K and V a layer reads: itself, or the last one of its kind (with a window, or without) that
 * has K and V. */
uint32_t shape_kv_layer(const struct shape *s, uint32_t layer);
/* The first layer of those that must be on one device: no split cuts behind it. n_layers - 1: none must. */
uint32_t shape_joined_from(const struct shape *s);
/* For both kinds: attention's kernels can work with such heads; `key` says where the number is from. */
stator_status shape_check_head_dim(const struct gguf *g, const char *what, uint32_t dim, stator_error *e);
stator_status shape_check_groups(const struct gguf *g, const struct shape *s, uint32_t kv_heads,
                                 stator_error *e);
/* ARCH.attn_logit_softcapping, final_logit_softcapping, or, if the file has none, these. */
stator_status shape_read_caps(const struct gguf *g, struct shape *s, float attention, float logits,
                              stator_error *e);
stator_status shape_read_local_base(const struct gguf *g, struct shape *s, float fallback, stator_error *e);
/* The keys of decoders with RMS norm, RoPE and grouped-query attention. */
stator_status shape_read_dense(const struct gguf *g, struct shape *s, stator_error *e);
/* ARCH.attention.kv_lora_rank, q_lora_rank, key_length_mla, value_length_mla and rope.dimension_count: mla,
 * n_rot and the heads of shapes with `latent`, after n_heads. */
stator_status shape_read_mla(const struct gguf *g, struct shape *s, stator_error *e);
/* The keys of hybrids of gated delta-net and attention layers, after those. */
stator_status shape_read_delta(const struct gguf *g, struct shape *s, stator_error *e);
/* For architectures with hyper-connections, after the keys of decoders and MTP heads:
 * ARCH.hyper_connection.*, ARCH.attention.indexer.* and compress_ratios, ARCH.ple.* (streams, index, ngram).
 */
stator_status shape_read_streams(const struct gguf *g, struct shape *s, stator_error *e);
stator_status shape_read_index(const struct gguf *g, struct shape *s, stator_error *e);
stator_status shape_read_ngram(const struct gguf *g, struct shape *s, stator_error *e);
static inline bool shape_has_index(const struct shape *s, uint32_t layer) {
    return s->index.heads > 0 && layer < s->n_layers && s->indexed[layer];
}
static inline bool shape_has_ngram(const struct shape *s, uint32_t layer) {
    return s->ngram.heads > 0 && layer == s->ngram.layer;
}
/* Values of a row of the residual stream. */
static inline uint32_t shape_stream_width(const struct shape *s) {
    return s->streams.count > 0 ? s->streams.count * s->n_embd : s->n_embd;
}
/* Splits a tensor's name "blk.N.rest" (N without leading zeros); false if it has another form. */
bool shape_split_layer_name(struct gguf_text name, uint64_t *layer, struct gguf_text *rest);

/* MTP heads (ARCH.nextn_predict_layers). block_count includes them, and n_layers is then lowered by
 * their number. Such a block has nextn.* tensors, or no tensors at all where the file leaves it out. If the
 * last blocks have other tensors alone, block_count counts real layers only, and the file has no MTP head. */
stator_status shape_read_nextn(const struct gguf *g, struct shape *s, stator_error *e);
/* ARCH.pooling_type and ARCH.classifier.output_labels: pooling and labels; both keys may be missing. */
stator_status shape_read_pooling(const struct gguf *g, struct shape *s, stator_error *e);
const char *shape_pooling_name(enum shape_pooling pooling); /* "mean" */
/* The rows that a step gives are hidden states behind the final norm, not products with a matrix. */
bool shape_pools(const struct shape *s);
/* Values of such a row: the width of the hidden state, the classifier's labels, or the vocabulary. */
uint32_t shape_row_width(const struct shape *s);
/* The first of them has all tensors that it needs. STATOR_USAGE: the model has none, or its architecture's
 * are not computed; STATOR_BAD_MODEL. */
stator_status shape_check_nextn(const struct gguf *g, const struct shape *s,
                                const struct shape_tensors *tensors, stator_error *e);
static inline bool shape_is_delta(const struct shape *s, uint32_t layer) {
    if (s->delta.key_heads == 0 || layer >= s->n_layers)
        return false;
    return s->delta.ssd ? s->no_attention[layer] && (!s->one_part || s->ffs[layer] == 0)
                        : (layer + 1) % s->delta.interval != 0;
}
static inline bool shape_has_attention(const struct shape *s, uint32_t layer) {
    return !shape_is_delta(s, layer) && !s->no_attention[layer];
}
/* "ARCH.name", min to max; or, if the file has none, the fallback. */
stator_status shape_read_u32(const struct gguf *g, const struct shape *s, const char *name, uint32_t min,
                             uint32_t max, uint32_t *v, stator_error *e);
stator_status shape_read_u32_or(const struct gguf *g, const struct shape *s, const char *name, uint32_t min,
                                uint32_t max, uint32_t fallback, uint32_t *v, stator_error *e);
/* The same, and s->experts, whose ff, sigmoid, norm and scale have the architecture's defaults; ff 0: it is
 * n_ff. A file without experts is one without (count 0). */
stator_status shape_read_experts(const struct gguf *g, struct shape *s, stator_error *e);
static inline bool shape_has_ff(const struct shape *s, uint32_t layer) {
    return !s->one_part || s->ffs[layer] > 0;
}
static inline bool shape_has_experts(const struct shape *s, uint32_t layer) {
    return s->experts.count > 0 && layer >= s->experts.leading_dense && shape_has_ff(s, layer);
}
/* Every tensor of the file to its place, and every place checked; a tensor without a place is refused. */
stator_status shape_read_tensors(const struct gguf *g, const struct shape_tensors *tensors, struct shape *s,
                                 stator_error *e);

/* "blk.N." left out of name: whether it is one of these ("NAME.scale", or "NAME.input_scale"); what is wrong
 * with it. */
bool shape_is_factor(struct gguf_text name, bool *of_input);
stator_status shape_check_factor(const struct gguf *g, const struct shape *s, const struct gguf_tensor *t,
                                 struct gguf_text name, stator_error *e);

#endif
