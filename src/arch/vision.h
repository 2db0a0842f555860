/* The vision tower of an mmproj file as one more model: its shape, and the builder of its graph (arch.h).
 *
 * A step is one picture: a chunk of one sequence, whose tokens are its patches in the order of the squares
 * that become tokens (row by row of squares, and inside a square row by row). graph.pictures holds their
 * pixels
 * ((x - mean) / spread; colour, row, column), the step's angles those of each patch's place, and graph.logits
 * has a row of the text's width for each token. Layers use one cache in turn. Only pixtral has a graph so
 * far.
 */
#ifndef STATOR_ARCH_VISION_H
#define STATOR_ARCH_VISION_H

#include "graph/graph.h"
#include "model/tower.h"

/* Fills *t and *s of an open file; s->tower is t. max_pixels bounds a picture (tower_most_patches).
 * STATOR_BAD_MODEL: as tower_read, or sizes that we can't compute with. STATOR_USAGE: a projector without a
 * graph. */
stator_status vision_read(const struct gguf *g, uint64_t max_pixels, struct tower *t, struct shape *s,
                          stator_error *e);

#endif
