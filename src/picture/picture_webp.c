/* WebP through libwebp. Source of the container: Google, WebP Container Specification. */
#include "picture/picture_inside.h"
#include "picture/webp_memory.h"

#include <inttypes.h>
#include <string.h>
#include <webp/decode.h>

enum {
    RIFF = 12,         /* "RIFF", a size, "WEBP" */
    CHUNK = 8,         /* a name and a size in front of each */
    FRAME = 16,        /* of an ANMF chunk, in front of the frame's own chunks */
    GROUP = 18432,     /* bytes of a lossless picture's tables of codes, per group */
    GROUPS_MOST = 2600 /* that libwebp's own encoder writes */
};

/* The picture itself: the whole file, or the first frame of an animation, and where that lies. */
struct still {
    const uint8_t *data;
    uint64_t size;
    uint32_t x, y, width, height;
    bool lossless;
};

/* The first chunk `name` of the file: its data, or NULL. */
static const uint8_t *find_chunk(const uint8_t *data, uint64_t size, const char *name, uint64_t *n) {
    uint64_t at = RIFF;
    while (at <= size && size - at >= CHUNK) {
        const uint64_t bytes = picture_le32(data + at + 4);
        if (bytes > size - at - CHUNK)
            break;
        if (memcmp(data + at, name, 4) == 0) {
            *n = bytes;
            return data + at + CHUNK;
        }
        at += CHUNK + bytes + bytes % 2;
    }
    return NULL;
}

static stator_status features(const uint8_t *data, uint64_t size, WebPBitstreamFeatures *f, stator_error *e) {
    switch (WebPGetFeatures(data, size, f)) {
    case VP8_STATUS_OK:
        return STATOR_OK;
    case VP8_STATUS_NOT_ENOUGH_DATA:
        return error_set(e, STATOR_USAGE, "the data ends in its headers, after %" PRIu64 " bytes", size);
    default:
        return error_set(e, STATOR_USAGE, "its headers are wrong");
    }
}

static stator_status first_frame(const uint8_t *data, uint64_t size, const WebPBitstreamFeatures *canvas,
                                 struct still *s, stator_error *e) {
    uint64_t n = 0;
    const uint8_t *frame = find_chunk(data, size, "ANMF", &n);
    if (frame == NULL || n < FRAME + CHUNK)
        return error_set(e, STATOR_USAGE, "it is an animation without a whole first frame");
    *s = (struct still){.data = frame + FRAME,
                        .size = n - FRAME,
                        .x = 2 * picture_le24(frame),
                        .y = 2 * picture_le24(frame + 3)};
    WebPBitstreamFeatures f;
    stator_status st = features(s->data, s->size, &f, e);
    if (st != STATOR_OK)
        return st;
    s->width = (uint32_t)f.width;
    s->height = (uint32_t)f.height;
    s->lossless = f.format != 1;
    if (f.has_animation || (uint64_t)s->x + s->width > (uint32_t)canvas->width ||
        (uint64_t)s->y + s->height > (uint32_t)canvas->height)
        return error_set(e, STATOR_USAGE, "the first frame of its animation lies outside of it");
    return STATOR_OK;
}

static stator_status find_still(const uint8_t *data, uint64_t size, WebPBitstreamFeatures *f, struct still *s,
                                stator_error *e) {
    stator_status st = features(data, size, f, e);
    if (st != STATOR_OK)
        return st;
    if (f->has_animation)
        return first_frame(data, size, f, s, e);
    *s = (struct still){.data = data,
                        .size = size,
                        .width = (uint32_t)f->width,
                        .height = (uint32_t)f->height,
                        .lossless = f->format != 1};
    return STATOR_OK;
}

stator_status picture_webp_look(const uint8_t *data, uint64_t size, struct picture_head *head,
                                stator_error *e) {
    WebPBitstreamFeatures f;
    struct still s;
    stator_status st = find_still(data, size, &f, &s, e);
    if (st != STATOR_OK)
        return st;
    head->stored_width = (uint32_t)f.width;
    head->stored_height = (uint32_t)f.height;
    uint64_t n = 0;
    const uint8_t *exif = find_chunk(data, size, "EXIF", &n);
    if (exif != NULL) {
        const uint64_t skip = n > 6 && memcmp(exif, "Exif\0\0", 6) == 0 ? 6 : 0; /* some programs keep it */
        head->orientation = picture_exif_orientation(exif + skip, n - skip);
    }
    /* Rows of macroblocks; and, for a lossless picture or a plane of alpha, all pixels with the small
     * pictures of its transforms, and tables of codes. */
    head->scratch_bytes = 256 * 1024 + 192 * (uint64_t)s.width;
    if (s.lossless || f.has_alpha) {
        const uint64_t blocks = arith_ceil_div(s.width, 4) * arith_ceil_div(s.height, 4);
        head->scratch_bytes += 6 * (uint64_t)s.width * s.height + GROUP * ARITH_MIN(blocks, GROUPS_MOST);
    }
    return STATOR_OK;
}

static stator_status failed(VP8StatusCode code, stator_error *e) {
    switch (code) {
    case VP8_STATUS_NOT_ENOUGH_DATA:
        return error_set(e, STATOR_USAGE, "the data ends before the picture does");
    case VP8_STATUS_OUT_OF_MEMORY:
        return error_set(e, STATOR_DOES_NOT_FIT, "libwebp has no memory");
    default:
        return error_set(e, STATOR_USAGE, "the data is wrong (libwebp's code %d)", (int)code);
    }
}

stator_status picture_webp_decode(const uint8_t *data, uint64_t size, const struct picture_head *head,
                                  uint8_t *pixels, struct picture_arena *arena, enum picture_cells *cells,
                                  stator_error *e) {
    WebPBitstreamFeatures f;
    struct still s;
    WebPDecoderConfig config;
    stator_status st = find_still(data, size, &f, &s, e);
    if (st != STATOR_OK)
        return st;
    CHECK(WebPInitDecoderConfig(&config));
    const uint64_t row = 4 * (uint64_t)head->stored_width, skip = s.y * row + 4 * (uint64_t)s.x;
    if (skip != 0 || s.width != head->stored_width || s.height != head->stored_height)
        memset(pixels, 0, head->pixel_bytes); /* the rest of the canvas is transparent */
    config.output.colorspace = MODE_RGBA;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = pixels + skip;
    config.output.u.RGBA.stride = (int)row;
    config.output.u.RGBA.size = head->pixel_bytes - skip;
    *cells = PICTURE_RGBA;
    webp_memory_use(arena);
    VP8StatusCode code = WebPDecode(s.data, s.size, &config);
    webp_memory_use(NULL);
    return code == VP8_STATUS_OK ? STATOR_OK : failed(code, e);
}
