/* Tests through the real Level Zero loader and the software driver (tools/zesim). A process loads the loader
 * once, so every case runs in a child with its own configuration; CHECK ends the child, and the parent's test
 * fails.
 *
 * Entry points are looked up in the loader: ZE(zeInit)(0). Without Debian's headers this file is a main that
 * skips, and ZESIM_ABSENT is defined. */
#ifndef STATOR_TESTS_ZESIM_H
#define STATOR_TESTS_ZESIM_H

#include "testing.h"

#if !__has_include(<level_zero/ze_api.h>)
#define ZESIM_ABSENT
static void without_headers(void **state) {
    (void)state;
    if (getenv("STATOR_TEST_REQUIRE") != NULL)
        fail_msg("libze-dev is missing");
    print_message("skipped: libze-dev is missing\n");
    skip();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(without_headers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else

#include <level_zero/ze_api.h>
#include <level_zero/zes_api.h>

#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>

#define ZESIM_LIBRARY "build/libzesim.so"

/* Sanitizers report a crash and exit, where others are killed by the signal. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ZESIM_SANITIZED true
#elif defined(__has_feature)
#define ZESIM_SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define ZESIM_SANITIZED false
#endif

/* The loader opens drivers with RTLD_DEEPBIND, which the sanitizers refuse; this binary's own dlopen leaves
 * it out. */
void *dlopen(const char *path, int flags) {
    static void *(*real)(const char *, int);
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "dlopen");
    return real(path, flags & ~RTLD_DEEPBIND);
}

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #condition);                         \
            _exit(99);                                                                                       \
        }                                                                                                    \
    } while (0)
