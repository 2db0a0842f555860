/* The plan as a product: splits, devices of another machine, blocks, hashes, what would fit, the diff's
 * reader. */
#include "testing.h"

#include "app/plan/plan_parts.h"
#include "base/json_reader.h"
#include "plan/parts/device_spec.h"
#include "engine/engine.h"
#include "plan/parts/layer_split.h"
#include "engine/plan_view.h"

#include <inttypes.h>

#define DEMO     "configs/demo.cfg"
#define HOST     "memory.host_limit=1GiB"
#define MAX_SET  8
#define MAX_TEXT (4u << 20)

static stator_status open_with(stator **s, const char *config, const char *const *set, size_t n_set,
                               const char *const *devices, size_t n_devices, stator_error *e) {
    const char *all[MAX_SET] = {HOST};
    assert_true(n_set + 1 <= MAX_SET);
    for (size_t i = 0; i < n_set; i++)
        all[i + 1] = set[i];
    stator_options o = {.size = sizeof o,
                        .config = config,
                        .set = all,
                        .n_set = n_set + 1,
                        .devices = devices,
                        .n_devices = n_devices};
    return stator_open(&o, s, e);
}

/* Plans; *fits and the hash come back, the engine is closed. */
static stator_status plan_of(const char *const *set, size_t n_set, const char *const *devices,
                             size_t n_devices, char hash[HASH_TEXT]) {
    stator *s = NULL;
    stator_error e;
    stator_status st = open_with(&s, DEMO, set, n_set, devices, n_devices, &e);
    if (st != STATOR_OK)
        fail_msg("%s", e.text);
    st = stator_plan(s, &e);
    if (hash != NULL)
        snprintf(hash, HASH_TEXT, "%s", plan_view(s)->hash);
    stator_close(s);
    return st;
}

/* The worst cost of a split by the definition in layer_split.h: overloads are worse than all times. */
static double worst(const struct layer_split_device *d, uint32_t n, const uint64_t *layers,
                    const uint32_t *ends, bool *over) {
    double most = 0;
    double most_over = 0;
    uint32_t begin = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t sum = d[i].output;
        for (uint32_t l = begin; l < ends[i]; l++)
            sum += layers[l];
        begin = ends[i];
        if (sum + d[i].held > d[i].budget)
            most_over = ARITH_MAX(most_over, (double)(sum + d[i].held) / (double)d[i].budget);
        else
            most = ARITH_MAX(most, (double)sum / (double)d[i].speed);
    }
    *over = most_over > 0;
    return *over ? most_over : most;
}

/* All splits of n_layers among n, by counting through the ends. */
static double best_by_force(const struct layer_split_device *d, uint32_t n, const uint64_t *layers,
                            uint32_t n_layers, bool *over) {
    uint32_t ends[4];
    double best = 0;
    bool have = false;
    *over = true;
    for (uint32_t a = 1; a <= n_layers; a++) {
        for (uint32_t b = n > 2 ? a + 1 : n_layers; b <= n_layers; b++) {
            ends[0] = n == 1 ? n_layers : a;
            ends[1] = n == 2 ? n_layers : b;
            ends[2] = n_layers;
            bool this_over = false;
            if ((n == 1 && a > 1) || (n > 1 && a == n_layers) || (n > 2 && b == n_layers))
                continue;
            double w = worst(d, n, layers, ends, &this_over);
            if (!have || (*over && !this_over) || (*over == this_over && w < best)) {
                best = w;
                *over = this_over;
                have = true;
            }
        }
    }
    assert_true(have);
    return best;
}

