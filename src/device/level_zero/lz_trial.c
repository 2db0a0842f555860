#include "device/level_zero/lz_trial.h"

#include "base/arith.h"
#include "base/units.h"
#include "device/level_zero/system/lz_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROOM_LEAST ((uint64_t)256 << 20) /* the loader and a driver without its compiler */
#define PATIENCE   30                    /* seconds for the trial: drivers take less than one */

/* Bytes that `resource` leaves; UINT64_MAX: it is not limited. field: of /proc/self/status, what is used. */
static uint64_t headroom(int resource, const char *field) {
    struct rlimit limit;
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    uint64_t used = 0;
    char line[128];
    size_t n = strlen(field);
    FILE *f = fopen("/proc/self/status", "re");
    if (f == NULL)
        return 0;
    while (fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, field, n) == 0 && line[n] == ':')
            (void)sscanf(line + n + 1, "%" SCNu64, &used);
    fclose(f);
    used *= 1024;
    return limit.rlim_cur > used ? limit.rlim_cur - used : 0;
}

/* In the child: what lz_system will do first, where drivers allocate most. Says nothing. */
static void try_drivers(void) {
    struct lz_calls ze;
    const struct rlimit none = {0, 0};
    /* What the program does about these is not for here. */
    const int ending[] = {SIGABRT, SIGALRM, SIGBUS, SIGSEGV};
    for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++)
        (void)signal(ending[i], SIG_DFL);
    (void)alarm(PATIENCE);
    (void)setrlimit(RLIMIT_CORE, &none);
    int quiet = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (quiet >= 0) {
        (void)dup2(quiet, STDOUT_FILENO);
        (void)dup2(quiet, STDERR_FILENO);
    }
    if (lz_calls_open(&ze, NULL) != STATOR_OK || ze.zeInit(ZE_INIT_FLAG_GPU_ONLY) != ZE_RESULT_SUCCESS)
        return;
    ze_driver_handle_t drivers[8];
    uint32_t n = 8;
    if (ze.zeDriverGet(&n, drivers) != ZE_RESULT_SUCCESS)
        return;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t gpus = 0;
        (void)ze.zeDeviceGet(drivers[i], &gpus, NULL);
    }
}

stator_status lz_trial(stator_error *e) {
    uint64_t space = headroom(RLIMIT_AS, "VmSize"), data = headroom(RLIMIT_DATA, "VmData");
    uint64_t left = ARITH_MIN(space, data);
    const char *limit = space <= data ? "address space (ulimit -v)" : "data (ulimit -d)";
    char size[UNITS_TEXT], least[UNITS_TEXT];
    if (left == UINT64_MAX)
        return STATOR_OK;
    units_format_size(left, size);
    if (left < ROOM_LEAST)
        return error_set(
            e, STATOR_DEVICE,
            "Level Zero is not loaded: this process's limit of %s leaves %s, its loader and drivers "
            "need %s and more, and end the process without: raise the limit",
            limit, size, units_format_size(ROOM_LEAST, least));
    pid_t child = fork();
    if (child < 0)
        return error_set(
            e, STATOR_DEVICE,
            "Level Zero is not loaded: with this process's limit of %s it has to be tried in a child "
            "first, and none can be made: %s",
            limit, strerror(errno));
    if (child == 0) {
        try_drivers();
        _exit(0);
    }
    int status = 0;
    pid_t ended = 0;
    do
        ended = waitpid(child, &status, 0);
    while (ended < 0 && errno == EINTR);
    if (ended == child && WIFEXITED(status))
        return STATOR_OK;
    return error_set(
        e, STATOR_DEVICE,
        "Level Zero is not loaded: tried in a child process, its loader or driver ended with signal "
        "%d; this process's limit of %s leaves %s: raise it",
        ended == child && WIFSIGNALED(status) ? WTERMSIG(status) : 0, limit, size);
}
