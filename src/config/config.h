/* What the config file may say, as plain typed fields that the engine reads, and where each value came from.
 *
 * Invariants: after config_load every field is inside the bounds of its row in config_table.c; every path is
 * absolute or empty; the cross-checks hold. Nothing points outside the struct, so it may be copied. libconfig
 * lives in config_load only: all that it allocates is freed before config_load returns. Thread: whoever owns
 * the struct; start-up only. */
#ifndef STATOR_CONFIG_CONFIG_H
#define STATOR_CONFIG_CONFIG_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONFIG_PATH             4096 /* bytes of a path, with the end */
#define CONFIG_NAME             64   /* bytes of a device's or host's name, with the end */
#define CONFIG_LIST             512  /* bytes of a list as text, with the end */
#define CONFIG_FACTS            1024 /* bytes of devices.facts, with the end */
#define CONFIG_MAX_DEVICES      16
#define CONFIG_MAX_STAGES       8
#define CONFIG_MAX_MODELS       8             /* of `models` */
#define CONFIG_MAX_FILE         (1024 * 1024) /* bytes of a config file */
#define CONFIG_CONTEXT_MOST     (1 << 24)     /* tokens */
#define CONFIG_BUDGET_NONE      UINT64_MAX    /* server.reasoning_budget = "none" */
#define CONFIG_CHECKPOINTS_AUTO UINT64_MAX    /* server.checkpoints = "auto" */
#define CONFIG_SLOTS_AUTO       UINT64_MAX    /* memory.expert_slots = "auto": as many as fit */
#define CONFIG_WINDOW_AUTO      UINT64_MAX    /* memory.expert_window = "auto": by the bandwidths */
#define CONFIG_CONTEXT_AUTO     UINT64_MAX    /* memory.context = "auto": the largest that fits */
#define CONFIG_MOST_GUESSES     16            /* speculation.tokens */
#define CONFIG_MOST_PICTURES    64            /* vision.pictures */
#define CONFIG_SEED_RANDOM      UINT64_MAX    /* sampling.seed = "random": from the clock */

/* One per key; the order of the table, of `stator config` and of `stator help config`. */
enum config_key {
    CONFIG_MODEL_PATH,
    CONFIG_MODEL_POOLING,
    CONFIG_MODEL_VISION,
    CONFIG_MODEL_NAME,
    CONFIG_VISION_MAX_PIXELS,
    CONFIG_VISION_PICTURES,
    CONFIG_VISION_DECODE,
    CONFIG_VISION_DEVICE,
    CONFIG_DEVICES_USE,
    CONFIG_DEVICES_SPLIT,
    CONFIG_DEVICES_GROUPS,
    CONFIG_DEVICES_FACTS,
    CONFIG_DEVICES_DEADLINE,
    CONFIG_CLUSTER_STAGES,
    CONFIG_MEMORY_CONTEXT,
    CONFIG_MEMORY_SEQUENCES,
    CONFIG_MEMORY_BATCH,
    CONFIG_MEMORY_KV_TYPE,
    CONFIG_MEMORY_KV_TYPE_K,
    CONFIG_MEMORY_KV_TYPE_V,
    CONFIG_MEMORY_LOGITS_ROWS,
    CONFIG_MEMORY_STAGING,
    CONFIG_MEMORY_HOST_LIMIT,
    CONFIG_MEMORY_DEVICE_LIMIT,
    CONFIG_MEMORY_DRIVER_RESERVE,
    CONFIG_MEMORY_ON_OOM,
    CONFIG_MEMORY_EXPERTS,
    CONFIG_MEMORY_EXPERT_SLOTS,
    CONFIG_MEMORY_EXPERT_WINDOW,
    CONFIG_MEMORY_STRICT,
    CONFIG_TRANSFER_MODE,
    CONFIG_TRANSFER_VERIFY,
    CONFIG_CPU_THREADS,
    CONFIG_CPU_TIER,
    CONFIG_CPU_NUMA,
#define SAMPLING_NUMBER(name, NAME, ...) CONFIG_SAMPLING_##NAME,
#define SAMPLING_COUNT                   SAMPLING_NUMBER
#define SAMPLING_WINDOW                  SAMPLING_NUMBER
#define SAMPLING_SEED                    SAMPLING_NUMBER
#include "config/sampling.def"
    CONFIG_SPECULATION_MODE,
    CONFIG_SPECULATION_TOKENS,
    CONFIG_SPECULATION_MODEL,
    CONFIG_SPECULATION_DEVICE,
    CONFIG_CACHE_DIR,
    CONFIG_CACHE_KV_DIR,
    CONFIG_CACHE_KV_BYTES,
    CONFIG_CHAT_TEMPLATE,
    CONFIG_SERVER_HOST,
    CONFIG_SERVER_PORT,
    CONFIG_SERVER_API_KEY_FILE,
    CONFIG_SERVER_OPEN,
    CONFIG_SERVER_HOSTS,
    CONFIG_SERVER_IMAGE_HOSTS,
    CONFIG_SERVER_CORS,
    CONFIG_SERVER_MAX_CONNECTIONS,
    CONFIG_SERVER_MAX_BODY,
    CONFIG_SERVER_MAX_QUEUE,
    CONFIG_SERVER_MEMORY,
    CONFIG_SERVER_REQUEST_TIMEOUT,
    CONFIG_SERVER_DEFAULT_MAX_TOKENS,
    CONFIG_SERVER_MAX_TOKENS,
    CONFIG_SERVER_UNKNOWN_FIELDS,
    CONFIG_SERVER_ALIAS,
    CONFIG_SERVER_STRICT_MODEL,
    CONFIG_SERVER_REASONING_BUDGET,
    CONFIG_SERVER_REASONING_MESSAGE,
    CONFIG_SERVER_ON_FAULT,
    CONFIG_SERVER_LOG_REQUESTS,
    CONFIG_SERVER_PREFIX_CACHE,
    CONFIG_SERVER_PAGE,
    CONFIG_SERVER_CHECKPOINTS,
    CONFIG_SERVER_GRAMMARS,
    CONFIG_SERVER_GRAMMAR_BYTES,
    CONFIG_SERVER_JSON_WHITESPACE,
    CONFIG_LOG_LEVEL,
    CONFIG_LOG_FORMAT,
    CONFIG_LOG_FILE,
    CONFIG_KEYS
};

