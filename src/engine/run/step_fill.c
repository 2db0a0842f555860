/* What goes into a step: one token of generating sequences and as much of the prompts as the batch holds,
 * and draft tokens where they leave room; or a chunk of a logits request.
 *
 * With several devices, steps are made smaller, so that there is one for each device to work on: the
 * generating sequences go in as many groups as there are devices, never more, since a step costs about the
 * same whatever their number; and a prompt in chunks of a part of it. The numbers do not depend on it. */
#include "engine/run/step_fill.h"

#include "engine/cache/checkpoints.h"
#include "engine/cache/kv_disk.h"
#include "engine/run/pooling.h"
#include "engine/cache/sequences.h"
#include "engine/run/step_writer.h"

#include "base/clock.h"
#include "kernels/kernels.h"

#include <string.h>

#define LEAST_CHUNK 64 /* tokens: below it a step costs about the same */

struct filling {
    struct step_header *h;
    uint8_t *slot;
    struct engine_step *step;
};

bool step_fill_runs(const struct engine_sequence *q, stator_request_kind kind) {
    return q->request != NULL && (q->request->kind == STATOR_LOGITS) == (kind == STATOR_LOGITS) &&
           q->request->slots.action == ACTION_NOT && !q->failed && !kv_disk_waits(q) &&
           !step_fill_cancelled(q->request);
}

uint32_t step_fill_reader_room(const struct engine_sequence *q) {
    const struct engine_request *r = q->request;
    const uint32_t unread = r->rows_told - atomic_load(&r->rows_read);
    CHECK(unread <= ENGINE_READER_ROWS);
    return ENGINE_READER_ROWS - unread;
}

bool step_fill_others(const struct stator *s, const struct engine_sequence *q) {
    for (uint32_t i = 0; i < s->planning.want.sequences; i++) {
        const struct engine_sequence *other = &s->run.sequences[i];
        if (other == q)
            continue;
        if (step_fill_runs(other, STATOR_GENERATE) && outbox_has_room(&other->request->out))
            return true;
        if (step_fill_runs(other, STATOR_LOGITS) && step_fill_reader_room(other) > 0)
            return true;
    }
    return false;
}

/* Where q's blocks are, and those that are new to it as to be cleared. */
static void add_tables(struct stator *s, struct filling *f, struct engine_sequence *q) {
    checkpoints_fill(s, f->h, f->step->number, q);
    size_t sequence = (size_t)(q - s->run.sequences);
    for (uint32_t i = 0; i < f->h->n_caches; i++) {
        struct step_cache *c = &f->h->cache[i];
        bool paged = s->planning.devices[0].graph.caches[i].kind == GRAPH_PAGED;
        const uint32_t *table = paged ? q->blocks : q->caches[i].table;
        uint32_t n = paged ? q->n_blocks : q->caches[i].n_blocks;
        uint32_t known = paged ? q->n_cleared : q->fresh ? 0 : n;
        CHECK(n <= c->table_stride && known <= n);
        memcpy((uint32_t *)(f->slot + c->at_tables) + sequence * c->table_stride, table, n * sizeof *table);
        for (uint32_t k = known; k < n; k++)
            step_writer_fill(f->h, f->slot, i, table[k], STEP_ZEROS);
    }
    q->n_cleared = q->n_blocks;
    q->fresh = false;
}

/* The next n tokens of q into the step, and the rows of the last `rows` of them, and of q's draft tokens. */
static void add_chunk(struct stator *s, struct filling *f, struct engine_sequence *q, uint32_t n,
                      uint32_t rows) {
    const uint32_t guesses = rows > 0 ? q->speculation.n : 0;
    const uint32_t all = n + guesses;
    uint32_t sequence = (uint32_t)(q - s->run.sequences);
    struct engine_request *r = q->request;
    struct step_header *h = f->h;
    CHECK(h->n_tokens + all <= s->planning.want.batch && q->done + n <= r->n_tokens);
    CHECK(q->done + all <= q->capacity && (guesses == 0 || q->done + n == r->n_tokens));
    if (q->began_ns == 0 || q->done == r->n_depth)
        q->began_ns = clock_ns();
    atomic_store(&r->shown.began_ns, q->began_ns);
    if (q->done < r->n_prompt)
        atomic_fetch_add(&s->shown.tokens_in, ARITH_MIN(n, r->n_prompt - q->done));
    CHECK(h->n_chunks < s->planning.want.sequences && h->n_chunks == f->step->n_chunks);
    uint32_t first = h->n_tokens;
    struct step_chunk *chunks = (struct step_chunk *)(f->slot + h->at_chunks);
    chunks[h->n_chunks++] = (struct step_chunk){
        .slot = sequence, .first = first, .n = all, .position = q->done, .tested = guesses};
    f->step->carried[f->step->n_chunks++] = q;
    memcpy(f->slot + h->at_tokens + first * sizeof(int32_t), r->tokens + q->done, n * sizeof(int32_t));
    memcpy(f->slot + h->at_tokens + (first + n) * sizeof(int32_t), q->speculation.tokens,
           guesses * sizeof(int32_t));
    if (r->n_pictures > 0)
        pictures_fill(s, r, f->step->number, h, first, q->done, n);
    for (uint32_t i = 0; i < all; i++)
        step_writer_rope(s, h, f->slot, first + i, pictures_locate(s, r, q->done + i));
    sequences_take_blocks(s, q, q->done + all);
    add_tables(s, f, q);
    h->n_tokens += all;
    if (rows > 0) {
        CHECK(rows <= n && h->n_rows + rows + guesses <= s->planning.want.logits_rows);
        for (uint32_t i = n - rows; i < all; i++) {
            f->step->of_row[h->n_rows] = q;
            ((uint32_t *)(f->slot + h->at_rows))[h->n_rows++] = first + i;
        }
        h->want_logits |= r->kind == STATOR_EMBED || r->logprobs || r->constraint.grammar != NULL ||
                          !sampler_is_plain(&r->sampling);
    }
    q->done += n;
    q->reached = ARITH_MAX(q->reached, q->done + guesses);
    atomic_store(&r->shown.done, q->done);
    sequences_keep(s, q);
}

