/* base/: units, nearest names, errors, JSON, carving, hashing. */
#include "testing.h"

#include "base/carve.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json_writer.h"
#include "base/nearest.h"
#include "base/sha256.h"
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

/* The examples of FIPS 180-4 (in NIST's "Secure Hashing" examples: SHA256.pdf), and no bytes. */
static void sha256_is_the_published_one(void **state) {
    static const struct {
        const char *text;
        uint8_t digest[SHA256_BYTES];
    } known[] = {
        {"",
         {0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24,
          0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55}},
        {"abc",
         {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40, 0xde, 0x5d, 0xae, 0x22, 0x23,
          0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17, 0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad}},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         {0x24, 0x8d, 0x6a, 0x61, 0xd2, 0x06, 0x38, 0xb8, 0xe5, 0xc0, 0x26, 0x93, 0x0c, 0x3e, 0x60, 0x39,
          0xa3, 0x3c, 0xe4, 0x59, 0x64, 0xff, 0x21, 0x67, 0xf6, 0xec, 0xed, 0xd4, 0x19, 0xdb, 0x06, 0xc1}},
    };
    uint8_t digest[SHA256_BYTES], other[SHA256_BYTES];
    struct sha256 h;
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        sha256_init(&h);
        for (const char *c = known[i].text; *c != '\0'; c++)
            sha256_bytes(&h, c, 1);
        sha256_final(&h, digest);
        assert_memory_equal(digest, known[i].digest, sizeof digest);
    }
    sha256_text(&h, ""); /* a final ends nothing, and a length is a part of a text */
    sha256_final(&h, other);
    assert_memory_not_equal(digest, other, sizeof digest);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_with_units),
        cmocka_unit_test(nearest_names),
        cmocka_unit_test(errors_get_context),
        cmocka_unit_test(json_text),
        cmocka_unit_test(carving_counts_what_it_places),
        cmocka_unit_test(hashes_are_fixed),
        cmocka_unit_test(sha256_is_the_published_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
