/* What sysfs and procfs tell about the GPUs of a machine. Every read is below doctor.root; what can't be read
 * is said, never guessed. */
#include "app/doctor/doctor.h"

#include "base/units.h"

#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT       256
#define PATH       1024
#define MAX_GPUS   16
#define BAR_LEAST  (512u << 20) /* a window larger than the traditional 256 MiB */
#define HOST_LEAST (1ull << 30) /* of the cgroup's limit */

struct gpu {
    char address[16];
    unsigned device;
    bool integrated; /* the processor's own: 0000:00:02.0 */
    char group[16];  /* IOMMU group, or "" */
};

/* The first line of root + path, or false. */
static bool read_line(const struct doctor *d, const char *path, char out[TEXT]) {
    char whole[PATH];
    snprintf(whole, sizeof whole, "%s%s", d->root, path);
    FILE *f = fopen(whole, "r");
    if (f == NULL)
        return false;
    bool ok = fgets(out, TEXT, f) != NULL;
    fclose(f);
    if (ok)
        out[strcspn(out, "\n")] = '\0';
    return ok;
}

static bool read_of(const struct doctor *d, const char *address, const char *file, char out[TEXT]) {
    char path[TEXT];
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%.15s/%.40s", address, file);
    return read_line(d, path, out);
}

/* The last part of what a link of the device points to. */
static bool link_of(const struct doctor *d, const char *address, const char *name, char out[TEXT]) {
    char path[PATH];
    char target[PATH];
    snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s/%s", d->root, address, name);
    ssize_t n = readlink(path, target, sizeof target - 1);
    if (n <= 0)
        return false;
    target[n] = '\0';
    const char *slash = strrchr(target, '/');
    snprintf(out, TEXT, "%.*s", TEXT - 1, slash != NULL ? slash + 1 : target);
    return true;
}

static uint32_t find_gpus(const struct doctor *d, struct gpu *gpus) {
    char path[PATH];
    snprintf(path, sizeof path, "%s/sys/bus/pci/devices", d->root);
    struct dirent **names = NULL;
    int n = scandir(path, &names, NULL, alphasort);
    uint32_t found = 0;
    for (int i = 0; i < n; i++) {
        char vendor[TEXT];
        char class[TEXT];
        char id[TEXT];
        const char *address = names[i]->d_name;
        if (found < MAX_GPUS && strlen(address) < sizeof gpus->address && address[0] != '.' &&
            read_of(d, address, "vendor", vendor) && read_of(d, address, "class", class) &&
            read_of(d, address, "device", id) && strcmp(vendor, "0x8086") == 0 &&
            strncmp(class, "0x03", 4) == 0) {
            struct gpu *g = &gpus[found++];
            memset(g, 0, sizeof *g);
            snprintf(g->address, sizeof g->address, "%.15s", address);
            g->device = (unsigned)strtoul(id, NULL, 16);
            g->integrated = strcmp(address, "0000:00:02.0") == 0;
            char group[TEXT];
            if (link_of(d, address, "iommu_group", group))
                snprintf(g->group, sizeof g->group, "%.15s", group);
        }
        free(names[i]);
    }
    free(names);
    return found;
}

/* Arc B and Arc Pro B cards have ids 0xe2xx; Linux drives them by default since 6.12 (xe). Arc A cards
 * since 6.2 (i915). */
static void check_kernel(struct doctor *d, const struct gpu *gpus, uint32_t n) {
    char release[TEXT];
    unsigned major = 0;
    unsigned minor = 0;
    if (!read_line(d, "/proc/sys/kernel/osrelease", release) ||
        sscanf(release, "%u.%u", &major, &minor) != 2) {
        doctor_add(d, DOCTOR_NOTE, "kernel", "", "its version can't be read");
        return;
    }
    unsigned least = 0; /* major * 1000 + minor */
    for (uint32_t i = 0; i < n; i++) {
        unsigned wants = gpus[i].integrated ? 0 : gpus[i].device >> 8 == 0xe2 ? 6012 : 6002;
        least = wants > least ? wants : least;
    }
    if (major * 1000 + minor < least)
        doctor_add(d, DOCTOR_PROBLEM, "kernel", "install a newer kernel (Debian: from backports)",
                   "Linux %s; these GPUs need %u.%u or newer", release, least / 1000, least % 1000);
    else
        doctor_add(d, DOCTOR_OK, "kernel", "", "Linux %s", release);
}

