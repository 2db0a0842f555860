#include "times.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SUBMITS   1024u /* the last ones are kept */
#define KERNELS   (1u << 18)
#define NAMES     128u
#define FRAME     (8u << 20) /* bytes of CUPTI's buffers */
#define NO_REPEAT 2e6        /* ns: a longer gap is a pause between runs */

struct submit {
    cuda_event begin, end;
    uint64_t host_ns, wait_ns;
    uint32_t kernels;
};

struct times {
    struct submit submit[SUBMITS];
    uint64_t n, steps; /* submits, and those of them with kernels */
    uint64_t called_ns;
};

/* ---- kernels, by CUPTI. Names, numbers and offsets are its API's. */
enum {
    CUPTI_CONCURRENT_KERNEL = 10,
    CUPTI_AT_START = 16,
    CUPTI_AT_END = 24,
    CUPTI_AT_NAME = 104,
    CUPTI_FLUSH_FORCED = 1
};

struct span {
    uint64_t begin, end;
    uint32_t name;
};

static struct {
    int (*next)(uint8_t *buffer, size_t bytes, void **record);
    int (*flush)(uint32_t flags);
    struct span *span;
    uint32_t n;
    char name[NAMES][64];
} cupti;

static uint32_t name_of(const void *record) {
    const char *name = NULL;
    memcpy(&name, (const uint8_t *)record + CUPTI_AT_NAME, sizeof name);
    uint32_t i = 0;
    while (name != NULL && i < NAMES - 1 && cupti.name[i][0] != '\0' &&
           strncmp(cupti.name[i], name, sizeof cupti.name[i] - 1) != 0)
        i++;
    if (name != NULL && cupti.name[i][0] == '\0')
        snprintf(cupti.name[i], sizeof cupti.name[i], "%s", name);
    return i;
}

static void buffer_wanted(uint8_t **buffer, size_t *bytes, size_t *records) {
    *buffer = aligned_alloc(8, FRAME);
    *bytes = *buffer != NULL ? FRAME : 0;
    *records = 0;
}

static void buffer_full(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid) {
    (void)context, (void)stream, (void)bytes;
    void *record = NULL;
    while (cupti.next(buffer, valid, &record) == 0) {
        uint32_t kind = 0;
        memcpy(&kind, record, sizeof kind);
        if (kind != CUPTI_CONCURRENT_KERNEL || cupti.n == KERNELS)
            continue;
        struct span *s = &cupti.span[cupti.n++];
        memcpy(&s->begin, (uint8_t *)record + CUPTI_AT_START, sizeof s->begin);
        memcpy(&s->end, (uint8_t *)record + CUPTI_AT_END, sizeof s->end);
        s->name = name_of(record);
    }
    free(buffer);
}

static void *entry(void *library, const char *name) {
    void *p = library != NULL ? dlsym(library, name) : NULL;
    if (p == NULL)
        fprintf(stderr, "zecuda: ZECUDA_TIMES=kernels: %s\n", dlerror());
    return p;
}

bool times_wanted(void) {
    return getenv("ZECUDA_TIMES") != NULL;
}

static bool wanted(const char *what) {
    const char *v = getenv("ZECUDA_TIMES");
    return v != NULL && (what == NULL || strcmp(v, what) == 0);
}

void times_begin(void) {
    if (!wanted("kernels") || cupti.span != NULL)
        return;
    void *library = dlopen("libcupti.so", RTLD_NOW);
    int (*hooks)(void *, void *) = (int (*)(void *, void *))entry(library, "cuptiActivityRegisterCallbacks");
    int (*enable)(int) = (int (*)(int))entry(library, "cuptiActivityEnable");
    cupti.next = (int (*)(uint8_t *, size_t, void **))entry(library, "cuptiActivityGetNextRecord");
    cupti.flush = (int (*)(uint32_t))entry(library, "cuptiActivityFlushAll");
    if (hooks == NULL || enable == NULL || cupti.next == NULL || cupti.flush == NULL)
        return;
    cupti.span = malloc(KERNELS * sizeof *cupti.span);
    int r = cupti.span == NULL ? -1 : hooks((void *)buffer_wanted, (void *)buffer_full);
    if (r == 0)
        r = enable(CUPTI_CONCURRENT_KERNEL);
    if (r != 0)
        fprintf(stderr, "zecuda: CUPTI records no kernels (%d)\n", r);
}

