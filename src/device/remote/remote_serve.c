/* What a rank above 0 does between its start and rank 0's end: commands come, steps run on the devices here,
 * the residual stream goes on to the next rank, ends go back to rank 0.
 *
 * Invariants: steps of a device run in the order of their commands; a step with a body of the stage's first
 * device waits for its residual stream; devices of a group begin a step together, when all have its command;
 * a slot's buffers are free when its next command comes (pipeline.h). */
#include "base/arith.h"
#include "base/carve.h"
#include "base/check.h"
#include "base/clock.h"
#include "device/cluster.h"
#include "device/remote/remote_mpi.h"
#include "device/remote/remote_wire.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define SPIN_NS 2000000    /* after the last thing that happened: looks without a pause */
#define IDLE_NS 1000000000 /* after it: longer pauses */

/* A step that was commanded and has not ended. */
struct order {
    uint32_t slot;
    bool submitted;
    uint64_t began_ns;
};

struct stage_device {
    const struct device_stage *of;
    struct order orders[2];
    uint32_t n_orders;
    struct remote_done *done[2]; /* by slot, and picks behind it */
    MPI_Request answer[2], logits[2], residual[2];
};

struct stage {
    struct stage_device devices[DEVICE_MAX];
    uint32_t first, n, all;
    bool together; /* the devices are a group */
    struct remote_receive commands[2 * DEVICE_MAX + 2];
    uint32_t n_commands, next;
    struct remote_receive landing[2]; /* residual streams from the rank before */
    bool landed[2];
    bool stop;
    uint32_t rank;
    struct remote_done pong;
    MPI_Request ponging;
    uint64_t heard_ns; /* of rank 0 */
    const struct device_notes *notes;
};

static uint64_t command_bytes(const struct device_model *m) {
    return sizeof(struct remote_command) + remote_wire_most(m);
}

static uint64_t done_bytes(const struct device_model *m) {
    return sizeof(struct remote_done) + m->graph->want.logits_rows * sizeof(struct step_pick);
}

static struct stage *lay_out(struct carve *c, const struct device_model *m, uint32_t n) {
    struct stage *s = carve_take(c, 1, sizeof *s);
    uint32_t commands = 2 * n + 2;
    uint8_t *received = carve_take(c, commands, arith_round_up(command_bytes(m), 64));
    uint8_t *answers = carve_take(c, 2ull * n, arith_round_up(done_bytes(m), 64));
    if (c->base == NULL)
        return NULL;
    memset(s, 0, sizeof *s);
    s->n = n;
    s->n_commands = commands;
    s->ponging = MPI_REQUEST_NULL;
    for (uint32_t i = 0; i < commands; i++)
        s->commands[i].memory = received + i * arith_round_up(command_bytes(m), 64);
    for (uint32_t i = 0; i < n; i++) {
        struct stage_device *d = &s->devices[i];
        for (uint32_t k = 0; k < 2; k++) {
            d->done[k] =
                (struct remote_done *)(void *)(answers + (2 * i + k) * arith_round_up(done_bytes(m), 64));
            d->answer[k] = d->logits[k] = d->residual[k] = MPI_REQUEST_NULL;
        }
    }
    return s;
}

uint64_t device_cluster_serve_bytes(const struct device_model *m, uint32_t n) {
    struct carve count = carve_count();
    lay_out(&count, m, n);
    return count.used;
}

static uint64_t residual_bytes(const struct stage_device *d, const struct step_header *h) {
    return (uint64_t)h->n_tokens * d->of->model->graph->width * sizeof(float);
}

static const struct step_header *step_of(const struct stage_device *d, uint32_t slot) {
    struct device *device = d->of->device;
    return device->vtable->step_slot(device, slot);
}

static stator_status listen(struct stage *s, stator_error *e) {
    const struct device_model *m = s->devices[0].of->model;
    stator_status st = STATOR_OK;
    for (uint32_t i = 0; i < s->n_commands && st == STATOR_OK; i++)
        st = remote_mpi_receive(&s->commands[i], s->commands[i].memory, command_bytes(m), 0,
                                REMOTE_TAG_COMMAND, e);
    uint64_t most = (uint64_t)m->graph->want.batch * m->graph->width * sizeof(float);
    for (uint32_t k = 0; k < 2 && st == STATOR_OK; k++)
        st = remote_mpi_receive(&s->landing[k], s->devices[0].of->in->window[k], most, s->rank - 1,
                                REMOTE_TAG_RESIDUAL + (int)k, e);
    return st;
}

