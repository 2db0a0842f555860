/* The simulator (tests/sim) of the server: fixed seeds, or those that the environment says (sim_shrink.h;
 * `make sim-server SEED=n STEPS=n`). */
#include "sim/sim_server.h"
#include "sim/sim_shrink.h"

#include <time.h>

enum { FIXED_SEEDS = 20 };

static struct {
    uint64_t runs, answers, whole, streams, refused, failed, cut, left, lines, made, partial, interrupted,
        none_left, aborted;
} total;

static void add_up(void) {
    total.runs++;
    total.answers += web.answers;
    total.whole += web.whole;
    total.streams += web.streams;
    total.refused += web.refused;
    total.failed += web.failed;
    total.cut += web.cut;
    total.left += web.left;
    total.lines += web.lines;
    total.made += web.made;
    total.partial += net.partial;
    total.interrupted += net.interrupted;
    total.none_left += net.none_left;
    total.aborted += net.aborted;
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void seeds(void **state) {
    (void)state;
    const double began = seconds();
    memset(&total, 0, sizeof total);
    const bool fixed = sim_play_seeds(FIXED_SEEDS, add_up);
    print_message(
        "%llu runs, %llu turns (%.0f per second); %llu answers: %llu whole and %llu streamed completions, "
        "%llu refused as busy, %llu failed, %llu too late; %llu clients left; %llu log lines, %llu requests "
        "of the engine; %llu partial and %llu interrupted calls, %llu without a descriptor, %llu aborted\n",
        (unsigned long long)total.runs, (unsigned long long)sim_turns,
        (double)sim_turns / (seconds() - began), (unsigned long long)total.answers,
        (unsigned long long)total.whole, (unsigned long long)total.streams, (unsigned long long)total.refused,
        (unsigned long long)total.failed, (unsigned long long)total.cut, (unsigned long long)total.left,
        (unsigned long long)total.lines, (unsigned long long)total.made, (unsigned long long)total.partial,
        (unsigned long long)total.interrupted, (unsigned long long)total.none_left,
        (unsigned long long)total.aborted);
    if (fixed)
        assert_true(total.whole > 50 && total.streams > 50 && total.refused > 0 && total.failed > 0 &&
                    total.left > 5);
}

/* Seeds of `make sim-soak` that have found something. */
static void found(void **state) {
    (void)state;
    static const uint64_t list[] = {2003215};
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
        const uint64_t now = sim_mix(sim_mix(sim.random, sim.now_ns), sim_mix(web.answers, net.calls));
        if (i == 0)
            first = now;
        assert_true(now == first);
    }
}

int main(void) {
    int result = 0;
    const struct CMUnitTest tests[] = {cmocka_unit_test(seeds), cmocka_unit_test(found),
                                       cmocka_unit_test(replays)};
    if (sim_shrinks("sim-server", &result))
        return result;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
