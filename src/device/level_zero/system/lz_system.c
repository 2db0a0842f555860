#include "device/level_zero/system/lz_system.h"

#include "device/level_zero/lz_trial.h"

#include "base/arith.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define MAX_EXTENSIONS 128
#define LEAST_BUS      1000000000 /* bytes per second */

/* zeInit is called once per process, and so is everything that follows from it. */
static struct {
    pthread_mutex_t mutex;
    bool tried;
    stator_status status;
    stator_error error;
    struct lz_system system;
} process = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void pci_text(uint32_t domain, uint32_t bus, uint32_t device, uint32_t function, char out[16]) {
    snprintf(out, 16, "%04x:%02x:%02x.%x", domain & 0xffff, bus & 0xff, device & 0xff, function & 0xf);
}

static void read_extensions(const struct lz_calls *ze, struct lz_driver *d) {
    static ze_driver_extension_properties_t list[MAX_EXTENSIONS]; /* 33 KB, under the mutex */
    uint32_t n = 0;
    if (ze->zeDriverGetExtensionProperties(d->handle, &n, NULL) != ZE_RESULT_SUCCESS)
        return;
    n = ARITH_MIN(n, (uint32_t)MAX_EXTENSIONS);
    if (n == 0 || ze->zeDriverGetExtensionProperties(d->handle, &n, list) != ZE_RESULT_SUCCESS)
        return;
    for (uint32_t i = 0; i < n; i++) {
        d->usable_memory |= strcmp(list[i].name, COMPAT_USABLE_MEMORY_NAME) == 0;
        d->dot_product |= strcmp(list[i].name, COMPAT_DOT_PRODUCT_NAME) == 0;
        d->memory_bandwidth |= strcmp(list[i].name, COMPAT_MEMORY_NAME) == 0;
    }
}

static stator_status read_queues(const struct lz_calls *ze, struct lz_gpu *g, stator_error *e) {
    ze_command_queue_group_properties_t groups[16];
    uint32_t n = 0;
    ze_result_t r = ze->zeDeviceGetCommandQueueGroupProperties(g->handle, &n, NULL);
    n = ARITH_MIN(n, 16u);
    for (uint32_t i = 0; i < 16; i++)
        groups[i] =
            (ze_command_queue_group_properties_t){.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES};
    if (r == ZE_RESULT_SUCCESS)
        r = ze->zeDeviceGetCommandQueueGroupProperties(g->handle, &n, groups);
    if (r != ZE_RESULT_SUCCESS)
        return lz_calls_error(e, g->name, "zeDeviceGetCommandQueueGroupProperties", r);
    g->compute_queue = g->copy_queue = LZ_NO_QUEUE;
    for (uint32_t i = 0; i < n; i++) {
        const bool computes = groups[i].flags & ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE;
        if (computes && g->compute_queue == LZ_NO_QUEUE) {
            g->compute_queue = i;
            g->fill_pattern = groups[i].maxMemoryFillPatternSize;
        } else if (!computes && groups[i].flags & ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY &&
                   groups[i].numQueues > 0 && g->copy_queue == LZ_NO_QUEUE) {
            g->copy_queue = i;
        }
    }
    if (g->compute_queue != LZ_NO_QUEUE)
        return STATOR_OK;
    return error_set(e, STATOR_DEVICE, "%s: it has no queue for compute", g->name);
}

static stator_status read_memory(const struct lz_calls *ze, struct lz_gpu *g, stator_error *e) {
    ze_device_memory_properties_t parts[8];
    ze_device_memory_ext_properties_t speed[8];
    uint32_t n = 0;
    ze_result_t r = ze->zeDeviceGetMemoryProperties(g->handle, &n, NULL);
    n = ARITH_MIN(n, 8u);
    for (uint32_t i = 0; i < 8; i++) {
        speed[i] =
            (ze_device_memory_ext_properties_t){.stype = ZE_STRUCTURE_TYPE_DEVICE_MEMORY_EXT_PROPERTIES};
        parts[i] = (ze_device_memory_properties_t){.stype = ZE_STRUCTURE_TYPE_DEVICE_MEMORY_PROPERTIES,
                                                   .pNext = g->driver->memory_bandwidth ? &speed[i] : NULL};
    }
    if (r == ZE_RESULT_SUCCESS)
        r = ze->zeDeviceGetMemoryProperties(g->handle, &n, parts);
    if (r != ZE_RESULT_SUCCESS)
        return lz_calls_error(e, g->name, "zeDeviceGetMemoryProperties", r);
    for (uint32_t i = 0; i < n; i++) {
        g->total += parts[i].totalSize;
        if (speed[i].bandwidthUnit == ZE_BANDWIDTH_UNIT_BYTES_PER_NANOSEC)
            g->bandwidth += (uint64_t)speed[i].readBandwidth * 1000000000u;
    }
    if (g->total == 0)
        return error_set(e, STATOR_DEVICE, "%s: the driver reports no memory", g->name);
    return STATOR_OK;
}

