/* Draft tokens of the model's MTP head. Each pass of the head proposes one more token for every sequence, on
 * the last device and in the slot of the step that was just delivered. Thread: the engine's. */
#ifndef STATOR_ENGINE_NEXTN_H
#define STATOR_ENGINE_NEXTN_H

#include "engine/engine.h"

/* struct speculation_guesser. */
stator_status nextn_follow(struct stator *s, struct engine_step *step, stator_error *e);

#endif
