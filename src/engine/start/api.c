/* The public calls up to start and close: config and model in, a sealed engine out. Requests are in
 * requests.c, texts about the engine in report.c. */
#include "engine/engine.h"

#include "arch/arch.h"
#include "base/clock.h"
#include "os/pages.h"
#include "base/units.h"
#include "os/host_memory.h"
#include "plan/device_spec.h"
#include "plan/refusal.h"
#include "engine/start/arguments.h"
#include "engine/start/routes.h"
#include "plan/spill.h"
#include "engine/report/trace.h"
#include "kernels/kernels.h"

#include <inttypes.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

uint32_t stator_api_version(void) {
    return STATOR_API_VERSION;
}

/* Shape, graph tables and the placement's work, in one mapping: first counted, then placed. */
static stator_status map_front(struct stator *s, stator_error *e) {
    struct shape *shape = NULL;
    void *memory = NULL;
    stator_status st = pages_map(sizeof *shape, "the model's shape", &memory, e);
    if (st != STATOR_OK)
        return st;
    shape = memory;
    st = arch_read(s->gguf, shape, e);
    if (st == STATOR_OK) {
        struct carve c = carve_count();
        carve_take(&c, 1, sizeof *shape);
        struct graph *g = &s->devices[0].graph;
        arch_layout(g, &c, shape, s->n_devices);
        s->place_work_bytes = graph_place_work_bytes(g);
        carve_take(&c, s->place_work_bytes, 1);
        s->max_plan_blocks = planner_max_blocks(g, s->n_devices);
        carve_take(&c, s->max_plan_blocks, sizeof *s->plan_blocks);
        s->front_bytes = c.used;
        st = pages_map(s->front_bytes, "the model's graph", &s->front, e);
    }
    if (st == STATOR_OK) {
        struct carve c = carve_in(s->front, s->front_bytes);
        s->shape = carve_take(&c, 1, sizeof *shape);
        *s->shape = *shape;
        arch_layout(&s->devices[0].graph, &c, s->shape, s->n_devices);
        s->place_work = carve_take(&c, s->place_work_bytes, 1);
        s->plan_blocks = carve_take(&c, s->max_plan_blocks, sizeof *s->plan_blocks);
    }
    pages_unmap(shape, sizeof *shape);
    return st;
}

/* Its memory is the host's, of which it has what the others leave. */
static void keep_described(struct stator *s, const struct device_facts *facts) {
    struct device_facts *f = &s->devices[s->n_devices++].facts;
    *f = *facts;
    if (!f->host_memory)
        return;
    s->described_host = ARITH_MAX(s->described_host, f->memory);
    f->memory = 0;
}

/* The devices of devices.use by devices.facts; all of those with "auto". */
static stator_status take_facts(struct stator *s, stator_error *e) {
    const struct config *c = &s->config;
    struct device_facts facts[DEVICE_SPEC_MAX];
    uint32_t n = 0;
    stator_status st = device_spec_parse_list(c->devices.facts, "devices.facts:", facts, &n, e);
    if (st != STATOR_OK || n == 0)
        return st;
    uint32_t wanted = c->devices.n > 0 ? c->devices.n : n;
    if (wanted > DEVICE_MAX)
        return error_set(e, STATOR_USAGE, "devices.facts: %u devices; at most %d", wanted, DEVICE_MAX);
    for (uint32_t i = 0; i < wanted; i++) {
        const struct device_facts *f =
            c->devices.n == 0 ? &facts[i] : device_spec_find(facts, n, c->devices.list[i].name);
        if (f == NULL)
            return error_set(e, STATOR_USAGE,
                             "devices.use names %s, which devices.facts does not describe (with "
                             "--set devices.facts= the devices are those of this machine)",
                             c->devices.list[i].name);
        keep_described(s, f);
    }
    s->imagined = true;
    return STATOR_OK;
}

/* A run takes what is here, but tells who trusts a plan for something else. */
static stator_status compare_facts(struct stator *s, stator_error *e) {
    struct device_facts facts[DEVICE_SPEC_MAX];
    uint32_t n = 0;
    stator_status st = device_spec_parse_list(s->config.devices.facts, "devices.facts:", facts, &n, e);
    for (uint32_t i = 0; st == STATOR_OK && i < s->n_devices; i++) {
        const struct device_facts *here = &s->devices[i].facts;
        const struct device_facts *said = device_spec_find(facts, n, here->name);
        if (said == NULL || here->host_memory ||
            (said->memory == here->memory && said->bandwidth == here->bandwidth &&
             said->max_alloc == here->max_alloc))
            continue;
        log_write(&s->log, STATOR_LOG_WARN,
                  "%s: devices.facts says %" PRIu64 " bytes, max_alloc %" PRIu64 ", bandwidth %" PRIu64
                  "; here it has %" PRIu64 ", %" PRIu64 ", %" PRIu64
                  ": plans made from the file are not this run's",
                  here->name, said->memory, said->max_alloc, said->bandwidth, here->memory, here->max_alloc,
                  here->bandwidth);
    }
    return st;
}

