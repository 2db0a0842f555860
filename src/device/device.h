/* The contract of a device: where arenas lie and steps run. Only device_list.c names the back ends.
 *
 * The engine opens n devices in the order of the layers. Each device runs its layers, or its share of the
 * layers of its group (tensor split). The first one also runs the embedding, and the last one the tail
 * (logits and their argmax). All devices have the same layout of the step descriptor.
 *
 * Life: open -> slices created -> weights written (map or upload, upload_wait) -> peer_probe -> prepare ->
 * steps -> close. prepare validates everything, records command lists and may fail. submit only checks
 * invariants and writes the device's own fields of the descriptor. After prepare a device allocates nothing
 * and changes no command list and no argument.
 *
 * Steps. A device has model->slots slots, 0 and 1. The engine writes the descriptor into step_slot(k), calls
 * submit(k), then wait(k) until the step has ended. logits(k) and picks(k) are then valid until slot k is
 * submitted again. Consecutive steps with a body use the slots in turn (step s in slot s % slots). A step
 * without a body (run_body = 0) uses the slot of the body before it again. A device runs its steps in the
 * order of submission. submit may return while the step runs (GPU) or after it has ended (CPU). The engine
 * cannot tell which.
 *
 * Boundaries. In a step of slot k a device with link_out writes the residual stream into half k of the next
 * device's value `landing`, or into window k. A device with link_in begins with its half k. All copies are
 * recorded parts of the step. The engine orders steps from the host:
 *   step s is submitted to device i + 1 after device i has ended it (wait), and
 *   step s + slots is submitted to device i after device i + 1 has ended step s (half k is free again).
 * This costs one host round trip per boundary and step (on Intel GPUs: not measured), and needs no events
 * across devices.
 *
 * Tensor split. The devices of a group have shares of its layers. Groups stand behind each other as devices
 * do, with a boundary from the last device of one to the first of the next. The engine writes the same
 * descriptor for each device and submits a step to all devices, in the order of their shares. The step begins
 * when the last device has it, and has ended when it has ended on every device. So it is with a step without
 * a body, which may have nothing to do on the devices but the last. GPUs wait for each other by events in
 * their recorded lists, and the next step may be in their queues meanwhile.
 *
 * Thread: the engine's. Any member of `parallel` may call upload and upload_wait, one at a time (the loader
 * has a lock). */
#ifndef STATOR_DEVICE_DEVICE_H
#define STATOR_DEVICE_DEVICE_H

#include "base/log.h"
#include "base/phase.h"
#include "graph/graph.h"
#include "kernels/shared/step.h"

struct device;
struct device_helper;

/* DEVICE_WINDOW: spilled experts are copied to it; only with model->stream. DEVICE_SLOTS: experts are kept in
 * it; only with model->slots.n. */
enum device_arena {
    DEVICE_WEIGHTS,
    DEVICE_KV,
    DEVICE_SCRATCH,
    DEVICE_EXCHANGE,
    DEVICE_WINDOW,
    DEVICE_SLOTS,
    DEVICE_ARENAS,
    DEVICE_PINNED = DEVICE_ARENAS, /* no arena: the device's pinned part, for launches (launch.h); */
    DEVICE_MOVED,                  /* neither: the buffers of moves; */
    DEVICE_TABLE                   /* nor: the table of slots of the step's slot, in the pinned part */
};
const char *device_arena_name(enum device_arena a); /* "weights", .., "window", "slots" */

/* The largest slice; less where the device's largest allocation is smaller. */
#define DEVICE_SLICE_LIMIT ((4ull << 30) - (64 << 10))
#define DEVICE_MAX         GRAPH_MAX_SHARES /* devices of one model */
#define DEVICE_DEADLINE    60000000000ull   /* ns; default of a copy */

