/* stator perplexity: how well a model predicts a text, with the error of that figure, and against the saved
 * log-probabilities of another run: what a format of weights or of the KV cache costs.
 *
 * As llama-perplexity does it: the text's ids (with special tokens by the model's rules) are cut into windows
 * of the context, the rest of the text is left out; where the model wants a BOS it replaces the first token
 * of every window; the tokens from the middle of a window on are scored. */
#include "app/commands.h"
#include "app/options/options.h"
#include "app/out.h"
#include "app/perplexity/perplexity_run.h"
#include "app/session.h"

#include "base/arith.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json_writer.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define USUAL_WINDOW 512 /* where the config says nothing: published figures are of such windows */
#define LEAST_WINDOW 4

struct perplexity {
    const char *config, *text_path, *save_path, *base_path, *report;
    uint64_t chunks; /* 0: all */
    bool json;
    struct options_list set;
    char set_context[40];

    char *text;
    size_t text_bytes;
    int32_t *ids;
    size_t n_ids;
    stator_info info;
    struct saved_logits save, base;
    struct perplexity_run run;
    struct perplexity_figures figures;
};

static const char *time_left(const struct perplexity_run *r, char out[32]) {
    const double each = (double)(clock_ns() - r->began_ns) * 1e-9 / r->n_done;
    const double left = each * (r->n_windows - r->n_done);
    if (left < 100)
        snprintf(out, 32, "%.0f s", left);
    else
        snprintf(out, 32, "%.0f min", ceil(left / 60));
    return out;
}

static void show_progress(const struct perplexity_run *r) {
    char left[32];
    struct perplexity_figures f;
    perplexity_sum(r->windows, r->n_windows, NULL, 0, &f);
    fprintf(stderr, "\rwindow %" PRIu32 " of %" PRIu32 "  perplexity %.4f +/- %.4f  %s left    %s", r->n_done,
            r->n_windows, f.perplexity.value, f.perplexity.error, time_left(r, left),
            r->n_done == r->n_windows ? "\n" : "");
}

/* The config's context, or the usual window. */
static stator_status open_engine(struct perplexity *p, stator_error *e) {
    stator_info *info = &p->info;
    stator_status st = session_look(p->config, &p->set, info, e);
    if (st == STATOR_OK && !info->context_fixed && p->set.n < OPTIONS_MAX_LIST) {
        snprintf(p->set_context, sizeof p->set_context, "memory.context=%u",
                 info->context > 0 ? ARITH_MIN(info->context, USUAL_WINDOW) : USUAL_WINDOW);
        p->set.items[p->set.n++] = p->set_context;
    }
    if (st == STATOR_OK)
        st = session_open(p->config, &p->set, NULL, NULL, &p->run.engine, e);
    return st == STATOR_OK ? stator_get_info(p->run.engine, info, e) : st;
}

/* Cuts the ids into windows. */
static stator_status cut(struct perplexity *p, stator_error *e) {
    struct perplexity_run *r = &p->run;
    r->ids = p->ids;
    r->window = p->info.context;
    r->vocab = p->info.vocab;
    r->sequences = p->info.sequences;
    r->first = r->window / 2;
    if (r->window < LEAST_WINDOW)
        return error_set(e, STATOR_USAGE, "memory.context is %" PRIu32 ": a window needs %d tokens at least",
                         r->window, LEAST_WINDOW);
    uint64_t n = p->n_ids / r->window;
    if (n == 0)
        return error_set(e, STATOR_USAGE,
                         "%.200s has %zu tokens, less than one window of %" PRIu32
                         " (memory.context): give a longer text or a smaller context",
                         p->text_path, p->n_ids, r->window);
    n = p->chunks != 0 && p->chunks < n ? p->chunks : n;
    r->n_windows = (uint32_t)n; /* a text has at most 256 MiB */
    r->windows = calloc(n, sizeof *r->windows);
    r->kl = p->base_path != NULL ? malloc(n * perplexity_rows(r) * sizeof *r->kl) : NULL;
    if (r->windows == NULL || (p->base_path != NULL && r->kl == NULL))
        return error_set(e, STATOR_DOES_NOT_FIT, "no memory for the figures of %" PRIu64 " windows", n);
    return STATOR_OK;
}

static struct saved_logits_key key_of(const struct perplexity *p) {
    const struct perplexity_run *r = &p->run;
    struct saved_logits_key key = {
        .vocab = r->vocab, .window = r->window, .scored = perplexity_rows(r), .windows = r->n_windows};
    struct hash h;
    hash_init(&h);
    hash_bytes(&h, p->text, p->text_bytes);
    hash_final(&h, key.text);
    hash_init(&h);
    hash_u64(&h, (uint64_t)(int64_t)r->bos);
    hash_bytes(&h, p->ids, p->n_ids * sizeof *p->ids);
    hash_final(&h, key.ids);
    return key;
}

