/* The text of an answer taken apart, while it comes in pieces of any size: reasoning, content, calls of
 * tools. How the text is cut changes nothing about what comes out, only when.
 *
 *  - Reasoning: from a tag at the beginning (or from the start, where the prompt has opened it) to its
 * closing tag; blanks and line ends around the tags belong to nobody.
 *  - Calls: only where the client gave tools. What looks like a call and is none, because its JSON is broken
 *    or the text has ended inside of it, is content, to the byte.
 * Memory: the pool, as much as is held back. */
#ifndef STATOR_SERVER_API_SPLIT_H
#define STATOR_SERVER_API_SPLIT_H

#include "server/openai/api_calls.h"
#include "server/openai/api_style.h"

struct api_split_sink {
    void (*content)(void *context, const char *p, size_t n);
    void (*reasoning)(void *context, const char *p, size_t n);
    void (*call)(void *context, const struct api_call *call);
    void *context;
};

enum api_split_state {
    API_SPLIT_START, /* nothing but blanks came */
    API_SPLIT_REASONING,
    API_SPLIT_CONTENT,
    API_SPLIT_CALL, /* behind calls_open: all is held */
    API_SPLIT_JSON  /* the answer begins with '{': likewise */
};

struct api_split {
    const struct api_style *style; /* NULL: all is content */
    const struct api_string_params *strings;
    bool tools; /* calls are looked for */
    enum api_split_state state;
    bool trims; /* blanks at the beginning of pending are dropped: they stand behind a tag */
    struct api_text pending;
    size_t blank;   /* of pending: blanks in front of calls_open (CALL) */
    size_t looked;  /* bytes of pending that need not be looked at again (CALL, JSON) */
    uint32_t depth; /* JSON: at `looked` */
    bool in_string, in_escape;
    uint32_t n_calls;
    bool failed; /* no memory: what came out is not complete */
};

void api_split_begin(struct api_split *s, const struct api_style *style, bool thinks, bool tools,
                     const struct api_string_params *strings);
void api_split_feed(struct api_split *s, const struct api_split_sink *sink, const char *p, size_t n);
/* The text has ended. */
void api_split_end(struct api_split *s, const struct api_split_sink *sink);
void api_split_free(struct api_split *s);

#endif
