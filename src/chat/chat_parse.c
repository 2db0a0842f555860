#include "chat/chat_inside.h"

#include "base/arith.h"
#include "base/check.h"

#include <string.h>

enum chat_is chat_tag_at(const char *p, size_t n, const char *tag, bool ended) {
    const size_t length = strlen(tag);
    if (length == 0 || memcmp(p, tag, ARITH_MIN(n, length)) != 0)
        return CHAT_NO;
    return n >= length ? CHAT_YES : ended ? CHAT_NO : CHAT_MAYBE;
}

size_t chat_find(const char *p, size_t n, size_t from, const char *const *tags, size_t n_tags,
                 size_t *which) {
    size_t first = n;
    for (size_t i = 0; i < n_tags; i++) {
        const size_t length = strlen(tags[i]);
        const char *at = length > 0 && from < first ? memmem(p + from, n - from, tags[i], length) : NULL;
        if (at != NULL && (size_t)(at - p) < first) {
            first = (size_t)(at - p);
            *which = i;
        }
    }
    return first;
}

size_t chat_tail(const char *p, size_t n, const char *const *tags, size_t n_tags) {
    size_t most = 0;
    for (size_t i = 0; i < n_tags; i++) {
        const size_t length = strlen(tags[i]);
        for (size_t keep = length > 0 ? ARITH_MIN(n, length - 1) : 0; keep > most; keep--)
            if (memcmp(p + n - keep, tags[i], keep) == 0)
                most = keep;
    }
    return most;
}

void chat_drop(struct chat_parse *s, size_t n) {
    CHECK(n <= chat_left(s));
    s->at += n;
    if (s->at == s->n)
        s->at = s->n = 0;
}

void chat_say(struct chat_parse *s, size_t n) {
    if (n == 0)
        return;
    s->sink->content(s->sink->context, chat_held(s), n);
    chat_drop(s, n);
}

void chat_think(struct chat_parse *s, size_t n) {
    if (n == 0)
        return;
    s->sink->reasoning(s->sink->context, chat_held(s), n);
    chat_drop(s, n);
}

bool chat_no_call(struct chat_parse *s) {
    const size_t n = ARITH_MIN(ARITH_MAX(s->look, 1), chat_left(s));
    s->look = 0;
    s->trims = false;
    s->state = CHAT_IN_CONTENT;
    chat_say(s, n);
    return true;
}

void chat_tell_call(struct chat_parse *s, const char *name, size_t n) {
    const size_t kept = n < sizeof s->function ? n : 0;
    memcpy(s->function, name, kept);
    s->function[kept] = '\0';
    s->n_calls++;
    s->told = s->any = false;
    s->state = CHAT_IN_CALL;
    s->sink->call(s->sink->context, name, n);
}

void chat_tell(struct chat_parse *s, const char *p, size_t n) {
    if (n == 0)
        return;
    s->told = true;
    s->sink->arguments(s->sink->context, p, n);
}

void chat_tell_text(struct chat_parse *s, const char *p, size_t n) {
    static const char hex[] = "0123456789abcdef", from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    size_t plain = 0;
    for (size_t i = 0; i <= n; i++) {
        if (i < n && (unsigned char)p[i] >= 0x20 && p[i] != '"' && p[i] != '\\')
            continue;
        chat_tell(s, p + plain, i - plain);
        plain = i + 1;
        if (i == n)
            return;
        const char *simple = p[i] != '\0' ? strchr(from, p[i]) : NULL;
        const char escape[6] = {'\\',
                                simple != NULL ? to[simple - from] : 'u',
                                '0',
                                '0',
                                hex[(unsigned char)p[i] >> 4],
                                hex[(unsigned char)p[i] & 15]};
        chat_tell(s, escape, simple != NULL ? 2 : 6);
    }
}

void chat_tell_end(struct chat_parse *s, enum chat_state next) {
    if (!s->told)
        chat_tell(s, "{}", 2);
    s->sink->call_end(s->sink->context);
    s->state = next;
    s->trims = true;
    s->told = false;
    s->look = 0;
    s->phase = 0;
}