/* Reads what the next n tokens of q need of files. False: q has failed. */
static bool read_rows(struct stator *s, struct filling *f, struct engine_sequence *q, uint32_t n,
                      uint32_t guesses) {
    const bool read = ngram_rows_read(s, f->step, q, f->h->n_tokens, n, guesses);
    f->step->failed = f->step->failed || !read;
    return read;
}

/* The most of a prompt of n tokens that goes into one step. */
static uint32_t largest_chunk(const struct stator *s, uint32_t n) {
    if (planning_stages(&s->planning) == 1 || pooling_is_whole(s))
        return s->planning.want.batch;
    uint32_t part = (uint32_t)arith_ceil_div(n, 2 * planning_stages(&s->planning));
    return ARITH_MIN(ARITH_MAX(part, (uint32_t)LEAST_CHUNK), s->planning.want.batch);
}

/* The most generating sequences that go into one step. */
static uint32_t largest_group(const struct stator *s) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->planning.want.sequences; i++)
        n += step_fill_runs(&s->run.sequences[i], STATOR_GENERATE) &&
             s->run.sequences[i].done >= s->run.sequences[i].request->n_prompt;
    return planning_stages(&s->planning) == 1 ? n
                                              : (uint32_t)arith_ceil_div(n, planning_stages(&s->planning));
}

/* Whether every device has a group already: who wants a row joins one of them as soon as that has ended. */
static bool groups_are_under_way(const struct stator *s) {
    uint32_t n = 0;
    for (uint64_t i = s->run.first_step; i < s->run.next_step; i++) {
        const struct engine_step *step = &s->run.steps[i % s->run.max_steps];
        n += step->reader == NULL && step->n_rows > 0;
    }
    return n >= planning_stages(&s->planning);
}

uint32_t step_fill_spare(const struct stator *s, uint32_t *n_guessing) {
    uint64_t tokens = 0;
    uint64_t rows = 0;
    *n_guessing = 0;
    if (s->planning.want.guesses == 0)
        return 0;
    for (uint32_t i = 0; i < s->planning.want.sequences; i++) {
        const struct engine_sequence *q = &s->run.sequences[i];
        if (!step_fill_runs(q, STATOR_GENERATE) || q->done == q->request->n_tokens)
            continue;
        tokens += q->request->n_tokens - q->done;
        rows++;
        *n_guessing += q->done >= q->request->n_prompt;
    }
    const uint64_t batch = s->planning.want.batch;
    const uint64_t most = s->planning.want.logits_rows;
    return (uint32_t)ARITH_MIN(batch - ARITH_MIN(batch, tokens), most - ARITH_MIN(most, rows));
}

uint32_t step_fill_share(const struct stator *s) {
    uint32_t n_guessing = 0;
    const uint32_t spare = step_fill_spare(s, &n_guessing);
    return n_guessing > 0 ? spare / n_guessing : 0;
}

/* Generating sequences first, one token each, then prompts. Starting at another sequence each time gives all
 * a turn when the batch or the logits rows do not hold everybody. */
