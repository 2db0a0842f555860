#include "app/selftest/selftest_model.h"

#include "base/arith.h"
#include "formats/block.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_TENSORS 128
#define ALIGNMENT   32

/* Ids of value kinds in the file (GGUF specification, version 3). */
enum { KIND_U32 = 4, KIND_F32 = 6, KIND_STRING = 8 };

struct tensor {
    char name[48];
    uint32_t type;
    uint64_t cols, rows; /* rows 0: one dimension */
    uint64_t offset;
};

struct writer {
    const struct selftest_model *m;
    FILE *f;
    struct tensor tensors[MAX_TENSORS];
    uint32_t n;
    uint64_t data_bytes;
    uint64_t random;
};

static uint64_t next_random(struct writer *w) {
    uint64_t z = (w->random += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

/* In [-1, 1). */
static float next_float(struct writer *w) {
    return (float)(int64_t)(next_random(w) >> 40) * 0x1p-23f - 1.0f;
}

static void put(struct writer *w, const void *data, size_t n) {
    (void)fwrite(data, 1, n, w->f); /* ferror is looked at in the end */
}

static void put_u32(struct writer *w, uint32_t v) {
    put(w, &v, sizeof v);
}

static void put_u64(struct writer *w, uint64_t v) {
    put(w, &v, sizeof v);
}

static void put_text(struct writer *w, const char *text) {
    put_u64(w, strlen(text));
    put(w, text, strlen(text));
}

static void add(struct writer *w, const char *name, uint32_t type, uint64_t cols, uint64_t rows) {
    CHECK(w->n < MAX_TENSORS);
    struct tensor *t = &w->tensors[w->n++];
    *t = (struct tensor){.type = type, .cols = cols, .rows = rows, .offset = w->data_bytes};
    snprintf(t->name, sizeof t->name, "%s", name);
    uint64_t row = 0;
    bool ok = block_row_bytes(type, cols, &row);
    CHECK(ok);
    w->data_bytes += arith_round_up(row * ARITH_MAX(rows, 1u), ALIGNMENT);
}

static void add_layer(struct writer *w, uint32_t layer) {
    const struct selftest_model *m = w->m;
    uint64_t q = (uint64_t)m->n_heads * m->head_dim;
    uint64_t kv = (uint64_t)m->n_kv_heads * m->head_dim;
    bool biases = strcmp(m->architecture, "qwen2") == 0;
    bool norms = strcmp(m->architecture, "qwen3") == 0;
    const struct {
        const char *name;
        uint64_t cols, rows;
        bool there;
    } parts[] = {{"attn_norm.weight", m->n_embd, 0, true},
                 {"attn_q.weight", m->n_embd, q, true},
                 {"attn_q.bias", q, 0, biases},
                 {"attn_k.weight", m->n_embd, kv, true},
                 {"attn_k.bias", kv, 0, biases},
                 {"attn_v.weight", m->n_embd, kv, true},
                 {"attn_v.bias", kv, 0, biases},
                 {"attn_q_norm.weight", m->head_dim, 0, norms},
                 {"attn_k_norm.weight", m->head_dim, 0, norms},
                 {"attn_output.weight", q, m->n_embd, true},
                 {"ffn_norm.weight", m->n_embd, 0, true},
                 {"ffn_gate.weight", m->n_embd, m->n_ff, true},
                 {"ffn_up.weight", m->n_embd, m->n_ff, true},
                 {"ffn_down.weight", m->n_ff, m->n_embd, true}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char name[48];
        snprintf(name, sizeof name, "blk.%u.%s", layer, parts[i].name);
        if (parts[i].there)
            add(w, name, parts[i].rows != 0 ? m->type : (uint32_t)BLOCK_F32, parts[i].cols, parts[i].rows);
    }
}

static void put_keys(struct writer *w) {
    const struct selftest_model *m = w->m;
    const struct {
        const char *name;
        uint32_t v;
    } numbers[] = {{"block_count", m->n_layers},          {"embedding_length", m->n_embd},
                   {"feed_forward_length", m->n_ff},      {"context_length", m->context},
                   {"attention.head_count", m->n_heads},  {"attention.head_count_kv", m->n_kv_heads},
                   {"attention.key_length", m->head_dim}, {"attention.value_length", m->head_dim},
                   {"rope.dimension_count", m->head_dim}, {"vocab_size", m->vocab}};
    const size_t n = sizeof numbers / sizeof numbers[0];
    put(w, "GGUF", 4);
    put_u32(w, 3);
    put_u64(w, w->n);
    put_u64(w, n + 3);
    put_text(w, "general.architecture");
    put_u32(w, KIND_STRING);
    put_text(w, m->architecture);
    char key[96];
    for (size_t i = 0; i < n; i++) {
        snprintf(key, sizeof key, "%s.%s", m->architecture, numbers[i].name);
        put_text(w, key);
        put_u32(w, KIND_U32);
        put_u32(w, numbers[i].v);
    }
    const float epsilon = 1e-5f;
    const float base = 10000.0f;
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", m->architecture);
    put_text(w, key);
    put_u32(w, KIND_F32);
    put(w, &epsilon, sizeof epsilon);
    snprintf(key, sizeof key, "%s.rope.freq_base", m->architecture);
    put_text(w, key);
    put_u32(w, KIND_F32);
    put(w, &base, sizeof base);
}

/* Random bits, except for the half-precision scales and minima, which random bits could make infinite. */
static void fill_block(struct writer *w, uint32_t type, uint8_t *block, uint32_t bytes) {
    for (uint32_t i = 0; i < bytes; i++)
        block[i] = (uint8_t)(next_random(w) >> 56);
    bool k = type == BLOCK_Q4_K || type == BLOCK_Q5_K || type == BLOCK_Q6_K;
    uint16_t d = block_to_f16((0.75f + 0.25f * next_float(w)) * (k ? 0.0004f : 0.01f));
    uint16_t m = block_to_f16((k ? 0.0004f : -0.08f) * (0.75f + 0.25f * next_float(w)));
    if (type == BLOCK_MXFP4) /* 2^-8 to 2^-7, halved */
        block[0] = (uint8_t)(120 + block[0] % 2);
    else
        memcpy(type == BLOCK_Q6_K ? block + bytes - 2 : block, &d, sizeof d);
    if (type == BLOCK_Q4_1 || type == BLOCK_Q5_1 || type == BLOCK_Q4_K || type == BLOCK_Q5_K)
        memcpy(block + 2, &m, sizeof m);
}

static void put_value(struct writer *w, uint32_t type, float v) {
    uint16_t half = block_to_f16(v);
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    uint16_t high = (uint16_t)(bits >> 16);
    if (type == BLOCK_F32)
        put(w, &v, sizeof v);
    else
        put(w, type == BLOCK_F16 ? &half : &high, sizeof half);
}

static void put_data(struct writer *w, const struct tensor *t) {
    const struct block_info *info = block_info(t->type);
    uint64_t values = t->cols * ARITH_MAX(t->rows, 1u);
    uint8_t block[512];
    CHECK(info->bytes <= sizeof block);
    bool norm = t->rows == 0 && strstr(t->name, "norm") != NULL;
    for (uint64_t i = 0; i < values / info->values; i++) {
        if (info->values == 1) {
            put_value(w, t->type, norm ? 1.0f + 0.25f * next_float(w) : 0.1f * next_float(w));
        } else {
            fill_block(w, t->type, block, info->bytes);
            put(w, block, info->bytes);
        }
    }
    static const uint8_t zeros[ALIGNMENT];
    uint64_t bytes = values / info->values * info->bytes;
    put(w, zeros, arith_round_up(bytes, ALIGNMENT) - bytes);
}

static void put_file(struct writer *w) {
    static const uint8_t zeros[ALIGNMENT];
    put_keys(w);
    for (uint32_t i = 0; i < w->n; i++) {
        const struct tensor *t = &w->tensors[i];
        put_text(w, t->name);
        put_u32(w, t->rows != 0 ? 2 : 1);
        put_u64(w, t->cols);
        if (t->rows != 0)
            put_u64(w, t->rows);
        put_u32(w, t->type);
        put_u64(w, t->offset);
    }
    long at = ftell(w->f);
    if (at > 0)
        put(w, zeros, arith_round_up((uint64_t)at, ALIGNMENT) - (uint64_t)at);
    for (uint32_t i = 0; i < w->n; i++)
        put_data(w, &w->tensors[i]);
}

stator_status selftest_model_make(const struct selftest_model *m, int *fd, char path[SELFTEST_MODEL_PATH],
                                  stator_error *e) {
    struct writer *w = calloc(1, sizeof *w);
    *fd = memfd_create("selftest.gguf", MFD_CLOEXEC);
    int copy = *fd >= 0 ? dup(*fd) : -1; /* fclose closes one */
    if (w != NULL)
        w->f = copy >= 0 ? fdopen(copy, "wb") : NULL;
    if (w == NULL || w->f == NULL) {
        free(w);
        return error_set(e, STATOR_FAILED, "selftest: no memory for a model: %s", strerror(errno));
    }
    w->m = m;
    w->random = m->seed;
    add(w, "token_embd.weight", m->type, m->n_embd, m->vocab);
    add(w, "output_norm.weight", BLOCK_F32, m->n_embd, 0);
    if (m->untied)
        add(w, "output.weight", m->type, m->n_embd, m->vocab);
    for (uint32_t i = 0; i < m->n_layers; i++)
        add_layer(w, i);
    put_file(w);
    bool failed = ferror(w->f) != 0;
    failed = fclose(w->f) != 0 || failed;
    free(w);
    snprintf(path, SELFTEST_MODEL_PATH, "/proc/self/fd/%d", *fd);
    return failed ? error_set(e, STATOR_FAILED, "selftest: a model can't be written to memory: %s",
                              strerror(errno))
                  : STATOR_OK;
}
