/* From tokens to a tree, by recursive descent; the grammar's levels are Jinja's own. */
#include "chat/jinja/jinja_parse.h"

#include "base/check.h"

#include <string.h>

struct parser {
    struct jinja *j;
    const struct jinja_token *t; /* the next one */
    uint32_t loops;              /* around what is being parsed */
};

static struct jinja_node *parse_expression(struct parser *p);
static struct jinja_node *parse_unary(struct parser *p, bool filters);
static struct jinja_node *parse_statements(struct parser *p, const char *const *ends);

const char *jinja_operator_text(enum jinja_operator op) {
    static const char *const texts[JINJA_OPERATORS] = {
        [JINJA_OP_NONE] = "",      [JINJA_OP_ADD] = "+",         [JINJA_OP_SUBTRACT] = "-",
        [JINJA_OP_MULTIPLY] = "*", [JINJA_OP_DIVIDE] = "/",      [JINJA_OP_FLOOR] = "//",
        [JINJA_OP_MODULO] = "%",   [JINJA_OP_POWER] = "**",      [JINJA_OP_CONCATENATE] = "~",
        [JINJA_OP_EQUAL] = "==",   [JINJA_OP_UNEQUAL] = "!=",    [JINJA_OP_LESS] = "<",
        [JINJA_OP_AT_MOST] = "<=", [JINJA_OP_GREATER] = ">",     [JINJA_OP_AT_LEAST] = ">=",
        [JINJA_OP_IN] = "in",      [JINJA_OP_NOT_IN] = "not in", [JINJA_OP_AND] = "and",
        [JINJA_OP_OR] = "or",      [JINJA_OP_NOT] = "not"};
    CHECK(op < JINJA_OPERATORS);
    return texts[op];
}

static struct jinja_node *make(struct parser *p, enum jinja_node_kind kind) {
    jinja_step(p->j, 1);
    struct jinja_node *n = jinja_take(p->j, 1, sizeof *n);
    n->kind = kind;
    n->line = p->t->line;
    return n;
}

static _Noreturn void wrong(struct parser *p, const char *expected) {
    p->j->line = p->t->line;
    static const char *const kinds[] = {"text", "{{", "}}", "{%", "%}"};
    if (p->t->kind == JINJA_T_END)
        jinja_fail(p->j, "%s is expected, but the template ends", expected);
    if (p->t->kind <= JINJA_T_BLOCK_END)
        jinja_fail(p->j, "%s is expected before %s", expected, kinds[p->t->kind]);
    jinja_fail(p->j, "%s is expected, found '%.*s'", expected, (int)(p->t->s.n < 60 ? p->t->s.n : 60),
               p->t->s.p);
}

static bool at_operator(const struct parser *p, const char *s) {
    return p->t->kind == JINJA_T_OPERATOR && jinja_is(p->t->s, s);
}

static bool at_name(const struct parser *p, const char *s) {
    return p->t->kind == JINJA_T_NAME && jinja_is(p->t->s, s);
}

static bool take_operator(struct parser *p, const char *s) {
    bool there = at_operator(p, s);
    p->t += there;
    return there;
}

/* Operators that bind equally are from `first` to `last` of the enum. */
static enum jinja_operator take_one_of(struct parser *p, enum jinja_operator first,
                                       enum jinja_operator last) {
    for (uint32_t op = first; op <= last; op++)
        if (take_operator(p, jinja_operator_text((enum jinja_operator)op)))
            return (enum jinja_operator)op;
    return JINJA_OP_NONE;
}

static bool take_name(struct parser *p, const char *s) {
    bool there = at_name(p, s);
    p->t += there;
    return there;
}

static void need_operator(struct parser *p, const char *s) {
    char expected[8] = "'";
    strcat(strcat(expected, s), "'");
    if (!take_operator(p, s))
        wrong(p, expected);
}

static struct jinja_string need_word(struct parser *p, const char *what) {
    if (p->t->kind != JINJA_T_NAME)
        wrong(p, what);
    return (p->t++)->s;
}

/* --- expressions */

static struct jinja_arg *append(struct parser *p, struct jinja_arg ***last, struct jinja_node *value) {
    struct jinja_arg *a = jinja_take(p->j, 1, sizeof *a);
    a->value = value;
    **last = a;
    *last = &a->next;
    return a;
}

