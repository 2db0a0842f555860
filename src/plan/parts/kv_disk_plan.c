#include "plan/parts/kv_disk_plan.h"

#include "base/arith.h"
#include "os/pages.h"

#define MOST_FILES  65536u /* so that the index stays below 5 MiB */
#define BLOCKS      16u    /* buffers of a block, of which reading leaves half to writing */
#define CHECKPOINTS 2u
#define FILE_EXTRA  4096u /* at least the header and the tokens of a file */

/* Of one block of the cache, with all layers of all devices. */
static uint64_t bytes_of(const struct planning *s, uint32_t cache) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < s->n_devices; i++) {
        const struct graph_cache *g = &s->devices[i].graph.caches[cache];
        bytes = arith_must_add(bytes, arith_must_mul((uint64_t)g->n_layers * g->units, g->bytes));
    }
    return bytes;
}

/* What the GPUs are told of the buffers. */
static void tell_devices(struct planning *s, uint32_t pieces) {
    struct planning_kv_disk *k = &s->kv_disk;
    for (uint32_t i = 0; i < s->n_devices; i++) {
        if (s->devices[i].facts.host_memory)
            continue;
        k->staged = true;
        s->devices[i].model.moves = (struct device_moves){.blocks = k->blocks,
                                                          .checkpoints = k->checkpoints,
                                                          .block_bytes = k->block_bytes,
                                                          .checkpoint_bytes = k->checkpoint_bytes,
                                                          .pieces = pieces};
    }
}

void kv_disk_plan(struct planning *s, const struct planning_want *want) {
    const struct device_model *m = &s->devices[0].model;
    struct planning_kv_disk *k = &s->kv_disk;
    uint32_t paged = 0, kept = 0; /* pieces of a block, and of a checkpoint */
    *k = (struct planning_kv_disk){0};
    for (uint32_t i = 0; i < s->n_devices; i++)
        s->devices[i].model.moves = (struct device_moves){0};
    if (s->config.cache.kv_dir[0] == '\0')
        return;
    for (uint32_t i = 0; i < m->graph->n_caches; i++) {
        const struct graph_cache *g = &m->graph->caches[i];
        if (g->kind == GRAPH_PAGED) {
            k->block_bytes = arith_must_add(k->block_bytes, bytes_of(s, i));
            paged++;
        } else if (want->checkpoints > 0) {
            const uint32_t blocks = graph_cache_kept(g, m->caches[i].per_sequence);
            k->checkpoint_bytes = arith_must_add(k->checkpoint_bytes, arith_must_mul(bytes_of(s, i), blocks));
            kept += blocks;
        }
    }
    if (k->block_bytes == 0) /* nothing is found by its blocks */
        return;
    k->blocks = BLOCKS;
    k->checkpoints = want->checkpoints > 0 ? CHECKPOINTS : 0;
    k->checkpoint_bytes = ARITH_MAX(k->checkpoint_bytes, (uint64_t)GRAPH_CACHE_ALIGN);
    const uint64_t files = s->config.cache.kv_bytes / arith_must_add(k->block_bytes, FILE_EXTRA);
    k->files = (uint32_t)ARITH_MIN(files, (uint64_t)MOST_FILES);
    k->bytes = pages_rounded(arith_must_add(arith_must_mul(k->blocks, k->block_bytes),
                                            arith_must_mul(k->checkpoints, k->checkpoint_bytes)));
    tell_devices(s, ARITH_MAX(paged, kept));
}

stator_status kv_disk_plan_check(const struct planning *s, stator_error *e) {
    if (s->config.cache.kv_dir[0] == '\0')
        return STATOR_OK;
    if (s->config.cluster.n > 1)
        return error_set(e, STATOR_USAGE,
                         "cache.kv_dir: a run over several hosts keeps no caches in files; remove it");
    /* The kernels' offsets in a buffer's memory have 32 bits. */
    if (s->kv_disk.staged && s->kv_disk.bytes > DEVICE_SLICE_LIMIT)
        return error_set(
            e, STATOR_USAGE,
            "cache.kv_dir: its buffers would take %llu bytes, and a GPU reaches %llu of them: remove it, "
            "or lower memory.context or memory.batch, which make a model's windows smaller",
            (unsigned long long)s->kv_disk.bytes, (unsigned long long)DEVICE_SLICE_LIMIT);
    if (s->kv_disk.block_bytes > 0 && s->kv_disk.files == 0)
        return error_set(e, STATOR_USAGE,
                         "cache.kv_bytes is %llu: a file with 32 tokens of this model has about %llu bytes",
                         (unsigned long long)s->config.cache.kv_bytes,
                         (unsigned long long)(s->kv_disk.block_bytes + FILE_EXTRA));
    return STATOR_OK;
}
