/* Embeddings and scores: against the logits of Hugging Face transformers in float64
 * (../shared/oracles/models), which follow from the hidden states by one product with the output matrix, and
 * against each other. */
#include "engine_harness.h"
#include "tiny_model.h"

#include "formats/block.h"

#include <math.h>

#define DEMO  "configs/demo.gguf"
#define N_IDS 50

/* One vector, malloced. */
static float *embed(stator *s, const int32_t *ids, size_t n, uint32_t dimensions, uint32_t *width) {
    stator_request q = {
        .size = sizeof q, .kind = STATOR_EMBED, .tokens = ids, .n_tokens = n, .dimensions = dimensions};
    uint64_t id = 0;
    stator_error e = {0};
    if (stator_submit(s, &q, &id, &e) != STATOR_OK)
        fail_msg("submit: %s", e.text);
    float *out = NULL;
    for (;;) {
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        assert_int_equal(stator_poll(s, UINT64_MAX, &ev, &have, &e), STATOR_OK);
        if (!have)
            continue;
        assert_int_equal(ev.request, id);
        if (ev.kind == STATOR_EVENT_DONE) {
            assert_int_equal(ev.reason, STATOR_REASON_LENGTH);
            assert_int_equal(ev.n_prompt, n);
            assert_int_equal(ev.n_generated, 0);
            break;
        }
        assert_int_equal(ev.kind, STATOR_EVENT_VECTOR);
        assert_null(out);
        *width = ev.n_values;
        out = malloc(ev.n_values * sizeof *out);
        assert_non_null(out);
        memcpy(out, ev.logits, ev.n_values * sizeof *out);
    }
    assert_non_null(out);
    return out;
}

/* A tensor of F16 or F32 as doubles, malloced. */
static double *values_of(const struct gguf *g, const struct gguf_tensor *t) {
    const uint64_t n = t->ne[0] * t->ne[1];
    FILE *f = fopen(gguf_path(g, 0), "rb");
    uint8_t *bytes = malloc(t->bytes);
    double *out = calloc(n, sizeof *out);
    assert_true(f != NULL && bytes != NULL && out != NULL);
    assert_int_equal(fseek(f, (long)t->offset, SEEK_SET), 0);
    assert_int_equal(fread(bytes, 1, t->bytes, f), t->bytes);
    for (uint64_t i = 0; i < n; i++) {
        uint16_t half;
        float value;
        memcpy(&half, bytes + 2 * i, 2);
        if (t->type == BLOCK_F32)
            memcpy(&value, bytes + 4 * i, 4);
        else
            value = block_from_f16(half);
        out[i] = (double)value;
    }
    (void)fclose(f);
    free(bytes);
    return out;
}

/* want: logits whose hidden state, scaled to length 1, is `vector`. Both are compared up to that scale. */
static void compare(const char *model, const double *want, const float *vector, uint32_t width) {
    struct gguf *g = NULL;
    stator_error e = {0};
    assert_int_equal(gguf_open(model, &g, &e), STATOR_OK);
    const struct gguf_tensor *t = gguf_find_tensor(g, "output.weight");
    if (t == NULL)
        t = gguf_find_tensor(g, "token_embd.weight");
    assert_int_equal(t->ne[0], width);
    double *matrix = values_of(g, t), *logits = calloc(t->ne[1], sizeof *logits);
    double length = 0, both = 0, squares = 0, worst = 0;
    assert_non_null(logits);
    for (uint32_t i = 0; i < width; i++)
        length += (double)vector[i] * (double)vector[i];
    assert_true(fabs(length - 1) < 1e-6);
    for (uint64_t r = 0; r < t->ne[1]; r++) {
        for (uint32_t i = 0; i < width; i++)
            logits[r] += matrix[r * width + i] * (double)vector[i];
        both += logits[r] * want[r];
        squares += logits[r] * logits[r];
    }
    for (uint64_t r = 0; r < t->ne[1]; r++)
        worst = fmax(worst, fabs(logits[r] * both / squares - want[r]));
    print_message("%s: logits of the embedding at most %.3g off\n", model, worst);
    assert_true(both > 0 && worst < 1e-3);
    free(matrix);
    free(logits);
    gguf_close(g);
}

