/* stator bench: results as a Markdown table with llama-bench's columns, as JSON or as CSV, row by row. */
#include "app/bench/bench.h"

#include "base/json_writer.h"
#include "base/units.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH_MODEL 30

struct bench_table {
    FILE *out;
    enum bench_form form;
    stator_info info;
    const char *path;
    bool roofline;
    char model[192];
    char backend[32];
    bool begun;
    struct json json;
};

struct figures {
    char label[BENCH_LABEL];
    double mean, deviation, median;
    double fraction; /* of the limit; NAN: not known */
    double limit;    /* bytes or multiply-adds per second */
    /* Generation: bytes per token, with weights as in the file, and as they are read. */
    double needed, read;
};

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Weights that a token reads in a step of so many sequences: of experts each that is chosen once, as many as
 * are to be expected where tokens choose without regard to each other. */
static double weights_of(const stator_info *i, uint64_t all, uint64_t experts, uint32_t sequences) {
    double others = (double)(all - experts), chosen = 0;
    if (experts > 0) {
        double share = (double)i->experts_used / i->experts;
        chosen = (double)experts * (1 - pow(1 - share, sequences)) / share;
    }
    return (others + chosen) / sequences;
}

/* Generation is compared with reading memory: the weights once per step, the caches for every sequence; a
 * prompt with the int8 multiplications of its matrices. */
static void against_limit(const struct bench_table *t, const struct bench_result *r, struct figures *f) {
    const struct bench_test *test = &r->test;
    f->fraction = NAN;
    f->limit = f->needed = f->read = 0;
    if (!t->roofline)
        return;
    if (test->generation) {
        double attended = (test->depth > 0 ? test->depth : 1) + (test->n + 1) / 2.0;
        const stator_info *i = &t->info;
        double caches = attended * (double)i->context_read_bytes + (double)i->state_bytes +
                        fmin(attended, (double)i->window) * (double)i->window_read_bytes;
        f->needed = caches + weights_of(i, i->step_file_bytes, i->experts_file_bytes, test->sequences);
        f->read = caches + weights_of(i, i->step_read_bytes, i->experts_read_bytes, test->sequences);
        f->limit = r->limits.read_rate;
        f->fraction = f->read * f->mean / f->limit;
    } else if (r->limits.int8_rate > 0) {
        f->limit = r->limits.int8_rate;
        f->fraction = (double)t->info.token_macs * f->mean / f->limit;
    }
}

static void figures_of(const struct bench_table *t, const struct bench_result *r, struct figures *f) {
    double sorted[BENCH_LAPS] = {0};
    double sum = 0;
    double squares = 0;
    uint32_t n = r->n_rates;
    for (uint32_t i = 0; i < n; i++)
        sum += sorted[i] = r->rates[i];
    f->mean = sum / n;
    for (uint32_t i = 0; i < n; i++)
        squares += (r->rates[i] - f->mean) * (r->rates[i] - f->mean);
    f->deviation = n > 1 ? sqrt(squares / (n - 1)) : 0;
    qsort(sorted, n, sizeof *sorted, by_value);
    f->median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
    bench_label(&r->test, f->label);
    against_limit(t, r, f);
}

/* "of limit" for people. */
static const char *fraction_text(const struct bench_result *r, const struct figures *f, char out[64]) {
    if (isnan(f->fraction))
        snprintf(out, 64, "-");
    else if (r->test.generation)
        snprintf(out, 64, "%.1f%% of %.1f GB/s", 100 * f->fraction, f->limit * 1e-9);
    else
        snprintf(out, 64, "%.1f%% of %.2f TOPS (%s)", 100 * f->fraction, 2 * f->limit * 1e-12,
                 r->limits.int8_name);
    return out;
}

static const char *bytes_text(const struct figures *f, char out[64]) {
    if (f->read > 0)
        snprintf(out, 64, "%.1f, %.1f MB", f->needed * 1e-6, f->read * 1e-6);
    else
        snprintf(out, 64, "-");
    return out;
}

