/* Errors in tools/zesim, injected or caused by the caller: injected faults, bad peers, every refusal, wrong
 * configurations. */
#include "zesim.h"

#ifndef ZESIM_ABSENT

static const char kernel_source[] =
    "kernel void set(global uint *a, uint v) { a[get_global_id(0)] = v; }\n"
    "__attribute__((reqd_work_group_size(16, 1, 1))) kernel void fixed(global uint *a) { a[0] = 1; }\n"
    "kernel void slm(global uint *a, local uint *l) { l[get_local_id(0)] = 1; a[0] = l[0]; }\n";

/* ---- faults */
static void third_allocation(void) {
    void *p;
    begin();
    OK(try_device(0, 64, &p));
    OK(try_device(0, 64, &p));
    CHECK_RESULT(try_device(0, 64, &p), ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
    OK(try_device(0, 64, &p));
    CHECK(zesim_counter("faults") == 1);
}

static void from_the_second_on(void) {
    void *p;
    begin();
    OK(try_device(0, 64, &p));
    CHECK_RESULT(try_device(0, 64, &p), (ze_result_t)0x78000009);
    CHECK_RESULT(try_device(0, 64, &p), (ze_result_t)0x78000009);
}

static void after_the_mark(void) { /* zeMemAllocDevice@ready/2 */
    void *p;
    begin();
    for (int i = 0; i < 5; i++)
        OK(try_device(0, 64, &p));
    ((void (*)(const char *))zesim_own("zesim_mark"))("ready");
    OK(try_device(0, 64, &p));
    CHECK_RESULT(try_device(0, 64, &p), ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
}

/* The second execution of a list with a copy in it is lost: all waits say so, at once, and so does all that
 * follows. */
static void lost(void) {
    begin();
    char *p = on_device(0, 64), *h = on_host(64);
    void *more;
    ze_event_handle_t done = new_event(ZE_EVENT_POOL_FLAG_HOST_VISIBLE);
    ze_command_list_handle_t list = new_list(0);
    ze_fence_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_FENCE_DESC};
    ze_fence_handle_t fence;
    OK(ZE(zeFenceCreate)(t.queue, &desc, &fence));
    OK(ZE(zeCommandListAppendMemoryCopy)(list, p, h, 64, done, 0, NULL));
    OK(ZE(zeCommandListClose)(list));
    OK(ZE(zeCommandQueueExecuteCommandLists)(t.queue, 1, &list, NULL));
    OK(ZE(zeEventHostSynchronize)(done, UINT64_MAX));
    OK(ZE(zeCommandQueueSynchronize)(t.queue, UINT64_MAX));
    OK(ZE(zeEventHostReset)(done));
    OK(ZE(zeCommandQueueExecuteCommandLists)(t.queue, 1, &list, fence));
    CHECK_RESULT(ZE(zeCommandQueueSynchronize)(t.queue, UINT64_MAX), ZE_RESULT_ERROR_DEVICE_LOST);
    CHECK_RESULT(ZE(zeFenceHostSynchronize)(fence, UINT64_MAX), ZE_RESULT_ERROR_DEVICE_LOST);
    CHECK_RESULT(ZE(zeEventHostSynchronize)(done, UINT64_MAX), ZE_RESULT_ERROR_DEVICE_LOST);
    CHECK_RESULT(ZE(zeContextGetStatus)(t.context), ZE_RESULT_ERROR_DEVICE_LOST);
    CHECK_RESULT(ZE(zeDeviceGetStatus)(t.device[0]), ZE_RESULT_ERROR_DEVICE_LOST);
    CHECK_RESULT(ZE(zeCommandQueueExecuteCommandLists)(t.queue, 1, &list, NULL), ZE_RESULT_ERROR_DEVICE_LOST);
    CHECK_RESULT(copy(p, h, 64), ZE_RESULT_ERROR_DEVICE_LOST);
    OK(try_device(0, 64, &more));
    OK(ZE(zeCommandListDestroy)(list));
    OK(ZE(zeCommandQueueDestroy)(t.queue));
    CHECK(zesim_counter("violations") == 0);
}

static void hangs(void) {
    begin();
    char *p = on_device(0, 64), *h = on_host(64);
    ze_command_list_handle_t list = new_list(0);
    OK(ZE(zeCommandListAppendMemoryCopy)(list, p, h, 64, NULL, 0, NULL));
    OK(ZE(zeCommandListClose)(list));
    OK(ZE(zeCommandQueueExecuteCommandLists)(t.queue, 1, &list, NULL));
    CHECK_RESULT(ZE(zeCommandQueueSynchronize)(t.queue, 20000000), ZE_RESULT_NOT_READY);
    CHECK_RESULT(ZE(zeCommandQueueSynchronize)(t.queue, 0), ZE_RESULT_NOT_READY);
    OK(copy(p, h, 64)); /* another queue still works */
}

static void marks(void) {
    begin();
    on_device(0, 64);
    on_device(0, 64);
    on_device(0, 64);
    uint64_t (*since)(const char *, const char *) =
        (uint64_t(*)(const char *, const char *))zesim_own("zesim_count_since");
    CHECK(since("second", "alloc.device.gpu0.count") == 2);
}

static void faults(void **state) {
    (void)state;
    ZESIM_NEED();
    zesim_run("fault=zeMemAllocDevice@3:ERROR_OUT_OF_DEVICE_MEMORY", third_allocation);
    zesim_run("fault=zeMemAllocDevice@2+:0x78000009", from_the_second_on);
    zesim_run("fault=zeMemAllocDevice@ready/2:ERROR_OUT_OF_DEVICE_MEMORY", after_the_mark);
    zesim_run("fault=exec.copy@2:lost", lost);
    zesim_run("fault=zeCommandQueueExecuteCommandLists@2:lost", lost);
    zesim_run("fault=exec.copy@1:hang", hangs);
    zesim_run("fault=zeCommandQueueExecuteCommandLists@1:hang", hangs);
    zesim_run("fault=zeMemAllocDevice@2:mark:second", marks);
}

/* ---- peers */
static ze_bool_t can(uint32_t from, uint32_t to) {
    ze_bool_t yes = 2;
    ze_device_p2p_properties_t p = {.stype = ZE_STRUCTURE_TYPE_DEVICE_P2P_PROPERTIES};
    OK(ZE(zeDeviceCanAccessPeer)(t.device[from], t.device[to], &yes));
    OK(ZE(zeDeviceGetP2PProperties)(t.device[from], t.device[to], &p));
    CHECK(yes == ((p.flags & ZE_DEVICE_P2P_PROPERTY_FLAG_ACCESS) != 0));
    return yes;
}

static void matrix_case(void) { /* devices=3,peer=none,peer.0.1=ok,peer.2.0=corrupt */
    begin();
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t j = 0; j < 3; j++)
            CHECK(can(i, j) == (i == j || (i == 0 && j == 1) || (i == 2 && j == 0)));
}

