/* SentencePiece-style BPE: neighbours merge when together they are a token, the one with the highest score
 * first, the leftmost of equals; or, given a table of merges (gemma4), those of the table by their rank, but
 * never a line break with anything else. What is not a token in the end becomes byte tokens. */
#ifndef STATOR_TOKENIZER_SPM_H
#define STATOR_TOKENIZER_SPM_H

#include "tokenizer/ids.h"
#include "tokenizer/merge_table.h"
#include "tokenizer/merger.h"
#include "tokenizer/vocab.h"

struct spm_work {
    char *text;   /* blanks escaped */
    uint32_t *at; /* where each symbol begins */
    struct merger merger;
};

void spm_carve(struct spm_work *w, uint64_t length, struct carve *c);
/* blank_first: a blank goes in front of the text. byte_ids: what stands for each byte. merges: or NULL. */
void spm_encode(const struct vocab *v, const int32_t *byte_ids, const struct merge_table *merges,
                struct spm_work *w, const char *text, uint64_t length, bool blank_first, struct ids *out);

#endif
