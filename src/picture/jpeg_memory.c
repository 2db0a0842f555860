#include "picture/jpeg_memory.h"

void jpeg_memory_use(j_common_ptr c, struct picture_arena *a) {
    c->client_data = a;
}

void *jpeg_get_small(j_common_ptr c, size_t bytes) {
    return picture_arena_take(c->client_data, bytes);
}

void jpeg_free_small(j_common_ptr c, void *block, size_t bytes) {
    (void)bytes;
    picture_arena_give(c->client_data, block);
}

void *jpeg_get_large(j_common_ptr c, size_t bytes) {
    return picture_arena_take(c->client_data, bytes);
}

void jpeg_free_large(j_common_ptr c, void *block, size_t bytes) {
    (void)bytes;
    picture_arena_give(c->client_data, block);
}

/* Whole arrays or nothing: there are no temporary files. What does not fit then fails in jpeg_get_large. */
size_t jpeg_mem_available(j_common_ptr c, size_t least, size_t most, size_t already) {
    (void)c, (void)least, (void)already;
    return most;
}

void jpeg_open_backing_store(j_common_ptr c, void *store, long bytes) {
    (void)c, (void)store, (void)bytes;
    CHECK(!"libjpeg asks for a temporary file");
}

long jpeg_mem_init(j_common_ptr c) {
    (void)c;
    return 0;
}

void jpeg_mem_term(j_common_ptr c) {
    (void)c;
}
