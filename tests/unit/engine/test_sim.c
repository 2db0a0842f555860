/* The simulator (tests/sim) of the engine: fixed seeds, or those that the environment says (sim_shrink.h;
 * `make sim SEED=n STEPS=n`). A play that fails begins the program anew, which then shrinks it; with
 * STATOR_SIM_SHRINK=no it only says where. */
#include "sim/sim_play.h"
#include "sim/sim_shrink.h"

#include <time.h>

enum { FIXED_SEEDS = 200 };

/* Of all runs. */
static struct {
    uint64_t runs, steps, tokens, events, ended, cancelled, failed, busy, cached, kept, faults;
    uint64_t longest_wait, restarts, kills, read, written, failed_calls, damaged;
} total;

static void add_up(void) {
    total.runs++;
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
    total.restarts += files.restarts;
    total.kills += files.kills;
    total.read += files.read;
    total.written += files.written;
    total.failed_calls += files.failed;
    total.damaged += files.damaged;
    total.longest_wait = ARITH_MAX(total.longest_wait, eng.longest_wait);
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
                  (unsigned long long)total.runs, (unsigned long long)sim_turns, (double)sim_turns / s,
                  (unsigned long long)total.steps, (double)total.steps / s, (unsigned long long)total.tokens,
                  (unsigned long long)total.events, (unsigned long long)total.ended,
                  (unsigned long long)total.cancelled, (unsigned long long)total.failed,
                  (unsigned long long)total.faults, (unsigned long long)total.busy,
                  (unsigned long long)total.cached, (unsigned long long)total.kept,
                  (unsigned long long)total.longest_wait);
    print_message(
        "files: %llu read, %llu written; %llu restarts, %llu of them after a kill; %llu calls failed, %llu "
        "files damaged\n",
        (unsigned long long)total.read, (unsigned long long)total.written, (unsigned long long)total.restarts,
        (unsigned long long)total.kills, (unsigned long long)total.failed_calls,
        (unsigned long long)total.damaged);
}

static void seeds(void **state) {
    (void)state;
    const double began = seconds();
    memset(&total, 0, sizeof total);
    const bool fixed = sim_play_seeds(FIXED_SEEDS, add_up);
    report(began);
    const uint32_t missing = sim_states_missing();
    /* The fixed seeds reach what they are for. */
    if (fixed)
        assert_true(missing == 0 && total.ended > 3000 && total.cached > 3000 && total.kept > 300);
}

/* Seeds that have found something, or find a mutation that the fixed ones do not. A change of the simulator's
 * random choices makes them others: then `make sim-mutations` says for what new ones are needed. */
static void found(void **state) {
    (void)state;
    static const uint64_t list[] = {5004655, 6000524, 3227};
    static struct sim_script script;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        script = (struct sim_script){.seed = list[i], .turns = SIM_TURNS};
        sim_play(&script);
    }
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
    int result = 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(seeds), cmocka_unit_test(found),
                                       cmocka_unit_test(replays), cmocka_unit_test(scripts)};
    if (sim_shrinks("sim", &result))
        return result;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
