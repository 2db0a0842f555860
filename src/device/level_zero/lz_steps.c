#include "device/level_zero/lz_steps.h"

#include "base/clock.h"
#include "os/pages.h"
#include "device/launch/launch_modules.h"
#include "device/level_zero/lz_cache.h"
#include "device/level_zero/lz_exchange.h"
#include "device/level_zero/system/lz_facts.h"
#include "device/level_zero/lz_helped.h"
#include "device/level_zero/lz_moves.h"
#include "device/level_zero/lz_stream.h"
#include "kernels/shared/opencl.h"

#include <stdio.h>
#include <string.h>

#define LAUNCHES_PER_OP 4 /* more than any op has whose data is in one slice; checked */
#define LAUNCHES_BESIDE (16 + 2 * GRAPH_MAX_SLICES) /* one more for each slice of KV and cut of a weight */
#define BUILD_LOG       400                         /* bytes of a compiler's log in an error */

/* A list that is being recorded. */
struct recording {
    struct lz_device *d;
    uint32_t slot;
    uint32_t rows; /* of the bucket */
    bool guesses;  /* a pass of the MTP head */
    struct lz_list *list;
    stator_error *e;
};

uint32_t lz_steps_room(const struct device_model *m) {
    return m->graph->n_ops * LAUNCHES_PER_OP + LAUNCHES_BESIDE + launch_streamed(m);
}

void lz_steps_lay_out(struct lz_steps *s, struct carve *c, const struct device_model *m, bool trace) {
    memset(s, 0, sizeof *s);
    s->modules = carve_take(c, opencl_n_modules, sizeof *s->modules);
    s->kernels = carve_take(c, launch_n_kernels, sizeof *s->kernels);
    s->room = carve_take(c, 1, launch_modules_room());
    if (!trace)
        return;
    s->max_events = lz_steps_room(m);
    for (int k = 0; k < 2; k++) {
        s->events[k] = carve_take(c, s->max_events, sizeof *s->events[k]);
        for (int b = 0; b < LAUNCH_BUCKETS; b++) {
            s->body[k][b].ops = carve_take(c, s->max_events, sizeof(uint32_t));
            s->tail[k][b].ops = carve_take(c, s->max_events, sizeof(uint32_t));
            if (m->graph->guess < m->graph->n_ops)
                s->guess[k][b].ops = carve_take(c, s->max_events, sizeof(uint32_t));
        }
    }
}

static stator_status module_error(struct lz_device *d, const struct opencl_module *m, ze_result_t r,
                                  ze_module_build_log_handle_t log, stator_error *e) {
    const struct lz_calls *ze = &d->system->ze;
    char text[BUILD_LOG] = "";
    size_t n = 0;
    /* A longer log is left out: the driver copies all of it, whatever its length. */
    if (log != NULL && ze->zeModuleBuildLogGetString(log, &n, NULL) == ZE_RESULT_SUCCESS && n > 1 &&
        n <= sizeof text)
        (void)ze->zeModuleBuildLogGetString(log, &n, text);
    char what[64];
    snprintf(what, sizeof what, "zeModuleCreate(%.40s)", m->name);
    stator_status st = lz_queue_error(&d->queue, what, r, e);
    size_t have = e != NULL ? strlen(e->text) : 0;
    if (e != NULL && text[0] != '\0')
        snprintf(e->text + have, sizeof e->text - have, ": %s", text);
    return st;
}

static ze_result_t create_module(struct lz_device *d, const char *options, ze_module_format_t format,
                                 const void *input, uint64_t bytes, ze_module_handle_t *module,
                                 ze_module_build_log_handle_t *log) {
    ze_module_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_MODULE_DESC,
                             .format = format,
                             .inputSize = bytes,
                             .pInputModule = input,
                             .pBuildFlags = options};
    return d->system->ze.zeModuleCreate(d->context, d->gpu->handle, &desc, module, log);
}

/* The stored binary, if the driver accepts it. */
static bool kept_module(struct lz_device *d, const struct lz_cache *c, const struct opencl_module *m,
                        ze_module_handle_t *module) {
    uint64_t bytes = 0;
    void *binary = lz_cache_load(c, m, &bytes);
    if (binary == NULL)
        return false;
    ze_result_t r = create_module(d, c->options, ZE_MODULE_FORMAT_NATIVE, binary, bytes, module, NULL);
    lz_cache_free(binary, bytes);
    if (r != ZE_RESULT_SUCCESS)
        lz_cache_ignored(c, m, "the driver refuses it");
    return r == ZE_RESULT_SUCCESS;
}

