#include "app/options/sampling_rows.h"

stator_sampling sampling_rows_get(const struct sampling_rows *s) {
    stator_sampling out = {0};
#define SAMPLING_NUMBER(name, NAME, ...)                                                                     \
    out.name = (float)s->name;                                                                               \
    out.has |= s->has_##name ? STATOR_HAS_##NAME : 0;
#define SAMPLING_COUNT(name, NAME, ...)                                                                      \
    out.name = (uint32_t)s->name;                                                                            \
    out.has |= s->has_##name ? STATOR_HAS_##NAME : 0;
#define SAMPLING_WINDOW SAMPLING_COUNT
#define SAMPLING_SEED(name, NAME, ...)                                                                       \
    out.name = s->name;                                                                                      \
    out.has |= s->has_##name ? STATOR_HAS_##NAME : 0;
#include "config/sampling.def"
    return out;
}
