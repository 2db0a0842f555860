/* Escaping, cutting into characters, merging by score. */
#include "tokenizer/spm.h"

#include "tokenizer/utf8.h"

#include <string.h>

#define BLANK "\xE2\x96\x81" /* U+2581 stands for a blank in tokens */

struct spm_context {
    const struct vocab *vocab;
    const struct spm_work *work;
    const struct merge_table *merges;
};

void spm_carve(struct spm_work *w, uint64_t length, struct carve *c) {
    uint64_t symbols = arith_must_add(length, 1); /* plus a blank in front */
    w->text = carve_take(c, symbols, sizeof BLANK - 1);
    w->at = carve_take(c, arith_must_add(symbols, 1), sizeof *w->at);
    w->merger.symbols = carve_take(c, symbols, sizeof *w->merger.symbols);
    w->merger.heap = carve_take(c, symbols, 2 * sizeof *w->merger.heap);
}

static uint64_t escape(const char *text, uint64_t length, bool blank_first, char *out) {
    uint64_t n = 0;
    for (uint64_t i = blank_first ? 0 : 1; i <= length; i++) {
        char c = i == 0 ? ' ' : text[i - 1];
        if (c == ' ') {
            memcpy(out + n, BLANK, sizeof BLANK - 1);
            n += sizeof BLANK - 1;
        } else {
            out[n++] = c;
        }
    }
    return n;
}

/* Higher scores get lower ranks; MERGER_NONE belongs to a NaN, which no score is. */
static uint32_t rank_of_score(float score) {
    score += 0.0f; /* -0 and 0 are equal */
    uint32_t bits;
    memcpy(&bits, &score, sizeof bits);
    return (bits >> 31) != 0 ? bits : ~(bits ^ 0x80000000u);
}

static void pair(const void *context, struct merger *m, uint32_t left) {
    const struct spm_context *x = context;
    struct merger_symbol *s = &m->symbols[left];
    uint32_t after = m->symbols[s->next].next, begin = x->work->at[left];
    uint32_t end = x->work->at[after == MERGER_END ? m->n : after];
    s->merged = vocab_find(x->vocab, x->work->text + begin, end - begin);
    if (s->merged >= 0)
        s->rank = rank_of_score(vocab_score(x->vocab, s->merged));
}

static void pair_of_table(const void *context, struct merger *m, uint32_t left) {
    const struct spm_context *x = context;
    struct merger_symbol *s = &m->symbols[left];
    const char *right = x->work->text + x->work->at[s->next];
    if ((right[-1] == '\n') != (right[0] == '\n'))
        return;
    const struct merge_slot *slot = merge_table_find(x->merges, s->id, m->symbols[s->next].id);
    if (slot == NULL)
        return;
    s->rank = slot->rank;
    s->merged = slot->merged;
}

/* Bytes of the symbol that a text begins with: a character, or with a table a run of line breaks that is a
 * token. A byte outside any character is a symbol of its own, so that it does not swallow what follows
 * (llama.cpp goes by the first byte alone, and a blank that is swallowed that way comes back as U+2581). */
static uint64_t first_symbol(const struct spm_context *x, const char *text, uint64_t bytes, bool at_break) {
    uint64_t run = 0;
    while (x->merges != NULL && at_break && run < bytes && text[run] == '\n')
        run++;
    if (run > 1 && vocab_find(x->vocab, text, run) >= 0)
        return run;
    int length = utf8_length(text, bytes);
    return length > 0 ? (uint64_t)length : 1;
}

void spm_encode(const struct vocab *v, const int32_t *byte_ids, const struct merge_table *merges,
                struct spm_work *w, const char *text, uint64_t length, bool blank_first, struct ids *out) {
    uint64_t bytes = escape(text, length, blank_first, w->text);
    if (bytes == 0)
        return;
    struct spm_context context = {v, w, merges};
    uint32_t n = 0;
    for (uint64_t i = 0; i < bytes; n++) {
        uint64_t size = first_symbol(&context, w->text + i, bytes - i, i == 0 || w->text[i - 1] != '\n');
        w->at[n] = (uint32_t)i;
        w->merger.symbols[n].id = vocab_find(v, w->text + i, size);
        i += size;
    }
    w->at[n] = (uint32_t)bytes;
    w->merger.pair = merges != NULL ? pair_of_table : pair;
    w->merger.context = &context;
    merger_run(&w->merger, n);
    for (uint32_t i = 0; i != MERGER_END;) {
        const struct merger_symbol *s = &w->merger.symbols[i];
        uint32_t end = w->at[s->next == MERGER_END ? n : s->next];
        if (s->id >= 0)
            ids_put(out, s->id);
        else
            for (uint32_t b = w->at[i]; b < end; b++)
                ids_put(out, byte_ids[(unsigned char)w->text[b]]);
        i = s->next;
    }
    w->merger.context = NULL;
}
