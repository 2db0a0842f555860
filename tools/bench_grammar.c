/* Measures schemas on a real vocabulary, on one thread; tools/bench_grammar builds it and feeds it.
 *
 * Standard input has a line each: "S NAME" TAB SCHEMA, then that schema's instances as "1" TAB TEXT (valid)
 * or "0" TAB TEXT. An instance is tokenized; before each of its tokens the whole mask is computed and timed,
 * and the token must be in it. */
#include "grammar/json_schema.h"
#include "grammar/mask_cache.h"
#include "tokenizer/tokenizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_STEPS 400000 /* of a mask */

struct times {
    uint64_t *ns;
    size_t n, room;
};

struct bench {
    struct gguf *gguf;
    struct tokenizer *tokenizer;
    const struct token_trie *trie;
    struct mask_cache cache; /* as the engine has it: behind the expression */
    uint32_t *places;
    uint64_t *mask;
    int32_t *ids;
    void *work;
    size_t longest_text;
    uint64_t work_bytes, bytes;
    void *memory;
    uint32_t nodes;
    bool free_space, verbose;
    struct regex *r; /* NULL: the schema was refused */
    char name[256];
    uint64_t worst_ns;
    bool failed; /* an instance of this schema got the wrong verdict */
    uint32_t n_schemas, n_refused, n_passed, n_valid, n_valid_refused, n_invalid, n_invalid_accepted,
        n_limits;
    struct times compile, masks;
};

/* Of this thread, so that other work of the machine matters little. */
static uint64_t cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *take(size_t n) {
    void *p = aligned_alloc(64, (n + 63) / 64 * 64 + 64);
    if (p == NULL)
        abort();
    return p;
}

static void add(struct times *t, uint64_t ns) {
    if (t->n == t->room) {
        t->room = t->room * 2 + 1024;
        t->ns = realloc(t->ns, t->room * sizeof *t->ns);
        if (t->ns == NULL)
            abort();
    }
    t->ns[t->n++] = ns;
}

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void print_times(const char *what, struct times *t) {
    double sum = 0;
    if (t->n == 0)
        return;
    qsort(t->ns, t->n, sizeof *t->ns, compare);
    for (size_t i = 0; i < t->n; i++)
        sum += (double)t->ns[i];
    printf("%s: %zu, mean %.1f us, median %.1f us, p99 %.1f us, worst %.1f us\n", what, t->n,
           sum / (double)t->n / 1e3, (double)t->ns[t->n / 2] / 1e3, (double)t->ns[t->n * 99 / 100] / 1e3,
           (double)t->ns[t->n - 1] / 1e3);
}

static void fail(const stator_error *e) {
    fprintf(stderr, "bench_grammar: %s\n", e->text);
    exit(1);
}

static void open_vocabulary(struct bench *b, const char *path) {
    stator_error e = {0};
    uint64_t bytes = 0;
    if (gguf_open(path, &b->gguf, &e) != STATOR_OK || tokenizer_measure(b->gguf, &bytes, &e) != STATOR_OK ||
        tokenizer_create(b->gguf, take(bytes), bytes, &b->tokenizer, &e) != STATOR_OK)
        fail(&e);
    uint32_t n = tokenizer_vocab(b->tokenizer);
    uint64_t longest = tokenizer_longest_piece(b->tokenizer), total = 0;
    struct token_bytes *tokens = take(n * sizeof *tokens);
    uint8_t *texts = take(n * longest);
    for (uint32_t i = 0; i < n; i++) {
        tokens[i].bytes = texts + total;
        tokens[i].n =
            (uint32_t)tokenizer_piece(b->tokenizer, (int32_t)i, false, (char *)texts + total, longest);
        total += tokens[i].n;
    }
    uint32_t *order = take(2 * (size_t)n * sizeof *order);
    uint64_t begin = cpu_ns();
    if (token_trie_order(tokens, n, order, &bytes, &e) != STATOR_OK)
        fail(&e);
    b->trie = token_trie_build(take(bytes), tokens, n, order);
    printf("vocabulary: %" PRIu32 " tokens, trie %.2f MiB, built in %.0f ms\n", n, (double)bytes / (1 << 20),
           (double)(cpu_ns() - begin) / 1e6);
    b->places = take(token_trie_places(b->trie) * sizeof *b->places);
    b->mask = take((n + 63) / 64 * sizeof *b->mask);
    free(order);
    free(tokens);
    free(texts);
}

static void end_schema(struct bench *b) {
    b->n_passed += b->r != NULL && !b->failed;
    if (b->verbose && b->worst_ns > 1000000)
        printf("%s: worst mask %.1f us\n", b->name, (double)b->worst_ns / 1e3);
    b->worst_ns = 0;
}

static void begin_schema(struct bench *b, const char *text) {
    stator_error e = {0};
    const char *tab = strchr(text, '\t');
    if (tab == NULL)
        abort();
    snprintf(b->name, sizeof b->name, "%.*s", (int)(tab - text), text);
    uint64_t begin = cpu_ns();
    stator_status st = json_schema_compile(b->memory, b->nodes, tab + 1, strlen(tab + 1),
                                           b->free_space ? JSON_SCHEMA_FREE : JSON_SCHEMA_COMPACT, &b->r, &e);
    uint64_t ns = cpu_ns() - begin;
    add(&b->compile, ns);
    if (st == STATOR_OK) {
        uint8_t *behind = (uint8_t *)b->r + regex_bytes(b->nodes);
        mask_cache_open(&b->cache, behind, (uint64_t)((uint8_t *)b->memory + b->bytes - behind),
                        token_trie_tokens(b->trie));
    }
    b->n_schemas++;
    b->failed = false;
    if (st != STATOR_OK) {
        b->r = NULL;
        b->n_refused++;
    }
    if (b->verbose && (ns > 5000000 || st != STATOR_OK))
        printf("%s: compiled in %.1f us%s%s\n", b->name, (double)ns / 1e3,
               st != STATOR_OK ? ", refused: " : "", e.text);
}