static void check_oracle(const char *name, const char *pooling, size_t n) {
    char relative[128], set[64];
    snprintf(relative, sizeof relative, "oracles/models/%s.gguf", name);
    TESTING_NEED_SHARED(relative);
    struct harness_oracle o;
    harness_oracle_read(name, &o);
    snprintf(set, sizeof set, "model.pooling=%s", pooling);
    const char *sets[] = {set, "memory.kv_type=f32", "memory.batch=20", NULL};
    double want[512] = {0};
    const size_t first = strcmp(pooling, "mean") == 0 ? 0 : n - 1;
    for (size_t p = first; p < n; p++)
        for (size_t i = 0; i < 512; i++)
            want[i] += (double)o.logits[p * 512 + i];
    for (size_t i = 0; i < 512; i++)
        want[i] /= (double)(n - first);
    stator *s = harness_start(o.model, sets);
    uint32_t width = 0;
    float *vector = embed(s, o.prompt, n, 0, &width);
    compare(o.model, want, vector, width);
    stator_close(s);
    free(vector);
    free(o.logits);
}

static void oracles(void **state) {
    (void)state;
    check_oracle("qwen3", "last", 48);
    check_oracle("qwen3", "last", 1);
    check_oracle("qwen3", "mean", 47);
    check_oracle("qwen2", "last", 33);
    check_oracle("llama-untied", "mean", 48);
    check_oracle("qwen3moe", "last", 30);
    check_oracle("qwen35", "mean", 48);
    check_oracle("cohere2", "last", 48); /* LayerNorm, and logits that are scaled */
}

/* Ids of text i. */
static uint32_t text_of(uint32_t i, int32_t ids[N_IDS]) {
    const uint32_t n = 1 + i * 37 % N_IDS;
    for (uint32_t k = 0; k < n; k++)
        ids[k] = (int32_t)(300 + (k * 7 + (k > 33 ? i : 0)) % 200); /* all begin alike */
    return n;
}

/* Steps, other requests, prefixes that are shared, devices and tiers change no bit. */
static void company(void **state) {
    (void)state;
    enum { TEXTS = 7 };
    static const char *const others[][4] = {
        {"memory.batch=7"},
        {"memory.sequences=5", "memory.batch=64"},
        {"memory.sequences=3", "memory.logits_rows=2", "memory.batch=33"},
        {"devices.use=cpu:0,cpu:1", "memory.sequences=2", "memory.batch=16"},
        {"cpu.tier=scalar", "server.prefix_cache=false"}};
    for (int mean = 0; mean < 2; mean++) {
        float *first[TEXTS];
        uint32_t width = 0;
        for (size_t v = 0; v <= sizeof others / sizeof others[0]; v++) {
            const char *sets[8] = {mean ? "model.pooling=mean" : "model.pooling=last", "memory.context=128"};
            for (size_t i = 0; v > 0 && i < 4; i++)
                sets[2 + i] = others[v - 1][i];
            stator *s = harness_start(DEMO, sets);
            uint64_t requests[TEXTS];
            uint32_t got = 0;
            for (uint32_t i = 0; i < TEXTS; i++) {
                int32_t ids[N_IDS];
                const uint32_t n = text_of(i, ids);
                if (v == 0) {
                    first[i] = embed(s, ids, n, 0, &width);
                    continue;
                }
                const stator_request q = {
                    .size = sizeof q, .kind = STATOR_EMBED, .tokens = ids, .n_tokens = n};
                assert_int_equal(stator_submit(s, &q, &requests[i], NULL), STATOR_OK);
            }
            for (uint32_t left = v > 0 ? TEXTS : 0; left > 0;) {
                stator_event ev = {.size = sizeof ev};
                int have = 0;
                assert_int_equal(stator_poll(s, UINT64_MAX, &ev, &have, NULL), STATOR_OK);
                if (!have)
                    continue;
                uint32_t i = 0;
                while (i < TEXTS && requests[i] != ev.request)
                    i++;
                assert_true(i < TEXTS);
                if (ev.kind == STATOR_EVENT_DONE) {
                    assert_int_equal(ev.reason, STATOR_REASON_LENGTH);
                    left--;
                    continue;
                }
                assert_int_equal(ev.kind, STATOR_EVENT_VECTOR);
                assert_int_equal(ev.n_values, width);
                assert_memory_equal(ev.logits, first[i], width * sizeof(float));
                got++;
            }
            assert_int_equal(got, v > 0 ? TEXTS : 0);
            stator_close(s);
        }
        for (uint32_t i = 0; i < TEXTS; i++)
            free(first[i]);
    }
}

