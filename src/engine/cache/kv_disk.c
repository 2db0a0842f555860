#include "engine/cache/kv_disk.h"

#include "base/clock.h"
#include "engine/cache/checkpoints.h"
#include "engine/cache/kv_moves.h"
#include "engine/cache/kv_slots.h"
#include "engine/cache/sequences.h"
#include "engine/run/step_fill.h"

#include <string.h>

static bool is_on(const struct stator *s) {
    return s->run.kv_disk.keys != NULL;
}

void kv_disk_lay_out(struct stator *s, struct carve *c) {
    const struct planning_kv_disk *p = &s->planning.kv_disk;
    const uint32_t sequences = s->planning.want.sequences;
    const uint32_t n[KV_JOBS_CLASSES] = {
        [KV_JOBS_BLOCKS] = p->blocks, [KV_JOBS_CHECKPOINTS] = p->checkpoints, [KV_JOBS_FINDS] = sequences};
    if (p->bytes == 0)
        return;
    kv_jobs_lay_out(&s->run.kv_disk.jobs, c, n, p->files);
    kv_moves_lay_out(s, c);
    struct kvstore_key *named = carve_take(c, s->run.pool.n_blocks, sizeof *named);
    const bool pictures = s->planning.pictures.n > 0;
    s->run.kv_disk.pictures =
        carve_take(c, pictures ? s->run.pool.n_blocks : 0, sizeof *s->run.kv_disk.pictures);
    struct kvstore_key *wanted = carve_take(c, s->run.pool.n_blocks, sizeof *wanted);
    if (c->base == NULL)
        return;
    s->run.kv_disk.keys = named;
    for (uint32_t i = 0; i < sequences; i++)
        s->run.sequences[i].restore.keys = wanted + (size_t)i * (s->run.pool.n_blocks / sequences);
}

static uint32_t n_caches(const struct stator *s) {
    return s->planning.devices[0].graph.n_caches;
}

/* What all PAGED caches have in a block of the pool. */
static void copy_block(struct stator *s, uint32_t block, struct kv_job *job, bool out) {
    uint8_t *at = job->data;
    for (uint32_t i = 0; i < n_caches(s); i++)
        if (s->planning.devices[0].graph.caches[i].kind == GRAPH_PAGED)
            kv_moves_add(s, i, block, job, &at, out);
    job->bytes = (uint64_t)(at - job->data);
    CHECK(job->bytes == s->planning.kv_disk.block_bytes);
    kv_moves_begin(s, job, out);
}

/* Bytes of the file of a checkpoint. Of windows of one token it has nothing, but some bytes it has. */
static uint64_t checkpoint_bytes(const struct stator *s, uint32_t end) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < n_caches(s); i++) {
        uint32_t first = 0;
        const uint32_t n = ARITH_MIN(end, checkpoints_blocks(s, i, 0, &first));
        for (uint32_t k = 0; k < s->planning.n_devices; k++) {
            const struct graph_cache *g = &s->planning.devices[k].graph.caches[i];
            bytes += (uint64_t)n * g->n_layers * g->units * g->bytes;
        }
    }
    return ARITH_MAX(bytes, (uint64_t)GRAPH_CACHE_ALIGN);
}

/* What the other caches have in a checkpoint at the end of a text's `end`-th block: their last blocks. */
static void copy_checkpoint(struct stator *s, uint32_t slot, uint32_t end, struct kv_job *job, bool out) {
    uint8_t *at = job->data;
    for (uint32_t i = 0; i < n_caches(s); i++) {
        uint32_t first = 0;
        const uint32_t n = checkpoints_blocks(s, i, slot, &first);
        for (uint32_t k = end - ARITH_MIN(end, n); k < end; k++)
            kv_moves_add(s, i, first + k % n, job, &at, out);
    }
    job->bytes = checkpoint_bytes(s, end);
    CHECK(at <= job->data + job->bytes && job->bytes <= s->planning.kv_disk.checkpoint_bytes);
    kv_moves_begin(s, job, out);
}

static struct kvstore_key key_before(const struct stator *s, uint32_t block) {
    return block != KV_POOL_NONE ? s->run.kv_disk.keys[block] : s->run.kv_disk.root;
}

