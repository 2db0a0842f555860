/* What changed since an older plan, and why: the inputs that differ, and for each arena how much it grew and
 * which of those inputs it follows from. */
#include "app/plan/plan_parts.h"

#include "base/arith.h"
#include "base/json_reader.h"
#include "base/units.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What the JSON is read into. */
struct old_plan {
    struct plan plan;
    struct plan_place host;
    bool has_format, has_hash, has_host;
};

/* The index after prefix in *path ("devices/3/name": 3); *path then points to what follows it. False: the
 * path is another one. */
static bool take_index(const char **path, const char *prefix, uint32_t limit, uint32_t *index) {
    size_t n = strlen(prefix);
    if (strncmp(*path, prefix, n) != 0)
        return false;
    char *end = NULL;
    unsigned long v = strtoul(*path + n, &end, 10);
    if (end == *path + n || *end != '/' || v >= limit)
        return false;
    *index = (uint32_t)v;
    *path = end + 1;
    return true;
}

static void copy_text(char *out, size_t n, const struct json_value *v) {
    snprintf(out, n, "%.*s", (int)n - 1, v->text);
}

static void take_place(struct plan_place *place, const char *path, const struct json_value *v) {
    uint32_t k = 0;
    bool number = v->kind == JSON_READER_NUMBER && v->is_u64;
    if (strcmp(path, "name") == 0)
        copy_text(place->name, sizeof place->name, v);
    else if ((strcmp(path, "budget") == 0 || strcmp(path, "limit") == 0) && number)
        place->budget = v->number;
    else if (strcmp(path, "total") == 0 && number)
        place->total = v->number;
    else if (strcmp(path, "layers/count") == 0 && number)
        place->n_layers = (uint32_t)ARITH_MIN(v->number, (uint64_t)UINT32_MAX);
    else if (take_index(&path, "arenas/", PLAN_MAX_ARENAS, &k)) {
        place->n_arenas = ARITH_MAX(place->n_arenas, k + 1);
        if (strcmp(path, "name") == 0)
            copy_text(place->arenas[k].name, sizeof place->arenas[k].name, v);
        else if (strcmp(path, "bytes") == 0 && number)
            place->arenas[k].bytes = v->number;
    }
}

static bool take_input(struct plan *p, const char *name, const struct json_value *v) {
    if (p->n_inputs == PLAN_MAX_INPUTS || strlen(name) >= sizeof p->inputs[0].name ||
        (v->kind != JSON_READER_STRING && !(v->kind == JSON_READER_NUMBER && v->is_u64)))
        return false;
    struct plan_input *in = &p->inputs[p->n_inputs++];
    snprintf(in->name, sizeof in->name, "%s", name);
    in->is_number = v->kind == JSON_READER_NUMBER;
    in->number = v->number;
    copy_text(in->text, sizeof in->text, v);
    return true;
}

static bool visit(void *context, const struct json_value *v) {
    struct old_plan *old = context;
    struct plan *p = &old->plan;
    const char *path = v->path;
    uint32_t i = 0;
    if (strcmp(path, "format") == 0) {
        old->has_format = v->kind == JSON_READER_NUMBER && v->is_u64 && v->number == PLAN_FORMAT;
        return old->has_format;
    }
    if (strcmp(path, "hash") == 0) {
        old->has_hash = v->kind == JSON_READER_STRING && strlen(v->text) + 1 == HASH_TEXT;
        if (old->has_hash)
            copy_text(p->hash, sizeof p->hash, v);
        return old->has_hash;
    }
    if (strcmp(path, "fits") == 0)
        p->fits = v->truth;
    else if (strcmp(path, "model") == 0)
        copy_text(p->model, sizeof p->model, v);
    else if (strncmp(path, "inputs/", 7) == 0)
        return take_input(p, path + 7, v);
    else if (take_index(&path, "devices/", PLAN_MAX_PLACES - 1, &i)) {
        p->n_places = ARITH_MAX(p->n_places, i + 1);
        take_place(&p->places[i], path, v);
    } else if (strncmp(path, "host/", 5) == 0) {
        old->has_host = true;
        take_place(&old->host, path + 5, v);
    }
    return true;
}

static stator_status read_old(const char *text, size_t n, const char *name, struct old_plan *old,
                              stator_error *e) {
    memset(old, 0, sizeof *old);
    stator_error why;
    const size_t bytes = json_reader_bytes(n);
    void *memory = malloc(bytes);
    if (memory == NULL)
        return error_set(e, STATOR_FAILED, "%.200s: no %zu bytes of memory to read it", name, bytes);
    stator_status st = json_reader_walk(text, n, memory, bytes, visit, old, &why);
    free(memory);
    if (st != STATOR_OK)
        return error_set(e, STATOR_USAGE, "%.200s: %.200s; expected is what `stator plan --json` printed",
                         name, why.text);
    if (!old->has_format || !old->has_hash || !old->has_host || old->plan.n_places == 0 ||
        old->plan.n_inputs == 0)
        return error_set(e, STATOR_USAGE,
                         "%.200s: this JSON is not a plan: format, hash, inputs, devices or host is missing; "
                         "expected is what "
                         "`stator plan --json` printed",
                         name);
    old->host.is_host = true;
    old->plan.places[old->plan.n_places++] = old->host;
    return STATOR_OK;
}

