/* stator selftest [--device D] [--report FILE]: first every op by itself (op_cases.h), then small models with
 * random weights of every type and of several shapes run on the device and, with scalar kernels, on the CPU;
 * every output and every logit must have the same bits. Then a hundred replayed steps, then copies to and
 * from the other GPUs. The device may be the CPU, with its best kernels. The text on stdout and the report
 * are what a user attaches to a bug. */
#include "app/commands.h"
#include "app/options/options.h"
#include "app/out.h"
#include "app/selftest/op_run.h"
#include "app/selftest/selftest_model.h"

#include "base/clock.h"
#include "base/json_writer.h"
#include "device/device_info.h"
#include "formats/block.h"
#include "formats/panel.h"

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

/* Prompt lengths: all buckets of token counts, chunks that do not fill a batch, more than one attention
 * split. */
static const uint32_t lengths[] = {1, 2, 4, 7, 16, 33, 64, 90, 310};
#define LENGTHS (sizeof lengths / sizeof lengths[0])

struct shape_class {
    const char *name;
    struct selftest_model m;
};

#define MODEL(architecture_, embd, ff, heads, kv_heads, dim, vocab_, ...)                                    \
    {                                                                                                        \
        .architecture = (architecture_), .n_embd = (embd), .n_ff = (ff), .n_heads = (heads),                 \
        .n_kv_heads = (kv_heads), .head_dim = (dim), .vocab = (vocab_), __VA_ARGS__                          \
    }

/* The first is for every type; sizes are multiples of 256, as the K types need. */
static const struct shape_class shapes[] = {
    {"even", MODEL("llama", 256, 512, 4, 2, 64, 320, .n_layers = 2)},
    {"biases, tails of panels", MODEL("qwen2", 256, 768, 8, 1, 32, 301, .untied = true)},
    {"norms of heads, wide heads", MODEL("qwen3", 512, 256, 4, 4, 128, 333, .n_layers = 2)},
    {"a window, GELU, norms behind", MODEL("gemma3", 256, 512, 4, 1, 64, 310, .window = 50)},
    {"softcaps", MODEL("gemma2", 256, 512, 4, 2, 128, 310, .window = 50)},
    {"a window, fused tensors", MODEL("phi3", 256, 256, 8, 2, 96, 290, .untied = true, .window = 277)},
    {"states, gates", MODEL("qwen35", 256, 512, 4, 2, 64, 320, .key_heads = 2, .value_heads = 4, .dim_k = 128,
                            .dim_v = 128, .taps = 4)},
    {"states of odd sizes", MODEL("qwen35", 256, 256, 5, 1, 256, 301, .n_rot = 64, .untied = true,
                                  .key_heads = 1, .value_heads = 16, .dim_k = 150, .dim_v = 48, .taps = 6)},
    {"experts", MODEL("qwen3moe", 256, 256, 4, 2, 64, 310, .experts = 10, .used = 3)},
    {"windows, sinks, experts",
     MODEL("gpt-oss", 256, 256, 8, 2, 64, 310, .untied = true, .window = 40, .experts = 6, .used = 3)},
    {"few experts", MODEL("llama", 256, 256, 4, 2, 64, 310, .experts = 3, .used = 2)},
    {"experts by sigmoids, a shared one",
     MODEL("glm4moe", 256, 256, 4, 2, 64, 310, .n_rot = 32, .untied = true, .experts = 7, .used = 2)},
    {"states, experts, a gated one",
     MODEL("qwen35moe", 256, 256, 4, 2, 64, 320, .key_heads = 2, .value_heads = 4, .dim_k = 64, .dim_v = 64,
           .taps = 4, .experts = 9, .used = 4)},
    {"grouped states", MODEL("qwen3next", 256, 256, 4, 2, 64, 320, .n_rot = 32, .key_heads = 2,
                             .value_heads = 8, .dim_k = 64, .dim_v = 32, .taps = 4, .experts = 5, .used = 2)},
    {"grouped states of one tensor",
     MODEL("qwen3next", 256, 512, 4, 2, 64, 320, .key_heads = 3, .value_heads = 6, .dim_k = 48, .dim_v = 128,
           .taps = 4, .one_in = true)},
    {"queries with angles of their own", MODEL("mistral3", 256, 512, 8, 2, 64, 320, .n_layers = 2)},
    {"layers without RoPE", MODEL("smollm3", 256, 256, 4, 4, 64, 320, .n_layers = 4)},
    {"norms of all heads", MODEL("olmo2", 256, 512, 4, 2, 64, 320, .untied = true, .window = 50)},
    {"narrow values, a part rotated", MODEL("llama", 256, 512, 8, 4, 96, 320, .value_dim = 64, .n_rot = 32)},
    {"drafts of an MTP head", MODEL("qwen35", 256, 256, 4, 2, 64, 320, .n_rot = 32, .key_heads = 2,
                                    .value_heads = 4, .dim_k = 64, .dim_v = 64, .taps = 4, .nextn = true)},
    {"gated convolutions", MODEL("lfm2", 256, 512, 4, 2, 64, 320, .n_layers = 4, .taps = 3)},
    {"gated convolutions, experts", MODEL("lfm2moe", 512, 256, 4, 1, 64, 301, .untied = true, .n_layers = 3,
                                          .taps = 5, .experts = 7, .used = 2)},
    {"a LayerNorm", MODEL("cohere2", 256, 512, 4, 2, 64, 320, .n_layers = 2, .window = 50)},
    {"heads normed after RoPE", MODEL("hunyuan-dense", 256, 512, 4, 2, 64, 320)},
    {"experts by a softmax with a bias",
     MODEL("ernie4_5-moe", 256, 256, 4, 2, 64, 310, .experts = 7, .used = 2)},
};
#define SHAPES (sizeof shapes / sizeof shapes[0])

