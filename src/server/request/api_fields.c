/* The fields of a body: one row each. A field that is in no row is noted as ignored, or refused by name
 * (server.unknown_fields). */
#include "server/request/api_request.h"

#include "base/arith.h"
#include "chat/chat_json.h"
#include "config/config_table.h"
#include "server/http/edge_pool.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPEAT_LAST 64 /* tokens that the repeat penalty looks back at (SAMPLER_LAST of the engine) */

struct field {
    const char *name;
    unsigned where; /* enum api_endpoint */
    bool (*read)(struct api_reader *r, const struct field *f, const json_t *v);
    size_t offset;       /* in struct api_request */
    uint64_t min, max;   /* of whole numbers */
    enum config_key key; /* of numbers: whose bounds are its own */
    uint32_t has;        /* STATOR_HAS_ bit */
    const char *note;    /* why it is refused */
    double neutral;      /* of refused ones: the number, beside 0, that asks for nothing */
};

static void *place(struct api_reader *r, const struct field *f) {
    return (char *)r->out + f->offset;
}

static bool wrong(struct api_reader *r, const struct field *f, const json_t *v, const char *expected) {
    return api_failure_set(r->why, 400, f->name, "%s is %s: %s is expected", f->name, api_request_kind(v),
                           expected);
}

static bool read_bool(struct api_reader *r, const struct field *f, const json_t *v) {
    if (!json_is_boolean(v))
        return wrong(r, f, v, "true or false");
    *(bool *)place(r, f) = json_is_true(v);
    return true;
}

/* A number without a fraction, however it is written: 16, 16.0, 1.6e1. */
static bool read_whole(const json_t *v, json_int_t *out) {
    const double d = json_number_value(v);
    *out = json_integer_value(v);
    if (json_is_integer(v))
        return true;
    if (!json_is_real(v) || d != floor(d) || fabs(d) > 9007199254740992.0) /* 2^53 */
        return false;
    *out = (json_int_t)d;
    return true;
}

static bool whole(struct api_reader *r, const struct field *f, const json_t *v, uint64_t *out) {
    json_int_t i = 0;
    char expected[96];
    snprintf(expected, sizeof expected, "a whole number from %llu to %llu", (unsigned long long)f->min,
             (unsigned long long)f->max);
    if (!read_whole(v, &i))
        return wrong(r, f, v, expected);
    if (i < 0 || (uint64_t)i < f->min || (uint64_t)i > f->max)
        return api_failure_set(r->why, 400, f->name, "%s is %lld: %s is expected", f->name, (long long)i,
                               expected);
    *out = (uint64_t)i;
    return true;
}

static bool read_u32(struct api_reader *r, const struct field *f, const json_t *v) {
    uint64_t n = 0;
    if (!whole(r, f, v, &n))
        return false;
    *(uint32_t *)place(r, f) = (uint32_t)n;
    r->out->sampling.has |= f->has;
    return true;
}

/* top_k = -1 turns it off, as vLLM has it. */
static bool read_count(struct api_reader *r, const struct field *f, const json_t *v) {
    json_int_t i = 0;
    if (f->has != STATOR_HAS_TOP_K || !read_whole(v, &i) || i != -1)
        return read_u32(r, f, v);
    *(uint32_t *)place(r, f) = 0;
    r->out->sampling.has |= f->has;
    return true;
}

/* Tokens to generate; -1 (no limit) and -2 (until the context is full) are llama.cpp's. */
static bool read_most(struct api_reader *r, const struct field *f, const json_t *v) {
    json_int_t i = 0;
    if (!read_whole(v, &i) || (i != -1 && i != -2))
        return read_u32(r, f, v);
    *(uint32_t *)place(r, f) = API_REST;
    return true;
}

/* -1 stands for all, as llama.cpp has it. */
static bool read_window(struct api_reader *r, const struct field *f, const json_t *v) {
    json_int_t i = 0;
    if (!read_whole(v, &i) || i != -1)
        return read_u32(r, f, v);
    *(uint32_t *)place(r, f) = UINT32_MAX;
    r->out->sampling.has |= f->has;
    return true;
}

/* Tokens of reasoning; -1: as many as the model likes. */
static bool read_budget(struct api_reader *r, const struct field *f, const json_t *v) {
    json_int_t i = 0;
    const bool none = read_whole(v, &i) && i == -1;
    if (!none && !read_u32(r, f, v))
        return false;
    r->out->limits_reasoning = !none;
    return true;
}

