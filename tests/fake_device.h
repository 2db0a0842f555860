/* An asynchronous device for tests: CPU devices ("fake:0" ..) whose steps run on a thread of their own, whose
 * memory the host can't touch, with pinned slots and results, faults on demand, and a check of the engine's
 * side of the contract (device/device.h). Including it takes the place of device_list.c in the test's binary.
 *
 * Watched: a slot is not described, submitted or read while its step runs; a descriptor does not change under
 * a step; a landing half or window is written only after its reader has had it; nothing is created or
 * uploaded after prepare; bodies come in the order of their numbers; results that are read too late are NaN.
 */
#ifndef STATOR_TESTS_FAKE_DEVICE_H
#define STATOR_TESTS_FAKE_DEVICE_H

#include "testing.h"

#include "base/clock.h"
#include "base/hash.h"
#include "os/numa.h"
#include "os/pages.h"
#include "device/cpu/cpu_device.h"

#include <pthread.h>
#include <time.h>

#define FAKE_UPLOADS 64

enum fake_fault {
    FAKE_NONE,
    FAKE_SLICE,   /* the Nth slice_create is refused */
    FAKE_HOST,    /* host_create is refused */
    FAKE_UPLOAD,  /* the Nth upload fails */
    FAKE_PREPARE, /* prepare fails */
    FAKE_SUBMIT,  /* the Nth submit fails */
    FAKE_LOST,    /* the device is lost in its Nth step */
    FAKE_HANG     /* its Nth step never ends */
};

/* What all fake devices of a test do. */
static struct {
    enum fake_fault fault;
    uint32_t device;       /* that has it */
    uint32_t nth;          /* from 1 */
    bool corrupt;          /* the probe of every pair finds damaged data */
    uint32_t delay_us;     /* a step takes up to that much longer */
    uint64_t largest;      /* slices above it are refused; 0: none is */
    uint64_t memory;       /* of each; 0: 1 GiB */
    uint64_t driver_bytes; /* what it says to have taken beside the slices */
    bool host_is_free;     /* host_create was called without a NUMA policy */
    bool later_is_free;    /* and prepare */
    uint32_t spills;       /* slices spilled by all devices, */
    uint32_t spills_free;  /* and those of them that were made without a NUMA policy */
    uint32_t opened;       /* live devices */
    uint32_t late;         /* looks at slot 0 for which its step, though it has ended, still seems to run */
    /* Body k of a device and body k + 1 of the one before it, both from meet_first to meet_end, end only when
     * both have begun; so do those of devices further apart. */
    uint32_t meet_first, meet_end;
    /* Instead of computing: the step on what stands for the device's memory. */
    void (*play)(uint32_t device, const struct device_model *m, const struct step_header *h,
                 struct step_pick *picks);
    _Atomic bool closed;                /* no step begins */
    _Atomic bool alone;                 /* one has waited too long for the device before */
    _Atomic uint32_t begun[DEVICE_MAX]; /* bodies */
    _Atomic uint32_t running;
    _Atomic uint32_t most_running; /* steps at the same time */
} fake;

#define FAKE_PATIENCE 300000000000ull /* ns, for what comes at once when it comes */

enum fake_slot_state { FAKE_FREE, FAKE_QUEUED, FAKE_ENDED };

struct fake_upload {
    uint8_t *to;
    const void *from;
    uint64_t bytes;
};

struct fake_device {
    struct device device; /* first */
    struct device *cpu;
    struct device_model model; /* as the engine sees it */
    struct device_model inner; /* as the CPU device does: one descriptor, at the start of exchange */
    struct device_facts facts;
    struct device_pinned at;
    uint8_t *pinned;
    struct device_link in, out;         /* the CPU device's: with its peers */
    const struct device_link *out_link; /* the engine's */
    const struct device_link *in_link;
    const struct phase *phase;
    uint32_t index;
    bool prepared, has_thread;
    void *host; /* host_create's */
    uint64_t host_bytes;
    uint64_t slice_bytes;
    uint32_t slices, uploads, submits, steps, bodies;
    uint32_t looks; /* at slot 0 since its step has ended */
    uint64_t random;
    pthread_t thread;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t changed;
    bool stop, lost;
    enum fake_slot_state state[2];
    uint32_t queue[2], n_queue;
    char descriptor[2][HASH_TEXT];
    bool half_full[2]; /* the landing half or window before this device was written and not yet read */
    struct fake_upload upload[FAKE_UPLOADS];
    uint32_t n_uploads;
    struct device_counters counters;
    uint64_t began_ns[2], ended_ns[2]; /* of a slot's step, with its delays */
};

