/* What the files of the room share: the arena that stands in for malloc, and the functions of each format. */
#ifndef STATOR_PICTURE_PICTURE_INSIDE_H
#define STATOR_PICTURE_PICTURE_INSIDE_H

#include "base/arith.h"
#include "picture/picture.h"

/* Memory for a library. Blocks come one behind the other; only the last one can be given back, which is
 * enough for libraries that allocate what a file's size says and free it at the end. */
struct picture_arena {
    uint8_t *base; /* aligned to 64 */
    uint64_t used, capacity;
    bool short_of; /* a block did not fit */
};

void *picture_arena_take(struct picture_arena *a, uint64_t bytes); /* aligned to 64; NULL: no room */
void picture_arena_give(struct picture_arena *a, void *block);     /* NULL is allowed */

/* What a decoder left in the pixels. */
enum picture_cells {
    PICTURE_RGB,  /* three bytes per pixel, rows without gaps */
    PICTURE_RGBA, /* four; red, green, blue not multiplied with alpha */
    PICTURE_CMYK  /* four; inverted, as Adobe writes them */
};

/* Each _look fills stored_width, stored_height, orientation and scratch_bytes, and checks no limits. Each
 * _decode finds in *arena all memory that it may use. */
stator_status picture_jpeg_look(const uint8_t *data, uint64_t size, struct picture_head *head,
                                stator_error *e);
stator_status picture_jpeg_decode(const uint8_t *data, uint64_t size, const struct picture_head *head,
                                  uint8_t *pixels, struct picture_arena *arena, enum picture_cells *cells,
                                  stator_error *e);
stator_status picture_png_look(const uint8_t *data, uint64_t size, struct picture_head *head,
                               stator_error *e);
stator_status picture_png_decode(const uint8_t *data, uint64_t size, const struct picture_head *head,
                                 uint8_t *pixels, struct picture_arena *arena, enum picture_cells *cells,
                                 stator_error *e);
stator_status picture_webp_look(const uint8_t *data, uint64_t size, struct picture_head *head,
                                stator_error *e);
stator_status picture_webp_decode(const uint8_t *data, uint64_t size, const struct picture_head *head,
                                  uint8_t *pixels, struct picture_arena *arena, enum picture_cells *cells,
                                  stator_error *e);

/* The orientation (1 to 8) in a TIFF structure, as EXIF has it; 1 if it names none or can't be read. */
uint32_t picture_exif_orientation(const uint8_t *tiff, uint64_t size);

/* Unsigned integers of a file; the bytes are there. */
static inline uint32_t picture_be16(const uint8_t *p) {
    return (uint32_t)p[0] << 8 | p[1];
}
static inline uint32_t picture_be32(const uint8_t *p) {
    return picture_be16(p) << 16 | picture_be16(p + 2);
}
static inline uint32_t picture_le16(const uint8_t *p) {
    return (uint32_t)p[1] << 8 | p[0];
}
static inline uint32_t picture_le24(const uint8_t *p) {
    return (uint32_t)p[2] << 16 | picture_le16(p);
}
static inline uint32_t picture_le32(const uint8_t *p) {
    return picture_le16(p + 2) << 16 | picture_le16(p);
}

/* a b / 255, rounded to nearest; a and b are at most 255. */
static inline uint32_t picture_mul255(uint32_t a, uint32_t b) {
    return (2 * a * b + 255) / 510;
}

#endif
