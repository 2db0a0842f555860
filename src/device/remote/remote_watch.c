#include "device/remote/remote_watch.h"

#include "base/check.h"
#include "base/clock.h"
#include "device/cluster.h"
#include "device/remote/remote_mpi.h"
#include "device/remote/remote_wire.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define STACK   (256u << 10)
#define PAGE    4096u
#define NAP_NS  1000000
#define MOST_NS 1000000000ull /* between two signs of life, or a quarter of the deadline */

enum word_kind {
    WORD_ALIVE,
    WORD_READY, /* to rank 0: this rank has loaded, or why it has not */
    WORD_GO     /* from rank 0: all have loaded, or why there is no run */
};

struct word {
    uint32_t kind;
    uint32_t status;
    char weights[36]; /* "": not known yet */
    char text[320];
};

struct peer {
    uint32_t rank;
    struct remote_receive receive;
    struct word came, goes;
    char weights[36];
    MPI_Request sending;
    uint64_t heard_ns, told_ns;
    bool ready; /* of rank 0's: it has loaded; of the others': rank 0 says go */
};

static struct watch {
    pthread_t thread;
    pthread_mutex_t calls;
    bool runs;
    struct peer peers[DEVICE_MAX];
    uint32_t n;
    uint64_t deadline_ns;
    _Atomic int sampled; /* `weights` holds */
    char weights[36];
    _Atomic int loaded; /* `own` holds */
    stator_error own;   /* code STATOR_OK: loaded */
    _Atomic int lost;
    stator_error why;
    bool going;
} watch = {.calls = PTHREAD_MUTEX_INITIALIZER};
static _Alignas(PAGE) uint8_t stack[PAGE + STACK];

void remote_watch_enter(void) {
    pthread_mutex_lock(&watch.calls);
}

void remote_watch_leave(void) {
    pthread_mutex_unlock(&watch.calls);
}

bool remote_watch_going(void) {
    return watch.going;
}

void device_cluster_weights(const char *hash) {
    snprintf(watch.weights, sizeof watch.weights, "%s", hash);
    atomic_store(&watch.sampled, 1);
}

bool device_cluster_lost(void) {
    return atomic_load_explicit(&watch.lost, memory_order_relaxed) != 0;
}

static stator_status say(struct peer *p, enum word_kind kind, const stator_error *what, stator_error *e) {
    p->goes = (struct word){.kind = kind, .status = what != NULL ? (uint32_t)what->code : 0};
    if (atomic_load(&watch.sampled) != 0)
        memcpy(p->goes.weights, watch.weights, sizeof watch.weights);
    if (what != NULL && what->code != STATOR_OK)
        snprintf(p->goes.text, sizeof p->goes.text, "%.319s", what->text);
    p->told_ns = clock_ns();
    return remote_mpi_send(&p->sending, &p->goes, sizeof p->goes, p->rank, REMOTE_TAG_READY, e);
}

/* Says the last word to all: what was said before has to be gone, but nobody is waited for for long. */
static void say_last(enum word_kind kind, const stator_error *what) {
    for (uint32_t i = 0; i < watch.n; i++) {
        struct peer *p = &watch.peers[i];
        if (remote_mpi_flush(&p->sending, 1000000000ull) && say(p, kind, what, NULL) == STATOR_OK)
            (void)remote_mpi_flush(&p->sending, 1000000000ull);
    }
}

static stator_status hear(struct peer *p, uint64_t bytes, stator_error *e) {
    struct word *w = &p->came;
    p->heard_ns = clock_ns();
    if (bytes != sizeof *w || w->kind > WORD_GO)
        return error_set(e, STATOR_DEVICE, "rank %u says what can't be understood", p->rank);
    w->text[sizeof w->text - 1] = '\0';
    if (w->weights[0] != '\0')
        memcpy(p->weights, w->weights, sizeof p->weights);
    char from[16] = "";
    if (strncmp(w->text, "rank ", 5) != 0) /* else it was passed on */
        snprintf(from, sizeof from, "rank %u: ", p->rank);
    if (w->status != STATOR_OK)
        return error_set(e, (stator_status)w->status, "%s%s", from, w->text);
    p->ready = p->ready || w->kind != WORD_ALIVE;
    return remote_mpi_again(&p->receive, e);
}

static stator_status look_at(struct peer *p, stator_error *e) {
    bool arrived = false, sent = false;
    uint64_t bytes = 0;
    stator_status st = remote_mpi_arrived(&p->receive, &arrived, &bytes, e);
    if (st == STATOR_OK && arrived)
        st = hear(p, bytes, e);
    if (st == STATOR_OK)
        st = remote_mpi_sent(&p->sending, &sent, e);
    uint64_t now = clock_ns();
    if (st == STATOR_OK && now - p->heard_ns > watch.deadline_ns)
        st = error_set(
            e, STATOR_DEVICE,
            "rank %u was not heard of for %.1f s while it loaded (devices.deadline): it was stopped or "
            "killed, or the network to it is cut",
            p->rank, (double)watch.deadline_ns * 1e-9);
    if (st == STATOR_OK && sent && now - p->told_ns > ARITH_MIN(watch.deadline_ns / 4, MOST_NS))
        st = say(p, WORD_ALIVE, NULL, e);
    return st;
}

