/* Five coding agents whose conversations grow to 30,000 tokens: they append, edit in the middle, ask again,
 * branch off, and compact, all interleaved, on the model of a device of hash_device.h. A cache of the planned
 * size that could go on from the end of any block says how many prompt tokens can be reused; the goal is 95%
 * of them, with a dense model, one with windows and one with states, and a default number of checkpoints. */
#include "hash_device.h"

#include "engine_harness.h"
#include "hybrid_model.h"
#include "window_model.h"

enum {
    AGENTS = 5,
    REQUESTS = 250, /* with one model */
    CONTEXT = 32768,
    FULL = 30000,      /* tokens from which on a conversation is compacted */
    OPENING = 4,       /* tokens with which a template begins an answer */
    OPENS = VOCAB - 1, /* which they are; no text has them */
    MOST_TURNS = 400
};

struct count {
    uint64_t prompts, ideal, reused; /* tokens */
    uint32_t edits, repeats, branches, compactions;
};

/* --- the ideal: blocks by the chain of their texts; the block used longest ago goes first */

enum { CAPACITY = 8192, HINTS = 1 << 16 };

struct ideal {
    uint32_t capacity, n;
    struct {
        uint64_t chain, used;
    } blocks[CAPACITY];
    uint32_t hints[HINTS]; /* where a chain probably is */
    uint64_t clock;
};

static uint32_t ideal_find(const struct ideal *d, uint64_t chain) {
    const uint32_t hint = d->hints[chain % HINTS];
    if (hint < d->n && d->blocks[hint].chain == chain)
        return hint;
    for (uint32_t i = 0; i < d->n; i++)
        if (d->blocks[i].chain == chain)
            return i;
    return UINT32_MAX;
}

/* Tokens of the prompt that need not be computed. */
static uint32_t ideal_ask(const struct ideal *d, const int32_t *tokens, uint32_t n) {
    uint64_t hash = NO_TEXT;
    uint32_t found = 0;
    for (uint32_t t = 0; t < n - 1; t++) {
        hash = mix(hash, tokens[t]);
        if ((t + 1) % TOKENS != 0)
            continue;
        if (ideal_find(d, hash) == UINT32_MAX)
            break;
        found = t + 1;
    }
    return found;
}

/* The text is there from now on. Its end goes before its beginning, as in the engine. */
static void ideal_keep(struct ideal *d, const int32_t *tokens, uint32_t n) {
    uint64_t hash = NO_TEXT;
    d->clock += n;
    for (uint32_t t = 0; t < n; t++) {
        hash = mix(hash, tokens[t]);
        if ((t + 1) % TOKENS != 0)
            continue;
        uint32_t at = ideal_find(d, hash);
        if (at == UINT32_MAX && d->n < d->capacity)
            at = d->n++;
        if (at == UINT32_MAX) {
            at = 0;
            for (uint32_t i = 1; i < d->n; i++)
                at = d->blocks[i].used < d->blocks[at].used ? i : at;
        }
        d->blocks[at].chain = hash;
        d->blocks[at].used = d->clock - t;
        d->hints[hash % HINTS] = at;
    }
}

/* --- agents */

struct agent {
    uint64_t random;
    bool thinks;       /* its template leaves out the reasoning of answers that are told again */
    uint32_t n_system; /* tokens of system prompt and tools */
    uint32_t n;        /* tokens of the conversation so far, with the last answer */
    uint32_t n_asked;  /* of it before the last answer */
    uint32_t n_turns;
    uint32_t turns[MOST_TURNS]; /* where the user's turns begin */
    int32_t tokens[CONTEXT];
    /* The request in flight. */
    uint64_t id; /* 0: none */
    bool aside;  /* its answer does not become part of the conversation */
    uint32_t n_prompt, n_text, max_new;
    int32_t text[CONTEXT + 1]; /* prompt and answer */
    uint64_t hash;
};

