/* The command line: finds the command, hands over. */
#include "app/commands.h"
#include "app/limits.h"
#include "app/out.h"
#include "base/error.h"
#include "base/nearest.h"
#include "device/cluster.h"
#include "device/device.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAX_COMMANDS 32

/* A closed descriptor 0, 1 or 2 would be given to the next file that is opened, and data written to it by
 * mistake. In its place comes one that fails on every write (and is empty when read). */
static void occupy_standard_files(void) {
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) == -1 && open("/dev/null", O_RDONLY) != fd)
            _exit(STATOR_FAILED);
}

static int unknown(const char *typed) {
    const char *names[MAX_COMMANDS];
    size_t n = 0;
    for (size_t i = 0; i < commands_table_size && n < MAX_COMMANDS; i++)
        names[n++] = commands_table[i].name;
    const char *near = nearest_name(typed, names, n);
    if (near != NULL)
        fprintf(stderr, "stator: unknown command \"%.100s\"; did you mean \"%s\"?\n", typed, near);
    else
        fprintf(stderr, "stator: unknown command \"%.100s\" (`stator help` lists them)\n", typed);
    return STATOR_USAGE;
}

static int command(int argc, char **argv) {
    if (argc < 2) {
        commands_print_list(stderr);
        return STATOR_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    if (strcmp(name, "--version") == 0)
        name = "version";
    for (size_t i = 0; i < commands_table_size; i++) {
        if (strcmp(commands_table[i].name, name) == 0) {
            argv[1] = (char *)(uintptr_t)commands_table[i].name;
            return commands_table[i].run(argc - 1, argv + 1);
        }
    }
    return unknown(name);
}

int main(int argc, char **argv) {
    occupy_standard_files();
    stator_error e = {0};
    if (device_cluster_begin(&argc, &argv, &e) != STATOR_OK) {
        fprintf(stderr, "stator: %s\n", e.text);
        device_cluster_end(e.code);
        return (int)e.code;
    }
    if (device_cluster().size > 1) { /* mpiexec mixes what the ranks write: whole lines */
        static char line[4096];
        setvbuf(stderr, line, _IOLBF, sizeof line);
    }
    int code = limits_call(command, argc, argv);
    if (code != STATOR_OK) {
        error_set(&e, (stator_status)code, "it has ended with exit code %d", code);
        device_cluster_refuse(&e);
    }
    device_cluster_end(code);
    return code;
}