static void keep_module(struct lz_device *d, const struct lz_cache *c, const struct opencl_module *m,
                        ze_module_handle_t module) {
    const struct lz_calls *ze = &d->system->ze;
    size_t capacity = 0;
    void *binary = NULL;
    if (ze->zeModuleGetNativeBinary(module, &capacity, NULL) != ZE_RESULT_SUCCESS || capacity == 0 ||
        pages_map(capacity, "a compiled module", &binary, NULL) != STATOR_OK)
        return;
    size_t bytes = capacity;
    if (ze->zeModuleGetNativeBinary(module, &bytes, binary) == ZE_RESULT_SUCCESS)
        lz_cache_store(c, m, binary, ARITH_MIN(bytes, capacity));
    lz_cache_free(binary, capacity);
}

static stator_status build_module(struct lz_device *d, const struct opencl_module *m, const char *options,
                                  ze_module_handle_t *module, stator_error *e) {
    struct lz_cache cache = {d->setup.kernel_cache, d->setup.log, d->gpu, options};
    bool keeps = cache.folder != NULL && cache.folder[0] != '\0';
    if (keeps && kept_module(d, &cache, m, module))
        return STATOR_OK;
    ze_module_build_log_handle_t log = NULL;
    ze_result_t r = create_module(d, options, ZE_MODULE_FORMAT_IL_SPIRV,
                                  launch_modules_inflate(m, d->steps.room), m->bytes, module, &log);
    stator_status st = r == ZE_RESULT_SUCCESS ? STATOR_OK : module_error(d, m, r, log, e);
    if (log != NULL)
        (void)d->system->ze.zeModuleBuildLogDestroy(log);
    if (st == STATOR_OK && keeps)
        keep_module(d, &cache, m, *module);
    return st;
}

static stator_status make_module(struct lz_device *d, const struct launch_module *module,
                                 ze_module_handle_t *out, stator_error *e) {
    const uint32_t i = launch_modules_find(module->name);
    CHECK(i < opencl_n_modules); /* a launch names a module of the binary */
    if (d->steps.modules[i] == NULL) {
        stator_status st = build_module(d, &opencl_modules[i], module->options, &d->steps.modules[i], e);
        if (st != STATOR_OK) {
            d->steps.modules[i] = NULL;
            return st;
        }
    }
    *out = d->steps.modules[i];
    return STATOR_OK;
}

static stator_status make_kernel(struct lz_device *d, uint32_t kernel, stator_error *e) {
    CHECK(kernel < launch_n_kernels);
    if (d->steps.kernels[kernel] != NULL)
        return STATOR_OK;
    const struct launch_kernel *k = &launch_kernels[kernel];
    ze_module_handle_t module = NULL;
    stator_status st = make_module(d, k->module, &module, e);
    if (st != STATOR_OK)
        return st;
    ze_kernel_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_KERNEL_DESC, .pKernelName = k->name};
    ze_result_t r = d->system->ze.zeKernelCreate(module, &desc, &d->steps.kernels[kernel]);
    if (r == ZE_RESULT_SUCCESS)
        return STATOR_OK;
    d->steps.kernels[kernel] = NULL;
    char what[96];
    snprintf(what, sizeof what, "zeKernelCreate(%.40s)", k->name);
    return lz_queue_error(&d->queue, what, r, e);
}

static stator_status append_barrier(struct recording *r) {
    ze_result_t z = r->d->system->ze.zeCommandListAppendBarrier(r->list->handle, NULL, 0, NULL);
    return z == ZE_RESULT_SUCCESS ? STATOR_OK
                                  : lz_queue_error(&r->d->queue, "zeCommandListAppendBarrier", z, r->e);
}

static stator_status append_copy(struct recording *r, void *to, const void *from, uint64_t bytes) {
    CHECK(bytes > 0);
    ze_result_t z =
        r->d->system->ze.zeCommandListAppendMemoryCopy(r->list->handle, to, from, bytes, NULL, 0, NULL);
    return z == ZE_RESULT_SUCCESS ? append_barrier(r)
                                  : lz_queue_error(&r->d->queue, "zeCommandListAppendMemoryCopy", z, r->e);
}

static struct lz_exchange_at exchange_at(const struct recording *r, uint32_t op) {
    return (struct lz_exchange_at){r->list, r->slot, op, r->guesses};
}

