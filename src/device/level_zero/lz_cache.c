#include "device/level_zero/lz_cache.h"

#include "base/hash.h"
#include "base/stored_file.h"
#include "os/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_BYTES ((uint64_t)64 << 20) /* of a binary */

struct header {
    char magic[8];
    char key[HASH_TEXT]; /* of everything that the binary was made from and for */
    char contents[HASH_TEXT];
    char pad[6];
    uint64_t bytes; /* after the header */
};
_Static_assert(sizeof(struct header) == 88, "no padding");
static const char magic[8] = "stator\x1a\1";

static void key_of(const struct lz_cache *c, const struct opencl_module *m, char key[HASH_TEXT]) {
    char version[24];
    struct hash h;
    hash_init(&h);
    hash_text(&h, lz_system_driver_version(c->gpu->driver, version));
    hash_u64(&h, c->gpu->vendor);
    hash_u64(&h, c->gpu->device);
    hash_text(&h, c->gpu->model);
    hash_text(&h, c->options);
    hash_u64(&h, m->bytes);
    hash_bytes(&h, m->packed, m->packed_bytes);
    if (m->base != NULL)
        hash_bytes(&h, m->base->packed, m->base->packed_bytes);
    hash_final(&h, key);
}

static void contents_of(const void *binary, uint64_t bytes, char out[HASH_TEXT]) {
    struct hash h;
    hash_init(&h);
    hash_bytes(&h, binary, bytes);
    hash_final(&h, out);
}

/* FOLDER/MODULE-KEY[ending]; false: the path is too long. */
static bool path_of(const struct lz_cache *c, const struct opencl_module *m, const char *key,
                    const char *ending, char path[PATH_MAX]) {
    int n = snprintf(path, PATH_MAX, "%s/%s-%s%s", c->folder, m->name, key, ending);
    return n > 0 && n < PATH_MAX;
}

void lz_cache_ignored(const struct lz_cache *c, const struct opencl_module *m, const char *why) {
    log_write(c->log, STATOR_LOG_WARN, "cache.dir: the stored binary of %s for %s is not used: %s", m->name,
              c->gpu->name, why);
}

/* Whoever can write to a binary decides what the GPU runs. NULL: only this user (or root) can. */
static const char *distrusted(const struct stat *st) {
    if (st->st_uid != geteuid() && st->st_uid != 0)
        return "it belongs to another user";
    if ((st->st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return "other users can write to it (chmod go-w)";
    return NULL;
}

bool lz_cache_trusted(const char *folder, const struct log *log) {
    struct stat st;
    if (stat(folder, &st) != 0)
        return true; /* there is none yet, or a line says why it can't be used */
    const char *why = distrusted(&st);
    if (why != NULL)
        log_write(log, STATOR_LOG_WARN, "cache.dir: %s is not used: %s; kernels are compiled", folder, why);
    return why == NULL;
}

/* The open file's binary, or NULL and *why. */
static void *read_binary(int file, const char *key, uint64_t *bytes, const char **why) {
    struct stat st;
    struct header h;
    *why = "it is damaged";
    if (fstat(file, &st) != 0 || !S_ISREG(st.st_mode))
        return NULL;
    const char *others = distrusted(&st);
    if (others != NULL) {
        *why = others;
        return NULL;
    }
    if (st.st_size < (off_t)sizeof h || !stored_file_read(file, &h, sizeof h) ||
        memcmp(h.magic, magic, sizeof magic) != 0)
        return NULL;
    if (memcmp(h.key, key, HASH_TEXT) != 0) {
        *why = "it was made for another driver, device or version of stator";
        return NULL;
    }
    if (h.bytes == 0 || h.bytes > MOST_BYTES || h.bytes != (uint64_t)st.st_size - sizeof h)
        return NULL;
    void *binary = NULL;
    if (pages_map(h.bytes, "a compiled module", &binary, NULL) != STATOR_OK) {
        *why = "there is no memory for it";
        return NULL;
    }
    char contents[HASH_TEXT];
    if (stored_file_read(file, binary, h.bytes)) {
        contents_of(binary, h.bytes, contents);
        if (memcmp(contents, h.contents, HASH_TEXT) == 0) {
            *bytes = h.bytes;
            return binary;
        }
    }
    pages_unmap(binary, h.bytes);
    return NULL;
}

void *lz_cache_load(const struct lz_cache *c, const struct opencl_module *m, uint64_t *bytes) {
    char key[HASH_TEXT], path[PATH_MAX];
    key_of(c, m, key);
    if (!path_of(c, m, key, "", path))
        return NULL; /* lz_cache_store reports it */
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) {
        if (errno != ENOENT)
            lz_cache_ignored(c, m, strerror(errno));
        return NULL;
    }
    const char *why = "";
    void *binary = read_binary(file, key, bytes, &why);
    (void)close(file);
    if (binary == NULL)
        lz_cache_ignored(c, m, why);
    return binary;
}

void lz_cache_free(void *binary, uint64_t bytes) {
    pages_unmap(binary, bytes);
}

/* 0, or errno. */
static int write_whole(const char *made, const char *path, const struct header *h, const void *binary) {
    const int file = stored_file_begin(AT_FDCWD, made);
    if (file < 0)
        return errno;
    const bool good = stored_file_write(file, h, sizeof *h) && stored_file_write(file, binary, h->bytes) &&
                      fsync(file) == 0;
    return stored_file_end(file, AT_FDCWD, made, path, good);
}

void lz_cache_store(const struct lz_cache *c, const struct opencl_module *m, const void *binary,
                    uint64_t bytes) {
    struct header h = {.bytes = bytes};
    char ending[32], made[PATH_MAX], path[PATH_MAX];
    memcpy(h.magic, magic, sizeof magic);
    key_of(c, m, h.key);
    contents_of(binary, bytes, h.contents);
    snprintf(ending, sizeof ending, ".%ld", (long)getpid());
    int error = bytes > MOST_BYTES ? EFBIG : ENAMETOOLONG;
    if (bytes <= MOST_BYTES && path_of(c, m, h.key, ending, made) && path_of(c, m, h.key, "", path)) {
        (void)mkdir(c->folder, 0700); /* if it cannot be made, open reports it */
        error = write_whole(made, path, &h, binary);
    }
    if (error != 0)
        log_write(c->log, STATOR_LOG_WARN, "cache.dir: the binary of %s can't be stored in %s: %s", m->name,
                  c->folder, strerror(error));
}
