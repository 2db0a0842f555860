/* tools/zesim, the software Level Zero driver, through the real loader: execution, memory, events, the log.
 */
#include "zesim.h"

#ifndef ZESIM_ABSENT
#include <math.h>

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

static void use_freed_memory(void) {
    begin();
    uint32_t *r = on_device(0, 256), *cell = on_host(8);
    memcpy(cell, &r, 8);
    ze_kernel_handle_t k =
        new_kernel(new_module(0, "kernel void k(global ulong *a) { *(global uint *)a[0] = 1; }\n"), "k");
    OK(LAUNCH(k, 1, 1, cell));
    OK(ZE(zeMemFree)(t.context, r));
    LAUNCH(k, 1, 1, cell);
}

static void protection(void **state) {
    (void)state;
    ZESIM_NEED();
    zesim_run_dies("devices=1", touch_device_memory, SIGSEGV, "the host may not touch device memory");
    zesim_run("devices=2", copy_to_other_device);
    zesim_run("devices=2,peer.1.0=none", copy_to_other_device);
    zesim_run_dies("devices=2,peer.0.1=none", copy_to_other_device, SIGSEGV, "no peer route");
    zesim_run_dies("", use_freed_memory, SIGSEGV, "it was freed");
}

/* ---- waiting */
/* Who has seen the last command's event finds nothing in flight: list, event and memory are his again. */
static void last_event_case(void) {
    begin();
    for (int round = 0; round < 2000; round++) {
        char *p = on_host(64);
        ze_command_list_handle_t list = new_list(0);
        ze_event_handle_t done = new_event(ZE_EVENT_POOL_FLAG_HOST_VISIBLE);
        OK(ZE(zeCommandListAppendMemoryCopy)(list, p, p + 32, 32, done, 0, NULL));
        OK(ZE(zeCommandListClose)(list));
        OK(ZE(zeCommandQueueExecuteCommandLists)(t.queue, 1, &list, NULL));
        if (round % 2 == 0)
            OK(ZE(zeEventHostSynchronize)(done, UINT64_MAX));
        while (ZE(zeEventQueryStatus)(done) == ZE_RESULT_NOT_READY)
            continue;
        OK(ZE(zeCommandListReset)(list));
        OK(ZE(zeCommandListDestroy)(list));
        OK(ZE(zeEventDestroy)(done));
        OK(ZE(zeMemFree)(t.context, p));
    }
    CHECK(zesim_counter("violations") == 0);
}

static void last_event(void **state) {
    (void)state;
    ZESIM_NEED();
    zesim_run("devices=1", last_event_case);
}

static void asynchronous_case(void) {
    begin();
    char *p = on_host(64);
    memset(p, 1, 64);
    ze_event_handle_t go = new_event(ZE_EVENT_POOL_FLAG_HOST_VISIBLE),
                      done = new_event(ZE_EVENT_POOL_FLAG_HOST_VISIBLE);
    ze_command_list_handle_t list = new_list(0);
    ze_fence_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_FENCE_DESC};
    ze_fence_handle_t fence;
    OK(ZE(zeFenceCreate)(t.queue, &desc, &fence));
    OK(ZE(zeCommandListAppendMemoryFill)(list, p, "\7", 1, 64, done, 1, &go));
    OK(ZE(zeCommandListAppendEventReset)(list, go));
    OK(ZE(zeCommandListClose)(list));
    for (int round = 0; round < 3; round++) {
        OK(ZE(zeCommandQueueExecuteCommandLists)(t.queue, 1, &list, fence));
        CHECK_RESULT(ZE(zeCommandQueueSynchronize)(t.queue, 0), ZE_RESULT_NOT_READY);
        CHECK_RESULT(ZE(zeCommandQueueSynchronize)(t.queue, 2000000), ZE_RESULT_NOT_READY);
        CHECK_RESULT(ZE(zeFenceQueryStatus)(fence), ZE_RESULT_NOT_READY);
        CHECK_RESULT(ZE(zeFenceHostSynchronize)(fence, 1000000), ZE_RESULT_NOT_READY);
        CHECK_RESULT(ZE(zeEventQueryStatus)(done), ZE_RESULT_NOT_READY);
        CHECK_RESULT(ZE(zeEventHostSynchronize)(done, 1000000), ZE_RESULT_NOT_READY);
        CHECK(p[63] == 1);
        OK(ZE(zeEventHostSignal)(go));
        OK(ZE(zeEventHostSynchronize)(done, UINT64_MAX));
        OK(ZE(zeFenceHostSynchronize)(fence, UINT64_MAX));
        OK(ZE(zeCommandQueueSynchronize)(t.queue, UINT64_MAX));
        CHECK(p[0] == 7 && p[63] == 7);
        CHECK_RESULT(ZE(zeEventQueryStatus)(go), ZE_RESULT_NOT_READY); /* the list reset it */
        OK(ZE(zeFenceReset)(fence));
        OK(ZE(zeEventHostReset)(done));
        memset(p, 1, 64);
    }
    OK(ZE(zeCommandListReset)(list));
    OK(ZE(zeCommandListClose)(list));
    OK(ZE(zeCommandQueueExecuteCommandLists)(t.queue, 1, &list, NULL));
    OK(ZE(zeCommandQueueSynchronize)(t.queue, UINT64_MAX));
    CHECK(p[0] == 1);
    CHECK(zesim_counter("violations") == 0);
}

