/* What the engine says about itself: the memory table, the plan and the report as JSON. On the driver thread.
 */
#include "engine/report/audit.h"

#include "base/clock.h"
#include "engine/arguments.h"
#include "os/host_memory.h"
#include "plan/spill.h"
#include "kernels/kernels.h"

#include <string.h>
#include <time.h>

#define ASK_MOST_NS 10000000000ull /* that other ranks have to answer; the deadline if that is less */

/* What a step reads of a weight; experts: it is of those. */
static void add_weight(const struct graph_weight *w, const struct graph_experts *experts, stator_info *info) {
    uint64_t bytes = w->bytes, file = graph_weight_file_bytes(w);
    if (experts != NULL) {
        bytes = bytes / experts->experts * experts->used;
        file = file / experts->experts * experts->used;
        info->experts_read_bytes += bytes;
        info->experts_file_bytes += file;
        info->experts = experts->experts;
        info->experts_used = experts->used;
    }
    info->step_read_bytes += bytes;
    info->step_file_bytes += file;
}

/* What a step reads and multiplies at least, from the graphs' ops. */
static void least_work(const struct stator *s, stator_info *info) {
    for (uint32_t d = 0; d < s->planning.n_devices; d++) {
        const struct graph *g = &s->planning.devices[d].graph;
        for (uint32_t i = 0; i < g->n_caches; i++) {
            const struct graph_cache *c = &g->caches[i];
            const uint64_t bytes = c->bytes * c->units * c->n_layers;
            if (c->kind == GRAPH_PAGED)
                info->context_read_bytes += bytes / KERNELS_KV_BLOCK;
            else if (c->kind == GRAPH_STATE)
                info->state_bytes += 2 * bytes;
            else {
                info->window_read_bytes += bytes / KERNELS_KV_BLOCK;
                info->window = ARITH_MAX(info->window, (uint64_t)c->window);
            }
        }
        for (uint32_t i = 0; i < g->n_ops; i++) {
            const struct graph_op *op = &g->ops[i];
            if (i < g->tail)
                info->token_macs += graph_op_macs(g, op);
            const enum graph_use use = graph_kind_info(op->kind)->use;
            for (uint32_t k = 0; k < op->n_weights && use != GRAPH_LOOKUP; k++)
                add_weight(&g->weights[op->weight[k]], use == GRAPH_CHOSEN ? &op->experts : NULL, info);
        }
    }
}

/* The format of most bytes. */
static void weight_type(const struct stator *s, char out[16]) {
    uint64_t bytes[BLOCK_TYPES] = {0};
    uint32_t most = 0;
    for (uint64_t i = 0; i < gguf_tensors(s->planning.gguf); i++) {
        const struct gguf_tensor *t = gguf_tensor(s->planning.gguf, i);
        bytes[t->type] += t->bytes;
        if (bytes[t->type] > bytes[most])
            most = t->type;
    }
    const char *name = block_info(most)->name;
    size_t n = 0;
    for (; n < 15 && name[n] != '\0'; n++)
        out[n] = (char)(name[n] >= 'a' && name[n] <= 'z' ? name[n] - 'a' + 'A' : name[n]);
    out[n] = '\0';
}

static void info_of(const struct stator *s, stator_info *info) {
    *info = (stator_info){.threads = s->planning.devices[0].choice.threads,
                          .vocab = s->planning.shape->vocab,
                          .context = s->planning.want.context,
                          .batch = s->planning.want.batch,
                          .sequences = s->planning.want.sequences,
                          .logits_rows = s->planning.want.logits_rows,
                          .parameters = s->planning.shape->parameters,
                          .model_bytes = s->planning.shape->tensor_bytes,
                          .load_ns = s->start.load_ns};
    const struct config_origin *origin = &s->planning.config.origin[CONFIG_MEMORY_CONTEXT];
    info->context_fixed = (origin->source == CONFIG_FROM_FILE || origin->source == CONFIG_FROM_SET) &&
                          s->planning.config.memory.context != 0 &&
                          s->planning.config.memory.context != CONFIG_CONTEXT_AUTO;
    weight_type(s, info->weight_type);
    if (s->planning.planned)
        least_work(s, info);
    snprintf(info->plan_hash, sizeof info->plan_hash, "%s", s->planning.plan.hash);
    snprintf(info->model_name, sizeof info->model_name, "%s", s->planning.shape->model_name);
    snprintf(info->architecture, sizeof info->architecture, "%s", s->planning.shape->arch_name);
    snprintf(info->pooling, sizeof info->pooling, "%s", shape_pooling_name(s->planning.shape->pooling));
    info->vector = shape_row_width(s->planning.shape);
    info->slots = s->planning.kv_disk.bytes > 0 ? s->planning.want.sequences : 0;
    snprintf(info->tier, sizeof info->tier, "%s", s->planning.devices[0].choice.tier);
}

