/* The modules that a program carries: each inflates, in the memory that is asked for, to the module that the
 * compiler made. */
#include "testing.h"

#include "device/launch/launch_modules.h"

static void every_module_inflates(void **state) {
    (void)state;
    if (opencl_n_modules == 0) {
        print_message("skipped: the binary has no GPU kernels (%s)\n", opencl_missing);
        skip();
    }
    const uint64_t bytes = launch_modules_room();
    uint8_t *room = aligned_alloc(64, bytes + 64);
    assert_non_null(room);
    memset(room + bytes, 0xA5, 64);
    uint32_t compared = 0;
    for (uint32_t i = 0; i < opencl_n_modules; i++) {
        const struct opencl_module *m = &opencl_modules[i];
        assert_true(i == 0 || strcmp(m[-1].name, m->name) < 0);
        assert_int_equal(launch_modules_find(m->name), i);
        const uint32_t *words = launch_modules_inflate(m, room);
        assert_int_equal(words[0], 0x07230203); /* SPIR-V's magic number */
        char path[128];
        snprintf(path, sizeof path, "build/spirv/%s.spv", m->name);
        FILE *f = fopen(path, "rb");
        if (f == NULL)
            continue;
        uint8_t *made = malloc(m->bytes + 1);
        assert_non_null(made);
        assert_int_equal(fread(made, 1, m->bytes + 1, f), m->bytes);
        assert_memory_equal(made, words, m->bytes);
        fclose(f);
        free(made);
        compared++;
    }
    for (int i = 0; i < 64; i++)
        assert_int_equal(room[bytes + i], 0xA5);
    free(room);
    assert_int_equal(compared, opencl_n_modules);
}

static void an_unknown_name_is_none(void **state) {
    (void)state;
    assert_int_equal(launch_modules_find("no_such_module"), opencl_n_modules);
    assert_int_equal(launch_modules_find(""), opencl_n_modules);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_module_inflates),
        cmocka_unit_test(an_unknown_name_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
