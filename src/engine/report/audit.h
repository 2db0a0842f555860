/* The audit of memory: what was planned, what drivers report and what the kernel reports, side by side, with
 * a name for every difference. Taken when the engine is sealed and at the end of a run, on the driver thread.
 */
#ifndef STATOR_ENGINE_AUDIT_H
#define STATOR_ENGINE_AUDIT_H

#include "engine/engine.h"

/* Host memory of the process as far as it can be seen: with what drivers pin outside of any Rss. */
uint64_t audit_host(const struct audit *a);
void audit_take(const struct stator *s, struct audit *a);
/* Bytes that `others`, or the kernel's count of a GPU's memory, has grown by since the seal; 0 before, or
 * where the kernel does not say. */
int64_t audit_growth(const struct stator *s, const struct audit *now);
int64_t audit_device_growth(const struct stator *s, const struct audit *now, uint32_t device);
/* The same for memory of the machine that the kernel names nobody for. */
int64_t audit_unnamed_growth(const struct stator *s, const struct audit *now);
#define AUDIT_TEXT 256
/* What is wrong with the figures: "" or a sentence; at the seal (now is s->report.sealed) or later. True: it
 * is this process that is wrong. What may be another's fault is only said. */
bool audit_judge(const struct stator *s, const struct audit *now, char *text, size_t n);
/* A line of it, and what is wrong, for the log: of a host whose command runs on another one. */
void audit_log(struct stator *s);
/* What rank 0 is told of another rank, and how it stands in the report. */
void audit_to_note(const struct stator *s, struct device_note *out);
void audit_note_to_json(const struct device_note *n, struct json *j);
void audit_to_json(const struct stator *s, const struct audit *now, struct json *j, const char *name);

#endif
