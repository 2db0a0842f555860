/* memory.on_oom = "spill": what a plan puts into host memory and in which order, that it is no more than
 * necessary, and that every byte of the model has one place. */
#include "testing.h"

#include "device/launch/launch.h"
#include "engine/engine.h"
#include "engine/plan_view.h"
#include "plan/spill.h"
#include "kernels/kernels.h"

#define DEMO    "configs/demo.cfg"
#define UNTIED  "../shared/oracles/models/llama-untied.gguf"
#define RESERVE (1u << 20)
#define MAX_SET 8

static const char *shared_model(const char *path) {
    const char *shared = getenv("STATOR_SHARED");
    static char out[512];
    if (shared == NULL)
        return path;
    snprintf(out, sizeof out, "%s/%s", shared, path + strlen("../shared/"));
    return out;
}

static stator *open_for(const char *config, const char *on_oom, const char *const *extra, size_t n_extra,
                        const char *const *devices, size_t n_devices) {
    char oom[32];
    const char *set[MAX_SET] = {"memory.host_limit=1GiB", "memory.driver_reserve=1MiB", oom};
    assert_true(n_extra + 3 <= MAX_SET);
    snprintf(oom, sizeof oom, "memory.on_oom=%s", on_oom);
    for (size_t i = 0; i < n_extra; i++)
        set[3 + i] = extra[i];
    stator_options o = {.size = sizeof o,
                        .config = config,
                        .set = set,
                        .n_set = 3 + n_extra,
                        .devices = devices,
                        .n_devices = n_devices};
    stator *s = NULL;
    stator_error e;
    if (stator_open(&o, &s, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    return s;
}

/* Bytes that the blocks of this device's weights and KV have, on the device or in its spill. */
static void sum_blocks(const struct plan *p, uint32_t device, bool spilled, uint64_t *weights, uint64_t *kv) {
    *weights = *kv = 0;
    for (uint32_t i = 0; i < p->n_blocks; i++) {
        const struct plan_block *b = &p->blocks[i];
        const char *arena = p->places[b->place].arenas[b->arena].name;
        bool here =
            spilled ? p->places[b->place].is_host && b->arena == p->places[device].spill.arena && b->arena > 0
                    : b->place == device && (strcmp(arena, "weights") == 0 || strcmp(arena, "kv") == 0);
        if (here)
            *(strstr(b->name, ".kv") != NULL ? kv : weights) += b->bytes;
    }
}

static uint64_t packed_bytes(const struct graph *g) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < g->n_weights; i++)
        sum += g->weights[i].bytes;
    return sum;
}

/* Every panel is in one piece, pieces of what is spilled are in the last slices, the others are not. */
static void check_pieces(const struct graph *g) {
    uint32_t own = g->weight_slices - g->spilled_slices;
    for (uint32_t i = 0; i < g->n_weights; i++) {
        const struct graph_weight *w = &g->weights[i];
        uint32_t panels = w->packed ? w->layout.panels : 1;
        uint32_t next = 0;
        for (uint32_t k = 0; k < w->n_pieces; k++) {
            const struct graph_piece *piece = &w->pieces[k];
            assert_int_equal(piece->first_panel, next);
            next += piece->panels;
            assert_int_equal(piece->slice >= own, piece->first_panel >= panels - w->spilled);
        }
        assert_int_equal(next, panels);
    }
}

