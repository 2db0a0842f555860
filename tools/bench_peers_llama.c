/* Measures a llama.cpp library as tools/bench_peers wants it: for each test a line "KIND N DEPTH SEQUENCES
 * RATE" per repetition (KIND pp or tg, RATE in tokens per second), on random tokens, with the context of a
 * depth computed once; before them a line "fill DEPTH 0 SEQUENCES RATE" for that context.
 *
 * bench_peers_llama LIBRARY_DIR_OR_CPU_BACKEND MODEL THREADS BATCH FLASH(-1,0,1) KV(f16,q8_0) REPEATS TEST...
 * TEST: KIND:N:DEPTH:SEQUENCES. Without tests: a prompt of 512 tokens and one token out, then exit (for
 * timing the start). Built by tools/bench_peers with the headers of the same release. */
#include "ggml-backend.h"
#include "llama.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define WARM_UP 8 /* tokens of generation */

struct test {
    char kind[3];
    int n, depth, sequences;
};

static struct llama_context *context;
static int vocab;
static int batch_size;
static unsigned random_state = 1;

static void die(const char *what) {
    fprintf(stderr, "bench_peers_llama: %s\n", what);
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static llama_token any_token(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return (llama_token)((random_state >> 8) % (unsigned)vocab);
}

static void on_log(enum ggml_log_level level, const char *text, void *data) {
    (void)data;
    if (level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

static void put(struct llama_batch *b, int sequence, int position, bool wanted) {
    int i = b->n_tokens++;
    b->token[i] = any_token();
    b->pos[i] = position;
    b->n_seq_id[i] = 1;
    b->seq_id[i][0] = sequence;
    b->logits[i] = wanted;
}

/* A model that makes embeddings wants the rows of all tokens. */
static int embeds(void) {
    const enum llama_pooling_type pooling = llama_pooling_type(context);
    return pooling != LLAMA_POOLING_TYPE_NONE && pooling != LLAMA_POOLING_TYPE_UNSPECIFIED;
}

static void decode(struct llama_batch b) {
    if (llama_decode(context, b) != 0)
        die("llama_decode failed");
    llama_synchronize(context);
}

/* n tokens of one sequence from position `from` on, logits of the last. */
static void prompt(struct llama_batch *b, int sequence, int from, int n) {
    for (int done = 0; done < n;) {
        b->n_tokens = 0;
        while (b->n_tokens < batch_size && done < n) {
            done++;
            put(b, sequence, from + done - 1, done == n || embeds());
        }
        decode(*b);
    }
}

/* n steps of one token for every sequence. */
static void generate(struct llama_batch *b, int sequences, int from, int n) {
    for (int k = 0; k < n; k++) {
        b->n_tokens = 0;
        for (int s = 0; s < sequences; s++)
            put(b, s, from + k, true);
        decode(*b);
    }
}

static void run(struct llama_batch *b, const struct test *t, int repeats) {
    llama_memory_t memory = llama_get_memory(context);
    int tg = strcmp(t->kind, "tg") == 0;
    llama_memory_clear(memory, true);
    double from = now();
    for (int s = 0; s < t->sequences && t->depth > 0; s++)
        prompt(b, s, 0, t->depth);
    if (t->depth > 0)
        printf("fill %d 0 %d %.4f\n", t->depth, t->sequences,
               (double)t->depth * t->sequences / (now() - from));
    for (int r = -1; r < repeats; r++) { /* the first one warms up */
        int n = r < 0 && tg && t->n > WARM_UP ? WARM_UP : t->n;
        double begin = now();
        if (tg)
            generate(b, t->sequences, t->depth, n);
        else
            prompt(b, 0, t->depth, n);
        double rate = (double)n * t->sequences / (now() - begin);
        if (r >= 0)
            printf("%s %d %d %d %.4f\n", t->kind, t->n, t->depth, t->sequences, rate);
        fflush(stdout);
        for (int s = 0; s < t->sequences; s++)
            llama_memory_seq_rm(memory, s, t->depth, -1);
    }
}

int main(int argc, char **argv) {
    if (argc < 8)
        die("too few arguments");
    int n_tests = argc - 8;
    struct test *tests = calloc((size_t)n_tests + 1, sizeof *tests);
    int need = 512 + 16;
    int sequences = 1;
    for (int i = 0; tests != NULL && i < n_tests; i++) {
        struct test *t = &tests[i];
        if (sscanf(argv[8 + i], "%2[a-z]:%d:%d:%d", t->kind, &t->n, &t->depth, &t->sequences) != 4 ||
            t->sequences < 1)
            die("a test is KIND:N:DEPTH:SEQUENCES");
        int here = (t->depth + t->n + 255) / 256 * 256; /* cells of the cache come in such steps */
        need = here * t->sequences > need ? here * t->sequences : need;
        sequences = t->sequences > sequences ? t->sequences : sequences;
    }
    llama_log_set(on_log, NULL);
    struct stat st;
    if (stat(argv[1], &st) == 0 && S_ISREG(st.st_mode)) {
        if (ggml_backend_load(argv[1]) == NULL)
            die("the CPU backend can't be loaded");
    } else {
        ggml_backend_load_all_from_path(argv[1]);
    }
    llama_backend_init();
    struct llama_model_params mp = llama_model_default_params();
    mp.n_gpu_layers = 0;
    struct llama_model *model = llama_model_load_from_file(argv[2], mp);
    if (model == NULL)
        die("the model can't be loaded");
    vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
    batch_size = atoi(argv[4]);
    struct llama_context_params cp = llama_context_default_params();
    cp.n_ctx = (uint32_t)need;
    cp.n_batch = cp.n_ubatch = (uint32_t)batch_size;
    cp.n_seq_max = (uint32_t)sequences;
    cp.kv_unified = sequences == 1; /* else each sequence has its share and does not look at the others' */
    cp.n_threads = cp.n_threads_batch = atoi(argv[3]);
    cp.flash_attn_type = atoi(argv[5]);
    cp.type_k = cp.type_v = strcmp(argv[6], "q8_0") == 0 ? GGML_TYPE_Q8_0 : GGML_TYPE_F16;
    cp.no_perf = true;
    context = llama_init_from_model(model, cp);
    if (context == NULL)
        die("the context can't be made");
    llama_set_embeddings(context, embeds());
    struct llama_batch b = llama_batch_init(batch_size > sequences ? batch_size : sequences, 0, 1);
    if (n_tests == 0)
        prompt(&b, 0, 0, 512);
    for (int i = 0; i < n_tests; i++)
        run(&b, &tests[i], atoi(argv[7]));
    llama_batch_free(b);
    llama_free(context);
    llama_model_free(model);
    free(tests);
    return 0;
}
