/* memory.experts = "host": the processors compute the experts of GPUs, run by the software driver, but those
 * of long steps (memory.expert_window). Every logit and every answer has the bits of a run on the CPU, with
 * one token and with many in a step, on one GPU and on two, with speculation; faults end in an error. */
#include "engine/engine.h"
#include "experts_model.h"
#include "kv_folder.h"
#include "nextn_play.h"
#include "prefix_play.h"
#include "plan/spill.h"
#undef CHECK /* the children have one of their own */
#include "zesim.h"
#ifndef ZESIM_ABSENT

#define SMALL "slices=1,subslices=1,eus=8,threads=8"

/* Of the next child. */
static const char *path, *use, *batch, *rows = "memory.logits_rows=8", *deadline = "devices.deadline=120",
                                       *failure, *cached = "memory.expert_slots=0",
                                       *window = "memory.expert_window=0";
static bool hits;    /* experts in slots are to be used */
static bool shorter; /* some steps have fewer tokens than copy experts to the window */
static int32_t ids[PEER_TOKENS];
static uint32_t n_ids;
static float *expected; /* of the CPU */
static const struct peer_model *shape;
static struct nextn_expected guesses[NEXTN_PROMPTS];

static stator *start(stator_status *st, stator_error *e) {
    const char *sets[] = {use,
                          batch,
                          deadline,
                          "memory.experts=host",
                          cached,
                          window,
                          "memory.context=256",
                          rows,
                          "memory.driver_reserve=1MiB",
                          "cpu.threads=2"};
    stator_options o = {
        .size = sizeof o, .config = path, .set = sets, .n_set = sizeof sets / sizeof sets[0], .reuse = 1};
    stator *s = NULL;
    *st = stator_open(&o, &s, e);
    if (*st == STATOR_OK)
        *st = stator_start(s, e);
    return s;
}

static void same_logits(void) {
    stator_error e = {0};
    stator_status st = STATOR_OK;
    stator *s = start(&st, &e);
    fprintf(stderr, "%s\n", e.text);
    CHECK(st == STATOR_OK);
    const uint32_t vocab = harness_vocab(s);
    float *got = harness_logits(s, ids, n_ids);
    CHECK(memcmp(got, expected, (size_t)n_ids * vocab * sizeof *got) == 0);
    free(got);
    uint64_t helped = 0, slots = 0, near = 0, copies = 0, streamed = 0;
    const uint32_t from = (uint32_t)atoi(strchr(window, '=') + 1);
    for (uint32_t i = 0; i < s->planning.n_devices; i++) {
        const struct graph *g = &s->planning.devices[i].graph;
        bool has = false; /* the first of two may have dense layers alone */
        for (uint32_t k = 0; k < g->n_ops; k++)
            has = has || g->ops[k].kind == GRAPH_EXPERTS;
        CHECK(s->planning.devices[i].model.hosted == has);
        CHECK((s->planning.plan.places[i].spill.hosted > 0) == has);
        CHECK(s->planning.plan.places[i].spill.weights == 0);
        CHECK(s->planning.devices[i].model.stream.tokens == (has ? from : 0));
        streamed += s->devices[i].streamed_bytes;
        helped += s->devices[i].helped_rows;
        near += s->devices[i].slot_rows;
        copies += s->devices[i].slot_copies;
        for (uint32_t k = 0; k < g->n_ops; k++) {
            slots += graph_op_opens_experts(&g->ops[k]) ? n_ids * g->ops[k].experts.used : 0;
            for (uint32_t w = 0; g->ops[k].kind == GRAPH_EXPERTS && w < g->ops[k].n_weights; w++)
                CHECK(g->weights[g->ops[k].weight[w]].spilled ==
                      graph_weight_panels(&g->weights[g->ops[k].weight[w]]));
        }
    }
    CHECK(strcmp(cached, "memory.expert_slots=0") != 0 || near + copies == 0);
    fprintf(stderr, "hits %llu misses %llu copies %llu streamed %llu\n", (unsigned long long)near,
            (unsigned long long)helped, (unsigned long long)copies, (unsigned long long)streamed);
    CHECK(spill_all(&s->planning.plan) > 0);
    if (from > 0)
        CHECK(streamed > 0 && helped + near < slots && (helped > 0) == shorter);
    else
        CHECK(streamed == 0 && helped + near == slots && (near > 0 || !hits) && (copies > 0 || !hits));
    stator_close(s);
    CHECK(zesim_counter("violations") == 0);
    CHECK(zesim_counter("alloc.device.gpu0.bytes") == zesim_counter("free.device.gpu0.bytes"));
    CHECK(zesim_counter("alloc.host.host.bytes") == zesim_counter("free.host.host.bytes"));
}