/* Whether the tokens of a text are all allowed, and the text may end behind them. */
static bool accepts(struct bench *b, const char *text, size_t n_text) {
    stator_error e = {0};
    uint64_t n = 0;
    uint32_t state = regex_start(b->r);
    char piece[4096];
    if (n_text > b->longest_text) {
        free(b->work);
        free(b->ids);
        b->longest_text = 2 * n_text;
        b->work_bytes = tokenizer_work_bytes(b->tokenizer, b->longest_text);
        b->work = take(b->work_bytes);
        b->ids = take((3 * b->longest_text + 5) * sizeof *b->ids);
    }
    if (tokenizer_encode(b->tokenizer, text, n_text, 0, b->work, b->work_bytes, b->ids, 3 * n_text + 5, &n,
                         &e) != STATOR_OK)
        fail(&e);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t begin = cpu_ns();
        enum regex_result result =
            mask_cache_mask(&b->cache, b->trie, b->r, &state, 1, b->places, MAX_STEPS, b->mask);
        uint64_t ns = cpu_ns() - begin;
        add(&b->masks, ns);
        b->worst_ns = ns > b->worst_ns ? ns : b->worst_ns;
        if (result != REGEX_OK) {
            b->n_limits++;
            if (b->verbose)
                printf("%s: a mask ends with result %d\n", b->name, (int)result);
            return false;
        }
        if ((b->mask[b->ids[i] / 64] >> b->ids[i] % 64 & 1) == 0)
            return false;
        uint64_t bytes = tokenizer_piece(b->tokenizer, b->ids[i], false, piece, sizeof piece);
        for (uint64_t k = 0; k < bytes; k++) {
            result = regex_step(b->r, state, (uint8_t)piece[k], &state);
            if (result == REGEX_FULL) {
                regex_collect(b->r, &state, 1);
                result = regex_step(b->r, state, (uint8_t)piece[k], &state);
            }
            if (result != REGEX_OK || state == REGEX_DEAD) {
                b->n_limits++;
                return false;
            }
        }
    }
    return regex_accepts(b->r, state);
}

static void try_instance(struct bench *b, bool valid, const char *text) {
    if (b->r == NULL)
        return;
    bool accepted = accepts(b, text, strlen(text));
    b->n_valid += valid;
    b->n_invalid += !valid;
    b->n_valid_refused += valid && !accepted;
    b->n_invalid_accepted += !valid && accepted;
    b->failed |= accepted != valid;
    if (b->verbose && accepted != valid)
        printf("%s: %s: %.200s\n", b->name,
               valid ? "a valid instance is refused" : "an invalid instance is ACCEPTED", text);
}

int main(int argc, char **argv) {
    struct bench b = {.bytes = 2 << 20};
    if (argc < 2) {
        fprintf(stderr,
                "usage: bench_grammar VOCABULARY.gguf [--free-space] [--verbose] [--memory BYTES] <CASES\n");
        return 2;
    }
    for (int i = 2; i < argc; i++) {
        b.free_space |= strcmp(argv[i], "--free-space") == 0;
        b.verbose |= strcmp(argv[i], "--verbose") == 0;
        if (strcmp(argv[i], "--memory") == 0 && i + 1 < argc)
            b.bytes = strtoull(argv[++i], NULL, 10);
    }
    open_vocabulary(&b, argv[1]);
    for (b.nodes = REGEX_MIN_NODES; json_schema_bytes(2 * b.nodes) <= b.bytes;)
        b.nodes *= 2;
    b.memory = take(b.bytes);
    printf("a grammar: %" PRIu32 " nodes, %.2f MiB\n", b.nodes,
           (double)json_schema_bytes(b.nodes) / (1 << 20));
    char *line = NULL;
    size_t room = 0;
    for (ssize_t n; (n = getline(&line, &room, stdin)) > 0;) {
        if (line[n - 1] == '\n')
            line[n - 1] = '\0';
        if (line[0] == 'S') {
            end_schema(&b);
            begin_schema(&b, line + 2);
        } else {
            try_instance(&b, line[0] == '1', line + 2);
        }
    }
    end_schema(&b);
    printf("schemas: %" PRIu32 ", passed %" PRIu32 " (%.1f%%), refused at compile time %" PRIu32 "\n",
           b.n_schemas, b.n_passed, 100.0 * b.n_passed / b.n_schemas, b.n_refused);
    printf("instances of accepted schemas: valid %" PRIu32 ", of these refused %" PRIu32 "; invalid %" PRIu32
           ", of these accepted %" PRIu32 "; ended by a limit %" PRIu32 "\n",
           b.n_valid, b.n_valid_refused, b.n_invalid, b.n_invalid_accepted, b.n_limits);
    print_times("compilations", &b.compile);
    print_times("masks", &b.masks);
    free(line);
    gguf_close(b.gguf);
    return 0;
}