/* Behind a '(': values, and name=value, up to the ')'. */
static struct jinja_arg *parse_arguments(struct parser *p) {
    struct jinja_arg *first = NULL, **last = &first;
    bool named = false;
    while (!take_operator(p, ")")) {
        if (first != NULL) {
            need_operator(p, ",");
            if (take_operator(p, ")"))
                break;
        }
        if (at_operator(p, "*") || at_operator(p, "**")) {
            p->j->line = p->t->line;
            jinja_fail(p->j, "* and ** before arguments are not supported");
        }
        struct jinja_string name = {0};
        if (p->t->kind == JINJA_T_NAME && p->t[1].kind == JINJA_T_OPERATOR && jinja_is(p->t[1].s, "=")) {
            name = p->t->s;
            p->t += 2;
        }
        if (named && name.p == NULL)
            wrong(p, "a named argument");
        named = name.p != NULL;
        append(p, &last, parse_expression(p))->name = name;
    }
    return first;
}

/* Values up to the closing bracket. */
static struct jinja_arg *parse_list(struct parser *p, const char *close) {
    struct jinja_arg *first = NULL, **last = &first;
    while (!take_operator(p, close)) {
        if (first != NULL) {
            need_operator(p, ",");
            if (take_operator(p, close))
                break;
        }
        append(p, &last, parse_expression(p));
    }
    return first;
}

static struct jinja_node *parse_dict(struct parser *p) {
    struct jinja_node *n = make(p, JINJA_N_DICT);
    struct jinja_arg **last = &n->args;
    while (!take_operator(p, "}")) {
        if (n->args != NULL) {
            need_operator(p, ",");
            if (take_operator(p, "}"))
                break;
        }
        struct jinja_node *key = parse_expression(p);
        need_operator(p, ":");
        append(p, &last, parse_expression(p))->key = key;
    }
    return n;
}

static struct jinja_node *parse_constant(struct parser *p) {
    struct jinja_node *n = make(p, JINJA_N_CONST);
    n->v = p->t->v;
    p->t++;
    if (n->v.kind != JINJA_STRING || p->t->kind != JINJA_T_STRING)
        return n;
    struct jinja_text all = {0}; /* strings side by side are one */
    jinja_text_put(p->j, &all, n->v.s.p, n->v.s.n);
    for (; p->t->kind == JINJA_T_STRING; p->t++)
        jinja_text_put(p->j, &all, p->t->v.s.p, p->t->v.s.n);
    n->v = jinja_text_value(&all);
    return n;
}

static struct jinja_node *parse_name(struct parser *p) {
    static const struct {
        const char *name;
        enum jinja_kind kind;
        bool b;
    } constants[] = {{"true", JINJA_BOOL, true},   {"True", JINJA_BOOL, true},  {"false", JINJA_BOOL, false},
                     {"False", JINJA_BOOL, false}, {"none", JINJA_NONE, false}, {"None", JINJA_NONE, false}};
    struct jinja_node *n = make(p, JINJA_N_NAME);
    n->name = (p->t++)->s;
    for (size_t i = 0; i < sizeof constants / sizeof constants[0]; i++)
        if (jinja_is(n->name, constants[i].name)) {
            n->kind = JINJA_N_CONST;
            n->v = constants[i].kind == JINJA_BOOL ? jinja_bool(constants[i].b) : jinja_none();
        }
    return n;
}

/* Behind a '(': one expression, or a tuple. */
static struct jinja_node *parse_bracketed(struct parser *p) {
    if (take_operator(p, ")"))
        return make(p, JINJA_N_TUPLE);
    struct jinja_node *first = parse_expression(p);
    if (!at_operator(p, ",")) {
        need_operator(p, ")");
        return first;
    }
    struct jinja_node *n = make(p, JINJA_N_TUPLE);
    struct jinja_arg **last = &n->args;
    append(p, &last, first);
    while (!take_operator(p, ")")) {
        need_operator(p, ",");
        if (take_operator(p, ")"))
            break;
        append(p, &last, parse_expression(p));
    }
    return n;
}

static struct jinja_node *parse_primary(struct parser *p) {
    if (p->t->kind == JINJA_T_NAME)
        return parse_name(p);
    if (p->t->kind >= JINJA_T_STRING && p->t->kind <= JINJA_T_FLOAT)
        return parse_constant(p);
    if (take_operator(p, "("))
        return parse_bracketed(p);
    if (take_operator(p, "{"))
        return parse_dict(p);
    if (!take_operator(p, "["))
        wrong(p, "an expression");
    struct jinja_node *n = make(p, JINJA_N_LIST);
    n->args = parse_list(p, "]");
    return n;
}

