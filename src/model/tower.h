/* A vision tower: what an mmproj file (general.architecture "clip") says, checked against its tensors, and
 * how many tokens a picture becomes. Source of keys, names and shapes: llama.cpp's converter and tools/mtmd;
 * of the sizes: the image processors of Hugging Face's transformers (Qwen2-VL's smart_resize, Gemma 3's fixed
 * square).
 *
 * Five projectors are known:
 * - qwen3vl_merger (Qwen3-VL, Qwen3.5 and later): pictures keep their shape; patches are merged side by side
 * in squares of merge x merge, each of which is one token; some layers have deepstack mergers.
 * - qwen2.5vl_merger (Qwen2.5-VL): the same without positions and deepstack. Its norms are RMS norms, its
 * feed-forward is gated. In all layers but each n_wa_pattern-th, patches see those of their window alone;
 * windows are squares of window_size pixels, from the picture's first corner on, smaller at its other edges.
 * - gemma3: pictures become squares; the outputs are averaged over squares of merge x merge, one token each.
 * A token <start_of_image> of the text model comes before them.
 * - pixtral (Pixtral, Mistral Small 3.1 and 3.2): pictures keep their shape and have at most image_size
 * pixels a side; squares of merge x merge patches become one token. Its norms are RMS norms. q and k are
 * stored with the pairs of RoPE side by side. A token [IMG_BREAK] of the text model follows each row of
 * tokens, and [IMG_END] the last.
 * - gemma4v (gemma 4 26B-A4B and 31B): pictures keep their shape and become as large as about 280
 * tokens are; the outputs are averaged as gemma3's. Its norms are RMS norms, also of heads and behind
 * attention and feed-forward; heads turn by the column in their first half and by the row in the second.
 * Any other is refused by name.
 *
 * Invariants after tower_read: all rows of the table in tower.c that belong to the projector are there with
 * the shape that they say, and the file has no other tensor. Tensors live as long as the gguf. Thread: any.
 */
#ifndef STATOR_MODEL_TOWER_H
#define STATOR_MODEL_TOWER_H

#include "model/gguf.h"

#define TOWER_MAX_LAYERS 128
#define TOWER_PIXELS     1500000 /* the most that a picture keeps where nobody says otherwise */

enum tower_projector {
    TOWER_QWEN3VL,
    TOWER_GEMMA3,
    TOWER_PIXTRAL,
    TOWER_QWEN25VL,
    TOWER_GEMMA4,
    TOWER_PROJECTORS
};

/* Tensors: a weight and, where the projector has one, its bias (else NULL). Weights are columns x rows, as a
 * matrix of a text model is. */
enum tower_part {
    TOWER_PATCH,      /* patch x patch x 3 x width */
    TOWER_PATCH_NEXT, /* qwen3vl: the same for the second picture of a pair; a still counts twice */
    TOWER_POSITIONS,  /* width x positions: one row per patch of a picture of image_size squared */
    TOWER_AXES,       /* gemma4v: width x positions x 2, of columns and of rows */
    TOWER_PRE_NORM,   /* pixtral: of the embedded patches */
    TOWER_POST_NORM,
    TOWER_UP,          /* of the projector, qwen3vl: merged patches to merged patches */
    TOWER_DOWN,        /* .. to the text's width */
    TOWER_SOFT_NORM,   /* gemma3: an RMS norm without a bias */
    TOWER_PROJECTION,  /* gemma3: stored as text_width columns x width rows */
    TOWER_MERGER_NORM, /* pixtral with merge > 1: of a patch, before .. */
    TOWER_MERGER,    /* .. merged patches to width; column (i merge + j) of channel c is c merge^2 + i merge +
                        j, of the patch in row i and column j of the square */
    TOWER_INTO_TEXT, /* pixtral: width to the text's width, then gelu, .. */
    TOWER_IN_TEXT,   /* .. and the text's width to itself */
    TOWER_BREAK,     /* pixtral: what [IMG_BREAK] has in the text model */
    TOWER_SHIFT,     /* gemma4v, together or not at all: less these, .. */
    TOWER_SCALE,     /* .. times these, after the mean */
    TOWER_TO_TEXT,   /* gemma4v: width to the text's width */
    TOWER_GLOBALS
};
enum tower_layer_part {
    TOWER_NORM_1,
    TOWER_QKV, /* qwen3vl: q, then k, then v */
    TOWER_Q,
    TOWER_K,
    TOWER_V,
    TOWER_Q_NORM, /* gemma4v: of a head */
    TOWER_K_NORM,
    TOWER_ATTENTION_OUT,
    TOWER_ATTENTION_NORM, /* gemma4v: of what attention adds */
    TOWER_NORM_2,
    TOWER_FF_GATE, /* silu of it times ffn_up; gemma4v: gelu */
    TOWER_FF_UP,
    TOWER_FF_DOWN,
    TOWER_FF_NORM,   /* gemma4v: of what the feed-forward adds */
    TOWER_DEEP_NORM, /* qwen3vl, of layers with deepstack: over merged patches */
    TOWER_DEEP_UP,
    TOWER_DEEP_DOWN,
    TOWER_LAYER_PARTS
};

