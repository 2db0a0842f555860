#include "app/session.h"

#include "app/out.h"

#include "base/arith.h"
#include "base/error.h"
#include "base/units.h"
#include "device/cluster.h"
#include "device/device.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void print_log(void *context, stator_log_level level, const char *line) {
    const uint32_t rank = device_cluster().rank;
    (void)context;
    (void)level;
    if (rank > 0)
        fprintf(stderr, "rank %u: %s\n", rank, line);
    else
        fprintf(stderr, "%s\n", line);
}

static void print_progress(uint64_t done, uint64_t total) {
    char a[UNITS_TEXT];
    char b[UNITS_TEXT];
    int percent = total > 0 ? (int)(100.0 * (double)done / (double)total) : 100;
    char bar[31];
    memset(bar, '.', 30);
    memset(bar, '#', (size_t)(percent * 30 / 100));
    bar[30] = '\0';
    if (done >= total)
        fprintf(stderr, "\r\033[K"); /* cleared: what follows is the command's own */
    else
        fprintf(stderr, "\rloading [%s] %3d%%  %s of %s   ", bar, percent, units_format_size(done, a),
                units_format_size(total, b));
}

/* A signal handler has nothing but globals to reach its engine by. */
static stator *volatile signal_engine;
static atomic_int signal_seen;
static atomic_int signal_fd = -1; /* an eventfd, once somebody asked for it */

/* A signal that came between session_catch_signals and stator_start had nothing to cancel yet. */
static void on_progress(void *context, uint64_t done, uint64_t total) {
    (void)context;
    if (signal_seen)
        stator_cancel(signal_engine, 0);
    if (isatty(STDERR_FILENO))
        print_progress(done, total);
}

/* A rank above 0 is its stage's devices and nothing else; rank 0 runs the command. Does not return. */
static _Noreturn void serve_rank(stator *s, stator_status st, stator_error *e) {
    signal(SIGINT, SIG_IGN); /* rank 0 ends us */
    signal(SIGTERM, SIG_IGN);
    if (st == STATOR_OK)
        st = stator_start(s, e);
    if (st == STATOR_OK)
        st = stator_stop(s, e); /* when rank 0 has ended */
    if (st != STATOR_OK)
        fprintf(stderr, "stator (rank %u): %s\n", device_cluster().rank, e->text);
    stator_close(s);
    if (st != STATOR_OK)
        device_cluster_refuse(e);
    device_cluster_end((int)st);
    exit((int)st);
}

static stator_status open_to_run(const stator_options *o, stator **s, stator_error *e) {
    stator_status st = stator_open(o, s, e);
    if (device_cluster().rank > 0)
        serve_rank(*s, st, e);
    return st;
}

stator_status session_open(const char *config, const struct options_list *set, const char *expect_plan,
                           const char *trace, stator **s, stator_error *e) {
    return session_open_grammars(config, set, expect_plan, trace, 0, s, e);
}

stator_status session_open_grammars(const char *config, const struct options_list *set,
                                    const char *expect_plan, const char *trace, uint32_t grammars, stator **s,
                                    stator_error *e) {
    stator_options o = {.size = sizeof o,
                        .config = config,
                        .set = set->items,
                        .n_set = set->n,
                        .log = print_log,
                        .progress = on_progress,
                        .expect_plan = expect_plan,
                        .trace = device_cluster().rank == 0 ? trace : NULL, /* one file, of rank 0 */
                        .grammars = grammars};
    return open_to_run(&o, s, e);
}

stator_status session_look(const char *config, const struct options_list *set, stator_info *info,
                           stator_error *e) {
    stator *s = NULL;
    stator_options o = {
        .size = sizeof o, .config = config, .set = set->items, .n_set = set->n, .log = print_log};
    stator_status st = stator_open(&o, &s, e);
    if (st == STATOR_OK)
        st = stator_get_info(s, info, e);
    stator_close(s);
    return st;
}

stator_status session_open_as(enum session_purpose purpose, const char *config,
                              const struct options_list *set, const char *expect_plan, stator *beside,
                              stator **s, stator_error *e) {
    stator_options o = {.size = sizeof o,
                        .config = config,
                        .set = set->items,
                        .n_set = set->n,
                        .log = print_log,
                        .progress = on_progress,
                        .expect_plan = expect_plan,
                        .beside = beside,
                        .serve = purpose == SESSION_SERVE,
                        .reuse = purpose == SESSION_CHAT};
    return open_to_run(&o, s, e);
}

