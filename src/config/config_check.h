/* The checks that need more than one key, and the lists of devices.use and devices.split taken apart. */
#ifndef STATOR_CONFIG_CONFIG_CHECK_H
#define STATOR_CONFIG_CONFIG_CHECK_H

#include "config/config.h"

/* Every key is set and inside its own bounds; name: the file, for errors. */
stator_status config_check(struct config *c, const char *name, stator_error *e);

/* text[0..n) without outer blanks, into out; false if it does not fit. */
bool config_check_trim(const char *text, size_t n, char *out, size_t capacity);

#endif
