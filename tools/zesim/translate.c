/* The text is what clang-15 prints (typed pointers): one definition, instruction or metadata node per line.
 */
#include "translate.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ARGS 128

struct kernel_text {
    char *name;
    unsigned n_args;
    char *type[MAX_ARGS]; /* of a by-value argument's memory, or the pointer's type */
    unsigned kind[MAX_ARGS];
    bool by_reference[MAX_ARGS]; /* byval: the callee gets the address */
    long node[2];                /* metadata: required group size, sub-group size; -1: none */
    unsigned group[3], sub_group;
};

struct local_text {
    char *symbol, *type;
};

struct function_text {
    char *name;
    bool waits; /* has barriers or sub-group operations, itself or below */
    char **callee;
    size_t n_callees;
};

struct translation {
    struct kernel_text *kernel;
    size_t n_kernels;
    struct local_text *local;
    size_t n_locals;
    struct function_text *function;
    size_t n_functions;
    char **declared;
    size_t n_declared;
    char *problem;
    FILE *out;
};

static void *grow(void *array, size_t n, size_t size) {
    array = realloc(array, (n + 1) * size);
    if (array == NULL)
        fatal("out of memory for a module");
    memset((char *)array + n * size, 0, size);
    return array;
}

static bool problem(struct translation *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (t->problem == NULL && vasprintf(&t->problem, format, args) < 0)
        t->problem = NULL;
    va_end(args);
    return false;
}

/* ---- cleaning a line */
static long number_after(const char *p, const char *word, long none) {
    const char *at = strstr(p, word);
    return at != NULL ? strtol(at + strlen(word), NULL, 10) : none;
}

static void put_clean(FILE *out, const char *p, size_t n) {
    static const struct {
        const char *from, *to;
    } words[] = {{" spir_kernel", " hidden"}, {" spir_func", ""}, {"addrspacecast", "bitcast"}};
    const char *end = p + n;
    while (p < end) {
        if (strncmp(p, " addrspace(", 11) == 0) {
            p = strchr(p, ')') + 1;
            continue;
        }
        size_t i = 0, all = sizeof words / sizeof words[0];
        while (i < all && strncmp(p, words[i].from, strlen(words[i].from)) != 0)
            i++;
        if (i < all) {
            fputs(words[i].to, out);
            p += strlen(words[i].from);
        } else if (p[0] == '.' && p[1] == 'p' && p[2] >= '1' && p[2] <= '4' && p[3] == 'i' && p[4] == '8') {
            fputs(".p0", out); /* the overload of an intrinsic: llvm.memcpy.p1i8.p3i8.i64 */
            p += 3;
        } else
            fputc(*p++, out);
    }
}

static char *clean(const char *p, size_t n) {
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (f == NULL)
        fatal("out of memory for a module");
    put_clean(f, p, n);
    fclose(f);
    return text;
}

