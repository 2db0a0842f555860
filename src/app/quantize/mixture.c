#include "app/quantize/mixture.h"

#include "formats/block.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* llama.cpp's file types; the numbers are those in files. */
enum file_type {
    F32 = 0,
    F16 = 1,
    Q4_0 = 2,
    Q4_1 = 3,
    Q8_0 = 7,
    Q5_0 = 8,
    Q5_1 = 9,
    Q2_K = 10,
    Q3_K_S = 11,
    Q3_K_M = 12,
    Q3_K_L = 13,
    Q4_K_S = 14,
    Q4_K_M = 15,
    Q5_K_S = 16,
    Q5_K_M = 17,
    Q6_K = 18,
    IQ2_XXS = 19,
    IQ2_XS = 20,
    Q2_K_S = 21,
    IQ3_XS = 22,
    IQ3_XXS = 23,
    IQ1_S = 24,
    IQ4_NL = 25,
    IQ3_S = 26,
    IQ3_M = 27,
    IQ2_S = 28,
    IQ2_M = 29,
    IQ4_XS = 30,
    IQ1_M = 31,
    BF16 = 32,
    TQ1_0 = 36,
    TQ2_0 = 37,
    MXFP4_MOE = 38,
    Q1_0 = 40,
    Q2_0 = 41
};

static const struct mixture mixtures[] = {
    {"Q1_0", Q1_0, BLOCK_Q1_0, "1.1 bits, for models of 1 and -1"},
    {"IQ1_S", IQ1_S, BLOCK_IQ1_S, "1.6 bits"},
    {"TQ1_0", TQ1_0, BLOCK_TQ1_0, "1.7 bits, for ternary models"},
    {"IQ1_M", IQ1_M, BLOCK_IQ1_M, "1.8 bits"},
    {"IQ2_XXS", IQ2_XXS, BLOCK_IQ2_XXS, "2.1 bits"},
    {"TQ2_0", TQ2_0, BLOCK_TQ2_0, "2.1 bits, for ternary models"},
    {"Q2_0", Q2_0, BLOCK_Q2_0, "2.3 bits, for models of -1, 0, 1 and 2"},
    {"IQ2_XS", IQ2_XS, BLOCK_IQ2_XS, "2.3 bits"},
    {"IQ2_S", IQ2_S, BLOCK_IQ2_XS, "2.5 bits"},
    {"IQ2_M", IQ2_M, BLOCK_IQ2_S, "2.7 bits"},
    {"Q2_K_S", Q2_K_S, BLOCK_Q2_K, "2.8 bits"},
    {"Q2_K", Q2_K, BLOCK_Q2_K, "3.0 bits"},
    {"IQ3_XXS", IQ3_XXS, BLOCK_IQ3_XXS, "3.1 bits"},
    {"IQ3_XS", IQ3_XS, BLOCK_IQ3_S, "3.3 bits"},
    {"IQ3_S", IQ3_S, BLOCK_IQ3_S, "3.4 bits"},
    {"Q3_K_S", Q3_K_S, BLOCK_Q3_K, "3.5 bits"},
    {"IQ3_M", IQ3_M, BLOCK_IQ3_S, "3.7 bits"},
    {"Q3_K_M", Q3_K_M, BLOCK_Q3_K, "3.9 bits"},
    {"Q3_K_L", Q3_K_L, BLOCK_Q3_K, "4.2 bits"},
    {"IQ4_XS", IQ4_XS, BLOCK_IQ4_XS, "4.3 bits"},
    {"MXFP4_MOE", MXFP4_MOE, BLOCK_MXFP4, "4.3 bits of experts, 8.5 of the rest"},
    {"Q4_0", Q4_0, BLOCK_Q4_0, "4.5 bits"},
    {"IQ4_NL", IQ4_NL, BLOCK_IQ4_NL, "4.5 bits"},
    {"Q4_K_S", Q4_K_S, BLOCK_Q4_K, "4.6 bits"},
    {"Q4_K_M", Q4_K_M, BLOCK_Q4_K, "4.8 bits: the usual choice"},
    {"Q4_1", Q4_1, BLOCK_Q4_1, "5.0 bits"},
    {"Q5_0", Q5_0, BLOCK_Q5_0, "5.5 bits"},
    {"Q5_K_S", Q5_K_S, BLOCK_Q5_K, "5.5 bits"},
    {"Q5_K_M", Q5_K_M, BLOCK_Q5_K, "5.7 bits"},
    {"Q5_1", Q5_1, BLOCK_Q5_1, "6.0 bits"},
    {"Q6_K", Q6_K, BLOCK_Q6_K, "6.6 bits"},
    {"Q8_0", Q8_0, BLOCK_Q8_0, "8.5 bits: hardly a difference"},
    {"F16", F16, BLOCK_F16, "16 bits"},
    {"BF16", BF16, BLOCK_BF16, "16 bits"},
    {"F32", F32, BLOCK_F32, "32 bits"},
};