static void check_driver(struct doctor *d, const struct gpu *g) {
    char subject[48];
    char driver[TEXT];
    snprintf(subject, sizeof subject, "%.15s kernel driver", g->address);
    if (!link_of(d, g->address, "driver", driver))
        doctor_add(d, DOCTOR_PROBLEM, subject,
                   "install a kernel that knows this GPU, and its firmware (Debian: firmware-misc-nonfree)",
                   "none is bound to this GPU (8086:%04x)", g->device);
    else if (strcmp(driver, "i915") != 0 && strcmp(driver, "xe") != 0)
        doctor_add(d, DOCTOR_PROBLEM, subject,
                   "give the GPU back to i915 or xe (vfio-pci hands it to a guest)",
                   "%s has this GPU (8086:%04x)", driver, g->device);
    else
        doctor_add(d, DOCTOR_OK, subject, "", "%s (8086:%04x)", driver, g->device);
}

/* The first compute-runtime whose list of device ids has this Arc B or Arc Pro B card (devices_base.inl of
 * its releases up to 26.31); "" when it is in none of them. An older one does not show the card at all. */
static const char *least_runtime(unsigned device) {
    static const struct {
        unsigned device;
        const char *release;
    } first[] = {
        {0xe202, "24.31"}, {0xe209, "25.31"}, {0xe20b, "24.31"}, {0xe20c, "24.31"}, {0xe20d, "24.31"},
        {0xe210, "25.09"}, {0xe211, "25.18"}, {0xe212, "24.31"}, {0xe215, "25.09"}, {0xe216, "25.09"},
        {0xe220, "25.27"}, {0xe221, "25.27"}, {0xe222, "25.27"}, {0xe223, "25.27"},
    };
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        if (first[i].device == device)
            return first[i].release;
    return "";
}

static void check_runtime(struct doctor *d, const struct gpu *g) {
    char subject[48];
    const char *least = least_runtime(g->device);
    snprintf(subject, sizeof subject, "%.15s compute-runtime", g->address);
    if (*least != '\0')
        doctor_add(d, DOCTOR_NOTE, subject, "", "a driver older than %s does not know this GPU (8086:%04x)",
                   least, g->device);
}

static bool render_node(const struct doctor *d, const struct gpu *g, char out[64]) {
    char path[PATH];
    snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s/drm", d->root, g->address);
    DIR *dir = opendir(path);
    bool found = false;
    for (struct dirent *e = NULL; dir != NULL && !found && (e = readdir(dir)) != NULL;) {
        found = strncmp(e->d_name, "renderD", 7) == 0;
        if (found)
            snprintf(out, 64, "/dev/dri/%.40s", e->d_name);
    }
    if (dir != NULL)
        closedir(dir);
    return found;
}

/* From /etc/group, where the groups of devices are. getgrgid would open libraries, which a static binary
 * can't. */
static void group_name(gid_t gid, char *out, size_t size) {
    FILE *f = fopen("/etc/group", "r");
    snprintf(out, size, "a group without a name here");
    for (const struct group *g = NULL; f != NULL && (g = fgetgrent(f)) != NULL;)
        if (g->gr_gid == gid) {
            snprintf(out, size, "%.60s", g->gr_name);
            break;
        }
    if (f != NULL)
        fclose(f);
}

static void check_node(struct doctor *d, const struct gpu *g) {
    char subject[48];
    char node[64];
    char path[PATH];
    struct stat st;
    snprintf(subject, sizeof subject, "%.15s render node", g->address);
    if (!render_node(d, g, node)) {
        doctor_add(d, DOCTOR_PROBLEM, subject, "see the kernel's log: dmesg | grep -E 'i915|xe'",
                   "the kernel has made none for this GPU");
        return;
    }
    snprintf(path, sizeof path, "%s%s", d->root, node);
    if (stat(path, &st) != 0) {
        doctor_add(d, DOCTOR_PROBLEM, subject, "in a container: pass the device in (--device /dev/dri)",
                   "%s is not there: %s", node, strerror(errno));
        return;
    }
    char owner[64];
    group_name(st.st_gid, owner, sizeof owner);
    if (access(path, R_OK | W_OK) != 0)
        doctor_add(d, DOCTOR_PROBLEM, subject,
                   "add the user to that group (usermod -aG GROUP USER) and log in again",
                   "uid %u may not read and write %s (group %s, %u, mode %o)", (unsigned)getuid(), node,
                   owner, (unsigned)st.st_gid, (unsigned)(st.st_mode & 0777));
    else
        doctor_add(d, DOCTOR_OK, subject, "", "%s, group %s", node, owner);
}