/* The facts of a device that the plan may use. */
struct device_facts {
    char name[32];      /* "cpu:0" */
    char kind[16];      /* "cpu" */
    bool host_memory;   /* its arenas are host memory and count against the host's limit */
    bool remote;        /* the device belongs to another host of the run */
    uint64_t memory;    /* bytes; 0 with host_memory: the host's limit */
    uint64_t max_alloc; /* largest single allocation; 0: no limit */
    uint64_t bandwidth; /* bytes per second; 0: not known */
    uint64_t bus;       /* bytes per second from host memory; 0: not known. The plan does not depend on it */
    uint64_t link;      /* bytes per second into the memory of another device; 0: not known. Of estimates */
    uint64_t hop_ns;    /* until another device has seen a few bytes from this one; 0: not known. Likewise */
    uint64_t alignment; /* of slices */
};

/* Settings that the user chose. */
struct device_options {
    uint32_t threads;     /* 0: physical cores of the cpuset */
    char tier[16];        /* "auto" or a tier's name */
    uint32_t cpu_devices; /* number of CPU devices on this machine's processors */
    uint64_t deadline_ns; /* of one copy at the start; 0: DEVICE_DEADLINE */
};

/* The place of a cache of the graph. A unit is a layer's KV head, or a layer's state. Each unit has n_blocks
 * blocks, and a slice holds units_per_slice units. Head h of the cache's layer l is unit l * units + h. Every
 * cache begins a new slice. The units of the last spilled_layers layers also begin a new slice, behind all
 * caches; the engine may put those slices elsewhere. */
struct device_cache {
    uint32_t n_blocks;
    uint32_t of_sequences; /* so many blocks are for sequences; the checkpoints' blocks follow */
    uint32_t per_sequence; /* entries of a block table */
    uint64_t unit_bytes;
    uint32_t units_per_slice;
    uint32_t spilled_layers; /* 0 on a device in host memory */
};

/* Spilled experts. A step of at least `tokens` tokens copies them to the window: one half is filled while the
 * kernels read the other. Shorter steps read them in host memory, or (hosted) the processors compute them.
 * tokens = 0: all steps do, and there is no window. */
struct device_stream {
    uint32_t tokens;
    uint64_t half_bytes;
};

/* Slots of the device for experts that the processors compute otherwise (memory.expert_slots): each layer has
 * `n`. A slot has what an expert has of all matrices, biases and factors of the layer. */
struct device_slots {
    uint32_t n; /* 0: there are none */
    uint64_t slice_limit;
};

/* Buffers of the host that blocks of the caches are moved to and from (cache.kv_dir): `blocks` of
 * block_bytes, then `checkpoints` of checkpoint_bytes, one after the other. All devices have the same. */
struct device_moves {
    uint32_t blocks, checkpoints; /* 0: there are none */
    uint64_t block_bytes, checkpoint_bytes;
    uint32_t pieces; /* that a move has at most */
};
static inline uint32_t device_moves_n(const struct device_moves *m) {
    return m->blocks + m->checkpoints;
}
static inline uint64_t device_moves_at(const struct device_moves *m, uint32_t buffer) {
    return buffer < m->blocks ? buffer * m->block_bytes
                              : m->blocks * m->block_bytes + (buffer - m->blocks) * m->checkpoint_bytes;
}

/* What a device has in a block of a cache: all its units. In the buffer they lie head by head, and `apart`
 * bytes from one layer to the next; all multiples of STEP_MOVE_UNIT. */
struct device_piece {
    uint32_t cache, block;
    uint64_t at, apart;
};

/* The part of the model that one device runs: a graph with all its places. */
struct device_model {
    const struct graph *graph;
    struct device_cache caches[GRAPH_MAX_CACHES]; /* graph->n_caches of them */
    uint32_t sequences;
    struct step_header step; /* the offsets in the step descriptor; all counts are 0 */
    uint64_t step_bytes;     /* of one descriptor */
    uint32_t slots;          /* of steps: 1 (one CPU device alone) or 2 */
    struct device_stream stream;
    struct device_moves moves;
    struct device_slots cached; /* experts that a hosted model has on the device beside the helper's */
    bool hosted; /* the processors compute the layers' experts, which are all spilled (device_helper.h) */
};

