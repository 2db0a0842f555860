/* Pictures of clients: JPEG, PNG and WebP files in memory, as rows of 8-bit red, green and blue.
 *
 * A picture is read in two steps. picture_look reads the file's headers, allocates nothing, checks the size
 * and says how much memory decoding needs. picture_decode works in that memory alone: the libraries
 * (libjpeg-turbo, libpng, libwebp) take all of theirs from the scratch of the caller.
 *
 * What a picture becomes: transparent parts lie on white; of 16 bits the upper 8 count; CMYK is converted as
 * (255 - C)(255 - K) / 255 with the inverted values that Adobe writes; of an animation the first frame
 * counts; the orientation that EXIF gives is honoured (an EXIF block that can't be read means upright);
 * colour profiles and gamma are ignored. These are the rules of Pillow (which Hugging Face's processors use),
 * apart from transparency, which Pillow's convert("RGB") drops, and 16-bit greys, which it clips.
 *
 * Errors: STATOR_USAGE for a file that is damaged, unknown, or larger than the limits; STATOR_DOES_NOT_FIT
 * when the file needs more scratch than picture_look said, which only hostile files do. Thread: any; calls
 * share nothing. */
#ifndef STATOR_PICTURE_PICTURE_H
#define STATOR_PICTURE_PICTURE_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum picture_kind { PICTURE_JPEG, PICTURE_PNG, PICTURE_WEBP };

struct picture_limits {
    uint32_t side;   /* the largest width or height, at most PICTURE_SIDE_MAX */
    uint64_t pixels; /* the largest width x height, at most PICTURE_PIXELS_MAX */
};

#define PICTURE_SIDE_MAX   65535u
#define PICTURE_PIXELS_MAX (1ull << 28)

struct picture_head {
    enum picture_kind kind;
    uint32_t width, height;               /* as it is seen: EXIF's orientation is applied */
    uint32_t stored_width, stored_height; /* as the file stores it */
    uint32_t orientation;                 /* EXIF's, 1 (upright) to 8 */
    uint64_t pixel_bytes;                 /* of picture_decode's pixels: four per pixel */
    uint64_t scratch_bytes;               /* of picture_decode's scratch */
};

/* A picture in memory that is someone else's. The pixel in column x of row y (from the top left as it is
 * seen) has its red, green and blue at origin + x step_x + y step_y: a turned picture is only walked
 * differently. */
struct picture {
    const uint8_t *origin;
    int64_t step_x, step_y;
    uint32_t width, height;
};

const char *picture_kind_name(enum picture_kind k); /* "JPEG" */

/* Reads the headers of a file of `size` bytes. data may be damaged in any way. */
stator_status picture_look(const uint8_t *data, uint64_t size, const struct picture_limits *limits,
                           struct picture_head *head, stator_error *e);

/* Decodes into pixels (head->pixel_bytes bytes, where the result stays) with the help of scratch
 * (head->scratch_bytes bytes, aligned to 64, free again afterwards). head is that of picture_look for the
 * same data. */
stator_status picture_decode(const uint8_t *data, uint64_t size, const struct picture_head *head,
                             uint8_t *pixels, void *scratch, struct picture *out, stator_error *e);

#endif
