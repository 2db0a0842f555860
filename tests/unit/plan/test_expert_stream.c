/* Spilled experts, read where they lie or copied to the window ahead of use: when the plan says which, what
 * the launches copy, and that both give the CPU's bits. */
#include "device/launch/launch.h"
#include "engine/engine.h"
#include "engine_harness.h"
#include "experts_model.h"
#include "kernels/shared/opencl.h"
#include "plan/experts/expert_stream.h"
#include "plan/spill.h"
#undef CHECK /* the children have one of their own */
#include "zesim.h"

#ifndef ZESIM_ABSENT

#define SMALL "slices=1,subslices=1,eus=8,threads=8"
#define N_IDS 120
#define VOCAB 512
#define MOST  8

static char model[GGUF_WRITER_PATH];
static struct gguf_writer writer;

/* Experts that even short steps choose often. */
static struct experts_model model_of(uint32_t type) {
    struct experts_model m = experts_model_odd(type);
    m.experts = 5;
    m.expert_ff = 192;
    return m;
}

static void write_model(struct experts_model m) {
    writer = gguf_writer_new();
    experts_model_write(&writer, m);
    gguf_writer_finish(&writer);
    gguf_writer_memory_path(&writer, model);
}

/* sets: NULL at the end. device: NULL, or as --device has it. */
static stator *open_with(const char *const *sets, const char *device, stator_status *st, stator_error *e) {
    const char *all[MOST + 4] = {"memory.context=160", "memory.driver_reserve=64KiB",
                                 "memory.host_limit=1GiB", "memory.logits_rows=8"};
    size_t n = 4;
    for (; *sets != NULL; sets++)
        all[n++] = *sets;
    stator_options o = {.size = sizeof o,
                        .config = model,
                        .set = all,
                        .n_set = n,
                        .devices = &device,
                        .n_devices = device != NULL};
    stator *s = NULL;
    *st = stator_open(&o, &s, e);
    if (*st == STATOR_OK)
        *st = device != NULL ? stator_plan(s, e) : stator_start(s, e);
    return s;
}

static stator *planned(uint64_t memory, const char *batch, const char *oom) {
    char device[64];
    const char *sets[] = {batch, oom, NULL};
    stator_status st = STATOR_OK;
    stator_error e = {0};
    snprintf(device, sizeof device, "g=%lluB", (unsigned long long)memory);
    stator *s = open_with(sets, device, &st, &e);
    if (st != STATOR_OK)
        fail_msg("%s, %s: %s", device, batch, e.text);
    return s;
}

/* Bytes of a GPU that holds all but so much of the model. */
static uint64_t too_small_by(uint64_t bytes, const char *batch) {
    stator *s = planned(1 << 30, batch, "memory.on_oom=fail");
    uint64_t total = s->planning.plan.places[0].total;
    stator_close(s);
    assert_true(total > bytes);
    return (total - bytes) / 65536 * 65536;
}

static const struct plan_arena *window_of(const stator *s) {
    for (uint32_t i = 0; i < s->planning.plan.places[0].n_arenas; i++)
        if (strcmp(s->planning.plan.places[0].arenas[i].name, "window") == 0)
            return &s->planning.plan.places[0].arenas[i];
    return NULL;
}

/* There is a window exactly where a step of the largest batch would read more than there is, and from the
 * tokens on that do. */
