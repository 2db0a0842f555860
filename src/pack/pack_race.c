/* Packs a large part by streams (pack_stream.c) below lower and lower limits. The limit is found by halves,
 * from the aim down, or up where that fails, and what has failed is tried again after every success.
 *
 * At a limit two race, each in a thread of its own, from different peaks: all of them, the highest alone, the
 * second alone, and so on. Which of these works is a matter of the instance, and each tends to fail for good
 * where it fails: of 16 races at the aim, between all peaks and one, none were won for zipf 100,000 seed 54
 * where the one was the highest, 10 where it was drawn from the two there are; for seed 57 13 where it was
 * the highest, two where it was drawn from four. So the winner's peaks go on, and after a failure others
 * come. Who needs fewer steps wins, whoever is there first by the clock, and nothing that a loser leaves is
 * used: threads and processors change no result. Where peaks have failed together, the next limit goes
 * without the lowest of them (and, if that fails too, with all again), and after a success no lower ones are
 * added: two near each other may fail for ever.
 *
 * Measured (bench_pack, 65 hard instances: zipf, long, log and exponential): none above 2%, mean 0.77; with
 * the packer of 5073ae6, one stream at a time, two, 0.75. At most 4.1 s by the clock on two processors (Zen
 * 3) with nothing beside it. */
#include "pack/pack_stream.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

#define SHARE   0.85   /* of the steps, at most */
#define MOST    0.93e9 /* ... in any case: a time limit comes with steps without end */
#define RACERS  2
#define LEVEL   0.32   /* of those, at a limit, for each racer */
#define FAILED  3      /* limits one after another, and others have to go on */
#define WORSE   1.01   /* than the target, and they don't */
#define AIM     1.0195 /* times the bound: a limit that is tried before those above it */
#define LOOKING 0.25   /* ... if that takes less of the steps at a limit */
#define FINE    0.0005 /* of the target: what is not worth another limit */

struct racer {
    struct pack_stream stream;
    struct pack_budget budget;
    uint32_t way;  /* to start */
    bool found;    /* a packing */
    uint64_t used; /* steps */
};

uint64_t pack_race_bytes(uint32_t n) {
    struct carve c = carve_count();
    for (uint32_t i = 0; i < RACERS; i++)
        pack_stream_layout(&c, n);
    return n > PACK_RACE_MORE ? c.used : 0;
}

/* A thread's, too. */
static void *run(void *racer) {
    struct racer *r = racer;
    r->found = pack_stream_build(&r->stream, &r->budget);
    r->used = r->budget.used + r->stream.flow.steps;
    r->stream.flow.steps = 0;
    if (r->found) {
        uint64_t fewest = atomic_load(r->budget.fewest);
        while (r->used < fewest && !atomic_compare_exchange_weak(r->budget.fewest, &fewest, r->used))
            ;
    }
    return NULL;
}

/* Signals are for the process's own threads. */
static bool start_thread(pthread_t *thread, void *(*main)(void *), void *argument) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    const bool started = pthread_create(thread, NULL, main, argument) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

/* Both at once, each with at most so many steps, which count once. Returns who has won, or NULL. */
static const struct racer *race(struct racer *racers, struct pack_budget *budget, uint64_t steps) {
    _Atomic uint64_t fewest = UINT64_MAX;
    pthread_t thread;
    uint64_t used = ARITH_MIN(steps, budget->steps);
    for (uint32_t i = 0; i < RACERS; i++) {
        racers[i].budget = *budget;
        racers[i].budget.steps = used;
        racers[i].budget.used = 0;
        racers[i].budget.fewest = &fewest;
    }
    const bool apart = start_thread(&thread, run, &racers[1]);
    run(&racers[0]);
    if (!apart)
        run(&racers[1]);
    else if (pthread_join(thread, NULL) != 0)
        CHECK(false);
    const struct racer *winner = NULL;
    for (uint32_t i = 0; i < RACERS; i++)
        if (racers[i].found && (winner == NULL || racers[i].used < winner->used))
            winner = &racers[i];
    if (winner != NULL)
        used = winner->used;
    budget->until_clock = 0; /* much time may have passed */
    pack_budget_take(budget, &used);
    return winner;
}

static void take_over(struct pack_part *p, const struct pack_stream *s) {
    memcpy(p->offsets, s->offsets, p->n * sizeof *p->offsets);
    pack_part_measure(p);
}

/* Between `low` and the peak there is, but at the aim at least until that is reached. */
static uint64_t choose_limit(const struct pack_stream *s, uint64_t low) {
    const struct pack_part *p = s->part;
    const uint64_t aim = pack_part_align((uint64_t)(AIM * (double)s->highest), p->grain);
    if (p->peak == UINT64_MAX)
        return ARITH_MAX(low / p->grain * p->grain, aim);
    const uint64_t limit = pack_part_align(low + (p->peak - low) / 2, p->grain);
    return low <= aim && aim < p->peak ? ARITH_MAX(limit, aim) : limit;
}

bool pack_race(struct pack_part *p, uint32_t limits, struct pack_budget *budget, struct carve work) {
    CHECK(p->n > PACK_RACE_MORE && p->grain > 0);
    struct racer racers[RACERS] = {0};
    for (uint32_t i = 0; i < RACERS; i++) {
        racers[i].stream = pack_stream_layout(&work, p->n);
        pack_stream_begin(&racers[i].stream, p);
    }
    struct pack_stream *s = &racers[0].stream;
    const double most = ARITH_MIN(SHARE * (double)budget->steps, MOST);
    const uint64_t rest = budget->steps - (uint64_t)most;
    const uint64_t level = ARITH_MAX((uint64_t)(LEVEL * most), s->order + s->order / 2);
    if ((double)level > most) /* even to order them takes too long */
        return false;
    racers[0].stream.large = racers[1].stream.large =
        pack_stream_large(s, (uint64_t)(LOOKING * (double)level));
    const uint64_t least = ARITH_MAX(p->target, s->highest);
    uint64_t low = least;    /* the lowest limit that may be possible and useful */
    uint64_t least_peak = 0; /* live sum of peaks at least, as other limits have shown */
    uint32_t failed = 0, way = p->races;
    bool found = false;
    for (; limits > 0 && failed < FAILED && p->peak > low && (double)(p->peak - low) > FINE * (double)low &&
           budget->steps > rest && pack_budget_take(budget, &s->flow.steps);
         limits--) {
        const uint64_t limit = choose_limit(s, low);
        if (limit >= p->peak)
            break;
        for (uint32_t i = 0; i < RACERS; i++) {
            racers[i].stream.flow.random = p->races++;
            racers[i].way = pack_stream_start(&racers[i].stream, limit, least_peak, way + i);
        }
        const bool several = s->n_peaks > 1;
        const uint64_t lowest = pack_stream_lowest(s);
        const struct racer *winner = race(racers, budget, level);
        if (winner != NULL) {
            if (winner->stream.n_peaks > 1)
                least_peak = pack_stream_lowest(&winner->stream);
            way = winner->way;
            take_over(p, &winner->stream);
            low -= p->peak > low ? ARITH_MIN(low - least, p->peak - low) : low - least; /* lucky: try again */
            found = true;
            failed = 0;
        } else {
            if (several)
                least_peak = least_peak > 0 ? 0 : lowest + 1;
            way += RACERS;
            low = limit + p->grain;
            failed++;
        }
        if (failed == FAILED && (double)p->peak > WORSE * (double)least) { /* luck may still help */
            low = least + (p->peak - least) / 2;
            failed = 1;
        }
    }
    return found;
}
