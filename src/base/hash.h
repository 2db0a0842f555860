/* 128-bit content hashes (XXH3, from libxxhash) over a stream of typed fields: the same fields give the same
 * hash on any machine. Integers are hashed as 8 bytes little-endian, texts with their length in front. */
#ifndef STATOR_BASE_HASH_H
#define STATOR_BASE_HASH_H

#include <stdint.h>

#define HASH_TEXT  33 /* 32 hex digits and the end */
#define HASH_STATE 640

struct hash {
    _Alignas(64) unsigned char state[HASH_STATE]; /* XXH3_state_t; hash.c asserts the size */
};

void hash_init(struct hash *h);
void hash_bytes(struct hash *h, const void *data, uint64_t n);
void hash_u64(struct hash *h, uint64_t v);
void hash_text(struct hash *h, const char *s);
void hash_final(const struct hash *h, char out[HASH_TEXT]);
uint64_t hash_of(const void *data, uint64_t n); /* XXH3 64 of one piece, for hash tables */

#endif
