/* The seal, seen from outside: strong definitions of the allocation calls, for one test binary. Include it in
 * exactly one file of the binary. (Wrapping symbols at link time would miss libc's own calls, such as fopen's
 * malloc.)
 *
 * Each call is counted, then made. A call by an engine thread of a sealed engine (base/phase) is a violation:
 * it is recorded with its size and backtrace, and in mode INTERPOSE_ABORT printed at once, with SIGABRT.
 * Calls by edge and driver threads, and in other phases, are free.
 *
 * Not seen: what libc does without a public symbol (malloc's own brk, thread stacks' mmap: malloc and
 * pthread_create themselves are seen), and raw system calls. Under ASan and TSan, which own malloc, nothing
 * is defined: begin a test with INTERPOSE_NEED. Invariants: nothing here allocates or locks; any thread may
 * enter. */
#ifndef STATOR_TESTS_INTERPOSE_H
#define STATOR_TESTS_INTERPOSE_H

#include "base/phase.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || __has_feature(address_sanitizer) ||     \
    __has_feature(thread_sanitizer)
#define INTERPOSE_AVAILABLE 0
#else
#define INTERPOSE_AVAILABLE 1
#endif

#define INTERPOSE_NEED()                                                                                     \
    do {                                                                                                     \
        if (!INTERPOSE_AVAILABLE) {                                                                          \
            print_message("skipped: the sanitizer owns malloc\n");                                           \
            skip();                                                                                          \
        }                                                                                                    \
    } while (0)

enum interpose_mode { INTERPOSE_COUNT, INTERPOSE_ABORT };

#define INTERPOSE_FRAMES 24
#define INTERPOSE_MOST   256 /* violations recorded; more are only counted */

struct interpose_violation {
    const char *function;
    size_t size; /* of the request, 0 if it has none */
    int n_frames;
    void *frames[INTERPOSE_FRAMES];
};

static struct {
    _Atomic int mode;
    _Atomic uint64_t calls; /* of all threads, allowed or not */
    _Atomic uint64_t violations;
    struct interpose_violation recorded[INTERPOSE_MOST];
} interpose;

/* Starts recording and forgets earlier records. Call it while no engine thread runs. */
static inline void interpose_reset(enum interpose_mode mode) {
    atomic_store(&interpose.mode, mode);
    atomic_store(&interpose.calls, 0);
    atomic_store(&interpose.violations, 0);
}

static inline uint64_t interpose_calls(void) {
    return atomic_load(&interpose.calls);
}

static inline uint64_t interpose_violations(void) {
    return atomic_load(&interpose.violations);
}

/* The i-th of them, i < min(violations, INTERPOSE_MOST), after the engine threads have stopped. */
static inline const struct interpose_violation *interpose_violation(uint64_t i) {
    return i < interpose_violations() && i < INTERPOSE_MOST ? &interpose.recorded[i] : NULL;
}

static inline void interpose_print_one(const struct interpose_violation *v) {
    char text[160];
    int n = snprintf(text, sizeof text, "%s of %zu bytes by a sealed engine thread:\n", v->function, v->size);
    if (n > 0 && write(STDERR_FILENO, text, (size_t)n) == n)
        backtrace_symbols_fd(v->frames, v->n_frames, STDERR_FILENO);
}

/* All that are recorded, to stderr; `addr2line -e BINARY ADDRESS` gives lines. */
static inline void interpose_print(void) {
    for (uint64_t i = 0; interpose_violation(i) != NULL; i++)
        interpose_print_one(interpose_violation(i));
}

#if INTERPOSE_AVAILABLE

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void __libc_free(void *);
extern void *__libc_memalign(size_t, size_t);

