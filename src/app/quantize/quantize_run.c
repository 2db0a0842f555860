#include "app/quantize/quantize_run.h"

#include "base/arith.h"
#include "base/error.h"
#include "formats/block_parts.h"
#include "formats/encode.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Values of a piece at most: a multiple of every block. Small enough that a signal is heard at once. */
#define PIECE (128 << 10)

struct piece {
    uint64_t tensor, first, n; /* values */
};

struct work {
    const struct quantize_plan *plan;
    const struct quantize_file *files;
    const atomic_int *stop;

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t ended;
    struct piece next;
    uint32_t running;
    uint64_t done; /* units of work */
    stator_status st;
    stator_error error;
    struct piece failed; /* the error's */
};

struct worker {
    struct work *work;
    pthread_t thread;
    bool started;
    float *x, *w;
    uint8_t *in, *out;
};

uint64_t quantize_run_thread_bytes(void) {
    return 5 * (uint64_t)PIECE * sizeof(float);
}

/* What a value costs one thread, about, in nanoseconds: only the time left depends on it. */
static uint64_t cost_of(const struct quantize_tensor *t) {
    if (t->type == t->from->type)
        return 1;
    switch (t->type) {
    case BLOCK_F32:
    case BLOCK_F16:
    case BLOCK_BF16:
        return 3;
    case BLOCK_Q8_0:
    case BLOCK_TQ1_0:
    case BLOCK_TQ2_0:
        return 5;
    case BLOCK_MXFP4:
    case BLOCK_Q1_0:
        return 20;
    case BLOCK_Q4_0:
    case BLOCK_Q5_0:
        return t->weights != NULL ? 165 : 5;
    case BLOCK_Q4_1:
    case BLOCK_Q5_1:
        return t->weights != NULL ? 550 : 5;
    case BLOCK_IQ2_S:
    case BLOCK_IQ2_XS:
    case BLOCK_IQ2_XXS:
        return 130;
    case BLOCK_Q2_K:
        return 190;
    case BLOCK_Q3_K:
        return 200;
    case BLOCK_Q4_K:
    case BLOCK_Q5_K:
        return 130;
    case BLOCK_Q6_K:
        return 155;
    default:
        return 220;
    }
}

static uint64_t total_of(const struct quantize_plan *p) {
    uint64_t total = 0;
    for (uint64_t i = 0; i < p->n_tensors; i++)
        total += p->tensors[i].values * cost_of(&p->tensors[i]);
    return total;
}

/* A copy is not decoded where its values are not floats. */
static bool is_checked(const struct quantize_tensor *t) {
    return t->type != t->from->type ||
           (block_info(t->type)->computable && !block_is_quantised(t->from->type));
}

static uint64_t bytes_of(uint32_t type, uint64_t values) {
    const struct block_info *info = block_info(type);
    return values / info->values * info->bytes;
}

/* The next piece; false: there is none, or something failed. */
static bool take(struct work *w, struct piece *out) {
    const struct quantize_plan *p = w->plan;
    bool have = false;
    pthread_mutex_lock(&w->lock);
    if (w->st == STATOR_OK && atomic_load(w->stop) != 0) {
        w->st = error_set(&w->error, STATOR_FAILED, "stopped by a signal: nothing is written");
        w->failed = w->next;
    }
    if (w->st == STATOR_OK && w->next.tensor < p->n_tensors) {
        const struct quantize_tensor *t = &p->tensors[w->next.tensor];
        w->next.n = ARITH_MIN((uint64_t)PIECE, t->values - w->next.first);
        *out = w->next;
        w->next.first += w->next.n;
        if (w->next.first == t->values)
            w->next = (struct piece){w->next.tensor + 1, 0, 0};
        have = true;
    }
    pthread_mutex_unlock(&w->lock);
    return have;
}

/* Of several errors that of the first piece is told: pieces are taken in order, and what was taken is
 * finished, so it is the same with any number of threads. */
