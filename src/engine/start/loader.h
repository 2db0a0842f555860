/* Reading, repacking and uploading weights. */
#ifndef STATOR_ENGINE_LOADER_H
#define STATOR_ENGINE_LOADER_H

#include "engine/engine.h"

/* All weights of the device, through the load window. */
stator_status loader_run(struct stator *s, uint32_t device, stator_error *e);

#endif
