/* Any text up to the first place of some texts, and what then follows: one rule for each beginning of these
 * texts, after Aho and Corasick (1975), so that matching needs no second reading and no alternatives. */
#ifndef STATOR_GRAMMAR_UNTIL_H
#define STATOR_GRAMMAR_UNTIL_H

#include "grammar/regex_nodes.h"

#define UNTIL_TEXTS 8u
#define UNTIL_BYTES 256u /* of all texts together */

struct until {
    struct {
        const char *text; /* n >= 1 bytes */
        size_t n;
        uint32_t behind; /* the node of what follows the text; REGEX_DEAD: the text may not come */
    } texts[UNTIL_TEXTS];
    uint32_t n;
    bool may_end; /* a text without any of them matches too */
};

/* The node. The first text that ends counts, of several that end at one byte the longest. */
uint32_t until_make(struct regex *r, const struct until *u);

#endif
