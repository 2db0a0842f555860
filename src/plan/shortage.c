#include "plan/shortage.h"

#include "base/units.h"
#include "plan/fit.h"
#include "plan/planner.h"
#include "plan/spill.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What memory.on_oom = "spill" would do or does, where a GPU is too small; else "". */
static const char *spill_hint(struct planning *s, char *out, size_t n) {
    struct planning_want want = s->want;
    struct plan made;
    char size[UNITS_TEXT];
    out[0] = '\0';
    if (spill_all(&s->plan) > 0)
        snprintf(out, n, " What the GPUs spill to the host, %s, is in these figures.",
                 units_format_size(spill_all(&s->plan), size));
    bool gpu = false;
    for (uint32_t i = 0; i < s->n_devices; i++)
        gpu = gpu || (!s->devices[i].facts.host_memory && s->plan.places[i].total > s->plan.places[i].budget);
    want.spill = true;
    if (!gpu || s->want.spill || planner_make(s, &want, &made, NULL) != STATOR_OK)
        return out;
    if (made.fits)
        snprintf(out, n,
                 " With memory.on_oom = \"spill\" it fits: that puts %" PRIu64 " bytes (%s) in host memory.",
                 spill_all(&made), units_format_size(spill_all(&made), size));
    else
        snprintf(out, n, " memory.on_oom = \"spill\" is not enough: %s would be short by %s.",
                 made.missing.where, units_format_size(made.missing.bytes, size));
    return out;
}

/* A GPU that is too small has slots that a person has counted: these are the first to go. */
static bool slots_are_many(const struct planning *s) {
    for (uint32_t i = 0; i < s->n_devices; i++)
        if (s->plan.places[i].spill.slots > 0 && s->plan.places[i].total > s->plan.places[i].budget)
            return true;
    return false;
}

/* What would fit instead, in one or two sentences. */
static const char *offer(const struct planning *s, char *out, size_t n) {
    const struct plan_short *m = &s->plan.missing;
    if (m->largest_context == 0 && m->largest_batch == 0 && m->largest_sequences == 0)
        snprintf(out, n,
                 "No smaller context, batch or number of sequences alone would fit; wanted %u, %u, %u.",
                 s->want.context, s->want.batch, s->want.sequences);
    else
        snprintf(out, n,
                 "One change alone that would fit: context %" PRIu64 ", batch %" PRIu64
                 " or sequences %" PRIu64 " (0: none would); wanted %u, %u, %u.",
                 m->largest_context, m->largest_batch, m->largest_sequences, s->want.context, s->want.batch,
                 s->want.sequences);
    const size_t used = strlen(out);
    if (m->kv_type != NULL)
        snprintf(out + used, n - used, " It fits with memory.kv_type = \"%s\".", m->kv_type);
    else if (slots_are_many(s))
        snprintf(out + used, n - used,
                 " memory.expert_slots = \"auto\" takes as many slots as fit; now there are %" PRIu64 ".",
                 s->config.memory.expert_slots);
    return out;
}

/* Whether the place is a GPU of which memory.device_limit leaves a part out that would hold it. */
static bool limited(const struct planning *s, const struct plan_place *place) {
    const uint32_t i = (uint32_t)(place - s->plan.places);
    return i < planning_parts(s) && s->config.memory.device_limit > 0 &&
           s->devices[i].facts.memory > s->config.memory.device_limit &&
           place->total <= s->devices[i].facts.memory;
}

/* The figure to change where a person has set the limit of a place's memory; else "". */
static const char *limit_hint(const struct planning *s, const struct plan_place *place, char *out, size_t n) {
    const enum config_source source = s->config.origin[CONFIG_MEMORY_HOST_LIMIT].source;
    char where[96];
    out[0] = '\0';
    if (limited(s, place))
        snprintf(out, n, " memory.device_limit (%.60s) would have to be at least %" PRIu64 " bytes.",
                 config_origin_text(&s->config, CONFIG_MEMORY_DEVICE_LIMIT, where, sizeof where),
                 place->total);
    else if (place == &s->plan.places[s->plan.n_places - 1] &&
             (source == CONFIG_FROM_FILE || source == CONFIG_FROM_SET))
        snprintf(out, n, " memory.host_limit (%.60s) would have to be at least %" PRIu64 " bytes.",
                 config_origin_text(&s->config, CONFIG_MEMORY_HOST_LIMIT, where, sizeof where),
                 arith_must_add(place->total, s->host_taken));
    return out;
}

