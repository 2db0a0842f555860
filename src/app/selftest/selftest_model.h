/* Small models with random weights, made in memory, for `stator selftest`: any weight type, any dense shape.
 */
#ifndef STATOR_APP_SELFTEST_MODEL_H
#define STATOR_APP_SELFTEST_MODEL_H

#include "base/error.h"
#include "model/gguf_writer.h"

#include <stdbool.h>
#include <stdint.h>

struct selftest_model {
    /* "llama", "qwen2" (biases), "qwen3" (norms of q and k), "gemma2" and "gemma3" (windows, norms also
     * behind attention and feed-forward), "phi3" (fused tensors, windows), "qwen35" (every other layer has a
     * state), "qwen35moe" (experts too, a shared one with a gate), "qwen3next" (that, value heads grouped by
     * their keys), "glm4moe" (experts by sigmoids, chosen with a bias, a shared one), "gpt-oss" (windows,
     * sinks, YaRN, experts with biases), "mistral3" (YaRN, queries with angles of their own, biases of the
     * feed-forward), "smollm3" (every fourth layer without RoPE), "olmo2" (norms of all heads together, none
     * before products, windows), "lfm2" and "lfm2moe" (every other layer has a gated convolution, norms of
     * heads, experts by sigmoids), "cohere2" (one LayerNorm, windows), "hunyuan-dense" (norms of heads after
     * RoPE), "ernie4_5-moe" (experts by a softmax, chosen with a bias, a shared one)
     */
    const char *architecture;
    uint32_t type;  /* of the matrices: enum block_type, computable */
    uint32_t other; /* of those that are multiplied together with another and come second; 0: the same */
    uint32_t n_layers, n_embd, n_ff, n_heads, n_kv_heads, head_dim, vocab, context;
    uint32_t value_dim; /* of a head of V; 0: head_dim */
    uint32_t n_rot;     /* dimensions that are rotated; 0: head_dim */
    uint32_t window;    /* 0: none; of gemma2, gemma3 and olmo2 every second layer has none */
    uint32_t key_heads, value_heads, dim_k, dim_v, taps; /* of a state; 0: none; taps: also of lfm2 */
    bool one_in;       /* of qwen3next: q, k, v and gates of a state in one tensor */
    bool nextn;        /* of qwen35: an MTP head */
    float rope_factor; /* RoPE scaled linearly; 0: not */
    bool longrope;     /* of phi3: divisors of 1, or of 2 where the context is above 512 */
    uint32_t experts,
        used;    /* of n_ff each, in place of the feed-forward ("qwen3moe", "llama", ..); 0: none */
    bool untied; /* an output matrix of its own */
    uint64_t seed;
};

#define SELFTEST_MODEL_PATH GGUF_WRITER_PATH

/* Writes the model as a GGUF file that has no name; path ("/proc/self/fd/N") lasts until *fd is closed. *fd
 * is -1 where there is none, after an error. */
stator_status selftest_model_make(const struct selftest_model *m, int *fd, char path[SELFTEST_MODEL_PATH],
                                  stator_error *e);

#endif
