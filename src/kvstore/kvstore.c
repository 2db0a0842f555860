#include "kvstore/kvstore.h"

#include "base/carve.h"
#include "base/error.h"
#include "base/stored_file.h"
#include "kvstore/kvfile.h"
#include "kvstore/kvsave.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEY  (KVSTORE_KEY_TEXT - 1) /* hex digits of a key */
#define NAME (KEY + sizeof "-k.kv") /* of a block's file: KEY-KIND.kv */
#define MADE "writing.tmp"          /* the one file that the writer has not finished */
#define LOCK "lock"

/* A file: this header, the tokens (4 bytes each), the block. */
struct header {
    char magic[8];
    struct kvstore_key key;
    struct kvstore_key before;
    char kind;
    char pad[7];
    uint64_t bytes; /* of the block */
    uint64_t n_tokens;
    char sum[HASH_TEXT]; /* of the whole file, with zeros here */
    char end[7];
};
_Static_assert(sizeof(struct header) == 136, "no padding");
static const char magic[8] = "statkv\x1a\2";

static void lay_out(struct kvstore *s, struct carve *c, uint32_t files) {
    s->n_buckets = 1;
    while (s->n_buckets < files && s->n_buckets < 1u << 31)
        s->n_buckets *= 2;
    s->entries = carve_take(c, files, sizeof *s->entries);
    s->buckets = carve_take(c, s->n_buckets, sizeof *s->buckets);
    uint8_t *piece = carve_take(c, KVFILE_PIECE + KVFILE_ALIGN, 1);
    s->piece = piece != NULL ? piece + (KVFILE_ALIGN - (uintptr_t)piece % KVFILE_ALIGN) : NULL;
    for (uint32_t i = 0; i < s->n_buckets && c->base != NULL; i++)
        s->buckets[i] = KVSTORE_NONE;
}

uint64_t kvstore_memory(uint32_t files) {
    struct kvstore s;
    struct carve c = carve_count();
    lay_out(&s, &c, files);
    return c.used;
}

void kvstore_key(const struct kvstore_block *b, struct kvstore_key *key) {
    struct sha256 h;
    CHECK(b->n_tokens >= 1 && b->n_tokens <= KVSTORE_TOKENS);
    sha256_init(&h);
    sha256_bytes(&h, b->before, sizeof *b->before);
    sha256_u64(&h, b->n_tokens);
    for (uint32_t i = 0; i < b->n_tokens; i++)
        sha256_u64(&h, b->tokens[i]);
    sha256_final(&h, key->sha256);
}

void kvstore_key_text(const struct kvstore_key *key, char text[KVSTORE_KEY_TEXT]) {
    for (uint32_t i = 0; i < SHA256_BYTES; i++)
        snprintf(text + 2 * (size_t)i, 3, "%02x", (unsigned)key->sha256[i]);
}

static void name_of(const struct kvstore_key *key, char kind, char name[NAME]) {
    CHECK(kind >= 'a' && kind <= 'z');
    kvstore_key_text(key, name);
    snprintf(name + KEY, NAME - KEY, "-%c.kv", kind);
}

static unsigned digit(char c) {
    return c <= '9' ? (unsigned)(c - '0') : (unsigned)(c - 'a') + 10;
}

/* Whether a file of the folder has the name of a block. */
static bool parse_name(const char *name, struct kvstore_entry *e) {
    if (strlen(name) != NAME - 1 || strspn(name, "0123456789abcdef") != KEY || name[KEY] != '-' ||
        name[KEY + 1] < 'a' || name[KEY + 1] > 'z' || strcmp(name + KEY + 2, ".kv") != 0)
        return false;
    for (size_t i = 0; i < SHA256_BYTES; i++)
        e->key.sha256[i] = (uint8_t)(digit(name[2 * i]) * 16 + digit(name[2 * i + 1]));
    e->kind = name[KEY + 1];
    return true;
}

/* What a file of so many bytes takes; the budget counts this. */
static uint64_t size_on_disk(uint64_t bytes) {
    uint64_t r;
    return arith_align_up(bytes, 4096, &r) ? r : UINT64_MAX;
}

/* A key is a hash already. */
static uint32_t *bucket_of(const struct kvstore *s, const struct kvstore_key *key) {
    uint32_t first;
    memcpy(&first, key, sizeof first);
    return &s->buckets[first & (s->n_buckets - 1)];
}

