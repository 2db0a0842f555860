/* SHA-256 (FIPS 180-4, from libmd) over a stream of typed fields, as base/hash.h has them: where somebody may
 * look for two contents with one hash. Integers are hashed as 8 bytes little-endian, texts with their length
 * in front. */
#ifndef STATOR_KVSTORE_SHA256_H
#define STATOR_KVSTORE_SHA256_H

#include <stdint.h>

#define SHA256_BYTES 32
#define SHA256_STATE 208

struct sha256 {
    _Alignas(8) unsigned char state[SHA256_STATE]; /* libmd's SHA2_CTX; sha256.c asserts the size */
};

void sha256_init(struct sha256 *h);
void sha256_bytes(struct sha256 *h, const void *data, uint64_t n);
void sha256_u64(struct sha256 *h, uint64_t v);
void sha256_text(struct sha256 *h, const char *s);
void sha256_final(const struct sha256 *h, uint8_t out[SHA256_BYTES]); /* more may follow */

#endif
