/* The audit of GPU memory: the plan's, the driver's and the kernel's figures of fake GPUs side by side, the
 * kernel's from files that the test writes. */
#include "fake_device.h"

#include "engine_harness.h"

#include "engine/report/audit.h"

#include <sys/stat.h>

#define MODEL "configs/demo.gguf"
#define KIB   1024ull

static char root[] = "/tmp/stator-audit-XXXXXX";

static void write_text(const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0 && fclose(f) == 0);
}

static int make_root(void **state) {
    (void)state;
    char path[256];
    if (mkdtemp(root) == NULL)
        return 1;
    static const char *const folders[] = {"proc", "proc/self", "proc/self/fdinfo"};
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", root, folders[i]);
        if (mkdir(path, 0700) != 0)
            return 1;
    }
    return 0;
}

static int remove_root(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

/* What the kernel says of GPU `index`: bytes of its memory and of the host's. */
static void kernel_says(uint32_t index, uint64_t local, uint64_t system) {
    char name[64];
    char text[512];
    snprintf(name, sizeof name, "proc/self/fdinfo/%u", 20 + index);
    snprintf(text, sizeof text,
             "drm-driver:\txe\ndrm-client-id:\t%u\ndrm-pdev:\t0000:%02x:00.0\ndrm-resident-gtt:\t%llu\n"
             "drm-resident-vram0:\t%llu\n",
             index + 1, 3 + index, (unsigned long long)system, (unsigned long long)local);
    write_text(name, text);
}

static stator *start(const char *strict, const char *limit) {
    const char *sets[] = {"devices.use=fake:0,cpu:0,fake:1",
                          "devices.split=4,3,1",
                          "cpu.threads=1",
                          "memory.driver_reserve=1MiB",
                          strict,
                          limit,
                          NULL};
    stator *s = harness_start(MODEL, sets);
    s->root = root;
    audit_take(s, &s->report.sealed);
    return s;
}

static stator_device_audit get(stator *s, size_t i, int *have) {
    stator_device_audit d = {.size = sizeof d};
    assert_int_equal(stator_get_device_audit(s, i, &d, have, NULL), STATOR_OK);
    return d;
}

static void side_by_side(void **state) {
    (void)state;
    memset(&fake, 0, sizeof fake);
    fake.driver_bytes = 300 * KIB;
    stator *s = start("memory.strict=true", "memory.host_limit=auto");
    uint64_t planned[2] = {plan_allocated(&s->planning.plan.places[0]),
                           plan_allocated(&s->planning.plan.places[2])};
    kernel_says(0, planned[0] + 400 * KIB, s->planning.staging_bytes + 64 * KIB);
    audit_take(s, &s->report.sealed);
    int have = 0;
    stator_device_audit d = get(s, 0, &have);
    assert_true(have && planned[0] > 1 << 20);
    assert_string_equal(d.name, "fake:0");
    assert_true(d.planned == planned[0] && d.driver == planned[0] + 300 * KIB);
    assert_true(d.kernel_told && d.kernel == planned[0] + 400 * KIB);
    assert_true(d.host == s->planning.staging_bytes && d.kernel_host == s->planning.staging_bytes + 64 * KIB);
    assert_true(d.reserve == 1 << 20 && d.grown == 0);
    d = get(s, 1, &have); /* the next GPU, of which the kernel says nothing; staging is the first one's */
    assert_true(have && strcmp(d.name, "fake:1") == 0 && d.planned == planned[1] && d.planned != planned[0]);
    assert_true(!d.kernel_told && d.kernel == 0 && d.host == 0 && d.driver == planned[1] + 300 * KIB);
    (void)get(s, 2, &have);
    assert_false(have);
    stator_audit a = {.size = sizeof a};
    assert_int_equal(stator_get_audit(s, &a, NULL), STATOR_OK);
    assert_true(a.drm_clients == 1 && a.drm_vram == planned[0] + 400 * KIB);
    /* What was written of the staging of the fake devices, plain memory, is in the process's figure: counted
     * once. */
    assert_true(a.pinned < s->planning.staging_bytes - (64 << 10));
    assert_true((int64_t)(a.planned - a.not_in_ram + a.before) + a.others == (int64_t)a.kernel);
    size_t n = 0;
    char *json = malloc(1 << 20);
    assert_non_null(json);
    assert_int_equal(stator_report_json(s, json, 1 << 20, &n, NULL), STATOR_OK);
    char text[64];
    snprintf(text, sizeof text, "\"kernel_bytes\": %llu", (unsigned long long)(planned[0] + 400 * KIB));
    assert_non_null(strstr(json, text));
    free(json);
    stator_close(s);
}

/* What is wrong is named, with the device; with memory.strict it is an error. */
static void judged(void **state) {
    (void)state;
    static const struct {
        uint64_t own;   /* the driver's, by its count */
        uint64_t first; /* by the kernel, beside the slices: at the seal, */
        uint64_t last;  /* and at the end */
        const char *says;
    } cases[] = {
        {0, 0, 0, ""},
        {1000 * KIB, 100 * KIB, 1000 * KIB, ""},
        {0, 2048 * KIB, 2048 * KIB,
         "fake:0: its driver holds 2.00 MiB for itself, memory.driver_reserve is 1.00 MiB"},
        {0, 0, 9000 * KIB,
         "fake:0: this process's memory on the GPU has grown by 8.79 MiB since the engine was sealed"},
        {1100 * KIB, 0, 0,
         "fake:1: its driver holds 1.07 MiB for itself"}, /* of fake:0 the kernel knows better */
    };
    for (size_t i = 0; i < 2 * sizeof cases / sizeof cases[0]; i++) {
        memset(&fake, 0, sizeof fake);
        fake.driver_bytes = cases[i / 2].own;
        bool strict = i % 2 == 1;
        const char *sets[] = {"devices.use=fake:0,cpu:0,fake:1", "cpu.threads=1",
                              "memory.driver_reserve=1MiB"};
        stator_options o = {.size = sizeof o, .config = MODEL, .set = sets, .n_set = 3};
        stator *s = NULL;
        stator_error e = {0};
        assert_int_equal(stator_open(&o, &s, &e), STATOR_OK);
        assert_int_equal(stator_start(s, &e), STATOR_OK);
        s->root = root;
        s->planning.config.memory.strict = strict;
        kernel_says(0, plan_allocated(&s->planning.plan.places[0]) + cases[i / 2].first, 0);
        audit_take(s, &s->report.sealed);
        kernel_says(0, plan_allocated(&s->planning.plan.places[0]) + cases[i / 2].last, 0);
        stator_audit a = {.size = sizeof a};
        stator_status st = stator_get_audit(s, &a, &e);
        bool wrong = cases[i / 2].says[0] != '\0';
        if (strncmp(a.text, cases[i / 2].says, strlen(cases[i / 2].says)) != 0 ||
            wrong != (a.text[0] != '\0'))
            fail_msg("case %zu: '%s'", i / 2, a.text);
        assert_int_equal(st, wrong && strict ? STATOR_DOES_NOT_FIT : STATOR_OK);
        stator_close(s);
    }
}

/* Host memory that only the kernel's graphics driver counts is under the limit too. */
static void host_limit(void **state) {
    (void)state;
    memset(&fake, 0, sizeof fake);
    stator *s = start("memory.strict=true", "memory.host_limit=400MiB");
    stator_audit a = {.size = sizeof a};
    stator_error e = {0};
    kernel_says(0, 0, 64 << 20);
    assert_int_equal(stator_get_audit(s, &a, &e), STATOR_OK);
    kernel_says(0, 0, 399 << 20);
    assert_int_equal(stator_get_audit(s, &a, &e), STATOR_DOES_NOT_FIT);
    assert_non_null(strstr(a.text, "and what drivers pin beside them), memory.host_limit is 400"));
    stator_close(s);
}

/* What the kernel says of the machine, in MiB: available, and named by nobody (MemTotal is 16 GiB). */
static void meminfo_says(unsigned available, unsigned unnamed) {
    char text[512];
    const unsigned total = 16u << 10, slab = 100, anon = 2000, cached = 3000;
    snprintf(text, sizeof text,
             "MemTotal: %u kB\nMemFree: %u kB\nMemAvailable: %u kB\nBuffers: 0 kB\nCached: %u kB\nAnonPages: "
             "%u kB\nSlab: %u kB\n",
             total << 10, (total - slab - anon - cached - unnamed) << 10, available << 10, cached << 10,
             anon << 10, slab << 10);
    write_text("proc/meminfo", text);
}

/* Pages that a driver keeps are in no figure of this process; the machine's tell of them. */
static void leak_of_a_driver(void **state) {
    (void)state;
    static const struct {
        unsigned available, unnamed; /* at the end; 8000 and 500 at the seal */
        const char *says;
    } cases[] = {
        {8000, 500, ""},
        {7000, 500, ""}, /* another process has taken it */
        {7900, 700, ""},
        {8100, 900, ""}, /* others have given more back */
        {7500, 1000,
         "machine: MemAvailable has fallen from 7.81 GiB to 7.32 GiB since the engine was sealed, and 500.00 "
         "MiB more belong to no process and no cache: a driver may leak"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        memset(&fake, 0, sizeof fake);
        kernel_says(0, 0, 0);
        meminfo_says(8000, 500);
        stator *s = start("memory.strict=true", "memory.host_limit=auto"); /* nothing of ours is wrong */
        meminfo_says(cases[i].available, cases[i].unnamed);
        stator_audit a = {.size = sizeof a};
        assert_int_equal(stator_get_audit(s, &a, NULL), STATOR_OK);
        assert_true(a.available == (uint64_t)cases[i].available << 20 && a.available_sealed == 8000ull << 20);
        assert_true(a.unnamed_grown == ((int64_t)cases[i].unnamed - 500) * (1 << 20));
        if (strcmp(a.text, cases[i].says) != 0)
            fail_msg("case %zu: '%s'", i, a.text);
        stator_close(s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(side_by_side), cmocka_unit_test(judged),
                                       cmocka_unit_test(host_limit), cmocka_unit_test(leak_of_a_driver)};
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
