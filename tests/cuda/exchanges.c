/* Two devices of zecuda exchange rows in recorded lists, as level_zero/lz_exchange.c records them, many
 * times: each gives its rows and a count of its steps, and its count kernel runs behind the wait. Says what
 * is wrong; exit 0 if nothing is. exchanges LIBZECUDA BYTES STEPS */
#include <level_zero/ze_ddi.h>

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOOD(call)                                                                                           \
    do {                                                                                                     \
        ze_result_t r_ = (call);                                                                             \
        if (r_ != ZE_RESULT_SUCCESS) {                                                                       \
            fprintf(stderr, "%s: 0x%x\n", #call, (unsigned)r_);                                              \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

static struct {
    ze_global_dditable_t global;
    ze_driver_dditable_t driver;
    ze_device_dditable_t device;
    ze_mem_dditable_t mem;
    ze_module_dditable_t module;
    ze_kernel_dditable_t kernel;
    ze_event_pool_dditable_t pool;
    ze_event_dditable_t event;
    ze_command_list_dditable_t list;
    ze_command_queue_dditable_t queue;
    ze_fence_dditable_t fence;
} ze;

static void table(void *library, const char *name, void *into) {
    void *p = dlsym(library, name);
    ze_result_t (*get)(ze_api_version_t, void *) = NULL;
    memcpy(&get, &p, sizeof p);
    if (get == NULL) {
        fprintf(stderr, "%s: no %s\n", dlerror(), name);
        exit(1);
    }
    GOOD(get(ZE_API_VERSION_1_3, into));
}

struct side {
    ze_device_handle_t device;
    ze_command_queue_handle_t queue;
    ze_command_list_handle_t list[2]; /* by step, in turn */
    ze_fence_handle_t fence;
    uint8_t *own, *landing[2], *counter;
};

static size_t bytes;
static ze_event_handle_t event[2][2]; /* half, source */

static ze_kernel_handle_t make_kernel(ze_device_handle_t d, void *counter) {
    ze_module_desc_t module = {.stype = ZE_STRUCTURE_TYPE_MODULE_DESC,
                               .format = ZE_MODULE_FORMAT_IL_SPIRV,
                               .inputSize = 4,
                               .pInputModule = (const uint8_t *)"none"};
    ze_kernel_desc_t kernel = {.stype = ZE_STRUCTURE_TYPE_KERNEL_DESC, .pKernelName = "count"};
    ze_module_handle_t m = NULL;
    ze_kernel_handle_t k = NULL;
    GOOD(ze.module.pfnCreate(NULL, d, &module, &m, NULL));
    GOOD(ze.kernel.pfnCreate(m, &kernel, &k));
    GOOD(ze.kernel.pfnSetArgumentValue(k, 0, sizeof counter, &counter));
    return k;
}

/* The body of a step: count, two exchanges of the counter and the rows behind it. */
static void record(struct side *s, uint32_t me, uint32_t slot, ze_kernel_handle_t kernel,
                   const struct side *other) {
    ze_group_count_t one = {1, 1, 1};
    ze_command_list_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC};
    GOOD(ze.list.pfnCreate(NULL, s->device, &desc, &s->list[slot]));
    ze_command_list_handle_t l = s->list[slot];
    for (uint32_t half = 0; half < 2; half++) {
        GOOD(ze.list.pfnAppendLaunchKernel(l, kernel, &one, NULL, 0, NULL));
        GOOD(ze.list.pfnAppendMemoryCopy(l, s->own, s->counter, 4, NULL, 0, NULL));
        GOOD(ze.list.pfnAppendMemoryCopy(l, other->landing[half], s->own, bytes, NULL, 0, NULL));
        GOOD(ze.list.pfnAppendBarrier(l, NULL, 0, NULL));
        GOOD(ze.list.pfnAppendBarrier(l, event[half][me], 0, NULL));
        GOOD(ze.list.pfnAppendBarrier(l, NULL, 1, &event[half][1 - me]));
        GOOD(ze.list.pfnAppendEventReset(l, event[half][1 - me]));
        GOOD(ze.list.pfnAppendBarrier(l, NULL, 0, NULL));
        /* What the next op reads: the rows that landed, kept for the check. */
        GOOD(ze.list.pfnAppendMemoryCopy(l, s->own + bytes * (1 + half), s->landing[half], bytes, NULL, 0,
                                         NULL));
    }
    GOOD(ze.list.pfnClose(l));
}

static void open_side(struct side *s, ze_device_handle_t d, uint32_t me) {
    ze_device_mem_alloc_desc_t mem = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    ze_command_queue_desc_t queue = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC};
    ze_fence_desc_t fence = {.stype = ZE_STRUCTURE_TYPE_FENCE_DESC};
    s->device = d;
    GOOD(ze.mem.pfnAllocDevice(NULL, &mem, 3 * bytes, 256, d, (void **)&s->own));
    GOOD(ze.mem.pfnAllocDevice(NULL, &mem, bytes, 256, d, (void **)&s->landing[0]));
    GOOD(ze.mem.pfnAllocDevice(NULL, &mem, bytes, 256, d, (void **)&s->landing[1]));
    GOOD(ze.mem.pfnAllocDevice(NULL, &mem, 4, 256, d, (void **)&s->counter));
    memset(s->own, 'a' + (int)me, bytes); /* the test's device memory is the host's */
    memset(s->counter, 0, 4);
    GOOD(ze.queue.pfnCreate(NULL, d, &queue, &s->queue));
    GOOD(ze.fence.pfnCreate(s->queue, &fence, &s->fence));
}

static void open_events(ze_device_handle_t *devices) {
    ze_event_pool_handle_t pool = NULL;
    ze_event_pool_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC, .count = 4};
    GOOD(ze.pool.pfnCreate(NULL, &desc, 2, devices, &pool));
    for (uint32_t i = 0; i < 4; i++) {
        ze_event_desc_t e = {.stype = ZE_STRUCTURE_TYPE_EVENT_DESC, .index = i};
        GOOD(ze.event.pfnCreate(pool, &e, &event[i / 2][i % 2]));
    }
}

