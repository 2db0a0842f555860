#include "engine/run/sequences.h"

#include "base/clock.h"

static uint32_t need_of(const struct stator *s, uint32_t cache, uint32_t tokens) {
    const struct device_model *m = &s->planning.devices[0].model;
    return graph_cache_need(&m->graph->caches[cache], m->caches[cache].per_sequence, tokens);
}

static bool has_room(const struct stator *s, uint32_t tokens) {
    bool fit = true;
    for (uint32_t i = 0; i < s->planning.devices[0].graph.n_caches; i++)
        fit = fit && need_of(s, i, tokens) <= s->caches[i].n_free;
    return fit;
}

/* Of all caches. */
static uint32_t free_blocks(const struct stator *s) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->planning.devices[0].graph.n_caches; i++)
        n += s->caches[i].n_free;
    return n;
}

static uint32_t held_blocks(const struct stator *s, const struct engine_sequence *q) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->planning.devices[0].graph.n_caches; i++)
        n += q->caches[i].n_blocks;
    return n;
}

/* For DCHECK: the invariant of the header, by counting; that no block is there twice is not looked at. */
__attribute__((unused)) static bool blocks_are_whole(const struct stator *s) {
    for (uint32_t i = 0; i < s->planning.devices[0].graph.n_caches; i++) {
        uint32_t n_blocks = s->planning.devices[0].model.caches[i].n_blocks;
        uint32_t n = s->caches[i].n_free;
        for (uint32_t k = 0; k < s->caches[i].n_free; k++)
            if (s->caches[i].free[k] >= n_blocks)
                return false;
        for (uint32_t k = 0; k < s->planning.want.sequences; k++)
            n += s->sequences[k].request != NULL ? s->sequences[k].caches[i].n_blocks : 0;
        if (n != n_blocks)
            return false;
    }
    return true;
}

bool sequences_admit(struct stator *s, uint32_t slot) {
    struct engine_request *r = &s->requests[slot];
    uint32_t tokens = ARITH_MIN(r->n_prompt + r->max_new, s->planning.want.context);
    struct engine_sequence *q = NULL;
    for (uint32_t i = 0; i < s->planning.want.sequences && q == NULL; i++)
        if (s->sequences[i].request == NULL)
            q = &s->sequences[i];
    if (q == NULL || !has_room(s, tokens))
        return false;
    for (uint32_t i = 0; i < s->planning.devices[0].graph.n_caches; i++) {
        const struct device_cache *d = &s->planning.devices[0].model.caches[i];
        struct engine_cache *c = &s->caches[i];
        uint32_t need = need_of(s, i, tokens);
        CHECK(need <= d->per_sequence);
        for (uint32_t k = 0; k < need; k++)
            q->caches[i].table[k] = c->free[--c->n_free];
        q->caches[i].n_blocks = need;
        c->peak = ARITH_MAX(c->peak, d->n_blocks - c->n_free);
    }
    q->request = r;
    DCHECK(blocks_are_whole(s));
    q->capacity = tokens;
    q->done = 0;
    q->fresh = true;
    q->round = 0;
    q->failed = false;
    CHECK(q->flights == 0);
    q->began_ns = q->prompt_done_ns = 0;
    uint64_t now = clock_ns();
    uint32_t before = atomic_load(&s->shown.free_blocks);
    uint32_t left = free_blocks(s);
    uint32_t held = held_blocks(s, q);
    CHECK(before == left + held);
    atomic_store(&r->shown.admitted_ns, now);
    atomic_store(&r->shown.blocks, held);
    atomic_fetch_add(&s->shown.queue_ns, now - r->submitted_ns);
    atomic_store(&s->shown.free_blocks, left);
    atomic_store(&s->shown.peak_blocks,
                 ARITH_MAX(atomic_load(&s->shown.peak_blocks), s->shown.blocks - left));
    return true;
}

bool sequences_take_rows(struct stator *s, uint32_t slot) {
    struct engine_request *r = &s->requests[slot];
    for (uint32_t i = 0; i < s->n_rows && r->rows == NULL; i++) {
        if (atomic_load(&s->rows[i].taken))
            continue;
        atomic_store(&s->rows[i].taken, true);
        r->rows = &s->rows[i];
    }
    return r->rows != NULL;
}

void sequences_release(struct stator *s, struct engine_sequence *q) {
    CHECK(q->request != NULL && q->flights == 0);
    DCHECK(blocks_are_whole(s));
    for (uint32_t i = 0; i < s->planning.devices[0].graph.n_caches; i++) {
        struct engine_cache *c = &s->caches[i];
        for (uint32_t k = q->caches[i].n_blocks; k-- > 0;)
            c->free[c->n_free++] = q->caches[i].table[k];
        CHECK(c->n_free <= s->planning.devices[0].model.caches[i].n_blocks);
        q->caches[i].n_blocks = 0;
    }
    atomic_store(&q->request->shown.blocks, 0);
    atomic_store(&s->shown.free_blocks, free_blocks(s));
    q->request = NULL;
    q->capacity = 0;
}

bool sequences_can_rewind(const struct stator *s, const struct engine_sequence *q, uint32_t to) {
    CHECK(q->request != NULL && to <= q->done);
    const struct device_model *m = &s->planning.devices[0].model;
    bool can = true;
    for (uint32_t i = 0; i < m->graph->n_caches; i++)
        can = can && graph_cache_rewinds(&m->graph->caches[i], m->caches[i].per_sequence, q->done, to);
    return can;
}

void sequences_rewind(struct stator *s, struct engine_sequence *q, uint32_t to) {
    CHECK(q->flights == 0);
    bool can = sequences_can_rewind(s, q, to);
    q->done = can ? to : 0;
    q->fresh = q->fresh || !can;
}