static void reference(const char *model) {
    static const char *const sets[] = {"devices.use=cpu:0", "memory.context=256", "cpu.threads=2",
                                       "memory.logits_rows=8", NULL};
    path = model;
    stator *s = harness_start(model, sets);
    expected = harness_logits(s, ids, n_ids);
    stator_close(s);
}

struct run {
    const char *model;
    uint32_t type, n_ids;
    const char *use, *batch, *zesim;
    bool hits; /* there are steps enough that experts in slots are chosen again */
};

/* All steps copy experts to the window, or those of `many` tokens. */
static void windows(const char *zesim, uint32_t many) {
    char from[48];
    for (uint32_t k = 0; k < 3; k++) {
        const uint32_t tokens = k == 0 ? 1 : many;
        snprintf(from, sizeof from, "memory.expert_window=%u", tokens);
        window = from;
        cached = k == 2 ? "memory.expert_slots=2" : "memory.expert_slots=0";
        shorter = tokens > 1 && n_ids % many != 0;
        print_message("    %s, %s\n", window, cached);
        if (tokens > 1 || k == 0)
            zesim_run(zesim, same_logits);
    }
    window = "memory.expert_window=0";
}

/* Biases, factors, clamped gates, a shared expert with a gate, recurrent layers, experts beside a dense
 * feed-forward; steps of one token, of few and of many. */
static void same_bits(void **state) {
    (void)state;
    ZESIM_NEED();
    static const char *const slots[] = {"memory.expert_slots=0", "memory.expert_slots=2",
                                        "memory.expert_slots=1024"};
    static const struct run runs[] = {
        {"qwen3moe-odd", BLOCK_Q8_0, 50, "level_zero:0", "memory.batch=40", "devices=1,order=shuffle", false},
        {"qwen3moe-odd", BLOCK_Q8_0, 50, "level_zero:0", "memory.batch=3", "devices=1,order=shuffle", true},
        {"qwen3moe-odd", BLOCK_F16, 4, "level_zero:0", "memory.batch=1", "devices=1", true},
        {"qwen3moe-odd", BLOCK_F16, 40, "level_zero:0", "memory.batch=1", "devices=1", true},
        {"qwen35moe-odd", BLOCK_Q8_0, 30, "level_zero:0", "memory.batch=4", "devices=1,order=reverse", true},
        {"gpt-oss-odd", BLOCK_Q8_0, 22, "level_zero:0, level_zero:1", "memory.batch=20", "devices=2", false},
        {"gpt-oss-odd", BLOCK_Q8_0, 60, "level_zero:0, level_zero:1", "memory.batch=5", "devices=2", true},
        {"gpt-oss-scales", BLOCK_F32, 40, "level_zero:0", "memory.batch=2", "devices=1,copy_engines=0", true},
        {"nemotron_h_moe-latent", BLOCK_Q8_0, 40, "level_zero:0", "memory.batch=4", "devices=1", true},
        {"qwen35moe-scales", BLOCK_Q8_0, 30, "level_zero:0", "memory.batch=3", "devices=1", true},
        {"gemma4-experts", BLOCK_Q8_0, 20, "level_zero:0", "memory.batch=3", "devices=1", true},
        {"glm4moe-odd", BLOCK_F16, 6, "level_zero:0, level_zero:1", "memory.batch=4", "devices=2,peer=none",
         false},
    };
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        struct gguf_writer w = gguf_writer_new();
        char model[GGUF_WRITER_PATH], devices[96], zesim[128];
        shape = peer_model_named(runs[i].model);
        peer_model_write(&w, shape, runs[i].type);
        assert_true(gguf_writer_finish(&w));
        n_ids = runs[i].n_ids;
        for (uint32_t k = 0; k < n_ids; k++)
            ids[k] = peer_token(shape, k);
        reference(gguf_writer_memory_path(&w, model));
        snprintf(devices, sizeof devices, "devices.use=\"%s\"", runs[i].use);
        snprintf(zesim, sizeof zesim, SMALL ",%s", runs[i].zesim);
        use = devices, batch = runs[i].batch;
        rows = atoi(strchr(batch, '=') + 1) < 4 ? "memory.logits_rows=1" : "memory.logits_rows=4";
        for (size_t k = 0; k < sizeof slots / sizeof slots[0]; k++) {
            cached = slots[k];
            hits = k > 0 && runs[i].hits;
            print_message("%s, %s, %s, %s\n", runs[i].model, use, batch, cached);
            zesim_run(zesim, same_logits);
        }
        hits = false;
        windows(zesim, (uint32_t)atoi(strchr(batch, '=') + 1));
        cached = slots[0];
        free(expected);
        gguf_writer_free(&w);
    }
}

