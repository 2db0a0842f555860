/* The body of the targets fuzz_picture_*: any bytes as a picture. What opens is decoded in exactly the memory
 * that was announced, and made smaller. */
#ifndef STATOR_TESTS_FUZZ_PICTURE_H
#define STATOR_TESTS_FUZZ_PICTURE_H

#include "fuzz.h"

#include "base/check.h"
#include "picture/picture.h"
#include "picture/picture_resize.h"

#include <stdlib.h>
#include <string.h>

/* Decodes; false: refused, with an error. */
static bool fuzz_decode(const uint8_t *data, size_t size, const struct picture_head *head, uint8_t *pixels,
                        void *scratch) {
    struct picture p;
    stator_error e = {0};
    stator_status s = picture_decode(data, size, head, pixels, scratch, &p, &e);
    CHECK(s == e.code);
    if (s != STATOR_OK) {
        CHECK((s == STATOR_USAGE || s == STATOR_DOES_NOT_FIT) && e.text[0] != '\0');
        return false;
    }
    CHECK(p.width == head->width && p.height == head->height);
    uint8_t small[5 * 3 * 3];
    const uint64_t bytes = picture_resize_bytes(p.width, p.height, 5, 3, PICTURE_BICUBIC);
    void *work = aligned_alloc(64, bytes);
    CHECK(work != NULL);
    picture_resize(&p, 5, 3, PICTURE_BICUBIC, small, work, bytes);
    free(work);
    return true;
}

/* True: a picture of this kind. Others are refused here, so that a target stays with its format. */
static bool fuzz_picture(const uint8_t *data, size_t size, enum picture_kind kind,
                         struct picture_head *head) {
    const struct picture_limits limits = {.side = 4096, .pixels = 1 << 18};
    stator_error e = {0};
    stator_status s = picture_look(data, size, &limits, head, &e);
    CHECK(s == e.code);
    if (s != STATOR_OK) {
        CHECK(s == STATOR_USAGE && e.text[0] != '\0');
        return false;
    }
    CHECK(head->width >= 1 && head->height >= 1 && (uint64_t)head->width * head->height <= limits.pixels);
    if (head->kind != kind)
        return false;
    uint8_t *pixels = malloc(head->pixel_bytes);
    void *scratch = aligned_alloc(64, head->scratch_bytes / 64 * 64 + 64);
    CHECK(pixels != NULL && scratch != NULL);
    const bool good = fuzz_decode(data, size, head, pixels, scratch);
    free(pixels);
    free(scratch);
    return good;
}

#endif
