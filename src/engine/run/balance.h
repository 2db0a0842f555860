/* The accounts of the engine's thread: whatever it hands out is either free or with its holder, and the
 * holders' figures add up. The files that own the parts have the sums (sequences.h, checkpoints.h,
 * pipeline.h); those over requests are here.
 *
 * Thread: the engine's, between two rounds of its loop. */
#ifndef STATOR_ENGINE_BALANCE_H
#define STATOR_ENGINE_BALANCE_H

#include "engine/engine.h"

/* Ends the process by a CHECK where an account does not balance. Debug builds call it after every round of
 * the loop, the simulator after every round of any build. It looks at every block of the pool, so other
 * builds leave it out. */
void balance_check(const struct stator *s);

#endif
