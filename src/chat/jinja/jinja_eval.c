/* Walks a template's tree and writes its text. */
#include "chat/jinja/jinja_parse.h"

#include "base/check.h"
#include "base/clock.h"
#include "chat/jinja/jinja_memory.h"

#include <string.h>

enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE };

static struct jinja_value evaluate(struct jinja *j, struct jinja_place *s, const struct jinja_node *n);
static enum flow run(struct jinja *j, struct jinja_place *s, const struct jinja_node *n);
static enum flow run_items(struct jinja *j, struct jinja_place *s, const struct jinja_node *n,
                           struct jinja_list *list, uint32_t depth);

static struct jinja_value *find(struct jinja *j, struct jinja_scope *s, struct jinja_string name) {
    for (; s != NULL; s = s->outer)
        for (struct jinja_variable *v = s->first; v != NULL; v = v->next) {
            jinja_step(j, 1);
            if (v->name.n == name.n && memcmp(v->name.p, name.p, name.n) == 0)
                return &v->v;
        }
    return NULL;
}

static void set(struct jinja *j, struct jinja_place *s, struct jinja_string name, struct jinja_value value) {
    struct jinja_scope here = {.first = s->scope->first};
    struct jinja_value *old = find(j, &here, name);
    if (old != NULL) {
        *old = value;
        return;
    }
    struct jinja_variable *v = jinja_take(j, 1, sizeof *v);
    *v = (struct jinja_variable){s->scope->first, name, value};
    s->scope->first = v;
}

/* A new scope, in use until leave(). */
static void enter(struct jinja *j, struct jinja_place *s, struct jinja_scope *outer) {
    struct jinja_scope *scope = jinja_take(j, 1, sizeof *scope);
    scope->object.kind = JINJA_OF_SCOPE;
    scope->outer = outer;
    *s = (struct jinja_place){j->places, scope};
    j->places = s;
}

static void leave(struct jinja *j, struct jinja_place *s) {
    CHECK(j->places == s);
    j->places = s->outer;
}

static void hold(struct jinja *j, struct jinja_held *h, struct jinja_list *list) {
    *h = (struct jinja_held){j->held, list};
    j->held = h;
}

static void let_go(struct jinja *j, struct jinja_held *h) {
    CHECK(j->held == h);
    j->held = h->outer;
}

static struct jinja_value look_up(struct jinja *j, const struct jinja_place *s, struct jinja_string name) {
    const struct jinja_value *v = find(j, s->scope, name);
    if (v != NULL)
        return *v;
    if (jinja_has_function(name) && !(jinja_is(name, "strftime_now") && j->in->now == NULL))
        return (struct jinja_value){.kind = JINJA_FUNCTION, .s = name};
    return jinja_undefined(name);
}

/* --- calls */

static struct jinja_args arguments(struct jinja *j, struct jinja_place *s, const struct jinja_arg *a) {
    struct jinja_list *list = jinja_new_list(j, 0).list;
    struct jinja_args args = {.named = jinja_new_dict(j, 0).dict};
    for (; a != NULL; a = a->next) {
        struct jinja_value v = evaluate(j, s, a->value);
        if (a->name.p == NULL)
            jinja_list_add(j, list, v);
        else
            jinja_dict_put(j, args.named, jinja_of_string(a->name.p, a->name.n), v);
    }
    args.at = list->items;
    args.n = list->n;
    return args;
}

/* What is written in between goes into a text of its own. */
static void begin_capture(struct jinja *j, struct jinja_text *text) {
    *text = (struct jinja_text){.outer = j->out};
    j->out = text;
}

static struct jinja_value end_capture(struct jinja *j, struct jinja_text *text) {
    CHECK(j->out == text);
    j->out = text->outer;
    return jinja_text_value(text);
}

static struct jinja_value capture(struct jinja *j, struct jinja_place *s, const struct jinja_node *body) {
    struct jinja_text text;
    begin_capture(j, &text);
    (void)run(j, s, body);
    return end_capture(j, &text);
}

/* Statements inside of an expression, which has older values on C's stack: collections leave these alone. */
struct isolation {
    size_t keep, due;
};

static struct isolation begin_isolation(struct jinja *j) {
    const struct isolation before = {j->keep, j->collect_at};
    j->keep = j->used;
    return before;
}

