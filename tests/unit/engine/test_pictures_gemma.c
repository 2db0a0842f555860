/* Pictures with gemma3: embeddings, and the logits of the text behind two pictures, against
 * tools/reference_tower.py and tools/reference_pictures.py in float64; the same bits however a prompt is
 * computed, though a picture's tokens see each other; prefixes; and which files don't go together.
 *
 * With two arguments the program writes the files for the references instead:
 *     test_pictures_gemma /tmp/text.gguf /tmp/tower.gguf
 *     tools/reference_tower.py /tmp/tower.gguf PIXELS 24 24 tests/data/pictures/gemma_tower.f32
 *     tools/reference_pictures.py /tmp/text.gguf /tmp/tower.gguf tests/data/pictures/gemma_logits.f32 PROMPT
 * PIXELS: those of tests/data/pictures/square.png. PROMPT: below, with -1 and a file of `paths` for each -1.
 */
#include "engine_harness.h"
#include "pictures_model.h"
#include "pictures_play.h"

#include "engine/engine.h"

enum { SEED = 13, WIDTH = PICTURES_MODEL_WIDTH, WINDOW = 20, ROWS = 16 };

/* -1, -2: <start_of_image> and <end_of_image>. */
static const int32_t prompt[] = {1, 100, 101, -1, -2, 70, 71, -1, -2, 260, 72};
enum { PROMPT = sizeof prompt / sizeof prompt[0], TOKENS = PROMPT + 2 * ROWS };

static const char *const paths[] = {"tests/data/pictures/square.png", "tests/data/pictures/square_2.png"};

static struct gguf_writer text, towers[2];
static char text_path[GGUF_WRITER_PATH], tower_paths[2][GGUF_WRITER_PATH];
static stator_picture pictures[2];
static int32_t ids[PROMPT];

static int make_files(void **state) {
    (void)state;
    text = gguf_writer_new();
    const int32_t marker = pictures_model_gemma_text(&text, SEED, WINDOW);
    assert_true(gguf_writer_finish(&text));
    assert_non_null(gguf_writer_memory_path(&text, text_path));
    for (int i = 0; i < 2; i++) {
        const struct tower_model_gemma m = pictures_model_gemma_tower(i == 0 ? BLOCK_F32 : BLOCK_F16);
        towers[i] = gguf_writer_new();
        tower_model_write_gemma(&towers[i], &m, SEED);
        assert_true(gguf_writer_finish(&towers[i]));
        assert_non_null(gguf_writer_memory_path(&towers[i], tower_paths[i]));
        size_t n = 0;
        pictures[i].data = pictures_read(paths[i], &n);
        pictures[i].length = n;
    }
    for (size_t i = 0; i < PROMPT; i++)
        ids[i] = prompt[i] < 0 ? marker - 1 - prompt[i] : prompt[i];
    return 0;
}

static int drop_files(void **state) {
    (void)state;
    gguf_writer_free(&text);
    for (int i = 0; i < 2; i++) {
        gguf_writer_free(&towers[i]);
        free((void *)(uintptr_t)pictures[i].data);
    }
    return 0;
}

static stator *start(const char *const *more, int tower) {
    static char vision[GGUF_WRITER_PATH + 32];
    const char *sets[HARNESS_SETS] = {vision, "vision.decode=1MiB", "memory.staging=1MiB"};
    size_t n = 3;
    snprintf(vision, sizeof vision, "model.vision=%s", tower_paths[tower]);
    while (more != NULL && *more != NULL)
        sets[n++] = *more++;
    sets[n] = NULL;
    return harness_start(text_path, sets);
}

static stator_request request_of(void) {
    return (stator_request){.size = sizeof(stator_request),
                            .kind = STATOR_LOGITS,
                            .tokens = ids,
                            .n_tokens = PROMPT,
                            .pictures = pictures,
                            .n_pictures = 2};
}

static void test_reference(void **state) {
    (void)state;
    for (int tower = 0; tower < 2; tower++) {
        static const char *const exact[] = {"memory.kv_type=f32", NULL};
        stator *s = start(exact, tower);
        const stator_request q = request_of();
        float *rows = harness_rows(s, &q, TOKENS);
        for (int i = 0; i < 2; i++) {
            const struct picture_place *p = &s->run.pictures.places[i];
            assert_true(p->filled && p->holders == 0 && atomic_load(&p->encoded));
            assert_true(p->size.across == 4 && p->size.down == 4 && p->size.tokens == ROWS + 1);
        }
        pictures_compare("tower", s->run.pictures.places[0].memory, "tests/data/pictures/gemma_tower.f32",
                         (size_t)ROWS * WIDTH);
        pictures_compare("logits", rows, "tests/data/pictures/gemma_logits.f32",
                         (size_t)TOKENS * harness_vocab(s));
        free(rows);
        stator_close(s);
    }
}

