/* JPEG through libjpeg-turbo. Source of the markers: ITU-T T.81, annex B. */
#include "picture/jpeg_memory.h"
#include "picture/picture_inside.h"

#include <inttypes.h>
#include <jerror.h>
#include <setjmp.h>
#include <string.h>

enum {
    SOS = 0xDA,
    EOI = 0xD9,
    APP1 = 0xE1,
    SCANS_MOST =
        64, /* progressive files of usual programs have about ten; each scan walks the whole picture */
    COMPONENTS_MOST = 4
};

static bool is_frame(uint32_t marker) { /* SOF0 to SOF15 without DHT, JPG and DAC */
    return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

/* What SOF says; components and sampling factors are checked. */
struct frame {
    uint32_t n, h[COMPONENTS_MOST], v[COMPONENTS_MOST], max_h, max_v;
    bool progressive;
};

static stator_status read_frame(const uint8_t *at, uint32_t n, uint32_t marker, struct picture_head *head,
                                struct frame *f, stator_error *e) {
    if (n < 6 || n < 6 + 3 * (uint32_t)at[5])
        return error_set(e, STATOR_USAGE, "its frame header has %" PRIu32 " bytes, which are too few", n);
    if (at[0] != 8)
        return error_set(e, STATOR_USAGE, "it has %u bits per sample, expected 8", at[0]);
    head->stored_height = picture_be16(at + 1);
    head->stored_width = picture_be16(at + 3);
    *f = (struct frame){.n = at[5], .progressive = (marker & 3) == 2};
    if (f->n != 1 && f->n != 3 && f->n != 4)
        return error_set(e, STATOR_USAGE, "it has %" PRIu32 " components, expected 1, 3 or 4", f->n);
    for (uint32_t i = 0; i < f->n; i++) {
        f->h[i] = at[7 + 3 * i] >> 4;
        f->v[i] = at[7 + 3 * i] & 15;
        if (f->h[i] < 1 || f->h[i] > 4 || f->v[i] < 1 || f->v[i] > 4)
            return error_set(e, STATOR_USAGE,
                             "component %" PRIu32 " has the sampling factors %" PRIu32 "x%" PRIu32
                             ", expected 1 to 4",
                             i, f->h[i], f->v[i]);
        f->max_h = ARITH_MAX(f->max_h, f->h[i]);
        f->max_v = ARITH_MAX(f->max_v, f->v[i]);
    }
    return STATOR_OK;
}

/* What libjpeg allocates: structures and tables, rows of samples while they are enlarged, and, if there are
 * several scans, all coefficients (64 of 2 bytes per block). tests/unit/picture tries this on all shapes. */
static uint64_t scratch_of(const struct frame *f, const struct picture_head *head, bool scans) {
    const uint64_t mcus_x = arith_ceil_div(head->stored_width, 8 * f->max_h);
    const uint64_t mcus_y = arith_ceil_div(head->stored_height, 8 * f->max_v);
    const uint64_t padded = mcus_x * 8 * f->max_h;
    uint64_t bytes = 256 * 1024 + padded * f->n * 16 * f->max_v;
    for (uint32_t i = 0; i < f->n && scans; i++)
        bytes += (mcus_x * f->h[i]) * (mcus_y * f->v[i] + f->v[i]) * 128;
    return bytes + bytes / 16; /* heads of blocks, pointers to rows */
}

static uint32_t orientation_of(const uint8_t *at, uint32_t n) {
    return n > 6 && memcmp(at, "Exif\0\0", 6) == 0 ? picture_exif_orientation(at + 6, n - 6) : 1;
}

stator_status picture_jpeg_look(const uint8_t *data, uint64_t size, struct picture_head *head,
                                stator_error *e) {
    struct frame f = {0};
    bool exif = false;
    uint64_t at = 2;
    for (;;) {
        while (at < size && data[at] != 0xFF) /* libjpeg skips to the next marker too */
            at++;
        while (at < size && data[at] == 0xFF)
            at++;
        if (at >= size || size - at < 3)
            return error_set(e, STATOR_USAGE, "the data ends in its headers, after %" PRIu64 " bytes", size);
        const uint32_t marker = data[at++];
        if (marker == 0 || marker == 1 || (marker >= 0xD0 && marker <= 0xD8)) /* without a length */
            continue;
        const uint32_t n = picture_be16(data + at);
        if (marker == EOI || n < 2 || n > size - at)
            return error_set(e, STATOR_USAGE, "it has no picture: its headers end at byte %" PRIu64, at);
        const uint8_t *body = data + at + 2;
        if (is_frame(marker)) {
            if (f.n != 0)
                return error_set(e, STATOR_USAGE, "it has two frame headers");
            stator_status s = read_frame(body, n - 2, marker, head, &f, e);
            if (s != STATOR_OK)
                return s;
        } else if (marker == APP1 && !exif && n > 8 && memcmp(body, "Exif", 4) == 0) {
            exif = true;
            head->orientation = orientation_of(body, n - 2);
        } else if (marker == SOS) {
            if (f.n == 0 || n < 3)
                return error_set(e, STATOR_USAGE, "its data comes before its frame header");
            head->scratch_bytes = scratch_of(&f, head, f.progressive || body[0] < f.n);
            return STATOR_OK;
        }
        at += n;
    }
}

/* Everything that must outlive a longjmp. */
struct work {
    struct jpeg_decompress_struct c;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf back;
    bool ended;                      /* the library had to make up the end of the data */
    char text[JMSG_LENGTH_MAX + 40]; /* why it failed */
};

static _Noreturn void leave(j_common_ptr c) {
    struct work *w = (struct work *)(void *)c;
    longjmp(w->back, 1);
}

static void on_error(j_common_ptr c) {
    struct work *w = (struct work *)(void *)c;
    char text[JMSG_LENGTH_MAX];
    c->err->format_message(c, text);
    if (w->ended)
        snprintf(w->text, sizeof w->text, "the data ends before the picture does");
    else
        snprintf(w->text, sizeof w->text, "the data is wrong: %s", text);
    leave(c);
}

/* Warnings that say that pixels are wrong are errors. */
static void on_message(j_common_ptr c, int level) {
    struct work *w = (struct work *)(void *)c;
    if (level >= 0)
        return;
    switch (c->err->msg_code) {
    case JWRN_JPEG_EOF: /* the marker of the end may be missing */
        w->ended = true;
        return;
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_JFIF_MAJOR:
    case JWRN_ADOBE_XFORM:
    case JWRN_TOO_MUCH_DATA:
        return;
    default:
        on_error(c);
    }
}

static void on_progress(j_common_ptr c) {
    struct work *w = (struct work *)(void *)c;
    if (w->c.input_scan_number <= SCANS_MOST)
        return;
    snprintf(w->text, sizeof w->text, "it has more than %d scans", SCANS_MOST);
    leave(c);
}

static void check_same(struct work *w, const struct picture_head *head) {
    if (w->c.image_width == head->stored_width && w->c.image_height == head->stored_height)
        return;
    snprintf(w->text, sizeof w->text, "its headers contradict each other");
    leave((j_common_ptr)&w->c);
}

/* Leaves with longjmp if something is wrong. */
static void read_all(struct work *w, const uint8_t *data, uint64_t size, const struct picture_head *head,
                     uint8_t *pixels, enum picture_cells *cells) {
    jpeg_mem_src(&w->c, data, size);
    jpeg_read_header(&w->c, TRUE);
    check_same(w, head);
    const bool four = w->c.num_components == 4;
    w->c.out_color_space = four ? JCS_CMYK : JCS_RGB;
    w->c.dct_method = JDCT_ISLOW;
    *cells = four ? PICTURE_CMYK : PICTURE_RGB;
    jpeg_start_decompress(&w->c);
    const uint64_t row = (uint64_t)head->stored_width * (four ? 4 : 3);
    while (w->c.output_scanline < w->c.output_height) {
        JSAMPROW at = pixels + row * w->c.output_scanline;
        jpeg_read_scanlines(&w->c, &at, 1);
    }
    if (w->ended && w->c.input_scan_number > 0 && jpeg_has_multiple_scans(&w->c)) {
        snprintf(w->text, sizeof w->text, "the data ends before the picture does");
        leave((j_common_ptr)&w->c);
    }
}

stator_status picture_jpeg_decode(const uint8_t *data, uint64_t size, const struct picture_head *head,
                                  uint8_t *pixels, struct picture_arena *arena, enum picture_cells *cells,
                                  stator_error *e) {
    struct work w = {.text = ""};
    jpeg_memory_use((j_common_ptr)&w.c, arena);
    w.c.err = jpeg_std_error(&w.errors);
    w.errors.error_exit = on_error;
    w.errors.emit_message = on_message;
    w.progress.progress_monitor = on_progress;
    if (setjmp(w.back) == 0) {
        jpeg_create_decompress(&w.c);
        w.c.progress = &w.progress;
        read_all(&w, data, size, head, pixels, cells);
    }
    /* The arena is the caller's: nothing has to be freed. */
    return w.text[0] == '\0' ? STATOR_OK : error_set(e, STATOR_USAGE, "%s", w.text);
}
