#include "picture/picture_resize.h"

#include "base/carve.h"

enum { WEIGHT_BITS = 22 };

/* One direction: output i is the sum of the inputs from[i] .. from[i] + n[i] - 1, each with its weight. */
struct taps {
    uint32_t *from, *n;
    int32_t *weights; /* rows of `most` */
    double *exact;    /* of one output */
    uint64_t most;
};

static double triangle(double x) {
    x = x < 0 ? -x : x;
    return x < 1.0 ? 1.0 - x : 0.0;
}

/* R. Keys, Cubic convolution interpolation for digital image processing (1981), with a = -1/2. */
static double cubic(double x) {
    const double a = -0.5;
    x = x < 0 ? -x : x;
    if (x < 1.0)
        return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
    return x < 2.0 ? (((x - 5) * x + 8) * x - 4) * a : 0.0;
}

static const struct {
    double half; /* width */
    double (*at)(double);
} filters[] = {[PICTURE_BILINEAR] = {1.0, triangle}, [PICTURE_BICUBIC] = {2.0, cubic}};

static void carve_taps(struct carve *c, uint32_t from, uint32_t to, enum picture_filter filter,
                       struct taps *t) {
    const uint64_t half = (uint64_t)filters[filter].half;
    t->most = 2 * ARITH_MAX(half, arith_ceil_div(half * from, to)) + 1;
    t->from = carve_take(c, to, sizeof *t->from);
    t->n = carve_take(c, to, sizeof *t->n);
    t->weights = carve_take(c, t->most * to, sizeof *t->weights);
    t->exact = carve_take(c, t->most, sizeof *t->exact);
}

/* The sum of the weights is 1 before they are rounded. */
static void fill_taps(struct taps *t, uint32_t from, uint32_t to, enum picture_filter filter) {
    const double scale = (double)from / to, wide = scale < 1.0 ? 1.0 : scale;
    const double half = filters[filter].half * wide, narrow = 1.0 / wide;
    for (uint32_t i = 0; i < to; i++) {
        const double centre = (i + 0.5) * scale, left = centre - half + 0.5, right = centre + half + 0.5;
        const uint32_t begin = left > 0 ? (uint32_t)left : 0, end = right < from ? (uint32_t)right : from;
        double sum = 0;
        CHECK(end > begin && end - begin <= t->most);
        for (uint32_t k = 0; k < end - begin; k++) {
            t->exact[k] = filters[filter].at(((double)(k + begin) - centre + 0.5) * narrow);
            sum += t->exact[k];
        }
        for (uint32_t k = 0; k < end - begin; k++) {
            const double w = sum != 0 ? t->exact[k] / sum : t->exact[k];
            t->weights[i * t->most + k] = (int32_t)((w < 0 ? -0.5 : 0.5) + w * (1 << WEIGHT_BITS));
        }
        t->from[i] = begin;
        t->n[i] = end - begin;
    }
}

/* One pixel: the taps of output i over pixels that lie `step` bytes apart. */
static void weigh(const struct taps *t, uint32_t i, const uint8_t *first, int64_t step, uint8_t *out) {
    const int32_t *w = t->weights + i * t->most;
    const uint8_t *at = first + t->from[i] * step;
    int32_t sum[3] = {1 << (WEIGHT_BITS - 1), 1 << (WEIGHT_BITS - 1), 1 << (WEIGHT_BITS - 1)};
    for (uint32_t k = 0; k < t->n[i]; k++, at += step)
        for (uint32_t c = 0; c < 3; c++)
            sum[c] += at[c] * w[k];
    for (uint32_t c = 0; c < 3; c++)
        out[c] = (uint8_t)(sum[c] < 0 ? 0 : ARITH_MIN(sum[c] >> WEIGHT_BITS, 255));
}

struct work {
    struct taps across, down;
    uint8_t *rows; /* as wide as the result, as high as the picture */
};

static void carve_work(struct carve *c, uint32_t width, uint32_t height, uint32_t to_width,
                       uint32_t to_height, enum picture_filter filter, struct work *w) {
    carve_taps(c, width, to_width, filter, &w->across);
    carve_taps(c, height, to_height, filter, &w->down);
    w->rows = carve_take(c, (uint64_t)to_width * height, 3);
}

uint64_t picture_resize_bytes(uint32_t width, uint32_t height, uint32_t to_width, uint32_t to_height,
                              enum picture_filter filter) {
    struct carve c = carve_count();
    struct work w;
    carve_work(&c, width, height, to_width, to_height, filter, &w);
    return c.used;
}

/* Along the rows, if the width changes; else a copy without gaps and turns. */
static void resize_across(const struct picture *p, uint32_t to_width, const struct taps *t, uint8_t *rows) {
    for (uint32_t y = 0; y < p->height; y++)
        for (uint32_t x = 0; x < to_width; x++) {
            const uint8_t *row = p->origin + y * p->step_y;
            uint8_t *out = rows + 3 * ((uint64_t)y * to_width + x);
            if (to_width != p->width)
                weigh(t, x, row, p->step_x, out);
            else
                for (uint32_t c = 0; c < 3; c++)
                    out[c] = row[x * p->step_x + c];
        }
}

void picture_resize(const struct picture *p, uint32_t to_width, uint32_t to_height,
                    enum picture_filter filter, uint8_t *rgb, void *scratch, uint64_t scratch_bytes) {
    struct carve c = carve_in(scratch, scratch_bytes);
    struct work w;
    carve_work(&c, p->width, p->height, to_width, to_height, filter, &w);
    fill_taps(&w.across, p->width, to_width, filter);
    fill_taps(&w.down, p->height, to_height, filter);
    const bool copies = to_height == p->height;
    resize_across(p, to_width, &w.across, copies ? rgb : w.rows);
    const int64_t row = 3 * (int64_t)to_width;
    for (uint32_t y = 0; y < to_height && !copies; y++)
        for (uint32_t x = 0; x < to_width; x++)
            weigh(&w.down, y, w.rows + 3 * (uint64_t)x, row, rgb + y * row + 3 * (uint64_t)x);
}
