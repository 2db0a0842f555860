/* Level Zero's API as this room uses it: Debian 12's headers (1.4), and what newer versions of the
 * specification and Intel's driver add. Newer structs are passed only to drivers that name the extension;
 * newer entries are looked up by name and may be absent. Sources: the specification's ze_api.h and
 * zes_api.h 1.13; compute-runtime, doc/experimental_extensions/MODULE_DP_SUPPORT.md. */
#ifndef STATOR_DEVICE_LEVEL_ZERO_ZE_COMPAT_H
#define STATOR_DEVICE_LEVEL_ZERO_ZE_COMPAT_H

#include <level_zero/ze_api.h>
#include <level_zero/zes_api.h>

/* Specification 1.11: memory that the device has left, without a promise that it can be allocated. */
#define COMPAT_USABLE_MEMORY_NAME  "ZE_extension_device_usablemem_size_properties"
#define COMPAT_USABLE_MEMORY_STYPE ((ze_structure_type_t)0x00020041)
struct compat_usable_memory {
    ze_structure_type_t stype;
    void *next;
    uint64_t bytes;
};

/* Intel: which integer dot products the device has. */
#define COMPAT_DOT_PRODUCT_NAME  "ZE_intel_experimental_device_module_dp_properties"
#define COMPAT_DOT_PRODUCT_STYPE ((ze_structure_type_t)0x00030013)
#define COMPAT_DOT_PRODUCT_DP4A  (1u << 0)
#define COMPAT_DOT_PRODUCT_DPAS  (1u << 1)
struct compat_dot_product {
    ze_structure_type_t stype;
    void *next;
    uint32_t flags;
};

/* Specification 1.2, named without a macro in the headers. */
#define COMPAT_MEMORY_NAME "ZE_extension_device_memory_properties"

/* The loader's own versions (loader/ze_loader.h, which needs a C++ compiler in some releases). */
struct compat_component {
    char name[64];
    ze_api_version_t api;
    int major, minor, patch;
};
typedef ze_result_t (*compat_zelLoaderGetVersions)(size_t *n, struct compat_component *out);

/* Sysman without an environment variable: specification 1.5. */
typedef ze_result_t (*compat_zesInit)(uint32_t flags);
typedef ze_result_t (*compat_zesDriverGet)(uint32_t *n, zes_driver_handle_t *out);
typedef ze_result_t (*compat_zesDeviceGet)(zes_driver_handle_t driver, uint32_t *n, zes_device_handle_t *out);

#endif