/* Devices that are not here; devices.use names them, so that devices.split and `stator config` know them too.
 */
static stator_status load_config(struct stator *s, const stator_options *o, stator_error *e) {
    if (o->n_devices == 0) {
        stator_status st = config_load(o->config, o->set, o->n_set, &s->config, e);
        return st == STATOR_OK && o->described ? take_facts(s, e) : st;
    }
    if (o->n_devices > DEVICE_MAX)
        return error_set(e, STATOR_USAGE, "--device: %zu devices; at most %d", o->n_devices, DEVICE_MAX);
    char use[CONFIG_LIST] = "devices.use=";
    for (size_t i = 0; i < o->n_devices; i++) {
        struct device_facts f;
        stator_status st = device_spec_parse(o->devices[i], "--device", &f, e);
        if (st != STATOR_OK)
            return st;
        keep_described(s, &f);
        size_t n = strlen(use);
        snprintf(use + n, sizeof use - n, "%s%s", i > 0 ? "," : "", f.name);
    }
    s->imagined = true;
    uint64_t bytes = (o->n_set + 1) * sizeof(char *);
    void *memory = NULL;
    stator_status st = pages_map(bytes, "the list of --set", &memory, e);
    if (st != STATOR_OK)
        return st;
    const char **set = memory;
    for (size_t i = 0; i < o->n_set; i++)
        set[i] = o->set[i];
    set[o->n_set] = use;
    st = config_load(o->config, set, o->n_set + 1, &s->config, e);
    pages_unmap(memory, bytes);
    return st;
}

/* The devices of the config, or "auto", which may be several. */
static stator_status choose_devices(struct stator *s, const struct device_options *o, stator_error *e) {
    const struct config *c = &s->config;
    struct device_choice choices[DEVICE_MAX];
    uint32_t n = 0;
    if (c->devices.n > DEVICE_MAX)
        return error_set(e, STATOR_USAGE, "devices.use = \"%s\": %u devices; at most %d", c->devices.use,
                         c->devices.n, DEVICE_MAX);
    stator_status st = STATOR_OK;
    if (c->devices.n == 0)
        st = device_choose("auto", o, choices, DEVICE_MAX, &n, e);
    for (uint32_t i = 0; i < c->devices.n && st == STATOR_OK; i++) {
        uint32_t one = 0;
        st = device_choose(c->devices.list[i].name, o, &choices[i], 1, &one, e);
        n += one;
    }
    for (uint32_t i = 0; i < n && st == STATOR_OK; i++) {
        s->devices[i].choice = choices[i];
        s->devices[i].facts = choices[i].facts;
    }
    s->n_devices = n;
    return st;
}

/* Described devices keep their facts; those that are memory of the host run as this machine's processors do.
 */
static stator_status choose_described(struct stator *s, const struct device_options *o, stator_error *e) {
    struct device_choice here;
    uint32_t n = 0;
    stator_status st = device_choose("cpu:0", o, &here, 1, &n, e);
    for (uint32_t i = 0; i < s->n_devices && st == STATOR_OK; i++)
        s->devices[i].choice = here;
    return st;
}

static uint64_t deadline_of(const struct config *c) {
    return (uint64_t)(c->devices.deadline * 1e9);
}

static struct device_options options_of(const struct config *c) {
    struct device_options o = {.threads = (uint32_t)c->cpu.threads, .deadline_ns = deadline_of(c)};
    for (uint32_t i = 0; i < c->devices.n; i++)
        o.cpu_devices += strncmp(c->devices.list[i].name, "cpu:", 4) == 0;
    snprintf(o.tier, sizeof o.tier, "%s", config_enum_name(CONFIG_CPU_TIER, (int)c->cpu.tier));
    return o;
}

static stator_status resolve_devices(struct stator *s, stator_error *e) {
    struct device_options o = options_of(&s->config);
    stator_status st = s->imagined ? choose_described(s, &o, e) : choose_devices(s, &o, e);
    if (st == STATOR_OK && !s->imagined)
        st = compare_facts(s, e);
    if (st == STATOR_OK)
        config_derive(&s->config, CONFIG_CPU_THREADS, s->devices[0].choice.threads);
    return st;
}