static void fail(struct work *w, const struct piece *at, const stator_error *e) {
    pthread_mutex_lock(&w->lock);
    const bool earlier =
        at->tensor < w->failed.tensor || (at->tensor == w->failed.tensor && at->first < w->failed.first);
    if (w->st == STATOR_OK || earlier) {
        w->st = e->code;
        w->error = *e;
        w->failed = *at;
    }
    pthread_mutex_unlock(&w->lock);
}

static stator_status check(const struct quantize_plan *p, const struct quantize_tensor *t,
                           const struct piece *at, const float *x, stator_error *e) {
    const bool half = t->type == BLOCK_F16 && t->from->type != BLOCK_F16;
    char shown[GGUF_SHOWN];
    for (uint64_t i = 0; i < at->n; i++) {
        const uint64_t index = at->first + i;
        if (isfinite(x[i]) && !(half && fabsf(x[i]) >= 65520))
            continue;
        (void)gguf_show(t->from->name, shown);
        return isfinite(x[i])
                   ? error_set(e, STATOR_BAD_MODEL,
                               "%.300s: element %" PRIu64 " (column %" PRIu64 " of row %" PRIu64
                               ") of tensor '%s' is %g, beyond the range of f16: give it another type with "
                               "--tensor",
                               gguf_path(p->from, t->from->shard), index, index % t->from->ne[0],
                               index / t->from->ne[0], shown, (double)x[i])
                   : error_set(e, STATOR_BAD_MODEL,
                               "%.300s: element %" PRIu64 " (column %" PRIu64 " of row %" PRIu64
                               ") of tensor '%s' is %s",
                               gguf_path(p->from, t->from->shard), index, index % t->from->ne[0],
                               index / t->from->ne[0], shown, isnan(x[i]) ? "NaN" : "infinite");
    }
    return STATOR_OK;
}

/* The weights of a piece's columns, side by side; a matrix of experts may have others for each. */
static const float *weights_of(const struct quantize_plan *p, const struct quantize_tensor *t,
                               const struct piece *at, float *w) {
    if (t->weights == NULL)
        return NULL;
    const uint64_t cols = t->from->ne[0], rows = t->from->ne[1];
    const bool each = imatrix_find(p->imatrix, t->from->name)->n != cols;
    for (uint64_t i = 0; i < at->n;) {
        const uint64_t row = (at->first + i) / cols, col = (at->first + i) % cols;
        const uint64_t n = ARITH_MIN(cols - col, at->n - i);
        memcpy(w + i, t->weights + (each ? row / rows * cols : 0) + col, n * sizeof *w);
        i += n;
    }
    return w;
}

static stator_status convert(struct worker *me, const struct piece *at, stator_error *e) {
    const struct quantize_plan *p = me->work->plan;
    const struct quantize_tensor *t = &p->tensors[at->tensor];
    const uint64_t n_in = bytes_of(t->from->type, at->n), n_out = bytes_of(t->type, at->n);
    const uint8_t *out = me->in; /* of a copy */
    stator_status st = gguf_load(p->from, t->from, bytes_of(t->from->type, at->first), n_in, me->in, e);
    if (st == STATOR_OK && is_checked(t)) {
        block_decode_row(t->from->type, me->in, me->x, at->n);
        st = check(p, t, at, me->x, e);
    }
    if (st == STATOR_OK && t->type != t->from->type) {
        encode_row(t->type, me->x, weights_of(p, t, at, me->w), me->out, at->n);
        out = me->out;
    }
    return st == STATOR_OK ? quantize_file_write(&me->work->files[t->shard], out, n_out,
                                                 t->offset + bytes_of(t->type, at->first), e)
                           : st;
}

