/* Regular expressions matched by derivatives: a state is the expression that the rest of the text must match,
 * and the next state is its derivative by the next byte. Nothing is expanded beforehand: x{2,100000} is one
 * node with two counters, and states are made when a text first reaches them.
 *
 * All memory is one block of the caller, and never grows. It holds expressions (nodes, equal ones once) and a
 * table of transitions. When the nodes are used up, regex_collect drops those that no state in use needs; the
 * table is simply emptied when it is full. Neither changes which texts match.
 *
 * Invariants: every state but REGEX_DEAD has a text that ends in a match. States are the same numbers until
 * the next regex_collect. Work per call is bounded by a number of steps. Thread: one at a time owns a struct
 * regex. */
#ifndef STATOR_GRAMMAR_REGEX_H
#define STATOR_GRAMMAR_REGEX_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REGEX_DEAD       0u     /* the state from which nothing matches */
#define REGEX_TEXT_LIMIT 65536u /* bytes of an expression */
#define REGEX_MAX_NODES  (1u << 24)
#define REGEX_MIN_NODES  256u

enum regex_anchoring {
    REGEX_WHOLE,  /* the whole text must match; ^ and $ are allowed at its ends and change nothing */
    REGEX_SEARCH, /* the expression may match anywhere, as a `pattern` of JSON Schema does */
};

enum regex_result {
    REGEX_OK,
    REGEX_FULL,  /* the nodes are used up: call regex_collect and try again */
    REGEX_STEPS, /* one byte would take more than the limit of steps */
    REGEX_DEPTH, /* the expression would be nested deeper than the limit */
};

struct regex;

/* Bytes for an expression with room for so many nodes; the block must be aligned to 64. nodes: a power of two
 * from REGEX_MIN_NODES to REGEX_MAX_NODES. */
uint64_t regex_bytes(uint32_t nodes);

/* Compiles text (UTF-8, the syntax of ECMA 262 with the flag u) in memory of regex_bytes(nodes) bytes; *r
 * then lies in it. STATOR_USAGE: the expression is wrong or has something that is not supported; the text
 * names it and its byte. STATOR_DOES_NOT_FIT: it needs more nodes or steps than there are. */
stator_status regex_compile(void *memory, uint32_t nodes, const char *text, size_t length,
                            enum regex_anchoring anchoring, struct regex **r, stator_error *e);

/* The state before the first byte. It survives every collection. */
uint32_t regex_start(const struct regex *r);
/* The text so far matches. */
bool regex_accepts(const struct regex *r, uint32_t state);
/* *next: the state after this byte; REGEX_DEAD when no match begins so. On an error *next is not written. */
enum regex_result regex_step(struct regex *r, uint32_t state, uint8_t byte, uint32_t *next);
/* *byte, and *next: the only byte that a text may go on with, and the state behind it. *byte is -1 where the
 * text may end or several bytes may come. */
enum regex_result regex_only_step(struct regex *r, uint32_t state, int *byte, uint32_t *next);
/* Drops what neither the start nor these states need, and gives them their new numbers. */
void regex_collect(struct regex *r, uint32_t *states, size_t n);
/* Those that the block has room for. */
uint32_t regex_nodes_planned(const struct regex *r);
uint32_t regex_nodes_used(const struct regex *r);

/* The whole of text matches. Collects, so other states of r are no longer valid. */
enum regex_result regex_matches(struct regex *r, const void *text, size_t length, bool *matches);

#endif
