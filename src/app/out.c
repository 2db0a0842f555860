#include "app/out.h"

#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What a status is to the shell. */
static int exit_code(int status) {
    return status == STATOR_BUSY ? STATOR_FAILED : status;
}

int out_fail(const char *command, stator_status code, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "stator %s: ", command);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    return exit_code(code);
}

int out_error(const char *command, const stator_error *e) {
    return out_fail(command, e->code, "%s", e->text);
}

int out_finish(const char *command, int code) {
    errno = 0;
    code = exit_code(code);
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    if (errno != EPIPE)
        out_fail(command, STATOR_FAILED, "can't write to standard output%s%s", errno != 0 ? ": " : "",
                 errno != 0 ? strerror(errno) : "");
    return code != STATOR_OK ? code : STATOR_FAILED;
}

int out_end(const char *command, stator_status st, const stator_error *e) {
    if (st != STATOR_OK)
        out_error(command, e);
    return out_finish(command, (int)st);
}

static stator_status not_written(const char *option, const char *path, int why, stator_error *e) {
    stator_status code = why == ENAMETOOLONG ? STATOR_USAGE : STATOR_FAILED;
    return error_set(e, code, "%s %.300s can't be written: %s", option, path, strerror(why));
}

FILE *out_open(const char *option, const char *path, stator_error *e) {
    FILE *f = strcmp(path, "-") == 0 ? stdout : fopen(path, "we");
    if (f == NULL)
        (void)not_written(option, path, errno, e);
    return f;
}

stator_status out_close(FILE *f, const char *option, const char *path, stator_status st, stator_error *e) {
    if (f == stdout)
        return st;
    struct stat s;
    const bool regular = fstat(fileno(f), &s) == 0 && S_ISREG(s.st_mode);
    errno = 0;
    int why = 0;
    if (fflush(f) != 0)
        why = errno;
    else if (ferror(f))
        why = EIO; /* an earlier write, whose errno is gone */
    if (fclose(f) != 0 && why == 0)
        why = errno;
    if (st == STATOR_OK && why != 0)
        st = not_written(option, path, why, e);
    if (st != STATOR_OK && regular)
        (void)unlink(path);
    return st;
}
