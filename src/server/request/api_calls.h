/* What the files that write calls as a grammar share. */
#ifndef STATOR_SERVER_API_CALLS_H
#define STATOR_SERVER_API_CALLS_H

#include "server/request/api_request.h"

/* What is asked for. */
struct api_calls {
    const struct api_model *m;
    const json_t *tools;
    const char *only; /* the name of the function; NULL: any */
    bool one;         /* no second call */
    bool only_strict; /* the others may have any arguments */
};

/* The function may have any arguments. */
static inline bool api_calls_lax(const struct api_calls *c, const json_t *function) {
    return c->only_strict && !json_is_true(json_object_get(function, "strict"));
}

/* The parts of a grammar (json_parts.h) for a text of the syntax: its control tokens apart. */
json_t *api_calls_tag(const struct api_model *m, const char *text);
/* One of two parts, which are taken over. */
static inline json_t *api_calls_any(json_t *a, json_t *b) {
    return json_pack("{s:[o, o]}", "any", a, b);
}
static inline json_t *api_calls_or_nothing(json_t *a) {
    return api_calls_any(a, json_string(""));
}
static inline json_t *api_calls_maybe_line(void) {
    return api_calls_or_nothing(json_string("\n"));
}

/* A call in tags, behind the one that opens it. NULL: *r->why. */
json_t *api_calls_keyed(struct api_reader *r, const struct api_calls *c, const json_t *function);

/* A call of gpt-oss, a message of its own, around the part for its arguments, which is taken over. */
json_t *api_calls_channel(const struct api_model *m, const json_t *function, json_t *arguments);
/* Whole answers of gpt-oss, reasoning included: one of the calls; or any text, without a call; or, in the
 * channel of the answer, what a schema allows, which is taken over. */
json_t *api_calls_channels(const struct api_model *m, json_t *calls);
json_t *api_calls_channels_or_text(json_t *calls);
json_t *api_calls_channels_or_schema(const struct api_model *m, json_t *calls, json_t *schema);

#endif
