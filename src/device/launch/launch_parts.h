/* What the files of this room share: the list that is being made. */
#ifndef STATOR_DEVICE_LAUNCH_PARTS_H
#define STATOR_DEVICE_LAUNCH_PARTS_H

#include "device/launch/launch.h"
#include "device/launch/launch_arguments.h"

#include "base/arith.h"
#include "base/check.h"
#include "kernels/kernels.h"

/* Up to so many tokens a step is bound by memory. */
#define LAUNCH_FEW 16

/* How many modules OPENCL_EACH_MODULES has. */
#define LAUNCH_ONE(...) +1
enum { LAUNCH_EACH_MODULES = 0 OPENCL_EACH_MODULES(LAUNCH_ONE) };

/* Delta rules for keys of 128 values, less and more; state spaces. */
enum launch_rule {
    LAUNCH_RULE,
    LAUNCH_RULE_SMALL,
    LAUNCH_RULE_WIDE,
    LAUNCH_SSD,
    LAUNCH_SSD_WIDE,
    LAUNCH_RULES
};

/* Indices of launch_kernels; the matmul kernels follow. */
enum {
    LAUNCH_FILL,
    LAUNCH_MOVE,
    LAUNCH_EMBED,
    LAUNCH_SOFTCAP,
    LAUNCH_ARGMAX_PARTS,
    LAUNCH_ARGMAX,
    LAUNCH_CENTER,
    LAUNCH_NORM,
    LAUNCH_FORMS,
    LAUNCH_EXCHANGE, /* rows of the columns of a tensor split's devices */
    LAUNCH_EXCHANGE_NORM,
    LAUNCH_EXCHANGE_INT8, /* the same in the int8 form of out */
    LAUNCH_MAP,           /* launch_tower.c */
    LAUNCH_LAYER_NORM,
    LAUNCH_BLEND,
    LAUNCH_PROJECT,
    LAUNCH_FEATURES,
    LAUNCH_STREAMS_NORM, /* launch_streams.c */
    LAUNCH_STREAMS_MIX,
    LAUNCH_STREAMS_ADD,
    LAUNCH_WIDE, /* heads normed together, rotated and stored */
    LAUNCH_PAIR,
    LAUNCH_KEEP,
    LAUNCH_CONV,
    LAUNCH_GATED_CONV,
    LAUNCH_NGRAM_GATE,
    LAUNCH_NGRAM_CONV,
    LAUNCH_DELTA,                                /* by enum launch_rule */
    LAUNCH_DELTA8 = LAUNCH_DELTA + LAUNCH_RULES, /* for sub-groups of 8 */
    LAUNCH_GATE = LAUNCH_DELTA8 + LAUNCH_RULES,
    LAUNCH_ATTENTION, /* by enum kernels_kv of K and V, then for two different types */
    LAUNCH_ATTENTION8 = LAUNCH_ATTENTION + KERNELS_KV_TYPES + 1, /* for sub-groups of 8 */
    LAUNCH_BOTH = LAUNCH_ATTENTION8 + KERNELS_KV_TYPES + 1,      /* to both sides: the same */
    LAUNCH_BOTH8 = LAUNCH_BOTH + KERNELS_KV_TYPES + 1,
    LAUNCH_CHOSEN = LAUNCH_BOTH8 + KERNELS_KV_TYPES + 1, /* to chosen blocks: the same */
    LAUNCH_CHOSEN8 = LAUNCH_CHOSEN + KERNELS_KV_TYPES + 1,
    LAUNCH_LATENT = LAUNCH_CHOSEN8 + KERNELS_KV_TYPES + 1, /* by enum kernels_kv */
    LAUNCH_LATENT8 = LAUNCH_LATENT + KERNELS_KV_TYPES,
    LAUNCH_TILES = LAUNCH_LATENT8 + KERNELS_KV_TYPES, /* LAUNCH_TILES_OF */
    LAUNCH_LATENT_STORE = LAUNCH_TILES + 12,
    LAUNCH_INDEX_STORE, /* launch_index.c */
    LAUNCH_INDEX_KEYS,
    LAUNCH_INDEX_SCORES,
    LAUNCH_INDEX_CHOOSE,
    LAUNCH_ROUTER,
    LAUNCH_ROUTER8, /* for sub-groups of 8 */
    LAUNCH_ROUTE,
    LAUNCH_GROUP_SLOTS,
    LAUNCH_NEAR,
    LAUNCH_TAKE,
    LAUNCH_MIX,
    LAUNCH_EACH, /* products of a matrix per head */
    LAUNCH_EACH_END = LAUNCH_EACH + LAUNCH_EACH_MODULES,
    LAUNCH_MATMUL = LAUNCH_EACH_END
};

