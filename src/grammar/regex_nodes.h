/* The nodes of expressions, for the parser of regular expressions and for their matcher. Makers return the
 * node that is equal, if there is one. When something has run out they set `result` and return REGEX_DEAD; so
 * a caller makes all it wants and looks at `result` once. */
#ifndef STATOR_GRAMMAR_REGEX_NODES_H
#define STATOR_GRAMMAR_REGEX_NODES_H

#include "grammar/regex.h"

#define REGEX_EMPTY     1u         /* the node that matches the empty text alone */
#define REGEX_FOREVER   UINT32_MAX /* the upper count of a repetition without one */
#define REGEX_MAX_DEPTH 1000u
#define REGEX_MAX_SETS  1024u

enum regex_kind {
    REGEX_KIND_NONE,   /* node 0 */
    REGEX_KIND_EMPTY,  /* node 1 */
    REGEX_KIND_BYTES,  /* a: a set of bytes */
    REGEX_KIND_CONCAT, /* a, then b */
    REGEX_KIND_OR,     /* b members from member a on, ascending */
    REGEX_KIND_REPEAT, /* a, at least lo and at most hi times */
    REGEX_KIND_BEGIN,  /* ^, only until regex_anchor */
    REGEX_KIND_END,    /* $ */
};

struct regex_node {
    uint8_t kind;
    bool accepts;   /* matches the empty text */
    bool anchored;  /* has BEGIN or END in it */
    bool needed;    /* while collecting */
    uint32_t depth; /* of the calls that a derivative needs */
    uint32_t a, b;
    uint32_t lo, hi;
    uint32_t row; /* its transitions; 0: none yet */
};

struct regex_set {
    uint64_t bits[4];
};

struct regex_memo {
    uint32_t node, class_plus_1, derivative;
};

struct regex {
    struct regex_node *nodes;
    uint32_t n_nodes, max_nodes, kept_nodes; /* kept: those of the compiled expression, never dropped */
    uint32_t *members;
    uint32_t n_members, max_members, kept_members;
    uint32_t *index; /* of nodes, by hash; 0: free */
    uint32_t index_mask;
    uint32_t *stack; /* lists under construction */
    uint32_t n_stack, max_stack;
    struct regex_memo *memo;
    uint32_t memo_mask;
    uint32_t *cells; /* rows of n_classes next states + 1; 0: unknown. Row 0 is not used */
    uint32_t n_rows, max_rows;
    struct regex_set *sets;
    uint32_t n_sets;
    uint8_t class_of[256], first_of[256]; /* bytes that no set tells apart are a class; one byte of each */
    uint32_t n_classes;
    uint32_t start;
    uint64_t steps, max_steps;
    enum regex_result result;
};

/* Lays an empty struct out in a block of regex_bytes(nodes). */
struct regex *regex_lay_out(void *memory, uint32_t nodes);
/* Spends steps; false when something has run out. */
bool regex_spend(struct regex *r, uint64_t steps);
uint32_t regex_make_bytes(struct regex *r, const struct regex_set *set);
uint32_t regex_make_anchor(struct regex *r, enum regex_kind kind);
uint32_t regex_make_concat(struct regex *r, uint32_t a, uint32_t b);
uint32_t regex_make_repeat(struct regex *r, uint32_t a, uint32_t lo, uint32_t hi);
/* Lists: regex_push on r->stack, then one of these takes all from mark on. */
void regex_push(struct regex *r, uint32_t node);
uint32_t regex_take_or(struct regex *r, uint32_t mark);
uint32_t regex_take_concat(struct regex *r, uint32_t mark);
/* Ends the making of the expression: start is its node. */
void regex_seal(struct regex *r, uint32_t start);

#endif