stator_status stator_get_info(const stator *s, stator_info *info, stator_error *e) {
    ARGUMENTS_NEED(s);
    ARGUMENTS_SIZED(info, size);
    stator_info all;
    info_of(s, &all);
    ARGUMENTS_WRITE(info, &all);
    return STATOR_OK;
}

/* The index of the device whose place it is. */
static uint32_t device_of(const struct stator *s, const struct plan_place *place) {
    CHECK(!place->is_host);
    return (uint32_t)(place - s->planning.plan.places);
}

static uint64_t used_kv(const struct stator *s, uint32_t device, bool spilled) {
    const struct planning_device *d = &s->planning.devices[device];
    uint64_t sum = 0;
    for (uint32_t i = 0; i < d->graph.n_caches; i++)
        sum += atomic_load(&s->used_blocks[i]) * d->graph.caches[i].bytes *
               device_cache_part(&d->model, i, spilled).units;
    return sum;
}

/* Values have fixed places, so a step owns all of scratch and exchange; KV blocks are handed out. */
static uint64_t used_in_device(const struct stator *s, uint32_t device, const struct plan_arena *a) {
    const struct planning_device *d = &s->planning.devices[device];
    bool stepped = atomic_load(&s->devices[device].submits) > 0;
    if (strcmp(a->name, "weights") == 0)
        return a->lower_bound;
    if (strcmp(a->name, "kv") == 0 && device >= s->planning.n_devices)
        return stepped ? a->lower_bound : 0; /* of second models: each sequence has its own blocks */
    if (strcmp(a->name, "kv") == 0)
        return used_kv(s, device, false);
    if (strcmp(a->name, "scratch") == 0)
        return stepped ? d->graph.scratch_bytes : 0;
    if (strcmp(a->name, "exchange") == 0)
        return stepped ? d->graph.exchange_bytes : d->model.step_bytes;
    if (strcmp(a->name, "window") == 0)
        return atomic_load(&s->devices[device].streamed_bytes) > 0 ? a->lower_bound : 0;
    return atomic_load(&s->devices[device].driver_bytes);
}

/* An arena of the host with a device's name is that device's place. */
static const struct plan_place *place_in_host(const struct stator *s, const struct plan_place *place,
                                              const struct plan_arena *a) {
    for (uint32_t i = 0; i < planning_parts(&s->planning) && place->is_host; i++)
        if (strcmp(s->planning.plan.places[i].name, a->name) == 0)
            return &s->planning.plan.places[i];
    return NULL;
}

static uint64_t used_bytes(const struct stator *s, const struct plan_place *place,
                           const struct plan_arena *a) {
    if (!s->front.started)
        return 0;
    if (!place->is_host)
        return used_in_device(s, device_of(s, place), a);
    for (uint32_t i = 0; i < s->planning.n_devices; i++) {
        const struct plan_spill *spill = &s->planning.plan.places[i].spill;
        if (spill->arena > 0 && a == &place->arenas[spill->arena])
            return spill->weights + spill->hosted + used_kv(s, i, true);
    }
    const struct plan_place *inside = place_in_host(s, place, a);
    if (inside == NULL)
        return a->bytes;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < inside->n_arenas; i++)
        sum += used_in_device(s, device_of(s, inside), &inside->arenas[i]);
    return sum;
}

