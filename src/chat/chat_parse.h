/* An answer taken apart while it comes in pieces of any size: reasoning, content, calls of tools. How the
 * text is cut changes nothing about what comes out, only when.
 *
 *  - Reasoning stands at the beginning, between its tags, or from the start where the prompt has opened it.
 *    Blanks around tags belong to nobody.
 *  - Calls are looked for only where the client gave tools. A call's name is told as soon as it is known, its
 *    arguments follow in pieces and are JSON, with numbers as the model wrote them. A broken call is told as
 *    far as it goes; what never had a name is content, to the byte.
 *  - Lost tags are borne where the rest decides: see chat_keyed.c and chat_objects.c.
 * Memory: as much as is held back, from the caller's `resize`. Pure otherwise; any thread. */
#ifndef STATOR_CHAT_CHAT_PARSE_H
#define STATOR_CHAT_CHAT_PARSE_H

#include "chat/chat_form.h"
#include "chat/chat_types.h"

#include <stdint.h>

struct chat_sink {
    void (*content)(void *context, const char *p, size_t n);
    void (*reasoning)(void *context, const char *p, size_t n);
    void (*call)(void *context, const char *name, size_t n);
    void (*arguments)(void *context, const char *p, size_t n);
    void (*call_end)(void *context);
    void *context;
};

enum chat_state {
    CHAT_AT_START, /* nothing but blanks came */
    CHAT_IN_REASONING,
    CHAT_IN_CONTENT,
    CHAT_IN_HEAD,    /* of a call: held from its opening tag until its name is known */
    CHAT_IN_CALL,    /* its name is told */
    CHAT_BETWEEN,    /* calls of a section */
    CHAT_IN_HEADER,  /* channels: held until the message begins */
    CHAT_IN_MESSAGE, /* channels */
    CHAT_AT_END
};

/* A value of JSON that is scanned byte by byte. */
struct chat_scan {
    uint32_t depth;
    bool begun, in_string, escape, scalar;
    uint64_t objects; /* bit d: what is open at depth d is an object (the innermost 64) */
};

struct chat_parse {
    const struct chat_form *form; /* NULL: all is content */
    const struct chat_types *types;
    const struct chat_sink *sink;
    bool tools;
    bool tagged; /* set behind chat_parse_begin: what stands at the beginning without a tag is no call */
    enum chat_state state;
    bool trims;  /* blanks at the beginning are dropped: they stand behind a tag */
    bool failed; /* no memory: what came out is not complete */
    bool over;   /* the model's turn has ended; nothing of worth can follow */
    uint32_t n_calls;

    char *p; /* held: p[at .. n) */
    size_t at, n, capacity;
    size_t look; /* bytes of what is held that need not be looked at again */
    void *(*resize)(void *context, void *p, size_t n);
    void *memory;

    /* of the call that is being written */
    struct chat_scan scan;
    int phase;
    size_t mark[4];
    char function[128]; /* its name; a longer one has no types */
    char quote;
    bool list, any, told; /* JSON: in a list; a member was told; arguments were told */
    uint32_t wrapped;
    size_t dubious; /* KEYED: offset of a closing tag that may belong to the value, + 1 */
    bool is_string; /* KEYED: this value is told as a text while it comes */
    int channel;    /* 0 content, 1 reasoning, 2 a call, 3 nothing that is shown */
    bool said[2];   /* channels: there was content, reasoning */
};

/* What `form`, `types` (NULL: none known) and `sink` point to must stay. resize: as realloc, with a context;
 * n of 0 frees. */
void chat_parse_begin(struct chat_parse *s, const struct chat_form *form, bool thinks, bool tools,
                      const struct chat_types *types, const struct chat_sink *sink,
                      void *(*resize)(void *context, void *p, size_t n), void *memory);
/* After chat_parse_begin: the text that comes goes on with the content, or the reasoning, that the prompt has
 * begun. */
void chat_parse_go_on(struct chat_parse *s, bool reasoning);
void chat_parse_feed(struct chat_parse *s, const char *p, size_t n);
void chat_parse_end(struct chat_parse *s); /* the text has ended */
void chat_parse_free(struct chat_parse *s);

#endif
