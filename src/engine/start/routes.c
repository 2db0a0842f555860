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

/* Of the boundary behind the device, in staging. */
static float *window(const struct stator *s, uint32_t device, uint32_t half) {
    const struct planning_device *d = &s->planning.devices[device];
    CHECK(d->has_window && s->start.staging != NULL);
    return (float *)(void *)((uint8_t *)s->start.staging + d->at_window + half * d->window_bytes);
}

stator_status routes_decide(struct stator *s, stator_error *e) {
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
            return error_set(
                e, STATOR_DEVICE,
                "copies from %s to %s can't go directly: %s. transfer.mode = \"%s\" has no other "
                "way for them; \"staged\" goes through the host",
                s->planning.devices[i].facts.name, s->planning.devices[i + 1].facts.name, from->route.why,
                config_enum_name(CONFIG_TRANSFER_MODE, (int)s->planning.config.transfer.mode));
        from->out = (struct device_link){.peer = to->device, .direct = from->route.direct};
        to->in = (struct device_link){.peer = from->device, .direct = from->route.direct};
        for (uint32_t k = 0; k < 2 && s->planning.devices[i].has_window; k++)
            from->out.window[k] = to->in.window[k] = window(s, i, k);
    }
    return STATOR_OK;
}

void routes_log(const struct stator *s) {
    for (uint32_t i = 0; i + 1 < planning_stages(&s->planning); i++) {
        const char *from = s->planning.devices[i].facts.name;
        const struct device_route *r = &s->devices[i].route;
        if (s->planning.devices[i].facts.remote && s->planning.devices[i + 1].facts.remote)
            continue; /* those say it themselves */
        const char *to = s->planning.devices[i + 1].facts.name;
        char rate[UNITS_TEXT];
        if (r->direct && r->bytes_per_second != 0)
            log_write(&s->log, STATOR_LOG_INFO, "%s to %s: direct, %s/s, %.1f us", from, to,
                      units_format_size(r->bytes_per_second, rate), (double)r->latency_ns * 1e-3);
        else if (r->direct)
            log_write(&s->log, STATOR_LOG_INFO, "%s to %s: direct", from, to);
        else if (r->bytes_per_second != 0)
            log_write(&s->log, STATOR_LOG_INFO, "%s to %s: staged through the host: %s, %s/s, %.1f us", from,
                      to, r->why, units_format_size(r->bytes_per_second, rate), (double)r->latency_ns * 1e-3);
        else /* a pair that should have been direct is a warning */
            log_write(&s->log,
                      planned_route_same_kind(&s->planning, i) && !planned_route_crosses(&s->planning, i) &&
                              s->planning.config.transfer.mode == CONFIG_TRANSFER_AUTO
                          ? STATOR_LOG_WARN
                          : STATOR_LOG_INFO,
                      "%s to %s: staged through the host: %s", from, to, r->why);
    }
}
