/* A run over several hosts: how its processes meet, watch each other and run their stages. device.h is the
 * contract of one device; this is what the engine and the commands call besides it. */
#ifndef STATOR_DEVICE_CLUSTER_H
#define STATOR_DEVICE_CLUSTER_H

#include "device/device.h"

/* A run over several hosts (config: cluster.stages), each with a process of its own, a rank of MPI. Without
 * MPI, as stator is built by default, size is 0 and the rest does nothing. */
struct device_cluster {
    uint32_t size;          /* ranks; 0: this is no such run */
    uint32_t rank;          /* of this process: its stage */
    bool crowded;           /* ranks of this host may run on the same processors */
    uint64_t library_bytes; /* private memory that MPI_Init took */
    char library[64];       /* what it is: "Open MPI v4.1.4" */
};
struct device_cluster device_cluster(void);
/* At the program's start and end, by its main thread. end: may not return, when a rank is lost. */
stator_status device_cluster_begin(int *argc, char ***argv, stator_error *e);
void device_cluster_end(int code);
/* Who is there, for people; all ranks call it. */
struct device_cluster_member {
    char host[64], version[32], library[64];
    uint32_t crowded;
};
/* Rank r's into out[r]; out has room for DEVICE_MAX. STATOR_USAGE: there are more ranks. */
stator_status device_cluster_roll(struct device_cluster_member *out, stator_error *e);
/* Before a weight is read: all ranks have this plan. STATOR_DOES_NOT_FIT, or the error of a rank that
 * refuses. */
stator_status device_cluster_meet(const char *hash, uint64_t timeout_ns, stator_error *e);
/* Instead of that, by a rank that comes no further: tells the others why. Once; nothing after meet. */
void device_cluster_refuse(const stator_error *why);
/* When all have loaded: copies over the boundaries to the stages before and behind this one (NULL: none), of
 * `bytes` at most, compared (verify) and timed into *r, which is that of the boundary behind. */
stator_status device_cluster_probe(const struct device_link *in, const struct device_link *out,
                                   uint64_t bytes, bool verify, uint64_t deadline_ns, struct device_route *r,
                                   stator_error *e);
/* A device of this host's stage, prepared, and its links. */
struct device_stage {
    struct device *device;
    const struct device_model *model;
    const struct device_link *in, *out;
};
/* Called when rank 0 asks, to fill figures and text. */
struct device_notes {
    void (*take)(void *context, struct device_note *out);
    void *context;
};
struct device_serving {
    const struct device_stage *stages; /* by device of the run */
    uint32_t first, end, all;          /* this rank has the devices first .. end - 1 of `all` */
    bool together;                     /* they are a group of a tensor split */
    uint64_t deadline_ns;              /* rank 0 is lost when it is silent for so long */
    const struct device_notes *notes;
    void *memory; /* of device_cluster_serve_bytes */
    uint64_t bytes;
};
/* The life of a rank above 0 between its start and rank 0's end: runs the steps that rank 0 sends. */
stator_status device_cluster_serve(const struct device_serving *serving, stator_error *e);
/* By a device that computes inside submit, every now and then: what is on the way to and from other hosts
 * goes on. MPI moves large messages only while it is called, so the next stage would wait for the whole step.
 */
void device_cluster_tend(void);
/* Host bytes that this takes. */
uint64_t device_cluster_serve_bytes(const struct device_model *m, uint32_t n);
/* After meet: from now on a rank that is silent for deadline_ns is lost, and all end. */
stator_status device_cluster_watch(uint64_t deadline_ns, stator_error *e);
/* Under that watch: a hash of this rank's weights (32 digits). A rank with others fails all
 * (STATOR_BAD_MODEL). */
void device_cluster_weights(const char *hash);
/* Whether one is, or has failed: loading is of no use then. */
bool device_cluster_lost(void);
/* Ends that: tells the others whether this rank has loaded, and waits until all have. An error: another
 * rank's. */
stator_status device_cluster_ready(stator_status st, const stator_error *why, stator_error *e);

#endif
