/* stator: the public C API.
 *
 * open -> plan -> start (seals: nothing allocates afterwards) -> submit / poll -> close.
 *
 * - Every call returns a stator_status and, when it is not STATOR_OK, fills the caller's stator_error (may be
 * NULL).
 * - Structs that cross the boundary begin with their size (set it to sizeof), so that they may grow. A
 * smaller size is one of an older header: the fields that it lacks are taken as zero, and are not written. A
 * larger one than the library knows is refused.
 * - A required pointer that is NULL is STATOR_USAGE with the argument's name.
 * - Up to and with stator_start, and for stator_stop and stator_close, one thread drives an engine. In
 * between all calls may be made from any thread at any time; stator_poll from one thread at a time.
 * stator_cancel may be called from a signal handler too, and while stator_start runs.
 * - The library installs no signal handlers and never calls exit(). It has no global state but for what
 * drivers have, and the turns of engines on the processors where they are opened beside each other
 * (options.beside).
 */
#ifndef STATOR_H
#define STATOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STATOR_API_VERSION 1
uint32_t stator_api_version(void); /* of the library; equal to STATOR_API_VERSION of a matching header */

/* The codes are the exit codes of the commands. */
typedef enum stator_status {
    STATOR_OK = 0,
    STATOR_FAILED = 1,       /* other failure */
    STATOR_USAGE = 2,        /* a wrong argument, option or config */
    STATOR_DOES_NOT_FIT = 3, /* memory */
    STATOR_BAD_MODEL = 4,    /* a bad model file */
    STATOR_DEVICE = 5,       /* device failure */
    STATOR_BUSY = 6          /* the queue is full: try again when a request is done. No exit code: a command
                                that meets it ends with 1 */
} stator_status;

typedef struct stator_error {
    stator_status code;
    char text[512]; /* UTF-8, one or more sentences, ends with NUL */
} stator_error;

typedef struct stator stator; /* an engine */

typedef enum stator_log_level {
    STATOR_LOG_ERROR,
    STATOR_LOG_WARN,
    STATOR_LOG_INFO,
    STATOR_LOG_DEBUG
} stator_log_level;

typedef struct stator_options {
    size_t size;
    const char *config;     /* path of a config file, or of a .gguf file (other keys have their defaults) */
    const char *const *set; /* n_set texts "section.key=value", which override the file */
    size_t n_set;
    /* Both callbacks may be NULL. log: one line without newline. progress: bytes of weights loaded of total.
     * They are called on the thread that drives the engine. */
    void (*log)(void *context, stator_log_level level, const char *line);
    void (*progress)(void *context, uint64_t done, uint64_t total);
    void *context;
    const char
        *expect_plan; /* NULL, or the plan hash that stator_start insists on (else STATOR_DOES_NOT_FIT) */
    /* n_devices texts "NAME=SIZE[,max_alloc=SIZE][,bandwidth=SIZE/s]": devices that need not be in this
     * machine, in the order of their layers. They replace devices.use; the engine can then plan but not
     * start. */
    const char *const *devices;
    size_t n_devices;
    int described;     /* 1: if the config has devices.facts, they replace devices.use in the same way */
    const char *trace; /* NULL, or a file for a trace of the devices' work: JSON of Chrome's trace viewer */
    uint32_t stage;    /* with cluster.stages, and no ranks of MPI: the host that the plan is for */
    int serve; /* 1: the plan has memory for a server around the engine (stator_edge_memory), as it has
                  if the config's section `server` is not all defaults */
    int reuse; /* 1: requests go on from one another, as in a chat, so that server.checkpoints = "auto" plans
                  copies of windows and states for it, as it does where there is memory for a server */
    uint32_t grammars; /* compiled grammars that the plan has memory for, at least: server.grammars of them
                          where there is memory for a server */
    /* NULL, or an engine of this process that is open, not started, and planned before this one is: this one
     * is planned with the memory that it leaves (memory.host_limit is of both), and on a processor their
     * steps take turns. It may have been opened beside another one itself. The same thread drives all of
     * them. */
    stator *beside;
} stator_options;

/* Reads the config and the model's directory; no weights, no devices. *out is NULL on failure. */
stator_status stator_open(const stator_options *options, stator **out, stator_error *e);
/* Computes the memory plan. STATOR_DOES_NOT_FIT says what is short and what would fit. */
stator_status stator_plan(stator *s, stator_error *e);
/* Allocates the host's part of the plan, without the weights. Afterwards text can be tokenized and requests
 * can be checked, so that a request that cannot run is refused before minutes of loading. Plans first if that
 * was not done. */
stator_status stator_prepare(stator *s, stator_error *e);
/* The memory that the plan of a server has for the program around the engine (the host's row "edge"; see
 * options.serve): after stator_prepare, the program's until stator_close. The engine does not touch it, so
 * that it is in RAM only where the program has written. */