static void md_head(const struct bench_table *t) {
    fprintf(t->out, "| %-*s | %10s | %10s | %-10s | %7s | %15s | %20s |", WIDTH_MODEL, "model", "size",
            "params", "backend", "threads", "test", "t/s");
    fprintf(t->out, t->roofline ? " %23s | %28s |\n" : "\n", "needed, read per token", "of limit");
    fprintf(
        t->out,
        "| %.*s | ---------: | ---------: | ---------- | ------: | --------------: | -------------------: |",
        WIDTH_MODEL, "------------------------------------------------");
    fprintf(t->out, t->roofline ? " ----------------------: | ---------------------------: |\n" : "\n");
}

static void md_row(struct bench_table *t, const struct bench_result *r, const struct figures *f) {
    char size[UNITS_TEXT];
    char params[32];
    char rate[64];
    char limit[64], bytes[64];
    if (!t->begun)
        md_head(t);
    snprintf(params, sizeof params, "%.2f %s",
             (double)t->info.parameters * (t->info.parameters >= 1000000000 ? 1e-9 : 1e-6),
             t->info.parameters >= 1000000000 ? "B" : "M");
    snprintf(rate, sizeof rate, "%.2f ± %.2f", f->mean, f->deviation);
    /* The sign takes two bytes and one column. */
    fprintf(t->out, "| %-*s | %10s | %10s | %-10s | %7u | %15s | %21s |", WIDTH_MODEL, t->model,
            units_format_size(t->info.model_bytes, size), params, t->backend, t->info.threads, f->label,
            rate);
    if (t->roofline)
        fprintf(t->out, " %23s | %28s |", bytes_text(f, bytes), fraction_text(r, f, limit));
    fputc('\n', t->out);
}

static void json_limits(struct json *j, const struct bench_table *t, const struct bench_result *r,
                        const struct figures *f) {
    json_put_double(j, "read_gb_per_s", r->limits.read_rate * 1e-9);
    json_put_double(j, "int8_tops", 2 * r->limits.int8_rate * 1e-12);
    json_put_string(j, "int8_instruction", r->limits.int8_name);
    json_put_u64(j, "step_read_bytes", t->info.step_read_bytes);
    json_put_u64(j, "context_read_bytes", t->info.context_read_bytes);
    json_put_u64(j, "token_macs", t->info.token_macs);
    json_put_u64(j, "experts_read_bytes", t->info.experts_read_bytes);
    json_put_u64(j, "state_bytes", t->info.state_bytes);
    if (r->test.generation) {
        json_put_double(j, "token_needed_bytes", f->needed);
        json_put_double(j, "token_read_bytes", f->read);
    }
    json_put_string(j, "limit", r->test.generation ? "read" : "int8");
    json_put_double(j, "limit_fraction", f->fraction);
}

static void json_row(struct bench_table *t, const struct bench_result *r, const struct figures *f) {
    struct json *j = &t->json;
    json_open_object(j, NULL);
    json_put_string(j, "test", f->label);
    json_put_u64(j, "n_prompt", r->test.generation ? 0 : r->test.n);
    json_put_u64(j, "n_gen", r->test.generation ? r->test.n : 0);
    json_put_u64(j, "n_depth", r->test.depth);
    json_put_u64(j, "n_parallel", r->test.sequences);
    if (r->test.guesses > 0) {
        json_put_u64(j, "n_speculate", r->test.guesses);
        json_put_double(j, "accept", r->test.accept);
        json_put_u64(j, "n_guessed", r->n_guessed);
        json_put_u64(j, "n_kept", r->n_kept);
        json_put_double(j, "tokens_per_turn", bench_tokens_per_turn(r));
    }
    json_put_double(j, "avg_ts", f->mean);
    json_put_double(j, "stddev_ts", f->deviation);
    json_put_double(j, "median_ts", f->median);
    json_open_array(j, "samples_ts");
    for (uint32_t i = 0; i < r->n_rates; i++)
        json_put_double(j, NULL, r->rates[i]);
    json_close(j);
    json_put_u64(j, "threads", t->info.threads);
    json_put_string(j, "backend", t->backend);
    json_put_string(j, "tier", t->info.tier);
    json_put_string(j, "model", t->model);
    json_put_string(j, "model_path", t->path);
    json_put_u64(j, "model_bytes", t->info.model_bytes);
    json_put_u64(j, "model_params", t->info.parameters);
    json_put_u64(j, "context", t->info.context);
    json_put_u64(j, "batch", t->info.batch);
    json_put_string(j, "plan", t->info.plan_hash);
    json_put_double(j, "fill_ts", r->fill_rate);
    if (t->roofline)
        json_limits(j, t, r, f);
    json_close(j);
}

