/* LLVM text of a device module to LLVM text for the host. */
#ifndef ZESIM_TRANSLATE_H
#define ZESIM_TRANSLATE_H

#include "sim.h"

/* One address space, the host's calling convention, a function per kernel that takes its arguments from an
 * array, and the tables of code.h. malloc'ed; NULL: *problem (malloc) says what is not understood. */
char *translate(const char *text, char **problem);

#endif
