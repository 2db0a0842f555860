/* Text to ids and back, from the GGUF's metadata alone: SentencePiece-style BPE (tokenizer.ggml.model
 * "llama"; with merges, "gemma4") and byte-level BPE ("gpt2") with the pre-tokenizer patterns named by
 * tokenizer.ggml.pre.
 *
 * All tables live in memory given by the caller; token texts stay in the memory of the gguf. After
 * tokenizer_create nothing is allocated: encoding works in a workspace given by the caller. pcre2 objects
 * (compiled patterns, match data) are made in tokenizer_create out of the given memory through pcre2's
 * allocator hooks. Thread: read-only after create, except for the workspace: one encode at a time per
 * workspace. */
#ifndef STATOR_TOKENIZER_TOKENIZER_H
#define STATOR_TOKENIZER_TOKENIZER_H

#include "tokenizer/infill.h"

struct tokenizer;

/* Bytes that tokenizer_create needs for this file. STATOR_BAD_MODEL: missing or inconsistent tokenizer keys,
 * an unknown tokenizer.ggml.model or .pre (named, with the known ones). */
stator_status tokenizer_measure(const struct gguf *g, uint64_t *bytes, stator_error *e);
/* memory: aligned to 64, at least the measured bytes, outlives the tokenizer, as must g. */
stator_status tokenizer_create(const struct gguf *g, void *memory, uint64_t bytes, struct tokenizer **out,
                               stator_error *e);

/* Bytes of workspace to encode texts of up to `length` bytes (linear in it). */
uint64_t tokenizer_work_bytes(const struct tokenizer *t, uint64_t length);

#define TOKENIZER_ADD_SPECIAL   1 /* BOS / EOS by the file's rules */
#define TOKENIZER_PARSE_SPECIAL 2 /* control tokens written in the text are recognised */

/* *n = number of ids of the text; STATOR_USAGE if that is above capacity (ids then hold the first
 * `capacity`), or if the workspace is too small. Invalid UTF-8 is legal input: its bytes become byte tokens
 * (SentencePiece), or U+FFFD each before merging (byte-level; stricter than llama.cpp, which lets overlong
 * forms and surrogates pass). A byte that has no token gives the unknown token (tokenizer_count_unknown);
 * where a byte-level vocabulary has none it is STATOR_USAGE and named (llama.cpp drops it). Time is O(length
 * log length) at worst, texts are at most 1 GiB. */
stator_status tokenizer_encode(const struct tokenizer *t, const char *text, uint64_t length, uint32_t flags,
                               void *work, uint64_t work_bytes, int32_t *ids, uint64_t capacity, uint64_t *n,
                               stator_error *e);

/* Raw bytes of one token, as decoding appends them (byte tokens are their byte; SentencePiece blanks are
 * spaces; byte-level characters are mapped back). Control tokens give nothing unless special. Returns the
 * number of bytes; writes at most capacity of them. */
uint64_t tokenizer_piece(const struct tokenizer *t, int32_t id, bool special, char *out, uint64_t capacity);
uint64_t tokenizer_longest_piece(const struct tokenizer *t);

/* Streaming: whole UTF-8 characters only. Bytes that can't become a character come out as U+FFFD. */
struct tokenizer_stream {
    uint32_t pending; /* bytes in tail, < 4 */
    unsigned char tail[4];
    bool started; /* SentencePiece: the blank in front of the very first piece is dropped (when the file adds
                     one) */
};
/* out must hold 3 * (tokenizer_longest_piece() + 4) bytes; returns the bytes written. id < 0: flush the tail.
 */
uint64_t tokenizer_stream_next(const struct tokenizer *t, struct tokenizer_stream *s, int32_t id,
                               bool special, char *out);

uint32_t tokenizer_vocab(const struct tokenizer *t);
int32_t tokenizer_bos(const struct tokenizer *t); /* -1: none */
int32_t tokenizer_eos(const struct tokenizer *t);
const struct infill *tokenizer_infill(const struct tokenizer *t);
/* How many of these ids are the unknown token, which stands for what the vocabulary does not have: those who
 * show texts to models say it. */
uint64_t tokenizer_count_unknown(const struct tokenizer *t, const int32_t *ids, uint64_t n);
bool tokenizer_adds_bos(const struct tokenizer *t);
/* True for eos, eot and eom ids of the file and for the control tokens that end a turn ("<|eot_id|>",
 * "<|im_end|>", ...). */
bool tokenizer_is_end(const struct tokenizer *t, int32_t id);
bool tokenizer_is_control(const struct tokenizer *t, int32_t id);

#endif
