/* stator tokenize MODEL [TEXT | -f FILE]... [--decode] [--no-special] [--json]: text to ids, one line per
 * text, or ids to text. Only the vocabulary is read, so any GGUF with a known tokenizer will do. One thread;
 * memory grows with the texts (this command plans nothing). */
#include "app/commands.h"
#include "app/options/options.h"
#include "app/out.h"
#include "app/session.h"

#include "base/arith.h"
#include "base/json_writer.h"
#include "os/pages.h"
#include "tokenizer/tokenizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct input {
    const char *name; /* for errors */
    char *data;
    size_t n;
};

struct job {
    struct input inputs[OPTIONS_MAX_LIST];
    size_t n;
    bool decode, no_special, as_json;
};

/* Encoding's memory, for the longest of the inputs. */
struct room {
    void *work;
    int32_t *ids;
    uint64_t work_bytes, capacity;
};

static stator_status make_room(const struct tokenizer *t, const struct job *job, struct room *r,
                               stator_error *e) {
    uint64_t longest = 0;
    for (size_t i = 0; i < job->n; i++)
        longest = ARITH_MAX(longest, job->inputs[i].n);
    if (longest > UINT32_MAX)
        return error_set(e, STATOR_USAGE, "a text of %" PRIu64 " bytes is too long to be tokenized at once",
                         longest);
    r->work_bytes = tokenizer_work_bytes(t, longest);
    r->capacity = 3 * (longest + 1) + 2; /* a byte becomes three tokens at most, and BOS and EOS */
    stator_status s = pages_map(r->work_bytes, "tokenizing", &r->work, e);
    void *ids = NULL;
    if (s == STATOR_OK)
        s = pages_map(r->capacity * sizeof *r->ids, "token ids", &ids, e);
    r->ids = ids;
    return s;
}

static void print_json(const struct tokenizer *t, struct json *j, const int32_t *ids, uint64_t n) {
    json_open_object(j, NULL);
    json_put_u64(j, "n", n);
    json_open_array(j, "ids");
    for (uint64_t i = 0; i < n; i++)
        json_put_i64(j, NULL, ids[i]);
    json_close(j);
    json_open_array(j, "pieces");
    char piece[512];
    for (uint64_t i = 0; i < n; i++) {
        uint64_t bytes = tokenizer_piece(t, ids[i], true, piece, sizeof piece);
        json_put_string_n(j, NULL, piece, ARITH_MIN(bytes, sizeof piece));
    }
    json_close(j);
    json_close(j);
}

static stator_status encode_inputs(const struct tokenizer *t, const struct job *job, stator_error *e) {
    struct room r = {0};
    struct json j;
    stator_status s = make_room(t, job, &r, e);
    if (job->as_json)
        json_to_file(&j, stdout, false);
    if (job->as_json && job->n > 1)
        json_open_array(&j, NULL);
    for (size_t i = 0; s == STATOR_OK && i < job->n; i++) {
        const struct input *in = &job->inputs[i];
        uint64_t n = 0;
        uint32_t flags = job->no_special ? 0 : TOKENIZER_ADD_SPECIAL | TOKENIZER_PARSE_SPECIAL;
        s = tokenizer_encode(t, in->data, in->n, flags, r.work, r.work_bytes, r.ids, r.capacity, &n, e);
        uint64_t unknown = s == STATOR_OK ? tokenizer_count_unknown(t, r.ids, n) : 0;
        if (unknown > 0)
            fprintf(stderr,
                    "stator tokenize: warning: %s: the unknown token stands %" PRIu64
                    " times in it: the vocabulary has nothing for what is there\n",
                    in->name, unknown);
        if (s != STATOR_OK) {
            error_prefix(e, "%s", in->name);
        } else if (job->as_json) {
            print_json(t, &j, r.ids, n);
        } else {
            for (uint64_t k = 0; k < n; k++)
                printf("%s%" PRId32, k > 0 ? " " : "", r.ids[k]);
            putchar('\n');
        }
    }
    if (job->as_json && job->n > 1 && s == STATOR_OK)
        json_close(&j);
    if (job->as_json && s == STATOR_OK)
        json_end(&j); /* out_finish looks whether all was written */
    pages_unmap(r.work, r.work_bytes);
    pages_unmap(r.ids, r.capacity * sizeof *r.ids);
    return s;
}

