#include "engine/run/pooling.h"

#include <math.h>
#include <string.h>

const char pooling_not_finite[] =
    "the model's hidden states are not finite numbers: the file's weights are damaged, or values overflow";

bool pooling_takes_all(const struct stator *s, const struct engine_request *r) {
    return r->kind == STATOR_EMBED && s->planning.shape->pooling == SHAPE_POOL_MEAN;
}

bool pooling_is_whole(const struct stator *s) {
    return s->planning.shape->sees_ahead;
}

/* The sum is in f32, in the order of positions: the same bits whatever the steps. */
bool pooling_take(const struct stator *s, struct engine_request *r, const float *row) {
    const uint32_t width = shape_row_width(s->planning.shape);
    CHECK(r->kind == STATOR_EMBED && r->rows != NULL && r->rows_told < r->n_prompt);
    float *out = r->rows->row[0];
    if (r->rows_told == 0)
        memcpy(out, row, width * sizeof *out);
    for (uint32_t i = 0; i < width && r->rows_told > 0; i++)
        out[i] += row[i];
    r->rows_told++;
    return !pooling_takes_all(s, r) || r->rows_told == r->n_prompt;
}

/* A vector of zeros stays as it is. */
static void scale_to_one(float *x, uint32_t n) {
    double squares = 0;
    for (uint32_t i = 0; i < n; i++)
        squares += (double)x[i] * (double)x[i];
    const double length = sqrt(squares);
    for (uint32_t i = 0; i < n && length > 0; i++)
        x[i] = (float)((double)x[i] / length);
}

/* Scaled to length 1, the sum is the mean. */
uint32_t pooling_end(const struct stator *s, struct engine_request *r) {
    const struct shape *shape = s->planning.shape;
    if (!shape_pools(shape))
        return shape_row_width(shape);
    const uint32_t n = r->dimensions > 0 ? r->dimensions : shape->n_embd;
    CHECK(n <= shape->n_embd);
    scale_to_one(r->rows->row[0], n);
    return n;
}
