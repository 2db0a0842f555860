/* Whether a step reads spilled experts where they lie, over the bus, or copies them into a window on the
 * device ahead of use: a kernel reads an expert once for every tile of its tokens, a copy brings all of them
 * once. Both come over the same bus, so the bytes decide. Inside the planner. */
#ifndef STATOR_PLAN_EXPERT_STREAM_H
#define STATOR_PLAN_EXPERT_STREAM_H

#include "graph/graph.h"

/* Bytes of the graph's matrices of experts that are spilled. */
uint64_t expert_stream_spilled(const struct graph *g);
/* Of those, what a step of so many tokens is to be expected to read over the bus, if it does not copy: every
 * token chooses each expert as probably as any other. */
double expert_stream_reads(const struct graph *g, uint32_t tokens);
/* The fewest tokens of which a step is to be expected to read more than there is; 0: none of at most `most`
 * does. */
uint32_t expert_stream_least(const struct graph *g, uint32_t most);
/* Bytes of one of the window's two halves, for that much that is spilled: so many experts of one op that
 * copying one half goes on while the other is computed with. */
uint64_t expert_stream_half(const struct graph *g);

#endif