static void test_split_is_the_best(void **state) {
    (void)state;
    uint64_t seed = testing_seed("split");
    uint32_t overs = 0;
    for (int round = 0; round < 3000; round++) {
        struct layer_split_device d[3];
        uint64_t layers[10];
        uint32_t ends[3];
        uint32_t n = 1 + (uint32_t)testing_below(&seed, 3);
        uint32_t n_layers = n + (uint32_t)testing_below(&seed, 8);
        for (uint32_t i = 0; i < n_layers; i++)
            layers[i] = 1 + testing_below(&seed, 1000);
        for (uint32_t i = 0; i < n; i++)
            d[i] = (struct layer_split_device){.budget = 1 + testing_below(&seed, 6000),
                                               .speed = 1 + testing_below(&seed, 50),
                                               .held = i == 0 ? testing_below(&seed, 500) : 0,
                                               .output = i + 1 == n ? testing_below(&seed, 500) : 0};
        bool fit = layer_split_auto(d, n, layers, n_layers, ends);
        for (uint32_t i = 0; i < n; i++)
            assert_true(ends[i] > (i > 0 ? ends[i - 1] : 0));
        assert_int_equal(ends[n - 1], n_layers);
        bool over = false;
        bool best_over = false;
        double mine = worst(d, n, layers, ends, &over);
        double best = best_by_force(d, n, layers, n_layers, &best_over);
        assert_int_equal(over, best_over);
        assert_int_equal(fit, !over);
        /* Overloads are counted in 1/65536. */
        assert_true(mine <= best * (over ? 1.0001 : 1.000001) + (over ? 1.0 / 32768 : 0));
        overs += over;
    }
    assert_in_range(overs, 100, 2900);
}

static void test_split_by_shares(void **state) {
    (void)state;
    uint32_t ends[3];
    layer_split_shares((const uint32_t[]){3, 1}, 2, 80, ends);
    assert_int_equal(ends[0], 60);
    assert_int_equal(ends[1], 80);
    layer_split_shares((const uint32_t[]){13, 2, 1}, 3, 16, ends); /* counts */
    assert_int_equal(ends[0], 13);
    assert_int_equal(ends[1], 15);
    layer_split_shares((const uint32_t[]){999999, 1, 1}, 3, 4, ends); /* everybody gets one */
    assert_int_equal(ends[0], 2);
    assert_int_equal(ends[1], 3);
    assert_int_equal(ends[2], 4);
    layer_split_shares((const uint32_t[]){1, 1, 999999}, 3, 4, ends);
    assert_int_equal(ends[0], 1);
    assert_int_equal(ends[1], 2);
    /* Layers from 5 on together. */
    layer_split_shares((const uint32_t[]){8, 1, 1}, 3, 10, ends);
    layer_split_join(ends, 3, 5);
    assert_int_equal(ends[0], 4);
    assert_int_equal(ends[1], 5);
    assert_int_equal(ends[2], 10);
    layer_split_shares((const uint32_t[]){2, 2, 6}, 3, 10, ends);
    layer_split_join(ends, 3, 5);
    assert_int_equal(ends[0], 2);
    assert_int_equal(ends[1], 4);
}

static void test_device_texts(void **state) {
    (void)state;
    struct device_facts f;
    stator_error e;
    assert_int_equal(device_spec_parse("gpu0=24GiB,max_alloc=19GiB,bandwidth=456GB/s", "--device", &f, &e),
                     STATOR_OK);
    assert_string_equal(f.name, "gpu0");
    assert_string_equal(f.kind, "gpu");
    assert_int_equal(f.memory, 24ull << 30);
    assert_int_equal(f.max_alloc, 19ull << 30);
    assert_int_equal(f.bandwidth, 456000000000ull);
    assert_false(f.host_memory);
    assert_int_equal(device_spec_parse("level_zero:1=16GB", "--device", &f, &e), STATOR_OK);
    assert_int_equal(f.max_alloc, 0);
    assert_int_equal(device_spec_parse("cpu:0=64GiB", "--device", &f, &e), STATOR_OK);
    assert_true(f.host_memory);
    static const char *const wrong[] = {"",
                                        "gpu0",
                                        "gpu0=",
                                        "=24GiB",
                                        "gpu0=24GiB,",
                                        "gpu0=x",
                                        "GPU=24GiB",
                                        "gpu0=-1",
                                        "gpu0=1",
                                        "gpu0=24GiB,a=1",
                                        "gpu0=24GiB,max_alloc=",
                                        "gpu0=1e30",
                                        "g.0=24GiB",
                                        "gpu0=24GiB/s",
                                        "gpu0=24GiB,max_alloc=1GiB,max_alloc=2GiB",
                                        "gpu0=24GiB,bandwidth=/s",
                                        "a_name_that_is_longer_than_thirty_one=24GiB"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        if (device_spec_parse(wrong[i], "--device", &f, &e) != STATOR_USAGE)
            fail_msg("accepted: %s", wrong[i]);
        assert_non_null(strstr(e.text, "NAME=SIZE"));
    }
    char long_text[400] = "gpu0=24GiB,bandwidth=";
    for (size_t i = strlen(long_text); i + 1 < sizeof long_text; i++)
        long_text[i] = '1';
    assert_int_equal(device_spec_parse(long_text, "--device", &f, &e), STATOR_USAGE);
}

