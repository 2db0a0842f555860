/* Whether draft tokens pay at a given load. A step's time grows with its tokens once reading the weights no
 * longer limits it, so with several sequences drafts may cost more than their acceptance saves. So it is
 * measured: for each number of sequences a few steps run with drafts, as many without, and the faster way is
 * kept for many steps. No byte of an answer depends on it.
 *
 * Thread: the engine's. */
#ifndef STATOR_ENGINE_SPECULATION_LOAD_H
#define STATOR_ENGINE_SPECULATION_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#define SPECULATION_LOADS 32 /* largest number of sequences in a step that has its own row */

enum {
    SPECULATION_LOAD_TRIAL = 24,  /* steps of a trial, with drafts and then without */
    SPECULATION_LOAD_KEPT = 2048, /* steps until the next trials */
};

/* The measurement for one number of sequences. It begins as all zeros: a trial with drafts. */
struct speculation_load {
    struct {
        uint64_t tokens, ns; /* in the steps of the last trial */
    } with, without;
    enum { SPECULATION_TRY_WITH, SPECULATION_TRY_WITHOUT, SPECULATION_KEEP } phase;
    uint32_t steps; /* in this phase */
    bool pays;      /* KEEP: the steps have drafts */
};

/* Whether the next step with so many sequences may have drafts. */
bool speculation_load_drafts(const struct speculation_load *l);
/* Records a step with or without drafts, as speculation_load_drafts said: its tokens and its time. */
void speculation_load_step(struct speculation_load *l, uint64_t tokens, uint64_t ns);

#endif
