/* The vision tower of an mmproj file as one more model: its shape, and the builder of its graph (arch.h).
 *
 * A step is one picture: a chunk of one sequence, whose tokens are its patches in the order of the squares
 * that become tokens (row by row of squares, and inside a square row by row). graph.pictures holds their
 * pixels
 * ((x - mean) / spread; colour, row, column), the step's angles those of each patch's place, and graph.logits
 * has a row of the text's width for each token. Layers use one cache in turn.
 *
 * qwen3vl_merger: graph.blends says what a patch takes of the table of positions, norms are layer norms, and
 * behind a token's row are those of the deepstacks. Its pairs of RoPE are as neox has them. Heads whose size
 * is no multiple of 32 get zeros behind them for attention, and lose them again. gemma3: the same without
 * RoPE (all angles are 0) and without deepstacks; a picture has the table's size, so a patch takes one row of
 * it. qwen2.5vl_merger: squares come window by window, and inside a window row by row; graph.windows says how
 * many patches each has. Norms are RMS norms, there is no table. */
#ifndef STATOR_ARCH_VISION_H
#define STATOR_ARCH_VISION_H

#include "graph/graph.h"
#include "model/tower.h"

/* Fills *t and *s of an open file; s->tower is t. max_pixels bounds a picture (tower_most_patches).
 * STATOR_BAD_MODEL: as tower_read, or sizes that we can't compute with. */
stator_status vision_read(const struct gguf *g, uint64_t max_pixels, struct tower *t, struct shape *s,
                          stator_error *e);

#endif
