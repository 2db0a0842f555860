/* Copies between every ordered pair of GPUs, measured by `stator devices --probe`. */
#ifndef STATOR_APP_PROBE_TABLE_H
#define STATOR_APP_PROBE_TABLE_H

#include "base/json_writer.h"
#include "device/device_info.h"

struct probe_table {
    const struct device_info *list; /* GPUs */
    uint32_t n;
    struct device_info_pair pairs[DEVICE_INFO_MAX][DEVICE_INFO_MAX]; /* [from][to]; not the diagonal */
};

#define PROBE_TABLE_HINT 200

/* Probes all pairs and names each on stderr. STATOR_DEVICE: a GPU is lost. */
stator_status probe_table_measure(struct probe_table *t, stator_error *e);
/* Text about a way that would be faster than the one copies take, by the figures of the largest size; "" if
 * there is none. */
void probe_table_hint(const struct probe_table *t, uint32_t from, uint32_t to, char out[PROBE_TABLE_HINT]);
/* On stdout: the matrix of the largest size, then every pair with all sizes. */
void probe_table_print(const struct probe_table *t);
void probe_table_json(const struct probe_table *t, struct json *j); /* "routes": [..] */

#endif
