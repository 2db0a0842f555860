/* A device of another host, as rank 0 drives it: steps go to the rank that has it as commands, and come back
 * as ended (remote_wire.h). Memory: what remote_device_host_bytes says, in the run's state. */
#ifndef STATOR_DEVICE_REMOTE_DEVICE_H
#define STATOR_DEVICE_REMOTE_DEVICE_H

#include "device/device.h"

/* In device_choice.where of a device with facts.remote. */
enum {
    REMOTE_RANK,
    REMOTE_INDEX,
    REMOTE_AFTER_US, /* 1: the device before it is rank 0's */
    REMOTE_FIRST     /* 1: of its stage, for which it waits and ends */
};

uint64_t remote_device_host_bytes(const struct device_model *m);
stator_status remote_device_open(const struct device_choice *c, const struct device_model *m, void *memory,
                                 uint64_t bytes, struct device **out, stator_error *e);

#endif
