/* Log lines, handed to one callback per engine. A struct log is passed around; there is no global logger.
 * Thread: any thread may write; lines are formatted on the caller's stack and the callback must be
 * thread-safe. */
#ifndef STATOR_BASE_LOG_H
#define STATOR_BASE_LOG_H

#include "stator.h"

struct log {
    void (*write)(void *context, stator_log_level level, const char *line); /* NULL: silent */
    void *context;
    stator_log_level level; /* lines above it are dropped */
    const char *name;       /* in front of each line, where several engines write; NULL: nothing is */
};

__attribute__((format(printf, 3, 4))) void log_write(const struct log *l, stator_log_level level,
                                                     const char *fmt, ...);

#endif