/* Device 0 pushes n bytes to device 1, which returns them; how many differ? -1: the device was lost. */
static int push(size_t n) {
    char *a = on_device(0, n), *b = on_device(1, n), *in = on_host(n), *out = on_host(n);
    int wrong = 0;
    for (size_t i = 0; i < n; i++)
        in[i] = (char)(i * 13 + n);
    ze_command_list_handle_t second = new_immediate(1, 0, ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS);
    OK(copy(a, in, n));
    if (copy(b, a, n) != ZE_RESULT_SUCCESS)
        return -1;
    OK(ZE(zeCommandListAppendMemoryCopy)(second, out, b, n, NULL, 0, NULL));
    for (size_t i = 0; i < n; i++)
        wrong += in[i] != out[i];
    return wrong;
}

static void corrupt_case(void) {
    begin();
    CHECK(can(0, 1) && push(1000) == 1 && push(1) == 1);
}
static void corrupt_large_case(void) {
    begin();
    CHECK(push(4095) == 0 && push(4096) == 1);
}
static void fail_case(void) {
    begin();
    CHECK(push(4095) == 0 && push(4096) == -1);
}
static void slow_case(void) {
    uint64_t host[2], device;
    begin();
    OK(ZE(zeDeviceGetGlobalTimestamps)(t.device[0], &host[0], &device));
    CHECK(push(100000) == 0);
    OK(ZE(zeDeviceGetGlobalTimestamps)(t.device[0], &host[1], &device));
    CHECK(host[1] - host[0] >= 100000000);
}
static void push_only_case(void) {
    begin();
    CHECK(push(1000) == 0);
    char *a = on_device(0, 64), *b = on_device(1, 64);
    CHECK_RESULT(copy(a, b, 64), ZE_RESULT_ERROR_DEVICE_LOST); /* device 0 reads */
}
static void kernel_to_peer(void) {
    begin();
    uint32_t *p = on_device(1, 256), v = 9;
    ze_kernel_handle_t k = new_kernel(new_module(0, kernel_source), "set");
    OK(ZE(zeKernelSetArgumentValue)(k, 1, sizeof v, &v));
    CHECK_RESULT(LAUNCH(k, 1, 64, p),
                 getenv("ZESIM")[9] == '\0' ? ZE_RESULT_SUCCESS : ZE_RESULT_ERROR_INVALID_ARGUMENT);
}

