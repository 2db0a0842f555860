/* Makes the memory plan from the model's shape and the config. It touches no device and reads no tensor data.
 *
 * Invariant: the same model, sizes and device facts give the same plan, byte for byte. */
#include "plan/planner.h"

#include "kernels/kernels.h"
#include "os/pages.h"
#include "plan/parts/edge.h"
#include "plan/experts/hosted_estimate.h"
#include "plan/parts/kv_disk_plan.h"
#include "plan/parts/load_window.h"
#include "plan/parts/plan_device.h"
#include "plan/planning_second.h"
#include "plan/planned_route.h"
#include "plan/spill.h"
#include "plan/parts/staging.h"

#include <string.h>

#define PLANNER_VERSION 15

static void add_engine_slice(struct plan *p, struct plan_arena *a, const char *name, uint64_t bytes) {
    CHECK(p->n_places > 0 && p->places[p->n_places - 1].is_host);
    if (bytes == 0)
        return;
    plan_add_slice(&p->places[p->n_places - 1], a, pages_rounded(bytes));
    plan_add_block(p, name, strlen(name), a->n_slices - 1, 0, bytes, 0, 0);
}

static uint64_t sum_of_bounds(const struct plan_place *place) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < place->n_arenas; i++)
        sum = arith_must_add(sum, place->arenas[i].lower_bound);
    return sum;
}

static stator_status add_host(struct planning *s, const struct planning_want *want, struct plan *p,
                              stator_error *e) {
    CHECK(p->n_places == planning_parts(s));
    struct plan_place *host = plan_add_place(p, "host", true, s->host_limit);
    plan_add_arena(host, "staging", s->staging_bytes, s->staging_bytes);
    staging_add_blocks(s, p);
    struct plan_arena *a = plan_add_arena(host, "engine", 0, 0);
    add_engine_slice(p, a, "engine's struct", s->engine.bytes);
    add_engine_slice(p, a, "model's directory", gguf_host_bytes(s->gguf));
    add_engine_slice(p, a, "shape, graph, plan", s->tables_bytes);
    for (uint32_t i = s->n_devices; i < planning_parts(s); i++) {
        const struct planning_second *second = planning_second_of(s, i);
        const bool tower = second->tower != NULL;
        add_engine_slice(p, a, tower ? "vision tower's directory" : "draft model's directory",
                         gguf_host_bytes(second->gguf));
        add_engine_slice(p, a, tower ? "vision tower's shape, graph" : "draft model's shape, graph",
                         second->tables_bytes);
    }
    add_engine_slice(p, a, "tokenizer", s->tokenizer_bytes);
    add_engine_slice(p, a, "run's state", s->engine.run_bytes(s->engine.context, want));
    a->lower_bound = a->bytes;
    const uint64_t edge = s->purpose == PLAN_TO_SERVE ? edge_bytes(&s->config, want->context) : 0;
    if (edge > 0)
        plan_add_arena(host, "edge", edge, edge);
    if (p == &s->plan)
        s->edge_bytes = edge;
    if (s->grammars_bytes > 0)
        plan_add_arena(host, "grammars", s->grammars_bytes, s->grammars_bytes);
    if (s->kv_disk.bytes > 0 && !s->kv_disk.staged)
        plan_add_arena(host, "kv_disk", s->kv_disk.bytes, s->kv_disk.bytes);
    if (s->pictures.bytes > 0)
        plan_add_arena(host, "pictures", s->pictures.bytes, s->pictures.bytes);
    for (uint32_t i = 0; i < planning_parts(s); i++)
        if (s->devices[i].facts.host_memory && !s->devices[i].facts.remote)
            plan_add_arena(host, p->places[i].name, p->places[i].total, sum_of_bounds(&p->places[i]));
    return spill_add_arenas(s, p, e);
}

static const struct plan_arena *largest_arena(const struct plan_place *place) {
    CHECK(place->n_arenas > 0);
    const struct plan_arena *largest = &place->arenas[0];
    for (uint32_t k = 1; k < place->n_arenas; k++)
        if (place->arenas[k].bytes > largest->bytes)
            largest = &place->arenas[k];
    return largest;
}

/* Names the first place that is over its budget, and its largest arena. A device in host memory is part of
 * the host, so the host is named instead. */