static void end_isolation(struct jinja *j, struct isolation before) {
    j->keep = before.keep;
    j->collect_at = before.due; /* what was left behind goes when the expression ends */
}

static struct jinja_value capture_inside(struct jinja *j, const struct jinja_place *s,
                                         const struct jinja_node *body) {
    struct jinja_place own;
    enter(j, &own, s->scope);
    struct jinja_value v = capture(j, &own, body);
    leave(j, &own);
    return v;
}

static struct jinja_value call_macro(struct jinja *j, const struct jinja_macro *m,
                                     const struct jinja_args *args, const struct jinja_value *caller) {
    struct jinja_place own, *s = &own;
    enter(j, s, m->scope);
    size_t place = 0, named = 0;
    for (const struct jinja_arg *a = m->node->args; a != NULL; a = a->next, place++) {
        const struct jinja_value *given =
            jinja_dict_find(j, args->named, jinja_of_string(a->name.p, a->name.n));
        if (given != NULL && place < args->n)
            jinja_fail(j, "a macro gets its argument '%.*s' twice", (int)a->name.n, a->name.p);
        named += given != NULL;
        if (place < args->n)
            set(j, s, a->name, args->at[place]);
        else if (given != NULL)
            set(j, s, a->name, *given);
        else
            set(j, s, a->name, a->value != NULL ? evaluate(j, s, a->value) : jinja_undefined(a->name));
    }
    if (args->n > place)
        jinja_fail(j, "a macro with %zu parameters gets %zu arguments", place, args->n);
    if (caller != NULL)
        set(j, s, (struct jinja_string){"caller", 6}, *caller);
    else if (named < args->named->n)
        jinja_fail(j, "a macro gets an argument that it has no parameter for");
    const struct isolation before = begin_isolation(j);
    struct jinja_value v = capture(j, s, m->node->body);
    end_isolation(j, before);
    leave(j, s);
    return v;
}

/* loop(items) in a recursive loop. */
static struct jinja_value call_loop(struct jinja *j, const struct jinja_loop *l,
                                    const struct jinja_args *args) {
    struct jinja_place own;
    struct jinja_text text;
    if (!l->node->recursive)
        jinja_fail(j, "loop is called, but the loop is not recursive");
    if (args->n != 1 || args->named->n > 0)
        jinja_fail(j, "loop takes the items to go through");
    struct jinja_list *items = jinja_items(j, &args->at[0]);
    const uint32_t depth = l->depth + 1;
    jinja_deeper(j);
    enter(j, &own, l->scope);
    const struct isolation before = begin_isolation(j);
    begin_capture(j, &text);
    (void)run_items(j, &own, l->node, items, depth);
    struct jinja_value v = end_capture(j, &text);
    end_isolation(j, before);
    leave(j, &own);
    j->depth--;
    return v;
}

static struct jinja_value invoke(struct jinja *j, struct jinja_place *s, const struct jinja_node *n,
                                 const struct jinja_value *caller) {
    struct jinja_value f = evaluate(j, s, n->a);
    struct jinja_args args = arguments(j, s, n->args);
    j->line = n->line;
    switch (f.kind) {
    case JINJA_MACRO:
        return call_macro(j, f.macro, &args, caller);
    case JINJA_FUNCTION:
        return jinja_function(j, f.s, &args);
    case JINJA_METHOD:
        if (jinja_is(f.s, "joiner")) {
            const bool first = !f.bound->called;
            ((struct jinja_bound *)(uintptr_t)f.bound)->called = true;
            return first ? jinja_of_text("") : f.bound->self;
        }
        return jinja_method(j, &f.bound->self, f.s, &args);
    case JINJA_LOOP:
        return call_loop(j, f.loop, &args);
    case JINJA_UNDEFINED:
        jinja_fail(j, "'%.*s' is called, but is undefined", (int)(f.s.n < 80 ? f.s.n : 80), f.s.p);
    default:
        jinja_fail(j, "a %s is called", jinja_kind_name(&f));
    }
}

/* --- operators */

