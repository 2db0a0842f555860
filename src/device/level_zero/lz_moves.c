#include "device/level_zero/lz_moves.h"

#include "device/level_zero/lz_steps.h"
#include "device/level_zero/system/lz_facts.h"

static uint32_t count(const struct lz_device *d) {
    return device_moves_n(&d->model->moves);
}

struct lz_move *lz_moves_lay_out(struct carve *c, const struct device_model *m) {
    return carve_take(c, device_moves_n(&m->moves), sizeof(struct lz_move));
}

static uint64_t moves_at(const struct lz_device *d, uint32_t buffer) {
    return d->pinned.moves + buffer * d->pinned.moves_bytes;
}

static stator_status record(struct lz_device *d, uint32_t buffer, stator_error *e) {
    struct lz_move *m = &d->moves[buffer];
    const struct launch_traits t = lz_facts_traits(d->gpu);
    uint32_t n = 0;
    launch_moves(d->model, &t, buffer, moves_at(d, buffer), NULL, &n);
    CHECK(n <= lz_steps_room(d->model));
    launch_moves(d->model, &t, buffer, moves_at(d, buffer), d->steps.launches, &n);
    stator_status st = lz_queue_list(&d->queue, &m->list.handle, e);
    if (st == STATOR_OK)
        st = lz_queue_fence(&d->queue, &m->fence, e);
    return st == STATOR_OK ? lz_steps_append(d, &m->list, n, e) : st;
}

stator_status lz_moves_record(struct lz_device *d, stator_error *e) {
    stator_status st = STATOR_OK;
    CHECK(count(d) == 0 || d->setup.moved != NULL);
    for (uint32_t i = 0; i < count(d) && st == STATOR_OK; i++)
        st = record(d, i, e);
    return st;
}

/* The pieces of each cache one after the other. */
static uint64_t write_moves(struct lz_device *d, uint32_t buffer, bool out, const struct device_piece *pieces,
                            uint32_t n) {
    struct step_moves *to = (struct step_moves *)((uint8_t *)d->setup.pinned + moves_at(d, buffer));
    struct step_move *list = (struct step_move *)(to + 1);
    uint32_t at = 0;
    uint64_t bytes = 0;
    *to = (struct step_moves){.out = out};
    for (uint32_t cache = 0; cache < d->model->graph->n_caches; cache++) {
        const struct graph_cache *g = &d->model->graph->caches[cache];
        struct step_moved *of = &to->cache[cache];
        of->first = at;
        for (uint32_t i = 0; i < n; i++) {
            const struct device_piece *p = &pieces[i];
            if (p->cache != cache)
                continue;
            CHECK(p->block < d->model->caches[cache].n_blocks && p->at % STEP_MOVE_UNIT == 0 &&
                  p->apart % STEP_MOVE_UNIT == 0 && (of->n == 0 || of->apart == p->apart / STEP_MOVE_UNIT));
            of->apart = (uint32_t)(p->apart / STEP_MOVE_UNIT);
            of->n++;
            list[at++] = (struct step_move){p->block, (uint32_t)(p->at / STEP_MOVE_UNIT)};
            bytes += g->n_layers * g->units * g->bytes;
        }
    }
    CHECK(at == n);
    return bytes;
}

stator_status lz_moves_begin(struct lz_device *d, uint32_t buffer, bool out,
                             const struct device_piece *pieces, uint32_t n, stator_error *e) {
    struct lz_move *m = &d->moves[buffer];
    CHECK(buffer < count(d) && !m->running && n <= d->model->moves.pieces);
    const uint64_t bytes = write_moves(d, buffer, out, pieces, n);
    ze_result_t r = d->system->ze.zeFenceReset(m->fence);
    if (r != ZE_RESULT_SUCCESS)
        return lz_queue_error(&d->queue, "zeFenceReset", r, e);
    stator_status st = lz_queue_submit(&d->queue, &m->list.handle, 1, m->fence, e);
    m->running = st == STATOR_OK;
    d->counters.copied_bytes += m->running ? bytes : 0;
    d->counters.kernels_executed += m->running ? m->list.launches : 0;
    return st;
}

stator_status lz_moves_wait(struct lz_device *d, uint32_t buffer, uint64_t timeout_ns, bool *ended,
                            stator_error *e) {
    struct lz_move *m = &d->moves[buffer];
    CHECK(buffer < count(d));
    *ended = !m->running;
    stator_status st =
        m->running ? lz_queue_fence_wait(&d->queue, m->fence, timeout_ns, ended, e) : STATOR_OK;
    if (*ended)
        m->running = false;
    return st;
}

void lz_moves_settle(struct lz_device *d) {
    for (uint32_t i = 0; i < count(d); i++)
        if (d->moves[i].running)
            lz_queue_settle(&d->queue, d->moves[i].fence);
}

void lz_moves_close(struct lz_device *d) {
    const struct lz_calls *ze = &d->system->ze;
    for (uint32_t i = 0; i < count(d) && !d->queue.hangs; i++) {
        if (d->moves[i].list.handle != NULL)
            (void)ze->zeCommandListDestroy(d->moves[i].list.handle);
        if (d->moves[i].fence != NULL)
            (void)ze->zeFenceDestroy(d->moves[i].fence);
    }
}
