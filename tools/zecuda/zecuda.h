/* The inside of zecuda: its objects. Handles are pointers to them and are not checked: that is zesim's work.
 * An object is used by one thread at a time, as Level Zero asks; what is shared is set once, in device.c. */
#ifndef ZECUDA_ZECUDA_H
#define ZECUDA_ZECUDA_H

#include "cuda.h"

#include <level_zero/ze_ddi.h>
#include <level_zero/zes_ddi.h>
#include <level_zero/zet_ddi.h>

#include <stdint.h>

#define MAX_DEVICES 8
#define MAX_ARGS    64

struct device {
    cuda_device id;
    cuda_context context;
    cuda_stream side; /* for captures and clock readings */
    cuda_event now;   /* the last clock reading, */
    uint64_t now_ns;  /* and what it was */
    bool read;        /* there was one */
    uint32_t index;
    bool reaches[MAX_DEVICES]; /* the memory of these */
    char name[ZE_MAX_DEVICE_NAME];
    size_t memory;
};

struct driver {
    uint32_t n;
    struct device device[MAX_DEVICES];
};
extern struct driver driver;

/* Makes the device's context the thread's. */
bool device_enter(const struct device *d);
/* What a failed call means to Level Zero. */
ze_result_t device_result(cuda_result r);
uint64_t device_clock_ns(void);

struct kernel {
    struct module *module;
    cuda_function function;
    char name[128];
    char kinds[MAX_ARGS + 1]; /* of arguments: b buffer, l local memory, 4 value of four bytes */
    uint32_t n_args;
    uint32_t group[3];
    uint64_t values[MAX_ARGS]; /* local: bytes */
};

struct module {
    struct device *device;
    cuda_module module;
    char *text; /* begins with the lines about kernels (ptx_of) */
};

/* Events only carry the times of kernels. */
struct event {
    struct device *device;
    cuda_event begin, end;
};

struct launch {
    cuda_function function;
    uint32_t groups[3], group[3], shared, n_args;
    char kinds[MAX_ARGS + 1];
    uint64_t values[MAX_ARGS]; /* local: offset */
};

struct command {
    enum { COMMAND_COPY, COMMAND_FILL, COMMAND_KERNEL } op;
    cuda_address to, from;
    size_t bytes;
    uint32_t pattern;
    struct launch *launch;
    struct event *event;
};

struct list {
    struct device *device;
    struct command *command;
    uint32_t n, capacity, kernels;
    cuda_graph_exec graph; /* of a closed list with kernels */
};

struct queue {
    struct device *device;
    cuda_stream stream;
    struct times *times; /* of its submits, if asked for */
};

struct fence {
    struct queue *queue;
    cuda_event event;
    bool submitted;
};

#endif