static bool whole_pair(const struct jinja_value *a, const struct jinja_value *b, int64_t *x, int64_t *y) {
    if ((a->kind != JINJA_INT && a->kind != JINJA_BOOL) || (b->kind != JINJA_INT && b->kind != JINJA_BOOL))
        return false;
    *x = a->kind == JINJA_INT ? a->i : (int64_t)a->b;
    *y = b->kind == JINJA_INT ? b->i : (int64_t)b->b;
    return true;
}

static struct jinja_value power_whole(struct jinja *j, int64_t x, int64_t y) {
    int64_t out = 1;
    for (; y > 0; y--) {
        jinja_step(j, 1);
        if (__builtin_mul_overflow(out, x, &out))
            jinja_fail(j, "a number is too large");
    }
    return jinja_int(out);
}

static struct jinja_value calculate_whole(struct jinja *j, enum jinja_operator op, int64_t x, int64_t y) {
    int64_t out = 0;
    bool wrong = false;
    if (op == JINJA_OP_ADD)
        wrong = __builtin_add_overflow(x, y, &out);
    else if (op == JINJA_OP_SUBTRACT)
        wrong = __builtin_sub_overflow(x, y, &out);
    else if (op == JINJA_OP_MULTIPLY)
        wrong = __builtin_mul_overflow(x, y, &out);
    else if (op == JINJA_OP_POWER && y >= 0)
        return power_whole(j, x, y);
    else if (op == JINJA_OP_POWER)
        return jinja_power(j, (double)x, (double)y);
    else if (y == 0)
        jinja_fail(j, "a division by zero");
    else if (op == JINJA_OP_DIVIDE)
        return jinja_float((double)x / (double)y);
    else if (y == -1)
        wrong = op == JINJA_OP_FLOOR && __builtin_sub_overflow((int64_t)0, x, &out);
    else if (op == JINJA_OP_FLOOR)
        out = x / y - (x % y != 0 && (x < 0) != (y < 0)); /* towards minus infinity, as in Python */
    else
        out = x % y + (x % y != 0 && (x < 0) != (y < 0) ? y : 0);
    if (wrong)
        jinja_fail(j, "a number is too large");
    return jinja_int(out);
}

static struct jinja_value join_lists(struct jinja *j, const struct jinja_list *a,
                                     const struct jinja_list *b) {
    struct jinja_value v = jinja_new_list(j, a->n + b->n);
    v.list->tuple = a->tuple;
    for (size_t i = 0; i < a->n; i++)
        jinja_list_add(j, v.list, a->items[i]);
    for (size_t i = 0; i < b->n; i++)
        jinja_list_add(j, v.list, b->items[i]);
    return v;
}

static bool may_repeat(const struct jinja_value *v, const struct jinja_value *by, int64_t *times) {
    *times = by->kind == JINJA_BOOL ? (int64_t)by->b : by->i;
    return (by->kind == JINJA_INT || by->kind == JINJA_BOOL) &&
           (v->kind == JINJA_STRING || jinja_is_view(v, JINJA_NO_VIEW));
}

static struct jinja_value repeat(struct jinja *j, const struct jinja_value *v, int64_t times) {
    struct jinja_text text = {0};
    struct jinja_value list = {0};
    if (v->kind == JINJA_LIST) {
        list = jinja_new_list(j, 0);
        list.list->tuple = v->list->tuple;
    }
    for (; times > 0; times--) {
        jinja_step(j, 1);
        if (v->kind == JINJA_STRING)
            jinja_text_put(j, &text, v->s.p, v->s.n);
        for (size_t i = 0; v->kind == JINJA_LIST && i < v->list->n; i++)
            jinja_list_add(j, list.list, v->list->items[i]);
    }
    return v->kind == JINJA_LIST ? list : jinja_text_value(&text);
}

static _Noreturn void no_operator(struct jinja *j, enum jinja_operator op, const struct jinja_value *a,
                                  const struct jinja_value *b) {
    const struct jinja_value *u = a->kind == JINJA_UNDEFINED ? a : b;
    if (u->kind == JINJA_UNDEFINED)
        jinja_fail(j, "'%.*s' is undefined", (int)(u->s.n < 80 ? u->s.n : 80), u->s.p);
    jinja_fail(j, "%s %s %s is not possible", jinja_kind_name(a), jinja_operator_text(op),
               jinja_kind_name(b));
}

