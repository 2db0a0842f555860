/* What a model makes of a text besides logits: pooling and classifier. */
#include "model/shape.h"

#include <stdio.h>

#define MOST_LABELS 65536

static const char *const names[SHAPE_POOLINGS] = {[SHAPE_POOL_NONE] = "none",
                                                  [SHAPE_POOL_MEAN] = "mean",
                                                  [SHAPE_POOL_CLS] = "cls",
                                                  [SHAPE_POOL_LAST] = "last",
                                                  [SHAPE_POOL_RANK] = "rank"};

const char *shape_pooling_name(enum shape_pooling pooling) {
    return names[pooling];
}

stator_status shape_read_pooling(const struct gguf *g, struct shape *s, stator_error *e) {
    char key[96];
    uint32_t pooling = SHAPE_POOL_NONE;
    stator_status st =
        shape_read_u32_or(g, s, "pooling_type", 0, SHAPE_POOLINGS - 1, SHAPE_POOL_NONE, &pooling, e);
    s->pooling = (enum shape_pooling)pooling;
    s->labels = 1;
    snprintf(key, sizeof key, "%s.classifier.output_labels", s->arch_name);
    if (st != STATOR_OK || !gguf_find(g, key, NULL))
        return st;
    struct gguf_value labels;
    st = gguf_read_array(g, key, GGUF_STRING, &labels, e);
    if (st == STATOR_OK && (labels.count == 0 || labels.count > MOST_LABELS))
        st = gguf_error(g, e, "key '%s' has %llu labels: 1 to %d are expected", key,
                        (unsigned long long)labels.count, MOST_LABELS);
    if (st == STATOR_OK)
        s->labels = (uint32_t)labels.count;
    return st;
}

bool shape_pools(const struct shape *s) {
    return s->pooling != SHAPE_POOL_NONE && s->pooling != SHAPE_POOL_RANK;
}

uint32_t shape_row_width(const struct shape *s) {
    if (shape_pools(s))
        return s->n_embd;
    return s->pooling == SHAPE_POOL_RANK && s->classifier != NULL ? s->labels : s->vocab;
}