#define CHECK_RESULT(call, expected)                                                                         \
    do {                                                                                                     \
        ze_result_t result_ = (call);                                                                        \
        if (result_ != (expected)) {                                                                         \
            fprintf(stderr, "%s:%d: %s gives 0x%x, not %s\n", __FILE__, __LINE__, #call, (unsigned)result_,  \
                    #expected);                                                                              \
            _exit(99);                                                                                       \
        }                                                                                                    \
    } while (0)
#define OK(call)     CHECK_RESULT(call, ZE_RESULT_SUCCESS)

static inline void *zesim_entry(const char *name) {
    static void *loader;
    if (loader == NULL)
        loader = dlopen("libze_loader.so.1", RTLD_NOW);
    void *f = loader != NULL ? dlsym(loader, name) : NULL;
    if (f == NULL) {
        fprintf(stderr, "the loader has no %s\n", name);
        _exit(99);
    }
    return f;
}
#define ZE(function) ((__typeof__(&function))zesim_entry(#function))

/* zesim's own functions (tools/zesim/zesim.h). */
static inline void *zesim_own(const char *name) {
    void *library = dlopen(ZESIM_LIBRARY, RTLD_NOW | RTLD_NOLOAD);
    void *f = library != NULL ? dlsym(library, name) : NULL;
    if (f == NULL) {
        fprintf(stderr, "%s has no %s or is not loaded\n", ZESIM_LIBRARY, name);
        _exit(99);
    }
    return f;
}

static inline uint64_t zesim_counter(const char *name) {
    return ((uint64_t(*)(const char *))zesim_own("zesim_count"))(name);
}

/* NULL, or what is missing. */
static inline const char *zesim_missing(void) {
    if (access(ZESIM_LIBRARY, R_OK) != 0)
        return ZESIM_LIBRARY " (make zesim)";
    if (access("/usr/bin/clang-15", X_OK) != 0)
        return "clang-15";
    if (access("/usr/bin/llvm-spirv-15", X_OK) != 0)
        return "llvm-spirv-15";
    void *loader = dlopen("libze_loader.so.1", RTLD_LAZY);
    if (loader == NULL)
        return "libze1";
    dlclose(loader);
    return NULL;
}
#define ZESIM_NEED()                                                                                         \
    do {                                                                                                     \
        const char *missing_ = zesim_missing();                                                              \
        if (missing_ != NULL) {                                                                              \
            if (getenv("STATOR_TEST_REQUIRE") != NULL)                                                       \
                fail_msg("%s is missing", missing_);                                                         \
            print_message("skipped: %s is missing\n", missing_);                                             \
            skip();                                                                                          \
        }                                                                                                    \
    } while (0)

/* Runs f in a child with the configuration; returns its wait status, its stderr is in text. */
static inline int zesim_child(const char *config, void (*f)(void), char *text, size_t capacity) {
    int end[2];
    assert_int_equal(pipe(end), 0);
    fflush(stdout);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char library[4096];
        dup2(end[1], STDERR_FILENO);
        close(end[0]);
        close(end[1]);
        for (int s = 1; s < 32; s++)
            signal(s, SIG_DFL); /* cmocka catches crashes */
        alarm(1800);            /* for what hangs: half a minute of work takes minutes where it is busy */
        if (realpath(ZESIM_LIBRARY, library) == NULL)
            _exit(99);
        setenv("ZE_ENABLE_ALT_DRIVERS", library, 1);
        setenv("ZESIM", config, 1);
        setenv("ZES_ENABLE_SYSMAN", "1", 1);
        f();
        exit(0); /* with destructors: the driver writes its log */
    }
    close(end[1]);
    size_t n = 0;
    for (ssize_t got; n + 1 < capacity && (got = read(end[0], text + n, capacity - 1 - n)) > 0;)
        n += (size_t)got;
    text[n] = '\0';
    close(end[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

/* The case passes. */
static inline void zesim_run(const char *config, void (*f)(void)) {
    static char text[65536];
    int status = zesim_child(config, f, text, sizeof text);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("with ZESIM=%s: status 0x%x\n%s", config, (unsigned)status, text);
}

/* The case passes and its stderr says something. */
static inline void zesim_run_says(const char *config, void (*f)(void), const char *says) {
    static char text[65536];
    int status = zesim_child(config, f, text, sizeof text);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || strstr(text, says) == NULL)
        fail_msg("with ZESIM=%s: status 0x%x, expected \"%s\":\n%s", config, (unsigned)status, says, text);
}

/* The case is killed by the signal (0: ends with an exit code other than 0), and its stderr says something.
 */
static inline void zesim_run_dies(const char *config, void (*f)(void), int by, const char *says) {
    static char text[65536];
    int status = zesim_child(config, f, text, sizeof text);
    bool died = by != 0 ? WIFSIGNALED(status) && WTERMSIG(status) == by
                        : WIFEXITED(status) && WEXITSTATUS(status) != 0;
    if ((!died && !ZESIM_SANITIZED) || strstr(text, says) == NULL)
        fail_msg("with ZESIM=%s: status 0x%x, expected \"%s\":\n%s", config, (unsigned)status, says, text);
}

/* SPIR-V of an OpenCL C text, made by clang-15 and llvm-spirv-15; free it. Fails the child. */
static inline uint8_t *zesim_spirv(const char *source, size_t *size) {
    char folder[] = "/tmp/stator-test-XXXXXX", command[2048];
    CHECK(mkdtemp(folder) != NULL);
    snprintf(command, sizeof command, "%s/k.cl", folder);
    FILE *f = fopen(command, "w");
    CHECK(f != NULL && fputs(source, f) >= 0 && fclose(f) == 0);
    snprintf(
        command, sizeof command,
        "cd %s && clang-15 -c -cl-std=CL3.0 --target=spir64-unknown-unknown -O2 -ffp-contract=off -Xclang "
        "-disable-llvm-passes -Xclang -finclude-default-header -Xclang "
        "-cl-ext=+cl_khr_subgroups,+cl_khr_fp16 "
        "-emit-llvm -o k.bc k.cl && llvm-spirv-15 --spirv-max-version=1.2 "
        "--spirv-ext=+SPV_INTEL_subgroups,+SPV_KHR_integer_dot_product -o k.spv k.bc",
        folder);
    CHECK(system(command) == 0);
    snprintf(command, sizeof command, "%s/k.spv", folder);
    f = fopen(command, "rb");
    CHECK(f != NULL);
    uint8_t *spirv = malloc(1 << 20);
    CHECK(spirv != NULL);
    *size = fread(spirv, 1, 1 << 20, f);
    fclose(f);
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK(*size > 0 && system(command) == 0);
    return spirv;
}

/* ---- what most cases begin with */
static __attribute__((unused)) struct {
    ze_driver_handle_t driver;
    ze_device_handle_t device[8];
    uint32_t n_devices;
    ze_context_handle_t context;
    ze_command_queue_handle_t queue;
    ze_command_list_handle_t immediate; /* synchronous, on device 0 */
} t;

static inline ze_command_list_handle_t new_immediate(uint32_t device, uint32_t ordinal,
                                                     ze_command_queue_mode_t mode) {
    ze_command_queue_desc_t desc = {
        .stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC, .ordinal = ordinal, .mode = mode};
    ze_command_list_handle_t list;
    OK(ZE(zeCommandListCreateImmediate)(t.context, t.device[device], &desc, &list));
    return list;
}

static inline ze_command_queue_handle_t new_queue(uint32_t device) {
    ze_command_queue_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_DESC,
                                    .mode = ZE_COMMAND_QUEUE_MODE_ASYNCHRONOUS};
    ze_command_queue_handle_t queue;
    OK(ZE(zeCommandQueueCreate)(t.context, t.device[device], &desc, &queue));
    return queue;
}

static inline ze_command_list_handle_t new_list(uint32_t device) {
    ze_command_list_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_COMMAND_LIST_DESC};
    ze_command_list_handle_t list;
    OK(ZE(zeCommandListCreate)(t.context, t.device[device], &desc, &list));
    return list;
}

