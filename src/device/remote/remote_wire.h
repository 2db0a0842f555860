/* What goes between the ranks of a run over several hosts, and how a step is packed for it. All ranks are the
 * same program on the same kind of processor (device_cluster_meet compares versions), so messages are
 * structs.
 *
 *   rank 0 to the rank of a device   struct remote_command, with the packed step; TAG_COMMAND
 *   a stage's rank to the next       rows of the residual stream: float [n_tokens][width];
 *                                    TAG_RESIDUAL + slot
 *   the rank of a device to rank 0   struct remote_done, with the picks; TAG_DONE + device
 *   the last rank to rank 0          float [n_rows][vocab], where the step wants logits; TAG_LOGITS + slot
 */
#ifndef STATOR_DEVICE_REMOTE_WIRE_H
#define STATOR_DEVICE_REMOTE_WIRE_H

#include "device/device.h"

#define REMOTE_TAG_COMMAND  1
#define REMOTE_TAG_READY    2
#define REMOTE_TAG_PROBE    3
#define REMOTE_TAG_RESIDUAL 4  /* and 5 */
#define REMOTE_TAG_LOGITS   6  /* and 7 */
#define REMOTE_TAG_DONE     16 /* + index of the device */

/* A ping is answered by the first device of a stage as by the end of a step in no slot. In slot 1 it asks for
 * a note, which stands where the text of an error would. */
enum remote_kind { REMOTE_STEP, REMOTE_STOP, REMOTE_PING };
#define REMOTE_NO_SLOT 2

struct remote_command {
    uint32_t kind;
    uint32_t device; /* of all stages */
    uint32_t slot;
    uint32_t bytes; /* of the packed step behind this; 0: it is that of the device before, in one group */
};

struct remote_done {
    uint32_t device;
    uint32_t slot;
    uint32_t status; /* stator_status */
    uint32_t n_rows; /* of picks behind this; 0 on a device without a tail */
    uint32_t has_logits;
    uint64_t step_ns;  /* from when it had all that it needs to its end */
    uint32_t kernels;  /* executed so far, modulo 2^32 */
    uint32_t has_note; /* what was asked for, in place of the text */
    char text[320];    /* why, with another status than STATOR_OK */
};
_Static_assert(sizeof(struct device_note) <= 320, "a note stands in the text's place");

/* The most bytes of a packed step of the model. */
uint64_t remote_wire_most(const struct device_model *m);
/* What the step in the slot uses, into out; returns its bytes. */
uint32_t remote_wire_pack(const struct device_model *m, const uint8_t *slot, uint8_t *out);
/* Back into a slot of another device of the model. False: these bytes are no step of it. */
bool remote_wire_unpack(const struct device_model *m, const uint8_t *in, uint32_t bytes, uint8_t *slot);

/* The step in a slot of one device of the model into a slot of another. */
void remote_wire_copy(const struct device_model *m, const uint8_t *from, uint8_t *to);

#endif
