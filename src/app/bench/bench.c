/* stator bench: rates of prompt processing (pp) and generation (tg), at depths, for sequences together. The
 * command: its options, the list of tests, the engine that holds them all. */
#include "app/bench/bench.h"

#include "app/commands.h"
#include "app/options/options.h"
#include "app/out.h"
#include "app/session.h"

#include "base/error.h"
#include "config/config.h"
#include "os/pages.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PROBE_BYTES (512ull << 20) /* beyond any cache */
#define MAX_TESTS   (BENCH_LIST * BENCH_LIST * (2 * BENCH_LIST + 1))
#define MAX_SET     48

struct list {
    uint32_t n;
    uint32_t values[BENCH_LIST];
};

struct bench {
    const char *config;
    const char *prompt_text, *generate_text, *depth_text, *accept_text, *parallel_text, *form_text, *report;
    struct options_list set;
    uint64_t laps, speculate;
    bool roofline, json;

    double accept[BENCH_LIST];
    uint32_t n_accept;
    struct list prompt, generate, depth, parallel;
    enum bench_form form;
    char set_sequences[MAX_SET], set_context[MAX_SET], set_tokens[MAX_SET];
    struct bench_test *tests;
    uint32_t n_tests;
    stator *engine;
    void *memory; /* of the probe */
    bool stopped;
};

/* Numbers separated by commas. */
static stator_status parse_list(const char *text, const char *option, uint32_t min, struct list *out,
                                stator_error *e) {
    const char *at = text;
    out->n = 0;
    for (;;) {
        size_t digits = strspn(at, "0123456789");
        uint64_t v = digits > 0 && digits < 10 ? strtoull(at, NULL, 10) : UINT64_MAX;
        bool ends = at[digits] == '\0' || at[digits] == ',';
        if (!ends || v < min || v > INT32_MAX)
            return error_set(e, STATOR_USAGE,
                             "%s is \"%.60s\"; expected whole numbers from %u on, separated by commas",
                             option, text, min);
        if (out->n == BENCH_LIST)
            return error_set(e, STATOR_USAGE, "%s has more than %d values", option, BENCH_LIST);
        out->values[out->n++] = (uint32_t)v;
        if (at[digits] == '\0')
            return STATOR_OK;
        at += digits + 1;
    }
}

/* Shares from 0 to 1, separated by commas. */
static stator_status parse_accept(struct bench *b, stator_error *e) {
    const char *at = b->accept_text;
    for (;;) {
        char *end = NULL;
        double v = strspn(at, "0123456789.") > 0 ? strtod(at, &end) : -1;
        if (end == NULL || (*end != '\0' && *end != ',') || !(v >= 0 && v <= 1))
            return error_set(e, STATOR_USAGE,
                             "--accept is \"%.60s\"; expected numbers from 0 to 1, separated by commas",
                             b->accept_text);
        if (b->n_accept == BENCH_LIST)
            return error_set(e, STATOR_USAGE, "--accept has more than %d values", BENCH_LIST);
        b->accept[b->n_accept++] = v;
        if (*end == '\0')
            return STATOR_OK;
        at = end + 1;
    }
}

static stator_status parse_form(struct bench *b, stator_error *e) {
    static const char *const names[] = {[BENCH_MD] = "md", [BENCH_JSON] = "json", [BENCH_CSV] = "csv"};
    for (int i = 0; i < 3; i++)
        if (strcmp(b->form_text, names[i]) == 0) {
            b->form = b->json ? BENCH_JSON : (enum bench_form)i;
            return STATOR_OK;
        }
    return error_set(e, STATOR_USAGE, "-o is \"%.60s\"; expected md, json or csv", b->form_text);
}

static stator_status read_options(struct bench *b, stator_error *e) {
    stator_status st = parse_form(b, e);
    if (st == STATOR_OK)
        st = parse_list(b->prompt_text, "-p", 0, &b->prompt, e);
    if (st == STATOR_OK)
        st = parse_list(b->generate_text, "-n", 0, &b->generate, e);
    if (st == STATOR_OK)
        st = parse_list(b->depth_text, "-d", 0, &b->depth, e);
    if (st == STATOR_OK)
        st = parse_list(b->parallel_text, "--parallel", 1, &b->parallel, e);
    if (st == STATOR_OK && b->accept_text != NULL && b->speculate == 0)
        return error_set(e, STATOR_USAGE, "--accept is for --speculate N");
    if (b->accept_text == NULL)
        b->accept_text = "0,0.5,0.8";
    if (st == STATOR_OK && b->speculate > 0)
        st = parse_accept(b, e);
    return st;
}

