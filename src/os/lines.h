/* Files of the kernel (/proc, /sys), line by line, without a byte of the heap: what looks at memory must not
 * change it. */
#ifndef STATOR_OS_LINES_H
#define STATOR_OS_LINES_H

#include <stdbool.h>
#include <stddef.h>

struct lines {
    int fd;
    size_t at, have;
    bool skips; /* the rest of a line that was longer than the buffer */
    char buffer[2048];
};

/* False: it can't be opened. */
bool lines_open(struct lines *l, const char *path);
/* The next line without its end, cut to the buffer; valid until the next call. NULL: there is none. */
char *lines_next(struct lines *l);
void lines_close(struct lines *l);

#endif
