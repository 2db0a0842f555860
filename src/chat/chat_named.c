/* Calls as a name, a separator and JSON (DeepSeek, Kimi, Mistral, Hunyuan), and the channels of gpt-oss,
 * whose header has the name. Source of the channels: OpenAI's description of the harmony format. */
#include "chat/chat_inside.h"

#include "base/arith.h"

#include <string.h>

enum phase { BEFORE, ARGUMENTS, AFTER };

/* functions.NAME:0 and NAME[CALL_ID]id: NAME. */
static void strip_name(const char **p, size_t *n) {
    static const char prefix[] = "functions.", id[] = "[CALL_ID]";
    size_t blank = json_scan_blank(*p, *n);
    *p += blank;
    *n -= blank;
    if (*n > sizeof prefix - 1 && memcmp(*p, prefix, sizeof prefix - 1) == 0) {
        *p += sizeof prefix - 1;
        *n -= sizeof prefix - 1;
    }
    const char *end = memmem(*p, *n, id, sizeof id - 1);
    if (end != NULL)
        *n = (size_t)(end - *p);
    size_t digits = 0;
    while (digits < *n && (*p)[*n - 1 - digits] >= '0' && (*p)[*n - 1 - digits] <= '9')
        digits++;
    if (digits > 0 && digits + 1 < *n && (*p)[*n - 1 - digits] == ':')
        *n -= digits + 1;
    while (*n > 0 && chat_is_blank((*p)[*n - 1]))
        --*n;
}

bool chat_named_head(struct chat_parse *s, bool ended) {
    const struct chat_tags *t = &s->form->tags;
    const char *p = chat_held(s);
    const size_t n = chat_left(s), at = s->look + json_scan_blank(p + s->look, n - s->look);
    const char *const ends[] = {t->name_end, t->call_close};
    const enum chat_is is = s->quote == 'b' ? CHAT_YES : chat_tag_at(p + at, n - at, t->call_open, ended);
    if (at == n || is == CHAT_MAYBE)
        return ended && chat_no_call(s);
    if (is == CHAT_NO)
        return chat_no_call(s);
    const size_t from = at + (s->quote == 'b' ? 0 : strlen(t->call_open));
    size_t which = 0, end = chat_find(p, n, from, ends, 2, &which), next = end;
    if (end < n)
        next = end + (which == 0 ? strlen(t->name_end) : 0);
    const char *name = p + from;
    size_t length = end - from;
    strip_name(&name, &length);
    /* DeepSeek R1 and V3: the kind, the separator, the name on the same line. */
    if (end < n && which == 0 && length == 8 && memcmp(name, "function", 8) == 0) {
        const char *line = memchr(p + next, '\n', n - next);
        name = p + next;
        end = line != NULL ? (size_t)(line - p) : n;
        length = end - next;
        next = end;
        strip_name(&name, &length);
    }
    if (end == n && !ended && n - from < 2 * CHAT_NAME_MOST)
        return false;
    if (end == n || length == 0 || length > CHAT_NAME_MOST) {
        s->look = from;
        return chat_no_call(s);
    }
    chat_tell_call(s, name, length);
    chat_drop(s, next);
    s->look = 0;
    s->scan = (struct chat_scan){0};
    s->phase = BEFORE;
    return true;
}

/* Blanks and the fence of a code block, up to the arguments. */
static bool before_arguments(struct chat_parse *s, bool ended) {
    const struct chat_tags *t = &s->form->tags;
    chat_drop(s, json_scan_blank(chat_held(s), chat_left(s)));
    const char *p = chat_held(s);
    const size_t n = chat_left(s);
    const enum chat_is fence = chat_tag_at(p, n, "```json", ended),
                       close = chat_tag_at(p, n, t->call_close, ended),
                       end = chat_tag_at(p, n, t->section_close, ended);
    if (n == 0 && !ended)
        return false;
    if (fence == CHAT_YES) {
        chat_drop(s, 7);
        return true;
    }
    if (fence == CHAT_MAYBE || close == CHAT_MAYBE || end == CHAT_MAYBE)
        return false;
    s->phase = n > 0 && *p == '{' ? ARGUMENTS : AFTER;
    return true;
}

