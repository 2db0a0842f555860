/* Simulated sockets and events, in place of the kernel's and of libevent's loop, for the server on the
 * simulator's one thread (linked with --wrap). The seed says how many bytes a call takes, which of the events
 * that are ready comes next, and which calls fail. Descriptors of the simulation begin at SIM_FD; the others,
 * such as the engine's eventfd, are real. */
#ifndef STATOR_TESTS_SIM_NET_H
#define STATOR_TESTS_SIM_NET_H

#include "sim_engine.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

enum {
    SIM_SOCKETS = 24,
    SIM_FD = 5000,
    SIM_INBOX = 32768,
    SIM_WINDOW = 16384,
    SIM_EVENTS = 64,
    SIM_WHOLE = 32
}; /* a send of so few bytes is not cut */

enum sim_socket_state {
    SIM_NO_SOCKET,
    SIM_COMES, /* connected, not yet accepted */
    SIM_TAKEN,
    SIM_ENDED_BY_SERVER /* closed; the client may still read what came before */
};

struct sim_socket {
    enum sim_socket_state state;
    uint8_t in[SIM_INBOX]; /* to the server */
    size_t at_in, n_in;
    uint8_t out[SIM_WINDOW]; /* to the client, which has not read it */
    size_t n_out, window;
    bool fin;   /* the client sends no more */
    bool reset; /* the client is gone */
    bool shut;  /* the server sends no more */
    bool lost;  /* the server's end was a reset: what waited is gone */
};

struct sim_event {
    struct event *event;
    int fd;
    short wanted, active;
    bool added;
    uint64_t period_ns, due_ns;
    event_callback_fn call;
    void *context;
};

static struct {
    struct sim_socket sockets[SIM_SOCKETS];
    struct sim_event events[SIM_EVENTS];
    uint32_t n_events;
    int listener;
    uint32_t fails_in; /* of a thousand calls */
    bool loop_ended;
    uint64_t calls, partial, interrupted, none_left, aborted;
} net;

static void sim_net_begin(void) {
    memset(&net, 0, sizeof net);
    net.listener = -1;
}

static bool sim_net_fails(void) {
    return net.fails_in > 0 && sim_below(1000) < net.fails_in;
}

static struct sim_socket *sim_socket(int fd) {
    if (fd < SIM_FD)
        return NULL;
    if (fd >= SIM_FD + SIM_SOCKETS || net.sockets[fd - SIM_FD].state != SIM_TAKEN)
        sim_fail("a call with descriptor %d, which is closed", fd);
    net.calls++;
    return &net.sockets[fd - SIM_FD];
}

/* --- the client's side */

/* A new connection; -1: all are in use. */
static int sim_connect(size_t window) {
    for (int i = 0; i < SIM_SOCKETS; i++) {
        struct sim_socket *k = &net.sockets[i];
        if (k->state != SIM_NO_SOCKET)
            continue;
        memset(k, 0, sizeof *k);
        k->state = SIM_COMES;
        k->window = ARITH_MIN(window, (size_t)SIM_WINDOW);
        return i;
    }
    return -1;
}

static size_t sim_client_send(int socket, const void *bytes, size_t n) {
    struct sim_socket *k = &net.sockets[socket];
    if (k->state == SIM_ENDED_BY_SERVER)
        return n; /* nobody reads it */
    memmove(k->in, k->in + k->at_in, k->n_in - k->at_in);
    k->n_in -= k->at_in;
    k->at_in = 0;
    n = ARITH_MIN(n, sizeof k->in - k->n_in);
    memcpy(k->in + k->n_in, bytes, n);
    k->n_in += n;
    return n;
}

static size_t sim_client_read(int socket, void *to, size_t n) {
    struct sim_socket *k = &net.sockets[socket];
    n = ARITH_MIN(n, k->n_out);
    memcpy(to, k->out, n);
    memmove(k->out, k->out + n, k->n_out - n);
    k->n_out -= n;
    return n;
}

/* Whether the client has read all that will ever come. */
static bool sim_client_at_end(int socket) {
    const struct sim_socket *k = &net.sockets[socket];
    return k->n_out == 0 && (k->shut || k->state == SIM_ENDED_BY_SERVER);
}

static void sim_client_leave(int socket) {
    struct sim_socket *k = &net.sockets[socket];
    k->reset = true;
    k->n_out = 0;
    if (k->state == SIM_COMES || k->state == SIM_ENDED_BY_SERVER)
        k->state = SIM_NO_SOCKET;
}

/* --- calls of the server */

