#include "plan/parts/staging.h"

#include "graph/share.h"
#include "os/pages.h"

#include <stdio.h>
#include <string.h>

/* Whether copies between devices i and i + 1 may have to go through the host. Memory of one processor is
 * direct. */
static bool may_be_staged(const struct planning *s, uint32_t i) {
    const struct device_facts *from = &s->devices[i].facts, *to = &s->devices[i + 1].facts;
    if (from->remote && to->remote)
        return false;
    if (from->remote != to->remote)
        return true;
    if (s->config.transfer.mode == CONFIG_TRANSFER_DIRECT)
        return false;
    return s->config.transfer.mode == CONFIG_TRANSFER_STAGED || !from->host_memory || !to->host_memory;
}

/* For the residual stream, across a boundary of layers. */
static struct planning_windows next_windows(const struct planning *s, uint32_t i) {
    const struct graph *g = &s->devices[i].graph;
    if (i + 1 == s->n_devices || i < planning_stage_last(s, i) || !may_be_staged(s, i))
        return (struct planning_windows){0};
    return (struct planning_windows){
        .bytes = arith_round_up(arith_must_mul(arith_must_mul(g->want.batch, g->width), sizeof(float)),
                                CARVE_ALIGN)};
}

/* For what the device gives to the others of its group in one exchange. */
static struct planning_windows group_windows(const struct planning *s, uint32_t i) {
    const struct graph *g = &s->devices[i].graph;
    if (planning_group(s, i) == 1 || !may_be_staged(s, ARITH_MIN(i, planning_stage_last(s, i) - 1)))
        return (struct planning_windows){0};
    return (struct planning_windows){.bytes = arith_round_up(share_given(g), CARVE_ALIGN),
                                     .head_bytes = arith_round_up(share_given_rows(g), CARVE_ALIGN)};
}

static uint64_t place_windows(struct planning_windows *w, uint64_t at) {
    w->at = at;
    return arith_must_add(at, planning_windows_bytes(w));
}

void staging_lay_out(struct planning *s) {
    uint64_t at = 0;
    for (uint32_t i = 0; i < s->n_devices; i++) {
        struct planning_device *d = &s->devices[i];
        d->next = next_windows(s, i);
        d->group = group_windows(s, i);
        at = place_windows(&d->group, place_windows(&d->next, at));
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

/* Blocks of the windows; whether there are any. */
static bool add_windows(const struct planning_windows *w, const char *what, const char *device,
                        struct plan *p) {
    char name[64];
    for (uint32_t k = 0; k < 2; k++) {
        const int n = snprintf(name, sizeof name, "%s %u from %.20s", what, k, device);
        plan_add_block(p, name, (size_t)n, 0, w->at + k * w->bytes, w->bytes, 1, 2);
    }
    const int n = snprintf(name, sizeof name, "window of logits from %.20s", device);
    plan_add_block(p, name, (size_t)n, 0, w->at + 2 * w->bytes, w->head_bytes, 1, 2);
    return w->bytes > 0;
}

void staging_add_blocks(const struct planning *s, struct plan *p) {
    bool windows = false;
    char name[64];
    for (uint32_t i = 0; i < s->n_devices; i++) {
        const struct planning_device *d = &s->devices[i];
        CHECK(d->group.at + planning_windows_bytes(&d->group) <= s->staging_bytes);
        windows = add_windows(&d->next, "window", d->facts.name, p) || windows;
        windows = add_windows(&d->group, "group's window", d->facts.name, p) || windows;
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
