#include "kvstore/kvsave.h"

#include "base/arith.h"
#include "base/stored_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_NAME (KVSAVE_NAME + sizeof KVSAVE_END)
#define SOME      64 /* keys that are read at a time */

/* A file: this header, the tokens (4 bytes each), the keys. */
struct header {
    char magic[8];
    struct kvstore_key root;
    uint64_t n_tokens;
    uint64_t n_keys;
    char sum[HASH_TEXT]; /* of the whole file, with zeros here */
    char end[7];
};
_Static_assert(sizeof(struct header) == 96, "no padding");
static const char magic[8] = "statks\x1a\1";

const char *kvsave_name_is_wrong(const char *name) {
    const size_t n = strlen(name);
    if (n == 0)
        return "is empty";
    if (n > KVSAVE_NAME)
        return "is longer than 128 bytes";
    if (name[0] == '.')
        return "begins with a dot";
    if (strstr(name, "..") != NULL)
        return "has two dots behind each other";
    for (size_t i = 0; i < n; i++) {
        if (name[i] == '/' || name[i] == '\\')
            return "has a slash";
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7F)
            return "has a control character";
    }
    return NULL;
}

static void file_of(const char *name, char file[FILE_NAME]) {
    CHECK(kvsave_name_is_wrong(name) == NULL);
    snprintf(file, FILE_NAME, "%s" KVSAVE_END, name);
}

/* Bytes of a file with this header; 0: there is no such. */
static uint64_t size_of(const struct header *h) {
    if (h->n_tokens > INT32_MAX || h->n_keys > h->n_tokens)
        return 0;
    return sizeof *h + h->n_tokens * sizeof(int32_t) + h->n_keys * sizeof(struct kvstore_key);
}

/* Reads the header of an open file, and says whether the file can be what it says. The sum is taken out of
 * it. */
static bool read_header(int file, struct header *h, char sum[HASH_TEXT]) {
    struct stat st;
    if (fstat(file, &st) != 0 || !kvstore_trusts(&st) || !stored_file_read(file, h, sizeof *h))
        return false;
    memcpy(sum, h->sum, HASH_TEXT);
    memset(h->sum, 0, HASH_TEXT);
    return memcmp(h->magic, magic, sizeof magic) == 0 && size_of(h) > 0 && (uint64_t)st.st_size == size_of(h);
}

/* The keys of an open file go into the hash; pins: and their blocks are pinned. */
static bool read_keys(int file, uint64_t n, struct hash *x, struct kvstore *pins) {
    struct kvstore_key keys[SOME];
    for (uint64_t left = n; left > 0;) {
        const uint64_t some = ARITH_MIN(left, (uint64_t)SOME);
        if (!stored_file_read(file, keys, some * sizeof *keys))
            return false;
        hash_bytes(x, keys, some * sizeof *keys);
        for (uint64_t i = 0; i < some && pins != NULL; i++)
            kvstore_pin(pins, &keys[i]);
        left -= some;
    }
    return true;
}

static bool ends_with(struct hash *x, const char sum[HASH_TEXT]) {
    char found[HASH_TEXT];
    hash_final(x, found);
    return memcmp(found, sum, HASH_TEXT) == 0;
}