struct tower_tensor {
    const struct gguf_tensor *weight, *bias;
};

struct tower {
    enum tower_projector projector;
    uint32_t width, ff, layers, heads, text_width;
    uint32_t patch;      /* pixels a side */
    uint32_t merge;      /* patches a side that become one token */
    uint32_t image_size; /* pixels a side: of every picture (gemma3), or that has a position of its own per
                            patch (qwen3vl interpolates for others) */
    uint32_t positions;  /* gemma4v: of each side, one per patch */
    uint32_t window;     /* squares of merge x merge patches a side that see each other; 0: all do, */
    uint32_t whole;      /* and in each layer of this number all do: 8 are layers 7, 15, .. */
    uint32_t deepstacks; /* layers with deepstack */
    bool ff_swapped;     /* the file calls ffn_up what others call ffn_down (files of early 2025) */
    float eps;
    float mean[3], spread[3];        /* of red, green, blue, in pixels of 0 to 1: (x - mean) / spread */
    uint64_t min_pixels, max_pixels; /* of a picture after resizing, qwen3vl */
    uint32_t tensors;
    uint64_t tensor_bytes;
    /* TOWER_PATCH and TOWER_PATCH_NEXT as 3 patch^2 columns (colour, row, column) x width rows */
    struct gguf_tensor patch_matrix, patch_next_matrix;
    struct gguf_tensor position_matrix; /* gemma4v: those of columns, then those of rows */
    uint32_t axis_rows; /* gemma4v: of each of them, as many as pictures reach (vision_read) */
    struct tower_tensor global[TOWER_GLOBALS];
    struct tower_tensor layer[TOWER_MAX_LAYERS][TOWER_LAYER_PARTS];
};

const char *tower_projector_name(enum tower_projector p); /* as clip.projector_type has it */

/* Values that a token of the text model gets: those of its embedding, then those of each deepstack. */
static inline uint32_t tower_row_width(const struct tower *t) {
    return t->text_width * (1 + t->deepstacks);
}

/* Of Qwen: pictures keep their shape, each is a pair of pictures, places count from its first corner. */
static inline bool tower_is_qwen(const struct tower *t) {
    return t->projector == TOWER_QWEN3VL || t->projector == TOWER_QWEN25VL;
}

/* Whether the tokens of a picture see each other in the text model. */
static inline bool tower_sees_both(const struct tower *t) {
    return t->projector == TOWER_GEMMA3 || t->projector == TOWER_GEMMA4;
}

/* Whether patches see those of their window alone. */
static inline bool tower_has_windows(const struct tower *t, uint32_t layer) {
    return t->window > 0 && (layer + 1) % t->whole != 0;
}

/* Whether the file says that it is one: general.architecture is "clip". */
bool tower_is(const struct gguf *g);

/* STATOR_BAD_MODEL with the key or tensor that is missing, wrong or unknown. *t is large: not for a stack. */
stator_status tower_read(const struct gguf *g, struct tower *t, stator_error *e);

struct tower_size {
    uint32_t width, height; /* of the picture that the tower sees */
    uint32_t across, down;  /* tokens that the tower makes: across x down */
    uint32_t tokens;        /* of a prompt: those, and pixtral's behind each row, gemma3's in front */
};

/* The most patches that a picture becomes. */
uint64_t tower_most_patches(const struct tower *t, uint64_t max_pixels);

/* What a picture of width x height (both at least 1) becomes. max_pixels bounds the result of qwen3vl beside
 * the file's own bound. STATOR_USAGE: the picture is too narrow (one side 200 times the other). */
stator_status tower_size_of(const struct tower *t, uint32_t width, uint32_t height, uint64_t max_pixels,
                            struct tower_size *size, stator_error *e);

#endif
