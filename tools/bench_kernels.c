/* Speed of the products, of attention and of repacking in every tier that this machine has: bytes of weights
 * (or of cache) and multiply-adds per second, beside the machine's limits; weights and the KV cache are read
 * from memory, as in a step. And the time of every op in the table of op cases (src/app/selftest/op_cases.h),
 * on the CPU in every tier or on another device.
 *
 * usage: bench_kernels [--tier NAME] [--device NAME] [--kernel PART] [--tokens N,..] [--threads N] [--seconds
 * S]
 *                      [--megabytes M] [--ratios ROUNDS]
 * --device times the ops on it, and nothing else. --kernel takes rows whose name has this part ("q4",
 * "attention", "op ").
 * --ratios measures only products: each block format and Q8_0 in turn, so many times, and prints "TIER FORMAT
 * TOKENS RATIO", the median of their multiply-adds per second of processor time over Q8_0's
 * (tools/bench_formats compares these with stored ones). */
#include "app/bench/bench.h"
#include "app/selftest/op_run.h"
#include "base/arith.h"
#include "base/clock.h"
#include "os/pages.h"
#include "kernels/kernels.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define COLS        2048
#define PANELS      16 /* of a call, as the CPU device makes them */
#define MAX_TOKENS  512
#define MAX_THREADS 64
#define HEAD        64
#define GROUP       4
#define HALF_SCALE  0x2400 /* 2^-6 as f16 */
#define BYTE_SCALE  121    /* and as the exponent of an MXFP4 block */
#define MAX_ROUNDS  99

struct settings {
    const char *tier, *device, *kernel;
    uint32_t tokens[16], n_tokens;
    uint32_t threads;
    uint32_t ratios; /* rounds; 0: rates, not ratios */
    double seconds;
    uint64_t bytes; /* that are streamed */
    uint8_t *memory;
    struct bench_limits limits, least, most;
};

/* What one kernel works on; shared by all threads, which have a part of `memory` and rows of their own. */
struct job {
    const struct settings *set;
    const struct kernels *k;
    pthread_barrier_t *barrier;
    char name[48];
    void (*call)(struct job *j, uint32_t turn);
    uint32_t batch;  /* calls between looks at the clock */
    double bytes;    /* per call */
    double macs;     /* per call; 0: not counted */
    uint32_t tokens; /* 0: none */
    uint32_t type;
    uint32_t context;
    struct panel_layout layout;
    uint8_t *memory; /* of this thread */
    uint64_t memory_bytes;
    struct kernels_act act;
    float *in, *out, *work;
    uint8_t *matmul_work;
    uint32_t *blocks;
    uint64_t calls;
    double elapsed;
};

static void *take(size_t bytes) {
    void *p = aligned_alloc(64, arith_round_up(bytes, 64));
    if (p == NULL) {
        fprintf(stderr, "bench_kernels: no memory\n");
        exit(1);
    }
    memset(p, 0, bytes);
    return p;
}

static uint32_t random_bits(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 32);
}

static float random_value(uint64_t *state) {
    return (float)(int32_t)random_bits(state) * 0x1p-32f;
}

/* --- what is called */

static void call_matmul(struct job *j, uint32_t turn) {
    uint64_t calls = j->memory_bytes / ((uint64_t)PANELS * j->layout.panel_bytes);
    struct kernels_matmul m = {.out = j->out,
                               .out_panel = (size_t)MAX_TOKENS * PANEL_ROWS + 16,
                               .l = &j->layout,
                               .panels = j->memory + turn % calls * PANELS * j->layout.panel_bytes,
                               .n_panels = PANELS,
                               .a = &j->act,
                               .tokens = j->tokens,
                               .work = j->matmul_work};
    j->k->matmul[j->type](&m);
}