/* Prompts first, then generation, depth by depth. A prompt's rate does not depend on how many it is cut into,
 * so only generation is measured with several sequences. */
static stator_status make_tests(struct bench *b, stator_error *e) {
    b->tests = calloc(MAX_TESTS, sizeof *b->tests);
    if (b->tests == NULL)
        return error_set(e, STATOR_FAILED, "no memory for the list of tests");
    for (uint32_t d = 0; d < b->depth.n; d++) {
        struct bench_test t = {.depth = b->depth.values[d], .sequences = 1};
        for (uint32_t i = 0; i < b->prompt.n; i++) {
            t.n = b->prompt.values[i];
            if (t.n > 0)
                b->tests[b->n_tests++] = t;
        }
        t.generation = true;
        for (uint32_t i = 0; i < b->generate.n; i++)
            for (uint32_t k = 0; k < b->parallel.n; k++) {
                t.n = b->generate.values[i];
                t.sequences = b->parallel.values[k];
                if (t.n == 0)
                    continue;
                b->tests[b->n_tests++] = t;
                for (uint32_t a = 0; a < b->n_accept && t.sequences == 1; a++) {
                    b->tests[b->n_tests] = t;
                    b->tests[b->n_tests].guesses = (uint32_t)b->speculate;
                    b->tests[b->n_tests++].accept = b->accept[a];
                }
            }
    }
    return b->n_tests > 0 ? STATOR_OK
                          : error_set(e, STATOR_USAGE, "-p and -n are 0: there is nothing to measure");
}

static const struct bench_test *longest(const struct bench *b, uint32_t batch) {
    const struct bench_test *most = &b->tests[0];
    for (uint32_t i = 1; i < b->n_tests; i++)
        if (bench_context(&b->tests[i], batch) > bench_context(most, batch))
            most = &b->tests[i];
    return most;
}

static uint32_t most_sequences(const struct bench *b) {
    uint32_t most = 1;
    for (uint32_t i = 0; i < b->n_tests; i++)
        most = b->tests[i].sequences > most ? b->tests[i].sequences : most;
    return most;
}

static stator_status too_many_sets(stator_error *e) {
    return error_set(e, STATOR_USAGE, "--set is given more than %d times", OPTIONS_MAX_LIST - 4);
}

static stator_status add_set(struct bench *b, char out[MAX_SET], const char *key, uint64_t value,
                             stator_error *e) {
    if (b->set.n == OPTIONS_MAX_LIST)
        return too_many_sets(e);
    snprintf(out, MAX_SET, "%s=%" PRIu64, key, value);
    b->set.items[b->set.n++] = out;
    return STATOR_OK;
}

/* What makes the draft tokens costs what it costs (passes of an MTP head, steps of a draft model),
 * whatever is accepted. Where there is none, the one that costs nothing stands in for the rows. */
static stator_status choose_guesser(struct bench *b, stator_error *e) {
    struct config *c = malloc(sizeof *c);
    stator_status st = c != NULL ? config_load(b->config, b->set.items, b->set.n, c, e)
                                 : error_set(e, STATOR_FAILED, "no memory for the config");
    if (st == STATOR_OK && c->speculation.mode == CONFIG_SPECULATION_OFF) {
        if (b->set.n == OPTIONS_MAX_LIST)
            st = too_many_sets(e);
        else
            b->set.items[b->set.n++] = "speculation.mode=ngram";
    }
    free(c);
    return st;
}

static stator_status check_embeds(const struct bench *b, const stator_info *info, stator_error *e) {
    char label[BENCH_LABEL];
    for (uint32_t i = 0; i < b->n_tests && bench_embeds(info); i++)
        if (b->tests[i].generation || b->tests[i].depth > 0)
            return error_set(
                e, STATOR_USAGE,
                "%s: this model makes embeddings or scores (its pooling is \"%s\"), so only prompts "
                "without a context before them can be measured: give -n 0, and no -d",
                bench_label(&b->tests[i], label), info->pooling);
    return STATOR_OK;
}

/* Opens the engine with a context and sequences that hold every test: the config's own context stays, and
 * must do. */