static void find_short(const struct planning *s, struct plan *p) {
    for (uint32_t i = 0; i < p->n_places; i++) {
        const struct plan_place *place = &p->places[i];
        if (place->total <= place->budget || (!place->is_host && s->devices[i].facts.host_memory))
            continue;
        const struct plan_arena *largest = largest_arena(place);
        const struct plan_place *inside = place->is_host ? plan_find(p, largest->name) : NULL;
        p->fits = false;
        p->missing.bytes = place->total - place->budget;
        if (inside != NULL)
            snprintf(p->missing.where, sizeof p->missing.where, "%.20s: %.20s %.31s", place->name,
                     inside->name, largest_arena(inside)->name);
        else
            snprintf(p->missing.where, sizeof p->missing.where, "%.31s: %.31s", place->name, largest->name);
        return;
    }
}

static stator_status add_second(struct planning *s, uint32_t index, const struct planning_want *want,
                                struct plan *p, stator_error *e) {
    const struct planning_want own = planning_second_want(s, index, want);
    return plan_device_add(s, &own, index, 0, planning_shape(s, index)->n_layers, p, e);
}

/* Bytes of the second models on a GPU that the model, or the draft, also uses. The budget of that device
 * shrinks by them. */
static stator_status measure_second(struct planning *s, const struct planning_want *want, struct plan *p,
                                    stator_error *e) {
    struct planning_second *const all[] = {&s->draft, &s->vision};
    const uint32_t at[] = {planning_draft_at(s), planning_vision_at(s)};
    s->draft.bytes = s->vision.bytes = 0;
    for (uint32_t i = 0; i < 2; i++) {
        if (all[i]->gguf == NULL || all[i]->beside == PLANNING_NONE)
            continue;
        plan_init(p);
        stator_status st = add_second(s, at[i], want, p, e);
        if (st != STATOR_OK)
            return st;
        CHECK(p->n_places == 1);
        all[i]->bytes = p->places[0].total;
    }
    return STATOR_OK;
}

/* Adds the devices' places. Those of stage k get the layers from ends[k - 1] to ends[k] - 1. */
static stator_status add_devices(struct planning *s, const struct planning_want *want, const uint32_t *ends,
                                 struct plan *p, stator_error *e) {
    plan_init(p);
    if (p == &s->plan)
        plan_keep_blocks(p, s->plan_blocks, s->max_plan_blocks);
    for (uint32_t i = 0; i < s->n_devices; i++) {
        const uint32_t stage = planning_stage(s, i);
        stator_status st = plan_device_add(s, want, i, stage == 0 ? 0 : ends[stage - 1], ends[stage], p, e);
        if (st != STATOR_OK)
            return st;
    }
    CHECK(p->n_places == s->n_devices && ends[planning_stages(s) - 1] == s->shape->n_layers);
    stator_status st = STATOR_OK;
    for (uint32_t i = s->n_devices; i < planning_parts(s) && st == STATOR_OK; i++)
        st = add_second(s, i, want, p, e);
    return st;
}

/* Estimates decide the split. If a device's real total exceeds its budget, the error of its estimate is added
 * to `spare`, and the split is made again. */
static stator_status add_split(struct planning *s, const struct planning_want *want, uint32_t *ends,
                               struct plan *p, stator_error *e) {
    uint64_t spare[PLAN_MAX_PLACES] = {0};
    uint64_t guess[PLAN_MAX_PLACES] = {0};
    p->missing = (struct plan_short){0};
    for (uint32_t round = 0;; round++) {
        bool fit = false;
        stator_status st = plan_device_split(s, want, spare, ends, guess, &fit, &p->missing, e);
        if (st == STATOR_OK)
            st = add_devices(s, want, ends, p, e);
        if (st != STATOR_OK || !fit || round == 2 * s->n_devices)
            return st;
        bool over = false;
        for (uint32_t i = 0; i < s->n_devices; i++) {
            if (p->places[i].total <= p->places[i].budget || s->devices[i].facts.memory == 0)
                continue;
            spare[i] += p->places[i].total - guess[i];
            over = true;
        }
        if (!over)
            return STATOR_OK;
    }
}

