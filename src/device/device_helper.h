/* The processors as the helper of a GPU: they compute the chosen experts of the GPU's layers from matrices
 * in host memory (device_model.hosted), while the GPU computes the rest of the layer.
 *
 * The exchange of a layer goes through the device's pinned part (device_hosted): the GPU writes the experts
 * that its tokens chose and the rows that they multiply, the helper computes and writes a row of floats per
 * slot, and the GPU mixes them. The bits are those of the GPU's own kernels, because all devices have one
 * numerics.
 *
 * Owner: the engine's thread, which is member 0 of the team. The team is shared by the helpers of all GPUs.
 */
#ifndef STATOR_DEVICE_DEVICE_HELPER_H
#define STATOR_DEVICE_DEVICE_HELPER_H

#include "device/device.h"

struct device_helper;

/* Host bytes that a helper needs (stacks of the team unless it joins another, workspaces, rows between the
 * two products of a layer). processors: of device_choose("cpu:0"). */
uint64_t device_helper_bytes(const struct device_choice *processors, const struct device_model *m,
                             bool joins);
/* with: a helper; this one joins its team and is closed before it; or NULL. memory: device_helper_bytes
 * bytes, aligned to 64, in whole mapped pages. It and *m outlive the helper. Errors as device_open's for a
 * CPU. */
stator_status device_helper_open(const struct device_choice *processors, const struct device_model *m,
                                 struct device_helper *with, const struct phase *phase, void *memory,
                                 uint64_t bytes, struct device_helper **out, stator_error *e);
/* Before prepare: where the GPU's matrices of experts lie (vtable->spilled), and its pinned part. */
void device_helper_attach(struct device_helper *h, const struct device *gpu, void *pinned,
                          const struct device_pinned *at);
/* Computes the layer of the gated op `op` for a step of so many tokens, from the device's pinned part into
 * it. map: which experts have slots on the device, which computes them (device_slot_table); NULL: none.
 * Returns when that is done. */
void device_helper_run(struct device_helper *h, uint32_t op, uint32_t tokens, const uint32_t *map);
/* NULL is allowed. */
void device_helper_close(struct device_helper *h);

#endif
