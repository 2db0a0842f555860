/* stator embed: embeddings of texts, or the scores of a model with a classifier. */
#include "app/commands.h"
#include "app/options/options.h"
#include "app/out.h"
#include "app/session.h"

#include "base/arith.h"
#include "base/error.h"
#include "base/json_writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_TEXTS ((size_t)1 << 20)

/* A text, or ids that the caller gave; its vector when it is done. */
struct item {
    const char *name; /* for errors */
    const char *text;
    size_t length;
    uint64_t request; /* 0: not submitted */
    uint32_t n_tokens;
    bool done;
};

struct job {
    const char *config, *text, *ids_text, *report;
    struct options_list set, files;
    uint64_t dimensions;
    bool lines, as_json;
    char *read[OPTIONS_MAX_LIST]; /* the files' texts */
    struct item *items;
    size_t n, capacity;
    int32_t *ids;   /* of --tokens, or room for those of a text */
    size_t n_ids;   /* of --tokens */
    float *vectors; /* [n][width] */
    uint32_t width; /* values of a vector */
    stator_info info;
};

static stator_status add_item(struct job *job, const char *name, const char *text, size_t length,
                              stator_error *e) {
    if (job->n == MOST_TEXTS)
        return error_set(e, STATOR_USAGE, "%s: more than %zu texts: give fewer at a time", name, MOST_TEXTS);
    if (job->n == job->capacity) {
        const size_t capacity = job->capacity > 0 ? 2 * job->capacity : 64;
        struct item *more = realloc(job->items, capacity * sizeof *more);
        if (more == NULL)
            return error_set(e, STATOR_DOES_NOT_FIT, "no memory for %zu texts", capacity);
        job->items = more;
        job->capacity = capacity;
    }
    job->items[job->n++] = (struct item){.name = name, .text = text, .length = length};
    return STATOR_OK;
}

/* The whole text, or each line of it that is not empty. */
static stator_status add_text(struct job *job, const char *name, const char *text, size_t n,
                              stator_error *e) {
    if (!job->lines)
        return add_item(job, name, text, n, e);
    stator_status st = STATOR_OK;
    for (size_t at = 0; at < n && st == STATOR_OK;) {
        const char *end = memchr(text + at, '\n', n - at);
        const size_t next = end != NULL ? (size_t)(end - text) : n;
        size_t length = next - at;
        if (length > 0 && text[at + length - 1] == '\r')
            length--;
        if (length > 0)
            st = add_item(job, name, text + at, length, e);
        at = next + 1;
    }
    return st;
}

static stator_status read_texts(struct job *job, stator_error *e) {
    static const char *const standard[] = {"-"};
    stator_status st = STATOR_OK;
    if ((job->text != NULL) + (job->files.n > 0) + (job->ids_text != NULL) > 1)
        return error_set(e, STATOR_USAGE, "TEXT, --file and --tokens exclude each other");
    if (job->ids_text != NULL)
        st = session_parse_ids(job->ids_text, "--tokens", &job->ids, &job->n_ids, e);
    if (st == STATOR_OK && job->ids_text != NULL)
        st = add_item(job, "--tokens", NULL, 0, e);
    if (st == STATOR_OK && job->text != NULL)
        st = add_text(job, "TEXT", job->text, strlen(job->text), e);
    const bool reads = job->ids_text == NULL && job->text == NULL;
    const char *const *paths = job->files.n > 0 ? job->files.items : standard;
    const size_t n_paths = job->files.n > 0 ? job->files.n : 1;
    uint64_t left = SESSION_TEXT_LIMIT; /* for all of them */
    for (size_t i = 0; reads && i < n_paths && st == STATOR_OK; i++) {
        size_t n = 0;
        st = session_read_file(paths[i], left, &job->read[i], &n, e);
        if (st == STATOR_OK)
            st = add_text(job, strcmp(paths[i], "-") == 0 ? "stdin" : paths[i], job->read[i], n, e);
        left -= st == STATOR_OK ? n : 0;
    }
    if (st == STATOR_OK && job->n == 0)
        st = error_set(e, STATOR_USAGE, "there is no text: give TEXT, --file or standard input");
    return st;
}

