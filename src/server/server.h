/* `stator serve`: an event loop on a thread of its own, from before the weights are loaded until the process
 * ends. (A further one renders chat templates: openai/api_render.h.) The main thread drives the engines
 * (open, plan, prepare, start, stop); the loop's thread does everything else: HTTP, and after the start
 * stator_submit, stator_poll and what the engine tells about itself.
 *
 * Memory: the loop's thread takes all of its memory, its stack included, from the edge pool, which is a row
 * of the plan and is in RAM before the engine is sealed. */
#ifndef STATOR_SERVER_SERVER_H
#define STATOR_SERVER_SERVER_H

#include "server/server_settings.h"
#include "stator.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum server_phase {
    SERVER_LOADING, /* weights: /health is 503, requests for the engine are refused with 503 */
    SERVER_READY,
    SERVER_DRAINING, /* SIGTERM: running requests end, new ones get 503 */
    SERVER_FAULTY    /* a device has failed: no request runs any more */
};

struct http;
struct api;
struct event_base;
struct http_exchange;
struct server_loop;

#define SERVER_GPUS   16 /* whose audits are shown */
#define SERVER_MODELS 8  /* that are served */

/* The last audit, of ops/ops_memory.c: to look at every page of the plan is not for free. */
struct server_audit {
    stator_audit host;
    stator_device_audit gpus[SERVER_GPUS];
    uint32_t n_gpus;
    uint64_t taken_ns, cost_ns; /* 0: there is none yet */
};

/* A model and what serves it. base, http, signal and own are the same for all models. */
struct server {
    stator *engine;
    struct server_settings settings;
    stator_info info; /* since stator_prepare; again after the start */
    struct event_base *base;
    struct http *http;
    struct api *api; /* of api_*.c */
    struct server_audit audit;
    enum server_phase phase;
    char fault[256];          /* FAULTY: what the engine says */
    int64_t created;          /* seconds since 1970 */
    const atomic_int *signal; /* not 0 once the process is asked to end; NULL: never */
    struct server_loop *own;  /* of server.c */
};

/* --- for the rest of the room, on the loop's thread */

/* False: the engine takes no request now, and the client got 503 that says why. */
bool server_takes(struct server *s, struct http_exchange *x);
/* A request has ended with STATOR_DEVICE: the engine is asked for a fault at once, not at the next tick. */
void server_look_for_fault(struct server *s);
/* A step has been in flight for longer than devices.deadline. */
bool server_is_stuck(const struct server *s);
/* api_poll is called soon. Any thread. */
void server_wake(struct server *s);
/* Log lines of requests that were lost: the log took none. */
uint64_t server_log_lost(const struct server *s);
/* The name of the model in the API: model.name, the first of server.alias, or its own. */
const char *server_model(const struct server *s);
/* The models in the order of the config, from any of them; NULL: there are not so many. */
struct server *server_at(const struct server *any, uint32_t index);

/* --- for app/serve.c, on the main thread */

/* Reads the settings of a config as stator_open would read it. */
stator_status server_read_settings(const char *config, const char *const *set, size_t n_set,
                                   struct server_settings *out, stator_error *e);
struct server_opening {
    stator *const *engines;                 /* [n], all prepared, with options.serve */
    const struct server_settings *settings; /* [n]; what is of the server itself is read of the first */
    uint32_t n;                             /* at most SERVER_MODELS */
    const atomic_int *signal;               /* becomes the number of a signal that asks the server to end */
};
/* Listens, and answers from now on. One server per process. */
stator_status server_open(const struct server_opening *o, struct server **out, stator_error *e);
uint16_t server_port(const struct server *s);
/* stator_start of all engines is through, or of one has failed, with this result. */
void server_started(struct server *s, stator_status st);
/* Until the server has ended: STATOR_OK, or STATOR_DEVICE after a fault. */
stator_status server_wait(struct server *s, stator_error *e);
/* After server_wait, and before stator_close. NULL is allowed. */
void server_close(struct server *s);

#endif
