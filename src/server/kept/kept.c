#include "server/kept/kept.h"

#include "base/hash.h"
#include "server/http/edge_pool.h"

#include <string.h>

/* The id and the text stand behind it. Places count bytes ever written, so those that were overwritten since
 * are told apart by their place alone. */
struct entry {
    uint64_t older; /* place + 1 of the next one in the bucket */
    uint32_t id, n; /* bytes */
};

bool kept_open(struct kept *k, size_t bytes) {
    *k = (struct kept){.ring = edge_pool_alloc(bytes),
                       .size = bytes / sizeof(struct entry) * sizeof(struct entry)};
    return k->ring != NULL;
}

static uint64_t bucket_of(const char *id, size_t n) {
    return hash_of(id, n) % KEPT_BUCKETS;
}

static bool is_there(const struct kept *k, uint64_t place) {
    return place > 0 && place - 1 + k->size >= k->head;
}

void kept_put(struct kept *k, const char *id, const char *p, size_t n) {
    const size_t id_length = strlen(id);
    const uint64_t unit = sizeof(struct entry);
    if (n > k->size || id_length > k->size)
        return;
    const uint64_t need = (unit + id_length + n + unit - 1) / unit * unit;
    if (need > k->size / 4)
        return;
    const uint64_t left = k->size - k->head % k->size;
    k->head += left < need ? left : 0; /* an entry does not go around the end */
    uint64_t *newest = &k->newest[bucket_of(id, id_length)];
    const struct entry entry = {.older = *newest, .id = (uint32_t)id_length, .n = (uint32_t)n};
    char *to = k->ring + k->head % k->size;
    memcpy(to, &entry, sizeof entry);
    memcpy(to + sizeof entry, id, id_length);
    if (n > 0)
        memcpy(to + sizeof entry + id_length, p, n);
    *newest = k->head + 1;
    k->head += need;
}

const char *kept_get(const struct kept *k, const char *id, size_t *n) {
    const size_t id_length = strlen(id);
    if (k == NULL || k->size == 0)
        return NULL;
    for (uint64_t place = k->newest[bucket_of(id, id_length)]; is_there(k, place);) {
        const char *at = k->ring + (place - 1) % k->size;
        struct entry entry;
        memcpy(&entry, at, sizeof entry);
        if (entry.id == id_length && memcmp(at + sizeof entry, id, id_length) == 0) {
            *n = entry.n;
            return at + sizeof entry + id_length;
        }
        place = entry.older;
    }
    return NULL;
}
