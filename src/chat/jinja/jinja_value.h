/* Inside the Jinja: values, the memory they lie in, and how errors leave.
 *
 * Everything lives in one piece of the caller's memory. Values are taken from its lower end; what no value
 * reaches any more is given back between statements (jinja_memory.h). The rendered text lies at the upper
 * end. An error jumps out of the rendering (jinja_fail), so no function returns one. Values are passed by
 * copy; lists and dicts are shared. */
#ifndef STATOR_CHAT_JINJA_VALUE_H
#define STATOR_CHAT_JINJA_VALUE_H

#include "chat/jinja.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>

enum jinja_kind {
    JINJA_UNDEFINED, /* s: the name that was not found */
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
    JINJA_FLOAT,
    JINJA_STRING,
    JINJA_LIST,
    JINJA_DICT,
    JINJA_NAMESPACE, /* dict, whose entries `set` may change */
    JINJA_FUNCTION,  /* one of the globals; s: its name */
    JINJA_METHOD,    /* of bound->self; s: its name */
    JINJA_MACRO,
    JINJA_LOOP /* the variable `loop` */
};

struct jinja_string {
    const char *p; /* UTF-8, no NUL */
    size_t n;
};

struct jinja_list;
struct jinja_dict;
struct jinja_macro;
struct jinja_bound;
struct jinja_loop;
struct jinja_node;

/* A FLOAT with an s is a number that is written like that: an integer beyond 64 bits, or one that a double
 * can't hold. */
struct jinja_value {
    enum jinja_kind kind;
    union {
        bool b;
        int64_t i;
        double f;
        struct jinja_list *list;
        struct jinja_dict *dict;
        const struct jinja_macro *macro;
        const struct jinja_bound *bound;
        struct jinja_loop *loop;
    };
    struct jinja_string s; /* STRING; UNDEFINED, FUNCTION, METHOD: a name; FLOAT: see above */
};

/* The head of everything that values share and a collection may move. */
struct jinja_object {
    enum jinja_object_kind {
        JINJA_OF_LIST,
        JINJA_OF_DICT,
        JINJA_OF_BOUND,
        JINJA_OF_LOOP,
        JINJA_OF_MACRO,
        JINJA_OF_SCOPE
    } kind;
    struct jinja_object *moved; /* during a collection: where it will lie; else NULL */
    struct jinja_object *next;  /* during a collection: the next copy whose contents are not moved yet */
};

struct jinja_list {
    struct jinja_object object;
    struct jinja_value *items;
    size_t n, capacity;
    bool tuple; /* prints with parentheses */
    bool group; /* of groupby: its two items are also called grouper and list */
    enum jinja_view {
        JINJA_NO_VIEW,
        JINJA_KEYS, /* what dicts give out: no index, no JSON */
        JINJA_VALUES,
        JINJA_ITEMS,
        JINJA_RANGE,
        JINJA_GENERATOR /* what map, select and others give out: is true, has no length, is gone through once
                         */
    } view;
};

struct jinja_entry {
    struct jinja_value key, value;
};

struct jinja_dict {
    struct jinja_object object;
    struct jinja_dict *next_changed; /* a namespace that was assigned to: the next of these */
    bool changed;
    struct jinja_entry *entries; /* in the order of their arrival */
    size_t n, capacity;
};

struct jinja_bound {
    struct jinja_object object;
    struct jinja_value self;
    bool called; /* of a joiner */
};

struct jinja_loop {
    struct jinja_object object;
    struct jinja_list *items;
    size_t i; /* the present item, from 0 */
    const struct jinja_node *node;
    struct jinja_scope *scope; /* around the loop */
    uint32_t depth;            /* of calls of a recursive loop, from 0 */
};

struct jinja_variable {
    struct jinja_variable *next;
    struct jinja_string name; /* of the template's text, or of the input */
    struct jinja_value v;
};

/* Names are looked for here, then outside. */
struct jinja_scope {
    struct jinja_object object;
    struct jinja_scope *outer;
    struct jinja_variable *first;
};

struct jinja_macro {
    struct jinja_object object;
    const struct jinja_node *node; /* MACRO or CALL: args and body */
    struct jinja_scope *scope;     /* where it was made */
};

/* Text that grows. The rendered one is not contiguous until the end (jinja_memory.h) and has no p. */
struct jinja_text {
    char *p;
    size_t n, capacity;
    struct jinja_text *outer; /* what a captured text interrupts; else NULL */
};

/* What the evaluation holds on C's stack while statements run. A collection finds and changes these. */
struct jinja_place { /* a scope in use */
    struct jinja_place *outer;
    struct jinja_scope *scope;
};
struct jinja_held { /* a list that a loop goes through or makes */
    struct jinja_held *outer;
    struct jinja_list *list;
};

