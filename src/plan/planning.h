/* What planning works on: the model, the config, the devices of the model, the wanted sizes and the plan that
 * follows. The engine holds one and plans with it before its thread runs; afterwards the thread reads it, and
 * nothing but the plan's `allocated` and `used` changes.
 *
 * planning_open.h fills it. Owner: the driver thread. Functions of plan/ call it `s`. */
#ifndef STATOR_PLAN_PLANNING_H
#define STATOR_PLAN_PLANNING_H

#include "base/log.h"
#include "config/config.h"
#include "device/device.h"
#include "graph/graph.h"
#include "model/gguf.h"
#include "model/shape.h"
#include "model/tower.h"
#include "plan/plan.h"

/* Sizes that the plan follows from, all resolved. */
struct planning_want {
    uint32_t context;
    uint32_t sequences;
    uint32_t batch;
    uint32_t logits_rows;
    uint32_t guesses;     /* of a sequence in a step (speculation); 0: off */
    bool nextn;           /* they are those of the model's MTP head */
    uint32_t checkpoints; /* copies of windows and states; 0 for a model that has none */
    uint32_t kv_type_k;   /* enum kernels_kv */
    uint32_t kv_type_v;
    bool any_slice; /* slices of any size: what a plan would be that no device can hold */
    bool spill;     /* what a GPU is too small for goes to host memory */
    bool hosted;    /* the processors compute the experts of GPUs (memory.experts), */
    bool window;    /* but not those of steps that copy them (memory.expert_window) */
};

/* A slice that a device's driver did not give. */
struct planning_refusal {
    uint64_t bytes; /* of the slice; 0: none was refused */
    uint64_t given; /* bytes of the device's own slices before it */
    uint64_t left;  /* that the driver calls free then; 0: not known */
    bool in_host;   /* it was to be host memory */
};

/* Windows for copies that go through the host: two of `bytes`, then one of head_bytes for rows of logits. All
 * 0: there are none. */
struct planning_windows {
    uint64_t at, bytes, head_bytes;
};
static inline uint64_t planning_windows_bytes(const struct planning_windows *w) {
    return 2 * w->bytes + w->head_bytes;
}

/* A device of the model, in the order of the layers. */
struct planning_device {
    struct device_facts facts; /* of `choice`, or (imagined) as a person described them */
    struct device_choice choice;
    struct graph graph;
    struct device_model model;
    struct device_pinned pinned;
    uint64_t at_pinned;            /* in staging */
    struct planning_windows next;  /* in staging: to the next device, across a boundary of layers */
    struct planning_windows group; /* likewise to the devices of its group */
    uint64_t spilled_weights[GRAPH_MAX_SLICES]; /* bytes of the slices of weights in host memory (spill.c) */
    struct planning_refusal refused;
    uint32_t halved;  /* times that a refusal has halved its slices, */
    uint32_t reduced; /* and lowered its memory (refusal.c) */
};

/* What the engine itself keeps in host memory, which the plan counts. */
struct planning_engine {
    uint64_t bytes; /* of its struct */
    /* Of the state of a run of these sizes; the devices' graphs and models are those of the plan. */
    uint64_t (*run_bytes)(void *context, const struct planning_want *want);
    void *context;
};

/* cache.kv_dir: what goes between the caches and its files (kv_disk_plan.h). All 0: nothing does. */
struct planning_kv_disk {
    uint64_t block_bytes;      /* of a block of all PAGED caches, with the layers of all devices */
    uint64_t checkpoint_bytes; /* of the largest checkpoint, the same way */
    uint32_t blocks;           /* buffers of block_bytes */
    uint32_t checkpoints;      /* buffers of checkpoint_bytes */
    uint32_t files;            /* at most */
    uint64_t bytes;            /* of all buffers */
    bool staged;               /* they are in staging, where GPUs read and write them */
    uint64_t at_staging;
};

#define PLANNING_NONE UINT32_MAX

