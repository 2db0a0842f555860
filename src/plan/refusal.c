#include "plan/refusal.h"

#include "base/units.h"
#include "plan/planner.h"
#include "plan/spill.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define RETRIES     6         /* per device: so often with halved slices, and so often with less memory */
#define LEAST_SLICE (1 << 20) /* bytes; smaller slices are not tried */

static struct planning_device *refused(const struct planning *s) {
    for (uint32_t i = 0; i < planning_parts(s); i++)
        if (s->devices[i].refused.bytes > 0)
            return (struct planning_device *)&s->devices[i];
    return NULL;
}

bool refusal_pending(const struct planning *s) {
    return refused(s) != NULL;
}

/* Makes a plan that fits into *p, or says in *why that there is none. */
static stator_status make(struct planning *s, const struct planning_want *want, struct plan *p,
                          stator_error *why) {
    stator_status st = planner_make(s, want, p, why);
    if (st == STATOR_OK && !p->fits)
        st = error_set(why, STATOR_DOES_NOT_FIT, "%s is short by %" PRIu64 " bytes", p->missing.where,
                       p->missing.bytes);
    return st;
}

/* Whether the driver counts less free memory than the remaining slices need. Smaller slices do not help then.
 */
static bool is_full(const struct planning *s, const struct planning_device *d,
                    const struct planning_refusal *r) {
    struct plan_place *place = (struct plan_place *)&s->plan.places[d - s->devices];
    const struct plan_arena *reserve = plan_arena_find(place, "driver");
    uint64_t own = place->total - (reserve != NULL ? reserve->bytes : 0);
    return r->left != 0 && own > r->given + r->left;
}

static stator_status halve(struct planning *s, struct planning_device *d, const struct planning_refusal *r,
                           stator_error *why) {
    uint64_t before = d->facts.max_alloc;
    char was[UNITS_TEXT];
    char now[UNITS_TEXT];
    if (d->halved == RETRIES || r->bytes < 2 * LEAST_SLICE)
        return error_set(why, STATOR_DOES_NOT_FIT, "slices below 1 MiB are not tried");
    CHECK(d->halved < RETRIES);
    d->halved++;
    d->facts.max_alloc = r->bytes / 2;
    stator_status st = make(s, &s->want, &s->plan, why);
    if (st != STATOR_OK) {
        d->facts.max_alloc = before;
        return st;
    }
    log_write(s->log, STATOR_LOG_WARN,
              "%s: its driver refuses a slice of %s that the plan has room for: planned again with slices of "
              "at most %s",
              d->facts.name, units_format_size(r->bytes, was), units_format_size(d->facts.max_alloc, now));
    return STATOR_OK;
}

/* The memory that the device really has: the bytes that it gave, and (full) the bytes that its driver counts
 * as free. A driver that refuses memory which it counts as free is not asked for that memory again. The
 * reserve of the driver is a part of the result. */
static uint64_t real_memory(const struct planning_device *d, const struct planning_refusal *r, bool full) {
    uint64_t pages = ARITH_MAX(d->facts.alignment, (uint64_t)1);
    return (r->given + (full ? r->left : 0)) / pages * pages;
}

static stator_status reduce(struct planning *s, struct planning_device *d, uint64_t memory,
                            stator_error *why) {
    uint64_t before = d->facts.memory;
    char was[UNITS_TEXT];
    char now[UNITS_TEXT];
    if (memory == 0)
        return error_set(why, STATOR_DOES_NOT_FIT, "the GPU gives nothing");
    if (d->reduced == RETRIES || memory >= before)
        return error_set(why, STATOR_DOES_NOT_FIT, "it was tried often enough");
    CHECK(d->reduced < RETRIES && memory < before);
    d->reduced++;
    d->facts.memory = memory;
    stator_status st = make(s, &s->want, &s->plan, why);
    if (st == STATOR_OK)
        log_write(s->log, STATOR_LOG_WARN,
                  "%s: its driver gives %s where %s were planned with: planned again for that", d->facts.name,
                  units_format_size(memory, now), units_format_size(before, was));
    return st;
}

/* Appends to *e the bytes that memory.on_oom = "spill" would put in host memory. */
static void add_hint(struct planning *s, struct planning_device *d, uint64_t memory, stator_error *e) {
    struct planning_want want = s->want;
    uint64_t before = d->facts.memory;
    struct plan made;
    want.spill = true;
    d->facts.memory = memory;
    size_t n = strlen(e->text);
    if (memory > 0 && memory < before && make(s, &want, &made, NULL) == STATOR_OK)
        snprintf(e->text + n, sizeof e->text - n,
                 "; memory.on_oom = \"spill\" would put %" PRIu64 " bytes in host memory", spill_all(&made));
    d->facts.memory = before;
}

stator_status refusal_plan(struct planning *s, stator_error *e) {
    struct planning_device *d = refused(s);
    CHECK(d != NULL);
    struct planning_refusal r = d->refused;
    d->refused = (struct planning_refusal){0};
    stator_error halved = {0};
    stator_error reduced = {0};
    bool spill = s->want.spill && !r.in_host;
    bool full = is_full(s, d, &r); /* before halve, which replaces the plan */
    uint64_t memory = real_memory(d, &r, full);
    stator_status st = STATOR_DOES_NOT_FIT;
    if (spill && full)
        error_set(&halved, st, "it has less free memory than all of them need");
    else
        st = halve(s, d, &r, &halved);
    if (st != STATOR_OK && spill)
        st = reduce(s, d, memory, &reduced);
    if (st == STATOR_OK) {
        log_write(s->log, STATOR_LOG_INFO, "plan %s", s->plan.hash);
        spill_log(s);
        return STATOR_OK;
    }
    stator_error first = *e;
    error_set(e, STATOR_DOES_NOT_FIT, "%.240s; with smaller slices: %.120s%s%.110s", first.text, halved.text,
              spill ? "; with spill: " : "", reduced.text);
    if (!s->want.spill && !r.in_host)
        add_hint(s, d, memory, e);
    return STATOR_DOES_NOT_FIT;
}
