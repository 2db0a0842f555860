/* Calls of gpt-oss as a grammar: a message whose header names the function. Source: OpenAI's description of
 * the harmony format. The prompt ends inside of the first header, and the token that ends a call ends the
 * answer. */
#include "server/request/api_calls.h"

/* The header of a further message begins so. */
static json_t *maybe_start(const struct api_model *m) {
    return api_calls_or_nothing(json_pack("[o, s]", api_calls_tag(m, "<|start|>"), "assistant"));
}

/* A header up to its end, of a message that calls nothing. */
static json_t *any_header(void) {
    return json_pack("{s:{s:s, s:n}}", "until", "<|message|>", "", "to=");
}

/* The text of a message, without what begins another one. last: it may end the answer, and nothing follows.
 */
static json_t *any_text(bool last) {
    return json_pack("{s:{s:o, s:n, s:n, s:n}, s:b}", "until", "<|end|>",
                     last ? json_null() : json_string(""), "<|start|>", "<|channel|>", "<|call|>", "may_end",
                     last);
}

/* A message of reasoning in front of the last one, or none. */
static json_t *maybe_analysis(const struct api_model *m) {
    return api_calls_or_nothing(json_pack("[o, o, s, o, o]", maybe_start(m), api_calls_tag(m, "<|channel|>"),
                                          "analysis", api_calls_tag(m, "<|message|>"), any_text(false)));
}

json_t *api_calls_channel(const struct api_model *m, const json_t *function, json_t *arguments) {
    json_t *name = json_object_get(function, "name");
    json_t *kind =
        json_pack("{s:[s, [s, o, s], [o, s], s]}", "any", " json", " ", api_calls_tag(m, "<|constrain|>"),
                  "json", api_calls_tag(m, "<|constrain|>"), "json", "");
    json_t *first = json_pack("[s, O, o, s, O]", " to=functions.", name, api_calls_tag(m, "<|channel|>"),
                              "commentary", kind);
    json_t *second =
        json_pack("[o, s, O, o]", api_calls_tag(m, "<|channel|>"), "commentary to=functions.", name, kind);
    return json_pack("[o, o, o, o]", maybe_start(m), api_calls_any(first, second),
                     api_calls_tag(m, "<|message|>"), arguments);
}

json_t *api_calls_channels(const struct api_model *m, json_t *calls) {
    return json_pack("[o, O]", maybe_analysis(m), calls);
}

json_t *api_calls_channels_or_text(json_t *calls) {
    json_t *last = json_pack("[o, o]", any_header(), any_text(true));
    json_t *earlier = json_pack("{s:[o, o]}", "repeat", any_header(), any_text(false));
    return json_pack("[o, o]", api_calls_or_nothing(earlier), api_calls_any(last, json_incref(calls)));
}

json_t *api_calls_channels_or_schema(const struct api_model *m, json_t *calls, json_t *schema) {
    json_t *final = json_pack("[o, o, s, o, {s:o}]", maybe_start(m), api_calls_tag(m, "<|channel|>"), "final",
                              api_calls_tag(m, "<|message|>"), "schema", schema);
    return json_pack("[o, o]", maybe_analysis(m), api_calls_any(final, json_incref(calls)));
}
