/* Proof that a run stays inside its plan: the bytes of the devices' arenas that belong to no block hold a
 * pattern from start to close. */
#ifndef STATOR_ENGINE_ENFORCE_H
#define STATOR_ENGINE_ENFORCE_H

#include "engine/engine.h"

/* Writes the pattern; after the arenas are created, on the engine thread. */
void enforce_poison(struct stator *s);
/* Looks at it again before the devices are closed. False: something wrote outside its block; the first such
 * byte is logged (and ends the process where STATOR_DEBUG is set). */
bool enforce_check(struct stator *s);
/* The first byte of slice `slice` of arena `arena` of a place, from `from` on, that no block has, and the
 * first one behind it that a block has; false: there is none. */
bool enforce_gap(const struct plan *p, uint32_t place, uint32_t arena, uint32_t slice, uint64_t from,
                 uint64_t *begin, uint64_t *end);

#endif