/* The same bits by threads, batches, tiers and splits. */
static void test_bits(void **state) {
    (void)state;
    static const char *const ways[][5] = {
        {"cpu.threads=1", NULL},
        {"cpu.threads=3", "memory.batch=17", "memory.sequences=2", NULL},
        {"cpu.tier=scalar", "cpu.threads=2", "memory.batch=16", "memory.sequences=1", NULL},
        {"cpu.tier=avx2", "memory.batch=33", NULL},
        {"devices.use=cpu:0, cpu:1", "devices.split=4, 2", "memory.batch=24", NULL},
        {"devices.use=cpu:0, cpu:1", "devices.split=tensor:2,1", "memory.batch=24", NULL},
    };
    float *first = NULL;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        stator *s = start(ways[i], 1);
        const stator_request q = request_of();
        float *rows = harness_rows(s, &q, TOKENS);
        if (first != NULL)
            assert_memory_equal(first, rows, (size_t)TOKENS * harness_vocab(s) * sizeof *rows);
        free(first);
        first = rows;
        stator_close(s);
    }
    free(first);
}

/* Text alone has the bits that it has without a tower. */
static void test_text_alone(void **state) {
    (void)state;
    static const int32_t words[] = {1, 60, 61, 62, 100, 101, 102};
    const size_t n = sizeof words / sizeof words[0];
    stator *with = start(NULL, 0), *without = harness_start(text_path, NULL);
    float *a = harness_logits(with, words, n), *b = harness_logits(without, words, n);
    assert_memory_equal(a, b, n * harness_vocab(with) * sizeof *a);
    free(a);
    free(b);
    stator_close(with);
    stator_close(without);
}

