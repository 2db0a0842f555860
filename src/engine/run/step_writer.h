/* Angles of RoPE and blocks to set into a step descriptor, and a descriptor into another device's slot. */
#ifndef STATOR_ENGINE_STEP_WRITER_H
#define STATOR_ENGINE_STEP_WRITER_H

#include "engine/engine.h"

/* The angles of the step's token `token`, which has this position in its sequence. */
void step_writer_rope(const struct stator *s, const struct step_header *h, uint8_t *slot, uint32_t token,
                      uint32_t position);
/* The same of any model's graph, whose pairs have these frequencies. */
void step_writer_angles(const struct graph *g, const double *frequency, const struct step_header *h,
                        uint8_t *slot, uint32_t token, uint32_t position);
/* The step sets a block of a cache before anything else, to the content of block `from` (which the step does
 * not set), or STEP_ZEROS. */
void step_writer_fill(struct step_header *h, uint8_t *slot, uint32_t cache, uint32_t block, uint32_t from);
/* The same step in another device's slot: what the step uses, not what the slot could hold. */
void step_writer_copy(uint8_t *to, const uint8_t *from);

#endif