void chat_parse_begin(struct chat_parse *s, const struct chat_form *form, bool thinks, bool tools,
                      const struct chat_types *types, const struct chat_sink *sink,
                      void *(*resize)(void *context, void *p, size_t n), void *memory) {
    *s = (struct chat_parse){.form = form, .types = types, .sink = sink, .resize = resize, .memory = memory};
    s->tools = form != NULL && tools && form->tags.syntax != CHAT_UNKNOWN;
    if (form == NULL)
        s->state = CHAT_IN_CONTENT;
    else if (form->tags.syntax == CHAT_CHANNELS)
        s->state = CHAT_IN_HEADER;
    else
        s->state = thinks ? CHAT_IN_REASONING : CHAT_AT_START;
    s->trims = thinks && s->state == CHAT_IN_REASONING;
}

void chat_parse_go_on(struct chat_parse *s, bool reasoning) {
    s->trims = false;
    if (s->form != NULL && s->form->tags.syntax == CHAT_CHANNELS)
        chat_channels_go_on(s, reasoning);
    else
        s->state = reasoning && s->form != NULL ? CHAT_IN_REASONING : CHAT_IN_CONTENT;
}

void chat_parse_free(struct chat_parse *s) {
    if (s->p != NULL)
        (void)s->resize(s->memory, s->p, 0);
    s->p = NULL;
    s->at = s->n = s->capacity = 0;
}

/* Tags that begin calls, most of them the section's. */
static size_t openers(const struct chat_parse *s, const char *tags[3]) {
    const struct chat_tags *t = &s->form->tags;
    size_t n = 0;
    if (!s->tools)
        return 0;
    if (t->section_open[0] != '\0')
        tags[n++] = t->section_open;
    if (t->call_open[0] != '\0')
        tags[n++] = t->call_open;
    return n;
}

static bool begin_head(struct chat_parse *s, size_t look, bool bare) {
    s->look = look;
    s->phase = 0;
    s->list = s->any = false;
    s->wrapped = 0;
    s->mark[0] = s->mark[1] = s->mark[2] = s->mark[3] = 0;
    s->quote = bare ? 'b' : '\0'; /* no tag: the name must be one of the tools' */
    s->state = CHAT_IN_HEAD;
    return true;
}

/* A call without its opening tag, at the beginning: only for names of tools. */
static enum chat_is begins_bare(const struct chat_parse *s, const char *p, size_t n, bool ended) {
    const struct chat_tags *t = &s->form->tags;
    const char *separator = t->syntax == CHAT_NAMED ? t->name_end : t->key_open;
    size_t whole = 0;
    if (!s->tools || s->tagged || n == 0)
        return CHAT_NO;
    if (t->syntax == CHAT_JSON)
        return *p == '{' || (n > 1 && *p == '[' && p[1 + json_scan_blank(p + 1, n - 1)] == '{') ? CHAT_YES
                                                                                                : CHAT_NO;
    if (t->syntax != CHAT_NAMED && (t->syntax != CHAT_KEYED || t->name_end[0] != '\0'))
        return CHAT_NO;
    if (!chat_types_begins(s->types, p, n, &whole))
        return CHAT_NO;
    if (whole == 0 || whole + CHAT_BLANK_MOST < n)
        return whole == 0 && !ended ? CHAT_MAYBE : CHAT_NO;
    whole += json_scan_blank(p + whole, n - whole);
    return whole == n ? (ended ? CHAT_NO : CHAT_MAYBE) : chat_tag_at(p + whole, n - whole, separator, ended);
}

static bool at_start(struct chat_parse *s, bool ended) {
    const char *p = chat_held(s);
    const size_t blank = json_scan_blank(p, chat_left(s)), n = chat_left(s) - blank;
    p += blank;
    const char *tag = s->trims ? "" : s->form->think_open;
    const enum chat_is thinks = chat_tag_at(p, n, tag, ended), bare = begins_bare(s, p, n, ended);
    if (thinks == CHAT_YES) {
        chat_drop(s, blank + strlen(tag));
        s->state = CHAT_IN_REASONING;
        s->trims = true;
        return true;
    }
    if (thinks == CHAT_MAYBE || bare == CHAT_MAYBE ||
        (n == 0 && !ended && (s->tools || s->trims || tag[0] != '\0')))
        return false;
    if (bare == CHAT_YES)
        return begin_head(s, blank, true);
    s->state = CHAT_IN_CONTENT;
    return true;
}

