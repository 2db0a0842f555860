#include "engine/audit.h"

#include "base/host_memory.h"
#include "base/pages.h"
#include "base/units.h"
#include "engine/engine.h"
#include "engine/spill.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define GROWTH (4u << 20) /* bytes that the program around a sealed engine may take: its texts and ids */
#define CHUNK  4096       /* pages of one look */

/* Pages of our mapping that are not in RAM; where the kernel does not say, all are. */
static uint64_t absent_bytes(const void *memory, uint64_t bytes) {
    unsigned char in_ram[CHUNK];
    uint64_t absent = 0;
    uint64_t pages = pages_rounded(bytes) / PAGES_SIZE;
    for (uint64_t at = 0; memory != NULL && at < pages; at += CHUNK) {
        uint64_t n = ARITH_MIN(pages - at, (uint64_t)CHUNK);
        void *begin = (void *)((uintptr_t)memory + at * PAGES_SIZE);
        if (mincore(begin, n * PAGES_SIZE, in_ram) != 0)
            continue;
        for (uint64_t i = 0; i < n; i++)
            absent += (in_ram[i] & 1) == 0 ? PAGES_SIZE : 0;
    }
    return absent;
}

static uint64_t absent_in_device(const struct stator *s, uint32_t i) {
    const struct engine_device *d = &s->devices[i];
    uint64_t absent = 0;
    for (int a = 0; a < DEVICE_ARENAS && d->facts.host_memory && d->device != NULL; a++) {
        const struct plan_place *place = &s->plan.places[i];
        for (uint32_t k = 0; k < place->n_arenas; k++) {
            const struct plan_arena *arena = &place->arenas[k];
            for (uint32_t n = 0;
                 strcmp(arena->name, device_arena_name((enum device_arena)a)) == 0 && n < arena->n_slices;
                 n++)
                absent += absent_bytes(d->device->vtable->map(d->device, (enum device_arena)a, n),
                                       arena->slices[n]);
        }
    }
    return absent;
}

void audit_take(const struct stator *s, struct audit *a) {
    *a = (struct audit){.taken = true, .before = s->private_before};
    a->spilled = spill_all(&s->plan);
    a->pinned = (s->staging_is_pages ? 0 : s->staging_bytes) + a->spilled;
    a->planned = s->plan.places[s->plan.n_places - 1].total - a->pinned;
    if (s->staging_is_pages)
        a->not_in_ram += absent_bytes(s->staging, s->staging_bytes);
    a->not_in_ram += absent_bytes(s->tokenizer_memory, s->tokenizer_bytes);
    a->not_in_ram += absent_bytes(s->run, s->run_bytes);
    a->not_in_ram += absent_bytes(s->front, s->front_bytes);
    a->not_in_ram += absent_bytes(s, sizeof *s);
    for (uint32_t i = 0; i < s->n_devices; i++)
        a->not_in_ram += absent_in_device(s, i);
    a->kernel = host_memory_private();
    a->others = (int64_t)a->kernel - (int64_t)(a->planned - a->not_in_ram) - (int64_t)a->before;
    drm_fdinfo_read("", &a->drm);
}

int64_t audit_growth(const struct stator *s, const struct audit *now) {
    return s->sealed.taken ? now->others - s->sealed.others : 0;
}

void audit_judge(const struct stator *s, const struct audit *now, char *text, size_t n) {
    char a[UNITS_TEXT];
    char b[UNITS_TEXT];
    text[0] = '\0';
    for (uint32_t i = 0; i < s->n_devices; i++) {
        uint64_t driver = atomic_load(&s->devices[i].driver_bytes);
        if (!s->devices[i].facts.host_memory && driver > s->config.memory.driver_reserve)
            snprintf(text, n, "%s: its driver holds %s for itself, memory.driver_reserve is %s",
                     s->devices[i].facts.name, units_format_size(driver, a),
                     units_format_size(s->config.memory.driver_reserve, b));
    }
    int64_t growth = audit_growth(s, now);
    if (growth > GROWTH)
        snprintf(text, n,
                 "host: the process has grown by %s outside the plan since the engine was sealed (RssAnon + "
                 "RssShmem; up to %s is not counted)",
                 units_format_size((uint64_t)growth, a), units_format_size(GROWTH, b));
    if (now->kernel + now->pinned > s->host_limit)
        snprintf(text, n, "host: the process holds %s (RssAnon + RssShmem, pinned), memory.host_limit is %s",
                 units_format_size(now->kernel + now->pinned, a), units_format_size(s->host_limit, b));
}

void audit_to_json(const struct stator *s, const struct audit *now, struct json *j, const char *name) {
    json_object(j, name);
    json_u64(j, "planned_bytes", now->planned);
    json_u64(j, "not_in_ram_bytes", now->not_in_ram);
    json_u64(j, "before_bytes", now->before);
    json_i64(j, "libraries_and_drivers_bytes", now->others);
    json_u64(j, "kernel_bytes", now->kernel);
    json_u64(j, "pinned_bytes", now->pinned);
    json_u64(j, "spilled_bytes", now->spilled);
    json_i64(j, "grown_since_seal_bytes", audit_growth(s, now));
    json_u64(j, "drm_clients", now->drm.clients);
    json_u64(j, "drm_vram_bytes", now->drm.local_bytes);
    json_u64(j, "drm_gtt_bytes", now->drm.system_bytes);
    json_close(j);
}
