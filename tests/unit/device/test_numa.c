/* cpu.numa: what sysfs says (fixtures), what the kernel was asked, and where staging lies. */
#include "fake_device.h"

#include "engine_harness.h"

#include "engine/engine.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>

#define MODEL "configs/demo.gguf"
#define DATA  "tests/data/numa/"

static void lists(void **state) {
    (void)state;
    static const struct {
        const char *text;
        bool ok;
        uint64_t set;
    } cases[] = {{"0", true, 1},
                 {"0-3\n", true, 15},
                 {"0,2-3,63\n", true, 13 | (uint64_t)1 << 63},
                 {"1,64,70-99999", true, 2},
                 {"", false, 0},
                 {"\n", false, 0},
                 {"-1", false, 0},
                 {"0-", false, 0},
                 {"0,", false, 0},
                 {"3-1", false, 0},
                 {"0 1", false, 0},
                 {"0x3", false, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t set = 0;
        if (numa_parse_list(cases[i].text, &set) != cases[i].ok || (cases[i].ok && set != cases[i].set))
            fail_msg("'%s': %llx", cases[i].text, (unsigned long long)set);
    }
}

static void sysfs(void **state) {
    (void)state;
    assert_true(numa_online(DATA "two") == 3 && numa_online(DATA "one") == 1 &&
                numa_online(DATA "silent") == 19);
    assert_true(numa_online(DATA "odd") == 0 && numa_online(DATA "none") == 0);
    assert_int_equal(numa_node_of_pci(DATA "apart", "0000:03:00.0"), 1);
    assert_int_equal(numa_node_of_pci(DATA "apart", "0000:04:00.0"), 0);
    assert_int_equal(numa_node_of_pci(DATA "apart", "0000:99:00.0"), -1);
    assert_int_equal(numa_node_of_pci(DATA "apart", ""), -1);
    assert_int_equal(numa_node_of_pci(DATA "apart", "../devices/0000:03:00.0"), -1);
    for (int i = 3; i < 6; i++) {
        char pci[16];
        snprintf(pci, sizeof pci, "0000:%02x:00.0", i);
        assert_int_equal(numa_node_of_pci(DATA "odd", pci), -1);
        assert_int_equal(numa_node_of_pci(DATA "silent", pci), -1);
    }
    assert_true(numa_node_of_cpu(DATA "apart", 1) == 2 && numa_node_of_cpu(DATA "apart", 2) == 1);
    assert_true(numa_node_of_cpu(DATA "apart", 4) == 0 && numa_node_of_cpu(DATA "none", 0) == 0);
}

/* The policy of pages that nobody may have touched. */
static int policy_of(void *memory, unsigned long *nodes) {
    int mode = -1;
    *nodes = 0;
    if (syscall(SYS_get_mempolicy, &mode, nodes, 65ul, memory, (unsigned long)MPOL_F_ADDR) != 0)
        return -1;
    return mode;
}

static void need_kernel(void) {
    unsigned long nodes = 0;
    if (!numa_is_free() || policy_of((void *)((uintptr_t)&nodes / 4096 * 4096), &nodes) != MPOL_DEFAULT ||
        !numa_prefer(0) || !numa_prefer(-1)) {
        print_message("skipped: this kernel allows no NUMA policies here\n");
        skip();
    }
}

static stator *start(const char *root, const char *use, const char *numa) {
    memset(&fake, 0, sizeof fake);
    const char *sets[] = {use, "cpu.threads=1", numa};
    stator_options o = {.size = sizeof o, .config = MODEL, .set = sets, .n_set = 3};
    stator *s = NULL;
    stator_error e = {0};
    assert_int_equal(stator_open(&o, &s, &e), STATOR_OK);
    s->root = root;
    if (stator_start(s, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    return s;
}

#define GPUS "devices.use=fake:0,fake:1,fake:2"

/* A driver's staging: made under the policy of the GPUs' node. */
static void gpus(void **state) {
    (void)state;
    need_kernel();
    static const struct {
        const char *root;
        const char *numa;
        int staging;
        uint32_t nodes, far_gpus;
        const char *why;
    } cases[] = {
        {DATA "two", "cpu.numa=auto", 0, 2, 0, "staging is meant for node 0, where the GPUs are"},
        {DATA "apart", "cpu.numa=auto", 0, 2, 1,
         "staging is meant for node 0, where most GPUs are; copies of 1 GPU on other nodes cross sockets"},
        {DATA "two", "cpu.numa=off", -1, 2, 0, "cpu.numa is \"off\""},
        {DATA "one", "cpu.numa=auto", -1, 1, 0, "the machine has one node"},
        {DATA "none", "cpu.numa=auto", -1, 0, 0, "the kernel tells of no nodes"},
        {DATA "odd", "cpu.numa=auto", -1, 0, 0, "the kernel tells of no nodes"},
        {DATA "silent", "cpu.numa=auto", -1, 3, 0, "the firmware tells no GPU's node: staging lies anywhere"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        stator *s = start(cases[i].root, GPUS, cases[i].numa);
        const struct placement *p = &s->start.placement;
        if (p->staging != cases[i].staging || p->n_nodes != cases[i].nodes || p->n_far != cases[i].far_gpus ||
            strncmp(p->why, cases[i].why, strlen(cases[i].why)) != 0)
            fail_msg("%s: node %d of %u, %u far, '%s'", cases[i].root, p->staging, p->n_nodes, p->n_far,
                     p->why);
        assert_int_equal(fake.host_is_free, cases[i].staging < 0);
        assert_true(fake.later_is_free);
        if (cases[i].staging >= 0)
            assert_int_equal(p->staging_is_on, numa_node_of(s->start.staging));
        size_t n = 0;
        static char json[1 << 20];
        assert_int_equal(stator_report_json(s, json, sizeof json, &n, NULL), STATOR_OK);
        assert_non_null(strstr(json, cases[i].staging < 0 ? "\"staging_node\": -1" : "\"staging_node\": 0"));
        stator_close(s);
    }
}

/* What a GPU spills lies on its own node, whatever the node of staging is. */
static void spill(void **state) {
    (void)state;
    need_kernel();
    static const struct {
        const char *use;
        const char *root;
        const char *numa;
        uint32_t spills, free;
    } cases[] = {{"devices.use=fake:0", DATA "two", "cpu.numa=auto", 2, 0},
                 {"devices.use=fake:0", DATA "two", "cpu.numa=off", 2, 2},
                 {"devices.use=fake:0", DATA "silent", "cpu.numa=auto", 2, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        memset(&fake, 0, sizeof fake);
        fake.memory = 5 << 20;
        const char *sets[] = {cases[i].use,
                              "cpu.threads=1",
                              cases[i].numa,
                              "memory.on_oom=spill",
                              "memory.driver_reserve=1MiB",
                              "memory.batch=16"};
        stator_options o = {.size = sizeof o, .config = MODEL, .set = sets, .n_set = 6};
        stator *s = NULL;
        stator_error e = {0};
        assert_int_equal(stator_open(&o, &s, &e), STATOR_OK);
        s->root = cases[i].root;
        if (stator_start(s, &e) != STATOR_OK)
            fail_msg("%s", e.text);
        assert_int_equal(fake.spills, cases[i].spills);
        assert_int_equal(fake.spills_free, cases[i].free);
        assert_true(fake.later_is_free);
        stator_close(s);
    }
}

/* Memory of a CPU device: on the node of its threads, or on theirs in turn; the kernel tells what it was
 * asked. */
static void processor(void **state) {
    (void)state;
    need_kernel();
    unsigned long nodes = 0;
    stator *s = start(DATA "two", "devices.use=cpu:0", "cpu.numa=auto");
    struct device *d = s->devices[0].device;
    bool pinned = s->planning.devices[0].choice.pinned;
    void *kv = d->vtable->map(d, DEVICE_KV, 0);
    assert_int_equal(policy_of(kv, &nodes), pinned ? MPOL_PREFERRED : MPOL_DEFAULT);
    if (pinned)
        assert_true(nodes == 1 && numa_node_of(kv) == 0 && s->start.placement.refused == 0);
    stator_close(s);
    s = start(DATA "two", "devices.use=cpu:0", "cpu.numa=off");
    d = s->devices[0].device;
    assert_int_equal(policy_of(d->vtable->map(d, DEVICE_KV, 0), &nodes), MPOL_DEFAULT);
    stator_close(s);
}

/* A node that is not there: told, and everything runs. */
static void refused(void **state) {
    (void)state;
    need_kernel();
    if (numa_online("") != 1) {
        print_message("skipped: this machine has other nodes\n");
        skip();
    }
    char page[8192];
    void *aligned = (void *)(((uintptr_t)page + 4095) / 4096 * 4096);
    assert_false(numa_place(aligned, 4096, 2));
    assert_false(numa_prefer(1));
    memset(&fake, 0, sizeof fake);
    stator *s = start(DATA "apart", "devices.use=fake:0", "cpu.numa=auto"); /* its GPU is on node 1 */
    assert_int_equal(s->start.placement.staging, -1);
    assert_non_null(strstr(s->start.placement.why, "the kernel does not take node 1 for staging"));
    int32_t ids[3] = {5, 6, 7};
    struct harness_text t = {.id = harness_submit(s, ids, 3, 4, 0, 0)};
    harness_collect(s, &t, 1);
    assert_int_equal(t.n, 4);
    stator_close(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lists),     cmocka_unit_test(sysfs),
                                       cmocka_unit_test(gpus),      cmocka_unit_test(spill),
                                       cmocka_unit_test(processor), cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