/* Behind a '[' of a[..]. */
static struct jinja_node *parse_subscript(struct parser *p, struct jinja_node *a) {
    struct jinja_node *n = make(p, JINJA_N_ITEM);
    n->a = a;
    if (!at_operator(p, ":"))
        n->b = parse_expression(p);
    if (at_operator(p, ":")) {
        n->kind = JINJA_N_SLICE;
        struct jinja_node **parts[] = {&n->c, &n->d};
        for (int i = 0; i < 2 && take_operator(p, ":"); i++)
            if (!at_operator(p, ":") && !at_operator(p, "]"))
                *parts[i] = parse_expression(p);
    }
    need_operator(p, "]");
    return n;
}

static struct jinja_node *parse_postfix(struct parser *p, struct jinja_node *a) {
    for (;;) {
        struct jinja_node *n = NULL;
        if (take_operator(p, ".")) {
            n = make(p, p->t->kind == JINJA_T_INT ? JINJA_N_ITEM : JINJA_N_ATTRIBUTE);
            if (n->kind == JINJA_N_ITEM)
                n->b = parse_constant(p);
            else
                n->name = need_word(p, "the name of an attribute");
            n->a = a;
        } else if (take_operator(p, "[")) {
            n = parse_subscript(p, a);
        } else if (take_operator(p, "(")) {
            n = make(p, JINJA_N_INVOKE);
            n->a = a;
            n->args = parse_arguments(p);
        } else {
            return a;
        }
        a = n;
    }
}

/* Behind a '|'. */
static struct jinja_node *parse_filter(struct parser *p, struct jinja_node *a) {
    struct jinja_node *n = make(p, JINJA_N_FILTER);
    n->name = need_word(p, "the name of a filter");
    n->a = a;
    if (take_operator(p, "("))
        n->args = parse_arguments(p);
    return n;
}

/* A test may have one argument without brackets: `x is divisibleby 3`. */
static bool begins_argument(const struct parser *p) {
    if (p->t->kind == JINJA_T_NAME)
        return !at_name(p, "else") && !at_name(p, "or") && !at_name(p, "and") && !at_name(p, "if") &&
               !at_name(p, "in") && !at_name(p, "is") && !at_name(p, "not") && !at_name(p, "recursive");
    return (p->t->kind >= JINJA_T_STRING && p->t->kind <= JINJA_T_FLOAT) || at_operator(p, "[") ||
           at_operator(p, "{");
}

static struct jinja_node *parse_test(struct parser *p, struct jinja_node *a) {
    struct jinja_node *n = make(p, JINJA_N_TEST);
    n->negated = take_name(p, "not");
    n->name = need_word(p, "the name of a test");
    n->a = a;
    if (take_operator(p, "(")) {
        n->args = parse_arguments(p);
    } else if (begins_argument(p)) {
        struct jinja_arg **last = &n->args;
        append(p, &last, parse_postfix(p, parse_primary(p)));
    }
    return n;
}

static struct jinja_node *parse_unary(struct parser *p, bool filters) {
    jinja_deeper(p->j);
    struct jinja_node *n = NULL;
    if (at_operator(p, "-") || at_operator(p, "+")) {
        n = make(p, JINJA_N_UNARY);
        n->op = take_one_of(p, JINJA_OP_ADD, JINJA_OP_SUBTRACT);
        n->a = parse_unary(p, false);
    } else {
        n = parse_postfix(p, parse_primary(p));
    }
    while (filters) {
        if (take_operator(p, "|"))
            n = parse_filter(p, n);
        else if (take_name(p, "is"))
            n = parse_test(p, n);
        else if (take_operator(p, "(")) {
            struct jinja_node *call = make(p, JINJA_N_INVOKE);
            call->a = n;
            call->args = parse_arguments(p);
            n = call;
        } else {
            break;
        }
    }
    p->j->depth--;
    return n;
}

static struct jinja_node *binary(struct parser *p, struct jinja_node *a, enum jinja_operator op,
                                 struct jinja_node *b) {
    struct jinja_node *n = make(p, JINJA_N_BINARY);
    n->op = op;
    n->a = a;
    n->b = b;
    return n;
}

