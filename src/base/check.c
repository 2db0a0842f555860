#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Noreturn void check_failed(const char *condition, const char *file, int line, const char *function) {
    /* No stdio: the failing thread may hold its locks, and nothing may allocate here. */
    char text[512];
    int n = snprintf(text, sizeof text,
                     "stator: internal error: %s does not hold, %s:%d, %s(). Please report this.\n",
                     condition, file, line, function);
    if (n > 0) {
        size_t len = (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
        ssize_t ignored = write(STDERR_FILENO, text, len);
        (void)ignored;
    }
    abort();
}
