/* Where encoded ids go: everything is counted, what fits is kept. */
#ifndef STATOR_TOKENIZER_IDS_H
#define STATOR_TOKENIZER_IDS_H

#include <stdint.h>

struct ids {
    int32_t *data;
    uint64_t capacity, n;
};

static inline void ids_put(struct ids *o, int32_t id) {
    if (o->n < o->capacity)
        o->data[o->n] = id;
    o->n++;
}

#endif