/* Check the invariants of a step descriptor. They return NULL, or a text about the flaw. A flaw is a bug of
 * stator. device_step_flaw checks counts, offsets, chunks and wanted rows, which is cheap.
 * device_tables_flaw, called after it, checks the block tables. */
const char *device_step_flaw(const struct device_model *m, const void *slot);
const char *device_tables_flaw(const struct device_model *m, const void *slot);

/* The slices [first, end) of the kv arena that hold the cache's spilled layers, or (spilled = false) its
 * other layers, and the number of their units. */
struct device_cache_part {
    uint32_t first, end;
    uint32_t units;
};
struct device_cache_part device_cache_part(const struct device_model *m, uint32_t cache, bool spilled);
/* Slices of the kv arena, with or without the spilled ones. */
uint32_t device_cache_slices(const struct device_model *m, bool spilled_too);

/* With model->hosted: what the device and its helper exchange for a layer, as offsets from `hosted` in the
 * pinned part. The layers take turns. A slot is a (token, chosen expert): slot t * used + i is the i-th of
 * token t. */
struct device_hosted {
    uint64_t chosen; /* to the helper: uint32_t [batch * used], the expert of each slot */
    /* To the helper: the rows [batch] that the experts multiply, in the forms of struct kernels_act. */
    uint64_t f32, q32, d32, s32, q256, d256, s256;
    uint64_t out; /* from the helper: float [batch * used][width], a row per slot, grouped by expert
                     (kernels/shared/experts.h with align 1) */
    uint64_t bytes;
};
/* The same as offsets from `base`; bytes is 0 where the model is not hosted. */
void device_hosted_lay_out(const struct device_model *m, uint64_t base, struct device_hosted *h);
/* The forms of rows that the op's matrices multiply: GRAPH_F32 | .. */
uint32_t device_hosted_forms(const struct graph *g, uint32_t op);
/* Bytes of a row in these forms, for a gated op. */
uint64_t device_hosted_row_bytes(const struct graph *g, uint32_t op);

/* With model->cached: where the slots of an op's weight lie in DEVICE_SLOTS: their panels, slot after slot,
 * then their rows of its bias and their factors. */
struct device_slot_place {
    uint32_t slice;
    uint64_t panels, bias, factor;
};
struct device_slot_place device_slot_place(const struct device_model *m, uint32_t op, uint32_t weight);
/* The bytes of each slice of DEVICE_SLOTS; returns how many, which may be more than GRAPH_MAX_SLICES: too
 * many. */
uint32_t device_slot_slices(const struct device_model *m, uint64_t slices[GRAPH_MAX_SLICES]);

/* The table of a step's slot, in words: for each layer with experts, in their order, the slot of each expert
 * or EXPERTS_FAR, then the number of experts that are copied to slots behind the layer's products (0 or 1),
 * then that expert and its slot. The host writes it before the submit. */
#define DEVICE_SLOT_COPIES 1
/* Of layers in which a token chooses so many experts: a step copies at most an eighth of these. */
static inline uint32_t device_slot_copies(uint32_t layers, uint32_t chosen) {
    return ARITH_MAX(ARITH_MIN(chosen / 8, layers * DEVICE_SLOT_COPIES), 1u);
}
struct device_slot_table {
    uint32_t layers, experts; /* of the layer that has most */
    uint32_t copies;          /* words from a layer's begin to its copies */
    uint32_t stride;          /* words of a layer */
};
struct device_slot_table device_slot_table(const struct device_model *m);
/* The number of the op's layer in it. */
uint32_t device_slot_layer(const struct device_model *m, uint32_t op);

/* Pinned memory in `staging` for what the host writes and reads, if the device's exchange is not host memory.
 * Offsets from the beginning of the device's pinned part. */