/* ---- definitions */
/* Length of the symbol at p, which stands behind an '@'. */
static size_t symbol_length(const char *p) {
    if (*p == '"')
        return strcspn(p + 1, "\"") + 2;
    return strspn(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.$-");
}

/* The end of one argument or type: the first of `stops` outside all brackets. */
static const char *skip_nested(const char *p, const char *stops) {
    for (int depth = 0; *p != '\0'; p++) {
        if (depth == 0 && strchr(stops, *p) != NULL)
            return p;
        depth += strchr("([{<", *p) != NULL;
        depth -= strchr(")]}>", *p) != NULL;
    }
    return p;
}

static bool read_argument(struct translation *t, struct kernel_text *k, const char *p, size_t n) {
    unsigned i = k->n_args++;
    if (i == MAX_ARGS)
        return problem(t, "kernel %s has more than %d arguments", k->name, MAX_ARGS);
    char *text = strndup(p, n), *plain = clean(p, n);
    bool pointer = strchr(text, '*') != NULL;
    k->by_reference[i] = strstr(text, "byval(") != NULL;
    long space = number_after(text, "addrspace(", 0);
    k->kind[i] = !pointer || k->by_reference[i] ? CODE_VALUE : space == 3 ? CODE_LOCAL : CODE_BUFFER;
    size_t length = (size_t)(skip_nested(plain, " ") - plain);
    plain[k->by_reference[i] ? length - 1 : length] = '\0'; /* byval: without its '*' */
    k->type[i] = plain;
    free(text);
    if (k->kind[i] == CODE_BUFFER && (space == 0 || strstr(plain, "%opencl.") != NULL))
        return problem(t, "kernel %s: argument %u of type %s is not supported", k->name, i, plain);
    return true;
}

static bool read_kernel(struct translation *t, const char *name, size_t length, const char *line) {
    t->kernel = grow(t->kernel, t->n_kernels, sizeof *t->kernel);
    struct kernel_text *k = &t->kernel[t->n_kernels++];
    k->name = strndup(name, length);
    const char *p = name + length + 1; /* behind the '(' */
    while (*p != ')' && *p != '\0') {
        const char *end = skip_nested(p, ",)");
        if (!read_argument(t, k, p, (size_t)(end - p)))
            return false;
        p = *end == ',' ? end + 1 : end;
        p += strspn(p, " ");
    }
    k->node[0] = number_after(line, "!reqd_work_group_size !", -1);
    k->node[1] = number_after(line, "!intel_reqd_sub_group_size !", -1);
    return true;
}

static bool read_define(struct translation *t, const char *line) {
    const char *at = strchr(line, '@');
    if (at == NULL)
        return problem(t, "a definition without a name");
    size_t n = symbol_length(at + 1);
    t->function = grow(t->function, t->n_functions, sizeof *t->function);
    t->function[t->n_functions++].name = strndup(at + 1, n);
    return strstr(line, " spir_kernel ") == NULL || read_kernel(t, at + 1, n, line);
}

/* True: the line declares what another line declared already: intrinsics of several address spaces become
 * one. */
static bool declared_before(struct translation *t, const char *line) {
    const char *at = strncmp(line, "declare ", 8) == 0 ? strchr(line, '@') : NULL;
    if (at == NULL)
        return false;
    char *name = clean(at + 1, symbol_length(at + 1));
    for (size_t i = 0; i < t->n_declared; i++)
        if (strcmp(t->declared[i], name) == 0) {
            free(name);
            return true;
        }
    t->declared = grow(t->declared, t->n_declared, sizeof *t->declared);
    t->declared[t->n_declared++] = name;
    return false;
}

/* @kernel.name = internal addrspace(3) global [64 x float] undef, align 4 */
static void read_local(struct translation *t, const char *line) {
    const char *type = strstr(line, " global ");
    if (strstr(line, " addrspace(3) ") == NULL || type == NULL)
        return;
    type += 8;
    t->local = grow(t->local, t->n_locals, sizeof *t->local);
    struct local_text *l = &t->local[t->n_locals++];
    l->symbol = strndup(line + 1, symbol_length(line + 1));
    l->type = clean(type, (size_t)(skip_nested(type, " ") - type));
}

/* ---- which functions wait for other work-items */
static bool waits(const char *callee) {
    static const char *const words[] = {"barrier", "work_group_", "sub_group_", "intel_sub_group_"};
    char *name;
    unsigned long n = 0;
    if (strncmp(callee, "_Z", 2) != 0)
        return false;
    n = strtoul(callee + 2, &name, 10);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (n >= strlen(words[i]) && strncmp(name, words[i], strlen(words[i])) == 0)
            return true;
    return false;
}

static void read_call(struct translation *t, const char *line) {
    if (t->n_functions == 0 || strstr(line, "call ") == NULL)
        return;
    struct function_text *f = &t->function[t->n_functions - 1];
    for (const char *at = strchr(line, '@'); at != NULL; at = strchr(at + 1, '@')) {
        f->callee = grow(f->callee, f->n_callees, sizeof *f->callee);
        f->callee[f->n_callees] = strndup(at + 1, symbol_length(at + 1));
        f->waits = f->waits || waits(f->callee[f->n_callees]);
        f->n_callees++;
    }
}

static const struct function_text *function_of(const struct translation *t, const char *name) {
    for (size_t i = 0; i < t->n_functions; i++)
        if (strcmp(t->function[i].name, name) == 0)
            return &t->function[i];
    return NULL;
}

static void spread_waits(struct translation *t) {
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < t->n_functions; i++) {
            struct function_text *f = &t->function[i];
            for (size_t j = 0; j < f->n_callees && !f->waits; j++) {
                const struct function_text *g = function_of(t, f->callee[j]);
                f->waits = g != NULL && g->waits;
                changed = changed || f->waits;
            }
        }
    }
}

