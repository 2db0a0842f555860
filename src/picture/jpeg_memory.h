/* libjpeg's memory. The library leaves these functions to the system that it is built for (its jmemnobs.c
 * calls malloc). The definitions here take the place of that object when stator is linked. */
#ifndef STATOR_PICTURE_JPEG_MEMORY_H
#define STATOR_PICTURE_JPEG_MEMORY_H

#include <stdio.h>
#include <jpeglib.h>

#include "picture/picture_inside.h"

/* All memory of this libjpeg object, which is about to be created, comes from a. */
void jpeg_memory_use(j_common_ptr c, struct picture_arena *a);

/* Signatures of libjpeg's jmemsys.h, which is not installed. */
void *jpeg_get_small(j_common_ptr c, size_t bytes);
void jpeg_free_small(j_common_ptr c, void *block, size_t bytes);
void *jpeg_get_large(j_common_ptr c, size_t bytes);
void jpeg_free_large(j_common_ptr c, void *block, size_t bytes);
size_t jpeg_mem_available(j_common_ptr c, size_t least, size_t most, size_t already);
void jpeg_open_backing_store(j_common_ptr c, void *store, long bytes);
long jpeg_mem_init(j_common_ptr c);
void jpeg_mem_term(j_common_ptr c);

#endif
