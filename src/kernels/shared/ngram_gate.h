/* The gate of n-gram embeddings. Compiles as C and as OpenCL C. */
#ifndef STATOR_KERNELS_SHARED_NGRAM_GATE_H
#define STATOR_KERNELS_SHARED_NGRAM_GATE_H

#include "kernels/shared/num.h"

#define NGRAM_LEAST 1e-6f /* of the size below the root */

/* num_sigmoid of the root of the size of sum * scale, with its sign; the root of m is m * num_rsqrt(m). */
static inline float ngram_gate_of(float sum, float scale) {
    float s = sum * scale;
    float size = NUM_FABS(s);
    float m = size < NGRAM_LEAST ? NGRAM_LEAST : size;
    float root = m * num_rsqrt(m);
    return num_sigmoid(s > 0.0f ? root : s < 0.0f ? -root : 0.0f);
}

#endif
