/* For mpi_overlap.sh, between stator-mpi and MPI: proves by events, not by times, that two stages work at
 * once. Whenever rank 0 looks at messages in the middle of a step of its own (MPI_Iprobe: nothing else calls
 * it) and rank 1 has a step whose end rank 0 does not know, rank 0's step stands still until rank 1 has ended
 * that one. Where rank 1 does not work meanwhile, or its residual stream does not reach it, that is never.
 * With MPI_GATE_HOLDS rank 1 tells no end before the next step is on its way to it (a second at most: the
 * last one has none), so that two are under way. */
#include <fcntl.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { TO_NEXT = 4, TO_NEXT_TOO = 5, DONE = 16, NO_SLOT = 2 }; /* remote_wire.h */

struct end {
    uint32_t device, slot;
};

static struct { _Atomic int given, ended; /* steps of rank 1 */ } * both; /* processes' */
static int rank = -1, taken, together, never, last;
static struct {
    MPI_Request *request;
    const struct end *end;
} waits[8];
static int n_waits;

int MPI_Init_thread(int *argc, char ***argv, int wanted, int *provided) {
    int rc = PMPI_Init_thread(argc, argv, wanted, provided);
    int f = open(getenv("MPI_GATE"), O_RDWR);
    both = mmap(NULL, sizeof *both, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
    if (both == MAP_FAILED)
        abort();
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rc;
}

int MPI_Recv_init(void *memory, int n, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *r) {
    if (rank == 0 && tag >= DONE && from == 1 && n_waits < 8) {
        waits[n_waits].request = r;
        waits[n_waits++].end = memory;
    }
    return PMPI_Recv_init(memory, n, type, from, tag, comm, r);
}

int MPI_Test(MPI_Request *r, int *done, MPI_Status *status) {
    int rc = PMPI_Test(r, done, status);
    for (int i = 0; i < n_waits && *done; i++)
        taken += waits[i].request == r && waits[i].end->slot < NO_SLOT;
    return rc;
}

int MPI_Isend(const void *memory, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *r) {
    const int step = rank == 1 && tag >= DONE && ((const struct end *)memory)->slot < NO_SLOT;
    for (int i = 0; step && getenv("MPI_GATE_HOLDS") != NULL && i < 1000 && both->given < both->ended + 2;
         i++)
        usleep(1000);
    int rc = PMPI_Isend(memory, n, type, to, tag, comm, r);
    both->given += rank == 0 && (tag == TO_NEXT || tag == TO_NEXT_TOO);
    both->ended += step;
    return rc;
}

int MPI_Iprobe(int from, int tag, MPI_Comm comm, int *some, MPI_Status *status) {
    int rc = PMPI_Iprobe(from, tag, comm, some, status), n = 0;
    if (rank != 0 || taken == both->given || last == both->given || getenv("MPI_GATE_HOLDS") != NULL)
        return rc;
    for (; n < 10000 && both->ended < both->given; n++) {
        usleep(1000);
        PMPI_Iprobe(from, tag, comm, some, status);
    }
    together += n < 10000;
    never += n == 10000;
    last = both->given;
    return rc;
}

int MPI_Finalize(void) {
    if (rank == 0)
        fprintf(stderr, "gate: %d steps given, %d of them computed while rank 0 was in a step, %d not\n",
                both->given, together, never);
    return PMPI_Finalize();
}