static uint64_t allocated_bytes(const struct stator *s, const struct plan_place *place,
                                const struct plan_arena *a) {
    const struct plan_place *inside = place_in_host(s, place, a);
    if (inside == NULL)
        return a->allocated;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < inside->n_arenas; i++)
        sum += inside->arenas[i].allocated;
    return sum;
}

stator_status stator_get_memory(const stator *s, size_t index, stator_memory_row *row, int *have,
                                stator_error *e) {
    ARGUMENTS_NEED(s);
    ARGUMENTS_NEED(have);
    *have = 0;
    ARGUMENTS_SIZED(row, size);
    for (uint32_t i = 0; i < s->planning.plan.n_places; i++) {
        const struct plan_place *place = &s->planning.plan.places[i];
        if (index >= place->n_arenas) {
            index -= place->n_arenas;
            continue;
        }
        const struct plan_arena *a = &place->arenas[index];
        stator_memory_row all = {.planned = a->bytes,
                                 .lower_bound = a->lower_bound,
                                 .allocated = allocated_bytes(s, place, a),
                                 .used = used_bytes(s, place, a),
                                 .budget = place->budget};
        snprintf(all.place, sizeof all.place, "%s", place->name);
        snprintf(all.arena, sizeof all.arena, "%s", a->name);
        ARGUMENTS_WRITE(row, &all);
        *have = 1;
        break;
    }
    return STATOR_OK;
}

static stator_status finish_json(struct json *j, size_t capacity, size_t *n, stator_error *e) {
    bool ok = json_end(j);
    *n = j->length;
    if (ok)
        return STATOR_OK;
    return error_set(e, STATOR_USAGE, "the text has %zu bytes, the buffer holds %zu", j->length, capacity);
}

stator_status stator_plan_json(const stator *s, char *out, size_t capacity, size_t *n, stator_error *e) {
    ARGUMENTS_NEED(s);
    ARGUMENTS_NEED(n);
    *n = 0;
    if (capacity > 0)
        ARGUMENTS_NEED(out);
    if (s->planning.plan.n_places == 0)
        return error_set(e, STATOR_USAGE, "stator_plan_json: call stator_plan first");
    struct json j;
    json_to_buffer(&j, out, capacity, true);
    plan_to_json(&s->planning.plan, &j, NULL);
    return finish_json(&j, capacity, n, e);
}

static void open_route(const struct stator *s, uint32_t from, uint32_t to, const struct device_route *r,
                       struct json *j) {
    json_open_object(j, NULL);
    json_put_string(j, "from", s->planning.devices[from].facts.name);
    json_put_string(j, "to", s->planning.devices[to].facts.name);
    json_put_string(j, "route", r->direct ? "direct" : "staged");
    json_put_string(j, "why", r->why);
    json_put_u64(j, "bytes_per_second", r->bytes_per_second);
    json_put_u64(j, "latency_ns", r->latency_ns);
}

/* From device i to the others of its group. */
static void pairs_to_json(const struct stator *s, uint32_t i, struct json *j) {
    const uint32_t last = planning_stage_last(&s->planning, i);
    for (uint32_t k = planning_stage_first(&s->planning, i); k <= last; k++) {
        if (k == i || s->planning.devices[i].facts.remote) /* that host knows */
            continue;
        open_route(s, i, k, &s->pairs[i][k], j);
        json_close(j);
    }
}

static void route_to_json(const struct stator *s, uint32_t i, struct json *j) {
    open_route(s, i, i + 1, &s->devices[i].route, j);
    json_put_u64(j, "overlapped_steps", atomic_load(&s->devices[i].overlapped));
    json_put_u64(j, "most_steps_ahead", atomic_load(&s->devices[i].most_ahead));
    json_close(j);
}

