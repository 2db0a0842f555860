/* What the kernel's graphics drivers say that this process holds, from /proc/self/fdinfo. The format is the
 * kernel's Documentation/gpu/drm-usage-stats.rst: lines "drm-resident-<region>: N KiB" (or -total-, or the
 * older -memory-) in the fdinfo of every open render node; descriptors of one client repeat the same figures.
 */
#ifndef STATOR_BASE_DRM_FDINFO_H
#define STATOR_BASE_DRM_FDINFO_H

#include <stdint.h>

struct drm_fdinfo {
    uint32_t clients;      /* distinct ones; 0: no GPU is open, or the kernel does not say */
    uint64_t local_bytes;  /* memory of the GPUs: regions vram.. and local.. */
    uint64_t system_bytes; /* memory of the host: all other regions (gtt, system, stolen, cpu) */
};

/* Reads root/proc/self/fdinfo; root is "" on a real system, a folder of fixtures in tests. What can't be read
 * counts as nothing. */
void drm_fdinfo_read(const char *root, struct drm_fdinfo *out);

#endif