static inline void begin(void) {
    ze_context_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    uint32_t one = 1;
    OK(ZE(zeInit)(0));
    OK(ZE(zeDriverGet)(&one, &t.driver));
    OK(ZE(zeDeviceGet)(t.driver, &t.n_devices, NULL));
    CHECK(t.n_devices <= 8);
    OK(ZE(zeDeviceGet)(t.driver, &t.n_devices, t.device));
    OK(ZE(zeContextCreate)(t.driver, &desc, &t.context));
    t.queue = new_queue(0);
    t.immediate = new_immediate(0, 0, ZE_COMMAND_QUEUE_MODE_SYNCHRONOUS);
}

static inline ze_result_t try_device(uint32_t device, size_t size, void **p) {
    ze_device_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    return ZE(zeMemAllocDevice)(t.context, &desc, size, 64, t.device[device], p);
}

static inline void *on_device(uint32_t device, size_t size) {
    void *p;
    OK(try_device(device, size, &p));
    return p;
}

static inline void *on_host(size_t size) {
    ze_host_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    void *p;
    OK(ZE(zeMemAllocHost)(t.context, &desc, size, 64, &p));
    return p;
}

static inline ze_result_t copy(void *to, const void *from, size_t n) {
    return ZE(zeCommandListAppendMemoryCopy)(t.immediate, to, from, n, NULL, 0, NULL);
}

static inline ze_module_handle_t new_module(uint32_t device, const char *source) {
    size_t size;
    uint8_t *spirv = zesim_spirv(source, &size);
    ze_module_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_MODULE_DESC,
                             .format = ZE_MODULE_FORMAT_IL_SPIRV,
                             .inputSize = size,
                             .pInputModule = spirv};
    ze_module_handle_t module;
    OK(ZE(zeModuleCreate)(t.context, t.device[device], &desc, &module, NULL));
    free(spirv);
    return module;
}

static inline ze_kernel_handle_t new_kernel(ze_module_handle_t module, const char *name) {
    ze_kernel_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_KERNEL_DESC, .pKernelName = name};
    ze_kernel_handle_t kernel;
    OK(ZE(zeKernelCreate)(module, &desc, &kernel));
    return kernel;
}

static inline void set_pointer(ze_kernel_handle_t kernel, uint32_t i, const void *p) {
    OK(ZE(zeKernelSetArgumentValue)(kernel, i, sizeof p, &p));
}

/* Launches with these buffers as the first arguments, on device 0, and waits. */
static inline ze_result_t launch(ze_kernel_handle_t kernel, uint32_t groups, uint32_t size, uint32_t n,
                                 void *const *buffers) {
    OK(ZE(zeKernelSetGroupSize)(kernel, size, 1, 1));
    for (uint32_t i = 0; i < n; i++)
        set_pointer(kernel, i, buffers[i]);
    return ZE(zeCommandListAppendLaunchKernel)(t.immediate, kernel, &(ze_group_count_t){groups, 1, 1}, NULL,
                                               0, NULL);
}
#define LAUNCH(kernel, groups, size, ...)                                                                    \
    launch(kernel, groups, size, sizeof((void *[]){__VA_ARGS__}) / sizeof(void *), (void *[]){__VA_ARGS__})

static inline ze_event_handle_t new_event(ze_event_pool_flags_t flags) {
    ze_event_pool_desc_t pool_desc = {.stype = ZE_STRUCTURE_TYPE_EVENT_POOL_DESC, .flags = flags, .count = 1};
    ze_event_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_EVENT_DESC};
    ze_event_pool_handle_t pool;
    ze_event_handle_t event;
    OK(ZE(zeEventPoolCreate)(t.context, &pool_desc, 0, NULL, &pool));
    OK(ZE(zeEventCreate)(pool, &desc, &event));
    return event;
}

#endif /* headers */
#endif