/* Whether the text begins with a tag that begins calls. */
static enum chat_is begins_call(const struct chat_parse *s, const char *p, size_t n, bool ended) {
    const char *tags[3];
    const size_t n_tags = openers(s, tags);
    enum chat_is is = CHAT_NO;
    for (size_t i = 0; i < n_tags && is != CHAT_YES; i++) {
        const enum chat_is one = chat_tag_at(p, n, tags[i], ended);
        is = one != CHAT_NO ? one : is;
    }
    return is;
}

static bool in_reasoning(struct chat_parse *s, bool ended) {
    const char *const tags[1] = {s->form->think_close};
    if (s->trims)
        chat_drop(s, json_scan_blank(chat_held(s), chat_left(s)));
    if (chat_left(s) == 0)
        return false;
    /* A call in place of reasoning: the closing tag is lost. */
    const enum chat_is call = s->trims ? begins_call(s, chat_held(s), chat_left(s), ended) : CHAT_NO;
    if (call == CHAT_YES)
        s->state = CHAT_IN_CONTENT;
    if (call != CHAT_NO)
        return call == CHAT_YES;
    s->trims = false;
    const char *p = chat_held(s);
    const size_t n = chat_left(s);
    size_t which = 0;

    const size_t at = chat_find(p, n, 0, tags, 1, &which);
    if (at == n) {
        size_t keep = ended ? 0 : chat_tail(p, n, tags, 1);
        while (!ended && keep < n && chat_is_blank(p[n - keep - 1]))
            keep++;
        chat_think(s, n - keep);
        return false;
    }
    size_t end = at;
    while (end > 0 && chat_is_blank(p[end - 1]))
        end--;
    const size_t all = at + strlen(tags[0]);
    chat_think(s, end);
    chat_drop(s, all - end);
    s->state = CHAT_AT_START;
    s->trims = true;
    return true;
}

static bool in_content(struct chat_parse *s, bool ended) {
    const char *tags[3];
    const size_t n_tags = openers(s, tags);
    if (s->trims) {
        chat_drop(s, json_scan_blank(chat_held(s), chat_left(s)));
        if (chat_left(s) == 0)
            return false;
    }
    const char *p = chat_held(s);
    const size_t n = chat_left(s);
    size_t which = 0, at = chat_find(p, n, 0, tags, n_tags, &which);
    size_t keep = at == n ? (ended ? 0 : chat_tail(p, n, tags, n_tags)) : n - at;
    while (n_tags > 0 && !(ended && at == n) && keep < n && chat_is_blank(p[n - keep - 1]))
        keep++;
    s->trims = s->trims && keep == n;
    chat_say(s, n - keep);
    if (at == n)
        return false;
    at -= n - keep;
    const bool call = strcmp(tags[which], s->form->tags.call_open) == 0 && s->form->tags.call_open[0] != '\0';
    /* The head of a call begins with its own tag; a section's tag stands in front of it. */
    return begin_head(s, call ? at : at + strlen(tags[which]), false);
}

