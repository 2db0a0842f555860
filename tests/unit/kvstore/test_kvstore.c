/* Blocks in files: what was written is read, anything else is absent; the budget, the lock, a full disk, a
 * writer that was killed; with direct I/O and without, on a file system that has it and on one in memory. */
#include "testing.h"

#include "kvstore/kvfile.h"
#include "kvstore/kvstore.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>

enum { FILES = 8, BYTES = 5000, TOKENS = 32 };
#define FILE_BYTES 8192 /* that a block of BYTES counts in the budget */

static char folder[64], text[4096];
static unsigned lines;
static _Alignas(64) uint8_t memory[2][KVFILE_PIECE + 2 * KVFILE_ALIGN];
/* How and where the group's files are written. */
static uint64_t direct;
static const char *base = "/tmp";

static void keep_line(void *context, stator_log_level level, const char *line) {
    (void)context;
    assert_true(level == STATOR_LOG_WARN || level == STATOR_LOG_INFO);
    snprintf(text, sizeof text, "%s", line);
    lines++;
}

static const struct log log_lines = {.write = keep_line, .level = STATOR_LOG_DEBUG};

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "%s/test_kvstore.XXXXXX", base);
    lines = 0;
    return mkdtemp(folder) == NULL;
}

/* Calls f for every block's file; returns how many there are. */
static unsigned each_file(void (*f)(const char *path)) {
    unsigned n = 0;
    char path[400];
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        size_t length = strlen(e->d_name);
        if (length < 3 || strcmp(e->d_name + length - 3, ".kv") != 0)
            continue;
        n++;
        if (f != NULL)
            f(path);
    }
    closedir(d);
    return n;
}

static int remove_folder(void **state) {
    char path[400];
    (void)state;
    DIR *d = opendir(folder);
    if (d == NULL)
        return 0;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        (void)unlink(path);
    }
    closedir(d);
    return rmdir(folder);
}

static struct kvstore open_store(unsigned which, uint64_t budget, uint32_t files) {
    struct kvstore s;
    stator_error e;
    const struct kvstore_options o = {folder, budget, files, direct, &log_lines};
    assert_true(kvstore_memory(files) <= sizeof memory[which]);
    assert_int_equal(kvstore_open(&s, &o, memory[which], &e), STATOR_OK);
    return s;
}

static struct kvstore open_writer(void) {
    return open_store(0, FILES * FILE_BYTES, FILES);
}

/* Block i of a text: its tokens and content follow from i. */
struct play {
    struct kvstore_key root;
    uint32_t tokens[TOKENS];
    uint8_t data[BYTES];
    struct kvstore_block block;
};

static struct play *play_of(uint32_t i) {
    static struct play p;
    p.root = (struct kvstore_key){{1}};
    for (uint32_t t = 0; t < TOKENS; t++)
        p.tokens[t] = i * 1000 + t;
    for (uint32_t k = 0; k < BYTES; k++)
        p.data[k] = (uint8_t)(i * 31 + k * 7 + k / 256);
    p.block = (struct kvstore_block){'k', &p.root, p.tokens, TOKENS};
    return &p;
}

static void put(struct kvstore *s, uint32_t i) {
    struct play *p = play_of(i);
    kvstore_write(s, &p->block, p->data, BYTES);
}

/* Whether block i is there; then it has the right content. */
static bool has(struct kvstore *s, uint32_t i) {
    static uint8_t to[BYTES];
    struct play *p = play_of(i);
    memset(to, 0xA5, sizeof to);
    if (!kvstore_read(s, &p->block, to, BYTES))
        return false;
    assert_memory_equal(to, p->data, BYTES);
    return true;
}

static void path_of(uint32_t i, char path[200]) {
    struct kvstore_key key;
    char name[KVSTORE_KEY_TEXT];
    kvstore_key(&play_of(i)->block, &key);
    kvstore_key_text(&key, name);
    snprintf(path, 200, "%s/%s-k.kv", folder, name);
}