struct device_pinned {
    uint64_t step[2];   /* descriptors, step_bytes each */
    uint64_t logits[2]; /* float [logits_rows][vocab]; UINT64_MAX on a device without a tail */
    uint64_t picks[2]; /* struct step_pick [logits_rows]; UINT64_MAX on a device without a tail, or a tower */
    /* Of the graph's values of these names, for each of the model's slots; UINT64_MAX: there is none. */
    uint64_t pictures[2], ngrams[2], blends[2], windows[2];
    uint64_t hosted; /* struct device_hosted; hosted_bytes 0: there is none */
    uint64_t hosted_bytes;
    uint64_t table[2]; /* struct device_slot_table of each slot */
    uint64_t moves;    /* struct step_moves for each of model->moves, moves_bytes each */
    uint64_t moves_bytes;
    uint64_t bytes; /* in all; 0 for devices in host memory */
};
void device_pinned_lay_out(const struct device_facts *f, const struct device_model *m,
                           struct device_pinned *p);

/* struct graph_want.cells of a device's graph. On a GPU: room for all splits of one token and `guesses` draft
 * tokens of every sequence, in steps of at most `batch` tokens; at least of OPENCL_SPLIT_QUERIES queries. 0:
 * the device needs none, or no sequence can have two splits. */
uint32_t device_cells(const struct device_facts *f, uint32_t context, uint32_t sequences, uint32_t guesses,
                      uint32_t batch);

/* One side of a boundary between two devices. */
struct device_link {
    struct device *peer; /* the next device (link_out) or the one before (link_in) */
    bool direct;         /* link_out writes into the peer's landing; else copies go through window */
    float *window[2];    /* staged: [batch][graph.width] each, pinned, in `staging` */
};

/* The devices of a tensor split, in the order of their shares. */
struct device_group {
    uint32_t count;
    struct device *devices[DEVICE_MAX];
    /* Of GPUs: whether device i writes into the landing zone of device k; else k reads window[i], half by
     * half, share_given bytes each, and for logits window[i][2], share_given_rows bytes, pinned, in
     * `staging`. */
    bool direct[DEVICE_MAX][DEVICE_MAX];
    void *window[DEVICE_MAX][3];
};

/* How data is copied from one device to another. */
struct device_route {
    bool direct;
    char why[128];             /* if not direct: the reason */
    uint64_t bytes_per_second; /* of the largest copy that was timed; 0: not measured */
    uint64_t latency_ns;       /* of the smallest copy that was timed; 0: not measured */
};

struct device_counters {
    uint64_t submits;
    uint64_t kernels_executed; /* ops run; on a GPU: kernels launched */
    uint64_t direct_bytes;     /* written directly into the next device's landing, or read from the other
                                  devices of a tensor split */
    uint64_t staged_bytes;     /* sent through a staged window */
    uint64_t away_ns;          /* of steps on another host: time in transit and in that host's queue */
    uint64_t copied_bytes;     /* between host and device memory since prepare: descriptors, results */
    uint64_t streamed_bytes;   /* of spilled experts, copied to the window */
    uint64_t helped_rows;      /* (token, chosen expert) that the helper computed */
    uint64_t helped_ns;        /* in which it did */
    uint64_t slot_rows;        /* likewise that the device computed out of slots */
    uint64_t slot_copies;      /* experts that were copied to slots */
};

/* One op of an ended step, on base/clock's time. */
struct device_span {
    uint32_t op; /* index in the graph */
    uint64_t begin_ns;
    uint64_t end_ns;
};

/* A rank's answer about its own process. The engine defines the figures. */
#define DEVICE_NOTE_FIGURES 9
struct device_note {
    uint32_t rank;
    int64_t figures[DEVICE_NOTE_FIGURES];
    char text[232];
};

/* Arguments of prepare. */
struct device_setup {
    const struct device_link *in;  /* NULL on the first device */
    const struct device_link *out; /* NULL on the last */
    /* With a tensor split; else NULL. It lives as long as the devices. */
    const struct device_group *group;
    void *pinned;                 /* device_pinned.bytes, aligned to 4096; NULL if that is 0 */
    void *moved;                  /* the buffers of model->moves, in `staging`; NULL: there are none */
    struct device_helper *helper; /* with model->hosted, attached; else NULL */
    const struct log *log;        /* for what is not worth an error; lives as long as the device */
    const char *kernel_cache;     /* folder of compiled kernels; NULL or "": none */
};