/* Values of the enum keys; the order of the names in config_table.c. */
enum config_kv { CONFIG_KV_F32, CONFIG_KV_F16, CONFIG_KV_Q8_0, CONFIG_KV_Q4_0 };
enum config_pooling {
    CONFIG_POOLING_AUTO, /* the file's */
    CONFIG_POOLING_NONE, /* from here on in the order of enum shape_pooling */
    CONFIG_POOLING_MEAN,
    CONFIG_POOLING_CLS,
    CONFIG_POOLING_LAST,
    CONFIG_POOLING_RANK
};
enum config_oom { CONFIG_OOM_FAIL, CONFIG_OOM_SPILL };
enum config_experts { CONFIG_EXPERTS_DEVICE, CONFIG_EXPERTS_HOST, CONFIG_EXPERTS_AUTO };
enum config_transfer { CONFIG_TRANSFER_AUTO, CONFIG_TRANSFER_DIRECT, CONFIG_TRANSFER_STAGED };
enum config_tier {
    CONFIG_TIER_AUTO,
    CONFIG_TIER_SCALAR,
    CONFIG_TIER_AVX2,
    CONFIG_TIER_AVX512,
    CONFIG_TIER_AMX
};
enum config_numa { CONFIG_NUMA_AUTO, CONFIG_NUMA_OFF };
enum config_speculation {
    CONFIG_SPECULATION_OFF,
    CONFIG_SPECULATION_NGRAM,
    CONFIG_SPECULATION_MTP,
    CONFIG_SPECULATION_DRAFT
};
enum config_beyond { CONFIG_BEYOND_CLAMP, CONFIG_BEYOND_REFUSE };
enum config_unknown { CONFIG_UNKNOWN_IGNORE, CONFIG_UNKNOWN_REFUSE };
enum config_json { CONFIG_JSON_COMPACT, CONFIG_JSON_FREE };
enum config_fault { CONFIG_FAULT_EXIT, CONFIG_FAULT_STAY };
enum config_log_format { CONFIG_LOG_TEXT, CONFIG_LOG_JSON };

/* Where a value came from. kv_type_k and kv_type_v that follow kv_type are derived. */
enum config_source { CONFIG_FROM_DEFAULT, CONFIG_FROM_FILE, CONFIG_FROM_SET, CONFIG_FROM_DERIVED };
struct config_origin {
    enum config_source source;
    uint32_t line; /* CONFIG_FROM_FILE: in config.file; 0 when the file is the model itself */
};