stator_status stator_edge_memory(stator *s, void **memory, uint64_t *bytes, stator_error *e);
/* Allocates exactly the plan, loads the weights, seals. Prepares first if that was not done. */
stator_status stator_start(stator *s, stator_error *e);
/* Ends the engine's thread and gives the devices back; requests still running are dropped. Only stator_close
 * may follow. STATOR_FAILED: options.trace could not be written completely. */
stator_status stator_stop(stator *s, stator_error *e);
/* Stops if that was not done and frees everything. NULL is allowed. */
void stator_close(stator *s);

typedef struct stator_info {
    size_t size;
    char plan_hash[33];
    char model_name[128];
    char architecture[32];
    char tier[16]; /* of the first device's kernels: "avx2", .., or "level_zero"; empty before start */
    uint32_t threads;
    uint32_t vocab;
    uint32_t context; /* tokens, of one sequence */
    uint32_t batch;
    uint32_t sequences;
    uint32_t logits_rows;
    uint32_t
        context_fixed;    /* 1: the config gives memory.context as a number; 0: it is the default or "auto" */
    char weight_type[16]; /* the format of most bytes of the weights: "Q4_K" */
    uint64_t parameters;
    uint64_t model_bytes; /* of tensor data in the file */
    uint64_t load_ns;     /* from start until sealed */
    /* The least work of a step, for comparing rates with the limits of a machine; 0 before stator_plan. */
    uint64_t step_read_bytes; /* of packed weights, read once by a step with logits, however few its tokens;
                                 of experts those of one token */
    uint64_t context_read_bytes; /* of the KV cache, per token of context that a token attends to */
    uint64_t token_macs;         /* multiply-adds with weights per token, without the logits */
    uint64_t step_file_bytes;    /* of the same weights as step_read_bytes, as they are in the file */
    uint64_t experts_read_bytes; /* in step_read_bytes: of the experts of one token; */
    uint64_t experts_file_bytes; /* in step_file_bytes */
    uint32_t experts;            /* that a layer has; 0: none */
    uint32_t experts_used;       /* by a token */
    uint64_t
        window_read_bytes; /* like context_read_bytes, of layers that see the last `window` tokens only */
    uint64_t window;
    uint64_t state_bytes; /* of recurrent states, that a token reads and writes */
    char pooling[8];      /* "none", "mean", "cls", "last", "rank": all but "none" take STATOR_EMBED alone */
    uint32_t vector;      /* values that STATOR_EMBED gives */
    uint32_t slots;       /* of stator_slot; 0: without cache.kv_dir there are none */
} stator_info;
stator_status stator_get_info(const stator *s, stator_info *info, stator_error *e);

/* Sampling. `has` is a set of STATOR_HAS_ bits; a field without its bit comes from the config. */
enum {
    STATOR_HAS_TEMPERATURE = 1,
    STATOR_HAS_TOP_K = 2,
    STATOR_HAS_TOP_P = 4,
    STATOR_HAS_MIN_P = 8,
    STATOR_HAS_REPEAT_PENALTY = 16,
    STATOR_HAS_SEED = 32,
    STATOR_HAS_PRESENCE_PENALTY = 64,
    STATOR_HAS_FREQUENCY_PENALTY = 128,
    STATOR_HAS_MIN_TOKENS = 256,
    STATOR_HAS_DRY_MULTIPLIER = 512,
    STATOR_HAS_DRY_BASE = 1024,
    STATOR_HAS_DRY_ALLOWED_LENGTH = 2048,
    STATOR_HAS_DRY_PENALTY_LAST_N = 4096,
    STATOR_HAS_TOP_N_SIGMA = 8192,
    STATOR_HAS_TYPICAL_P = 16384,
    STATOR_HAS_XTC_PROBABILITY = 32768,
    STATOR_HAS_XTC_THRESHOLD = 65536
};
/* Added to the logit of a token: a finite number, at most 1e6 either way. 100 makes most tokens certain, -100
 * impossible. */
typedef struct stator_logit_bias {
    int32_t token;
    float bias;
} stator_logit_bias;
#define STATOR_LOGIT_BIASES 300 /* of a request at most */
/* The most tokens that a part of an answer may have, such as reasoning, and the tokens that come then,
 * whatever the logits say: a message and the tokens that close the part. Sampling continues behind them. A
 * part that opens again has what is left of the budget. */
#define STATOR_FORCED 256 /* tokens of open, close and queue together, at most */
typedef struct stator_budget {
    size_t size;
    uint32_t tokens;      /* inside the part, without those that open it */
    uint32_t begun;       /* 1: the prompt ends inside the part */
    const int32_t *open;  /* the part begins behind these tokens of the answer */
    size_t n_open;        /* 0: it never does */
    const int32_t *close; /* the part ends with these */
    size_t n_close;       /* 0: it never does */
    const int32_t *queue; /* the tokens that are forced */
    size_t n_queue;       /* >= 1 */
} stator_budget;

/* A compiled grammar: which texts an answer may be. It lies in the memory that the plan has for grammars, and
 * belongs to the engine. */
