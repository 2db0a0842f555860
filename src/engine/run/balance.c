#include "engine/run/balance.h"

#include "engine/cache/checkpoints.h"
#include "engine/run/pipeline.h"
#include "engine/cache/sequences.h"

/* How many of the waiting slots are this one. */
static uint32_t times_waiting(const struct stator *s, uint32_t slot) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->run.n_waiting; i++)
        n += s->run.waiting[i] == slot;
    return n;
}

static uint32_t times_running(const struct stator *s, const struct engine_request *r) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->planning.want.sequences; i++)
        n += s->run.sequences[i].request == r;
    return n;
}

/* The places for rows of logits that the request has; another request with the same ones is a fault. */
static bool owns_its_rows(const struct stator *s, const struct engine_request *r) {
    if (r->rows == NULL)
        return true;
    for (uint32_t i = 0; i < s->planning.want.sequences; i++) {
        const struct engine_request *other = s->run.sequences[i].request;
        if (other != NULL && other != r && other->rows == r->rows)
            return false;
    }
    return r->kind != STATOR_GENERATE && atomic_load(&r->rows->taken);
}

/* A request with a sequence, or one that waits for it. Those that have ended belong to the thread that polls.
 */
static void check_request(const struct stator *s, const struct engine_request *r, uint32_t waits,
                          uint32_t runs) {
    CHECK(waits + runs == 1);
    CHECK(atomic_load(&r->id) != 0 && !atomic_load(&r->out.ended));
    CHECK(r->n_tokens >= r->n_prompt && r->n_prompt <= s->planning.want.context);
    CHECK(r->n_tokens - r->n_prompt <= r->max_new);
    CHECK(outbox_waiting(&r->out) <= OUTBOX_EVENTS);
    CHECK(owns_its_rows(s, r));
}

void balance_check(const struct stator *s) {
    CHECK(sequences_are_balanced(s));
    CHECK(checkpoints_are_whole(s));
    CHECK(pipeline_is_balanced(s));
    CHECK(s->run.n_waiting <= s->front.n_requests);
    for (uint32_t i = 0; i < s->front.n_requests; i++) {
        const struct engine_request *r = &s->front.requests[i];
        const uint32_t waits = times_waiting(s, i), runs = times_running(s, r);
        if (waits + runs > 0)
            check_request(s, r, waits, runs);
    }
}
