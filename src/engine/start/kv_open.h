/* The folder of cache.kv_dir, at the start of an engine. */
#ifndef STATOR_ENGINE_KV_OPEN_H
#define STATOR_ENGINE_KV_OPEN_H

#include "engine/engine.h"

/* Before the seal, on the engine's thread: opens the folder and starts its thread; nothing if there is none.
 * STATOR_FAILED: the folder can't be used. STATOR_BAD_MODEL: the model's file can't be read. */
stator_status kv_open(struct stator *s, stator_error *e);

#endif
