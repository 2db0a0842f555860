/* The driver, its devices, contexts and memory. */
#include "times.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_ALLOCATION ((4ull << 30) - 65536) /* as Intel's GPUs without relaxed limits */
#define MAX_GROUP      512u                   /* what ptx_of tells ptxas */

struct driver driver;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Newer than Debian's headers: ze_device_usablemem_size_ext_properties_t. */
#define USABLE_MEMORY_TYPE      0x00020041
#define USABLE_MEMORY_EXTENSION "ZE_extension_device_usablemem_size_properties"
struct usable_memory {
    ze_structure_type_t stype;
    void *next;
    uint64_t now;
};

/* Intel's own: ze_intel_device_module_dp_exp_properties_t. */
#define DOT_PRODUCT_TYPE      0x00030013
#define DOT_PRODUCT_EXTENSION "ZE_intel_experimental_device_module_dp_properties"
struct dot_product {
    ze_structure_type_t stype;
    void *next;
    uint32_t flags; /* 1: dp4a, 2: dpas */
};

bool device_enter(const struct device *d) {
    return CUDA(cuCtxSetCurrent, d->context);
}

ze_result_t device_result(cuda_result r) {
    return r == 0                    ? ZE_RESULT_SUCCESS
           : r == CUDA_OUT_OF_MEMORY ? ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY
           : r == CUDA_NOT_READY     ? ZE_RESULT_NOT_READY
                                     : ZE_RESULT_ERROR_DEVICE_LOST; /* CUDA's failures stay */
}

uint64_t device_clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool open_device(struct device *d, uint32_t index) {
    d->index = index;
    return CUDA(cuDeviceGet, &d->id, (int)index) && CUDA(cuDeviceGetName, d->name, sizeof d->name, d->id) &&
           CUDA(cuDeviceTotalMem_v2, &d->memory, d->id) &&
           CUDA(cuDevicePrimaryCtxRetain, &d->context, d->id) && device_enter(d) &&
           CUDA(cuStreamCreate, &d->side, CUDA_STREAM_NON_BLOCKING) && CUDA(cuEventCreate, &d->now, 0);
}

/* Kernels and copies of one device may touch the memory of another one, where the machine lets them. */
static void open_peers(void) {
    for (uint32_t i = 0; i < driver.n; i++)
        for (uint32_t j = 0; j < driver.n; j++) {
            struct device *d = &driver.device[i];
            int can = 0;
            if (i != j && device_enter(d) && CUDA(cuDeviceCanAccessPeer, &can, d->id, driver.device[j].id) &&
                can)
                d->reaches[j] = CUDA(cuCtxEnablePeerAccess, driver.device[j].context, 0);
        }
}

static void open_all(void) {
    int n = 0;
    times_begin();
    if (!cuda_open() || !CUDA(cuInit, 0) || !CUDA(cuDeviceGetCount, &n))
        return;
    for (int i = 0; i < n && i < MAX_DEVICES && open_device(&driver.device[i], (uint32_t)i); i++)
        driver.n++;
    open_peers();
}

static uint64_t attribute(const struct device *d, int which) {
    int v = 0;
    return CUDA(cuDeviceGetAttribute, &v, which, d->id) && v > 0 ? (uint64_t)v : 0;
}

/* Fills a structure but its type and chain. */
#define CLEAR(p)                                                                                             \
    do {                                                                                                     \
        void *next_ = (p)->pNext;                                                                            \
        ze_structure_type_t type_ = (p)->stype;                                                              \
        memset(p, 0, sizeof *(p));                                                                           \
        (p)->stype = type_, (p)->pNext = next_;                                                              \
    } while (0)

/* ---- driver */
ze_result_t ZE_APICALL zeInit(ze_init_flags_t flags) {
    (void)flags;
    pthread_once(&once, open_all);
    return driver.n != 0 ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_UNINITIALIZED;
}

