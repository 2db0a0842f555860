#include "server/openai/api_budget.h"

#include "base/error.h"

#include <string.h>

/* gpt-oss's channel of reasoning. */
#define CHANNEL_OPEN  "<|channel|>analysis<|message|>"
#define CHANNEL_CLOSE "<|end|>"

/* The ids of a text behind those that are there; false: there is no room for them, or no such ids. */
static bool add(struct api_budget *b, const stator *engine, const char *text, uint32_t *n) {
    const size_t have = b->n_open + b->n_message + b->n_close;
    size_t more = 0;
    if (text[0] != '\0' && stator_tokenize(engine, text, strlen(text), 0, 1, b->tokens + have,
                                           STATOR_FORCED - have, &more, NULL) != STATOR_OK)
        return false;
    *n = (uint32_t)more;
    return have + more <= STATOR_FORCED;
}

stator_status api_budget_open(struct api_budget *b, const stator *engine, const struct chat_form *form,
                              const char *message, stator_error *e) {
    const bool channels = form->tags.syntax == CHAT_CHANNELS;
    const char *open = channels ? CHANNEL_OPEN : form->think_open;
    const char *close = channels ? CHANNEL_CLOSE : form->think_close;
    *b = (struct api_budget){0};
    if (close[0] == '\0')
        return STATOR_OK;
    if (add(b, engine, open, &b->n_open) && add(b, engine, message, &b->n_message) &&
        add(b, engine, close, &b->n_close))
        return STATOR_OK;
    *b = (struct api_budget){0};
    return message[0] == '\0'
               ? STATOR_OK
               : error_set(
                     e, STATOR_USAGE,
                     "server.reasoning_message has too many tokens: together with the tags of reasoning "
                     "at most %d are possible",
                     STATOR_FORCED);
}

bool api_budget_of(const struct api_budget *b, uint32_t tokens, bool begun, stator_budget *out) {
    const uint32_t n = b->n_message + b->n_close;
    if (n == 0)
        return false;
    *out = (stator_budget){.size = sizeof *out,
                           .tokens = tokens,
                           .begun = begun,
                           .open = b->tokens,
                           .n_open = b->n_open,
                           .close = b->tokens + b->n_open + b->n_message,
                           .n_close = b->n_close,
                           .queue = b->tokens + b->n_open,
                           .n_queue = n};
    return true;
}
