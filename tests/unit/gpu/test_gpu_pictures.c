/* Pictures with the GPU kernels, run by the software driver: the tower on a GPU, the text model's first
 * layers on a GPU, both, and the text model by tensor on two, give the CPU's bits for every token of the
 * prompt. vision.device = "auto" takes the GPU, or says why it does not. */
#include "engine_harness.h"
#include "pictures_families.h"

#include "engine/engine.h"

#undef CHECK /* the children have one of their own */
#include "zesim.h"
#ifndef ZESIM_ABSENT

#define SMALL "slices=1,subslices=1,eus=8,threads=8"

enum { SETS = 4 };

/* Of the next child. */
static struct pictures_files files;
static const char *const *way;
static const char *where; /* the tower's place */
static int tower;
static const char *kv = "memory.kv_type=f16";

static stator *start(const char *const more[SETS]) {
    char vision[GGUF_WRITER_PATH + 32];
    const char *sets[HARNESS_SETS] = {
        vision, "vision.decode=1MiB", "memory.staging=1MiB", "memory.driver_reserve=1MiB", "cpu.threads=2",
        kv};
    size_t n = 6;
    snprintf(vision, sizeof vision, "model.vision=%s", files.towers[tower]);
    for (size_t i = 0; i < SETS && more[i] != NULL; i++)
        sets[n++] = more[i];
    return harness_start(files.text, sets);
}

/* Two pictures between words. */
static float *rows_of(stator *s, size_t *floats) {
    int32_t ids[16];
    size_t n = 0;
    ids[n++] = 1;
    for (int32_t i = 0; i < 2; i++) {
        ids[n++] = 70 + i;
        ids[n++] = files.marker;
        if (files.family->ends)
            ids[n++] = files.marker + 1;
    }
    ids[n++] = 99;
    const stator_request q = {.size = sizeof q,
                              .kind = STATOR_LOGITS,
                              .tokens = ids,
                              .n_tokens = n,
                              .pictures = files.pictures,
                              .n_pictures = 2};
    const size_t tokens = n + 2 * (files.family->rows - 1);
    *floats = tokens * harness_vocab(s);
    return harness_rows(s, &q, tokens);
}

static void same(void) {
    static const char *const cpu[SETS] = {"devices.use=cpu:0", "vision.device=cpu"};
    size_t floats = 0;
    stator *s = start(cpu);
    float *expected = rows_of(s, &floats);
    stator_close(s);
    s = start(way);
    CHECK(strcmp(s->planning.devices[planning_vision_at(&s->planning)].facts.name, where) == 0);
    float *rows = rows_of(s, &floats);
    CHECK(memcmp(rows, expected, floats * sizeof *rows) == 0);
    float *again = rows_of(s, &floats); /* the pictures' rows are there */
    CHECK(memcmp(again, expected, floats * sizeof *rows) == 0);
    stator_close(s);
    free(again);
    free(rows);
    free(expected);
    CHECK(zesim_counter("violations") == 0);
}

static void play_family(const struct pictures_family *family, const char *const (*ways)[SETS],
                        const char *const *places, size_t n) {
    pictures_files_open(&files, family);
    for (size_t i = 0; i < n; i++) {
        print_message("%s: %s, %s\n", files.family->name, ways[i][0], ways[i][1]);
        way = ways[i];
        where = places[i];
        tower = i % 2;
        zesim_run("devices=2," SMALL, same);
    }
    pictures_files_close(&files);
}

static void play(size_t family, const char *const (*ways)[SETS], const char *const *places, size_t n) {
    play_family(&pictures_families[family], ways, places, n);
}

static void gpus(void **state) {
    static const char *const ways[][SETS] = {
        {"devices.use=level_zero:0", "vision.device=auto"},
        {"devices.use=cpu:0", "vision.device=level_zero:0", "memory.batch=7"},
        {"devices.use=level_zero:0", "vision.device=level_zero:1", "memory.batch=9"},
        {"devices.use=level_zero:0", "vision.device=cpu", "memory.batch=16"},
        {"devices.use=\"level_zero:0, level_zero:1\"", "vision.device=auto", "memory.batch=9",
         "devices.split=tensor"}};
    static const char *const places[] = {"vision/level_zero:0", "vision/level_zero:0", "vision/level_zero:1",
                                         "vision/cpu:0", "vision/level_zero:0"};
    (void)state;
    ZESIM_NEED();
    play(0, ways, places, 5);
    play(1, ways, places, 5);
    play(3, ways, places, 2);
    play(4, ways, places, 4);
    play(3, ways + 4, places + 4, 1);
}

/* Heads of 32, which the product makes as attention takes them. */
static void whole_heads(struct gguf_writer *w, uint32_t type) {
    struct tower_model_gemma4 m = pictures_model_gemma4_tower(type);
    m.width = 64;
    m.scaled = false;
    tower_model_write_gemma4(w, &m, PICTURES_SEED);
}

static int32_t long_text(struct gguf_writer *w) {
    return pictures_model_gemma_long(w, PICTURES_SEED, 300, 640);
}

