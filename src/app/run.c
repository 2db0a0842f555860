/* stator run: one prompt in, text out as it comes, the closing report on stderr. */
#include "app/commands.h"
#include "app/image_files.h"
#include "app/options/options.h"
#include "app/out.h"
#include "app/options/sampling_rows.h"
#include "app/session.h"

#include "base/error.h"
#include "base/json_writer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct run {
    const char *config;
    const char *prompt;
    const char *file;
    const char *ids_text;
    const char *report;
    const char *expect_plan;
    const char *trace;
    struct options_list set, images;
    uint64_t max_new;
    struct sampling_rows sampling;
    bool json, ignore_eos;
    const char *schema; /* a file */
    const char *gbnf;   /* a file */
    const char *regex;  /* an expression */

    struct image_files pictures;
    stator *engine;
    stator_grammar *grammar; /* the engine's; NULL: any text is allowed */
    char *text;              /* the prompt's text, malloced, or NULL with --tokens */
    size_t text_length;
    int32_t *ids;
    size_t n_ids;
    char *out; /* generated text, for --json */
    size_t out_length, out_capacity;
    int32_t *out_ids;
    size_t n_out_ids, out_ids_capacity;
    stator_decoder decoder;
    char *piece;
    size_t piece_capacity;
    stator_event done;
};

static stator_status read_prompt(struct run *r, stator_error *e) {
    int given = (r->prompt != NULL) + (r->file != NULL) + (r->ids_text != NULL);
    if (given > 1)
        return error_set(e, STATOR_USAGE, "give one of -p, -f and --tokens");
    if (r->ids_text != NULL)
        return session_parse_ids(r->ids_text, "--tokens", &r->ids, &r->n_ids, e);
    if (r->prompt != NULL) {
        r->text = strdup(r->prompt);
        r->text_length = strlen(r->prompt);
        return r->text != NULL ? STATOR_OK : error_set(e, STATOR_FAILED, "no memory for the prompt");
    }
    return session_read_file(r->file != NULL ? r->file : "-", SESSION_TEXT_LIMIT, &r->text, &r->text_length,
                             e);
}

/* A prompt that is no text is computed all the same, but it is most likely the wrong file. */
static void warn_of_binary(const struct run *r) {
    const bool text = r->text == NULL || json_is_utf8(r->text, r->text_length);
    const char *nul = r->text != NULL ? memchr(r->text, 0, r->text_length) : NULL;
    const char *source = r->file == NULL || strcmp(r->file, "-") == 0 ? "standard input" : r->file;
    if (r->prompt != NULL)
        source = "-p";
    if (!text)
        fprintf(stderr,
                "stator run: warning: the prompt (%.300s) is not UTF-8 text: bytes that are none are read as "
                "U+FFFD\n",
                source);
    else if (nul != NULL)
        fprintf(stderr,
                "stator run: warning: the prompt (%.300s) has a NUL in byte %zu: is it a binary file?\n",
                source, (size_t)(nul - r->text));
}

/* Pictures stand where the prompt has their markers; before all of it if it has none. */
static stator_status mark_pictures(struct run *r, stator_error *e) {
    stator_vision vision = {.size = sizeof vision};
    stator_status st = stator_get_vision(r->engine, &vision, e);
    size_t markers = 0, n = 0;
    for (size_t i = 0; i < r->n_ids; i++)
        markers += vision.pictures > 0 && r->ids[i] == vision.marker;
    if (st != STATOR_OK || markers > 0)
        return st;
    char *text = image_files_mark(r->engine, &r->pictures, r->text, r->text_length, &n, e);
    if (text == NULL)
        return e->code;
    free(r->text);
    r->text = text;
    r->text_length = n;
    return STATOR_OK;
}

static stator_status tokenize_text(struct run *r, stator_error *e) {
    size_t capacity = 3 * r->text_length + 5;
    free(r->ids);
    r->ids = malloc(capacity * sizeof *r->ids);
    if (r->ids == NULL)
        return error_set(e, STATOR_FAILED, "no memory for the prompt's token ids");
    return stator_tokenize(r->engine, r->text, r->text_length, 1, 1, r->ids, capacity, &r->n_ids, e);
}