static stator_status set_argument(struct recording *r, ze_kernel_handle_t kernel, const struct launch *l,
                                  uint32_t i) {
    CHECK(i < l->n_args);
    const struct launch_arg *a = &l->args[i];
    const void *value = NULL;
    void *pointer = NULL;
    size_t size = 0;
    switch (a->kind) {
    case LAUNCH_BUFFER: {
        const struct device_moves *m = &r->d->model->moves;
        const struct lz_slice pinned = {.memory = r->d->setup.pinned, .bytes = r->d->pinned.bytes};
        const struct lz_slice table = {.memory = pinned.memory + r->d->pinned.table[r->slot],
                                       .bytes = pinned.bytes - r->d->pinned.table[r->slot]};
        const struct lz_slice moved = {.memory = r->d->setup.moved,
                                       .bytes = device_moves_at(m, device_moves_n(m))};
        const struct lz_slice *s = a->buffer.arena == DEVICE_PINNED  ? &pinned
                                   : a->buffer.arena == DEVICE_MOVED ? &moved
                                   : a->buffer.arena == DEVICE_TABLE
                                       ? &table
                                       : &r->d->slices[a->buffer.arena][a->buffer.slice];
        CHECK(s->memory != NULL && a->buffer.offset < s->bytes);
        pointer = s->memory + a->buffer.offset;
        value = &pointer;
        size = sizeof pointer;
        break;
    }
    case LAUNCH_PEER: {
        const struct lz_exchange_at at = exchange_at(r, l->op);
        pointer = lz_exchange_rows(r->d, &at, a->u32);
        value = &pointer;
        size = sizeof pointer;
        break;
    }
    case LAUNCH_U32:
        value = &a->u32;
        size = sizeof a->u32;
        break;
    case LAUNCH_F32:
        value = &a->f32;
        size = sizeof a->f32;
        break;
    case LAUNCH_LOCAL:
        size = a->u32;
        break;
    }
    ze_result_t z = r->d->system->ze.zeKernelSetArgumentValue(kernel, i, size, value);
    if (z == ZE_RESULT_SUCCESS)
        return STATOR_OK;
    char what[96];
    snprintf(what, sizeof what, "zeKernelSetArgumentValue(%.40s, %u)", launch_kernels[l->kernel].name, i);
    return lz_queue_error(&r->d->queue, what, z, r->e);
}

static stator_status append_launch(struct recording *r, const struct launch *l) {
    struct lz_device *d = r->d;
    const struct lz_calls *ze = &d->system->ze;
    stator_status st = make_kernel(d, l->kernel, r->e);
    if (st != STATOR_OK)
        return st;
    ze_kernel_handle_t kernel = d->steps.kernels[l->kernel];
    for (uint32_t i = 0; i < l->n_args; i++) {
        st = set_argument(r, kernel, l, i);
        if (st != STATOR_OK)
            return st;
    }
    char what[96];
    ze_result_t z = ze->zeKernelSetGroupSize(kernel, l->group, 1, 1);
    snprintf(what, sizeof what, "zeKernelSetGroupSize(%.40s, %u)", launch_kernels[l->kernel].name, l->group);
    if (z != ZE_RESULT_SUCCESS)
        return lz_queue_error(&d->queue, what, z, r->e);
    ze_event_handle_t event = NULL;
    if (r->list->ops != NULL) {
        uint32_t at = r->list->first_event + r->list->launches;
        CHECK(at < d->steps.max_events);
        event = d->steps.events[r->slot][at];
        r->list->ops[r->list->launches] = l->op;
    }
    ze_group_count_t groups = {l->groups, 1, 1};
    z = ze->zeCommandListAppendLaunchKernel(r->list->handle, kernel, &groups, event, 0, NULL);
    snprintf(what, sizeof what, "zeCommandListAppendLaunchKernel(%.40s, %u groups)",
             launch_kernels[l->kernel].name, l->groups);
    if (z != ZE_RESULT_SUCCESS)
        return lz_queue_error(&d->queue, what, z, r->e);
    r->list->launches++;
    return STATOR_OK;
}

/* Bytes of the descriptor including the angles of this many tokens; the angles are its last part. */
static uint64_t descriptor_bytes(const struct device_model *m, uint32_t tokens) {
    const struct step_header *h = &m->step;
    CHECK(h->at_rope >= h->at_tokens && h->at_rope >= h->at_chunks && h->at_rope >= h->at_rows);
    for (uint32_t i = 0; i < h->n_caches; i++)
        CHECK(h->at_rope >= h->cache[i].at_fill && h->at_rope >= h->cache[i].at_tables);
    uint64_t bytes = h->at_rope + (uint64_t)tokens * h->rope_stride * sizeof(float);
    return ARITH_MIN(bytes, m->step_bytes);
}

static stator_status append_descriptor(struct recording *r, uint32_t tokens) {
    struct lz_device *d = r->d;
    uint64_t bytes = descriptor_bytes(d->model, tokens);
    r->list->copied_bytes += bytes;
    return append_copy(r, d->slices[DEVICE_EXCHANGE][0].memory,
                       (const uint8_t *)d->setup.pinned + d->pinned.step[r->slot], bytes);
}

static uint8_t *value_at(struct lz_device *d, uint32_t value, uint32_t half) {
    const struct graph_value *v = &d->model->graph->values[value];
    enum device_arena a = v->arena == GRAPH_EXCHANGE ? DEVICE_EXCHANGE : DEVICE_SCRATCH;
    CHECK(half < v->halves && v->f32 != UINT64_MAX);
    return d->slices[a][0].memory + v->offset + half * v->half_bytes + v->f32;
}

