/* What would fit: searches over real plans, one size at a time, the others as wanted. */
#include "engine/engine.h"

struct probe {
    struct stator *s;
    struct engine_want want;
    uint32_t *field; /* of want */
    uint32_t step;   /* its values are multiples of it, or the wanted one */
};

static bool fits(struct probe *p, uint64_t v)
{
    *p->field = (uint32_t)v;
    if (p->s->rows_follow_sequences)
        p->want.logits_rows = p->want.sequences;
    if (p->want.logits_rows > p->want.batch)
        p->want.logits_rows = p->want.batch;
    struct plan plan;
    struct device_model m;
    return planner_make(p->s, &p->want, &plan, &m, NULL) == STATOR_OK && plan.fits;
}

/* The largest multiple of step up to `most` that fits (plans grow with each size); 0: none. */
static uint64_t largest(struct stator *s, const struct engine_want *want, size_t field, uint32_t step, uint32_t most)
{
    struct probe p = {.s = s, .want = *want, .step = step};
    p.field = (uint32_t *)((uint8_t *)&p.want + field);
    if (fits(&p, most))
        return most;
    uint64_t good = 0;
    uint64_t bad = arith_ceil_div(most, step);
    while (bad - good > 1) {
        uint64_t middle = good + (bad - good) / 2;
        p.want = *want;
        if (fits(&p, middle * step))
            good = middle;
        else
            bad = middle;
    }
    return good * step;
}

uint32_t fit_largest_context(struct stator *s, const struct engine_want *want)
{
    return (uint32_t)largest(s, want, offsetof(struct engine_want, context), 32, s->shape->context_trained);
}

void fit_search(struct stator *s, const struct engine_want *want, struct plan *p)
{
    p->missing.largest_context = largest(s, want, offsetof(struct engine_want, context), 32, want->context);
    p->missing.largest_batch = largest(s, want, offsetof(struct engine_want, batch), 1, want->batch);
    /* A step takes a token of every sequence, and the rows that were asked for. */
    if (p->missing.largest_batch < ARITH_MAX(want->sequences, want->logits_rows))
        p->missing.largest_batch = 0;
    p->missing.largest_sequences = largest(s, want, offsetof(struct engine_want, sequences), 1, want->sequences);
}
