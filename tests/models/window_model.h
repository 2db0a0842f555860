/* A small model with a window (gemma3 or gpt-oss) in memory, for tests of caches. */
#ifndef STATOR_TESTS_WINDOW_MODEL_H
#define STATOR_TESTS_WINDOW_MODEL_H

#include "testing.h"

#include "app/selftest/selftest_model.h"
#include "formats/block.h"

#include <string.h>

/* Makes it. Returns its descriptor, which the caller closes; path names it. */
static inline int window_model_make(const char *architecture, uint32_t context, uint32_t window,
                                    char path[SELFTEST_MODEL_PATH]) {
    const struct selftest_model m = {.architecture = architecture,
                                     .type = BLOCK_F16,
                                     .n_layers = 7,
                                     .n_embd = 64,
                                     .n_ff = 96,
                                     .n_heads = 2,
                                     .n_kv_heads = 1,
                                     .head_dim = 32,
                                     .vocab = 97,
                                     .context = context,
                                     .window = window,
                                     .experts = strcmp(architecture, "gpt-oss") == 0 ? 5 : 0,
                                     .used = 2,
                                     .seed = 9};
    int fd = -1;
    stator_error e = {0};
    if (selftest_model_make(&m, &fd, path, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    return fd;
}

#endif
