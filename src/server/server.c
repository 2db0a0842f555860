#include "server/server.h"

#include "base/arith.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "server/adapters/adapters.h"
#include "server/openai/api.h"
#include "server/http/edge_pool.h"
#include "server/http/edge_thread.h"
#include "server/http/http.h"
#include "server/http/notify.h"
#include "server/ops/ops.h"
#include "server/page/page.h"
#include "server/request_log.h"
#include "server/server_choice.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define SECOND  ((uint64_t)1000000000)
#define TICK_US 200000
/* Answers that are complete may take so long to be read when the server ends. */
#define LAST_ANSWERS_NS (5 * SECOND)
#define EXTEND_NS       (5 * SECOND) /* how often systemd is told that loading goes on */
#define WHAT            "the server's thread"

/* What the main thread has said. */
enum { SAYS_LOADING, SAYS_STARTED, SAYS_FAILED };

/* A model that is served. */
struct served {
    struct server server;
    struct event engine;
};

struct server_loop {
    struct served *served;
    uint32_t n;
    struct edge_thread thread;
    atomic_int main_says;
    int wake_fd; /* the main thread has said something, or api_poll has something to do */
    struct event wake, tick;
    struct notify notify;
    struct request_log log;
    bool cancelled;         /* running requests were told to end */
    uint64_t ends_since_ns; /* it drains, or ends after a fault; 0: neither */
    uint64_t extended_ns;
    stator_status result;
};

static void tell(const struct server_loop *l, const char *what) {
    notify_send(&l->notify, what);
}

struct server *server_at(const struct server *any, uint32_t index) {
    return index < any->own->n ? &any->own->served[index].server : NULL;
}

/* What is the same for all models is read of the first. */
static struct server *first(const struct server_loop *l) {
    return &l->served[0].server;
}

/* --- phases */

static void read_stats(const struct server *s, stator_stats *out) {
    *out = (stator_stats){.size = sizeof *out};
    if (stator_get_stats(s->engine, out, NULL) != STATOR_OK)
        *out = (stator_stats){.size = sizeof *out};
}

bool server_is_stuck(const struct server *s) {
    stator_stats stats;
    if (s->phase == SERVER_LOADING)
        return false;
    read_stats(s, &stats);
    return stats.stuck_ns > s->settings.deadline_ns;
}

static void end_soon(struct server_loop *l, const char *why) {
    if (l->ends_since_ns != 0)
        return;
    l->ends_since_ns = clock_ns();
    http_close_soon(first(l)->http);
    tell(l, "STOPPING=1");
    tell(l, why);
}

void server_look_for_fault(struct server *s) {
    struct server_loop *l = s->own;
    stator_stats stats;
    if (s->phase == SERVER_LOADING || s->phase == SERVER_FAULTY)
        return;
    read_stats(s, &stats);
    if (stats.fault == STATOR_OK)
        return;
    s->phase = SERVER_FAULTY;
    memcpy(s->fault, stats.fault_text, sizeof s->fault);
    s->fault[sizeof s->fault - 1] = '\0';
    l->result = STATOR_DEVICE;
    if (!s->settings.stay_on_fault)
        end_soon(l, "STATUS=a device has failed");
    else
        tell(l, "STATUS=a device has failed; server.on_fault = \"stay\"");
}

bool server_takes(struct server *s, struct http_exchange *x) {
    switch (s->phase) {
    case SERVER_READY:
        return true;
    case SERVER_LOADING:
        http_reply_error(x, 503, NULL, NULL, "the model is being loaded; try again");
        return false;
    case SERVER_DRAINING:
        http_reply_error(x, 503, NULL, NULL, "the server is shutting down");
        return false;
    case SERVER_FAULTY:
        http_reply_error(x, 503, NULL, NULL, "a device has failed, no request runs any more: %s", s->fault);
        return false;
    }
    return false;
}

uint64_t server_log_lost(const struct server *s) {
    return s->own->log.lost;
}

const char *server_model(const struct server *s) {
    if (s->settings.name[0] != '\0')
        return s->settings.name;
    return s->info.model_name[0] != '\0' ? s->info.model_name : "model";
}

/* --- events of the loop */

static void on_engine(evutil_socket_t fd, short what, void *context) {
    (void)fd;
    (void)what;
    api_poll(context);
}

