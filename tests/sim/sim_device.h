/* Simulated devices ("sim:0" ..) on one thread and virtual time, in place of device_list.c and clock.c. Their
 * blocks hold the hashes of sim_text.h. A step takes as long as the seed says; its work is done, all at once,
 * when it ends.
 *
 * A step is compared with the text that its sequence has by the naive model, so a wrong, stale or foreign
 * block is noticed in the step that reads it, and a block that was not cleared in the step that begins to
 * write it. Blocks hold garbage at first. Watched too: a descriptor does not change while its step is under
 * way, and the order of submissions.
 *
 * "sim:4" has the draft model of a run. Its texts are those of the requests, and then its own draft tokens.
 */
#ifndef STATOR_TESTS_SIM_DEVICE_H
#define STATOR_TESTS_SIM_DEVICE_H

#include "sim_states.h"
#include "sim_text.h"

#include "base/clock.h"
#include "device/device.h"
#include "device/device_backend.h"
#include "engine/run/loop.h"

enum { SIM_TOKENS = KV_LAYOUT_BLOCK, SIM_BATCH = 512, SIM_SEQUENCES = 8, SIM_SLICES = 16 };
enum { SIM_DRAFTS_ON = SIM_DEVICES }; /* the index of the draft model's device */

/* The device refuses a step, is lost, or hangs; or one row of logits is not finite. */
enum sim_fault { SIM_NONE, SIM_SUBMIT, SIM_LOST, SIM_HANG, SIM_DAMAGED };

struct sim_cell {
    uint64_t row; /* 0: cleared */
    uint64_t id;  /* request that wrote it */
    bool guessed;
};

enum sim_slot_state { SIM_FREE, SIM_QUEUED, SIM_ENDED };

/* A move of blocks between the caches and a buffer, as a GPU makes it: in the order of the steps. */
#define SIM_MOVES  18
#define SIM_PIECES 64
struct sim_move {
    bool queued, ended, out;
    uint64_t ends_ns;
    uint32_t n;
    struct device_piece pieces[SIM_PIECES];
};

struct sim_device {
    struct device device; /* first */
    struct device_vtable vtable;
    struct device_model model;
    struct device_facts facts;
    struct device_pinned at;
    uint8_t *pinned;
    struct sim_device *next;            /* of the same host */
    const struct device_link *in, *out; /* to other hosts, over windows; or NULL */
    uint32_t index;
    const struct sim_shape *shape;    /* of its model */
    uint32_t stage;                   /* whose values it has: the devices of a group have the same ones, */
    struct sim_device *first;         /* and the first of them gets those of the stage before */
    const struct device_group *group; /* or NULL */
    uint64_t bytes;                   /* of slices */
    uint8_t *kv[SIM_SLICES];          /* of the caches; a block's cells are at the begin of its first unit */
    uint32_t submits, steps, bodies, tails;
    uint32_t nth[2]; /* submits with that of the slot */
    bool lost;
    enum sim_slot_state state[2];
    uint64_t ends_ns[2], ended_ns;
    char descriptor[2][HASH_TEXT];
    uint64_t ids[2][SIM_SEQUENCES]; /* whose the chunks are */
    uint64_t carry[2][SIM_BATCH];   /* landing: from the device before */
    uint64_t value[2][SIM_BATCH];   /* of the step's tokens */
    int32_t token[2][SIM_BATCH];
    /* MTP head: what KEEP has of each sequence's last chunk, its last known token's first. */
    uint64_t hidden[SIM_SEQUENCES][CONFIG_MOST_GUESSES + 1];
    /* Draft model: the token that it said last for each position of each sequence. */
    int32_t drafted[SIM_SEQUENCES][SIM_CONTEXT + 2];
    struct device_counters counters;
    struct sim_move moves[SIM_MOVES];
    uint8_t *moved; /* their buffers */
    uint64_t n_moves;
};

/* A run over several hosts (sim_hosts.h). NULL: there is none. */
struct sim_cluster {
    const struct device_backend *remote; /* devices of other hosts */
    void (*choose)(const char **list);
    void (*start)(const char *model, const char *const *list); /* the ranks above 0 */
    void (*turn)(uint32_t turn);
    void (*sleep)(enum loop_next next); /* the engine's thread, for a while */
    void (*stop)(void);
};
static const struct sim_cluster *sim_cluster;

/* Of the run. */
static struct {
    uint64_t seed, random, round;
    uint64_t now_ns;
    uint64_t longest_ns; /* of a step */
    struct stator *s;
    struct sim_shape shape, draft; /* of the model, and of the draft model if there is one */
    struct sim_device *devices[SIM_DEVICES + 1];
    uint32_t stage[SIM_DEVICES]; /* of each device of the model */
    /* The text that a request has by the naive model; NULL: there is no such request. */
    const struct sim_text *(*text_of)(uint64_t id);
    enum sim_fault fault;
    uint32_t fault_device, fault_nth;
    bool faulted;     /* no step comes to an end any more */
    uint64_t damaged; /* the request that was given a row that is not finite */
    uint64_t steps, tokens;
} sim;

uint64_t clock_ns(void) {
    return sim.now_ns;
}

/* A finding: ends the process, as a failed CHECK does. The handler of SIGABRT tells how to play it again. */
__attribute__((noreturn, format(printf, 1, 2))) static void sim_fail(const char *format, ...) {
    va_list list;
    phase_thread_set(NULL, PHASE_THREAD_EDGE); /* who may allocate */
    va_start(list, format);
    fprintf(stderr, "sim: ");
    vfprintf(stderr, format, list);
    fprintf(stderr, "\n");
    va_end(list);
    abort();
}

