/* The options of sampling, the same for all commands that generate text: rows of config/sampling.def. A
 * command's table of options has them where it includes app/options/sampling_rows.def. */
#ifndef STATOR_APP_SAMPLING_ROWS_H
#define STATOR_APP_SAMPLING_ROWS_H

#include "app/options/options.h"
#include "stator.h"

struct sampling_rows { /* what was given */
#define SAMPLING_NUMBER(name, ...)                                                                           \
    double name;                                                                                             \
    bool has_##name;
#define SAMPLING_COUNT(name, ...)                                                                            \
    uint64_t name;                                                                                           \
    bool has_##name;
#define SAMPLING_WINDOW SAMPLING_COUNT
#define SAMPLING_SEED   SAMPLING_COUNT
#include "config/sampling.def"
};

stator_sampling sampling_rows_get(const struct sampling_rows *s);

#endif
