/* The worker team of a CPU device: persistent threads, pinned, that run one function together. Between calls
 * they spin for a while, then sleep. The calling thread is member 0.
 *
 * Invariants: members' stacks lie in memory given by the caller; after team_create nothing is allocated; a
 * run returns when every member has returned. Owner: the device. One thread (the engine thread) calls
 * team_run. */
#ifndef STATOR_DEVICE_CPU_TEAM_H
#define STATOR_DEVICE_CPU_TEAM_H

#include "base/error.h"
#include "base/phase.h"

#include <stdbool.h>
#include <stdint.h>

#define TEAM_MAX 256
/* Bytes of stack of one member, its thread-local variables included. */
#if defined(__SANITIZE_THREAD__) /* whose state is thread-local */
#define TEAM_STACK (2048 * 1024)
#else
#define TEAM_STACK (256 * 1024)
#endif

struct team;

/* Bytes of memory for a team of n members: n - 1 stacks, each above a guard page. The memory must consist of
 * whole mapped pages that may be protected, aligned to 64 at least. */
uint64_t team_bytes(uint32_t n);
/* Who else works on the same processors. */
enum team_company {
    TEAM_ALONE,   /* nobody, so waiting may take them */
    TEAM_CROWDED, /* others, at any time */
    TEAM_TURNS    /* teams of other engines of this process, of which one works at a time: each run waits for
                     its turn, in the order of asking, and has the processors alone then */
};
/* cpus: n processor numbers to
 * pin members to (cpus[0] is for the caller, which is pinned too), or NULL for no pinning. phase: the
 * engine's; members 1.. are named engine threads of it, the caller names itself. Sets MXCSR = 0x1F80 in every
 * member. STATOR_FAILED names the processor or thread that could not be had. */
stator_status team_create(uint32_t n, const int *cpus, enum team_company company, const struct phase *phase,
                          void *memory, uint64_t bytes, struct team **out, stator_error *e);
/* By the creating thread, which gets back its processors and MXCSR. Joins; NULL is allowed. */
void team_destroy(struct team *t);

/* Runs f(context, member, n) in every member at once. */
void team_run(struct team *t, void (*f)(void *context, uint32_t member, uint32_t n), void *context);
/* Inside a run: all members wait for each other; what was written before is seen by all after. */
void team_barrier(struct team *t, uint32_t member);
uint32_t team_size(const struct team *t);

/* Sharings that may be in flight at once in a team. */
#define TEAM_LANES 8

/* Items that the members of a run share: each has a contiguous share, which depends on the numbers of items
 * and members only, and takes from it piece by piece; when it has none left it takes of the others' what
 * nobody has begun. Begun by all members alike, with a barrier between one sharing and the next of the same
 * lane (below TEAM_LANES). */
struct team_share {
    struct team *team;
    uint64_t items;
    uint32_t member;
    uint32_t lane, turn;
    uint32_t helped; /* members behind this one whose shares are all begun, itself the first */
};

struct team_share team_share_begin(struct team *t, uint32_t member, uint32_t lane, uint64_t items);
/* Items *first .. *end, at most `most`, are the caller's alone; pieces get smaller towards the end of a
 * share, down to `least` (but for what is left at its very end). False: all are begun. */
bool team_share_take(struct team_share *s, uint64_t least, uint64_t most, uint64_t *first, uint64_t *end);

#endif
