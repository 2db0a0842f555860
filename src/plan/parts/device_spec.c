#include "plan/parts/device_spec.h"

#include "base/arith.h"
#include "base/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GPU_ALIGNMENT 65536 /* slices of a GPU are whole pages of this size */
#define LEAST_MEMORY  (1u << 20)
#define MOST_MEMORY   ((uint64_t)1 << 50)

/* Cards by name, with what their makers publish: memory, bandwidth, and the rate of their PCIe link in one
 * direction. */
static const struct card {
    const char *name;
    uint64_t memory, bandwidth, bus;
} cards[] = {{"a770", (uint64_t)16 << 30, 560000000000, 31500000000}, /* PCIe 4.0, 16 lanes */
             {"b580", (uint64_t)12 << 30, 456000000000, 15750000000}, /* PCIe 4.0, 8 lanes */
             {"b60", (uint64_t)24 << 30, 456000000000, 31500000000},  /* PCIe 5.0, 8 lanes */
             {"b70", (uint64_t)32 << 30, 608000000000, 63000000000}}; /* PCIe 5.0, 16 lanes */

/* The text, and where it comes from. */
struct source {
    const char *text;
    const char *what;
};

static stator_status bad(const struct source *s, const char *why, stator_error *e) {
    return error_set(e, STATOR_USAGE,
                     "%s %.120s: %s; expected NAME=SIZE[,max_alloc=SIZE][,bandwidth=SIZE/s][,bus=SIZE/s]"
                     "[,link=SIZE/s][,hop=TIME], such as gpu0=24GiB,max_alloc=19GiB,bandwidth=456GB/s,"
                     "bus=31GB/s, or a known card (a770, b580, b60, b70) for SIZE: gpu0=b60",
                     s->what, s->text, why);
}

static bool take_card(const char *name, struct device_facts *f) {
    for (size_t i = 0; i < sizeof cards / sizeof cards[0]; i++) {
        if (strcmp(cards[i].name, name) != 0)
            continue;
        f->memory = cards[i].memory;
        f->bandwidth = cards[i].bandwidth;
        f->bus = cards[i].bus;
        return true;
    }
    return false;
}

static bool take_size(const char *text, uint64_t *v) {
    return units_parse_size(text, v) && *v >= LEAST_MEMORY && *v <= MOST_MEMORY;
}

/* "456GB/s" */
static stator_status take_rate(const struct source *s, const char *wrong, char *item, uint64_t *v,
                               stator_error *e) {
    size_t n = strlen(item);
    if (n > 2 && strcmp(item + n - 2, "/s") == 0)
        item[n - 2] = '\0';
    return *v == 0 && take_size(item, v) ? STATOR_OK : bad(s, wrong, e);
}

/* "12us", "800ns", "0.5ms". */
static bool take_time(const char *text, uint64_t *ns) {
    static const struct {
        const char *unit;
        double ns;
    } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}};
    char *end = NULL;
    if (text[0] < '0' || text[0] > '9' || text[strspn(text, "0123456789.")] == '\0')
        return false;
    const double v = strtod(text, &end);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        const double all = v * units[i].ns;
        if (strcmp(end, units[i].unit) != 0 || !(all >= 1 && all <= 1e9))
            continue;
        *ns = (uint64_t)all;
        return true;
    }
    return false;
}

static stator_status take_fact(const struct source *s, char *item, struct device_facts *f, stator_error *e) {
    if (strncmp(item, "max_alloc=", 10) == 0) {
        if (f->max_alloc != 0 || !take_size(item + 10, &f->max_alloc))
            return bad(s, "max_alloc is given twice or is no size from 1 MiB to 1024 TiB", e);
        return STATOR_OK;
    }
    if (strncmp(item, "bandwidth=", 10) == 0)
        return take_rate(s, "bandwidth is given twice or is no size from 1 MiB to 1024 TiB a second",
                         item + 10, &f->bandwidth, e);
    if (strncmp(item, "bus=", 4) == 0)
        return take_rate(s, "bus is given twice or is no size from 1 MiB to 1024 TiB a second", item + 4,
                         &f->bus, e);
    if (strncmp(item, "link=", 5) == 0)
        return take_rate(s, "link is given twice or is no size from 1 MiB to 1024 TiB a second", item + 5,
                         &f->link, e);
    if (strncmp(item, "hop=", 4) == 0)
        return f->hop_ns == 0 && take_time(item + 4, &f->hop_ns)
                   ? STATOR_OK
                   : bad(s, "hop is given twice or is no time from 1ns to 1000ms", e);
    return bad(s, "the facts are max_alloc, bandwidth, bus, link and hop", e);
}

