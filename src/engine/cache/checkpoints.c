#include "engine/cache/checkpoints.h"

#include "engine/cache/kv_disk.h"
#include "engine/run/step_fill.h"
#include "engine/run/step_writer.h"

#include <string.h>

/* The last tokens of a prompt are often how a template begins an answer, which it may write otherwise when
 * the answer is told again. */
#define OPENING 8
/* Tokens below which a prompt is not worth a step of its own. */
#define LEAST 64

static struct engine_checkpoint *slot_of(struct stator *s, uint32_t slot) {
    CHECK(slot < s->run.n_checkpoints);
    return &s->run.checkpoints[slot];
}

static void let_go(struct engine_checkpoint *c) {
    CHECK(c->holders > 0);
    c->holders--;
}

static bool is_used(const struct stator *s, uint32_t slot) {
    uint32_t block = s->run.checkpoints[slot].block;
    return block != KV_POOL_NONE && kv_pool_mark(&s->run.pool, block) == slot;
}

uint32_t checkpoints_blocks(const struct stator *s, uint32_t cache, uint32_t slot, uint32_t *first) {
    const struct device_model *m = &s->planning.devices[0].model;
    uint32_t n = graph_cache_kept(&m->graph->caches[cache], m->caches[cache].per_sequence);
    *first = m->caches[cache].of_sequences + slot * n;
    return n;
}

static uint32_t n_caches(const struct stator *s) {
    return s->planning.devices[0].graph.n_caches;
}

static void show_slot(struct stator *s, uint32_t slot) {
    const bool used = is_used(s, slot);
    if (used == s->run.checkpoints[slot].shown)
        return;
    s->run.checkpoints[slot].shown = used;
    CHECK(used || atomic_load(&s->shown.checkpoints_used) > 0);
    atomic_store(&s->shown.checkpoints_used, atomic_load(&s->shown.checkpoints_used) + (used ? 1u : -1u));
    for (uint32_t i = 0; i < n_caches(s); i++) {
        uint32_t first = 0;
        uint32_t n = checkpoints_blocks(s, i, slot, &first);
        for (uint32_t k = 0; k < n; k++)
            atomic_store_explicit(&s->run.caches[i].shown[first + k], used ? KV_POOL_CACHED : 0,
                                  memory_order_relaxed);
    }
}

void checkpoints_show(struct stator *s) {
    for (uint32_t i = 0; i < s->run.n_checkpoints; i++)
        show_slot(s, i);
}

void checkpoints_lay_out(struct stator *s, struct carve *c) {
    s->run.n_checkpoints = s->planning.want.checkpoints;
    s->run.checkpoints = carve_take(c, s->run.n_checkpoints, sizeof *s->run.checkpoints);
    for (uint32_t i = 0; i < s->run.n_checkpoints && c->base != NULL; i++)
        s->run.checkpoints[i] =
            (struct engine_checkpoint){.block = KV_POOL_NONE, .written = UINT64_MAX, .read = UINT64_MAX};
}

uint32_t checkpoints_of(const struct stator *s, uint32_t block) {
    uint32_t slot = kv_pool_mark(&s->run.pool, block);
    CHECK(slot == CHECKPOINTS_NONE ||
          (slot < s->run.n_checkpoints && s->run.checkpoints[slot].block == block));
    return slot;
}

void checkpoints_begin(struct engine_sequence *q) {
    q->resumes = q->answer = CHECKPOINTS_NONE;
    q->stops[0] = q->stops[1] = 0;
}

void checkpoints_aim(const struct stator *s, struct engine_sequence *q, uint32_t common) {
    const uint32_t n = q->request->n_prompt;
    const uint32_t end = n > OPENING ? (n - OPENING) / KV_LAYOUT_BLOCK * KV_LAYOUT_BLOCK : 0;
    q->stops[0] = common < end ? common : 0;
    q->stops[1] = s->run.n_checkpoints > 0 ? end : 0;
    for (uint32_t i = 0; i < 2; i++) {
        q->stops[i] = pictures_cut(s, q->request, q->stops[i]);
        if (q->stops[i] < q->done + LEAST)
            q->stops[i] = 0;
    }
}

