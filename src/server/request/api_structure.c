#include "server/request/api_structure.h"

#include "base/error.h"
#include "chat/chat_json.h"
#include "server/http/edge_pool.h"
#include "server/request/api_request.h"

#include <stdio.h>
#include <string.h>

/* gpt-oss's answer begins behind this. */
#define CHANNEL_FINAL "<|channel|>final<|message|>"

#define PLACE 96 /* bytes of the name of a member */

const char *api_structure_mark(const struct api_marks *marks, const char *p) {
    for (size_t i = 0; i < marks->n; i++)
        if (strncmp(p, marks->at[i], strlen(marks->at[i])) == 0)
            return marks->at[i];
    return NULL;
}

/* The text is one token, and an answer's text has nothing of it. */
static bool is_control(const stator *engine, const char *text) {
    stator_decoder decoder = {.size = sizeof decoder, .started = 1};
    int32_t id = 0;
    size_t n = 0;
    char none[1];
    return stator_tokenize(engine, text, strlen(text), 0, 1, &id, 1, &n, NULL) == STATOR_OK && n == 1 &&
           stator_decode(engine, &decoder, id, 0, none, 0, &n, NULL) == STATOR_OK && n == 0;
}

void api_structure_open(struct api_structure_start *s, struct api_marks *marks, const stator *engine,
                        const struct chat_form *form) {
    const char *all[CHAT_FORM_MARKS];
    const size_t n_all = chat_form_marks(form, all);
    marks->n = 0;
    for (size_t i = 0; i < n_all; i++)
        if (is_control(engine, all[i]))
            marks->at[marks->n++] = all[i];
    const bool channels = form->tags.syntax == CHAT_CHANNELS;
    const char *text = channels ? CHANNEL_FINAL : form->think_close;
    size_t n = 0;
    *s = (struct api_structure_start){.always = channels};
    if (text[0] != '\0' && stator_tokenize(engine, text, strlen(text), 0, 1, s->after, STATOR_GRAMMAR_AFTER,
                                           &n, NULL) == STATOR_OK)
        s->n = (uint32_t)n;
    /* Where it is several tokens, models do not reason in constrained answers unless the prompt has begun it.
     */
    const char *open = channels ? "" : form->think_open;
    s->opens = s->n > 0 && open[0] != '\0' &&
               stator_tokenize(engine, open, strlen(open), 0, 1, &s->open, 1, &n, NULL) == STATOR_OK &&
               n == 1;
}

static bool wrong(struct api_reader *r, const char *field, const json_t *v, const char *expected) {
    return api_failure_set(r->why, 400, field, "%s is %s: %s is expected", field,
                           v != NULL ? api_request_kind(v) : "missing", expected);
}

static bool says(const json_t *text, const char *what) {
    return chat_json_is_text(text) && strcmp(json_string_value(text), what) == 0;
}

static void put(void *context, const char *p, size_t n) {
    api_text_put(context, p, n);
}

/* false, "" and null ask for nothing. */
static bool asks(const json_t *v) {
    return v != NULL && !json_is_null(v) && !json_is_false(v) && !says(v, "");
}

typedef bool read_structure(struct api_reader *r, const char *place, const json_t *v);

/* A schema: an object, or its text. */
static bool read_schema(struct api_reader *r, const char *place, const json_t *v) {
    struct api_structure *s = &r->out->structure;
    s->kind = STATOR_GRAMMAR_JSON_SCHEMA;
    if (json_is_object(v) || json_is_true(v))
        chat_json_write(v, put, &s->text);
    else if (chat_json_is_text(v))
        api_text_put(&s->text, json_string_value(v), json_string_length(v));
    else
        return wrong(r, place, v, "a JSON Schema");
    return true;
}

/* Any object. */
static bool read_object(struct api_reader *r, const char *place, const json_t *v) {
    (void)place;
    (void)v;
    r->out->structure.kind = STATOR_GRAMMAR_JSON_SCHEMA;
    api_text_puts(&r->out->structure.text, "{\"type\": \"object\"}");
    return true;
}