static void device_to_json(const struct stator *s, uint32_t i, struct json *j) {
    const struct plan_place *place = &s->planning.plan.places[i];
    const struct engine_device *d = &s->devices[i];
    const struct planning_device *p = &s->planning.devices[i];
    json_open_object(j, NULL);
    json_put_string(j, "name", place->name);
    json_put_string(j, "kind", p->facts.kind);
    json_put_u64(j, "layers", place->n_layers);
    json_put_u64(j, "first_layer", place->first_layer);
    json_open_object(j, "arena_bytes");
    for (uint32_t k = 0; k < place->n_arenas; k++)
        json_put_u64(j, place->arenas[k].name, place->arenas[k].allocated);
    json_close(j);
    json_put_u64(j, "submits", atomic_load(&d->submits));
    json_put_u64(j, "kernels_executed", atomic_load(&d->kernels_executed));
    json_put_u64(j, "direct_bytes", atomic_load(&d->direct_bytes));
    json_put_u64(j, "staged_bytes", atomic_load(&d->staged_bytes));
    json_put_u64(j, "copied_bytes", atomic_load(&d->copied_bytes));
    json_put_u64(j, "away_ns", atomic_load(&d->away_ns));
    json_put_u64(j, "streamed_bytes", atomic_load(&d->streamed_bytes));
    if (d->helper_bytes > 0) {
        json_put_u64(j, "helped_rows", atomic_load(&d->helped_rows));
        json_put_u64(j, "helped_ns", atomic_load(&d->helped_ns));
        json_put_u64(j, "slot_rows", atomic_load(&d->slot_rows));
        json_put_u64(j, "slot_copies", atomic_load(&d->slot_copies));
    }
    if (p->graph.ngrams != GRAPH_NONE) {
        json_put_u64(j, "ngram_rows", atomic_load(&s->run.ngram_rows.rows));
        json_put_u64(j, "ngram_ns", atomic_load(&s->run.ngram_rows.ns));
    }
    json_put_u64(j, "driver_bytes", atomic_load(&d->driver_bytes));
    json_put_u64(j, "spilled_bytes", spill_allocated(&s->planning.plan, i));
    /* Host memory that this device has: all of it, or what is pinned for it. */
    json_put_u64(j, "host_bytes",
                 p->facts.host_memory
                     ? place->total
                     : p->pinned.bytes + planning_windows_bytes(&p->next) +
                           planning_windows_bytes(&p->group) + spill_allocated(&s->planning.plan, i));
    json_close(j);
}

stator_status stator_get_audit(const stator *s, stator_audit *audit, stator_error *e) {
    ARGUMENTS_NEED(s);
    ARGUMENTS_SIZED(audit, size);
    if (!s->front.started)
        return error_set(e, STATOR_USAGE, "stator_get_audit: call stator_start first");
    struct audit a;
    audit_take(s, &a);
    stator_audit all = {.planned = a.planned,
                        .not_in_ram = a.not_in_ram,
                        .before = a.before,
                        .others = a.others,
                        .kernel = a.kernel,
                        .pinned = a.pinned,
                        .spilled = a.spilled,
                        .grown = audit_growth(s, &a),
                        .heap_grown = (int64_t)a.heap - (int64_t)s->report.sealed.heap,
                        .drm_clients = a.drm.clients,
                        .drm_vram = a.drm.local_bytes,
                        .drm_gtt = a.drm.system_bytes,
                        .available = a.machine.available,
                        .available_sealed = s->report.sealed.machine.available,
                        .unnamed_grown = audit_unnamed_growth(s, &a),
                        .beside = a.beside};
    const bool wrong = audit_judge(s, &a, all.text, sizeof all.text);
    ARGUMENTS_WRITE(audit, &all);
    if (wrong && s->planning.config.memory.strict)
        return error_set(e, STATOR_DOES_NOT_FIT, "%s; memory.strict is set", all.text);
    return STATOR_OK;
}

