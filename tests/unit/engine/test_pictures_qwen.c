/* Pictures with qwen3vl_merger and qwen2.5vl_merger: embeddings, deepstacks and the logits of the text behind
 * two pictures against tools/reference_tower.py and tools/reference_pictures.py in float64; the same bits
 * however a prompt is computed; prefixes; and which files don't go together.
 *
 * With arguments the program writes the files for the references instead, of qwen3vl, then of qwen35, then of
 * qwen2vl:
 *     test_pictures_qwen /tmp/text.gguf /tmp/tower.gguf /tmp/text35.gguf /tmp/tower35.gguf ..
 *     tools/reference_tower.py /tmp/tower.gguf PIXELS 30 18 tests/data/pictures/qwen_tower.f32
 *     tools/reference_pictures.py /tmp/text.gguf /tmp/tower.gguf tests/data/pictures/qwen_logits.f32 PROMPT
 * (with the other files: qwen35_logits.f32; qwen25_tower.f32, qwen25_logits.f32). PIXELS: those of
 * tests/data/pictures/tower.png. PROMPT: below, with the files of `pictures` for -1. */
#include "engine_harness.h"
#include "pictures_model.h"
#include "pictures_play.h"

#include "engine/engine.h"

enum { SEED = 11, WIDTH = PICTURES_MODEL_WIDTH * (1 + PICTURES_MODEL_DEEP) };

/* -1, -2, -3: <|image_pad|> and the tokens around it. */
static const int32_t prompt[] = {1, 100, -2, -1, -3, 70, 71, -2, -1, -3, 260, 72, 73};
enum { PROMPT = sizeof prompt / sizeof prompt[0] };

static const struct {
    const char *path;
    uint32_t across, down;
} files[] = {{"tests/data/pictures/tower.png", 5, 3}, {"tests/data/pictures/tower_3.png", 2, 4}};
enum { TOKENS = PROMPT - 2 + 5 * 3 + 2 * 4 };

/* Of qwen3vl with matrices of the tower in F32, and in F16; of qwen35; of qwen2vl. */
enum { DEEP, DEEP_F16, HYBRID, WINDOWED, MODELS };
static struct gguf_writer texts[MODELS], towers[MODELS];
static char text_paths[MODELS][GGUF_WRITER_PATH], tower_paths[MODELS][GGUF_WRITER_PATH];
static stator_picture pictures[2];
static int32_t ids[PROMPT];

static int32_t write_model(int i) {
    struct tower_model_qwen m = pictures_model_qwen_tower(i == DEEP_F16 ? BLOCK_F16 : BLOCK_F32);
    m.deep = i == HYBRID ? 0 : m.deep;
    if (i == WINDOWED)
        m = pictures_model_windowed_tower(BLOCK_F32);
    texts[i] = gguf_writer_new();
    towers[i] = gguf_writer_new();
    tower_model_write_qwen(&towers[i], &m, SEED);
    const int32_t marker =
        i == HYBRID ? pictures_model_hybrid_text(&texts[i], SEED, 0)
                    : pictures_model_qwen_of(&texts[i], SEED, i == WINDOWED ? "qwen2vl" : "qwen3vl");
    assert_true(gguf_writer_finish(&texts[i]) && gguf_writer_finish(&towers[i]));
    return marker;
}

static int make_files(void **state) {
    (void)state;
    int32_t marker = 0;
    for (int i = 0; i < MODELS; i++) {
        marker = write_model(i);
        assert_non_null(gguf_writer_memory_path(&texts[i], text_paths[i]));
        assert_non_null(gguf_writer_memory_path(&towers[i], tower_paths[i]));
    }
    for (int i = 0; i < 2; i++) {
        size_t n = 0;
        pictures[i].data = pictures_read(files[i].path, &n);
        pictures[i].length = n;
    }
    for (size_t i = 0; i < PROMPT; i++)
        ids[i] = prompt[i] < 0 ? marker - 1 - prompt[i] : prompt[i];
    return 0;
}

static int drop_files(void **state) {
    (void)state;
    for (int i = 0; i < MODELS; i++) {
        gguf_writer_free(&texts[i]);
        gguf_writer_free(&towers[i]);
    }
    for (int i = 0; i < 2; i++)
        free((void *)(uintptr_t)pictures[i].data);
    return 0;
}