/* Rows of the file, read from the place of the weights, into one panel. */
static void call_pack(struct job *j, uint32_t turn) {
    uint64_t rows = (uint64_t)j->bytes;
    panel_pack(&j->layout, j->memory + turn % (j->memory_bytes / rows) * rows, PANEL_ROWS, j->out);
}

static void call_attention(struct job *j, uint32_t turn) {
    uint64_t half = kernels_kv_bytes((enum kernels_kv)j->type, HEAD);
    uint64_t head = 2 * half * (j->context / KERNELS_KV_BLOCK);
    const uint8_t *base = j->memory + turn % (j->memory_bytes / head) * head;
    struct kernels_attention a = {.q = j->in,
                                  .out = j->out,
                                  .q_stride = GROUP * HEAD,
                                  .out_stride = GROUP * HEAD,
                                  .n_queries = j->tokens,
                                  .first_position = j->context - j->tokens,
                                  .group = GROUP,
                                  .head_dim_k = HEAD,
                                  .head_dim_v = HEAD,
                                  .scale = 0.125f,
                                  .type_k = (enum kernels_kv)j->type,
                                  .type_v = (enum kernels_kv)j->type,
                                  .k = base,
                                  .v = base + half,
                                  .block_stride = 2 * half,
                                  .blocks = j->blocks,
                                  .work = j->work};
    j->k->attention(&a);
}

/* --- data */

/* Random scales and minima would be no numbers, or subnormal ones, which processors are slow with. */
static void set_scales(const struct panel_layout *l, uint8_t *panel) {
    uint64_t state = 4;
    if (l->type == BLOCK_MXFP4)
        memset(panel + l->d, BYTE_SCALE, l->panel_bytes - l->d);
    else
        for (uint32_t at = l->d; at + 2 <= l->panel_bytes; at += 2)
            memcpy(panel + at, &(uint16_t){HALF_SCALE}, 2);
    if (l->type == BLOCK_F16) /* NVFP4's were multiplied with its random scales already */
        for (uint32_t at = 0; at + 2 <= l->d; at += 2) {
            const uint16_t half = block_to_f16(random_value(&state));
            memcpy(panel + at, &half, 2);
        }
}

/* One panel of random weights of a sane size, as often as memory holds it. */
static void fill_panels(struct job *j) {
    uint64_t state = 1;
    uint64_t row = 0;
    if (!block_row_bytes(j->type, COLS, &row))
        exit(1);
    uint8_t *rows = take(row * PANEL_ROWS);
    for (uint64_t i = 0; i < row * PANEL_ROWS; i++)
        rows[i] = (uint8_t)random_bits(&state);
    for (uint32_t i = 0; i < COLS * PANEL_ROWS; i++) {
        float v = random_value(&state);
        uint16_t half = block_to_f16(v);
        if (j->type == BLOCK_F32)
            memcpy(rows + 4 * i, &v, 4);
        if (j->type == BLOCK_F16)
            memcpy(rows + 2 * i, &half, 2);
        if (j->type == BLOCK_BF16)
            memcpy(rows + 2 * i, (uint8_t *)&v + 2, 2);
    }
    panel_pack(&j->layout, rows, PANEL_ROWS, j->memory);
    set_scales(&j->layout, j->memory);
    uint64_t panels = j->memory_bytes / j->layout.panel_bytes;
    for (uint64_t i = 1; i < panels; i++)
        memcpy(j->memory + i * j->layout.panel_bytes, j->memory, j->layout.panel_bytes);
    free(rows);
}

static void fill_cache(struct job *j) {
    uint64_t state = 2;
    if (j->type == KERNELS_KV_Q8_0 || j->type == KERNELS_KV_Q4_0) {
        for (uint64_t at = 0; at + 1 < j->memory_bytes; at += 2) /* any bytes, scales among them */
            memcpy(j->memory + at, &(uint16_t){HALF_SCALE ^ (random_bits(&state) & 0x83FF)}, 2);
        return;
    }
    uint64_t element = j->type == KERNELS_KV_F16 ? 2 : 4;
    for (uint64_t at = 0; at + element <= j->memory_bytes; at += element) {
        float v = random_value(&state);
        uint16_t half = block_to_f16(v);
        memcpy(j->memory + at, element == 2 ? (const void *)&half : &v, element);
    }
}