/* Attention with tiles of 32 or 64 rows (small, !small), K and V of F32 or F16, for sub-groups of 8 or 16; K
 * and V of Q8_0, with the matrix engine or without. */
#define LAUNCH_TILES_OF(small, type, eight) (LAUNCH_TILES + 4 * (small) + 2 * (type) + (eight))
#define LAUNCH_TILES_Q8(dpas, eight)        (LAUNCH_TILES + 8 + 2 * (dpas) + (eight))

struct launch_list {
    const struct device_model *m;
    const struct graph *g;
    const struct launch_traits *traits;
    uint32_t rows;      /* of the bucket */
    bool streams;       /* it copies spilled experts to the window (launch_streams) */
    struct launch *out; /* or NULL: only counts */
    uint32_t n;
    uint32_t streamed;     /* launches with copies so far */
    uint64_t local_needed; /* by the launch that needs most */
    struct launch dropped;
    stator_error *e;
};

/* A new launch, which has its first argument, the step descriptor; at most `items` groups have work. */
struct launch *launch_add(struct launch_list *b, uint32_t kernel, uint32_t op, uint32_t group,
                          uint64_t items);

/* launch_arguments.c; launch_add calls it. */
void launch_put_step(struct launch_list *b, struct launch *l);

/* What arguments are made of. */
struct launch_at launch_nowhere(void); /* for a pointer that the kernel will not follow */
struct launch_at launch_floats(const struct launch_list *b, uint32_t value);
/* Of cl_heads.h. */
uint64_t launch_rotation(const struct launch_list *b, const struct graph_rope *r, uint32_t angles);
struct launch_at launch_plain_weight(const struct launch_list *b, uint32_t weight); /* GRAPH_NONE: nowhere */
/* Byte `form` of the value. */
struct launch_at launch_value(const struct launch_list *b, uint32_t value, uint64_t form);
struct launch_forms launch_forms_of(const struct launch_list *b, uint32_t value, uint32_t has);
struct launch_source launch_source_of(const struct launch_list *b, const struct graph_op *o);
/* Where the op's layer lies in its cache. */
stator_status launch_cache_of(struct launch_list *b, const struct graph_op *o, struct launch_cache *out);

/* launch_delta.c */
/* Where the op's layer has its states, and the shape of what they are of (CONV, DELTA). */
stator_status launch_states_of(struct launch_list *b, const struct graph_op *o, struct launch_states *out);
stator_status launch_conv(struct launch_list *b, uint32_t op);
stator_status launch_gated_conv(struct launch_list *b, uint32_t op);
stator_status launch_ngram_gate(struct launch_list *b, uint32_t op);
stator_status launch_ngram_conv(struct launch_list *b, uint32_t op);
stator_status launch_delta(struct launch_list *b, uint32_t op);
/* Of a MATMUL or EXPERTS with RELU2, behind the product: its value's floats, `each` rows of a token. */
void launch_relu2(struct launch_list *b, uint32_t op, uint32_t each);
stator_status launch_gate(struct launch_list *b, uint32_t op);

/* launch_index.c */
stator_status launch_index(struct launch_list *b, uint32_t op);
stator_status launch_choose(struct launch_list *b, uint32_t op);

/* launch_tower.c */
stator_status launch_layer_norm(struct launch_list *b, uint32_t op);
/* launch_streams.c */
stator_status launch_streams_norm(struct launch_list *b, uint32_t op);
stator_status launch_streams_mix(struct launch_list *b, uint32_t op);
stator_status launch_streams_add(struct launch_list *b, uint32_t op);
stator_status launch_silu(struct launch_list *b, uint32_t op);
stator_status launch_gelu(struct launch_list *b, uint32_t op);
stator_status launch_merge(struct launch_list *b, uint32_t op);
stator_status launch_spread(struct launch_list *b, uint32_t op);
stator_status launch_blend(struct launch_list *b, uint32_t op);
stator_status launch_project(struct launch_list *b, uint32_t op);
stator_status launch_features(struct launch_list *b, uint32_t op);
/* Of a MATMUL with GELU_ONE, behind the product: its value's floats, in place. */
void launch_gelu_one(struct launch_list *b, uint32_t op);