/* ", and gpu1 1.86 GiB, and 2 more places": what is short beside `place`, as far as there is room. */
static const char *others_short(const struct planning *s, const struct plan_place *place, char *out,
                                size_t n) {
    uint32_t more = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < s->plan.n_places; i++) {
        const struct plan_place *other = &s->plan.places[i];
        bool counted = other == place ||
                       (i < planning_parts(s) && s->devices[i].facts.host_memory); /* in the host's figure */
        char over[UNITS_TEXT];
        char item[64];
        if (counted || other->total <= other->budget)
            continue;
        snprintf(item, sizeof item, ", and %.31s %s", other->name,
                 units_format_size(other->total - other->budget, over));
        if (more > 0 || strlen(out) + strlen(item) + sizeof ", and 99 more places" > n)
            more++;
        else
            strcat(out, item);
    }
    size_t used = strlen(out);
    if (more > 0)
        snprintf(out + used, n - used, ", and %u more place%s", more, more == 1 ? "" : "s");
    return out;
}

stator_status shortage_refuse(struct planning *s, stator_error *e) {
    CHECK(s->planned && !s->plan.fits);
    fit_search(s, &s->want, &s->plan);
    const struct plan_short *m = &s->plan.missing;
    char missing[UNITS_TEXT];
    const struct plan_place *place = &s->plan.places[0];
    for (uint32_t i = 0; i < s->plan.n_places; i++)
        if (s->plan.places[i].total == s->plan.places[i].budget + m->bytes) {
            place = &s->plan.places[i];
            break;
        }
    CHECK(place->total > place->budget);
    char others[128];
    char instead[208];
    char limit[128];
    char hint[160];
    char total[UNITS_TEXT];
    char budget[UNITS_TEXT];
    return error_set(e, STATOR_DOES_NOT_FIT,
                     "does not fit: %s needs %s of %s, %s too much (largest arena there: %s)%s. %s%s%s",
                     place->name, units_format_size(place->total, total),
                     units_format_size(place->budget, budget), units_format_size(m->bytes, missing), m->where,
                     others_short(s, place, others, sizeof others), offer(s, instead, sizeof instead),
                     limit_hint(s, place, limit, sizeof limit), spill_hint(s, hint, sizeof hint));
}

stator_status shortage_refuse_unmade(struct planning *s, const stator_error *why, stator_error *e) {
    CHECK(why->code != STATOR_OK);
    struct plan *p = &s->plan;
    struct plan_short found = p->missing;
    struct planning_want whole = s->want;
    whole.any_slice = true;
    if (planner_make(s, &whole, p, NULL) != STATOR_OK) {
        plan_init(p);
        plan_add_place(p, "host", true, s->host_limit);
        planner_inputs(s, &s->want, p);
    }
    p->fits = false;
    p->missing = found;
    fit_search(s, &s->want, p);
    const struct plan_short *m = &p->missing;
    if (m->slice_limit == 0)
        return error_set(e, STATOR_DOES_NOT_FIT, "does not fit: %s", why->text);
    char needs[UNITS_TEXT], limit[UNITS_TEXT], over[UNITS_TEXT], instead[208];
    return error_set(
        e, STATOR_DOES_NOT_FIT,
        "does not fit: %s needs %s that can't be cut, slices there hold %s, %s too much: %.200s. %s",
        m->where, units_format_size(m->slice_bytes, needs), units_format_size(m->slice_limit, limit),
        units_format_size(m->bytes, over), why->text, offer(s, instead, sizeof instead));
}
