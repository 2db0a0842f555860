#include "engine/run/picture_patches.h"

#include "engine/engine.h"
#include "engine/run/step_writer.h"

#include <math.h>
#include <string.h>

/* Of towers. */
#define ROPE_BASE        10000.0
#define GEMMA4_ROPE_BASE 100.0

static const struct tower *tower_of(const struct stator *s) {
    return s->planning.vision.tower;
}

static const struct planning_device *part_of(const struct stator *s) {
    return &s->planning.devices[planning_vision_at(&s->planning)];
}

/* Squares come window by window, and inside a window row by row; without windows the picture is one. */
struct squares {
    uint32_t across, down; /* of the picture */
    uint32_t wide, high;   /* of a window that no edge cuts */
};

static struct squares squares_of(const struct tower *t, const struct tower_size *size) {
    return (struct squares){size->across, size->down, t->window > 0 ? t->window : size->across,
                            t->window > 0 ? t->window : size->down};
}

/* Square k's row and column. */
static void place_of_square(const struct squares *s, uint32_t k, uint32_t *row, uint32_t *column) {
    const uint32_t above = k / (s->high * s->across) * s->high, high = ARITH_MIN(s->high, s->down - above);
    const uint32_t inside = k - above * s->across, left = inside / (high * s->wide) * s->wide;
    const uint32_t wide = ARITH_MIN(s->wide, s->across - left), rest = inside - left * high;
    *row = above + rest / wide;
    *column = left + rest % wide;
}

static uint32_t square_at(const struct squares *s, uint32_t row, uint32_t column) {
    const uint32_t above = row / s->high * s->high, high = ARITH_MIN(s->high, s->down - above);
    const uint32_t left = column / s->wide * s->wide, wide = ARITH_MIN(s->wide, s->across - left);
    return above * s->across + left * high + (row - above) * wide + (column - left);
}

uint32_t picture_patches_token(const struct tower *t, const struct tower_size *size, uint32_t k) {
    const struct squares s = squares_of(t, size);
    uint32_t row = 0, column = 0;
    place_of_square(&s, k, &row, &column);
    return row * size->across + column;
}

/* Patches in the order of arch/vision.h: the row and column of patch i, and which patch stands there. */
static void place_of_patch(const struct tower *t, const struct tower_size *size, uint32_t i, uint32_t *row,
                           uint32_t *column) {
    const struct squares s = squares_of(t, size);
    const uint32_t inside = i % (t->merge * t->merge);
    place_of_square(&s, i / (t->merge * t->merge), row, column);
    *row = *row * t->merge + inside / t->merge;
    *column = *column * t->merge + inside % t->merge;
}

static uint32_t patch_at(const struct tower *t, const struct tower_size *size, uint32_t row,
                         uint32_t column) {
    const struct squares s = squares_of(t, size);
    const uint32_t square = square_at(&s, row / t->merge, column / t->merge);
    return (square * t->merge + row % t->merge) * t->merge + column % t->merge;
}

/* Of each patch; out: of all of the picture's. */
static void write_windows(const struct tower *t, const struct tower_size *size, struct step_window *out) {
    const struct squares s = squares_of(t, size);
    const uint32_t each = t->merge * t->merge;
    uint32_t n = 0;
    for (uint32_t above = 0; above < s.down; above += s.high)
        for (uint32_t left = 0; left < s.across; left += s.wide) {
            const uint32_t first = square_at(&s, above, left) * each;
            const uint32_t patches =
                ARITH_MIN(s.high, s.down - above) * ARITH_MIN(s.wide, s.across - left) * each;
            for (uint32_t i = first; i < first + patches; i++) {
                out[i].first = first;
                out[i].n = patches;
            }
            out[n++].kth = first;
        }
    for (uint32_t i = 0; i < s.across * s.down * each; i++)
        out[i].all = n;
}

/* Half of a patch's angles: those of its row (half 0) or of its column, of gemma 4 the other way round.
 * Pixtral's rows have the even frequencies of a head and columns the odd ones; the others' have the same. */
static void write_half(const struct tower *t, uint32_t half, uint32_t place, float *out) {
    const uint32_t head = t->width / t->heads, quarter = head / 4;
    const double base = t->projector == TOWER_GEMMA4 ? GEMMA4_ROPE_BASE : ROPE_BASE;
    for (uint32_t j = 0; j < quarter && t->projector == TOWER_GEMMA3; j++) { /* has no RoPE */
        out[2 * j] = 1;
        out[2 * j + 1] = 0;
    }
    for (uint32_t j = 0; j < quarter && t->projector != TOWER_GEMMA3; j++) {
        const double k = t->projector == TOWER_PIXTRAL ? 2 * j + half : 2 * j;
        const double angle = place * pow(base, -2 * k / head);
        out[2 * j] = (float)cos(angle);
        out[2 * j + 1] = (float)sin(angle);
    }
}

/* Patches of the first column and row are written before the others of their row or column, which copy them:
 * an angle is computed once. */
static void write_angles(const struct tower *t, const struct tower_size *size, uint32_t i, float *angles,
                         uint32_t stride) {
    const uint32_t half = t->width / t->heads / 2; /* floats */
    uint32_t row = 0, column = 0;
    place_of_patch(t, size, i, &row, &column);
    const uint32_t at_row = t->projector == TOWER_GEMMA4 ? half : 0, at_column = half - at_row;
    float *of_row = angles + (size_t)i * stride + at_row,
          *of_column = angles + (size_t)i * stride + at_column;
    if (column == 0)
        write_half(t, 0, row, of_row);
    else
        memcpy(of_row, angles + (size_t)patch_at(t, size, row, 0) * stride + at_row, half * sizeof *angles);
    if (row == 0)
        write_half(t, 1, column, of_column);
    else
        memcpy(of_column, angles + (size_t)patch_at(t, size, 0, column) * stride + at_column,
               half * sizeof *angles);
}

