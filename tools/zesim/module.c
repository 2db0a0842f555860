/* Modules, build logs and kernels. A native binary is the SPIR-V behind a header with the driver's version,
 * so that a program's cache of binaries is exercised, also with binaries of another version. */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct build_log {
    struct object object;
    char *text;
};

struct native_header {
    char magic[8];
    uint32_t version, device_id;
    uint64_t size, check;
};
static const char native_magic[8] = "zesim\x1a\n";

static uint64_t check_sum(const uint8_t *p, size_t n) {
    uint64_t h = 0xCBF29CE484222325ull;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001B3ull;
    return h;
}

static bool known_flags(const char *flags) {
    static const char *const known[] = {"-ze-opt-disable",
                                        "-ze-opt-greater-than-4GB-buffer-required",
                                        "-ze-opt-large-register-file",
                                        "-ze-opt-has-buffer-offset-arg",
                                        "-ze-opt-level",
                                        "-g"};
    char *copy = strdup(flags), *next = NULL;
    bool good = copy != NULL;
    for (char *f = good ? strtok_r(copy, " ", &next) : NULL; f != NULL && good;
         f = strtok_r(NULL, " ", &next)) {
        size_t i = 0, n = sizeof known / sizeof known[0];
        while (i < n && strcmp(f, known[i]) != 0 &&
               !(strcmp(known[i], "-ze-opt-level") == 0 && strncmp(f, "-ze-opt-level=", 14) == 0))
            i++;
        good = i < n;
        if (!good)
            violation("unknown build flag %s", f);
    }
    free(copy);
    return good;
}

/* The SPIR-V of the description, or NULL. */
static const uint8_t *input(const struct device *d, const ze_module_desc_t *desc, size_t *size,
                            ze_result_t *r) {
    *size = desc->inputSize;
    if (desc->format == ZE_MODULE_FORMAT_IL_SPIRV)
        return desc->pInputModule;
    struct native_header h;
    *r = ZE_RESULT_ERROR_INVALID_NATIVE_BINARY;
    if (desc->inputSize < sizeof h)
        return NULL;
    memcpy(&h, desc->pInputModule, sizeof h);
    if (memcmp(h.magic, native_magic, sizeof h.magic) != 0 || h.version != SIM_DRIVER_VERSION ||
        h.device_id != d->device_id || h.size != desc->inputSize - sizeof h ||
        h.check != check_sum(desc->pInputModule + sizeof h, h.size))
        return NULL;
    *size = h.size;
    return desc->pInputModule + sizeof h;
}

static ze_result_t check_sub_groups(const struct device *d, const struct code *code) {
    for (unsigned long i = 0; i < code->n_kernels; i++) {
        uint32_t wanted = code->kernels[i].sub_group, j = 0;
        while (j < d->n_sub_groups && d->sub_groups[j] != wanted)
            j++;
        if (wanted != 0 && j == d->n_sub_groups) {
            violation("kernel %s requires a sub-group size of %u, which %s has not", code->kernels[i].name,
                      wanted, device_name(d));
            return ZE_RESULT_ERROR_MODULE_BUILD_FAILURE;
        }
    }
    return ZE_RESULT_SUCCESS;
}

