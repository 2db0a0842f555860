/* SPIR-V to a loaded shared library, through the LLVM tools of Debian:
 *   llvm-spirv-15 -r      SPIR-V to LLVM bitcode, for the device
 *   clang-15 -S           bitcode to LLVM text
 *   translate.c           the text for the host, with the tables of code.h added
 *   clang-15 -shared      with the built-ins (builtins.c, compiled to bitcode by `make zesim`) linked in and
 * inlined The result is kept in the cache folder under the hash of all that went in. */
#include "translate.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* builtins.c as bitcode. */
__asm__(".section .rodata\n"
        "builtins_begin:\n"
        ".incbin \"" ZESIM_BUILTINS "\"\n"
        "builtins_end:\n"
        ".previous\n");
extern const uint8_t builtins_begin[] __attribute__((visibility("hidden")));
extern const uint8_t builtins_end[] __attribute__((visibility("hidden")));

#define FORMAT "2" /* change it with whatever compile.c or translate.c make of the same input */

struct work {
    char folder[512];
    char *log; /* path of the tools' messages */
};

static uint64_t hash(uint64_t h, const void *data, size_t n) {
    const uint8_t *p = data;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001B3ull;
    return h;
}

/* Of what is the same for every module. */
static uint64_t common[2] = {0xCBF29CE484222325ull, 0x9AE16A3B2F90404Full};

static void hash_common(void) {
    for (int i = 0; i < 2; i++) {
        common[i] = hash(common[i], FORMAT, sizeof FORMAT);
        common[i] = hash(common[i], builtins_begin, (size_t)(builtins_end - builtins_begin));
    }
}

static void cache_path(char *path, size_t capacity, const uint8_t *spirv, size_t size) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, hash_common);
    uint64_t h[2];
    for (int i = 0; i < 2; i++)
        h[i] = hash(common[i], spirv, size);
    snprintf(path, capacity, "%s/%016llx%016llx.so", sim.cache, (unsigned long long)h[0],
             (unsigned long long)h[1]);
}

static char *path_in(const struct work *w, const char *name) {
    char *path;
    if (asprintf(&path, "%s/%s", w->folder, name) < 0)
        fatal("out of memory for a path");
    return path;
}

static bool write_file(const struct work *w, const char *name, const void *data, size_t size) {
    char *path = path_in(w, name);
    FILE *f = fopen(path, "wb");
    free(path);
    if (f == NULL)
        return false;
    bool good = fwrite(data, 1, size, f) == size;
    return fclose(f) == 0 && good;
}

static char *read_text(const struct work *w, const char *name) {
    char *path = path_in(w, name), *text = NULL;
    size_t capacity = 0;
    FILE *f = fopen(path, "r");
    free(path);
    if (f == NULL)
        return NULL;
    if (getdelim(&text, &capacity, '\0', f) < 0) {
        free(text);
        text = NULL;
    }
    fclose(f);
    return text;
}

