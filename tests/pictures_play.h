/* What tests of pictures share: files, and values that another program wrote (tools/reference_tower.py,
 * tools/reference_pictures.py). */
#ifndef STATOR_TESTS_PICTURES_PLAY_H
#define STATOR_TESTS_PICTURES_PLAY_H

#include "testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* At most 1 MiB of a file, malloced. */
static inline char *pictures_read(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char *data = malloc(1 << 20);
    assert_non_null(data);
    *n = fread(data, 1, 1 << 20, f);
    fclose(f);
    return data;
}

/* The values differ from those of the file by less than 1e-3. */
static inline void pictures_compare(const char *what, const float *values, const char *path, size_t floats) {
    size_t bytes = 0;
    char *reference = pictures_read(path, &bytes);
    assert_int_equal(bytes, floats * sizeof(float));
    double worst = 0, largest = 0;
    for (size_t i = 0; i < floats; i++) {
        float want;
        memcpy(&want, reference + i * sizeof want, sizeof want);
        worst = fmax(worst, fabs((double)values[i] - (double)want));
        largest = fmax(largest, fabs((double)want));
    }
    print_message("%s: largest difference %g of values up to %g\n", what, worst, largest);
    assert_true(largest > 0.1 && worst < 1e-3);
    free(reference);
}

#endif
