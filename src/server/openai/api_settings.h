/* The settings that an answer was generated with, as JSON: what the request asked for, and the config's
 * values where it said nothing. Names and numbers are those of a request's fields. */
#ifndef STATOR_SERVER_API_SETTINGS_H
#define STATOR_SERVER_API_SETTINGS_H

#include "config/config.h"
#include "stator.h"

#include <stdint.h>

struct json;

/* Sampling parameters, as members of the open object: those whose bits (STATOR_HAS_..) are in `which`. asked:
 * NULL if there is no request. A random seed and a window over all tokens are -1. */
void api_settings_put_sampling(struct json *j, const struct config_sampling *config,
                               const stator_sampling *asked, uint32_t which);

#endif