/* One device's place: all of it somewhere, once, in the order that on_oom promises. */
static void check_device(const stator *s, const struct plan *p, uint32_t i) {
    const struct graph *g = &s->planning.devices[i].graph;
    const struct plan_place *place = &p->places[i];
    const struct plan_spill *x = &place->spill;
    uint64_t weights = 0, kv = 0, far_weights = 0, far_kv = 0;
    sum_blocks(p, i, false, &weights, &kv);
    sum_blocks(p, i, true, &far_weights, &far_kv);
    uint32_t layers = g->want.end_layer - g->want.first_layer;
    assert_true(weights + far_weights == packed_bytes(g) && far_weights == x->weights && far_kv == x->kv);
    assert_true(kv + far_kv ==
                layers * s->planning.shape->n_kv_heads * s->planning.devices[i].model.caches[0].unit_bytes);
    assert_true(x->kv == x->kv_layers * s->planning.shape->n_kv_heads *
                             s->planning.devices[i].model.caches[0].unit_bytes);
    check_pieces(g);
    bool looked_up = true, all_kv = x->kv_layers == layers;
    for (uint32_t w = 0; w < g->n_weights; w++) {
        bool embeds = w == 0 && i == 0 && g->ops[g->n_ops - 2].weight[0] != 0;
        if (g->weights[w].spilled > 0 && !embeds)
            assert_true(all_kv); /* KV goes before matrices that are multiplied */
        if (embeds && g->weights[w].spilled < g->weights[w].layout.panels)
            looked_up = false;
    }
    if (x->kv_layers > 0)
        assert_true(looked_up); /* and what is only looked up before KV */
    assert_int_equal(x->weights + x->kv > 0, x->arena > 0);
}

/* Nothing could come back: the next thing in the order, taken back, is too much for the device. */
static void check_least(const stator *s, const struct plan *p, uint32_t i) {
    const struct plan_place *place = &p->places[i];
    const struct graph *g = &s->planning.devices[i].graph;
    uint64_t room = place->budget - place->total;
    if (place->spill.weights == 0 && place->spill.kv_layers > 0)
        assert_true(room < s->planning.shape->n_kv_heads * s->planning.devices[i].model.caches[0].unit_bytes);
    uint64_t most = 0; /* of one step of a cut, and the page that it may begin */
    for (uint32_t w = 0; w < g->n_weights; w++)
        if (g->weights[w].packed)
            most = ARITH_MAX(most,
                             ARITH_MIN(g->weights[w].layout.panels, 16u) * g->weights[w].layout.panel_bytes);
    if (place->spill.weights > 0 && place->spill.kv_layers == 0)
        assert_true(room < most + 2 * 65536);
    /* Matrices of less than a step are all or nothing. */
    if (place->spill.weights > 0)
        assert_true(room < most + 2 * 65536 || place->spill.weights + room < most);
}

static void sweep(const char *config, uint64_t least, uint64_t most, const char *more) {
    uint64_t spilled_before = UINT64_MAX;
    bool kinds[3] = {false, false, false}; /* none, KV or rows, matrices */
    for (uint64_t memory = least; memory <= most; memory += 64 << 10) {
        char device[96];
        const char *devices[] = {device};
        snprintf(device, sizeof device, "gpu0=%lluB%s", (unsigned long long)memory, more);
        stator *s = open_for(config, "spill", NULL, 0, devices, 1);
        stator_error e;
        stator_status st = stator_plan(s, &e);
        if (st != STATOR_OK)
            fail_msg("%s: %s", device, e.text);
        const struct plan *p = &s->planning.plan;
        uint32_t a, b;
        assert_true(p->fits && p->places[0].total <= p->places[0].budget);
        plan_check(p);
        assert_true(plan_blocks_apart(p, &a, &b));
        check_device(s, p, 0);
        check_least(s, p, 0);
        uint64_t spilled = spill_bytes(&p->places[0]);
        assert_true(spilled <= spilled_before); /* more memory, no more spill */
        spilled_before = spilled;
        kinds[spilled == 0 ? 0 : p->places[0].spill.kv_layers == s->planning.shape->n_layers ? 2 : 1] = true;
        stator_close(s);
    }
    assert_true(kinds[0] && kinds[1] && kinds[2]);
}

static void test_every_size_of_gpu(void **state) {
    (void)state;
    sweep(DEMO, 3 << 20, 10 << 20, "");
    sweep(DEMO, 3 << 20, 10 << 20, ",max_alloc=1MiB");
}

