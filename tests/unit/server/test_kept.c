/* Texts by id: the newest counts, the oldest go, and none is ever mistaken for another. */
#include "testing.h"

#include "server/http/edge_pool.h"
#include "server/kept/kept.h"

#define BYTES (1u << 20)

static struct kept kept;

static void open_kept(size_t bytes) {
    static void *memory;
    if (memory == NULL)
        memory = aligned_alloc(4096, BYTES);
    assert_non_null(memory);
    edge_pool_init(memory, BYTES);
    assert_true(kept_open(&kept, bytes));
}

static void check(const char *id, const char *text) {
    size_t n = 0;
    const char *p = kept_get(&kept, id, &n);
    assert_true((p != NULL) == (text != NULL));
    if (text == NULL)
        return;
    assert_int_equal(n, strlen(text));
    assert_memory_equal(p, text, n);
}

static void texts_by_id(void **state) {
    (void)state;
    open_kept(4096);
    check("a", NULL);
    kept_put(&kept, "a", "one", 3);
    kept_put(&kept, "b", "", 0);
    kept_put(&kept, "a", "two", 3);
    check("a", "two");
    check("b", "");
    check("c", NULL);
    static char large[2048];
    kept_put(&kept, "c", large, sizeof large); /* more than a quarter */
    check("c", NULL);
    const struct kept none = {0};
    size_t n = 0;
    assert_null(kept_get(&none, "a", &n));
    assert_null(kept_get(NULL, "a", &n));
    struct kept too_large;
    assert_false(kept_open(&too_large, 2 * BYTES));
}

/* Random ids and lengths against a plain table: what is found is the newest of its id, and the last few are
 * always found. */
static void the_oldest_go(void **state) {
    (void)state;
    enum { IDS = 300, LAST = 8 };
    static char texts[IDS][256];
    static uint64_t put[IDS];
    uint64_t random = 7;
    open_kept(8192);
    uint32_t found = 0, gone = 0;
    for (uint64_t step = 1; step <= 20000; step++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        const uint32_t i = (uint32_t)(random >> 40) % IDS, n = (uint32_t)(random >> 20) % 200;
        char id[32];
        snprintf(id, sizeof id, "call_%u", i);
        snprintf(texts[i], sizeof texts[i], "%llu %0*d", (unsigned long long)step, (int)n + 1, 0);
        kept_put(&kept, id, texts[i], strlen(texts[i]));
        put[i] = step;
        const uint32_t other = (uint32_t)(random >> 33) % IDS;
        snprintf(id, sizeof id, "call_%u", other);
        size_t length = 0;
        const bool there = put[other] > 0 && kept_get(&kept, id, &length) != NULL;
        if (there)
            check(id, texts[other]);
        assert_true(there || put[other] == 0 || step - put[other] >= LAST);
        found += there;
        gone += !there;
    }
    assert_true(found > 1000 && gone > 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_by_id),
        cmocka_unit_test(the_oldest_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
