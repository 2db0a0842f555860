/* Special tokens written in a text: the longest one at the first place where one begins (as Hugging Face
 * tokenizers decides it; llama.cpp goes through the tokens from the longest to the shortest, which differs
 * only for tokens that overlap without one containing the other).
 *
 * A filter on the first two bytes rejects almost every place; the rest costs one hash per distinct length of
 * a special token, not one comparison per token. Read-only after specials_fill: any thread. */
#ifndef STATOR_TOKENIZER_SPECIALS_H
#define STATOR_TOKENIZER_SPECIALS_H

#include "tokenizer/vocab.h"

struct specials {
    uint8_t *pairs;    /* [8192] bit first * 256 + second */
    uint32_t *lengths; /* distinct, descending */
    uint32_t n;
    bool parse_control; /* user-defined tokens alone, or control and unknown ones too */
};

/* limit: at least the number of special tokens. */
void specials_carve(struct specials *s, uint64_t limit, struct carve *c);
/* After all bits of the vocabulary are final. */
void specials_fill(struct specials *s, const struct vocab *v, bool parse_control, uint64_t limit);
/* The special token that the text (n > 0) begins with, or -1. */
int32_t specials_match(const struct specials *s, const struct vocab *v, const char *text, uint64_t n);

#endif
