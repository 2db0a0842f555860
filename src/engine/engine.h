/* The engine's inside: what stands behind the opaque `stator`.
 *
 * Threads. The driver thread (the one that calls stator_*) owns everything until stator_start, and again
 * after the engine thread was joined. Between those, the engine thread owns device, sequences, sampler and
 * the plan's use figures, and any number of threads call. They share only:
 *
 * - the commands' ring: its producer holds submit_lock;
 * - the request slots: a free one (id 0) belongs to the holder of submit_lock, then to the engine until it
 *   has put the end into its outbox, then to the polling thread, which frees it;
 * - the outboxes and the bell: the engine fills and rings, one thread at a time polls;
 * - the atomics;
 * - the grammars: references keep callers from compiling into one that a request uses.
 *
 * The engine takes no lock.
 *
 * Memory. Everything lies in mappings listed in the plan: the arenas of the devices, `staging`, and the
 * slices of `engine`: this struct, the model's directory, shape and graph, the tokenizer, the run's state. */
#ifndef STATOR_ENGINE_ENGINE_H
#define STATOR_ENGINE_ENGINE_H

#include "base/carve.h"
#include "base/log.h"
#include "base/phase.h"
#include "engine/run/ring.h"
#include "engine/report/audit_figures.h"
#include "engine/start/log_sink.h"
#include "engine/start/placement.h"
#include "engine/start/token_trees.h"
#include "engine/run/bell.h"
#include "engine/sampling/constraint.h"
#include "engine/sampling/forced.h"
#include "engine/cache/kv_jobs.h"
#include "kvstore/kvsave.h"
#include "engine/cache/kv_pool.h"
#include "engine/run/outbox.h"
#include "engine/run/ngram_rows.h"
#include "engine/run/pictures.h"
#include "engine/sampling/sampler.h"
#include "engine/draft/speculation.h"
#include "plan/planning.h"
#include "tokenizer/tokenizer.h"

#include <pthread.h>
#include <stdatomic.h>

#if defined(__SANITIZE_THREAD__) /* its state is thread-local */
#define ENGINE_STACK (4096 * 1024)
#else
#define ENGINE_STACK (512 * 1024)
#endif
#define ENGINE_EVENTS         16         /* of the start */
#define ENGINE_READER_ROWS    2          /* of logits that were handed out and not yet read */
#define ENGINE_EDGE_BASE      (1u << 20) /* bytes of work for stator_tokenize, and more per token of context */
#define ENGINE_EDGE_PER_TOKEN 256

/* Rows of logits of one request, copied out of the device's memory: a slow reader holds up nobody. */
struct engine_rows {
    _Atomic bool taken;
    float *row[ENGINE_READER_ROWS];
};

/* What statistics tell of a request: written by the engine's thread (0 by the submitting one), read by any.
 */
struct engine_shown {
    _Atomic uint64_t admitted_ns; /* 0: not yet, as in the next three */
    _Atomic uint64_t began_ns;
    _Atomic uint64_t prompt_done_ns;
    _Atomic uint64_t ended_ns;
    _Atomic uint32_t blocks; /* that it can ever need */
    _Atomic uint32_t taken;  /* of these, that it has now */
    _Atomic uint32_t done;   /* tokens gone into steps */
    _Atomic uint32_t n_tokens;
    _Atomic uint32_t n_cached;
    _Atomic uint32_t n_guessed;
    _Atomic uint32_t n_kept; /* accepted draft tokens */
    _Atomic uint64_t steps;
    _Atomic uint64_t step_ns;
    _Atomic uint64_t last_step_ns;
};

/* An action with the text of a slot (cache/kv_slots.h), which is a request too. */
enum engine_action { ACTION_NOT, ACTION_SAVE, ACTION_RESTORE, ACTION_ERASE };
struct engine_slot_action {
    enum engine_action action;
    char name[KVSAVE_NAME + 1];
    bool ended;        /* there is nothing left to do */
    uint32_t tokens;   /* saved, restored or erased */
    uint64_t bytes;    /* of files */
    char failure[160]; /* "": none */
};