struct device_vtable {
    /* Makes slice `slice` of an arena, zeroed. STATOR_DOES_NOT_FIT: there is not enough memory. */
    stator_status (*slice_create)(struct device *d, enum device_arena a, uint32_t slice, uint64_t bytes,
                                  stator_error *e);
    /* The same in host memory that the device's kernels access over the bus, for spilled data. These slices
     * follow the arena's other slices. NULL: the device's memory is host memory. */
    stator_status (*slice_spill)(struct device *d, enum device_arena a, uint32_t slice, uint64_t bytes,
                                 stator_error *e);
    /* The host address and the size of a slice that slice_spill made; NULL if it made none. The function is
     * NULL where slice_spill is. */
    const void *(*spilled)(const struct device *d, enum device_arena a, uint32_t slice, uint64_t *bytes);
    /* Free device memory in bytes; 0: not known. NULL: not known either. */
    uint64_t (*free_bytes)(struct device *d);
    /* The host address of a slice; NULL if the host cannot access it (then the loader uploads). */
    void *(*map)(struct device *d, enum device_arena a, uint32_t slice);
    /* Host memory that all devices of this back end copy from and to at full speed, aligned to 4096, zeroed.
     * close frees it, and the other devices must not use it afterwards. NULL: any host memory serves. */
    stator_status (*host_create)(struct device *d, uint64_t bytes, void **out, stator_error *e);
    /* Start-up only. Copies from `src`, in host_create's memory, into a slice. May return before the copy has
     * ended. */
    stator_status (*upload)(struct device *d, enum device_arena a, uint32_t slice, uint64_t offset,
                            const void *src, uint64_t bytes, stator_error *e);
    stator_status (*upload_wait)(struct device *d, stator_error *e); /* until all uploads have ended */
    /* Runs f on all host threads of the device at once (member 0 is the caller, n >= 1 members), for
     * loading. */
    void (*parallel)(struct device *d, void (*f)(void *context, uint32_t member, uint32_t n), void *context);
    /* Finds out whether d can write into the exchange of `to`, a device of the same back end: copies
     * patterned data of several sizes and offsets from its `outgoing` into the `landing` of `to` (in a
     * tensor split: from zone to zone), compares it (if verify) and takes the time. A pair that fails,
     * corrupts data or is too slow to answer gives direct = false and the reason, and no error. An error
     * means that the device is lost. work: host_create's memory. */
    stator_status (*peer_probe)(struct device *d, struct device *to, bool verify, void *work, uint64_t bytes,
                                struct device_route *r, stator_error *e);
    stator_status (*prepare)(struct device *d, const struct device_setup *s, stator_error *e);
    /* Host memory of step_bytes for the slot's step descriptor. prepare writes the header. The engine may
     * write from the slot's wait to its submit. */
    void *(*step_slot)(struct device *d, uint32_t slot);
    stator_status (*submit)(struct device *d, uint32_t slot, stator_error *e);
    /* Waits at most timeout_ns (0: does not wait) for the slot's step. *ended = false: it still runs. An
     * error (STATOR_DEVICE) is a failed step or a lost device; nothing more may be submitted then. */
    stator_status (*wait)(struct device *d, uint32_t slot, uint64_t timeout_ns, bool *ended, stator_error *e);
    /* Begins to copy n pieces between the caches and a buffer of model->moves, which no other move has; out:
     * from the caches. It takes its place in the order of the device's steps. NULL, as moved: the caches are
     * host memory. An error: nothing was begun. */
    stator_status (*move)(struct device *d, uint32_t buffer, bool out, const struct device_piece *pieces,
                          uint32_t n, stator_error *e);
    /* Waits at most timeout_ns for the buffer's move; *ended = false: it still runs. An error: the device is
     * lost. */
    stator_status (*moved)(struct device *d, uint32_t buffer, uint64_t timeout_ns, bool *ended,
                           stator_error *e);
    /* Results of the slot's ended step, on the device with the tail: [rows][vocab], and argmax [rows]. */
    const float *(*logits)(struct device *d, uint32_t slot);
    const struct step_pick *(*picks)(struct device *d, uint32_t slot);
    /* If opened with trace: times of the ops of the slot's ended step, at most max. Returns their number. */
    uint32_t (*spans)(struct device *d, uint32_t slot, struct device_span *out, uint32_t max);
    void (*counters)(const struct device *d, struct device_counters *c);
    /* For a device of another host, now and then while nothing runs: exchanges a message with it. The device
     * is lost if it does not answer within deadline_ns. A note that is not NULL asks for the note of the
     * device's rank; *noted: it has come, once per rank. The function is NULL for a local device. */
    stator_status (*alive)(struct device *d, uint64_t deadline_ns, struct device_note *note, bool *noted,
                           stator_error *e);
    /* Device memory taken since open, by the driver's count (free memory then minus free memory now, so other
     * processes count too); 0: none or not known. After open on any thread. */
    uint64_t (*taken_bytes)(const struct device *d);
    /* Called before any device of the run is closed: waits for running work, within a deadline. Work that
     * still runs afterwards may access the memory of every device, so the back end frees none then. NULL:
     * nothing runs outside submit. */
    void (*settle)(struct device *d);
    void (*close)(struct device *d); /* settles, then frees the slices */
};

