/* Whether two files have the same tokens: what one calls token n is token n of the other. One may have more,
 * if these are unused: padding. No state. */
#ifndef STATOR_MODEL_SAME_VOCABULARY_H
#define STATOR_MODEL_SAME_VOCABULARY_H

#include "model/gguf.h"

/* STATOR_USAGE: the first difference, with both files: how many tokens, their texts and kinds, the ids of
 * special ones (begin, end, end of turn and message, unknown). Of files that have no tokens at all nothing is
 * known, and they count as the same. */
stator_status same_vocabulary(const struct gguf *a, const struct gguf *b, stator_error *e);

#endif
