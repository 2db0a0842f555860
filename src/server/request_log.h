/* The log's line of a request, as text or JSON, to log.file or standard error. One write per line, no memory
 * of its own. A log that takes no line at once (its reader stands still, its disk is full) loses the line and
 * holds up nobody. */
#ifndef STATOR_SERVER_REQUEST_LOG_H
#define STATOR_SERVER_REQUEST_LOG_H

#include "server/http/http.h"

struct request_log {
    int fd; /* -1: requests are not logged */
    bool json;
    bool owns;
    uint64_t lost; /* lines that could not be written */
};

stator_status request_log_open(struct request_log *l, const struct server_settings *s, stator_error *e);
/* context: a struct request_log. */
void request_log_write(void *context, const struct http_log_line *line);
void request_log_close(struct request_log *l);

#endif
