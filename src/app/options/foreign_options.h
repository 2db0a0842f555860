/* Options of llama.cpp's and ollama's commands that people type from habit, and what stator has in their
 * place. */
#ifndef STATOR_APP_FOREIGN_OPTIONS_H
#define STATOR_APP_FOREIGN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

struct foreign_option {
    const char *names; /* as they are typed after the dashes, between spaces: " c ctx-size " */
    const char *own;   /* the option that stator's own commands have for it, without dashes; or NULL */
    const char *key;   /* the key of the config; or NULL */
    const char *hint;  /* where there is neither, or a key needs more words; or NULL */
};

/* The row of an option as typed ("-ngl", "--port=9000"); NULL if there is none. */
const struct foreign_option *foreign_option_find(const char *typed);

/* True for a word of several letters after one dash ("-ngl"), which is no letter with its value attached. */
bool foreign_option_is_word(const char *typed);

#endif
