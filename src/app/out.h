/* What every command does at its ends: errors for people on stderr, and the check that all of stdout was
 * written. */
#ifndef STATOR_APP_OUT_H
#define STATOR_APP_OUT_H

#include "stator.h"

#include <stdio.h>

/* Prints "stator COMMAND: text" on stderr; the text has no final period or newline. Returns the exit code. */
__attribute__((format(printf, 3, 4))) int out_fail(const char *command, stator_status code, const char *fmt,
                                                   ...);
int out_error(const char *command, const stator_error *e);

/* Flushes stdout. Returns code, or, when code is 0 and something could not be written (a full disk),
 * STATOR_FAILED, with a message; without one when the reader closed its end of a pipe. Every command returns
 * through it. */
int out_finish(const char *command, int code);

/* The same, and before it the error e where st is one: how a command ends that did its work with st. */
int out_end(const char *command, stator_status st, const stator_error *e);

/* A file that an option names ("--output"); "-" is standard output. NULL: it can't be written, e says why. */
FILE *out_open(const char *option, const char *path, stator_error *e);
/* Closes what out_open gave. st: the result of writing so far. Returns st, or STATOR_FAILED when not
 * everything could be written (for standard output out_finish reports it). A regular file is then removed, so
 * that no partial file looks complete. */
stator_status out_close(FILE *f, const char *option, const char *path, stator_status st, stator_error *e);

#endif
