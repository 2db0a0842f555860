/* The slots of a GPU for experts that the processors compute otherwise (memory.expert_slots): the device's
 * arena "slots". */
#ifndef STATOR_PLAN_EXPERT_SLOTS_H
#define STATOR_PLAN_EXPERT_SLOTS_H

#include "plan/planning.h"

/* Fills model.cached of the device, whose model is hosted; with "auto" there are none yet.
 * STATOR_DOES_NOT_FIT: slots in too many slices. */
stator_status expert_slots_plan(struct planning *s, uint32_t index, uint64_t slice_limit, stator_error *e);
/* memory.expert_slots = "auto": as many as `room` bytes hold. */
void expert_slots_fill(const struct device_facts *f, struct device_model *m, uint64_t room);
/* Bytes of the arena; 0: there is none. */
uint64_t expert_slots_bytes(const struct device_facts *f, const struct device_model *m);
void expert_slots_add(const struct device_facts *f, const struct device_model *m, struct plan_place *place,
                      struct plan *p);

#endif
