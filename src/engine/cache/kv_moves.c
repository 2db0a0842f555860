#include "engine/cache/kv_moves.h"

#include "base/clock.h"
#include "engine/run/pipeline.h"

#include <string.h>

#define LOOK_NS 1000000 /* of a device, while only its move is waited for */

/* A buffer of the devices' moves is that of a job. */
static uint32_t buffer_of(const struct stator *s, const struct kv_job *job) {
    return (uint32_t)(job - s->run.kv_disk.jobs.jobs);
}

void kv_moves_lay_out(struct stator *s, struct carve *c) {
    struct kv_moves *m = &s->run.kv_disk.moves;
    const struct planning_kv_disk *p = &s->planning.kv_disk;
    for (uint32_t i = 0; i < s->planning.n_devices; i++)
        m->pieces[i] = carve_take(c, s->planning.devices[i].model.moves.pieces, sizeof *m->pieces[i]);
    m->held = carve_take(c, p->blocks + p->checkpoints, sizeof *m->held);
    m->n_held = 0;
    m->failed = (stator_error){0};
}

/* Of a device whose caches are mapped. */
static void copy_mapped(const struct stator *s, uint32_t device, const struct device_piece *piece,
                        uint8_t *buffer, bool out) {
    const struct planning_device *p = &s->planning.devices[device];
    const struct graph_cache *g = &p->graph.caches[piece->cache];
    const struct device_cache *c = &p->model.caches[piece->cache];
    struct device *d = s->devices[device].device;
    const uint32_t slices = device_cache_part(&p->model, piece->cache, false).first;
    CHECK(c->spilled_layers == 0 && piece->block < c->n_blocks);
    for (uint32_t u = 0; u < g->n_layers * g->units; u++) {
        uint8_t *at = buffer + piece->at + u / g->units * piece->apart + u % g->units * g->bytes;
        uint8_t *slice = d->vtable->map(d, DEVICE_KV, slices + u / c->units_per_slice);
        uint8_t *here = slice + u % c->units_per_slice * c->unit_bytes + piece->block * g->bytes;
        memcpy(out ? at : here, out ? here : at, g->bytes);
    }
}

/* Bytes that device i has of a layer in the block. */
static uint64_t layer_bytes(const struct stator *s, uint32_t cache, uint32_t i) {
    const struct graph_cache *g = &s->planning.devices[i].graph.caches[cache];
    return g->units * g->bytes;
}

/* Layers lie in the model's order, and in each the heads: a stage has layers, its devices heads of each. */
void kv_moves_add(struct stator *s, uint32_t cache, uint32_t block, const struct kv_job *job, uint8_t **at,
                  bool out) {
    struct kv_moves *m = &s->run.kv_disk.moves;
    uint64_t layer = 0, before = 0; /* bytes of a layer, and of those of the devices before */
    for (uint32_t i = 0; i < s->planning.n_devices; i++) {
        const struct graph_cache *g = &s->planning.devices[i].graph.caches[cache];
        const uint32_t last = planning_stage_last(&s->planning, i);
        if (i == planning_stage_first(&s->planning, i)) {
            layer = before = 0;
            for (uint32_t k = i; k <= last; k++)
                layer += layer_bytes(s, cache, k);
        }
        const struct device_piece piece = {
            .cache = cache, .block = block, .at = (uint64_t)(*at - job->data) + before, .apart = layer};
        if (s->devices[i].device->vtable->move == NULL)
            copy_mapped(s, i, &piece, job->data, out);
        else if (g->n_layers > 0) {
            CHECK(m->n_pieces[i] < s->planning.devices[i].model.moves.pieces);
            m->pieces[i][m->n_pieces[i]++] = piece;
        }
        before += layer_bytes(s, cache, i);
        if (i == last)
            *at += layer * g->n_layers;
    }
}

void kv_moves_begin(struct stator *s, struct kv_job *job, bool out) {
    struct kv_moves *m = &s->run.kv_disk.moves;
    job->moving = 0;
    for (uint32_t i = 0; i < s->planning.n_devices; i++) {
        struct device *d = s->devices[i].device;
        const uint32_t n = m->n_pieces[i];
        m->n_pieces[i] = 0;
        if (n == 0 || m->failed.code != STATOR_OK)
            continue;
        if (d->vtable->move(d, buffer_of(s, job), out, m->pieces[i], n, &m->failed) == STATOR_OK)
            job->moving |= 1u << i;
    }
}

