/* A picture as a step of the vision tower: its pixels, the angles of its patches, and what these take of the
 * table of positions. The engine's thread. */
#ifndef STATOR_ENGINE_RUN_PICTURE_PATCHES_H
#define STATOR_ENGINE_RUN_PICTURE_PATCHES_H

#include "engine/run/pictures.h"

/* Row by row, the token that the tower's k-th is. */
uint32_t picture_patches_token(const struct tower *t, const struct tower_size *size, uint32_t k);
/* The decoded picture of the place as the one chunk of a step in this slot of the tower's device. */
void picture_patches_write(const struct stator *s, const struct picture_place *p, uint8_t *slot);

#endif
