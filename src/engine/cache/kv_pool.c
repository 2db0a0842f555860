#include "engine/cache/kv_pool.h"

#include "base/hash.h"

#include <string.h>

void kv_pool_lay_out(struct kv_pool *p, struct carve *c, uint32_t n_blocks) {
    *p = (struct kv_pool){
        .n_blocks = n_blocks, .n_buckets = 1, .oldest = KV_POOL_NONE, .newest = KV_POOL_NONE};
    while (p->n_buckets < n_blocks && p->n_buckets < 1u << 31)
        p->n_buckets *= 2;
    p->blocks = carve_take(c, n_blocks, sizeof *p->blocks);
    p->free = carve_take(c, n_blocks, sizeof *p->free);
    p->buckets = carve_take(c, p->n_buckets, sizeof *p->buckets);
    p->shown = carve_take(c, n_blocks, sizeof *p->shown);
    if (c->base == NULL)
        return;
    for (uint32_t i = 0; i < p->n_buckets; i++)
        p->buckets[i] = KV_POOL_NONE;
    for (uint32_t i = 0; i < n_blocks; i++) {
        p->blocks[i] = (struct kv_block){.holders = 0};
        p->free[i] = n_blocks - 1 - i;
        atomic_init(&p->shown[i], 0);
    }
    p->n_free = n_blocks;
}

static void show(struct kv_pool *p, uint32_t block, uint64_t name) {
    uint32_t holders = ARITH_MIN(p->blocks[block].holders, (uint32_t)UINT16_MAX);
    atomic_store_explicit(&p->shown[block], KV_POOL_SHOWN(name, holders), memory_order_relaxed);
}

static uint32_t *bucket_of(const struct kv_pool *p, uint32_t before, const int32_t *tokens) {
    uint32_t key[1 + KV_LAYOUT_BLOCK] = {before};
    memcpy(key + 1, tokens, KV_LAYOUT_BLOCK * sizeof *tokens);
    return &p->buckets[hash_of(key, sizeof key) & (p->n_buckets - 1)];
}

uint32_t kv_pool_find(const struct kv_pool *p, uint32_t before, const int32_t *tokens) {
    uint32_t i = *bucket_of(p, before, tokens);
    while (i != KV_POOL_NONE && (p->blocks[i].before != before ||
                                 memcmp(p->blocks[i].tokens, tokens, sizeof p->blocks[i].tokens) != 0))
        i = p->blocks[i].next;
    return i;
}

/* Out of the list of the cached. */
static void unlist(struct kv_pool *p, uint32_t block) {
    CHECK(p->n_cached > 0);
    struct kv_block *b = &p->blocks[block];
    *(b->older != KV_POOL_NONE ? &p->blocks[b->older].newer : &p->oldest) = b->newer;
    *(b->newer != KV_POOL_NONE ? &p->blocks[b->newer].older : &p->newest) = b->older;
    p->n_cached--;
}

static void enlist(struct kv_pool *p, uint32_t block) {
    CHECK(p->n_cached < p->n_blocks);
    struct kv_block *b = &p->blocks[block];
    b->older = p->newest;
    b->newer = KV_POOL_NONE;
    *(p->newest != KV_POOL_NONE ? &p->blocks[p->newest].newer : &p->oldest) = block;
    p->newest = block;
    p->n_cached++;
}

/* A cached block is kept no longer. */
static void leave(struct kv_pool *p, uint32_t block) {
    struct kv_block *b = &p->blocks[block];
    CHECK(b->kept && b->holders == 0 && b->behind == 0);
    unlist(p, block);
    uint32_t *at = bucket_of(p, b->before, b->tokens);
    while (*at != block)
        at = &p->blocks[*at].next;
    *at = b->next;
    CHECK(b->before == KV_POOL_NONE || p->blocks[b->before].behind > 0);
    if (b->before != KV_POOL_NONE)
        p->blocks[b->before].behind--;
    b->kept = false;
}

static uint32_t evict(struct kv_pool *p) {
    const uint32_t block = p->oldest;
    CHECK(block != KV_POOL_NONE);
    leave(p, block);
    p->evicted++;
    return block;
}

bool kv_pool_forget(struct kv_pool *p, uint32_t block) {
    struct kv_block *b = &p->blocks[block];
    CHECK(b->kept);
    if (b->holders > 0 || b->behind > 0)
        return false;
    leave(p, block);
    CHECK(p->n_free < p->n_blocks);
    b->until = 0;
    p->free[p->n_free++] = block;
    show(p, block, 0);
    return true;
}

uint32_t kv_pool_next(const struct kv_pool *p) {
    return p->n_free > 0 ? KV_POOL_NONE : p->oldest;
}

uint32_t kv_pool_take(struct kv_pool *p, uint64_t name) {
    uint32_t block = p->n_free > 0 ? p->free[--p->n_free] : evict(p);
    CHECK(p->blocks[block].holders == 0 && !p->blocks[block].kept);
    p->blocks[block].holders = 1;
    show(p, block, name);
    return block;
}