static stator_status tokenize_prompt(struct run *r, stator_error *e) {
    if (r->ids != NULL)
        return STATOR_OK;
    stator_status st = tokenize_text(r, e);
    if (st != STATOR_OK || r->pictures.n == 0)
        return st;
    st = mark_pictures(r, e);
    return st == STATOR_OK ? tokenize_text(r, e) : st;
}

/* Text as it comes: to stdout, or kept for --json. False: it could not be written or kept. */
static bool put_text(struct run *r, const char *text, size_t n) {
    if (!r->json)
        return n == 0 || (fwrite(text, 1, n, stdout) == n && fflush(stdout) == 0);
    if (r->out_length + n + 1 > r->out_capacity) {
        size_t capacity = (r->out_capacity + n) * 2 + 64;
        char *more = realloc(r->out, capacity);
        if (more == NULL)
            return false;
        r->out = more;
        r->out_capacity = capacity;
    }
    memcpy(r->out + r->out_length, text, n);
    r->out_length += n;
    return true;
}

/* The token's text; without a tokenizer the id is the text, and --json has ids anyhow. id -1: the end. */
static stator_status decode(struct run *r, int32_t id, stator_error *e) {
    char number[16];
    const char *text = r->piece;
    size_t n = 0;
    stator_status st = STATOR_OK;
    if (r->piece != NULL) {
        st = stator_decode(r->engine, &r->decoder, id, 0, r->piece, r->piece_capacity, &n, e);
    } else if (!r->json && r->n_out_ids > 0) {
        text = number;
        n = (size_t)(id < 0 ? snprintf(number, sizeof number, "\n")
                            : snprintf(number, sizeof number, "%s%d", r->n_out_ids > 1 ? " " : "", id));
    }
    if (st == STATOR_OK && n > 0 && !put_text(r, text, n))
        st = error_set(e, STATOR_FAILED, "the text can't be written: %s",
                       r->json ? "no memory" : "standard output is closed or full");
    return st;
}

static stator_status keep_id(struct run *r, int32_t id, stator_error *e) {
    if (r->n_out_ids == r->out_ids_capacity) {
        size_t capacity = r->out_ids_capacity * 2 + 256;
        int32_t *more = realloc(r->out_ids, capacity * sizeof *more);
        if (more == NULL)
            return error_set(e, STATOR_FAILED, "no memory for the generated token ids");
        r->out_ids = more;
        r->out_ids_capacity = capacity;
    }
    r->out_ids[r->n_out_ids++] = id;
    return STATOR_OK;
}

/* A buffer that holds any token's text; none when the model's tokenizer is not known and the prompt is ids:
 * then ids are printed. */
static stator_status make_piece(struct run *r, stator_error *e) {
    r->decoder.size = sizeof r->decoder;
    r->decoder.started = 1; /* it goes on from the prompt: a leading blank belongs to the text */
    for (size_t capacity = 4096;; capacity *= 4) {
        char *piece = realloc(r->piece, capacity);
        if (piece == NULL)
            return error_set(e, STATOR_FAILED, "no memory for a token's text");
        r->piece = piece;
        r->piece_capacity = capacity;
        size_t n = 0;
        stator_decoder probe = r->decoder;
        stator_error why;
        if (stator_decode(r->engine, &probe, -1, 0, piece, capacity, &n, &why) == STATOR_OK)
            return STATOR_OK;
        if (why.code == STATOR_USAGE && capacity < (16u << 20))
            continue;
        free(r->piece);
        r->piece = NULL;
        if (r->ids_text != NULL)
            return STATOR_OK;
        *e = why;
        return why.code;
    }
}