/* Every type takes every shape: heads are multiples of 32 (model/shape.c). */
static void resolve_kv_types(const struct config *c, struct engine_want *w) {
    static const uint32_t types[] = {[CONFIG_KV_F32] = KERNELS_KV_F32,
                                     [CONFIG_KV_F16] = KERNELS_KV_F16,
                                     [CONFIG_KV_Q8_0] = KERNELS_KV_Q8_0,
                                     [CONFIG_KV_Q4_0] = KERNELS_KV_Q4_0};
    w->kv_type_k = types[c->memory.kv_type_k];
    w->kv_type_v = types[c->memory.kv_type_v];
}

static stator_status resolve_host_limit(struct stator *s, stator_error *e) {
    s->host_limit = s->config.memory.host_limit != 0 ? s->config.memory.host_limit : s->described_host;
    if (s->host_limit != 0)
        return STATOR_OK;
    int why = host_memory_unreadable();
    if (why != 0)
        return error_set(
            e, STATOR_FAILED,
            "how much memory there is can't be read from /proc: %s (ulimit -n); raise the limit, "
            "or set memory.host_limit",
            strerror(why));
    uint64_t available = host_memory_available();
    if (available == 0)
        return error_set(
            e, STATOR_USAGE,
            "neither /proc/meminfo nor the cgroup says how much memory there is: set memory.host_limit");
    s->host_limit = available / 10 * 9;
    config_derive(&s->config, CONFIG_MEMORY_HOST_LIMIT, s->host_limit);
    return STATOR_OK;
}

/* Sizes that do not need a plan; "auto" context is resolved by planning. */
static stator_status resolve_want(struct stator *s, stator_error *e) {
    const struct config *c = &s->config;
    struct engine_want *w = &s->want;
    resolve_kv_types(c, w);
    w->spill = c->memory.on_oom == CONFIG_OOM_SPILL;
    w->sequences = (uint32_t)c->memory.sequences;
    w->batch = (uint32_t)c->memory.batch;
    w->logits_rows = (uint32_t)(c->memory.logits_rows != 0 ? c->memory.logits_rows : c->memory.sequences);
    w->logits_rows = ARITH_MIN(w->logits_rows, w->batch);
    s->rows_follow_sequences = c->memory.logits_rows == 0;
    if (c->memory.context > s->shape->context_trained && c->memory.context != CONFIG_CONTEXT_AUTO)
        return error_set(e, STATOR_USAGE,
                         "memory.context = %" PRIu64 ": this model was trained for %u tokens",
                         c->memory.context, s->shape->context_trained);
    w->context = (uint32_t)(c->memory.context == 0 || c->memory.context == CONFIG_CONTEXT_AUTO
                                ? ARITH_MIN(4096u, s->shape->context_trained)
                                : c->memory.context);
    s->load_window = pages_rounded(c->memory.staging);
    return resolve_host_limit(s, e);
}

static stator_status open_parts(struct stator *s, const stator_options *o, stator_error *e) {
    stator_status st = load_config(s, o, e);
    if (st != STATOR_OK)
        return st;
    st = log_sink_open(&s->sink, &s->config, &s->log, e);
    if (st != STATOR_OK)
        return st;
    s->deadline_ns = deadline_of(&s->config);
    st = gguf_open(s->config.model.path, &s->gguf, e);
    if (st != STATOR_OK)
        return st;
    st = resolve_devices(s, e);
    if (st != STATOR_OK)
        return st;
    st = map_front(s, e);
    if (st != STATOR_OK)
        return st;
    /* A model without a tokenizer of ours still runs on token ids. */
    if (tokenizer_measure(s->gguf, &s->tokenizer_bytes, &s->tokenizer_error) != STATOR_OK)
        s->tokenizer_bytes = 0;
    return resolve_want(s, e);
}

/* No element of a list of texts is NULL. */
static stator_status check_list(const char *const *list, size_t n, const char *name, stator_error *e) {
    for (size_t i = 0; i < n; i++)
        if (list == NULL || list[i] == NULL)
            return error_set(e, STATOR_USAGE, "stator_open: options.%s%s is NULL, and options.n_%s %zu", name,
                             list != NULL ? "[]" : "", name, n);
    return STATOR_OK;
}

static stator_status check_options(const stator_options *o, stator_error *e) {
    if (o->config == NULL)
        return error_set(e, STATOR_USAGE,
                         "stator_open: options.config is NULL: the path of a config file or "
                         "of a model is expected");
    stator_status st = check_list(o->set, o->n_set, "set", e);
    return st == STATOR_OK ? check_list(o->devices, o->n_devices, "devices", e) : st;
}

