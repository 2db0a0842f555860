/* Files that are there whole or not at all: written under a name of their own and then renamed. No path is
 * remembered; the caller owns descriptors. Errors are errno's. Any thread. */
#ifndef STATOR_BASE_STORED_FILE_H
#define STATOR_BASE_STORED_FILE_H

#include <stdbool.h>
#include <stdint.h>

/* Exactly so many bytes, going on after signals. False: errno says why, or is as it was where the file ended
 * or takes no more. */
bool stored_file_read(int file, void *to, uint64_t bytes);
bool stored_file_write(int file, const void *from, uint64_t bytes);

/* An empty file that only this user can read, in the folder (a descriptor, or AT_FDCWD); a link is not
 * followed. -1: errno says why; otherwise errno is 0. */
int stored_file_begin(int folder, const char *made);
/* Closes the file. good: all was written, and `made` becomes `name`; else `made` is removed. 0, or the error:
 * errno's where not good (EIO if it is 0), or that of closing or renaming. */
int stored_file_end(int file, int folder, const char *made, const char *name, bool good);

#endif
