/* Invariants: a slot is submitted again only after its end was seen (pipeline.h), so its buffers and sends
 * are free then; ends of one device come in the order of its submits. */
#include "device/remote/remote_device.h"

#include "base/arith.h"
#include "base/carve.h"
#include "base/check.h"
#include "base/clock.h"
#include "device/remote/remote_mpi.h"
#include "device/remote/remote_watch.h"
#include "device/remote/remote_wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define DONES    3             /* of two steps, and a sign of life */
#define PULSE_NS 1000000000ull /* between two of them, or a quarter of the deadline */

struct remote_device {
    struct device device;
    char name[32];
    uint32_t rank, index;
    bool after_us, first, follows;
    const struct device_link *in;
    struct device_model model;
    uint8_t *step[2];
    struct remote_command *command[2]; /* and the packed step behind it */
    MPI_Request sending[2], residual[2];
    struct remote_done *done[DONES]; /* and picks behind it; of the receives, which take turns */
    struct remote_receive receive[DONES];
    uint32_t next; /* receive */
    bool ended[2]; /* by slot */
    uint64_t submitted_ns[2];
    struct device_span span[2]; /* of the step that has ended */
    struct step_pick *picks[2];
    float *logits[2];
    MPI_Request coming[2]; /* logits */
    bool prepared, lost;
    MPI_Request ping;
    bool pinged; /* and not answered */
    bool asked;  /* for a note */
    bool noted;  /* it came */
    struct device_note note;
    uint64_t pinged_ns;
    struct device_counters counters;
};

static struct remote_device *self(struct device *d) {
    return (struct remote_device *)d;
}

static uint64_t command_bytes(const struct device_model *m) {
    return sizeof(struct remote_command) + remote_wire_most(m);
}

static uint64_t done_bytes(const struct device_model *m) {
    return sizeof(struct remote_done) + m->graph->want.logits_rows * sizeof(struct step_pick);
}

static uint64_t logits_bytes(const struct device_model *m) {
    const struct graph *g = m->graph;
    return g->logits == GRAPH_NONE
               ? 0
               : (uint64_t)g->want.logits_rows * g->values[g->logits].width * sizeof(float);
}

static struct remote_device *lay_out(struct carve *c, const struct device_model *m) {
    struct remote_device *r = carve_take(c, 1, sizeof *r);
    void *part[8], *done[DONES];
    for (int k = 0; k < 2; k++) {
        part[k] = carve_take(c, m->step_bytes, 1);
        part[2 + k] = carve_take(c, command_bytes(m), 1);
        part[4 + k] = carve_take(c, m->graph->want.logits_rows, sizeof(struct step_pick));
        part[6 + k] = carve_take(c, logits_bytes(m), 1);
    }
    for (int k = 0; k < DONES; k++)
        done[k] = carve_take(c, done_bytes(m), 1);
    if (c->base == NULL)
        return NULL;
    memset(r, 0, sizeof *r);
    for (int k = 0; k < 2; k++) {
        r->step[k] = part[k];
        r->command[k] = part[2 + k];
        r->picks[k] = part[4 + k];
        r->logits[k] = part[6 + k];
        r->sending[k] = r->residual[k] = r->coming[k] = MPI_REQUEST_NULL;
    }
    for (int k = 0; k < DONES; k++)
        r->done[k] = done[k];
    r->ping = MPI_REQUEST_NULL;
    return r;
}

static uint64_t host_bytes(const struct device_choice *c, const struct device_model *m, bool trace) {
    (void)c;
    (void)trace;
    struct carve count = carve_count();
    lay_out(&count, m);
    return count.used;
}

static stator_status prepare(struct device *d, const struct device_setup *s, stator_error *e) {
    struct remote_device *r = self(d);
    r->in = s->in;
    CHECK(r->follows || r->in != NULL); /* rank 0 has the first stage */
    remote_mpi_light_sleeper();
    for (int k = 0; k < 2; k++)
        memcpy(r->step[k], &r->model.step, step_header_bytes(r->model.graph->n_caches));
    for (int k = 0; k < DONES; k++) {
        stator_status st = remote_mpi_receive(&r->receive[k], r->done[k], done_bytes(&r->model), r->rank,
                                              REMOTE_TAG_DONE + (int)r->index, e);
        if (st != STATOR_OK)
            return st;
    }
    r->prepared = true;
    return STATOR_OK;
}

static void *step_slot(struct device *d, uint32_t slot) {
    return self(d)->step[slot];
}

