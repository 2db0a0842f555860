/* Any bytes as a stored binary of cache.dir: what is loaded is what the file holds after a header that is
 * right in every field, and its memory can be freed.
 *
 * Input: a byte of FIX_ bits, which put right what no fuzzer finds (the header's magic and key, its hash of
 * the contents, its length), and the file. */
#include "fuzz.h"

#include "base/check.h"

#include <stddef.h>
#include <stdint.h>

const char *const fuzz_kinds[] = {"module", NULL};

#ifdef STATOR_LEVEL_ZERO
#include "base/hash.h"
#include "device/level_zero/lz_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIX_NAMES = 1, FIX_CONTENTS = 2, FIX_LENGTH = 4 };

#define NAMES    (8 + HASH_TEXT) /* bytes: magic and key */
#define CONTENTS (NAMES + HASH_TEXT)
#define LENGTH   80
#define HEADER   88

static char folder[] = "/tmp/fuzz_lz_cache.XXXXXX";
static char path[sizeof folder + 300];
static uint8_t good[HEADER]; /* the header of a binary that was kept */

static void clean(void) {
    (void)unlink(path);
    (void)rmdir(folder);
}

static void ignore(void *context, stator_log_level level, const char *line) {
    (void)context;
    CHECK(level == STATOR_LOG_WARN && line[0] != '\0');
}

/* Keeps a binary once, to see its file's name and header. */
static void begin(const struct lz_cache *c, const struct opencl_module *m) {
    if (path[0] != '\0')
        return;
    CHECK(mkdtemp(folder) != NULL);
    lz_cache_store(c, m, "binary", 6);
    DIR *d = opendir(folder);
    CHECK(d != NULL);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.')
            snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    closedir(d);
    FILE *f = fopen(path, "rb");
    CHECK(f != NULL && fread(good, 1, sizeof good, f) == sizeof good);
    fclose(f);
    CHECK(atexit(clean) == 0);
}

static void write_file(const uint8_t *data, size_t size, uint8_t fix) {
    uint8_t header[HEADER] = {0};
    size_t n = size < HEADER ? size : HEADER;
    uint64_t bytes = size - n;
    memcpy(header, data, n);
    if ((fix & FIX_NAMES) != 0)
        memcpy(header, good, NAMES);
    if ((fix & FIX_LENGTH) != 0)
        memcpy(header + LENGTH, &bytes, sizeof bytes);
    if ((fix & FIX_CONTENTS) != 0) {
        struct hash h;
        char text[HASH_TEXT];
        hash_init(&h);
        hash_bytes(&h, data + n, bytes);
        hash_final(&h, text);
        memcpy(header + NAMES, text, HASH_TEXT);
    }
    /* Not cut to nothing first: ext4 then waits for the disk. */
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && write(fd, header, n) == (ssize_t)n && write(fd, data + n, bytes) == (ssize_t)bytes &&
          ftruncate(fd, (off_t)size) == 0 && close(fd) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct lz_driver driver = {.version = 1 << 24};
    static struct lz_gpu gpu = {.driver = &driver, .name = "level_zero:0", .model = "GPU", .vendor = 0x8086};
    static const struct log log = {.write = ignore, .level = STATOR_LOG_DEBUG};
    static const uint8_t packed[16] = {0x28, 0xb5, 0x2f, 0xfd, 1, 2}; /* only hashed here */
    const struct opencl_module module = {"norm", packed, sizeof packed, 16, NULL};
    const struct lz_cache cache = {.folder = folder, .log = &log, .gpu = &gpu, .options = "-cl-std"};
    begin(&cache, &module);
    if (size == 0)
        return 0;
    const uint8_t fix = data[0];
    write_file(data + 1, size - 1, fix);
    uint64_t bytes = 0;
    void *binary = lz_cache_load(&cache, &module, &bytes);
    bool whole = (fix & 7) == 7 && size - 1 > HEADER;
    CHECK(!whole || binary != NULL);
    if (binary != NULL) {
        fuzz_accepted("module");
        CHECK(bytes == size - 1 - HEADER && memcmp(binary, data + 1 + HEADER, bytes) == 0);
        lz_cache_free(binary, bytes);
    }
    return 0;
}
#else
/* A build for the CPU alone has no such files. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    CHECK(data != NULL || size == 0);
    fuzz_accepted("module");
    return 0;
}
#endif
