/* What adding an architecture takes: a made-up variant of llama, with both norms at the begin of a layer and
 * a bias of ffn_down, is one struct and one row; and it runs, in one piece and split. */
#include "engine_harness.h"
#include "tiny_model.h"

#include "arch/parts/parts.h"

/* What would be the new file. */
enum { DOWN_BIAS };

static const struct shape_place layer[] = {
    PARTS_DENSE_LAYER,
    {SHAPE_LAYER(own[DOWN_BIAS]), .name = "ffn_down.bias", .cols = SHAPE_EMBD},
};
static const struct shape_place global[] = {PARTS_ENDS};

static void build(struct graph *g, const struct shape *s) {
    struct parts p;
    parts_begin(&p, g, s);
    for (uint32_t i = g->want.first_layer; i < g->want.end_layer; i++) {
        const struct shape_layer *l = &s->layers[i];
        uint32_t first = parts_norm(&p, i, "attn_norm", l->attn_norm, parts_forms(l->q, l->k, l->v));
        uint32_t second = parts_norm(&p, i, "ffn_norm", l->ffn_norm, parts_forms(l->gate, l->up, NULL));
        parts_attention(&p, i, first);
        parts_swiglu(&p, i, second);
        g->ops[g->n_ops - 1].bias[0] = graph_add_plain(g, l->own[DOWN_BIAS]);
    }
    parts_end(&p);
}

static const struct arch arch_variant = {
    .name = "variant", .tensors = {SHAPE_TABLE(layer, global)}, .read = shape_read_dense, .build = build};

/* The registry of this program, in the place of arch_list.c: the new row is the second. */
extern const struct arch arch_llama;
const struct arch *const arch_list[] = {&arch_llama, &arch_variant, NULL};

#define N_IDS 24

static float *logits_of(const char *arch, float bias, const char *devices) {
    struct gguf_writer w = gguf_writer_new();
    struct tiny_model m = tiny_model_of(arch);
    char path[GGUF_WRITER_PATH], name[32];
    m.n_layers = 3;
    tiny_model_write(&w, m);
    float values[8];
    for (uint32_t i = 0; i < 8; i++)
        values[i] = bias;
    for (uint32_t i = 0; i < 3 && strcmp(arch, "variant") == 0; i++) {
        snprintf(name, sizeof name, "blk.%u.ffn_down.bias", i);
        gguf_writer_tensor(&w, name, BLOCK_F32, 1, (uint64_t[]){8}, (const uint8_t *)values);
    }
    gguf_writer_finish(&w);
    int32_t ids[N_IDS];
    for (int i = 0; i < N_IDS; i++)
        ids[i] = i % 5;
    char use[64];
    snprintf(use, sizeof use, "devices.use=%s", devices);
    const char *sets[] = {"memory.context=64", "memory.batch=7", use, NULL};
    stator *s = harness_start(gguf_writer_memory_path(&w, path), sets);
    float *out = harness_logits(s, ids, N_IDS);
    stator_close(s);
    gguf_writer_free(&w);
    return out;
}

static bool same(const float *a, const float *b) {
    return memcmp(a, b, N_IDS * 5 * sizeof *a) == 0;
}

static void variant_runs(void **state) {
    (void)state;
    float *llama = logits_of("llama", 0, "cpu:0");
    float *plain = logits_of("variant", 0, "cpu:0");
    float *biased = logits_of("variant", 0.25f, "cpu:0");
    float *split = logits_of("variant", 0.25f, "cpu:0,cpu:1,cpu:2");
    assert_false(same(llama, plain));
    assert_false(same(plain, biased));
    assert_true(same(biased, split));
    free(llama);
    free(plain);
    free(biased);
    free(split);
}

/* What the file does not have, or the architecture does not, is refused as for any other. */
static void variant_refuses(void **state) {
    (void)state;
    static struct shape shape;
    struct gguf_writer w = gguf_writer_new();
    char path[GGUF_WRITER_PATH];
    struct gguf *g = NULL;
    stator_error e = {0};
    tiny_model_write(&w, tiny_model_of("variant"));
    gguf_writer_finish(&w);
    assert_int_equal(gguf_open(gguf_writer_memory_path(&w, path), &g, &e), STATOR_OK);
    assert_int_equal(arch_read(g, &shape, &e), STATOR_BAD_MODEL);
    assert_non_null(strstr(e.text, "tensor 'blk.0.ffn_down.bias' is missing"));
    gguf_close(g);
    gguf_writer_free(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(variant_runs), cmocka_unit_test(variant_refuses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