static void is_private(const char *path) {
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
}

static void test_a_block_comes_back_after_a_restart(void **state) {
    (void)state;
    struct kvstore s = open_writer();
    assert_false(has(&s, 1));
    put(&s, 1);
    put(&s, 2);
    put(&s, 2);
    assert_int_equal(s.n_writes, 2);
    struct kvstore_key key;
    kvstore_key(&play_of(1)->block, &key);
    assert_true(kvstore_has(&s, &key, 'k') && !kvstore_has(&s, &key, 's'));
    kvstore_key(&play_of(3)->block, &key);
    assert_false(kvstore_has(&s, &key, 'k'));
    assert_true(has(&s, 1) && has(&s, 2) && !has(&s, 3));
    kvstore_close(&s);
    assert_int_equal(each_file(is_private), 2);
    s = open_writer();
    assert_int_equal(s.held, 2 * FILE_BYTES);
    assert_true(has(&s, 1) && has(&s, 2));
    assert_int_equal(s.n_hits, 2);
    kvstore_close(&s);
    assert_int_equal(lines, 0);
}

static void test_every_part_of_a_key_counts(void **state) {
    static uint8_t to[BYTES];
    struct kvstore_key other, key;
    (void)state;
    struct kvstore s = open_writer();
    put(&s, 1);
    struct play *p = play_of(1);
    struct kvstore_block b = p->block;
    b.kind = 's';
    assert_false(kvstore_read(&s, &b, to, BYTES));
    b = p->block;
    other = (struct kvstore_key){{2}}; /* of another model */
    b.before = &other;
    assert_false(kvstore_read(&s, &b, to, BYTES));
    kvstore_key(&p->block, &key);
    b.before = &key; /* the same tokens behind themselves */
    assert_false(kvstore_read(&s, &b, to, BYTES));
    b = p->block;
    b.n_tokens--;
    assert_false(kvstore_read(&s, &b, to, BYTES));
    p->tokens[TOKENS - 1]++;
    assert_false(kvstore_read(&s, &p->block, to, BYTES));
    assert_true(has(&s, 1));
    kvstore_close(&s);
}

static void flip(const char *path, long at) {
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    int c = fgetc(f);
    assert_true(c != EOF && fseek(f, at, SEEK_SET) == 0 && fputc(c ^ 4, f) != EOF);
    assert_int_equal(fclose(f), 0);
}

/* The file of block 1 is damaged in some way: the block is absent, its file goes, and it can be written
 * again. */
static void assert_absent(struct kvstore *s, const char *path) {
    struct stat st;
    assert_false(has(s, 1));
    assert_int_not_equal(lstat(path, &st), 0);
    put(s, 1);
    assert_true(has(s, 1));
}

static void test_a_damaged_file_is_absent(void **state) {
    char path[200];
    (void)state;
    struct kvstore s = open_writer();
    path_of(1, path);
    put(&s, 1);
    const long size = 136 + 4 * TOKENS + BYTES;
    for (long at = 0; at < size; at += at < 136 + 4 * TOKENS ? 1 : 331) {
        flip(path, at);
        assert_absent(&s, path);
    }
    const long cuts[] = {0, 1, 135, 136, 263, 264, size - 1, size + 1};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        assert_int_equal(truncate(path, cuts[i]), 0);
        assert_absent(&s, path);
    }
    kvstore_close(&s);
    assert_int_equal(lines, 0);
}

