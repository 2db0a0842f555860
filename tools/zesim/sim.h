/* The inside of zesim: state, objects and what its files offer each other.
 *
 * One lock (`sim.lock`) guards everything but the data of allocations; every entry point holds it from ENTER
 * to its return. Queue workers hold it between commands, never while a command moves data: that is
 * `execute_token`, so at any moment at most one device executes and page protections can say exactly what it
 * may touch. */
#ifndef ZESIM_SIM_H
#define ZESIM_SIM_H

#include "code.h"
#include "zesim.h"

#include <level_zero/ze_ddi.h>
#include <level_zero/zes_ddi.h>
#include <level_zero/zet_ddi.h>

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_MAX_DEVICES    64
#define SIM_PAGE           4096u
#define SIM_DEVICE_GRANULE 65536u /* device memory is granted in such pieces, as Intel's driver does */
#define SIM_DRIVER_VERSION 0x01030001u
#define SIM_MAX_PATTERN    128u

/* ---- objects.c: handles. An object is never freed, so that every late use of its handle is noticed. */
enum kind {
    KIND_DRIVER,
    KIND_DEVICE,
    KIND_CONTEXT,
    KIND_QUEUE,
    KIND_LIST,
    KIND_POOL,
    KIND_EVENT,
    KIND_FENCE,
    KIND_MODULE,
    KIND_BUILD_LOG,
    KIND_KERNEL,
    KIND_MEMORY_MODULE,
    KIND_COUNT
};

struct object {
    enum kind kind;
    bool dead;
    uint64_t serial; /* counts objects of its kind from 1; violations name it */
};

void objects_add(void *object, enum kind kind);
void *objects_new(enum kind kind, size_t size); /* zeroed */
/* The live object behind a handle; else NULL, a violation and *why set. */
void *objects_get(const void *handle, enum kind kind, ze_result_t *why);
void objects_kill(void *object);
const char *objects_name(const void *object); /* "event 3"; the buffer is reused after a few calls */
uint64_t objects_live(enum kind kind);
const char *objects_kind(enum kind kind);

