/* stator template MODEL.gguf | FILE.jinja [-f INPUT.json]: a chat template on an input, exactly its text on
 * stdout. */
#include "app/commands.h"
#include "app/options/options.h"
#include "app/out.h"
#include "app/session.h"

#include "base/error.h"
#include "chat/chat_render.h"
#include "model/gguf.h"
#include "os/pages.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TEMPLATE_MAX (1u << 20)  /* bytes of a template */
#define INPUT_MAX    (16u << 20) /* bytes of an input */
#define MEMORY       (256u << 20)

struct text {
    char *data; /* to be freed */
    size_t n;
};

static bool is_gguf(const char *path) {
    char magic[4] = {0};
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        return false;
    bool is = fread(magic, 1, sizeof magic, f) == sizeof magic && memcmp(magic, "GGUF", sizeof magic) == 0;
    (void)fclose(f);
    return is;
}

/* The template's text, and what templates know of a model's vocabulary. */
struct source {
    struct gguf *gguf; /* NULL: a file of its own */
    struct text file;
    const char *text;
    size_t length;
    struct chat_render_default tokens[2];
    size_t n_tokens;
};

/* A model without the key, or without tokens, leaves the variable undefined. */
static stator_status add_token(struct source *s, const char *key, const char *name, stator_error *e) {
    struct gguf_text token;
    stator_status st = gguf_read_token_text(s->gguf, key, &token, e);
    if (st == STATOR_OK && token.length > 0)
        s->tokens[s->n_tokens++] = (struct chat_render_default){name, token.data, token.length};
    return st;
}

static stator_status read_model(const char *path, struct source *s, stator_error *e) {
    struct gguf_text found;
    struct gguf_value v;
    stator_status st = gguf_open(path, &s->gguf, e);
    if (st != STATOR_OK)
        return st;
    if (!gguf_find(s->gguf, "tokenizer.chat_template", &v))
        return error_set(e, STATOR_USAGE, "%s has no chat template (key tokenizer.chat_template)", path);
    st = gguf_read_text(s->gguf, "tokenizer.chat_template", &found, e);
    if (st == STATOR_OK && found.length > TEMPLATE_MAX)
        st = error_set(e, STATOR_USAGE, "%s: the chat template has %" PRIu64 " bytes, at most %u are read",
                       path, found.length, TEMPLATE_MAX);
    if (st == STATOR_OK)
        st = add_token(s, "tokenizer.ggml.bos_token_id", "bos_token", e);
    if (st == STATOR_OK)
        st = add_token(s, "tokenizer.ggml.eos_token_id", "eos_token", e);
    if (st == STATOR_OK) {
        s->text = found.data;
        s->length = found.length;
    }
    return st;
}

static stator_status read_source(const char *path, struct source *s, stator_error *e) {
    if (is_gguf(path))
        return read_model(path, s, e);
    stator_status st = session_read_file(path, TEMPLATE_MAX, &s->file.data, &s->file.n, e);
    s->text = s->file.data;
    s->length = s->file.n;
    return st;
}

static stator_status render(const struct source *s, const char *name, const struct text *input,
                            stator_error *e) {
    time_t seconds = time(NULL);
    struct tm now;
    void *memory = NULL;
    const char *text = NULL;
    size_t n = 0;
    const struct chat_render_input in = {.source = s->text,
                                         .length = s->length,
                                         .json = input->data,
                                         .json_length = input->n,
                                         .json_name = name,
                                         .defaults = s->tokens,
                                         .n_defaults = s->n_tokens,
                                         .now = localtime_r(&seconds, &now)};
    stator_status st = pages_map(MEMORY, "the template's values", &memory, e);
    if (st == STATOR_OK)
        st = chat_render(&in, memory, MEMORY, &text, &n, e);
    if (st == STATOR_OK)
        (void)fwrite(text, 1, n, stdout); /* out_finish looks */
    pages_unmap(memory, MEMORY);
    return st;
}

int template_command(int argc, char **argv) {
    const char *input = "-";
    const struct options_row rows[] = {{.name = "file",
                                        .letter = 'f',
                                        .kind = OPTIONS_TEXT,
                                        .target = &input,
                                        .value = "INPUT.json",
                                        .help =
                                            "the variables (standard input by default): {\"messages\": [..], "
                                            "\"add_generation_prompt\": true, \"tools\": [..], ..}"}};
    struct options o = {
        .command = "template",
        .usage = "MODEL.gguf | FILE.jinja",
        .summary = "Renders a chat template, a model's own or a file's, and prints exactly its text.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof rows[0]};
    int code = 0;
    const char *argument = NULL;
    if (!options_parse_one(&o, argc, argv, &argument, &code))
        return code;
    stator_error e = {0};
    struct text variables = {0};
    struct source source = {0};
    stator_status st = session_read_file(input, INPUT_MAX, &variables.data, &variables.n, &e);
    if (st == STATOR_OK)
        st = read_source(argument, &source, &e);
    if (st == STATOR_OK)
        st = render(&source, strcmp(input, "-") == 0 ? "standard input" : input, &variables, &e);
    gguf_close(source.gguf);
    free(variables.data);
    free(source.file.data);
    return out_end("template", st, &e);
}
