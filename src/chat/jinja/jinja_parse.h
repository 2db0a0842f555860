/* Inside the Jinja: what a template says, as a tree. jinja_lex.c makes tokens of the text, jinja_parse.c a
 * tree of the tokens, jinja_eval.c walks it. */
#ifndef STATOR_CHAT_JINJA_PARSE_H
#define STATOR_CHAT_JINJA_PARSE_H

#include "chat/jinja/jinja_value.h"

enum jinja_token_kind {
    JINJA_T_TEXT,
    JINJA_T_OUTPUT, /* {{ */
    JINJA_T_OUTPUT_END,
    JINJA_T_BLOCK, /* {% */
    JINJA_T_BLOCK_END,
    JINJA_T_NAME,
    JINJA_T_STRING,
    JINJA_T_INT,
    JINJA_T_FLOAT,
    JINJA_T_OPERATOR, /* s: its characters */
    JINJA_T_END
};

struct jinja_token {
    enum jinja_token_kind kind;
    uint32_t line;
    struct jinja_string s;
    struct jinja_value v; /* STRING, INT, FLOAT */
};

/* All tokens of j->in->source, the last one END. Text is already trimmed by its neighbours' signs. */
struct jinja_token *jinja_lex(struct jinja *j, size_t *n);

enum jinja_operator {
    JINJA_OP_NONE,
    JINJA_OP_ADD,
    JINJA_OP_SUBTRACT,
    JINJA_OP_MULTIPLY,
    JINJA_OP_DIVIDE,
    JINJA_OP_FLOOR,
    JINJA_OP_MODULO,
    JINJA_OP_POWER,
    JINJA_OP_CONCATENATE,
    JINJA_OP_EQUAL,
    JINJA_OP_UNEQUAL,
    JINJA_OP_LESS,
    JINJA_OP_AT_MOST,
    JINJA_OP_GREATER,
    JINJA_OP_AT_LEAST,
    JINJA_OP_IN,
    JINJA_OP_NOT_IN,
    JINJA_OP_AND,
    JINJA_OP_OR,
    JINJA_OP_NOT,
    JINJA_OPERATORS
};
/* As a template writes it: "//". */
const char *jinja_operator_text(enum jinja_operator op);

enum jinja_node_kind {
    /* statements, chained by next */
    JINJA_N_TEXT,     /* v */
    JINJA_N_OUTPUT,   /* a */
    JINJA_N_IF,       /* a: condition, body, other: statements of else or a further if */
    JINJA_N_FOR,      /* target, a: items, b: condition or NULL, body, other: else, recursive */
    JINJA_N_SET,      /* target, a */
    JINJA_N_CAPTURE,  /* target, body; a: filters on it (a chain of FILTER whose innermost operand is NULL) or
                         NULL */
    JINJA_N_MACRO,    /* name, args, body */
    JINJA_N_CALL,     /* a: the call, args: of caller, body */
    JINJA_N_FILTERED, /* a: as CAPTURE's, body: its output is filtered and printed */
    JINJA_N_WITH,     /* args: name = value, body */
    JINJA_N_GROUP,    /* body: statements without a scope of their own */
    JINJA_N_BREAK,
    JINJA_N_CONTINUE,
    /* expressions */
    JINJA_N_CONST,     /* v */
    JINJA_N_NAME,      /* name */
    JINJA_N_LIST,      /* args */
    JINJA_N_TUPLE,     /* args */
    JINJA_N_DICT,      /* args: value, and b: key */
    JINJA_N_ATTRIBUTE, /* a.name */
    JINJA_N_ITEM,      /* a[b] */
    JINJA_N_SLICE,     /* a[b:c:d] */
    JINJA_N_INVOKE,    /* a(args) */
    JINJA_N_FILTER,    /* a | name(args) */
    JINJA_N_TEST,      /* a is name(args); negated: is not */
    JINJA_N_UNARY,     /* op a: - + not */
    JINJA_N_BINARY,    /* a op b: + - * / // % ** ~ and or */
    JINJA_N_COMPARE,   /* a, then args, each with its op */
    JINJA_N_CHOICE     /* a if b else c (NULL) */
};

struct jinja_node;

