/* Handles: a set of all objects ever made. Nothing is removed from it, so that a handle that is used after
 * its object was destroyed can be told from a wild pointer, and no address is ever used twice. */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>

static struct object **slots;
static size_t n_slots, n_objects;
static uint64_t made[KIND_COUNT], killed[KIND_COUNT];

static const char *const kinds[KIND_COUNT] = {"driver",       "device",     "context", "command queue",
                                              "command list", "event pool", "event",   "fence",
                                              "module",       "build log",  "kernel",  "memory module"};

const char *objects_kind(enum kind kind) {
    return kinds[kind];
}

static size_t slot_of(const void *p) {
    size_t i = ((uintptr_t)p >> 4) * 0x9E3779B97F4A7C15ull >> 20 & (n_slots - 1);
    while (slots[i] != NULL && slots[i] != p)
        i = (i + 1) & (n_slots - 1);
    return i;
}

static void grow(void) {
    struct object **old = slots;
    size_t n = n_slots;
    n_slots = n == 0 ? 1024 : n * 2;
    slots = calloc(n_slots, sizeof *slots);
    if (slots == NULL)
        fatal("out of memory for handles");
    for (size_t i = 0; i < n; i++)
        if (old[i] != NULL)
            slots[slot_of(old[i])] = old[i];
    free(old);
}

void objects_add(void *object, enum kind kind) {
    struct object *o = object;
    if (n_objects * 2 >= n_slots)
        grow();
    *o = (struct object){.kind = kind, .serial = ++made[kind]};
    slots[slot_of(o)] = o;
    n_objects++;
}

void *objects_new(enum kind kind, size_t size) {
    void *object = calloc(1, size);
    if (object == NULL)
        fatal("out of memory for a %s", kinds[kind]);
    objects_add(object, kind);
    return object;
}

void *objects_get(const void *handle, enum kind kind, ze_result_t *why) {
    if (handle == NULL) {
        *why = ZE_RESULT_ERROR_INVALID_NULL_HANDLE;
        return NULL;
    }
    struct object *o = n_slots != 0 ? slots[slot_of(handle)] : NULL;
    if (o == NULL)
        violation("%p is no handle of this driver; a %s was expected", handle, kinds[kind]);
    else if (o->kind != kind)
        violation("%s is given where a %s belongs", objects_name(o), kinds[kind]);
    else if (o->dead)
        violation("%s is used after it was destroyed", objects_name(o));
    else
        return o;
    *why = ZE_RESULT_ERROR_INVALID_ARGUMENT;
    return NULL;
}

void objects_kill(void *object) {
    struct object *o = object;
    o->dead = true;
    killed[o->kind]++;
}

const char *objects_name(const void *object) {
    static char text[4][48];
    static unsigned turn;
    const struct object *o = object;
    char *t = text[turn++ % 4];
    snprintf(t, sizeof text[0], "%s %llu", kinds[o->kind], (unsigned long long)o->serial);
    return t;
}

uint64_t objects_live(enum kind kind) {
    return made[kind] - killed[kind];
}