/* Device 1 waits for device 0's event and pushes back; the host only submits. */
static void across_devices_case(void) {
    enum { BYTES = 100000 };
    begin();
    char *a = on_device(0, BYTES), *b = on_device(1, BYTES), *in = on_host(BYTES), *out = on_host(BYTES);
    ze_event_handle_t sent = new_event(0), back = new_event(ZE_EVENT_POOL_FLAG_HOST_VISIBLE);
    ze_command_queue_handle_t second = new_queue(1);
    ze_command_list_handle_t one = new_list(0), two = new_list(1);
    OK(ZE(zeCommandListAppendMemoryCopy)(one, a, in, BYTES, NULL, 0, NULL));
    OK(ZE(zeCommandListAppendBarrier)(one, NULL, 0, NULL));
    OK(ZE(zeCommandListAppendMemoryCopy)(one, b, a, BYTES, NULL, 0, NULL));
    OK(ZE(zeCommandListAppendSignalEvent)(one, sent));
    OK(ZE(zeCommandListClose)(one));
    OK(ZE(zeCommandListAppendWaitOnEvents)(two, 1, &sent));
    OK(ZE(zeCommandListAppendEventReset)(two, sent));
    OK(ZE(zeCommandListAppendMemoryCopy)(two, out, b, BYTES, back, 0, NULL));
    OK(ZE(zeCommandListClose)(two));
    for (int round = 0; round < 20; round++) {
        memset(in, round, BYTES);
        OK(ZE(zeCommandQueueExecuteCommandLists)(second, 1, &two, NULL));
        OK(ZE(zeCommandQueueExecuteCommandLists)(t.queue, 1, &one, NULL));
        OK(ZE(zeEventHostSynchronize)(back, UINT64_MAX));
        CHECK(out[0] == round && out[BYTES - 1] == round);
        OK(ZE(zeEventHostReset)(back));
        OK(ZE(zeCommandQueueSynchronize)(t.queue, UINT64_MAX));
        OK(ZE(zeCommandQueueSynchronize)(second, UINT64_MAX));
    }
}

static void execution(void **state) {
    (void)state;
    ZESIM_NEED();
    zesim_run("", asynchronous_case);
    zesim_run("devices=2", across_devices_case);
}

