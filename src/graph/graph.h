/* The graph of a model: a list of few, large, fused ops over values and weights. One builder per architecture
 * makes it.
 *
 * Shapes are static at their maximum (batch tokens, logits rows). The real number of tokens of a step, their
 * positions and their block tables are data in the step descriptor (kernels/shared/step.h). The packer uses
 * an op's index as its time.
 *
 * Invariants: ops are in an order in which every value is written before it is read; a value's lifetime is
 * [first writer, last reader + 1); names are unique among weights. The caller owns the memory. A graph is
 * read-only after graph_build and graph_place. */
#ifndef STATOR_GRAPH_GRAPH_H
#define STATOR_GRAPH_GRAPH_H

#include "base/carve.h"
#include "base/error.h"
#include "formats/panel.h"
#include "kernels/shared/index.h"
#include "kernels/shared/step.h"
#include "model/shape.h"

enum graph_kind {
    GRAPH_FILL,  /* clears cache blocks that the step names, or copies other blocks to them */
    GRAPH_EMBED, /* out = rows of weight[0] by token id, scaled. The row of a picture's token is that of
                    `work`, as it is */
    GRAPH_NORM, /* out = rms_norm(in) * weight[0]; RESIDUAL: out += the normed row; an optional weight[1] then
                 scales that sum by weight[1][0]. RESIDUAL may norm the parts (norm.parts) of a row apart.
                 norm.apart: the same without RESIDUAL, and the parts' weights lie one behind the other.
                 norm.centred: a layer norm, out = rms_norm(in - its mean) * weight[0] + bias[0].
                 Without weights weight[0] is 1 */
    GRAPH_FORMS,  /* out = in, in the number formats of out (graph_value.forms) */
    GRAPH_MATMUL, /* out[:, column[i]..] = in x weight[i] (+ bias[i]) */
    GRAPH_HEADS, /* for each head h: out[:, column[0] + h * heads.out_stride ..] = columns h * heads.in_stride
                    .. of `in` x matrix h of weight[0] */
    GRAPH_ROPE_STORE, /* per head: norms q and k of `in` (optional; rope.wide: all heads together), rotates
                         them in place, and stores k and v (rope.norm_v: normed) to the cache. Without KV
                         heads `in` has q alone, and nothing is stored */
    GRAPH_ATTENTION,  /* out = attention of the q in `in` over the cache and inside its window. weight[0]
                         (optional): a sink per head. work: partial results, f32 [cells][heads * (dim_v + 2)]
                       */
    GRAPH_INDEX, /* norms an indexer's heads of q with weight[0] and rotates them in place; its one key, which
                    lies behind them, goes to the cache, and block keys that become whole, normed with
                    weight[1] (kernels/shared/index.h). in and out are one value */
    GRAPH_CHOOSE, /* out: of each token the list of the index blocks that it attends to, out of the q of `in`
                     and the cache. work (optional): scores, f32 [batch][index blocks of want.context] */
    GRAPH_CONV,   /* q, k, v of delta-net layers: out = silu(convolution of `in`); heads of q and k are then
                     scaled to length 1. weight[0]: [taps, channels] */
    /* With delta.ssd, CONV and DELTA are those of Mamba-2. CONV then reads x, B, C from the columns of `in`,
     * scales nothing to length 1, and has an optional bias, weight[1]. DELTA is the state space of struct
     * kernels_delta: the column of alpha holds dt, and weight[2] the skip of each head. */
    GRAPH_DELTA,   /* out = gated delta rule on q, k, v, beta, alpha of `in`. Weights: bias of alpha, a. Also
                      keeps the last rows of `work` (the input of CONV) in the cache */
    GRAPH_GATE,    /* out = heads of `in` times sigmoid(columns of `work`); with a weight, normed heads times
                      silu; gate.gelu: gelu(heads of `in`) times columns of `work` */
    GRAPH_ROUTE,   /* per row: chooses experts by the logits `in` (score + weight[0]); out: routes, as
                      kernels/shared/experts.h defines them */
    GRAPH_EXPERTS, /* like MATMUL, each row by the experts that experts.routes names for it */
    GRAPH_GATHER_NORM, /* like NORM, for the rows of which the step wants logits. int8 rows come in pairs: 2r
                          as in NORM, 2r + 1 the quantised remainder of row 2r */
    GRAPH_PAIR, /* MTP head, per token: the norm of the token's embedding (weight[0] by id, weight[1]) beside
                   the norm (weight[2]) of the hidden state of the token before. That hidden state is the row
                   before in `in`. For a chunk's first token, step_chunk.hidden says where it is: in the op's
                   cache, or in a row of `work`. With two weights, the norms', out has the embedding before
                   it is normed: another op has written it there */
    GRAPH_KEEP, /* copies some rows of `in` to the rows of their sequence in out, [sequences][rows]: those of
                   a chunk's last known token and of its draft tokens. The first one is also copied to the
                   op's cache, if it has one
                 */
    GRAPH_GATED_CONV, /* out = c * (convolution of b * x), per channel; b, c, x are the thirds of `in`.
                         weight[0]: [taps, channels]. Keeps b * x of the last taps - 1 tokens in the cache */
    GRAPH_NGRAM_GATE, /* of an n-gram embedding, for each stream h of the residual stream `work`: the factor
                         that its value gets, ngram_gate_of(sum128 of (rms_norm(key h) * weight[0]) *
                         (rms_norm(stream h) * weight[1])). In place of key h, out gets what NGRAM_CONV reads:
                         rms_norm(value * factor) * weight[2], product and norm rounded. in and out are one
                         value */
    GRAPH_NGRAM_CONV, /* out, stream h += value * factor + silu(convolution of what NGRAM_GATE left in `in`),
                         each rounded; the convolution as of CONV, with taps `apart` tokens from each other.
                         weight[0]: [taps, streams * dim]. Keeps the rows of the last (taps - 1) * apart
                         tokens in the cache */
    /* Hyper-connections (streams): a row has op.streams.count streams side by side. */
    GRAPH_SILU,    /* out = num_silu(in * op.scale), in the number formats of out */
    GRAPH_MIX,     /* out = the sum over the streams of in, in their order, of num_sigmoid(column of work) *
                      column of in, products and sums rounded each; times streams.inverse */
    GRAPH_INJECT,  /* RESIDUAL: stream h of out = fmaf(in, 2 * num_sigmoid(column h of work *
                      streams.inverse), stream h of out). STORE: each stream of out = in */
    GRAPH_CENTER,  /* out = in minus its row's mean; in and out are one value */
    GRAPH_SOFTCAP, /* out = num_softcap(in, op.cap); in and out are one value */
    GRAPH_GELU,    /* out = num_gelu_erf(in), in the number formats of out */
    GRAPH_MERGE,   /* for the rows of which the step wants logits: row r of out has merge.rows rows of `in`,
                      from   row r * merge.rows on: one behind the other, or (merge.woven) column by column:
                      their   columns 0, then their columns 1, .., or (merge.mean) their mean: fmaf(x, factor,
                      sum) in   their order from +0; with a weight it becomes (mean - bias[0]) * weight[0] */
    GRAPH_PROJECT, /* for the rows of which the step wants logits: out[column[0]..] = in x weight[0], which is
                      stored the other way round, with a row per column of `in`: fmaf in their order from +0
                    */
    GRAPH_BLEND,   /* out += four rows of weight[0], each times a factor, in their order: struct step_blend of
                      each token in `in` */
    GRAPH_FEATURES, /* out += columns op.features .. of `in`, in the rows of pictures' tokens */
    GRAPH_SPREAD, /* out = heads of `in`, of spread.from columns each, in spread.to columns each: cut off, or
                     with zeros behind them */
    GRAPH_ARGMAX, /* per row: index of the largest logit, and whether all logits are finite. work (optional):
                     three words for each of GRAPH_ARGMAX_PARTS parts of a row, which groups share */
    GRAPH_LAND,   /* out = the slot's half of the landing zone `in` */
    GRAPH_SEND,   /* the slot's half of `out` = in; it then goes to the next device's landing zone */
    GRAPH_EXCHANGED, /* tensor split: joins the columns that each device has in its value `in` to whole rows.
                        out = the joined rows, in the number formats of out; RESIDUAL: out += them. work:
                        graph.zone */
    GRAPH_KINDS
};

