/* The config as an engine on it would see it: what depends on the model and the machine (context, logits
 * rows, threads, host limit) filled in, with the origin "derived". For `stator config`. */
#ifndef STATOR_ENGINE_RESOLVED_CONFIG_H
#define STATOR_ENGINE_RESOLVED_CONFIG_H

#include "config/config.h"

/* Errors as stator_open's. A plan that does not fit is none: the values are those that were asked for. */
stator_status resolved_config_load(const char *path, const char *const *set, size_t n_set, struct config *out,
                                   stator_error *e);

#endif
