#include "picture/picture_inside.h"

#include <inttypes.h>
#include <string.h>

/* A row per format. */
static const struct format {
    const char *name;
    uint32_t n_magic, at; /* the magic bytes and where they stand */
    const char *magic;
    stator_status (*look)(const uint8_t *, uint64_t, struct picture_head *, stator_error *);
    stator_status (*decode)(const uint8_t *, uint64_t, const struct picture_head *, uint8_t *,
                            struct picture_arena *, enum picture_cells *, stator_error *);
} formats[] = {
    [PICTURE_JPEG] = {"JPEG", 3, 0, "\xFF\xD8\xFF", picture_jpeg_look, picture_jpeg_decode},
    [PICTURE_PNG] = {"PNG", 8, 0, "\x89PNG\r\n\x1A\n", picture_png_look, picture_png_decode},
    [PICTURE_WEBP] = {"WebP", 4, 8, "WEBP", picture_webp_look, picture_webp_decode},
};

const char *picture_kind_name(enum picture_kind k) {
    return formats[k].name;
}

void *picture_arena_take(struct picture_arena *a, uint64_t bytes) {
    uint64_t whole, end;
    /* 64 bytes in front hold where the block begins, so that the last one can be given back. */
    if (!arith_align_up(bytes, 64, &whole) || !arith_add(whole, 64, &whole) ||
        !arith_add(a->used, whole, &end) || end > a->capacity) {
        a->short_of = true;
        return NULL;
    }
    uint8_t *block = a->base + a->used;
    memcpy(block, &end, sizeof end);
    a->used = end;
    return block + 64;
}

void picture_arena_give(struct picture_arena *a, void *block) {
    if (block == NULL)
        return;
    uint8_t *head = (uint8_t *)block - 64;
    CHECK(head >= a->base && head < a->base + a->capacity);
    uint64_t end;
    memcpy(&end, head, sizeof end);
    if (end == a->used)
        a->used = (uint64_t)(head - a->base);
}

static stator_status unknown(const uint8_t *data, uint64_t size, stator_error *e) {
    const char *what = size >= 6 && (memcmp(data, "GIF87a", 6) == 0 || memcmp(data, "GIF89a", 6) == 0)
                           ? "a GIF"
                       : size >= 12 && memcmp(data + 4, "ftyp", 4) == 0 ? "an AVIF or HEIC"
                       : size >= 2 && memcmp(data, "BM", 2) == 0        ? "a BMP"
                                                                        : NULL;
    if (what != NULL)
        return error_set(e, STATOR_USAGE, "the picture is %s file; stator reads JPEG, PNG and WebP", what);
    return error_set(e, STATOR_USAGE,
                     "the picture's %" PRIu64 " bytes begin as no JPEG, PNG or WebP file does", size);
}

static stator_status check_size(const struct picture_head *h, const struct picture_limits *limits,
                                stator_error *e) {
    const uint32_t w = h->stored_width, ht = h->stored_height;
    if (w == 0 || ht == 0)
        return error_set(e, STATOR_USAGE, "%s picture: its size is %" PRIu32 "x%" PRIu32 " pixels",
                         formats[h->kind].name, w, ht);
    if (w > limits->side || ht > limits->side || (uint64_t)w * ht > limits->pixels)
        return error_set(e, STATOR_USAGE,
                         "%s picture of %" PRIu32 "x%" PRIu32 " pixels: at most %" PRIu32
                         " a side and %" PRIu64 " in all are taken; make it smaller",
                         formats[h->kind].name, w, ht, limits->side, limits->pixels);
    return STATOR_OK;
}

