/* Writes GGUF files in memory, for the models of `stator selftest` and of tests: good ones, and bad ones by
 * the raw calls and by fields that falsify what is written. Memory is the heap's; where there is none,
 * gguf_writer_finish says so.
 *
 *     struct gguf_writer w = gguf_writer_new();
 *     gguf_writer_text(&w, "general.architecture", "llama");
 *     gguf_writer_tensor(&w, "token_embd.weight", 0, 2, (uint64_t[]){32, 4}, NULL);
 *     gguf_writer_finish(&w);  // w.out, w.out_bytes
 *     gguf_writer_save(&w, path); or gguf_writer_memory_path(&w, path) (a path under /proc/self/fd)
 *     gguf_writer_free(&w);
 */
#ifndef STATOR_MODEL_GGUF_WRITER_H
#define STATOR_MODEL_GGUF_WRITER_H

#include "formats/block.h" /* types of tensors */
#include "model/gguf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GGUF_WRITER_PATH 64

struct gguf_writer_buffer {
    uint8_t *data;
    size_t n, capacity;
    bool failed; /* there was no memory for all of it */
};

struct gguf_writer {
    struct gguf_writer_buffer keys, tensors, data;
    uint64_t n_keys, n_tensors;
    uint32_t version;    /* 3 */
    uint64_t alignment;  /* 32; of the data section (write general.alignment yourself) */
    uint64_t n_keys_lie; /* added to the counts in the header */
    uint64_t n_tensors_lie;
    const char *drop[4]; /* keys and tensors of these names are left out */
    int fd;              /* of gguf_writer_memory_path; -1 */
    uint8_t *out;        /* after gguf_writer_finish */
    size_t out_bytes;
    size_t directory_bytes; /* of header, keys and tensor directory */
};

struct gguf_writer gguf_writer_new(void);
void gguf_writer_free(struct gguf_writer *w);
/* bytes == NULL: zeros. */
void gguf_writer_put(struct gguf_writer_buffer *b, const void *bytes, size_t n);
void gguf_writer_put_u32(struct gguf_writer_buffer *b, uint32_t v);
void gguf_writer_put_u64(struct gguf_writer_buffer *b, uint64_t v);
void gguf_writer_put_text(struct gguf_writer_buffer *b, const char *s, size_t n);
/* A key with the given kind id and the bytes of its value, whatever they are. */
void gguf_writer_key(struct gguf_writer *w, const char *name, uint32_t kind, const void *value, size_t n);
void gguf_writer_u32(struct gguf_writer *w, const char *name, uint32_t v);
void gguf_writer_i32(struct gguf_writer *w, const char *name, int32_t v);
void gguf_writer_u16(struct gguf_writer *w, const char *name, uint16_t v);
void gguf_writer_f32(struct gguf_writer *w, const char *name, float v);
void gguf_writer_bool(struct gguf_writer *w, const char *name, int v);
void gguf_writer_text_n(struct gguf_writer *w, const char *name, const char *value, size_t n);
void gguf_writer_text(struct gguf_writer *w, const char *name, const char *value);
/* An array: count is what the file says, n the bytes that follow. */
void gguf_writer_array(struct gguf_writer *w, const char *name, uint32_t item, uint64_t count,
                       const void *items, size_t n);
void gguf_writer_texts(struct gguf_writer *w, const char *name, uint64_t count, const char *const *texts);
/* An entry of the tensor directory, whatever it says. */
void gguf_writer_entry(struct gguf_writer *w, const char *name, uint32_t type, uint32_t n_dims,
                       const uint64_t *ne, uint64_t offset);
/* A whole tensor after those before it. values == NULL: zeros. The type and shape must be good. Its bytes,
 * valid until the next call; NULL: it was dropped, or there is no memory. */
uint8_t *gguf_writer_tensor(struct gguf_writer *w, const char *name, uint32_t type, uint32_t n_dims,
                            const uint64_t *ne, const void *values);
/* The whole file into out, out_bytes. False: there was no memory for it. */
bool gguf_writer_finish(struct gguf_writer *w);
bool gguf_writer_save(const struct gguf_writer *w, const char *path);
/* The file in memory, under a path that lasts until gguf_writer_free. NULL: errno says why it could not be
 * made. */
const char *gguf_writer_memory_path(struct gguf_writer *w, char path[GGUF_WRITER_PATH]);

#endif
