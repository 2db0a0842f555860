/* Small vocabularies for tests, written as GGUF: both kinds of tokenizer without the reference data. */
#ifndef STATOR_TESTS_TINY_VOCAB_H
#define STATOR_TESTS_TINY_VOCAB_H

#include "model/gguf_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TINY_VOCAB_MAX 600

struct tiny_vocab {
    char texts[TINY_VOCAB_MAX][64];
    const char *pointers[TINY_VOCAB_MAX];
    int32_t types[TINY_VOCAB_MAX];
    float scores[TINY_VOCAB_MAX];
    uint32_t n;
};

static inline int32_t tiny_vocab_add(struct tiny_vocab *v, const char *text, int32_t type, float score) {
    if (v->n == TINY_VOCAB_MAX)
        abort();
    snprintf(v->texts[v->n], sizeof v->texts[0], "%s", text);
    v->types[v->n] = type;
    v->scores[v->n] = score;
    return (int32_t)v->n++;
}

static inline int32_t tiny_vocab_id(const struct tiny_vocab *v, const char *text) {
    for (uint32_t i = 0; i < v->n; i++)
        if (strcmp(v->texts[i], text) == 0)
            return (int32_t)i;
    return -1;
}

/* The special tokens at the end of both vocabularies. */
static inline void tiny_vocab_add_specials(struct tiny_vocab *v) {
    tiny_vocab_add(v, "<|im_end|>", 3, 0);
    tiny_vocab_add(v, "<|a|>", 3, 0);
    tiny_vocab_add(v, "<|a|><|b|>", 3, 0);
    tiny_vocab_add(v, "[user]", 4, 0);
    tiny_vocab_add(v, "[user] ", 4, 0);
    tiny_vocab_add(v, "@", 4, 0);
    tiny_vocab_add(v, "[unused]", 5, 0);
    tiny_vocab_add(v, "[undefined]", 0, 0);
}

static inline void tiny_vocab_write(struct tiny_vocab *v, struct gguf_writer *w, const char *model) {
    for (uint32_t i = 0; i < v->n; i++)
        v->pointers[i] = v->texts[i];
    gguf_writer_text(w, "tokenizer.ggml.model", model);
    gguf_writer_texts(w, "tokenizer.ggml.tokens", v->n, v->pointers);
    gguf_writer_array(w, "tokenizer.ggml.scores", GGUF_F32, v->n, v->scores, v->n * sizeof v->scores[0]);
    gguf_writer_array(w, "tokenizer.ggml.token_type", GGUF_I32, v->n, v->types, v->n * sizeof v->types[0]);
}

/* SentencePiece: <unk>, <s>, </s>, 256 byte tokens, a few words. */
static inline void tiny_vocab_spm(struct tiny_vocab *v, struct gguf_writer *w) {
    memset(v, 0, sizeof *v);
    tiny_vocab_add(v, "<unk>", 2, 0);
    tiny_vocab_add(v, "<s>", 3, 0);
    tiny_vocab_add(v, "</s>", 3, 0);
    for (unsigned b = 0; b < 256; b++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", b);
        tiny_vocab_add(v, name, 6, 0);
    }
    static const char *const words[] = {"▁a", "ab", "aa", "▁▁",  "▁ab", "aaaa", "bc", "▁▁▁▁", "abc", "▁abc",
                                        "cc", "▁b", "ba", "bab", "a",   "b",    "c",  "▁",    "é",   "ééé"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        tiny_vocab_add(v, words[i], 1, -1.0f - (float)(i / 2)); /* equal scores in pairs */
    tiny_vocab_add_specials(v);
    tiny_vocab_write(v, w, "llama");
}

/* Byte-level BPE: the 256 byte characters, a few merges, <|endoftext|>. pre == NULL: the key is missing. */
static inline void tiny_vocab_bpe(struct tiny_vocab *v, struct gguf_writer *w, const char *pre) {
    memset(v, 0, sizeof *v);
    unsigned next = 256;
    for (unsigned b = 0; b < 256; b++) {
        unsigned c = (b > 32 && b < 127) || (b > 160 && b != 173) ? b : next++;
        char text[3] = {(char)(0xC0 | c >> 6), (char)(0x80 | (c & 63)), 0};
        if (c < 128)
            memcpy(text, (char[]){(char)c, 0}, 2);
        if (b == '@') /* only as a user-defined token, as some real vocabularies have it */
            continue;
        tiny_vocab_add(v, text, 1, 0);
    }
    static const char *const merges[] = {"a a",    "aa aa", "Ġ Ġ", "ĠĠ ĠĠ", "h e",  "l l", "he ll",
                                         "hell o", "Ġ a",   "a b", "b a",   "ab a", "Ċ Ċ", "1 1",
                                         "11 11",  "Ã ©",   "ð Ł", "ï ¿",   "ï¿ ½", "a a", "x nope"};
    size_t n = sizeof merges / sizeof merges[0];
    for (size_t i = 0; i + 2 < n; i++) {
        char text[64] = "";
        const char *blank = strchr(merges[i], ' ');
        snprintf(text, sizeof text, "%.*s%s", (int)(blank - merges[i]), merges[i], blank + 1);
        tiny_vocab_add(v, text, 1, 0);
    }
    tiny_vocab_add(v, "Ġhello", 1, 0); /* no merge leads to it */
    tiny_vocab_add(v, "<|endoftext|>", 3, 0);
    tiny_vocab_add_specials(v);
    tiny_vocab_write(v, w, "gpt2");
    gguf_writer_texts(w, "tokenizer.ggml.merges", n, merges);
    if (pre != NULL)
        gguf_writer_text(w, "tokenizer.ggml.pre", pre);
}

#endif