void checkpoints_resume(struct stator *s, struct engine_sequence *q, uint32_t slot) {
    CHECK(is_used(s, slot) && q->done > 0);
    if (q->resumes != CHECKPOINTS_NONE)
        let_go(slot_of(s, q->resumes));
    struct engine_checkpoint *c = slot_of(s, slot);
    c->holders++;
    c->used = ++s->run.checkpoint_uses;
    q->resumes = slot;
    atomic_fetch_add(&s->shown.checkpoints_resumed, 1);
}

/* Where q takes its next checkpoint, perhaps where it is; 0: nowhere in its prompt. */
static uint32_t next_stop(const struct stator *s, const struct engine_sequence *q) {
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t stop = q->stops[i];
        if (stop > q->done)
            return stop;
        if (stop == q->done && stop > 0 && q->n_kept * KV_LAYOUT_BLOCK == stop &&
            kv_pool_mark(&s->run.pool, q->blocks[q->n_kept - 1]) == CHECKPOINTS_NONE)
            return stop;
    }
    return 0;
}

uint32_t checkpoints_room(const struct engine_sequence *q) {
    for (uint32_t i = 0; i < 2; i++)
        if (q->stops[i] > q->done)
            return q->stops[i] - q->done;
    return UINT32_MAX;
}

bool checkpoints_wait(const struct stator *s, const struct engine_sequence *q) {
    if (!q->shares || s->run.n_checkpoints == 0 || q->done >= q->request->n_prompt)
        return false;
    for (uint32_t i = 0; i < s->planning.want.sequences; i++) {
        const struct engine_sequence *other = &s->run.sequences[i];
        if (other == q || !step_fill_runs(other, STATOR_GENERATE) || !other->shares)
            continue;
        if (other->done < q->done || (other->done == q->done && other > q))
            continue; /* of two, the one that waits is decided */
        uint32_t stop = next_stop(s, other);
        if (stop > q->done && stop < q->request->n_prompt &&
            memcmp(other->request->tokens, q->request->tokens, stop * sizeof(int32_t)) == 0)
            return true;
    }
    return false;
}

/* Whether the slot has what q last took while it generated. */
static bool is_answer_of(const struct stator *s, const struct engine_sequence *q, uint32_t slot) {
    return q->answer == slot && is_used(s, slot) && s->run.checkpoints[slot].block == q->blocks[q->answer_at];
}

/* Tokens from the checkpoint before this kept block in its text, or from the text's beginning, to the block's
 * end: what a checkpoint here saves. */
static uint64_t saved_tokens(const struct stator *s, uint32_t block) {
    uint64_t tokens = 0;
    do {
        tokens += KV_LAYOUT_BLOCK;
        block = kv_pool_before(&s->run.pool, block);
    } while (block != KV_POOL_NONE && kv_pool_mark(&s->run.pool, block) == CHECKPOINTS_NONE);
    return tokens;
}

/* Uses of checkpoints since the slot's own last one. */
static uint64_t age(const struct stator *s, uint32_t slot) {
    CHECK(s->run.checkpoints[slot].used <= s->run.checkpoint_uses);
    return s->run.checkpoint_uses + 1 - s->run.checkpoints[slot].used;
}

/* Which of two used checkpoints is dropped first: the one with fewer saved tokens per age. Conversations that
 * take turns thus keep their ends and the places where they branched off, rather than every step. */
static bool goes_before(const struct stator *s, uint32_t a, uint32_t b) {
    return saved_tokens(s, s->run.checkpoints[a].block) * age(s, b) <
           saved_tokens(s, s->run.checkpoints[b].block) * age(s, a);
}

/* Whether a new checkpoint behind q's blocks may replace the slot's. Most new ones are never used, for
 * example those of short answers, so it must save this many times as much. (With 16 checkpoints
 * tests/unit/engine/test_agents.c reuses 94% of what can be reused if the factor is 1, and 96% if it is 8.)
 */