/* ---- the other commands */
static void commands_case(void) {
    begin();
    uint16_t *grid = on_device(0, 32 * 16 * 8 * 2), *out = on_host(32 * 16 * 8 * 2),
             pattern[4] = {1, 2, 3, 4};
    OK(ZE(zeCommandListAppendMemoryFill)(t.immediate, grid, pattern, sizeof pattern, 32 * 16 * 8 * 2, NULL, 0,
                                         NULL));
    memset(out, 0, 32 * 16 * 8 * 2);
    /* A box of 8 x 4 x 2 elements from (4, 2, 1) to (0, 8, 3). */
    ze_copy_region_t from = {8, 2, 1, 16, 4, 2}, to = {0, 8, 3, 16, 4, 2};
    OK(ZE(zeCommandListAppendMemoryCopyRegion)(t.immediate, out, &to, 64, 1024, grid, &from, 64, 1024, NULL,
                                               0, NULL));
    for (int z = 0; z < 8; z++)
        for (int y = 0; y < 16; y++)
            for (int x = 0; x < 32; x++) {
                bool inside = x < 8 && y >= 8 && y < 12 && z >= 3 && z < 5;
                CHECK(out[(z * 16 + y) * 32 + x] == (inside ? x % 4 + 1 : 0));
            }
    /* Indirect launches read their counts when they execute. */
    float *v = on_host(64 * 4);
    ze_kernel_handle_t twice = new_kernel(new_module(0, add_source), "twice");
    ze_group_count_t *counts = on_host(2 * sizeof *counts);
    uint32_t *n = on_host(4);
    ze_command_list_handle_t list = new_list(0);
    OK(ZE(zeKernelSetGroupSize)(twice, 8, 1, 1));
    set_pointer(twice, 0, v);
    OK(ZE(zeCommandListAppendLaunchKernelIndirect)(list, twice, &counts[0], NULL, 0, NULL));
    OK(ZE(zeCommandListAppendBarrier)(list, NULL, 0, NULL));
    OK(ZE(zeCommandListAppendLaunchMultipleKernelsIndirect)(list, 2, (ze_kernel_handle_t[]){twice, twice}, n,
                                                            counts, NULL, 0, NULL));
    OK(ZE(zeCommandListClose)(list));
    for (uint32_t round = 1; round <= 4; round++) {
        for (int i = 0; i < 64; i++)
            v[i] = 1;
        counts[0] = (ze_group_count_t){round, 1, 1}, counts[1] = (ze_group_count_t){8, 1, 1}, *n = round % 3;
        OK(ZE(zeCommandQueueExecuteCommandLists)(t.queue, 1, &list, NULL));
        OK(ZE(zeCommandQueueSynchronize)(t.queue, UINT64_MAX));
        for (uint32_t i = 0; i < 64; i++)
            CHECK(v[i] == (float)(1 << ((i < round * 8) + (*n > 0 && i < round * 8) + (*n > 1))));
    }
}

static void timestamps_case(void) {
    begin();
    ze_event_pool_flags_t flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE | ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP;
    ze_event_handle_t events[2] = {new_event(flags), new_event(flags)}, done = new_event(flags);
    ze_kernel_timestamp_result_t *times = on_host(2 * sizeof *times), first;
    char *p = on_device(0, 1 << 20);
    uint64_t *stamp = on_host(8), host, device;
    CHECK_RESULT(ZE(zeEventQueryKernelTimestamp)(events[0], &first), ZE_RESULT_NOT_READY);
    for (int i = 0; i < 2; i++)
        OK(ZE(zeCommandListAppendMemoryFill)(t.immediate, p, &i, 1, 1 << 20, events[i], 0, NULL));
    OK(ZE(zeCommandListAppendWriteGlobalTimestamp)(t.immediate, stamp, NULL, 0, NULL));
    OK(ZE(zeCommandListAppendQueryKernelTimestamps)(t.immediate, 2, events, times, NULL, done, 2, events));
    OK(ZE(zeEventQueryStatus)(done));
    OK(ZE(zeEventQueryKernelTimestamp)(events[0], &first));
    CHECK(memcmp(&first, &times[0], sizeof first) == 0);
    CHECK(times[0].global.kernelEnd >> 32 == 0 && times[0].global.kernelEnd != times[0].global.kernelStart);
    CHECK((uint32_t)(times[1].global.kernelStart - times[0].global.kernelEnd) < 1u << 31);
    OK(ZE(zeDeviceGetGlobalTimestamps)(t.device[0], &host, &device));
    CHECK(device >= *stamp && host / 1000000000 == device / 19200000);
}

/* Without a barrier, commands may run in any order. */
static void without_barrier(void) {
    begin();
    char *p = on_host(64), *q = on_host(64);
    memset(p, 1, 64);
    ze_command_list_handle_t list = new_list(0);
    OK(ZE(zeCommandListAppendMemoryFill)(list, p, "\2", 1, 64, NULL, 0, NULL));
    OK(ZE(zeCommandListAppendMemoryCopy)(list, q, p, 64, NULL, 0, NULL));
    OK(ZE(zeCommandListClose)(list));
    OK(ZE(zeCommandQueueExecuteCommandLists)(t.queue, 1, &list, NULL));
    OK(ZE(zeCommandQueueSynchronize)(t.queue, UINT64_MAX));
    const char *config = getenv("ZESIM");
    CHECK(q[0] == (strcmp(config, "order=reverse") == 0 ? 1 : 2));
}

static void commands(void **state) {
    (void)state;
    ZESIM_NEED();
    zesim_run("", commands_case);
    zesim_run("", timestamps_case);
    zesim_run("", without_barrier);
    zesim_run("order=reverse", without_barrier);
}

