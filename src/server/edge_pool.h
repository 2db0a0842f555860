/* The memory of the program around the engine: one fixed region, planned, from which libevent, jansson and
 * the server allocate. Exhausted it gives NULL, and never takes more from the system.
 *
 * Two-level free lists (powers of two in eighths) with boundary tags: all calls in constant time, neighbours
 * are joined at once. Invariants are CHECKed where memory comes back: a block that is not this pool's, or was
 * given back before, ends the process.
 * One pool per process, because the libraries' hooks have no context. Thread: one at a time. */
#ifndef STATOR_SERVER_EDGE_POOL_H
#define STATOR_SERVER_EDGE_POOL_H

#include <stddef.h>
#include <stdint.h>

/* memory: of edge_pool's own until the process ends or another pool is made of it. Touches every page. */
void edge_pool_init(void *memory, size_t bytes);
/* Directs libevent and jansson here; before any other call of theirs. */
void edge_pool_serve_libraries(void);

void *edge_pool_alloc(size_t n);               /* NULL: exhausted. Aligned to 16 */
void *edge_pool_zeroed(size_t n, size_t size); /* NULL: exhausted, or n * size overflows */
void *edge_pool_resize(void *p, size_t n);     /* NULL: exhausted, p is as it was; p may be NULL */
void edge_pool_free(void *p);                  /* NULL is allowed */

struct edge_pool_figures {
    size_t bytes;      /* of the region */
    size_t used;       /* by what is given out, with headers */
    size_t peak;       /* the most that ever was */
    uint64_t failures; /* calls that got NULL */
};
void edge_pool_get_figures(struct edge_pool_figures *out);

#endif
