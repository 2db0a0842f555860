/* stator bench --roofline: what the machine can do at most, measured for a fraction of a second: bytes read
 * from memory, and multiply-adds of the best int8 instruction on registers. All threads at once, each on its
 * own processor; the figure is the median of several passes. The engine must be idle meanwhile. */
#include "app/bench/bench.h"

#include "base/clock.h"
#include "base/error.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_THREADS 256
#define PASSES      7
#define INT8_NS     20000000 /* of one pass */
#define INT8_STEPS  4096     /* between looks at the clock */

/* Multiply-adds done by `steps` steps. */
typedef uint64_t int8_work(uint32_t steps);
/* Reads n bytes (a multiple of 4096); the sum keeps the loads alive. */
typedef uint64_t read_work(const uint8_t *p, uint64_t n);

static uint64_t read_words(const uint8_t *p, uint64_t n) {
    const uint64_t *w = (const uint64_t *)p;
    uint64_t a = 0;
    uint64_t b = 0;
    for (uint64_t i = 0; i < n / 8; i += 8) {
        a ^= w[i] ^ w[i + 1] ^ w[i + 2] ^ w[i + 3];
        b ^= w[i + 4] ^ w[i + 5] ^ w[i + 6] ^ w[i + 7];
    }
    return a ^ b;
}

#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>

#define ARCH_REQ_XCOMP_PERM 0x1023
#define XFEATURE_TILEDATA   18

/* Vectors of the compiler's own: intrinsics belong to the kernels. */
typedef int64_t words_512 __attribute__((vector_size(64)));
typedef int64_t words_256 __attribute__((vector_size(32)));

__attribute__((target("avx512f"))) static uint64_t read_512(const uint8_t *p, uint64_t n) {
    const words_512 *w = (const words_512 *)p;
    words_512 a = {0};
    words_512 b = a;
    for (uint64_t i = 0; i < n / 64; i += 4) {
        a ^= w[i] ^ w[i + 2];
        b ^= w[i + 1] ^ w[i + 3];
    }
    a ^= b;
    return (uint64_t)(a[0] ^ a[1] ^ a[2] ^ a[3] ^ a[4] ^ a[5] ^ a[6] ^ a[7]);
}

__attribute__((target("avx2"))) static uint64_t read_256(const uint8_t *p, uint64_t n) {
    const words_256 *w = (const words_256 *)p;
    words_256 a = {0};
    words_256 b = a;
    for (uint64_t i = 0; i < n / 32; i += 4) {
        a ^= w[i] ^ w[i + 2];
        b ^= w[i + 1] ^ w[i + 3];
    }
    a ^= b;
    return (uint64_t)(a[0] ^ a[1] ^ a[2] ^ a[3]);
}

/* Twelve accumulators cover the latency of two ports. The instructions are written out, so that everything
 * stays in registers and none is optimised away. */
#define ACCUMULATORS 12
#define EACH(DO)     DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)

__attribute__((target("avx512f,avx512vnni"))) static uint64_t int8_vnni(uint32_t steps) {
    words_512 x = {1, 2, 3, 4, 5, 6, 7, 8};
#define DECLARE(i)  words_512 a##i = {0};
#define MULTIPLY(i) __asm__ volatile("vpdpbusd %1, %1, %0" : "+v"(a##i) : "v"(x));
    EACH(DECLARE)
    for (uint32_t s = 0; s < steps; s++) {
        EACH(MULTIPLY)
    }
#undef DECLARE
#undef MULTIPLY
    return (uint64_t)steps * ACCUMULATORS * 64;
}

__attribute__((target("avx2"))) static uint64_t int8_avx2(uint32_t steps) {
    words_256 x = {1, 2, 3, 4};
    words_256 ones = {1, 1, 1, 1};
    words_256 pairs;
#define DECLARE(i) words_256 a##i = {0};
#define MULTIPLY(i)                                                                                          \
    __asm__ volatile("vpmaddubsw %2, %2, %1\n\tvpmaddwd %3, %1, %1\n\tvpaddd %1, %0, %0"                     \
                     : "+x"(a##i), "=&x"(pairs)                                                              \
                     : "x"(x), "x"(ones));
    EACH(DECLARE)
    for (uint32_t s = 0; s < steps; s++) {
        EACH(MULTIPLY)
    }
#undef DECLARE
#undef MULTIPLY
    return (uint64_t)steps * ACCUMULATORS * 32;
}

/* The tile unit's configuration: eight tiles of 16 rows of 64 bytes. */
struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
};

__attribute__((target("amx-tile,amx-int8"))) static uint64_t int8_amx(uint32_t steps) {
    struct tile_config c = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        c.row_bytes[i] = 64;
        c.rows[i] = 16;
    }
    __asm__ volatile("ldtilecfg %0" : : "m"(c));
    __asm__ volatile("tilezero %tmm0\n\ttilezero %tmm1\n\ttilezero %tmm2\n\ttilezero %tmm3\n\t"
                     "tilezero %tmm4\n\ttilezero %tmm5\n\ttilezero %tmm6\n\ttilezero %tmm7");
    for (uint32_t s = 0; s < steps; s++)
        __asm__ volatile("tdpbssd %tmm6, %tmm4, %tmm0\n\ttdpbssd %tmm7, %tmm4, %tmm1\n\t"
                         "tdpbssd %tmm6, %tmm5, %tmm2\n\ttdpbssd %tmm7, %tmm5, %tmm3");
    __asm__ volatile("tilerelease");
    return (uint64_t)steps * 4 * 16 * 16 * 64;
}