ssize_t __real_recv(int fd, void *to, size_t n, int flags);
ssize_t __wrap_recv(int fd, void *to, size_t n, int flags);
ssize_t __wrap_recv(int fd, void *to, size_t n, int flags) {
    struct sim_socket *k = sim_socket(fd);
    if (k == NULL)
        return __real_recv(fd, to, n, flags);
    if (sim_net_fails()) {
        net.interrupted++;
        errno = EINTR;
        return -1;
    }
    const size_t have = k->n_in - k->at_in;
    if (k->reset && have == 0) {
        errno = ECONNRESET;
        return -1;
    }
    if (have == 0 && k->fin)
        return 0;
    if (have == 0) {
        errno = EAGAIN;
        return -1;
    }
    size_t some = ARITH_MIN(n, have);
    if (sim_below(3) == 0)
        some = 1 + sim_below(some);
    net.partial += some < ARITH_MIN(n, have);
    memcpy(to, k->in + k->at_in, some);
    k->at_in += some;
    return (ssize_t)some;
}

ssize_t __real_send(int fd, const void *bytes, size_t n, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t n, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t n, int flags) {
    struct sim_socket *k = sim_socket(fd);
    if (k == NULL)
        return __real_send(fd, bytes, n, flags);
    if (k->shut)
        sim_fail("the server sends behind its end of a connection");
    if ((flags & MSG_NOSIGNAL) == 0)
        sim_fail("a send that may end the process");
    if (sim_net_fails()) {
        net.interrupted++;
        errno = EINTR;
        return -1;
    }
    if (k->reset) {
        errno = EPIPE;
        return -1;
    }
    size_t some = ARITH_MIN(n, k->window - k->n_out);
    if (some == 0 || (n <= SIM_WHOLE && some < n)) {
        errno = EAGAIN;
        return -1;
    }
    if (n > SIM_WHOLE && sim_below(3) == 0)
        some = 1 + sim_below(some);
    net.partial += some < n;
    memcpy(k->out + k->n_out, bytes, some);
    k->n_out += some;
    return (ssize_t)some;
}

int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd) {
    struct sim_socket *k = sim_socket(fd);
    if (k == NULL)
        return __real_close(fd);
    /* As in TCP: who closes with bytes unread sends a reset, which may overtake the answer. */
    k->lost = k->n_in > k->at_in && k->n_out > 0;
    if (k->lost)
        k->n_out = 0;
    k->state = k->reset ? SIM_NO_SOCKET : SIM_ENDED_BY_SERVER;
    return 0;
}

int __real_shutdown(int fd, int how);
int __wrap_shutdown(int fd, int how);
int __wrap_shutdown(int fd, int how) {
    struct sim_socket *k = sim_socket(fd);
    if (k == NULL)
        return __real_shutdown(fd, how);
    k->shut = k->shut || how != SHUT_RD;
    return 0;
}

int __real_accept4(int fd, struct sockaddr *a, socklen_t *n, int flags);
int __wrap_accept4(int fd, struct sockaddr *a, socklen_t *n, int flags);
int __wrap_accept4(int fd, struct sockaddr *a, socklen_t *n, int flags) {
    (void)a;
    (void)n;
    if ((flags & SOCK_NONBLOCK) == 0)
        sim_fail("a socket that blocks");
    net.listener = fd;
    for (int i = 0; i < SIM_SOCKETS; i++) {
        if (net.sockets[i].state != SIM_COMES)
            continue;
        if (sim_net_fails()) {
            const bool none_left = sim_below(2) == 0;
            net.none_left += none_left;
            net.aborted += !none_left;
            if (!none_left)
                net.sockets[i].state = SIM_ENDED_BY_SERVER;
            errno = none_left ? EMFILE : ECONNABORTED;
            return -1;
        }
        net.sockets[i].state = SIM_TAKEN;
        return SIM_FD + i;
    }
    errno = EAGAIN;
    return -1;
}

int __real_setsockopt(int fd, int level, int name, const void *value, socklen_t n);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t n);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t n) {
    return sim_socket(fd) != NULL ? 0 : __real_setsockopt(fd, level, name, value, n);
}

int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *n);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *n);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *n) {
    const struct sim_socket *k = sim_socket(fd);
    if (k == NULL)
        return __real_getsockopt(fd, level, name, value, n);
    *(int *)value = k->reset ? ECONNRESET : 0;
    return 0;
}

int __real_getpeername(int fd, struct sockaddr *a, socklen_t *n);
int __wrap_getpeername(int fd, struct sockaddr *a, socklen_t *n);
int __wrap_getpeername(int fd, struct sockaddr *a, socklen_t *n) {
    const struct sockaddr_in who = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (sim_socket(fd) == NULL)
        return __real_getpeername(fd, a, n);
    memcpy(a, &who, sizeof who);
    *n = sizeof who;
    return 0;
}

