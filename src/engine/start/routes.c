#include "engine/start/routes.h"

#include "base/units.h"

#include <stdio.h>
#include <string.h>

#define OTHER_KIND "one device's driver can't write into memory of the other's"

static bool same_kind(const struct stator *s, uint32_t i) {
    return strcmp(s->devices[i].facts.kind, s->devices[i + 1].facts.kind) == 0;
}

const char *routes_planned(const struct stator *s, uint32_t i, const char **why) {
    bool host = s->devices[i].facts.host_memory && s->devices[i + 1].facts.host_memory;
    if (s->config.transfer.mode == CONFIG_TRANSFER_STAGED) {
        *why = "transfer.mode is \"staged\"";
        return "staged";
    }
    if (!same_kind(s, i)) {
        *why = OTHER_KIND;
        return "staged";
    }
    *why = host ? "both are memory of the processor" : "direct if the probe at the start finds it works";
    return host ? "direct" : "by probe";
}

static stator_status probe(struct stator *s, uint32_t i, struct device_route *r, stator_error *e) {
    struct device *from = s->devices[i].device;
    *r = (struct device_route){.direct = false};
    if (s->config.transfer.mode == CONFIG_TRANSFER_STAGED)
        snprintf(r->why, sizeof r->why, "transfer.mode is \"staged\"");
    else if (!same_kind(s, i))
        snprintf(r->why, sizeof r->why, OTHER_KIND);
    else if (from->vtable->peer_probe == NULL)
        snprintf(r->why, sizeof r->why, "this kind of device has no direct copies");
    else
        return from->vtable->peer_probe(from, s->devices[i + 1].device, s->config.transfer.verify, s->staging,
                                        s->staging_bytes, r, e);
    return STATOR_OK;
}

stator_status routes_decide(struct stator *s, stator_error *e) {
    for (uint32_t i = 0; i + 1 < s->n_devices; i++) {
        struct engine_device *from = &s->devices[i];
        struct engine_device *to = &s->devices[i + 1];
        stator_status st = probe(s, i, &from->route, e);
        if (st != STATOR_OK)
            return st;
        if (!from->route.direct && !from->has_window)
            return error_set(
                e, STATOR_DEVICE,
                "copies from %s to %s can't go directly: %s. transfer.mode = \"%s\" has no other "
                "way for them; \"staged\" goes through the host",
                from->facts.name, to->facts.name, from->route.why,
                config_enum_name(CONFIG_TRANSFER_MODE, (int)s->config.transfer.mode));
        from->out = (struct device_link){.peer = to->device, .direct = from->route.direct};
        to->in = (struct device_link){.peer = from->device, .direct = from->route.direct};
        for (uint32_t k = 0; k < 2 && from->has_window; k++)
            from->out.window[k] = to->in.window[k] = staging_window(s, i, k);
    }
    return STATOR_OK;
}

void routes_log(const struct stator *s) {
    for (uint32_t i = 0; i + 1 < s->n_devices; i++) {
        const struct engine_device *from = &s->devices[i];
        const struct device_route *r = &from->route;
        const char *to = s->devices[i + 1].facts.name;
        char rate[UNITS_TEXT];
        if (r->direct && r->bytes_per_second != 0)
            log_write(&s->log, STATOR_LOG_INFO, "%s to %s: direct, %s/s, %.1f us", from->facts.name, to,
                      units_format_size(r->bytes_per_second, rate), (double)r->latency_ns * 1e-3);
        else if (r->direct)
            log_write(&s->log, STATOR_LOG_INFO, "%s to %s: direct", from->facts.name, to);
        else /* a pair that should have been direct is a warning */
            log_write(&s->log,
                      same_kind(s, i) && s->config.transfer.mode == CONFIG_TRANSFER_AUTO ? STATOR_LOG_WARN
                                                                                         : STATOR_LOG_INFO,
                      "%s to %s: staged through the host: %s", from->facts.name, to, r->why);
    }
}