static void begin_serving(struct server_loop *l) {
    for (uint32_t i = 0; i < l->n; i++) {
        struct server *s = &l->served[i].server;
        struct event *engine = &l->served[i].engine;
        s->info = (stator_info){.size = sizeof s->info};
        (void)stator_get_info(s->engine, &s->info, NULL);
        s->phase = SERVER_READY;
        if (event_assign(engine, s->base, stator_event_fd(s->engine), EV_READ | EV_PERSIST, on_engine, s) !=
                0 ||
            event_add(engine, NULL) != 0) {
            l->result = STATOR_FAILED;
            end_soon(l, "STATUS=no memory");
            return;
        }
    }
    tell(l, "READY=1\nSTATUS=serving");
}

static void on_wake(evutil_socket_t fd, short what, void *context) {
    struct server_loop *l = context;
    uint64_t n = 0;
    (void)what;
    (void)!read(fd, &n, sizeof n);
    const int says = atomic_load(&l->main_says);
    if (says == SAYS_STARTED && first(l)->phase == SERVER_LOADING)
        begin_serving(l);
    else if (says == SAYS_FAILED)
        end_soon(l, "STATUS=the start has failed");
    for (uint32_t i = 0; i < l->n; i++)
        if (l->served[i].server.phase != SERVER_LOADING)
            api_poll(&l->served[i].server);
}

/* A signal: while loading it ends the start (whose failure ends the server), afterwards it drains. */
static void look_for_signal(struct server_loop *l) {
    if (atomic_load(first(l)->signal) == 0)
        return;
    bool drains = false, loads = false;
    for (uint32_t i = 0; i < l->n; i++) {
        struct server *s = &l->served[i].server;
        loads = loads || s->phase == SERVER_LOADING;
        if (s->phase == SERVER_LOADING && atomic_load(&l->main_says) == SAYS_LOADING)
            stator_cancel(s->engine, 0);
        drains = drains || s->phase == SERVER_READY;
        s->phase = s->phase == SERVER_READY ? SERVER_DRAINING : s->phase;
    }
    if (!loads)
        end_soon(l, drains ? "STATUS=running requests end" : "STATUS=ending");
}

/* The end, when all is answered, or when it takes too long. */
static void look_for_end(struct server_loop *l) {
    struct server *s = first(l);
    bool drains = false;
    if (l->ends_since_ns == 0)
        return;
    for (uint32_t i = 0; i < l->n; i++)
        drains = drains || l->served[i].server.phase == SERVER_DRAINING;
    const uint64_t waited = clock_ns() - l->ends_since_ns;
    const uint64_t most = drains ? s->settings.request_timeout_ns : LAST_ANSWERS_NS;
    for (uint32_t i = 0; i < l->n && waited > most && !l->cancelled; i++)
        api_cancel_all(&l->served[i].server, "the server is shutting down");
    l->cancelled = l->cancelled || waited > most;
    if (http_exchanges(s->http) == 0 || waited > most + LAST_ANSWERS_NS)
        event_base_loopbreak(s->base);
}

static void give_signs_of_life(struct server_loop *l, uint64_t now) {
    bool lives = l->notify.watchdog_ns != 0;
    for (uint32_t i = 0; i < l->n; i++) {
        const struct server *s = &l->served[i].server;
        lives = lives && !server_is_stuck(s) && (s->phase != SERVER_FAULTY || s->settings.stay_on_fault);
    }
    if (lives)
        tell(l, "WATCHDOG=1");
    if (first(l)->phase == SERVER_LOADING && now - l->extended_ns > EXTEND_NS) {
        l->extended_ns = now;
        tell(l, "EXTEND_TIMEOUT_USEC=60000000\nSTATUS=the model is being loaded");
    }
}

static void on_tick(evutil_socket_t fd, short what, void *context) {
    struct server_loop *l = context;
    const uint64_t now = clock_ns();
    (void)fd;
    (void)what;
    look_for_signal(l);
    for (uint32_t i = 0; i < l->n; i++) {
        server_look_for_fault(&l->served[i].server);
        api_tick(&l->served[i].server, now);
    }
    http_tick(first(l)->http);
    give_signs_of_life(l, now);
    look_for_end(l);
}

static void *run_loop(void *context) {
    struct server_loop *l = context;
    if (event_base_dispatch(first(l)->base) < 0)
        l->result = l->result == STATOR_OK ? STATOR_FAILED : l->result;
    return NULL;
}