/* The id of a picture's token: the host has written its row (graph.pictures). The MTP head, which
 * has no such rows, takes that of the token `marker` instead. */
#define GRAPH_PICTURE(marker) (-1 - (marker))

static inline bool graph_is_picture(int32_t id) {
    return id < 0;
}

enum graph_epilogue {
    GRAPH_STORE,    /* out = sum + bias */
    GRAPH_RESIDUAL, /* out += sum + bias */
    GRAPH_PAIRS,    /* out[r] = sum[2r] + sum[2r + 1]: int8 rows 2r and 2r + 1 of `in` hold the value and the
                       remainder of row r */
    GRAPH_SWIGLU,   /* weight[0] is the gate, weight[1] up: out = silu(gate) * up, each with its bias */
    GRAPH_GEGLU,    /* the same with gelu */
    GRAPH_RELU2,    /* weight[0] alone: out = the square of the larger of sum + bias and +0 */
    GRAPH_GELU_ONE  /* weight[0] alone, not of EXPERTS: out = num_gelu(sum + bias) */
    /* EXPERTS has five of them. SWIGLU, GEGLU, RELU2: `in` has a row per token, `out` a row per chosen
     * expert. RESIDUAL: `in` has a row per chosen expert; out += the sum of a token's rows times their
     * weights (+ shared), in ascending order of experts. STORE: out = that sum. */
};

