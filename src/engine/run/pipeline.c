#include "engine/run/pipeline.h"

#include "base/clock.h"
#include "engine/run/step_writer.h"
#include "engine/run/trace.h"

#include <inttypes.h>
#include <string.h>

#define NAP_NS  20000   /* between looks when several devices work */
#define LOOK_NS 1000000 /* when one does; commands wait as long */

static struct engine_step *step_of(const struct stator *s, uint64_t number) {
    DCHECK(number >= s->run.first_step && number - s->run.first_step < s->run.max_steps);
    return &s->run.steps[number % s->run.max_steps];
}

static uint32_t slot_of(const struct stator *s, uint64_t number) {
    return (uint32_t)(number % s->planning.devices[0].model.slots);
}

/* The devices of a group work on a step together; it is at the last one, which has their results. */
static bool is_last(const struct stator *s, uint32_t device) {
    return device + 1 == s->planning.n_devices;
}

/* Where a step begins. */
static uint32_t entry(const struct stator *s) {
    return planning_stage_last(&s->planning, 0);
}

/* Where a step goes that is at `device`. */
static uint32_t next_of(const struct stator *s, uint32_t device) {
    return planning_stage_last(&s->planning, device + 1);
}

/* The first device that works on a step which is at device `at`. */
static uint32_t first_of(const struct stator *s, uint32_t at) {
    return planning_stage_first(&s->planning, at);
}

/* Whether step `number` finds its slot on the device, and the halves behind it, free. */
static bool slot_is_free(const struct stator *s, uint64_t number, uint32_t device) {
    uint32_t slots = s->planning.devices[0].model.slots;
    if (number < s->run.first_step + slots)
        return true; /* the one before it in the slot was finished, or never was */
    const struct engine_step *before = step_of(s, number - slots);
    return !is_last(s, device) &&
           (before->at > next_of(s, device) || (before->at == next_of(s, device) && !before->running));
}

static bool may_enter(const struct stator *s, uint64_t number, uint32_t device) {
    if (number > s->run.first_step && step_of(s, number - 1)->at < device)
        return false; /* it would overtake */
    if (!slot_is_free(s, number, device))
        return false;
    for (uint64_t i = s->run.first_step; is_last(s, device) && i < number; i++)
        if (step_of(s, i)->reader != NULL)
            return false; /* its tails are not over */
    return true;
}

bool pipeline_is_empty(const struct stator *s) {
    return s->run.next_step == s->run.first_step;
}

static uint32_t steps_on(const struct stator *s, uint32_t device) {
    uint32_t n = 0;
    for (uint64_t i = s->run.first_step; i < s->run.next_step; i++)
        n += step_of(s, i)->running && step_of(s, i)->at == device;
    return n;
}

static uint32_t steps_with(const struct stator *s, const struct engine_sequence *q) {
    uint32_t n = 0;
    for (uint64_t i = s->run.first_step; i < s->run.next_step; i++)
        for (uint32_t k = 0; k < step_of(s, i)->n_chunks; k++)
            n += step_of(s, i)->carried[k] == q;
    return n;
}

bool pipeline_is_balanced(const struct stator *s) {
    bool balanced =
        s->run.first_step <= s->run.next_step && s->run.next_step - s->run.first_step <= s->run.max_steps;
    for (uint32_t i = 0; i < s->planning.n_devices && balanced; i++)
        balanced = s->devices[i].n_running == steps_on(s, i);
    for (uint32_t i = 0; i < s->planning.want.sequences && balanced; i++)
        balanced = s->run.sequences[i].flights == steps_with(s, &s->run.sequences[i]);
    return balanced;
}

bool pipeline_works(const struct stator *s) {
    for (uint64_t i = s->run.first_step; i < s->run.next_step; i++)
        if (step_of(s, i)->running)
            return true;
    return false;
}

bool pipeline_has_room(const struct stator *s) {
    return s->run.next_step - s->run.first_step < s->run.max_steps &&
           may_enter(s, s->run.next_step, entry(s));
}

struct engine_step *pipeline_next(struct stator *s, uint8_t **slot) {
    CHECK(s->run.next_step - s->run.first_step < s->run.max_steps);
    struct device *d = s->devices[0].device;
    struct engine_step *step = &s->run.steps[s->run.next_step % s->run.max_steps];
    *step =
        (struct engine_step){.number = s->run.next_step, .carried = step->carried, .of_row = step->of_row};
    *slot = d->vtable->step_slot(d, slot_of(s, step->number));
    return step;
}

/* Whether steps run on it while we do something else. */
static bool works_aside(const struct stator *s, uint32_t device) {
    return s->planning.devices[device].facts.remote || s->devices[device].device->vtable->settle != NULL;
}

