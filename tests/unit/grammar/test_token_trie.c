/* Masks over a vocabulary: each is the same as trying every token alone, however few nodes there are. */
#include "testing.h"

#include "grammar/json_schema.h"
#include "grammar/mask_cache.h"

#define TOKENS 300

struct vocabulary {
    uint8_t bytes[TOKENS][40];
    struct token_bytes tokens[TOKENS];
    void *memory;
    const struct token_trie *trie;
};

static void build(struct vocabulary *v, uint32_t n) {
    uint32_t order[2 * TOKENS];
    uint64_t bytes = 0;
    stator_error e = {0};
    assert_int_equal(token_trie_order(v->tokens, n, order, &bytes, &e), STATOR_OK);
    v->memory = aligned_alloc(64, bytes);
    assert_non_null(v->memory);
    v->trie = token_trie_build(v->memory, v->tokens, n, order);
    assert_int_equal(token_trie_tokens(v->trie), n);
}

/* Few letters, so that beginnings are shared and tokens are equal; some have no bytes. */
static void random_vocabulary(struct vocabulary *v, uint64_t *seed) {
    for (uint32_t i = 0; i < TOKENS; i++) {
        v->tokens[i] = (struct token_bytes){v->bytes[i], (uint32_t)testing_below(seed, 7)};
        if (testing_below(seed, 16) == 0)
            v->tokens[i].n = (uint32_t)testing_below(seed, 40);
        for (uint32_t k = 0; k < v->tokens[i].n; k++)
            v->bytes[i][k] = (uint8_t) "abc\"\\,\n\xC3\xA9\xF0\x9F"[testing_below(
                seed, testing_below(seed, 4) == 0 ? 11 : 3)];
    }
    build(v, TOKENS);
}

static struct regex *compile(const char *text, uint32_t nodes, void **memory) {
    struct regex *r = NULL;
    stator_error e = {0};
    *memory = aligned_alloc(64, regex_bytes(nodes));
    assert_non_null(*memory);
    if (regex_compile(*memory, nodes, text, strlen(text), REGEX_WHOLE, &r, &e) != STATOR_OK)
        fail_msg("%s: %s", text, e.text);
    return r;
}

static bool goes_on(struct regex *r, uint32_t state, const struct token_bytes *token) {
    for (uint32_t i = 0; i < token->n && state != REGEX_DEAD; i++)
        assert_int_equal(regex_step(r, state, token->bytes[i], &state), REGEX_OK);
    return token->n > 0 && state != REGEX_DEAD;
}

static const char *const expressions[] = {
    "(ab|ca)*c",
    "a{2,5}b{3}[^a]*",
    ".*abc.{2,9}",
    "[^b]{3}(b|\xC3\xA9)+",
    "(a|b\xC3\xA9|c){1,40}",
    "\"([^\"\\\\\\x00-\\x1f]|\\\\[\"n])*\"(,a*)?",
    "[^\"]{0,30}\"",
    "([^a][^])*|[^]*b",
    "abcabcabc",
    "(a{1,9}b){4}",
    "[^]*",
    "[abc]*a[abc]{8}",
    "([abc]{2,9}a){1,9}",
};

/* Walks along random allowed tokens, and compares the masks of two expressions with trying. */
static void masks(void **state) {
    (void)state;
    uint64_t seed = testing_seed("masks");
    size_t allowed = 0, forbidden = 0;
    for (size_t round = 0; round < 100; round++) {
        struct vocabulary v;
        random_vocabulary(&v, &seed);
        void *big_memory, *small_memory;
        const char *text = expressions[round % (sizeof expressions / sizeof *expressions)];
        struct regex *big = compile(text, 65536, &big_memory),
                     *small = compile(text, REGEX_MIN_NODES, &small_memory);
        uint32_t at = regex_start(big), small_at = regex_start(small), places[123];
        uint64_t mask[(TOKENS + 63) / 64], small_mask[(TOKENS + 63) / 64];
        struct mask_cache cache, small_cache;
        uint64_t room[2][3 * ((TOKENS + 63) / 64)];
        mask_cache_open(&cache, room[0], sizeof room[0], TOKENS);
        mask_cache_open(&small_cache, room[1], sizeof room[1] - 8, TOKENS);
        assert_true(cache.n == 3 && small_cache.n == 2);
        assert_true(token_trie_places(v.trie) <= 123);
        for (int step = 0; step < 12; step++) {
            uint32_t pick = UINT32_MAX, from = (uint32_t)testing_below(&seed, TOKENS);
            assert_int_equal(token_trie_mask(v.trie, big, &at, 1, places, UINT64_MAX, mask), REGEX_OK);
            assert_int_equal(token_trie_mask(v.trie, small, &small_at, 1, places, UINT64_MAX, small_mask),
                             REGEX_OK);
            assert_memory_equal(mask, small_mask, sizeof mask);
            for (int again = 0; again < 2; again++) {
                uint64_t kept[(TOKENS + 63) / 64];
                assert_int_equal(mask_cache_mask(&cache, v.trie, big, &at, 1, places, UINT64_MAX, kept),
                                 REGEX_OK);
                assert_memory_equal(mask, kept, sizeof mask);
                assert_int_equal(
                    mask_cache_mask(&small_cache, v.trie, small, &small_at, 1, places, UINT64_MAX, kept),
                    REGEX_OK);
                assert_memory_equal(mask, kept, sizeof mask);
            }
            for (uint32_t k = 0; k < TOKENS; k++) {
                uint32_t i = (from + k) % TOKENS;
                bool is = mask[i / 64] >> i % 64 & 1;
                if (is != goes_on(big, at, &v.tokens[i]))
                    fail_msg("%s: token %u, step %d", text, i, step);
                if (is && pick == UINT32_MAX)
                    pick = i;
                allowed += is;
                forbidden += !is;
            }
            if (pick == UINT32_MAX)
                break;
            for (uint32_t i = 0; i < v.tokens[pick].n; i++) {
                assert_int_equal(regex_step(big, at, v.bytes[pick][i], &at), REGEX_OK);
                enum regex_result result = regex_step(small, small_at, v.bytes[pick][i], &small_at);
                if (result == REGEX_FULL) {
                    regex_collect(small, &small_at, 1);
                    result = regex_step(small, small_at, v.bytes[pick][i], &small_at);
                }
                assert_int_equal(result, REGEX_OK);
            }
        }
        free(v.memory);
        free(big_memory);
        free(small_memory);
    }
    assert_true(allowed > 1000 && forbidden > 1000);
}

