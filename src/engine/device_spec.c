#include "engine/device_spec.h"

#include "base/units.h"

#include <stdio.h>
#include <string.h>

#define GPU_ALIGNMENT 65536 /* slices of a GPU are whole pages of this size */
#define LEAST_MEMORY  (1u << 20)
#define MOST_MEMORY   ((uint64_t)1 << 50)

static stator_status bad(const char *text, const char *what, stator_error *e) {
    return error_set(e, STATOR_USAGE,
                     "--device %.120s: %s; expected NAME=SIZE[,max_alloc=SIZE][,bandwidth=SIZE/s], such as "
                     "gpu0=24GiB,max_alloc=19GiB,bandwidth=456GB/s",
                     text, what);
}

static bool take_size(const char *text, uint64_t *v) {
    return units_parse_size(text, v) && *v >= LEAST_MEMORY && *v <= MOST_MEMORY;
}

static stator_status take_fact(const char *text, char *item, struct device_facts *f, stator_error *e) {
    if (strncmp(item, "max_alloc=", 10) == 0) {
        if (f->max_alloc != 0 || !take_size(item + 10, &f->max_alloc))
            return bad(text, "max_alloc is given twice or is no size from 1 MiB to 1 PiB", e);
        return STATOR_OK;
    }
    if (strncmp(item, "bandwidth=", 10) == 0) {
        size_t n = strlen(item);
        if (n > 2 && strcmp(item + n - 2, "/s") == 0)
            item[n - 2] = '\0';
        if (f->bandwidth != 0 || !take_size(item + 10, &f->bandwidth))
            return bad(text, "bandwidth is given twice or is no size from 1 MiB to 1 PiB a second", e);
        return STATOR_OK;
    }
    return bad(text, "the facts are max_alloc and bandwidth", e);
}

stator_status device_spec_parse(const char *text, struct device_facts *f, stator_error *e) {
    char copy[160];
    memset(f, 0, sizeof *f);
    if (strlen(text) >= sizeof copy)
        return bad(text, "it is too long", e);
    snprintf(copy, sizeof copy, "%s", text);
    size_t name = strspn(copy, "abcdefghijklmnopqrstuvwxyz0123456789_:");
    if (name == 0 || name >= sizeof f->name || copy[name] != '=')
        return bad(text, "the name is not of lower-case letters, digits, _ and :", e);
    memcpy(f->name, copy, name);
    bool host = strncmp(f->name, "cpu", 3) == 0 && (f->name[3] == '\0' || f->name[3] == ':');
    snprintf(f->kind, sizeof f->kind, "%s", host ? "cpu" : "gpu");
    f->host_memory = host;
    f->alignment = host ? PANEL_ALIGN : GPU_ALIGNMENT;
    char *rest = copy + name + 1;
    char *item = strsep(&rest, ",");
    if (!take_size(item, &f->memory))
        return bad(text, "its memory is no size from 1 MiB to 1 PiB", e);
    while (rest != NULL) {
        item = strsep(&rest, ",");
        stator_status st = take_fact(text, item, f, e);
        if (st != STATOR_OK)
            return st;
    }
    return STATOR_OK;
}