struct engine_request {
    _Atomic uint64_t id; /* 0: free. Ids rise, so none comes twice */
    /* Of these two, the last id of this slot that was cancelled, or held: they come from any thread, perhaps
     * late, and mean this request if they are its id. */
    _Atomic uint64_t cancelled;
    _Atomic uint64_t held;
    stator_request_kind kind;
    bool ignore_eos;
    uint32_t n_prompt;
    uint32_t max_new;
    uint32_t n_depth; /* of the prompt; what comes after it is timed */
    uint32_t laps;    /* left, with the running one */
    bool measured;    /* a benchmark's: it computes all that it is asked to */
    uint32_t guesses; /* stator_bench_guesses */
    float accept;
    uint32_t n_replayed; /* tokens that the lap before had */
    struct sampler_settings sampling;
    stator_logit_bias *bias; /* [STATOR_LOGIT_BIASES], of sampling */
    struct forced forced;
    struct constraint constraint;
    bool logprobs;
    uint32_t top_logprobs;
    int32_t *tokens; /* [context + 1]: the prompt, then what was generated */
    uint32_t n_tokens;
    struct request_picture *pictures; /* [vision.pictures] */
    uint32_t n_pictures;
    uint64_t submitted_ns;
    struct engine_shown shown;
    struct outbox out;
    uint32_t slot; /* the slot that gets its text; UINT32_MAX until the engine has chosen */
    struct engine_slot_action slots;
    uint32_t dimensions;        /* EMBED */
    struct engine_rows *rows;   /* LOGITS and EMBED: from admission until its end was polled */
    uint32_t rows_told;         /* handed out; EMBED: taken into the vector */
    _Atomic uint32_t rows_read; /* of these, those that their reader is through with */
};

#define CHECKPOINTS_NONE KV_POOL_NONE

/* A copy of a sequence's RING and STATE blocks (run/checkpoints.h). */
struct engine_checkpoint {
    uint32_t block;   /* of the pool; it was taken at the block's end. KV_POOL_NONE: none was taken yet */
    uint32_t end;     /* blocks of the text up to there */
    uint32_t holders; /* sequences that are to go on from it */
    uint64_t used;    /* when, among all uses */
    uint64_t written, read;               /* steps that did so last; UINT64_MAX: none */
    const struct engine_sequence *writer; /* in the step `written` */
    bool shown;                           /* as in use */
};

/* What a sequence gets from files before its first step (run/kv_disk.h). */
enum engine_restore_state { RESTORE_NOT, RESTORE_FINDS, RESTORE_READS, RESTORE_CHECKPOINT, RESTORE_SAVES };
struct engine_restore {
    enum engine_restore_state state;
    uint32_t jobs;        /* in flight */
    uint32_t from, until; /* blocks that it had, and is to have */
    uint32_t asked;       /* blocks that it has, or has asked for */
    bool failed;          /* one was absent */
    uint64_t began_ns;
    struct kv_job *ready;     /* the checkpoint, read; NULL: it is not */
    struct kvstore_key *keys; /* [blocks of a sequence] */
    /* SAVES: blocks are copied when the steps below `barrier` have ended; `asked` of them are left. */
    uint64_t barrier;
    bool checkpoint; /* it is to be written still */
};

/* The text of a slot: the last one that a request has left in it. */
struct engine_text {
    int32_t *tokens; /* [context] */
    uint32_t n;
};

/* A request that runs: its place in the KV cache. */
struct engine_sequence {
    struct engine_request *request; /* NULL: free */
    uint32_t done;                  /* tokens that have gone into steps, and that the next chunk follows */
    uint32_t reached;               /* the most that caches were written to, draft tokens too */
    uint32_t flights;               /* steps in flight that carry it; it ends when there is none */
    uint32_t capacity;              /* tokens that it may come to have */
    /* Of all PAGED caches alike: blocks of the pool in the order of its tokens, taken as they come. */
    uint32_t *blocks;
    uint32_t n_blocks;
    uint32_t reserved;  /* that it may come to have */
    uint32_t n_cleared; /* the first blocks, which are no news to the devices */
    uint32_t n_kept;    /* the first blocks, which the pool keeps */
    bool shares;        /* it takes blocks that are kept, and lets its own be */
    /* Of the other caches: all that it needs, from the begin. */
    struct {
        uint32_t n_blocks;
        uint32_t *table;
    } caches[GRAPH_MAX_CACHES];
    /* Checkpoints (run/checkpoints.h): what it goes on from with its next step, what it took last while it
     * generated, at the end of its answer_at-th block, and where it is to take some in its prompt. */
    uint32_t resumes, answer;
    uint32_t answer_at;
    uint32_t stops[2]; /* tokens, rising; 0: none */
    bool fresh;        /* these are to be cleared by the next step */
    uint32_t round;    /* a logits request: how often steps of it were given up */
    bool failed;       /* nothing of it goes into steps any more; failure says why */
    char failure[160];
    uint64_t began_ns;
    uint64_t prompt_done_ns;
    struct speculation speculation;
    struct engine_restore restore;
};

