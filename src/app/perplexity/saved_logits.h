/* Log-probabilities of a perplexity run in a file (`--save-logits`), for comparing another run with it
 * (`--kl-base`).
 *
 * A header of SAVED_LOGITS_HEADER bytes, then for each scored position, window after window, a row: two
 * float32 (top, step) and one uint16 per token of the vocabulary: log p = top - code * step. Little-endian.
 * step is the row's range / 65535, where log p below top - SAVED_LOGITS_RANGE counts as that. The header
 * comes last, so a file that was not finished is none. A row read back is normalised again.
 *
 * Owner: the caller, one thread. */
#ifndef STATOR_APP_SAVED_LOGITS_H
#define STATOR_APP_SAVED_LOGITS_H

#include "base/hash.h"
#include "stator.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define SAVED_LOGITS_HEADER 128
#define SAVED_LOGITS_RANGE  24.0f

/* What the rows are of; two runs can be compared when all of it is equal. */
struct saved_logits_key {
    uint32_t vocab;
    uint32_t window;      /* tokens of one */
    uint32_t scored;      /* rows of one */
    uint32_t windows;     /* that are scored, not part of what must be equal */
    char text[HASH_TEXT]; /* of the text's bytes */
    char ids[HASH_TEXT];  /* of the text's token ids, and of the token that begins every window */
};

struct saved_logits {
    FILE *file;
    const char *path; /* the caller's */
    struct saved_logits_key key;
    uint8_t *row; /* of the file */
    uint64_t row_bytes;
};

/* For writing; path is given a new file. */
stator_status saved_logits_create(struct saved_logits *s, const char *path,
                                  const struct saved_logits_key *key, stator_error *e);
/* For reading. STATOR_USAGE: not such a file, not a whole one, or of other figures than the key's: the
 * vocabulary, the text, the window. It may have more windows than the key. */
stator_status saved_logits_open(struct saved_logits *s, const char *path, const struct saved_logits_key *key,
                                stator_error *e);
/* Row `index` (window * scored + position). log_p: [vocab]. */
stator_status saved_logits_write(struct saved_logits *s, uint64_t index, const float *log_p, stator_error *e);
stator_status saved_logits_read(struct saved_logits *s, uint64_t index, float *log_p, stator_error *e);
/* Ends the file: of a written one the header comes if st is STATOR_OK, else it is removed. Returns st or what
 * went wrong. NULL file: nothing to do. */
stator_status saved_logits_close(struct saved_logits *s, bool written, stator_status st, stator_error *e);

#endif
