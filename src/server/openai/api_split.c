#include "server/openai/api_split.h"

#include "base/arith.h"

#include <string.h>

void api_split_begin(struct api_split *s, const struct api_style *style, bool thinks, bool tools,
                     const struct api_string_params *strings) {
    *s = (struct api_split){.style = style,
                            .strings = strings,
                            .tools = style != NULL && tools && style->calls != API_CALLS_UNKNOWN,
                            .state = style == NULL ? API_SPLIT_CONTENT
                                     : thinks      ? API_SPLIT_REASONING
                                                   : API_SPLIT_START,
                            .trims = thinks};
}

void api_split_free(struct api_split *s) {
    api_text_free(&s->pending);
}

static void emit(struct api_split *s, void (*to)(void *, const char *, size_t), void *context, size_t n) {
    if (n == 0)
        return;
    to(context, s->pending.p, n);
    api_text_drop(&s->pending, n);
}

static void drop_blank(struct api_split *s) {
    api_text_drop(&s->pending, json_scan_blank(s->pending.p, s->pending.n));
}

/* Bytes at the end of p that may be the beginning of the tag, with the blanks in front of it. */
static size_t tag_beginning(const char *p, size_t n, const char *tag) {
    const size_t length = strlen(tag);
    size_t keep = ARITH_MIN(n, length - 1);
    while (keep > 0 && memcmp(p + n - keep, tag, keep) != 0)
        keep--;
    while (keep < n && json_scan_blank(p + n - keep - 1, 1) == 1)
        keep++;
    return keep;
}

/* Each returns true if pending is to be looked at again, in the new state. */

/* At the start, or behind the reasoning, when no more than blanks came: tells what this is going to be. */
static bool at_start(struct api_split *s, bool ended) {
    const struct api_style *y = s->style;
    const size_t blank = json_scan_blank(s->pending.p, s->pending.n);
    const char *p = s->pending.p + blank;
    const size_t n = s->pending.n - blank;
    const char *const tags[] = {s->trims ? "" : y->think_open,
                                s->tools && y->calls == API_CALLS_JSON ? y->calls_open : ""};
    for (int i = 0; i < 2; i++) {
        const size_t length = strlen(tags[i]);
        if (length == 0 || memcmp(p, tags[i], ARITH_MIN(n, length)) != 0)
            continue;
        if (n < length && !ended)
            return false; /* it may become the tag (or n is 0) */
        if (n < length)
            continue;
        if (i == 0) {
            api_text_drop(&s->pending, blank + length);
            s->state = API_SPLIT_REASONING;
            s->trims = true;
        } else {
            s->looked = blank + length;
            s->state = API_SPLIT_JSON;
        }
        return true;
    }
    const bool json = s->tools && y->calls == API_CALLS_JSON;
    if (n == 0 && !ended && (json || s->trims || y->think_open[0] != '\0'))
        return false;
    if (json && n > 0 && *p == '{') {
        s->looked = blank;
        s->state = API_SPLIT_JSON;
        return true;
    }
    s->state = API_SPLIT_CONTENT;
    return true;
}

static bool in_reasoning(struct api_split *s, const struct api_split_sink *sink, bool ended) {
    const char *tag = s->style->think_close;
    if (s->trims)
        drop_blank(s);
    if (s->pending.n == 0)
        return false;
    s->trims = false;
    const char *end = memmem(s->pending.p, s->pending.n, tag, strlen(tag));
    if (end == NULL) {
        emit(s, sink->reasoning, sink->context,
             s->pending.n - (ended ? 0 : tag_beginning(s->pending.p, s->pending.n, tag)));
        return false;
    }
    size_t n = (size_t)(end - s->pending.p);
    while (n > 0 && json_scan_blank(s->pending.p + n - 1, 1) == 1)
        n--;
    const size_t all = (size_t)(end - s->pending.p) + strlen(tag);
    if (n > 0)
        sink->reasoning(sink->context, s->pending.p, n);
    api_text_drop(&s->pending, all);
    s->state = API_SPLIT_START;
    s->trims = true;
    return true;
}

static bool in_content(struct api_split *s, const struct api_split_sink *sink, bool ended) {
    const bool searches = s->tools && s->style->calls != API_CALLS_JSON;
    if (s->trims) {
        drop_blank(s);
        if (s->pending.n == 0)
            return false;
    }
    const char *tag = searches ? s->style->calls_open : NULL;
    const char *at =
        searches && s->pending.n > 0 ? memmem(s->pending.p, s->pending.n, tag, strlen(tag)) : NULL;
    if (at == NULL) {
        const size_t keep = searches && !ended ? tag_beginning(s->pending.p, s->pending.n, tag) : 0;
        s->trims = s->trims && keep == s->pending.n;
        emit(s, sink->content, sink->context, s->pending.n - keep);
        return false;
    }
    size_t n = (size_t)(at - s->pending.p);
    const size_t all = n;
    while (n > 0 && json_scan_blank(s->pending.p + n - 1, 1) == 1)
        n--;
    emit(s, sink->content, sink->context, n);
    s->blank = all - n;
    s->looked = s->blank + strlen(tag);
    s->state = API_SPLIT_CALL;
    return true;
}

