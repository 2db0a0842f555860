#include "server/openai/api_prompt.h"

#include "base/arith.h"
#include "chat/jinja.h"
#include "server/http/edge_pool.h"

#include <string.h>
#include <time.h>

#define ALIGN 16

/* The server's memory was too small for the template's values. */
static bool fail_memory(const struct api_model *model, bool alone, size_t bytes, struct api_failure *why) {
    if (alone && bytes >= model->idle / 3)
        return api_failure_set(
            why, 413, "messages",
            "the conversation needs more memory than the server has for it: shorten it, or start "
            "the server with a larger server.max_body or server.memory");
    return api_failure_set(why, 503, NULL, "the server's memory has no room for the prompt now");
}

size_t api_prompt_room(void) {
    return edge_pool_largest() / 4 * 3 / ALIGN * ALIGN;
}

/* Cuts the text where the last message goes on; false: the template does not write it. */
static bool cut_at_place(const char *text, size_t *length) {
    const size_t n = sizeof API_PLACE - 1;
    for (size_t at = *length >= n ? *length - n + 1 : 0; at > 0; at--)
        if (memcmp(text + at - 1, API_PLACE, n) == 0) {
            *length = at - 1;
            return true;
        }
    return false;
}

bool api_prompt_render(const struct api_model *model, const struct api_request *r, const atomic_int *stop,
                       void *memory, size_t bytes, bool alone, const char **text, size_t *length,
                       struct api_failure *why) {
    stator_error first = {0}, e;
    const time_t seconds = time(NULL);
    struct tm now;
    for (int i = 0; i < API_VARIANTS && r->variables[i] != NULL; i++) {
        const struct jinja_input in = {.source = model->source,
                                       .length = model->source_length,
                                       .variables = r->variables[i],
                                       .now = localtime_r(&seconds, &now),
                                       .stop = stop};
        const stator_status st = jinja_render(&in, memory, bytes, text, length, &e);
        if (st == STATOR_OK && (r->goes_on == API_NEW_MESSAGE || cut_at_place(*text, length)))
            return true;
        if (st == STATOR_OK)
            error_set(&e, STATOR_USAGE,
                      "it does not write the %s of the last message, which the answer is to go on with",
                      r->goes_on == API_ON_CONTENT ? "content" : "reasoning");
        if (atomic_load(stop) != 0)
            return api_failure_set(why, 503, NULL, "the server is asked to end");
        if (st == STATOR_DOES_NOT_FIT)
            return fail_memory(model, alone, bytes, why);
        if (i == 0)
            first = e;
    }
    return api_failure_set(why, 400, "messages", "the model's chat template refuses the request: %s",
                           first.text);
}

bool api_prompt_ids(stator *engine, const char *text, size_t length, bool add_special, int32_t *ids,
                    size_t capacity, size_t *n, struct api_failure *why) {
    stator_error e = {0};
    stator_status st = stator_tokenize(engine, text, length, add_special, 1, ids, capacity, n, &e);
    if (st == STATOR_OK || *n > capacity) /* too many: whoever counts says so */
        return true;
    return api_failure_set(why, 400, NULL, "%s", e.text);
}

bool api_prompt_fits(const struct api_model *model, size_t n, uint32_t wanted, uint32_t *max_new,
                     struct api_failure *why) {
    const uint32_t context = model->context;
    if (n == 0)
        return api_failure_set(why, 400, NULL, "the prompt is empty: at least one token is needed");
    if (n > context)
        return api_failure_set(
            why, 400, NULL,
            "the prompt has %zu tokens, but a sequence holds %u (memory.context): shorten it, or "
            "start the server with more",
            n, context);
    const uint32_t most = context - (uint32_t)n + 1; /* the last token is told, not computed with */
    if (wanted > most && wanted != API_REST && !model->clamp_tokens)
        return api_failure_set(
            why, 400, "max_tokens",
            "the prompt has %zu tokens and max_tokens asks for %u more, together %llu, but a "
            "sequence holds %u (memory.context): at most %u more are possible, and server.max_tokens is "
            "\"refuse\"",
            n, wanted, (unsigned long long)n + wanted, context, most);
    const uint32_t by_default = model->default_max_tokens != 0 ? model->default_max_tokens : API_REST;
    *max_new = ARITH_MIN(wanted != 0 ? wanted : by_default, most);
    return true;
}
