/* Speculation changes no byte: tokens and log probabilities with guesses are those without, whatever is
 * guessed, however many sequences there are and however they end. Also the table of n-grams and the pace. */
#include "experts_model.h"
#include "hybrid_model.h"
#include "nextn_play.h"
#include "prefix_play.h"

#include "app/selftest/selftest_model.h"

#include "engine/draft/ngram.h"
#include "engine/draft/speculation.h"

#include <inttypes.h>
#include <unistd.h>

#define DEMO     "configs/demo.gguf"
#define DEMO_END 1

enum { MOST = 250, CASES = 8 };

struct told {
    int32_t token;
    float logprob;
    stator_logprob top[2];
};

struct answer {
    uint64_t id;
    bool done;
    stator_reason reason;
    uint32_t n, n_guessed, n_kept, cancel_at;
    struct told told[MOST];
};

/* Prompts that repeat, and few tokens that come, so that there is something to guess. */
static stator_request request_of(uint32_t i, int32_t *ids, uint32_t context) {
    static const stator_logit_bias few[] = {{20, 12}, {22, 12}, {24, 12}, {26, 12}, {2, 10}};
    const uint32_t n = 20 + 3 * i;
    for (uint32_t k = 0; k < n; k++)
        ids[k] = (int32_t)(20 + k % (3 + i) * 2);
    stator_request q = {.size = sizeof q, .tokens = ids, .n_tokens = n, .max_new = i == 4 ? context : 90 + i};
    q.ignore_eos = i % 3 != 0;
    q.logprobs = i % 2;
    q.top_logprobs = i % 2 * 2;
    q.sampling =
        (stator_sampling){.has = STATOR_HAS_TEMPERATURE | STATOR_HAS_SEED | STATOR_HAS_REPEAT_PENALTY,
                          .temperature = i % 2 ? 0.7f : 0,
                          .seed = i,
                          .repeat_penalty = i == 2 || i == 5 ? 1.2f : 1.0f,
                          .logit_bias = few,
                          .n_logit_bias = i == 0   ? 0
                                          : i == 3 ? 5
                                                   : 4};
    if (i == 1 || i == 5) {
        q.sampling.has |= STATOR_HAS_DRY_MULTIPLIER | STATOR_HAS_XTC_PROBABILITY | STATOR_HAS_TYPICAL_P |
                          STATOR_HAS_TOP_N_SIGMA;
        q.sampling.dry_multiplier = 0.1f;
        q.sampling.xtc_probability = 0.3f;
        q.sampling.typical_p = 0.9f;
        q.sampling.top_n_sigma = 3;
    }
    /* A budget of 15 tokens from the prompt on, and one that opens with the model's own token. */
    static const int32_t opens[] = {22}, closes[] = {1, 1}, queued[] = {30, 31, 32};
    static const stator_budget budgets[] = {{.size = sizeof budgets[0],
                                             .tokens = 15,
                                             .begun = 1,
                                             .close = closes,
                                             .n_close = 2,
                                             .queue = queued,
                                             .n_queue = 3},
                                            {.size = sizeof budgets[0],
                                             .tokens = 2,
                                             .open = opens,
                                             .n_open = 1,
                                             .queue = queued + 1,
                                             .n_queue = 2}};
    if (i == 1 || i == 2)
        q.sampling.budget = &budgets[i - 1];
    if (i == 3) {
        q.sampling.has |= STATOR_HAS_MIN_TOKENS;
        q.sampling.min_tokens = 20;
    }
    return q;
}

static void submit(stator *s, uint32_t i, struct answer *a) {
    int32_t ids[64];
    stator_info info = {.size = sizeof info};
    assert_int_equal(stator_get_info(s, &info, NULL), STATOR_OK);
    for (uint32_t k = 0; k < 64; k++)
        ids[k] = 0;
    stator_request q = request_of(i, ids, info.context);
    stator_error e = {0};
    a->n = 0;
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
            memset(t, 0, sizeof *t);
            t->token = ev.token;
            t->logprob = ev.logprob;
            memcpy(t->top, ev.top, ev.n_top * sizeof *t->top);
            if (x->n == x->cancel_at)
                stator_cancel(s, x->id);
        } else if (have) {
            if (ev.reason == STATOR_REASON_FAILED)
                fail_msg("%s", ev.text);
            x->done = true;
            x->reason = ev.reason;
            x->n_guessed = ev.n_guessed;
            x->n_kept = ev.n_kept;
            left--;
        }
    }
}