/* The engine has llama.cpp's default ones. */
static bool read_breakers(struct api_reader *r, const struct field *f, const json_t *v) {
    static const char breakers[] = "\n:\"*";
    bool seen[sizeof breakers] = {false};
    bool ok = json_is_array(v) && json_array_size(v) == sizeof breakers - 1;
    for (size_t i = 0; ok && i < json_array_size(v); i++) {
        const char *text = json_string_value(json_array_get(v, i));
        const char *at = text != NULL && strlen(text) == 1 ? strchr(breakers, text[0]) : NULL;
        ok = at != NULL && !seen[at - breakers];
        if (ok)
            seen[at - breakers] = true;
    }
    return ok || api_failure_set(r->why, 400, f->name,
                                 "dry_sequence_breakers can't be honoured: they are always [\"\\n\", \":\", "
                                 "\"\\\"\", \"*\"]; leave the field out");
}

/* Any number of 64 bits, as OpenAI has it; -1 asks for a random one, as llama.cpp has it. */
static bool read_seed(struct api_reader *r, const struct field *f, const json_t *v) {
    size_t n = 0;
    const char *digits = chat_json_long_number(v, &n);
    char *end = NULL;
    errno = 0;
    const uint64_t beyond = digits != NULL && digits[0] != '-' ? strtoull(digits, &end, 10) : 0;
    const bool fits = end != NULL && *end == '\0' && errno == 0;
    json_int_t i = 0;
    if (!fits && !read_whole(v, &i))
        return wrong(r, f, v, "a whole number of 64 bits, or -1 for a random one,");
    *(uint64_t *)place(r, f) = fits ? beyond : (uint64_t)i;
    r->out->sampling.has |= f->has;
    return true;
}

static bool read_number(struct api_reader *r, const struct field *f, const json_t *v) {
    const struct config_row *row = &config_table[f->key];
    if (!json_is_number(v))
        return wrong(r, f, v, "a number");
    const double d = json_number_value(v);
    if (!(d >= row->number_min && d <= row->number_max))
        return api_failure_set(r->why, 400, f->name, "%s is %g: a number from %g to %g is expected", f->name,
                               d, row->number_min, row->number_max);
    *(float *)place(r, f) = (float)d + 0.0f; /* -0 is 0 */
    r->out->sampling.has |= f->has;
    return true;
}

static bool read_ignored(struct api_reader *r, const struct field *f, const json_t *v) {
    (void)r;
    (void)f;
    (void)v;
    return true;
}

/* -1 and slots that there are not: any. It changes no byte of an answer. */
static bool read_slot(struct api_reader *r, const struct field *f, const json_t *v) {
    json_int_t i = 0;
    (void)f;
    if (read_whole(v, &i) && i >= 0 && i < INT32_MAX)
        r->out->slot = (uint32_t)i + 1;
    return true;
}

/* It can't be honoured, and a client that sends it does not depend on it: named in X-Stator-Ignored. */
static bool read_noted(struct api_reader *r, const struct field *f, const json_t *v) {
    (void)v;
    api_request_ignore(r->out->ignored, f->name);
    return true;
}

/* Fields that are not honoured: only values that ask for nothing are taken. */
static bool read_refused(struct api_reader *r, const struct field *f, const json_t *v) {
    const double d = json_number_value(v);
    const bool nothing = json_is_false(v) || (json_is_number(v) && (d == 0 || d == f->neutral)) ||
                         (chat_json_is_text(v) && json_string_length(v) == 0) ||
                         (json_is_array(v) && json_array_size(v) == 0) ||
                         (json_is_object(v) && json_object_size(v) == 0);
    return nothing || api_failure_set(r->why, 400, f->name, "%s can't be honoured: %s", f->name, f->note);
}

static bool read_model(struct api_reader *r, const struct field *f, const json_t *v) {
    if (!chat_json_is_text(v))
        return wrong(r, f, v, "a text");
    const char *name = json_string_value(v);
    if (!r->model->strict_model || api_request_names_model(r->model, name))
        return true;
    return api_failure_set(r->why, 404, f->name, API_NO_MODEL, name, r->model->name);
}

