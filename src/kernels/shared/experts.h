/* How a step's tokens go to experts: the words of the value `routes` that the op ROUTE writes, and what
 * chooses. Compiles as C and as OpenCL C.
 *
 * A token has `used` experts, in ascending order: slot t * used + i is the i-th of token t. Rows are slots
 * grouped by expert; an expert's rows are consecutive, in the order of tokens, and begin at a multiple of
 * `align`. Items are what products walk: at most `tile` rows of one expert. */
#ifndef STATOR_KERNELS_SHARED_EXPERTS_H
#define STATOR_KERNELS_SHARED_EXPERTS_H

#include "kernels/shared/num.h"

#define EXPERTS_MAX      1024
#define EXPERTS_MAX_USED 64

/* Words of an item. */
#define EXPERTS_EXPERT 0
#define EXPERTS_ROW    1 /* the first */
#define EXPERTS_ROWS   2
#define EXPERTS_ITEM   3

/* Words from the value's begin on: the number of items, then arrays. */
#define EXPERTS_HEAD                16
#define EXPERTS_CHOSEN(slots)       (EXPERTS_HEAD)                  /* expert of a slot */
#define EXPERTS_WEIGHT(slots)       (EXPERTS_HEAD + (slots))        /* of a slot, a float */
#define EXPERTS_PLACE(slots)        (EXPERTS_HEAD + 2 * (slots))    /* row of a slot */
#define EXPERTS_ITEMS(slots)        (EXPERTS_HEAD + 3 * (slots))    /* at most as many as slots */
#define EXPERTS_TOKEN(slots)        (EXPERTS_HEAD + 6 * (slots))    /* of a row */
#define EXPERTS_FACTOR(slots, rows) (EXPERTS_TOKEN(slots) + (rows)) /* of a row, its slot's weight */
#define EXPERTS_WORDS(slots, rows)  (EXPERTS_TOKEN(slots) + 2 * (rows))

/* Of an expert that has no slot on the device. */
#define EXPERTS_FAR 0xFFFFFFFFu

/* How weights come of logits. */
#define EXPERTS_SIGMOID 1u /* each its sigmoid; else softmax */
#define EXPERTS_NORM    2u /* divided by the sum of those chosen; a softmax is then one over those chosen */

/* Of a sigmoid's sum, so that it has a reciprocal. */
#define EXPERTS_LEAST 0x1p-60f

/* Scores in ascending order: integers, so that any bits have an order. Both zeros are one. */
static inline num_u32 experts_key(float score) {
    num_u32 bits = NUM_BITS(score + 0.0f);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

#endif
