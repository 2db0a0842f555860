/* The audit of memory: what was planned, what drivers report and what the kernel reports, side by side, with
 * a name for every difference. Taken when the engine is sealed and at the end of a run, on the driver thread.
 */
#ifndef STATOR_ENGINE_AUDIT_H
#define STATOR_ENGINE_AUDIT_H

#include "os/drm_fdinfo.h"
#include "base/json_writer.h"
#include "device/device.h"

#include <stdbool.h>

struct stator;

/* Memory of a GPU, counted three times, and host memory that the kernel counts for it. */
struct audit_device {
    uint64_t planned; /* slices, all allocated */
    uint64_t driver;  /* taken by its driver's count; 0: it does not say */
    bool kernel_told;
    uint64_t kernel;      /* of the GPU's memory (drm vram) */
    uint64_t host;        /* planned: what is pinned through this device */
    uint64_t kernel_host; /* of the host's memory for this GPU (drm gtt, system) */
};

/* The host. planned - not_in_ram + before + others = kernel. */
struct audit {
    bool taken;
    uint64_t planned;    /* host memory of the plan, less pinned */
    uint64_t not_in_ram; /* of that: pages never written (the kernel gives them on the first write), or
                            swapped out */
    uint64_t before;     /* what the process held before stator_open */
    int64_t others;      /* libraries, drivers, the program around the engine */
    uint64_t kernel;     /* RssAnon + RssShmem */
    uint64_t pinned;     /* staging and spill as a GPU's driver holds them: planned, and in no Rss */
    uint64_t spilled;    /* what GPUs are too small for */
    uint64_t heap;       /* handed out by malloc, whose growth is a part of that of `others` */
    struct drm_figures drm;
    struct audit_device devices[DEVICE_MAX]; /* of those in host memory nothing */
};

/* Bytes of the device's slices that are allocated. */
uint64_t audit_slices(const struct stator *s, uint32_t device);
/* Host memory of the process as far as it can be seen: with what drivers pin outside of any Rss. */
uint64_t audit_host(const struct audit *a);
void audit_take(const struct stator *s, struct audit *a);
/* Bytes that `others`, or the kernel's count of a GPU's memory, has grown by since the seal; 0 before, or
 * where the kernel does not say. */
int64_t audit_growth(const struct stator *s, const struct audit *now);
int64_t audit_device_growth(const struct stator *s, const struct audit *now, uint32_t device);
#define AUDIT_TEXT 256
/* What is wrong with the figures: "" or a sentence; at the seal (now is s->sealed) or later. */
void audit_judge(const struct stator *s, const struct audit *now, char *text, size_t n);
void audit_to_json(const struct stator *s, const struct audit *now, struct json *j, const char *name);

#endif
