#include "engine/report/audit.h"

#include "device/cluster.h"
#include "os/host_memory.h"
#include "os/pages.h"
#include "base/units.h"
#include "plan/planning_beside.h"
#include "plan/spill.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* Bytes by which the process may grow after the seal without being called wrong: texts and ids of the program
 * around the engine, which malloc takes in pieces of 132 KiB (a run on the CPU: 8 KiB). With a GPU in the
 * process also what its driver keeps of the first submits (zesim: 1.1 MiB; Intel's: not measured). */
#define GROWTH     (1u << 20)
#define GROWTH_GPU (4u << 20)
/* Bytes by which memory that the kernel names nobody for may grow, beside a GPU. Other drivers and the
 * network use such memory too, so the bound is wide. */
#define GROWTH_UNNAMED (256u << 20)
#define CHUNK          4096 /* pages of one look */

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
    for (int a = 0; a < DEVICE_ARENAS && s->planning.devices[i].facts.host_memory && d->device != NULL; a++) {
        const struct plan_place *place = &s->planning.plan.places[i];
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

/* What of the device's spill the kernel counts as this process's: a driver may map it or not. */
static uint64_t resident_spill(const struct stator *s, uint32_t i) {
    const struct device *d = s->devices[i].device;
    uint64_t sum = 0;
    for (int a = 0; a < DEVICE_ARENAS && d != NULL && d->vtable->spilled != NULL; a++)
        for (uint32_t k = 0; k < GRAPH_MAX_SLICES; k++) {
            uint64_t bytes = 0;
            const void *memory = d->vtable->spilled(d, (enum device_arena)a, k, &bytes);
            sum += memory != NULL ? host_memory_resident(memory, bytes) : 0;
        }
    return sum;
}

uint64_t audit_host(const struct audit *a) {
    return a->kernel + ARITH_MAX(a->pinned + a->pinned_beside, a->drm.system_bytes);
}

/* staging lies with the first device that pins. */
static void take_devices(const struct stator *s, struct audit *a) {
    struct drm_fdinfo drm;
    drm_fdinfo_read(s->root, &drm);
    a->drm = drm.all;
    bool owned = s->start.staging_is_pages;
    for (uint32_t i = 0; i < planning_parts(&s->planning); i++) {
        const struct engine_device *d = &s->devices[i];
        struct audit_device *of = &a->devices[i];
        if (s->planning.devices[i].facts.host_memory)
            continue;
        of->planned = planning_allocated(&s->planning, i);
        if (d->device != NULL)
            of->driver = d->device->vtable->taken_bytes(d->device);
        const struct drm_figures *f = drm_fdinfo_of(&drm, s->planning.devices[i].choice.pci);
        of->kernel_told = f != NULL;
        if (f != NULL) {
            of->kernel = f->local_bytes;
            of->kernel_host = f->system_bytes;
        }
        of->host = (owned ? 0 : s->planning.staging_bytes) + spill_allocated(&s->planning.plan, i);
        owned = true;
    }
}

/* What one engine has planned on the host, and what of it is not in RAM. */
static void take_plan(const struct stator *s, struct audit *a) {
    a->spilled = spill_all(&s->planning.plan);
    if (!s->start.staging_is_pages)
        a->pinned =
            s->planning.staging_bytes - host_memory_resident(s->start.staging, s->planning.staging_bytes);
    for (uint32_t i = 0; i < planning_parts(&s->planning); i++)
        a->pinned += spill_allocated(&s->planning.plan, i) - resident_spill(s, i);
    CHECK(s->planning.plan.places[s->planning.plan.n_places - 1].total >= a->pinned);
    a->planned = s->planning.plan.places[s->planning.plan.n_places - 1].total - a->pinned;
    if (s->start.staging_is_pages)
        a->not_in_ram += absent_bytes(s->start.staging, s->planning.staging_bytes);
    a->not_in_ram += absent_bytes(s->start.tokenizer_memory, s->planning.tokenizer_bytes);
    a->not_in_ram += absent_bytes(s->start.run, s->start.run_bytes);
    a->not_in_ram += absent_bytes(s->start.edge, s->planning.edge_bytes);
    if (!s->planning.kv_disk.staged)
        a->not_in_ram += absent_bytes(s->start.kv_buffers, s->planning.kv_disk.bytes);
    a->not_in_ram += absent_bytes(s->start.pictures, s->planning.pictures.bytes);
    a->not_in_ram += absent_bytes(s->front.grammars.memory, s->planning.grammars_bytes);
    a->not_in_ram += absent_bytes(s->planning.tables, s->planning.tables_bytes);
    a->not_in_ram += absent_bytes(s, sizeof *s);
    for (uint32_t i = 0; i < planning_parts(&s->planning); i++)
        a->not_in_ram += absent_in_device(s, i);
}

static const struct stator *first_of_all(const struct stator *s) {
    while (s->beside != NULL)
        s = s->beside;
    return s;
}

/* Of the other engines of the process, as far as they have started. */
static void take_beside(const struct stator *s, struct audit *a) {
    for (const struct stator *one = first_of_all(s); one != NULL; one = one->later) {
        struct audit other = {.taken = true};
        if (one == s || !atomic_load(&one->front.started))
            continue;
        take_plan(one, &other);
        a->beside += other.planned - other.not_in_ram;
        a->pinned_beside += other.pinned;
        for (uint32_t i = 0; i < planning_parts(&s->planning); i++)
            for (uint32_t k = 0; k < planning_parts(&one->planning); k++)
                if (planning_beside_same(&s->planning, i, &one->planning, k))
                    a->devices[i].beside += plan_allocated(&one->planning.plan.places[k]);
    }
}

void audit_take(const struct stator *s, struct audit *a) {
    *a = (struct audit){.taken = true, .before = s->report.private_before};
    take_plan(s, a);
    take_beside(s, a);
    a->kernel = host_memory_private();
    a->others =
        (int64_t)a->kernel - (int64_t)(a->planned - a->not_in_ram) - (int64_t)a->beside - (int64_t)a->before;
    a->heap = host_memory_heap();
    host_memory_read_machine(s->root, &a->machine);
    take_devices(s, a);
}

int64_t audit_growth(const struct stator *s, const struct audit *now) {
    CHECK(now->taken);
    return s->report.sealed.taken ? now->others - s->report.sealed.others : 0;
}

int64_t audit_device_growth(const struct stator *s, const struct audit *now, uint32_t device) {
    CHECK(now->taken && device < planning_parts(&s->planning));
    const struct audit_device *was = &s->report.sealed.devices[device];
    const struct audit_device *is = &now->devices[device];
    return s->report.sealed.taken && was->kernel_told && is->kernel_told
               ? (int64_t)is->kernel - (int64_t)was->kernel
               : 0;
}

static bool has_gpu(const struct stator *s) {
    bool gpu = false;
    for (uint32_t i = 0; i < planning_parts(&s->planning); i++)
        gpu = gpu || !s->planning.devices[i].facts.host_memory;
    return gpu;
}

static void judge_device(const struct stator *s, const struct audit *now, uint32_t i, char *text, size_t n) {
    const struct audit_device *d = &now->devices[i];
    const char *name = s->planning.devices[i].facts.name;
    char a[UNITS_TEXT];
    char b[UNITS_TEXT];
    uint64_t own = atomic_load(&s->devices[i].driver_bytes);
    if (d->kernel_told && d->kernel > d->planned + d->beside) /* the kernel counts this process alone */
        own = d->kernel - d->planned - d->beside;
    if (own > s->planning.config.memory.driver_reserve)
        snprintf(text, n, "%s: its driver holds %s for itself, memory.driver_reserve is %s", name,
                 units_format_size(own, a), units_format_size(s->planning.config.memory.driver_reserve, b));
    int64_t growth = audit_device_growth(s, now, i);
    if (growth > (int64_t)GROWTH_GPU)
        snprintf(
            text, n,
            "%s: this process's memory on the GPU has grown by %s since the engine was sealed (drm; up to "
            "%s is not counted)",
            name, units_format_size((uint64_t)growth, a), units_format_size(GROWTH_GPU, b));
}

int64_t audit_unnamed_growth(const struct stator *s, const struct audit *now) {
    const struct host_memory_machine *was = &s->report.sealed.machine;
    return s->report.sealed.taken && was->unnamed != 0 && now->machine.unnamed != 0
               ? (int64_t)now->machine.unnamed - (int64_t)was->unnamed
               : 0;
}

/* A driver's leak may be in no figure of this process. Without a GPU nobody here could be the cause. */
static void judge_machine(const struct stator *s, const struct audit *now, char *text, size_t n) {
    const struct host_memory_machine *was = &s->report.sealed.machine;
    char a[UNITS_TEXT];
    char b[UNITS_TEXT];
    char c[UNITS_TEXT];
    const int64_t growth = audit_unnamed_growth(s, now);
    if (!has_gpu(s) || growth <= (int64_t)GROWTH_UNNAMED || now->machine.available >= was->available)
        return;
    snprintf(text, n,
             "machine: MemAvailable has fallen from %s to %s since the engine was sealed, and %s more belong "
             "to no process and no cache: a driver may leak",
             units_format_size(was->available, a), units_format_size(now->machine.available, b),
             units_format_size((uint64_t)growth, c));
}

bool audit_judge(const struct stator *s, const struct audit *now, char *text, size_t n) {
    char a[UNITS_TEXT];
    char b[UNITS_TEXT];
    char c[UNITS_TEXT];
    text[0] = '\0';
    for (uint32_t i = 0; i < planning_parts(&s->planning); i++)
        if (!s->planning.devices[i].facts.host_memory)
            judge_device(s, now, i, text, n);
    int64_t growth = audit_growth(s, now);
    uint64_t heap = now->heap > s->report.sealed.heap ? now->heap - s->report.sealed.heap : 0;
    uint64_t most = has_gpu(s) ? GROWTH_GPU : GROWTH;
    if (growth > (int64_t)most)
        snprintf(text, n,
                 "host: the process has grown by %s outside the plan since the engine was sealed (RssAnon + "
                 "RssShmem; malloc has handed out %s more; up to %s is not counted)",
                 units_format_size((uint64_t)growth, a), units_format_size(heap, c),
                 units_format_size(most, b));
    if (audit_host(now) > s->planning.process_limit)
        snprintf(text, n,
                 "host: the process holds %s (RssAnon + RssShmem, and what drivers pin beside them), "
                 "memory.host_limit is %s",
                 units_format_size(audit_host(now), a), units_format_size(s->planning.process_limit, b));
    if (text[0] != '\0')
        return true;
    judge_machine(s, now, text, n);
    return false;
}

void audit_log(struct stator *s) {
    const struct device_cluster c = device_cluster();
    char planned[UNITS_TEXT], absent[UNITS_TEXT], before[UNITS_TEXT], library[UNITS_TEXT], others[UNITS_TEXT],
        kernel[UNITS_TEXT], grown[UNITS_TEXT], text[AUDIT_TEXT];
    struct audit now;
    audit_take(s, &now);
    const int64_t growth = audit_growth(s, &now);
    log_write(
        &s->log, STATOR_LOG_INFO,
        "host memory: %s planned, %s of it not in RAM, %s before the engine (%s of that MPI_Init, %s), %s "
        "libraries and drivers; grown by %s outside the plan since the engine was sealed; %s private by the "
        "kernel",
        units_format_size(now.planned, planned), units_format_size(now.not_in_ram, absent),
        units_format_size(now.before, before), units_format_size(c.library_bytes, library), c.library,
        units_format_size((uint64_t)ARITH_MAX(now.others, (int64_t)0), others),
        units_format_size((uint64_t)ARITH_MAX(growth, (int64_t)0), grown),
        units_format_size(now.kernel, kernel));
    (void)audit_judge(s, &now, text, sizeof text);
    if (text[0] != '\0')
        log_write(&s->log, STATOR_LOG_WARN, "%s", text);
}

static const char *const note_names[DEVICE_NOTE_FIGURES] = {
    "planned_bytes",
    "not_in_ram_bytes",
    "before_bytes",
    "mpi_bytes",
    "libraries_and_drivers_bytes",
    "kernel_bytes",
    "pinned_bytes",
    "malloc_bytes",
    "grown_since_seal_bytes",
};

void audit_to_note(const struct stator *s, struct device_note *out) {
    char text[AUDIT_TEXT];
    struct audit now;
    audit_take(s, &now);
    (void)audit_judge(s, &now, text, sizeof text);
    const int64_t figures[DEVICE_NOTE_FIGURES] = {
        (int64_t)now.planned,
        (int64_t)now.not_in_ram,
        (int64_t)now.before,
        (int64_t)device_cluster().library_bytes,
        now.others,
        (int64_t)now.kernel,
        (int64_t)now.pinned,
        (int64_t)now.heap,
        audit_growth(s, &now),
    };
    memcpy(out->figures, figures, sizeof figures);
    snprintf(out->text, sizeof out->text, "%.231s", text);
}

void audit_note_to_json(const struct device_note *n, struct json *j) {
    json_open_object(j, NULL);
    json_put_u64(j, "rank", n->rank);
    for (int i = 0; i < DEVICE_NOTE_FIGURES; i++)
        json_put_i64(j, note_names[i], n->figures[i]);
    json_put_string(j, "wrong", n->text);
    json_close(j);
}

static void device_to_json(const struct stator *s, const struct audit *now, uint32_t i, struct json *j) {
    const struct audit_device *d = &now->devices[i];
    json_open_object(j, NULL);
    json_put_string(j, "device", s->planning.devices[i].facts.name);
    json_put_u64(j, "planned_bytes", d->planned);
    json_put_u64(j, "driver_bytes", d->driver); /* 0: not told */
    json_put_bool(j, "kernel_told", d->kernel_told);
    json_put_u64(j, "kernel_bytes", d->kernel);
    json_put_u64(j, "host_planned_bytes", d->host);
    json_put_u64(j, "host_kernel_bytes", d->kernel_host);
    json_put_i64(j, "grown_since_seal_bytes", audit_device_growth(s, now, i));
    json_close(j);
}

void audit_to_json(const struct stator *s, const struct audit *now, struct json *j, const char *name) {
    json_open_object(j, name);
    json_put_u64(j, "planned_bytes", now->planned);
    json_put_u64(j, "not_in_ram_bytes", now->not_in_ram);
    json_put_u64(j, "before_bytes", now->before);
    json_put_u64(j, "beside_bytes", now->beside);
    json_put_u64(j, "mpi_bytes", device_cluster().library_bytes); /* of those */
    json_put_i64(j, "libraries_and_drivers_bytes", now->others);
    json_put_u64(j, "kernel_bytes", now->kernel);
    json_put_u64(j, "pinned_bytes", now->pinned);
    json_put_u64(j, "spilled_bytes", now->spilled);
    json_put_u64(j, "malloc_bytes", now->heap);
    json_put_i64(j, "grown_since_seal_bytes", audit_growth(s, now));
    json_put_u64(j, "machine_available_bytes", now->machine.available);
    json_put_u64(j, "machine_unnamed_bytes", now->machine.unnamed);
    json_put_u64(j, "drm_clients", now->drm.clients);
    json_put_u64(j, "drm_vram_bytes", now->drm.local_bytes);
    json_put_u64(j, "drm_gtt_bytes", now->drm.system_bytes);
    json_open_array(j, "devices");
    for (uint32_t i = 0; i < planning_parts(&s->planning); i++)
        if (!s->planning.devices[i].facts.host_memory)
            device_to_json(s, now, i, j);
    json_close(j);
    json_close(j);
}
