/* The calls of MPI that the ranks of a run need, with errors and deadlines; and where this process stands.
 * Only built with MPI=... (make MPI=openmpi stator-mpi).
 *
 * Threads: begin and end by the thread that runs main; in between one thread at a time calls (the engine's
 * from its start to its end). */
#ifndef STATOR_DEVICE_REMOTE_MPI_H
#define STATOR_DEVICE_REMOTE_MPI_H

#include "device/device.h"

#include <mpi.h>

/* A receive that is set up once and started again and again. */
struct remote_receive {
    MPI_Request request;
    void *memory;
};

/* Of the calling thread: short naps between looks are as short as they are asked for (else 50 us longer). */
void remote_mpi_light_sleeper(void);
/* Sets it up and starts it. bytes: the most that may come. */
stator_status remote_mpi_receive(struct remote_receive *r, void *memory, uint64_t bytes, uint32_t from,
                                 int tag, stator_error *e);
/* Whether a message has come; *bytes of it. */
stator_status remote_mpi_arrived(struct remote_receive *r, bool *arrived, uint64_t *bytes, stator_error *e);
/* The next one may come. */
stator_status remote_mpi_again(struct remote_receive *r, stator_error *e);
void remote_mpi_forget(struct remote_receive *r);

/* Begins a send; *request is free (MPI_REQUEST_NULL), and memory is the message's until it is sent. */
stator_status remote_mpi_send(MPI_Request *request, const void *memory, uint64_t bytes, uint32_t to, int tag,
                              stator_error *e);
stator_status remote_mpi_sent(MPI_Request *request, bool *sent, stator_error *e);
/* Waits for it, at most timeout_ns; then it is given up. */
bool remote_mpi_flush(MPI_Request *request, uint64_t timeout_ns);

#endif
