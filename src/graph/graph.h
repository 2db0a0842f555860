/* What is computed: a list of few, large, fused ops over values and weights, made by one builder per
 * architecture.
 *
 * Shapes are static at their maximum (batch tokens, logits rows); how many tokens a step really has, their
 * positions and block tables are data in the step descriptor (kernels/shared/step.h). An op's index is its
 * step on the packer's time axis.
 *
 * Invariants: ops are in an order in which every value is written before it is read; a value's life is
 * [first writer, last reader + 1); names are unique among weights. Owner: whoever gave the memory. Read-only
 * after graph_build and graph_place. */
#ifndef STATOR_GRAPH_GRAPH_H
#define STATOR_GRAPH_GRAPH_H

#include "base/carve.h"
#include "base/error.h"
#include "formats/panel.h"
#include "kernels/shared/step.h"
#include "model/shape.h"

enum graph_kind {
    GRAPH_FILL,       /* sets the blocks of caches that the step names: to zeros, or another's content */
    GRAPH_EMBED,      /* out = rows of weight[0] by token id, scaled */
    GRAPH_NORM,       /* out = rms_norm(in) * weight[0], in the forms of out; RESIDUAL: out += that */
    GRAPH_FORMS,      /* out = in, in the forms of out */
    GRAPH_MATMUL,     /* out[:, column[i]..] = in x weight[i] (+ bias[i]), in the forms of out */
    GRAPH_ROPE_STORE, /* per head: q and k of `in` normed (optional; rope.wide: all heads together), rotated
                         in place; k and v stored to the cache */
    GRAPH_ATTENTION, /* out = attention of the q in `in` over the cache, as far as its window, in the forms of
                        out; weight[0] if there: a sink per head; work: f32 [cells][heads * (dim_v + 2)] */
    GRAPH_CONV,    /* q, k, v of delta-net layers: out[:, ..] = convolved `in` through silu, heads of q and k
                      then at length 1; weight[0]: [taps, channels] */
    GRAPH_DELTA,   /* out = gated delta rule on the q, k, v, beta, alpha of `in`, weight: bias of alpha, a.
                      Also keeps the last rows of `work`, what CONV read */
    GRAPH_GATE,    /* out = heads of `in`, normed (optional) times silu, or else times sigmoid, of columns
                      of `work`, in the forms of out */
    GRAPH_ROUTE,   /* per row: the experts that the logits `in` choose, (score + weight[0]); out: what
                      kernels/shared/experts.h says */
    GRAPH_EXPERTS, /* like MATMUL, each row with the experts that experts.routes names for it */
    GRAPH_GATHER_NORM, /* like NORM, for the rows that the step wants logits of; int8 rows in pairs: 2r as in
                          NORM, 2r + 1 what quantising row 2r left, quantised again */
    GRAPH_PAIR, /* per token: norms of its embedding (weight[0] by its id, weight[1]) and of the hidden state
                   before it (weight[2]) side by side, in the forms of out. That is the row before it in `in`,
                   and before a chunk's first what step_chunk.hidden says: the op's cache, or a row of `work`
                 */
    GRAPH_KEEP, /* the rows of `in` of a chunk's last known token and of its guesses to those of its sequence
                   in out, [sequences][rows]; the first of them to the op's cache too, if it has one */
    GRAPH_SOFTCAP, /* out = in (they are one value), each number through num_softcap with op.cap */
    GRAPH_ARGMAX,  /* per row: index of the largest logit, and whether all are finite */
    GRAPH_LAND,    /* out = the slot's half of the landing zone `in` */
    GRAPH_SEND,    /* the slot's half of `out` = in, which then goes to the next device's landing zone */
    GRAPH_KINDS
};

