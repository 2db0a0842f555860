/* A chat template on an input that is JSON text: what `stator template` prints. */
#ifndef STATOR_CHAT_CHAT_RENDER_H
#define STATOR_CHAT_CHAT_RENDER_H

#include "base/error.h"

#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

/* A variable that the template sees where the input has none of that name. */
struct chat_render_default {
    const char *name;
    const char *value; /* UTF-8, else the variable is left out */
    size_t length;
};

struct chat_render_input {
    const char *source; /* the template */
    size_t length;
    const char *json; /* an object: {"messages": [..], ..} */
    size_t json_length;
    const char *json_name; /* of where it came from, for errors */
    const struct chat_render_default *defaults;
    size_t n_defaults;
    const struct tm *now;
    const atomic_int *stop; /* as in struct jinja_input */
};

/* Renders into memory (bytes, aligned to 16), with the limits of chat/jinja.h. The input's own values lie on
 * the heap while it runs. STATOR_USAGE: the input is no JSON object. Other errors are those of jinja_render.
 */
stator_status chat_render(const struct chat_render_input *in, void *memory, size_t bytes, const char **text,
                          size_t *length, stator_error *e);

#endif