static stator *start(const char *const *more, int model) {
    static char vision[GGUF_WRITER_PATH + 32];
    const char *sets[HARNESS_SETS] = {vision, "vision.decode=1MiB", "memory.staging=1MiB"};
    size_t n = 3;
    snprintf(vision, sizeof vision, "model.vision=%s", tower_paths[model]);
    while (more != NULL && *more != NULL)
        sets[n++] = *more++;
    sets[n] = NULL;
    return harness_start(text_paths[model], sets);
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
    for (int model = 0; model < MODELS; model++) {
        static const char *const exact[] = {"memory.kv_type=f32", NULL};
        stator *s = start(exact, model);
        const stator_request q = request_of();
        float *rows = harness_rows(s, &q, TOKENS);
        for (int i = 0; i < 2; i++) {
            const struct picture_place *p = &s->run.pictures.places[i];
            assert_true(p->filled && p->holders == 0 && atomic_load(&p->encoded));
            assert_true(p->size.across == files[i].across && p->size.down == files[i].down);
            assert_int_equal(p->size.tokens, files[i].across * files[i].down);
        }
        if (model != HYBRID)
            pictures_compare("tower", s->run.pictures.places[0].memory,
                             model == WINDOWED ? "tests/data/pictures/qwen25_tower.f32"
                                               : "tests/data/pictures/qwen_tower.f32",
                             (size_t)5 * 3 * (model == WINDOWED ? PICTURES_MODEL_WIDTH : WIDTH));
        pictures_compare("logits", rows,
                         model == HYBRID     ? "tests/data/pictures/qwen35_logits.f32"
                         : model == WINDOWED ? "tests/data/pictures/qwen25_logits.f32"
                                             : "tests/data/pictures/qwen_logits.f32",
                         (size_t)TOKENS * harness_vocab(s));
        free(rows);
        stator_close(s);
    }
}

