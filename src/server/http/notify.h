/* What a service tells systemd (sd_notify(3)): a datagram to the socket that NOTIFY_SOCKET names. Without
 * that variable nothing happens. */
#ifndef STATOR_SERVER_NOTIFY_H
#define STATOR_SERVER_NOTIFY_H

#include <stdint.h>

struct notify {
    int fd;               /* -1: nobody listens */
    int patience_ms;      /* how long it waits for a reader that is late */
    uint64_t watchdog_ns; /* 0: nobody waits for a sign of life; else one must come more often than that */
};

void notify_open(struct notify *n);
/* "READY=1": lines of such assignments. Waits for a reader with a full queue, but with "WATCHDOG=1" not at
 * all. */
void notify_send(const struct notify *n, const char *lines);
void notify_close(struct notify *n);

#endif
