/* The memory of the program around the engine: fixed regions, planned, from which libevent, jansson and
 * the server allocate. Exhausted it gives NULL, and never takes more from the system.
 *
 * Two-level free lists (powers of two in eighths) with boundary tags: all calls take constant time, and
 * neighbours are joined at once. What comes back is CHECKed: a block that is not this pool's, or was given
 * back before, ends the process.
 * One pool per process, because the libraries' hooks have no context. Thread: one at a time. */
#ifndef STATOR_SERVER_EDGE_POOL_H
#define STATOR_SERVER_EDGE_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* memory: page-aligned, bytes >= 4096, the pool's until another is made. Touches every page. */
void edge_pool_init(void *memory, size_t bytes);
/* A further region of the same kind, at most EDGE_POOL_REGIONS in all. No block goes over its end. */
void edge_pool_add(void *memory, size_t bytes);
#define EDGE_POOL_REGIONS 8
/* Directs libevent and jansson here, before any other call of theirs in this process. (base/json_reader.h
 * would direct jansson elsewhere: it is not for the server.) */
void edge_pool_serve_libraries(void);

void *edge_pool_alloc(size_t n);               /* NULL: exhausted. Aligned to 16; n may be 0 */
void *edge_pool_zeroed(size_t n, size_t size); /* NULL: exhausted, or n * size overflows */
void *edge_pool_resize(void *p, size_t n);     /* NULL: exhausted, and p is as it was; p may be NULL */
void edge_pool_free(void *p);                  /* NULL is allowed */
/* Room to work in that comes back within the same call. It may be most of what is free, so the figures' peak
 * does not count it. One at a time. NULL: exhausted. */
void *edge_pool_lend(size_t n);
void edge_pool_take_back(void *p);
/* The largest block that edge_pool_alloc gives for sure now; 0: none. */
size_t edge_pool_largest(void);

/* Runs f, which uses jansson: where jansson finds no memory, f ends at once, what jansson took in it is given
 * back, and the result is false. (jansson 2.14 is not safe when its allocator returns NULL.) f must hold
 * nothing else that needs giving back. Not inside another one. */
bool edge_pool_try_json(void (*f)(void *context), void *context);

struct edge_pool_figures {
    size_t bytes;      /* of all regions */
    size_t used;       /* by what is given out, with headers */
    size_t peak;       /* the most that ever was, besides what was lent */
    uint64_t failures; /* calls that found no memory */
};
void edge_pool_get_figures(struct edge_pool_figures *out);
/* Every byte belongs to one block, `used` is the sum of what is given out, and each free block is in its
 * list. It looks at every block: for tests and debug builds. */
bool edge_pool_is_whole(void);

#endif
