/* Runs over several hosts in the simulator: rank 0 is the engine that clients talk to, and each further rank
 * has an engine of its own. The real code between them runs (src/device/remote), over simulated messages.
 *
 * The thread of a rank above 0 is a fiber. It and rank 0 take turns whenever one of them looks for a message
 * or sleeps, as the seed says. Messages of one pair and tag keep their order and come after a while; a send
 * lasts as long as the seed says, and its memory must not change before it has ended or was received. A rank
 * may die: then nothing is heard of it any more. */
#ifndef STATOR_TESTS_SIM_HOSTS_H
#define STATOR_TESTS_SIM_HOSTS_H

#include "sim_play.h"

#include "device/cluster.h"
#include "device/remote/remote_device.h"
#include "device/remote/remote_mpi.h"
#include "device/remote/remote_watch.h"
#include "engine/start/thread.h"

#include <ucontext.h>

enum { SIM_RANKS = 3, SIM_REQUESTS = 512, SIM_FIBER = 1 << 20, SIM_TURNS_TO_END = 2000000 };
enum { SIM_MESSAGE = 256 << 10 }; /* bytes of the largest */

/* A send, or a receive that was set up. */
struct sim_request {
    bool used, sends;
    bool posted;    /* a receive: a message may come */
    bool delivered; /* a send: it was received; a receive: a message has come */
    uint32_t from, to;
    int tag;
    uint64_t order;           /* of sends and of posted receives */
    uint64_t due_ns, free_ns; /* a send: when it may be received, and when its memory is free at the latest */
    const uint8_t *memory;
    uint8_t *into;
    uint64_t bytes; /* of the message; of a receive, the most that may come */
    uint64_t got;
};

static struct {
    uint32_t n, now; /* ranks; whose code runs */
    struct sim_request requests[SIM_REQUESTS];
    uint8_t copies[SIM_REQUESTS][SIM_MESSAGE]; /* of messages, as they were sent */
    uint64_t order;
    struct stator *engine[SIM_RANKS];
    ucontext_t main, fiber[SIM_RANKS];
    uint8_t *stack[SIM_RANKS];
    bool ended[SIM_RANKS], dead[SIM_RANKS];
    stator_error why[SIM_RANKS];
    stator_status status[SIM_RANKS];
    uint32_t kill, kill_at; /* a rank, and the turn of its death; 0: none dies */
    char hash[128], weights[64];
    uint64_t messages, deaths, questions, notes, tensor; /* of all runs; tensor: runs with groups */
} hosts;

/* --- fibers */

/* From now on a rank's code runs, as its engine's thread or as another. */
static void hosts_role(uint32_t rank, bool engine) {
    const struct stator *s = rank > 0 ? hosts.engine[rank] : sim.s;
    hosts.now = rank;
    phase_thread_set(engine ? &s->phase : NULL, engine ? PHASE_THREAD_ENGINE : PHASE_THREAD_EDGE);
}

/* A rank above 0 goes on until it looks for a message or sleeps. */
static void hosts_resume(uint32_t rank) {
    if (rank == 0 || rank >= hosts.n || hosts.engine[rank] == NULL || hosts.ended[rank] || hosts.dead[rank])
        return;
    const bool engine = phase_thread_is_sealed();
    hosts_role(rank, true);
    CHECK(swapcontext(&hosts.main, &hosts.fiber[rank]) == 0);
    hosts_role(0, engine);
}

/* A rank that looks for a message or sleeps lets the others go on. */
static void hosts_yield(uint64_t ns) {
    sim.now_ns += 1 + sim_below(ns);
    if (hosts.now > 0)
        CHECK(swapcontext(&hosts.fiber[hosts.now], &hosts.main) == 0);
    else
        hosts_resume((uint32_t)sim_below(hosts.n));
}

static void hosts_rank_main(int rank) {
    hosts.status[rank] = thread_serve(hosts.engine[rank], &hosts.why[rank]);
    hosts.ended[rank] = true;
    for (;;)
        hosts_yield(1);
}