/* What a kept block of the pool was named by (pictures_words). */
static uint32_t pool_words(const struct stator *s, uint32_t block, uint32_t out[KV_JOBS_WORDS]) {
    uint32_t n = KV_LAYOUT_BLOCK;
    for (uint32_t i = 0; i < KV_LAYOUT_BLOCK; i++) {
        const int32_t token = s->run.pool.blocks[block].tokens[i];
        out[i] = token < 0 ? PICTURES_WORD : (uint32_t)token;
        n = token < 0 ? KV_JOBS_WORDS : n;
    }
    if (n == KV_JOBS_WORDS)
        memcpy(out + KV_LAYOUT_BLOCK, s->run.kv_disk.pictures[block].sha256, SHA256_BYTES);
    return n;
}

/* A job for a kept block of the pool. */
static void aim_at(const struct stator *s, struct kv_job *job, enum kv_job_kind kind, char what,
                   uint32_t block) {
    job->kind = kind;
    job->what = what;
    job->owner = NULL;
    job->before = key_before(s, kv_pool_before(&s->run.pool, block));
    job->n_words = pool_words(s, block, job->words);
}

void kv_disk_name(struct stator *s, const struct engine_sequence *q, uint32_t k) {
    uint32_t words[KV_JOBS_WORDS];
    if (!is_on(s))
        return;
    const uint32_t n = pictures_words(s, q->request, k, words);
    if (n == KV_JOBS_WORDS)
        memcpy(s->run.kv_disk.pictures[q->blocks[k]].sha256, words + KV_LAYOUT_BLOCK, SHA256_BYTES);
    const struct kvstore_key before = key_before(s, k > 0 ? q->blocks[k - 1] : KV_POOL_NONE);
    const struct kvstore_block b = {.before = &before, .tokens = words, .n_tokens = n};
    kvstore_key(&b, &s->run.kv_disk.keys[q->blocks[k]]);
}

static void give_ended(struct stator *s, struct kv_job *job);

/* A buffer to write from. wait: until there is one. */
static struct kv_job *take_job(struct stator *s, enum kv_job_class class, bool wait) {
    struct kv_jobs *j = &s->run.kv_disk.jobs;
    struct kv_job *job = kv_jobs_take(j, class, 0);
    while (job == NULL && wait && (kv_moves_wait(s) || j->outstanding > 0)) {
        kv_moves_settle(s);
        if (j->outstanding > 0)
            give_ended(s, kv_jobs_ended(j, true));
        job = kv_jobs_take(j, class, 0);
    }
    if (job == NULL)
        atomic_fetch_add(&s->run.kv_disk.lost, 1);
    return job;
}

static void write_block(struct stator *s, uint32_t block, struct kv_job *job) {
    aim_at(s, job, KV_JOB_WRITE, KV_JOBS_BLOCK, block);
    copy_block(s, block, job, true);
    kv_moves_push(s, job);
}

static void save_block(struct stator *s, uint32_t block, bool wait) {
    struct kv_job *job = take_job(s, KV_JOBS_BLOCKS, wait);
    if (job != NULL)
        write_block(s, block, job);
}

bool kv_disk_write_block(struct stator *s, uint32_t block) {
    struct kv_job *job = kv_jobs_take(&s->run.kv_disk.jobs, KV_JOBS_BLOCKS, s->planning.kv_disk.blocks / 2);
    if (job != NULL)
        write_block(s, block, job);
    return job != NULL;
}

static void write_checkpoint(struct stator *s, uint32_t slot, struct kv_job *job) {
    const struct engine_checkpoint *c = &s->run.checkpoints[slot];
    aim_at(s, job, KV_JOB_WRITE, KV_JOBS_CHECKPOINT, c->block);
    copy_checkpoint(s, slot, c->end, job, true);
    kv_moves_push(s, job);
}

bool kv_disk_write_checkpoint(struct stator *s, uint32_t slot) {
    struct kv_job *job = kv_jobs_take(&s->run.kv_disk.jobs, KV_JOBS_CHECKPOINTS, 0);
    if (job != NULL)
        write_checkpoint(s, slot, job);
    return job != NULL;
}

uint64_t kv_disk_file_bytes(const struct stator *s, uint32_t blocks) {
    const uint64_t checkpoint = blocks > 0 && s->run.n_checkpoints > 0 ? checkpoint_bytes(s, blocks) : 0;
    return blocks * s->planning.kv_disk.block_bytes + checkpoint;
}

