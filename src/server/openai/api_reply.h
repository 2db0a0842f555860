/* The JSON of answers, as OpenAI's chat completions and completions have it. */
#ifndef STATOR_SERVER_API_REPLY_H
#define STATOR_SERVER_API_REPLY_H

#include "server/openai/api_jobs.h"

struct json;

extern const struct api_voice api_reply_chat, api_reply_completion;

const char *api_reply_finish(enum api_finish finish);
/* Tokens of all prompts, each once; of them cached; of all answers. */
void api_reply_count(const struct api_job_state *job, uint64_t *prompt, uint64_t *cached,
                     uint64_t *generated);
/* "timings" of the answers first .. first + n - 1, added up. */
void api_reply_timings(struct json *j, const struct api_choice *first, uint32_t n);
/* An array of that name: the log probabilities of the tokens in the first bytes of the choice's entries. ids:
 * also the tokens' ids, as llama-server has them. */
void api_reply_logprobs(struct json *j, const char *name, const struct api_choice *c, size_t entries,
                        bool ids);
/* A call's id: the job's, and its number. */
void api_reply_call_id(const struct api_choice *c, uint32_t call, char out[48]);

#endif
