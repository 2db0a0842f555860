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
    const bool expected = (s->planning.config.devices.tensor || planned_route_same_kind(&s->planning, i)) &&
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

/* Of the boundary behind the device, or of all that it gives in a tensor split, in staging. */
static float *window(const struct stator *s, uint32_t device, uint32_t half) {
    const struct planning_device *d = &s->planning.devices[device];
    CHECK(d->has_window && s->start.staging != NULL);
    return (float *)(void *)((uint8_t *)s->start.staging + d->at_window + half * d->window_bytes);
}

/* From device i of a tensor split to device k. */
static stator_status decide_pair(struct stator *s, uint32_t i, uint32_t k, stator_error *e) {
    struct device *from = s->devices[i].device;
    struct device_route *r = &s->pairs[i][k];
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
    if (!r->direct && !s->planning.devices[i].has_window)
        return refuse_pair(s, i, k, r, e);
    s->group.direct[i][k] = r->direct;
    return STATOR_OK;
}

/* Every ordered pair of a tensor split. CPU devices read each other's memory. */
static stator_status decide_group(struct stator *s, stator_error *e) {
    stator_status st = STATOR_OK;
    for (uint32_t i = 0; i < s->planning.n_devices && st == STATOR_OK; i++) {
        for (uint32_t k = 0; k < 3 && s->planning.devices[i].has_window; k++)
            s->group.window[i][k] = window(s, i, k); /* the third one is behind the halves */
        for (uint32_t k = 0; k < s->planning.n_devices && st == STATOR_OK; k++)
            if (k != i)
                st = decide_pair(s, i, k, e);
    }
    return st;
}

stator_status routes_decide(struct stator *s, stator_error *e) {
    if (s->planning.config.devices.tensor)
        return decide_group(s, e);
    for (uint32_t i = 0; i + 1 < planning_stages(&s->planning); i++) {
        struct engine_device *from = &s->devices[i];
        struct engine_device *to = &s->devices[i + 1];
        if (s->planning.devices[i].facts.remote && s->planning.devices[i + 1].facts.remote) {
            from->route = (struct device_route){.direct = false};
            snprintf(from->route.why, sizeof from->route.why, "between other hosts");
            continue;
        }
        stator_status st = probe(s, i, &from->route, e);
        if (st != STATOR_OK)
            return st;
        if (!from->route.direct && !s->planning.devices[i].has_window)
            return refuse_pair(s, i, i + 1, &from->route, e);
        from->out = (struct device_link){.peer = to->device, .direct = from->route.direct};
        to->in = (struct device_link){.peer = from->device, .direct = from->route.direct};
        for (uint32_t k = 0; k < 2 && s->planning.devices[i].has_window; k++)
            from->out.window[k] = to->in.window[k] = window(s, i, k);
    }
    return STATOR_OK;
}

static void log_pairs(const struct stator *s) {
    for (uint32_t i = 0; i < s->planning.n_devices; i++)
        for (uint32_t k = 0; k < s->planning.n_devices; k++)
            if (k != i && !s->planning.devices[i].facts.host_memory)
                log_route(s, i, k, &s->pairs[i][k]);
}

void routes_log(const struct stator *s) {
    if (s->planning.config.devices.tensor) {
        log_pairs(s);
        return;
    }
    for (uint32_t i = 0; i + 1 < planning_stages(&s->planning); i++) {
        if (s->planning.devices[i].facts.remote && s->planning.devices[i + 1].facts.remote)
            continue; /* those say it themselves */
        log_route(s, i, i + 1, &s->devices[i].route);
    }
}
