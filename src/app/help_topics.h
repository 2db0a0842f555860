/* The texts of `stator help TOPIC`: README files of the rooms that they explain, carried in the binary
 * (tools/embed_text, HELP_TOPICS in the Makefile). */
#ifndef STATOR_APP_HELP_TOPICS_H
#define STATOR_APP_HELP_TOPICS_H

#include <stddef.h>

struct help_topic {
    const char *name; /* "memory" */
    const char *file; /* "src/plan/README.md" */
    const char *text; /* Markdown; the first line is "# " and the title */
};

extern const struct help_topic help_topics[];
extern const size_t help_n_topics;

#endif
