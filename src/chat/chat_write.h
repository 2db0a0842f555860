/* Calls of a history as the text that their model would have written, for templates that do not render
 * tool_calls: chat_parse.h reads it back to the same calls. */
#ifndef STATOR_CHAT_CHAT_WRITE_H
#define STATOR_CHAT_CHAT_WRITE_H

#include "chat/chat_form.h"

#include <jansson.h>

/* The form's syntax is one that can be written: JSON, KEYED or NAMED. */
bool chat_write_can(const struct chat_form *form);
/* objects and texts: the same calls ([{"function": {"name", "arguments"}}]), whose arguments are objects or
 * texts of JSON. */
void chat_write_calls(const struct chat_form *form, const json_t *objects, const json_t *texts,
                      void (*put)(void *context, const char *p, size_t n), void *context);

#endif