/* Of ARGMAX. */
#define GRAPH_ARGMAX_PARTS 64

/* Number formats of a value (struct kernels_act); a value may have several. */
enum { GRAPH_F32 = 1, GRAPH_I8_32 = 2, GRAPH_I8_256 = 4 };

enum graph_arena { GRAPH_SCRATCH, GRAPH_EXCHANGE };

struct graph_value {
    char name[32];
    enum graph_arena arena;
    uint32_t rows;  /* maximum: batch, or logits rows */
    uint32_t width; /* values per row */
    uint32_t forms;
    uint32_t tile_rows; /* rows of a tile of int8 values (act_tiles.h); 0: row after row */
    /* 2: there are two copies, half_bytes apart, and a step uses the copy of its slot. */
    uint32_t halves;
    /* Not 0, on a GPU: rows of a token. The int8 form of a launch's rows lies in one piece, from where the
     * form begins, as it goes to other devices (share_rows). */
    uint32_t packed;
    uint64_t half_bytes;
    /* Offsets of the formats inside a half; UINT64_MAX: the value lacks the format. */
    uint64_t f32, q32, d32, s32, q256, d256, s256;
    uint64_t bytes; /* of all halves */
    uint32_t first; /* lifetime in ops, [first, end) */
    uint32_t end;
    uint64_t offset; /* in its arena, by graph_place */
};

#define GRAPH_MAX_PIECES 16

/* The rows of a tensor that a weight uses: ranges of `run` rows, which begin at first, first + stride, and so
 * on. run = 0: all rows. If there are several ranges, each must be whole panels. The first `skip` ranges are
 * left out, and the next `count` are used (0: all). */
struct graph_runs {
    uint32_t first, run, stride;
    uint32_t skip, count;
};

/* Consecutive panels of a weight (or all bytes of a plain weight) in one slice. A weight of several matrices
 * is cut only between matrices. */
struct graph_piece {
    uint32_t slice;
    uint32_t first_panel;
    uint32_t panels;
    uint32_t pad;
    uint64_t offset; /* in the slice */
};

struct graph_weight {
    const struct gguf_tensor *tensor;
    struct graph_runs runs;     /* rows of each matrix; plain: `run` values of each row, from `first` on; 0
                                   beyond the row */
    bool packed;                /* panels; else plain float32 */
    bool factor;                /* multiplies an op's sums; its values must be finite */
    bool cut;                   /* graph_weight_cut has run */
    struct panel_layout layout; /* of one matrix; packed only */
    uint32_t matrices;          /* of a 3-D tensor, layout.bytes apart; else 1 */
    uint64_t bytes;             /* on the device, all matrices */
    /* Panels at the weight's end that lie in host memory. graph_place puts them into slices of their own,
     * behind all other slices. */
    uint32_t spilled;
    uint32_t n_pieces;
    struct graph_piece pieces[GRAPH_MAX_PIECES];
};

#define GRAPH_OP_WEIGHTS 3
#define GRAPH_NONE       UINT32_MAX

struct graph_norm {
    float eps;
    float inv_width; /* 1 / number of values that are normed together: kernels do not divide */
    uint32_t parts;  /* NORM: parts of a row that are normed separately, with the same weights; 0 means 1 */
    bool centred;    /* NORM: a layer norm, with a bias */
    bool apart;      /* NORM: parts have weights of their own */
    uint32_t first;  /* PAIR: the hidden state is these columns of its row, from `first` on */
};

/* Rows of `in`: heads of q, then of k, dim_k wide each, then of v, dim_v wide. */
struct graph_rope {
    uint32_t heads, kv_heads;
    uint32_t dim_k, dim_v;
    uint32_t n_rot;  /* dimensions that are rotated */
    bool neox;       /* pairs are (j, j + n_rot / 2); else (2j, 2j + 1) */
    bool halves;     /* neox in each half of n_rot: pairs (j, j + n_rot / 4), first those of the first half */
    uint32_t angles; /* of graph.angles */
    uint32_t angles_q;      /* angles of q, if q has its own; else GRAPH_NONE */
    struct graph_norm norm; /* of a head of q or k; used if the op has weights for it */
    bool wide;              /* `norm` is for all heads of q together, norm_k for all heads of k */
    struct graph_norm norm_k;
    bool norm_v; /* heads of v are normed by `norm` without weights; dim_v is dim_k, and not `wide` */
    bool late;   /* heads are normed after they are rotated */
    /* Not 0: one KV head; its first dim_v values are V as well. The first `latent` values of k are normed
     * by norm_k with weight[0]; the n_rot behind them are rotated, and those of q come from the ends of the
     * heads in `work`; what is left of both is set to 0. The cache has K alone. */
    uint32_t latent;
};

