/* stator selftest [--device D] [--report FILE]: small models with random weights of every type and of several
 * shapes run on the device and, with scalar kernels, on the CPU; every logit must have the same bits. Then a
 * hundred replayed steps, then copies to and from the other GPUs. The device may be the CPU, with its best
 * kernels. The text on stdout and the report are what
 * a user attaches to a bug. */
#include "app/commands.h"
#include "app/options.h"
#include "app/out.h"
#include "app/selftest/selftest_model.h"

#include "base/clock.h"
#include "base/json_writer.h"
#include "device/device_info.h"
#include "formats/block.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONTEXT     384
#define BATCH       96
#define ROWS        70
#define STEPS       100
#define PROBE_BYTES (1u << 20)
#define MAX_CASES   128

/* Prompt lengths: all buckets of token counts, chunks that do not fill a batch, more than one attention
 * split. */
static const uint32_t lengths[] = {1, 2, 4, 7, 16, 33, 64, 90, 310};
#define LENGTHS (sizeof lengths / sizeof lengths[0])

struct shape_class {
    const char *name;
    const char *architecture;
    uint32_t n_embd, n_ff, n_heads, n_kv_heads, head_dim, vocab;
    bool untied;
    uint32_t window;
    uint32_t key_heads, value_heads, dim_k, dim_v, taps;
    uint32_t experts, used;
};

/* The first is for every type; sizes are multiples of 256, as the K types need. */
static const struct shape_class shapes[] = {
    {"even", "llama", 256, 512, 4, 2, 64, 320, false, 0, 0, 0, 0, 0, 0, 0, 0},
    {"biases, tails of panels", "qwen2", 256, 768, 8, 1, 32, 301, true, 0, 0, 0, 0, 0, 0, 0, 0},
    {"norms of heads, wide heads", "qwen3", 512, 256, 4, 4, 128, 333, false, 0, 0, 0, 0, 0, 0, 0, 0},
    {"a window, GELU, norms behind", "gemma3", 256, 512, 4, 1, 64, 310, false, 50, 0, 0, 0, 0, 0, 0, 0},
    {"a window, fused tensors", "phi3", 256, 256, 8, 2, 96, 290, true, 277, 0, 0, 0, 0, 0, 0, 0},
    {"states, gates", "qwen35", 256, 512, 4, 2, 64, 320, false, 0, 2, 4, 128, 128, 4, 0, 0},
    {"states of odd sizes", "qwen35", 256, 256, 5, 1, 256, 301, true, 0, 1, 16, 150, 48, 6, 0, 0},
    {"experts", "qwen3moe", 256, 256, 4, 2, 64, 310, false, 0, 0, 0, 0, 0, 0, 10, 3},
    {"windows, sinks, experts", "gpt-oss", 256, 256, 8, 2, 64, 310, true, 40, 0, 0, 0, 0, 0, 6, 3},
    {"few experts", "llama", 256, 256, 4, 2, 64, 310, false, 0, 0, 0, 0, 0, 0, 3, 2},
    {"experts by sigmoids, a shared one", "glm4moe", 256, 256, 4, 2, 64, 310, true, 0, 0, 0, 0, 0, 0, 7, 2},
    {"states, experts, a gated one", "qwen35moe", 256, 256, 4, 2, 64, 320, false, 0, 2, 4, 64, 64, 4, 9, 4},
};
#define SHAPES (sizeof shapes / sizeof shapes[0])

static const uint32_t types[] = {
    BLOCK_F32,   BLOCK_F16,    BLOCK_BF16,  BLOCK_Q4_0,    BLOCK_Q4_1,   BLOCK_Q5_0,   BLOCK_Q5_1,
    BLOCK_Q8_0,  BLOCK_Q4_K,   BLOCK_Q5_K,  BLOCK_Q6_K,    BLOCK_IQ4_NL, BLOCK_MXFP4,  BLOCK_Q2_K,
    BLOCK_Q3_K,  BLOCK_IQ4_XS, BLOCK_IQ3_S, BLOCK_IQ3_XXS, BLOCK_IQ2_S,  BLOCK_IQ2_XS, BLOCK_IQ2_XXS,
    BLOCK_IQ1_S, BLOCK_IQ1_M,  BLOCK_TQ1_0, BLOCK_TQ2_0,   BLOCK_NVFP4,  BLOCK_Q1_0,   BLOCK_Q2_0};