/* A text in a language of its own; what: for messages. */
static bool read_text(struct api_reader *r, const char *place, const json_t *v, stator_grammar_kind kind,
                      const char *what) {
    struct api_structure *s = &r->out->structure;
    s->kind = kind;
    if (!chat_json_is_text(v))
        return wrong(r, place, v, what);
    api_text_put(&s->text, json_string_value(v), json_string_length(v));
    return true;
}

static bool read_regex(struct api_reader *r, const char *place, const json_t *v) {
    return read_text(r, place, v, STATOR_GRAMMAR_REGEX, "a regular expression");
}

/* llama.cpp's GBNF, which vLLM's and SGLang's EBNF is written as too. */
static bool read_grammar(struct api_reader *r, const char *place, const json_t *v) {
    return read_text(r, place, v, STATOR_GRAMMAR_GBNF, "a GBNF grammar");
}

/* One of several texts, as an expression. */
static bool read_choice(struct api_reader *r, const char *place, const json_t *v) {
    struct api_structure *s = &r->out->structure;
    s->kind = STATOR_GRAMMAR_REGEX;
    if (!json_is_array(v) || json_array_size(v) == 0)
        return wrong(r, place, v, "an array of one or more texts");
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *one = json_array_get(v, i);
        char at[PLACE];
        snprintf(at, sizeof at, "%.60s[%zu]", place, i);
        if (!chat_json_is_text(one))
            return wrong(r, at, one, "a text");
        api_text_puts(&s->text, i > 0 ? "|" : "");
        for (const char *p = json_string_value(one); *p != '\0'; p++) {
            if (strchr("^$\\.*+?()[]{}|/", *p) != NULL)
                api_text_puts(&s->text, "\\");
            api_text_put(&s->text, p, 1);
        }
    }
    return true;
}

/* The only member of the rows that asks for something, read; members of other names are noted or refused. */
struct row {
    const char *name;
    read_structure *read;
};

static bool read_member(struct api_reader *r, const char *place, const json_t *v, const struct row *rows,
                        size_t n) {
    const char *name, *other = NULL;
    json_t *value;
    json_object_foreach((json_t *)v, name, value) {
        char at[PLACE];
        size_t i = 0;
        while (i < n && strcmp(rows[i].name, name) != 0)
            i++;
        snprintf(at, sizeof at, "%.32s.%.48s", place, name);
        if (!asks(value))
            continue;
        if (i == n) {
            if (!api_request_unknown(r, at))
                return false;
            continue;
        }
        if (other != NULL)
            return api_failure_set(r->why, 400, place, "%s has \"%s\" and \"%s\": give one", place, other,
                                   rows[i].name);
        other = rows[i].name;
        if (rows[i].read == NULL)
            return api_failure_set(r->why, 400, place,
                                   "%s can't be honoured: give a JSON Schema or a grammar instead", at);
        if (!rows[i].read(r, at, value))
            return false;
    }
    return other != NULL || wrong(r, place, v, "an object that says what the answer must match");
}

/* vLLM's. */
static bool read_outputs(struct api_reader *r, const char *place, const json_t *v) {
    static const struct row rows[] = {{"json", read_schema},     {"regex", read_regex},
                                      {"choice", read_choice},   {"json_object", read_object},
                                      {"grammar", read_grammar}, {"structural_tag", NULL}};
    return json_is_object(v) ? read_member(r, place, v, rows, sizeof rows / sizeof rows[0])
                             : wrong(r, place, v, "an object");
}

/* OpenAI's {"type": "json_schema", "json_schema": {"name", "schema", ..}}; llama-server has the schema beside
 * the type, and with json_object too. */
static bool read_format(struct api_reader *r, const char *place, const json_t *v) {
    const json_t *type = json_object_get(v, "type"), *inner = json_object_get(v, "json_schema");
    const json_t *schema = json_object_get(asks(inner) ? inner : v, "schema");
    if (says(type, "json_object"))
        return asks(schema) ? read_schema(r, "response_format.schema", schema) : read_object(r, place, v);
    if (says(type, "json_schema"))
        return schema != NULL ? read_schema(r, "response_format.json_schema.schema", schema)
                              : wrong(r, "response_format.json_schema.schema", NULL, "a JSON Schema");
    return api_failure_set(
        r->why, 400, place,
        "response_format can't be honoured unless its type is \"text\", \"json_object\" or "
        "\"json_schema\"");
}

