/* Inside the Jinja: the memory of a rendering.
 *
 * Values are taken one behind the other. When enough has been taken, the end of a statement is the moment to
 * give back what nothing reaches any more: a collection copies what is reached behind everything else and
 * then moves all of it down. While a macro runs inside of an expression, values of that expression are on
 * C's stack, where a collection does not see them. So it leaves everything as it is that is older than the
 * macro's run (jinja.keep). Older lists and dicts can't refer to newer ones, as they never change;
 * namespaces can, and are remembered when they are assigned to (jinja.changed); scopes can, and all that are
 * in use are known (jinja.places).
 *
 * The rendered text is written in chunks from the upper end downwards, so that neither its growth nor a
 * collection ever copies it. In the end the chunks are put in order where they lie. */
#ifndef STATOR_CHAT_JINJA_MEMORY_H
#define STATOR_CHAT_JINJA_MEMORY_H

#include "chat/jinja/jinja_value.h"

/* Values taken so far stay; collections begin. */
void jinja_memory_begin(struct jinja *j);
/* At the end of a statement: collects if it is time. Fails if what is reached does not fit beside itself. */
void jinja_memory_tidy(struct jinja *j);
/* The rendered text, in one piece. */
struct jinja_string jinja_memory_end(struct jinja *j);
/* jinja_text_put for the rendered text. */
void jinja_memory_write(struct jinja *j, const char *p, size_t n);

#endif