static uint32_t below(struct agent *a, uint32_t n) {
    return (uint32_t)testing_below(&a->random, n);
}

static void write_turn(struct agent *a, uint32_t n) {
    assert_true(a->n_turns < MOST_TURNS && a->n + n < CONTEXT);
    a->turns[a->n_turns++] = a->n;
    for (uint32_t i = 0; i < n; i++)
        a->tokens[a->n++] = (int32_t)below(a, OPENS);
}

/* What the agent does next. */
static void act(struct agent *a, struct count *count) {
    const uint32_t what = below(a, 100);
    a->aside = what >= 90;
    if (a->aside) { /* a helper with the same system prompt and tools */
        count->branches++;
        memcpy(a->text, a->tokens, a->n_system * sizeof *a->text);
        a->n_prompt = a->n_system;
        for (uint32_t i = 0; i < 300; i++)
            a->text[a->n_prompt++] = (int32_t)below(a, OPENS);
    } else if (a->n > FULL) { /* the conversation becomes a summary */
        count->compactions++;
        a->n = a->n_system;
        a->n_turns = 0;
        write_turn(a, 1200);
    } else if (what < 10 && a->n_turns > 6) { /* one of the last turns is edited */
        count->edits++;
        a->n_turns -= 1 + below(a, 5);
        a->n = a->turns[a->n_turns];
        write_turn(a, 50 + below(a, 400));
    } else if (what < 20 && a->n_turns > 1) { /* the last question again */
        count->repeats++;
        a->n = a->n_asked;
    } else { /* the user's words, or a tool's result */
        write_turn(a, below(a, 4) == 0 ? 1000 + below(a, 1500) : 40 + below(a, 500));
    }
    if (!a->aside) {
        a->n_asked = a->n_prompt = a->n;
        memcpy(a->text, a->tokens, a->n * sizeof *a->text);
    }
    for (uint32_t i = 0; i < OPENING; i++)
        a->text[a->n_prompt++] = OPENS;
    a->n_text = a->n_prompt;
    a->max_new = 20 + below(a, 120);
}

/* The answer as the template tells it again. */
static void take_answer(struct agent *a) {
    const uint32_t n_answer = a->n_text - a->n_prompt;
    const uint32_t thoughts = a->thinks ? n_answer / 2 : 0, opening = a->thinks ? OPENING / 2 : OPENING;
    if (a->aside)
        return;
    for (uint32_t i = 0; i < opening; i++)
        a->tokens[a->n++] = OPENS;
    for (uint32_t i = thoughts; i < n_answer; i++)
        a->tokens[a->n++] = a->text[a->n_prompt + i];
}

/* --- the play */

static struct agent agents[AGENTS];
static struct ideal ideal;

static void submit(stator *s, struct agent *a, struct count *count) {
    act(a, count);
    a->hash = NO_TEXT;
    for (uint32_t i = 0; i < a->n_prompt; i++)
        a->hash = mix(a->hash, a->text[i]);
    count->prompts += a->n_prompt;
    count->ideal += ideal_ask(&ideal, a->text, a->n_prompt);
    stator_request q = {
        .size = sizeof q, .tokens = a->text, .n_tokens = a->n_prompt, .max_new = a->max_new, .ignore_eos = 1};
    q.sampling = (stator_sampling){.has = STATOR_HAS_TEMPERATURE, .temperature = 0};
    stator_error e = {0};
    if (stator_submit(s, &q, &a->id, &e) != STATOR_OK)
        fail_msg("submit: %s", e.text);
}

