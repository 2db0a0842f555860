/* The plan of memory: places (devices and the host), their arenas, the slices of each arena; what was really allocated
 * and used next to it. Knows bytes, neither tensors nor devices.
 *
 * Invariants (plan_check): an arena's bytes are the sum of its slices; a place's total is the sum of its arenas; the
 * host is the last place. Filled by the engine's planner, read by everybody, `allocated` and `used` written by the owner
 * of the arena only. */
#ifndef STATOR_MEMORY_PLAN_H
#define STATOR_MEMORY_PLAN_H

#include "base/hash.h"
#include "base/json_writer.h"

#include <stdbool.h>
#include <stdint.h>

#define PLAN_MAX_SLICES 64
#define PLAN_MAX_ARENAS 8
#define PLAN_MAX_PLACES 9

struct plan_arena {
    char name[32];
    uint64_t bytes;
    uint64_t lower_bound; /* no plan for these blocks needs less */
    uint32_t n_slices;
    uint64_t slices[PLAN_MAX_SLICES];
    uint64_t allocated; /* bytes really taken so far */
    uint64_t used;      /* high-water mark of bytes in use */
};

struct plan_place {
    char name[32]; /* "cpu:0", "host" */
    bool is_host;
    uint64_t budget;
    uint64_t total;
    uint32_t n_arenas;
    struct plan_arena arenas[PLAN_MAX_ARENAS];
};

/* What does not fit, and what would. 0 in largest_*: nothing would. */
struct plan_short {
    char where[80]; /* "host: kv" */
    uint64_t bytes; /* over the budget */
    uint64_t largest_context;
    uint64_t largest_batch;
    uint64_t largest_sequences;
};

struct plan {
    char hash[HASH_TEXT];
    bool fits;
    uint32_t n_places;
    struct plan_place places[PLAN_MAX_PLACES];
    struct plan_short missing; /* valid if !fits */
};

void plan_init(struct plan *p);
struct plan_place *plan_add_place(struct plan *p, const char *name, bool is_host, uint64_t budget);
/* One slice of `bytes`; more with plan_add_slice. */
struct plan_arena *plan_add_arena(struct plan_place *place, const char *name, uint64_t bytes, uint64_t lower_bound);
void plan_add_slice(struct plan_place *place, struct plan_arena *a, uint64_t bytes);

struct plan_place *plan_find(struct plan *p, const char *name);   /* NULL: not there */
struct plan_arena *plan_arena_find(struct plan_place *place, const char *name);
void plan_check(const struct plan *p);

/* The object of `stator plan --json` (name may be NULL at the top). */
void plan_to_json(const struct plan *p, struct json *j, const char *name);

#endif
