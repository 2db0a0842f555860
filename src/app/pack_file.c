/* stator pack FILE.csv [--capacity N] [--time-limit S] [--output FILE] [--json]: the packer alone. Memory is
 * sized by the file, then by pack_work_bytes. */
#include "app/commands.h"
#include "app/options/options.h"
#include "app/out.h"
#include "app/session.h"

#include "base/arith.h"
#include "base/clock.h"
#include "base/json_writer.h"
#include "os/pages.h"
#include "pack/pack_csv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_ROWS (1 << 24) /* a few hundred bytes of memory each */

struct job {
    const char *path;
    const char *output;
    uint64_t capacity;
    bool has_capacity;
    double time_limit;
    bool has_time_limit;
    bool as_json;

    char *text;
    size_t text_bytes;
    struct pack_csv_row *rows;
    struct pack_block *blocks;
    uint64_t *spare;
    size_t n;
    struct pack_result result;
    double seconds;
};

static stator_status read_text(struct job *job, stator_error *e) {
    const char *path = job->path;
    if (strcmp(path, "-") == 0)
        job->path = "stdin";
    return session_read_file(path, SESSION_TEXT_LIMIT, &job->text, &job->text_bytes, e);
}

static stator_status check_ids(const struct job *job, stator_error *e) {
    const struct pack_csv_row **sorted = calloc(job->n + 1, sizeof *sorted);
    if (sorted == NULL)
        return error_set(e, STATOR_DOES_NOT_FIT, "%s: no memory for %zu blocks", job->path, job->n);
    stator_status s = pack_csv_check_ids(job->rows, job->n, job->path, sorted, e);
    free((void *)sorted);
    return s;
}

static stator_status read_blocks(struct job *job, stator_error *e) {
    stator_status s = read_text(job, e);
    if (s != STATOR_OK)
        return s;
    size_t most = pack_csv_most_rows(job->text, job->text_bytes);
    if (most > MOST_ROWS)
        return error_set(e, STATOR_USAGE, "%s has %zu lines, expected at most %d", job->path, most,
                         MOST_ROWS);
    job->rows = calloc(most, sizeof *job->rows);
    job->blocks = calloc(most, sizeof *job->blocks);
    job->spare = calloc(most, 2 * sizeof *job->spare);
    if (job->rows == NULL || job->blocks == NULL || job->spare == NULL)
        return error_set(e, STATOR_DOES_NOT_FIT, "%s: no memory for %zu blocks", job->path, most);
    s = pack_csv_parse(job->text, job->text_bytes, job->path, job->rows, &job->n, e);
    if (s == STATOR_OK)
        s = check_ids(job, e);
    if (s == STATOR_OK)
        pack_csv_blocks(job->rows, job->n, job->blocks, job->spare);
    return s;
}

/* A wrong path is reported before the search, not after it. */
static stator_status check_output(const struct job *job, stator_error *e) {
    if (job->output == NULL || strcmp(job->output, "-") == 0)
        return STATOR_OK;
    struct stat st;
    const bool there = lstat(job->output, &st) == 0;
    FILE *f = fopen(job->output, "ae");
    if (f == NULL)
        return error_set(e, errno == ENAMETOOLONG ? STATOR_USAGE : STATOR_FAILED,
                         "--output %s can't be written: %s", job->output, strerror(errno));
    fclose(f);
    if (!there) /* it is created once there is something in it */
        (void)unlink(job->output);
    return STATOR_OK;
}

static stator_status solve(struct job *job, stator_error *e) {
    void *work = NULL;
    uint64_t bytes = pack_work_bytes(job->n);
    stator_status s = pages_map(bytes, "packing", &work, e);
    if (s != STATOR_OK)
        return s;
    uint64_t start = clock_ns();
    struct pack_options o = {
        .capacity = job->capacity, .steps = PACK_INTERACTIVE_STEPS, .stop = session_note_signals()};
    if (job->has_time_limit) {
        o.steps = UINT64_MAX;
        o.deadline = start + (uint64_t)(job->time_limit * 1e9);
    }
    s = pack_solve_with(job->blocks, job->n, &o, work, bytes, &job->result, e);
    job->seconds = (double)(clock_ns() - start) / 1e9;
    pages_unmap(work, bytes);
    return s;
}

static void write_csv(const struct job *job, FILE *f) {
    fputs("id,lower,upper,size,offset\n", f);
    for (size_t i = 0; i < job->n; i++) {
        const struct pack_csv_row *r = &job->rows[i];
        fwrite(r->id, 1, r->id_length, f);
        fprintf(f, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n", r->lower, r->upper, r->size,
                job->blocks[i].offset);
    }
}

