#include "plan/plan.h"

#include "base/arith.h"

#include <stdio.h>
#include <string.h>

void plan_init(struct plan *p) {
    memset(p, 0, sizeof *p);
    p->fits = true;
}

struct plan_place *plan_add_place(struct plan *p, const char *name, bool is_host, uint64_t budget) {
    CHECK(p->n_places < PLAN_MAX_PLACES);
    CHECK(p->n_places == 0 || !p->places[p->n_places - 1].is_host); /* the host is the last */
    struct plan_place *place = &p->places[p->n_places++];
    memset(place, 0, sizeof *place);
    snprintf(place->name, sizeof place->name, "%s", name);
    place->is_host = is_host;
    place->budget = budget;
    return place;
}

void plan_add_slice(struct plan_place *place, struct plan_arena *a, uint64_t bytes) {
    CHECK(a->n_slices < PLAN_MAX_SLICES);
    a->slices[a->n_slices++] = bytes;
    a->bytes = arith_must_add(a->bytes, bytes);
    place->total = arith_must_add(place->total, bytes);
}

struct plan_arena *plan_add_arena(struct plan_place *place, const char *name, uint64_t bytes,
                                  uint64_t lower_bound) {
    CHECK(place->n_arenas < PLAN_MAX_ARENAS && lower_bound <= bytes);
    CHECK(plan_arena_find(place, name) == NULL);
    struct plan_arena *a = &place->arenas[place->n_arenas++];
    memset(a, 0, sizeof *a);
    snprintf(a->name, sizeof a->name, "%s", name);
    a->lower_bound = lower_bound;
    if (bytes > 0)
        plan_add_slice(place, a, bytes);
    return a;
}

void plan_keep_blocks(struct plan *p, struct plan_block *blocks, uint32_t max) {
    CHECK(p->n_blocks == 0);
    CHECK(blocks != NULL || max == 0);
    p->blocks = blocks;
    p->max_blocks = max;
}

void plan_add_block(struct plan *p, const char *name, size_t name_length, uint32_t slice, uint64_t offset,
                    uint64_t bytes, uint32_t first, uint32_t end) {
    if (p->blocks == NULL || bytes == 0)
        return;
    CHECK(p->n_blocks < p->max_blocks && p->n_places > 0 && p->places[p->n_places - 1].n_arenas > 0);
    struct plan_block *b = &p->blocks[p->n_blocks++];
    *b = (struct plan_block){.place = (uint16_t)(p->n_places - 1),
                             .arena = (uint16_t)(p->places[p->n_places - 1].n_arenas - 1),
                             .slice = slice,
                             .offset = offset,
                             .bytes = bytes,
                             .first = first,
                             .end = end};
    snprintf(b->name, sizeof b->name, "%.*s", (int)ARITH_MIN(name_length, sizeof b->name - 1), name);
}

static struct plan_input *add_input(struct plan *p, const char *name) {
    for (uint32_t i = 0; i < p->n_inputs; i++)
        CHECK(strcmp(p->inputs[i].name, name) != 0); /* the hash names each once */
    CHECK(p->n_inputs < PLAN_MAX_INPUTS);
    struct plan_input *in = &p->inputs[p->n_inputs++];
    memset(in, 0, sizeof *in);
    snprintf(in->name, sizeof in->name, "%s", name);
    return in;
}

void plan_add_number(struct plan *p, const char *name, uint64_t v) {
    struct plan_input *in = add_input(p, name);
    in->is_number = true;
    in->number = v;
}

void plan_add_text(struct plan *p, const char *name, const char *text) {
    struct plan_input *in = add_input(p, name);
    snprintf(in->text, sizeof in->text, "%s", text);
}

void plan_hash_inputs(struct plan *p) {
    CHECK(p->n_inputs > 0);
    struct hash h;
    hash_init(&h);
    for (uint32_t i = 0; i < p->n_inputs; i++) {
        const struct plan_input *in = &p->inputs[i];
        hash_text(&h, in->name);
        hash_u64(&h, in->is_number);
        if (in->is_number)
            hash_u64(&h, in->number);
        else
            hash_text(&h, in->text);
    }
    hash_final(&h, p->hash);
}

struct plan_place *plan_find(struct plan *p, const char *name) {
    for (uint32_t i = 0; i < p->n_places; i++)
        if (strcmp(p->places[i].name, name) == 0)
            return &p->places[i];
    return NULL;
}

struct plan_arena *plan_arena_find(struct plan_place *place, const char *name) {
    for (uint32_t i = 0; i < place->n_arenas; i++)
        if (strcmp(place->arenas[i].name, name) == 0)
            return &place->arenas[i];
    return NULL;
}

uint64_t plan_allocated(const struct plan_place *place) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < place->n_arenas; i++)
        sum += place->arenas[i].allocated;
    return sum;
}

void plan_check(const struct plan *p) {
    CHECK(p->n_places > 0 && p->places[p->n_places - 1].is_host);
    for (uint32_t i = 0; i < p->n_places; i++) {
        const struct plan_place *place = &p->places[i];
        CHECK(place->is_host == (i + 1 == p->n_places));
        CHECK(place->n_arenas > 0);
        uint64_t total = 0;
        for (uint32_t k = 0; k < place->n_arenas; k++) {
            const struct plan_arena *a = &place->arenas[k];
            uint64_t bytes = 0;
            for (uint32_t n = 0; n < a->n_slices; n++)
                bytes = arith_must_add(bytes, a->slices[n]);
            CHECK(bytes == a->bytes && a->lower_bound <= a->bytes);
            CHECK(a->allocated <= a->bytes && a->used <= a->bytes);
            total = arith_must_add(total, bytes);
        }
        CHECK(total == place->total);
    }
    for (uint32_t i = 0; i < p->n_blocks; i++) {
        const struct plan_block *b = &p->blocks[i];
        CHECK(b->place < p->n_places && b->arena < p->places[b->place].n_arenas);
        const struct plan_arena *a = &p->places[b->place].arenas[b->arena];
        CHECK(b->slice < a->n_slices && b->bytes > 0 && b->offset <= a->slices[b->slice] &&
              b->bytes <= a->slices[b->slice] - b->offset && b->first <= b->end);
    }
}

static bool always(const struct plan_block *b) {
    return b->first == 0 && b->end == 0;
}

bool plan_blocks_apart(const struct plan *p, uint32_t *a, uint32_t *b) {
    for (*a = 0; *a < p->n_blocks; (*a)++) {
        const struct plan_block *x = &p->blocks[*a];
        for (*b = *a + 1; *b < p->n_blocks; (*b)++) {
            const struct plan_block *y = &p->blocks[*b];
            if (x->place != y->place || x->arena != y->arena || x->slice != y->slice)
                continue;
            bool together = always(x) || always(y) || (x->first < y->end && y->first < x->end);
            if (together && x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes)
                return false;
        }
    }
    return true;
}
