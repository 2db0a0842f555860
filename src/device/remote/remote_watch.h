/* Between the meeting of the ranks and the seal: each is heard of, or lost. A thread of its own says several
 * times in a deadline that this rank lives, however long a file takes to read or a kernel to compile; rank 0
 * hears all, the others hear rank 0. It ends when all have loaded, or one can't.
 *
 * Threads: what sets receives up meanwhile (remote_mpi_receive) takes turns with it. */
#ifndef STATOR_DEVICE_REMOTE_WATCH_H
#define STATOR_DEVICE_REMOTE_WATCH_H

#include <stdbool.h>

/* One thread at a time calls MPI. */
void remote_watch_enter(void);
void remote_watch_leave(void);
/* All have loaded, and wait for commands. */
bool remote_watch_going(void);

#endif
