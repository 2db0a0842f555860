/* From a plan to devices that can run: everything that is allocated after stator_plan and on the engine
 * thread. What a failed start has taken, start_close_devices gives back. */
#ifndef STATOR_ENGINE_START_H
#define STATOR_ENGINE_START_H

#include "engine/engine.h"

/* Opens the devices, allocates the plan, loads, decides the routes, prepares. */
stator_status start_devices(struct stator *s, stator_error *e);
void start_close_devices(struct stator *s);

#endif
