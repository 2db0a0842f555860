#include "app/models.h"

#include "app/out.h"

#include "base/error.h"
#include "base/hash.h"
#include "config/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(MODELS_MOST >= CONFIG_MAX_MODELS, "room for all models of a config");

stator_status models_read(const char *config, const struct options_list *set, struct models *out,
                          stator_error *e) {
    struct config_choices choices;
    *out = (struct models){.n = 1, .set[0] = *set};
    stator_status st = config_choices(config, set->items, set->n, &choices, e);
    if (st != STATOR_OK || choices.n == 0)
        return st;
    if (set->n == OPTIONS_MAX_LIST)
        return error_set(e, STATOR_USAGE, "--set: at most %d with a config of several models",
                         OPTIONS_MAX_LIST - 1);
    out->n = choices.n;
    out->several = true;
    for (uint32_t i = 0; i < out->n; i++) {
        const char *equals = strchr(choices.set[i], '=');
        snprintf(out->choice[i], sizeof out->choice[i], "%s", choices.set[i]);
        snprintf(out->name[i], sizeof out->name[i], "%.63s", equals + 1);
        out->set[i] = *set;
        out->set[i].items[out->set[i].n++] = out->choice[i];
    }
    return STATOR_OK;
}

void models_blame(const struct models *m, uint32_t index, stator_error *e) {
    if (m->several)
        error_prefix(e, "models[%u], \"%s\"", index, m->name[index]);
}

stator_status models_hash(const struct models *m, char *hash, stator_error *e) {
    struct hash all;
    hash_init(&all);
    for (uint32_t i = 0; i < m->n; i++) {
        stator_info info = {.size = sizeof info};
        stator_status st = stator_get_info(m->engine[i], &info, e);
        if (st != STATOR_OK)
            return st;
        memcpy(hash, info.plan_hash, HASH_TEXT);
        hash_text(&all, m->name[i]);
        hash_text(&all, info.plan_hash);
    }
    if (m->n > 1)
        hash_final(&all, hash);
    return STATOR_OK;
}

/* Of one, with its name; names need no escapes. */
static stator_status write_one(const struct models *m, uint32_t i, FILE *f, stator_error *e) {
    size_t n = 0;
    (void)stator_report_json(m->engine[i], NULL, 0, &n, NULL);
    char *text = malloc(n + 1);
    if (text == NULL)
        return error_set(e, STATOR_FAILED, "no memory for the report");
    stator_status st = stator_report_json(m->engine[i], text, n + 1, &n, e);
    if (st == STATOR_OK)
        fprintf(f, "%s{\"name\": \"%s\", \"report\": %s}", i > 0 ? ",\n" : "", m->name[i], text);
    free(text);
    return st;
}

stator_status models_report(const struct models *m, const char *path, stator_error *e) {
    FILE *f = out_open("--report", path, e);
    if (f == NULL)
        return e->code;
    stator_status st = STATOR_OK;
    fprintf(f, "{\"models\": [\n");
    for (uint32_t i = 0; i < m->n && st == STATOR_OK; i++)
        st = write_one(m, i, f, e);
    fprintf(f, "]}\n");
    return out_close(f, "--report", path, st, e);
}

void models_close(struct models *m) {
    for (uint32_t i = m->n; i-- > 0;) {
        stator_close(m->engine[i]);
        m->engine[i] = NULL;
    }
}