static void test_a_foreign_file_is_absent(void **state) {
    char path[200], other[200];
    (void)state;
    struct kvstore s = open_writer();
    path_of(1, path);
    path_of(2, other);
    put(&s, 1);
    assert_int_equal(chmod(path, 0666), 0);
    assert_absent(&s, path);
    assert_int_equal(rename(path, other), 0); /* a good file under the name of another block */
    assert_false(has(&s, 2));
    assert_absent(&s, path);
    assert_int_equal(rename(path, other), 0);
    assert_int_equal(symlink(other, path), 0);
    assert_absent(&s, path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_absent(&s, path);
    assert_int_equal(unlink(path), 0);
    assert_false(has(&s, 1));
    kvstore_close(&s);
}

static void test_the_least_recently_used_goes_first(void **state) {
    (void)state;
    struct kvstore s = open_store(0, 3 * FILE_BYTES + 4095, FILES);
    for (uint32_t i = 1; i <= 3; i++)
        put(&s, i);
    assert_true(has(&s, 1));
    put(&s, 4);
    assert_true(has(&s, 1) && !has(&s, 2) && has(&s, 3) && has(&s, 4));
    assert_int_equal(each_file(NULL), 3);
    kvstore_close(&s);
    s = open_store(0, 16 * FILE_BYTES, 2); /* a smaller index */
    assert_int_equal(s.n_entries, 2);
    assert_int_equal(each_file(NULL), 2);
    put(&s, 5);
    assert_true(has(&s, 5));
    assert_int_equal(each_file(NULL), 2);
    kvstore_close(&s);
    s = open_store(0, 4096, FILES); /* no file fits */
    put(&s, 6);
    assert_int_equal(each_file(NULL), 0);
    assert_int_equal(s.held, 0);
    kvstore_close(&s);
}

/* The next writer finds the order in the times of the files. */
static void test_the_order_outlives_the_writer(void **state) {
    char path[200];
    (void)state;
    struct kvstore s = open_writer();
    for (uint32_t i = 1; i <= 2; i++) {
        const struct timespec at[2] = {{.tv_sec = 1000 * i}, {.tv_sec = 1000 * i}};
        put(&s, i);
        path_of(i, path);
        assert_int_equal(utimensat(AT_FDCWD, path, at, 0), 0);
    }
    kvstore_close(&s);
    s = open_writer();
    assert_true(has(&s, 1));
    kvstore_close(&s);
    s = open_store(0, FILES * FILE_BYTES, 1);
    assert_true(has(&s, 1) && !has(&s, 2));
    kvstore_close(&s);
}

/* Blocks come and go at random in an index that is small for them: what is found is what the folder has. */
static void test_the_index_agrees_with_the_folder(void **state) {
    char path[200];
    struct stat st;
    struct kvstore_key key;
    uint64_t seed = testing_seed("kvstore index");
    (void)state;
    struct kvstore s = open_store(0, 5 * FILE_BYTES, FILES);
    for (uint32_t turn = 0; turn < 400; turn++) {
        put(&s, (uint32_t)testing_below(&seed, 12));
        if (testing_below(&seed, 4) == 0) { /* somebody removes a file */
            path_of((uint32_t)testing_below(&seed, 12), path);
            (void)unlink(path);
            for (uint32_t i = 0; i < 12; i++)
                (void)has(&s, i);
        }
        for (uint32_t i = 0; i < 12; i++) {
            path_of(i, path);
            kvstore_key(&play_of(i)->block, &key);
            assert_int_equal(kvstore_has(&s, &key, 'k'), lstat(path, &st) == 0);
        }
        assert_true(s.n_entries <= 5 && s.held == s.n_entries * (uint64_t)FILE_BYTES);
    }
    kvstore_close(&s);
}

static void test_an_unfinished_file_goes(void **state) {
    char path[200];
    struct stat st;
    (void)state;
    snprintf(path, sizeof path, "%s/writing.tmp", folder);
    FILE *f = fopen(path, "w");
    assert_true(f != NULL && fputs("half", f) >= 0 && fclose(f) == 0);
    struct kvstore s = open_writer();
    assert_int_not_equal(stat(path, &st), 0);
    assert_int_equal(s.n_entries, 0);
    kvstore_close(&s);
}

static void test_files_of_others_stay(void **state) {
    char path[200];
    struct stat st;
    (void)state;
    snprintf(path, sizeof path, "%s/letter.kv", folder);
    FILE *f = fopen(path, "w");
    assert_true(f != NULL && fputs("mine", f) >= 0 && fclose(f) == 0);
    struct kvstore s = open_store(0, FILE_BYTES, 1);
    put(&s, 1);
    put(&s, 2);
    assert_int_equal(s.n_entries, 1);
    assert_int_equal(stat(path, &st), 0);
    kvstore_close(&s);
}

static void test_a_second_process_only_reads(void **state) {
    (void)state;
    struct kvstore s = open_writer();
    put(&s, 1);
    struct kvstore r = open_store(1, FILES * FILE_BYTES, FILES);
    assert_int_equal(lines, 1);
    assert_non_null(strstr(text, "another process writes to it"));
    assert_true(has(&r, 1));
    put(&r, 2);
    assert_false(has(&r, 2));
    put(&s, 2);
    assert_true(has(&r, 2)); /* written after the reader opened */
    struct kvstore_key key;
    kvstore_key(&play_of(2)->block, &key);
    assert_true(kvstore_has(&r, &key, 'k') && !kvstore_has(&r, &key, 's'));
    kvstore_close(&s);
    kvstore_close(&r);
}

/* A limit for files stands for the full disk: write returns an error after a part of the file. */
static void test_a_full_disk_ends_the_writing(void **state) {
    char path[200];
    struct rlimit old, small;
    struct stat st;
    (void)state;
    struct kvstore s = open_writer();
    put(&s, 1);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 4096;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    put(&s, 2);
    put(&s, 3);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, SIG_DFL);
    put(&s, 4);
    assert_int_equal(lines, 1);
    assert_non_null(strstr(text, "nothing more is written there"));
    assert_true(has(&s, 1) && !has(&s, 2) && !has(&s, 3) && !has(&s, 4));
    snprintf(path, sizeof path, "%s/writing.tmp", folder);
    assert_int_not_equal(stat(path, &st), 0);
    kvstore_close(&s);
}