stator_status stator_open(const stator_options *options, stator **out, stator_error *e) {
    ARGUMENTS_NEED(out);
    *out = NULL;
    ARGUMENTS_SIZED(options, config);
    stator_options all;
    ARGUMENTS_READ(&all, options);
    const stator_options *o = &all;
    stator_status st = check_options(o, e);
    if (st != STATOR_OK)
        return st;
    uint64_t before = host_memory_private();
    void *memory = NULL;
    st = pages_map(sizeof(struct stator), "the engine", &memory, e);
    if (st != STATOR_OK)
        return st;
    struct stator *s = memory;
    s->private_before = before;
    s->root = "";
    s->log = (struct log){.write = o->log, .context = o->context, .level = STATOR_LOG_INFO};
    s->progress = o->progress;
    s->context = o->context;
    s->traces = o->trace != NULL;
    s->only_plans = o->described != 0;
    if (s->traces &&
        (size_t)snprintf(s->trace_path, sizeof s->trace_path, "%s", o->trace) >= sizeof s->trace_path) {
        pages_unmap(s, sizeof *s);
        return error_set(e, STATOR_USAGE, "stator_open: options.trace is longer than a path can be");
    }
    s->expects_plan = o->expect_plan != NULL;
    if (s->expects_plan)
        snprintf(s->expect_plan, sizeof s->expect_plan, "%s", o->expect_plan);
    phase_init(&s->phase);
    pthread_mutex_init(&s->submit_lock, NULL);
    pthread_mutex_init(&s->edge_lock, NULL);
    st = open_parts(s, o, e);
    if (st != STATOR_OK) {
        stator_close(s);
        return st;
    }
    *out = s;
    return STATOR_OK;
}

/* What memory.on_oom = "spill" would do or does, where a GPU is too small; else "". */
static const char *spill_hint(struct stator *s, char *out, size_t n) {
    struct engine_want want = s->want;
    struct plan made;
    char size[UNITS_TEXT];
    out[0] = '\0';
    if (spill_all(&s->plan) > 0)
        snprintf(out, n, " What the GPUs spill to the host, %s, is in these figures.",
                 units_format_size(spill_all(&s->plan), size));
    bool gpu = false;
    for (uint32_t i = 0; i < s->n_devices; i++)
        gpu = gpu || (!s->devices[i].facts.host_memory && s->plan.places[i].total > s->plan.places[i].budget);
    want.spill = true;
    if (!gpu || s->want.spill || planner_make(s, &want, &made, NULL) != STATOR_OK)
        return out;
    if (made.fits)
        snprintf(out, n,
                 " With memory.on_oom = \"spill\" it fits: that puts %" PRIu64 " bytes (%s) in host memory.",
                 spill_all(&made), units_format_size(spill_all(&made), size));
    else
        snprintf(out, n, " memory.on_oom = \"spill\" is not enough: %s would be short by %s.",
                 made.missing.where, units_format_size(made.missing.bytes, size));
    return out;
}

/* The refusal, with its arithmetic. */
/* What would fit instead, a sentence. */
static const char *offer(const struct stator *s, char *out, size_t n) {
    const struct plan_short *m = &s->plan.missing;
    if (m->largest_context == 0 && m->largest_batch == 0 && m->largest_sequences == 0)
        snprintf(out, n,
                 "No smaller context, batch or number of sequences alone would fit; wanted %u, %u, %u.",
                 s->want.context, s->want.batch, s->want.sequences);
    else
        snprintf(out, n,
                 "One change alone that would fit: context %" PRIu64 ", batch %" PRIu64
                 " or sequences %" PRIu64 " (0: none would); wanted %u, %u, %u.",
                 m->largest_context, m->largest_batch, m->largest_sequences, s->want.context, s->want.batch,
                 s->want.sequences);
    return out;
}

/* ", and gpu1 1.86 GiB, and 2 more places": what is short beside `place`, as far as there is room. */
static const char *others_short(const struct stator *s, const struct plan_place *place, char *out, size_t n) {
    uint32_t more = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < s->plan.n_places; i++) {
        const struct plan_place *other = &s->plan.places[i];
        bool counted = other == place ||
                       (i < s->n_devices && s->devices[i].facts.host_memory); /* in the host's figure */
        char over[UNITS_TEXT];
        char item[64];
        if (counted || other->total <= other->budget)
            continue;
        snprintf(item, sizeof item, ", and %.31s %s", other->name,
                 units_format_size(other->total - other->budget, over));
        if (more > 0 || strlen(out) + strlen(item) + sizeof ", and 99 more places" > n)
            more++;
        else
            strcat(out, item);
    }
    size_t used = strlen(out);
    if (more > 0)
        snprintf(out + used, n - used, ", and %u more place%s", more, more == 1 ? "" : "s");
    return out;
}