static bool read_modalities(struct api_reader *r, const struct field *f, const json_t *v) {
    const char *only = json_array_size(v) == 1 ? json_string_value(json_array_get(v, 0)) : NULL;
    if (only != NULL && strcmp(only, "text") == 0)
        return true;
    return api_failure_set(r->why, 400, f->name, "modalities can't be honoured unless it is [\"text\"]");
}

static bool read_stream_options(struct api_reader *r, const struct field *f, const json_t *v) {
    const char *name;
    json_t *value;
    if (!json_is_object(v))
        return wrong(r, f, v, "an object");
    json_object_foreach((json_t *)v, name, value) {
        char param[96];
        snprintf(param, sizeof param, "%s.%s", f->name, name);
        if (json_is_null(value) || (strcmp(name, "include_obfuscation") == 0 && json_is_false(value)))
            continue;
        if (strcmp(name, "include_usage") != 0) {
            if (!api_request_unknown(r, param))
                return false;
            continue;
        }
        if (!json_is_boolean(value))
            return api_failure_set(r->why, 400, f->name, "%s is %s: true or false is expected", param,
                                   api_request_kind(value));
        r->out->include_usage = json_is_true(value);
    }
    return true;
}

static bool read_stop(struct api_reader *r, const struct field *f, const json_t *v) {
    const size_t n = json_is_array(v) ? json_array_size(v) : 1;
    if (n > API_STOPS)
        return api_failure_set(r->why, 400, f->name, "stop has %zu texts, at most %d are possible", n,
                               API_STOPS);
    if (n == 0)
        return true;
    r->out->stops = edge_pool_zeroed(1, sizeof *r->out->stops + n * sizeof r->out->stops->at[0]);
    if (r->out->stops == NULL)
        return api_failure_set(r->why, 503, NULL, "the server's memory has no room for the stop strings now");
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_is_array(v) ? json_array_get(v, i) : v;
        if (!chat_json_is_text(one))
            return wrong(r, f, one, "a text, or an array of texts,");
        const size_t length = json_string_length(one);
        if (length > API_STOP_BYTES)
            return api_failure_set(r->why, 400, f->name,
                                   "stop string %zu has %zu bytes, at most %d are possible", i, length,
                                   API_STOP_BYTES);
        if (length == 0)
            continue;
        struct api_stop_text *to = &r->out->stops->at[r->out->stops->n++];
        to->n = (uint16_t)length;
        memcpy(to->p, json_string_value(one), length);
    }
    return true;
}

/* Tokens at which the answer ends; they are no part of it. */
static bool read_stop_ids(struct api_reader *r, const struct field *f, const json_t *v) {
    const size_t n = json_array_size(v);
    if (!json_is_array(v))
        return wrong(r, f, v, "an array of token ids");
    if (n > API_STOPS)
        return api_failure_set(r->why, 400, f->name, "%s has %zu ids, at most %d are possible", f->name, n,
                               API_STOPS);
    if (n == 0)
        return true;
    r->out->stop_ids = edge_pool_zeroed(n, sizeof *r->out->stop_ids);
    if (r->out->stop_ids == NULL)
        return api_failure_set(r->why, 503, NULL, "the server's memory has no room for %s now", f->name);
    for (size_t i = 0; i < n; i++) {
        json_int_t id = 0;
        const json_t *one = json_array_get(v, i);
        if (!read_whole(one, &id) || id < 0 || id >= (json_int_t)r->model->vocab)
            return api_failure_set(r->why, 400, f->name, "%s[%zu] is %s: a token id from 0 to %u is expected",
                                   f->name, i, json_is_number(one) ? "out of range" : api_request_kind(one),
                                   r->model->vocab - 1);
        r->out->stop_ids[r->out->n_stop_ids++] = (int32_t)id;
    }
    return true;
}

/* In chats true or false, with top_logprobs beside it; in completions a number. */
static bool read_logprobs(struct api_reader *r, const struct field *f, const json_t *v) {
    if (r->out->endpoint == API_CHAT || json_is_false(v))
        return read_bool(r, f, v);
    uint64_t n = 0;
    if (!whole(r, f, v, &n))
        return false;
    r->out->logprobs = true;
    r->out->top_logprobs = (uint32_t)n;
    return true;
}

/* llama-server's number of log probabilities; 0: none, not even the token's own. */
static bool read_probabilities(struct api_reader *r, const struct field *f, const json_t *v) {
    uint64_t n = 0;
    if (!whole(r, f, v, &n))
        return false;
    r->out->logprobs = r->out->logprobs || n > 0;
    r->out->top_logprobs = ARITH_MAX(r->out->top_logprobs, (uint32_t)n);
    return true;
}

