/* What tests of kernels and formats share: guarded buffers, random contents, comparison of bits. */
#ifndef STATOR_TESTS_KERNEL_CHECK_H
#define STATOR_TESTS_KERNEL_CHECK_H

#include "testing.h"

#include <sys/mman.h>

/* Bytes of canary on each side of a buffer; a multiple of 64, so that the data stays aligned to 64 bytes. */
#define KERNEL_CHECK_GUARD  256
#define KERNEL_CHECK_CANARY 0xC5

/* `bytes` bytes at `data`, aligned to 64, between two canaries: a write outside fails the test in
 * kernel_check_free. The contents begin as 0xA9.., a byte that no test mistakes for a result. */
struct kernel_check_buffer {
    uint8_t *data;
    size_t bytes;
    uint8_t *whole;
};

static inline struct kernel_check_buffer kernel_check_alloc(size_t bytes) {
    struct kernel_check_buffer b = {.bytes = bytes};
    size_t size = (bytes + 63) / 64 * 64 + (size_t)2 * KERNEL_CHECK_GUARD;
    b.whole = aligned_alloc(64, size);
    assert_non_null(b.whole);
    memset(b.whole, KERNEL_CHECK_CANARY, size);
    b.data = b.whole + KERNEL_CHECK_GUARD;
    memset(b.data, 0xA9, bytes);
    return b;
}

/* Fails the test if a byte around the buffer was written. */
static inline void kernel_check_guards(const struct kernel_check_buffer *b) {
    for (size_t i = 0; i < KERNEL_CHECK_GUARD; i++) {
        if (b->whole[i] != KERNEL_CHECK_CANARY)
            fail_msg("%zu bytes before a buffer of %zu were written", KERNEL_CHECK_GUARD - i, b->bytes);
        if (b->data[b->bytes + i] != KERNEL_CHECK_CANARY)
            fail_msg("a buffer of %zu bytes was overrun by %zu", b->bytes, i + 1);
    }
}

static inline void kernel_check_free(struct kernel_check_buffer *b) {
    kernel_check_guards(b);
    free(b->whole);
    *b = (struct kernel_check_buffer){0};
}

/* `bytes` bytes that end where an unmapped page begins, so that reads past the end are seen too; aligned to
 * 64 only if `bytes` is a multiple. An unmapped page lies before them too, and the slack between it and them
 * holds a pattern. */
struct kernel_check_edge {
    uint8_t *data;
    size_t bytes;
    uint8_t *map;
    size_t mapped;
};

static inline void *kernel_check_edge_alloc(struct kernel_check_edge *b, size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t inner = (bytes + page - 1) / page * page;
    b->mapped = inner + 2 * page;
    b->map = mmap(NULL, b->mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(b->map != MAP_FAILED);
    assert_int_equal(mprotect(b->map + page, inner, PROT_READ | PROT_WRITE), 0);
    memset(b->map + page, 0xA9, inner);
    b->data = b->map + page + inner - bytes;
    b->bytes = bytes;
    return b->data;
}

static inline void kernel_check_edge_free(struct kernel_check_edge *b) {
    for (uint8_t *p = b->map + sysconf(_SC_PAGESIZE); p < b->data; p++)
        if (*p != 0xA9)
            fail_msg("%zu bytes before a buffer of %zu were written", (size_t)(b->data - p), b->bytes);
    munmap(b->map, b->mapped);
}

static inline void kernel_check_random_bytes(uint64_t *seed, void *p, size_t n) {
    for (size_t i = 0; i < n; i += 8) {
        uint64_t v = testing_random(seed);
        memcpy((uint8_t *)p + i, &v, n - i < 8 ? n - i : 8);
    }
}

/* Uniform in [-scale, scale). */
static inline void kernel_check_random_floats(uint64_t *seed, float *p, size_t n, float scale) {
    for (size_t i = 0; i < n; i++)
        p[i] = testing_uniform(seed) * scale;
}

/* Floats by their bits; says where the first difference is. */
static inline void kernel_check_same_floats(const float *got, const float *expected, size_t n,
                                            const char *what) {
    if (memcmp(got, expected, n * sizeof *got) == 0)
        return;
    for (size_t i = 0; i < n; i++)
        if (memcmp(got + i, expected + i, sizeof *got) != 0)
            fail_msg("%s: number %zu of %zu is %a, expected %a", what, i, n, (double)got[i],
                     (double)expected[i]);
}

#endif
