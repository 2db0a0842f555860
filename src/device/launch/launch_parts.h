/* What launch.c and launch_matmul.c share: the list that is being made. */
#ifndef STATOR_DEVICE_LAUNCH_PARTS_H
#define STATOR_DEVICE_LAUNCH_PARTS_H

#include "device/launch/launch.h"

#include "base/arith.h"
#include "base/check.h"
#include "kernels/kernels.h"

/* Up to so many tokens a step is bound by memory. */
#define LAUNCH_FEW 16

/* Indices of launch_kernels; the matmul kernels follow. */
enum {
    LAUNCH_ZERO_KV,
    LAUNCH_EMBED,
    LAUNCH_ARGMAX,
    LAUNCH_NORM,
    LAUNCH_CONV,
    LAUNCH_DELTA,
    LAUNCH_DELTA_WIDE, /* keys of more than 128 values */
    LAUNCH_GATE,
    LAUNCH_ATTENTION, /* by enum kernels_kv of K and V, then for two different types */
    LAUNCH_ROUTE = LAUNCH_ATTENTION + KERNELS_KV_TYPES + 1,
    LAUNCH_GROUP_SLOTS,
    LAUNCH_MIX,
    LAUNCH_MATMUL
};

struct launch_list {
    const struct device_model *m;
    const struct graph *g;
    const struct launch_traits *traits;
    uint32_t rows;      /* of the bucket */
    struct launch *out; /* or NULL: only counts */
    uint32_t n;
    uint64_t local_needed; /* by the launch that needs most */
    struct launch dropped;
    stator_error *e;
};

/* A new launch with its first argument, the step descriptor; at most `items` groups have work. */
struct launch *launch_add(struct launch_list *b, uint32_t kernel, uint32_t op, uint32_t group,
                          uint64_t items);

/* The next argument. */
void launch_buffer(struct launch *l, enum device_arena arena, uint32_t slice, uint64_t offset);
void launch_no_buffer(struct launch *l); /* for a pointer that the kernel will not follow */
void launch_u32(struct launch *l, uint64_t v);
void launch_f32(struct launch *l, float v);
void launch_local(struct launch_list *b, struct launch *l, uint64_t bytes);
void launch_value(struct launch_list *b, struct launch *l, uint32_t value);     /* its base */
void launch_value_f32(struct launch_list *b, struct launch *l, uint32_t value); /* its floats */
void launch_plain_weight(struct launch_list *b, struct launch *l, uint32_t weight);
/* Seven arguments: offsets of f32, q32, d32, s32, q256, d256, s256 from the value's base. */
void launch_forms(struct launch *l, const struct graph_value *v);
/* Ten arguments: where the op's layer lies in its cache. */
stator_status launch_cache(struct launch_list *b, struct launch *l, const struct graph_op *o);

/* launch_delta.c */
stator_status launch_conv(struct launch_list *b, uint32_t op);
stator_status launch_delta(struct launch_list *b, uint32_t op);
stator_status launch_gate(struct launch_list *b, uint32_t op);

/* The op `op`; with launch_heads, together with the op `rope` that rotates and stores what it gives. */
stator_status launch_matmul(struct launch_list *b, uint32_t op);
stator_status launch_heads(struct launch_list *b, uint32_t op, uint32_t rope);
/* ROUTE and EXPERTS. */
stator_status launch_route(struct launch_list *b, uint32_t op);
stator_status launch_experts(struct launch_list *b, uint32_t op);

#endif
