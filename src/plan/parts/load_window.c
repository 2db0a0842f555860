#include "plan/parts/load_window.h"

#include "base/arith.h"

uint64_t load_window_file_panel(const struct graph_weight *w) {
    uint64_t row = 0;
    bool ok = block_row_bytes(w->tensor->type, w->tensor->ne[0], &row);
    CHECK(ok);
    return w->packed ? row * PANEL_ROWS : row;
}

uint64_t load_window_packed_panel(const struct graph_weight *w) {
    return w->packed ? w->layout.panel_bytes : w->bytes;
}

uint64_t load_window_region(const struct graph_weight *w, bool mapped) {
    return mapped ? load_window_file_panel(w)
                  : ARITH_MAX(load_window_file_panel(w), load_window_packed_panel(w));
}

uint32_t load_window_regions(bool mapped) {
    return mapped ? 1 : 3;
}

uint64_t load_window_least(const struct graph *g, bool mapped) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < g->n_weights; i++)
        most = ARITH_MAX(most, load_window_region(&g->weights[i], mapped));
    return mapped ? most : load_window_regions(false) * arith_round_up(most, CARVE_ALIGN);
}