/* The embedding is only looked up: it goes first. */
static void test_untied(void **state) {
    (void)state;
    const char *model = shared_model(UNTIED);
    if (access(model, R_OK) != 0) {
        print_message("skipped: %s is absent\n", model);
        skip();
    }
    static const char *const set[] = {"memory.batch=8", "memory.context=128"};
    for (uint64_t memory = 1600; memory < 4096; memory += 64) {
        char device[64];
        const char *devices[] = {device};
        snprintf(device, sizeof device, "gpu0=%lluKiB", (unsigned long long)memory);
        stator *s = open_for(model, "spill", set, 2, devices, 1);
        stator_error e;
        if (stator_plan(s, &e) == STATOR_OK)
            check_device(s, &s->planning.plan, 0);
        if (s->planning.plan.fits && s->planning.plan.places[0].spill.per_token > 0) {
            const struct graph_weight *w = &s->planning.devices[0].graph.weights[0];
            assert_true(s->planning.plan.places[0].spill.per_token == w->layout.panel_bytes / PANEL_ROWS);
        }
        stator_close(s);
    }
}

static void test_split(void **state) {
    (void)state;
    static const char *const devices[] = {"a=4MiB", "b=5MiB", "cpu:0=1GiB"};
    static const char *const splits[] = {"devices.split=4,4", "devices.split=auto", "devices.split=1,7"};
    for (size_t i = 0; i < 3; i++) {
        stator *s = open_for(DEMO, "spill", &splits[i], 1, devices, 2);
        stator_error e;
        assert_int_equal(stator_plan(s, &e), STATOR_OK);
        for (uint32_t d = 0; d < 2; d++) {
            assert_true(s->planning.plan.places[d].total <= s->planning.plan.places[d].budget);
            check_device(s, &s->planning.plan, d);
        }
        assert_true(spill_all(&s->planning.plan) > 0);
        stator_close(s);
    }
    /* Nothing is spilled that another split has room for, and a CPU device spills nothing. */
    stator *s = open_for(DEMO, "spill", NULL, 0, devices + 1, 2);
    stator_error e;
    assert_int_equal(stator_plan(s, &e), STATOR_OK);
    assert_true(spill_all(&s->planning.plan) == 0 && s->planning.plan.places[1].n_layers > 0);
    stator_close(s);
    static const char *const all_on_a[] = {"devices.split=7,1"};
    s = open_for(DEMO, "spill", all_on_a, 1, devices + 1, 2);
    assert_int_equal(stator_plan(s, &e), STATOR_OK);
    assert_true(spill_bytes(&s->planning.plan.places[0]) > 0 &&
                spill_bytes(&s->planning.plan.places[1]) == 0);
    stator_close(s);
}

/* Where the plan fits without spill, it is the plan with spill too: no byte goes to the host because another
 * split was not tried. */
static void test_no_spill_without_need(void **state) {
    (void)state;
    uint32_t fitted = 0;
    for (uint64_t kib = 2048; kib <= 8192; kib += 24) {
        char a[64];
        const char *devices[] = {a,
                                 kib % 48 == 0 ? "b=32MiB,bandwidth=100GB/s" : "b=5600KiB,bandwidth=300GB/s"};
        snprintf(a, sizeof a, "a=%lluKiB,bandwidth=900GB/s", (unsigned long long)kib);
        stator *fail = open_for(DEMO, "fail", NULL, 0, devices, 2);
        stator *spill = open_for(DEMO, "spill", NULL, 0, devices, 2);
        stator_error e;
        bool fits = stator_plan(fail, &e) == STATOR_OK;
        fitted += fits;
        assert_int_equal(stator_plan(spill, &e), STATOR_OK);
        if (fits)
            assert_int_equal(fail->planning.plan.places[0].n_layers, spill->planning.plan.places[0].n_layers);
        assert_int_equal(fits, spill_all(&spill->planning.plan) == 0);
        stator_close(fail);
        stator_close(spill);
    }
    assert_in_range(fitted, 30, 240);
}

/* The GPU's launches clear every unit of KV once, in the slices that the plan has for it, and point nowhere
 * else. */
