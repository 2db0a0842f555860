/* OpenAI's Responses API, as https://platform.openai.com/docs/api-reference/responses and
 * /responses-streaming describe it. Nothing is stored: what refers to an earlier response is refused. */
#ifndef STATOR_SERVER_RESPONSES_H
#define STATOR_SERVER_RESPONSES_H

#include "server/http/http.h"
#include "server/openai/api_jobs.h"

/* encrypted_content of an item of reasoning: its text behind this mark. Clients that keep nothing else of
 * reasoning (Codex, ai) send it back. */
#define RESPONSES_MARK "stator:"

/* The route; context: struct api. */
http_function responses_create;

/* responses_request.c: input, instructions, tools, .. as fields of chat completions. Fields that it does not
 * know are handed on as they are. */
api_translate responses_translate;
/* responses_reply.c */
extern const struct api_voice responses_voice;

/* The members of a request that its response repeats, and what stands for one that is not given (JSON). A
 * request has the values in this order as api_request.repeated: JSON without line ends, or nothing for one
 * that is not given, and a line end behind each. */
#define RESPONSES_REPEATED 11
struct responses_member {
    const char *name, *otherwise;
};
extern const struct responses_member responses_repeated[RESPONSES_REPEATED];

#endif
