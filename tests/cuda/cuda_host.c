/* CUDA's driver as zecuda calls it, in host memory, for a test without a GPU: device memory is the host's, a
 * stream is a thread that runs its work in order, a captured graph is that work kept. Of kernels there are
 * zecuda_exchange, as tools/zecuda/exchange.cl has it, and "count", which adds 1 to the word at its only
 * argument. CUDA_HOST_APART=1: no device reaches another one. */
#include "../../tools/zecuda/cuda.h"
#include "../../tools/zecuda/exchange.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT  __attribute__((visibility("default")))
#define WORK    256
#define DEVICES 2

enum { COPY, FILL, EXCHANGE, COUNT, RECORD };
struct work {
    int op;
    cuda_address to, from;
    size_t bytes;
    unsigned value;
    struct exchange x;
    struct cuda_event_s *event;
};
struct cuda_event_s {
    atomic_uint done, wanted;
};
struct cuda_graph_s {
    struct work work[WORK];
    unsigned n;
};
struct cuda_stream_s {
    pthread_t thread;
    struct work work[WORK];
    atomic_ulong begun, ended;
    struct cuda_graph_s *capture;
};

static void exchange(const struct exchange *x) {
    for (unsigned i = 0; i < x->n_copies; i++)
        memcpy((void *)x->to[i], (const void *)x->from[i], x->bytes[i]);
    for (unsigned i = 0; i < x->n_signals; i++)
        atomic_store((atomic_uint *)x->signal[i], 1);
    for (unsigned i = 0; i < x->n_waits; i++)
        while (atomic_load((atomic_uint *)x->wait[i]) == 0)
            sched_yield();
    for (unsigned i = 0; i < x->n_resets; i++)
        atomic_store((atomic_uint *)x->reset[i], 0);
    struct exchange_times *t = (struct exchange_times *)x->times;
    if (t != NULL && x->n_waits > 0) {
        t->n++;
        t->wait_ns += 2000;
        t->took[7] += x->n_copies > 0; /* 3.5 to 4 us */
    }
}

static void run(const struct work *w) {
    if (w->op == COPY)
        memcpy((void *)w->to, (const void *)w->from, w->bytes);
    else if (w->op == FILL)
        for (size_t i = 0; i < w->bytes; i++)
            ((unsigned *)w->to)[i] = w->value;
    else if (w->op == EXCHANGE)
        exchange(&w->x);
    else if (w->op == COUNT)
        ++*(unsigned *)w->to;
    else
        atomic_fetch_add(&w->event->done, 1);
}

static void *serve(void *stream) {
    struct cuda_stream_s *s = stream;
    for (;;) {
        unsigned long at = atomic_load(&s->ended);
        if (at == atomic_load(&s->begun)) {
            sched_yield();
            continue;
        }
        if (s->work[at % WORK].op < 0)
            return NULL;
        run(&s->work[at % WORK]);
        atomic_store(&s->ended, at + 1);
    }
}

static cuda_result add(cuda_stream s, struct work w) {
    if (s->capture != NULL) {
        if (s->capture->n == WORK)
            return 1;
        s->capture->work[s->capture->n++] = w;
        return 0;
    }
    while (atomic_load(&s->begun) - atomic_load(&s->ended) == WORK)
        sched_yield();
    s->work[atomic_load(&s->begun) % WORK] = w;
    atomic_fetch_add(&s->begun, 1);
    return 0;
}