/* Strings with few characters left, names that are not those of properties, patterns: masks that are partly
 * known. */
static const char *const schemas[] = {
    "{\"type\":\"string\",\"maxLength\":5}",
    "{\"type\":\"string\",\"minLength\":3,\"maxLength\":20}",
    "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"maxLength\":7}}",
    "{\"properties\":{\"ab\":{},\"abc\":{\"type\":\"string\"},\"\u00e9\":{}}}",
    "{\"type\":\"object\",\"patternProperties\":{\"^a{2,6}$\":{\"maxLength\":2}},\"properties\":{\"b\":{}}}",
    "{\"type\":\"object\",\"propertyNames\":{\"maxLength\":4},\"additionalProperties\":{\"type\":\"string\"}"
    "}",
    "{\"type\":\"string\",\"pattern\":\"^[ab]*c\",\"maxLength\":9}",
};

static void schema_masks(void **state) {
    (void)state;
    uint64_t seed = testing_seed("schema masks");
    size_t allowed = 0, forbidden = 0;
    for (size_t round = 0; round < 70; round++) {
        struct vocabulary v;
        stator_error e = {0};
        struct regex *r = NULL;
        const char *text = schemas[round % (sizeof schemas / sizeof *schemas)], *begin = "{\"";
        void *memory = aligned_alloc(64, json_schema_bytes(16384));
        random_vocabulary(&v, &seed);
        assert_non_null(memory);
        if (json_schema_compile(memory, 16384, text, strlen(text), JSON_SCHEMA_COMPACT, &r, &e) != STATOR_OK)
            fail_msg("%s: %s", text, e.text);
        uint32_t at = regex_start(r), places[123];
        uint64_t mask[(TOKENS + 63) / 64];
        for (; *begin != '\0'; begin++) { /* into an object or a string, where there may be one */
            uint32_t next;
            assert_int_equal(regex_step(r, at, (uint8_t)*begin, &next), REGEX_OK);
            at = next != REGEX_DEAD ? next : at;
        }
        for (int step = 0; step < 12; step++) {
            uint32_t pick = UINT32_MAX, from = (uint32_t)testing_below(&seed, TOKENS);
            assert_int_equal(token_trie_mask(v.trie, r, &at, 1, places, UINT64_MAX, mask), REGEX_OK);
            for (uint32_t k = 0; k < TOKENS; k++) {
                uint32_t i = (from + k) % TOKENS;
                bool is = mask[i / 64] >> i % 64 & 1;
                if (is != goes_on(r, at, &v.tokens[i]))
                    fail_msg("%s: token %u, step %d", text, i, step);
                pick = is && pick == UINT32_MAX ? i : pick;
                allowed += is;
                forbidden += !is;
            }
            if (pick == UINT32_MAX)
                break;
            for (uint32_t i = 0; i < v.tokens[pick].n; i++)
                assert_int_equal(regex_step(r, at, v.bytes[pick][i], &at), REGEX_OK);
        }
        free(v.memory);
        free(memory);
    }
    assert_true(allowed > 1000 && forbidden > 1000);
}

static void limits(void **state) {
    (void)state;
    static uint8_t bytes[TOKEN_TRIE_MAX_LENGTH + 1];
    struct token_bytes tokens[2] = {{bytes, TOKEN_TRIE_MAX_LENGTH}, {bytes, TOKEN_TRIE_MAX_LENGTH + 1}};
    uint32_t order[4], *places = malloc(3 * (TOKEN_TRIE_MAX_LENGTH + 1) * sizeof *places);
    uint64_t size = 0, mask = 0;
    stator_error e = {0};
    assert_non_null(places);
    memset(bytes, 'a', sizeof bytes);
    assert_int_equal(token_trie_order(tokens, 2, order, &size, &e), STATOR_DOES_NOT_FIT);
    assert_non_null(strstr(e.text, "token 1 has 4097 bytes"));
    struct vocabulary v = {.tokens = {tokens[0]}};
    build(&v, 1);
    void *memory;
    struct regex *r = compile("a{1,4096}", 65536, &memory);
    uint32_t at = regex_start(r);
    assert_int_equal(token_trie_mask(v.trie, r, &at, 1, places, 1000, &mask), REGEX_STEPS);
    assert_int_equal(at, regex_start(r));
    assert_int_equal(token_trie_mask(v.trie, r, &at, 1, places, UINT64_MAX, &mask), REGEX_OK);
    assert_true(mask == 1);
    free(v.memory);
    free(memory);
    build(&v, 0);
    assert_int_equal(token_trie_places(v.trie), 3);
    free(v.memory);
    free(places);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(masks), cmocka_unit_test(schema_masks),
                                       cmocka_unit_test(limits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