static int wrong(const struct side *s, uint32_t me, uint32_t step) {
    for (uint32_t half = 0; half < 2; half++) {
        const uint8_t *got = s->own + bytes * (1 + half);
        uint32_t counted = 0;
        memcpy(&counted, got, sizeof counted);
        if (counted != 2 * step + half + 1)
            return fprintf(stderr, "device %u, step %u, half %u: the other one's count is %u\n", me, step,
                           half, counted);
        for (size_t i = 4; i < bytes; i++)
            if (got[i] != 'a' + (1 - me))
                return fprintf(stderr, "device %u, step %u, half %u: byte %zu is %02x\n", me, step, half, i,
                               got[i]);
    }
    return 0;
}

/* A list asks the host and waits for its answer, as level_zero/lz_helped.c records it: the host copies what
 * the device has counted, and the device's next copy must see that. */
static int ask_host(struct side *s, ze_kernel_handle_t kernel, uint32_t steps) {
    ze_event_pool_handle_t pool = NULL;
    ze_event_pool_desc_t pool_desc = {
        .stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC, .flags = ZE_EVENT_POOL_FLAG_HOST_VISIBLE, .count = 2};
    ze_event_handle_t asked = NULL, answered = NULL;
    ze_event_desc_t one = {.stype = ZE_STRUCTURE_TYPE_EVENT_DESC, .index = 0}, two = one;
    ze_group_count_t group = {1, 1, 1};
    ze_command_list_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC};
    ze_command_list_handle_t l = NULL;
    uint32_t *words = (uint32_t *)(void *)s->own; /* the question, the answer, what the device saw of it */
    two.index = 1;
    memset(s->counter, 0, 4);
    GOOD(ze.pool.pfnCreate(NULL, &pool_desc, 1, &s->device, &pool));
    GOOD(ze.event.pfnCreate(pool, &one, &asked));
    GOOD(ze.event.pfnCreate(pool, &two, &answered));
    GOOD(ze.list.pfnCreate(NULL, s->device, &desc, &l));
    GOOD(ze.list.pfnAppendLaunchKernel(l, kernel, &group, NULL, 0, NULL));
    GOOD(ze.list.pfnAppendMemoryCopy(l, &words[0], s->counter, 4, NULL, 0, NULL));
    GOOD(ze.list.pfnAppendBarrier(l, asked, 0, NULL));
    GOOD(ze.list.pfnAppendBarrier(l, NULL, 1, &answered));
    GOOD(ze.list.pfnAppendEventReset(l, answered));
    GOOD(ze.list.pfnAppendBarrier(l, NULL, 0, NULL));
    GOOD(ze.list.pfnAppendMemoryCopy(l, &words[2], &words[1], 4, NULL, 0, NULL));
    GOOD(ze.list.pfnClose(l));
    if (ze.event.pfnHostSynchronize(asked, 1000) != ZE_RESULT_NOT_READY)
        return fprintf(stderr, "nothing has asked yet\n");
    for (uint32_t step = 1; step <= steps; step++) {
        GOOD(ze.fence.pfnReset(s->fence));
        GOOD(ze.queue.pfnExecuteCommandLists(s->queue, 1, &l, s->fence));
        GOOD(ze.event.pfnHostSynchronize(asked, 20000000000ull));
        GOOD(ze.event.pfnHostReset(asked));
        words[1] = 2 * words[0];
        GOOD(ze.event.pfnHostSignal(answered));
        GOOD(ze.fence.pfnHostSynchronize(s->fence, 20000000000ull));
        if (words[0] != step || words[2] != 2 * step)
            return fprintf(stderr, "step %u: asked %u, the device saw %u\n", step, words[0], words[2]);
    }
    return 0;
}

