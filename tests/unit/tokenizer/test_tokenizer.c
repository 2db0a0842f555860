/* The tokenizer: real vocabularies against llama.cpp's ids, small ones against a naive algorithm, hostile
 * texts and files. */
#include "testing.h"
#include "tiny_vocab.h"

#include "base/arith.h"
#include "tokenizer/tokenizer.h"

struct loaded {
    struct gguf_writer w;
    struct gguf *g;
    struct tokenizer *t;
    void *memory;
};

static void load_path(struct loaded *l, const char *path) {
    stator_error e;
    uint64_t bytes = 0;
    if (gguf_open(path, &l->g, &e) != STATOR_OK || tokenizer_measure(l->g, &bytes, &e) != STATOR_OK)
        fail_msg("%s: %s", path, e.text);
    l->memory = aligned_alloc(64, arith_round_up(bytes, 64));
    assert_non_null(l->memory);
    if (tokenizer_create(l->g, l->memory, bytes, &l->t, &e) != STATOR_OK)
        fail_msg("%s: %s", path, e.text);
}

/* The writer's keys, finished. */
static void load_writer(struct loaded *l) {
    char path[GGUF_WRITER_PATH];
    gguf_writer_finish(&l->w);
    load_path(l, gguf_writer_memory_path(&l->w, path));
}

static void unload(struct loaded *l) {
    gguf_close(l->g);
    free(l->memory);
    gguf_writer_free(&l->w);
}

/* ids of the text; free them. */
static int32_t *encode(const struct tokenizer *t, const char *text, uint64_t length, uint32_t flags,
                       uint64_t *n) {
    stator_error e;
    uint64_t bytes = tokenizer_work_bytes(t, length), capacity = 3 * length + 8;
    char *work = malloc(bytes + 1);
    int32_t *ids = malloc(capacity * sizeof *ids);
    assert_true(work != NULL && ids != NULL);
    /* Anywhere is good enough for the workspace. */
    if (tokenizer_encode(t, text, length, flags, work + 1, bytes, ids, capacity, n, &e) != STATOR_OK)
        fail_msg("%.80s: %s", text, e.text);
    free(work);
    return ids;
}

static bool is_utf8(const char *text, uint64_t n) {
    for (uint64_t i = 0; i < n;) {
        unsigned char c = (unsigned char)text[i];
        uint64_t more = c < 0x80                ? 0
                        : c >= 0xC2 && c < 0xE0 ? 1
                        : c >= 0xE0 && c < 0xF0 ? 2
                        : c >= 0xF0 && c < 0xF5 ? 3
                                                : 9;
        if (more == 9 || i + more >= n + (more == 0))
            return false;
        uint32_t value = more == 0 ? c : more == 1 ? c & 31u : more == 2 ? c & 15u : c & 7u;
        for (uint64_t k = 1; k <= more; k++) {
            if (((unsigned char)text[i + k] & 0xC0) != 0x80)
                return false;
            value = value << 6 | ((unsigned char)text[i + k] & 63u);
        }
        static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
        if (value < least[more] || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000))
            return false;
        i += more + 1;
    }
    return true;
}

/* What a text becomes when every byte outside a character is U+FFFD; free it. */
static char *repair(const char *text, uint64_t n, uint64_t *repaired) {
    char *out = malloc(3 * n + 1);
    assert_non_null(out);
    uint64_t at = 0;
    for (uint64_t i = 0; i < n;) {
        uint64_t k = 1;
        while (k <= 4 && i + k <= n && !is_utf8(text + i, k))
            k++;
        if (k <= 4 && i + k <= n) {
            memcpy(out + at, text + i, k);
            at += k;
            i += k;
        } else {
            memcpy(out + at, "\xEF\xBF\xBD", 3);
            at += 3;
            i++;
        }
    }
    *repaired = at;
    out[at] = '\0';
    return out;
}

/* Streams the ids; each chunk must be whole characters. Free the result. */
static char *decode(const struct tokenizer *t, const int32_t *ids, uint64_t n, bool special,
                    uint64_t *length) {
    uint64_t most = 3 * (tokenizer_longest_piece(t) + 4), at = 0, capacity = 1024;
    char *chunk = malloc(most), *out = malloc(capacity);
    struct tokenizer_stream s = {0};
    for (uint64_t i = 0; i <= n; i++) {
        uint64_t got = tokenizer_stream_next(t, &s, i < n ? ids[i] : -1, special, chunk);
        assert_true(got <= most);
        if (!is_utf8(chunk, got))
            fail_msg("id %d at %llu gives part of a character", i < n ? ids[i] : -1, (unsigned long long)i);
        assert_true(s.pending < 4);
        if (at + got > capacity)
            out = realloc(out, capacity = 2 * (at + got));
        assert_non_null(out);
        memcpy(out + at, chunk, got);
        at += got;
    }
    assert_int_equal(s.pending, 0);
    free(chunk);
    *length = at;
    return out;
}

static void check_round_trip(const struct tokenizer *t, const char *text, uint64_t length) {
    uint64_t n, got, expected;
    int32_t *ids = encode(t, text, length, 0, &n);
    char *back = decode(t, ids, n, false, &got), *repaired = repair(text, length, &expected);
    if (got != expected || memcmp(back, repaired, got) != 0)
        fail_msg("\"%.60s\" (%llu bytes) comes back as \"%.60s\" (%llu bytes)", repaired,
                 (unsigned long long)expected, back, (unsigned long long)got);
    free(ids);
    free(back);
    free(repaired);
}