#define TYPES (sizeof types / sizeof types[0])

struct result {
    char name[64];
    bool ok;
    char text[700];
    double seconds;
};

struct selftest {
    const char *device;
    const char *report;
    const char *only; /* cases whose names have this text; NULL: all */
    struct device_info list[DEVICE_INFO_MAX];
    uint32_t n;
    struct device_info_stack stack;
    uint32_t index; /* of the tested device; the last is the CPU */
    struct result results[MAX_CASES];
    uint32_t n_results;
    uint32_t failed;
};

static void add_result(struct selftest *t, const char *name, bool ok, double seconds, const char *text) {
    CHECK(t->n_results < MAX_CASES);
    struct result *r = &t->results[t->n_results++];
    *r = (struct result){.ok = ok, .seconds = seconds};
    snprintf(r->name, sizeof r->name, "%s", name);
    snprintf(r->text, sizeof r->text, "%s", text);
    t->failed += !ok;
    printf("%-6s %-46s %6.2f s%s%s\n", ok ? "ok" : "FAILED", r->name, seconds, text[0] != '\0' ? "  " : "",
           r->text);
    fflush(stdout);
}

/* An engine on one device. */
static stator_status open_engine(const char *path, const char *device, const char *const *more, size_t n_more,
                                 stator **s, stator_error *e) {
    char use[64];
    char context[48];
    char batch[48];
    char rows[48];
    snprintf(use, sizeof use, "devices.use=%s", device);
    snprintf(context, sizeof context, "memory.context=%d", CONTEXT);
    snprintf(batch, sizeof batch, "memory.batch=%d", BATCH);
    snprintf(rows, sizeof rows, "memory.logits_rows=%d", ROWS);
    const char *set[12] = {use, context, batch, rows};
    size_t n = 4;
    for (size_t i = 0; i < n_more; i++)
        set[n++] = more[i];
    stator_options o = {.size = sizeof o, .config = path, .set = set, .n_set = n};
    return stator_open(&o, s, e);
}

/* Bytes that the plan has for this arena of the first place; 0: no such row. */
static uint64_t planned(const stator *s, const char *arena) {
    for (size_t i = 0;; i++) {
        stator_memory_row row = {.size = sizeof row};
        int have = 0;
        if (stator_get_memory(s, i, &row, &have, NULL) != STATOR_OK || !have)
            return 0;
        if (strcmp(row.arena, arena) == 0)
            return row.planned;
    }
}

/* "memory.driver_reserve=..": so large that the rest of the GPU's memory holds half of the weights and no
 * KV. */
static stator_status small_gpu(const char *path, const struct device_facts *f, const char *const *more,
                               size_t n_more, char out[64], stator_error *e) {
    stator *s = NULL;
    stator_status st = open_engine(path, f->name, more, n_more, &s, e);
    if (st == STATOR_OK)
        st = stator_plan(s, e);
    if (st == STATOR_OK) {
        uint64_t room = planned(s, "scratch") + planned(s, "exchange") + planned(s, "weights") / 2;
        snprintf(out, 64, "memory.driver_reserve=%" PRIu64 "B", f->memory - room);
    }
    stator_close(s);
    return st;
}

/* Polls until the request is done. out: logits of all positions or tokens, in order. */
static stator_status collect(stator *s, uint32_t vocab, float *logits, int32_t *tokens, size_t *n,
                             stator_error *e) {
    *n = 0;
    for (;;) {
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        stator_status st = stator_poll(s, UINT64_MAX, &ev, &have, e);
        if (st != STATOR_OK)
            return st;
        if (!have)
            continue;
        if (ev.kind == STATOR_EVENT_LOGITS)
            memcpy(logits + (*n)++ * vocab, ev.logits, vocab * sizeof *logits);
        else if (ev.kind == STATOR_EVENT_TOKEN)
            tokens[(*n)++] = ev.token;
        else if (ev.kind == STATOR_EVENT_DONE)
            return ev.reason == STATOR_REASON_FAILED ? error_set(e, ev.status, "%s", ev.text) : STATOR_OK;
    }
}

