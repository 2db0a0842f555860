#include "device/level_zero/lz_peer.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DEADLINE 10000000000ull /* ns, of one push, or less where devices.deadline is */
#define GUARD    64             /* bytes around the target that must not change */
#define REPEATS  5              /* of each timed push; the fastest counts */

/* A different byte at every place and in every round. */
static uint8_t pattern(uint64_t i, uint32_t round) {
    uint64_t x = (i + 1) * 0x9E3779B97F4A7C15ull + round * 0xBF58476D1CE4E5B9ull;
    return (uint8_t)(x >> 56);
}

static void refuse(struct device_route *r, const char *why) {
    *r = (struct device_route){.direct = false};
    snprintf(r->why, sizeof r->why, "%.*s", (int)sizeof r->why - 1, why);
}

static void refuse_damaged(struct device_route *r, uint64_t bad, uint64_t bytes, uint64_t offset) {
    char why[sizeof r->why];
    snprintf(why, sizeof why,
             "a pushed copy arrived damaged: byte %" PRIu64 " of %" PRIu64 " bytes at offset %" PRIu64, bad,
             bytes, offset);
    refuse(r, why);
}

/* One push with its time. False: it failed; r says why. */
static bool push(struct lz_queue *q, void *to, const void *from, uint64_t bytes, uint64_t *ns,
                 struct device_route *r) {
    stator_error why;
    uint64_t began = clock_ns();
    stator_status st = lz_queue_copy(q, to, from, bytes, &why);
    if (st == STATOR_OK)
        st = lz_queue_wait(q, &why);
    *ns = clock_ns() - began;
    if (st != STATOR_OK)
        refuse(r, why.text);
    return st == STATOR_OK;
}

/* What lies at the target before a push, and what is at the source. */
static stator_status prepare(const struct lz_peer *p, uint32_t round, stator_error *e) {
    for (uint64_t i = 0; i < p->bytes; i++)
        p->work[i] = pattern(i, round);
    memset(p->work + p->bytes, 0xA5, p->bytes);
    stator_status st = lz_queue_copy(p->from, p->source, p->work, p->bytes, e);
    if (st == STATOR_OK)
        st = lz_queue_wait(p->from, e);
    if (st == STATOR_OK)
        st = lz_queue_copy(p->to, p->target, p->work + p->bytes, p->bytes, e);
    if (st == STATOR_OK)
        st = lz_queue_wait(p->to, e);
    return st;
}

/* Reads the target back. *bad: the first byte that is wrong, or p->bytes. */
static stator_status compare(const struct lz_peer *p, uint32_t round, uint64_t from_at, uint64_t to_at,
                             uint64_t n, uint64_t *bad, stator_error *e) {
    uint8_t *got = p->work + p->bytes;
    memset(got, 0, p->bytes);
    stator_status st = lz_queue_copy(p->to, got, p->target, p->bytes, e);
    if (st == STATOR_OK)
        st = lz_queue_wait(p->to, e);
    if (st != STATOR_OK)
        return st;
    for (*bad = 0; *bad < p->bytes; (*bad)++) {
        bool inside = *bad >= to_at && *bad < to_at + n;
        uint8_t want = inside ? pattern(from_at + (*bad - to_at), round) : 0xA5;
        if (got[*bad] != want)
            break;
    }
    return STATOR_OK;
}

static stator_status verify(const struct lz_peer *p, struct lz_queue *q, struct device_route *r,
                            stator_error *e) {
    const struct {
        uint64_t from, to, n;
    } rounds[] = {
        {0, 0, 64},
        {GUARD, 2 * GUARD, 64},
        {4, 12, 4},
        {0, GUARD, p->bytes / 2},
        {100, 36, p->bytes / 4},
        {p->bytes / 2, GUARD, p->bytes / 4},
        {GUARD, 0, p->bytes - 2 * GUARD},
        {0, 0, p->bytes},
    };
    for (uint32_t i = 0; i < sizeof rounds / sizeof rounds[0]; i++) {
        stator_status st = prepare(p, i, e);
        if (st != STATOR_OK)
            return st;
        uint64_t ns = 0;
        if (!push(q, p->target + rounds[i].to, p->source + rounds[i].from, rounds[i].n, &ns, r))
            return STATOR_OK;
        uint64_t bad = 0;
        st = compare(p, i, rounds[i].from, rounds[i].to, rounds[i].n, &bad, e);
        if (st != STATOR_OK)
            return st;
        if (bad == p->bytes)
            continue;
        refuse_damaged(r, bad, rounds[i].n, rounds[i].to);
        return STATOR_OK;
    }
    return STATOR_OK;
}

