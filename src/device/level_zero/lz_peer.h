/* Whether copies from one GPU to another can be trusted to go direct.
 *
 * The driver's word (zeDeviceCanAccessPeer) is not enough: the source pushes patterned data of several sizes
 * and at several offsets; it is read back from the target and compared, together with the bytes around it,
 * and then timed. The pushes run on a queue of their own, so that one that never ends does no other harm. */
#ifndef STATOR_DEVICE_LEVEL_ZERO_LZ_PEER_H
#define STATOR_DEVICE_LEVEL_ZERO_LZ_PEER_H

#include "device/device_info.h"
#include "device/level_zero/lz_queue.h"

#define LZ_PEER_LEAST 256 /* bytes, of each of the three memories */

struct lz_peer {
    struct lz_queue *from; /* queues of the source and of the target, for everything but the probed pushes */
    struct lz_queue *to;
    uint8_t *source; /* device memory of `from`'s GPU: bytes */
    uint8_t *target; /* device memory of `to`'s GPU: bytes */
    uint8_t *work;   /* host memory of zeMemAllocHost: 2 * bytes */
    uint64_t bytes;  /* >= LZ_PEER_LEAST, a multiple of 64 */
    bool verify;
    bool hangs; /* out: a push has not ended and may still arrive at the target */
};

/* Fills *r. It is an error only if one of the two GPUs is lost. */
stator_status lz_peer_probe(struct lz_peer *p, struct device_route *r, stator_error *e);

/* Fills *out for a copy of `bytes` (<= p->bytes). Direct, if r says so: pushed once and compared (if it
 * arrives damaged the pair becomes staged and *r says why), then timed. Staged: always timed. Errors as
 * above. */
stator_status lz_peer_time(struct lz_peer *p, uint64_t bytes, struct device_route *r,
                           struct device_info_copy *out, stator_error *e);

#endif
