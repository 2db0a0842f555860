/* The filters and tests of the Jinja, each a function in a table, and its global functions. */
#include "chat/jinja_parse.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- arguments */

const struct jinja_value *jinja_arg(struct jinja *j, const struct jinja_args *a, size_t place,
                                    const char *name) {
    if (place < a->n)
        return &a->at[place];
    return name != NULL ? jinja_dict_find(j, a->named, jinja_of_text(name)) : NULL;
}

void jinja_args_check(struct jinja *j, const struct jinja_args *a, struct jinja_string who, size_t n,
                      const char *const *names) {
    if (a->n > n)
        jinja_fail(j, "%.*s gets %zu arguments, at most %zu are known", (int)who.n, who.p, a->n, n);
    for (size_t i = 0; i < a->named->n; i++) {
        bool known = false;
        for (size_t k = 0; names != NULL && names[k] != NULL; k++)
            known = known || jinja_is_string(&a->named->entries[i].key, names[k]);
        if (!known)
            jinja_fail(j, "%.*s does not know an argument '%.*s'", (int)who.n, who.p,
                       (int)a->named->entries[i].key.s.n, a->named->entries[i].key.s.p);
    }
}

static struct jinja_string need_string(struct jinja *j, const struct jinja_value *v, const char *who) {
    if (v->kind == JINJA_UNDEFINED)
        jinja_fail(j, "%s: '%.*s' is undefined", who, (int)(v->s.n < 80 ? v->s.n : 80), v->s.p);
    if (v->kind != JINJA_STRING)
        jinja_fail(j, "%s: a string is expected, found a %s", who, jinja_kind_name(v));
    return v->s;
}

static int64_t need_int(struct jinja *j, const struct jinja_value *v, const char *who) {
    if (v->kind != JINJA_INT)
        jinja_fail(j, "%s: an integer is expected, found a %s", who, jinja_kind_name(v));
    return v->i;
}

static bool flag(struct jinja *j, const struct jinja_args *a, size_t place, const char *name,
                 bool otherwise) {
    const struct jinja_value *v = jinja_arg(j, a, place, name);
    return v != NULL ? jinja_true(j, v) : otherwise;
}

static struct jinja_value no_arguments(struct jinja *j) {
    return jinja_new_list(j, 0);
}

/* --- filters */

typedef struct jinja_value filter_function(struct jinja *j, struct jinja_value v, const struct jinja_args *a);

static struct jinja_value method(struct jinja *j, struct jinja_value v, const char *name,
                                 const struct jinja_args *a) {
    v = jinja_str(j, &v);
    return jinja_method(j, &v, jinja_of_text(name).s, a);
}

static struct jinja_value f_trim(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    return method(j, v, "strip", a);
}
static struct jinja_value f_upper(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    return method(j, v, "upper", a);
}
static struct jinja_value f_lower(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    return method(j, v, "lower", a);
}
static struct jinja_value f_title(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    return method(j, v, "title", a);
}
static struct jinja_value f_capitalize(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    return method(j, v, "capitalize", a);
}
static struct jinja_value f_replace(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    return method(j, v, "replace", a);
}
static struct jinja_value f_string(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    (void)a;
    return jinja_str(j, &v);
}
static struct jinja_value f_safe(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    return f_string(j, v, a); /* nothing is escaped */
}

static struct jinja_value f_length(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    (void)a;
    if (v.kind == JINJA_STRING) {
        jinja_step(j, 1 + v.s.n / 16);
        return jinja_int((int64_t)jinja_length_of(v.s));
    }
    if (v.kind == JINJA_DICT)
        return jinja_int((int64_t)v.dict->n);
    return jinja_int((int64_t)jinja_items(j, &v)->n);
}