struct config_device {
    char name[CONFIG_NAME]; /* "level_zero:1", "cpu:0"; a name without index got ":0" */
};

struct config {
    struct {
        char path[CONFIG_PATH]; /* never empty after config_load */
        enum config_pooling pooling;
        char vision[CONFIG_PATH]; /* of the vision tower; empty: none */
        char name[CONFIG_NAME];   /* in the API; empty: the file's. With `models`: which of them */
    } model;
    struct {
        uint32_t n; /* in the order of the file; 0: the config has no `models` */
        char name[CONFIG_MAX_MODELS][CONFIG_NAME];
        uint32_t index;   /* of the one that the rest of this struct is for */
        bool none_chosen; /* config_load has failed because it does not know which of them is meant */
    } models;
    struct {
        uint64_t max_pixels;      /* of a picture that the tower sees */
        uint64_t pictures;        /* that are held at a time */
        uint64_t decode;          /* bytes */
        char device[CONFIG_NAME]; /* of the tower; "auto" */
    } vision;
    struct {
        char use[CONFIG_LIST];   /* as text: "auto", or names separated by ", " */
        char split[CONFIG_LIST]; /* as text: "auto", "tensor", or numbers separated by ",", maybe behind
                                    "tensor:" */
        struct config_device list[CONFIG_MAX_DEVICES]; /* use, taken apart */
        uint32_t n;                                    /* 0: auto */
        uint32_t share[CONFIG_MAX_DEVICES]; /* split, taken apart: layers (tensor: shares) go in these
                                               proportions */
        uint32_t n_shares;                  /* 0: auto, or equal shares; else == n */
        bool tensor;                        /* split is "tensor": every device has a share of each layer */
        char groups[CONFIG_LIST];           /* as text: numbers separated by "," */
        uint32_t n_groups; /* groups, taken apart: of a tensor split; 1 otherwise, and there */
        uint32_t group_layers[CONFIG_MAX_DEVICES]; /* the layers go to the groups in these proportions, */
        uint32_t n_group_layers;                   /* 0: by memory and bandwidth; else == n_groups */
        char facts[CONFIG_FACTS];                  /* as text (plan/parts/device_spec.h); empty: none */
        double deadline;                           /* seconds */
    } devices;
    struct {
        char stages[CONFIG_LIST]; /* as text: "HOST = DEVICE, ..; HOST = ..", or "none" */
        struct {
            char host[CONFIG_NAME];
            uint32_t first, n; /* of devices.list */
        } stage[CONFIG_MAX_STAGES];
        uint32_t n; /* 0: all devices are of this host */
    } cluster;
    struct {
        uint64_t context; /* tokens of one sequence; 0: min(4096, trained); CONFIG_CONTEXT_AUTO */
        uint64_t sequences;
        uint64_t batch;         /* tokens of one step, over all sequences; >= sequences */
        enum config_kv kv_type; /* read kv_type_k and kv_type_v: they are always resolved */
        enum config_kv kv_type_k;
        enum config_kv kv_type_v;
        uint64_t logits_rows;    /* 0: sequences, with speculation times tokens + 1 */
        uint64_t staging;        /* bytes */
        uint64_t host_limit;     /* bytes; 0: 90% of min(cgroup limit, MemAvailable) */
        uint64_t device_limit;   /* bytes of each GPU; 0: all of it */
        uint64_t driver_reserve; /* bytes per GPU */
        enum config_oom on_oom;
        enum config_experts experts;
        uint64_t expert_slots;  /* of a layer; or CONFIG_SLOTS_AUTO */
        uint64_t expert_window; /* tokens; or CONFIG_WINDOW_AUTO */
        bool strict;
    } memory;
    struct {
        enum config_transfer mode;
        bool verify;
    } transfer;
    struct {
        uint64_t threads; /* 0: physical cores in the cpuset */
        enum config_tier tier;
        enum config_numa numa;
    } cpu;
    struct config_sampling {
#define SAMPLING_NUMBER(name, ...) double name;
#define SAMPLING_COUNT(name, ...)  uint64_t name;
#define SAMPLING_WINDOW            SAMPLING_COUNT /* or UINT32_MAX: all */
#define SAMPLING_SEED(name, ...)   uint64_t name; /* or CONFIG_SEED_RANDOM */
#include "config/sampling.def"
    } sampling;
    struct {
        enum config_speculation mode;
        uint64_t tokens;          /* draft tokens per step and sequence, at most */
        char model[CONFIG_PATH];  /* "draft": the second model */
        char device[CONFIG_NAME]; /* that runs it; empty: the model's first */
    } speculation;
    struct {
        char dir[CONFIG_PATH];    /* empty: no cache */
        char kv_dir[CONFIG_PATH]; /* empty: KV and states stay in memory */
        uint64_t kv_bytes;
    } cache;
    struct {
        char template[CONFIG_PATH]; /* empty: the model's own */
    } chat;
    struct {
        char host[CONFIG_NAME]; /* as text: a numeric address, or "localhost" */
        uint64_t port;          /* 0: the system chooses */
        char api_key_file[CONFIG_PATH];
        bool open;
        char hosts[CONFIG_LIST];       /* as text: names separated by commas; empty: none */
        char image_hosts[CONFIG_LIST]; /* from which pictures may be fetched; "": from none */
        char cors[CONFIG_LIST];        /* as text: origins separated by commas, or "*"; empty: none */
        uint64_t max_connections;
        uint64_t max_body;             /* bytes; 0: what follows from the context (plan/parts/edge.h) */
        uint64_t max_queue;            /* requests that wait, beside memory.sequences that run */
        uint64_t memory;               /* bytes; 0: what follows from the keys above (plan/parts/edge.h) */
        double request_timeout;        /* seconds */
        uint64_t default_max_tokens;   /* 0: the rest of the context */
        enum config_beyond max_tokens; /* of a request, beyond the room that is left */
        enum config_unknown unknown_fields;
        char alias[CONFIG_LIST]; /* as text: names separated by commas; empty: none */
        bool strict_model;
        uint64_t reasoning_budget; /* tokens, or CONFIG_BUDGET_NONE */
        char reasoning_message[CONFIG_LIST];
        enum config_fault on_fault;
        bool log_requests;
        bool prefix_cache;
        bool page;
        uint64_t checkpoints;   /* or CONFIG_CHECKPOINTS_AUTO */
        uint64_t grammars;      /* compiled ones, at a time */
        uint64_t grammar_bytes; /* of each */
        enum config_json json_whitespace;
    } server;
    struct {
        stator_log_level level;
        enum config_log_format format;
        char file[CONFIG_PATH]; /* empty: standard error */
    } log;
    char file[CONFIG_PATH]; /* the config file or the model, as given */
    struct config_origin origin[CONFIG_KEYS];
};