/* The blocks of one of the graph's caches, on all devices alike. */
struct engine_cache {
    uint32_t *free; /* not of PAGED ones (the pool has those), nor of checkpoints */
    uint32_t n_free;
    uint32_t peak;           /* most that sequences have held, or reserved */
    _Atomic uint64_t *shown; /* of each block: KV_POOL_SHOWN; of PAGED ones the pool's */
};

/* A step in flight (pipeline.c). */
struct engine_step {
    uint64_t number;
    uint32_t at;  /* the device that has it; of a group the last one */
    bool running; /* there: submitted, and not seen to have ended */
    uint64_t began_ns;
    uint64_t ended_ns;                /* its results were there; 0: not yet */
    uint32_t n_chunks;                /* sequences that it carries */
    struct engine_sequence **carried; /* [sequences] */
    uint32_t n_rows;
    struct engine_sequence **of_row; /* [logits_rows]: the owners of the rows, when it generates */
    /* A chunk of a logits request. Its tail runs once for every logits_rows rows. */
    struct engine_sequence *reader; /* NULL: the step generates */
    uint32_t position;              /* of the chunk's first token */
    uint32_t n_tokens;
    uint32_t rows_done;
    uint32_t row;   /* of the rows that the tail has computed, how many were handed out */
    uint32_t round; /* the reader's then: of another, the step is stale */
    bool failed;    /* while it was filled, a sequence that was to be in it has failed */
    /* Speculation by load: the sequences of a step that does nothing but generate, else 0; and whether it may
     * have draft tokens. */
    uint32_t generating;
    bool drafts;
};

/* A device of the model as the engine runs it; planning.devices[i] is what was planned for it. */
struct engine_device {
    void *memory; /* the device's own, in the run's state */
    uint64_t memory_bytes;
    void *helper_memory; /* likewise, of its helper */
    uint64_t helper_bytes;
    /* From start on. */
    struct device *device;
    struct device_helper *helper; /* NULL: it has none */
    struct device_link in;        /* from the device before */
    struct device_link out;
    struct device_route route; /* to the next */
    uint64_t busy_since_ns;    /* when it last took up a step */
    uint32_t n_running;        /* steps submitted and not seen to have ended */
    bool hangs;                /* it is over its deadline */
    uint32_t noted;            /* the last question (engine_report.asked) that its rank has answered */
    /* Written by the engine thread, read by the driver at any time. */
    _Atomic uint64_t submits;
    _Atomic uint64_t kernels_executed;
    _Atomic uint64_t direct_bytes;
    _Atomic uint64_t staged_bytes;
    _Atomic uint64_t copied_bytes;
    _Atomic uint64_t away_ns;
    _Atomic uint64_t overlapped; /* steps that it took up while the next device had one in flight */
    _Atomic uint32_t most_ahead; /* the most that were in flight there at a time */
    _Atomic uint64_t streamed_bytes;
    _Atomic uint64_t helped_rows;
    _Atomic uint64_t helped_ns;
    _Atomic uint64_t slot_rows, slot_copies;
    _Atomic uint64_t driver_bytes;
};

struct engine_command {
    uint32_t submit; /* slot of a request */
};

/* What the engine thread tells of its start. */
enum engine_event_kind { ENGINE_PROGRESS, ENGINE_STARTED, ENGINE_START_FAILED, ENGINE_SERVED };
struct engine_event {
    enum engine_event_kind kind;
    stator_status status;
    uint64_t done, total; /* PROGRESS */
};

