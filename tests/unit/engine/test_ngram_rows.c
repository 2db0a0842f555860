/* n-gram embeddings: the rows of tokens against numpy's 64 bits, and a made-up variant of llama with such
 * embeddings before its second layer: against the formulas in double precision, in chunks of any size, split,
 * with draft tokens and reused prefixes, and what happens when the file is no longer what it was. */
#include "engine_harness.h"
#include "prefix_play.h"
#include "tiny_model.h"

#include "arch/parts/parts.h"
#include "engine/run/ngram_rows.h"
#include "formats/block.h"
#include "formats/encode.h"

#include <math.h>
#include <unistd.h>

/* The numbers of tests/models/ngram_rows.py. */
static void rows_are_numpys(void **state) {
    (void)state;
    enum { TOKENS = 11, HEADS = 16, EOS = 248046 };
    static const int32_t tokens[TOKENS] = {0, 1, 248319, 248046, 17, 17, 248046, 248046, 5, 100000, 248318};
    static const uint64_t expected[TOKENS][HEADS] = {
        /* clang-format off */
    {2026804, 23178623, 41044581, 61161108, 89363890, 111787671, 134866514, 145333436, 160662350, 191690859, 206785558, 236772828, 252886105, 266768085, 290469944, 316450600},
    {9690980, 28209514, 44357857, 78136137, 89544181, 118582276, 125250085, 149548067, 175667667, 180606318, 209733757, 226224877, 253375624, 274600772, 293435358, 313534239},
    {96198, 27057139, 46759781, 65737388, 90876360, 109416035, 128948950, 157420766, 163129590, 194727805, 201219103, 231962130, 256666856, 265396505, 288568495, 316952096},
    {18344552, 39163268, 46025639, 60597795, 84635923, 119986270, 128584657, 152457749, 179536577, 194928185, 212783004, 235487446, 245517416, 265439859, 297911325, 305676936},
    {2322438, 35700018, 41349075, 64806399, 91907899, 108788592, 121882826, 157924495, 176856492, 188540384, 200790272, 224432543, 250701545, 271239906, 298099189, 303737973},
    {3940969, 33500659, 53321584, 63403800, 83747518, 114352923, 135219969, 146348724, 162136971, 196522875, 206840799, 236267370, 248097271, 265746399, 292750040, 312762574},
    {1303837, 25170386, 57560848, 65001515, 94371747, 112903208, 128180464, 148140833, 166083984, 198656241, 217056221, 230631950, 249084182, 262465785, 281182786, 315993928},
    {11283398, 34402815, 41313217, 73664432, 93195156, 101733321, 121196262, 153590372, 161067066, 190200829, 215074369, 237417122, 259023780, 261753677, 287533184, 318352206},
    {9388153, 24091760, 59712253, 61785813, 96148327, 108934242, 126577705, 155811993, 175979008, 198515402, 209490300, 239730047, 240467488, 263346334, 280416552, 304137573},
    {13103763, 27632930, 45635799, 69743357, 82728648, 107507152, 127136243, 144815609, 167469070, 189577774, 211497432, 220028431, 242228660, 265411624, 297147879, 305263113},
    {9207060, 30238699, 44690587, 78503782, 97940161, 109582785, 120335823, 157424842, 173262067, 185816572, 211439010, 238638391, 256244593, 273408956, 299603892, 304621409},
        /* clang-format on */
    };
    struct shape_ngram n = {.size = 3,
                            .heads = HEADS,
                            .heads_each = HEADS / 2,
                            .eos = EOS,
                            .multipliers = {23703753246541, 20109073645365, 8052911324071}};
    for (uint64_t h = 0; h < HEADS; h++) {
        n.sizes[h] = 20000003 + 34 * h + h * h;
        n.offsets[h] = h > 0 ? n.offsets[h - 1] + n.sizes[h - 1] : 0;
    }
    for (int i = 0; i < TOKENS; i++) {
        uint64_t rows[HEADS];
        const int32_t recent[3] = {tokens[i], i > 0 ? tokens[i - 1] : NGRAM_ROWS_NONE,
                                   i > 1 ? tokens[i - 2] : NGRAM_ROWS_NONE};
        ngram_rows_of(&n, recent, rows);
        for (int h = 0; h < HEADS; h++)
            assert_int_equal(rows[h], expected[i][h]);
    }
}