static bool gpu_over(const struct planning *s, const struct plan *p) {
    for (uint32_t i = 0; i < s->n_devices; i++)
        if (!s->devices[i].facts.host_memory && p->places[i].total > p->places[i].budget)
            return true;
    return false;
}

static stator_status add_split_or_all(struct planning *s, const struct planning_want *want, uint32_t *ends,
                                      struct plan *p, stator_error *e) {
    return planning_stages(s) == 1 ? add_devices(s, want, ends, p, e) : add_split(s, want, ends, p, e);
}

/* Plans without spill first, so that nothing is spilled if another split has room for it; and before that
 * (memory.experts = "auto") with the experts on the GPUs. A window that nobody asked for takes no room that
 * is needed. */
static stator_status add_places(struct planning *s, const struct planning_want *want, struct plan *p,
                                stator_error *e) {
    struct planning_want kept = *want;
    kept.spill = false;
    uint32_t ends[PLAN_MAX_PLACES] = {s->shape->n_layers};
    const bool automatic = s->may_help && s->config.memory.experts == CONFIG_EXPERTS_AUTO;
    stator_status st = STATOR_OK;
    for (kept.hosted = s->may_help && !automatic;; kept.hosted = true) {
        kept.window = kept.hosted;
        st = add_split_or_all(s, &kept, ends, p, e);
        if (st == STATOR_OK && kept.window && s->config.memory.expert_window == CONFIG_WINDOW_AUTO &&
            gpu_over(s, p)) {
            kept.window = false;
            st = add_split_or_all(s, &kept, ends, p, e);
        }
        if (st != STATOR_OK || kept.hosted || !automatic || !gpu_over(s, p))
            break;
    }
    kept.spill = want->spill;
    if (st == STATOR_OK && kept.spill && gpu_over(s, p))
        st = add_devices(s, &kept, ends, p, e);
    return st;
}

static void add_route(const struct planning *s, uint32_t from, struct plan_route *r) {
    const char *why = "";
    snprintf(r->route, sizeof r->route, "%s", planned_route(s, from, &why));
    snprintf(r->why, sizeof r->why, "%s", why);
}

/* To the next stage; and in a group, whose devices are of one kind, to every other. */
static void add_routes(const struct planning *s, struct plan *p) {
    for (uint32_t i = 0; i < s->n_devices; i++) {
        const uint32_t last = planning_stage_last(s, i);
        if (planning_group(s, i) > 1)
            add_route(s, ARITH_MIN(i, last - 1), &p->places[i].to_group);
        if (i == last && i + 1 < s->n_devices) {
            add_route(s, i, &p->places[i].to_next);
            p->places[i].next_per_token = s->devices[i].graph.width * sizeof(float);
        }
    }
}

static struct plan_in_file in_file(const struct shape *s) {
    const struct gguf_tensor *t = s->ngram.heads > 0 ? s->ngram_table : NULL;
    return t == NULL ? (struct plan_in_file){0}
                     : (struct plan_in_file){
                           .bytes = t->bytes, .rows = s->ngram.heads, .row_bytes = t->bytes / t->ne[1]};
}

stator_status planner_make(struct planning *s, const struct planning_want *want, struct plan *p,
                           stator_error *e) {
    stator_status st = measure_second(s, want, p, e);
    if (st == STATOR_OK)
        st = add_places(s, want, p, e);
    if (st != STATOR_OK)
        return st;
    uint64_t least = 0;
    for (uint32_t i = 0; i < planning_parts(s); i++)
        if (!s->devices[i].facts.remote)
            least =
                ARITH_MAX(least, load_window_least(&s->devices[i].graph, s->devices[i].facts.host_memory));
    if (s->load_window < least)
        return error_set(
            e, STATOR_USAGE,
            "memory.staging is %llu bytes; this model needs at least %llu (16 rows of its widest matrix)",
            (unsigned long long)s->load_window, (unsigned long long)least);
    p->purpose = s->purpose;
    p->checkpoints = want->checkpoints;
    p->in_file = in_file(s->shape);
    p->rates = s->rates;
    p->kv_tokens = arith_round_up(want->context, KERNELS_KV_BLOCK) * want->sequences;
    add_routes(s, p);
    kv_disk_plan(s, want);
    staging_lay_out(s);
    st = add_host(s, want, p, e);
    if (st != STATOR_OK)
        return st;
    spill_estimate(s, p);
    hosted_estimate(s, p);
    plan_check(p);
    find_short(s, p);
    if (p == &s->plan)
        planner_inputs(s, want, p);
    return STATOR_OK;
}

