/* stator doctor [--root DIR] [--json]: what stands in the way of a run on a GPU, line by line, with what to
 * do.
 *
 * Facts of the machine come from sysfs and procfs below a root directory, so that tests bring machines as
 * folders; facts of Level Zero come from the process itself. A finding is ok, a note (may cost speed, may be
 * meant so) or a problem (a GPU can't be used, or only in part). */
#include "app/doctor/doctor.h"

#include "app/commands.h"
#include "app/options/options.h"
#include "app/out.h"

#include "base/json_writer.h"
#include "device/cluster.h"
#include "device/device.h"
#include "device/device_info.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The oldest version that this back end was run with: Debian 12's. */
#define LEAST_LOADER_MAJOR 1
#define LEAST_LOADER_MINOR 8
#define LEAST_DRIVER_BUILD 24595 /* compute-runtime 22.43 */

void doctor_add(struct doctor *d, enum doctor_state state, const char *subject, const char *advice,
                const char *fmt, ...) {
    if (d->n == DOCTOR_MAX)
        return;
    struct doctor_finding *f = &d->findings[d->n++];
    f->state = state;
    snprintf(f->subject, sizeof f->subject, "%s", subject);
    snprintf(f->advice, sizeof f->advice, "%s", advice);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(f->text, sizeof f->text, fmt, ap);
    va_end(ap);
}

static void check_loader(struct doctor *d, const struct device_info_stack *s) {
    unsigned major = 0;
    unsigned minor = 0;
    if (!s->built_in) {
        doctor_add(d, DOCTOR_PROBLEM, "binary", "run `make setup-gpu` and build again", "%s",
                   s->no_gpus.text);
        return;
    }
    if (s->loader[0] == '\0') {
        doctor_add(d, DOCTOR_PROBLEM, "loader", "install libze1 (Debian, Ubuntu) or level-zero (others)",
                   "%s", s->no_gpus.text);
        return;
    }
    if (sscanf(s->loader, "%u.%u", &major, &minor) != 2)
        doctor_add(d, DOCTOR_NOTE, "loader", "", "libze_loader.so.1 does not report its version");
    else if (major < LEAST_LOADER_MAJOR || (major == LEAST_LOADER_MAJOR && minor < LEAST_LOADER_MINOR))
        doctor_add(d, DOCTOR_PROBLEM, "loader", "install a newer libze1 (level-zero)",
                   "version %s; at least %d.%d is needed", s->loader, LEAST_LOADER_MAJOR, LEAST_LOADER_MINOR);
    else
        doctor_add(d, DOCTOR_OK, "loader", "", "version %s", s->loader);
}

/* Drivers count versions as they like: only Intel's are compared (vendor 8086, major 1). */
static void check_driver(struct doctor *d, const struct device_info *i) {
    unsigned major = 0;
    unsigned minor = 0;
    unsigned build = 0;
    bool intel =
        sscanf(i->driver, "%u.%u.%u", &major, &minor, &build) == 3 && i->vendor == 0x8086 && major == 1;
    if (intel && build < LEAST_DRIVER_BUILD)
        doctor_add(d, DOCTOR_PROBLEM, i->facts.name, "install a newer intel-opencl-icd (compute-runtime)",
                   "%s, driver %s; the least build is %d (compute-runtime 22.43)", i->model, i->driver,
                   LEAST_DRIVER_BUILD);
    else
        doctor_add(d, DOCTOR_OK, i->facts.name, "", "%s, driver %s", i->model, i->driver);
}

static void check_level_zero(struct doctor *d) {
    static struct device_info list[DEVICE_INFO_MAX];
    struct device_info_stack s;
    uint32_t n = device_info_list(list, &s);
    check_loader(d, &s);
    for (uint32_t i = 0; i + 1 < n; i++)
        check_driver(d, &list[i]);
    if (n == 1 && s.built_in && s.loader[0] != '\0')
        doctor_add(
            d, DOCTOR_PROBLEM, "driver",
            "install intel-opencl-icd; if it is there, see the lines about the GPU and its render node",
            "Level Zero finds no driver with a GPU");
}

static const char *state_name(enum doctor_state s) {
    static const char *const names[] = {"ok", "note", "problem"};
    return names[s];
}

static void print_json(const struct doctor *d, uint32_t problems) {
    struct json j;
    json_to_file(&j, stdout, true);
    json_open_object(&j, NULL);
    json_put_u64(&j, "problems", problems);
    json_open_array(&j, "findings");
    for (uint32_t i = 0; i < d->n; i++) {
        json_open_object(&j, NULL);
        json_put_string(&j, "state", state_name(d->findings[i].state));
        json_put_string(&j, "subject", d->findings[i].subject);
        json_put_string(&j, "text", d->findings[i].text);
        json_put_string(&j, "advice", d->findings[i].advice);
        json_close(&j);
    }
    json_close(&j);
    json_close(&j);
    (void)json_end(&j); /* out_finish reports what could not be written */
}

static void print_lines(const struct doctor *d, uint32_t problems) {
    const struct device_cluster ranks = device_cluster();
    for (uint32_t i = 0; i < d->n; i++) {
        const struct doctor_finding *f = &d->findings[i];
        if (ranks.size > 1) /* lines of all come together */
            printf("rank %u: ", ranks.rank);
        printf("%-8s %s: %s\n", state_name(f->state), f->subject, f->text);
        if (f->state != DOCTOR_OK && f->advice[0] != '\0')
            printf("         -> %s\n", f->advice);
    }
    fflush(stdout);
    fprintf(stderr, "%u problem%s\n", problems, problems == 1 ? "" : "s");
}

int doctor_command(int argc, char **argv) {
    static struct doctor d;
    bool json = false;
    const char *hosts = "";
    d.root = "";
    const struct options_row rows[] = {
        {.name = "root",
         .kind = OPTIONS_TEXT,
         .target = &d.root,
         .value = "DIR",
         .help = "read /sys, /proc and /dev below this folder (of another machine, or of a test)"},
        {.name = "hosts",
         .kind = OPTIONS_TEXT,
         .target = &hosts,
         .value = "A,B",
         .help = "under mpiexec: the host names that the ranks should have, in the order of cluster.stages"},
        OPTIONS_JSON(&json)};
    struct options o = {.command = "doctor",
                        .usage = "",
                        .summary =
                            "Says what stands in the way of a run on a GPU and what to do about it. Exits "
                            "with 0 when there is no problem, else with 5.",
                        .rows = rows,
                        .n_rows = sizeof rows / sizeof rows[0]};
    int code = 0;
    if (!options_parse(&o, argc, argv, &code))
        return code;
    struct stat st;
    errno = ENOTDIR;
    if (stat(d.root[0] != '\0' ? d.root : "/", &st) == 0 ? !S_ISDIR(st.st_mode) : errno != ENOENT)
        return out_fail("doctor", STATOR_USAGE, "--root %.300s: %s", d.root, strerror(errno));
    const struct device_cluster ranks = device_cluster();
    doctor_launch(&d, hosts);
    doctor_machine(&d);
    check_level_zero(&d);
    doctor_limits(&d);
    uint32_t problems = 0;
    for (uint32_t i = 0; i < d.n; i++)
        problems += d.findings[i].state == DOCTOR_PROBLEM;
    if (json && ranks.rank == 0)
        print_json(&d, problems);
    else if (!json)
        print_lines(&d, problems);
    return out_finish("doctor", problems == 0 ? STATOR_OK : STATOR_DEVICE);
}