static struct jinja_value concatenate(struct jinja *j, const struct jinja_value *a,
                                      const struct jinja_value *b) {
    struct jinja_text t = {0};
    jinja_print(j, &t, a, false);
    jinja_print(j, &t, b, false);
    return jinja_text_value(&t);
}

static bool is_long(const struct jinja_value *v) {
    return v->kind == JINJA_FLOAT && v->s.n > 0;
}

static struct jinja_value binary(struct jinja *j, struct jinja_place *s, const struct jinja_node *n) {
    struct jinja_value a = evaluate(j, s, n->a);
    if (n->op == JINJA_OP_AND || n->op == JINJA_OP_OR)
        return jinja_true(j, &a) == (n->op == JINJA_OP_OR) ? a : evaluate(j, s, n->b);
    struct jinja_value b = evaluate(j, s, n->b);
    int64_t x = 0, y = 0;
    double f = 0, g = 0;
    j->line = n->line;
    if (n->op == JINJA_OP_CONCATENATE)
        return concatenate(j, &a, &b);
    if (n->op == JINJA_OP_MODULO && a.kind == JINJA_STRING)
        return jinja_percent(j, a.s, &b);
    if (whole_pair(&a, &b, &x, &y))
        return calculate_whole(j, n->op, x, y);
    if (jinja_number(&a, &f) && jinja_number(&b, &g) && (is_long(&a) || is_long(&b)))
        jinja_fail(j, "a number is too large to calculate with");
    if (jinja_number(&a, &f) && jinja_number(&b, &g))
        return jinja_calculate(j, n->op, f, g);
    if (n->op == JINJA_OP_ADD && a.kind == JINJA_STRING && b.kind == JINJA_STRING)
        return concatenate(j, &a, &b);
    if (n->op == JINJA_OP_ADD && a.kind == JINJA_LIST && b.kind == JINJA_LIST &&
        a.list->tuple == b.list->tuple && a.list->view == JINJA_NO_VIEW && b.list->view == JINJA_NO_VIEW)
        return join_lists(j, a.list, b.list);
    if (n->op == JINJA_OP_MULTIPLY && may_repeat(&a, &b, &x))
        return repeat(j, &a, x);
    if (n->op == JINJA_OP_MULTIPLY && may_repeat(&b, &a, &x))
        return repeat(j, &b, x);
    no_operator(j, n->op, &a, &b);
}

static struct jinja_value unary(struct jinja *j, struct jinja_place *s, const struct jinja_node *n) {
    struct jinja_value a = evaluate(j, s, n->a);
    double f = 0;
    j->line = n->line;
    if (n->op == JINJA_OP_NOT)
        return jinja_bool(!jinja_true(j, &a));
    if (a.kind == JINJA_INT || a.kind == JINJA_BOOL)
        return calculate_whole(j, n->op, 0, a.kind == JINJA_INT ? a.i : (int64_t)a.b);
    if (!jinja_number(&a, &f))
        no_operator(j, n->op, &a, &a);
    if (is_long(&a)) {
        struct jinja_text t = {0};
        struct jinja_value v = {0};
        jinja_text_puts(j, &t, "-");
        jinja_text_put(j, &t, a.s.p, a.s.n);
        if (n->op == JINJA_OP_SUBTRACT && a.s.p[0] != '-' &&
            jinja_read_int(j, jinja_text_value(&t).s, 10, &v))
            return v;
    }
    return jinja_float(n->op == JINJA_OP_SUBTRACT ? -f : f);
}

static bool holds(struct jinja *j, enum jinja_operator op, const struct jinja_value *a,
                  const struct jinja_value *b) {
    if (op == JINJA_OP_EQUAL)
        return jinja_equal(j, a, b);
    if (op == JINJA_OP_UNEQUAL)
        return !jinja_equal(j, a, b);
    if (op == JINJA_OP_IN)
        return jinja_in(j, a, b);
    if (op == JINJA_OP_NOT_IN)
        return !jinja_in(j, a, b);
    if (a->kind == JINJA_UNDEFINED || b->kind == JINJA_UNDEFINED)
        no_operator(j, op, a, b);
    int c = jinja_order(j, a, b);
    return op == JINJA_OP_LESS      ? c < 0
           : op == JINJA_OP_AT_MOST ? c <= 0
           : op == JINJA_OP_GREATER ? c > 0
                                    : c >= 0;
}

