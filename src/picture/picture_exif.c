#include "picture/picture_inside.h"

/* TIFF 6.0: "II" or "MM", 42, the offset of the first directory; a directory is a count and entries of twelve
 * bytes: tag, type, count, value. */
enum { TAG_ORIENTATION = 0x0112, TYPE_SHORT = 3, ENTRY = 12 };

uint32_t picture_exif_orientation(const uint8_t *tiff, uint64_t size) {
    if (size < 8 || !((tiff[0] == 'I' && tiff[1] == 'I') || (tiff[0] == 'M' && tiff[1] == 'M')))
        return 1;
    uint32_t (*const u16)(const uint8_t *) = tiff[0] == 'I' ? picture_le16 : picture_be16;
    uint32_t (*const u32)(const uint8_t *) = tiff[0] == 'I' ? picture_le32 : picture_be32;
    const uint64_t at = u32(tiff + 4);
    if (u16(tiff + 2) != 42 || at > size - 2)
        return 1;
    const uint64_t entries = ARITH_MIN(u16(tiff + at), (size - at - 2) / ENTRY);
    for (uint64_t i = 0; i < entries; i++) {
        const uint8_t *entry = tiff + at + 2 + i * ENTRY;
        if (u16(entry) != TAG_ORIENTATION)
            continue;
        const uint32_t v = u16(entry + 2) == TYPE_SHORT ? u16(entry + 8) : 1;
        return v >= 1 && v <= 8 ? v : 1;
    }
    return 1;
}
