/* The contract of a device: where arenas lie and steps run. device_list.c is the only place that names back
 * ends.
 *
 * The engine opens n devices in the order of the layers. Each runs its own part of the model: its layers, the
 * embedding on the first, the tail (logits, picks) on the last. All share one layout of the step descriptor.
 *
 * Life: open -> slices created -> weights written (map or upload, upload_wait) -> peer_probe -> prepare ->
 * steps -> close. prepare validates everything, records what can be recorded and may fail; submit only checks
 * invariants and writes what is the device's own in the descriptor. After prepare nothing is allocated,
 * appended to a list, or given other arguments.
 *
 * Steps. A device has model->slots slots, 0 and 1. The engine writes the descriptor into step_slot(k), calls
 * submit(k), then wait(k) until the step has ended; then logits(k) and picks(k) hold until slot k is
 * submitted again. Slots are used in turn by consecutive bodies (step s in slot s % slots); a step without
 * body (run_body = 0) goes to the slot of the body before it, again. A device runs its steps in the order of
 * their submits. submit may return while the step runs (a GPU) or after it has ended (a CPU); the engine
 * can't tell.
 *
 * Boundaries. In a step of slot k a device with a next one (link_out) brings the residual stream into half k
 * of the next device's value `landing`, or into window k; a device with a device before it (link_in) begins
 * with its half k. All copies are part of the step: recorded, not calls. The engine orders steps by the host:
 *   step s is submitted to device i + 1 after device i has ended it (wait), and
 *   step s + slots is submitted to device i after device i + 1 has ended step s (half k is free again).
 * That costs one host round trip (what it takes on a GPU: not measured) per boundary and step, and needs no
 * events across devices.
 *
 * One thread, the engine's, calls all of it; `upload` and `upload_wait` may be called by any member of
 * `parallel`, one at a time (the loader has a lock). */
#ifndef STATOR_DEVICE_DEVICE_H
#define STATOR_DEVICE_DEVICE_H

#include "base/log.h"
#include "base/phase.h"
#include "graph/graph.h"
#include "kernels/shared/step.h"

struct device;

/* DEVICE_WINDOW: where spilled experts are copied to; only with model->stream. */
enum device_arena {
    DEVICE_WEIGHTS,
    DEVICE_KV,
    DEVICE_SCRATCH,
    DEVICE_EXCHANGE,
    DEVICE_WINDOW,
    DEVICE_ARENAS
};
const char *device_arena_name(enum device_arena a); /* "weights", "kv", "scratch", "exchange", "window" */

/* A slice is at most this, or less where the device's largest allocation is smaller. */
#define DEVICE_SLICE_LIMIT ((4ull << 30) - (64 << 10))
#define DEVICE_MAX         8              /* devices of one model */
#define DEVICE_DEADLINE    60000000000ull /* ns, of a copy where nobody says otherwise */

/* What the plan may know of a device. */
struct device_facts {
    char name[32];      /* "cpu:0" */
    char kind[16];      /* "cpu" */
    bool host_memory;   /* its arenas are host memory and count against the host's limit */
    bool remote;        /* of another host of the run: nothing of it is here */
    uint64_t memory;    /* bytes; 0 with host_memory: the host's limit */
    uint64_t max_alloc; /* largest single allocation; 0: no limit */
    uint64_t bandwidth; /* bytes per second; 0: not known */
    uint64_t bus;       /* bytes per second from host memory; 0: not known. No plan depends on it */
    uint64_t alignment; /* of slices */
};

/* What a person chose. */
struct device_options {
    uint32_t threads;     /* 0: physical cores of the cpuset */
    char tier[16];        /* "auto" or a tier's name */
    uint32_t cpu_devices; /* how many CPU devices there will be on this machine's processors */
    uint64_t deadline_ns; /* of one copy at the start; 0: DEVICE_DEADLINE */
};