static void write_json(const struct job *job) {
    const struct pack_result *r = &job->result;
    struct json j;
    json_to_file(&j, stdout, true);
    json_open_object(&j, NULL);
    json_put_u64(&j, "blocks", job->n);
    json_put_u64(&j, "peak", r->peak);
    json_put_u64(&j, "lower_bound", r->lower_bound);
    json_put_u64(&j, "proven", r->proven);
    json_put_bool(&j, "optimal", r->optimal);
    json_put_bool(&j, "finished", r->finished);
    if (job->has_capacity)
        json_put_u64(&j, "capacity", job->capacity);
    json_put_bool(&j, "fits", !job->has_capacity || r->peak <= job->capacity);
    json_put_double(&j, "seconds", job->seconds);
    json_open_array(&j, "offsets");
    for (size_t i = 0; i < job->n; i++) {
        json_open_object(&j, NULL);
        json_put_string_n(&j, "id", job->rows[i].id, job->rows[i].id_length);
        json_put_u64(&j, "offset", job->blocks[i].offset);
        json_close(&j);
    }
    json_close(&j);
    json_close(&j);
    json_end(&j); /* out_finish looks whether all was written */
}

static stator_status write_result(const struct job *job, stator_error *e) {
    if (job->as_json)
        write_json(job);
    if (job->output == NULL && job->as_json)
        return STATOR_OK;
    const char *path = job->output != NULL ? job->output : "-";
    FILE *f = out_open("--output", path, e);
    if (f == NULL)
        return e->code;
    write_csv(job, f);
    return out_close(f, "--output", path, STATOR_OK, e);
}

/* The line on stderr, and the verdict on the capacity. */
static stator_status report(const struct job *job, stator_error *e) {
    const struct pack_result *r = &job->result;
    double above = r->lower_bound > 0 ? ((double)r->peak / (double)r->lower_bound - 1) * 100 : 0;
    fprintf(stderr, "%zu blocks: peak %" PRIu64 ", lower bound %" PRIu64, job->n, r->peak, r->lower_bound);
    if (r->optimal)
        fputs(r->peak == r->lower_bound ? ", optimal" : ", optimal (proven by search)", stderr);
    else
        fprintf(stderr, " (+%.2f%%), not shown to be optimal%s", above,
                r->finished ? " (enough for the capacity)" : "");
    fprintf(stderr, ", %.3f s%s\n", job->seconds, session_signal() != 0 && !r->finished ? " (stopped)" : "");
    if (!job->has_capacity || r->peak <= job->capacity)
        return STATOR_OK;
    uint64_t over = r->peak - job->capacity;
    if (r->proven > job->capacity)
        return error_set(e, STATOR_DOES_NOT_FIT,
                         "the peak exceeds the capacity of %" PRIu64 " by %" PRIu64
                         "; no packing needs less than %" PRIu64,
                         job->capacity, over, r->proven);
    return error_set(e, STATOR_DOES_NOT_FIT,
                     "the peak exceeds the capacity of %" PRIu64 " by %" PRIu64
                     "; %s may find a better packing",
                     job->capacity, over, job->has_time_limit ? "a longer --time-limit" : "--time-limit 60");
}

int pack_command(int argc, char **argv) {
    struct job job = {.n = 0};
    const struct options_row rows[] = {
        {.name = "capacity",
         .kind = OPTIONS_SIZE,
         .target = &job.capacity,
         .value = "N",
         .given = &job.has_capacity,
         .help = "bytes available: stop at a packing that needs no more; exit 3 if none was found"},
        {.name = "time-limit",
         .kind = OPTIONS_NUMBER,
         .target = &job.time_limit,
         .value = "S",
         .number_min = 0,
         .number_max = 1e6,
         .given = &job.has_time_limit,
         .help =
             "search at most this many seconds (default: a fixed number of steps, independent of any clock)"},
        {.name = "output",
         .kind = OPTIONS_TEXT,
         .target = &job.output,
         .value = "FILE",
         .help = "write there instead of to stdout"},
        OPTIONS_JSON(&job.as_json)};
    struct options o = {.command = "pack",
                        .usage = "FILE.csv",
                        .summary = "Packs the blocks of a file with columns id, lower, upper, size (\"-\" is "
                                   "stdin), each alive in [lower, upper), into as few bytes as possible, and "
                                   "prints them with a column offset.",
                        .rows = rows,
                        .n_rows = sizeof rows / sizeof rows[0]};
    int code = 0;
    const char *argument = NULL;
    if (!options_parse_one(&o, argc, argv, &argument, &code))
        return code;
    if (job.as_json && job.output != NULL && strcmp(job.output, "-") == 0)
        return out_fail("pack", STATOR_USAGE,
                        "--json and --output - print to standard output: give one of them");
    job.path = argument;
    stator_error e = {0};
    stator_status s = read_blocks(&job, &e);
    if (s == STATOR_OK)
        s = check_output(&job, &e);
    if (s == STATOR_OK)
        s = solve(&job, &e);
    if (s == STATOR_OK)
        s = write_result(&job, &e);
    if (s == STATOR_OK)
        s = report(&job, &e);
    free(job.text);
    free(job.rows);
    free(job.blocks);
    free(job.spare);
    int code_at_end = out_end("pack", s, &e);
    bool stopped = session_signal() != 0 && code_at_end == 0 && !job.result.finished;
    return stopped ? 128 + session_signal() : code_at_end;
}