static stator_status open_for_tests(struct bench *b, stator_error *e) {
    stator_info info = {.size = sizeof info};
    uint32_t sequences = most_sequences(b);
    stator_status st = STATOR_OK;
    if (b->speculate > 0)
        st = add_set(b, b->set_tokens, "speculation.tokens", b->speculate, e);
    if (st == STATOR_OK && b->speculate > 0)
        st = choose_guesser(b, e);
    if (st == STATOR_OK)
        st = session_look(b->config, &b->set, &info, e);
    if (st == STATOR_OK)
        st = check_embeds(b, &info, e);
    if (st != STATOR_OK)
        return st;
    const struct bench_test *t = longest(b, info.batch);
    uint64_t need = bench_context(t, info.batch);
    char label[BENCH_LABEL];
    bench_label(t, label);
    if (info.context_fixed && info.context < need)
        return error_set(e, STATOR_USAGE,
                         "%s needs a context of %" PRIu64
                         " tokens, memory.context is %u: set memory.context=%" PRIu64
                         ", or leave it out, then bench takes what the tests need",
                         label, need, info.context, need);
    const bool fixed = info.context_fixed;
    if (info.sequences < sequences)
        st = add_set(b, b->set_sequences, "memory.sequences", sequences, e);
    if (st == STATOR_OK && !fixed)
        st = add_set(b, b->set_context, "memory.context", need, e);
    if (st == STATOR_OK)
        st = session_open(b->config, &b->set, NULL, NULL, &b->engine, e);
    if (st == STATOR_OK)
        st = stator_get_info(b->engine, &info, e);
    if (st != STATOR_OK && !fixed)
        error_prefix(e, "%s", label);
    if (st == STATOR_OK && info.logits_rows < sequences)
        return error_set(e, STATOR_USAGE,
                         "memory.logits_rows is %u: %u sequences that generate together need as many rows",
                         info.logits_rows, sequences);
    return st;
}

/* The better of two measurements: a limit is the best that was reached. */
static struct bench_limits better(struct bench_limits a, struct bench_limits b) {
    a.read_rate = a.read_rate > b.read_rate ? a.read_rate : b.read_rate;
    a.int8_rate = a.int8_rate > b.int8_rate ? a.int8_rate : b.int8_rate;
    a.int8_name = b.int8_name;
    return a;
}

static stator_status run_tests(struct bench *b, const stator_info *info, struct bench_table *table,
                               stator_error *e) {
    struct bench_limits before = {.read_rate = 0};
    stator_status st =
        b->roofline ? bench_probe(info->threads, b->memory, PROBE_BYTES, &before, e) : STATOR_OK;
    for (uint32_t i = 0; st == STATOR_OK && !b->stopped && i < b->n_tests; i++) {
        struct bench_result r;
        st = bench_run(b->engine, &b->tests[i], (uint32_t)b->laps, &r, b->speculate > 0, &b->stopped, e);
        if (st == STATOR_OK && b->roofline) {
            struct bench_limits after;
            st = bench_probe(info->threads, b->memory, PROBE_BYTES, &after, e);
            r.limits = better(before, after);
            before = after;
        }
        if (st == STATOR_OK && r.n_rates > 0)
            bench_table_row(table, &r);
        if (st == STATOR_OK && r.test.guesses > 0 && b->form == BENCH_MD)
            fprintf(stderr, "%" PRIu64 " of %" PRIu64 " draft tokens kept, %.2f tokens in a turn\n", r.n_kept,
                    r.n_guessed, bench_tokens_per_turn(&r));
        if (st == STATOR_OK && r.fill_rate > 0 && b->form == BENCH_MD)
            fprintf(stderr, "the context of %u tokens was computed at %.2f tokens/s\n", r.test.depth,
                    r.fill_rate);
    }
    return st;
}

