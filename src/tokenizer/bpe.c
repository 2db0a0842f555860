/* Words to ids by merging bytes, and the byte alphabet of GPT-2. */
#include "tokenizer/bpe.h"

#include "tokenizer/utf8.h"

/* A word with more replaced bytes than this is cut after every so many of them, so that the workspace need
 * not triple for input that is not text. */
#define REPAIRS_IN_WORD 1024

void bpe_fill_bytes(struct bpe *b, const struct vocab *v) {
    for (int i = 0; i < BPE_CHARS; i++)
        b->byte_of_char[i] = -1;
    uint16_t next = 256;
    for (int byte = 0; byte < 256; byte++) {
        /* Visible Latin-1 characters stand for themselves, the others in order for U+0100 and up. */
        bool visible = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
        uint16_t c = visible ? (uint16_t)byte : next++;
        b->char_of_byte[byte] = c;
        b->byte_of_char[c] = (int16_t)byte;
        char text[2] = {c < 0x80 ? (char)c : (char)(0xC0 | c >> 6), (char)(0x80 | (c & 0x3F))};
        b->byte_ids[byte] = vocab_find(v, text, c < 0x80 ? 1 : 2);
    }
}

void bpe_carve(struct bpe_work *w, const struct vocab *v, uint64_t length, struct carve *c) {
    uint64_t repaired = arith_must_mul(length, sizeof UTF8_REPLACEMENT - 1);
    w->symbols = arith_must_add(length, (sizeof UTF8_REPLACEMENT - 2) * REPAIRS_IN_WORD);
    w->text = carve_take(c, repaired, 1);
    w->starts = carve_take(c, repaired / 64 + 1, sizeof *w->starts);
    w->merger.symbols = carve_take(c, w->symbols, sizeof *w->merger.symbols);
    w->merger.heap = carve_take(c, w->symbols, 2 * sizeof *w->merger.heap);
    w->word = carve_take(c, v->longest, 1);
    w->pool = carve_take(c, SPLIT_POOL, 1);
}

static void pair(const void *context, struct merger *m, uint32_t left) {
    const struct bpe *b = context;
    struct merger_symbol *s = &m->symbols[left];
    const struct merge_slot *slot = merge_table_find(&b->merges, s->id, m->symbols[s->next].id);
    if (slot == NULL)
        return;
    s->rank = slot->rank;
    s->merged = slot->merged;
}

/* The token that is spelled like the whole word, or -1. */
static int32_t find_word(const struct bpe *b, const struct vocab *v, char *buffer, const char *text,
                         uint64_t n) {
    uint64_t at = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint16_t c = b->char_of_byte[(unsigned char)text[i]];
        if (at + 2 > v->longest && (c >= 0x80 || at + 1 > v->longest))
            return -1;
        if (c >= 0x80)
            buffer[at++] = (char)(0xC0 | c >> 6);
        buffer[at++] = c < 0x80 ? (char)c : (char)(0x80 | (c & 0x3F));
    }
    return vocab_find(v, buffer, at);
}

/* No byte of a text vanishes. */
static stator_status put_unknown(const struct bpe *b, unsigned char byte, struct ids *out, stator_error *e) {
    if (b->unknown < 0)
        return error_set(
            e, STATOR_USAGE,
            "the text has the byte 0x%02X, for which this model's vocabulary has no token (nor one "
            "for what it does not know): take it out of the text",
            byte);
    ids_put(out, b->unknown);
    return STATOR_OK;
}

static stator_status encode_word(const struct bpe *b, const struct vocab *v, struct bpe_work *w,
                                 const char *text, uint64_t n, struct ids *out, stator_error *e) {
    CHECK(n <= w->symbols);
    if (b->ignore_merges) {
        int32_t id = find_word(b, v, w->word, text, n);
        if (id >= 0) {
            ids_put(out, id);
            return STATOR_OK;
        }
    }
    for (uint64_t i = 0; i < n; i++)
        w->merger.symbols[i].id = b->byte_ids[(unsigned char)text[i]];
    w->merger.pair = pair;
    w->merger.context = b;
    merger_run(&w->merger, (uint32_t)n);
    stator_status st = STATOR_OK;
    for (uint32_t i = 0; i != MERGER_END && st == STATOR_OK; i = w->merger.symbols[i].next) {
        if (w->merger.symbols[i].id >= 0)
            ids_put(out, w->merger.symbols[i].id);
        else /* never merged, so one byte */
            st = put_unknown(b, (unsigned char)text[i], out, e);
    }
    return st;
}

static void cut_garbage(const char *text, uint64_t n, uint64_t *starts) {
    uint64_t repairs = 0;
    for (uint64_t i = 0; i < n;) {
        if ((starts[i / 64] >> i % 64 & 1) != 0)
            repairs = 0;
        uint64_t length = (uint64_t)utf8_length(text + i, n - i);
        repairs += length == 3 && memcmp(text + i, UTF8_REPLACEMENT, 3) == 0;
        i += length;
        if (repairs == REPAIRS_IN_WORD) {
            starts[i / 64] |= 1ull << i % 64;
            repairs = 0;
        }
    }
}

stator_status bpe_encode(const struct bpe *b, const struct vocab *v, struct bpe_work *w, const char *text,
                         uint64_t length, struct ids *out, stator_error *e) {
    uint64_t repairs = 0;
    if (utf8_valid_prefix(text, length) != length) {
        length = utf8_repair(text, length, w->text, &repairs);
        text = w->text;
    }
    stator_status st = split_text(b->splitter, text, length, w->starts, w->pool, e);
    if (st != STATOR_OK)
        return st;
    if (repairs > REPAIRS_IN_WORD)
        cut_garbage(text, length, w->starts);
    for (uint64_t at = 0, end; at < length && st == STATOR_OK; at = end) {
        end = split_next(w->starts, at);
        st = encode_word(b, v, w, text + at, end - at, out, e);
    }
    return st;
}

uint64_t bpe_piece(const struct bpe *b, struct gguf_text text, char *out, uint64_t capacity) {
    uint64_t n = 0;
    for (uint64_t i = 0; i < text.length;) {
        const unsigned char *p = (const unsigned char *)text.data + i;
        int length = utf8_length(text.data + i, text.length - i);
        uint32_t c = length == 1   ? p[0]
                     : length == 2 ? (uint32_t)(p[0] & 0x1F) << 6 | (p[1] & 0x3F)
                                   : BPE_CHARS;
        int16_t byte = c < BPE_CHARS ? b->byte_of_char[c] : -1;
        int copied = length > 0 ? length : 1;
        /* A character that stands for no byte stands for itself. */
        for (int k = 0; k < (byte >= 0 ? 1 : copied); k++, n++)
            if (n < capacity)
                out[n] = byte >= 0 ? (char)byte : (char)p[k];
        i += (uint64_t)copied;
    }
    return n;
}
