/* Compiled modules on disk (cache.dir), so that a start need not compile them again. A file holds the native
 * binary of one module for one driver version, device and set of build options, all of which its name and its
 * header say. A file that is missing, truncated, changed, made for something else or writable by another user
 * is not an error: a log line says so, the module is compiled from SPIR-V, and the file is written again,
 * completely or not at all. */
#ifndef STATOR_DEVICE_LEVEL_ZERO_LZ_CACHE_H
#define STATOR_DEVICE_LEVEL_ZERO_LZ_CACHE_H

#include "base/log.h"
#include "device/level_zero/system/lz_system.h"
#include "kernels/shared/opencl.h"

struct lz_cache {
    const char *folder; /* NULL or "": none */
    const struct log *log;
    const struct lz_gpu *gpu;
    const char *options; /* of the build */
};

/* False, with a log line that says why: another user owns the folder or can write to it. */
bool lz_cache_trusted(const char *folder, const struct log *log);
/* The binary of a module, in memory to be freed by lz_cache_free; NULL: there is none that can be used. */
void *lz_cache_load(const struct lz_cache *c, const struct opencl_module *m, uint64_t *bytes);
void lz_cache_free(void *binary, uint64_t bytes);
/* Keeps a binary; logs why if it cannot. */
void lz_cache_store(const struct lz_cache *c, const struct opencl_module *m, const void *binary,
                    uint64_t bytes);
/* Logs that a binary is not used, and why. */
void lz_cache_ignored(const struct lz_cache *c, const struct opencl_module *m, const char *why);

#endif
