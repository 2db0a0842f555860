/* Arguments of the kernels as structs, of the lists in kernels/shared/kernel_arguments.h: struct
 * launch_norm_arguments is filled by name, and launch_put_norm gives all of it to a launch in the kernel's
 * order. No state. */
#ifndef STATOR_DEVICE_LAUNCH_ARGUMENTS_H
#define STATOR_DEVICE_LAUNCH_ARGUMENTS_H

#include "device/launch/launch.h"
#include "kernels/shared/kernel_arguments.h"
#include "kernels/shared/opencl.h"

/* An address; arena LAUNCH_OF_PEER: of what device `slice` of the group has given for the op's exchange. */
#define LAUNCH_OF_PEER (DEVICE_TABLE + 1)
struct launch_at {
    enum device_arena arena;
    uint32_t slice;
    uint64_t offset;
};

/* Offsets from a value's base: of f32, q32, d32, s32, q256, d256, s256. */
struct launch_offsets {
    uint32_t at[7];
};

struct launch_forms {
    struct launch_at base;
    uint32_t has, width;
    struct launch_offsets offsets;
};

struct launch_source {
    struct launch_at base;
    struct launch_offsets offsets;
    uint32_t cols;
};

struct launch_weight {
    struct launch_at a, b; /* panels first .. cut - 1, and those from cut on */
    uint32_t first, cut;
    uint32_t type, file; /* of the panels, of the rows in the file */
};

struct launch_cache {
    struct launch_at slice[OPENCL_KV_SLICES];
    uint32_t unit, units_per_slice, unit_bytes, block_stride, k_bytes;
    uint32_t what; /* OPENCL_CACHE */
};

struct launch_states {
    struct launch_at base;
    uint32_t block_bytes, cache, window, key_heads, value_heads, dim_k, dim_v, taps;
};

#define LAUNCH_FIELD(kind, ...)         LAUNCH_FIELD_##kind(__VA_ARGS__)
#define LAUNCH_FIELD_BUFFER(type, name) struct launch_at name;
#define LAUNCH_FIELD_U32(name)          uint64_t name; /* checked when it is put */
#define LAUNCH_FIELD_F32(name)          float name;
#define LAUNCH_FIELD_LOCAL(type, name)  uint64_t name; /* bytes */
#define LAUNCH_FIELD_FORMS(name)        struct launch_forms name;
#define LAUNCH_FIELD_SOURCE(name)       struct launch_source name;
#define LAUNCH_FIELD_WEIGHT(name)       struct launch_weight name;
#define LAUNCH_FIELD_CACHE(name)        struct launch_cache name;
#define LAUNCH_FIELD_STATES(name)       struct launch_states name;

/* name: of the struct and the function; LIST: of the kernel's arguments. */
#define LAUNCH_KERNELS(F)                                                                                    \
    F(fill, FILL)                                                                                            \
    F(move, MOVE)                                                                                            \
    F(embed, EMBED)                                                                                          \
    F(softcap, SOFTCAP)                                                                                      \
    F(argmax_parts, ARGMAX_PARTS)                                                                            \
    F(argmax, ARGMAX)                                                                                        \
    F(center, CENTER)                                                                                        \
    F(norm, NORM)                                                                                            \
    F(forms, FORMS)                                                                                          \
    F(map, MAP)                                                                                              \
    F(layer_norm, LAYER_NORM)                                                                                \
    F(blend, BLEND)                                                                                          \
    F(project, PROJECT)                                                                                      \
    F(features, FEATURES)                                                                                    \
    F(streams_norm, STREAMS_NORM)                                                                            \
    F(streams_mix, STREAMS_MIX)                                                                              \
    F(streams_add, STREAMS_ADD)                                                                              \
    F(exchange_norm, EXCHANGE_NORM)                                                                          \
    F(exchange, EXCHANGE)                                                                                    \
    F(exchange_int8, EXCHANGE_INT8)                                                                          \
    F(wide, WIDE)                                                                                            \
    F(index, INDEX)                                                                                          \
    F(scores, SCORES)                                                                                        \
    F(choose, CHOOSE)                                                                                        \
    F(latent, LATENT)                                                                                        \
    F(pair, PAIR)                                                                                            \
    F(keep, KEEP)                                                                                            \
    F(conv, CONV)                                                                                            \
    F(gated_conv, GATED_CONV)                                                                                \
    F(ngram_gate, NGRAM_GATE)                                                                                \
    F(ngram_conv, NGRAM_CONV)                                                                                \
    F(delta, DELTA)                                                                                          \
    F(gate, GATE)                                                                                            \
    F(attention, ATTENTION)                                                                                  \
    F(router, ROUTER)                                                                                        \
    F(route, ROUTE)                                                                                          \
    F(group_slots, GROUP_SLOTS)                                                                              \
    F(near, NEAR)                                                                                            \
    F(take, TAKE)                                                                                            \
    F(mix, MIX) F(matmul, MATMUL) F(heads, HEADS) F(each, EACH) F(experts, EXPERTS)

struct launch_list;

#define LAUNCH_DECLARE(name, LIST)                                                                           \
    struct launch_##name##_arguments {                                                                       \
        KERNEL_ARGUMENTS_##LIST(LAUNCH_FIELD)                                                                \
    };                                                                                                       \
    void launch_put_##name(struct launch_list *b, struct launch *l,                                          \
                           const struct launch_##name##_arguments *a);
LAUNCH_KERNELS(LAUNCH_DECLARE)

#endif