static ze_result_t create(struct context *c, struct device *d, const ze_module_desc_t *desc, char **log,
                          struct module **made) {
    ze_result_t r = ZE_RESULT_ERROR_INVALID_ARGUMENT;
    size_t size;
    if (desc->pBuildFlags != NULL && !known_flags(desc->pBuildFlags))
        return ZE_RESULT_ERROR_MODULE_BUILD_FAILURE;
    if (desc->pConstants != NULL && desc->pConstants->numConstants != 0)
        return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
    const uint8_t *spirv = input(d, desc, &size, &r);
    if (spirv == NULL)
        return r;
    const struct code *code = compile_spirv(spirv, size, log, &r);
    if (code != NULL)
        r = check_sub_groups(d, code);
    if (code == NULL || r != ZE_RESULT_SUCCESS)
        return r;
    struct module *m = objects_new(KIND_MODULE, sizeof *m);
    m->context = c, m->device = d, m->code = code;
    m->spirv = malloc(size);
    if (m->spirv == NULL)
        fatal("out of memory for a module");
    memcpy(m->spirv, spirv, size);
    m->spirv_size = size;
    m->large_buffers = desc->pBuildFlags != NULL &&
                       strstr(desc->pBuildFlags, "-ze-opt-greater-than-4GB-buffer-required") != NULL;
    *made = m;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeModuleCreate(ze_context_handle_t context, ze_device_handle_t device,
                                      const ze_module_desc_t *desc, ze_module_handle_t *handle,
                                      ze_module_build_log_handle_t *log_handle) {
    ENTER(zeModuleCreate);
    GET(struct context, c, KIND_CONTEXT, context);
    GET(struct device, d, KIND_DEVICE, device);
    if (desc == NULL || handle == NULL || desc->pInputModule == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    if (desc->inputSize == 0)
        return ZE_RESULT_ERROR_INVALID_SIZE;
    if (desc->format != ZE_MODULE_FORMAT_IL_SPIRV && desc->format != ZE_MODULE_FORMAT_NATIVE)
        return ZE_RESULT_ERROR_INVALID_ENUMERATION;
    char *log = NULL;
    ze_result_t r = create(c, d, desc, &log, (struct module **)handle);
    if (log_handle != NULL) {
        struct build_log *l = objects_new(KIND_BUILD_LOG, sizeof *l);
        l->text = log != NULL ? log : strdup("");
        *log_handle = (ze_module_build_log_handle_t)l;
    } else
        free(log);
    return r;
}

ze_result_t ZE_APICALL zeModuleDestroy(ze_module_handle_t handle) {
    ENTER(zeModuleDestroy);
    GET(struct module, m, KIND_MODULE, handle);
    if (m->kernels != 0) /* Intel's driver lets it pass */
        violation("%s is destroyed while %u of its kernels live", objects_name(m), m->kernels);
    objects_kill(m); /* its SPIR-V stays: kernels that live on name it in their properties */
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeModuleGetNativeBinary(ze_module_handle_t handle, size_t *size, uint8_t *binary) {
    ENTER(zeModuleGetNativeBinary);
    GET(struct module, m, KIND_MODULE, handle);
    if (size == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    struct native_header h = {.version = SIM_DRIVER_VERSION,
                              .device_id = (uint32_t)m->device->device_id,
                              .size = m->spirv_size,
                              .check = check_sum(m->spirv, m->spirv_size)};
    memcpy(h.magic, native_magic, sizeof h.magic);
    size_t whole = sizeof h + m->spirv_size;
    if (binary != NULL && *size < whole)
        return ZE_RESULT_ERROR_INVALID_SIZE;
    if (binary != NULL) {
        memcpy(binary, &h, sizeof h);
        memcpy(binary + sizeof h, m->spirv, m->spirv_size);
    }
    *size = whole;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeModuleGetKernelNames(ze_module_handle_t handle, uint32_t *n, const char **names) {
    ENTER(zeModuleGetKernelNames);
    GET(struct module, m, KIND_MODULE, handle);
    if (n == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    if (*n == 0 || *n > m->code->n_kernels)
        *n = (uint32_t)m->code->n_kernels;
    for (uint32_t i = 0; names != NULL && i < *n; i++)
        names[i] = m->code->kernels[i].name;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeModuleGetProperties(ze_module_handle_t handle, ze_module_properties_t *properties) {
    ENTER(zeModuleGetProperties);
    GET(struct module, m, KIND_MODULE, handle);
    (void)m;
    if (properties == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    properties->flags = 0;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeModuleBuildLogDestroy(ze_module_build_log_handle_t handle) {
    ENTER(zeModuleBuildLogDestroy);
    GET(struct build_log, l, KIND_BUILD_LOG, handle);
    free(l->text);
    l->text = NULL;
    objects_kill(l);
    return ZE_RESULT_SUCCESS;
}

/* A text out by the API's habit: the size alone, or as much as fits. */
static ze_result_t give_text(const char *text, size_t *size, char *out) {
    size_t whole = strlen(text) + 1;
    if (size == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    if (out != NULL && *size < whole)
        return ZE_RESULT_ERROR_INVALID_SIZE;
    if (out != NULL)
        memcpy(out, text, whole);
    *size = whole;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeModuleBuildLogGetString(ze_module_build_log_handle_t handle, size_t *size,
                                                 char *text) {
    ENTER(zeModuleBuildLogGetString);
    GET(struct build_log, l, KIND_BUILD_LOG, handle);
    return give_text(l->text, size, text);
}

/* ---- kernels */
ze_result_t ZE_APICALL zeKernelCreate(ze_module_handle_t module, const ze_kernel_desc_t *desc,
                                      ze_kernel_handle_t *handle) {
    ENTER(zeKernelCreate);
    GET(struct module, m, KIND_MODULE, module);
    if (desc == NULL || handle == NULL || desc->pKernelName == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    unsigned long i = 0;
    while (i < m->code->n_kernels && strcmp(m->code->kernels[i].name, desc->pKernelName) != 0)
        i++;
    if (i == m->code->n_kernels)
        return ZE_RESULT_ERROR_INVALID_KERNEL_NAME;
    struct kernel *k = objects_new(KIND_KERNEL, sizeof *k);
    k->module = m, k->code = &m->code->kernels[i];
    m->kernels++;
    size_t n = k->code->n_args + 1;
    k->set = calloc(n, sizeof *k->set);
    k->local_size = calloc(n, sizeof *k->local_size);
    k->values = calloc(n, MODULE_ARG_SLOT);
    if (k->set == NULL || k->local_size == NULL || k->values == NULL)
        fatal("out of memory for a kernel");
    for (int d = 0; d < 3; d++)
        k->group[d] = k->code->group[d] != 0 ? k->code->group[d] : 1;
    k->group_set = k->code->group[0] != 0;
    *handle = (ze_kernel_handle_t)k;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeKernelDestroy(ze_kernel_handle_t handle) {
    ENTER(zeKernelDestroy);
    GET(struct kernel, k, KIND_KERNEL, handle);
    if (k->in_flight != 0) {
        violation("kernel %s is destroyed while launches in flight use it", k->code->name);
        return ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE;
    }
    free(k->set);
    free(k->local_size);
    free(k->values);
    k->module->kernels--;
    objects_kill(k);
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeKernelSetArgumentValue(ze_kernel_handle_t handle, uint32_t index, size_t size,
                                                const void *value) {
    ENTER(zeKernelSetArgumentValue);
    GET(struct kernel, k, KIND_KERNEL, handle);
    if (index >= k->code->n_args)
        return ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_INDEX;
    const struct code_arg *a = &k->code->args[index];
    unsigned char *slot = k->values + (size_t)index * MODULE_ARG_SLOT;
    if (a->kind == CODE_LOCAL) {
        if (value != NULL || size == 0)
            return ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_SIZE;
        k->local_size[index] = size;
    } else if (size != a->size || size > MODULE_ARG_SLOT) {
        violation("kernel %s: argument %u is given %zu bytes, it has %lu", k->code->name, index, size,
                  a->size);
        return ZE_RESULT_ERROR_INVALID_KERNEL_ARGUMENT_SIZE;
    } else if (value == NULL && a->kind == CODE_VALUE) {
        return ZE_RESULT_ERROR_INVALID_ARGUMENT;
    } else {
        const void *p = NULL;
        if (a->kind == CODE_BUFFER && value != NULL)
            memcpy(&p, value, sizeof p);
        const struct allocation *m = p != NULL ? memory_find(p, 1) : NULL;
        if (p != NULL && (m == NULL || m->freed)) {
            violation("kernel %s: argument %u, %p, points to no live allocation", k->code->name, index, p);
            return ZE_RESULT_ERROR_INVALID_ARGUMENT;
        }
        if (value != NULL)
            memcpy(slot, value, size);
        else
            memset(slot, 0, size);
    }
    k->set[index] = true;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeKernelSetGroupSize(ze_kernel_handle_t handle, uint32_t x, uint32_t y, uint32_t z) {
    ENTER(zeKernelSetGroupSize);
    GET(struct kernel, k, KIND_KERNEL, handle);
    const unsigned *wanted = k->code->group;
    if (x == 0 || y == 0 || z == 0 || (uint64_t)x * y > k->module->device->max_group ||
        (uint64_t)x * y * z > k->module->device->max_group)
        return ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION;
    if (wanted[0] != 0 && (wanted[0] != x || wanted[1] != y || wanted[2] != z)) {
        violation("kernel %s requires groups of %u x %u x %u", k->code->name, wanted[0], wanted[1],
                  wanted[2]);
        return ZE_RESULT_ERROR_INVALID_GROUP_SIZE_DIMENSION;
    }
    k->group[0] = x, k->group[1] = y, k->group[2] = z;
    k->group_set = true;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeKernelSuggestGroupSize(ze_kernel_handle_t handle, uint32_t x, uint32_t y, uint32_t z,
                                                uint32_t *group_x, uint32_t *group_y, uint32_t *group_z) {
    ENTER(zeKernelSuggestGroupSize);
    GET(struct kernel, k, KIND_KERNEL, handle);
    if (group_x == NULL || group_y == NULL || group_z == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    if (x == 0 || y == 0 || z == 0)
        return ZE_RESULT_ERROR_INVALID_GLOBAL_WIDTH_DIMENSION;
    const unsigned *wanted = k->code->group;
    *group_x = 256, *group_y = *group_z = 1;
    while (x % *group_x != 0)
        *group_x /= 2;
    if (wanted[0] != 0)
        *group_x = wanted[0], *group_y = wanted[1], *group_z = wanted[2];
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeKernelSetGlobalOffsetExp(ze_kernel_handle_t handle, uint32_t x, uint32_t y,
                                                  uint32_t z) {
    ENTER(zeKernelSetGlobalOffsetExp);
    GET(struct kernel, k, KIND_KERNEL, handle);
    k->offset[0] = x, k->offset[1] = y, k->offset[2] = z;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeKernelSetCacheConfig(ze_kernel_handle_t handle, ze_cache_config_flags_t flags) {
    ENTER(zeKernelSetCacheConfig);
    GET(struct kernel, k, KIND_KERNEL, handle);
    (void)k;
    return flags > (ZE_CACHE_CONFIG_FLAG_LARGE_SLM | ZE_CACHE_CONFIG_FLAG_LARGE_DATA)
               ? ZE_RESULT_ERROR_INVALID_ENUMERATION
               : ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeKernelSetIndirectAccess(ze_kernel_handle_t handle,
                                                 ze_kernel_indirect_access_flags_t flags) {
    ENTER(zeKernelSetIndirectAccess);
    GET(struct kernel, k, KIND_KERNEL, handle);
    k->indirect |= flags;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeKernelGetIndirectAccess(ze_kernel_handle_t handle,
                                                 ze_kernel_indirect_access_flags_t *flags) {
    ENTER(zeKernelGetIndirectAccess);
    GET(struct kernel, k, KIND_KERNEL, handle);
    if (flags == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    *flags = k->indirect;
    return ZE_RESULT_SUCCESS;
}

ze_result_t ZE_APICALL zeKernelGetSourceAttributes(ze_kernel_handle_t handle, uint32_t *size, char **text) {
    ENTER(zeKernelGetSourceAttributes);
    GET(struct kernel, k, KIND_KERNEL, handle);
    (void)k;
    if (size == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    size_t whole = *size;
    ze_result_t r = give_text("", &whole, text != NULL ? *text : NULL);
    *size = (uint32_t)whole;
    return r;
}

ze_result_t ZE_APICALL zeKernelGetName(ze_kernel_handle_t handle, size_t *size, char *name) {
    ENTER(zeKernelGetName);
    GET(struct kernel, k, KIND_KERNEL, handle);
    return give_text(k->code->name, size, name);
}

ze_result_t ZE_APICALL zeKernelGetProperties(ze_kernel_handle_t handle, ze_kernel_properties_t *p) {
    ENTER(zeKernelGetProperties);
    GET(struct kernel, k, KIND_KERNEL, handle);
    if (p == NULL)
        return ZE_RESULT_ERROR_INVALID_NULL_POINTER;
    const struct code_kernel *c = k->code;
    const struct device *d = k->module->device;
    p->numKernelArgs = c->n_args;
    p->requiredGroupSizeX = c->group[0], p->requiredGroupSizeY = c->group[1],
    p->requiredGroupSizeZ = c->group[2];
    p->requiredNumSubGroups = 0;
    p->requiredSubgroupSize = c->sub_group;
    p->maxSubgroupSize = c->sub_group != 0 ? c->sub_group : (uint32_t)d->sub_group;
    p->maxNumSubgroups = (uint32_t)((d->max_group + p->maxSubgroupSize - 1) / p->maxSubgroupSize);
    p->localMemSize = 0;
    for (uint32_t i = 0; i < c->n_locals; i++)
        p->localMemSize += (uint32_t)c->locals[i].size;
    p->privateMemSize = p->spillMemSize = 0;
    memset(&p->uuid, 0, sizeof p->uuid);
    uint64_t h = check_sum(k->module->spirv, k->module->spirv_size),
             n = check_sum((const uint8_t *)c->name, strlen(c->name));
    memcpy(p->uuid.mid, &h, sizeof h);
    memcpy(p->uuid.kid, &n, sizeof n);
    for (ze_base_properties_t *e = p->pNext; e != NULL; e = e->pNext)
        if (e->stype == ZE_STRUCTURE_TYPE_KERNEL_PREFERRED_GROUP_SIZE_PROPERTIES)
            ((ze_kernel_preferred_group_size_properties_t *)e)->preferredMultiple = p->maxSubgroupSize;
    return ZE_RESULT_SUCCESS;
}
