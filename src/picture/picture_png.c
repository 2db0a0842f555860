/* PNG through libpng. Source of the chunks: W3C, Portable Network Graphics (PNG) Specification. */
#include "picture/picture_inside.h"

#include <inttypes.h>
#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

enum { SIGNATURE = 8, CHUNK = 12, IHDR = 13 };

/* The orientation in the chunk eXIf, wherever it stands. */
static uint32_t orientation_of(const uint8_t *data, uint64_t size) {
    uint64_t at = SIGNATURE;
    while (size - at >= CHUNK) {
        const uint64_t n = picture_be32(data + at);
        if (n > size - at - CHUNK)
            break;
        if (memcmp(data + at + 4, "eXIf", 4) == 0)
            return picture_exif_orientation(data + at + 8, n);
        at += CHUNK + n;
    }
    return 1;
}

stator_status picture_png_look(const uint8_t *data, uint64_t size, struct picture_head *head,
                               stator_error *e) {
    if (size < SIGNATURE + CHUNK + IHDR)
        return error_set(e, STATOR_USAGE, "the data ends in its headers, after %" PRIu64 " bytes", size);
    const uint8_t *chunk = data + SIGNATURE;
    if (picture_be32(chunk) != IHDR || memcmp(chunk + 4, "IHDR", 4) != 0)
        return error_set(e, STATOR_USAGE, "its first chunk is no IHDR of %d bytes", IHDR);
    head->stored_width = picture_be32(chunk + 8);
    head->stored_height = picture_be32(chunk + 12);
    head->orientation = orientation_of(data, size);
    /* Three rows of 16-bit red, green, blue and alpha, zlib's window and state, the structures. */
    head->scratch_bytes = 192 * 1024 + 32 * (uint64_t)head->stored_width;
    return STATOR_OK;
}

struct work {
    png_structp png;
    const uint8_t *data;
    uint64_t size, at;
    struct picture_arena *arena;
    char text[160]; /* why it failed */
};

static _Noreturn void on_error(png_structp png, png_const_charp message) {
    struct work *w = png_get_error_ptr(png);
    snprintf(w->text, sizeof w->text, "the data is wrong: %s", message);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp message) {
    (void)png, (void)message;
}

static png_voidp take(png_structp png, png_alloc_size_t bytes) {
    struct work *w = png_get_mem_ptr(png);
    return picture_arena_take(w->arena, bytes);
}

static void give(png_structp png, png_voidp block) {
    struct work *w = png_get_mem_ptr(png);
    picture_arena_give(w->arena, block);
}

static void read_bytes(png_structp png, png_bytep out, size_t n) {
    struct work *w = png_get_io_ptr(png);
    if (n > w->size - w->at) {
        snprintf(w->text, sizeof w->text, "the data ends before the picture does");
        png_longjmp(png, 1);
    }
    memcpy(out, w->data + w->at, n);
    w->at += n;
}

/* Any kind of PNG as four bytes per pixel. */
static void want_rgba(png_structp png, png_infop info) {
    png_set_expand(png); /* palettes, greys of fewer than 8 bits, transparent colours */
    png_set_strip_16(png);
    png_set_gray_to_rgb(png);
    png_set_add_alpha(png, 255, PNG_FILLER_AFTER);
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
}

/* Leaves with longjmp if something is wrong. */
static void read_all(struct work *w, const struct picture_head *head, uint8_t *pixels) {
    png_infop info = png_create_info_struct(w->png);
    if (info == NULL)
        png_error(w->png, "no memory");
    png_set_read_fn(w->png, w, read_bytes);
    png_set_user_limits(w->png, head->stored_width, head->stored_height);
    /* Texts, profiles and other chunks that no pixel needs are not read: some unpack to any size. */
    png_set_keep_unknown_chunks(w->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_read_info(w->png, info);
    const uint64_t row = 4 * (uint64_t)head->stored_width;
    const int passes = png_get_interlace_type(w->png, info) == PNG_INTERLACE_ADAM7 ? 7 : 1;
    want_rgba(w->png, info);
    if (png_get_image_width(w->png, info) != head->stored_width ||
        png_get_image_height(w->png, info) != head->stored_height || png_get_rowbytes(w->png, info) != row)
        png_error(w->png, "its headers contradict each other");
    for (int pass = 0; pass < passes; pass++)
        for (uint32_t y = 0; y < head->stored_height; y++)
            png_read_row(w->png, pixels + y * row, NULL);
}

stator_status picture_png_decode(const uint8_t *data, uint64_t size, const struct picture_head *head,
                                 uint8_t *pixels, struct picture_arena *arena, enum picture_cells *cells,
                                 stator_error *e) {
    struct work w = {.data = data, .size = size, .arena = arena};
    *cells = PICTURE_RGBA;
    memset(pixels, 0, head->pixel_bytes); /* passes of an interlaced picture read what is there */
    w.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &w, on_error, on_warning, &w, take, give);
    if (w.png == NULL)
        return error_set(e, STATOR_DOES_NOT_FIT, "libpng can't start");
    if (setjmp(png_jmpbuf(w.png)) == 0)
        read_all(&w, head, pixels);
    /* The arena is the caller's: nothing has to be freed. */
    return w.text[0] == '\0' ? STATOR_OK : error_set(e, STATOR_USAGE, "%s", w.text);
}
