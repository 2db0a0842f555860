#include "device/remote/remote_mpi.h"

#include "base/check.h"
#include "base/clock.h"
#include "device/cluster.h"
#include "device/remote/remote_watch.h"
#include "os/host_memory.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define INIT_SECONDS 120
#define TEND_NS      100000 /* between two looks at messages while a step is computed */
#define TEND_PART    50     /* of that time, what they may take, */
#define TEND_MOST_NS 1000000ull

static struct device_cluster here; /* of this process; written by begin */
static bool met;                   /* device_cluster_meet was there */
static bool rolled;                /* device_cluster_roll was: no run, all are there to the end */

struct device_cluster device_cluster(void) {
    return here;
}

static stator_status fault(const char *call, int rc, stator_error *e) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int n = 0;
    if (MPI_Error_string(rc, text, &n) != MPI_SUCCESS)
        snprintf(text, sizeof text, "error %d", rc);
    return error_set(e, STATOR_DEVICE, "rank %u: %s: %.300s", here.rank, call, text);
}

#define CALL(f, ...)                                                                                         \
    do {                                                                                                     \
        int rc_ = f(__VA_ARGS__);                                                                            \
        if (rc_ != MPI_SUCCESS)                                                                              \
            return fault(#f, rc_, e);                                                                        \
    } while (0)

/* MPI_Init waits for all ranks, and no config with a deadline is read yet. */
static void nobody_came(int number) {
    static const char text[] = "stator: MPI_Init has not returned within 120 s: a rank has not started, was "
                               "stopped, or can't be reached (a firewall?)\n";
    (void)number;
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(STATOR_DEVICE);
}

/* The first words of what it says: "Open MPI v4.1.4, package: .." */
static void name_library(void) {
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int n = 0;
    if (MPI_Get_library_version(text, &n) == MPI_SUCCESS)
        text[strcspn(text, ",\n")] = '\0';
    for (char *c = text; *c != '\0'; c++)
        *c = *c == '\t' ? ' ' : *c;
    snprintf(here.library, sizeof here.library, "%.63s", text);
}

/* Whether another rank of this host has a processor of ours. */
static stator_status find_crowd(stator_error *e) {
    static cpu_set_t sets[DEVICE_MAX];
    cpu_set_t own, both;
    MPI_Comm host;
    int n = 0, me = 0;
    CPU_ZERO(&own);
    (void)sched_getaffinity(0, sizeof own, &own);
    CALL(MPI_Comm_split_type, MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
    CALL(MPI_Comm_size, host, &n);
    CALL(MPI_Comm_rank, host, &me);
    if (n <= DEVICE_MAX) /* more have no stages */
        CALL(MPI_Allgather, &own, sizeof own, MPI_BYTE, sets, sizeof own, MPI_BYTE, host);
    for (int i = 0; i < n && n <= DEVICE_MAX; i++) {
        CPU_AND(&both, &own, &sets[i]);
        here.crowded = here.crowded || (i != me && CPU_COUNT(&both) > 0);
    }
    CALL(MPI_Comm_free, &host);
    return STATOR_OK;
}

stator_status device_cluster_begin(int *argc, char ***argv, stator_error *e) {
    int provided = 0, size = 0, rank = 0;
    const uint64_t before = host_memory_private();
    signal(SIGALRM, nobody_came);
    alarm(INIT_SECONDS);
    CALL(MPI_Init_thread, argc, argv, MPI_THREAD_SERIALIZED, &provided);
    alarm(0);
    signal(SIGALRM, SIG_DFL);
    const uint64_t after = host_memory_private();
    CALL(MPI_Comm_set_errhandler, MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CALL(MPI_Comm_size, MPI_COMM_WORLD, &size);
    CALL(MPI_Comm_rank, MPI_COMM_WORLD, &rank);
    here = (struct device_cluster){
        .size = (uint32_t)size, .rank = (uint32_t)rank, .library_bytes = after > before ? after - before : 0};
    name_library();
    if (provided < MPI_THREAD_SERIALIZED)
        return error_set(
            e, STATOR_FAILED,
            "this MPI library was built without threads (MPI_THREAD_SERIALIZED is needed, level %d "
            "is there)",
            provided);
    return here.size > 1 ? find_crowd(e) : STATOR_OK;
}

stator_status device_cluster_roll(struct device_cluster_member *out, stator_error *e) {
    struct device_cluster_member own = {.crowded = here.crowded};
    if (here.size > DEVICE_MAX)
        return error_set(e, STATOR_USAGE, "mpiexec has started %u ranks; at most %d have stages", here.size,
                         DEVICE_MAX);
    if (gethostname(own.host, sizeof own.host - 1) != 0)
        snprintf(own.host, sizeof own.host, "?");
    snprintf(own.version, sizeof own.version, "%s", STATOR_VERSION);
    snprintf(own.library, sizeof own.library, "%s", here.library);
    CALL(MPI_Allgather, &own, sizeof own, MPI_BYTE, out, sizeof own, MPI_BYTE, MPI_COMM_WORLD);
    rolled = true;
    return STATOR_OK;
}

static void nap(void) {
    struct timespec pause = {.tv_nsec = 50000};
    nanosleep(&pause, NULL);
}

/* What every rank tells the others before a weight is read. */
struct meeting {
    uint32_t status;
    char version[32];
    char hash[64];
    char text[256];
};

static stator_status gather(const struct meeting *mine, struct meeting *all, uint64_t timeout_ns,
                            stator_error *e) {
    MPI_Request request = MPI_REQUEST_NULL;
    int done = 0;
    CALL(MPI_Iallgather, mine, sizeof *mine, MPI_BYTE, all, sizeof *all, MPI_BYTE, MPI_COMM_WORLD, &request);
    for (uint64_t end = clock_ns() + timeout_ns; !done;) {
        CALL(MPI_Test, &request, &done, MPI_STATUS_IGNORE);
        if (!done && clock_ns() > end)
            return error_set(e, STATOR_DEVICE,
                             "rank %u: not all of the %u ranks were there after %.0f s (devices.deadline)",
                             here.rank, here.size, (double)timeout_ns * 1e-9);
        if (!done)
            nap();
    }
    return STATOR_OK;
}

/* Everybody's against rank 0's. */
static stator_status compare(const struct meeting *all, stator_error *e) {
    for (uint32_t i = 0; i < here.size; i++)
        if (all[i].status != STATOR_OK && i != here.rank)
            return error_set(e, (stator_status)all[i].status, "rank %u: %.200s", i, all[i].text);
    for (uint32_t i = 1; i < here.size; i++) {
        if (strcmp(all[i].version, all[0].version) != 0)
            return error_set(e, STATOR_DOES_NOT_FIT, "rank %u is stator %.31s, rank 0 is %.31s", i,
                             all[i].version, all[0].version);
        if (strcmp(all[i].hash, all[0].hash) != 0)
            return error_set(
                e, STATOR_DOES_NOT_FIT,
                "rank %u has plan %.40s, rank 0 has %.40s: the model files, the configs or the devices "
                "of the hosts differ (`stator plan --json` on both shows where)",
                i, all[i].hash, all[0].hash);
    }
    return STATOR_OK;
}

static stator_status meet(const struct meeting *mine, uint64_t timeout_ns, stator_error *e) {
    met = true;
    struct meeting *all = calloc(here.size, sizeof *all);
    if (all == NULL)
        return error_set(e, STATOR_FAILED, "no memory to compare %u ranks", here.size);
    stator_status st = gather(mine, all, timeout_ns, e);
    if (st == STATOR_OK)
        st = compare(all, e);
    free(all);
    return st;
}

stator_status device_cluster_meet(const char *hash, uint64_t timeout_ns, stator_error *e) {
    struct meeting mine = {.status = STATOR_OK};
    snprintf(mine.version, sizeof mine.version, "%s", STATOR_VERSION);
    snprintf(mine.hash, sizeof mine.hash, "%s", hash);
    return meet(&mine, timeout_ns, e);
}

void device_cluster_refuse(const stator_error *why) {
    if (here.size < 2 || met)
        return;
    struct meeting mine = {.status = (uint32_t)why->code};
    stator_error other;
    snprintf(mine.text, sizeof mine.text, "%.255s", why->text);
    (void)meet(&mine, 10000000000ull, &other);
}

static volatile sig_atomic_t end_code;

static void gone(int number) {
    (void)number;
    _exit(end_code);
}

void device_cluster_end(int code) {
    if (here.size == 0)
        return;
    /* With a rank that is gone MPI_Finalize would wait for it; and where its host is, MPI_Abort too. */
    fflush(NULL);
    end_code = code;
    signal(SIGALRM, gone);
    const bool aborts = code == STATOR_DEVICE && here.size > 1 && !rolled;
    alarm(aborts ? 2 : 10);
    if (aborts)
        MPI_Abort(MPI_COMM_WORLD, code);
    MPI_Finalize();
}

void remote_mpi_light_sleeper(void) {
    (void)prctl(PR_SET_TIMERSLACK, 1000ul, 0ul, 0ul, 0ul);
}

void device_cluster_tend(void) {
    static uint64_t last_ns; /* the engine's thread alone calls */
    uint64_t now = clock_ns();
    const uint64_t passed = now - last_ns;
    if (!remote_watch_going() || passed < TEND_NS)
        return;
    const uint64_t end = now + ARITH_MIN(passed / TEND_PART, TEND_MOST_NS);
    do {
        int some = 0;
        (void)MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &some, MPI_STATUS_IGNORE);
        now = clock_ns();
    } while (now < end);
    last_ns = now;
}

stator_status remote_mpi_receive(struct remote_receive *r, void *memory, uint64_t bytes, uint32_t from,
                                 int tag, stator_error *e) {
    CHECK(bytes <= INT32_MAX);
    r->memory = memory;
    r->request = MPI_REQUEST_NULL;
    remote_watch_enter();
    int rc = MPI_Recv_init(memory, (int)bytes, MPI_BYTE, (int)from, tag, MPI_COMM_WORLD, &r->request);
    stator_status st = rc == MPI_SUCCESS ? remote_mpi_again(r, e) : fault("MPI_Recv_init", rc, e);
    remote_watch_leave();
    return st;
}

stator_status remote_mpi_arrived(struct remote_receive *r, bool *arrived, uint64_t *bytes, stator_error *e) {
    int done = 0, n = 0;
    MPI_Status status;
    CALL(MPI_Test, &r->request, &done, &status);
    *arrived = done != 0;
    *bytes = 0;
    if (done) {
        CALL(MPI_Get_count, &status, MPI_BYTE, &n);
        *bytes = (uint64_t)n;
    }
    return STATOR_OK;
}

stator_status remote_mpi_again(struct remote_receive *r, stator_error *e) {
    CALL(MPI_Start, &r->request);
    return STATOR_OK;
}

void remote_mpi_forget(struct remote_receive *r) {
    if (r->request == MPI_REQUEST_NULL || r->memory == NULL)
        return;
    int done = 0;
    if (MPI_Test(&r->request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done)
        MPI_Cancel(&r->request);
    MPI_Request_free(&r->request);
    r->memory = NULL;
}

stator_status remote_mpi_send(MPI_Request *request, const void *memory, uint64_t bytes, uint32_t to, int tag,
                              stator_error *e) {
    CHECK(bytes <= INT32_MAX && *request == MPI_REQUEST_NULL);
    CALL(MPI_Isend, memory, (int)bytes, MPI_BYTE, (int)to, tag, MPI_COMM_WORLD, request);
    return STATOR_OK;
}

stator_status remote_mpi_sent(MPI_Request *request, bool *sent, stator_error *e) {
    int done = 0;
    CALL(MPI_Test, request, &done, MPI_STATUS_IGNORE);
    *sent = done != 0;
    return STATOR_OK;
}

bool remote_mpi_flush(MPI_Request *request, uint64_t timeout_ns) {
    for (uint64_t end = clock_ns() + timeout_ns;;) {
        int done = 0;
        if (MPI_Test(request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return false;
        if (done)
            return true;
        if (clock_ns() > end)
            return false;
        nap();
    }
}
