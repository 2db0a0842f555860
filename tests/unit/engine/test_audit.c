/* The audit of memory: the kernel's figures of GPUs from fixtures, the identity of the host's figures, and
 * what memory.strict makes of growth. */
#include "engine_harness.h"

#include "os/drm_fdinfo.h"
#include "os/host_memory.h"

#include <malloc.h>

#define MODEL "configs/demo.gguf"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1 /* whose shadow memory grows as it likes */
#else
#define SANITIZED 0
#endif

static void drm(void **state) {
    (void)state;
    static const struct {
        const char *root;
        uint32_t clients;
        uint64_t local;
        uint64_t system;
    } cases[] = {
        {"tests/data/drm/xe", 2, (23992 + 1000) * 1024ull, (1024 + 192 + 2048 + 192) * 1024ull},
        {"tests/data/drm/i915", 2, (256ull << 20) + (4096 << 10), (16ull << 20) + (8 << 10) + (1 << 10)},
        {"tests/data/drm/odd", 1, 512, 0},
        {"tests/data/drm/none", 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct drm_fdinfo f;
        drm_fdinfo_read(cases[i].root, &f);
        if (f.all.clients != cases[i].clients || f.all.local_bytes != cases[i].local ||
            f.all.system_bytes != cases[i].system)
            fail_msg("%s: %u clients, %llu, %llu", cases[i].root, f.all.clients,
                     (unsigned long long)f.all.local_bytes, (unsigned long long)f.all.system_bytes);
    }
}

/* Several clients of several devices; sums that pass 64 bits stop there. */
static void drm_devices(void **state) {
    (void)state;
    static const struct {
        const char *pci;
        uint32_t clients;
        uint64_t local;
        uint64_t system;
    } devices[] = {{"0000:03:00.0", 2, 150 << 10, 15 << 10},
                   {"0000:82:00.0", 3, UINT64_MAX, 5 << 10},
                   {"i915", 1, 1 << 10, 2 << 10}};
    struct drm_fdinfo f;
    drm_fdinfo_read("tests/data/drm/many", &f);
    assert_int_equal(f.all.clients, 6);
    assert_int_equal(f.n_devices, 3);
    assert_true(f.all.local_bytes == UINT64_MAX && f.all.system_bytes == 22 << 10);
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        const struct drm_figures *d = drm_fdinfo_of(&f, devices[i].pci);
        assert_non_null(d);
        assert_int_equal(d->clients, devices[i].clients);
        assert_true(d->local_bytes == devices[i].local && d->system_bytes == devices[i].system);
    }
    assert_null(drm_fdinfo_of(&f, "0000:04:00.0"));
    assert_null(drm_fdinfo_of(&f, ""));
    drm_fdinfo_read("tests/data/drm/xe", &f);
    assert_int_equal(f.n_devices, 2);
    assert_true(drm_fdinfo_of(&f, "0000:04:00.0")->local_bytes == 1000 << 10);
}