typedef struct stator_grammar stator_grammar;
typedef enum stator_grammar_kind {
    STATOR_GRAMMAR_JSON_SCHEMA, /* a JSON Schema (2020-12, drafts 4 to 7): JSON without white space between
                                   tokens, with the properties of objects in the order of the schema */
    STATOR_GRAMMAR_REGEX,       /* a regular expression (ECMA 262), which the whole answer matches */
    STATOR_GRAMMAR_PARTS, /* texts, control tokens and JSON Schemas behind each other, as JSON: an array of
                            parts, each of them a text, {"token": name of a control token}, {"schema": ..}, an
                            array,
                            {"any": [part, ..]}, {"repeat": part} (one or more), {"regex": ..} or {"until":
                            {text: part, ..}} (any text up to the first of these texts, which the part
                            follows; "may_end": true: or without them) */
    STATOR_GRAMMAR_GBNF   /* a grammar of llama.cpp; the whole answer matches its rule `root` */
} stator_grammar_kind;
typedef struct stator_grammar_source {
    size_t size;
    stator_grammar_kind kind;
    const char *text; /* UTF-8, `length` bytes */
    size_t length;
    uint32_t free_space; /* JSON_SCHEMA and PARTS: 1: white space is allowed between tokens */
} stator_grammar_source;
/* Compiles a text, or finds the grammar that an equal text was compiled to; after stator_prepare, from any
 * thread. *grammar is the caller's to release. Memory: the plan's, and the heap while compiling. *grammar is
 * written before anything is allocated: where jansson's allocator leaves the call (longjmp), the caller can
 * release what was reserved.
 * STATOR_USAGE: the text is wrong, or asks for what is not supported; the error names it and its place.
 * STATOR_DOES_NOT_FIT: it needs more memory or steps than one grammar may have (server.grammar_bytes).
 * STATOR_BUSY: all planned grammars are in use. */
stator_status stator_grammar_compile(stator *s, const stator_grammar_source *source, stator_grammar **grammar,
                                     stator_error *e);
/* The caller uses the grammar no longer. Requests that were submitted with it go on. NULL is allowed. */
void stator_grammar_release(stator *s, stator_grammar *grammar);
#define STATOR_GRAMMAR_AFTER 64 /* tokens of stator_sampling.grammar_after, at most */

/* In the order of their work: grammar, logit_bias, the penalties, DRY, min_tokens, top_n_sigma, top_k,
 * typical_p, top_p, min_p, XTC, temperature. With a temperature of 0 nothing behind min_tokens has an effect.
 */
typedef struct stator_sampling {
    uint32_t has;
    float temperature;    /* 0: greedy */
    uint32_t top_k;       /* 0: off */
    float top_p;          /* 1: off, 0: the likeliest token */
    float min_p;          /* 0: off */
    float repeat_penalty; /* 1: off; over the last 64 tokens, the prompt's among them */
    uint64_t seed;
    /* Taken off the logit of a token that the request has generated: once, and for every time that it has.
     * Tokens of the prompt do not count. 0: off; below 0 a token comes the likelier again. */
    float presence_penalty;
    float frequency_penalty;
    const stator_logit_bias *logit_bias; /* copied by submit; those of one token add up */
    uint32_t n_logit_bias;               /* 0: none */
    uint32_t min_tokens;                 /* no end token comes before so many tokens were generated */
    /* DRY: a token that would continue a repetition of `length` tokens, at least dry_allowed_length, loses
     * dry_multiplier * dry_base ^ (length - dry_allowed_length) of its logit, at most 1e6. */
    float dry_multiplier; /* 0: off */
    float dry_base;       /* below 1: off */
    uint32_t dry_allowed_length;
    uint32_t dry_penalty_last_n; /* tokens that are searched, the prompt's among them; UINT32_MAX: all */
    float top_n_sigma;           /* 0 or less: off */
    float typical_p;             /* 1: off */
    float xtc_probability;       /* 0: off */
    float xtc_threshold;         /* above 0.5: off */
    const stator_budget *budget; /* copied by submit; NULL: none */
    /* The answer matches this grammar: a token that it forbids is no candidate, and end tokens are candidates
     * exactly where the answer may end. The answer ends where nothing can follow. NULL: any text is allowed.
     * It may be released after the submit. A control token is allowed only where STATOR_GRAMMAR_PARTS
     * names it. Not with request.ignore_eos. */
    stator_grammar *grammar;
    /* The grammar begins behind the first place in the answer with these tokens, which end its reasoning,
     * say; before it all but end tokens are candidates. Copied by submit. While the queue of a budget is
     * forced, it waits for its end. A budget has no effect where the grammar has begun. */
    const int32_t *grammar_after;
    size_t n_grammar_after; /* 0: it begins with the answer */
    /* The answer may begin with this token, whatever the grammar says; only then does the grammar begin
     * behind grammar_after. NULL: none. */
    const int32_t *grammar_open;
} stator_sampling;

