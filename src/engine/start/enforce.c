#include "engine/start/enforce.h"

#include <inttypes.h>
#include <string.h>

#define PATTERN 0xA5

bool enforce_gap(const struct plan *p, uint32_t place, uint32_t arena, uint32_t slice, uint64_t from,
                 uint64_t *begin, uint64_t *end) {
    uint64_t bytes = p->places[place].arenas[arena].slices[slice];
    for (uint64_t at = from; at < bytes;) {
        uint64_t covered = at; /* up to here by one block */
        uint64_t next = bytes; /* where the next block begins */
        for (uint32_t i = 0; i < p->n_blocks; i++) {
            const struct plan_block *b = &p->blocks[i];
            if (b->place != place || b->arena != arena || b->slice != slice || b->offset + b->bytes <= at)
                continue;
            if (b->offset <= at)
                covered = ARITH_MAX(covered, b->offset + b->bytes);
            else
                next = ARITH_MIN(next, b->offset);
        }
        if (covered == at) {
            *begin = at;
            *end = next;
            return true;
        }
        at = covered;
    }
    return false;
}

struct gap {
    const char *place;
    const struct plan_arena *arena;
    uint32_t slice;
    uint8_t *memory; /* of the slice */
    uint64_t begin;
    uint64_t end;
};

/* Calls visit for every gap in memory that the host can touch, until one returns false. */
static bool walk(struct stator *s, uint32_t place, bool (*visit)(struct stator *s, const struct gap *g)) {
    struct device *d = s->devices[place].device;
    if (s->planning.devices[place].facts.remote)
        return true;
    for (int i = 0; i < DEVICE_ARENAS; i++) {
        struct gap g = {.place = s->planning.plan.places[place].name};
        g.arena = plan_arena_find(&s->planning.plan.places[place], device_arena_name((enum device_arena)i));
        if (g.arena == NULL)
            continue;
        uint32_t arena = (uint32_t)(g.arena - s->planning.plan.places[place].arenas);
        for (g.slice = 0; g.slice < g.arena->n_slices; g.slice++) {
            g.memory = d->vtable->map(d, (enum device_arena)i, g.slice);
            for (uint64_t at = 0; g.memory != NULL &&
                                  enforce_gap(&s->planning.plan, place, arena, g.slice, at, &g.begin, &g.end);
                 at = g.end)
                if (!visit(s, &g))
                    return false;
        }
    }
    return true;
}

static bool poison(struct stator *s, const struct gap *g) {
    CHECK(g->begin < g->end && g->end <= g->arena->slices[g->slice]);
    (void)s;
    memset(g->memory + g->begin, PATTERN, g->end - g->begin);
    return true;
}

static bool intact(struct stator *s, const struct gap *g) {
    for (uint64_t i = g->begin; i < g->end; i++) {
        if (g->memory[i] == PATTERN)
            continue;
        log_write(&s->log, STATOR_LOG_ERROR,
                  "%s: arena %s, slice %u: byte %" PRIu64
                  " was written, but no block of the plan has it: this is a bug, please report it",
                  g->place, g->arena->name, g->slice, i);
        return false;
    }
    return true;
}

void enforce_poison(struct stator *s) {
    for (uint32_t i = 0; i < planning_parts(&s->planning); i++)
        (void)walk(s, i, poison);
}

bool enforce_check(struct stator *s) {
    bool ok = true;
    for (uint32_t i = 0; i < planning_parts(&s->planning); i++)
        ok = walk(s, i, intact) && ok;
#ifdef STATOR_DEBUG
    CHECK(ok);
#endif
    return ok;
}
