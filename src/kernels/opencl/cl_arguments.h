/* Parameters of the kernels, of the lists in kernels/shared/kernel_arguments.h: CL_ARGUMENTS(NORM). Those of
 * one thing are taken together by CL_FORMS, CL_SOURCE, CL_WEIGHT, CL_CACHE. */
#ifndef STATOR_KERNELS_OPENCL_CL_ARGUMENTS_H
#define STATOR_KERNELS_OPENCL_CL_ARGUMENTS_H

#include "kernels/shared/kernel_arguments.h"

#define CL_ARGUMENTS(LIST) global const uchar *step KERNEL_ARGUMENTS_##LIST(CL_ARGUMENT)

#define CL_ARGUMENT(kind, ...)         CL_ARGUMENT_##kind(__VA_ARGS__)
#define CL_ARGUMENT_BUFFER(type, name) , global type *name
#define CL_ARGUMENT_U32(name)          , uint name
#define CL_ARGUMENT_F32(name)          , float name
#define CL_ARGUMENT_LOCAL(type, name)  , local type *name
#define CL_ARGUMENT_OFFSETS(name)                                                                            \
    , uint name##_f32, uint name##_q32, uint name##_d32, uint name##_s32, uint name##_q256,                  \
        uint name##_d256, uint name##_s256
#define CL_ARGUMENT_FORMS(name)                                                                              \
    , global uchar *name, uint name##_has, uint name##_width CL_ARGUMENT_OFFSETS(name)
#define CL_ARGUMENT_SOURCE(name) , global const uchar *name CL_ARGUMENT_OFFSETS(name), uint name##_cols
#define CL_ARGUMENT_WEIGHT(name)                                                                             \
    , global const uchar *name##_a, global const uchar *name##_b, uint name##_first, uint name##_cut,        \
        uint name##_type, uint name##_file
#define CL_ARGUMENT_CACHE(name)                                                                              \
    , global uchar *name##_0, global uchar *name##_1, global uchar *name##_2, global uchar *name##_3,        \
        uint name##_unit, uint name##_units_per_slice, uint name##_unit_bytes, uint name##_block_stride,     \
        uint name##_k_bytes, uint name##_what
#define CL_ARGUMENT_STATES(name)                                                                             \
    , global uchar *name, uint block_bytes, uint cache, uint window, uint key_heads, uint value_heads,       \
        uint dim_k, uint dim_v, uint taps

/* struct cl_forms, cl_source (without rows of experts), cl_weight, cl_cache. */
#define CL_OFFSETS(name) name##_f32, name##_q32, name##_d32, name##_s32, name##_q256, name##_d256, name##_s256
#define CL_FORMS(name)                                                                                       \
    { name, name##_has, name##_width, CL_OFFSETS(name) }
#define CL_SOURCE(name)                                                                                      \
    { name, CL_OFFSETS(name), name##_cols, name##_cols, 0 }
#define CL_WEIGHT(name)                                                                                      \
    { name##_a, name##_b, name##_first, name##_cut, name##_type, name##_file }
#define CL_CACHE(name)                                                                                       \
    {                                                                                                        \
        name##_0, name##_1, name##_2, name##_3, name##_unit, name##_units_per_slice, name##_unit_bytes,      \
            name##_block_stride, name##_k_bytes, name##_what                                                 \
    }

#endif
