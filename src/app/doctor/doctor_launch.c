/* How mpiexec has started this: the ranks' hosts, versions and processors (stator-mpi only). */
#include "app/doctor/doctor.h"

#include "device/cluster.h"
#include "device/device.h"

#include <string.h>

/* The name of rank r in "a,b", or "". */
static void wanted_host(const char *hosts, uint32_t r, char out[64]) {
    for (; r > 0 && *hosts != '\0'; r--)
        hosts += strcspn(hosts, ",") + (hosts[strcspn(hosts, ",")] == ',');
    snprintf(out, 64, "%.*s", (int)(strcspn(hosts, ",") < 63 ? strcspn(hosts, ",") : 63), hosts);
}

static void check_rank(struct doctor *d, const struct device_cluster_member *m, uint32_t r,
                       const char *hosts) {
    char subject[48];
    char wanted[64];
    snprintf(subject, sizeof subject, "rank %u", r);
    wanted_host(hosts, r, wanted);
    if (strcmp(m[r].version, m[0].version) != 0)
        doctor_add(d, DOCTOR_PROBLEM, subject, "install the same stator-mpi on all hosts",
                   "stator %s on host %s; rank 0 has %s", m[r].version, m[r].host, m[0].version);
    else if (strcmp(m[r].library, m[0].library) != 0)
        doctor_add(d, DOCTOR_PROBLEM, subject, "install the same MPI on all hosts",
                   "%s on host %s; rank 0 has %s", m[r].library, m[r].host, m[0].library);
    else if (wanted[0] != '\0' && strcmp(wanted, m[r].host) != 0)
        doctor_add(d, DOCTOR_PROBLEM, subject,
                   "give mpiexec the hosts in the order of the stages (--host A,B or a hostfile)",
                   "it runs on host %s, %s is expected", m[r].host, wanted);
    else
        doctor_add(d, DOCTOR_OK, subject, "", "host %s, stator %s, %s", m[r].host, m[r].version,
                   m[r].library);
    if (m[r].crowded != 0)
        doctor_add(d, DOCTOR_NOTE, subject, "mpiexec --bind-to core, or one rank a host (--map-by node)",
                   "another rank of host %s may run on the same processors: neither is pinned", m[r].host);
}

void doctor_launch(struct doctor *d, const char *hosts) {
    static struct device_cluster_member members[DEVICE_MAX];
    const struct device_cluster c = device_cluster();
    stator_error e = {0};
    if (c.size < 2)
        return;
    if (device_cluster_roll(members, &e) != STATOR_OK) {
        doctor_add(d, DOCTOR_PROBLEM, "mpiexec", "", "%s", e.text);
        return;
    }
    for (uint32_t r = 0; r < c.size && c.rank == 0; r++)
        check_rank(d, members, r, hosts);
}
