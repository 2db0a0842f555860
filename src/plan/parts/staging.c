#include "plan/parts/staging.h"

#include "graph/share.h"
#include "os/pages.h"

#include <stdio.h>
#include <string.h>

/* Of a tensor split: what the device gives to the others in one exchange. */
static uint64_t window_bytes(const struct graph *g) {
    if (g->want.share.count > 0)
        return arith_round_up(share_given(g), CARVE_ALIGN);
    return arith_round_up(arith_must_mul(arith_must_mul(g->want.batch, g->width), sizeof(float)),
                          CARVE_ALIGN);
}

/* Whether copies to the next device may have to go through the host. Memory of one processor is direct. */
static bool may_be_staged(const struct planning *s, uint32_t i) {
    if (s->config.devices.tensor)
        return !s->devices[i].facts.host_memory && s->config.transfer.mode != CONFIG_TRANSFER_DIRECT;
    if (i + 1 >= planning_stages(s))
        return false;
    if (s->devices[i].facts.remote && s->devices[i + 1].facts.remote)
        return false;
    if (s->devices[i].facts.remote != s->devices[i + 1].facts.remote)
        return true;
    if (s->config.transfer.mode == CONFIG_TRANSFER_DIRECT)
        return false;
    bool processor = s->devices[i].facts.host_memory && s->devices[i + 1].facts.host_memory;
    return s->config.transfer.mode == CONFIG_TRANSFER_STAGED || !processor;
}

void staging_lay_out(struct planning *s) {
    uint64_t at = 0;
    for (uint32_t i = 0; i < s->n_devices; i++) {
        struct planning_device *d = &s->devices[i];
        d->has_window = may_be_staged(s, i);
        d->at_window = at;
        d->window_bytes = window_bytes(&d->graph);
        d->head_bytes = arith_round_up(share_given_rows(&d->graph), CARVE_ALIGN);
        if (d->has_window)
            at = arith_must_add(at, 2 * d->window_bytes + d->head_bytes);
    }
    at = pages_rounded(ARITH_MAX(at, s->load_window));
    for (uint32_t i = 0; i < planning_parts(s); i++) {
        struct planning_device *d = &s->devices[i];
        d->pinned = (struct device_pinned){0};
        if (!d->facts.remote)
            device_pinned_lay_out(&d->facts, &d->model, &d->pinned);
        d->at_pinned = at;
        at = arith_must_add(at, pages_rounded(d->pinned.bytes));
    }
    s->kv_disk.at_staging = at;
    if (s->kv_disk.staged)
        at = arith_must_add(at, s->kv_disk.bytes);
    s->staging_bytes = at;
    CHECK(s->staging_bytes >= s->load_window);
}

void staging_add_blocks(const struct planning *s, struct plan *p) {
    bool windows = false;
    char name[64];
    for (uint32_t i = 0; i < s->n_devices; i++) {
        const struct planning_device *d = &s->devices[i];
        if (!d->has_window)
            continue;
        windows = true;
        for (uint32_t k = 0; k < 2; k++) {
            int n = snprintf(name, sizeof name, "window %u from %.20s", k, d->facts.name);
            CHECK(d->at_window + (k + 1) * d->window_bytes <= s->staging_bytes);
            plan_add_block(p, name, (size_t)n, 0, d->at_window + k * d->window_bytes, d->window_bytes, 1, 2);
        }
        const int n = snprintf(name, sizeof name, "window of logits from %.20s", d->facts.name);
        plan_add_block(p, name, (size_t)n, 0, d->at_window + 2 * d->window_bytes, d->head_bytes, 1, 2);
    }
    plan_add_block(p, "load window", 11, 0, 0, s->load_window, 0, windows ? 1 : 0);
    for (uint32_t i = 0; i < planning_parts(s); i++) {
        const struct planning_device *d = &s->devices[i];
        int n = snprintf(name, sizeof name, "steps and results of %.20s", d->facts.name);
        CHECK(d->at_pinned + d->pinned.bytes <= s->staging_bytes);
        plan_add_block(p, name, (size_t)n, 0, d->at_pinned, d->pinned.bytes, 0, 0);
    }
    if (s->kv_disk.staged)
        plan_add_block(p, "blocks for files", 16, 0, s->kv_disk.at_staging, s->kv_disk.bytes, 0, 0);
}
