#include "picture/webp_memory.h"

#include <string.h>

static _Thread_local struct picture_arena *arena;

void webp_memory_use(struct picture_arena *a) {
    arena = a;
}

void *WebPSafeMalloc(uint64_t n, size_t size) {
    uint64_t bytes;
    CHECK(arena != NULL);
    return arith_mul(n, size, &bytes) ? picture_arena_take(arena, bytes) : NULL;
}

void *WebPSafeCalloc(uint64_t n, size_t size) {
    void *block = WebPSafeMalloc(n, size);
    return block != NULL ? memset(block, 0, n * size) : NULL;
}

void WebPSafeFree(void *block) {
    CHECK(arena != NULL);
    picture_arena_give(arena, block);
}

void *WebPMalloc(size_t size) {
    return WebPSafeMalloc(1, size);
}

void WebPFree(void *block) {
    WebPSafeFree(block);
}

void WebPCopyPlane(const uint8_t *from, int from_stride, uint8_t *to, int to_stride, int width, int height) {
    for (int64_t y = 0; y < height; y++)
        memcpy(to + y * to_stride, from + y * from_stride, (size_t)width);
}