stator_status session_open_for(const char *config, const struct options_list *set,
                               const struct options_list *devices, uint32_t stage,
                               enum session_purpose purpose, stator *beside, stator **s, stator_error *e) {
    stator_options o = {.size = sizeof o,
                        .config = config,
                        .set = set->items,
                        .n_set = set->n,
                        .log = stage == 0 ? print_log : NULL, /* once */
                        .devices = devices->items,
                        .n_devices = devices->n,
                        .described = 1,
                        .beside = beside,
                        .stage = stage,
                        .serve = purpose == SESSION_SERVE,
                        .reuse = purpose == SESSION_CHAT};
    return stator_open(&o, s, e);
}

static void on_signal(int number) {
    if (signal_seen)
        _exit(128 + number);
    signal_seen = number;
    const int saved = errno;
    const uint64_t one = 1;
    if (signal_fd >= 0 && write(signal_fd, &one, sizeof one) < 0)
        signal_seen = number; /* full: it is readable already */
    errno = saved;
    stator *s = signal_engine;
    if (s != NULL)
        stator_cancel(s, 0);
}

static void handle_signals(void (*handler)(int)) {
    /* A write that is blocked by its reader goes on after the signal, so that no text is lost. */
    struct sigaction a = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigemptyset(&a.sa_mask);
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
}

void session_catch_signals(stator *s) {
    signal_engine = s;
    handle_signals(s != NULL ? on_signal : SIG_DFL);
}

const atomic_int *session_note_signals(void) {
    handle_signals(on_signal);
    return &signal_seen;
}

const atomic_int *session_signal_flag(void) {
    return &signal_seen;
}

int session_signal(void) {
    return signal_seen;
}

void session_forget_signal(void) {
    uint64_t count;
    signal_seen = 0; /* first: what comes in between is seen by session_signal, if not by poll */
    while (signal_fd >= 0 && read(signal_fd, &count, sizeof count) < 0 && errno == EINTR)
        continue;
}

int session_signal_fd(void) {
    if (signal_fd < 0)
        signal_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return signal_fd;
}

/* Of the table's first two columns. */
struct widths {
    int place, arena;
};

static struct widths measure(const stator *s) {
    struct widths w = {6, 10};
    for (size_t i = 0;; i++) {
        stator_memory_row row = {.size = sizeof row};
        int have = 0;
        if (stator_get_memory(s, i, &row, &have, NULL) != STATOR_OK || !have)
            return w;
        w.place = ARITH_MAX(w.place, (int)strlen(row.place));
        w.arena = ARITH_MAX(w.arena, (int)strlen(row.arena));
    }
}

static void print_row(FILE *out, const struct widths *w, const stator_memory_row *r, const char *place,
                      bool with_use) {
    char planned[UNITS_TEXT];
    char other[UNITS_TEXT];
    char used[UNITS_TEXT];
    char budget[UNITS_TEXT];
    units_format_size(r->planned, planned);
    units_format_size(with_use ? r->allocated : r->lower_bound, other);
    units_format_size(r->used, used);
    units_format_size(r->budget, budget);
    if (with_use)
        fprintf(out, "%-*s %-*s %13s %13s %13s\n", w->place, place, w->arena, r->arena, planned, other, used);
    else
        fprintf(out, "%-*s %-*s %15" PRIu64 " %13s %13s %13s\n", w->place, place, w->arena, r->arena,
                r->planned, planned, other, budget);
}

void session_print_memory(const stator *s, FILE *out, bool with_use) {
    const struct widths w = measure(s);
    if (with_use)
        fprintf(out, "%-*s %-*s %13s %13s %13s\n", w.place, "place", w.arena, "arena", "planned", "allocated",
                "used");
    else
        fprintf(out, "%-*s %-*s %15s %13s %13s %13s\n", w.place, "place", w.arena, "arena", "bytes",
                "planned", "lower bound", "budget");
    stator_memory_row total = {.arena = "total"};
    for (size_t i = 0;; i++) {
        stator_memory_row row = {.size = sizeof row};
        int have = 0;
        if (stator_get_memory(s, i, &row, &have, NULL) != STATOR_OK)
            break;
        bool same = have && strcmp(row.place, total.place) == 0;
        if (!same && total.place[0] != '\0')
            print_row(out, &w, &total, "", with_use);
        if (!have)
            break;
        if (!same) {
            total = (stator_memory_row){.arena = "total", .budget = row.budget};
            memcpy(total.place, row.place, sizeof total.place);
        }
        print_row(out, &w, &row, same ? "" : row.place, with_use);
        total.planned += row.planned;
        total.lower_bound += row.lower_bound;
        total.allocated += row.allocated;
        total.used += row.used;
    }
}

static void print_figure(FILE *out, const char *sign, uint64_t bytes, const char *name) {
    char text[UNITS_TEXT];
    fprintf(out, "  %s %13s  %s\n", sign, units_format_size(bytes, text), name);
}

