/* Slots: the text of the last request that ended in each, and what is done with it: a SAVE writes its blocks
 * and a named file (kvsave.h), a RESTORE brings the blocks back into the pool, an ERASE forgets it.
 *
 * A SAVE or RESTORE is a request that takes part in no step. It is admitted like others, so it holds what the
 * pool has of its text and waits for files of what it lacks (kv_disk.h). Then a SAVE copies its blocks into
 * buffers, from the end of the text, and the disk's thread writes them, and last the named file. Steps go on
 * meanwhile: a kept block is never written again, so it is enough to wait for the steps that had begun.
 *
 * Nothing happens without cache.kv_dir. Thread: the engine's. */
#ifndef STATOR_ENGINE_KV_SLOTS_H
#define STATOR_ENGINE_KV_SLOTS_H

#include "engine/engine.h"

void kv_slots_lay_out(struct stator *s, struct carve *c);

/* q ends: its text becomes its slot's. */
void kv_slots_note(struct stator *s, struct engine_sequence *q);

/* An action was taken from the ring. True: it has ended already, and its request says how. */
bool kv_slots_take(struct stator *s, struct engine_request *r);
/* q has all of its text that memory and files have. */
void kv_slots_ready(struct stator *s, struct engine_sequence *q);
/* Continues a SAVE. */
void kv_slots_go_on(struct stator *s, struct engine_sequence *q);
/* The named file was written, or not. */
void kv_slots_saved(struct stator *s, struct engine_sequence *q, const struct kv_job *job);

#endif
