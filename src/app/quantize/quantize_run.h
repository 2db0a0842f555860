/* The work of stator quantize: threads take pieces of tensors in their order, each reads, decodes, encodes
 * and writes its piece to where the plan says. So memory is bounded whatever the model, and the bytes do not
 * depend on the threads.
 *
 * Thread: the caller's, which shows the progress; the workers live inside of the call. */
#ifndef STATOR_APP_QUANTIZE_RUN_H
#define STATOR_APP_QUANTIZE_RUN_H

#include "app/quantize/quantize_file.h"
#include "app/quantize/quantize_plan.h"

#include <stdatomic.h>

#define QUANTIZE_RUN_MAX_THREADS 256

/* done of total: units of work, about nanoseconds of one thread. */
typedef void (*quantize_progress)(void *context, uint64_t done, uint64_t total);

/* Bytes that a thread takes beside its stack. */
uint64_t quantize_run_thread_bytes(void);
/* Writes all of the plan's files (created, one per shard). *stop != 0 ends it early (STATOR_FAILED).
 * STATOR_BAD_MODEL: a number that is not finite, by tensor and element. progress is called every fifth of a
 * second or so. */
stator_status quantize_run(const struct quantize_plan *p, const struct quantize_file *files, uint32_t threads,
                           const atomic_int *stop, quantize_progress progress, void *context,
                           stator_error *e);

#endif