/* The slot's half of `value`, or the only one. */
static uint32_t half_of(const struct lz_device *d, uint32_t value, uint32_t slot) {
    return d->model->graph->values[value].halves > 1 ? slot : 0;
}

/* What the host has written for the rows of a value. */
static stator_status append_input(struct recording *r, uint32_t value, const uint64_t pinned[2]) {
    struct lz_device *d = r->d;
    if (value == GRAPH_NONE)
        return STATOR_OK;
    const uint64_t bytes = (uint64_t)r->rows * d->model->graph->values[value].width * sizeof(float);
    CHECK(pinned[r->slot] != UINT64_MAX);
    r->list->copied_bytes += bytes;
    return append_copy(r, value_at(d, value, 0), (const uint8_t *)d->setup.pinned + pinned[r->slot], bytes);
}

/* From the landing zone, or from the staged window. */
static stator_status append_land(struct recording *r, const struct graph_op *op) {
    struct lz_device *d = r->d;
    const struct device_link *in = d->setup.in;
    CHECK(in != NULL);
    uint64_t bytes = (uint64_t)r->rows * d->model->graph->values[op->out].width * sizeof(float);
    const void *from =
        in->direct ? (void *)value_at(d, op->in, half_of(d, op->in, r->slot)) : (void *)in->window[r->slot];
    return append_copy(r, value_at(d, op->out, 0), from, bytes);
}

/* Into the next device's landing zone, pushed by this one, or into the staged window. */
static stator_status append_send(struct recording *r, const struct graph_op *op) {
    struct lz_device *d = r->d;
    const struct device_link *out = d->setup.out;
    CHECK(out != NULL);
    uint64_t bytes = (uint64_t)r->rows * d->model->graph->values[op->in].width * sizeof(float);
    void *to = out->window[r->slot];
    if (out->direct) {
        struct lz_device *peer = (struct lz_device *)out->peer;
        uint32_t landing = peer->model->graph->landing;
        CHECK(landing != GRAPH_NONE);
        to = value_at(peer, landing, half_of(peer, landing, r->slot));
    }
    *(out->direct ? &r->list->direct_bytes : &r->list->staged_bytes) += bytes;
    return append_copy(r, to, value_at(d, op->in, 0), bytes);
}

/* Of a tensor split, only the last device has any. */
static stator_status append_results(struct recording *r) {
    struct lz_device *d = r->d;
    const struct graph *g = d->model->graph;
    if (g->logits == GRAPH_NONE)
        return STATOR_OK;
    uint8_t *pinned = d->setup.pinned;
    uint64_t logits = (uint64_t)r->rows * g->values[g->logits].width * sizeof(float);
    uint64_t picks = g->picks != GRAPH_NONE ? (uint64_t)r->rows * sizeof(struct step_pick) : 0;
    stator_status st = append_copy(r, pinned + d->pinned.logits[r->slot],
                                   value_at(d, g->logits, half_of(d, g->logits, r->slot)), logits);
    if (st == STATOR_OK && picks > 0)
        st = append_copy(r, pinned + d->pinned.picks[r->slot],
                         value_at(d, g->picks, half_of(d, g->picks, r->slot)), picks);
    r->list->copied_bytes += logits + picks;
    return st;
}

/* The launches of one part for the recording's rows into steps.launches. */
static stator_status build(struct recording *r, enum launch_part part, uint32_t *n) {
    struct lz_device *d = r->d;
    struct launch_traits t = lz_facts_traits(d->gpu);
    stator_status st = launch_build(d->model, &t, part, r->rows, NULL, n, r->e);
    if (st != STATOR_OK)
        return st;
    CHECK(*n <= lz_steps_room(d->model));
    return launch_build(d->model, &t, part, r->rows, d->steps.launches, n, r->e);
}

/* With the copies that it wants, and what comes behind after it. */
static stator_status append_after(struct recording *r, struct lz_streaming *copies, const struct launch *l) {
    stator_status st = l->n_copies > 0 ? lz_stream_before(copies, l, r->e) : STATOR_OK;
    if (st == STATOR_OK && l->answered)
        st = lz_helped_record_answer(r->d, r->list, r->e);
    if (st == STATOR_OK)
        st = append_launch(r, l);
    if (st != STATOR_OK)
        return st;
    return l->n_copies > 0 ? lz_stream_after(copies, l, r->e) : append_barrier(r);
}