static void decision(void **state) {
    (void)state;
    static const struct {
        const char *batch;
        uint64_t less;
        bool copies;
    } cases[] = {{"memory.batch=96", 512 << 10, true},
                 {"memory.batch=128", 640 << 10, true},
                 {"memory.batch=8", 512 << 10, false}, /* too few tokens */
                 {"memory.batch=96", 0, false},        /* nothing is spilled */
                 {"memory.batch=96", 64 << 10, false} /* the embedding suffices */};
    const struct experts_model m = model_of(BLOCK_Q8_0);
    write_model(m);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t memory = too_small_by(cases[i].less, cases[i].batch) + (cases[i].less == 0 ? 65536 : 0);
        stator *s = planned(memory, cases[i].batch, "memory.on_oom=spill");
        const struct plan_place *place = &s->planning.plan.places[0];
        const struct graph *g = &s->planning.devices[0].graph;
        const struct device_stream *stream = &s->planning.devices[0].model.stream;
        const double all = (double)expert_stream_spilled(g);
        if (cases[i].copies != (stream->tokens > 0))
            fail_msg("case %zu: copies from %u tokens on; spilled %g", i, stream->tokens, all);
        assert_int_equal(place->spill.stream_tokens, stream->tokens);
        assert_int_equal(stream->tokens > 0, window_of(s) != NULL);
        assert_true(place->total <= place->budget);
        if (stream->tokens > 0) {
            assert_true(window_of(s)->bytes >= 2 * stream->half_bytes && 2 * stream->half_bytes <= all / 2);
            assert_true(expert_stream_reads(g, stream->tokens) > all);
            assert_true(expert_stream_reads(g, stream->tokens - 1) <= all);
            assert_true(place->spill.per_batch < expert_stream_reads(g, g->want.batch));
        } else if (all > 0) {
            assert_true((double)place->spill.per_batch >= expert_stream_reads(g, g->want.batch) - 1);
        }
        stator_close(s);
    }
    gguf_writer_free(&writer);
}

/* Readings of an expert by the binomial formula, for a few tokens. */
static void expectation(void **state) {
    (void)state;
    write_model(model_of(BLOCK_Q8_0)); /* 3 of 5 experts */
    stator *s = planned(too_small_by(512 << 10, "memory.batch=96"), "memory.batch=96", "memory.on_oom=spill");
    const struct graph *g = &s->planning.devices[0].graph;
    const double all = (double)expert_stream_spilled(g);
    for (uint32_t n = 1; n <= 120; n += 7) {
        double expected = 0, p = 1; /* of k tokens that choose it */
        for (uint32_t i = 0; i < n; i++)
            p *= .4;
        for (uint32_t k = 0; k <= n; k++) {
            expected += p * (double)((k + OPENCL_DPAS_TILE - 1) / OPENCL_DPAS_TILE);
            p *= (double)(n - k) / (double)(k + 1) * .6 / .4;
        }
        double got = expert_stream_reads(g, n) / all;
        assert_true(got > expected * (1 - 1e-9) && got < expected * (1 + 1e-9));
    }
    stator_close(s);
    gguf_writer_free(&writer);
}

/* Of a list: every spilled matrix is copied once, into the half whose turn it is, and read there by that
 * launch alone; launches take every expert once. */
static void check_list(const struct device_model *m, const struct launch *l, uint32_t n, bool copies) {
    const struct graph *g = m->graph;
    const uint32_t own = g->weight_slices - g->spilled_slices;
    uint64_t copied = 0;
    uint32_t turn = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t at = turn % 2 * m->stream.half_bytes, end = at + m->stream.half_bytes;
        for (uint32_t k = 0; k < l[i].n_copies; k++) {
            const struct launch_copy *c = &l[i].copies[k];
            assert_true(g->ops[l[i].op].kind == GRAPH_EXPERTS && l[i].half == turn % 2);
            assert_true(c->from.arena == DEVICE_WEIGHTS && c->from.slice >= own && c->to == at);
            at += c->bytes;
            assert_true(at <= end);
            copied += c->bytes;
        }
        bool windowed = false;
        for (uint32_t k = 0; k < l[i].n_args; k++) {
            const struct launch_arg *a = &l[i].args[k];
            if (a->kind != LAUNCH_BUFFER)
                continue;
            windowed = windowed || a->buffer.arena == DEVICE_WINDOW;
            if (copies && a->buffer.arena == DEVICE_WEIGHTS && g->ops[l[i].op].kind == GRAPH_EXPERTS &&
                k < 21) /* step, source, the two weights */
                assert_true(a->buffer.slice < own || l[i].n_copies == 0 || !windowed);
        }
        assert_int_equal(windowed, l[i].n_copies > 0);
        turn += l[i].n_copies > 0;
    }
    assert_true(copied == (copies ? expert_stream_spilled(g) : 0));
    assert_true(turn <= launch_streamed(m));
    if (copies)
        assert_true(turn > 2);
}