static void prompt(int32_t *ids, uint32_t n, uint32_t vocab) {
    uint32_t x = 12345;
    for (uint32_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        ids[i] = (int32_t)((x >> 8) % vocab);
    }
}

struct outcome {
    float *logits; /* [sum of lengths][vocab] */
    int32_t tokens[STEPS];
    size_t n_tokens;
};

static stator_status run_one(const char *path, const char *device, const char *const *more, size_t n_more,
                             uint32_t vocab, struct outcome *out, stator_error *e) {
    stator *s = NULL;
    stator_status st = open_engine(path, device, more, n_more, &s, e);
    if (st == STATOR_OK)
        st = stator_start(s, e);
    int32_t ids[CONTEXT];
    prompt(ids, CONTEXT, vocab);
    size_t at = 0;
    for (size_t i = 0; i < LENGTHS && st == STATOR_OK; i++) {
        stator_request r = {
            .size = sizeof r, .kind = STATOR_LOGITS, .tokens = ids + i, .n_tokens = lengths[i]};
        uint64_t id = 0;
        size_t n = 0;
        st = stator_submit(s, &r, &id, e);
        if (st == STATOR_OK)
            st = collect(s, vocab, out->logits + at * vocab, out->tokens, &n, e);
        at += n;
    }
    if (st == STATOR_OK) {
        stator_request r = {.size = sizeof r,
                            .kind = STATOR_GENERATE,
                            .tokens = ids,
                            .n_tokens = 5,
                            .max_new = STEPS,
                            .ignore_eos = 1,
                            .sampling = {.has = STATOR_HAS_TEMPERATURE}};
        uint64_t id = 0;
        st = stator_submit(s, &r, &id, e);
        if (st == STATOR_OK)
            st = collect(s, vocab, out->logits, out->tokens, &out->n_tokens, e);
    }
    stator_close(s);
    return st;
}

/* The first difference, as text; "" when there is none. */
static void compare(const struct outcome *a, const struct outcome *b, uint32_t vocab, char text[256]) {
    size_t at = 0;
    text[0] = '\0';
    for (size_t i = 0; i < LENGTHS; i++) {
        for (uint32_t p = 0; p < lengths[i]; p++, at++) {
            for (uint32_t v = 0; v < vocab; v++) {
                const float *x = a->logits + at * vocab + v;
                const float *y = b->logits + at * vocab + v;
                if (memcmp(x, y, sizeof *x) == 0)
                    continue;
                snprintf(text, 256, "prompt of %u, position %u, logit %u: %a on the device, %a on the CPU",
                         lengths[i], p, v, (double)*x, (double)*y);
                return;
            }
        }
    }
    for (size_t i = 0; i < STEPS; i++) {
        if (i < a->n_tokens && i < b->n_tokens && a->tokens[i] == b->tokens[i])
            continue;
        snprintf(text, 256, "step %zu: token %d on the device, %d on the CPU (%zu and %zu of %d steps)", i,
                 a->tokens[i], b->tokens[i], a->n_tokens, b->n_tokens, STEPS);
        return;
    }
}