static void test_launches(void **state) {
    (void)state;
    struct launch_traits t = {
        .max_group = 256, .local_bytes = 1 << 16, .threads = 64, .sub_group_sizes = 8 | 16 | 32};
    for (uint64_t memory = 4; memory <= 10; memory++) {
        char device[48];
        const char *devices[] = {device};
        snprintf(device, sizeof device, "gpu0=%lluMiB,max_alloc=1MiB", (unsigned long long)memory);
        stator *s = open_for(DEMO, "spill", NULL, 0, devices, 1);
        stator_error e;
        uint32_t n = 0;
        assert_int_equal(stator_plan(s, &e), STATOR_OK);
        const struct device_model *m = &s->planning.devices[0].model;
        struct device_cache_part own = device_cache_part(m, 0, false);
        struct device_cache_part far = device_cache_part(m, 0, true);
        assert_true(own.end == far.first && own.units + far.units == 8 * s->planning.shape->n_kv_heads);
        assert_int_equal(far.units > 0, memory < 10);
        assert_int_equal(launch_build(m, &t, LAUNCH_BODY, 1, NULL, &n, &e), STATOR_OK);
        struct launch *l = calloc(n, sizeof *l);
        assert_non_null(l);
        assert_int_equal(launch_build(m, &t, LAUNCH_BODY, 1, l, &n, &e), STATOR_OK);
        uint32_t cleared[2] = {0, 0};
        uint32_t next = 0;
        for (uint32_t i = 0; i < n; i++) {
            for (uint32_t k = 0; k < l[i].n_args; k++) {
                const struct launch_arg *a = &l[i].args[k];
                if (a->kind == LAUNCH_BUFFER && a->buffer.arena == DEVICE_KV)
                    assert_true(a->buffer.slice < far.end);
                if (a->kind == LAUNCH_BUFFER && a->buffer.arena == DEVICE_WEIGHTS)
                    assert_true(a->buffer.slice < m->graph->weight_slices);
            }
            if (m->graph->ops[l[i].op].kind != GRAPH_FILL)
                continue;
            assert_int_equal(l[i].args[1].buffer.slice, next);
            cleared[next >= own.end] += l[i].args[2].u32;
            next++;
        }
        assert_true(next == far.end && cleared[0] == own.units && cleared[1] == far.units);
        free(l);
        stator_close(s);
    }
}

/* The hash says what the plan does; where the host is too small, that is what is short. */
static void test_hash_and_host(void **state) {
    (void)state;
    static const char *const small[] = {"gpu0=8MiB"};
    static const char *const large[] = {"gpu0=1GiB"};
    static const char *const limit[] = {"memory.host_limit=19MiB"};
    char hash[3][HASH_TEXT];
    stator_error e;
    stator *s = open_for(DEMO, "fail", NULL, 0, small, 1);
    assert_int_equal(stator_plan(s, &e), STATOR_DOES_NOT_FIT);
    assert_non_null(strstr(e.text, "With memory.on_oom = \"spill\" it fits: that puts 1310720 bytes"));
    memcpy(hash[0], s->planning.plan.hash, HASH_TEXT);
    stator_close(s);
    s = open_for(DEMO, "spill", NULL, 0, small, 1);
    assert_int_equal(stator_plan(s, &e), STATOR_OK);
    assert_true(spill_all(&s->planning.plan) == 1310720);
    assert_true(s->planning.plan.places[1].total > spill_all(&s->planning.plan));
    memcpy(hash[1], s->planning.plan.hash, HASH_TEXT);
    /* No room is promised that only spill could give. */
    const struct plan *p = plan_view(s);
    assert_true(p->room_known && p->room_tokens == 0 && p->sequences_fit == 1);
    stator_close(s);
    s = open_for(DEMO, "spill", limit, 1, small, 1);
    assert_int_equal(stator_plan(s, &e), STATOR_DOES_NOT_FIT);
    assert_non_null(strstr(e.text, "does not fit: host needs"));
    assert_non_null(strstr(e.text, "What the GPUs spill to the host, 1.25 MiB"));
    memcpy(hash[2], s->planning.plan.hash, HASH_TEXT);
    stator_close(s);
    assert_string_not_equal(hash[0], hash[1]);
    assert_string_equal(hash[1], hash[2]); /* the host's limit is no input */
    s = open_for(DEMO, "spill", NULL, 0, large, 1);
    assert_int_equal(stator_plan(s, &e), STATOR_OK);
    assert_true(spill_all(&s->planning.plan) == 0 && s->planning.plan.slowdown == 0);
    p = plan_view(s);
    assert_true(p->room_tokens > 0 && p->sequences_fit > 1);
    stator_close(s);
    /* What can't be spilled does not fit. */
    static const char *const tiny[] = {"gpu0=1280KiB"};
    s = open_for(DEMO, "spill", NULL, 0, tiny, 1);
    assert_int_equal(stator_plan(s, &e), STATOR_DOES_NOT_FIT);
    stator_close(s);
    s = open_for(DEMO, "fail", NULL, 0, tiny, 1);
    assert_int_equal(stator_plan(s, &e), STATOR_DOES_NOT_FIT);
    assert_non_null(strstr(e.text, "memory.on_oom = \"spill\" is not enough: gpu0"));
    stator_close(s);
}

