/* The plan: its arithmetic and JSON, plans of real models against what a start allocates, and the search for
 * what would fit. */
#include "engine_harness.h"
#include "tiny_model.h"

#include "plan/plan.h"

#include <inttypes.h>

#define DEMO      "configs/demo.gguf"
#define JSON_TEXT (128 << 10)

static void arithmetic(void **state) {
    (void)state;
    struct plan p;
    plan_init(&p);
    assert_true(p.fits);
    snprintf(p.hash, sizeof p.hash, "%s", "0123456789abcdef0123456789abcdef");
    struct plan_place *d = plan_add_place(&p, "cpu:0", false, 1000);
    struct plan_arena *a = plan_add_arena(d, "weights", 300, 200);
    plan_add_slice(d, a, 50);
    plan_add_arena(d, "kv", 0, 0);
    struct plan_place *host = plan_add_place(&p, "host", true, UINT64_MAX);
    plan_add_arena(host, "staging", 7, 7);
    assert_int_equal(d->total, 350);
    assert_int_equal(a->bytes, 350);
    assert_int_equal(a->n_slices, 2);
    assert_int_equal(host->total, 7);
    plan_check(&p);
    assert_ptr_equal(plan_find(&p, "host"), host);
    assert_null(plan_find(&p, "hos"));
    assert_ptr_equal(plan_arena_find(d, "weights"), a);
    assert_null(plan_arena_find(host, "weights"));
    plan_add_number(&p, "context", 32);
    plan_add_text(&p, "split", "auto");
    char text[2048];
    struct json j;
    json_to_buffer(&j, text, sizeof text, false);
    plan_to_json(&p, &j, NULL);
    assert_true(json_end(&j));
    assert_string_equal(
        text,
        "{\"format\":1,\"model\":\"\",\"hash\":\"0123456789abcdef0123456789abcdef\",\"fits\":true,\"for\":"
        "\"run\",\"inputs\":"
        "{"
        "\"context\":32,\"split\":\"auto\"},\"devices\":[{\"name\":\"cpu:0\",\"budget\":1000,\"total\":350,"
        "\"layers\":{\"first\":0,\"count\":0},\"weights\":{\"in_file\":0,\"packed\":0,\"padding\":0},"
        "\"kv_bytes_per_token\":0,\"arenas\":[{\"name\":\"weights\",\"bytes\":350,\"lower_bound\":200,"
        "\"slices\":[300,50]},{\"name\":\"kv\",\"bytes\":0,\"lower_bound\":0,\"slices\":[]}]}],"
        "\"host\":{\"name\":\"host\",\"limit\":18446744073709551615,\"total\":7,\"arenas\":[{\"name\":"
        "\"staging\",\"bytes\":7,\"lower_bound\":7,\"slices\":[7]}]},\"kv\":{\"tokens\":0}}");
    p.fits = false;
    p.missing =
        (struct plan_short){.where = "host: kv", .bytes = 5, .largest_context = 32, .largest_batch = 1};
    json_to_buffer(&j, text, sizeof text, false);
    plan_to_json(&p, &j, NULL);
    (void)json_end(&j);
    assert_non_null(strstr(text, "\"fits\":false"));
    assert_non_null(strstr(
        text, "\"short\":{\"where\":\"host: kv\",\"bytes\":5,\"largest_context\":32,\"largest_batch\":1,"
              "\"largest_sequences\":0}"));
}

