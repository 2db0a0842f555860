/* The figures of an audit (audit.h). */
#ifndef STATOR_ENGINE_AUDIT_FIGURES_H
#define STATOR_ENGINE_AUDIT_FIGURES_H

#include "device/device.h"
#include "os/drm_fdinfo.h"
#include "os/host_memory.h"
#include "plan/planning.h"

#include <stdbool.h>
#include <stdint.h>

/* Memory of a GPU, counted three times, and host memory that the kernel counts for it. */
struct audit_device {
    uint64_t planned; /* slices, all allocated */
    uint64_t driver;  /* taken by its driver's count; 0: it does not say */
    bool kernel_told;
    uint64_t kernel;      /* of the GPU's memory (drm vram) */
    uint64_t host;        /* planned: what is pinned through this device */
    uint64_t kernel_host; /* of the host's memory for this GPU (drm gtt, system) */
    uint64_t beside;      /* planned and allocated on it by other engines of the process */
};

/* The host. planned - not_in_ram + beside + before + others = kernel. */
struct audit {
    bool taken;
    uint64_t planned;       /* host memory of the plan, less pinned */
    uint64_t not_in_ram;    /* of that: pages never written (the kernel gives them on the first write), or
                               swapped out */
    uint64_t before;        /* what the process held before stator_open */
    uint64_t beside;        /* of the plans of other engines of the process, as far as it is in RAM */
    uint64_t pinned_beside; /* pinned, of those */
    int64_t others;         /* libraries, drivers, the program around the engine */
    uint64_t kernel;        /* RssAnon + RssShmem */
    uint64_t pinned;        /* staging and spill as a GPU's driver holds them: planned, and in no Rss */
    uint64_t spilled;       /* what GPUs are too small for */
    uint64_t heap;          /* handed out by malloc, whose growth is a part of that of `others` */
    struct host_memory_machine machine; /* with all of its processes */
    struct drm_figures drm;
    struct audit_device devices[PLANNING_PARTS]; /* of those in host memory nothing */
};

#endif
