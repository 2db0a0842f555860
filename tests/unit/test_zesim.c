/* tools/zesim, the software Level Zero driver, through the real loader: what works, and what it refuses. */
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
