/* Running launches (device/launch/launch.h) in tests on the first Level Zero device, through the real
 * loader: the software driver (tools/zesim) unless STATOR_TEST_DRIVER names another. Every call must
 * succeed. Modules are built when a launch first names them and kept. */
#ifndef STATOR_TESTS_ZE_RUNNER_H
#define STATOR_TESTS_ZE_RUNNER_H

#include "testing.h"

#include "device/launch/launch.h"
#include "device/launch/launch_modules.h"
#include "kernels/shared/opencl.h"

#if __has_include(<level_zero/ze_api.h>)
#include <dlfcn.h>
#include <level_zero/ze_api.h>

#define ZE_RUNNER_MAX 640

/* The loader opens drivers with RTLD_DEEPBIND, which the sanitizers refuse; this binary's own dlopen leaves
 * it out. */
void *dlopen(const char *path, int flags) {
    static void *(*real)(const char *, int);
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "dlopen");
    return real(path, flags & ~RTLD_DEEPBIND);
}

struct ze_runner {
    void *loader;
    ze_context_handle_t context;
    ze_device_handle_t device;
    ze_command_queue_handle_t queue;
    ze_command_list_handle_t list;
    ze_module_handle_t modules[ZE_RUNNER_MAX]; /* by opencl_modules */
    ze_kernel_handle_t kernels[ZE_RUNNER_MAX]; /* by launch_kernels */
    void *slices[DEVICE_ARENAS][GRAPH_MAX_SLICES];
    void *staging;
    size_t staging_bytes;
};

static inline void *ze_runner_symbol(const struct ze_runner *r, const char *name) {
    void *p = dlsym(r->loader, name);
    if (p == NULL)
        fail_msg("libze_loader has no %s", name);
    return p;
}