/* Parameters of MERGE and SPREAD. */
struct graph_merge {
    uint32_t rows;
    bool woven, mean;
    float factor; /* of each row of a mean */
};
struct graph_spread {
    uint32_t from, to;
};

/* Parameters of MIX and INJECT. */
struct graph_streams {
    uint32_t count;
    float inverse; /* 1 / count: kernels do not divide */
};

/* Parameters of HEADS. */
struct graph_heads {
    uint32_t in_stride, out_stride; /* columns from one matrix's to the next one's */
};

struct graph_attention {
    uint32_t heads, kv_heads;
    uint32_t dim_k, dim_v;
    float scale;
    float cap;      /* softcap of scores (num_softcap); 0: none */
    bool latent;    /* V is the first dim_v values of K. All heads read the cache's one unit, and are cut into
                       kv_heads groups */
    uint32_t skip;  /* number of first tokens that only their own query sees; 0 or 1 */
    bool both;      /* a query also sees the tokens behind it, as many as the window has before it (without a
                       window all). A chunk is then a whole text. */
    bool windows;   /* with `both`: a query sees the tokens of its window alone (work: graph.windows) */
    bool pictures;  /* a chunk that begins with a picture's token is the rest of one picture: its queries
                       see, beside what they see otherwise, all of the chunk */
    uint32_t ratio; /* not 0: `chosen` says which index blocks of so many tokens a query sees, of more than
                       `keep` whole ones; without a window */
    uint32_t keep;
    uint32_t chosen;   /* value: lists of CHOOSE */
    uint32_t arrivals; /* value: counters u32 [batch][at least kv_heads] in exchange. They count the splits of
                          a query, or the groups of a product, that are done, and are 0 before and after every
                          op. GRAPH_NONE: the device does not count */
};

/* Parameters of INDEX and CHOOSE: an indexer's queries, each as wide as its one key, which lies behind them.
 * A block of the cache is one of kernels/shared/index.h. */
struct graph_index {
    uint32_t heads, dim;
    uint32_t ratio, keep; /* tokens of an index block; how many of these a token attends to */
    uint32_t n_rot;
    bool neox;
    uint32_t angles; /* of graph.angles */
    struct graph_norm norm;
};

/* Parameters of CONV and DELTA. Columns of CONV's `in`: heads of q and of k, dim_k wide each, then heads of
 * v, dim_v wide. A state is f32 [value_heads][dim_v / 32, rounded up][dim_k][32], then the last taps - 1 rows
 * of CONV's input. */
struct graph_delta {
    uint32_t key_heads, value_heads;
    uint32_t dim_k, dim_v;
    uint32_t taps;
    uint32_t channels;    /* q, k, v together */
    uint32_t beta, alpha; /* columns of DELTA's `in`, of value head 0 */
    uint32_t grouped;     /* kernels/shared/delta.h */
    float eps, scale;     /* eps of the heads' lengths; scale of queries */
    uint64_t window;      /* bytes of a state before CONV's rows */
    bool ssd;             /* of Mamba-2 */
};

/* Parameters of GATED_CONV. A state is f32 [taps - 1][channels]. */
struct graph_gated_conv {
    uint32_t channels, taps;
};

/* Parameters of NGRAM_GATE and NGRAM_CONV. Columns of `in`: a key of each stream, dim wide each, then the
 * value, then a factor of each stream. A state is f32 [(taps - 1) * apart][streams * dim]. */
struct graph_ngram {
    uint32_t streams, dim;
    uint32_t taps, apart;
    struct graph_norm norm; /* of dim values */
    float scale;            /* of the gate's sum */
};

/* Parameters of GATE. */
struct graph_gate {
    uint32_t heads, dim;
    uint32_t column;        /* of work */
    struct graph_norm norm; /* of a head; used if the op has a weight, and then the gate is silu */
    bool gelu;              /* without a weight */
    bool sigmoid;           /* with a weight: the gate is a sigmoid nevertheless */
    bool early; /* heads are multiplied by silu(columns of `work`) first and then normed; the weight has a row
                   per head */
};

/* Caches: what the model remembers between steps, in blocks that sequences hold. PAGED has a block for every
 * 32 tokens. RING has as many blocks as a window and a step need, and wraps around. STATE has one block.
 * Blocks are zero when a sequence gets them. */
enum graph_cache_kind { GRAPH_PAGED, GRAPH_RING, GRAPH_STATE };

#define GRAPH_MAX_CACHES  STEP_CACHES
#define GRAPH_CACHE_ALIGN 64

