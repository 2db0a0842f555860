/* The filters of the Jinja, each a function in a table. */
#include "chat/jinja_parse.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
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
    const struct jinja_value *separators = jinja_arg(j, a, SIZE_MAX, "separators");
    struct jinja_json_style style = {.indent = -1,
                                     .sort_keys = flag(j, a, SIZE_MAX, "sort_keys", false),
                                     .ensure_ascii = flag(j, a, SIZE_MAX, "ensure_ascii", false),
                                     .between = {", ", 2},
                                     .behind_key = {": ", 2}};
    if (a->n > 0)
        indent = &a->at[0];
    if (indent != NULL && indent->kind != JINJA_NONE) {
        int64_t n = need_int(j, indent, "tojson: indent");
        if (n < 0 || n > 64)
            jinja_fail(j, "tojson: an indent of 0 to 64 is expected");
        style.indent = (int)n;
        style.between.n = 1;
    }
    if (separators != NULL && separators->kind != JINJA_NONE) {
        if (separators->kind != JINJA_LIST || separators->list->n != 2)
            jinja_fail(j, "tojson: separators are two texts");
        style.between = need_string(j, &separators->list->items[0], "tojson: separators");
        style.behind_key = need_string(j, &separators->list->items[1], "tojson: separators");
    }
    struct jinja_text t = {0};
    jinja_json(j, &t, &v, &style, 0);
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

/* Python's int(f): exact, also beyond 64 bits. */
static struct jinja_value whole_of(struct jinja *j, double f) {
    if (fabs(f) < 9e18)
        return jinja_int((int64_t)f);
    const int n = snprintf(NULL, 0, "%.0f", f);
    char *text = jinja_take(j, (size_t)n + 1, 1);
    snprintf(text, (size_t)n + 1, "%.0f", f);
    return (struct jinja_value){.kind = JINJA_FLOAT, .f = f, .s = {text, (size_t)n}};
}