/* PCI address; EUs; dot products. What a driver does not say stays empty. */
static stator_status read_abilities(const struct lz_calls *ze, struct lz_gpu *g, stator_error *e) {
    ze_pci_ext_properties_t pci = {.stype = ZE_STRUCTURE_TYPE_PCI_EXT_PROPERTIES};
    if (ze->zeDevicePciGetPropertiesExt != NULL &&
        ze->zeDevicePciGetPropertiesExt(g->handle, &pci) == ZE_RESULT_SUCCESS)
        pci_text(pci.address.domain, pci.address.bus, pci.address.device, pci.address.function, g->pci);
    /* Cards with a switch of their own report the link behind that switch, which says nothing about the
     * slot. */
    if (pci.maxSpeed.maxBandwidth >= LEAST_BUS)
        g->bus = (uint64_t)pci.maxSpeed.maxBandwidth;
    ze_device_compute_properties_t c = {.stype = ZE_STRUCTURE_TYPE_DEVICE_COMPUTE_PROPERTIES};
    ze_result_t r = ze->zeDeviceGetComputeProperties(g->handle, &c);
    if (r != ZE_RESULT_SUCCESS)
        return lz_calls_error(e, g->name, "zeDeviceGetComputeProperties", r);
    g->max_group = c.maxTotalGroupSize;
    g->local_memory = c.maxSharedLocalMemory;
    g->n_sub_groups = ARITH_MIN(c.numSubGroupSizes, (uint32_t)LZ_SYSTEM_MAX_SUBGROUP);
    memcpy(g->sub_groups, c.subGroupSizes, g->n_sub_groups * sizeof g->sub_groups[0]);
    struct compat_dot_product dot = {.stype = COMPAT_DOT_PRODUCT_STYPE};
    ze_device_module_properties_t m = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MODULE_PROPERTIES,
                                       .pNext = g->driver->dot_product ? &dot : NULL};
    (void)ze->zeDeviceGetModuleProperties(g->handle, &m);
    g->dp4a = (m.flags & ZE_DEVICE_MODULE_FLAG_DP4A) != 0 || (dot.flags & COMPAT_DOT_PRODUCT_DP4A) != 0;
    g->dpas = (dot.flags & COMPAT_DOT_PRODUCT_DPAS) != 0;
    return STATOR_OK;
}

static stator_status read_gpu(const struct lz_calls *ze, const ze_device_properties_t *p, struct lz_gpu *g,
                              stator_error *e) {
    snprintf(g->model, sizeof g->model, "%.*s", (int)sizeof p->name - 1, p->name);
    g->vendor = p->vendorId;
    g->device = p->deviceId;
    g->integrated = (p->flags & ZE_DEVICE_PROPERTY_FLAG_INTEGRATED) != 0;
    g->eus = p->numSlices * p->numSubslicesPerSlice * p->numEUsPerSubslice;
    g->threads_per_eu = p->numThreadsPerEU;
    g->max_alloc = p->maxMemAllocSize;
    g->tick_ns = p->timerResolution != 0 ? 1e9 / (double)p->timerResolution : 0; /* cycles per second, _1_2 */
    uint32_t bits = p->kernelTimestampValidBits;
    g->timestamp_mask = bits == 0 || bits >= 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    stator_status st = read_queues(ze, g, e);
    if (st == STATOR_OK)
        st = read_memory(ze, g, e);
    if (st == STATOR_OK)
        st = read_abilities(ze, g, e);
    return st;
}

