/* The filter and the length list of special tokens. */
#include "tokenizer/specials.h"

#include <stdlib.h>
#include <string.h>

#define PAIRS_BYTES 8192

void specials_carve(struct specials *s, uint64_t limit, struct carve *c) {
    s->pairs = carve_take(c, PAIRS_BYTES, 1);
    s->lengths = carve_take(c, limit, sizeof *s->lengths);
}

static bool is_wanted(const struct specials *s, uint8_t bits) {
    if (s->parse_control)
        return (bits & VOCAB_SPECIAL) != 0;
    return (bits & VOCAB_SPECIAL) == VOCAB_USER;
}

static int longer_first(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x < y) - (x > y);
}

void specials_fill(struct specials *s, const struct vocab *v, bool parse_control, uint64_t limit) {
    memset(s->pairs, 0, PAIRS_BYTES);
    s->parse_control = parse_control;
    uint32_t n = 0;
    for (uint32_t i = 0; i < v->n; i++) {
        struct gguf_text text = vocab_text(v, (int32_t)i);
        if (!is_wanted(s, v->bits[i]) || text.length == 0)
            continue;
        CHECK(n < limit);
        s->lengths[n++] = (uint32_t)text.length;
        uint32_t first = (unsigned char)text.data[0];
        if (text.length == 1)
            memset(s->pairs + first * 32, 0xFF, 32);
        else
            s->pairs[first * 32 + (unsigned char)text.data[1] / 8] |=
                (uint8_t)(1 << (unsigned char)text.data[1] % 8);
    }
    if (n > 0)
        qsort(s->lengths, n, sizeof *s->lengths, longer_first);
    s->n = 0;
    for (uint32_t i = 0; i < n; i++)
        if (i == 0 || s->lengths[i] != s->lengths[i - 1])
            s->lengths[s->n++] = s->lengths[i];
}

int32_t specials_match(const struct specials *s, const struct vocab *v, const char *text, uint64_t n) {
    if (s->n == 0)
        return -1;
    uint32_t first = (unsigned char)text[0], second = n > 1 ? (unsigned char)text[1] : 0;
    if (n > 1 && (s->pairs[first * 32 + second / 8] >> second % 8 & 1) == 0)
        return -1;
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->lengths[i] > n)
            continue;
        int32_t id = vocab_find(v, text, s->lengths[i]);
        if (id >= 0 && is_wanted(s, v->bits[id]))
            return id;
    }
    return -1;
}