/* !11 = !{i32 16, i32 1, i32 1} */
static void read_metadata(struct translation *t, const char *line) {
    long node;
    unsigned v[3] = {0, 0, 0};
    if (sscanf(line, "!%ld = !{i32 %u, i32 %u, i32 %u", &node, &v[0], &v[1], &v[2]) < 2)
        return;
    for (size_t i = 0; i < t->n_kernels; i++) {
        if (t->kernel[i].node[0] == node)
            memcpy(t->kernel[i].group, v, sizeof v);
        if (t->kernel[i].node[1] == node)
            t->kernel[i].sub_group = v[0];
    }
}

/* ---- what is added */
/* define void @zs.run.0(i8** %v): loads the arguments from the array and calls the kernel. */
static void write_run(const struct translation *t, size_t index) {
    const struct kernel_text *k = &t->kernel[index];
    fprintf(t->out, "define internal void @zs.run.%zu(i8** %%v) {\n", index);
    for (unsigned i = 0; i < k->n_args; i++) {
        fprintf(t->out,
                "  %%a%u = getelementptr i8*, i8** %%v, i64 %u\n  %%p%u = load i8*, i8** %%a%u, align 8\n"
                "  %%t%u = bitcast i8* %%p%u to %s*\n",
                i, i, i, i, i, i, k->type[i]);
        if (!k->by_reference[i])
            fprintf(t->out, "  %%x%u = load %s, %s* %%t%u, align 1\n", i, k->type[i], k->type[i], i);
    }
    fprintf(t->out, "  call void @%s(", k->name);
    for (unsigned i = 0; i < k->n_args; i++)
        if (k->by_reference[i])
            fprintf(t->out, "%s%s* byval(%s) align 8 %%t%u", i == 0 ? "" : ", ", k->type[i], k->type[i], i);
        else
            fprintf(t->out, "%s%s %%x%u", i == 0 ? "" : ", ", k->type[i], i);
    fprintf(t->out, ")\n  ret void\n}\n");
}

static bool belongs(const struct local_text *l, const struct kernel_text *k) {
    size_t n = strlen(k->name);
    const char *s = l->symbol + (l->symbol[0] == '"'), *name = k->name + (k->name[0] == '"');
    n -= k->name[0] == '"' ? 2 : 0;
    return strncmp(s, name, n) == 0 && s[n] == '.';
}

static size_t write_arrays(const struct translation *t, size_t index) {
    const struct kernel_text *k = &t->kernel[index];
    size_t n_locals = 0, written = 0;
    const char *name = k->name[0] == '"' ? k->name + 1 : k->name;
    size_t length = strlen(name) - (k->name[0] == '"');
    for (size_t i = 0; i < t->n_locals; i++)
        n_locals += belongs(&t->local[i], k);
    fprintf(t->out, "@zs.name.%zu = internal constant [%zu x i8] c\"%.*s\\00\"\n", index, length + 1,
            (int)length, name);
    fprintf(t->out, "@zs.args.%zu = internal constant [%u x %%zs.arg] [", index, k->n_args);
    for (unsigned i = 0; i < k->n_args; i++)
        fprintf(t->out,
                "%s%%zs.arg { i64 ptrtoint (%s* getelementptr (%s, %s* null, i32 1) to i64), i32 %u, i32 0 }",
                i == 0 ? "" : ", ", k->type[i], k->type[i], k->type[i], k->kind[i]);
    fprintf(t->out, "]\n@zs.locals.%zu = internal constant [%zu x %%zs.local] [", index, n_locals);
    for (size_t i = 0; i < t->n_locals; i++)
        if (belongs(&t->local[i], k)) {
            const struct local_text *l = &t->local[i];
            fprintf(t->out,
                    "%s%%zs.local { i8* bitcast (%s* @%s to i8*), i64 ptrtoint (%s* getelementptr (%s, %s* "
                    "null, i32 1) to i64) }",
                    written++ == 0 ? "" : ", ", l->type, l->symbol, l->type, l->type, l->type);
        }
    fprintf(t->out, "]\n");
    return n_locals;
}

