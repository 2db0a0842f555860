/* Byte-level BPE: the text is cut into words, each word's bytes merge by the rank of their pairs. */
#ifndef STATOR_TOKENIZER_BPE_H
#define STATOR_TOKENIZER_BPE_H

#include "tokenizer/ids.h"
#include "tokenizer/merge_table.h"
#include "tokenizer/merger.h"
#include "tokenizer/split.h"

#define BPE_CHARS 324 /* characters that stand for bytes are below this */

struct bpe {
    struct splitter *splitter;
    struct merge_table merges;
    bool ignore_merges;
    int32_t byte_ids[256]; /* -1: this byte has no token */
    int32_t unknown;       /* which stands for such bytes; -1: they are refused */
    uint16_t char_of_byte[256];
    int16_t byte_of_char[BPE_CHARS]; /* -1: none */
};

struct bpe_work {
    char *text;       /* repaired */
    uint64_t *starts; /* of words */
    uint64_t symbols; /* a word's bytes at most */
    struct merger merger;
    char *word; /* one word as its token would be spelled; v->longest bytes */
    void *pool;
};

/* The characters and tokens that stand for bytes. */
void bpe_fill_bytes(struct bpe *b, const struct vocab *v);
void bpe_carve(struct bpe_work *w, const struct vocab *v, uint64_t length, struct carve *c);
/* length > 0. */
/* STATOR_USAGE: a byte of the text has no token, and there is none that stands for it. */
stator_status bpe_encode(const struct bpe *b, const struct vocab *v, struct bpe_work *w, const char *text,
                         uint64_t length, struct ids *out, stator_error *e);
/* The bytes that a normal token stands for; returns their number, writes at most capacity. */
uint64_t bpe_piece(const struct bpe *b, struct gguf_text text, char *out, uint64_t capacity);

#endif