static void check_ids(const struct tokenizer *t, const char *text, uint64_t length, uint32_t flags,
                      const int32_t *expected, uint64_t n_expected) {
    uint64_t n;
    int32_t *ids = encode(t, text, length, flags, &n);
    char line[512];
    size_t at = 0;
    line[0] = '\0';
    for (uint64_t i = 0; i < n && at < sizeof line - 16; i++)
        at += (size_t)snprintf(line + at, sizeof line - at, " %d", ids[i]);
    if (n != n_expected || (n > 0 && memcmp(ids, expected, n * sizeof *ids) != 0))
        fail_msg("\"%.60s\" gives %llu ids%s, expected %llu", text, (unsigned long long)n, line,
                 (unsigned long long)n_expected);
    free(ids);
}

/* ids by the texts of tokens, separated by '|'. */
static void check_names(const struct tokenizer *t, const struct tiny_vocab *v, const char *text,
                        uint32_t flags, const char *const *names) {
    int32_t expected[64];
    uint64_t n = 0;
    for (; names[n] != NULL; n++) {
        expected[n] = tiny_vocab_id(v, names[n]);
        if (expected[n] < 0)
            fail_msg("no token %s", names[n]);
    }
    check_ids(t, text, strlen(text), flags, expected, n);
}
#define CHECK_NAMES(l, v, text, flags, ...)                                                                  \
    check_names((l)->t, v, text, flags, (const char *const[]){__VA_ARGS__, NULL})

static const char *const vocabularies[] = {"deepseek-llm", "falcon", "gpt-2", "llama-bpe",
                                           "llama-spm",    "phi-3",  "qwen2", "starcoder"};
#define N_VOCABULARIES (sizeof vocabularies / sizeof vocabularies[0])

static void load_vocabulary(struct loaded *l, size_t i, char path[1024]) {
    char relative[96];
    snprintf(relative, sizeof relative, "vocab/ggml-vocab-%s.gguf", vocabularies[i]);
    const char *full = testing_shared(relative);
    assert_non_null(full);
    snprintf(path, 1024, "%s", full);
    l->w = gguf_writer_new();
    load_path(l, path);
}

static void test_reference_vocabularies(void **state) {
    (void)state;
    TESTING_NEED_SHARED("vocab/ggml-vocab-gpt-2.gguf");
    static const char separator[] = "\n__ggml_vocab_test__\n";
    for (size_t k = 0; k < N_VOCABULARIES; k++) {
        struct loaded l;
        char path[1024], name[1040];
        load_vocabulary(&l, k, path);
        snprintf(name, sizeof name, "%s.inp", path);
        char *texts = testing_read_file(name, NULL);
        snprintf(name, sizeof name, "%s.out", path);
        char *lines = testing_read_file(name, NULL), *line = lines;
        int n_texts = 0;
        for (char *text = texts, *next; text != NULL && *line != '\0'; text = next, n_texts++) {
            char *end = strstr(text, separator);
            next = end != NULL ? end + sizeof separator - 1 : NULL;
            uint64_t length = end != NULL ? (uint64_t)(end - text) : strlen(text);
            int32_t expected[4096];
            uint64_t n = 0;
            for (; *line != '\n' && *line != '\0'; n++) {
                assert_true(n < 4096);
                expected[n] = (int32_t)strtol(line, &line, 10);
                while (*line == ' ')
                    line++;
            }
            line += *line == '\n';
            check_ids(l.t, text, length, 0, expected, n);
            check_round_trip(l.t, text, length);
        }
        assert_int_equal(n_texts, 46);
        free(texts);
        free(lines);
        unload(&l);
    }
}

static void test_spm(void **state) {
    (void)state;
    struct loaded l = {.w = gguf_writer_new()};
    struct tiny_vocab v;
    tiny_vocab_spm(&v, &l.w);
    load_writer(&l);
    assert_int_equal(tokenizer_vocab(l.t), v.n);
    assert_int_equal(tokenizer_bos(l.t), 1);
    assert_int_equal(tokenizer_eos(l.t), 2);
    assert_true(tokenizer_adds_bos(l.t));
    check_ids(l.t, "", 0, 0, NULL, 0);
    check_ids(l.t, "", 0, TOKENIZER_ADD_SPECIAL, (int32_t[]){1}, 1);
    CHECK_NAMES(&l, &v, "abc", 0, "▁abc");
    CHECK_NAMES(&l, &v, "abc", TOKENIZER_ADD_SPECIAL, "<s>", "▁abc");
    CHECK_NAMES(&l, &v, "b", 0, "▁b");
    CHECK_NAMES(&l, &v, "   b", 0, "▁▁▁▁", "b"); /* pairs of blanks score higher than "▁b" */
    CHECK_NAMES(&l, &v, "x", 0, "▁", "<0x78>");
    CHECK_NAMES(&l, &v, "é\xC3", 0, "▁", "é", "<0xC3>");
    CHECK_NAMES(&l, &v, "\xE2\x28", 0, "▁", "<0xE2>", "<0x28>");
    /* "▁a" and "ab" score alike and more than "aa". */
    CHECK_NAMES(&l, &v, "aab", 0, "▁a", "ab");
    unload(&l);
}

/* Merges by rank rather than by score, none over the edge of a run of line breaks, which is a token if there
 * is one of it. llama.cpp gives the same. */