/* --- the variant: one stream */

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
    s->streams.count = 1;
    return st == STATOR_OK ? shape_read_ngram(g, s, e) : st;
}

static void build(struct graph *g, const struct shape *s) {
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
static const uint64_t sizes[HEADS] = {97, 101, 103, 107}, offsets[HEADS] = {0, 97, 198, 301};

/* What the test computes with. */
static struct {
    float embd[VOCAB][EMBD], output[VOCAB][EMBD], output_norm[EMBD];
    float table[ROWS][DIM], key[EMBD][ROW], value[EMBD][ROW];
    float norm_key[EMBD], norm_query[EMBD], norm_conv[EMBD], conv[EMBD][TAPS];
} numbers;

static void fill(float *x, size_t n, float middle, float spread, uint64_t *seed) {
    for (size_t i = 0; i < n; i++)
        x[i] = middle + spread * testing_uniform(seed);
}

static void tensor(struct gguf_writer *w, const char *name, uint64_t cols, uint64_t rows, const void *x) {
    gguf_writer_tensor(w, name, BLOCK_F32, rows > 0 ? 2 : 1, (uint64_t[]){cols, rows > 0 ? rows : 1}, x);
}

/* silent: what attention and feed-forward add is zero. type: of the table, which is the last tensor. */
static struct gguf_writer write_variant(bool silent, uint32_t type) {
    struct gguf_writer w = gguf_writer_new();
    struct tiny_model m = tiny_model_of("variant");
    uint64_t seed = 7;
    m.n_layers = LAYERS;
    m.n_embd = EMBD;
    m.vocab = VOCAB;
    fill(numbers.embd[0], VOCAB * EMBD, 0, 1, &seed);
    fill(numbers.output[0], VOCAB * EMBD, 0, 1, &seed);
    fill(numbers.output_norm, EMBD, 1, 0.3f, &seed);
    fill(numbers.table[0], ROWS * DIM, 0, 1, &seed);
    fill(numbers.key[0], EMBD * ROW, 0, 0.3f, &seed);
    fill(numbers.value[0], EMBD * ROW, 0, 0.3f, &seed);
    fill(numbers.norm_key, EMBD, 1, 0.3f, &seed);
    fill(numbers.norm_query, EMBD, 1, 0.3f, &seed);
    fill(numbers.norm_conv, EMBD, 1, 0.3f, &seed);
    fill(numbers.conv[0], EMBD * TAPS, 0, 0.5f, &seed);
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
    tensor(&w, "token_embd.weight", EMBD, VOCAB, numbers.embd);
    tensor(&w, "output.weight", EMBD, VOCAB, numbers.output);
    tensor(&w, "output_norm.weight", EMBD, 0, numbers.output_norm);
    for (uint32_t i = 0; i < LAYERS; i++) {
        char name[2][32];
        snprintf(name[0], sizeof name[0], "blk.%u.attn_output.weight", i);
        snprintf(name[1], sizeof name[1], "blk.%u.ffn_down.weight", i);
        w.drop[0] = silent ? name[0] : NULL;
        w.drop[1] = silent ? name[1] : NULL;
        tiny_model_layer(&w, &m, i);
        w.drop[0] = w.drop[1] = NULL;
        if (silent) {
            tensor(&w, name[0], (uint64_t)m.n_heads * m.head_dim, EMBD, NULL);
            tensor(&w, name[1], m.n_ff, EMBD, NULL);
        }
    }
    tensor(&w, "blk.1.ple_key.weight", ROW, EMBD, numbers.key);
    tensor(&w, "blk.1.ple_value.weight", ROW, EMBD, numbers.value);
    tensor(&w, "blk.1.ple_norm_key.weight", EMBD, 0, numbers.norm_key);
    tensor(&w, "blk.1.ple_norm_query.weight", EMBD, 0, numbers.norm_query);
    tensor(&w, "blk.1.ple_norm_conv.weight", EMBD, 0, numbers.norm_conv);
    tensor(&w, "blk.1.ple_conv1d.weight", TAPS, EMBD, numbers.conv);
    if (type == BLOCK_F32) {
        tensor(&w, "per_layer_token_embd.weight", DIM, ROWS, numbers.table);
        return w;
    }
    uint64_t bytes = 0;
    assert_true(block_row_bytes(type, DIM, &bytes));
    uint8_t *blocks =
        gguf_writer_tensor(&w, "per_layer_token_embd.weight", type, 2, (uint64_t[]){DIM, ROWS}, NULL);
    assert_non_null(blocks);
    for (int r = 0; r < ROWS; r++) { /* the floats are then those of the blocks */
        encode_row(type, numbers.table[r], NULL, blocks + r * bytes, DIM);
        block_decode_row(type, blocks + r * bytes, numbers.table[r], DIM);
    }
    return w;
}

/* --- the formulas, in double precision */

static void norm(const double *x, const float *w, double *y) {
    double sum = 0;
    for (int i = 0; i < EMBD; i++)
        sum += x[i] * x[i];
    for (int i = 0; i < EMBD; i++)
        y[i] = x[i] / sqrt(sum / EMBD + 1e-5) * (double)w[i];
}

/* Rows of a token, by the last end of a text before it. */
static bool hits_the_last_row;
static void gather(const int32_t *ids, int at, double e[ROW]) {
    int begin = at;
    while (begin > 0 && ids[begin - 1] != EOS)
        begin--;
    for (int h = 0; h < HEADS; h++) {
        uint64_t mixed = 0;
        for (int k = 0; k < 2 + h / (HEADS / 2); k++)
            mixed ^= (uint64_t)(at - k >= begin ? ids[at - k] : EOS) * multipliers[k];
        const uint64_t row = mixed % sizes[h] + offsets[h];
        hits_the_last_row = hits_the_last_row || row == ROWS - 1;
        for (int i = 0; i < DIM; i++)
            e[h * DIM + i] = (double)numbers.table[row][i];
    }
}

/* Of the silent variant: logits of all positions. */
static void compute(const int32_t *ids, int n, double *logits) {
    double(*kept)[EMBD] = calloc((size_t)n, sizeof *kept); /* what is convolved */
    assert_non_null(kept);
    for (int t = 0; t < n; t++) {
        double e[ROW], x[EMBD], key[EMBD], query[EMBD], value[EMBD], s = 0;
        gather(ids, t, e);
        for (int i = 0; i < EMBD; i++) {
            x[i] = (double)numbers.embd[ids[t]][i];
            key[i] = value[i] = 0;
            for (int k = 0; k < ROW; k++) {
                key[i] += (double)numbers.key[i][k] * e[k];
                value[i] += (double)numbers.value[i][k] * e[k];
            }
        }
        norm(key, numbers.norm_key, key);
        norm(x, numbers.norm_query, query);
        for (int i = 0; i < EMBD; i++)
            s += key[i] * query[i] / sqrt(EMBD);
        const double gate = ((s > 0) - (s < 0)) * sqrt(fmax(fabs(s), 1e-6));
        for (int i = 0; i < EMBD; i++)
            value[i] *= 1 / (1 + exp(-gate));
        norm(value, numbers.norm_conv, kept[t]);
        for (int i = 0; i < EMBD; i++) {
            double sum = 0;
            for (int k = 0; k < TAPS; k++)
                if (t - k * APART >= 0)
                    sum += (double)numbers.conv[i][TAPS - 1 - k] * kept[t - k * APART][i];
            x[i] += value[i] + sum / (1 + exp(-sum));
        }
        norm(x, numbers.output_norm, x);
        for (int v = 0; v < VOCAB; v++) {
            logits[t * VOCAB + v] = 0;
            for (int i = 0; i < EMBD; i++)
                logits[t * VOCAB + v] += x[i] * (double)numbers.output[v][i];
        }
    }
    free(kept);
}

static void some_ids(int32_t ids[N_IDS]) {
    uint64_t seed = 5;
    for (int i = 0; i < N_IDS; i++)
        ids[i] = testing_below(&seed, 6) == 0 ? EOS : (int32_t)testing_below(&seed, VOCAB);
    ids[20] = ids[21] = EOS;
}

static const char *path_of(struct gguf_writer *w, char path[GGUF_WRITER_PATH]) {
    assert_true(gguf_writer_finish(w));
    return gguf_writer_memory_path(w, path);
}

static float *run(const char *model, const char *a, const char *b, const char *c) {
    int32_t ids[N_IDS];
    some_ids(ids);
    const char *sets[] = {"memory.context=256", "memory.kv_type=f32", a, b, c, NULL};
    stator *s = harness_start(model, sets);
    float *out = harness_logits(s, ids, N_IDS);
    stator_close(s);
    return out;
}

/* Tables in floats and in blocks. */
static void formulas(void **state) {
    (void)state;
    static const uint32_t types[] = {BLOCK_F32, BLOCK_IQ4_NL, BLOCK_Q8_0, BLOCK_F16};
    static double expected[N_IDS * VOCAB];
    int32_t ids[N_IDS];
    some_ids(ids);
    for (size_t k = 0; k < sizeof types / sizeof types[0]; k++) {
        char path[GGUF_WRITER_PATH];
        struct gguf_writer w = write_variant(true, types[k]);
        float *out = run(path_of(&w, path), "memory.batch=64", "devices.use=cpu:0", NULL);
        compute(ids, N_IDS, expected);
        for (int i = 0; i < N_IDS * VOCAB; i++)
            if (!(fabs((double)out[i] - expected[i]) < 1e-4))
                fail_msg("%s: logit %d of position %d is %g, expected %g", block_info(types[k])->name,
                         i % VOCAB, i / VOCAB, (double)out[i], expected[i]);
        free(out);
        gguf_writer_free(&w);
    }
    assert_true(hits_the_last_row);
}

/* Chunks, devices, and tiers. */
static void same_bits(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"memory.batch=1", "devices.use=cpu:0", NULL},
        {"memory.batch=2", "devices.use=cpu:0", "cpu.tier=scalar"},
        {"memory.batch=7", "devices.use=cpu:0", "cpu.threads=3"},
        {"memory.batch=23", "devices.use=cpu:0,cpu:1", NULL},
        {"memory.batch=5", "devices.use=cpu:0,cpu:1,cpu:2", NULL},
        {"memory.batch=64", "devices.use=cpu:0,cpu:1", "devices.split=tensor"},
        {"memory.batch=9", "devices.use=cpu:0,cpu:1", "devices.split=tensor"},
    };
    char path[GGUF_WRITER_PATH];
    struct gguf_writer w = write_variant(false, BLOCK_IQ4_NL);
    float *whole = run(path_of(&w, path), "memory.batch=64", "devices.use=cpu:0", NULL);
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        float *out = run(path, cases[k][0], cases[k][1], cases[k][2]);
        for (int i = 0; i < N_IDS * VOCAB; i++)
            if (memcmp(&out[i], &whole[i], sizeof *out) != 0)
                fail_msg("%s %s: logit %d of position %d is %g, expected %g", cases[k][0], cases[k][1],
                         i % VOCAB, i / VOCAB, (double)out[i], (double)whole[i]);
        free(out);
    }
    free(whole);
    gguf_writer_free(&w);
}

