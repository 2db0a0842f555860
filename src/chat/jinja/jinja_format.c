/* Python's str.format and its % operator, for the Jinja. Source of the semantics: Python's library reference,
 * "Format String Syntax" and "printf-style String Formatting". */
#include "chat/jinja/jinja_parse.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define WIDTH 10000 /* of a field, at most */

/* How a field is written. */
struct spec {
    char fill[8]; /* one character, in UTF-8 */
    size_t fill_n;
    char align; /* < > ^ =, or 0 */
    char sign;  /* + - or a blank, or 0 */
    bool alternate, commas;
    bool plain; /* nothing was specified */
    size_t width;
    int precision; /* -1: none */
    char type;     /* 0: none */
};

static size_t read_size(struct jinja *j, struct jinja_string *s) {
    size_t n = 0;
    while (s->n > 0 && isdigit((unsigned char)*s->p)) {
        n = 10 * n + (size_t)(*s->p - '0');
        if (n > WIDTH)
            jinja_fail(j, "format: a field of more than %d characters", WIDTH);
        s->p++;
        s->n--;
    }
    return n;
}

static bool take(struct jinja_string *s, const char *of, char *found) {
    if (s->n == 0 || *s->p == '\0' || strchr(of, *s->p) == NULL)
        return false;
    *found = *s->p;
    s->p++;
    s->n--;
    return true;
}

/* [[fill]align][sign][#][0][width][,][.precision][type] */
static struct spec read_spec(struct jinja *j, struct jinja_string s) {
    struct spec f = {.fill = " ", .fill_n = 1, .plain = s.n == 0, .precision = -1};
    char c = 0;
    size_t first = s.n > 0 ? jinja_char(s.p, s.n) : 0;
    if (first > 0 && s.n > first && strchr("<>^=", s.p[first]) != NULL && s.p[first] != '\0') {
        memcpy(f.fill, s.p, first);
        f.fill_n = first;
        s.p += first;
        s.n -= first;
    }
    (void)take(&s, "<>^=", &f.align);
    (void)take(&s, "+- ", &f.sign);
    f.alternate = take(&s, "#", &c);
    if (take(&s, "0", &c) && f.align == 0) {
        f.fill[0] = '0';
        f.fill_n = 1;
        f.align = '=';
    }
    f.width = read_size(j, &s);
    f.commas = take(&s, ",", &c);
    if (take(&s, ".", &c))
        f.precision = (int)read_size(j, &s);
    (void)take(&s, "sdxXobeEfFgG%", &f.type);
    if (s.n > 0)
        jinja_fail(j, "format: the specification '%.*s' is not supported", (int)(s.n < 60 ? s.n : 60), s.p);
    return f;
}

/* digits: without a sign; sign: "" or one character. */
static void put_padded(struct jinja *j, struct jinja_text *t, const struct spec *f, const char *sign,
                       struct jinja_string digits, char align) {
    const size_t have = strlen(sign) + jinja_length_of(digits), pad = f->width > have ? f->width - have : 0;
    const size_t before = align == '>' || align == '=' ? pad : align == '^' ? pad / 2 : 0;
    if (align == '=')
        jinja_text_puts(j, t, sign);
    for (size_t i = 0; i < before; i++)
        jinja_text_put(j, t, f->fill, f->fill_n);
    if (align != '=')
        jinja_text_puts(j, t, sign);
    jinja_text_put(j, t, digits.p, digits.n);
    for (size_t i = before; i < pad; i++)
        jinja_text_put(j, t, f->fill, f->fill_n);
}

static const char *sign_of(const struct spec *f, bool negative) {
    return negative ? "-" : f->sign == '+' ? "+" : f->sign == ' ' ? " " : "";
}

/* A comma before each group of three digits before the point. */
static struct jinja_string grouped(struct jinja *j, struct jinja_string s) {
    struct jinja_text t = {0};
    size_t whole = 0;
    while (whole < s.n && isdigit((unsigned char)s.p[whole]))
        whole++;
    for (size_t i = 0; i < s.n; i++) {
        if (i > 0 && i < whole && (whole - i) % 3 == 0)
            jinja_text_puts(j, &t, ",");
        jinja_text_put(j, &t, s.p + i, 1);
    }
    return jinja_text_value(&t).s;
}