/* What the answer has to match. */
static stator_status compile_grammar(struct run *r, stator_error *e) {
    const char *path = r->schema != NULL ? r->schema : r->gbnf;
    stator_grammar_source source = {.size = sizeof source, .kind = STATOR_GRAMMAR_REGEX, .text = r->regex};
    char *text = NULL;
    if (path == NULL && r->regex == NULL)
        return STATOR_OK;
    if ((r->schema != NULL) + (r->gbnf != NULL) + (r->regex != NULL) > 1)
        return error_set(e, STATOR_USAGE, "give one of --json-schema, --grammar and --regex");
    if (path != NULL) {
        source.kind = r->schema != NULL ? STATOR_GRAMMAR_JSON_SCHEMA : STATOR_GRAMMAR_GBNF;
        stator_status st = session_read_file(path, SESSION_TEXT_LIMIT, &text, &source.length, e);
        if (st != STATOR_OK)
            return st;
        source.text = text;
    } else {
        source.length = strlen(r->regex);
    }
    stator_status st = stator_grammar_compile(r->engine, &source, &r->grammar, e);
    free(text);
    if (st != STATOR_OK)
        error_prefix(e, "%s", path != NULL ? path : "--regex");
    return st;
}

static stator_request request_of(const struct run *r) {
    stator_request q = {.size = sizeof(stator_request),
                        .kind = STATOR_GENERATE,
                        .tokens = r->ids,
                        .n_tokens = r->n_ids,
                        .max_new = (uint32_t)r->max_new,
                        .ignore_eos = r->ignore_eos,
                        .sampling = sampling_rows_get(&r->sampling)};
    q.sampling.grammar = r->grammar;
    q.pictures = r->pictures.items;
    q.n_pictures = r->pictures.n;
    return q;
}

/* Everything that can be refused before the weights are loaded. */
static stator_status prepare(struct run *r, stator_error *e) {
    stator_status st = stator_plan(r->engine, e);
    if (st == STATOR_OK)
        st = stator_prepare(r->engine, e);
    if (st == STATOR_OK)
        st = make_piece(r, e);
    if (st == STATOR_OK)
        st = tokenize_prompt(r, e);
    if (st == STATOR_OK)
        st = compile_grammar(r, e);
    if (st != STATOR_OK)
        return st;
    stator_request q = request_of(r);
    return stator_check(r->engine, &q, e);
}

static stator_status generate(struct run *r, stator_error *e) {
    stator_request q = request_of(r);
    uint64_t id = 0;
    stator_status st = stator_submit(r->engine, &q, &id, e);
    if (st != STATOR_OK)
        return st;
    if (session_signal())
        stator_cancel(r->engine, 0); /* it came before there was a request to cancel */
    for (;;) {
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        stator_status polled = stator_poll(r->engine, UINT64_MAX, &ev, &have, e);
        if (polled != STATOR_OK)
            return polled;
        if (!have)
            continue;
        if (ev.kind == STATOR_EVENT_DONE) {
            r->done = ev;
            break;
        }
        if (st != STATOR_OK)
            continue; /* cancelled by us: drain */
        st = keep_id(r, ev.token, e);
        if (st == STATOR_OK)
            st = decode(r, ev.token, e);
        if (st != STATOR_OK)
            stator_cancel(r->engine, id);
    }
    if (st == STATOR_OK)
        st = decode(r, -1, e);
    if (st == STATOR_OK && r->done.reason == STATOR_REASON_FAILED)
        st = error_set(e, r->done.status, "%s", r->done.text);
    return st;
}

static const char *reason_name(stator_reason reason) {
    static const char *const names[] = {"none", "end of text", "length", "cancelled", "failed"};
    return names[reason];
}

static double rate(uint64_t n, uint64_t ns) {
    return ns > 0 ? (double)n / ((double)ns * 1e-9) : 0;
}

static void print_report(const struct run *r) {
    stator_info info = {.size = sizeof info};
    if (stator_get_info(r->engine, &info, NULL) != STATOR_OK)
        return;
    const stator_event *d = &r->done;
    fprintf(stderr, "\nload        %.2f s (%s, %u threads)\n", (double)info.load_ns * 1e-9, info.tier,
            info.threads);
    fprintf(stderr, "prompt      %u tokens, %.2f s, %.1f tokens/s\n", d->n_prompt,
            (double)d->prompt_ns * 1e-9, rate(d->n_prompt, d->prompt_ns));
    /* The first token comes with the prompt's last step. */
    uint32_t stepped = d->n_generated > 0 ? d->n_generated - 1 : 0;
    fprintf(stderr, "generation  %u tokens, %.2f s, %.1f tokens/s (ended by: %s)\n", d->n_generated,
            (double)d->generate_ns * 1e-9, rate(stepped, d->generate_ns), reason_name(d->reason));
    if (d->n_guessed > 0)
        fprintf(stderr, "speculation %u of %u draft tokens kept\n", d->n_kept, d->n_guessed);
    stator_vision vision = {.size = sizeof vision};
    if (stator_get_vision(r->engine, &vision, NULL) == STATOR_OK && vision.encoded > 0)
        fprintf(stderr, "pictures    %llu encoded, %.2f s\n", (unsigned long long)vision.encoded,
                (double)vision.encode_ns * 1e-9);
    session_print_memory(r->engine, stderr, true);
}

