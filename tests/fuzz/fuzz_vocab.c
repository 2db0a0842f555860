/* Any vocabulary, merges, scores, kinds and special ids, built into a GGUF: either the tokenizer refuses the
 * file with an error that names it, or it has enough memory as measured, and every text becomes ids of the
 * vocabulary and text again.
 *
 * Input: four bytes (tokenizer and pre-tokenizer; FLAG_ bits; bos; eos) and three parts with the byte 0x1D
 * between: tokens, one a line (its kind as a digit, its score as a character, its text); merges, one a line;
 * a text to be tokenized. With FLAG_RAW everything after the first two bytes is a GGUF file of its own. */
#include "fuzz.h"

#include "tiny_vocab.h"

#include "base/arith.h"
#include "base/check.h"
#include "tokenizer/tokenizer.h"

const char *const fuzz_kinds[] = {"vocabulary", "file", NULL};

#define TOKENS_MAX 1000
#define TEXT_MAX   2000

enum {
    FLAG_BYTES = 1, /* the tokens of tiny_vocab.h come first */
    FLAG_SCORES = 2,
    FLAG_TYPES = 4,
    FLAG_OTHER_KINDS = 8, /* scores are i32, types are u32 */
    FLAG_SHORT = 16,      /* scores and types have an item less than there are tokens */
    FLAG_SPECIAL = 32,    /* bos and eos are set, and added */
    FLAG_PHI3 = 64,
    FLAG_RAW = 128
};

static const char *const kinds[] = {NULL,        "default",      "gpt-2",          "llama-bpe", "qwen2",
                                    "qwen35",    "starcoder",    "falcon",         "dbrx",      "deepseek-v3",
                                    "unknown-x", "deepseek-llm", "deepseek-coder", "gemma4"};
#define N_KINDS (sizeof kinds / sizeof kinds[0])

/* What is read of an input, from its front. */
struct input {
    const uint8_t *at, *end;
};

static uint8_t take_byte(struct input *in) {
    return in->at < in->end ? *in->at++ : 0;
}

/* The next line of this part; false: the part is over. */
static bool take_line(struct input *in, const char **line, size_t *n) {
    if (in->at == in->end)
        return false;
    if (*in->at == 0x1D) {
        in->at++;
        return false;
    }
    const uint8_t *from = in->at;
    while (in->at < in->end && *in->at != '\n' && *in->at != 0x1D)
        in->at++;
    *line = (const char *)from;
    *n = (size_t)(in->at - from);
    if (in->at < in->end && *in->at == '\n')
        in->at++;
    return true;
}

struct tokens {
    struct gguf_writer_buffer texts;
    uint32_t n;
    int32_t types[TINY_VOCAB_MAX + TOKENS_MAX];
    float scores[TINY_VOCAB_MAX + TOKENS_MAX];
    int32_t whole_scores[TINY_VOCAB_MAX + TOKENS_MAX];
};

static void add(struct tokens *t, const char *text, size_t n, int32_t type, float score) {
    gguf_writer_put_text(&t->texts, text, n);
    t->types[t->n] = type;
    t->scores[t->n] = score;
    t->whole_scores[t->n] = score >= -64 && score <= 255 ? (int32_t)score : INT32_MAX;
    t->n++;
}

static float score_of(uint8_t c) {
    return c == 'n' ? __builtin_nanf("") : c == 'i' ? __builtin_inff() : (float)c - 64;
}

static void add_tokens(struct tokens *t, struct input *in, bool bytes, bool is_spm) {
    static struct tiny_vocab tiny;
    const char *line = NULL;
    size_t n = 0;
    if (bytes) {
        struct gguf_writer spare = gguf_writer_new();
        if (is_spm)
            tiny_vocab_spm(&tiny, &spare);
        else
            tiny_vocab_bpe(&tiny, &spare, NULL);
        gguf_writer_free(&spare);
        for (uint32_t i = 0; i < tiny.n; i++)
            add(t, tiny.texts[i], strlen(tiny.texts[i]), tiny.types[i], tiny.scores[i]);
    }
    for (uint32_t i = 0; i < TOKENS_MAX && take_line(in, &line, &n); i++)
        add(t, line + ARITH_MIN(n, 2), n - ARITH_MIN(n, 2), n > 0 ? line[0] - '0' : 1,
            n > 1 ? score_of((uint8_t)line[1]) : 0);
}

static void add_merges(struct gguf_writer *w, struct input *in) {
    struct gguf_writer_buffer texts = {0};
    const char *line = NULL;
    size_t n = 0;
    uint64_t count = 0;
    for (; take_line(in, &line, &n); count++)
        gguf_writer_put_text(&texts, line, n);
    gguf_writer_array(w, "tokenizer.ggml.merges", GGUF_STRING, count, texts.data, texts.n);
    free(texts.data);
}