static void test_a_folder_that_vanishes_ends_the_writing(void **state) {
    (void)state;
    struct kvstore s = open_writer();
    assert_int_equal(remove_folder(NULL), 0);
    put(&s, 1);
    put(&s, 2);
    assert_int_equal(lines, 1);
    assert_false(has(&s, 1));
    kvstore_close(&s);
}

static void test_a_folder_of_others_is_refused(void **state) {
    struct kvstore s;
    stator_error e;
    const struct kvstore_options o = {folder, FILE_BYTES, FILES, direct, &log_lines};
    (void)state;
    assert_int_equal(chmod(folder, 0777), 0);
    assert_int_equal(kvstore_open(&s, &o, memory[0], &e), STATOR_FAILED);
    assert_non_null(strstr(e.text, "other users can write"));
    assert_int_equal(rmdir(folder), 0);
    FILE *f = fopen(folder, "w");
    assert_true(f != NULL && fclose(f) == 0);
    assert_int_equal(kvstore_open(&s, &o, memory[0], &e), STATOR_FAILED);
    assert_non_null(strstr(e.text, folder));
    assert_int_equal(unlink(folder), 0);
    const struct kvstore_options deep = {"/tmp/test_kvstore.absent/x", FILE_BYTES, FILES, direct, &log_lines};
    assert_int_equal(kvstore_open(&s, &deep, memory[0], &e), STATOR_FAILED);
    assert_non_null(strstr(e.text, "can't make the folder"));
}

/* The child writes until it is killed, and says so after every block. */
static void write_on(int pipe_end) {
    struct kvstore s;
    const struct kvstore_options o = {folder, FILES * FILE_BYTES, FILES, direct, &log_lines};
    if (kvstore_open(&s, &o, memory[1], NULL) != STATOR_OK || !s.writes)
        _exit(1);
    for (uint32_t i = 0;; i = (i + 1) % 16) {
        put(&s, i);
        if (write(pipe_end, "", 1) != 1)
            _exit(1);
    }
}