static void print_json(const struct run *r) {
    stator_info info = {.size = sizeof info};
    if (stator_get_info(r->engine, &info, NULL) != STATOR_OK)
        return;
    struct json j;
    json_to_file(&j, stdout, false);
    json_open_object(&j, NULL);
    json_put_string(&j, "plan", info.plan_hash);
    json_open_array(&j, "prompt_ids");
    for (size_t i = 0; i < r->n_ids; i++)
        json_put_i64(&j, NULL, r->ids[i]);
    json_close(&j);
    json_open_array(&j, "ids");
    for (size_t i = 0; i < r->n_out_ids; i++)
        json_put_i64(&j, NULL, r->out_ids[i]);
    json_close(&j);
    json_put_string_n(&j, "text", r->out != NULL ? r->out : "", r->out_length);
    json_put_string(&j, "reason", reason_name(r->done.reason));
    json_open_object(&j, "timings");
    json_put_double(&j, "load_s", (double)info.load_ns * 1e-9);
    json_put_u64(&j, "prompt_tokens", r->done.n_prompt);
    json_put_double(&j, "prompt_s", (double)r->done.prompt_ns * 1e-9);
    json_put_u64(&j, "generated_tokens", r->done.n_generated);
    json_put_double(&j, "generate_s", (double)r->done.generate_ns * 1e-9);
    json_close(&j);
    json_open_array(&j, "memory");
    for (size_t i = 0;; i++) {
        stator_memory_row row = {.size = sizeof row};
        int have = 0;
        if (stator_get_memory(r->engine, i, &row, &have, NULL) != STATOR_OK || !have)
            break;
        json_open_object(&j, NULL);
        json_put_string(&j, "place", row.place);
        json_put_string(&j, "arena", row.arena);
        json_put_u64(&j, "planned", row.planned);
        json_put_u64(&j, "allocated", row.allocated);
        json_put_u64(&j, "used", row.used);
        json_close(&j);
    }
    json_close(&j);
    json_close(&j);
    (void)json_end(&j); /* out_finish tells of a full disk */
}

static stator_status run_engine(struct run *r, stator_error *e) {
    stator_status st = session_open_grammars(r->config, &r->set, r->expect_plan, r->trace,
                                             r->schema != NULL || r->gbnf != NULL || r->regex != NULL ? 1 : 0,
                                             &r->engine, e);
    if (st != STATOR_OK)
        return st;
    session_catch_signals(r->engine);
    st = prepare(r, e);
    if (st == STATOR_OK)
        st = stator_start(r->engine, e);
    if (st != STATOR_OK)
        return st;
    /* On a terminal the whole text is shown, with the prompt; in a pipe only the new text. */
    if (!r->json && r->text != NULL && isatty(STDOUT_FILENO))
        fwrite(r->text, 1, r->text_length, stdout);
    st = generate(r, e);
    if (r->done.kind != STATOR_EVENT_DONE)
        return st;
    if (r->json && st == STATOR_OK)
        print_json(r);
    else if (!r->json && r->n_out_ids > 0 && isatty(STDOUT_FILENO))
        putchar('\n');
    const bool flushed = fflush(stdout) == 0;
    if (flushed)
        print_report(r);
    else if (st == STATOR_OK)
        st = error_set(e, STATOR_FAILED, "can't write to standard output: %s", strerror(errno));
    return session_finish(r->engine, flushed ? stderr : NULL, r->report, st, e);
}

