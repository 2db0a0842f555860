/* The types of weights, and what the preprocessor asks of the set of types that a module is compiled for:
 * CL_TYPES, a mask of bits 1ul << type. */
#ifndef STATOR_KERNELS_OPENCL_CL_TYPES_H
#define STATOR_KERNELS_OPENCL_CL_TYPES_H

/* enum block_type */
#define CL_F32    0
#define CL_F16    1
#define CL_Q4_0   2
#define CL_Q4_1   3
#define CL_Q5_0   6
#define CL_Q5_1   7
#define CL_Q8_0   8
#define CL_Q2_K   10
#define CL_Q3_K   11
#define CL_Q4_K   12
#define CL_Q5_K   13
#define CL_Q6_K   14
#define CL_IQ4_NL 20
#define CL_IQ2_S  22
#define CL_IQ4_XS 23
#define CL_BF16   30
#define CL_MXFP4  39

#define CL_HAS(type) ((CL_TYPES >> (type)&1ul) != 0)
#define CL_SEVERAL   ((CL_TYPES & (CL_TYPES - 1ul)) != 0)
/* The set of all types; of all K types (modules.def). */
#define CL_OF_ALL   (CL_HAS(CL_F32) && CL_HAS(CL_Q4_0))
#define CL_OF_ALL_K (CL_HAS(CL_Q2_K) && CL_HAS(CL_Q6_K))

#endif
