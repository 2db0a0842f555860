/* `stator serve`: an event loop on a thread of its own, from before the weights are loaded until the process
 * ends. The main thread drives the engine (open, plan, prepare, start, stop); the loop's thread does
 * everything else: HTTP, and after the start stator_submit, stator_poll and what the engine tells about
 * itself.
 *
 * Memory: the loop's thread takes all of its memory from the edge pool, which is a row of the plan and is
 * touched before the engine is sealed. */
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
struct event;
struct event_base;
struct http_exchange;

struct server {
    stator *engine;
    struct server_settings settings;
    stator_info info; /* since stator_prepare; again after the start */
    struct event_base *base;
    struct http *http;
    struct api *api; /* of api_*.c */
    enum server_phase phase;
    /* server.c's own */
    struct server_loop *loop;
};

/* False: the engine takes no request now, and the client got 503 that says why. */
bool server_takes(struct server *s, struct http_exchange *x);

/* The engine has said that a device failed, or has ended a request with STATOR_DEVICE: looks at its
 * statistics at once, not at the next tick. */
void server_look_for_fault(struct server *s);

#endif