/* spill: on a GPU that has room for half of the weights and no KV. */
static void run_case(struct selftest *t, const struct shape_class *c, uint32_t type, const char *kv,
                     bool spill) {
    char name[64];
    char text[700] = "";
    snprintf(name, sizeof name, "%s, %s, KV %s%s", block_info(type)->name, c->name, kv,
             spill ? ", spilled" : "");
    const struct device_facts *gpu = &t->list[t->index].facts;
    if ((t->only != NULL && strstr(name, t->only) == NULL) || (spill && gpu->host_memory))
        return;
    struct selftest_model m = {.architecture = c->architecture,
                               .type = type,
                               .n_layers = 2,
                               .n_embd = c->n_embd,
                               .n_ff = c->n_ff,
                               .n_heads = c->n_heads,
                               .n_kv_heads = c->n_kv_heads,
                               .head_dim = c->head_dim,
                               .vocab = c->vocab,
                               .context = CONTEXT,
                               .window = c->window,
                               .experts = c->experts,
                               .used = c->used,
                               .key_heads = c->key_heads,
                               .value_heads = c->value_heads,
                               .dim_k = c->dim_k,
                               .dim_v = c->dim_v,
                               .taps = c->taps,
                               .untied = c->untied,
                               .seed = type + 1};
    uint64_t began = clock_ns();
    size_t rows = 0;
    for (size_t i = 0; i < LENGTHS; i++)
        rows += lengths[i];
    struct outcome device = {.logits = calloc(rows * c->vocab, sizeof(float))};
    struct outcome host = {.logits = calloc(rows * c->vocab, sizeof(float))};
    int fd = -1;
    char path[SELFTEST_MODEL_PATH] = "";
    char model[SELFTEST_MODEL_PATH + 16];
    char kv_type[48];
    stator_error e = {.code = STATOR_FAILED, .text = "no memory"};
    stator_status st = device.logits != NULL && host.logits != NULL ? STATOR_OK : STATOR_FAILED;
    if (st == STATOR_OK)
        st = selftest_model_make(&m, &fd, path, &e);
    snprintf(model, sizeof model, "model.path=%s", path);
    snprintf(kv_type, sizeof kv_type, "memory.kv_type=%s", kv);
    char reserve[64] = "";
    const char *const on_cpu[] = {model, kv_type, "cpu.tier=scalar"};
    const char *const on_gpu[] = {model, kv_type, reserve, "memory.on_oom=spill"};
    if (st == STATOR_OK)
        st = run_one(path, "cpu:0", on_cpu, 3, c->vocab, &host, &e);
    if (st == STATOR_OK && spill)
        st = small_gpu(path, gpu, on_gpu, 2, reserve, &e);
    if (st == STATOR_OK)
        st = run_one(path, gpu->name, on_gpu, spill ? 4 : 2, c->vocab, &device, &e);
    if (st == STATOR_OK)
        compare(&device, &host, c->vocab, text);
    else
        snprintf(text, sizeof text, "%s", e.text);
    add_result(t, name, text[0] == '\0', (double)(clock_ns() - began) * 1e-9, text);
    free(device.logits);
    free(host.logits);
    if (fd >= 0)
        close(fd);
}

static void probe_one(struct selftest *t, uint32_t from, uint32_t to) {
    char name[80];
    char text[256];
    struct device_info_pair pair;
    stator_error e;
    snprintf(name, sizeof name, "copies %.20s -> %.20s", t->list[from].facts.name, t->list[to].facts.name);
    uint64_t began = clock_ns();
    stator_status st = device_info_probe(from, to, PROBE_BYTES, &pair, &e);
    const struct device_route *r = &pair.route;
    if (st != STATOR_OK)
        snprintf(text, sizeof text, "%.200s", e.text);
    else if (r->direct)
        snprintf(text, sizeof text, "direct, %.1f GB/s, %.1f us", (double)r->bytes_per_second * 1e-9,
                 (double)r->latency_ns * 1e-3);
    else
        snprintf(text, sizeof text, "staged: %.200s", r->why);
    add_result(t, name, st == STATOR_OK, (double)(clock_ns() - began) * 1e-9, text);
}

static void run_models(struct selftest *t) {
    for (size_t i = 0; i < TYPES; i++)
        run_case(t, &shapes[0], types[i], "f16", false);
    for (size_t k = 1; k < SHAPES; k++) {
        run_case(t, &shapes[k], BLOCK_Q8_0, "f16", false);
        run_case(t, &shapes[k], BLOCK_Q4_K, "f32", false);
        run_case(t, &shapes[k], BLOCK_F16, "f16", false);
        run_case(t, &shapes[k], BLOCK_Q8_0, "q8_0", false);
        run_case(t, &shapes[k], BLOCK_Q8_0, "q4_0", false);
        run_case(t, &shapes[k], BLOCK_Q4_K, "f16", true);
        run_case(t, &shapes[k], BLOCK_Q8_0, "q8_0", true);
    }
}

static void run_probes(struct selftest *t) {
    for (uint32_t i = 0; i + 1 < t->n; i++) {
        if (i == t->index || t->index + 1 == t->n)
            continue;
        probe_one(t, t->index, i);
        probe_one(t, i, t->index);
    }
}

