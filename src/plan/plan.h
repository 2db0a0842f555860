/* The plan of memory: places (devices and the host), their arenas, the slices of each arena and the blocks in
 * them; the inputs that it follows from; what was really allocated and used next to it. Knows bytes, neither
 * tensors nor devices.
 *
 * Invariants (plan_check): an arena's bytes are the sum of its slices; a place's total is the sum of its
 * arenas; the host is the last place; a block lies inside its slice, and two blocks that live at the same
 * time do not overlap. Filled by planner.c and read by all; the owner of an arena alone writes its
 * `allocated` and `used`.
 *
 * The JSON (`stator plan --json`); sizes are bytes, members may be added, those named here stay:
 *   format    1
 *   model     the model's name (not an input)
 *   hash      32 hex digits over all of `inputs`
 *   fits      true or false
 *   for       "run" (and bench, logits, perplexity), "chat" or "serve" (not an input)
 *   inputs    object: name -> number or text; everything that the plan follows from, and nothing else
 *   devices   array of places, in the order of the layers:
 *     name, budget, total
 *     draft               true: the device of the draft model, the last
 *     vision              true: the device of the vision tower (model.vision), the last
 *     layers              {first, count}
 *     share               {index, of, received_bytes_per_token: from all other devices,
 *                         given_bytes_per_token: to each of them, received_bytes_per_row and
 *                         given_bytes_per_row: of logits, exchanges_per_token, route: "direct",
 *                         "staged" or "by probe", why}, with a tensor split: the device has a share of each
 *                         of those layers, as the others of its group do
 *     to_next             {route: "direct", "staged" or "by probe", why, bytes_per_token}: to the next
 *                         device, where that has other layers
 *     weights             {in_file, packed, padding}: packed is in_file in the panel format, padding the
 *                         zero rows in it
 *     kv_bytes_per_token  of one token of one sequence, in this place
 *     kv_bytes_per_sequence  of one sequence whatever its tokens (windows, states), where there are such
 *     kv_bytes_per_checkpoint  of one of server.checkpoints (windows, states), likewise
 *     spill               struct plan_spill, where something of the device lies in host memory
 *     experts             {on: "host", bytes, ram_bytes_per_token, bus_bytes_per_token; with slots: slots,
 *                         copied_bytes_per_step_most; with a window: window_from_tokens,
 *                         window_bytes_per_step, window_seconds_per_batch, processors_seconds_per_batch},
 *                         where the processors compute its experts
 *     arenas              array of {name, bytes, lower_bound, slices: [bytes, ..],
 *                         blocks: [{name, slice, offset, bytes, first, end}, ..]}; a block lives in steps
 *                         first .. end - 1, first = end = 0: always
 *   host      like a place: {name, limit, total, arenas}; an arena with the name of a device is that
 *             device's memory, which is host memory; one named "spill DEVICE" is what that device is too
 *             small for
 *   kv        {tokens: planned, room_tokens: that the free bytes would hold beside them, sequences_fit: the
 *             largest number of sequences of full length of any plan that fits, 0: none; absent where that
 *             was not searched}; both without spilling
 *   checkpoints     how many copies of windows and states are planned for (server.checkpoints)
 *   in_file   {bytes, rows_per_token, row_bytes}: of the table of n-grams, which is in no memory: its rows
 *             are read as tokens need them; absent in models without one
 *   spill_slowdown  struct plan's slowdown, where it is known
 *   estimate  struct plan_rates, where it is known: {link_bytes_per_second, link_assumed, hop_ns,
 * hop_assumed, layers_tokens_per_second, tensor_tokens_per_second (or no_tensor, why),
 *             groups_tokens_per_second and groups, the best number of groups (four devices or more, and an
 *             even number), choice (with devices.split = "auto")}
 *   hosted    struct plan_hosted, where it is known: {ram_bytes_per_second, ram_assumed, estimates: [{hits,
 *             tokens_per_second}]}
 *   short     if it does not fit: {where, bytes: over the budget, largest_context, largest_batch,
 *             largest_sequences, kv_type: the largest smaller type for K and V that would fit (absent: none)}
 */
#ifndef STATOR_PLAN_PLAN_H
#define STATOR_PLAN_PLAN_H

#include "base/error.h"
#include "base/hash.h"
#include "base/json_writer.h"

#include <stdbool.h>
#include <stdint.h>

#define PLAN_FORMAT     1
#define PLAN_MAX_SLICES 64
#define PLAN_MAX_ARENAS 16
#define PLAN_MAX_PLACES 11
#define PLAN_MAX_INPUTS 80

