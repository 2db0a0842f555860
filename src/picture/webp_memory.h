/* libwebp's memory. The library allocates through functions of one object file (its utils.c), without a
 * context. webp_memory.c defines all that the decoder uses of that object, and so takes its place when stator
 * is linked. */
#ifndef STATOR_PICTURE_WEBP_MEMORY_H
#define STATOR_PICTURE_WEBP_MEMORY_H

#include "picture/picture_inside.h"

/* From here on this thread's calls of libwebp allocate in a; NULL ends it. The caller's, until it ends. */
void webp_memory_use(struct picture_arena *a);

/* Signatures of libwebp's utils.h, which is not installed, and of decode.h. */
void *WebPSafeMalloc(uint64_t n, size_t size);
void *WebPSafeCalloc(uint64_t n, size_t size);
void WebPSafeFree(void *block);
void *WebPMalloc(size_t size);
void WebPFree(void *block);
void WebPCopyPlane(const uint8_t *from, int from_stride, uint8_t *to, int to_stride, int width, int height);

#endif