/* Behind a call: another one, the end of the section, or text. */
static bool between(struct chat_parse *s, bool ended) {
    const struct chat_tags *t = &s->form->tags;
    if (t->syntax == CHAT_JSON)
        return chat_json_between(s, ended);
    chat_drop(s, json_scan_blank(chat_held(s), chat_left(s)));
    const char *p = chat_held(s);
    const size_t n = chat_left(s);
    if (n == 0)
        return false;
    const enum chat_is close = chat_tag_at(p, n, t->section_close, ended),
                       call = chat_tag_at(p, n, t->call_open, ended),
                       open = chat_tag_at(p, n, t->section_open, ended),
                       again = chat_tag_at(p, n, t->call_close, ended);
    if (close == CHAT_YES || again == CHAT_YES) {
        chat_drop(s, strlen(close == CHAT_YES ? t->section_close : t->call_close));
        s->state = close == CHAT_YES ? CHAT_IN_CONTENT : CHAT_BETWEEN;
        return true;
    }
    if (call == CHAT_YES || open == CHAT_YES)
        return begin_head(s, call == CHAT_YES ? 0 : strlen(t->section_open), false);
    if (close == CHAT_MAYBE || call == CHAT_MAYBE || open == CHAT_MAYBE || again == CHAT_MAYBE)
        return false;
    if (t->syntax == CHAT_PYTHON && (*p == ',' || *p == ';' || *p == ']')) {
        const bool more = *p != ']';
        chat_drop(s, 1);
        return more ? begin_head(s, 0, false) : true;
    }
    s->state = CHAT_IN_CONTENT;
    return true;
}

static bool look(struct chat_parse *s, bool ended) {
    static bool (*const heads[])(struct chat_parse *, bool) = {
        [CHAT_JSON] = chat_json_head,   [CHAT_KEYED] = chat_keyed_head,   [CHAT_NAMED] = chat_named_head,
        [CHAT_GEMMA] = chat_gemma_head, [CHAT_PYTHON] = chat_python_head, [CHAT_CHANNELS] = NULL};
    static bool (*const calls[])(struct chat_parse *, bool) = {
        [CHAT_JSON] = chat_json_call,   [CHAT_KEYED] = chat_keyed_call,   [CHAT_NAMED] = chat_named_call,
        [CHAT_GEMMA] = chat_gemma_call, [CHAT_PYTHON] = chat_python_call, [CHAT_CHANNELS] = NULL};
    switch (s->state) {
    case CHAT_AT_START:
        return at_start(s, ended);
    case CHAT_IN_REASONING:
        return in_reasoning(s, ended);
    case CHAT_IN_CONTENT:
        return in_content(s, ended);
    case CHAT_IN_HEAD:
        return heads[s->form->tags.syntax](s, ended);
    case CHAT_IN_CALL:
        return calls[s->form->tags.syntax](s, ended);
    case CHAT_BETWEEN:
        return between(s, ended);
    case CHAT_IN_HEADER:
        return chat_channels_header(s, ended);
    case CHAT_IN_MESSAGE:
        return chat_channels_message(s, ended);
    case CHAT_AT_END:
        chat_drop(s, chat_left(s));
        return false;
    }
    return false;
}

static bool hold(struct chat_parse *s, const char *p, size_t n) {
    if (s->at > 0 && s->at >= s->n - s->at) {
        memmove(s->p, s->p + s->at, s->n - s->at);
        s->n -= s->at;
        s->at = 0;
    }
    uint64_t want = 0;
    if (!arith_add(s->n, n, &want))
        return false;
    if (want > s->capacity) {
        const size_t bytes = ARITH_MAX(want, ARITH_MAX(2 * s->capacity, 256));
        char *more = s->resize(s->memory, s->p, bytes);
        if (more == NULL)
            return false;
        s->p = more;
        s->capacity = bytes;
    }
    memcpy(s->p + s->n, p, n);
    s->n += n;
    return true;
}

void chat_parse_feed(struct chat_parse *s, const char *p, size_t n) {
    if (n == 0 || s->failed)
        return;
    if (s->state == CHAT_IN_CONTENT && !s->tools && !s->trims) {
        s->sink->content(s->sink->context, p, n);
        return;
    }
    if (!hold(s, p, n)) {
        s->failed = true;
        return;
    }
    while (chat_left(s) > 0 && look(s, false))
        ;
}

void chat_parse_end(struct chat_parse *s) {
    while (!s->failed && (chat_left(s) > 0 || s->state == CHAT_IN_CALL) && look(s, true))
        ;
    if (s->state == CHAT_IN_MESSAGE && !s->failed)
        (void)chat_channels_message(s, true);
    s->state = CHAT_AT_END;
}
