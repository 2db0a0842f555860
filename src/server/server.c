#include "server/server.h"

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

struct server_loop {
    struct server server;
    struct edge_thread thread;
    atomic_int main_says;
    int wake_fd; /* the main thread has said something, or api_poll has something to do */
    struct event wake, engine, tick;
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
    http_close_soon(l->server.http);
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
    struct server_loop *l = context;
    (void)fd;
    (void)what;
    api_poll(&l->server);
}

static void begin_serving(struct server_loop *l) {
    struct server *s = &l->server;
    s->info = (stator_info){.size = sizeof s->info};
    (void)stator_get_info(s->engine, &s->info, NULL);
    s->phase = SERVER_READY;
    if (event_assign(&l->engine, s->base, stator_event_fd(s->engine), EV_READ | EV_PERSIST, on_engine, l) !=
            0 ||
        event_add(&l->engine, NULL) != 0) {
        l->result = STATOR_FAILED;
        end_soon(l, "STATUS=no memory");
        return;
    }
    tell(l, "READY=1\nSTATUS=serving");
}

static void on_wake(evutil_socket_t fd, short what, void *context) {
    struct server_loop *l = context;
    uint64_t n = 0;
    (void)what;
    (void)!read(fd, &n, sizeof n);
    const int says = atomic_load(&l->main_says);
    if (says == SAYS_STARTED && l->server.phase == SERVER_LOADING)
        begin_serving(l);
    else if (says == SAYS_FAILED)
        end_soon(l, "STATUS=the start has failed");
    if (l->server.phase != SERVER_LOADING)
        api_poll(&l->server);
}

/* A signal: while loading it ends the start (whose failure ends the server), afterwards it drains. */
static void look_for_signal(struct server_loop *l) {
    struct server *s = &l->server;
    if (atomic_load(l->server.signal) == 0)
        return;
    if (s->phase == SERVER_LOADING) {
        if (atomic_load(&l->main_says) == SAYS_LOADING)
            stator_cancel(s->engine, 0);
    } else if (s->phase == SERVER_READY) {
        s->phase = SERVER_DRAINING;
        end_soon(l, "STATUS=running requests end");
    } else {
        end_soon(l, "STATUS=ending");
    }
}

/* The end, when all is answered, or when it takes too long. */
static void look_for_end(struct server_loop *l) {
    struct server *s = &l->server;
    if (l->ends_since_ns == 0)
        return;
    const uint64_t waited = clock_ns() - l->ends_since_ns;
    const uint64_t most = s->phase == SERVER_DRAINING ? s->settings.request_timeout_ns : LAST_ANSWERS_NS;
    if (waited > most && !l->cancelled) {
        l->cancelled = true;
        api_cancel_all(s, "the server is shutting down");
    }
    if (http_exchanges(s->http) == 0 || waited > most + LAST_ANSWERS_NS)
        event_base_loopbreak(s->base);
}

