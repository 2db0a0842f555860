/* A file that appears under its name when it is whole, and not before: it has no name at all until then where
 * the file system allows that (O_TMPFILE), so nothing is left behind however the process ends; elsewhere a
 * temporary one.
 *
 * Owner: the caller. Writing: any thread. */
#ifndef STATOR_APP_QUANTIZE_FILE_H
#define STATOR_APP_QUANTIZE_FILE_H

#include "base/error.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct quantize_file {
    int fd;              /* -1: closed */
    bool named;          /* temp is a name in the file system */
    char path[PATH_MAX]; /* what it will be; not a symbolic link */
    char temp[PATH_MAX];
};

/* Takes `bytes` of the disk, where the file system can, so that a full one is known at once. */
stator_status quantize_file_create(struct quantize_file *f, const char *path, uint64_t bytes,
                                   stator_error *e);
stator_status quantize_file_write(const struct quantize_file *f, const void *data, uint64_t n, uint64_t at,
                                  stator_error *e);
/* All that was written is on the disk, and has a temporary name. */
stator_status quantize_file_settle(struct quantize_file *f, stator_error *e);
/* Under its own name, instead of what had that name. */
stator_status quantize_file_publish(struct quantize_file *f, stator_error *e);
/* Closes it; what was not published is gone. */
void quantize_file_close(struct quantize_file *f);

#endif
