/* Files of cache.kv_dir in the simulator: the jobs of the thread that reads and writes them are turns of the
 * one thread, and the seed says which of its calls are partial, interrupted or fail, when the disk is full,
 * and what a crash leaves behind. The files themselves are real, in a folder of this process. Their times are
 * a counter, so that the same seed drops the same files. Linked with --wrap. */
#ifndef STATOR_TESTS_SIM_FILES_H
#define STATOR_TESTS_SIM_FILES_H

#include "sim_engine.h"

#include "engine/cache/kv_disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    char folder[64];   /* of the process; "": not made yet */
    bool on;           /* the play has files */
    bool killed;       /* jobs that were pushed are lost */
    bool inside;       /* a job is running: its calls may fail */
    bool full;         /* the disk */
    bool slow;         /* jobs take long */
    uint32_t fails_in; /* of a thousand calls */
    uint32_t restart_at[3];
    int64_t time; /* of the file written last */
    uint64_t partial, failed, damaged, restarts, kills, read, written;
} files;

static bool sim_file_fails(void) {
    const bool fails = files.inside && files.fails_in > 0 && sim_below(1000) < files.fails_in;
    files.failed += fails;
    return fails;
}

/* So many of n bytes as a call takes. */
static size_t sim_some(size_t n) {
    const size_t some = n > 1 && sim_below(4) == 0 ? 1 + sim_below(n - 1) : n;
    files.partial += some < n;
    return some;
}

ssize_t __real_read(int fd, void *to, size_t n);
ssize_t __wrap_read(int fd, void *to, size_t n);
ssize_t __wrap_read(int fd, void *to, size_t n) {
    if (!files.inside)
        return __real_read(fd, to, n);
    sim.now_ns += sim_below(1 + sim.longest_ns / 8);
    if (sim_file_fails()) {
        errno = sim_below(2) ? EINTR : EIO;
        return -1;
    }
    const ssize_t got = __real_read(fd, to, sim_some(n));
    if (got > 0 && files.fails_in > 0 && sim_below(2000) < files.fails_in) {
        ((uint8_t *)to)[sim_below((uint64_t)got)] ^= (uint8_t)(1u << sim_below(8));
        files.damaged++;
    }
    return got;
}

ssize_t __real_write(int fd, const void *from, size_t n);
ssize_t __wrap_write(int fd, const void *from, size_t n);
ssize_t __wrap_write(int fd, const void *from, size_t n) {
    if (!files.inside)
        return __real_write(fd, from, n);
    sim.now_ns += sim_below(1 + sim.longest_ns / 8);
    if (files.full || sim_file_fails()) {
        errno = files.full ? ENOSPC : sim_below(3) ? EINTR : EIO;
        return -1;
    }
    return __real_write(fd, from, sim_some(n));
}

int __real_openat(int folder, const char *name, int flags, ...);
int __wrap_openat(int folder, const char *name, int flags, unsigned mode);
int __wrap_openat(int folder, const char *name, int flags, unsigned mode) {
    if (sim_file_fails()) {
        errno = EMFILE;
        return -1;
    }
    return __real_openat(folder, name, flags, mode);
}

static void sim_file_date(int folder, const char *name) {
    const struct timespec t[2] = {{.tv_sec = ++files.time}, {.tv_sec = files.time}};
    CHECK(utimensat(folder, name, t, AT_SYMLINK_NOFOLLOW) == 0);
}

int __real_renameat(int from, const char *a, int to, const char *b);
int __wrap_renameat(int from, const char *a, int to, const char *b);
int __wrap_renameat(int from, const char *a, int to, const char *b) {
    if (sim_file_fails()) {
        errno = EIO;
        return -1;
    }
    const int rc = __real_renameat(from, a, to, b);
    if (rc == 0 && files.inside)
        sim_file_date(to, b);
    return rc;
}

int __real_futimens(int fd, const struct timespec t[2]);
int __wrap_futimens(int fd, const struct timespec t[2]);
int __wrap_futimens(int fd, const struct timespec t[2]) {
    const struct timespec now[2] = {{.tv_sec = ++files.time}, {.tv_sec = files.time}};
    return __real_futimens(fd, t == NULL ? now : t);
}

/* The thread of the files is this one: kv_jobs_turn. */
int __real_pthread_create(pthread_t *id, const pthread_attr_t *a, void *(*run)(void *context), void *context);
int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *a, void *(*run)(void *context), void *context);
int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *a, void *(*run)(void *context),
                          void *context) {
    if (!files.on || sim.s == NULL || context != &sim.s->run.kv_disk.jobs)
        return __real_pthread_create(id, a, run, context);
    memset(id, 0, sizeof *id);
    return 0;
}

static bool sim_file_job(void) {
    if (!files.on)
        return false;
    files.inside = true;
    const bool ran = kv_jobs_turn(&sim.s->run.kv_disk.jobs);
    files.inside = false;
    return ran;
}

int __real_pthread_join(pthread_t id, void **out);
int __wrap_pthread_join(pthread_t id, void **out);
int __wrap_pthread_join(pthread_t id, void **out) {
    if (!files.on)
        return __real_pthread_join(id, out);
    while (!files.killed && sim_file_job())
        ;
    return 0;
}