static stator_stats stats_of(stator *s) {
    stator_stats t = {.size = sizeof t};
    assert_int_equal(stator_get_stats(s, &t, NULL), STATOR_OK);
    return t;
}

/* All requests on an engine, `together` at a time. */
static stator_stats play(const char *model, const char *const *sets, uint32_t together, struct answer *a) {
    stator *s = harness_start(model, sets);
    for (uint32_t i = 0; i < CASES; i += together) {
        const uint32_t n = together < CASES - i ? together : CASES - i;
        for (uint32_t k = 0; k < n; k++)
            submit(s, i + k, &a[i + k]);
        collect(s, a + i, n);
    }
    stator_stats t = stats_of(s);
    stator_close(s);
    return t;
}

static void compare(const struct answer *a, const struct answer *want, const char *what) {
    for (uint32_t i = 0; i < CASES; i++) {
        const bool cut = a[i].cancel_at > 0;
        if ((!cut && (a[i].n != want[i].n || a[i].reason != want[i].reason)) || a[i].n > want[i].n ||
            memcmp(a[i].told, want[i].told, a[i].n * sizeof *a[i].told) != 0)
            fail_msg("%s: request %u is another with speculation", what, i);
        assert_true(a[i].n >= a[i].cancel_at && a[i].n_kept <= a[i].n_guessed);
    }
}

/* Greedy, and without anything that makes the sampler's token another than the largest logit's: a draft that
 * is the model itself guesses all right, but for the token that ends the text. */
static void all_kept(const struct answer *a) {
    if (a->n_kept == 0 || a->n_guessed > a->n_kept + 1)
        fail_msg("%u of %u guesses of the model itself kept", a->n_kept, a->n_guessed);
}

/* What a model answers, without; then with guesses of n-grams or a draft model, alone and together, with room
 * for them or little. Returns how many guesses were kept. */
static uint64_t same_bytes(const char *model, const char *by, const char *draft) {
    static const char *const sizes[][3] = {
        {"speculation.tokens=4", "memory.batch=64", "memory.logits_rows=auto"},
        {"speculation.tokens=16", "memory.batch=17", "memory.logits_rows=auto"},
        {"speculation.tokens=1", "memory.batch=9", "memory.logits_rows=3"}};
    static const char *const devices[] = {"devices.use=cpu:0", "devices.use=cpu:0,cpu:1"};
    struct answer *want = calloc(CASES, sizeof *want), *a = calloc(CASES, sizeof *a);
    assert_true(want != NULL && a != NULL);
    const char *plain[] = {"memory.context=128", "cpu.threads=2", NULL};
    play(model, plain, 1, want);
    assert_int_equal(want[4].n, 128 - 32 + 1); /* to the context's end */
    assert_int_equal(want[1].n, 91);
    for (uint32_t k = 0; k < 3; k++)
        assert_int_equal(want[1].told[15 + k].token, 30 + k);
    uint64_t kept = 0;
    uint64_t wrong = 0;
    const bool itself = draft != NULL && strcmp(draft, model) == 0;
    char mode[32], file[300] = "speculation.device=cpu";
    snprintf(mode, sizeof mode, "speculation.mode=%s", by);
    if (draft != NULL)
        snprintf(file, sizeof file, "speculation.model=%s", draft);
    static const struct {
        uint32_t d, c, together;
    } plays[] = {{0, 0, 1}, {0, 0, 8}, {0, 1, 1}, {0, 2, 3}, {1, 0, 8}, {1, 1, 1}};
    for (size_t p = draft != NULL; p + (draft != NULL) < sizeof plays / sizeof plays[0]; p++) {
        const uint32_t d = plays[p].d, c = plays[p].c, together = plays[p].together;
        char what[96];
        const char *sets[] = {plain[0],
                              plain[1],
                              mode,
                              file,
                              together == 8 ? "memory.sequences=8" : "memory.sequences=3",
                              sizes[c][0],
                              sizes[c][1],
                              c == 2 && draft != NULL ? "memory.logits_rows=4" : sizes[c][2],
                              devices[d],
                              NULL};
        snprintf(what, sizeof what, "%s, %s, %s, %u together", mode, sizes[c][0], devices[d], together);
        for (uint32_t i = 0; i < CASES; i++)
            a[i].cancel_at = c == 0 && i == 1 ? 37 : together == 8 && i == 6 ? 5 : 0;
        stator_stats t = play(model, sets, together, a);
        compare(a, want, what);
        if (t.guessed[0] == 0 || t.guessed[0] > t.turns)
            fail_msg("%s: %" PRIu64 " guesses in %" PRIu64 " turns", what, t.guessed[0], t.turns);
        uint64_t generated = 0, here = 0;
        for (uint32_t i = 0; i < STATOR_GUESSES; i++) {
            assert_true(t.kept[i] <= t.guessed[i] && (i == 0 || t.kept[i] <= t.kept[i - 1]));
            here += t.kept[i];
            wrong += t.guessed[i] - t.kept[i];
        }
        for (uint32_t i = 0; i < CASES; i++)
            generated += a[i].n;
        if (itself)
            all_kept(&a[0]);
        assert_true(t.tokens_out == generated);
        kept += here;
    }
    assert_true(wrong > 50 || itself);
    free(a);
    free(want);
    return kept;
}

