/* A device of another host, as rank 0 drives it: steps go to the rank that has it as commands, and come back
 * as ended (remote_wire.h). Memory: what host_bytes says, in the run's state. */
#ifndef STATOR_DEVICE_REMOTE_DEVICE_H
#define STATOR_DEVICE_REMOTE_DEVICE_H

#include "device/device_backend.h"

/* In device_choice.where of a device with facts.remote. */
enum {
    REMOTE_RANK,
    REMOTE_INDEX,
    REMOTE_AFTER_US, /* 1: the device before it is rank 0's */
    REMOTE_FIRST,    /* 1: of its stage, for which it waits and ends */
    REMOTE_FOLLOWS   /* 1: in one group with the device before it, whose steps are its own */
};

extern const struct device_backend remote_device_backend;

#endif