/* From stator_open to the seal. */
struct engine_start {
    void (*progress)(void *context, uint64_t done, uint64_t total);
    void *context;
    bool only_plans; /* opened with options.described: to plan, and maybe not to run */
    bool expects_plan;
    char expect_plan[2 * HASH_TEXT]; /* longer than any hash, so that a wrong one is not cut to a right one */
    bool traces;                     /* to trace_path */
    char trace_path[CONFIG_PATH];
    bool prepare_tried; /* once only, and no plan after it */
    bool prepared;
    bool start_tried; /* once only: what a failed start has mapped stays until close */
    struct placement placement;
    void *staging;
    bool staging_is_pages; /* ours to unmap; else the device's that made it */
    void *run;             /* the run's state, run_bytes */
    uint64_t run_bytes;
    void *tokenizer_memory;
    struct token_trees trees;
    void *kv_buffers; /* planning.kv_disk.bytes */
    void *pictures;   /* planning.pictures.bytes */
    void *edge;       /* the program's (stator_edge_memory), planning.edge_bytes */
    void *engine_stack;
    pthread_t thread;
    bool thread_runs;
    struct ring *events; /* from the thread to the caller of stator_start */
    stator_error start_error;
    uint64_t load_ns;
    _Atomic uint64_t loaded_bytes;
    _Atomic int cancel_start; /* ends a start; one that comes too late for that does nothing */
};

/* What an audit compares with. */
struct engine_report {
    uint64_t private_before; /* bytes of the process before the engine */
    struct audit sealed;     /* taken when the engine was */
    void (*take_note)(const struct stator *s, struct device_note *out); /* audit_to_note */
    /* Of the other ranks: asked for by the driver, collected by the engine's thread until it has all. */
    _Atomic uint32_t asked, told; /* numbers of questions */
    struct device_note notes[DEVICE_MAX];
    uint32_t collecting; /* the question that they answer */
    uint32_t n_notes;
    bool knows_ranks; /* the driver's: all notes hold */
};

/* What callers hold, and what lies between them and the engine's thread. */
struct engine_front {
    void *edge_work; /* workspace of stator_tokenize, in the run's state */
    uint64_t edge_work_bytes;
    struct ring *commands;
    struct engine_request *requests;
    uint32_t n_requests;
    struct grammar_slots grammars; /* of requests */
    uint64_t last_id;              /* under submit_lock */
    _Atomic int started;           /* read by stator_cancel */
    _Atomic int stop;
    struct bell bell;
    struct engine_rows *rows; /* [n_rows] */
    uint32_t n_rows;
    pthread_mutex_t submit_lock;    /* taking a slot, and the producer's end of `commands` */
    pthread_mutex_t edge_lock;      /* edge_work */
    _Atomic bool polled;            /* a thread is in stator_poll */
    struct engine_request *in_hand; /* the polling thread has read a row of its logits */
};

/* What the engine's thread owns between start and stop: sequences, steps in flight, caches and their
 * prefixes, draft tokens. */
