/* How near to the bound the packer comes, and how long that takes: random families of instances, and tight
 * instances made of files. Seconds are given by the clock, which also counts other work of the machine, and
 * as processor time, which does not.
 *
 * usage: bench_pack [--family NAME] [--blocks N,..] [--first-seed N] [--seeds N] [--steps N]
 *        bench_pack --tight [--steps N] FILE.csv.. (capacity 1048576; and random tilings, pinwheels)
 * Every packing is checked. Exit 1: a family ends above 2%, or takes more than five seconds of processor
 * time. */
#include "base/arith.h"
#include "base/clock.h"
#include "pack/pack_csv.h"
#include "pack_instances.h"

#include <inttypes.h>
#include <sys/resource.h>

#define CAPACITY 1048576

struct settings {
    const char *family; /* or "": all */
    size_t blocks[8], n_blocks;
    uint64_t first_seed, seeds, steps;
    bool tight;
};

static double user_seconds(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_utime.tv_sec + (double)u.ru_utime.tv_usec / 1e6;
}

static void *take(uint64_t bytes) {
    void *p = aligned_alloc(64, arith_round_up(ARITH_MAX(bytes, 1u), 64));
    if (p == NULL) {
        fputs("bench_pack: no memory\n", stderr);
        exit(1);
    }
    memset(p, 0, bytes); /* pages now, so that they aren't counted */
    return p;
}

struct seconds {
    double clock;
    double user;
};

static struct seconds solve(struct pack_block *b, size_t n, uint64_t capacity, uint64_t steps,
                            struct pack_result *r) {
    uint64_t bytes = pack_work_bytes(n);
    void *work = take(bytes);
    struct pack_options o = {.capacity = capacity, .steps = steps > 0 ? steps : PACK_INTERACTIVE_STEPS};
    stator_error e = {0};
    const double start = user_seconds();
    const uint64_t start_ns = clock_ns();
    stator_status s = pack_solve_with(b, n, &o, work, bytes, r, &e);
    const struct seconds seconds = {(double)(clock_ns() - start_ns) / 1e9, user_seconds() - start};
    free(work);
    const char *wrong = s != STATOR_OK ? e.text : pack_instances_check(b, n, r->peak);
    if (wrong != NULL) {
        fprintf(stderr, "bench_pack: %s\n", wrong);
        exit(1);
    }
    return seconds;
}

static bool run_family(const struct settings *set, enum pack_family f, size_t n) {
    struct pack_block *b = take(n * sizeof *b);
    double sum = 0, worst = -1;
    const char *by = "";
    struct seconds slowest = {0};
    uint64_t worst_seed = 0, missed = 0;
    for (uint64_t seed = set->first_seed; seed < set->first_seed + set->seeds; seed++) {
        pack_family_fill(f, b, n, seed);
        struct pack_result r;
        const struct seconds t = solve(b, n, 0, set->steps, &r);
        double above = ((double)r.peak / (double)r.lower_bound - 1) * 100;
        sum += above;
        missed += above > 2;
        slowest.clock = ARITH_MAX(slowest.clock, t.clock);
        slowest.user = ARITH_MAX(slowest.user, t.user);
        if (above > worst) {
            worst = above;
            worst_seed = seed;
            by = r.found_by;
        }
    }
    free(b);
    bool ok = missed == 0 && slowest.user < 5;
    printf("%-14s %7zu %8.2f%% %8.2f%% %5" PRIu64 " %3" PRIu64 "/%" PRIu64 " %6.2f s %6.2f s  %s%s\n",
           pack_family_name(f), n, sum / (double)set->seeds, worst, worst_seed, missed, set->seeds,
           slowest.clock, slowest.user, by, ok ? "" : "  <--");
    fflush(stdout);
    return ok;
}

/* --tight: prints how long one instance takes. */
struct tight {
    const struct settings *set;
    unsigned solved, quick, all;
};

static void run_tight(struct tight *t, const char *name, struct pack_block *b, size_t n) {
    struct pack_result r;
    const struct seconds s = solve(b, n, CAPACITY, t->set->steps, &r);
    bool solved = r.peak <= CAPACITY;
    t->all++;
    t->solved += solved;
    t->quick += solved && s.user < 1;
    printf("%-28s %5zu blocks %8.3f s %s\n", name, n, s.user, solved ? r.found_by : "not solved");
    fflush(stdout);
}

static uint32_t last_step(const struct pack_block *b, size_t n) {
    uint32_t last = 0;
    for (size_t i = 0; i < n; i++)
        last = ARITH_MAX(last, b[i].end);
    return last;
}

static void reverse(struct pack_block *b, size_t n) {
    uint32_t last = last_step(b, n);
    for (size_t i = 0; i < n; i++) {
        uint32_t first = b[i].first;
        b[i].first = last - b[i].end;
        b[i].end = last - first;
    }
}

