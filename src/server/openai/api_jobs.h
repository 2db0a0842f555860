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
#include "server/openai/api_budget.h"
#include "server/request/api_prompt.h"
#include "server/openai/api_render.h"
#include "server/request/api_request.h"
#include "server/request/api_structure.h"
#include "server/http/http.h"

#include <time.h>

#define API_BUCKETS 256 /* of requests by id */

/* The kinds of events of a stream. */
enum api_piece {
    API_PIECE_BEGIN, /* once, in front of all others */
    API_PIECE_CONTENT,
    API_PIECE_REASONING,
    API_PIECE_CALL,      /* the name of the choice's newest call, */
    API_PIECE_ARGUMENTS, /* and more of its arguments */
    API_PIECE_END
};

struct api_choice;
struct api_job_state;

/* How an API tells what becomes of a job. The functions append to out; no memory: out->failed. */
struct api_voice {
    const char *id, *call_id; /* what ids of answers and calls begin with */
    bool single;              /* an answer has one choice */
    bool no_logprobs;         /* and no log probabilities */
    bool streams_tokens;      /* the events have the ids of their tokens */
    bool lines;               /* a stream is lines of JSON, not events */
    bool keeps;               /* the events need what was told before: streams keep their texts too */
    void (*event)(struct api_text *out, struct api_choice *c, enum api_piece piece, const char *p, size_t n);
    /* Behind the last event of all choices; NULL: nothing is. */
    void (*end)(struct api_text *out, struct api_job_state *job);
    /* The stream fails here. */
    void (*error)(struct api_text *out, struct api_job_state *job, int status, const char *message);
    /* A stream's client waits, and nothing could be told for a while. note: for what; "": not known. */
    void (*ping)(struct api_text *out, struct api_job_state *job, const char *note);
    void (*whole)(struct api_text *out, struct api_job_state *job);
};

/* A route: how its requests are read and their answers told. */
struct api_way {
    const char *path;
    enum api_endpoint endpoint;
    const struct api_voice *voice;
    api_translate *translate; /* NULL: the body is OpenAI's */
    /* Answers with what the template made, nothing is generated; NULL: the model answers. */
    void (*rendered)(struct api_job_state *job, const struct api_text *text);
};

enum api_finish { API_FINISH_NONE, API_FINISH_STOP, API_FINISH_LENGTH, API_FINISH_CALLS };

/* A run of a kept answer, in the order in which they came: n bytes at `at` of content or reasoning, or (CALL)
 * call number `at`. */
struct api_part {
    enum api_piece kind;
    size_t at, n;
};

/* A call of a kept answer: bytes of call_texts. */
struct api_call {
    size_t name, name_length;
    size_t arguments, arguments_length; /* JSON, with numbers as the model wrote them */
};

struct api_choice {
    struct api_job_state *job;
    struct api_choice *next; /* of its bucket */
    uint64_t request;        /* 0: it was never submitted, or its end was polled */
    uint32_t index, prompt;
    uint32_t max_new; /* tokens that it may have */
    uint32_t slot;    /* whose text it becomes: the one that was asked for, or 0, until it has ended */
    struct api_answer answer;
    bool stopped; /* its text is complete, its request is cancelled */
    bool done;
    enum api_finish finish;
    struct chat_sink sink;
    uint32_t n_calls;          /* begun */
    bool calls_over;           /* the only call that the client wants has ended */
    struct api_text arguments; /* of a stream: of the call that is being written, not yet in an event */
    bool begun;                /* API_PIECE_BEGIN was told */
    enum api_piece last;       /* piece that came */
    uint32_t n_reasoning;      /* tokens of reasoning */
    struct api_text content, reasoning; /* of answers that are kept (whole ones, voice->keeps), */
    struct api_text parts;              /* and struct api_part of all */
    struct api_text calls;              /* struct api_call, */
    struct api_text call_texts;         /* whose texts these are */
    uint32_t n_items;                   /* for the voice: items that were told, */
    enum api_piece open;                /* and what the last of them is while it is not closed */
    stator_event end;
};

/* A job. /apply-template is a job too, with one choice that is never submitted. */
struct api_job_state {
    struct api_job_state *next, *previous;
    struct api *api;
    struct http_exchange *x; /* NULL: the exchange is over */
    enum api_endpoint endpoint;
    const struct api_voice *voice;
    const char *path;
    char id[48];
    time_t created;
    bool stream, include_usage, one_call, thinks, tools, tagged_calls, returns_reasoning, ignore_eos,
        logprobs, return_tokens;
    uint32_t top_logprobs;
    stator_sampling sampling; /* as it was asked for; without logit_bias */
    bool begun;               /* http_stream_begin was called */
    bool complete;            /* all of the answer is in out */
    bool held;
    enum api_goes_on goes_on;
    enum api_rendering render;
    struct api_request request; /* until the template is rendered */
    void (*rendered)(struct api_job_state *job, const struct api_text *text);
    struct api_stops *stops;
    struct api_text repeated;  /* of the request, for the voice */
    struct api_text type_rows; /* that `types` points to */
    struct chat_types types;
    stator_grammar *grammar; /* until the requests are submitted; NULL: any answer is allowed */
    int32_t *stop_ids;       /* n_stop_ids */
    uint32_t n_stop_ids;
    struct api_text out; /* of the stream: not yet written */
    uint64_t started_ns, wrote_ns;
    uint64_t n_events; /* for the voice */
    uint32_t n, n_choices, n_done;
    struct api_choice choices[];
};

struct api_vector_job; /* api_vector_jobs.h */
struct api_slot_job;   /* api_slots.h */

struct api {
    struct server *server;
    stator *engine;
    struct api_model model;
    char *file; /* the template of the config, if it names one */
    struct api_tokens tokens;
    struct api_budget budget;    /* of reasoning */
    stator_infill_tokens infill; /* if model.infills */
    char marker[64];             /* model.marker */
    struct api_structure_start structure_start;
    struct kept kept; /* arguments of calls; and what adapters keep */
    int32_t *ids;     /* room for a prompt: context */
    struct api_job_state *first, *last;
    struct api_vector_job *vector_jobs;
    struct api_slot_job *slot_jobs;
    const char *rerank; /* a reranker's template of query and document; NULL: there is none */
    size_t rerank_length;
    int32_t yes, no;               /* tokens whose logits are its scores; -1: none */
    struct api_renderer *renderer; /* NULL: the model has no template */
    struct api_choice *buckets[API_BUCKETS];
    uint64_t n_made, salt;
};

/* api_jobs.c */
/* Takes over what the request owns besides its JSON. NULL: no memory. */
struct api_job_state *api_jobs_make(struct api *api, struct http_exchange *x, const struct api_way *way,
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

/* Memory has ended for what the answer keeps: the job is about to fail. */
bool api_jobs_lack(const struct api_choice *c);
/* Number i of the parts that are kept, or of the calls. */
struct api_part api_jobs_part(const struct api_choice *c, size_t i);
struct api_call api_jobs_call(const struct api_choice *c, size_t i);

/* api_routes.c */
void api_routes_add(struct api *api);
/* The exchange's body becomes a job, or the client gets an error. */
void api_routes_answer(struct api *api, struct http_exchange *x, const struct api_way *way);
/* api_texts.c: their functions that need no job. */
http_function api_texts_tokenize, api_texts_detokenize, api_texts_template;

#endif
