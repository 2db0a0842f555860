/* Convolution and delta rule on this tier's vectors. */
#include "kernels/cpu/avx2/avx2_vec.h"

#define DELTA_AHEAD 0

#include "kernels/cpu/delta_tmpl.h"