/* The part's ops with their launches, which come in the ops' order. */
static stator_status append_ops(struct recording *r, enum launch_part part, uint32_t bucket) {
    uint32_t n = 0, begin = 0, end = 0;
    launch_range(r->d->model->graph, part, &begin, &end);
    struct lz_streaming copies;
    stator_status st = build(r, part, &n);
    uint32_t at = 0, streamed = 0;
    for (uint32_t i = 0; i < n && st == STATOR_OK; i++)
        streamed += r->d->steps.launches[i].n_copies > 0;
    if (st == STATOR_OK)
        st = lz_stream_begin(&copies, r->d, r->slot, bucket, r->list, streamed, r->e);
    for (uint32_t i = begin; i < end && st == STATOR_OK; i++) {
        const struct graph_op *op = &r->d->model->graph->ops[i];
        const struct lz_exchange_at at_exchange = exchange_at(r, i);
        if (op->kind == GRAPH_LAND)
            st = append_land(r, op);
        else if (op->kind == GRAPH_SEND)
            st = append_send(r, op);
        else if (op->kind == GRAPH_EXCHANGED)
            st = lz_exchange_append(r->d, &at_exchange, r->rows, r->e);
        else if (!launch_streams(r->d->model, part, r->rows))
            st = lz_helped_record(r->d, r->list, i, r->rows, r->e);
        while (st == STATOR_OK && at < n && r->d->steps.launches[at].op == i)
            st = append_after(r, &copies, &r->d->steps.launches[at++]);
    }
    CHECK(st != STATOR_OK || at == n);
    return st == STATOR_OK ? lz_stream_end(&copies, r->e) : st;
}

static stator_status close_list(struct recording *r) {
    ze_result_t z = r->d->system->ze.zeCommandListClose(r->list->handle);
    return z == ZE_RESULT_SUCCESS ? STATOR_OK : lz_queue_error(&r->d->queue, "zeCommandListClose", z, r->e);
}

stator_status lz_steps_append(struct lz_device *d, struct lz_list *list, uint32_t n, stator_error *e) {
    struct recording r = {.d = d, .list = list, .e = e};
    stator_status st = STATOR_OK;
    for (uint32_t i = 0; i < n && st == STATOR_OK; i++) {
        st = append_launch(&r, &d->steps.launches[i]);
        if (st == STATOR_OK)
            st = append_barrier(&r);
    }
    return st == STATOR_OK ? close_list(&r) : st;
}

/* A text model: few of its steps have pictures' tokens. A tower's all have them. */
static bool takes_pictures(const struct lz_device *d) {
    return d->model->graph->want.pictures > 0 && d->model->graph->pictures != GRAPH_NONE;
}

/* Rows of pictures, for a body of the bucket's rows. */
static stator_status record_pictures(struct lz_device *d, uint32_t slot, uint32_t bucket, stator_error *e) {
    struct recording r = {.d = d,
                          .slot = slot,
                          .rows = d->steps.body_bounds[bucket],
                          .list = &d->steps.pictures[slot][bucket],
                          .e = e};
    stator_status st = lz_queue_list(&d->queue, &r.list->handle, e);
    if (st == STATOR_OK)
        st = append_input(&r, d->model->graph->pictures, d->pinned.pictures);
    return st == STATOR_OK ? close_list(&r) : st;
}

/* Whether a step needs them. */
static bool has_pictures(const struct lz_device *d, const struct step_header *h) {
    const int32_t *tokens = (const int32_t *)(const void *)((const uint8_t *)h + h->at_tokens);
    if (!takes_pictures(d))
        return false;
    for (uint32_t t = 0; t < h->n_tokens; t++)
        if (graph_is_picture(tokens[t]))
            return true;
    return false;
}

static stator_status record_body(struct lz_device *d, uint32_t slot, uint32_t bucket, stator_error *e) {
    struct recording r = {.d = d,
                          .slot = slot,
                          .rows = d->steps.body_bounds[bucket],
                          .list = &d->steps.body[slot][bucket],
                          .e = e};
    stator_status st = lz_queue_list(&d->queue, &r.list->handle, e);
    if (st == STATOR_OK)
        st = append_descriptor(&r, r.rows);
    if (st == STATOR_OK && !takes_pictures(d))
        st = append_input(&r, d->model->graph->pictures, d->pinned.pictures);
    if (st == STATOR_OK)
        st = append_input(&r, d->model->graph->ngrams, d->pinned.ngrams);
    if (st == STATOR_OK)
        st = append_input(&r, d->model->graph->blends, d->pinned.blends);
    if (st == STATOR_OK)
        st = append_input(&r, d->model->graph->windows, d->pinned.windows);
    if (st == STATOR_OK)
        st = append_ops(&r, LAUNCH_BODY, bucket);
    return st == STATOR_OK ? close_list(&r) : st;
}