static bool read_bias(struct api_reader *r, const struct field *f, const json_t *v) {
    const char *name;
    json_t *value;
    if (json_is_array(v) && json_array_size(v) == 0)
        return true;
    if (!json_is_object(v))
        return wrong(r, f, v, "an object {\"token id\": bias, ..}");
    const size_t n = json_object_size(v);
    if (n == 0)
        return true;
    if (n > STATOR_LOGIT_BIASES)
        return api_failure_set(r->why, 400, f->name, "logit_bias has %zu tokens, at most %d are possible", n,
                               STATOR_LOGIT_BIASES);
    r->out->bias = edge_pool_zeroed(n, sizeof *r->out->bias);
    if (r->out->bias == NULL)
        return api_failure_set(r->why, 503, NULL, "the server's memory has no room for logit_bias now");
    json_object_foreach((json_t *)v, name, value) {
        char *end = NULL;
        const unsigned long id = strtoul(name, &end, 10);
        if (name[0] < '0' || name[0] > '9' || strlen(name) > 10 || *end != '\0' || id >= r->model->vocab)
            return api_failure_set(r->why, 400, f->name,
                                   "logit_bias has the key \"%.32s\": a token id from 0 to %u is expected",
                                   name, r->model->vocab - 1);
        const double bias = json_number_value(value);
        if (!json_is_number(value) || !(bias >= -100 && bias <= 100))
            return api_failure_set(r->why, 400, f->name,
                                   "logit_bias of token %lu is %s: a number from -100 to 100 is expected", id,
                                   json_is_number(value) ? "out of range" : api_request_kind(value));
        r->out->bias[r->out->sampling.n_logit_bias++] =
            (stator_logit_bias){.token = (int32_t)id, .bias = (float)bias};
    }
    r->out->sampling.logit_bias = r->out->bias;
    return true;
}

static bool check_ids(struct api_reader *r, const char *param, const json_t *array) {
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *v = json_array_get(array, i);
        const json_int_t id = json_integer_value(v);
        if (!json_is_integer(v) || id < 0 || id >= (json_int_t)r->model->vocab)
            return api_failure_set(
                r->why, 400, "prompt", "%s[%zu] is %s: token ids from 0 to %u are expected", param, i,
                json_is_integer(v) ? "outside of the vocabulary" : api_request_kind(v), r->model->vocab - 1);
    }
    return true;
}

static bool read_prompt(struct api_reader *r, const struct field *f, const json_t *v) {
    static const char expected[] = "a text, or an array of texts, of token ids, or of arrays of token ids,";
    const json_t *first = json_array_get(v, 0);
    r->out->prompt = v;
    if (chat_json_is_text(v))
        return true;
    if (!json_is_array(v))
        return wrong(r, f, v, expected);
    if (first == NULL)
        return api_failure_set(r->why, 400, f->name, "prompt is empty: %s is expected", expected);
    if (json_is_integer(first))
        return check_ids(r, "prompt", v);
    if (json_array_size(v) > API_PROMPTS)
        return api_failure_set(r->why, 400, f->name, "prompt has %zu prompts, at most %d are possible",
                               json_array_size(v), API_PROMPTS);
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *one = json_array_get(v, i);
        char param[32];
        snprintf(param, sizeof param, "prompt[%zu]", i);
        if (json_typeof(one) != json_typeof(first) || (!chat_json_is_text(one) && !json_is_array(one)))
            return api_failure_set(r->why, 400, f->name, "%s is %s: %s is expected", param,
                                   api_request_kind(one), expected);
        if (json_is_array(one) && json_array_size(one) == 0)
            return api_failure_set(r->why, 400, f->name, "%s is empty", param);
        if (json_is_array(one) && !check_ids(r, param, one))
            return false;
    }
    return true;
}

static const char no_infill[] = "the model has no tokens for filling in";

/* The text behind the answer. */
static bool read_suffix(struct api_reader *r, const struct field *f, const json_t *v) {
    if (!chat_json_is_text(v))
        return wrong(r, f, v, "a text");
    if (json_string_length(v) > 0 && !r->model->infills)
        return api_failure_set(r->why, 400, f->name, "suffix can't be honoured: %s", no_infill);
    r->out->suffix = v;
    r->out->infill = r->out->infill || json_string_length(v) > 0;
    return true;
}

