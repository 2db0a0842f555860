#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

void log_write(const struct log *l, stator_log_level level, const char *fmt, ...) {
    if (l->write == NULL || level > l->level)
        return;
    char line[1024];
    const size_t n = l->name != NULL ? (size_t)snprintf(line, sizeof line, "%.64s: ", l->name) : 0;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line + n, sizeof line - n, fmt, ap);
    va_end(ap);
    l->write(l->context, level, line);
}