static int (*interpose_pthread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
static int (*interpose_brk)(void *);
static void *(*interpose_sbrk)(intptr_t);

/* Before main: dlsym and the first backtrace (it loads libgcc) may allocate. */
__attribute__((constructor)) static void interpose_prepare(void) {
    void *frames[2];
    backtrace(frames, 2);
    /* POSIX's way to put a data pointer into a function pointer. */
    *(void **)(void *)&interpose_pthread_create = dlsym(RTLD_NEXT, "pthread_create");
    *(void **)(void *)&interpose_brk = dlsym(RTLD_NEXT, "brk");
    *(void **)(void *)&interpose_sbrk = dlsym(RTLD_NEXT, "sbrk");
}

static void interpose_note(const char *function, size_t size) {
    static _Thread_local bool
        inside; /* what the record itself calls, and what a noted call calls, is its own */
    atomic_fetch_add_explicit(&interpose.calls, 1, memory_order_relaxed);
    if (inside || !phase_thread_is_sealed())
        return;
    int saved = errno;
    inside = true;
    struct interpose_violation overflow;
    uint64_t i = atomic_fetch_add(&interpose.violations, 1);
    struct interpose_violation *v = i < INTERPOSE_MOST ? &interpose.recorded[i] : &overflow;
    v->function = function;
    v->size = size;
    v->n_frames = backtrace(v->frames, INTERPOSE_FRAMES);
    if (atomic_load(&interpose.mode) == INTERPOSE_ABORT) {
        interpose_print_one(v);
        abort();
    }
    inside = false;
    errno = saved;
}

void *malloc(size_t size) {
    interpose_note("malloc", size);
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size) {
    size_t bytes = 0;
    interpose_note("calloc", __builtin_mul_overflow(n, size, &bytes) ? SIZE_MAX : bytes);
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t size) {
    interpose_note("realloc", size);
    return __libc_realloc(p, size);
}

void *reallocarray(void *p, size_t n, size_t size) {
    size_t bytes = 0;
    bool overflow = __builtin_mul_overflow(n, size, &bytes);
    interpose_note("reallocarray", overflow ? SIZE_MAX : bytes);
    if (overflow) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_realloc(p, bytes);
}

void free(void *p) {
    if (p != NULL)
        interpose_note("free", 0);
    __libc_free(p);
}

void *memalign(size_t align, size_t size) {
    interpose_note("memalign", size);
    return __libc_memalign(align, size);
}

void *aligned_alloc(size_t align, size_t size) {
    interpose_note("aligned_alloc", size);
    return __libc_memalign(align, size);
}

int posix_memalign(void **out, size_t align, size_t size) {
    interpose_note("posix_memalign", size);
    if (align % sizeof(void *) != 0 || align == 0 || (align & (align - 1)) != 0)
        return EINVAL;
    int saved = errno;
    void *p = __libc_memalign(align, size);
    errno = saved;
    if (p == NULL)
        return ENOMEM;
    *out = p;
    return 0;
}

void *valloc(size_t size) {
    interpose_note("valloc", size);
    return __libc_memalign((size_t)sysconf(_SC_PAGESIZE), size);
}

void *pvalloc(size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    interpose_note("pvalloc", size);
    return __libc_memalign(page, (size + page - 1) & ~(page - 1));
}

void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset) {
    interpose_note("mmap", size);
    return (void *)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
}

void *mmap64(void *address, size_t size, int protection, int flags, int fd, off64_t offset) {
    interpose_note("mmap64", size);
    return (void *)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
}

int munmap(void *address, size_t size) {
    interpose_note("munmap", size);
    return (int)syscall(SYS_munmap, address, size);
}

void *mremap(void *address, size_t old_size, size_t size, int flags, ...) {
    va_list ap;
    va_start(ap, flags);
    void *to = (flags & MREMAP_FIXED) != 0 ? va_arg(ap, void *) : NULL;
    va_end(ap);
    interpose_note("mremap", size);
    return (void *)syscall(SYS_mremap, address, old_size, size, flags, to);
}

int brk(void *end) {
    interpose_note("brk", 0);
    return interpose_brk(end);
}

void *sbrk(intptr_t by) {
    interpose_note("sbrk", by > 0 ? (size_t)by : 0);
    return interpose_sbrk(by);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*f)(void *), void *argument) {
    interpose_note("pthread_create", 0);
    return interpose_pthread_create(thread, attributes, f, argument);
}

#endif
#endif