/* Guesses of an MTP head that has experts itself, kept and refused. */
static void guess(void) {
    const char *const sets[] = {use, "memory.driver_reserve=1MiB", "memory.experts=host", cached, window,
                                NULL};
    nextn_play(path, shape, &guesses[0], 0.6f, sets);
    CHECK(zesim_counter("violations") == 0);
}

static void speculation(void **state) {
    (void)state;
    ZESIM_NEED();
    struct gguf_writer w;
    char model[GGUF_WRITER_PATH];
    shape = peer_model_named("qwen35moe-nextn");
    nextn_play_expected(shape->name, guesses);
    path = nextn_play_model(shape, &w, model);
    use = "devices.use=\"level_zero:0\"";
    zesim_run("devices=1," SMALL, guess);
    cached = "memory.expert_slots=3";
    zesim_run("devices=1," SMALL, guess);
    window = "memory.expert_window=4"; /* prompts and steps with guesses, but no pass of the head */
    zesim_run("devices=1," SMALL, guess);
    window = "memory.expert_window=1";
    zesim_run("devices=1," SMALL, guess);
    window = "memory.expert_window=0";
    cached = "memory.expert_slots=0";
    gguf_writer_free(&w);
}

/* Several sequences at a time, with draft tokens, prefixes from memory and from files. */
static void converse(void) {
    static const char *const plain[] = {"devices.use=cpu:0",  "server.prefix_cache=false",
                                        "memory.context=256", "memory.batch=64",
                                        "cpu.threads=2",      NULL};
    const char *const sets[] = {use,
                                cached,
                                window,
                                batch,
                                kv_folder_set,
                                "memory.experts=host",
                                "memory.context=256",
                                "memory.sequences=3",
                                "speculation.mode=ngram",
                                "speculation.tokens=3",
                                "server.checkpoints=5",
                                "memory.driver_reserve=1MiB",
                                "cpu.threads=2",
                                NULL};
    struct prefix_play p;
    (void)prefix_play(use, path, sets, plain, 4, &p);
    CHECK(p.stats.slot_rows > 0 && p.stats.slot_copies > 0 && p.stats.helped_rows > 0);
    CHECK(!hits || p.stats.kv_hits > 0);
    CHECK(zesim_counter("violations") == 0);
}

static void conversations(void **state) {
    (void)state;
    ZESIM_NEED();
    static const char *const models[] = {"qwen35moe-odd", "gpt-oss-odd"};
    for (size_t i = 0; i < 2; i++) {
        struct gguf_writer w = gguf_writer_new();
        char model[GGUF_WRITER_PATH];
        peer_model_write(&w, peer_model_named(models[i]), BLOCK_Q8_0);
        assert_true(gguf_writer_finish(&w));
        path = gguf_writer_memory_path(&w, model);
        prefix_play_texts = 2;
        cached = "memory.expert_slots=3";
        use = "devices.use=level_zero:0", batch = "memory.batch=24", hits = false;
        zesim_run("devices=1," SMALL, converse);
        use = "devices.use=\"level_zero:0, level_zero:1\"", batch = "memory.batch=40", hits = true;
        zesim_run("devices=2," SMALL, converse);
        window = "memory.expert_window=7";
        zesim_run("devices=2," SMALL, converse);
        window = "memory.expert_window=0";
        gguf_writer_free(&w);
    }
    cached = "memory.expert_slots=0";
}

