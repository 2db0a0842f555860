/* cache.kv_dir: what one engine leaves in files another one goes on from, and every answer has the bytes of a
 * fresh computation: with another split, tier, batch and number of sequences, for models with and without
 * windows and states. Files that are damaged or gone are computed again. The engine's threads allocate
 * nothing. */
#include "interpose.h"
#include "app/selftest/selftest_model.h"
#include "hybrid_model.h"
#include "peer_models.h"
#include "engine/cache/kv_disk.h"
#include "kv_folder.h"
#include "prefix_play.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

static const char *const plain[] = {"server.prefix_cache=false", "memory.context=256", "memory.batch=64",
                                    "cpu.threads=2", NULL};

static int make_folder(void **state) {
    interpose_reset(INTERPOSE_COUNT);
    return kv_folder_make(state);
}

static void assert_sealed(void) {
    if (interpose_violations() > 0) {
        interpose_print();
        fail_msg("%llu allocations by a sealed engine", (unsigned long long)interpose_violations());
    }
}

/* One after the other, in one folder: every further one finds what those before have left. */
static const char *const engines[][6] = {
    {"devices.use=cpu:0", "memory.batch=512", "memory.sequences=3", "server.checkpoints=auto",
     "cpu.tier=auto", "memory.context=256"},
    {"devices.use=cpu:0,cpu:1", "memory.batch=70", "memory.sequences=1", "server.checkpoints=3",
     "cpu.tier=scalar", "memory.context=256"},
    {"devices.use=cpu:0,cpu:1,cpu:2", "memory.batch=33", "memory.sequences=5", "server.checkpoints=20",
     "cpu.tier=avx2", "memory.context=288"},
    {"devices.use=cpu:0", "memory.batch=90", "memory.sequences=1", "server.checkpoints=1", "cpu.tier=auto",
     "memory.context=256"},
};
#define ENGINES (sizeof engines / sizeof engines[0])

static void play_model(const char *what, const char *model, uint32_t rounds, bool checkpoints) {
    for (size_t i = 0; i < ENGINES; i++) {
        const char *const *c = engines[i];
        const char *sets[] = {c[0], c[1], c[2], c[3], c[4], c[5], "cpu.threads=2", kv_folder_set, NULL};
        struct prefix_play p;
        (void)prefix_play(what, model, sets, plain, rounds, &p);
        assert_sealed();
        if (i > 0)
            assert_true(p.stats.kv_hits > 0 && p.stats.kv_tokens >= 32 && p.stats.kv_files_read > 0 &&
                        p.stats.kv_tokens <= p.stats.tokens_cached);
    }
    assert_true(kv_folder_each('k', NULL) > 0);
    assert_int_equal(kv_folder_each('c', NULL) > 0, checkpoints);
}

static void dense(void **state) {
    (void)state;
    play_model("dense", "configs/demo.gguf", 8, false);
}

static void hybrid(void **state) {
    char path[GGUF_WRITER_PATH];
    (void)state;
    struct hybrid_model m = hybrid_model_usual();
    struct gguf_writer w = gguf_writer_new();
    hybrid_model_write(&w, m);
    gguf_writer_finish(&w);
    prefix_play_texts = 3;
    play_model("hybrid", gguf_writer_memory_path(&w, path), 4, true);
    gguf_writer_free(&w);
}

/* Keys and block keys of an indexer, and states of n-grams. */
static void chosen_blocks(void **state) {
    char path[GGUF_WRITER_PATH];
    (void)state;
    struct gguf_writer w = gguf_writer_new();
    peer_model_write(&w, peer_model_named("qwen4exp-odd"), BLOCK_F32);
    gguf_writer_finish(&w);
    prefix_play_texts = 3;
    play_model("qwen4exp-odd", gguf_writer_memory_path(&w, path), 4, true);
    gguf_writer_free(&w);
}

static void convolution_and_window(void **state) {
    char path[GGUF_WRITER_PATH];
    (void)state;
    struct gguf_writer w = gguf_writer_new();
    peer_model_write(&w, peer_model_named("lfm2moe-odd"), BLOCK_F32);
    gguf_writer_finish(&w);
    prefix_play_texts = 3;
    play_model("lfm2moe-odd", gguf_writer_memory_path(&w, path), 4, true);
    gguf_writer_free(&w);
}

