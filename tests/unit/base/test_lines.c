/* Lines of files: long ones are cut, the last one needs no end, nothing is lost between reads. */
#include "testing.h"

#include "os/lines.h"

#include <stdlib.h>
#include <unistd.h>

static char path[] = "/tmp/stator_lines_XXXXXX";

static void write_file(const char *text, size_t n) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void all_lines(void **state) {
    (void)state;
    static char text[200000];
    struct lines l;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    write_file("", 0);
    assert_true(lines_open(&l, path));
    assert_null(lines_next(&l));
    lines_close(&l);
    write_file("a\n\nlast", 7);
    assert_true(lines_open(&l, path));
    assert_string_equal(lines_next(&l), "a");
    assert_string_equal(lines_next(&l), "");
    assert_string_equal(lines_next(&l), "last");
    assert_null(lines_next(&l));
    assert_null(lines_next(&l));
    lines_close(&l);
    /* Line i has i bytes: every cut at the buffer's end, and lines around its size and beyond. */
    size_t n = 0, longest = 0;
    for (size_t i = 0; n + i + 1 < sizeof text; i = i < 60 ? i + 1 : i < 2040 ? i * 2 : i + 1 + i / 64) {
        memset(text + n, 'a' + (int)(i % 26), i);
        n += i;
        text[n++] = '\n';
        longest = i;
    }
    assert_true(longest > 3 * sizeof l.buffer);
    write_file(text, n);
    assert_true(lines_open(&l, path));
    for (size_t i = 0;; i = i < 60 ? i + 1 : i < 2040 ? i * 2 : i + 1 + i / 64) {
        const char *line = lines_next(&l);
        if (line == NULL) {
            assert_true(i > longest);
            break;
        }
        const size_t most = sizeof l.buffer - 1;
        assert_int_equal(strlen(line), i < most ? i : most);
        assert_true(i == 0 || (line[0] == (char)('a' + i % 26) && line[strlen(line) - 1] == line[0]));
    }
    lines_close(&l);
    assert_int_equal(unlink(path), 0);
    assert_false(lines_open(&l, path));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_lines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
