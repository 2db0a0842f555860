/* Rings and states through the whole engine, on a made-up architecture: llama, whose even layers also have a
 * ring and whose odd ones a state and a tensor of several matrices that nothing reads. What it computes must
 * be llama's bits; the caches' bytes are planned, split and spilled, blocks are zero when a sequence gets
 * them, and a state makes a lap begin anew. */
#include "engine_harness.h"
#include "stator_bench.h"
#include "tiny_model.h"

#include "arch/parts/parts.h"
#include "engine/engine.h"
#include "plan/spill.h"

#include <stdio.h>

enum { EXPERTS };

#define WINDOW      40
#define RING_BYTES  1024
#define STATE_BYTES 8320
#define N_LAYERS    4

static uint32_t ring_of, state_of;
static bool products; /* the matrices belong to a product: in plans only */

static void build(struct graph *g, const struct shape *s) {
    struct parts p;
    parts_begin(&p, g, s);
    ring_of = graph_add_cache(
        g, &(struct graph_cache){
               .name = "ring", .kind = GRAPH_RING, .units = 2, .bytes = RING_BYTES, .window = WINDOW});
    state_of = graph_add_cache(
        g, &(struct graph_cache){.name = "state", .kind = GRAPH_STATE, .units = 1, .bytes = STATE_BYTES});
    for (uint32_t i = g->want.first_layer; i < g->want.end_layer; i++) {
        const struct shape_layer *l = &s->layers[i];
        struct graph_op uses = {.layer = i};
        uint32_t normed = parts_norm(&p, i, "attn_norm", l->attn_norm, parts_forms(l->q, l->k, l->v));
        parts_attention(&p, i, normed);
        graph_op_cache(g, &uses, i % 2 == 0 ? ring_of : state_of);
        parts_swiglu(&p, i, parts_norm(&p, i, "ffn_norm", l->ffn_norm, parts_forms(l->gate, l->up, NULL)));
        if (products)
            parts_add_product(&p, i, normed, p.x, l->own[EXPERTS], NULL);
        else
            graph_add_weight(g, l->own[EXPERTS]);
    }
    parts_end(&p);
}

static const struct shape_place layer[] = {
    PARTS_DENSE_LAYER,
    {SHAPE_LAYER(own[EXPERTS]), .name = "ffn_exps.weight", .cols = SHAPE_EMBD, .rows = SHAPE_FF,
     .matrices = SHAPE_VOCAB},
};
static const struct shape_place global[] = {PARTS_ENDS};
static const struct arch arch_kinds = {.name = "kinds",
                                       .tensors = {SHAPE_TABLE(layer, global)},
                                       .read = shape_read_dense,
                                       .build = build,
                                       .layer = {.ops = 9}};
extern const struct arch arch_llama;
const struct arch *const arch_list[] = {&arch_llama, &arch_kinds, NULL};

#define VOCAB 5 /* and matrices */
#define ROWS  1000
#define N_IDS 20

static const char *model(struct gguf_writer *w, const char *arch, char path[GGUF_WRITER_PATH]) {
    struct tiny_model m = tiny_model_of(arch);
    *w = gguf_writer_new();
    m.n_layers = N_LAYERS;
    m.n_ff = ROWS; /* the last panel of a matrix is half full */
    tiny_model_write(w, m);
    uint64_t seed = 7;
    for (uint32_t i = 0; i < N_LAYERS && strcmp(arch, "kinds") == 0; i++) {
        char name[40];
        uint64_t ne[3] = {m.n_embd, ROWS, VOCAB}, n = ne[0] * ne[1] * ne[2];
        uint16_t *values = calloc(n, 2);
        assert_non_null(values);
        for (uint64_t k = 0; k < n; k++)
            values[k] = (uint16_t)(0x3000 | (tiny_model_random(&seed) & 0x83FF));
        snprintf(name, sizeof name, "blk.%u.ffn_exps.weight", i);
        gguf_writer_tensor(w, name, BLOCK_F16, 3, ne, (const uint8_t *)values);
        free(values);
    }
    gguf_writer_finish(w);
    return gguf_writer_memory_path(w, path);
}

static void fill(int32_t *ids) {
    for (int i = 0; i < N_IDS; i++)
        ids[i] = (i * 3 + 1) % VOCAB;
}

