/* The nodes of expressions, for the front ends and for the matcher. Makers return the
 * node that is equal, if there is one. When something has run out they set `result` and return REGEX_DEAD; so
 * a caller makes all it wants and looks at `result` once. */
#ifndef STATOR_GRAMMAR_REGEX_NODES_H
#define STATOR_GRAMMAR_REGEX_NODES_H

#include "grammar/regex.h"

#define REGEX_EMPTY     1u         /* the node that matches the empty text alone */
#define REGEX_FOREVER   UINT32_MAX /* the upper count of a repetition without one */
#define REGEX_MAX_DEPTH 1000u      /* calls inside each other that a derivative may need */
#define REGEX_MAX_SETS  1024u

#define REGEX_MAX_RANGES 512u /* of a class of characters */
#define REGEX_LAST_POINT 0x10FFFFu

enum regex_kind {
    REGEX_KIND_NONE,   /* node 0 */
    REGEX_KIND_EMPTY,  /* node 1 */
    REGEX_KIND_BYTES,  /* a: a set of bytes */
    REGEX_KIND_TEXT,   /* b bytes from byte a of the texts on */
    REGEX_KIND_CONCAT, /* a, which is no CONCAT, then b */
    REGEX_KIND_OR,     /* b members from member a on, ascending */
    REGEX_KIND_REPEAT, /* a, at least lo and at most hi times */
    REGEX_KIND_RULE,   /* what rule a stands for */
    REGEX_KIND_AND,    /* a and b, a < b */
    REGEX_KIND_NOT,    /* every text that is not a. Only inside of AND */
    REGEX_KIND_BEGIN,  /* ^, only until regex_anchor */
    REGEX_KIND_END,    /* $ */
};

/* What is known about a property of a node. */
enum regex_known { REGEX_UNKNOWN, REGEX_YES, REGEX_NO, REGEX_ASKED /* while it is looked for */ };

struct regex_node {
    uint8_t kind;
    bool accepts;    /* matches the empty text */
    bool anchored;   /* has BEGIN or END in it */
    bool boolean;    /* has AND, NOT or RULE in it */
    bool needed;     /* while collecting */
    uint8_t alive;   /* regex_known: some text matches; asked of boolean nodes only */
    uint8_t plain;   /* regex_known: every plain text (plain_text.h) can go on to a match */
    bool plain_self; /* and every plain character leads here again */
    uint32_t a, b;
    uint32_t lo, hi;
    uint32_t row; /* its transitions; 0: none yet */
};

struct regex_set {
    uint64_t bits[4];
};

struct regex_rule {
    uint32_t body;
    uint8_t color; /* while left recursion is looked for */
};

struct regex_memo {
    uint32_t node, class_plus_1, derivative;
};

struct regex {
    struct regex_node *nodes;
    uint32_t n_nodes, max_nodes, kept_nodes; /* kept: those of the compiled expression, never dropped */
    uint32_t *members;
    uint32_t n_members, max_members, kept_members;
    uint8_t *texts; /* of TEXT nodes; they stay */
    uint32_t n_texts, max_texts;
    struct regex_rule *rules;
    uint32_t n_rules, max_rules;
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
    uint32_t collections; /* so far: each may give states new numbers */
    uint32_t plain_char;  /* the node of a character of a JSON string, or REGEX_DEAD */
    uint32_t depth;       /* of the derivative that is being made */
    bool searching;       /* AND nodes are made without asking whether some text matches */
    bool sealed;
    uint64_t steps, max_steps;
    enum regex_result result;
};

/* Lays an empty struct out in a block of regex_bytes(nodes). */
struct regex *regex_lay_out(void *memory, uint32_t nodes);
/* Spends steps; false when something has run out. */
bool regex_spend(struct regex *r, uint64_t steps);
uint32_t regex_make_bytes(struct regex *r, const struct regex_set *set);
/* Until the seal only. */
uint32_t regex_make_text(struct regex *r, const void *bytes, uint32_t n);
/* What is left of a TEXT behind its first byte. */
uint32_t regex_make_tail(struct regex *r, const struct regex_node *text);
/* at: its byte in the text, for messages. */
uint32_t regex_make_anchor(struct regex *r, enum regex_kind kind, uint32_t at);
uint32_t regex_make_concat(struct regex *r, uint32_t a, uint32_t b);
uint32_t regex_make_repeat(struct regex *r, uint32_t a, uint32_t lo, uint32_t hi);
uint32_t regex_make_and(struct regex *r, uint32_t a, uint32_t b);
uint32_t regex_make_not(struct regex *r, uint32_t a);
/* A new rule, whose body is set before the seal; it may mention itself, but not at its own beginning. */
uint32_t regex_make_rule(struct regex *r, uint32_t *rule);
void regex_set_rule(struct regex *r, uint32_t rule, uint32_t body);
/* Lists: regex_push on r->stack, then one of these takes all from mark on. */
void regex_push(struct regex *r, uint32_t node);
uint32_t regex_take_or(struct regex *r, uint32_t mark);
uint32_t regex_take_concat(struct regex *r, uint32_t mark);
/* The node of the kind of n with other parts; its members are on the stack from mark on. */
uint32_t regex_make_like(struct regex *r, const struct regex_node *n, uint32_t a, uint32_t b, uint32_t mark);

enum regex_spelling {
    REGEX_RAW,    /* characters as UTF-8 */
    REGEX_QUOTED, /* as inside of a JSON string: with an escape where JSON demands one, the shortest */
};

/* *node: the expression text, in an r that is not sealed. STATOR_USAGE: text is wrong or not supported. What
 * has run out is in r->result. */
stator_status regex_parse(struct regex *r, const char *text, size_t length, enum regex_anchoring anchoring,
                          enum regex_spelling spelling, uint32_t *node, stator_error *e);
/* A set of n ranges of code points, first and last of each; n is below REGEX_MAX_RANGES. */
uint32_t regex_make_points(struct regex *r, const uint32_t *ranges, uint32_t n, enum regex_spelling spelling);
/* A set of all code points but these; n is at most REGEX_MAX_RANGES - 1. */
uint32_t regex_make_other_points(struct regex *r, const uint32_t *ranges, uint32_t n,
                                 enum regex_spelling spelling);
/* The code point that a text of n >= 1 bytes begins with. Returns its length, 0: it is not UTF-8. */
uint32_t regex_read_point(const uint8_t *text, size_t n, uint32_t *point);
/* Its value; -1: it is none. */
int regex_hex_digit(int c);
/* The error for r->result, which is not REGEX_OK; what: the kind of text that was compiled. */
stator_status regex_ran_out(const struct regex *r, const char *what, stator_error *e);

/* Ends the making of the expression: start is its node. false: r->result says what has run out, or rule
 * *left is left-recursive (then r->result is REGEX_OK). */
bool regex_seal(struct regex *r, uint32_t start, uint32_t *left);
/* The derivative of a node by a class of bytes, while r->result is REGEX_OK. */
uint32_t regex_derive(struct regex *r, uint32_t node, uint32_t class_of_bytes);
/* Some text matches the node. false also where r->result is no longer REGEX_OK. */
bool regex_is_alive(struct regex *r, uint32_t node);

#endif