static uint64_t sim_below(uint64_t n) {
    return testing_below(&sim.random, n);
}

static struct sim_device *sim_self(struct device *d) {
    return (struct sim_device *)d;
}

static struct step_header *sim_header(const struct sim_device *f, uint32_t slot) {
    return (struct step_header *)(void *)(f->pinned + f->at.step[slot]);
}

static void sim_hash(const struct sim_device *f, uint32_t slot, char out[HASH_TEXT]) {
    struct hash h;
    hash_init(&h);
    hash_bytes(&h, f->pinned + f->at.step[slot], f->model.step_bytes);
    hash_final(&h, out);
}

/* Cells of a block: a state has one. */
static uint32_t sim_cells(const struct sim_device *f, uint32_t cache) {
    return f->model.graph->caches[cache].kind == GRAPH_STATE ? 1 : SIM_TOKENS;
}

static struct sim_cell *sim_block(const struct sim_device *f, uint32_t cache, uint32_t block) {
    const uint64_t bytes = f->model.graph->caches[cache].bytes;
    const uint32_t slice = device_cache_part(&f->model, cache, false).first;
    CHECK(block < f->model.caches[cache].n_blocks && slice < SIM_SLICES &&
          bytes >= sim_cells(f, cache) * sizeof(struct sim_cell));
    return (struct sim_cell *)(void *)(f->kv[slice] + block * bytes);
}

/* Blocks that the step clears or copies. */
static void sim_fill(struct sim_device *f, const struct step_header *h) {
    for (uint32_t c = 0; c < h->n_caches; c++) {
        const struct step_fill *fill =
            (const struct step_fill *)(const void *)((const uint8_t *)h + h->cache[c].at_fill);
        for (uint32_t i = 0; i < h->cache[c].n_fill && f->shape->cache[c].on[f->stage]; i++) {
            for (uint32_t k = 0; k < h->cache[c].n_fill; k++)
                if (fill[k].from == fill[i].block || (k != i && fill[k].block == fill[i].block))
                    sim_fail("device %u, cache %u: block %u is set twice, or set and copied", f->index, c,
                             fill[i].block);
            for (uint32_t k = 0; k < i; k++)
                sim_reach(SIM_COPIED_TWICE, fill[i].from != STEP_ZEROS && fill[k].from == fill[i].from);
            struct sim_cell *to = sim_block(f, c, fill[i].block);
            if (fill[i].from == STEP_ZEROS)
                memset(to, 0, sim_cells(f, c) * sizeof *to);
            else
                memcpy(to, sim_block(f, c, fill[i].from), sim_cells(f, c) * sizeof *to);
        }
    }
}

/* A cache as a chunk's sequence sees it. */
struct sim_look {
    const struct sim_device *f;
    uint32_t cache, stride;
    const uint32_t *table;
};

static struct sim_look sim_look(const struct sim_device *f, const struct step_header *h, uint32_t cache,
                                uint32_t slot) {
    const uint32_t stride = h->cache[cache].table_stride;
    const uint8_t *tables = (const uint8_t *)h + h->cache[cache].at_tables;
    return (struct sim_look){f, cache, stride,
                             (const uint32_t *)(const void *)tables + (size_t)slot * stride};
}

static uint32_t sim_block_at(const struct sim_look *l, uint32_t p) {
    return l->table[p / SIM_TOKENS % l->stride];
}

static struct sim_cell *sim_cell(const struct sim_look *l, uint32_t p) {
    return sim_block(l->f, l->cache, sim_block_at(l, p)) + p % SIM_TOKENS;
}

/* Whether position p's place may hold what it does before it is written. */
static bool sim_is_clean(const struct sim_look *l, const struct sim_text *t, uint64_t id, uint32_t p) {
    const struct sim_cell *cell = sim_cell(l, p);
    const uint32_t round =
        l->f->shape->cache[l->cache].kind == GRAPH_RING ? l->stride * SIM_TOKENS : SIM_CONTEXT + 1;
    if (cell->row == 0 || (cell->guessed && cell->id == id))
        return true;
    for (uint32_t q = p % round; q <= p && q < t->n_known; q += round)
        if (cell->row == sim_row(t->v[l->f->stage][q], l->cache))
            return true; /* its own, of this round or one before */
    return false;
}

/* All that a chunk writes is taken out first, as a device stores a chunk before its first query reads. */
static void sim_begin_chunk(const struct sim_device *f, const struct step_header *h,
                            const struct step_chunk *k, const struct sim_text *t, uint64_t id) {
    for (uint32_t c = 0; c < h->n_caches; c++) {
        const struct sim_look l = sim_look(f, h, c, k->slot);
        if (!f->shape->cache[c].on[f->stage])
            continue;
        if (f->shape->cache[c].kind == GRAPH_STATE) {
            if (k->position == 0 && sim_cell(&l, 0)->row != 0)
                sim_fail("device %u: a new sequence's state, block %u, was not cleared", f->index,
                         l.table[0]);
            continue;
        }
        const uint32_t end = (k->position + k->n + SIM_TOKENS - 1) / SIM_TOKENS * SIM_TOKENS;
        for (uint32_t p = k->position; p < end && f->index != SIM_DRAFTS_ON; p++)
            if (!sim_is_clean(&l, t, id, p))
                sim_fail(
                    "device %u, cache %u: position %u of request %llu: block %u was not cleared, or is kept",
                    f->index, c, p, (unsigned long long)id, sim_block_at(&l, p));
        for (uint32_t p = k->position; p < k->position + k->n; p++)
            *sim_cell(&l, p) = (struct sim_cell){.row = UINT64_MAX, .id = id, .guessed = true};
    }
}