const struct mixture *mixture_at(uint32_t i) {
    return i < sizeof mixtures / sizeof mixtures[0] ? &mixtures[i] : NULL;
}

const struct mixture *mixture_find(const char *name) {
    static const char *const aliases[][2] = {{"Q3_K", "Q3_K_M"}, {"Q4_K", "Q4_K_M"}, {"Q5_K", "Q5_K_M"}};
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++)
        if (strcasecmp(name, aliases[i][0]) == 0)
            name = aliases[i][1];
    for (uint32_t i = 0; mixture_at(i) != NULL; i++)
        if (strcasecmp(name, mixtures[i].name) == 0)
            return &mixtures[i];
    return NULL;
}

static bool has(struct gguf_text name, const char *part) {
    return memmem(name.data, name.length, part, strlen(part)) != NULL;
}

static bool ends(struct gguf_text name, const char *end) {
    const size_t n = strlen(end);
    return name.length >= n && memcmp(name.data + name.length - n, end, n) == 0;
}

/* Matrices that are no weights of a product, or so small or so sensitive that they stay. */
static bool is_kept(const struct gguf_tensor *t) {
    static const char *const parts[] = {"_norm.weight",
                                        "ffn_gate_inp.weight",
                                        "ffn_gate_tid2eid.weight",
                                        "altup",
                                        "laurel",
                                        "per_layer_model_proj",
                                        "ssm_conv1d",
                                        "shortconv.conv.weight",
                                        "indexer.k_proj.weight",
                                        "indexer.q_proj.weight",
                                        "time_mix_first.weight",
                                        "time_mix_w0.weight",
                                        "time_mix_w1.weight",
                                        "time_mix_w2.weight",
                                        "time_mix_v0.weight",
                                        "time_mix_v1.weight",
                                        "time_mix_v2.weight",
                                        "time_mix_a0.weight",
                                        "time_mix_a1.weight",
                                        "time_mix_a2.weight",
                                        "time_mix_g1.weight",
                                        "time_mix_g2.weight",
                                        "time_mix_decay_w1.weight",
                                        "time_mix_decay_w2.weight",
                                        "time_mix_lerp_fused.weight",
                                        "attn_rel_b.weight",
                                        ".position_embd",
                                        "sam.pos_embd",
                                        "sam.neck.",
                                        "sam.net_",
                                        ".rel_pos",
                                        ".patch_embd",
                                        ".patch_merger",
                                        "a.rvq.codebook",
                                        "mm.a.code_embd"};
    const bool vector = t->ne[1] == 1 && t->ne[2] == 1 && t->ne[3] == 1;
    if (vector || !ends(t->name, "weight") || gguf_text_is(t->name, "position_embd.weight") ||
        gguf_text_is(t->name, "token_types.weight"))
        return true;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (has(t->name, parts[i]))
            return true;
    return false;
}

