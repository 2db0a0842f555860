/* `stator version`: what this binary is and which back ends are in it. */
#include "app/commands.h"
#include "app/options/options.h"
#include "app/out.h"
#include "base/json_writer.h"
#include "kernels/kernels.h"
#include "kernels/shared/opencl.h"

#if defined __clang__
#define COMPILER "clang " __clang_version__
#elif defined __GNUC__
#define COMPILER "gcc " __VERSION__
#else
#define COMPILER "unknown"
#endif

static void print_json(enum kernels_tier best) {
    struct json j;
    json_to_file(&j, stdout, true);
    json_open_object(&j, NULL);
    json_put_string(&j, "version", STATOR_VERSION);
    json_put_u64(&j, "api", STATOR_API_VERSION);
    json_put_string(&j, "compiler", COMPILER);
    json_open_object(&j, "backends");
    json_open_object(&j, "cpu");
    json_open_array(&j, "tiers");
    for (int t = 0; t <= (int)best; t++)
        json_put_string(&j, NULL, kernels_tier_name((enum kernels_tier)t));
    json_close(&j);
    json_close(&j);
    json_open_object(&j, "level_zero");
    json_put_u64(&j, "kernel_modules", opencl_n_modules);
    if (opencl_n_modules == 0)
        json_put_string(&j, "missing", opencl_missing);
    json_close(&j);
    json_close(&j);
    json_close(&j);
    (void)json_end(&j); /* out_finish reports what could not be written */
}

int version_command(int argc, char **argv) {
    bool json = false;
    const struct options_row rows[] = {OPTIONS_JSON(&json)};
    struct options o = {.command = "version",
                        .usage = "",
                        .summary =
                            "Prints the version, the compiler, and the back ends that are in this binary.",
                        .rows = rows,
                        .n_rows = sizeof rows / sizeof rows[0]};
    int code = 0;
    if (!options_parse(&o, argc, argv, &code))
        return code;
    enum kernels_tier best = kernels_best_tier();
    if (json) {
        print_json(best);
        return out_finish("version", STATOR_OK);
    }
    printf("stator %s (C API %d)\ncompiler: %s\nback ends:\n  cpu: tiers available here:", STATOR_VERSION,
           STATOR_API_VERSION, COMPILER);
    for (int t = 0; t <= (int)best; t++)
        printf("%s %s", t == 0 ? "" : ",", kernels_tier_name((enum kernels_tier)t));
    if (opencl_n_modules > 0)
        printf("\n  level_zero: %u kernel modules\n", opencl_n_modules);
    else
        printf("\n  level_zero: no kernels (%s)\n", opencl_missing);
    return out_finish("version", STATOR_OK);
}