/* What position p reads. state: of a STATE cache, with the chunk's drafts so far, which its block never has.
 */
static uint64_t sim_look_at(const struct sim_look *l, uint32_t p, uint64_t state) {
    if (l->f->shape->cache[l->cache].kind == GRAPH_STATE)
        return state;
    const uint32_t window = l->f->shape->cache[l->cache].kind == GRAPH_RING
                                ? l->f->shape->cache[l->cache].window
                                : SIM_CONTEXT + 1;
    uint64_t sum = 0;
    for (uint32_t q = p + 1 > window ? p + 1 - window : 0; q < p; q++)
        sum += sim_read(sim_cell(l, q)->row, q);
    return sum;
}

/* The value at p is wrong: which row was it? */
static void sim_blame(const struct sim_device *f, const struct step_header *h, const struct step_chunk *k,
                      const struct sim_text *t, uint64_t id, uint32_t p) {
    for (uint32_t c = 0; c < h->n_caches; c++) {
        const struct sim_look l = sim_look(f, h, c, k->slot);
        const bool ring = f->shape->cache[c].kind == GRAPH_RING;
        if (!f->shape->cache[c].on[f->stage] || f->shape->cache[c].kind == GRAPH_STATE)
            continue;
        for (uint32_t q = ring && p + 1 > f->shape->cache[c].window ? p + 1 - f->shape->cache[c].window : 0;
             q < p; q++)
            if (sim_cell(&l, q)->row != sim_row(t->v[f->stage][q], c))
                sim_fail("device %u, cache %u: request %llu at position %u reads block %u for position %u, "
                         "which holds %s",
                         f->index, c, (unsigned long long)id, p, sim_block_at(&l, q), q,
                         sim_cell(&l, q)->row == 0      ? "nothing"
                         : sim_cell(&l, q)->id == id    ? "another row of this request"
                         : sim_cell(&l, q)->id == ~0ull ? "garbage"
                                                        : "another request's row");
    }
    sim_fail(
        "device %u: request %llu at position %u has a wrong state, or a wrong value from the device before",
        f->index, (unsigned long long)id, p);
}

static void sim_compute(struct sim_device *f, const struct step_header *h, const struct step_chunk *k,
                        uint32_t slot, const struct sim_text *t, uint64_t id) {
    const int32_t *tokens = (const int32_t *)(const void *)((const uint8_t *)h + h->at_tokens);
    uint64_t state[GRAPH_MAX_CACHES] = {0};
    for (uint32_t c = 0; c < h->n_caches; c++)
        if (f->shape->cache[c].kind == GRAPH_STATE && f->shape->cache[c].on[f->stage])
            state[c] = sim_block(f, c, sim_look(f, h, c, k->slot).table[0])->row;
    for (uint32_t i = 0; i < k->n; i++) {
        const uint32_t p = k->position + i, at = k->first + i;
        const bool guessed = i >= k->n - k->tested;
        uint64_t v = f->stage == 0 ? sim_mix((uint32_t)tokens[at], p) : f->first->carry[slot][at];
        if (f->first->in != NULL)
            memcpy(&v, f->first->in->window[slot] + (size_t)at * f->model.graph->width, sizeof v);
        if (!guessed && (p >= t->n || tokens[at] != t->tokens[p]))
            sim_fail("device %u: request %llu has token %d at position %u, %d is expected", f->index,
                     (unsigned long long)id, tokens[at], p, p < t->n ? t->tokens[p] : -1);
        for (uint32_t c = 0; c < h->n_caches; c++) {
            const struct sim_look l = sim_look(f, h, c, k->slot);
            if (f->shape->cache[c].on[f->stage])
                v = sim_mix(v, sim_look_at(&l, p, state[c]));
        }
        if (!guessed && v != t->v[f->stage][p])
            sim_blame(f, h, k, t, id, p);
        for (uint32_t c = 0; c < h->n_caches; c++) {
            const struct sim_look l = sim_look(f, h, c, k->slot);
            if (!f->shape->cache[c].on[f->stage])
                continue;
            if (f->shape->cache[c].kind != GRAPH_STATE)
                *sim_cell(&l, p) = (struct sim_cell){.row = sim_row(v, c), .id = id, .guessed = guessed};
            state[c] = sim_mix(state[c], v);
            if (f->shape->cache[c].kind == GRAPH_STATE && !guessed)
                sim_block(f, c, l.table[0])->row = state[c];
        }
        f->value[slot][at] = v;
        f->token[slot][at] = tokens[at];
        if (f->next != NULL)
            f->next->carry[slot][at] = v;
        if (f->out != NULL)
            memcpy(f->out->window[slot] + (size_t)at * f->model.graph->width, &v, sizeof v);
    }
}

/* What the MTP head begins from. */
static void sim_keep(struct sim_device *f, const struct step_chunk *k, uint32_t slot) {
    if (f->model.graph->want.guess_rows == 0)
        return;
    CHECK(k->tested < f->model.graph->want.guess_rows && k->tested <= CONFIG_MOST_GUESSES);
    for (uint32_t i = 0; i <= k->tested; i++)
        f->hidden[k->slot][i] = f->value[slot][k->first + k->n - k->tested - 1 + i];
}