/* The builder declares the caches of the whole model, so all devices of a split have the same list. */
struct graph_cache {
    char name[16]; /* in the plan it follows "blk.N." */
    enum graph_cache_kind kind;
    uint32_t units;          /* per layer, each with blocks of its own: KV heads; 1 for a state */
    uint64_t bytes;          /* of a unit's block; a multiple of GRAPH_CACHE_ALIGN */
    uint64_t k_bytes;        /* PAGED, RING: bytes of K in a block; V follows, unless it is a part of K */
    uint32_t type_k, type_v; /* KV_LAYOUT_F32 .. */
    uint32_t window;         /* RING: tokens that a query sees, its own included */
    uint32_t n_layers;       /* layers of this device that use it */
};

/* Layer `layer` of this device uses cache `cache`, and is number `at` of the layers that do. Ascending. */
struct graph_cached {
    uint32_t cache, layer, at;
};

#define GRAPH_MAX_SHARES 8

/* How much of a model a device of a tensor split computes: share `index` of `count`; count 0: all of it.
 * Shares go in the proportions of `parts`, each above 0. */
struct graph_share {
    uint32_t index, count;
    uint32_t parts[GRAPH_MAX_SHARES];
};

/* Parameters of EXCHANGED: device d has the columns ends[d - 1] to ends[d] - 1 of the joined row (device 0:
 * from 0 on). Column 0 of the joined row is column `column` of out. */
struct graph_exchanged {
    uint32_t count;
    uint32_t ends[GRAPH_MAX_SHARES];
    uint32_t column;
    /* The rows are the step's wanted rows of logits, and only the last device gets them. Its `in` is then no
     * other value than out on the other devices. */
    bool wanted;
    /* Every device has whole rows, and each row is that of the device that has its token's row of the
     * embedding: `ends` are rows of that matrix. */
    bool owned;
    bool pictures; /* with owned: those of pictures' tokens are device 0's */
    /* Number of slots per token (graph_experts): there is a row per slot. 0: a row per token. */
    uint32_t used;
    uint32_t routes; /* value */
    /* The rows that the devices give each other are of this int8 form of out, as the op before has made it:
     * no share cuts values with one scale. 0: floats. */
    uint32_t int8;
    /* RESIDUAL, on a GPU: out is `stream` plus the row, and the op behind it is the NORM of out to the value
     * `normed`: both are one launch, and its groups read all of a row that others already write. */
    bool norms;
    uint32_t stream, normed;
};

/* Parameters of ROUTE and EXPERTS. A slot is a (token, chosen expert). kernels/shared/experts.h defines the
 * value `routes`, for batch * used slots. */
struct graph_experts {
    uint32_t experts, used;
    uint32_t rows; /* of values with a row per slot: an expert's rows begin at a multiple of align */
    uint32_t align;
    uint32_t how;                 /* EXPERTS_SIGMOID | EXPERTS_NORM */
    uint32_t groups, groups_used; /* of experts; groups 0 or 1: none */
    float scale;                  /* of the experts' weights */
    bool clamped;                 /* SWIGLU is clamped_glu with alpha and limit */
    float alpha, limit;
    uint32_t routes; /* value; ROUTE writes it */
    uint32_t shared; /* value: the shared expert's output, f32 rows of tokens, added last; or GRAPH_NONE */
    uint32_t gate;   /* value: multiplies a token's shared row by num_sigmoid of the value's column `experts`;
                        GRAPH_NONE: by 1 */
};

struct graph_op {
    enum graph_kind kind;
    enum graph_epilogue epilogue; /* MATMUL, NORM, EXPERTS, EXCHANGED */
    union {                       /* by kind */
        float scale;              /* EMBED: of the rows; SILU */
        struct graph_streams streams;
        float cap;     /* SOFTCAP */
        uint32_t kept; /* KEEP: rows of a sequence in out */
        struct graph_merge merge;
        uint32_t features; /* FEATURES: column */
        struct graph_spread spread;
        struct graph_norm norm; /* NORM, GATHER_NORM, PAIR, CENTER (inv_width) */
        struct graph_heads heads;
        struct graph_rope rope;
        struct graph_attention attention;
        struct graph_index index;
        struct graph_delta delta;
        struct graph_gated_conv gated_conv;
        struct graph_ngram ngram;
        struct graph_gate gate;
        struct graph_experts experts;
        struct graph_exchanged exchanged;
    };
    uint32_t layer; /* GRAPH_NONE outside layers */
    bool wanted; /* works on the rows of which the step wants logits, though it stands before the tail; every
                    step of such a graph wants some */
    uint32_t cache;       /* of graph.caches, or GRAPH_NONE */
    uint32_t cache_layer; /* the layer's number among the cache's layers */
    uint32_t in;          /* value, or GRAPH_NONE */
    uint32_t out;
    uint32_t work; /* value: workspace, or a second input of DELTA and GATE; or GRAPH_NONE */
    uint32_t n_weights;
    uint32_t weight[GRAPH_OP_WEIGHTS];
    uint32_t bias[GRAPH_OP_WEIGHTS];   /* weight, or GRAPH_NONE */
    uint32_t factor[GRAPH_OP_WEIGHTS]; /* weight: one float (or one per expert) that multiplies the sums,
                                          before the bias; or GRAPH_NONE */
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
    GRAPH_STREAM = 128,
    GRAPH_NORMED = 256,
    GRAPH_LIST = 512,
    GRAPH_VALUES_END = 1024
};