static void put_whole(struct jinja *j, struct jinja_text *t, const struct spec *f, int64_t i) {
    char out[80], *p = out + sizeof out;
    uint64_t rest = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    const unsigned base = f->type == 'x' || f->type == 'X' ? 16
                          : f->type == 'o'                 ? 8
                          : f->type == 'b'                 ? 2
                                                           : 10;
    const char *digits = f->type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
    do
        *--p = digits[rest % base];
    while ((rest /= base) > 0);
    if (f->alternate && base != 10) {
        *--p = f->type;
        *--p = '0';
    }
    struct jinja_string s = {p, (size_t)(out + sizeof out - p)};
    put_padded(j, t, f, sign_of(f, i < 0), f->commas ? grouped(j, s) : s, f->align != 0 ? f->align : '>');
}

static void put_real(struct jinja *j, struct jinja_text *t, const struct spec *f, double x) {
    char form[16], out[400 + 64];
    const char type = f->type == 0 ? 'g' : f->type == '%' ? 'f' : f->type;
    const int precision = f->precision < 0 ? 6 : f->precision;
    if (precision > 60)
        jinja_fail(j, "format: a precision of more than 60 is not supported");
    snprintf(form, sizeof form, f->alternate ? "%%#.*%c" : "%%.*%c", type);
    const double shown = f->type == '%' ? x * 100 : x;
    struct jinja_value as = jinja_float(shown < 0 ? -shown : shown);
    struct jinja_string s;
    if (f->type == 0 && f->precision < 0) {
        s = jinja_str(j, &as).s;
    } else {
        /* The form is one of a few that are made here. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        int n = snprintf(out, sizeof out, form, precision, as.f);
#pragma GCC diagnostic pop
        if (n < 0 || (size_t)n + 2 >= sizeof out)
            jinja_fail(j, "format: a number is too long");
        if (f->type == '%')
            out[n++] = '%';
        s = (struct jinja_string){out, (size_t)n};
    }
    put_padded(j, t, f, sign_of(f, shown < 0), f->commas ? grouped(j, s) : s, f->align != 0 ? f->align : '>');
}

static void put_string(struct jinja *j, struct jinja_text *t, const struct spec *f, struct jinja_string s) {
    if (f->align == '=' && f->fill[0] != '0')
        jinja_fail(j, "format: '=' aligns numbers only");
    if (f->precision >= 0) {
        size_t at = 0;
        for (int k = 0; k < f->precision && at < s.n; k++)
            at += jinja_char(s.p + at, s.n - at);
        s.n = at;
    }
    put_padded(j, t, f, "", s, f->align == 0 || f->align == '=' ? '<' : f->align);
}

static void put_field(struct jinja *j, struct jinja_text *t, const struct jinja_value *v,
                      const struct spec *f) {
    double x = 0;
    const bool real = f->type != 0 && strchr("eEfFgG%", f->type) != NULL;
    if (v->kind == JINJA_STRING && (f->type == 0 || f->type == 's')) {
        put_string(j, t, f, v->s);
    } else if (!jinja_number(v, &x) || (v->kind == JINJA_BOOL && f->type == 0 && f->plain) ||
               f->type == 's') {
        if (!f->plain)
            jinja_fail(j, "format: a %s takes no specification", jinja_kind_name(v));
        if (f->type != 0 && f->type != 's')
            jinja_fail(j, "format: '%c' is for numbers, found a %s", f->type, jinja_kind_name(v));
        put_string(j, t, f, jinja_str(j, v).s);
    } else if (real || (v->kind == JINJA_FLOAT && f->type == 0)) {
        put_real(j, t, f, x);
    } else if (v->kind == JINJA_FLOAT) {
        jinja_fail(j, "format: '%c' is for integers, found a float", f->type);
    } else {
        put_whole(j, t, f, v->kind == JINJA_BOOL ? (int64_t)v->b : v->i);
    }
}

/* --- str.format */

struct fields {
    const struct jinja_args *args;
    size_t next;       /* the place that {} takes next */
    bool counts, told; /* {} was used, or {0} */
};

/* name or place, then .attribute and [item] */
static struct jinja_value look_up(struct jinja *j, struct fields *f, struct jinja_string name) {
    size_t n = 0;
    while (n < name.n && name.p[n] != '.' && name.p[n] != '[')
        n++;
    struct jinja_value v;
    const bool digits = n > 0 && isdigit((unsigned char)name.p[0]);
    if (n == 0 || digits) {
        struct jinja_string number = {name.p, n};
        const size_t place = n == 0 ? f->next++ : read_size(j, &number);
        f->counts |= n == 0;
        f->told |= digits;
        if (f->counts && f->told)
            jinja_fail(j, "format: fields are either all numbered or none");
        if (place >= f->args->n)
            jinja_fail(j, "format: there is no argument %zu", place);
        v = f->args->at[place];
    } else {
        const struct jinja_value *found = jinja_dict_find(j, f->args->named, jinja_of_string(name.p, n));
        if (found == NULL)
            jinja_fail(j, "format: there is no argument '%.*s'", (int)(n < 60 ? n : 60), name.p);
        v = *found;
    }
    while (n < name.n) {
        const bool item = name.p[n] == '[';
        size_t from = n + 1, to = from;
        while (to < name.n && (item ? name.p[to] != ']' : name.p[to] != '.' && name.p[to] != '['))
            to++;
        if (to == from || (item && to == name.n))
            jinja_fail(j, "format: a field's name is not understood");
        struct jinja_string key = {name.p + from, to - from}, number = key;
        if (item && isdigit((unsigned char)key.p[0])) {
            struct jinja_value at = jinja_int((int64_t)read_size(j, &number));
            v = jinja_item(j, &v, &at);
        } else if (item) {
            struct jinja_value at = jinja_of_string(key.p, key.n);
            v = jinja_item(j, &v, &at);
        } else {
            v = jinja_attribute(j, &v, key);
        }
        n = item ? to + 1 : to;
    }
    return v;
}

/* Behind '{': name[!conversion][:spec]; the field's text without braces. */
static void put_replacement(struct jinja *j, struct jinja_text *t, struct fields *f, struct jinja_string s) {
    const char *colon = memchr(s.p, ':', s.n);
    struct jinja_string name = {s.p, colon != NULL ? (size_t)(colon - s.p) : s.n}, spec = {"", 0};
    char conversion = 0;
    if (colon != NULL)
        spec = (struct jinja_string){colon + 1, s.n - name.n - 1};
    if (name.n >= 2 && name.p[name.n - 2] == '!') {
        conversion = name.p[name.n - 1];
        name.n -= 2;
        if (conversion != 'r' && conversion != 's')
            jinja_fail(j, "format: the conversion !%c is not supported", conversion);
    }
    struct jinja_value v = look_up(j, f, name);
    if (conversion != 0) {
        struct jinja_text shown = {0};
        jinja_print(j, &shown, &v, conversion == 'r');
        v = jinja_text_value(&shown);
    }
    const struct spec how = read_spec(j, spec);
    put_field(j, t, &v, &how);
}

struct jinja_value jinja_format(struct jinja *j, struct jinja_string s, const struct jinja_args *a) {
    struct jinja_text t = {0};
    struct fields f = {.args = a};
    for (size_t at = 0; at < s.n;) {
        const char c = s.p[at];
        if ((c == '{' || c == '}') && at + 1 < s.n && s.p[at + 1] == c) {
            jinja_text_put(j, &t, &c, 1);
            at += 2;
        } else if (c == '{') {
            const char *end = memchr(s.p + at, '}', s.n - at);
            if (end == NULL)
                jinja_fail(j, "format: a '{' has no '}'");
            struct jinja_string field = {s.p + at + 1, (size_t)(end - s.p) - at - 1};
            if (field.n > 0 && memchr(field.p, '{', field.n) != NULL)
                jinja_fail(j, "format: fields in a field's specification are not supported");
            put_replacement(j, &t, &f, field);
            at = (size_t)(end - s.p) + 1;
        } else if (c == '}') {
            jinja_fail(j, "format: a '}' has no '{'");
        } else {
            size_t from = at;
            while (at < s.n && s.p[at] != '{' && s.p[at] != '}')
                at++;
            jinja_text_put(j, &t, s.p + from, at - from);
        }
    }
    return jinja_text_value(&t);
}

/* --- % */

/* Behind '%': flags, width, precision, type; s is moved behind them. */
static struct spec read_percent(struct jinja *j, struct jinja_string *s) {
    struct spec f = {.fill = " ", .fill_n = 1, .precision = -1};
    char c = 0;
    bool left = false, zero = false;
    while (take(s, "-+ 0#", &c)) {
        left |= c == '-';
        zero |= c == '0';
        f.alternate |= c == '#';
        if (c == '+' || (c == ' ' && f.sign == 0))
            f.sign = c;
    }
    f.width = read_size(j, s);
    if (take(s, ".", &c))
        f.precision = (int)read_size(j, s);
    if (!take(s, "srdiufFeEgGxXo", &f.type))
        jinja_fail(j, "%%: the conversion '%.*s' is not supported", s->n > 0 ? 1 : 0, s->p);
    f.align = left ? '<' : '>';
    if (zero && !left && f.type != 's' && f.type != 'r') {
        f.fill[0] = '0';
        f.align = '=';
    }
    return f;
}

static void put_percent(struct jinja *j, struct jinja_text *t, struct jinja_value v, struct spec f) {
    double x = 0;
    if (f.type == 's' || f.type == 'r') {
        struct jinja_text shown = {0};
        jinja_print(j, &shown, &v, f.type == 'r');
        put_string(j, t, &f, jinja_text_value(&shown).s);
        return;
    }
    if (!jinja_number(&v, &x))
        jinja_fail(j, "%%%c: a number is expected, found a %s", f.type, jinja_kind_name(&v));
    if (f.type == 'd' || f.type == 'i' || f.type == 'u') {
        if (v.kind == JINJA_FLOAT && !(x > -9e18 && x < 9e18))
            jinja_fail(j, "%%%c: a number is too large", f.type);
        v = v.kind == JINJA_FLOAT ? jinja_int((int64_t)x) : v;
        f.type = 'd';
    }
    put_field(j, t, &v, &f);
}

struct jinja_value jinja_percent(struct jinja *j, struct jinja_string s, const struct jinja_value *with) {
    struct jinja_text t = {0};
    const bool tuple = with->kind == JINJA_LIST && with->list->tuple;
    const size_t n = tuple ? with->list->n : 1;
    size_t used = 0;
    bool named = false;
    while (s.n > 0) {
        const char *mark = memchr(s.p, '%', s.n);
        const size_t plain = mark != NULL ? (size_t)(mark - s.p) : s.n;
        jinja_text_put(j, &t, s.p, plain);
        s.p += plain;
        s.n -= plain;
        if (s.n == 0)
            break;
        s.p++;
        s.n--;
        char c = 0;
        if (take(&s, "%", &c)) {
            jinja_text_puts(j, &t, "%");
            continue;
        }
        struct jinja_value v;
        if (take(&s, "(", &c)) {
            const char *end = s.n > 0 ? memchr(s.p, ')', s.n) : NULL;
            if (end == NULL || with->kind != JINJA_DICT)
                jinja_fail(j, "%%(name): a dict is expected, and a ')'");
            struct jinja_value key = jinja_of_string(s.p, (size_t)(end - s.p));
            const struct jinja_value *found = jinja_dict_find(j, with->dict, key);
            if (found == NULL)
                jinja_fail(j, "%%: there is no '%.*s'", (int)(key.s.n < 60 ? key.s.n : 60), key.s.p);
            v = *found;
            named = true;
            s.n -= key.s.n + 1;
            s.p = end + 1;
        } else {
            if (used == n)
                jinja_fail(j, "%%: there are not enough values for the text");
            v = tuple ? with->list->items[used] : *with;
            used++;
        }
        put_percent(j, &t, v, read_percent(j, &s));
    }
    if (used < n && !named && with->kind != JINJA_DICT && (tuple || used == 0))
        jinja_fail(j, "%%: not all values have a place in the text");
    return jinja_text_value(&t);
}