/* ---- memory */
/* ze_device_usablemem_size_ext_properties_t of Level Zero 1.11. */
struct usable {
    uint32_t type;
    void *next;
    uint64_t now;
};

static uint64_t free_bytes(uint32_t device) {
    struct usable usable = {.type = 0x00020041};
    ze_device_properties_t p = {.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES, .pNext = &usable};
    OK(ZE(zeDeviceGetProperties)(t.device[device], &p));
    uint32_t one = 1;
    zes_mem_handle_t module;
    zes_mem_state_t state = {.stype = ZES_STRUCTURE_TYPE_MEM_STATE};
    OK(ZE(zesDeviceEnumMemoryModules)((zes_device_handle_t)t.device[device], &one, &module));
    OK(ZE(zesMemoryGetState)(module, &state));
    CHECK(state.free == usable.now);
    return usable.now;
}

static void limits_case(void) { /* memory=64MiB, max_alloc=16MiB, gpu1.taken_later=8MiB@2 */
    void *p, *q;
    begin();
    CHECK(free_bytes(0) == 64 << 20);
    CHECK_RESULT(try_device(0, (16 << 20) + 1, &p), ZE_RESULT_ERROR_UNSUPPORTED_SIZE);
    CHECK_RESULT(try_device(0, 0, &p), ZE_RESULT_ERROR_UNSUPPORTED_SIZE);
    for (int i = 0; i < 3; i++)
        OK(try_device(0, 16 << 20, &p));
    CHECK(free_bytes(0) == 16 << 20);
    OK(try_device(0, 1, &q)); /* takes a granule */
    CHECK(free_bytes(0) == (16 << 20) - 65536);
    CHECK_RESULT(try_device(0, 16 << 20, &q), ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
    OK(ZE(zeMemFree)(t.context, p));
    CHECK(free_bytes(0) == (32 << 20) - 65536);
    ze_relaxed_allocation_limits_exp_desc_t relaxed = {
        .stype = ZE_STRUCTURE_TYPE_RELAXED_ALLOCATION_LIMITS_EXP_DESC,
        .flags = ZE_RELAXED_ALLOCATION_LIMITS_EXP_FLAG_MAX_SIZE};
    ze_device_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC, .pNext = &relaxed};
    OK(ZE(zeMemAllocDevice)(t.context, &desc, 20 << 20, 0, t.device[0], &p));
    CHECK_RESULT(ZE(zeMemAllocDevice)(t.context, &desc, 64, 48, t.device[0], &p),
                 ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT);
    OK(try_device(1, 65536, &p));
    CHECK(free_bytes(1) == (64 << 20) - 65536);
    OK(try_device(1, 65536, &p));
    CHECK(free_bytes(1) == (56 << 20) - 2 * 65536);
    ze_host_mem_alloc_desc_t host = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    OK(ZE(zeMemAllocHost)(t.context, &host, 1 << 20, 64, &p));
    CHECK_RESULT(ZE(zeMemAllocHost)(t.context, &host, 1, 64, &q), ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY);
    CHECK(zesim_counter("alloc.device.gpu0.bytes") == 3 * (16 << 20) + 1 + (20 << 20));
    CHECK(zesim_counter("free.device.gpu0.bytes") == 16 << 20);
}

static void fail_above_case(void) { /* max_alloc=16MiB,fail_above=4MiB */
    void *p;
    begin();
    CHECK_RESULT(try_device(0, 8 << 20, &p), ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY);
    OK(try_device(0, 4 << 20, &p));
}

static void questions_case(void) {
    begin();
    char *p = on_device(1, 1000), plain[8];
    ze_memory_allocation_properties_t m = {.stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES};
    ze_device_handle_t device;
    OK(ZE(zeMemGetAllocProperties)(t.context, p + 999, &m, &device));
    CHECK(m.type == ZE_MEMORY_TYPE_DEVICE && device == t.device[1] && m.id != 0);
    OK(ZE(zeMemGetAllocProperties)(t.context, on_host(10), &m, &device));
    CHECK(m.type == ZE_MEMORY_TYPE_HOST && device == NULL);
    OK(ZE(zeMemGetAllocProperties)(t.context, plain, &m, &device));
    CHECK(m.type == ZE_MEMORY_TYPE_UNKNOWN);
    void *base;
    size_t size;
    OK(ZE(zeMemGetAddressRange)(t.context, p + 500, &base, &size));
    CHECK(base == p && size == 1000);
    ze_device_mem_alloc_desc_t on_device_desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    ze_host_mem_alloc_desc_t on_host_desc = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    void *shared;
    OK(ZE(zeMemAllocShared)(t.context, &on_device_desc, &on_host_desc, 100, 0, t.device[0], &shared));
    memset(shared, 1, 100);
    OK(ZE(zeMemGetAllocProperties)(t.context, shared, &m, &device));
    CHECK(m.type == ZE_MEMORY_TYPE_SHARED && device == t.device[0]);
}