static void hash_directory(const struct gguf *g, struct hash *h) {
    for (uint64_t i = 0; i < gguf_keys(g); i++) {
        struct gguf_value v;
        struct gguf_text key = gguf_key(g, i, &v);
        hash_u64(h, key.length);
        hash_bytes(h, key.data, key.length);
        hash_u64(h, v.kind);
        hash_u64(h, v.kind == GGUF_ARRAY ? v.item : 0);
        hash_u64(h, v.count);
        hash_u64(h, v.bytes);
        hash_bytes(h, v.data, v.bytes);
    }
    for (uint64_t i = 0; i < gguf_tensors(g); i++) {
        const struct gguf_tensor *t = gguf_tensor(g, i);
        hash_u64(h, t->name.length);
        hash_bytes(h, t->name.data, t->name.length);
        hash_u64(h, t->type);
        for (int k = 0; k < 4; k++)
            hash_u64(h, t->ne[k]);
        hash_u64(h, t->offset);
        hash_u64(h, t->shard);
    }
}

void planner_directory(const struct gguf *g, char out[HASH_TEXT]) {
    struct hash h;
    hash_init(&h);
    hash_directory(g, &h);
    hash_final(&h, out);
}

static void add_facts(struct plan *p, const struct device_facts *f) {
    const struct {
        const char *name;
        uint64_t v;
    } numbers[] = {{"memory", f->memory},
                   {"max_alloc", f->max_alloc},
                   {"bandwidth", f->bandwidth},
                   {"alignment", f->alignment}};
    char name[48];
    snprintf(name, sizeof name, "%.31s.kind", f->name);
    plan_add_text(p, name, f->kind);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        snprintf(name, sizeof name, "%.31s.%s", f->name, numbers[i].name);
        plan_add_number(p, name, numbers[i].v);
    }
}

/* From how many tokens on the devices' steps copy experts to the window, where processors compute them else:
 * this follows from bandwidths that are no facts of the hash. */
static void add_windows(const struct planning *s, struct plan *p) {
    char all[128] = "";
    bool any = false;
    for (uint32_t i = 0, n = 0; i < s->n_devices; i++) {
        const struct device_model *m = &s->devices[i].model;
        const uint32_t tokens = m->hosted ? m->stream.tokens : 0;
        n += (uint32_t)snprintf(all + n, sizeof all - n, "%s%u", i > 0 ? "," : "", tokens);
        any = any || tokens > 0;
    }
    if (any)
        plan_add_text(p, "expert_window", all);
}

/* "20,12"; "" of none. */
static void put_numbers(char *out, size_t capacity, const uint32_t *numbers, uint32_t n) {
    size_t at = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < n; i++)
        at += (size_t)snprintf(out + at, capacity - at, "%s%u", i > 0 ? "," : "", numbers[i]);
    CHECK(at < capacity);
}

/* The inputs of the hash. Paths, thread counts, tiers and free memory are left out. So is the host's limit:
 * it decides whether a plan fits, not what the plan is. */
