/* The inside of zecuda: its objects. Handles are pointers to them and are not checked: that is zesim's work.
 * An object is used by one thread at a time, as Level Zero asks; what is shared is set once, in device.c. */
#ifndef ZECUDA_ZECUDA_H
#define ZECUDA_ZECUDA_H

#include "cuda.h"
#include "exchange.h"

#include <level_zero/ze_ddi.h>
#include <level_zero/zes_ddi.h>
#include <level_zero/zet_ddi.h>

#include <stdint.h>

#define MAX_DEVICES 8
#define MAX_ARGS    64
/* Bytes of local memory that a group may ask for; and that its arguments, whose beginnings are aligned, may
 * take. */
#define LOCAL_MEMORY  98304u
#define LOCAL_AT_MOST (LOCAL_MEMORY + 4096u)

struct device {
    cuda_device id;
    cuda_context context;
    cuda_stream side; /* for captures and clock readings */
    cuda_event now;   /* the last clock reading, */
    uint64_t now_ns;  /* and what it was */
    bool read;        /* there was one */
    uint32_t index;
    bool reaches[MAX_DEVICES]; /* the memory of these */
    cuda_function exchange;    /* zecuda_exchange, once there is a pool of events for it */
    cuda_address exchanges;    /* a struct exchange_times, with ZECUDA_TIMES */
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

/* A kernel of zecuda's own, from the folder of PTX files. False: said on stderr. */
bool module_own(struct device *d, const char *name, cuda_function *f);

struct module {
    struct device *device;
    cuda_module module;
    char *text; /* begins with the lines about kernels (ptx_of) */
};

/* Of a pool for times: `begin` and `end` around a kernel. Of any other pool: a word that is 1 when the event
 * is signalled, once in the memory of each device of the pool, or once in host memory for all. */
struct event {
    struct device *device;
    cuda_event begin, end;
    uint32_t n_words;
    bool of_host; /* its one word is in host memory, and the host signals it and waits for it */
    cuda_address word[MAX_DEVICES]; /* by the device's index; 0: it is not of the pool */
};

struct launch {
    cuda_function function;
    uint32_t groups[3], group[3], shared, n_args;
    char kinds[MAX_ARGS + 1];
    uint64_t values[MAX_ARGS]; /* local: offset */
};

/* The last four can become parts of one launch, in this order (events.c). */
enum { COMMAND_FILL, COMMAND_KERNEL, COMMAND_COPY, COMMAND_SIGNAL, COMMAND_WAIT, COMMAND_RESET };

struct command {
    int op;
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

/* How many commands from the i-th on are one launch of zecuda_exchange, and its argument; 0: none. */
uint32_t events_join(const struct list *l, uint32_t i, struct exchange *x);
bool events_launch(const struct device *d, struct exchange *x, cuda_stream s);

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
