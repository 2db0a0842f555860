#include "engine/run/ngram_rows.h"

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/run/step_writer.h"
#include "formats/block.h"

#include <stdio.h>
#include <string.h>

static const struct shape_ngram *ngram_of(const struct stator *s) {
    return &s->planning.shape->ngram;
}

void ngram_rows_lay_out(struct stator *s, const struct planning_want *want, struct carve *c) {
    struct engine_ngram_rows *r = &s->run.ngram_rows;
    const struct gguf_tensor *table = s->planning.shape->ngram_table;
    if (ngram_of(s)->heads == 0)
        return;
    const uint64_t rows = (uint64_t)want->batch * ngram_of(s)->heads;
    const bool ok = block_row_bytes(table->type, table->ne[0], &r->row_bytes);
    CHECK(ok && s->run.max_steps > 0 && table->bytes == table->ne[1] * r->row_bytes);
    r->blocks = carve_take(c, arith_must_mul(s->run.max_steps, rows), r->row_bytes);
    r->wanted = carve_take(c, rows, sizeof *r->wanted);
    r->cached = carve_take(c, NGRAM_ROWS_CACHED, sizeof *r->cached);
}

void ngram_rows_of(const struct shape_ngram *n, const int32_t *recent, uint64_t *out) {
    uint64_t mixed = (uint64_t)recent[0] * n->multipliers[0];
    bool cut = false;
    CHECK(recent[0] >= 0 && n->size >= 2 && n->heads == (n->size - 1) * n->heads_each);
    for (uint32_t i = 1; i < n->size; i++) {
        cut = cut || recent[i] == NGRAM_ROWS_NONE || (uint32_t)recent[i] == n->eos;
        mixed ^= (uint64_t)(cut ? (int32_t)n->eos : recent[i]) * n->multipliers[i];
        for (uint32_t h = (i - 1) * n->heads_each; h < i * n->heads_each; h++)
            out[h] = mixed % n->sizes[h] + n->offsets[h];
    }
}

/* The tokens that go into the step: q's text, and behind it its draft tokens. */
static int32_t token_at(const struct engine_sequence *q, uint32_t end, int64_t at) {
    return at < 0 ? NGRAM_ROWS_NONE : at < end ? q->request->tokens[at] : q->speculation.tokens[at - end];
}

static uint8_t *blocks_of(const struct stator *s, const struct engine_step *step, uint32_t token) {
    const struct engine_ngram_rows *r = &s->run.ngram_rows;
    const uint64_t batch = s->planning.want.batch, each = ngram_of(s)->heads * r->row_bytes;
    CHECK(token < batch);
    return r->blocks + (step->number % s->run.max_steps * batch + token) * each;
}

/* The row was read: the one that was read so many before it goes. */
static void note_read(struct stator *s, uint64_t row) {
    struct engine_ngram_rows *r = &s->run.ngram_rows;
    uint64_t *place = &r->cached[r->n_cached % NGRAM_ROWS_CACHED];
    if (r->n_cached >= NGRAM_ROWS_CACHED)
        gguf_uncache_pages(s->planning.gguf, s->planning.shape->ngram_table, *place * r->row_bytes,
                           r->row_bytes);
    *place = row;
    r->n_cached++;
}

static stator_status read_wanted(struct stator *s, uint8_t *to, uint32_t n, stator_error *e) {
    struct engine_ngram_rows *r = &s->run.ngram_rows;
    const struct gguf_tensor *table = s->planning.shape->ngram_table;
    stator_status st = STATOR_OK;
    for (uint32_t i = 0; i < n; i++)
        gguf_prefetch(s->planning.gguf, table, r->wanted[i] * r->row_bytes, r->row_bytes);
    for (uint32_t i = 0; i < n && st == STATOR_OK; i++) {
        st = gguf_load(s->planning.gguf, table, r->wanted[i] * r->row_bytes, r->row_bytes,
                       to + i * r->row_bytes, e);
        note_read(s, r->wanted[i]);
    }
    return st;
}

bool ngram_rows_read(struct stator *s, const struct engine_step *step, struct engine_sequence *q,
                     uint32_t first, uint32_t n, uint32_t guesses) {
    const struct shape_ngram *g = ngram_of(s);
    struct engine_ngram_rows *r = &s->run.ngram_rows;
    if (g->heads == 0)
        return true;
    const uint32_t end = q->done + n, all = n + guesses;
    const uint64_t began = clock_ns();
    CHECK(end <= q->request->n_tokens && (guesses == 0 || end == q->request->n_tokens));
    for (uint32_t i = 0; i < all; i++) {
        int32_t recent[SHAPE_MAX_NGRAM];
        for (uint32_t k = 0; k < g->size; k++)
            recent[k] = token_at(q, end, (int64_t)q->done + i - k);
        ngram_rows_of(g, recent, r->wanted + (size_t)i * g->heads);
    }
    stator_error e;
    const stator_status st = read_wanted(s, blocks_of(s, step, first), all * g->heads, &e);
    atomic_fetch_add(&r->rows, (uint64_t)all * g->heads);
    atomic_fetch_add(&r->ns, clock_ns() - began);
    if (st == STATOR_OK)
        return true;
    q->failed = true;
    snprintf(q->failure, sizeof q->failure,
             "the model's file %s, which rows of n-grams are read from: put it back as it was and restart",
             st == STATOR_BAD_MODEL ? "has become shorter" : "can't be read");
    return false;
}

void ngram_rows_give(const struct stator *s, const struct engine_step *step, uint32_t device) {
    const struct shape_ngram *g = ngram_of(s);
    const struct graph *graph = &s->planning.devices[device].graph;
    if (g->heads == 0 || graph->ngrams == GRAPH_NONE)
        return;
    const uint64_t half = step->number % s->planning.devices[device].model.slots;
    float *to = step_writer_value(s, device, graph->ngrams, half);
    const struct gguf_tensor *table = s->planning.shape->ngram_table;
    const uint8_t *from = blocks_of(s, step, 0);
    CHECK(graph->values[graph->ngrams].width == g->heads * g->dim);
    for (uint64_t i = 0; i < (uint64_t)step->n_tokens * g->heads; i++)
        block_decode_row(table->type, from + i * s->run.ngram_rows.row_bytes, to + i * g->dim, g->dim);
}
