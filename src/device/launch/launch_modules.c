#include "device/launch/launch_modules.h"

#include "base/carve.h"

#include <string.h>

#define ZSTD_STATIC_LINKING_ONLY /* contexts in given memory; the library is linked statically */
#include <zstd.h>

const struct launch_module launch_modules[LAUNCH_MODULES] = {
#define ROW(name, source, sub_group, options, ...) {#name, sub_group, options},
    OPENCL_MODULES(ROW)
#undef ROW
};

uint32_t launch_modules_find(const char *name) {
    uint32_t i = 0;
    while (i < opencl_n_modules && strcmp(opencl_modules[i].name, name) != 0)
        i++;
    return i;
}

struct room {
    void *context, *words, *base;
};

static struct room lay_out(struct carve *c) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < opencl_n_modules; i++)
        most = ARITH_MAX(most, opencl_modules[i].bytes);
    struct room r = {0};
    if (most > 0) {
        r.context = carve_take(c, 1, ZSTD_estimateDCtxSize());
        r.words = carve_take(c, 1, most);
        r.base = carve_take(c, 1, most);
    }
    return r;
}

uint64_t launch_modules_room(void) {
    struct carve count = carve_count();
    (void)lay_out(&count);
    return count.used;
}

static void inflate(ZSTD_DCtx *context, const struct opencl_module *m, void *to, const void *dictionary,
                    uint64_t bytes) {
    CHECK(ZSTD_decompress_usingDict(context, to, m->bytes, m->packed, m->packed_bytes, dictionary, bytes) ==
          m->bytes);
}

const uint32_t *launch_modules_inflate(const struct opencl_module *m, void *room) {
    struct carve c = carve_in(room, launch_modules_room());
    const struct room r = lay_out(&c);
    ZSTD_DCtx *context = ZSTD_initStaticDCtx(r.context, ZSTD_estimateDCtxSize());
    CHECK(context != NULL);
    if (m->base != NULL) {
        CHECK(m->base->base == NULL);
        inflate(context, m->base, r.base, NULL, 0);
    }
    inflate(context, m, r.words, r.base, m->base != NULL ? m->base->bytes : 0);
    return r.words;
}