struct seen {
    char text[2000];
};

static bool note(void *context, const struct json_value *v) {
    struct seen *s = context;
    size_t n = strlen(s->text);
    char number[24] = "";
    if (v->is_u64)
        snprintf(number, sizeof number, "%" PRIu64, v->number);
    snprintf(s->text + n, sizeof s->text - n, "%s=%d:%s%s;", v->path, (int)v->kind,
             v->kind == JSON_READER_BOOL ? v->truth ? "yes" : "no" : number, v->text);
    return strcmp(v->path, "stop") != 0;
}

static stator_status read_text(const char *text, struct seen *s) {
    stator_error e;
    s->text[0] = '\0';
    _Alignas(16) static unsigned char memory[1 << 16];
    stator_status st = json_reader_walk(text, strlen(text), memory, sizeof memory, note, s, &e);
    if (st != STATOR_OK)
        assert_int_not_equal(strlen(e.text), 0);
    return st;
}

static void test_json_reader(void **state) {
    (void)state;
    struct seen s;
    assert_int_equal(read_text(" {\"a\": [1, -2.5e3, {\"b\":\"x\\n\\u00e9\\ud83d\\ude00\"}], "
                               "\"c\":{}, \"d\":[], \"e\":true, \"f\":null, \"g\":false} ",
                               &s),
                     STATOR_OK);
    assert_string_equal(s.text, "a/0=2:1;a/1=2:;a/2/b=3:x\n\xc3\xa9\xf0\x9f\x98\x80;e=1:yes;f=0:;g=1:no;");
    assert_int_equal(read_text("9223372036854775807", &s), STATOR_OK);
    assert_string_equal(s.text, "=2:9223372036854775807;");
    assert_int_equal(read_text("-1", &s), STATOR_OK);
    assert_string_equal(s.text, "=2:;");
    assert_int_equal(read_text("{\"stop\":1}", &s), STATOR_USAGE);
    static const char *const wrong[] = {
        "",
        " ",
        "{",
        "}",
        "[1",
        "[1,]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "[01]",
        "[1.]",
        "[-]",
        "[1e]",
        "[+1]",
        "[.5]",
        "nul",
        "truee",
        "\"a",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"\n\"",
        "1 2",
        "[1}",
        "{\"a\" 1}",
        "'a'",
        "\"\\",
        "\"\\u12",
        "\"\\ud800\"",
        "\"\\u0000\"",
        "\"\xff\"",
        "9223372036854775808",
        "{\"a\":1,\"a\":2}",
        "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (read_text(wrong[i], &s) != STATOR_USAGE)
            fail_msg("accepted: %s", wrong[i]);
    /* Nothing behind the text is read, not even to count lines. */
    stator_error e;
    _Alignas(16) unsigned char memory[4096];
    assert_int_equal(json_reader_walk("\"ab\n", 3, memory, sizeof memory, note, &s, &e), STATOR_USAGE);
    assert_non_null(strstr(e.text, "line 1:"));
    /* What an error quotes of the text does not reach a terminal as it is. */
    assert_int_equal(json_reader_walk("[\x7f[1m]", 6, memory, sizeof memory, note, &s, &e), STATOR_USAGE);
    assert_null(strchr(e.text, 0x7f));
    char text[700] = "\"a";
    for (int i = 0; i < 200; i++)
        strcat(text, "\xe2\x82\xac");
    strcat(text, "\"");
    assert_int_equal(read_text(text, &s), STATOR_OK);
    size_t n = strlen(s.text);
    assert_int_equal(n, strlen("=3:a;") + 600);
    assert_memory_equal(s.text + n - 4, "\xe2\x82\xac;", 4);
}

/* Whatever the memory, a text is read whole or refused, and nothing beyond the memory is touched. */
static void test_json_reader_memory(void **state) {
    (void)state;
    static const char text[] =
        "{\"a\":[1,2,3,{\"b\":\"a longer text that grows in its buffer\"}],\"c\":{\"d\":null}}";
    _Alignas(16) static unsigned char memory[16384];
    bool refused = false, read = false;
    for (size_t bytes = 0; bytes + 64 <= sizeof memory; bytes += 16) {
        struct seen s = {""};
        stator_error e;
        memset(memory, 0x5a, sizeof memory);
        stator_status st = json_reader_walk(text, sizeof text - 1, memory, bytes, note, &s, &e);
        read = read || st == STATOR_OK;
        refused = refused || st != STATOR_OK;
        if (st == STATOR_OK)
            assert_string_equal(
                s.text, "a/0=2:1;a/1=2:2;a/2=2:3;a/3/b=3:a longer text that grows in its buffer;c/d=0:;");
        else
            assert_non_null(strstr(e.text, "bytes of memory"));
        for (size_t i = bytes; i < sizeof memory; i++)
            if (memory[i] != 0x5a)
                fail_msg("byte %zu behind %zu was written", i, bytes);
    }
    assert_true(read && refused);
}

static char *json_of(stator *s, size_t *n) {
    stator_error e;
    char *text = malloc(MAX_TEXT);
    assert_non_null(text);
    assert_int_equal(stator_plan_json(s, text, MAX_TEXT, n, &e), STATOR_OK);
    return text;
}

/* Any damage to a plan's JSON is an error or another plan, never a crash. */
static void test_damaged_json(void **state) {
    (void)state;
    stator *s = NULL;
    stator_error e;
    size_t n = 0;
    assert_int_equal(open_with(&s, DEMO, NULL, 0, (const char *const[]){"gpu0=1GiB", "gpu1=1GiB"}, 2, &e),
                     STATOR_OK);
    assert_int_equal(stator_plan(s, &e), STATOR_OK);
    const struct plan *p = plan_view(s);
    char *text = json_of(s, &n);
    FILE *out = fopen("/dev/null", "w");
    assert_non_null(out);
    assert_int_equal(plan_diff_print(p, text, n, "old.json", out, &e), STATOR_OK);
    for (size_t cut = 0; cut < n; cut += 1 + n / 997)
        assert_int_equal(plan_diff_print(p, text, cut, "old.json", out, &e), STATOR_USAGE);
    uint64_t seed = testing_seed("damaged");
    for (int i = 0; i < 1500; i++) {
        size_t at = (size_t)testing_below(&seed, n);
        char before = text[at];
        text[at] = (char)testing_below(&seed, 256);
        stator_status st = plan_diff_print(p, text, n, "old.json", out, &e);
        assert_true(st == STATOR_OK || st == STATOR_USAGE);
        text[at] = before;
    }
    static const char *const other[] = {
        "{}",
        "[]",
        "1",
        "{\"format\":1}",
        "{\"format\":2,\"hash\":\"0\"}",
        "{\"format\":1,\"hash\":\"e5a64e14863ba2b92566758e6ce097ec\",\"inputs\":{\"a\":[1]},"
        "\"devices\":[{\"name\":\"a\"}],\"host\":{\"name\":\"host\"}} x",
        "{\"format\":1,\"hash\":\"e5a64e14863ba2b92566758e6ce097ec\",\"inputs\":{\"a\":true},"
        "\"devices\":[{\"name\":\"a\"}],\"host\":{\"name\":\"host\"}}"};
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++)
        assert_int_equal(plan_diff_print(p, other[i], strlen(other[i]), "old.json", out, &e), STATOR_USAGE);
    fclose(out);
    free(text);
    stator_close(s);
}

