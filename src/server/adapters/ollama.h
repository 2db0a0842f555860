/* Ollama's API, as https://github.com/ollama/ollama/blob/main/docs/api.md describes it: chats, texts, and
 * what clients ask about the model. Streams are lines of JSON. Models are neither fetched nor exchanged here.
 */
#ifndef STATOR_SERVER_OLLAMA_H
#define STATOR_SERVER_OLLAMA_H

#include "server/http/http.h"
#include "server/openai/api_jobs.h"

/* Routes; context: struct api. */
http_function ollama_chat, ollama_generate, ollama_tags, ollama_ps, ollama_show, ollama_version;
http_function ollama_embed, ollama_embeddings; /* ollama_embed.c */
/* {"error": message} */
http_error_form ollama_error;

/* ollama_request.c: messages, options, format, think, .. as fields of chat completions; prompt and system as
 * a chat, or (raw, suffix, or a model without a template) as a completion. Fields that it does not know are
 * handed on as they are. */
api_translate ollama_translate_chat, ollama_translate_generate;
/* Whether a name, with or without the tag ":latest", is one that requests may give the model. */
bool ollama_names(const struct api_model *m, const char *name);
/* ollama_reply.c */
extern const struct api_voice ollama_chat_voice, ollama_generate_voice;

/* ollama_model.c: what the files share. */
#define OLLAMA_TIME 40 /* bytes of a time, with the NUL */
/* As RFC 3339 has it, in UTC. */
void ollama_time(int64_t seconds, long ns, char out[OLLAMA_TIME]);
/* What build writes, with 200. */
void ollama_reply(struct http_exchange *x, void (*build)(struct json *j, const void *of), const void *of);

#endif
