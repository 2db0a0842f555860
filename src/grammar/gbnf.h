/* GBNF, the grammars of llama.cpp (its grammars/README.md), as an expression: `name ::= alternatives` per
 * rule, and `root` is what the whole text must match.
 *
 * Characters are code points, so `.` and [^x] allow line ends. Where a rule is defined twice, the last
 * definition counts, as in llama.cpp. Counts are exact at any size up to GBNF_MAX_COUNT.
 *
 * Refused: tokens (<name>, <[id]>, !<name>), left recursion, empty character classes, and ranges that end
 * before they begin. Memory: the caller's block; no heap. */
#ifndef STATOR_GRAMMAR_GBNF_H
#define STATOR_GRAMMAR_GBNF_H

#include "grammar/regex.h"

#define GBNF_TEXT_LIMIT (1u << 20) /* bytes of a grammar */
#define GBNF_MAX_COUNT  1000000u

uint64_t gbnf_bytes(uint32_t nodes);

/* *r then lies in memory, which has gbnf_bytes(nodes) bytes and is aligned to 64; nodes: see regex_bytes.
 * STATOR_USAGE: the grammar is wrong or has something that is not supported; the text names it, its line and
 * its column. STATOR_DOES_NOT_FIT: see regex_compile. */
stator_status gbnf_compile(void *memory, uint32_t nodes, const char *text, size_t length, struct regex **r,
                           stator_error *e);

#endif
