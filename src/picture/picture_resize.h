/* Pictures to another size, as Pillow's Image.resize does it: a filter that widens when the picture shrinks,
 * first along the rows, then along the columns, with weights of 22 bits and a rounding to 8 bits after each.
 * The results are Pillow's to the bit, wherever double is IEEE 754's. */
#ifndef STATOR_PICTURE_PICTURE_RESIZE_H
#define STATOR_PICTURE_PICTURE_RESIZE_H

#include "picture/picture.h"

enum picture_filter {
    PICTURE_BILINEAR, /* a triangle of half width 1 */
    PICTURE_BICUBIC   /* Keys' cubic with a = -1/2, half width 2 */
};

/* Bytes of scratch that picture_resize needs. All sizes are from 1 to PICTURE_SIDE_MAX. */
uint64_t picture_resize_bytes(uint32_t width, uint32_t height, uint32_t to_width, uint32_t to_height,
                              enum picture_filter filter);

/* Writes to_height rows of to_width pixels of red, green and blue, without gaps, to rgb. scratch is aligned
 * to 64 and free again afterwards. */
void picture_resize(const struct picture *p, uint32_t to_width, uint32_t to_height,
                    enum picture_filter filter, uint8_t *rgb, void *scratch, uint64_t scratch_bytes);

#endif