/* True: an answer has ended. */
static bool take_event(stator *s, struct count *count) {
    stator_event ev = {.size = sizeof ev};
    int have = 0;
    assert_int_equal(stator_poll(s, UINT64_MAX, &ev, &have, NULL), STATOR_OK);
    if (!have)
        return false;
    struct agent *a = agents;
    while (a < agents + AGENTS && a->id != ev.request)
        a++;
    assert_true(a < agents + AGENTS);
    if (ev.kind == STATOR_EVENT_TOKEN) {
        assert_true(ev.position == a->n_text && ev.token == next_of(a->hash, a->text[a->n_text - 1]));
        a->text[a->n_text++] = ev.token;
        a->hash = mix(a->hash, ev.token);
        return false;
    }
    assert_int_equal(ev.reason, STATOR_REASON_LENGTH);
    count->reused += ev.n_cached;
    ideal_keep(&ideal, a->text, a->n_text - 1); /* the last token was not computed */
    take_answer(a);
    a->id = 0;
    return true;
}

static void start_agents(void) {
    memset(agents, 0, sizeof agents);
    memset(&ideal, 0, sizeof ideal);
    for (uint32_t i = 0; i < AGENTS; i++) {
        struct agent *a = &agents[i];
        a->random = 100 + i / 2; /* two and two have the same system prompt and tools */
        a->thinks = i % 2 == 1;
        write_turn(a, 6000 + 1000 * (i / 2));
        a->n_turns = 0;
        a->n_system = a->n;
        a->random = i;
        write_turn(a, 9000); /* files */
    }
}

/* `requests` of them, at most three in flight. */
static void play(const char *what, const char *model, uint32_t requests) {
    const char *sets[] = {"devices.use=fake:0", "cpu.threads=1",           "memory.context=32768",
                          "memory.sequences=4", "server.checkpoints=auto", NULL};
    struct count count = {0};
    uint64_t random = 7;
    fake.play = hash_device_step;
    stator *s = harness_start(model, sets);
    start_agents();
    ideal.capacity = s->run.pool.n_blocks;
    assert_true(ideal.capacity <= CAPACITY);
    for (uint32_t begun = 0, in_flight = 0; begun < requests || in_flight > 0;) {
        if (begun < requests && in_flight < 3) {
            struct agent *a = &agents[testing_below(&random, AGENTS)];
            if (a->id != 0)
                continue;
            submit(s, a, &count);
            begun++;
            in_flight++;
        } else if (take_event(s, &count)) {
            in_flight--;
        }
    }
    stator_close(s);
    hash_device_forget();
    print_message("%s: %llu prompt tokens (%u edits, %u repeats, %u branches, %u compactions), %llu can be "
                  "reused, %llu "
                  "(%.1f%%) were\n",
                  what, (unsigned long long)count.prompts, count.edits, count.repeats, count.branches,
                  count.compactions, (unsigned long long)count.ideal, (unsigned long long)count.reused,
                  100.0 * (double)count.reused / (double)count.ideal);
    assert_true(count.edits > 0 && count.repeats > 0 && count.branches > 0 && count.compactions > 0);
    assert_true(count.ideal > count.prompts / 2);
    /* Which requests meet differs from run to run: 95.6% to 96.1% were seen with windows and states. */
    assert_true(count.reused * 100 >= count.ideal * 94);
}

static int reset(void **state) {
    (void)state;
    memset(&fake, 0, sizeof fake);
    return 0;
}

static void hybrid(const char *what, uint32_t interval) {
    char path[GGUF_WRITER_PATH];
    struct hybrid_model m = hybrid_model_usual();
    m.interval = interval;
    m.context = CONTEXT;
    struct gguf_writer w = hybrid_model_in_memory(m, path);
    play(what, path, REQUESTS);
    gguf_writer_free(&w);
}

static void dense(void **state) {
    (void)state;
    hybrid("dense", 1);
}

static void states(void **state) {
    (void)state;
    hybrid("states", 2);
}

static void windows(void **state) {
    (void)state;
    char path[SELFTEST_MODEL_PATH];
    const int fd = window_model_make("gemma3", CONTEXT, 512, path);
    play("windows", path, REQUESTS);
    close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup(dense, reset),
                                       cmocka_unit_test_setup(windows, reset),
                                       cmocka_unit_test_setup(states, reset)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
