#include "grammar/until.h"

#include "base/arith.h"
#include "base/check.h"

#include <string.h>

/* The last n bytes that were read are the beginning of a text. */
struct place {
    uint32_t text, n;
};

struct automaton {
    struct regex *r;
    const struct until *u;
    struct place places[UNTIL_BYTES];
    uint32_t nodes[UNTIL_BYTES], rules[UNTIL_BYTES], n;
};

static bool begins(const struct until *u, uint32_t text, const char *p, size_t n) {
    return n <= u->texts[text].n && memcmp(u->texts[text].text, p, n) == 0;
}

static uint32_t place_of(const struct automaton *a, uint32_t text, uint32_t n) {
    for (uint32_t i = 0; i < a->n; i++)
        if (a->places[i].n == n && begins(a->u, a->places[i].text, a->u->texts[text].text, n))
            return i;
    return a->n;
}

/* All beginnings of all texts, each once; the empty one is the first. */
static void list_places(struct automaton *a) {
    for (uint32_t text = 0; text < a->u->n; text++)
        for (uint32_t n = 0; n < a->u->texts[text].n; n++)
            if (place_of(a, text, n) == a->n) {
                CHECK(a->n < UNTIL_BYTES);
                a->nodes[a->n] = regex_make_rule(a->r, &a->rules[a->n]);
                a->places[a->n++] = (struct place){text, n};
            }
}

/* The node after these bytes: what follows the longest text that ends here, or else the place of the longest
 * end of them that a text begins with. */
static uint32_t node_after(const struct automaton *a, const char *p, size_t n) {
    const struct until *u = a->u;
    uint32_t whole = u->n;
    for (uint32_t text = 0; text < u->n; text++)
        if (u->texts[text].n <= n && begins(u, text, p + n - u->texts[text].n, u->texts[text].n) &&
            (whole == u->n || u->texts[text].n > u->texts[whole].n))
            whole = text;
    if (whole < u->n)
        return u->texts[whole].behind;
    for (size_t k = n; k > 0; k--)
        for (uint32_t text = 0; text < u->n; text++)
            if (begins(u, text, p + n - k, k))
                return a->nodes[place_of(a, text, (uint32_t)k)];
    return a->nodes[0];
}

/* All ways on from a place, bytes that lead to the same node together. */
static uint32_t body_of(const struct automaton *a, const struct place *at) {
    struct regex *r = a->r;
    char p[UNTIL_BYTES];
    uint32_t after[256];
    const uint32_t mark = r->n_stack;
    bool listed[256] = {false}, occurs[256] = {false};
    memcpy(p, a->u->texts[at->text].text, at->n);
    for (uint32_t text = 0; text < a->u->n; text++)
        for (size_t i = 0; i < a->u->texts[text].n; i++)
            occurs[(uint8_t)a->u->texts[text].text[i]] = true;
    for (uint32_t byte = 0; byte < 256; byte++) {
        p[at->n] = (char)byte;
        after[byte] = occurs[byte] ? node_after(a, p, at->n + 1) : a->nodes[0];
    }
    for (uint32_t byte = 0; byte < 256; byte++) {
        struct regex_set set = {{0}};
        for (uint32_t b = byte; b < 256 && !listed[byte]; b++)
            if (after[b] == after[byte]) {
                set.bits[b / 64] |= 1ull << b % 64;
                listed[b] = b > byte;
            }
        if (listed[byte])
            continue;
        const uint32_t one = regex_make_concat(r, regex_make_bytes(r, &set), after[byte]);
        regex_push(r, one);
    }
    if (a->u->may_end)
        regex_push(r, REGEX_EMPTY);
    return regex_take_or(r, mark);
}

uint32_t until_make(struct regex *r, const struct until *u) {
    struct automaton a = {.r = r, .u = u};
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < u->n; i++)
        bytes += u->texts[i].n;
    CHECK(u->n > 0 && u->n <= UNTIL_TEXTS && bytes <= UNTIL_BYTES);
    list_places(&a);
    for (uint32_t i = 0; i < a.n && regex_spend(r, bytes); i++)
        regex_set_rule(r, a.rules[i], body_of(&a, &a.places[i]));
    return a.n > 0 ? a.nodes[0] : REGEX_DEAD;
}
