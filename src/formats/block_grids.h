/* The grids of the IQ formats (block_grids.c says how they are written). */
#ifndef STATOR_FORMATS_BLOCK_GRIDS_H
#define STATOR_FORMATS_BLOCK_GRIDS_H

#include <stdint.h>

extern const uint16_t block_grid_iq2_xxs[256];
extern const uint16_t block_grid_iq2_xs[512];
extern const uint16_t block_grid_iq2_s[1024];
extern const uint16_t block_grid_iq3_xxs[256];
extern const uint16_t block_grid_iq3_s[512];
extern const uint16_t block_grid_iq1[2048];

#endif
