/* Makes the files of corpus_gguf/, which the fuzzer starts from and tests/e2e/bad_model.sh runs the binary
 * on. By hand, when the corpus should grow, in the checkout's root: gcc -D_GNU_SOURCE -Iinclude -Isrc -Itests
 * tests/fuzz/parts/make_corpus_gguf.c LIBSTATOR.a -lxxhash -o /tmp/make_corpus /tmp/make_corpus
 * tests/fuzz/corpus_gguf */
#include "experts_model.h"
#include "tower_model.h"

static const char *folder;

static void save(struct gguf_writer *w, const char *name) {
    char path[512];
    gguf_writer_finish(w);
    snprintf(path, sizeof path, "%s/%s.gguf", folder, name);
    if (!gguf_writer_save(w, path)) {
        perror(path);
        exit(1);
    }
    gguf_writer_free(w);
}

/* A whole model of one layer, without one key or tensor. */
static struct gguf_writer model(const char *arch, const char *without) {
    struct gguf_writer w = gguf_writer_new();
    struct tiny_model m = tiny_model_of(arch);
    m.n_layers = 1;
    m.n_heads = 1;
    m.n_embd = 2;
    m.n_ff = 3;
    w.drop[0] = without;
    tiny_model_write(&w, m);
    w.drop[0] = NULL;
    return w;
}

static struct gguf_writer small(void) {
    struct gguf_writer w = gguf_writer_new();
    gguf_writer_text(&w, "general.architecture", "llama");
    gguf_writer_tensor(&w, "first", BLOCK_F32, 1, (uint64_t[]){8}, NULL);
    return w;
}

static void good_files(void) {
    static const char *const archs[] = {"llama", "qwen2", "qwen3"};
    struct gguf_writer w;
    char name[32];
    for (int i = 0; i < 3; i++) {
        w = model(archs[i], NULL);
        snprintf(name, sizeof name, "good_%s", archs[i]);
        save(&w, name);
    }
    w = model("qwen3vl", NULL);
    gguf_writer_array(&w, "qwen3vl.rope.dimension_sections", GGUF_I32, 4, (int32_t[]){6, 5, 5, 0}, 16);
    gguf_writer_u32(&w, "qwen3vl.n_deepstack_layers", 1);
    save(&w, "good_qwen3vl");
    w = model("llama", "llama.attention.head_count_kv");
    w.version = 2;
    gguf_writer_array(&w, "llama.attention.head_count_kv", GGUF_I32, 1, (int32_t[]){1}, 4);
    gguf_writer_text(&w, "llama.rope.scaling.type", "linear");
    gguf_writer_f32(&w, "llama.rope.scaling.factor", 2);
    gguf_writer_tensor(&w, "rope_freqs.weight", BLOCK_F32, 1, (uint64_t[]){16}, NULL);
    gguf_writer_texts(&w, "tokenizer.ggml.tokens", 5, (const char *const[]){"a", "b", "c", "d", ""});
    save(&w, "good_v2_rope_tokens");
    w = gguf_writer_new();
    experts_model_write(&w, (struct experts_model){.arch = "qwen3moe",
                                                   .n_layers = 1,
                                                   .n_embd = 2,
                                                   .n_ff = 3,
                                                   .expert_ff = 2,
                                                   .experts = 3,
                                                   .used = 2,
                                                   .n_heads = 1,
                                                   .n_kv_heads = 1,
                                                   .head_dim = 32,
                                                   .vocab = 5,
                                                   .type = BLOCK_F16,
                                                   .down = BLOCK_F16});
    save(&w, "good_experts");
    w = gguf_writer_new();
    uint64_t v = UINT64_MAX;
    for (uint32_t kind = 0; kind < GGUF_KINDS; kind++) {
        snprintf(name, sizeof name, "kind.%u", kind);
        static const int bytes[GGUF_KINDS] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
        if (bytes[kind] != 0)
            gguf_writer_key(&w, name, kind, &v, (size_t)bytes[kind]);
        if (bytes[kind] != 0)
            gguf_writer_array(&w, name + 1, kind, 1, &v, (size_t)bytes[kind]);
    }
    gguf_writer_u32(&w, "general.alignment", 64);
    w.alignment = 64;
    gguf_writer_tensor(&w, "q", BLOCK_Q4_0, 2, (uint64_t[]){32, 2}, NULL);
    gguf_writer_tensor(&w, "b", BLOCK_BF16, 4, (uint64_t[]){1, 2, 1, 2}, NULL);
    save(&w, "good_all_kinds");
}

