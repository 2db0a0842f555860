/* At the start, before the first step: the residual stream's way over every boundary, there and back, with
 * patterned data of three sizes, compared and timed. It is also what makes the MPI library take what it
 * keeps: connections, and buffers for messages of these sizes. */
#include "base/arith.h"
#include "base/check.h"
#include "base/clock.h"
#include "device/cluster.h"
#include "device/remote/remote_mpi.h"
#include "device/remote/remote_wire.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define SIZES   3
#define SPIN_NS 200000 /* as a step is waited for */

/* Of one size. */
struct round {
    uint64_t bytes;
    uint32_t times;
};

static void rounds_of(uint64_t most, struct round out[SIZES]) {
    out[0] = (struct round){ARITH_MIN(most, (uint64_t)64), 100};
    out[1] = (struct round){ARITH_MIN(most, (uint64_t)16384), 130};
    out[2] = (struct round){most, 4};
}

/* Both ends know what is sent. */
static void fill(float *window, uint64_t bytes, uint32_t seed) {
    uint32_t *words = (uint32_t *)(void *)window;
    for (uint64_t i = 0; i < bytes / sizeof *words; i++)
        words[i] = seed = seed * 1664525u + 1013904223u;
}

static bool same(const float *window, uint64_t bytes, uint32_t seed) {
    const uint32_t *words = (const uint32_t *)(const void *)window;
    for (uint64_t i = 0; i < bytes / sizeof *words; i++)
        if (words[i] != (seed = seed * 1664525u + 1013904223u))
            return false;
    return true;
}

/* What a peer does next. */
struct peer {
    uint32_t rank;
    uint64_t deadline_ns;
};

static stator_status finish(MPI_Request *request, const struct peer *p, stator_error *e) {
    const uint64_t began = clock_ns();
    for (;;) {
        bool done = false;
        stator_status st = remote_mpi_sent(request, &done, e);
        uint64_t passed = clock_ns() - began;
        if (st != STATOR_OK || done)
            return st;
        if (passed > p->deadline_ns)
            return error_set(
                e, STATOR_DEVICE,
                "rank %u did not answer a copy at the start within %.1f s (devices.deadline): it was "
                "stopped or killed, or the network to it is cut",
                p->rank, (double)p->deadline_ns * 1e-9);
        struct timespec pause = {.tv_nsec = 20000};
        if (passed > SPIN_NS)
            nanosleep(&pause, NULL);
    }
}

static stator_status receive(void *memory, uint64_t bytes, const struct peer *p, stator_error *e) {
    MPI_Request request = MPI_REQUEST_NULL;
    CHECK(bytes <= INT32_MAX);
    if (MPI_Irecv(memory, (int)bytes, MPI_BYTE, (int)p->rank, REMOTE_TAG_PROBE, MPI_COMM_WORLD, &request) !=
        MPI_SUCCESS)
        return error_set(e, STATOR_DEVICE, "rank %u: a copy at the start can't be received", p->rank);
    return finish(&request, p, e);
}

static stator_status send(const void *memory, uint64_t bytes, const struct peer *p, stator_error *e) {
    MPI_Request request = MPI_REQUEST_NULL;
    stator_status st = remote_mpi_send(&request, memory, bytes, p->rank, REMOTE_TAG_PROBE, e);
    return st == STATOR_OK ? finish(&request, p, e) : st;
}

/* A word says whether it came as it was sent. */
static stator_status answer(const struct device_link *in, const struct round *r, bool verify,
                            const struct peer *p, stator_error *e) {
    stator_status st = STATOR_OK;
    for (uint32_t i = 0; i < r->times && st == STATOR_OK; i++) {
        memset(in->window[0], 0, r->bytes);
        st = receive(in->window[0], r->bytes, p, e);
        if (st == STATOR_OK)
            st = send(in->window[0], r->bytes, p, e);
        if (st == STATOR_OK && verify && !same(in->window[0], r->bytes, i))
            st = error_set(e, STATOR_DEVICE, "a copy of %llu bytes from rank %u came damaged",
                           (unsigned long long)r->bytes, p->rank);
    }
    return st;
}

static stator_status ask(const struct device_link *out, const struct round *r, bool verify,
                         const struct peer *p, uint64_t *best_ns, stator_error *e) {
    stator_status st = STATOR_OK;
    *best_ns = UINT64_MAX;
    for (uint32_t i = 0; i < r->times && st == STATOR_OK; i++) {
        fill(out->window[0], r->bytes, i);
        memset(out->window[1], 0, r->bytes);
        uint64_t began = clock_ns();
        st = send(out->window[0], r->bytes, p, e);
        if (st == STATOR_OK)
            st = receive(out->window[1], r->bytes, p, e);
        *best_ns = ARITH_MIN(*best_ns, (clock_ns() - began) / 2);
        if (st == STATOR_OK && verify && !same(out->window[1], r->bytes, i))
            st = error_set(e, STATOR_DEVICE, "a copy of %llu bytes to rank %u and back came damaged",
                           (unsigned long long)r->bytes, p->rank);
    }
    return st;
}

stator_status device_cluster_probe(const struct device_link *in, const struct device_link *out,
                                   uint64_t bytes, bool verify, uint64_t deadline_ns, struct device_route *r,
                                   stator_error *e) {
    struct round rounds[SIZES];
    const uint32_t rank = device_cluster().rank;
    const struct peer before = {rank - 1, deadline_ns}, next = {rank + 1, deadline_ns};
    stator_status st = STATOR_OK;
    rounds_of(bytes, rounds);
    for (int i = 0; in != NULL && i < SIZES && st == STATOR_OK; i++)
        st = answer(in, &rounds[i], verify, &before, e);
    for (int i = 0; out != NULL && i < SIZES && st == STATOR_OK; i++) {
        uint64_t ns = 0;
        st = ask(out, &rounds[i], verify, &next, &ns, e);
        if (i == 0)
            r->latency_ns = ns;
        r->bytes_per_second = (uint64_t)((double)rounds[i].bytes * 1e9 / (double)ARITH_MAX(ns, (uint64_t)1));
    }
    return st;
}
