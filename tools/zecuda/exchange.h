/* What one launch of zecuda_exchange does (exchange.cl): copies, then signals, then waits, then resets. The
 * same struct for the host and the GPU. */
#ifndef ZECUDA_EXCHANGE_H
#define ZECUDA_EXCHANGE_H

#ifdef __OPENCL_C_VERSION__
typedef uint exchange_u32;
typedef ulong exchange_u64;
#else
#include <stdint.h>
typedef uint32_t exchange_u32;
typedef uint64_t exchange_u64;
#endif

#define EXCHANGE_KERNEL  "zecuda_exchange"
#define EXCHANGE_GROUP   1024 /* items of its only group */
#define EXCHANGE_COPIES  8
#define EXCHANGE_WORDS   56  /* seven other devices, a word in each of eight */
#define EXCHANGE_BUCKETS 128 /* of half a microsecond; the last one has all above */

struct exchange {
    exchange_u64 to[EXCHANGE_COPIES], from[EXCHANGE_COPIES];
    exchange_u64 signal[EXCHANGE_WORDS], reset[EXCHANGE_WORDS], wait[EXCHANGE_COPIES];
    exchange_u64 times; /* of a struct exchange_times; 0: none is kept */
    exchange_u32 bytes[EXCHANGE_COPIES];
    exchange_u32 n_copies, n_signals, n_waits, n_resets;
};

/* Of launches that wait. `took` is that of launches with copies, from their begin to the others' signals. */
struct exchange_times {
    exchange_u64 n, wait_ns;
    exchange_u32 took[EXCHANGE_BUCKETS];
};

#endif