/* llama-server's texts of other files. */
static bool read_extra(struct api_reader *r, const struct field *f, const json_t *v) {
    if (!json_is_array(v))
        return wrong(r, f, v, "an array {\"text\": .., \"filename\": ..}");
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *one = json_array_get(v, i), *name = json_object_get(one, "filename");
        if (!chat_json_is_text(json_object_get(one, "text")) || (name != NULL && !chat_json_is_text(name)))
            return api_failure_set(
                r->why, 400, f->name,
                "input_extra[%zu]: {\"text\": .., \"filename\": ..} with texts is expected", i);
    }
    if (json_array_size(v) > 0 && !r->model->infills)
        return api_failure_set(r->why, 400, f->name, "input_extra can't be honoured: %s", no_infill);
    r->out->extra = v;
    r->out->infill = r->out->infill || json_array_size(v) > 0;
    return true;
}

static bool read_parallel(struct api_reader *r, const struct field *f, const json_t *v) {
    if (!json_is_boolean(v))
        return wrong(r, f, v, "true or false");
    r->out->one_call = json_is_false(v);
    return true;
}

#define AT(member) .offset = offsetof(struct api_request, member)
#define BOTH       (API_CHAT | API_COMPLETION)
#define REFUSED(n, why)                                                                                      \
    { .name = n, .where = BOTH, .read = read_refused, .note = why }
#define NEUTRAL(n, number, why)                                                                              \
    { .name = n, .where = BOTH, .read = read_refused, .neutral = (number), .note = why }
#define IGNORED(n)                                                                                           \
    { .name = n, .where = BOTH | API_TEMPLATE, .read = read_ignored }
#define NOTED(n)                                                                                             \
    { .name = n, .where = BOTH | API_TEMPLATE, .read = read_noted }

