/* What the kernel's graphics drivers say that this process holds, from /proc/self/fdinfo. The format is the
 * kernel's Documentation/gpu/drm-usage-stats.rst: lines "drm-resident-<region>: N KiB" (or -total-, or the
 * older -memory-) in the fdinfo of every open render node; descriptors of one client repeat the same figures.
 */
#ifndef STATOR_OS_DRM_FDINFO_H
#define STATOR_OS_DRM_FDINFO_H

#include <stdint.h>

#define DRM_FDINFO_DEVICES 16

struct drm_figures {
    uint32_t clients;      /* distinct ones; 0: no GPU is open, or the kernel does not say */
    uint64_t local_bytes;  /* memory of the GPU: regions vram.. and local.. */
    uint64_t system_bytes; /* memory of the host: all other regions (gtt, system, stolen, cpu) */
};

struct drm_device {
    char pci[64]; /* "0000:03:00.0"; the driver's name where it does not say */
    struct drm_figures of;
};

struct drm_fdinfo {
    struct drm_figures all;
    struct drm_device
        devices[DRM_FDINFO_DEVICES]; /* those that have clients; more than fit are counted in `all` only */
    uint32_t n_devices;
};

/* Reads root/proc/self/fdinfo; root is "" on a real system, a folder of fixtures in tests. What can't be read
 * counts as nothing. */
void drm_fdinfo_read(const char *root, struct drm_fdinfo *out);
/* The figures of the device at that address; NULL: the kernel reports none. */
const struct drm_figures *drm_fdinfo_of(const struct drm_fdinfo *f, const char *pci);

#endif