/* What the MTP head reads and writes of a cache at position p, the last known token's + ahead. A block that
 * is new to the sequence is cleared by the next step only. */
static void sim_guess_cache(const struct sim_device *f, const struct sim_look *l, const struct sim_text *t,
                            uint64_t id, uint32_t p, uint32_t ahead, uint64_t row) {
    for (uint32_t q = 0; q < p; q++) {
        const struct sim_cell *cell = sim_cell(l, q);
        const bool right = q < p - ahead ? cell->row == sim_row(t->v[f->stage][q], l->cache)
                                         : cell->guessed && cell->id == id;
        if (!right)
            sim_fail("device %u, cache %u: the MTP head reads a wrong row of request %llu at position %u",
                     f->index, l->cache, (unsigned long long)id, q);
    }
    if (sim.s->run.pool.blocks[sim_block_at(l, p)].holders != 1)
        sim_fail("device %u, cache %u: the MTP head writes to block %u, which is shared", f->index, l->cache,
                 sim_block_at(l, p));
    *sim_cell(l, p) = (struct sim_cell){.row = sim_row(row, l->cache), .id = id, .guessed = true};
}

/* A draft token of a chunk: often the right one. */
static void sim_guess_chunk(struct sim_device *f, const struct step_header *h, const struct step_chunk *k,
                            uint64_t id, struct step_pick *pick) {
    const int32_t token = ((const int32_t *)(const void *)((const uint8_t *)h + h->at_tokens))[k->first];
    const struct sim_text *t = sim.text_of(id);
    const struct engine_sequence *q = &sim.s->run.sequences[k->slot];
    if (t == NULL || k->n != 1 || k->tested != 0 || q->request == NULL ||
        k->position + 1 < q->request->n_tokens)
        sim_fail("device %u: the MTP head gets a chunk of request %llu that cannot be", f->index,
                 (unsigned long long)id);
    const uint32_t p = k->position, ahead = p + 1 - q->request->n_tokens;
    if (k->hidden == 0 || k->hidden > CONFIG_MOST_GUESSES + 1 || (ahead > 0 && k->hidden != 1))
        sim_fail("device %u: the MTP head begins from row %u", f->index, k->hidden);
    const uint64_t from = f->hidden[k->slot][k->hidden - 1], made = sim_mix(from, (uint32_t)token);
    if (ahead == 0 && (p == 0 || from != t->v[f->stage][p - 1] || token != t->tokens[p]))
        sim_fail("device %u: the MTP head begins from a wrong hidden state or token of request %llu",
                 f->index, (unsigned long long)id);
    for (uint32_t c = 0; c < h->n_caches; c++) {
        const struct sim_look l = sim_look(f, h, c, k->slot);
        if (f->shape->cache[c].on[f->stage] && f->shape->cache[c].kind == GRAPH_PAGED)
            sim_guess_cache(f, &l, t, id, p, ahead, made);
    }
    f->hidden[k->slot][0] = made;
    const bool right = made % 4 != 0 && p + 1 < t->n;
    *pick =
        (struct step_pick){right ? t->tokens[p + 1] : (int32_t)(made / 4 % f->shape->vocab), made % 64 != 1};
    sim_reach(SIM_HEAD_AGAIN, ahead > 0);
    sim_reach(SIM_HEAD_NOT_FINITE, made % 64 == 1);
    sim_reach(SIM_HEAD_SEVERAL, h->n_chunks > 1);
}

static void sim_guess(struct sim_device *f, const struct step_header *h, uint32_t slot) {
    const struct step_chunk *k = (const struct step_chunk *)(const void *)((const uint8_t *)h + h->at_chunks);
    struct step_pick *picks = (struct step_pick *)(void *)(f->pinned + f->at.picks[slot]);
    const uint32_t *rows = (const uint32_t *)(const void *)((const uint8_t *)h + h->at_rows);
    if (f->next != NULL || h->n_rows != h->n_chunks || h->n_tokens != h->n_chunks)
        sim_fail("device %u: a pass of the MTP head that cannot be", f->index);
    for (uint32_t i = 0; i < h->n_chunks; i++) {
        if (rows[i] != i || k[i].first != i)
            sim_fail("device %u: a pass of the MTP head has rows in another order", f->index);
        sim_guess_chunk(f, h, &k[i], f->ids[slot][i], &picks[i]);
    }
}

/* What a chunk of the draft model belongs to: the text of the request as far as it is told, and then what the
 * draft model itself said. It has all of the chunk's values. */
static const struct sim_text *sim_draft_text(const struct sim_device *f, const struct step_chunk *k,
                                             uint64_t id, struct sim_text *out) {
    const struct sim_text *t = sim.text_of(id);
    const struct engine_sequence *q = &sim.s->run.sequences[k->slot];
    if (t == NULL || q->request == NULL || k->tested != 0 || k->position + k->n > SIM_CONTEXT)
        sim_fail("the draft model gets a chunk of request %llu that cannot be", (unsigned long long)id);
    memset(out, 0, sizeof *out);
    const uint32_t told = q->request->n_tokens;
    for (out->n = 0; out->n < k->position + k->n; out->n++)
        out->tokens[out->n] = out->n < told ? t->tokens[out->n] : f->drafted[k->slot][out->n];
    while (out->n_known < out->n)
        sim_text_next(f->shape, out);
    sim_reach(SIM_DRAFT_AGAIN, k->position >= told);
    sim_reach(SIM_DRAFT_RETURNS, k->position > 0 && k->position < told - 1);
    return out;
}

