/* What the files of ops_*.c share. */
#ifndef STATOR_SERVER_OPS_INSIDE_H
#define STATOR_SERVER_OPS_INSIDE_H

#include "base/json_writer.h"
#include "server/openai/api.h"
#include "server/http/http.h"
#include "server/server.h"

/* A text that is made in memory of the pool; what does not fit is 503. write is called twice, to count and to
 * write, and must say the same both times: figures are taken before. */
struct ops_text {
    char *out; /* NULL: only count */
    size_t n, capacity;
};
__attribute__((format(printf, 2, 3))) void ops_put(struct ops_text *t, const char *fmt, ...);
void ops_no_memory(struct http_exchange *x); /* 503 */
void ops_reply_text(struct http_exchange *x, const char *type,
                    void (*write)(const void *from, struct ops_text *t), const void *from);
void ops_reply_json(struct http_exchange *x, int status, void (*write)(const void *from, struct json *j),
                    const void *from);

/* What the engine does for jobs, in the order of their coming. */
struct ops_slot {
    struct api_job job;
    stator_request_stats stats;
};
/* *n of them, the pool's, to be freed. NULL: no memory. */
struct ops_slot *ops_take_slots(struct server *s, uint32_t *n);
/* An array of that name. */
void ops_write_slots(const struct ops_slot *list, uint32_t n, struct json *j, const char *name);

/* The routes' functions; context is the server. */
void ops_metrics(void *context, struct http_exchange *x);
void ops_health(void *context, struct http_exchange *x);
void ops_memory(void *context, struct http_exchange *x);
void ops_slots(void *context, struct http_exchange *x);
void ops_props(void *context, struct http_exchange *x);
void ops_plan(void *context, struct http_exchange *x);
void ops_report(void *context, struct http_exchange *x);
void ops_models(void *context, struct http_exchange *x);
void ops_model(void *context, struct http_exchange *x); /* one, by name: OPS_MODEL NAME */
#define OPS_MODEL "/v1/models/"

#endif
