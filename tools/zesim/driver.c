/* The driver, its devices, contexts, and what sysman says about memory. */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Newer than Debian's headers (Level Zero 1.11): ze_device_usablemem_size_ext_properties_t. */
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

const char *device_name(const struct device *d) {
    static char names[SIM_MAX_DEVICES][8];
    if (d == NULL)
        return "host";
    if (names[d->index][0] == '\0')
        snprintf(names[d->index], sizeof names[0], "gpu%u", d->index);
    return names[d->index];
}

/* Fills a structure but its type and chain. */
#define CLEAR(p)                                                                                             \
    do {                                                                                                     \
        void *next_ = (p)->pNext;                                                                            \
        ze_structure_type_t type_ = (p)->stype;                                                              \
        memset(p, 0, sizeof *(p));                                                                           \
        (p)->stype = type_, (p)->pNext = next_;                                                              \
    } while (0)

/* A list out by the API's habit: *n is 0: the count alone; else up to *n of them. Intel's driver does not
 * lower *n for devices, and neither does this one. */
static uint32_t give(uint32_t *n, uint32_t have, const void *out) {
    if (*n == 0) {
        *n = have;
        return 0;
    }
    return out == NULL ? 0 : *n < have ? *n : have;
}

/* ---- driver */
ze_result_t ZE_APICALL zeInit(ze_init_flags_t flags) {
    ENTER(zeInit);
    if ((flags & ~(ze_init_flags_t)(ZE_INIT_FLAG_GPU_ONLY | ZE_INIT_FLAG_VPU_ONLY)) != 0)
        return ZE_RESULT_ERROR_INVALID_ENUMERATION;
    return sim.n_devices != 0 ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_UNINITIALIZED;
}

