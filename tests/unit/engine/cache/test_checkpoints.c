/* Prefixes of models with windows and recurrent states are not computed again, through checkpoints: the bytes
 * of every answer are those of a fresh computation. Few plays, as they compute: who takes what when is played
 * at length in test_prefix_model.c. */
#include "hybrid_model.h"
#include "window_model.h"
#include "peer_models.h"
#include "prefix_play.h"

static const char *const plain[] = {"server.prefix_cache=false", "memory.context=256", "memory.batch=64",
                                    "cpu.threads=2", NULL};

static stator_stats stats_of(stator *s) {
    stator_stats t = {.size = sizeof t};
    assert_int_equal(stator_get_stats(s, &t, NULL), STATOR_OK);
    return t;
}

/* Few and many checkpoints, split devices, chunks that are no whole blocks. */
static void play_model(const char *what, const char *model, uint32_t rounds) {
    prefix_play_texts = 3;
    static const char *const cases[][4] = {
        {"devices.use=cpu:0", "memory.batch=512", "memory.sequences=3", "server.checkpoints=auto"},
        {"devices.use=cpu:0", "memory.batch=40", "memory.sequences=4", "server.checkpoints=1"},
        {"devices.use=cpu:0", "memory.batch=70", "memory.sequences=1", "server.checkpoints=3"},
        {"devices.use=cpu:0,cpu:1", "memory.batch=90", "memory.sequences=3", "server.checkpoints=5"},
        {"devices.use=cpu:0,cpu:1,cpu:2", "memory.batch=33", "memory.sequences=5", "server.checkpoints=20"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *sets[] = {cases[i][0],          cases[i][1],     cases[i][2], cases[i][3],
                              "memory.context=256", "cpu.threads=2", NULL};
        struct prefix_play p;
        uint64_t cached = prefix_play(what, model, sets, plain, rounds, &p);
        assert_true(cached > 0 && p.stats.prefix_hits > 0);
        assert_true(p.stats.checkpoints_taken > 0 && p.stats.checkpoints_resumed >= p.stats.prefix_hits);
        assert_true(p.stats.checkpoints > 0 && p.stats.checkpoints_used <= p.stats.checkpoints);
    }
}

static struct gguf_writer hybrid(uint32_t interval, uint32_t blocks, char path[GGUF_WRITER_PATH]) {
    struct hybrid_model m = hybrid_model_usual();
    m.interval = interval;
    m.blocks = blocks;
    return hybrid_model_in_memory(m, path);
}

static void hybrids(void **state) {
    (void)state;
    char path[GGUF_WRITER_PATH];
    struct gguf_writer w = hybrid(4, 4, path);
    play_model("hybrid", path, 12);
    gguf_writer_free(&w);
}

/* Products of few tokens, one with a window beside them; and delta nets beside several streams. */
static void peers(void **state) {
    (void)state;
    static const char *const names[] = {"lfm2moe-odd", "lfm2-wide", "qwen4exp-odd"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct gguf_writer w = gguf_writer_new();
        char path[GGUF_WRITER_PATH];
        peer_model_write(&w, peer_model_named(names[i]), BLOCK_F32);
        gguf_writer_finish(&w);
        play_model(names[i], gguf_writer_memory_path(&w, path), 6);
        gguf_writer_free(&w);
    }
}

/* Windows below, at and above a block, and one that is longer than most texts. */
static void windows(void **state) {
    (void)state;
    static const struct {
        const char *architecture;
        uint32_t window;
    } cases[] = {{"gemma3", 33}, {"gpt-oss", 32}, {"gemma3", 1}, {"gpt-oss", 200}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char path[SELFTEST_MODEL_PATH];
        const int fd = window_model_make(cases[i].architecture, 4096, cases[i].window, path);
        play_model(cases[i].architecture, path, 8);
        close(fd);
    }
}

static void fill(struct prefix_play_request *r, uint32_t from, uint32_t n, uint64_t seed) {
    for (uint32_t i = from; i < n; i++)
        r->prompt[i] = (int32_t)testing_below(&seed, 96);
    r->n_prompt = n;
}

/* The same prompt at once: one computes it, the others wait for its checkpoint and go on from there. */
static void answers(void **state) {
    (void)state;
    static const char *const cases[][2] = {{"devices.use=cpu:0", "memory.batch=512"},
                                           {"devices.use=cpu:0", "memory.batch=50"},
                                           {"devices.use=cpu:0,cpu:1", "memory.batch=64"}};
    char path[GGUF_WRITER_PATH];
    struct gguf_writer w = hybrid(4, 4, path);
    struct prefix_play_request *r = calloc(4, sizeof *r);
    assert_non_null(r);
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        const char *sets[] = {cases[c][0],          cases[c][1],     "memory.context=256",
                              "memory.sequences=4", "cpu.threads=2", NULL};
        stator *s = harness_start(path, sets);
        for (uint32_t i = 0; i < 4; i++) {
            memset(&r[i], 0, sizeof r[i]);
            fill(&r[i], 0, 150, 3);
            r[i].max_new = 5;
            r[i].seed = i;
            prefix_play_submit(s, &r[i]);
        }
        prefix_play_collect(s, r, 4);
        uint32_t cached = 0;
        for (uint32_t i = 0; i < 4; i++)
            cached += r[i].n_cached;
        assert_int_equal(cached, 3 * 128);
        assert_int_equal(stats_of(s).tokens_in, 4 * 150 - cached);
        assert_int_equal(stats_of(s).checkpoints_taken, 1);
        stator_close(s);
    }
    free(r);
    gguf_writer_free(&w);
}