/* Cuts some blocks in two, in time or in size; a packing stays one. */
static size_t split(struct pack_block *b, size_t n, size_t more, bool in_time, uint64_t *rng) {
    for (size_t k = 0, tries = 0; k < more && tries < 100 * more; tries++) {
        size_t i = pack_instances_below(rng, n);
        uint64_t units = in_time ? b[i].end - b[i].first : b[i].bytes / 1024;
        if (units < 2)
            continue;
        uint64_t cut = 1 + pack_instances_below(rng, units - 1);
        b[n] = b[i];
        if (in_time) {
            b[i].end = b[n].first = b[i].first + (uint32_t)cut;
        } else {
            b[i].bytes = cut * 1024;
            b[n].bytes -= b[i].bytes;
            b[n].offset += b[i].bytes;
        }
        n++, k++;
    }
    return n;
}

/* Lets packed blocks grow upwards or later as far as nothing is in the way, a little at a time. */
static void grow(struct pack_block *b, size_t n, size_t times, uint64_t *rng) {
    uint32_t last = last_step(b, n);
    for (size_t k = 0; k < times; k++) {
        size_t i = pack_instances_below(rng, n);
        struct pack_block was = b[i];
        if (pack_instances_below(rng, 2) == 0)
            b[i].bytes += 1024 * (1 + pack_instances_below(rng, 8));
        else
            b[i].end += 1 + (uint32_t)pack_instances_below(rng, last / 100 + 1);
        bool clash = b[i].offset + b[i].bytes > CAPACITY || b[i].end > last;
        for (size_t j = 0; j < n && !clash; j++)
            clash = j != i && b[j].first < b[i].end && b[i].first < b[j].end &&
                    b[j].offset < b[i].offset + b[i].bytes && b[i].offset < b[j].offset + b[j].bytes;
        if (clash)
            b[i] = was;
    }
}

static void run_file(struct tight *t, const char *path) {
    static char text[1 << 20];
    FILE *f = fopen(path, "rb");
    size_t length = f != NULL ? fread(text, 1, sizeof text, f) : 0, n = 0;
    if (f != NULL)
        fclose(f);
    size_t most = pack_csv_most_rows(text, length);
    struct pack_csv_row *rows = take(most * sizeof *rows);
    struct pack_block *b = take(2 * most * sizeof *b), *c = take(2 * most * sizeof *c);
    uint64_t *spare = take(2 * most * sizeof *spare), rng = 7;
    stator_error e = {0};
    if (pack_csv_parse(text, length, path, rows, &n, &e) != STATOR_OK) {
        fprintf(stderr, "bench_pack: %s\n", e.text);
        exit(1);
    }
    pack_csv_blocks(rows, n, b, spare);
    const char *slash = strrchr(path, '/'), *base = slash != NULL ? slash + 1 : path;
    char name[64];
#define NAMED(kind) (snprintf(name, sizeof name, "%.12s " kind, base), name)
    run_tight(t, NAMED("as it is"), b, n); /* and now packed */
    for (int again = 0; again < 2; again++) {
        memcpy(c, b, n * sizeof *b);
        size_t m = split(c, n, n / 5, again == 0, &rng);
        run_tight(t, again == 0 ? NAMED("split in time") : NAMED("split in size"), c, m);
        memcpy(c, b, n * sizeof *b);
        grow(c, n, again == 0 ? 2 * n : 400 * n, &rng);
        run_tight(t, again == 0 ? NAMED("grown") : NAMED("full-grown"), c, n);
        reverse(c, n);
        run_tight(t, again == 0 ? NAMED("grown, reversed") : NAMED("full-grown, reversed"), c, n);
    }
    memcpy(c, b, n * sizeof *b);
    reverse(c, n);
    run_tight(t, NAMED("reversed"), c, n);
    free(rows);
    free(b);
    free(c);
    free(spare);
}

/* Random tilings, whole or with some pieces left out: the files look as if they were such ones. */
static void run_tilings(struct tight *t) {
    static const struct {
        const char *name;
        uint32_t steps;
        unsigned left_out; /* percent */
    } kinds[] = {{"tiling", 1000, 0},
                 {"tiling, 200 steps", 200, 0},
                 {"tiling, 5% left out", 1000, 5},
                 {"tiling, 15% left out", 1000, 15},
                 {"tiling, 30% left out", 1000, 30}};
    static const size_t sizes[] = {120, 180, 250, 330, 400, 450, 500};
    enum { KINDS = sizeof kinds / sizeof kinds[0], SIZES = sizeof sizes / sizeof sizes[0] };
    for (uint64_t seed = 0; seed < t->set->seeds; seed++)
        for (size_t k = 0; k < KINDS * SIZES; k++) {
            size_t n = sizes[k / KINDS];
            uint64_t rng = 100 + k + 1000 * seed;
            struct pack_block *b = take(n * sizeof *b);
            pack_instances_tile(b, n, kinds[k % KINDS].steps, CAPACITY, 1024, &rng);
            n = pack_instances_leave_out(b, n, kinds[k % KINDS].left_out, &rng);
            run_tight(t, kinds[k % KINDS].name, b, n);
            free(b);
        }
}

