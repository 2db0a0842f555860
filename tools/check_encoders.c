/* Squared error of our encoders against that of ggml's quantiser on the same input, and the seconds that each
 * takes on one thread. ggml comes from a prebuilt library:
 *
 *     gcc -D_GNU_SOURCE -O2 -Isrc -Iinclude -o check_encoders tools/check_encoders.c BUILD/libstator.a
 * -lxxhash -lm check_encoders LIBGGML_BASE [ROWS [TYPE]]
 *
 * BUILD is what `make print-build` says, LIBGGML_BASE the libggml-base.so of the npm package node-llama-cpp.
 * Exit 1: an encoder has more error than ggml's, or (where the bytes are to be equal) other bytes. */
#include "formats/encode.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COLS 1024

typedef size_t (*quantize_chunk)(int type, const float *src, void *dst, int64_t start, int64_t n_rows,
                                 int64_t n_per_row, const float *imatrix);

static uint64_t state = 20261125;

static double uniform(void) {
    uint64_t z = (state += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return ((double)((z ^ (z >> 31)) >> 11) + 0.5) * 0x1p-53;
}

/* Of this thread: others may use the machine. */
static uint64_t cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static double normal(void) {
    return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

/* Inputs that weights look like, and some that they do not. */
static const char *const kinds[] = {"normal", "heavy tails", "all above 0", "few outliers", "one value"};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static float value(int kind, size_t i) {
    switch (kind) {
    case 0:
        return (float)(normal() * 0.02);
    case 1:
        return (float)(normal() / sqrt(0.2 + uniform()) * exp(normal()) * 0.01);
    case 2:
        return (float)(uniform() * 0.1 + 0.3);
    case 3:
        return (float)(normal() * (i % 97 == 0 ? 1.0 : 0.02));
    default:
        return i % 512 < 256 ? 0.25f : -0.25f;
    }
}

static double error_of(uint32_t type, const uint8_t *rows, const float *x, const float *w, size_t n_rows) {
    uint64_t bytes = 0;
    (void)block_row_bytes(type, COLS, &bytes);
    float out[COLS];
    double sum = 0;
    for (size_t r = 0; r < n_rows; r++) {
        block_decode_row(type, rows + r * bytes, out, COLS);
        for (size_t i = 0; i < COLS; i++) {
            const double off = (double)x[r * COLS + i] - (double)out[i];
            sum += off * off * (w != NULL ? (double)w[i] : 1);
        }
    }
    return sum;
}

static bool same_bytes_wanted(uint32_t type) {
    return type == BLOCK_Q8_0 || type == BLOCK_Q4_0 || type == BLOCK_Q4_1 || type == BLOCK_Q5_0 ||
           type == BLOCK_Q5_1 || type == BLOCK_TQ1_0 || type == BLOCK_TQ2_0;
}

static bool is_grid(uint32_t type) {
    return type == BLOCK_IQ3_S || type == BLOCK_IQ3_XXS || type == BLOCK_IQ2_S || type == BLOCK_IQ2_XS ||
           type == BLOCK_IQ2_XXS || type == BLOCK_IQ1_S || type == BLOCK_IQ1_M;
}

static int check(uint32_t type, int kind, bool weighted, const float *x, const float *w, size_t n_rows,
                 quantize_chunk ggml) {
    uint64_t bytes = 0;
    (void)block_row_bytes(type, COLS, &bytes);
    uint8_t *ours = calloc(n_rows, bytes);
    uint8_t *theirs = calloc(n_rows, bytes);
    const float *use = weighted ? w : NULL;
    float ones[COLS]; /* ggml refuses some types without weights */
    for (size_t i = 0; i < COLS; i++)
        ones[i] = 1;
    if (is_grid(type)) /* its tables are made once */
        ggml((int)type, x, theirs, 0, 1, COLS, ones);
    uint64_t t0 = cpu_ns();
    for (size_t r = 0; r < n_rows; r++)
        encode_row(type, x + r * COLS, use, ours + r * bytes, COLS);
    uint64_t t1 = cpu_ns();
    ggml((int)type, x, theirs, 0, (int64_t)n_rows, COLS, use == NULL && is_grid(type) ? ones : use);
    uint64_t t2 = cpu_ns();
    const double a = error_of(type, ours, x, use, n_rows), b = error_of(type, theirs, x, use, n_rows);
    const bool same = memcmp(ours, theirs, n_rows * bytes) == 0;
    const bool good = same_bytes_wanted(type) && !weighted ? same : a <= b;
    const double each = 1.0 / (double)(n_rows * COLS);
    printf("%-8s %-13s %-9s %12.6g %12.6g  %6.4f  %7.1f ns %7.1f ns  %s\n", block_info(type)->name,
           kinds[kind], weighted ? "weighted" : "", a, b, b > 0 ? a / b : 1, (double)(t1 - t0) * each,
           (double)(t2 - t1) * each,
           same   ? "same bytes"
           : good ? ""
                  : "WORSE");
    free(ours);
    free(theirs);
    return good ? 0 : 1;
}

int main(int argc, char **argv) {
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    quantize_chunk ggml = NULL;
    if (library != NULL)
        *(void **)&ggml = dlsym(library, "ggml_quantize_chunk");
    if (ggml == NULL) {
        fprintf(stderr, "usage: check_encoders LIBGGML_BASE [ROWS [TYPE]]: %s\n", argc > 1 ? dlerror() : "");
        return 2;
    }
    const size_t n_rows = argc > 2 ? strtoul(argv[2], NULL, 10) : 32;
    float *x = malloc(n_rows * COLS * sizeof *x);
    float w[COLS];
    int bad = 0;
    for (size_t i = 0; i < COLS; i++)
        w[i] = (float)exp(normal());
    printf("%-8s %-13s %-9s %12s %12s  %6s  %10s %10s\n", "type", "input", "", "ours", "ggml", "ratio",
           "ours", "ggml");
    for (uint32_t type = 0; type < BLOCK_TYPES; type++)
        for (int kind = 0; kind < KINDS && type != BLOCK_F32 && encode_can(type); kind++) {
            for (size_t i = 0; i < n_rows * COLS; i++)
                x[i] = value(kind, i);
            if (argc > 3 && strcmp(argv[3], block_info(type)->name) != 0)
                continue;
            bad += check(type, kind, false, x, w, n_rows, ggml);
            if (type != BLOCK_Q8_0 && block_info(type)->values > 1)
                bad += check(type, kind, true, x, w, n_rows, ggml);
        }
    free(x);
    return bad != 0;
}
