#include "engine/start/routes.h"

#include "base/units.h"
#include "plan/planned_route.h"

#include <stdio.h>
#include <string.h>

static stator_status probe(struct stator *s, uint32_t i, struct device_route *r, stator_error *e) {
    struct device *from = s->devices[i].device;
    *r = (struct device_route){.direct = false};
    if (planned_route_crosses(&s->planning, i))
        snprintf(r->why, sizeof r->why, "over the network");
    else if (s->planning.config.transfer.mode == CONFIG_TRANSFER_STAGED)
        snprintf(r->why, sizeof r->why, "transfer.mode is \"staged\"");
    else if (!planned_route_same_kind(&s->planning, i))
        snprintf(r->why, sizeof r->why, PLANNED_ROUTE_OTHER_KIND);
    else if (from->vtable->peer_probe == NULL)
        snprintf(r->why, sizeof r->why, "this kind of device has no direct copies");
    else
        return from->vtable->peer_probe(from, s->devices[i + 1].device, s->planning.config.transfer.verify,
                                        s->start.staging, s->planning.staging_bytes, r, e);
    return STATOR_OK;
}

static stator_status refuse_pair(const struct stator *s, uint32_t i, uint32_t k, const struct device_route *r,
                                 stator_error *e) {
    return error_set(e, STATOR_DEVICE,
                     "copies from %s to %s can't go directly: %s. transfer.mode = \"%s\" has no other "
                     "way for them; \"staged\" goes through the host",
                     s->planning.devices[i].facts.name, s->planning.devices[k].facts.name, r->why,
                     config_enum_name(CONFIG_TRANSFER_MODE, (int)s->planning.config.transfer.mode));
}

/* One log line. A pair that should have been direct is a warning. */
static void log_route(const struct stator *s, uint32_t i, uint32_t k, const struct device_route *r) {
    const char *from = s->planning.devices[i].facts.name, *to = s->planning.devices[k].facts.name;
    const bool expected = planned_route_same_kind(&s->planning, ARITH_MIN(i, k)) &&
                          !planned_route_crosses(&s->planning, i) &&
                          s->planning.config.transfer.mode == CONFIG_TRANSFER_AUTO;
    char rate[UNITS_TEXT], timed[UNITS_TEXT + 32] = "";
    if (r->bytes_per_second != 0)
        snprintf(timed, sizeof timed, ", %s/s, %.1f us", units_format_size(r->bytes_per_second, rate),
                 (double)r->latency_ns * 1e-3);
    if (r->direct)
        log_write(&s->log, STATOR_LOG_INFO, "%s to %s: direct%s", from, to, timed);
    else
        log_write(&s->log, expected && timed[0] == '\0' ? STATOR_LOG_WARN : STATOR_LOG_INFO,
                  "%s to %s: staged through the host: %s%s", from, to, r->why, timed);
}

/* Window `half` in staging; of rows of logits the third one. NULL: there are none. */
static void *window(const struct stator *s, const struct planning_windows *w, uint32_t half) {
    CHECK(s->start.staging != NULL);
    return w->bytes == 0 ? NULL : (uint8_t *)s->start.staging + w->at + half * w->bytes;
}

/* From device i to device k of its group. */
static stator_status decide_pair(struct stator *s, uint32_t i, uint32_t k, stator_error *e) {
    CHECK(i != k && i < s->planning.n_devices && k < s->planning.n_devices);
    struct device *from = s->devices[i].device;
    struct device_route *r = &s->pairs[i][k];
    const uint32_t first = planning_stage_first(&s->planning, i);
    *r = (struct device_route){.direct = s->planning.devices[i].facts.host_memory};
    if (r->direct)
        return STATOR_OK;
    if (s->planning.config.transfer.mode == CONFIG_TRANSFER_STAGED)
        snprintf(r->why, sizeof r->why, "transfer.mode is \"staged\"");
    else {
        stator_status st =
            from->vtable->peer_probe(from, s->devices[k].device, s->planning.config.transfer.verify,
                                     s->start.staging, s->planning.staging_bytes, r, e);
        if (st != STATOR_OK)
            return st;
    }
    if (!r->direct && s->planning.devices[i].group.bytes == 0)
        return refuse_pair(s, i, k, r, e);
    s->groups[planning_stage(&s->planning, i)].direct[i - first][k - first] = r->direct;
    return STATOR_OK;
}

/* Every ordered pair of a group. CPU devices read each other's memory. */
static stator_status decide_group(struct stator *s, uint32_t stage, stator_error *e) {
    struct device_group *g = &s->groups[stage];
    const uint32_t first = planning_stage_begin(&s->planning, stage);
    stator_status st = STATOR_OK;
    if (s->planning.devices[first].facts.remote)
        return STATOR_OK; /* that host decides */
    for (uint32_t i = 0; i < g->count && st == STATOR_OK; i++) {
        for (uint32_t k = 0; k < 3; k++)
            g->window[i][k] = window(s, &s->planning.devices[first + i].group, k);
        for (uint32_t k = 0; k < g->count && st == STATOR_OK; k++)
            if (k != i)
                st = decide_pair(s, first + i, first + k, e);
    }
    return st;
}

/* Between device i, the last one of its stage, and the first one of the next stage. */
static stator_status decide_boundary(struct stator *s, uint32_t i, stator_error *e) {
    struct engine_device *from = &s->devices[i], *to = &s->devices[i + 1];
    const struct planning_device *p = &s->planning.devices[i];
    if (p->facts.remote && s->planning.devices[i + 1].facts.remote) {
        from->route = (struct device_route){.direct = false};
        snprintf(from->route.why, sizeof from->route.why, "between other hosts");
        return STATOR_OK;
    }
    stator_status st = probe(s, i, &from->route, e);
    if (st != STATOR_OK)
        return st;
    if (!from->route.direct && p->next.bytes == 0)
        return refuse_pair(s, i, i + 1, &from->route, e);
    from->out = (struct device_link){.peer = to->device, .direct = from->route.direct};
    to->in = (struct device_link){.peer = from->device, .direct = from->route.direct};
    for (uint32_t k = 0; k < 2; k++)
        from->out.window[k] = to->in.window[k] = window(s, &p->next, k);
    return STATOR_OK;
}

stator_status routes_decide(struct stator *s, stator_error *e) {
    const struct planning *p = &s->planning;
    stator_status st = STATOR_OK;
    for (uint32_t k = 0; k < planning_stages(p) && planning_largest_group(p) > 1 && st == STATOR_OK; k++)
        st = decide_group(s, k, e);
    for (uint32_t i = 0; i + 1 < p->n_devices && st == STATOR_OK; i++)
        if (i == planning_stage_last(p, i))
            st = decide_boundary(s, i, e);
    return st;
}

void routes_log(const struct stator *s) {
    const struct planning *p = &s->planning;
    for (uint32_t i = 0; i < p->n_devices; i++) {
        const uint32_t first = planning_stage_first(p, i), last = planning_stage_last(p, i);
        for (uint32_t k = first; k <= last; k++)
            if (k != i && !p->devices[i].facts.host_memory && !p->devices[i].facts.remote)
                log_route(s, i, k, &s->pairs[i][k]);
        if (i == last && i + 1 < p->n_devices &&
            !(p->devices[i].facts.remote && p->devices[i + 1].facts.remote)) /* those say it themselves */
            log_route(s, i, i + 1, &s->devices[i].route);
    }
}
