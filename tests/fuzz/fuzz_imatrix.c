/* Any bytes as an importance matrix: it is refused with a text, or each of its entries has a name and numbers
 * that can be weights. */
#include "fuzz.h"

#include "app/quantize/imatrix.h"

#include "base/check.h"

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const char *const fuzz_kinds[] = {"GGUF", "older", NULL};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int fd = -1;
    static char path[64];
    if (fd < 0) {
        fd = memfd_create("imatrix", MFD_CLOEXEC);
        CHECK(fd >= 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    CHECK(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
    struct imatrix m;
    stator_error e;
    const stator_status st = imatrix_read(path, &m, &e);
    if (st != STATOR_OK) {
        CHECK(e.text[0] != '\0' && m.n_entries == 0 && m.entries == NULL);
        return 0;
    }
    CHECK(m.n_entries > 0);
    fuzz_accepted(size > 4 && memcmp(data, "GGUF", 4) == 0 ? "GGUF" : "older");
    for (uint64_t i = 0; i < m.n_entries; i++) {
        const struct imatrix_entry *entry = &m.entries[i];
        CHECK(entry->n > 0 && imatrix_find(&m, entry->name) == entry);
        for (uint64_t k = 0; k < entry->n; k++)
            CHECK(isfinite(entry->values[k]) && entry->values[k] >= 0);
    }
    imatrix_free(&m);
    return 0;
}
