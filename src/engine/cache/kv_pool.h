/* The blocks of PAGED caches: free, held by sequences, or kept for requests that begin with the same tokens.
 *
 * A held block may be kept once its 32 tokens have gone into steps. It is then found by the block before it
 * and its own tokens, which are compared, and it is never written again. When its last holder drops it, it
 * stays until a block is needed and none is free. Such blocks are evicted in the order in which they were
 * dropped.
 *
 * Invariants: a block is free, held, or cached (kept without a holder). A holder of a kept block also holds
 * the block before it, and drops blocks from the end. So an evicted block has no kept block after it, and
 * `before` of a kept block always names a kept block.
 *
 * Thread: the engine's; any thread may read `shown`. */
#ifndef STATOR_ENGINE_KV_POOL_H
#define STATOR_ENGINE_KV_POOL_H

#include "base/carve.h"
#include "kernels/shared/kv_layout.h"

#include <stdatomic.h>
#include <stdbool.h>

#define KV_POOL_NONE UINT32_MAX

struct kv_block {
    uint32_t holders;
    uint32_t before;       /* kept: the block before it in its text, or KV_POOL_NONE */
    uint32_t behind;       /* number of kept blocks that name it as `before` */
    uint32_t next;         /* kept: the next block of the same bucket */
    uint32_t older, newer; /* cached */
    uint32_t mark;         /* kept: the caller's note (a checkpoint), or KV_POOL_NONE */
    bool kept;
    union {
        int32_t tokens[KV_LAYOUT_BLOCK]; /* kept */
        uint64_t until;                  /* free: steps before this one may still use it */
    };
};

/* What other threads see of a block: a holder's name and the number of holders. */
#define KV_POOL_SHOWN(name, holders) ((uint64_t)(name) << 16 | (holders))
#define KV_POOL_CACHED               KV_POOL_SHOWN(UINT64_MAX, 0)

struct kv_pool {
    uint32_t n_blocks;
    struct kv_block *blocks;
    uint32_t *free;
    uint32_t n_free;
    uint32_t *buckets; /* [n_buckets], a power of two: the first block of each, or KV_POOL_NONE */
    uint32_t n_buckets;
    uint32_t oldest, newest; /* cached */
    uint32_t n_cached;
    uint64_t evicted;        /* cached blocks that were evicted */
    _Atomic uint64_t *shown; /* [n_blocks]: KV_POOL_SHOWN, or 0 for a free block */
};

/* Lays out a pool of free blocks. */
void kv_pool_lay_out(struct kv_pool *p, struct carve *c, uint32_t n_blocks);
/* Takes a block for one holder, `name`. Not all blocks may be held. The content of the block is undefined. */
uint32_t kv_pool_take(struct kv_pool *p, uint64_t name);
/* The cached block that a take would evict; KV_POOL_NONE: there is a free block. */
uint32_t kv_pool_next(const struct kv_pool *p);
/* The kept block with these 32 tokens after `before` (KV_POOL_NONE: at the beginning), or KV_POOL_NONE. */
uint32_t kv_pool_find(const struct kv_pool *p, uint32_t before, const int32_t *tokens);
/* Adds a holder to a kept block. */
void kv_pool_hold(struct kv_pool *p, uint32_t block, uint64_t name);
/* Keeps a held block. No kept block has the same text yet. */
void kv_pool_keep(struct kv_pool *p, uint32_t block, uint32_t before, const int32_t *tokens);
/* The caller's note on a kept block, until the block is evicted. KV_POOL_NONE: no note, or the block is not
 * kept. */
void kv_pool_set_mark(struct kv_pool *p, uint32_t block, uint32_t mark);
uint32_t kv_pool_mark(const struct kv_pool *p, uint32_t block);
/* The block before a kept block in its text, or KV_POOL_NONE. */
uint32_t kv_pool_before(const struct kv_pool *p, uint32_t block);
/* Removes a holder; `other` names one of the others, if there are any. */
void kv_pool_drop(struct kv_pool *p, uint32_t block, uint64_t other);
/* The only holder drops a block that is not kept, and that steps before number `until` may still write. Later
 * steps may take it at once, as steps run in order; who writes it in no step takes an idle one. */
void kv_pool_leave(struct kv_pool *p, uint32_t block, uint64_t until);
/* Takes a block that no step from number `first` on uses; KV_POOL_NONE: free ones are all in use still. */
uint32_t kv_pool_take_idle(struct kv_pool *p, uint64_t name, uint64_t first);
/* Frees a kept block that nobody holds, and that no kept block follows. False: it stays. */
bool kv_pool_forget(struct kv_pool *p, uint32_t block);
/* Every block is free, held or cached, and `holders` is the sum of all blocks' holders. */
bool kv_pool_is_balanced(const struct kv_pool *p, uint64_t holders);
/* Checks the invariants one by one, for tests and debug builds. */
bool kv_pool_is_whole(const struct kv_pool *p);

#endif
