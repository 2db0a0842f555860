/* Makes a script that fails shorter: it leaves out turns, many at a time and then one by one, as long as what
 * is left still fails. Each try is played by a process of its own. */
#ifndef STATOR_TESTS_SIM_SHRINK_H
#define STATOR_TESTS_SIM_SHRINK_H

#include "sim_engine.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The play that the test is for: sim_play.h or sim_server.h. */
static void sim_play(const struct sim_script *script);

enum { SIM_TRIES = 300, SIM_TRY_SECONDS = 20, SIM_SAID = 400, SIM_LIST = 24 * SIM_TURNS };

/* What a failed play says first, without its numbers. */
static void sim_shrink_says(int fd, char said[SIM_SAID]) {
    char text[SIM_SAID];
    const ssize_t n = read(fd, text, sizeof text);
    size_t at = 0;
    for (ssize_t i = 0; i < n && text[i] != '\n' && text[i] != '"'; i++)
        if (strchr("0123456789", text[i]) == NULL && at < SIM_SAID - 1)
            said[at++] = text[i];
    said[at] = '\0';
}

/* Whether a play of the script ends in a signal, and what it says then. One that takes too long does. */
static bool sim_shrink_fails(const struct sim_script *script, char said[SIM_SAID]) {
    int ends[2];
    if (pipe(ends) != 0)
        return false;
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit none = {0, 0}, most = {SIM_TRY_SECONDS, SIM_TRY_SECONDS};
        const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)setrlimit(RLIMIT_CPU, &most);
        if (null < 0 || dup2(null, 1) < 0 || dup2(ends[1], 2) < 0)
            _exit(0);
        sim_play(script);
        _exit(0);
    }
    int status = 0;
    close(ends[1]);
    sim_shrink_says(ends[0], said);
    close(ends[0]);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return child > 0 && WIFSIGNALED(status);
}

/* Whether it fails as the whole did. */
static bool sim_shrink_fails_so(const struct sim_script *script, const char *why) {
    char said[SIM_SAID];
    return sim_shrink_fails(script, said) && strcmp(said, why) == 0;
}

static uint32_t sim_shrink_left(const struct sim_script *script) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < script->turns; i++)
        n += !script->left_out[i];
    return n;
}

/* Leaves out `size` of the turns that are left, from each of them on, where what is left still fails. */
static bool sim_shrink_by(struct sim_script *script, uint32_t size, uint32_t *tries, const char *why) {
    bool shorter = false;
    for (uint32_t first = 0; first<script->turns && * tries> 0;) {
        struct sim_script less = *script;
        uint32_t end = first, n = 0;
        for (; end < script->turns && n < size; end++) {
            n += !less.left_out[end];
            less.left_out[end] = true;
        }
        first = end;
        if (n == 0)
            continue;
        --*tries;
        if (!sim_shrink_fails_so(&less, why))
            continue;
        *script = less;
        shorter = true;
    }
    return shorter;
}

static void sim_shrink(struct sim_script *script) {
    uint32_t tries = SIM_TRIES;
    char why[SIM_SAID];
    if (!sim_shrink_fails(script, why))
        return;
    struct sim_script less = *script;
    less.faultless = true;
    if (sim_shrink_fails_so(&less, why))
        *script = less;
    for (uint32_t size = script->turns; size > 1; size /= 2)
        (void)sim_shrink_by(script, size / 2, &tries, why);
    while (tries > 0 && sim_shrink_by(script, 1, &tries, why))
        ;
    while (script->turns > 0 && script->left_out[script->turns - 1])
        script->turns--;
}

/* The turns that are left, as "3,17-20". */
static void sim_script_write(const struct sim_script *script, char *out, size_t n) {
    size_t at = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < script->turns; i++) {
        if (script->left_out[i])
            continue;
        uint32_t last = i;
        while (last + 1 < script->turns && !script->left_out[last + 1])
            last++;
        at += (size_t)snprintf(out + at, n - at, last > i ? "%s%u-%u" : "%s%u", at > 0 ? "," : "", i, last);
        CHECK(at < n);
        i = last;
    }
}