typedef enum stator_request_kind {
    STATOR_GENERATE, /* prompt in, tokens out */
    STATOR_LOGITS,   /* prompt in, logits of every position out */
    STATOR_EMBED     /* prompt in, one vector out, of info.vector values: by info.pooling the embedding, of
                        length 1 ("mean", "cls", "last"), the classifier's scores ("rank"), or the logits behind
                        the last token ("none", and "rank" of a model without a classifier) */
} stator_request_kind;

/* A picture's file: JPEG, PNG or WebP. */
typedef struct stator_picture {
    const void *data;
    size_t length;
} stator_picture;

typedef struct stator_request {
    size_t size;
    stator_request_kind kind;
    const int32_t *tokens; /* copied by submit */
    size_t n_tokens;       /* >= 1 */
    uint32_t
        max_new; /* GENERATE: tokens to generate at most; 0: until the end token or the context is full */
    uint32_t ignore_eos; /* GENERATE: do not stop at an end token */
    /* GENERATE: what the TOKEN events have beside the token: 1: its log probability, and those of so many of
     * the likeliest tokens (at most STATOR_TOP_LOGPROBS). */
    uint32_t logprobs;
    uint32_t top_logprobs;
    stator_sampling sampling;
    uint32_t dimensions; /* EMBED: the first so many values of an embedding, scaled to length 1; 0: all */
    /* With model.vision: pictures, in the order in which their markers (stator_vision.marker) stand among the
     * tokens. Each marker becomes the tokens of its picture, which count into the context. submit decodes the
     * files; they are the caller's again afterwards. */
    const stator_picture *pictures;
    size_t n_pictures; /* at most vision.pictures */
    /* NULL, or of each of the n_pictures what stator_load_picture gave: then submit decodes nothing, and
     * `pictures` is not read. */
    const uint64_t *loaded;
    /* GENERATE, with info.slots: 1 + the slot that gets this text when it ends; 0: the engine chooses. */
    uint32_t slot;
} stator_request;

#define STATOR_TOP_LOGPROBS 20

/* Queues a request. Its prompt's beginning is not computed again where another request with the same
 * beginning has computed it in full blocks of stats.block_tokens tokens, and they are still there: before it,
 * or at the same time. So several answers to one prompt are several requests with that prompt, submitted one
 * behind the other: they share its blocks and compute it once. At least the prompt's last token is computed,
 * and the bytes of an answer are the same either way.
 *
 * *id names it in events (never 0). STATOR_USAGE: a request that can never run (too long
 * for the context, ids outside the vocabulary). STATOR_BUSY: memory.sequences requests and server.max_queue
 * more are there already; a request is until its DONE was polled. */
stator_status stator_submit(stator *s, const stator_request *request, uint64_t *id, stator_error *e);

/* Slots: memory.sequences texts, each the prompt and the answer of the last request that ended in it. With
 * cache.kv_dir a text can be saved under a name, and restored later, also in another run. A save is the
 * tokens, and the caches' blocks of them as files of that folder. A restored text lies in the prefix cache,
 * so the next request that begins with it goes on from there. */
typedef enum stator_slot_action {
    STATOR_SLOT_SAVE,
    STATOR_SLOT_RESTORE,
    STATOR_SLOT_ERASE /* the slot has no text; its blocks in memory that nobody else uses are free */
} stator_slot_action;
typedef struct stator_slot {
    size_t size;
    stator_slot_action action;
    uint32_t slot;    /* below info.slots */
    const char *name; /* SAVE, RESTORE: 1 to 128 bytes without slashes, "..", control characters, and a dot in
                         front; copied */
} stator_slot;
/* Queues an action, which is a request with one event: DONE. Its n_prompt is the tokens of the text, n_cached
 * the tokens that the save has blocks of, that were restored, or that are forgotten. Blocks are whole
 * (stats.block_tokens), and what a window or a state needs is there only where there was a checkpoint, so
 * n_cached may be less than n_prompt: the next request computes the rest. A RESTORE reads the file of the
 * name at once, on the caller's thread. STATOR_USAGE: a wrong slot or name; no such save, or one that is
 * damaged or of another model, KV type or version; no cache.kv_dir. STATOR_BUSY: as of stator_submit. */
stator_status stator_slot_submit(stator *s, const stator_slot *slot, uint64_t *id, stator_error *e);

/* What the engine does with pictures. */
typedef struct stator_vision {
    size_t size;
    uint32_t pictures; /* that a request may have, and all together (vision.pictures); 0: there is no tower */
    int32_t marker;    /* the token that stands for a picture */
    uint64_t encoded;  /* pictures so far, and the time that the tower took for them */
    uint64_t encode_ns;
    /* What stands for a picture in a prompt's text, special tokens all: the marker, and what this model has
     * around it. */
    char text[64];
} stator_vision;
/* With model.vision after stator_prepare. */
stator_status stator_get_vision(const stator *s, stator_vision *vision, stator_error *e);