static uint64_t sum_of(const struct plan *p, const char *arena, const char *name, uint32_t *n) {
    uint64_t sum = 0;
    *n = 0;
    for (uint32_t i = 0; i < p->n_blocks; i++) {
        const struct plan_block *b = &p->blocks[i];
        if (strcmp(p->places[b->place].arenas[b->arena].name, arena) == 0 &&
            (name == NULL || strcmp(b->name, name) == 0)) {
            sum += b->bytes;
            ++*n;
        }
    }
    return sum;
}

/* Every tensor once (a tied one on the first and the last device), every layer's KV once, no overlap, slices
 * within max_alloc. */
static void check_plan(stator *s, uint64_t max_alloc) {
    const struct plan *p = plan_view(s);
    uint32_t a = 0;
    uint32_t b = 0;
    uint32_t n = 0;
    plan_check(p);
    if (!plan_blocks_apart(p, &a, &b))
        fail_msg("%s and %s overlap", p->blocks[a].name, p->blocks[b].name);
    for (uint64_t i = 0; i < gguf_tensors(s->planning.gguf); i++) {
        const struct gguf_tensor *t = gguf_tensor(s->planning.gguf, i);
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)t->name.length, t->name.data);
        uint64_t bytes = sum_of(p, "weights", name, &n);
        uint32_t copies =
            s->planning.shape->tied && t == s->planning.shape->token_embd && p->n_places > 2 ? 2 : 1;
        if (strcmp(name, "rope_freqs.weight") == 0)
            continue;
        assert_true(n >= copies && bytes >= copies * t->bytes);
    }
    uint32_t layer = 0;
    uint64_t packed = 0;
    uint64_t kv_bytes = 0;
    for (uint32_t i = 0; i + 1 < p->n_places; i++) {
        const struct plan_place *place = &p->places[i];
        assert_int_equal(place->first_layer, layer);
        assert_true(place->n_layers > 0);
        layer += place->n_layers;
        packed += place->weights_packed;
        kv_bytes += place->kv_per_token * p->kv_tokens;
        for (uint32_t k = 0; k < place->n_arenas; k++)
            for (uint32_t x = 0; x < place->arenas[k].n_slices; x++)
                assert_true(strcmp(place->arenas[k].name, "driver") == 0 ||
                            place->arenas[k].slices[x] <= max_alloc);
    }
    assert_int_equal(layer, s->planning.shape->n_layers);
    assert_int_equal(sum_of(p, "weights", NULL, &n), packed);
    assert_int_equal(sum_of(p, "kv", NULL, &n), kv_bytes);
    assert_int_equal(sum_of(p, "kv", "blk.0.kv", &n), (uint64_t)kv_bytes / s->planning.shape->n_layers);
}

