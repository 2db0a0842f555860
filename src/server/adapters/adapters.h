/* Other APIs over the jobs of chat completions: Anthropic's Messages, OpenAI's Responses, llama-server's and
 * Ollama's. An adapter makes of its request the body of a chat completion (api_translate) and tells the
 * answer in its own form (struct api_voice); all else is src/server/openai's. */
#ifndef STATOR_SERVER_ADAPTERS_H
#define STATOR_SERVER_ADAPTERS_H

#include "server/server.h"

/* After api_open. */
void adapters_add_routes(struct server *s);

#endif