static stator_status add_gpus(struct lz_system *s, struct lz_driver *d, stator_error *e) {
    const struct lz_calls *ze = &s->ze;
    ze_device_handle_t handles[LZ_SYSTEM_MAX_GPUS] = {0};
    uint32_t n = 0; /* some drivers do not lower a count that is too large, so query it first */
    ze_result_t r = ze->zeDeviceGet(d->handle, &n, NULL);
    n = ARITH_MIN(n, (uint32_t)LZ_SYSTEM_MAX_GPUS);
    if (r == ZE_RESULT_SUCCESS && n > 0)
        r = ze->zeDeviceGet(d->handle, &n, handles);
    if (r != ZE_RESULT_SUCCESS)
        return lz_calls_error(e, "Level Zero", "zeDeviceGet", r);
    for (uint32_t i = 0; i < n && s->n_gpus < LZ_SYSTEM_MAX_GPUS; i++) {
        struct lz_gpu *g = &s->gpus[s->n_gpus];
        *g = (struct lz_gpu){.driver = d, .handle = handles[i]};
        snprintf(g->name, sizeof g->name, "level_zero:%u", s->n_gpus);
        ze_device_properties_t p = {.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES_1_2};
        r = ze->zeDeviceGetProperties(g->handle, &p);
        if (r != ZE_RESULT_SUCCESS)
            return lz_calls_error(e, g->name, "zeDeviceGetProperties", r);
        if (p.type != ZE_DEVICE_TYPE_GPU)
            continue;
        stator_status st = read_gpu(ze, &p, g, e);
        if (st != STATOR_OK)
            return st;
        s->n_gpus++;
    }
    return STATOR_OK;
}

static stator_status add_drivers(struct lz_system *s, stator_error *e) {
    const struct lz_calls *ze = &s->ze;
    ze_driver_handle_t handles[LZ_SYSTEM_MAX_DRIVERS] = {0};
    uint32_t n = 0;
    ze_result_t r = ze->zeDriverGet(&n, NULL);
    n = ARITH_MIN(n, (uint32_t)LZ_SYSTEM_MAX_DRIVERS);
    if (r == ZE_RESULT_SUCCESS && n > 0)
        r = ze->zeDriverGet(&n, handles);
    if (r != ZE_RESULT_SUCCESS)
        return lz_calls_error(e, "Level Zero", "zeDriverGet", r);
    for (uint32_t i = 0; i < n; i++) {
        struct lz_driver *d = &s->drivers[s->n_drivers++];
        *d = (struct lz_driver){.handle = handles[i]};
        ze_driver_properties_t p = {.stype = ZE_STRUCTURE_TYPE_DRIVER_PROPERTIES};
        if (ze->zeDriverGetProperties(d->handle, &p) == ZE_RESULT_SUCCESS)
            d->version = p.driverVersion;
        (void)ze->zeDriverGetApiVersion(d->handle, &d->api);
        read_extensions(ze, d);
        stator_status st = add_gpus(s, d, e);
        if (st != STATOR_OK)
            return st;
    }
    if (s->n_gpus == 0)
        return error_set(
            e, STATOR_DEVICE,
            "Level Zero: the driver finds no GPU here; `stator doctor` says what stands in the way");
    return STATOR_OK;
}

static stator_status start(struct lz_system *s, stator_error *e) {
    stator_status st = lz_trial(e);
    if (st == STATOR_OK)
        st = lz_calls_open(&s->ze, e);
    if (st != STATOR_OK)
        return st;
    ze_result_t r = s->ze.zeInit(ZE_INIT_FLAG_GPU_ONLY);
    lz_calls_read_version(&s->ze);
    if (r == ZE_RESULT_ERROR_UNINITIALIZED)
        return error_set(
            e, STATOR_DEVICE,
            "Level Zero: the loader finds no driver with a GPU here (zeInit: 0x%08x): is Intel's GPU "
            "driver installed (Debian: intel-opencl-icd)? `stator doctor` says what stands in the way",
            (unsigned)r);
    if (r != ZE_RESULT_SUCCESS)
        return lz_calls_error(e, "Level Zero", "zeInit", r);
    return add_drivers(s, e);
}

