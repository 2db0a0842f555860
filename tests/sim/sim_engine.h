/* What all plays of the simulator share: an engine on simulated devices whose thread takes turns with the
 * rest on one thread. The engine's thread sleeps where the real one would, until something wakes its ring of
 * commands. Checked after each of its rounds: accounts, order, progress. */
#ifndef STATOR_TESTS_SIM_ENGINE_H
#define STATOR_TESTS_SIM_ENGINE_H

#include "sim_device.h"

#include "hybrid_model.h"
#include "interpose.h"

#include "engine/run/balance.h"
#include "engine/cache/checkpoints.h"
#include "engine/cache/kv_disk.h"
#include "engine/run/loop.h"
#include "engine/run/pipeline.h"
#include "engine/start/enforce.h"
#include "engine/start/kv_open.h"
#include "engine/start/run_state.h"
#include "engine/start/start.h"

#include <sys/eventfd.h>

enum { SIM_BOUND = 50000, SIM_TURNS = 2000, SIM_PATIENCE = 60 };

/* What is played: the turns of a seed, but for those that are left out. */
struct sim_script {
    uint64_t seed;
    uint32_t turns;
    bool faultless; /* no device fails */
    bool left_out[SIM_TURNS];
};

/* The engine's part of a run. */
static struct {
    enum loop_next next; /* what its thread waits for */
    bool woken;
    bool reuses;
    uint32_t submits_in, polls_in; /* of a hundred turns */
    uint64_t last_admitted;        /* the latest request that has begun */
    struct sim_progress {
        uint64_t id, reached, since; /* the number of finished steps */
    } progress[SIM_SEQUENCES];
    uint64_t longest_wait;
} eng;

void __real_ring_wake(struct ring *r);
bool __real_ring_push(struct ring *r, const void *record);
void __wrap_ring_wake(struct ring *r);
bool __wrap_ring_push(struct ring *r, const void *record);

/* The test is linked with --wrap: whoever wakes the engine's thread does it here. */
void __wrap_ring_wake(struct ring *r) {
    eng.woken = eng.woken || (sim.s != NULL && r == sim.s->front.commands);
    __real_ring_wake(r);
}

bool __wrap_ring_push(struct ring *r, const void *record) {
    eng.woken = eng.woken || (sim.s != NULL && r == sim.s->front.commands);
    return __real_ring_push(r, record);
}

#define SIM_PICK(list) ((list)[sim_below(sizeof(list) / sizeof *(list))])

/* The settings of a run as texts, and the list of them. */
enum { SIM_SETS = 24 };

static void sim_choose(char sets[SIM_SETS][64], const char *list[SIM_SETS]) {
    static const uint32_t batches[] = {33, 40, 64, 90, 128, 512}, contexts[] = {128, 192, 256};
    static const char *const checkpoints[] = {"auto", "0", "1", "3", "7", "40"};
    uint32_t devices = 1 + (uint32_t)sim_below(3);
    eng.reuses = sim_below(8) != 0;
    uint32_t n = 0;
    const bool tensor = devices > 1 && sim_below(4) == 0;
    if (tensor && devices == 3) { /* two groups */
        devices = 4;
        snprintf(sets[n++], 64, "devices.groups=2");
    }
    snprintf(sets[n++], 64, "devices.use=%s",
             devices == 1   ? "sim:0"
             : devices == 2 ? "sim:0,sim:1"
             : devices == 3 ? "sim:0,sim:1,sim:2"
                            : "sim:0,sim:1,sim:2,sim:3");
    snprintf(sets[n++], 64, "devices.split=%s", tensor ? "tensor" : "auto");
    snprintf(sets[n++], 64, "memory.batch=%u", SIM_PICK(batches));
    snprintf(sets[n++], 64, "memory.context=%u", SIM_PICK(contexts));
    snprintf(sets[n++], 64, "memory.sequences=%u", 1 + (uint32_t)sim_below(6));
    snprintf(sets[n++], 64, "server.max_queue=%u", (uint32_t)sim_below(8));
    snprintf(sets[n++], 64, "server.checkpoints=%s", SIM_PICK(checkpoints));
    snprintf(sets[n++], 64, "server.prefix_cache=%s", eng.reuses ? "true" : "false");
    snprintf(sets[n++], 64, "speculation.mode=%s", sim_below(2) ? "ngram" : "off");
    snprintf(sets[n++], 64, "speculation.tokens=%u", 1 + (uint32_t)sim_below(8));
    if (sim_below(2))
        snprintf(sets[n++], 64, "memory.logits_rows=%u", 9 + (uint32_t)sim_below(24));
    for (uint32_t i = 0; i < n; i++)
        list[i] = sets[i];
    list[n] = NULL;
    static const uint64_t lengths[] = {1, 1000, 100000, 10000000};
    sim.longest_ns = SIM_PICK(lengths);
    eng.submits_in = 1 + (uint32_t)sim_below(8);
    eng.polls_in = sim_below(4) == 0 ? 1 : 10 + (uint32_t)sim_below(40); /* slow readers, or not */
    sim.fault = sim_below(4) == 0   ? (enum sim_fault)(1 + sim_below(SIM_HANG))
                : sim_below(2) == 0 ? SIM_DAMAGED
                                    : SIM_NONE;
    sim.fault_device = (uint32_t)sim_below(devices);
    sim.fault_nth = 1 + (uint32_t)sim_below(sim_below(2) ? 10 : 200);
}