struct plan_arena {
    char name[32];
    uint64_t bytes;
    uint64_t lower_bound; /* no plan for these blocks needs less */
    uint32_t n_slices;
    uint64_t slices[PLAN_MAX_SLICES];
    uint64_t allocated; /* bytes really taken so far */
    uint64_t used;      /* high-water mark of bytes in use */
};

/* What of a device's lies in host memory because the device is too small (memory.on_oom = "spill"), and what
 * that costs; and its experts that the processors compute. Bytes; all 0 for a device that has nothing
 * there. */
struct plan_spill {
    uint64_t weights;
    uint64_t kv;
    uint32_t kv_layers;    /* the last ones */
    uint32_t arena;        /* of the host that has them, and the experts below */
    uint64_t hosted;       /* bytes of experts that the processors compute (memory.experts), not in
                              `weights`; 0: they compute none. For a token: */
    uint64_t hosted_ram;   /* bytes of them that the processors read */
    uint64_t hosted_bus;   /* bytes of activations over the bus, both ways */
    uint32_t slots;        /* experts of a layer that the device keeps (memory.expert_slots); for a step: */
    uint64_t slot_copies;  /* bytes of experts that are copied to slots over the bus, at most */
    uint64_t window_bytes; /* of experts that a step of stream_tokens copies to the window */
    /* Of a step of memory.batch tokens, by bandwidths (hosted_estimate.h); 0: they are not known. */
    double window_seconds, processors_seconds;
    uint64_t per_step;        /* of weights, over the bus in every step, whatever its tokens */
    uint64_t per_token;       /* of weights, over the bus for every token of a step: of experts as many as are
                                 to be expected; */
    uint64_t per_token_most;  /* if it chose as many as it can of those in host memory */
    uint64_t per_batch;       /* of weights, over the bus in a step of memory.batch tokens: as many experts as
                                 are to be expected, or copied: */
    uint32_t stream_tokens;   /* a step of at least so many copies experts to the device's arena "window"
                                 (device.h); 0: none does */
    uint64_t kv_per_token;    /* over the bus in every step of a sequence, for every token of its context */
    uint64_t kv_per_sequence; /* likewise whatever its context: windows read, states read and written */
    /* For a token that one sequence of full length generates: over the bus, and from the device's memory. */
    uint64_t far;
    uint64_t near;
};

struct plan_route {
    char route[16]; /* "direct", "staged", "by probe" (decided at the start); "": there are no copies */
    char why[96];
};

struct plan_place {
    char name[32]; /* "cpu:0", "host" */
    bool is_host;
    bool in_host;   /* a device whose memory is the host's, in whose total it is too */
    bool is_draft;  /* of the draft model */
    bool is_vision; /* of the vision tower */
    uint64_t budget;
    uint64_t total;
    uint32_t n_arenas;
    struct plan_arena arenas[PLAN_MAX_ARENAS];
    /* The arithmetic, as the planner tells it; 0 for the host. */
    uint32_t first_layer;
    uint32_t n_layers;
    uint32_t share,
        n_shares; /* tensor split: the device has share `share` of n_shares of each layer; else 0 */
    uint64_t received_per_token; /* tensor split: bytes of values from all other devices, */
    uint64_t given_per_token;    /* and to each of them */
    uint64_t received_per_row;   /* the same of a row of logits, which only the last device gets */
    uint64_t given_per_row;
    uint32_t exchanges; /* tensor split: of a token that is generated */
    uint64_t weights_in_file;
    uint64_t weights_packed;
    uint64_t weights_padding; /* in weights_packed */
    uint64_t kv_per_token;
    uint64_t kv_per_sequence; /* windows and states; of a draft also its copies of states */
    uint64_t kv_per_checkpoint;
    struct plan_spill spill;
    struct plan_route to_next;  /* of its copies to the next device, across a boundary of layers, */
    uint64_t next_per_token;    /* and bytes of a token's */
    struct plan_route to_group; /* tensor split: to every other device of its group */
};

struct plan_block {
    char name[64];
    uint16_t place;
    uint16_t arena;
    uint32_t slice;
    uint64_t offset;
    uint64_t bytes;
    uint32_t first; /* lifetime in steps, [first, end); both 0: always */
    uint32_t end;
};

/* One of the things that the plan follows from. */
struct plan_input {
    char name[48];
    bool is_number;
    uint64_t number;
    char text[64];
};

/* What does not fit, and what would. 0 in largest_*: nothing would. */
struct plan_short {
    char where[80]; /* "host: kv" */
    uint64_t bytes; /* over the budget, or over the slice's limit */
    /* A thing of this arena that can't be cut, and the most that a slice of its device holds; 0: slices are
     * not what is short. */
    uint64_t slice_bytes;
    uint64_t slice_limit;
    uint64_t largest_context;
    uint64_t largest_batch;
    uint64_t largest_sequences;
    const char
        *kv_type; /* memory.kv_type = "q8_0": the largest type that would fit; NULL: none, or not searched */
};

