/* Pictures with gemma3 and gemma4: embeddings, and the logits of the text behind two pictures, against
 * tools/reference_tower.py and tools/reference_pictures.py in float64; the same bits however a prompt is
 * computed, though a picture's tokens see each other; prefixes; and which files don't go together.
 *
 * With three arguments the program writes the files for the references instead (for gemma4 likewise, with
 * tower.png and 30 18):
 *     test_pictures_gemma gemma3 /tmp/text.gguf /tmp/tower.gguf
 *     tools/reference_tower.py /tmp/tower.gguf PIXELS 24 24 tests/data/pictures/gemma_tower.f32
 *     tools/reference_pictures.py /tmp/text.gguf /tmp/tower.gguf tests/data/pictures/gemma_logits.f32 PROMPT
 * PIXELS: those of tests/data/pictures/square.png. PROMPT: below; of gemma3 with <start_of_image> and a file
 * of `paths` for each -1, of gemma4 with the file alone.
 */
#include "engine_harness.h"
#include "pictures_model.h"
#include "pictures_play.h"

#include "engine/engine.h"

enum { SEED = 13, WIDTH = PICTURES_MODEL_WIDTH, WINDOW = 20 };

static void gemma3_tower(struct gguf_writer *w, uint32_t type) {
    const struct tower_model_gemma m = pictures_model_gemma_tower(type);
    tower_model_write_gemma(w, &m, SEED);
}

static void gemma4_tower(struct gguf_writer *w, uint32_t type) {
    const struct tower_model_gemma4 m = pictures_model_gemma4_tower(type);
    tower_model_write_gemma4(w, &m, SEED);
}

static const struct kind {
    const char *name, *projector;
    int32_t (*text)(struct gguf_writer *w, uint64_t random, uint32_t window);
    void (*tower)(struct gguf_writer *w, uint32_t type);
    const char *paths[2], *tower_rows, *logits;
    uint32_t across, down; /* tokens */
    uint32_t lead;         /* tokens before them: the marker, which else is the first */
} kinds[] = {{"gemma3",
              "gemma3",
              pictures_model_gemma_text,
              gemma3_tower,
              {"tests/data/pictures/square.png", "tests/data/pictures/square_2.png"},
              "tests/data/pictures/gemma_tower.f32",
              "tests/data/pictures/gemma_logits.f32",
              4,
              4,
              1},
             {"gemma4",
              "gemma4v",
              pictures_model_gemma4_text,
              gemma4_tower,
              {"tests/data/pictures/tower.png", "tests/data/pictures/tower_2.png"},
              "tests/data/pictures/gemma4_tower.f32",
              "tests/data/pictures/gemma4_logits.f32",
              5,
              3,
              0}};
static const struct kind *kind;

/* -1: the marker of pictures; -2: the token behind it in the vocabulary. */
static const int32_t prompt[] = {1, 100, 101, -1, -2, 70, 71, -1, -2, 260, 72};
enum { PROMPT = sizeof prompt / sizeof prompt[0] };

/* Of the tower for a picture; of the prompt. */
static uint32_t rows_of(void) {
    return kind->across * kind->down;
}

static uint32_t tokens_of(void) {
    return PROMPT + 2 * (rows_of() + kind->lead - 1);
}

static struct gguf_writer text, towers[2];
static char text_path[GGUF_WRITER_PATH], tower_paths[2][GGUF_WRITER_PATH];
static stator_picture pictures[2];
static int32_t ids[PROMPT];