stator_status lz_system_get(struct lz_system **out, stator_error *e) {
    *out = NULL;
    pthread_mutex_lock(&process.mutex);
    if (!process.tried) {
        process.tried = true;
        process.status = start(&process.system, &process.error);
    }
    pthread_mutex_unlock(&process.mutex);
    if (process.status == STATOR_OK)
        *out = &process.system;
    else if (e != NULL)
        *e = process.error;
    return process.status;
}

void lz_system_loader(char out[32]) {
    pthread_mutex_lock(&process.mutex);
    snprintf(out, 32, "%s", process.system.ze.loader);
    pthread_mutex_unlock(&process.mutex);
}

static bool same_letters(const char *a, const char *b, size_t n) {
    for (size_t i = 0; i < n; i++) {
        char x = a[i] >= 'A' && a[i] <= 'Z' ? (char)(a[i] - 'A' + 'a') : a[i];
        char y = b[i] >= 'A' && b[i] <= 'Z' ? (char)(b[i] - 'A' + 'a') : b[i];
        if (x != y)
            return false;
    }
    return true;
}

static bool contains(const char *text, const char *part) {
    size_t n = strlen(part);
    for (size_t i = 0; n > 0 && i + n <= strlen(text); i++)
        if (same_letters(text + i, part, n))
            return true;
    return false;
}

/* Its address, with or without the domain 0000. */
static bool has_address(const struct lz_gpu *g, const char *text) {
    size_t n = strlen(text);
    if (g->pci[0] == '\0' || (n != 12 && n != 7))
        return false;
    return same_letters(g->pci + (n == 12 ? 0 : 5), text, n) && (n == 12 || strncmp(g->pci, "0000:", 5) == 0);
}

stator_status lz_system_find(struct lz_system *s, const char *name, struct lz_gpu **out, stator_error *e) {
    *out = NULL;
    const char *what = strncmp(name, "level_zero", 10) == 0 ? name + 10 : name;
    if (*what == ':')
        what++;
    uint32_t found = 0;
    size_t digits = strspn(what, "0123456789");
    bool index = digits < 4 && what[digits] == '\0';
    for (uint32_t i = 0; i < s->n_gpus; i++) {
        struct lz_gpu *g = &s->gpus[i];
        bool this = index ? strcmp(g->name + 11, digits == 0 ? "0" : what) == 0
                          : has_address(g, what) || contains(g->model, what);
        if (!this)
            continue;
        found++;
        *out = g;
    }
    if (found == 1)
        return STATOR_OK;
    *out = NULL;
    char list[320] = "";
    for (uint32_t i = 0; i < s->n_gpus; i++) {
        size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s%s = %.60s %s", i > 0 ? "; " : "", s->gpus[i].name,
                 s->gpus[i].model, s->gpus[i].pci);
    }
    return error_set(e, STATOR_DEVICE, "devices.use = \"%.60s\": %s; this machine has: %s", name,
                     found == 0 ? "no such GPU" : "more than one GPU has that name", list);
}

/* The sysman handle of the device at the same PCI address; NULL: none. Loaders before zesInit take the
 * device's own handle, and answer when the user has set ZES_ENABLE_SYSMAN=1. */
static zes_device_handle_t sysman_handle(const struct lz_calls *ze, const struct lz_gpu *g) {
    if (ze->zesInit == NULL || ze->zesDriverGet == NULL || ze->zesDeviceGet == NULL)
        return (zes_device_handle_t)g->handle;
    zes_driver_handle_t drivers[LZ_SYSTEM_MAX_DRIVERS];
    uint32_t n_drivers = 0; /* as in add_gpus: ask first */
    if (g->pci[0] == '\0' || ze->zesDevicePciGetProperties == NULL || ze->zesInit(0) != ZE_RESULT_SUCCESS ||
        ze->zesDriverGet(&n_drivers, NULL) != ZE_RESULT_SUCCESS)
        return NULL;
    n_drivers = ARITH_MIN(n_drivers, (uint32_t)LZ_SYSTEM_MAX_DRIVERS);
    if (n_drivers == 0 || ze->zesDriverGet(&n_drivers, drivers) != ZE_RESULT_SUCCESS)
        return NULL;
    for (uint32_t i = 0; i < n_drivers; i++) {
        zes_device_handle_t devices[LZ_SYSTEM_MAX_GPUS];
        uint32_t n = 0;
        if (ze->zesDeviceGet(drivers[i], &n, NULL) != ZE_RESULT_SUCCESS)
            continue;
        n = ARITH_MIN(n, (uint32_t)LZ_SYSTEM_MAX_GPUS);
        if (n == 0 || ze->zesDeviceGet(drivers[i], &n, devices) != ZE_RESULT_SUCCESS)
            continue;
        for (uint32_t k = 0; k < n; k++) {
            zes_pci_properties_t p = {.stype = ZES_STRUCTURE_TYPE_PCI_PROPERTIES};
            char pci[16];
            if (ze->zesDevicePciGetProperties(devices[k], &p) != ZE_RESULT_SUCCESS)
                continue;
            pci_text(p.address.domain, p.address.bus, p.address.device, p.address.function, pci);
            if (strcmp(pci, g->pci) == 0)
                return devices[k];
        }
    }
    return NULL;
}