static struct jinja_value f_tojson(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    const struct jinja_value *indent = jinja_arg(j, a, SIZE_MAX, "indent");
    const struct jinja_value *ascii = jinja_arg(j, a, SIZE_MAX, "ensure_ascii");
    const struct jinja_value *separators = jinja_arg(j, a, SIZE_MAX, "separators");
    if (a->n > 0)
        indent = &a->at[0];
    if ((ascii != NULL && jinja_true(j, ascii)) || (separators != NULL && separators->kind != JINJA_NONE))
        jinja_fail(j, "tojson: ensure_ascii and separators are not supported");
    int by = -1;
    if (indent != NULL && indent->kind != JINJA_NONE) {
        int64_t n = need_int(j, indent, "tojson: indent");
        if (n < 0 || n > 64)
            jinja_fail(j, "tojson: an indent of 0 to 64 is expected");
        by = (int)n;
    }
    struct jinja_text t = {0};
    jinja_json(j, &t, &v, by, flag(j, a, SIZE_MAX, "sort_keys", false), 0);
    return jinja_text_value(&t);
}

/* v.a.b or v[0] for "a.b" or 0, as filters with attribute= look it up. */
static struct jinja_value attribute_of(struct jinja *j, struct jinja_value v,
                                       const struct jinja_value *name) {
    if (name->kind == JINJA_INT)
        return jinja_item(j, &v, name);
    struct jinja_string s = need_string(j, name, "attribute");
    for (size_t at = 0; at <= s.n;) {
        const char *dot = at < s.n ? memchr(s.p + at, '.', s.n - at) : NULL;
        size_t end = dot != NULL ? (size_t)(dot - s.p) : s.n;
        struct jinja_value key = jinja_of_string(s.p + at, end - at);
        if (v.kind == JINJA_UNDEFINED)
            return v;
        v = jinja_item(j, &v, &key);
        at = end + 1;
    }
    return v;
}

static struct jinja_value f_join(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    const struct jinja_value *by = jinja_arg(j, a, 0, "d"), *attribute = jinja_arg(j, a, 1, "attribute");
    const struct jinja_list *items = jinja_items(j, &v);
    struct jinja_text t = {0};
    for (size_t i = 0; i < items->n; i++) {
        struct jinja_value item =
            attribute != NULL ? attribute_of(j, items->items[i], attribute) : items->items[i];
        if (i > 0 && by != NULL)
            jinja_print(j, &t, by, false);
        jinja_print(j, &t, &item, false);
    }
    return jinja_text_value(&t);
}

static struct jinja_value f_list(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    (void)a;
    const struct jinja_list *items = jinja_items(j, &v);
    struct jinja_value out = jinja_new_list(j, items->n);
    for (size_t i = 0; i < items->n; i++)
        jinja_list_add(j, out.list, items->items[i]);
    return out;
}

static struct jinja_value f_items(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    (void)a;
    const struct jinja_args none = {.named = jinja_new_dict(j, 0).dict};
    if (v.kind == JINJA_UNDEFINED)
        return no_arguments(j);
    if (v.kind != JINJA_DICT)
        jinja_fail(j, "items: a dict is expected, found a %s", jinja_kind_name(&v));
    return jinja_method(j, &v, (struct jinja_string){"items", 5}, &none);
}

static struct jinja_value f_default(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    const struct jinja_value *otherwise = jinja_arg(j, a, 0, "default_value");
    bool missing = v.kind == JINJA_UNDEFINED || (flag(j, a, 1, "boolean", false) && !jinja_true(j, &v));
    return !missing ? v : otherwise != NULL ? *otherwise : jinja_of_text("");
}

static struct jinja_value f_first(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    (void)a;
    const struct jinja_list *items = jinja_items(j, &v);
    return items->n > 0 ? items->items[0] : jinja_undefined((struct jinja_string){"first", 5});
}

static struct jinja_value f_last(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    (void)a;
    const struct jinja_list *items = jinja_items(j, &v);
    return items->n > 0 ? items->items[items->n - 1] : jinja_undefined((struct jinja_string){"last", 4});
}

static struct jinja_value f_reverse(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    (void)a;
    const struct jinja_list *items = jinja_items(j, &v);
    struct jinja_value out = jinja_new_list(j, items->n);
    for (size_t i = items->n; i > 0; i--)
        jinja_list_add(j, out.list, items->items[i - 1]);
    if (v.kind != JINJA_STRING)
        return out;
    const struct jinja_args none = {.named = jinja_new_dict(j, 0).dict};
    return f_join(j, out, &none);
}

