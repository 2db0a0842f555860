/* What tests may call in libzesim.so besides Level Zero. The loader opens the library privately: open it once
 * more with dlopen(path, RTLD_NOW | RTLD_NOLOAD) and look these up with dlsym. */
#ifndef ZESIM_H
#define ZESIM_H

#include <stdint.h>

#pragma GCC visibility push(default)

/* Begins a new section of the log, from now to the next mark. */
void zesim_mark(const char *name);

/* A counter's value since the driver was loaded, or since the latest mark of that name (README.md lists the
 * counters). A counter that nothing has touched is 0; an unknown mark is a fatal error. */
uint64_t zesim_count(const char *counter);
uint64_t zesim_count_since(const char *mark, const char *counter);

/* Writes the log now, to path or (NULL) to the file of the key `log`. 0, or an errno. */
int zesim_write_log(const char *path);

#pragma GCC visibility pop

#endif
