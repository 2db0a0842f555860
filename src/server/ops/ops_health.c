/* /health: 200 only while requests are really served. */
#include "server/ops/ops_inside.h"

#include <stdio.h>

#define LATE                                                                                                 \
    10 /* a step is late after this part of the deadline, at which its device is taken to be lost            \
        */

struct health {
    const char *status;
    const char *message; /* or NULL */
    stator_stats stats;
    bool has_stats;
};

static void write_health(const void *from, struct json *j) {
    const struct health *h = from;
    json_open_object(j, NULL);
    json_put_string(j, "status", h->status);
    if (h->message != NULL)
        json_put_string(j, "message", h->message);
    if (h->has_stats) {
        json_put_u64(j, "running", h->stats.running);
        json_put_u64(j, "waiting", h->stats.waiting);
    }
    json_close(j);
}

void ops_health(void *context, struct http_exchange *x) {
    struct server *s = context;
    struct health h = {.status = "ok", .stats = {.size = sizeof h.stats}};
    char text[160];
    server_look_for_fault(s);
    if (s->phase != SERVER_LOADING)
        h.has_stats = stator_get_stats(s->engine, &h.stats, NULL) == STATOR_OK;
    if (s->phase == SERVER_LOADING) {
        h.status = "loading";
        h.message = "the model is being loaded";
    } else if (s->phase == SERVER_FAULTY) {
        h.status = "fault";
        h.message = s->fault;
    } else if (s->phase == SERVER_DRAINING) {
        h.status = "draining";
        h.message = "the server is shutting down";
    } else if (h.stats.stuck_ns > s->settings.deadline_ns / LATE) {
        snprintf(text, sizeof text, "a step is under way for %.1f s (devices.deadline is %.1f s)",
                 (double)h.stats.stuck_ns * 1e-9, (double)s->settings.deadline_ns * 1e-9);
        h.status = h.stats.stuck_ns > s->settings.deadline_ns ? "stuck" : "late";
        h.message = text;
    }
    ops_reply_json(x, h.message == NULL ? 200 : 503, write_health, &h);
}