/* Operators that bind equally, from the left. levels: the tightest first. */
static struct jinja_node *parse_binary(struct parser *p, uint32_t level) {
    static const struct {
        enum jinja_operator first, last;
    } levels[] = {{JINJA_OP_POWER, JINJA_OP_POWER},
                  {JINJA_OP_MULTIPLY, JINJA_OP_MODULO},
                  {JINJA_OP_CONCATENATE, JINJA_OP_CONCATENATE},
                  {JINJA_OP_ADD, JINJA_OP_SUBTRACT}};
    struct jinja_node *a = level == 0 ? parse_unary(p, true) : parse_binary(p, level - 1);
    for (;;) {
        const enum jinja_operator op = take_one_of(p, levels[level].first, levels[level].last);
        if (op == JINJA_OP_NONE)
            return a;
        a = binary(p, a, op, level == 0 ? parse_unary(p, true) : parse_binary(p, level - 1));
    }
}

static enum jinja_operator take_comparison(struct parser *p) {
    if (take_name(p, "in"))
        return JINJA_OP_IN;
    if (at_name(p, "not") && p->t[1].kind == JINJA_T_NAME && jinja_is(p->t[1].s, "in")) {
        p->t += 2;
        return JINJA_OP_NOT_IN;
    }
    return take_one_of(p, JINJA_OP_EQUAL, JINJA_OP_AT_LEAST);
}

static struct jinja_node *parse_compare(struct parser *p) {
    struct jinja_node *a = parse_binary(p, 3), *n = NULL;
    struct jinja_arg **last = NULL;
    for (;;) {
        const enum jinja_operator op = take_comparison(p);
        if (op == JINJA_OP_NONE)
            return n != NULL ? n : a;
        if (n == NULL) {
            n = make(p, JINJA_N_COMPARE);
            n->a = a;
            last = &n->args;
        }
        append(p, &last, parse_binary(p, 3))->op = op;
    }
}

static struct jinja_node *parse_not(struct parser *p) {
    if (!at_name(p, "not"))
        return parse_compare(p);
    struct jinja_node *n = make(p, JINJA_N_UNARY);
    n->op = JINJA_OP_NOT;
    p->t++;
    jinja_deeper(p->j);
    n->a = parse_not(p);
    p->j->depth--;
    return n;
}

static struct jinja_node *parse_logic(struct parser *p, enum jinja_operator op) {
    const bool or = op == JINJA_OP_OR;
    struct jinja_node *a = or ? parse_logic(p, JINJA_OP_AND) : parse_not(p);
    while (take_name(p, jinja_operator_text(op)))
        a = binary(p, a, op, or ? parse_logic(p, JINJA_OP_AND) : parse_not(p));
    return a;
}

static struct jinja_node *parse_expression(struct parser *p) {
    jinja_deeper(p->j);
    struct jinja_node *a = parse_logic(p, JINJA_OP_OR);
    while (take_name(p, "if")) {
        struct jinja_node *n = make(p, JINJA_N_CHOICE);
        n->a = a;
        n->b = parse_logic(p, JINJA_OP_OR);
        n->c = take_name(p, "else") ? parse_expression(p) : NULL;
        a = n;
    }
    p->j->depth--;
    return a;
}

/* One expression, or several with commas: a tuple without brackets. */
static struct jinja_node *parse_tuple(struct parser *p) {
    struct jinja_node *first = parse_expression(p);
    if (!at_operator(p, ","))
        return first;
    struct jinja_node *n = make(p, JINJA_N_TUPLE);
    struct jinja_arg **last = &n->args;
    append(p, &last, first);
    while (take_operator(p, ",") && p->t->kind != JINJA_T_BLOCK_END && p->t->kind != JINJA_T_OUTPUT_END)
        append(p, &last, parse_expression(p));
    return n;
}

/* --- statements */

static void need_block_end(struct parser *p) {
    if (p->t->kind != JINJA_T_BLOCK_END)
        wrong(p, "%}");
    p->t++;
}

/* {% word %}, which ended parse_statements. */
static void take_end(struct parser *p, const char *word) {
    if (!(p->t->kind == JINJA_T_BLOCK && p->t[1].kind == JINJA_T_NAME && jinja_is(p->t[1].s, word))) {
        char expected[32] = "{% ";
        strcat(strcat(expected, word), " %}");
        wrong(p, expected);
    }
    p->t += 2;
    need_block_end(p);
}