static stator *start(const char *path, const char *devices) {
    char use[64];
    snprintf(use, sizeof use, "devices.use=%s", devices);
    const char *sets[] = {
        "memory.context=64", "memory.sequences=3", "memory.batch=9", "server.checkpoints=0", use, NULL};
    return harness_start(path, sets);
}

/* The unit `unit` of the cache's layers on a device. */
static uint8_t *unit_at(stator *s, uint32_t device, uint32_t cache, uint32_t unit) {
    struct device *d = s->devices[device].device;
    const struct device_model *m = &s->planning.devices[device].model;
    const struct device_cache *c = &m->caches[cache];
    uint32_t slice = device_cache_part(m, cache, false).first + unit / c->units_per_slice;
    uint8_t *at = d->vtable->map(d, DEVICE_KV, slice);
    return at + (uint64_t)(unit % c->units_per_slice) * c->unit_bytes;
}

static uint32_t units_of(const stator *s, uint32_t device, uint32_t cache) {
    return device_cache_part(&s->planning.devices[device].model, cache, false).units;
}

/* Writes a pattern to all rings and states. */
static void soil(stator *s) {
    for (uint32_t d = 0; d < s->planning.n_devices; d++)
        for (uint32_t c = ring_of; c <= state_of; c++)
            for (uint32_t u = 0; u < units_of(s, d, c); u++)
                memset(unit_at(s, d, c, u), 0xA5, s->planning.devices[d].model.caches[c].unit_bytes);
}

/* Blocks of a cache that are zero in all layers of all devices; fails where they are half zero. */
static uint64_t zero_blocks(stator *s, uint32_t cache) {
    uint64_t zeros = 0;
    const uint64_t bytes = s->planning.devices[0].graph.caches[cache].bytes;
    for (uint32_t b = 0; b < s->planning.devices[0].model.caches[cache].n_blocks; b++) {
        uint64_t zero = 0, all = 0;
        for (uint32_t d = 0; d < s->planning.n_devices; d++)
            for (uint32_t u = 0; u < units_of(s, d, cache); u++)
                for (uint64_t i = 0; i < bytes; i++, all++)
                    zero += unit_at(s, d, cache, u)[b * bytes + i] == 0;
        assert_true(all > 0 && (zero == 0 || zero == all));
        zeros |= (uint64_t)(zero == all) << b;
    }
    return zeros;
}

static uint32_t count(uint64_t bits) {
    return (uint32_t)__builtin_popcountll(bits);
}

/* The bits are those of llama, and blocks are cleared for who gets them, nobody else's. */
static void runs(void **state) {
    (void)state;
    static const char *const devices[] = {"cpu:0", "cpu:0,cpu:1", "cpu:0,cpu:1,cpu:2"};
    struct gguf_writer w, plain;
    char path[GGUF_WRITER_PATH], plain_path[GGUF_WRITER_PATH];
    int32_t ids[N_IDS];
    fill(ids);
    stator *s = start(model(&plain, "llama", plain_path), "cpu:0");
    float *want = harness_logits(s, ids, N_IDS);
    stator_close(s);
    model(&w, "kinds", path);
    for (int i = 0; i < 3; i++) {
        s = start(path, devices[i]);
        assert_int_equal(s->planning.devices[0].graph.n_caches, 3);
        soil(s);
        float *got = harness_logits(s, ids, N_IDS);
        assert_memory_equal(got, want, N_IDS * VOCAB * sizeof *got);
        /* 20 tokens: one block of the ring, one state. */
        uint64_t rings = zero_blocks(s, ring_of), states = zero_blocks(s, state_of);
        assert_int_equal(count(rings), 1);
        assert_int_equal(count(states), 1);
        soil(s);
        struct harness_text texts[3] = {{0}};
        for (uint32_t k = 0; k < 3; k++) /* 20 + 20 tokens: two blocks of 32 each, of two that a ring has */
            texts[k].id = harness_submit(s, ids, N_IDS, 20, 0, 0);
        harness_collect(s, texts, 3);
        /* One that ends early leaves its blocks to another. */
        states = zero_blocks(s, state_of);
        assert_true(count(states) >= 1 && count(states) <= 3);
        assert_int_equal(count(zero_blocks(s, ring_of)), 2 * count(states));
        for (uint32_t c = ring_of; c <= state_of; c++)
            assert_int_equal(s->run.caches[c].n_free, s->planning.devices[0].model.caches[c].n_blocks);
        stator_close(s);
        free(got);
    }
    free(want);
    gguf_writer_free(&w);
    gguf_writer_free(&plain);
}

