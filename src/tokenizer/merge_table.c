/* Reading tokenizer.ggml.merges: texts "left right"; the rank is the position in the list. The table is open
 * addressing with linear probing, five eighths full. */
#include "tokenizer/merge_table.h"

#include <inttypes.h>
#include <string.h>

stator_status merge_table_read(const struct gguf *g, struct gguf_value *merges, stator_error *e) {
    const char *key = "tokenizer.ggml.merges";
    stator_status s = gguf_read_array(g, key, GGUF_STRING, merges, e);
    if (s != STATOR_OK)
        return s;
    if (merges->count > MERGE_TABLE_MAX)
        return error_set(e, STATOR_BAD_MODEL, "%s: %s has %" PRIu64 " items, expected at most %u",
                         gguf_path(g, 0), key, merges->count, MERGE_TABLE_MAX);
    return STATOR_OK;
}

void merge_table_carve(struct merge_table *t, const struct gguf_value *merges, struct carve *c) {
    t->n_slots = (uint32_t)(merges->count * 8 / 5 + 1);
    t->slots = carve_take(c, t->n_slots, sizeof *t->slots);
}

stator_status merge_table_fill(struct merge_table *t, const struct gguf_value *merges, const struct vocab *v,
                               char *buffer, const struct gguf *g, stator_error *e) {
    for (uint32_t i = 0; i < t->n_slots; i++)
        t->slots[i] = (struct merge_slot){.merged = -1};
    const uint8_t *cursor = merges->data;
    for (uint64_t rank = 0; rank < merges->count; rank++) {
        struct gguf_text m = gguf_next_text(&cursor);
        /* A blank in front is part of the left half. */
        const char *blank = m.length > 1 ? memchr(m.data + 1, ' ', m.length - 1) : NULL;
        if (blank == NULL)
            return error_set(e, STATOR_BAD_MODEL,
                             "%s: tokenizer.ggml.merges: item %" PRIu64
                             " is \"%.*s\", expected two texts with a blank between",
                             gguf_path(g, 0), rank, (int)ARITH_MIN(m.length, 64), m.data);
        uint64_t first = (uint64_t)(blank - m.data), second = m.length - first - 1;
        if (first + second > v->longest)
            continue;
        memcpy(buffer, m.data, first);
        memcpy(buffer + first, blank + 1, second);
        int32_t left = vocab_find(v, buffer, first), right = vocab_find(v, buffer + first, second);
        int32_t merged = vocab_find(v, buffer, first + second);
        if (left < 0 || right < 0 || merged < 0)
            continue;
        struct merge_slot *slot = merge_table_slot(t, left, right);
        if (slot->merged < 0)
            *slot = (struct merge_slot){left, right, (uint32_t)rank, merged};
    }
    return STATOR_OK;
}
