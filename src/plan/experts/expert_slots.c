#include "plan/experts/expert_slots.h"

#include "plan/parts/slices.h"

/* Whether so many slots of a layer can be allocated, in slices of at most the model's limit. */
static bool can_be(const struct device_model *m) {
    uint64_t slices[GRAPH_MAX_SLICES];
    const uint32_t n = device_slot_slices(m, slices);
    bool fits = n <= ARITH_MIN(GRAPH_MAX_SLICES, PLAN_MAX_SLICES);
    for (uint32_t i = 0; i < n && fits; i++)
        fits = slices[i] <= m->cached.slice_limit;
    return fits;
}

static uint32_t fewest_experts(const struct graph *g) {
    uint32_t experts = UINT32_MAX;
    for (uint32_t i = 0; i < g->n_ops; i++)
        if (graph_op_opens_experts(&g->ops[i]))
            experts = ARITH_MIN(experts, g->ops[i].experts.experts);
    CHECK(experts < UINT32_MAX);
    return experts;
}

stator_status expert_slots_plan(struct planning *s, uint32_t index, uint64_t slice_limit, stator_error *e) {
    struct device_model *m = &s->devices[index].model;
    const uint64_t wanted = s->config.memory.expert_slots;
    CHECK(m->hosted);
    m->cached = (struct device_slots){.slice_limit = slice_limit};
    if (wanted == 0 || wanted == CONFIG_SLOTS_AUTO)
        return STATOR_OK;
    m->cached.n = (uint32_t)ARITH_MIN(wanted, (uint64_t)fewest_experts(m->graph));
    if (can_be(m))
        return STATOR_OK;
    return error_set(
        e, STATOR_DOES_NOT_FIT,
        "memory.expert_slots is %u: the slots of a layer of %s are larger than an allocation may "
        "be (%llu bytes), or there are too many of them: take fewer",
        m->cached.n, s->devices[index].facts.name, (unsigned long long)slice_limit);
}

void expert_slots_fill(const struct device_facts *f, struct device_model *m, uint64_t room) {
    uint32_t good = 0, bad = fewest_experts(m->graph) + 1;
    while (bad - good > 1) {
        m->cached.n = good + (bad - good) / 2;
        if (can_be(m) && expert_slots_bytes(f, m) <= room)
            good = m->cached.n;
        else
            bad = m->cached.n;
    }
    m->cached.n = good;
}

uint64_t expert_slots_bytes(const struct device_facts *f, const struct device_model *m) {
    uint64_t slices[GRAPH_MAX_SLICES], sum = 0;
    const uint32_t n = device_slot_slices(m, slices);
    for (uint32_t i = 0; i < n; i++)
        sum = arith_must_add(sum, slices_rounded(f, slices[i]));
    return sum;
}

void expert_slots_add(const struct device_facts *f, const struct device_model *m, struct plan_place *place,
                      struct plan *p) {
    uint64_t slices[GRAPH_MAX_SLICES];
    const uint32_t n = device_slot_slices(m, slices);
    if (n == 0)
        return;
    struct plan_arena *a = plan_add_arena(place, "slots", 0, 0);
    for (uint32_t i = 0; i < n; i++) {
        plan_add_slice(place, a, slices_rounded(f, slices[i]));
        plan_add_block(p, "slots for experts", 17, i, 0, slices[i], 0, 0);
        a->lower_bound += slices[i];
    }
}