/* ---- submits */
struct times *times_open(void) {
    struct times *t = wanted(NULL) ? calloc(1, sizeof *t) : NULL;
    for (uint32_t i = 0; t != NULL && i < SUBMITS; i++)
        if (!CUDA(cuEventCreate, &t->submit[i].begin, 0) || !CUDA(cuEventCreate, &t->submit[i].end, 0))
            abort();
    return t;
}

void times_before(struct times *t, cuda_stream s) {
    if (t == NULL)
        return;
    (void)CUDA(cuEventRecord, t->submit[t->n % SUBMITS].begin, s);
    t->called_ns = device_clock_ns();
}

void times_after(struct times *t, cuda_stream s, uint32_t kernels) {
    if (t == NULL)
        return;
    struct submit *u = &t->submit[t->n++ % SUBMITS];
    u->host_ns = device_clock_ns() - t->called_ns;
    u->wait_ns = 0;
    u->kernels = kernels;
    t->steps += kernels > 0;
    (void)CUDA(cuEventRecord, u->end, s);
}

void times_waited(struct times *t, uint64_t ns) {
    if (t != NULL && t->n > 0)
        t->submit[(t->n - 1) % SUBMITS].wait_ns += ns;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, uint32_t n) {
    if (n == 0)
        return 0;
    qsort(v, n, sizeof *v, ascending);
    return v[n / 2];
}

/* The number of kernels that most of the kept submits have, those without left out: transfers. */
static uint32_t usual(const struct times *t, uint32_t kept) {
    uint32_t best = 0, best_n = 0;
    for (uint32_t i = 0; i < kept; i++) {
        uint32_t n = 0;
        for (uint32_t j = 0; j < kept && t->submit[i].kernels > 0; j++)
            n += t->submit[j].kernels == t->submit[i].kernels;
        if (n > best_n)
            best_n = n, best = t->submit[i].kernels;
    }
    return best;
}