/* Reads what sim_script_write wrote. text: NULL: all turns. */
static void sim_script_read(struct sim_script *script, const char *text) {
    script->turns = SIM_TURNS;
    if (text == NULL)
        return;
    memset(script->left_out, true, sizeof script->left_out);
    for (char *end = NULL; *text != '\0'; text = *end == ',' ? end + 1 : end) {
        const unsigned long first = strtoul(text, &end, 10);
        const unsigned long last = *end == '-' ? strtoul(end + 1, &end, 10) : first;
        CHECK(end != text && last < SIM_TURNS && first <= last && (*end == ',' || *end == '\0'));
        memset(script->left_out + first, false, last - first + 1);
    }
}

static uint64_t sim_turns; /* of all plays */

/* A play has failed. The process is what it left; a new one shrinks it. */
static void sim_on_abort(int number) {
    static char seed[64], turns[64];
    static char name[] = "test_sim";
    char *const arguments[] = {name, NULL};
    phase_thread_set(NULL, PHASE_THREAD_EDGE); /* who may allocate */
    fprintf(stderr, "sim: found at turn %llu of seed %llu, after %llu turns in all\n",
            (unsigned long long)sim.round, (unsigned long long)sim.seed,
            (unsigned long long)(sim_turns + sim.round));
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
static int sim_shrink_main(uint64_t seed, uint32_t turns, const char *goal) {
    static struct sim_script script;
    static char list[SIM_LIST];
    script = (struct sim_script){.seed = seed, .turns = turns};
    sim_shrink(&script);
    sim_script_write(&script, list, sizeof list);
    fprintf(stderr, "sim: %u of %u turns are enough: make %s SEED=%llu TURNS=%s%s\n",
            sim_shrink_left(&script), turns, goal, (unsigned long long)seed, list,
            script.faultless ? " FAULTS=no" : "");
    sim_play(&script);
    fprintf(stderr, "sim: the seed did not fail again\n");
    return 1;
}

/* Plays fixed seeds from 1 on, or what the environment says: STATOR_SIM_SEED and STATOR_SIM_STEPS: seeds from
 * that one on, until so many turns were played, or for STATOR_SIM_SECONDS. STATOR_SIM_TURNS: only these turns
 * of the seed. STATOR_SIM_FAULTS=no: no device fails. after: called behind each play. True: the fixed seeds
 * were played. */
static bool sim_play_seeds(uint32_t fixed, void (*after)(void)) {
    static struct sim_script script;
    const char *seed = getenv("STATOR_SIM_SEED"), *steps = getenv("STATOR_SIM_STEPS");
    const char *only = getenv("STATOR_SIM_TURNS"), *faults = getenv("STATOR_SIM_FAULTS");
    const char *limit = getenv("STATOR_SIM_SECONDS");
    const time_t end = limit != NULL ? time(NULL) + (time_t)strtoul(limit, NULL, 10) : 0;
    signal(SIGABRT, sim_on_abort);
    const uint64_t first = seed != NULL ? strtoull(seed, NULL, 0) : 1;
    const uint64_t turns = only != NULL ? 1 : steps != NULL ? strtoull(steps, NULL, 0) : UINT64_MAX;
    sim_script_read(&script, only);
    script.faultless = faults != NULL && strcmp(faults, "no") == 0;
    sim_turns = 0;
    for (uint64_t i = 0; limit != NULL  ? time(NULL) < end
                         : seed != NULL ? sim_turns < turns
                                        : i < fixed;
         i++) {
        script.seed = first + i;
        sim_play(&script);
        sim_turns += sim.round;
        after();
    }
    return seed == NULL && limit == NULL;
}

/* What main does first. True: the process was begun to shrink a play, and *result is its exit code. */
static bool sim_shrinks(const char *goal, int *result) {
    const char *turns = getenv("STATOR_SIM_SHRINK"), *seed = getenv("STATOR_SIM_SEED");
    const uint32_t n = turns != NULL && seed != NULL ? (uint32_t)strtoul(turns, NULL, 10) : 0;
    if (n == 0 || n > SIM_TURNS)
        return false;
    *result = sim_shrink_main(strtoull(seed, NULL, 0), n, goal);
    return true;
}

#endif
