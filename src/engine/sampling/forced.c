#include "engine/sampling/forced.h"

#include "base/check.h"

#include <string.h>

void forced_set(struct forced *f, const stator_budget *b) {
    *f = (struct forced){.tokens = f->tokens};
    if (b == NULL)
        return;
    CHECK(b->n_queue > 0 && b->n_open + b->n_close + b->n_queue <= STATOR_FORCED);
    f->n_open = (uint32_t)b->n_open;
    f->n_close = (uint32_t)b->n_close;
    f->n_queue = (uint32_t)b->n_queue;
    f->budget = b->tokens;
    f->begun = b->begun != 0;
    if (b->n_open > 0)
        memcpy(f->tokens, b->open, b->n_open * sizeof *f->tokens);
    if (b->n_close > 0)
        memcpy(f->tokens + b->n_open, b->close, b->n_close * sizeof *f->tokens);
    memcpy(f->tokens + b->n_open + b->n_close, b->queue, b->n_queue * sizeof *f->tokens);
}

void forced_begin(struct forced *f) {
    f->inside = f->begun;
    f->used = 0;
    f->at = f->n_queue;
}

int32_t forced_next(struct forced *f) {
    CHECK(f->at <= f->n_queue);
    if (f->n_queue > 0 && f->at == f->n_queue && f->inside && f->used >= f->budget)
        f->at = 0;
    return f->at < f->n_queue ? f->tokens[f->n_open + f->n_close + f->at] : -1;
}

/* Whether the answer ends with these tokens; with none it never does. */
static bool ends_with(const int32_t *answer, uint32_t n, const int32_t *tokens, uint32_t n_tokens) {
    return n_tokens > 0 && n >= n_tokens &&
           memcmp(answer + (n - n_tokens), tokens, n_tokens * sizeof *tokens) == 0;
}

void forced_took(struct forced *f, const int32_t *answer, uint32_t n) {
    CHECK(n > 0 && f->at <= f->n_queue);
    if (f->n_queue == 0)
        return;
    if (f->at < f->n_queue) {
        CHECK(answer[n - 1] == f->tokens[f->n_open + f->n_close + f->at]);
        f->at++;
        f->inside = f->at < f->n_queue;
        return;
    }
    if (f->inside) {
        f->used++;
        f->inside = !ends_with(answer, n, f->tokens + f->n_open, f->n_close);
    } else {
        f->inside = ends_with(answer, n, f->tokens, f->n_open);
    }
}
