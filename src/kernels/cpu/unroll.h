/* Loops of vector code over steps, rows and tokens have constant bounds and must vanish, or their registers
 * lie in memory. Under a sanitizer, whose checks would be unrolled with them, compiling then takes minutes:
 * there they stay. */
#ifndef STATOR_KERNELS_UNROLL_H
#define STATOR_KERNELS_UNROLL_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNROLL
#elif defined(__clang__)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define UNROLL
#else
#define UNROLL _Pragma("unroll")
#endif
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#endif
