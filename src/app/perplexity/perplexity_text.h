/* The token ids of a whole text. The engine's own tokenizer has planned memory, for texts of a context; here
 * a tokenizer of our own works, as long as it takes, before the engine starts. */
#ifndef STATOR_APP_PERPLEXITY_TEXT_H
#define STATOR_APP_PERPLEXITY_TEXT_H

#include "app/options/options.h"
#include "stator.h"

#define PERPLEXITY_NO_BOS (-1)

/* *ids (malloced), with special tokens by the model's rules; *bos: what begins a text by them, or
 * PERPLEXITY_NO_BOS. */
stator_status perplexity_text_ids(const char *config, const struct options_list *set, const char *text,
                                  size_t bytes, int32_t **ids, size_t *n, int32_t *bos, stator_error *e);

#endif
