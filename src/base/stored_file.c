#include "base/stored_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

bool stored_file_read(int file, void *to, uint64_t bytes) {
    for (uint64_t done = 0; done < bytes;) {
        ssize_t n = read(file, (uint8_t *)to + done, bytes - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        done += (uint64_t)n;
    }
    return true;
}

bool stored_file_write(int file, const void *from, uint64_t bytes) {
    for (uint64_t done = 0; done < bytes;) {
        ssize_t n = write(file, (const uint8_t *)from + done, bytes - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        done += (uint64_t)n;
    }
    return true;
}

int stored_file_begin(int folder, const char *made) {
    const int file = openat(folder, made, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file >= 0)
        errno = 0;
    return file;
}

int stored_file_end(int file, int folder, const char *made, const char *name, bool good) {
    int error = good ? 0 : errno != 0 ? errno : EIO;
    if (close(file) != 0 && error == 0)
        error = errno;
    if (error == 0 && renameat(folder, made, folder, name) != 0)
        error = errno;
    if (error != 0)
        (void)unlinkat(folder, made, 0);
    return error;
}