static void write_file(struct gguf_writer *w, uint8_t kind, uint8_t flags, struct input *in) {
    static struct tokens t;
    t = (struct tokens){.n = 0};
    const char *pre = kinds[kind % N_KINDS];
    uint8_t bos = take_byte(in), eos = take_byte(in);
    const char *model = pre == NULL ? "llama" : strcmp(pre, "gemma4") == 0 ? "gemma4" : "gpt2";
    add_tokens(&t, in, (flags & FLAG_BYTES) != 0, strcmp(model, "gpt2") != 0);
    uint32_t n = (flags & FLAG_SHORT) != 0 && t.n > 0 ? t.n - 1 : t.n;
    bool other = (flags & FLAG_OTHER_KINDS) != 0;
    gguf_writer_text(w, "tokenizer.ggml.model", model);
    if (pre != NULL)
        gguf_writer_text(w, "tokenizer.ggml.pre", pre);
    gguf_writer_array(w, "tokenizer.ggml.tokens", GGUF_STRING, t.n, t.texts.data, t.texts.n);
    if ((flags & FLAG_SCORES) != 0)
        gguf_writer_array(w, "tokenizer.ggml.scores", other ? GGUF_I32 : GGUF_F32, n,
                          other ? (const void *)t.whole_scores : t.scores, n * sizeof t.scores[0]);
    if ((flags & FLAG_TYPES) != 0)
        gguf_writer_array(w, "tokenizer.ggml.token_type", other ? GGUF_U32 : GGUF_I32, n, t.types,
                          n * sizeof t.types[0]);
    if ((flags & FLAG_SPECIAL) != 0) {
        gguf_writer_u32(w, "tokenizer.ggml.bos_token_id", bos);
        gguf_writer_u32(w, "tokenizer.ggml.eos_token_id", eos);
        gguf_writer_bool(w, "tokenizer.ggml.add_bos_token", 1);
        gguf_writer_bool(w, "tokenizer.ggml.add_eos_token", eos & 1);
        gguf_writer_bool(w, "tokenizer.ggml.add_space_prefix", bos & 1);
    }
    if ((flags & FLAG_PHI3) != 0)
        gguf_writer_text(w, "general.name", "a Phi-3");
    add_merges(w, in);
    gguf_writer_finish(w);
    free(t.texts.data);
}

/* Memory that ends where it ends, so that a byte more shows. */
static void *exact(uint64_t bytes) {
    void *p = NULL;
    CHECK(posix_memalign(&p, 64, bytes > 0 ? bytes : 1) == 0);
    return p;
}

static void use(const struct tokenizer *t, const char *text, uint64_t n) {
    static int32_t ids[3 * (TEXT_MAX + 1) + 2];
    uint64_t room = 3 * (tokenizer_longest_piece(t) + 4), work_bytes = tokenizer_work_bytes(t, n);
    char *copy = exact(n), *out = exact(room);
    void *work = exact(work_bytes);
    stator_error e;
    memcpy(copy, text, n);
    for (uint32_t flags = 0; flags < 4; flags++) {
        uint64_t count = 0;
        stator_status st =
            tokenizer_encode(t, copy, n, flags, work, work_bytes, ids, 3 * (n + 1) + 2, &count, &e);
        CHECK(st == STATOR_OK || (st == STATOR_USAGE && strstr(e.text, "the byte 0x") != NULL));
        if (st != STATOR_OK) /* no token for it */
            continue;
        struct tokenizer_stream s = {0};
        for (uint64_t i = 0; i <= count; i++) {
            CHECK(i == count || (ids[i] >= 0 && (uint32_t)ids[i] < tokenizer_vocab(t)));
            CHECK(tokenizer_stream_next(t, &s, i < count ? ids[i] : -1, (flags & 1) != 0, out) <= room);
        }
    }
    for (uint32_t i = 0; i < tokenizer_vocab(t); i++) {
        int32_t id = (int32_t)i;
        (void)tokenizer_is_end(t, id);
        (void)tokenizer_is_control(t, id);
        CHECK(tokenizer_piece(t, id, true, out, room) <= tokenizer_longest_piece(t));
    }
    CHECK(tokenizer_bos(t) < (int32_t)tokenizer_vocab(t) && tokenizer_eos(t) < (int32_t)tokenizer_vocab(t));
    free(copy);
    free(out);
    free(work);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct input in = {data, data + size};
    uint8_t kind = take_byte(&in), flags = take_byte(&in);
    struct gguf_writer w = gguf_writer_new();
    char path[GGUF_WRITER_PATH];
    struct gguf *g = NULL;
    struct tokenizer *t = NULL;
    stator_error e;
    uint64_t bytes = 0;
    if ((flags & FLAG_RAW) != 0)
        gguf_writer_put(&w.keys, in.at, (size_t)(in.end - in.at));
    else
        write_file(&w, kind, flags, &in);
    if ((flags & FLAG_RAW) != 0) { /* as gguf_writer_finish leaves it */
        w.out = w.keys.data;
        w.out_bytes = w.keys.n;
        w.keys.data = NULL;
    }
    stator_status st = gguf_open(gguf_writer_memory_path(&w, path), &g, &e);
    if (st == STATOR_OK)
        st = tokenizer_measure(g, &bytes, &e);
    void *memory = st == STATOR_OK ? exact(bytes) : NULL;
    if (st == STATOR_OK)
        st = tokenizer_create(g, memory, bytes, &t, &e);
    if (st == STATOR_OK)
        fuzz_accepted((flags & FLAG_RAW) != 0 ? "file" : "vocabulary");
    if (st == STATOR_OK)
        use(t, (const char *)in.at, ARITH_MIN((uint64_t)(in.end - in.at), (uint64_t)TEXT_MAX));
    else
        CHECK(st == STATOR_BAD_MODEL && e.code == st && strncmp(e.text, path, strlen(path)) == 0);
    free(memory);
    gguf_close(g);
    gguf_writer_free(&w);
    return 0;
}