/* Every back end's device begins with this. */
struct device {
    const struct device_vtable *vtable;
};

/* A device chosen by devices.use, before it is opened. The planner needs nothing else. */
struct device_choice {
    struct device_facts facts;
    uint32_t threads; /* host threads that it will run */
    char tier[16];    /* of CPU kernels, or the GPU's counterpart */
    char about[160];  /* for people: model, driver, versions; or why "auto" chose it; may be "" */
    int cpus[256];    /* processors that the threads are pinned to */
    bool pinned;
    bool alone; /* no other device of the run has threads on its processors */
    bool turns; /* other engines of this process may have threads on its processors: their steps take turns.
                   Set before device_open */
    bool joins; /* it has no threads of its own, and uses those of `with` in turn with that device */
    struct device
        *with;    /* joins: a device of this back end, open as long as this one; set before device_open */
    char pci[16]; /* "0000:03:00.0"; "" if unknown */
    uint64_t deadline_ns; /* of one copy at the start */
    uint32_t where[8];    /* the back end's own: how it finds the device again */
};

/* Resolves one name of devices.use ("auto", "cpu", "cpu:0") to *n choices (more than one only for "auto"), at
 * most max. STATOR_USAGE: no such name, or options that this machine cannot fulfil. STATOR_DEVICE: the device
 * is not here. */
stator_status device_choose(const char *name, const struct device_options *o, struct device_choice *c,
                            uint32_t max, uint32_t *n, stator_error *e);
/* Checks whether the device's kernels can run the model. The graph must be placed. These are the checks of
 * prepare, before anything is opened. STATOR_DEVICE: the kernels cannot run it; the text says why. */
stator_status device_takes(const struct device_choice *c, const struct device_model *m, stator_error *e);
/* Host bytes that the opened device needs for itself (thread stacks, tables, workspaces; with trace also the
 * spans). */
uint64_t device_host_bytes(const struct device_choice *c, const struct device_model *m, bool trace);
/* What a device is opened with. memory and *model outlive the device. */
struct device_opening {
    const struct device_choice *choice;
    const struct device_model *model;
    const struct phase *phase;
    bool trace;   /* it keeps spans */
    void *memory; /* of device_host_bytes, aligned to 64 */
    uint64_t bytes;
};
stator_status device_open(const struct device_opening *o, struct device **out, stator_error *e);

#endif