/* What is written must be none of the files that are read. */
static stator_status check_files(const struct perplexity *p, stator_error *e) {
    const char *const read[] = {p->text_path, p->base_path, p->config};
    struct stat save, other;
    if (p->save_path == NULL || stat(p->save_path, &save) != 0)
        return STATOR_OK;
    for (size_t i = 0; i < sizeof read / sizeof read[0]; i++)
        if (read[i] != NULL && stat(read[i], &other) == 0 && save.st_dev == other.st_dev &&
            save.st_ino == other.st_ino)
            return error_set(e, STATOR_USAGE, "--save-logits %.200s would write over %.200s, which is read",
                             p->save_path, read[i]);
    return STATOR_OK;
}

/* Everything that can be refused before the weights are loaded. */
static stator_status prepare(struct perplexity *p, stator_error *e) {
    stator_status st = check_files(p, e);
    if (st == STATOR_OK)
        st = session_read_file(p->text_path, SESSION_TEXT_LIMIT, &p->text, &p->text_bytes, e);
    if (st == STATOR_OK)
        st = perplexity_text_ids(p->config, &p->set, p->text, p->text_bytes, &p->ids, &p->n_ids, &p->run.bos,
                                 e);
    if (st == STATOR_OK)
        st = open_engine(p, e);
    if (st != STATOR_OK)
        return st;
    session_catch_signals(p->run.engine);
    st = stator_prepare(p->run.engine, e);
    if (st == STATOR_OK)
        st = stator_get_info(p->run.engine, &p->info, e); /* the plan may have chosen the context */
    if (st == STATOR_OK)
        st = cut(p, e);
    if (st == STATOR_OK && p->base_path != NULL) {
        const struct saved_logits_key key = key_of(p);
        p->run.base = &p->base;
        st = saved_logits_open(&p->base, p->base_path, &key, e);
    }
    return st;
}

static void put_estimate(struct json *j, const char *name, struct perplexity_estimate v) {
    json_open_object(j, name);
    json_put_double(j, "value", v.value);
    json_put_double(j, "error", v.error);
    json_close(j);
}

static void print_json(const struct perplexity *p) {
    const struct perplexity_figures *f = &p->figures;
    struct json j;
    json_to_file(&j, stdout, true);
    json_open_object(&j, NULL);
    json_put_string(&j, "plan", p->info.plan_hash);
    json_put_string(&j, "model", p->info.model_name);
    json_put_u64(&j, "model_bytes", p->info.model_bytes);
    json_put_u64(&j, "tokens", p->n_ids);
    json_put_u64(&j, "window", p->run.window);
    json_put_bool(&j, "bos", p->run.bos != PERPLEXITY_NO_BOS);
    json_put_u64(&j, "windows", p->run.n_windows);
    json_put_u64(&j, "windows_done", f->windows);
    json_put_u64(&j, "scored", f->scored);
    if (f->scored > 0)
        put_estimate(&j, "perplexity", f->perplexity);
    if (f->scored > 0 && p->run.base != NULL) {
        json_open_object(&j, "base");
        put_estimate(&j, "perplexity", f->base);
        put_estimate(&j, "ratio", f->ratio);
        json_put_double(&j, "correlation", f->correlation);
        json_open_object(&j, "kl");
        json_put_double(&j, "mean", f->kl.value);
        json_put_double(&j, "error", f->kl.error);
        json_put_double(&j, "median", f->kl_median);
        json_put_double(&j, "p99", f->kl_99);
        json_put_double(&j, "largest", f->kl_largest);
        json_close(&j);
        put_estimate(&j, "same_top", f->same_top);
        json_put_double(&j, "rms_change", f->rms_change);
        json_close(&j);
    }
    json_close(&j);
    json_end(&j); /* out_finish checks that everything was written */
}

static void print_text(const struct perplexity *p) {
    const struct perplexity_figures *f = &p->figures;
    printf("perplexity     %.4f +/- %.4f  (%" PRIu64 " tokens scored in %" PRIu32 " window%s of %" PRIu32
           ")\n",
           f->perplexity.value, f->perplexity.error, f->scored, f->windows, f->windows == 1 ? "" : "s",
           p->run.window);
    if (p->run.base == NULL)
        return;
    printf("base           %.4f +/- %.4f\n", f->base.value, f->base.error);
    printf("ratio          %.5f +/- %.5f  (correlation of the logarithms %.2f %%)\n", f->ratio.value,
           f->ratio.error, 100 * f->correlation);
    printf("KL divergence  %.6f +/- %.6f  (median %.6f, 99 %% %.6f, largest %.6f)\n", f->kl.value,
           f->kl.error, f->kl_median, f->kl_99, f->kl_largest);
    printf("same top token %.2f +/- %.2f %%\n", 100 * f->same_top.value, 100 * f->same_top.error);
    printf("change of p    %.2f %% (rms, of the token that came)\n", 100 * f->rms_change);
}

