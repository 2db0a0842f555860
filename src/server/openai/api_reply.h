/* The JSON of answers, as OpenAI's API has it. Every function appends to out; no memory: out->failed. */
#ifndef STATOR_SERVER_API_REPLY_H
#define STATOR_SERVER_API_REPLY_H

#include "server/openai/api_jobs.h"

enum api_piece {
    API_PIECE_ROLE,
    API_PIECE_CONTENT,
    API_PIECE_REASONING,
    API_PIECE_CALL,      /* the name of the choice's newest call, */
    API_PIECE_ARGUMENTS, /* and more of its arguments */
    API_PIECE_END
};

/* One event of a stream: data: {..}. */
void api_reply_event(struct api_text *out, struct api_choice *c, enum api_piece piece, const char *p,
                     size_t n);
void api_reply_usage_event(struct api_text *out, const struct api_job_state *job);
void api_reply_error_event(struct api_text *out, int status, const char *message);
/* The whole answer. */
void api_reply_whole(struct api_text *out, struct api_job_state *job);
const char *api_reply_finish(enum api_finish finish);
/* Tokens of all prompts, each once; of them cached; of all answers. */
void api_reply_count(const struct api_job_state *job, uint64_t *prompt, uint64_t *cached,
                     uint64_t *generated);
/* A call's id: the job's, and its number. */
void api_reply_call_id(const struct api_choice *c, uint32_t call, char out[48]);

#endif