EXPORT cuda_result cuStreamCreate(cuda_stream *s, unsigned flags) {
    (void)flags;
    *s = calloc(1, sizeof **s);
    return *s == NULL || pthread_create(&(*s)->thread, NULL, serve, *s) != 0;
}
EXPORT cuda_result cuStreamDestroy_v2(cuda_stream s) {
    add(s, (struct work){.op = -1});
    pthread_join(s->thread, NULL);
    free(s);
    return 0;
}
EXPORT cuda_result cuStreamSynchronize(cuda_stream s) {
    while (atomic_load(&s->begun) != atomic_load(&s->ended))
        sched_yield();
    return 0;
}
EXPORT cuda_result cuStreamBeginCapture_v2(cuda_stream s, int mode) {
    (void)mode;
    s->capture = calloc(1, sizeof *s->capture);
    return s->capture == NULL;
}
EXPORT cuda_result cuStreamEndCapture(cuda_stream s, cuda_graph *g) {
    *g = s->capture;
    s->capture = NULL;
    return 0;
}
EXPORT cuda_result cuGraphInstantiateWithFlags(cuda_graph_exec *e, cuda_graph g, unsigned long long flags) {
    (void)flags;
    struct cuda_graph_s *kept = malloc(sizeof *kept);
    *kept = *g;
    *e = (cuda_graph_exec)(void *)kept;
    return 0;
}
EXPORT cuda_result cuGraphUpload(cuda_graph_exec e, cuda_stream s) {
    (void)e, (void)s;
    return 0;
}
EXPORT cuda_result cuGraphLaunch(cuda_graph_exec e, cuda_stream s) {
    const struct cuda_graph_s *g = (const struct cuda_graph_s *)(void *)e;
    cuda_result r = 0;
    for (unsigned i = 0; i < g->n && r == 0; i++)
        r = add(s, g->work[i]);
    return r;
}
EXPORT cuda_result cuGraphExecDestroy(cuda_graph_exec e) {
    free(e);
    return 0;
}
EXPORT cuda_result cuGraphDestroy(cuda_graph g) {
    free(g);
    return 0;
}
EXPORT cuda_result cuMemcpyAsync(cuda_address to, cuda_address from, size_t bytes, cuda_stream s) {
    return add(s, (struct work){.op = COPY, .to = to, .from = from, .bytes = bytes});
}
EXPORT cuda_result cuMemsetD32Async(cuda_address to, unsigned value, size_t n, cuda_stream s) {
    return add(s, (struct work){.op = FILL, .to = to, .value = value, .bytes = n});
}
EXPORT cuda_result cuLaunchKernel(cuda_function f, unsigned groups_x, unsigned groups_y, unsigned groups_z,
                                  unsigned x, unsigned y, unsigned z, unsigned shared, cuda_stream s,
                                  void **arguments, void **extra) {
    (void)groups_x, (void)groups_y, (void)groups_z, (void)x, (void)y, (void)z, (void)shared, (void)extra;
    struct work w = {.op = (int)(intptr_t)f};
    if (w.op == EXCHANGE)
        w.x = *(struct exchange *)arguments[0];
    else
        w.to = *(cuda_address *)arguments[0];
    return add(s, w);
}

EXPORT cuda_result cuEventCreate(cuda_event *e, unsigned flags) {
    (void)flags;
    *e = calloc(1, sizeof **e);
    return *e == NULL;
}
EXPORT cuda_result cuEventDestroy_v2(cuda_event e) {
    free(e);
    return 0;
}
EXPORT cuda_result cuEventRecord(cuda_event e, cuda_stream s) {
    atomic_fetch_add(&e->wanted, 1);
    return add(s, (struct work){.op = RECORD, .event = e});
}
EXPORT cuda_result cuEventRecordWithFlags(cuda_event e, cuda_stream s, unsigned flags) {
    (void)flags;
    return cuEventRecord(e, s);
}
EXPORT cuda_result cuEventQuery(cuda_event e) {
    return atomic_load(&e->done) == atomic_load(&e->wanted) ? 0 : CUDA_NOT_READY;
}
EXPORT cuda_result cuEventSynchronize(cuda_event e) {
    while (cuEventQuery(e) != 0)
        sched_yield();
    return 0;
}
EXPORT cuda_result cuEventElapsedTime(float *ms, cuda_event from, cuda_event to) {
    (void)from, (void)to;
    *ms = 0;
    return 0;
}