/* --- the main thread's side */

stator_status server_read_settings(const char *config, const char *const *set, size_t n_set,
                                   struct server_settings *out, stator_error *e) {
    static struct config c; /* it is too large for a stack */
    stator_status st = config_load(config, set, n_set, &c, e);
    return st == STATOR_OK ? server_settings_read(&c, out, e) : st;
}

static stator_status too_small(const char *what, stator_error *e) {
    return error_set(e, STATOR_DOES_NOT_FIT, "server.memory is too small for %s: raise it", what);
}

/* What a server opens after this: libevent's epoll and signal pipe, the engine's event, the socket that
 * listens, a file of /proc, a datagram to systemd, and a few clients. libevent ends the process where it
 * finds no room for its own. */
#define OPEN_FILES 12

static stator_status need_open_files(uint32_t models, stator_error *e) {
    int fds[OPEN_FILES + SERVER_MODELS];
    int n = 0;
    const int most = OPEN_FILES + (int)models - 1; /* one of them is an engine's */
    while (n < most && (fds[n] = eventfd(0, EFD_CLOEXEC)) >= 0)
        n++;
    const int why = errno;
    for (int i = 0; i < n; i++)
        close(fds[i]);
    if (n == most)
        return STATOR_OK;
    struct rlimit limit = {0};
    if (why == EMFILE && getrlimit(RLIMIT_NOFILE, &limit) == 0)
        return error_set(
            e, STATOR_FAILED,
            "a server opens %d files and sockets more, and only %d are left (ulimit -n is %llu): raise it to "
            "at least %llu, and by one for each client",
            most, n, (unsigned long long)limit.rlim_cur,
            (unsigned long long)limit.rlim_cur + (unsigned)(most - n));
    return error_set(e, STATOR_FAILED, "a server opens %d files and sockets more, but after %d: %s", most, n,
                     strerror(why));
}

static stator_status open_base(struct server_loop *l, stator_error *e) {
    stator_status st = need_open_files(l->n, e);
    if (st != STATOR_OK)
        return st;
    struct event_config *c = event_config_new();
    if (c == NULL)
        return too_small("libevent", e);
    (void)event_config_set_flag(c, EVENT_BASE_FLAG_NOLOCK | EVENT_BASE_FLAG_IGNORE_ENV);
    (void)event_config_require_features(c, EV_FEATURE_EARLY_CLOSE);
    struct event_base *base = event_base_new_with_config(c);
    event_config_free(c);
    for (uint32_t i = 0; i < l->n; i++)
        l->served[i].server.base = base;
    if (base == NULL)
        return too_small("libevent", e);
    l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (l->wake_fd < 0)
        return error_set(e, STATOR_FAILED, "eventfd: %s", strerror(errno));
    const struct timeval tick = {.tv_usec = TICK_US};
    if (event_assign(&l->wake, base, l->wake_fd, EV_READ | EV_PERSIST, on_wake, l) != 0 ||
        event_assign(&l->tick, base, -1, EV_PERSIST, on_tick, l) != 0 || event_add(&l->wake, NULL) != 0 ||
        event_add(&l->tick, &tick) != 0)
        return too_small("libevent", e);
    return STATOR_OK;
}

/* Of all models: what they are, and how long a body may be. */
static stator_status read_models(struct server_loop *l, stator_error *e) {
    uint64_t longest = 0;
    stator_status st = STATOR_OK;
    for (uint32_t i = 0; i < l->n && st == STATOR_OK; i++) {
        struct server *s = &l->served[i].server;
        s->info = (stator_info){.size = sizeof s->info};
        st = stator_get_info(s->engine, &s->info, e);
        longest = ARITH_MAX(longest, config_max_body(s->settings.max_body, s->info.context));
    }
    for (uint32_t i = 0; i < l->n; i++)
        l->served[i].server.settings.max_body = longest;
    return st;
}

/* The routes of a model, in the order that http_set_choice knows. */
static stator_status open_model(struct server *s, stator_error *e) {
    ops_add_routes(s);
    stator_status st = api_open(s, e);
    if (st == STATOR_OK)
        adapters_add_routes(s);
    else if (s->own->n > 1)
        error_prefix(e, "model \"%s\"", server_model(s));
    return st;
}