enum graph_epilogue {
    GRAPH_STORE,    /* out = sum + bias */
    GRAPH_RESIDUAL, /* out += sum + bias */
    GRAPH_PAIRS,    /* out[r] = sum[2r] + sum[2r + 1]: the int8 forms of in hold each row twice, value and
                       remainder */
    GRAPH_SWIGLU,   /* weight[0] is the gate, weight[1] up: out = silu(gate) * up, each with its bias */
    GRAPH_GEGLU     /* the same with gelu */
    /* Of EXPERTS: SWIGLU, in: a row per token, out: a row per chosen expert; RESIDUAL, in: those rows, out +=
     * the sum of a token's, times their weights (+ shared), added in ascending order of experts. */
};

/* Forms that a value has (struct kernels_act). */
enum { GRAPH_F32 = 1, GRAPH_I8_32 = 2, GRAPH_I8_256 = 4 };

enum graph_arena { GRAPH_SCRATCH, GRAPH_EXCHANGE };

struct graph_value {
    char name[32];
    enum graph_arena arena;
    uint32_t rows;  /* at most: batch, or logits rows */
    uint32_t width; /* values per row */
    uint32_t forms;
    uint32_t tile_rows; /* of the quants of int8 forms (act_tiles.h); 0: row after row */
    /* 2: the value is there twice, half_bytes apart, and a step touches the half of its slot. */
    uint32_t halves;
    uint64_t half_bytes;
    /* Offsets of the forms inside a half; UINT64_MAX where it has none. */
    uint64_t f32, q32, d32, s32, q256, d256, s256;
    uint64_t bytes; /* of all halves */
    uint32_t first; /* life in ops, [first, end) */
    uint32_t end;
    uint64_t offset; /* in its arena, by graph_place */
};

#define GRAPH_MAX_PIECES 16

/* Rows of a tensor that a weight has: `run` rows from `first` on, then those `stride` further, ..; run 0:
 * all. Runs are whole panels, but one that is alone need not be. */
struct graph_runs {
    uint32_t first, run, stride;
};

/* A run of panels (or all bytes of a plain weight) in one slice; of several matrices, whole ones. */
struct graph_piece {
    uint32_t slice;
    uint32_t first_panel;
    uint32_t panels;
    uint32_t pad;
    uint64_t offset; /* in the slice */
};

struct graph_weight {
    const struct gguf_tensor *tensor;
    struct graph_runs runs;     /* of each matrix; plain: `run` values from `first` on */
    bool packed;                /* panels; else plain float32 */
    bool factor;                /* of an op's sums: finite */
    struct panel_layout layout; /* packed only; of one matrix */
    uint32_t matrices; /* of a 3-D tensor, one behind the other, layout.bytes apart in a piece; else 1 */
    uint64_t bytes;    /* on the device, of all */
    /* Panels at its end that graph_place puts into slices of their own, behind all others: the engine has
     * other memory for those. */
    uint32_t spilled;
    uint32_t n_pieces;
    struct graph_piece pieces[GRAPH_MAX_PIECES];
};

#define GRAPH_OP_WEIGHTS 3
#define GRAPH_NONE       UINT32_MAX

struct graph_norm {
    float eps;
    float inv_width; /* 1 / values that are normed together: no division in kernels */
};

/* Rows of `in`: heads of q, then of k, dim_k wide each, then of v, dim_v wide. */
struct graph_rope {
    uint32_t heads, kv_heads;
    uint32_t dim_k, dim_v;
    uint32_t n_rot;         /* dimensions that are rotated */
    bool neox;              /* pairs are (j, j + n_rot / 2); else (2j, 2j + 1) */
    uint32_t angles;        /* of graph.angles */
    uint32_t angles_q;      /* those of q, where they are others; GRAPH_NONE */
    struct graph_norm norm; /* of a head, where the op has weights: those of q and k */
    bool wide;              /* these norm all heads of q together, and those of k by norm_k */
    struct graph_norm norm_k;
};