static stator_status refuse(struct stator *s, stator_error *e) {
    fit_search(s, &s->want, &s->plan);
    const struct plan_short *m = &s->plan.missing;
    char missing[UNITS_TEXT];
    const struct plan_place *place = &s->plan.places[0];
    for (uint32_t i = 0; i < s->plan.n_places; i++)
        if (s->plan.places[i].total == s->plan.places[i].budget + m->bytes) {
            place = &s->plan.places[i];
            break;
        }
    char others[128];
    char instead[160];
    char hint[160];
    char total[UNITS_TEXT];
    char budget[UNITS_TEXT];
    return error_set(e, STATOR_DOES_NOT_FIT,
                     "does not fit: %s needs %s of %s, %s too much (largest arena there: %s)%s. %s%s",
                     place->name, units_format_size(place->total, total),
                     units_format_size(place->budget, budget), units_format_size(m->bytes, missing), m->where,
                     others_short(s, place, others, sizeof others), offer(s, instead, sizeof instead),
                     spill_hint(s, hint, sizeof hint));
}

/* A plan that can't even be made, because slices are too small for it: shown is what it would be if they were
 * not, and what would fit is still worth knowing. */
static stator_status refuse_unmade(struct stator *s, const stator_error *why, stator_error *e) {
    struct plan *p = &s->plan;
    struct plan_short found = p->missing;
    struct engine_want whole = s->want;
    whole.any_slice = true;
    if (planner_make(s, &whole, p, NULL) != STATOR_OK) {
        plan_init(p);
        plan_add_place(p, "host", true, s->host_limit);
        planner_inputs(s, &s->want, p);
    }
    p->fits = false;
    p->missing = found;
    fit_search(s, &s->want, p);
    const struct plan_short *m = &p->missing;
    if (m->slice_limit == 0)
        return error_set(e, STATOR_DOES_NOT_FIT, "does not fit: %s", why->text);
    char needs[UNITS_TEXT], limit[UNITS_TEXT], over[UNITS_TEXT], instead[160];
    return error_set(
        e, STATOR_DOES_NOT_FIT,
        "does not fit: %s needs %s that can't be cut, slices there hold %s, %s too much: %.200s. %s",
        m->where, units_format_size(m->slice_bytes, needs), units_format_size(m->slice_limit, limit),
        units_format_size(m->bytes, over), why->text, offer(s, instead, sizeof instead));
}

#define NO_DEVICE UINT32_MAX

/* Whether the model with these sizes fits on the first n devices. *refuses: the device whose kernels do not
 * take it, *why; or NO_DEVICE. */
static bool fits_on(struct stator *s, uint32_t n, bool spill, uint32_t *refuses, stator_error *why) {
    struct engine_want want = s->want;
    struct plan made;
    *refuses = NO_DEVICE;
    want.spill = spill;
    s->n_devices = n;
    if (s->config.memory.context == CONFIG_CONTEXT_AUTO)
        want.context = fit_largest_context(s, &want);
    if (want.context == 0 || planner_make(s, &want, &made, NULL) != STATOR_OK || !made.fits)
        return false;
    for (uint32_t i = 0; i < n && *refuses == NO_DEVICE; i++)
        if (device_takes(&s->devices[i].choice, &s->devices[i].model, why) != STATOR_OK)
            *refuses = i;
    return *refuses == NO_DEVICE;
}

/* Leaves a device of "auto" out. */
static void leave_out(struct stator *s, uint32_t device, uint32_t all, const stator_error *why) {
    log_write(&s->log, STATOR_LOG_WARN, "devices.use = \"auto\": %s is left out: %s",
              s->devices[device].facts.name, why->text);
    for (uint32_t i = device; i + 1 < all; i++) {
        s->devices[i].choice = s->devices[i + 1].choice;
        s->devices[i].facts = s->devices[i + 1].facts;
    }
}

/* "auto" with GPUs: as few of them as hold the model (each boundary costs time), all of them for the largest
 * context and where they have to spill, and the CPU when they do not. */
static stator_status narrow_auto(struct stator *s, stator_error *e) {
    uint32_t all = s->n_devices;
    if (s->config.devices.n != 0 || s->imagined || s->devices[0].facts.host_memory || s->planned)
        return STATOR_OK;
    bool longest = s->config.memory.context == CONFIG_CONTEXT_AUTO;
    for (bool spill = false;; spill = true) {
        bool whole = longest || spill;
        for (uint32_t n = whole ? all : 1; n > 0 && n <= all;) {
            uint32_t refuses = NO_DEVICE;
            stator_error why;
            if (fits_on(s, n, spill, &refuses, &why))
                return STATOR_OK;
            if (refuses == NO_DEVICE) {
                n++;
            } else {
                leave_out(s, refuses, all--, &why);
                n = whole ? all : 1;
            }
        }
        if (spill || !s->want.spill)
            break;
    }
    if (all == 0)
        log_write(&s->log, STATOR_LOG_WARN,
                  "devices.use = \"auto\": no GPU is left, so the model runs on the CPU");
    else
        log_write(&s->log, STATOR_LOG_WARN,
                  "devices.use = \"auto\": the %u GPU%s here can't hold this model with these sizes, so it "
                  "runs on the CPU (name them in devices.use to see what is short)",
                  all, all == 1 ? "" : "s");
    struct device_options o = options_of(&s->config);
    struct device_choice choice;
    uint32_t one = 0;
    stator_status st = device_choose("cpu:0", &o, &choice, 1, &one, e);
    if (st != STATOR_OK)
        return st;
    s->n_devices = 1;
    s->devices[0].choice = choice;
    s->devices[0].facts = choice.facts;
    return STATOR_OK;
}