int __real_nanosleep(const struct timespec *t, struct timespec *rest);
int __wrap_nanosleep(const struct timespec *t, struct timespec *rest);
int __wrap_nanosleep(const struct timespec *t, struct timespec *rest) {
    if (hosts.n == 0)
        return __real_nanosleep(t, rest);
    hosts_yield(2 * (uint64_t)t->tv_nsec);
    return 0;
}

/* --- messages */

static struct sim_request *hosts_request(void) {
    for (uint32_t i = 0; i < SIM_REQUESTS; i++)
        if (!hosts.requests[i].used) {
            hosts.requests[i] = (struct sim_request){.used = true};
            return &hosts.requests[i];
        }
    sim_fail("more than %d sends and receives at a time", SIM_REQUESTS);
}

static void hosts_free(struct sim_request *r) {
    *r = (struct sim_request){0};
}

static uint8_t *hosts_copy(const struct sim_request *r) {
    return hosts.copies[r - hosts.requests];
}

/* The next of those that `what` says, by order, behind *after. */
static struct sim_request *hosts_next(bool sends, uint64_t after) {
    struct sim_request *best = NULL;
    for (uint32_t i = 0; i < SIM_REQUESTS; i++) {
        struct sim_request *r = &hosts.requests[i];
        if (r->used && r->sends == sends && !r->delivered && (sends || r->posted) && r->order > after &&
            (best == NULL || r->order < best->order))
            best = r;
    }
    return best;
}

static bool hosts_same_way(const struct sim_request *a, const struct sim_request *b) {
    return a->from == b->from && a->to == b->to && a->tag == b->tag;
}

/* Whether an earlier message of the same way has not come yet. */
static bool hosts_overtakes(const struct sim_request *m) {
    for (uint32_t i = 0; i < SIM_REQUESTS; i++) {
        const struct sim_request *r = &hosts.requests[i];
        if (r->used && r->sends && !r->delivered && r->order < m->order && hosts_same_way(r, m))
            return true;
    }
    return false;
}

/* Its memory is the message's until it was received, or its sender has seen its end. */
static void hosts_compare(const struct sim_request *m) {
    if (m->memory != NULL && memcmp(hosts_copy(m), m->memory, m->bytes) != 0)
        sim_fail("rank %u changes a message with tag %d to rank %u before it is sent", m->from, m->tag,
                 m->to);
}

static void hosts_deliver(void) {
    uint64_t order = 0;
    for (struct sim_request *m; (m = hosts_next(true, order)) != NULL;) {
        order = m->order;
        if (m->due_ns > sim.now_ns || hosts.dead[m->to] || hosts_overtakes(m))
            continue;
        struct sim_request *r = hosts_next(false, 0);
        while (r != NULL && !hosts_same_way(r, m))
            r = hosts_next(false, r->order);
        if (r == NULL)
            continue;
        if (m->bytes > r->bytes)
            sim_fail("rank %u gets %llu bytes with tag %d, and has room for %llu", m->to,
                     (unsigned long long)m->bytes, m->tag, (unsigned long long)r->bytes);
        hosts_compare(m);
        memcpy(r->into, hosts_copy(m), m->bytes);
        r->got = m->bytes;
        r->posted = false;
        m->delivered = r->delivered = true;
        if (m->memory == NULL) /* its sender does not wait for it any more */
            hosts_free(m);
    }
}

static void hosts_post(struct sim_request *r) {
    CHECK(!r->posted && !r->delivered);
    r->posted = true;
    r->order = ++hosts.order;
}

static struct sim_request *hosts_receive(void *memory, uint64_t bytes, uint32_t from, int tag) {
    struct sim_request *r = hosts_request();
    r->from = from;
    r->to = hosts.now;
    r->tag = tag;
    r->into = memory;
    r->bytes = bytes;
    hosts_post(r);
    return r;
}