static void test_blocks(void **state) {
    (void)state;
    static const char *const devices[][3] = {
        {"gpu0=1GiB"},
        {"gpu0=1GiB,max_alloc=1MiB"},
        {"gpu0=1GiB,max_alloc=1100000", "gpu1=1GiB,max_alloc=1MiB", "gpu2=600MiB,max_alloc=2MiB"}};
    static const size_t counts[] = {1, 1, 3};
    static const uint64_t limits[] = {DEVICE_SLICE_LIMIT, 1 << 20, 2 << 20};
    for (size_t i = 0; i < 3; i++) {
        stator *s = NULL;
        stator_error e;
        assert_int_equal(open_with(&s, DEMO, NULL, 0, devices[i], counts[i], &e), STATOR_OK);
        assert_int_equal(stator_plan(s, &e), STATOR_OK);
        check_plan(s, limits[i]);
        stator_close(s);
    }
}

static void test_blocks_of_oracles(void **state) {
    (void)state;
    static const char *const names[] = {"llama-tied", "llama",      "qwen2",     "qwen3",
                                        "quant-q4_k", "quant-q6_k", "quant-q8_0"};
    TESTING_NEED_SHARED("oracles/models/llama-tied.gguf");
    uint32_t seen = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[128];
        snprintf(path, sizeof path, "oracles/models/%s.gguf", names[i]);
        const char *file = testing_shared(path);
        if (file == NULL)
            continue;
        for (size_t n = 0; n <= 2; n++) {
            stator *s = NULL;
            stator_error e;
            if (open_with(&s, file, NULL, 0,
                          (const char *const[]){"gpu0=1GiB,max_alloc=8MiB", "gpu1=2GiB,max_alloc=8MiB"}, n,
                          &e) != STATOR_OK)
                fail_msg("%s", e.text);
            assert_int_equal(stator_plan(s, &e), STATOR_OK);
            check_plan(s, n == 0 ? DEVICE_SLICE_LIMIT : 8 << 20);
            const struct plan *p = plan_view(s);
            for (uint32_t k = 0; k + 1 < p->n_places; k++)
                for (uint32_t x = 0; x < p->places[k].n_arenas; x++)
                    if (strcmp(p->places[k].arenas[x].name, "scratch") == 0)
                        assert_true(p->places[k].arenas[x].bytes - p->places[k].arenas[x].lower_bound <
                                    65536); /* the bound, in pages */
            stator_close(s);
            seen++;
        }
    }
    assert_true(seen >= 6);
}