/* The next id of "1 2, 3", or *have = false at the end. */
static stator_status next_id(const struct tokenizer *t, const struct input *in, size_t *at, bool *have,
                             int32_t *id, stator_error *e) {
    while (*at < in->n && strchr(" \t\r\n,", in->data[*at]) != NULL && in->data[*at] != '\0')
        ++*at;
    *have = *at < in->n;
    if (!*have)
        return STATOR_OK;
    size_t begin = *at;
    uint64_t v = 0;
    while (*at < in->n && in->data[*at] >= '0' && in->data[*at] <= '9' && v <= INT32_MAX)
        v = v * 10 + (uint64_t)(in->data[(*at)++] - '0');
    bool ends = *at == in->n || (in->data[*at] != '\0' && strchr(" \t\r\n,", in->data[*at]) != NULL);
    if (*at == begin || !ends || v >= tokenizer_vocab(t)) {
        size_t end = begin;
        while (end < in->n && end - begin < 24 && (unsigned char)in->data[end] > ' ' && in->data[end] != ',')
            end++;
        return error_set(e, STATOR_USAGE,
                         "%s: \"%.*s\" at byte %zu is not a token id, expected numbers from 0 to %" PRIu32,
                         in->name, (int)(end - begin), in->data + begin, begin, tokenizer_vocab(t) - 1);
    }
    *id = (int32_t)v;
    return STATOR_OK;
}

/* The text of ids, without the BOS that encoding adds by itself. Written to f as it comes. */
static stator_status decode_ids(const struct tokenizer *t, const struct job *job, const struct input *in,
                                char *chunk, FILE *f, stator_error *e) {
    size_t at = 0;
    bool have = true;
    int32_t id;
    stator_status s = STATOR_OK;
    while (s == STATOR_OK && have) /* all of them, before anything is printed */
        s = next_id(t, in, &at, &have, &id, e);
    if (s != STATOR_OK)
        return s;
    struct tokenizer_stream stream = {0};
    at = 0;
    have = true;
    for (bool first = true; have; first = false) {
        id = -1; /* in the end: flush */
        s = next_id(t, in, &at, &have, &id, e);
        CHECK(s == STATOR_OK);
        if (first && have && tokenizer_adds_bos(t) && id == tokenizer_bos(t))
            continue;
        fwrite(chunk, 1, tokenizer_stream_next(t, &stream, id, !job->no_special, chunk), f);
    }
    return STATOR_OK;
}

static stator_status decode_input(const struct tokenizer *t, const struct job *job, stator_error *e) {
    char *chunk = malloc(3 * (tokenizer_longest_piece(t) + 4)), *text = NULL;
    size_t n = 0;
    FILE *f = job->as_json ? open_memstream(&text, &n) : stdout;
    stator_status s = STATOR_OK;
    if (chunk == NULL || f == NULL)
        s = error_set(e, STATOR_DOES_NOT_FIT, "no memory");
    if (s == STATOR_OK)
        s = decode_ids(t, job, &job->inputs[0], chunk, f, e);
    if (f != NULL && f != stdout && fclose(f) != 0 && s == STATOR_OK)
        s = error_set(e, STATOR_DOES_NOT_FIT, "no memory for the text");
    if (s == STATOR_OK && job->as_json) {
        struct json j;
        json_to_file(&j, stdout, false);
        json_open_object(&j, NULL);
        json_put_string_n(&j, "text", text, n);
        json_close(&j);
        json_end(&j);
    } else if (s == STATOR_OK && isatty(STDOUT_FILENO)) {
        putchar('\n'); /* into a file or pipe goes the text alone */
    }
    free(chunk);
    free(text);
    return s;
}

