/* OpenAI's API: routes /v1/.., /tokenize and their like, and the jobs, which are requests of the engine on
 * behalf of exchanges. server.c calls these, all on the loop's thread. */
#ifndef STATOR_SERVER_API_H
#define STATOR_SERVER_API_H

#include "server/server.h"

/* Before the weights are loaded (after stator_prepare: texts can be tokenized): adds the routes, takes from
 * the pool what it needs for good. */
stator_status api_open(struct server *s, stator_error *e);
/* When the loop has ended: ends the thread that renders. s->api may be NULL. */
void api_close(struct server *s);
/* The engine may have events, or a template is rendered: polls until it has none. */
void api_poll(struct server *s);
/* A few times a second, in every phase: pings, timeouts. */
void api_tick(struct server *s, uint64_t now_ns);
/* Ends every job soon, each client with an error that says `why` (at the end of a drain). */
void api_cancel_all(struct server *s, const char *why);
/* Jobs whose exchanges are not answered completely. */
uint32_t api_jobs(const struct server *s);

/* The chat template that requests are rendered by, the config's or the model's; NULL: there is none. */
const char *api_template(const struct server *s, size_t *n);

/* `name` is one of the model's. From api_open on. */
bool api_names_model(const struct server *s, const char *name);

/* A job as /slots shows it. */
struct api_job {
    uint64_t request; /* stator_get_request tells the rest */
    const char *id;   /* "chatcmpl-.." */
    const char *path; /* "/v1/chat/completions" */
    bool stream;
};
/* Job number `index`, in the order of their coming; false past the last one. */
bool api_get_job(const struct server *s, uint32_t index, struct api_job *out);

#endif