static void give_signs_of_life(struct server_loop *l, uint64_t now) {
    if (l->notify.watchdog_ns != 0 && !server_is_stuck(&l->server) &&
        (l->server.phase != SERVER_FAULTY || l->server.settings.stay_on_fault))
        tell(l, "WATCHDOG=1");
    if (l->server.phase == SERVER_LOADING && now - l->extended_ns > EXTEND_NS) {
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
    server_look_for_fault(&l->server);
    api_tick(&l->server, now);
    http_tick(l->server.http);
    give_signs_of_life(l, now);
    look_for_end(l);
}

static void *run_loop(void *context) {
    struct server_loop *l = context;
    if (event_base_dispatch(l->server.base) < 0)
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

static stator_status need_open_files(stator_error *e) {
    int fds[OPEN_FILES];
    int n = 0;
    while (n < OPEN_FILES && (fds[n] = eventfd(0, EFD_CLOEXEC)) >= 0)
        n++;
    const int why = errno;
    for (int i = 0; i < n; i++)
        close(fds[i]);
    if (n == OPEN_FILES)
        return STATOR_OK;
    struct rlimit limit = {0};
    if (why == EMFILE && getrlimit(RLIMIT_NOFILE, &limit) == 0)
        return error_set(
            e, STATOR_FAILED,
            "a server opens %d files and sockets more, and only %d are left (ulimit -n is %llu): raise it to "
            "at least %llu, and by one for each client",
            OPEN_FILES, n, (unsigned long long)limit.rlim_cur,
            (unsigned long long)limit.rlim_cur + (unsigned)(OPEN_FILES - n));
    return error_set(e, STATOR_FAILED, "a server opens %d files and sockets more, but after %d: %s",
                     OPEN_FILES, n, strerror(why));
}

static stator_status open_base(struct server_loop *l, stator_error *e) {
    stator_status st = need_open_files(e);
    if (st != STATOR_OK)
        return st;
    struct event_config *c = event_config_new();
    if (c == NULL)
        return too_small("libevent", e);
    (void)event_config_set_flag(c, EVENT_BASE_FLAG_NOLOCK | EVENT_BASE_FLAG_IGNORE_ENV);
    (void)event_config_require_features(c, EV_FEATURE_EARLY_CLOSE);
    l->server.base = event_base_new_with_config(c);
    event_config_free(c);
    if (l->server.base == NULL)
        return too_small("libevent", e);
    l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (l->wake_fd < 0)
        return error_set(e, STATOR_FAILED, "eventfd: %s", strerror(errno));
    const struct timeval tick = {.tv_usec = TICK_US};
    if (event_assign(&l->wake, l->server.base, l->wake_fd, EV_READ | EV_PERSIST, on_wake, l) != 0 ||
        event_assign(&l->tick, l->server.base, -1, EV_PERSIST, on_tick, l) != 0 ||
        event_add(&l->wake, NULL) != 0 || event_add(&l->tick, &tick) != 0)
        return too_small("libevent", e);
    return STATOR_OK;
}

static stator_status open_parts(struct server_loop *l, stator_error *e) {
    struct server *s = &l->server;
    s->info = (stator_info){.size = sizeof s->info};
    stator_status st = stator_get_info(s->engine, &s->info, e);
    s->settings.max_body = config_max_body(s->settings.max_body, s->info.context);
    if (st == STATOR_OK)
        st = request_log_open(&l->log, &s->settings, e);
    if (st == STATOR_OK)
        st = open_base(l, e);
    if (st == STATOR_OK)
        st = http_open(s->base, &s->settings, &s->http, e);
    if (st != STATOR_OK)
        return st;
    http_set_log(s->http, request_log_write, &l->log);
    ops_add_routes(s);
    if (s->settings.page)
        page_add_routes(s);
    st = api_open(s, e);
    if (st == STATOR_OK)
        adapters_add_routes(s);
    if (st == STATOR_OK)
        st = edge_thread_prepare(&l->thread, WHAT, e);
    if (st != STATOR_OK)
        return st;
    http_measure_pool(s->http);
    return edge_thread_start(&l->thread, WHAT, run_loop, l, e);
}

stator_status server_open(stator *engine, const struct server_settings *settings, const atomic_int *signal,
                          struct server **out, stator_error *e) {
    void *memory = NULL;
    uint64_t bytes = 0;
    *out = NULL;
    stator_status st = stator_edge_memory(engine, &memory, &bytes, e);
    if (st != STATOR_OK)
        return st;
    edge_pool_init(memory, bytes);
    edge_pool_serve_libraries();
    struct server_loop *l = edge_pool_zeroed(1, sizeof *l);
    if (l == NULL)
        return too_small("the server", e);
    struct server *s = &l->server;
    s->engine = engine;
    s->settings = *settings;
    s->own = l;
    s->created = time(NULL);
    s->signal = signal;
    l->wake_fd = -1;
    l->log.fd = -1;
    l->extended_ns = clock_ns();
    notify_open(&l->notify);
    st = open_parts(l, e);
    if (st == STATOR_OK)
        *out = s;
    else
        server_close(s);
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
    if (l->result == STATOR_DEVICE)
        return error_set(e, STATOR_DEVICE, "%s", s->fault);
    if (l->result != STATOR_OK)
        return error_set(e, l->result, "the event loop of the server has failed");
    return STATOR_OK;
}

void server_close(struct server *s) {
    if (s == NULL)
        return;
    struct server_loop *l = s->own;
    api_close(s);
    http_close(s->http);
    edge_thread_free(&l->thread);
    if (s->base != NULL)
        event_base_free(s->base);
    if (l->wake_fd >= 0)
        close(l->wake_fd);
    request_log_close(&l->log);
    notify_close(&l->notify);
    edge_pool_free(l);
}