static struct jinja_value f_int(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    const struct jinja_value *otherwise = jinja_arg(j, a, 0, "default");
    double f = 0;
    if (v.kind == JINJA_INT)
        return v;
    if (jinja_number(&v, &f) && fabs(f) < 9e18)
        return jinja_int((int64_t)f);
    if (v.kind == JINJA_STRING && v.s.n > 0 && v.s.n < 40) {
        char text[40], *end = NULL;
        memcpy(text, v.s.p, v.s.n);
        text[v.s.n] = '\0';
        errno = 0;
        f = strtod(text, &end);
        while (isspace((unsigned char)*end))
            end++;
        if (end != text && *end == '\0' && errno == 0 && fabs(f) < 9e18)
            return jinja_int(strpbrk(text, ".eEnN") == NULL ? strtoll(text, NULL, 10) : (int64_t)f);
    }
    return otherwise != NULL ? *otherwise : jinja_int(0);
}

static struct jinja_value f_float(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    const struct jinja_value *otherwise = jinja_arg(j, a, 0, "default");
    double f = 0;
    if (jinja_number(&v, &f))
        return jinja_float(f);
    if (v.kind == JINJA_STRING && v.s.n > 0 && v.s.n < 60) {
        char text[60], *end = NULL;
        memcpy(text, v.s.p, v.s.n);
        text[v.s.n] = '\0';
        f = strtod(text, &end);
        if (end != text && *end == '\0')
            return jinja_float(f);
    }
    return otherwise != NULL ? *otherwise : jinja_float(0);
}

static struct jinja_value f_abs(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    (void)a;
    double f = 0;
    if (v.kind == JINJA_INT && v.i != INT64_MIN)
        return jinja_int(v.i < 0 ? -v.i : v.i);
    if (!jinja_number(&v, &f))
        jinja_fail(j, "abs: a number is expected, found a %s", jinja_kind_name(&v));
    return jinja_float(fabs(f));
}

static struct jinja_value f_round(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    const struct jinja_value *digits = jinja_arg(j, a, 0, "precision"), *how = jinja_arg(j, a, 1, "method");
    double f = 0;
    if (!jinja_number(&v, &f))
        jinja_fail(j, "round: a number is expected, found a %s", jinja_kind_name(&v));
    double by = pow(10, digits != NULL ? (double)need_int(j, digits, "round") : 0);
    if (how != NULL && jinja_is_string(how, "ceil"))
        return jinja_float(ceil(f * by) / by);
    if (how != NULL && jinja_is_string(how, "floor"))
        return jinja_float(floor(f * by) / by);
    return jinja_float(rint(f * by) / by);
}

/* Merge sort: stable, and its comparisons may fail. */
static void sort_values(struct jinja *j, struct jinja_value *v, const struct jinja_value *keys, size_t *order,
                        size_t *spare, size_t n, bool back) {
    (void)v;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t low = 0; low < n; low += 2 * width) {
            size_t mid = low + width < n ? low + width : n, high = low + 2 * width < n ? low + 2 * width : n;
            for (size_t a = low, b = mid, k = low; k < high; k++) {
                bool left = b == high;
                if (!left && a < mid) {
                    jinja_step(j, 1);
                    int c = jinja_order(j, &keys[order[a]], &keys[order[b]]);
                    left = back ? c >= 0 : c <= 0;
                }
                spare[k] = left && a < mid ? order[a++] : b < high ? order[b++] : order[a++];
            }
        }
        memcpy(order, spare, n * sizeof *order);
    }
}

static struct jinja_value lowered(struct jinja *j, struct jinja_value v) {
    const struct jinja_args none = {.named = jinja_new_dict(j, 0).dict};
    return v.kind == JINJA_STRING ? f_lower(j, v, &none) : v;
}

static struct jinja_value sorted(struct jinja *j, const struct jinja_list *items,
                                 const struct jinja_value *attribute, bool back, bool exact) {
    struct jinja_value *keys = jinja_take(j, items->n, sizeof *keys);
    size_t *order = jinja_take(j, items->n, sizeof *order), *spare = jinja_take(j, items->n, sizeof *spare);
    for (size_t i = 0; i < items->n; i++) {
        order[i] = i;
        keys[i] = attribute != NULL ? attribute_of(j, items->items[i], attribute) : items->items[i];
        if (!exact)
            keys[i] = lowered(j, keys[i]);
    }
    sort_values(j, items->items, keys, order, spare, items->n, back);
    struct jinja_value out = jinja_new_list(j, items->n);
    for (size_t i = 0; i < items->n; i++)
        jinja_list_add(j, out.list, items->items[order[i]]);
    return out;
}