static void warn_of_tokenizer(struct stator *s) {
    log_write(&s->log, STATOR_LOG_WARN, "no texts with this model, only token ids (--tokens): %s",
              s->tokenizer_error.text);
}

/* A run finds out when it makes the tokenizer; who only plans is told the same. */
static stator_status try_tokenizer(struct stator *s, stator_error *e) {
    struct tokenizer *t = NULL;
    void *memory = NULL;
    if (s->tokenizer_bytes > 0) {
        stator_status st = pages_map(s->tokenizer_bytes, "the tokenizer", &memory, e);
        if (st != STATOR_OK)
            return st;
        if (tokenizer_create(s->gguf, memory, s->tokenizer_bytes, &t, &s->tokenizer_error) != STATOR_OK)
            t = NULL;
        pages_unmap(memory, s->tokenizer_bytes);
    }
    if (t == NULL)
        warn_of_tokenizer(s);
    return STATOR_OK;
}

stator_status stator_plan(stator *s, stator_error *e) {
    ARGUMENTS_NEED(s);
    if (s->prepare_tried)
        return error_set(e, STATOR_USAGE, "stator_plan: this engine was prepared or started before");
    stator_status st = narrow_auto(s, e);
    if (st != STATOR_OK)
        return st;
    if (s->config.memory.context == CONFIG_CONTEXT_AUTO && !s->planned) {
        uint32_t context = fit_largest_context(s, &s->want);
        if (context > 0)
            s->want.context = context;
    }
    stator_error why;
    st = planner_make(s, &s->want, &s->plan, &why);
    if (st == STATOR_DOES_NOT_FIT)
        return refuse_unmade(s, &why, e);
    if (st != STATOR_OK) {
        plan_init(&s->plan);
        if (e != NULL)
            *e = why;
        return st;
    }
    s->planned = true;
    config_derive(&s->config, CONFIG_MEMORY_CONTEXT, s->want.context);
    config_derive(&s->config, CONFIG_MEMORY_LOGITS_ROWS, s->want.logits_rows);
    log_write(&s->log, STATOR_LOG_INFO, "stator %s, plan %s", STATOR_VERSION, s->plan.hash);
    for (uint32_t i = 0; i < s->n_devices && !s->imagined; i++)
        if (s->devices[i].choice.about[0] != '\0')
            log_write(&s->log, STATOR_LOG_INFO, "%s: %s", s->devices[i].facts.name,
                      s->devices[i].choice.about);
    st = s->only_plans ? try_tokenizer(s, e) : STATOR_OK;
    if (st != STATOR_OK)
        return st;
    if (s->plan.fits) {
        spill_log(s);
        return log_sink_result(&s->sink, &s->config, e);
    }
    st = refuse(s, e);
    struct plan made; /* the search has left the graphs at another size */
    (void)planner_make(s, &s->want, &made, NULL);
    return st;
}

static stator_status make_run_state(struct stator *s, stator_error *e) {
    struct carve count = carve_count();
    planner_lay_out_run(s, &s->want, &count);
    s->run_bytes = count.used;
    stator_status st = pages_map(s->run_bytes, "engine: the run's state", &s->run, e);
    if (st != STATOR_OK)
        return st;
    struct carve c = carve_in(s->run, s->run_bytes);
    planner_lay_out_run(s, &s->want, &c);
    uint64_t engine = pages_rounded(sizeof *s) + pages_rounded(gguf_host_bytes(s->gguf)) +
                      pages_rounded(s->front_bytes) + pages_rounded(s->run_bytes);
    if (s->tokenizer_bytes > 0) {
        st = pages_map(s->tokenizer_bytes, "the tokenizer", &s->tokenizer_memory, e);
        if (st != STATOR_OK)
            return st;
        engine += pages_rounded(s->tokenizer_bytes);
        if (tokenizer_create(s->gguf, s->tokenizer_memory, s->tokenizer_bytes, &s->tokenizer,
                             &s->tokenizer_error) != STATOR_OK)
            s->tokenizer = NULL;
    }
    if (s->tokenizer == NULL)
        warn_of_tokenizer(s);
    struct plan_arena *a = plan_arena_find(plan_find(&s->plan, "host"), "engine");
    a->allocated = engine;
    CHECK(a->allocated == a->bytes);
    return STATOR_OK;
}

