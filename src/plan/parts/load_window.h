/* How much of staging reading weights takes. A reader has one region, into which the file is read, where the
 * host can touch the device's memory; else three, the other two for what was packed and is on its way. */
#ifndef STATOR_PLAN_LOAD_WINDOW_H
#define STATOR_PLAN_LOAD_WINDOW_H

#include "graph/graph.h"

/* Bytes of a panel of the weight in the file and as packed; a plain weight is one panel. */
uint64_t load_window_file_panel(const struct graph_weight *w);
uint64_t load_window_packed_panel(const struct graph_weight *w);
/* Bytes that one panel needs in a region, and the regions of a reader. mapped: the host can touch the
 * device's memory. */
uint64_t load_window_region(const struct graph_weight *w, bool mapped);
uint32_t load_window_regions(bool mapped);
/* The least load window: of one reader, for one panel of the widest matrix. */
uint64_t load_window_least(const struct graph *g, bool mapped);

#endif