int main(int argc, char **argv) {
    void *library = argc == 4 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (library == NULL) {
        fprintf(stderr, "exchanges LIBZECUDA BYTES STEPS: %s\n",
                argc == 4 ? dlerror() : "arguments are missing");
        return 1;
    }
    bytes = (size_t)atol(argv[2]);
    table(library, "zeGetGlobalProcAddrTable", &ze.global);
    table(library, "zeGetDriverProcAddrTable", &ze.driver);
    table(library, "zeGetDeviceProcAddrTable", &ze.device);
    table(library, "zeGetMemProcAddrTable", &ze.mem);
    table(library, "zeGetModuleProcAddrTable", &ze.module);
    table(library, "zeGetKernelProcAddrTable", &ze.kernel);
    table(library, "zeGetEventPoolProcAddrTable", &ze.pool);
    table(library, "zeGetEventProcAddrTable", &ze.event);
    table(library, "zeGetCommandListProcAddrTable", &ze.list);
    table(library, "zeGetCommandQueueProcAddrTable", &ze.queue);
    table(library, "zeGetFenceProcAddrTable", &ze.fence);
    GOOD(ze.global.pfnInit(0));
    uint32_t n = 1;
    ze_driver_handle_t driver = NULL;
    ze_device_handle_t devices[2] = {NULL, NULL};
    GOOD(ze.driver.pfnGet(&n, &driver));
    n = 2;
    GOOD(ze.device.pfnGet(driver, &n, devices));
    open_events(devices);
    struct side side[2];
    for (uint32_t i = 0; i < 2; i++)
        open_side(&side[i], devices[i], i);
    for (uint32_t i = 0; i < 4; i++)
        record(&side[i % 2], i % 2, i / 2, make_kernel(devices[i % 2], side[i % 2].counter),
               &side[1 - i % 2]);
    for (uint32_t step = 0; step < (uint32_t)atol(argv[3]); step++) {
        for (uint32_t i = 0; i < 2; i++) {
            GOOD(ze.fence.pfnReset(side[i].fence));
            GOOD(ze.queue.pfnExecuteCommandLists(side[i].queue, 1, &side[i].list[step % 2], side[i].fence));
        }
        for (uint32_t i = 0; i < 2; i++)
            GOOD(ze.fence.pfnHostSynchronize(side[i].fence, 20000000000ull));
        if (wrong(&side[0], 0, step) || wrong(&side[1], 1, step))
            return 1;
    }
    if (ask_host(&side[0], make_kernel(devices[0], side[0].counter), (uint32_t)atol(argv[3])))
        return 1;
    for (uint32_t i = 0; i < 2; i++)
        GOOD(ze.queue.pfnDestroy(side[i].queue));
    return 0;
}