static void test_a_killed_writer_leaves_whole_blocks(void **state) {
    uint64_t seed = testing_seed("kvstore");
    (void)state;
    for (unsigned round = 0; round < 30; round++) {
        int ends[2], status;
        char c;
        assert_int_equal(pipe(ends), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            write_on(ends[1]);
        close(ends[1]);
        for (uint64_t n = 1 + testing_below(&seed, 40); n > 0; n--)
            assert_int_equal(read(ends[0], &c, 1), 1);
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        close(ends[0]);
        struct kvstore s = open_writer();
        assert_true(s.writes && s.n_entries > 0 && s.held <= FILES * FILE_BYTES);
        unsigned found = 0;
        for (uint32_t i = 0; i < 16; i++)
            found += has(&s, i);
        assert_int_equal(found, each_file(NULL));
        assert_int_equal(s.n_dropped, 0);
        kvstore_close(&s);
    }
}

/* Whether the folder lies on a file system that is known to have direct I/O, and to want aligned memory. */
static bool on_a_disk(void) {
    struct statfs st;
    return statfs(folder, &st) == 0 && (st.f_type == 0xEF53 || st.f_type == 0x58465342); /* ext4, XFS */
}

/* Takes the file's pages from `from` on out of the page cache. */
static void forget(const char *path, off_t from) {
    const int file = open(path, O_RDONLY);
    assert_int_equal(fsync(file), 0);
    assert_int_equal(posix_fadvise(file, from, 0, POSIX_FADV_DONTNEED), 0);
    close(file);
}

/* Sizes around a piece's, with the header and the tokens, and more than two pieces. */
static void test_blocks_of_many_pieces(void **state) {
    static uint8_t from[5 * KVFILE_PIECE / 2], to[sizeof from + 1];
    const uint64_t before = 136 + 4 * TOKENS;
    const uint64_t sizes[] = {1,
                              KVFILE_ALIGN - before,
                              KVFILE_PIECE - before - 1,
                              KVFILE_PIECE - before,
                              KVFILE_PIECE - before + 1,
                              2 * KVFILE_PIECE - before,
                              sizeof from};
    uint64_t seed = testing_seed("kvstore pieces");
    (void)state;
    struct kvstore s = open_store(0, 64 << 20, FILES);
    for (uint64_t i = 0; i < sizeof from; i++)
        from[i] = (uint8_t)testing_below(&seed, 256);
    for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct stat st;
        char path[200];
        struct play *p = play_of(i);
        kvstore_write(&s, &p->block, from, sizes[i]);
        path_of(i, path);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_size, before + sizes[i]);
        const off_t cuts[] = {2 * KVFILE_PIECE, KVFILE_PIECE + 8192, KVFILE_PIECE, 4096, 0};
        for (uint32_t k = 0; k <= sizeof cuts / sizeof *cuts; k++) {
            if (k > 0) /* from the disk from there on */
                forget(path, cuts[k - 1]);
            memset(to, 0xA5, sizeof to);
            assert_true(kvstore_read(&s, &p->block, to, sizes[i]));
            assert_memory_equal(to, from, sizes[i]);
            assert_int_equal(to[sizes[i]], 0xA5);
        }
    }
    kvstore_close(&s);
    assert_int_equal(lines, 0);
}

/* How many of the two pages of block 1's file the page cache has. */
static int cached_pages(const char *path) {
    unsigned char there[2];
    const int file = open(path, O_RDONLY);
    void *map = mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED, file, 0);
    assert_true(file >= 0 && map != MAP_FAILED);
    assert_int_equal(mincore(map, FILE_BYTES, there), 0);
    munmap(map, FILE_BYTES);
    close(file);
    return (there[0] & 1) + (there[1] & 1);
}

