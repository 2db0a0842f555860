#include "engine/cache/sequences.h"

#include "base/clock.h"
#include "engine/cache/checkpoints.h"
#include "engine/cache/kv_disk.h"
#include "engine/run/pooling.h"

static bool is_paged(const struct stator *s, uint32_t cache) {
    return s->planning.devices[0].graph.caches[cache].kind == GRAPH_PAGED;
}

static uint32_t need_of(const struct stator *s, uint32_t cache, uint32_t tokens) {
    const struct device_model *m = &s->planning.devices[0].model;
    return graph_cache_need(&m->graph->caches[cache], m->caches[cache].per_sequence, tokens);
}

static bool has_room(const struct stator *s, uint32_t tokens) {
    bool fit = true;
    for (uint32_t i = 0; i < s->planning.devices[0].graph.n_caches; i++)
        fit = fit && need_of(s, i, tokens) <=
                         (is_paged(s, i) ? s->run.pool.n_blocks - s->run.reserved : s->run.caches[i].n_free);
    return fit;
}

/* Of all caches; what is reserved is not free. */
static uint32_t free_blocks(const struct stator *s) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->planning.devices[0].graph.n_caches; i++)
        n += is_paged(s, i) ? s->run.pool.n_blocks - s->run.reserved : s->run.caches[i].n_free;
    return n;
}

static uint32_t held_blocks(const struct stator *s, const struct engine_sequence *q) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->planning.devices[0].graph.n_caches; i++)
        n += is_paged(s, i) ? q->reserved : q->caches[i].n_blocks;
    return n;
}

/* No more is kept than is known to the devices, no more known than held, no more held than reserved. Nothing
 * is kept that it has not done, unless files bring it. */
static bool is_in_order(const struct stator *s, const struct engine_sequence *q) {
    if (q->request == NULL)
        return q->n_blocks == 0 && q->reserved == 0 && q->flights == 0 && q->capacity == 0;
    return q->n_kept <= q->n_cleared && q->n_cleared <= q->n_blocks && q->n_blocks <= q->reserved &&
           (q->n_kept * KV_LAYOUT_BLOCK <= q->done || kv_disk_waits(q)) && q->done <= q->request->n_tokens &&
           q->done <= q->capacity && q->capacity <= s->planning.want.context;
}

/* Blocks of a cache that is not PAGED: free ones and those of running sequences. */
static uint32_t counted_blocks(const struct stator *s, uint32_t cache) {
    uint32_t n = s->run.caches[cache].n_free;
    for (uint32_t k = 0; k < s->planning.want.sequences; k++)
        n += s->run.sequences[k].request != NULL ? s->run.sequences[k].caches[cache].n_blocks : 0;
    return n;
}

bool sequences_are_balanced(const struct stator *s) {
    uint64_t holders = 0;
    uint64_t reserved = 0;
    for (uint32_t k = 0; k < s->planning.want.sequences; k++) {
        if (!is_in_order(s, &s->run.sequences[k]))
            return false;
        holders += s->run.sequences[k].n_blocks;
        reserved += s->run.sequences[k].reserved;
    }
    for (uint32_t i = 0; i < s->planning.devices[0].graph.n_caches; i++)
        if (!is_paged(s, i) && counted_blocks(s, i) != s->planning.devices[0].model.caches[i].of_sequences)
            return false;
    return reserved == s->run.reserved && reserved <= s->run.pool.n_blocks &&
           atomic_load(&s->shown.free_blocks) == free_blocks(s) && kv_pool_is_balanced(&s->run.pool, holders);
}

/* The balance, and each block by itself. */
__attribute__((unused)) static bool blocks_are_whole(const struct stator *s) { /* DCHECK */
    for (uint32_t k = 0; k < s->planning.want.sequences; k++)
        for (uint32_t i = 0; i < s->run.sequences[k].n_blocks; i++)
            if (s->run.pool.blocks[s->run.sequences[k].blocks[i]].holders == 0)
                return false;
    for (uint32_t i = 0; i < s->planning.devices[0].graph.n_caches; i++)
        for (uint32_t k = 0; k < s->run.caches[i].n_free && !is_paged(s, i); k++)
            if (s->run.caches[i].free[k] >= s->planning.devices[0].model.caches[i].of_sequences)
                return false;
    return sequences_are_balanced(s) && kv_pool_is_whole(&s->run.pool) && checkpoints_are_whole(s);
}

