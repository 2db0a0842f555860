/* Blocks of caches as files of a folder: what a model remembers of a prefix, over restarts.
 *
 * A block is a function of the model, the KV type and the tokens up to its end. Its name is the chain hash of
 * these (SHA-256): the caller's root for no tokens, which tells models and KV types apart, then one link per
 * block. A client that chooses its tokens can
 * therefore make no two prefixes with one name. A file also holds the tokens of its block and the name of the
 * block before it, and a read compares both.
 *
 * A file is written to a temporary name and renamed. There is no fsync: a
 * read checks the hash of the whole file, so what a crash of the machine leaves is noticed. A file that is
 * damaged, cut, of another user, writable by others or no regular file is absent. The hash finds accidents.
 * It is no proof against somebody who can write as this user.
 *
 * The first process that opens a folder writes to it (a lock); later ones only read. The writer keeps the
 * files within the budget: the one that was used longest ago goes first. When a write fails, it says so in
 * one line and writes no more.
 *
 * Saved texts (kvsave.h) lie in the same folder. Their blocks are pinned: they go when all others are gone.
 *
 * The files hold the tokens, so they contain the conversations. Files have mode 0600.
 *
 * Memory is the caller's. Only kvstore_open uses the heap. Thread: one at a time. */
#ifndef STATOR_KVSTORE_KVSTORE_H
#define STATOR_KVSTORE_KVSTORE_H

#include "base/hash.h"
#include "base/log.h"
#include "kvstore/sha256.h"

#include <stdbool.h>
#include <stdint.h>

#define KVSTORE_TOKENS   256 /* most tokens of a block */
#define KVSTORE_NONE     UINT32_MAX
#define KVSTORE_KEY_TEXT (2 * SHA256_BYTES + 1)
#define KVSTORE_DIRECT   65536        /* bytes from which on a file had better pass the page cache by */
#define KVSTORE_SAVING   "saving.tmp" /* the one save that is not finished */

struct kvstore_options {
    const char *folder; /* made with mode 0700 if absent; must stay valid */
    uint64_t bytes;     /* the budget of all files together; > 0 */
    uint32_t files;     /* most files; > 0 */
    uint64_t direct;    /* blocks of at least so many bytes are read by direct I/O (kvfile.h); 0: none */
    const struct log *log;
};

/* The name of a block, or of what comes before a model's first. */
struct kvstore_key {
    uint8_t sha256[SHA256_BYTES];
};

struct kvstore_entry {
    struct kvstore_key key;
    uint64_t bytes; /* of the file */
    uint64_t used;  /* larger: later */
    uint32_t next;  /* of the same bucket */
    char kind;
    bool pinned; /* of a saved text */
};

struct kvstore {
    struct kvstore_options options;
    struct kvstore_entry *entries; /* n_entries of options.files; empty in a reader */
    uint32_t n_entries;
    uint32_t *buckets; /* n_buckets, a power of two: the first entry of each, or KVSTORE_NONE */
    uint32_t n_buckets;
    uint8_t *piece;                       /* of direct I/O; NULL: it is not used, or was refused */
    int folder, lock;                     /* file descriptors; lock is -1 in a reader */
    bool writes;                          /* false in a reader, and after a write has failed */
    uint64_t held;                        /* bytes of all entries and saves */
    uint64_t saved;                       /* of the saves */
    uint64_t used;                        /* the largest `used` */
    uint64_t n_hits, n_writes, n_dropped; /* n_dropped: files that went for the budget or for damage */
};

struct kvstore_block {
    char kind;                        /* 'a' to 'z': what the caller keeps of these tokens */
    const struct kvstore_key *before; /* of the block before, or the root */
    const uint32_t *tokens;           /* n_tokens, 1 to KVSTORE_TOKENS */
    uint32_t n_tokens;
};

/* Bytes that a store of so many files needs, aligned to 64. */
uint64_t kvstore_memory(uint32_t files);
/* STATOR_FAILED with a text if the folder can't be made or read, or other users can write to it. */
stator_status kvstore_open(struct kvstore *s, const struct kvstore_options *o, void *memory, stator_error *e);
void kvstore_close(struct kvstore *s);

/* The key of a block. */
void kvstore_key(const struct kvstore_block *b, struct kvstore_key *key);
/* Its hex digits, as in the name of a file. */
void kvstore_key_text(const struct kvstore_key *key, char text[KVSTORE_KEY_TEXT]);

/* Whether there is a file of this name. What it holds is not looked at. */
bool kvstore_has(const struct kvstore *s, const struct kvstore_key *key, char kind);
/* Reads a block of exactly `bytes` bytes. false: absent; then *to holds anything. */
bool kvstore_read(struct kvstore *s, const struct kvstore_block *b, void *to, uint64_t bytes);
/* Keeps a block of bytes > 0, unless it does not fit into the budget or the store does not write. One that is
 * there already counts as used. */
void kvstore_write(struct kvstore *s, const struct kvstore_block *b, const void *from, uint64_t bytes);

/* For kvsave.c. */
struct stat;
/* Only this user (or root) can have written what this is about: a regular file. */
bool kvstore_trusts(const struct stat *st);
/* The block's files go last. */
void kvstore_pin(struct kvstore *s, const struct kvstore_key *key);
/* Whether saves may grow by a file of so many bytes in place of one of `old`. */
bool kvstore_has_room(const struct kvstore *s, uint64_t old, uint64_t bytes);
/* A save of `old` bytes (0: none) is now one of so many; blocks go until the budget holds all. */
void kvstore_count_saves(struct kvstore *s, uint64_t old, uint64_t bytes);

#endif