static struct jinja_node *parse_target(struct parser *p, bool attributes) {
    const bool bracket = take_operator(p, "(");
    struct jinja_node *first = make(p, JINJA_N_NAME);
    first->name = need_word(p, "the name of a variable");
    if (attributes && take_operator(p, ".")) {
        struct jinja_node *n = make(p, JINJA_N_ATTRIBUTE);
        n->a = first;
        n->name = need_word(p, "the name of an attribute");
        return n;
    }
    if (!at_operator(p, ",")) {
        if (bracket)
            need_operator(p, ")");
        return first;
    }
    struct jinja_node *n = make(p, JINJA_N_TUPLE);
    struct jinja_arg **last = &n->args;
    append(p, &last, first);
    while (take_operator(p, ",")) {
        struct jinja_node *more = make(p, JINJA_N_NAME);
        more->name = need_word(p, "the name of a variable");
        append(p, &last, more);
    }
    if (bracket)
        need_operator(p, ")");
    return n;
}

static struct jinja_node *parse_body(struct parser *p, const char *const *ends) {
    need_block_end(p);
    return parse_statements(p, ends);
}

static struct jinja_node *parse_if(struct parser *p) {
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    static const char *const last[] = {"endif", NULL};
    struct jinja_node *n = make(p, JINJA_N_IF);
    n->a = parse_tuple(p);
    n->body = parse_body(p, ends);
    if (p->t->kind == JINJA_T_BLOCK && jinja_is(p->t[1].s, "elif")) {
        p->t += 2;
        jinja_deeper(p->j);
        n->other = parse_if(p);
        p->j->depth--;
        return n;
    }
    if (p->t->kind == JINJA_T_BLOCK && jinja_is(p->t[1].s, "else")) {
        p->t += 2;
        n->other = parse_body(p, last);
    }
    take_end(p, "endif");
    return n;
}

static struct jinja_node *parse_for(struct parser *p) {
    static const char *const ends[] = {"else", "endfor", NULL};
    static const char *const last[] = {"endfor", NULL};
    struct jinja_node *n = make(p, JINJA_N_FOR);
    n->target = parse_target(p, false);
    if (!take_name(p, "in"))
        wrong(p, "'in'");
    /* No conditional expression here: its `if` is the loop's. */
    n->a = parse_logic(p, JINJA_OP_OR);
    if (at_operator(p, ",")) {
        struct jinja_node *tuple = make(p, JINJA_N_TUPLE);
        struct jinja_arg **end = &tuple->args;
        append(p, &end, n->a);
        while (take_operator(p, ","))
            append(p, &end, parse_logic(p, JINJA_OP_OR));
        n->a = tuple;
    }
    if (take_name(p, "if"))
        n->b = parse_expression(p);
    n->recursive = take_name(p, "recursive");
    p->loops++;
    n->body = parse_body(p, ends);
    p->loops--;
    if (p->t->kind == JINJA_T_BLOCK && jinja_is(p->t[1].s, "else")) {
        p->t += 2;
        n->other = parse_body(p, last);
    }
    take_end(p, "endfor");
    return n;
}

/* | filter | filter of a block: a chain whose innermost operand is missing. */
static struct jinja_node *parse_filters(struct parser *p) {
    struct jinja_node *a = NULL;
    while (take_operator(p, "|"))
        a = parse_filter(p, a);
    return a;
}

static struct jinja_node *parse_set(struct parser *p) {
    static const char *const ends[] = {"endset", NULL};
    struct jinja_node *n = make(p, JINJA_N_SET);
    n->target = parse_target(p, true);
    if (take_operator(p, "=")) {
        n->a = parse_tuple(p);
        need_block_end(p);
        return n;
    }
    n->kind = JINJA_N_CAPTURE;
    n->a = parse_filters(p);
    n->body = parse_body(p, ends);
    take_end(p, "endset");
    return n;
}

/* Behind a '(': a macro's parameters. */
static struct jinja_arg *parse_parameters(struct parser *p) {
    struct jinja_arg *first = NULL, **last = &first;
    while (!take_operator(p, ")")) {
        if (first != NULL)
            need_operator(p, ",");
        struct jinja_string name = need_word(p, "the name of a parameter");
        append(p, &last, take_operator(p, "=") ? parse_expression(p) : NULL)->name = name;
    }
    return first;
}

static struct jinja_node *parse_macro(struct parser *p) {
    static const char *const ends[] = {"endmacro", NULL};
    struct jinja_node *n = make(p, JINJA_N_MACRO);
    n->name = need_word(p, "the name of a macro");
    need_operator(p, "(");
    n->args = parse_parameters(p);
    uint32_t loops = p->loops;
    p->loops = 0;
    n->body = parse_body(p, ends);
    p->loops = loops;
    take_end(p, "endmacro");
    return n;
}

