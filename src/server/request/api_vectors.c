#include "server/request/api_vectors.h"

#include "base/arith.h"
#include "chat/chat_json.h"

#include <string.h>

#define MOST_DIMENSIONS (1u << 20)

struct reader {
    const struct api_model *model;
    struct api_vectors_request *out;
    struct api_failure *why;
    bool (*names)(const struct api_model *m, const char *name);
    const json_t *body;
};

struct field {
    const char *name;
    unsigned kinds;                                                   /* bits 1 << kind */
    bool (*read)(struct reader *r, const struct field *f, json_t *v); /* NULL: it can't change the answer */
};

static bool wrong(struct reader *r, const struct field *f, const json_t *v, const char *expected) {
    return api_failure_set(r->why, 400, f->name, "%s is %s: %s is expected", f->name, api_request_kind(v),
                           expected);
}

static bool read_model(struct reader *r, const struct field *f, json_t *v) {
    if (!chat_json_is_text(v))
        return wrong(r, f, v, "a text");
    if (!r->model->strict_model || r->names(r->model, json_string_value(v)))
        return true;
    return api_failure_set(r->why, 404, f->name, API_NO_MODEL, json_string_value(v), r->model->name);
}

static bool read_count(struct reader *r, const struct field *f, json_t *v, uint32_t *out) {
    const json_int_t i = json_integer_value(v);
    if (!json_is_integer(v) || i < 1 || i > MOST_DIMENSIONS)
        return api_failure_set(r->why, 400, f->name, "%s: a whole number from 1 to %u is expected", f->name,
                               MOST_DIMENSIONS);
    *out = (uint32_t)i;
    return true;
}

static bool read_flag(struct reader *r, const struct field *f, json_t *v, bool *out) {
    if (!json_is_boolean(v))
        return wrong(r, f, v, "true or false");
    *out = json_is_true(v);
    return true;
}

static bool read_dimensions(struct reader *r, const struct field *f, json_t *v) {
    return read_count(r, f, v, &r->out->dimensions);
}

static bool read_top_n(struct reader *r, const struct field *f, json_t *v) {
    return read_count(r, f, v, &r->out->top_n);
}

static bool read_truncates(struct reader *r, const struct field *f, json_t *v) {
    return read_flag(r, f, v, &r->out->truncates);
}

static bool read_returns_texts(struct reader *r, const struct field *f, json_t *v) {
    return read_flag(r, f, v, &r->out->returns_texts);
}

static bool read_format(struct reader *r, const struct field *f, json_t *v) {
    const char *text = json_string_value(v);
    r->out->base64 = text != NULL && strcmp(text, "base64") == 0;
    return r->out->base64 || (text != NULL && strcmp(text, "float") == 0) ||
           api_failure_set(r->why, 400, f->name, "%s: \"float\" or \"base64\" is expected", f->name);
}

static bool read_query(struct reader *r, const struct field *f, json_t *v) {
    r->out->query = v;
    return chat_json_is_text(v) || wrong(r, f, v, "a text");
}

static bool is_ids(const json_t *v) {
    bool ids = json_array_size(v) > 0;
    for (size_t i = 0; i < json_array_size(v) && ids; i++)
        ids = json_is_integer(json_array_get(v, i));
    return json_is_array(v) && ids;
}

/* The text of a document. */
static const json_t *text_of(const json_t *v) {
    return json_is_object(v) ? json_object_get(v, "text") : v;
}

/* One of the fields that have the texts; another one was not there. */
static bool read_items(struct reader *r, const struct field *f, json_t *v) {
    struct api_vectors_request *out = r->out;
    const bool scores = out->kind == API_SCORES, tokens = out->kind == API_EMBEDDINGS;
    if (out->items != NULL)
        return api_failure_set(r->why, 400, f->name, "%s and %s are both there: one of them is expected",
                               out->items_name, f->name);
    out->items_name = f->name;
    out->items = v;
    out->plain = scores && strcmp(f->name, "texts") == 0;
    const bool single = out->kind == API_OLLAMA_PROMPT;
    const bool one = !scores && (chat_json_is_text(v) || (tokens && is_ids(v)));
    if (!one && (single || !json_is_array(v)))
        return wrong(r, f, v,
                     scores   ? "an array of texts"
                     : single ? "a text"
                              : "a text, or an array of texts");
    const size_t n = one ? 1 : json_array_size(v);
    if (n == 0 || n > API_INPUTS)
        return api_failure_set(r->why, 400, f->name, "%s has %zu texts: 1 to %d are expected", f->name, n,
                               API_INPUTS);
    out->n = (uint32_t)n;
    for (size_t i = 0; i < n && !one; i++) {
        const json_t *item = json_array_get(v, i);
        if (!chat_json_is_text(scores ? text_of(item) : item) && !(tokens && is_ids(item)))
            return api_failure_set(r->why, 400, f->name, "%s[%zu] is %s: %s is expected", f->name, i,
                                   api_request_kind(item),
                                   scores   ? "a text, or an object with a text"
                                   : tokens ? "a text, or an array of token ids"
                                            : "a text");
    }
    return true;
}

