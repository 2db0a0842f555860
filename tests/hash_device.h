/* A model of a device: instead of numbers a cache's blocks hold, for each token, a hash of the whole text up
 * to it, and a state the hash of its text. A step checks that every byte that it would read belongs to one
 * text, that of its state and windows too, and that nobody writes what is kept; tokens follow from the hash,
 * so an answer from another text's blocks is seen in its first token. Nothing is computed, so there can be
 * many and long requests. Set fake.play to hash_device_step. */
#ifndef STATOR_TESTS_HASH_DEVICE_H
#define STATOR_TESTS_HASH_DEVICE_H

#include "fake_device.h"

#include "engine/engine.h"

enum { TOKENS = KV_LAYOUT_BLOCK, RUNNING = 8, VOCAB = 90 };

struct cell {
    uint64_t hash; /* 0: nothing */
    int32_t token;
    bool guessed;
};

/* What one device has of a cache: of PAGED and RING [block][TOKENS], of a STATE the first of each. */
static struct { struct cell *cells[GRAPH_MAX_CACHES]; } memory[DEVICE_MAX];

static uint64_t mix(uint64_t h, int32_t token) {
    h = (h ^ ((uint64_t)(uint32_t)token + 1)) * 0x9E3779B97F4A7C15u;
    return (h ^ h >> 29) | 1;
}
#define NO_TEXT 0x1234567u /* before the first token */

/* Mostly what followed before, so that guesses are right; else something of the text. */
static int32_t next_of(uint64_t hash, int32_t last) {
    const uint32_t r = (uint32_t)(hash >> 33);
    return r % 8 < 6 ? (last * 5 + 1) % 7 : (int32_t)(r / 8 % VOCAB);
}

static struct cell *block_of(uint32_t device, uint32_t cache, uint32_t block) {
    return memory[device].cells[cache] + (size_t)block * TOKENS;
}

static void set_blocks(uint32_t device, const struct device_model *m, const struct step_header *h) {
    static _Thread_local bool set[65536];
    for (uint32_t c = 0; c < h->n_caches; c++) {
        const uint32_t n = m->caches[c].n_blocks;
        const struct step_fill *f = (const struct step_fill *)((const uint8_t *)h + h->cache[c].at_fill);
        CHECK(n <= sizeof set && h->cache[c].n_fill <= n);
        memset(set, 0, n);
        for (uint32_t i = 0; i < h->cache[c].n_fill; i++) {
            CHECK(f[i].block < n && !set[f[i].block]);
            set[f[i].block] = true;
        }
        for (uint32_t i = 0; i < h->cache[c].n_fill; i++) {
            struct cell *to = block_of(device, c, f[i].block);
            CHECK(f[i].from == STEP_ZEROS || (f[i].from < n && !set[f[i].from]));
            if (f[i].from == STEP_ZEROS)
                memset(to, 0, TOKENS * sizeof *to);
            else
                memcpy(to, block_of(device, c, f[i].from), TOKENS * sizeof *to);
        }
    }
}

struct look { /* at one cache of a chunk's sequence */
    uint32_t device, cache, stride;
    const uint32_t *table;
};

static struct look look_at(uint32_t device, const struct step_header *h, uint32_t cache, uint32_t slot) {
    const uint32_t stride = h->cache[cache].table_stride;
    const uint8_t *tables = (const uint8_t *)h + h->cache[cache].at_tables;
    return (struct look){device, cache, stride,
                         (const uint32_t *)(const void *)tables + (size_t)slot * stride};
}

static struct cell *cell_at(const struct look *l, uint32_t t) {
    return block_of(l->device, l->cache, l->table[t / TOKENS % l->stride]) + t % TOKENS;
}

static void store(const struct look *l, bool paged, uint32_t t, struct cell what) {
    struct cell *c = cell_at(l, t);
    CHECK(!paged || c->hash == 0 || c->guessed || c->hash == what.hash);
    *c = what;
}