/* whole: steps below it have ended on every device. */
static void save_checkpoint(struct stator *s, uint32_t slot, uint64_t whole, bool wait) {
    const struct engine_checkpoint *c = &s->run.checkpoints[slot];
    if (c->written != UINT64_MAX && c->written >= whole)
        return;
    struct kv_job *job = take_job(s, KV_JOBS_CHECKPOINTS, wait);
    if (job != NULL)
        write_checkpoint(s, slot, job);
}

void kv_disk_before_take(struct stator *s) {
    const uint32_t block = is_on(s) ? kv_pool_next(&s->run.pool) : KV_POOL_NONE;
    if (block == KV_POOL_NONE)
        return;
    const uint32_t slot = checkpoints_of(s, block);
    save_block(s, block, false);
    if (slot != CHECKPOINTS_NONE)
        save_checkpoint(s, slot, s->run.first_step, false);
}

void kv_disk_before_replace(struct stator *s, uint32_t slot) {
    if (is_on(s))
        save_checkpoint(s, slot, s->run.first_step, false);
}

/* kv_job.words_of; the sequence holds its pictures until the job has ended. */
static uint32_t find_words(const void *context, const void *owner, uint32_t block,
                           uint32_t out[KV_JOBS_WORDS]) {
    const struct engine_sequence *q = owner;
    return pictures_words(context, q->request, block, out);
}

void kv_disk_begin(struct stator *s, struct engine_sequence *q) {
    struct engine_restore *r = &q->restore;
    int32_t buffer[KV_LAYOUT_BLOCK];
    if (!is_on(s) || !q->shares || q->n_kept >= sequences_last_shared(q->request)) {
        kv_slots_ready(s, q);
        return;
    }
    struct kv_job *job = kv_jobs_take(&s->run.kv_disk.jobs, KV_JOBS_FINDS, 0);
    CHECK(job != NULL && r->state == RESTORE_NOT && r->jobs == 0); /* there is one for each sequence */
    uint32_t known = q->n_kept, at = known > 0 ? q->blocks[known - 1] : KV_POOL_NONE;
    *job = (struct kv_job){.class = KV_JOBS_FINDS,
                           .kind = KV_JOB_FIND,
                           .owner = q,
                           .before = key_before(s, at),
                           .text = q->request->tokens,
                           .words_of = q->request->n_pictures > 0 ? find_words : NULL,
                           .context = s,
                           .first = known,
                           .last = sequences_last_shared(q->request),
                           .checkpoints = s->run.n_checkpoints > 0,
                           .keys = r->keys};
    while (known < job->last &&
           (at = kv_pool_find(&s->run.pool, at, pictures_block(s, q->request, known, buffer))) !=
               KV_POOL_NONE)
        known++;
    job->known = known;
    if (job->first > 0)
        r->keys[job->first - 1] = job->before;
    r->state = RESTORE_FINDS;
    r->from = r->asked = q->n_kept;
    r->failed = false;
    r->began_ns = clock_ns();
    r->jobs = 1;
    kv_jobs_push(&s->run.kv_disk.jobs, job);
}

/* q takes part in steps again, from `blocks` blocks on; what it has behind them it drops. */
static void end(struct stator *s, struct engine_sequence *q, uint32_t blocks) {
    struct engine_restore *r = &q->restore;
    r->state = RESTORE_NOT;
    atomic_fetch_add(&s->run.kv_disk.wait_ns, clock_ns() - r->began_ns);
    if (blocks > r->from && q->request->slots.action != ACTION_SAVE) {
        atomic_fetch_add(&s->run.kv_disk.hits, 1);
        atomic_fetch_add(&s->run.kv_disk.tokens, (uint64_t)(blocks - r->from) * KV_LAYOUT_BLOCK);
    }
    sequences_go_on(s, q, blocks);
    kv_slots_ready(s, q);
}

/* A block of the sequence that was read, or not, in the order of the text. */
static void place_block(struct stator *s, struct engine_sequence *q, struct kv_job *job) {
    struct engine_restore *r = &q->restore;
    r->failed = r->failed || !job->good || step_fill_cancelled(q->request);
    if (r->failed)
        return;
    q->request->slots.bytes += job->bytes;
    CHECK(q->n_kept == job->first);
    if (sequences_hold_next(s, q))
        return;
    const uint32_t block = sequences_take_next(s, q);
    r->failed = block == KV_POOL_NONE;
    if (r->failed)
        return;
    copy_block(s, block, job, false);
    sequences_keep_next(s, q);
}