static stator_status pong(struct stage *s, bool notes, stator_error *e) {
    struct device_note note = {.rank = s->rank};
    bool sent = false;
    stator_status st = remote_mpi_sent(&s->ponging, &sent, e);
    if (st != STATOR_OK || !sent) /* the one before has not gone: rank 0 will have that */
        return st;
    s->pong = (struct remote_done){.device = s->first, .slot = REMOTE_NO_SLOT, .has_note = notes};
    if (notes) {
        s->notes->take(s->notes->context, &note);
        memcpy(s->pong.text, &note, sizeof note);
    }
    return remote_mpi_send(&s->ponging, &s->pong, sizeof s->pong, 0, REMOTE_TAG_DONE + (int)s->first, e);
}

/* The next step that the device begins; NULL: none is commanded. */
static struct order *next_order(struct stage_device *d) {
    for (uint32_t k = 0; k < d->n_orders; k++)
        if (!d->orders[k].submitted)
            return &d->orders[k];
    return NULL;
}

/* The step of the command, into its slot. False: it is none of this model. */
static bool take_step(struct stage *s, uint32_t i, const struct remote_command *c) {
    const struct stage_device *d = &s->devices[i], *before = d - (i > 0);
    const struct device_model *m = d->of->model;
    uint8_t *slot = d->of->device->vtable->step_slot(d->of->device, c->slot);
    if (!s->together || i == 0)
        return remote_wire_unpack(m, (const uint8_t *)(c + 1), c->bytes, slot);
    const uint32_t n = before->n_orders;
    if (c->bytes > 0 || n == 0 || before->orders[n - 1].submitted || before->orders[n - 1].slot != c->slot)
        return false; /* the device before has no such step */
    remote_wire_copy(m, (const uint8_t *)step_of(before, c->slot), slot);
    return true;
}

static stator_status obey(struct stage *s, const struct remote_command *c, uint64_t bytes, stator_error *e) {
    if (bytes < sizeof *c || (c->kind == REMOTE_STEP && bytes != sizeof *c + c->bytes) ||
        c->kind > REMOTE_PING)
        return error_set(e, STATOR_DEVICE, "rank %u: a command of rank 0 can't be understood", s->rank);
    s->stop = s->stop || c->kind == REMOTE_STOP;
    if (s->stop)
        return STATOR_OK;
    if (c->kind == REMOTE_PING)
        return pong(s, c->slot == 1, e);
    uint32_t i = c->device - s->first;
    if (c->device < s->first || i >= s->n || c->slot > 1 || s->devices[i].n_orders == 2)
        return error_set(e, STATOR_DEVICE,
                         "rank %u: rank 0 commands a step on device %u, slot %u, which is not free here",
                         s->rank, c->device, c->slot);
    struct stage_device *d = &s->devices[i];
    if (!take_step(s, i, c))
        return error_set(e, STATOR_DEVICE, "rank %u: a step of rank 0 is none of this model", s->rank);
    d->orders[d->n_orders++] = (struct order){.slot = c->slot};
    return STATOR_OK;
}

static stator_status take_commands(struct stage *s, bool *moved, stator_error *e) {
    for (;;) {
        struct remote_receive *r = &s->commands[s->next];
        bool arrived = false;
        uint64_t bytes = 0;
        stator_status st = remote_mpi_arrived(r, &arrived, &bytes, e);
        if (st != STATOR_OK || !arrived)
            return st;
        s->heard_ns = clock_ns();
        *moved = *moved || ((const struct remote_command *)r->memory)->kind != REMOTE_PING;
        st = obey(s, r->memory, bytes, e);
        if (st == STATOR_OK && !s->stop)
            st = remote_mpi_again(r, e);
        if (st != STATOR_OK || s->stop)
            return st;
        s->next = (s->next + 1) % s->n_commands;
    }
}