static bool sysman_free(const struct lz_calls *ze, const struct lz_gpu *g, uint64_t *bytes) {
    zes_mem_handle_t modules[8];
    uint32_t n = 0;
    if (ze->zesDeviceEnumMemoryModules == NULL || ze->zesMemoryGetState == NULL)
        return false;
    zes_device_handle_t device = sysman_handle(ze, g);
    if (device == NULL || ze->zesDeviceEnumMemoryModules(device, &n, NULL) != ZE_RESULT_SUCCESS)
        return false;
    n = ARITH_MIN(n, 8u);
    if (n == 0 || ze->zesDeviceEnumMemoryModules(device, &n, modules) != ZE_RESULT_SUCCESS)
        return false;
    *bytes = 0;
    for (uint32_t i = 0; i < n; i++) {
        zes_mem_state_t state = {.stype = ZES_STRUCTURE_TYPE_MEM_STATE};
        if (ze->zesMemoryGetState(modules[i], &state) != ZE_RESULT_SUCCESS)
            return false;
        *bytes += state.free;
    }
    return true;
}

uint64_t lz_system_free(struct lz_system *s, const struct lz_gpu *g, enum lz_free *source) {
    struct compat_usable_memory usable = {.stype = COMPAT_USABLE_MEMORY_STYPE};
    ze_device_properties_t p = {.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES_1_2, .pNext = &usable};
    *source = LZ_FREE_USABLE;
    if (g->driver->usable_memory && s->ze.zeDeviceGetProperties(g->handle, &p) == ZE_RESULT_SUCCESS &&
        usable.bytes != 0)
        return usable.bytes;
    uint64_t bytes = 0;
    *source = LZ_FREE_SYSMAN;
    if (sysman_free(&s->ze, g, &bytes))
        return bytes;
    *source = LZ_FREE_GUESS;
    return g->total - g->total / 16;
}

stator_status lz_system_context_acquire(struct lz_system *s, const struct lz_gpu *g, ze_context_handle_t *out,
                                        stator_error *e) {
    struct lz_driver *d = g->driver;
    ze_result_t r = ZE_RESULT_SUCCESS;
    pthread_mutex_lock(&process.mutex);
    if (d->users == 0) {
        ze_context_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
        r = s->ze.zeContextCreate(d->handle, &desc, &d->context);
    }
    if (r == ZE_RESULT_SUCCESS)
        d->users++;
    *out = d->context;
    pthread_mutex_unlock(&process.mutex);
    return r == ZE_RESULT_SUCCESS ? STATOR_OK : lz_calls_error(e, g->name, "zeContextCreate", r);
}

void lz_system_context_release(struct lz_system *s, const struct lz_gpu *g) {
    struct lz_driver *d = g->driver;
    pthread_mutex_lock(&process.mutex);
    CHECK(d->users > 0);
    if (--d->users == 0) {
        (void)s->ze.zeContextDestroy(d->context);
        d->context = NULL;
    }
    pthread_mutex_unlock(&process.mutex);
}

const char *lz_system_driver_version(const struct lz_driver *d, char out[24]) {
    snprintf(out, 24, "%u.%u.%u", d->version >> 24, d->version >> 16 & 0xff, d->version & 0xffff);
    return out;
}
