/* Models with states, of delta-nets and Mamba-2, and with hyper-connections, with one thing changed: refused
 * by the name of the key or tensor, with what was expected and found, or computed. */
#include "bad_model.h"

static const struct change changes[] = {
    /* hyper-connections, the indexer */
    {"qwen4exp-odd", "hyper_connection.count", LEFT_OUT,
     .refusal = "key 'qwen4exp.hyper_connection.count' is missing"},
    {"qwen4exp-odd", "hyper_connection.count", NUMBER, 1,
     .refusal = "key 'qwen4exp.hyper_connection.count' is 1, expected 2 to 16"},
    {"qwen4exp-odd", "hyper_connection.count", NUMBER, 2,
     .refusal = "has shape [480, 1, 1, 1], but the metadata says [320, 1, 1, 1]"},
    {"qwen4exp-odd", "hyper_connection.low_rank", NUMBER, 95,
     .refusal =
         "tensor 'output_hc_down.weight' has shape [480, 96, 1, 1], but the metadata says [480, 95, 1, 1]"},
    {"qwen4exp-odd", "blk.1.hc_attn_inject.weight", LEFT_OUT,
     .refusal = "tensor 'blk.1.hc_attn_inject.weight' is missing"},
    {"qwen4exp-odd", "blk.2.hc_ffn_norm.weight", HALVES, .ne = {480},
     .refusal = "tensor 'blk.2.hc_ffn_norm.weight' has type f16, expected f32 for a vector"},
    {"qwen4exp-odd", "n_deepstack_layers", NUMBER, 1, .refusal = "key 'qwen4exp.n_deepstack_layers' is 1"},
    {"qwen4exp-odd", "attention.indexer.key_length", NUMBER, 48,
     .refusal = "key 'qwen4exp.attention.indexer.key_length' is 48, expected a multiple of 32"},
    {"qwen4exp-odd", "attention.indexer.key_length", NUMBER, 31,
     .refusal = "key 'qwen4exp.attention.indexer.key_length' is 31, expected 32 to 512"},
    {"qwen4exp-odd", "attention.indexer.top_k", NUMBER, 254,
     .refusal = "key 'qwen4exp.attention.indexer.top_k' is 254, expected a multiple of 4"},
    {"qwen4exp-odd", "attention.compress_ratios", NUMBERS, 4,
     .refusal =
         "key 'qwen4exp.attention.compress_ratios' has 4 items, expected one for each of the 5 layers"},
    {"qwen4exp-odd", "attention.compress_ratios", NUMBERS, 5,
     .refusal =
         "key 'qwen4exp.attention.compress_ratios' is 1 in layer 0, expected 0 (no indexer), 4, 8, 16 or 32"},
    {"qwen4exp-odd", "attention.indexer.top_k", NUMBER, 4, .refusal = NULL},
    {"qwen4exp-odd", "ple.layers", NUMBERS, 2,
     .refusal = "key 'qwen4exp.ple.layers' has 2 items: only one layer with n-gram embeddings is supported"},
    {"qwen4exp-odd", "ple.layers", LEFT_OUT,
     .refusal = "tensor 'per_layer_token_embd.weight' has shape [32, 392, 1, 1], but the metadata says [0, "
                "392, 1, 1]"},
    {"qwen4exp-blocks", "ple.layers", NUMBERS, 1,
     .refusal = "tensor 'blk.1.ple_key.weight' is missing: by qwen4exp.ple.layers, this layer has n-gram "
                "embeddings"},
    {"qwen4exp-odd", "ple.ngram_size", NUMBER, 1,
     .refusal = "key 'qwen4exp.ple.ngram_size' is 1, expected 2 to 8"},
    {"qwen4exp-odd", "ple.heads_per_ngram", NUMBER, 3,
     .refusal = "key 'qwen4exp.ple.head_vocab_sizes' has 4 items, expected 6"},
    {"qwen4exp-odd", "ple.heads_per_ngram", NUMBER, 33,
     .refusal = "key 'qwen4exp.ple.heads_per_ngram' is 33, expected 1 to 32"},
    {"qwen4exp-odd", "ple.layer_multipliers", LEFT_OUT,
     .refusal = "key 'qwen4exp.ple.layer_multipliers' is missing"},
    {"qwen4exp-odd", "ple.head_offsets", SIGNED, 5,
     .refusal = "key 'qwen4exp.ple.head_offsets' has type i32, expected an array of integers"},
    {"qwen4exp-odd", "ple.eos_token_id", NUMBER, 300,
     .refusal = "key 'qwen4exp.ple.eos_token_id' is 300, but the vocabulary has 300 tokens"},
    {"qwen4exp-odd", "blk.1.ple_conv1d.weight", HALVES, .ne = {4, 480},
     .refusal = "tensor 'blk.1.ple_conv1d.weight' has type f16, expected f32"},
    {"qwen4exp-odd", "attention.compress_ratios", TRUTHS, 5,
     .refusal =
         "key 'qwen4exp.attention.compress_ratios' has type array of bool, expected an array of integers"},
    {"qwen4exp-odd", "attention.compress_ratios", NUMBER, 4,
     .refusal = "key 'qwen4exp.attention.compress_ratios' has type u32, expected an array of integers"},
    {"qwen4exp-odd", "blk.3.indexer.k_norm.weight", LEFT_OUT,
     .refusal =
         "tensor 'blk.3.indexer.k_norm.weight' is missing: by qwen4exp.full_attention_interval, 4, this "
         "layer is a full attention one"},
    {"qwen35moe-odd", "blk.0.ffn_gate_inp_shexp.weight", LEFT_OUT,
     .refusal = "tensor 'blk.0.ffn_gate_inp_shexp.weight' is missing: qwen35moe.expert_count is 10, "
                "leading_dense_block_count 0, and the share"},
    {"qwen35moe-odd", "blk.0.ffn_gate_inp_shexp.weight", SHAPE, .ne = {160, 2},
     .refusal = "tensor 'blk.0.ffn_gate_inp_shexp.weight' has shape [160, 2, 1, 1], but the metadata says "
                "[160, 1, 1, 1]"},
    {"qwen35moe-odd", "blk.0.ffn_gate_inp_shexp.weight", HALVES, .ne = {160},
     .refusal = "tensor 'blk.0.ffn_gate_inp_shexp.weight' has type f16, expected f32 for a vector"},
    {"qwen35moe-odd", "blk.0.ffn_gate_shexp.weight", LEFT_OUT,
     .refusal = "tensor 'blk.0.ffn_gate_shexp.weight' is missing: qwen35moe.expert_count is 10, "
                "leading_dense_block_count 0, and the shared ex"},
    {"qwen35moe-odd", "expert_shared_feed_forward_length", NUMBER, 63,
     .refusal = "tensor 'blk.0.ffn_gate_shexp.weight' has shape [160, 64, 1, 1], but the metadata says [160, "
                "63, 1, 1]"},
    {"llama-experts", "expert_count", NUMBER, 0,
     .refusal = "tensor 'blk.0.ffn_gate.weight' is missing: llama.expert_count is 0, "
                "leading_dense_block_count 0, and the shared expert has 0"},
    {"llama-mqa", "expert_count", NUMBER, 4, .refusal = "key 'llama.expert_used_count' is missing"},
    {"qwen2-odd", "expert_count", NUMBER, 4,
     .refusal =
         "key 'qwen2.expert_count' is 4: mixture-of-experts models of this architecture are not supported"},
    /* delta-net layers */
    {"qwen35-odd", "ssm.conv_kernel", NUMBER, 0,
     .refusal = "key 'qwen35.ssm.conv_kernel' is 0, expected 1 to 16"},
    {"qwen35-odd", "ssm.conv_kernel", NUMBER, 1,
     .refusal =
         "tensor 'blk.0.ssm_conv1d.weight' has shape [4, 320, 1, 1], but the metadata says [1, 320, 1, 1]"},
    {"qwen35-odd", "ssm.conv_kernel", NUMBER, 17,
     .refusal = "key 'qwen35.ssm.conv_kernel' is 17, expected 1 to 16"},
    {"qwen35-odd", "ssm.group_count", NUMBER, 0,
     .refusal = "key 'qwen35.ssm.group_count' is 0, expected 1 to 4096"},
    {"qwen35-odd", "ssm.group_count", NUMBER, 4,
     .refusal = "6 value heads (qwen35.ssm.time_step_rank) do not share 4 key heads (qwen35.ssm.group_count) "
                "evenly"},
    {"qwen35-odd", "ssm.group_count", NUMBER, 3,
     .refusal =
         "tensor 'blk.0.attn_qkv.weight' has shape [160, 320, 1, 1], but the metadata says [160, 384, 1, 1]"},
    {"qwen35-odd", "ssm.group_count", LEFT_OUT, .refusal = "key 'qwen35.ssm.group_count' is missing"},
    {"qwen35-odd", "ssm.time_step_rank", NUMBER, 5,
     .refusal = "5 value heads (qwen35.ssm.time_step_rank) do not share 2 key heads (qwen35.ssm.group_count) "
                "evenly"},
    {"qwen35-odd", "ssm.time_step_rank", NUMBER, 0,
     .refusal = "key 'qwen35.ssm.time_step_rank' is 0, expected 1 to 4096"},
    {"qwen35-odd", "ssm.time_step_rank", NUMBER, 4097,
     .refusal = "key 'qwen35.ssm.time_step_rank' is 4097, expected 1 to 4096"},
    {"qwen35-odd", "ssm.inner_size", NUMBER, 191,
     .refusal = "key 'qwen35.ssm.inner_size' is 191, expected a multiple of the 6 value heads "
                "(qwen35.ssm.time_step_rank)"},
    {"qwen35-odd", "ssm.inner_size", NUMBER, 0,
     .refusal = "key 'qwen35.ssm.inner_size' is 0, expected 1 to 1048576"},
    {"qwen35-odd", "ssm.inner_size", NUMBER, 96,
     .refusal =
         "tensor 'blk.0.attn_qkv.weight' has shape [160, 320, 1, 1], but the metadata says [160, 224, 1, 1]"},
    {"qwen35-odd", "ssm.state_size", SIGNED, -1,
     .refusal = "key 'qwen35.ssm.state_size' is -1, expected 1 to 256"},
    {"qwen35-odd", "ssm.state_size", NUMBER, 16,
     .refusal =
         "tensor 'blk.0.attn_qkv.weight' has shape [160, 320, 1, 1], but the metadata says [160, 256, 1, 1]"},
    {"qwen35-odd", "ssm.state_size", FRACTION, 32,
     .refusal = "key 'qwen35.ssm.state_size' has type f32, expected an integer"},
    {"qwen35-odd", "full_attention_interval", NUMBER, 0,
     .refusal = "key 'qwen35.full_attention_interval' is 0, expected 1 to 4294967295"},
    {"qwen35-odd", "full_attention_interval", NUMBER, 1,
     .refusal = "tensor 'blk.0.attn_qkv.weight' is not expected: by qwen35.full_attention_interval, 1, this "
                "layer is a full attention one"},
    {"qwen35-odd", "full_attention_interval", NUMBER, 3,
     .refusal = "tensor 'blk.2.attn_qkv.weight' is not expected: by qwen35.full_attention_interval, 3, this "
                "layer is a full attention one"},
    {"qwen35-odd", "full_attention_interval", NUMBER, 9,
     .refusal = "tensor 'blk.3.attn_qkv.weight' is missing: by qwen35.full_attention_interval, 9, this layer "
                "is a delta-net one"},
    {"qwen35-odd", "blk.1.ssm_conv1d.weight", SHAPE, .ne = {3, 320},
     .refusal =
         "tensor 'blk.1.ssm_conv1d.weight' has shape [3, 320, 1, 1], but the metadata says [4, 320, 1, 1]"},
    {"qwen35-odd", "blk.1.ssm_conv1d.weight", SHAPE, .ne = {4, 319},
     .refusal =
         "tensor 'blk.1.ssm_conv1d.weight' has shape [4, 319, 1, 1], but the metadata says [4, 320, 1, 1]"},
    {"qwen35-odd", "blk.1.ssm_conv1d.weight", HALVES, .ne = {4, 320},
     .refusal = "tensor 'blk.1.ssm_conv1d.weight' has type f16, expected f32"},
    {"qwen35-odd", "blk.1.ssm_a", SHAPE, .ne = {5},
     .refusal = "tensor 'blk.1.ssm_a' has shape [5, 1, 1, 1], but the metadata says [6, 1, 1, 1]"},
    {"qwen35-odd", "blk.1.ssm_dt.bias", SHAPE, .ne = {6, 2},
     .refusal = "tensor 'blk.1.ssm_dt.bias' has shape [6, 2, 1, 1], but the metadata says [6, 1, 1, 1]"},
    {"qwen35-odd", "blk.1.ssm_beta.weight", SHAPE, .ne = {160, 5},
     .refusal =
         "tensor 'blk.1.ssm_beta.weight' has shape [160, 5, 1, 1], but the metadata says [160, 6, 1, 1]"},
    {"qwen35-odd", "blk.1.ssm_alpha.weight", LEFT_OUT,
     .refusal = "tensor 'blk.1.ssm_alpha.weight' is missing: by qwen35.full_attention_interval, 4, this "
                "layer is a delta-net one"},
    {"qwen35-odd", "blk.1.ssm_norm.weight", SHAPE, .ne = {64},
     .refusal =
         "tensor 'blk.1.ssm_norm.weight' has shape [64, 1, 1, 1], but the metadata says [32, 1, 1, 1]"},
    {"qwen35-odd", "blk.1.ssm_out.weight", SHAPE, .ne = {160, 192},
     .refusal =
         "tensor 'blk.1.ssm_out.weight' has shape [160, 192, 1, 1], but the metadata says [192, 160, 1, 1]"},
    {"qwen35-odd", "blk.3.attn_q.weight", SHAPE, .ne = {160, 320},
     .refusal =
         "tensor 'blk.3.attn_q.weight' has shape [160, 320, 1, 1], but the metadata says [160, 640, 1, 1]"},
    {"qwen35-odd", "blk.3.ssm_a", SHAPE, .ne = {6},
     .refusal = "tensor 'blk.3.ssm_a' is not expected: by qwen35.full_attention_interval, 4, this layer is a "
                "full attention one"},
    {"qwen35-odd", "blk.1.attn_q.weight", SHAPE, .ne = {160, 640},
     .refusal = "tensor 'blk.1.attn_q.weight' is not expected: by qwen35.full_attention_interval, 4, this "
                "layer is a delta-net one"},
    {"qwen35-odd", "attention.value_length", NUMBER, 32,
     .refusal = "key 'qwen35.attention.value_length' is 32, but gates lie beside heads of q, and "
                "attention.key_length is 64: only equal ones"},
    {"qwen35-odd", "rope.dimension_count", NUMBER, 66,
     .refusal = "key 'qwen35.rope.dimension_count' is 66, expected 2 to 64"},
    {"qwen35-odd", "rope.dimension_count", NUMBER, 31,
     .refusal = "key 'qwen35.rope.dimension_count' is 31, expected an even number"},
    {"qwen35-odd", "rope.dimension_count", NUMBER, 0,
     .refusal = "key 'qwen35.rope.dimension_count' is 0, expected 2 to 64"},
    {"qwen35-odd", "attention.head_count_kv", NUMBER, 2,
     .refusal = "5 attention heads (qwen35.attention.head_count) do not share 2 KV heads "
                "(qwen35.attention.head_count_kv) evenly, at most 64 e"},
    {"qwen35-odd", "attention.head_count_kv", NUMBERS, 4,
     .refusal = "key 'qwen35.attention.head_count_kv' has 4 items, expected one for each of the 5 layers"},
    {"qwen35-odd", "nextn_predict_layers", NUMBER, 5,
     .refusal = "key 'qwen35.nextn_predict_layers' is 5, but qwen35.block_count, which includes them, is 5"},
    {"qwen3next-odd", "blk.1.ssm_ba.weight", SHAPE, .ne = {160, 6},
     .refusal =
         "tensor 'blk.1.ssm_ba.weight' has shape [160, 6, 1, 1], but the metadata says [160, 12, 1, 1]"},
    {"qwen3next-odd", "blk.1.ssm_ba.weight", LEFT_OUT,
     .refusal = "tensor 'blk.1.ssm_ba.weight' is missing: by"},
    {"qwen3next-odd", "blk.1.ssm_beta.weight", SHAPE, .ne = {160, 6},
     .refusal = "tensor 'blk.1.ssm_beta.weight' is not known for the architecture qwen3next"},
    {"qwen3next-odd", "blk.1.attn_gate.weight", LEFT_OUT,
     .refusal = "tensor 'blk.1.attn_gate.weight' is missing, and there is no 'blk.1.ssm_in.weight' either"},
    {"qwen3next-odd", "blk.1.ssm_in.weight", SHAPE, .ne = {160, 512},
     .refusal = "tensors 'blk.1.attn_qkv.weight' and 'blk.1.ssm_in.weight' are both there, expected one"},
    {"qwen3next-odd", "blk.3.ssm_in.weight", SHAPE, .ne = {160, 512},
     .refusal = "tensor 'blk.3.ssm_in.weight' is not expected: by qwen3next.full_attention_interval"},
    {"qwen3next-fused", "blk.1.ssm_in.weight", LEFT_OUT,
     .refusal = "tensor 'blk.1.attn_qkv.weight' is missing, and there is no 'blk.1.ssm_in.weight' either"},
    {"qwen3next-fused", "blk.1.ssm_in.weight", SHAPE, .ne = {160, 384},
     .refusal =
         "tensor 'blk.1.ssm_in.weight' has shape [160, 384, 1, 1], but the metadata says [160, 576, 1, 1]"},
    {"qwen3next-odd", "ssm.group_count", NUMBER, 4,
     .refusal = "6 value heads (qwen3next.ssm.time_step_rank) do not"},
    /* layers of Mamba-2 */
    {"granitehybrid-odd", "blk.1.ssm_d", LEFT_OUT,
     .refusal =
         "tensor 'blk.1.ssm_d' is missing: by granitehybrid.attention.head_count_kv, 0, this layer is a "
         "Mamba-2 one"},
    {"granitehybrid-odd", "blk.1.ssm_conv1d.bias", LEFT_OUT, .refusal = NULL},
    {"granitehybrid-odd", "blk.2.ssm_d", SHAPE, .ne = {1, 6},
     .refusal =
         "tensor 'blk.2.ssm_d' is not expected: by granitehybrid.attention.head_count_kv, 1, this layer "
         "is a full attention one"},
    {"granitehybrid-odd", "blk.0.ssm_norm.weight", SHAPE, .ne = {95, 2},
     .refusal =
         "tensor 'blk.0.ssm_norm.weight' has shape [95, 2, 1, 1], but the metadata says [96, 2, 1, 1]"},
    {"granitehybrid-odd", "ssm.group_count", NUMBER, 4,
     .refusal = "6 value heads (granitehybrid.ssm.time_step_rank) do not share 4 key heads"},
    {"granitehybrid-odd", "ssm.state_size", NUMBER, 257,
     .refusal = "key 'granitehybrid.ssm.state_size' is 257, expected 1 to 256"},
};

