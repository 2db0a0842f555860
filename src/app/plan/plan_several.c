/* stator plan of a config with several models: the plan of each, and one table of all, which says whether
 * they fit together. */
#include "app/plan/plan_several.h"

#include "app/plan/plan_parts.h"
#include "engine/plan_view.h"

#include "base/units.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PLACES      (DEVICE_MOST + 1)
#define DEVICE_MOST 32

/* A memory that models share: a GPU's, or (the last) the host's. */
struct place {
    char name[32];
    uint64_t budget;
    uint64_t of[MODELS_MOST]; /* bytes of each */
    uint64_t total;
};

struct table {
    const struct models *models;
    uint32_t planned; /* of them */
    struct place places[PLACES];
    uint32_t n;
};

/* A draft's place has its role in front of the GPU's name. */
static const char *memory_name(const struct plan_place *p) {
    const char *slash = p->is_draft || p->is_vision ? strchr(p->name, '/') : NULL;
    return p->is_host ? "host" : slash != NULL ? slash + 1 : p->name;
}

static struct place *place_named(struct table *t, const char *name) {
    for (uint32_t i = 0; i < t->n; i++)
        if (strcmp(t->places[i].name, name) == 0)
            return &t->places[i];
    if (t->n == PLACES)
        return NULL;
    snprintf(t->places[t->n].name, sizeof t->places[0].name, "%s", name);
    return &t->places[t->n++];
}

/* CPU devices are in the figure of the host. The first plan that has a memory tells all of it: later ones
 * have only what is left. */
static void add_model(struct table *t, uint32_t model, bool host) {
    const struct plan *p = plan_view(t->models->engine[model]);
    for (uint32_t i = 0; i < p->n_places; i++) {
        const struct plan_place *from = &p->places[i];
        if (from->is_host != host || from->in_host)
            continue;
        struct place *to = place_named(t, memory_name(from));
        if (to == NULL)
            continue;
        const uint64_t beside = to->total; /* of earlier models, and of this one's other places there */
        if (to->budget < from->budget + beside)
            to->budget = from->budget + beside;
        to->of[model] += from->total;
        to->total += from->total;
    }
}

static void make_table(const struct models *m, uint32_t planned, struct table *t) {
    *t = (struct table){.models = m, .planned = planned};
    for (int host = 0; host < 2; host++)
        for (uint32_t i = 0; i < planned; i++)
            add_model(t, i, host == 1);
}

static bool fits(const struct table *t) {
    bool all = t->planned == t->models->n;
    for (uint32_t i = 0; i < t->planned; i++)
        all = all && plan_view(t->models->engine[i])->fits;
    return all;
}

static void print_joint(const struct table *t, const char *hash) {
    char size[UNITS_TEXT], budget[UNITS_TEXT];
    printf("all models\n%-16s %-24s %15s %13s\n", "place", "model", "bytes", "planned");
    for (uint32_t i = 0; i < t->n; i++) {
        const struct place *p = &t->places[i];
        for (uint32_t k = 0; k < t->planned; k++)
            printf("%-16s %-24s %15" PRIu64 " %13s\n", k == 0 ? p->name : "", t->models->name[k], p->of[k],
                   units_format_size(p->of[k], size));
        printf("%-16s %-24s %15" PRIu64 " %13s of %s\n", "", "together", p->total,
               units_format_size(p->total, size), units_format_size(p->budget, budget));
    }
    if (fits(t))
        printf("they fit together; this is the plan of `stator serve`\nplan %s\n", hash);
}

static void json_of(const struct table *t, const char *hash) {
    struct json j;
    json_to_file(&j, stdout, true);
    json_open_object(&j, NULL);
    json_put_u64(&j, "format", 1);
    json_put_string(&j, "hash", hash);
    json_put_bool(&j, "fits", fits(t));
    json_open_array(&j, "devices");
    for (uint32_t i = 0; i < t->n; i++) {
        const struct place *p = &t->places[i];
        const bool host = i + 1 == t->n;
        if (host)
            json_close(&j);
        json_open_object(&j, host ? "host" : NULL);
        json_put_string(&j, "name", p->name);
        json_put_u64(&j, host ? "limit" : "budget", p->budget);
        json_put_u64(&j, "total", p->total);
        json_close(&j);
    }
    json_open_array(&j, "models");
    for (uint32_t i = 0; i < t->planned; i++) {
        json_open_object(&j, NULL);
        json_put_string(&j, "name", t->models->name[i]);
        plan_to_json(plan_view(t->models->engine[i]), &j, "plan");
        json_close(&j);
    }
    json_close(&j);
    json_close(&j);
    (void)json_end(&j); /* out_finish reports what could not be written */
}

stator_status plan_several_make(const char *config, const struct options_list *devices, struct models *m,
                                uint32_t *planned, stator_error *e) {
    stator_status st = STATOR_OK;
    *planned = 0;
    for (uint32_t i = 0; i < m->n && st == STATOR_OK; i++) {
        st = session_open_for(config, &m->set[i], devices, 0, SESSION_SERVE, i > 0 ? m->engine[i - 1] : NULL,
                              &m->engine[i], e);
        if (st == STATOR_OK)
            st = stator_plan(m->engine[i], e);
        *planned += st == STATOR_OK || (st == STATOR_DOES_NOT_FIT && m->engine[i] != NULL);
        if (st != STATOR_OK)
            models_blame(m, i, e);
    }
    return st;
}

stator_status plan_several_show(const struct models *m, uint32_t planned, bool as_json, bool verbose,
                                stator_error *e) {
    struct table t;
    char hash[33] = "";
    make_table(m, planned, &t);
    stator_status st = planned == m->n ? models_hash(m, hash, e) : STATOR_OK;
    if (st != STATOR_OK || as_json) {
        if (st == STATOR_OK && t.n > 0)
            json_of(&t, hash);
        return st;
    }
    for (uint32_t i = 0; i < planned && st == STATOR_OK; i++) {
        stator_info info = {.size = sizeof info};
        st = stator_get_info(m->engine[i], &info, e);
        printf("models[%u], \"%s\": %s (%s), context %u, sequences %u, batch %u, logits rows %u\n", i,
               m->name[i], info.model_name, info.architecture, info.context, info.sequences, info.batch,
               info.logits_rows);
        plan_table_print(plan_view(m->engine[i]), stdout, verbose);
        printf("plan %s\n\n", info.plan_hash);
    }
    if (t.n > 0)
        print_joint(&t, hash);
    return st;
}
