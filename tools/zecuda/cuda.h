/* The part of the CUDA driver API (libcuda.so.1) that zecuda calls, declared here: its headers need not be
 * installed. The library is opened at run time. Names, numbers and signatures are the API's. */
#ifndef ZECUDA_CUDA_H
#define ZECUDA_CUDA_H

#include <stdbool.h>
#include <stddef.h>

typedef int cuda_result; /* 0: success */
typedef int cuda_device;
typedef unsigned long long cuda_address;
typedef struct cuda_context_s *cuda_context;
typedef struct cuda_stream_s *cuda_stream;
typedef struct cuda_event_s *cuda_event;
typedef struct cuda_module_s *cuda_module;
typedef struct cuda_function_s *cuda_function;
typedef struct cuda_graph_s *cuda_graph;
typedef struct cuda_graph_exec_s *cuda_graph_exec;

enum { CUDA_OUT_OF_MEMORY = 2, CUDA_NOT_READY = 600 };

/* Attributes of a device, of a function; other numbers of the API. */
enum {
    CUDA_CLOCK_KHZ = 13,
    CUDA_SMS = 16,
    CUDA_MEMORY_KHZ = 36,
    CUDA_BUS_BITS = 37,
    CUDA_THREADS_PER_SM = 39,
    CUDA_MAJOR = 75,
    CUDA_MINOR = 76,

    CUDA_FUNCTION_LOCAL_BYTES = 3,
    CUDA_FUNCTION_REGISTERS = 4,
    CUDA_FUNCTION_MOST_DYNAMIC_SHARED = 8,

    CUDA_STREAM_NON_BLOCKING = 1,
    CUDA_CAPTURE_RELAXED = 2,
    CUDA_EVENT_DISABLE_TIMING = 2,
    CUDA_EVENT_RECORD_EXTERNAL = 1,
    CUDA_HOST_PORTABLE = 1, /* pinned for every device */
    CUDA_POINTER_CONTEXT = 1,
    CUDA_POINTER_TYPE = 2,
    CUDA_POINTER_HOST = 1, /* a type */
    CUDA_JIT_ERROR_LOG = 5,
    CUDA_JIT_ERROR_LOG_BYTES = 6
};

#define CUDA_CALLS(X)                                                                                        \
    X(cuInit, (unsigned flags))                                                                              \
    X(cuGetErrorString, (cuda_result r, const char **text))                                                  \
    X(cuDriverGetVersion, (int *version))                                                                    \
    X(cuDeviceGetCount, (int *n))                                                                            \
    X(cuDeviceGet, (cuda_device * d, int index))                                                             \
    X(cuDeviceGetName, (char *name, int size, cuda_device d))                                                \
    X(cuDeviceGetPCIBusId, (char *id, int size, cuda_device d))                                              \
    X(cuDeviceGetAttribute, (int *value, int attribute, cuda_device d))                                      \
    X(cuDeviceTotalMem_v2, (size_t * bytes, cuda_device d))                                                  \
    X(cuDeviceCanAccessPeer, (int *can, cuda_device from, cuda_device to))                                   \
    X(cuDevicePrimaryCtxRetain, (cuda_context * c, cuda_device d))                                           \
    X(cuCtxSetCurrent, (cuda_context c))                                                                     \
    X(cuCtxEnablePeerAccess, (cuda_context to, unsigned flags))                                              \
    X(cuMemGetInfo_v2, (size_t * free, size_t * total))                                                      \
    X(cuMemAlloc_v2, (cuda_address * p, size_t bytes))                                                       \
    X(cuMemFree_v2, (cuda_address p))                                                                        \
    X(cuMemHostAlloc, (void **p, size_t bytes, unsigned flags))                                              \
    X(cuMemFreeHost, (void *p))                                                                              \
    X(cuPointerGetAttribute, (void *value, int attribute, cuda_address p))                                   \
    X(cuMemcpyAsync, (cuda_address to, cuda_address from, size_t bytes, cuda_stream s))                      \
    X(cuMemsetD32Async, (cuda_address to, unsigned value, size_t n, cuda_stream s))                          \
    X(cuStreamCreate, (cuda_stream * s, unsigned flags))                                                     \
    X(cuStreamDestroy_v2, (cuda_stream s))                                                                   \
    X(cuStreamSynchronize, (cuda_stream s))                                                                  \
    X(cuStreamBeginCapture_v2, (cuda_stream s, int mode))                                                    \
    X(cuStreamEndCapture, (cuda_stream s, cuda_graph * g))                                                   \
    X(cuGraphInstantiateWithFlags, (cuda_graph_exec * e, cuda_graph g, unsigned long long flags))            \
    X(cuGraphUpload, (cuda_graph_exec e, cuda_stream s))                                                     \
    X(cuGraphLaunch, (cuda_graph_exec e, cuda_stream s))                                                     \
    X(cuGraphExecDestroy, (cuda_graph_exec e))                                                               \
    X(cuGraphDestroy, (cuda_graph g))                                                                        \
    X(cuEventCreate, (cuda_event * e, unsigned flags))                                                       \
    X(cuEventDestroy_v2, (cuda_event e))                                                                     \
    X(cuEventRecord, (cuda_event e, cuda_stream s))                                                          \
    X(cuEventRecordWithFlags, (cuda_event e, cuda_stream s, unsigned flags))                                 \
    X(cuEventQuery, (cuda_event e))                                                                          \
    X(cuEventSynchronize, (cuda_event e))                                                                    \
    X(cuEventElapsedTime, (float *ms, cuda_event from, cuda_event to))                                       \
    X(cuModuleLoadDataEx,                                                                                    \
      (cuda_module * m, const void *image, unsigned n_options, const int *options, void *const *values))     \
    X(cuModuleUnload, (cuda_module m))                                                                       \
    X(cuModuleGetFunction, (cuda_function * f, cuda_module m, const char *name))                             \
    X(cuFuncGetAttribute, (int *value, int attribute, cuda_function f))                                      \
    X(cuFuncSetAttribute, (cuda_function f, int attribute, int value))                                       \
    X(cuLaunchKernel,                                                                                        \
      (cuda_function f, unsigned groups_x, unsigned groups_y, unsigned groups_z, unsigned x, unsigned y,     \
       unsigned z, unsigned shared, cuda_stream s, void **arguments, void **extra))

struct cuda {
#define CUDA_MEMBER(name, parameters) cuda_result(*name) parameters;
    CUDA_CALLS(CUDA_MEMBER)
#undef CUDA_MEMBER
};
extern struct cuda cuda;

/* Finds the library and its entries. False: not here; says why on stderr. */
bool cuda_open(void);
/* A line on stderr if r is a failure; true if not. */
bool cuda_good(const char *call, cuda_result r);
#define CUDA(name, ...) cuda_good(#name, cuda.name(__VA_ARGS__))

#endif