static void sim_body(struct sim_device *f, const struct step_header *h, uint32_t slot) {
    const struct step_chunk *k = (const struct step_chunk *)(const void *)((const uint8_t *)h + h->at_chunks);
    static struct sim_text drafted[SIM_SEQUENCES];
    const struct sim_text *t[SIM_SEQUENCES];
    const bool drafts = f->index == SIM_DRAFTS_ON;
    sim_reach(SIM_DRAFT_SEVERAL, drafts && h->n_chunks > 1);
    sim_fill(f, h);
    for (uint32_t i = 0; i < h->n_chunks; i++) {
        t[i] = drafts ? sim_draft_text(f, &k[i], f->ids[slot][i], &drafted[i]) : sim.text_of(f->ids[slot][i]);
        if (t[i] == NULL)
            sim_fail("device %u: a step carries request %llu, which has ended", f->index,
                     (unsigned long long)f->ids[slot][i]);
        sim_begin_chunk(f, h, &k[i], t[i], f->ids[slot][i]);
    }
    for (uint32_t i = 0; i < h->n_chunks; i++) {
        sim_compute(f, h, &k[i], slot, t[i], f->ids[slot][i]);
        sim_keep(f, &k[i], slot);
    }
    sim.steps += f->index == 0;
    sim.tokens += f->index == 0 ? h->n_tokens : 0;
}

static bool sim_hits(const struct sim_device *f, enum sim_fault fault, uint32_t count) {
    const bool hits = sim.fault == fault && (fault == SIM_DAMAGED || sim.fault_device == f->index) &&
                      sim.fault_nth == count;
    sim.faulted = sim.faulted || (hits && fault != SIM_DAMAGED);
    sim_reach(SIM_SUBMIT_FAILS, hits && fault == SIM_SUBMIT);
    sim_reach(SIM_DEVICE_LOST, hits && fault == SIM_LOST);
    sim_reach(SIM_DRAFT_FAILS, hits && f->index == SIM_DRAFTS_ON);
    sim_reach(SIM_ROW_DAMAGED, hits && fault == SIM_DAMAGED);
    sim_reach(SIM_FAULT_WHILE_WAITING, hits && fault != SIM_DAMAGED && sim.s->run.n_waiting > 0);
    return hits;
}

/* The chunk that has the step's token. */
static uint32_t sim_owner(const struct step_header *h, uint32_t token) {
    const struct step_chunk *k = (const struct step_chunk *)(const void *)((const uint8_t *)h + h->at_chunks);
    uint32_t i = 0;
    while (token >= k[i].first + k[i].n)
        i++;
    return i;
}

/* The draft model's token of a row, now and then none. It is often the model's, whose last token decides it
 * too. */
static void sim_draft_token(struct sim_device *f, const struct step_header *h, uint32_t slot, uint32_t row,
                            struct step_pick *pick) {
    const struct step_chunk *k = (const struct step_chunk *)(const void *)((const uint8_t *)h + h->at_chunks);
    const struct step_chunk *own = &k[sim_owner(h, row)];
    pick->finite = f->value[slot][row] % 64 != 1;
    f->drafted[own->slot][own->position + row - own->first + 1] = pick->token;
    sim_reach(SIM_DRAFT_NOT_FINITE, !pick->finite);
}

static void sim_tail(struct sim_device *f, const struct step_header *h, uint32_t slot) {
    const uint32_t *rows = (const uint32_t *)(const void *)((const uint8_t *)h + h->at_rows);
    float *logits = (float *)(void *)(f->pinned + f->at.logits[slot]);
    struct step_pick *picks = (struct step_pick *)(void *)(f->pinned + f->at.picks[slot]);
    float unasked[SIM_VOCAB];
    for (uint32_t i = 0; i < h->n_rows; i++) {
        float *row = h->want_logits ? logits + (size_t)i * f->shape->vocab : unasked;
        sim_logits(f->value[slot][rows[i]], f->token[slot][rows[i]], f->shape->vocab, row);
        picks[i] = (struct step_pick){sim_argmax(row, f->shape->vocab), 1};
        if (f->index == SIM_DRAFTS_ON)
            sim_draft_token(f, h, slot, rows[i], &picks[i]);
    }
    if (f->index == SIM_DRAFTS_ON)
        return;
    /* The first row is that of a known token. A reader may not want it any more. */
    if (h->n_rows > 0 && sim_hits(f, SIM_DAMAGED, ++f->tails)) {
        picks[0].finite = 0;
        sim.damaged = f->ids[slot][sim_owner(h, rows[0])];
    }
}

/* Whether rank 0 has ended the requests of a step that another rank still has. */
static bool sim_given_up(const struct sim_device *f, const struct step_header *h, uint32_t slot) {
    for (uint32_t i = 0; i < h->n_chunks; i++)
        if (sim.text_of(f->ids[slot][i]) == NULL)
            return true;
    return false;
}

/* The slot's step has come to its end. */
static void sim_end(struct sim_device *f, uint32_t slot) {
    const struct step_header *h = sim_header(f, slot);
    char now[HASH_TEXT];
    f->steps++;
    if (sim_hits(f, SIM_LOST, f->steps)) {
        f->lost = true;
        return;
    }
    sim_hash(f, slot, now);
    if (strcmp(now, f->descriptor[slot]) != 0)
        sim_fail("device %u: the descriptor of a step changed while it was under way", f->index);
    if (sim.faulted && sim_cluster != NULL && sim_given_up(f, h, slot)) {
        f->state[slot] = SIM_ENDED;
        return;
    }
    if (h->run_body == STEP_BODY)
        sim_body(f, h, slot);
    if (h->run_body == STEP_GUESS)
        sim_guess(f, h, slot);
    else if (f->model.graph->logits != GRAPH_NONE)
        sim_tail(f, h, slot);
    f->state[slot] = SIM_ENDED;
}

