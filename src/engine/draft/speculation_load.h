/* Whether draft tokens pay at a given load. A step's time grows with its tokens once reading the weights no
 * longer limits it, so with several sequences drafts may cost more than their acceptance saves. Nobody can
 * know this beforehand, so it is measured: for each number of sequences a few steps run with drafts, as many
 * without, and the faster way is kept for a long time. No byte of an answer depends on it.
 *
 * Thread: the engine's. */
#ifndef STATOR_ENGINE_SPECULATION_LOAD_H
#define STATOR_ENGINE_SPECULATION_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#define SPECULATION_LOADS 32 /* sequences in a step; more count as so many */

enum {
    SPECULATION_LOAD_TRIAL = 24,  /* steps of a trial, with drafts and then without */
    SPECULATION_LOAD_KEPT = 2048, /* steps until the next trials */
};

/* Of one number of sequences. All zeros is its beginning: a trial with drafts. */
struct speculation_load {
    struct {
        uint64_t tokens, ns; /* of the last trial's steps */
    } with, without;
    enum { SPECULATION_TRY_WITH, SPECULATION_TRY_WITHOUT, SPECULATION_KEEP } phase;
    uint32_t steps; /* in this phase */
    bool pays;      /* KEEP: drafts do */
};

/* Whether the next step with so many sequences may have drafts. */
bool speculation_load_drafts(const struct speculation_load *l);
/* A step has ended that was allowed what speculation_load_drafts says: it brought so many tokens in this
 * time. */
void speculation_load_step(struct speculation_load *l, uint64_t tokens, uint64_t ns);

#endif