/* Room for what the run needs, before the engine is sealed. */
static stator_status make_room(struct job *job, const stator *s, stator_error *e) {
    stator_status st = stator_get_info(s, &job->info, e);
    if (st != STATOR_OK)
        return st;
    if (strcmp(job->info.pooling, "none") == 0)
        return error_set(
            e, STATOR_USAGE,
            "model '%s' generates text (its file has no pooling_type): --set model.pooling=last or "
            "mean makes embeddings of it",
            job->info.model_name);
    job->width = job->dimensions > 0 ? (uint32_t)job->dimensions : job->info.vector;
    job->vectors = calloc(job->n, job->width * sizeof *job->vectors);
    if (job->ids == NULL)
        job->ids = calloc(job->info.context, sizeof *job->ids);
    if (job->vectors == NULL || job->ids == NULL)
        return error_set(e, STATOR_DOES_NOT_FIT, "no memory for %zu vectors of %u values: give fewer texts",
                         job->n, job->width);
    return STATOR_OK;
}

/* Its ids, in job->ids. */
static stator_status ids_of(struct job *job, stator *s, struct item *item, stator_error *e) {
    size_t n = job->n_ids;
    stator_status st = STATOR_OK;
    if (item->text != NULL)
        st = stator_tokenize(s, item->text, item->length, 1, 1, job->ids, job->info.context, &n, e);
    if (st != STATOR_OK && n > job->info.context)
        st = error_set(e, STATOR_USAGE,
                       "the text has %zu tokens, memory.context is %u: raise it, or shorten the "
                       "text",
                       n, job->info.context);
    item->n_tokens = (uint32_t)n;
    return st;
}

static stator_status check_all(struct job *job, stator *s, stator_error *e) {
    stator_status st = STATOR_OK;
    for (size_t i = 0; i < job->n && st == STATOR_OK; i++) {
        struct item *item = &job->items[i];
        st = ids_of(job, s, item, e);
        const stator_request q = {.size = sizeof q,
                                  .kind = STATOR_EMBED,
                                  .tokens = job->ids,
                                  .n_tokens = item->n_tokens,
                                  .dimensions = (uint32_t)job->dimensions};
        if (st == STATOR_OK)
            st = stator_check(s, &q, e);
        if (st != STATOR_OK)
            error_prefix(e, "%s", item->name);
    }
    return st;
}

/* Submits from *next on as many as the queue takes. */
static stator_status submit(struct job *job, stator *s, size_t *next, stator_error *e) {
    for (; *next < job->n; ++*next) {
        struct item *item = &job->items[*next];
        stator_status st = ids_of(job, s, item, e);
        const stator_request q = {.size = sizeof q,
                                  .kind = STATOR_EMBED,
                                  .tokens = job->ids,
                                  .n_tokens = item->n_tokens,
                                  .dimensions = (uint32_t)job->dimensions};
        if (st == STATOR_OK)
            st = stator_submit(s, &q, &item->request, e);
        if (st != STATOR_OK)
            return st == STATOR_BUSY ? STATOR_OK : st;
    }
    return STATOR_OK;
}

/* Requests are answered nearly in their order: the search from the first one in flight is short. */
static size_t find(const struct job *job, size_t first, uint64_t request) {
    while (first < job->n && job->items[first].request != request)
        first++;
    return first;
}

static stator_status embed_all(struct job *job, stator *s, stator_error *e) {
    size_t next = 0, first = 0;
    stator_status st = STATOR_OK;
    while (first < job->n && st == STATOR_OK) {
        st = submit(job, s, &next, e);
        if (session_signal())
            return error_set(e, STATOR_FAILED, "stopped by a signal");
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        if (st == STATOR_OK)
            st = stator_poll(s, UINT64_MAX, &ev, &have, e);
        const size_t i = st == STATOR_OK && have ? find(job, first, ev.request) : job->n;
        if (i == job->n)
            continue;
        if (ev.kind == STATOR_EVENT_VECTOR)
            memcpy(job->vectors + i * job->width, ev.logits, job->width * sizeof *job->vectors);
        else if (ev.reason == STATOR_REASON_FAILED)
            st = error_set(e, ev.status, "%s: %s", job->items[i].name, ev.text);
        else if (ev.reason == STATOR_REASON_CANCELLED)
            st = error_set(e, STATOR_FAILED, "stopped by a signal");
        else
            job->items[i].done = true;
        while (first < job->n && job->items[first].done)
            first++;
    }
    return st;
}

