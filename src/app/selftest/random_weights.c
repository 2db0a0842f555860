#include "app/selftest/random_weights.h"

#include "formats/block.h"

#include <string.h>

uint64_t random_weights_next(uint64_t *state) {
    uint64_t z = (*state += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

float random_weights_float(uint64_t *state) {
    return (float)(int64_t)(random_weights_next(state) >> 40) * 0x1p-23f - 1.0f;
}

void random_weights_block(uint64_t *state, uint32_t type, uint8_t *block, uint32_t bytes) {
    for (uint32_t i = 0; i < bytes; i++)
        block[i] = (uint8_t)(random_weights_next(state) >> 56);
    const bool k = block_info(type)->values == 256;
    const float d = (0.75f + 0.25f * random_weights_float(state)) * (k ? 0.0004f : 0.01f);
    const float m = (k ? 0.0004f : -0.08f) * (0.75f + 0.25f * random_weights_float(state));
    if (type == BLOCK_MXFP4) /* 2^-8 to 2^-7, halved */
        block[0] = (uint8_t)(120 + block[0] % 2);
    else
        block_put_scales(type, block, d, m);
}

uint8_t *random_weights_put(uint8_t *to, uint32_t type, float v) {
    uint16_t half = block_to_f16(v);
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    uint16_t high = (uint16_t)(bits >> 16);
    if (type == BLOCK_F32)
        return (uint8_t *)memcpy(to, &v, sizeof v) + sizeof v;
    return (uint8_t *)memcpy(to, type == BLOCK_F16 ? &half : &high, sizeof half) + sizeof half;
}