static stator_status with_model(const char *path, const struct job *job, stator_error *e) {
    struct gguf *g = NULL;
    void *memory = NULL;
    uint64_t bytes = 0;
    struct tokenizer *t = NULL;
    stator_status s = gguf_open(path, &g, e);
    if (s == STATOR_OK)
        s = tokenizer_measure(g, &bytes, e);
    if (s == STATOR_OK)
        s = pages_map(bytes, "the tokenizer", &memory, e);
    if (s == STATOR_OK)
        s = tokenizer_create(g, memory, bytes, &t, e);
    if (s == STATOR_OK)
        s = job->decode ? decode_input(t, job, e) : encode_inputs(t, job, e);
    pages_unmap(memory, bytes);
    gguf_close(g);
    return s;
}

/* TEXT, the files of -f, or stdin. */
static stator_status read_inputs(const struct options *o, const struct options_list *files, struct job *job,
                                 stator_error *e) {
    if (o->n_arguments > 1 && files->n > 0)
        return error_set(e, STATOR_USAGE, "TEXT and -f FILE exclude each other");
    if (job->decode && files->n > 1)
        return error_set(e, STATOR_USAGE, "--decode takes one -f FILE");
    if (o->n_arguments > 1) {
        job->n = 1;
        job->inputs[0] = (struct input){"TEXT", strdup(o->arguments[1]), strlen(o->arguments[1])};
        return job->inputs[0].data != NULL ? STATOR_OK : error_set(e, STATOR_DOES_NOT_FIT, "no memory");
    }
    job->n = files->n > 0 ? files->n : 1;
    uint64_t left = SESSION_TEXT_LIMIT; /* for all of them */
    for (size_t i = 0; i < job->n; i++) {
        const char *path = files->n > 0 ? files->items[i] : "-";
        struct input *in = &job->inputs[i];
        in->name = strcmp(path, "-") == 0 ? "stdin" : path;
        stator_status s = session_read_file(path, left, &in->data, &in->n, e);
        if (s != STATOR_OK)
            return s;
        left -= in->n;
    }
    return STATOR_OK;
}

int tokenize_command(int argc, char **argv) {
    struct job job = {.n = 0};
    struct options_list files = {.n = 0};
    const struct options_row rows[] = {
        {.name = "file",
         .letter = 'f',
         .kind = OPTIONS_LIST,
         .target = &files,
         .value = "FILE",
         .help = "read the text from a file, \"-\" is stdin (may be repeated: a line of ids for each)"},
        {.name = "decode", .kind = OPTIONS_FLAG, .target = &job.decode, .help = "the reverse: ids to text"},
        {.name = "no-special",
         .kind = OPTIONS_FLAG,
         .target = &job.no_special,
         .help = "add no BOS or EOS and treat control tokens in the text as plain text; with --decode, leave "
                 "them out"},
        OPTIONS_JSON(&job.as_json)};
    struct options o = {.command = "tokenize",
                        .usage = "MODEL [TEXT]",
                        .summary = "Prints the ids of a text (TEXT, a file, or stdin) by the tokenizer of a "
                                   "GGUF file, or the text of ids.",
                        .rows = rows,
                        .n_rows = sizeof rows / sizeof rows[0],
                        .min_arguments = 1,
                        .max_arguments = 2};
    int code = 0;
    if (!options_parse(&o, argc, argv, &code))
        return code;
    stator_error e = {0};
    stator_status s = read_inputs(&o, &files, &job, &e);
    if (s == STATOR_OK)
        s = with_model(o.arguments[0], &job, &e);
    for (size_t i = 0; i < job.n; i++)
        free(job.inputs[i].data);
    return out_end("tokenize", s, &e);
}
