/* One answer while its tokens come: text, stop strings, reasoning and calls, log probabilities. */
#ifndef STATOR_SERVER_API_ANSWER_H
#define STATOR_SERVER_API_ANSWER_H

#include "chat/chat_parse.h"
#include "server/request/api_stop.h"
#include "server/openai/api_token.h"

/* A token, and its log probabilities if the request has them; n_top of stator_logprob follow. */
struct api_entry {
    uint32_t offset; /* bytes of the answer's text in front of the token, */
    uint32_t characters;
    stator_logprob is;
    uint32_t n_top;
};

struct api_answer {
    stator_decoder decoder;
    struct api_stop stop;
    struct chat_parse parse;
    struct api_text stage;        /* let go by stop, on its way to parse */
    uint32_t decoded, characters; /* of the text so far, with what is held back */
    uint32_t released;            /* bytes that passed `stop` */
    struct api_text entries;      /* struct api_entry and its kin, in order, if keeps_tokens */
    uint32_t n_tokens;
    bool keeps_tokens;
};

/* form NULL: text alone. What form, types and sink point to must stay. */
void api_answer_begin(struct api_answer *a, const struct chat_form *form, bool thinks, bool tools,
                      const struct chat_types *types, const struct chat_sink *sink, bool keeps_tokens);
/* A token event. False: the text has ended, at a stop string or where the model ends its turn. */
bool api_answer_token(struct api_answer *a, struct api_tokens *tokens, const struct api_stops *stops,
                      const stator_event *ev);
/* The model has ended: what was held back comes out. */
void api_answer_end(struct api_answer *a, struct api_tokens *tokens, const struct api_stops *stops);
/* Bytes of entries whose tokens' text has come out (all of it began in front of a stop string). */
size_t api_answer_told(const struct api_answer *a, bool ended);
bool api_answer_failed(const struct api_answer *a); /* no memory */
void api_answer_free(struct api_answer *a);

/* Entry at *at of n bytes of entries, and its top; *at moves on. */
struct api_entry api_answer_entry(const char *entries, size_t *at, stator_logprob top[STATOR_TOP_LOGPROBS]);

#endif
