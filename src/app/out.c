#include "app/out.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int out_fail(const char *command, stator_status code, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "stator %s: ", command);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    return code;
}

int out_error(const char *command, const stator_error *e) {
    return out_fail(command, e->code, "%s", e->text);
}

int out_finish(const char *command, int code) {
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    if (code != STATOR_OK || errno == EPIPE)
        return code != STATOR_OK ? code : STATOR_FAILED;
    return out_fail(command, STATOR_FAILED, "can't write to standard output%s%s", errno != 0 ? ": " : "",
                    errno != 0 ? strerror(errno) : "");
}