static void cpuid(uint32_t leaf, uint32_t out[4]) {
    __asm__ volatile("cpuid" : "=a"(out[0]), "=b"(out[1]), "=c"(out[2]), "=d"(out[3]) : "a"(leaf), "c"(0));
}

/* CPUID (OSXSAVE, AMX-TILE, AMX-INT8), XCR0 and the kernel's permission together. */
static bool amx_allowed(void) {
    uint32_t r[4];
    cpuid(0, r);
    if (r[0] < 7)
        return false;
    cpuid(1, r);
    if (!(r[2] >> 27 & 1))
        return false;
    cpuid(7, r);
    if (!(r[3] >> 24 & 1) || !(r[3] >> 25 & 1))
        return false;
    uint32_t low = 0;
    uint32_t high = 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low >> 17 & 3) == 3 && syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_TILEDATA) == 0;
}

static read_work *best_read(void) {
    if (__builtin_cpu_supports("avx512f"))
        return read_512;
    return __builtin_cpu_supports("avx2") ? read_256 : read_words;
}

static int8_work *best_int8(const char **name) {
    *name = "AMX";
    if (amx_allowed())
        return int8_amx;
    *name = "VNNI";
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vnni"))
        return int8_vnni;
    *name = "AVX2";
    return __builtin_cpu_supports("avx2") ? int8_avx2 : NULL;
}
#else
static read_work *best_read(void) {
    return read_words;
}
static int8_work *best_int8(const char **name) {
    *name = "none";
    return NULL;
}
#endif

struct prober {
    pthread_t thread;
    pthread_barrier_t *barrier;
    int cpu; /* or -1: anywhere */
    read_work *read;
    int8_work *int8;
    const uint8_t *memory;
    uint64_t bytes;
    uint64_t read_ns[PASSES];
    double int8_rate[PASSES];
    volatile uint64_t sink;
};

static double int8_pass(struct prober *p) {
    uint64_t begin = clock_ns();
    uint64_t now = begin;
    uint64_t work = 0;
    while (now - begin < INT8_NS) {
        work += p->int8(INT8_STEPS);
        now = clock_ns();
    }
    return (double)work / ((double)(now - begin) * 1e-9);
}

static void *probe_thread(void *context) {
    struct prober *p = context;
    if (p->cpu >= 0) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET((size_t)p->cpu, &one);
        (void)pthread_setaffinity_np(pthread_self(), sizeof one, &one); /* else it runs where it may */
    }
    for (int i = 0; i < PASSES; i++) {
        pthread_barrier_wait(p->barrier);
        uint64_t begin = clock_ns();
        p->sink = p->sink ^ p->read(p->memory, p->bytes);
        pthread_barrier_wait(p->barrier);
        p->read_ns[i] = clock_ns() - begin;
    }
    for (int i = 0; i < PASSES && p->int8 != NULL; i++) {
        pthread_barrier_wait(p->barrier);
        p->int8_rate[i] = int8_pass(p);
    }
    return NULL;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, size_t n) {
    qsort(v, n, sizeof *v, by_value);
    return (v[(n - 1) / 2] + v[n / 2]) / 2;
}

static void summarise(const struct prober *p, uint32_t n, uint64_t bytes, struct bench_limits *out) {
    double read[PASSES];
    double int8[PASSES];
    for (int i = 0; i < PASSES; i++) {
        read[i] = (double)bytes / ((double)p[0].read_ns[i] * 1e-9);
        int8[i] = 0;
        for (uint32_t t = 0; t < n; t++)
            int8[i] += p[t].int8_rate[i];
    }
    out->read_rate = median(read, PASSES);
    out->int8_rate = median(int8, PASSES);
}

/* The processors that this thread may use, in their order. */
static void place(struct prober *p, uint32_t n) {
    cpu_set_t allowed;
    bool known = sched_getaffinity(0, sizeof allowed, &allowed) == 0;
    int cpu = 0;
    for (uint32_t i = 0; i < n; i++) {
        while (known && cpu < CPU_SETSIZE && !CPU_ISSET((size_t)cpu, &allowed))
            cpu++;
        p[i].cpu = known && cpu < CPU_SETSIZE ? cpu++ : -1;
    }
}

stator_status bench_probe(uint32_t threads, const void *memory, uint64_t bytes, struct bench_limits *out,
                          stator_error *e) {
    uint32_t n = threads < MAX_THREADS ? threads : MAX_THREADS;
    *out = (struct bench_limits){.read_rate = 0};
    struct prober *p = calloc(n, sizeof *p);
    if (p == NULL)
        return error_set(e, STATOR_FAILED, "no memory for measuring the machine");
    /* The engine's threads spin for a moment before they sleep. */
    nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
    pthread_barrier_t barrier;
    int rc = pthread_barrier_init(&barrier, NULL, n);
    int8_work *int8 = best_int8(&out->int8_name);
    uint64_t share = bytes / n / 4096 * 4096;
    place(p, n);
    uint32_t made = 0;
    for (; rc == 0 && made < n; made++) {
        p[made].barrier = &barrier;
        p[made].read = best_read();
        p[made].int8 = int8;
        p[made].memory = (const uint8_t *)memory + made * share;
        p[made].bytes = share;
        rc = pthread_create(&p[made].thread, NULL, probe_thread, &p[made]);
    }
    if (rc != 0) {
        /* Those that were made wait at the barrier for ever, with p: the process ends with the error. */
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
        return error_set(e, STATOR_FAILED, "the threads that measure the machine can't be started: %s",
                         strerror(rc));
    }
    for (uint32_t i = 0; i < n; i++)
        pthread_join(p[i].thread, NULL);
    summarise(p, n, share * n, out);
    pthread_barrier_destroy(&barrier);
    free(p);
    return STATOR_OK;
}
