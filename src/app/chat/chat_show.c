#include "app/chat/chat_show.h"

#include <string.h>

#define OPENS   "<think>"
#define CLOSES  "</think>"
#define CHANNEL "<|channel|>"
#define MESSAGE "<|message|>"
#define ENDS    "<|end|>"
#define FINAL   "final" /* the channel that is said; every other one is thinking */

enum chat_show_style chat_show_style_of(const char *text, size_t n) {
    if (memmem(text, n, CHANNEL, strlen(CHANNEL)) != NULL)
        return CHAT_SHOW_CHANNELS;
    if (memmem(text, n, OPENS, strlen(OPENS)) != NULL || memmem(text, n, CLOSES, strlen(CLOSES)) != NULL)
        return CHAT_SHOW_TAGS;
    return CHAT_SHOW_PLAIN;
}

void chat_show_begin(struct chat_show *s, enum chat_show_style style, bool thinks,
                     bool (*put)(void *context, const char *text, size_t n, bool thinking), void *context) {
    memset(s, 0, sizeof *s);
    s->style = style;
    s->put = put;
    s->context = context;
    s->state = style == CHAT_SHOW_CHANNELS ? CHAT_SHOW_HEADER
               : thinks                    ? CHAT_SHOW_THINKING
                                           : CHAT_SHOW_BEFORE;
}

static bool is_blank(char c) {
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* One byte that is no part of a mark. */
static bool put_byte(struct chat_show *s, char c) {
    if (s->state == CHAT_SHOW_BEFORE || s->state == CHAT_SHOW_AFTER_THINKING) {
        if (is_blank(c))
            return true;
        s->state = CHAT_SHOW_SAYING;
    }
    return s->put(s->context, &c, 1, s->state == CHAT_SHOW_THINKING);
}

/* What is held may become `mark`, or is it. */
static bool begins(const struct chat_show *s, const char *mark, bool *whole) {
    *whole = s->n_held == strlen(mark);
    return s->n_held <= strlen(mark) && memcmp(s->held, mark, s->n_held) == 0;
}

/* The mark that is looked for in this state; NULL: none. */
static const char *awaited(const struct chat_show *s) {
    if (s->style == CHAT_SHOW_CHANNELS)
        return s->state == CHAT_SHOW_HEADER ? NULL : ENDS;
    if (s->style == CHAT_SHOW_PLAIN)
        return NULL;
    if (s->state == CHAT_SHOW_BEFORE)
        return OPENS;
    return s->state == CHAT_SHOW_THINKING ? CLOSES : NULL;
}

static void pass_mark(struct chat_show *s) {
    s->n_held = 0;
    if (s->style == CHAT_SHOW_CHANNELS)
        s->state = CHAT_SHOW_HEADER;
    else
        s->state = s->state == CHAT_SHOW_BEFORE ? CHAT_SHOW_THINKING : CHAT_SHOW_AFTER_THINKING;
}

/* A channel's header: held until its message begins; of a long one the end is enough. */
static void take_header(struct chat_show *s, char c) {
    if (s->n_held == sizeof s->held) {
        memmove(s->held, s->held + 1, sizeof s->held - 1);
        s->n_held--;
    }
    s->held[s->n_held++] = c;
    const size_t mark = strlen(MESSAGE);
    if (s->n_held < mark || memcmp(s->held + s->n_held - mark, MESSAGE, mark) != 0)
        return;
    s->state = memmem(s->held, s->n_held, FINAL, strlen(FINAL)) != NULL ? CHAT_SHOW_AFTER_THINKING
                                                                        : CHAT_SHOW_THINKING;
    s->n_held = 0;
}

static bool release(struct chat_show *s) {
    bool whole = false;
    for (size_t from = 0; from < s->n_held;) {
        const char *mark = awaited(s);
        struct chat_show rest = *s;
        rest.n_held = s->n_held - from;
        memmove(rest.held, s->held + from, rest.n_held);
        if (mark != NULL && begins(&rest, mark, &whole)) {
            memmove(s->held, s->held + from, rest.n_held);
            s->n_held = rest.n_held;
            return true;
        }
        const char c = s->held[from++];
        if (!put_byte(s, c))
            return false;
    }
    s->n_held = 0;
    return true;
}

bool chat_show_feed(struct chat_show *s, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (s->state == CHAT_SHOW_HEADER) {
            take_header(s, text[i]);
            continue;
        }
        const char *mark = awaited(s);
        if (mark == NULL || (s->n_held == 0 && text[i] != mark[0])) {
            if (!put_byte(s, text[i]))
                return false;
            continue;
        }
        bool whole = false;
        s->held[s->n_held++] = text[i];
        if (!begins(s, mark, &whole)) {
            if (!release(s))
                return false;
        } else if (whole) {
            pass_mark(s);
        }
    }
    return true;
}

bool chat_show_end(struct chat_show *s) {
    bool on = true;
    for (size_t i = 0; s->state != CHAT_SHOW_HEADER && on && i < s->n_held; i++)
        on = put_byte(s, s->held[i]);
    s->n_held = 0;
    return on;
}