static struct fake_device *fake_self(struct device *d) {
    return (struct fake_device *)d;
}

static const struct device_vtable fake_vtable;

/* The fake device on the other side of a boundary, or NULL. */
static struct fake_device *fake_peer(const struct device_link *link) {
    return link != NULL && link->peer->vtable == &fake_vtable ? fake_self(link->peer) : NULL;
}

static bool fake_hit(const struct fake_device *f, enum fake_fault fault, uint32_t count) {
    return fake.fault == fault && fake.device == f->index && fake.nth == count;
}

static void fake_hash(const struct fake_device *f, uint32_t slot, char out[HASH_TEXT]) {
    struct hash h;
    hash_init(&h);
    hash_bytes(&h, f->pinned + f->at.step[slot], f->model.step_bytes);
    hash_final(&h, out);
}

static void fake_sleep(uint64_t ns) {
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
    nanosleep(&t, NULL);
}

/* The next device's half is taken by this step, or (in the receiver) given back. */
static void fake_take_half(struct fake_device *peer, uint32_t slot, bool full) {
    pthread_mutex_lock(&peer->lock);
    CHECK(peer->half_full[slot] != full);
    peer->half_full[slot] = full;
    pthread_mutex_unlock(&peer->lock);
}

/* Holds the step where the test wants it held. */
static void fake_meet(const struct fake_device *f, uint32_t body) {
    const uint64_t began = clock_ns();
    for (uint32_t other = 0; other < fake.opened; other++) {
        const uint32_t theirs = body + f->index - other; /* wraps beyond meet_end if there is none */
        if (body < fake.meet_first || body > fake.meet_end || theirs < fake.meet_first ||
            theirs > fake.meet_end)
            continue;
        while (atomic_load(&fake.begun[other]) <= theirs && !atomic_load(&fake.alone)) {
            if (clock_ns() - began > FAKE_PATIENCE)
                atomic_store(&fake.alone, true);
            fake_sleep(50000);
        }
    }
}

/* One step, on the device's thread. False: the device is lost, or hangs until it is closed. */
static bool fake_step(struct fake_device *f, uint32_t slot) {
    const struct step_header *h = (const struct step_header *)(f->pinned + f->at.step[slot]);
    char now[HASH_TEXT];
    f->steps++;
    while (atomic_load(&fake.closed))
        fake_sleep(50000);
    uint32_t number = h->run_body != 0 ? atomic_fetch_add(&fake.begun[f->index], 1) : 0;
    if (fake.delay_us > 0)
        fake_sleep(testing_below(&f->random, fake.delay_us) * 1000);
    fake_hash(f, slot, now);
    CHECK(strcmp(now, f->descriptor[slot]) == 0);
    bool body = h->run_body != 0;
    if (fake_hit(f, FAKE_LOST, f->steps))
        return false;
    if (fake_hit(f, FAKE_HANG, f->steps)) {
        pthread_mutex_lock(&f->lock);
        while (!f->stop)
            pthread_cond_wait(&f->changed, &f->lock);
        pthread_mutex_unlock(&f->lock);
        return false;
    }
    memcpy(f->cpu->vtable->step_slot(f->cpu, 0), h, f->model.step_bytes);
    if (body && fake_peer(f->out_link) != NULL) /* before a byte of it is written */
        fake_take_half(fake_peer(f->out_link), slot, true);
    const struct graph *g = f->model.graph;
    struct step_pick *picks =
        g->logits != GRAPH_NONE ? (struct step_pick *)(void *)(f->pinned + f->at.picks[slot]) : NULL;
    stator_error e;
    if (fake.play != NULL)
        fake.play(f->index, &f->model, h, picks);
    else
        CHECK(f->cpu->vtable->submit(f->cpu, slot, &e) == STATOR_OK);
    if (body && fake_peer(f->in_link) != NULL)
        fake_take_half(f, slot, false);
    if (body)
        fake_meet(f, number);
    if (fake.delay_us > 0)
        fake_sleep(testing_below(&f->random, fake.delay_us) * 1000);
    if (picks != NULL && fake.play == NULL) {
        memcpy(f->pinned + f->at.logits[slot], f->cpu->vtable->logits(f->cpu, 0),
               g->values[g->logits].half_bytes);
        memcpy(picks, f->cpu->vtable->picks(f->cpu, 0), g->values[g->picks].half_bytes);
    }
    return true;
}

