/* bench_peers_watch WAIT OUT COMMAND...: waits until the machine is idle, WAIT seconds at most, runs the
 * command, and writes to OUT: wall seconds, processor seconds of the command, per cent of one core that
 * others used meanwhile, peak RSS in KiB. Exits as the command did. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define IDLE_SHARE 0.96
#define LOOK_NS    700000000

struct processors {
    double busy, all; /* seconds */
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static struct processors look(void) {
    unsigned long long v[8] = {0};
    FILE *f = fopen("/proc/stat", "r");
    if (f == NULL || fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &v[0], &v[1], &v[2], &v[3],
                            &v[4], &v[5], &v[6], &v[7]) != 8) {
        fprintf(stderr, "bench_peers_watch: /proc/stat can't be read\n");
        exit(1);
    }
    fclose(f);
    double tick = 1.0 / (double)sysconf(_SC_CLK_TCK);
    struct processors p = {0};
    for (int i = 0; i < 8; i++)
        p.all += (double)v[i] * tick;
    p.busy = p.all - (double)(v[3] + v[4]) * tick;
    return p;
}

static void wait_idle(double seconds) {
    for (double end = now() + seconds; now() < end;) {
        struct processors a = look();
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
        struct processors b = look();
        if (1 - (b.busy - a.busy) / (b.all - a.all) > IDLE_SHARE)
            return;
    }
}

static double seconds_of(struct timeval t) {
    return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: bench_peers_watch WAIT OUT COMMAND...\n");
        return 2;
    }
    wait_idle(atof(argv[1]));
    struct processors before = look();
    double begin = now();
    pid_t pid = fork();
    if (pid == 0) {
        execvp(argv[3], argv + 3);
        perror(argv[3]);
        _exit(127);
    }
    int status = 0;
    struct rusage u;
    if (pid < 0 || wait4(pid, &status, 0, &u) < 0) {
        perror("bench_peers_watch");
        return 1;
    }
    double wall = now() - begin;
    struct processors after = look();
    double own = seconds_of(u.ru_utime) + seconds_of(u.ru_stime);
    double others = (after.busy - before.busy - own) / wall * 100;
    FILE *f = fopen(argv[2], "w");
    if (f == NULL ||
        fprintf(f, "%.3f %.3f %.1f %ld\n", wall, own, others > 0 ? others : 0, u.ru_maxrss) < 0 ||
        fclose(f) != 0) {
        perror(argv[2]);
        return 1;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