static void measure(const struct lz_peer *p, struct lz_queue *q, struct device_route *r) {
    uint64_t best[2] = {UINT64_MAX, UINT64_MAX};
    for (int i = 0; i < REPEATS; i++) {
        for (int k = 0; k < 2; k++) {
            uint64_t ns = 0;
            if (!push(q, p->target, p->source, k == 0 ? 64 : p->bytes, &ns, r))
                return;
            best[k] = ARITH_MIN(best[k], ARITH_MAX(ns, 1u));
        }
    }
    r->latency_ns = best[0];
    r->bytes_per_second = (uint64_t)((double)p->bytes * 1e9 / (double)best[1]);
}

stator_status lz_peer_probe(struct lz_peer *p, struct device_route *r, stator_error *e) {
    CHECK(p->bytes >= LZ_PEER_LEAST && p->bytes % 64 == 0);
    const struct lz_gpu *from = p->from->gpu;
    const struct lz_gpu *to = p->to->gpu;
    *r = (struct device_route){.direct = true};
    ze_bool_t can = 0;
    if (from->driver != to->driver) {
        refuse(r, "the two GPUs have different drivers");
        return STATOR_OK;
    }
    ze_result_t said = p->from->ze->zeDeviceCanAccessPeer(from->handle, to->handle, &can);
    if (said != ZE_RESULT_SUCCESS || !can) {
        refuse(r, said != ZE_RESULT_SUCCESS
                      ? lz_calls_meaning(said)
                      : "the driver says that one cannot reach the memory of the other");
        return STATOR_OK;
    }
    struct lz_queue q;
    stator_status st =
        lz_queue_open(&q, p->from->ze, from, p->from->context, ARITH_MIN(p->from->deadline_ns, DEADLINE), e);
    if (st == STATOR_OK && p->verify)
        st = verify(p, &q, r, e);
    if (st == STATOR_OK && r->direct)
        measure(p, &q, r);
    lz_queue_close(&q);
    p->hangs = q.hangs;
    return st;
}

/* By the queue of each GPU in turn, through the second half of work. */
static stator_status stage(struct lz_peer *p, uint64_t bytes, uint64_t *ns, stator_error *e) {
    uint8_t *window = p->work + p->bytes;
    uint64_t began = clock_ns();
    stator_status st = lz_queue_copy(p->from, window, p->source, bytes, e);
    if (st == STATOR_OK)
        st = lz_queue_wait(p->from, e);
    if (st == STATOR_OK)
        st = lz_queue_copy(p->to, p->target, window, bytes, e);
    if (st == STATOR_OK)
        st = lz_queue_wait(p->to, e);
    *ns = clock_ns() - began;
    return st;
}

/* Pushes with a queue of its own; the first is compared. 0 in out if it failed; r says why. */
static stator_status time_direct(struct lz_peer *p, uint64_t bytes, struct device_route *r,
                                 struct device_info_copy *out, stator_error *e) {
    struct lz_queue q;
    struct lz_peer part = *p; /* prepare and compare look at as much as is copied */
    part.bytes = bytes;
    stator_status st = lz_queue_open(&q, p->from->ze, p->from->gpu, p->from->context,
                                     ARITH_MIN(p->from->deadline_ns, DEADLINE), e);
    if (st == STATOR_OK)
        st = prepare(&part, 0, e);
    uint64_t best = UINT64_MAX;
    for (int i = 0; st == STATOR_OK && r->direct && i < REPEATS; i++) {
        uint64_t ns = 0;
        uint64_t bad = bytes;
        if (push(&q, p->target, p->source, bytes, &ns, r) && i == 0)
            st = compare(&part, 0, 0, 0, bytes, &bad, e);
        best = ARITH_MIN(best, ARITH_MAX(ns, 1u));
        if (st == STATOR_OK && r->direct && bad != bytes)
            refuse_damaged(r, bad, bytes, 0);
    }
    out->direct_ns = st == STATOR_OK && r->direct ? best : 0;
    lz_queue_close(&q);
    p->hangs = p->hangs || q.hangs;
    return st;
}

stator_status lz_peer_time(struct lz_peer *p, uint64_t bytes, struct device_route *r,
                           struct device_info_copy *out, stator_error *e) {
    CHECK(bytes >= LZ_PEER_LEAST && bytes % 64 == 0 && bytes <= p->bytes);
    *out = (struct device_info_copy){0};
    stator_status st = r->direct ? time_direct(p, bytes, r, out, e) : STATOR_OK;
    uint64_t best = UINT64_MAX;
    for (int i = 0; st == STATOR_OK && i < REPEATS && !p->hangs; i++) {
        uint64_t ns = 0;
        st = stage(p, bytes, &ns, e);
        best = ARITH_MIN(best, ARITH_MAX(ns, 1u));
    }
    out->staged_ns = st == STATOR_OK && best != UINT64_MAX ? best : 0;
    return st;
}