/* model.vision: what lies between a picture's file and the prompt. All 0: there is no tower. */
struct planning_pictures {
    uint32_t n;            /* pictures that are held (vision.pictures) */
    uint32_t rows;         /* of the largest: tokens that the tower makes of it */
    uint64_t each;         /* bytes of one: its pixels at first, its embeddings then */
    uint64_t decode_bytes; /* vision.decode */
    uint64_t bytes;        /* of all */
};

#define PLANNING_PARTS (DEVICE_MAX + 2) /* devices of the model, of the draft and of the tower */

/* A second model: a draft model (speculation.mode = "draft"), or the vision tower (model.vision). Its one
 * device stands behind those of the model, that of the tower last, in struct planning and in the plan's
 * places. */
struct planning_second {
    struct gguf *gguf;   /* NULL: there is none */
    struct tower *tower; /* NULL: it is a draft model */
    struct shape *shape;
    void *tables; /* as the model's */
    uint64_t tables_bytes;
    void *place_work;
    uint64_t place_work_bytes;
    struct graph graph;          /* its tables, for that of its device */
    struct device_choice choice; /* of its own key; a draft's without one is the model's first device */
    uint32_t beside; /* the device before it that it shares memory with, a GPU, or PLANNING_NONE */
    uint64_t bytes;  /* what it takes of that */
    bool has_states; /* a cache is one */
};

struct planning {
    const struct log *log;
    const struct planning *beside; /* another model's of this process, planned before; NULL: none */
    struct planning_engine engine;
    struct config config;
    struct gguf *gguf;
    struct shape *shape;
    void *tables; /* one mapping: shape, graphs' tables, work of the placement, blocks of the plan */
    uint64_t tables_bytes;
    void *place_work;
    uint64_t place_work_bytes;
    struct planning_device devices[PLANNING_PARTS];
    char why_cpu[256];  /* "auto" has found GPUs and takes the CPU: why; else "" */
    uint32_t n_devices; /* of the model; planning_parts has those of the others, too */
    struct planning_second draft, vision;
    bool vision_on_cpu;          /* vision.device is "auto": the tower stays on the CPU, */
    char why_vision_cpu[256];    /* though the model's first device is a GPU: why; else "" */
    struct device_choice helper; /* the processors, as the helper of GPUs (device_helper.h), */
    bool may_help;               /* if memory.experts lets them */
    uint32_t stage;  /* of this host, in a run over several; devices of others have facts.remote */
    bool only_plans; /* options.described: devices of devices.facts need not be here */
    bool imagined;   /* the devices are those that a person described: they can be planned for, not run */
    uint64_t described_host; /* bytes of the imagined CPU's memory; 0: none was described */
    struct planning_want want;
    bool rows_follow_sequences; /* memory.logits_rows is auto */
    uint64_t process_limit;     /* of all models' host memory; */
    uint64_t host_taken;        /* by those before this one; */
    uint64_t host_limit;        /* what they leave */
    uint64_t load_window;       /* bytes of staging that loading has */
    uint64_t staging_bytes;     /* of all of it (staging.c) */
    uint64_t edge_bytes;        /* of `plan`; 0: this engine is no server's (edge.h) */
    uint64_t grammars_bytes;    /* of compiled grammars and their vocabulary; 0: none are planned */
    struct planning_kv_disk kv_disk;
    struct planning_pictures pictures;
    enum plan_purpose purpose;
    uint64_t tokenizer_bytes; /* 0: this file's tokenizer can't be used */
    struct plan_rates rates;  /* of this run's splits */
    struct plan plan;
    struct plan_block *plan_blocks; /* of the plan */
    uint32_t max_plan_blocks;
    bool planned;
};

/* Devices with those of the draft and the tower, which are the last. */
static inline uint32_t planning_parts(const struct planning *s) {
    return s->n_devices + (s->draft.gguf != NULL) + (s->vision.gguf != NULL);
}

/* The place of the draft's device, and of the tower's. */
static inline uint32_t planning_draft_at(const struct planning *s) {
    return s->n_devices;
}

static inline uint32_t planning_vision_at(const struct planning *s) {
    return s->n_devices + (s->draft.gguf != NULL);
}