static void every_change(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++)
        check(&changes[i]);
}

/* One tensor for all of a key head is cut into panels; a key head that is alone need not be whole ones. */
static void fused_widths(void **state) {
    (void)state;
    for (int alone = 0; alone < 2; alone++) {
        struct peer_model m = *find("qwen3next-fused");
        struct gguf_writer w = gguf_writer_new();
        char path[GGUF_WRITER_PATH];
        m.state = 24;
        m.value_heads = alone ? 4 : 6;
        m.key_heads = alone ? 1 : 3;
        peer_model_write(&w, &m, BLOCK_F32);
        assert_true(gguf_writer_finish(&w));
        const char *sets[] = {"memory.kv_type=f32", "memory.context=64", "memory.batch=16"};
        stator_options o = {
            .size = sizeof o, .config = gguf_writer_memory_path(&w, path), .set = sets, .n_set = 3};
        stator *s = NULL;
        stator_error e = {0};
        stator_status st = stator_open(&o, &s, &e);
        if (st == STATOR_OK)
            st = stator_start(s, &e);
        if (st != (alone ? STATOR_OK : STATOR_BAD_MODEL))
            fail_msg("%d: %s", (int)st, e.text);
        if (!alone)
            assert_non_null(strstr(e.text,
                                   "'blk.0.ssm_in.weight' has 24 rows of q and k and 48 of values for each "
                                   "of 3 key heads: only multiples of 16"));
        stator_close(s);
        gguf_writer_free(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_change), cmocka_unit_test(fused_widths)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
