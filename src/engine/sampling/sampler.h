/* From a row of logits to a token. Random numbers are counter-based on (seed, position), so a request's text
 * depends on nothing but its own logits, settings and seed. Order: what a grammar allows, logit biases,
 * repeat penalty, presence and frequency penalty, DRY, min_tokens, top-n-sigma, top-k, typical-p, top-p,
 * min-p, XTC, temperature. At temperature 0 it takes the likeliest token that the grammar and min_tokens
 * allow.
 *
 * Thread: the engine's. It allocates nothing. */
#ifndef STATOR_ENGINE_SAMPLER_H
#define STATOR_ENGINE_SAMPLER_H

#include "base/carve.h"
#include "stator.h"

#include <stdint.h>

#define SAMPLER_ENDS   1  /* the token ends an answer */
#define SAMPLER_BREAKS 2  /* repetitions end before the token (DRY) */
#define SAMPLER_LAST   64 /* tokens that the repeat penalty looks back at */

struct sampler_settings {
#define SAMPLING_NUMBER(name, ...) float name;
#define SAMPLING_COUNT(name, ...)  uint32_t name;
#define SAMPLING_WINDOW            SAMPLING_COUNT
#define SAMPLING_SEED(name, ...)   uint64_t name;
#include "config/sampling.def"
    uint32_t n_bias;
    const stator_logit_bias *bias; /* tokens of the vocabulary */
};

struct sampler_candidate {
    float logit;
    int32_t token;
};

struct sampler {
    uint32_t vocab;
    struct sampler_candidate *heap;   /* vocab */
    struct sampler_candidate *chosen; /* vocab, best first */
    float *weight;                    /* vocab */
    uint32_t *count;                  /* vocab: all 0 between calls */
    uint8_t *marks;                   /* vocab: SAMPLER_ENDS and SAMPLER_BREAKS; all 0 after sampler_layout */
    uint32_t most;                    /* tokens of a sequence */
    uint32_t *repeats;                /* most: of DRY */
};

/* most: tokens that a sequence can have. */
void sampler_layout(struct sampler *s, struct carve *c, uint32_t vocab, uint32_t most);
/* Marks a token: whether it ends an answer, and by its text (n bytes) whether repetitions end before it. */
void sampler_mark(struct sampler *s, int32_t token, bool ends, const char *text, uint64_t n);

/* Whether sampler_pick takes the token with the largest logit. */
bool sampler_is_plain(const struct sampler_settings *set);

/* logits: [vocab], all finite. allowed: a bit per token that is a candidate, at least one; NULL: all are
 * candidates. tokens: the n tokens of the sequence so far; the last n_generated of them were generated.
 * position: of the token to choose. */
int32_t sampler_pick(struct sampler *s, const struct sampler_settings *set, const float *logits,
                     const uint64_t *allowed, const int32_t *tokens, uint32_t n, uint32_t n_generated,
                     uint32_t position);

/* The log probability of a token by these logits, as stator.h defines it, and of the n likeliest (at most
 * STATOR_TOP_LOGPROBS) into top; returns how many those are. allowed: as above, with the token. */
uint32_t sampler_logprobs(struct sampler *s, const float *logits, const uint64_t *allowed, int32_t token,
                          uint32_t n, float *chosen, stator_logprob *top);

/* In [0, 1), 24 bits, from the counter (seed, position). */
float sampler_random(uint64_t seed, uint64_t position);

#endif