/* What is known, after the end or a signal. */
static stator_status report(struct perplexity *p, stator_error *e) {
    const struct perplexity_run *r = &p->run;
    perplexity_sum(r->windows, r->n_windows, r->kl, perplexity_rows(r), &p->figures);
    if (r->stopped && r->n_done < r->n_windows && isatty(STDERR_FILENO))
        fputc('\n', stderr);
    if (p->json)
        print_json(p);
    else if (p->figures.scored > 0)
        print_text(p);
    if (!r->stopped || r->n_done == r->n_windows)
        return STATOR_OK;
    if (p->save_path != NULL)
        return error_set(e, STATOR_FAILED,
                         "stopped by a signal after %" PRIu32 " of %" PRIu32
                         " windows; --save-logits %.200s is not written",
                         r->n_done, r->n_windows, p->save_path);
    fprintf(stderr, "stopped by a signal after %" PRIu32 " of %" PRIu32 " windows\n", r->n_done,
            r->n_windows);
    return STATOR_OK;
}

static stator_status run(struct perplexity *p, stator_error *e) {
    struct perplexity_run *r = &p->run;
    stator_status st = prepare(p, e);
    if (st == STATOR_OK)
        st = stator_start(r->engine, e);
    if (st != STATOR_OK)
        return st;
    if (p->save_path != NULL) {
        const struct saved_logits_key key = key_of(p);
        r->save = &p->save;
        st = saved_logits_create(&p->save, p->save_path, &key, e);
    }
    r->progress = isatty(STDERR_FILENO) ? show_progress : NULL;
    r->began_ns = clock_ns();
    if (st == STATOR_OK)
        st = perplexity_run_windows(r, e);
    if (st == STATOR_OK)
        st = report(p, e);
    st = saved_logits_close(&p->save, true, st, e);
    return session_finish(r->engine, NULL, p->report, st, e);
}

static void release(struct perplexity *p) {
    (void)saved_logits_close(&p->base, false, STATOR_OK, NULL);
    session_close(p->run.engine);
    free(p->run.windows);
    free(p->run.kl);
    free(p->ids);
    free(p->text);
}

static bool parse(struct perplexity *p, int argc, char **argv, int *code) {
    const struct options_row rows[] = {
        {.name = "file",
         .letter = 'f',
         .kind = OPTIONS_TEXT,
         .target = &p->text_path,
         .value = "FILE",
         .help = "the text (-: standard input)"},
        {.name = "chunks",
         .kind = OPTIONS_U64,
         .target = &p->chunks,
         .value = "N",
         .min = 1,
         .help = "windows to score at most (all)"},
        {.name = "save-logits",
         .kind = OPTIONS_TEXT,
         .target = &p->save_path,
         .value = "FILE",
         .help = "write the log-probabilities of all scored positions, 2 bytes per token of the vocabulary"},
        {.name = "kl-base",
         .kind = OPTIONS_TEXT,
         .target = &p->base_path,
         .value = "FILE",
         .help =
             "compare with what --save-logits has written for the same text, of another format of weights or "
             "KV cache"},
        OPTIONS_REPORT(&p->report),
        OPTIONS_JSON(&p->json),
        OPTIONS_SET(&p->set),
    };
    struct options o = {
        .command = "perplexity",
        .usage = "CONFIG -f FILE [--save-logits FILE] [--kl-base FILE]",
        .summary =
            "Perplexity of a text, with its standard error. The text is cut into windows of memory.context "
            "tokens (512 where the config does not say), of which the second half is scored, as "
            "llama-perplexity does. memory.sequences windows are computed at a time.\nCtrl-C prints what is "
            "known.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof rows[0]};
    return options_parse_one(&o, argc, argv, &p->config, code);
}

int perplexity_command(int argc, char **argv) {
    struct perplexity p = {.info = {.size = sizeof p.info}};
    int code = 0;
    if (!parse(&p, argc, argv, &code))
        return code;
    if (p.text_path == NULL)
        return out_fail("perplexity", STATOR_USAGE, "-f FILE is missing: the text to predict");
    stator_error e;
    stator_status st = run(&p, &e);
    release(&p);
    return out_end("perplexity", st, &e);
}
