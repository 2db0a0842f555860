#include "engine/resolved_config.h"

#include "engine/engine.h"

stator_status resolved_config_load(const char *path, const char *const *set, size_t n_set, struct config *out,
                                   stator_error *e) {
    stator_options o = {.size = sizeof o, .config = path, .set = set, .n_set = n_set, .described = 1};
    stator *s = NULL;
    stator_status st = stator_open(&o, &s, e);
    if (st != STATOR_OK)
        return st;
    st = stator_plan(s, e);
    *out = s->planning.config;
    stator_close(s);
    return st == STATOR_DOES_NOT_FIT ? STATOR_OK : st;
}
