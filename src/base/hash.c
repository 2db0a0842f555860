#include "base/hash.h"

#include "base/check.h"

#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(XXH3_state_t) <= HASH_STATE, "struct hash holds an XXH3 state");

static XXH3_state_t *state(struct hash *h) {
    return (XXH3_state_t *)h->state;
}

void hash_init(struct hash *h) {
    XXH3_INITSTATE(state(h));
    XXH_errorcode rc = XXH3_128bits_reset(state(h));
    CHECK(rc == XXH_OK);
}

void hash_bytes(struct hash *h, const void *data, uint64_t n) {
    XXH_errorcode rc = XXH3_128bits_update(state(h), data, n);
    CHECK(rc == XXH_OK);
}

void hash_u64(struct hash *h, uint64_t v) {
    unsigned char b[8];
    for (int i = 0; i < 8; i++)
        b[i] = (unsigned char)(v >> (8 * i));
    hash_bytes(h, b, sizeof b);
}

void hash_text(struct hash *h, const char *s) {
    uint64_t n = strlen(s);
    hash_u64(h, n);
    hash_bytes(h, s, n);
}

void hash_final(const struct hash *h, char out[HASH_TEXT]) {
    XXH128_hash_t v = XXH3_128bits_digest((const XXH3_state_t *)h->state);
    snprintf(out, HASH_TEXT, "%016llx%016llx", (unsigned long long)v.high64, (unsigned long long)v.low64);
}

uint64_t hash_of(const void *data, uint64_t n) {
    return XXH3_64bits(data, n);
}
