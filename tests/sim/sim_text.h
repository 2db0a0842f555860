/* The simulator's naive model of the service: what a text says if nothing is cached, batched or shared.
 *
 * Instead of numbers, a model computes one hash per token and device. v[d][p], the value of device d at
 * position p, follows from the value of the device before it (on device 0: from the token and the position)
 * and from what each cache of d holds for the positions before p:
 *
 *   PAGED: the sum of sim_read(row, q) over all q < p
 *   RING:  the same over the window
 *   STATE: a hash over the values of all positions before p
 *
 * The row of a cache at p is a hash of v[d][p]. Logits follow from the last device's value. Here all of it is
 * computed from arrays by position. sim_device.h computes the same from blocks, as the engine tells it to. */
#ifndef STATOR_TESTS_SIM_TEXT_H
#define STATOR_TESTS_SIM_TEXT_H

#include "testing.h"

#include "engine/engine.h"

enum { SIM_CONTEXT = 256, SIM_DEVICES = 4, SIM_STAGES = 4, SIM_VOCAB = 128 };

static inline uint64_t sim_mix(uint64_t a, uint64_t b) {
    uint64_t h = (a ^ (b + 0x9E3779B97F4A7C15u)) * 0xBF58476D1CE4E5B9u;
    h = (h ^ h >> 29) * 0x94D049BB133111EBu;
    return h ^ h >> 32;
}

/* A cache's row for a value; never 0, which is what a cleared block holds. */
static inline uint64_t sim_row(uint64_t value, uint32_t cache) {
    return sim_mix(value, cache + 1) | 1;
}

/* What a row at position q adds to a sum. */
static inline uint64_t sim_read(uint64_t row, uint32_t q) {
    return sim_mix(row, q);
}

/* Mostly the token is decided by the one before it, so that texts repeat themselves and drafts are right. */
static inline void sim_logits(uint64_t value, int32_t token, uint32_t vocab, float *logits) {
    for (uint32_t i = 0; i < vocab; i++)
        logits[i] = (float)(uint32_t)(sim_mix(value, i) >> 40) * 0x1p-21f - 4.0f;
    if (sim_mix(value, vocab) % 16 < 14)
        logits[(uint32_t)(token * 5 + 1) % 7] += 8.0f;
}

static inline int32_t sim_argmax(const float *logits, uint32_t vocab) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < vocab; i++)
        best = logits[i] > logits[best] ? i : best;
    return (int32_t)best;
}

/* Of the model that a run has. */
struct sim_shape {
    uint32_t n_stages, n_caches, vocab, context; /* n_stages: devices, or groups of a tensor split */
    struct {
        enum graph_cache_kind kind;
        uint32_t window;
        bool on[SIM_STAGES]; /* a layer of the stage uses it */
    } cache[GRAPH_MAX_CACHES];
};

struct sim_text {
    uint32_t n;       /* tokens */
    uint32_t n_known; /* values */
    int32_t tokens[SIM_CONTEXT + 1];
    uint64_t v[SIM_STAGES][SIM_CONTEXT + 1];
    uint64_t sum[SIM_STAGES][GRAPH_MAX_CACHES];   /* PAGED: over the known positions */
    uint64_t state[SIM_STAGES][GRAPH_MAX_CACHES]; /* STATE: behind them */
};

static inline uint64_t sim_text_window(const struct sim_text *t, uint32_t d, uint32_t c, uint32_t window,
                                       uint32_t p) {
    uint64_t sum = 0;
    for (uint32_t q = p + 1 > window ? p + 1 - window : 0; q < p; q++)
        sum += sim_read(sim_row(t->v[d][q], c), q);
    return sum;
}

/* The value of the next position, whose token is there. */
static inline void sim_text_next(const struct sim_shape *s, struct sim_text *t) {
    const uint32_t p = t->n_known++;
    uint64_t v = sim_mix((uint32_t)t->tokens[p], p);
    for (uint32_t d = 0; d < s->n_stages; d++) {
        for (uint32_t c = 0; c < s->n_caches; c++)
            if (s->cache[c].on[d])
                v = sim_mix(v, s->cache[c].kind == GRAPH_PAGED ? t->sum[d][c]
                               : s->cache[c].kind == GRAPH_RING
                                   ? sim_text_window(t, d, c, s->cache[c].window, p)
                                   : t->state[d][c]);
        t->v[d][p] = v;
        for (uint32_t c = 0; c < s->n_caches; c++) {
            t->sum[d][c] += sim_read(sim_row(v, c), p);
            t->state[d][c] = sim_mix(t->state[d][c], v);
        }
    }
}

/* Values of all tokens; the logits behind position p. */
static inline void sim_text_logits(const struct sim_shape *s, struct sim_text *t, uint32_t p, float *logits) {
    while (t->n_known <= p)
        sim_text_next(s, t);
    sim_logits(t->v[s->n_stages - 1][p], t->tokens[p], s->vocab, logits);
}

/* The token that a budget forces behind an answer of n tokens; -1: none. It looks at the whole answer each
 * time. */
static inline int32_t sim_forced(const stator_budget *b, const int32_t *answer, uint32_t n) {
    bool inside = b->begun != 0;
    uint32_t used = 0;
    for (uint32_t i = 0;; i++) {
        for (size_t k = 0; inside && used >= b->tokens && k < b->n_queue; k++, i++) {
            if (i == n)
                return b->queue[k];
            if (k + 1 == b->n_queue)
                inside = false; /* leaves the loop, with i behind the queue */
        }
        if (i == n)
            return -1;
        used += inside;
        inside = inside ? answer[i] != b->close[0] : answer[i] == b->open[0];
    }
}

/* Appends the answer to a prompt: `most` tokens, or as many as the context allows. */
static inline void sim_text_answer(const struct sim_shape *s, struct sampler *sampler,
                                   const struct sampler_settings *set, const stator_budget *budget,
                                   uint32_t most, struct sim_text *t) {
    float logits[SIM_VOCAB];
    const uint32_t n_prompt = t->n;
    while (t->n - n_prompt < most && t->n <= s->context) {
        sim_text_logits(s, t, t->n - 1, logits);
        const int32_t forced =
            budget != NULL ? sim_forced(budget, t->tokens + n_prompt, t->n - n_prompt) : -1;
        const int32_t token = forced >= 0             ? forced
                              : sampler_is_plain(set) ? sim_argmax(logits, s->vocab)
                                                      : sampler_pick(sampler, set, logits, NULL, t->tokens,
                                                                     t->n, t->n - n_prompt, t->n);
        t->tokens[t->n++] = token;
    }
}

#endif
