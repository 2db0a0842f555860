#include "kvstore/kvfile.h"

#include "base/arith.h"
#include "base/stored_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_cachestat
#define SYS_cachestat 451 /* on every architecture, since Linux 6.5 */
#endif

/* Whether the page cache has all pages of the file. Where the kernel cannot say, it has not. */
static bool is_cached(int file) {
    struct {
        uint64_t from, bytes; /* 0: to the end */
    } range = {0, 0};
    struct {
        uint64_t cached, dirty, written_back, evicted, recently_evicted;
    } pages = {0, 0, 0, 0, 0};
    struct stat st;
    const long page = sysconf(_SC_PAGESIZE);
    return fstat(file, &st) == 0 && st.st_size > 0 && syscall(SYS_cachestat, file, &range, &pages, 0u) == 0 &&
           pages.cached >= arith_ceil_div((uint64_t)st.st_size, (uint64_t)page);
}

static bool set_direct(int file, bool direct) {
    const int flags = fcntl(file, F_GETFL);
    return flags >= 0 && fcntl(file, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

struct kvfile kvfile_of(int file, uint8_t *piece) {
    struct kvfile f = {.file = file};
    if (file < 0 || piece == NULL || is_cached(file))
        return f;
    f.refused = !set_direct(file, true);
    f.piece = f.refused ? NULL : piece;
    return f;
}

/* After a read that failed: whether it may be tried again. */
static bool again(struct kvfile *f) {
    if (errno != EINVAL || f->refused)
        return errno == EINTR;
    f->refused = true;
    return set_direct(f->file, false);
}

static bool read_piece(struct kvfile *f) {
    ssize_t n;
    do
        n = read(f->file, f->piece, KVFILE_PIECE);
    while (n < 0 && again(f));
    f->at = 0;
    f->end = n > 0 ? (uint64_t)n : 0;
    return n > 0;
}

bool kvfile_get(struct kvfile *f, void *to, uint64_t bytes) {
    if (f->piece == NULL)
        return stored_file_read(f->file, to, bytes);
    for (uint8_t *next = to; bytes > 0;) {
        if (f->at == f->end && !read_piece(f))
            return false;
        const uint64_t n = ARITH_MIN(bytes, f->end - f->at);
        memcpy(next, f->piece + f->at, n);
        f->at += n;
        next += n;
        bytes -= n;
    }
    return true;
}
