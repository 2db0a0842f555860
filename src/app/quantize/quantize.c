/* stator quantize IN OUT TYPE: a model in another block format, or in a mixture of them.
 *
 * What will be written is planned first (quantize_plan.h), so --dry-run shows exactly that; the work
 * (quantize_run.h) then needs no more than the memory that is stated. A file appears under its name when it
 * is whole; of several the first one comes last. */
#include "app/commands.h"
#include "app/options/options.h"
#include "app/out.h"
#include "app/quantize/quantize_run.h"
#include "app/session.h"

#include "base/arith.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json_writer.h"
#include "base/units.h"
#include "formats/encode.h"

#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_SHARDS     512
#define SUFFIX         64
#define NAME_WIDTH_MAX 48
#define LINE_SECONDS   10 /* between lines of progress where there is no terminal */

struct quantize {
    const char *in, *out, *type, *imatrix_path;
    struct options_list overrides;
    uint64_t threads;
    bool dry_run, json;

    struct gguf *model;
    struct imatrix imatrix;
    struct quantize_plan plan;
    struct quantize_file *files;
    uint32_t n_shards;
    uint64_t began_ns, told_ns;
};

/* "-00001-of-00003.gguf" at the end of OUT: that many files. */
static uint32_t shards_of(const char *path) {
    static const char pattern[] = "-00001-of-NNNNN.gguf";
    const size_t n = strlen(path), length = sizeof pattern - 1;
    uint32_t count = 0;
    if (n < length)
        return 1;
    for (size_t i = 0; i < length; i++) {
        const char c = path[n - length + i];
        if (pattern[i] == 'N') {
            if (c < '0' || c > '9')
                return 1;
            count = 10 * count + (uint32_t)(c - '0');
        } else if (c != pattern[i]) {
            return 1;
        }
    }
    return count;
}

static void shard_path(const struct quantize *q, uint32_t no, char *out, size_t size) {
    const size_t stem = strlen(q->out) - strlen("-00001-of-00001.gguf");
    if (q->n_shards == 1)
        snprintf(out, size, "%s", q->out);
    else
        snprintf(out, size, "%.*s-%05u-of-%05u.gguf", (int)stem, q->out, no + 1, q->n_shards);
}

