/* base/: units, nearest names, errors, JSON, carving, hashing. */
#include "testing.h"

#include "base/carve.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json_writer.h"
#include "base/nearest.h"
#include "base/units.h"

#include <math.h>

static void sizes_with_units(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {{"0", 0},
                {"1024", 1024},
                {"2GiB", 2ull << 30},
                {" 512 MiB ", 512ull << 20},
                {"24gb", 24000000000ull},
                {"1.5k", 1536},
                {"0.5GiB", 1ull << 29},
                {"3B", 3},
                {"8388607TiB", 8388607ull << 40}};
    static const char *const bad[] = {"",
                                      "-1",
                                      "1.",
                                      "GiB",
                                      "1 GiBs",
                                      "1e3",
                                      "9223372036854775808",
                                      "18446744073709551616",
                                      "16777216TiB",
                                      "0x10",
                                      "1..5",
                                      "1 2"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        uint64_t v = 0;
        assert_true(units_parse_size(good[i].text, &v));
        assert_int_equal(v, good[i].bytes);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t v = 77;
        assert_false(units_parse_size(bad[i], &v));
        assert_int_equal(v, 77);
    }
    char text[UNITS_TEXT];
    assert_string_equal(units_format_size(1023, text), "1023 B");
    assert_string_equal(units_format_size(1536, text), "1.50 KiB");
    assert_string_equal(units_format_size(5ull << 30, text), "5.00 GiB");
    assert_string_equal(units_format_size(UINT64_MAX, text), "16.00 EiB");
}

static void nearest_names(void **state) {
    (void)state;
    static const char *const names[] = {"context", "sequences", "batch", "kv_type"};
    assert_string_equal(nearest_name("contxt", names, 4), "context");
    assert_string_equal(nearest_name("KV_TYPE", names, 4), "kv_type");
    assert_string_equal(nearest_name("bacth", names, 4), "batch");
    assert_null(nearest_name("zzzzzz", names, 4));
    assert_null(nearest_name("", names, 4));
}

static void errors_get_context(void **state) {
    (void)state;
    stator_error e;
    assert_int_equal(error_set(&e, STATOR_BAD_MODEL, "key %d", 3), STATOR_BAD_MODEL);
    error_prefix(&e, "%s", "file.gguf");
    assert_string_equal(e.text, "file.gguf: key 3");
    assert_int_equal(e.code, STATOR_BAD_MODEL);
    for (int i = 0; i < 100; i++)
        error_prefix(&e, "0123456789");
    assert_true(strlen(e.text) < sizeof e.text);
    error_set(&e, STATOR_BAD_MODEL, "'%s'", "a\x1b[31m\r\n\x7F\xC3\xA9"); /* from a file, to a terminal */
    error_prefix(&e, "%s", "x\x1b.csv");
    assert_string_equal(e.text, "x?.csv: 'a?[31m? ?\xC3\xA9'");
}

static void json_text(void **state) {
    (void)state;
    char out[256];
    struct json j;
    json_to_buffer(&j, out, sizeof out, false);
    json_open_object(&j, NULL);
    json_put_string(&j, "a", "x\"\n\x01\xFF\xC3\xA9");
    json_open_array(&j, "b");
    json_put_u64(&j, NULL, UINT64_MAX);
    json_put_i64(&j, NULL, -3);
    json_put_double(&j, NULL, 0.1);
    json_put_double(&j, NULL, (double)INFINITY);
    json_put_float(&j, NULL, 0.1f);
    json_put_float(&j, NULL, -1.17549435e-38f);
    json_put_float(&j, NULL, NAN);
    json_put_bool(&j, NULL, true);
    json_close(&j);
    json_put_joined(&j, "d", "x\"", 2, "\xC3\xA9", 2);
    json_put_raw(&j, "c", "{\"d\": 1e400}", 12);
    json_close(&j);
    assert_true(json_end(&j));
    assert_string_equal(
        out, "{\"a\":\"x\\\"\\n\\u0001\xEF\xBF\xBD\xC3\xA9\",\"b\":[18446744073709551615,-3,"
             "0.1,null,0.1,-1.1754944e-38,null,true],\"d\":\"x\\\"\xC3\xA9\",\"c\":{\"d\": 1e400}}");
    size_t whole = j.length;
    json_to_buffer(&j, out, 4, false);
    json_open_array(&j, NULL);
    json_put_string(&j, NULL, "long enough to be cut");
    json_close(&j);
    assert_false(json_end(&j));
    assert_true(j.length > 4 && whole > 4);
    json_to_measure(&j, false);
    json_open_array(&j, NULL);
    json_put_u64(&j, NULL, 0);
    json_put_i64(&j, NULL, 0);
    json_put_double(&j, NULL, 0);
    json_put_bool(&j, NULL, true);
    json_close(&j);
    assert_false(json_end(&j));
    assert_int_equal(j.length,
                     strlen("[18446744073709551615,-9223372036854775808,-1.7976931348623157e+308,false]"));
}

static void carving_counts_what_it_places(void **state) {
    (void)state;
    struct carve c = carve_count();
    assert_null(carve_take(&c, 3, 5));
    assert_null(carve_take(&c, 1, 65));
    assert_int_equal(c.used, 64 + 128);
    _Alignas(64) static unsigned char memory[192];
    struct carve p = carve_in(memory, sizeof memory);
    assert_ptr_equal(carve_take(&p, 3, 5), memory);
    assert_ptr_equal(carve_take(&p, 1, 65), memory + 64);
    assert_int_equal(p.used, c.used);
}

static void hashes_are_fixed(void **state) {
    (void)state;
    struct hash h;
    char a[HASH_TEXT];
    char b[HASH_TEXT];
    hash_init(&h);
    hash_final(&h, a);
    assert_string_equal(
        a, "99aa06d3014798d86001c324468d497f"); /* XXH3 128 of nothing, seed 0: the published value */
    hash_text(&h, "ab");
    hash_final(&h, a);
    hash_init(&h);
    hash_text(&h, "a");
    hash_text(&h, "b");
    hash_final(&h, b);
    assert_string_not_equal(a, b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_with_units),
        cmocka_unit_test(nearest_names),
        cmocka_unit_test(errors_get_context),
        cmocka_unit_test(json_text),
        cmocka_unit_test(carving_counts_what_it_places),
        cmocka_unit_test(hashes_are_fixed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