/* The structures of code.h. */
static void write_tables(const struct translation *t) {
    size_t n = t->n_kernels, *n_locals = calloc(n + 1, sizeof *n_locals);
    if (n_locals == NULL)
        fatal("out of memory for a module");
    fprintf(
        t->out,
        "\n%%zs.arg = type { i64, i32, i32 }\n%%zs.local = type { i8*, i64 }\n"
        "%%zs.kernel = type { i8*, void (i8**)*, %%zs.arg*, %%zs.local*, i32, i32, i32, i32, [4 x i32] }\n"
        "%%zs.code = type { i64, %%zs.kernel*, i8* }\n");
    fprintf(t->out, "@zesim_item = hidden global [%zu x i8] zeroinitializer, align 64\n",
            sizeof(struct code_item));
    for (size_t i = 0; i < n; i++) {
        n_locals[i] = write_arrays(t, i);
        write_run(t, i);
    }
    fprintf(t->out, "@zs.kernels = internal constant [%zu x %%zs.kernel] [", n);
    for (size_t i = 0; i < n; i++) {
        const struct kernel_text *k = &t->kernel[i];
        size_t length = strlen(k->name) - (k->name[0] == '"' ? 2 : 0) + 1;
        const struct function_text *f = function_of(t, k->name);
        fprintf(t->out,
                "%s%%zs.kernel { i8* getelementptr ([%zu x i8], [%zu x i8]* @zs.name.%zu, i64 0, i64 0), "
                "void (i8**)* @zs.run.%zu, "
                "%%zs.arg* getelementptr ([%u x %%zs.arg], [%u x %%zs.arg]* @zs.args.%zu, i64 0, i64 0), "
                "%%zs.local* getelementptr ([%zu x %%zs.local], [%zu x %%zs.local]* @zs.locals.%zu, i64 0, "
                "i64 0), "
                "i32 %u, i32 %zu, i32 %u, i32 %d, [4 x i32] [i32 %u, i32 %u, i32 %u, i32 0] }",
                i == 0 ? "" : ",\n  ", length, length, i, i, k->n_args, k->n_args, i, n_locals[i],
                n_locals[i], i, k->n_args, n_locals[i], k->sub_group, f != NULL && f->waits, k->group[0],
                k->group[1], k->group[2]);
    }
    fprintf(t->out,
            "]\n@zesim_code = constant %%zs.code { i64 %zu, %%zs.kernel* getelementptr ([%zu x %%zs.kernel], "
            "[%zu x %%zs.kernel]* @zs.kernels, i64 0, i64 0), i8* getelementptr ([%zu x i8], [%zu x i8]* "
            "@zesim_item, "
            "i64 0, i64 0) }\n",
            n, n, n, sizeof(struct code_item), sizeof(struct code_item));
    free(n_locals);
}

static void free_translation(struct translation *t) {
    for (size_t i = 0; i < t->n_kernels; i++) {
        for (unsigned j = 0; j < t->kernel[i].n_args && j < MAX_ARGS; j++)
            free(t->kernel[i].type[j]);
        free(t->kernel[i].name);
    }
    for (size_t i = 0; i < t->n_locals; i++) {
        free(t->local[i].symbol);
        free(t->local[i].type);
    }
    for (size_t i = 0; i < t->n_functions; i++) {
        for (size_t j = 0; j < t->function[i].n_callees; j++)
            free(t->function[i].callee[j]);
        free(t->function[i].callee);
        free(t->function[i].name);
    }
    for (size_t i = 0; i < t->n_declared; i++)
        free(t->declared[i]);
    free(t->declared);
    free(t->kernel);
    free(t->local);
    free(t->function);
}

char *translate(const char *text, char **why) {
    struct translation t = {0};
    char *result = NULL;
    size_t size = 0;
    bool good = true;
    t.out = open_memstream(&result, &size);
    if (t.out == NULL)
        fatal("out of memory for a module");
    for (const char *line = text; *line != '\0' && good;) {
        size_t n = strcspn(line, "\n");
        char *one = strndup(line, n);
        if (one == NULL)
            fatal("out of memory for a module");
        if (one[0] == '@')
            read_local(&t, one);
        else if (strncmp(one, "define ", 7) == 0)
            good = read_define(&t, one);
        else if (one[0] == '!')
            read_metadata(&t, one);
        else if (one[0] == ' ')
            read_call(&t, one);
        if (strncmp(one, "target ", 7) != 0 && !declared_before(&t, one))
            put_clean(t.out, one, n);
        fputc('\n', t.out);
        free(one);
        line += n + (line[n] == '\n');
    }
    spread_waits(&t);
    if (good)
        write_tables(&t);
    fclose(t.out);
    if (!good) {
        free(result);
        result = NULL;
        *why = t.problem;
    }
    free_translation(&t);
    return result;
}