stator_status picture_look(const uint8_t *data, uint64_t size, const struct picture_limits *limits,
                           struct picture_head *head, stator_error *e) {
    CHECK(limits->side <= PICTURE_SIDE_MAX && limits->pixels <= PICTURE_PIXELS_MAX);
    uint32_t k = 0;
    while (k < sizeof formats / sizeof formats[0] &&
           (size < formats[k].at + formats[k].n_magic ||
            memcmp(data + formats[k].at, formats[k].magic, formats[k].n_magic) != 0))
        k++;
    if (k == sizeof formats / sizeof formats[0])
        return unknown(data, size, e);
    *head = (struct picture_head){.kind = (enum picture_kind)k, .orientation = 1};
    stator_status s = formats[k].look(data, size, head, e);
    if (s != STATOR_OK) {
        error_prefix(e, "%s picture", formats[k].name);
        return s;
    }
    s = check_size(head, limits, e);
    if (s != STATOR_OK)
        return s;
    const bool lies = head->orientation >= 5; /* these four swap the sides */
    head->width = lies ? head->stored_height : head->stored_width;
    head->height = lies ? head->stored_width : head->stored_height;
    head->pixel_bytes = 4 * (uint64_t)head->stored_width * head->stored_height;
    return STATOR_OK;
}

/* Four bytes per pixel to three, from the front: what is written never overtakes what is read. */
static void to_rgb(uint8_t *pixels, uint64_t n, enum picture_cells cells) {
    for (uint64_t i = 0; i < n && cells != PICTURE_RGB; i++) {
        const uint8_t *from = pixels + 4 * i;
        const uint32_t last = from[3];
        const uint8_t cell[3] = {from[0], from[1], from[2]};
        for (uint32_t c = 0; c < 3; c++)
            /* on white: c a + 255 (1 - a); CMYK: ink times black, both inverted */
            pixels[3 * i + c] =
                (uint8_t)(cells == PICTURE_RGBA ? (2 * (cell[c] * last + 255 * (255 - last)) + 255) / 510
                                                : picture_mul255(cell[c], last));
    }
}

/* EXIF's orientation as a walk: 2 mirrors, 3 turns by 180 degrees, 4 mirrors top and bottom, 5 to 8 are 1, 4,
 * 2 and 3 with the sides swapped. */
static void turn(const struct picture_head *h, const uint8_t *rgb, struct picture *out) {
    const int64_t across = 3, down = 3 * (int64_t)h->stored_width;
    const uint32_t o = h->orientation;
    const bool swap = o >= 5;
    const bool from_right = o == 2 || o == 3 || o == 7 || o == 8;
    const bool from_bottom = o == 3 || o == 4 || o == 6 || o == 7;
    const int64_t x = from_right ? -across : across, y = from_bottom ? -down : down;
    out->origin = rgb + (from_right ? (int64_t)(h->stored_width - 1) * across : 0) +
                  (from_bottom ? (int64_t)(h->stored_height - 1) * down : 0);
    out->step_x = swap ? y : x;
    out->step_y = swap ? x : y;
    out->width = h->width;
    out->height = h->height;
}

stator_status picture_decode(const uint8_t *data, uint64_t size, const struct picture_head *head,
                             uint8_t *pixels, void *scratch, struct picture *out, stator_error *e) {
    CHECK((uintptr_t)scratch % 64 == 0);
    struct picture_arena arena = {.base = scratch, .capacity = head->scratch_bytes};
    enum picture_cells cells = PICTURE_RGB;
    stator_status s = formats[head->kind].decode(data, size, head, pixels, &arena, &cells, e);
    if (s != STATOR_OK && arena.short_of)
        s = error_set(e, STATOR_DOES_NOT_FIT,
                      "decoding needs more than the %" PRIu64 " bytes that a picture of this size may take",
                      head->scratch_bytes);
    if (s != STATOR_OK) {
        error_prefix(e, "%s picture of %" PRIu32 "x%" PRIu32 " pixels", formats[head->kind].name,
                     head->stored_width, head->stored_height);
        return s;
    }
    to_rgb(pixels, (uint64_t)head->stored_width * head->stored_height, cells);
    turn(head, pixels, out);
    return STATOR_OK;
}