/* 256 tokens a picture: the second one lies in two splits of attention. */
static void fine_tower(struct gguf_writer *w, uint32_t type) {
    struct tower_model_gemma m = pictures_model_gemma_tower(type);
    m.image_size = 48;
    m.merge = 1;
    m.layers = 1;
    tower_model_write_gemma(w, &m, PICTURES_SEED);
}

/* A picture's tokens see each other. */
static void gemma(void **state) {
    static const char *const ways[][SETS] = {
        {"devices.use=cpu:0", "vision.device=level_zero:0"},
        {"devices.use=level_zero:0", "vision.device=level_zero:1"},
        {"devices.use=level_zero:0", "vision.device=cpu", "memory.batch=20"},
        {"devices.use=\"level_zero:0, level_zero:1\"", "vision.device=auto"},
        {"devices.use=\"level_zero:0, level_zero:1\"", "vision.device=auto", "devices.split=tensor"}};
    static const char *const places[] = {"vision/level_zero:0", "vision/level_zero:1", "vision/cpu:0",
                                         "vision/level_zero:0", "vision/level_zero:0"};
    (void)state;
    ZESIM_NEED();
    play(2, ways, places, 5);
    play(5, ways, places, 5);
    kv = "memory.kv_type=q8_0";
    play(2, ways + 1, places + 1, 1);
    kv = "memory.kv_type=f32";
    play(5, ways + 1, places + 1, 1);
    struct pictures_family fine = pictures_families[2];
    fine.text = long_text;
    fine.tower = fine_tower;
    fine.rows = 257;
    for (int i = 0; i < 2; i++) {
        kv = i == 0 ? "memory.kv_type=q4_0" : "memory.kv_type=f16";
        play_family(&fine, ways + 1, places + 1, 1);
    }
    struct pictures_family whole = pictures_families[5];
    whole.tower = whole_heads;
    play_family(&whole, ways, places, 2);
}

/* What the GPU does for a text without pictures. */
struct work {
    uint64_t copied, launched;
};

static struct work work_for_text(stator *s) {
    static const int32_t words[] = {1, 70, 71, 72, 73, 99};
    free(harness_logits(s, words, sizeof words / sizeof words[0]));
    assert_int_equal(stator_stop(s, NULL), STATOR_OK);
    const struct work w = {atomic_load(&s->devices[0].copied_bytes),
                           atomic_load(&s->devices[0].kernels_executed)};
    stator_close(s);
    return w;
}

static void less_work(void) {
    static const char *const with[SETS] = {"devices.use=level_zero:0", "vision.device=cpu"};
    static const char *const without[] = {"memory.staging=1MiB", "memory.driver_reserve=1MiB",
                                          "devices.use=level_zero:0", "cpu.threads=2", NULL};
    const struct work a = work_for_text(harness_start(files.text, without)), b = work_for_text(start(with));
    CHECK(a.copied > 0 && a.copied == b.copied);
    /* Attention that sees pictures whole has a second launch. */
    CHECK(a.launched > 0 && (files.family->ends ? a.launched < b.launched : a.launched == b.launched));
}

/* Rows of pictures are copied in the steps that have their tokens alone, and launches for pictures are there
 * with a tower alone. */
static void text_alone(void **state) {
    (void)state;
    ZESIM_NEED();
    tower = 0;
    for (int i = 0; i < 3; i += 2) { /* pixtral, gemma3 */
        pictures_files_open(&files, &pictures_families[i]);
        zesim_run("devices=1," SMALL, less_work);
        pictures_files_close(&files);
    }
}

static void large_tower(struct gguf_writer *w, uint32_t type) {
    struct tower_model_qwen m = pictures_model_windowed_tower(type);
    m.min_pixels = 2300;
    tower_model_write_qwen(w, &m, PICTURES_SEED);
}

/* 22 x 14 patches, more than a split of attention, in windows of 4 x 4. */
static void many_windows(void **state) {
    static const char *const ways[][SETS] = {{"devices.use=cpu:0", "vision.device=level_zero:0"},
                                             {"devices.use=level_zero:0", "vision.device=auto"}};
    static const char *const places[] = {"vision/level_zero:0", "vision/level_zero:0"};
    struct pictures_family large = pictures_families[4];
    (void)state;
    ZESIM_NEED();
    large.tower = large_tower;
    large.rows = 11 * 7;
    play_family(&large, ways, places, 2);
}

/* A GPU that has room for the text model alone. */
static void small(void) {
    static const char *const sets[SETS] = {"devices.use=level_zero:0", "vision.device=auto"};
    size_t floats = 0;
    stator *s = start(sets);
    CHECK(strcmp(s->planning.devices[planning_vision_at(&s->planning)].facts.name, "vision/cpu:0") == 0);
    CHECK(strstr(s->planning.why_vision_cpu, "level_zero:0 does not take it") != NULL);
    free(rows_of(s, &floats));
    stator_close(s);
}

static void no_room(void **state) {
    (void)state;
    ZESIM_NEED();
    tower = 0;
    pictures_files_open(&files, &pictures_families[0]);
    zesim_run("devices=1,memory=2048KiB," SMALL, small);
    pictures_files_close(&files);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(gpus), cmocka_unit_test(gemma),
                                       cmocka_unit_test(many_windows), cmocka_unit_test(no_room),
                                       cmocka_unit_test(text_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