static struct jinja_node *parse_call(struct parser *p) {
    static const char *const ends[] = {"endcall", NULL};
    struct jinja_node *n = make(p, JINJA_N_CALL);
    if (take_operator(p, "("))
        n->args = parse_parameters(p);
    n->a = parse_expression(p);
    if (n->a->kind != JINJA_N_INVOKE)
        wrong(p, "a call");
    uint32_t loops = p->loops;
    p->loops = 0;
    n->body = parse_body(p, ends);
    p->loops = loops;
    take_end(p, "endcall");
    return n;
}

static struct jinja_node *parse_with(struct parser *p) {
    static const char *const ends[] = {"endwith", NULL};
    struct jinja_node *n = make(p, JINJA_N_WITH);
    struct jinja_arg **last = &n->args;
    while (p->t->kind != JINJA_T_BLOCK_END) {
        if (n->args != NULL)
            need_operator(p, ",");
        struct jinja_string name = need_word(p, "the name of a variable");
        need_operator(p, "=");
        append(p, &last, parse_expression(p))->name = name;
    }
    n->body = parse_body(p, ends);
    take_end(p, "endwith");
    return n;
}

static struct jinja_node *parse_block(struct parser *p) {
    struct jinja_node *n = NULL;
    p->t++;
    p->j->line = p->t->line;
    struct jinja_string word = need_word(p, "a statement");
    if (jinja_is(word, "if"))
        return parse_if(p);
    if (jinja_is(word, "for"))
        return parse_for(p);
    if (jinja_is(word, "set"))
        return parse_set(p);
    if (jinja_is(word, "macro"))
        return parse_macro(p);
    if (jinja_is(word, "call"))
        return parse_call(p);
    if (jinja_is(word, "with"))
        return parse_with(p);
    if (jinja_is(word, "break") || jinja_is(word, "continue")) {
        if (p->loops == 0)
            jinja_fail(p->j, "'%.*s' stands outside of a loop", (int)word.n, word.p);
        n = make(p, jinja_is(word, "break") ? JINJA_N_BREAK : JINJA_N_CONTINUE);
        need_block_end(p);
        return n;
    }
    if (jinja_is(word, "generation")) { /* marks what an assistant said, for training */
        static const char *const ends[] = {"endgeneration", NULL};
        n = make(p, JINJA_N_GROUP);
        n->body = parse_body(p, ends);
        take_end(p, "endgeneration");
        return n;
    }
    if (jinja_is(word, "filter")) {
        static const char *const ends[] = {"endfilter", NULL};
        n = make(p, JINJA_N_FILTERED);
        n->a = parse_filter(p, NULL);
        while (take_operator(p, "|"))
            n->a = parse_filter(p, n->a);
        n->body = parse_body(p, ends);
        take_end(p, "endfilter");
        return n;
    }
    jinja_fail(p->j, "the statement '%.*s' is not supported", (int)(word.n < 60 ? word.n : 60), word.p);
}

static bool at_end(const struct parser *p, const char *const *ends) {
    if (p->t->kind != JINJA_T_BLOCK || p->t[1].kind != JINJA_T_NAME)
        return false;
    for (; ends != NULL && *ends != NULL; ends++)
        if (jinja_is(p->t[1].s, *ends))
            return true;
    return false;
}

/* Up to one of the ends, which is not taken, or to the end of the template. */
static struct jinja_node *parse_statements(struct parser *p, const char *const *ends) {
    struct jinja_node *first = NULL, **last = &first;
    jinja_deeper(p->j);
    while (p->t->kind != JINJA_T_END && !at_end(p, ends)) {
        struct jinja_node *n = NULL;
        p->j->line = p->t->line;
        if (p->t->kind == JINJA_T_TEXT) {
            n = make(p, JINJA_N_TEXT);
            n->v = jinja_of_string(p->t->s.p, p->t->s.n);
            p->t++;
        } else if (p->t->kind == JINJA_T_OUTPUT) {
            p->t++;
            n = make(p, JINJA_N_OUTPUT);
            n->a = parse_tuple(p);
            if (p->t->kind != JINJA_T_OUTPUT_END)
                wrong(p, "}}");
            p->t++;
        } else if (p->t->kind == JINJA_T_BLOCK) {
            n = parse_block(p);
        } else {
            wrong(p, "a statement");
        }
        *last = n;
        last = &n->next;
    }
    p->j->depth--;
    return first;
}

struct jinja_node *jinja_parse(struct jinja *j) {
    size_t n = 0;
    struct parser p = {.j = j, .t = jinja_lex(j, &n)};
    struct jinja_node *all = parse_statements(&p, NULL);
    return all;
}