static void csv_text(FILE *out, const char *text) {
    fputc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"')
            fputc('"', out);
        fputc(*text, out);
    }
    fputs("\",", out);
}

static void csv_row(struct bench_table *t, const struct bench_result *r, const struct figures *f) {
    if (!t->begun) {
        fputs("test,n_prompt,n_gen,n_depth,n_parallel,repetitions,avg_ts,stddev_ts,median_ts,threads,backend,"
              "tier,model,"
              "model_path,model_bytes,model_params,context,batch,fill_ts",
              t->out);
        fputs(t->roofline ? ",read_gb_per_s,int8_tops,limit,limit_fraction\n" : "\n", t->out);
    }
    csv_text(t->out, f->label);
    fprintf(t->out, "%u,%u,%u,%u,%u,%.6f,%.6f,%.6f,%u,", r->test.generation ? 0 : r->test.n,
            r->test.generation ? r->test.n : 0, r->test.depth, r->test.sequences, r->n_rates, f->mean,
            f->deviation, f->median, t->info.threads);
    csv_text(t->out, t->backend);
    csv_text(t->out, t->info.tier);
    csv_text(t->out, t->model);
    csv_text(t->out, t->path);
    fprintf(t->out, "%" PRIu64 ",%" PRIu64 ",%u,%u,%.3f", t->info.model_bytes, t->info.parameters,
            t->info.context, t->info.batch, r->fill_rate);
    if (t->roofline) {
        fprintf(t->out, ",%.3f,%.3f,%s,", r->limits.read_rate * 1e-9, 2 * r->limits.int8_rate * 1e-12,
                r->test.generation ? "read" : "int8");
        if (!isnan(f->fraction))
            fprintf(t->out, "%.4f", f->fraction);
    }
    fputc('\n', t->out);
}

struct bench_table *bench_table_begin(FILE *out, enum bench_form form, const stator_info *info,
                                      const char *path, bool roofline) {
    struct bench_table *t = calloc(1, sizeof *t);
    if (t == NULL)
        return NULL;
    *t = (struct bench_table){.out = out, .form = form, .info = *info, .path = path, .roofline = roofline};
    double billions = (double)info->parameters * 1e-9;
    bool large = billions >= 0.1;
    snprintf(t->model, sizeof t->model, "%s %.*f%s %s", info->architecture, large && billions < 10 ? 1 : 0,
             large ? billions : billions * 1e3, large ? "B" : "M", info->weight_type);
    if (strcmp(info->tier, "level_zero") == 0)
        snprintf(t->backend, sizeof t->backend, "Level Zero");
    else
        snprintf(t->backend, sizeof t->backend, "CPU%s%s", form == BENCH_MD ? " " : "",
                 form == BENCH_MD ? info->tier : "");
    if (form == BENCH_JSON) {
        json_to_file(&t->json, out, true);
        json_open_array(&t->json, NULL);
    }
    return t;
}

void bench_table_row(struct bench_table *t, const struct bench_result *r) {
    struct figures f;
    figures_of(t, r, &f);
    if (t->form == BENCH_JSON)
        json_row(t, r, &f);
    else if (t->form == BENCH_CSV)
        csv_row(t, r, &f);
    else
        md_row(t, r, &f);
    t->begun = true;
    fflush(t->out); /* what failed is told at the end */
}

void bench_table_end(struct bench_table *t) {
    if (t == NULL)
        return;
    if (t->form == BENCH_JSON) {
        json_close(&t->json);
        (void)json_end(&t->json);
    }
    free(t);
}