/* A prompt of `before` tokens, a picture and `behind` tokens. */
static uint64_t submit(stator *s, uint32_t before, uint32_t behind) {
    int32_t all[160];
    uint32_t n = 0;
    for (uint32_t i = 0; i < before; i++)
        all[n++] = i == 0 ? 1 : 60 + (int32_t)(i * 7 % 150);
    all[n++] = ids[3];
    all[n++] = ids[4];
    for (uint32_t i = 0; i < behind; i++)
        all[n++] = 80 + (int32_t)i;
    const stator_request q = {.size = sizeof q,
                              .kind = STATOR_GENERATE,
                              .tokens = all,
                              .n_tokens = n,
                              .max_new = 4,
                              .ignore_eos = 1,
                              .sampling = {.has = STATOR_HAS_TEMPERATURE},
                              .pictures = pictures,
                              .n_pictures = 1};
    uint64_t id = 0;
    stator_error e = {0};
    if (stator_submit(s, &q, &id, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    return id;
}

/* The greedy answer, and how many tokens of the prompt were computed before. */
static uint32_t answer_of(stator *s, uint32_t before, uint32_t behind, int32_t answer[4]) {
    (void)submit(s, before, behind);
    for (int n = 0;;) {
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        stator_error e = {0};
        assert_int_equal(stator_poll(s, UINT64_MAX, &ev, &have, &e), STATOR_OK);
        if (have && ev.kind == STATOR_EVENT_TOKEN)
            answer[n++] = ev.token;
        if (have && ev.kind == STATOR_EVENT_DONE) {
            assert_int_equal(n, 4);
            return ev.n_cached;
        }
    }
}

/* A second turn finds the first one's tokens. The picture's are numbers 86 to 101: with windows the
 * checkpoint that would be taken after 96 tokens is taken before the picture, without them the rest of the
 * picture is computed. */
static void test_prefix(void **state) {
    (void)state;
    static const char *const roomy[] = {"memory.context=160", "memory.sequences=4", "server.checkpoints=8",
                                        NULL};
    for (uint32_t windows = 0; windows < 2; windows++) {
        struct gguf_writer w = gguf_writer_new();
        char path[GGUF_WRITER_PATH], vision[GGUF_WRITER_PATH + 32];
        (void)pictures_model_gemma_text(&w, SEED, windows * WINDOW);
        assert_true(gguf_writer_finish(&w));
        assert_non_null(gguf_writer_memory_path(&w, path));
        snprintf(vision, sizeof vision, "model.vision=%s", tower_paths[0]);
        const char *const sets[] = {
            vision, "vision.decode=1MiB", "memory.staging=1MiB", roomy[0], roomy[1], roomy[2], NULL};
        int32_t first[4], second[4], again[4];
        stator *s = harness_start(path, sets);
        assert_int_equal(answer_of(s, 85, 8, first), 0);
        assert_int_equal(answer_of(s, 85, 12, second), windows ? 64 : 96);
        stator_close(s);
        s = harness_start(path, sets);
        assert_int_equal(answer_of(s, 85, 12, again), 0);
        assert_memory_equal(second, again, sizeof again);
        stator_close(s);
        gguf_writer_free(&w);
    }
}

/* Beside others, in steps that hold a picture and one token more for each of them. */
static void test_beside(void **state) {
    (void)state;
    static const char *const tight[] = {"memory.sequences=4", "memory.batch=19", NULL};
    int32_t alone[2][4], beside[4][4];
    stator *s = start(tight, 0);
    for (size_t i = 0; i < 2; i++)
        (void)answer_of(s, 9, (uint32_t)i, alone[i]);
    stator_close(s);
    s = start(tight, 0);
    uint64_t id[4];
    int n[4] = {0}, done = 0;
    for (size_t i = 0; i < 4; i++)
        id[i] = submit(s, 9, i % 2);
    while (done < 4) {
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        stator_error e = {0};
        assert_int_equal(stator_poll(s, UINT64_MAX, &ev, &have, &e), STATOR_OK);
        for (int i = 0; i < 4 && have; i++)
            if (ev.request == id[i] && ev.kind == STATOR_EVENT_TOKEN)
                beside[i][n[i]++] = ev.token;
        done += have && ev.kind == STATOR_EVENT_DONE;
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(n[i], 4);
        assert_memory_equal(beside[i], alone[i % 2], sizeof alone[0]);
    }
    stator_close(s);
}

/* Readers of all rows beside each other and beside an answer: a picture goes into a step whole all the same.
 */
static void test_readers(void **state) {
    (void)state;
    static const char *const tight[] = {"memory.sequences=4", "memory.batch=19", NULL};
    stator *s = start(tight, 0);
    const uint32_t vocab = harness_vocab(s);
    const stator_request q = request_of();
    float *first = harness_rows(s, &q, TOKENS);
    uint64_t id[2];
    size_t rows[2] = {0};
    int done = 0;
    stator_error e = {0};
    for (int i = 0; i < 2; i++)
        assert_int_equal(stator_submit(s, &q, &id[i], &e), STATOR_OK);
    (void)submit(s, 9, 3);
    while (done < 3) {
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        assert_int_equal(stator_poll(s, UINT64_MAX, &ev, &have, &e), STATOR_OK);
        for (int i = 0; i < 2 && have && ev.kind == STATOR_EVENT_LOGITS; i++)
            if (ev.request == id[i]) {
                assert_true(rows[i] < TOKENS);
                assert_memory_equal(ev.logits, first + rows[i]++ * vocab, vocab * sizeof *first);
            }
        done += have && ev.kind == STATOR_EVENT_DONE;
    }
    assert_true(rows[0] == TOKENS && rows[1] == TOKENS);
    free(first);
    stator_close(s);
}

static void refused(const char *model, const char *more, const char *what) {
    char vision[GGUF_WRITER_PATH + 32];
    snprintf(vision, sizeof vision, "model.vision=%s", tower_paths[0]);
    const char *sets[] = {vision, "vision.decode=1MiB", "memory.staging=1MiB", more};
    stator_options o = {
        .size = sizeof o, .config = model, .set = sets, .n_set = more != NULL ? 4 : 3, .reuse = 1};
    stator *s = NULL;
    stator_error e = {0};
    stator_status st = stator_open(&o, &s, &e);
    if (st == STATOR_OK)
        st = stator_start(s, &e);
    stator_close(s);
    if (strstr(e.text, what) == NULL)
        fail_msg("expected \"%s\" in: %s", what, e.text);
    assert_int_equal(st, STATOR_USAGE);
}

static void test_what_does_not_go_together(void **state) {
    (void)state;
    char path[GGUF_WRITER_PATH];
    refused(text_path, "memory.batch=15", "memory.batch is 15, but the 16 tokens of a picture");
    struct gguf_writer w = gguf_writer_new();
    (void)pictures_model_gemma_text(&w, SEED, 10);
    assert_true(gguf_writer_finish(&w));
    assert_non_null(gguf_writer_memory_path(&w, path));
    refused(path, NULL, "a picture has 17 tokens, which is more than the window of the text model (10)");
    gguf_writer_free(&w);
    w = gguf_writer_new();
    (void)pictures_model_text(&w);
    assert_true(gguf_writer_finish(&w));
    assert_non_null(gguf_writer_memory_path(&w, path));
    refused(path, NULL,
            "the projector gemma3 needs a text model of the architecture gemma3, this one is llama");
    gguf_writer_free(&w);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_text_alone),
        cmocka_unit_test(test_prefix),
        cmocka_unit_test(test_beside),
        cmocka_unit_test(test_readers),
        cmocka_unit_test(test_what_does_not_go_together),
    };
    if (argc > 2) {
        const struct tower_model_gemma m = pictures_model_gemma_tower(BLOCK_F32);
        text = gguf_writer_new();
        towers[0] = gguf_writer_new();
        pictures_model_gemma_text(&text, SEED, WINDOW);
        tower_model_write_gemma(&towers[0], &m, SEED);
        return gguf_writer_finish(&text) && gguf_writer_save(&text, argv[1]) &&
                       gguf_writer_finish(&towers[0]) && gguf_writer_save(&towers[0], argv[2])
                   ? 0
                   : 1;
    }
    return cmocka_run_group_tests(tests, make_files, drop_files);
}