struct engine_run {
    struct engine_sequence *sequences;
    struct engine_step *steps; /* [max_steps], those in flight: the oldest is steps[first_step % max_steps] */
    uint32_t max_steps;
    uint64_t first_step; /* numbers of the oldest in flight and of the next to come */
    uint64_t next_step;
    struct engine_cache caches[GRAPH_MAX_CACHES];
    struct kv_pool pool;
    uint32_t reserved;                     /* blocks of the pool, by sequences */
    struct engine_checkpoint *checkpoints; /* [n_checkpoints] */
    uint32_t n_checkpoints;
    uint64_t checkpoint_uses;
    struct {
        struct kv_jobs jobs;
        struct kv_moves {
            struct device_piece *pieces[DEVICE_MAX]; /* of the next move of each device */
            uint32_t n_pieces[DEVICE_MAX];
            struct kv_job **held; /* jobs with running moves, oldest first */
            uint32_t n_held;
            uint64_t since_ns;   /* no move has ended since then, nor a step run */
            stator_error failed; /* of the first move that did; code STATOR_OK: none */
        } moves;
        struct kvstore_key root;
        struct kvstore_key *keys;      /* [pool.n_blocks]: of the kept ones; NULL: without cache.kv_dir */
        struct kvstore_key *pictures;  /* [pool.n_blocks]: of kept ones with pictures, pictures_words' hash */
        _Atomic uint64_t hits, tokens; /* requests that went on from files, and what those had */
        uint32_t skipped;              /* times that reading was too slow to be worth it */
        _Atomic uint64_t wait_ns;      /* of all requests */
        _Atomic uint64_t lost;         /* blocks and checkpoints that left while no buffer was free */
        struct engine_text *texts;     /* [sequences] */
        _Atomic uint64_t saves, restores;
    } kv_disk;
    struct speculation_loads loads;
    bool has_states;        /* a cache is a state: accepted draft tokens are computed again */
    bool reuses;            /* a request that begins as another takes its blocks */
    uint32_t next_sequence; /* where the next step begins to collect, so that all get their turn */
    uint32_t next_reader;   /* the same for logits requests */
    bool read_last;         /* the last step was of a logits request */
    uint64_t deadline_ns;   /* a device that has not ended a step after this is lost */
    bool broken;            /* a device has failed: `broken_why`; no step runs any more */
    stator_error broken_why;
    double *rope_frequency; /* radians per position, of every pair of the step's angles */
    struct sampler sampler;
    struct draft draft; /* the draft model, if there is one */
    struct engine_pictures pictures;
    struct engine_ngram_rows ngram_rows;
    uint32_t *waiting; /* slots submitted and not yet admitted, oldest first */
    uint32_t n_waiting;
    uint64_t step_ns; /* when the last step ended */
};

struct stator {
    struct stator *beside, *later; /* engines of this process, opened before and after it; NULL: none */
    struct log log;
    struct log_sink sink;
    struct trace *trace; /* NULL: none was asked for */
    struct planning planning;
    struct engine_start start;
    struct engine_report report;
    struct engine_device devices[PLANNING_PARTS]; /* with those of second models; on a stage above 0 those of
                                                     other hosts have no device */
    struct device_group groups[DEVICE_MAX];       /* tensor split: those of its stages; else empty */
    struct device_route pairs[DEVICE_MAX][DEVICE_MAX]; /* from each device to each other of its group */
    void *serve_memory; /* of a stage above 0 (device_cluster_serve), in the run's state */
    uint64_t serve_bytes;
    const char *root; /* "": where /sys and /proc are; a test's folder */
    struct phase phase;
    struct tokenizer *tokenizer;  /* NULL: this model has none that can be used, */
    stator_error tokenizer_error; /* for this reason */
    struct engine_front front;

    struct engine_run run;

    /* Written by the engine thread, read by the driver at any time. */
    _Atomic uint32_t used_blocks[GRAPH_MAX_CACHES]; /* the caches' peaks */
    _Atomic uint64_t stepped;                       /* steps that have ended */
    struct {
        uint32_t blocks; /* of all caches; from the plan */
        _Atomic uint32_t free_blocks;
        _Atomic uint32_t peak_blocks;
        _Atomic uint32_t cached_blocks;
        _Atomic uint32_t taken_blocks; /* that running sequences have now, each counted once */
        _Atomic uint64_t evicted_blocks;
        _Atomic uint64_t hits, tokens_cached;
        _Atomic uint32_t checkpoints_used;
        _Atomic uint64_t checkpoints_taken, checkpoints_resumed;
        _Atomic uint64_t cancelled, failed;
        _Atomic uint64_t tokens_in, tokens_out;
        _Atomic uint64_t queue_ns;
        _Atomic uint64_t step_ns, last_step_ns, longest_step_ns;
        _Atomic uint64_t moved_ns; /* when a step ended, or began where none was; 0: none is in flight */
        _Atomic int fault;         /* broken_why may be read */
        struct speculation_shown speculation;
    } shown;
    struct {
        _Atomic uint64_t prompt_tokens, prompt_ns, generated_tokens, generate_ns, requests;
    } served; /* of requests and laps that have ended */
};

#endif