stator_status remote_mpi_receive(struct remote_receive *r, void *memory, uint64_t bytes, uint32_t from,
                                 int tag, stator_error *e) {
    (void)e;
    r->memory = memory;
    r->request = hosts_receive(memory, bytes, from, tag);
    return STATOR_OK;
}

stator_status remote_mpi_arrived(struct remote_receive *r, bool *arrived, uint64_t *bytes, stator_error *e) {
    (void)e;
    if (sim_below(2) == 0)
        hosts_yield(20000);
    hosts_deliver();
    *arrived = r->request->delivered;
    *bytes = r->request->got;
    r->request->delivered = false;
    return STATOR_OK;
}

stator_status remote_mpi_again(struct remote_receive *r, stator_error *e) {
    (void)e;
    hosts_post(r->request);
    return STATOR_OK;
}

void remote_mpi_forget(struct remote_receive *r) {
    if (r->request == NULL || r->memory == NULL)
        return;
    hosts_free(r->request);
    r->request = NULL;
    r->memory = NULL;
}

int MPI_Irecv(void *memory, int n, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request *request) {
    (void)type;
    (void)comm;
    *request = hosts_receive(memory, (uint64_t)n, (uint32_t)from, tag);
    return MPI_SUCCESS;
}

stator_status remote_mpi_send(MPI_Request *request, const void *memory, uint64_t bytes, uint32_t to, int tag,
                              stator_error *e) {
    (void)e;
    CHECK(*request == NULL && to < hosts.n && to != hosts.now && bytes > 0 && bytes <= SIM_MESSAGE);
    struct sim_request *r = hosts_request();
    r->sends = true;
    r->from = hosts.now;
    r->to = to;
    r->tag = tag;
    r->order = ++hosts.order;
    r->due_ns = sim.now_ns + sim_below(1 + sim_below(2) * sim.longest_ns);
    r->free_ns = sim_below(2) ? sim.now_ns + sim_below(sim.longest_ns) : UINT64_MAX; /* else: once received */
    r->memory = memory;
    r->bytes = bytes;
    memcpy(hosts_copy(r), memory, bytes);
    hosts.messages++;
    *request = r;
    return STATOR_OK;
}

/* True: *request has ended and is free. */
static bool hosts_test(MPI_Request *request) {
    struct sim_request *r = *request;
    if (r == NULL)
        return true;
    if (sim_below(2) == 0)
        hosts_yield(20000);
    hosts_deliver();
    const bool over = r->delivered || (r->sends && r->free_ns <= sim.now_ns);
    if (!over)
        return false;
    if (r->sends && !r->delivered)
        hosts_compare(r);
    *request = NULL;
    if (r->delivered) {
        hosts_free(r);
    } else { /* it is on its way */
        r->memory = NULL;
    }
    return true;
}

stator_status remote_mpi_sent(MPI_Request *request, bool *sent, stator_error *e) {
    (void)e;
    *sent = hosts_test(request);
    return STATOR_OK;
}

bool remote_mpi_flush(MPI_Request *request, uint64_t timeout_ns) {
    const uint64_t end = sim.now_ns + timeout_ns;
    while (!hosts_test(request)) {
        if (sim.now_ns > end)
            return false;
        hosts_yield(100000);
    }
    return true;
}

void remote_mpi_light_sleeper(void) {}

/* --- what the ranks tell each other before and after */

struct device_cluster device_cluster(void) {
    return (struct device_cluster){.size = hosts.n, .rank = hosts.now, .library = "sim"};
}

/* The first rank that comes says what all must have. */
static void hosts_agree(char *all, size_t n, const char *own, const char *what) {
    if (all[0] == '\0')
        snprintf(all, n, "%s", own);
    if (strcmp(all, own) != 0)
        sim_fail("rank %u has other %s than another: %s and %s", hosts.now, what, own, all);
}

stator_status device_cluster_meet(const char *hash, uint64_t timeout_ns, stator_error *e) {
    (void)timeout_ns;
    (void)e;
    hosts_agree(hosts.hash, sizeof hosts.hash, hash, "plans");
    return STATOR_OK;
}