struct graph_attention {
    uint32_t heads, kv_heads;
    uint32_t dim_k, dim_v;
    float scale;
    float cap;         /* of scores: num_softcap; 0: none */
    uint32_t skip;     /* the first tokens, of which a query sees none but its own; 0 or 1 */
    uint32_t arrivals; /* value: u32 [batch][at least kv_heads], exchange: splits of a query that are done, or
                          groups of a product; 0 before and after every op. GRAPH_NONE if not counted */
};

/* Of CONV and DELTA. Columns of `in` of CONV: heads of q, of k, dim_k wide each, then of v, dim_v wide. A
 * state is f32 [value_heads][dim_v / 32, rounded up][dim_k][32], then the last taps - 1 rows of what CONV
 * reads. */
struct graph_delta {
    uint32_t key_heads, value_heads;
    uint32_t dim_k, dim_v;
    uint32_t taps;
    uint32_t channels;    /* q, k, v together */
    uint32_t beta, alpha; /* columns of `in` of DELTA: of value head 0 */
    uint32_t grouped;     /* kernels/shared/delta.h */
    float eps, scale;     /* of heads' lengths; of queries */
    uint64_t window;      /* bytes of a state before its rows */
};

/* Of GATE. */
struct graph_gate {
    uint32_t heads, dim;
    uint32_t column;        /* of work */
    struct graph_norm norm; /* where the op has a weight: of a head; then the gate is silu */
};

/* What is remembered between steps, in blocks that sequences hold: PAGED, a block for every 32 tokens; RING,
 * as many as a window and a step need, used again and again; STATE, one block whatever the tokens. Blocks are
 * zero when a sequence gets them. */
enum graph_cache_kind { GRAPH_PAGED, GRAPH_RING, GRAPH_STATE };

#define GRAPH_MAX_CACHES  STEP_CACHES
#define GRAPH_CACHE_ALIGN 64

/* The builder declares the caches of the whole model, whichever layers the part has: all parts have the same
 * list. */
struct graph_cache {
    char name[16]; /* in the plan behind "blk.N." */
    enum graph_cache_kind kind;
    uint32_t units;          /* of a layer, each with a block of its own: KV heads; 1 for a state */
    uint64_t bytes;          /* of a unit's block; a multiple of GRAPH_CACHE_ALIGN */
    uint64_t k_bytes;        /* PAGED, RING: of K in it, V follows */
    uint32_t type_k, type_v; /* KV_LAYOUT_F32 .. */
    uint32_t window;         /* RING: tokens that a query sees, its own included */
    uint32_t n_layers;       /* of this part that use it */
};

/* A layer of this part that uses a cache, the at-th of that cache; in the order of the layers. */
struct graph_cached {
    uint32_t cache, layer, at;
};

/* Of ROUTE and EXPERTS. The value routes has struct kernels/shared/experts.h for batch * used slots. */
struct graph_experts {
    uint32_t experts, used;
    uint32_t rows; /* of values with a row per slot: an expert's begin at multiples of align */
    uint32_t align;
    uint32_t how; /* EXPERTS_SIGMOID | EXPERTS_NORM */
    float scale;  /* of weights */
    bool clamped; /* SWIGLU is clamped_glu, with these */
    float alpha, limit;
    uint32_t routes; /* value; ROUTE: its out */
    uint32_t shared; /* value: f32 rows of tokens, added last; or GRAPH_NONE */
    uint32_t gate;   /* value: column `experts` of a token is the shared rows' gate, through num_sigmoid; or
                        GRAPH_NONE: 1 */
};