static const struct plan_input *find_input(const struct plan *p, const char *name) {
    for (uint32_t i = 0; i < p->n_inputs; i++)
        if (strcmp(p->inputs[i].name, name) == 0)
            return &p->inputs[i];
    return NULL;
}

static bool same_input(const struct plan_input *a, const struct plan_input *b) {
    if (a == NULL || b == NULL)
        return a == b;
    return a->is_number == b->is_number &&
           (a->is_number ? a->number == b->number : strcmp(a->text, b->text) == 0);
}

static const char *input_text(const struct plan_input *in, char *out, size_t n) {
    if (in == NULL)
        snprintf(out, n, "none");
    else if (in->is_number)
        snprintf(out, n, "%" PRIu64, in->number);
    else
        snprintf(out, n, "%s", in->text);
    return out;
}

static void print_input(FILE *out, const struct plan *old, const struct plan *now, const char *name) {
    char before[80];
    char after[80];
    if (strcmp(name, "model") == 0 && strcmp(old->model, now->model) != 0)
        fprintf(out, "%s %s -> %s", name, old->model, now->model);
    else
        fprintf(out, "%s %s -> %s", name, input_text(find_input(old, name), before, sizeof before),
                input_text(find_input(now, name), after, sizeof after));
}

/* "devices" is any fact of a device. */
static bool is_named(const char *list, const char *name) {
    bool fact = strchr(name, '.') != NULL;
    size_t n = fact ? strlen("devices") : strlen(name);
    const char *wanted = fact ? "devices" : name;
    if (n == 0)
        return false;
    for (const char *at = list; (at = strstr(at, wanted)) != NULL; at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0'))
            return true;
    return false;
}

/* The inputs that an arena's size follows from. */
static const char *reasons_of(const char *arena) {
    static const struct {
        const char *arena;
        const char *inputs;
    } table[] = {
        {"weights", "planner model draft vision max_pixels split devices context sequences batch kv_type "
                    "on_oom pooling"},
        {"kv",
         "planner model draft context sequences kv_type split devices on_oom speculation nextn checkpoints"},
        {"scratch", "planner model draft vision max_pixels batch logits_rows split devices pooling"},
        {"exchange",
         "planner model draft vision max_pixels batch logits_rows context sequences split devices pooling"},
        {"driver", "driver_reserve devices"},
        {"staging", "planner model staging batch split devices"},
        {"engine",
         "planner model draft context sequences batch logits_rows max_queue devices split speculation nextn "
         "checkpoints kv_files pooling"},
        {"kv_disk", "kv_disk kv_files"},
        {"edge", "edge"},
        {"grammars", "grammars"}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(table[i].arena, arena) == 0)
            return table[i].inputs;
    return "planner model context sequences batch logits_rows kv_type split devices driver_reserve staging "
           "on_oom";
}

/* Whether the input is a fact of a device that only one of the plans has. */
static bool of_one_plan(const struct plan *old, const struct plan *now, const char *name) {
    char kind[sizeof now->inputs[0].name];
    const char *dot = strrchr(name, '.');
    if (dot == NULL)
        return false;
    snprintf(kind, sizeof kind, "%.*s.kind", (int)(dot - name), name);
    return (find_input(old, kind) == NULL) != (find_input(now, kind) == NULL);
}

/* Names every input that differs between the plans, once; only those in list (NULL: all). A device that only
 * one plan has counts as one cause in a list: "gpu0 (new)", "cpu:0 (gone)". Returns how many there are. */
static uint32_t print_changed_inputs(FILE *out, const struct plan *old, const struct plan *now,
                                     const char *list, const char *before) {
    uint32_t n = 0;
    for (int pass = 0; pass < 2; pass++) {
        const struct plan *p = pass == 0 ? now : old;
        for (uint32_t i = 0; i < p->n_inputs; i++) {
            const char *name = p->inputs[i].name;
            if (pass == 1 && find_input(now, name) != NULL)
                continue; /* named in the first pass */
            if (same_input(find_input(old, name), find_input(now, name)) ||
                (list != NULL && !is_named(list, name)))
                continue;
            bool whole = list != NULL && of_one_plan(old, now, name);
            const char *fact = whole ? strrchr(name, '.') : name;
            if (whole && strcmp(fact, ".kind") != 0)
                continue;
            fputs(n == 0 || list == NULL ? before : ", ", out);
            if (whole)
                fprintf(out, "%.*s (%s)", (int)(fact - name), name, pass == 0 ? "new" : "gone");
            else
                print_input(out, old, now, name);
            if (list == NULL)
                fputc('\n', out);
            n++;
        }
    }
    return n;
}

static const struct plan_place *place_of(const struct plan *p, const char *name) {
    for (uint32_t i = 0; i < p->n_places; i++)
        if (strcmp(p->places[i].name, name) == 0)
            return &p->places[i];
    return NULL;
}

static uint64_t bytes_of(const struct plan_place *place, const char *arena) {
    for (uint32_t i = 0; place != NULL && i < place->n_arenas; i++)
        if (strcmp(place->arenas[i].name, arena) == 0)
            return place->arenas[i].bytes;
    return 0;
}

static const char *change(uint64_t before, uint64_t after, char *out, size_t n) {
    char size[UNITS_TEXT];
    snprintf(out, n, "%c%s", after >= before ? '+' : '-',
             units_format_size(after >= before ? after - before : before - after, size));
    return out;
}

/* Of the names of both plans' places. */
static int place_width(const struct plan *old, const struct plan *now) {
    int width = 8;
    for (int pass = 0; pass < 2; pass++) {
        const struct plan *p = pass == 0 ? old : now;
        for (uint32_t i = 0; i < p->n_places; i++)
            width = ARITH_MAX(width, (int)strlen(p->places[i].name));
    }
    return width;
}

/* One arena; before or after is 0 where a plan does not have it. */
static bool print_arena(FILE *out, const struct plan *old, const struct plan *now, const char *place,
                        const char *arena) {
    uint64_t before = bytes_of(place_of(old, place), arena);
    uint64_t after = bytes_of(place_of(now, place), arena);
    if (before == after)
        return false;
    char a[UNITS_TEXT];
    char b[UNITS_TEXT];
    char delta[UNITS_TEXT + 1];
    fprintf(out, "  %-*s %-10s %13s -> %13s %13s", place_width(old, now), place, arena,
            units_format_size(before, a), units_format_size(after, b),
            change(before, after, delta, sizeof delta));
    print_changed_inputs(out, old, now, reasons_of(arena), "   from ");
    fputc('\n', out);
    return true;
}

static bool print_arenas(FILE *out, const struct plan *old, const struct plan *now) {
    bool any = false;
    for (int pass = 0; pass < 2; pass++) {
        const struct plan *p = pass == 0 ? now : old;
        for (uint32_t i = 0; i < p->n_places; i++) {
            const struct plan_place *there = pass == 1 ? place_of(now, p->places[i].name) : NULL;
            for (uint32_t k = 0; k < p->places[i].n_arenas; k++) {
                const char *arena = p->places[i].arenas[k].name;
                bool told = false;
                for (uint32_t n = 0; there != NULL && n < there->n_arenas; n++)
                    told = told || strcmp(there->arenas[n].name, arena) == 0;
                if (!told)
                    any = print_arena(out, old, now, p->places[i].name, arena) || any;
            }
        }
    }
    return any;
}

static void print_totals(FILE *out, const struct plan *old, const struct plan *now) {
    for (uint32_t i = 0; i < now->n_places; i++) {
        const struct plan_place *after = &now->places[i];
        const struct plan_place *before = place_of(old, after->name);
        char delta[UNITS_TEXT + 1];
        char a[UNITS_TEXT];
        char b[UNITS_TEXT];
        if (before == NULL || (before->total == after->total && before->n_layers == after->n_layers))
            continue;
        fprintf(out, "  %-*s %-10s %13s -> %13s %13s", place_width(old, now), after->name, "total",
                units_format_size(before->total, a), units_format_size(after->total, b),
                change(before->total, after->total, delta, sizeof delta));
        if (before->n_layers != after->n_layers)
            fprintf(out, "   %u -> %u layers", before->n_layers, after->n_layers);
        fputc('\n', out);
    }
}

stator_status plan_diff_print(const struct plan *now, const char *text, size_t n, const char *name, FILE *out,
                              stator_error *e) {
    struct old_plan *old = malloc(sizeof *old);
    if (old == NULL)
        return error_set(e, STATOR_FAILED, "no memory for the older plan");
    stator_status st = read_old(text, n, name, old, e);
    if (st == STATOR_OK && strcmp(old->plan.hash, now->hash) == 0) {
        fprintf(out, "the same plan: %s\n", now->hash);
    } else if (st == STATOR_OK) {
        fprintf(out, "plan %s -> %s\ninputs that differ:\n", old->plan.hash, now->hash);
        if (print_changed_inputs(out, &old->plan, now, NULL, "  ") == 0)
            fprintf(out, "  none that this version knows\n");
        fprintf(out, "arenas that differ:\n");
        if (!print_arenas(out, &old->plan, now))
            fprintf(out, "  none\n");
        print_totals(out, &old->plan, now);
    }
    if (st == STATOR_OK && old->plan.fits != now->fits)
        fprintf(out, "it %s, and now %s\n", old->plan.fits ? "fitted" : "did not fit",
                now->fits ? "fits" : "does not");
    free(old);
    return st;
}