enum graph_rows { GRAPH_TOKENS, GRAPH_LOGITS_ROWS, GRAPH_FILLED /* blocks to set */ };

enum graph_use {
    GRAPH_WHOLE,  /* a step reads all bytes of its weights */
    GRAPH_LOOKUP, /* a row for every token */
    GRAPH_CHOSEN  /* the matrices of the experts that its tokens chose */
};

/* Facts of a kind of op. */
struct graph_kind_info {
    const char *name;       /* for people: traces */
    uint32_t reads, writes; /* bits GRAPH_IN .. */
    enum graph_rows rows;   /* which rows of a step it works on */
    enum graph_use use;     /* of weights */
    bool multiplies;        /* a row costs rows x columns of its weights in multiply-adds */
};

/* What the caller wants from the builder. */
struct graph_want {
    uint32_t batch;       /* tokens in a step */
    uint32_t logits_rows; /* rows of logits in a step */
    /* The layers of this device, [first_layer, end_layer); end_layer 0: all. The device of the first layer
     * embeds, and the device of the last layer has the tail. */
    uint32_t first_layer;
    uint32_t end_layer;
    /* A device of a tensor split has a share of each of these layers, and of the ends of the model. The last
     * one has the logits. */
    struct graph_share share;
    uint32_t kv_type_k, kv_type_v; /* KV_LAYOUT_F32 .. */
    /* Copies of the logits and of their argmax: 2 where the host reads a step's results in place while the
     * next step runs. 0: 1. */
    uint32_t result_halves;
    /* Places for partial results of attention, one per (query, split of 256 tokens), on a device that
     * computes splits in parallel. 0: none. */
    uint32_t cells;
    /* The device computes one output with several groups in parallel and needs counters for them. */
    bool counted;
    uint32_t context; /* tokens of a sequence, at most */
    /* With a share: the other devices push their columns into a landing zone of this one, which is a GPU. */
    bool lands;
    /* int8 values with enough rows are stored as tiles (act_tiles.h), for the CPU's kernels. */
    bool tiled;
    /* Not 0: tokens may be pictures'. EMBED has a value graph.pictures for their rows, which are so many
     * times as wide as the residual stream: behind the embedding is what the first layers add. */
    uint32_t pictures;
    bool whole_pictures; /* the tower's pictures are such that their tokens may see each other */
    /* The device computes experts in parallel: their outputs are kept apart (work of EXPERTS) and added
     * afterwards. */
    bool experts_apart;
    /* Some experts have slots on the device: routes have the words of these behind those of all. */
    bool experts_near;
    /* The MTP head and the tail of its draft tokens, for guess_sequences sequences. guess_rows: rows of
     * hidden states that a sequence keeps, one more than its draft tokens. 0: no head. */
    uint32_t guess_rows, guess_sequences;
};

/* Angles of RoPE. Pair j at position p has the angle p * base^(-2j / n_rot) / scale / divisor[j] (YaRN
 * applies the scale to a part of the pairs: shape.h). Its cos and sin are multiplied by magnitude * (1 +
 * growth * log(1 + floor(p / original))). */
struct graph_angles {
    uint32_t n_rot;
    float base, scale, magnitude, growth;
    struct shape_yarn yarn;
    const struct gguf_tensor *divisors; /* F32 [n_rot / 2], or NULL */
    const struct gguf_tensor
        *divisors_long; /* replace divisors where memory.context is above `original`; or NULL */
    uint32_t original;
    uint32_t sections[3]; /* shape.rope_sections, */
    bool in_order;        /* and rope_in_order */
    uint32_t first;       /* float of a token's row in the step descriptor */
};

#define GRAPH_MAX_ANGLES 2