static struct jinja_value f_int(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    const struct jinja_value *otherwise = jinja_arg(j, a, 0, "default");
    double f = 0;
    if (v.kind == JINJA_INT)
        return v;
    if (jinja_number(&v, &f) && isfinite(f))
        return whole_of(j, f);
    if (v.kind == JINJA_STRING && v.s.n > 0 && v.s.n < 40) {
        char text[40], *end = NULL;
        memcpy(text, v.s.p, v.s.n);
        text[v.s.n] = '\0';
        errno = 0;
        f = strtod(text, &end);
        while (isspace((unsigned char)*end))
            end++;
        const bool digits = strpbrk(text, ".eEnNxXpP") == NULL;
        if (end != text && *end == '\0' && errno == 0 && isfinite(f) && (!digits || fabs(f) < 9e18))
            return digits ? jinja_int(strtoll(text, NULL, 10)) : whole_of(j, f);
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
    if (v.kind == JINJA_BOOL)
        return jinja_int(v.b);
    if (v.kind == JINJA_INT && v.i != INT64_MIN)
        return jinja_int(v.i < 0 ? -v.i : v.i);
    if (!jinja_number(&v, &f))
        jinja_fail(j, "abs: a number is expected, found a %s", jinja_kind_name(&v));
    return jinja_float(fabs(f));
}

/* Python's round(): to the nearest number with so many digits, of two equally near ones the even one. */
static double round_to(double f, int64_t digits) {
    char text[400 + 20];
    if (!isfinite(f) || digits > 17 + 308)
        return f;
    if (digits < -308)
        return 0;
    if (digits < 0)
        return rint(f / pow(10, (double)-digits)) * pow(10, (double)-digits);
    const int n = snprintf(text, sizeof text, "%.*f", digits > 60 ? 60 : (int)digits, f);
    return digits > 60 || n < 0 || (size_t)n >= sizeof text ? f : strtod(text, NULL);
}

static struct jinja_value f_round(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    const struct jinja_value *digits = jinja_arg(j, a, 0, "precision"), *how = jinja_arg(j, a, 1, "method");
    const int64_t n = digits != NULL ? need_int(j, digits, "round") : 0;
    double f = 0;
    if (!jinja_number(&v, &f))
        jinja_fail(j, "round: a number is expected, found a %s", jinja_kind_name(&v));
    if (how == NULL || jinja_is_string(how, "common")) {
        if (v.kind != JINJA_FLOAT && n >= 0)
            return jinja_int(v.kind == JINJA_INT ? v.i : (int64_t)v.b);
        return v.kind != JINJA_FLOAT ? whole_of(j, round_to(f, n)) : jinja_float(round_to(f, n));
    }
    const double by = pow(10, (double)n);
    if (!jinja_is_string(how, "ceil") && !jinja_is_string(how, "floor"))
        jinja_fail(j, "round: the method is 'common', 'ceil' or 'floor'");
    if (!isfinite(f * by) || by == 0)
        jinja_fail(j, "round: a number is too large");
    return jinja_float((jinja_is_string(how, "ceil") ? ceil(f * by) : floor(f * by)) / by);
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
    if (!jinja_true(j, &v)) /* also none and 0, as in Jinja2 */
        return jinja_new_list(j, 0);
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
    if (!jinja_true(j, &v)) /* also none and 0, as in Jinja2 */
        return jinja_new_list(j, 0);
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

static struct jinja_value f_format(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    struct jinja_value with = {.kind = JINJA_DICT, .dict = a->named};
    if (a->named->n == 0 || a->n > 0) {
        with = jinja_new_list(j, a->n);
        with.list->tuple = true;
        for (size_t i = 0; i < a->n; i++)
            jinja_list_add(j, with.list, a->at[i]);
    }
    return jinja_percent(j, jinja_str(j, &v).s, &with);
}

/* Runs of so many items; fill: what the last one is filled up with, or NULL. */
static struct jinja_value f_batch(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    const struct jinja_value *count = jinja_arg(j, a, 0, "linecount"),
                             *fill = jinja_arg(j, a, 1, "fill_with");
    const struct jinja_list *items = jinja_items(j, &v);
    struct jinja_value out = jinja_new_list(j, 0), line = {0};
    const int64_t n = count != NULL ? need_int(j, count, "batch") : 0;
    if (n <= 0)
        jinja_fail(j, "batch: a number of items is expected");
    for (size_t i = 0; i < items->n; i++) {
        if (i % (uint64_t)n == 0)
            jinja_list_add(j, out.list, line = jinja_new_list(j, 0));
        jinja_list_add(j, line.list, items->items[i]);
    }
    while (items->n > 0 && fill != NULL && fill->kind != JINJA_NONE && line.list->n < (uint64_t)n)
        jinja_list_add(j, line.list, *fill);
    return out;
}

static struct jinja_value f_groupby(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    const struct jinja_value *attribute = jinja_arg(j, a, 0, "attribute");
    const struct jinja_value *otherwise = jinja_arg(j, a, 1, "default");
    const bool exact = flag(j, a, 2, "case_sensitive", false);
    const struct jinja_list *items = jinja_items(j, &v);
    struct jinja_value keys = jinja_new_list(j, items->n), out = jinja_new_list(j, 0), last = {0};
    if (attribute == NULL)
        jinja_fail(j, "groupby: an attribute is expected");
    for (size_t i = 0; i < items->n; i++) { /* (key, place) */
        struct jinja_value key = attribute_of(j, items->items[i], attribute), pair = jinja_new_list(j, 2);
        if (key.kind == JINJA_UNDEFINED && otherwise != NULL)
            key = *otherwise;
        jinja_list_add(j, pair.list, exact ? key : lowered(j, key));
        jinja_list_add(j, pair.list, jinja_int((int64_t)i));
        jinja_list_add(j, keys.list, pair);
    }
    const struct jinja_value first = jinja_int(0);
    struct jinja_value order = sorted(j, keys.list, &first, false, true);
    for (size_t i = 0; i < order.list->n; i++) {
        const struct jinja_list *pair = order.list->items[i].list;
        const struct jinja_value item = items->items[pair->items[1].i];
        if (i == 0 || !jinja_equal(j, &last, &pair->items[0])) {
            struct jinja_value group = jinja_new_list(j, 2), key = attribute_of(j, item, attribute);
            group.list->tuple = group.list->group = true;
            jinja_list_add(j, group.list,
                           key.kind == JINJA_UNDEFINED && otherwise != NULL ? *otherwise : key);
            jinja_list_add(j, group.list, jinja_new_list(j, 0));
            jinja_list_add(j, out.list, group);
        }
        last = pair->items[0];
        jinja_list_add(j, out.list->items[out.list->n - 1].list->items[1].list, item);
    }
    return out;
}

/* Runs of letters, digits and underscores; what is not ASCII counts as letters. */
static struct jinja_value f_wordcount(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    (void)a;
    const struct jinja_string s = jinja_str(j, &v).s;
    int64_t n = 0;
    bool inside = false;
    jinja_step(j, 1 + s.n / 16);
    for (size_t i = 0; i < s.n; i++) {
        const unsigned char c = (unsigned char)s.p[i];
        const bool word = c == '_' || c >= 0x80 || isalnum(c);
        n += word && !inside;
        inside = word;
    }
    return jinja_int(n);
}

static const struct {
    const char *name;
    filter_function *run;
    size_t places;              /* arguments by place, at most */
    const char *const names[5]; /* that may be given by name */
} filters[] = {
    {"abs", f_abs, 0, {NULL}},
    {"batch", f_batch, 2, {"linecount", "fill_with", NULL}},
    {"capitalize", f_capitalize, 0, {NULL}},
    {"count", f_length, 0, {NULL}},
    {"d", f_default, 2, {"default_value", "boolean", NULL}},
    {"default", f_default, 2, {"default_value", "boolean", NULL}},
    {"dictsort", f_dictsort, 3, {"case_sensitive", "by", "reverse", NULL}},
    {"e", f_escape, 0, {NULL}},
    {"escape", f_escape, 0, {NULL}},
    {"first", f_first, 0, {NULL}},
    {"float", f_float, 1, {"default", NULL}},
    {"format", f_format, SIZE_MAX, {NULL}},
    {"groupby", f_groupby, 3, {"attribute", "default", "case_sensitive", NULL}},
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
    {"wordcount", f_wordcount, 0, {NULL}},
};

static size_t filter_number(struct jinja_string name) {
    size_t i = 0;
    while (i < sizeof filters / sizeof filters[0] && !jinja_is(name, filters[i].name))
        i++;
    return i;
}

struct jinja_value jinja_filter(struct jinja *j, struct jinja_string name, struct jinja_value v,
                                const struct jinja_args *a) {
    size_t i = filter_number(name);
    if (i == sizeof filters / sizeof filters[0])
        jinja_fail(j, "the filter '%.*s' is not supported", (int)(name.n < 60 ? name.n : 60), name.p);
    if (filters[i].run != f_format) /* it names its arguments itself */
        jinja_args_check(j, a, name, filters[i].places, filters[i].names);
    jinja_step(j, 1);
    jinja_deeper(j); /* map and select call filters and tests */
    v = filters[i].run(j, v, a);
    j->depth--;
    return v;
}