static void dense(void **state) {
    (void)state;
    assert_true(same_bytes(DEMO, "ngram", NULL) > 50);
    assert_true(same_bytes(DEMO, "draft", DEMO) > 50);
}

/* A model in memory. */
struct made {
    int fd;
    char path[SELFTEST_MODEL_PATH];
};

static const char *make_selftest(struct made *m, const char *architecture, uint32_t vocab, uint64_t seed) {
    struct selftest_model model = {.architecture = architecture,
                                   .type = BLOCK_F16,
                                   .n_layers = 3,
                                   .n_embd = 64,
                                   .n_ff = 96,
                                   .n_heads = 4,
                                   .n_kv_heads = 2,
                                   .head_dim = 32,
                                   .vocab = vocab,
                                   .context = 4096,
                                   .window = 20,
                                   .experts = strcmp(architecture, "gpt-oss") == 0 ? 5 : 0,
                                   .used = 2,
                                   .seed = seed};
    stator_error e = {0};
    if (strcmp(architecture, "llama") == 0)
        model.window = 0;
    if (selftest_model_make(&model, &m->fd, m->path, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    return m->path;
}

static void with_experts(void **state) {
    (void)state;
    struct gguf_writer w = gguf_writer_new();
    char path[GGUF_WRITER_PATH];
    struct made other;
    experts_model_write(&w, experts_model_small());
    gguf_writer_finish(&w);
    gguf_writer_memory_path(&w, path);
    assert_true(same_bytes(path, "ngram", NULL) > 50);
    assert_true(same_bytes(path, "draft", path) > 50);
    same_bytes(path, "draft", make_selftest(&other, "llama", 96, 5));
    close(other.fd);
    gguf_writer_free(&w);
}

/* A draft that lacks some of the model's tokens gives no guesses once they stand in the text; one with more
 * ends its guesses where it has such a one. */
static void other_vocabularies(void **state) {
    (void)state;
    struct made model, less, more;
    make_selftest(&model, "llama", 96, 5);
    same_bytes(model.path, "draft", make_selftest(&less, "llama", 70, 5));
    same_bytes(model.path, "draft", make_selftest(&more, "llama", 130, 5));
    close(model.fd);
    close(less.fd);
    close(more.fd);
}

/* States keep no guess: those that were right are computed again by the next step. A draft that keeps states
 * goes on with a copy of them. */
static void with_states(void **state) {
    (void)state;
    static const struct { uint32_t dim_k, taps; } shapes[] = {{32, 4}, {40, 2}};
    struct made other;
    make_selftest(&other, "llama", 96, 8);
    for (size_t i = 0; i < 2; i++) {
        struct hybrid_model m = hybrid_model_usual();
        struct gguf_writer w = gguf_writer_new();
        char path[GGUF_WRITER_PATH];
        m.dim_k = shapes[i].dim_k;
        m.taps = shapes[i].taps;
        hybrid_model_write(&w, m);
        gguf_writer_finish(&w);
        gguf_writer_memory_path(&w, path);
        assert_true(same_bytes(path, i == 0 ? "ngram" : "draft", i == 0 ? NULL : other.path) >
                    (i == 0 ? 10 : 0));
        /* Of the model itself many guesses are right; of another it is chance who meets whom. */
        assert_true(same_bytes(i == 0 ? path : other.path, "draft", path) > (i == 0 ? 10 : 0));
        gguf_writer_free(&w);
    }
    close(other.fd);
}

/* Gated convolutions keep no guess either. */
static void with_convolutions(void **state) {
    (void)state;
    static const char *const names[] = {"lfm2-wide", "lfm2-one"};
    for (size_t i = 0; i < 2; i++) {
        struct gguf_writer w = gguf_writer_new();
        char path[GGUF_WRITER_PATH];
        peer_model_write(&w, peer_model_named(names[i]), BLOCK_F32);
        gguf_writer_finish(&w);
        gguf_writer_memory_path(&w, path);
        same_bytes(path, "ngram", NULL);
        assert_true(same_bytes(path, "draft", path) > 10);
        gguf_writer_free(&w);
    }
}

/* A hybrid with an MTP head, both of which mostly say the last token again. */
static const char *make_echo(struct gguf_writer *w, char path[GGUF_WRITER_PATH]) {
    struct hybrid_model m = hybrid_model_usual();
    *w = gguf_writer_new();
    m.nextn = m.echoes = 1;
    m.blocks++;
    hybrid_model_write(w, m);
    gguf_writer_finish(w);
    return gguf_writer_memory_path(w, path);
}

static void by_the_model(void **state) {
    (void)state;
    struct gguf_writer w;
    char path[GGUF_WRITER_PATH];
    assert_true(same_bytes(make_echo(&w, path), "mtp", NULL) > 50);
    gguf_writer_free(&w);
    const struct peer_model *m = peer_models;
    while (strcmp(m->name, "qwen35moe-nextn") != 0)
        m++;
    same_bytes(nextn_play_model(m, &w, path), "mtp", NULL); /* random: whether a guess is right is chance */
    gguf_writer_free(&w);
}

/* Rings that have gone round keep what the next token sees, whatever wrong guesses wrote; those of a draft
 * begin anew where they can't go back. */
static void with_windows(void **state) {
    (void)state;
    struct made gemma, oss;
    make_selftest(&gemma, "gemma3", 97, 7);
    make_selftest(&oss, "gpt-oss", 97, 7);
    assert_true(same_bytes(gemma.path, "ngram", NULL) > 50);
    assert_true(same_bytes(gemma.path, "draft", gemma.path) > 50);
    assert_true(same_bytes(oss.path, "ngram", NULL) > 50);
    same_bytes(oss.path, "draft", gemma.path);
    close(gemma.fd);
    close(oss.fd);
}

/* Random conversations with branches and cancels, whose finished blocks others reuse. */
static void conversations(void **state) {
    (void)state;
    static const char *const plain[] = {"server.prefix_cache=false", "memory.context=256", "memory.batch=64",
                                        "cpu.threads=2", NULL};
    const char *sets[] = {"speculation.mode=ngram",
                          "speculation.tokens=6",
                          "memory.context=256",
                          "memory.batch=40",
                          "memory.sequences=3",
                          "cpu.threads=2",
                          NULL,
                          NULL};
    struct prefix_play p;
    assert_true(prefix_play("speculation", DEMO, sets, plain, 30, &p) > 500);
    assert_true(p.stats.guessed[0] > 0 && p.stats.blocks_evicted > 0);
    sets[0] = "speculation.mode=draft";
    sets[6] = "speculation.model=" DEMO;
    assert_true(prefix_play("speculation", DEMO, sets, plain, 30, &p) > 500);
    assert_true(p.stats.kept[0] > 100 && p.stats.blocks_evicted > 0);
}

/* The same where blocks are of use only with a copy of the states at their end: checkpoints, which a draft
 * with states knows nothing of. */
static void conversations_with_states(void **state) {
    (void)state;
    static const char *const plain[] = {"server.prefix_cache=false", "memory.context=256", "memory.batch=64",
                                        "cpu.threads=2", NULL};
    static const char *const modes[] = {"speculation.mode=ngram", "speculation.mode=mtp",
                                        "speculation.mode=draft"};
    struct gguf_writer w;
    char path[GGUF_WRITER_PATH], file[300];
    snprintf(file, sizeof file, "speculation.model=%s", make_echo(&w, path));
    for (size_t i = 0; i < 3; i++) {
        const char *sets[] = {modes[i],
                              file,
                              "speculation.tokens=3",
                              "memory.context=256",
                              "memory.batch=40",
                              "memory.sequences=3",
                              "server.checkpoints=5",
                              "cpu.threads=2",
                              NULL};
        struct prefix_play p;
        prefix_play_texts = 2;
        prefix_play(modes[i], path, sets, plain, 15, &p);
        prefix_play_texts = PREFIX_PLAY_TEXTS;
        assert_true(p.stats.checkpoints_taken > 0 && p.stats.checkpoints_resumed > 0);
        assert_true(p.stats.kept[0] > 10);
    }
    gguf_writer_free(&w);
}

/* A story's end by greedy choice, again with the rest of it to come; returns how many tokens are behind the
 * prompt's first n. */
static uint32_t to_the_end(stator *s, const int32_t *ids, uint32_t n, struct answer *a) {
    stator_request q = {.size = sizeof q, .tokens = ids, .n_tokens = n, .max_new = MOST};
    q.sampling = (stator_sampling){.has = STATOR_HAS_TEMPERATURE};
    stator_error e = {0};
    a->n = a->cancel_at = 0;
    if (stator_submit(s, &q, &a->id, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    collect(s, a, 1);
    assert_int_equal(a->reason, STATOR_REASON_EOS);
    return a->n;
}

/* The token that ends a text, at every place among a step's guesses, and other guesses behind it. */
static void ends_among_guesses(void **state) {
    (void)state;
    static const char *const plain[] = {"cpu.threads=2", NULL};
    static const char *const by_draft[] = {"cpu.threads=2", "speculation.mode=draft",
                                           "speculation.model=" DEMO, NULL};
    static const char *const by_ngram[] = {"cpu.threads=2", "speculation.mode=ngram", NULL};
    int32_t ids[1024];
    size_t n = 0;
    struct answer story, a;
    stator *s = harness_start(DEMO, plain), *draft = harness_start(DEMO, by_draft),
           *ngram = harness_start(DEMO, by_ngram);
    char *text = testing_read_file("tests/data/demo.json", NULL);
    n = harness_json_ids(text, "prompt", ids, 1024);
    const uint32_t end = (uint32_t)n + to_the_end(s, ids, (uint32_t)n, &story);
    for (uint32_t i = 0; i < story.n; i++)
        ids[n + i] = story.told[i].token;
    for (uint32_t left = 1; left <= 11; left++) {
        assert_int_equal(to_the_end(draft, ids, end - left, &a), left);
        for (uint32_t i = 0; i < left; i++)
            assert_int_equal(a.told[i].token, ids[end - left + i]);
        /* Turns behind the first token have 4 guesses and a token more; the end is a guess, or that. */
        assert_int_equal(a.n_guessed - a.n_kept, left % 5 != 0);
        assert_int_equal(a.n_kept, (left - 1) / 5 * 4 + (left - 1) % 5);
    }
    /* The story, its end and the begin of the next, and it again. */
    int32_t twice[1024];
    const uint32_t again = end + 2;
    uint32_t more = 0;
    assert_true(2 * end + 2 < 1024);
    memcpy(twice, ids, end * sizeof *ids);
    twice[end] = DEMO_END;
    twice[end + 1] = DEMO_END;
    memcpy(twice + again, ids, end * sizeof *ids);
    for (uint32_t left = 1; left <= 11; left++) {
        const uint32_t want = to_the_end(s, twice, again + end - left, &story);
        assert_int_equal(to_the_end(ngram, twice, again + end - left, &a), want);
        assert_memory_equal(a.told, story.told, want * sizeof *a.told);
        more += want == left && a.n_guessed - a.n_kept > 1; /* guesses behind it */
    }
    assert_true(more > 3);
    stator_close(draft);
    stator_close(s);
    stator_close(ngram);
    free(text);
}

static void ngrams(void **state) {
    (void)state;
    static _Alignas(CARVE_ALIGN) uint8_t memory[1 << 16];
    struct ngram g;
    struct carve c = carve_in(memory, sizeof memory);
    int32_t out[8];
    ngram_lay_out(&g, &c, 100);
    const int32_t text[] = {1, 2, 3, 4, 9, 2, 3, 5, 8, 1, 2, 3};
    assert_int_equal(ngram_guess(&g, text, 1, out, 4), 0);
    assert_int_equal(ngram_guess(&g, text, 5, out, 4), 0);
    /* The last time 5 came after 2 3; but 1 2 3 is a longer ending. */
    assert_int_equal(ngram_guess(&g, text, 12, out, 3), 3);
    assert_memory_equal(out, ((int32_t[]){4, 9, 2}), 12);
    const int32_t other[] = {7, 2, 3, 4, 9, 2, 3, 5, 8, 6, 2, 3};
    ngram_clear(&g);
    assert_int_equal(ngram_guess(&g, other, 12, out, 2), 2);
    assert_memory_equal(out, ((int32_t[]){5, 8}), 8);
    const int32_t round[] = {5, 6, 7, 5, 6, 7, 5, 6};
    ngram_clear(&g);
    assert_int_equal(ngram_guess(&g, round, 8, out, 7), 7);
    assert_memory_equal(out, ((int32_t[]){7, 5, 6, 7, 5, 6, 7}), 28);
    assert_int_equal(ngram_guess(&g, round, 8, out, 0), 0);
    ngram_clear(&g);
    int32_t same[101];
    for (uint32_t i = 0; i < 101; i++)
        same[i] = 4;
    assert_int_equal(ngram_guess(&g, same, 101, out, 8), 8);
    assert_int_equal(out[7], 4);
}

/* Guesses that are never right cost few steps; one that is ends a rest for good. */
static void pace(void **state) {
    (void)state;
    struct speculation_pace p;
    speculation_pace_begin(&p, 4);
    uint32_t steps = 0;
    uint32_t guesses = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        const uint32_t n = p.rest == 0 ? p.most : 0;
        steps += n > 0;
        guesses += n;
        speculation_pace_step(&p, 4, n, 0);
    }
    assert_in_range(steps, 10, 30);
    assert_true(guesses < steps + 8);
    while (p.rest > 0)
        speculation_pace_step(&p, 4, 0, 0);
    assert_int_equal(p.most, 1);
    speculation_pace_step(&p, 4, 1, 1);
    assert_true(p.most == 2 && p.rest == 0);
    speculation_pace_step(&p, 4, 2, 2);
    assert_int_equal(p.most, 4);
    speculation_pace_step(&p, 4, 4, 0);
    assert_true(p.most == 2 && p.rest == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(ngrams),
                                       cmocka_unit_test(pace),
                                       cmocka_unit_test(dense),
                                       cmocka_unit_test(with_experts),
                                       cmocka_unit_test(other_vocabularies),
                                       cmocka_unit_test(with_states),
                                       cmocka_unit_test(with_convolutions),
                                       cmocka_unit_test(by_the_model),
                                       cmocka_unit_test(with_windows),
                                       cmocka_unit_test(conversations),
                                       cmocka_unit_test(conversations_with_states),
                                       cmocka_unit_test(ends_among_guesses)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