static int open_file(const struct kvstore *s, const char *file) {
    return openat(s->folder, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

static stator_status read_text(int file, const struct kvsave *wanted, int32_t *tokens, uint32_t capacity,
                               uint32_t *n, uint64_t *bytes, stator_error *e) {
    struct header h;
    char sum[HASH_TEXT];
    struct hash x;
    const bool good = read_header(file, &h, sum);
    if (good && memcmp(&h.root, wanted->root, sizeof h.root) != 0)
        return error_set(e, STATOR_USAGE,
                         "\"%s\" was saved with another model, KV type or version of stator: its tokens mean "
                         "nothing here",
                         wanted->name);
    if (good && h.n_tokens > capacity) {
        *n = (uint32_t)h.n_tokens;
        return error_set(e, STATOR_USAGE,
                         "\"%s\" has %" PRIu64 " tokens, memory.context is %" PRIu32 ": raise it",
                         wanted->name, h.n_tokens, capacity);
    }
    hash_init(&x);
    hash_bytes(&x, &h, sizeof h);
    if (!good || !stored_file_read(file, tokens, h.n_tokens * sizeof *tokens))
        return error_set(e, STATOR_USAGE, "the file of \"%s\" is damaged, or no save of stator: remove it",
                         wanted->name);
    hash_bytes(&x, tokens, h.n_tokens * sizeof *tokens);
    if (!read_keys(file, h.n_keys, &x, NULL) || !ends_with(&x, sum))
        return error_set(e, STATOR_USAGE, "the file of \"%s\" is damaged: remove it", wanted->name);
    *n = (uint32_t)h.n_tokens;
    *bytes = size_of(&h);
    return STATOR_OK;
}

stator_status kvsave_read(const struct kvstore *s, const char *name, const struct kvstore_key *root,
                          int32_t *tokens, uint32_t capacity, uint32_t *n, uint64_t *bytes, stator_error *e) {
    char file[FILE_NAME];
    const struct kvsave wanted = {.name = name, .root = root};
    *n = 0;
    *bytes = 0;
    file_of(name, file);
    const int f = open_file(s, file);
    if (f < 0)
        return error_set(e, STATOR_USAGE, "nothing is saved as \"%s\" in cache.kv_dir (%s): %s", name,
                         s->options.folder, strerror(errno));
    const stator_status st = read_text(f, &wanted, tokens, capacity, n, bytes, e);
    (void)close(f);
    return st;
}

/* The bytes of a file that is there; 0: there is none. */
static uint64_t size_there(const struct kvstore *s, const char *file) {
    struct stat st;
    return fstatat(s->folder, file, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size > 0 ? (uint64_t)st.st_size
                                                                                     : 0;
}

void kvsave_take_in(struct kvstore *s, const char *file) {
    struct header h;
    char sum[HASH_TEXT];
    struct hash x;
    const size_t n = strlen(file), end = strlen(KVSAVE_END);
    if (n <= end || n >= FILE_NAME || strcmp(file + n - end, KVSAVE_END) != 0)
        return;
    const int f = open_file(s, file);
    if (f < 0)
        return;
    kvstore_count_saves(s, 0, size_there(s, file));
    hash_init(&x); /* what a damaged file pins is no harm */
    if (read_header(f, &h, sum) && lseek(f, (off_t)(h.n_tokens * sizeof(int32_t)), SEEK_CUR) > 0)
        (void)read_keys(f, h.n_keys, &x, s);
    (void)close(f);
}

/* 0, or errno. */
static int write_file(const struct kvstore *s, const struct kvsave *v, const char *file) {
    struct header h = {.root = *v->root, .n_tokens = v->n_tokens, .n_keys = v->n_keys};
    struct hash x;
    memcpy(h.magic, magic, sizeof magic);
    hash_init(&x);
    hash_bytes(&x, &h, sizeof h);
    hash_bytes(&x, v->tokens, v->n_tokens * sizeof *v->tokens);
    hash_bytes(&x, v->keys, v->n_keys * sizeof *v->keys);
    hash_final(&x, h.sum);
    const int f = stored_file_begin(s->folder, KVSTORE_SAVING);
    if (f < 0)
        return errno;
    const bool good = stored_file_write(f, &h, sizeof h) &&
                      stored_file_write(f, v->tokens, v->n_tokens * sizeof *v->tokens) &&
                      stored_file_write(f, v->keys, v->n_keys * sizeof *v->keys);
    return stored_file_end(f, s->folder, KVSTORE_SAVING, file, good);
}

stator_status kvsave_write(struct kvstore *s, const struct kvsave *v, uint64_t *bytes, stator_error *e) {
    char file[FILE_NAME];
    const struct header h = {.n_tokens = v->n_tokens, .n_keys = v->n_keys};
    file_of(v->name, file);
    *bytes = size_of(&h);
    if (s->lock < 0)
        return error_set(e, STATOR_FAILED,
                         "another process writes to cache.kv_dir (%s), this one only reads there: save it in "
                         "that one",
                         s->options.folder);
    if (!s->writes)
        return error_set(
            e, STATOR_FAILED,
            "a write to cache.kv_dir (%s) has failed (see the log), so nothing is saved there until a "
            "restart",
            s->options.folder);
    const uint64_t old = size_there(s, file);
    if (!kvstore_has_room(s, old, *bytes))
        return error_set(
            e, STATOR_FAILED,
            "the saves in cache.kv_dir (%s) leave no room for one more in cache.kv_bytes: remove "
            "files *" KVSAVE_END ", or raise it",
            s->options.folder);
    const int error = write_file(s, v, file);
    if (error != 0)
        return error_set(e, STATOR_FAILED, "the file of \"%s\" in cache.kv_dir (%s) can't be written: %s",
                         v->name, s->options.folder, strerror(error));
    kvstore_count_saves(s, old, *bytes);
    for (uint32_t i = 0; i < v->n_keys; i++)
        kvstore_pin(s, &v->keys[i]);
    return STATOR_OK;
}
