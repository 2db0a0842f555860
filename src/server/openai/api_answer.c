#include "server/openai/api_answer.h"

#include "base/check.h"

#include <string.h>

void api_answer_begin(struct api_answer *a, const struct chat_form *form, bool thinks, bool tools,
                      const struct chat_types *types, const struct chat_sink *sink, bool keeps_tokens) {
    *a = (struct api_answer){.keeps_tokens = keeps_tokens};
    a->decoder.size = sizeof a->decoder;
    a->decoder.started = 1; /* it goes on from the prompt: a leading blank belongs to the text */
    chat_parse_begin(&a->parse, form, thinks, tools, types, sink, api_text_resize, NULL);
}

void api_answer_free(struct api_answer *a) {
    chat_parse_free(&a->parse);
    api_text_free(&a->stage);
    api_text_free(&a->entries);
}

bool api_answer_failed(const struct api_answer *a) {
    return a->parse.failed || a->stage.failed || a->entries.failed;
}

static void put_entry(struct api_answer *a, const stator_event *ev) {
    const struct api_entry entry = {.offset = a->decoded,
                                    .characters = a->characters,
                                    .is = {.token = ev->token, .logprob = ev->logprob},
                                    .n_top = ev->n_top};
    api_text_put(&a->entries, (const char *)&entry, sizeof entry);
    api_text_put(&a->entries, (const char *)ev->top, ev->n_top * sizeof ev->top[0]);
}

/* Text on its way; false: a stop string. */
static bool feed(struct api_answer *a, const struct api_stops *stops, const char *p, size_t n) {
    a->decoded += (uint32_t)n;
    for (size_t i = 0; i < n; i++)
        a->characters += ((unsigned char)p[i] & 0xC0) != 0x80;
    a->stage.n = 0;
    const bool goes = api_stop_feed(&a->stop, stops, p, n, &a->stage);
    a->released += (uint32_t)a->stage.n;
    if (a->stage.n > 0)
        chat_parse_feed(&a->parse, a->stage.p, a->stage.n);
    return goes && !a->parse.over;
}

bool api_answer_token(struct api_answer *a, struct api_tokens *tokens, const struct api_stops *stops,
                      const stator_event *ev) {
    size_t n = 0;
    a->n_tokens++;
    if (a->keeps_tokens)
        put_entry(a, ev);
    const char *p = api_token_next(tokens, &a->decoder, ev->token, &n);
    const bool goes = feed(a, stops, p, n);
    if (!goes)
        chat_parse_end(&a->parse);
    return goes;
}

void api_answer_end(struct api_answer *a, struct api_tokens *tokens, const struct api_stops *stops) {
    size_t n = 0;
    const char *p = api_token_next(tokens, &a->decoder, -1, &n);
    if (feed(a, stops, p, n)) {
        a->stage.n = 0;
        api_stop_flush(&a->stop, &a->stage);
        a->released += (uint32_t)a->stage.n;
        if (a->stage.n > 0)
            chat_parse_feed(&a->parse, a->stage.p, a->stage.n);
    }
    chat_parse_end(&a->parse);
}

struct api_entry api_answer_entry(const char *entries, size_t *at, stator_logprob top[STATOR_TOP_LOGPROBS]) {
    struct api_entry entry;
    memcpy(&entry, entries + *at, sizeof entry);
    *at += sizeof entry;
    CHECK(entry.n_top <= STATOR_TOP_LOGPROBS);
    memcpy(top, entries + *at, entry.n_top * sizeof *top);
    *at += entry.n_top * sizeof *top;
    return entry;
}

size_t api_answer_told(const struct api_answer *a, bool ended) {
    if (a->entries.failed)
        return 0;
    if (ended && !a->stop.hit)
        return a->entries.n;
    stator_logprob top[STATOR_TOP_LOGPROBS];
    size_t at = 0;
    while (at < a->entries.n) {
        size_t next = at;
        if (api_answer_entry(a->entries.p, &next, top).offset >= a->released)
            break;
        at = next;
    }
    return at;
}