stator_status device_spec_parse(const char *text, const char *what, struct device_facts *f, stator_error *e) {
    const struct source source = {text, what};
    const struct source *s = &source;
    char copy[160];
    memset(f, 0, sizeof *f);
    if (strlen(text) >= sizeof copy)
        return bad(s, "it is too long", e);
    snprintf(copy, sizeof copy, "%s", text);
    size_t name = strspn(copy, "abcdefghijklmnopqrstuvwxyz0123456789_:/");
    if (name == 0 || name >= sizeof f->name || copy[name] != '=')
        return bad(s, "the name is not of lower-case letters, digits, _, : and /", e);
    memcpy(f->name, copy, name);
    if (strcmp(f->name, "host") == 0)
        return bad(s, "every plan has a place \"host\" of its own", e);
    const char *of_host = strchr(f->name, '/'); /* "b/cpu:0" is of the stage b */
    const char *device = of_host != NULL ? of_host + 1 : f->name;
    bool host = strncmp(device, "cpu", 3) == 0 && (device[3] == '\0' || device[3] == ':');
    snprintf(f->kind, sizeof f->kind, "%s", host ? "cpu" : "gpu");
    f->host_memory = host;
    f->alignment = host ? PANEL_ALIGN : GPU_ALIGNMENT;
    char *rest = copy + name + 1;
    char *item = strsep(&rest, ",");
    struct device_facts card = {.memory = 0};
    if ((host || !take_card(item, &card)) && !take_size(item, &f->memory))
        return bad(s, "its memory is no size from 1 MiB to 1024 TiB, and no known card", e);
    while (rest != NULL) {
        item = strsep(&rest, ",");
        stator_status st = take_fact(s, item, f, e);
        if (st != STATOR_OK)
            return st;
    }
    f->memory = f->memory != 0 ? f->memory : card.memory;
    f->bandwidth = f->bandwidth != 0 ? f->bandwidth : card.bandwidth;
    f->bus = f->bus != 0 ? f->bus : card.bus;
    CHECK(f->name[0] != '\0' && f->memory >= LEAST_MEMORY && f->alignment > 0);
    return STATOR_OK;
}

stator_status device_spec_parse_list(const char *text, const char *what, struct device_facts *f, uint32_t *n,
                                     stator_error *e) {
    *n = 0;
    for (const char *at = text; at != NULL;) {
        const char *end = strchr(at, ';');
        char one[160];
        at += strspn(at, " ");
        size_t length = end != NULL ? (size_t)(end - at) : strlen(at);
        while (length > 0 && at[length - 1] == ' ')
            length--;
        snprintf(one, sizeof one, "%.*s", (int)ARITH_MIN(length, sizeof one - 1), at);
        at = end != NULL ? end + 1 : NULL;
        if (length == 0 && at == NULL)
            break; /* nothing, or a ';' at the end */
        const struct source s = {one, what};
        if (length >= sizeof one)
            return bad(&s, "it is too long", e);
        if (*n == DEVICE_SPEC_MAX)
            return bad(&s, "there are more than 16 devices", e);
        stator_status st = device_spec_parse(one, what, &f[*n], e);
        if (st != STATOR_OK)
            return st;
        if (device_spec_find(f, *n, f[*n].name) != NULL)
            return bad(&s, "it is there twice", e);
        ++*n;
    }
    return STATOR_OK;
}

static bool same_name(const char *a, const char *b) {
    size_t n = strlen(a);
    return strcmp(a, b) == 0 || (strncmp(a, b, n) == 0 && strchr(a, ':') == NULL && strcmp(b + n, ":0") == 0);
}

const struct device_facts *device_spec_find(const struct device_facts *f, uint32_t n, const char *name) {
    for (uint32_t i = 0; i < n; i++)
        if (same_name(f[i].name, name) || same_name(name, f[i].name))
            return &f[i];
    return NULL;
}
