/* The filters of the Jinja, each a function in a table. */
#include "chat/jinja/jinja_parse.h"

#include <ctype.h>
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
    if (v->kind == JINJA_BOOL)
        return v->b;
    if (v->kind != JINJA_INT)
        jinja_fail(j, "%s: an integer is expected, found a %s", who, jinja_kind_name(v));
    return v->i;
}

static bool flag(struct jinja *j, const struct jinja_args *a, size_t place, const char *name,
                 bool otherwise) {
    const struct jinja_value *v = jinja_arg(j, a, place, name);
    return v != NULL ? jinja_true(j, v) : otherwise;
}

/* --- filters */

typedef struct jinja_value filter_function(struct jinja *j, struct jinja_value v, const struct jinja_args *a);

static struct jinja_value method(struct jinja *j, struct jinja_value v, const char *name,
                                 const struct jinja_args *a) {
    v = jinja_str(j, &v);
    return jinja_method(j, &v, jinja_of_text(name).s, a);
}

static struct jinja_value f_trim(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    const struct jinja_value *chars = jinja_arg(j, a, 0, "chars");
    struct jinja_value by = chars != NULL ? *chars : jinja_none();
    const struct jinja_args one = {&by, 1, jinja_new_dict(j, 0).dict};
    return method(j, v, "strip", &one);
}
static struct jinja_value f_upper(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    return method(j, v, "upper", a);
}
static struct jinja_value f_lower(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    return method(j, v, "lower", a);
}
static struct jinja_value f_title(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    (void)a;
    const struct jinja_string s = jinja_str(j, &v).s;
    const struct jinja_args none = {.named = jinja_new_dict(j, 0).dict};
    struct jinja_text t = {0};
    for (size_t at = 0; at < s.n;) { /* Words begin behind what stands here, and behind white space. */
        size_t end = at;
        while (end < s.n && strchr("-({[<", s.p[end]) == NULL && jinja_space(s.p + end, s.n - end) == 0)
            end++;
        struct jinja_value word = jinja_of_string(s.p + at, end - at);
        word = jinja_method(j, &word, jinja_of_text("capitalize").s, &none);
        jinja_text_put(j, &t, word.s.p, word.s.n);
        if (end < s.n)
            jinja_text_put(j, &t, s.p + end, 1);
        at = end + 1;
    }
    return jinja_text_value(&t);
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
    if (jinja_is_view(&v, JINJA_GENERATOR))
        jinja_fail(j,
                   "length: a generator (of map, select or their kin) has none; its items have, after |list");
    return jinja_int((int64_t)jinja_items(j, &v)->n);
}

