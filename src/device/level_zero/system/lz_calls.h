/* The entries of libze_loader that this back end calls, found at run time: the binary needs no library of
 * Level Zero to start. Thread: any, once opened. */
#ifndef STATOR_DEVICE_LEVEL_ZERO_LZ_CALLS_H
#define STATOR_DEVICE_LEVEL_ZERO_LZ_CALLS_H

#include "base/error.h"
#include "device/level_zero/system/ze_compat.h"

#define LZ_CALLS_NEEDED(X)                                                                                   \
    X(zeInit)                                                                                                \
    X(zeDriverGet)                                                                                           \
    X(zeDriverGetApiVersion)                                                                                 \
    X(zeDriverGetProperties)                                                                                 \
    X(zeDriverGetExtensionProperties)                                                                        \
    X(zeDeviceGet)                                                                                           \
    X(zeDeviceGetProperties)                                                                                 \
    X(zeDeviceGetComputeProperties)                                                                          \
    X(zeDeviceGetModuleProperties)                                                                           \
    X(zeDeviceGetMemoryProperties)                                                                           \
    X(zeDeviceGetCommandQueueGroupProperties)                                                                \
    X(zeDeviceCanAccessPeer)                                                                                 \
    X(zeDeviceGetGlobalTimestamps)                                                                           \
    X(zeContextCreate)                                                                                       \
    X(zeContextDestroy)                                                                                      \
    X(zeMemAllocDevice)                                                                                      \
    X(zeMemAllocHost)                                                                                        \
    X(zeMemFree)                                                                                             \
    X(zeCommandQueueCreate)                                                                                  \
    X(zeCommandQueueDestroy)                                                                                 \
    X(zeCommandQueueExecuteCommandLists)                                                                     \
    X(zeCommandListCreate)                                                                                   \
    X(zeCommandListDestroy)                                                                                  \
    X(zeCommandListReset)                                                                                    \
    X(zeCommandListClose)                                                                                    \
    X(zeCommandListAppendBarrier)                                                                            \
    X(zeCommandListAppendEventReset)                                                                         \
    X(zeCommandListAppendMemoryCopy)                                                                         \
    X(zeCommandListAppendMemoryFill)                                                                         \
    X(zeCommandListAppendLaunchKernel)                                                                       \
    X(zeFenceCreate)                                                                                         \
    X(zeFenceDestroy)                                                                                        \
    X(zeFenceHostSynchronize)                                                                                \
    X(zeFenceReset)                                                                                          \
    X(zeEventPoolCreate)                                                                                     \
    X(zeEventPoolDestroy)                                                                                    \
    X(zeEventCreate)                                                                                         \
    X(zeEventDestroy)                                                                                        \
    X(zeEventHostReset)                                                                                      \
    X(zeEventHostSignal)                                                                                     \
    X(zeEventHostSynchronize)                                                                                \
    X(zeEventQueryKernelTimestamp)                                                                           \
    X(zeModuleCreate)                                                                                        \
    X(zeModuleDestroy)                                                                                       \
    X(zeModuleGetNativeBinary)                                                                               \
    X(zeModuleBuildLogGetString)                                                                             \
    X(zeModuleBuildLogDestroy)                                                                               \
    X(zeKernelCreate)                                                                                        \
    X(zeKernelDestroy)                                                                                       \
    X(zeKernelGetProperties)                                                                                 \
    X(zeKernelSetGroupSize)                                                                                  \
    X(zeKernelSetArgumentValue)

/* Present in every loader seen, but not needed to run. */
#define LZ_CALLS_OPTIONAL(X)                                                                                 \
    X(zeDevicePciGetPropertiesExt)                                                                           \
    X(zesDevicePciGetProperties)                                                                             \
    X(zesDeviceEnumMemoryModules)                                                                            \
    X(zesMemoryGetState)

struct lz_calls {
#define LZ_CALLS_MEMBER(name) __typeof__(&name) name;
    LZ_CALLS_NEEDED(LZ_CALLS_MEMBER)
    LZ_CALLS_OPTIONAL(LZ_CALLS_MEMBER)
#undef LZ_CALLS_MEMBER
    compat_zelLoaderGetVersions zelLoaderGetVersions; /* from here on: may be NULL */
    compat_zesInit zesInit;
    compat_zesDriverGet zesDriverGet;
    compat_zesDeviceGet zesDeviceGet;
    char loader[32]; /* the loader's version, or "unknown version" */
};

/* Finds libze_loader.so.1 and its entries. STATOR_DEVICE: the text says what is missing and what to install.
 * The library stays loaded: drivers run threads and exit handlers of their own. */
stator_status lz_calls_open(struct lz_calls *c, stator_error *e);

/* After zeInit: fills c->loader. */
void lz_calls_read_version(struct lz_calls *c);

/* What a result means, in a few words. */
const char *lz_calls_meaning(ze_result_t r);

/* "level_zero:0: zeFenceCreate: the device is lost (0x70000001)": the status is STATOR_DEVICE, or
 * STATOR_DOES_NOT_FIT where memory is short. `what` may end in a detail: "zeMemAllocDevice(weights, slice
 * 2)".
 */
stator_status lz_calls_error(stator_error *e, const char *device, const char *what, ze_result_t r);

#endif