enum {
    E = 1 << API_EMBEDDINGS,
    O = 1 << API_OLLAMA_EMBEDDINGS,
    P = 1 << API_OLLAMA_PROMPT,
    S = 1 << API_SCORES
};

static const struct field fields[] = {
    {"model", E | O | P | S, read_model},
    {"input", E | O, read_items},
    {"content", E, read_items},
    {"prompt", P, read_items},
    {"documents", S, read_items},
    {"texts", S, read_items},
    {"query", S, read_query},
    {"dimensions", E | O, read_dimensions},
    {"encoding_format", E, read_format},
    {"truncate", O, read_truncates},
    {"top_n", S, read_top_n},
    {"return_documents", S, read_returns_texts},
    {"return_text", S, read_returns_texts},
    {"user", E, NULL},
    {"keep_alive", O | P, NULL},
    {"options", O | P, NULL},
};

static bool read_member(struct reader *r, const char *name, json_t *v) {
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const struct field *f = &fields[i];
        if (strcmp(f->name, name) == 0 && (f->kinds & 1u << r->out->kind))
            return f->read == NULL || json_is_null(v) || f->read(r, f, v);
    }
    if (r->model->refuse_unknown)
        return api_failure_set(r->why, 400, name, "the field \"%.64s\" is not known here", name);
    api_request_ignore(r->out->ignored, name);
    return true;
}

static bool read_members(struct reader *r) {
    struct api_vectors_request *out = r->out;
    const char *name;
    json_t *v;
    json_object_foreach((json_t *)r->body, name, v) if (!read_member(r, name, v)) return false;
    if (out->kind == API_SCORES && out->query == NULL)
        return api_failure_set(r->why, 400, "query", "query is missing: a text is expected");
    if (out->items == NULL) {
        const char *missing = out->kind == API_SCORES          ? "documents"
                              : out->kind == API_OLLAMA_PROMPT ? "prompt"
                                                               : "input";
        return api_failure_set(r->why, 400, missing, "%s is missing: %s is expected", missing,
                               out->kind == API_SCORES ? "an array of texts"
                                                       : "a text, or an array of texts");
    }
    out->top_n = out->top_n == 0 ? out->n : ARITH_MIN(out->top_n, out->n);
    return true;
}

bool api_vectors_read(enum api_vectors_kind kind, const char *body, size_t n, const struct api_model *model,
                      bool (*names)(const struct api_model *m, const char *name),
                      struct api_vectors_request *out, struct api_failure *why) {
    *why = (struct api_failure){0};
    *out = (struct api_vectors_request){
        .kind = kind, .truncates = kind == API_OLLAMA_EMBEDDINGS || kind == API_OLLAMA_PROMPT};
    if (!api_request_load(body, n, model, NULL, NULL, &out->kept, why))
        return false;
    struct reader r = {model, out, why, names, json_array_get(out->kept, 0)};
    if (read_members(&r))
        return true;
    api_vectors_free(out);
    return false;
}

const json_t *api_vectors_item(const struct api_vectors_request *r, uint32_t i, const char **text,
                               size_t *n) {
    const bool one = !json_is_array(r->items) || (r->kind == API_EMBEDDINGS && is_ids(r->items));
    const json_t *item = one ? r->items : text_of(json_array_get(r->items, i));
    *text = json_string_value(item); /* NULL: an array */
    *n = *text != NULL ? json_string_length(item) : json_array_size(item);
    return item;
}

void api_vectors_free(struct api_vectors_request *r) {
    json_decref(r->kept);
    *r = (struct api_vectors_request){0};
}