static void launches(void **state) {
    (void)state;
    struct launch_traits traits = {
        .max_group = 256, .local_bytes = 1 << 16, .threads = 64, .sub_group_sizes = 8 | 16 | 32};
    static const uint32_t types[] = {BLOCK_Q8_0, BLOCK_F16};
    for (uint64_t by = 384 << 10; by <= 768 << 10; by += 64 << 10) {
        write_model(model_of(types[by / (64 << 10) % 2]));
        stator *s = planned(too_small_by(by, "memory.batch=96"), "memory.batch=96", "memory.on_oom=spill");
        const struct device_model *m = &s->planning.devices[0].model;
        const uint32_t from = m->stream.tokens;
        assert_in_range(from, 2, 96);
        uint32_t bounds[LAUNCH_BUCKETS], n_bounds = launch_buckets(96, from, bounds);
        for (uint32_t b = 0; b < n_bounds; b++) {
            uint32_t n = 0;
            assert_true(b == 0 || bounds[b] > bounds[b - 1]);
            assert_int_equal(launch_build(m, &traits, LAUNCH_BODY, bounds[b], NULL, &n, NULL), STATOR_OK);
            struct launch *l = calloc(n, sizeof *l);
            assert_non_null(l);
            assert_int_equal(launch_build(m, &traits, LAUNCH_BODY, bounds[b], l, &n, NULL), STATOR_OK);
            check_list(m, l, n, bounds[b] >= from);
            free(l);
        }
        /* Steps of fewer tokens have lists of their own. */
        uint32_t b = 0;
        while (bounds[b] < from - 1)
            b++;
        assert_int_equal(bounds[b], from - 1);
        stator_close(s);
        gguf_writer_free(&writer);
    }
}

/* ---- on the software driver */
static int32_t ids[N_IDS];
static float *expected; /* of the CPU */
static const char *devices, *batch, *deadline = "devices.deadline=60";
static bool copies;
static const char *failure;

static stator_status logits(stator *s, float *out, stator_error *e) {
    stator_request q = {.size = sizeof q, .kind = STATOR_LOGITS, .tokens = ids, .n_tokens = N_IDS};
    uint64_t id = 0;
    stator_status st = stator_submit(s, &q, &id, e);
    while (st == STATOR_OK) {
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        st = stator_poll(s, UINT64_MAX, &ev, &have, e);
        if (st != STATOR_OK || !have)
            continue;
        if (ev.kind == STATOR_EVENT_LOGITS)
            memcpy(out + ev.position * VOCAB, ev.logits, VOCAB * sizeof *out);
        else if (ev.reason == STATOR_REASON_FAILED)
            return error_set(e, ev.status, "%s", ev.text);
        else
            break;
    }
    return st;
}

static stator *start_gpu(stator_status *st, stator_error *e) {
    char use[64];
    snprintf(use, sizeof use, "devices.use=\"%s\"", devices);
    const char *sets[] = {use, batch, "memory.on_oom=spill", deadline, NULL};
    return open_with(sets, NULL, st, e);
}

static void same(void) {
    stator_error e = {0};
    stator_status st = STATOR_OK;
    float *got = calloc(N_IDS, VOCAB * sizeof *got);
    CHECK(got != NULL);
    stator *s = start_gpu(&st, &e);
    fprintf(stderr, "%s\n", e.text);
    CHECK(st == STATOR_OK);
    for (int round = 0; round < 2; round++) {
        memset(got, 0, N_IDS * VOCAB * sizeof *got);
        st = logits(s, got, &e);
        fprintf(stderr, "%s\n", e.text);
        CHECK(st == STATOR_OK);
        CHECK(memcmp(got, expected, N_IDS * VOCAB * sizeof *got) == 0);
    }
    CHECK(spill_all(&s->planning.plan) > 0);
    uint64_t streamed = 0;
    for (uint32_t i = 0; i < s->planning.n_devices; i++) {
        uint64_t of = s->devices[i].streamed_bytes,
                 all = expert_stream_spilled(&s->planning.devices[i].graph);
        CHECK(all > 0 && (of > 0) == copies && of % all == 0);
        streamed += of;
    }
    CHECK((streamed > 0) == copies);
    stator_close(s);
    free(got);
    CHECK(zesim_counter("violations") == 0);
    CHECK(zesim_counter("alloc.device.gpu0.bytes") == zesim_counter("free.device.gpu0.bytes"));
}