static stator_status take_landings(struct stage *s, bool *moved, stator_error *e) {
    stator_status st = STATOR_OK;
    for (uint32_t k = 0; k < 2 && st == STATOR_OK; k++) {
        bool arrived = false;
        uint64_t bytes = 0;
        if (s->landed[k])
            continue;
        st = remote_mpi_arrived(&s->landing[k], &arrived, &bytes, e);
        s->landed[k] = arrived;
        *moved = *moved || arrived;
    }
    return st;
}

/* What the slot sent last has gone. */
static stator_status settle(MPI_Request *request, const struct stage *s, stator_error *e) {
    if (remote_mpi_flush(request, 60000000000ull))
        return STATOR_OK;
    return error_set(e, STATOR_DEVICE, "rank %u: what it sent is not received", s->rank);
}

static stator_status begin(struct stage *s, uint32_t i, struct order *o, stator_error *e) {
    struct stage_device *d = &s->devices[i];
    stator_status st = settle(&d->residual[o->slot], s, e);
    if (st == STATOR_OK)
        st = settle(&d->logits[o->slot], s, e);
    o->began_ns = clock_ns();
    if (st == STATOR_OK)
        st = d->of->device->vtable->submit(d->of->device, o->slot, e);
    o->submitted = true;
    return st;
}

/* Whether the device has all that its next step needs. */
static bool can_begin(struct stage *s, uint32_t i) {
    const struct order *o = next_order(&s->devices[i]);
    if (o == NULL)
        return false;
    return i > 0 || !step_of(&s->devices[0], o->slot)->run_body || s->landed[o->slot];
}

/* Devices [first, end), which work on a step together, begin their next steps; no step overtakes another. */
static stator_status begin_next(struct stage *s, uint32_t first, uint32_t end, bool *moved, stator_error *e) {
    for (;;) {
        const struct order *o = next_order(&s->devices[first]);
        for (uint32_t i = first; i < end; i++)
            if (!can_begin(s, i))
                return STATOR_OK;
        const uint32_t slot = o->slot;
        *moved = true;
        for (uint32_t i = first; i < end; i++) {
            struct order *own = next_order(&s->devices[i]);
            CHECK(own->slot == slot);
            stator_status st = begin(s, i, own, e);
            if (st != STATOR_OK)
                return st;
        }
    }
}

/* The step of the slot has ended: on with it. */
static stator_status pass_on(struct stage *s, uint32_t i, uint32_t slot, uint64_t step_ns, stator_error *e) {
    struct stage_device *d = &s->devices[i];
    struct device *device = d->of->device;
    const struct step_header *h = step_of(d, slot);
    const struct graph *g = d->of->model->graph;
    const bool tail = g->logits != GRAPH_NONE && h->n_rows > 0;
    stator_status st = STATOR_OK;
    if (i == 0 && h->run_body) {
        s->landed[slot] = false;
        st = remote_mpi_again(&s->landing[slot], e);
    }
    if (st == STATOR_OK && h->run_body && i + 1 == s->n && s->first + s->n < s->all)
        st = remote_mpi_send(&d->residual[slot], d->of->out->window[slot], residual_bytes(d, h), s->rank + 1,
                             REMOTE_TAG_RESIDUAL + (int)slot, e);
    if (st == STATOR_OK)
        st = settle(&d->answer[slot], s, e);
    if (st != STATOR_OK)
        return st;
    struct device_counters counters;
    device->vtable->counters(device, &counters);
    struct remote_done *done = d->done[slot];
    *done = (struct remote_done){.device = s->first + i,
                                 .slot = slot,
                                 .n_rows = tail ? h->n_rows : 0,
                                 .has_logits = tail && h->want_logits,
                                 .step_ns = step_ns,
                                 .kernels = (uint32_t)counters.kernels_executed};
    if (tail)
        memcpy(done + 1, device->vtable->picks(device, slot), h->n_rows * sizeof(struct step_pick));
    st = remote_mpi_send(&d->answer[slot], done, sizeof *done + done->n_rows * sizeof(struct step_pick), 0,
                         REMOTE_TAG_DONE + (int)done->device, e);
    if (st == STATOR_OK && done->has_logits)
        st = remote_mpi_send(&d->logits[slot], device->vtable->logits(device, slot),
                             (uint64_t)h->n_rows * g->values[g->logits].width * sizeof(float), 0,
                             REMOTE_TAG_LOGITS + (int)slot, e);
    return st;
}

