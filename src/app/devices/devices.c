/* stator devices [--probe] [--save FILE] [--json]: the devices of this machine, with the facts that a plan
 * depends on. */
#include "app/commands.h"
#include "app/options/options.h"
#include "app/out.h"
#include "app/devices/probe_table.h"

#include "base/json_writer.h"
#include "base/units.h"
#include "device/device_info.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct devices {
    bool probe, json;
    const char *save;
    struct device_info list[DEVICE_INFO_MAX];
    uint32_t n;
    struct device_info_stack stack;
    struct probe_table table; /* with probe */
};

static uint32_t gpus(const struct devices *d) {
    return d->n - 1; /* the CPU is the last */
}

/* In the form that `stator plan --device` and devices.facts take. A plan gets as much of the host's memory as
 * the default of host_limit. */
static void spec(const struct device_info *i, char out[160]) {
    int n = snprintf(out, 160, "%s=%" PRIu64, i->facts.name, i->gpu ? i->facts.memory : i->free / 10 * 9);
    if (i->facts.max_alloc != 0)
        n += snprintf(out + n, 160 - (size_t)n, ",max_alloc=%" PRIu64, i->facts.max_alloc);
    if (i->facts.bandwidth != 0)
        n += snprintf(out + n, 160 - (size_t)n, ",bandwidth=%" PRIu64, i->facts.bandwidth);
    if (i->facts.bus != 0)
        snprintf(out + n, 160 - (size_t)n, ",bus=%" PRIu64, i->facts.bus);
}

static stator_status save(const struct devices *d, stator_error *e) {
    FILE *f = out_open("--save", d->save, e);
    if (f == NULL)
        return e->code;
    uint32_t n = gpus(d) > 0 ? gpus(d) : 1; /* the CPU when it is all there is */
    const struct device_info *cpu = &d->list[d->n - 1];
    char text[160];
    fprintf(f,
            "# The devices of a machine, by stator %s: `stator run` uses them there, `stator plan` plans for "
            "them\n"
            "# anywhere. Add a model: model = { path = \"..\"; }\n",
            STATOR_VERSION);
    for (uint32_t i = 0; i < gpus(d); i++)
        fprintf(f, "# %s: %s %s, driver %s\n", d->list[i].facts.name, d->list[i].model, d->list[i].pci,
                d->list[i].driver);
    fprintf(f, "# %s: %s, %u cores, %" PRIu64 " bytes of memory free\n", cpu->facts.name, cpu->model,
            cpu->units, cpu->free);
    fprintf(f, "devices = {\n    use = \"");
    for (uint32_t i = 0; i < n; i++)
        fprintf(f, "%s%s", i > 0 ? ", " : "", d->list[i].facts.name);
    fprintf(f, "\";\n    facts = \"");
    for (uint32_t i = 0; i < n; i++) { /* texts next to each other are one */
        spec(&d->list[i], text);
        fprintf(f, "%s%s", i > 0 ? "; \"\n            \"" : "", text);
    }
    fprintf(f, "\";\n};\n");
    return out_close(f, "--save", d->save, STATOR_OK, e);
}

static void sub_groups_text(const struct device_info *i, char out[64]) {
    out[0] = '\0';
    for (uint32_t k = 0; k < i->n_sub_groups; k++) {
        size_t n = strlen(out);
        snprintf(out + n, 64 - n, "%s%u", k > 0 ? "/" : "", i->sub_groups[k]);
    }
}

static void print_gpu(const struct device_info *i) {
    char total[UNITS_TEXT];
    char left[UNITS_TEXT];
    char planned[UNITS_TEXT];
    char most[UNITS_TEXT];
    char widths[64];
    sub_groups_text(i, widths);
    printf("%s  %s%s\n", i->facts.name, i->model, i->integrated ? " (integrated)" : "");
    printf("    PCI %s, %04x:%04x, driver %s\n", i->pci[0] != '\0' ? i->pci : "address not told", i->vendor,
           i->device, i->driver);
    printf("    %u EUs of %u threads; sub-groups of %s; work-groups of %u items, %u bytes of local memory\n",
           i->units, i->threads_per_unit, widths[0] != '\0' ? widths : "unknown width", i->max_group,
           i->local_memory);
    printf("    reported: %s, %s\n", i->dp4a ? "dp4a" : "no dp4a", i->dpas ? "dpas" : "no dpas");
    printf("    memory %s, plans use at most %s; free now %s (%s)\n", units_format_size(i->total, total),
           units_format_size(i->facts.memory, planned), units_format_size(i->free, left), i->free_source);
    printf("    largest allocation %s, alignment %" PRIu64 " bytes",
           units_format_size(i->facts.max_alloc, most), i->facts.alignment);
    if (i->facts.bandwidth != 0)
        printf(", bandwidth %.0f GB/s", (double)i->facts.bandwidth * 1e-9);
    if (i->facts.bus != 0)
        printf(", bus %.1f GB/s", (double)i->facts.bus * 1e-9);
    printf("\n");
}