enum mixture_kind mixture_kind_of(const struct gguf_tensor *t, bool tied) {
    static const struct {
        const char *part;
        enum mixture_kind kind;
    } parts[] = {{"attn_qkv.weight", MIXTURE_V}, {"attn_kv_b.weight", MIXTURE_V},
                 {"attn_v.weight", MIXTURE_V},   {"attn_k.weight", MIXTURE_K},
                 {"attn_q.weight", MIXTURE_Q},   {"attn_output.weight", MIXTURE_ATTENTION_OUTPUT},
                 {"ffn_up", MIXTURE_UP},         {"ffn_gate", MIXTURE_GATE},
                 {"ffn_down", MIXTURE_DOWN}};
    if (is_kept(t))
        return MIXTURE_KEPT;
    if (gguf_text_is(t->name, "output.weight"))
        return MIXTURE_OUTPUT;
    if (gguf_text_is(t->name, "token_embd.weight") || gguf_text_is(t->name, "per_layer_token_embd.weight"))
        return tied ? MIXTURE_OUTPUT : MIXTURE_EMBEDDING;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (has(t->name, parts[i].part))
            return parts[i].kind;
    return MIXTURE_OTHER;
}

int64_t mixture_layer_of(struct gguf_text name) {
    int64_t layer = 0;
    uint64_t i = 4;
    if (name.length < 6 || memcmp(name.data, "blk.", 4) != 0)
        return -1;
    for (; i < name.length && name.data[i] >= '0' && name.data[i] <= '9' && layer < 100000; i++)
        layer = 10 * layer + (name.data[i] - '0');
    return i > 4 && i < name.length && name.data[i] == '.' ? layer : -1;
}

/* When a rule applies, beside the file type and the kind. i: the rank, or the layer where the model has
 * experts; n: layers (of V: tensors of that kind). */
enum when {
    ALWAYS,
    GQA_4,         /* four query heads or more per KV head */
    GQA_4_EXPERTS, /* or four experts */
    NOT_EXPERTS_8,
    EXPERTS_8, /* exactly eight, as Mixtral has */
    NO_IMATRIX,
    IMATRIX_EIGHTH, /* with an importance matrix, i < n / 8 */
    FIRST_2,
    FIRST_4,
    RANK_EIGHTH, /* the rank < n / 8, experts or not */
    EIGHTH,      /* i < n / 8 */
    SIXTEENTH,
    EIGHTH_NO_IMATRIX,
    INNER,     /* n / 8 <= i < 7 n / 8 */
    MORE_BITS, /* the first and the last eighth, and every third between */
    EXPERTS_8_MORE_BITS
};

#define BIT(file_type) (1ull << (file_type))
#define IQ1_IQ2        (BIT(IQ2_XXS) | BIT(IQ2_XS) | BIT(IQ1_S) | BIT(IQ2_S) | BIT(IQ2_M) | BIT(IQ1_M))
#define IQ2_UPPER      (BIT(IQ2_S) | BIT(IQ2_M))
#define ANY            (~0ull)