struct graph {
    struct graph_want want;
    uint32_t width; /* of the residual stream */
    uint32_t n_ops, n_values, n_weights;
    uint32_t tail; /* first op of the tail (logits); n_ops: no tail. A step may run the tail several times. In
                      a tensor split only the last device has logits and picks, and several may have a tail */
    /* MTP head of the last device, or of every device of a tensor split: its ops are [nextn, nextn_end),
     * before the tail. The tail of its draft tokens is [guess, n_ops); a step with STEP_GUESS runs it.
     * Without a head nextn == nextn_end and guess
     * == n_ops. */
    uint32_t nextn, nextn_end, guess;
    uint32_t logits;   /* value: f32 [logits_rows][vocab], exchange; GRAPH_NONE without a tail */
    uint32_t picks;    /* value: [logits_rows] of struct step_pick (argmax), exchange; width 2, f32-sized;
                          GRAPH_NONE without a tail */
    uint32_t pictures; /* value: f32 [batch][n_embd x want.pictures], exchange, a half per slot: rows that the
                          host writes for pictures' tokens. A vision tower: the pixels of its patches.
                          GRAPH_NONE without pictures */
    uint32_t blends;   /* value: struct step_blend [batch], exchange: what the patches of a vision tower take
                          of the table of positions; GRAPH_NONE without one */
    uint32_t windows;  /* value: struct step_window [batch], exchange: those of a vision tower's patches;
                          GRAPH_NONE  without windows */
    uint32_t ngrams;  /* value: f32 [batch][rows of a token side by side], exchange, a half per slot: the rows
                         of n-grams that the host reads from the file; GRAPH_NONE on a device without the
                         layer that has them */
    uint32_t landing; /* value: f32 [batch][width], two halves, exchange: the residual stream from the device
                         before; GRAPH_NONE on the first */
    uint32_t outgoing;  /* the same, for the next device; GRAPH_NONE on the last */
    bool shared_head;   /* of a tensor split: every device has a share of the output matrix, and a tail */
    uint32_t head_zone; /* value: where the others' columns of logits land, on the last device, exchange;
                           GRAPH_NONE without want.lands, or on another device */
    uint32_t zone; /* value: where the others' columns of an exchange land, two halves, exchange (share.h);
                      GRAPH_NONE without want.lands */
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
    /* After STATOR_DOES_NOT_FIT from graph_place: the arena, the bytes that its slices should hold, and the
     * bytes that they can hold. */
    const char *short_arena;
    uint64_t short_bytes;
    uint64_t short_limit;
    uint64_t scratch_bound;
    uint64_t exchange_bytes;
    uint64_t weights_bytes;
    uint32_t weight_slices;
    uint32_t spilled_slices; /* so many of them, at the end, lie in host memory */
    bool scratch_optimal;
};

#define GRAPH_MAX_SLICES 64

/* The largest numbers of a layer, besides what experts add; 0: as many as a dense layer. */
struct graph_bounds {
    uint32_t ops, values, weights;
};

/* Lays out in c the tables for the graphs of this shape (carve_count() measures): of up to `stages` ranges of
 * layers, each on one device (shares 0) or divided among `shares`. */
void graph_layout(struct graph *g, struct carve *c, const struct shape *s, const struct graph_bounds *layer,
                  uint32_t stages, uint32_t shares);
/* Gives g the unused rest of the tables of the built graph `before`, for the next device. */
void graph_layout_rest(struct graph *g, const struct graph *before);
/* Adds the layers of g->want to an empty graph. */
typedef void graph_builder(struct graph *g, const struct shape *s);
/* Fills the tables of g, which graph_layout has laid out on real memory. STATOR_DOES_NOT_FIT: sizes beyond
 * 2^63. STATOR_USAGE: a tensor split of so many devices cannot divide this model. */
stator_status graph_build(struct graph *g, const struct shape *s, graph_builder *build,
                          const struct graph_want *want, stator_error *e);

/* Bytes of work memory that graph_place needs for any graph with these tables. */
uint64_t graph_place_work_bytes(const struct graph *g);
/* Gives every value its offset (scratch: packed by lifetime; exchange: one after the other from exchange_base
 * on) and every weight its places in slices of at most slice_limit bytes. slice_bytes[GRAPH_MAX_SLICES] gets
 * the size of each slice. STATOR_DOES_NOT_FIT: scratch or one panel above slice_limit, or too many slices. */
stator_status graph_place(struct graph *g, uint64_t slice_limit, uint64_t exchange_base, void *work,
                          uint64_t work_bytes, uint64_t *slice_bytes, stator_error *e);

/* Repeats the weights' part of graph_place, after `spilled` of some weights has changed. */
stator_status graph_place_weights(struct graph *g, uint64_t slice_limit, uint64_t *slice_bytes,
                                  stator_error *e);

/* Tokens that the query at this position sees, where it sees those before it. */
static inline uint32_t graph_attention_sees(const struct graph_attention *a, uint32_t position) {
    return a->ratio > 0 ? index_sees(a->ratio, a->keep, position) : position + 1;
}

