/* A panel's bits, block by block: what panel.c and the scalar matmul share. */
#ifndef STATOR_FORMATS_PANEL_PARTS_H
#define STATOR_FORMATS_PANEL_PARTS_H

#include "formats/block_parts.h"
#include "formats/panel.h"

/* Block `block` of row r (0..15) of one panel of a quantised type. */
void panel_take_apart(const struct panel_layout *l, const uint8_t *panel, uint32_t r, uint32_t block,
                      struct block_parts *p);

#endif
