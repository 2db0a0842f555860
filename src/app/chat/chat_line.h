/* What the user types: from a terminal with editing and a history (libedit), from anything else as plain
 * lines. A line that ends with a backslash goes on in the next one.
 *
 * libedit's memory is the heap's: what it needs at first is taken by chat_line_open, which comes before the
 * engine; later a few lines more. The main thread's, as is everything in this folder. */
#ifndef STATOR_APP_CHAT_CHAT_LINE_H
#define STATOR_APP_CHAT_CHAT_LINE_H

#include "stator.h"

#include <stdbool.h>
#include <stddef.h>

#define CHAT_LINE_HISTORY 100 /* lines */

struct chat_line;

enum chat_line_end {
    CHAT_LINE_TEXT,
    CHAT_LINE_TOO_LONG, /* it was read to its end and dropped */
    CHAT_LINE_SIGNAL,   /* session_signal says which; what was typed is dropped */
    CHAT_LINE_EOF,
    CHAT_LINE_FAILED /* errno */
};

stator_status chat_line_open(struct chat_line **out, stator_error *e);
void chat_line_close(struct chat_line *l); /* NULL is allowed */
bool chat_line_is_terminal(const struct chat_line *l);

/* One message into out, with a NUL behind: lines joined by newlines, at most capacity - 1 bytes; bytes 0
 * become U+FFFD. A last line without a newline counts; the end of the input comes after it. */
enum chat_line_end chat_line_read(struct chat_line *l, char *out, size_t capacity, size_t *length);

#endif