static void fails(void) {
    stator_error e = {0};
    stator_status st = STATOR_OK;
    float *got = calloc(N_IDS, VOCAB * sizeof *got);
    CHECK(got != NULL);
    stator *s = start_gpu(&st, &e);
    if (st == STATOR_OK)
        st = logits(s, got, &e);
    fprintf(stderr, "%s\n", e.text);
    CHECK(st == STATOR_DEVICE && strstr(e.text, failure) != NULL && strstr(e.text, "level_zero:0") != NULL);
    stator_close(s);
    free(got);
}

static void reference(struct experts_model m) {
    write_model(m);
    uint64_t random = 11;
    for (size_t i = 0; i < N_IDS; i++)
        ids[i] = (int32_t)testing_below(&random, VOCAB);
    static const char *const sets[] = {"devices.use=cpu:0", NULL};
    stator_status st = STATOR_OK;
    stator_error e = {0};
    stator *s = open_with(sets, NULL, &st, &e);
    if (st != STATOR_OK)
        fail_msg("%s", e.text);
    expected = harness_logits(s, ids, N_IDS);
    stator_close(s);
}

static void forget(void) {
    free(expected);
    gguf_writer_free(&writer);
}

/* Chunks that copy, chunks that read, in any order that the API leaves open, over a slow bus, without a copy
 * engine, and on two devices. */
static void same_bits(void **state) {
    (void)state;
    ZESIM_NEED();
    static const struct {
        uint32_t type;
        const char *devices, *batch, *zesim;
        uint64_t less; /* room than the model takes */
        bool copies;
    } cases[] = {
        {BLOCK_Q8_0, "level_zero:0", "memory.batch=96", "", 512 << 10, true},
        {BLOCK_Q8_0, "level_zero:0", "memory.batch=8", ",order=shuffle", 512 << 10, false},
        {BLOCK_Q8_0, "level_zero:0, level_zero:1", "memory.batch=64", ",order=shuffle,devices=2", 1 << 20,
         true},
        {BLOCK_F16, "level_zero:0", "memory.batch=64", ",order=reverse,gpu0.host_rate=100MB", 640 << 10,
         true},
        {BLOCK_F16, "level_zero:0", "memory.batch=64", ",copy_engines=0", 640 << 10, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char zesim[160];
        reference(model_of(cases[i].type));
        devices = cases[i].devices, batch = cases[i].batch, copies = cases[i].copies;
        snprintf(zesim, sizeof zesim, SMALL ",memory=%lluB%s",
                 (unsigned long long)too_small_by(cases[i].less, cases[i].batch), cases[i].zesim);
        zesim_run(zesim, same);
        forget();
    }
}

/* A copy that fails, one that hangs, a queue that refuses: an error that names the device, in time. Only what
 * hangs may run into the deadline, however slow the machine is. */
static void faults(void **state) {
    (void)state;
    ZESIM_NEED();
    static const struct {
        const char *fault, *says;
    } cases[] = {{"exec.copy@60:lost", "lost"},
                 {"exec.copy@60:hang", "has not ended after"},
                 {"zeCommandQueueCreate@2:ERROR_UNKNOWN", "zeCommandQueueCreate"},
                 {"zeCommandListAppendEventReset@1:ERROR_UNKNOWN", "zeCommandListAppendEventReset"},
                 {"zeEventPoolCreate@1:ERROR_UNKNOWN", "zeEventPoolCreate"}};
    reference(model_of(BLOCK_Q8_0));
    devices = "level_zero:0", batch = "memory.batch=96";
    uint64_t memory = too_small_by(512 << 10, batch);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char zesim[160];
        snprintf(zesim, sizeof zesim, SMALL ",memory=%lluB,fault=%s", (unsigned long long)memory,
                 cases[i].fault);
        failure = cases[i].says;
        deadline = strstr(cases[i].fault, "hang") != NULL ? "devices.deadline=2" : "devices.deadline=300";
        zesim_run(zesim, fails);
    }
    forget();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(decision), cmocka_unit_test(expectation),
                                       cmocka_unit_test(launches), cmocka_unit_test(same_bits),
                                       cmocka_unit_test(faults)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