static void bad_headers(void) {
    const struct {
        const char *name;
        uint32_t version;
        uint64_t keys, tensors;
    } lies[] = {{"bad_version_1", 1, 0, 0},
                {"bad_big_endian", 0x03000000, 0, 0},
                {"bad_key_count", 3, (1ull << 63) - 1, 0},
                {"bad_tensor_count", 3, 0, (1ull << 63) - 1}};
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        struct gguf_writer w = small();
        w.version = lies[i].version;
        w.n_keys_lie = lies[i].keys;
        w.n_tensors_lie = lies[i].tensors;
        save(&w, lies[i].name);
    }
}

static void bad_keys(void) {
    struct gguf_writer w = small();
    gguf_writer_key(&w, "long.text", GGUF_STRING, &(uint64_t){1ull << 63}, 8);
    save(&w, "bad_string_length");
    w = small();
    gguf_writer_array(&w, "long.array", GGUF_U64, (1ull << 61) + 1, NULL, 8);
    save(&w, "bad_array_length");
    w = small();
    gguf_writer_array(&w, "nested.array", GGUF_ARRAY, 1, "\4\0\0\0\1\0\0\0\0\0\0\0\7\0\0\0", 16);
    save(&w, "bad_nested_array");
    w = small();
    gguf_writer_text(&w, "general.architecture", "llama");
    save(&w, "bad_duplicate_key");
    w = small();
    gguf_writer_u32(&w, "general.alignment", 3);
    save(&w, "bad_alignment");
    w = model("llama", "llama.block_count");
    save(&w, "bad_shape_no_block_count");
    w = model("llama", "llama.block_count");
    gguf_writer_text(&w, "llama.block_count", "1");
    save(&w, "bad_shape_block_count_type");
    w = model("llama", "llama.feed_forward_length");
    gguf_writer_u32(&w, "llama.feed_forward_length", 4);
    save(&w, "bad_shape_feed_forward");
    w = model("llama", NULL);
    gguf_writer_u16(&w, "split.no", 1);
    gguf_writer_u16(&w, "split.count", 2);
    save(&w, "bad_split_second");
}

static void bad_tensors(void) {
    const struct {
        const char *file, *name;
        uint32_t type, n_dims;
        uint64_t ne[5];
        uint64_t offset;
    } cases[] = {{"bad_duplicate_tensor", "first", 0, 1, {1}, 32},
                 {"bad_n_dims_0", "t", 0, 0, {0}, 32},
                 {"bad_n_dims_5", "t", 0, 5, {1, 1, 1, 1, 1}, 32},
                 {"bad_dimension_0", "t", 0, 2, {4, 0}, 32},
                 {"bad_dimension_negative", "t", 0, 2, {4, UINT64_MAX}, 32},
                 {"bad_product_wraps", "t", 0, 3, {4, (1ull << 30) - 1, (1ull << 30) + 1}, 32},
                 {"bad_type", "t", 999, 1, {32}, 32},
                 {"bad_offset_unaligned", "t", 0, 1, {1}, 33},
                 {"bad_offset_past_end", "t", 0, 1, {1}, 1ull << 40},
                 {"bad_overlap", "t", 0, 1, {1}, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct gguf_writer w = small();
        gguf_writer_put(&w.data, NULL, 32);
        gguf_writer_entry(&w, cases[i].name, cases[i].type, cases[i].n_dims, cases[i].ne, cases[i].offset);
        save(&w, cases[i].file);
    }
}

static void towers(void) {
    struct gguf_writer w = gguf_writer_new();
    tower_model_write(&w, "qwen3vl_merger", false);
    save(&w, "good_tower_qwen3vl");
    w = gguf_writer_new();
    tower_model_write(&w, "gemma3", false);
    save(&w, "good_tower_gemma3");
    w = gguf_writer_new();
    const struct tower_model_pixtral tiny = {8, 6, 1, 2, 4, 2, 2, 8, BLOCK_F16, true};
    tower_model_write_pixtral(&w, &tiny, 1);
    save(&w, "good_tower_pixtral");
    w = gguf_writer_new();
    const struct tower_model_qwen windows = {.width = 8,
                                             .ff = 6,
                                             .layers = 2,
                                             .heads = 2,
                                             .text = 4,
                                             .patch = 2,
                                             .merge = 2,
                                             .image_size = 8,
                                             .min_pixels = 16,
                                             .max_pixels = 4096,
                                             .window = 8,
                                             .type = BLOCK_F16};
    tower_model_write_qwen(&w, &windows, 1);
    save(&w, "good_tower_qwen25vl");
    w = gguf_writer_new();
    const struct tower_model_gemma4 axes = {8, 6, 1, 2, 4, 2, 2, 5, 64, BLOCK_F16, true};
    tower_model_write_gemma4(&w, &axes, 1);
    save(&w, "good_tower_gemma4");
}

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    folder = argv[1];
    good_files();
    bad_headers();
    bad_keys();
    bad_tensors();
    towers();
    return 0;
}
