#include "plan/planning_open.h"

#include "arch/arch.h"
#include "device/cluster.h"
#include "kernels/kernels.h"
#include "kernels/shared/delta.h"
#include "os/host_memory.h"
#include "os/pages.h"
#include "plan/parts/device_spec.h"
#include "plan/fit.h"
#include "plan/parts/kv_disk_plan.h"
#include "plan/planner.h"
#include "plan/planning_beside.h"
#include "plan/planning_second.h"
#include "plan/shortage.h"
#include "plan/spill.h"
#include "plan/parts/split_choice.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define AUTO_CHECKPOINTS 16 /* at most, with "auto" */

static void lay_out_graph(struct planning *s, struct carve *c, const struct shape *shape) {
    struct graph *g = &s->devices[0].graph;
    if (s->config.devices.tensor)
        arch_layout_shares(g, c, shape, planning_stages(s), planning_largest_group(s));
    else
        arch_layout(g, c, shape, s->n_devices);
}

/* model.pooling in place of the file's. */
static stator_status resolve_pooling(const struct planning *s, struct shape *shape, stator_error *e) {
    const enum config_pooling asked = s->config.model.pooling;
    _Static_assert((int)CONFIG_POOLING_RANK - (int)CONFIG_POOLING_NONE == SHAPE_POOL_RANK, "one order");
    if (asked != CONFIG_POOLING_AUTO)
        shape->pooling = (enum shape_pooling)(asked - CONFIG_POOLING_NONE);
    if (shape->pooling == SHAPE_POOL_CLS)
        return error_set(
            e, STATOR_USAGE,
            "model '%s': its pooling is \"cls\" (key '%s.pooling_type', or model.pooling), which no "
            "known architecture has: take \"last\" or \"mean\"",
            shape->model_name, shape->arch_name);
    if (shape->sees_ahead && !shape_pools(shape))
        return error_set(
            e, STATOR_USAGE,
            "model '%s' makes embeddings alone, but its pooling is \"%s\" (key '%s.pooling_type', or "
            "model.pooling): take \"mean\" or \"last\"",
            shape->model_name, shape_pooling_name(shape->pooling), shape->arch_name);
    if (shape->sees_ahead && s->config.cache.kv_dir[0] != '\0')
        return error_set(
            e, STATOR_USAGE,
            "model '%s' has no prefix to keep: its tokens see those behind them. Leave cache.kv_dir "
            "out",
            shape->model_name);
    if (shape->pooling != SHAPE_POOL_NONE && s->config.speculation.mode != CONFIG_SPECULATION_OFF)
        return error_set(e, STATOR_USAGE,
                         "model '%s' generates no text (its pooling is \"%s\"): speculation.mode must be "
                         "\"off\"",
                         shape->model_name, shape_pooling_name(shape->pooling));
    return STATOR_OK;
}

/* Shape, graph tables and the placement's work, in one mapping: first counted, then placed. */
static stator_status map_tables(struct planning *s, stator_error *e) {
    struct shape *shape = NULL;
    void *memory = NULL;
    stator_status st = pages_map(sizeof *shape, "the model's shape", &memory, e);
    if (st != STATOR_OK)
        return st;
    shape = memory;
    st = arch_read(s->gguf, shape, e);
    if (st == STATOR_OK)
        st = resolve_pooling(s, shape, e);
    if (st == STATOR_OK && shape->ngram.heads > 0 && s->config.cluster.n > 0)
        st =
            error_set(e, STATOR_USAGE,
                      "model '%s': n-gram embeddings (key '%s.ple.layers') do not go with a run over several "
                      "hosts (cluster.stages) yet",
                      shape->model_name, shape->arch_name);
    if (st == STATOR_OK && s->config.speculation.mode == CONFIG_SPECULATION_MTP)
        st = shape_check_nextn(s->gguf, shape, &shape->arch->tensors, e);
    if (st == STATOR_OK) {
        struct carve c = carve_count();
        carve_take(&c, 1, sizeof *shape);
        struct graph *g = &s->devices[0].graph;
        lay_out_graph(s, &c, shape);
        s->place_work_bytes = graph_place_work_bytes(g);
        carve_take(&c, s->place_work_bytes, 1);
        s->max_plan_blocks = planner_max_blocks(g, s->n_devices) + planning_second_blocks(s);
        carve_take(&c, s->max_plan_blocks, sizeof *s->plan_blocks);
        s->tables_bytes = c.used;
        st = pages_map(s->tables_bytes, "the model's graph", &s->tables, e);
    }
    if (st == STATOR_OK) {
        struct carve c = carve_in(s->tables, s->tables_bytes);
        s->shape = carve_take(&c, 1, sizeof *shape);
        *s->shape = *shape;
        lay_out_graph(s, &c, s->shape);
        s->place_work = carve_take(&c, s->place_work_bytes, 1);
        s->plan_blocks = carve_take(&c, s->max_plan_blocks, sizeof *s->plan_blocks);
    }
    pages_unmap(shape, sizeof *shape);
    return st;
}

