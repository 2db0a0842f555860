/* cache.kv_dir with pictures, for each projector: a prefix with a picture is found again after a restart, by
 * another split and batch, without its tower; never by another picture, tower or size of pictures. All
 * answers have the bytes of a fresh computation. */
#include "engine_harness.h"
#include "pictures_families.h"

#include "engine/engine.h"

#include <dirent.h>
#include <unistd.h>

enum { LEAD = 41, BEHIND = 40, ANSWER = 12 };

static char folder[64];

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/test_pictures_disk.XXXXXX");
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state) {
    char path[400];
    (void)state;
    DIR *d = opendir(folder);
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (e->d_name[0] != '.')
            (void)unlink(path);
    }
    closedir(d);
    return rmdir(folder);
}

static stator *start(const struct pictures_files *p, int tower, bool keeps, const char *const more[2]) {
    char vision[GGUF_WRITER_PATH + 32], kept[sizeof folder + 32];
    snprintf(vision, sizeof vision, "model.vision=%s", p->towers[tower]);
    snprintf(kept, sizeof kept, "cache.kv_dir=%s", keeps ? folder : "");
    const char *const sets[] = {vision,  kept,    "vision.decode=1MiB",  "memory.context=160",
                                more[0], more[1], "memory.staging=1MiB", "server.checkpoints=8",
                                NULL};
    return harness_start(p->text, sets);
}

/* The greedy answer; tokens of the prompt that were not computed. */
static uint32_t answer_of(const struct pictures_files *p, stator *s, int picture, int32_t answer[ANSWER]) {
    int32_t ids[LEAD + 2 + BEHIND];
    size_t n = 0;
    for (int32_t i = 0; i < LEAD; i++)
        ids[n++] = i == 0 ? 1 : 60 + i * 7 % 150;
    ids[n++] = p->marker;
    if (p->family->ends)
        ids[n++] = p->marker + 1;
    for (int32_t i = 0; i < BEHIND; i++)
        ids[n++] = 70 + i;
    const stator_request q = {.size = sizeof q,
                              .kind = STATOR_GENERATE,
                              .tokens = ids,
                              .n_tokens = n,
                              .max_new = ANSWER,
                              .ignore_eos = 1,
                              .sampling = {.has = STATOR_HAS_TEMPERATURE},
                              .pictures = &p->pictures[picture],
                              .n_pictures = 1};
    uint64_t id = 0;
    stator_error e = {0};
    if (stator_submit(s, &q, &id, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    for (n = 0;;) {
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        assert_int_equal(stator_poll(s, UINT64_MAX, &ev, &have, &e), STATOR_OK);
        if (have && ev.kind == STATOR_EVENT_TOKEN)
            answer[n++] = ev.token;
        if (have && ev.kind == STATOR_EVENT_DONE) {
            assert_int_equal(n, ANSWER);
            return ev.n_cached;
        }
    }
}

static uint64_t encoded(const stator *s) {
    stator_vision vision = {.size = sizeof vision};
    assert_int_equal(stator_get_vision(s, &vision, NULL), STATOR_OK);
    return vision.encoded;
}

/* An engine's answer for a picture, and what it found. */
static uint32_t found(const struct pictures_files *p, int tower, bool keeps, int picture,
                      const char *const more[2], int32_t answer[ANSWER], uint64_t *towers_run) {
    stator *s = start(p, tower, keeps, more);
    const uint32_t n = answer_of(p, s, picture, answer);
    *towers_run = encoded(s);
    stator_close(s);
    return n;
}

static void play(const struct pictures_files *p, const char *split) {
    static const char *const usual[2] = {"cpu.threads=2", "memory.batch=64"};
    const char *const other[2] = {split, "memory.batch=33"};
    static const char *const small[2] = {"cpu.threads=2", "vision.max_pixels=300"};
    int32_t fresh[2][ANSWER], kept[ANSWER];
    uint64_t ran = 0;
    for (int i = 0; i < 2; i++)
        assert_int_equal(found(p, 0, false, i, usual, fresh[i], &ran), 0);
    assert_int_equal(found(p, 0, true, 0, usual, kept, &ran), 0);
    assert_int_equal(ran, 1);
    assert_memory_equal(kept, fresh[0], sizeof kept);
    /* Another picture shares what stands before it. */
    assert_true(found(p, 0, true, 1, other, kept, &ran) < LEAD);
    assert_int_equal(ran, 1);
    assert_memory_equal(kept, fresh[1], sizeof kept);
    for (int i = 0; i < 2; i++) {
        assert_true(found(p, 0, true, i, other, kept, &ran) > LEAD + p->family->rows);
        assert_int_equal(ran, 0);
        assert_memory_equal(kept, fresh[i], sizeof kept);
    }
    assert_true(found(p, 1, true, 0, usual, kept, &ran) < LEAD);
    assert_int_equal(ran, 1);
    if (!p->family->ends) /* gemma's pictures have one size */
        assert_true(found(p, 0, true, 0, small, kept, &ran) < LEAD);
}

static void play_family(size_t which, const char *split) {
    struct pictures_files p;
    pictures_files_open(&p, &pictures_families[which]);
    play(&p, split);
    pictures_files_close(&p);
}

static void pixtral(void **state) {
    (void)state;
    play_family(0, "devices.use=cpu:0, cpu:1");
}

static void qwen3vl(void **state) {
    (void)state;
    play_family(1, "devices.use=cpu:0");
}

static void qwen2vl(void **state) {
    (void)state;
    play_family(4, "devices.use=cpu:0, cpu:1");
}

static void gemma3(void **state) {
    (void)state;
    play_family(2, "devices.use=cpu:0, cpu:1");
}

static void gemma4(void **state) {
    (void)state;
    play_family(5, "devices.use=cpu:0, cpu:1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(pixtral, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(qwen3vl, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(qwen2vl, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(gemma3, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(gemma4, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