/* The hash is a promise to people who pinned it: it changes with the planner's version only. */
static void test_pinned_hashes(void **state) {
    (void)state;
    static const struct {
        const char *hash;
        const char *set[2];
        size_t n_set;
        const char *devices[2];
        size_t n_devices;
    } pinned[] = {
        {"878ee495fa0d40edbeb30b387aa446fe", {NULL}, 0, {NULL}, 0},
        {"a17068e37875eb5f9f64716595e9de11", {"memory.context=512", "memory.kv_type=f32"}, 2, {NULL}, 0},
        {"19636ec32b4792f9fb36fa38fff42096", {NULL}, 0, {"gpu0=24GiB,max_alloc=19GiB,bandwidth=456GB/s"}, 1},
        {"5ded814a80dd7ab2f9afe6596aa410f0", {NULL}, 0, {"gpu0=24GiB", "gpu1=16GiB"}, 2},
        {"3328e46c46e89938d24ba24d7f6b9347", {"devices.split=3,1"}, 1, {"gpu0=24GiB", "gpu1=16GiB"}, 2},
    };
    for (size_t i = 0; i < sizeof pinned / sizeof pinned[0]; i++) {
        char hash[HASH_TEXT];
        assert_int_equal(
            plan_of(pinned[i].set, pinned[i].n_set, pinned[i].devices, pinned[i].n_devices, hash), STATOR_OK);
        print_message("%zu: %s\n", i, hash);
        assert_string_equal(hash, pinned[i].hash);
    }
}

static void test_hash_covers_facts(void **state) {
    (void)state;
    char first[HASH_TEXT];
    char other[HASH_TEXT];
    static const char *const differ[] = {
        "gpu0=25GiB,max_alloc=19GiB,bandwidth=456GB/s", "gpu0=24GiB,max_alloc=18GiB,bandwidth=456GB/s",
        "gpu0=24GiB,max_alloc=19GiB,bandwidth=455GB/s", "gpu0=24GiB", "cpu:0=24GiB"};
    assert_int_equal(
        plan_of(NULL, 0, (const char *const[]){"gpu0=24GiB,max_alloc=19GiB,bandwidth=456GB/s"}, 1, first),
        STATOR_OK);
    for (size_t i = 0; i < sizeof differ / sizeof differ[0]; i++) {
        assert_int_equal(plan_of(NULL, 0, &differ[i], 1, other), STATOR_OK);
        assert_string_not_equal(first, other);
    }
    static const char *const reserve[] = {"memory.driver_reserve=100MiB"};
    assert_int_equal(
        plan_of(reserve, 1, (const char *const[]){"gpu0=24GiB,max_alloc=19GiB,bandwidth=456GB/s"}, 1, other),
        STATOR_OK);
    assert_string_not_equal(first, other);
    /* A CPU box elsewhere is planned as this one. */
    assert_int_equal(plan_of(NULL, 0, NULL, 0, first), STATOR_OK);
    assert_int_equal(plan_of(NULL, 0, (const char *const[]){"cpu:0=1GiB"}, 1, other), STATOR_OK);
    assert_string_equal(first, other);
}

static bool fits_with(const char *key, uint64_t v, const char *const *devices, size_t n_devices) {
    char set[64];
    snprintf(set, sizeof set, "memory.%s=%llu", key, (unsigned long long)v);
    return plan_of((const char *const[]){"memory.driver_reserve=1MiB", "memory.sequences=8", set}, 3, devices,
                   n_devices, NULL) == STATOR_OK;
}

