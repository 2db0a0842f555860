#include "engine/cache/kv_slots.h"

#include "engine/cache/checkpoints.h"
#include "engine/cache/kv_disk.h"
#include "engine/cache/kv_moves.h"
#include "engine/cache/sequences.h"

#include <stdio.h>
#include <string.h>

void kv_slots_lay_out(struct stator *s, struct carve *c) {
    const uint32_t n = s->planning.kv_disk.bytes > 0 ? s->planning.want.sequences : 0;
    const uint32_t context = s->planning.want.context;
    struct engine_text *texts = carve_take(c, n, sizeof *texts);
    int32_t *tokens = carve_take(c, (uint64_t)n * context, sizeof *tokens);
    if (c->base == NULL || n == 0)
        return;
    for (uint32_t i = 0; i < n; i++)
        texts[i] = (struct engine_text){.tokens = tokens + (size_t)i * context};
    s->run.kv_disk.texts = texts;
}

static void set_text(struct stator *s, const struct engine_request *r, uint32_t n) {
    struct engine_text *t = &s->run.kv_disk.texts[r->slot];
    CHECK(n <= s->planning.want.context);
    memcpy(t->tokens, r->tokens, n * sizeof *t->tokens);
    t->n = n;
}

void kv_slots_note(struct stator *s, struct engine_sequence *q) {
    struct engine_request *r = q->request;
    if (r->slot == UINT32_MAX)
        r->slot = (uint32_t)(q - s->run.sequences);
    if (s->run.kv_disk.texts == NULL || r->slots.action != ACTION_NOT || r->kind != STATOR_GENERATE ||
        r->measured)
        return;
    /* Of pictures the tokens say nothing. */
    set_text(s, r, r->n_pictures > 0 ? 0 : ARITH_MIN(r->n_tokens, s->planning.want.context));
}

static void end(struct stator *s, struct engine_request *r, const char *failure) {
    snprintf(r->slots.failure, sizeof r->slots.failure, "%s", failure);
    r->slots.ended = true;
    if (failure[0] != '\0')
        return;
    atomic_fetch_add(&s->run.kv_disk.saves, r->slots.action == ACTION_SAVE);
    atomic_fetch_add(&s->run.kv_disk.restores, r->slots.action == ACTION_RESTORE);
}

/* Frees what the pool keeps of a text and nobody holds, from its end. */
static void forget(struct stator *s, const struct engine_text *t) {
    uint32_t at = KV_POOL_NONE, last = KV_POOL_NONE;
    for (uint32_t k = 0; k < t->n / KV_LAYOUT_BLOCK; k++, last = at)
        if ((at = kv_pool_find(&s->run.pool, at, t->tokens + (size_t)k * KV_LAYOUT_BLOCK)) == KV_POOL_NONE)
            break;
    while (last != KV_POOL_NONE) {
        const uint32_t before = kv_pool_before(&s->run.pool, last);
        if (!kv_pool_forget(&s->run.pool, last))
            break;
        last = before;
    }
    sequences_show_pool(s);
    checkpoints_show(s);
}

bool kv_slots_take(struct stator *s, struct engine_request *r) {
    struct engine_text *t = &s->run.kv_disk.texts[r->slot];
    if (r->slots.action == ACTION_RESTORE)
        return false;
    r->n_tokens = r->n_prompt = t->n;
    atomic_store(&r->shown.n_tokens, t->n);
    if (r->slots.action == ACTION_ERASE) {
        forget(s, t);
        r->slots.tokens = t->n;
        t->n = 0;
        end(s, r, "");
        return true;
    }
    memcpy(r->tokens, t->tokens, t->n * sizeof *t->tokens);
    if (t->n == 0)
        end(s, r,
            "the slot has no text to save: no request has ended in it, it was erased, or the text has "
            "pictures");
    return t->n == 0;
}

void kv_slots_ready(struct stator *s, struct engine_sequence *q) {
    struct engine_request *r = q->request;
    if (r->slots.action == ACTION_NOT)
        return;
    if (r->slots.action == ACTION_RESTORE) {
        set_text(s, r, r->n_tokens);
        r->slots.tokens = q->done;
        end(s, r, "");
    } else {
        q->restore.state = RESTORE_SAVES;
        q->restore.barrier = s->run.next_step;
        q->restore.asked = q->n_kept;
        q->restore.checkpoint = true;
    }
    ring_wake(s->front.commands); /* for the next round */
}

static void push_name(struct stator *s, struct engine_sequence *q) {
    struct engine_request *r = q->request;
    struct kv_job *job = kv_jobs_take(&s->run.kv_disk.jobs, KV_JOBS_FINDS, 0);
    CHECK(job != NULL); /* there is one for each sequence */
    *job = (struct kv_job){.class = KV_JOBS_FINDS,
                           .kind = KV_JOB_SAVE,
                           .owner = q,
                           .before = s->run.kv_disk.root,
                           .text = r->tokens,
                           .n_text = r->n_tokens,
                           .last = r->n_tokens / KV_LAYOUT_BLOCK,
                           .checkpoints = s->run.n_checkpoints > 0,
                           .keys = q->restore.keys,
                           .name = r->slots.name};
    q->restore.jobs++;
    kv_jobs_push(&s->run.kv_disk.jobs, job);
}

void kv_slots_go_on(struct stator *s, struct engine_sequence *q) {
    struct engine_restore *r = &q->restore;
    CHECK(r->state == RESTORE_SAVES && s->run.first_step <= s->run.next_step);
    if (r->jobs > 0 || s->run.first_step < r->barrier)
        return;
    if (r->checkpoint && q->resumes != CHECKPOINTS_NONE && !kv_disk_write_checkpoint(s, q->resumes))
        return;
    r->checkpoint = false;
    for (; r->asked > 0; r->asked--)
        if (!kv_disk_write_block(s, q->blocks[r->asked - 1]))
            return;
    if (!kv_moves_wait(s)) /* a save counts the blocks that have files, so their jobs come first */
        push_name(s, q);
}

void kv_slots_saved(struct stator *s, struct engine_sequence *q, const struct kv_job *job) {
    struct engine_request *r = q->request;
    const uint32_t blocks = job->found;
    q->restore.state = RESTORE_NOT;
    r->slots.tokens = blocks * KV_LAYOUT_BLOCK;
    r->slots.bytes = job->bytes + kv_disk_file_bytes(s, blocks);
    end(s, r, job->good ? "" : job->why);
}