static void run_even_tilings(struct tight *t) {
    for (uint64_t seed = 0; seed < t->set->seeds; seed++)
        for (size_t n = 350; n <= 600; n += 50) {
            uint64_t rng = n + 1000 * seed;
            struct pack_block *b = take(n * sizeof *b);
            pack_instances_tile_evenly(b, n, CAPACITY / 1024, &rng);
            run_tight(t, "even tiling, 12% left out", b, pack_instances_leave_out(b, n, 12, &rng));
            free(b);
        }
}

/* Random pinwheels, which no cut takes apart, with some slack or some pieces left out. */
static void run_pinwheels(struct tight *t) {
    static const struct {
        const char *name;
        double slack;
        unsigned left_out; /* percent */
    } kinds[] = {{"pinwheels", 0, 0},
                 {"pinwheels, 0.1% slack", 0.001, 0},
                 {"pinwheels, 0.5% slack", 0.005, 0},
                 {"pinwheels, 1% slack", 0.01, 0},
                 {"pinwheels, 5% left out", 0, 5}};
    static const size_t sizes[] = {200, 350};
    enum { KINDS = sizeof kinds / sizeof kinds[0], SIZES = sizeof sizes / sizeof sizes[0] };
    for (uint64_t seed = 0; seed < t->set->seeds; seed++)
        for (size_t k = 0; k < KINDS * SIZES; k++) {
            size_t n = sizes[k / KINDS];
            uint64_t rng = 1 + k + 1000 * seed;
            struct pack_block *b = take(n * sizeof *b);
            pack_instances_pinwheels(b, n, 1024, CAPACITY, 1024, &rng);
            pack_instances_shrink(b, n, kinds[k % KINDS].slack, &rng);
            n = pack_instances_leave_out(b, n, kinds[k % KINDS].left_out, &rng);
            run_tight(t, kinds[k % KINDS].name, b, n);
            free(b);
        }
}

static const char *value(int argc, char **argv, int *i) {
    if (*i + 1 == argc) {
        fprintf(stderr, "bench_pack: %s needs a value\n", argv[*i]);
        exit(2);
    }
    return argv[++*i];
}

int main(int argc, char **argv) {
    struct settings set = {
        .family = "", .blocks = {1000, 10000, 100000}, .n_blocks = 3, .first_seed = 1, .seeds = 1};
    int i = 1;
    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        if (strcmp(argv[i], "--tight") == 0) {
            set.tight = true;
        } else if (strcmp(argv[i], "--family") == 0) {
            set.family = value(argc, argv, &i);
        } else if (strcmp(argv[i], "--first-seed") == 0) {
            set.first_seed = strtoull(value(argc, argv, &i), NULL, 10);
        } else if (strcmp(argv[i], "--seeds") == 0) {
            set.seeds = strtoull(value(argc, argv, &i), NULL, 10);
        } else if (strcmp(argv[i], "--steps") == 0) {
            set.steps = strtoull(value(argc, argv, &i), NULL, 10);
        } else if (strcmp(argv[i], "--blocks") == 0) {
            char *at = (char *)(uintptr_t)value(argc, argv, &i);
            for (set.n_blocks = 0; *at != '\0' && set.n_blocks < 8; at += *at == ',')
                set.blocks[set.n_blocks++] = strtoull(at, &at, 10);
        } else {
            fprintf(stderr, "bench_pack: unknown option %s\n", argv[i]);
            return 2;
        }
    }
    if (set.tight) {
        struct tight t = {.set = &set};
        for (; i < argc; i++)
            run_file(&t, argv[i]);
        run_tilings(&t);
        run_even_tilings(&t);
        run_pinwheels(&t);
        printf("%u of %u solved, %u of them within a second\n", t.solved, t.all, t.quick);
        return 0;
    }
    bool ok = true;
    printf("%-14s %7s %9s %9s %5s %5s %7s %8s\n", "family", "blocks", "mean", "worst", "seed", "above 2%",
           "clock", "user");
    for (size_t k = 0; k < set.n_blocks; k++)
        for (int f = 0; f < PACK_FAMILIES; f++)
            if (set.family[0] == '\0' || strcmp(pack_family_name((enum pack_family)f), set.family) == 0)
                ok = run_family(&set, (enum pack_family)f, set.blocks[k]) && ok;
    return ok ? 0 : 1;
}
