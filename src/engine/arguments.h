/* What the public calls demand of their arguments: pointers that are there, structs of a size that a header
 * had.
 *
 * A struct that is smaller than ours is one of an older header: what it lacks reads as zero and is not
 * written. A larger one is of a newer header than this library and is refused, so no byte beyond what we know
 * is ever touched. */
#ifndef STATOR_ENGINE_ARGUMENTS_H
#define STATOR_ENGINE_ARGUMENTS_H

#include "base/error.h"

#include <stddef.h>
#include <string.h>

__attribute__((cold)) stator_status arguments_missing(stator_error *e, const char *call, const char *name);
__attribute__((cold)) stator_status arguments_wrong_size(stator_error *e, const char *call, const char *name,
                                                         size_t size, size_t least, size_t known);

/* In a public call whose error is `e`: the argument p, spelled as in stator.h, must not be NULL. */
#define ARGUMENTS_NEED(p)                                                                                    \
    do {                                                                                                     \
        if (__builtin_expect((p) == NULL, 0))                                                                \
            return arguments_missing(e, __func__, #p);                                                       \
    } while (0)

/* The struct *p is there and has a size that a header had: at least up to `last`, the last field without
 * which the call makes no sense. */
#define ARGUMENTS_SIZED(p, last)                                                                             \
    do {                                                                                                     \
        ARGUMENTS_NEED(p);                                                                                   \
        size_t least_ = offsetof(__typeof__(*(p)), last) + sizeof(p)->last;                                  \
        if (__builtin_expect((p)->size < least_ || (p)->size > sizeof *(p) ||                                \
                                 (p)->size % _Alignof(__typeof__(*(p))) != 0,                                \
                             0))                                                                             \
            return arguments_wrong_size(e, __func__, #p, (p)->size, least_, sizeof *(p));                    \
    } while (0)

/* What *p says into *to, a struct of ours; the sizes were looked at. */
#define ARGUMENTS_READ(to, p) (memset((to), 0, sizeof *(to)), memcpy((to), (p), (p)->size))
/* What a struct of ours says into *p, as far as that goes. */
#define ARGUMENTS_WRITE(p, from) ((from)->size = (p)->size, memcpy((p), (from), (p)->size))

#endif
