#include "server/adapters/claude_markers.h"

#include <string.h>

/* "x-anthropic-billing-header: cc_version=..; cc_entrypoint=..; cch=..;", at the beginning of a text (Claude
 * Code since 2.1.36). */
static const char billing[] = "x-anthropic-billing-header:";

/* '#' stands for a number. The longest ones come first. */
static const char *const markers[] = {
    "<system-reminder>\n<total_tokens># tokens left</total_tokens>\n</system-reminder>",
    "<system-reminder>\nToken usage: #/#; # remaining\n</system-reminder>",
    "<total_tokens># tokens left</total_tokens>",
    "<system_warning>Token usage: #/#; # remaining</system_warning>",
};

static bool begins(const char *p, size_t n, const char *with) {
    const size_t length = strlen(with);
    return n >= length && memcmp(p, with, length) == 0;
}

static bool is_number(char c) {
    return (c >= '0' && c <= '9') || c == ',';
}

/* Bytes at p that are as the pattern says; 0: they are not. */
static size_t match(const char *p, size_t n, const char *pattern) {
    size_t at = 0;
    for (; *pattern != '\0'; pattern++) {
        const size_t from = at;
        if (*pattern == '#')
            while (at < n && is_number(p[at]))
                at++;
        else
            at += at < n && p[at] == *pattern;
        if (at == from)
            return 0;
    }
    return at;
}

static size_t marker_at(const char *p, size_t n) {
    size_t length = 0;
    for (size_t i = 0; i < sizeof markers / sizeof markers[0] && length == 0; i++)
        length = match(p, n, markers[i]);
    return length;
}

static size_t billing_at_start(const char *p, size_t n) {
    size_t length = 0;
    while (begins(p + length, n - length, billing)) {
        const char *end = memchr(p + length, '\n', n - length);
        length = end != NULL ? (size_t)(end - p) + 1 : n;
    }
    while (length > 0 && length < n && p[length] == '\n')
        length++;
    return length;
}

bool claude_markers_in(const char *p, size_t n) {
    if (billing_at_start(p, n) > 0)
        return true;
    for (const char *at = p; (at = memchr(at, '<', n - (size_t)(at - p))) != NULL; at++)
        if (marker_at(at, n - (size_t)(at - p)) > 0)
            return true;
    return false;
}

size_t claude_markers_remove(const char *p, size_t n, char *out) {
    size_t at = billing_at_start(p, n), length = 0;
    while (at < n) {
        const size_t marker = p[at] == '<' ? marker_at(p + at, n - at) : 0;
        if (marker == 0) {
            out[length++] = p[at++];
            continue;
        }
        while (length > 0 && out[length - 1] == '\n')
            length--;
        at += marker;
    }
    return length;
}
