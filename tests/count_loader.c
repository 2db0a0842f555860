/* A libze_loader.so.1 that counts calls and hands them on to the real one: what a start-up and some steps ask
 * of a driver that has no counters of its own. Found through LD_LIBRARY_PATH; writes to the file
 * $COUNT_LOADER when the process ends: one line "NAME calls" per entry, and "steps N": submits since the last
 * call of an entry that may not be called after the seal. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define REAL "/usr/lib/x86_64-linux-gnu/libze_loader.so.1"

uint64_t count_loader_since; /* by the trampolines below */

/* X(name), Y(name): Y may not be called after the seal. */
#define ENTRIES(X, Y)                                                                                        \
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
    X(zeContextDestroy)                                                                                      \
    X(zeMemFree)                                                                                             \
    X(zeCommandQueueDestroy)                                                                                 \
    X(zeCommandListDestroy)                                                                                  \
    X(zeFenceDestroy)                                                                                        \
    X(zeFenceHostSynchronize)                                                                                \
    X(zeFenceReset)                                                                                          \
    X(zeEventPoolDestroy)                                                                                    \
    X(zeEventDestroy)                                                                                        \
    X(zeEventHostReset)                                                                                      \
    X(zeEventHostSynchronize)                                                                                \
    X(zeEventHostSignal)                                                                                     \
    X(zeEventQueryKernelTimestamp)                                                                           \
    X(zeModuleDestroy)                                                                                       \
    X(zeModuleBuildLogGetString)                                                                             \
    X(zeModuleBuildLogDestroy)                                                                               \
    X(zeKernelDestroy)                                                                                       \
    X(zeKernelGetProperties)                                                                                 \
    X(zeDevicePciGetPropertiesExt)                                                                           \
    X(zesDevicePciGetProperties)                                                                             \
    X(zesDeviceEnumMemoryModules)                                                                            \
    X(zesMemoryGetState)                                                                                     \
    X(zelLoaderGetVersions)                                                                                  \
    Y(zeContextCreate)                                                                                       \
    Y(zeMemAllocDevice)                                                                                      \
    Y(zeMemAllocHost)                                                                                        \
    Y(zeCommandQueueCreate)                                                                                  \
    Y(zeCommandListCreate)                                                                                   \
    Y(zeCommandListReset)                                                                                    \
    Y(zeCommandListClose)                                                                                    \
    Y(zeCommandListAppendBarrier)                                                                            \
    Y(zeCommandListAppendEventReset)                                                                         \
    Y(zeCommandListAppendMemoryCopy)                                                                         \
    Y(zeCommandListAppendMemoryFill)                                                                         \
    Y(zeCommandListAppendLaunchKernel)                                                                       \
    Y(zeFenceCreate)                                                                                         \
    Y(zeEventPoolCreate)                                                                                     \
    Y(zeEventCreate)                                                                                         \
    Y(zeModuleGetNativeBinary)                                                                               \
    Y(zeModuleCreate)                                                                                        \
    Y(zeKernelCreate)                                                                                        \
    Y(zeKernelSetGroupSize)                                                                                  \
    Y(zeKernelSetArgumentValue)

#define NAMED(name)                                                                                          \
    uint64_t count_loader_calls_##name;                                                                      \
    void *count_loader_real_##name;
ENTRIES(NAMED, NAMED)
NAMED(zeCommandQueueExecuteCommandLists)

/* Counts, then jumps, so that arguments stay where they are. */
#define TRAMPOLINE(name, then)                                                                               \
    __asm__(".text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n"                              \
            "  mov count_loader_calls_" #name "@GOTPCREL(%rip), %r11\n  lock incq (%r11)\n"                  \
            "  mov count_loader_since@GOTPCREL(%rip), %r11\n  " then "\n"                                    \
            "  mov count_loader_real_" #name "@GOTPCREL(%rip), %r11\n  jmp *(%r11)\n");
#define PLAIN(name)  TRAMPOLINE(name, "nop")
#define FORBID(name) TRAMPOLINE(name, "movq $0, (%r11)")
ENTRIES(PLAIN, FORBID)
TRAMPOLINE(zeCommandQueueExecuteCommandLists, "lock incq (%r11)")

__attribute__((constructor)) static void open_real(void) {
    void *real = dlopen(REAL, RTLD_NOW | RTLD_LOCAL);
    if (real == NULL) {
        fprintf(stderr, "count_loader: %s\n", dlerror());
        exit(70);
    }
#define FIND(name) count_loader_real_##name = dlsym(real, #name);
    ENTRIES(FIND, FIND)
    FIND(zeCommandQueueExecuteCommandLists)
}

__attribute__((destructor)) static void write_counts(void) {
    const char *path = getenv("COUNT_LOADER");
    FILE *f = path != NULL ? fopen(path, "w") : NULL;
    if (f == NULL)
        return;
#define WRITE(name) fprintf(f, #name " %llu\n", (unsigned long long)count_loader_calls_##name);
    ENTRIES(WRITE, WRITE)
    WRITE(zeCommandQueueExecuteCommandLists)
    fprintf(f, "steps %llu\n", (unsigned long long)count_loader_since);
    fclose(f);
}