static stator_status fill_angles(struct stator *s, const struct graph_angles *a, double *frequency,
                                 stator_error *e) {
    const struct gguf_tensor *t = a->divisors;
    for (uint32_t j = 0; j < a->n_rot / 2; j++)
        frequency[j] = pow((double)a->base, -2.0 * j / a->n_rot) / a->scale;
    if (t == NULL)
        return STATOR_OK;
    float divisor[KERNELS_MAX_HEAD / 2];
    uint64_t bytes = a->n_rot / 2 * sizeof(float);
    CHECK(t->bytes == bytes && bytes <= sizeof divisor);
    stator_status st = gguf_load(s->gguf, t, 0, bytes, divisor, e);
    if (st != STATOR_OK)
        return st;
    for (uint32_t j = 0; j < a->n_rot / 2; j++) {
        if (!isfinite(divisor[j]) || divisor[j] <= 0)
            return error_set(e, STATOR_BAD_MODEL,
                             "%s: tensor '%.*s': value %u is %g, a positive number is expected",
                             s->config.model.path, (int)t->name.length, t->name.data, j, (double)divisor[j]);
        frequency[j] /= (double)divisor[j];
    }
    return STATOR_OK;
}

static stator_status fill_rope(struct stator *s, stator_error *e) {
    const struct graph *g = &s->devices[0].graph; /* all have the same angles */
    stator_status st = STATOR_OK;
    for (uint32_t i = 0; i < g->n_angles && st == STATOR_OK; i++)
        st = fill_angles(s, &g->angles[i], s->rope_frequency + g->angles[i].first / 2, e);
    return st;
}

/* Passes progress on until the engine thread says how its start went. */
static stator_status wait_for_start(struct stator *s, stator_error *e) {
    for (;;) {
        struct engine_event ev;
        ring_wait(s->events, UINT64_MAX);
        if (!ring_pop(s->events, &ev))
            continue;
        if (ev.kind == ENGINE_PROGRESS && s->progress != NULL)
            s->progress(s->context, ev.done, ev.total);
        if (ev.kind == ENGINE_STARTED)
            return STATOR_OK;
        if (ev.kind == ENGINE_START_FAILED) {
            if (e != NULL)
                *e = s->start_error;
            return ev.status;
        }
    }
}

static stator_status start_thread(struct stator *s, stator_error *e) {
    pthread_attr_t attr;
    int rc = pthread_attr_init(&attr);
    CHECK(rc == 0);
    /* The lowest page is a guard: what overflows the stack stops there. */
    uint8_t *stack = (uint8_t *)arith_round_up((uintptr_t)s->engine_stack, PAGES_SIZE);
    rc = mprotect(stack, PAGES_SIZE, PROT_NONE) == 0 ? 0 : errno;
    if (rc == 0)
        rc = pthread_attr_setstack(&attr, stack + PAGES_SIZE, ENGINE_STACK);
    if (rc == 0)
        rc = pthread_create(&s->thread, &attr, loop_thread, s);
    pthread_attr_destroy(&attr);
    if (rc != 0)
        return error_set(e, STATOR_FAILED, "the engine's thread can't be started: %s", strerror(rc));
    s->thread_runs = true;
    return STATOR_OK;
}

/* What the audit found is an error or a warning, as memory.strict says. */
static stator_status audit_verdict(struct stator *s, const struct audit *a, stator_error *e) {
    char text[AUDIT_TEXT];
    audit_judge(s, a, text, sizeof text);
    if (text[0] == '\0')
        return STATOR_OK;
    if (s->config.memory.strict)
        return error_set(e, STATOR_DOES_NOT_FIT, "%s; memory.strict is set", text);
    log_write(&s->log, STATOR_LOG_WARN, "%s", text);
    return STATOR_OK;
}

static stator_status open_bell(struct stator *s, stator_error *e) {
    if (s->bell.fd > 0)
        return STATOR_OK; /* of a start before this */
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        return error_set(e, STATOR_FAILED, "eventfd, for stator_event_fd: %s", strerror(errno));
    if (fd == 0) { /* of a program without standard input: 0 means that there is none */
        fd = fcntl(fd, F_DUPFD_CLOEXEC, 1);
        close(0);
        if (fd < 0)
            return error_set(e, STATOR_FAILED, "eventfd, for stator_event_fd: %s", strerror(errno));
    }
    s->bell.fd = fd;
    return STATOR_OK;
}