/* --- events */

static struct sim_event *sim_event(const struct event *e) {
    for (uint32_t i = 0; i < net.n_events; i++)
        if (net.events[i].event == e)
            return &net.events[i];
    return NULL;
}

int __wrap_event_assign(struct event *e, struct event_base *b, evutil_socket_t fd, short what,
                        event_callback_fn call, void *context);
int __wrap_event_assign(struct event *e, struct event_base *b, evutil_socket_t fd, short what,
                        event_callback_fn call, void *context) {
    struct sim_event *k = sim_event(e);
    CHECK(b != NULL && (what & EV_PERSIST) != 0);
    if (k == NULL) {
        CHECK(net.n_events < SIM_EVENTS);
        k = &net.events[net.n_events++];
    } else if (k->added)
        sim_fail("an event is assigned while it is waited for");
    *k = (struct sim_event){.event = e, .fd = fd, .wanted = what, .call = call, .context = context};
    return 0;
}

int __wrap_event_add(struct event *e, const struct timeval *t);
int __wrap_event_add(struct event *e, const struct timeval *t) {
    struct sim_event *k = sim_event(e);
    if (k == NULL)
        sim_fail("an event is added that was not assigned");
    if (sim_socket(k->fd) == NULL && k->fd >= SIM_FD)
        sim_fail("an event of a closed socket is added");
    k->added = true;
    k->period_ns = t != NULL ? (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_usec * 1000u : 0;
    k->due_ns = sim.now_ns + k->period_ns;
    return 0;
}

int __wrap_event_del(struct event *e);
int __wrap_event_del(struct event *e) {
    struct sim_event *k = sim_event(e);
    if (k != NULL) {
        k->added = false;
        k->active = 0;
    }
    return 0;
}

void __wrap_event_active(struct event *e, int what, short n);
void __wrap_event_active(struct event *e, int what, short n) {
    struct sim_event *k = sim_event(e);
    (void)n;
    if (k == NULL)
        sim_fail("an event is made active that was not assigned");
    k->active |= (short)what;
}

/* There is no base but this byte. */
struct event_base *__wrap_event_base_new_with_config(const struct event_config *c);
struct event_base *__wrap_event_base_new_with_config(const struct event_config *c) {
    static char base;
    (void)c;
    return (struct event_base *)(void *)&base;
}

void __wrap_event_base_free(struct event_base *b);
void __wrap_event_base_free(struct event_base *b) {
    (void)b;
}

int __wrap_event_base_loopbreak(struct event_base *b);
int __wrap_event_base_loopbreak(struct event_base *b) {
    (void)b;
    net.loop_ended = true;
    return 0;
}

static bool sim_connects(void) {
    for (int i = 0; i < SIM_SOCKETS; i++)
        if (net.sockets[i].state == SIM_COMES)
            return true;
    return false;
}

/* What an event is ready for. The first descriptor that accept4 is called with is the listener; until then
 * every real one is asked, and the listener among them has nothing. */
static short sim_ready(const struct sim_event *k) {
    short ready = 0;
    if (!k->added)
        return k->active;
    if (k->period_ns > 0)
        return sim.now_ns >= k->due_ns ? EV_TIMEOUT : k->active;
    if (k->fd >= SIM_FD) {
        const struct sim_socket *s = &net.sockets[k->fd - SIM_FD];
        ready |= s->n_in > s->at_in || s->fin || s->reset ? EV_READ : 0;
        ready |= s->window - s->n_out > SIM_WHOLE || s->reset ? EV_WRITE : 0;
        ready |= s->fin || s->reset ? EV_CLOSED : 0;
    } else if (k->fd == net.listener) {
        ready |= sim_connects() ? EV_READ : 0;
    } else {
        struct pollfd p = {.fd = k->fd, .events = POLLIN};
        ready |= poll(&p, 1, 0) > 0 ? EV_READ : 0;
    }
    return (short)((ready & k->wanted) | k->active);
}

/* One of the events that are ready. False: none is. */
static bool sim_loop_once(void) {
    uint32_t ready[SIM_EVENTS], n = 0;
    for (uint32_t i = 0; i < net.n_events && !net.loop_ended; i++)
        if (sim_ready(&net.events[i]) != 0)
            ready[n++] = i;
    if (n == 0)
        return false;
    struct sim_event *k = &net.events[ready[sim_below(n)]];
    const short what = sim_ready(k);
    k->active = 0;
    if (k->period_ns > 0)
        k->due_ns = sim.now_ns + k->period_ns;
    k->call(k->fd, what, k->context);
    return true;
}

#endif
