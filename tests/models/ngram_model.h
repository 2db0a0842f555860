/* A made-up variant of llama with n-gram embeddings before its second layer, for tests: its architecture,
 * which is the only one of the program, and small files of it. One stream, so it needs no hyper-connections.
 */
#ifndef STATOR_TESTS_NGRAM_MODEL_H
#define STATOR_TESTS_NGRAM_MODEL_H

#include "engine_harness.h"
#include "tiny_model.h"

#include "arch/parts/parts.h"
#include "formats/block.h"
#include "formats/encode.h"

static const struct shape_place layer[] = {
    PARTS_DENSE_LAYER,
    {SHAPE_LAYER(ngram.key), .name = "ple_key.weight", .cols = SHAPE_NGRAM_EMBD, .rows = SHAPE_EMBD,
     .layers = SHAPE_NGRAM_LAYERS},
    {SHAPE_LAYER(ngram.value), .name = "ple_value.weight", .cols = SHAPE_NGRAM_EMBD, .rows = SHAPE_EMBD,
     .layers = SHAPE_NGRAM_LAYERS},
    {SHAPE_LAYER(ngram.norm_key), .name = "ple_norm_key.weight", .cols = SHAPE_EMBD,
     .layers = SHAPE_NGRAM_LAYERS},
    {SHAPE_LAYER(ngram.norm_query), .name = "ple_norm_query.weight", .cols = SHAPE_EMBD,
     .layers = SHAPE_NGRAM_LAYERS},
    {SHAPE_LAYER(ngram.norm_conv), .name = "ple_norm_conv.weight", .cols = SHAPE_EMBD,
     .layers = SHAPE_NGRAM_LAYERS},
    {SHAPE_LAYER(ngram.conv), .name = "ple_conv1d.weight", .cols = SHAPE_NGRAM_TAPS, .rows = SHAPE_EMBD,
     .f32 = true, .layers = SHAPE_NGRAM_LAYERS},
};
static const struct shape_place global[] = {
    PARTS_ENDS,
    {SHAPE_GLOBAL(ngram_table), .name = "per_layer_token_embd.weight", .cols = SHAPE_NGRAM_DIM,
     .rows = SHAPE_NGRAM_ROWS},
};

static stator_status read_variant(const struct gguf *g, struct shape *s, stator_error *e) {
    stator_status st = shape_read_dense(g, s, e);
    return st == STATOR_OK ? shape_read_ngram(g, s, e) : st;
}

static inline void build(struct graph *g, const struct shape *s) {
    struct parts p;
    parts_begin(&p, g, s);
    parts_ngram_begin(&p);
    for (uint32_t i = g->want.first_layer; i < g->want.end_layer; i++) {
        const struct shape_layer *l = &s->layers[i];
        parts_ngram(&p, i, p.x);
        parts_attention(&p, i, parts_norm(&p, i, "attn_norm", l->attn_norm, parts_forms(l->q, l->k, l->v)));
        parts_swiglu(&p, i, parts_norm(&p, i, "ffn_norm", l->ffn_norm, parts_forms(l->gate, l->up, NULL)));
    }
    parts_end(&p);
}

static const struct arch arch_variant = {.name = "variant",
                                         .tensors = {SHAPE_TABLE(layer, global)},
                                         .read = read_variant,
                                         .check = parts_check_ngram,
                                         .build = build,
                                         .layer = {.ops = 14, .values = 14, .weights = 30}};

/* The registry of this program, in the place of arch_list.c. */
const struct arch *const arch_list[] = {&arch_variant, NULL};

enum {
    EMBD = 40,
    VOCAB = 50,
    HEADS = 4,
    DIM = 32,
    ROW = HEADS * DIM,
    TAPS = 4,
    APART = 3,
    LAYERS = 3,
    EOS = 3
};
enum { ROWS = 97 + 101 + 103 + 107, N_IDS = 60 };
static const uint64_t multipliers[APART] = {1234567891011, 987654321987, 5678901234567};
/* With other numbers of rows than ROWS the table's data is the caller's to write: row r has the numbers of
 * row r % ROWS. */