/* Where a cache of the graph lies: units of one (layer, KV head; or layer), each n_blocks blocks, in slices
 * of units_per_slice units: unit of the cache's layer l, head h: l * units + h. Every cache begins a slice of
 * its own; so do the units of the last spilled_layers layers, behind all caches, in slices that the engine
 * may have put elsewhere. */
struct device_cache {
    uint32_t n_blocks;
    uint32_t of_sequences; /* the first of them; behind those are the checkpoints' */
    uint32_t per_sequence; /* entries of a block table */
    uint64_t unit_bytes;
    uint32_t units_per_slice;
    uint32_t spilled_layers; /* 0 on a device in host memory */
};

/* Experts that are spilled: a step of at least `tokens` tokens copies them to the window, one half of which
 * is filled while the kernels read the other; shorter ones read them where they lie. tokens 0: all do, and
 * there is no window. */
struct device_stream {
    uint32_t tokens;
    uint64_t half_bytes;
};

/* The part of the model that one device runs: a graph with all its places. */
struct device_model {
    const struct graph *graph;
    struct device_cache caches[GRAPH_MAX_CACHES]; /* graph->n_caches of them */
    uint32_t sequences;
    struct step_header step; /* the offsets in the step descriptor; its counts are 0 */
    uint64_t step_bytes;     /* of one descriptor */
    uint32_t slots;          /* of steps: 1 (one CPU device alone) or 2 */
    struct device_stream stream;
};

/* Invariants of a step descriptor that a device gets: NULL, or what is wrong. A bug of ours in any case. The
 * first looks at counts, offsets, chunks and wanted rows, which is cheap; the second, after it, at the block
 * tables. */
const char *device_step_flaw(const struct device_model *m, const void *slot);
const char *device_tables_flaw(const struct device_model *m, const void *slot);

/* The slices [first, end) of the kv arena with the cache's layers that are kept (spilled = false) or spilled,
 * and their units. */
struct device_cache_part {
    uint32_t first, end;
    uint32_t units;
};
struct device_cache_part device_cache_part(const struct device_model *m, uint32_t cache, bool spilled);
/* Slices of the kv arena that are kept, and all. */
uint32_t device_cache_slices(const struct device_model *m, bool spilled_too);

/* Where a device keeps what the host writes and reads when its exchange is not host memory: pinned, in
 * `staging`. Offsets from the device's pinned part. */
struct device_pinned {
    uint64_t step[2];   /* descriptors, step_bytes each */
    uint64_t logits[2]; /* float [logits_rows][vocab]; a device without a tail has no results: UINT64_MAX */
    uint64_t picks[2];  /* struct step_pick [logits_rows] */
    uint64_t bytes;     /* of all; 0 for devices in host memory */
};
void device_pinned_lay_out(const struct device_facts *f, const struct device_model *m,
                           struct device_pinned *p);

/* struct graph_want.cells of a device's graph: on a GPU enough for all splits of a token of every sequence
 * with its `guesses`, in steps of at most `batch` tokens; of OPENCL_SPLIT_QUERIES queries where that is
 * little. 0: none, or no sequence can have two splits. */
uint32_t device_cells(const struct device_facts *f, uint32_t context, uint32_t sequences, uint32_t guesses,
                      uint32_t batch);

/* One side of a boundary between two devices. */
struct device_link {
    struct device *peer; /* the next device (link_out) or the one before (link_in) */
    bool direct;         /* link_out pushes into the peer's landing; else copies go through window */
    float *window[2];    /* staged: [batch][n_embd] each, pinned, in `staging` */
};

/* What is known of copies from one device to another. */
struct device_route {
    bool direct;
    char why[128];             /* not direct: why not */
    uint64_t bytes_per_second; /* of the largest copy that was timed; 0: not measured */
    uint64_t latency_ns;       /* of the smallest; 0: not measured */
};

