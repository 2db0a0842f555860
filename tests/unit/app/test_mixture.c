/* app/quantize/mixture: types by llama.cpp's rules. What is expected here was printed by its own quantiser
 * (tools/check_mixtures compares whole models with it). */
#include "testing.h"

#include "app/quantize/mixture.h"
#include "formats/block.h"

static struct gguf_tensor tensor(const char *name, uint64_t cols, uint64_t rows, uint64_t matrices) {
    return (struct gguf_tensor){.name = {name, strlen(name)},
                                .type = BLOCK_F16,
                                .n_dims = matrices > 1 ? 3
                                          : rows > 1   ? 2
                                                       : 1,
                                .ne = {cols, rows, matrices, 1}};
}

/* Layers, as "0 1 5", whose tensor of that name (with %d) gets `type`. */
static const char *layers_with(const char *mixture, const struct mixture_model *model, const char *name,
                               uint32_t type, uint64_t matrices) {
    static char out[400];
    out[0] = '\0';
    const struct mixture *m = mixture_find(mixture);
    assert_non_null(m);
    for (uint32_t i = 0; i < model->layers; i++) {
        char full[64];
        snprintf(full, sizeof full, name, i);
        const struct gguf_tensor t = tensor(full, 256, 256, matrices);
        if (mixture_choose(m, model, &t, mixture_kind_of(&t, false), i) == type)
            snprintf(out + strlen(out), sizeof out - strlen(out), "%s%u", out[0] != '\0' ? " " : "", i);
    }
    return out;
}

static void layers_get_what_llama_cpp_gives_them(void **state) {
    (void)state;
    const struct mixture_model dense = {.layers = 32, .heads_per_kv = 4, .n_v = 32};
    const struct mixture_model small = {.layers = 13, .heads_per_kv = 2, .n_v = 13};
    const struct mixture_model mixtral = {.layers = 32, .heads_per_kv = 2, .experts = 8, .n_v = 32};
    const struct mixture_model large = {.layers = 80, .heads_per_kv = 8, .n_v = 80};
    const char *down = "blk.%d.ffn_down.weight", *v = "blk.%d.attn_v.weight",
               *experts = "blk.%d.ffn_down_exps.weight";
    assert_string_equal(layers_with("Q4_K_M", &dense, down, BLOCK_Q6_K, 1),
                        "0 1 2 3 6 9 12 15 18 21 24 27 28 29 30 31");
    assert_string_equal(layers_with("Q4_K_M", &dense, v, BLOCK_Q6_K, 1),
                        "0 1 2 3 6 9 12 15 18 21 24 27 28 29 30 31");
    assert_string_equal(layers_with("Q4_K_M", &small, down, BLOCK_Q6_K, 1), "0 3 6 9 11 12");
    assert_string_equal(layers_with("Q4_K_S", &dense, v, BLOCK_Q5_K, 1), "0 1 2 3");
    assert_string_equal(layers_with("Q4_K_S", &dense, down, BLOCK_Q5_K, 1), "0 1 2 3");
    assert_string_equal(layers_with("Q3_K_M", &dense, down, BLOCK_Q5_K, 1), "0 1");
    assert_string_equal(layers_with("IQ4_XS", &dense, down, BLOCK_Q5_K, 1), "0 1 2 3");
    assert_string_equal(layers_with("IQ4_XS", &small, v, BLOCK_Q5_K, 1), "");
    assert_string_equal(layers_with("Q2_K", &small, v, BLOCK_Q3_K, 1), "0 1 2 3 4 5 6 7 8 9 10 11 12");
    assert_string_equal(layers_with("Q4_K_M", &mixtral, experts, BLOCK_Q6_K, 8),
                        "0 1 2 3 6 9 12 15 18 21 24 27 28 29 30 31");
    assert_string_equal(
        layers_with("Q4_K_M", &mixtral, v, BLOCK_Q8_0, 1),
        "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31");
    assert_int_equal(strlen(layers_with("Q4_K_M", &large, v, BLOCK_Q4_K, 1)), 0);
    assert_string_equal(layers_with("Q4_0", &dense, down, BLOCK_Q4_1, 1), "");
    struct mixture_model with = dense;
    with.imatrix = true;
    assert_string_equal(layers_with("Q4_0", &with, down, BLOCK_Q4_1, 1), "0 1 2 3");
    assert_string_equal(layers_with("IQ4_XS", &with, down, BLOCK_Q5_K, 1), "");
}

static void kinds(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint64_t rows;
        enum mixture_kind kind, tied;
    } cases[] = {
        {"token_embd.weight", 8, MIXTURE_EMBEDDING, MIXTURE_OUTPUT},
        {"output.weight", 8, MIXTURE_OUTPUT, MIXTURE_OUTPUT},
        {"blk.3.attn_qkv.weight", 8, MIXTURE_V, MIXTURE_V},
        {"blk.3.attn_v.bias", 1, MIXTURE_KEPT, MIXTURE_KEPT},
        {"blk.3.attn_norm.weight", 1, MIXTURE_KEPT, MIXTURE_KEPT},
        {"blk.3.ffn_gate_inp.weight", 8, MIXTURE_KEPT, MIXTURE_KEPT},
        {"blk.3.ffn_gate_exps.weight", 8, MIXTURE_GATE, MIXTURE_GATE},
        {"blk.3.ssm_conv1d.weight", 8, MIXTURE_KEPT, MIXTURE_KEPT},
        {"blk.3.ssm_out.weight", 8, MIXTURE_OTHER, MIXTURE_OTHER},
        {"blk.3.ffn_up.weight", 1, MIXTURE_KEPT, MIXTURE_KEPT}, /* a vector */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct gguf_tensor t = tensor(cases[i].name, 256, cases[i].rows, 1);
        assert_int_equal(mixture_kind_of(&t, false), cases[i].kind);
        assert_int_equal(mixture_kind_of(&t, true), cases[i].tied);
    }
    assert_int_equal(mixture_layer_of((struct gguf_text){"blk.12.x", 8}), 12);
    assert_int_equal(mixture_layer_of((struct gguf_text){"blk..x", 6}), -1);
    assert_int_equal(mixture_layer_of((struct gguf_text){"output.weight", 13}), -1);
}

static void fallbacks(void **state) {
    (void)state;
    assert_int_equal(mixture_fallback(BLOCK_Q4_K, 512), BLOCK_Q4_K);
    assert_int_equal(mixture_fallback(BLOCK_Q4_K, 320), BLOCK_Q5_0);
    assert_int_equal(mixture_fallback(BLOCK_Q6_K, 320), BLOCK_Q8_0);
    assert_int_equal(mixture_fallback(BLOCK_IQ4_XS, 320), BLOCK_IQ4_NL);
    assert_int_equal(mixture_fallback(BLOCK_Q4_K, 100), BLOCK_F16);
    assert_int_equal(mixture_fallback(BLOCK_Q8_0, 100), BLOCK_F16);
    assert_int_equal(mixture_fallback(BLOCK_F32, 100), BLOCK_F32);
}

static void names(void **state) {
    (void)state;
    assert_string_equal(mixture_find("q4_k")->name, "Q4_K_M");
    assert_string_equal(mixture_find("iq4_xs")->name, "IQ4_XS");
    assert_null(mixture_find("Q4"));
    for (uint32_t i = 0; mixture_at(i) != NULL; i++)
        assert_ptr_equal(mixture_find(mixture_at(i)->name), mixture_at(i));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_get_what_llama_cpp_gives_them),
        cmocka_unit_test(kinds),
        cmocka_unit_test(fallbacks),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests_name("mixture", tests, NULL, NULL);
}