/* Arguments as they come, until the outermost bracket closes, or at the call's closing tag. */
static bool pass_arguments(struct chat_parse *s, bool ended) {
    const struct chat_tags *t = &s->form->tags;
    const char *p = chat_held(s);
    const size_t n = chat_left(s);
    bool done = false, waits = false;
    size_t i = 0;
    for (; i < n && !done && !waits; i++) {
        const char *const tags[] = {t->call_close, t->section_close};
        for (int k = 0; k < 2 && !s->scan.in_string && p[i] == '<'; k++) {
            const enum chat_is is = chat_tag_at(p + i, n - i, tags[k], ended);
            waits = waits || is == CHAT_MAYBE;
            done = done || is == CHAT_YES;
        }
        if (done || waits)
            break;
        done = chat_scan_byte(&s->scan, p[i]) != 0;
    }
    chat_tell(s, p, i);
    chat_drop(s, i);
    if (done || ended) {
        chat_scan_close(s);
        s->phase = AFTER;
    }
    return done || ended;
}

static bool after_arguments(struct chat_parse *s, bool ended) {
    const struct chat_tags *t = &s->form->tags;
    chat_drop(s, json_scan_blank(chat_held(s), chat_left(s)));
    const char *p = chat_held(s);
    const size_t n = chat_left(s);
    const enum chat_is fence = chat_tag_at(p, n, "```", ended),
                       close = chat_tag_at(p, n, t->call_close, ended);
    if (n == 0 && !ended && t->call_close[0] != '\0')
        return false;
    if (fence == CHAT_YES) {
        chat_drop(s, 3);
        return true;
    }
    if (fence == CHAT_MAYBE || close == CHAT_MAYBE)
        return false;
    if (close == CHAT_YES)
        chat_drop(s, strlen(t->call_close));
    chat_tell_end(s, CHAT_BETWEEN);
    return true;
}

bool chat_named_call(struct chat_parse *s, bool ended) {
    switch ((enum phase)s->phase) {
    case BEFORE:
        return before_arguments(s, ended);
    case ARGUMENTS:
        return pass_arguments(s, ended);
    case AFTER:
        return after_arguments(s, ended);
    }
    return false;
}

/* --- channels */

enum { SAYS, THINKS, CALLS, HIDES };

#define HEADER_MOST 1024

/* The rest of a header that begins with `key`, as a word. */
static bool header_word(const char *p, size_t n, const char *key, const char **word, size_t *length) {
    const char *at = memmem(p, n, key, strlen(key));
    if (at == NULL)
        return false;
    *word = at + strlen(key);
    *length = 0;
    while (*word + *length < p + n && !chat_is_blank((*word)[*length]) && (*word)[*length] != '<')
        ++*length;
    return true;
}

/* Two messages of a kind are two paragraphs. */
static void separate(struct chat_parse *s) {
    if (s->channel == SAYS && s->said[0])
        s->sink->content(s->sink->context, "\n\n", 2);
    if (s->channel == THINKS && s->said[1])
        s->sink->reasoning(s->sink->context, "\n\n", 2);
}

/* A whole header of n bytes: whose message this is. */
static void begin_message(struct chat_parse *s, size_t n) {
    const char *p = chat_held(s), *word = NULL, *name = NULL;
    size_t length = 0, name_length = 0;
    const bool to = header_word(p, n, "to=", &name, &name_length);
    const bool has = header_word(p, n, "<|channel|>", &word, &length);
    if (to) {
        strip_name(&name, &name_length);
        const bool is = s->tools && name_length > 0 && name_length <= CHAT_NAME_MOST;
        s->channel = is ? CALLS : THINKS;
        if (is)
            chat_tell_call(s, name, name_length);
    } else {
        s->channel = has && length == 8 && memcmp(word, "analysis", 8) == 0 ? THINKS : SAYS;
    }
    separate(s);
    s->scan = (struct chat_scan){0};
    s->look = 0;
    s->phase = 0;
    s->any = false;
    s->state = CHAT_IN_MESSAGE;
}

