/* Any bytes as a file of saved logits: it is refused, or each of its rows is a distribution or refused.
 *
 * Input: a byte; 1 puts a good header in front of the rest, whose count of windows follows from the length.
 */
#include "fuzz.h"

#include "app/perplexity/saved_logits.h"

#include "base/check.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const char *const fuzz_kinds[] = {"rows", NULL};

enum { VOCAB = 5, ROWS = 2, ROW_BYTES = 8 + 2 * VOCAB };

static void put32(uint8_t *at, uint32_t v) {
    memcpy(at, &v, sizeof v);
}

static void write_file(int fd, const uint8_t *data, size_t size, bool good, uint32_t windows) {
    uint8_t header[SAVED_LOGITS_HEADER] = "STATORLP";
    put32(header + 8, 1);
    put32(header + 12, VOCAB);
    put32(header + 16, 6);
    put32(header + 20, ROWS);
    put32(header + 24, windows);
    header[28] = 't';
    header[28 + HASH_TEXT] = 'i';
    CHECK(ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0);
    CHECK(!good || write(fd, header, sizeof header) == (ssize_t)sizeof header);
    CHECK(write(fd, data, size) == (ssize_t)size);
}

static void check_row(const float *log_p) {
    double sum = 0;
    for (int i = 0; i < VOCAB; i++)
        sum += exp((double)log_p[i]);
    CHECK(fabs(sum - 1) < 1e-5);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int fd = -1;
    static char path[64];
    if (fd < 0) {
        fd = memfd_create("saved_logits", MFD_CLOEXEC);
        CHECK(fd >= 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (size == 0)
        return 0;
    const bool good = (data[0] & 1) != 0;
    const uint32_t windows = (uint32_t)((size - 1) / (ROWS * ROW_BYTES));
    const bool whole = good && (size - 1) % (ROWS * ROW_BYTES) == 0;
    write_file(fd, data + 1, size - 1, good, windows);
    const struct saved_logits_key key = {
        .vocab = VOCAB, .window = 6, .scored = ROWS, .windows = windows, .text = "t", .ids = "i"};
    struct saved_logits s;
    stator_error e;
    const stator_status st = saved_logits_open(&s, path, &key, &e);
    CHECK(st == STATOR_OK || (st == STATOR_USAGE && e.text[0] != '\0'));
    CHECK(!whole || st == STATOR_OK);
    float log_p[VOCAB];
    for (uint64_t i = 0; st == STATOR_OK && i < (uint64_t)windows * ROWS; i++)
        if (saved_logits_read(&s, i, log_p, &e) == STATOR_OK) {
            fuzz_accepted("rows");
            check_row(log_p);
        }
    (void)saved_logits_close(&s, false, STATOR_OK, NULL);
    return 0;
}