/* Values of a row that a group of the norm kernels writes: few enough that there are groups for the whole
 * device, but each has to make the row's sum. */
uint32_t launch_norm_part(const struct launch_list *b, uint64_t rows, uint32_t width);

/* launch_exchange.c */
stator_status launch_exchange(struct launch_list *b, uint32_t op);

/* launch_nextn.c */
stator_status launch_pair(struct launch_list *b, uint32_t op);
stator_status launch_keep(struct launch_list *b, uint32_t op);

/* Rows of an embedding by token to rows at x, `stride` floats apart; pictures: value of those of pictures'
 * tokens, or GRAPH_NONE. */
void launch_rows(struct launch_list *b, uint32_t op, struct launch_at x, uint32_t stride, float scale,
                 uint32_t pictures);
/* Whether the product's launch rotates and stores what it gives. */
bool launch_is_heads(const struct launch_list *b, uint32_t op);
/* The op `op`, perhaps with the one after it; with launch_heads, together with the op `rope` that rotates and
 * stores what it gives. */
stator_status launch_matmul(struct launch_list *b, uint32_t op);
stator_status launch_heads(struct launch_list *b, uint32_t op, uint32_t rope);
/* HEADS. */
stator_status launch_each(struct launch_list *b, uint32_t op);
/* A weight from its piece on. */
struct launch_weight launch_weight_of(const struct launch_list *b, uint32_t weight, uint32_t piece);

/* The piece of a weight that has a panel. */
uint32_t launch_piece_of(const struct graph_weight *w, uint32_t panel);
/* The error about a weight whose pieces are smaller than a unit of work. */
stator_status launch_cut_too_often(const struct launch_list *b, const struct graph_op *o);
/* What weights of the op have: OPENCL_BIAS, OPENCL_FACTOR. */
uint32_t launch_biased_bits(const struct graph_op *o);
/* The forms of a product. Where it is wanted as integers, nothing reads its floats. */
uint32_t launch_forms_wanted(const struct graph_value *v);

/* launch_slots.c: with cached experts, where an op finds them: by slots in place of experts. */
struct launch_near {
    struct launch_at routes;
    uint32_t slots;
    struct launch_weight weight[GRAPH_OP_WEIGHTS];
    struct launch_at bias[GRAPH_OP_WEIGHTS], factor[GRAPH_OP_WEIGHTS];
};
struct launch_near launch_near_of(const struct launch_list *b, uint32_t op);
/* At a layer's first product: which of its experts have slots. At its last: experts go to slots. */
void launch_find_near(struct launch_list *b, uint32_t op);
void launch_take(struct launch_list *b, uint32_t op);
/* At the last product: the sum of a token's experts. */
void launch_mix(struct launch_list *b, uint32_t op);

/* Rows of an expert that a product takes at once: one where most experts that have any have one. */
uint32_t launch_experts_tile(const struct launch_list *b, const struct graph_experts *x);
/* How a product of experts is launched: the kernel, its group's items, how many segments of k are in flight
 * or tokens are in a tile, panels of a unit, how many groups share a unit and where they are counted, bytes
 * of local memory. */
struct launch_shape {
    uint32_t kernel, group, split, unit, together;
    struct launch_at arrivals;
    uint64_t tile, work;
};
struct launch_shape launch_experts_shape(const struct launch_list *b, const struct graph_op *o);

/* launch_experts.c: experts from first to end - 1 that a launch takes: whose matrices lie, for each weight,
 * in at most two pieces one after the other; or where experts are copied, each weight's in one piece, and
 * those that are spilled of so few experts that half of the window holds them. bytes: of an expert's spilled
 * matrices; 0: none are copied. False: a matrix is cut more than once. */
struct launch_experts_run {
    uint32_t first, end;
    uint32_t piece[GRAPH_OP_WEIGHTS];
    bool copied[GRAPH_OP_WEIGHTS];
    uint64_t bytes;
};
bool launch_find_experts(const struct graph *g, const struct graph_op *o, uint64_t half_bytes,
                         struct launch_experts_run *r);
/* launch_route.c: whether the op is a product of a router and one token, perhaps one with the op after it;
 * the launch of such products. */
bool launch_is_router(const struct launch_list *b, uint32_t op);
stator_status launch_router(struct launch_list *b, uint32_t op);
/* ROUTE and EXPERTS. */
stator_status launch_route(struct launch_list *b, uint32_t op);
stator_status launch_experts(struct launch_list *b, uint32_t op);

#endif
