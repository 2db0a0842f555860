#include "os/pages.h"

#include "base/arith.h"
#include "base/phase.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

uint64_t pages_rounded(uint64_t bytes) {
    return arith_round_up(bytes, PAGES_SIZE);
}

stator_status pages_map(uint64_t bytes, const char *what, void **out, stator_error *e) {
    CHECK(bytes > 0 && !phase_thread_is_sealed());
    *out = NULL;
    uint64_t rounded = 0;
    if (!arith_align_up(bytes, PAGES_SIZE, &rounded) || rounded > PTRDIFF_MAX)
        return error_set(e, STATOR_DOES_NOT_FIT, "%s: %llu bytes are more than the address space", what,
                         (unsigned long long)bytes);
    void *p = mmap(NULL, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return error_set(e, STATOR_DOES_NOT_FIT, "%s: the kernel refused %llu bytes of memory: %s", what,
                         (unsigned long long)bytes, strerror(errno));
    *out = p;
    return STATOR_OK;
}

void pages_unmap(void *memory, uint64_t bytes) {
    if (memory == NULL)
        return;
    int rc = munmap(memory, pages_rounded(bytes));
    CHECK(rc == 0);
}
