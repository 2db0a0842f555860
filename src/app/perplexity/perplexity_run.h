/* The windows of a text through an engine, several at a time, and what is scored of them. */
#ifndef STATOR_APP_PERPLEXITY_RUN_H
#define STATOR_APP_PERPLEXITY_RUN_H

#include "app/perplexity/perplexity_stats.h"
#include "app/perplexity/perplexity_text.h"
#include "app/perplexity/saved_logits.h"

struct perplexity_run {
    stator *engine;
    const int32_t *ids; /* of the text */
    uint32_t window;    /* tokens of one */
    uint32_t first;     /* position of the first row that is scored: it predicts the token after it */
    uint32_t n_windows;
    uint32_t vocab;
    uint32_t sequences;        /* windows at a time */
    int32_t bos;               /* replaces the first token of every window, or PERPLEXITY_NO_BOS */
    struct saved_logits *save; /* NULL: no */
    struct saved_logits *base; /* NULL: no */
    struct perplexity_window *windows;
    float *kl;                                        /* [n_windows][window - 1 - first], with a base */
    void (*progress)(const struct perplexity_run *r); /* after every window */
    uint64_t began_ns;
    uint32_t n_done;
    bool stopped; /* by a signal: the windows that are done count */
};

/* Rows that are scored of a window. */
static inline uint32_t perplexity_rows(const struct perplexity_run *r) {
    return r->window - 1 - r->first;
}

stator_status perplexity_run_windows(struct perplexity_run *r, stator_error *e);

#endif