static bool parse(struct run *r, int argc, char **argv, int *code) {
    const struct options_row rows[] = {
        {.name = "prompt",
         .letter = 'p',
         .kind = OPTIONS_TEXT,
         .target = &r->prompt,
         .value = "TEXT",
         .help = "the prompt"},
        {.name = "file",
         .letter = 'f',
         .kind = OPTIONS_TEXT,
         .target = &r->file,
         .value = "FILE",
         .help = "the prompt from a file (without -p, -f and --tokens: from standard input)"},
        {.name = "tokens",
         .kind = OPTIONS_TEXT,
         .target = &r->ids_text,
         .value = "IDS",
         .help = "the prompt as token ids: \"1 2 3\"; of a model without a tokenizer the answer is ids too"},
        {.name = "n-predict",
         .letter = 'n',
         .kind = OPTIONS_U64,
         .target = &r->max_new,
         .value = "N",
         .max = INT32_MAX,
         .help = "most tokens to generate (0: until the end token or a full context)"},
        {.name = "image",
         .kind = OPTIONS_LIST,
         .target = &r->images,
         .value = "FILE",
         .help = "a picture of the prompt (JPEG, PNG, WebP; may be repeated): where the prompt has [IMG], or "
                 "before it; needs model.vision"},
#define SAMPLING_TARGET r->sampling
#include "app/options/sampling_rows.def"
        {.name = "ignore-eos",
         .kind = OPTIONS_FLAG,
         .target = &r->ignore_eos,
         .help = "go on after the end token"},
        {.name = "json-schema",
         .kind = OPTIONS_TEXT,
         .target = &r->schema,
         .value = "FILE",
         .help = "the answer is JSON that is valid by this JSON Schema"},
        {.name = "grammar",
         .kind = OPTIONS_TEXT,
         .target = &r->gbnf,
         .value = "FILE",
         .help = "the whole answer matches this grammar (GBNF, as llama.cpp has it)"},
        {.name = "regex",
         .kind = OPTIONS_TEXT,
         .target = &r->regex,
         .value = "R",
         .help = "the whole answer matches this regular expression (ECMA 262)"},
        OPTIONS_EXPECT_PLAN(&r->expect_plan),
        OPTIONS_REPORT(&r->report),
        {.name = "trace",
         .kind = OPTIONS_TEXT,
         .target = &r->trace,
         .value = "FILE",
         .help = "write what each device did when, for Chrome's trace viewer (JSON)"},
        OPTIONS_JSON(&r->json),
        OPTIONS_SET(&r->set),
    };
    struct options o = {.command = "run",
                        .usage = "CONFIG [-p TEXT | -f FILE | --tokens IDS] [-n N]",
                        .summary = "Generates text from a prompt and streams it to standard output; the "
                                   "report goes to standard error. CONFIG "
                                   "is a config file or a .gguf file. Ctrl-C stops and prints the report.",
                        .rows = rows,
                        .n_rows = sizeof rows / sizeof rows[0]};
    return options_parse_one(&o, argc, argv, &r->config, code);
}

/* "-" is standard output everywhere else. */
static stator_status check_trace(const char *path, stator_error *e) {
    if (path != NULL && strcmp(path, "-") == 0)
        return error_set(
            e, STATOR_USAGE,
            "--trace - would mix with the text on standard output; give it a file, or ./- for one "
            "that is called so");
    return STATOR_OK;
}

int run_command(int argc, char **argv) {
    struct run r = {.config = NULL};
    int code = 0;
    if (!parse(&r, argc, argv, &code))
        return code;
    stator_error e;
    stator_status st = check_trace(r.trace, &e);
    if (st == STATOR_OK)
        st = read_prompt(&r, &e);
    if (st == STATOR_OK)
        st = image_files_read(&r.images, &r.pictures, &e);
    if (st == STATOR_OK)
        warn_of_binary(&r);
    if (st == STATOR_OK)
        st = run_engine(&r, &e);
    session_close(r.engine);
    image_files_free(&r.pictures);
    free(r.text);
    free(r.ids);
    free(r.out);
    free(r.out_ids);
    free(r.piece);
    return out_end("run", st, &e);
}
