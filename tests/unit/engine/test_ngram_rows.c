/* n-gram embeddings: the rows of tokens against numpy's 64 bits, and a made-up variant of llama with such
 * embeddings before its second layer: against the formulas in double precision, in chunks of any size, split,
 * with draft tokens and reused prefixes, and what happens when the file is no longer what it was. */
#include "interpose.h"
#include "kv_folder.h"
#include "ngram_model.h"
#include "prefix_play.h"

#include "engine/run/ngram_rows.h"

#include <inttypes.h>
#include <math.h>
#include <unistd.h>

/* The numbers of tests/models/ngram_rows.py. */
static void rows_are_numpys(void **state) {
    (void)state;
    enum { N_TOKENS = 11, ROWS_OF_ONE = 16, END = 248046 };
    static const int32_t tokens[N_TOKENS] = {0, 1, 248319, 248046, 17, 17, 248046, 248046, 5, 100000, 248318};
    static const uint64_t expected[N_TOKENS][ROWS_OF_ONE] = {
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
                            .heads = ROWS_OF_ONE,
                            .heads_each = ROWS_OF_ONE / 2,
                            .eos = END,
                            .multipliers = {23703753246541, 20109073645365, 8052911324071}};
    for (uint64_t h = 0; h < ROWS_OF_ONE; h++) {
        n.sizes[h] = 20000003 + 34 * h + h * h;
        n.offsets[h] = h > 0 ? n.offsets[h - 1] + n.sizes[h - 1] : 0;
    }
    for (int i = 0; i < N_TOKENS; i++) {
        uint64_t rows[ROWS_OF_ONE];
        const int32_t recent[3] = {tokens[i], i > 0 ? tokens[i - 1] : NGRAM_ROWS_NONE,
                                   i > 1 ? tokens[i - 2] : NGRAM_ROWS_NONE};
        ngram_rows_of(&n, recent, rows);
        for (int h = 0; h < ROWS_OF_ONE; h++)
            assert_int_equal(rows[h], expected[i][h]);
    }
}

/* --- the formulas, in double precision */

static void norm(const double *x, const float *w, double *y) {
    double sum = 0;
    for (int i = 0; i < EMBD; i++)
        sum += x[i] * x[i];
    for (int i = 0; i < EMBD; i++)
        y[i] = x[i] / sqrt(sum / EMBD + 1e-5) * (double)w[i];
}

/* Row of a token's head, by the last end of a text before it. */
static uint64_t row_of(const int32_t *ids, int at, int h) {
    int begin = at;
    uint64_t mixed = 0;
    while (begin > 0 && ids[begin - 1] != EOS)
        begin--;
    for (int k = 0; k < 2 + h / (HEADS / 2); k++)
        mixed ^= (uint64_t)(at - k >= begin ? ids[at - k] : EOS) * multipliers[k];
    return mixed % sizes[h] + offsets[h];
}