const struct graph_kind_info *graph_kind_info(enum graph_kind kind);
const char *graph_op_name(const struct graph_op *op);
/* The op's value for a bit GRAPH_IN ..; GRAPH_NONE if it has none. */
uint32_t graph_op_value(const struct graph_op *op, uint32_t bit);
bool graph_op_reads(const struct graph_op *op, uint32_t value);
bool graph_op_writes(const struct graph_op *op, uint32_t value);
/* Whether the op is a product with the first matrices of each expert (SWIGLU, GEGLU, RELU2). */
bool graph_op_opens_experts(const struct graph_op *op);
/* Whether the op is a product with a function of its sums (SWIGLU, GEGLU, RELU2). */
bool graph_op_activated(const struct graph_op *op);
/* Whether it multiplies by two matrices (of each expert), gate and up, for one output. */
bool graph_op_gated(const struct graph_op *op);
/* Multiply-adds of one row of a step. */
uint64_t graph_op_macs(const struct graph *g, const struct graph_op *op);
/* Floats of all angles of one token in the step descriptor. */
uint32_t graph_angles_stride(const struct graph *g);

/* Panels of all matrices: panel p is panel p % layout.panels of matrix p / layout.panels. 1 for a plain
 * weight. */
uint32_t graph_weight_panels(const struct graph_weight *w);

/* Blocks of one sequence of `context` tokens in steps of at most `batch` tokens: per_sequence below. */
uint32_t graph_cache_blocks(const struct graph_cache *c, uint32_t context, uint32_t batch);
/* Blocks that a sequence of so many tokens needs. */
uint32_t graph_cache_need(const struct graph_cache *c, uint32_t per_sequence, uint32_t tokens);
/* Blocks that a checkpoint copies; 0 for PAGED. */
uint32_t graph_cache_kept(const struct graph_cache *c, uint32_t per_sequence);
/* Whether a sequence with `from` tokens in the cache can continue behind its first `to` tokens. */
bool graph_cache_rewinds(const struct graph_cache *c, uint32_t per_sequence, uint32_t from, uint32_t to);

/* For builders. */
uint32_t graph_add_value(struct graph *g, const char *name, enum graph_arena arena, uint32_t rows,
                         uint32_t width, uint32_t forms);
void graph_value_halves(struct graph *g, uint32_t value, uint32_t halves);
/* The op ARGMAX of the graph's logits; with a value for its parts where the device counts. */
struct graph_op *graph_add_argmax(struct graph *g);
/* Gives a value another width and other forms. */
void graph_value_resize(struct graph *g, uint32_t value, uint32_t width, uint32_t forms);
/* The same tensor twice is one weight. */
uint32_t graph_add_weight(struct graph *g, const struct gguf_tensor *t); /* panels */
uint32_t graph_add_plain(struct graph *g, const struct gguf_tensor *t);  /* F32 as it lies in the file */
uint32_t graph_add_plain_run(struct graph *g, const struct gguf_tensor *t, uint32_t first, uint32_t n);
/* A vector with zeros behind it, n values in all. */
uint32_t graph_add_plain_padded(struct graph *g, const struct gguf_tensor *t, uint32_t n);
struct graph_op *graph_add_op(struct graph *g, enum graph_kind kind, uint32_t layer, uint32_t in,
                              uint32_t out);
/* Adds a weight to the op, with the tensor's factor if it has one. */
void graph_op_weight(struct graph *g, struct graph_op *op, const struct gguf_tensor *t,
                     const struct gguf_tensor *bias, uint32_t column);
/* The same with some rows of a tensor. */
void graph_op_runs(struct graph *g, struct graph_op *op, const struct gguf_tensor *t, struct graph_runs runs,
                   uint32_t column);
/* The row of the tensor that is row `row` of the weight; *n gets how many rows follow it without a gap. */
uint64_t graph_weight_row(const struct graph_weight *w, uint64_t row, uint64_t *n);
uint64_t graph_weight_file_bytes(const struct graph_weight *w); /* bytes of its rows in the file */
/* The largest number of rows of a weight that are never cut apart: a panel, or one of several ranges. */
uint32_t graph_weight_together(const struct graph_weight *w);
/* Keeps the rows first .. first + n - 1 of each matrix of a weight; of a plain weight, these values of each
 * row. If the weight has several ranges of rows, whole ranges must be kept. */
void graph_weight_cut(struct graph *g, uint32_t weight, uint32_t first, uint32_t n);
uint32_t graph_form_for(const struct gguf_tensor *t); /* the format of activations that it multiplies */

uint32_t graph_add_cache(struct graph *g, const struct graph_cache *c);
/* The op reads or writes its layer's part of the cache; layers come in ascending order. */
void graph_op_cache(struct graph *g, struct graph_op *op, uint32_t cache);
/* The op reads the part that an earlier layer of this device has of the cache. */
void graph_op_cache_of(const struct graph *g, struct graph_op *op, uint32_t cache, uint32_t layer);
/* Adds angles that ops can name; equal angles are one. */
uint32_t graph_add_angles(struct graph *g, const struct graph_angles *a);

#endif
