/* tools/zesim, the software Level Zero driver, through the real loader: what works, and what it refuses. */
#include "testing.h"

#if !__has_include(<level_zero/ze_api.h>)
static void without_headers(void **state) {
    (void)state;
    if (getenv("STATOR_TEST_REQUIRE") != NULL)
        fail_msg("libze-dev is missing");
    print_message("skipped: libze-dev is missing\n");
    skip();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(without_headers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
#include "zesim.h"

#include <float.h>
#include <math.h>

/* ---- what most cases begin with */
static struct {
    ze_driver_handle_t driver;
    ze_device_handle_t device[8];
    uint32_t n_devices;
    ze_context_handle_t context;
    ze_command_queue_handle_t queue;
    ze_command_list_handle_t immediate; /* synchronous, on device 0 */
} t;

static ze_command_list_handle_t new_immediate(uint32_t device, uint32_t ordinal,
                                              ze_command_queue_mode_t mode) {
    ze_command_queue_desc_t desc = {
        .stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC, .ordinal = ordinal, .mode = mode};
    ze_command_list_handle_t list;
    OK(ZE(zeCommandListCreateImmediate)(t.context, t.device[device], &desc, &list));
    return list;
}

static ze_command_queue_handle_t new_queue(uint32_t device) {
    ze_command_queue_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                    .mode = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS};
    ze_command_queue_handle_t queue;
    OK(ZE(zeCommandQueueCreate)(t.context, t.device[device], &desc, &queue));
    return queue;
}

static ze_command_list_handle_t new_list(uint32_t device) {
    ze_command_list_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC};
    ze_command_list_handle_t list;
    OK(ZE(zeCommandListCreate)(t.context, t.device[device], &desc, &list));
    return list;
}

static void begin(void) {
    ze_context_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    uint32_t one = 1;
    OK(ZE(zeInit)(0));
    OK(ZE(zeDriverGet)(&one, &t.driver));
    OK(ZE(zeDeviceGet)(t.driver, &t.n_devices, NULL));
    CHECK(t.n_devices <= 8);
    OK(ZE(zeDeviceGet)(t.driver, &t.n_devices, t.device));
    OK(ZE(zeContextCreate)(t.driver, &desc, &t.context));
    t.queue = new_queue(0);
    t.immediate = new_immediate(0, 0, ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS);
}

static ze_result_t try_device(uint32_t device, size_t size, void **p) {
    ze_device_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    return ZE(zeMemAllocDevice)(t.context, &desc, size, 64, t.device[device], p);
}

static void *on_device(uint32_t device, size_t size) {
    void *p;
    OK(try_device(device, size, &p));
    return p;
}

static void *on_host(size_t size) {
    ze_host_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    void *p;
    OK(ZE(zeMemAllocHost)(t.context, &desc, size, 64, &p));
    return p;
}

static ze_result_t copy(void *to, const void *from, size_t n) {
    return ZE(zeCommandListAppendMemoryCopy)(t.immediate, to, from, n, NULL, 0, NULL);
}

static ze_module_handle_t new_module(uint32_t device, const char *source) {
    size_t size;
    uint8_t *spirv = zesim_spirv(source, &size);
    ze_module_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_MODULE_DESC,
                             .format = ZE_MODULE_FORMAT_IL_SPIRV,
                             .inputSize = size,
                             .pInputModule = spirv};
    ze_module_handle_t module;
    OK(ZE(zeModuleCreate)(t.context, t.device[device], &desc, &module, NULL));
    free(spirv);
    return module;
}

static ze_kernel_handle_t new_kernel(ze_module_handle_t module, const char *name) {
    ze_kernel_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_KERNEL_DESC, .pKernelName = name};
    ze_kernel_handle_t kernel;
    OK(ZE(zeKernelCreate)(module, &desc, &kernel));
    return kernel;
}

static void set_pointer(ze_kernel_handle_t kernel, uint32_t i, const void *p) {
    OK(ZE(zeKernelSetArgumentValue)(kernel, i, sizeof p, &p));
}

static ze_event_handle_t new_event(ze_event_pool_flags_t flags) {
    ze_event_pool_desc_t pool_desc = {.stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC, .flags = flags, .count = 1};
    ze_event_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_EVENT_DESC};
    ze_event_pool_handle_t pool;
    ze_event_handle_t event;
    OK(ZE(zeEventPoolCreate)(t.context, &pool_desc, 0, NULL, &pool));
    OK(ZE(zeEventCreate)(pool, &desc, &event));
    return event;
}

/* ---- cases */
static const char add_source[] = "kernel void add(global const float *a, global const float *b, global float "
                                 "*c, float s, local float *l) {\n"
                                 "  int i = get_global_id(0), j = get_local_id(0);\n"
                                 "  l[j] = a[i];\n"
                                 "  barrier(CLK_LOCAL_MEM_FENCE);\n"
                                 "  c[i] = fma(l[get_local_size(0) - 1 - j], s, b[i]);\n"
                                 "}\n"
                                 "kernel void twice(global float *a) { a[get_global_id(0)] *= 2; }\n";