static long resident_kib(void) {
    long kib = -1;
    char line[256];
    FILE *f = fopen("/proc/self/status", "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "RssAnon: %ld", &kib) == 1)
            break;
    if (f != NULL)
        fclose(f);
    return kib;
}

static void mirror_case(void) {
    begin();
    void *p = on_device(0, 32 << 20);
    long before = resident_kib();
    OK(ZE(zeContextMakeMemoryResident)(t.context, t.device[0], p, 32 << 20));
    CHECK(zesim_counter("mirror.gpu1.bytes") == 0 && resident_kib() - before < 1024);
    OK(ZE(zeContextMakeMemoryResident)(t.context, t.device[1], p, 32 << 20));
    CHECK(zesim_counter("mirror.gpu1.bytes") == 32 << 20 && resident_kib() - before >= 32 << 10);
    OK(ZE(zeContextEvictMemory)(t.context, t.device[1], p, 32 << 20));
    CHECK(resident_kib() - before < 1024);
}

static void memory(void **state) {
    (void)state;
    ZESIM_NEED();
    zesim_run("devices=2,memory=64MiB,max_alloc=16MiB,gpu1.taken_later=8MiB@2,host_memory=1MiB", limits_case);
    zesim_run("max_alloc=16MiB,fail_above=4MiB", fail_above_case);
    zesim_run("devices=2", questions_case);
    zesim_run("devices=2,poison=0", mirror_case);
}

/* ---- what devices and modules say */
static void
properties_case(void) { /* devices=2,gpu1.name=Arc,gpu1.pci=0001:42:05.3,eus=10,slices=2,sub_groups=16/32 */
    begin();
    ze_eu_count_ext_t eus = {.stype = ZE_STRUCTURE_TYPE_EU_COUNT_EXT};
    ze_device_properties_t p = {.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES, .pNext = &eus};
    ze_pci_ext_properties_t pci = {.stype = ZE_STRUCTURE_TYPE_PCI_EXT_PROPERTIES};
    ze_device_compute_properties_t c = {.stype = ZE_STRUCTURE_TYPE_DEVICE_COMPUTE_PROPERTIES};
    CHECK(t.n_devices == 2);
    OK(ZE(zeDeviceGetProperties)(t.device[1], &p));
    CHECK(strcmp(p.name, "Arc") == 0 && p.type == ZE_DEVICE_TYPE_GPU && p.vendorId == 0x8086);
    CHECK(p.numSlices == 2 && p.numEUsPerSubslice == 10 && eus.numTotalEUs == 2 * 4 * 10);
    OK(ZE(zeDevicePciGetPropertiesExt)(t.device[1], &pci));
    CHECK(pci.address.domain == 1 && pci.address.bus == 0x42 && pci.address.device == 5 &&
          pci.address.function == 3);
    OK(ZE(zeDeviceGetComputeProperties)(t.device[0], &c));
    CHECK(c.numSubGroupSizes == 2 && c.subGroupSizes[0] == 16 && c.subGroupSizes[1] == 32);
    uint32_t groups = 0;
    OK(ZE(zeDeviceGetCommandQueueGroupProperties)(t.device[0], &groups, NULL));
    CHECK(groups == 2);
}

static void native_case(void) {
    begin();
    ze_module_handle_t m = new_module(0, add_source);
    uint32_t n = 0;
    const char *names[2];
    OK(ZE(zeModuleGetKernelNames)(m, &n, NULL));
    CHECK(n == 2);
    OK(ZE(zeModuleGetKernelNames)(m, &n, names));
    CHECK(strcmp(names[0], "add") == 0 && strcmp(names[1], "twice") == 0);
    size_t size = 0;
    OK(ZE(zeModuleGetNativeBinary)(m, &size, NULL));
    uint8_t *binary = malloc(size);
    CHECK(binary != NULL);
    OK(ZE(zeModuleGetNativeBinary)(m, &size, binary));
    ze_module_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_MODULE_DESC,
                             .format = ZE_MODULE_FORMAT_NATIVE,
                             .inputSize = size,
                             .pInputModule = binary};
    ze_module_handle_t again;
    OK(ZE(zeModuleCreate)(t.context, t.device[0], &desc, &again, NULL));
    float *v = on_host(32);
    v[3] = 21;
    OK(LAUNCH(new_kernel(again, "twice"), 1, 8, v));
    CHECK(v[3] == 42);
    for (size_t i = 0; i < size; i += i < 48 ? 1 : 97) {
        binary[i] ^= 1;
        CHECK_RESULT(ZE(zeModuleCreate)(t.context, t.device[0], &desc, &again, NULL),
                     ZE_RESULT_ERROR_INVALID_NATIVE_BINARY);
        binary[i] ^= 1;
    }
    ze_kernel_properties_t p = {.stype = ZE_STRUCTURE_TYPE_KERNEL_PROPERTIES};
    OK(ZE(zeKernelGetProperties)(new_kernel(m, "add"), &p));
    CHECK(p.numKernelArgs == 5 && p.spillMemSize == 0 && p.maxSubgroupSize == 16);
    ze_kernel_desc_t no_kernel = {.stype = ZE_STRUCTURE_TYPE_KERNEL_DESC, .pKernelName = "ad"};
    ze_kernel_handle_t k;
    CHECK_RESULT(ZE(zeKernelCreate)(m, &no_kernel, &k), ZE_RESULT_ERROR_INVALID_KERNEL_NAME);
    free(binary);
}

