/* Modules and kernels: SPIR-V is looked up by its checksum in the folder of the files that ptx_of made from
 * it. */
#include "zecuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PATH 1024

/* What the command cksum prints: CRC-32 as POSIX has it. */
static uint32_t checksum(const uint8_t *p, size_t n) {
    uint32_t c = 0;
    size_t length = n;
    for (size_t i = 0; i < n + 8; i++) {
        uint8_t byte = 0;
        if (i < n)
            byte = p[i];
        else if (length != 0)
            byte = (uint8_t)length, length >>= 8;
        else
            break;
        c ^= (uint32_t)byte << 24;
        for (int b = 0; b < 8; b++)
            c = c << 1 ^ (c >> 31 ? 0x04C11DB7u : 0);
    }
    return ~c;
}

/* $ZECUDA, or the folder "ptx" beside this library. */
static void folder(char path[MAX_PATH]) {
    Dl_info self;
    const char *given = getenv("ZECUDA");
    if (given != NULL)
        snprintf(path, MAX_PATH, "%s", given);
    else if (dladdr(&driver, &self) != 0 && strrchr(self.dli_fname, '/') != NULL)
        snprintf(path, MAX_PATH, "%.*s/ptx", (int)(strrchr(self.dli_fname, '/') - self.dli_fname),
                 self.dli_fname);
    else
        snprintf(path, MAX_PATH, "ptx");
}

/* The file's bytes with a zero after them; NULL: there is no file. */
static char *read_file(const char *path) {
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    size_t n = 0;
    if (f == NULL)
        return NULL;
    if (fseek(f, 0, SEEK_END) == 0 && ftell(f) > 0) {
        n = (size_t)ftell(f);
        rewind(f);
        text = calloc(1, n + 1);
        if (text != NULL && fread(text, 1, n, f) != n) {
            free(text);
            text = NULL;
        }
    }
    fclose(f);
    return text;
}

/* NAME.ptx has the lines about kernels; NAME.cubin, made from it by ptxas, is used when it is there. */
static bool load(struct module *m, const char *name) {
    char path[MAX_PATH + 64];
    char log[2048] = "";
    const int options[] = {CUDA_JIT_ERROR_LOG, CUDA_JIT_ERROR_LOG_BYTES};
    void *const values[] = {log, (void *)sizeof log};
    snprintf(path, sizeof path, "%s.cubin", name);
    char *image = read_file(path);
    bool good = CUDA(cuModuleLoadDataEx, &m->module, image != NULL ? image : m->text, 2, options, values);
    free(image);
    if (!good)
        fprintf(stderr, "zecuda: %s: %s\n", name, log);
    return good;
}

static bool open_module(struct module *m, struct device *d, const char *file) {
    char path[MAX_PATH];
    char name[MAX_PATH + 32];
    char ptx[MAX_PATH + 64];
    folder(path);
    snprintf(name, sizeof name, "%s/%s", path, file);
    snprintf(ptx, sizeof ptx, "%s.ptx", name);
    m->device = d;
    m->text = read_file(ptx);
    if (m->text == NULL)
        fprintf(stderr, "zecuda: no %s: make it with `make zecuda`\n", ptx);
    return m->text != NULL && load(m, name);
}

bool module_own(struct device *d, const char *name, cuda_function *f) {
    struct module m = {0};
    bool good = device_enter(d) && open_module(&m, d, name) && CUDA(cuModuleGetFunction, f, m.module, name);
    free(m.text);
    return good;
}