static void fill_generation(struct stator *s, struct filling *f) {
    uint32_t group = largest_group(s);
    bool grouped = groups_are_under_way(s);
    uint32_t n_guessing = 0;
    uint32_t spare = step_fill_spare(s, &n_guessing);
    bool alone = true;
    f->step->drafts = speculation_may_draft(s, n_guessing);
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t k = 0; k < s->planning.want.sequences; k++) {
            struct engine_sequence *q =
                &s->run.sequences[(s->run.next_sequence + k) % s->planning.want.sequences];
            if (!step_fill_runs(q, STATOR_GENERATE))
                continue;
            const struct engine_request *r = q->request;
            bool generating = q->done >= r->n_prompt;
            if (generating != (pass == 0))
                continue;
            if (q->done == r->n_depth && q->flights > 0)
                continue; /* what is timed begins when the depth is there */
            sequences_reuse(s, q);
            uint32_t left = r->n_tokens - q->done;
            if (left == 0)
                continue; /* its next token is not known yet */
            if (checkpoints_wait(s, q))
                continue;
            uint32_t n = ARITH_MIN(left, s->planning.want.batch - f->h->n_tokens);
            n = ARITH_MIN(n, checkpoints_room(q));
            if (q->done < r->n_depth)
                n = ARITH_MIN(n, r->n_depth - q->done);
            /* Known tokens beside the last one: accepted draft tokens that are computed again. */
            n = generating ? (group > 0 ? n : 0) : ARITH_MIN(n, largest_chunk(s, r->n_prompt));
            bool whole = false;
            const uint32_t together = pictures_together(s, r, q->done, &whole);
            if (whole && together > s->planning.want.batch - f->h->n_tokens)
                continue; /* it is the first of the prompts in another step */
            n = whole ? together : ARITH_MIN(n, together);
            bool row = n == left;
            if (row && (grouped || !outbox_has_room(&q->request->out)))
                continue;
            const bool all_rows = pooling_takes_all(s, r);
            const uint32_t room = s->planning.want.logits_rows - f->h->n_rows;
            if (all_rows) {
                n = ARITH_MIN(n, room);
            } else if (row && room == 0) {
                row = false;
                n = whole ? 0 : n - 1;
            }
            if (n == 0 || (pooling_is_whole(s) && n < left))
                continue;
            q->speculation.n = 0;
            if (generating && row && spare > 0) {
                CHECK(n_guessing > 0);
                uint32_t share = spare / n_guessing--;
                spare -= speculation_guess(s, q, ARITH_MIN(share, outbox_spare(&q->request->out)));
            }
            if (!read_rows(s, f, q, n, row ? q->speculation.n : 0))
                continue;
            add_chunk(s, f, q, n, all_rows ? n : row);
            CHECK(!generating || group > 0);
            group -= generating;
            alone = alone && generating;
        }
    }
    f->step->generating = alone ? f->step->n_chunks : 0;
}

/* Alone, a chunk is as large as the batch, and its tails wait for the reader. Beside others it has no more
 * rows than the reader has room for, so that nobody else waits. */
static void fill_reading(struct stator *s, struct filling *f, struct engine_sequence *q) {
    uint32_t left = q->request->n_tokens - q->done;
    uint32_t n = ARITH_MIN(left, largest_chunk(s, q->request->n_tokens));
    bool whole = false;
    const uint32_t together = pictures_together(s, q->request, q->done, &whole);
    if (step_fill_others(s, q))
        n = ARITH_MIN(n, ARITH_MIN(step_fill_reader_room(q), s->planning.want.logits_rows));
    n = whole ? together : ARITH_MIN(n, together);
    if (!read_rows(s, f, q, n, 0))
        return;
    f->step->reader = q;
    f->step->generating = 0;
    f->step->round = q->round;
    f->step->position = q->done;
    add_chunk(s, f, q, n, 0);
    uint32_t *rows = (uint32_t *)(f->slot + f->h->at_rows);
    f->h->n_rows = ARITH_MIN(n, s->planning.want.logits_rows);
    f->h->want_logits = 1;
    for (uint32_t i = 0; i < f->h->n_rows; i++)
        rows[i] = i;
}

/* The next logits request that has something left to compute; NULL: none. */
static struct engine_sequence *find_reader(struct stator *s) {
    for (uint32_t k = 0; k < s->planning.want.sequences; k++) {
        uint32_t i = (s->run.next_reader + k) % s->planning.want.sequences;
        struct engine_sequence *q = &s->run.sequences[i];
        if (!step_fill_runs(q, STATOR_LOGITS) || q->done == q->request->n_tokens)
            continue;
        /* Rows on their way may fill the room. */
        if (step_fill_others(s, q) && (step_fill_reader_room(q) == 0 || q->flights > 0))
            continue;
        s->run.next_reader = (i + 1) % s->planning.want.sequences;
        return q;
    }
    return NULL;
}

bool step_fill(struct stator *s, struct engine_step *step, uint8_t *slot) {
    struct filling f = {.h = (struct step_header *)slot, .slot = slot, .step = step};
    f.h->run_body = STEP_BODY;
    f.h->n_tokens = f.h->n_chunks = f.h->n_rows = f.h->want_logits = 0;
    for (uint32_t i = 0; i < f.h->n_caches; i++)
        f.h->cache[i].n_fill = 0;
    if (s->run.read_last)
        fill_generation(s, &f);
    if (f.h->n_tokens == 0) {
        struct engine_sequence *reader = find_reader(s);
        if (reader != NULL)
            fill_reading(s, &f, reader);
        else if (!s->run.read_last)
            fill_generation(s, &f);
    }
    s->run.read_last = step->reader != NULL;
    if (step->reader == NULL && f.h->n_tokens > 0)
        s->run.next_sequence = (s->run.next_sequence + 1) % s->planning.want.sequences;
    step->n_tokens = f.h->n_tokens;
    step->n_rows = f.h->n_rows;
    CHECK(step->n_chunks == f.h->n_chunks && step->n_rows <= s->planning.want.logits_rows);
    return f.h->n_tokens > 0;
}