/* A direct read brings nothing into the page cache. */
static void test_the_page_cache(void **state) {
    char path[200];
    (void)state;
    path_of(1, path);
    struct kvstore s = open_writer();
    put(&s, 1);
    for (off_t from = 0; on_a_disk() && from <= 4096; from += 4096) {
        put(&s, 1);
        forget(path, from);
        assert_int_equal(cached_pages(path), direct > 0 ? 0 : from > 0);
        assert_true(has(&s, 1));
        assert_int_equal(cached_pages(path), direct > 0 ? 0 : 2);
    }
    kvstore_close(&s);
}

/* Memory that is not aligned stands for a file system that takes O_DIRECT and then no transfer. */
static void test_a_file_system_that_refuses(void **state) {
    char path[200];
    (void)state;
    path_of(1, path);
    struct kvstore s = open_writer();
    put(&s, 1);
    forget(path, 0);
    s.piece -= 1;
    assert_true(has(&s, 1));
    assert_true(!on_a_disk() || direct == 0 || (s.piece == NULL && lines == 1));
    assert_true(lines == 0 || strstr(text, "has no direct I/O") != NULL);
    forget(path, 0);
    assert_true(has(&s, 1));
    kvstore_close(&s);
}

/* The examples of FIPS 180-4 (in NIST's "Secure Hashing" examples: SHA256.pdf), and no bytes. */
static void sha256_is_the_published_one(void **state) {
    static const struct {
        const char *text;
        uint8_t digest[SHA256_BYTES];
    } known[] = {
        {"",
         {0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24,
          0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55}},
        {"abc",
         {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40, 0xde, 0x5d, 0xae, 0x22, 0x23,
          0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17, 0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad}},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         {0x24, 0x8d, 0x6a, 0x61, 0xd2, 0x06, 0x38, 0xb8, 0xe5, 0xc0, 0x26, 0x93, 0x0c, 0x3e, 0x60, 0x39,
          0xa3, 0x3c, 0xe4, 0x59, 0x64, 0xff, 0x21, 0x67, 0xf6, 0xec, 0xed, 0xd4, 0x19, 0xdb, 0x06, 0xc1}},
    };
    uint8_t digest[SHA256_BYTES], other[SHA256_BYTES];
    struct sha256 h;
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        sha256_init(&h);
        for (const char *c = known[i].text; *c != '\0'; c++)
            sha256_bytes(&h, c, 1);
        sha256_final(&h, digest);
        assert_memory_equal(digest, known[i].digest, sizeof digest);
    }
    sha256_text(&h, ""); /* a final ends nothing, and a length is a part of a text */
    sha256_final(&h, other);
    assert_memory_not_equal(digest, other, sizeof digest);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(test_a_block_comes_back_after_a_restart),
        CASE(test_every_part_of_a_key_counts),
        CASE(test_a_damaged_file_is_absent),
        CASE(test_a_foreign_file_is_absent),
        CASE(test_the_least_recently_used_goes_first),
        CASE(test_the_order_outlives_the_writer),
        CASE(test_the_index_agrees_with_the_folder),
        CASE(test_an_unfinished_file_goes),
        CASE(test_files_of_others_stay),
        CASE(test_a_second_process_only_reads),
        CASE(test_a_full_disk_ends_the_writing),
        CASE(test_a_folder_that_vanishes_ends_the_writing),
        CASE(test_a_folder_of_others_is_refused),
        CASE(test_a_killed_writer_leaves_whole_blocks),
        CASE(test_blocks_of_many_pieces),
        CASE(test_the_page_cache),
        CASE(test_a_file_system_that_refuses),
        cmocka_unit_test(sha256_is_the_published_one),
    };
    int failed = cmocka_run_group_tests_name("plain", tests, NULL, NULL);
    direct = 1;
    failed += cmocka_run_group_tests_name("direct", tests, NULL, NULL);
    if (access("/dev/shm", W_OK) != 0)
        return failed;
    base = "/dev/shm"; /* memory: it refuses direct I/O before Linux 6.6, and nothing is direct later */
    return failed + cmocka_run_group_tests_name("direct, in memory", tests, NULL, NULL);
}