/* Figures that pass 64 bits in bytes stop there; the lowest limit of the cgroups counts. */
static void host_figures(void **state) {
    (void)state;
    static const struct {
        const char *root;
        uint64_t available;
        uint64_t private_bytes;
        uint64_t resident; /* of a page at 0x1000 */
    } cases[] = {
        {"tests/data/host/group", 4096000, 304 << 10, 4096},
        {"tests/data/host/v1", 2048000, 0, 0},
        {"tests/data/host/large", UINT64_MAX, UINT64_MAX, 4096},
        {"tests/data/host/none", 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t available = host_memory_available_below(cases[i].root);
        uint64_t private_bytes = host_memory_private_below(cases[i].root);
        uint64_t resident = host_memory_resident_below(cases[i].root, (const void *)(uintptr_t)0x1000, 4096);
        if (available != cases[i].available || private_bytes != cases[i].private_bytes ||
            resident != cases[i].resident)
            fail_msg("%s: %llu, %llu, %llu", cases[i].root, (unsigned long long)available,
                     (unsigned long long)private_bytes, (unsigned long long)resident);
    }
}

/* planned - not_in_ram + before + others = kernel, and the first three alone come close. */
static void identity(void **state) {
    (void)state;
    const char *sets[] = {"cpu.threads=2", "devices.use=cpu:0,cpu:1", NULL};
    stator *s = harness_start(MODEL, sets);
    for (int round = 0; round < 2; round++) {
        stator_audit a = {.size = sizeof a};
        assert_int_equal(stator_get_audit(s, &a, NULL), STATOR_OK);
        assert_true((int64_t)(a.planned - a.not_in_ram + a.before) + a.others == (int64_t)a.kernel);
        assert_true(a.not_in_ram > 8 << 20); /* most of a load window of 16 MiB was never needed */
        if (!SANITIZED)
            assert_true(a.others < 4 << 20 && a.others > -(1 << 20));
        assert_int_equal(a.pinned, 0);
        int32_t ids[3] = {5, 6, 7};
        struct harness_text t = {.id = harness_submit(s, ids, 3, 200, 0, 0)};
        harness_collect(s, &t, 1);
    }
    stator_close(s);
}

static void strict(void **state) {
    (void)state;
    if (SANITIZED) {
        print_message("skipped: the sanitizer owns malloc\n");
        skip();
    }
    for (int strict = 0; strict < 2; strict++) {
        const char *sets[] = {"cpu.threads=2", strict ? "memory.strict=true" : "memory.strict=false", NULL};
        stator *s = harness_start(MODEL, sets);
        stator_audit a = {.size = sizeof a};
        stator_error e = {0};
        assert_int_equal(stator_get_audit(s, &a, &e), STATOR_OK);
        assert_string_equal(a.text, "");
        int32_t ids[3] = {5, 6, 7};
        struct harness_text t = {.id = harness_submit(s, ids, 3, 300, 0.8f, 0)};
        harness_collect(s, &t, 1); /* new pages of the plan are no growth */
        assert_int_equal(stator_get_audit(s, &a, &e), STATOR_OK);
        assert_true(a.grown < 1 << 20);
        size_t bytes = 32 << 20;
        char *leak = malloc(bytes);
        assert_non_null(leak);
        memset(leak, 1, bytes);
        assert_int_equal(stator_get_audit(s, &a, &e), strict ? STATOR_DOES_NOT_FIT : STATOR_OK);
        assert_true(a.grown > 31 << 20 && a.grown < 34 << 20);
        assert_non_null(strstr(a.text, "has grown by"));
        if (strict)
            assert_non_null(strstr(e.text, "memory.strict"));
        assert_int_equal(leak[bytes - 1], 1);
        free(leak);
        malloc_trim(0);
        assert_int_equal(stator_get_audit(s, &a, &e), STATOR_OK);
        stator_close(s);
    }
}

/* A host limit that the plan keeps and the process around it does not. */
static void host_limit(void **state) {
    (void)state;
    if (SANITIZED)
        skip();
    size_t bytes = 48 << 20;
    char *before = malloc(bytes);
    assert_non_null(before);
    memset(before, 1, bytes);
    const char *sets[] = {"cpu.threads=2", "memory.host_limit=40MiB", "memory.strict=true"};
    stator_options o = {.size = sizeof o, .config = MODEL, .set = sets, .n_set = 3};
    stator *s = NULL;
    stator_error e = {0};
    assert_int_equal(stator_open(&o, &s, &e), STATOR_OK);
    assert_int_equal(stator_start(s, &e), STATOR_DOES_NOT_FIT);
    assert_non_null(strstr(e.text, "memory.host_limit is 40"));
    stator_close(s);
    o.n_set = 2;
    assert_int_equal(stator_open(&o, &s, &e), STATOR_OK);
    assert_int_equal(stator_start(s, &e), STATOR_OK); /* a warning */
    stator_close(s);
    assert_int_equal(before[bytes - 1], 1);
    free(before);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(drm),          cmocka_unit_test(drm_devices),
                                       cmocka_unit_test(host_figures), cmocka_unit_test(identity),
                                       cmocka_unit_test(strict),       cmocka_unit_test(host_limit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