static stator_status run_device(struct stage *s, uint32_t i, bool *moved, stator_error *e) {
    struct stage_device *d = &s->devices[i];
    stator_status st = STATOR_OK;
    if (!s->together || i == 0)
        st = begin_next(s, i, s->together ? s->n : i + 1, moved, e);
    if (st != STATOR_OK || d->n_orders == 0 || !d->orders[0].submitted)
        return st;
    bool ended = false;
    uint32_t slot = d->orders[0].slot;
    st = d->of->device->vtable->wait(d->of->device, slot, 0, &ended, e);
    if (st != STATOR_OK || !ended)
        return st;
    const uint64_t step_ns = clock_ns() - d->orders[0].began_ns;
    d->orders[0] = d->orders[1];
    d->n_orders--;
    *moved = true;
    return pass_on(s, i, slot, step_ns, e);
}

/* A fault is told to rank 0 as the end of whatever it waits for. */
static void tell_fault(struct stage *s, const stator_error *why) {
    struct stage_device *d = &s->devices[0];
    for (uint32_t i = 0; i < s->n; i++)
        if (s->devices[i].n_orders > 0)
            d = &s->devices[i];
    struct remote_done *done = d->done[0];
    if (!remote_mpi_flush(&d->answer[0], 1000000000ull))
        return;
    *done =
        (struct remote_done){.device = s->first + (uint32_t)(d - s->devices), .status = (uint32_t)why->code};
    snprintf(done->text, sizeof done->text, "%.319s", why->text);
    if (remote_mpi_send(&d->answer[0], done, sizeof *done, 0, REMOTE_TAG_DONE + (int)done->device, NULL) ==
        STATOR_OK)
        (void)remote_mpi_flush(&d->answer[0], 1000000000ull);
}

static void rest(uint64_t since) {
    uint64_t idle = clock_ns() - since;
    if (idle < SPIN_NS)
        return;
    struct timespec pause = {.tv_nsec = idle < IDLE_NS ? 50000 : 1000000};
    nanosleep(&pause, NULL);
}

static void let_go(struct stage *s) {
    for (uint32_t i = 0; i < s->n_commands; i++)
        remote_mpi_forget(&s->commands[i]);
    for (uint32_t k = 0; k < 2; k++)
        remote_mpi_forget(&s->landing[k]);
    (void)remote_mpi_flush(&s->ponging, 1000000000ull);
    for (uint32_t i = 0; i < s->n; i++)
        for (uint32_t k = 0; k < 2; k++) {
            (void)remote_mpi_flush(&s->devices[i].answer[k], 1000000000ull);
            (void)remote_mpi_flush(&s->devices[i].logits[k], 1000000000ull);
            (void)remote_mpi_flush(&s->devices[i].residual[k], 1000000000ull);
        }
}

stator_status device_cluster_serve(const struct device_serving *serving, stator_error *e) {
    const uint32_t first = serving->first;
    struct carve carve = carve_in(serving->memory, serving->bytes);
    struct stage *s = lay_out(&carve, serving->stages[first].model, serving->end - first);
    s->first = first;
    s->all = serving->all;
    s->together = serving->together;
    s->notes = serving->notes;
    s->rank = device_cluster().rank;
    for (uint32_t i = 0; i < s->n; i++)
        s->devices[i].of = &serving->stages[first + i];
    remote_mpi_light_sleeper();
    stator_status st = listen(s, e);
    uint64_t since = s->heard_ns = clock_ns();
    while (st == STATOR_OK && !s->stop) {
        bool moved = false;
        st = take_commands(s, &moved, e);
        if (st == STATOR_OK)
            st = take_landings(s, &moved, e);
        for (uint32_t i = 0; i < s->n && st == STATOR_OK && !s->stop; i++)
            st = run_device(s, i, &moved, e);
        if (st == STATOR_OK && clock_ns() - s->heard_ns > serving->deadline_ns)
            st = error_set(
                e, STATOR_DEVICE,
                "rank 0 was not heard of for %.1f s (devices.deadline): it was stopped or killed, or the "
                "network to it is cut",
                (double)serving->deadline_ns * 1e-9);
        if (moved)
            since = clock_ns();
        else
            rest(since);
    }
    if (st != STATOR_OK)
        tell_fault(s, e);
    let_go(s);
    return st;
}
