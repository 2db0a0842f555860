#include "base/error.h"

#include "base/check.h"

#include <stdio.h>
#include <string.h>

/* Errors quote files and drivers and are shown on terminals, so a text is one line without control
 * characters. */
static void clean(char *text) {
    for (char *c = text; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7F)
            *c = *c == '\n' ? ' ' : '?';
}

stator_status error_vset(stator_error *e, stator_status code, const char *fmt, va_list ap) {
    CHECK(code != STATOR_OK);
    if (e != NULL) {
        e->code = code;
        vsnprintf(e->text, sizeof e->text, fmt, ap);
        clean(e->text);
    }
    return code;
}

stator_status error_set(stator_error *e, stator_status code, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    error_vset(e, code, fmt, ap);
    va_end(ap);
    return code;
}

void error_prefix(stator_error *e, const char *fmt, ...) {
    if (e == NULL)
        return;
    char whole[sizeof e->text];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(whole, sizeof whole, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof whole - 2)
        return;
    size_t have = (size_t)n;
    snprintf(whole + have, sizeof whole - have, ": %.*s", (int)(sizeof whole - have - 3), e->text);
    clean(whole);
    memcpy(e->text, whole, sizeof whole);
}