static const struct field fields[] = {
    {.name = "model", .where = BOTH | API_TEMPLATE, .read = read_model},
    {.name = "prompt", .where = API_COMPLETION, .read = read_prompt},
    {.name = "stream", .where = BOTH, .read = read_bool, AT(stream)},
    {.name = "stream_options", .where = BOTH, .read = read_stream_options},
#define MOST(n, member)                                                                                      \
    { .name = n, .where = BOTH, .read = read_most, AT(member), .min = 1, .max = INT32_MAX }
    MOST("max_tokens", max_tokens),
    MOST("max_completion_tokens", max_completion_tokens),
    MOST("n_predict", n_predict),
#define SAMPLING_NUMBER(name_, NAME_, ...)                                                                   \
    {.name = #name_,                                                                                         \
     .where = BOTH,                                                                                          \
     .read = read_number,                                                                                    \
     AT(sampling.name_),                                                                                     \
     .key = CONFIG_SAMPLING_##NAME_,                                                                         \
     .has = STATOR_HAS_##NAME_},
#define SAMPLING_COUNT(name_, NAME_, option_, value_, max_, ...)                                             \
    {.name = #name_,                                                                                         \
     .where = BOTH,                                                                                          \
     .read = read_count,                                                                                     \
     AT(sampling.name_),                                                                                     \
     .max = (max_),                                                                                          \
     .has = STATOR_HAS_##NAME_},
#define SAMPLING_WINDOW(name_, NAME_, ...)                                                                   \
    {.name = #name_,                                                                                         \
     .where = BOTH,                                                                                          \
     .read = read_window,                                                                                    \
     AT(sampling.name_),                                                                                     \
     .max = INT32_MAX,                                                                                       \
     .has = STATOR_HAS_##NAME_},
#define SAMPLING_SEED(name_, NAME_, ...)                                                                     \
    {.name = #name_, .where = BOTH, .read = read_seed, AT(sampling.name_), .has = STATOR_HAS_##NAME_},
#include "config/sampling.def"
    {.name = "repetition_penalty", /* vLLM's name */
     .where = BOTH,
     .read = read_number,
     AT(sampling.repeat_penalty),
     .key = CONFIG_SAMPLING_REPEAT_PENALTY,
     .has = STATOR_HAS_REPEAT_PENALTY},
    {.name = "repeat_last_n", .where = BOTH, .read = read_ignored}, /* check_repeat_last looks at it */
    {.name = "reasoning_budget_tokens",
     .where = API_CHAT,
     .read = read_budget,
     AT(reasoning_budget),
     .max = INT32_MAX},
    {.name = "dry_sequence_breakers", .where = BOTH, .read = read_breakers},
    {.name = "stop", .where = BOTH, .read = read_stop},
    {.name = "stop_token_ids", .where = BOTH, .read = read_stop_ids},
    {.name = "logprobs", .where = BOTH, .read = read_logprobs, AT(logprobs), .max = STATOR_TOP_LOGPROBS},
    {.name = "top_logprobs",
     .where = API_CHAT,
     .read = read_u32,
     AT(top_logprobs),
     .max = STATOR_TOP_LOGPROBS},
    {.name = "n_probs", .where = BOTH, .read = read_probabilities, .max = STATOR_TOP_LOGPROBS},
    {.name = "return_tokens", .where = API_COMPLETION, .read = read_bool, AT(return_tokens)},
    {.name = "n", .where = BOTH, .read = read_u32, AT(n), .min = 1, .max = API_PROMPTS},
    {.name = "logit_bias", .where = BOTH, .read = read_bias},
    {.name = "ignore_eos", .where = BOTH, .read = read_bool, AT(ignore_eos)},
    {.name = "echo", .where = API_COMPLETION, .read = read_bool, AT(echo)},
    {.name = "suffix", .where = API_COMPLETION, .read = read_suffix},
    {.name = "input_extra", .where = API_COMPLETION, .read = read_extra},
    {.name = "tool_choice",
     .where = API_CHAT | API_TEMPLATE,
     .read = read_ignored}, /* api_calls.c reads it */
    {.name = "parallel_tool_calls", .where = API_CHAT, .read = read_parallel},
    /* api_structure.c has read these. */
    {.name = "response_format", .where = BOTH, .read = read_ignored},
    {.name = "json_schema", .where = BOTH, .read = read_ignored},
    {.name = "structured_outputs", .where = BOTH, .read = read_ignored},
    {.name = "guided_json", .where = BOTH, .read = read_ignored},
    {.name = "guided_regex", .where = BOTH, .read = read_ignored},
    {.name = "guided_choice", .where = BOTH, .read = read_ignored},
    {.name = "guided_grammar", .where = BOTH, .read = read_ignored},
    {.name = "regex", .where = BOTH, .read = read_ignored},
    {.name = "grammar", .where = BOTH, .read = read_ignored},
    {.name = "ebnf", .where = BOTH, .read = read_ignored},
    {.name = "modalities", .where = API_CHAT, .read = read_modalities},
    NEUTRAL("best_of", 1, "every answer is given, none is chosen"),
    /* api_messages.c has read these. */
    {.name = "messages", .where = API_CHAT | API_TEMPLATE, .read = read_ignored},
    {.name = "tools", .where = API_CHAT | API_TEMPLATE, .read = read_ignored},
    {.name = "chat_template_kwargs", .where = API_CHAT | API_TEMPLATE, .read = read_ignored},
    {.name = "enable_thinking", .where = API_CHAT | API_TEMPLATE, .read = read_ignored},
    {.name = "reasoning_effort", .where = API_CHAT | API_TEMPLATE, .read = read_ignored},
    {.name = "thinking", .where = API_CHAT | API_TEMPLATE, .read = read_ignored},
    {.name = "add_generation_prompt", .where = API_CHAT | API_TEMPLATE, .read = read_ignored},
    {.name = "continue_final_message", .where = API_CHAT | API_TEMPLATE, .read = read_ignored},
    /* These cannot change an answer. */
    IGNORED("user"),
    IGNORED("metadata"),
    IGNORED("store"),
    IGNORED("service_tier"),
    IGNORED("safety_identifier"),
    IGNORED("prompt_cache_key"),
    IGNORED("prompt_cache_retention"),
    IGNORED("cache_prompt"),
    IGNORED("prediction"),
    {.name = "id_slot", .where = BOTH | API_TEMPLATE, .read = read_slot},
    IGNORED("return_progress"),
    IGNORED("timings_per_token"),
    IGNORED("keep_alive"),
    IGNORED("cache_control"),
    IGNORED("mirostat_tau"),
    IGNORED("mirostat_eta"),
    /* What a server of many models makes of these is its own affair; a client gets an answer without them. */
    NOTED("include_reasoning"),
    NOTED("reasoning"),
    {.name = "thinking", .where = API_COMPLETION, .read = read_noted},
    NOTED("options"),
    NOTED("verbosity"),
    /* These would change it. */
    REFUSED("functions", "it has been replaced by tools"),
    REFUSED("function_call", "it has been replaced by tool_choice"),
    REFUSED("audio", "the model answers in text"),
    REFUSED("web_search_options", "this server searches nothing"),
    {.name = "suffix",
     .where = API_CHAT,
     .read = read_refused,
     .note = "an answer of a chat has nothing behind it; ask /v1/completions"},
    REFUSED("mirostat", "the engine has no such sampler"),
    REFUSED("post_sampling_probs", "log probabilities are those of the model, before sampling"),
    REFUSED("prompt_logprobs", "log probabilities of a prompt are not computed"),
    REFUSED("include_stop_str_in_output", "an answer ends in front of its stop string"),
    REFUSED("use_beam_search", "the engine samples"),
    REFUSED("dynatemp_range", "the engine has no such sampler"),
    NEUTRAL("length_penalty", 1, "the engine samples"),
    NEUTRAL("tfs_z", 1, "the engine has no such sampler"),
};

static bool read_field(struct api_reader *r, const char *name, const json_t *v) {
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (strcmp(fields[i].name, name) == 0 && (fields[i].where & r->out->endpoint) != 0)
            return json_is_null(v) || fields[i].read(r, &fields[i], v);
    char param[sizeof r->why->param];
    snprintf(param, sizeof param, "%s", name);
    return api_request_unknown(r, param);
}

/* The names of one thing: none contradicts another. */
static bool check_most(struct api_reader *r) {
    struct api_request *q = r->out;
    const uint32_t all[] = {q->max_completion_tokens, q->n_predict};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (q->max_tokens != 0 && all[i] != 0 && q->max_tokens != all[i])
            return api_failure_set(r->why, 400, "max_tokens",
                                   "max_tokens, max_completion_tokens and n_predict differ: give one");
        q->max_tokens = ARITH_MAX(q->max_tokens, all[i]);
    }
    return true;
}

/* The repeat penalty looks back at REPEAT_LAST tokens: where it is asked for, another number would change the
 * answer. So would one for the other two penalties, which count all generated tokens. */
static bool check_repeat_last(struct api_reader *r) {
    const struct api_request *q = r->out;
    const stator_sampling *s = &q->sampling;
    const bool penalised = ((s->has & STATOR_HAS_REPEAT_PENALTY) != 0 && s->repeat_penalty != 1) ||
                           ((s->has & STATOR_HAS_PRESENCE_PENALTY) != 0 && s->presence_penalty != 0) ||
                           ((s->has & STATOR_HAS_FREQUENCY_PENALTY) != 0 && s->frequency_penalty != 0);
    const json_t *given = json_object_get(q->body, "repeat_last_n");
    if (given == NULL || json_is_null(given) || json_number_value(given) == REPEAT_LAST)
        return true;
    if (penalised)
        return api_failure_set(
            r->why, 400, "repeat_last_n",
            "repeat_last_n can only be %d together with a penalty: repeat_penalty looks back at "
            "that many tokens, the other penalties at all that were generated",
            REPEAT_LAST);
    api_request_ignore(r->out->ignored, "repeat_last_n");
    return true;
}

static bool check_together(struct api_reader *r) {
    struct api_request *q = r->out;
    if (q->endpoint == API_COMPLETION && q->prompt == NULL)
        return api_failure_set(r->why, 400, "prompt", "prompt is missing");
    if (q->top_logprobs > 0 && !q->logprobs)
        return api_failure_set(r->why, 400, "top_logprobs",
                               "top_logprobs is only for requests with logprobs: true");
    if (q->echo && q->logprobs)
        return api_failure_set(
            r->why, 400, "echo",
            "echo can't be honoured together with logprobs: those of the prompt are not computed");
    if (q->ignore_eos && q->structure.field != NULL)
        return api_failure_set(r->why, 400, "ignore_eos",
                               "ignore_eos can't be honoured together with %s: the answer ends where it must",
                               q->structure.field);
    return check_repeat_last(r) && check_most(r);
}

bool api_fields_read(struct api_reader *r) {
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)r->out->body, name, value) {
        if (!read_field(r, name, value))
            return false;
    }
    return check_together(r);
}
