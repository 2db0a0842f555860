/* Draft tokens beside pictures: n-grams, a draft model, which sees the pictures' tokens alone, and an MTP
 * head. All answers have the tokens of a run without drafts, on one device and two, whatever the batch. */
#include "engine_harness.h"
#include "pictures_model.h"
#include "pictures_play.h"

enum { SEED = 19, ANSWER = 30, SETS = 5 };

struct answer {
    int32_t tokens[ANSWER];
    uint32_t guessed, kept;
};

struct play {
    int32_t marker;
    bool ends; /* the token behind the marker belongs to it */
    char text[GGUF_WRITER_PATH], tower[GGUF_WRITER_PATH];
    stator_picture pictures[2];
    struct gguf_writer texts, towers;
};

static void open_play(struct play *p, const char *first, const char *second) {
    const char *const paths[] = {first, second};
    assert_true(gguf_writer_finish(&p->texts) && gguf_writer_finish(&p->towers));
    assert_non_null(gguf_writer_memory_path(&p->texts, p->text));
    assert_non_null(gguf_writer_memory_path(&p->towers, p->tower));
    for (int i = 0; i < 2; i++) {
        size_t n = 0;
        p->pictures[i].data = pictures_read(paths[i], &n);
        p->pictures[i].length = n;
    }
}

static void close_play(struct play *p) {
    gguf_writer_free(&p->texts);
    gguf_writer_free(&p->towers);
    for (int i = 0; i < 2; i++)
        free((void *)(uintptr_t)p->pictures[i].data);
}