/* What a refusal offers fits, and one more does not: on one device, and on a split. */
static void test_largest(void **state) {
    (void)state;
    static const char *const devices[][2] = {{"gpu0=12MiB"}, {"gpu0=8MiB", "gpu1=9MiB"}};
    for (size_t i = 0; i < 2; i++) {
        stator *s = NULL;
        stator_error e;
        static const char *const set[] = {"memory.driver_reserve=1MiB", "memory.sequences=8"};
        assert_int_equal(open_with(&s, DEMO, set, 2, devices[i], i + 1, &e), STATOR_OK);
        assert_int_equal(stator_plan(s, &e), STATOR_DOES_NOT_FIT);
        struct plan_short m = plan_view(s)->missing;
        stator_close(s);
        print_message("%s short by %llu: context %llu, batch %llu, sequences %llu\n", m.where,
                      (unsigned long long)m.bytes, (unsigned long long)m.largest_context,
                      (unsigned long long)m.largest_batch, (unsigned long long)m.largest_sequences);
        assert_true(strncmp(m.where, "gpu", 3) == 0 && strstr(m.where, ": ") != NULL);
        assert_true(m.bytes > 0 && m.largest_context > 0 && m.largest_sequences > 0);
        assert_true(fits_with("context", m.largest_context, devices[i], i + 1));
        assert_false(fits_with("context", m.largest_context + 32, devices[i], i + 1));
        assert_true(fits_with("sequences", m.largest_sequences, devices[i], i + 1));
        assert_false(fits_with("sequences", m.largest_sequences + 1, devices[i], i + 1));
        assert_true(m.largest_batch == 0 || fits_with("batch", m.largest_batch, devices[i], i + 1));
        assert_false(m.largest_batch + 1 >= 8 && fits_with("batch", m.largest_batch + 1, devices[i], i + 1));
        /* "auto" takes that context. */
        stator_info info = {.size = sizeof info};
        static const char *const automatic[] = {"memory.driver_reserve=1MiB", "memory.sequences=8",
                                                "memory.context=auto"};
        assert_int_equal(open_with(&s, DEMO, automatic, 3, devices[i], i + 1, &e), STATOR_OK);
        assert_int_equal(stator_plan(s, &e), STATOR_OK);
        assert_int_equal(stator_get_info(s, &info, &e), STATOR_OK);
        assert_int_equal(info.context, m.largest_context);
        stator_close(s);
    }
}

/* A plan that fits says how many sequences would: so many do, one more does not. */
static void test_room(void **state) {
    (void)state;
    static const char *const device = "gpu0=40MiB";
    static const char *const set[] = {"memory.driver_reserve=1MiB"};
    stator *s = NULL;
    stator_error e;
    assert_int_equal(open_with(&s, DEMO, set, 1, &device, 1, &e), STATOR_OK);
    assert_int_equal(stator_plan(s, &e), STATOR_OK);
    const struct plan *p = plan_view(s);
    assert_true(p->room_known);
    uint64_t n = p->sequences_fit;
    uint64_t tokens = p->kv_tokens + p->room_tokens;
    stator_close(s);
    assert_in_range(n, 2, 63);
    assert_in_range(n, tokens / 1024 - 1, tokens / 1024); /* more sequences need more than their KV */
    char more[64];
    snprintf(more, sizeof more, "memory.sequences=%llu", (unsigned long long)n);
    assert_int_equal(plan_of((const char *const[]){set[0], more}, 2, &device, 1, NULL), STATOR_OK);
    snprintf(more, sizeof more, "memory.sequences=%llu", (unsigned long long)n + 1);
    assert_int_equal(plan_of((const char *const[]){set[0], more}, 2, &device, 1, NULL), STATOR_DOES_NOT_FIT);
}

/* An engine on described devices plans and does not start. */
static void test_no_start(void **state) {
    (void)state;
    static const char *const device = "gpu0=24GiB";
    stator *s = NULL;
    stator_error e;
    assert_int_equal(open_with(&s, DEMO, NULL, 0, &device, 1, &e), STATOR_OK);
    assert_int_equal(stator_start(s, &e), STATOR_DEVICE);
    assert_non_null(strstr(e.text, "gpu0"));
    stator_close(s);
    const char *nine[9];
    for (int i = 0; i < 9; i++)
        nine[i] = "gpu0=24GiB";
    assert_int_equal(open_with(&s, DEMO, NULL, 0, nine, 9, &e), STATOR_USAGE);
    assert_int_equal(open_with(&s, DEMO, NULL, 0, nine, 2, &e), STATOR_USAGE); /* twice the same name */
    assert_null(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split_is_the_best),
        cmocka_unit_test(test_split_by_shares),
        cmocka_unit_test(test_device_texts),
        cmocka_unit_test(test_json_reader),
        cmocka_unit_test(test_json_reader_memory),
        cmocka_unit_test(test_damaged_json),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_blocks_of_oracles),
        cmocka_unit_test(test_pinned_hashes),
        cmocka_unit_test(test_hash_covers_facts),
        cmocka_unit_test(test_largest),
        cmocka_unit_test(test_room),
        cmocka_unit_test(test_no_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
