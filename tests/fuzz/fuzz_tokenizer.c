/* Any bytes as text, for a small SentencePiece and small byte-level vocabularies: no crash, ids in range,
 * whole characters out, and the text back. The first byte chooses vocabulary and flags. */
#include "fuzz.h"

#include "tiny_vocab.h"

#include "base/arith.h"
#include "tokenizer/tokenizer.h"

const char *const fuzz_kinds[] = {"text", NULL};

#define TEXT_MAX 4096

struct target {
    struct gguf *g;
    struct tokenizer *t;
    void *work;
    uint64_t work_bytes;
    bool comes_back; /* decode(encode(text)) is the repaired text */
};

static void require(bool condition, const char *what) {
    if (condition)
        return;
    fprintf(stderr, "fuzz_tokenizer: %s\n", what);
    abort();
}

static const char *const kinds[] = {NULL,          "default",        "gpt-2",     "llama-bpe",
                                    "qwen2",       "qwen35",         "starcoder", "falcon",
                                    "deepseek-v3", "deepseek-coder", "dbrx",      "deepseek-llm"};
#define N_KINDS (sizeof kinds / sizeof kinds[0])

static void build(struct target *x, const char *pre) {
    struct tiny_vocab v;
    struct gguf_writer w = gguf_writer_new();
    char path[GGUF_WRITER_PATH];
    uint64_t bytes;
    if (pre == NULL)
        tiny_vocab_spm(&v, &w);
    else
        tiny_vocab_bpe(&v, &w, pre);
    gguf_writer_u32(&w, "tokenizer.ggml.bos_token_id", (uint32_t)tiny_vocab_id(&v, "<|a|>"));
    gguf_writer_finish(&w);
    require(gguf_open(gguf_writer_memory_path(&w, path), &x->g, NULL) == STATOR_OK, "open");
    require(tokenizer_measure(x->g, &bytes, NULL) == STATOR_OK, "measure");
    void *memory = aligned_alloc(64, arith_round_up(bytes, 64));
    require(tokenizer_create(x->g, memory, bytes, &x->t, NULL) == STATOR_OK, "create");
    gguf_writer_free(&w);
    x->work_bytes = tokenizer_work_bytes(x->t, TEXT_MAX);
    x->work = malloc(x->work_bytes);
    /* SentencePiece puts blanks behind special tokens, and its own U+2581 comes back as a blank. */
    x->comes_back = pre != NULL;
}

/* Built once and kept: the fuzzer calls millions of times. */
static struct target *targets(void) {
    static struct target all[N_KINDS];
    for (size_t i = 0; all[N_KINDS - 1].t == NULL && i < N_KINDS; i++)
        build(&all[i], kinds[i]);
    return all;
}

static uint64_t repair(const uint8_t *text, uint64_t n, char *out) {
    uint64_t at = 0;
    for (uint64_t i = 0; i < n;) {
        uint8_t c = text[i];
        uint32_t value = 0, least = 0;
        uint64_t length = c < 0x80                ? 1
                          : c >= 0xC0 && c < 0xE0 ? 2
                          : c >= 0xE0 && c < 0xF0 ? 3
                          : c >= 0xF0 && c < 0xF8 ? 4
                                                  : 0;
        bool good = length > 0 && i + length <= n;
        for (uint64_t k = 1; good && k < length; k++) {
            good = (text[i + k] & 0xC0) == 0x80;
            value = value << 6 | (text[i + k] & 0x3F);
        }
        if (good && length > 1) {
            value |= (uint32_t)(c & (0x7F >> length)) << 6 * (length - 1);
            least = length == 2 ? 0x80 : length == 3 ? 0x800 : 0x10000;
            good = value >= least && value <= 0x10FFFF && (value < 0xD800 || value > 0xDFFF);
        }
        memcpy(out + at, good ? (const char *)text + i : "\xEF\xBF\xBD", good ? length : 3);
        at += good ? length : 3;
        i += good ? length : 1;
    }
    return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int32_t ids[3 * TEXT_MAX + 8];
    static char back[65536 * 4], expected[3 * TEXT_MAX];
    if (size < 1 || size > TEXT_MAX)
        return 0;
    const struct target *x = &targets()[data[0] % N_KINDS];
    uint32_t flags = data[0] / N_KINDS % 4;
    data++;
    size--;
    uint64_t n = 0, at = 0;
    stator_error e;
    char *exact = malloc(size + 1); /* so that reading past its end shows */
    memcpy(exact, data, size);
    stator_status s =
        tokenizer_encode(x->t, exact, size, flags, x->work, x->work_bytes, ids, 3 * TEXT_MAX + 8, &n, &e);
    free(exact);
    require(s == STATOR_OK, "encode");
    if (n > 0)
        fuzz_accepted("text");
    struct tokenizer_stream stream = {0};
    uint64_t most = 3 * (tokenizer_longest_piece(x->t) + 4);
    bool bos = (flags & TOKENIZER_ADD_SPECIAL) != 0 && tokenizer_adds_bos(x->t);
    for (uint64_t i = bos; i <= n; i++) {
        require(i == n || (ids[i] >= 0 && (uint32_t)ids[i] < tokenizer_vocab(x->t)), "id out of range");
        require(at + most <= sizeof back, "more text than expected");
        uint64_t got = tokenizer_stream_next(x->t, &stream, i < n ? ids[i] : -1, true, back + at);
        static char again[4096];
        require(got <= most && repair((uint8_t *)back + at, got, again) == got &&
                    memcmp(again, back + at, got) == 0,
                "part of a character");
        at += got;
    }
    if (x->comes_back)
        require(at == repair(data, size, expected) && memcmp(back, expected, at) == 0,
                "the text does not come back");
    return 0;
}