uint32_t kv_pool_take_idle(struct kv_pool *p, uint64_t name, uint64_t first) {
    uint32_t k = p->n_free;
    while (k > 0 && p->blocks[p->free[k - 1]].until > first)
        k--;
    if (k == 0 && p->n_free > 0)
        return KV_POOL_NONE;
    if (k > 0) { /* the one that a take would get */
        const uint32_t idle = p->free[k - 1];
        p->free[k - 1] = p->free[p->n_free - 1];
        p->free[p->n_free - 1] = idle;
    }
    return kv_pool_take(p, name);
}

void kv_pool_hold(struct kv_pool *p, uint32_t block, uint64_t name) {
    struct kv_block *b = &p->blocks[block];
    CHECK(b->kept);
    if (b->holders == 0)
        unlist(p, block);
    b->holders++;
    show(p, block, name);
}

void kv_pool_keep(struct kv_pool *p, uint32_t block, uint32_t before, const int32_t *tokens) {
    struct kv_block *b = &p->blocks[block];
    CHECK(b->holders > 0 && !b->kept);
    CHECK(before == KV_POOL_NONE || (p->blocks[before].kept && p->blocks[before].holders > 0));
    DCHECK(kv_pool_find(p, before, tokens) == KV_POOL_NONE);
    uint32_t *bucket = bucket_of(p, before, tokens);
    b->kept = true;
    b->before = before;
    b->behind = 0;
    b->mark = KV_POOL_NONE;
    memcpy(b->tokens, tokens, sizeof b->tokens);
    b->next = *bucket;
    *bucket = block;
    if (before != KV_POOL_NONE)
        p->blocks[before].behind++;
}

void kv_pool_set_mark(struct kv_pool *p, uint32_t block, uint32_t mark) {
    CHECK(p->blocks[block].kept);
    p->blocks[block].mark = mark;
}

uint32_t kv_pool_before(const struct kv_pool *p, uint32_t block) {
    CHECK(block < p->n_blocks && p->blocks[block].kept);
    return p->blocks[block].before;
}

uint32_t kv_pool_mark(const struct kv_pool *p, uint32_t block) {
    return p->blocks[block].kept ? p->blocks[block].mark : KV_POOL_NONE;
}

void kv_pool_drop(struct kv_pool *p, uint32_t block, uint64_t other) {
    struct kv_block *b = &p->blocks[block];
    CHECK(b->holders > 0 && (b->kept || b->holders == 1));
    b->holders--;
    if (b->holders > 0) {
        show(p, block, other);
    } else if (b->kept) {
        enlist(p, block);
        show(p, block, UINT64_MAX);
    } else {
        CHECK(p->n_free < p->n_blocks);
        b->until = 0;
        p->free[p->n_free++] = block;
        show(p, block, 0);
    }
}

void kv_pool_leave(struct kv_pool *p, uint32_t block, uint64_t until) {
    CHECK(p->blocks[block].holders == 1 && !p->blocks[block].kept);
    kv_pool_drop(p, block, 0);
    p->blocks[block].until = until;
}

bool kv_pool_is_balanced(const struct kv_pool *p, uint64_t holders) {
    uint32_t held = 0;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < p->n_blocks; i++) {
        held += p->blocks[i].holders > 0;
        sum += p->blocks[i].holders;
    }
    return (uint64_t)held + p->n_cached + p->n_free == p->n_blocks && sum == holders;
}

/* A kept block: found by its key, behind one that is kept and held by as many at least. */
static bool kept_is_whole(const struct kv_pool *p, uint32_t i) {
    const struct kv_block *b = &p->blocks[i];
    if (kv_pool_find(p, b->before, b->tokens) != i)
        return false;
    if (b->before == KV_POOL_NONE)
        return true;
    const struct kv_block *before = &p->blocks[b->before];
    return before->kept && before->holders >= b->holders && before->behind > 0;
}

bool kv_pool_is_whole(const struct kv_pool *p) {
    uint32_t held = 0, cached = 0, behind = 0, listed = 0;
    for (uint32_t i = 0; i < p->n_blocks; i++) {
        const struct kv_block *b = &p->blocks[i];
        held += b->holders > 0;
        cached += b->kept && b->holders == 0;
        if (b->kept && !kept_is_whole(p, i))
            return false;
        behind += b->kept ? b->behind : 0;
        behind -= b->kept && b->before != KV_POOL_NONE;
    }
    for (uint32_t i = 0; i < p->n_free; i++) {
        const struct kv_block *b = &p->blocks[p->free[i]];
        if (b->holders > 0 || b->kept || atomic_load(&p->shown[p->free[i]]) != 0)
            return false;
    }
    for (uint32_t i = p->oldest, older = KV_POOL_NONE; i != KV_POOL_NONE; i = p->blocks[i].newer) {
        if (listed++ == p->n_cached || p->blocks[i].older != older || !p->blocks[i].kept ||
            p->blocks[i].holders > 0)
            return false;
        older = i;
    }
    return behind == 0 && listed == p->n_cached && cached == p->n_cached &&
           held + cached + p->n_free == p->n_blocks;
}