/* What all attention of the chunk reads: one text, and the same in windows. */
static void check_reads(const struct device_model *m, const struct look *l, uint32_t paged,
                        const struct step_chunk *k) {
    uint64_t hash = NO_TEXT;
    for (uint32_t t = 0; t < k->position + k->n; t++) {
        const struct cell *c = cell_at(&l[paged], t);
        CHECK(c->hash == mix(hash, c->token));
        hash = c->hash;
    }
    for (uint32_t i = 0; i < m->graph->n_caches; i++) {
        const uint32_t window = m->graph->caches[i].window;
        if (m->graph->caches[i].kind != GRAPH_RING)
            continue;
        for (uint32_t t = k->position + 1 > window ? k->position + 1 - window : 0; t < k->position + k->n;
             t++)
            CHECK(cell_at(&l[i], t)->hash == cell_at(&l[paged], t)->hash);
    }
}

static uint64_t store_chunk(const struct device_model *m, const struct look *l, uint32_t paged,
                            const struct step_chunk *k, const int32_t *tokens, uint64_t *hashes) {
    uint64_t hash = k->position > 0 ? cell_at(&l[paged], k->position - 1)->hash : NO_TEXT;
    const uint64_t before = hash;
    for (uint32_t i = 0; i < k->n; i++) {
        const bool guessed = i >= k->n - k->tested;
        hash = hashes[i] = mix(hash, tokens[i]);
        for (uint32_t c = 0; c < m->graph->n_caches; c++)
            if (m->graph->caches[c].kind != GRAPH_STATE)
                store(&l[c], c == paged, k->position + i, (struct cell){hash, tokens[i], guessed});
    }
    for (uint32_t c = 0; c < m->graph->n_caches; c++) {
        struct cell *state = block_of(l[c].device, c, l[c].table[0]);
        if (m->graph->caches[c].kind != GRAPH_STATE || m->graph->caches[c].n_layers == 0)
            continue;
        CHECK(state->hash == (k->position > 0 ? before : 0));
        state->hash = k->n > k->tested ? hashes[k->n - k->tested - 1] : before;
    }
    return hash;
}

static inline void hash_device_step(uint32_t device, const struct device_model *m,
                                    const struct step_header *h, struct step_pick *picks) {
    const uint8_t *at = (const uint8_t *)h;
    const struct step_chunk *k = (const struct step_chunk *)(const void *)(at + h->at_chunks);
    const int32_t *tokens = (const int32_t *)(const void *)(at + h->at_tokens);
    const uint32_t *rows = (const uint32_t *)(const void *)(at + h->at_rows);
    static _Thread_local struct look looks[RUNNING][GRAPH_MAX_CACHES];
    static _Thread_local uint64_t hashes[512];
    uint32_t paged = UINT32_MAX;
    for (uint32_t c = 0; c < h->n_caches; c++) {
        paged = m->graph->caches[c].kind == GRAPH_PAGED ? c : paged;
        if (memory[device].cells[c] == NULL)
            memory[device].cells[c] = calloc((size_t)m->caches[c].n_blocks * TOKENS, sizeof(struct cell));
        CHECK(memory[device].cells[c] != NULL);
    }
    CHECK(h->run_body && paged != UINT32_MAX && h->n_chunks <= RUNNING && h->n_tokens <= 512);
    set_blocks(device, m, h);
    for (uint32_t i = 0; i < h->n_chunks; i++) {
        for (uint32_t c = 0; c < h->n_caches; c++)
            looks[i][c] = look_at(device, h, c, k[i].slot);
        (void)store_chunk(m, looks[i], paged, &k[i], tokens + k[i].first, hashes + k[i].first);
    }
    for (uint32_t i = 0; i < h->n_chunks; i++)
        check_reads(m, looks[i], paged, &k[i]);
    for (uint32_t i = 0; i < h->n_rows && picks != NULL; i++)
        picks[i] = (struct step_pick){next_of(hashes[rows[i]], tokens[rows[i]]), 1};
}

static inline void hash_device_forget(void) {
    for (uint32_t d = 0; d < DEVICE_MAX; d++)
        for (uint32_t c = 0; c < GRAPH_MAX_CACHES; c++) {
            free(memory[d].cells[c]);
            memory[d].cells[c] = NULL;
        }
}

#endif
