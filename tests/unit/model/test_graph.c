/* The graph's places: no two values that live at the same time overlap, scratch is as small as it can be, the
 * pieces of a weight cover each of its panels once and stay inside the slices, and sizes beyond any memory
 * are refused. */
#include "testing.h"

#include "kernels/shared/act_tiles.h"
#include "arch/arch.h"
#include "tiny_model.h"

struct built {
    struct gguf_writer writer;
    struct gguf *file;
    struct shape *shape;
    void *memory;
    void *work;
    uint64_t work_bytes;
    struct graph graph;
};

static void build_open(struct built *b, struct tiny_model m) {
    char path[GGUF_WRITER_PATH];
    stator_error e;
    memset(b, 0, sizeof *b);
    b->writer = gguf_writer_new();
    tiny_model_write(&b->writer, m);
    gguf_writer_finish(&b->writer);
    if (gguf_open(gguf_writer_memory_path(&b->writer, path), &b->file, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    b->shape = malloc(sizeof *b->shape);
    assert_non_null(b->shape);
    if (arch_read(b->file, b->shape, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    struct carve count = carve_count();
    arch_layout(&b->graph, &count, b->shape, 1);
    b->memory = aligned_alloc(64, count.used);
    assert_non_null(b->memory);
    struct carve c = carve_in(b->memory, count.used);
    arch_layout(&b->graph, &c, b->shape, 1);
    b->work_bytes = graph_place_work_bytes(&b->graph);
    b->work = aligned_alloc(64, (b->work_bytes + 63) / 64 * 64);
    assert_non_null(b->work);
}

static void build_close(struct built *b) {
    free(b->work);
    free(b->memory);
    free(b->shape);
    gguf_close(b->file);
    gguf_writer_free(&b->writer);
}

static stator_status build_place(struct built *b, uint32_t batch, uint32_t rows, uint64_t limit,
                                 uint64_t *slices, stator_error *e) {
    struct graph_want want = {.batch = batch, .logits_rows = rows, .tiled = batch % 2 == 1};
    stator_status st = arch_build(&b->graph, b->shape, &want, e);
    if (st != STATOR_OK)
        return st;
    return graph_place(&b->graph, limit, 4096, b->work, b->work_bytes, slices, e);
}

/* Lives by an independent rule: a value lives from the first op that names it to the last, and what crosses
 * into the tail lives to the end. */
static void lives_of(const struct graph *g, uint32_t value, uint32_t *first, uint32_t *last) {
    *first = UINT32_MAX;
    *last = 0;
    for (uint32_t i = 0; i < g->n_ops; i++) {
        if (g->ops[i].in != value && g->ops[i].out != value)
            continue;
        if (*first == UINT32_MAX)
            *first = i;
        *last = i;
    }
    assert_true(*first != UINT32_MAX);
    assert_int_equal(g->ops[*first].out, value); /* written before it is read */
    if (*first < g->tail && *last >= g->tail)
        *last = g->n_ops - 1;
}

static void check_values(const struct graph *g) {
    uint64_t highest = 0;
    for (uint32_t i = 0; i < g->n_values; i++) {
        const struct graph_value *a = &g->values[i];
        uint32_t a_first;
        uint32_t a_last;
        lives_of(g, i, &a_first, &a_last);
        assert_true(a->bytes > 0 && a->offset % PANEL_ALIGN == 0);
        uint64_t arena = a->arena == GRAPH_SCRATCH ? g->scratch_bytes : g->exchange_bytes;
        assert_true(a->offset + a->bytes <= arena);
        assert_true(a->arena == GRAPH_SCRATCH || a->offset >= 4096); /* behind the step descriptor */
        for (uint32_t k = 0; k < i; k++) {
            const struct graph_value *b = &g->values[k];
            uint32_t b_first;
            uint32_t b_last;
            lives_of(g, k, &b_first, &b_last);
            if (a->arena != b->arena)
                continue;
            bool together = a->arena == GRAPH_EXCHANGE || (a_first <= b_last && b_first <= a_last);
            bool overlap = a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
            if (together && overlap)
                fail_msg("%s and %s overlap", a->name, b->name);
        }
        if (a->arena == GRAPH_SCRATCH && a->offset + a->bytes > highest)
            highest = a->offset + a->bytes;
    }
    assert_true(highest <= g->scratch_bytes && g->scratch_bytes < highest + PANEL_ALIGN);
    /* No packing needs less than the most that lives at one op. */
    uint64_t most = 0;
    for (uint32_t op = 0; op < g->n_ops; op++) {
        uint64_t sum = 0;
        for (uint32_t i = 0; i < g->n_values; i++) {
            uint32_t first;
            uint32_t last;
            lives_of(g, i, &first, &last);
            if (g->values[i].arena == GRAPH_SCRATCH && first <= op && op <= last)
                sum += g->values[i].bytes;
        }
        most = sum > most ? sum : most;
    }
    assert_int_equal(g->scratch_bound, most);
    assert_int_equal(g->scratch_bytes, most);
    assert_true(g->scratch_optimal);
}

/* Every form inside its value, none over another. */
static void check_forms(const struct graph *g) {
    for (uint32_t i = 0; i < g->n_values; i++) {
        const struct graph_value *v = &g->values[i];
        uint64_t n = (uint64_t)v->rows * v->width;
        /* Tiles: whole pairs of them, of values that fill one. */
        const bool tiled = g->want.tiled && v->rows >= ACT_TILE_ROWS;
        assert_int_equal(v->tile_rows, tiled ? (v->rows + 31) / 32 * 32 : 0);
        const uint64_t quants = (uint64_t)(tiled ? v->tile_rows : v->rows) * v->width;
        const uint64_t at[] = {v->f32, v->q32, v->d32, v->s32, v->q256, v->d256, v->s256};
        const uint64_t bytes[] = {n * 4, quants, n / 32 * 4, n / 32 * 2, quants, n / 256 * 4, n / 16 * 2};
        for (int a = 0; a < 7; a++) {
            if (at[a] == UINT64_MAX)
                continue;
            assert_true(at[a] % 64 == 0 && at[a] + bytes[a] <= v->bytes);
            for (int b = 0; b < a; b++)
                assert_true(at[b] == UINT64_MAX || at[a] >= at[b] + bytes[b] || at[b] >= at[a] + bytes[a]);
        }
    }
}

/* The pieces of all weights: each panel once, in order, inside the slices, none over another. */
static void check_weights(const struct graph *g, uint64_t limit, const uint64_t *slices) {
    uint64_t sum = 0;
    uint64_t total = 0;
    assert_in_range(g->weight_slices, 1, GRAPH_MAX_SLICES);
    for (uint32_t i = 0; i < g->weight_slices; i++) {
        assert_true(slices[i] <= limit);
        sum += slices[i];
    }
    assert_int_equal(sum, g->weights_bytes);
    for (uint32_t i = 0; i < g->n_weights; i++) {
        const struct graph_weight *w = &g->weights[i];
        uint64_t unit = w->packed ? w->layout.panel_bytes : w->bytes;
        uint32_t panels = 0;
        assert_in_range(w->n_pieces, 1, GRAPH_MAX_PIECES);
        for (uint32_t p = 0; p < w->n_pieces; p++) {
            const struct graph_piece *a = &w->pieces[p];
            assert_int_equal(a->first_panel, panels);
            assert_true(a->panels > 0 && a->slice < g->weight_slices && a->offset % PANEL_ALIGN == 0);
            assert_true(a->offset + a->panels * unit <= slices[a->slice]);
            panels += a->panels;
            for (uint32_t k = 0; k <= i; k++)
                for (uint32_t q = 0; q < (k == i ? p : g->weights[k].n_pieces); q++) {
                    const struct graph_piece *b = &g->weights[k].pieces[q];
                    uint64_t b_unit =
                        g->weights[k].packed ? g->weights[k].layout.panel_bytes : g->weights[k].bytes;
                    if (a->slice == b->slice && a->offset < b->offset + b->panels * b_unit &&
                        b->offset < a->offset + a->panels * unit)
                        fail_msg("weights %u and %u overlap", i, k);
                }
        }
        assert_int_equal(panels, w->packed ? w->layout.panels : 1);
        if (w->packed)
            assert_int_equal(w->layout.panels, (w->tensor->ne[1] + 15) / 16);
        total += panels * unit;
    }
    assert_int_equal(total, g->weights_bytes); /* no gap: every piece ends on the alignment */
}

static struct tiny_model models(size_t i) {
    static const char *const archs[] = {"llama", "qwen2", "qwen3"};
    static const uint32_t types[] = {BLOCK_F16, BLOCK_Q8_0, BLOCK_Q4_K, BLOCK_F32};
    struct tiny_model m = tiny_model_of(archs[i % 3]);
    m.type = types[i / 3 % 4];
    m.n_embd = 256;
    m.n_ff = 512;
    m.n_heads = 8;
    m.n_kv_heads = 2;
    m.vocab = 100;
    m.n_layers = 1 + (uint32_t)(i % 4);
    m.untied = i % 2 == 0;
    return m;
}
#define N_MODELS 12

static void values(void **state) {
    (void)state;
    static const uint32_t batches[] = {1, 2, 7, 64, 513};
    for (size_t i = 0; i < N_MODELS; i++) {
        struct built b;
        build_open(&b, models(i));
        for (size_t k = 0; k < 5; k++) {
            uint64_t slices[GRAPH_MAX_SLICES];
            uint32_t rows = batches[k] < 5 ? 1 : 5;
            assert_int_equal(build_place(&b, batches[k], rows, 1ull << 30, slices, NULL), STATOR_OK);
            check_values(&b.graph);
            check_forms(&b.graph);
            check_weights(&b.graph, 1ull << 30, slices);
            assert_int_equal(b.graph.weight_slices, 1);
            const struct graph_value *logits = &b.graph.values[b.graph.logits];
            assert_int_equal(logits->rows, rows);
            assert_int_equal(logits->width, b.shape->vocab);
        }
        build_close(&b);
    }
}

static void small_slices(void **state) {
    (void)state;
    size_t cut = 0;
    size_t several = 0;
    for (size_t i = 0; i < N_MODELS; i++) {
        struct built b;
        build_open(&b, models(i));
        uint64_t slices[GRAPH_MAX_SLICES];
        uint64_t widest = 0;
        assert_int_equal(build_place(&b, 1, 1, 1ull << 30, slices, NULL), STATOR_OK);
        for (uint32_t k = 0; k < b.graph.n_weights; k++) {
            const struct graph_weight *w = &b.graph.weights[k];
            uint64_t unit = w->packed ? w->layout.panel_bytes : w->bytes;
            widest = unit > widest ? unit : widest;
        }
        /* Scratch and exchange need one slice each, so the limit can't go below them. */
        uint64_t least = b.graph.scratch_bytes > widest ? b.graph.scratch_bytes : widest;
        least = b.graph.exchange_bytes > least ? b.graph.exchange_bytes : least;
        size_t placed = 0;
        for (uint64_t limit = least; limit < 16 * least; limit += least / 3 / PANEL_ALIGN * PANEL_ALIGN) {
            stator_error e = {0};
            stator_status st = build_place(&b, 1, 1, limit, slices, &e);
            if (st != STATOR_OK) { /* more pieces or slices than there are places for */
                assert_int_equal(st, STATOR_DOES_NOT_FIT);
                assert_non_null(strstr(e.text, "slice"));
                continue;
            }
            placed++;
            check_weights(&b.graph, limit, slices);
            check_values(&b.graph);
            several += b.graph.weight_slices > 1;
            for (uint32_t k = 0; k < b.graph.n_weights; k++) {
                const struct graph_weight *w = &b.graph.weights[k];
                cut += w->n_pieces > 1;
                if (w->bytes <= limit) /* not cut where it fits whole */
                    assert_int_equal(w->n_pieces, 1);
            }
        }
        assert_true(placed > 0);
        assert_int_equal(build_place(&b, 1, 1, least - PANEL_ALIGN, slices, NULL), STATOR_DOES_NOT_FIT);
        build_close(&b);
    }
    print_message("%zu plans with several slices, %zu weights in pieces\n", several, cut);
    assert_true(several > 20 && cut > 20);
}

static void huge(void **state) {
    (void)state;
    struct built b;
    build_open(&b, models(0));
    uint64_t slices[GRAPH_MAX_SLICES];
    static const uint32_t sizes[] = {UINT32_MAX, 1u << 31, 1u << 24};
    for (size_t i = 0; i < 3; i++) {
        stator_error e = {0};
        assert_int_equal(build_place(&b, sizes[i], 1, (4ull << 30) - 65536, slices, &e), STATOR_DOES_NOT_FIT);
        assert_non_null(strstr(e.text, "memory.batch"));
        assert_int_equal(build_place(&b, 1, sizes[i], (4ull << 30) - 65536, slices, &e), STATOR_DOES_NOT_FIT);
        assert_non_null(strstr(e.text, "memory."));
    }
    assert_int_equal(build_place(&b, 1, 1, 1ull << 30, slices, NULL),
                     STATOR_OK); /* and is none the worse for it */
    check_values(&b.graph);
    build_close(&b);
}

/* The same want gives the same places, whatever was placed before. */
static void deterministic(void **state) {
    (void)state;
    struct built a;
    struct built b;
    build_open(&a, models(4));
    build_open(&b, models(4));
    uint64_t slices[GRAPH_MAX_SLICES];
    assert_int_equal(build_place(&a, 33, 3, 1 << 20, slices, NULL), STATOR_OK);
    assert_int_equal(build_place(&a, 64, 1, 1 << 24, slices, NULL), STATOR_OK);
    assert_int_equal(build_place(&a, 17, 4, 1 << 20, slices, NULL), STATOR_OK);
    assert_int_equal(build_place(&b, 17, 4, 1 << 20, slices, NULL), STATOR_OK);
    assert_int_equal(a.graph.n_values, b.graph.n_values);
    for (uint32_t i = 0; i < a.graph.n_values; i++)
        assert_int_equal(a.graph.values[i].offset, b.graph.values[i].offset);
    for (uint32_t i = 0; i < a.graph.n_weights; i++)
        assert_memory_equal(a.graph.weights[i].pieces, b.graph.weights[i].pieces,
                            a.graph.weights[i].n_pieces * sizeof(struct graph_piece));
    build_close(&a);
    build_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(values), cmocka_unit_test(small_slices),
                                       cmocka_unit_test(huge), cmocka_unit_test(deterministic)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