ze_result_t ZE_APICALL zeDriverGet(uint32_t *n, ze_driver_handle_t *drivers) {
    ENTER(zeDriverGet);
    if (n == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    if (give(n, 1, drivers) != 0)
        drivers[0] = (ze_driver_handle_t)&sim.driver;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeDriverGetApiVersion(ze_driver_handle_t handle, ze_api_version_t *version) {
    ENTER(zeDriverGetApiVersion);
    GET(struct object, d, KIND_DRIVER, handle);
    (void)d;
    if (version == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    *version = ZE_API_VERSION_1_3;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeDriverGetProperties(ze_driver_handle_t handle, ze_driver_properties_t *p) {
    ENTER(zeDriverGetProperties);
    GET(struct object, d, KIND_DRIVER, handle);
    (void)d;
    if (p == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    CLEAR(p);
    memcpy(p->uuid.id, "zesim driver", 12);
    p->driverVersion = SIM_DRIVER_VERSION;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeDriverGetIpcProperties(ze_driver_handle_t handle, ze_driver_ipc_properties_t *p) {
    ENTER(zeDriverGetIpcProperties);
    GET(struct object, d, KIND_DRIVER, handle);
    (void)d;
    if (p == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    p->flags = 0;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeDriverGetExtensionProperties(ze_driver_handle_t handle, uint32_t *n,
                                                      ze_driver_extension_properties_t *p) {
    const char *names[7] = {"ZE_experimental_relaxed_allocation_limits", "ZE_experimental_global_offset",
                            "ZE_extension_pci_properties", "ZE_extension_memory_free_policies",
                            DOT_PRODUCT_EXTENSION};
    uint32_t have = 5;
    ENTER(zeDriverGetExtensionProperties);
    GET(struct object, d, KIND_DRIVER, handle);
    (void)d;
    if (n == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    if (sim.device[0].usable_memory)
        names[have++] = USABLE_MEMORY_EXTENSION;
    if (sim.device[0].bandwidth > 0)
        names[have++] = "ZE_extension_device_memory_properties";
    const uint32_t given = give(n, have, p);
    for (uint32_t i = 0; i < given; i++) {
        memset(&p[i], 0, sizeof p[i]);
        strcpy(p[i].name, names[i]);
        p[i].version = ZE_MAKE_VERSION(1, 0);
    }
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeDriverGetExtensionFunctionAddress(ze_driver_handle_t handle, const char *name,
                                                           void **address) {
    ENTER(zeDriverGetExtensionFunctionAddress);
    GET(struct object, d, KIND_DRIVER, handle);
    (void)d;
    return name == NULL || address == NULL ? ZE_RESULT_ERROR_INVALID_NULL_POINTER
                                           : ZE_RESULT_ERROR_INVALID_ARGUMENT;
}

/* ---- devices */
ze_result_t ZE_APICALL zeDeviceGet(ze_driver_handle_t handle, uint32_t *n, ze_device_handle_t *devices) {
    ENTER(zeDeviceGet);
    GET(struct object, d, KIND_DRIVER, handle);
    (void)d;
    if (n == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    uint32_t given = give(n, sim.n_devices, devices);
    for (uint32_t i = 0; i < given; i++)
        devices[i] = (ze_device_handle_t)&sim.device[i];
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeDeviceGetSubDevices(ze_device_handle_t handle, uint32_t *n,
                                             ze_device_handle_t *devices) {
    ENTER(zeDeviceGetSubDevices);
    GET(struct device, d, KIND_DEVICE, handle);
    (void)d, (void)devices;
    if (n == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    *n = 0;
    return ZE_RESULT_SUCCESS;
}

static void fill_uuid(const struct device *d, uint8_t *uuid) {
    memset(uuid, 0, ZE_MAX_DEVICE_UUID_SIZE);
    memcpy(uuid, &d->vendor_id, 2);
    memcpy(uuid + 2, &d->device_id, 2);
    uuid[8] = (uint8_t)d->pci_bus, uuid[9] = (uint8_t)d->pci_device, uuid[10] = (uint8_t)d->pci_function;
    uuid[15] = (uint8_t)(d->index + 1);
}

static void fill_device(const struct device *d, ze_device_properties_t *p) {
    CLEAR(p);
    p->type = ZE_DEVICE_TYPE_GPU;
    p->vendorId = (uint32_t)d->vendor_id, p->deviceId = (uint32_t)d->device_id;
    p->coreClockRate = (uint32_t)d->clock_mhz;
    p->maxMemAllocSize = d->max_alloc;
    p->maxHardwareContexts = 65536;
    p->numThreadsPerEU = (uint32_t)d->threads, p->physicalEUSimdWidth = (uint32_t)d->simd;
    p->numEUsPerSubslice = (uint32_t)d->eus, p->numSubslicesPerSlice = (uint32_t)d->subslices;
    p->numSlices = (uint32_t)d->slices;
    p->timerResolution =
        p->stype == ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES_1_2 ? d->timer_hz : 1000000000u / d->timer_hz;
    p->timestampValidBits = 36, p->kernelTimestampValidBits = (uint32_t)d->timestamp_bits;
    fill_uuid(d, p->uuid.id);
    strcpy(p->name, d->name);
}

ze_result_t ZE_APICALL zeDeviceGetProperties(ze_device_handle_t handle, ze_device_properties_t *p) {
    ENTER(zeDeviceGetProperties);
    GET(struct device, d, KIND_DEVICE, handle);
    if (p == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    fill_device(d, p);
    for (ze_base_properties_t *e = p->pNext; e != NULL; e = e->pNext)
        if ((int)e->stype == USABLE_MEMORY_TYPE && d->usable_memory)
            ((struct usable_memory *)e)->now = memory_free_bytes(d);
        else if (e->stype == ZE_STRUCTURE_TYPE_EU_COUNT_EXT)
            ((ze_eu_count_ext_t *)e)->numTotalEUs = (uint32_t)(d->eus * d->subslices * d->slices);
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeDeviceGetComputeProperties(ze_device_handle_t handle,
                                                    ze_device_compute_properties_t *p) {
    ENTER(zeDeviceGetComputeProperties);
    GET(struct device, d, KIND_DEVICE, handle);
    if (p == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    CLEAR(p);
    p->maxTotalGroupSize = p->maxGroupSizeX = p->maxGroupSizeY = p->maxGroupSizeZ = (uint32_t)d->max_group;
    p->maxGroupCountX = p->maxGroupCountY = p->maxGroupCountZ = UINT32_MAX;
    p->maxSharedLocalMemory = (uint32_t)d->local_memory;
    p->numSubGroupSizes = d->n_sub_groups;
    memcpy(p->subGroupSizes, d->sub_groups, sizeof d->sub_groups);
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeDeviceGetModuleProperties(ze_device_handle_t handle,
                                                   ze_device_module_properties_t *p) {
    ENTER(zeDeviceGetModuleProperties);
    GET(struct device, d, KIND_DEVICE, handle);
    if (p == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    CLEAR(p);
    p->spirvVersionSupported = ZE_MAKE_VERSION(1, 2);
    p->flags = ZE_DEVICE_MODULE_FLAG_FP16 | ZE_DEVICE_MODULE_FLAG_DP4A;
    p->fp16flags = p->fp32flags = ZE_DEVICE_FP_FLAG_DENORM | ZE_DEVICE_FP_FLAG_INF_NAN |
                                  ZE_DEVICE_FP_FLAG_ROUND_TO_NEAREST | ZE_DEVICE_FP_FLAG_FMA;
    p->maxArgumentsSize = 2048;
    p->printfBufferSize = 4 << 20;
    memcpy(p->nativeKernelSupported.id, "zesim", 5);
    for (ze_base_properties_t *e = p->pNext; e != NULL; e = e->pNext)
        if ((int)e->stype == DOT_PRODUCT_TYPE)
            ((struct dot_product *)e)->flags = 1u | (d->dpas ? 2u : 0u);
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeDeviceGetCommandQueueGroupProperties(ze_device_handle_t handle, uint32_t *n,
                                                              ze_command_queue_group_properties_t *p) {
    ENTER(zeDeviceGetCommandQueueGroupProperties);
    GET(struct device, d, KIND_DEVICE, handle);
    if (n == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    uint32_t have = d->copy_engines != 0 ? 2 : 1, given = give(n, have, p);
    *n = *n < have ? *n : have;
    for (uint32_t i = 0; i < given; i++) {
        CLEAR(&p[i]);
        p[i].flags = ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY |
                     (i == 0 ? ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE : 0);
        p[i].maxMemoryFillPatternSize = i == 0 ? SIM_MAX_PATTERN : 16;
        p[i].numQueues = i == 0 ? 1 : (uint32_t)d->copy_engines;
    }
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeDeviceGetMemoryProperties(ze_device_handle_t handle, uint32_t *n,
                                                   ze_device_memory_properties_t *p) {
    ENTER(zeDeviceGetMemoryProperties);
    GET(struct device, d, KIND_DEVICE, handle);
    if (n == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    uint32_t given = give(n, 1, p);
    *n = 1;
    if (given == 0)
        return ZE_RESULT_SUCCESS;
    CLEAR(p);
    p->maxClockRate = (uint32_t)d->memory_mhz, p->maxBusWidth = (uint32_t)d->bus_bits;
    p->totalSize = d->memory;
    strcpy(p->name, "zesim");
    for (ze_base_properties_t *x = p->pNext; x != NULL && d->bandwidth > 0; x = x->pNext)
        if (x->stype == ZE_STRUCTURE_TYPE_DEVICE_MEMORY_EXT_PROPERTIES) {
            ze_device_memory_ext_properties_t *speed = (ze_device_memory_ext_properties_t *)x;
            speed->readBandwidth = speed->writeBandwidth = (uint32_t)d->bandwidth;
            speed->bandwidthUnit = ZE_BANDWIDTH_UNIT_BYTES_PER_NANOSEC;
        }
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeDeviceGetMemoryAccessProperties(ze_device_handle_t handle,
                                                         ze_device_memory_access_properties_t *p) {
    ENTER(zeDeviceGetMemoryAccessProperties);
    GET(struct device, d, KIND_DEVICE, handle);
    (void)d;
    if (p == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    CLEAR(p);
    p->hostAllocCapabilities = p->deviceAllocCapabilities = p->sharedSingleDeviceAllocCapabilities =
        ZE_MEMORY_ACCESS_CAP_FLAG_RW | ZE_MEMORY_ACCESS_CAP_FLAG_ATOMIC;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeDeviceGetCacheProperties(ze_device_handle_t handle, uint32_t *n,
                                                  ze_device_cache_properties_t *p) {
    ENTER(zeDeviceGetCacheProperties);
    GET(struct device, d, KIND_DEVICE, handle);
    (void)d;
    if (n == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    uint32_t given = give(n, 1, p);
    *n = 1;
    if (given != 0) {
        CLEAR(p);
        p->cacheSize = 16 << 20;
    }
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeDeviceGetExternalMemoryProperties(ze_device_handle_t handle,
                                                           ze_device_external_memory_properties_t *p) {
    ENTER(zeDeviceGetExternalMemoryProperties);
    GET(struct device, d, KIND_DEVICE, handle);
    (void)d;
    if (p == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    CLEAR(p);
    return ZE_RESULT_SUCCESS;
}

static bool peers(const struct device *a, const struct device *b) {
    return a == b || a->peer[b->index].kind != PEER_NONE;
}

ze_result_t ZE_APICALL zeDeviceGetP2PProperties(ze_device_handle_t handle, ze_device_handle_t peer,
                                                ze_device_p2p_properties_t *p) {
    ENTER(zeDeviceGetP2PProperties);
    GET(struct device, a, KIND_DEVICE, handle);
    GET(struct device, b, KIND_DEVICE, peer);
    if (p == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    p->flags = peers(a, b) ? ZE_DEVICE_P2P_PROPERTY_FLAG_ACCESS : 0;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeDeviceCanAccessPeer(ze_device_handle_t handle, ze_device_handle_t peer,
                                             ze_bool_t *value) {
    ENTER(zeDeviceCanAccessPeer);
    GET(struct device, a, KIND_DEVICE, handle);
    GET(struct device, b, KIND_DEVICE, peer);
    if (value == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    *value = peers(a, b);
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeDeviceGetStatus(ze_device_handle_t handle) {
    ENTER(zeDeviceGetStatus);
    GET(struct device, d, KIND_DEVICE, handle);
    return d->lost ? ZE_RESULT_ERROR_DEVICE_LOST : ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeDeviceGetGlobalTimestamps(ze_device_handle_t handle, uint64_t *host,
                                                   uint64_t *device) {
    ENTER(zeDeviceGetGlobalTimestamps);
    GET(struct device, d, KIND_DEVICE, handle);
    if (host == NULL || device == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    *host = sim_now();
    *device = device_ticks(d, *host);
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeDevicePciGetPropertiesExt(ze_device_handle_t handle, ze_pci_ext_properties_t *p) {
    ENTER(zeDevicePciGetPropertiesExt);
    GET(struct device, d, KIND_DEVICE, handle);
    if (p == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    CLEAR(p);
    p->address = (ze_pci_address_ext_t){(uint32_t)d->pci_domain, (uint32_t)d->pci_bus,
                                        (uint32_t)d->pci_device, (uint32_t)d->pci_function};
    p->maxSpeed = (ze_pci_speed_ext_t){4, 16, 31500000000};
    return ZE_RESULT_SUCCESS;
}

/* ---- contexts */
static ze_result_t new_context(ze_driver_handle_t driver, const ze_context_desc_t *desc,
                               ze_context_handle_t *handle) {
    GET(struct object, d, KIND_DRIVER, driver);
    (void)d;
    if (desc == NULL || handle == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    *handle = objects_new(KIND_CONTEXT, sizeof(struct context));
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeContextCreate(ze_driver_handle_t driver, const ze_context_desc_t *desc,
                                       ze_context_handle_t *handle) {
    ENTER(zeContextCreate);
    return new_context(driver, desc, handle);
}

ze_result_t ZE_APICALL zeContextCreateEx(ze_driver_handle_t driver, const ze_context_desc_t *desc, uint32_t n,
                                         ze_device_handle_t *devices, ze_context_handle_t *handle) {
    ENTER(zeContextCreateEx);
    for (uint32_t i = 0; devices != NULL && i < n; i++) {
        GET(struct device, d, KIND_DEVICE, devices[i]);
        (void)d;
    }
    return new_context(driver, desc, handle);
}

ze_result_t ZE_APICALL zeContextDestroy(ze_context_handle_t handle) {
    ENTER(zeContextDestroy);
    GET(struct context, c, KIND_CONTEXT, handle);
    objects_kill(c);
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeContextGetStatus(ze_context_handle_t handle) {
    ENTER(zeContextGetStatus);
    GET(struct context, c, KIND_CONTEXT, handle);
    return queue_lost(c) ? ZE_RESULT_ERROR_DEVICE_LOST : ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeContextSystemBarrier(ze_context_handle_t context, ze_device_handle_t device) {
    ENTER(zeContextSystemBarrier);
    GET(struct context, c, KIND_CONTEXT, context);
    GET(struct device, d, KIND_DEVICE, device);
    (void)c, (void)d;
    return ZE_RESULT_SUCCESS;
}

/* ---- sysman. Its device handles are the core ones. */
ze_result_t ZE_APICALL zesDeviceGetProperties(zes_device_handle_t handle, zes_device_properties_t *p) {
    ENTER(zesDeviceGetProperties);
    GET(struct device, d, KIND_DEVICE, handle);
    if (p == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    void *next = p->pNext;
    zes_structure_type_t type = p->stype;
    memset(p, 0, sizeof *p);
    p->stype = type, p->pNext = next;
    p->core.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES;
    fill_device(d, &p->core);
    strcpy(p->vendorName, "zesim");
    snprintf(p->modelName, sizeof p->modelName, "%.60s", d->name);
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zesDevicePciGetProperties(zes_device_handle_t handle, zes_pci_properties_t *p) {
    ENTER(zesDevicePciGetProperties);
    GET(struct device, d, KIND_DEVICE, handle);
    if (p == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    p->address = (zes_pci_address_t){(uint32_t)d->pci_domain, (uint32_t)d->pci_bus, (uint32_t)d->pci_device,
                                     (uint32_t)d->pci_function};
    p->maxSpeed = (zes_pci_speed_t){4, 16, 31500000000};
    p->haveBandwidthCounters = p->havePacketCounters = p->haveReplayCounters = 0;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zesDeviceEnumMemoryModules(zes_device_handle_t handle, uint32_t *n,
                                                  zes_mem_handle_t *modules) {
    ENTER(zesDeviceEnumMemoryModules);
    GET(struct device, d, KIND_DEVICE, handle);
    if (n == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    uint32_t given = give(n, 1, modules);
    *n = 1;
    if (given != 0)
        modules[0] = (zes_mem_handle_t)&d->memory_module;
    return ZE_RESULT_SUCCESS;
}

static struct device *device_of(struct object *memory_module) {
    return (struct device *)((char *)memory_module - offsetof(struct device, memory_module));
}

ze_result_t ZE_APICALL zesMemoryGetProperties(zes_mem_handle_t handle, zes_mem_properties_t *p) {
    ENTER(zesMemoryGetProperties);
    GET(struct object, m, KIND_MEMORY_MODULE, handle);
    if (p == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    p->type = ZES_MEM_TYPE_GDDR6;
    p->onSubdevice = 0, p->subdeviceId = 0;
    p->location = ZES_MEM_LOC_DEVICE;
    p->physicalSize = device_of(m)->memory;
    p->busWidth = (int32_t)device_of(m)->bus_bits;
    p->numChannels = -1;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zesMemoryGetState(zes_mem_handle_t handle, zes_mem_state_t *s) {
    ENTER(zesMemoryGetState);
    GET(struct object, m, KIND_MEMORY_MODULE, handle);
    if (s == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    s->health = ZES_MEM_HEALTH_OK;
    s->size = device_of(m)->memory;
    s->free = memory_free_bytes(device_of(m));
    return ZE_RESULT_SUCCESS;
}