EXPORT cuda_result cuInit(unsigned flags) {
    return flags != 0;
}
EXPORT cuda_result cuGetErrorString(cuda_result r, const char **text) {
    *text = r == 1 ? "no room in the test's driver" : "an error of the test's driver";
    return 0;
}
EXPORT cuda_result cuDriverGetVersion(int *version) {
    *version = 13000;
    return 0;
}
EXPORT cuda_result cuDeviceGetCount(int *n) {
    *n = DEVICES;
    return 0;
}
EXPORT cuda_result cuDeviceGet(cuda_device *d, int index) {
    *d = index;
    return 0;
}
EXPORT cuda_result cuDeviceGetName(char *name, int size, cuda_device d) {
    (void)d, (void)size;
    strcpy(name, "test");
    return 0;
}
EXPORT cuda_result cuDeviceGetPCIBusId(char *id, int size, cuda_device d) {
    (void)d, (void)size;
    strcpy(id, "0000:00:00.0");
    return 0;
}
EXPORT cuda_result cuDeviceGetAttribute(int *value, int attribute, cuda_device d) {
    (void)attribute, (void)d;
    *value = 1;
    return 0;
}
EXPORT cuda_result cuDeviceTotalMem_v2(size_t *bytes, cuda_device d) {
    (void)d;
    *bytes = 1u << 30;
    return 0;
}
EXPORT cuda_result cuDeviceCanAccessPeer(int *can, cuda_device from, cuda_device to) {
    *can = from != to && getenv("CUDA_HOST_APART") == NULL;
    return 0;
}
EXPORT cuda_result cuDevicePrimaryCtxRetain(cuda_context *c, cuda_device d) {
    *c = (cuda_context)(intptr_t)(d + 1);
    return 0;
}
EXPORT cuda_result cuCtxSetCurrent(cuda_context c) {
    return c == NULL;
}
EXPORT cuda_result cuCtxEnablePeerAccess(cuda_context to, unsigned flags) {
    (void)to, (void)flags;
    return 0;
}
EXPORT cuda_result cuMemGetInfo_v2(size_t *left, size_t *total) {
    *left = *total = 1u << 30;
    return 0;
}
EXPORT cuda_result cuMemAlloc_v2(cuda_address *p, size_t bytes) {
    *p = (cuda_address)(uintptr_t)aligned_alloc(256, (bytes + 255) / 256 * 256);
    return *p == 0;
}
EXPORT cuda_result cuMemFree_v2(cuda_address p) {
    free((void *)p);
    return 0;
}
EXPORT cuda_result cuMemHostAlloc(void **p, size_t bytes, unsigned flags) {
    (void)flags;
    *p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    return *p == NULL;
}
EXPORT cuda_result cuMemFreeHost(void *p) {
    free(p);
    return 0;
}
EXPORT cuda_result cuPointerGetAttribute(void *value, int attribute, cuda_address p) {
    (void)p;
    if (attribute == CUDA_POINTER_TYPE)
        *(unsigned *)value = CUDA_POINTER_HOST;
    else
        *(cuda_context *)value = (cuda_context)(intptr_t)1;
    return 0;
}
EXPORT cuda_result cuModuleLoadDataEx(cuda_module *m, const void *image, unsigned n, const int *options,
                                      void *const *values) {
    (void)image, (void)n, (void)options, (void)values;
    *m = (cuda_module)(intptr_t)1;
    return 0;
}
EXPORT cuda_result cuModuleUnload(cuda_module m) {
    (void)m;
    return 0;
}
EXPORT cuda_result cuModuleGetFunction(cuda_function *f, cuda_module m, const char *name) {
    (void)m;
    *f = (cuda_function)(intptr_t)(strcmp(name, EXCHANGE_KERNEL) == 0 ? EXCHANGE : COUNT);
    return 0;
}
EXPORT cuda_result cuFuncGetAttribute(int *value, int attribute, cuda_function f) {
    (void)attribute, (void)f;
    *value = 0;
    return 0;
}
EXPORT cuda_result cuFuncSetAttribute(cuda_function f, int attribute, int value) {
    (void)f, (void)attribute, (void)value;
    return 0;
}