struct jinja {
    const struct jinja_input *in;
    uint8_t *memory;
    size_t bytes;      /* of it */
    size_t used;       /* values: [0, used) */
    size_t top;        /* rendered text: [top, bytes) */
    size_t keep;       /* a collection leaves [0, keep) as it is */
    size_t collect_at; /* `used` from which a collection is due */
    uint64_t steps, max_steps;
    uint64_t look_at;  /* steps at which limits are looked at next */
    uint64_t deadline; /* clock_ns */
    uint64_t given;    /* bytes that the variables hold */
    uint32_t depth;
    uint32_t line; /* of what is being parsed or done */
    struct jinja_text rendered;
    struct jinja_text *out; /* what statements write to: rendered, or a captured text */
    struct jinja_place *places;
    struct jinja_held *held;
    struct jinja_dict *changed; /* all namespaces that were assigned to */
    jmp_buf failed;
    stator_error *e;
};

/* With STATOR_USAGE. */
_Noreturn void jinja_fail(struct jinja *j, const char *format, ...) __attribute__((format(printf, 2, 3)));
_Noreturn void jinja_fail_memory(struct jinja *j);
/* Pays for n steps, each the work of some tens of nanoseconds. Fails beyond max_steps, after JINJA_SECONDS,
 * or when told to stop. */
void jinja_step(struct jinja *j, uint64_t n);
void jinja_deeper(struct jinja *j); /* fails beyond JINJA_DEPTH; the caller takes it back with j->depth-- */

void *jinja_take(struct jinja *j, size_t count, size_t size); /* zeroed, aligned to 16 */

void jinja_text_put(struct jinja *j, struct jinja_text *t, const char *p, size_t n);
void jinja_text_puts(struct jinja *j, struct jinja_text *t, const char *s);
struct jinja_value jinja_text_value(const struct jinja_text *t);

struct jinja_value jinja_none(void);
struct jinja_value jinja_bool(bool b);
struct jinja_value jinja_int(int64_t i);
struct jinja_value jinja_float(double f);
struct jinja_value jinja_of_string(const char *p, size_t n); /* not copied */
struct jinja_value jinja_of_text(const char *s);             /* likewise, up to its NUL */
struct jinja_value jinja_undefined(struct jinja_string name);
struct jinja_value jinja_new_list(struct jinja *j, size_t capacity);
struct jinja_value jinja_new_dict(struct jinja *j, size_t capacity);
void jinja_list_add(struct jinja *j, struct jinja_list *l, struct jinja_value v);
void jinja_dict_put(struct jinja *j, struct jinja_dict *d, struct jinja_value key, struct jinja_value v);
/* NULL: no such key. */
const struct jinja_value *jinja_dict_find(struct jinja *j, const struct jinja_dict *d,
                                          struct jinja_value key);
struct jinja_value jinja_from_json(struct jinja *j, const json_t *json);

bool jinja_is(struct jinja_string s, const char *name);
bool jinja_is_string(const struct jinja_value *v, const char *text);
bool jinja_true(struct jinja *j, const struct jinja_value *v); /* as Python has it */
bool jinja_equal(struct jinja *j, const struct jinja_value *a, const struct jinja_value *b);
/* < 0, 0, > 0; fails for values without an order. */
int jinja_order(struct jinja *j, const struct jinja_value *a, const struct jinja_value *b);
bool jinja_number(const struct jinja_value *v, double *f); /* BOOL, INT, FLOAT */
const char *jinja_kind_name(const struct jinja_value *v);  /* for people */
/* How Python prints it: str(v), or repr(v). */
void jinja_print(struct jinja *j, struct jinja_text *t, const struct jinja_value *v, bool repr);
struct jinja_value jinja_str(struct jinja *j, const struct jinja_value *v);
/* json.dumps(v, ..) with its arguments of the same names. */
struct jinja_json_style {
    bool lines;                 /* each value on a line of its own */
    struct jinja_string indent; /* of these, per level */
    bool sort_keys, ensure_ascii;
    struct jinja_string between, behind_key; /* separators */
};
void jinja_json(struct jinja *j, struct jinja_text *t, const struct jinja_value *v,
                const struct jinja_json_style *style, int level);
/* Values that a loop, list() or join() goes through: list, dict's keys, string's characters. */
struct jinja_list *jinja_items(struct jinja *j, const struct jinja_value *v);
/* The items as what map, select and others give out. */
struct jinja_value jinja_generator(struct jinja_value list);
bool jinja_is_view(const struct jinja_value *v, enum jinja_view view);
/* Fails for values that can't be a dict's key. */
void jinja_need_key(struct jinja *j, const struct jinja_value *v);

/* Bytes of the UTF-8 character at p (n > 0 bytes are there); a stray byte counts as one. */
size_t jinja_char(const char *p, size_t n);
size_t jinja_length_of(struct jinja_string s); /* in characters */

#endif