/* Every fourth seed has devices whose caches cannot be mapped. It is no draw, so that the others stay as they
 * are. */
static bool sim_moves_blocks(void) {
    return sim.seed % 4 == 2;
}

static void sim_copy(struct sim_device *f, const struct sim_move *m, uint8_t *buffer) {
    for (uint32_t i = 0; i < m->n; i++) {
        const struct device_piece *p = &m->pieces[i];
        const struct graph_cache *g = &f->model.graph->caches[p->cache];
        const struct device_cache *c = &f->model.caches[p->cache];
        const uint32_t first = device_cache_part(&f->model, p->cache, false).first;
        CHECK(p->block < c->n_blocks);
        for (uint32_t u = 0; u < g->n_layers * g->units; u++) {
            uint8_t *at = buffer + p->at + u / g->units * p->apart + u % g->units * g->bytes;
            uint8_t *here = f->kv[first + u / c->units_per_slice] + u % c->units_per_slice * c->unit_bytes +
                            p->block * g->bytes;
            memcpy(m->out ? at : here, m->out ? here : at, g->bytes);
        }
    }
}

/* Ends what is queued before that time, in its order: steps and moves. False: the device is lost. */
static bool sim_end_before(struct sim_device *f, uint64_t ns) {
    for (;;) {
        uint32_t move = SIM_MOVES, slot = 2;
        uint64_t first = ns;
        for (uint32_t i = 0; i < SIM_MOVES; i++)
            if (f->moves[i].queued && f->moves[i].ends_ns < first) {
                move = i;
                first = f->moves[i].ends_ns;
            }
        for (uint32_t k = 0; k < 2; k++)
            if (f->state[k] == SIM_QUEUED && f->ends_ns[k] < first) {
                slot = k;
                first = f->ends_ns[k];
            }
        if (f->lost || first == ns)
            return !f->lost;
        if (slot < 2) {
            sim_end(f, slot);
            continue;
        }
        f->moves[move].queued = false;
        f->moves[move].ended = true;
        sim_copy(f, &f->moves[move], f->moved + device_moves_at(&f->model.moves, move));
    }
}

static bool sim_hangs(const struct sim_device *f) {
    return sim.fault == SIM_HANG && sim.fault_device == f->index && f->steps + 1 >= sim.fault_nth;
}

static stator_status sim_begin_move(struct device *d, uint32_t buffer, bool out,
                                    const struct device_piece *pieces, uint32_t n, stator_error *e) {
    struct sim_device *f = sim_self(d);
    CHECK(buffer < SIM_MOVES && n <= SIM_PIECES && n <= f->model.moves.pieces);
    struct sim_move *m = &f->moves[buffer];
    CHECK(!m->queued && !m->ended && f->moved != NULL);
    if (f->lost)
        return error_set(e, STATOR_DEVICE, "%s: move: the device was lost", f->facts.name);
    f->ended_ns =
        ARITH_MAX(f->ended_ns, sim.now_ns) + 1 + sim_mix(sim.seed, ++f->n_moves) % (sim.longest_ns / 4 + 1);
    *m = (struct sim_move){.queued = true, .out = out, .ends_ns = f->ended_ns, .n = n};
    memcpy(m->pieces, pieces, n * sizeof *pieces);
    if (out) /* for who reads it too early */
        memset(f->moved + device_moves_at(&f->model.moves, buffer), 0xEE,
               buffer < f->model.moves.blocks ? f->model.moves.block_bytes : f->model.moves.checkpoint_bytes);
    sim_reach(SIM_MOVE_BEHIND_STEPS, f->state[0] == SIM_QUEUED || f->state[1] == SIM_QUEUED);
    return STATOR_OK;
}

static stator_status sim_moved(struct device *d, uint32_t buffer, uint64_t timeout_ns, bool *ended,
                               stator_error *e) {
    struct sim_device *f = sim_self(d);
    struct sim_move *m = &f->moves[buffer];
    CHECK(m->queued || m->ended);
    const uint64_t until = sim.now_ns + timeout_ns;
    sim.faulted = sim.faulted || (sim_hangs(f) && m->queued);
    if (timeout_ns > 0)
        sim.now_ns = sim_hangs(f) ? until : ARITH_MIN(until, ARITH_MAX(m->ends_ns, sim.now_ns));
    if (m->queued && m->ends_ns <= sim.now_ns && !sim_hangs(f))
        (void)sim_end_before(f, m->ends_ns + 1);
    *ended = m->ended;
    if (f->lost && !m->ended)
        return error_set(e, STATOR_DEVICE, "%s: moved: the device was lost", f->facts.name);
    m->ended = false;
    return STATOR_OK;
}

static stator_status sim_slice_create(struct device *d, enum device_arena a, uint32_t slice, uint64_t bytes,
                                      stator_error *e) {
    struct sim_device *f = sim_self(d);
    (void)e;
    f->bytes += bytes;
    if (a != DEVICE_KV)
        return STATOR_OK;
    CHECK(slice < SIM_SLICES);
    f->kv[slice] = aligned_alloc(4096, arith_round_up(bytes, 4096));
    CHECK(f->kv[slice] != NULL);
    memset(f->kv[slice], 0, bytes);
    return STATOR_OK;
}