static const struct row fields[] = {
    {"response_format", read_format}, {"json_schema", read_schema}, {"structured_outputs", read_outputs},
    {"guided_json", read_schema},     {"guided_regex", read_regex}, {"guided_choice", read_choice},
    {"guided_grammar", read_grammar}, {"regex", read_regex},        {"grammar", read_grammar},
    {"ebnf", read_grammar},
};

/* What can't be constrained. */
static bool check(struct api_reader *r) {
    const struct api_request *q = r->out;
    const char *field = q->structure.field;
    if (q->goes_on == API_ON_CONTENT && strcmp(field, "tools") != 0)
        return api_failure_set(r->why, 400, field,
                               "%s can't be honoured where the answer goes on with the last message", field);
    if (q->structure.text.failed)
        return api_failure_set(r->why, 503, NULL, "the server's memory has no room for %s now", field);
    return true;
}

bool api_structure_read(struct api_reader *r, const json_t *body) {
    struct api_structure *s = &r->out->structure;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const json_t *v = json_object_get(body, fields[i].name);
        const bool free_text = fields[i].read == read_format && says(json_object_get(v, "type"), "text");
        if (!asks(v) || free_text)
            continue;
        if (s->field != NULL)
            return api_failure_set(r->why, 400, fields[i].name,
                                   "%s and %s both say what the answer must match: give one", s->field,
                                   fields[i].name);
        s->field = fields[i].name;
        if (!fields[i].read(r, fields[i].name, v))
            return false;
    }
    return (r->out->endpoint != API_CHAT || api_calls_read(r, body)) && (s->field == NULL || check(r));
}

struct compilation {
    stator *engine;
    stator_grammar_source source;
    stator_grammar *grammar; /* written before jansson may leave the call */
    stator_status status;
    stator_error error;
};

static void compile(void *context) {
    struct compilation *c = context;
    c->status = stator_grammar_compile(c->engine, &c->source, &c->grammar, &c->error);
}

bool api_structure_compile(stator *engine, bool json_spaces, const struct api_request *r,
                           stator_grammar **grammar, struct api_failure *why) {
    const struct api_structure *s = &r->structure;
    *grammar = NULL;
    if (s->field == NULL)
        return true;
    struct compilation c = {.engine = engine,
                            .source = {.size = sizeof c.source,
                                       .kind = s->kind,
                                       .text = s->text.n > 0 ? s->text.p : "",
                                       .length = s->text.n,
                                       .free_space = json_spaces}};
    if (!edge_pool_try_json(compile, &c)) {
        stator_grammar_release(engine, c.grammar);
        return api_failure_set(why, 503, NULL,
                               "the server's memory (server.memory) has no room to compile %s now", s->field);
    }
    if (c.status == STATOR_OK) {
        *grammar = c.grammar;
        return true;
    }
    if (c.status == STATOR_BUSY)
        return api_failure_set(why, 503, s->field, "%s", c.error.text);
    return api_failure_set(why, c.status == STATOR_USAGE || c.status == STATOR_DOES_NOT_FIT ? 400 : 500,
                           s->field, "%s can't be honoured: %s", s->field, c.error.text);
}

bool api_structure_set(const struct api_structure_start *s, const struct api_structure *r,
                       stator_grammar *grammar, bool thinks, stator_sampling *out, struct api_failure *why) {
    const bool behind = thinks || s->always;
    out->grammar = grammar;
    if (grammar == NULL || r->whole || !(behind || s->opens))
        return true;
    out->grammar_open = behind ? NULL : &s->open;
    out->grammar_after = s->after;
    out->n_grammar_after = s->n;
    return s->n > 0 || api_failure_set(why, 400, NULL,
                                       "an answer that begins with reasoning can't be constrained: which "
                                       "tokens end the reasoning is not known");
}
