/* /health: 200 only while requests are really served. */
#include "server/ops/ops_inside.h"

#include <stdio.h>

#define LATE                                                                                                 \
    10 /* a step is late after this part of the deadline, at which its device is taken to be lost            \
        */

/* Of a model. */
struct health {
    const struct server *server;
    const char *status;
    const char *message; /* or NULL */
    stator_stats stats;
    bool has_stats;
    char text[160];
};

struct all {
    struct health of[SERVER_MODELS];
    uint32_t n;
    const struct health *worst; /* the first that does not serve, or the first */
};

static void write_one(const struct health *h, struct json *j) {
    json_put_string(j, "status", h->status);
    if (h->message != NULL)
        json_put_string(j, "message", h->message);
}

static void write_health(const void *from, struct json *j) {
    const struct all *all = from;
    uint64_t running = 0, waiting = 0;
    bool has_stats = true;
    for (uint32_t i = 0; i < all->n; i++) {
        running += all->of[i].stats.running;
        waiting += all->of[i].stats.waiting;
        has_stats = has_stats && all->of[i].has_stats;
    }
    json_open_object(j, NULL);
    write_one(all->worst, j);
    if (has_stats) {
        json_put_u64(j, "running", running);
        json_put_u64(j, "waiting", waiting);
    }
    if (all->n > 1) {
        json_open_array(j, "models");
        for (uint32_t i = 0; i < all->n; i++) {
            json_open_object(j, NULL);
            json_put_string(j, "name", server_model(all->of[i].server));
            write_one(&all->of[i], j);
            json_close(j);
        }
        json_close(j);
    }
    json_close(j);
}

static void look(struct server *s, struct health *h) {
    *h = (struct health){.server = s, .status = "ok", .stats = {.size = sizeof h->stats}};
    server_look_for_fault(s);
    if (s->phase != SERVER_LOADING)
        h->has_stats = stator_get_stats(s->engine, &h->stats, NULL) == STATOR_OK;
    if (s->phase == SERVER_LOADING) {
        h->status = "loading";
        h->message = "the model is being loaded";
    } else if (s->phase == SERVER_FAULTY) {
        h->status = "fault";
        h->message = s->fault;
    } else if (s->phase == SERVER_DRAINING) {
        h->status = "draining";
        h->message = "the server is shutting down";
    } else if (h->stats.stuck_ns > s->settings.deadline_ns / LATE) {
        snprintf(h->text, sizeof h->text, "a step has been in flight for %.1f s (devices.deadline is %.1f s)",
                 (double)h->stats.stuck_ns * 1e-9, (double)s->settings.deadline_ns * 1e-9);
        h->status = h->stats.stuck_ns > s->settings.deadline_ns ? "stuck" : "late";
        h->message = h->text;
    }
}

void ops_health(void *context, struct http_exchange *x) {
    struct all all = {.n = 0};
    struct server *s;
    for (; (s = server_at(context, all.n)) != NULL; all.n++) {
        look(s, &all.of[all.n]);
        if (all.worst == NULL || (all.worst->message == NULL && all.of[all.n].message != NULL))
            all.worst = &all.of[all.n];
    }
    ops_reply_json(x, all.worst->message == NULL ? 200 : 503, write_health, &all);
}
