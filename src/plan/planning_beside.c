#include "plan/planning_beside.h"

#include "base/units.h"

#include <stdio.h>
#include <string.h>

/* A draft's has its role in front. */
static const char *gpu_name(const struct planning *s, uint32_t i) {
    CHECK(i < planning_parts(s));
    const char *name = s->devices[i].facts.name;
    const char *slash = i < s->n_devices ? NULL : strchr(name, '/');
    return slash != NULL ? slash + 1 : name;
}

bool planning_beside_same(const struct planning *s, uint32_t i, const struct planning *other, uint32_t k) {
    return !s->devices[i].facts.host_memory && !other->devices[k].facts.host_memory &&
           strcmp(gpu_name(s, i), gpu_name(other, k)) == 0;
}

uint64_t planning_taken(const struct planning *s, uint32_t i) {
    uint64_t sum = 0;
    for (const struct planning *other = s->beside; other != NULL; other = other->beside)
        for (uint32_t k = 0; k < planning_parts(other); k++)
            if (planning_beside_same(s, i, other, k))
                sum = arith_must_add(sum, other->plan.places[k].total);
    return sum;
}

/* The last place of a plan. */
static uint64_t host_bytes(const struct planning *s) {
    CHECK(s->plan.n_places > 0 && s->plan.places[s->plan.n_places - 1].is_host);
    return s->plan.places[s->plan.n_places - 1].total;
}

stator_status planning_beside_resolve(struct planning *s, stator_error *e) {
    s->host_taken = 0;
    for (const struct planning *other = s->beside; other != NULL; other = other->beside) {
        if (!other->planned)
            return error_set(e, STATOR_USAGE, "stator_plan: the engine of options.beside has no plan yet");
        s->host_taken = arith_must_add(s->host_taken, host_bytes(other));
        s->process_limit = other->process_limit;
    }
    s->host_limit = s->process_limit > s->host_taken ? s->process_limit - s->host_taken : 1;
    CHECK(s->host_limit > 0 && s->host_limit <= s->process_limit);
    return STATOR_OK;
}

stator_status planning_beside_check(struct planning *s, stator_error *e) {
    const uint64_t planned_with = s->host_limit;
    char total[UNITS_TEXT], left[UNITS_TEXT], before[UNITS_TEXT];
    stator_status st = planning_beside_resolve(s, e);
    if (st != STATOR_OK || host_bytes(s) <= s->host_limit)
        return st;
    return error_set(
        e, STATOR_DOES_NOT_FIT,
        "does not fit any more: host needs %s of %s. It was planned with %s, and since then a GPU's "
        "driver has refused memory to a model before this one, of which more is on the host now. "
        "Give that model less of the GPU (its memory.driver_reserve), or raise memory.host_limit",
        units_format_size(host_bytes(s), total), units_format_size(s->host_limit, left),
        units_format_size(planned_with, before));
}

void planning_beside_explain(const struct planning *s, stator_error *e) {
    char size[UNITS_TEXT];
    for (const struct planning *other = s->beside; other != NULL && e != NULL; other = other->beside) {
        const size_t n = strlen(e->text);
        snprintf(e->text + n, sizeof e->text - n, " The model \"%s\" takes %s of the host%s.",
                 other->config.model.name, units_format_size(host_bytes(other), size),
                 other->devices[0].facts.host_memory ? "" : ", and has memory of GPUs");
    }
}