static struct jinja_value compare(struct jinja *j, struct jinja_place *s, const struct jinja_node *n) {
    struct jinja_value a = evaluate(j, s, n->a);
    for (const struct jinja_arg *arg = n->args; arg != NULL; arg = arg->next) {
        struct jinja_value b = evaluate(j, s, arg->value);
        j->line = n->line;
        if (!holds(j, arg->op, &a, &b))
            return jinja_bool(false);
        a = b;
    }
    return jinja_bool(true);
}

/* A bound of a slice, as Python resolves it. */
static int64_t bound(struct jinja *j, struct jinja_place *s, const struct jinja_node *n, int64_t otherwise,
                     int64_t least, int64_t length) {
    if (n == NULL)
        return otherwise;
    struct jinja_value v = evaluate(j, s, n);
    if (v.kind == JINJA_NONE)
        return otherwise;
    if (v.kind != JINJA_INT)
        jinja_fail(j, "a slice's bound is a %s, an integer is expected", jinja_kind_name(&v));
    int64_t at = v.i < 0 ? v.i + length : v.i;
    return at < least ? least : at > length + least ? length + least : at;
}

/* Characters [from, to) of a string. */
static struct jinja_value part_of(const struct jinja_string *s, int64_t from, int64_t to) {
    size_t begin = 0, end;
    for (int64_t k = 0; k < from; k++)
        begin += jinja_char(s->p + begin, s->n - begin);
    end = begin;
    for (int64_t k = from; k < to; k++)
        end += jinja_char(s->p + end, s->n - end);
    return jinja_of_string(s->p + begin, end - begin);
}

static struct jinja_value slice(struct jinja *j, struct jinja_place *s, const struct jinja_node *n) {
    struct jinja_value a = evaluate(j, s, n->a);
    struct jinja_value step = n->d != NULL ? evaluate(j, s, n->d) : jinja_int(1);
    j->line = n->line;
    if (a.kind != JINJA_STRING && !jinja_is_view(&a, JINJA_NO_VIEW) && !jinja_is_view(&a, JINJA_RANGE))
        jinja_fail(j, "a %s can't be sliced", jinja_kind_name(&a));
    if (step.kind == JINJA_NONE)
        step = jinja_int(1);
    if (step.kind != JINJA_INT || step.i == 0 || step.i == INT64_MIN)
        jinja_fail(j, "a slice's step must be an integer other than 0");
    if (a.kind == JINJA_STRING)
        jinja_step(j, 1 + a.s.n / 8);
    const int64_t length = (int64_t)(a.kind == JINJA_STRING ? jinja_length_of(a.s) : a.list->n);
    const bool back = step.i < 0;
    int64_t from = bound(j, s, n->b, back ? length - 1 : 0, back ? -1 : 0, length);
    int64_t to = bound(j, s, n->c, back ? -1 : length, back ? -1 : 0, length);
    if (a.kind == JINJA_STRING && step.i == 1)
        return part_of(&a.s, from, to);
    const struct jinja_list *items = jinja_items(j, &a);
    struct jinja_value out = jinja_new_list(j, 0);
    if (a.kind == JINJA_LIST) {
        out.list->tuple = a.list->tuple;
        out.list->view = a.list->view;
    }
    struct jinja_text text = {0};
    while (back ? from > to : from < to) {
        const struct jinja_value *item = &items->items[from];
        if (a.kind == JINJA_STRING)
            jinja_text_put(j, &text, item->s.p, item->s.n);
        else
            jinja_list_add(j, out.list, *item);
        if (__builtin_add_overflow(from, step.i, &from))
            break;
    }
    return a.kind == JINJA_STRING ? jinja_text_value(&text) : out;
}

static struct jinja_value list_of(struct jinja *j, struct jinja_place *s, const struct jinja_node *n) {
    struct jinja_value v = jinja_new_list(j, 0);
    v.list->tuple = n->kind == JINJA_N_TUPLE;
    for (const struct jinja_arg *a = n->args; a != NULL; a = a->next)
        jinja_list_add(j, v.list, evaluate(j, s, a->value));
    return v;
}

