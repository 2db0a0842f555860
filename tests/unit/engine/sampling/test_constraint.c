/* Requests with a grammar: every answer matches, whatever the sampling, the speculation and the number of
 * requests that share a grammar; end tokens come only where it may end; what can't be a grammar's request is
 * refused. */
#include "engine_harness.h"

#include "grammar/gbnf.h"
#include "grammar/json_schema.h"
#include "hybrid_model.h"
#include "tiny_vocab.h"

#define DEMO     "configs/demo.gguf"
#define DEMO_END 1

enum { CASES = 12, MOST = 400, NODES = 16384 };

static const struct {
    stator_grammar_kind kind;
    const char *text;
} grammars[] = {
    {STATOR_GRAMMAR_JSON_SCHEMA, "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\","
                                 "\"maxLength\":20},\"age\":{\"type\":\"integer\","
                                 "\"minimum\":0,\"maximum\":120},\"kind\":{\"enum\":[\"cat\",\"dog\"]}},"
                                 "\"required\":[\"name\",\"age\",\"kind\"],"
                                 "\"additionalProperties\":false}"},
    {STATOR_GRAMMAR_REGEX, "(the|a) (cat|dog|fox)( and (the|a) (cat|dog|fox)){0,3}\\."},
    {STATOR_GRAMMAR_JSON_SCHEMA, "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"pattern\":\"^[a-m "
                                 "]{2,8}$\"},\"minItems\":1,\"maxItems\":4}"},
    {STATOR_GRAMMAR_REGEX, "yes|no|[0-9]{3,5}"},
    {STATOR_GRAMMAR_GBNF,
     "root ::= list \".\"\nlist ::= \"(\" (word | list) \")\" | word \", \" word\nword ::= [a-e]{1,6}"},
};

struct told {
    int32_t token;
    float logprob;
    stator_logprob top[2];
};

struct answer {
    uint64_t id;
    bool done;
    stator_reason reason;
    uint32_t n, n_guessed, n_steps; /* steps that had tokens */
    uint64_t time_ns;
    struct told told[MOST];
};

