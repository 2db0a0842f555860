#include "engine/draft/ngram.h"

#include "base/hash.h"

#include <string.h>

#define LOOKS   64 /* places with the same last pair that are compared, */
#define LONGEST 32 /* as far back */

void ngram_lay_out(struct ngram *g, struct carve *c, uint32_t context) {
    *g = (struct ngram){.n_buckets = 64};
    while (g->n_buckets < context && g->n_buckets < 1u << 24)
        g->n_buckets *= 2;
    g->newest = carve_take(c, g->n_buckets, sizeof *g->newest);
    g->older = carve_take(c, (uint64_t)context + 2, sizeof *g->older);
    if (c->base != NULL)
        ngram_clear(g);
}

void ngram_clear(struct ngram *g) {
    memset(g->newest, 0, g->n_buckets * sizeof *g->newest);
    g->n = 0;
}

/* Of the pair that ends before `place`. */
static uint32_t *bucket_of(const struct ngram *g, const int32_t *tokens, uint32_t place) {
    CHECK(place >= 2);
    return &g->newest[hash_of(tokens + place - 2, 2 * sizeof *tokens) & (g->n_buckets - 1)];
}

/* Tokens that the text has alike before a and before b, a < b. */
static uint32_t alike(const int32_t *tokens, uint32_t a, uint32_t b) {
    uint32_t n = 0;
    while (n < a && n < LONGEST && tokens[a - 1 - n] == tokens[b - 1 - n])
        n++;
    return n;
}

uint32_t ngram_guess(struct ngram *g, const int32_t *tokens, uint32_t n, int32_t *out, uint32_t most) {
    CHECK(g->n <= n); /* a text that is taken back begins anew */
    /* The pair at the very end comes in at the next call: here it is looked for. */
    for (uint32_t place = g->n < 2 ? 2 : g->n; place < n; place++) {
        uint32_t *newest = bucket_of(g, tokens, place);
        g->older[place] = *newest;
        *newest = place;
        g->n = place + 1;
    }
    if (n < 3 || most == 0)
        return 0;
    uint32_t best = 0;
    uint32_t length = 1; /* to be found, two must be alike */
    uint32_t place = *bucket_of(g, tokens, n);
    for (int i = 0; i < LOOKS && place != 0 && length < LONGEST; i++, place = g->older[place]) {
        uint32_t same = alike(tokens, place, n);
        if (same > length) {
            best = place;
            length = same;
        }
    }
    if (best == 0)
        return 0;
    for (uint32_t i = 0; i < most; i++) /* beyond the end it goes on as it was drafted */
        out[i] = best + i < n ? tokens[best + i] : out[best + i - n];
    return most;
}
