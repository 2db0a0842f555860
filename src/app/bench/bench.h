/* What the files of `stator bench` share: tests, their results, the limits of the machine. Uses only stator.h
 * and base. */
#ifndef STATOR_APP_BENCH_H
#define STATOR_APP_BENCH_H

#include "stator.h"

#include <stdbool.h>
#include <stdio.h>

#define BENCH_LIST  16   /* values of -p, -n, -d and --parallel */
#define BENCH_LAPS  1000 /* repetitions at most */
#define BENCH_LABEL 64

/* What this machine can do, measured beside the tests. */
struct bench_limits {
    double read_rate; /* bytes per second from memory, all threads */
    double int8_rate; /* multiply-adds per second of the best int8 instruction, all threads; 0: none known
                         here */
    const char *int8_name;
};

struct bench_test {
    bool generation; /* tokens one after the other; else a prompt in batches */
    uint32_t n;      /* tokens that are timed, of each sequence */
    uint32_t depth;  /* tokens of context before them */
    uint32_t sequences;
    uint32_t guesses; /* of a step, at most (--speculate); 0: none */
    double accept;    /* of them, how many are right */
};

struct bench_result {
    struct bench_test test;
    uint32_t n_rates;
    double rates[BENCH_LAPS];   /* tokens per second, all sequences together */
    double fill_rate;           /* of the context before them; 0: none, or several sequences */
    uint64_t n_guessed, n_kept; /* in all laps */
    struct bench_limits limits; /* zero without --roofline */
};

/* "pp512", "tg128 @ d4096", "tg128 x8" into out; returns out. */
const char *bench_label(const struct bench_test *t, char out[BENCH_LABEL]);
/* The model makes embeddings or scores: only prompts at depth 0 can be measured. */
bool bench_embeds(const stator_info *info);
/* Of a sequence with draft tokens. */
double bench_tokens_per_turn(const struct bench_result *r);
/* Tokens that one sequence's context must hold. batch: of a step. */
uint64_t bench_context(const struct bench_test *t, uint32_t batch);

/* bench_run.c: measures one test, `laps` times, filling *r. off: without draft tokens where the test has
 * none, whatever the config says. *stopped: a signal ended it; what was complete is in *r. */
stator_status bench_run(stator *s, const struct bench_test *t, uint32_t laps, struct bench_result *r,
                        bool off, bool *stopped, stator_error *e);

/* bench_probe.c: the limits with so many threads, over `memory` (bytes, touched before). */
stator_status bench_probe(uint32_t threads, const void *memory, uint64_t bytes, struct bench_limits *out,
                          stator_error *e);

/* bench_table.c: results as they come. */
enum bench_form { BENCH_MD, BENCH_JSON, BENCH_CSV };
struct bench_table;
struct bench_table *bench_table_begin(FILE *out, enum bench_form form, const stator_info *info,
                                      const char *path, bool roofline);
void bench_table_row(struct bench_table *t, const struct bench_result *r);
void bench_table_end(struct bench_table *t); /* frees; NULL is allowed */

#endif