/* Reads path: a config file, or a GGUF file (by its first bytes or its name), then model.path is that file
 * and every other key has its default. set: n_set texts "section.key=value", over the file. STATOR_USAGE says
 * file, line, what was found, what is expected. */
stator_status config_load(const char *path, const char *const *set, size_t n_set, struct config *out,
                          stator_error *e);

/* For a command that takes all models of a config: *n texts "model.name=NAME", one for each of `models`, that
 * make config_load read this one; 0: there is no such list, or `set` chooses one. */
struct config_choices {
    char set[CONFIG_MAX_MODELS][CONFIG_NAME + 16];
    uint32_t n;
};
stator_status config_choices(const char *path, const char *const *set, size_t n_set,
                             struct config_choices *out, stator_error *e);

/* config_load for n bytes of text; name stands in errors; folder: absolute, what relative paths are relative
 * to.
 */
stator_status config_parse(const char *text, size_t n, const char *name, const char *folder,
                           const char *const *set, size_t n_set, struct config *out, stator_error *e);

/* Records what was resolved at run time (context, threads, host_limit, ..): the origin becomes "derived"
 * unless the value is the one that is there. The key must be an integer or a size. */
void config_derive(struct config *c, enum config_key key, uint64_t value);

/* Bytes of the longest body of a request: server.max_body, or what follows from the tokens of a sequence
 * where that is 0 (auto). */
uint64_t config_max_body(uint64_t max_body, uint32_t context);

/* "default", "FILE:LINE", "--set", "derived"; into out, returns out. */
const char *config_origin_text(const struct config *c, enum config_key key, char *out, size_t n);

/* "f16", "avx2", ..: the name of an enum key's value. */
const char *config_enum_name(enum config_key key, int value);

#endif