void device_cluster_weights(const char *hash) {
    hosts_agree(hosts.weights, sizeof hosts.weights, hash, "weights");
}

stator_status device_cluster_watch(uint64_t deadline_ns, stator_error *e) {
    (void)deadline_ns;
    (void)e;
    return STATOR_OK;
}

stator_status device_cluster_ready(stator_status st, const stator_error *why, stator_error *e) {
    (void)why;
    (void)e;
    return st;
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

bool device_cluster_lost(void) {
    return false;
}

bool remote_watch_going(void) {
    return hosts.n > 0;
}

stator_status device_cluster_begin(int *argc, char ***argv, stator_error *e) {
    (void)argc;
    (void)argv;
    (void)e;
    return STATOR_OK;
}

stator_status device_cluster_roll(struct device_cluster_member *out, stator_error *e) {
    (void)out;
    (void)e;
    return STATOR_OK;
}

void device_cluster_end(int code) {
    (void)code;
}

void device_cluster_refuse(const stator_error *why) {
    (void)why;
}

void device_cluster_tend(void) {}

/* --- a run */

static void hosts_note(const struct stator *s, struct device_note *out) {
    snprintf(out->text, sizeof out->text, "stage %u", s->planning.stage);
}

/* Two or three hosts with one device each or two, which have layers or divide them. Nothing of a run over
 * several hosts is MTP, a draft model or has files. */
static void hosts_choose(const char **list) {
    static const struct {
        const char *stages;
        uint32_t hosts, devices;
    } runs[] = {{"cluster.stages=a=sim:0;b=sim:1", 2, 2},
                {"cluster.stages=a=sim:0,sim:1;b=sim:2", 2, 3},
                {"cluster.stages=a=sim:0;b=sim:1,sim:2", 2, 3},
                {"cluster.stages=a=sim:0;b=sim:1;c=sim:2", 3, 3},
                {"cluster.stages=a=sim:0,sim:1;b=sim:2,sim:3", 2, 4},
                {"cluster.stages=a=sim:0;b=sim:1,sim:2;c=sim:3", 3, 4}};
    const uint32_t which = (uint32_t)sim_below(6);
    const bool tensor = runs[which].devices > runs[which].hosts && sim_below(2) == 0;
    uint32_t n = 0;
    for (; list[n] != NULL; n++) {
        if (strncmp(list[n], "devices.use=", 12) == 0)
            list[n] = runs[which].stages;
        else if (strncmp(list[n], "devices.split=", 14) == 0)
            list[n] = tensor ? "devices.split=tensor" : "devices.split=auto";
        else if (strncmp(list[n], "devices.groups=", 15) == 0)
            list[n] = "devices.groups=1";
    }
    list[n] = "devices.facts=a/sim:0=1GiB;a/sim:1=1GiB;b/sim:1=1GiB;b/sim:2=1GiB;b/sim:3=1GiB;c/sim:2=1GiB;"
              "c/sim:3=1GiB";
    list[n + 1] = "devices.deadline=3"; /* so that a rank that is not heard of is lost within a run */
    list[n + 2] = NULL;
    hosts.n = runs[which].hosts;
    hosts.tensor += tensor;
    hosts.kill = sim_below(8) == 0 ? 1 + (uint32_t)sim_below(hosts.n - 1) : 0;
    hosts.kill_at = (uint32_t)sim_below(SIM_TURNS);
    sim.fault_device = (uint32_t)sim_below(runs[which].devices);
    files.on = false;
}

static void hosts_begin_fiber(uint32_t rank) {
    ucontext_t *f = &hosts.fiber[rank];
    if (hosts.stack[rank] == NULL)
        hosts.stack[rank] = aligned_alloc(4096, SIM_FIBER);
    CHECK(hosts.stack[rank] != NULL && getcontext(f) == 0);
    f->uc_stack.ss_sp = hosts.stack[rank];
    f->uc_stack.ss_size = SIM_FIBER;
    f->uc_link = NULL;
    makecontext(f, (void (*)(void))hosts_rank_main, 1, (int)rank);
}

static void hosts_start(const char *model, const char *const *list) {
    for (uint32_t r = 1; r < hosts.n; r++) {
        hosts.now = r;
        sim_open(model, list, false, &hosts.engine[r]);
        hosts.engine[r]->report.take_note = hosts_note;
        hosts.now = 0;
        hosts_begin_fiber(r);
    }
}

/* Between two turns: the other ranks go on, one dies, or rank 0 asks them for a note. */
static void hosts_turn(uint32_t turn) {
    for (uint64_t n = sim_below(3); n > 0; n--)
        hosts_resume((uint32_t)sim_below(hosts.n));
    if (hosts.kill != 0 && turn == hosts.kill_at) {
        hosts.dead[hosts.kill] = true;
        hosts.deaths++;
        sim.fault = SIM_HANG; /* the clock goes on until somebody notices */
        sim.faulted = true;
    }
    struct engine_report *r = &sim.s->report;
    const bool waits = atomic_load(&r->asked) != atomic_load(&r->told);
    if (!waits && sim_below(100) == 0) {
        atomic_fetch_add(&r->asked, 1);
        hosts.questions++;
    } else if (!waits && atomic_load(&r->told) > 0 && sim_below(100) == 0) {
        for (uint32_t i = 0; i < r->n_notes; i++)
            hosts.notes += strncmp(r->notes[i].text, "stage ", 6) == 0 &&
                           (uint32_t)(r->notes[i].text[6] - '0') == r->notes[i].rank;
        if (r->n_notes + 1 != hosts.n)
            sim_fail("rank 0 has the notes of %u ranks", r->n_notes);
    }
}

/* The engine's thread sleeps for at most timeout_ns, or until a command comes; it also hears the others. */
static void hosts_sleep(enum loop_next next) {
    hosts_role(0, true);
    loop_wait(sim.s, next);
    hosts_role(0, false);
}

/* Rank 0 has closed its devices: the others end. To a rank that it has lost it says nothing, so that rank
 * ends by its deadline. */
static void hosts_stop(void) {
    for (uint32_t i = 0, r = 1; r < hosts.n; i++) {
        hosts_resume(r);
        sim.now_ns += sim.faulted ? sim.s->run.deadline_ns / 1000 : 1000;
        if (i == SIM_TURNS_TO_END)
            sim_fail("rank %u does not end", r);
        r += hosts.ended[r] || hosts.dead[r];
    }
    for (uint32_t r = 1; r < hosts.n; r++) {
        struct stator *s = hosts.engine[r];
        if (hosts.status[r] != STATOR_OK && !sim.faulted)
            sim_fail("rank %u ends with \"%s\"", r, hosts.why[r].text);
        hosts.now = r;
        phase_advance(&s->phase, PHASE_SHUTDOWN);
        start_close_devices(s);
        stator_close(s);
        hosts.engine[r] = NULL;
        hosts.now = 0;
    }
    for (uint32_t i = 0; i < SIM_REQUESTS; i++) {
        if (hosts.requests[i].used && !sim.faulted && !hosts.requests[i].sends)
            sim_fail("a receive of rank %u with tag %d is left", hosts.requests[i].to, hosts.requests[i].tag);
        hosts_free(&hosts.requests[i]);
    }
    memset(hosts.ended, 0, sizeof hosts.ended);
    memset(hosts.dead, 0, sizeof hosts.dead);
    memset(hosts.status, 0, sizeof hosts.status);
    hosts.hash[0] = hosts.weights[0] = '\0';
    hosts.n = 0;
}

static const struct sim_cluster hosts_cluster = {.remote = &remote_device_backend,
                                                 .choose = hosts_choose,
                                                 .start = hosts_start,
                                                 .turn = hosts_turn,
                                                 .sleep = hosts_sleep,
                                                 .stop = hosts_stop};

#endif