/* Of n stages, whose first devices these are. */
static struct sim_shape sim_shape_of(const struct planning_device *const *devices, uint32_t n, uint32_t vocab,
                                     uint32_t context) {
    const struct graph *g = &devices[0]->graph;
    struct sim_shape shape = {.n_stages = n, .n_caches = g->n_caches, .vocab = vocab, .context = context};
    CHECK(vocab <= SIM_VOCAB && context <= SIM_CONTEXT && n <= SIM_STAGES);
    for (uint32_t c = 0; c < shape.n_caches; c++) {
        shape.cache[c].kind = g->caches[c].kind;
        shape.cache[c].window = g->caches[c].window;
        for (uint32_t d = 0; d < n; d++)
            shape.cache[c].on[d] = devices[d]->graph.caches[c].n_layers > 0;
    }
    return shape;
}

/* What stator_start and its thread do, on this one. */
static void sim_open(const char *model, const char *const *list, bool serves, struct stator **out) {
    stator_error e = {0};
    size_t n = 0;
    while (list[n] != NULL)
        n++;
    stator_options o = {
        .size = sizeof o, .config = model, .set = list, .n_set = n, .reuse = !serves, .serve = serves};
    stator *s = NULL;
    if (stator_open(&o, &s, &e) != STATOR_OK || stator_prepare(s, &e) != STATOR_OK ||
        run_state_fill_angles(s, &e) != STATOR_OK)
        sim_fail("%s", e.text);
    *out = s;
    if (serves)
        s->front.bell.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); /* as stator_prepare */
    CHECK(s->front.bell.fd >= 0);
    for (uint32_t i = 0; i < s->planning.n_devices; i++)
        sim.stage[i] = planning_stage(&s->planning, i);
    phase_thread_set(&s->phase, PHASE_THREAD_ENGINE);
    if (start_devices(s, &e) != STATOR_OK)
        sim_fail("%s", e.text);
    if (kv_open(s, &e) != STATOR_OK)
        sim_fail("%s", e.text);
    phase_advance(&s->phase, PHASE_SEALED);
    phase_thread_set(NULL, PHASE_THREAD_EDGE);
    atomic_store(&s->front.started, 1);
}

static void sim_start(const char *model, const char *const *list, bool serves) {
    sim_open(model, list, serves, &sim.s);
    stator *s = sim.s;
    if (sim_cluster != NULL)
        sim_cluster->start(model, list);
    const struct planning_device *first[DEVICE_MAX + 1], *draft = &s->planning.devices[s->planning.n_devices];
    for (uint32_t i = 0; i < planning_stages(&s->planning); i++)
        first[i] = &s->planning.devices[planning_stage_begin(&s->planning, i)];
    sim.shape = sim_shape_of(first, planning_stages(&s->planning), s->planning.shape->vocab,
                             s->planning.want.context);
    if (s->planning.draft.gguf != NULL)
        sim.draft = sim_shape_of(&draft, 1, s->planning.draft.shape->vocab, s->planning.want.context);
}

/* First come, first served: ids ascend. Who reads logits may wait for rows while later ones begin. */
static void sim_check_order(void) {
    const struct stator *s = sim.s;
    for (uint32_t i = 0; i < s->run.n_waiting; i++) {
        const struct engine_request *r = &s->front.requests[s->run.waiting[i]];
        const uint64_t id = atomic_load(&r->id);
        if (r->kind == STATOR_GENERATE && id < eng.last_admitted)
            sim_fail("request %llu waits although request %llu, which came later, has begun",
                     (unsigned long long)id, (unsigned long long)eng.last_admitted);
    }
    for (uint32_t i = 0; i < s->planning.want.sequences; i++)
        if (s->run.sequences[i].request != NULL)
            eng.last_admitted = ARITH_MAX(eng.last_admitted, atomic_load(&s->run.sequences[i].request->id));
}

/* Whether nothing but the engine keeps a sequence from going on. */
static bool sim_may_go_on(const struct engine_sequence *q) {
    const struct engine_request *r = q->request;
    if (kv_disk_waits(q))
        return false;
    return r->kind == STATOR_GENERATE ? outbox_waiting(&r->out) + OUTBOX_STEP <= OUTBOX_EVENTS
                                      : step_fill_reader_room(q) == ENGINE_READER_ROWS;
}