bool __real_ring_wait(struct ring *r, uint64_t timeout_ns);
bool __wrap_ring_wait(struct ring *r, uint64_t timeout_ns);
/* The engine's thread waits for a job: it runs. */
bool __wrap_ring_wait(struct ring *r, uint64_t timeout_ns) {
    if (sim_cluster != NULL && sim.s != NULL && r == sim.s->front.commands) {
        sim.now_ns += 1 + sim_below(ARITH_MIN(timeout_ns, (uint64_t)1000000000));
        return eng.woken;
    }
    if (!files.on || sim.s == NULL || r != sim.s->run.kv_disk.jobs.done)
        return __real_ring_wait(r, timeout_ns);
    if (!sim_file_job())
        sim_fail("the engine's thread waits for a job that nobody runs");
    return true;
}

/* Calls f for each file of the folder. */
static void sim_each_file(void (*f)(int folder, const char *name, int64_t time, void *context),
                          void *context) {
    DIR *d = opendir(files.folder);
    CHECK(d != NULL);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        struct stat st;
        if (e->d_name[0] != '.' && fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
            f(dirfd(d), e->d_name, st.st_mtim.tv_sec, context);
    }
    closedir(d);
}

static void sim_remove_file(int folder, const char *name, int64_t time, void *context) {
    (void)time;
    (void)context;
    CHECK(unlinkat(folder, name, 0) == 0);
}

/* What a crash of the machine may do to a file that was not synced. */
static void sim_crash_file(int folder, const char *name, int64_t time, void *context) {
    struct stat st;
    const uint64_t *which = context;
    if ((uint64_t)time % 8 != *which || strstr(name, ".kv") == NULL || fstatat(folder, name, &st, 0) != 0)
        return;
    const int fd = __real_openat(folder, name, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    const uint64_t what = sim_mix((uint64_t)time, sim.seed), at = what / 4 % (uint64_t)st.st_size;
    uint8_t byte = 0;
    if (what % 4 == 0)
        CHECK(ftruncate(fd, (off_t)at) == 0);
    else if (what % 4 == 1)
        CHECK(pread(fd, &byte, 1, (off_t)at) == 1 && (byte ^= 4, pwrite(fd, &byte, 1, (off_t)at) == 1));
    const struct timespec t[2] = {{.tv_sec = time}, {.tv_sec = time}};
    CHECK(__real_futimens(fd, t) == 0);
    close(fd);
    files.damaged += what % 4 < 2;
}

static void sim_files_crash(void) {
    uint64_t which = sim_below(12);
    sim_each_file(sim_crash_file, &which);
    char path[128];
    snprintf(path, sizeof path, "%s/writing.tmp", files.folder);
    FILE *f = fopen(path, "wb");
    CHECK(f != NULL && fputs("half of a file", f) >= 0 && fclose(f) == 0);
}

static void sim_files_remove(void) {
    sim_each_file(sim_remove_file, NULL);
    (void)rmdir(files.folder);
}

/* Whether the play has files, and its settings of them. */
static void sim_files_begin(char set[2][128]) {
    char folder[64];
    memcpy(folder, files.folder, sizeof folder);
    memset(&files, 0, sizeof files);
    memcpy(files.folder, folder, sizeof folder);
    if (folder[0] == '\0') {
        snprintf(files.folder, sizeof files.folder, "/tmp/test_sim.XXXXXX");
        CHECK(mkdtemp(files.folder) != NULL);
        (void)atexit(sim_files_remove);
    }
    sim_each_file(sim_remove_file, NULL);
    files.on = eng.reuses && sim_below(2) == 0;
    files.slow = sim_below(3) == 0;
    files.fails_in = sim_below(2) ? 0 : (uint32_t)sim_below(20);
    for (uint32_t i = 0; i < 3; i++)
        files.restart_at[i] = sim_below(3) ? (uint32_t)sim_below(SIM_TURNS) : SIM_TURNS;
    files.time = 1000000000;
    snprintf(set[0], 128, "cache.kv_dir=%s", files.on ? files.folder : "");
    snprintf(set[1], 128, "cache.kv_bytes=%s", sim_below(2) ? "8GiB" : "1MiB");
}

/* All buffers are free after a flush. */
static void sim_check_jobs(void) {
    const struct kv_jobs *j = &sim.s->run.kv_disk.jobs;
    uint32_t used = j->outstanding;
    for (uint32_t i = 0; i < KV_JOBS_CLASSES && files.on; i++)
        used += j->n_of[i] - j->n_free[i];
    for (uint32_t i = 0; i < sim.s->planning.want.sequences; i++)
        used -= sim.s->run.sequences[i].restore.ready != NULL; /* of a request that the end has cut off */
    if (files.on && used != 0)
        sim_fail("%u jobs of files were not given back", used);
}

/* The end of an engine that leaves its caches to the next one, or is killed. */
static void sim_files_stop(bool killed) {
    struct stator *s = sim.s;
    const uint64_t whole = s->run.first_step;
    files.killed = killed;
    phase_thread_set(&s->phase, PHASE_THREAD_ENGINE);
    pipeline_drain(s);
    if (!killed && !s->run.broken) {
        kv_disk_flush(s, whole);
        if (sim.fault != SIM_HANG ||
            !sim.faulted) /* such a device keeps the buffers that it may still write */
            sim_check_jobs();
    }
    phase_thread_set(NULL, PHASE_THREAD_EDGE);
    files.read += atomic_load(&s->run.kv_disk.jobs.shown.files_read);
    files.written += atomic_load(&s->run.kv_disk.jobs.shown.files_written);
    kv_jobs_stop(&s->run.kv_disk.jobs);
    files.killed = false;
    sim_stop();
}

#endif
