/* Any bytes as the file of a save in cache.kv_dir: a text is read if the sum is right, the root is this
 * model's and the sizes fit, and then it is the file's. As a file of the folder it may pin blocks and do no
 * harm.
 *
 * Input: a byte of FIX_ bits, which put right what no fuzzer finds, and the file. */
#include "fuzz.h"

#include "base/check.h"
#include "kvstore/kvfile.h"
#include "kvstore/kvsave.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const fuzz_kinds[] = {"save", NULL};

enum { FIX_ROOT = 1, FIX_SUM = 2, CAPACITY = 64, SUM = 56, HEADER = 96 };

static char folder[] = "/tmp/fuzz_kvsave.XXXXXX";
static char path[200];
static struct kvstore_key root;
static struct kvstore store;
static _Alignas(64) uint8_t memory[KVFILE_PIECE + 2 * KVFILE_ALIGN];

static void clean(void) {
    char lock[100];
    snprintf(lock, sizeof lock, "%s/lock", folder);
    (void)unlink(path);
    (void)unlink(lock);
    (void)rmdir(folder);
}

static void begin(void) {
    static const struct log silent = {.write = NULL};
    const struct kvstore_options o = {folder, 8192, 1, 0, &silent};
    CHECK(mkdtemp(folder) != NULL && kvstore_memory(1) <= sizeof memory);
    memset(&root, 'R', sizeof root);
    snprintf(path, sizeof path, "%s/x" KVSAVE_END, folder);
    CHECK(kvstore_open(&store, &o, memory, NULL) == STATOR_OK && atexit(clean) == 0);
}

static void write_file(const uint8_t *file, size_t size) {
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && write(fd, file, size) == (ssize_t)size && ftruncate(fd, (off_t)size) == 0 &&
          close(fd) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static uint8_t file[4096];
    int32_t tokens[CAPACITY];
    uint32_t n = 0;
    uint64_t bytes = 0;
    if (path[0] == '\0')
        begin();
    if (size == 0 || size - 1 > sizeof file)
        return 0;
    const uint8_t fix = data[0];
    size--;
    memcpy(file, data + 1, size);
    if ((fix & FIX_ROOT) != 0 && size >= HEADER)
        memcpy(file + 8, &root, sizeof root);
    if ((fix & FIX_SUM) != 0 && size >= HEADER) {
        struct hash h;
        memset(file + SUM, 0, HASH_TEXT);
        hash_init(&h);
        hash_bytes(&h, file, size);
        hash_final(&h, (char *)file + SUM);
    }
    write_file(file, size);
    kvsave_take_in(&store, "x" KVSAVE_END);
    store.saved = store.held = 0;
    if (kvsave_read(&store, "x", &root, tokens, CAPACITY, &n, &bytes, NULL) != STATOR_OK) {
        CHECK(bytes == 0);
        return 0;
    }
    CHECK(n <= CAPACITY && bytes == size && size >= HEADER + n * sizeof *tokens);
    CHECK(memcmp(file + HEADER, tokens, n * sizeof *tokens) == 0);
    fuzz_accepted("save");
    return 0;
}
