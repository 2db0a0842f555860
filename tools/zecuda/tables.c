/* The tables of functions that the loader asks for, made from entries.def. */
#include "zecuda.h"

static ze_result_t unsupported(void) {
    return ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
}

/* All slots of a table are function pointers; a slot without an entry point ignores its arguments. */
static void fill(void *table, size_t size) {
    ze_result_t (*f)(void) = unsupported;
    for (size_t i = 0; i < size / sizeof f; i++)
        ((ze_result_t(**)(void))table)[i] = f;
}

#define TABLE(api, Name, name)                                                                               \
    ZE_DLLEXPORT ze_result_t ZE_APICALL api##Get##Name##ProcAddrTable(ze_api_version_t version,              \
                                                                      api##_##name##_dditable_t *table) {    \
        if (table == NULL)                                                                                   \
            return ZE_RESULT_ERROR_INVALID_NULL_POINTER;                                                     \
        if (ZE_MAJOR_VERSION(version) != 1)                                                                  \
            return ZE_RESULT_ERROR_UNSUPPORTED_VERSION;                                                      \
        fill(table, sizeof *table);
#define ENTRY(function, slot) table->pfn##slot = function;
#define END(api, Name)                                                                                       \
    return ZE_RESULT_SUCCESS;                                                                                \
    }
#include "entries.def"