/* A lap that can't go back in a state begins anew, with a clean one, and says the same tokens. */
static void laps(void **state) {
    (void)state;
    struct gguf_writer w;
    char path[GGUF_WRITER_PATH];
    int32_t ids[N_IDS];
    fill(ids);
    stator *s = start(model(&w, "kinds", path), "cpu:0");
    struct harness_text plain = {.id = harness_submit(s, ids, N_IDS, 4, 0, 0)};
    harness_collect(s, &plain, 1);
    stator_request q = {.size = sizeof q,
                        .kind = STATOR_GENERATE,
                        .tokens = ids,
                        .n_tokens = N_IDS,
                        .max_new = 4,
                        .ignore_eos = 1,
                        .sampling = {.has = STATOR_HAS_TEMPERATURE}};
    uint64_t id = 0;
    stator_bench b = {.size = sizeof b, .n_depth = 11, .laps = 3};
    assert_int_equal(stator_bench_submit(s, &q, &b, &id, NULL), STATOR_OK);
    uint32_t n = 0, ends = 0;
    uint64_t zeroed = 0;
    while (ends < 3) {
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        assert_int_equal(stator_poll(s, UINT64_MAX, &ev, &have, NULL), STATOR_OK);
        if (!have)
            continue;
        if (ev.kind == STATOR_EVENT_TOKEN) {
            assert_int_equal(ev.token, plain.ids[n++ % 4]);
            continue;
        }
        ends++;
        assert_int_equal(ev.kind, ends < 3 ? STATOR_EVENT_LAP : STATOR_EVENT_DONE);
        assert_int_equal(n, 4 * ends);
    }
    zeroed = count(zero_blocks(s, state_of));
    assert_true(zeroed >= 1);
    stator_close(s);
    gguf_writer_free(&w);
}

static void rewinds(void **state) {
    (void)state;
    const struct graph_cache paged = {.kind = GRAPH_PAGED}, one = {.kind = GRAPH_STATE};
    const struct graph_cache ring = {.kind = GRAPH_RING, .window = 40};
    assert_true(graph_cache_rewinds(&paged, 100, 3000, 0));
    assert_true(graph_cache_rewinds(&one, 1, 7, 7));
    assert_false(graph_cache_rewinds(&one, 1, 7, 6));
    /* 96 tokens of room: after 100, the oldest there is 4; token `to` sees to - 39. */
    assert_true(graph_cache_rewinds(&ring, 3, 96, 0));
    assert_true(graph_cache_rewinds(&ring, 3, 100, 43));
    assert_false(graph_cache_rewinds(&ring, 3, 100, 42));
}

static uint64_t sum_of(const struct plan *p, uint32_t place, const char *arena, const char *part) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < p->n_blocks; i++) {
        const struct plan_block *b = &p->blocks[i];
        if (b->place == place && strncmp(p->places[place].arenas[b->arena].name, arena, strlen(arena)) == 0 &&
            strstr(b->name, part) != NULL)
            sum += b->bytes;
    }
    return sum;
}