static bool same_file(const char *a, const char *b) {
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Nothing that is read is written over. */
static stator_status check_output(const struct quantize *q, stator_error *e) {
    char path[PATH_MAX];
    for (uint32_t i = 0; i < q->n_shards; i++) {
        shard_path(q, i, path, sizeof path);
        for (uint32_t k = 0; k < gguf_shards(q->model); k++)
            if (same_file(path, gguf_path(q->model, k)))
                return error_set(e, STATOR_USAGE, "%.300s is the input itself (%.300s): name another file",
                                 path, gguf_path(q->model, k));
        if (q->imatrix_path != NULL && same_file(path, q->imatrix_path))
            return error_set(e, STATOR_USAGE, "%.300s is the importance matrix itself: name another file",
                             path);
    }
    return STATOR_OK;
}

static stator_status find_mixture(const struct quantize *q, const struct mixture **m, stator_error *e) {
    char list[600] = "";
    *m = mixture_find(q->type);
    if (*m != NULL && encode_can((*m)->type))
        return STATOR_OK;
    for (uint32_t i = 0; mixture_at(i) != NULL; i++)
        if (encode_can(mixture_at(i)->type)) {
            strcat(list, list[0] != '\0' ? ", " : "");
            strcat(list, mixture_at(i)->name);
        }
    return error_set(e, STATOR_USAGE, "%s '%.32s', expected one of %s",
                     *m != NULL ? "stator can't write" : "there is no type", q->type, list);
}

static uint64_t processors(void) {
    cpu_set_t set;
    const long n =
        sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? ARITH_MIN((uint64_t)n, QUANTIZE_RUN_MAX_THREADS) : 1;
}

/* What the command takes of memory, beside the program itself and the threads' stacks. */
static uint64_t memory_of(const struct quantize *q) {
    return gguf_host_bytes(q->model) + 3 * q->plan.header_bytes + q->imatrix.bytes +
           q->plan.n_tensors * (sizeof *q->plan.tensors + sizeof(void *)) +
           q->n_shards * (sizeof *q->files + sizeof *q->plan.shards) +
           q->threads * quantize_run_thread_bytes();
}

static stator_status prepare(struct quantize *q, stator_error *e) {
    const struct mixture *m = NULL;
    stator_status st = find_mixture(q, &m, e);
    if (st != STATOR_OK)
        return st;
    q->n_shards = shards_of(q->out);
    if (q->n_shards < 1 || q->n_shards > MAX_SHARDS)
        return error_set(e, STATOR_USAGE, "%.300s: from 1 to %d files can be written", q->out, MAX_SHARDS);
    if (strlen(q->out) + SUFFIX > PATH_MAX)
        return error_set(e, STATOR_USAGE, "the name of the output is too long");
    st = gguf_open(q->in, &q->model, e);
    if (st == STATOR_OK)
        st = check_output(q, e);
    if (st == STATOR_OK && q->imatrix_path != NULL)
        st = imatrix_read(q->imatrix_path, &q->imatrix, e);
    if (st == STATOR_OK)
        st =
            quantize_plan_make(&q->plan, q->model, m, &q->overrides,
                               q->imatrix_path != NULL ? &q->imatrix : NULL, q->imatrix_path, q->n_shards, e);
    return st;
}

/* "256 x 512" */
static const char *format_shape(const struct gguf_tensor *t, char out[96]) {
    int n = 0;
    for (uint32_t d = 0; d < t->n_dims; d++)
        n += snprintf(out + n, 96 - (size_t)n, "%s%" PRIu64, d > 0 ? " x " : "", t->ne[d]);
    return out;
}

/* Per type, what it holds in the output. */
struct sum {
    uint64_t tensors, values, bytes;
};

static void sum_up(const struct quantize_plan *p, struct sum sums[BLOCK_TYPES], struct sum *from,
                   struct sum *all) {
    for (uint64_t i = 0; i < p->n_tensors; i++) {
        const struct quantize_tensor *t = &p->tensors[i];
        struct sum *to[] = {&sums[t->type], all};
        for (int k = 0; k < 2; k++) {
            to[k]->tensors++;
            to[k]->values += t->values;
            to[k]->bytes += t->bytes;
        }
        from->bytes += t->from->bytes;
    }
}

static void print_table(const struct quantize *q) {
    const struct quantize_plan *p = &q->plan;
    struct sum sums[BLOCK_TYPES] = {{0, 0, 0}}, from = {0, 0, 0}, all = {0, 0, 0};
    char shown[GGUF_SHOWN], shape[96], a[UNITS_TEXT], b[UNITS_TEXT];
    int width = 6;
    for (uint64_t i = 0; i < p->n_tensors; i++)
        width = ARITH_MAX(width, (int)ARITH_MIN(p->tensors[i].from->name.length, NAME_WIDTH_MAX));
    printf("%-*s  %-20s %-8s %-8s %12s %12s\n", width, "tensor", "shape", "from", "to", "bytes", "becomes");
    for (uint64_t i = 0; i < p->n_tensors; i++) {
        const struct quantize_tensor *t = &p->tensors[i];
        printf("%-*s  %-20s %-8s %-8s %12s %12s%s\n", width, gguf_show(t->from->name, shown),
               format_shape(t->from, shape), block_info(t->from->type)->name, block_info(t->type)->name,
               units_format_size(t->from->bytes, a), units_format_size(t->bytes, b),
               t->type != t->wanted ? "  (rows are no whole blocks)" : "");
    }
    sum_up(p, sums, &from, &all);
    putchar('\n');
    for (uint32_t i = 0; i < BLOCK_TYPES; i++)
        if (sums[i].tensors > 0)
            printf("%-8s %6" PRIu64 " tensors %16" PRIu64 " weights %12s\n", block_info(i)->name,
                   sums[i].tensors, sums[i].values, units_format_size(sums[i].bytes, a));
    printf("%-8s %6" PRIu64 " tensors %16" PRIu64 " weights %12s  (%s before)  %.3f bits per weight\n",
           "total", all.tensors, all.values, units_format_size(all.bytes, a),
           units_format_size(from.bytes, b), quantize_plan_bits(p));
}

static void print_json(const struct quantize *q) {
    const struct quantize_plan *p = &q->plan;
    struct json j;
    json_to_file(&j, stdout, true);
    json_open_object(&j, NULL);
    json_put_string(&j, "type", p->mixture->name);
    json_put_u64(&j, "file_type", p->mixture->file_type);
    json_put_u64(&j, "files", p->n_shards);
    json_put_u64(&j, "bytes", quantize_plan_bytes(p));
    json_put_u64(&j, "memory", memory_of(q));
    json_put_double(&j, "bits_per_weight", quantize_plan_bits(p));
    json_open_array(&j, "tensors");
    for (uint64_t i = 0; i < p->n_tensors; i++) {
        const struct quantize_tensor *t = &p->tensors[i];
        json_open_object(&j, NULL);
        json_put_string_n(&j, "name", t->from->name.data, t->from->name.length);
        json_put_string(&j, "from", block_info(t->from->type)->name);
        json_put_string(&j, "wanted", block_info(t->wanted)->name);
        json_put_string(&j, "to", block_info(t->type)->name);
        json_put_u64(&j, "from_bytes", t->from->bytes);
        json_put_u64(&j, "bytes", t->bytes);
        json_close(&j);
    }
    json_close(&j);
    json_close(&j);
    json_end(&j); /* out_finish checks that everything was written */
}

/* What people should know before. */
static void warn(const struct quantize *q) {
    const struct quantize_plan *p = &q->plan;
    char shown[GGUF_SHOWN], size[UNITS_TEXT];
    for (uint64_t i = 0; i < p->n_tensors && p->fallbacks > 0; i++) {
        const struct quantize_tensor *t = &p->tensors[i];
        if (t->type != t->wanted)
            fprintf(stderr,
                    "tensor '%s' becomes %s: its rows of %" PRIu64 " are no multiple of the %" PRIu32
                    " values of a block of %s\n",
                    gguf_show(t->from->name, shown), block_info(t->type)->name, t->from->ne[0],
                    block_info(t->wanted)->values, block_info(t->wanted)->name);
    }
    if (p->from_quantised)
        fprintf(stderr, "%s is quantised already: the result has the errors of both formats\n", q->in);
    if (p->unweighted > 0)
        fprintf(stderr, "%" PRIu64 " quantised tensor%s not in %s: all columns count alike there\n",
                p->unweighted, p->unweighted == 1 ? " is" : "s are", q->imatrix_path);
    fprintf(stderr, "memory: %s, with %" PRIu64 " thread%s\n", units_format_size(memory_of(q), size),
            q->threads, q->threads == 1 ? "" : "s");
}

/* Types of which nothing good comes without an importance matrix. --dry-run only says so. */
static stator_status refuse_blind(const struct quantize *q, stator_error *e) {
    const struct quantize_plan *p = &q->plan;
    char shown[GGUF_SHOWN];
    if (p->refused == 0)
        return STATOR_OK;
    (void)gguf_show(p->first_refused->from->name, shown);
    const char *type = block_info(p->first_refused->type)->name;
    if (q->dry_run) {
        fprintf(stderr,
                "%" PRIu64 " tensor%s (the first: '%s', %s) can't be written without an importance matrix\n",
                p->refused, p->refused == 1 ? "" : "s", shown, type);
        return STATOR_OK;
    }
    return error_set(
        e, STATOR_USAGE,
        "tensor '%s' becomes %s, which is not written without an importance matrix, and %s%.200s%s: "
        "give --imatrix FILE of llama-imatrix for this model, or a type of more bits (IQ3_S, Q3_K_M)",
        shown, type, q->imatrix_path != NULL ? "" : "there is none",
        q->imatrix_path != NULL ? q->imatrix_path : "",
        q->imatrix_path != NULL ? " does not have that tensor" : "");
}

static void show_progress(void *context, uint64_t done, uint64_t total) {
    struct quantize *q = context;
    const uint64_t now = clock_ns();
    const bool terminal = isatty(STDERR_FILENO) != 0;
    if (!terminal && now - q->told_ns < (uint64_t)LINE_SECONDS * 1000000000)
        return;
    q->told_ns = now;
    const double share = total > 0 ? (double)done / (double)total : 1;
    const double left = share > 0 ? (double)(now - q->began_ns) * 1e-9 * (1 - share) / share : 0;
    char time[32] = "";
    if (share > 0.01)
        snprintf(time, sizeof time, left < 100 ? "%.0f s left" : "%.0f min left",
                 left < 100 ? left : ceil(left / 60));
    if (!terminal) {
        fprintf(stderr, "quantizing: %.0f%%  %s\n", 100 * share, time);
        return;
    }
    char bar[31];
    memset(bar, '.', 30);
    memset(bar, '#', (size_t)(share * 30));
    bar[30] = '\0';
    fprintf(stderr, "\rquantizing [%s] %3.0f%%  %-16s%s", bar, floor(100 * share), time,
            done >= total ? "\n" : "");
}

static stator_status create_files(struct quantize *q, stator_error *e) {
    char path[PATH_MAX];
    stator_status st = STATOR_OK;
    q->files = calloc(q->n_shards, sizeof *q->files);
    if (q->files == NULL)
        return error_set(e, STATOR_DOES_NOT_FIT, "no memory for the names of %" PRIu32 " files", q->n_shards);
    for (uint32_t i = 0; i < q->n_shards; i++)
        q->files[i].fd = -1;
    for (uint32_t i = 0; i < q->n_shards && st == STATOR_OK; i++) {
        shard_path(q, i, path, sizeof path);
        st = quantize_file_create(&q->files[i], path, q->plan.shards[i].bytes, e);
    }
    return st;
}

static stator_status write_files(struct quantize *q, stator_error *e) {
    char size[UNITS_TEXT];
    const atomic_int *stop = session_note_signals();
    stator_status st = create_files(q, e);
    q->began_ns = q->told_ns = clock_ns();
    if (st == STATOR_OK)
        st = quantize_run(&q->plan, q->files, (uint32_t)q->threads, stop, show_progress, q, e);
    if (st == STATOR_OK)
        st = gguf_unchanged(q->model, e);
    for (uint32_t i = 0; i < q->n_shards && st == STATOR_OK; i++)
        st = quantize_file_settle(&q->files[i], e);
    for (uint32_t i = q->n_shards; i-- > 0 && st == STATOR_OK;)
        st = quantize_file_publish(&q->files[i], e);
    if (st == STATOR_OK)
        fprintf(stderr, "%s: %s, %.3f bits per weight, in %.1f s\n", q->out,
                units_format_size(quantize_plan_bytes(&q->plan), size), quantize_plan_bits(&q->plan),
                (double)(clock_ns() - q->began_ns) * 1e-9);
    else if (isatty(STDERR_FILENO))
        fputc('\n', stderr);
    return st;
}

static stator_status run(struct quantize *q, stator_error *e) {
    stator_status st = prepare(q, e);
    if (st != STATOR_OK)
        return st;
    st = refuse_blind(q, e);
    if (st != STATOR_OK)
        return st;
    warn(q);
    if (!q->dry_run)
        st = write_files(q, e);
    if (st == STATOR_OK && q->json)
        print_json(q);
    else if (st == STATOR_OK && q->dry_run)
        print_table(q);
    return st;
}

static void release(struct quantize *q) {
    for (uint32_t i = 0; q->files != NULL && i < q->n_shards; i++)
        quantize_file_close(&q->files[i]);
    free(q->files);
    quantize_plan_free(&q->plan);
    imatrix_free(&q->imatrix);
    gguf_close(q->model);
}

static bool parse(struct quantize *q, int argc, char **argv, int *code) {
    const struct options_row rows[] = {
        {.name = "tensor",
         .kind = OPTIONS_LIST,
         .target = &q->overrides,
         .value = "PATTERN=TYPE",
         .help = "another type for matrices of such a name: with * ? [ the whole name, else a part of it. Of "
                 "several that match the last one counts (ffn_down=q6_k)"},
        {.name = "imatrix",
         .kind = OPTIONS_TEXT,
         .target = &q->imatrix_path,
         .value = "FILE",
         .help = "how much the columns count: a file of llama-imatrix, GGUF or the older form"},
        {.name = "threads",
         .kind = OPTIONS_U64,
         .target = &q->threads,
         .value = "N",
         .min = 1,
         .max = QUANTIZE_RUN_MAX_THREADS,
         .help = "threads that compute (all processors); the bytes are the same with any number"},
        {.name = "dry-run",
         .kind = OPTIONS_FLAG,
         .target = &q->dry_run,
         .help = "only print what each tensor would become, and its size"},
        OPTIONS_JSON(&q->json),
    };
    struct options o = {.command = "quantize",
                        .usage =
                            "IN.gguf OUT.gguf TYPE [--tensor PATTERN=TYPE]... [--imatrix FILE] [--dry-run]",
                        .summary = "Writes a model in another block format. TYPE is what llama.cpp calls a "
                                   "file type: Q4_K_M, IQ4_XS, "
                                   "Q8_0, F16 and so on (a wrong one lists them); most are mixtures, which "
                                   "give some matrices more bits. "
                                   "IN may be the first file of a split model; OUT-00001-of-00003.gguf "
                                   "writes three files.\nOUT appears "
                                   "when it is whole; nothing is left behind by an error or by Ctrl-C.",
                        .rows = rows,
                        .n_rows = sizeof rows / sizeof rows[0],
                        .min_arguments = 3,
                        .max_arguments = 3};
    if (!options_parse(&o, argc, argv, code))
        return false;
    q->in = o.arguments[0];
    q->out = o.arguments[1];
    q->type = o.arguments[2];
    return true;
}

int quantize_command(int argc, char **argv) {
    struct quantize q = {.threads = processors()};
    int code = 0;
    if (!parse(&q, argc, argv, &code))
        return code;
    stator_error e;
    const stator_status st = run(&q, &e);
    release(&q);
    return out_end("quantize", st, &e);
}
