/* Makes a script that fails shorter: it leaves out turns, many at a time and then one by one, as long as what
 * is left still fails. Each try is played by a process of its own. */
#ifndef STATOR_TESTS_SIM_SHRINK_H
#define STATOR_TESTS_SIM_SHRINK_H

#include "sim_play.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIM_TRIES = 3000, SIM_TRY_SECONDS = 20, SIM_LIST = 24 * SIM_TURNS };

/* Whether a play of the script ends in a signal. One that takes too long does. */
static bool sim_shrink_fails(const struct sim_script *script) {
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit none = {0, 0}, most = {SIM_TRY_SECONDS, SIM_TRY_SECONDS};
        const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        (void)setrlimit(RLIMIT_CORE, &none);
        (void)setrlimit(RLIMIT_CPU, &most);
        if (null < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
            _exit(0);
        sim_play(script);
        _exit(0);
    }
    int status = 0;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return child > 0 && WIFSIGNALED(status);
}

static uint32_t sim_shrink_left(const struct sim_script *script) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < script->turns; i++)
        n += !script->left_out[i];
    return n;
}

/* Leaves out `size` of the turns that are left, from each of them on, where what is left still fails. */
static bool sim_shrink_by(struct sim_script *script, uint32_t size, uint32_t *tries) {
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
        if (!sim_shrink_fails(&less))
            continue;
        *script = less;
        shorter = true;
    }
    return shorter;
}

static void sim_shrink(struct sim_script *script) {
    uint32_t tries = SIM_TRIES;
    struct sim_script less = *script;
    less.faultless = true;
    if (sim_shrink_fails(&less))
        *script = less;
    for (uint32_t size = script->turns; size > 1; size /= 2)
        (void)sim_shrink_by(script, size / 2, &tries);
    while (tries > 0 && sim_shrink_by(script, 1, &tries))
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

#endif
