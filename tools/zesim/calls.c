/* Counters by name, faults, marks and violations, and the log that is made from them. */
#include "sim.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const names[CALL_COUNT] = {
#define TABLE(api, Name, name)
#define ENTRY(function, slot) #function,
#define END(api, Name)
#include "entries.def"
#undef TABLE
#undef ENTRY
#undef END
    "unsupported", "exec.copy", "exec.fill", "exec.kernel"};

struct counter {
    char *name;
    uint64_t value;
};

/* A mark and every counter's value at its moment (counters born later were 0). */
struct mark {
    char *name;
    uint64_t *value;
    size_t n;
};

static uint64_t called[CALL_COUNT];
static struct counter *counters;
static size_t n_counters, counter_capacity;
static struct mark *marks;
static size_t n_marks;
#define SAID_MAX 64u
static char *said[SAID_MAX]; /* the first violations */
static size_t n_said;

const char *calls_name(int call) {
    return names[call];
}

int calls_find(const char *name) {
    for (int i = 0; i < CALL_COUNT; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

/* ---- counters */
static struct counter *counter(const char *name) {
    for (size_t i = 0; i < n_counters; i++)
        if (strcmp(counters[i].name, name) == 0)
            return &counters[i];
    if (n_counters == counter_capacity) {
        counter_capacity = counter_capacity * 2 + 64;
        counters = realloc(counters, counter_capacity * sizeof *counters);
    }
    char *copy = strdup(name);
    if (counters == NULL || copy == NULL)
        fatal("out of memory for counters");
    counters[n_counters] = (struct counter){copy, 0};
    return &counters[n_counters++];
}

void count_add(const char *name, uint64_t n) {
    counter(name)->value += n;
}

void count_formatted(uint64_t n, const char *format, ...) {
    char name[256];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    count_add(name, n);
}

/* Calls are counted in an array and become named counters when somebody looks. */
static void gather_calls(void) {
    for (int i = 0; i < CALL_COUNT; i++)
        if (called[i] != 0)
            counter(names[i])->value = called[i];
}

void calls_mark(const char *name) {
    gather_calls();
    marks = realloc(marks, (n_marks + 1) * sizeof *marks);
    uint64_t *values = calloc(n_counters + 1, sizeof *values);
    char *copy = strdup(name);
    if (marks == NULL || values == NULL || copy == NULL)
        fatal("out of memory for marks");
    for (size_t i = 0; i < n_counters; i++)
        values[i] = counters[i].value;
    marks[n_marks++] = (struct mark){copy, values, n_counters};
    for (size_t i = 0; i < sim.n_faults; i++)
        if (sim.fault[i].after != NULL && strcmp(sim.fault[i].after, name) == 0)
            sim.fault[i].armed = true, sim.fault[i].seen = 0;
}

/* ---- faults */
ze_result_t calls_enter(int call, enum action *action) {
    called[call]++;
    if (!sim.initialised)
        config_load();
    for (size_t i = 0; i < sim.n_faults; i++) {
        struct fault *f = &sim.fault[i];
        if (f->call != call || !f->armed || ++f->seen < f->first || f->seen > f->last)
            continue;
        fprintf(stderr, "zesim: fault: call %llu of %s\n", (unsigned long long)f->seen, names[call]);
        count_add("faults", 1);
        if (f->action == ACTION_RETURN)
            return f->result;
        if (f->action == ACTION_MARK)
            calls_mark(f->mark);
        else if (action != NULL)
            *action = f->action;
    }
    return ZE_RESULT_SUCCESS;
}

/* ---- the log */
static void json_text(FILE *f, const char *s) {
    fputc('"', f);
    for (; *s != '\0'; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            fprintf(f, "\\%c", c);
        else if (c < 0x20)
            fprintf(f, "\\u%04x", c);
        else
            fputc(c, f);
    }
    fputc('"', f);
}

/* One section: counters between two marks (NULL: the beginning, now) that are not 0. */
static void json_section(FILE *f, const struct mark *from, const struct mark *to) {
    const char *comma = "";
    fputs("{", f);
    for (size_t i = 0; i < n_counters; i++) {
        uint64_t end = to == NULL ? counters[i].value : i < to->n ? to->value[i] : 0;
        uint64_t begin = from != NULL && i < from->n ? from->value[i] : 0;
        if (end == begin)
            continue;
        fprintf(f, "%s\n    ", comma);
        json_text(f, counters[i].name);
        fprintf(f, ": %lld", (long long)(end - begin));
        comma = ",";
    }
    fputs("}", f);
}

static int write_log(const char *path) {
    FILE *f = fopen(path, "w");
    if (f == NULL)
        return errno;
    gather_calls();
    fprintf(f, "{\"devices\": %u,\n \"total\": ", sim.n_devices);
    json_section(f, NULL, NULL);
    fputs(",\n \"sections\": [", f);
    for (size_t i = 0; i <= n_marks; i++) {
        fprintf(f, "%s\n  {\"mark\": ", i == 0 ? "" : ",");
        json_text(f, i == 0 ? "" : marks[i - 1].name);
        fputs(", \"counts\": ", f);
        json_section(f, i == 0 ? NULL : &marks[i - 1], i == n_marks ? NULL : &marks[i]);
        fputs("}", f);
    }
    fputs("],\n \"live\": {", f);
    for (int k = KIND_CONTEXT; k < KIND_MEMORY_MODULE; k++) {
        fputs(k == KIND_CONTEXT ? "" : ", ", f);
        json_text(f, objects_kind((enum kind)k));
        fprintf(f, ": %llu", (unsigned long long)objects_live((enum kind)k));
    }
    fputs("},\n \"violations\": [", f);
    for (size_t i = 0; i < n_said; i++) {
        fputs(i == 0 ? "\n  " : ",\n  ", f);
        json_text(f, said[i]);
    }
    fputs("]}\n", f);
    int failed = ferror(f) != 0 ? EIO : 0;
    return fclose(f) != 0 ? errno : failed;
}

static void log_at_end(void) {
    if (sim.log == NULL)
        return;
    int e = write_log(sim.log);
    if (e != 0)
        fprintf(stderr, "zesim: can't write the log %s: %s\n", sim.log, strerror(e));
}

__attribute__((destructor)) static void unload(void) {
    sim_lock();
    log_at_end();
    sim_unlock();
}

void violation(const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "zesim: violation: %s\n", text);
    count_add("violations", 1);
    if (n_said < SAID_MAX)
        said[n_said++] = strdup(text);
    if (sim.abort_on_violation) {
        log_at_end();
        abort();
    }
}

void fatal(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("zesim: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    _exit(70); /* EX_SOFTWARE: no destructor may run with half a configuration */
}

/* ---- zesim.h */
void zesim_mark(const char *name) {
    sim_lock();
    calls_mark(name);
    sim_unlock();
}

static uint64_t count_since(const struct mark *m, const char *name) {
    gather_calls();
    for (size_t i = 0; i < n_counters; i++)
        if (strcmp(counters[i].name, name) == 0)
            return counters[i].value - (m != NULL && i < m->n ? m->value[i] : 0);
    return 0;
}

uint64_t zesim_count(const char *name) {
    sim_lock();
    uint64_t n = count_since(NULL, name);
    sim_unlock();
    return n;
}

uint64_t zesim_count_since(const char *mark, const char *name) {
    sim_lock();
    const struct mark *m = NULL;
    for (size_t i = 0; i < n_marks; i++)
        if (strcmp(marks[i].name, mark) == 0)
            m = &marks[i];
    if (m == NULL)
        fatal("zesim_count_since: no mark \"%s\" was set", mark);
    uint64_t n = count_since(m, name);
    sim_unlock();
    return n;
}

int zesim_write_log(const char *path) {
    sim_lock();
    int e = path == NULL && sim.log == NULL ? EINVAL : write_log(path != NULL ? path : sim.log);
    sim_unlock();
    return e;
}