static int make_files(void **state) {
    (void)state;
    text = gguf_writer_new();
    const int32_t marker = kind->text(&text, SEED, WINDOW);
    assert_true(gguf_writer_finish(&text));
    assert_non_null(gguf_writer_memory_path(&text, text_path));
    for (int i = 0; i < 2; i++) {
        towers[i] = gguf_writer_new();
        kind->tower(&towers[i], i == 0 ? BLOCK_F32 : BLOCK_F16);
        assert_true(gguf_writer_finish(&towers[i]));
        assert_non_null(gguf_writer_memory_path(&towers[i], tower_paths[i]));
        size_t n = 0;
        pictures[i].data = pictures_read(kind->paths[i], &n);
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
        float *rows = harness_rows(s, &q, tokens_of());
        for (int i = 0; i < 2; i++) {
            const struct picture_place *p = &s->run.pictures.places[i];
            assert_true(p->filled && p->holders == 0 && atomic_load(&p->encoded));
            assert_true(p->size.across == kind->across && p->size.down == kind->down);
            assert_int_equal(p->size.tokens, rows_of() + kind->lead);
        }
        pictures_compare("tower", s->run.pictures.places[0].memory, kind->tower_rows,
                         (size_t)rows_of() * WIDTH);
        pictures_compare("logits", rows, kind->logits, (size_t)tokens_of() * harness_vocab(s));
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
        float *rows = harness_rows(s, &q, tokens_of());
        if (first != NULL)
            assert_memory_equal(first, rows, (size_t)tokens_of() * harness_vocab(s) * sizeof *rows);
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

/* A second turn finds the first one's tokens. The picture's are numbers 86 to 101 (gemma4: 85 to 99): with
 * windows the checkpoint that would be taken after 96 tokens is taken before the picture, without them the
 * rest of the picture is computed. */
static void test_prefix(void **state) {
    (void)state;
    static const char *const roomy[] = {"memory.context=160", "memory.sequences=4", "server.checkpoints=8",
                                        NULL};
    for (uint32_t windows = kind->lead > 0 ? 0 : 1; windows < 2; windows++) { /* gemma4 has one always */
        struct gguf_writer w = gguf_writer_new();
        char path[GGUF_WRITER_PATH], vision[GGUF_WRITER_PATH + 32];
        (void)kind->text(&w, SEED, windows * WINDOW);
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
    float *first = harness_rows(s, &q, tokens_of());
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
                assert_true(rows[i] < tokens_of());
                assert_memory_equal(ev.logits, first + rows[i]++ * vocab, vocab * sizeof *first);
            }
        done += have && ev.kind == STATOR_EVENT_DONE;
    }
    assert_true(rows[0] == tokens_of() && rows[1] == tokens_of());
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
    char batch[32], what[160];
    snprintf(batch, sizeof batch, "memory.batch=%u", rows_of() - 1);
    snprintf(what, sizeof what, "memory.batch is %u, but the %u tokens of a picture", rows_of() - 1,
             rows_of());
    refused(text_path, batch, what);
    struct gguf_writer w = gguf_writer_new();
    (void)kind->text(&w, SEED, 10);
    assert_true(gguf_writer_finish(&w));
    assert_non_null(gguf_writer_memory_path(&w, path));
    snprintf(what, sizeof what,
             "a picture has up to %u tokens, which is more than the window of the text model (10)",
             rows_of() + kind->lead);
    refused(path, NULL, what);
    gguf_writer_free(&w);
    w = gguf_writer_new();
    (void)pictures_model_text(&w);
    assert_true(gguf_writer_finish(&w));
    assert_non_null(gguf_writer_memory_path(&w, path));
    snprintf(what, sizeof what,
             "the projector %s needs a text model of the architecture %s, this one is llama", kind->projector,
             kind->name);
    refused(path, NULL, what);
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
    if (argc > 3) {
        kind = &kinds[strcmp(argv[1], "gemma4") == 0];
        text = gguf_writer_new();
        towers[0] = gguf_writer_new();
        (void)kind->text(&text, SEED, WINDOW);
        kind->tower(&towers[0], BLOCK_F32);
        return gguf_writer_finish(&text) && gguf_writer_save(&text, argv[2]) &&
                       gguf_writer_finish(&towers[0]) && gguf_writer_save(&towers[0], argv[3])
                   ? 0
                   : 1;
    }
    int failed = 0;
    for (kind = kinds; kind < kinds + sizeof kinds / sizeof kinds[0]; kind++) {
        print_message("%s\n", kind->name);
        failed += cmocka_run_group_tests(tests, make_files, drop_files);
    }
    return failed;
}
