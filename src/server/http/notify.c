#include "server/http/notify.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static uint64_t number(const char *text) {
    char *end = NULL;
    if (text == NULL || *text < '0' || *text > '9')
        return 0;
    errno = 0;
    const unsigned long long v = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0' ? v : 0;
}

void notify_open(struct notify *n) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    const char *path = getenv("NOTIFY_SOCKET");
    *n = (struct notify){.fd = -1, .patience_ms = 2000};
    const size_t length = path != NULL ? strlen(path) : 0;
    if (length < 2 || length >= sizeof a.sun_path || (*path != '/' && *path != '@'))
        return;
    memcpy(a.sun_path, path, length);
    if (*path == '@')
        a.sun_path[0] = '\0'; /* an abstract one */
    n->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (n->fd < 0)
        return;
    if (connect(n->fd, (struct sockaddr *)&a, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) !=
        0) {
        notify_close(n);
        return;
    }
    const char *pid = getenv("WATCHDOG_PID"); /* the variables may be meant for our parent */
    const uint64_t us = number(getenv("WATCHDOG_USEC"));
    if ((pid == NULL || number(pid) == (uint64_t)getpid()) && us <= UINT64_MAX / 1000)
        n->watchdog_ns = us * 1000;
}

void notify_send(const struct notify *n, const char *lines) {
    if (n->fd < 0 || send(n->fd, lines, strlen(lines), MSG_NOSIGNAL) >= 0)
        return;
    /* Who reads late has a full queue (net.unix.max_dgram_qlen: ten signs of life). A state is said once. */
    if ((errno == EAGAIN || errno == ENOBUFS) && strcmp(lines, "WATCHDOG=1") != 0) {
        while (poll(&(struct pollfd){.fd = n->fd, .events = POLLOUT}, 1, n->patience_ms) < 0 &&
               errno == EINTR)
            ;
        (void)!send(n->fd, lines, strlen(lines), MSG_NOSIGNAL);
    }
}

void notify_close(struct notify *n) {
    if (n->fd >= 0)
        close(n->fd);
    n->fd = -1;
}
