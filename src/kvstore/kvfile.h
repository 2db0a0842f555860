/* Reads a file from its beginning to its end. One that the page cache has is copied from there. Another one
 * is read past it (O_DIRECT), through a piece of aligned memory, so that it takes no memory of the page
 * cache. A file system that has no direct I/O, and says so at once or at the first transfer, is read plainly.
 *
 * No memory but the piece. Errors are errno's. Any thread. */
#ifndef STATOR_KVSTORE_KVFILE_H
#define STATOR_KVSTORE_KVFILE_H

#include <stdbool.h>
#include <stdint.h>

#define KVFILE_PIECE (1u << 20) /* bytes of a piece; its address is a multiple of KVFILE_ALIGN */
#define KVFILE_ALIGN 4096u

struct kvfile {
    int file;
    uint8_t *piece;   /* NULL: plain */
    bool refused;     /* the file system has no direct I/O, so the rest is plain */
    uint64_t at, end; /* bytes [at, end) of the piece are not taken yet */
};

/* For a file that is open for reading, or -1; the caller closes it. piece: NULL, or one for direct I/O. */
struct kvfile kvfile_of(int file, uint8_t *piece);
/* Exactly so many bytes; false: there are fewer, or reading fails. */
bool kvfile_get(struct kvfile *f, void *to, uint64_t bytes);

#endif