/* Whose device i is; NULL: the model's. */
static inline const struct planning_second *planning_second_of(const struct planning *s, uint32_t i) {
    CHECK(i < planning_parts(s));
    return i < s->n_devices                                     ? NULL
           : s->draft.gguf != NULL && i == planning_draft_at(s) ? &s->draft
                                                                : &s->vision;
}

/* Stages: what a step passes one after the other. A stage is a device, or in a tensor split a group of
 * devices, which work on the step together. Groups have one size, but over several hosts each host's devices
 * are a group, which may be of one device. */
static inline uint32_t planning_stages(const struct planning *s) {
    return s->config.devices.tensor ? s->config.devices.n_groups : s->n_devices;
}

/* The first device of a stage; stage = planning_stages(s): n_devices. */
static inline uint32_t planning_stage_begin(const struct planning *s, uint32_t stage) {
    const uint32_t stages = planning_stages(s);
    CHECK(stage <= stages);
    if (stage == stages)
        return s->n_devices;
    if (s->config.devices.tensor && s->config.cluster.n > 0)
        return s->config.cluster.stage[stage].first;
    return stage * (s->n_devices / stages);
}

/* The stage of device i. */
static inline uint32_t planning_stage(const struct planning *s, uint32_t i) {
    uint32_t stage = 0;
    CHECK(i < s->n_devices);
    while (planning_stage_begin(s, stage + 1) <= i)
        stage++;
    return stage;
}

/* The first and the last device of device i's stage. */
static inline uint32_t planning_stage_first(const struct planning *s, uint32_t i) {
    return planning_stage_begin(s, planning_stage(s, i));
}

static inline uint32_t planning_stage_last(const struct planning *s, uint32_t i) {
    return planning_stage_begin(s, planning_stage(s, i) + 1) - 1;
}

/* Devices of device i's stage. */
static inline uint32_t planning_group(const struct planning *s, uint32_t i) {
    return planning_stage_last(s, i) - planning_stage_first(s, i) + 1;
}

/* Devices of the largest stage. */
static inline uint32_t planning_largest_group(const struct planning *s) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < s->n_devices; i++)
        most = ARITH_MAX(most, planning_group(s, i));
    return most;
}

/* Whose layers device i has. */
static inline const struct shape *planning_shape(const struct planning *s, uint32_t i) {
    const struct planning_second *second = planning_second_of(s, i);
    return second == NULL ? s->shape : second->shape;
}

static inline const struct gguf *planning_gguf(const struct planning *s, uint32_t i) {
    const struct planning_second *second = planning_second_of(s, i);
    return second == NULL ? s->gguf : second->gguf;
}

/* The first device of the GPU that has device i's memory. */
static inline uint32_t planning_owner(const struct planning *s, uint32_t i) {
    const struct planning_second *second = planning_second_of(s, i);
    return second == NULL || second->beside == PLANNING_NONE ? i : second->beside;
}

/* Bytes that all of the run have allocated in the memory of GPU i. */
static inline uint64_t planning_allocated(const struct planning *s, uint32_t i) {
    uint64_t sum = 0;
    CHECK(planning_parts(s) < s->plan.n_places); /* the last one is the host's */
    for (uint32_t k = 0; k < planning_parts(s); k++)
        if (planning_owner(s, k) == planning_owner(s, i))
            sum += plan_allocated(&s->plan.places[k]);
    return sum;
}

/* Bytes of GPU i in the plans of the models before this one (planning_beside.c). */
uint64_t planning_taken(const struct planning *s, uint32_t i);

/* Memory of device i (at most memory.device_limit), without what second models or other models have of it; 0:
 * the host's. */
static inline uint64_t planning_memory(const struct planning *s, uint32_t i) {
    const uint64_t has = s->devices[i].facts.memory, limit = s->config.memory.device_limit;
    const uint64_t all = limit > 0 ? ARITH_MIN(has, limit) : has;
    uint64_t taken = s->beside != NULL ? planning_taken(s, i) : 0;
    for (uint32_t k = s->n_devices; k < planning_parts(s); k++)
        if (planning_second_of(s, k)->beside == i)
            taken += planning_second_of(s, k)->bytes;
    return all == 0 ? 0 : all > taken ? all - taken : 1;
}

#endif