/* For another split. */
static stator_status remap_tables(struct planning *s, stator_error *e) {
    pages_unmap(s->tables, s->tables_bytes);
    s->tables = NULL;
    s->tables_bytes = 0;
    s->shape = NULL;
    return map_tables(s, e);
}

/* Its memory is the host's, of which it has what the others leave. */
static void keep_described(struct planning *s, const struct device_facts *facts) {
    struct device_facts *f = &s->devices[s->n_devices++].facts;
    *f = *facts;
    if (!f->host_memory)
        return;
    s->described_host = ARITH_MAX(s->described_host, f->memory);
    f->memory = 0;
}

/* The devices of devices.use by devices.facts; all of those with "auto". */
static stator_status take_facts(struct planning *s, stator_error *e) {
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
static stator_status compare_facts(struct planning *s, stator_error *e) {
    struct device_facts facts[DEVICE_SPEC_MAX];
    uint32_t n = 0;
    stator_status st = device_spec_parse_list(s->config.devices.facts, "devices.facts:", facts, &n, e);
    for (uint32_t i = 0; st == STATOR_OK && i < s->n_devices; i++) {
        struct device_facts *here = &s->devices[i].facts;
        const struct device_facts *said = device_spec_find(facts, n, here->name);
        if (said != NULL) { /* no driver says them */
            here->link = said->link;
            here->hop_ns = said->hop_ns;
        }
        if (said == NULL || here->host_memory ||
            (said->memory == here->memory && said->bandwidth == here->bandwidth &&
             said->max_alloc == here->max_alloc))
            continue;
        log_write(s->log, STATOR_LOG_WARN,
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
stator_status planning_load_config(struct planning *s, const stator_options *o, stator_error *e) {
    s->stage = o->stage;
    s->only_plans = o->described != 0;
    if (o->n_devices == 0) {
        stator_status st = config_load(o->config, o->set, o->n_set, &s->config, e);
        return st == STATOR_OK && o->described && s->config.cluster.n == 0 ? take_facts(s, e) : st;
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

/* What is known of a device of another host: of a processor all that the plan needs, of a GPU what
 * devices.facts says. Ours take the described sizes too, so that all hosts plan the same. */
static stator_status describe(const struct planning *s, uint32_t i, struct device_choice *c,
                              stator_error *e) {
    struct device_facts facts[DEVICE_SPEC_MAX];
    uint32_t n = 0;
    stator_status st = device_spec_parse_list(s->config.devices.facts, "devices.facts:", facts, &n, e);
    if (st != STATOR_OK)
        return st;
    struct device_facts *f = &c->facts;
    const struct device_facts *said = device_spec_find(facts, n, f->name);
    const bool processor = strncmp(s->config.devices.list[i].name, "cpu:", 4) == 0;
    if (f->remote && processor) {
        f->host_memory = true;
        f->alignment = PANEL_ALIGN;
        snprintf(f->kind, sizeof f->kind, "cpu");
    }
    if (processor || (said == NULL && !f->remote))
        return STATOR_OK;
    if (said == NULL)
        return error_set(e, STATOR_USAGE,
                         "cluster.stages has %s, which is not here: devices.facts must describe it "
                         "(\"%s=24GiB,max_alloc=..\"; `stator devices --save` there writes the rest)",
                         f->name, f->name);
    if (!f->remote && !s->imagined &&
        (said->memory > f->memory || (f->max_alloc > 0 && said->max_alloc > f->max_alloc)))
        return error_set(
            e, STATOR_USAGE,
            "devices.facts says %s=%" PRIu64 ",max_alloc=%" PRIu64 " (bytes), which is more than "
            "the %" PRIu64 " and %" PRIu64 " that are here (`stator devices --save` writes them)",
            f->name, said->memory, said->max_alloc, f->memory, f->max_alloc);
    f->memory = said->memory;
    f->max_alloc = said->max_alloc;
    f->bandwidth = said->bandwidth;
    f->bus = said->bus;
    if (f->remote) {
        snprintf(f->kind, sizeof f->kind, "gpu");
        f->alignment = said->alignment;
    }
    return STATOR_OK;
}

stator_status planning_need_ranks(const struct config *c, stator_error *e) {
    const struct device_cluster here = device_cluster();
    char of[128] = ""; /* under another library's mpiexec every process is alone */
    if (here.size > 0)
        snprintf(of, sizeof of, ", with the mpiexec of %s, which it is built with", here.library);
    return c->cluster.n <= 1 || here.size == c->cluster.n
               ? STATOR_OK
               : error_set(e, STATOR_USAGE,
                           "cluster.stages has %u stages, and this is one process: start it with `mpiexec -n "
                           "%u stator-mpi`%s (`stator help hosts`)",
                           c->cluster.n, c->cluster.n, of);
}

/* A device of this host. To plan, what devices.facts describes need not be here. */
static stator_status choose_own(struct planning *s, uint32_t i, const char *name,
                                const struct device_options *o, struct device_choice *c, stator_error *e) {
    struct device_facts facts[DEVICE_SPEC_MAX];
    uint32_t n = 0, one = 0;
    const char *here = s->config.devices.list[i].name;
    stator_status st = STATOR_OK;
    const struct device_facts *said = NULL;
    if (s->only_plans && device_cluster().size <= 1)
        st = device_spec_parse_list(s->config.devices.facts, "devices.facts:", facts, &n, e);
    if (st == STATOR_OK)
        said = device_spec_find(facts, n, name);
    if (st == STATOR_OK && said == NULL)
        return device_choose(here, o, c, 1, &one, e);
    if (st == STATOR_OK)
        st = device_choose("cpu:0", o, c, 1, &one, e);
    if (st == STATOR_OK && said->host_memory) {
        s->described_host = ARITH_MAX(s->described_host, said->memory);
    } else if (st == STATOR_OK) {
        c->facts = *said;
        snprintf(c->facts.kind, sizeof c->facts.kind, "gpu");
        s->imagined = true;
    }
    return st;
}

/* Of all stages; what is not ours is only told of. */
static stator_status choose_stages(struct planning *s, const struct device_options *o, stator_error *e) {
    const struct config *c = &s->config;
    const struct device_cluster ranks = device_cluster();
    if (c->devices.n > DEVICE_MAX)
        return error_set(e, STATOR_USAGE, "cluster.stages: %u devices; at most %d", c->devices.n, DEVICE_MAX);
    if (ranks.size > 1)
        s->stage = ranks.rank;
    if (ranks.size > 1 && ranks.size != c->cluster.n)
        return error_set(e, STATOR_USAGE,
                         "cluster.stages has %u stages, mpiexec has started %u ranks: give it -n %u",
                         c->cluster.n, ranks.size, c->cluster.n);
    if (s->stage >= c->cluster.n)
        return error_set(e, STATOR_USAGE, "stage %u is wanted, cluster.stages has %u", s->stage,
                         c->cluster.n);
    stator_status st = s->only_plans ? STATOR_OK : planning_need_ranks(c, e);
    for (uint32_t r = 0; r < c->cluster.n && st == STATOR_OK; r++) {
        for (uint32_t k = 0; k < c->cluster.stage[r].n && st == STATOR_OK; k++) {
            const uint32_t i = c->cluster.stage[r].first + k;
            const bool follows = c->devices.tensor && k > 0;
            struct device_choice choice = {.tier = "remote",
                                           .where = {r, i, r == 1 && k == 0, k == 0, follows}};
            char name[sizeof choice.facts.name];
            snprintf(name, sizeof name, "%.15s/%.15s", c->cluster.stage[r].host, c->devices.list[i].name);
            if (r == s->stage)
                st = choose_own(s, i, name, o, &choice, e);
            choice.facts.remote = r != s->stage;
            memcpy(choice.facts.name, name, sizeof name);
            if (st == STATOR_OK)
                st = describe(s, i, &choice, e);
            s->devices[i].choice = choice;
            s->devices[i].facts = choice.facts;
        }
    }
    s->n_devices = c->devices.n;
    return st;
}

/* The devices of the config, or "auto", which may be several. */
static stator_status choose_devices(struct planning *s, const struct device_options *o, stator_error *e) {
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
static stator_status choose_described(struct planning *s, const struct device_options *o, stator_error *e) {
    struct device_choice here;
    uint32_t n = 0;
    stator_status st = device_choose("cpu:0", o, &here, 1, &n, e);
    for (uint32_t i = 0; i < s->n_devices && st == STATOR_OK; i++)
        s->devices[i].choice = here;
    return st;
}

uint64_t planning_deadline_ns(const struct config *c) {
    return (uint64_t)(c->devices.deadline * 1e9);
}

static struct device_options options_of(const struct config *c, uint32_t stage) {
    struct device_options o = {.threads = (uint32_t)c->cpu.threads, .deadline_ns = planning_deadline_ns(c)};
    uint32_t first = c->cluster.n > 0 ? c->cluster.stage[stage].first : 0;
    uint32_t end = c->cluster.n > 0 ? first + c->cluster.stage[stage].n : c->devices.n;
    for (uint32_t i = first; i < end; i++)
        o.cpu_devices += strncmp(c->devices.list[i].name, "cpu:", 4) == 0;
    if (c->devices.tensor) /* a group has one team; each host is one group */
        o.cpu_devices = ARITH_MIN(o.cpu_devices, c->cluster.n > 0 ? 1u : c->devices.n_groups);
    o.cpu_devices +=
        device_cluster().crowded; /* another rank's: two on one processor must not be pinned there */
    snprintf(o.tier, sizeof o.tier, "%s", config_enum_name(CONFIG_CPU_TIER, (int)c->cpu.tier));
    return o;
}

static stator_status resolve_devices(struct planning *s, struct device_options *o, stator_error *e) {
    const bool stages = s->config.cluster.n > 0 && !s->imagined;
    if (device_cluster().size > 1 && !stages)
        return error_set(
            e, STATOR_USAGE,
            "mpiexec has started %u ranks, but the config has no cluster.stages: each rank needs a stage",
            device_cluster().size);
    if (stages && device_cluster().size > 1)
        s->stage = ARITH_MIN(device_cluster().rank, s->config.cluster.n - 1);
    *o = options_of(&s->config, stages ? ARITH_MIN(s->stage, s->config.cluster.n - 1) : 0);
    stator_status st = s->imagined ? choose_described(s, o, e)
                       : stages    ? choose_stages(s, o, e)
                                   : choose_devices(s, o, e);
    if (st == STATOR_OK && !s->imagined && !stages)
        st = compare_facts(s, e);
    if (st == STATOR_OK)
        config_derive(&s->config, CONFIG_CPU_THREADS,
                      s->devices[stages ? s->config.cluster.stage[s->stage].first : 0].choice.threads);
    return st;
}

/* Every type takes every shape: heads are multiples of 32 (model/shape.c). */
static void resolve_kv_types(const struct config *c, struct planning_want *w) {
    static const uint32_t types[] = {[CONFIG_KV_F32] = KERNELS_KV_F32,
                                     [CONFIG_KV_F16] = KERNELS_KV_F16,
                                     [CONFIG_KV_Q8_0] = KERNELS_KV_Q8_0,
                                     [CONFIG_KV_Q4_0] = KERNELS_KV_Q4_0};
    w->kv_type_k = types[c->memory.kv_type_k];
    w->kv_type_v = types[c->memory.kv_type_v];
}

static stator_status resolve_host_limit(struct planning *s, stator_error *e) {
    s->host_limit = s->process_limit =
        s->config.memory.host_limit != 0 ? s->config.memory.host_limit : s->described_host;
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
    s->host_limit = s->process_limit = available / 10 * 9;
    config_derive(&s->config, CONFIG_MEMORY_HOST_LIMIT, s->host_limit);
    return STATOR_OK;
}

/* A model whose tokens see those behind them takes a text in one step. */
static stator_status check_whole_texts(const struct planning *s, stator_error *e) {
    const struct config *c = &s->config;
    if (!s->shape->sees_ahead)
        return STATOR_OK;
    if (c->memory.context > c->memory.batch)
        return error_set(
            e, STATOR_USAGE,
            "memory.context = %s: model '%s' computes a text in one step, because its tokens see those "
            "behind them: at most memory.batch = %" PRIu64 " is possible, so raise that",
            c->memory.context == CONFIG_CONTEXT_AUTO ? "\"auto\"" : "above memory.batch",
            s->shape->model_name, c->memory.batch);
    if (s->shape->pooling == SHAPE_POOL_MEAN && c->memory.logits_rows != 0 &&
        c->memory.logits_rows < c->memory.batch)
        return error_set(e, STATOR_USAGE,
                         "memory.logits_rows = %" PRIu64
                         ": model '%s' needs a row for each of memory.batch = %" PRIu64
                         " tokens: leave it \"auto\"",
                         c->memory.logits_rows, s->shape->model_name, c->memory.batch);
    return STATOR_OK;
}

/* Sizes that do not need a plan; "auto" context is resolved by planning. */
static stator_status resolve_want(struct planning *s, stator_error *e) {
    const struct config *c = &s->config;
    struct planning_want *w = &s->want;
    resolve_kv_types(c, w);
    w->spill = c->memory.on_oom == CONFIG_OOM_SPILL;
    w->sequences = (uint32_t)c->memory.sequences;
    w->batch = (uint32_t)c->memory.batch;
    w->checkpoints = c->server.checkpoints != CONFIG_CHECKPOINTS_AUTO ? (uint32_t)c->server.checkpoints : 0;
    w->nextn = c->speculation.mode == CONFIG_SPECULATION_MTP;
    w->guesses = c->speculation.mode != CONFIG_SPECULATION_OFF ? (uint32_t)c->speculation.tokens : 0;
    const bool all_rows = s->shape->pooling == SHAPE_POOL_MEAN;
    w->logits_rows = c->memory.logits_rows != 0 ? (uint32_t)c->memory.logits_rows
                     : all_rows                 ? w->batch
                                                : w->sequences * (w->guesses + 1);
    w->logits_rows = ARITH_MIN(w->logits_rows, w->batch);
    s->rows_follow_sequences = c->memory.logits_rows == 0 && !all_rows;
    stator_status st = check_whole_texts(s, e);
    if (st != STATOR_OK)
        return st;
    if (c->memory.context > s->shape->context_trained && c->memory.context != CONFIG_CONTEXT_AUTO)
        return error_set(e, STATOR_USAGE,
                         "memory.context = %" PRIu64 ": this model was trained for %u tokens",
                         c->memory.context, s->shape->context_trained);
    w->context =
        (uint32_t)(c->memory.context == 0 || c->memory.context == CONFIG_CONTEXT_AUTO
                       ? ARITH_MIN(s->shape->sees_ahead ? w->batch : 4096u, s->shape->context_trained)
                       : c->memory.context);
    s->load_window = pages_rounded(c->memory.staging);
    return resolve_host_limit(s, e);
}

/* Devices of a tensor split. On a CPU those of a group use the threads of its first one, so none waits. */
static stator_status join_devices(struct planning *s, stator_error *e) {
    if (!s->config.devices.tensor)
        return STATOR_OK;
    for (uint32_t i = 0; i < s->n_devices; i++) {
        const uint32_t first = planning_stage_first(s, i);
        const bool host = s->devices[first].facts.host_memory;
        if (s->devices[i].facts.host_memory != host)
            return error_set(e, STATOR_USAGE,
                             "devices.split = \"tensor\": %s and %s are of two kinds, and a layer is divided "
                             "among GPUs or among CPU devices: take \"auto\", or %s",
                             s->devices[first].facts.name, s->devices[i].facts.name,
                             s->config.cluster.n > 0
                                 ? "give each host of cluster.stages devices of one kind"
                                 : "set devices.groups so that they are in different groups");
        if (host && s->config.transfer.mode == CONFIG_TRANSFER_STAGED)
            return error_set(e, STATOR_USAGE,
                             "transfer.mode is \"staged\", but the CPU devices of devices.split = \"tensor\" "
                             "exchange values directly only; take \"auto\"");
        s->devices[i].choice.joins = host && i > first;
    }
    return STATOR_OK;
}

/* Why the processors cannot compute the experts of this run's GPUs; NULL: they can. */
static const char *helps_not(const struct planning *s) {
    if (s->shape->experts.count == 0)
        return "this model has no experts";
    if (s->config.devices.tensor || s->config.cluster.n > 0)
        return "GPUs of a tensor split or of several hosts have no helper so far";
    for (uint32_t i = 0; i < planning_parts(s); i++)
        if (s->devices[i].facts.host_memory)
            return i < s->n_devices ? "a CPU device of devices.use would share the processors with it, which "
                                      "is not built yet"
                   : planning_second_of(s, i) == &s->draft
                       ? "speculation.device is the CPU, which would share the processors with it: take a GPU"
                       : "the vision tower runs on the CPU and would share the processors with it: set "
                         "vision.device to a GPU";
    return NULL;
}

/* memory.experts = "host" or "auto": the processors as the helper of all GPUs. */
static stator_status resolve_helper(struct planning *s, const struct device_options *o, stator_error *e) {
    const enum config_experts experts = s->config.memory.experts;
    uint32_t one = 0;
    if (experts == CONFIG_EXPERTS_DEVICE)
        return STATOR_OK;
    const char *why = helps_not(s);
    if (why != NULL)
        return experts == CONFIG_EXPERTS_AUTO
                   ? STATOR_OK
                   : error_set(e, STATOR_USAGE, "memory.experts = \"host\": %s", why);
    s->may_help = true;
    return device_choose("cpu:0", o, &s->helper, 1, &one, e);
}

stator_status planning_open(struct planning *s, stator_error *e) {
    struct device_options o;
    stator_status st = gguf_open(s->config.model.path, &s->gguf, e);
    if (st == STATOR_OK)
        st = resolve_devices(s, &o, e);
    if (st == STATOR_OK)
        st = join_devices(s, e);
    if (st == STATOR_OK)
        st = planning_second_open(s, &o, e);
    if (st == STATOR_OK)
        st = map_tables(s, e);
    if (st == STATOR_OK)
        st = resolve_helper(s, &o, e);
    return st == STATOR_OK ? resolve_want(s, e) : st;
}

void planning_close(struct planning *s) {
    planning_second_close(s);
    pages_unmap(s->tables, s->tables_bytes);
    gguf_close(s->gguf);
}

#define NO_DEVICE UINT32_MAX

static void use_first(struct planning *s, const struct device_choice *found, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        s->devices[i].choice = found[i];
        s->devices[i].facts = found[i].facts;
    }
    s->n_devices = n;
    planning_second_place(s);
}

/* Whether the model with these sizes fits on the first n devices of `found`. *refuses: the device whose
 * kernels do not take it, *why; or NO_DEVICE. */
static bool fits_on(struct planning *s, const struct device_choice *found, uint32_t n, bool spill,
                    uint32_t *refuses, stator_error *why) {
    struct planning_want want = s->want;
    struct plan made;
    *refuses = NO_DEVICE;
    want.spill = spill;
    use_first(s, found, n);
    if (s->config.memory.context == CONFIG_CONTEXT_AUTO)
        want.context = fit_largest_context(s, &want);
    if (want.context == 0 || planner_make(s, &want, &made, NULL) != STATOR_OK || !made.fits)
        return false;
    for (uint32_t i = 0; i < n && *refuses == NO_DEVICE; i++)
        if (device_takes(&s->devices[i].choice, &s->devices[i].model, why) != STATOR_OK)
            *refuses = i;
    return *refuses == NO_DEVICE;
}

/* Leaves a device of "auto" out; without one, the model runs on the CPU. */
static void leave_out(struct planning *s, struct device_choice *found, uint32_t device, uint32_t all,
                      const stator_error *why) {
    log_write(s->log, STATOR_LOG_WARN, "devices.use = \"auto\": %s is left out: %s%s",
              found[device].facts.name, why->text,
              all == 1 ? "; no GPU is left, so the model runs on the CPU" : "");
    if (all == 1)
        snprintf(s->why_cpu, sizeof s->why_cpu, "%s is left out: %.200s", found[device].facts.name,
                 why->text);
    for (uint32_t i = device; i + 1 < all; i++)
        found[i] = found[i + 1];
}

/* "auto" with GPUs: as few of them as hold the model (each boundary costs time), all of them for the largest
 * context and where they have to spill, and the CPU when they do not. */
stator_status planning_narrow(struct planning *s, stator_error *e) {
    uint32_t all = s->n_devices;
    stator_status st = planning_beside_resolve(s, e);
    if (st != STATOR_OK)
        return st;
    if (s->config.devices.n != 0 || s->imagined || s->devices[0].facts.host_memory || s->planned)
        return STATOR_OK;
    struct device_choice found[DEVICE_MAX];
    for (uint32_t i = 0; i < all; i++)
        found[i] = s->devices[i].choice;
    bool longest = s->config.memory.context == CONFIG_CONTEXT_AUTO;
    for (bool spill = false;; spill = true) {
        bool whole = longest || spill;
        for (uint32_t n = whole ? all : 1; n > 0 && n <= all;) {
            uint32_t refuses = NO_DEVICE;
            stator_error why;
            if (fits_on(s, found, n, spill, &refuses, &why))
                return STATOR_OK;
            if (refuses == NO_DEVICE) {
                n++;
            } else {
                leave_out(s, found, refuses, all--, &why);
                n = whole ? all : 1;
            }
        }
        if (spill || !s->want.spill)
            break;
    }
    if (all > 0) {
        log_write(s->log, STATOR_LOG_WARN,
                  "devices.use = \"auto\": the %u GPU%s here can't hold this model with these sizes, so it "
                  "runs on the CPU (name them in devices.use to see what is short)",
                  all, all == 1 ? "" : "s");
        snprintf(s->why_cpu, sizeof s->why_cpu, "the GPUs here can't hold this model with these sizes");
    }
    struct device_options o = options_of(&s->config, 0);
    struct device_choice choice;
    uint32_t one = 0;
    st = device_choose("cpu:0", &o, &choice, 1, &one, e);
    if (st != STATOR_OK)
        return st;
    use_first(s, &choice, 1);
    return STATOR_OK;
}

/* A prefix is found by its PAGED blocks: a model without such a cache has no use for checkpoints, nor has one
 * whose layers have nothing else. */
static bool takes_checkpoints(struct planning *s) {
    struct graph *g = &s->devices[0].graph;
    struct graph_want want = {.batch = s->want.batch,
                              .logits_rows = s->want.logits_rows,
                              .kv_type_k = s->want.kv_type_k,
                              .kv_type_v = s->want.kv_type_v};
    bool paged = false, other = false;
    if (!s->config.server.prefix_cache || s->shape->sees_ahead ||
        arch_build(g, s->shape, &want, NULL) != STATOR_OK)
        return false;
    for (uint32_t i = 0; i < g->n_caches; i++) {
        paged = paged || g->caches[i].kind == GRAPH_PAGED;
        other = other || (g->caches[i].kind != GRAPH_PAGED && g->caches[i].n_layers > 0);
    }
    return paged && other;
}

/* Whether a later request, or a later run, may go on from a prefix. */
static bool returns(const struct planning *s) {
    return s->purpose != PLAN_TO_RUN || s->config.cache.kv_dir[0] != '\0';
}

/* "auto" of a chat or a server: for each sequence those of an answer, of its prompt, and of two places
 * before, as far as they fit; a context that is "auto" then takes what they leave. A run has no use for any,
 * unless files keep them. */
static void resolve_checkpoints(struct planning *s) {
    const uint64_t said = s->config.server.checkpoints;
    if (said == CONFIG_CHECKPOINTS_AUTO && !returns(s))
        return;
    uint64_t n = said == CONFIG_CHECKPOINTS_AUTO
                     ? ARITH_MIN(4 * (uint64_t)s->want.sequences, (uint64_t)AUTO_CHECKPOINTS)
                     : said;
    struct plan plan;
    if (!takes_checkpoints(s))
        n = 0;
    for (;; n /= 2) {
        s->want.checkpoints = (uint32_t)n;
        if (n == 0 || said != CONFIG_CHECKPOINTS_AUTO)
            return;
        if (s->config.memory.context == CONFIG_CONTEXT_AUTO && fit_largest_context(s, &s->want) > 0)
            return;
        if (s->config.memory.context != CONFIG_CONTEXT_AUTO &&
            planner_make(s, &s->want, &plan, NULL) == STATOR_OK && plan.fits && spill_forced(&plan) == 0)
            return;
    }
}

/* The kernel for wide states keeps none while it tests draft tokens. */
static stator_status check_guesses(const struct planning *s, stator_error *e) {
    for (uint32_t i = 0; i < s->n_devices && s->want.guesses > 0; i++) {
        const struct graph *g = &s->devices[i].graph;
        for (uint32_t k = 0; k < g->n_ops && !s->devices[i].facts.host_memory; k++)
            if (g->ops[k].kind == GRAPH_DELTA && g->ops[k].delta.dim_k > DELTA_TESTED_STATE)
                return error_set(
                    e, STATOR_USAGE,
                    "speculation.mode: the states of this model have %u rows, a GPU tests drafts "
                    "with up to %d; set it to \"off\"",
                    g->ops[k].delta.dim_k, DELTA_TESTED_STATE);
    }
    return STATOR_OK;
}

stator_status planning_make(struct planning *s, stator_error *e) {
    stator_status st = s->planned ? STATOR_OK : split_choose(s, remap_tables, e);
    if (st != STATOR_OK)
        return st;
    if (!s->planned) {
        planning_second_settle(s);
        resolve_checkpoints(s);
    }
    if (s->config.memory.context == CONFIG_CONTEXT_AUTO && !s->planned) {
        uint32_t context = fit_largest_context(s, &s->want);
        if (context > 0)
            s->want.context = context;
    }
    stator_error why;
    st = planner_make(s, &s->want, &s->plan, &why);
    if (st == STATOR_DOES_NOT_FIT)
        return shortage_refuse_unmade(s, &why, e);
    if (st != STATOR_OK) {
        plan_init(&s->plan);
        if (e != NULL)
            *e = why;
        return st;
    }
    st = check_guesses(s, e);
    if (st == STATOR_OK)
        st = kv_disk_plan_check(s, e);
    if (st != STATOR_OK)
        return st;
    s->planned = true;
    config_derive(&s->config, CONFIG_MEMORY_CONTEXT, s->want.context);
    if (returns(s) || s->config.server.checkpoints != CONFIG_CHECKPOINTS_AUTO)
        config_derive(&s->config, CONFIG_SERVER_CHECKPOINTS, s->want.checkpoints); /* else it stays "auto" */
    config_derive(&s->config, CONFIG_MEMORY_LOGITS_ROWS, s->want.logits_rows);
    return STATOR_OK;
}