/* A call, or several, that are all of p. */
static bool parse(struct api_split *s, const struct api_split_sink *sink, const char *p, size_t n) {
    /* First only whether it is right: nothing is told of a list whose end is broken. */
    for (int tell = 0; tell < 2; tell++) {
        size_t i = json_scan_blank(p, n);
        const bool list = i < n && p[i] == '[';
        uint32_t calls = 0;
        i += list;
        for (bool more = true; more;) {
            struct api_call call = {0};
            size_t bytes = api_calls_json(p + i, n - i, &call);
            if (bytes == 0 && !list && api_calls_xml(p + i, n - i, s->strings, &call))
                bytes = n - i;
            s->failed = s->failed || call.name.failed || call.arguments.failed;
            if (bytes > 0 && tell == 1 && !s->failed)
                sink->call(sink->context, &call);
            api_calls_free(&call);
            if (bytes == 0)
                return false;
            calls++;
            i += bytes;
            i += json_scan_blank(p + i, n - i);
            const bool separated = i < n && p[i] == (list ? ',' : ';');
            more = separated || (!list && i < n && p[i] == '{');
            i += separated;
        }
        if (list && (i == n || p[i++] != ']'))
            return false;
        if (i + json_scan_blank(p + i, n - i) != n)
            return false;
        s->n_calls += tell == 1 ? calls : 0;
    }
    return true;
}

static bool in_call(struct api_split *s, const struct api_split_sink *sink, bool ended) {
    const char *close = s->style->calls_close;
    const size_t length = strlen(close), begin = s->blank + strlen(s->style->calls_open);
    const char *at = NULL;
    if (length > 0) {
        at = memmem(s->pending.p + s->looked, s->pending.n - s->looked, close, length);
        if (at == NULL && s->pending.n >= begin + length)
            s->looked = s->pending.n - length + 1;
    }
    if (at == NULL && !ended)
        return false;
    const size_t end = at != NULL ? (size_t)(at - s->pending.p) : s->pending.n;
    const size_t all = at != NULL ? end + length : end;
    if (parse(s, sink, s->pending.p + begin, end - begin)) {
        api_text_drop(&s->pending, all);
        s->trims = true;
    } else {
        emit(s, sink->content, sink->context, all);
        s->trims = false;
    }
    s->state = API_SPLIT_CONTENT;
    s->blank = 0;
    return true;
}

/* The braces at `looked` and behind are counted; true: the outermost one has been closed, at `looked`. */
static bool closes(struct api_split *s) {
    for (; s->looked < s->pending.n; s->looked++) {
        const char c = s->pending.p[s->looked];
        if (s->in_string) {
            if (s->in_escape || c == '\\')
                s->in_escape = !s->in_escape;
            else
                s->in_string = c != '"';
        } else if (c == '"') {
            s->in_string = true;
        } else if (c == '{') {
            s->depth++;
        } else if (c == '}' && s->depth > 0 && --s->depth == 0) {
            s->looked++;
            return true;
        }
    }
    return false;
}

/* Held until the end, unless the first object turns out to be no call. */
static bool in_json(struct api_split *s, const struct api_split_sink *sink, bool ended) {
    const size_t blank = json_scan_blank(s->pending.p, s->pending.n);
    const char *tag = s->style->calls_open;
    const size_t skip = strlen(tag) > 0 && s->pending.n - blank >= strlen(tag) &&
                                memcmp(s->pending.p + blank, tag, strlen(tag)) == 0
                            ? strlen(tag)
                            : 0;
    const size_t begin = blank + skip;
    if (!ended) {
        const bool first = closes(s);
        if (!first)
            return false;
        struct api_call call = {0};
        const bool is = api_calls_json(s->pending.p + begin, s->pending.n - begin, &call) > 0;
        api_calls_free(&call);
        if (is)
            return closes(s) && false;
    } else if (parse(s, sink, s->pending.p + begin, s->pending.n - begin)) {
        api_text_drop(&s->pending, s->pending.n);
    }
    s->state = API_SPLIT_CONTENT;
    return true;
}

static bool look(struct api_split *s, const struct api_split_sink *sink, bool ended) {
    switch (s->state) {
    case API_SPLIT_START:
        return at_start(s, ended);
    case API_SPLIT_REASONING:
        return in_reasoning(s, sink, ended);
    case API_SPLIT_CONTENT:
        return in_content(s, sink, ended);
    case API_SPLIT_CALL:
        return in_call(s, sink, ended);
    case API_SPLIT_JSON:
        return in_json(s, sink, ended);
    }
    return false;
}

void api_split_feed(struct api_split *s, const struct api_split_sink *sink, const char *p, size_t n) {
    if (n == 0)
        return;
    if (s->state == API_SPLIT_CONTENT && !s->tools && !s->trims) {
        sink->content(sink->context, p, n);
        return;
    }
    api_text_put(&s->pending, p, n);
    while (!s->pending.failed && s->pending.n > 0 && look(s, sink, false))
        ;
    s->failed = s->failed || s->pending.failed;
}

void api_split_end(struct api_split *s, const struct api_split_sink *sink) {
    while (!s->pending.failed && s->pending.n > 0 && look(s, sink, true))
        ;
    s->failed = s->failed || s->pending.failed;
}
