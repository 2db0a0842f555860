#include "engine/draft/nextn.h"

#include "base/clock.h"
#include "engine/cache/sequences.h"
#include "engine/run/step_fill.h"
#include "engine/run/step_writer.h"
#include "engine/run/trace.h"
#include "kernels/shared/step.h"

#include <string.h>

#define LOOK_NS 1000000 /* between looks at a device's deadline */

/* A pass in flight: on the last device, or on all of the last group. */
struct pass {
    struct device *device; /* the last one, which has the results */
    uint32_t first, last;  /* devices */
    uint32_t slot;
    uint8_t *at; /* its descriptor */
    struct step_header *h;
};

static stator_status submit(const struct stator *s, const struct pass *p, stator_error *e) {
    stator_status st = STATOR_OK;
    for (uint32_t i = p->first; i <= p->last && st == STATOR_OK; i++) {
        struct device *d = s->devices[i].device;
        if (i < p->last)
            step_writer_copy(d->vtable->step_slot(d, p->slot), p->at);
        st = d->vtable->submit(d, p->slot, e);
    }
    return st;
}

/* All devices, since one may wait for another one that is lost. */
static stator_status wait_for(const struct stator *s, const struct pass *p, bool *ended, stator_error *e) {
    stator_status st = STATOR_OK;
    *ended = true;
    for (uint32_t i = p->first; i <= p->last && st == STATOR_OK; i++) {
        struct device *d = s->devices[i].device;
        bool one = false;
        st = d->vtable->wait(d, p->slot, *ended ? LOOK_NS : 0, &one, e);
        *ended = *ended && one;
    }
    return st;
}

static stator_status run(const struct stator *s, const struct pass *p, stator_error *e) {
    bool ended = false;
    const uint64_t begin = clock_ns();
    stator_status st = submit(s, p, e);
    while (st == STATOR_OK && !ended) {
        st = wait_for(s, p, &ended, e);
        if (st == STATOR_OK && !ended && clock_ns() - begin > s->run.deadline_ns)
            return error_set(
                e, STATOR_DEVICE,
                "%s: wait: the MTP head has not drafted for %u sequences after %.1f s: the device or its "
                "driver hangs",
                s->planning.devices[p->last].facts.name, p->h->n_tokens, (double)s->run.deadline_ns * 1e-9);
    }
    return st;
}

static void begin_pass(struct pass *p) {
    p->h->run_body = STEP_GUESS;
    p->h->n_tokens = p->h->n_chunks = p->h->n_rows = p->h->want_logits = 0;
    for (uint32_t i = 0; i < p->h->n_caches; i++)
        p->h->cache[i].n_fill = 0;
}

/* Draft token k of q, if it finds a block. Blocks that are new to it stay so to its next step, which clears
 * them before it writes all that this one does. */
static void add_token(struct stator *s, const struct pass *p, struct engine_sequence *q, uint32_t k) {
    const struct engine_request *r = q->request;
    const struct speculation *g = &q->speculation;
    const uint32_t n = p->h->n_tokens, position = r->n_tokens - 1 + k;
    const uint32_t sequence = (uint32_t)(q - s->run.sequences);
    CHECK(n < s->planning.want.batch && (k == 0 || k <= g->n_ahead));
    if (!sequences_take_idle(s, q, position + 1))
        return;
    q->reached = ARITH_MAX(q->reached, position + 1);
    ((struct step_chunk *)(p->at + p->h->at_chunks))[n] = (struct step_chunk){
        .slot = sequence, .first = n, .n = 1, .position = position, .hidden = k == 0 ? 1 + g->kept : 1};
    ((int32_t *)(p->at + p->h->at_tokens))[n] = k == 0 ? r->tokens[r->n_tokens - 1] : g->ahead[k - 1];
    ((uint32_t *)(p->at + p->h->at_rows))[n] = n;
    step_writer_rope(s, p->h, p->at, n, pictures_locate(s, r, position));
    for (uint32_t i = 0; i < p->h->n_caches; i++) {
        const struct step_cache *c = &p->h->cache[i];
        const bool paged = s->planning.devices[0].graph.caches[i].kind == GRAPH_PAGED;
        memcpy((uint32_t *)(p->at + c->at_tables) + (size_t)sequence * c->table_stride,
               paged ? q->blocks : q->caches[i].table,
               (paged ? q->n_blocks : q->caches[i].n_blocks) * sizeof(uint32_t));
    }
    p->h->n_tokens = p->h->n_chunks = p->h->n_rows = n + 1;
}

/* The i-th of the sequences that a step had rows of; NULL: its rows are those of one before, or it has ended,
 * or does not draft. Nobody knows the hidden state of tokens that came without a row. */
static struct engine_sequence *guessing(const struct stator *s, const struct engine_step *step, uint32_t i) {
    struct engine_sequence *q = step->of_row[i];
    if (i > 0 && step->of_row[i - 1] == q)
        return NULL;
    const bool goes_on = q->flights == 0 && q->speculation.unseen == 0 &&
                         step_fill_runs(q, STATOR_GENERATE) && q->request->n_tokens > q->done;
    return goes_on && speculation_most(s, q) > 0 ? q : NULL;
}

stator_status nextn_follow(struct stator *s, struct engine_step *step, stator_error *e) {
    const struct planning_device *last = &s->planning.devices[step->at];
    struct pass p = {.device = s->devices[step->at].device,
                     .first = planning_stage_first(&s->planning, step->at),
                     .last = step->at,
                     .slot = (uint32_t)(step->number % last->model.slots)};
    CHECK(step->at + 1 == s->planning.n_devices);
    p.at = p.device->vtable->step_slot(p.device, p.slot);
    p.h = (struct step_header *)p.at;
    const uint32_t share = step_fill_share(s);
    stator_status st = STATOR_OK;
    for (uint32_t k = 0; k < share && st == STATOR_OK; k++) {
        begin_pass(&p);
        for (uint32_t i = 0; i < step->n_rows && p.h->n_tokens < s->planning.want.batch; i++) {
            struct engine_sequence *q = guessing(s, step, i);
            if (q == NULL || k >= speculation_most(s, q))
                continue;
            if (k == 0) {
                q->speculation.n_ahead = 0;
                q->speculation.ahead_of = q->request->n_tokens;
            }
            if (q->speculation.n_ahead == k)
                add_token(s, &p, q, k);
        }
        if (p.h->n_tokens == 0)
            break;
        st = run(s, &p, e);
        const struct step_pick *picks = st == STATOR_OK ? p.device->vtable->picks(p.device, p.slot) : NULL;
        const struct step_chunk *chunks = (const struct step_chunk *)(p.at + p.h->at_chunks);
        if (st == STATOR_OK)
            trace_guess(s, step, k + 1, p.h, picks);
        for (uint32_t i = 0; st == STATOR_OK && i < p.h->n_chunks; i++) {
            struct speculation *g = &s->run.sequences[chunks[i].slot].speculation;
            CHECK(g->n_ahead < CONFIG_MOST_GUESSES);
            if (picks[i].finite)
                g->ahead[g->n_ahead++] = picks[i].token;
        }
    }
    return st;
}