static struct jinja_value f_sort(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    return sorted(j, jinja_items(j, &v), jinja_arg(j, a, 2, "attribute"), flag(j, a, 0, "reverse", false),
                  flag(j, a, 1, "case_sensitive", false));
}

static struct jinja_value f_dictsort(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    const struct jinja_value *by = jinja_arg(j, a, 1, "by");
    const struct jinja_value at = jinja_int(by != NULL && jinja_is_string(by, "value"));
    struct jinja_value pairs = f_items(j, v, a);
    return sorted(j, pairs.list, &at, flag(j, a, 2, "reverse", false),
                  flag(j, a, 0, "case_sensitive", false));
}

static struct jinja_value f_unique(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    const struct jinja_list *items = jinja_items(j, &v);
    bool exact = flag(j, a, 0, "case_sensitive", false);
    const struct jinja_value *attribute = jinja_arg(j, a, 1, "attribute");
    struct jinja_value out = jinja_new_list(j, 0), seen = jinja_new_list(j, 0);
    for (size_t i = 0; i < items->n; i++) {
        struct jinja_value key =
            attribute != NULL ? attribute_of(j, items->items[i], attribute) : items->items[i];
        if (!exact)
            key = lowered(j, key);
        if (jinja_in(j, &key, &seen))
            continue;
        jinja_list_add(j, seen.list, key);
        jinja_list_add(j, out.list, items->items[i]);
    }
    return out;
}

static struct jinja_value extreme(struct jinja *j, struct jinja_value v, const struct jinja_args *a,
                                  bool largest) {
    struct jinja_value all = sorted(j, jinja_items(j, &v), jinja_arg(j, a, 1, "attribute"), largest,
                                    flag(j, a, 0, "case_sensitive", false));
    return f_first(j, all, a);
}
static struct jinja_value f_min(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    return extreme(j, v, a, false);
}
static struct jinja_value f_max(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    return extreme(j, v, a, true);
}

static struct jinja_value f_sum(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    const struct jinja_value *attribute = jinja_arg(j, a, 0, "attribute"),
                             *start = jinja_arg(j, a, 1, "start");
    const struct jinja_list *items = jinja_items(j, &v);
    struct jinja_value sum = start != NULL ? *start : jinja_int(0);
    for (size_t i = 0; i < items->n; i++) {
        struct jinja_value item =
            attribute != NULL ? attribute_of(j, items->items[i], attribute) : items->items[i];
        double x = 0, y = 0;
        int64_t whole = 0;
        if (!jinja_number(&sum, &x) || !jinja_number(&item, &y))
            jinja_fail(j, "sum: numbers are expected, found a %s", jinja_kind_name(&item));
        if (sum.kind == JINJA_INT && item.kind == JINJA_INT && !__builtin_add_overflow(sum.i, item.i, &whole))
            sum = jinja_int(whole);
        else
            sum = jinja_float(x + y);
    }
    return sum;
}

static struct jinja_value f_indent(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    struct jinja_string s = need_string(j, &v, "indent");
    const struct jinja_value *width = jinja_arg(j, a, 0, "width");
    bool first = flag(j, a, 1, "first", false), blank = flag(j, a, 2, "blank", false);
    struct jinja_text by = {0}, t = {0};
    if (width != NULL && width->kind == JINJA_STRING)
        jinja_text_put(j, &by, width->s.p, width->s.n);
    else
        for (int64_t n = width != NULL ? need_int(j, width, "indent") : 4; n > 0; n--)
            jinja_text_puts(j, &by, " ");
    for (size_t at = 0, line = 0; at <= s.n; line++) {
        const char *newline = at < s.n ? memchr(s.p + at, '\n', s.n - at) : NULL;
        size_t end = newline != NULL ? (size_t)(newline - s.p) : s.n;
        if ((line > 0 || first) && (end > at || blank))
            jinja_text_put(j, &t, by.p, by.n);
        jinja_text_put(j, &t, s.p + at, end - at);
        if (newline != NULL)
            jinja_text_puts(j, &t, "\n");
        at = end + 1;
    }
    return jinja_text_value(&t);
}

