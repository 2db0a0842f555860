/* Claude Code writes texts into its prompts that change with every request and say nothing to a model: a
 * billing line at the beginning of the system prompt, and counts of the tokens that are left. Without their
 * removal no two requests would share a prefix. Pure functions. */
#ifndef STATOR_SERVER_CLAUDE_MARKERS_H
#define STATOR_SERVER_CLAUDE_MARKERS_H

#include <stdbool.h>
#include <stddef.h>

/* Whether there may be something to remove: a quick look. */
bool claude_markers_in(const char *p, size_t n);
/* Writes the text without these markers, and without the line ends in front of them, to out (n bytes of
 * room). Returns its length. */
size_t claude_markers_remove(const char *p, size_t n, char *out);

#endif