#define UNPROVEN 8
/* With fewer checkpoints than this a new one always replaces the least useful one, so that a prompt that is
 * asked twice in a row is reused. */
#define FEW 4
static bool may_replace(const struct stator *s, const struct engine_sequence *q, uint32_t slot) {
    return saved_tokens(s, q->blocks[q->n_kept - 1]) * age(s, slot) >=
           UNPROVEN * saved_tokens(s, s->run.checkpoints[slot].block);
}

static bool is_before(const struct stator *s, uint32_t a, uint32_t b) {
    return b == CHECKPOINTS_NONE || (is_used(s, b) && (!is_used(s, a) || goes_before(s, a, b)));
}

/* A slot to write to in this step: q's own while it generates, else a free one, else the least useful one.
 * CHECKPOINTS_NONE: all are in use, or more useful than a new one. */
static uint32_t choose_slot(const struct stator *s, const struct engine_sequence *q, uint64_t number,
                            bool generates) {
    uint32_t best = CHECKPOINTS_NONE;
    for (uint32_t i = 0; i < s->run.n_checkpoints; i++) {
        const struct engine_checkpoint *c = &s->run.checkpoints[i];
        if (c->holders > 0 || c->written == number || c->read == number)
            continue;
        if (generates && is_answer_of(s, q, i))
            return i;
        if (is_before(s, i, best))
            best = i;
    }
    return best == CHECKPOINTS_NONE || !is_used(s, best) || s->run.n_checkpoints < FEW ||
                   may_replace(s, q, best)
               ? best
               : CHECKPOINTS_NONE;
}

/* The slot gets the checkpoint at the end of q's kept blocks, in step `number` (UINT64_MAX: in none). */
static void assign(struct stator *s, uint32_t slot, const struct engine_sequence *q, uint64_t number) {
    struct engine_checkpoint *c = slot_of(s, slot);
    CHECK(c->holders == 0 && q->n_kept > 0 && q->n_kept <= q->n_blocks);
    if (is_used(s, slot))
        kv_pool_set_mark(&s->run.pool, c->block, CHECKPOINTS_NONE);
    c->block = q->blocks[q->n_kept - 1];
    c->end = q->n_kept;
    c->used = ++s->run.checkpoint_uses;
    c->written = number;
    c->writer = q;
    kv_pool_set_mark(&s->run.pool, c->block, slot);
}

uint32_t checkpoints_put(struct stator *s, const struct engine_sequence *q, bool *later) {
    uint32_t best = CHECKPOINTS_NONE;
    for (uint32_t i = 0; i < s->run.n_checkpoints; i++) {
        const struct engine_checkpoint *c = &s->run.checkpoints[i];
        const bool busy = (c->written != UINT64_MAX && c->written >= s->run.first_step) ||
                          (c->read != UINT64_MAX && c->read >= s->run.first_step);
        *later = *later || busy;
        if (c->holders == 0 && !busy && is_before(s, i, best))
            best = i;
    }
    if (best == CHECKPOINTS_NONE)
        return best;
    if (is_used(s, best))
        kv_disk_before_replace(s, best);
    assign(s, best, q, UINT64_MAX);
    show_slot(s, best);
    return best;
}

static void take(struct stator *s, struct step_header *h, uint64_t number, struct engine_sequence *q,
                 uint32_t slot) {
    if (is_used(s, slot) && !is_answer_of(s, q, slot))
        kv_disk_before_replace(s, slot);
    assign(s, slot, q, number);
    const uint32_t end = q->done / KV_LAYOUT_BLOCK;
    for (uint32_t i = 0; i < n_caches(s); i++) {
        uint32_t first = 0;
        const uint32_t n = checkpoints_blocks(s, i, slot, &first);
        for (uint32_t k = end - ARITH_MIN(end, n); k < end; k++)
            step_writer_fill(h, (uint8_t *)h, i, first + k % n,
                             q->caches[i].table[k % h->cache[i].table_stride]);
    }
    atomic_fetch_add(&s->shown.checkpoints_taken, 1);
    show_slot(s, slot);
}

