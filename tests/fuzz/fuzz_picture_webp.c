/* Any bytes as a WebP file. */
#include "fuzz_picture.h"

const char *const fuzz_kinds[] = {"upright", "turned", NULL};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct picture_head head;
    if (fuzz_picture(data, size, PICTURE_WEBP, &head))
        fuzz_accepted(head.orientation == 1 ? "upright" : "turned");
    return 0;
}