static struct jinja_value dict_of(struct jinja *j, struct jinja_place *s, const struct jinja_node *n) {
    struct jinja_value v = jinja_new_dict(j, 0);
    for (const struct jinja_arg *a = n->args; a != NULL; a = a->next) {
        struct jinja_value key = evaluate(j, s, a->key);
        jinja_need_key(j, &key);
        jinja_dict_put(j, v.dict, key, evaluate(j, s, a->value));
    }
    return v;
}

static struct jinja_value dig(struct jinja *j, struct jinja_place *s, const struct jinja_node *n) {
    struct jinja_value a = evaluate(j, s, n->a);
    struct jinja_value key = {0};
    if (n->kind == JINJA_N_ITEM)
        key = evaluate(j, s, n->b);
    j->line = n->line;
    if (a.kind == JINJA_UNDEFINED)
        jinja_fail(j, "'%.*s' is undefined", (int)(a.s.n < 80 ? a.s.n : 80), a.s.p);
    return n->kind == JINJA_N_ITEM ? jinja_item(j, &a, &key) : jinja_attribute(j, &a, n->name);
}

/* A filter's operand: of a block's filters the captured text stands innermost. */
static struct jinja_value filter(struct jinja *j, struct jinja_place *s, const struct jinja_node *n,
                                 const struct jinja_value *innermost) {
    jinja_deeper(j); /* a chain of a block's filters */
    // cppcheck-suppress nullPointer ; without an operand it is a block's
    struct jinja_value v = n->a == NULL                                        ? *innermost
                           : innermost != NULL && n->a->kind == JINJA_N_FILTER ? filter(j, s, n->a, innermost)
                                                                               : evaluate(j, s, n->a);
    struct jinja_args args = arguments(j, s, n->args);
    j->line = n->line;
    v = jinja_filter(j, n->name, v, &args);
    j->depth--;
    return v;
}

static struct jinja_value evaluate(struct jinja *j, struct jinja_place *s, const struct jinja_node *n) {
    struct jinja_value v = {0};
    struct jinja_args args;
    jinja_step(j, 1);
    jinja_deeper(j);
    j->line = n->line;
    switch (n->kind) {
    case JINJA_N_CONST:
        v = n->v;
        break;
    case JINJA_N_NAME:
        v = look_up(j, s, n->name);
        break;
    case JINJA_N_LIST:
    case JINJA_N_TUPLE:
        v = list_of(j, s, n);
        break;
    case JINJA_N_DICT:
        v = dict_of(j, s, n);
        break;
    case JINJA_N_ATTRIBUTE:
    case JINJA_N_ITEM:
        v = dig(j, s, n);
        break;
    case JINJA_N_SLICE:
        v = slice(j, s, n);
        break;
    case JINJA_N_INVOKE:
        v = invoke(j, s, n, NULL);
        break;
    case JINJA_N_FILTER:
        v = filter(j, s, n, NULL);
        break;
    case JINJA_N_TEST:
        v = evaluate(j, s, n->a);
        args = arguments(j, s, n->args);
        j->line = n->line;
        v = jinja_bool(jinja_test(j, n->name, &v, &args) != n->negated);
        break;
    case JINJA_N_UNARY:
        v = unary(j, s, n);
        break;
    case JINJA_N_BINARY:
        v = binary(j, s, n);
        break;
    case JINJA_N_COMPARE:
        v = compare(j, s, n);
        break;
    case JINJA_N_CHOICE:
        v = evaluate(j, s, n->b);
        if (jinja_true(j, &v))
            v = evaluate(j, s, n->a);
        else
            v = n->c != NULL ? evaluate(j, s, n->c) : jinja_undefined((struct jinja_string){"else", 4});
        break;
    default:
        CHECK(!"an expression");
    }
    j->depth--;
    return v;
}

/* --- statements */

