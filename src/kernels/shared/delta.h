/* Bounds of delta-net layers, and how a head's state is cut: [columns / DELTA_BLOCK, rounded up][dim_k]
 * [DELTA_BLOCK] floats. Compiles as C and as OpenCL C. */
#ifndef STATOR_KERNELS_SHARED_DELTA_H
#define STATOR_KERNELS_SHARED_DELTA_H

#define DELTA_BLOCK        32  /* columns of a state that lie together */
#define DELTA_MAX_STATE    256 /* values of a key */
#define DELTA_TESTED_STATE 128 /* the same, where a GPU tests draft tokens */
#define DELTA_MAX_TAPS     16  /* of the convolution */

/* Decays and betas below it are 0: next to what else a state has they are nothing, and without it a state
 * that is hardly written would fill with subnormals, which take CPUs a hundred times as long. */
#define DELTA_LEAST 0x1p-40f

/* The key head of value head `head`, and how far its beta and its alpha lie behind the first of them.
 * grouped: so many value heads that lie together have one key, and before their alphas lie their betas; 0:
 * value heads take key heads in turn, betas lie together, and alphas. */
static inline unsigned delta_key(unsigned head, unsigned key_heads, unsigned grouped) {
    return grouped > 0 ? head / grouped : head % key_heads;
}
static inline unsigned delta_column(unsigned head, unsigned grouped) {
    return grouped > 0 ? head + head / grouped * grouped : head;
}

static inline float delta_factor(float x) {
    return x < DELTA_LEAST ? 0.0f : x;
}

#endif
