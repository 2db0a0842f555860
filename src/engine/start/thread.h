/* The engine's thread from its begin to its end: starts the devices, loads, seals, runs, closes. */
#ifndef STATOR_ENGINE_THREAD_H
#define STATOR_ENGINE_THREAD_H

#include "engine/engine.h"

/* What pthread_create takes; engine: a struct stator, prepared. How the start went is told in start.events.
 */
void *thread_main(void *engine);
/* On a host of a stage above 0, in place of the loop: runs the steps that rank 0 sends, until its end.
 * Errors: as device_cluster_serve. */
stator_status thread_serve(struct stator *s, stator_error *e);

#endif
