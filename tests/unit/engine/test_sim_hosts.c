/* The simulator (tests/sim) of runs over several hosts: fixed seeds, or those that the environment says, as
 * test_sim.c. */
#include "sim/sim_hosts.h"
#include "sim/sim_shrink.h"

enum { FIXED_SEEDS = 60 };

static struct { uint64_t runs, steps, ended, failed, faults, cached, kept; } total;

static void add_up(void) {
    total.runs++;
    total.steps += sim.steps;
    total.ended += play.ended;
    total.failed += play.failed;
    total.faults += sim.faulted;
    total.cached += play.cached;
    total.kept += play.kept;
}

static void seeds(void **state) {
    (void)state;
    memset(&total, 0, sizeof total);
    const bool fixed = sim_play_seeds(FIXED_SEEDS, add_up);
    print_message(
        "%llu runs (%llu tensor), %llu turns, %llu steps, %llu messages; %llu requests: %llu failed by %llu "
        "faults, "
        "of them %llu dead ranks; %llu tokens cached, %llu drafts kept; %llu questions, %llu notes\n",
        (unsigned long long)total.runs, (unsigned long long)hosts.tensor, (unsigned long long)sim_turns,
        (unsigned long long)total.steps, (unsigned long long)hosts.messages, (unsigned long long)total.ended,
        (unsigned long long)total.failed, (unsigned long long)total.faults, (unsigned long long)hosts.deaths,
        (unsigned long long)total.cached, (unsigned long long)total.kept, (unsigned long long)hosts.questions,
        (unsigned long long)hosts.notes);
    if (fixed)
        assert_true(total.ended > 1000 && total.failed > 100 && total.cached > 1000 && total.kept > 100 &&
                    hosts.messages > 10000 && hosts.tensor > 10 && hosts.deaths > 2 && hosts.notes > 20);
}

/* Seeds of a fault that the engine had: rank 0 said nothing to other ranks while one computed its last part
 * again and again. */
static void mended(void **state) {
    (void)state;
    static const uint64_t found[] = {1256, 1730};
    static struct sim_script script;
    sim_script_read(&script, NULL);
    for (size_t i = 0; i < sizeof found / sizeof found[0]; i++) {
        script.seed = found[i];
        sim_play(&script);
    }
}

int main(void) {
    int result = 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(seeds), cmocka_unit_test(mended)};
    sim_cluster = &hosts_cluster;
    if (sim_shrinks("sim-hosts", &result))
        return result;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
