/* The edge pool: random use keeps every byte, gives everything back, and ends in NULL, never in more memory.
 */
#include "server/http/edge_pool.h"

#include "testing.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define BYTES (256 * 1024)
#define MOST  400

static unsigned char *memory;

static int open_pool(void **state) {
    (void)state;
    memory = aligned_alloc(4096, BYTES);
    if (memory == NULL)
        return -1;
    edge_pool_init(memory, BYTES);
    edge_pool_serve_libraries();
    return 0;
}

static int close_pool(void **state) {
    (void)state;
    free(memory);
    return 0;
}

static size_t used(void) {
    struct edge_pool_figures f;
    edge_pool_get_figures(&f);
    return f.used;
}

struct piece {
    unsigned char *p;
    size_t n;
    unsigned char fill;
};

static void check_piece(const struct piece *x) {
    for (size_t i = 0; i < x->n; i++)
        assert_int_equal(x->p[i], x->fill);
}

static void random_use_keeps_every_byte(void **state) {
    (void)state;
    struct piece pieces[MOST] = {{0}};
    uint32_t seed = 7;
    unsigned refused = 0;
    const size_t before = used(), largest = edge_pool_largest();
    for (int step = 0; step < 200000; step++) {
        seed = seed * 1664525u + 1013904223u;
        struct piece *x = &pieces[(seed >> 8) % MOST];
        const size_t n = (seed >> 20) % 64 == 0 ? (seed >> 4) % 40000 : (seed >> 16) % 700;
        if (x->p == NULL || (seed & 3) == 0) {
            check_piece(x);
            unsigned char *p = edge_pool_resize(x->p, n);
            if (p == NULL) {
                refused++;
                if (x->p != NULL)
                    check_piece(x); /* as it was */
                continue;
            }
            assert_true((uintptr_t)p % 16 == 0 && p >= memory && p + n <= memory + BYTES);
            for (size_t i = 0; i < x->n && i < n; i++)
                assert_int_equal(p[i], x->fill);
            *x = (struct piece){p, n, (unsigned char)step};
            memset(p, x->fill, n);
        } else {
            check_piece(x);
            edge_pool_free(x->p);
            *x = (struct piece){0};
        }
        if (step % 64 == 0 || step < 1000)
            assert_true(edge_pool_is_whole());
    }
    assert_true(refused > 100); /* it was full at times */
    for (int i = 0; i < MOST; i++)
        edge_pool_free(pieces[i].p);
    assert_int_equal(used(), before);
    assert_int_equal(edge_pool_largest(), largest); /* joined to one block again */
}

static void sizes_beyond_it_are_refused(void **state) {
    (void)state;
    assert_null(edge_pool_alloc(BYTES));
    assert_null(edge_pool_alloc(SIZE_MAX));
    assert_null(edge_pool_alloc(SIZE_MAX - 8));
    assert_null(edge_pool_zeroed(SIZE_MAX / 2, 4));
    void *p = edge_pool_alloc(0);
    assert_non_null(p);
    assert_null(edge_pool_resize(p, SIZE_MAX));
    edge_pool_free(p);
    struct edge_pool_figures f;
    edge_pool_get_figures(&f);
    assert_int_equal(f.failures, 5);
    assert_true(f.peak <= f.bytes && f.bytes == BYTES);
    p = edge_pool_alloc(edge_pool_largest());
    assert_non_null(p);
    edge_pool_free(p);
}

/* What is lent is in use, but no part of the peak; what is taken meanwhile is. */
static void what_is_lent_is_no_peak(void **state) {
    (void)state;
    struct edge_pool_figures before, f;
    edge_pool_get_figures(&before);
    assert_int_equal(before.peak, before.used);
    void *room = edge_pool_lend(edge_pool_largest() / 2);
    assert_non_null(room);
    edge_pool_get_figures(&f);
    assert_true(f.used > before.used + BYTES / 3);
    assert_int_equal(f.peak, before.peak);
    void *p = edge_pool_alloc(1000);
    edge_pool_get_figures(&f);
    assert_in_range(f.peak, before.peak + 1000, before.peak + 1100);
    edge_pool_free(p);
    edge_pool_take_back(room);
    edge_pool_get_figures(&f);
    assert_int_equal(f.used, before.used);
    assert_null(edge_pool_lend(BYTES));
    room = edge_pool_lend(16);
    edge_pool_take_back(room);
}

static void load_deep(void *context) {
    char *text = malloc(400000);
    assert_non_null(text);
    for (int i = 0; i < 100000; i++)
        memcpy(text + 3 * i, "[],", 3);
    text[0] = '[';
    text[1] = '1';
    memcpy(text + 299997, "[]]", 3);
    *(char **)context = text; /* who called frees it */
    assert_null(json_loadb(text, 300000, 0, NULL));
    fail_msg("that many arrays fit?");
}

static json_t *kept;
static void load_small(void *context) {
    (void)context;
    kept = json_loads("{\"a\": [1, 2, {\"b\": \"text\"}]}", 0, NULL);
}

static void json_that_does_not_fit_leaves_nothing(void **state) {
    (void)state;
    const size_t before = used();
    char *text = NULL;
    assert_false(edge_pool_try_json(load_deep, &text));
    free(text);
    assert_int_equal(used(), before);
    assert_true(edge_pool_try_json(load_small, NULL));
    assert_non_null(kept);
    assert_true(used() > before);
    json_decref(kept);
    assert_int_equal(used(), before);
}

/* Of two regions side by side, none gives a block that goes over the boundary. */
static void regions(void **state) {
    edge_pool_init(memory, BYTES / 2);
    edge_pool_add(memory + BYTES / 2, BYTES / 2);
    struct edge_pool_figures f;
    edge_pool_get_figures(&f);
    assert_int_equal(f.bytes, BYTES);
    assert_true(edge_pool_is_whole());
    assert_null(edge_pool_alloc(BYTES / 2));
    void *a = edge_pool_alloc(BYTES / 2 - 20000), *b = edge_pool_alloc(BYTES / 2 - 20000);
    assert_non_null(a);
    assert_non_null(b);
    assert_true(edge_pool_is_whole());
    edge_pool_free(a);
    edge_pool_free(b);
    random_use_keeps_every_byte(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(random_use_keeps_every_byte, open_pool, close_pool),
        cmocka_unit_test_setup_teardown(regions, open_pool, close_pool),
        cmocka_unit_test_setup_teardown(sizes_beyond_it_are_refused, open_pool, close_pool),
        cmocka_unit_test_setup_teardown(what_is_lent_is_no_peak, open_pool, close_pool),
        cmocka_unit_test_setup_teardown(json_that_does_not_fit_leaves_nothing, open_pool, close_pool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