struct device_counters {
    uint64_t submits;
    uint64_t kernels_executed; /* ops run; on a GPU: kernels launched */
    uint64_t direct_bytes;     /* pushed straight into the next device's landing */
    uint64_t staged_bytes;     /* sent through a staged window */
    uint64_t away_ns;          /* of steps on another host: on the way, and behind others there */
    uint64_t copied_bytes;     /* between host and device memory since prepare: descriptors, results */
    uint64_t streamed_bytes;   /* of spilled experts, copied to the window */
};

/* One op of an ended step, on base/clock's time. */
struct device_span {
    uint32_t op; /* index in the graph */
    uint64_t begin_ns;
    uint64_t end_ns;
};

/* What a rank tells of its process when it is asked: what the engine makes of it. */
#define DEVICE_NOTE_FIGURES 9
struct device_note {
    uint32_t rank;
    int64_t figures[DEVICE_NOTE_FIGURES];
    char text[232];
};

/* What prepare gets. */
struct device_setup {
    const struct device_link *in;  /* NULL on the first device */
    const struct device_link *out; /* NULL on the last */
    void *pinned;                  /* device_pinned.bytes, aligned to 4096; NULL when that is 0 */
    const struct log *log;         /* of what is not worth an error; lives as long as the device */
    const char *kernel_cache;      /* folder of compiled kernels; NULL or "": none */
};

struct device_vtable {
    /* Slice `slice` of an arena, zeroed. STATOR_DOES_NOT_FIT: refused for lack of memory. */
    stator_status (*slice_create)(struct device *d, enum device_arena a, uint32_t slice, uint64_t bytes,
                                  stator_error *e);
    /* The same in host memory that the device's kernels read and write over the bus, for what is spilled: the
     * arena's slices behind its own. NULL: the device's memory is host memory. */
    stator_status (*slice_spill)(struct device *d, enum device_arena a, uint32_t slice, uint64_t bytes,
                                 stator_error *e);
    /* The host address of a slice that slice_spill made, and its bytes; NULL: it made none. NULL as
     * slice_spill. */
    const void *(*spilled)(const struct device *d, enum device_arena a, uint32_t slice, uint64_t *bytes);
    /* Device memory that is free now, in bytes; 0: nobody counts it. NULL: as 0. */
    uint64_t (*free_bytes)(struct device *d);
    /* Its host address, or NULL when the host can't touch it (then the loader uploads). */
    void *(*map)(struct device *d, enum device_arena a, uint32_t slice);
    /* Host memory that all devices of this back end copy from and to at full speed, aligned to 4096, zeroed;
     * the device frees it in close, after which the other devices must not use it. NULL: any memory does. */
    stator_status (*host_create)(struct device *d, uint64_t bytes, void **out, stator_error *e);
    /* Start-up only. Copies from `src` in host_create's memory into a slice; may return before it is done. */
    stator_status (*upload)(struct device *d, enum device_arena a, uint32_t slice, uint64_t offset,
                            const void *src, uint64_t bytes, stator_error *e);
    stator_status (*upload_wait)(struct device *d, stator_error *e); /* all uploads so far are done */
    /* Runs f on the device's host threads at once (member 0 is the caller, n >= 1 members in all); for
     * loading. */
    void (*parallel)(struct device *d, void (*f)(void *context, uint32_t member, uint32_t n), void *context);
    /* Whether d can push into the exchange of `to`, a device of the same back end: pushes patterned data of
     * several sizes and offsets from its `outgoing` into the `landing` of `to`, compares (verify) and times.
     * A pair that can't, corrupts or does not answer in time is an answer (direct = false, why), not an
     * error; an error is a lost device. work: host_create's memory. */
    stator_status (*peer_probe)(struct device *d, struct device *to, bool verify, void *work, uint64_t bytes,
                                struct device_route *r, stator_error *e);
    stator_status (*prepare)(struct device *d, const struct device_setup *s, stator_error *e);
    /* Host memory of step_bytes in which the step of a slot is described: the header is there after prepare;
     * free to write from the slot's wait to its submit. */
    void *(*step_slot)(struct device *d, uint32_t slot);
    stator_status (*submit)(struct device *d, uint32_t slot, stator_error *e);
    /* Waits at most timeout_ns (0: only looks) for the slot's step. *ended = false: it runs still. An error
     * (STATOR_DEVICE) is a failed step or a lost device; nothing more may be submitted then. */
    stator_status (*wait)(struct device *d, uint32_t slot, uint64_t timeout_ns, bool *ended, stator_error *e);
    /* Of the slot's ended step, on the device with the tail: [rows][vocab], [rows]. */
    const float *(*logits)(struct device *d, uint32_t slot);
    const struct step_pick *(*picks)(struct device *d, uint32_t slot);
    /* If opened with trace: the ops of the slot's ended step, at most max; returns how many. */
    uint32_t (*spans)(struct device *d, uint32_t slot, struct device_span *out, uint32_t max);
    void (*counters)(const struct device *d, struct device_counters *c);
    /* Once in a while, when nothing runs: hears whether a device of another host is still there, and lets it
     * hear us; it is lost when it does not answer within deadline_ns. note: not NULL, to ask what its rank
     * has to tell; *noted: it has told, once per rank. NULL: the device is here. */
    stator_status (*alive)(struct device *d, uint64_t deadline_ns, struct device_note *note, bool *noted,
                           stator_error *e);
    /* Device memory taken since open, by the driver's count: free then less free now, whoever took it; 0:
     * none or not known. After open on any thread. */
    uint64_t (*taken_bytes)(const struct device *d);
    /* Before any device of the run is closed: waits for what runs, within a deadline. What runs beyond it may
     * still touch memory of every device, so none of the back end's is freed then. NULL: nothing runs outside
     * submit. */
    void (*settle)(struct device *d);
    void (*close)(struct device *d); /* settles, and frees slices */
};