typedef struct stator_picture_size {
    size_t size;
    uint32_t width, height;           /* of the picture */
    uint32_t seen_width, seen_height; /* as the tower sees it */
    uint32_t tokens;                  /* of the prompt */
} stator_picture_size;
/* Reads the file's headers alone. After stator_open. STATOR_USAGE: no model.vision, or a file that a request
 * could not have. */
stator_status stator_measure_picture(const stator *s, const stator_picture *picture,
                                     stator_picture_size *size, stator_error *e);

/* Decodes a picture ahead of the requests that have it, for callers that must not wait while they submit: a
 * large file takes a second. Any thread may call; one file is decoded at a time, and no other call waits for
 * it but a submit that has files to decode. The picture is held until stator_drop_picture, beyond which
 * requests hold it themselves. After stator_start. STATOR_BUSY: all places (vision.pictures) are held. */
stator_status stator_load_picture(stator *s, const stator_picture *picture, uint64_t *loaded,
                                  stator_error *e);
/* loaded: of stator_load_picture, once; 0 is allowed. */
void stator_drop_picture(stator *s, uint64_t loaded);

/* Checks a request as stator_submit would, without queueing it; after stator_prepare. */
stator_status stator_check(const stator *s, const stator_request *request, stator_error *e);

typedef enum stator_event_kind {
    STATOR_EVENT_TOKEN,
    STATOR_EVENT_LOGITS,
    STATOR_EVENT_DONE,
    STATOR_EVENT_VECTOR /* of STATOR_EMBED, before its DONE */
} stator_event_kind;
typedef enum stator_reason {
    STATOR_REASON_NONE,
    STATOR_REASON_EOS,    /* the model ended */
    STATOR_REASON_LENGTH, /* max_new, or the context is full */
    STATOR_REASON_CANCELLED,
    STATOR_REASON_FAILED /* see status and text */
} stator_reason;

/* The natural logarithm of a token's probability: of the softmax over the model's logits as they are, before
 * penalties, filters and temperature, of the tokens that the request's grammar allows. In one order of
 * operations, so the same bits wherever the logits are: the greatest logit is subtracted in f32 from each,
 * their exponentials (f32) are added up in f64 by token id, and logit - greatest - log(sum) is computed in
 * f64 and rounded once. */
typedef struct stator_logprob {
    int32_t token;
    float logprob;
} stator_logprob;

typedef struct stator_event {
    size_t size;
    uint64_t request;
    stator_event_kind kind;
    int32_t token;        /* TOKEN */
    uint32_t position;    /* TOKEN: position of that token in its sequence; LOGITS: of the row */
    const float *logits;  /* LOGITS: [vocab], VECTOR: [n_values]; valid until the next stator_poll or
                             stator_stop */
    stator_reason reason; /* DONE */
    stator_status status; /* DONE with STATOR_REASON_FAILED */
    uint64_t prompt_ns;   /* DONE: from the first step to the last prompt token computed */
    uint64_t generate_ns; /* DONE: from there to the end */
    uint32_t n_prompt;    /* DONE */
    uint32_t n_generated; /* DONE */
    uint64_t queue_ns;    /* DONE: from the submit to the admission */
    uint64_t time_ns; /* TOKEN: when its step ended, from an arbitrary start; the same for all sequences of
                         the step */
    char text[160];   /* DONE with STATOR_REASON_FAILED: why */
    float logprob;    /* TOKEN, with request.logprobs: of that token */
    uint32_t n_top;
    stator_logprob top[STATOR_TOP_LOGPROBS]; /* the likeliest first, equal ones by id */
    uint32_t n_cached; /* DONE: tokens of the prompt that were there already and not computed; n_prompt counts
                          them too */
    uint32_t n_guessed; /* DONE: draft tokens (config: speculation), */
    uint32_t n_kept;    /* and of those the ones that came; n_generated counts them too */
    uint32_t n_values;  /* VECTOR */
    uint32_t slot;      /* DONE: the slot that has this text now (stator_slot) */
    uint64_t n_bytes;   /* DONE of stator_slot_submit: of the files that it wrote, or that it read */
} stator_event;

#define STATOR_GUESSES 16 /* of a sequence in a step at most */

/* Fills *event with the next event. *have = 0 when none came within timeout_ns (0: do not wait). Events of
 * one request come in order; requests that have events take turns. Up to 63 events of a request wait to be
 * polled; then its steps wait, and nobody else's. */
stator_status stator_poll(stator *s, uint64_t timeout_ns, stator_event *event, int *have, stator_error *e);
/* Ends a request (0: all) with STATOR_REASON_CANCELLED soon. With 0 while stator_start runs on another thread
 * (or is what a signal interrupts): ends that, with STATOR_FAILED; before it there is nothing to cancel. */
void stator_cancel(stator *s, uint64_t id);

/* With on = 1 stator_poll gives no events of a request until it is called with 0, or the request is
 * cancelled. For a reader that is slow: its request waits with its place in memory, all others go on. */