/* No running request starves: in so many steps of the others it gets on. */
static void sim_check_progress(void) {
    const struct stator *s = sim.s;
    for (uint32_t i = 0; i < s->planning.want.sequences; i++) {
        const struct engine_sequence *q = &s->run.sequences[i];
        struct sim_progress *p = &eng.progress[i];
        const uint64_t id = q->request != NULL ? atomic_load(&q->request->id) : 0;
        const uint64_t reached =
            id != 0 ? (uint64_t)q->done + q->request->n_tokens + q->request->rows_told : 0;
        if (id == 0 || id != p->id || reached != p->reached || !sim_may_go_on(q))
            *p = (struct sim_progress){.id = id, .reached = reached, .since = s->run.first_step};
        eng.longest_wait = ARITH_MAX(eng.longest_wait, s->run.first_step - p->since);
        if (s->run.first_step - p->since > SIM_PATIENCE)
            sim_fail("request %llu does not get on in %u steps of the others", (unsigned long long)id,
                     SIM_PATIENCE);
    }
}

static void sim_engine_round(void) {
    if (sim_cluster != NULL && eng.next != LOOP_AGAIN && !eng.woken && sim_below(8) == 0)
        sim_cluster->sleep(eng.next);
    else if (eng.next == LOOP_COMMANDS && !eng.woken)
        return; /* it sleeps */
    eng.woken = false;
    phase_thread_set(&sim.s->phase, PHASE_THREAD_ENGINE);
    eng.next = loop_round(sim.s);
    balance_check(sim.s);
    phase_thread_set(NULL, PHASE_THREAD_EDGE);
    sim_check_order();
    sim_check_progress();
    sim_note_states(sim.s, eng.next == LOOP_COMMANDS);
}

static void sim_pass_time(void) {
    sim.now_ns += 1 + sim_below(2 * sim.longest_ns);
    if (sim.fault == SIM_HANG && sim.faulted && sim_below(50) == 0)
        sim.now_ns += sim.s->run.deadline_ns / 2;
}

static void sim_check_whole(void) {
    if (!kv_pool_is_whole(&sim.s->run.pool) || !checkpoints_are_whole(sim.s))
        sim_fail("the pool of blocks or the checkpoints are not whole");
}

/* Nobody holds or has reserved anything. */
static void sim_check_released(void) {
    struct stator *s = sim.s;
    uint32_t held = s->run.reserved;
    stator_stats t = {.size = sizeof t};
    sim_check_whole();
    for (uint32_t i = 0; i < s->run.pool.n_blocks; i++)
        held += s->run.pool.blocks[i].holders;
    for (uint32_t i = 0; i < s->run.n_checkpoints; i++)
        held += s->run.checkpoints[i].holders;
    for (uint32_t c = 0; c < sim.shape.n_caches; c++)
        if (sim.shape.cache[c].kind != GRAPH_PAGED)
            held += s->planning.devices[0].model.caches[c].of_sequences - s->run.caches[c].n_free;
    for (uint32_t i = 0; i < s->front.n_rows; i++)
        held += atomic_load(&s->front.rows[i].taken);
    if (stator_get_stats(s, &t, NULL) != STATOR_OK || held != 0 ||
        s->run.pool.n_free + s->run.pool.n_cached != s->run.pool.n_blocks || t.blocks_free != t.blocks ||
        t.running + t.waiting + t.ended != 0 || (t.fault != STATOR_OK && !sim.faulted))
        sim_fail("something is held at the end");
}

/* The engine's end. */
static void sim_stop(void) {
    struct stator *s = sim.s;
    pipeline_drain(s);
    phase_advance(&s->phase, PHASE_SHUTDOWN);
    start_close_devices(s);
    if (sim_cluster != NULL)
        sim_cluster->stop();
    sim.s = NULL;
    stator_close(s);
}

/* The naive model's sampler; free its memory. */
static void *sim_make_sampler(struct sampler *sampler) {
    struct carve count = carve_count();
    sampler_layout(sampler, &count, sim.shape.vocab, SIM_CONTEXT + 1);
    void *memory = aligned_alloc(CARVE_ALIGN, arith_round_up(count.used, CARVE_ALIGN));
    CHECK(memory != NULL);
    struct carve c = carve_in(memory, count.used);
    memset(memory, 0, count.used);
    sampler_layout(sampler, &c, sim.shape.vocab, SIM_CONTEXT + 1);
    return memory;
}

/* Each turn has random numbers of its own, so that a turn can be left out of a script. */
static void sim_deal(uint64_t turn) {
    sim.random = sim_mix(sim_mix(sim.seed, 1), turn);
}

/* Everything follows from the seed. */
static void sim_begin(uint64_t seed, const struct sim_text *(*text_of)(uint64_t id)) {
    memset(&sim, 0, sizeof sim);
    memset(&eng, 0, sizeof eng);
    sim.seed = sim.random = seed;
    sim.now_ns = 1000000000;
    sim.text_of = text_of;
}

#endif
