/* The audit of memory: what was planned, what drivers report and what the kernel reports, side by side, with
 * a name for every difference. Taken when the engine is sealed and at the end of a run, on the driver thread.
 */
#ifndef STATOR_ENGINE_AUDIT_H
#define STATOR_ENGINE_AUDIT_H

#include "base/drm_fdinfo.h"
#include "base/json_writer.h"

#include <stdbool.h>

struct stator;

/* The host. planned - not_in_ram + before + others = kernel. */
struct audit {
    bool taken;
    uint64_t planned;    /* host memory of the plan, less what is pinned by a driver */
    uint64_t not_in_ram; /* of that: pages never written (the kernel gives them on the first write), or
                            swapped out */
    uint64_t before;     /* what the process held before stator_open */
    int64_t others;      /* libraries, drivers, the program around the engine */
    uint64_t kernel;     /* RssAnon + RssShmem */
    uint64_t pinned;     /* staging and spill as a GPU's driver holds them: planned, and in no Rss */
    uint64_t spilled;    /* of that: what GPUs are too small for */
    struct drm_fdinfo drm;
};

void audit_take(const struct stator *s, struct audit *a);
/* Bytes that `others` has grown by since the seal; 0 before. */
int64_t audit_growth(const struct stator *s, const struct audit *now);
#define AUDIT_TEXT 256
/* What is wrong with the figures: "" or a sentence; at the seal (now is s->sealed) or later. */
void audit_judge(const struct stator *s, const struct audit *now, char *text, size_t n);
void audit_to_json(const struct stator *s, const struct audit *now, struct json *j, const char *name);

#endif
