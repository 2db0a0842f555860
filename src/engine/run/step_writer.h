/* Writes parts of a step descriptor: angles of RoPE, and blocks to clear or copy. Also copies a descriptor to
 * another device. */
#ifndef STATOR_ENGINE_STEP_WRITER_H
#define STATOR_ENGINE_STEP_WRITER_H

#include "engine/engine.h"

/* A token's place in time, its row and its column (shape.rope_sections). In text all are its position; those
 * of a picture's tokens, and of what stands behind it, come from pictures_locate. */
struct step_place {
    uint32_t at[3];
};
static inline struct step_place step_writer_text(uint32_t position) {
    return (struct step_place){{position, position, position}};
}

/* Where the host writes the floats of a device's value: in its exchange, or for a GPU in its pinned part.
 * half: of the value, or the slot. */
float *step_writer_value(const struct stator *s, uint32_t device, uint32_t value, uint64_t half);
/* Writes the angles of the step's token number `token`, at this place. */
void step_writer_rope(const struct stator *s, const struct step_header *h, uint8_t *slot, uint32_t token,
                      struct step_place place);
/* The same for any model's graph and the frequencies of its pairs. */
void step_writer_angles(const struct graph *g, const double *frequency, const struct step_header *h,
                        uint8_t *slot, uint32_t token, struct step_place place);
/* Adds a block of a cache that the step fills before anything else: with the content of block `from`, which
 * the step does not fill, or with zeros (STEP_ZEROS). */
void step_writer_fill(struct step_header *h, uint8_t *slot, uint32_t cache, uint32_t block, uint32_t from);
/* Copies a descriptor to another device's slot: only the parts that the step uses. */
void step_writer_copy(uint8_t *to, const uint8_t *from);

#endif
