/* A grammar of any kind, a small vocabulary and a walk: each mask is the same as trying every token alone.
 *
 * Input: a byte that says the kind, the grammar up to a NUL byte, the tokens with a byte 1 behind each up to
 * the next NUL byte, and a byte for each step of the walk. */
#include "fuzz.h"

#include "base/check.h"
#include "grammar/gbnf.h"
#include "grammar/json_parts.h"
#include "grammar/token_trie.h"

#include <stdlib.h>
#include <string.h>

#define NODES  4096u
#define TOKENS 64u
#define STEPS  12u

const char *const fuzz_kinds[] = {"regex", "gbnf", "schema", "parts", "step", NULL};

struct vocabulary {
    struct token_bytes tokens[TOKENS];
    uint32_t n;
    const struct token_trie *trie;
    void *memory;
    uint32_t *places;
};

/* Up to a byte `stop`, which is taken too. */
static size_t take(const uint8_t **data, size_t *size, uint8_t stop, const uint8_t **out) {
    const uint8_t *end = *size > 0 ? memchr(*data, stop, *size) : NULL;
    const size_t n = end != NULL ? (size_t)(end - *data) : *size;
    *out = *data;
    *data += n + (end != NULL);
    *size -= n + (end != NULL);
    return n;
}

static void build(struct vocabulary *v, const uint8_t *texts, size_t n) {
    uint32_t order[2 * TOKENS];
    uint64_t bytes = 0;
    stator_error e = {0};
    while (n > 0 && v->n < TOKENS) {
        struct token_bytes *t = &v->tokens[v->n++];
        const size_t length = take(&texts, &n, 1, &t->bytes);
        t->n = (uint32_t)(length < 64 ? length : 64);
    }
    CHECK(token_trie_order(v->tokens, v->n, order, &bytes, &e) == STATOR_OK);
    v->memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    CHECK(v->memory != NULL);
    v->trie = token_trie_build(v->memory, v->tokens, v->n, order);
    v->places = calloc(token_trie_places(v->trie), sizeof *v->places);
    CHECK(v->places != NULL);
}

static stator_status compile(uint8_t kind, void *memory, const char *text, size_t n, struct regex **r) {
    stator_error e = {0};
    switch (kind % 4) {
    case 0:
        return regex_compile(memory, NODES, text, n, REGEX_WHOLE, r, &e);
    case 1:
        return gbnf_compile(memory, NODES, text, n, r, &e);
    case 2:
        return json_schema_compile(memory, NODES, text, n, JSON_SCHEMA_COMPACT, r, &e);
    default:
        return json_parts_compile(memory, NODES, text, n, JSON_SCHEMA_COMPACT, r, &e);
    }
}

static uint64_t bytes_of(void) {
    uint64_t most = regex_bytes(NODES);
    most = gbnf_bytes(NODES) > most ? gbnf_bytes(NODES) : most;
    most = json_schema_bytes(NODES) > most ? json_schema_bytes(NODES) : most;
    return (most + 63) / 64 * 64;
}

/* *to: behind the token. It never collects, so that *state stays. */
static enum regex_result follow(struct regex *r, uint32_t state, const struct token_bytes *t, uint32_t *to) {
    enum regex_result result = REGEX_OK;
    *to = t->n > 0 ? state : REGEX_DEAD;
    for (uint32_t i = 0; i < t->n && *to != REGEX_DEAD && result == REGEX_OK; i++)
        result = regex_step(r, *to, t->bytes[i], to);
    return result;
}

/* *state: behind one of the allowed tokens. False: the walk ends. */
static bool walk(const struct vocabulary *v, struct regex *r, uint32_t *state, uint8_t choice) {
    uint64_t mask = 0;
    uint32_t next = REGEX_DEAD, n_allowed = 0;
    if (token_trie_mask(v->trie, r, state, 1, v->places, 100000, &mask) != REGEX_OK)
        return false;
    for (uint32_t i = 0; i < v->n; i++) {
        uint32_t to = REGEX_DEAD;
        if (follow(r, *state, &v->tokens[i], &to) != REGEX_OK)
            return false;
        CHECK((to != REGEX_DEAD) == (mask >> i & 1));
        if (to != REGEX_DEAD && n_allowed++ % 8 == choice % 8)
            next = to;
    }
    if (v->n > 0 && n_allowed > 0)
        fuzz_accepted("step");
    *state = next;
    return next != REGEX_DEAD;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *text, *texts;
    struct vocabulary v = {.n = 0};
    struct regex *r = NULL;
    if (size < 2)
        return 0;
    const uint8_t kind = *data++;
    size--;
    const size_t length = take(&data, &size, 0, &text), n_texts = take(&data, &size, 0, &texts);
    void *memory = aligned_alloc(64, bytes_of());
    CHECK(memory != NULL);
    if (compile(kind, memory, (const char *)text, length, &r) == STATOR_OK) {
        fuzz_accepted(fuzz_kinds[kind % 4]);
        build(&v, texts, n_texts);
        uint32_t state = regex_start(r);
        for (uint32_t i = 0; i < STEPS && walk(&v, r, &state, i < size ? data[i] : (uint8_t)i); i++)
            ;
        free(v.places);
        free(v.memory);
    }
    free(memory);
    return 0;
}