stator_status stator_hold(stator *s, uint64_t id, int on, stator_error *e);

/* A descriptor for poll(2) and its kin, the engine's to close: readable while stator_poll may have an event,
 * until a stator_poll with *have = 0. (So it is level-triggered; with edge-triggered waits, poll until
 * *have = 0. It may be readable once too often.) Read or write nothing there. -1 before stator_start. */
int stator_event_fd(stator *s);

/* What an engine is doing now. Figures that follow from one another may be of moments a step apart. */
typedef struct stator_stats {
    size_t size;
    uint32_t running;      /* requests with a place in the KV cache */
    uint32_t waiting;      /* requests that wait for one */
    uint32_t ended;        /* their DONE is not polled yet */
    uint32_t capacity;     /* of all three together: one more is STATOR_BUSY */
    uint32_t block_tokens; /* of the KV cache: tokens of a block, */
    uint32_t blocks;       /* blocks */
    uint32_t blocks_free;
    uint32_t blocks_held; /* by running requests: all that they can ever need */
    uint32_t blocks_peak; /* the most that were held at a time */
    stator_status
        fault;         /* not STATOR_OK: a device has failed, no request runs any more; fault_text says why */
    uint64_t requests; /* that have ended, of these */
    uint64_t cancelled;
    uint64_t failed;
    uint64_t tokens_in;  /* of prompts, gone into steps */
    uint64_t tokens_out; /* generated */
    uint64_t queue_ns;   /* sum over the requests that were admitted: from submit to admission */
    uint64_t steps;      /* that have ended; from a step's begin to its results: */
    uint64_t step_ns;    /* sum, */
    uint64_t last_step_ns;
    uint64_t longest_step_ns;
    uint64_t stuck_ns; /* since a step has ended, or the first has begun; 0: none is in flight */
    char fault_text[256];
    /* What requests left behind (server.prefix_cache). */
    uint32_t blocks_cached;  /* that no running request holds: until one takes them, as they are or anew */
    uint64_t blocks_evicted; /* that had to go */
    uint64_t prefix_hits;    /* requests that began behind what others had computed */
    uint64_t tokens_cached;  /* of prompts, not computed therefore; tokens_in has none of them */
    /* Speculation. A sequence that generates gets 1 + its accepted draft tokens in a turn. */
    uint64_t turns; /* times that a generating sequence had a token in a step */
    uint64_t
        guessed[STATOR_GUESSES]; /* by place: draft tokens for the next token, for the one after it, .. */
    uint64_t kept[STATOR_GUESSES];
    /* Copies of windows and recurrent states (server.checkpoints), for models that have such. */
    uint32_t checkpoints, checkpoints_used; /* planned; that are somebody's beginning */
    uint64_t checkpoints_taken;
    uint64_t checkpoints_resumed; /* times that a request went on from one */
    /* Of blocks_held: blocks that running requests have now, each counted once (as stator_get_blocks shows
     * them). The others of blocks_held are reserved, and free or cached until they are taken. */
    uint32_t blocks_taken;
    /* cache.kv_dir; all 0 without it. A file has what the caches hold of 32 tokens, or a checkpoint. */
    uint64_t kv_files; /* in the folder, and their bytes; 0 if another process writes to it */
    uint64_t kv_file_bytes;
    uint64_t kv_files_read, kv_bytes_read, kv_read_ns;
    uint64_t kv_files_written, kv_bytes_written, kv_write_ns;
    uint64_t kv_files_lost; /* not written, because every buffer was in use */
    uint64_t kv_hits;       /* requests that went on from files */
    uint64_t kv_tokens; /* prompt tokens that these had from files, which tokens_cached has too; and tokens of
                           texts that were restored */
    uint64_t kv_wait_ns;  /* that requests waited for files, found or not */
    uint64_t kv_saved_ns; /* what computing kv_tokens would have taken by this run's mean, less kv_wait_ns */
    uint64_t slots_saved, slots_restored; /* actions of stator_slot_submit that have ended well */
    /* memory.experts = "host": rows of experts (a token's chosen expert in a layer) that the CPU has computed
     * for GPUs, and the time that took. */
    uint64_t helped_rows, helped_ns;
    /* memory.expert_slots: rows that GPUs have computed with experts in slots, and experts copied to slots.
     */
    uint64_t slot_rows, slot_copies;
    /* Bytes of experts in host memory that were copied to windows of GPUs, for steps of many tokens
     * (memory.expert_window, memory.on_oom = "spill"). */
    uint64_t streamed_bytes;
} stator_stats;
/* After stator_start. */
stator_status stator_get_stats(stator *s, stator_stats *stats, stator_error *e);

/* A cache of the model: what it remembers of tokens, in blocks. In a paged one a block has block_tokens
 * tokens of a text, and requests that begin alike share it; a ring has the newest tokens of a sequence, a
 * state stands for all of them. */