enum { EXPERTS = 7 }; /* of shapes[] */

/* Of matrices that are multiplied together: each pair has kernels for sets of types. */
static const struct {
    uint32_t shape; /* of shapes[] */
    uint32_t type, other;
} mixed[] = {{0, BLOCK_Q4_K, BLOCK_Q6_K},       {0, BLOCK_Q3_K, BLOCK_Q5_K},
             {0, BLOCK_Q4_0, BLOCK_F16},        {0, BLOCK_IQ2_XS, BLOCK_Q4_K},
             {EXPERTS, BLOCK_Q4_K, BLOCK_Q6_K}, {EXPERTS, BLOCK_Q2_K, BLOCK_Q3_K},
             {EXPERTS, BLOCK_Q8_0, BLOCK_MXFP4}};
#define MIXED (sizeof mixed / sizeof mixed[0])

/* Of K and of V. */
static const char *const kv_pairs[] = {"f16/q8_0", "q8_0/q4_0", "q4_0/f32"};
#define KV_PAIRS (sizeof kv_pairs / sizeof kv_pairs[0])

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
    uint32_t index;         /* of the tested device; the last is the CPU */
    struct result *results; /* [room], for the report */
    uint32_t n_results, room;
    uint32_t failed;
};

static void add_result(struct selftest *t, const char *name, bool ok, double seconds, const char *text) {
    t->failed += !ok;
    printf("%-6s %-46s %6.2f s%s%s\n", ok ? "ok" : "FAILED", name, seconds, text[0] != '\0' ? "  " : "",
           text);
    fflush(stdout);
    if (t->n_results == t->room) {
        const uint32_t room = t->room + 256;
        struct result *more = realloc(t->results, room * sizeof *more);
        if (more == NULL)
            exit(out_fail("selftest", STATOR_FAILED, "no memory for the results of %u cases", room));
        t->results = more;
        t->room = room;
    }
    struct result *r = &t->results[t->n_results++];
    *r = (struct result){.ok = ok, .seconds = seconds};
    snprintf(r->name, sizeof r->name, "%s", name);
    snprintf(r->text, sizeof r->text, "%s", text);
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

struct outcome {
    float *logits; /* [sum of lengths][vocab] */
    int32_t tokens[STEPS];
    size_t n_tokens;
    uint32_t guessed, kept;
};

/* Polls until the request is done. Logits of all positions, or out->tokens, in order. */
static stator_status collect(stator *s, uint32_t vocab, float *logits, size_t *n, struct outcome *out,
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
            out->tokens[(*n)++] = ev.token;
        else if (ev.kind == STATOR_EVENT_DONE) {
            out->guessed = ev.n_guessed;
            out->kept = ev.n_kept;
            return ev.reason == STATOR_REASON_FAILED ? error_set(e, ev.status, "%s", ev.text) : STATOR_OK;
        }
    }
}