/* A second turn goes on in the first one's answer, one with another answer at the prompt's end; the third
 * with a system prompt goes on behind that; who is first cancelled while others wait holds up nobody. */
static void turns(void **state) {
    (void)state;
    char path[GGUF_WRITER_PATH];
    struct gguf_writer w = hybrid(4, 4, path);
    const char *sets[] = {"memory.context=256", "memory.batch=64",      "cpu.threads=2",
                          "memory.sequences=2", "server.checkpoints=8", NULL};
    stator *s = harness_start(path, sets);
    struct prefix_play_request *r = calloc(4, sizeof *r);
    assert_non_null(r);
    fill(&r[0], 0, 110, 3);
    r[0].max_new = 60;
    prefix_play_submit(s, &r[0]);
    prefix_play_collect(s, &r[0], 1);
    assert_int_equal(r[0].n_cached, 0);
    assert_int_equal(stats_of(s).checkpoints_used, 2);
    r[1] = r[0];
    for (uint32_t i = 0; i < 60; i++)
        r[1].prompt[110 + i] = r[0].told[i].token;
    fill(&r[1], 170, 190, 4);
    r[1].max_new = 2;
    prefix_play_submit(s, &r[1]);
    prefix_play_collect(s, &r[1], 1);
    assert_int_equal(r[1].n_cached, 160);
    r[2] = r[1];
    fill(&r[2], 115, 150, 5);
    prefix_play_submit(s, &r[2]);
    prefix_play_collect(s, &r[2], 1);
    assert_int_equal(r[2].n_cached, 96);
    for (uint32_t i = 0; i < 3; i++) { /* of the second it is known where it parts */
        fill(&r[i], 0, 80, 77);
        fill(&r[i], 80, 120, 100 + i);
        r[i].max_new = 1;
        prefix_play_submit(s, &r[i]);
        prefix_play_collect(s, &r[i], 1);
        assert_int_equal(r[i].n_cached, i == 2 ? 64 : 0);
    }
    for (uint32_t i = 0; i < 2; i++) {
        fill(&r[i], 0, 200, 55);
        prefix_play_submit(s, &r[i]);
    }
    stator_cancel(s, r[0].id);
    prefix_play_collect(s, r, 2);
    assert_int_equal(r[1].n, 1);
    stator_close(s);
    free(r);
    gguf_writer_free(&w);
}

/* What the plan says of them: bytes for each, none where they are of no use. */
static void planned(void **state) {
    (void)state;
    static const struct {
        uint32_t interval;
        const char *set;
        uint32_t expected;
    } cases[] = {{4, "server.checkpoints=auto", 4},   {4, "server.checkpoints=7", 7},
                 {4, "server.checkpoints=0", 0},      {1, "server.checkpoints=7", 0},
                 {4, "server.prefix_cache=false", 0}, {5, "server.checkpoints=auto", 4}};
    uint64_t kv[sizeof cases / sizeof cases[0]] = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char path[GGUF_WRITER_PATH];
        struct gguf_writer w = hybrid(cases[i].interval, 4, path);
        const char *sets[] = {"memory.context=256", "cpu.threads=2", cases[i].set, NULL};
        stator *s = harness_start(path, sets);
        assert_int_equal(stats_of(s).checkpoints, cases[i].expected);
        stator_memory_row row = {.size = sizeof row};
        int have = 0;
        for (size_t k = 0; strcmp(row.arena, "kv") != 0; k++)
            assert_int_equal(stator_get_memory(s, k, &row, &have, NULL), STATOR_OK);
        kv[i] = row.planned;
        stator_close(s);
        gguf_writer_free(&w);
    }
    /* Who has requests with nothing in common has none, unless told so. */
    for (uint32_t said = 0; said <= 5; said += 5) {
        char path[GGUF_WRITER_PATH];
        struct gguf_writer w = hybrid(4, 4, path);
        const char *sets[] = {"memory.context=256",
                              said == 0 ? "server.checkpoints=auto" : "server.checkpoints=5"};
        stator_options o = {.size = sizeof o, .config = path, .set = sets, .n_set = 2};
        stator *s = NULL;
        assert_int_equal(stator_open(&o, &s, NULL), STATOR_OK);
        assert_int_equal(stator_start(s, NULL), STATOR_OK);
        assert_int_equal(stats_of(s).checkpoints, said);
        stator_close(s);
        gguf_writer_free(&w);
    }
    /* Of 3 layers: states of 4 heads of 32 x 32, and 3 rows of 256 values before. */
    const uint64_t one = 3 * (4 * 32 * 32 + 3 * 256) * sizeof(float);
    assert_in_range(kv[0] - kv[2], 4 * one - 4096, 4 * one + 4096); /* slices are whole pages */
    assert_in_range(kv[1] - kv[2], 7 * one - 4096, 7 * one + 4096);
    assert_int_equal(kv[4], kv[2]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(planned), cmocka_unit_test(turns),
                                       cmocka_unit_test(answers), cmocka_unit_test(hybrids),
                                       cmocka_unit_test(peers),   cmocka_unit_test(windows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
