/* Gives arguments to launches, in the order of kernels/shared/kernel_arguments.h. No state. */
#include "device/launch/launch_parts.h"

#include <string.h>

static struct launch_arg *next_arg(struct launch *l, enum launch_arg_kind kind) {
    CHECK(l->n_args < LAUNCH_MAX_ARGS);
    struct launch_arg *a = &l->args[l->n_args++];
    memset(a, 0, sizeof *a);
    a->kind = kind;
    return a;
}

static void put_buffer(struct launch_list *b, struct launch *l, const struct launch_at *at) {
    (void)b;
    struct launch_arg *a = next_arg(l, at->arena == LAUNCH_OF_PEER ? LAUNCH_PEER : LAUNCH_BUFFER);
    if (a->kind == LAUNCH_PEER) {
        a->u32 = at->slice;
        return;
    }
    a->buffer.arena = at->arena;
    a->buffer.slice = at->slice;
    a->buffer.offset = at->offset;
}

static void put_u32(struct launch_list *b, struct launch *l, const uint64_t *v) {
    (void)b;
    CHECK(*v <= UINT32_MAX);
    next_arg(l, LAUNCH_U32)->u32 = (uint32_t)*v;
}

static void put_f32(struct launch_list *b, struct launch *l, const float *v) {
    (void)b;
    next_arg(l, LAUNCH_F32)->f32 = *v;
}

static void put_local(struct launch_list *b, struct launch *l, const uint64_t *bytes) {
    uint64_t whole = arith_round_up(*bytes, 64), all = 0;
    CHECK(*bytes > 0 && whole <= UINT32_MAX);
    next_arg(l, LAUNCH_LOCAL)->u32 = (uint32_t)whole;
    for (uint32_t i = 0; i < l->n_args; i++)
        all += l->args[i].kind == LAUNCH_LOCAL ? l->args[i].u32 : 0;
    b->local_needed = ARITH_MAX(b->local_needed, all);
}

static void put_words(struct launch *l, const uint32_t *v, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        next_arg(l, LAUNCH_U32)->u32 = v[i];
}

static void put_forms(struct launch_list *b, struct launch *l, const struct launch_forms *f) {
    put_buffer(b, l, &f->base);
    put_words(l, (const uint32_t[]){f->has, f->width}, 2);
    put_words(l, f->offsets.at, 7);
}

static void put_source(struct launch_list *b, struct launch *l, const struct launch_source *s) {
    put_buffer(b, l, &s->base);
    put_words(l, s->offsets.at, 7);
    put_words(l, &s->cols, 1);
}

static void put_weight(struct launch_list *b, struct launch *l, const struct launch_weight *w) {
    put_buffer(b, l, &w->a);
    put_buffer(b, l, &w->b);
    put_words(l, (const uint32_t[]){w->first, w->cut, w->type, w->file}, 4);
}

static void put_cache(struct launch_list *b, struct launch *l, const struct launch_cache *c) {
    for (uint32_t i = 0; i < OPENCL_KV_SLICES; i++)
        put_buffer(b, l, &c->slice[i]);
    put_words(
        l,
        (const uint32_t[]){c->unit, c->units_per_slice, c->unit_bytes, c->block_stride, c->k_bytes, c->what},
        6);
}

static void put_states(struct launch_list *b, struct launch *l, const struct launch_states *s) {
    put_buffer(b, l, &s->base);
    put_words(l,
              (const uint32_t[]){s->block_bytes, s->cache, s->window, s->key_heads, s->value_heads, s->dim_k,
                                 s->dim_v, s->taps},
              8);
}

void launch_put_step(struct launch_list *b, struct launch *l) {
    put_buffer(b, l, &(struct launch_at){DEVICE_EXCHANGE, 0, 0});
}

#define PUT(kind, ...)         PUT_##kind(__VA_ARGS__)
#define PUT_BUFFER(type, name) put_buffer(b, l, &a->name);
#define PUT_U32(name)          put_u32(b, l, &a->name);
#define PUT_F32(name)          put_f32(b, l, &a->name);
#define PUT_LOCAL(type, name)  put_local(b, l, &a->name);
#define PUT_FORMS(name)        put_forms(b, l, &a->name);
#define PUT_SOURCE(name)       put_source(b, l, &a->name);
#define PUT_WEIGHT(name)       put_weight(b, l, &a->name);
#define PUT_CACHE(name)        put_cache(b, l, &a->name);
#define PUT_STATES(name)       put_states(b, l, &a->name);

#define DEFINE(name, LIST)                                                                                   \
    void launch_put_##name(struct launch_list *b, struct launch *l,                                          \
                           const struct launch_##name##_arguments *a) {                                      \
        KERNEL_ARGUMENTS_##LIST(PUT)                                                                         \
    }
LAUNCH_KERNELS(DEFINE)