static void fake_run_step(struct fake_device *f) {
    uint32_t slot = f->queue[0];
    pthread_mutex_unlock(&f->lock);
    uint32_t running = atomic_fetch_add(&fake.running, 1) + 1;
    for (uint32_t most = atomic_load(&fake.most_running);
         most < running && !atomic_compare_exchange_weak(&fake.most_running, &most, running);)
        ;
    f->began_ns[slot] = clock_ns();
    bool ok = fake_step(f, slot);
    f->ended_ns[slot] = clock_ns();
    atomic_fetch_sub(&fake.running, 1);
    pthread_mutex_lock(&f->lock);
    if (!ok) {
        f->lost = true;
        f->n_queue = 0;
        return;
    }
    f->state[slot] = FAKE_ENDED;
    f->queue[0] = f->queue[1];
    f->n_queue--;
    f->cpu->vtable->counters(f->cpu, &f->counters);
}

static void *fake_thread(void *context) {
    struct fake_device *f = context;
    phase_thread_set(f->phase, PHASE_THREAD_ENGINE);
    pthread_mutex_lock(&f->lock);
    while (!f->stop || (f->n_queue > 0 && !f->lost)) {
        if (f->n_uploads > 0) {
            struct fake_upload u = f->upload[f->n_uploads - 1];
            pthread_mutex_unlock(&f->lock);
            memcpy(u.to, u.from, u.bytes);
            pthread_mutex_lock(&f->lock);
            f->n_uploads--;
        } else if (f->n_queue > 0) {
            fake_run_step(f);
        } else {
            pthread_cond_wait(&f->changed, &f->lock);
            continue;
        }
        pthread_cond_broadcast(&f->changed);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

static stator_status fake_slice_create(struct device *d, enum device_arena a, uint32_t slice, uint64_t bytes,
                                       stator_error *e) {
    struct fake_device *f = fake_self(d);
    CHECK(!f->prepared);
    if (fake_hit(f, FAKE_SLICE, ++f->slices) || (fake.largest != 0 && bytes > fake.largest))
        return error_set(e, STATOR_DOES_NOT_FIT, "%s: slice_create: arena %s: out of device memory",
                         f->facts.name, device_arena_name(a));
    f->slice_bytes += bytes;
    return f->cpu->vtable->slice_create(f->cpu, a, slice, bytes, e);
}

static void *fake_map(struct device *d, enum device_arena a, uint32_t slice) {
    (void)d;
    (void)a;
    (void)slice;
    return NULL;
}

/* The CPU inside does not know of spilled layers: no step may run with these. */
static stator_status fake_slice_spill(struct device *d, enum device_arena a, uint32_t slice, uint64_t bytes,
                                      stator_error *e) {
    fake.spills++;
    fake.spills_free += numa_is_free();
    return fake_self(d)->cpu->vtable->slice_create(fake_self(d)->cpu, a, slice, bytes, e);
}

static stator_status fake_host_create(struct device *d, uint64_t bytes, void **out, stator_error *e) {
    struct fake_device *f = fake_self(d);
    CHECK(!f->prepared && f->host == NULL);
    if (fake_hit(f, FAKE_HOST, 1))
        return error_set(e, STATOR_DOES_NOT_FIT, "%s: host_create: %llu bytes refused", f->facts.name,
                         (unsigned long long)bytes);
    stator_status st = pages_map(bytes, "pinned", &f->host, e);
    fake.host_is_free = numa_is_free();
    if (st == STATOR_OK)
        memset(f->host, 0, bytes); /* as drivers do, on this thread */
    f->host_bytes = bytes;
    *out = f->host;
    return st;
}

static stator_status fake_upload(struct device *d, enum device_arena a, uint32_t slice, uint64_t offset,
                                 const void *src, uint64_t bytes, stator_error *e) {
    struct fake_device *f = fake_self(d);
    CHECK(!f->prepared && bytes > 0);
    pthread_mutex_lock(&f->lock);
    bool fail = fake_hit(f, FAKE_UPLOAD, ++f->uploads);
    while (f->n_uploads == FAKE_UPLOADS)
        pthread_cond_wait(&f->changed, &f->lock);
    f->upload[f->n_uploads++] =
        (struct fake_upload){(uint8_t *)f->cpu->vtable->map(f->cpu, a, slice) + offset, src, bytes};
    /* the thread takes the last one, so nothing may come behind one that is under way */
    pthread_cond_broadcast(&f->changed);
    while (f->n_uploads > 1)
        pthread_cond_wait(&f->changed, &f->lock);
    pthread_mutex_unlock(&f->lock);
    return fail ? error_set(e, STATOR_DEVICE, "%s: upload: the copy failed", f->facts.name) : STATOR_OK;
}

static stator_status fake_upload_wait(struct device *d, stator_error *e) {
    struct fake_device *f = fake_self(d);
    (void)e;
    pthread_mutex_lock(&f->lock);
    while (f->n_uploads > 0)
        pthread_cond_wait(&f->changed, &f->lock);
    pthread_mutex_unlock(&f->lock);
    return STATOR_OK;
}

static void fake_parallel(struct device *d, void (*f)(void *context, uint32_t member, uint32_t n),
                          void *context) {
    struct fake_device *self = fake_self(d);
    self->cpu->vtable->parallel(self->cpu, f, context);
}

static stator_status fake_peer_probe(struct device *d, struct device *to, bool verify, void *work,
                                     uint64_t bytes, struct device_route *r, stator_error *e) {
    struct fake_device *f = fake_self(d);
    stator_status st = f->cpu->vtable->peer_probe(f->cpu, fake_self(to)->cpu, verify, work, bytes, r, e);
    if (fake.corrupt) {
        r->direct = false;
        snprintf(r->why, sizeof r->why, "a copy of 4096 bytes arrived changed");
    }
    return st;
}

static stator_status fake_prepare(struct device *d, const struct device_setup *s, stator_error *e) {
    struct fake_device *f = fake_self(d);
    CHECK(!f->prepared && s->pinned != NULL && (uintptr_t)s->pinned % 4096 == 0);
    if (fake_hit(f, FAKE_PREPARE, 1))
        return error_set(e, STATOR_DEVICE, "%s: prepare: the kernels can't be built", f->facts.name);
    f->prepared = true;
    fake.later_is_free = numa_is_free();
    f->pinned = s->pinned;
    f->out_link = s->out;
    f->in_link = s->in;
    struct device_setup inner = {0};
    if (s->in != NULL) {
        f->in = *s->in;
        f->in.peer = s->in->direct ? fake_self(s->in->peer)->cpu : NULL;
        inner.in = &f->in;
    }
    if (s->out != NULL) {
        f->out = *s->out;
        f->out.peer = s->out->direct ? fake_self(s->out->peer)->cpu : NULL;
        inner.out = &f->out;
    }
    stator_status st = f->cpu->vtable->prepare(f->cpu, &inner, e);
    for (int k = 0; k < 2; k++)
        memcpy(f->pinned + f->at.step[k], &f->model.step, sizeof f->model.step);
    return st;
}

static void *fake_step_slot(struct device *d, uint32_t slot) {
    struct fake_device *f = fake_self(d);
    pthread_mutex_lock(&f->lock);
    CHECK(f->prepared && slot < 2 && f->state[slot] != FAKE_QUEUED);
    pthread_mutex_unlock(&f->lock);
    return f->pinned + f->at.step[slot];
}

static stator_status fake_submit(struct device *d, uint32_t slot, stator_error *e) {
    struct fake_device *f = fake_self(d);
    if (fake_hit(f, FAKE_SUBMIT, ++f->submits))
        return error_set(e, STATOR_DEVICE, "%s: submit: the queue takes no more", f->facts.name);
    pthread_mutex_lock(&f->lock);
    if (f->lost) { /* nobody may have noticed yet */
        pthread_mutex_unlock(&f->lock);
        return error_set(e, STATOR_DEVICE, "%s: submit: the device was lost", f->facts.name);
    }
    CHECK(slot < 2 && f->state[slot] != FAKE_QUEUED && f->n_queue < 2);
    const struct step_header *h = (const struct step_header *)(f->pinned + f->at.step[slot]);
    if (h->run_body)
        CHECK(slot == f->bodies++ % f->model.slots); /* no step overtakes another */
    if (h->run_body && fake_peer(f->in_link) != NULL)
        CHECK(f->half_full[slot]); /* the device before has ended this step */
    struct fake_device *peer = fake_peer(f->out_link);
    if (h->run_body && peer != NULL) {
        pthread_mutex_lock(&peer->lock);
        CHECK(!peer->half_full[slot]);
        pthread_mutex_unlock(&peer->lock);
    }
    fake_hash(f, slot, f->descriptor[slot]);
    if (f->model.graph->logits != GRAPH_NONE)
        memset(f->pinned + f->at.logits[slot], 0xFF,
               f->model.graph->values[f->model.graph->logits].half_bytes);
    f->state[slot] = FAKE_QUEUED;
    f->looks = slot == 0 ? 0 : f->looks;
    f->queue[f->n_queue++] = slot;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    return STATOR_OK;
}

static stator_status fake_wait(struct device *d, uint32_t slot, uint64_t timeout_ns, bool *ended,
                               stator_error *e) {
    struct fake_device *f = fake_self(d);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    uint64_t ns = (uint64_t)until.tv_nsec + timeout_ns % 1000000000;
    until.tv_sec += (time_t)(timeout_ns / 1000000000 + ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    /* Where one hangs, the others' steps are waited for: none of them runs into the deadline, however slow
     * the machine is. */
    const bool patient = fake.fault == FAKE_HANG && fake.device != f->index;
    pthread_mutex_lock(&f->lock);
    CHECK(f->state[slot] != FAKE_FREE);
    int rc = 0;
    while (f->state[slot] == FAKE_QUEUED && !f->lost && (patient || timeout_ns > 0) && rc == 0)
        rc = patient ? pthread_cond_wait(&f->changed, &f->lock)
                     : pthread_cond_timedwait(&f->changed, &f->lock, &until);
    *ended = f->state[slot] == FAKE_ENDED && (slot != 0 || f->looks++ >= fake.late);
    bool lost = f->lost;
    pthread_mutex_unlock(&f->lock);
    if (lost && !*ended)
        return error_set(e, STATOR_DEVICE, "%s: wait: the device was lost", f->facts.name);
    return STATOR_OK;
}

static const float *fake_logits(struct device *d, uint32_t slot) {
    struct fake_device *f = fake_self(d);
    CHECK(f->state[slot] == FAKE_ENDED);
    return (const float *)(void *)(f->pinned + f->at.logits[slot]);
}

static const struct step_pick *fake_picks(struct device *d, uint32_t slot) {
    struct fake_device *f = fake_self(d);
    CHECK(f->state[slot] == FAKE_ENDED);
    return (const struct step_pick *)(void *)(f->pinned + f->at.picks[slot]);
}

static uint32_t fake_spans(struct device *d, uint32_t slot, struct device_span *out, uint32_t max) {
    struct fake_device *f = fake_self(d);
    uint32_t n = f->cpu->vtable->spans(f->cpu, slot, out, max);
    if (n > 0) {
        out[0].begin_ns = f->began_ns[slot];
        out[n - 1].end_ns = f->ended_ns[slot];
    }
    return n;
}

static void fake_counters(const struct device *d, struct device_counters *c) {
    struct fake_device *f = fake_self((struct device *)(uintptr_t)d);
    pthread_mutex_lock(&f->lock);
    *c = f->counters;
    pthread_mutex_unlock(&f->lock);
}

static uint64_t fake_taken_bytes(const struct device *d) {
    return ((const struct fake_device *)d)->slice_bytes + fake.driver_bytes;
}

static void fake_close(struct device *d) {
    struct fake_device *f = fake_self(d);
    pthread_mutex_lock(&f->lock);
    f->stop = true;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    if (f->has_thread)
        pthread_join(f->thread, NULL);
    f->cpu->vtable->close(f->cpu);
    pages_unmap(f->host, f->host_bytes);
    pthread_mutex_destroy(&f->lock);
    pthread_cond_destroy(&f->changed);
    fake.opened--;
}

static const struct device_vtable fake_vtable = {.slice_create = fake_slice_create,
                                                 .slice_spill = fake_slice_spill,
                                                 .map = fake_map,
                                                 .host_create = fake_host_create,
                                                 .upload = fake_upload,
                                                 .upload_wait = fake_upload_wait,
                                                 .parallel = fake_parallel,
                                                 .peer_probe = fake_peer_probe,
                                                 .prepare = fake_prepare,
                                                 .step_slot = fake_step_slot,
                                                 .submit = fake_submit,
                                                 .wait = fake_wait,
                                                 .logits = fake_logits,
                                                 .picks = fake_picks,
                                                 .spans = fake_spans,
                                                 .counters = fake_counters,
                                                 .taken_bytes = fake_taken_bytes,
                                                 .close = fake_close};

stator_status device_choose(const char *name, const struct device_options *o, struct device_choice *c,
                            uint32_t max, uint32_t *n, stator_error *e) {
    unsigned index = 0;
    CHECK(max > 0);
    *n = 1;
    bool is_fake = sscanf(name, "fake:%u", &index) == 1;
    if (!is_fake)
        (void)sscanf(name, "cpu:%u", &index);
    stator_status st = cpu_device_choose(index, o, c, e);
    if (st != STATOR_OK || !is_fake)
        return st;
    snprintf(c->facts.name, sizeof c->facts.name, "fake:%u", index);
    snprintf(c->facts.kind, sizeof c->facts.kind, "fake");
    c->facts.host_memory = false;
    c->facts.memory = fake.memory != 0 ? fake.memory : (uint64_t)1 << 30;
    c->facts.alignment = 65536;
    c->pinned = c->alone = false;
    snprintf(c->pci, sizeof c->pci, "0000:%02x:00.0", 3 + index);
    c->where[0] = index;
    return STATOR_OK;
}

static bool fake_is(const struct device_choice *c) {
    return strcmp(c->facts.kind, "fake") == 0;
}

stator_status device_takes(const struct device_choice *c, const struct device_model *m, stator_error *e) {
    (void)c;
    (void)m;
    (void)e;
    return STATOR_OK;
}

uint64_t device_host_bytes(const struct device_choice *c, const struct device_model *m, bool trace) {
    uint64_t own = fake_is(c) ? arith_round_up(sizeof(struct fake_device), CARVE_ALIGN) : 0;
    return own + cpu_device_host_bytes(c, m, trace);
}

stator_status device_open(const struct device_opening *o, struct device **out, stator_error *e) {
    const struct device_choice *c = o->choice;
    const struct device_model *m = o->model;
    if (!fake_is(c))
        return cpu_device_open(o, out, e);
    uint64_t own = arith_round_up(sizeof(struct fake_device), CARVE_ALIGN);
    struct fake_device *f = o->memory;
    memset(f, 0, sizeof *f);
    f->device.vtable = &fake_vtable;
    f->model = f->inner = *m;
    f->inner.step_bytes = 0;
    f->facts = c->facts;
    f->index = c->where[0];
    f->phase = o->phase;
    f->random = f->index + 1;
    device_pinned_lay_out(&f->facts, m, &f->at);
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    struct device_opening inner = *o;
    inner.model = &f->inner;
    inner.memory = (uint8_t *)o->memory + own;
    inner.bytes = o->bytes - own;
    stator_status st = cpu_device_open(&inner, &f->cpu, e);
    if (st != STATOR_OK)
        return st;
    fake.opened++;
    f->has_thread = pthread_create(&f->thread, NULL, fake_thread, f) == 0;
    CHECK(f->has_thread);
    *out = &f->device;
    return STATOR_OK;
}

#endif