static void prompt(int32_t *ids, uint32_t n, uint32_t vocab) {
    uint32_t x = 12345;
    for (uint32_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        ids[i] = (int32_t)((x >> 8) % vocab);
    }
}

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
            st = collect(s, vocab, out->logits + at * vocab, &n, out, e);
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
            st = collect(s, vocab, out->logits, &out->n_tokens, out, e);
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
    if (a->guessed != b->guessed || a->kept != b->kept)
        snprintf(text, 256, "%u of %u draft tokens are right on the device, %u of %u on the CPU", a->kept,
                 a->guessed, b->kept, b->guessed);
}

/* other: of matrices that are multiplied with another, or 0. kv: a type, or "K/V". spill: on a GPU that has
 * room for half of the weights and no KV. */
static void run_case(struct selftest *t, const struct shape_class *c, uint32_t type, uint32_t other,
                     const char *kv, bool spill) {
    char name[64];
    char text[700] = "";
    snprintf(name, sizeof name, "%s%s%s, %s, KV %s%s", block_info(type)->name, other != 0 ? " and " : "",
             other != 0 ? block_info(other)->name : "", c->name, kv, spill ? ", spilled" : "");
    const struct device_facts *gpu = &t->list[t->index].facts;
    if ((t->only != NULL && strstr(name, t->only) == NULL) || (spill && gpu->host_memory))
        return;
    struct selftest_model m = c->m;
    m.type = type;
    m.other = other;
    m.n_layers = m.n_layers != 0 ? m.n_layers : 2;
    m.context = CONTEXT;
    m.seed = type + 1;
    uint64_t began = clock_ns();
    size_t rows = 0;
    for (size_t i = 0; i < LENGTHS; i++)
        rows += lengths[i];
    struct outcome device = {.logits = calloc(rows * c->m.vocab, sizeof(float))};
    struct outcome host = {.logits = calloc(rows * c->m.vocab, sizeof(float))};
    int fd = -1;
    char path[SELFTEST_MODEL_PATH] = "";
    char model[SELFTEST_MODEL_PATH + 16];
    char kv_k[48];
    char kv_v[48];
    stator_error e = {.code = STATOR_FAILED, .text = "no memory"};
    stator_status st = device.logits != NULL && host.logits != NULL ? STATOR_OK : STATOR_FAILED;
    if (st == STATOR_OK)
        st = selftest_model_make(&m, &fd, path, &e);
    snprintf(model, sizeof model, "model.path=%s", path);
    const char *slash = strchr(kv, '/');
    snprintf(kv_k, sizeof kv_k, "memory.kv_type_k=%.*s", (int)(slash != NULL ? slash - kv : 8), kv);
    snprintf(kv_v, sizeof kv_v, "memory.kv_type_v=%s", slash != NULL ? slash + 1 : kv);
    char reserve[64] = "";
    const char *const mode = c->m.nextn ? "speculation.mode=mtp" : "speculation.mode=off";
    const char *const on_cpu[] = {model, kv_k, kv_v, mode, "cpu.tier=scalar"};
    const char *const on_gpu[] = {model, kv_k, kv_v, mode, reserve, "memory.on_oom=spill"};
    if (st == STATOR_OK)
        st = run_one(path, "cpu:0", on_cpu, 5, c->m.vocab, &host, &e);
    if (st == STATOR_OK && spill)
        st = small_gpu(path, gpu, on_gpu, 4, reserve, &e);
    if (st == STATOR_OK)
        st = run_one(path, gpu->name, on_gpu, spill ? 6 : 4, c->m.vocab, &device, &e);
    if (st == STATOR_OK)
        compare(&device, &host, c->m.vocab, text);
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

static bool is_computable(uint32_t type) {
    return block_info(type) != NULL && block_info(type)->computable;
}

/* It has kernels of its own, and shapes[EXPERTS] is not run with it anyhow. */
static bool has_panels(uint32_t type) {
    return panel_type(type) == type && type != BLOCK_Q8_0 && type != BLOCK_Q4_K && type != BLOCK_F16;
}

static void run_models(struct selftest *t) {
    for (uint32_t type = 0; type < BLOCK_TYPES; type++)
        if (is_computable(type))
            run_case(t, &shapes[0], type, 0, "f16", false);
    for (size_t i = 0; i < MIXED; i++)
        run_case(t, &shapes[mixed[i].shape], mixed[i].type, mixed[i].other, "f16", false);
    for (uint32_t type = 0; type < BLOCK_TYPES; type++)
        if (is_computable(type) && has_panels(type))
            run_case(t, &shapes[EXPERTS], type, 0, "f16", false);
    for (size_t i = 0; i < KV_PAIRS; i++)
        run_case(t, &shapes[1], BLOCK_Q8_0, 0, kv_pairs[i], false);
    for (size_t k = 1; k < SHAPES; k++) {
        run_case(t, &shapes[k], BLOCK_Q8_0, 0, "f16", false);
        run_case(t, &shapes[k], BLOCK_Q4_K, 0, "f32", false);
        run_case(t, &shapes[k], BLOCK_F16, 0, "f16", false);
        run_case(t, &shapes[k], BLOCK_Q8_0, 0, "q8_0", false);
        run_case(t, &shapes[k], BLOCK_Q8_0, 0, "q4_0", false);
        run_case(t, &shapes[k], BLOCK_Q4_K, 0, "f16", true);
        run_case(t, &shapes[k], BLOCK_Q8_0, 0, "q8_0", true);
    }
}

/* A difference here names the op; in a model it may come from any. */
static stator_status run_ops(struct selftest *t, stator_error *e) {
    const struct device_options o = {.tier = "auto", .cpu_devices = 1};
    struct device_choice c;
    uint32_t n = 0;
    stator_status st = device_choose(t->list[t->index].facts.name, &o, &c, 1, &n, e);
    for (uint32_t i = 0; i < op_cases_count() && st == STATOR_OK; i++) {
        char name[OP_CASES_NAME];
        char text[256];
        stator_error why = {0};
        op_cases_name(i, name);
        if (t->only != NULL && strstr(name, t->only) == NULL)
            continue;
        const uint64_t began = clock_ns();
        const bool ran = op_run_compare(i, &c, 1, text, &why) == STATOR_OK;
        add_result(t, name, ran && text[0] == '\0', (double)(clock_ns() - began) * 1e-9,
                   ran ? text : why.text);
    }
    return st;
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
         .help = "the GPU, by name (level_zero:1) or PCI address (default: level_zero:0); or cpu:0: its "
                 "kernels are then compared with the scalar ones"},
        {.name = "only",
         .kind = OPTIONS_TEXT,
         .target = &t.only,
         .value = "TEXT",
         .help = "only the ops and models with this text in their names, such as \"op matmul\" or \"q8_0, "
                 "even\""},
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
    st = run_ops(&t, &e);
    if (st != STATOR_OK)
        return out_error("selftest", &e);
    run_models(&t);
    if (t.n_results == 0)
        return out_fail("selftest", STATOR_USAGE, "--only \"%s\": no op and no model has this in its name",
                        t.only);
    run_probes(&t);
    printf("%u cases, %u failed\n", t.n_results, t.failed);
    if (t.report != NULL && write_report(&t, &e) != STATOR_OK)
        return out_error("selftest", &e);
    return out_finish("selftest", t.failed == 0 ? STATOR_OK : STATOR_DEVICE);
}