/* first_event: after those of the longest body. */
static stator_status record_tail(struct lz_device *d, uint32_t slot, uint32_t bucket, uint32_t first_event,
                                 stator_error *e) {
    struct recording r = {.d = d,
                          .slot = slot,
                          .rows = d->steps.tail_bounds[bucket],
                          .list = &d->steps.tail[slot][bucket],
                          .e = e};
    r.list->first_event = first_event;
    stator_status st = lz_queue_list(&d->queue, &r.list->handle, e);
    if (st == STATOR_OK)
        st = append_ops(&r, LAUNCH_TAIL, bucket);
    if (st == STATOR_OK)
        st = append_results(&r);
    return st == STATOR_OK ? close_list(&r) : st;
}

/* A pass of the MTP head: a token of each row. */
static stator_status record_guess(struct lz_device *d, uint32_t slot, uint32_t bucket, stator_error *e) {
    struct recording r = {.d = d,
                          .slot = slot,
                          .rows = d->steps.tail_bounds[bucket],
                          .guesses = true,
                          .list = &d->steps.guess[slot][bucket],
                          .e = e};
    stator_status st = lz_queue_list(&d->queue, &r.list->handle, e);
    if (st == STATOR_OK)
        st = append_descriptor(&r, r.rows);
    if (st == STATOR_OK)
        st = append_ops(&r, LAUNCH_BLOCK, bucket);
    if (st == STATOR_OK)
        st = append_ops(&r, LAUNCH_GUESS, bucket);
    if (st == STATOR_OK)
        st = append_results(&r);
    return st == STATOR_OK ? close_list(&r) : st;
}

static stator_status record_head(struct lz_device *d, uint32_t slot, stator_error *e) {
    struct recording r = {.d = d, .slot = slot, .list = &d->steps.head[slot], .e = e};
    stator_status st = lz_queue_list(&d->queue, &r.list->handle, e);
    if (st == STATOR_OK)
        st = append_descriptor(&r, 0);
    return st == STATOR_OK ? close_list(&r) : st;
}

static stator_status make_events(struct lz_device *d, stator_error *e) {
    const struct lz_calls *ze = &d->system->ze;
    struct lz_steps *s = &d->steps;
    ze_device_handle_t device = d->gpu->handle;
    ze_event_pool_desc_t pool = {.stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC,
                                 .flags =
                                     ZE_EVENT_POOL_FLAG_HOST_VISIBLE | ZE_EVENT_POOL_FLAG_KERNEL_TIMESTAMP,
                                 .count = 2 * s->max_events};
    ze_result_t r = ze->zeEventPoolCreate(d->context, &pool, 1, &device, &s->pool);
    if (r != ZE_RESULT_SUCCESS)
        return lz_queue_error(&d->queue, "zeEventPoolCreate", r, e);
    for (uint32_t i = 0; i < 2 * s->max_events; i++) {
        ze_event_desc_t event = {.stype = ZE_STRUCTURE_TYPE_EVENT_DESC,
                                 .index = i,
                                 .signal = ZE_EVENT_SCOPE_FLAG_HOST,
                                 .wait = ZE_EVENT_SCOPE_FLAG_HOST};
        r = ze->zeEventCreate(s->pool, &event, &s->events[i % 2][i / 2]);
        if (r != ZE_RESULT_SUCCESS)
            return lz_queue_error(&d->queue, "zeEventCreate", r, e);
    }
    return STATOR_OK;
}

static stator_status record_slot(struct lz_device *d, uint32_t slot, stator_error *e) {
    struct lz_steps *s = &d->steps;
    stator_status st = lz_queue_fence(&d->queue, &s->fence[slot], e);
    uint32_t longest = 0;
    for (uint32_t b = 0; b < s->n_bodies && st == STATOR_OK; b++) {
        st = record_body(d, slot, b, e);
        if (st == STATOR_OK && takes_pictures(d))
            st = record_pictures(d, slot, b, e);
        longest = ARITH_MAX(longest, s->body[slot][b].launches);
    }
    for (uint32_t b = 0; b < s->n_tails && st == STATOR_OK; b++)
        st = record_tail(d, slot, b, longest, e);
    const bool guesses = d->model->graph->guess < d->model->graph->n_ops;
    for (uint32_t b = 0; guesses && b < s->n_tails && st == STATOR_OK; b++)
        st = record_guess(d, slot, b, e);
    if (st == STATOR_OK && s->n_tails > 0)
        st = record_head(d, slot, e);
    return st;
}