static stator_status open_parts(struct server_loop *l, stator_error *e) {
    struct server *s = first(l);
    stator_status st = read_models(l, e);
    if (st == STATOR_OK)
        st = request_log_open(&l->log, &s->settings, e);
    if (st == STATOR_OK)
        st = open_base(l, e);
    if (st == STATOR_OK)
        st = http_open(s->base, &s->settings, &s->http, e);
    if (st != STATOR_OK)
        return st;
    http_set_log(s->http, request_log_write, &l->log);
    http_set_choice(s->http, server_choose, s);
    if (s->settings.page)
        page_add_routes(s);
    for (uint32_t i = 0; i < l->n && st == STATOR_OK; i++) {
        l->served[i].server.http = s->http;
        st = open_model(&l->served[i].server, e);
    }
    if (st == STATOR_OK)
        st = edge_thread_prepare(&l->thread, WHAT, e);
    if (st != STATOR_OK)
        return st;
    http_measure_pool(s->http);
    return edge_thread_start(&l->thread, WHAT, run_loop, l, e);
}

/* Each plan has a part of the memory. */
static stator_status open_pool(const struct server_opening *o, stator_error *e) {
    for (uint32_t i = 0; i < o->n; i++) {
        void *memory = NULL;
        uint64_t bytes = 0;
        stator_status st = stator_edge_memory(o->engines[i], &memory, &bytes, e);
        if (st != STATOR_OK)
            return st;
        if (i == 0)
            edge_pool_init(memory, bytes);
        else
            edge_pool_add(memory, bytes);
    }
    edge_pool_serve_libraries();
    return STATOR_OK;
}

stator_status server_open(const struct server_opening *o, struct server **out, stator_error *e) {
    CHECK(o->n > 0 && o->n <= SERVER_MODELS);
    *out = NULL;
    stator_status st = open_pool(o, e);
    if (st != STATOR_OK)
        return st;
    struct server_loop *l = edge_pool_zeroed(1, sizeof *l);
    struct served *served = l != NULL ? edge_pool_zeroed(o->n, sizeof *served) : NULL;
    if (served == NULL)
        return too_small("the server", e);
    l->served = served;
    l->n = o->n;
    for (uint32_t i = 0; i < o->n; i++) {
        struct server *s = &served[i].server;
        s->engine = o->engines[i];
        s->settings = o->settings[i];
        s->own = l;
        s->created = time(NULL);
        s->signal = o->signal;
        if (o->n > 1)
            s->settings.strict_model = true; /* a name that server_choose did not understand is refused */
    }
    l->wake_fd = -1;
    l->log.fd = -1;
    l->extended_ns = clock_ns();
    notify_open(&l->notify);
    st = open_parts(l, e);
    if (st == STATOR_OK)
        *out = first(l);
    else
        server_close(first(l));
    return st;
}

uint16_t server_port(const struct server *s) {
    return http_port(s->http);
}

void server_wake(struct server *s) {
    const uint64_t one = 1;
    (void)!write(s->own->wake_fd, &one, sizeof one);
}

void server_started(struct server *s, stator_status st) {
    atomic_store(&s->own->main_says, st == STATOR_OK ? SAYS_STARTED : SAYS_FAILED);
    server_wake(s);
}

stator_status server_wait(struct server *s, stator_error *e) {
    struct server_loop *l = s->own;
    edge_thread_join(&l->thread);
    for (uint32_t i = 0; i < l->n && l->result == STATOR_DEVICE; i++)
        if (l->served[i].server.phase == SERVER_FAULTY)
            return error_set(e, STATOR_DEVICE, "%s%s%s", l->n > 1 ? server_model(&l->served[i].server) : "",
                             l->n > 1 ? ": " : "", l->served[i].server.fault);
    if (l->result != STATOR_OK)
        return error_set(e, l->result, "the event loop of the server has failed");
    return STATOR_OK;
}

void server_close(struct server *s) {
    if (s == NULL)
        return;
    struct server_loop *l = s->own;
    for (uint32_t i = 0; i < l->n; i++)
        api_close(&l->served[i].server);
    http_close(s->http);
    edge_thread_free(&l->thread);
    if (s->base != NULL)
        event_base_free(s->base);
    if (l->wake_fd >= 0)
        close(l->wake_fd);
    request_log_close(&l->log);
    notify_close(&l->notify);
    edge_pool_free(l->served);
    edge_pool_free(l);
}
