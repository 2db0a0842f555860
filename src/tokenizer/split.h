/* Cutting a text into words before byte-level BPE, with the patterns that tokenizer.ggml.pre names: each
 * pattern in turn cuts every piece so far into its matches and what lies between.
 *
 * Memory: patterns are compiled into given memory through pcre2's hooks, match data lives in the workspace.
 * No pattern repeats a group, so the matcher's frames do not grow with the text. Read-only after
 * split_create: any thread. */
#ifndef STATOR_TOKENIZER_SPLIT_H
#define STATOR_TOKENIZER_SPLIT_H

#include "base/error.h"
#include "model/gguf.h"

#define SPLIT_PATTERNS   6
#define SPLIT_POOL       (96u << 10) /* bytes of workspace for pcre2 */
#define SPLIT_NAMES_TEXT 1024

struct split_kind {
    const char *names; /* separated by blanks */
    const char *patterns[SPLIT_PATTERNS];
    bool ignore_merges; /* a word that is a token stays whole */
    bool adds_bos;      /* where the file does not say */
};

struct splitter;

/* NULL: unknown. */
const struct split_kind *split_find(struct gguf_text name);
/* The first name of every kind, for an error; returns out[SPLIT_NAMES_TEXT]. */
const char *split_names(char *out);

/* Bytes that split_create takes for this kind; found by compiling once (start-up only: uses the heap
 * meanwhile). */
stator_status split_measure(const struct split_kind *kind, uint64_t *bytes, stator_error *e);
stator_status split_create(const struct split_kind *kind, void *memory, uint64_t bytes, struct splitter **out,
                           stator_error *e);

/* starts: bit i of n + 1 bits is set where a word begins, and bit n. text is well-formed UTF-8, 0 < n < 2^32.
 * pool: SPLIT_POOL bytes, aligned to 64. */
stator_status split_text(const struct splitter *s, const char *text, uint64_t n, uint64_t *starts, void *pool,
                         stator_error *e);
/* The first set bit after `at`, which is below n. */
uint64_t split_next(const uint64_t *starts, uint64_t at);

#endif
