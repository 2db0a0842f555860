/* Bounds of delta-net layers, and how a head's state is cut: [columns / DELTA_BLOCK, rounded up][dim_k]
 * [DELTA_BLOCK] floats. Compiles as C and as OpenCL C. */
#ifndef STATOR_KERNELS_SHARED_DELTA_H
#define STATOR_KERNELS_SHARED_DELTA_H

#define DELTA_BLOCK        32  /* columns of a state that lie together */
#define DELTA_MAX_STATE    256 /* values of a key */
#define DELTA_TESTED_STATE 128 /* the same, where a GPU tests guesses */
#define DELTA_MAX_TAPS     16  /* of the convolution */

/* Decays and betas below it are 0: next to what else a state has they are nothing, and without it a state
 * that is hardly written would fill with subnormals, which take CPUs a hundred times as long. */
#define DELTA_LEAST 0x1p-40f

static inline float delta_factor(float x) {
    return x < DELTA_LEAST ? 0.0f : x;
}

#endif