static void test_gemma4(void **state) {
    (void)state;
    struct loaded l = {.w = gguf_writer_new()};
    struct gguf_writer unused = gguf_writer_new();
    struct tiny_vocab v;
    tiny_vocab_spm(&v, &unused);
    gguf_writer_free(&unused);
    static const char *const more[] = {"x", "x\n", "\n", "\n\n", "\n\n\n"};
    static const char *const merges[] = {"a b", "▁ a", "▁a b", "b a", "x \n", "\n \n"};
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++)
        tiny_vocab_add(&v, more[i], 1, -50);
    tiny_vocab_write(&v, &l.w, "gemma4");
    gguf_writer_texts(&l.w, "tokenizer.ggml.merges", sizeof merges / sizeof merges[0], merges);
    load_writer(&l);
    assert_true(tokenizer_adds_bos(l.t));
    CHECK_NAMES(&l, &v, "ab", TOKENIZER_ADD_SPECIAL, "<s>", "ab");
    CHECK_NAMES(&l, &v, " ab", 0, "▁", "ab"); /* by score it were "▁ab" */
    CHECK_NAMES(&l, &v, " a", 0, "▁a");
    CHECK_NAMES(&l, &v, "aa", 0, "a", "a"); /* a token that no merge leads to */
    CHECK_NAMES(&l, &v, "x\ny", 0, "x", "\n", "<0x79>");
    CHECK_NAMES(&l, &v, "x\n\n\nx", 0, "x", "\n\n\n", "x");
    CHECK_NAMES(&l, &v, "\n\n\n\n", 0, "\n\n", "\n\n");
    CHECK_NAMES(&l, &v, "\n \n\n", 0, "\n", "▁", "\n\n");
    CHECK_NAMES(&l, &v, "b\xC3", 0, "b", "<0xC3>");
    char out[16];
    assert_int_equal(tokenizer_piece(l.t, tiny_vocab_id(&v, "▁a"), false, out, sizeof out), 2);
    assert_memory_equal(out, " a", 2);
    unload(&l);
}

/* Tokens around a gap: by the file's keys, by the older ones, by their names. */
static void test_infill(void **state) {
    (void)state;
    static const struct {
        const char *keys[4];  /* of the tokens "a", "b", "c" and "ab" */
        const char *names[3]; /* of tokens that are added */
        const char *expected[INFILL_ROLES];
    } cases[] = {
        {{NULL}, {NULL}, {NULL}},
        {{NULL}, {"<fim-suffix>", "<file_sep>", NULL}, {NULL, "<fim-suffix>", NULL, NULL, "<file_sep>"}},
        {{"fim_pre", "fim_suf", "fim_mid", "fim_sep"}, {"<PRE>"}, {"a", "b", "c", NULL, "ab"}},
        {{"prefix", "suffix", "middle", "fim_rep"},
         {"<|fim_pad|>"},
         {"a", "b", "c", "ab", NULL, "<|fim_pad|>"}},
        {{"prefix", "fim_pre"}, {"<PRE>", "<|middle|>"}, {"b", NULL, "<|middle|>"}}};
    static const char *const keyed[] = {"a", "b", "c", "ab"};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct loaded l = {.w = gguf_writer_new()};
        struct gguf_writer unused = gguf_writer_new();
        struct tiny_vocab v;
        tiny_vocab_spm(&v, &unused);
        gguf_writer_free(&unused);
        for (int k = 0; k < 3 && cases[i].names[k] != NULL; k++)
            tiny_vocab_add(&v, cases[i].names[k], 3, 0);
        tiny_vocab_write(&v, &l.w, "llama");
        for (int k = 0; k < 4 && cases[i].keys[k] != NULL; k++) {
            char key[64];
            snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id", cases[i].keys[k]);
            gguf_writer_u32(&l.w, key, (uint32_t)tiny_vocab_id(&v, keyed[k]));
        }
        load_writer(&l);
        for (int role = 0; role < INFILL_ROLES; role++) {
            const char *name = cases[i].expected[role];
            const int32_t id = name != NULL ? tiny_vocab_id(&v, name) : -1;
            assert_int_equal(tokenizer_infill(l.t)->ids[role], id);
            if (id >= 0 && i >= 2)
                assert_int_equal(tokenizer_is_end(l.t, id), role >= INFILL_REPOSITORY);
        }
        unload(&l);
    }
}

static void test_bpe(void **state) {
    (void)state;
    struct loaded l = {.w = gguf_writer_new()};
    struct tiny_vocab v;
    tiny_vocab_bpe(&v, &l.w, "gpt-2");
    load_writer(&l);
    assert_int_equal(tokenizer_bos(l.t), -1);
    assert_int_equal(tokenizer_eos(l.t), -1);
    assert_false(tokenizer_adds_bos(l.t));
    CHECK_NAMES(&l, &v, "hello", TOKENIZER_ADD_SPECIAL, "hello");
    CHECK_NAMES(&l, &v, " hello", 0, "Ġ", "hello");
    CHECK_NAMES(&l, &v, "aba", 0, "aba");
    CHECK_NAMES(&l, &v, "baba", 0, "b", "aba");
    CHECK_NAMES(&l, &v, "aaaaa", 0, "aaaa", "a");
    CHECK_NAMES(&l, &v, "a   1", 0, "a", "ĠĠ", "Ġ", "1");
    CHECK_NAMES(&l, &v, "a\n\nb", 0, "a", "Ċ", "Ċ", "b");
    CHECK_NAMES(&l, &v, "a\n\n", 0, "a", "ĊĊ");
    CHECK_NAMES(&l, &v, "'s", 0, "'", "s");
    CHECK_NAMES(&l, &v, "é", 0, "Ã©");
    CHECK_NAMES(&l, &v, "\xC3", 0, "ï¿½"); /* repaired */
    CHECK_NAMES(&l, &v, "\xED\xA0\x80", 0, "ï¿½", "ï¿½", "ï¿½");
    CHECK_NAMES(&l, &v, "11111", 0, "1111", "1");
    unload(&l);
}