static void ask_for_blocks(struct stator *s, struct engine_sequence *q) {
    struct engine_restore *r = &q->restore;
    while (r->asked < r->until && !r->failed) {
        if (r->jobs == 0 && sequences_hold_next(s, q)) {
            r->asked = q->n_kept;
            continue;
        }
        struct kv_job *job =
            kv_jobs_take(&s->run.kv_disk.jobs, KV_JOBS_BLOCKS, s->planning.kv_disk.blocks / 2);
        if (job == NULL)
            return;
        const uint32_t k = r->asked++;
        job->kind = KV_JOB_READ;
        job->what = KV_JOBS_BLOCK;
        job->owner = q;
        job->first = k;
        job->bytes = s->planning.kv_disk.block_bytes;
        job->before = k > 0 ? r->keys[k - 1] : s->run.kv_disk.root;
        job->n_words = pictures_words(s, q->request, k, job->words);
        r->jobs++;
        kv_jobs_push(&s->run.kv_disk.jobs, job);
    }
}

static void ask_for_checkpoint(struct stator *s, struct engine_sequence *q) {
    struct engine_restore *r = &q->restore;
    struct kv_job *job = kv_jobs_take(&s->run.kv_disk.jobs, KV_JOBS_CHECKPOINTS, 0);
    if (job == NULL)
        return;
    aim_at(s, job, KV_JOB_READ, KV_JOBS_CHECKPOINT, q->blocks[r->until - 1]);
    job->owner = q;
    job->bytes = checkpoint_bytes(s, r->until);
    r->jobs++;
    kv_jobs_push(&s->run.kv_disk.jobs, job);
}

/* All blocks are there that will be. */
static void follow_blocks(struct stator *s, struct engine_sequence *q) {
    struct engine_restore *r = &q->restore;
    if (s->run.n_checkpoints == 0) {
        end(s, q, q->n_kept);
        return;
    }
    if (r->failed || q->n_kept < r->until) {
        end(s, q, r->from);
        return;
    }
    const uint32_t slot = checkpoints_of(s, q->blocks[r->until - 1]);
    if (slot == CHECKPOINTS_NONE) {
        r->state = RESTORE_CHECKPOINT;
        return;
    }
    end(s, q, r->until);
    checkpoints_resume(s, q, slot);
}

/* The checkpoint was read. It waits for a slot that steps in flight do not use. */
static void place_checkpoint(struct stator *s, struct engine_sequence *q) {
    struct engine_restore *r = &q->restore;
    bool later = false;
    uint32_t slot = checkpoints_of(s, q->blocks[r->until - 1]); /* another may have had it read, too */
    if (slot == CHECKPOINTS_NONE) {
        slot = checkpoints_put(s, q, &later);
        if (slot == CHECKPOINTS_NONE && later)
            return;
        if (slot != CHECKPOINTS_NONE)
            copy_checkpoint(s, slot, r->until, r->ready, false);
    }
    q->request->slots.bytes += r->ready->bytes;
    kv_moves_give_back(s, r->ready);
    r->ready = NULL;
    end(s, q, slot != CHECKPOINTS_NONE ? r->until : r->from);
    if (slot != CHECKPOINTS_NONE)
        checkpoints_resume(s, q, slot);
}

static void go_on(struct stator *s, struct engine_sequence *q) {
    struct engine_restore *r = &q->restore;
    if (r->state == RESTORE_SAVES)
        kv_slots_go_on(s, q);
    if (r->state == RESTORE_READS)
        ask_for_blocks(s, q);
    if (r->state == RESTORE_READS && r->jobs == 0 && (r->failed || r->asked == r->until))
        follow_blocks(s, q);
    if (r->state == RESTORE_CHECKPOINT && r->ready != NULL)
        place_checkpoint(s, q);
    else if (r->state == RESTORE_CHECKPOINT && r->jobs == 0)
        ask_for_checkpoint(s, q);
}

#define ENOUGH 64 /* files, and blocks of tokens, that a rate is measured from */
#define RETRY  16 /* where reading was too slow, every so many times it is tried again */

bool kv_disk_is_worth(uint64_t read_ns, uint64_t read, uint64_t computed_ns, uint64_t computed) {
    if (read < ENOUGH || computed < ENOUGH * KV_LAYOUT_BLOCK)
        return true;
    return (double)read_ns / (double)read <= (double)computed_ns / (double)computed * KV_LAYOUT_BLOCK;
}

