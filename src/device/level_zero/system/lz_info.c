#include "device/level_zero/system/lz_info.h"

#include "device/level_zero/system/lz_facts.h"
#include "device/level_zero/lz_peer.h"
#include "device/level_zero/system/lz_system.h"

#include <stdio.h>
#include <string.h>

static void fill(struct lz_system *s, const struct lz_gpu *g, struct device_info *i) {
    static const char *const sources[] = {
        "usable memory, as the driver counts it", "free memory, as sysman counts it",
        "the driver's total less 1/16: this driver does not say what is free"};
    memset(i, 0, sizeof *i);
    lz_facts_of(g, &i->facts);
    i->gpu = true;
    snprintf(i->model, sizeof i->model, "%.*s", (int)sizeof i->model - 1, g->model);
    snprintf(i->pci, sizeof i->pci, "%s", g->pci);
    (void)lz_system_driver_version(g->driver, i->driver);
    i->vendor = g->vendor;
    i->device = g->device;
    i->integrated = g->integrated;
    i->units = g->eus;
    i->threads_per_unit = g->threads_per_eu;
    i->total = g->total;
    enum lz_free source = LZ_FREE_GUESS;
    i->free = lz_system_free(s, g, &source);
    i->free_source = sources[source];
    i->n_sub_groups = g->n_sub_groups;
    memcpy(i->sub_groups, g->sub_groups, g->n_sub_groups * sizeof g->sub_groups[0]);
    i->max_group = g->max_group;
    i->local_memory = g->local_memory;
    i->dp4a = g->dp4a;
    i->dpas = g->dpas;
}

uint32_t lz_info_list(struct device_info *out, uint32_t max, struct device_info_stack *s) {
    s->built_in = true;
    struct lz_system *system = NULL;
    stator_status st = lz_system_get(&system, &s->no_gpus);
    if (st != STATOR_OK) {
        lz_system_loader(s->loader);
        return 0;
    }
    s->no_gpus = (stator_error){.code = STATOR_OK};
    snprintf(s->loader, sizeof s->loader, "%s", system->ze.loader);
    uint32_t n = ARITH_MIN(system->n_gpus, max);
    for (uint32_t i = 0; i < n; i++)
        fill(system, &system->gpus[i], &out[i]);
    return n;
}

/* A GPU's part in a probe. */
struct side {
    const struct lz_gpu *gpu;
    ze_context_handle_t context;
    struct lz_queue queue;
    void *memory;
};

static stator_status open_side(struct lz_system *s, struct side *side, uint64_t bytes, stator_error *e) {
    stator_status st = lz_system_context_acquire(s, side->gpu, &side->context, e);
    if (st != STATOR_OK)
        return st;
    st = lz_queue_open(&side->queue, &s->ze, side->gpu, side->context, DEVICE_DEADLINE, e);
    if (st != STATOR_OK)
        return st;
    ze_device_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    ze_result_t r = s->ze.zeMemAllocDevice(side->context, &desc, bytes, LZ_FACTS_ALIGNMENT, side->gpu->handle,
                                           &side->memory);
    if (r == ZE_RESULT_SUCCESS)
        return STATOR_OK;
    side->memory = NULL;
    return lz_queue_error(&side->queue, "zeMemAllocDevice", r, e);
}

static void close_side(struct lz_system *s, struct side *side) {
    if (side->context == NULL)
        return;
    if (side->queue.ze != NULL)
        lz_queue_close(&side->queue);
    if (s->hangs) /* what it may still touch stays */
        return;
    if (side->memory != NULL)
        (void)s->ze.zeMemFree(side->context, side->memory);
    lz_system_context_release(s, side->gpu);
}

#define VERIFY_BYTES (1u << 20) /* of the probe at many offsets; larger copies are compared once */

/* All sizes up to `bytes`, of which both GPUs and the host have as much as wanted. */
static stator_status probe_sizes(struct lz_system *s, struct side *sides, uint8_t *work, uint64_t bytes,
                                 struct device_info_pair *out, stator_error *e) {
    struct lz_peer p = {.from = &sides[0].queue,
                        .to = &sides[1].queue,
                        .source = sides[0].memory,
                        .target = sides[1].memory,
                        .work = work,
                        .bytes = ARITH_MIN(bytes, (uint64_t)VERIFY_BYTES),
                        .verify = true};
    stator_status st = lz_peer_probe(&p, &out->route, e);
    p.bytes = bytes;
    for (uint32_t i = 0; st == STATOR_OK && i < DEVICE_INFO_COPIES && device_info_copy_bytes[i] <= bytes;
         i++) {
        struct device_info_copy *c = &out->copies[i];
        st = lz_peer_time(&p, device_info_copy_bytes[i], &out->route, c, e);
        if (c->direct_ns != 0)
            out->route.bytes_per_second =
                (uint64_t)((double)device_info_copy_bytes[i] * 1e9 / (double)c->direct_ns);
    }
    if (!out->route.direct)
        for (uint32_t i = 0; i < DEVICE_INFO_COPIES; i++)
            out->copies[i].direct_ns = 0; /* a pair that damages one size is not used for other sizes */
    if (p.hangs)
        s->hangs = true;
    return st;
}

static void close_sides(struct lz_system *s, struct side *sides, void *work) {
    for (int i = 0; i < 2; i++) {
        if (sides[i].queue.ze != NULL)
            lz_queue_settle_transfers(&sides[i].queue);
        if (sides[i].queue.hangs)
            s->hangs = true;
    }
    if (work != NULL && !s->hangs)
        (void)s->ze.zeMemFree(sides[0].context, work);
    close_side(s, &sides[1]);
    close_side(s, &sides[0]);
}

stator_status lz_info_probe(uint32_t from, uint32_t to, uint64_t bytes, struct device_info_pair *out,
                            stator_error *e) {
    struct lz_system *s = NULL;
    stator_status st = lz_system_get(&s, e);
    if (st != STATOR_OK)
        return st;
    CHECK(from < s->n_gpus && to < s->n_gpus && bytes >= device_info_copy_bytes[0]);
    /* Tries a quarter of it as long as a GPU that others use has no room. */
    do {
        struct side sides[2] = {{.gpu = &s->gpus[from]}, {.gpu = &s->gpus[to]}};
        void *work = NULL;
        st = open_side(s, &sides[0], bytes, e);
        if (st == STATOR_OK)
            st = open_side(s, &sides[1], bytes, e);
        if (st == STATOR_OK) {
            ze_host_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
            ze_result_t z = s->ze.zeMemAllocHost(sides[0].context, &desc, 2 * bytes, 4096, &work);
            if (z != ZE_RESULT_SUCCESS) {
                work = NULL;
                st = lz_calls_error(e, sides[0].gpu->name, "zeMemAllocHost", z);
            }
        }
        if (st == STATOR_OK)
            st = probe_sizes(s, sides, work, bytes, out, e);
        close_sides(s, sides, work);
        bytes /= 4;
    } while (st == STATOR_DOES_NOT_FIT && bytes >= device_info_copy_bytes[0]);
    return st;
}