/* The largest memory window of the card: lines "begin end flags" in hex. */
static void check_bar(struct doctor *d, const struct gpu *g) {
    char subject[48];
    char path[PATH];
    char line[TEXT];
    char size[UNITS_TEXT];
    snprintf(subject, sizeof subject, "%.15s resizable BAR", g->address);
    snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s/resource", d->root, g->address);
    FILE *f = fopen(path, "r");
    uint64_t most = 0;
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        uint64_t begin = 0;
        uint64_t end = 0;
        if (sscanf(line, "%" SCNx64 " %" SCNx64, &begin, &end) == 2 && end > begin && end - begin + 1 > most)
            most = end - begin + 1;
    }
    if (f != NULL)
        fclose(f);
    if (most == 0)
        doctor_add(d, DOCTOR_NOTE, subject, "", "its memory windows can't be read");
    else if (most < BAR_LEAST)
        doctor_add(
            d, DOCTOR_PROBLEM, subject,
            "enable Resizable BAR and Above 4G Decoding in the firmware's setup; uploads and direct copies "
            "between GPUs need it",
            "the largest window on its memory is %s", units_format_size(most, size));
    else
        doctor_add(d, DOCTOR_OK, subject, "", "a window of %s", units_format_size(most, size));
}

/* A card has a switch of its own, whose inner link always reports a low speed. What counts is the card's link
 * to the board: that of the first device behind the root port. */
static bool slot_path(const struct doctor *d, const struct gpu *g, char out[PATH]) {
    char path[PATH];
    snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s", d->root, g->address);
    char *real = realpath(path, NULL);
    char *at = real != NULL ? strstr(real, "/pci") : NULL;
    /* .../pci0000:00/ROOT PORT/CARD/... */
    for (int i = 0; at != NULL && i < 2; i++)
        at = strchr(at + 1, '/');
    if (at != NULL) {
        char *end = strchr(at + 1, '/');
        if (end != NULL)
            *end = '\0';
        snprintf(out, PATH, "%s", real);
    }
    free(real);
    return at != NULL;
}

static bool read_slot(const char *slot, const char *file, char out[TEXT]) {
    char path[PATH + 64];
    snprintf(path, sizeof path, "%s/%s", slot, file);
    FILE *f = fopen(path, "r");
    bool ok = f != NULL && fgets(out, TEXT, f) != NULL;
    if (f != NULL)
        fclose(f);
    if (ok)
        out[strcspn(out, "\n")] = '\0';
    return ok;
}

static void check_link(struct doctor *d, const struct gpu *g) {
    char subject[48];
    char slot[PATH];
    char now[TEXT];
    char most[TEXT];
    char now_speed[TEXT];
    char most_speed[TEXT];
    snprintf(subject, sizeof subject, "%.15s PCIe link", g->address);
    if (!slot_path(d, g, slot) || !read_slot(slot, "current_link_width", now) ||
        !read_slot(slot, "max_link_width", most) || !read_slot(slot, "current_link_speed", now_speed) ||
        !read_slot(slot, "max_link_speed", most_speed)) {
        doctor_add(d, DOCTOR_NOTE, subject, "", "its width and speed can't be read");
        return;
    }
    bool narrow = atoi(now) < atoi(most);
    bool slow = atof(now_speed) < atof(most_speed);
    if (narrow || slow)
        doctor_add(
            d, DOCTOR_NOTE, subject,
            narrow ? "another slot may have more lanes; a card in x16 runs at x8 when the board shares them"
                   : "many cards raise the speed under load only; look again under load",
            "x%s at %s of x%s at %s", now, now_speed, most, most_speed);
    else
        doctor_add(d, DOCTOR_OK, subject, "", "x%s at %s", now, now_speed);
}

static void check_numa(struct doctor *d, const struct gpu *g) {
    char subject[48];
    char node[TEXT];
    char cpus[TEXT];
    char online[TEXT];
    snprintf(subject, sizeof subject, "%.15s NUMA node", g->address);
    if (!read_of(d, g->address, "numa_node", node))
        return;
    bool several = read_line(d, "/sys/devices/system/node/online", online) && strpbrk(online, "-,") != NULL;
    if (!several)
        doctor_add(d, DOCTOR_OK, subject, "", "the machine has one");
    else if (strcmp(node, "-1") == 0)
        doctor_add(d, DOCTOR_NOTE, subject,
                   "the firmware does not say; measure with `stator devices --probe`", "unknown, of nodes %s",
                   online);
    else if (read_of(d, g->address, "local_cpulist", cpus))
        doctor_add(d, DOCTOR_OK, subject, "", "node %s of %s; its processors: %s", node, online, cpus);
}

