#include "engine/start/kv_open.h"

#include "plan/planner.h"

/* Raised when an operation gets another result for the same operands: files of before are then of no use. */
#define NUMERICS 1
#define PIECE    4096 /* bytes of each tensor that are looked at */

/* The model's directory, the sizes of its files and when they were written, and of every tensor a piece from
 * its middle. To hash all of a file would take as long as to load it. */
static stator_status add_model(const struct gguf *g, struct sha256 *h, stator_error *e) {
    uint8_t piece[PIECE];
    char directory[HASH_TEXT];
    stator_status st = STATOR_OK;
    planner_directory(g, directory);
    sha256_text(h, directory);
    for (uint32_t i = 0; i < gguf_shards(g); i++) {
        uint64_t bytes = 0, changed_ns = 0;
        gguf_identity(g, i, &bytes, &changed_ns);
        sha256_u64(h, bytes);
        sha256_u64(h, changed_ns);
    }
    for (uint64_t i = 0; i < gguf_tensors(g) && st == STATOR_OK; i++) {
        const struct gguf_tensor *t = gguf_tensor(g, i);
        const uint64_t n = ARITH_MIN(t->bytes, (uint64_t)sizeof piece);
        st = gguf_load(g, t, (t->bytes - n) / 2, n, piece, e);
        if (st == STATOR_OK)
            sha256_bytes(h, piece, n);
    }
    return st;
}

/* What a block of each cache consists of, with the layers of all devices. */
static void add_caches(const struct stator *s, struct sha256 *h) {
    const struct graph *g = &s->planning.devices[0].graph;
    for (uint32_t i = 0; i < g->n_caches; i++) {
        const struct graph_cache *c = &g->caches[i];
        uint64_t units = 0; /* of all layers: a split by layers or by heads has as many */
        for (uint32_t k = 0; k < s->planning.n_devices; k++) {
            const struct graph_cache *part = &s->planning.devices[k].graph.caches[i];
            units += (uint64_t)part->n_layers * part->units;
        }
        const uint64_t parts[] = {c->kind, units, c->bytes, c->k_bytes, c->type_k, c->type_v, c->window};
        sha256_text(h, c->name);
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
            sha256_u64(h, parts[k]);
    }
    /* The angles of positions, which may follow from the context. */
    sha256_bytes(h, s->run.rope_frequency, graph_angles_stride(g) / 2 * sizeof *s->run.rope_frequency);
}

/* What decides the rows of a picture's file. */
static stator_status add_tower(struct stator *s, stator_error *e) {
    struct sha256 h;
    if (s->planning.pictures.n == 0)
        return STATOR_OK;
    sha256_init(&h);
    sha256_text(&h, "stator " STATOR_VERSION);
    sha256_u64(&h, NUMERICS);
    sha256_u64(&h, s->planning.config.vision.max_pixels);
    stator_status st = add_model(s->planning.vision.gguf, &h, e);
    sha256_final(&h, s->run.pictures.tower);
    return st;
}

static void give_buffers(struct stator *s) {
    const struct planning_kv_disk *p = &s->planning.kv_disk;
    const uint64_t bytes[KV_JOBS_CLASSES] = {
        [KV_JOBS_BLOCKS] = p->block_bytes, [KV_JOBS_CHECKPOINTS] = p->checkpoint_bytes};
    uint8_t *staged = (uint8_t *)s->start.staging + p->at_staging;
    kv_jobs_give_buffers(&s->run.kv_disk.jobs, p->staged ? staged : s->start.kv_buffers, bytes);
}

stator_status kv_open(struct stator *s, stator_error *e) {
    const struct config *c = &s->planning.config;
    struct sha256 h;
    if (s->planning.kv_disk.bytes == 0)
        return STATOR_OK;
    sha256_init(&h);
    sha256_text(&h, "stator " STATOR_VERSION);
    sha256_u64(&h, NUMERICS);
    add_caches(s, &h);
    stator_status st = add_model(s->planning.gguf, &h, e);
    if (st == STATOR_OK)
        st = add_tower(s, e);
    if (st != STATOR_OK)
        return st;
    sha256_final(&h, s->run.kv_disk.root.sha256);
    give_buffers(s);
    CHECK(c->cache.kv_dir[0] != '\0' && s->planning.kv_disk.files > 0);
    const struct kvstore_options o = {.folder = c->cache.kv_dir,
                                      .bytes = c->cache.kv_bytes,
                                      .files = s->planning.kv_disk.files,
                                      .direct = KVSTORE_DIRECT,
                                      .log = &s->log};
    return kv_jobs_start(&s->run.kv_disk.jobs, &o, &s->phase, s->front.commands, e);
}
