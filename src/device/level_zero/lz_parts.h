/* What an open GPU consists of. Owner: the engine's thread. */
#ifndef STATOR_DEVICE_LEVEL_ZERO_LZ_PARTS_H
#define STATOR_DEVICE_LEVEL_ZERO_LZ_PARTS_H

#include "device/device.h"
#include "device/expert_cache.h"
#include "device/launch/launch.h"
#include "device/level_zero/lz_queue.h"

/* A closed command list. */
struct lz_list {
    ze_command_list_handle_t handle;
    uint32_t launches;
    uint32_t first_event; /* with trace: of the slot's events, one per launch, */
    uint32_t *ops;        /* and the launches' ops */
    uint64_t direct_bytes, staged_bytes, copied_bytes, streamed_bytes;
    uint32_t first_ask, n_asks; /* of the helper (lz_helped.c) */
};

/* All that is recorded, by slot (lz_steps.c). */
struct lz_steps {
    ze_module_handle_t *modules; /* [opencl_n_modules], NULL where no launch needs it */
    ze_kernel_handle_t *kernels; /* [launch_n_kernels], likewise */
    void *room;                  /* a module is inflated into it (launch_modules.h), before the seal */
    struct launch *launches;     /* of the list that is being recorded; mapped while recording */
    uint64_t launches_bytes;
    uint32_t n_bodies, n_tails; /* buckets */
    uint32_t body_bounds[LAUNCH_BUCKETS];
    uint32_t tail_bounds[LAUNCH_BUCKETS];
    struct lz_list body[2][LAUNCH_BUCKETS];
    struct lz_list tail[2][LAUNCH_BUCKETS];
    struct lz_list guess[2][LAUNCH_BUCKETS];    /* by tail_bounds; of a graph with an MTP head */
    struct lz_list pictures[2][LAUNCH_BUCKETS]; /* by body_bounds: before bodies with pictures' tokens */
    struct lz_list head[2];
    ze_fence_handle_t fence[2];
    bool running[2];
    /* With trace. */
    uint32_t max_events; /* per slot; 0: no trace */
    ze_event_pool_handle_t pool;
    ze_event_handle_t *events[2];
    const struct lz_list *last[2][2]; /* the lists of the slot's last step */
};

/* Of one slot (lz_stream.h). */
struct lz_stream_events {
    ze_event_handle_t begin, copied[2], read[2];
};

/* Copies of spilled experts; all 0 where a step makes none, or they are in its body. */
struct lz_stream {
    struct lz_queue queue;
    ze_fence_handle_t fence[2];
    bool running[2];
    ze_event_pool_handle_t pool;
    struct lz_stream_events events[2];
    ze_command_list_handle_t list[2][LAUNCH_BUCKETS];
};

/* A step that asks the helper. */
struct lz_helped_step {
    uint32_t slot, tokens;
    uint32_t at, end; /* its asks that are not answered */
};

/* Exchanges with the helper; all 0 where the model is not hosted. */
struct lz_helped {
    ze_event_pool_handle_t pool;
    ze_event_handle_t asked, answered;
    struct device_hosted places; /* in the pinned part */
    uint32_t *ops;               /* of the graph: the gated ops */
    uint32_t n_ops;
    struct lz_helped_step steps[2]; /* submitted, in their order */
    uint32_t n_steps;
    struct expert_cache cache; /* with model->cached */
};

/* Of a tensor split, in its first device: event[half][from][to]. Rows of logits have events of their own. */
#define LZ_EXCHANGE_LOGITS 2
struct lz_exchange {
    ze_event_pool_handle_t pool;
    ze_event_handle_t event[3][DEVICE_MAX][DEVICE_MAX];
};

/* Moves of blocks (lz_moves.h): of each buffer. */
struct lz_move {
    struct lz_list list;
    ze_fence_handle_t fence;
    bool running;
};

struct lz_slice {
    uint8_t *memory;
    uint64_t bytes;
    bool spilled; /* in host memory */
};

struct lz_device {
    struct device device; /* first */
    const struct phase *phase;
    struct lz_system *system;
    const struct lz_gpu *gpu;
    uint32_t threads; /* threads of the host, for loading */
    ze_context_handle_t context;
    struct lz_queue queue;
    const struct device_model *model;
    struct lz_slice slices[DEVICE_ARENAS][GRAPH_MAX_SLICES];
    void *host; /* zeMemAllocHost's, of all devices; NULL when another device has it */
    struct device_setup setup;
    struct device_pinned pinned;
    struct lz_steps steps;
    struct lz_stream stream;
    struct lz_helped helped;
    struct lz_exchange exchange;
    struct lz_move *moves; /* [device_moves_n(&model->moves)] */
    struct device_counters counters;
    uint64_t free_before; /* device memory, before the first slice; 0: not known */
    uint64_t slice_bytes;
};

#endif