static void make_rows(struct job *j) {
    uint64_t state = 3;
    size_t n = (size_t)MAX_TOKENS * COLS;
    j->in = take(n * sizeof(float));
    j->out = take(n * sizeof(float));
    j->work = take((kernels_attention_work(MAX_TOKENS, GROUP, HEAD, HEAD) + 16) * sizeof(float));
    j->matmul_work = take(kernels_matmul_work(MAX_TOKENS));
    j->blocks = take((size_t)4096 * sizeof *j->blocks);
    for (uint32_t i = 0; i < 4096; i++)
        j->blocks[i] = i;
    for (size_t i = 0; i < n; i++)
        j->in[i] = random_value(&state);
    struct kernels_act *a = &j->act;
    *a = (struct kernels_act){.f32 = j->in,
                              .q32 = take(n),
                              .d32 = take(n / 32 * sizeof(float)),
                              .s32 = take(n / 32 * sizeof(int16_t)),
                              .q256 = take(n),
                              .d256 = take(n / 256 * sizeof(float)),
                              .s256 = take(n / 16 * sizeof(int16_t)),
                              .tile_rows = MAX_TOKENS};
    _Alignas(64) int8_t q[COLS];
    for (size_t t = 0; t < MAX_TOKENS; t++) {
        j->k->quantise32(j->in + t * COLS, COLS, q, a->d32 + t * (COLS / 32), a->s32 + t * (COLS / 32));
        act_tiles_put(a->q32, q, MAX_TOKENS, ACT_TILE_32, COLS, t, 0, COLS);
        j->k->quantise256(j->in + t * COLS, COLS, q, a->d256 + t * (COLS / 256), a->s256 + t * (COLS / 16));
        act_tiles_put(a->q256, q, MAX_TOKENS, ACT_TILE_256, COLS, t, 0, COLS);
    }
}

