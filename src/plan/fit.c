#include "plan/fit.h"

#include "kernels/kernels.h"
#include "plan/planner.h"
#include "plan/spill.h"

#define MOST_SEQUENCES 1024 /* that memory.sequences takes */

struct probe {
    struct planning *s;
    struct planning_want want;
    uint32_t *field; /* of want */
    uint32_t step;   /* its values are multiples of it, or the wanted one */
};

static bool fits(struct probe *p, uint64_t v) {
    CHECK(v > 0 && v <= UINT32_MAX);
    *p->field = (uint32_t)v;
    if (p->s->rows_follow_sequences)
        p->want.logits_rows = p->want.sequences * (p->want.guesses + 1);
    if (p->want.logits_rows > p->want.batch)
        p->want.logits_rows = p->want.batch;
    struct plan plan;
    return planner_make(p->s, &p->want, &plan, NULL) == STATOR_OK && plan.fits;
}

/* The largest multiple of step up to `most` that fits (plans grow with each size); 0: none. */
static uint64_t largest(struct planning *s, const struct planning_want *want, size_t field, uint32_t step,
                        uint32_t most) {
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

uint32_t fit_largest_context(struct planning *s, const struct planning_want *want) {
    struct planning_want w = *want;
    w.spill = false;
    uint32_t most = ARITH_MIN((uint32_t)CONFIG_CONTEXT_MOST, s->shape->context_trained);
    uint64_t context = largest(s, &w, offsetof(struct planning_want, context), 32, most);
    if (context == 0 && want->spill)
        context = largest(s, want, offsetof(struct planning_want, context), 32, want->context);
    return (uint32_t)context;
}

/* The tokens whose KV the free bytes hold, on every device at once. */
static uint64_t tokens_in_room(const struct planning *s, const struct plan *p) {
    uint64_t most = UINT64_MAX;
    uint64_t in_host = 0;
    const struct plan_place *host = &p->places[p->n_places - 1];
    CHECK(host->is_host && host->total <= host->budget);
    for (uint32_t i = 0; i < planning_parts(s); i++) {
        const struct plan_place *place = &p->places[i];
        uint64_t each = place->kv_per_token;
        for (uint32_t k = i + 1; k < planning_parts(s); k++) /* what is theirs is taken off */
            each += planning_owner(s, k) == i ? p->places[k].kv_per_token : 0;
        if (each > 0 && planning_owner(s, i) == i) /* else it has no layer whose cache grows */
            most = ARITH_MIN(most, (place->budget - place->total) / each);
        if (s->devices[i].facts.host_memory)
            in_host += place->kv_per_token;
    }
    if (in_host > 0)
        most = ARITH_MIN(most, (host->budget - host->total) / in_host);
    return most != UINT64_MAX ? most : 0;
}

void fit_room(struct planning *s, const struct planning_want *want, struct plan *p) {
    CHECK(p->fits);
    p->room_known = true;
    p->sequences_fit = want->sequences;
    if (spill_forced(p) > 0)
        return;
    p->room_tokens = tokens_in_room(s, p);
    struct planning_want kept = *want;
    kept.spill = false;
    want = &kept;
    struct probe q = {.s = s, .want = *want, .step = 1};
    q.field = &q.want.sequences;
    uint32_t most = ARITH_MIN((uint32_t)MOST_SEQUENCES, want->batch); /* a step takes a token of each */
    uint32_t good = want->sequences;
    uint32_t bad = good;
    while (bad == good && good < most) {
        bad = (uint32_t)ARITH_MIN(good * (uint64_t)2, (uint64_t)most);
        if (fits(&q, bad))
            good = bad;
    }
    while (bad > good + 1) {
        uint32_t middle = good + (bad - good) / 2;
        q.want = *want;
        if (fits(&q, middle))
            good = middle;
        else
            bad = middle;
    }
    p->sequences_fit = good;
}

/* The largest type for K and V, smaller than the wanted ones, with which everything fits; NULL: none.
 * KERNELS_KV_* are in the order of their sizes, the largest first. */
_Static_assert(KERNELS_KV_F32 < KERNELS_KV_F16 && KERNELS_KV_F16 < KERNELS_KV_Q8_0 &&
                   KERNELS_KV_Q8_0 < KERNELS_KV_Q4_0 && KERNELS_KV_Q4_0 + 1 == KERNELS_KV_TYPES,
               "types of K and V, the largest first");
static const char *smaller_kv_type(struct planning *s, const struct planning_want *want) {
    for (uint32_t type = 0; type < KERNELS_KV_TYPES; type++) {
        struct planning_want w = *want;
        struct plan plan;
        w.kv_type_k = w.kv_type_v = type;
        const bool smaller = type >= want->kv_type_k && type >= want->kv_type_v &&
                             (type > want->kv_type_k || type > want->kv_type_v);
        if (smaller && planner_make(s, &w, &plan, NULL) == STATOR_OK && plan.fits)
            return kernels_kv_name((enum kernels_kv)type);
    }
    return NULL;
}

void fit_search(struct planning *s, const struct planning_want *want, struct plan *p) {
    p->missing.largest_context = largest(s, want, offsetof(struct planning_want, context), 32, want->context);
    p->missing.largest_batch = largest(s, want, offsetof(struct planning_want, batch), 1, want->batch);
    /* A step takes a token of every sequence, and the rows that were asked for. */
    if (p->missing.largest_batch <
        ARITH_MAX(want->sequences, s->rows_follow_sequences ? want->guesses + 1 : want->logits_rows))
        p->missing.largest_batch = 0;
    p->missing.largest_sequences =
        largest(s, want, offsetof(struct planning_want, sequences), 1, want->sequences);
    p->missing.kv_type = smaller_kv_type(s, want);
}