static void print_table(const struct devices *d) {
    for (uint32_t i = 0; i < gpus(d); i++)
        print_gpu(&d->list[i]);
    const struct device_info *cpu = &d->list[d->n - 1];
    char left[UNITS_TEXT];
    printf("%s  %s, %u cores; memory free now %s\n", cpu->facts.name, cpu->model, cpu->units,
           units_format_size(cpu->free, left));
    probe_table_print(&d->table);
    if (d->stack.no_gpus.code != STATOR_OK)
        fprintf(stderr, "no GPU: %s\n", d->stack.no_gpus.text);
    else
        fprintf(stderr, "Level Zero loader %s\n", d->stack.loader);
}

static void device_json(struct json *j, const struct device_info *i) {
    json_open_object(j, NULL);
    json_put_string(j, "name", i->facts.name);
    json_put_string(j, "kind", i->facts.kind);
    json_put_string(j, "model", i->model);
    json_put_u64(j, "memory", i->facts.memory);
    json_put_u64(j, "max_alloc", i->facts.max_alloc);
    json_put_u64(j, "bandwidth", i->facts.bandwidth);
    json_put_u64(j, "bus", i->facts.bus);
    json_put_u64(j, "alignment", i->facts.alignment);
    json_put_u64(j, "total", i->total);
    json_put_u64(j, "free", i->free);
    json_put_string(j, "free_source", i->free_source);
    json_put_u64(j, i->gpu ? "eus" : "cores", i->units);
    if (i->gpu) {
        char text[160];
        spec(i, text);
        json_put_string(j, "spec", text);
        json_put_string(j, "pci", i->pci);
        json_put_string(j, "driver", i->driver);
        json_put_u64(j, "vendor_id", i->vendor);
        json_put_u64(j, "device_id", i->device);
        json_put_bool(j, "integrated", i->integrated);
        json_put_u64(j, "threads_per_eu", i->threads_per_unit);
        json_open_array(j, "sub_group_sizes");
        for (uint32_t k = 0; k < i->n_sub_groups; k++)
            json_put_u64(j, NULL, i->sub_groups[k]);
        json_close(j);
        json_put_u64(j, "max_group", i->max_group);
        json_put_u64(j, "local_memory", i->local_memory);
        json_put_bool(j, "dp4a", i->dp4a);
        json_put_bool(j, "dpas", i->dpas);
    }
    json_close(j);
}

static void print_json(const struct devices *d) {
    struct json j;
    json_to_file(&j, stdout, true);
    json_open_object(&j, NULL);
    json_put_string(&j, "loader", d->stack.loader);
    if (d->stack.no_gpus.code != STATOR_OK)
        json_put_string(&j, "no_gpus", d->stack.no_gpus.text);
    json_open_array(&j, "devices");
    for (uint32_t i = 0; i < d->n; i++)
        device_json(&j, &d->list[i]);
    json_close(&j);
    if (d->probe)
        probe_table_json(&d->table, &j);
    json_close(&j);
    (void)json_end(&j); /* out_finish reports what could not be written */
}

int devices_command(int argc, char **argv) {
    static struct devices d;
    const struct options_row rows[] = {
        {.name = "probe",
         .kind = OPTIONS_FLAG,
         .target = &d.probe,
         .help = "measure copies between every ordered pair of GPUs, 4 KiB to 64 MiB, direct and staged, and "
                 "compare the data"},
        {.name = "save",
         .kind = OPTIONS_TEXT,
         .target = &d.save,
         .value = "FILE",
         .help = "write a config file with these devices and their facts, for `stator plan` elsewhere"},
        OPTIONS_JSON(&d.json)};
    struct options o = {.command = "devices",
                        .usage = "[--probe] [--save FILE]",
                        .summary = "Lists the GPUs and the CPU of this machine with the facts that a plan "
                                   "depends on. Without a GPU it says why there is none, and exits with 0.",
                        .rows = rows,
                        .n_rows = sizeof rows / sizeof rows[0]};
    int code = 0;
    if (!options_parse(&o, argc, argv, &code))
        return code;
    d.n = device_info_list(d.list, &d.stack);
    stator_error e;
    stator_status st = STATOR_OK;
    if (d.probe) {
        d.table.list = d.list;
        d.table.n = gpus(&d);
        st = probe_table_measure(&d.table, &e);
    }
    if (st == STATOR_OK && d.save != NULL)
        st = save(&d, &e);
    if (st == STATOR_OK && d.json)
        print_json(&d);
    else if (st == STATOR_OK)
        print_table(&d);
    return out_end("devices", st, &e);
}