static void launch_in_list(void) {
    enum { N = 256, GROUP = 32 };
    begin();
    float *in = on_host(2 * N * sizeof(float)), *out = on_host(N * sizeof(float)), s = 0.1f;
    float *a = on_device(0, N * sizeof(float)), *b = on_device(0, N * sizeof(float)),
          *c = on_device(0, N * sizeof(float));
    for (int i = 0; i < 2 * N; i++)
        in[i] = (float)(i * 7919 % 1013) / 17;
    ze_module_handle_t module = new_module(0, add_source);
    ze_kernel_handle_t add = new_kernel(module, "add");
    OK(ZE(zeKernelSetGroupSize)(add, GROUP, 1, 1));
    set_pointer(add, 0, a);
    set_pointer(add, 1, b);
    set_pointer(add, 2, c);
    OK(ZE(zeKernelSetArgumentValue)(add, 3, sizeof s, &s));
    OK(ZE(zeKernelSetArgumentValue)(add, 4, GROUP * sizeof(float), NULL));
    ze_command_list_handle_t list = new_list(0);
    ze_event_handle_t done = new_event(ZE_EVENT_POOL_FLAG_HOST_VISIBLE | ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP);
    OK(ZE(zeCommandListAppendMemoryCopy)(list, a, in, N * sizeof(float), NULL, 0, NULL));
    OK(ZE(zeCommandListAppendMemoryCopy)(list, b, in + N, N * sizeof(float), NULL, 0, NULL));
    OK(ZE(zeCommandListAppendBarrier)(list, NULL, 0, NULL));
    OK(ZE(zeCommandListAppendLaunchKernel)(list, add, &(ze_group_count_t){N / GROUP, 1, 1}, done, 0, NULL));
    OK(ZE(zeCommandListAppendBarrier)(list, NULL, 0, NULL));
    OK(ZE(zeCommandListAppendMemoryCopy)(list, out, c, N * sizeof(float), NULL, 0, NULL));
    OK(ZE(zeCommandListClose)(list));
    /* The arguments were taken at append: changing them later changes nothing. */
    set_pointer(add, 2, a);
    for (int round = 0; round < 3; round++) {
        OK(ZE(zeCommandQueueExecuteCommandLists)(t.queue, 1, &list, NULL));
        OK(ZE(zeCommandQueueSynchronize)(t.queue, UINT64_MAX));
        OK(ZE(zeEventHostSynchronize)(done, 0));
        for (int i = 0; i < N; i++) {
            float from = in[i / GROUP * GROUP + GROUP - 1 - i % GROUP];
            CHECK(out[i] == fmaf(from, s, in[N + i]));
        }
        memset(out, 0, N * sizeof(float));
    }
    ze_kernel_timestamp_result_t times;
    OK(ZE(zeEventQueryKernelTimestamp)(done, &times));
    CHECK(times.global.kernelEnd != times.global.kernelStart);
    CHECK(zesim_counter("kernel.add.launches") == 3);
    CHECK(zesim_counter("copy.host>gpu0.bytes") == 3 * 2 * N * sizeof(float));
    CHECK(zesim_counter("copy.gpu0>host.count") == 3);
    CHECK(zesim_counter("alloc.device.gpu0.count") == 3 &&
          zesim_counter("alloc.device.gpu0.bytes") == 3 * N * sizeof(float));
    CHECK(zesim_counter("zeCommandListAppendMemoryCopy") == 3);
    CHECK(zesim_counter("violations") == 0);
}

static void launches(void **state) {
    (void)state;
    ZESIM_NEED();
    zesim_run("devices=1", launch_in_list);
    zesim_run("devices=1,order=reverse", launch_in_list);
    zesim_run("devices=1,order=shuffle,seed=7", launch_in_list);
}

static void touch_device_memory(void) {
    begin();
    volatile char *p = on_device(0, 4096);
    p[100] = 1;
}

static void copy_to_other_device(void) {
    begin();
    char *from = on_device(0, 4096), *to = on_device(1, 4096), *back = on_host(4096), *first = on_host(4096);
    for (int i = 0; i < 4096; i++)
        first[i] = (char)(i * 31);
    OK(copy(from, first, 4096));
    OK(copy(to, from, 4096));
    ze_command_list_handle_t other = new_immediate(1, 0, ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS);
    OK(ZE(zeCommandListAppendMemoryCopy)(other, back, to, 4096, NULL, 0, NULL));
    CHECK(memcmp(first, back, 4096) == 0);
    CHECK(zesim_counter("copy.gpu0>gpu1.bytes") == 4096);
}

static void protection(void **state) {
    (void)state;
    ZESIM_NEED();
    zesim_run_dies("devices=1", touch_device_memory, SIGSEGV, "the host may not touch device memory");
    zesim_run("devices=2", copy_to_other_device);
    zesim_run("devices=2,peer.1.0=none", copy_to_other_device);
    zesim_run_dies("devices=2,peer.0.1=none", copy_to_other_device, SIGSEGV, "no peer route");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launches),
        cmocka_unit_test(protection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
