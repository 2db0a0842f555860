/* What src/device/remote needs of MPI's header, for the simulator of hosts. tests/sim/sim_hosts.h sends and
 * receives in place of an MPI library. */
#ifndef STATOR_TESTS_SIM_MPI_H
#define STATOR_TESTS_SIM_MPI_H

typedef struct sim_request *MPI_Request;
typedef int MPI_Datatype, MPI_Comm;
#define MPI_REQUEST_NULL ((MPI_Request)0)
#define MPI_SUCCESS      0
#define MPI_BYTE         1
#define MPI_COMM_WORLD   0

int MPI_Irecv(void *memory, int n, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request);

#endif