stator_status lz_steps_record(struct lz_device *d, stator_error *e) {
    struct lz_steps *s = &d->steps;
    const struct graph *g = d->model->graph;
    s->n_bodies = launch_buckets(g->want.batch, d->model->stream.tokens, s->body_bounds);
    s->n_tails = g->tail < g->n_ops ? launch_buckets(g->want.logits_rows, 0, s->tail_bounds) : 0;
    s->launches_bytes = arith_must_mul(lz_steps_room(d->model), sizeof *s->launches);
    CHECK(s->n_bodies > 0 && s->n_bodies <= LAUNCH_BUCKETS && s->n_tails <= LAUNCH_BUCKETS);
    void *memory = NULL;
    stator_status st = pages_map(s->launches_bytes, "the list of a GPU's launches", &memory, e);
    s->launches = memory;
    if (st == STATOR_OK && s->max_events != 0)
        st = make_events(d, e);
    for (uint32_t slot = 0; slot < d->model->slots && st == STATOR_OK; slot++)
        st = record_slot(d, slot, e);
    if (st == STATOR_OK)
        st = lz_moves_record(d, e);
    pages_unmap(s->launches, s->launches_bytes);
    s->launches = NULL;
    return st;
}

static uint32_t bucket_of(const uint32_t *bounds, uint32_t n, uint32_t count) {
    uint32_t b = 0;
    while (b < n && bounds[b] < count)
        b++;
    CHECK(b < n);
    return b;
}

/* Events that were signalled by the slot's last step. */
static stator_status reset_events(struct lz_device *d, uint32_t slot, stator_error *e) {
    for (int i = 0; i < 2; i++) {
        const struct lz_list *l = d->steps.last[slot][i];
        for (uint32_t k = 0; l != NULL && k < l->launches; k++) {
            ze_result_t r = d->system->ze.zeEventHostReset(d->steps.events[slot][l->first_event + k]);
            if (r != ZE_RESULT_SUCCESS)
                return lz_queue_error(&d->queue, "zeEventHostReset", r, e);
        }
        d->steps.last[slot][i] = NULL;
    }
    return STATOR_OK;
}

stator_status lz_steps_submit(struct lz_device *d, uint32_t slot, stator_error *e) {
    struct lz_steps *s = &d->steps;
    struct step_header *h = (struct step_header *)((uint8_t *)d->setup.pinned + d->pinned.step[slot]);
    CHECK(slot < d->model->slots && !s->running[slot]);
    CHECK(device_step_flaw(d->model, h) == NULL);
    DCHECK(device_tables_flaw(d->model, h) == NULL);
    const struct lz_list *lists[2] = {NULL, NULL};
    uint32_t n = 0, body = LAUNCH_BUCKETS;
    bool tail = h->n_rows > 0 && s->n_tails > 0;
    if (h->run_body == STEP_GUESS) {
        uint32_t bucket = bucket_of(s->tail_bounds, s->n_tails, h->n_rows);
        struct launch_traits t = lz_facts_traits(d->gpu);
        launch_cut(d->model, &t, s->tail_bounds[bucket], h);
        lists[n++] = &s->guess[slot][bucket];
        tail = false;
    } else if (h->run_body) {
        body = bucket_of(s->body_bounds, s->n_bodies, h->n_tokens);
        struct launch_traits t = lz_facts_traits(d->gpu);
        launch_cut(d->model, &t, s->body_bounds[body], h);
        lists[n++] = &s->body[slot][body];
    } else if (tail)
        lists[n++] = &s->head[slot];
    if (tail)
        lists[n++] = &s->tail[slot][bucket_of(s->tail_bounds, s->n_tails, h->n_rows)];
    if (n == 0)
        return STATOR_OK; /* a device without a tail has nothing to do in a step without a body */
    if (s->max_events != 0) {
        stator_status st = reset_events(d, slot, e);
        if (st != STATOR_OK)
            return st;
    }
    ze_result_t r = d->system->ze.zeFenceReset(s->fence[slot]);
    if (r != ZE_RESULT_SUCCESS)
        return lz_queue_error(&d->queue, "zeFenceReset", r, e);
    ze_command_list_handle_t handles[3] = {NULL, NULL, NULL};
    uint32_t before = 0;
    if (body < LAUNCH_BUCKETS && has_pictures(d, h)) {
        handles[before++] = s->pictures[slot][body].handle;
        d->counters.copied_bytes += s->pictures[slot][body].copied_bytes;
    }
    for (uint32_t i = 0; i < n; i++) {
        handles[before + i] = lists[i]->handle;
        s->last[slot][i] = lists[i];
        d->counters.kernels_executed += lists[i]->launches;
        d->counters.direct_bytes += lists[i]->direct_bytes;
        d->counters.staged_bytes += lists[i]->staged_bytes;
        d->counters.copied_bytes += lists[i]->copied_bytes;
        d->counters.streamed_bytes += lists[i]->streamed_bytes;
    }
    d->counters.submits++;
    lz_helped_submit(d, lists[0], slot, h->n_tokens);
    stator_status st = body < LAUNCH_BUCKETS ? lz_stream_submit(d, slot, body, e) : STATOR_OK;
    if (st == STATOR_OK)
        st = lz_queue_submit(&d->queue, handles, before + n, s->fence[slot], e);
    s->running[slot] = st == STATOR_OK;
    return st;
}