static void assign(struct jinja *j, struct jinja_place *s, const struct jinja_node *target,
                   struct jinja_value v) {
    if (target->kind == JINJA_N_NAME) {
        set(j, s, target->name, v);
        return;
    }
    if (target->kind == JINJA_N_ATTRIBUTE) {
        struct jinja_value space = look_up(j, s, target->a->name);
        if (space.kind != JINJA_NAMESPACE)
            jinja_fail(j, "'%.*s' is a %s: attributes are set on namespaces only", (int)target->a->name.n,
                       target->a->name.p, jinja_kind_name(&space));
        jinja_dict_put(j, space.dict, jinja_of_string(target->name.p, target->name.n), v);
        if (!space.dict->changed) {
            space.dict->changed = true;
            space.dict->next_changed = j->changed;
            j->changed = space.dict;
        }
        return;
    }
    const struct jinja_list *items = jinja_items(j, &v);
    size_t n = 0, wanted = 0;
    for (const struct jinja_arg *a = target->args; a != NULL; a = a->next)
        wanted++;
    if (items->n != wanted)
        jinja_fail(j, "%zu variables are to take %zu values", wanted, items->n);
    for (const struct jinja_arg *a = target->args; a != NULL; a = a->next)
        set(j, s, a->value->name, items->items[n++]);
}

/* The variable `loop`. */
static struct jinja_value loop_of(struct jinja *j, const struct jinja_place *s, const struct jinja_node *n,
                                  struct jinja_list *items, size_t i, uint32_t depth) {
    struct jinja_loop *l = jinja_take(j, 1, sizeof *l);
    *l = (struct jinja_loop){
        .object.kind = JINJA_OF_LOOP, .items = items, .i = i, .node = n, .scope = s->scope, .depth = depth};
    return (struct jinja_value){.kind = JINJA_LOOP, .loop = l};
}

/* Those of the items that the loop's condition takes. */
static struct jinja_list *filtered(struct jinja *j, const struct jinja_place *s, const struct jinja_node *n,
                                   struct jinja_list *items) {
    struct jinja_held all, kept;
    hold(j, &all, items);
    hold(j, &kept, jinja_new_list(j, 0).list);
    for (size_t i = 0; i < all.list->n; i++) {
        struct jinja_place trial;
        enter(j, &trial, s->scope);
        assign(j, &trial, n->target, all.list->items[i]);
        struct jinja_value take = evaluate(j, &trial, n->b);
        if (jinja_true(j, &take))
            jinja_list_add(j, kept.list, all.list->items[i]);
        leave(j, &trial);
        jinja_memory_tidy(j);
    }
    let_go(j, &kept);
    let_go(j, &all);
    return kept.list;
}

static enum flow run_items(struct jinja *j, struct jinja_place *s, const struct jinja_node *n,
                           struct jinja_list *list, uint32_t depth) {
    struct jinja_held items;
    struct jinja_place body;
    enum flow flow = FLOW_ON;
    hold(j, &items, n->b != NULL ? filtered(j, s, n, list) : list);
    for (size_t i = 0; i < items.list->n && flow != FLOW_BREAK; i++) {
        enter(j, &body, s->scope);
        jinja_step(j, 1);
        set(j, &body, (struct jinja_string){"loop", 4}, loop_of(j, s, n, items.list, i, depth));
        assign(j, &body, n->target, items.list->items[i]);
        flow = run(j, &body, n->body);
        leave(j, &body);
        jinja_memory_tidy(j);
    }
    const bool none = items.list->n == 0;
    let_go(j, &items);
    if (!none || n->other == NULL)
        return FLOW_ON;
    enter(j, &body, s->scope);
    flow = run(j, &body, n->other);
    leave(j, &body);
    return flow;
}

static enum flow run_for(struct jinja *j, struct jinja_place *s, const struct jinja_node *n) {
    struct jinja_value over = evaluate(j, s, n->a);
    j->line = n->line;
    return run_items(j, s, n, jinja_items(j, &over), 0);
}

static struct jinja_macro *new_macro(struct jinja *j, const struct jinja_place *s,
                                     const struct jinja_node *n) {
    struct jinja_macro *m = jinja_take(j, 1, sizeof *m);
    *m = (struct jinja_macro){.object.kind = JINJA_OF_MACRO, .node = n, .scope = s->scope};
    return m;
}

static void run_call(struct jinja *j, struct jinja_place *s, const struct jinja_node *n) {
    struct jinja_macro *m = new_macro(j, s, n);
    struct jinja_value caller = {.kind = JINJA_MACRO, .macro = m};
    struct jinja_value v = invoke(j, s, n->a, &caller);
    jinja_print(j, j->out, &v, false);
}