static void show(struct stator *s, uint32_t cache, uint32_t block, uint64_t what) {
    CHECK(block < s->planning.devices[0].model.caches[cache].n_blocks);
    atomic_store_explicit(&s->run.caches[cache].shown[block], what, memory_order_relaxed);
}

/* Different blocks that running sequences have now, of all caches. */
static uint32_t taken_blocks(const struct stator *s) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->planning.devices[0].graph.n_caches; i++)
        n += is_paged(s, i) ? s->run.pool.n_blocks - s->run.pool.n_free - s->run.pool.n_cached
                            : s->planning.devices[0].model.caches[i].of_sequences - s->run.caches[i].n_free;
    return n;
}

static void tell_of_pool(struct stator *s) {
    atomic_store(&s->shown.cached_blocks, s->run.pool.n_cached);
    atomic_store(&s->shown.taken_blocks, taken_blocks(s));
    if (atomic_exchange(&s->shown.evicted_blocks, s->run.pool.evicted) != s->run.pool.evicted)
        checkpoints_show(s);
}

void sequences_show_pool(struct stator *s) {
    tell_of_pool(s);
}

/* Blocks of q now; of PAGED caches fewer than it has reserved. */
static void tell_of_sequence(const struct stator *s, const struct engine_sequence *q) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->planning.devices[0].graph.n_caches; i++)
        n += is_paged(s, i) ? q->n_blocks : q->caches[i].n_blocks;
    CHECK(n <= held_blocks(s, q));
    atomic_store(&q->request->shown.taken, n);
}

/* The block before q's k-th. */
static uint32_t before(const struct engine_sequence *q, uint32_t k) {
    CHECK(k <= q->n_blocks);
    return k > 0 ? q->blocks[k - 1] : KV_POOL_NONE;
}

/* Somebody else's name for q's k-th block; they have it at the same place. */
static uint64_t other_holder(const struct stator *s, const struct engine_sequence *q, uint32_t k) {
    for (uint32_t i = 0; i < s->planning.want.sequences; i++) {
        const struct engine_sequence *other = &s->run.sequences[i];
        if (other != q && other->request != NULL && other->n_blocks > k && other->blocks[k] == q->blocks[k])
            return atomic_load(&other->request->id);
    }
    return 0;
}

void sequences_keep(struct stator *s, struct engine_sequence *q) {
    int32_t buffer[KV_LAYOUT_BLOCK];
    for (; q->shares && q->n_kept < q->done / KV_LAYOUT_BLOCK; q->n_kept++) {
        const int32_t *here = pictures_block(s, q->request, q->n_kept, buffer);
        CHECK(q->n_kept < q->n_blocks);
        if (kv_pool_find(&s->run.pool, before(q, q->n_kept), here) != KV_POOL_NONE)
            return; /* another has computed the same: sequences_reuse */
        kv_pool_keep(&s->run.pool, q->blocks[q->n_kept], before(q, q->n_kept), here);
        kv_disk_name(s, q, q->n_kept);
    }
}

/* q gives a block of its own, which is not kept, away for an equal one. */
static void leave_block(struct stator *s, const struct engine_sequence *q, uint32_t block) {
    kv_pool_leave(&s->run.pool, block, q->flights > 0 ? s->run.next_step : 0);
}

/* Its finished blocks that another has kept before it did, for the other's: they have the same bytes, and
 * steps that still read its own come before any that could write there again. */
static void swap_equal(struct stator *s, struct engine_sequence *q) {
    uint64_t name = atomic_load(&q->request->id);
    int32_t buffer[KV_LAYOUT_BLOCK];
    for (; q->n_kept < q->done / KV_LAYOUT_BLOCK; sequences_keep(s, q)) {
        const int32_t *here = pictures_block(s, q->request, q->n_kept, buffer);
        uint32_t kept = kv_pool_find(&s->run.pool, before(q, q->n_kept), here);
        if (kept == KV_POOL_NONE)
            continue; /* it is gone again */
        uint32_t own = q->blocks[q->n_kept];
        CHECK(own != kept);
        kv_pool_hold(&s->run.pool, kept, name);
        leave_block(s, q, own);
        q->blocks[q->n_kept++] = kept;
    }
}