/* Windows below, at and above a block; one of a token keeps nothing. */
static void play_window(const char *architecture, uint32_t window) {
    struct selftest_model m = {.architecture = architecture,
                               .type = BLOCK_F16,
                               .n_layers = 7,
                               .n_embd = 64,
                               .n_ff = 96,
                               .n_heads = 2,
                               .n_kv_heads = 1,
                               .head_dim = 32,
                               .vocab = 97,
                               .context = 4096,
                               .window = window,
                               .experts = strcmp(architecture, "gpt-oss") == 0 ? 5 : 0,
                               .used = 2,
                               .seed = 9};
    int fd = -1;
    char path[SELFTEST_MODEL_PATH];
    stator_error e = {0};
    if (selftest_model_make(&m, &fd, path, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    prefix_play_texts = 3;
    play_model(architecture, path, 3, true);
    close(fd);
}

static void window_of_33(void **state) {
    (void)state;
    play_window("gemma3", 33);
}

static void window_of_100(void **state) {
    (void)state;
    play_window("gpt-oss", 100);
}

static void window_of_1(void **state) {
    (void)state;
    play_window("gemma3", 1);
}

/* An answer of the demo to one prompt of `n` tokens. */
static struct prefix_play_request ask(const char *const *sets, uint32_t n, stator_stats *stats) {
    struct prefix_play_request r = {.n_prompt = n, .max_new = 8, .seed = 5};
    uint64_t random = 21;
    for (uint32_t i = 0; i < n; i++)
        r.prompt[i] = (int32_t)testing_below(&random, 2048);
    stator *s = harness_start("configs/demo.gguf", sets);
    prefix_play_submit(s, &r);
    prefix_play_collect(s, &r, 1);
    *stats = (stator_stats){.size = sizeof *stats};
    assert_int_equal(stator_get_stats(s, stats, NULL), STATOR_OK);
    stator_close(s);
    assert_sealed();
    return r;
}

static void assert_same(const struct prefix_play_request *a, const struct prefix_play_request *b) {
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->told, b->told, a->n * sizeof *a->told);
}

/* A split by heads has the files of any other, and so have groups that split by heads. */
static void by_heads(void **state) {
    const char *one[] = {"memory.context=256", "cpu.threads=2", kv_folder_set, NULL};
    const char *heads[] = {"memory.context=256",      "cpu.threads=2",        kv_folder_set,
                           "devices.use=cpu:0,cpu:1", "devices.split=tensor", NULL};
    const char *groups[] = {"memory.context=256",
                            "cpu.threads=2",
                            kv_folder_set,
                            "devices.use=cpu:0,cpu:1,cpu:2,cpu:3",
                            "devices.split=tensor:1,2,3,1",
                            "devices.groups=1,2",
                            NULL};
    stator_stats t;
    (void)state;
    const struct prefix_play_request fresh = ask(plain, 200, &t);
    for (int i = 0; i < 6; i++) {
        if (i == 3)
            (void)kv_folder_each(0, kv_folder_remove_file);
        const struct prefix_play_request r = ask(i == 1 || i == 4 ? one : i < 3 ? heads : groups, 200, &t);
        assert_same(&fresh, &r);
        assert_int_equal(r.n_cached, i % 3 == 0 ? 0 : 192);
    }
}

/* A text is saved while others are generated, and goes on in engines with other shapes. */
static void play_slot(const char *model, uint32_t vocab) {
    const char *first[] = {"memory.context=256",
                           "memory.batch=64",
                           "memory.sequences=2",
                           "cpu.threads=2",
                           kv_folder_set,
                           "server.checkpoints=4",
                           NULL};
    struct prefix_play_request fresh = {.n_prompt = 150, .max_new = 8, .seed = 5}, r, other;
    uint64_t random = 21;
    for (uint32_t i = 0; i < fresh.n_prompt; i++)
        fresh.prompt[i] = (int32_t)testing_below(&random, vocab);
    stator *s = harness_start(model, plain);
    prefix_play_submit(s, &fresh);
    prefix_play_collect(s, &fresh, 1);
    stator_close(s);
    s = harness_start(model, first);
    r = fresh;
    prefix_play_submit(s, &r);
    prefix_play_collect(s, &r, 1);
    assert_same(&fresh, &r);
    other = fresh;
    other.max_new = 90;
    prefix_play_submit(s, &other);
    const stator_event saved = kv_folder_act(s, STATOR_SLOT_SAVE, 0, "text");
    assert_int_equal(saved.n_prompt, 158);
    assert_true(saved.n_cached >= 96 && saved.n_cached <= 128 && saved.n_bytes > 1000);
    stator_cancel(s, other.id);
    stator_close(s);
    assert_sealed();
    for (size_t i = 1; i < ENGINES; i++) {
        const char *const *c = engines[i];
        const char *sets[] = {c[0],          c[1], c[2], "server.checkpoints=3", c[4], c[5], "cpu.threads=2",
                              kv_folder_set, NULL};
        s = harness_start(model, sets);
        const stator_event restored = kv_folder_act(s, STATOR_SLOT_RESTORE, 0, "text");
        assert_int_equal(restored.n_cached, saved.n_cached);
        assert_true(restored.n_bytes > 1000);
        const stator_event again = kv_folder_act(s, STATOR_SLOT_SAVE, 0, "again");
        assert_int_equal(again.n_cached, saved.n_cached);
        r = fresh;
        prefix_play_submit(s, &r);
        prefix_play_collect(s, &r, 1);
        assert_same(&fresh, &r);
        assert_true(r.n_cached >= 96);
        const stator_event erased = kv_folder_act(s, STATOR_SLOT_ERASE, 0, NULL);
        assert_int_equal(erased.n_cached, 158);
        stator_close(s);
        assert_sealed();
    }
}

static void slot_of_dense(void **state) {
    (void)state;
    play_slot("configs/demo.gguf", 2048);
}

static void slot_of_hybrid(void **state) {
    char path[GGUF_WRITER_PATH];
    (void)state;
    struct hybrid_model m = hybrid_model_usual();
    struct gguf_writer w = gguf_writer_new();
    hybrid_model_write(&w, m);
    gguf_writer_finish(&w);
    play_slot(gguf_writer_memory_path(&w, path), m.vocab);
    gguf_writer_free(&w);
}

static void slot_of_windows(void **state) {
    char path[GGUF_WRITER_PATH];
    (void)state;
    const struct peer_model *m = peer_model_named("lfm2moe-odd");
    struct gguf_writer w = gguf_writer_new();
    peer_model_write(&w, m, BLOCK_F32);
    gguf_writer_finish(&w);
    play_slot(gguf_writer_memory_path(&w, path), 64);
    gguf_writer_free(&w);
}

static void flip(const char *path) {
    FILE *f = fopen(path, "r+b");
    assert_true(f != NULL && fseek(f, 3000, SEEK_SET) == 0);
    const int c = fgetc(f);
    assert_true(c != EOF && fseek(f, 3000, SEEK_SET) == 0 && fputc(c ^ 1, f) != EOF && fclose(f) == 0);
}

static void cut(const char *path) {
    assert_int_equal(truncate(path, 500), 0);
}

/* All of a prompt but its last block comes from files, exactly; with damaged files, nothing does. */
static void damaged(void **state) {
    const char *sets[] = {"memory.context=256", "cpu.threads=2", kv_folder_set, NULL};
    void (*const harm[])(const char *path) = {flip, cut, kv_folder_remove_file};
    stator_stats t;
    (void)state;
    const struct prefix_play_request fresh = ask(plain, 200, &t);
    struct prefix_play_request r = ask(sets, 200, &t);
    assert_same(&fresh, &r);
    assert_int_equal(r.n_cached, 0);
    assert_int_equal(kv_folder_each('k', NULL), 6);
    for (size_t i = 0; i < sizeof harm / sizeof *harm; i++) {
        r = ask(sets, 200, &t);
        assert_same(&fresh, &r);
        assert_int_equal(r.n_cached, 192);
        assert_true(t.kv_hits == 1 && t.kv_tokens == 192 && t.kv_files_read == 6 && t.kv_wait_ns > 0);
        assert_true(t.kv_files == 6 && t.kv_bytes_read < t.kv_file_bytes);
        (void)kv_folder_each('k', harm[i]);
        r = ask(sets, 200, &t);
        assert_same(&fresh, &r);
        assert_int_equal(r.n_cached, 0);
        assert_int_equal(t.kv_hits + t.kv_files_read, 0);
    }
    r = ask(sets, 193, &t); /* its last token is computed */
    assert_int_equal(r.n_cached, 192);
    r = ask(sets, 192, &t);
    assert_int_equal(r.n_cached, 160);
}

/* Another KV type, another model and a longer context have files of their own, or the same ones. */
static void foreign(void **state) {
    const char *sets[] = {"memory.context=256", "cpu.threads=2", kv_folder_set, NULL};
    const char *q8[] = {"memory.context=256", "cpu.threads=2", kv_folder_set, "memory.kv_type=q8_0", NULL};
    const char *longer[] = {"memory.context=1024", "cpu.threads=1", kv_folder_set, NULL};
    stator_stats t;
    (void)state;
    (void)ask(sets, 200, &t);
    assert_int_equal(ask(q8, 200, &t).n_cached, 0);
    assert_int_equal(ask(q8, 200, &t).n_cached, 192);
    assert_int_equal(ask(longer, 200, &t).n_cached, 192);
    assert_int_equal(kv_folder_each('k', NULL), 12);
}

/* A second engine reads what the first one, which still runs, has written. */
static void two_engines(void **state) {
    const char *sets[] = {"memory.context=256", "cpu.threads=2", kv_folder_set, NULL};
    stator_stats t;
    (void)state;
    (void)ask(sets, 200, &t);
    stator *first = harness_start("configs/demo.gguf", sets);
    assert_int_equal(ask(sets, 200, &t).n_cached, 192);
    assert_int_equal(t.kv_files, 0);
    assert_int_equal(ask(sets, 100, &t).n_cached, 96);
    stator_close(first);
}

/* A limit of files stands for a full disk: the answers are right, and a line says what happened. */
static void full_disk(void **state) {
    const char *sets[] = {"memory.context=256", "cpu.threads=2", kv_folder_set, NULL};
    struct rlimit old, small;
    stator_stats t;
    (void)state;
    const struct prefix_play_request fresh = ask(plain, 200, &t);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 30000;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (int i = 0; i < 2; i++) {
        const struct prefix_play_request r = ask(sets, 200, &t);
        assert_same(&fresh, &r);
        assert_int_equal(r.n_cached, 0);
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(kv_folder_each('k', NULL), 0);
}

/* A budget of a few blocks: the folder stays within it. */
static void budget(void **state) {
    const char *sets[] = {"memory.context=512", "cpu.threads=2", kv_folder_set, "cache.kv_bytes=1MiB", NULL};
    struct prefix_play p;
    (void)state;
    prefix_play_texts = PREFIX_PLAY_TEXTS;
    for (int i = 0; i < 2; i++)
        (void)prefix_play("budget", "configs/demo.gguf", sets, plain, 20, &p);
    assert_true(p.stats.kv_file_bytes <= 1u << 20 && p.stats.kv_files_written > 0);
    assert_true(kv_folder_each('k', NULL) <= 15);
    assert_sealed();
}

static void rates(void **state) {
    (void)state;
    assert_true(kv_disk_is_worth(1000, 63, 1, 1u << 20)); /* too few files, or tokens, to know */
    assert_true(kv_disk_is_worth(1000000, 64, 1, 2047));
    assert_true(kv_disk_is_worth(64 * 100, 64, 2048 * 100 / 32, 2048)); /* as long as */
    assert_false(kv_disk_is_worth(64 * 101, 64, 2048 * 100 / 32, 2048));
    assert_true(kv_disk_is_worth(64 * 101, 64, 2048 * 200 / 32, 2048));
}

static stator_status refused(const char *const *sets, size_t n, char *text, size_t size) {
    stator_options o = {.size = sizeof o, .config = "configs/demo.gguf", .set = sets, .n_set = n};
    stator *s = NULL;
    stator_error e = {0};
    stator_status st = stator_open(&o, &s, &e);
    if (st == STATOR_OK)
        st = stator_start(s, &e);
    stator_close(s);
    snprintf(text, size, "%s", e.text);
    return st;
}

static void refusals(void **state) {
    char text[512];
    const char *sets[] = {kv_folder_set, "server.prefix_cache=false"};
    (void)state;
    assert_int_equal(refused(sets, 2, text, sizeof text), STATOR_USAGE);
    assert_non_null(strstr(text, "needs server.prefix_cache"));
    assert_int_equal(chmod(kv_folder, 0777), 0);
    assert_int_equal(refused(sets, 1, text, sizeof text), STATOR_FAILED);
    assert_non_null(strstr(text, "other users can write"));
    assert_int_equal(chmod(kv_folder, 0700), 0);
    const char *absent[] = {"cache.kv_dir=/nowhere/at/all"};
    assert_int_equal(refused(absent, 1, text, sizeof text), STATOR_FAILED);
    assert_non_null(strstr(text, "/nowhere/at/all"));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, make_folder, kv_folder_remove)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(damaged),       CASE(by_heads),       CASE(rates),           CASE(foreign),
        CASE(two_engines),   CASE(full_disk),      CASE(refusals),        CASE(dense),
        CASE(budget),        CASE(hybrid),         CASE(chosen_blocks),   CASE(convolution_and_window),
        CASE(slot_of_dense), CASE(slot_of_hybrid), CASE(slot_of_windows), CASE(window_of_33),
        CASE(window_of_1),   CASE(window_of_100),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
