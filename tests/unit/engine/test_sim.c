/* The simulator (tests/sim): fixed seeds, or with STATOR_SIM_SEED and STATOR_SIM_STEPS (`make sim SEED=n
 * STEPS=n`) seeds from that one on, until so many turns were played. STATOR_SIM_TURNS plays only these turns
 * of the seed. A play that fails begins the program anew, which then shrinks it (sim_shrink.h); with
 * STATOR_SIM_SHRINK=no it only says where. */
#include "sim/sim_shrink.h"

#include <time.h>

enum { FIXED_SEEDS = 200 };

/* Of all runs. */
static struct {
    uint64_t runs, turns, steps, tokens, events, ended, cancelled, failed, busy, cached, kept, faults;
    uint64_t longest_wait;
} total;

static void play_script(const struct sim_script *script) {
    sim_play(script);
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
    total.longest_wait = ARITH_MAX(total.longest_wait, play.longest_wait);
}

/* A play has failed. The process is what it left; a new one shrinks it. */
static void on_abort(int number) {
    static char seed[64], turns[64];
    static char *const arguments[] = {"test_sim", NULL};
    phase_thread_set(NULL, PHASE_THREAD_EDGE); /* who may allocate */
    fprintf(stderr, "sim: found at turn %llu of seed %llu, after %llu turns in all\n",
            (unsigned long long)sim.round, (unsigned long long)sim.seed,
            (unsigned long long)(total.turns + sim.round));
    signal(number, SIG_DFL);
    const char *shrinks = getenv("STATOR_SIM_SHRINK");
    if (shrinks != NULL && strcmp(shrinks, "no") == 0)
        return;
    snprintf(seed, sizeof seed, "STATOR_SIM_SEED=%llu", (unsigned long long)sim.seed);
    snprintf(turns, sizeof turns, "STATOR_SIM_SHRINK=%llu",
             ARITH_MIN((unsigned long long)sim.round + 1, (unsigned long long)SIM_TURNS));
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (putenv(seed) == 0 && putenv(turns) == 0)
        execv("/proc/self/exe", arguments);
}

/* Plays the shortest script that still fails last, so that the process ends as it does. */
static int shrink(uint64_t seed, uint32_t turns) {
    static struct sim_script script;
    static char list[SIM_LIST];
    script = (struct sim_script){.seed = seed, .turns = turns};
    sim_shrink(&script);
    sim_script_write(&script, list, sizeof list);
    fprintf(stderr, "sim: %u of %u turns are enough: make sim SEED=%llu TURNS=%s%s\n",
            sim_shrink_left(&script), turns, (unsigned long long)seed, list,
            script.faultless ? " FAULTS=no" : "");
    sim_play(&script);
    fprintf(stderr, "sim: the seed did not fail again\n");
    return 1;
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
                  "kept; at most %llu steps without progress\n",
                  (unsigned long long)total.runs, (unsigned long long)total.turns, (double)total.turns / s,
                  (unsigned long long)total.steps, (double)total.steps / s, (unsigned long long)total.tokens,
                  (unsigned long long)total.events, (unsigned long long)total.ended,
                  (unsigned long long)total.cancelled, (unsigned long long)total.failed,
                  (unsigned long long)total.faults, (unsigned long long)total.busy,
                  (unsigned long long)total.cached, (unsigned long long)total.kept,
                  (unsigned long long)total.longest_wait);
}

static void seeds(void **state) {
    (void)state;
    static struct sim_script script;
    const char *seed = getenv("STATOR_SIM_SEED"), *steps = getenv("STATOR_SIM_STEPS");
    const char *only = getenv("STATOR_SIM_TURNS"), *faults = getenv("STATOR_SIM_FAULTS");
    const double began = seconds();
    memset(&total, 0, sizeof total);
    signal(SIGABRT, on_abort);
    const uint64_t first = seed != NULL ? strtoull(seed, NULL, 0) : 1;
    const uint64_t turns = only != NULL ? 1 : steps != NULL ? strtoull(steps, NULL, 0) : UINT64_MAX;
    sim_script_read(&script, only);
    script.faultless = faults != NULL && strcmp(faults, "no") == 0;
    for (uint64_t i = 0; seed != NULL ? total.turns < turns : i < FIXED_SEEDS; i++) {
        script.seed = first + i;
        play_script(&script);
    }
    report(began);
    const uint32_t missing = sim_states_missing();
    /* The fixed seeds reach what they are for. */
    if (seed == NULL)
        assert_true(missing == 0 && total.ended > 3000 && total.cached > 3000 && total.kept > 300);
}

/* The same seed is the same run. */
static void replays(void **state) {
    (void)state;
    static struct sim_script script = {.seed = 7, .turns = SIM_TURNS};
    uint64_t first = 0;
    for (int i = 0; i < 2; i++) {
        sim_play(&script);
        const uint64_t now = sim_mix(sim_mix(sim.random, sim.now_ns), sim_mix(play.events, sim.tokens));
        if (i == 0)
            first = now;
        assert_true(now == first);
    }
}

/* A list of turns is read as it was written. */
static void scripts(void **state) {
    (void)state;
    static struct sim_script script;
    char text[64];
    sim_script_read(&script, "0,3-5,7,1999");
    assert_true(!script.left_out[0] && script.left_out[1] && !script.left_out[4] && !script.left_out[1999]);
    sim_script_write(&script, text, sizeof text);
    assert_string_equal(text, "0,3-5,7,1999");
    assert_int_equal(sim_shrink_left(&script), 6);
}

int main(void) {
    const char *turns = getenv("STATOR_SIM_SHRINK"), *seed = getenv("STATOR_SIM_SEED");
    const uint32_t n = turns != NULL && seed != NULL ? (uint32_t)strtoul(turns, NULL, 10) : 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(seeds), cmocka_unit_test(replays),
                                       cmocka_unit_test(scripts)};
    if (n > 0 && n <= SIM_TURNS)
        return shrink(strtoull(seed, NULL, 0), n);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