/* How many kept blocks there are with q's beginning, and as many of them as lie before a checkpoint: that,
 * and its end; or what q has. Those are not all q's yet. */
static uint32_t find_checkpoint(struct stator *s, struct engine_sequence *q, uint32_t *slot) {
    const struct engine_request *r = q->request;
    uint32_t k = q->n_kept;
    uint32_t best = k;
    int32_t buffer[KV_LAYOUT_BLOCK];
    for (uint32_t at = before(q, k); k < sequences_last_shared(r); k++) {
        at = kv_pool_find(&s->run.pool, at, pictures_block(s, r, k, buffer));
        if (at == KV_POOL_NONE)
            break;
        uint32_t here = checkpoints_of(s, at);
        if (here == CHECKPOINTS_NONE)
            continue;
        *slot = here;
        best = k + 1;
    }
    if (q->began_ns == 0 &&
        r->slots.action ==
            ACTION_NOT) /* nothing of it was computed: where kept blocks end, others may branch off too */
        checkpoints_aim(s, q, k * KV_LAYOUT_BLOCK);
    return best;
}

bool sequences_hold_next(struct stator *s, struct engine_sequence *q) {
    const struct engine_request *r = q->request;
    const uint32_t k = q->n_kept;
    int32_t buffer[KV_LAYOUT_BLOCK];
    uint32_t kept = kv_pool_find(&s->run.pool, before(q, k), pictures_block(s, r, k, buffer));
    if (kept == KV_POOL_NONE)
        return false;
    CHECK(q->n_blocks <= k + 1 && q->n_cleared == q->n_blocks && k < q->reserved);
    kv_pool_hold(&s->run.pool, kept, atomic_load(&r->id));
    if (q->n_blocks > k)
        leave_block(s, q, q->blocks[k]); /* its own, half full */
    q->blocks[k] = kept;
    q->n_kept = q->n_cleared = q->n_blocks = k + 1;
    return true;
}

uint32_t sequences_take_next(struct stator *s, struct engine_sequence *q) {
    CHECK(q->n_blocks == q->n_kept && q->n_blocks < q->reserved && q->flights == 0);
    kv_disk_before_take(s);
    const uint32_t block = kv_pool_take_idle(&s->run.pool, atomic_load(&q->request->id), s->run.first_step);
    if (block == KV_POOL_NONE)
        return block;
    q->blocks[q->n_blocks++] = block;
    q->n_cleared = q->n_blocks;
    return block;
}

void sequences_keep_next(struct stator *s, struct engine_sequence *q) {
    const uint32_t k = q->n_kept;
    int32_t buffer[KV_LAYOUT_BLOCK];
    kv_pool_keep(&s->run.pool, q->blocks[k], before(q, k), pictures_block(s, q->request, k, buffer));
    kv_disk_name(s, q, k);
    q->n_kept++;
}

/* q's `done` was `from`, and what it has skipped was computed before. */
static void tell_of_reuse(struct stator *s, struct engine_sequence *q, uint32_t from) {
    struct engine_request *r = q->request;
    tell_of_pool(s);
    tell_of_sequence(s, q);
    atomic_store(&r->shown.done, q->done);
    if (q->done == from || r->slots.action != ACTION_NOT)
        return;
    if (atomic_fetch_add(&r->shown.n_cached, q->done - from) == 0)
        atomic_fetch_add(&s->shown.hits, 1);
    atomic_fetch_add(&s->shown.tokens_cached, q->done - from);
}

void sequences_go_on(struct stator *s, struct engine_sequence *q, uint32_t blocks) {
    const uint32_t from = q->done;
    CHECK(q->flights == 0 && q->n_blocks == q->n_kept && blocks <= q->n_kept &&
          from <= blocks * KV_LAYOUT_BLOCK);
    while (q->n_blocks > blocks) {
        const uint32_t k = q->n_blocks - 1, block = q->blocks[k];
        kv_pool_drop(&s->run.pool, block, s->run.pool.blocks[block].holders > 1 ? other_holder(s, q, k) : 0);
        q->n_blocks--;
    }
    q->n_kept = q->n_cleared = blocks;
    q->done = blocks * KV_LAYOUT_BLOCK;
    tell_of_reuse(s, q, from);
}