static struct jinja_args rest_of(const struct jinja_args *a, size_t skip) {
    if (a->n <= skip)
        return (struct jinja_args){.named = a->named};
    return (struct jinja_args){a->at + skip, a->n - skip, a->named};
}

static struct jinja_value f_map(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    const struct jinja_value *attribute = jinja_arg(j, a, SIZE_MAX, "attribute");
    const struct jinja_value *otherwise = jinja_arg(j, a, SIZE_MAX, "default");
    const struct jinja_list *items = jinja_items(j, &v);
    struct jinja_value out = jinja_new_list(j, items->n);
    if (attribute == NULL && a->n == 0)
        jinja_fail(j, "map: the name of a filter, or attribute=, is expected");
    const struct jinja_args rest = rest_of(a, 1);
    for (size_t i = 0; i < items->n; i++) {
        struct jinja_value item = items->items[i];
        if (attribute != NULL) {
            item = attribute_of(j, item, attribute);
            if (item.kind == JINJA_UNDEFINED && otherwise != NULL)
                item = *otherwise;
        } else {
            item = jinja_filter(j, need_string(j, &a->at[0], "map"), item, &rest);
        }
        jinja_list_add(j, out.list, item);
    }
    return out;
}

/* select, reject and their kin: items for which a test holds, or does not. */
static struct jinja_value pick(struct jinja *j, struct jinja_value v, const struct jinja_args *a,
                               bool attribute, bool wanted) {
    const struct jinja_list *items = jinja_items(j, &v);
    struct jinja_value out = jinja_new_list(j, 0);
    size_t skip = attribute ? 1 : 0;
    if (a->n < skip)
        jinja_fail(j, "selectattr and rejectattr need the name of an attribute");
    struct jinja_args rest = rest_of(a, skip + 1);
    for (size_t i = 0; i < items->n; i++) {
        struct jinja_value subject =
            attribute ? attribute_of(j, items->items[i], &a->at[0]) : items->items[i];
        bool holds = a->n > skip ? jinja_test(j, need_string(j, &a->at[skip], "select"), &subject, &rest)
                                 : jinja_true(j, &subject);
        if (holds == wanted)
            jinja_list_add(j, out.list, items->items[i]);
    }
    return out;
}
static struct jinja_value f_select(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    return pick(j, v, a, false, true);
}
static struct jinja_value f_reject(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    return pick(j, v, a, false, false);
}
static struct jinja_value f_selectattr(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    return pick(j, v, a, true, true);
}
static struct jinja_value f_rejectattr(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    return pick(j, v, a, true, false);
}

