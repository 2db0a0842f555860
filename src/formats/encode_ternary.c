/* TQ1_0, TQ2_0: d and -1, 0 or 1 for each value, with the bytes of ggml's reference: d is the largest size.
 */
#include "formats/encode_parts.h"

#include <math.h>

/* 0, 1, 2. */
static uint32_t code_of(float v) {
    return (uint32_t)((int)roundf(v) + 1);
}

/* n bytes of as many columns of 5 values, which lie n apart; a byte is the fraction of a number of five
 * base-3 digits, the first value's the most significant one, of 3^5, rounded up. */
static const float *put_fives(const float *x, float inverse, uint32_t n, uint32_t rows, uint8_t *to) {
    for (uint32_t m = 0; m < n; m++) {
        uint32_t q = 0;
        for (uint32_t i = 0; i < 5; i++)
            q = 3 * q + (i < rows ? code_of(x[m + n * i] * inverse) : 0);
        to[m] = (uint8_t)((q * 256 + 242) / 243);
    }
    return x + (size_t)n * rows;
}

void encode_ternary(uint32_t type, const float *x, uint8_t *block) {
    float most = 0;
    for (uint32_t i = 0; i < 256; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    const float inverse = most > 0 && isfinite(1 / most) ? 1 / most : 0;
    if (type == BLOCK_TQ1_0) {
        x = put_fives(x, inverse, 32, 5, block);
        x = put_fives(x, inverse, 16, 5, block + 32);
        (void)put_fives(x, inverse, 4, 4, block + 48);
        encode_put_f16(block + 52, most);
        return;
    }
    for (uint32_t half = 0; half < 2; half++)
        for (uint32_t m = 0; m < 32; m++) {
            uint32_t q = 0;
            for (uint32_t i = 0; i < 4; i++)
                q |= code_of(x[128 * half + 32 * i + m] * inverse) << 2 * i;
            block[32 * half + m] = (uint8_t)q;
        }
    encode_put_f16(block + 64, most);
}