void sequences_reuse(struct stator *s, struct engine_sequence *q) {
    const struct engine_request *r = q->request;
    if (!q->shares)
        return;
    swap_equal(s, q);
    const uint32_t from = q->done;
    uint32_t slot = CHECKPOINTS_NONE;
    const uint32_t most = s->run.n_checkpoints > 0 ? find_checkpoint(s, q, &slot) : sequences_last_shared(r);
    while (q->n_kept < most && sequences_hold_next(s, q))
        q->done = q->n_kept * KV_LAYOUT_BLOCK;
    if (q->done != from && slot != CHECKPOINTS_NONE)
        checkpoints_resume(s, q, slot);
    tell_of_reuse(s, q, from);
}

/* first: of the steps that may still use a block that is taken. */
static bool take_blocks(struct stator *s, struct engine_sequence *q, uint32_t tokens, uint64_t first) {
    CHECK(tokens <= q->capacity);
    bool all = true;
    while (all && q->n_blocks < q->reserved && q->n_blocks * KV_LAYOUT_BLOCK < tokens) {
        kv_disk_before_take(s);
        const uint32_t block = kv_pool_take_idle(&s->run.pool, atomic_load(&q->request->id), first);
        all = block != KV_POOL_NONE;
        if (all)
            q->blocks[q->n_blocks++] = block;
    }
    CHECK(q->n_blocks <= q->reserved);
    tell_of_pool(s);
    tell_of_sequence(s, q);
    return all;
}

void sequences_take_blocks(struct stator *s, struct engine_sequence *q, uint32_t tokens) {
    const bool all = take_blocks(s, q, tokens, UINT64_MAX);
    CHECK(all);
}

bool sequences_take_idle(struct stator *s, struct engine_sequence *q, uint32_t tokens) {
    return take_blocks(s, q, tokens, planning_stages(&s->planning) == 1 ? UINT64_MAX : s->run.first_step);
}

static void show_peak(struct stator *s, uint32_t cache, uint32_t blocks) {
    s->run.caches[cache].peak = ARITH_MAX(s->run.caches[cache].peak, blocks);
    atomic_store(&s->used_blocks[cache], s->run.caches[cache].peak);
}

/* What it can ever need, which is taken as it is needed; of caches that are not PAGED at once. */
static void reserve(struct stator *s, struct engine_sequence *q, uint32_t tokens) {
    uint64_t name = atomic_load(&q->request->id);
    q->n_blocks = q->n_cleared = q->n_kept = q->reserved = 0;
    for (uint32_t i = 0; i < s->planning.devices[0].graph.n_caches; i++) {
        const struct device_cache *d = &s->planning.devices[0].model.caches[i];
        struct engine_cache *c = &s->run.caches[i];
        uint32_t need = need_of(s, i, tokens);
        CHECK(need <= d->per_sequence);
        if (is_paged(s, i)) {
            q->reserved = need;
            show_peak(s, i, s->run.reserved + need);
            continue;
        }
        CHECK(need <= c->n_free);
        for (uint32_t k = 0; k < need; k++)
            show(s, i, q->caches[i].table[k] = c->free[--c->n_free], KV_POOL_SHOWN(name, 1));
        q->caches[i].n_blocks = need;
        show_peak(s, i, d->of_sequences - c->n_free);
    }
    s->run.reserved += q->reserved;
    CHECK(s->run.reserved <= s->run.pool.n_blocks);
}