static stator_status submit(struct device *d, uint32_t slot, stator_error *e) {
    struct remote_device *r = self(d);
    const struct step_header *h = (const struct step_header *)r->step[slot];
    bool sent = true, flowed = true;
    stator_status st = remote_mpi_sent(&r->sending[slot], &sent, e);
    if (st == STATOR_OK)
        st = remote_mpi_sent(&r->residual[slot], &flowed, e);
    if (st != STATOR_OK)
        return st;
    CHECK(sent && flowed && r->coming[slot] == MPI_REQUEST_NULL); /* its end was seen */
    r->ended[slot] = false;
    r->submitted_ns[slot] = clock_ns();
    r->counters.submits++;
    if (h->run_body && r->after_us) {
        uint64_t bytes = (uint64_t)h->n_tokens * r->model.graph->width * sizeof(float);
        r->counters.staged_bytes += bytes;
        st = remote_mpi_send(&r->residual[slot], r->in->window[slot], bytes, r->rank,
                             REMOTE_TAG_RESIDUAL + (int)slot, e);
        if (st != STATOR_OK)
            return st;
    }
    struct remote_command *c = r->command[slot];
    uint32_t bytes = r->follows ? 0 : remote_wire_pack(&r->model, r->step[slot], (uint8_t *)(c + 1));
    *c = (struct remote_command){.kind = REMOTE_STEP, .device = r->index, .slot = slot, .bytes = bytes};
    r->counters.copied_bytes += sizeof *c + bytes;
    return remote_mpi_send(&r->sending[slot], c, sizeof *c + bytes, r->rank, REMOTE_TAG_COMMAND, e);
}

static stator_status lose(struct remote_device *r, stator_error *e, const char *what) {
    r->lost = true;
    return error_set(e, STATOR_DEVICE, "%s (rank %u): %s", r->name, r->rank, what);
}

static void end_step(struct remote_device *r, const struct remote_done *done) {
    const uint64_t now = clock_ns(), passed = now - r->submitted_ns[done->slot];
    const uint64_t there = ARITH_MIN(done->step_ns, passed);
    const struct step_header *h = (const struct step_header *)r->step[done->slot];
    const uint32_t op = h->run_body == STEP_TAIL ? r->model.graph->tail : 0;
    r->ended[done->slot] = true;
    r->span[done->slot] = (struct device_span){.op = op, .begin_ns = now - there, .end_ns = now};
    r->counters.away_ns += passed - there;
}

/* A ping. */
static void answered(struct remote_device *r, const struct remote_done *done) {
    r->pinged = false;
    if (done->has_note == 0)
        return;
    memcpy(&r->note, done->text, sizeof r->note);
    r->note.text[sizeof r->note.text - 1] = '\0';
    r->note.rank = r->rank;
    r->asked = false;
    r->noted = true;
}

/* Takes what came. */
static stator_status take(struct remote_device *r, bool *moved, stator_error *e) {
    struct remote_done *done = r->done[r->next];
    uint64_t bytes = 0;
    *moved = false;
    stator_status st = remote_mpi_arrived(&r->receive[r->next], moved, &bytes, e);
    if (st != STATOR_OK || !*moved)
        return st;
    if (bytes < sizeof *done || done->device != r->index || done->slot > REMOTE_NO_SLOT ||
        done->n_rows > r->model.graph->want.logits_rows ||
        bytes != sizeof *done + (uint64_t)done->n_rows * sizeof(struct step_pick))
        return lose(r, e, "its answer can't be understood");
    if (done->status != STATOR_OK) {
        done->text[sizeof done->text - 1] = '\0';
        return lose(r, e, done->text);
    }
    uint32_t slot = done->slot;
    if (slot == REMOTE_NO_SLOT)
        answered(r, done);
    else
        end_step(r, done);
    r->counters.kernels_executed = done->kernels;
    r->counters.copied_bytes += bytes;
    if (slot != REMOTE_NO_SLOT)
        memcpy(r->picks[slot], done + 1, done->n_rows * sizeof(struct step_pick));
    if (slot != REMOTE_NO_SLOT && done->has_logits) {
        const struct graph *g = r->model.graph;
        uint64_t n = (uint64_t)done->n_rows * g->values[g->logits].width * sizeof(float);
        CHECK(n <= INT32_MAX);
        r->counters.copied_bytes += n;
        if (MPI_Irecv(r->logits[slot], (int)n, MPI_BYTE, (int)r->rank, REMOTE_TAG_LOGITS + (int)slot,
                      MPI_COMM_WORLD, &r->coming[slot]) != MPI_SUCCESS)
            return lose(r, e, "its logits can't be received");
    }
    st = remote_mpi_again(&r->receive[r->next], e);
    r->next = (r->next + 1) % DONES;
    return st;
}

static stator_status look(struct remote_device *r, uint32_t slot, bool *ended, stator_error *e) {
    bool moved = true;
    stator_status st = STATOR_OK;
    while (st == STATOR_OK && moved)
        st = take(r, &moved, e);
    *ended = false;
    if (st == STATOR_OK && r->ended[slot])
        st = remote_mpi_sent(&r->coming[slot], ended, e); /* true where none come */
    return st;
}

