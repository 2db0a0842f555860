/* Pictures in prompts: the tower's embeddings against tools/reference_tower.py in float64, the bits of the
 * text behind pictures however a prompt is computed, and what is refused.
 *
 * With an argument the program writes the F32 tower to that file instead, for the reference:
 *     test_pictures /tmp/tower.gguf
 *     tools/reference_tower.py /tmp/tower.gguf PIXELS 30 18 tests/data/pictures/tower.f32
 * PIXELS: those of tests/data/pictures/tower.png. */
#include "engine_harness.h"
#include "pictures_model.h"
#include "pictures_play.h"

#include "engine/engine.h"

enum { SEED = 7, ACROSS = 5, DOWN = 3, PICTURE_TOKENS = (ACROSS + 1) * DOWN };

static struct gguf_writer text, towers[2];
static char text_path[GGUF_WRITER_PATH], tower_paths[2][GGUF_WRITER_PATH];
static int32_t marker;
static char *png, *other;
static size_t png_bytes, other_bytes;

static int make_files(void **state) {
    (void)state;
    text = gguf_writer_new();
    marker = pictures_model_text(&text);
    assert_true(gguf_writer_finish(&text));
    assert_non_null(gguf_writer_memory_path(&text, text_path));
    for (int i = 0; i < 2; i++) {
        const struct tower_model_pixtral m = pictures_model_tower(i == 0 ? BLOCK_F32 : BLOCK_F16);
        towers[i] = gguf_writer_new();
        tower_model_write_pixtral(&towers[i], &m, SEED);
        assert_true(gguf_writer_finish(&towers[i]));
        assert_non_null(gguf_writer_memory_path(&towers[i], tower_paths[i]));
    }
    png = pictures_read("tests/data/pictures/tower.png", &png_bytes);
    other = pictures_read("tests/fuzz/corpus_picture_png/rgb.png", &other_bytes);
    return 0;
}

static int drop_files(void **state) {
    (void)state;
    gguf_writer_free(&text);
    gguf_writer_free(&towers[0]);
    gguf_writer_free(&towers[1]);
    free(png);
    free(other);
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

static const int32_t *prompt_of(size_t *n, uint32_t pictures) {
    static int32_t ids[16];
    *n = 0;
    ids[(*n)++] = 1;
    ids[(*n)++] = 100;
    for (uint32_t i = 0; i < pictures; i++) {
        ids[(*n)++] = marker;
        ids[(*n)++] = 70 + (int32_t)i;
    }
    ids[(*n)++] = 260;
    return ids;
}

static stator_request request_of(const stator_picture *pictures, size_t n) {
    stator_request q = {.size = sizeof q, .kind = STATOR_LOGITS, .pictures = pictures, .n_pictures = n};
    q.tokens = prompt_of(&q.n_tokens, (uint32_t)n);
    return q;
}

static void test_embeddings(void **state) {
    (void)state;
    for (int tower = 0; tower < 2; tower++) {
        stator *s = start(NULL, tower);
        const stator_picture picture = {png, png_bytes};
        stator_request q = request_of(&picture, 1);
        free(harness_rows(s, &q, q.n_tokens - 1 + PICTURE_TOKENS));
        const struct picture_place *p = &s->run.pictures.places[0];
        assert_true(p->filled && p->holders == 0 && atomic_load(&p->encoded));
        assert_true(p->size.across == ACROSS && p->size.down == DOWN && p->size.tokens == PICTURE_TOKENS);
        pictures_compare("tower", p->memory, "tests/data/pictures/tower.f32",
                         (size_t)ACROSS * DOWN * PICTURES_MODEL_WIDTH);
        stator_close(s);
    }
}

/* Two pictures, one of them resized: the same bits by threads, batches, tiers and splits. */
static void test_bits(void **state) {
    (void)state;
    static const char *const ways[][4] = {
        {"cpu.threads=1", NULL},
        {"cpu.threads=3", "memory.batch=7", NULL},
        {"cpu.tier=scalar", "cpu.threads=2", NULL},
        {"cpu.tier=avx2", "memory.batch=33", NULL},
        {"devices.use=cpu:0, cpu:1", "memory.batch=16", NULL},
        {"devices.use=cpu:0, cpu:1, cpu:2", "devices.split=tensor", "memory.batch=9", NULL},
        {"vision.max_pixels=2000", "vision.pictures=2", NULL},
    };
    const stator_picture pictures[2] = {{png, png_bytes}, {other, other_bytes}};
    float *first = NULL;
    size_t floats = 0;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        stator *s = start(ways[i], 1);
        stator_request q = request_of(pictures, 2);
        stator_picture_size size = {.size = sizeof size};
        stator_error e = {0};
        assert_int_equal(stator_measure_picture(s, &pictures[1], &size, &e), STATOR_OK);
        assert_true(size.width == 13 && size.height == 7 && size.seen_width == 18 && size.seen_height == 12);
        assert_int_equal(size.tokens, 8);
        const size_t tokens = q.n_tokens - 2 + PICTURE_TOKENS + size.tokens;
        float *rows = harness_rows(s, &q, tokens);
        float *again = harness_rows(s, &q, tokens);
        floats = tokens * harness_vocab(s);
        stator_vision vision = {.size = sizeof vision};
        assert_int_equal(stator_get_vision(s, &vision, &e), STATOR_OK);
        assert_true(vision.marker == marker && vision.encoded == 2); /* each once */
        assert_memory_equal(rows, again, floats * sizeof *rows);
        if (first != NULL)
            assert_memory_equal(first, rows, floats * sizeof *rows);
        free(again);
        free(first);
        first = rows;
        stator_close(s);
    }
    /* And pictures count: with the two of them exchanged the last row is another. */
    stator *s = start(NULL, 1);
    const stator_picture swapped[2] = {pictures[1], pictures[0]};
    stator_request q = request_of(swapped, 2);
    const size_t row = harness_vocab(s);
    float *rows = harness_rows(s, &q, floats / row);
    assert_true(memcmp(rows + floats - row, first + floats - row, row * sizeof *rows) != 0);
    free(rows);
    free(first);
    stator_close(s);
}

