#include "engine/arguments.h"

stator_status arguments_missing(stator_error *e, const char *call, const char *name) {
    return error_set(e, STATOR_USAGE, "%s: %s is NULL", call, name);
}

stator_status arguments_wrong_size(stator_error *e, const char *call, const char *name, size_t size,
                                   size_t least, size_t known) {
    if (size > known)
        return error_set(
            e, STATOR_USAGE,
            "%s: %s.size is %zu, this library knows %zu bytes: it is to be sizeof the struct, and "
            "the program's stator.h not newer than the library",
            call, name, size, known);
    return error_set(e, STATOR_USAGE,
                     "%s: %s.size is %zu: sizeof the struct is expected (%zu here, never below %zu)", call,
                     name, size, known, least);
}