struct graph_op {
    enum graph_kind kind;
    enum graph_epilogue epilogue; /* MATMUL, NORM */
    union {                       /* by kind */
        float scale;              /* EMBED: of the rows */
        float cap;                /* SOFTCAP */
        uint32_t kept;            /* KEEP: rows of a sequence in out */
        struct graph_norm norm;   /* NORM, GATHER_NORM, PAIR */
        struct graph_rope rope;
        struct graph_attention attention;
        struct graph_delta delta;
        struct graph_gate gate;
        struct graph_experts experts;
    };
    uint32_t layer;       /* GRAPH_NONE outside layers */
    uint32_t cache;       /* of graph.caches, or GRAPH_NONE */
    uint32_t cache_layer; /* the layer's number among those of the cache */
    uint32_t in;          /* value, or GRAPH_NONE */
    uint32_t out;
    uint32_t work; /* value: workspace, or what DELTA and GATE read besides in; or GRAPH_NONE */
    uint32_t n_weights;
    uint32_t weight[GRAPH_OP_WEIGHTS];
    uint32_t bias[GRAPH_OP_WEIGHTS];   /* weight, or GRAPH_NONE */
    uint32_t factor[GRAPH_OP_WEIGHTS]; /* weight: sums times the float (of experts each its own), before the
                                          bias; or GRAPH_NONE */
    uint32_t column[GRAPH_OP_WEIGHTS]; /* of out */
};

/* The values that an op may name: bits of reads and writes. */
enum {
    GRAPH_IN = 1,
    GRAPH_OUT = 2,
    GRAPH_WORK = 4,
    GRAPH_ARRIVALS = 8,
    GRAPH_ROUTES = 16,
    GRAPH_SHARED = 32,
    GRAPH_SHARED_GATE = 64,
    GRAPH_VALUES_END = 128
};

enum graph_rows { GRAPH_TOKENS, GRAPH_LOGITS_ROWS, GRAPH_FILLED /* blocks to set */ };

enum graph_use {
    GRAPH_WHOLE,  /* a step reads all bytes of its weights */
    GRAPH_LOOKUP, /* a row for every token */
    GRAPH_CHOSEN  /* the matrices of the experts that its tokens chose */
};

/* What is true of all ops of a kind. */
struct graph_kind_info {
    const char *name;       /* for people: traces */
    uint32_t reads, writes; /* GRAPH_IN .. */
    enum graph_rows rows;   /* of a step: how many it works on */
    enum graph_use use;     /* of weights */
    bool multiplies;        /* a row costs rows x columns of its weights in multiply-adds */
};

/* What the builder is asked for. */
struct graph_want {
    uint32_t batch;       /* tokens in a step */
    uint32_t logits_rows; /* rows of logits in a step */
    /* The layers of one device of a split, [first_layer, end_layer); end_layer 0: all. The device of the
     * first one embeds, the device of the last one has the tail. */
    uint32_t first_layer;
    uint32_t end_layer;
    uint32_t kv_type_k, kv_type_v; /* KV_LAYOUT_F32 .. */
    /* Halves of logits and picks: 2 where a step's results are read in place while the next step runs. 0: 1.
     */
    uint32_t result_halves;
    /* Cells for partial results of attention, a (query, split of 256 tokens) each: the workspace of a device
     * that computes splits side by side. 0: none. */
    uint32_t cells;
    /* There are counts of groups that share an output: a device whose groups run side by side. */
    bool counted;
    /* Quants of values that have the rows for it are tiles (act_tiles.h), as the CPU's kernels like them. */
    bool tiled;
    /* What a token's experts give is kept apart (work of EXPERTS) and added afterwards: a device that
     * computes experts side by side. */
    bool experts_apart;
    /* The block of nextn (of `guess_sequences`), behind the trunk, and the tail of its guesses: rows of
     * hidden states that a sequence keeps, one more than it may guess. 0: the graph has none. */
    uint32_t guess_rows, guess_sequences;
};

/* Angles of RoPE: of pair j at a position p, p * base^(-2j / n_rot) / scale (shape.h: of YaRN, as far as that
 * says) / divisor[j]; their cos and sin times magnitude * (1 + growth * log(1 + floor(p / original))). */