/* A difference by its name. */
static void print_difference(FILE *out, uint64_t from, uint64_t to, const char *name) {
    print_figure(out, to < from ? "-" : "+", to < from ? from - to : to - from, name);
}

static void print_device(FILE *out, const stator_device_audit *d) {
    char name[128];
    char size[UNITS_TEXT];
    fprintf(out, "%s\n", d->name);
    print_figure(out, " ", d->planned, "planned and allocated");
    if (d->driver != 0) {
        snprintf(name, sizeof name, "the driver's own: command lists, code, private memory (%s reserved)",
                 units_format_size(d->reserve, size));
        print_difference(out, d->planned, d->driver, name);
        print_figure(out, "=", d->driver,
                     "taken by the driver's count, with what other processes took meanwhile");
    } else {
        fprintf(out, "    the driver does not say what is free\n");
    }
    if (!d->kernel_told) {
        fprintf(out, "    the kernel does not say what this process holds (no drm fdinfo of this GPU)\n");
        return;
    }
    print_difference(out, d->driver != 0 ? d->driver : d->planned, d->kernel,
                     d->driver != 0 ? "counted by the kernel alone: page tables, rounding, firmware's buffers"
                                    : "the driver's own and page tables");
    print_figure(out, "=", d->kernel, "by the kernel's count (drm vram)");
    print_figure(out, d->grown < 0 ? "-" : "+", (uint64_t)(d->grown < 0 ? -d->grown : d->grown),
                 "of that since the engine was sealed");
    print_figure(out, " ", d->host, "host memory planned and pinned through it");
    print_difference(out, d->host, d->kernel_host, "the driver's own on the host: queues, rings, batches");
    print_figure(out, "=", d->kernel_host, "host memory for it by the kernel's count (drm gtt, system)");
}

static void print_devices(const stator *s, FILE *out) {
    for (size_t i = 0;; i++) {
        stator_device_audit d = {.size = sizeof d};
        int have = 0;
        if (stator_get_device_audit(s, i, &d, &have, NULL) != STATOR_OK || !have)
            return;
        if (i == 0)
            fprintf(out, "audit of device memory\n");
        print_device(out, &d);
    }
}

/* MPI, which is there before the engine. */
static void print_library(FILE *out) {
    const struct device_cluster c = device_cluster();
    char name[128];
    snprintf(name, sizeof name, "of that: MPI_Init (%s)", c.library);
    if (c.size > 0)
        print_figure(out, " ", c.library_bytes, name);
}

stator_status session_audit(const stator *s, FILE *out, stator_error *e) {
    stator_audit a = {.size = sizeof a};
    stator_status st = stator_get_audit(s, &a, e);
    if (out == NULL || (st != STATOR_OK && a.text[0] == '\0'))
        return st;
    fprintf(out, "audit of host memory\n");
    print_figure(out, " ", a.planned, "planned");
    print_figure(out, "-", a.not_in_ram, "of it not in RAM: never written, or swapped out");
    print_figure(out, "+", a.before, "the process before the engine");
    print_library(out);
    if (a.beside > 0)
        print_figure(out, "+", a.beside, "planned for the other models, as far as it is in RAM");
    print_figure(out, a.others < 0 ? "-" : "+", (uint64_t)(a.others < 0 ? -a.others : a.others),
                 "libraries, drivers, the program around the engine");
    print_figure(out, "=", a.kernel, "private by the kernel (RssAnon + RssShmem)");
    if (a.pinned > 0)
        print_figure(out, " ", a.pinned, "planned and pinned by a GPU's driver, beside that");
    if (a.spilled > 0)
        print_figure(out, " ", a.spilled,
                     "of the plan: spill, what the GPUs are too small for, and experts on the host");
    print_figure(out, a.grown < 0 ? "-" : "+", (uint64_t)(a.grown < 0 ? -a.grown : a.grown),
                 "growth outside the plan since the engine was sealed");
    print_figure(out, a.heap_grown < 0 ? "-" : "+",
                 (uint64_t)(a.heap_grown < 0 ? -a.heap_grown : a.heap_grown),
                 "handed out by malloc since then, whatever of it is in RAM");
    print_figure(out, " ", a.available, "available on the machine (MemAvailable)");
    print_figure(out, a.unnamed_grown < 0 ? "-" : "+",
                 (uint64_t)(a.unnamed_grown < 0 ? -a.unnamed_grown : a.unnamed_grown),
                 "growth of memory of the machine that belongs to no process and no cache (drivers)");
    print_devices(s, out);
    if (a.text[0] != '\0')
        fprintf(out, "%s\n", a.text);
    return st;
}

