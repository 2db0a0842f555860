/* What the shell may have limited (ulimit), made harmless before a command begins: a small stack, the signal
 * that a limit on file sizes sends. Called once, by main. */
#ifndef STATOR_APP_LIMITS_H
#define STATOR_APP_LIMITS_H

/* f(argc, argv), on a thread with a stack of its own where the process's is limited to less than commands and
 * drivers need. */
int limits_call(int (*f)(int argc, char **argv), int argc, char **argv);

#endif
