/* SentencePiece-style BPE: neighbours merge when together they are a token, the one with the highest score
 * first, the leftmost of equals. What is not a token in the end becomes byte tokens. */
#ifndef STATOR_TOKENIZER_SPM_H
#define STATOR_TOKENIZER_SPM_H

#include "tokenizer/ids.h"
#include "tokenizer/merger.h"
#include "tokenizer/vocab.h"

struct spm_work {
    char *text;   /* blanks escaped */
    uint32_t *at; /* where each symbol begins */
    struct merger merger;
};

void spm_carve(struct spm_work *w, uint64_t length, struct carve *c);
/* blank_first: a blank goes in front of the text. byte_ids: what stands for each byte. */
void spm_encode(const struct vocab *v, const int32_t *byte_ids, struct spm_work *w, const char *text,
                uint64_t length, bool blank_first, struct ids *out);

#endif