static void free_rows(struct job *j) {
    void *all[] = {j->in,      j->out,     j->work,     j->matmul_work, j->blocks,  j->act.q32,
                   j->act.d32, j->act.s32, j->act.q256, j->act.d256,    j->act.s256};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

/* --- measuring */

/* The machine's speed moves while this runs, so its limits are measured beside every group of rows. */
static void probe(struct settings *s) {
    stator_error e;
    if (bench_probe(s->threads, s->memory, s->bytes, &s->limits, &e) != STATOR_OK) {
        fprintf(stderr, "bench_kernels: %s\n", e.text);
        exit(1);
    }
    bool first = s->most.read_rate == 0;
    s->least.read_rate = first ? s->limits.read_rate : ARITH_MIN(s->least.read_rate, s->limits.read_rate);
    s->least.int8_rate = first ? s->limits.int8_rate : ARITH_MIN(s->least.int8_rate, s->limits.int8_rate);
    s->most.read_rate = ARITH_MAX(s->most.read_rate, s->limits.read_rate);
    s->most.int8_rate = ARITH_MAX(s->most.int8_rate, s->limits.int8_rate);
}

/* For ratios the thread's own time, so that other programs on the machine disturb less. */
static uint64_t now_ns(const struct job *j) {
    struct timespec t;
    if (j->set->ratios == 0)
        return clock_ns();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *thread_main(void *context) {
    struct job *j = context;
    j->call(j, 0);
    pthread_barrier_wait(j->barrier);
    uint64_t begin = now_ns(j);
    uint64_t limit = (uint64_t)(j->set->seconds * 1e9);
    uint64_t passed = 0;
    uint32_t turn = 0;
    while (passed < limit) {
        for (uint32_t i = 0; i < j->batch; i++)
            j->call(j, turn++);
        passed = now_ns(j) - begin;
    }
    j->calls = turn;
    j->elapsed = (double)passed * 1e-9;
    return NULL;
}

/* Per second, of all threads. */
struct rates {
    double bytes, macs;
};

static struct rates measure(struct settings *s, struct job *jobs) {
    pthread_t threads[MAX_THREADS];
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, s->threads);
    for (uint32_t i = 0; i < s->threads; i++) {
        jobs[i].barrier = &barrier;
        if (pthread_create(&threads[i], NULL, thread_main, &jobs[i]) != 0) {
            fprintf(stderr, "bench_kernels: a thread can't be started\n");
            exit(1);
        }
    }
    struct rates r = {0, 0};
    for (uint32_t i = 0; i < s->threads; i++) {
        pthread_join(threads[i], NULL);
        r.bytes += jobs[i].bytes * (double)jobs[i].calls / jobs[i].elapsed;
        r.macs += jobs[i].macs * (double)jobs[i].calls / jobs[i].elapsed;
    }
    pthread_barrier_destroy(&barrier);
    return r;
}

static void run(struct settings *s, struct job *jobs) {
    if (s->kernel != NULL && strstr(jobs[0].name, s->kernel) == NULL)
        return;
    const struct rates r = measure(s, jobs);
    const double bytes = r.bytes, macs = r.macs;
    const struct job *j = &jobs[0];
    bool streams = j->call == call_matmul || j->call == call_attention;
    bool floats =
        j->call == call_attention || j->type == BLOCK_F32 || j->type == BLOCK_F16 || j->type == BLOCK_BF16;
    printf("| %-7s | %-20s | ", j->k->tier, j->name);
    printf(j->tokens > 0 ? "%6u | " : "       | ", j->tokens);
    printf("%8.2f | ", bytes * 1e-9);
    printf(streams ? "%6.1f%% | " : "        | ", 100 * bytes / s->limits.read_rate);
    printf(macs > 0 ? "%9.2f | " : "          | ", macs * 1e-9);
    printf(macs > 0 && !floats && s->limits.int8_rate > 0 ? "%6.1f%% |\n" : "        |\n",
           100 * macs / s->limits.int8_rate);
    fflush(stdout);
}

static void set_all(struct settings *s, struct job *jobs, const struct job *model) {
    for (uint32_t i = 0; i < s->threads; i++) {
        struct job *j = &jobs[i];
        memcpy(j->name, model->name, sizeof j->name);
        j->call = model->call;
        j->batch = model->batch;
        j->bytes = model->bytes;
        j->macs = model->macs;
        j->tokens = model->tokens;
        j->type = model->type;
        j->context = model->context;
        j->layout = model->layout;
    }
}

static bool wanted(const struct settings *s, const char *name) {
    return s->kernel == NULL || strstr(name, s->kernel) != NULL;
}

/* Fills the jobs' weights with this type. False: the tier has no such product, or --kernel leaves it out. */
static bool begin_matmul(struct settings *s, struct job *jobs, const struct kernels *k, uint32_t type,
                         struct job *m) {
    const struct block_info *b = block_info(type);
    *m = (struct job){.call = call_matmul, .batch = 1, .type = type};
    if (b == NULL || !b->computable || k->matmul[type] == NULL ||
        !panel_layout_init(&m->layout, type, PANEL_ROWS, COLS))
        return false;
    snprintf(m->name, sizeof m->name, "matmul %s", b->name);
    set_all(s, jobs, m);
    for (uint32_t i = 0; i < s->threads && wanted(s, m->name); i++)
        fill_panels(&jobs[i]);
    return wanted(s, m->name);
}

static void set_tokens(struct settings *s, struct job *jobs, struct job *m, uint32_t tokens) {
    m->tokens = tokens;
    m->bytes = (double)PANELS * m->layout.panel_bytes;
    m->macs = (double)PANELS * PANEL_ROWS * COLS * tokens;
    set_all(s, jobs, m);
}

static void run_matmuls(struct settings *s, struct job *jobs, const struct kernels *k) {
    for (uint32_t type = 0; type < BLOCK_TYPES; type++) {
        struct job m;
        if (!begin_matmul(s, jobs, k, type, &m))
            continue;
        probe(s);
        for (uint32_t i = 0; i < s->n_tokens; i++) {
            set_tokens(s, jobs, &m, s->tokens[i]);
            run(s, jobs);
        }
    }
}

static int compare_doubles(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* base: as many further jobs, for Q8_0. */
static void run_ratios(struct settings *s, struct job *jobs, struct job *base, const struct kernels *k) {
    struct job b, m;
    const char *kernel = s->kernel;
    s->kernel = NULL;
    (void)begin_matmul(s, base, k, BLOCK_Q8_0, &b);
    s->kernel = kernel;
    for (uint32_t type = 0; type < BLOCK_TYPES; type++) {
        if (type == BLOCK_Q8_0 || !begin_matmul(s, jobs, k, type, &m))
            continue;
        for (uint32_t i = 0; i < s->n_tokens; i++) {
            double ratios[MAX_ROUNDS];
            set_tokens(s, base, &b, s->tokens[i]);
            set_tokens(s, jobs, &m, s->tokens[i]);
            for (uint32_t round = 0; round < s->ratios; round++) {
                const double one = measure(s, base).macs;
                ratios[round] = measure(s, jobs).macs / one;
            }
            qsort(ratios, s->ratios, sizeof ratios[0], compare_doubles);
            printf("%s %s %u %.3f\n", k->tier, block_info(type)->name, m.tokens, ratios[s->ratios / 2]);
            fflush(stdout);
        }
    }
}

/* Repacking at load; GB/s of the file. */
static void run_packs(struct settings *s, struct job *jobs) {
    for (uint32_t type = 0; type < BLOCK_TYPES; type++) {
        const struct block_info *b = block_info(type);
        struct job m = {.call = call_pack, .batch = 4, .type = type};
        uint64_t row = 0;
        if (b == NULL || !b->computable || !panel_layout_init(&m.layout, type, PANEL_ROWS, COLS) ||
            !block_row_bytes(type, COLS, &row))
            continue;
        m.bytes = (double)(row * PANEL_ROWS);
        snprintf(m.name, sizeof m.name, "pack %s", b->name);
        set_all(s, jobs, &m);
        run(s, jobs);
    }
}

static void run_attentions(struct settings *s, struct job *jobs) {
    for (uint32_t type = 0; type < KERNELS_KV_TYPES; type++) {
        const char *name = kernels_kv_name((enum kernels_kv)type);
        bool filled = false;
        for (uint32_t context = 512; context <= 4096; context *= 8) {
            struct job m = {.call = call_attention, .batch = 1, .type = type, .context = context};
            snprintf(m.name, sizeof m.name, "attention %s %u", name, context);
            if (!wanted(s, m.name))
                continue;
            set_all(s, jobs, &m);
            for (uint32_t i = 0; i < s->threads && !filled; i++)
                fill_cache(&jobs[i]);
            filled = true;
            probe(s);
            for (uint32_t i = 0; i < s->n_tokens; i++) {
                m.tokens = ARITH_MIN(s->tokens[i], (uint32_t)64); /* a step cuts its queries too */
                if (i > 0 && s->tokens[i - 1] >= 64)
                    continue;
                m.bytes =
                    2.0 * context / KERNELS_KV_BLOCK * (double)kernels_kv_bytes((enum kernels_kv)type, HEAD);
                m.macs = (double)m.tokens * GROUP * 2 * HEAD * (context - (m.tokens - 1) / 2.0);
                set_all(s, jobs, &m);
                run(s, jobs);
            }
        }
    }
}

static bool is_timed(const struct op_case *c) {
    static const struct op_shape none;
    return memcmp(&c->timed, &none, sizeof none) != 0;
}

static void run_ops(const struct settings *s, const struct device_choice *c) {
    for (uint32_t op = 0; op < op_cases_count(); op++) {
        char name[OP_CASES_NAME];
        uint32_t type;
        op_cases_name(op, name);
        if (!is_timed(op_cases_get(op, &type)) || !wanted(s, name))
            continue;
        for (uint32_t i = 0; i < s->n_tokens && s->tokens[i] <= OP_CASES_BATCH; i++) {
            struct op_run_time r;
            stator_error e;
            if (op_run_time(op, c, s->tokens[i], s->seconds, &r, &e) != STATOR_OK) {
                fprintf(stderr, "bench_kernels: %s on %s: %s\n", name, c->facts.name, e.text);
                exit(1);
            }
            const double ns = (double)r.ns;
            printf("| %-10s | %-28s | %6u | %10.1f | %8.2f | %9.2f |\n", c->tier, name, s->tokens[i],
                   ns * 1e-3, (double)r.bytes / ns, (double)r.macs / ns);
            fflush(stdout);
        }
    }
}

/* Ops are in a table of their own: their rows have times. */
static void run_all_ops(const struct settings *s) {
    struct device_choice c;
    stator_error e;
    printf("\n| kernels    | op                           | tokens |         us |     GB/s |    GMAC/s |\n");
    printf("| ---------- | ---------------------------- | -----: | ---------: | -------: | --------: |\n");
    if (s->device != NULL) {
        const struct device_options o = {.threads = s->threads, .tier = "auto", .cpu_devices = 1};
        uint32_t n = 0;
        if (device_choose(s->device, &o, &c, 1, &n, &e) != STATOR_OK) {
            fprintf(stderr, "bench_kernels: %s\n", e.text);
            exit(1);
        }
        run_ops(s, &c);
        return;
    }
    for (int t = 0; t <= (int)kernels_best_tier(); t++) {
        const char *tier = kernels_tier_name((enum kernels_tier)t);
        if ((s->tier == NULL || strcmp(s->tier, tier) == 0) &&
            op_run_cpu(tier, s->threads, &c, &e) == STATOR_OK)
            run_ops(s, &c);
    }
}

/* Two sets of jobs for ratios, which share the memory. */
static void run_tier(struct settings *s, enum kernels_tier tier) {
    struct kernels k = {.tier = NULL};
    const uint32_t n = s->ratios > 0 ? 2 * s->threads : s->threads;
    struct job *jobs = calloc(n, sizeof *jobs);
    if (jobs == NULL)
        exit(1);
    kernels_init(&k, tier);
    for (uint32_t i = 0; i < n; i++) {
        jobs[i].set = s;
        jobs[i].k = &k;
        jobs[i].memory_bytes = s->bytes / n / 4096 * 4096;
        jobs[i].memory = s->memory + i * jobs[i].memory_bytes;
        make_rows(&jobs[i]);
    }
    if (s->ratios > 0) {
        run_ratios(s, jobs, jobs + s->threads, &k);
    } else {
        run_matmuls(s, jobs, &k);
        run_attentions(s, jobs);
        if (tier == KERNELS_TIER_SCALAR) /* all tiers load alike */
            run_packs(s, jobs);
    }
    for (uint32_t i = 0; i < n; i++)
        free_rows(&jobs[i]);
    free(jobs);
}

static int usage(void) {
    fprintf(
        stderr,
        "usage: bench_kernels [--tier NAME] [--device NAME] [--kernel PART] [--tokens N,..] [--threads N] "
        "[--seconds S] [--megabytes M] [--ratios ROUNDS]\n");
    return 2;
}

static bool take_tokens(struct settings *s, const char *text) {
    s->n_tokens = 0;
    for (const char *at = text; s->n_tokens < 16;) {
        char *end = NULL;
        unsigned long v = strtoul(at, &end, 10);
        if (end == at || v < 1 || v > MAX_TOKENS)
            return false;
        s->tokens[s->n_tokens++] = (uint32_t)v;
        if (*end == '\0')
            return true;
        at = end + 1;
    }
    return false;
}

static bool take_options(struct settings *s, int argc, char **argv) {
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *value = argv[i + 1];
        if (strcmp(argv[i], "--tier") == 0)
            s->tier = value;
        else if (strcmp(argv[i], "--device") == 0)
            s->device = value;
        else if (strcmp(argv[i], "--kernel") == 0)
            s->kernel = value;
        else if (strcmp(argv[i], "--tokens") == 0 && take_tokens(s, value))
            continue;
        else if (strcmp(argv[i], "--threads") == 0 && atoi(value) > 0 && atoi(value) <= MAX_THREADS)
            s->threads = (uint32_t)atoi(value);
        else if (strcmp(argv[i], "--ratios") == 0 && atoi(value) > 0 && atoi(value) <= MAX_ROUNDS)
            s->ratios = (uint32_t)atoi(value);
        else if (strcmp(argv[i], "--seconds") == 0 && atof(value) > 0)
            s->seconds = atof(value);
        else if (strcmp(argv[i], "--megabytes") == 0 && atoi(value) >= 16)
            s->bytes = (uint64_t)atoi(value) << 20;
        else
            return false;
    }
    return argc % 2 == 1;
}

int main(int argc, char **argv) {
    struct settings s = {.tokens = {1, 4, 16, 64, 512}, .n_tokens = 5, .seconds = 0.1, .bytes = 256u << 20};
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    s.threads = (uint32_t)ARITH_MIN(processors > 0 ? processors : 1, (long)MAX_THREADS);
    if (!take_options(&s, argc, argv))
        return usage();
    if (s.device != NULL) {
        run_all_ops(&s);
        return 0;
    }
    /* Every thread has the panels of one call at least, of the widest type. */
    s.bytes = ARITH_MAX(s.bytes, (uint64_t)s.threads * 2 * PANELS * PANEL_ROWS * COLS * sizeof(float));
    void *memory = NULL;
    stator_error e;
    if (pages_map(s.bytes, "the weights", &memory, &e) != STATOR_OK) {
        fprintf(stderr, "bench_kernels: %s\n", e.text);
        return 1;
    }
    (void)madvise(memory, s.bytes, MADV_HUGEPAGE);
    memset(memory, 1, s.bytes);
    s.memory = memory;
    if (s.ratios == 0) {
        printf("| tier    | kernel               | tokens |     GB/s | of read |    GMAC/s | of int8 |\n");
        printf("| ------- | -------------------- | -----: | -------: | ------: | --------: | ------: |\n");
    }
    bool any = false;
    for (int t = 0; t <= (int)kernels_best_tier(); t++) {
        if (s.tier != NULL && strcmp(s.tier, kernels_tier_name((enum kernels_tier)t)) != 0)
            continue;
        any = true;
        run_tier(&s, (enum kernels_tier)t);
    }
    if (s.most.read_rate > 0)
        printf(
            "\n%u threads; limits beside the rows: read %.1f to %.1f GB/s, int8 %.1f to %.1f GMAC/s (%s)\n",
            s.threads, s.least.read_rate * 1e-9, s.most.read_rate * 1e-9, s.least.int8_rate * 1e-9,
            s.most.int8_rate * 1e-9, s.limits.int8_name);
    pages_unmap(memory, s.bytes);
    if (any && s.ratios == 0)
        run_all_ops(&s);
    if (!any)
        fprintf(stderr, "bench_kernels: this machine has no tier \"%s\"\n", s.tier);
    return any ? 0 : 2;
}