stator_status lz_steps_wait(struct lz_device *d, uint32_t slot, uint64_t timeout_ns, bool *ended,
                            stator_error *e) {
    CHECK(slot < d->model->slots);
    struct lz_steps *s = &d->steps;
    *ended = !s->running[slot];
    if (*ended)
        return STATOR_OK;
    stator_status st = lz_helped_serve(d, slot, timeout_ns, ended, e);
    if (st == STATOR_OK && *ended)
        st = lz_queue_fence_wait(&d->queue, s->fence[slot], timeout_ns, ended, e);
    if (st == STATOR_OK && *ended)
        st = lz_stream_wait(d, slot, timeout_ns, ended, e);
    if (st == STATOR_OK && *ended)
        s->running[slot] = false;
    return st;
}

#define CLOCKS_NS 20000 /* a reading of two clocks that took longer was interrupted between them */

/* The device's clock together with the host's. */
static bool read_clocks(struct lz_device *d, uint64_t *host, uint64_t *device) {
    const struct lz_calls *ze = &d->system->ze;
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < 8 && best > CLOCKS_NS; i++) {
        uint64_t driver_host = 0;
        uint64_t ticks = 0;
        const uint64_t before = clock_ns();
        if (ze->zeDeviceGetGlobalTimestamps(d->gpu->handle, &driver_host, &ticks) != ZE_RESULT_SUCCESS)
            return false;
        const uint64_t after = clock_ns();
        if (after - before >= best)
            continue;
        best = after - before;
        *host = after;
        *device = ticks;
    }
    return true;
}

/* Kernel times are counters of few bits. The device's clock, read now together with the host's, places them
 * in time. */
uint32_t lz_steps_spans(struct lz_device *d, uint32_t slot, struct device_span *out, uint32_t max) {
    const struct lz_calls *ze = &d->system->ze;
    uint64_t now = 0;
    uint64_t device_now = 0;
    uint32_t n = 0;
    if (d->steps.max_events == 0 || d->queue.broken || !read_clocks(d, &now, &device_now))
        return 0;
    CHECK(slot < d->model->slots);
    uint64_t mask = d->gpu->timestamp_mask;
    for (int i = 0; i < 2; i++) {
        const struct lz_list *l = d->steps.last[slot][i];
        for (uint32_t k = 0; l != NULL && k < l->launches && n < max; k++) {
            ze_kernel_timestamp_result_t t;
            if (ze->zeEventQueryKernelTimestamp(d->steps.events[slot][l->first_event + k], &t) !=
                ZE_RESULT_SUCCESS)
                continue;
            uint64_t since_begin = (device_now - t.global.kernelStart) & mask;
            uint64_t since_end = (device_now - t.global.kernelEnd) & mask;
            out[n++] =
                (struct device_span){.op = l->ops[k],
                                     .begin_ns = now - (uint64_t)((double)since_begin * d->gpu->tick_ns),
                                     .end_ns = now - (uint64_t)((double)since_end * d->gpu->tick_ns)};
        }
    }
    return n;
}

static void destroy_list(const struct lz_calls *ze, struct lz_list *l) {
    if (l->handle != NULL)
        (void)ze->zeCommandListDestroy(l->handle);
    l->handle = NULL;
}

void lz_steps_settle(struct lz_device *d) {
    for (uint32_t k = 0; k < 2; k++)
        if (d->steps.running[k])
            lz_queue_settle(&d->queue, d->steps.fence[k]);
}

void lz_steps_close(struct lz_device *d) {
    struct lz_steps *s = &d->steps;
    const struct lz_calls *ze = &d->system->ze;
    if (d->queue.hangs)
        return;
    for (uint32_t k = 0; k < 2; k++) {
        for (uint32_t b = 0; b < LAUNCH_BUCKETS; b++) {
            destroy_list(ze, &s->body[k][b]);
            destroy_list(ze, &s->pictures[k][b]);
            destroy_list(ze, &s->tail[k][b]);
            destroy_list(ze, &s->guess[k][b]);
        }
        destroy_list(ze, &s->head[k]);
        if (s->fence[k] != NULL)
            (void)ze->zeFenceDestroy(s->fence[k]);
        for (uint32_t i = 0; i < s->max_events; i++)
            if (s->events[k][i] != NULL)
                (void)ze->zeEventDestroy(s->events[k][i]);
    }
    if (s->pool != NULL)
        (void)ze->zeEventPoolDestroy(s->pool);
    for (uint32_t i = 0; i < launch_n_kernels; i++)
        if (s->kernels[i] != NULL)
            (void)ze->zeKernelDestroy(s->kernels[i]);
    for (uint32_t i = 0; i < opencl_n_modules; i++)
        if (s->modules[i] != NULL)
            (void)ze->zeModuleDestroy(s->modules[i]);
}