static const char *const plain[] = {"server.prefix_cache=false", "memory.context=256", "memory.batch=64",
                                    "cpu.threads=2", NULL};

/* Checkpoints, draft tokens, several sequences. */
static void prefixes_and_drafts(void **state) {
    (void)state;
    static const char *const cases[][4] = {
        {"devices.use=cpu:0", "memory.batch=40", "memory.sequences=4", "speculation.mode=off"},
        {"devices.use=cpu:0,cpu:1", "memory.batch=70", "memory.sequences=3", "speculation.mode=ngram"},
        {"devices.use=cpu:0,cpu:1,cpu:2", "memory.batch=33", "memory.sequences=5", "speculation.mode=ngram"},
    };
    char path[GGUF_WRITER_PATH];
    struct gguf_writer w = write_variant(false, BLOCK_Q8_0);
    path_of(&w, path);
    prefix_play_texts = 3;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *sets[] = {cases[i][0],
                              cases[i][1],
                              cases[i][2],
                              cases[i][3],
                              "memory.context=256",
                              "cpu.threads=2",
                              "server.checkpoints=5",
                              NULL};
        struct prefix_play p;
        assert_true(prefix_play("n-grams", path, sets, plain, 8, &p) > 0);
        assert_true(p.stats.checkpoints_resumed > 0);
    }
    gguf_writer_free(&w);
}