ze_result_t ZE_APICALL zeModuleCreate(ze_context_handle_t c, ze_device_handle_t h,
                                      const ze_module_desc_t *desc, ze_module_handle_t *out,
                                      ze_module_build_log_handle_t *log) {
    (void)c;
    char file[32];
    if (log != NULL)
        *log = NULL;
    if (desc->format != ZE_MODULE_FORMAT_IL_SPIRV)
        return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
    struct module *m = calloc(1, sizeof *m);
    if (m == NULL || !device_enter((struct device *)h)) {
        free(m);
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    }
    snprintf(file, sizeof file, "%u-%zu", checksum(desc->pInputModule, desc->inputSize), desc->inputSize);
    if (!open_module(m, (struct device *)h, file)) {
        free(m->text);
        free(m);
        return ZE_RESULT_ERROR_MODULE_BUILD_FAILURE;
    }
    *out = (ze_module_handle_t)m;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeModuleDestroy(ze_module_handle_t h) {
    struct module *m = (struct module *)h;
    if (device_enter(m->device))
        (void)CUDA(cuModuleUnload, m->module);
    free(m->text);
    free(m);
    return ZE_RESULT_SUCCESS;
}

/* There are no build logs: what goes wrong is said on stderr. */
ze_result_t ZE_APICALL zeModuleBuildLogGetString(ze_module_build_log_handle_t h, size_t *n, char *text) {
    (void)h;
    if (text != NULL && *n != 0)
        text[0] = '\0';
    *n = 1;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeModuleBuildLogDestroy(ze_module_build_log_handle_t h) {
    (void)h;
    return ZE_RESULT_SUCCESS;
}

/* "//kernel NAME KINDS" of the kernel. */
static bool find_kinds(const struct module *m, struct kernel *k) {
    const char *line = m->text;
    char name[sizeof k->name];
    for (; strncmp(line, "//kernel ", 9) == 0; line = strchr(line, '\n') + 1)
        if (sscanf(line, "//kernel %127s %64s", name, k->kinds) == 2 && strcmp(name, k->name) == 0)
            return true;
    return false;
}

ze_result_t ZE_APICALL zeKernelCreate(ze_module_handle_t h, const ze_kernel_desc_t *desc,
                                      ze_kernel_handle_t *out) {
    struct module *m = (struct module *)h;
    struct kernel *k = calloc(1, sizeof *k);
    if (k == NULL)
        return ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY;
    k->module = m;
    snprintf(k->name, sizeof k->name, "%s", desc->pKernelName);
    if (!find_kinds(m, k) || !device_enter(m->device) ||
        !CUDA(cuModuleGetFunction, &k->function, m->module, k->name) ||
        !CUDA(cuFuncSetAttribute, k->function, CUDA_FUNCTION_MOST_DYNAMIC_SHARED, LOCAL_AT_MOST)) {
        free(k);
        return ZE_RESULT_ERROR_INVALID_KERNEL_NAME;
    }
    k->n_args = (uint32_t)strlen(k->kinds);
    k->group[0] = k->group[1] = k->group[2] = 1;
    *out = (ze_kernel_handle_t)k;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeKernelDestroy(ze_kernel_handle_t h) {
    free(h);
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeKernelGetProperties(ze_kernel_handle_t h, ze_kernel_properties_t *p) {
    const struct kernel *k = (const struct kernel *)h;
    int local = 0;
    p->numKernelArgs = k->n_args;
    p->requiredGroupSizeX = p->requiredGroupSizeY = p->requiredGroupSizeZ = 0;
    p->requiredNumSubGroups = p->requiredSubgroupSize = 0;
    p->maxSubgroupSize = 32;
    p->maxNumSubgroups = 16;
    p->localMemSize = 0;
    if (device_enter(k->module->device))
        (void)CUDA(cuFuncGetAttribute, &local, CUDA_FUNCTION_LOCAL_BYTES, k->function);
    p->privateMemSize = p->spillMemSize = (uint32_t)local;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeKernelSetGroupSize(ze_kernel_handle_t h, uint32_t x, uint32_t y, uint32_t z) {
    struct kernel *k = (struct kernel *)h;
    k->group[0] = x, k->group[1] = y, k->group[2] = z;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeKernelSetArgumentValue(ze_kernel_handle_t h, uint32_t index, size_t size,
                                                const void *value) {
    struct kernel *k = (struct kernel *)h;
    if (index >= k->n_args)
        return ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_INDEX;
    size_t wanted = k->kinds[index] == 'b' ? 8 : 4;
    bool local = k->kinds[index] == 'l';
    if (local ? value != NULL : size != wanted || value == NULL)
        return ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_SIZE;
    k->values[index] = size;
    if (!local) {
        k->values[index] = 0;
        memcpy(&k->values[index], value, size);
    }
    return ZE_RESULT_SUCCESS;
}
