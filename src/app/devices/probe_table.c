#include "app/devices/probe_table.h"

#include "base/units.h"

#include <stdio.h>
#include <string.h>

#define LARGEST (DEVICE_INFO_COPIES - 1)

stator_status probe_table_measure(struct probe_table *t, stator_error *e) {
    for (uint32_t i = 0; i < t->n; i++) {
        for (uint32_t k = 0; k < t->n; k++) {
            if (i == k)
                continue;
            fprintf(stderr, "probing %s -> %s\n", t->list[i].facts.name, t->list[k].facts.name);
            stator_status st = device_info_probe(i, k, device_info_copy_bytes[LARGEST], &t->pairs[i][k], e);
            if (st != STATOR_OK)
                return st;
        }
    }
    return STATOR_OK;
}

static double rate(uint32_t size, uint64_t ns) {
    return (double)device_info_copy_bytes[size] / (double)ns;
}

/* The largest size that was measured for the pair. */
static uint32_t largest(const struct device_info_pair *p) {
    uint32_t size = LARGEST;
    while (size > 0 && p->copies[size].staged_ns == 0)
        size--;
    return size;
}

/* The way that copies of the pair take. */
static uint64_t taken_ns(const struct device_info_pair *p, uint32_t size) {
    return p->route.direct ? p->copies[size].direct_ns : p->copies[size].staged_ns;
}

void probe_table_hint(const struct probe_table *t, uint32_t from, uint32_t to, char out[PROBE_TABLE_HINT]) {
    const struct device_info_pair *p = &t->pairs[from][to];
    uint32_t size = largest(p);
    uint64_t now = taken_ns(p, size);
    uint64_t best = now - now / 10; /* less is noise */
    char bytes[UNITS_TEXT];
    units_format_size(device_info_copy_bytes[size], bytes);
    out[0] = '\0';
    if (p->route.direct && p->copies[size].staged_ns < best) {
        best = p->copies[size].staged_ns;
        snprintf(out, PROBE_TABLE_HINT,
                 "staged is faster: %s in %.1f us instead of %.1f us (transfer.mode = \"staged\")", bytes,
                 (double)best * 1e-3, (double)now * 1e-3);
    }
    for (uint32_t x = 0; x < t->n; x++) {
        if (x == from || x == to || !t->pairs[from][x].route.direct || !t->pairs[x][to].route.direct)
            continue;
        uint64_t first = t->pairs[from][x].copies[size].direct_ns;
        uint64_t second = t->pairs[x][to].copies[size].direct_ns;
        if (first == 0 || second == 0 || first + second >= best)
            continue;
        best = first + second;
        snprintf(
            out, PROBE_TABLE_HINT,
            "two direct copies over %s would be faster: %s in %.1f us instead of %.1f us (not done: name "
            "it between the two in devices.use)",
            t->list[x].facts.name, bytes, (double)best * 1e-3, (double)now * 1e-3);
    }
}

static void print_matrix(const struct probe_table *t) {
    printf("\ncopies between GPUs, GB/s of the largest copy (rows: from, columns: to; s: staged through the "
           "host)\n");
    printf("%14s", "");
    for (uint32_t k = 0; k < t->n; k++)
        printf(" %14s", t->list[k].facts.name);
    printf("\n");
    for (uint32_t i = 0; i < t->n; i++) {
        printf("%14s", t->list[i].facts.name);
        for (uint32_t k = 0; k < t->n; k++) {
            const struct device_info_pair *p = &t->pairs[i][k];
            uint64_t ns = i != k ? taken_ns(p, largest(p)) : 0;
            if (ns == 0)
                printf(" %14s", i == k ? "-" : p->route.direct ? "direct" : "staged");
            else
                printf(" %12.1f %s", rate(largest(p), ns), p->route.direct ? " " : "s");
        }
        printf("\n");
    }
}

static void print_way(const char *name, const struct device_info_pair *p, bool direct) {
    printf("        %-7s", name);
    for (uint32_t s = 0; s < DEVICE_INFO_COPIES; s++) {
        uint64_t ns = direct ? p->copies[s].direct_ns : p->copies[s].staged_ns;
        if (ns == 0)
            printf(" %21s", "-");
        else
            printf(" %9.1f us %4.1f GB/s", (double)ns * 1e-3, rate(s, ns));
    }
    printf("\n");
}

static void print_pair(const struct probe_table *t, uint32_t from, uint32_t to) {
    const struct device_info_pair *p = &t->pairs[from][to];
    char hint[PROBE_TABLE_HINT];
    printf("    %s -> %s  ", t->list[from].facts.name, t->list[to].facts.name);
    if (p->route.direct)
        printf("direct, %.1f GB/s, %.1f us\n", (double)p->route.bytes_per_second * 1e-9,
               (double)p->route.latency_ns * 1e-3);
    else
        printf("staged: %s\n", p->route.why);
    print_way("direct", p, true);
    print_way("staged", p, false);
    probe_table_hint(t, from, to, hint);
    if (hint[0] != '\0')
        printf("        %s\n", hint);
}

void probe_table_print(const struct probe_table *t) {
    if (t->n < 2)
        return;
    print_matrix(t);
    char size[UNITS_TEXT];
    printf("\nthe fastest of several copies, by size\n        %-7s", "");
    for (uint32_t s = 0; s < DEVICE_INFO_COPIES; s++)
        printf(" %21s", units_format_size(device_info_copy_bytes[s], size));
    printf("\n");
    for (uint32_t i = 0; i < t->n; i++)
        for (uint32_t k = 0; k < t->n; k++)
            if (i != k)
                print_pair(t, i, k);
}

void probe_table_json(const struct probe_table *t, struct json *j) {
    json_open_array(j, "routes");
    for (uint32_t i = 0; i < t->n; i++) {
        for (uint32_t k = 0; k < t->n; k++) {
            const struct device_info_pair *p = &t->pairs[i][k];
            char hint[PROBE_TABLE_HINT];
            if (i == k)
                continue;
            probe_table_hint(t, i, k, hint);
            json_open_object(j, NULL);
            json_put_string(j, "from", t->list[i].facts.name);
            json_put_string(j, "to", t->list[k].facts.name);
            json_put_bool(j, "direct", p->route.direct);
            json_put_string(j, "why", p->route.why);
            json_put_string(j, "hint", hint);
            json_put_u64(j, "bytes_per_second", p->route.bytes_per_second);
            json_put_u64(j, "latency_ns", p->route.latency_ns);
            json_open_array(j, "copies"); /* 0: not measured */
            for (uint32_t s = 0; s < DEVICE_INFO_COPIES; s++) {
                json_open_object(j, NULL);
                json_put_u64(j, "bytes", device_info_copy_bytes[s]);
                json_put_u64(j, "direct_ns", p->copies[s].direct_ns);
                json_put_u64(j, "staged_ns", p->copies[s].staged_ns);
                json_close(j);
            }
            json_close(j);
            json_close(j);
        }
    }
    json_close(j);
}
