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
typedef enum stator_bench_guesses {
    STATOR_BENCH_AS_CONFIGURED,
    STATOR_BENCH_NO_GUESSES,
    /* Of laps after the first: each is what the lap before it had there, with the probability `accept`, and
     * else another token. */
    STATOR_BENCH_REPLAY
} stator_bench_guesses;

typedef struct stator_bench {
    size_t size;
    uint32_t n_depth;
    uint32_t laps; /* 0 is 1 */
    stator_bench_guesses guesses;
    float accept; /* from 0 to 1 */
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