static void refused(stator *s, const stator_request *q, stator_status status, const char *what) {
    uint64_t id = 0;
    stator_error e = {0};
    assert_int_equal(stator_submit(s, q, &id, &e), status);
    if (strstr(e.text, what) == NULL)
        fail_msg("expected \"%s\" in: %s", what, e.text);
}

static void test_what_is_refused(void **state) {
    (void)state;
    const stator_picture pictures[3] = {{png, png_bytes}, {other, other_bytes}, {png, png_bytes}};
    static const char *const two[] = {"vision.pictures=2", "memory.sequences=4", NULL};
    stator *s = start(two, 0);
    stator_request q = request_of(pictures, 3);
    refused(s, &q, STATOR_USAGE, "the request has 3 pictures, vision.pictures is 2");
    q = request_of(pictures, 2);
    q.n_pictures = 1;
    refused(s, &q, STATOR_USAGE, "the prompt has 2 places for pictures ([IMG]), the request 1 pictures");
    const stator_picture cut = {png, 20}, none = {"GIF89a", 6};
    q = request_of(&cut, 1);
    refused(s, &q, STATOR_USAGE, "picture 0");
    q = request_of(&none, 1);
    refused(s, &q, STATOR_USAGE, "picture 0");
    /* A file that is damaged behind its headers holds no place. */
    char *damaged = malloc(png_bytes);
    assert_non_null(damaged);
    memcpy(damaged, png, png_bytes);
    memset(damaged + png_bytes / 2, 0x55, png_bytes / 4);
    const stator_picture bad = {damaged, png_bytes};
    q = request_of(&bad, 1);
    for (int i = 0; i < 3; i++)
        refused(s, &q, STATOR_USAGE, "picture 0");
    free(damaged);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(s->run.pictures.places[i].holders, 0);
    stator_close(s);

    static const char *const narrow[] = {"memory.context=20", NULL};
    s = start(narrow, 0);
    q = request_of(pictures, 1);
    refused(s, &q, STATOR_USAGE,
            "the prompt has 4 tokens of text and 18 of 1 pictures, memory.context is 20");
    stator_close(s);

    s = harness_start(text_path, NULL);
    refused(s, &q, STATOR_USAGE, "the request has pictures, but model.vision names no vision tower");
    stator_close(s);
}

/* Decoded ahead of the request: the same answer, and who loaded it holds its place until it is dropped. */
static void test_loaded(void **state) {
    (void)state;
    static const char *const two[] = {"vision.pictures=2", "memory.sequences=4", NULL};
    stator *s = start(two, 0);
    const stator_picture pictures[2] = {{png, png_bytes}, {other, other_bytes}}, cut = {png, 20};
    uint64_t loaded[2] = {0}, third = 1;
    stator_error e = {0};
    stator_request q = request_of(pictures, 2);
    const size_t tokens = q.n_tokens - 2 + PICTURE_TOKENS + 8;
    float *first = harness_rows(s, &q, tokens);
    for (int i = 0; i < 2; i++)
        assert_int_equal(stator_load_picture(s, &pictures[i], &loaded[i], &e), STATOR_OK);
    assert_true(loaded[0] != 0 && loaded[0] != loaded[1]);
    assert_int_equal(stator_load_picture(s, &cut, &third, &e), STATOR_BUSY);
    assert_int_equal(third, 0);
    q.pictures = NULL;
    q.loaded = loaded;
    float *rows = harness_rows(s, &q, tokens);
    assert_memory_equal(rows, first, tokens * harness_vocab(s) * sizeof *rows);
    const uint64_t wrong[3][2] = {
        {loaded[0], 0}, {loaded[0], loaded[1] + ((uint64_t)1 << 32)}, {3, loaded[1]}};
    for (int i = 0; i < 3; i++) {
        q.loaded = wrong[i];
        refused(s, &q, STATOR_USAGE, "is no picture of stator_load_picture");
    }
    stator_drop_picture(s, loaded[1]);
    q.loaded = loaded;
    refused(s, &q, STATOR_USAGE, "request.loaded[1] is no picture");
    assert_int_equal(stator_load_picture(s, &cut, &third, &e), STATOR_USAGE);
    assert_int_equal(s->run.pictures.places[0].holders + s->run.pictures.places[1].holders, 1);
    stator_drop_picture(s, loaded[0]);
    assert_int_equal(s->run.pictures.places[0].holders + s->run.pictures.places[1].holders, 0);
    free(first);
    free(rows);
    stator_close(s);
}