typedef struct stator_cache {
    size_t size;
    char name[16];
    char kind[8]; /* "paged", "ring", "state" */
    uint32_t blocks;
    uint32_t block_tokens; /* 0: it is a state */
    uint64_t block_bytes;  /* on all devices */
} stator_cache;
/* Cache `index`, or *have = 0 past the last one. After stator_start. */
stator_status stator_get_cache(const stator *s, size_t index, stator_cache *cache, int *have,
                               stator_error *e);

typedef enum stator_block_state {
    STATOR_BLOCK_FREE,
    STATOR_BLOCK_CACHED, /* held by none, kept as long as nobody needs the memory */
    STATOR_BLOCK_HELD
} stator_block_state;
typedef struct stator_block {
    uint64_t request; /* HELD: of the holders, the one that has come last */
    stator_block_state state;
    uint32_t holders; /* HELD; at most 65535 are counted */
} stator_block;
/* Blocks of a cache from `first` on, as many as there are and capacity allows: *n. A request's blocks of
 * request_stats that it has not taken yet are free or cached here. Blocks may be of moments a step apart.
 * STATOR_USAGE: there is no such cache. */
stator_status stator_get_blocks(stator *s, size_t cache, size_t first, stator_block *out, size_t capacity,
                                size_t *n, stator_error *e);

typedef enum stator_request_state { STATOR_WAITING, STATOR_RUNNING, STATOR_ENDED } stator_request_state;
typedef struct stator_request_stats {
    size_t size;
    stator_request_kind kind;
    stator_request_state state; /* ENDED: its DONE is not polled yet */
    uint32_t held;              /* by stator_hold */
    uint32_t events;            /* that wait to be polled */
    uint32_t blocks;            /* of the KV cache, all that it can ever need */
    uint32_t n_prompt;
    uint32_t n_computed; /* tokens of the prompt that have gone into steps */
    uint32_t n_generated;
    uint32_t max_new;     /* tokens that it may generate */
    uint64_t queue_ns;    /* these three: so far */
    uint64_t prompt_ns;   /* from its first step to the last prompt token computed */
    uint64_t generate_ns; /* from there on */
    uint64_t steps;       /* that carried it and have ended */
    uint64_t step_ns;     /* of them all */
    uint64_t last_step_ns;
    uint32_t n_cached;     /* tokens of the prompt that were there already; n_computed counts them too */
    uint32_t blocks_taken; /* of `blocks`: that it has now; the others are reserved for it */
} stator_request_stats;
/* Of a request from its submit until its DONE was polled; STATOR_USAGE: there is none of that id. */
stator_status stator_get_request(stator *s, uint64_t id, stator_request_stats *stats, stator_error *e);

/* Text to ids. Calls of several threads wait for one another. add_special: BOS/EOS by the model's rules;
 * parse_special: "<|end|>" and the like in the text are control tokens. *n is always the number of ids that
 * the text has; STATOR_USAGE if it is above capacity. A capacity of 3 * length + 5 is enough for any
 * text: a byte that is not UTF-8 becomes three ids. */
stator_status stator_tokenize(const stator *s, const char *text, size_t length, int add_special,
                              int parse_special, int32_t *ids, size_t capacity, size_t *n, stator_error *e);
/* Ids to text, one at a time, for streaming: appends the text of id to the bytes pending in the decoder and
 * writes only whole UTF-8 characters. */
typedef struct stator_decoder {
    size_t size;
    uint32_t n_pending;
    unsigned char pending[8];
    uint32_t started; /* 0 before the first token: SentencePiece drops its leading blank there */
} stator_decoder;
/* Writes at most capacity bytes and the number of them to *n (no NUL). special: control tokens are written as
 * their names. id < 0 flushes what is pending (as U+FFFD if it is not a whole character). STATOR_USAGE if
 * capacity is too small. */
stator_status stator_decode(const stator *s, stator_decoder *decoder, int32_t id, int special, char *out,
                            size_t capacity, size_t *n, stator_error *e);
/* The bytes of one token, which may be parts of characters; control tokens are written as their names. Writes
 * at most capacity bytes; *n is always how many the token has. */
stator_status stator_token_bytes(const stator *s, int32_t id, char *out, size_t capacity, size_t *n,
                                 stator_error *e);

/* The tokens around a text that the model fills in, by the keys of its file or by the names that families
 * have for them; -1: there is none. A model without the first three can't fill in. */
typedef struct stator_infill_tokens {
    size_t size;
    int32_t prefix, suffix, middle;
    int32_t repository, file; /* in front of other files' texts */
} stator_infill_tokens;
/* After stator_prepare. */
stator_status stator_get_infill_tokens(const stator *s, stator_infill_tokens *tokens, stator_error *e);

/* What the model's file says of conversations: the template (Jinja) that makes a prompt of messages, and the
 * two tokens that templates name. Texts are UTF-8 without a NUL behind them and live until stator_close. */