static struct kvstore_entry *find(const struct kvstore *s, const struct kvstore_key *key, char kind) {
    uint32_t i = *bucket_of(s, key);
    while (i != KVSTORE_NONE &&
           (s->entries[i].kind != kind || memcmp(&s->entries[i].key, key, sizeof *key) != 0))
        i = s->entries[i].next;
    return i != KVSTORE_NONE ? &s->entries[i] : NULL;
}

/* What names the entry in its bucket. */
static uint32_t *link_to(const struct kvstore *s, const struct kvstore_entry *e) {
    uint32_t *at = bucket_of(s, &e->key);
    while (&s->entries[*at] != e)
        at = &s->entries[*at].next;
    return at;
}

static void stop_writing(struct kvstore *s, const char *what, int error) {
    s->writes = false;
    log_write(s->options.log, STATOR_LOG_WARN,
              "cache.kv_dir: %s in %s failed: %s; nothing more is written there", what, s->options.folder,
              strerror(error));
}

/* Removes an entry and its file. */
static void drop(struct kvstore *s, struct kvstore_entry *e) {
    char name[NAME];
    name_of(&e->key, e->kind, name);
    if (unlinkat(s->folder, name, 0) != 0 && errno != ENOENT)
        stop_writing(s, "removing a file", errno);
    s->held -= e->bytes;
    *link_to(s, e) = e->next;
    const struct kvstore_entry *last = &s->entries[--s->n_entries];
    if (last != e) {
        *link_to(s, last) = (uint32_t)(e - s->entries);
        *e = *last;
    }
    s->n_dropped++;
}

/* Whether a goes before b. */
static bool goes_before(const struct kvstore_entry *a, const struct kvstore_entry *b) {
    return a->pinned != b->pinned ? b->pinned : a->used < b->used;
}

static struct kvstore_entry *oldest(struct kvstore *s) {
    struct kvstore_entry *r = s->entries;
    for (uint32_t i = 1; i < s->n_entries; i++)
        if (goes_before(&s->entries[i], r))
            r = &s->entries[i];
    return r;
}

/* Makes room for one more file of so many bytes, at most the budget. */
static void make_room(struct kvstore *s, uint64_t bytes) {
    while (s->n_entries > 0 && (s->n_entries == s->options.files || s->held > s->options.bytes - bytes))
        drop(s, oldest(s));
}

static void add(struct kvstore *s, const struct kvstore_entry *e) {
    CHECK(s->n_entries < s->options.files);
    uint32_t *bucket = bucket_of(s, &e->key);
    s->entries[s->n_entries] = *e;
    s->entries[s->n_entries].next = *bucket;
    *bucket = s->n_entries++;
    s->held += e->bytes;
    if (e->used > s->used)
        s->used = e->used;
}

