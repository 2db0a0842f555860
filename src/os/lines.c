#include "os/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

bool lines_open(struct lines *l, const char *path) {
    l->fd = open(path, O_RDONLY | O_CLOEXEC);
    l->at = l->have = 0;
    l->skips = false;
    return l->fd >= 0;
}

/* More bytes behind those that are there; false: there are none, or no room. */
static bool fill(struct lines *l) {
    memmove(l->buffer, l->buffer + l->at, l->have - l->at);
    l->have -= l->at;
    l->at = 0;
    const size_t room = sizeof l->buffer - 1 - l->have;
    ssize_t got = 0;
    do
        got = room > 0 ? read(l->fd, l->buffer + l->have, room) : 0;
    while (got < 0 && errno == EINTR);
    l->have += got > 0 ? (size_t)got : 0;
    return got > 0;
}

char *lines_next(struct lines *l) {
    for (;;) {
        char *line = l->buffer + l->at;
        char *end = memchr(line, '\n', l->have - l->at);
        if (end == NULL && fill(l))
            continue;
        line = l->buffer + l->at;
        if (end == NULL && l->have == l->at)
            return NULL;
        const bool skipped = l->skips;
        l->skips = end == NULL;
        if (end == NULL) /* the last one, or longer than the buffer */
            end = l->buffer + l->have;
        *end = '\0';
        l->at = (size_t)(end - l->buffer) + !l->skips;
        if (!skipped)
            return line;
    }
}

void lines_close(struct lines *l) {
    close(l->fd);
}
