#include "os/drm_fdinfo.h"

#include "os/lines.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MOST_CLIENTS 64
#define MOST_REGIONS 16

/* How a figure was asked for; a better one takes the place of a worse one of the same region. */
enum kind { TOTAL, MEMORY, RESIDENT, KINDS };

struct region {
    char name[32];
    enum kind kind;
    uint64_t bytes;
};

struct client {
    char device[64]; /* drm-pdev, or the driver's name */
    uint64_t id;
    bool has_id;
    struct region regions[MOST_REGIONS];
    uint32_t n;
};

/* "drm-resident-vram0:\t12 KiB"; false: the line is about something else. */
static bool parse_region(const char *line, struct region *r) {
    static const char *const prefixes[KINDS] = {"drm-total-", "drm-memory-", "drm-resident-"};
    for (int k = 0; k < KINDS; k++) {
        size_t n = strlen(prefixes[k]);
        if (strncmp(line, prefixes[k], n) != 0)
            continue;
        size_t name = strcspn(line + n, ":");
        char unit[8] = "";
        uint64_t value = 0;
        if (name == 0 || name >= sizeof r->name || line[n + name] != ':' ||
            sscanf(line + n + name + 1, "%" SCNu64 " %7s", &value, unit) < 1)
            return false;
        uint64_t scale = unit[0] == '\0'            ? 1
                         : strcmp(unit, "KiB") == 0 ? 1024
                         : strcmp(unit, "MiB") == 0 ? 1024 * 1024
                                                    : 0;
        if (scale == 0 || value > UINT64_MAX / scale)
            return false;
        snprintf(r->name, sizeof r->name, "%.*s", (int)name, line + n);
        r->kind = (enum kind)k;
        r->bytes = value * scale;
        return true;
    }
    return false;
}

static void keep_region(struct client *c, const struct region *r) {
    for (uint32_t i = 0; i < c->n; i++) {
        if (strcmp(c->regions[i].name, r->name) != 0)
            continue;
        if (r->kind > c->regions[i].kind)
            c->regions[i] = *r;
        return;
    }
    if (c->n < MOST_REGIONS)
        c->regions[c->n++] = *r;
}

/* False: the descriptor is no GPU's. */
static bool read_client(const char *path, struct client *c) {
    struct lines l;
    if (!lines_open(&l, path))
        return false;
    memset(c, 0, sizeof *c);
    bool is_drm = false;
    for (const char *line; (line = lines_next(&l)) != NULL;) {
        struct region r;
        if (strncmp(line, "drm-driver:", 11) == 0)
            is_drm = true;
        if ((strncmp(line, "drm-driver:", 11) == 0 && c->device[0] == '\0') ||
            strncmp(line, "drm-pdev:", 9) == 0)
            (void)sscanf(strchr(line, ':') + 1, "%63s", c->device);
        else if (sscanf(line, "drm-client-id: %" SCNu64, &c->id) == 1)
            c->has_id = true;
        else if (parse_region(line, &r))
            keep_region(c, &r);
    }
    lines_close(&l);
    return is_drm;
}

struct seen {
    char device[64];
    uint64_t id;
};

static bool is_new(struct seen *seen, uint32_t n, const struct client *c) {
    for (uint32_t i = 0; i < n && c->has_id; i++)
        if (seen[i].id == c->id && strcmp(seen[i].device, c->device) == 0)
            return false;
    return n < MOST_CLIENTS;
}

static void add(uint64_t *sum, uint64_t bytes) {
    *sum = bytes > UINT64_MAX - *sum ? UINT64_MAX : *sum + bytes;
}

static void add_client(struct drm_figures *f, const struct client *c) {
    f->clients++;
    for (uint32_t i = 0; i < c->n; i++) {
        bool local =
            strncmp(c->regions[i].name, "vram", 4) == 0 || strncmp(c->regions[i].name, "local", 5) == 0;
        add(local ? &f->local_bytes : &f->system_bytes, c->regions[i].bytes);
    }
}

static struct drm_figures *figures_of(struct drm_fdinfo *f, const char *pci) {
    for (uint32_t i = 0; i < f->n_devices; i++)
        if (strcmp(f->devices[i].pci, pci) == 0)
            return &f->devices[i].of;
    return NULL;
}

const struct drm_figures *drm_fdinfo_of(const struct drm_fdinfo *f, const char *pci) {
    return figures_of((struct drm_fdinfo *)(uintptr_t)f, pci);
}

static void read_entry(const char *folder, const char *name, struct seen *seen, struct drm_fdinfo *out) {
    char path[1400];
    struct client c;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (name[0] == '.' || !read_client(path, &c) || !is_new(seen, out->all.clients, &c))
        return;
    memcpy(seen[out->all.clients].device, c.device, sizeof c.device);
    seen[out->all.clients].id = c.id;
    add_client(&out->all, &c);
    struct drm_figures *of = figures_of(out, c.device);
    if (of == NULL && out->n_devices < DRM_FDINFO_DEVICES) {
        struct drm_device *new = &out->devices[out->n_devices++];
        memcpy(new->pci, c.device, sizeof new->pci);
        of = &new->of;
    }
    if (of != NULL)
        add_client(of, &c);
}

/* opendir would take memory of the heap, which is what is looked at. */
void drm_fdinfo_read(const char *root, struct drm_fdinfo *out) {
    memset(out, 0, sizeof *out);
    char folder[1024];
    if ((size_t)snprintf(folder, sizeof folder, "%s/proc/self/fdinfo", root) >= sizeof folder)
        return;
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    struct seen seen[MOST_CLIENTS] = {0};
    _Alignas(struct dirent64) char entries[4096];
    for (ssize_t n; (n = getdents64(fd, entries, sizeof entries)) > 0;)
        for (ssize_t at = 0; at < n;) {
            const struct dirent64 *entry = (const struct dirent64 *)(const void *)(entries + at);
            read_entry(folder, entry->d_name, seen, out);
            at += entry->d_reclen;
        }
    close(fd);
}
