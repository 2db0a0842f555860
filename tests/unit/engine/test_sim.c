/* The simulator (tests/sim): fixed seeds, or with STATOR_SIM_SEED and STATOR_SIM_STEPS (`make sim SEED=n
 * STEPS=n`) seeds from that one on, until so many turns were played. */
#include "sim/sim_play.h"

#include <signal.h>
#include <time.h>

enum { FIXED_SEEDS = 60, TURNS = 2000 };

/* Of all runs. */
static struct {
    uint64_t runs, turns, steps, tokens, events, ended, cancelled, failed, busy, cached, kept, faults;
} total;

static void on_abort(int number) {
    (void)number;
    fprintf(stderr,
            "sim: found at turn %llu of seed %llu, after %llu turns in all; play it again: make sim "
            "SEED=%llu STEPS=1\n",
            (unsigned long long)sim.round, (unsigned long long)sim.seed,
            (unsigned long long)(total.turns + sim.round), (unsigned long long)sim.seed);
    signal(SIGABRT, SIG_DFL);
}

static void play_seed(uint64_t seed) {
    sim_play(seed, TURNS);
    total.runs++;
    total.turns += sim.round;
    total.steps += sim.steps;
    total.tokens += sim.tokens;
    total.events += play.events;
    total.ended += play.ended;
    total.cancelled += play.cancelled;
    total.failed += play.failed;
    total.busy += play.busy;
    total.cached += play.cached;
    total.kept += play.kept;
    total.faults += sim.faulted;
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void report(double began) {
    const double s = seconds() - began;
    print_message("%llu runs, %llu turns (%.0f per second), %llu steps (%.0f per second) of %llu tokens, "
                  "%llu events; %llu "
                  "requests: %llu cancelled, %llu failed by %llu faults; %llu refused as busy; %llu tokens "
                  "cached, %llu drafts "
                  "kept\n",
                  (unsigned long long)total.runs, (unsigned long long)total.turns, (double)total.turns / s,
                  (unsigned long long)total.steps, (double)total.steps / s, (unsigned long long)total.tokens,
                  (unsigned long long)total.events, (unsigned long long)total.ended,
                  (unsigned long long)total.cancelled, (unsigned long long)total.failed,
                  (unsigned long long)total.faults, (unsigned long long)total.busy,
                  (unsigned long long)total.cached, (unsigned long long)total.kept);
}

static void seeds(void **state) {
    (void)state;
    const char *seed = getenv("STATOR_SIM_SEED"), *steps = getenv("STATOR_SIM_STEPS");
    const double began = seconds();
    memset(&total, 0, sizeof total);
    signal(SIGABRT, on_abort);
    const uint64_t first = seed != NULL ? strtoull(seed, NULL, 0) : 1;
    const uint64_t turns = steps != NULL ? strtoull(steps, NULL, 0) : UINT64_MAX;
    for (uint64_t i = 0; seed != NULL ? total.turns < turns : i < FIXED_SEEDS; i++)
        play_seed(first + i);
    report(began);
    /* The fixed seeds reach what they are for. */
    if (seed == NULL)
        assert_true(total.ended > 1000 && total.cancelled > 30 && total.failed > 0 && total.faults > 3 &&
                    total.busy > 0 && total.cached > 1000 && total.kept > 100);
}

/* The same seed is the same run. */
static void replays(void **state) {
    (void)state;
    uint64_t first = 0;
    for (int i = 0; i < 2; i++) {
        sim_play(7, TURNS);
        const uint64_t now = sim_mix(sim_mix(sim.random, sim.now_ns), sim_mix(play.events, sim.tokens));
        if (i == 0)
            first = now;
        assert_true(now == first);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(seeds), cmocka_unit_test(replays)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