static struct answer answer_of(const struct play *p, const char *const more[SETS]) {
    char vision[GGUF_WRITER_PATH + 32], model[GGUF_WRITER_PATH + 32];
    const char *sets[HARNESS_SETS] = {vision, "vision.decode=1MiB", "memory.staging=1MiB"};
    struct answer all = {.guessed = 0};
    int32_t ids[8];
    size_t n = 3, taken = 0;
    snprintf(vision, sizeof vision, "model.vision=%s", p->tower);
    snprintf(model, sizeof model, "speculation.model=%s", p->text);
    for (size_t i = 0; i < SETS && more[i] != NULL; i++)
        sets[n++] = strcmp(more[i], "itself") == 0 ? model : more[i];
    stator *s = harness_start(p->text, sets);
    ids[taken++] = 1;
    for (int32_t i = 0; i < 2; i++) {
        ids[taken++] = p->marker;
        if (p->ends)
            ids[taken++] = p->marker + 1;
        ids[taken++] = 70 + i;
    }
    const stator_request q = {.size = sizeof q,
                              .kind = STATOR_GENERATE,
                              .tokens = ids,
                              .n_tokens = taken,
                              .max_new = ANSWER,
                              .ignore_eos = 1,
                              .sampling = {.has = STATOR_HAS_TEMPERATURE},
                              .pictures = p->pictures,
                              .n_pictures = 2};
    uint64_t id = 0;
    stator_error e = {0};
    if (stator_submit(s, &q, &id, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    for (n = 0;;) {
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        assert_int_equal(stator_poll(s, UINT64_MAX, &ev, &have, &e), STATOR_OK);
        if (have && ev.kind == STATOR_EVENT_TOKEN)
            all.tokens[n++] = ev.token;
        if (!have || ev.kind != STATOR_EVENT_DONE)
            continue;
        assert_int_equal(n, ANSWER);
        all.guessed = ev.n_guessed;
        all.kept = ev.n_kept;
        stator_close(s);
        return all;
    }
}

/* ways[0] has no drafts, ways[1] some that are kept; the others have as many of both as ways[1], if `same`.
 */
static void compare(const struct play *p, const char *const (*ways)[SETS], size_t n, bool same) {
    struct answer first = {.guessed = 0}, drafted = first;
    for (size_t i = 0; i < n; i++) {
        const struct answer a = answer_of(p, ways[i]);
        print_message("%s: %u draft tokens, %u kept\n", ways[i][0], a.guessed, a.kept);
        first = i == 0 ? a : first;
        drafted = i == 1 ? a : drafted;
        assert_true((a.guessed > 0) == (i > 0));
        assert_memory_equal(a.tokens, first.tokens, sizeof first.tokens);
        if (i > 0 && same)
            assert_true(a.guessed == drafted.guessed && a.kept == drafted.kept);
    }
    assert_true(drafted.kept > 0);
}

static void pixtral(void **state) {
    (void)state;
    static const char *const ways[][SETS] = {
        {"speculation.mode=off"},
        {"speculation.mode=ngram", "speculation.tokens=4"},
        {"speculation.mode=ngram", "speculation.tokens=6", "memory.batch=9", "cpu.tier=scalar"},
        {"speculation.mode=draft", "itself", "speculation.tokens=4"},
        {"speculation.mode=draft", "itself", "devices.use=cpu:0, cpu:1", "memory.batch=9"}};
    struct play p = {.texts = gguf_writer_new(), .towers = gguf_writer_new()};
    const struct tower_model_pixtral m = pictures_model_tower(BLOCK_F16);
    p.marker = pictures_model_text(&p.texts);
    tower_model_write_pixtral(&p.towers, &m, SEED);
    open_play(&p, "tests/data/pictures/tower.png", "tests/fuzz/corpus_picture_png/rgb.png");
    compare(&p, ways, sizeof ways / sizeof ways[0], false);
    close_play(&p);
}

static void gemma3(void **state) {
    (void)state;
    static const char *const ways[][SETS] = {
        {"speculation.mode=off"},
        {"speculation.mode=draft", "itself", "speculation.tokens=4"},
        {"speculation.mode=ngram", "memory.batch=24", "memory.sequences=4"}};
    struct play p = {.texts = gguf_writer_new(), .towers = gguf_writer_new(), .ends = true};
    const struct tower_model_gemma m = pictures_model_gemma_tower(BLOCK_F32);
    p.marker = pictures_model_gemma_text(&p.texts, SEED, 20);
    tower_model_write_gemma(&p.towers, &m, SEED);
    open_play(&p, "tests/data/pictures/square.png", "tests/data/pictures/square_2.png");
    compare(&p, ways, sizeof ways / sizeof ways[0], false);
    close_play(&p);
}

static void qwen35(void **state) {
    (void)state;
    static const char *const ways[][SETS] = {
        {"speculation.mode=off"},
        {"speculation.mode=mtp", "speculation.tokens=4"},
        {"speculation.mode=mtp", "speculation.tokens=4", "memory.batch=14"},
        {"speculation.mode=mtp", "speculation.tokens=4", "devices.use=cpu:0, cpu:1", "memory.batch=16"},
        {"speculation.mode=mtp", "speculation.tokens=4", "devices.use=cpu:0, cpu:1", "devices.split=tensor"},
        {"speculation.mode=mtp", "devices.groups=2", "devices.use=cpu:0, cpu:1, cpu:2, cpu:3",
         "devices.split=tensor"},
        {"speculation.mode=mtp", "speculation.tokens=4", "cpu.tier=scalar", "memory.sequences=3"}};
    static const char *const drafted[][SETS] = {{"speculation.mode=off"},
                                                {"speculation.mode=draft", "itself", "memory.batch=16"}};
    struct play p = {.texts = gguf_writer_new(), .towers = gguf_writer_new()};
    struct tower_model_qwen m = pictures_model_qwen_tower(BLOCK_F32);
    m.deep = 0;
    p.marker = pictures_model_hybrid_text(&p.texts, SEED, 1);
    tower_model_write_qwen(&p.towers, &m, SEED);
    open_play(&p, "tests/data/pictures/tower.png", "tests/data/pictures/tower_3.png");
    compare(&p, ways, sizeof ways / sizeof ways[0], true);
    compare(&p, drafted, sizeof drafted / sizeof drafted[0], true);
    close_play(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(pixtral), cmocka_unit_test(gemma3),
                                       cmocka_unit_test(qwen35)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
