/* Texts of answers by their ids: the arguments of calls as the model wrote them, and items that a client may
 * refer to instead of sending them. A ring of bytes in the edge pool: the newest texts push out the oldest.
 * Thread: the loop's. */
#ifndef STATOR_SERVER_KEPT_H
#define STATOR_SERVER_KEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEPT_BYTES   (1u << 20) /* of texts and ids, where the pool has room for it */
#define KEPT_BUCKETS 2048

struct kept { /* all zero: keeps nothing */
    char *ring;
    uint64_t size;                 /* of the ring; whole entries of 8 bytes */
    uint64_t head;                 /* bytes that were ever written: the next entry stands at head % size */
    uint64_t newest[KEPT_BUCKETS]; /* by hash of the id: the newest entry's place + 1; 0: none */
};

/* Takes its memory from the pool for good. False: the pool has no room. */
bool kept_open(struct kept *k, size_t bytes);
/* A text that takes more than a quarter of the ring is not kept. */
void kept_put(struct kept *k, const char *id, const char *p, size_t n);
/* The newest text of that id, until the next kept_put; NULL: there is none (any more). k may be NULL. */
const char *kept_get(const struct kept *k, const char *id, size_t *n);

#endif