/* An estimate (split_estimate.h): tokens per second of one sequence of full length, from bandwidths. */
struct plan_rates {
    bool known;
    char why[128];       /* not known: why */
    double layers;       /* divided by layers, in the proportions of the bandwidths */
    double tensor;       /* 0: not possible, */
    char no_tensor[256]; /* and why */
    double groups;     /* n_groups groups of devices, tensor in each, layers between them; 0: not possible */
    uint32_t n_groups; /* those of the config, or the fastest number */
    char choice[200];  /* devices.split = "auto": what it takes and why; "": there is no choice */
    uint64_t link;     /* bytes per second from device to device, the slowest */
    uint64_t hop_ns;   /* the longest */
    bool link_assumed, hop_assumed; /* no fact of a device says it */
};

/* What kind of requests a plan is for: "auto" choices follow from it, in its JSON it is "for". A run's have
 * nothing in common; those of a chat and a server go on from one another. */
enum plan_purpose { PLAN_TO_RUN, PLAN_TO_CHAT, PLAN_TO_SERVE };

/* Where processors compute experts: an estimate of generated tokens per second, for some shares of the chosen
 * experts that have slots on the devices (hosted_estimate.h). */
#define PLAN_HIT_RATES 3
struct plan_hosted {
    uint32_t n; /* rates; 0: bandwidths are not known, or processors compute no experts */
    double hits[PLAN_HIT_RATES], tokens[PLAN_HIT_RATES];
    uint64_t ram; /* bytes per second that the processors read */
    bool ram_assumed;
};

struct plan {
    enum plan_purpose purpose;
    char hash[HASH_TEXT];
    char model[128];
    bool fits;
    uint32_t n_places;
    struct plan_place places[PLAN_MAX_PLACES];
    uint32_t n_inputs;
    struct plan_input inputs[PLAN_MAX_INPUTS];
    struct plan_block *blocks; /* by plan_keep_blocks; NULL: they are not kept */
    uint32_t n_blocks;
    uint32_t max_blocks;
    uint64_t kv_tokens;
    uint64_t checkpoints; /* server.checkpoints, 0 where the model has no use for them */
    struct plan_in_file { /* the table of n-grams; bytes 0: there is none */
        uint64_t bytes;
        uint64_t rows, row_bytes; /* rows of a token */
    } in_file;
    uint64_t room_tokens;
    uint64_t sequences_fit;
    bool room_known; /* the two above */
    double slowdown; /* what spill does to a token that one sequence of full length generates: time as a
                        multiple of the time with all of it on the devices; 0: bandwidths are not known */
    struct plan_rates rates;
    struct plan_hosted hosted;
    struct plan_short missing; /* valid if !fits */
};

void plan_init(struct plan *p);
/* From now on blocks are kept, in the caller's memory. */
void plan_keep_blocks(struct plan *p, struct plan_block *blocks, uint32_t max);

struct plan_place *plan_add_place(struct plan *p, const char *name, bool is_host, uint64_t budget);
/* One slice of `bytes`; more with plan_add_slice. */
struct plan_arena *plan_add_arena(struct plan_place *place, const char *name, uint64_t bytes,
                                  uint64_t lower_bound);
void plan_add_slice(struct plan_place *place, struct plan_arena *a, uint64_t bytes);
/* A block of the newest arena of the newest place. Nothing happens when blocks are not kept, or there are no
 * bytes. */
void plan_add_block(struct plan *p, const char *name, size_t name_length, uint32_t slice, uint64_t offset,
                    uint64_t bytes, uint32_t first, uint32_t end);
void plan_add_number(struct plan *p, const char *name, uint64_t v);
void plan_add_text(struct plan *p, const char *name, const char *text);
/* The hash, over all inputs. */
void plan_hash_inputs(struct plan *p);

/* Bytes of the place that are allocated. */
uint64_t plan_allocated(const struct plan_place *place);

struct plan_place *plan_find(struct plan *p, const char *name); /* NULL: not there */
struct plan_arena *plan_arena_find(struct plan_place *place, const char *name);
void plan_check(const struct plan *p);
/* Two blocks of one slice that live at the same time and share bytes: false, and *a, *b are their indices.
 * n^2 in the worst case: for tests. */
bool plan_blocks_apart(const struct plan *p, uint32_t *a, uint32_t *b);

/* The object of `stator plan --json` (name may be NULL at the top). */
void plan_to_json(const struct plan *p, struct json *j, const char *name);

#endif
