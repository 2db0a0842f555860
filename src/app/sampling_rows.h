/* The options of sampling, the same for all commands that generate text. */
#ifndef STATOR_APP_SAMPLING_ROWS_H
#define STATOR_APP_SAMPLING_ROWS_H

#include "app/options.h"
#include "stator.h"

struct sampling_rows { /* what was given */
    uint64_t top_k, seed;
    double temperature, top_p, min_p, repeat_penalty, presence_penalty, frequency_penalty;
    bool has_temperature, has_top_k, has_top_p, has_min_p, has_repeat_penalty, has_presence_penalty,
        has_frequency_penalty, has_seed;
};

/* Rows of a table of options. */
#define SAMPLING_ROWS(s)                                                                                     \
    {.name = "temp",                                                                                         \
     .kind = OPTIONS_NUMBER,                                                                                 \
     .target = &(s)->temperature,                                                                            \
     .value = "T",                                                                                           \
     .key = "sampling.temperature",                                                                          \
     .given = &(s)->has_temperature,                                                                         \
     .help = "temperature; 0 takes the most likely token"},                                                  \
        {.name = "top-k",                                                                                    \
         .kind = OPTIONS_U64,                                                                                \
         .target = &(s)->top_k,                                                                              \
         .value = "K",                                                                                       \
         .key = "sampling.top_k",                                                                            \
         .given = &(s)->has_top_k,                                                                           \
         .help = "only the K most likely tokens (0: all)"},                                                  \
        {.name = "top-p",                                                                                    \
         .kind = OPTIONS_NUMBER,                                                                             \
         .target = &(s)->top_p,                                                                              \
         .value = "P",                                                                                       \
         .key = "sampling.top_p",                                                                            \
         .given = &(s)->has_top_p,                                                                           \
         .help = "only the most likely tokens that together have probability P (1: all, 0: the first one)"}, \
        {.name = "min-p",                                                                                    \
         .kind = OPTIONS_NUMBER,                                                                             \
         .target = &(s)->min_p,                                                                              \
         .value = "P",                                                                                       \
         .key = "sampling.min_p",                                                                            \
         .given = &(s)->has_min_p,                                                                           \
         .help = "only tokens at least P times as likely as the most likely one (0: all)"},                  \
        {.name = "repeat-penalty",                                                                           \
         .kind = OPTIONS_NUMBER,                                                                             \
         .target = &(s)->repeat_penalty,                                                                     \
         .value = "R",                                                                                       \
         .key = "sampling.repeat_penalty",                                                                   \
         .given = &(s)->has_repeat_penalty,                                                                  \
         .help = "penalty on the last 64 tokens (1: none)"},                                                 \
        {.name = "presence-penalty",                                                                         \
         .kind = OPTIONS_NUMBER,                                                                             \
         .target = &(s)->presence_penalty,                                                                   \
         .value = "P",                                                                                       \
         .key = "sampling.presence_penalty",                                                                 \
         .given = &(s)->has_presence_penalty,                                                                \
         .help = "penalty on tokens that were generated already (0: none)"},                                 \
        {.name = "frequency-penalty",                                                                        \
         .kind = OPTIONS_NUMBER,                                                                             \
         .target = &(s)->frequency_penalty,                                                                  \
         .value = "F",                                                                                       \
         .key = "sampling.frequency_penalty",                                                                \
         .given = &(s)->has_frequency_penalty,                                                               \
         .help = "the same for every time that they were (0: none)"},                                        \
    {                                                                                                        \
        .name = "seed", .kind = OPTIONS_U64, .target = &(s)->seed, .value = "S", .given = &(s)->has_seed,    \
        .help = "seed of the random numbers"                                                                 \
    }

stator_sampling sampling_rows_get(const struct sampling_rows *s);

#endif
