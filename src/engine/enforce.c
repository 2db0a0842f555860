#include "engine/enforce.h"

#include <inttypes.h>
#include <string.h>

#define PATTERN 0xA5

bool enforce_gap(const struct plan *p, uint32_t arena, uint32_t slice, uint64_t from, uint64_t *begin,
                 uint64_t *end) {
    uint64_t bytes = p->places[0].arenas[arena].slices[slice];
    for (uint64_t at = from; at < bytes;) {
        uint64_t covered = at; /* up to here by one block */
        uint64_t next = bytes; /* where the next block begins */
        for (uint32_t i = 0; i < p->n_blocks; i++) {
            const struct plan_block *b = &p->blocks[i];
            if (b->place != 0 || b->arena != arena || b->slice != slice || b->offset + b->bytes <= at)
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

/* Calls visit for every gap in memory that the host can touch, until one returns false. */
static bool walk(struct stator *s, bool (*visit)(struct stator *s, const struct plan_arena *a, uint32_t slice,
                                                 uint8_t *memory, uint64_t begin, uint64_t end)) {
    for (int i = 0; i < DEVICE_ARENAS; i++) {
        const struct plan_arena *a =
            plan_arena_find(&s->plan.places[0], device_arena_name((enum device_arena)i));
        for (uint32_t k = 0; k < a->n_slices; k++) {
            uint8_t *memory = s->device->vtable->map(s->device, (enum device_arena)i, k);
            uint64_t begin = 0;
            uint64_t end = 0;
            for (uint64_t at = 0;
                 memory != NULL &&
                 enforce_gap(&s->plan, (uint32_t)(a - s->plan.places[0].arenas), k, at, &begin, &end);
                 at = end)
                if (!visit(s, a, k, memory, begin, end))
                    return false;
        }
    }
    return true;
}

static bool poison(struct stator *s, const struct plan_arena *a, uint32_t slice, uint8_t *memory,
                   uint64_t begin, uint64_t end) {
    (void)s;
    (void)a;
    (void)slice;
    memset(memory + begin, PATTERN, end - begin);
    return true;
}

static bool intact(struct stator *s, const struct plan_arena *a, uint32_t slice, uint8_t *memory,
                   uint64_t begin, uint64_t end) {
    for (uint64_t i = begin; i < end; i++) {
        if (memory[i] == PATTERN)
            continue;
        log_write(&s->log, STATOR_LOG_ERROR,
                  "%s: arena %s, slice %u: byte %" PRIu64
                  " was written, but no block of the plan has it: this is a bug, please report it",
                  s->plan.places[0].name, a->name, slice, i);
        return false;
    }
    return true;
}

void enforce_poison(struct stator *s) {
    (void)walk(s, poison);
}

bool enforce_check(struct stator *s) {
    bool ok = walk(s, intact);
#ifdef STATOR_DEBUG
    CHECK(ok);
#endif
    return ok;
}