/* The same bits by threads, batches (which cut pictures apart), tiers and splits. */
static void same_bits(int model) {
    static const char *const ways[][5] = {
        {"cpu.threads=1", NULL},
        {"cpu.threads=3", "memory.batch=7", NULL},
        {"cpu.tier=scalar", "cpu.threads=2", "memory.batch=1", NULL},
        {"cpu.tier=avx2", "memory.batch=33", NULL},
        {"devices.use=cpu:0, cpu:1", NULL, "memory.batch=16", NULL},
        {"devices.use=cpu:0, cpu:1", "devices.split=tensor", "memory.batch=11", NULL},
        {"devices.use=cpu:0, cpu:1, cpu:2", "devices.split=tensor:1,3,2", "memory.batch=64", NULL},
        {"devices.use=cpu:0, cpu:1, cpu:2, cpu:3", "devices.split=tensor", "memory.batch=33",
         "devices.groups=3,1", NULL},
    };
    float *first = NULL;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        const char *way[5] = {ways[i][0], ways[i][1], ways[i][2], ways[i][3], NULL};
        if (way[2] != NULL && way[1] == NULL)
            way[1] = model == HYBRID ? "devices.split=1, 3" : "devices.split=2, 1";
        stator *s = start(way, model);
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

static void test_bits(void **state) {
    (void)state;
    same_bits(DEEP_F16);
    same_bits(HYBRID);
    same_bits(WINDOWED);
}

/* Text alone has the bits that it has without a tower. */
static void test_text_alone(void **state) {
    (void)state;
    static const int32_t words[] = {1, 60, 61, 62, 100, 101, 102};
    const size_t n = sizeof words / sizeof words[0];
    stator *with = start(NULL, DEEP), *without = harness_start(text_paths[DEEP], NULL);
    float *a = harness_logits(with, words, n), *b = harness_logits(without, words, n);
    assert_memory_equal(a, b, n * harness_vocab(with) * sizeof *a);
    free(a);
    free(b);
    stator_close(with);
    stator_close(without);
}

/* A greedy answer to the prompt with more text behind it, and how much of it was computed before. */
static uint32_t answer_of(stator *s, size_t more, int32_t answer[4]) {
    int32_t long_ids[PROMPT + 80];
    memcpy(long_ids, ids, sizeof ids);
    for (size_t i = 0; i < more; i++)
        long_ids[PROMPT + i] = 80 + (int32_t)i;
    stator_request q = request_of();
    q.kind = STATOR_GENERATE;
    q.tokens = long_ids;
    q.n_tokens = PROMPT + more;
    q.max_new = 4;
    q.ignore_eos = 1;
    q.sampling = (stator_sampling){.has = STATOR_HAS_TEMPERATURE};
    uint64_t id = 0;
    stator_error e = {0};
    if (stator_submit(s, &q, &id, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    for (int n = 0;;) {
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        assert_int_equal(stator_poll(s, UINT64_MAX, &ev, &have, &e), STATOR_OK);
        if (have && ev.kind == STATOR_EVENT_TOKEN)
            answer[n++] = ev.token;
        if (have && ev.kind == STATOR_EVENT_DONE) {
            assert_int_equal(n, 4);
            return ev.n_cached;
        }
    }
}

/* A second turn finds the first one's tokens, and continues at the same places. */
static void test_prefix(void **state) {
    (void)state;
    static const char *const roomy[] = {"memory.sequences=4", "server.checkpoints=4", NULL};
    static const char *const guessing[] = {"memory.sequences=4", "speculation.mode=ngram", "memory.batch=9",
                                           NULL};
    for (int model = 0; model < MODELS; model++) {
        const size_t before = model == HYBRID ? 64 : 0; /* a checkpoint is taken behind 64 tokens or more */
        int32_t first[4], second[4], again[4], guessed[4];
        stator *s = start(roomy, model);
        assert_int_equal(answer_of(s, before, first), 0);
        assert_int_equal(answer_of(s, before + 16, second), model == HYBRID ? 64 : 32);
        stator_close(s);
        s = start(roomy, model);
        assert_int_equal(answer_of(s, before + 16, again), 0);
        assert_memory_equal(second, again, sizeof again);
        stator_close(s);
        s = start(guessing, model);
        assert_int_equal(answer_of(s, before + 16, guessed), 0);
        assert_memory_equal(second, guessed, sizeof guessed);
        stator_close(s);
    }
}

static void refused(const char *model, const char *vision, stator_status status, const char *what) {
    const char *sets[] = {vision, "vision.decode=1MiB", "memory.staging=1MiB"};
    stator_options o = {.size = sizeof o, .config = model, .set = sets, .n_set = 3, .reuse = 1};
    stator *s = NULL;
    stator_error e = {0};
    stator_status st = stator_open(&o, &s, &e);
    if (st == STATOR_OK)
        st = stator_start(s, &e);
    stator_close(s);
    if (strstr(e.text, what) == NULL)
        fail_msg("expected \"%s\" in: %s", what, e.text);
    assert_int_equal(st, status);
}

/* A text model that lacks a key, or has others in its place. */
static void test_what_does_not_go_together(void **state) {
    (void)state;
    static const struct {
        const char *key;
        int32_t sections[3];
        uint32_t deep;
        stator_status status;
        const char *said;
    } rows[] = {
        {"rope.dimension_sections",
         {0},
         0,
         STATOR_BAD_MODEL,
         "there is no key 'qwen3vl.rope.dimension_sections'"},
        {"rope.dimension_sections",
         {6, 6, 5},
         0,
         STATOR_BAD_MODEL,
         "is 6, 6, 5: interleaved they don't divide the 16"},
        {"rope.dimension_sections", {4, 6, 6}, 0, STATOR_BAD_MODEL, "is 4, 6, 6: interleaved"},
        {"rope.dimension_sections", {-1, 6, 6}, 0, STATOR_BAD_MODEL, "value 0 is -1"},
        {"n_deepstack_layers",
         {0},
         0,
         STATOR_USAGE,
         "2 layers with deepstack (clip.vision.is_deepstack_layers)"},
        {"n_deepstack_layers", {0}, 1, STATOR_USAGE, "the text model adds those of 1"},
        {"n_deepstack_layers", {0}, 4, STATOR_BAD_MODEL, "qwen3vl.n_deepstack_layers"},
    };
    char vision[GGUF_WRITER_PATH + 32];
    snprintf(vision, sizeof vision, "model.vision=%s", tower_paths[0]);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct gguf_writer w = gguf_writer_new();
        char key[96], path[GGUF_WRITER_PATH];
        snprintf(key, sizeof key, "qwen3vl.%s", rows[i].key);
        w.drop[0] = key;
        pictures_model_qwen_text(&w, SEED);
        w.drop[0] = NULL;
        if (rows[i].sections[1] != 0)
            gguf_writer_array(&w, key, GGUF_I32, 3, rows[i].sections, sizeof rows[i].sections);
        if (rows[i].deep != 0)
            gguf_writer_u32(&w, key, rows[i].deep);
        assert_true(gguf_writer_finish(&w));
        assert_non_null(gguf_writer_memory_path(&w, path));
        refused(path, vision, rows[i].status, rows[i].said);
        gguf_writer_free(&w);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_text_alone),
        cmocka_unit_test(test_prefix),
        cmocka_unit_test(test_what_does_not_go_together),
    };
    for (int i = 0; i < 3 && argc > 2 * i + 2; i++) {
        const int model = (const int[]){DEEP, HYBRID, WINDOWED}[i];
        write_model(model);
        if (!gguf_writer_save(&texts[model], argv[2 * i + 1]) ||
            !gguf_writer_save(&towers[model], argv[2 * i + 2]))
            return 1;
    }
    if (argc > 2)
        return 0;
    return cmocka_run_group_tests(tests, make_files, drop_files);
}
