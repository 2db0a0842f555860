#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

void log_write(const struct log *l, stator_log_level level, const char *fmt, ...) {
    if (l->write == NULL || level > l->level)
        return;
    char line[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    l->write(l->context, level, line);
}
