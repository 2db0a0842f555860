/* What the files of the parser share; private to src/chat. A step looks at what is held and returns true if
 * it is to be looked at again, in the new state; false: more text is needed. */
#ifndef STATOR_CHAT_CHAT_INSIDE_H
#define STATOR_CHAT_CHAT_INSIDE_H

#include "chat/chat_parse.h"
#include "chat/json_scan.h"

#define CHAT_NAME_MOST  256  /* bytes of a name of a function or parameter in tags */
#define CHAT_BLANK_MOST 4096 /* blanks that are looked through for what follows a tag */

enum chat_is { CHAT_NO, CHAT_MAYBE, CHAT_YES };

static inline const char *chat_held(const struct chat_parse *s) {
    return s->p + s->at;
}
static inline size_t chat_left(const struct chat_parse *s) {
    return s->n - s->at;
}
static inline bool chat_is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* The tag stands at p, of n bytes, behind which nothing comes any more if `ended`. "" never does. */
enum chat_is chat_tag_at(const char *p, size_t n, const char *tag, bool ended);
/* Where one of the tags stands in p, from `from` on; n: nowhere. */
size_t chat_find(const char *p, size_t n, size_t from, const char *const *tags, size_t n_tags, size_t *which);
/* Bytes at the end of p that one of the tags may begin with. */
size_t chat_tail(const char *p, size_t n, const char *const *tags, size_t n_tags);

void chat_drop(struct chat_parse *s, size_t n);
void chat_say(struct chat_parse *s, size_t n);   /* the first n held bytes are content; drops them */
void chat_think(struct chat_parse *s, size_t n); /* are reasoning */
/* What was held as the head of a call, up to `look`, is none. */
bool chat_no_call(struct chat_parse *s);
/* A call has begun; what is held up to `look` is dropped. */
void chat_tell_call(struct chat_parse *s, const char *name, size_t n);
void chat_tell(struct chat_parse *s, const char *p, size_t n);      /* of its arguments */
void chat_tell_text(struct chat_parse *s, const char *p, size_t n); /* bytes inside of a JSON string */
void chat_tell_end(struct chat_parse *s, enum chat_state next);

/* A byte of a JSON value: 0: more follows, 1: it was the last one, 2: the value ended in front of it. */
int chat_scan_byte(struct chat_scan *scan, char c);
/* Closes what is open in arguments that are cut off. */
void chat_scan_close(struct chat_parse *s);
/* The bytes between the quotes of a JSON string become text, in place; returns its length. */
size_t chat_unescape(char *p, size_t n);
/* All of p is one JSON value, with blanks around. */
static inline bool chat_is_json(const char *p, size_t n) {
    const size_t blank = json_scan_blank(p, n), value = json_scan_value(p + blank, n - blank);
    return value > 0 && blank + value + json_scan_blank(p + blank + value, n - blank - value) == n;
}

bool chat_json_head(struct chat_parse *s, bool ended), chat_json_call(struct chat_parse *s, bool ended),
    chat_json_between(struct chat_parse *s, bool ended);
bool chat_keyed_head(struct chat_parse *s, bool ended), chat_keyed_call(struct chat_parse *s, bool ended);
bool chat_named_head(struct chat_parse *s, bool ended), chat_named_call(struct chat_parse *s, bool ended);
bool chat_gemma_head(struct chat_parse *s, bool ended), chat_gemma_call(struct chat_parse *s, bool ended);
bool chat_python_head(struct chat_parse *s, bool ended), chat_python_call(struct chat_parse *s, bool ended);
bool chat_channels_header(struct chat_parse *s, bool ended),
    chat_channels_message(struct chat_parse *s, bool ended);
/* Inside of a message of content, or of reasoning. */
void chat_channels_go_on(struct chat_parse *s, bool reasoning);

#endif