static bool is_worth(struct stator *s) {
    const struct kv_jobs *j = &s->run.kv_disk.jobs;
    return kv_disk_is_worth(atomic_load(&j->shown.read_ns), atomic_load(&j->shown.files_read),
                            atomic_load(&s->served.prompt_ns), atomic_load(&s->served.prompt_tokens)) ||
           ++s->run.kv_disk.skipped % RETRY == 0;
}

/* What a job of a sequence brought. True: the sequence keeps it. */
static bool take_result(struct stator *s, struct engine_sequence *q, struct kv_job *job) {
    struct engine_restore *r = &q->restore;
    if (job->kind == KV_JOB_FIND) {
        r->until = job->found;
        r->state = RESTORE_READS;
        if (r->until <= r->from || (q->request->slots.action == ACTION_NOT && !is_worth(s)))
            end(s, q, r->from);
        return false;
    }
    if (job->kind == KV_JOB_SAVE) {
        kv_slots_saved(s, q, job);
        return false;
    }
    if (job->what == KV_JOBS_BLOCK) {
        place_block(s, q, job);
        return false;
    }
    if (job->good) {
        r->ready = job;
        return true;
    }
    end(s, q, r->from);
    return false;
}

static void give_ended(struct stator *s, struct kv_job *job) {
    struct engine_sequence *q = job->owner;
    if (q != NULL)
        q->restore.jobs--;
    if (q == NULL || q->restore.state == RESTORE_NOT || !take_result(s, q, job))
        kv_moves_give_back(s, job);
}

stator_status kv_disk_turn(struct stator *s, stator_error *e) {
    if (!is_on(s))
        return STATOR_OK;
    kv_moves_turn(s); /* first: sequences wait for the buffers that it gives back */
    for (struct kv_job *job; (job = kv_jobs_ended(&s->run.kv_disk.jobs, false)) != NULL;)
        give_ended(s, job);
    for (uint32_t i = 0; i < s->planning.want.sequences; i++) {
        struct engine_sequence *q = &s->run.sequences[i];
        if (q->request != NULL && kv_disk_waits(q) && !step_fill_cancelled(q->request))
            go_on(s, q);
    }
    return kv_moves_failed(s, e);
}

void kv_disk_leave(struct stator *s, struct engine_sequence *q) {
    struct engine_restore *r = &q->restore;
    CHECK(r->jobs == 0);
    if (r->ready != NULL)
        kv_jobs_give_back(&s->run.kv_disk.jobs, r->ready);
    r->ready = NULL;
    r->state = RESTORE_NOT;
}

void kv_disk_settle(struct stator *s) {
    if (!is_on(s))
        return;
    for (uint32_t i = 0; i < s->planning.want.sequences; i++)
        s->run.sequences[i].restore.state = RESTORE_NOT;
    kv_moves_settle(s);
    while (s->run.kv_disk.jobs.outstanding > 0)
        give_ended(s, kv_jobs_ended(&s->run.kv_disk.jobs, true));
}

/* Whether a step that may not have run everywhere writes q's k-th block. */
static bool is_under_way(const struct stator *s, const struct engine_sequence *q, uint32_t k) {
    for (uint32_t i = 0; i < s->planning.want.sequences; i++) {
        const struct engine_sequence *other = &s->run.sequences[i];
        if (other->request != NULL && other->flights > 0 && other->n_blocks > k &&
            other->blocks[k] == q->blocks[k])
            return true;
    }
    return false;
}

static void flush_block(struct stator *s, uint32_t block, uint64_t whole) {
    const uint32_t slot = checkpoints_of(s, block);
    save_block(s, block, true);
    if (slot != CHECKPOINTS_NONE)
        save_checkpoint(s, slot, whole, true);
}

/* From what was used longest ago on, and from the ends of texts to their begins: so files go in this order.
 */
void kv_disk_flush(struct stator *s, uint64_t whole) {
    if (!is_on(s))
        return;
    kv_disk_settle(s);
    for (uint32_t i = s->run.pool.oldest; i != KV_POOL_NONE; i = s->run.pool.blocks[i].newer)
        flush_block(s, i, whole);
    for (uint32_t i = 0; i < s->planning.want.sequences; i++) {
        const struct engine_sequence *q = &s->run.sequences[i];
        for (uint32_t k = q->request != NULL ? q->n_kept : 0; k-- > 0;)
            if (!is_under_way(s, q, k))
                flush_block(s, q->blocks[k], whole);
    }
    kv_disk_settle(s);
}
