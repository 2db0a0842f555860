#include "memory/plan.h"

#include "base/arith.h"

#include <stdio.h>
#include <string.h>

void plan_init(struct plan *p)
{
    memset(p, 0, sizeof *p);
    p->fits = true;
}

struct plan_place *plan_add_place(struct plan *p, const char *name, bool is_host, uint64_t budget)
{
    CHECK(p->n_places < PLAN_MAX_PLACES);
    struct plan_place *place = &p->places[p->n_places++];
    memset(place, 0, sizeof *place);
    snprintf(place->name, sizeof place->name, "%s", name);
    place->is_host = is_host;
    place->budget = budget;
    return place;
}

void plan_add_slice(struct plan_place *place, struct plan_arena *a, uint64_t bytes)
{
    CHECK(a->n_slices < PLAN_MAX_SLICES);
    a->slices[a->n_slices++] = bytes;
    a->bytes = arith_must_add(a->bytes, bytes);
    place->total = arith_must_add(place->total, bytes);
}

struct plan_arena *plan_add_arena(struct plan_place *place, const char *name, uint64_t bytes, uint64_t lower_bound)
{
    CHECK(place->n_arenas < PLAN_MAX_ARENAS && lower_bound <= bytes);
    struct plan_arena *a = &place->arenas[place->n_arenas++];
    memset(a, 0, sizeof *a);
    snprintf(a->name, sizeof a->name, "%s", name);
    a->lower_bound = lower_bound;
    if (bytes > 0)
        plan_add_slice(place, a, bytes);
    return a;
}

struct plan_place *plan_find(struct plan *p, const char *name)
{
    for (uint32_t i = 0; i < p->n_places; i++)
        if (strcmp(p->places[i].name, name) == 0)
            return &p->places[i];
    return NULL;
}

struct plan_arena *plan_arena_find(struct plan_place *place, const char *name)
{
    for (uint32_t i = 0; i < place->n_arenas; i++)
        if (strcmp(place->arenas[i].name, name) == 0)
            return &place->arenas[i];
    return NULL;
}

void plan_check(const struct plan *p)
{
    CHECK(p->n_places > 0 && p->places[p->n_places - 1].is_host);
    for (uint32_t i = 0; i < p->n_places; i++) {
        const struct plan_place *place = &p->places[i];
        CHECK(place->is_host == (i + 1 == p->n_places));
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
}

static void arena_to_json(const struct plan_arena *a, struct json *j)
{
    json_object(j, NULL);
    json_string(j, "name", a->name);
    json_u64(j, "bytes", a->bytes);
    json_u64(j, "lower_bound", a->lower_bound);
    json_array(j, "slices");
    for (uint32_t i = 0; i < a->n_slices; i++)
        json_u64(j, NULL, a->slices[i]);
    json_close(j);
    json_close(j);
}

static void place_to_json(const struct plan_place *place, struct json *j, const char *name)
{
    json_object(j, name);
    json_string(j, "name", place->name);
    json_u64(j, place->is_host ? "limit" : "budget", place->budget);
    json_u64(j, "total", place->total);
    json_array(j, "arenas");
    for (uint32_t k = 0; k < place->n_arenas; k++)
        arena_to_json(&place->arenas[k], j);
    json_close(j);
    json_close(j);
}

void plan_to_json(const struct plan *p, struct json *j, const char *name)
{
    json_object(j, name);
    json_string(j, "hash", p->hash);
    json_bool(j, "fits", p->fits);
    json_array(j, "devices");
    for (uint32_t i = 0; i + 1 < p->n_places; i++)
        place_to_json(&p->places[i], j, NULL);
    json_close(j);
    place_to_json(&p->places[p->n_places - 1], j, "host");
    if (!p->fits) {
        json_object(j, "short");
        json_string(j, "where", p->missing.where);
        json_u64(j, "bytes", p->missing.bytes);
        json_u64(j, "largest_context", p->missing.largest_context);
        json_u64(j, "largest_batch", p->missing.largest_batch);
        json_u64(j, "largest_sequences", p->missing.largest_sequences);
        json_close(j);
    }
    json_close(j);
}