struct graph_angles {
    uint32_t n_rot;
    float base, scale, magnitude, growth;
    struct shape_yarn yarn;
    const struct gguf_tensor *divisors; /* F32 [n_rot / 2], or NULL */
    const struct gguf_tensor
        *divisors_long; /* in their place where memory.context is above `original`, or NULL */
    uint32_t original;
    uint32_t first; /* float of a token's row in the step descriptor */
};

#define GRAPH_MAX_ANGLES 2

struct graph {
    struct graph_want want;
    uint32_t width; /* of the residual stream */
    uint32_t n_ops, n_values, n_weights;
    uint32_t tail; /* first op of the tail (logits), n_ops without one; the tail may run several times on one
                      body */
    /* Of the last part with the block of nextn: its ops [nextn, nextn_end), inside of the body, and the tail
     * of guesses [guess, n_ops), which a step of STEP_GUESS runs. Else nextn == nextn_end, guess == n_ops. */
    uint32_t nextn, nextn_end, guess;
    uint32_t logits;  /* value: f32 [logits_rows][vocab], exchange; GRAPH_NONE without a tail */
    uint32_t picks;   /* value: [logits_rows] of struct step_pick, exchange; width 2, f32-sized; GRAPH_NONE
                         without a tail */
    uint32_t landing; /* value: f32 [batch][n_embd], two halves, exchange: the residual stream from the device
                         before; GRAPH_NONE on the first */
    uint32_t outgoing; /* the same, on its way to the next device; GRAPH_NONE on the last */
    uint32_t n_caches;
    struct graph_cache caches[GRAPH_MAX_CACHES];
    uint32_t n_cached, max_cached;
    struct graph_cached *cached;
    uint32_t n_angles;
    struct graph_angles angles[GRAPH_MAX_ANGLES];
    struct graph_op *ops;
    struct graph_value *values;
    struct graph_weight *weights;
    uint32_t max_ops, max_values, max_weights;
    uint64_t scratch_bytes; /* by graph_place */
    /* After graph_place's STATOR_DOES_NOT_FIT: the arena, the bytes that slices should have held, and what
     * they can hold. */
    const char *short_arena;
    uint64_t short_bytes;
    uint64_t short_limit;
    uint64_t scratch_bound;
    uint64_t exchange_bytes;
    uint64_t weights_bytes;
    uint32_t weight_slices;
    uint32_t spilled_slices; /* the last of them */
    bool scratch_optimal;
};

#define GRAPH_MAX_SLICES 64

/* The most that a layer has, besides what experts add; 0: as many as a dense layer. */
struct graph_bounds {
    uint32_t ops, values, weights;
};

/* Lays the tables out for the graphs of this shape in up to `parts` parts in c (carve_count() to measure). */
void graph_layout(struct graph *g, struct carve *c, const struct shape *s, const struct graph_bounds *layer,
                  uint32_t parts);
/* g gets what the built graph `before` has left of its tables: for the next part. */
void graph_layout_rest(struct graph *g, const struct graph *before);
/* Adds everything to an empty graph; g->want says which layers. */
typedef void graph_builder(struct graph *g, const struct shape *s);
/* Fills the tables; g comes from graph_layout on real memory. STATOR_DOES_NOT_FIT: sizes beyond 2^63. */
stator_status graph_build(struct graph *g, const struct shape *s, graph_builder *build,
                          const struct graph_want *want, stator_error *e);

/* Bytes of work memory for graph_place of any graph with these tables. */
uint64_t graph_place_work_bytes(const struct graph *g);
/* Gives every value its offset (scratch packed by lifetime, exchange one after the other from exchange_base
 * on) and every weight its pieces, in slices of at most slice_limit bytes; slice_bytes[GRAPH_MAX_SLICES] gets
 * the size of each. STATOR_DOES_NOT_FIT: scratch or a single panel above slice_limit, or too many slices. */
stator_status graph_place(struct graph *g, uint64_t slice_limit, uint64_t exchange_base, void *work,
                          uint64_t work_bytes, uint64_t *slice_bytes, stator_error *e);