void planner_inputs(const struct planning *s, const struct planning_want *want, struct plan *p) {
    char directory[HASH_TEXT];
    CHECK(want->batch > 0 && want->sequences > 0 && want->context > 0);
    planner_directory(s->gguf, directory);
    snprintf(p->model, sizeof p->model, "%s", s->shape->model_name);
    p->n_inputs = 0;
    plan_add_number(p, "planner", PLANNER_VERSION);
    plan_add_text(p, "model", directory);
    for (uint32_t i = s->n_devices; i < planning_parts(s); i++) {
        planner_directory(planning_gguf(s, i), directory);
        plan_add_text(p, planning_second_of(s, i)->tower != NULL ? "vision" : "draft", directory);
    }
    if (s->pictures.bytes > 0) {
        plan_add_number(p, "max_pixels", s->config.vision.max_pixels);
        plan_add_number(p, "pictures", s->pictures.n);
        plan_add_number(p, "picture_decode", s->pictures.decode_bytes);
    }
    plan_add_number(p, "context", want->context);
    plan_add_number(p, "sequences", want->sequences);
    plan_add_number(p, "batch", want->batch);
    plan_add_number(p, "logits_rows", want->logits_rows);
    if (s->shape->pooling != SHAPE_POOL_NONE)
        plan_add_text(p, "pooling", shape_pooling_name(s->shape->pooling));
    if (want->guesses > 0)
        plan_add_number(p, "speculation", want->guesses);
    if (want->nextn)
        plan_add_number(p, "nextn", 1);
    if (want->checkpoints > 0)
        plan_add_number(p, "checkpoints", want->checkpoints);
    plan_add_number(p, "max_queue", s->config.server.max_queue);
    if (s->edge_bytes > 0)
        plan_add_number(p, "edge", s->edge_bytes);
    if (s->grammars_bytes > 0)
        plan_add_number(p, "grammars", s->grammars_bytes);
    if (s->kv_disk.bytes > 0) {
        plan_add_number(p, "kv_disk", s->kv_disk.bytes);
        plan_add_number(p, "kv_files", s->kv_disk.files);
    }
    char kv_type[32];
    bool same = want->kv_type_k == want->kv_type_v;
    snprintf(kv_type, sizeof kv_type, same ? "%s" : "%s/%s", kernels_kv_name(want->kv_type_k),
             kernels_kv_name(want->kv_type_v));
    plan_add_text(p, "kv_type", kv_type); /* "f16", or K/V: "q8_0/f16" */
    plan_add_number(p, "staging", s->load_window);
    bool gpu = false;
    for (uint32_t i = 0; i < planning_parts(s); i++)
        gpu = gpu || !s->devices[i].facts.host_memory;
    if (gpu)
        plan_add_number(p, "driver_reserve", s->config.memory.driver_reserve);
    if (gpu && s->config.memory.device_limit > 0)
        plan_add_number(p, "device_limit", s->config.memory.device_limit);
    if (gpu && want->spill)
        plan_add_text(p, "on_oom", "spill");
    if (gpu && s->may_help)
        plan_add_text(p, "experts", config_enum_name(CONFIG_MEMORY_EXPERTS, (int)s->config.memory.experts));
    if (gpu && s->may_help && s->config.memory.expert_slots == CONFIG_SLOTS_AUTO)
        plan_add_text(p, "expert_slots", "auto");
    else if (gpu && s->may_help && s->config.memory.expert_slots > 0)
        plan_add_number(p, "expert_slots", s->config.memory.expert_slots);
    add_windows(s, p);
    if (s->n_devices > 1) {
        char text[64];
        const bool tensor = s->config.devices.tensor, shares = s->config.devices.n_shares > 0;
        const uint32_t n = (uint32_t)snprintf(text, sizeof text, "%s%s",
                                              tensor   ? "tensor"
                                              : shares ? ""
                                                       : "auto",
                                              tensor && shares ? ":" : "");
        put_numbers(text + n, sizeof text - n, s->config.devices.share, s->config.devices.n_shares);
        plan_add_text(p, "split", text);
        snprintf(text, sizeof text, "%u", s->config.devices.n_groups);
        if (s->config.devices.n_group_layers > 0)
            put_numbers(text, sizeof text, s->config.devices.group_layers, s->config.devices.n_group_layers);
        if (s->config.devices.n_groups > 1)
            plan_add_text(p, "groups", text);
        plan_add_text(p, "transfer", config_enum_name(CONFIG_TRANSFER_MODE, (int)s->config.transfer.mode));
    }
    for (uint32_t i = 0; i < planning_parts(s); i++)
        add_facts(p, &s->devices[i].facts);
    plan_hash_inputs(p);
}

uint32_t planner_max_blocks(const struct graph *g, uint32_t n_devices) {
    CHECK(n_devices > 0);
    /* Per device: its residual and boundary values, a tied matrix twice, cuts at the ends of weight and KV
     * slices, the cut of a spilled matrix, and the parts of the step descriptor. */
    return g->max_values + g->max_weights + g->max_cached +
           n_devices * (2 * PLAN_MAX_SLICES + 26 + 4 * (GRAPH_MAX_CACHES - 1)) + 16;
}