/* How the families of patterns differ. */
static void test_patterns(void **state) {
    (void)state;
    static const struct {
        const char *pre, *text;
        const char *names[12];
    } cases[] = {
        {"llama-bpe", "11111", {"11", "1", "11"}},
        {"llama3", " hello", {"Ġhello"}}, /* a whole word that is a token */
        {"dbrx", " hello", {"Ġ", "hello"}},
        {"llama-bpe", "a\n\nb", {"a", "ĊĊ", "b"}},
        {"qwen2", "111", {"1", "1", "1"}},
        {"qwen2", "a'Sa", {"a", "'", "S", "a"}},
        {"qwen35", "111", {"1", "1", "1"}},
        {"gpt-4o", "1111", {"11", "1", "1"}},
        {"gpt-4o", "a's", {"a", "'", "s"}},
        {"gpt-4o", "a\n\nb", {"a", "ĊĊ", "b"}},
        {"tekken", "111", {"1", "1", "1"}},
        {"tekken", " hello", {"Ġhello"}},
        {"starcoder", "11", {"1", "1"}},
        {"smollm", "11", {"1", "1"}},
        {"falcon", "11111", {"11", "1", "11"}},
        {"falcon", "  ", {"ĠĠ"}},
        {"default", "11111", {"11", "1", "11"}},
        {NULL, "11111", {"11", "1", "11"}}, /* no key: default */
        {"deepseek-llm", "1111a\n\n", {"1111", "a", "Ċ", "Ċ"}},
        {"deepseek-coder", "11", {"1", "1"}},
        {"deepseek-v3", "1111", {"11", "1", "1"}},
        {"phi-2", "1111", {"1111"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct loaded l = {.w = gguf_writer_new()};
        struct tiny_vocab v;
        tiny_vocab_bpe(&v, &l.w, cases[i].pre);
        gguf_writer_u32(&l.w, "tokenizer.ggml.bos_token_id", (uint32_t)tiny_vocab_id(&v, "<|endoftext|>"));
        load_writer(&l);
        check_names(l.t, &v, cases[i].text, 0, cases[i].names);
        bool llama = cases[i].pre != NULL &&
                     (strncmp(cases[i].pre, "llama", 5) == 0 || strcmp(cases[i].pre, "tekken") == 0);
        assert_int_equal(tokenizer_adds_bos(l.t), llama);
        unload(&l);
    }
}

static void check_specials(struct loaded *l, const struct tiny_vocab *v) {
    const uint32_t parse = TOKENIZER_PARSE_SPECIAL;
    CHECK_NAMES(l, v, "<|a|>", parse, "<|a|>");
    CHECK_NAMES(l, v, "<|a|><|b|><|a|>", parse, "<|a|><|b|>", "<|a|>");
    CHECK_NAMES(l, v, "<|a|>[user][user] <|im_end|>", parse, "<|a|>", "[user]", "[user] ", "<|im_end|>");
    CHECK_NAMES(l, v, "[user] @@", 0, "[user] ", "@", "@");
    uint64_t n;
    int32_t *ids = encode(l->t, "<|a|>", 5, 0, &n);
    assert_true(n >= 5); /* its letters */
    for (uint64_t i = 0; i < n; i++)
        assert_false(tokenizer_is_control(l->t, ids[i]));
    free(ids);
    int32_t control = tiny_vocab_id(v, "<|a|>"), end = tiny_vocab_id(v, "<|im_end|>"),
            user = tiny_vocab_id(v, "[user]");
    assert_true(tokenizer_is_control(l->t, control) && !tokenizer_is_end(l->t, control));
    assert_true(tokenizer_is_control(l->t, end) && tokenizer_is_end(l->t, end));
    assert_false(tokenizer_is_control(l->t, user));
    assert_false(tokenizer_is_end(l->t, -1) || tokenizer_is_end(l->t, (int32_t)v->n) ||
                 tokenizer_is_control(l->t, -1));
    char out[16];
    assert_int_equal(tokenizer_piece(l->t, control, false, out, sizeof out), 0);
    assert_int_equal(tokenizer_piece(l->t, control, true, out, sizeof out), 5);
    assert_memory_equal(out, "<|a|>", 5);
    assert_int_equal(tokenizer_piece(l->t, user, false, out, 3), 6); /* no more than fits is written */
    assert_memory_equal(out, "[us|a", 3);
    assert_int_equal(tokenizer_piece(l->t, tiny_vocab_id(v, "[unused]"), true, out, sizeof out), 0);
    assert_int_equal(tokenizer_piece(l->t, tiny_vocab_id(v, "[undefined]"), true, out, sizeof out), 0);
    assert_int_equal(tokenizer_piece(l->t, (int32_t)v->n, true, out, sizeof out), 0);
    assert_int_equal(tokenizer_piece(l->t, -5, true, out, sizeof out), 0);
}

static void test_special_tokens(void **state) {
    (void)state;
    struct tiny_vocab v;
    struct loaded spm = {.w = gguf_writer_new()}, bpe = {.w = gguf_writer_new()},
                  phi = {.w = gguf_writer_new()};
    tiny_vocab_spm(&v, &spm.w);
    load_writer(&spm);
    check_specials(&spm, &v);
    /* The blank in front comes back behind a special token. */
    CHECK_NAMES(&spm, &v, "b<|a|>b", TOKENIZER_PARSE_SPECIAL, "▁b", "<|a|>", "▁b");
    CHECK_NAMES(&spm, &v, "</s>b", TOKENIZER_PARSE_SPECIAL | TOKENIZER_ADD_SPECIAL, "<s>", "</s>", "▁b");
    CHECK_NAMES(&spm, &v, "@  b", 0, "@", "▁▁", "▁b");
    assert_true(tokenizer_is_end(spm.t, 2));
    unload(&spm);
    tiny_vocab_bpe(&v, &bpe.w, "qwen2");
    gguf_writer_u32(&bpe.w, "tokenizer.ggml.eot_token_id", (uint32_t)tiny_vocab_id(&v, "aaaa"));
    gguf_writer_u32(&bpe.w, "tokenizer.ggml.eos_token_id", (uint32_t)tiny_vocab_id(&v, "aa"));
    gguf_writer_bool(&bpe.w, "tokenizer.ggml.add_eos_token", 1);
    load_writer(&bpe);
    check_specials(&bpe, &v);
    CHECK_NAMES(&bpe, &v, "b", TOKENIZER_ADD_SPECIAL, "b", "aa");
    assert_true(tokenizer_is_end(bpe.t, tiny_vocab_id(&v, "aaaa")) &&
                tokenizer_is_end(bpe.t, tiny_vocab_id(&v, "aa")));
    assert_true(tokenizer_is_end(bpe.t, tiny_vocab_id(&v, "<|endoftext|>")));
    unload(&bpe);
    tiny_vocab_spm(&v, &phi.w);
    gguf_writer_text(&phi.w, "general.name", "Phi-3-mini");
    gguf_writer_bool(&phi.w, "tokenizer.ggml.add_bos_token", 0);
    gguf_writer_bool(&phi.w, "tokenizer.ggml.add_space_prefix", 0);
    load_writer(&phi);
    assert_false(tokenizer_adds_bos(phi.t));
    CHECK_NAMES(&phi, &v, "<|a|> \n b<s> b", TOKENIZER_PARSE_SPECIAL | TOKENIZER_ADD_SPECIAL, "<|a|>", "b",
                "<s>", "▁b");
    unload(&phi);
}

/* Merging by the book: look at all neighbours, merge the best and leftmost, again. Texts of single-byte
 * letters, as one word. */
static uint64_t merge_naively(const struct tiny_vocab *v, const char *const *merges, size_t n_merges,
                              const char *text, int32_t *out) {
    char parts[64][64];
    uint64_t n = 0;
    for (const char *p = text; *p != '\0'; n++) {
        size_t length = strncmp(p, "▁", 3) == 0 ? 3 : 1;
        snprintf(parts[n], 64, "%.*s", (int)length, p);
        p += length;
    }
    for (;;) {
        uint64_t best = n;
        double best_score = -1e30;
        for (uint64_t i = 0; i + 1 < n; i++) {
            char both[64], pair[64];
            if (snprintf(both, 64, "%s%s", parts[i], parts[i + 1]) >= 64 ||
                snprintf(pair, 64, "%s %s", parts[i], parts[i + 1]) >= 64)
                continue;
            double score = -1e30;
            int32_t id = tiny_vocab_id(v, both);
            if (merges == NULL && id >= 0)
                score = v->scores[id];
            for (size_t m = n_merges; m-- > 0;)
                if (strcmp(merges[m], pair) == 0)
                    score = -(double)m;
            if (score > best_score) {
                best_score = score;
                best = i;
            }
        }
        if (best == n)
            break;
        char both[64];
        snprintf(both, 64, "%.30s%.30s", parts[best], parts[best + 1]);
        memcpy(parts[best], both, 64);
        memmove(parts[best + 1], parts[best + 2], (n - best - 2) * 64);
        n--;
    }
    for (uint64_t i = 0; i < n; i++)
        out[i] = tiny_vocab_id(v, parts[i]);
    return n;
}

static void test_against_naive_merging(void **state) {
    (void)state;
    uint64_t seed = testing_seed("naive merging");
    static const char *const merges[] = {"a a", "aa aa", "a b", "b a", "ab a"};
    for (int kind = 0; kind < 2; kind++) {
        struct loaded l = {.w = gguf_writer_new()};
        struct tiny_vocab v;
        if (kind == 0)
            tiny_vocab_spm(&v, &l.w);
        else
            tiny_vocab_bpe(&v, &l.w, "gpt-2");
        load_writer(&l);
        for (int round = 0; round < 2000; round++) {
            char text[64] = "", escaped[64] = "▁";
            size_t n = 1 + testing_below(&seed, 20);
            for (size_t i = 0; i < n; i++)
                text[i] = "abcab"[testing_below(&seed, 5)];
            if (kind == 0)
                memcpy(escaped + 3, text, n + 1);
            int32_t expected[64];
            uint64_t n_expected = merge_naively(&v, kind == 0 ? NULL : merges, kind == 0 ? 0 : 5,
                                                kind == 0 ? escaped : text, expected);
            check_ids(l.t, text, n, 0, expected, n_expected);
        }
        unload(&l);
    }
}

static const char *const all_kinds[] = {
    "default", "gpt-2",        "llama-bpe",      "dbrx",        "qwen2",  "qwen35", "starcoder",
    "falcon",  "deepseek-llm", "deepseek-coder", "deepseek-v3", "gpt-4o", "tekken", NULL};

/* k == 0: SentencePiece; else a kind of pattern. False: no more. */
static bool load_tiny(struct loaded *l, size_t k) {
    struct tiny_vocab v;
    *l = (struct loaded){.w = gguf_writer_new()};
    if (k == 0)
        tiny_vocab_spm(&v, &l->w);
    else if (all_kinds[k - 1] != NULL)
        tiny_vocab_bpe(&v, &l->w, all_kinds[k - 1]);
    else
        return false;
    if (k > 0)
        gguf_writer_bool(&l->w, "tokenizer.ggml.add_bos_token", 0);
    load_writer(l);
    return true;
}

/* Texts that punish backtracking, repeated merging and searching again from each place. */
static void test_long_runs(void **state) {
    (void)state;
    static const struct {
        const char *unit, *end;
    } runs[] = {{"a", ""},    {" ", ""},    {" ", "1"},   {" ", "一"},  {" ", "é"}, {"1", ""},    {"\n", ""},
                {"\n ", "x"}, {"😀", ""},    {"\xFF", ""}, {"\xE2", ""}, {"<", ""},  {"<|a|", ""}, {" a", ""},
                {"'s", ""},   {"\r\n", ""}, {"　", "x"},  {"ab", ""},   {"@", ""},  {"[user", ""}};
    const size_t n_runs = sizeof runs / sizeof runs[0];
    struct loaded l;
    for (size_t k = 0; load_tiny(&l, k); k++) {
        /* One letter, blanks, digits, lines and emoji of a megabyte for the commonest kinds; the others
         * smaller. */
        bool big = k == 0 || k == 2 || k == 3;
        for (size_t r = 0; r < n_runs; r++) {
            size_t unit = strlen(runs[r].unit),
                   length = big && (r < 2 || (r >= 5 && r <= 9)) ? 1 << 20 : 1 << 16;
            char *text = malloc(length + 8);
            for (size_t i = 0; i < length; i++)
                text[i] = runs[r].unit[i % unit];
            strcpy(text + length, runs[r].end);
            check_round_trip(l.t, text, length + strlen(runs[r].end));
            free(text);
        }
        unload(&l);
    }
}

static void test_work_is_linear(void **state) {
    (void)state;
    struct loaded l;
    for (size_t k = 0; load_tiny(&l, k); k++) {
        uint64_t base = tokenizer_work_bytes(l.t, 0);
        assert_true(base < 512 << 10);
        for (uint64_t n = 1; n <= 1 << 30; n *= 2)
            assert_true(tokenizer_work_bytes(l.t, n) <= base + 48 * n + 4096);
        unload(&l);
    }
}

/* A byte without a token is named; a text without such bytes comes back. */
static void check_refused_or_whole(const struct tokenizer *t, const char *text, uint64_t length) {
    stator_error e = {.text = ""};
    uint64_t bytes = tokenizer_work_bytes(t, length), n = 0;
    char *work = malloc(bytes);
    int32_t *ids = malloc((3 * length + 8) * sizeof *ids);
    assert_true(work != NULL && ids != NULL);
    stator_status st = tokenizer_encode(t, text, length, 0, work, bytes, ids, 3 * length + 8, &n, &e);
    if (st != STATOR_OK && (st != STATOR_USAGE || strstr(e.text, "the byte 0x") == NULL))
        fail_msg("status %d: %s", (int)st, e.text);
    if (st == STATOR_OK && tokenizer_count_unknown(t, ids, n) == 0)
        check_round_trip(t, text, length);
    free(work);
    free(ids);
}

/* whole: every byte has a token, so the text comes back. */
static void check_random_bytes(const struct tokenizer *t, uint64_t *seed, int rounds, bool whole) {
    static const char broken[] = "\xE2\x96\xF0\x9F\xC3\xED\xA0\xEF\xBB a1\n",
                      blanks[] = "ab c'd\t\r\n 12,.\xC2\xA0\xE1\x9A";
    for (int round = 0; round < rounds; round++) {
        char text[256];
        uint64_t length = testing_below(seed, sizeof text), style = testing_below(seed, 3);
        for (uint64_t i = 0; i < length; i++) {
            text[i] = style == 0   ? (char)testing_random(seed)
                      : style == 1 ? broken[testing_below(seed, sizeof broken - 1)]
                                   : blanks[testing_below(seed, sizeof blanks - 1)];
            if (text[i] == '@') /* a special token, which SentencePiece puts a blank behind */
                text[i] = '#';
        }
        if (whole)
            check_round_trip(t, text, length);
        else
            check_refused_or_whole(t, text, length);
    }
}

static void test_invalid_utf8(void **state) {
    (void)state;
    uint64_t seed = testing_seed("invalid UTF-8");
    struct loaded l;
    for (size_t k = 0; load_tiny(&l, k); k++) {
        check_random_bytes(l.t, &seed, 400, true);
        unload(&l);
    }
    for (size_t k = 0; k < N_VOCABULARIES && testing_shared("vocab/ggml-vocab-gpt-2.gguf") != NULL; k++) {
        char path[1024];
        load_vocabulary(&l, k, path);
        /* falcon has no token for 0x0B, starcoder none for 0xF1, among others. */
        bool holes = strcmp(vocabularies[k], "falcon") == 0 || strcmp(vocabularies[k], "starcoder") == 0;
        check_random_bytes(l.t, &seed, 400, !holes);
        unload(&l);
    }
}

/* Any ids at all: chunks are whole characters, and together they are the repaired concatenation of the
 * pieces. */
static void check_random_ids(const struct tokenizer *t, uint64_t *seed) {
    char *piece = malloc(tokenizer_longest_piece(t) + 1);
    for (int round = 0; round < 200; round++) {
        int32_t ids[64];
        bool special = testing_below(seed, 2) != 0;
        uint64_t n = testing_below(seed, 64), raw_n = 0, repaired_n, got;
        char *raw = malloc(64 * (tokenizer_longest_piece(t) + 1));
        bool first = tokenizer_adds_bos(t); /* here: of SentencePiece vocabularies, which drop a blank */
        for (uint64_t i = 0; i < n; i++) {
            uint64_t low = testing_below(seed, 2) != 0 ? 600 : tokenizer_vocab(t);
            ids[i] = (int32_t)testing_below(seed, low < tokenizer_vocab(t) ? low : tokenizer_vocab(t));
            uint64_t bytes = tokenizer_piece(t, ids[i], special, piece, tokenizer_longest_piece(t));
            assert_true(bytes <= tokenizer_longest_piece(t));
            bool drop = first && bytes > 0 && piece[0] == ' ';
            first = first && bytes == 0;
            memcpy(raw + raw_n, piece + drop, bytes - drop);
            raw_n += bytes - drop;
        }
        char *repaired = repair(raw, raw_n, &repaired_n), *out = decode(t, ids, n, special, &got);
        assert_int_equal(got, repaired_n);
        assert_memory_equal(out, repaired, got);
        free(raw);
        free(repaired);
        free(out);
    }
    free(piece);
}

static void test_streaming(void **state) {
    (void)state;
    uint64_t seed = testing_seed("streaming");
    struct loaded l;
    for (size_t k = 0; load_tiny(&l, k); k++) {
        check_random_ids(l.t, &seed);
        unload(&l);
    }
    static const size_t some[] = {2, 4, 6}; /* gpt-2, llama-spm, qwen2 */
    for (size_t k = 0; k < 3 && testing_shared("vocab/ggml-vocab-gpt-2.gguf") != NULL; k++) {
        char path[1024];
        load_vocabulary(&l, some[k], path);
        check_random_ids(l.t, &seed);
        unload(&l);
    }
}

static void test_too_small(void **state) {
    (void)state;
    struct loaded l;
    assert_true(load_tiny(&l, 2));
    uint64_t n = 0, bytes = tokenizer_work_bytes(l.t, 9);
    void *work = malloc(bytes);
    int32_t ids[4] = {-7, -7, -7, -7};
    stator_error e;
    assert_int_equal(tokenizer_encode(l.t, "hello b c", 9, 0, work, bytes, ids, 2, &n, &e), STATOR_USAGE);
    assert_int_equal(n, 5);
    assert_true(ids[0] >= 0 && ids[1] >= 0);
    assert_int_equal(ids[2], -7);
    assert_non_null(strstr(e.text, "5 tokens"));
    assert_int_equal(tokenizer_encode(l.t, "hello b c", 9, 0, work, bytes, NULL, 0, &n, NULL), STATOR_USAGE);
    assert_int_equal(n, 5);
    assert_int_equal(tokenizer_encode(l.t, "hello b c", 9, 0, work, bytes - 1, ids, 4, &n, &e), STATOR_USAGE);
    assert_non_null(strstr(e.text, "workspace"));
    free(work);
    unload(&l);
}

/* One file with something wrong: no tokenizer, and the text names what. */
static void check_bad(struct gguf_writer *w, const char *expected) {
    char path[GGUF_WRITER_PATH];
    stator_error e = {0};
    struct gguf *g;
    gguf_writer_finish(w);
    assert_int_equal(gguf_open(gguf_writer_memory_path(w, path), &g, &e), STATOR_OK);
    uint64_t bytes = 0;
    stator_status s = tokenizer_measure(g, &bytes, &e);
    if (s == STATOR_OK) {
        struct tokenizer *t;
        void *memory = aligned_alloc(64, arith_round_up(bytes, 64));
        s = tokenizer_create(g, memory, bytes, &t, &e);
        free(memory);
    }
    assert_int_equal(s, STATOR_BAD_MODEL);
    if (strstr(e.text, expected) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", e.text, expected);
    gguf_close(g);
    gguf_writer_free(w);
}

static void test_bad_vocabularies(void **state) {
    (void)state;
    static const struct {
        const char *drop, *expected;
        bool bpe;
    } missing[] = {{"tokenizer.ggml.model", "tokenizer.ggml.model", false},
                   {"tokenizer.ggml.tokens", "tokenizer.ggml.tokens", false},
                   {"tokenizer.ggml.merges", "tokenizer.ggml.merges", true}};
    struct tiny_vocab v;
    for (size_t i = 0; i < sizeof missing / sizeof missing[0]; i++) {
        struct gguf_writer w = gguf_writer_new();
        w.drop[0] = missing[i].drop;
        if (missing[i].bpe)
            tiny_vocab_bpe(&v, &w, "gpt-2");
        else
            tiny_vocab_spm(&v, &w);
        check_bad(&w, missing[i].expected);
    }
    /* Replaces one key of a good file. */
#define BAD(key, bpe_pre, expected, write)                                                                   \
    do {                                                                                                     \
        struct gguf_writer w = gguf_writer_new();                                                            \
        w.drop[0] = key;                                                                                     \
        if ((bpe_pre) != NULL)                                                                               \
            tiny_vocab_bpe(&v, &w, bpe_pre);                                                                 \
        else                                                                                                 \
            tiny_vocab_spm(&v, &w);                                                                          \
        w.drop[0] = NULL;                                                                                    \
        write;                                                                                               \
        check_bad(&w, expected);                                                                             \
    } while (0)
    const char *spm = NULL;
    BAD("tokenizer.ggml.model", spm, "\"bert\"; known are",
        gguf_writer_text(&w, "tokenizer.ggml.model", "bert"));
    BAD("tokenizer.ggml.model", spm, "tokenizer.ggml.model", gguf_writer_u32(&w, "tokenizer.ggml.model", 1));
    BAD("tokenizer.ggml.pre", "gpt-2", "deepseek-llm", gguf_writer_text(&w, "tokenizer.ggml.pre", "gpt-5"));
    BAD("tokenizer.ggml.pre", "gpt-2", "\"gpt-2 \"", gguf_writer_text(&w, "tokenizer.ggml.pre", "gpt-2 "));
    BAD("tokenizer.ggml.pre", "gpt-2", "\"\"", gguf_writer_text(&w, "tokenizer.ggml.pre", ""));
    BAD("tokenizer.ggml.pre", "gpt-2", "tokenizer.ggml.pre", gguf_writer_u32(&w, "tokenizer.ggml.pre", 2));
    BAD(NULL, spm, "tokenizer.ggml.fim_mid_token_id",
        gguf_writer_u32(&w, "tokenizer.ggml.fim_mid_token_id", TINY_VOCAB_MAX));
    BAD("tokenizer.ggml.tokens", spm, "has 0 tokens",
        gguf_writer_texts(&w, "tokenizer.ggml.tokens", 0, NULL));
    BAD("tokenizer.ggml.tokens", spm, "tokenizer.ggml.tokens",
        gguf_writer_array(&w, "tokenizer.ggml.tokens", GGUF_U32, 1, "abcd", 4));
    BAD("tokenizer.ggml.scores", spm, "tokenizer.ggml.scores has 1 items",
        gguf_writer_array(&w, "tokenizer.ggml.scores", GGUF_F32, 1, v.scores, 4));
    BAD("tokenizer.ggml.scores", spm, "tokenizer.ggml.scores",
        gguf_writer_f32(&w, "tokenizer.ggml.scores", 1));
    BAD("tokenizer.ggml.token_type", "gpt-2", "tokenizer.ggml.token_type has 2 items",
        gguf_writer_array(&w, "tokenizer.ggml.token_type", GGUF_I32, 2, v.types, 8));
    BAD("tokenizer.ggml.merges", "gpt-2", "item 1 is \"nothing\"",
        gguf_writer_texts(&w, "tokenizer.ggml.merges", 2, (const char *const[]){"a a", "nothing"}));
    BAD("tokenizer.ggml.merges", "gpt-2", "item 0 is \"\"",
        gguf_writer_texts(&w, "tokenizer.ggml.merges", 1, (const char *const[]){""}));
    BAD("x", spm, "tokenizer.ggml.bos_token_id", gguf_writer_u32(&w, "tokenizer.ggml.bos_token_id", v.n));
    BAD("x", spm, "tokenizer.ggml.eos_token_id", gguf_writer_i32(&w, "tokenizer.ggml.eos_token_id", -1));
    BAD("x", spm, "tokenizer.ggml.add_bos_token", gguf_writer_u32(&w, "tokenizer.ggml.add_bos_token", 1));
    BAD("x", "gpt-2", "tokenizer.ggml.bos_token_id is missing",
        gguf_writer_bool(&w, "tokenizer.ggml.add_bos_token", 1));
    BAD("x", "gpt-2", "tokenizer.ggml.eos_token_id is missing",
        gguf_writer_bool(&w, "tokenizer.ggml.add_eos_token", 1));
    v.scores[3] = __builtin_nanf("");
    BAD("tokenizer.ggml.scores", spm, "item 3 is not a number",
        (v.scores[3] = __builtin_nanf(""),
         gguf_writer_array(&w, "tokenizer.ggml.scores", GGUF_F32, v.n, v.scores, v.n * 4)));
    BAD("tokenizer.ggml.tokens", spm, "tokens 5 and 9 have the same text",
        (v.pointers[9] = v.pointers[5], gguf_writer_texts(&w, "tokenizer.ggml.tokens", v.n, v.pointers)));
    char *big = calloc(1, 70000);
    memset(big, 'x', 69999);
    BAD("tokenizer.ggml.tokens", spm, "token 7 of tokenizer.ggml.tokens has 69999 bytes",
        (v.pointers[7] = big, gguf_writer_texts(&w, "tokenizer.ggml.tokens", v.n, v.pointers)));
    free(big);
}

/* Odd but legal: empty tokens (several), no scores, no kinds, merges of unknown halves. */
static void test_odd_vocabularies(void **state) {
    (void)state;
    struct loaded l = {.w = gguf_writer_new()};
    gguf_writer_text(&l.w, "tokenizer.ggml.model", "gpt2");
    gguf_writer_texts(&l.w, "tokenizer.ggml.tokens", 6,
                      (const char *const[]){"", "a", "", "b", "ab", "<|im_end|>"});
    gguf_writer_texts(&l.w, "tokenizer.ggml.merges", 3, (const char *const[]){"q q", "b b", "a b"});
    load_writer(&l);
    check_ids(l.t, "ab", 2, 0, (int32_t[]){4}, 1);
    stator_error e; /* bytes without a token don't vanish */
    char *work = malloc(tokenizer_work_bytes(l.t, 8));
    uint64_t n = 0;
    assert_int_equal(tokenizer_encode(l.t, "abq", 3, 0, work, tokenizer_work_bytes(l.t, 8), NULL, 0, &n, &e),
                     STATOR_USAGE);
    assert_non_null(strstr(e.text, "the byte 0x71"));
    free(work);
    check_ids(l.t, "<|im_end|>", 10, TOKENIZER_PARSE_SPECIAL, (int32_t[]){5}, 1);
    assert_int_equal(tokenizer_piece(l.t, 0, true, NULL, 0), 0);
    unload(&l);
    l = (struct loaded){.w = gguf_writer_new()};
    gguf_writer_text(&l.w, "tokenizer.ggml.model", "gpt2");
    gguf_writer_texts(&l.w, "tokenizer.ggml.tokens", 3, (const char *const[]){"a", "<unk>", "b"});
    gguf_writer_texts(&l.w, "tokenizer.ggml.merges", 1, (const char *const[]){"q q"});
    gguf_writer_u32(&l.w, "tokenizer.ggml.unknown_token_id", 1);
    load_writer(&l);
    const int32_t with_unknown[] = {0, 1, 1, 2};
    check_ids(l.t, "aqxb", 4, 0, with_unknown, 4);
    assert_int_equal(tokenizer_count_unknown(l.t, with_unknown, 4), 2);
    unload(&l);
    l = (struct loaded){.w = gguf_writer_new()};
    gguf_writer_text(&l.w, "tokenizer.ggml.model", "llama");
    gguf_writer_texts(&l.w, "tokenizer.ggml.tokens", 5,
                      (const char *const[]){"<unk>", "<s>", "</s>", "▁", "x"});
    load_writer(&l);
    check_ids(l.t, "xy", 2, 0, (int32_t[]){3, 4, 0}, 3); /* neither token nor byte token: unknown */
    unload(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_vocabularies),
        cmocka_unit_test(test_spm),
        cmocka_unit_test(test_gemma4),
        cmocka_unit_test(test_bpe),
        cmocka_unit_test(test_infill),
        cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_special_tokens),
        cmocka_unit_test(test_against_naive_merging),
        cmocka_unit_test(test_long_runs),
        cmocka_unit_test(test_work_is_linear),
        cmocka_unit_test(test_invalid_utf8),
        cmocka_unit_test(test_streaming),
        cmocka_unit_test(test_too_small),
        cmocka_unit_test(test_bad_vocabularies),
        cmocka_unit_test(test_odd_vocabularies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