/* The weights' part of graph_place again, after `spilled` of some has changed. */
stator_status graph_place_weights(struct graph *g, uint64_t slice_limit, uint64_t *slice_bytes,
                                  stator_error *e);

const struct graph_kind_info *graph_kind_info(enum graph_kind kind);
const char *graph_op_name(const struct graph_op *op);
/* The op's value behind a bit GRAPH_IN ..; GRAPH_NONE: it has none. */
uint32_t graph_op_value(const struct graph_op *op, uint32_t bit);
bool graph_op_reads(const struct graph_op *op, uint32_t value);
bool graph_op_writes(const struct graph_op *op, uint32_t value);
/* A product of two matrices, gate and up, for one output. */
bool graph_op_gated(const struct graph_op *op);
/* Multiply-adds of one row of a step. */
uint64_t graph_op_macs(const struct graph *g, const struct graph_op *op);
/* The rows' angles together: floats of a token in the step descriptor. */
uint32_t graph_angles_stride(const struct graph *g);

/* Of all matrices: panel p is panel p % layout.panels of matrix p / layout.panels. 1 of a plain weight. */
uint32_t graph_weight_panels(const struct graph_weight *w);

/* Blocks of one sequence of `context` tokens, in steps of at most `batch`. */
uint32_t graph_cache_blocks(const struct graph_cache *c, uint32_t context, uint32_t batch);
/* Of those, blocks that a sequence of so many tokens takes. */
uint32_t graph_cache_need(const struct graph_cache *c, uint32_t per_sequence, uint32_t tokens);
/* Of those, blocks that one needs to go on behind the end of any of its blocks of tokens, besides PAGED ones.
 */
uint32_t graph_cache_kept(const struct graph_cache *c, uint32_t per_sequence);
/* Whether a sequence that has `from` tokens in the cache can go on behind its first `to`. */
bool graph_cache_rewinds(const struct graph_cache *c, uint32_t per_sequence, uint32_t from, uint32_t to);

/* For builders. */
uint32_t graph_add_value(struct graph *g, const char *name, enum graph_arena arena, uint32_t rows,
                         uint32_t width, uint32_t forms);
void graph_value_halves(struct graph *g, uint32_t value, uint32_t halves);
/* The same tensor twice is one weight. */
uint32_t graph_add_weight(struct graph *g, const struct gguf_tensor *t); /* panels */
uint32_t graph_add_plain(struct graph *g, const struct gguf_tensor *t);  /* F32 as it lies in the file */
uint32_t graph_add_plain_run(struct graph *g, const struct gguf_tensor *t, uint32_t first, uint32_t n);
struct graph_op *graph_add_op(struct graph *g, enum graph_kind kind, uint32_t layer, uint32_t in,
                              uint32_t out);
/* With the tensor's factor, if it has one. */
void graph_op_weight(struct graph *g, struct graph_op *op, const struct gguf_tensor *t,
                     const struct gguf_tensor *bias, uint32_t column);
/* The same with a part of a tensor's rows. */
void graph_op_runs(struct graph *g, struct graph_op *op, const struct gguf_tensor *t, struct graph_runs runs,
                   uint32_t column);
/* Where rows from `row` of the weight's on lie in its tensor; *n gets how many of them lie side by side. */
uint64_t graph_weight_row(const struct graph_weight *w, uint64_t row, uint64_t *n);
uint64_t graph_weight_file_bytes(const struct graph_weight *w); /* of its rows, in the file */
uint32_t graph_form_for(const struct gguf_tensor *t); /* the activation form that this weight multiplies */

uint32_t graph_add_cache(struct graph *g, const struct graph_cache *c);
/* The op reads or writes its layer's part of the cache; layers come in ascending order. */
void graph_op_cache(struct graph *g, struct graph_op *op, uint32_t cache);
/* Angles that ops can name; the same twice are one. */
uint32_t graph_add_angles(struct graph *g, const struct graph_angles *a);

#endif
