#include "device/level_zero/system/lz_calls.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define LOADER "libze_loader.so.1"

/* dlsym gives data pointers; POSIX says that they hold functions too. */
static bool find(void *library, const char *name, void *entry) {
    void *p = dlsym(library, name);
    memcpy(entry, &p, sizeof p);
    return p != NULL;
}

void lz_calls_read_version(struct lz_calls *c) {
    struct compat_component parts[16];
    size_t n = 0;
    if (c->zelLoaderGetVersions == NULL || c->zelLoaderGetVersions(&n, NULL) != ZE_RESULT_SUCCESS)
        return;
    if (n > sizeof parts / sizeof parts[0])
        return;
    if (c->zelLoaderGetVersions(&n, parts) != ZE_RESULT_SUCCESS)
        return;
    for (size_t i = 0; i < n; i++)
        if (strncmp(parts[i].name, "loader", sizeof parts[i].name) == 0)
            snprintf(c->loader, sizeof c->loader, "%d.%d.%d", parts[i].major, parts[i].minor, parts[i].patch);
}

stator_status lz_calls_open(struct lz_calls *c, stator_error *e) {
    memset(c, 0, sizeof *c);
    void *library = dlopen(LOADER, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return error_set(e, STATOR_DEVICE,
                         "the Level Zero loader can't be loaded (%.200s): install " LOADER
                         " (Debian: libze1) and Intel's GPU driver (Debian: intel-opencl-icd)",
                         dlerror());
    const char *missing = NULL;
#define LZ_CALLS_FIND(name)                                                                                  \
    if (!find(library, #name, &c->name))                                                                     \
        missing = #name;
    LZ_CALLS_NEEDED(LZ_CALLS_FIND)
#undef LZ_CALLS_FIND
    if (missing != NULL) {
        dlclose(library);
        return error_set(e, STATOR_DEVICE,
                         LOADER " has no entry %s: it is too old, 1.8 or newer is needed (Debian: libze1)",
                         missing);
    }
#define LZ_CALLS_FIND(name) (void)find(library, #name, &c->name);
    LZ_CALLS_OPTIONAL(LZ_CALLS_FIND)
    LZ_CALLS_FIND(zelLoaderGetVersions)
    LZ_CALLS_FIND(zesInit)
    LZ_CALLS_FIND(zesDriverGet)
    LZ_CALLS_FIND(zesDeviceGet)
#undef LZ_CALLS_FIND
    snprintf(c->loader, sizeof c->loader, "unknown version");
    return STATOR_OK;
}

static const struct {
    ze_result_t result;
    const char *meaning;
} meanings[] = {
    {ZE_RESULT_NOT_READY, "not ready"},
    {ZE_RESULT_ERROR_DEVICE_LOST, "the device is lost: it hung, was reset or removed"},
    {ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, "the driver has no host memory left"},
    {ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY, "the device has no memory left for it"},
    {ZE_RESULT_ERROR_MODULE_BUILD_FAILURE, "the driver's compiler refused the module"},
    {ZE_RESULT_ERROR_MODULE_LINK_FAILURE, "the module can't be linked"},
    {ZE_RESULT_ERROR_DEVICE_REQUIRES_RESET, "the device needs a reset"},
    {ZE_RESULT_ERROR_DEVICE_IN_LOW_POWER_STATE, "the device sleeps"},
    {ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS,
     "no permission: is this user in the group of /dev/dri/render*?"},
    {ZE_RESULT_ERROR_NOT_AVAILABLE, "in use by another process"},
    {ZE_RESULT_ERROR_DEPENDENCY_UNAVAILABLE, "a library that the driver needs is missing"},
    {ZE_RESULT_ERROR_UNINITIALIZED, "no driver was initialised"},
    {ZE_RESULT_ERROR_UNSUPPORTED_VERSION, "the driver does not support this version"},
    {ZE_RESULT_ERROR_UNSUPPORTED_FEATURE, "the driver does not support this"},
    {ZE_RESULT_ERROR_INVALID_ARGUMENT, "an argument is invalid"},
    {ZE_RESULT_ERROR_INVALID_NULL_HANDLE, "a handle is null"},
    {ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE, "the object is in use"},
    {ZE_RESULT_ERROR_INVALID_NULL_POINTER, "a pointer is null"},
    {ZE_RESULT_ERROR_INVALID_SIZE, "a size is invalid"},
    {ZE_RESULT_ERROR_UNSUPPORTED_SIZE, "the size is more than the driver allocates in one piece"},
    {ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT, "the alignment is not supported"},
    {ZE_RESULT_ERROR_INVALID_SYNCHRONIZATION_OBJECT, "a fence or event is in the wrong state"},
    {ZE_RESULT_ERROR_INVALID_ENUMERATION, "a value of an enumeration is invalid"},
    {ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION, "a value of an enumeration is not supported"},
    {ZE_RESULT_ERROR_INVALID_NATIVE_BINARY, "the native binary is not for this device"},
    {ZE_RESULT_ERROR_INVALID_KERNEL_NAME, "the module has no such kernel"},
    {ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION, "the work-group size is not possible"},
    {ZE_RESULT_ERROR_INVALID_GLOBAL_WIDTH_DIMENSION, "the number of work-groups is not possible"},
    {ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_INDEX, "the kernel has no such argument"},
    {ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_SIZE, "the argument has a different size"},
    {ZE_RESULT_ERROR_INVALID_KERNEL_ATTRIBUTE_VALUE, "a kernel attribute is invalid"},
    {ZE_RESULT_ERROR_INVALID_MODULE_UNLINKED, "the module calls functions that are not defined"},
    {ZE_RESULT_ERROR_INVALID_COMMAND_LIST_TYPE, "the command list does not fit the queue"},
    {ZE_RESULT_ERROR_OVERLAPPING_REGIONS, "source and destination overlap"},
    {ZE_RESULT_ERROR_UNKNOWN, "an internal error of the driver"},
};

const char *lz_calls_meaning(ze_result_t r) {
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++)
        if (meanings[i].result == r)
            return meanings[i].meaning;
    return "a result that this version does not know";
}

stator_status lz_calls_error(stator_error *e, const char *device, const char *what, ze_result_t r) {
    bool memory = r == ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY || r == ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY ||
                  r == ZE_RESULT_ERROR_UNSUPPORTED_SIZE;
    return error_set(e, memory ? STATOR_DOES_NOT_FIT : STATOR_DEVICE, "%s: %s: %s (0x%08x)", device, what,
                     lz_calls_meaning(r), (unsigned)r);
}
