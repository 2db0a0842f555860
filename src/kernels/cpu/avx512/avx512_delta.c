/* Convolution and delta rule on this tier's vectors. */
#include "kernels/cpu/avx512/avx512_vec.h"

#define DELTA_AHEAD 1

#include "kernels/cpu/delta_tmpl.h"
