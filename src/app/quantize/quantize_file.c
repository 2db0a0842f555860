#include "app/quantize/quantize_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static stator_status failed(const struct quantize_file *f, const char *what, int why, stator_error *e) {
    return error_set(e, why == ENAMETOOLONG ? STATOR_USAGE : STATOR_FAILED, "%.300s %s: %s", f->path, what,
                     strerror(why));
}

static void folder_of(const struct quantize_file *f, char out[PATH_MAX]) {
    char copy[PATH_MAX];
    strcpy(copy, f->path);
    strcpy(out, dirname(copy));
}

/* Where a symbolic link leads, so that the link stays one. */
static stator_status resolve(struct quantize_file *f, const char *path, stator_error *e) {
    char real[PATH_MAX];
    struct stat about;
    snprintf(f->path, sizeof f->path, "%s", path);
    if (strlen(path) + 32 > sizeof f->path)
        return failed(f, "can't be written", ENAMETOOLONG, e);
    if (stat(path, &about) != 0)
        return STATOR_OK;
    if (!S_ISREG(about.st_mode))
        return error_set(e, STATOR_USAGE, "%.300s is not a regular file", path);
    if (realpath(path, real) == NULL || strlen(real) + 32 > sizeof f->path)
        return failed(f, "can't be resolved", ENAMETOOLONG, e);
    strcpy(f->path, real);
    return STATOR_OK;
}

stator_status quantize_file_create(struct quantize_file *f, const char *path, uint64_t bytes,
                                   stator_error *e) {
    char folder[PATH_MAX];
    f->fd = -1;
    f->named = false;
    stator_status st = resolve(f, path, e);
    if (st != STATOR_OK)
        return st;
    folder_of(f, folder);
    snprintf(f->temp, sizeof f->temp, "%.*s.tmp-%ld", PATH_MAX - 32, f->path, (long)getpid());
    f->fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
    if (f->fd < 0 && errno != ENOENT && errno != EACCES) {
        f->fd = open(f->temp, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666);
        f->named = f->fd >= 0;
    }
    if (f->fd < 0)
        return failed(f, "can't be written", errno, e);
    /* A file system that can't reserve finds out later. */
    if (fallocate(f->fd, 0, 0, (off_t)bytes) != 0 && errno != EOPNOTSUPP && errno != EINTR &&
        errno != ENOSYS) {
        const int why = errno;
        failed(f, "can't be written", why, e);
        if (why == ENOSPC)
            error_set(e, STATOR_FAILED,
                      "%.300s can't be written: its %" PRIu64 " bytes do not fit on the disk", f->path,
                      bytes);
        quantize_file_close(f);
        return STATOR_FAILED;
    }
    return STATOR_OK;
}

stator_status quantize_file_write(const struct quantize_file *f, const void *data, uint64_t n, uint64_t at,
                                  stator_error *e) {
    const char *from = data;
    for (uint64_t done = 0; done < n;) {
        const ssize_t put = pwrite(f->fd, from + done, n - done, (off_t)(at + done));
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return failed(f, "can't be written", put < 0 ? errno : EIO, e);
        done += (uint64_t)put;
    }
    return STATOR_OK;
}

stator_status quantize_file_settle(struct quantize_file *f, stator_error *e) {
    char self[64];
    if (fsync(f->fd) != 0)
        return failed(f, "can't be written", errno, e);
    if (f->named)
        return STATOR_OK;
    snprintf(self, sizeof self, "/proc/self/fd/%d", f->fd);
    if (linkat(AT_FDCWD, self, AT_FDCWD, f->temp, AT_SYMLINK_FOLLOW) != 0)
        return failed(f, "can't get a name", errno, e);
    f->named = true;
    return STATOR_OK;
}

stator_status quantize_file_publish(struct quantize_file *f, stator_error *e) {
    char folder[PATH_MAX];
    if (rename(f->temp, f->path) != 0)
        return failed(f, "can't be written", errno, e);
    f->named = false;
    folder_of(f, folder);
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) { /* the name, too, is on the disk; there are file systems that can't */
        (void)fsync(fd);
        close(fd);
    }
    return STATOR_OK;
}

void quantize_file_close(struct quantize_file *f) {
    if (f->fd < 0)
        return;
    if (f->named)
        (void)unlink(f->temp);
    close(f->fd);
    f->fd = -1;
}
