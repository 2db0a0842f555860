/* What the kernel says of the machine (/proc, cgroup, fdinfo, NUMA, the GPUs on the bus), as any bytes below
 * a root folder: figures stay in range, and the texts of doctor are terminated.
 *
 * Input: the contents of `files` in their order, with the byte 1 between two; those that are left are not
 * there. An empty one is an empty file. */
#include "fuzz.h"

#include "app/doctor/doctor.h"
#include "base/check.h"
#include "os/drm_fdinfo.h"
#include "os/host_memory.h"
#include "os/numa.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const fuzz_kinds[] = {"machine", NULL};

#define PORT "/sys/devices/pci0000:00/0000:00:01.0"
#define CARD PORT "/0000:01:00.0"
#define GPU  CARD "/0000:02:00.0"

static const char *const files[] = {"/proc/self/cgroup",
                                    "/sys/fs/cgroup/memory.max",
                                    "/sys/fs/cgroup/a/memory.max",
                                    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                                    "/proc/meminfo",
                                    "/proc/self/status",
                                    "/proc/self/smaps",
                                    "/proc/self/fdinfo/3",
                                    "/proc/self/fdinfo/4",
                                    "/proc/self/fdinfo/5",
                                    "/sys/devices/system/node/online",
                                    GPU "/numa_node",
                                    GPU "/vendor",
                                    GPU "/class",
                                    GPU "/device",
                                    GPU "/resource",
                                    GPU "/local_cpulist",
                                    CARD "/current_link_width",
                                    CARD "/max_link_width",
                                    CARD "/current_link_speed",
                                    CARD "/max_link_speed",
                                    "/proc/sys/kernel/osrelease"};
#define FILES (sizeof files / sizeof files[0])

static char root[] = "/tmp/fuzz_machine.XXXXXX";

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw) {
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

static void clean(void) {
    (void)nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static const char *below(const char *path, char whole[256]) {
    CHECK(snprintf(whole, 256, "%s%s", root, path) < 256);
    return whole;
}

static void make_folders(const char *path) {
    char whole[256];
    below(path, whole);
    for (char *c = whole + sizeof root; (c = strchr(c, '/')) != NULL; c++) {
        *c = '\0';
        CHECK(mkdir(whole, 0700) == 0 || errno == EEXIST);
        *c = '/';
    }
}

static void make_link(const char *target, const char *path) {
    char whole[256];
    make_folders(path);
    CHECK(symlink(target, below(path, whole)) == 0);
}

static void begin(void) {
    static bool begun;
    if (begun)
        return;
    begun = true;
    CHECK(mkdtemp(root) != NULL && atexit(clean) == 0);
    for (size_t i = 0; i < FILES; i++)
        make_folders(files[i]);
    make_folders(GPU "/drm/renderD128/");
    make_folders("/dev/dri/renderD128/");
    make_link("../../../../bus/pci/drivers/xe", GPU "/driver");
    make_link("../../../../kernel/iommu_groups/1", GPU "/iommu_group");
    make_link("../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0",
              "/sys/bus/pci/devices/0000:02:00.0");
    make_link(".", "/sys/devices/system/cpu/cpu3/node1");
}

/* Files that are as they were are left alone: writing takes most of the time. NULL: not there. */
static void write_file(size_t file, const uint8_t *data, size_t n) {
    static struct {
        uint8_t *data;
        size_t n;
        bool there;
    } was[FILES];
    char path[256];
    if (was[file].there == (data != NULL) && was[file].n == n &&
        (data == NULL || memcmp(was[file].data, data, n) == 0))
        return;
    free(was[file].data);
    was[file].data = malloc(n + 1);
    was[file].n = n;
    was[file].there = data != NULL;
    CHECK(was[file].data != NULL);
    below(files[file], path);
    if (data == NULL) {
        CHECK(unlink(path) == 0);
        return;
    }
    memcpy(was[file].data, data, n);
    /* Not cut to nothing first: ext4 then waits for the disk. */
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && write(fd, data, n) == (ssize_t)n && ftruncate(fd, (off_t)n) == 0 && close(fd) == 0);
}

static void write_files(const uint8_t *data, size_t size) {
    const uint8_t *at = data, *end = data + size;
    for (size_t i = 0; i < FILES; i++) {
        if (at > end || size == 0) {
            write_file(i, NULL, 0);
            continue;
        }
        const uint8_t *next = memchr(at, 1, (size_t)(end - at));
        write_file(i, at, (size_t)((next != NULL ? next : end) - at));
        at = next != NULL ? next + 1 : end + 1;
    }
}

static void read_figures(void) {
    static struct drm_fdinfo drm;
    uint64_t clients = 0;
    char address[] = "0000:02:00.0";
    (void)host_memory_available_below(root);
    (void)host_memory_private_below(root);
    CHECK(host_memory_resident_below(root, address, 4096) <= 4096);
    drm_fdinfo_read(root, &drm);
    CHECK(drm.all.clients <= 3 && drm.n_devices <= 3);
    for (uint32_t i = 0; i < drm.n_devices; i++) {
        CHECK(memchr(drm.devices[i].pci, '\0', sizeof drm.devices[i].pci) != NULL);
        CHECK(drm_fdinfo_of(&drm, drm.devices[i].pci) == &drm.devices[i].of);
        CHECK(drm.devices[i].of.local_bytes <= drm.all.local_bytes);
        clients += drm.devices[i].of.clients;
    }
    CHECK(clients == drm.all.clients);
    int node = numa_node_of_pci(root, address);
    CHECK(node >= -1 && node < NUMA_NODES);
    (void)numa_online(root);
    CHECK(numa_node_of_cpu(root, 3) == 2);
}

static void ask_doctor(void) {
    static struct doctor d;
    memset(&d, 0, sizeof d);
    d.root = root;
    doctor_machine(&d);
    doctor_limits(&d);
    CHECK(d.n >= 3 && d.n <= DOCTOR_MAX);
    for (uint32_t i = 0; i < d.n; i++) {
        const struct doctor_finding *f = &d.findings[i];
        CHECK(memchr(f->subject, '\0', sizeof f->subject) != NULL && f->subject[0] != '\0');
        CHECK(memchr(f->text, '\0', sizeof f->text) != NULL && f->text[0] != '\0');
        CHECK((f->state == DOCTOR_PROBLEM) <= (f->advice[0] != '\0'));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    begin();
    write_files(data, size);
    read_figures();
    ask_doctor();
    fuzz_accepted("machine"); /* whatever the files say */
    return 0;
}
