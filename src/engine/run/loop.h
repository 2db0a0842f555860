/* The engine's thread between seal and shutdown. */
#ifndef STATOR_ENGINE_LOOP_H
#define STATOR_ENGINE_LOOP_H

#include "engine/engine.h"

/* Until s->stop; no device works any more when it returns. */
void loop_run(struct stator *s);

#endif