bool sequences_admit(struct stator *s, uint32_t slot) {
    struct engine_request *r = &s->front.requests[slot];
    uint32_t tokens = ARITH_MIN(r->n_prompt + r->max_new, s->planning.want.context);
    struct engine_sequence *q = NULL;
    for (uint32_t i = 0; i < s->planning.want.sequences && q == NULL; i++)
        if (s->run.sequences[i].request == NULL)
            q = &s->run.sequences[i];
    if (q == NULL || !has_room(s, tokens))
        return false;
    q->request = r;
    reserve(s, q, tokens);
    q->capacity = tokens;
    q->done = q->reached = 0;
    q->fresh = true;
    q->round = 0;
    q->failed = false;
    CHECK(q->flights == 0);
    q->began_ns = q->prompt_done_ns = 0;
    speculation_begin(s, q);
    checkpoints_begin(q);
    /* Who reads the rows of all tokens computes all tokens. */
    q->shares = s->run.reuses && r->kind != STATOR_LOGITS && !r->measured && !pooling_takes_all(s, r) &&
                !pooling_is_whole(s);
    uint64_t now = clock_ns();
    uint32_t before = atomic_load(&s->shown.free_blocks);
    uint32_t left = free_blocks(s);
    uint32_t held = held_blocks(s, q);
    CHECK(before == left + held);
    atomic_store(&r->shown.admitted_ns, now);
    atomic_store(&r->shown.blocks, held);
    atomic_fetch_add(&s->shown.queue_ns, now - r->submitted_ns);
    atomic_store(&s->shown.free_blocks, left);
    atomic_store(&s->shown.peak_blocks,
                 ARITH_MAX(atomic_load(&s->shown.peak_blocks), s->shown.blocks - left));
    tell_of_pool(s);
    tell_of_sequence(s, q);
    sequences_reuse(s, q);
    kv_disk_begin(s, q);
    DCHECK(blocks_are_whole(s));
    return true;
}

bool sequences_take_rows(struct stator *s, uint32_t slot) {
    struct engine_request *r = &s->front.requests[slot];
    CHECK(r->kind != STATOR_GENERATE);
    for (uint32_t i = 0; i < s->front.n_rows && r->rows == NULL; i++) {
        if (atomic_load(&s->front.rows[i].taken))
            continue;
        atomic_store(&s->front.rows[i].taken, true);
        r->rows = &s->front.rows[i];
    }
    return r->rows != NULL;
}

void sequences_release(struct stator *s, struct engine_sequence *q) {
    CHECK(q->request != NULL && q->flights == 0);
    DCHECK(blocks_are_whole(s));
    kv_disk_leave(s, q);
    checkpoints_leave(s, q);
    while (q->n_blocks > 0) { /* from the end: the pool's invariant */
        uint32_t k = q->n_blocks - 1, block = q->blocks[k];
        kv_pool_drop(&s->run.pool, block, s->run.pool.blocks[block].holders > 1 ? other_holder(s, q, k) : 0);
        q->n_blocks--;
    }
    CHECK(q->reserved <= s->run.reserved);
    s->run.reserved -= q->reserved;
    q->reserved = 0;
    for (uint32_t i = 0; i < s->planning.devices[0].graph.n_caches; i++) {
        struct engine_cache *c = &s->run.caches[i];
        for (uint32_t k = q->caches[i].n_blocks; k-- > 0;)
            show(s, i, c->free[c->n_free++] = q->caches[i].table[k], 0);
        CHECK(c->n_free <= s->planning.devices[0].model.caches[i].of_sequences);
        q->caches[i].n_blocks = 0;
    }
    atomic_store(&q->request->shown.blocks, 0);
    atomic_store(&q->request->shown.taken, 0);
    atomic_store(&s->shown.free_blocks, free_blocks(s));
    tell_of_pool(s);
    q->request = NULL;
    q->capacity = 0;
}

bool sequences_can_rewind(const struct stator *s, const struct engine_sequence *q, uint32_t to) {
    CHECK(q->request != NULL && to <= q->done);
    const struct device_model *m = &s->planning.devices[0].model;
    bool can = true;
    for (uint32_t i = 0; i < m->graph->n_caches; i++) {
        const bool state = m->graph->caches[i].kind == GRAPH_STATE; /* no draft token is in it */
        can = can && graph_cache_rewinds(&m->graph->caches[i], m->caches[i].per_sequence,
                                         state ? q->done : ARITH_MAX(q->done, q->reached), to);
    }
    return can;
}

void sequences_rewind(struct stator *s, struct engine_sequence *q, uint32_t to) {
    CHECK(q->flights == 0);
    bool can = sequences_can_rewind(s, q, to);
    CHECK(q->done <= q->capacity && (!can || to <= q->capacity));
    q->done = can ? to : 0;
    q->reached = can ? q->reached : 0;
    speculation_begin(s, q);
    q->fresh = q->fresh || !can;
}
