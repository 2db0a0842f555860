/* The part of Jinja that chat templates use, rendered as Hugging Face transformers renders them: trim_blocks,
 * lstrip_blocks, loop controls, tojson without ASCII escapes, raise_exception, strftime_now, no autoescape;
 * nothing that a template does reaches outside of its own variables (lists and dicts can't be changed, as in
 * an immutable sandbox). Source of the semantics: Jinja's documentation, template designer's part.
 *
 * Bounded in memory (the caller's), in steps, in time, in depth and in the output's length. What a template
 * uses and this does not know is an error that names it and its line, never a guess. No state; any thread. */
#ifndef STATOR_CHAT_JINJA_H
#define STATOR_CHAT_JINJA_H

#include "base/error.h"

#include <jansson.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

struct jinja_input {
    const char *source; /* UTF-8; need not end with NUL */
    size_t length;
    const json_t *variables; /* an object */
    const struct tm *now;    /* for strftime_now; NULL: a template that asks for the time is refused */
    uint64_t max_steps;      /* 0: JINJA_STEPS, and JINJA_STEPS_PER_BYTE for what the variables hold */
    const atomic_int *stop;  /* once this is not 0 (a signal came), the rendering fails; NULL: never */
};

/* Templates look for a call's answer among all later messages, so long conversations take more steps for each
 * of their bytes than short ones. A step took 20 to 60 ns on a Zen 3 processor. */
#define JINJA_STEPS          20000000u
#define JINJA_STEPS_PER_BYTE 200u
#define JINJA_SECONDS        10  /* a rendering fails when it takes longer */
#define JINJA_DEPTH          400 /* of nested expressions, blocks and calls */

/* Memory: all that parsing and rendering take, with the text. text points into it; no NUL. STATOR_USAGE: the
 * template can't be parsed, refuses its input (raise_exception), uses what is not known here, or takes more
 * steps or time than it may. STATOR_DOES_NOT_FIT: it needs more than `bytes`. STATOR_BUSY: it was told to
 * stop. The text names the line. */
stator_status jinja_render(const struct jinja_input *in, void *memory, size_t bytes, const char **text,
                           size_t *length, stator_error *e);

#endif
