/* Jobs that answer with vectors or with scores: each text of a request is a request of the engine
 * (STATOR_EMBED), and at most twice as many as run at a time are in its queue. When all have ended the answer
 * is written, piece by piece if it is long, so that the pool holds the vectors and one piece.
 *
 * Lives: a job is made by api_vector_jobs_answer, and is freed when its exchange is over. Ends of requests
 * that come later belong to nobody. Thread: the loop's. Memory: the pool. */
#ifndef STATOR_SERVER_API_VECTOR_JOBS_H
#define STATOR_SERVER_API_VECTOR_JOBS_H

#include "server/openai/api_jobs.h"
#include "server/request/api_vectors.h"

struct api_vector_job;

/* How an API tells the answer. The functions append to out; no memory: out->failed. */
struct api_vector_form {
    const char *path;
    enum api_vectors_kind kind;
    bool (*names)(const struct api_model *m, const char *name);
    void (*begin)(struct api_text *out, const struct api_vector_job *job);
    /* Result i, in the order of the answer. */
    void (*item)(struct api_text *out, const struct api_vector_job *job, uint32_t i);
    void (*end)(struct api_text *out, const struct api_vector_job *job);
};

struct api_vector_item {
    uint64_t request; /* 0: it was not submitted, or has ended */
    bool submitted, done;
};

struct api_vector_job {
    struct api_vector_job *next;
    struct api *api;
    struct http_exchange *x; /* NULL: the exchange is over */
    const struct api_vector_form *form;
    struct api_vectors_request request;
    char id[48];
    uint64_t started_ns, took_ns;
    uint64_t tokens, cached;            /* of the texts that have ended */
    uint32_t first, next_item, running; /* first: all items before it are done */
    uint32_t results, told; /* of the answer: results that it has, and that are in `out` already */
    bool all_told, begun;   /* the end is in `out`; the stream has begun */
    struct api_text out;
    uint32_t width;  /* values of a vector; SCORES: 1 */
    float *values;   /* [n][width] */
    uint32_t *order; /* SCORES: items by falling score */
    struct api_vector_item items[];
};

/* The exchange's body becomes a job, or the client gets an error. */
void api_vector_jobs_answer(struct api *api, struct http_exchange *x, const struct api_vector_form *form);
/* False: the event is of no such job. */
bool api_vector_jobs_event(struct api *api, const stator_event *ev);
/* Submits what found the queue full, and ends what has taken longer than longest_ns (0: no limit). */
void api_vector_jobs_tick(struct api *api, uint64_t now_ns, uint64_t longest_ns);
void api_vector_jobs_cancel_all(struct api *api, const char *why);
uint32_t api_vector_jobs_count(const struct api *api);
/* Request number `index` of these jobs, as api_get_job. */
bool api_vector_jobs_get(const struct api *api, uint32_t index, struct api_job *out);

/* api_vectors_reply.c: what forms share. A vector as an array of numbers, or as the bytes in base64. */
void api_vectors_put(struct json *j, const char *name, const struct api_vector_job *job, uint32_t i);
/* Routes; context: struct api. */
http_function api_vectors_openai, api_vectors_llama, api_vectors_scores;

#endif