/* The first rule that applies decides. */
static const struct rule {
    uint64_t file_types; /* a set */
    enum mixture_kind kind;
    enum when when;
    uint32_t type;
} rules[] = {
    {IQ1_IQ2 & ~IQ2_UPPER, MIXTURE_EMBEDDING, ALWAYS, BLOCK_Q2_K},
    {IQ2_UPPER | BIT(IQ3_XXS), MIXTURE_EMBEDDING, ALWAYS, BLOCK_IQ3_S},
    {BIT(TQ1_0) | BIT(TQ2_0) | BIT(Q2_0), MIXTURE_EMBEDDING, ALWAYS, BLOCK_Q4_K},

    {IQ1_IQ2, MIXTURE_V, GQA_4_EXPERTS, BLOCK_Q4_K},
    {IQ2_UPPER, MIXTURE_V, ALWAYS, BLOCK_IQ3_S},
    {IQ1_IQ2, MIXTURE_V, ALWAYS, BLOCK_Q2_K},
    {IQ1_IQ2, MIXTURE_K, EXPERTS_8, BLOCK_Q4_K},
    {IQ2_UPPER, MIXTURE_DOWN, RANK_EIGHTH, BLOCK_IQ3_S},
    {IQ1_IQ2, MIXTURE_DOWN, RANK_EIGHTH, BLOCK_Q2_K},
    {IQ1_IQ2, MIXTURE_ATTENTION_OUTPUT, EXPERTS_8, BLOCK_Q5_K},
    {BIT(IQ1_S) | BIT(IQ1_M), MIXTURE_ATTENTION_OUTPUT, ALWAYS, BLOCK_IQ2_XXS},
    {IQ2_UPPER, MIXTURE_ATTENTION_OUTPUT, ALWAYS, BLOCK_IQ3_S},

    {ANY & ~IQ1_IQ2, MIXTURE_V, EXPERTS_8, BLOCK_Q8_0},
    {BIT(Q2_K) | BIT(Q2_K_S), MIXTURE_V, GQA_4, BLOCK_Q4_K},
    {BIT(Q2_K), MIXTURE_V, ALWAYS, BLOCK_Q3_K},
    {BIT(IQ3_XXS) | BIT(IQ3_XS) | BIT(IQ3_S), MIXTURE_V, GQA_4, BLOCK_Q4_K},
    {BIT(IQ3_XXS), MIXTURE_V, NO_IMATRIX, BLOCK_IQ3_S},
    {BIT(IQ3_M), MIXTURE_V, ALWAYS, BLOCK_Q4_K},
    {BIT(Q3_K_M), MIXTURE_V, FIRST_2, BLOCK_Q5_K},
    {BIT(Q3_K_M), MIXTURE_V, ALWAYS, BLOCK_Q4_K},
    {BIT(Q3_K_L), MIXTURE_V, ALWAYS, BLOCK_Q5_K},
    {BIT(IQ4_NL) | BIT(IQ4_XS), MIXTURE_V, GQA_4, BLOCK_Q5_K},
    {BIT(Q4_K_M) | BIT(Q5_K_M), MIXTURE_V, MORE_BITS, BLOCK_Q6_K},
    {BIT(Q4_K_S), MIXTURE_V, FIRST_4, BLOCK_Q5_K},

    {ANY & ~IQ1_IQ2, MIXTURE_K, EXPERTS_8, BLOCK_Q8_0},
    {BIT(IQ3_XS), MIXTURE_K, ALWAYS, BLOCK_IQ3_XXS},
    {BIT(IQ3_XXS), MIXTURE_K, ALWAYS, BLOCK_IQ2_S},
    {BIT(IQ3_XS), MIXTURE_Q, ALWAYS, BLOCK_IQ3_XXS},
    {BIT(IQ3_XXS), MIXTURE_Q, ALWAYS, BLOCK_IQ2_S},

    {BIT(Q2_K), MIXTURE_DOWN, ALWAYS, BLOCK_Q3_K},
    {BIT(Q2_K_S), MIXTURE_DOWN, EIGHTH, BLOCK_Q4_K},
    {BIT(IQ3_XXS), MIXTURE_DOWN, EIGHTH_NO_IMATRIX, BLOCK_Q4_K},
    {BIT(IQ3_XXS), MIXTURE_DOWN, NO_IMATRIX, BLOCK_Q3_K},
    {BIT(Q3_K_M), MIXTURE_DOWN, SIXTEENTH, BLOCK_Q5_K},
    {BIT(Q3_K_M), MIXTURE_DOWN, ALWAYS, BLOCK_Q4_K},
    {BIT(IQ3_M), MIXTURE_DOWN, EIGHTH, BLOCK_Q4_K},
    {BIT(IQ3_M), MIXTURE_DOWN, EXPERTS_8_MORE_BITS, BLOCK_Q4_K},
    {BIT(Q3_K_L), MIXTURE_DOWN, ALWAYS, BLOCK_Q5_K},
    {BIT(Q4_K_M) | BIT(Q5_K_M), MIXTURE_DOWN, MORE_BITS, BLOCK_Q6_K},
    {BIT(IQ4_NL) | BIT(IQ4_XS), MIXTURE_DOWN, EIGHTH_NO_IMATRIX, BLOCK_Q5_K},
    {BIT(Q4_K_S), MIXTURE_DOWN, EIGHTH, BLOCK_Q5_K},
    {BIT(Q4_0), MIXTURE_DOWN, IMATRIX_EIGHTH, BLOCK_Q4_1},
    {BIT(Q5_0), MIXTURE_DOWN, IMATRIX_EIGHTH, BLOCK_Q5_1},

    {BIT(Q2_K) | BIT(IQ3_XS) | BIT(IQ3_XXS) | BIT(Q3_K_S) | BIT(Q3_K_M) | BIT(IQ4_NL) | BIT(Q4_K_S) |
         BIT(Q4_K_M) | BIT(IQ3_S) | BIT(IQ3_M) | BIT(IQ4_XS),
     MIXTURE_ATTENTION_OUTPUT, EXPERTS_8, BLOCK_Q5_K},
    {BIT(Q2_K), MIXTURE_ATTENTION_OUTPUT, ALWAYS, BLOCK_Q3_K},
    {BIT(IQ3_XXS), MIXTURE_ATTENTION_OUTPUT, ALWAYS, BLOCK_IQ3_S},
    {BIT(Q3_K_M) | BIT(IQ3_M), MIXTURE_ATTENTION_OUTPUT, ALWAYS, BLOCK_Q4_K},
    {BIT(Q3_K_L), MIXTURE_ATTENTION_OUTPUT, NOT_EXPERTS_8, BLOCK_Q5_K},

    {BIT(IQ3_XS), MIXTURE_GATE, INNER, BLOCK_IQ3_XXS},
    {BIT(IQ3_XS), MIXTURE_UP, INNER, BLOCK_IQ3_XXS},
};