/* A step begins on the device: what the ones before and behind it have to do meanwhile. */
static void note_overlap(struct stator *s, uint32_t device) {
    const uint32_t now = s->devices[device].n_running + 1, first = first_of(s, device);
    if (!is_last(s, device) && works_aside(s, next_of(s, device)) &&
        s->devices[next_of(s, device)].n_running > 0)
        atomic_fetch_add_explicit(&s->devices[device].overlapped, 1, memory_order_relaxed);
    if (first > 0 && works_aside(s, device) && now > atomic_load(&s->devices[first - 1].most_ahead))
        atomic_store(&s->devices[first - 1].most_ahead, now);
}

/* To the devices of the group before `device`, its last one, and their descriptor to that. */
static stator_status submit_shares(struct stator *s, uint32_t slot, uint32_t device, stator_error *e) {
    for (uint32_t i = first_of(s, device); i < device; i++) {
        struct device *from = s->devices[i].device, *to = s->devices[i + 1].device;
        step_writer_copy(to->vtable->step_slot(to, slot), from->vtable->step_slot(from, slot));
        stator_status st = from->vtable->submit(from, slot, e);
        if (st != STATOR_OK)
            return st;
    }
    return STATOR_OK;
}

/* What a body needs beside its descriptor, to all devices of the group. */
static void give_rows(const struct stator *s, const struct engine_step *step, uint32_t device) {
    for (uint32_t i = first_of(s, device); i <= device; i++)
        ngram_rows_give(s, step, i);
}

/* The first device of the group has the descriptor. */
static stator_status submit(struct stator *s, struct engine_step *step, uint32_t device, stator_error *e) {
    CHECK(device < s->planning.n_devices && !step->running);
    struct engine_device *d = &s->devices[device];
    step->at = device;
    note_overlap(s, device);
    if (d->n_running == 0)
        d->busy_since_ns = clock_ns();
    stator_status st = submit_shares(s, slot_of(s, step->number), device, e);
    if (st == STATOR_OK)
        st = d->device->vtable->submit(d->device, slot_of(s, step->number), e);
    if (st != STATOR_OK)
        return st;
    step->running = true;
    d->n_running++;
    return STATOR_OK;
}

stator_status pipeline_begin(struct stator *s, stator_error *e) {
    DCHECK(pipeline_has_room(s));
    struct engine_step *step = &s->run.steps[s->run.next_step % s->run.max_steps];
    CHECK(step->number == s->run.next_step && step->n_tokens > 0 && step->n_chunks > 0);
    for (uint32_t i = 0; i < step->n_chunks; i++)
        step->carried[i]->flights++;
    step->began_ns = clock_ns();
    if (pipeline_is_empty(s))
        atomic_store(&s->shown.moved_ns, step->began_ns);
    s->run.next_step++;
    give_rows(s, step, entry(s));
    return submit(s, step, entry(s), e);
}

/* Waits at most timeout_ns until all devices that work on the step have ended it; looks at each, since one
 * may wait for another one that is lost. */
static stator_status wait_for(struct stator *s, const struct engine_step *step, uint64_t timeout_ns,
                              bool *ended, stator_error *e) {
    stator_status st = STATOR_OK;
    *ended = true;
    for (uint32_t i = first_of(s, step->at); i <= step->at && st == STATOR_OK; i++) {
        struct device *d = s->devices[i].device;
        bool one = false;
        st = d->vtable->wait(d, slot_of(s, step->number), *ended ? timeout_ns : 0, &one, e);
        *ended = *ended && one;
    }
    return st;
}

static void trace_all(struct stator *s, const struct engine_step *step) {
    for (uint32_t i = first_of(s, step->at); i <= step->at; i++) {
        struct engine_step of = *step;
        of.at = i;
        trace_step(s, &of);
    }
}

/* Whether the step has ended where it is, waiting for it at most timeout_ns. */
static stator_status look(struct stator *s, struct engine_step *step, uint64_t timeout_ns, stator_error *e) {
    struct engine_device *d = &s->devices[step->at];
    bool ended = false;
    const uint64_t asked = clock_ns(); /* before: whatever holds us up after the wait is not the device */
    stator_status st = wait_for(s, step, timeout_ns, &ended, e);
    if (st != STATOR_OK)
        return st;
    if (!ended) {
        d->hangs = asked - d->busy_since_ns > s->run.deadline_ns;
        if (!d->hangs)
            return STATOR_OK;
        return error_set(e, STATOR_DEVICE, "%s: wait: a step of %u tokens has not ended after %.1f s: %s",
                         s->planning.devices[step->at].facts.name, step->n_tokens,
                         (double)s->run.deadline_ns * 1e-9,
                         s->planning.devices[step->at].facts.remote
                             ? "the rank of that host was stopped or killed, or the network to it is cut"
                             : "the device or its driver hangs");
    }
    CHECK(step->running && d->n_running > 0);
    step->running = false;
    d->n_running--;
    d->busy_since_ns = clock_ns(); /* of the next one, which has waited behind this one */
    trace_all(s, step);
    return STATOR_OK;
}