static stator_status write_report(const struct selftest *t, stator_error *e) {
    FILE *f = out_open("--report", t->report, e);
    if (f == NULL)
        return e->code;
    const struct device_info *i = &t->list[t->index];
    struct json j;
    json_to_file(&j, f, true);
    json_open_object(&j, NULL);
    json_put_string(&j, "version", STATOR_VERSION);
    json_put_string(&j, "device", i->facts.name);
    json_put_string(&j, "model", i->model);
    json_put_string(&j, "driver", i->driver);
    json_put_string(&j, "loader", t->stack.loader);
    json_put_u64(&j, "device_id", i->device);
    json_put_u64(&j, "failed", t->failed);
    json_open_array(&j, "cases");
    for (uint32_t k = 0; k < t->n_results; k++) {
        json_open_object(&j, NULL);
        json_put_string(&j, "name", t->results[k].name);
        json_put_bool(&j, "ok", t->results[k].ok);
        json_put_string(&j, "text", t->results[k].text);
        json_put_double(&j, "seconds", t->results[k].seconds);
        json_close(&j);
    }
    json_close(&j);
    json_close(&j);
    (void)json_end(&j);
    return out_close(f, "--report", t->report, STATOR_OK, e);
}

static stator_status find_device(struct selftest *t, stator_error *e) {
    t->n = device_info_list(t->list, &t->stack);
    for (uint32_t i = 0; i < t->n; i++) {
        t->index = i;
        if (strcmp(t->device, t->list[i].facts.name) == 0 ||
            (t->list[i].pci[0] != '\0' && strcmp(t->device, t->list[i].pci) == 0))
            return STATOR_OK;
    }
    if (t->n == 1) {
        *e = t->stack.no_gpus;
        return STATOR_DEVICE;
    }
    return error_set(e, STATOR_DEVICE, "--device %.60s: no such GPU here; `stator devices` lists them",
                     t->device);
}

int selftest_command(int argc, char **argv) {
    static struct selftest t;
    t.device = "level_zero:0";
    const struct options_row rows[] = {
        {.name = "device",
         .kind = OPTIONS_TEXT,
         .target = &t.device,
         .value = "D",
         .help = "the GPU, by name (level_zero:1) or PCI address (default: level_zero:0); or cpu:0, whose "
                 "kernels are then compared with the scalar ones"},
        {.name = "only",
         .kind = OPTIONS_TEXT,
         .target = &t.only,
         .value = "TEXT",
         .help = "only the models whose names contain this text, such as \"q8_0, even\""},
        {.name = "report",
         .kind = OPTIONS_TEXT,
         .target = &t.report,
         .value = "FILE",
         .help = "write the results as JSON too"}};
    struct options o = {.command = "selftest",
                        .usage = "[--device D] [--report FILE]",
                        .summary =
                            "Runs every kernel on a GPU and compares each bit with the CPU's scalar "
                            "kernels; replays steps; probes copies between GPUs. Attach its output to a "
                            "bug report. Exits with 5 when something differs or fails.",
                        .rows = rows,
                        .n_rows = sizeof rows / sizeof rows[0]};
    int code = 0;
    if (!options_parse(&o, argc, argv, &code))
        return code;
    stator_error e;
    stator_status st = find_device(&t, &e);
    if (st != STATOR_OK)
        return out_error("selftest", &e);
    const struct device_info *i = &t.list[t.index];
    printf("stator %s, %s: %s (%04x:%04x), driver %s, loader %s\n", STATOR_VERSION, i->facts.name, i->model,
           i->vendor, i->device, i->driver, t.stack.loader);
    run_models(&t);
    if (t.n_results == 0)
        return out_fail("selftest", STATOR_USAGE, "--only \"%s\": no model has this in its name", t.only);
    run_probes(&t);
    printf("%u cases, %u failed\n", t.n_results, t.failed);
    if (t.report != NULL && write_report(&t, &e) != STATOR_OK)
        return out_error("selftest", &e);
    return out_finish("selftest", t.failed == 0 ? STATOR_OK : STATOR_DEVICE);
}
