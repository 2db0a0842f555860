/* What Claude Code writes into its prompts that changes with every request and says nothing to a model: a
 * billing line at the beginning of the system prompt, and counts of tokens that are left. Left in, they end
 * every prefix that requests could share. Pure. */
#ifndef STATOR_SERVER_CLAUDE_MARKERS_H
#define STATOR_SERVER_CLAUDE_MARKERS_H

#include <stdbool.h>
#include <stddef.h>

/* Whether there may be something to remove: a quick look. */
bool claude_markers_in(const char *p, size_t n);
/* The text without it, written to out (n bytes of room); the line ends in front of a removed marker go too.
 * Returns its length. */
size_t claude_markers_remove(const char *p, size_t n, char *out);

#endif