static stator_status move_on(struct stator *s, struct engine_step *step, stator_error *e) {
    CHECK(!step->running && !is_last(s, step->at));
    struct device *from = s->devices[step->at].device;
    struct device *to = s->devices[step->at + 1].device;
    uint32_t slot = slot_of(s, step->number);
    step_writer_copy(to->vtable->step_slot(to, slot), from->vtable->step_slot(from, slot));
    give_rows(s, step, next_of(s, step->at));
    return submit(s, step, next_of(s, step->at), e);
}

stator_status pipeline_advance(struct stator *s, bool *moved, stator_error *e) {
    for (uint64_t i = s->run.first_step; i < s->run.next_step; i++) {
        struct engine_step *step = step_of(s, i);
        if (step->running) {
            stator_status st = look(s, step, 0, e);
            if (st != STATOR_OK)
                return st;
            *moved = *moved || !step->running;
        }
        if (step->running || is_last(s, step->at) || !may_enter(s, i, next_of(s, step->at)))
            continue;
        stator_status st = move_on(s, step, e);
        if (st != STATOR_OK)
            return st;
        *moved = true;
    }
    return STATOR_OK;
}

struct engine_step *pipeline_ended(struct stator *s) {
    if (pipeline_is_empty(s))
        return NULL;
    struct engine_step *step = step_of(s, s->run.first_step);
    return !step->running && is_last(s, step->at) ? step : NULL;
}

stator_status pipeline_again(struct stator *s, struct engine_step *step, uint32_t first, uint32_t rows,
                             stator_error *e) {
    CHECK(step == pipeline_ended(s) && step->reader != NULL && rows <= s->planning.want.logits_rows);
    struct device *d = s->devices[first_of(s, step->at)].device;
    uint8_t *slot = d->vtable->step_slot(d, slot_of(s, step->number));
    struct step_header *h = (struct step_header *)slot;
    uint32_t *wanted = (uint32_t *)(slot + h->at_rows);
    for (uint32_t i = 0; i < rows; i++)
        wanted[i] = first + i;
    h->n_rows = rows;
    h->run_body = STEP_TAIL;
    step->n_rows = rows;
    atomic_store(&s->shown.moved_ns, clock_ns());
    return submit(s, step, step->at, e);
}

void pipeline_finish(struct stator *s, struct engine_step *step) {
    CHECK(step == pipeline_ended(s));
    CHECK(step->ended_ns >= step->began_ns);
    uint64_t ns = step->ended_ns - step->began_ns;
    for (uint32_t i = 0; i < step->n_chunks; i++) {
        CHECK(step->carried[i]->flights > 0);
        step->carried[i]->flights--;
        struct engine_shown *shown = &step->carried[i]->request->shown;
        atomic_fetch_add(&shown->steps, 1);
        atomic_fetch_add(&shown->step_ns, ns);
        atomic_store(&shown->last_step_ns, ns);
    }
    s->run.first_step++;
    atomic_fetch_add(&s->shown.step_ns, ns);
    atomic_store(&s->shown.last_step_ns, ns);
    if (ns > atomic_load(&s->shown.longest_step_ns))
        atomic_store(&s->shown.longest_step_ns, ns);
    atomic_store(&s->shown.moved_ns, pipeline_is_empty(s) ? 0 : clock_ns());
    atomic_fetch_add_explicit(&s->stepped, 1, memory_order_relaxed);
}

stator_status pipeline_wait(struct stator *s, stator_error *e) {
    struct engine_step *oldest = step_of(s, s->run.first_step);
    uint32_t running = 0;
    for (uint64_t i = s->run.first_step; i < s->run.next_step; i++) {
        struct engine_step *step = step_of(s, i);
        if (step->running && running++ == 0)
            oldest = step;
    }
    CHECK(running > 0); /* what does not run can move, so advance has moved it */
    return look(s, oldest, running == 1 ? LOOK_NS : NAP_NS, e);
}

void pipeline_drain(struct stator *s) {
    uint64_t end = clock_ns() + s->run.deadline_ns;
    for (uint64_t i = s->run.first_step; i < s->run.next_step; i++) {
        struct engine_step *step = step_of(s, i);
        bool ended = !step->running || s->devices[step->at].hangs;
        while (!ended && clock_ns() < end)
            if (wait_for(s, step, LOOK_NS, &ended, NULL) != STATOR_OK)
                break; /* it is lost, and with it what it ran */
        step->running = false;
    }
    for (uint32_t i = 0; i < s->planning.n_devices; i++)
        s->devices[i].n_running = 0;
    s->run.first_step = s->run.next_step;
    atomic_store(&s->shown.moved_ns, 0);
}
