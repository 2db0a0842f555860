#include "plan/experts/hosted_estimate.h"

#include "plan/parts/device_spec.h"

/* As devices.facts says it; 0: it does not. */
static uint64_t stated_ram(const struct planning *s) {
    struct device_facts facts[DEVICE_SPEC_MAX];
    uint32_t n = 0;
    if (device_spec_parse_list(s->config.devices.facts, "devices.facts:", facts, &n, NULL) != STATOR_OK)
        return 0;
    const struct device_facts *said = device_spec_find(facts, n, "cpu:0");
    return said != NULL ? said->bandwidth : 0;
}

/* Seconds that processors take for a step's experts, which are so many bytes together. They read those that
 * are chosen: every token chooses each as probably as any other. Sums and products only, so that every
 * machine finds the same. */
static double processors_take(const struct planning *s, double bytes, uint32_t tokens) {
    const struct shape_experts *x = &s->shape->experts;
    CHECK(x->count > 0 && x->used <= x->count && tokens > 0 && bytes >= 0);
    const uint64_t stated = stated_ram(s);
    const double one = bytes / (double)x->count;
    double none = 1; /* the probability that no token chooses an expert */
    for (uint32_t t = 0; t < tokens; t++)
        none *= 1 - (double)x->used / (double)x->count;
    const double read = bytes * (1 - none);
    const double multiplied = one * (double)x->used * (double)tokens / HOSTED_ESTIMATE_TOKENS;
    return ARITH_MAX(read, multiplied) / (double)(stated != 0 ? stated : HOSTED_ESTIMATE_RAM);
}

uint32_t hosted_window(const struct planning *s, const struct device_facts *f,
                       const struct planning_want *want) {
    const uint64_t said = s->config.memory.expert_window;
    const double bytes = 1e9; /* any: both times are in proportion */
    if (!want->window || s->shape->experts.count == 0)
        return 0;
    if (said != CONFIG_WINDOW_AUTO)
        return said <= want->batch ? (uint32_t)said : 0; /* fit.c tries smaller batches */
    if (f->bus == 0 || processors_take(s, bytes, want->batch) <= bytes / (double)f->bus)
        return 0;
    uint32_t fewer = 0, enough = want->batch;
    while (enough - fewer > 1) {
        const uint32_t middle = fewer + (enough - fewer) / 2;
        if (processors_take(s, bytes, middle) > bytes / (double)f->bus)
            enough = middle;
        else
            fewer = middle;
    }
    return enough;
}

/* Seconds of a token, with so many of its experts in slots. */
static double seconds_of(const struct planning *s, const struct plan *p, double hits) {
    double sum = 0;
    for (uint32_t i = 0; i < s->n_devices; i++) {
        const struct device_facts *f = &s->devices[i].facts;
        const struct plan_spill *x = &p->places[i].spill;
        const double missed = (1 - hits) * (double)x->hosted_ram;
        const double copied = hits > 0 ? ARITH_MIN(missed, (double)x->slot_copies) : 0;
        const double processors = (missed + copied) / (double)p->hosted.ram;
        const double device = hits * (double)x->hosted_ram / (double)f->bandwidth;
        sum += (double)x->near / (double)f->bandwidth + ARITH_MAX(processors, device);
        sum += x->far + x->hosted_bus > 0 ? (double)(x->far + x->hosted_bus) / (double)f->bus : 0;
    }
    return sum;
}

void hosted_estimate(const struct planning *s, struct plan *p) {
    static const double rates[PLAN_HIT_RATES] = {0, 0.67, 0.81};
    struct plan_hosted *h = &p->hosted;
    bool any = false, slots = false;
    *h = (struct plan_hosted){.ram = stated_ram(s)};
    h->ram_assumed = h->ram == 0;
    h->ram = h->ram_assumed ? HOSTED_ESTIMATE_RAM : h->ram;
    for (uint32_t i = 0; i < s->n_devices; i++) {
        struct plan_spill *x = &p->places[i].spill;
        const uint64_t bus = s->devices[i].facts.bus;
        if (x->window_bytes == 0 || bus == 0)
            continue;
        x->window_seconds = (double)x->window_bytes / (double)bus;
        x->processors_seconds = processors_take(s, (double)x->window_bytes, s->devices[i].graph.want.batch);
    }
    for (uint32_t i = 0; i < s->n_devices; i++) {
        const struct device_facts *f = &s->devices[i].facts;
        any = any || p->places[i].spill.hosted > 0;
        slots = slots || p->places[i].spill.slots > 0;
        if (f->host_memory || f->bandwidth == 0 || f->bus == 0)
            return;
    }
    if (!any || s->shape->sees_ahead)
        return;
    h->n = slots ? PLAN_HIT_RATES : 1;
    for (uint32_t i = 0; i < h->n; i++) {
        h->hits[i] = rates[i];
        h->tokens[i] = 1 / seconds_of(s, p, rates[i]);
    }
}
