/* Functions that the replies of all adapters share. */
#ifndef STATOR_SERVER_ADAPTER_REPLY_H
#define STATOR_SERVER_ADAPTER_REPLY_H

#include "server/openai/api_jobs.h"

struct json;

/* event: NAME, data: {..} */
void adapter_event(struct api_text *out, const char *name, void (*build)(struct json *j, const void *of),
                   const void *of);
/* Tokens of the prompt, and of them cached, as far as they are known now. */
void adapter_count(const struct api_choice *c, uint64_t *prompt, uint64_t *cached);
/* A call's arguments as an object. Those that broke off are kept as a text in it. */
void adapter_put_arguments(struct json *j, const char *name, const char *p, size_t n);
/* The text of a part that is content or reasoning. */
const char *adapter_text(const struct api_choice *c, const struct api_part *part);
/* An id that begins with `prefix`, of the job's item number i. */
void adapter_id(const struct api_choice *c, const char *prefix, uint32_t i, char out[48]);

#endif