typedef struct stator_chat_template {
    size_t size;
    const char *text; /* NULL: the model has none */
    size_t length;
    const char *
        file; /* chat.template of the config, a path, with a NUL: a template in place of the model's; or "" */
    const char *bos; /* length 0: it has none */
    size_t bos_length;
    const char *eos;
    size_t eos_length;
    /* Of a reranker (key tokenizer.chat_template.rerank, or that of Qwen3's rerankers): the prompt, in which
     * {query} and {document} stand for these texts; NULL: there is none. */
    const char *rerank;
    size_t rerank_length;
} stator_chat_template;
/* Any time after stator_open. */
stator_status stator_get_chat_template(const stator *s, stator_chat_template *t, stator_error *e);

/* One row of the memory table. */
typedef struct stator_memory_row {
    size_t size;
    char place[32];       /* "cpu:0", "host" */
    char arena[32];       /* "weights", "kv", ..., "spill level_zero:0" */
    uint64_t planned;     /* bytes */
    uint64_t lower_bound; /* bytes; equal to planned when the packing is optimal */
    uint64_t allocated;   /* bytes; 0 before start */
    uint64_t used;        /* high-water mark */
    uint64_t budget;      /* bytes that the place may hold */
} stator_memory_row;
/* Row `index`, or *have = 0 past the last one. */
stator_status stator_get_memory(const stator *s, size_t index, stator_memory_row *row, int *have,
                                stator_error *e);

/* The audit of host memory at this moment: what was planned, what the kernel reports, and a name for every
 * difference: planned - not_in_ram + before + others = kernel. Bytes. */
typedef struct stator_audit {
    size_t size;
    uint64_t planned;    /* by the plan, less what a GPU's driver has pinned */
    uint64_t not_in_ram; /* of that: never written yet, or swapped out */
    uint64_t before;     /* what the process held before stator_open */
    int64_t others;      /* libraries, drivers and the program around the engine */
    uint64_t kernel;     /* RssAnon + RssShmem */
    uint64_t pinned;     /* planned and pinned by a GPU's driver, and so in no Rss figure */
    uint64_t spilled;    /* of that: what GPUs are too small for (memory.on_oom) */
    int64_t grown;       /* of `others`, since the engine was sealed */
    int64_t heap_grown;  /* bytes that malloc has handed out since then */
    uint64_t drm_clients, drm_vram, drm_gtt; /* of all GPUs, by /proc/self/fdinfo */
    char text[256];                          /* what is wrong with the figures, or "" */
    /* Of the whole machine, by /proc/meminfo; 0: not told. A leak of a GPU's driver may be in no figure of
     * the process: `available` falls, and memory that belongs to no process and no cache grows. */
    uint64_t available;        /* MemAvailable */
    uint64_t available_sealed; /* when the engine was sealed */
    int64_t unnamed_grown;     /* since then */
    uint64_t beside; /* planned memory of the engines beside this one (options.beside) that is in RAM */
} stator_audit;
/* STATOR_DOES_NOT_FIT: something is wrong (audit->text) and the config says memory.strict = true. */
stator_status stator_get_audit(const stator *s, stator_audit *audit, stator_error *e);

/* Over several hosts, of rank 0: asks the others for theirs, for the report (`other_ranks` of its audit);
 * waits at most 10 s. STATOR_DOES_NOT_FIT: something is wrong on one of them, and the config says
 * memory.strict = true. Nothing to do otherwise. */
stator_status stator_audit_ranks(stator *s, stator_error *e);

/* The same for one GPU, in bytes: planned + the driver's own = driver; driver + what only the kernel counts =
 * kernel. */
typedef struct stator_device_audit {
    size_t size;
    char name[32];
    uint64_t planned;     /* slices, all allocated */
    uint64_t reserve;     /* memory.driver_reserve */
    uint64_t driver;      /* free memory before the start minus free memory now; 0: the driver does not say */
    int kernel_told;      /* 0: the kernel has no figures of this GPU for this process (drm fdinfo) */
    uint64_t kernel;      /* memory of the GPU (drm vram) */
    uint64_t host;        /* planned host memory that is pinned through this GPU */
    uint64_t kernel_host; /* host memory for this GPU (drm gtt, system) */
    int64_t grown;        /* of kernel, since the engine was sealed */
} stator_device_audit;
/* GPU `index`, or *have = 0 past the last one. */
stator_status stator_get_device_audit(const stator *s, size_t index, stator_device_audit *audit, int *have,
                                      stator_error *e);

/* JSON texts, into the caller's buffer, with a NUL: *n is the length without it. When capacity is too small
 * (STATOR_USAGE), *n is the plan's whole length; of a report (its figures change from call to call) what
 * none of this engine is longer than until it is started or stopped: *n + 1 bytes hold the next one. plan: as
 * `stator plan --json`. report: as `--report FILE`. */
stator_status stator_plan_json(const stator *s, char *out, size_t capacity, size_t *n, stator_error *e);
stator_status stator_report_json(const stator *s, char *out, size_t capacity, size_t *n, stator_error *e);

#ifdef __cplusplus
}
#endif

#endif