ze_result_t ZE_APICALL zeDriverGet(uint32_t *n, ze_driver_handle_t *out) {
    if (*n != 0 && out != NULL)
        out[0] = (ze_driver_handle_t)&driver;
    *n = 1;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeDriverGetApiVersion(ze_driver_handle_t h, ze_api_version_t *version) {
    (void)h;
    *version = ZE_API_VERSION_1_3;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeDriverGetProperties(ze_driver_handle_t h, ze_driver_properties_t *p) {
    (void)h;
    int version = 0;
    CLEAR(p);
    if (CUDA(cuDriverGetVersion, &version))
        p->driverVersion = (uint32_t)version;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeDriverGetExtensionProperties(ze_driver_handle_t h, uint32_t *n,
                                                      ze_driver_extension_properties_t *out) {
    static const char *const names[] = {USABLE_MEMORY_EXTENSION, ZE_DEVICE_MEMORY_PROPERTIES_EXT_NAME,
                                        DOT_PRODUCT_EXTENSION};
    uint32_t have = sizeof names / sizeof names[0];
    (void)h;
    for (uint32_t i = 0; out != NULL && i < *n && i < have; i++) {
        snprintf(out[i].name, sizeof out[i].name, "%s", names[i]);
        out[i].version = 0x10000;
    }
    *n = *n == 0 || *n > have ? have : *n;
    return ZE_RESULT_SUCCESS;
}

/* ---- devices */
ze_result_t ZE_APICALL zeDeviceGet(ze_driver_handle_t h, uint32_t *n, ze_device_handle_t *out) {
    (void)h;
    for (uint32_t i = 0; out != NULL && i < *n && i < driver.n; i++)
        out[i] = (ze_device_handle_t)&driver.device[i];
    *n = *n == 0 || *n > driver.n ? driver.n : *n;
    return ZE_RESULT_SUCCESS;
}

/* What is free now, for the structure of the chain that asks. */
static void fill_usable(const struct device *d, void *chain) {
    size_t bytes = 0;
    size_t total = 0;
    for (ze_base_properties_t *e = chain; e != NULL; e = e->pNext)
        if ((int)e->stype == USABLE_MEMORY_TYPE && device_enter(d) && CUDA(cuMemGetInfo_v2, &bytes, &total))
            ((struct usable_memory *)(void *)e)->now = bytes;
}

ze_result_t ZE_APICALL zeDeviceGetProperties(ze_device_handle_t h, ze_device_properties_t *p) {
    struct device *d = (struct device *)h;
    CLEAR(p);
    p->type = ZE_DEVICE_TYPE_GPU;
    p->vendorId = 0x10de;
    p->deviceId = (uint32_t)(attribute(d, CUDA_MAJOR) * 16 + attribute(d, CUDA_MINOR));
    p->coreClockRate = (uint32_t)(attribute(d, CUDA_CLOCK_KHZ) / 1000);
    p->maxMemAllocSize = MAX_ALLOCATION;
    p->maxCommandQueuePriority = 0;
    /* Threads in Intel's sense are 16 work-items each; an SM has four schedulers. */
    p->numSlices = (uint32_t)attribute(d, CUDA_SMS);
    p->numSubslicesPerSlice = 1;
    p->numEUsPerSubslice = 4;
    p->numThreadsPerEU = (uint32_t)(attribute(d, CUDA_THREADS_PER_SM) / 16 / 4);
    p->physicalEUSimdWidth = 16;
    p->timerResolution = 1000000000u;
    p->timestampValidBits = p->kernelTimestampValidBits = 64;
    snprintf(p->name, sizeof p->name, "%.*s", (int)sizeof p->name - 1, d->name);
    fill_usable(d, p->pNext);
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeDeviceGetComputeProperties(ze_device_handle_t h, ze_device_compute_properties_t *p) {
    (void)h;
    CLEAR(p);
    p->maxTotalGroupSize = p->maxGroupSizeX = p->maxGroupSizeY = p->maxGroupSizeZ = MAX_GROUP;
    p->maxGroupCountX = INT32_MAX;
    p->maxGroupCountY = p->maxGroupCountZ = 65535;
    p->maxSharedLocalMemory = LOCAL_MEMORY;
    p->numSubGroupSizes = 2; /* what kernels ask for; the matrix engine's are of 16 (builtins.c) */
    p->subGroupSizes[0] = 16, p->subGroupSizes[1] = 32;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeDeviceGetModuleProperties(ze_device_handle_t h, ze_device_module_properties_t *p) {
    (void)h;
    CLEAR(p);
    p->spirvVersionSupported = ZE_MAKE_VERSION(1, 2);
    p->flags = ZE_DEVICE_MODULE_FLAG_FP16 | ZE_DEVICE_MODULE_FLAG_DP4A;
    p->maxArgumentsSize = 4096;
    const char *dpas = getenv("ZECUDA_DPAS");
    for (ze_base_properties_t *e = p->pNext; e != NULL; e = e->pNext)
        if ((int)e->stype == DOT_PRODUCT_TYPE)
            ((struct dot_product *)(void *)e)->flags = dpas != NULL && dpas[0] == '0' ? 1 : 3;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeDeviceGetMemoryProperties(ze_device_handle_t h, uint32_t *n,
                                                   ze_device_memory_properties_t *p) {
    struct device *d = (struct device *)h;
    if (*n != 0 && p != NULL) {
        CLEAR(p);
        p->totalSize = d->memory;
        p->maxBusWidth = (uint32_t)attribute(d, CUDA_BUS_BITS);
        p->maxClockRate = (uint32_t)(attribute(d, CUDA_MEMORY_KHZ) / 1000);
        snprintf(p->name, sizeof p->name, "device memory");
        for (ze_base_properties_t *e = p->pNext; e != NULL; e = e->pNext)
            if (e->stype == ZE_STRUCTURE_TYPE_DEVICE_MEMORY_EXT_PROPERTIES) {
                ze_device_memory_ext_properties_t *x = (void *)e;
                /* Two transfers a cycle. */
                x->readBandwidth = x->writeBandwidth =
                    (uint32_t)(attribute(d, CUDA_MEMORY_KHZ) * attribute(d, CUDA_BUS_BITS) / 4 / 1000000);
                x->bandwidthUnit = ZE_BANDWIDTH_UNIT_BYTES_PER_NANOSEC;
            }
    }
    *n = 1;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeDeviceGetCommandQueueGroupProperties(ze_device_handle_t h, uint32_t *n,
                                                              ze_command_queue_group_properties_t *p) {
    (void)h;
    if (*n != 0 && p != NULL) {
        CLEAR(p);
        p->flags = ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE | ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY;
        p->maxMemoryFillPatternSize = 4;
        p->numQueues = 1;
    }
    *n = 1;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeDeviceCanAccessPeer(ze_device_handle_t from, ze_device_handle_t to,
                                             ze_bool_t *value) {
    *value = from == to || ((struct device *)from)->reaches[((struct device *)to)->index];
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeDevicePciGetPropertiesExt(ze_device_handle_t h, ze_pci_ext_properties_t *p) {
    struct device *d = (struct device *)h;
    char id[32] = "";
    unsigned a[4] = {0, 0, 0, 0};
    CLEAR(p);
    if (!CUDA(cuDeviceGetPCIBusId, id, sizeof id, d->id) ||
        sscanf(id, "%x:%x:%x.%x", &a[0], &a[1], &a[2], &a[3]) != 4)
        return ZE_RESULT_ERROR_UNKNOWN;
    p->address.domain = a[0], p->address.bus = a[1], p->address.device = a[2], p->address.function = a[3];
    return ZE_RESULT_SUCCESS;
}

/* CUDA's events know only their distances, so kernels' times (zeEventQueryKernelTimestamp) are told by their
 * distance from the last reading of the clock. */
ze_result_t ZE_APICALL zeDeviceGetGlobalTimestamps(ze_device_handle_t h, uint64_t *host, uint64_t *device) {
    struct device *d = (struct device *)h;
    if (!device_enter(d) || !CUDA(cuEventRecord, d->now, d->side) || !CUDA(cuEventSynchronize, d->now))
        return ZE_RESULT_ERROR_DEVICE_LOST;
    d->now_ns = device_clock_ns();
    d->read = true;
    *host = *device = d->now_ns;
    return ZE_RESULT_SUCCESS;
}

/* ---- contexts: CUDA's primary ones serve */
ze_result_t ZE_APICALL zeContextCreate(ze_driver_handle_t h, const ze_context_desc_t *desc,
                                       ze_context_handle_t *out) {
    (void)desc;
    *out = (ze_context_handle_t)h;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeContextDestroy(ze_context_handle_t h) {
    (void)h;
    return ZE_RESULT_SUCCESS;
}

/* ---- memory */
ze_result_t ZE_APICALL zeMemAllocDevice(ze_context_handle_t c, const ze_device_mem_alloc_desc_t *desc,
                                        size_t size, size_t alignment, ze_device_handle_t h, void **p) {
    (void)c, (void)desc;
    cuda_address a = 0;
    if (alignment > 1u << 16)
        return ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT;
    if (size > MAX_ALLOCATION)
        return ZE_RESULT_ERROR_UNSUPPORTED_SIZE;
    if (!device_enter((struct device *)h))
        return ZE_RESULT_ERROR_DEVICE_LOST;
    size_t unit = alignment > 256 ? alignment : 256;
    cuda_result r = cuda.cuMemAlloc_v2(&a, (size + unit - 1) / unit * unit);
    if (!cuda_good("cuMemAlloc", r))
        return device_result(r);
    if (alignment != 0 && a % alignment != 0) {
        fprintf(stderr, "zecuda: cuMemAlloc: not aligned to %zu bytes\n", alignment);
        (void)CUDA(cuMemFree_v2, a);
        return ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT;
    }
    *p = (void *)a;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeMemAllocHost(ze_context_handle_t c, const ze_host_mem_alloc_desc_t *desc,
                                      size_t size, size_t alignment, void **p) {
    (void)c, (void)desc, (void)alignment; /* whole pages */
    return device_enter(&driver.device[0]) && CUDA(cuMemHostAlloc, p, size, CUDA_HOST_PORTABLE)
               ? ZE_RESULT_SUCCESS
               : ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
}

/* In the context that it was allocated in: the thread may have entered another device's, or none. */
ze_result_t ZE_APICALL zeMemFree(ze_context_handle_t c, void *p) {
    (void)c;
    unsigned type = 0;
    cuda_context context = NULL;
    if (!CUDA(cuPointerGetAttribute, &type, CUDA_POINTER_TYPE, (cuda_address)p) ||
        !CUDA(cuPointerGetAttribute, &context, CUDA_POINTER_CONTEXT, (cuda_address)p) ||
        !CUDA(cuCtxSetCurrent, context))
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    cuda_result r = type == CUDA_POINTER_HOST ? cuda.cuMemFreeHost(p) : cuda.cuMemFree_v2((cuda_address)p);
    return cuda_good("free", r) ? ZE_RESULT_SUCCESS : device_result(r);
}