/* The arguments in the order of Hugging Face transformers. */
static struct jinja_value f_tojson(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    const struct jinja_value *indent = jinja_arg(j, a, 1, "indent");
    const struct jinja_value *separators = jinja_arg(j, a, 2, "separators");
    struct jinja_json_style style = {.sort_keys = flag(j, a, 3, "sort_keys", false),
                                     .ensure_ascii = flag(j, a, 0, "ensure_ascii", false),
                                     .between = {", ", 2},
                                     .behind_key = {": ", 2}};
    if (indent != NULL && indent->kind != JINJA_NONE) {
        static const char blanks[] = "                                                                ";
        int64_t n = 0;
        if (indent->kind == JINJA_STRING)
            style.indent = indent->s;
        else if ((n = need_int(j, indent, "tojson: indent")) > (int64_t)sizeof blanks - 1)
            jinja_fail(j, "tojson: an indent of at most %zu is expected", sizeof blanks - 1);
        else
            style.indent = (struct jinja_string){blanks, n > 0 ? (size_t)n : 0};
        style.lines = true;
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

/* v.a.0.b or v[0] for "a.0.b" or 0, as filters with attribute= look it up. otherwise: what stands for an
 * undefined value, or NULL. */
static struct jinja_value attribute_or(struct jinja *j, struct jinja_value v, const struct jinja_value *name,
                                       const struct jinja_value *otherwise) {
    struct jinja_string s = {NULL, 0};
    if (name->kind != JINJA_INT)
        s = need_string(j, name, "attribute");
    for (size_t at = 0; at <= s.n;) {
        const char *dot = at < s.n ? memchr(s.p + at, '.', s.n - at) : NULL;
        size_t end = dot != NULL ? (size_t)(dot - s.p) : s.n;
        struct jinja_value key = jinja_of_string(s.p + at, end - at), number = {0};
        size_t digits = at;
        while (digits < end && isdigit((unsigned char)s.p[digits]))
            digits++;
        if (name->kind == JINJA_INT)
            key = *name;
        else if (digits == end && end > at && jinja_read_int(j, key.s, 10, &number))
            key = number;
        if (v.kind == JINJA_UNDEFINED)
            jinja_fail(j, "'%.*s' is undefined", (int)(v.s.n < 80 ? v.s.n : 80), v.s.p);
        v = jinja_item(j, &v, &key);
        if (v.kind == JINJA_UNDEFINED && otherwise != NULL)
            v = *otherwise;
        at = end + 1;
    }
    return v;
}

static struct jinja_value attribute_of(struct jinja *j, struct jinja_value v,
                                       const struct jinja_value *name) {
    return attribute_or(j, v, name, NULL);
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
        return jinja_generator(jinja_new_list(j, 0));
    if (v.kind != JINJA_DICT)
        jinja_fail(j, "items: a dict is expected, found a %s", jinja_kind_name(&v));
    return jinja_generator(jinja_method(j, &v, (struct jinja_string){"items", 5}, &none));
}

static struct jinja_value f_default(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    const struct jinja_value *otherwise = jinja_arg(j, a, 0, "default_value");
    bool missing = v.kind == JINJA_UNDEFINED || (flag(j, a, 1, "boolean", false) && !jinja_true(j, &v));
    return !missing ? v : otherwise != NULL ? *otherwise : jinja_of_text("");
}

static struct jinja_value f_first(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    (void)a;
    if (jinja_is_view(&v, JINJA_GENERATOR) && v.list->n > 0) { /* the others are still to come */
        v.list->n--;
        v.list->capacity--;
        return *v.list->items++;
    }
    const struct jinja_list *items = jinja_items(j, &v);
    return items->n > 0 ? items->items[0] : jinja_undefined((struct jinja_string){"first", 5});
}

static struct jinja_value f_last(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    (void)a;
    if (jinja_is_view(&v, JINJA_GENERATOR))
        jinja_fail(
            j, "last: a generator (of map, select or their kin) has no last item; a list has, after |list");
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
        return jinja_is_view(&v, JINJA_GENERATOR) ? out : jinja_generator(out);
    const struct jinja_args none = {.named = jinja_new_dict(j, 0).dict};
    return f_join(j, out, &none);
}

static struct jinja_value f_int(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    const struct jinja_value *otherwise = jinja_arg(j, a, 0, "default"), *base = jinja_arg(j, a, 1, "base");
    const int64_t n = base != NULL ? need_int(j, base, "int: base") : 10;
    double f = 0;
    if (n != 0 && (n < 2 || n > 36))
        jinja_fail(j, "int: a base of 2 to 36, or 0, is expected");
    if (v.kind == JINJA_INT)
        return v;
    if (jinja_number(&v, &f)) {
        if (v.kind == JINJA_FLOAT && v.s.n > 0)
            return v;
        if (isinf(f))
            jinja_fail(j, "int: infinity is no integer");
    } else if (v.kind == JINJA_UNDEFINED) {
        jinja_fail(j, "int: '%.*s' is undefined", (int)(v.s.n < 80 ? v.s.n : 80), v.s.p);
    } else if (v.kind == JINJA_STRING && jinja_read_int(j, v.s, (unsigned)n, &v)) {
        return v;
    } else if (v.kind != JINJA_STRING || !jinja_read_float(j, v.s, &f)) {
        f = NAN;
    }
    return isfinite(f) ? jinja_whole(j, f) : otherwise != NULL ? *otherwise : jinja_int(0);
}

static struct jinja_value f_float(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    const struct jinja_value *otherwise = jinja_arg(j, a, 0, "default");
    double f = 0;
    if (v.kind == JINJA_UNDEFINED)
        jinja_fail(j, "float: '%.*s' is undefined", (int)(v.s.n < 80 ? v.s.n : 80), v.s.p);
    if (jinja_number(&v, &f) || (v.kind == JINJA_STRING && jinja_read_float(j, v.s, &f)))
        return jinja_float(f);
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

static struct jinja_value f_round(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    const struct jinja_value *digits = jinja_arg(j, a, 0, "precision"), *how = jinja_arg(j, a, 1, "method");
    const int64_t n = digits != NULL ? need_int(j, digits, "round") : 0;
    double f = 0;
    if (!jinja_number(&v, &f))
        jinja_fail(j, "round: a number is expected, found a %s", jinja_kind_name(&v));
    if (how == NULL || jinja_is_string(how, "common")) {
        if (v.kind != JINJA_FLOAT)
            return jinja_round_int(j, v.kind == JINJA_INT ? v.i : (int64_t)v.b, n);
        if (n <= 308 + 17 && isfinite(f) && !isfinite(jinja_round(f, n)))
            jinja_fail(j, "round: a number is too large");
        return jinja_float(jinja_round(f, n));
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

/* Of "a,b" a list of both. */
static struct jinja_value sort_key(struct jinja *j, struct jinja_value v, const struct jinja_value *attribute,
                                   bool exact) {
    if (attribute == NULL || attribute->kind != JINJA_STRING || attribute->s.n == 0 ||
        memchr(attribute->s.p, ',', attribute->s.n) == NULL) {
        v = attribute != NULL ? attribute_of(j, v, attribute) : v;
        return exact ? v : lowered(j, v);
    }
    struct jinja_value keys = jinja_new_list(j, 0);
    const struct jinja_string s = attribute->s;
    for (size_t at = 0; at <= s.n;) {
        const char *comma = at < s.n ? memchr(s.p + at, ',', s.n - at) : NULL;
        const size_t end = comma != NULL ? (size_t)(comma - s.p) : s.n;
        const struct jinja_value part = jinja_of_string(s.p + at, end - at);
        jinja_list_add(j, keys.list, sort_key(j, v, &part, exact));
        at = end + 1;
    }
    return keys;
}

static struct jinja_value sorted(struct jinja *j, const struct jinja_list *items,
                                 const struct jinja_value *attribute, bool back, bool exact) {
    struct jinja_value *keys = jinja_take(j, items->n, sizeof *keys);
    size_t *order = jinja_take(j, items->n, sizeof *order), *spare = jinja_take(j, items->n, sizeof *spare);
    for (size_t i = 0; i < items->n; i++) {
        order[i] = i;
        keys[i] = sort_key(j, items->items[i], attribute, exact);
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
    if (by != NULL && at.i == 0 && !jinja_is_string(by, "key"))
        jinja_fail(j, "dictsort: by is 'key' or 'value'");
    if (v.kind == JINJA_UNDEFINED)
        jinja_fail(j, "dictsort: '%.*s' is undefined", (int)(v.s.n < 80 ? v.s.n : 80), v.s.p);
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
        jinja_need_key(j, &key);
        if (jinja_in(j, &key, &seen))
            continue;
        jinja_list_add(j, seen.list, key);
        jinja_list_add(j, out.list, items->items[i]);
    }
    return jinja_generator(out);
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
    /* The last line ends too, as in Jinja2. */
    struct jinja_text whole = {0};
    jinja_text_put(j, &whole, s.p, s.n);
    jinja_text_puts(j, &whole, "\n");
    const struct jinja_list *lines = jinja_split_lines(j, jinja_text_value(&whole).s, false).list;
    for (size_t i = 0; i < lines->n; i++) {
        if (i > 0)
            jinja_text_puts(j, &t, "\n");
        if (i == 0 ? first : blank || lines->items[i].s.n > 0)
            jinja_text_put(j, &t, by.p, by.n);
        jinja_text_put(j, &t, lines->items[i].s.p, lines->items[i].s.n);
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
        return jinja_generator(jinja_new_list(j, 0));
    const struct jinja_list *items = jinja_items(j, &v);
    struct jinja_value out = jinja_new_list(j, items->n);
    if (attribute == NULL && a->n == 0)
        jinja_fail(j, "map: the name of a filter, or attribute=, is expected");
    const struct jinja_args rest = rest_of(a, 1);
    for (size_t i = 0; i < items->n; i++) {
        struct jinja_value item = items->items[i];
        if (attribute != NULL) {
            item = attribute_or(j, item, attribute, otherwise);
        } else {
            item = jinja_filter(j, need_string(j, &a->at[0], "map"), item, &rest);
        }
        jinja_list_add(j, out.list, item);
    }
    return jinja_generator(out);
}

/* select, reject and their kin: items for which a test holds, or does not. */
static struct jinja_value pick(struct jinja *j, struct jinja_value v, const struct jinja_args *a,
                               bool attribute, bool wanted) {
    if (!jinja_true(j, &v)) /* also none and 0, as in Jinja2 */
        return jinja_generator(jinja_new_list(j, 0));
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
    return jinja_generator(out);
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
    return jinja_generator(out);
}

/* What stands behind a dot, never an item. */
static struct jinja_value f_attr(struct jinja *j, struct jinja_value v, const struct jinja_args *a) {
    const struct jinja_value *name = jinja_arg(j, a, 0, "name");
    if (name == NULL)
        jinja_fail(j, "attr: the name of an attribute is expected");
    const struct jinja_string s = need_string(j, name, "attr");
    return v.kind == JINJA_DICT && !jinja_has_method(&v, s) ? jinja_undefined(s) : jinja_attribute(j, &v, s);
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
    {"attr", f_attr, 1, {"name", NULL}},
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
    {"int", f_int, 2, {"default", "base", NULL}},
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
    {"replace", f_replace, 3, {"old", "new", "count", NULL}},
    {"reverse", f_reverse, 0, {NULL}},
    {"round", f_round, 2, {"precision", "method", NULL}},
    {"safe", f_safe, 0, {NULL}},
    {"select", f_select, SIZE_MAX, {NULL}},
    {"selectattr", f_selectattr, SIZE_MAX, {NULL}},
    {"sort", f_sort, 3, {"reverse", "case_sensitive", "attribute", NULL}},
    {"string", f_string, 0, {NULL}},
    {"sum", f_sum, 2, {"attribute", "start", NULL}},
    {"title", f_title, 0, {NULL}},
    {"tojson", f_tojson, 4, {"ensure_ascii", "indent", "separators", "sort_keys", NULL}},
    {"trim", f_trim, 1, {"chars", NULL}},
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