static stator *planned(const char *path, const char *oom, const char *const *devices, size_t n) {
    char set[32];
    snprintf(set, sizeof set, "memory.on_oom=%s", oom);
    const char *sets[] = {"memory.context=64",
                          "memory.sequences=3",
                          "memory.host_limit=1GiB",
                          "memory.driver_reserve=1MiB",
                          "memory.batch=9",
                          "server.checkpoints=0",
                          set};
    stator_options o = {
        .size = sizeof o, .config = path, .set = sets, .n_set = 7, .devices = devices, .n_devices = n};
    stator *s = NULL;
    stator_error e = {0};
    if (stator_open(&o, &s, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    return s;
}

static void check_plan(const stator *s) {
    uint32_t a = 0, b = 0;
    plan_check(&s->planning.plan);
    if (!plan_blocks_apart(&s->planning.plan, &a, &b))
        fail_msg("%s overlaps %s", s->planning.plan.blocks[a].name, s->planning.plan.blocks[b].name);
}

/* All bytes of every cache have one place, however the model is split and spilled; what spills are whole
 * layers and whole matrices. */
static void plans(void **state) {
    (void)state;
    static const char *const parts[][3] = {{"gpu0=64MiB", NULL},
                                           {"gpu0=64MiB", "gpu1=64MiB", NULL},
                                           {"gpu0=1300KiB", NULL},
                                           {"gpu0=1500KiB", NULL},
                                           {"gpu0=1350KiB", "gpu1=1350KiB", NULL}};
    const uint64_t rings = N_LAYERS / 2 * 2 * RING_BYTES * 2 * 3, states = N_LAYERS / 2 * STATE_BYTES * 3;
    struct gguf_writer w;
    char path[GGUF_WRITER_PATH];
    bool spilled = false, far_matrices = false;
    model(&w, "kinds", path);
    products = true;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        size_t n = parts[i][1] != NULL ? 2 : 1;
        stator_error e = {0};
        stator *s = planned(path, i < 2 ? "fail" : "spill", parts[i], n);
        if (stator_plan(s, &e) != STATOR_OK)
            fail_msg("%s", e.text);
        check_plan(s);
        const struct plan *p = &s->planning.plan;
        uint32_t host = p->n_places - 1;
        uint64_t ring = sum_of(p, host, "spill", ".ring"), one = sum_of(p, host, "spill", ".state"), own = 0;
        for (uint32_t k = 0; k < n; k++) {
            ring += sum_of(p, k, "kv", ".ring");
            one += sum_of(p, k, "kv", ".state");
            own += p->places[k].kv_per_sequence;
            spilled = spilled || p->places[k].spill.kv_per_sequence > 0;
            for (uint32_t t = 0; t < s->planning.devices[k].graph.n_weights; t++) {
                const struct graph_weight *x = &s->planning.devices[k].graph.weights[t];
                far_matrices = far_matrices || (x->matrices > 1 && x->spilled > 0);
                for (uint32_t c = 0; c < x->n_pieces && x->matrices > 1; c++)
                    assert_true(x->pieces[c].first_panel % x->layout.panels == 0 &&
                                x->pieces[c].panels % x->layout.panels == 0);
            }
        }
        assert_true(ring == rings && one == states && own * 3 == rings + states);
        stator_close(s);
    }
    assert_true(spilled && far_matrices);
    products = false;
    gguf_writer_free(&w);
}

/* Every matrix of a 3-D tensor is loaded to its place. */
static void matrices(void **state) {
    (void)state;
    struct gguf_writer w;
    char path[GGUF_WRITER_PATH];
    stator *s = start(model(&w, "kinds", path), "cpu:0");
    struct engine_device *d = &s->devices[0];
    uint32_t seen = 0;
    for (uint32_t i = 0; i < s->planning.devices[0].graph.n_weights; i++) {
        const struct graph_weight *x = &s->planning.devices[0].graph.weights[i];
        if (x->matrices == 1)
            continue;
        seen++;
        assert_true(x->matrices == VOCAB && graph_weight_panels(x) == VOCAB * x->layout.panels);
        assert_true(x->bytes == VOCAB * x->layout.bytes && x->n_pieces == 1);
        const uint8_t *at =
            (const uint8_t *)d->device->vtable->map(d->device, DEVICE_WEIGHTS, x->pieces[0].slice) +
            x->pieces[0].offset;
        uint64_t row = 0;
        assert_true(block_row_bytes(x->tensor->type, x->tensor->ne[0], &row));
        uint8_t *file = malloc(x->tensor->bytes), *packed = calloc(1, x->layout.panel_bytes);
        assert_true(file != NULL && packed != NULL);
        assert_int_equal(gguf_load(s->planning.gguf, x->tensor, 0, x->tensor->bytes, file, NULL), STATOR_OK);
        for (uint32_t p = 0; p < graph_weight_panels(x); p++) {
            uint32_t of = p / x->layout.panels, first = p % x->layout.panels * PANEL_ROWS;
            uint32_t here = ARITH_MIN(x->layout.rows - first, (uint32_t)PANEL_ROWS);
            panel_pack(&x->layout, file + (of * x->layout.rows + first) * row, here, packed);
            assert_memory_equal(at + p * x->layout.panel_bytes, packed, x->layout.panel_bytes);
        }
        free(file);
        free(packed);
    }
    assert_int_equal(seen, N_LAYERS);
    stator_close(s);
    gguf_writer_free(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(runs), cmocka_unit_test(laps),
                                       cmocka_unit_test(rewinds), cmocka_unit_test(plans),
                                       cmocka_unit_test(matrices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