static void peers(void **state) {
    (void)state;
    ZESIM_NEED();
    zesim_run("devices=3,peer=none,peer.0.1=ok,peer.2.0=corrupt", matrix_case);
    zesim_run("devices=2,peer.0.1=corrupt", corrupt_case);
    zesim_run("devices=2,peer.0.1=corrupt:4KiB", corrupt_large_case);
    zesim_run("devices=2,peer.0.1=fail:4096", fail_case);
    zesim_run("devices=2,peer=slow:1MB", slow_case);
    zesim_run("devices=2,peer=push", push_only_case);
    zesim_run("devices=2", kernel_to_peer);
    zesim_run_says("devices=2,peer=none", kernel_to_peer, "without a peer route");
}

/* ---- refusals: each case makes one mistake (or more), and the line that says so is expected */
static void twice_destroyed(void) {
    begin();
    ze_command_list_handle_t l = new_list(0);
    OK(ZE(zeCommandListDestroy)(l));
    CHECK_RESULT(ZE(zeCommandListDestroy)(l), ZE_RESULT_ERROR_INVALID_ARGUMENT);
}
static void wrong_kind(void) {
    begin();
    CHECK_RESULT(ZE(zeFenceReset)((ze_fence_handle_t)t.queue), ZE_RESULT_ERROR_INVALID_ARGUMENT);
}
static void wild_handle(void) {
    begin();
    CHECK_RESULT(ZE(zeFenceReset)((ze_fence_handle_t)(uintptr_t)0x12345670),
                 ZE_RESULT_ERROR_INVALID_ARGUMENT);
}
static void twice_freed(void) {
    begin();
    void *p = on_device(0, 64);
    OK(ZE(zeMemFree)(t.context, p));
    CHECK_RESULT(ZE(zeMemFree)(t.context, p), ZE_RESULT_ERROR_INVALID_ARGUMENT);
}
static void inner_freed(void) {
    begin();
    CHECK_RESULT(ZE(zeMemFree)(t.context, (char *)on_host(64) + 1), ZE_RESULT_ERROR_INVALID_ARGUMENT);
}
static void copy_too_long(void) {
    begin();
    char *p = on_device(0, 100), *h = on_host(200);
    OK(copy(p, h, 100));
    OK(copy(p + 50, h, 50));
    CHECK_RESULT(copy(p + 50, h, 51), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    CHECK_RESULT(copy(h, p, 101), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    CHECK_RESULT(copy(h, p - 1, 2), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    CHECK_RESULT(copy(h, p, SIZE_MAX), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    CHECK_RESULT(copy(h, p, SIZE_MAX - (uintptr_t)p + 2), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    CHECK(zesim_counter("violations") == 5);
}
static void copy_from_freed(void) {
    begin();
    char *p = on_device(0, 100), *h = on_host(200);
    OK(ZE(zeMemFree)(t.context, p));
    CHECK_RESULT(copy(h, p, 10), ZE_RESULT_ERROR_INVALID_ARGUMENT);
}
static void freed_before_execution(void) {
    begin();
    char *p = on_device(0, 100), *h = on_host(200);
    ze_command_list_handle_t l = new_list(0);
    OK(ZE(zeCommandListAppendMemoryCopy)(l, p, h, 100, NULL, 0, NULL));
    OK(ZE(zeCommandListClose)(l));
    OK(ZE(zeMemFree)(t.context, p));
    OK(ZE(zeCommandQueueExecuteCommandLists)(t.queue, 1, &l, NULL));
    CHECK_RESULT(ZE(zeCommandQueueSynchronize)(t.queue, UINT64_MAX), ZE_RESULT_ERROR_DEVICE_LOST);
}
static void append_after_close(void) {
    begin();
    ze_command_list_handle_t l = new_list(0);
    OK(ZE(zeCommandListClose)(l));
    CHECK_RESULT(ZE(zeCommandListAppendBarrier)(l, NULL, 0, NULL), ZE_RESULT_ERROR_INVALID_ARGUMENT);
}
static void execute_open(void) {
    begin();
    ze_command_list_handle_t l = new_list(0);
    CHECK_RESULT(ZE(zeCommandQueueExecuteCommandLists)(t.queue, 1, &l, NULL),
                 ZE_RESULT_ERROR_INVALID_ARGUMENT);
}
static void execute_elsewhere(void) {
    begin();
    ze_command_list_handle_t l = new_list(1);
    OK(ZE(zeCommandListClose)(l));
    CHECK_RESULT(ZE(zeCommandQueueExecuteCommandLists)(t.queue, 1, &l, NULL),
                 ZE_RESULT_ERROR_INVALID_ARGUMENT);
}
/* A list that waits for `go`, executed. */
static ze_command_list_handle_t in_flight(ze_event_handle_t go, void *target, ze_fence_handle_t fence) {
    ze_command_list_handle_t l = new_list(0);
    OK(ZE(zeCommandListAppendMemoryFill)(l, target, "", 1, 16, NULL, 1, &go));
    OK(ZE(zeCommandListClose)(l));
    OK(ZE(zeCommandQueueExecuteCommandLists)(t.queue, 1, &l, fence));
    return l;
}
static void misuse_in_flight(void) {
    begin();
    char *p = on_device(0, 100);
    ze_event_handle_t go = new_event(ZE_EVENT_POOL_FLAG_HOST_VISIBLE);
    ze_fence_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_FENCE_DESC};
    ze_fence_handle_t fence;
    OK(ZE(zeFenceCreate)(t.queue, &desc, &fence));
    ze_command_list_handle_t l = in_flight(go, p, fence);
    CHECK_RESULT(ZE(zeCommandQueueExecuteCommandLists)(t.queue, 1, &l, NULL),
                 ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE);
    CHECK_RESULT(ZE(zeCommandListReset)(l), ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE);
    CHECK_RESULT(ZE(zeCommandListDestroy)(l), ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE);
    CHECK_RESULT(ZE(zeFenceReset)(fence), ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE);
    CHECK_RESULT(ZE(zeEventDestroy)(go), ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE);
    CHECK_RESULT(ZE(zeMemFree)(t.context, p), ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE);
    CHECK(zesim_counter("violations") == 6);
    OK(ZE(zeEventHostSignal)(go));
    OK(ZE(zeCommandQueueSynchronize)(t.queue, UINT64_MAX));
    OK(ZE(zeMemFree)(t.context, p));
    OK(ZE(zeEventDestroy)(go));
    OK(ZE(zeFenceReset)(fence));
    OK(ZE(zeCommandListDestroy)(l));
    CHECK(zesim_counter("violations") == 6);
}
static void event_of_closed_list(void) {
    begin();
    ze_event_handle_t e = new_event(0);
    ze_command_list_handle_t l = new_list(0);
    OK(ZE(zeCommandListAppendSignalEvent)(l, e));
    OK(ZE(zeCommandListClose)(l));
    OK(ZE(zeEventDestroy)(e));
    OK(ZE(zeCommandQueueExecuteCommandLists)(t.queue, 1, &l, NULL));
    CHECK_RESULT(ZE(zeCommandQueueSynchronize)(t.queue, UINT64_MAX), ZE_RESULT_ERROR_DEVICE_LOST);
}
static void invisible_event(void) {
    begin();
    CHECK_RESULT(ZE(zeEventQueryStatus)(new_event(0)), ZE_RESULT_ERROR_INVALID_ARGUMENT);
}
static void no_timestamps(void) {
    ze_kernel_timestamp_result_t r;
    begin();
    CHECK_RESULT(ZE(zeEventQueryKernelTimestamp)(new_event(ZE_EVENT_POOL_FLAG_HOST_VISIBLE), &r),
                 ZE_RESULT_ERROR_INVALID_ARGUMENT);
}
static void argument_unset(void) {
    begin();
    CHECK_RESULT(LAUNCH(new_kernel(new_module(0, kernel_source), "set"), 1, 8, on_host(64)),
                 ZE_RESULT_ERROR_INVALID_ARGUMENT);
}
static void argument_sizes(void) {
    uint64_t v = 0;
    begin();
    ze_kernel_handle_t k = new_kernel(new_module(0, kernel_source), "set");
    CHECK_RESULT(ZE(zeKernelSetArgumentValue)(k, 1, sizeof v, &v),
                 ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_SIZE);
    CHECK_RESULT(ZE(zeKernelSetArgumentValue)(k, 0, 4, &v), ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_SIZE);
    CHECK_RESULT(ZE(zeKernelSetArgumentValue)(k, 2, 4, &v), ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_INDEX);
}
static void argument_wild(void) {
    static uint32_t plain[64];
    const void *p = plain;
    begin();
    ze_kernel_handle_t k = new_kernel(new_module(0, kernel_source), "set");
    CHECK_RESULT(ZE(zeKernelSetArgumentValue)(k, 0, sizeof p, &p), ZE_RESULT_ERROR_INVALID_ARGUMENT);
}
static void group_sizes(void) {
    begin();
    ze_module_handle_t m = new_module(0, kernel_source);
    ze_kernel_handle_t k = new_kernel(m, "fixed");
    CHECK_RESULT(ZE(zeKernelSetGroupSize)(k, 8, 2, 1), ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION);
    CHECK_RESULT(ZE(zeKernelSetGroupSize)(new_kernel(m, "set"), 2048, 1, 1),
                 ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION);
    CHECK_RESULT(ZE(zeKernelSetGroupSize)(new_kernel(m, "set"), 1, 0, 1),
                 ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION);
}
static void no_group_size(void) {
    uint32_t v = 0;
    begin();
    ze_kernel_handle_t k = new_kernel(new_module(0, kernel_source), "set");
    set_pointer(k, 0, on_host(64));
    OK(ZE(zeKernelSetArgumentValue)(k, 1, 4, &v));
    OK(ZE(zeCommandListAppendLaunchKernel)(t.immediate, k, &(ze_group_count_t){1, 1, 1}, NULL, 0,
                                           NULL)); /* as Intel's driver: 1 x 1 x 1 */
}
static void too_much_local(void) {
    begin();
    ze_kernel_handle_t k = new_kernel(new_module(0, kernel_source), "slm");
    OK(ZE(zeKernelSetArgumentValue)(k, 1, 65537, NULL));
    CHECK_RESULT(LAUNCH(k, 1, 8, on_host(64)), ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
}
static void kernel_on_copy_engine(void) {
    begin();
    ze_kernel_handle_t k = new_kernel(new_module(0, kernel_source), "fixed");
    set_pointer(k, 0, on_host(64));
    CHECK_RESULT(ZE(zeCommandListAppendLaunchKernel)(new_immediate(0, 1, ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS),
                                                     k, &(ze_group_count_t){1, 1, 1}, NULL, 0, NULL),
                 ZE_RESULT_ERROR_INVALID_ARGUMENT);
}
static void large_buffer(void) {
    void *p;
    ze_relaxed_allocation_limits_exp_desc_t relaxed = {
        .stype = ZE_STRUCTURE_TYPE_RELAXED_ALLOCATION_LIMITS_EXP_DESC,
        .flags = ZE_RELAXED_ALLOCATION_LIMITS_EXP_FLAG_MAX_SIZE};
    ze_device_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC, .pNext = &relaxed};
    begin();
    OK(ZE(zeMemAllocDevice)(t.context, &desc, (size_t)5 << 30, 0, t.device[0], &p));
    CHECK_RESULT(LAUNCH(new_kernel(new_module(0, kernel_source), "fixed"), 1, 16, p),
                 ZE_RESULT_ERROR_INVALID_ARGUMENT);
}
static void sub_group_size(void) { /* sub_groups=16/32 */
    size_t size;
    begin();
    uint8_t *spirv =
        zesim_spirv("__attribute__((intel_reqd_sub_group_size(8))) kernel void k(void) {}\n", &size);
    ze_module_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_MODULE_DESC,
                             .format = ZE_MODULE_FORMAT_IL_SPIRV,
                             .inputSize = size,
                             .pInputModule = spirv};
    ze_module_handle_t m;
    CHECK_RESULT(ZE(zeModuleCreate)(t.context, t.device[0], &desc, &m, NULL),
                 ZE_RESULT_ERROR_MODULE_BUILD_FAILURE);
    free(spirv);
}
static void module_with_kernels(void) {
    begin();
    ze_module_handle_t m = new_module(0, kernel_source);
    ze_kernel_handle_t k = new_kernel(m, "set");
    OK(ZE(zeModuleDestroy)(m)); /* as Intel's driver does; the line is counted all the same */
    OK(ZE(zeKernelDestroy)(k));
    CHECK_RESULT(ZE(zeModuleDestroy)(m), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    CHECK_RESULT(ZE(zeKernelSetGroupSize)(k, 1, 1, 1), ZE_RESULT_ERROR_INVALID_ARGUMENT);
}
static void kernel_gone(void) {
    begin();
    ze_kernel_handle_t k = new_kernel(new_module(0, kernel_source), "fixed");
    ze_command_list_handle_t l = new_list(0);
    set_pointer(k, 0, on_host(64));
    OK(ZE(zeCommandListAppendLaunchKernel)(l, k, &(ze_group_count_t){1, 1, 1}, NULL, 0, NULL));
    OK(ZE(zeCommandListClose)(l));
    OK(ZE(zeKernelDestroy)(k));
    OK(ZE(zeCommandQueueExecuteCommandLists)(t.queue, 1, &l, NULL));
    CHECK_RESULT(ZE(zeCommandQueueSynchronize)(t.queue, UINT64_MAX), ZE_RESULT_ERROR_DEVICE_LOST);
}
static void no_such_queue(void) {
    begin();
    ze_command_queue_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC, .ordinal = 0, .index = 1};
    ze_command_queue_handle_t q;
    CHECK_RESULT(ZE(zeCommandQueueCreate)(t.context, t.device[0], &desc, &q),
                 ZE_RESULT_ERROR_INVALID_ARGUMENT);
}
static void pool_slot_taken(void) {
    begin();
    ze_event_pool_desc_t pool_desc = {.stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC, .count = 2};
    ze_event_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_EVENT_DESC, .index = 1};
    ze_event_pool_handle_t pool;
    ze_event_handle_t e;
    OK(ZE(zeEventPoolCreate)(t.context, &pool_desc, 0, NULL, &pool));
    OK(ZE(zeEventCreate)(pool, &desc, &e));
    CHECK_RESULT(ZE(zeEventCreate)(pool, &desc, &e), ZE_RESULT_ERROR_INVALID_ARGUMENT);
    desc.index = 2;
    CHECK_RESULT(ZE(zeEventCreate)(pool, &desc, &e), ZE_RESULT_ERROR_INVALID_ARGUMENT);
}
static void bad_residency(void) {
    begin();
    CHECK_RESULT(ZE(zeContextMakeMemoryResident)(t.context, t.device[0], on_device(0, 100), 101),
                 ZE_RESULT_ERROR_INVALID_ARGUMENT);
}

static void refusals(void **state) {
    (void)state;
    ZESIM_NEED();
    static const struct {
        void (*f)(void);
        const char *config, *says;
    } cases[] = {
        {twice_destroyed, "", "command list 2 is used after it was destroyed"},
        {wrong_kind, "", "command queue 1 is given where a fence belongs"},
        {wild_handle, "", "is no handle of this driver"},
        {twice_freed, "", "for the second time"},
        {inner_freed, "", "not the start of an allocation"},
        {copy_too_long, "", "runs out of allocation"},
        {copy_from_freed, "", "which was freed"},
        {freed_before_execution, "", "which was freed"},
        {append_after_close, "", "append to command list 2, which is closed"},
        {execute_open, "", "which is not closed"},
        {execute_elsewhere, "devices=2", "which belongs to another device"},
        {misuse_in_flight, "", "which is still in flight"},
        {event_of_closed_list, "", "signals or resets event 1, which was destroyed"},
        {invisible_event, "", "not host-visible"},
        {no_timestamps, "", "without ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP"},
        {argument_unset, "", "kernel set: argument 1 is not set"},
        {argument_sizes, "", "argument 1 is given 8 bytes, it has 4"},
        {argument_wild, "", "points to no live allocation"},
        {group_sizes, "", "requires groups of 16 x 1 x 1"},
        {no_group_size, "", "has no group size"},
        {too_much_local, "", "bytes of local memory"},
        {kernel_on_copy_engine, "", "launched on a copy engine"},
        {large_buffer, "", "-ze-opt-greater-than-4GB-buffer-required"},
        {sub_group_size, "sub_groups=16/32", "sub-group size of 8"},
        {module_with_kernels, "", "destroyed while 1 of its kernels live"},
        {kernel_gone, "", "executes kernel fixed, which was destroyed"},
        {no_such_queue, "", "a queue of ordinal 0, index 1 does not exist"},
        {pool_slot_taken, "", "index 1 already has a live event"},
        {bad_residency, "", "no live allocation of the context has them"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        zesim_run_says(cases[i].config, cases[i].f, cases[i].says);
    zesim_run_dies("strict=abort", append_after_close, SIGABRT, "append to command list 2, which is closed");
}

/* ---- configurations */
static void configurations(void **state) {
    (void)state;
    ZESIM_NEED();
    static const char *const wrong[][2] = {
        {"devices", "expected key=value"},
        {"devices=65", "at most 64 devices"},
        {"devices=two", "a whole number is expected"},
        {"memory=16XB", "unknown unit"},
        {"memory=99999999999999999999", "a whole number is expected"},
        {"memory=18446744073709551615GiB", "too large"},
        {"memory=1", "out of range"},
        {"colour=red", "unknown key"},
        {"gpu1.memory=1GiB", "no such device"},
        {"gpu0.colour=red", "unknown key of a device"},
        {"gpu0.pci=3:0", "a PCI address"},
        {"sub_groups=8,sub_groups=8/x", "sub-group sizes such as"},
        {"strict=maybe", "expected error or abort"},
        {"order=random", "expected forward, reverse or shuffle"},
        {"peer=maybe", "expected none, ok, push"},
        {"peer=slow", "slow needs bytes per second"},
        {"peer.0.1=ok", "no such device"},
        {"peer.0=ok", "expected peer=.. or peer.A.B=.."},
        {"taken_later=1GiB", "SIZE@N is expected"},
        {"fault=zeMemAllocDevice", "expected fault=ENTRY@N:ACTION"},
        {"fault=zeMemAlloc@1:0x1", "no such entry point"},
        {"fault=zeMemAllocDevice@0:0x1", "expected a count"},
        {"fault=zeMemAllocDevice@1:lost", "lost and hang belong to"},
        {"fault=zeMemAllocDevice@1:NONSENSE", "expected lost, hang"},
        {"fault=exec.copy@1:0x1", "an executing command returns nothing"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        zesim_run_dies(wrong[i][0], begin, 0, wrong[i][1]);
}

static void file_case(void) {
    begin();
    ze_device_properties_t p = {.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES};
    CHECK(t.n_devices == 3);
    OK(ZE(zeDeviceGetProperties)(t.device[2], &p));
    CHECK(strcmp(p.name, "Arc, of a file") == 0 && p.maxMemAllocSize == 1 << 30);
}

static void configuration_file(void **state) {
    (void)state;
    ZESIM_NEED();
    char path[] = "/tmp/stator-test-zesim-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    static const char text[] = "# three devices\n  devices = 3\ngpu2.name=Arc, of a file\n\nmax_alloc=2GiB\n";
    assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    close(fd);
    setenv("ZESIM_CONFIG", path, 1);
    zesim_run("gpu2.max_alloc=1GiB", file_case);
    setenv("ZESIM_CONFIG", "/nowhere", 1);
    zesim_run_dies("", begin, 0, "can't open ZESIM_CONFIG=/nowhere");
    unsetenv("ZESIM_CONFIG");
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults),
        cmocka_unit_test(peers),
        cmocka_unit_test(refusals),
        cmocka_unit_test(configurations),
        cmocka_unit_test(configuration_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