static bool more_bits(uint32_t i, uint32_t n) {
    return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
}

static bool applies(enum when when, const struct mixture_model *m, uint32_t rank, uint32_t i, uint32_t n) {
    switch (when) {
    case ALWAYS:
        return true;
    case GQA_4:
        return m->heads_per_kv >= 4;
    case GQA_4_EXPERTS:
        return m->heads_per_kv >= 4 || m->experts >= 4;
    case EXPERTS_8:
        return m->experts == 8;
    case NOT_EXPERTS_8:
        return m->experts != 8;
    case NO_IMATRIX:
        return !m->imatrix;
    case IMATRIX_EIGHTH:
        return m->imatrix && i < n / 8;
    case FIRST_2:
        return rank < 2;
    case FIRST_4:
        return rank < 4;
    case RANK_EIGHTH:
        return rank < n / 8;
    case EIGHTH:
        return i < n / 8;
    case SIXTEENTH:
        return i < n / 16;
    case EIGHTH_NO_IMATRIX:
        return i < n / 8 && !m->imatrix;
    case INNER:
        return i >= n / 8 && i < 7 * n / 8;
    case MORE_BITS:
        return more_bits(i, n);
    case EXPERTS_8_MORE_BITS:
        return m->experts == 8 && more_bits(i, n);
    }
    return false;
}

