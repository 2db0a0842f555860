#include "app/perplexity/perplexity_run.h"

#include "app/session.h"

#include "base/arith.h"
#include "base/error.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A window that is in flight. */
struct lane {
    uint64_t id; /* 0: free */
    uint32_t window;
};

/* What a run works with: lanes, and rows of the vocabulary. */
struct work {
    struct lane *lanes;
    uint32_t running;
    uint32_t next; /* window to submit */
    int32_t *ids;  /* of one window */
    float *log_p, *base;
};

static stator_status submit(struct perplexity_run *r, struct work *w, stator_error *e) {
    struct lane *lane = w->lanes;
    while (lane->id != 0)
        lane++;
    memcpy(w->ids, r->ids + (uint64_t)w->next * r->window, r->window * sizeof *w->ids);
    if (r->bos != PERPLEXITY_NO_BOS)
        w->ids[0] = r->bos;
    stator_request q = {.size = sizeof q, .kind = STATOR_LOGITS, .tokens = w->ids, .n_tokens = r->window};
    stator_status st = stator_submit(r->engine, &q, &lane->id, e);
    if (st != STATOR_OK)
        return st;
    lane->window = w->next++;
    w->running++;
    if (session_signal())
        stator_cancel(r->engine, 0); /* it came before there was a request to cancel */
    return STATOR_OK;
}

static stator_status score(struct perplexity_run *r, struct work *w, const struct lane *lane,
                           const stator_event *ev, stator_error *e) {
    if (ev->position < r->first || ev->position + 1 >= r->window)
        return STATOR_OK;
    const uint64_t row = (uint64_t)lane->window * perplexity_rows(r) + (ev->position - r->first);
    const int32_t token = r->ids[(uint64_t)lane->window * r->window + ev->position + 1];
    stator_status st = STATOR_OK;
    if (!perplexity_log_softmax(ev->logits, r->vocab, w->log_p))
        return error_set(e, STATOR_FAILED,
                         "a logit of window %" PRIu32 ", position %" PRIu32 " is not finite",
                         lane->window + 1, ev->position);
    if (r->save != NULL)
        st = saved_logits_write(r->save, row, w->log_p, e);
    if (st == STATOR_OK && r->base != NULL)
        st = saved_logits_read(r->base, row, w->base, e);
    if (st != STATOR_OK)
        return st;
    const double kl = perplexity_score(&r->windows[lane->window], w->log_p, r->base != NULL ? w->base : NULL,
                                       r->vocab, token);
    if (r->base != NULL)
        r->kl[row] = (float)kl;
    return STATOR_OK;
}

static stator_status end_window(struct perplexity_run *r, struct work *w, struct lane *lane,
                                const stator_event *ev, stator_error *e) {
    lane->id = 0;
    w->running--;
    if (ev->reason == STATOR_REASON_FAILED)
        return error_set(e, ev->status, "%s", ev->text);
    if (ev->reason == STATOR_REASON_CANCELLED) {
        r->stopped = true;
        return STATOR_OK;
    }
    struct perplexity_window *done = &r->windows[lane->window];
    CHECK(done->scored == perplexity_rows(r));
    done->done = true;
    r->n_done++;
    if (r->progress != NULL)
        r->progress(r);
    return STATOR_OK;
}

static stator_status work_off(struct perplexity_run *r, struct work *w, stator_error *e) {
    stator_status st = STATOR_OK;
    for (;;) {
        r->stopped = r->stopped || session_signal() != 0;
        while (st == STATOR_OK && !r->stopped && w->running < r->sequences && w->next < r->n_windows)
            st = submit(r, w, e);
        if (st != STATOR_OK || w->running == 0)
            return st;
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        st = stator_poll(r->engine, UINT64_MAX, &ev, &have, e);
        struct lane *lane = w->lanes;
        while (lane < w->lanes + r->sequences && (!have || lane->id != ev.request))
            lane++;
        if (st != STATOR_OK || lane == w->lanes + r->sequences)
            continue;
        if (ev.kind == STATOR_EVENT_LOGITS)
            st = score(r, w, lane, &ev, e);
        else if (ev.kind == STATOR_EVENT_DONE)
            st = end_window(r, w, lane, &ev, e);
    }
}

stator_status perplexity_run_windows(struct perplexity_run *r, stator_error *e) {
    struct work w = {.lanes = calloc(r->sequences, sizeof *w.lanes),
                     .ids = malloc(r->window * sizeof *w.ids),
                     .log_p = malloc(r->vocab * sizeof *w.log_p),
                     .base = malloc(r->vocab * sizeof *w.base)};
    stator_status st = w.lanes != NULL && w.ids != NULL && w.log_p != NULL && w.base != NULL
                           ? work_off(r, &w, e)
                           : error_set(e, STATOR_DOES_NOT_FIT, "no memory for rows of logits");
    free(w.lanes);
    free(w.ids);
    free(w.log_p);
    free(w.base);
    return st;
}