/* Runs a tool in the work folder; its messages go to the log. */
static bool tool(const struct work *w, char *const arguments[]) {
    posix_spawn_file_actions_t actions;
    pid_t child;
    int status;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, w->log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    posix_spawn_file_actions_addchdir_np(&actions, w->folder);
    int e = posix_spawnp(&child, arguments[0], &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (e != 0) {
        fprintf(stderr, "zesim: can't run %s: %s; install it (make setup-test)\n", arguments[0], strerror(e));
        return false;
    }
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
#define TOOL(w, ...) tool(w, (char *const[]){__VA_ARGS__, NULL})

static bool build(const struct work *w, const uint8_t *spirv, size_t size, ze_result_t *why) {
    *why = ZE_RESULT_ERROR_MODULE_BUILD_FAILURE;
    if (!write_file(w, "k.spv", spirv, size) ||
        !write_file(w, "builtins.bc", builtins_begin, (size_t)(builtins_end - builtins_begin)) ||
        !write_file(w, "empty.c", "", 0))
        return false;
    if (!TOOL(w, "llvm-spirv-15", "-r", "--spirv-target-env=CL2.0", "-o", "r.bc", "k.spv") ||
        !TOOL(w, "clang-15", "-x", "ir", "r.bc", "-S", "-emit-llvm", "-o", "r.ll", "-Xclang",
              "-disable-llvm-passes", "-Wno-override-module", "--target=spir64-unknown-unknown"))
        return false;
    char *text = read_text(w, "r.ll"), *host = NULL, *problem = NULL;
    if (text != NULL)
        host = translate(text, &problem);
    free(text);
    if (host == NULL) {
        FILE *log = fopen(w->log, "a");
        if (log != NULL) {
            fprintf(log, "zesim: %s\n", problem != NULL ? problem : "no LLVM text");
            fclose(log);
        }
        free(problem);
        return false;
    }
    bool written = write_file(w, "k.ll", host, strlen(host));
    free(host);
    if (!written || !TOOL(w, "clang-15", "-x", "ir", "k.ll", "-c", "-emit-llvm", "-o", "k.bc", "-Xclang",
                          "-disable-llvm-passes", "-Wno-override-module"))
        return false;
    *why = ZE_RESULT_ERROR_MODULE_LINK_FAILURE;
    return TOOL(w, "clang-15", "-O2", "-march=native", "-fno-vectorize", "-fno-slp-vectorize",
                "-ffp-contract=off", "-fPIC", "-shared", "-fno-math-errno", "-Wno-override-module", "-o",
                "k.so", "empty.c", "-Xclang", "-mlink-bitcode-file", "-Xclang", "k.bc", "-Xclang",
                "-mlink-builtin-bitcode", "-Xclang", "builtins.bc", "-Wl,-z,defs", "-lm");
}

static void remove_work(struct work *w) {
    static const char *const names[] = {"k.spv", "r.bc",        "r.ll",    "k.ll", "k.bc",
                                        "k.so",  "builtins.bc", "empty.c", "log"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *path = path_in(w, names[i]);
        unlink(path);
        free(path);
    }
    rmdir(w->folder);
    free(w->log);
}

/* Builds into a folder of its own and renames the result into place, so that others see all of it or nothing.
 */
static bool build_into(const char *target, const uint8_t *spirv, size_t size, char **log, ze_result_t *why) {
    struct work w;
    snprintf(w.folder, sizeof w.folder, "%s/work.XXXXXX", sim.cache);
    *why = ZE_RESULT_ERROR_MODULE_BUILD_FAILURE;
    if ((mkdir(sim.cache, 0700) != 0 && errno != EEXIST) || mkdtemp(w.folder) == NULL) {
        fprintf(stderr, "zesim: can't make a folder in %s: %s\n", sim.cache, strerror(errno));
        return false;
    }
    w.log = path_in(&w, "log");
    bool good = build(&w, spirv, size, why);
    char *made = path_in(&w, "k.so");
    good = good && rename(made, target) == 0;
    free(made);
    if (!good) {
        *log = read_text(&w, "log");
        fprintf(stderr, "zesim: a module does not build:\n%s", *log != NULL ? *log : "");
    }
    if (sim.keep_files)
        fprintf(stderr, "zesim: files of a module are kept in %s\n", w.folder);
    else
        remove_work(&w);
    return good;
}

const struct code *compile_spirv(const uint8_t *spirv, size_t size, char **log, ze_result_t *result) {
    char path[1024];
    uint32_t magic = 0;
    *log = NULL;
    *result = ZE_RESULT_ERROR_MODULE_BUILD_FAILURE;
    memcpy(&magic, spirv, size < sizeof magic ? size : sizeof magic);
    if (magic != 0x07230203 || size % 4 != 0) {
        *log = strdup("the input is not SPIR-V\n");
        return NULL;
    }
    cache_path(path, sizeof path, spirv, size);
    bool cached = access(path, R_OK) == 0;
    count_add(cached ? "module.from_cache" : "module.compiled", 1);
    if (!cached) {
        sim_unlock(); /* it takes a while, and others need not wait */
        bool good = build_into(path, spirv, size, log, result);
        sim_lock();
        if (!good)
            return NULL;
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const struct code *code = library != NULL ? dlsym(library, "zesim_code") : NULL;
    if (code == NULL) {
        fprintf(stderr, "zesim: %s\n", dlerror());
        *result = ZE_RESULT_ERROR_MODULE_LINK_FAILURE;
    }
    return code;
}