/* Calls an entry of the loader; anything but success fails the test. */
#define ZE_RUN(r, name, ...)                                                                                 \
    do {                                                                                                     \
        ze_result_t result_ = ((__typeof__(&name))ze_runner_symbol(r, #name))(__VA_ARGS__);                  \
        if (result_ != ZE_RESULT_SUCCESS)                                                                    \
            fail_msg(#name " = 0x%x", (unsigned)result_);                                                    \
    } while (0)

/* False: no loader or no driver here; says so. */
static inline bool ze_runner_open(struct ze_runner *r) {
    memset(r, 0, sizeof *r);
    const char *library =
        getenv("STATOR_TEST_DRIVER") != NULL ? getenv("STATOR_TEST_DRIVER") : "build/libzesim.so";
    if (access(library, R_OK) != 0) {
        print_message("skipped: no software driver (%s)\n", library);
        return false;
    }
    setenv("ZE_ENABLE_ALT_DRIVERS", library, 1);
    setenv("ZE_ENABLE_VALIDATION_LAYER", "1", 0);
    setenv("ZE_ENABLE_PARAMETER_VALIDATION", "1", 0);
    r->loader = dlopen("libze_loader.so.1", RTLD_NOW);
    if (r->loader == NULL) {
        print_message("skipped: no libze_loader.so.1\n");
        return false;
    }
    ZE_RUN(r, zeInit, 0);
    uint32_t n = 0;
    ZE_RUN(r, zeDriverGet, &n, NULL);
    assert_true(n > 0);
    ze_driver_handle_t driver;
    n = 1;
    ZE_RUN(r, zeDriverGet, &n, &driver);
    n = 0;
    ZE_RUN(r, zeDeviceGet, driver, &n, NULL);
    ze_device_handle_t devices[64];
    assert_true(n > 0 && n <= 64);
    ZE_RUN(r, zeDeviceGet, driver, &n, devices);
    r->device = devices[0];
    ze_context_desc_t context = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    ZE_RUN(r, zeContextCreate, driver, &context, &r->context);
    ze_command_queue_desc_t queue = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                     .mode = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS};
    ZE_RUN(r, zeCommandQueueCreate, r->context, r->device, &queue, &r->queue);
    ze_command_list_desc_t list = {.stype = ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC};
    ZE_RUN(r, zeCommandListCreate, r->context, r->device, &list, &r->list);
    r->staging_bytes = 1 << 20;
    ze_host_mem_alloc_desc_t host = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    ZE_RUN(r, zeMemAllocHost, r->context, &host, r->staging_bytes, 4096, &r->staging);
    return true;
}

static inline void ze_runner_execute(struct ze_runner *r) {
    ZE_RUN(r, zeCommandListClose, r->list);
    ZE_RUN(r, zeCommandQueueExecuteCommandLists, r->queue, 1, &r->list, NULL);
    ZE_RUN(r, zeCommandQueueSynchronize, r->queue, UINT64_MAX);
    ZE_RUN(r, zeCommandListReset, r->list);
}

/* Between host memory and device memory, through staging. */
static inline void ze_runner_copy(struct ze_runner *r, void *device, void *host, size_t bytes,
                                  bool to_device) {
    for (size_t at = 0; at < bytes; at += r->staging_bytes) {
        size_t n = bytes - at < r->staging_bytes ? bytes - at : r->staging_bytes;
        uint8_t *there = (uint8_t *)device + at;
        if (to_device)
            memcpy(r->staging, (uint8_t *)host + at, n);
        ZE_RUN(r, zeCommandListAppendMemoryCopy, r->list, to_device ? there : r->staging,
               to_device ? r->staging : there, n, NULL, 0, NULL);
        ze_runner_execute(r);
        if (!to_device)
            memcpy((uint8_t *)host + at, r->staging, n);
    }
}

/* A slice with these contents. */
static inline void ze_runner_slice(struct ze_runner *r, enum device_arena a, uint32_t slice, void *host,
                                   size_t bytes) {
    ze_device_mem_alloc_desc_t d = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    ZE_RUN(r, zeMemAllocDevice, r->context, &d, bytes, 64, r->device, &r->slices[a][slice]);
    ze_runner_copy(r, r->slices[a][slice], host, bytes, true);
}

static inline void ze_runner_free_slices(struct ze_runner *r) {
    for (int a = 0; a < DEVICE_ARENAS; a++) {
        for (int s = 0; s < GRAPH_MAX_SLICES; s++) {
            if (r->slices[a][s] != NULL)
                ZE_RUN(r, zeMemFree, r->context, r->slices[a][s]);
            r->slices[a][s] = NULL;
        }
    }
}

static inline ze_module_handle_t ze_runner_module(struct ze_runner *r, const char *name) {
    const uint32_t i = launch_modules_find(name);
    if (i == opencl_n_modules)
        fail_msg("no module %s in the binary", name);
    assert_true(i < ZE_RUNNER_MAX);
    if (r->modules[i] != NULL)
        return r->modules[i];
    const size_t room_bytes = (launch_modules_room() + 63) / 64 * 64;
    void *room = aligned_alloc(64, room_bytes);
    assert_non_null(room);
    ze_module_desc_t d = {.stype = ZE_STRUCTURE_TYPE_MODULE_DESC,
                          .format = ZE_MODULE_FORMAT_IL_SPIRV,
                          .inputSize = opencl_modules[i].bytes,
                          .pInputModule = (const uint8_t *)launch_modules_inflate(&opencl_modules[i], room)};
    ze_module_build_log_handle_t log = NULL;
    ze_result_t result = ((__typeof__(&zeModuleCreate))ze_runner_symbol(r, "zeModuleCreate"))(
        r->context, r->device, &d, &r->modules[i], &log);
    free(room);
    if (result != ZE_RESULT_SUCCESS)
        fail_msg("module %s: 0x%x", name, (unsigned)result);
    return r->modules[i];
}

static inline ze_kernel_handle_t ze_runner_kernel(struct ze_runner *r, uint32_t kernel) {
    assert_true(kernel < launch_n_kernels && launch_n_kernels <= ZE_RUNNER_MAX);
    if (r->kernels[kernel] != NULL)
        return r->kernels[kernel];
    ze_kernel_desc_t d = {.stype = ZE_STRUCTURE_TYPE_KERNEL_DESC, .pKernelName = launch_kernels[kernel].name};
    ze_module_handle_t module = ze_runner_module(r, launch_kernels[kernel].module->name);
    ze_result_t result =
        ((__typeof__(&zeKernelCreate))ze_runner_symbol(r, "zeKernelCreate"))(module, &d, &r->kernels[kernel]);
    if (result != ZE_RESULT_SUCCESS)
        fail_msg("kernel %s: 0x%x", d.pKernelName, (unsigned)result);
    ze_kernel_properties_t p = {.stype = ZE_STRUCTURE_TYPE_KERNEL_PROPERTIES};
    ZE_RUN(r, zeKernelGetProperties, r->kernels[kernel], &p);
    return r->kernels[kernel];
}

static inline void ze_runner_append(struct ze_runner *r, const struct launch *l) {
    ze_kernel_handle_t k = ze_runner_kernel(r, l->kernel);
    ze_kernel_properties_t p = {.stype = ZE_STRUCTURE_TYPE_KERNEL_PROPERTIES};
    ZE_RUN(r, zeKernelGetProperties, k, &p);
    if (p.numKernelArgs != l->n_args)
        fail_msg("%s takes %u arguments, the launch has %u", launch_kernels[l->kernel].name, p.numKernelArgs,
                 l->n_args);
    ZE_RUN(r, zeKernelSetGroupSize, k, l->group, 1, 1);
    for (uint32_t i = 0; i < l->n_args; i++) {
        const struct launch_arg *a = &l->args[i];
        if (a->kind == LAUNCH_BUFFER) {
            uint8_t *slice = r->slices[a->buffer.arena][a->buffer.slice];
            assert_non_null(slice);
            void *p_arg = slice + a->buffer.offset;
            ZE_RUN(r, zeKernelSetArgumentValue, k, i, sizeof p_arg, &p_arg);
        } else if (a->kind == LAUNCH_LOCAL) {
            ZE_RUN(r, zeKernelSetArgumentValue, k, i, a->u32, NULL);
        } else {
            ZE_RUN(r, zeKernelSetArgumentValue, k, i, 4, &a->u32);
        }
    }
    ze_group_count_t groups = {l->groups, 1, 1};
    ZE_RUN(r, zeCommandListAppendLaunchKernel, r->list, k, &groups, NULL, 0, NULL);
    ZE_RUN(r, zeCommandListAppendBarrier, r->list, NULL, 0, NULL);
}

#endif
#endif