static struct jinja_value f_escape(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    (void)a;
    static const char marks[] = "&<>'\"";
    static const char *const as[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    struct jinja_string s = jinja_str(j, &v).s;
    struct jinja_text t = {0};
    for (size_t i = 0; i < s.n; i++) {
        const char *mark = s.p[i] != '\0' ? strchr(marks, s.p[i]) : NULL;
        if (mark != NULL)
            jinja_text_puts(j, &t, as[mark - marks]);
        else
            jinja_text_put(j, &t, s.p + i, 1);
    }
    return jinja_text_value(&t);
}

static const struct {
    const char *name;
    filter_function *run;
    size_t places;              /* arguments by place, at most */
    const char *const names[5]; /* that may be given by name */
} filters[] = {
    {"abs", f_abs, 0, {NULL}},
    {"capitalize", f_capitalize, 0, {NULL}},
    {"count", f_length, 0, {NULL}},
    {"d", f_default, 2, {"default_value", "boolean", NULL}},
    {"default", f_default, 2, {"default_value", "boolean", NULL}},
    {"dictsort", f_dictsort, 3, {"case_sensitive", "by", "reverse", NULL}},
    {"e", f_escape, 0, {NULL}},
    {"escape", f_escape, 0, {NULL}},
    {"first", f_first, 0, {NULL}},
    {"float", f_float, 1, {"default", NULL}},
    {"indent", f_indent, 3, {"width", "first", "blank", NULL}},
    {"int", f_int, 1, {"default", NULL}},
    {"items", f_items, 0, {NULL}},
    {"join", f_join, 2, {"d", "attribute", NULL}},
    {"last", f_last, 0, {NULL}},
    {"length", f_length, 0, {NULL}},
    {"list", f_list, 0, {NULL}},
    {"lower", f_lower, 0, {NULL}},
    {"map", f_map, SIZE_MAX, {"attribute", "default", NULL}},
    {"max", f_max, 2, {"case_sensitive", "attribute", NULL}},
    {"min", f_min, 2, {"case_sensitive", "attribute", NULL}},
    {"reject", f_reject, SIZE_MAX, {NULL}},
    {"rejectattr", f_rejectattr, SIZE_MAX, {NULL}},
    {"replace", f_replace, 3, {NULL}},
    {"reverse", f_reverse, 0, {NULL}},
    {"round", f_round, 2, {"precision", "method", NULL}},
    {"safe", f_safe, 0, {NULL}},
    {"select", f_select, SIZE_MAX, {NULL}},
    {"selectattr", f_selectattr, SIZE_MAX, {NULL}},
    {"sort", f_sort, 3, {"reverse", "case_sensitive", "attribute", NULL}},
    {"string", f_string, 0, {NULL}},
    {"sum", f_sum, 2, {"attribute", "start", NULL}},
    {"title", f_title, 0, {NULL}},
    {"tojson", f_tojson, 1, {"indent", "ensure_ascii", "separators", "sort_keys", NULL}},
    {"trim", f_trim, 1, {NULL}},
    {"unique", f_unique, 2, {"case_sensitive", "attribute", NULL}},
    {"upper", f_upper, 0, {NULL}},
};

static size_t filter_number(struct jinja_string name) {
    size_t i = 0;
    while (i < sizeof filters / sizeof filters[0] && !jinja_is(name, filters[i].name))
        i++;
    return i;
}

bool jinja_has_filter(struct jinja_string name) {
    return filter_number(name) < sizeof filters / sizeof filters[0];
}

struct jinja_value jinja_filter(struct jinja *j, struct jinja_string name, struct jinja_value v,
                                const struct jinja_args *a) {
    size_t i = filter_number(name);
    if (i == sizeof filters / sizeof filters[0])
        jinja_fail(j, "the filter '%.*s' is not supported", (int)(name.n < 60 ? name.n : 60), name.p);
    jinja_args_check(j, a, name, filters[i].places, filters[i].names);
    jinja_step(j, 1);
    jinja_deeper(j); /* map and select call filters and tests */
    v = filters[i].run(j, v, a);
    j->depth--;
    return v;
}

/* --- tests */

enum test_number {
    TEST_BOOLEAN,
    TEST_CALLABLE,
    TEST_DEFINED,
    TEST_DIVISIBLEBY,
    TEST_EQ,
    TEST_EVEN,
    TEST_FALSE,
    TEST_FLOAT,
    TEST_GE,
    TEST_GT,
    TEST_IN,
    TEST_INTEGER,
    TEST_ITERABLE,
    TEST_LE,
    TEST_LOWER,
    TEST_LT,
    TEST_MAPPING,
    TEST_NE,
    TEST_NONE,
    TEST_NUMBER,
    TEST_ODD,
    TEST_SEQUENCE,
    TEST_STRING,
    TEST_TRUE,
    TEST_UNDEFINED,
    TEST_UPPER
};
static const struct {
    const char *name;
    enum test_number number;
    size_t arguments;
} tests[] = {{"!=", TEST_NE, 1},
             {"<", TEST_LT, 1},
             {"<=", TEST_LE, 1},
             {"==", TEST_EQ, 1},
             {">", TEST_GT, 1},
             {">=", TEST_GE, 1},
             {"boolean", TEST_BOOLEAN, 0},
             {"callable", TEST_CALLABLE, 0},
             {"defined", TEST_DEFINED, 0},
             {"divisibleby", TEST_DIVISIBLEBY, 1},
             {"eq", TEST_EQ, 1},
             {"equalto", TEST_EQ, 1},
             {"even", TEST_EVEN, 0},
             {"false", TEST_FALSE, 0},
             {"float", TEST_FLOAT, 0},
             {"ge", TEST_GE, 1},
             {"greaterthan", TEST_GT, 1},
             {"gt", TEST_GT, 1},
             {"in", TEST_IN, 1},
             {"integer", TEST_INTEGER, 0},
             {"iterable", TEST_ITERABLE, 0},
             {"le", TEST_LE, 1},
             {"lessthan", TEST_LT, 1},
             {"lower", TEST_LOWER, 0},
             {"lt", TEST_LT, 1},
             {"mapping", TEST_MAPPING, 0},
             {"ne", TEST_NE, 1},
             {"none", TEST_NONE, 0},
             {"number", TEST_NUMBER, 0},
             {"odd", TEST_ODD, 0},
             {"sameas", TEST_EQ, 1},
             {"sequence", TEST_SEQUENCE, 0},
             {"string", TEST_STRING, 0},
             {"true", TEST_TRUE, 0},
             {"undefined", TEST_UNDEFINED, 0},
             {"upper", TEST_UPPER, 0}};

static size_t test_number_of(struct jinja_string name) {
    size_t i = 0;
    while (i < sizeof tests / sizeof tests[0] && !jinja_is(name, tests[i].name))
        i++;
    return i;
}

bool jinja_has_test(struct jinja_string name) {
    return test_number_of(name) < sizeof tests / sizeof tests[0];
}

static bool letters_are(struct jinja *j, const struct jinja_value *v, const char *other) {
    const struct jinja_args none = {.named = jinja_new_dict(j, 0).dict};
    struct jinja_value s = jinja_str(j, v), changed = jinja_method(j, &s, jinja_of_text(other).s, &none);
    bool any = false;
    for (size_t i = 0; i < s.s.n; i++)
        any = any || isalpha((unsigned char)s.s.p[i]);
    return any && jinja_equal(j, &s, &changed);
}

bool jinja_test(struct jinja *j, struct jinja_string name, const struct jinja_value *v,
                const struct jinja_args *a) {
    size_t i = test_number_of(name);
    if (i == sizeof tests / sizeof tests[0])
        jinja_fail(j, "the test '%.*s' is not supported", (int)(name.n < 60 ? name.n : 60), name.p);
    if (a->n != tests[i].arguments || a->named->n > 0)
        jinja_fail(j, "the test '%s' takes %zu arguments, found %zu", tests[i].name, tests[i].arguments,
                   a->n + a->named->n);
    jinja_step(j, 1 + (v->kind == JINJA_STRING ? v->s.n / 64 : 0));
    const bool whole = v->kind == JINJA_INT;
    switch (tests[i].number) {
    case TEST_BOOLEAN:
        return v->kind == JINJA_BOOL;
    case TEST_CALLABLE:
        return v->kind >= JINJA_FUNCTION;
    case TEST_DEFINED:
        return v->kind != JINJA_UNDEFINED;
    case TEST_UNDEFINED:
        return v->kind == JINJA_UNDEFINED;
    case TEST_DIVISIBLEBY:
    case TEST_EVEN:
    case TEST_ODD: {
        int64_t by = tests[i].number == TEST_DIVISIBLEBY ? need_int(j, &a->at[0], "divisibleby") : 2;
        if (!whole || by == 0)
            jinja_fail(j, "the test '%s' is for integers, and not for 0 as divisor", tests[i].name);
        return (by == -1 || v->i % by == 0) == (tests[i].number != TEST_ODD);
    }
    case TEST_EQ:
        return jinja_equal(j, v, &a->at[0]);
    case TEST_NE:
        return !jinja_equal(j, v, &a->at[0]);
    case TEST_FALSE:
        return v->kind == JINJA_BOOL && !v->b;
    case TEST_TRUE:
        return v->kind == JINJA_BOOL && v->b;
    case TEST_FLOAT:
        return v->kind == JINJA_FLOAT;
    case TEST_INTEGER:
        return whole;
    case TEST_NUMBER:
        return whole || v->kind == JINJA_FLOAT || v->kind == JINJA_BOOL;
    case TEST_GE:
        return jinja_order(j, v, &a->at[0]) >= 0;
    case TEST_GT:
        return jinja_order(j, v, &a->at[0]) > 0;
    case TEST_LE:
        return jinja_order(j, v, &a->at[0]) <= 0;
    case TEST_LT:
        return jinja_order(j, v, &a->at[0]) < 0;
    case TEST_IN:
        return jinja_in(j, v, &a->at[0]);
    case TEST_ITERABLE:
    case TEST_SEQUENCE:
        return v->kind == JINJA_LIST || v->kind == JINJA_STRING || v->kind == JINJA_DICT ||
               v->kind == JINJA_UNDEFINED;
    case TEST_LOWER:
        return letters_are(j, v, "lower");
    case TEST_UPPER:
        return letters_are(j, v, "upper");
    case TEST_MAPPING:
        return v->kind == JINJA_DICT;
    case TEST_NONE:
        return v->kind == JINJA_NONE;
    default:
        return v->kind == JINJA_STRING;
    }
}

/* --- functions */

static struct jinja_value range(struct jinja *j, const struct jinja_args *a) {
    int64_t at[3] = {0, 0, 1};
    if (a->n == 0 || a->n > 3)
        jinja_fail(j, "range takes one to three integers");
    for (size_t i = 0; i < a->n; i++)
        at[a->n == 1 ? 1 : i] = need_int(j, &a->at[i], "range");
    if (at[2] == 0)
        jinja_fail(j, "range: the step is 0");
    struct jinja_value v = jinja_new_list(j, 0);
    for (int64_t i = at[0]; at[2] > 0 ? i < at[1] : i > at[1];) {
        jinja_list_add(j, v.list, jinja_int(i));
        if (__builtin_add_overflow(i, at[2], &i))
            break;
    }
    return v;
}

static struct jinja_value make_dict(struct jinja *j, const struct jinja_args *a) {
    struct jinja_value v = jinja_new_dict(j, 0);
    if (a->n > 1 || (a->n == 1 && a->at[0].kind != JINJA_DICT))
        jinja_fail(j, "namespace and dict take one dict, and named values");
    for (size_t i = 0; a->n == 1 && i < a->at[0].dict->n; i++)
        jinja_dict_put(j, v.dict, a->at[0].dict->entries[i].key, a->at[0].dict->entries[i].value);
    for (size_t i = 0; i < a->named->n; i++)
        jinja_dict_put(j, v.dict, a->named->entries[i].key, a->named->entries[i].value);
    return v;
}

static struct jinja_value now(struct jinja *j, const struct jinja_args *a) {
    char format[100], out[400];
    if (a->n != 1 || a->at[0].kind != JINJA_STRING || a->at[0].s.n >= sizeof format)
        jinja_fail(j, "strftime_now takes one format of less than %zu bytes", sizeof format);
    memcpy(format, a->at[0].s.p, a->at[0].s.n);
    format[a->at[0].s.n] = '\0';
    size_t n = strftime(out, sizeof out, format, j->in->now);
    char *copy = jinja_take(j, n + 1, 1);
    memcpy(copy, out, n);
    return jinja_of_string(copy, n);
}

static const char *const functions[] = {"range", "namespace", "dict", "raise_exception", "strftime_now"};

bool jinja_has_function(struct jinja_string name) {
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (jinja_is(name, functions[i]))
            return true;
    return false;
}

struct jinja_value jinja_function(struct jinja *j, struct jinja_string name, const struct jinja_args *a) {
    if (jinja_is(name, "range"))
        return range(j, a);
    if (jinja_is(name, "dict"))
        return make_dict(j, a);
    if (jinja_is(name, "namespace")) {
        struct jinja_value v = make_dict(j, a);
        v.kind = JINJA_NAMESPACE;
        return v;
    }
    if (jinja_is(name, "strftime_now"))
        return now(j, a);
    struct jinja_value what = a->n > 0 ? jinja_str(j, &a->at[0]) : jinja_of_text("(without a reason)");
    jinja_fail(j, "it refuses this conversation: %.*s", (int)(what.s.n < 300 ? what.s.n : 300), what.s.p);
}
