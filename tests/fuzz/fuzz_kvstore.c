/* Any bytes as a block's file of cache.kv_dir: what is read is what the file holds behind a header that is
 * right in every field, with the tokens that were asked for.
 *
 * Input: a byte of FIX_ bits, which put right what no fuzzer finds, and the file. */
#include "fuzz.h"

#include "base/check.h"
#include "kvstore/kvfile.h"
#include "kvstore/kvstore.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const fuzz_kinds[] = {"block", NULL};

enum {
    FIX_FRONT = 1,
    FIX_SUM = 2,
    BYTES = 64,
    TOKENS = 2,
    SUM = 96,
    HEADER = 136,
    FRONT = HEADER + 4 * TOKENS
};
enum { WHOLE = FRONT + BYTES };

static char folder[] = "/tmp/fuzz_kvstore.XXXXXX";
static char path[200], lock[100];
static struct kvstore_key root;
static const uint32_t tokens[TOKENS] = {7, 11};
static const struct kvstore_block block = {'k', &root, tokens, TOKENS};
static struct kvstore store;
static uint8_t good[WHOLE]; /* a file that was kept */
static _Alignas(64) uint8_t memory[KVFILE_PIECE + 2 * KVFILE_ALIGN];

static void clean(void) {
    (void)unlink(path);
    (void)unlink(lock);
    (void)rmdir(folder);
}

/* Keeps a block once, to see its file; the store that reads then knows of no file. */
static void begin(void) {
    static const struct log silent = {.write = NULL};
    const struct kvstore_options o = {folder, 8192, 1, 1, &silent};
    struct kvstore_key key;
    char name[KVSTORE_KEY_TEXT];
    uint8_t data[BYTES] = {1, 2, 3};
    CHECK(mkdtemp(folder) != NULL && kvstore_memory(1) <= sizeof memory);
    kvstore_key(&block, &key);
    kvstore_key_text(&key, name);
    snprintf(path, sizeof path, "%s/%s-k.kv", folder, name);
    snprintf(lock, sizeof lock, "%s/lock", folder);
    CHECK(kvstore_open(&store, &o, memory, NULL) == STATOR_OK && atexit(clean) == 0);
    kvstore_write(&store, &block, data, BYTES);
    FILE *f = fopen(path, "rb");
    CHECK(f != NULL && fread(good, 1, WHOLE, f) == WHOLE && fgetc(f) == EOF);
    fclose(f);
    store.n_entries = 0;
    store.buckets[0] = KVSTORE_NONE;
}

static void write_file(const uint8_t *file, size_t size) {
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && write(fd, file, size) == (ssize_t)size && ftruncate(fd, (off_t)size) == 0 &&
          close(fd) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static uint8_t file[4 * WHOLE];
    uint8_t to[BYTES];
    if (path[0] == '\0')
        begin();
    if (size == 0 || size - 1 > sizeof file)
        return 0;
    const uint8_t fix = data[0];
    size--;
    memcpy(file, data + 1, size);
    if ((fix & FIX_FRONT) != 0 && size >= FRONT)
        memcpy(file, good, FRONT);
    if ((fix & FIX_SUM) != 0 && size >= FRONT) {
        struct hash h;
        memset(file + SUM, 0, HASH_TEXT);
        hash_init(&h);
        hash_bytes(&h, file, size);
        hash_final(&h, (char *)file + SUM);
    }
    write_file(file, size);
    const bool read = kvstore_read(&store, &block, to, BYTES);
    CHECK(!((fix & 3) == 3 && size == WHOLE) || read);
    if (read) {
        CHECK(size == WHOLE && memcmp(file + FRONT, to, BYTES) == 0);
        CHECK(memcmp(file, good, SUM) == 0 && memcmp(file + HEADER, tokens, sizeof tokens) == 0);
        fuzz_accepted("block");
    }
    return 0;
}
