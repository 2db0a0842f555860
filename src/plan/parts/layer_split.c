#include "plan/parts/layer_split.h"

#include "base/arith.h"

/* Costs from here on are overloads; below are times. */
#define OVER ((uint64_t)1 << 62)

static uint64_t ratio(uint64_t a, uint64_t b, uint64_t scale) {
    unsigned __int128 v = (unsigned __int128)a * scale / ARITH_MAX(b, (uint64_t)1);
    return v < OVER ? (uint64_t)v : OVER - 1;
}

static uint64_t cost(const struct layer_split_device *d, uint64_t layers) {
    uint64_t load = arith_must_add(layers, d->output);
    uint64_t bytes = arith_must_add(load, d->held);
    if (bytes > d->budget)
        return OVER + ratio(bytes, d->budget, 1 << 16);
    return ratio(load, d->speed, (uint64_t)1 << 32);
}

bool layer_split_auto(const struct layer_split_device *devices, uint32_t n, const uint64_t *layer_bytes,
                      uint32_t n_layers, uint32_t *ends) {
    CHECK(n > 0 && n <= LAYER_SPLIT_MAX_DEVICES && n <= n_layers && n_layers <= LAYER_SPLIT_MAX_LAYERS);
    uint64_t before[LAYER_SPLIT_MAX_LAYERS + 1]; /* bytes of the layers before */
    before[0] = 0;
    for (uint32_t i = 0; i < n_layers; i++)
        before[i + 1] = arith_must_add(before[i], layer_bytes[i]);
    /* best[l]: the least worst cost of devices 0 .. i on layers 0 .. l - 1; begin[i][l]: where device i
     * begins in it. */
    uint64_t best[LAYER_SPLIT_MAX_LAYERS + 1];
    uint16_t begin[LAYER_SPLIT_MAX_DEVICES][LAYER_SPLIT_MAX_LAYERS + 1];
    for (uint32_t l = 1; l <= n_layers; l++) {
        best[l] = cost(&devices[0], before[l]);
        begin[0][l] = 0;
    }
    for (uint32_t i = 1; i < n; i++) {
        for (uint32_t l = n_layers; l > i; l--) { /* downwards: best[k < l] are still those of i - 1 */
            uint64_t least = UINT64_MAX;
            for (uint32_t k = i; k < l; k++) {
                uint64_t c = ARITH_MAX(best[k], cost(&devices[i], before[l] - before[k]));
                if (c <=
                    least) { /* of equal ones: more for the earlier devices, the last has the output matrix */
                    least = c;
                    begin[i][l] = (uint16_t)k;
                }
            }
            best[l] = least;
        }
    }
    uint32_t l = n_layers;
    for (uint32_t i = n; i-- > 0;) {
        ends[i] = l;
        l = begin[i][l];
        CHECK(l < ends[i]);
    }
    CHECK(l == 0 && ends[n - 1] == n_layers);
    return best[n_layers] < OVER;
}

void layer_split_join(uint32_t *ends, uint32_t n, uint32_t joined) {
    CHECK(n <= joined + 1);
    for (uint32_t i = 0; i + 1 < n; i++)
        ends[i] = ARITH_MIN(ends[i], joined - (n - 2 - i));
}

void layer_split_shares(const uint32_t *shares, uint32_t n, uint32_t n_layers, uint32_t *ends) {
    CHECK(n > 0 && n <= n_layers);
    uint64_t all = 0;
    for (uint32_t i = 0; i < n; i++)
        all += shares[i];
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += shares[i];
        uint64_t end = (2 * sum * n_layers + all) / (2 * all); /* to the nearest */
        uint32_t least = i == 0 ? 1 : ends[i - 1] + 1;
        uint32_t most = n_layers - (n - 1 - i);
        ends[i] = (uint32_t)ARITH_MIN(ARITH_MAX(end, (uint64_t)least), (uint64_t)most);
        CHECK(ends[i] >= least && ends[i] <= n_layers);
    }
}