/* The caches, which go to files. */
static void *sim_map(struct device *d, enum device_arena a, uint32_t slice) {
    return a == DEVICE_KV && slice < SIM_SLICES ? sim_self(d)->kv[slice] : NULL;
}

static void *sim_unmapped(struct device *d, enum device_arena a, uint32_t slice) {
    (void)d;
    (void)a;
    (void)slice;
    return NULL;
}

static stator_status sim_upload(struct device *d, enum device_arena a, uint32_t slice, uint64_t offset,
                                const void *src, uint64_t bytes, stator_error *e) {
    (void)d;
    (void)a;
    (void)slice;
    (void)offset;
    (void)src;
    (void)bytes;
    (void)e;
    return STATOR_OK;
}

static stator_status sim_upload_wait(struct device *d, stator_error *e) {
    (void)d;
    (void)e;
    return STATOR_OK;
}

static void sim_parallel(struct device *d, void (*f)(void *context, uint32_t member, uint32_t n),
                         void *context) {
    (void)d;
    f(context, 0, 1);
}

static stator_status sim_peer_probe(struct device *d, struct device *to, bool verify, void *work,
                                    uint64_t bytes, struct device_route *r, stator_error *e) {
    (void)d;
    (void)to;
    (void)verify;
    (void)work;
    (void)bytes;
    (void)e;
    memset(r, 0, sizeof *r);
    r->direct = true;
    return STATOR_OK;
}

static stator_status sim_prepare(struct device *d, const struct device_setup *s, stator_error *e) {
    struct sim_device *f = sim_self(d);
    (void)e;
    f->pinned = s->pinned;
    f->moved = s->moved;
    f->in = s->in != NULL && !s->in->direct ? s->in : NULL;
    f->out = s->out != NULL && !s->out->direct ? s->out : NULL;
    f->next = s->out != NULL && s->out->direct ? sim_self(s->out->peer) : NULL;
    f->group = s->group;
    f->first = s->group != NULL ? sim_self(s->group->devices[0]) : f;
    CHECK(f->model.graph->width * sizeof(float) >= sizeof(uint64_t));
    for (uint32_t c = 0; c < f->model.graph->n_caches; c++)
        for (uint32_t i = 0; f->model.graph->caches[c].n_layers > 0 && i < f->model.caches[c].n_blocks; i++)
            for (uint32_t k = 0; k < sim_cells(f, c); k++)
                sim_block(f, c, i)[k] =
                    (struct sim_cell){.row = sim_mix((uint64_t)i * SIM_TOKENS + k, sim.seed), .id = ~0ull};
    for (int k = 0; k < 2; k++)
        memcpy(f->pinned + f->at.step[k], &f->model.step, sizeof f->model.step);
    return STATOR_OK;
}

static void *sim_step_slot(struct device *d, uint32_t slot) {
    struct sim_device *f = sim_self(d);
    CHECK(slot < f->model.slots && f->state[slot] != SIM_QUEUED);
    return f->pinned + f->at.step[slot];
}

static stator_status sim_submit(struct device *d, uint32_t slot, stator_error *e) {
    struct sim_device *f = sim_self(d);
    const struct step_header *h = sim_header(f, slot);
    const struct step_chunk *k = (const struct step_chunk *)(const void *)((const uint8_t *)h + h->at_chunks);
    CHECK(slot < f->model.slots && f->state[slot] != SIM_QUEUED && h->n_tokens <= SIM_BATCH &&
          h->n_chunks <= SIM_SEQUENCES);
    if (f->lost || sim_hits(f, SIM_SUBMIT, ++f->submits))
        return error_set(e, STATOR_DEVICE, "%s: submit: the device was lost", f->facts.name);
    const char *flaw = device_step_flaw(&f->model, h);
    flaw = flaw == NULL ? device_tables_flaw(&f->model, h) : flaw;
    if (flaw != NULL)
        sim_fail("device %u: a step with a flaw: %s", f->index, flaw);
    if (h->run_body == STEP_BODY && slot != f->bodies++ % f->model.slots)
        sim_fail("device %u: steps overtake each other", f->index);
    for (uint32_t i = 0; i < h->n_chunks; i++) {
        const struct engine_sequence *q = &sim.s->run.sequences[k[i].slot];
        f->ids[slot][i] = q->request != NULL ? atomic_load(&q->request->id) : 0;
    }
    sim_hash(f, slot, f->descriptor[slot]);
    if (f->model.graph->logits != GRAPH_NONE) /* NaN, for who reads too early or what it did not ask for */
        memset(f->pinned + f->at.logits[slot], 0xFF,
               f->model.graph->values[f->model.graph->logits].half_bytes);
    f->state[slot] = SIM_QUEUED;
    f->nth[slot] = f->submits;
    f->ended_ns = ARITH_MAX(f->ended_ns, sim.now_ns) + 1 + sim_below(sim.longest_ns);
    f->ends_ns[slot] = f->ended_ns;
    f->counters.submits++;
    return STATOR_OK;
}

/* Devices of a group need each other's values, so a step ends on none before it has begun on all. */
static bool sim_waits_for_group(const struct sim_device *f, uint32_t slot) {
    for (uint32_t i = 0; f->group != NULL && i < f->group->count; i++)
        if (sim_self(f->group->devices[i])->submits < f->nth[slot])
            return true;
    return false;
}

