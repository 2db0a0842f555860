/* The build without MPI: a process is a run of its own. */
#include "device/cluster.h"

#include "base/check.h"

#ifndef STATOR_MPI

struct device_cluster device_cluster(void) {
    return (struct device_cluster){0};
}

stator_status device_cluster_begin(int *argc, char ***argv, stator_error *e) {
    (void)argc;
    (void)argv;
    (void)e;
    return STATOR_OK;
}

void device_cluster_end(int code) {
    (void)code;
}

stator_status device_cluster_meet(const char *hash, uint64_t timeout_ns, stator_error *e) {
    (void)hash;
    (void)timeout_ns;
    (void)e;
    return STATOR_OK;
}

stator_status device_cluster_roll(struct device_cluster_member *out, stator_error *e) {
    (void)out;
    (void)e;
    return STATOR_OK;
}

void device_cluster_refuse(const stator_error *why) {
    (void)why;
}

stator_status device_cluster_serve(const struct device_serving *serving, stator_error *e) {
    (void)serving;
    (void)e;
    CHECK(!"a stage of a build without MPI");
    return STATOR_FAILED;
}

void device_cluster_tend(void) {}

uint64_t device_cluster_serve_bytes(const struct device_model *m, uint32_t n) {
    (void)m;
    (void)n;
    return 0;
}

stator_status device_cluster_watch(uint64_t deadline_ns, stator_error *e) {
    (void)deadline_ns;
    (void)e;
    return STATOR_OK;
}

stator_status device_cluster_probe(const struct device_link *in, const struct device_link *out,
                                   uint64_t bytes, bool verify, uint64_t deadline_ns, struct device_route *r,
                                   stator_error *e) {
    (void)in;
    (void)out;
    (void)bytes;
    (void)verify;
    (void)deadline_ns;
    (void)r;
    (void)e;
    return STATOR_OK;
}

void device_cluster_weights(const char *hash) {
    (void)hash;
}

bool device_cluster_lost(void) {
    return false;
}

stator_status device_cluster_ready(stator_status st, const stator_error *why, stator_error *e) {
    (void)st;
    (void)why;
    (void)e;
    return STATOR_OK;
}

#endif