static void fails(void) {
    stator_error e = {0};
    stator_status st = STATOR_OK;
    stator *s = start(&st, &e);
    if (st == STATOR_OK) {
        stator_request q = {.size = sizeof q, .kind = STATOR_LOGITS, .tokens = ids, .n_tokens = n_ids};
        uint64_t id = 0;
        st = stator_submit(s, &q, &id, &e);
        while (st == STATOR_OK) {
            stator_event ev = {.size = sizeof ev};
            int have = 0;
            st = stator_poll(s, UINT64_MAX, &ev, &have, &e);
            if (st != STATOR_OK || !have || ev.kind != STATOR_EVENT_DONE)
                continue;
            CHECK(ev.reason == STATOR_REASON_FAILED);
            st = error_set(&e, ev.status, "%s", ev.text);
        }
    }
    fprintf(stderr, "%s\n", e.text);
    CHECK(st == STATOR_DEVICE && strstr(e.text, failure) != NULL && strstr(e.text, "level_zero:0") != NULL);
    stator_close(s);
}

/* Of the driver, before and in the middle of an exchange. */
static void faults(void **state) {
    (void)state;
    ZESIM_NEED();
    static const struct {
        const char *fault, *says, *window;
    } cases[] = {
        {"exec.copy@40:lost", "lost", "memory.expert_window=0"},
        {"exec.kernel@40:hang", "has not ended after", "memory.expert_window=0"},
        {"zeEventPoolCreate@1:ERROR_UNKNOWN", "zeEventPoolCreate(of the helper)", "memory.expert_window=0"},
        {"zeEventCreate@2:ERROR_UNKNOWN", "zeEventCreate(of the helper)", "memory.expert_window=0"},
        {"zeCommandListAppendEventReset@1:ERROR_UNKNOWN", "zeCommandListAppendEventReset",
         "memory.expert_window=0"},
        {"zeEventHostSynchronize@3:ERROR_DEVICE_LOST", "lost", "memory.expert_window=0"},
        {"zeEventHostReset@2:ERROR_UNKNOWN", "zeEventHostReset", "memory.expert_window=0"},
        {"zeEventHostSignal@2:ERROR_UNKNOWN", "zeEventHostSignal", "memory.expert_window=0"},
        {"zeEventPoolCreate@1:ERROR_UNKNOWN", "zeEventPoolCreate(of", "memory.expert_window=6"},
        {"zeEventPoolCreate@2:ERROR_UNKNOWN", "zeEventPoolCreate(of", "memory.expert_window=6"},
        {"exec.copy@25:lost", "lost", "memory.expert_window=6"},
        {"exec.copy@60:lost", "lost", "memory.expert_window=6"},
        {"exec.kernel@60:hang", "has not ended after", "memory.expert_window=6"},
        {"zeEventHostSynchronize@3:ERROR_DEVICE_LOST", "lost", "memory.expert_window=6"}};
    struct gguf_writer w = gguf_writer_new();
    char model[GGUF_WRITER_PATH];
    experts_model_write(&w, experts_model_small());
    assert_true(gguf_writer_finish(&w));
    path = gguf_writer_memory_path(&w, model);
    n_ids = 20;
    for (uint32_t k = 0; k < n_ids; k++)
        ids[k] = (int32_t)(k % 90);
    use = "devices.use=\"level_zero:0\"", batch = "memory.batch=8";
    for (size_t i = 0; i < 2 * (sizeof cases / sizeof cases[0]); i++) {
        char zesim[160];
        const char *fault = cases[i / 2].fault;
        snprintf(zesim, sizeof zesim, "devices=1," SMALL ",fault=%s", fault);
        failure = cases[i / 2].says;
        cached = i % 2 ? "memory.expert_slots=2" : "memory.expert_slots=0";
        window = cases[i / 2].window;
        deadline = strstr(fault, "hang") != NULL || strstr(fault, "Signal") != NULL ? "devices.deadline=2"
                                                                                    : "devices.deadline=300";
        print_message("%s, %s, %s\n", fault, cached, window);
        zesim_run(zesim, fails);
    }
    deadline = "devices.deadline=120";
    gguf_writer_free(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits), cmocka_unit_test(speculation),
        cmocka_unit_test_setup_teardown(conversations, kv_folder_make, kv_folder_remove),
        cmocka_unit_test(faults)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