/* One of a list: a value, with a name where it has one. */
struct jinja_arg {
    struct jinja_arg *next;
    struct jinja_string name; /* p NULL: none */
    struct jinja_node *value; /* NULL: a macro's parameter without default */
    struct jinja_node *key;   /* of a dict */
    enum jinja_operator op;   /* of a COMPARE */
};

struct jinja_node {
    enum jinja_node_kind kind;
    enum jinja_operator op;
    uint32_t line;
    bool negated;   /* of a TEST */
    bool recursive; /* of a FOR: its variable loop may be called */
    struct jinja_string name;
    struct jinja_value v;
    struct jinja_node *a, *b, *c, *d;
    struct jinja_node *target; /* NAME, TUPLE of them, or ATTRIBUTE of a namespace */
    struct jinja_node *body, *other, *next;
    struct jinja_arg *args;
};

/* The template's statements. */
struct jinja_node *jinja_parse(struct jinja *j);

/* jinja_filters.c, jinja_tests.c, jinja_methods.c: arguments that a call was given. */
struct jinja_args {
    struct jinja_value *at; /* by place */
    size_t n;
    struct jinja_dict *named;
};
/* Parameter `name`, which is also argument number `place`; NULL: not given. */
const struct jinja_value *jinja_arg(struct jinja *j, const struct jinja_args *a, size_t place,
                                    const char *name);
/* Fails unless there are at most n arguments by place and only named ones of `names` (NULL-terminated). */
void jinja_args_check(struct jinja *j, const struct jinja_args *a, struct jinja_string who, size_t n,
                      const char *const *names);

struct jinja_value jinja_filter(struct jinja *j, struct jinja_string name, struct jinja_value v,
                                const struct jinja_args *a);
bool jinja_test(struct jinja *j, struct jinja_string name, const struct jinja_value *v,
                const struct jinja_args *a);
bool jinja_in(struct jinja *j, const struct jinja_value *item, const struct jinja_value *in);
/* v.name, as the template sees it (methods too); UNDEFINED: there is none. */
struct jinja_value jinja_attribute(struct jinja *j, const struct jinja_value *v, struct jinja_string name);
struct jinja_value jinja_item(struct jinja *j, const struct jinja_value *v, const struct jinja_value *key);
struct jinja_value jinja_method(struct jinja *j, const struct jinja_value *self, struct jinja_string name,
                                const struct jinja_args *a);
bool jinja_has_method(const struct jinja_value *self, struct jinja_string name);
/* Bytes of the character at p if it is white space to Python, else 0. */
size_t jinja_space(const char *p, size_t n);
/* s without white space at its ends; its lines, as Python's splitlines. */
struct jinja_string jinja_strip(struct jinja *j, struct jinja_string s);
struct jinja_value jinja_split_lines(struct jinja *j, struct jinja_string s, bool keep_ends);
/* jinja_numbers.c. Python's int(s, base) and float(s); false: s is no such number. */
bool jinja_read_int(struct jinja *j, struct jinja_string s, unsigned base, struct jinja_value *v);
bool jinja_read_float(struct jinja *j, struct jinja_string s, double *f);
/* Python's int(f): exact, also beyond 64 bits; f is finite. */
struct jinja_value jinja_whole(struct jinja *j, double f);
/* Python's round(): to the nearest number with so many digits, of two equally near ones the even one. */
double jinja_round(double f, int64_t digits);
struct jinja_value jinja_round_int(struct jinja *j, int64_t i, int64_t digits);
/* x op y, as Python has it for floats: + - * / // % ** */
struct jinja_value jinja_calculate(struct jinja *j, enum jinja_operator op, double x, double y);
struct jinja_value jinja_power(struct jinja *j, double x, double y);
/* jinja_format.c: s.format(..), and s % with. */
struct jinja_value jinja_format(struct jinja *j, struct jinja_string s, const struct jinja_args *a);
struct jinja_value jinja_percent(struct jinja *j, struct jinja_string s, const struct jinja_value *with);
/* The globals: joiner, range, namespace, dict, raise_exception, strftime_now. */
bool jinja_has_function(struct jinja_string name);
struct jinja_value jinja_function(struct jinja *j, struct jinja_string name, const struct jinja_args *a);

#endif
