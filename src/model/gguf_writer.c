#include "model/gguf_writer.h"

#include "base/arith.h"
#include "formats/block.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct gguf_writer gguf_writer_new(void) {
    return (struct gguf_writer){.version = 3, .alignment = 32, .fd = -1};
}

void gguf_writer_free(struct gguf_writer *w) {
    free(w->keys.data);
    free(w->tensors.data);
    free(w->data.data);
    free(w->out);
    if (w->fd >= 0)
        close(w->fd);
    *w = gguf_writer_new();
}

void gguf_writer_put(struct gguf_writer_buffer *b, const void *bytes, size_t n) {
    if (b->failed)
        return;
    if (b->capacity - b->n < n) {
        size_t capacity = 2 * (b->n + n) + 64;
        uint8_t *data = realloc(b->data, capacity);
        if (data == NULL) {
            b->failed = true;
            return;
        }
        b->data = data;
        b->capacity = capacity;
    }
    if (bytes != NULL && n > 0)
        memcpy(b->data + b->n, bytes, n);
    else if (n > 0)
        memset(b->data + b->n, 0, n);
    b->n += n;
}

void gguf_writer_put_u32(struct gguf_writer_buffer *b, uint32_t v) {
    gguf_writer_put(b, &v, sizeof v);
}

void gguf_writer_put_u64(struct gguf_writer_buffer *b, uint64_t v) {
    gguf_writer_put(b, &v, sizeof v);
}

void gguf_writer_put_text(struct gguf_writer_buffer *b, const char *s, size_t n) {
    gguf_writer_put_u64(b, n);
    gguf_writer_put(b, s, n);
}

static bool dropped(const struct gguf_writer *w, const char *name) {
    for (size_t i = 0; i < sizeof w->drop / sizeof w->drop[0]; i++)
        if (w->drop[i] != NULL && strcmp(w->drop[i], name) == 0)
            return true;
    return false;
}

void gguf_writer_key(struct gguf_writer *w, const char *name, uint32_t kind, const void *value, size_t n) {
    if (dropped(w, name))
        return;
    gguf_writer_put_text(&w->keys, name, strlen(name));
    gguf_writer_put_u32(&w->keys, kind);
    gguf_writer_put(&w->keys, value, n);
    w->n_keys++;
}

void gguf_writer_u32(struct gguf_writer *w, const char *name, uint32_t v) {
    gguf_writer_key(w, name, GGUF_U32, &v, sizeof v);
}

void gguf_writer_i32(struct gguf_writer *w, const char *name, int32_t v) {
    gguf_writer_key(w, name, GGUF_I32, &v, sizeof v);
}

void gguf_writer_u16(struct gguf_writer *w, const char *name, uint16_t v) {
    gguf_writer_key(w, name, GGUF_U16, &v, sizeof v);
}

void gguf_writer_f32(struct gguf_writer *w, const char *name, float v) {
    gguf_writer_key(w, name, GGUF_F32, &v, sizeof v);
}

void gguf_writer_bool(struct gguf_writer *w, const char *name, int v) {
    uint8_t b = v != 0;
    gguf_writer_key(w, name, GGUF_BOOL, &b, 1);
}

void gguf_writer_text_n(struct gguf_writer *w, const char *name, const char *value, size_t n) {
    struct gguf_writer_buffer b = {0};
    gguf_writer_put_text(&b, value, n);
    gguf_writer_key(w, name, GGUF_STRING, b.data, b.n);
    w->keys.failed = w->keys.failed || b.failed;
    free(b.data);
}

void gguf_writer_text(struct gguf_writer *w, const char *name, const char *value) {
    gguf_writer_text_n(w, name, value, strlen(value));
}

void gguf_writer_array(struct gguf_writer *w, const char *name, uint32_t item, uint64_t count,
                       const void *items, size_t n) {
    struct gguf_writer_buffer b = {0};
    gguf_writer_put_u32(&b, item);
    gguf_writer_put_u64(&b, count);
    gguf_writer_put(&b, items, n);
    gguf_writer_key(w, name, GGUF_ARRAY, b.data, b.n);
    w->keys.failed = w->keys.failed || b.failed;
    free(b.data);
}

