/* One GGUF file (one shard): opening, reading, and walking its header and directory with every length
 * checked. Private to the gguf_*.c files; others use model/gguf.h.
 *
 * Header and directory are read into our own memory as the first walk comes to them, and never again: what
 * was checked cannot change afterwards. The file is not mapped, so that truncating it raises no signal.
 * Owner: the struct gguf being opened. */
#ifndef STATOR_MODEL_GGUF_FILE_H
#define STATOR_MODEL_GGUF_FILE_H

#include "model/gguf.h"

#include <time.h>

#define GGUF_FILE_MAX_KEYS    (1u << 16) /* far above real files (< 200), and bounds the index */
#define GGUF_FILE_MAX_TENSORS (1u << 18)
/* Bytes of header, keys and tensor directory: ten times the largest vocabulary's. */
#define GGUF_FILE_MAX_DIRECTORY (256u << 20)

/* Keys that tell how to read the file itself. */
enum gguf_file_known {
    GGUF_FILE_ALIGNMENT,
    GGUF_FILE_SPLIT_NO,
    GGUF_FILE_SPLIT_COUNT,
    GGUF_FILE_SPLIT_TENSORS,
    GGUF_FILE_KNOWN
};

struct gguf_entry {
    struct gguf_text name;
    struct gguf_value value;
};

struct gguf_file {
    const char *path;        /* the caller's */
    int fd;                  /* -1: closed */
    uint8_t *map;            /* memory for header and directory; NULL: none */
    uint64_t mapped;         /* bytes of map: the most there can be, or those of the directory once parsed */
    uint64_t filled;         /* of these, read from the file */
    uint64_t bytes;          /* of the file, when it was opened */
    struct timespec changed; /* when it was last written to before */
    uint64_t n_keys;
    uint64_t n_tensors;
    uint64_t directory; /* bytes of header, keys and tensor directory */
    uint64_t alignment;
    uint64_t data; /* where the data section begins */
    uint32_t version;
    uint32_t shard;
    bool parsed; /* once; the next time must agree */
    bool have[GGUF_FILE_KNOWN];
    struct gguf_value known[GGUF_FILE_KNOWN];
};

/* Opens path and takes address space for its directory (pages come as they are read into). */
stator_status gguf_file_open(struct gguf_file *f, const char *path, uint32_t shard, stator_error *e);
/* Walks header, keys and tensors; fills keys[n_keys] and tensors[n_tensors] where they are not NULL. */
stator_status gguf_file_parse(struct gguf_file *f, struct gguf_entry *keys, struct gguf_tensor *tensors,
                              stator_error *e);
/* n bytes from `at` on, which were in the file when it was opened; the error does not name the file. */
stator_status gguf_file_read(const struct gguf_file *f, uint64_t at, uint64_t n, uint8_t *out,
                             stator_error *e);
/* STATOR_BAD_MODEL: its size or the time of its last change is another than when it was opened. */
stator_status gguf_file_unchanged(const struct gguf_file *f, stator_error *e);
void gguf_file_close(struct gguf_file *f);

/* Reads one of the known keys as an integer in [min, max]; absent is STATOR_BAD_MODEL. */
stator_status gguf_file_known_u64(const struct gguf_file *f, enum gguf_file_known key, uint64_t min,
                                  uint64_t max, uint64_t *v, stator_error *e);
/* False: not an integer kind, or negative. */
bool gguf_file_integer(const struct gguf_value *v, uint64_t *out);
/* Puts the file's name in front of the error (its end, when it is very long). */
void gguf_file_prefix(stator_error *e, const char *path);

#endif