stator_status stator_audit_ranks(stator *s, stator_error *e) {
    ARGUMENTS_NEED(s);
    if (!s->front.started || s->planning.config.cluster.n < 2 || s->planning.stage > 0)
        return STATOR_OK;
    const uint64_t end = clock_ns() + ARITH_MIN(s->run.deadline_ns, ASK_MOST_NS);
    const uint32_t asked = atomic_load(&s->report.asked) + 1;
    s->report.knows_ranks = false;
    atomic_store(&s->report.asked, asked);
    ring_wake(s->front.commands);
    while (atomic_load(&s->report.told) != asked && clock_ns() < end && atomic_load(&s->shown.fault) == 0) {
        struct timespec pause = {.tv_nsec = 1000000};
        nanosleep(&pause, NULL);
    }
    s->report.knows_ranks = atomic_load(&s->report.told) == asked;
    for (uint32_t i = 0; s->report.knows_ranks && i < s->report.n_notes; i++) {
        const struct device_note *n = &s->report.notes[i];
        if (n->text[0] != '\0' && s->planning.config.memory.strict)
            return error_set(e, STATOR_DOES_NOT_FIT, "rank %u: %s; memory.strict is set", n->rank, n->text);
    }
    return STATOR_OK;
}

stator_status stator_get_device_audit(const stator *s, size_t index, stator_device_audit *audit, int *have,
                                      stator_error *e) {
    ARGUMENTS_NEED(s);
    ARGUMENTS_NEED(have);
    *have = 0;
    ARGUMENTS_SIZED(audit, size);
    if (!s->front.started)
        return error_set(e, STATOR_USAGE, "stator_get_device_audit: call stator_start first");
    for (uint32_t i = 0; i < planning_parts(&s->planning); i++) {
        if (s->planning.devices[i].facts.host_memory || index-- > 0)
            continue;
        struct audit a;
        audit_take(s, &a);
        const struct audit_device *d = &a.devices[i];
        stator_device_audit all = {.planned = d->planned,
                                   .reserve = s->planning.config.memory.driver_reserve,
                                   .driver = d->driver,
                                   .kernel_told = d->kernel_told,
                                   .kernel = d->kernel,
                                   .host = d->host,
                                   .kernel_host = d->kernel_host,
                                   .grown = audit_device_growth(s, &a, i)};
        snprintf(all.name, sizeof all.name, "%s", s->planning.devices[i].facts.name);
        ARGUMENTS_WRITE(audit, &all);
        *have = 1;
        break;
    }
    return STATOR_OK;
}

static void memory_to_json(const struct stator *s, struct json *j) {
    json_open_array(j, "memory");
    for (size_t i = 0;; i++) {
        stator_memory_row row = {.size = sizeof row};
        int have = 0;
        if (stator_get_memory(s, i, &row, &have, NULL) != STATOR_OK || !have)
            break;
        json_open_object(j, NULL);
        json_put_string(j, "place", row.place);
        json_put_string(j, "arena", row.arena);
        json_put_u64(j, "planned", row.planned);
        json_put_u64(j, "allocated", row.allocated);
        json_put_u64(j, "used", row.used);
        json_close(j);
    }
    json_close(j);
}

/* accepted <= drafted at every place; tokens_per_turn: of a generating sequence, 1 without speculation. */
static void speculation_to_json(const struct stator *s, struct json *j) {
    const struct speculation_shown *shown = &s->shown.speculation;
    const uint64_t turns = atomic_load(&shown->turns);
    uint64_t guessed = 0;
    uint64_t kept = 0;
    for (uint32_t i = 0; i < s->planning.want.guesses; i++) {
        kept += atomic_load(&shown->kept[i]);
        guessed += atomic_load(&shown->guessed[i]);
    }
    json_open_object(j, "speculation");
    json_put_string(j, "mode",
                    config_enum_name(CONFIG_SPECULATION_MODE, (int)s->planning.config.speculation.mode));
    json_put_u64(j, "tokens", s->planning.want.guesses);
    json_put_u64(j, "turns", turns);
    json_put_u64(j, "guessed", guessed);
    json_put_u64(j, "kept", kept);
    json_put_double(j, "tokens_per_turn", turns > 0 ? 1 + (double)kept / (double)turns : 0);
    if (s->planning.draft.gguf != NULL) {
        json_put_string(j, "model", s->planning.draft.shape->model_name);
        json_put_u64(j, "draft_steps", atomic_load(&shown->draft_steps));
        json_put_u64(j, "draft_tokens", atomic_load(&shown->draft_tokens));
        json_put_double(j, "draft_s", (double)atomic_load(&shown->draft_ns) * 1e-9);
    }
    json_open_array(j, "rate_by_place");
    for (uint32_t i = 0; i < s->planning.want.guesses; i++) {
        const uint64_t n = atomic_load(&shown->guessed[i]);
        json_put_double(j, NULL, n > 0 ? (double)atomic_load(&shown->kept[i]) / (double)n : 0);
    }
    json_close(j);
    json_close(j);
}