static void dimensions(void **state) {
    (void)state;
    const char *sets[] = {"model.pooling=last", "memory.context=64", NULL};
    const int32_t ids[] = {300, 301, 302};
    stator *s = harness_start(DEMO, sets);
    uint32_t width = 0, fewer = 0;
    float *all = embed(s, ids, 3, 0, &width), *some = embed(s, ids, 3, 10, &fewer);
    stator_info info = {.size = sizeof info};
    assert_int_equal(stator_get_info(s, &info, NULL), STATOR_OK);
    assert_true(width == info.vector && fewer == 10 && strcmp(info.pooling, "last") == 0);
    double squares = 0;
    for (uint32_t i = 0; i < fewer; i++)
        squares += (double)all[i] * (double)all[i];
    for (uint32_t i = 0; i < fewer; i++)
        assert_true(fabs((double)all[i] / sqrt(squares) - (double)some[i]) < 1e-6);
    free(all);
    free(some);
    stator_close(s);
}

static void refuse(stator *s, const stator_request *q, const char *why) {
    uint64_t id = 0;
    stator_error e = {0};
    assert_int_equal(stator_submit(s, q, &id, &e), STATOR_USAGE);
    if (strstr(e.text, why) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", e.text, why);
}

static void refused(void **state) {
    (void)state;
    const char *sets[] = {"model.pooling=last", "memory.context=64", NULL},
               *none[] = {"memory.context=64", NULL};
    const int32_t ids[] = {300, 301, 302};
    stator *s = harness_start(DEMO, sets);
    stator_request q = {.size = sizeof q, .kind = STATOR_GENERATE, .tokens = ids, .n_tokens = 3};
    refuse(s, &q, "generates no text: its pooling is \"last\"");
    q.kind = STATOR_LOGITS;
    refuse(s, &q, "generates no text");
    q.kind = STATOR_EMBED;
    q.dimensions = 1 << 20;
    refuse(s, &q, "dimensions is 1048576: this model's embeddings have");
    q.dimensions = 0;
    q.logprobs = 1;
    refuse(s, &q, "logprobs is for STATOR_GENERATE");
    stator_close(s);
    s = harness_start(DEMO, none);
    q.logprobs = 0;
    q.dimensions = 2;
    refuse(s, &q, "dimensions is for embeddings");
    stator_close(s);
    static const char *const wrong[][2] = {{"model.pooling=cls", "no known architecture has"},
                                           {"model.pooling=last", "must be \"off\""}};
    for (size_t i = 0; i < 2; i++) {
        const char *two[] = {wrong[i][0], "speculation.mode=ngram"};
        stator_options o = {.size = sizeof o, .config = DEMO, .set = two, .n_set = 2};
        stator_error e = {0};
        assert_int_equal(stator_open(&o, &s, &e), STATOR_USAGE);
        assert_non_null(strstr(e.text, wrong[i][1]));
    }
}

/* Of a model that generates, the vector is the row of logits behind the last token. A classifier with the
 * rows of that model's output matrix gives the same. */
static void classifier(void **state) {
    (void)state;
    static const char *const labels[] = {"a", "b", "c", "d", "e"};
    const int32_t ids[] = {3, 1, 4, 1, 2};
    struct tiny_model m = tiny_model_of("qwen3");
    m.untied = 1;
    float *rows[3];
    for (int k = 0; k < 3; k++) {
        struct gguf_writer w = gguf_writer_new();
        char path[GGUF_WRITER_PATH];
        struct tiny_model own = m;
        if (k == 2) {
            tiny_model_keys(&w, &own);
            gguf_writer_u32(&w, "qwen3.pooling_type", 4);
            gguf_writer_text(&w, "tokenizer.chat_template.rerank", "{query} or {document}");
            gguf_writer_texts(&w, "qwen3.classifier.output_labels", 5, labels);
            tiny_model_tensor(&w, &own, "token_embd.weight", own.type, own.n_embd, own.vocab);
            tiny_model_tensor(&w, &own, "output_norm.weight", BLOCK_F32, own.n_embd, 0);
            tiny_model_tensor(&w, &own, "cls.output.weight", own.type, own.n_embd, 5);
            for (uint32_t i = 0; i < own.n_layers; i++)
                tiny_model_layer(&w, &own, i);
        } else {
            tiny_model_write(&w, own);
        }
        assert_true(gguf_writer_finish(&w));
        const char *sets[] = {k == 1 ? "model.pooling=rank" : "model.pooling=auto", NULL};
        stator *s = harness_start(gguf_writer_memory_path(&w, path), sets);
        uint32_t width = 0;
        stator_chat_template t = {.size = sizeof t};
        assert_int_equal(stator_get_chat_template(s, &t, NULL), STATOR_OK);
        assert_true((t.rerank != NULL) == (k > 0)); /* Qwen3's own, or the file's */
        if (k == 1)
            assert_true(strstr(t.rerank, "<Query>: {query}\n<Document>: {document}<|im_end|>") != NULL &&
                        strlen(t.rerank) == t.rerank_length);
        if (k == 2)
            assert_true(t.rerank_length == 21 && memcmp(t.rerank, "{query} or {document}", 21) == 0);
        rows[k] = embed(s, ids, 5, 0, &width);
        assert_int_equal(width, 5);
        if (k == 0) {
            float *logits = harness_logits(s, ids, 5);
            assert_memory_equal(logits + (size_t)4 * 5, rows[0], 5 * sizeof(float));
            free(logits);
        }
        stator_close(s);
        gguf_writer_free(&w);
    }
    assert_memory_equal(rows[0], rows[1], 5 * sizeof(float));
    assert_memory_equal(rows[0], rows[2], 5 * sizeof(float));
    for (int k = 0; k < 3; k++)
        free(rows[k]);
}

static void bad_files(void **state) {
    (void)state;
    for (int k = 0; k < 3; k++) {
        struct gguf_writer w = gguf_writer_new();
        char path[GGUF_WRITER_PATH];
        tiny_model_write(&w, tiny_model_of("llama"));
        if (k == 0)
            gguf_writer_u32(&w, "llama.pooling_type", 9);
        else if (k == 1)
            gguf_writer_texts(&w, "llama.classifier.output_labels", 0, NULL);
        else
            gguf_writer_tensor(&w, "cls.output.weight", BLOCK_F32, 2, (uint64_t[]){8, 3}, NULL);
        assert_true(gguf_writer_finish(&w));
        stator_options o = {.size = sizeof o, .config = gguf_writer_memory_path(&w, path)};
        stator *s = NULL;
        stator_error e = {0};
        assert_int_equal(stator_open(&o, &s, &e), STATOR_BAD_MODEL);
        assert_non_null(strstr(e.text, k == 0   ? "llama.pooling_type"
                                       : k == 1 ? "llama.classifier.output_labels"
                                                : "cls.output.weight"));
        gguf_writer_free(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(oracles),    cmocka_unit_test(company),
                                       cmocka_unit_test(dimensions), cmocka_unit_test(refused),
                                       cmocka_unit_test(classifier), cmocka_unit_test(bad_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
