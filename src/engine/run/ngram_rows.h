/* Rows of n-grams (shape.ngram): which rows of the table a token has, and their way from the model's file to
 * the device that adds them to the residual stream.
 *
 * When a token goes into a step, its rows are read from the file, each for itself: the kernel is asked for
 * all of the chunk's first, so the disk works on many at a time. They stay as they are in the file, in
 * planned memory of the step, until the step goes to the device with that layer; there they become floats.
 * The table is in no memory of the process. The page cache keeps what the last NGRAM_ROWS_CACHED rows were
 * in, and the pages of older ones are dropped.
 *
 * Thread: the engine's. */
#ifndef STATOR_ENGINE_RUN_NGRAM_ROWS_H
#define STATOR_ENGINE_RUN_NGRAM_ROWS_H

#include "base/carve.h"
#include "model/shape.h"

#include <stdatomic.h>

struct stator;
struct planning_want;
struct engine_sequence;
struct engine_step;

#define NGRAM_ROWS_CACHED 65536 /* 256 MiB of pages, or a little more */
#define NGRAM_ROWS_NONE   (-1)  /* in place of a token before the text */

struct engine_ngram_rows {
    uint8_t *blocks;           /* [max_steps][batch][heads][row_bytes] */
    uint64_t row_bytes;        /* of a row in the file */
    uint64_t *wanted;          /* [batch * heads]: of the chunk that is read */
    uint64_t *cached;          /* [NGRAM_ROWS_CACHED]: the rows that were read last, a ring */
    uint64_t n_cached;         /* all that were read */
    _Atomic uint64_t rows, ns; /* read, and what that took */
};

/* Carves what a run needs; a model without n-grams needs nothing. */
void ngram_rows_lay_out(struct stator *s, const struct planning_want *want, struct carve *c);
/* The rows of a token: of each head, into out[heads]. recent: the token, the one before, .., `size` of them.
 */
void ngram_rows_of(const struct shape_ngram *n, const int32_t *recent, uint64_t *out);
/* Reads the rows of q's next n tokens and of its `guesses` draft tokens, which are to be the tokens `first`
 * .. of the step. False: they cannot be read; q has failed, and nothing of it may go into the step. */
bool ngram_rows_read(struct stator *s, const struct engine_step *step, struct engine_sequence *q,
                     uint32_t first, uint32_t n, uint32_t guesses);
/* Gives the step's rows to the device, if it needs them. The step is about to begin there. */
void ngram_rows_give(const struct stator *s, const struct engine_step *step, uint32_t device);

#endif