static enum flow run_one(struct jinja *j, struct jinja_place *s, const struct jinja_node *n) {
    struct jinja_value v;
    struct jinja_place own;
    enum flow flow = FLOW_ON;
    switch (n->kind) {
    case JINJA_N_TEXT:
        jinja_text_put(j, j->out, n->v.s.p, n->v.s.n);
        return FLOW_ON;
    case JINJA_N_OUTPUT:
        v = evaluate(j, s, n->a);
        j->line = n->line;
        jinja_print(j, j->out, &v, false);
        return FLOW_ON;
    case JINJA_N_IF:
        v = evaluate(j, s, n->a);
        return run(j, s, jinja_true(j, &v) ? n->body : n->other);
    case JINJA_N_FOR:
        return run_for(j, s, n);
    case JINJA_N_SET:
        v = evaluate(j, s, n->a);
        j->line = n->line;
        assign(j, s, n->target, v);
        return FLOW_ON;
    case JINJA_N_CAPTURE:
        v = capture_inside(j, s, n->body);
        assign(j, s, n->target, n->a != NULL ? filter(j, s, n->a, &v) : v);
        return FLOW_ON;
    case JINJA_N_FILTERED:
        v = capture_inside(j, s, n->body);
        v = filter(j, s, n->a, &v);
        jinja_print(j, j->out, &v, false);
        return FLOW_ON;
    case JINJA_N_MACRO:
        set(j, s, n->name, (struct jinja_value){.kind = JINJA_MACRO, .macro = new_macro(j, s, n)});
        return FLOW_ON;
    case JINJA_N_CALL:
        run_call(j, s, n);
        return FLOW_ON;
    case JINJA_N_WITH:
        enter(j, &own, s->scope);
        for (const struct jinja_arg *a = n->args; a != NULL; a = a->next)
            set(j, &own, a->name, evaluate(j, s, a->value));
        flow = run(j, &own, n->body);
        leave(j, &own);
        return flow;
    case JINJA_N_GROUP:
        return run(j, s, n->body);
    case JINJA_N_BREAK:
        return FLOW_BREAK;
    default:
        CHECK(n->kind == JINJA_N_CONTINUE);
        return FLOW_CONTINUE;
    }
}

static enum flow run(struct jinja *j, struct jinja_place *s, const struct jinja_node *n) {
    enum flow flow = FLOW_ON;
    jinja_deeper(j);
    for (; n != NULL && flow == FLOW_ON; n = n->next) {
        jinja_step(j, 1);
        j->line = n->line;
        flow = run_one(j, s, n);
        jinja_memory_tidy(j);
    }
    j->depth--;
    return flow;
}

static void render(struct jinja *j) {
    struct jinja_place globals, template;
    enter(j, &globals, NULL);
    struct jinja_value given = jinja_from_json(j, j->in->variables);
    for (size_t i = 0; i < given.dict->n; i++)
        set(j, &globals, given.dict->entries[i].key.s, given.dict->entries[i].value);
    if (j->in->max_steps == 0)
        j->max_steps += JINJA_STEPS_PER_BYTE * j->given;
    const struct jinja_node *statements = jinja_parse(j);
    enter(j, &template, globals.scope);
    jinja_memory_begin(j);
    (void)run(j, &template, statements);
    leave(j, &template);
    leave(j, &globals);
}

stator_status jinja_render(const struct jinja_input *in, void *memory, size_t bytes, const char **text,
                           size_t *length, stator_error *e) {
    CHECK(json_is_object(in->variables) && (uintptr_t)memory % 16 == 0);
    stator_error own = {0};
    struct jinja j = {.in = in,
                      .memory = memory,
                      .bytes = bytes,
                      .top = bytes / 16 * 16,
                      .max_steps = in->max_steps != 0 ? in->max_steps : JINJA_STEPS,
                      .deadline = clock_ns() + JINJA_SECONDS * (uint64_t)1000000000,
                      .line = 1,
                      .e = e != NULL ? e : &own};
    j.out = &j.rendered;
    if (setjmp(j.failed) != 0)
        return j.e->code;
    render(&j);
    const struct jinja_string out = jinja_memory_end(&j);
    *text = out.p;
    *length = out.n;
    return STATOR_OK;
}