/* Writes the report as JSON to path. */
static stator_status write_report(const stator *s, const char *path, stator_error *e) {
    size_t n = 0;
    (void)stator_report_json(s, NULL, 0, &n, NULL);
    char *text = malloc(n + 1);
    if (text == NULL)
        return error_set(e, STATOR_FAILED, "no memory for the report");
    stator_status st = stator_report_json(s, text, n + 1, &n, e);
    FILE *f = st == STATOR_OK ? out_open("--report", path, e) : NULL;
    if (f != NULL) {
        fprintf(f, "%s\n", text);
        st = out_close(f, "--report", path, st, e);
    } else if (st == STATOR_OK) {
        st = e->code;
    }
    free(text);
    return st;
}

stator_status session_finish(stator *s, FILE *audit, const char *report, stator_status st, stator_error *e) {
    stator_error why;
    stator_status audited = session_audit(s, audit, &why);
    if (audited == STATOR_OK)
        audited = stator_audit_ranks(s, &why);
    if (audited != STATOR_OK && st == STATOR_OK) {
        *e = why;
        st = audited;
    }
    const stator_status written = report != NULL ? write_report(s, report, &why) : STATOR_OK;
    if (written != STATOR_OK && st == STATOR_OK) {
        *e = why;
        st = written;
    }
    const stator_status stopped = stator_stop(s, &why);
    if (stopped != STATOR_OK && st == STATOR_OK) {
        *e = why;
        st = stopped;
    }
    return st;
}

void session_close(stator *s) {
    session_catch_signals(NULL);
    stator_close(s);
}

stator_status session_parse_ids(const char *text, const char *what, int32_t **ids, size_t *n,
                                stator_error *e) {
    size_t capacity = strlen(text) / 2 + 1;
    int32_t *out = malloc(capacity * sizeof *out);
    if (out == NULL)
        return error_set(e, STATOR_FAILED, "no memory for %zu token ids", capacity);
    size_t count = 0;
    const char *at = text;
    for (;;) {
        at += strspn(at, " \t\r\n,");
        if (*at == '\0')
            break;
        char *end = NULL;
        errno = 0;
        long v = strtol(at, &end, 10);
        if (end == at || errno != 0 || v < 0 || v > INT32_MAX ||
            (*end != '\0' && strchr(" \t\r\n,", *end) == NULL)) {
            free(out);
            return error_set(e, STATOR_USAGE,
                             "%s: \"%.*s\" is not a token id: numbers separated by blanks are expected", what,
                             (int)strcspn(at, " \t\r\n,") > 40 ? 40 : (int)strcspn(at, " \t\r\n,"), at);
        }
        out[count++] = (int32_t)v;
        at = end;
    }
    *ids = out;
    *n = count;
    return STATOR_OK;
}

stator_status session_read_file(const char *path, uint64_t limit, char **text, size_t *n, stator_error *e) {
    bool is_stdin = strcmp(path, "-") == 0;
    const char *name = is_stdin ? "stdin" : path;
    FILE *f = is_stdin ? stdin : fopen(path, "re");
    *text = NULL;
    *n = 0;
    if (f == NULL) {
        bool files = errno == EMFILE || errno == ENFILE || errno == ENOMEM;
        return error_set(e, files ? STATOR_FAILED : STATOR_USAGE, "%.300s can't be opened: %s", name,
                         strerror(errno));
    }
    /* One byte more than the limit tells that it is exceeded, and one is for the NUL. */
    size_t capacity = 1 << 16, used = 0;
    const size_t most = limit + 2;
    char *data = malloc(capacity);
    while (data != NULL && used <= limit) {
        // cppcheck-suppress pointerOutOfBoundsCond ; capacity grows with used
        size_t got = fread(data + used, 1, capacity - used - 1, f);
        used += got;
        if (got == 0)
            break;
        if (capacity - used < 2 && capacity < most) {
            capacity = ARITH_MIN(2 * capacity, most);
            char *more = realloc(data, capacity);
            if (more == NULL)
                free(data);
            data = more;
        }
    }
    bool failed = ferror(f) != 0;
    int why = errno;
    if (!is_stdin)
        fclose(f);
    char size[UNITS_TEXT];
    stator_status st = STATOR_OK;
    if (data == NULL)
        st = error_set(e, STATOR_DOES_NOT_FIT, "%.300s: no memory for %zu bytes", name, capacity);
    else if (failed)
        st = error_set(e, why == EISDIR ? STATOR_USAGE : STATOR_FAILED, "%.300s can't be read: %s", name,
                       strerror(why));
    else if (used > limit)
        st = error_set(e, STATOR_USAGE, "%.300s is longer than %s, the most that is read", name,
                       units_format_size(limit, size));
    if (st != STATOR_OK) {
        free(data);
        return st;
    }
    data[used] = '\0';
    *text = data;
    *n = used;
    return STATOR_OK;
}