static void print_json(const struct job *job) {
    struct json j;
    uint64_t tokens = 0;
    json_to_file(&j, stdout, false);
    json_open_object(&j, NULL);
    json_put_string(&j, "model", job->info.model_name);
    json_put_string(&j, "pooling", job->info.pooling);
    json_put_u64(&j, "dimensions", job->width);
    json_open_array(&j, "embeddings");
    for (size_t i = 0; i < job->n; i++) {
        json_open_object(&j, NULL);
        json_put_u64(&j, "tokens", job->items[i].n_tokens);
        json_open_array(&j, "embedding");
        for (uint32_t k = 0; k < job->width; k++)
            json_put_float(&j, NULL, job->vectors[i * job->width + k]);
        json_close(&j);
        json_close(&j);
        tokens += job->items[i].n_tokens;
    }
    json_close(&j);
    json_put_u64(&j, "tokens", tokens);
    json_close(&j);
    json_end(&j); /* out_finish looks whether all was written */
}

static void print_lines(const struct job *job) {
    for (size_t i = 0; i < job->n; i++)
        for (uint32_t k = 0; k < job->width; k++)
            printf("%.9g%c", (double)job->vectors[i * job->width + k], k + 1 < job->width ? ' ' : '\n');
}

static stator_status run(struct job *job, stator_error *e) {
    stator *s = NULL;
    stator_status st = session_open(job->config, &job->set, NULL, NULL, &s, e);
    if (st != STATOR_OK)
        return st;
    session_catch_signals(s);
    job->info.size = sizeof job->info;
    st = stator_prepare(s, e);
    if (st == STATOR_OK)
        st = make_room(job, s, e);
    if (st == STATOR_OK)
        st = check_all(job, s, e); /* before the weights are loaded */
    if (st == STATOR_OK)
        st = stator_start(s, e);
    if (st == STATOR_OK)
        st = session_finish(s, NULL, job->report, embed_all(job, s, e), e);
    session_close(s);
    if (st == STATOR_OK && job->as_json)
        print_json(job);
    else if (st == STATOR_OK)
        print_lines(job);
    return st;
}

int embed_command(int argc, char **argv) {
    struct job job = {.n = 0};
    const struct options_row rows[] = {
        {.name = "file",
         .letter = 'f',
         .kind = OPTIONS_LIST,
         .target = &job.files,
         .value = "FILE",
         .help = "read a text from a file, \"-\" is stdin (may be repeated: one embedding for each)"},
        {.name = "lines",
         .kind = OPTIONS_FLAG,
         .target = &job.lines,
         .help = "each line is a text of its own"},
        {.name = "tokens",
         .kind = OPTIONS_TEXT,
         .target = &job.ids_text,
         .value = "IDS",
         .help = "token ids in place of a text: \"1 2 3\""},
        {.name = "dimensions",
         .kind = OPTIONS_U64,
         .target = &job.dimensions,
         .min = 1,
         .max = 1 << 20,
         .value = "N",
         .help = "only the first N values, scaled to length 1 again"},
        OPTIONS_JSON(&job.as_json),
        OPTIONS_REPORT(&job.report),
        OPTIONS_SET(&job.set),
    };
    struct options o = {.command = "embed",
                        .usage = "CONFIG [TEXT | --file FILE.. | --tokens IDS]",
                        .summary =
                            "Prints the embedding of each text: a line of numbers, or JSON. The model's "
                            "file says how it is made (key pooling_type), or model.pooling does. "
                            "memory.sequences texts are computed at a time. Without a text it reads "
                            "standard input.",
                        .rows = rows,
                        .n_rows = sizeof rows / sizeof rows[0],
                        .min_arguments = 1,
                        .max_arguments = 2};
    int code = 0;
    stator_error e = {0};
    if (!options_parse(&o, argc, argv, &code))
        return code;
    job.config = o.arguments[0];
    job.text = o.n_arguments > 1 ? o.arguments[1] : NULL;
    stator_status st = read_texts(&job, &e);
    if (st == STATOR_OK)
        st = run(&job, &e);
    for (size_t i = 0; i < OPTIONS_MAX_LIST; i++)
        free(job.read[i]);
    free(job.items);
    free(job.ids);
    free(job.vectors);
    return out_end("embed", st, &e);
}