/* A request whose rows can't be read ends with an error; the engine stays. */
static void truncated(void **state) {
    (void)state;
    char path[] = "/tmp/stator-ngrams-XXXXXX";
    struct gguf_writer w = write_variant(false, BLOCK_F32);
    assert_true(gguf_writer_finish(&w));
    const int fd = mkstemp(path);
    assert_true(fd >= 0 && gguf_writer_save(&w, path));
    const char *sets[] = {"memory.context=64", "memory.batch=8", "devices.use=cpu:0", NULL};
    stator *s = harness_start(path, sets);
    const int32_t ids[] = {1, 2, 5, 7, 9};
    struct harness_text text = {.id = harness_submit(s, ids, 5, 4, 0, 1)};
    harness_collect(s, &text, 1);
    assert_int_equal(text.reason, STATOR_REASON_LENGTH);
    assert_int_equal(ftruncate(fd, (off_t)w.out_bytes / 2), 0);
    for (int k = 0; k < 2; k++) {
        const uint64_t id = harness_submit(s, ids, 5, 4, 0, 1);
        stator_event ev = {.size = sizeof ev};
        for (int have = 0; !have || ev.kind != STATOR_EVENT_DONE;)
            assert_int_equal(stator_poll(s, UINT64_MAX, &ev, &have, NULL), STATOR_OK);
        assert_true(ev.request == id && ev.reason == STATOR_REASON_FAILED);
        assert_string_equal(ev.text, "the model's file has become shorter, which rows of n-grams are read "
                                     "from: put it back as it was and restart");
    }
    stator_close(s);
    close(fd);
    unlink(path);
    gguf_writer_free(&w);
}