static void let_go(struct stator *s, struct kv_job *job) {
    if (job->pushes && s->run.kv_disk.moves.failed.code == STATOR_OK)
        kv_jobs_push(&s->run.kv_disk.jobs, job);
    else
        kv_jobs_give_back(&s->run.kv_disk.jobs, job);
}

static void let_go_later(struct stator *s, struct kv_job *job, bool pushes) {
    struct kv_moves *m = &s->run.kv_disk.moves;
    job->pushes = pushes;
    if (job->moving == 0) {
        let_go(s, job);
        return;
    }
    CHECK(m->n_held < s->planning.kv_disk.blocks + s->planning.kv_disk.checkpoints);
    if (m->n_held == 0)
        m->since_ns = clock_ns();
    m->held[m->n_held++] = job;
}

void kv_moves_push(struct stator *s, struct kv_job *job) {
    let_go_later(s, job, true);
}

void kv_moves_give_back(struct stator *s, struct kv_job *job) {
    let_go_later(s, job, false);
}

/* Whether all moves of the job have ended; each device is waited for at most so long. */
static bool has_ended(struct stator *s, struct kv_job *job, uint64_t timeout_ns) {
    struct kv_moves *m = &s->run.kv_disk.moves;
    for (uint32_t i = 0; i < s->planning.n_devices && m->failed.code == STATOR_OK; i++) {
        struct device *d = s->devices[i].device;
        bool ended = false;
        if ((job->moving >> i & 1) == 0)
            continue;
        if (d->vtable->moved(d, buffer_of(s, job), timeout_ns, &ended, &m->failed) == STATOR_OK && ended)
            job->moving &= ~(1u << i);
    }
    return job->moving == 0;
}

/* In the order in which they came. */
static void look(struct stator *s, uint64_t timeout_ns) {
    struct kv_moves *m = &s->run.kv_disk.moves;
    uint32_t left = 0;
    for (uint32_t i = 0; i < m->n_held; i++) {
        if (has_ended(s, m->held[i], timeout_ns))
            let_go(s, m->held[i]);
        else
            m->held[left++] = m->held[i];
    }
    m->n_held = left;
}

static void note_hang(struct stator *s, const struct kv_job *job) {
    for (uint32_t i = 0; i < s->planning.n_devices; i++)
        if (job->moving >> i & 1)
            error_set(&s->run.kv_disk.moves.failed, STATOR_DEVICE,
                      "%s: a copy of a block for its file has not ended after %.1f s: the device or its "
                      "driver hangs",
                      s->planning.devices[i].facts.name, (double)s->run.deadline_ns * 1e-9);
}

/* While steps run, these have a deadline. */
void kv_moves_turn(struct stator *s) {
    struct kv_moves *m = &s->run.kv_disk.moves;
    const uint32_t before = m->n_held;
    const uint64_t now = clock_ns(); /* before: whatever holds us up afterwards is not the device */
    look(s, 0);
    if (m->n_held == 0 || m->n_held < before || pipeline_works(s))
        m->since_ns = now;
    else if (now - m->since_ns > s->run.deadline_ns && m->failed.code == STATOR_OK)
        note_hang(s, m->held[0]);
}

stator_status kv_moves_failed(const struct stator *s, stator_error *e) {
    const struct kv_moves *m = &s->run.kv_disk.moves;
    if (m->failed.code != STATOR_OK && !s->run.broken)
        *e = m->failed;
    return s->run.broken ? STATOR_OK : m->failed.code;
}

void kv_moves_settle(struct stator *s) {
    struct kv_moves *m = &s->run.kv_disk.moves;
    const uint64_t end = clock_ns() + s->run.deadline_ns;
    while (m->n_held > 0 && !s->run.broken && m->failed.code == STATOR_OK && clock_ns() < end)
        look(s, LOOK_NS);
    m->n_held = 0; /* the device may still write into buffers of those that are left: they stay taken */
}
