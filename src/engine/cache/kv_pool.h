/* Blocks of the KV cache: which are free, held by sequences, or kept for whoever begins with the same tokens.
 *
 * A held block whose 32 tokens have gone into steps may be kept: it is then found by the block before it and
 * its own tokens, which are compared, so a find is never wrong. From then on nobody writes it. When its last
 * holder drops it, it stays until a block is wanted and none is free; of all such blocks the one that was
 * dropped first goes first.
 *
 * Invariants: a block is free, held, or cached (kept and held by nobody). Who holds a kept block holds the
 * one before it, and drops blocks from the end: so a block that goes is before no other kept one, and the
 * index of a block before names its content for as long as it is asked for. Memory is given once.
 *
 * Thread: the engine's; `shown` may be read by any. */
#ifndef STATOR_ENGINE_KV_POOL_H
#define STATOR_ENGINE_KV_POOL_H

#include "base/carve.h"
#include "kernels/shared/kv_layout.h"

#include <stdatomic.h>
#include <stdbool.h>

#define KV_POOL_NONE UINT32_MAX

struct kv_block {
    uint32_t holders;
    uint32_t before;       /* kept: the block before it in its text; KV_POOL_NONE: it is the first */
    uint32_t behind;       /* kept blocks that name it as `before` */
    uint32_t next;         /* kept: of the same bucket */
    uint32_t older, newer; /* cached */
    uint32_t mark;         /* kept: what else there is at its end; KV_POOL_NONE: nothing */
    bool kept;
    int32_t tokens[KV_LAYOUT_BLOCK]; /* kept */
};

/* What others may see of a block: a holder's name and the number of holders. */
#define KV_POOL_SHOWN(name, holders) ((uint64_t)(name) << 16 | (holders))
#define KV_POOL_CACHED               KV_POOL_SHOWN(UINT64_MAX, 0)

struct kv_pool {
    uint32_t n_blocks;
    struct kv_block *blocks;
    uint32_t *free;
    uint32_t n_free;
    uint32_t *buckets; /* a power of two of them: the first block of each, or KV_POOL_NONE */
    uint32_t n_buckets;
    uint32_t oldest, newest; /* cached */
    uint32_t n_cached;
    uint64_t evicted;        /* cached blocks that went */
    _Atomic uint64_t *shown; /* [n_blocks]; KV_POOL_SHOWN, 0: free */
};

/* All blocks are free. */
void kv_pool_lay_out(struct kv_pool *p, struct carve *c, uint32_t n_blocks);
/* A block for one holder, `name`; not one of all may be held. Its content is anything. */
uint32_t kv_pool_take(struct kv_pool *p, uint64_t name);
/* The cached block that a take would make free; KV_POOL_NONE: it would not. */
uint32_t kv_pool_next(const struct kv_pool *p);
/* The kept block with these 32 tokens behind `before` (KV_POOL_NONE: at the begin); or KV_POOL_NONE. */
uint32_t kv_pool_find(const struct kv_pool *p, uint32_t before, const int32_t *tokens);
/* One more holder of a kept block. */
void kv_pool_hold(struct kv_pool *p, uint32_t block, uint64_t name);
/* Keeps a held block, which a find does not find yet. */
void kv_pool_keep(struct kv_pool *p, uint32_t block, uint32_t before, const int32_t *tokens);
/* What the caller notes of a kept block, until it goes; KV_POOL_NONE: nothing, or it is not kept. */
void kv_pool_set_mark(struct kv_pool *p, uint32_t block, uint32_t mark);
uint32_t kv_pool_mark(const struct kv_pool *p, uint32_t block);
/* The block before a kept block in its text; KV_POOL_NONE: it is the first. */
uint32_t kv_pool_before(const struct kv_pool *p, uint32_t block);
/* One holder less; `other` is the name of one that is left, if there is one. */
void kv_pool_drop(struct kv_pool *p, uint32_t block, uint64_t other);
/* Every block is free, held or cached, and `holders` is the sum of all blocks' holders. */
bool kv_pool_is_balanced(const struct kv_pool *p, uint64_t holders);
/* The invariants, looked at one by one; for tests and debug builds. */
bool kv_pool_is_whole(const struct kv_pool *p);

#endif