void chat_channels_go_on(struct chat_parse *s, bool reasoning) {
    s->channel = reasoning ? THINKS : SAYS;
    s->said[reasoning ? 1 : 0] = true;
    s->look = 0;
    s->any = true;
    s->state = CHAT_IN_MESSAGE;
}

static void pass(struct chat_parse *s, size_t n) {
    if (s->channel == SAYS) {
        s->said[0] = s->said[0] || n > 0;
        chat_say(s, n);
    } else if (s->channel == THINKS) {
        s->said[1] = s->said[1] || n > 0;
        chat_think(s, n);
    } else {
        const size_t blank = s->any ? 0 : json_scan_blank(chat_held(s), n);
        for (size_t i = blank; i < n; i++)
            (void)chat_scan_byte(&s->scan, chat_held(s)[i]);
        s->any = s->any || blank < n;
        chat_tell(s, chat_held(s) + blank, n - blank);
        chat_drop(s, n);
    }
}

bool chat_channels_header(struct chat_parse *s, bool ended) {
    static const char *const begins[] = {"<|channel|>", "<|start|>",   "<|message|>",  "<|constrain|>",
                                         "to=",         "assistant<|", "assistant to="};
    static const char message[] = "<|message|>";
    static const char *const tags[] = {message};
    const char *p = chat_held(s);
    const size_t n = chat_left(s), blank = json_scan_blank(p, n);
    size_t which = 0;
    enum chat_is is = blank == n && !ended ? CHAT_MAYBE : CHAT_NO;
    for (size_t i = 0; i < sizeof begins / sizeof begins[0] && is != CHAT_YES; i++) {
        const enum chat_is one = chat_tag_at(p + blank, n - blank, begins[i], ended);
        is = one != CHAT_NO ? one : is;
    }
    const size_t at = chat_find(p, n, 0, tags, 1, &which);
    if (is == CHAT_YES && at < n && at < HEADER_MOST) {
        begin_message(s, at);
        chat_drop(s, at + sizeof message - 1);
        return true;
    }
    if (is != CHAT_NO && !ended && n < HEADER_MOST)
        return false;
    if (is == CHAT_YES && ended && p[blank] == '<') { /* cut off: no message followed */
        chat_drop(s, n);
        return false;
    }
    /* No header: a model that does not keep to the channels. */
    s->channel = SAYS;
    separate(s);
    s->state = CHAT_IN_MESSAGE;
    s->any = true;
    s->look = 0;
    if (n > 0 && (unsigned char)p[0] < 0x80)
        pass(s, 1); /* it may be a tag's first byte, at which the message would end again */
    return true;
}

static void end_message(struct chat_parse *s) {
    if (s->channel == CALLS) {
        chat_scan_close(s);
        chat_tell_end(s, CHAT_IN_HEADER);
    }
    s->channel = HIDES;
    s->state = CHAT_IN_HEADER;
}

bool chat_channels_message(struct chat_parse *s, bool ended) {
    static const char *const tags[] = {"<|end|>", "<|call|>", "<|return|>", "<|start|>assistant",
                                       "<|channel|>"};
    const char *p = chat_held(s);
    const size_t n = chat_left(s);
    size_t which = 0;
    const size_t at = chat_find(p, n, 0, tags, 5, &which);
    pass(s, at < n ? at : n - (ended ? 0 : chat_tail(p, n, tags, 5)));
    if (at == n) {
        if (ended)
            end_message(s);
        return false;
    }
    end_message(s);
    if (which < 3)
        chat_drop(s, strlen(tags[which]));
    if (which == 1 || which == 2) {
        s->over = true;
        s->state = CHAT_AT_END;
    }
    return true;
}