/* The matrix that gives the logits. */
static uint32_t output_type(const struct mixture *m, uint64_t row) {
    const uint64_t q5 = IQ1_IQ2 | BIT(IQ3_XXS);
    if (m->file_type == MXFP4_MOE || row % block_info(m->type)->values != 0)
        return BLOCK_Q8_0;
    if ((q5 & BIT(m->file_type)) != 0)
        return BLOCK_Q5_K;
    return m->type != BLOCK_Q8_0 ? BLOCK_Q6_K : BLOCK_Q8_0;
}

uint32_t mixture_choose(const struct mixture *m, const struct mixture_model *model,
                        const struct gguf_tensor *t, enum mixture_kind kind, uint32_t rank) {
    const int64_t layer = mixture_layer_of(t->name);
    const bool by_layer = model->experts > 1 && kind != MIXTURE_V && layer >= 0;
    const uint32_t i = by_layer ? (uint32_t)layer : rank;
    const uint32_t n = kind == MIXTURE_V ? model->n_v : model->layers;
    uint32_t type = m->type;
    if (kind == MIXTURE_KEPT)
        return t->type;
    if (m->type == BLOCK_F32 || m->type == BLOCK_F16 || m->type == BLOCK_BF16)
        return m->type;
    if (kind == MIXTURE_OUTPUT)
        return output_type(m, t->ne[0]);
    if (m->file_type == MXFP4_MOE)
        return t->ne[2] > 1 ? BLOCK_MXFP4 : BLOCK_Q8_0;
    for (size_t k = 0; k < sizeof rules / sizeof rules[0]; k++) {
        const struct rule *r = &rules[k];
        if ((r->file_types & BIT(m->file_type)) != 0 && r->kind == kind &&
            applies(r->when, model, rank, i, n)) {
            type = r->type;
            break;
        }
    }
    /* Models of 80 layers whose heads share K and V: V is small there, and more bits are cheap. */
    if (kind == MIXTURE_V && (IQ1_IQ2 & BIT(m->file_type)) == 0 && model->layers == 80 &&
        model->heads_per_kv > 1 && (type == BLOCK_Q3_K || type == BLOCK_Q4_K))
        type = BLOCK_Q5_K;
    return type;
}

bool mixture_needs_imatrix(const struct mixture *m, enum mixture_kind kind, uint32_t type) {
    if (kind == MIXTURE_OUTPUT || kind == MIXTURE_EMBEDDING)
        return false;
    switch (type) {
    case BLOCK_IQ3_XXS:
    case BLOCK_IQ2_S:
    case BLOCK_IQ2_XS:
    case BLOCK_IQ2_XXS:
    case BLOCK_IQ1_M:
    case BLOCK_IQ1_S:
        return true;
    default:
        return type == BLOCK_Q2_K && m->file_type == Q2_K_S;
    }
}

uint32_t mixture_fallback(uint32_t type, uint64_t row) {
    if (row % block_info(type)->values == 0)
        return type;
    uint32_t smaller = type;
    switch (type) {
    case BLOCK_IQ1_S:
    case BLOCK_IQ1_M:
    case BLOCK_IQ2_XXS:
    case BLOCK_IQ2_XS:
    case BLOCK_IQ2_S:
    case BLOCK_IQ3_XXS:
    case BLOCK_IQ3_S:
    case BLOCK_IQ4_XS:
        smaller = BLOCK_IQ4_NL;
        break;
    case BLOCK_Q2_K:
    case BLOCK_Q3_K:
    case BLOCK_TQ1_0:
    case BLOCK_TQ2_0:
    case BLOCK_Q1_0: /* here llama.cpp gives up */
    case BLOCK_Q2_0:
        smaller = BLOCK_Q4_0;
        break;
    case BLOCK_Q4_K:
        smaller = BLOCK_Q5_0;
        break;
    case BLOCK_Q5_K:
        smaller = BLOCK_Q5_1;
        break;
    case BLOCK_Q6_K:
        smaller = BLOCK_Q8_0;
        break;
    default:
        break;
    }
    return row % block_info(smaller)->values == 0 ? smaller : BLOCK_F16;
}
