/* Text that is being written, in the edge pool. No memory: the text is as it was, and `failed` stays set, so
 * that writers need to look only once, at the end. */
#ifndef STATOR_SERVER_API_TEXT_H
#define STATOR_SERVER_API_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct json;

struct api_text { /* all zero: empty */
    char *p;      /* no NUL */
    size_t n, capacity;
    bool failed;
};

void api_text_put(struct api_text *t, const char *p, size_t n);
void api_text_puts(struct api_text *t, const char *s);
/* Room for n bytes more, which the caller writes and then adds to t->n; NULL: no memory. */
char *api_text_room(struct api_text *t, size_t n);
/* What `build` writes as JSON (called again where it is longer than the room was). */
void api_text_json(struct api_text *t, void (*build)(struct json *j, const void *of), const void *of);
/* Removes the first n bytes. */
void api_text_drop(struct api_text *t, size_t n);
void api_text_free(struct api_text *t); /* empty afterwards */
/* The pool as chat_parse.h wants it: n of 0 frees. No context. */
void *api_text_resize(void *context, void *p, size_t n);

#endif
