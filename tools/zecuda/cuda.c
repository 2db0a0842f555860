#include "cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

struct cuda cuda;

bool cuda_open(void) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "zecuda: %s: NVIDIA's driver is needed\n", dlerror());
        return false;
    }
    const char *missing = NULL;
#define CUDA_FIND(name, parameters)                                                                          \
    {                                                                                                        \
        void *p_ = dlsym(library, #name);                                                                    \
        memcpy(&cuda.name, &p_, sizeof p_);                                                                  \
        if (p_ == NULL)                                                                                      \
            missing = #name;                                                                                 \
    }
    CUDA_CALLS(CUDA_FIND)
#undef CUDA_FIND
    if (missing != NULL)
        fprintf(stderr, "zecuda: libcuda.so.1 has no %s: the driver is too old\n", missing);
    return missing == NULL;
}

bool cuda_good(const char *call, cuda_result r) {
    const char *text = NULL;
    if (r == 0)
        return true;
    if (cuda.cuGetErrorString(r, &text) != 0 || text == NULL)
        text = "unknown";
    fprintf(stderr, "zecuda: %s: %s (%d)\n", call, text, r);
    return false;
}
