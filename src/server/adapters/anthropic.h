/* Anthropic's Messages API, as https://docs.anthropic.com/en/api/messages and /en/api/messages-streaming
 * describe it. */
#ifndef STATOR_SERVER_ANTHROPIC_H
#define STATOR_SERVER_ANTHROPIC_H

#include "server/http/http.h"
#include "server/openai/api_jobs.h"

/* Routes; context: struct api. */
http_function anthropic_messages, anthropic_count;
/* {"type": "error", "error": {"type", "message"}} */
http_error_form anthropic_error;

/* anthropic_request.c: max_tokens, messages, system, tools, .. as fields of chat completions. Fields that it
 * does not know are handed on as they are. */
api_translate anthropic_translate;
/* anthropic_reply.c */
extern const struct api_voice anthropic_voice;
/* "invalid_request_error", "overloaded_error", .. of a status of HTTP. */
const char *anthropic_error_type(int status);

#endif