static void *run_worker(void *argument) {
    struct worker *me = argument;
    struct work *w = me->work;
    struct piece at;
    while (take(w, &at)) {
        stator_error e;
        if (convert(me, &at, &e) != STATOR_OK)
            fail(w, &at, &e);
        pthread_mutex_lock(&w->lock);
        w->done += at.n * cost_of(&w->plan->tensors[at.tensor]);
        pthread_mutex_unlock(&w->lock);
    }
    pthread_mutex_lock(&w->lock);
    w->running--;
    pthread_cond_signal(&w->ended);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static bool take_buffers(struct worker *me) {
    me->x = malloc(PIECE * sizeof *me->x);
    me->w = malloc(PIECE * sizeof *me->w);
    me->in = malloc(PIECE * sizeof(double)); /* of types that are copied i64 and f64 are the widest */
    me->out = malloc(PIECE * sizeof(float));
    return me->x != NULL && me->w != NULL && me->in != NULL && me->out != NULL;
}

/* Until no worker runs. That all is done is told once, at the end. */
static void watch(struct work *w, uint64_t total, quantize_progress progress, void *context) {
    bool ended = false;
    pthread_mutex_lock(&w->lock);
    while (!ended) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 200 * 1000 * 1000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (w->running > 0)
            pthread_cond_timedwait(&w->ended, &w->lock, &until);
        ended = w->running == 0;
        const uint64_t done = w->done;
        pthread_mutex_unlock(&w->lock);
        if (progress != NULL && (done == total) == ended)
            progress(context, done, total);
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
}

static void start(struct work *w, struct worker *workers, uint32_t threads) {
    for (uint32_t i = 0; i < threads; i++) {
        workers[i].work = w;
        bool good = take_buffers(&workers[i]);
        pthread_mutex_lock(&w->lock);
        w->running += good;
        pthread_mutex_unlock(&w->lock);
        workers[i].started = good && pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]) == 0;
        if (workers[i].started)
            continue;
        pthread_mutex_lock(&w->lock);
        w->running -= good;
        /* Fewer threads do as well; without any there is no result. */
        if (i == 0)
            w->st = error_set(&w->error, STATOR_DOES_NOT_FIT, "no memory for a thread and its buffers");
        pthread_mutex_unlock(&w->lock);
        return;
    }
}

stator_status quantize_run(const struct quantize_plan *p, const struct quantize_file *files, uint32_t threads,
                           const atomic_int *stop, quantize_progress progress, void *context,
                           stator_error *e) {
    struct work w = {.plan = p,
                     .files = files,
                     .stop = stop,
                     .lock = PTHREAD_MUTEX_INITIALIZER,
                     .ended = PTHREAD_COND_INITIALIZER};
    struct worker *workers = calloc(threads, sizeof *workers);
    if (workers == NULL)
        return error_set(e, STATOR_DOES_NOT_FIT, "no memory for %" PRIu32 " threads", threads);
    for (uint32_t i = 0; i < p->n_shards && w.st == STATOR_OK; i++)
        w.st = quantize_file_write(&files[i], p->shards[i].header, p->shards[i].header_bytes, 0, &w.error);
    /* The padding behind the last tensor of a file, too, is there. */
    for (uint64_t i = 0; i < p->n_tensors && w.st == STATOR_OK; i++) {
        const struct quantize_tensor *t = &p->tensors[i];
        const uint64_t end = t->offset + t->bytes;
        static const uint8_t zero[4096];
        for (uint64_t at = end; at % p->alignment != 0 && w.st == STATOR_OK;) {
            const uint64_t n = ARITH_MIN(p->alignment - at % p->alignment, sizeof zero);
            w.st = quantize_file_write(&files[t->shard], zero, n, at, &w.error);
            at += n;
        }
    }
    if (w.st == STATOR_OK) {
        start(&w, workers, threads);
        watch(&w, total_of(p), progress, context);
    }
    for (uint32_t i = 0; i < threads; i++) {
        if (workers[i].started)
            pthread_join(workers[i].thread, NULL);
        free(workers[i].x);
        free(workers[i].w);
        free(workers[i].in);
        free(workers[i].out);
    }
    free(workers);
    if (w.st != STATOR_OK && e != NULL)
        *e = w.error;
    return w.st;
}