static stator_status sim_wait(struct device *d, uint32_t slot, uint64_t timeout_ns, bool *ended,
                              stator_error *e) {
    struct sim_device *f = sim_self(d);
    CHECK(f->state[slot] != SIM_FREE);
    const uint64_t until = sim.now_ns + timeout_ns;
    const bool hangs = sim_hangs(f), stays = hangs || sim_waits_for_group(f, slot);
    sim.faulted = sim.faulted || (hangs && f->state[slot] == SIM_QUEUED);
    sim_reach(SIM_DEVICE_HANGS, hangs && f->state[slot] == SIM_QUEUED);
    sim.now_ns = timeout_ns == 0 ? sim.now_ns
                 : stays         ? until
                                 : ARITH_MIN(until, ARITH_MAX(f->ends_ns[slot], sim.now_ns));
    if (f->state[slot] == SIM_QUEUED && !stays && !f->lost && f->ends_ns[slot] <= sim.now_ns) {
        /* What is before it in the queue comes first. */
        if (sim_end_before(f, f->ends_ns[slot]))
            sim_end(f, slot);
    }
    *ended = f->state[slot] == SIM_ENDED;
    if (f->lost && !*ended)
        return error_set(e, STATOR_DEVICE, "%s: wait: the device was lost", f->facts.name);
    return STATOR_OK;
}

static const float *sim_logits_of(struct device *d, uint32_t slot) {
    CHECK(sim_self(d)->state[slot] == SIM_ENDED);
    return (const float *)(void *)(sim_self(d)->pinned + sim_self(d)->at.logits[slot]);
}

static const struct step_pick *sim_picks(struct device *d, uint32_t slot) {
    CHECK(sim_self(d)->state[slot] == SIM_ENDED);
    return (const struct step_pick *)(void *)(sim_self(d)->pinned + sim_self(d)->at.picks[slot]);
}

static uint32_t sim_spans(struct device *d, uint32_t slot, struct device_span *out, uint32_t max) {
    (void)d;
    (void)slot;
    (void)out;
    (void)max;
    return 0;
}

static void sim_counters(const struct device *d, struct device_counters *c) {
    *c = ((const struct sim_device *)d)->counters;
}

static uint64_t sim_taken_bytes(const struct device *d) {
    return ((const struct sim_device *)d)->bytes;
}

static void sim_close(struct device *d) {
    struct sim_device *f = sim_self(d);
    for (uint32_t i = 0; i < SIM_SLICES; i++)
        free(f->kv[i]);
    sim.devices[f->index] = NULL;
}

static const struct device_vtable sim_vtable = {.slice_create = sim_slice_create,
                                                .map = sim_map,
                                                .upload = sim_upload,
                                                .upload_wait = sim_upload_wait,
                                                .parallel = sim_parallel,
                                                .peer_probe = sim_peer_probe,
                                                .prepare = sim_prepare,
                                                .step_slot = sim_step_slot,
                                                .submit = sim_submit,
                                                .wait = sim_wait,
                                                .logits = sim_logits_of,
                                                .picks = sim_picks,
                                                .spans = sim_spans,
                                                .counters = sim_counters,
                                                .taken_bytes = sim_taken_bytes,
                                                .close = sim_close};

stator_status device_choose(const char *name, const struct device_options *o, struct device_choice *c,
                            uint32_t max, uint32_t *n, stator_error *e) {
    unsigned index = 0;
    (void)o;
    (void)max;
    memset(c, 0, sizeof *c);
    if (sscanf(name, "sim:%u", &index) != 1 || index > SIM_DRAFTS_ON)
        return error_set(e, STATOR_USAGE, "%s: sim:0 to sim:%d are expected", name, SIM_DRAFTS_ON);
    *n = 1;
    snprintf(c->facts.name, sizeof c->facts.name, "sim:%u", index);
    snprintf(c->facts.kind, sizeof c->facts.kind,
             sim_cluster != NULL ? "gpu" : "sim"); /* as others are told */
    snprintf(c->tier, sizeof c->tier, "sim");
    c->facts.memory = (uint64_t)1 << 30;
    c->facts.alignment = 65536;
    c->threads = 1;
    c->where[0] = index;
    return STATOR_OK;
}

stator_status device_takes(const struct device_choice *c, const struct device_model *m, stator_error *e) {
    (void)c;
    (void)m;
    (void)e;
    return STATOR_OK;
}

uint64_t device_host_bytes(const struct device_choice *c, const struct device_model *m, bool trace) {
    if (c->facts.remote)
        return sim_cluster->remote->host_bytes(c, m, trace);
    return arith_round_up(sizeof(struct sim_device), CARVE_ALIGN);
}

stator_status device_open(const struct device_opening *o, struct device **out, stator_error *e) {
    struct sim_device *f = o->memory;
    const struct device_model *m = o->model;
    if (o->choice->facts.remote)
        return sim_cluster->remote->open(o, out, e);
    (void)e;
    CHECK(o->bytes >= sizeof *f);
    memset(f, 0, sizeof *f);
    f->vtable = sim_vtable;
    if (sim_moves_blocks()) {
        f->vtable.map = sim_unmapped;
        f->vtable.move = sim_begin_move;
        f->vtable.moved = sim_moved;
    }
    f->device.vtable = &f->vtable;
    f->model = *m;
    f->facts = o->choice->facts;
    f->index = o->choice->where[0];
    f->shape = f->index == SIM_DRAFTS_ON ? &sim.draft : &sim.shape;
    f->stage = f->index == SIM_DRAFTS_ON ? 0 : sim.stage[f->index];
    device_pinned_lay_out(&f->facts, m, &f->at);
    sim.devices[f->index] = f;
    *out = &f->device;
    return STATOR_OK;
}

#endif
