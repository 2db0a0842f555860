/* Eight floats side by side, in terms of which the encoders' searches are written. A search's file
 * (encode_.._tmpl.h) is included once for each tier, with TIER(name) and ENCODE_TARGET; the operations and
 * their order are the same, so are the bytes. */
#ifndef STATOR_FORMATS_ENCODE_LANES_H
#define STATOR_FORMATS_ENCODE_LANES_H

#include "formats/encode_parts.h"

#if defined __x86_64__
#define ENCODE_TARGET_AVX2 __attribute__((target("avx2")))
#endif

/* All of a tier has its target: a compiler splits wide vectors where they are written, before it inlines. */
#define ENCODE_INLINE ENCODE_TARGET static inline __attribute__((always_inline))

/* No call is left that has such an argument. */
#if defined __GNUC__ && !defined __clang__
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

typedef float encode_lanes __attribute__((vector_size(32)));
typedef float encode_half_lanes __attribute__((vector_size(16)));
typedef int32_t encode_mask __attribute__((vector_size(32)));

/* Calls the tier's function. */
#if defined ENCODE_TARGET_AVX2
#define ENCODE_BY(tier, function, ...)                                                                       \
    ((tier) == ENCODE_AVX2 ? function##_avx2(__VA_ARGS__) : function##_plain(__VA_ARGS__))
#else
#define ENCODE_BY(tier, function, ...) ((void)(tier), function##_plain(__VA_ARGS__))
#endif

#endif
