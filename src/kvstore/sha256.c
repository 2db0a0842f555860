#include "kvstore/sha256.h"

#include <sha2.h>
#include <string.h>

_Static_assert(sizeof(SHA2_CTX) <= SHA256_STATE, "struct sha256 holds the state of libmd");
_Static_assert(SHA256_BYTES == SHA256_DIGEST_LENGTH, "the digest of libmd");

static SHA2_CTX *state(struct sha256 *h) {
    return (SHA2_CTX *)(void *)h->state;
}

void sha256_init(struct sha256 *h) {
    SHA256Init(state(h));
}

void sha256_bytes(struct sha256 *h, const void *data, uint64_t n) {
    SHA256Update(state(h), data, n);
}

void sha256_u64(struct sha256 *h, uint64_t v) {
    unsigned char b[8];
    for (int i = 0; i < 8; i++)
        b[i] = (unsigned char)(v >> (8 * i));
    sha256_bytes(h, b, sizeof b);
}

void sha256_text(struct sha256 *h, const char *s) {
    uint64_t n = strlen(s);
    sha256_u64(h, n);
    sha256_bytes(h, s, n);
}

void sha256_final(const struct sha256 *h, uint8_t out[SHA256_BYTES]) {
    struct sha256 copy = *h;
    SHA256Final(out, state(&copy));
}