static stator_status start_once(struct stator *s, stator_error *e) {
    stator_status st = open_bell(s, e);
    if (st == STATOR_OK)
        st = fill_rope(s, e);
    if (st == STATOR_OK)
        st = start_thread(s, e);
    if (st == STATOR_OK)
        st = wait_for_start(s, e);
    return st;
}

static void join_thread(struct stator *s) {
    if (!s->thread_runs)
        return;
    int rc = pthread_join(s->thread, NULL);
    CHECK(rc == 0);
    s->thread_runs = false;
}

/* Gives back what a start and the run's state took; NULL where there is nothing. */
static void undo_start(struct stator *s) {
    join_thread(s);
    pages_unmap(s->staging, s->staging_bytes); /* NULL when it was a device's */
    pages_unmap(s->tokenizer_memory, s->tokenizer_bytes);
    pages_unmap(s->run, s->run_bytes);
    s->staging = s->tokenizer_memory = s->run = NULL;
    s->tokenizer = NULL;
    s->trace = NULL;
    s->prepared = false;
    atomic_store(&s->loaded_bytes, 0);
}

static stator_status expect_plan(const struct stator *s, stator_error *e) {
    if (s->expects_plan && strcmp(s->expect_plan, s->plan.hash) != 0)
        return error_set(
            e, STATOR_DOES_NOT_FIT,
            "the plan's hash is %s, --expect-plan wants %s: the model, the config or the devices differ",
            s->plan.hash, s->expect_plan);
    return STATOR_OK;
}

stator_status stator_prepare(stator *s, stator_error *e) {
    ARGUMENTS_NEED(s);
    if (s->prepare_tried)
        return s->prepared ? STATOR_OK
                           : error_set(e, STATOR_USAGE, "stator_prepare: it failed before: close the engine");
    if (s->imagined)
        return error_set(e, STATOR_DEVICE,
                         "stator_start: %s is not here, it was only described; this engine can plan",
                         s->devices[0].facts.name);
    stator_status st = s->planned && s->plan.fits ? STATOR_OK : stator_plan(s, e);
    if (st != STATOR_OK)
        return st;
    st = expect_plan(s, e);
    if (st != STATOR_OK)
        return st;
    s->prepare_tried = true;
    st = make_run_state(s, e);
    s->prepared = st == STATOR_OK;
    return st;
}

stator_status stator_start(stator *s, stator_error *e) {
    ARGUMENTS_NEED(s);
    if (s->start_tried)
        return error_set(e, STATOR_USAGE, "stator_start: this engine was started before");
    atomic_store(&s->cancel_start, 0); /* what came before this call had nothing to end */
    stator_status st = stator_prepare(s, e);
    if (st != STATOR_OK)
        return st;
    s->start_tried = true;
    stator_error own = {0};
    e = e != NULL ? e : &own;
    st = start_once(s, e);
    while (st == STATOR_DOES_NOT_FIT && refusal_pending(s)) {
        undo_start(s);
        st = refusal_plan(s, e);
        if (st == STATOR_OK)
            st = expect_plan(s, e);
        if (st == STATOR_OK)
            st = make_run_state(s, e);
        s->prepared = st == STATOR_OK;
        if (st == STATOR_OK)
            st = start_once(s, e);
    }
    if (st != STATOR_OK)
        return st;
    atomic_store(&s->started, 1);
    audit_take(s, &s->sealed);
    st = audit_verdict(s, &s->sealed, e);
    if (st != STATOR_OK)
        return st;
    routes_log(s);
    placement_log(s);
    log_write(&s->log, STATOR_LOG_INFO, "sealed after %.2f s: %s, %u threads", (double)s->load_ns * 1e-9,
              s->devices[0].choice.tier, s->devices[0].choice.threads);
    return log_sink_result(&s->sink, &s->config, e);
}

stator_status stator_stop(stator *s, stator_error *e) {
    ARGUMENTS_NEED(s);
    if (s->thread_runs) {
        atomic_store(&s->stop, 1);
        ring_wake(s->commands);
    }
    join_thread(s);
    stator_status st = trace_result(s, e);
    return st == STATOR_OK ? log_sink_result(&s->sink, &s->config, e) : st;
}

void stator_close(stator *s) {
    if (s == NULL)
        return;
    (void)stator_stop(s, NULL);
    undo_start(s);
    if (s->bell.fd > 0)
        close(s->bell.fd);
    pthread_mutex_destroy(&s->submit_lock);
    pthread_mutex_destroy(&s->edge_lock);
    pages_unmap(s->front, s->front_bytes);
    gguf_close(s->gguf);
    log_sink_close(&s->sink);
    pages_unmap(s, sizeof *s);
}