/* Every back end's device begins with this. */
struct device {
    const struct device_vtable *vtable;
};

/* A device chosen by devices.use, before it is opened: all that the planner needs. */
struct device_choice {
    struct device_facts facts;
    uint32_t threads; /* host threads it will run */
    char tier[16];    /* of CPU kernels, or what says the same of a GPU */
    char
        about[160]; /* for people: model, driver, versions; or why "auto" took it; "" when there is nothing */
    int cpus[256];  /* processors that the threads are pinned to */
    bool pinned;
    bool alone; /* no other device of the run has threads on its processors */
    bool joins; /* it has no threads of its own: it works in turn with `with`, and with its threads */
    struct device
        *with;    /* joins: a device of this back end, open as long as this one; set before device_open */
    char pci[16]; /* "0000:03:00.0"; "" where it has none or does not say */
    uint64_t deadline_ns; /* of one copy at the start */
    uint32_t where[8];    /* the back end's own: how it finds the device again */
};

/* Resolves one name of devices.use ("auto", "cpu", "cpu:0") to *n choices (more than one only for "auto"), at
 * most max. STATOR_USAGE: no such name; STATOR_DEVICE: named but not here; STATOR_USAGE: options that this
 * machine can't do. */
stator_status device_choose(const char *name, const struct device_options *o, struct device_choice *c,
                            uint32_t max, uint32_t *n, stator_error *e);
/* Whether the device's kernels take the model, whose graph is placed: what prepare would find, before
 * anything is opened. STATOR_DEVICE: they do not; the text says why. */
stator_status device_takes(const struct device_choice *c, const struct device_model *m, stator_error *e);
/* Host bytes that the opened device keeps for itself (threads' stacks, tables, workspaces, with trace room
 * for the spans). */
uint64_t device_host_bytes(const struct device_choice *c, const struct device_model *m, bool trace);
/* memory: host bytes as said by device_host_bytes, aligned to 64; it and *m outlive the device. */
stator_status device_open(const struct device_choice *c, const struct device_model *m, bool trace,
                          const struct phase *phase, void *memory, uint64_t bytes, struct device **out,
                          stator_error *e);

#endif