/* Only this user (or root) can have written what this is about. */
static bool trusted(const struct stat *st) {
    return (st->st_uid == geteuid() || st->st_uid == 0) && (st->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

bool kvstore_trusts(const struct stat *st) {
    return S_ISREG(st->st_mode) && trusted(st);
}

void kvstore_pin(struct kvstore *s, const struct kvstore_key *key) {
    for (uint32_t i = *bucket_of(s, key); i != KVSTORE_NONE; i = s->entries[i].next)
        if (memcmp(&s->entries[i].key, key, sizeof *key) == 0)
            s->entries[i].pinned = true;
}

bool kvstore_has_room(const struct kvstore *s, uint64_t old, uint64_t bytes) {
    const uint64_t others = s->saved - ARITH_MIN(s->saved, size_on_disk(old));
    return others <= s->options.bytes && size_on_disk(bytes) <= s->options.bytes - others;
}

void kvstore_count_saves(struct kvstore *s, uint64_t old, uint64_t bytes) {
    const uint64_t less = ARITH_MIN(s->saved, size_on_disk(old)), more = size_on_disk(bytes);
    s->saved = s->saved - less + more;
    s->held = s->held - less + more;
    while (s->n_entries > 0 && s->held > s->options.bytes)
        drop(s, oldest(s));
}

/* Takes one file of the folder into the index. Times of the far past and future only spoil the order. */
static void take_in(struct kvstore *s, const char *name) {
    struct kvstore_entry e = {.pinned = false};
    struct stat st;
    if (!parse_name(name, &e) || fstatat(s->folder, name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(st.st_mode))
        return;
    uint64_t seconds = st.st_mtim.tv_sec < 0 ? 0 : ARITH_MIN((uint64_t)st.st_mtim.tv_sec, (uint64_t)1 << 33);
    e.used = seconds * 1000000000 + (uint64_t)st.st_mtim.tv_nsec;
    e.bytes = size_on_disk((uint64_t)st.st_size);
    const bool last = s->n_entries > 0 && e.used < oldest(s)->used &&
                      (s->n_entries == s->options.files || e.bytes > s->options.bytes - s->held);
    if (e.bytes > s->options.bytes || last) {
        (void)unlinkat(s->folder, name, 0);
        s->n_dropped++;
        return;
    }
    make_room(s, e.bytes);
    add(s, &e);
}

/* The errno of a failure, or 0. */
static int scan(struct kvstore *s) {
    int again = openat(s->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = again >= 0 ? fdopendir(again) : NULL;
    if (d == NULL) {
        int error = errno;
        if (again >= 0)
            (void)close(again);
        return error;
    }
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        take_in(s, e->d_name);
    rewinddir(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        kvsave_take_in(s, e->d_name);
    (void)closedir(d);
    return 0;
}

/* Becomes the folder's writer, if there is none. */
static void lock_folder(struct kvstore *s) {
    s->lock = openat(s->folder, LOCK, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (s->lock >= 0 && flock(s->lock, LOCK_EX | LOCK_NB) == 0) {
        s->writes = true;
        (void)unlinkat(s->folder, MADE, 0); /* of a writer that was killed */
        (void)unlinkat(s->folder, KVSTORE_SAVING, 0);
        return;
    }
    log_write(s->options.log, STATOR_LOG_INFO, "cache.kv_dir: %s is only read: %s", s->options.folder,
              s->lock >= 0 && errno == EWOULDBLOCK ? "another process writes to it" : strerror(errno));
    if (s->lock >= 0)
        (void)close(s->lock);
    s->lock = -1;
}

stator_status kvstore_open(struct kvstore *s, const struct kvstore_options *o, void *memory,
                           stator_error *e) {
    struct stat st;
    CHECK(o->bytes > 0 && o->files > 0);
    struct carve c = carve_in(memory, kvstore_memory(o->files));
    *s = (struct kvstore){.options = *o, .folder = -1, .lock = -1};
    lay_out(s, &c, o->files);
    if (mkdir(o->folder, 0700) != 0 && errno != EEXIST)
        return error_set(e, STATOR_FAILED, "cache.kv_dir: can't make the folder %s: %s", o->folder,
                         strerror(errno));
    s->folder = open(o->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->folder < 0 || fstat(s->folder, &st) != 0) {
        error_set(e, STATOR_FAILED, "cache.kv_dir: can't open the folder %s: %s", o->folder, strerror(errno));
    } else if (!trusted(&st)) {
        error_set(
            e, STATOR_FAILED,
            "cache.kv_dir: other users can write to %s; expected a folder of this user alone (chmod 700)",
            o->folder);
    } else {
        lock_folder(s);
        int error = s->writes ? scan(s) : 0;
        if (error == 0)
            return STATOR_OK;
        error_set(e, STATOR_FAILED, "cache.kv_dir: can't list the folder %s: %s", o->folder, strerror(error));
    }
    kvstore_close(s);
    return STATOR_FAILED;
}

void kvstore_close(struct kvstore *s) {
    if (s->lock >= 0)
        (void)close(s->lock);
    if (s->folder >= 0)
        (void)close(s->folder);
    s->lock = s->folder = -1;
    s->writes = false;
}

/* The header of a block, without its sum. */
static struct header header_of(const struct kvstore_block *b, uint64_t bytes) {
    struct header h = {.kind = b->kind, .bytes = bytes, .n_tokens = b->n_tokens};
    memcpy(h.magic, magic, sizeof magic);
    kvstore_key(b, &h.key);
    h.before = *b->before;
    return h;
}

/* h has no sum yet. */
static void sum_of(const struct header *h, const uint32_t *tokens, const void *block, char sum[HASH_TEXT]) {
    struct hash x;
    hash_init(&x);
    hash_bytes(&x, h, sizeof *h);
    hash_bytes(&x, tokens, h->n_tokens * sizeof *tokens);
    hash_bytes(&x, block, h->bytes);
    hash_final(&x, sum);
}

static void notice_refusal(struct kvstore *s, const struct kvfile *f) {
    if (!f->refused || s->piece == NULL)
        return;
    s->piece = NULL;
    log_write(s->options.log, STATOR_LOG_INFO,
              "cache.kv_dir: the file system of %s has no direct I/O: files are read through the page cache",
              s->options.folder);
}

/* Whether the open file is exactly what `wanted` says, which has no sum, with these tokens. */
static bool read_file(struct kvfile *f, const struct header *wanted, const uint32_t *tokens, void *to) {
    struct stat st;
    struct header h;
    uint32_t found[KVSTORE_TOKENS];
    char sum[HASH_TEXT], stored[HASH_TEXT];
    const uint64_t token_bytes = wanted->n_tokens * sizeof *tokens;
    if (fstat(f->file, &st) != 0 || !S_ISREG(st.st_mode) || !trusted(&st) || st.st_size < 0 ||
        (uint64_t)st.st_size != sizeof h + token_bytes + wanted->bytes || !kvfile_get(f, &h, sizeof h))
        return false;
    memcpy(stored, h.sum, HASH_TEXT);
    memset(h.sum, 0, HASH_TEXT);
    if (memcmp(&h, wanted, sizeof h) != 0 || !kvfile_get(f, found, token_bytes) ||
        memcmp(found, tokens, token_bytes) != 0 || !kvfile_get(f, to, h.bytes))
        return false;
    sum_of(&h, tokens, to, sum);
    return memcmp(sum, stored, HASH_TEXT) == 0;
}

bool kvstore_has(const struct kvstore *s, const struct kvstore_key *key, char kind) {
    char name[NAME];
    if (s->lock >= 0)
        return find(s, key, kind) != NULL;
    name_of(key, kind, name);
    return faccessat(s->folder, name, R_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

bool kvstore_read(struct kvstore *s, const struct kvstore_block *b, void *to, uint64_t bytes) {
    const struct header wanted = header_of(b, bytes);
    char name[NAME];
    name_of(&wanted.key, b->kind, name);
    int file = openat(s->folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    const bool direct = s->options.direct > 0 && bytes >= s->options.direct;
    struct kvfile f = kvfile_of(file, direct ? s->piece : NULL);
    bool good = file >= 0 && read_file(&f, &wanted, b->tokens, to);
    notice_refusal(s, &f);
    struct kvstore_entry *e = find(s, &wanted.key, b->kind);
    if (good && e != NULL) {
        e->used = ++s->used;
        (void)futimens(file, NULL); /* for the next writer's order */
    } else if (!good && e != NULL && s->writes) {
        drop(s, e); /* so that it can be written again */
    }
    if (file >= 0)
        (void)close(file);
    s->n_hits += good;
    return good;
}

/* 0, or errno. */
static int write_file(struct kvstore *s, const char *name, const struct header *h, const uint32_t *tokens,
                      const void *from) {
    const int file = stored_file_begin(s->folder, MADE);
    if (file < 0)
        return errno;
    const bool good = stored_file_write(file, h, sizeof *h) &&
                      stored_file_write(file, tokens, h->n_tokens * sizeof *tokens) &&
                      stored_file_write(file, from, h->bytes);
    if (good) /* so that few pages wait to be written: a hint, whose errors change nothing */
        (void)sync_file_range(file, 0, 0, SYNC_FILE_RANGE_WRITE);
    return stored_file_end(file, s->folder, MADE, name, good);
}

void kvstore_write(struct kvstore *s, const struct kvstore_block *b, const void *from, uint64_t bytes) {
    uint64_t size;
    CHECK(bytes > 0);
    if (!s->writes || !arith_add(bytes, sizeof(struct header) + KVSTORE_TOKENS * sizeof *b->tokens, &size))
        return;
    struct header h = header_of(b, bytes);
    struct kvstore_entry e = {.kind = b->kind, .used = s->used + 1};
    e.bytes = size_on_disk(sizeof h + h.n_tokens * sizeof *b->tokens + bytes);
    char name[NAME];
    name_of(&h.key, b->kind, name);
    struct kvstore_entry *old = find(s, &h.key, b->kind);
    if (old != NULL) {
        old->used = ++s->used;
        (void)utimensat(s->folder, name, NULL, AT_SYMLINK_NOFOLLOW); /* for the next writer's order */
        return;
    }
    if (s->saved > s->options.bytes || e.bytes > s->options.bytes - s->saved)
        return;
    make_room(s, e.bytes);
    if (!s->writes)
        return;
    e.key = h.key;
    sum_of(&h, b->tokens, from, h.sum);
    int error = write_file(s, name, &h, b->tokens, from);
    if (error != 0) {
        stop_writing(s, "writing a block", error);
        return;
    }
    add(s, &e);
    s->n_writes++;
}