/* A context is never bought with spill; where nothing fits without, it is the default. */
static void test_auto_context(void **state) {
    (void)state;
    static const char *const set[] = {"memory.context=auto"};
    static const char *const nine[] = {"gpu0=9MiB"};
    static const char *const six[] = {"gpu0=6MiB"};
    stator_error e;
    uint32_t context[2] = {0, 0};
    for (int spill = 0; spill < 2; spill++) {
        stator *s = open_for(DEMO, spill ? "spill" : "fail", set, 1, nine, 1);
        assert_int_equal(stator_plan(s, &e), STATOR_OK);
        context[spill] = s->planning.want.context;
        assert_true(spill_all(&s->planning.plan) == 0);
        stator_close(s);
    }
    assert_int_equal(context[0], context[1]);
    assert_int_equal(context[0], 896);
    stator *s = open_for(DEMO, "spill", set, 1, six, 1);
    assert_int_equal(stator_plan(s, &e), STATOR_OK);
    assert_int_equal(s->planning.want.context, s->planning.shape->context_trained);
    assert_true(spill_all(&s->planning.plan) > 0);
    stator_close(s);
}

/* Bytes over the bus and the estimate, by hand. */
static void test_cost(void **state) {
    (void)state;
    static const char *const known[] = {"gpu0=8MiB,bandwidth=400GB/s,bus=20GB/s"};
    static const char *const unknown[] = {"gpu0=8MiB,bandwidth=400GB/s"};
    stator_error e;
    stator *s = open_for(DEMO, "spill", NULL, 0, known, 1);
    assert_int_equal(stator_plan(s, &e), STATOR_OK);
    const struct plan_spill *x = &s->planning.plan.places[0].spill;
    uint64_t kv_token = s->planning.plan.places[0].kv_per_token / s->planning.shape->n_layers;
    assert_true(x->weights == 0 && x->per_step == 0 && x->per_token == 0 && x->kv_layers == 5);
    assert_true(x->kv_per_token == 5 * kv_token && x->far == 1024 * 5 * kv_token);
    uint64_t read = 0; /* tied: the output matrix is all that is read, and the layers */
    for (uint32_t i = 0; i < s->planning.devices[0].graph.n_weights; i++)
        read += s->planning.devices[0].graph.weights[i].bytes;
    assert_true(x->near == read + 1024 * 3 * kv_token);
    double far = (double)x->far, near = (double)x->near;
    double expected = (near / 400e9 + far / 20e9) / ((near + far) / 400e9);
    assert_true(s->planning.plan.slowdown > expected * 0.999999 &&
                s->planning.plan.slowdown < expected * 1.000001);
    stator_close(s);
    s = open_for(DEMO, "spill", NULL, 0, unknown, 1);
    assert_int_equal(stator_plan(s, &e), STATOR_OK);
    assert_true(s->planning.plan.slowdown == 0 && spill_all(&s->planning.plan) > 0);
    stator_close(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_no_spill_without_need),
                                       cmocka_unit_test(test_launches),
                                       cmocka_unit_test(test_every_size_of_gpu),
                                       cmocka_unit_test(test_untied),
                                       cmocka_unit_test(test_split),
                                       cmocka_unit_test(test_hash_and_host),
                                       cmocka_unit_test(test_auto_context),
                                       cmocka_unit_test(test_cost)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