static stator_status run_engine(struct bench *b, stator_error *e) {
    stator_status st = open_for_tests(b, e);
    if (st != STATOR_OK)
        return st;
    session_catch_signals(b->engine);
    if (b->roofline) {
        st = pages_map(PROBE_BYTES, "memory to measure the bandwidth with", &b->memory, e);
        if (st == STATOR_OK) {
            (void)madvise(b->memory, PROBE_BYTES, MADV_HUGEPAGE); /* a wish */
            memset(b->memory, 1, PROBE_BYTES); /* untouched pages would all be the same one */
        }
    }
    if (st == STATOR_OK)
        st = stator_plan(b->engine, e);
    if (st == STATOR_OK)
        st = stator_start(b->engine, e);
    stator_info info = {.size = sizeof info};
    if (st == STATOR_OK)
        st = stator_get_info(b->engine, &info, e);
    if (st != STATOR_OK)
        return st;
    struct bench_table *table = bench_table_begin(stdout, b->form, &info, b->config, b->roofline);
    if (table == NULL)
        return error_set(e, STATOR_FAILED, "no memory for the table");
    fprintf(stderr, "model %s, %" PRIu64 " bytes of weights; %u threads, tier %s\n", info.model_name,
            info.model_bytes, info.threads, info.tier);
    st = run_tests(b, &info, table, e);
    bench_table_end(table);
    if (b->stopped)
        fprintf(stderr, "stopped by a signal: the last test has fewer repetitions, or is missing\n");
    return session_finish(b->engine, NULL, b->report, st, e);
}

static bool parse(struct bench *b, int argc, char **argv, int *code) {
    const struct options_row rows[] = {
        {.name = "n-prompt",
         .letter = 'p',
         .kind = OPTIONS_TEXT,
         .target = &b->prompt_text,
         .value = "N,..",
         .help = "prompt tokens, one test per number (512; 0: none)"},
        {.name = "n-gen",
         .letter = 'n',
         .kind = OPTIONS_TEXT,
         .target = &b->generate_text,
         .value = "N,..",
         .help = "tokens to generate, one test per number (128; 0: none)"},
        {.name = "n-depth",
         .letter = 'd',
         .kind = OPTIONS_TEXT,
         .target = &b->depth_text,
         .value = "N,..",
         .help = "tokens already in the context (0)"},
        {.name = "parallel",
         .kind = OPTIONS_TEXT,
         .target = &b->parallel_text,
         .value = "N,..",
         .help = "sequences that generate together; the rate is their sum (1)"},
        {.name = "speculate",
         .kind = OPTIONS_U64,
         .target = &b->speculate,
         .value = "N",
         .min = 1,
         .max = STATOR_GUESSES,
         .help = "also generate with N draft tokens in a step, of which so many are right as --accept says"},
        {.name = "accept",
         .kind = OPTIONS_TEXT,
         .target = &b->accept_text,
         .value = "A,..",
         .help = "shares of draft tokens that are right, one test per number (0,0.5,0.8)"},
        {.name = "repetitions",
         .letter = 'r',
         .kind = OPTIONS_U64,
         .target = &b->laps,
         .value = "R",
         .min = 1,
         .max = BENCH_LAPS,
         .help = "repetitions of each test, after a warm-up (5)"},
        {.name = "output",
         .letter = 'o',
         .kind = OPTIONS_TEXT,
         .target = &b->form_text,
         .value = "FORM",
         .help = "md, json or csv"},
        {.name = "roofline",
         .kind = OPTIONS_FLAG,
         .target = &b->roofline,
         .help = "also measure the machine, and give rates as fractions of its read bandwidth and int8 peak"},
        OPTIONS_REPORT(&b->report),
        OPTIONS_JSON(&b->json),
        OPTIONS_SET(&b->set),
    };
    struct options o = {
        .command = "bench",
        .usage = "CONFIG [-p N,..] [-n N,..] [-d N,..] [-r R] [--speculate N] [-o md|json|csv]",
        .summary =
            "Measures prompt processing (pp) and generation (tg) in tokens per second, on random tokens; "
            "rows and "
            "columns are those of llama-bench.\nCONFIG is a config file or a .gguf file; a config without "
            "memory.context gets what the tests need.\nCtrl-C stops and prints what was measured.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof rows[0]};
    return options_parse_one(&o, argc, argv, &b->config, code);
}

int bench_command(int argc, char **argv) {
    struct bench b = {.prompt_text = "512",
                      .generate_text = "128",
                      .depth_text = "0",
                      .parallel_text = "1",
                      .form_text = "md",
                      .laps = 5};
    int code = 0;
    if (!parse(&b, argc, argv, &code))
        return code;
    stator_error e;
    stator_status st = read_options(&b, &e);
    if (st == STATOR_OK)
        st = make_tests(&b, &e);
    if (st == STATOR_OK)
        st = run_engine(&b, &e);
    session_close(b.engine);
    pages_unmap(b.memory, PROBE_BYTES);
    free(b.tests);
    return out_end("bench", st, &e);
}
