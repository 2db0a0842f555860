/* From a request to the ids of its prompts. */
#ifndef STATOR_SERVER_API_PROMPT_H
#define STATOR_SERVER_API_PROMPT_H

#include "server/request/api_request.h"

/* A chat's prompt: what the template makes of the request. text points into memory (aligned to 16); the
 * pool is not used. stop: the rendering fails once this is not 0. alone: no other request is served, so
 * waiting would not help if memory is short. Any thread. */
bool api_prompt_render(const struct api_model *model, const struct api_request *r, const atomic_int *stop,
                       void *memory, size_t bytes, bool alone, const char **text, size_t *length,
                       struct api_failure *why);
/* Bytes that a template can have now. */
size_t api_prompt_room(void);
/* The ids of a text, as `stator run` has them (add_special), or of a rendered template. At most capacity. */
bool api_prompt_ids(stator *engine, const char *text, size_t length, bool add_special, int32_t *ids,
                    size_t capacity, size_t *n, struct api_failure *why);
/* The ids of prompt number `prompt` of a request that has r->infill:
 * [BOS] (repository "myproject\n", file name "\n" text, .., file "filename\n") prefix PROMPT suffix SUFFIX
 * middle, as llama-server orders them (a file without a token of its own begins with "--- snippet ---");
 * without other files, what stands in the brackets is left out. Of other files the last ones are kept that
 * leave room for max_new tokens. Control tokens in texts are texts. As api_prompt_ids. */
bool api_prompt_infill(const stator *engine, const stator_infill_tokens *t, const struct api_request *r,
                       uint32_t prompt, int32_t *ids, size_t capacity, size_t *n, struct api_failure *why);
/* Whether n tokens fit; *max_new: how many are generated at most. wanted 0: the default, as far as there is
 * room; API_REST: all that there is room for; more than that is cut or refused (model->clamp_tokens). */
bool api_prompt_fits(const struct api_model *model, size_t n, uint32_t wanted, uint32_t *max_new,
                     struct api_failure *why);

#endif