static stator_status wait(struct device *d, uint32_t slot, uint64_t timeout_ns, bool *ended,
                          stator_error *e) {
    struct remote_device *r = self(d);
    uint64_t began = clock_ns();
    for (;;) {
        stator_status st = look(r, slot, ended, e);
        uint64_t passed = clock_ns() - began;
        if (st != STATOR_OK || *ended || passed >= timeout_ns)
            return st;
        if (passed > 200000) { /* a step is rarely shorter; then the core is left to others */
            struct timespec pause = {.tv_nsec = 20000};
            nanosleep(&pause, NULL);
        }
    }
}

static const float *logits(struct device *d, uint32_t slot) {
    return self(d)->logits[slot];
}

static const struct step_pick *picks(struct device *d, uint32_t slot) {
    return self(d)->picks[slot];
}

/* Its clock is another one: the whole step, which ends when we hear of it. */
static uint32_t spans(struct device *d, uint32_t slot, struct device_span *out, uint32_t max) {
    CHECK(max > 0);
    *out = self(d)->span[slot];
    return 1;
}

static void counters(const struct device *d, struct device_counters *c) {
    *c = ((const struct remote_device *)d)->counters;
}

static uint64_t taken_bytes(const struct device *d) {
    (void)d;
    return 0;
}

/* Nothing of it is mapped here. */
static void *map(struct device *d, enum device_arena a, uint32_t slice) {
    (void)d;
    (void)a;
    (void)slice;
    return NULL;
}

static stator_status alive(struct device *d, uint64_t deadline_ns, struct device_note *note, bool *noted,
                           stator_error *e) {
    static const struct remote_command ping = {.kind = REMOTE_PING}, ask = {.kind = REMOTE_PING, .slot = 1};
    struct remote_device *r = self(d);
    uint64_t now = clock_ns();
    bool moved = true, sent = false;
    stator_status st = STATOR_OK;
    if (!r->first)
        return STATOR_OK; /* the first of its stage speaks for it */
    while (st == STATOR_OK && moved)
        st = take(r, &moved, e);
    if (st == STATOR_OK)
        st = remote_mpi_sent(&r->ping, &sent, e);
    if (st != STATOR_OK)
        return st;
    if ((r->pinged || !sent) && now - r->pinged_ns > deadline_ns) {
        r->lost = true;
        return error_set(
            e, STATOR_DEVICE,
            "%s: its rank %u has not answered for %.1f s: it was stopped or killed, or the network "
            "to it is cut",
            r->name, r->rank, (double)(now - r->pinged_ns) * 1e-9);
    }
    if (note != NULL && r->noted) {
        *note = r->note;
        *noted = true;
        r->noted = false;
        return STATOR_OK;
    }
    const bool asks = note != NULL && !r->asked;
    if (r->pinged || !sent || (!asks && now - r->pinged_ns < ARITH_MIN(deadline_ns / 4, PULSE_NS)))
        return STATOR_OK;
    r->pinged = true;
    r->asked = r->asked || asks;
    r->pinged_ns = now;
    return remote_mpi_send(&r->ping, asks ? &ask : &ping, sizeof ping, r->rank, REMOTE_TAG_COMMAND, e);
}

static void close_device(struct device *d) {
    struct remote_device *r = self(d);
    static const struct remote_command stop = {.kind = REMOTE_STOP};
    MPI_Request request = MPI_REQUEST_NULL;
    if (r->first && !r->lost && remote_watch_going() &&
        remote_mpi_send(&request, &stop, sizeof stop, r->rank, REMOTE_TAG_COMMAND, NULL) == STATOR_OK)
        (void)remote_mpi_flush(&request, 1000000000ull);
    for (int k = 0; k < DONES && r->prepared; k++)
        remote_mpi_forget(&r->receive[k]);
}

static const struct device_vtable vtable = {
    .map = map,
    .prepare = prepare,
    .step_slot = step_slot,
    .submit = submit,
    .wait = wait,
    .logits = logits,
    .picks = picks,
    .spans = spans,
    .counters = counters,
    .alive = alive,
    .taken_bytes = taken_bytes,
    .close = close_device,
};

static stator_status open_remote(const struct device_opening *o, struct device **out, stator_error *e) {
    const struct device_choice *c = o->choice;
    struct carve carve = carve_in(o->memory, o->bytes);
    struct remote_device *r = lay_out(&carve, o->model);
    (void)e;
    r->device.vtable = &vtable;
    snprintf(r->name, sizeof r->name, "%s", c->facts.name);
    r->rank = c->where[REMOTE_RANK];
    r->index = c->where[REMOTE_INDEX];
    r->after_us = c->where[REMOTE_AFTER_US] != 0;
    r->first = c->where[REMOTE_FIRST] != 0;
    r->follows = c->where[REMOTE_FOLLOWS] != 0;
    r->model = *o->model;
    *out = &r->device;
    return STATOR_OK;
}

static bool owns(const struct device_facts *f) {
    return f->remote;
}

const struct device_backend remote_device_backend = {
    .name = "remote",
    .owns = owns,
    .host_bytes = host_bytes,
    .open = open_remote,
};