static void answers(void **state) {
    (void)state;
    ZESIM_NEED();
    zesim_run("devices=2,gpu1.name=Arc,gpu1.pci=0001:42:05.3,eus=10,slices=2,sub_groups=16/32",
              properties_case);
    zesim_run("", native_case);
}

/* ---- the log */
static void log_case(void) {
    begin();
    void (*mark)(const char *) = (void (*)(const char *))zesim_own("zesim_mark");
    uint64_t (*since)(const char *, const char *) =
        (uint64_t(*)(const char *, const char *))zesim_own("zesim_count_since");
    char *p = on_device(0, 100), *h = on_host(100);
    OK(copy(p, h, 100));
    mark("sealed");
    CHECK(since("sealed", "zeMemAllocDevice") == 0 && zesim_counter("zeMemAllocDevice") == 1);
    OK(copy(h, p, 60));
    on_device(0, 200);
    CHECK(since("sealed", "zeMemAllocDevice") == 1 && since("sealed", "copy.gpu0>host.bytes") == 60);
    CHECK(since("sealed", "copy.host>gpu0.bytes") == 0 && zesim_counter("copy.host>gpu0.bytes") == 100);
    CHECK(zesim_counter("no such thing") == 0);
}

static void check_log(const char *path) {
    char *text = testing_read_file(path, NULL);
    const char *sealed = strstr(text, "{\"mark\": \"sealed\"");
    assert_non_null(sealed);
    assert_non_null(strstr(text, "\"alloc.device.gpu0.bytes\": 300"));
    assert_non_null(strstr(sealed, "\"alloc.device.gpu0.bytes\": 200"));
    assert_non_null(strstr(sealed, "\"copy.gpu0>host.bytes\": 60"));
    assert_null(strstr(sealed, "copy.host>gpu0"));
    assert_non_null(strstr(text, "\"command queue\": 2"));
    assert_non_null(strstr(text, "\"violations\": []"));
    free(text);
}

static void the_log(void **state) {
    (void)state;
    ZESIM_NEED();
    char path[] = "/tmp/stator-test-log-XXXXXX", config[128];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    snprintf(config, sizeof config, "log=%s", path);
    zesim_run(config, log_case);
    check_log(path);
    unlink(path);
}

/* ---- under the loader's validation layer */
static void validation_layer(void **state) {
    (void)state;
    ZESIM_NEED();
    setenv("ZE_ENABLE_VALIDATION_LAYER", "1", 1);
    setenv("ZE_ENABLE_PARAMETER_VALIDATION", "1", 1);
    zesim_run("", launch_in_list);
    zesim_run("", commands_case);
    zesim_run("", timestamps_case);
    unsetenv("ZE_ENABLE_VALIDATION_LAYER");
    unsetenv("ZE_ENABLE_PARAMETER_VALIDATION");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launches), cmocka_unit_test(protection),       cmocka_unit_test(execution),
        cmocka_unit_test(commands), cmocka_unit_test(memory),           cmocka_unit_test(answers),
        cmocka_unit_test(the_log),  cmocka_unit_test(validation_layer), cmocka_unit_test(last_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
