/* A model file that is cut, extended or rewritten while an engine has it open: an error with the file's name
 * from whichever call finds out, never a signal, and never a model mixed from two files. */
#include "engine_harness.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define CUTS 200

static uint8_t *demo;
static size_t demo_bytes;

static const char *const small[] = {"memory.context=64", "memory.batch=16", "cpu.threads=2"};

static char folder[] = "/tmp/stator-cut-XXXXXX", path[64];

static void restore(void) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, demo, demo_bytes), demo_bytes);
    close(fd);
}

static stator *open_copy(void) {
    stator_options o = {.size = sizeof o, .config = path, .set = small, .n_set = 3};
    stator *s = NULL;
    stator_error e = {0};
    if (stator_open(&o, &s, &e) != STATOR_OK)
        fail_msg("%s: %s", path, e.text);
    return s;
}

/* The first of the calls that fails says that the file is bad, and names it; one of them fails. */
static void run_into_it(stator *s, int done) {
    stator_error e = {0};
    stator_status st = STATOR_OK;
    if (done < 1)
        st = stator_plan(s, &e);
    if (st == STATOR_OK && done < 2)
        st = stator_prepare(s, &e);
    if (st == STATOR_OK)
        st = stator_start(s, &e);
    if (st != STATOR_BAD_MODEL || strstr(e.text, path) == NULL)
        fail_msg("status %d \"%s\"", (int)st, e.text);
}

static void cut_anywhere(void **state) {
    (void)state;
    uint64_t seed = testing_seed("cut_anywhere");
    for (int i = 0; i < CUTS; i++) {
        int done = (int)(testing_random(&seed) % 3); /* calls before the cut */
        /* Half of them inside header and directory. */
        size_t range = i % 2 == 0 ? demo_bytes : 64 << 10, at = testing_random(&seed) % range;
        restore();
        stator *s = open_copy();
        if (done >= 1)
            assert_int_equal(stator_plan(s, NULL), STATOR_OK);
        if (done >= 2)
            assert_int_equal(stator_prepare(s, NULL), STATOR_OK);
        assert_int_equal(truncate(path, (off_t)at), 0);
        run_into_it(s, done);
        stator_close(s);
    }
}

static void grown_or_rewritten(void **state) {
    (void)state;
    restore();
    stator *s = open_copy();
    assert_int_equal(truncate(path, (off_t)demo_bytes + 1), 0);
    run_into_it(s, 0);
    stator_close(s);
    restore();
    s = open_copy();
    restore();
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1}}; /* as a later copy would */
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    run_into_it(s, 0);
    stator_close(s);
}

/* Another file under the same name is no change of this one; what a started engine needs it has. */
static void replaced_or_cut_later(void **state) {
    (void)state;
    char other[80];
    int32_t ids[16];
    size_t n = 0;
    stator_error e = {0};
    restore();
    stator *s = open_copy();
    snprintf(other, sizeof other, "%s.old", path);
    assert_int_equal(rename(path, other), 0);
    restore();
    assert_int_equal(truncate(path, 100), 0);
    if (stator_start(s, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    assert_int_equal(truncate(other, 0), 0);
    const char *text = "Once upon a time";
    assert_int_equal(stator_tokenize(s, text, strlen(text), 1, 1, ids, 16, &n, &e), STATOR_OK);
    assert_true(n > 2);
    struct harness_text t = {.id = harness_submit(s, ids, n, 4, 0, 0)};
    harness_collect(s, &t, 1);
    assert_int_equal(t.n, 4);
    stator_close(s);
    unlink(other);
}

static int make_folder(void **state) {
    (void)state;
    demo = testing_read_file("configs/demo.gguf", &demo_bytes);
    if (demo == NULL || mkdtemp(folder) == NULL)
        return 1;
    snprintf(path, sizeof path, "%s/model.gguf", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    unlink(path);
    free(demo);
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cut_anywhere), cmocka_unit_test(grown_or_rewritten),
                                       cmocka_unit_test(replaced_or_cut_later)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