/* What a file says of rows that are not there. */
static void refused(void **state) {
    (void)state;
    static const struct {
        const char *key;
        uint64_t value;
        const char *said;
    } cases[] = {
        {"variant.ple.head_offsets", 302,
         "item 3 of 'variant.ple.head_offsets' is 302 and of "
         "'variant.ple.head_vocab_sizes' 107, but tensor "
         "'per_layer_token_embd.weight' has 408 rows"},
        {"variant.ple.head_vocab_sizes", 0, "item 3 of key 'variant.ple.head_vocab_sizes' is 0"},
        {"variant.ple.eos_token_id", VOCAB,
         "key 'variant.ple.eos_token_id' is 50, but the vocabulary has 50"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        char path[GGUF_WRITER_PATH];
        struct gguf_writer w = write_variant(false, BLOCK_F32);
        uint8_t *at = memmem(w.keys.data, w.keys.n, cases[k].key, strlen(cases[k].key));
        assert_non_null(at);
        at += strlen(cases[k].key) + 4; /* behind the kind */
        if (cases[k].value == VOCAB)
            memcpy(at, &(uint32_t){VOCAB}, 4);
        else
            memcpy(at + 12 + 3 * 8, &cases[k].value, 8);
        path_of(&w, path);
        stator_options o = {.size = sizeof o, .config = path};
        stator *s = NULL;
        stator_error e = {0};
        assert_int_equal(stator_open(&o, &s, &e), STATOR_BAD_MODEL);
        if (strstr(e.text, cases[k].said) == NULL)
            fail_msg("%s", e.text);
        gguf_writer_free(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_numpys),     cmocka_unit_test(formulas),  cmocka_unit_test(same_bits),
        cmocka_unit_test(prefixes_and_drafts), cmocka_unit_test(truncated), cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
