/* stator: what only a benchmark needs beside stator.h. */
#ifndef STATOR_BENCH_H
#define STATOR_BENCH_H

#include "stator.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The first n_depth tokens of the prompt (< n_tokens) are context that is there already: no step mixes them
 * with later ones, and prompt_ns and n_prompt of the events count from token n_depth on. With laps > 1 the
 * sequence goes back to n_depth when it has ended, and does the rest again, laps times in all. */
typedef struct stator_bench {
    size_t size;
    uint32_t n_depth;
    uint32_t laps; /* 0 is 1 */
} stator_bench;

/* The kind of an event: a lap that is not the last has ended; the figures are those of DONE, of this lap. */
#define STATOR_EVENT_LAP ((stator_event_kind)16)

/* stator_submit of a STATOR_GENERATE request that is measured so. */
stator_status stator_bench_submit(stator *s, const stator_request *request, const stator_bench *bench,
                                  uint64_t *id, stator_error *e);

#ifdef __cplusplus
}
#endif

#endif