/* Tokens of the prompt that a request with this picture found computed. */
static uint32_t cached(stator *s, const char *file, size_t bytes, int32_t *answer) {
    int32_t ids[24] = {1, marker};
    for (int i = 2; i < 24; i++)
        ids[i] = 60 + i;
    const stator_picture picture = {file, bytes};
    stator_request q = {.size = sizeof q,
                        .kind = STATOR_GENERATE,
                        .tokens = ids,
                        .n_tokens = 24,
                        .max_new = 1,
                        .ignore_eos = 1,
                        .pictures = &picture,
                        .n_pictures = 1};
    q.sampling = (stator_sampling){.has = STATOR_HAS_TEMPERATURE};
    uint64_t id = 0;
    stator_error e = {0};
    if (stator_submit(s, &q, &id, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    for (;;) {
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        assert_int_equal(stator_poll(s, UINT64_MAX, &ev, &have, &e), STATOR_OK);
        if (have && ev.kind == STATOR_EVENT_TOKEN)
            *answer = ev.token;
        if (have && ev.kind == STATOR_EVENT_DONE)
            return ev.n_cached;
    }
}

/* A prefix with a picture is found again by the picture, not by its tokens, which all pictures share. */
static void test_prefix(void **state) {
    (void)state;
    size_t n = 0;
    char *second = pictures_read("tests/data/pictures/tower_2.png", &n); /* as large as the first */
    static const char *const roomy[] = {"memory.sequences=4", NULL};
    stator *s = start(roomy, 0);
    int32_t answers[4];
    assert_int_equal(cached(s, png, png_bytes, &answers[0]), 0);
    assert_int_equal(cached(s, png, png_bytes, &answers[1]), 32);
    assert_int_equal(cached(s, second, n, &answers[2]), 0);
    assert_int_equal(cached(s, png, png_bytes, &answers[3]), 32);
    assert_true(answers[1] == answers[0] && answers[3] == answers[0]);
    stator_vision vision = {.size = sizeof vision};
    stator_error e = {0};
    assert_int_equal(stator_get_vision(s, &vision, &e), STATOR_OK);
    assert_int_equal(vision.encoded, 2);
    stator_close(s);
    free(second);
}

/* Requests that are queued, cancelled and served share places, and give them back. */
static void test_places(void **state) {
    (void)state;
    const stator_picture pictures[2] = {{png, png_bytes}, {other, other_bytes}};
    static const char *const one[] = {"vision.pictures=1", "memory.sequences=2", "server.max_queue=4", NULL};
    stator *s = start(one, 0);
    uint64_t ids[4];
    stator_error e = {0};
    stator_request q = request_of(pictures, 1);
    q.kind = STATOR_GENERATE;
    q.max_new = 3;
    q.ignore_eos = 1;
    for (int i = 0; i < 4; i++)
        assert_int_equal(stator_submit(s, &q, &ids[i], &e), STATOR_OK);
    assert_int_equal(s->run.pictures.places[0].holders, 4);
    stator_request second = q;
    second.pictures = &pictures[1];
    refused(s, &second, STATOR_BUSY, "all 1 places for pictures (vision.pictures) are in use");
    stator_cancel(s, ids[3]);
    for (int left = 4; left > 0;) {
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        assert_int_equal(stator_poll(s, UINT64_MAX, &ev, &have, &e), STATOR_OK);
        left -= have && ev.kind == STATOR_EVENT_DONE;
    }
    assert_int_equal(s->run.pictures.places[0].holders, 0);
    uint64_t id = 0;
    assert_int_equal(stator_submit(s, &second, &id, &e), STATOR_OK);
    stator_close(s);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embeddings),      cmocka_unit_test(test_bits),
        cmocka_unit_test(test_what_is_refused), cmocka_unit_test(test_loaded),
        cmocka_unit_test(test_prefix),          cmocka_unit_test(test_places),
    };
    if (argc > 1) {
        const struct tower_model_pixtral m = pictures_model_tower(BLOCK_F32);
        towers[0] = gguf_writer_new();
        tower_model_write_pixtral(&towers[0], &m, SEED);
        return gguf_writer_finish(&towers[0]) && gguf_writer_save(&towers[0], argv[1]) ? 0 : 1;
    }
    return cmocka_run_group_tests(tests, make_files, drop_files);
}
