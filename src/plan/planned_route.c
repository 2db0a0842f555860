#include "plan/planned_route.h"

#include <string.h>

bool planned_route_same_kind(const struct planning *s, uint32_t i) {
    CHECK(i + 1 < s->n_devices);
    return strcmp(s->devices[i].facts.kind, s->devices[i + 1].facts.kind) == 0;
}

bool planned_route_crosses(const struct planning *s, uint32_t i) {
    const struct config *c = &s->config;
    for (uint32_t r = 1; r < c->cluster.n; r++)
        if (c->cluster.stage[r].first == i + 1)
            return true;
    return false;
}

const char *planned_route(const struct planning *s, uint32_t i, const char **why) {
    if (planned_route_crosses(s, i)) {
        *why = "over the network";
        return "staged";
    }
    bool host = s->devices[i].facts.host_memory && s->devices[i + 1].facts.host_memory;
    if (s->config.transfer.mode == CONFIG_TRANSFER_STAGED) {
        *why = "transfer.mode is \"staged\"";
        return "staged";
    }
    if (!planned_route_same_kind(s, i)) {
        *why = PLANNED_ROUTE_OTHER_KIND;
        return "staged";
    }
    *why = host ? "both are memory of the processor" : "direct if the probe at the start finds it works";
    return host ? "direct" : "by probe";
}
