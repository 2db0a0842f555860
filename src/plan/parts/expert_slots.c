#include "plan/parts/expert_slots.h"

#include "plan/parts/slices.h"

stator_status expert_slots_plan(struct planning *s, uint32_t index, uint64_t slice_limit, stator_error *e) {
    struct device_model *m = &s->devices[index].model;
    const uint64_t wanted = s->config.memory.expert_slots;
    uint64_t slices[GRAPH_MAX_SLICES];
    uint32_t experts = UINT32_MAX;
    CHECK(m->hosted);
    if (wanted == 0)
        return STATOR_OK;
    for (uint32_t i = 0; i < m->graph->n_ops; i++)
        if (graph_op_opens_experts(&m->graph->ops[i]))
            experts = ARITH_MIN(experts, m->graph->ops[i].experts.experts);
    m->cached = (struct device_slots){.n = (uint32_t)ARITH_MIN(wanted, (uint64_t)experts),
                                      .slice_limit = slice_limit};
    const uint32_t n = device_slot_slices(m, slices);
    bool fits = n <= ARITH_MIN(GRAPH_MAX_SLICES, PLAN_MAX_SLICES);
    for (uint32_t i = 0; i < n && fits; i++)
        fits = slices[i] <= slice_limit;
    if (fits)
        return STATOR_OK;
    return error_set(
        e, STATOR_DOES_NOT_FIT,
        "memory.expert_slots is %u: the slots of a layer of %s are larger than an allocation may be (%llu "
        "bytes), or there are too many of them: take fewer",
        m->cached.n, s->devices[index].facts.name, (unsigned long long)slice_limit);
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