static int by_begin(const void *a, const void *b) {
    const struct span *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Gaps below the usual one between two steps are those inside a step. */
static void kernels_close(const struct device *d, uint32_t per_step) {
    if (cupti.span == NULL)
        return;
    (void)cupti.flush(CUPTI_FLUSH_FORCED);
    qsort(cupti.span, cupti.n, sizeof *cupti.span, by_begin);
    double *gap = malloc((cupti.n + 1) * sizeof *gap), busy = 0, inside = 0;
    uint32_t gaps = 0, first = cupti.n / 2; /* the second half: generation */
    for (uint32_t i = first; gap != NULL && i < cupti.n; i++) {
        busy += (double)(cupti.span[i].end - cupti.span[i].begin);
        if (i == first)
            continue;
        double g = (double)cupti.span[i].begin - (double)cupti.span[i - 1].end;
        if (g < NO_REPEAT)
            gap[gaps++] = g;
    }
    double middle = gap != NULL ? median(gap, gaps) : 0;
    uint32_t short_ones = per_step > 0 ? (uint32_t)((double)gaps * (per_step - 1) / per_step) : gaps;
    for (uint32_t i = 0; gap != NULL && i < short_ones; i++) /* sorted */
        inside += gap[i];
    fprintf(stderr,
            "zecuda: device %u: %u kernels by CUPTI, the second half of them: %.2f us each, gap inside a "
            "step %.2f us on average, "
            "%.2f the median\n",
            d->index, cupti.n, cupti.n > first ? busy / 1e3 / (cupti.n - first) : 0,
            short_ones > 0 ? inside / 1e3 / short_ones : 0, middle / 1e3);
    free(gap);
    for (uint32_t k = 0; k < NAMES && cupti.name[k][0] != '\0'; k++) {
        double sum = 0;
        uint32_t n = 0;
        for (uint32_t i = first; i < cupti.n; i++)
            if (cupti.span[i].name == k)
                n++, sum += (double)(cupti.span[i].end - cupti.span[i].begin);
        if (n > 0)
            fprintf(stderr, "zecuda:   %-28s %6u times %9.2f us each, %5.1f%%\n", cupti.name[k], n,
                    sum / 1e3 / n, 100 * sum / busy);
    }
    cupti.n = 0;
}

/* The value below which so many of n lie, in the middle of its bucket. */
static double quantile(const struct exchange_times *x, double share) {
    double n = 0, seen = 0;
    for (uint32_t i = 0; i < EXCHANGE_BUCKETS; i++)
        n += x->took[i];
    for (uint32_t i = 0; i < EXCHANGE_BUCKETS; i++)
        if ((seen += x->took[i]) >= share * n)
            return n > 0 ? i * 0.5 + 0.25 : 0;
    return 0;
}

static void exchanges_close(const struct device *d, uint64_t steps) {
    struct exchange_times x = {0};
    if (d->exchanges == 0 ||
        !CUDA(cuMemcpyAsync, (cuda_address)(uintptr_t)&x, d->exchanges, sizeof x, d->side) ||
        !CUDA(cuStreamSynchronize, d->side) || x.n == 0)
        return;
    fprintf(stderr,
            "zecuda: device %u: %llu exchanges; from the first value pushed to the last one there, in us: "
            "a tenth below %.1f, median %.1f, a tenth above %.1f; waiting %.1f each, %.1f in a step\n",
            d->index, (unsigned long long)x.n, quantile(&x, 0.1), quantile(&x, 0.5), quantile(&x, 0.9),
            (double)x.wait_ns / 1e3 / (double)x.n, (double)x.wait_ns / 1e3 / (double)steps);
}

void times_close(struct times *t, const struct device *d) {
    if (t == NULL || t->n == 0) {
        free(t);
        return;
    }
    uint32_t kept = t->n < SUBMITS ? (uint32_t)t->n : SUBMITS;
    uint32_t kernels = usual(t, kept), n = 0, gaps = 0;
    static double host[SUBMITS], wait[SUBMITS], busy[SUBMITS], gap[SUBMITS];
    for (uint64_t i = t->n - kept; i < t->n; i++) {
        const struct submit *u = &t->submit[i % SUBMITS], *last = &t->submit[(i + SUBMITS - 1) % SUBMITS];
        float ms = 0;
        if (u->kernels != kernels || !CUDA(cuEventElapsedTime, &ms, u->begin, u->end))
            continue;
        host[n] = (double)u->host_ns / 1e3;
        wait[n] = (double)u->wait_ns / 1e3;
        busy[n++] = ms * 1e3;
        if (i > t->n - kept && last->kernels == kernels &&
            CUDA(cuEventElapsedTime, &ms, last->end, u->begin) && ms * 1e6 < NO_REPEAT)
            gap[gaps++] = ms * 1e3;
    }
    fprintf(stderr,
            "zecuda: device %u: %llu submits; of the last %u, %u with %u kernels each; medians in us: host "
            "in the call %.1f, host "
            "waiting %.1f, device %.1f, device idle before the next %.1f\n",
            d->index, (unsigned long long)t->n, kept, n, kernels, median(host, n), median(wait, n),
            median(busy, n), median(gap, gaps));
    exchanges_close(d, t->steps);
    kernels_close(d, kernels);
    for (uint32_t i = 0; i < SUBMITS; i++) {
        (void)CUDA(cuEventDestroy_v2, t->submit[i].begin);
        (void)CUDA(cuEventDestroy_v2, t->submit[i].end);
    }
    free(t);
}
