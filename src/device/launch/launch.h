/* A placed graph as launches of GPU kernels: which kernel, which arguments, how many groups. Pure C that
 * touches no device, so that tests see it without one.
 *
 * Launches of a list run in order, each after the one before it has ended (a barrier between them). All that
 * differs between steps is data in the step descriptor at the start of exchange: a list made for `rows`
 * tokens (or rows of logits) serves every step of at most so many, with any context. Grids are fixed; groups
 * walk a work list whose length they read from the descriptor.
 *
 * The copy of the descriptor, of landing and outgoing residuals and of results is not in here: GRAPH_LAND and
 * GRAPH_SEND make no launch. Where the model is hosted, the back end asks the helper at the gated op of
 * experts (device_helper.h). The only experts with launches are then those that have slots on the device, and
 * the second op mixes their rows with those of the helper. A list that copies experts to the window has
 * launches for all of them, and asks nobody. */
#ifndef STATOR_DEVICE_LAUNCH_H
#define STATOR_DEVICE_LAUNCH_H

#include "device/launch/launch_modules.h"
#include "device/device.h"

/* What a device can do; from its properties. */
struct launch_traits {
    uint32_t max_group;       /* work items in a group */
    uint32_t local_bytes;     /* local memory of a group, at least 32 KiB */
    uint32_t threads;         /* hardware threads of the whole device */
    uint32_t sub_group_sizes; /* bit log2(n): sub-groups of n work items can be asked for */
    bool dpas; /* the matrix engine takes int8: sub-groups of 8 or 16 by sub_group_sizes' smallest */
};

enum launch_arg_kind {
    LAUNCH_BUFFER, /* zeKernelSetArgumentValue(8 bytes: address of the arena's slice + offset); of
                      DEVICE_PINNED, DEVICE_MOVED, DEVICE_TABLE: the pinned part's, .. + offset */
    LAUNCH_U32,
    LAUNCH_F32,
    LAUNCH_LOCAL, /* u32 bytes of local memory: zeKernelSetArgumentValue(u32, NULL) */
    LAUNCH_PEER   /* address of the rows that device u32 of the tensor split gives for the op (share.h) */
};

struct launch_arg {
    enum launch_arg_kind kind;
    union {
        struct {
            enum device_arena arena;
            uint32_t slice;
            uint64_t offset;
        } buffer;
        uint32_t u32;
        float f32;
    };
};

#define LAUNCH_MAX_ARGS 64

/* Bytes of spilled experts that a launch wants in the window before it runs. */
struct launch_copy {
    struct {
        enum device_arena arena;
        uint32_t slice;
        uint64_t offset;
    } from;
    uint64_t to; /* in the window */
    uint64_t bytes;
};

struct launch {
    uint32_t kernel; /* of launch_kernels */
    uint32_t op;     /* of the graph */
    uint32_t group;  /* work items in a group, in x */
    uint32_t groups; /* in x */
    /* A launch with copies is the list's only one that reads its half of the window; halves take turns, so
     * that the next but one has the same. */
    uint32_t half;
    bool answered; /* it reads what the helper gives */
    uint32_t n_copies;
    struct launch_copy copies[GRAPH_OP_WEIGHTS];
    uint32_t n_args;
    struct launch_arg args[LAUNCH_MAX_ARGS];
};

struct launch_kernel {
    const char *name;                   /* of the function */
    const struct launch_module *module; /* only modules that some launch names need to be built */
};

extern const struct launch_kernel launch_kernels[];
extern const uint32_t launch_n_kernels;

enum launch_part {
    LAUNCH_BODY,  /* ops before graph.tail */
    LAUNCH_TAIL,  /* those from there to graph.guess */
    LAUNCH_BLOCK, /* of STEP_GUESS: [graph.nextn, graph.nextn_end), */
    LAUNCH_GUESS  /* and those from graph.guess on */
};

/* Buckets of a dimension of at most `most` tokens (or rows): lists are made for 1, 4, 16, 32, 64 and `most`,
 * as far as these are not above it, and for one less than `stream`, the tokens from which on experts are
 * copied (0: none). bounds[n - 1] == most. A step of t takes the first bucket with t <= bound. */
#define LAUNCH_BUCKETS 7
uint32_t launch_buckets(uint32_t most, uint32_t stream, uint32_t bounds[LAUNCH_BUCKETS]);
/* Rows that the packed form of the value has in a list of so many tokens: the same on every device of a
 * group, some of which may copy experts in steps where others do not. */
uint32_t launch_packed_rows(const struct graph *g, const struct graph_value *v, uint32_t rows);
/* Whether a list copies spilled experts to the window, which is the bodies'. */
bool launch_streams(const struct device_model *m, enum launch_part part, uint32_t rows);
/* Launches of a list that have copies, at most. */
uint32_t launch_streamed(const struct device_model *m);

/* How the step's chunks are cut for attention, in its descriptor: for a list of at most `rows` tokens. An
 * item is a tile of queries, and a split of 256 tokens where splits are computed side by side: of chunks of
 * few queries, and of others while there are cells and their tiles do not fill the device. Each KV head of an
 * op works on every item. One cut serves all attention ops of the model, which may have other heads: it is
 * made for the first of them, and has tiles of many rows only if all ops have kernels for them. */
void launch_cut(const struct device_model *m, const struct launch_traits *t, uint32_t rows,
                struct step_header *h);

void launch_range(const struct graph *g, enum launch_part part, uint32_t *begin, uint32_t *end);
/* The launches of one part of the model for at most `rows` tokens (tail: rows of logits); the descriptor lies
 * at the start of exchange, whatever the step's slot. *n is how many; writes them to out if that is not NULL.
 * STATOR_DEVICE: the model's shape, its cut into slices or the device's traits are beyond what the kernels
 * do; the text says what. */
stator_status launch_build(const struct device_model *m, const struct launch_traits *t, enum launch_part part,
                           uint32_t rows, struct launch *out, uint32_t *n, stator_error *e);

/* The launches that move blocks between the caches and a buffer of m->moves, by the buffer's struct
 * step_moves, which lies at `moves` in the pinned part. *n and out as above. */
void launch_moves(const struct device_model *m, const struct launch_traits *t, uint32_t buffer,
                  uint64_t moves, struct launch *out, uint32_t *n);

#endif
