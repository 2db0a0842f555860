/* The merges of a BPE vocabulary: from a pair of token ids to its rank and the token that it
 * becomes.
 *
 * A merge whose halves or result are not tokens is left out, since no token could come from it. The first of
 * equal pairs wins. Read-only after merge_table_fill: any thread. */
#ifndef STATOR_TOKENIZER_MERGE_TABLE_H
#define STATOR_TOKENIZER_MERGE_TABLE_H

#include "tokenizer/vocab.h"

#define MERGE_TABLE_MAX (1u << 26)

struct merge_slot {
    int32_t left, right;
    uint32_t rank;
    int32_t merged; /* -1: empty slot */
};

struct merge_table {
    struct merge_slot *slots;
    uint32_t n_slots;
};

stator_status merge_table_read(const struct gguf *g, struct gguf_value *merges, stator_error *e);
void merge_table_carve(struct merge_table *t, const struct gguf_value *merges, struct carve *c);
/* buffer: v->longest bytes, used meanwhile. */
stator_status merge_table_fill(struct merge_table *t, const struct gguf_value *merges, const struct vocab *v,
                               char *buffer, const struct gguf *g, stator_error *e);

static inline struct merge_slot *merge_table_slot(const struct merge_table *t, int32_t left, int32_t right) {
    uint64_t x = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9ull;
    uint32_t at = (uint32_t)(((x >> 32) * t->n_slots) >> 32);
    for (;;) {
        struct merge_slot *slot = &t->slots[at];
        if (slot->merged < 0 || (slot->left == left && slot->right == right))
            return slot;
        at = at + 1 < t->n_slots ? at + 1 : 0;
    }
}

/* NULL: this pair does not merge. */
static inline const struct merge_slot *merge_table_find(const struct merge_table *t, int32_t left,
                                                        int32_t right) {
    if (left < 0 || right < 0)
        return NULL;
    const struct merge_slot *slot = merge_table_slot(t, left, right);
    return slot->merged < 0 ? NULL : slot;
}

#endif