static stator *start(const char *speculation, uint32_t n_grammars, const char *sequences) {
    const char *sets[] = {"memory.context=512", "cpu.threads=2", "server.grammar_bytes=1MiB", sequences,
                          speculation};
    stator_options o = {
        .size = sizeof o, .config = DEMO, .set = sets, .n_set = 5, .reuse = 1, .grammars = n_grammars};
    stator *s = NULL;
    stator_error e = {0};
    if (stator_open(&o, &s, &e) != STATOR_OK || stator_start(s, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    return s;
}

static stator_grammar *compile(stator *s, uint32_t i) {
    const stator_grammar_source source = {.size = sizeof source,
                                          .kind = grammars[i].kind,
                                          .text = grammars[i].text,
                                          .length = strlen(grammars[i].text)};
    stator_grammar *g = NULL;
    stator_error e = {0};
    if (stator_grammar_compile(s, &source, &g, &e) != STATOR_OK)
        fail_msg("grammar %u: %s", i, e.text);
    return g;
}

/* Several requests share a grammar; some are greedy, some have penalties, biases against what the grammar
 * wants, and min_tokens. */
static void submit(stator *s, uint32_t i, stator_grammar *g, struct answer *a) {
    static const stator_logit_bias biases[] = {{DEMO_END, 30}, {92, -5}, {20, 9}};
    int32_t ids[12];
    for (uint32_t k = 0; k < 12; k++)
        ids[k] = (int32_t)(20 + (k + i) % 5 * 3);
    stator_request q = {.size = sizeof q, .tokens = ids, .n_tokens = 12, .max_new = MOST};
    q.logprobs = i % 3 == 0;
    q.top_logprobs = i % 3 == 0 ? 2 : 0;
    q.sampling = (stator_sampling){
        .has = STATOR_HAS_TEMPERATURE | STATOR_HAS_SEED | STATOR_HAS_REPEAT_PENALTY | STATOR_HAS_MIN_TOKENS |
               STATOR_HAS_XTC_PROBABILITY | STATOR_HAS_DRY_MULTIPLIER | STATOR_HAS_TOP_N_SIGMA,
        .temperature = i % 2 ? 1.3f : 0,
        .seed = i,
        .repeat_penalty = i % 4 == 3 ? 1.3f : 1,
        .min_tokens = i % 5 == 4 ? 6 : 0,
        .xtc_probability = i == 5 ? 0.5f : 0,
        .dry_multiplier = i == 7 ? 0.8f : 0,
        .top_n_sigma = i == 9 ? 1.0f : 0,
        .logit_bias = biases,
        .n_logit_bias = i % 4 < 2 ? 3 : 0,
        .grammar = g};
    stator_error e = {0};
    a->n = a->n_steps = 0;
    a->done = false;
    if (stator_submit(s, &q, &a->id, &e) != STATOR_OK)
        fail_msg("submit %u: %s", i, e.text);
}

static void collect(stator *s, struct answer *a, uint32_t n) {
    for (uint32_t left = n; left > 0;) {
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        assert_int_equal(stator_poll(s, UINT64_MAX, &ev, &have, NULL), STATOR_OK);
        struct answer *x = a;
        while (have && x->id != ev.request)
            x++;
        if (have && ev.kind == STATOR_EVENT_TOKEN) {
            assert_true(x->n < MOST);
            struct told *t = &x->told[x->n++];
            x->n_steps += x->n == 1 || ev.time_ns != x->time_ns;
            x->time_ns = ev.time_ns;
            memset(t, 0, sizeof *t);
            t->token = ev.token;
            t->logprob = ev.logprob;
            memcpy(t->top, ev.top, ev.n_top * sizeof *t->top);
        } else if (have) {
            if (ev.reason == STATOR_REASON_FAILED)
                fail_msg("%s", ev.text);
            x->done = true;
            x->reason = ev.reason;
            x->n_guessed = ev.n_guessed;
            left--;
        }
    }
}

static size_t text_of(stator *s, const struct answer *a, char *text, size_t capacity) {
    size_t n = 0;
    for (uint32_t i = 0; i < a->n; i++) {
        size_t bytes = 0;
        assert_int_equal(stator_token_bytes(s, a->told[i].token, text + n, capacity - n, &bytes, NULL),
                         STATOR_OK);
        n += bytes;
        assert_true(n < capacity);
    }
    text[n] = '\0';
    return n;
}

/* The answer's text by an expression of its own. */
static void check_matches(stator *s, uint32_t grammar, const struct answer *a) {
    char text[8192];
    struct regex *r = NULL;
    bool matches = false;
    const char *source = grammars[grammar].text;
    void *memory = aligned_alloc(64, json_schema_bytes(NODES));
    const size_t n = text_of(s, a, text, sizeof text);
    assert_non_null(memory);
    if (grammars[grammar].kind == STATOR_GRAMMAR_REGEX)
        assert_int_equal(regex_compile(memory, NODES, source, strlen(source), REGEX_WHOLE, &r, NULL),
                         STATOR_OK);
    else if (grammars[grammar].kind == STATOR_GRAMMAR_GBNF)
        assert_int_equal(gbnf_compile(memory, NODES, source, strlen(source), &r, NULL), STATOR_OK);
    else
        assert_int_equal(
            json_schema_compile(memory, NODES, source, strlen(source), JSON_SCHEMA_COMPACT, &r, NULL),
            STATOR_OK);
    assert_int_equal(regex_matches(r, text, n, &matches), REGEX_OK);
    if (!matches || a->reason != STATOR_REASON_EOS)
        fail_msg("grammar %u, ended by %d: %s", grammar, (int)a->reason, text);
    free(memory);
}

/* Returns guesses. */
static uint64_t play(const char *speculation, const char *sequences, uint32_t together, struct answer *a) {
    const uint32_t kinds = sizeof grammars / sizeof grammars[0];
    stator *s = start(speculation, kinds, sequences);
    uint64_t guessed = 0;
    for (uint32_t i = 0; i < CASES; i += together) {
        for (uint32_t k = i; k < i + together; k++) {
            stator_grammar *g = compile(s, k % kinds);
            submit(s, k, g, &a[k]);
            stator_grammar_release(s, g);
        }
        collect(s, a + i, together);
    }
    for (uint32_t i = 0; i < CASES; i++) {
        check_matches(s, i % kinds, &a[i]);
        guessed += a[i].n_guessed;
    }
    stator_close(s);
    return guessed;
}

static void answers_match(void **state) {
    (void)state;
    struct answer *want = calloc(CASES, sizeof *want), *a = calloc(CASES, sizeof *a);
    assert_true(want != NULL && a != NULL);
    static const struct {
        const char *speculation, *sequences;
        uint32_t together;
    } plays[] = {{"speculation.mode=off", "memory.sequences=6", 6},
                 {"speculation.mode=ngram", "memory.sequences=1", 1},
                 {"speculation.mode=ngram", "memory.sequences=12", 12}};
    assert_int_equal(play("speculation.mode=off", "memory.sequences=1", 1, want), 0);
    for (size_t p = 0; p < sizeof plays / sizeof plays[0]; p++) {
        const uint64_t guessed = play(plays[p].speculation, plays[p].sequences, plays[p].together, a);
        assert_true(p == 0 || guessed > 0);
        for (uint32_t i = 0; i < CASES; i++)
            if (a[i].n != want[i].n || memcmp(a[i].told, want[i].told, a[i].n * sizeof *a[i].told) != 0)
                fail_msg("request %u is another, play %zu", i, p);
    }
    /* What is forbidden is not among the likeliest: of one candidate the probability is 1. */
    for (uint32_t i = 0; i < want[3].n; i++)
        assert_true(want[3].told[i].logprob <= 0);
    free(a);
    free(want);
}

/* Free text, then the grammar: behind tokens that the model takes, and behind the queue of a budget. */
static void begins_later(void **state) {
    (void)state;
    static const int32_t closes[] = {30}, queued[] = {31, 30, 40};
    const stator_budget budget = {.size = sizeof budget,
                                  .tokens = 7,
                                  .begun = 1,
                                  .close = closes,
                                  .n_close = 1,
                                  .queue = queued,
                                  .n_queue = 3};
    static const stator_logit_bias never[] = {{30, -1e6f}, {DEMO_END, 1e6f}};
    stator *s = start("speculation.mode=off", 1, "memory.sequences=1");
    stator_grammar *g = compile(s, 3);
    struct answer *a = calloc(1, sizeof *a);
    const int32_t prompt[] = {20, 22, 24};
    stator_request q = {.size = sizeof q, .tokens = prompt, .n_tokens = 3, .max_new = MOST};
    q.sampling = (stator_sampling){.has = STATOR_HAS_TEMPERATURE,
                                   .budget = &budget,
                                   .grammar = g,
                                   .grammar_after = closes,
                                   .n_grammar_after = 1,
                                   .logit_bias = never,
                                   .n_logit_bias = 2};
    assert_non_null(a);
    assert_int_equal(stator_submit(s, &q, &a->id, NULL), STATOR_OK);
    collect(s, a, 1);
    assert_true(a->n > 10);
    for (uint32_t k = 0; k < 3; k++)
        assert_int_equal(a->told[7 + k].token, queued[k]);
    memmove(a->told, a->told + 10, (a->n - 10) * sizeof *a->told);
    a->n -= 10;
    check_matches(s, 3, a);
    stator_grammar_release(s, g);
    stator_close(s);
    free(a);
}

/* An answer may open its free text itself: with and without a bias for the token that does. */
static void may_open(void **state) {
    (void)state;
    static const int32_t opens = 32, closes[] = {30};
    static const stator_logit_bias biases[][2] = {{{32, 1e6f}, {DEMO_END, 1e6f}}, {{32, -1e6f}, {30, 1e6f}}};
    const int32_t prompt[] = {20, 22, 24};
    stator *s = start("speculation.mode=ngram", 1, "memory.sequences=1");
    stator_grammar *g = compile(s, 3);
    struct answer *a = calloc(1, sizeof *a);
    assert_non_null(a);
    for (int i = 0; i < 2; i++) {
        const stator_budget budget = {.size = sizeof budget,
                                      .tokens = 3,
                                      .open = &opens,
                                      .n_open = 1,
                                      .close = closes,
                                      .n_close = 1,
                                      .queue = closes,
                                      .n_queue = 1};
        stator_request q = {.size = sizeof q, .tokens = prompt, .n_tokens = 3, .max_new = MOST};
        q.sampling = (stator_sampling){.has = STATOR_HAS_TEMPERATURE,
                                       .budget = &budget,
                                       .grammar = g,
                                       .grammar_after = closes,
                                       .n_grammar_after = 1,
                                       .grammar_open = &opens,
                                       .logit_bias = biases[i],
                                       .n_logit_bias = 2};
        a->n = 0;
        assert_int_equal(stator_submit(s, &q, &a->id, NULL), STATOR_OK);
        collect(s, a, 1);
        if (i == 0) {
            assert_true(a->n > 5 && a->told[0].token == opens && a->told[4].token == closes[0]);
            memmove(a->told, a->told + 5, (a->n - 5) * sizeof *a->told);
            a->n -= 5;
        }
        check_matches(s, 3, a);
    }
    stator_grammar_release(s, g);
    stator_close(s);
    free(a);
}

/* A text that nothing else can stand for takes no step for each of its tokens; with log probabilities it
 * does, and the tokens are the same. */
static void only_texts(void **state) {
    (void)state;
    static const char *const modes[] = {"speculation.mode=off", "speculation.mode=ngram"};
    static const char only[] = "the dog and the fox are the best of friends";
    static const char text[] = "(yes|no): the dog and the fox are the best of friends(\\.|!)";
    struct answer *a = calloc(3, sizeof *a);
    const int32_t prompt[] = {20, 22, 24};
    assert_non_null(a);
    for (int i = 0; i < 3; i++) {
        const stator_grammar_source source = {
            .size = sizeof source, .kind = STATOR_GRAMMAR_REGEX, .text = text, .length = sizeof text - 1};
        stator *s = start(modes[i % 2], 1, "memory.sequences=1");
        stator_grammar *g = NULL;
        char said[512];
        stator_request q = {
            .size = sizeof q, .tokens = prompt, .n_tokens = 3, .max_new = MOST, .logprobs = i == 2};
        assert_int_equal(stator_grammar_compile(s, &source, &g, NULL), STATOR_OK);
        q.sampling = (stator_sampling){
            .has = STATOR_HAS_TEMPERATURE | STATOR_HAS_SEED, .temperature = 1, .seed = 3, .grammar = g};
        assert_int_equal(stator_submit(s, &q, &a[i].id, NULL), STATOR_OK);
        collect(s, &a[i], 1);
        (void)text_of(s, &a[i], said, sizeof said);
        assert_non_null(strstr(said, only));
        assert_true(a[i].reason == STATOR_REASON_EOS && a[i].n > 8);
        assert_true(i == 2 ? a[i].n_steps == a[i].n : a[i].n_steps < a[i].n / 2);
        assert_int_equal(a[i].n, a[0].n);
        for (uint32_t k = 0; k < a[i].n; k++)
            assert_int_equal(a[i].told[k].token, a[0].told[k].token);
        stator_grammar_release(s, g);
        stator_close(s);
    }
    free(a);
}

/* The same with states, which chunks of known tokens go through, and with blocks that guess from hidden
 * states. */
static void only_texts_of_states(void **state) {
    (void)state;
    static const char *const modes[] = {"speculation.mode=off", "speculation.mode=ngram",
                                        "speculation.mode=mtp"};
    static const char text[] = "((a|b|c){2}: abc aa bab \\[b\\] ){6}";
    static struct tiny_vocab v;
    struct hybrid_model m = hybrid_model_usual();
    struct gguf_writer w = gguf_writer_new();
    struct answer *a = calloc(3, sizeof *a);
    char path[GGUF_WRITER_PATH];
    assert_non_null(a);
    tiny_vocab_spm(&v, &w);
    m.vocab = v.n;
    m.nextn = 1;
    m.blocks++;
    m.echoes = 1;
    hybrid_model_write(&w, m);
    gguf_writer_finish(&w);
    gguf_writer_memory_path(&w, path);
    for (int i = 0; i < 3; i++) {
        const stator_grammar_source source = {
            .size = sizeof source, .kind = STATOR_GRAMMAR_REGEX, .text = text, .length = sizeof text - 1};
        char model[GGUF_WRITER_PATH + 16];
        snprintf(model, sizeof model, "model.path=%s", path);
        const char *sets[] = {model, "memory.context=512", "cpu.threads=2", "memory.sequences=2", modes[i]};
        const stator_options o = {
            .size = sizeof o, .config = DEMO, .set = sets, .n_set = 5, .reuse = 1, .grammars = 1};
        const int32_t prompt[] = {20, 22, 24};
        stator *s = NULL;
        stator_grammar *g = NULL;
        stator_error e = {0};
        if (stator_open(&o, &s, &e) != STATOR_OK || stator_start(s, &e) != STATOR_OK)
            fail_msg("%s", e.text);
        stator_request q = {.size = sizeof q, .tokens = prompt, .n_tokens = 3, .max_new = MOST};
        assert_int_equal(stator_grammar_compile(s, &source, &g, NULL), STATOR_OK);
        q.sampling = (stator_sampling){
            .has = STATOR_HAS_TEMPERATURE | STATOR_HAS_SEED, .temperature = 1, .seed = 5, .grammar = g};
        assert_int_equal(stator_submit(s, &q, &a[i].id, NULL), STATOR_OK);
        collect(s, &a[i], 1);
        assert_true(a[i].reason == STATOR_REASON_EOS && a[i].n_steps < a[i].n);
        assert_int_equal(a[i].n, a[0].n);
        for (uint32_t k = 0; k < a[i].n; k++)
            assert_int_equal(a[i].told[k].token, a[0].told[k].token);
        stator_grammar_release(s, g);
        stator_close(s);
    }
    assert_true(a[2].n_guessed > 0);
    gguf_writer_free(&w);
    free(a);
}

static void expect(stator *s, const stator_request *q, stator_status status, const char *text) {
    stator_error e = {0};
    uint64_t id = 0;
    assert_int_equal(stator_submit(s, q, &id, &e), status);
    if (strstr(e.text, text) == NULL)
        fail_msg("%s: %s is expected", e.text, text);
}

static void refusals(void **state) {
    (void)state;
    stator *s = start("speculation.mode=off", 1, "memory.sequences=1");
    const int32_t prompt[] = {20}, outside[] = {1 << 20};
    stator_grammar *g = compile(s, 0), *same = compile(s, 0), *other = NULL;
    stator_error e = {0};
    stator_grammar_source source = {.size = sizeof source,
                                    .kind = STATOR_GRAMMAR_REGEX,
                                    .text = grammars[1].text,
                                    .length = strlen(grammars[1].text)};
    assert_ptr_equal(g, same); /* compiled once */
    assert_int_equal(stator_grammar_compile(s, &source, &other, &e), STATOR_BUSY);
    assert_null(other);
    stator_grammar_release(s, same);
    assert_int_equal(stator_grammar_compile(s, &source, &other, &e), STATOR_BUSY);
    stator_request q = {.size = sizeof q, .tokens = prompt, .n_tokens = 1, .max_new = 4, .ignore_eos = 1};
    q.sampling.grammar = g;
    expect(s, &q, STATOR_USAGE, "ignore_eos");
    q.ignore_eos = 0;
    q.sampling.grammar_after = outside;
    q.sampling.n_grammar_after = 1;
    expect(s, &q, STATOR_USAGE, "grammar_after names token");
    q.sampling.n_grammar_after = STATOR_GRAMMAR_AFTER + 1;
    expect(s, &q, STATOR_USAGE, "at most");
    q.sampling.n_grammar_after = 0;
    q.sampling.grammar_open = prompt;
    expect(s, &q, STATOR_USAGE, "grammar_open needs");
    q.sampling.grammar_open = NULL;
    stator_grammar_release(s, g);
    expect(s, &q, STATOR_USAGE, "was released");
    source.text = "(a";
    source.length = 2;
    assert_int_equal(stator_grammar_compile(s, &source, &other, &e), STATOR_USAGE);
    source.text = grammars[1].text;
    source.length = strlen(grammars[1].text);
    assert_int_equal(stator_grammar_compile(s, &source, &other, &e), STATOR_OK); /* its place is free again */
    stator_close(s);
    s = start("speculation.mode=off", 0, "memory.sequences=1");
    assert_int_equal(stator_grammar_compile(s, &source, &other, &e), STATOR_USAGE);
    assert_non_null(strstr(e.text, "no memory for grammars"));
    stator_close(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_match), cmocka_unit_test(begins_later),         cmocka_unit_test(may_open),
        cmocka_unit_test(only_texts),    cmocka_unit_test(only_texts_of_states), cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