static uint64_t sizes[HEADS] = {97, 101, 103, 107}, offsets[HEADS] = {0, 97, 198, 301}, all_rows = ROWS;

/* What the test computes with. */
static struct {
    float embd[VOCAB][EMBD], output[VOCAB][EMBD], output_norm[EMBD];
    float table[ROWS][DIM], key[EMBD][ROW], value[EMBD][ROW];
    float norm_key[EMBD], norm_query[EMBD], norm_conv[EMBD], conv[EMBD][TAPS];
    uint8_t blocks[ROWS][DIM * sizeof(float)]; /* of the table; other types than F32 have fewer bytes */
} numbers;

static inline void ngram_model_fill(float *x, size_t n, float middle, float spread, uint64_t *seed) {
    for (size_t i = 0; i < n; i++)
        x[i] = middle + spread * testing_uniform(seed);
}

static inline void ngram_model_tensor(struct gguf_writer *w, const char *name, uint64_t cols, uint64_t rows,
                                      const void *x) {
    gguf_writer_tensor(w, name, BLOCK_F32, rows > 0 ? 2 : 1, (uint64_t[]){cols, rows > 0 ? rows : 1}, x);
}

/* silent: what attention and feed-forward add is zero. type: of the table, which is the last tensor. */
static inline struct gguf_writer ngram_model_write(bool silent, uint32_t type) {
    struct gguf_writer w = gguf_writer_new();
    struct tiny_model m = tiny_model_of("variant");
    uint64_t seed = 7;
    m.n_layers = LAYERS;
    m.n_embd = EMBD;
    m.vocab = VOCAB;
    ngram_model_fill(numbers.embd[0], VOCAB * EMBD, 0, 1, &seed);
    ngram_model_fill(numbers.output[0], VOCAB * EMBD, 0, 1, &seed);
    ngram_model_fill(numbers.output_norm, EMBD, 1, 0.3f, &seed);
    ngram_model_fill(numbers.table[0], ROWS * DIM, 0, 1, &seed);
    ngram_model_fill(numbers.key[0], EMBD * ROW, 0, 0.3f, &seed);
    ngram_model_fill(numbers.value[0], EMBD * ROW, 0, 0.3f, &seed);
    ngram_model_fill(numbers.norm_key, EMBD, 1, 0.3f, &seed);
    ngram_model_fill(numbers.norm_query, EMBD, 1, 0.3f, &seed);
    ngram_model_fill(numbers.norm_conv, EMBD, 1, 0.3f, &seed);
    ngram_model_fill(numbers.conv[0], EMBD * TAPS, 0, 0.5f, &seed);
    w.drop[0] = "variant.context_length";
    tiny_model_keys(&w, &m);
    w.drop[0] = NULL;
    gguf_writer_u32(&w, "variant.context_length", 256);
    gguf_writer_array(&w, "variant.ple.layers", GGUF_U32, 1, (uint32_t[]){1}, 4);
    gguf_writer_u32(&w, "variant.ple.ngram_size", APART);
    gguf_writer_u32(&w, "variant.ple.heads_per_ngram", HEADS / 2);
    gguf_writer_u32(&w, "variant.ple.conv_kernel", TAPS);
    gguf_writer_u32(&w, "variant.ple.eos_token_id", EOS);
    gguf_writer_u32(&w, "variant.embedding_length_per_layer_input", DIM);
    gguf_writer_array(&w, "variant.ple.layer_multipliers", GGUF_U64, APART, multipliers, sizeof multipliers);
    gguf_writer_array(&w, "variant.ple.head_vocab_sizes", GGUF_U64, HEADS, sizes, sizeof sizes);
    gguf_writer_array(&w, "variant.ple.head_offsets", GGUF_U64, HEADS, offsets, sizeof offsets);
    ngram_model_tensor(&w, "token_embd.weight", EMBD, VOCAB, numbers.embd);
    ngram_model_tensor(&w, "output.weight", EMBD, VOCAB, numbers.output);
    ngram_model_tensor(&w, "output_norm.weight", EMBD, 0, numbers.output_norm);
    for (uint32_t i = 0; i < LAYERS; i++) {
        char name[2][32];
        snprintf(name[0], sizeof name[0], "blk.%u.attn_output.weight", i);
        snprintf(name[1], sizeof name[1], "blk.%u.ffn_down.weight", i);
        w.drop[0] = silent ? name[0] : NULL;
        w.drop[1] = silent ? name[1] : NULL;
        tiny_model_layer(&w, &m, i);
        w.drop[0] = w.drop[1] = NULL;
        if (silent) {
            ngram_model_tensor(&w, name[0], (uint64_t)m.n_heads * m.head_dim, EMBD, NULL);
            ngram_model_tensor(&w, name[1], m.n_ff, EMBD, NULL);
        }
    }
    ngram_model_tensor(&w, "blk.1.ple_key.weight", ROW, EMBD, numbers.key);
    ngram_model_tensor(&w, "blk.1.ple_value.weight", ROW, EMBD, numbers.value);
    ngram_model_tensor(&w, "blk.1.ple_norm_key.weight", EMBD, 0, numbers.norm_key);
    ngram_model_tensor(&w, "blk.1.ple_norm_query.weight", EMBD, 0, numbers.norm_query);
    ngram_model_tensor(&w, "blk.1.ple_norm_conv.weight", EMBD, 0, numbers.norm_conv);
    ngram_model_tensor(&w, "blk.1.ple_conv1d.weight", TAPS, EMBD, numbers.conv);
    uint64_t bytes = 0;
    assert_true(block_row_bytes(type, DIM, &bytes) && bytes <= sizeof numbers.blocks[0]);
    for (int r = 0; r < ROWS; r++) { /* the floats are then those of the blocks */
        if (type == BLOCK_F32)
            memcpy(numbers.blocks[r], numbers.table[r], bytes);
        else
            encode_row(type, numbers.table[r], NULL, numbers.blocks[r], DIM);
        block_decode_row(type, numbers.blocks[r], numbers.table[r], DIM);
    }
    const uint64_t ne[2] = {DIM, all_rows};
    if (all_rows != ROWS) {
        gguf_writer_put(&w.data, NULL, -w.data.n % 32);
        gguf_writer_entry(&w, "per_layer_token_embd.weight", type, 2, ne, w.data.n);
        return w;
    }
    uint8_t *to = gguf_writer_tensor(&w, "per_layer_token_embd.weight", type, 2, ne, NULL);
    assert_non_null(to);
    for (int r = 0; r < ROWS; r++)
        memcpy(to + r * bytes, numbers.blocks[r], bytes);
    return w;
}

static inline void ngram_model_ids(int32_t ids[N_IDS]) {
    uint64_t seed = 5;
    for (int i = 0; i < N_IDS; i++)
        ids[i] = testing_below(&seed, 6) == 0 ? EOS : (int32_t)testing_below(&seed, VOCAB);
    ids[20] = ids[21] = EOS;
}

static inline const char *ngram_model_path(struct gguf_writer *w, char path[GGUF_WRITER_PATH]) {
    assert_true(gguf_writer_finish(w));
    return gguf_writer_memory_path(w, path);
}

static inline float *ngram_model_run(const char *model, const char *a, const char *b, const char *c) {
    int32_t ids[N_IDS];
    ngram_model_ids(ids);
    const char *sets[] = {"memory.context=256", "memory.kv_type=f32", a, b, c, NULL};
    stator *s = harness_start(model, sets);
    float *out = harness_logits(s, ids, N_IDS);
    stator_close(s);
    return out;
}

#endif