void gguf_writer_texts(struct gguf_writer *w, const char *name, uint64_t count, const char *const *texts) {
    struct gguf_writer_buffer b = {0};
    for (uint64_t i = 0; i < count; i++)
        gguf_writer_put_text(&b, texts[i], strlen(texts[i]));
    gguf_writer_array(w, name, GGUF_STRING, count, b.data, b.n);
    w->keys.failed = w->keys.failed || b.failed;
    free(b.data);
}

void gguf_writer_entry(struct gguf_writer *w, const char *name, uint32_t type, uint32_t n_dims,
                       const uint64_t *ne, uint64_t offset) {
    if (dropped(w, name))
        return;
    gguf_writer_put_text(&w->tensors, name, strlen(name));
    gguf_writer_put_u32(&w->tensors, n_dims);
    for (uint32_t d = 0; d < n_dims; d++)
        gguf_writer_put_u64(&w->tensors, ne[d]);
    gguf_writer_put_u32(&w->tensors, type);
    gguf_writer_put_u64(&w->tensors, offset);
    w->n_tensors++;
}

uint8_t *gguf_writer_tensor(struct gguf_writer *w, const char *name, uint32_t type, uint32_t n_dims,
                            const uint64_t *ne, const void *values) {
    uint64_t bytes = 0;
    if (dropped(w, name))
        return NULL;
    bool ok = block_row_bytes(type, ne[0], &bytes);
    CHECK(ok);
    for (uint32_t d = 1; d < n_dims; d++)
        bytes = arith_must_mul(bytes, ne[d]);
    gguf_writer_put(&w->data, NULL, (size_t)((w->alignment - w->data.n % w->alignment) % w->alignment));
    gguf_writer_entry(w, name, type, n_dims, ne, w->data.n);
    gguf_writer_put(&w->data, values, (size_t)bytes);
    return w->data.failed ? NULL : w->data.data + w->data.n - bytes;
}

bool gguf_writer_finish(struct gguf_writer *w) {
    struct gguf_writer_buffer b = {0};
    gguf_writer_put(&b, "GGUF", 4);
    gguf_writer_put_u32(&b, w->version);
    gguf_writer_put_u64(&b, w->n_tensors + w->n_tensors_lie);
    gguf_writer_put_u64(&b, w->n_keys + w->n_keys_lie);
    gguf_writer_put(&b, w->keys.data, w->keys.n);
    gguf_writer_put(&b, w->tensors.data, w->tensors.n);
    w->directory_bytes = b.n;
    if (w->data.n > 0) {
        gguf_writer_put(&b, NULL, (size_t)((w->alignment - b.n % w->alignment) % w->alignment));
        gguf_writer_put(&b, w->data.data, w->data.n);
    }
    free(w->out);
    w->out = b.data;
    w->out_bytes = b.n;
    return !(w->keys.failed || w->tensors.failed || w->data.failed || b.failed);
}

bool gguf_writer_save(const struct gguf_writer *w, const char *path) {
    FILE *f = fopen(path, "wb");
    bool good = f != NULL && fwrite(w->out, 1, w->out_bytes, f) == w->out_bytes;
    if (f != NULL)
        good = fclose(f) == 0 && good;
    return good;
}

const char *gguf_writer_memory_path(struct gguf_writer *w, char path[GGUF_WRITER_PATH]) {
    if (w->fd < 0)
        w->fd = memfd_create("gguf", MFD_CLOEXEC);
    if (w->fd < 0 || ftruncate(w->fd, (off_t)w->out_bytes) != 0)
        return NULL;
    for (size_t done = 0; done < w->out_bytes;) {
        ssize_t n = pwrite(w->fd, w->out + done, w->out_bytes - done, (off_t)done);
        if (n <= 0)
            return NULL;
        done += (size_t)n;
    }
    snprintf(path, GGUF_WRITER_PATH, "/proc/self/fd/%d", w->fd);
    return path;
}