static bool hits_the_last_row;
static void gather(const int32_t *ids, int at, double e[ROW]) {
    for (int h = 0; h < HEADS; h++) {
        const uint64_t row = row_of(ids, at, h);
        hits_the_last_row = hits_the_last_row || row == ROWS - 1;
        for (int i = 0; i < DIM; i++)
            e[h * DIM + i] = (double)numbers.table[row % ROWS][i];
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

static void compare(const char *what, const char *model) {
    static double expected[N_IDS * VOCAB];
    int32_t ids[N_IDS];
    ngram_model_ids(ids);
    float *out = ngram_model_run(model, "memory.batch=64", "devices.use=cpu:0", NULL);
    compute(ids, N_IDS, expected);
    for (int i = 0; i < N_IDS * VOCAB; i++)
        if (!(fabs((double)out[i] - expected[i]) < 1e-4))
            fail_msg("%s: logit %d of position %d is %g, expected %g", what, i % VOCAB, i / VOCAB,
                     (double)out[i], expected[i]);
    free(out);
}

/* Tables in floats and in blocks. */
static void formulas(void **state) {
    (void)state;
    static const uint32_t types[] = {BLOCK_F32, BLOCK_IQ4_NL, BLOCK_Q8_0, BLOCK_F16};
    for (size_t k = 0; k < sizeof types / sizeof types[0]; k++) {
        char path[GGUF_WRITER_PATH];
        struct gguf_writer w = ngram_model_write(true, types[k]);
        compare(block_info(types[k])->name, ngram_model_path(&w, path));
        gguf_writer_free(&w);
    }
    assert_true(hits_the_last_row);
}

/* A table of 320 million rows, as the published one, in a file with holes: what lies beyond 4 GiB. */
static void far_rows(void **state) {
    (void)state;
    static const uint64_t usual[HEADS] = {97, 101, 103, 107};
    char path[] = "/tmp/stator-ngrams-XXXXXX";
    int32_t ids[N_IDS];
    uint64_t bytes = 0, farthest = 0;
    ngram_model_ids(ids);
    for (int h = 0; h < HEADS; h++) {
        sizes[h] = 80000023 + usual[h];
        offsets[h] = h > 0 ? offsets[h - 1] + sizes[h - 1] : 0;
    }
    all_rows = offsets[HEADS - 1] + sizes[HEADS - 1];
    assert_true(block_row_bytes(BLOCK_IQ4_NL, DIM, &bytes));
    struct gguf_writer w = ngram_model_write(true, BLOCK_IQ4_NL);
    assert_true(gguf_writer_finish(&w));
    const int fd = mkstemp(path);
    assert_true(fd >= 0 && gguf_writer_save(&w, path));
    assert_int_equal(ftruncate(fd, (off_t)(w.out_bytes + all_rows * bytes)), 0);
    for (int t = 0; t < N_IDS; t++)
        for (int h = 0; h < HEADS; h++) {
            const uint64_t row = row_of(ids, t, h), at = w.out_bytes + row * bytes;
            assert_int_equal(pwrite(fd, numbers.blocks[row % ROWS], bytes, (off_t)at), bytes);
            farthest = row > farthest ? row : farthest;
        }
    assert_true(farthest * bytes > UINT32_MAX);
    compare("far rows", path);
    close(fd);
    unlink(path);
    gguf_writer_free(&w);
    memcpy(sizes, usual, sizeof sizes);
    for (int h = 1; h < HEADS; h++)
        offsets[h] = offsets[h - 1] + sizes[h - 1];
    all_rows = ROWS;
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
    struct gguf_writer w = ngram_model_write(false, BLOCK_IQ4_NL);
    float *whole = ngram_model_run(ngram_model_path(&w, path), "memory.batch=64", "devices.use=cpu:0", NULL);
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        float *out = ngram_model_run(path, cases[k][0], cases[k][1], cases[k][2]);
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

static int count_allocations(void **state) {
    (void)state;
    interpose_reset(INTERPOSE_COUNT);
    return 0;
}

static int make_folder(void **state) {
    return count_allocations(state) + kv_folder_make(state);
}

static void assert_sealed(void) {
    if (interpose_violations() > 0) {
        interpose_print();
        fail_msg("%llu allocations by a sealed engine", (unsigned long long)interpose_violations());
    }
}

/* Checkpoints, draft tokens, several sequences. */
static void prefixes_and_drafts(void **state) {
    (void)state;
    static const char *const cases[][4] = {
        {"devices.use=cpu:0", "memory.batch=40", "memory.sequences=4", "speculation.mode=off"},
        {"devices.use=cpu:0,cpu:1", "memory.batch=70", "memory.sequences=3", "speculation.mode=ngram"},
        {"devices.use=cpu:0,cpu:1,cpu:2", "memory.batch=33", "memory.sequences=5", "speculation.mode=ngram"},
    };
    char path[GGUF_WRITER_PATH];
    struct gguf_writer w = ngram_model_write(false, BLOCK_Q8_0);
    ngram_model_path(&w, path);
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
        assert_sealed();
    }
    gguf_writer_free(&w);
}

/* The plan says what stays in the file, and has the rows of a step in the run's state. */
static void planned(void **state) {
    (void)state;
    static char json[1 << 20];
    uint64_t state_bytes[2] = {0};
    char path[GGUF_WRITER_PATH];
    struct gguf_writer w = ngram_model_write(false, BLOCK_F32);
    ngram_model_path(&w, path);
    for (int k = 0; k < 2; k++) {
        const char *sets[] = {k == 0 ? "memory.batch=8" : "memory.batch=128", "memory.context=256",
                              "devices.use=cpu:0"};
        const stator_options o = {.size = sizeof o, .config = path, .set = sets, .n_set = 3};
        stator *s = NULL;
        size_t n = 0;
        stator_error e = {0};
        if (stator_open(&o, &s, &e) != STATOR_OK || stator_plan(s, &e) != STATOR_OK ||
            stator_plan_json(s, json, sizeof json, &n, &e) != STATOR_OK)
            fail_msg("%s", e.text);
        const char *at = strstr(json, "\"in_file\": {"), *run = strstr(json, "\"run's state\"");
        uint64_t bytes = 0, rows = 0, row_bytes = 0;
        assert_true(at != NULL && run != NULL && (run = strstr(run, "\"bytes\": ")) != NULL);
        assert_int_equal(sscanf(at,
                                "\"in_file\": { \"bytes\": %" SCNu64 ", \"rows_per_token\": %" SCNu64
                                ", \"row_bytes\": %" SCNu64,
                                &bytes, &rows, &row_bytes),
                         3);
        assert_true(bytes == ROWS * DIM * 4 && rows == HEADS && row_bytes == DIM * 4);
        state_bytes[k] = strtoull(run + 9, NULL, 10);
        stator_close(s);
    }
    assert_true(state_bytes[1] - state_bytes[0] >= (uint64_t)(128 - 8) * HEADS * DIM * 4);
    gguf_writer_free(&w);
}

/* What one engine leaves in files, the next one goes on from. */
static void files(void **state) {
    (void)state;
    static const char *const devices[] = {"devices.use=cpu:0", "devices.use=cpu:0,cpu:1"};
    char path[GGUF_WRITER_PATH];
    struct gguf_writer w = ngram_model_write(false, BLOCK_IQ4_NL);
    ngram_model_path(&w, path);
    prefix_play_texts = 3;
    for (int i = 0; i < 2; i++) {
        const char *sets[] = {
            devices[i],      "memory.context=256",   "memory.batch=50", "memory.sequences=2",
            "cpu.threads=2", "server.checkpoints=4", kv_folder_set,     NULL};
        struct prefix_play p;
        (void)prefix_play("files", path, sets, plain, 4, &p);
        assert_true(i == 0 || p.stats.kv_hits > 0);
        assert_sealed();
    }
    assert_true(kv_folder_each('k', NULL) > 0 && kv_folder_each('c', NULL) > 0);
    gguf_writer_free(&w);
}

/* Greedy answers run in circles, so many draft tokens in a row are right. */
static void accepted_drafts(void **state) {
    (void)state;
    static const char *const modes[] = {"speculation.mode=off", "speculation.mode=ngram"};
    const int32_t ids[] = {1, 2, 5, 7, 9};
    struct harness_text texts[2] = {0};
    char path[GGUF_WRITER_PATH];
    struct gguf_writer w = ngram_model_write(false, BLOCK_F32);
    ngram_model_path(&w, path);
    for (int k = 0; k < 2; k++) {
        const char *sets[] = {"memory.context=256", "devices.use=cpu:0", "speculation.tokens=8", modes[k],
                              NULL};
        stator *s = harness_start(path, sets);
        texts[k].id = harness_submit(s, ids, 5, 200, 0, 1);
        harness_collect(s, &texts[k], 1);
        stator_stats stats = {.size = sizeof stats};
        assert_int_equal(stator_get_stats(s, &stats, NULL), STATOR_OK);
        assert_true(k == 0 || stats.kept[2] > 10);
        stator_close(s);
    }
    assert_int_equal(texts[0].n, 200);
    assert_memory_equal(texts[0].ids, texts[1].ids, 200 * sizeof(int32_t));
    gguf_writer_free(&w);
}

/* A request whose rows can't be read ends with an error; the engine stays. */
static void truncated(void **state) {
    (void)state;
    char path[] = "/tmp/stator-ngrams-XXXXXX";
    struct gguf_writer w = ngram_model_write(false, BLOCK_F32);
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
        struct gguf_writer w = ngram_model_write(false, BLOCK_F32);
        uint8_t *at = memmem(w.keys.data, w.keys.n, cases[k].key, strlen(cases[k].key));
        assert_non_null(at);
        at += strlen(cases[k].key) + 4; /* behind the kind */
        if (cases[k].value == VOCAB)
            memcpy(at, &(uint32_t){VOCAB}, 4);
        else
            memcpy(at + 12 + 3 * 8, &cases[k].value, 8);
        ngram_model_path(&w, path);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_numpys),
                                       cmocka_unit_test(formulas),
                                       cmocka_unit_test(far_rows),
                                       cmocka_unit_test(same_bits),
                                       cmocka_unit_test(planned),
                                       cmocka_unit_test_setup(prefixes_and_drafts, count_allocations),
                                       cmocka_unit_test_setup_teardown(files, make_folder, kv_folder_remove),
                                       cmocka_unit_test(accepted_drafts),
                                       cmocka_unit_test(truncated),
                                       cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