/* With an IOMMU that translates, copies between cards in different groups go through the root complex, if
 * they work at all. */
static void check_iommu(struct doctor *d, const struct gpu *gpus, uint32_t n) {
    uint32_t cards = 0;
    bool apart = false;
    const char *first = NULL;
    char type[TEXT] = "";
    for (uint32_t i = 0; i < n; i++) {
        if (gpus[i].integrated)
            continue;
        cards++;
        if (first == NULL)
            first = gpus[i].group;
        apart = apart || strcmp(first, gpus[i].group) != 0;
    }
    if (cards < 2)
        return;
    if (first[0] != '\0') {
        char path[TEXT];
        snprintf(path, sizeof path, "/sys/kernel/iommu_groups/%s/type", first);
        (void)read_line(d, path, type);
    }
    if (first[0] == '\0')
        doctor_add(d, DOCTOR_OK, "IOMMU", "", "off: the cards reach each other");
    else if (strcmp(type, "identity") == 0)
        doctor_add(d, DOCTOR_OK, "IOMMU", "", "passes addresses through (identity)");
    else
        doctor_add(
            d, DOCTOR_NOTE, "IOMMU",
            "for direct copies between cards boot with iommu=pt; `stator devices --probe` shows what works",
            "translates addresses (%s)%s", type[0] != '\0' ? type : "type unknown",
            apart ? ", and ACS keeps the cards in different groups: copies go through the root complex" : "");
}

void doctor_machine(struct doctor *d) {
    struct gpu gpus[MAX_GPUS];
    uint32_t n = find_gpus(d, gpus);
    check_kernel(d, gpus, n);
    if (n == 0)
        doctor_add(d, DOCTOR_PROBLEM, "PCI",
                   "a card: check its seat and power; a virtual machine: pass the device through",
                   "no Intel GPU on the bus");
    for (uint32_t i = 0; i < n; i++) {
        check_driver(d, &gpus[i]);
        check_runtime(d, &gpus[i]);
        check_node(d, &gpus[i]);
        if (gpus[i].integrated)
            continue;
        check_bar(d, &gpus[i]);
        check_link(d, &gpus[i]);
        check_numa(d, &gpus[i]);
    }
    check_iommu(d, gpus, n);
}

/* The driver pins staging itself; the limit is shown because other tools ask for it. */
static void check_memlock(struct doctor *d) {
    struct rlimit l;
    char size[UNITS_TEXT];
    if (getrlimit(RLIMIT_MEMLOCK, &l) != 0)
        return;
    if (l.rlim_cur == RLIM_INFINITY)
        doctor_add(d, DOCTOR_OK, "memlock", "", "unlimited");
    else
        doctor_add(d, DOCTOR_OK, "memlock", "",
                   "%s; stator locks nothing itself, the driver pins its staging memory",
                   units_format_size(l.rlim_cur, size));
}

void doctor_limits(struct doctor *d) {
    check_memlock(d);
    char text[TEXT];
    char size[UNITS_TEXT];
    char group[TEXT] = "";
    char path[TEXT + 64];
    /* cgroup v2: this process's group, or the top one in a container. */
    if (read_line(d, "/proc/self/cgroup", group) && strncmp(group, "0::", 3) == 0) {
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", group + 3);
        if (!read_line(d, path, text))
            snprintf(text, sizeof text, "max");
    } else if (!read_line(d, "/sys/fs/cgroup/memory.max", text)) {
        snprintf(text, sizeof text, "max");
    }
    uint64_t limit = strtoull(text, NULL, 10);
    if (strcmp(text, "max") == 0 || limit == 0)
        doctor_add(d, DOCTOR_OK, "cgroup", "", "no limit on memory");
    else if (limit < HOST_LEAST)
        doctor_add(d, DOCTOR_PROBLEM, "cgroup", "raise the container's or the service's memory limit",
                   "memory is limited to %s: too little for staging, the engine and the driver",
                   units_format_size(limit, size));
    else
        doctor_add(d, DOCTOR_OK, "cgroup", "", "memory is limited to %s; plans stay within it",
                   units_format_size(limit, size));
}
