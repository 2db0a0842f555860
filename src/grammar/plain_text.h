/* Plain text: characters that a JSON string has without an escape, as UTF-8, but for DEL. Inside of a free
 * string most tokens of a vocabulary are plain and allowed, which is known without trying them one by one. */
#ifndef STATOR_GRAMMAR_PLAIN_TEXT_H
#define STATOR_GRAMMAR_PLAIN_TEXT_H

#include "grammar/regex.h"

#define PLAIN_TEXT_SHORT 16u /* characters */

enum plain_text {
    PLAIN_TEXT_UNKNOWN, /* nothing is known: each token is to be tried */
    PLAIN_TEXT_COUNTED, /* after every plain text of at most `most` characters, and after no longer one */
    PLAIN_TEXT_SHORTS, /* after every plain text of at most PLAIN_TEXT_SHORT characters a match is possible */
    PLAIN_TEXT_ALL,    /* after every plain text */
    PLAIN_TEXT_SELF,   /* and whole characters lead to the same state again */
};

/* Bytes of text before the first that is not plain; a character that the end cuts off is plain. *characters:
 * how many begin there. */
uint32_t plain_text_length(const uint8_t *text, uint32_t n, uint32_t *characters);

/* What is known of a state. *most: below PLAIN_TEXT_SHORT, with PLAIN_TEXT_COUNTED. Makes nodes, and never
 * collects: where they run out, nothing is known. */
enum plain_text plain_text_of(struct regex *r, uint32_t state, uint32_t *most);

#endif
