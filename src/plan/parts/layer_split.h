/* Which device gets which layers. Pure arithmetic on bytes: the same numbers give the same split on any
 * machine. */
#ifndef STATOR_PLAN_LAYER_SPLIT_H
#define STATOR_PLAN_LAYER_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

#define LAYER_SPLIT_MAX_DEVICES 8
#define LAYER_SPLIT_MAX_LAYERS  512

struct layer_split_device {
    uint64_t budget; /* bytes that all of these may take */
    uint64_t held;   /* bytes beside the layers that a step does not read as a whole: the embedding */
    uint64_t output; /* bytes beside the layers that a step reads: the output matrix */
    uint64_t speed;  /* bandwidth, or memory where bandwidths are not known; above 0 */
};

/* Contiguous runs of layers, at least one each (n <= n_layers): ends[i] is the first layer after device i's.
 * The slowest device's time (load / speed) is as short as it can be with every device within its budget;
 * where that is impossible, the worst overload is as small as it can be, and the answer is false. */
bool layer_split_auto(const struct layer_split_device *devices, uint32_t n, const uint64_t *layer_bytes,
                      uint32_t n_layers, uint32_t *ends);

/* Moves ends so that no cut is behind layer `joined`: the last device gets it and all layers after it. n <=
 * joined + 1. */
void layer_split_join(uint32_t *ends, uint32_t n, uint32_t joined);

/* In the proportions of shares (all above 0); shares that add up to n_layers are counts. */
void layer_split_shares(const uint32_t *shares, uint32_t n, uint32_t n_layers, uint32_t *ends);

#endif