/* Opens with a NULL-ended list of settings. */
static stator *open_sets(const char *path, const char *const *sets) {
    size_t n = 0;
    while (sets[n] != NULL)
        n++;
    stator_options o = {.size = sizeof o, .config = path, .set = sets, .n_set = n};
    stator *s = NULL;
    stator_error e = {0};
    if (stator_open(&o, &s, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    return s;
}

/* Row by row: nothing allocated before the start, exactly the plan after it, use within it; the plan is the
 * same after. */
static void check_allocated(const char *path, const char *const *sets) {
    stator *s = open_sets(path, sets);
    stator_error e = {0};
    if (stator_plan(s, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    uint64_t planned[16];
    size_t n = 0;
    for (;; n++) {
        stator_memory_row row = {.size = sizeof row};
        int have = 0;
        assert_int_equal(stator_get_memory(s, n, &row, &have, NULL), STATOR_OK);
        if (!have)
            break;
        assert_int_equal(row.allocated, 0);
        assert_int_equal(row.used, 0);
        assert_true(row.lower_bound <= row.planned && row.planned <= row.budget);
        planned[n] = row.planned;
    }
    assert_int_equal(n, 7);
    char before[JSON_TEXT];
    char after[JSON_TEXT];
    size_t length = 0;
    assert_int_equal(stator_plan_json(s, before, sizeof before, &length, NULL), STATOR_OK);
    assert_int_equal(strlen(before), length);
    assert_int_equal(stator_plan_json(s, after, length, &length, NULL),
                     STATOR_USAGE); /* no room for the NUL */
    assert_int_equal(strlen(before), length);
    if (stator_start(s, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    const int32_t ids[] = {0, 1, 2, 3, 4};
    struct harness_text t = {.id = harness_submit(s, ids, 5, 3, 0, 0)};
    harness_collect(s, &t, 1);
    for (size_t i = 0; i < n; i++) {
        stator_memory_row row = {.size = sizeof row};
        int have = 0;
        assert_int_equal(stator_get_memory(s, i, &row, &have, NULL), STATOR_OK);
        assert_int_equal(row.planned, planned[i]);
        assert_int_equal(row.allocated, planned[i]);
        assert_true(row.used > 0 && row.used <= row.allocated);
    }
    assert_int_equal(stator_plan_json(s, after, sizeof after, &length, NULL), STATOR_OK);
    assert_string_equal(before, after);
    stator_close(s);
}

/* Bytes per token and KV head: 2 * 32 values of f32 are 256 bytes. */
static void kv_bytes_per_token(void **state) {
    (void)state;
    static const struct {
        const char *k, *v;
        uint64_t bytes; /* of the demo: 8 layers, 2 heads of 32 */
    } types[] = {{"f32", "f32", 4096},  {"f16", "f16", 2048},  {"q8_0", "q8_0", 1088},
                 {"q4_0", "q4_0", 576}, {"q8_0", "q4_0", 832}, {"f16", "q4_0", 1312}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        char k[32];
        char v[32];
        snprintf(k, sizeof k, "memory.kv_type_k=%s", types[i].k);
        snprintf(v, sizeof v, "memory.kv_type_v=%s", types[i].v);
        stator *s = open_sets(DEMO, (const char *const[]){k, v, NULL});
        assert_int_equal(stator_plan(s, NULL), STATOR_OK);
        static char text[JSON_TEXT];
        size_t length = 0;
        assert_int_equal(stator_plan_json(s, text, sizeof text, &length, NULL), STATOR_OK);
        char expected[64];
        snprintf(expected, sizeof expected, "\"kv_bytes_per_token\": %" PRIu64 ",", types[i].bytes);
        if (strstr(text, expected) == NULL)
            fail_msg("%s, %s: no %s", k, v, expected);
        stator_close(s);
    }
}

static void allocated_is_planned(void **state) {
    (void)state;
    check_allocated(DEMO, (const char *const[]){"memory.context=64", NULL});
    check_allocated(DEMO,
                    (const char *const[]){"memory.context=1", "memory.batch=5", "memory.context=9", NULL});
    check_allocated(DEMO, (const char *const[]){"memory.sequences=17", "memory.batch=33",
                                                "memory.kv_type=f32", "memory.logits_rows=4",
                                                "memory.staging=64KiB", "cpu.threads=3", NULL});
    check_allocated(DEMO, (const char *const[]){"memory.kv_type=q8_0", NULL});
    check_allocated(DEMO, (const char *const[]){"memory.kv_type_k=q8_0", "memory.kv_type_v=q4_0",
                                                "memory.sequences=3", NULL});
    static const char *const archs[] = {"llama", "qwen2", "qwen3"};
    for (int i = 0; i < 3; i++) {
        struct tiny_model m = tiny_model_of(archs[i]);
        struct gguf_writer w = gguf_writer_new();
        tiny_model_write(&w, m);
        gguf_writer_finish(&w);
        char path[GGUF_WRITER_PATH];
        check_allocated(gguf_writer_memory_path(&w, path), (const char *const[]){"memory.batch=7", NULL});
        gguf_writer_free(&w);
    }
}

/* 16 rows of the widest matrix must go through the window. */
static void staging_too_small(void **state) {
    (void)state;
    struct tiny_model m = tiny_model_of("llama");
    m.n_ff = 4000;
    struct gguf_writer w = gguf_writer_new();
    tiny_model_write(&w, m);
    gguf_writer_finish(&w);
    char path[GGUF_WRITER_PATH];
    gguf_writer_memory_path(&w, path);
    const char *sets[] = {"memory.staging=64KiB", NULL};
    stator *s = open_sets(path, sets);
    stator_error e = {0};
    assert_int_equal(stator_plan(s, &e), STATOR_USAGE);
    assert_non_null(strstr(e.text, "memory.staging is 65536 bytes; this model needs at least 128000"));
    char text[64];
    size_t n = 0;
    assert_int_equal(stator_plan_json(s, text, sizeof text, &n, NULL), STATOR_USAGE); /* there is no plan */
    assert_int_equal(stator_start(s, NULL), STATOR_USAGE);
    stator_close(s);
    check_allocated(path, (const char *const[]){"memory.staging=128000", "memory.batch=4", NULL});
    gguf_writer_free(&w);
}

struct sizes {
    unsigned context, batch, sequences;
    unsigned rows; /* 0: auto */
    unsigned limit_kib;
};

static stator_status plan_of(const struct sizes *z, char *json, size_t capacity) {
    char sets[5][64];
    const char *pointers[6] = {sets[0], sets[1], sets[2], sets[3], NULL, NULL};
    snprintf(sets[0], 64, "memory.context=%u", z->context);
    snprintf(sets[1], 64, "memory.batch=%u", z->batch);
    snprintf(sets[2], 64, "memory.sequences=%u", z->sequences);
    snprintf(sets[3], 64, "memory.host_limit=%uKiB", z->limit_kib);
    snprintf(sets[4], 64, "memory.logits_rows=%u", z->rows);
    if (z->rows != 0)
        pointers[4] = sets[4];
    stator *s = open_sets(DEMO, pointers);
    stator_error e = {0};
    stator_status st = stator_plan(s, &e);
    if (st != STATOR_OK && st != STATOR_DOES_NOT_FIT)
        fail_msg("%s", e.text);
    size_t n = 0;
    assert_int_equal(stator_plan_json(s, json, capacity, &n, NULL), STATOR_OK);
    assert_int_equal(strstr(json, "\"fits\": true") != NULL, st == STATOR_OK);
    stator_close(s);
    return st;
}

static unsigned number(const char *json, const char *key) {
    char name[64];
    snprintf(name, sizeof name, "\"%s\": ", key);
    const char *at = strstr(json, name);
    assert_non_null(at);
    return (unsigned)strtoul(at + strlen(name), NULL, 10);
}

static void expect_plan(struct sizes z, bool fits) {
    char json[JSON_TEXT];
    if ((plan_of(&z, json, sizeof json) == STATOR_OK) != fits)
        fail_msg("context %u, batch %u, sequences %u, rows %u, %u KiB: %s", z.context, z.batch, z.sequences,
                 z.rows, z.limit_kib, fits ? "does not fit" : "fits");
}

/* The largest sizes that a refusal names really fit, and the next larger ones do not. */
static void largest(void **state) {
    (void)state;
    uint64_t random = testing_seed("largest");
    int refused = 0;
    int found[3] = {0};
    for (int i = 0; i < 150; i++) {
        struct sizes z = {.context = 1 + (unsigned)testing_below(&random, 1024),
                          .sequences = 1 + (unsigned)testing_below(&random, 40),
                          .limit_kib = 24 << 10};
        z.batch = z.sequences + (unsigned)testing_below(&random, 2000);
        z.limit_kib += (unsigned)testing_below(&random, 60 << 10);
        z.rows = testing_below(&random, 2) ? 0 : 1 + (unsigned)testing_below(&random, z.batch);
        char json[JSON_TEXT];
        if (plan_of(&z, json, sizeof json) == STATOR_OK)
            continue;
        refused++;
        struct sizes with = z;
        unsigned best = number(json, "largest_context");
        assert_true(best < z.context || best % 32 == 0);
        found[0] += best > 0;
        with.context = best;
        if (best > 0)
            expect_plan(with, true);
        with.context = best + 32;
        if (with.context <= 1024)
            expect_plan(with, false);
        with = z;
        with.batch = best = number(json, "largest_batch");
        found[1] += best > 0;
        if (best > 0)
            expect_plan(with, true);
        with.batch = best > 0               ? best + 1
                     : z.rows > z.sequences ? z.rows
                                            : z.sequences; /* below no config is valid */
        expect_plan(with, false);
        with = z;
        with.sequences = best = number(json, "largest_sequences");
        found[2] += best > 0;
        if (best > 0)
            expect_plan(with, true);
        with.sequences = best + 1;
        expect_plan(with, false);
    }
    print_message("%d plans refused; a smaller context would do for %d, batch for %d, sequences for %d\n",
                  refused, found[0], found[1], found[2]);
    assert_true(refused > 10 && found[0] > 0 && found[1] > 0 && found[2] > 0);
}

/* More of anything never needs less memory. */
static void monotone(void **state) {
    (void)state;
    char json[JSON_TEXT];
    unsigned before = 0;
    for (unsigned i = 1; i <= 16; i++) {
        struct sizes z = {.context = 64 * i, .batch = 8 * i, .sequences = i, .rows = 0, .limit_kib = 1 << 20};
        assert_int_equal(plan_of(&z, json, sizeof json), STATOR_OK);
        const char *host = strstr(json, "\"host\"");
        assert_non_null(host);
        unsigned total = number(host, "total");
        assert_true(total > before);
        before = total;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(arithmetic),
                                       cmocka_unit_test(kv_bytes_per_token),
                                       cmocka_unit_test(allocated_is_planned),
                                       cmocka_unit_test(staging_too_small),
                                       cmocka_unit_test(largest),
                                       cmocka_unit_test(monotone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