static bool is_due(const struct stator *s, const struct engine_sequence *q) {
    if (!q->shares || s->run.n_checkpoints == 0 || q->n_kept == 0 || q->n_kept * KV_LAYOUT_BLOCK != q->done)
        return false;
    if (q->done < q->request->n_prompt && q->done != q->stops[0] && q->done != q->stops[1])
        return false;
    return kv_pool_mark(&s->run.pool, q->blocks[q->n_kept - 1]) == CHECKPOINTS_NONE;
}

/* q's blocks of RING and STATE caches get what the checkpoint has; those of which it has nothing are zeros,
 * if they are new to q. One that this step takes is still where it is taken from. */
static void resume(struct stator *s, struct step_header *h, uint64_t number, struct engine_sequence *q) {
    struct engine_checkpoint *c = slot_of(s, q->resumes);
    const uint32_t end = q->done / KV_LAYOUT_BLOCK;
    CHECK(q->done % KV_LAYOUT_BLOCK == 0 && c->block == q->blocks[end - 1] && is_used(s, q->resumes));
    for (uint32_t i = 0; i < n_caches(s); i++) {
        const uint32_t stride = h->cache[i].table_stride;
        const uint32_t *table = q->caches[i].table;
        uint32_t first = 0;
        const uint32_t n = checkpoints_blocks(s, i, q->resumes, &first);
        const uint32_t begin = end - ARITH_MIN(end, n);
        for (uint32_t k = begin; k < end; k++)
            step_writer_fill(h, (uint8_t *)h, i, table[k % stride],
                             c->written == number ? c->writer->caches[i].table[k % stride] : first + k % n);
        for (uint32_t t = 0; t < q->caches[i].n_blocks && q->fresh; t++)
            if ((t + stride - begin % stride) % stride >= end - begin)
                step_writer_fill(h, (uint8_t *)h, i, table[t], STEP_ZEROS);
    }
    q->fresh = false;
    if (c->written != number)
        c->read = number;
    let_go(c);
    q->resumes = CHECKPOINTS_NONE;
}

void checkpoints_fill(struct stator *s, struct step_header *h, uint64_t number, struct engine_sequence *q) {
    if (q->resumes != CHECKPOINTS_NONE)
        resume(s, h, number, q);
    if (!is_due(s, q))
        return;
    const bool generates = q->done >= q->request->n_prompt;
    const uint32_t slot = choose_slot(s, q, number, generates);
    if (slot == CHECKPOINTS_NONE) {
        s->run.checkpoint_uses += generates ? 0 : 1; /* checkpoints that keep new ones out must age too */
        return;
    }
    take(s, h, number, q, slot);
    if (generates) {
        q->answer = slot;
        q->answer_at = q->n_kept - 1;
    }
}

void checkpoints_leave(struct stator *s, struct engine_sequence *q) {
    if (q->resumes != CHECKPOINTS_NONE)
        let_go(slot_of(s, q->resumes));
    q->resumes = CHECKPOINTS_NONE;
}

bool checkpoints_are_whole(const struct stator *s) {
    uint32_t holders = 0;
    uint32_t marks = 0;
    for (uint32_t i = 0; i < s->run.n_checkpoints; i++) {
        holders += s->run.checkpoints[i].holders;
        marks += is_used(s, i);
        if (s->run.checkpoints[i].holders > 0 && !is_used(s, i))
            return false;
    }
    for (uint32_t i = 0; i < s->planning.want.sequences; i++)
        holders -= s->run.sequences[i].request != NULL && s->run.sequences[i].resumes != CHECKPOINTS_NONE;
    for (uint32_t i = 0; i < s->run.pool.n_blocks; i++)
        marks -= kv_pool_mark(&s->run.pool, i) != CHECKPOINTS_NONE;
    return holders == 0 && marks == 0;
}
