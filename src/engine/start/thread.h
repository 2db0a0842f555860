/* The engine's thread from its begin to its end: starts the devices, loads, seals, runs, closes. */
#ifndef STATOR_ENGINE_THREAD_H
#define STATOR_ENGINE_THREAD_H

#include "engine/engine.h"

/* What pthread_create takes; engine: a struct stator, prepared. How the start went is told in start.events.
 */
void *thread_main(void *engine);

#endif