#define GET(type, variable, kind, handle)                                                                    \
    ze_result_t variable##_why_ = ZE_RESULT_SUCCESS;                                                         \
    type *variable = objects_get(handle, kind, &variable##_why_);                                            \
    if (variable == NULL)                                                                                    \
    return variable##_why_

/* ---- config.c */
enum peer_kind { PEER_NONE, PEER_OK, PEER_PUSH, PEER_CORRUPT, PEER_FAIL, PEER_SLOW };

/* How a device reaches another one's memory. */
struct peer {
    enum peer_kind kind;
    uint64_t from; /* corrupt, fail: only copies of at least so many bytes */
    uint64_t rate; /* slow: bytes per second */
};

enum order { ORDER_FORWARD, ORDER_REVERSE, ORDER_SHUFFLE };

struct device {
    struct object object;
    uint32_t index;
    char name[ZE_MAX_DEVICE_NAME];
    uint64_t memory, max_alloc, fail_above, taken, taken_later, taken_at, local_memory;
    uint64_t pci_domain, pci_bus, pci_device, pci_function;
    uint64_t vendor_id, device_id, slices, subslices, eus, threads, simd, clock_mhz, bus_bits, memory_mhz,
        bandwidth;
    uint64_t timer_hz, timestamp_bits, max_group, sub_group, copy_engines, dpas, usable_memory;
    uint64_t
        host_rate; /* of copies from and to memory of the host, bytes per second; 0: as fast as they go */
    uint32_t n_sub_groups, sub_groups[8];
    struct peer peer[SIM_MAX_DEVICES]; /* [owner of the memory] */
    uint64_t used;                     /* bytes granted */
    uint64_t asked;                    /* zeMemAllocDevice calls so far */
    bool lost;
    struct object memory_module; /* sysman's handle */
};

/* What a fault does. */
enum action { ACTION_RETURN, ACTION_LOST, ACTION_HANG, ACTION_MARK };

struct fault {
    int call;
    uint64_t first, last; /* of the calls counted since `after` */
    char *after;          /* a mark, or NULL: from the start */
    uint64_t seen;
    bool armed;
    enum action action;
    ze_result_t result;
    char *mark;
};

struct sim {
    pthread_mutex_t lock;
    uint32_t changes; /* grows when something happened that somebody may wait for */
    pthread_mutex_t execute_token;
    bool executing; /* somebody holds the token and moves data */
    bool initialised;
    uint32_t n_devices;
    struct device device[SIM_MAX_DEVICES];
    struct object driver;
    bool abort_on_violation;
    bool keep_files;
    enum order order;
    uint64_t seed, poison, slack, host_memory;
    char *log, *cache;
    struct fault *fault;
    size_t n_faults;
};
extern struct sim sim;

void config_load(void); /* ends the process with a clear line if the text is wrong */

/* ---- calls.c: counters, faults, marks, the log */
enum call {
#define TABLE(api, Name, name)
#define ENTRY(function, slot) CALL_##function,
#define END(api, Name)
#include "entries.def"
#undef TABLE
#undef ENTRY
#undef END
    CALL_unsupported,
    CALL_exec_copy, /* commands as they execute */
    CALL_exec_fill,
    CALL_exec_kernel,
    CALL_COUNT
};

const char *calls_name(int call);
int calls_find(const char *name); /* -1 */
/* Counts a call and says what a fault wants it to return; *action is filled for LOST and HANG. */
ze_result_t calls_enter(int call, enum action *action);
void count_add(const char *counter, uint64_t n);
void count_formatted(uint64_t n, const char *format, ...) __attribute__((format(printf, 2, 3)));
void calls_mark(const char *name);
/* Prints one line and counts; aborts if so configured. */
void violation(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void fatal(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *device_name(const struct device *d); /* "gpu0", or "host" for NULL */

static inline void sim_lock(void) {
    pthread_mutex_lock(&sim.lock);
}
static inline void sim_unlock(void) {
    pthread_mutex_unlock(&sim.lock);
}
static inline void sim_leave(const int *entered) {
    (void)entered;
    sim_unlock();
}
/* First line of every entry point: takes the lock until the function returns, counts, obeys faults. */
#define ENTER_ACTION(function, action)                                                                       \
    sim_lock();                                                                                              \
    __attribute__((cleanup(sim_leave), unused)) int entered_ = 0;                                            \
    ze_result_t enter_ = calls_enter(CALL_##function, action);                                               \
    if (enter_ != ZE_RESULT_SUCCESS)                                                                         \
    return enter_
#define ENTER(function) ENTER_ACTION(function, NULL)

/* Waits under the lock for a change, at most until the deadline (monotonic ns). False: the deadline passed.
 */
bool sim_wait(uint64_t deadline);
/* Wakes all who wait. */
void sim_changed(void);
uint64_t sim_now(void);
uint64_t sim_deadline(uint64_t timeout);

/* ---- memory.c */
struct allocation {
    char *at; /* what the caller got */
    size_t size, granted;
    char *map;              /* pages, guard pages outside */
    size_t map_size, grain; /* grain: in these units its pages are opened and closed */
    ze_memory_type_t type;
    struct device *owner; /* NULL: host */
    struct context *context;
    uint64_t id;
    bool freed, open;
    void *mirror[SIM_MAX_DEVICES]; /* host memory that residency on another device costs */
};

struct context {
    struct object object;
};

/* The allocation that [p, p + n) touches, live or freed; NULL: none (ordinary host memory). */
struct allocation *memory_find(const void *p, size_t n);
/* Checks an access of a command on d; *a is the allocation or NULL. `what` names the access in a violation.
 */
bool memory_check(const struct device *d, const void *p, size_t n, const char *what, struct allocation **a);
void memory_open(const struct device *d); /* page protections: as d may access */
void memory_close(void);
/* The pages of n bytes of an allocation that is closed. */
void memory_range(const struct allocation *a, const void *p, size_t n, bool open);
bool memory_reaches(const struct device *d, const struct allocation *a);
void memory_watch(void); /* installs the handler that explains crashes */
uint64_t memory_free_bytes(const struct device *d);
/* What this thread executes just now, for the crash line. */
extern __thread const struct device *memory_executing;
extern __thread const char *memory_doing;

/* ---- event.c */
struct pool {
    struct object object;
    struct context *context;
    uint32_t count, live;
    bool host_visible, timestamps;
    bool *taken;
};

struct event {
    struct object object;
    struct pool *pool;
    uint32_t index;
    bool signalled;
    uint32_t in_flight;      /* commands submitted and not done that use it */
    const struct device *by; /* who signalled it; NULL: the host */
    uint64_t start, end;     /* ns */
};

struct fence {
    struct object object;
    struct queue *queue;
    bool signalled, in_flight;
};

void event_signal(struct event *e, const struct device *by, uint64_t start, uint64_t end);
ze_kernel_timestamp_result_t event_timestamps(const struct event *e);
uint64_t device_ticks(const struct device *d, uint64_t ns);

/* ---- module.c */
struct module {
    struct object object;
    struct context *context;
    struct device *device;
    const struct code *code;
    uint8_t *spirv;
    size_t spirv_size;
    bool large_buffers;
    uint32_t kernels; /* live */
};

struct kernel {
    struct object object;
    struct module *module;
    const struct code_kernel *code;
    uint32_t group[3];
    bool group_set;
    uint32_t offset[3];
    ze_kernel_indirect_access_flags_t indirect;
    bool *set;
    uint64_t *local_size;
    unsigned char *values; /* MODULE_ARG_SLOT bytes apart */
    uint32_t in_flight;
};
#define MODULE_ARG_SLOT 256u

/* ---- compile.c: SPIR-V to a loaded shared library. NULL: failed; *log (malloc) says what the tools said. */
const struct code *compile_spirv(const uint8_t *spirv, size_t size, char **log, ze_result_t *result);

/* ---- fibers.c. False: the kernel's work-items diverged (a violation was printed). */
struct launch {
    struct kernel *kernel;
    uint32_t group[3], offset[3];
    ze_group_count_t groups;
    const ze_group_count_t *indirect; /* read when it executes */
    const uint32_t *indirect_count;   /* and index of this launch: runs if index < *indirect_count */
    uint32_t indirect_index;
    uint64_t *local_size;
    unsigned char *values;
};
bool fibers_run(const struct launch *l, uint32_t default_sub_group);
/* The i-th of n things in the configured order. */
size_t fibers_order(size_t i, size_t n);

/* ---- list.c and queue.c */
enum op { OP_COPY, OP_FILL, OP_KERNEL, OP_BARRIER, OP_RESET, OP_WRITE_TIME, OP_QUERY_TIMES, OP_NONE };

struct command {
    enum op op;
    struct event *signal;
    uint32_t n_waits;
    struct event **waits;
    void *target;
    const void *source;
    size_t size;
    ze_copy_region_t to, from; /* a region's copy: depth != 0 */
    uint32_t to_pitch, to_slice, from_pitch, from_slice;
    unsigned char pattern[SIM_MAX_PATTERN];
    size_t pattern_size;
    struct launch launch;
    struct event **queried;
    uint32_t n_queried;
    size_t *offsets;
};

struct list {
    struct object object;
    struct context *context;
    struct device *device;
    uint32_t ordinal;
    bool closed;
    uint32_t in_flight;
    struct queue *immediate; /* or NULL */
    struct command *command;
    size_t n, capacity;
};

struct batch {
    struct batch *next;
    struct list *list; /* of the caller, or NULL and the batch owns one command */
    struct command own;
    struct fence *fence;
    enum action fault; /* LOST, HANG; RETURN: none */
};

struct queue {
    struct object object;
    struct context *context;
    struct device *device;
    uint32_t ordinal;
    bool synchronous;
    pthread_t worker;
    struct batch *head, **tail;
    uint64_t pending; /* batches not done */
    bool stop;
    struct queue *next; /* of all queues ever made */
};

ze_result_t queue_create(struct context *c, struct device *d, const ze_command_queue_desc_t *desc,
                         struct queue **made);
void queue_destroy(struct queue *q);
/* Takes over *own. */
void queue_push(struct queue *q, struct list *list, const struct command *own, struct fence *fence,
                enum action fault);
ze_result_t queue_wait(struct queue *q, uint64_t timeout);
/* A device of the context is lost, and its workers have dropped what they had. */
bool queue_lost(const struct context *c);
void command_free(struct command *c);
bool command_uses(const struct command *c, const struct allocation *a);
bool queue_uses(const struct allocation *a);

/* ---- execute.c: runs commands on the worker's thread, without the lock. False: the device was lost. The
 * last command's signal is kept in *last, for whoever knows that nothing is in flight any more. */
struct ending {
    struct event *event; /* NULL: none */
    uint64_t start, end;
};
bool execute_commands(struct queue *q, struct command *c, size_t n, struct ending *last);

#endif