/* A byte as the tower sees it. */
struct levels {
    float of[3][256];
};

static double level_of(const struct tower *t, uint32_t colour, uint32_t v) {
    const double x = (v / 255.0 - (double)t->mean[colour]) / (double)t->spread[colour];
    return t->projector == TOWER_GEMMA4 ? 2 * x - 1 : x;
}

static void make_levels(const struct tower *t, struct levels *l) {
    for (uint32_t c = 0; c < 3; c++)
        for (uint32_t v = 0; v < 256; v++)
            l->of[c][v] = (float)level_of(t, c, v);
}

static void write_pixels(const struct tower *t, const struct tower_size *size, const struct levels *levels,
                         const uint8_t *rgb, uint32_t i, float *out) {
    uint32_t row = 0, column = 0;
    place_of_patch(t, size, i, &row, &column);
    for (uint32_t c = 0; c < 3; c++)
        for (uint32_t y = 0; y < t->patch; y++) {
            const uint8_t *from =
                rgb + 3 * ((uint64_t)(row * t->patch + y) * size->width + (uint64_t)column * t->patch) + c;
            for (uint32_t x = 0; x < t->patch; x++)
                *out++ = levels->of[c][from[3 * x]];
        }
}

/* Where patch `at` of n lies among `side` positions, the first patch on the first one and the last on the
 * last: between *first and the next, whose part is *next. */
static void between(uint32_t at, uint32_t n, uint32_t side, uint32_t *first, double *next) {
    const uint64_t far = (uint64_t)at * (side - 1), steps = n > 1 ? n - 1 : 1;
    *first = (uint32_t)(far / steps);
    *next = (double)(far % steps) / (double)steps;
}

/* The table of positions is a square, which is interpolated linearly in both directions. Gemma 4 has one row
 * for the column and one for the row. */
static void write_blend(const struct tower *t, const struct tower_size *size, uint32_t i,
                        struct step_blend *out) {
    const uint32_t side = t->image_size / t->patch;
    uint32_t row = 0, column = 0, y = 0, x = 0;
    double down = 0, right = 0;
    place_of_patch(t, size, i, &row, &column);
    if (t->projector == TOWER_GEMMA4) {
        *out = (struct step_blend){.row = {column, t->axis_rows + row}, .factor = {1, 1}};
        return;
    }
    between(row, size->down * t->merge, side, &y, &down);
    between(column, size->across * t->merge, side, &x, &right);
    for (uint32_t k = 0; k < 4; k++) {
        const uint32_t ny = ARITH_MIN(y + k / 2, side - 1), nx = ARITH_MIN(x + k % 2, side - 1);
        out->row[k] = ny * side + nx;
        out->factor[k] = (float)((k / 2 == 1 ? down : 1 - down) * (k % 2 == 1 ? right : 1 - right));
    }
}

/* What of the patches is data. */
static void write_patches(const struct stator *s, const struct picture_place *p, uint32_t patches,
                          struct step_header *h, uint8_t *slot) {
    const struct tower *t = tower_of(s);
    const struct graph *g = &part_of(s)->graph;
    const size_t width = 3 * (size_t)t->patch * t->patch;
    float *pixels = step_writer_value(s, planning_vision_at(&s->planning), g->pictures, 0);
    float *angles = (float *)(void *)(slot + h->at_rope);
    struct levels levels;
    make_levels(t, &levels);
    struct step_blend *blends = NULL;
    if (g->blends != GRAPH_NONE)
        blends =
            (struct step_blend *)(void *)step_writer_value(s, planning_vision_at(&s->planning), g->blends, 0);
    if (g->windows != GRAPH_NONE)
        write_windows(t, &p->size,
                      (struct step_window *)(void *)step_writer_value(s, planning_vision_at(&s->planning),
                                                                      g->windows, 0));
    for (uint32_t i = 0; i < patches; i++) {
        write_angles(t, &p->size, i, angles, h->rope_stride);
        write_pixels(t, &p->size, &levels, p->memory, i, pixels + i * width);
        if (blends != NULL)
            write_blend(t, &p->size, i, &blends[i]);
    }
}

void picture_patches_write(const struct stator *s, const struct picture_place *p, uint8_t *slot) {
    const struct tower *t = tower_of(s);
    struct step_header *h = (struct step_header *)(void *)slot;
    const uint32_t patches = p->size.across * p->size.down * t->merge * t->merge;
    h->run_body = STEP_BODY;
    h->n_tokens = patches;
    h->n_chunks = 1;
    h->n_rows = p->size.across * p->size.down;
    h->want_logits = 1;
    *(struct step_chunk *)(void *)(slot + h->at_chunks) = (struct step_chunk){.n = patches};
    memset(slot + h->at_tokens, 0, patches * sizeof(int32_t));
    memset(slot + h->at_rows, 0, h->n_rows * sizeof(uint32_t));
    for (uint32_t i = 0; i < h->n_caches; i++) {
        uint32_t *table = (uint32_t *)(void *)(slot + h->cache[i].at_tables);
        h->cache[i].n_fill = 0;
        for (uint32_t k = 0; k < h->cache[i].table_stride; k++)
            table[k] = k;
    }
    write_patches(s, p, patches, h, slot);
}
