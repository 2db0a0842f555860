/* Jobs: exchanges whose answers the engine is generating. One job has an answer per prompt and n; each is a
 * request of the engine.
 *
 * Lives: a job is made by its route's function and is freed when its exchange is over (x == NULL) and the
 * ends of all its requests were polled. What was streamed and finds no room with the client waits in `out`,
 * and the job's requests are held until it is gone; http.h cuts readers that are too slow. Thread: the
 * loop's. Memory: the pool. */
#ifndef STATOR_SERVER_API_JOBS_H
#define STATOR_SERVER_API_JOBS_H

#include "server/openai/api.h"
#include "server/openai/api_answer.h"
#include "server/openai/api_render.h"
#include "server/openai/api_request.h"
#include "server/http/http.h"

#include <time.h>

#define API_BUCKETS 256 /* of requests by id */

enum api_finish { API_FINISH_NONE, API_FINISH_STOP, API_FINISH_LENGTH, API_FINISH_CALLS };

/* A call of a whole answer: bytes of call_texts. */
struct api_call {
    size_t name, name_length;
    size_t arguments, arguments_length; /* JSON, with numbers as the model wrote them */
};

struct api_choice {
    struct api_job_state *job;
    struct api_choice *next; /* of its bucket */
    uint64_t request;        /* 0: it was never submitted, or its end was polled */
    uint32_t index, prompt;
    struct api_answer answer;
    bool stopped; /* its text is complete, its request is cancelled */
    bool done;
    enum api_finish finish;
    struct chat_sink sink;
    uint32_t n_calls;                   /* begun */
    bool calls_over;                    /* the only call that the client wants has ended */
    struct api_text arguments;          /* of a stream: of the call under way, not yet in an event */
    struct api_text content, reasoning; /* of whole answers, */
    struct api_text calls;              /* and their struct api_call, */
    struct api_text call_texts;         /* whose texts these are */
    stator_event end;
};

/* Of an exchange; /apply-template is one too, with a choice that is never submitted. */
struct api_job_state {
    struct api_job_state *next, *previous;
    struct api *api;
    struct http_exchange *x; /* NULL: the exchange is over */
    enum api_endpoint endpoint;
    const char *path;
    char id[48];
    time_t created;
    bool stream, include_usage, one_call, thinks, tools;
    bool begun;    /* http_stream_begin was called */
    bool complete; /* all of the answer is in out */
    bool held;
    enum api_rendering render;
    struct api_request request; /* until the template is rendered */
    void (*rendered)(struct api_job_state *job, const struct api_text *text);
    struct api_stops *stops;
    struct api_text type_rows; /* that `types` points to */
    struct chat_types types;
    int32_t *stop_ids; /* n_stop_ids */
    uint32_t n_stop_ids;
    struct api_text out; /* of the stream: not yet written */
    uint64_t started_ns, wrote_ns;
    uint32_t n, n_choices, n_done;
    struct api_choice choices[];
};

struct api {
    struct server *server;
    stator *engine;
    struct api_model model;
    char *file; /* the template of the config, if it names one */
    struct api_tokens tokens;
    int32_t *ids; /* room for a prompt: context */
    struct api_job_state *first, *last;
    struct api_renderer *renderer; /* NULL: the model has no template */
    struct api_choice *buckets[API_BUCKETS];
    uint64_t n_made, salt;
};

/* api_jobs.c */
/* Takes over what the request owns besides its JSON. path: of its route; it must stay. NULL: no memory. */
struct api_job_state *api_jobs_make(struct api *api, struct http_exchange *x, const char *path,
                                    struct api_request *r, uint32_t n_choices);
void api_jobs_submitted(struct api_choice *c, uint64_t request);
void api_jobs_begin(struct api_choice *c);
/* The client gets an error, and its requests end. */
__attribute__((format(printf, 4, 5))) void api_jobs_fail(struct api_job_state *job, int status,
                                                         const char *param, const char *fmt, ...);
/* Frees the job if it is over; it may be gone afterwards. */
void api_jobs_settle(struct api_job_state *job);
/* What a text adds to an answer that is no model's: the prompt of `echo`. */
void api_jobs_put(struct api_choice *c, const char *p, size_t n);

/* The job's template is rendered; `rendered` goes on with its text. Takes over all of the request. */
void api_jobs_render(struct api_job_state *job, struct api_request *r,
                     void (*rendered)(struct api_job_state *job, const struct api_text *text));
/* A whole answer of no model: the exchange is over. */
void api_jobs_reply(struct api_job_state *job, const struct api_text *json);

/* The job's exchange, as http.h calls them. */
void api_jobs_drained(void *context, struct http_exchange *x);
void api_jobs_gone(void *context, struct http_exchange *x);

/* api_routes.c: adds the routes. */
void api_routes_add(struct api *api);
/* api_texts.c: their functions that need no job. */
http_function api_texts_tokenize, api_texts_detokenize, api_texts_template, api_texts_embeddings;

#endif