/* One look at all. *over: there is nothing more to wait for. */
static stator_status look(bool *over, bool *told, stator_error *e) {
    const bool loaded = atomic_load(&watch.loaded) != 0, first = device_cluster().rank == 0;
    const bool sampled = atomic_load(&watch.sampled) != 0;
    bool all = true;
    stator_status st = STATOR_OK;
    for (uint32_t i = 0; i < watch.n && st == STATOR_OK; i++) {
        const struct peer *p = &watch.peers[i];
        st = look_at(&watch.peers[i], e);
        if (st == STATOR_OK && first && sampled && p->weights[0] != '\0' &&
            memcmp(p->weights, watch.weights, sizeof p->weights) != 0)
            st = error_set(
                e, STATOR_BAD_MODEL,
                "the model file of rank %u has other weights than that of rank 0, in tensors of the same "
                "names and shapes (compare their checksums: sha256sum)",
                p->rank);
        all = all && watch.peers[i].ready;
    }
    if (st != STATOR_OK || !loaded)
        return st;
    const bool failed = watch.own.code != STATOR_OK;
    if (!first && !*told)
        say_last(WORD_READY, &watch.own);
    if (first && (failed || all))
        say_last(WORD_GO, &watch.own);
    *told = true;
    *over = failed || all;
    return STATOR_OK;
}

static void *watch_main(void *context) {
    bool over = false, told = false;
    stator_status st = STATOR_OK;
    (void)context;
    while (st == STATOR_OK && !over) {
        struct timespec pause = {.tv_nsec = NAP_NS};
        nanosleep(&pause, NULL);
        remote_watch_enter();
        st = look(&over, &told, &watch.why);
        if (st != STATOR_OK && device_cluster().rank == 0)
            say_last(WORD_GO, &watch.why);
        remote_watch_leave();
    }
    atomic_store(&watch.lost, st != STATOR_OK);
    return NULL;
}

/* The lowest page of its stack is a guard. */
static int start(void) {
    pthread_attr_t attr;
    int rc = pthread_attr_init(&attr);
    if (rc != 0)
        return rc;
    rc = mprotect(stack, PAGE, PROT_NONE);
    if (rc == 0)
        rc = pthread_attr_setstack(&attr, stack + PAGE, STACK);
    if (rc == 0)
        rc = pthread_create(&watch.thread, &attr, watch_main, NULL);
    pthread_attr_destroy(&attr);
    return rc;
}

stator_status device_cluster_watch(uint64_t deadline_ns, stator_error *e) {
    const struct device_cluster c = device_cluster();
    if (c.size < 2)
        return STATOR_OK;
    CHECK(c.size <= DEVICE_MAX && !watch.runs); /* each has a stage with a device */
    watch.deadline_ns = deadline_ns;
    watch.n = c.rank == 0 ? c.size - 1 : 1;
    stator_status st = STATOR_OK;
    for (uint32_t i = 0; i < watch.n && st == STATOR_OK; i++) {
        struct peer *p = &watch.peers[i];
        *p = (struct peer){
            .rank = c.rank == 0 ? i + 1 : 0, .sending = MPI_REQUEST_NULL, .heard_ns = clock_ns()};
        st = remote_mpi_receive(&p->receive, &p->came, sizeof p->came, p->rank, REMOTE_TAG_READY, e);
    }
    if (st == STATOR_OK && start() != 0)
        st = error_set(e, STATOR_FAILED, "rank %u: the thread that watches the others can't be started",
                       c.rank);
    watch.runs = st == STATOR_OK;
    return st;
}

stator_status device_cluster_ready(stator_status st, const stator_error *why, stator_error *e) {
    if (!watch.runs)
        return STATOR_OK;
    watch.own = (stator_error){.code = STATOR_OK};
    if (st != STATOR_OK)
        watch.own = *why;
    atomic_store(&watch.loaded, 1);
    int rc = pthread_join(watch.thread, NULL);
    CHECK(rc == 0);
    rc = mprotect(stack, PAGE, PROT_READ | PROT_WRITE); /* LeakSanitizer reads all that is static */
    CHECK(rc == 0);
    watch.runs = false;
    for (uint32_t i = 0; i < watch.n; i++)
        remote_mpi_forget(&watch.peers[i].receive);
    watch.going = !device_cluster_lost() && st == STATOR_OK;
    return device_cluster_lost() ? error_set(e, watch.why.code, "%s", watch.why.text) : STATOR_OK;
}