static void report_to_json(const struct stator *s, struct json *j) {
    json_open_object(j, NULL);
    json_put_string(j, "version", STATOR_VERSION);
    json_put_string(j, "hash", s->planning.plan.hash);
    json_put_string(j, "model", s->planning.config.model.path);
    json_put_string(j, "tier", s->planning.devices[0].choice.tier);
    if (s->planning.why_cpu[0] != '\0')
        json_put_string(j, "why_cpu", s->planning.why_cpu);
    if (s->planning.why_vision_cpu[0] != '\0')
        json_put_string(j, "why_vision_cpu", s->planning.why_vision_cpu);
    json_put_u64(j, "threads", s->planning.devices[0].choice.threads);
    json_open_array(j, "devices");
    for (uint32_t i = 0; i + 1 < s->planning.plan.n_places; i++)
        device_to_json(s, i, j);
    json_close(j);
    json_open_array(j, "routes");
    for (uint32_t i = 0; s->front.started && i < s->planning.n_devices; i++) {
        pairs_to_json(s, i, j);
        if (i + 1 < s->planning.n_devices && i == planning_stage_last(&s->planning, i))
            route_to_json(s, i, j);
    }
    json_close(j);
    memory_to_json(s, j);
    if (s->front.started) {
        struct audit now;
        audit_take(s, &now);
        placement_to_json(&s->start.placement, j);
        json_open_object(j, "audit");
        audit_to_json(s, &s->report.sealed, j, "sealed");
        audit_to_json(s, &now, j, "end");
        json_open_array(j, "other_ranks");
        for (uint32_t i = 0; s->report.knows_ranks && i < s->report.n_notes; i++)
            audit_note_to_json(&s->report.notes[i], j);
        json_close(j);
        json_close(j);
    }
    json_open_object(j, "process");
    json_put_u64(j, "private_bytes", host_memory_private());
    json_put_u64(j, "peak_rss_bytes", host_memory_peak());
    json_close(j);
    json_open_object(j, "timings");
    json_put_double(j, "load_s", (double)s->start.load_ns * 1e-9);
    json_put_u64(j, "requests", atomic_load(&s->served.requests));
    json_put_u64(j, "prompt_tokens", atomic_load(&s->served.prompt_tokens));
    json_put_double(j, "prompt_s", (double)atomic_load(&s->served.prompt_ns) * 1e-9);
    json_put_u64(j, "generated_tokens", atomic_load(&s->served.generated_tokens));
    json_put_double(j, "generate_s", (double)atomic_load(&s->served.generate_ns) * 1e-9);
    json_close(j);
    if (s->planning.want.guesses > 0)
        speculation_to_json(s, j);
    json_close(j);
}

/* The figures grow between a call that asks for the length and the next, so what such a call hears holds any
 * figures. */
stator_status stator_report_json(const stator *s, char *out, size_t capacity, size_t *n, stator_error *e) {
    ARGUMENTS_NEED(s);
    ARGUMENTS_NEED(n);
    *n = 0;
    if (capacity > 0)
        ARGUMENTS_NEED(out);
    struct json j;
    json_to_buffer(&j, out, capacity, true);
    report_to_json(s, &j);
    bool fits = json_end(&j);
    *n = j.length;
    if (fits)
        return STATOR_OK;
    json_to_measure(&j, true);
    report_to_json(s, &j);
    *n = j.length;
    return error_set(e, STATOR_USAGE, "the report may take %zu bytes, the buffer holds %zu", *n, capacity);
}
