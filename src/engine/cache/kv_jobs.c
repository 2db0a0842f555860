#include "engine/cache/kv_jobs.h"

#include "base/clock.h"
#include "base/error.h"
#include "kvstore/kvsave.h"
#include "os/pages.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

void kv_jobs_lay_out(struct kv_jobs *j, struct carve *c, const uint32_t n[KV_JOBS_CLASSES], uint32_t files) {
    j->n_jobs = 0;
    j->files = files;
    for (uint32_t i = 0; i < KV_JOBS_CLASSES; i++)
        j->n_jobs += j->n_of[i] = n[i];
    uint32_t places = 2; /* one place of a ring stays free */
    while (places < j->n_jobs + 1)
        places *= 2;
    const uint64_t bytes = ring_bytes(places, sizeof(uint32_t));
    void *todo = carve_take(c, bytes, 1), *done = carve_take(c, bytes, 1);
    j->jobs = carve_take(c, j->n_jobs, sizeof *j->jobs);
    for (uint32_t i = 0; i < KV_JOBS_CLASSES; i++)
        j->free[i] = carve_take(c, n[i], sizeof *j->free[i]);
    j->index = carve_take(c, kvstore_memory(files), 1);
    j->stack = carve_take(c, KV_JOBS_STACK + 2 * PAGES_SIZE, 1);
    if (c->base == NULL)
        return;
    j->todo = ring_init(todo, bytes, places, sizeof(uint32_t));
    j->done = ring_init(done, bytes, places, sizeof(uint32_t));
}

void kv_jobs_give_buffers(struct kv_jobs *j, uint8_t *memory, const uint64_t bytes[KV_JOBS_CLASSES]) {
    uint32_t at = 0;
    for (uint32_t i = 0; i < KV_JOBS_CLASSES; i++)
        for (j->n_free[i] = 0; j->n_free[i] < j->n_of[i]; memory += bytes[i]) {
            j->jobs[at] = (struct kv_job){.class = (enum kv_job_class)i, .data = memory};
            j->free[i][j->n_free[i]++] = at++;
        }
}

static struct kvstore_block block_of(const struct kv_job *job, char what, const uint32_t *words, uint32_t n) {
    return (struct kvstore_block){.kind = what, .before = &job->before, .tokens = words, .n_tokens = n};
}

static uint32_t words_of(const struct kv_job *job, uint32_t k, uint32_t out[KV_JOBS_WORDS]) {
    if (job->words_of != NULL)
        return job->words_of(job->context, job->owner, k, out);
    memcpy(out, job->text + (size_t)k * KV_LAYOUT_BLOCK, KV_LAYOUT_BLOCK * sizeof *out);
    return KV_LAYOUT_BLOCK;
}

/* Follows the text while its blocks are there. */
static void find(const struct kv_jobs *j, struct kv_job *job) {
    job->found = job->first;
    for (uint32_t k = job->first; k < job->last; k++) {
        uint32_t words[KV_JOBS_WORDS];
        const struct kvstore_block b = block_of(job, KV_JOBS_BLOCK, words, words_of(job, k, words));
        kvstore_key(&b, &job->keys[k]);
        if (k >= job->known && !kvstore_has(&j->store, &job->keys[k], KV_JOBS_BLOCK))
            return;
        if (!job->checkpoints || kvstore_has(&j->store, &job->keys[k], KV_JOBS_CHECKPOINT))
            job->found = k + 1;
        job->before = job->keys[k];
    }
}

/* The blocks that have files, and the text under its name. */
static void save(struct kv_jobs *j, struct kv_job *job) {
    const struct kvstore_key root = job->before;
    stator_error e = {0};
    find(j, job);
    const struct kvsave v = {.name = job->name,
                             .root = &root,
                             .tokens = job->text,
                             .n_tokens = job->n_text,
                             .keys = job->keys,
                             .n_keys = job->found};
    job->good = kvsave_write(&j->store, &v, &job->bytes, &e) == STATOR_OK;
    snprintf(job->why, sizeof job->why, "%.*s", (int)sizeof job->why - 1, e.text);
}

static void read_or_write(struct kv_jobs *j, struct kv_job *job) {
    const struct kvstore_block b = block_of(job, job->what, job->words, job->n_words);
    const uint64_t began = clock_ns(), written = j->store.n_writes;
    if (job->kind == KV_JOB_READ) {
        job->good = kvstore_read(&j->store, &b, job->data, job->bytes);
        atomic_fetch_add(&j->shown.read_ns, clock_ns() - began);
        atomic_fetch_add(&j->shown.files_read, job->good);
        atomic_fetch_add(&j->shown.bytes_read, job->good ? job->bytes : 0);
        return;
    }
    kvstore_write(&j->store, &b, job->data, job->bytes);
    atomic_fetch_add(&j->shown.write_ns, clock_ns() - began);
    atomic_fetch_add(&j->shown.files_written, j->store.n_writes - written);
    atomic_fetch_add(&j->shown.bytes_written, j->store.n_writes > written ? job->bytes : 0);
}

static void tell_of_store(struct kv_jobs *j) {
    atomic_store(&j->shown.bytes_held, j->store.held);
    atomic_store(&j->shown.files, j->store.n_entries);
}

bool kv_jobs_turn(struct kv_jobs *j) {
    uint32_t i;
    if (!ring_pop(j->todo, &i))
        return false;
    if (j->jobs[i].kind == KV_JOB_FIND)
        find(j, &j->jobs[i]);
    else if (j->jobs[i].kind == KV_JOB_SAVE)
        save(j, &j->jobs[i]);
    else
        read_or_write(j, &j->jobs[i]);
    tell_of_store(j);
    const bool pushed = ring_push(j->done, &i);
    CHECK(pushed);
    ring_wake(j->wake);
    return true;
}

/* The thread. Jobs that were pushed before the stop still run. */
static void *run(void *context) {
    struct kv_jobs *j = context;
    phase_thread_set(j->phase, PHASE_THREAD_ENGINE);
    for (;;) {
        const bool last = atomic_load_explicit(&j->stop, memory_order_acquire) != 0;
        if (kv_jobs_turn(j))
            continue;
        if (last)
            return NULL;
        ring_wait(j->todo, UINT64_MAX);
    }
}

static stator_status start_thread(struct kv_jobs *j, stator_error *e) {
    pthread_attr_t attr;
    int rc = pthread_attr_init(&attr);
    CHECK(rc == 0);
    /* The lowest page is a guard, as that of the engine's stack. */
    uint8_t *stack = (uint8_t *)arith_round_up((uintptr_t)j->stack, PAGES_SIZE);
    rc = mprotect(stack, PAGES_SIZE, PROT_NONE) == 0 ? 0 : errno;
    if (rc == 0)
        rc = pthread_attr_setstack(&attr, stack + PAGES_SIZE, KV_JOBS_STACK);
    if (rc == 0)
        rc = pthread_create(&j->thread, &attr, run, j);
    pthread_attr_destroy(&attr);
    if (rc != 0)
        return error_set(e, STATOR_FAILED, "cache.kv_dir: its thread can't be started: %s", strerror(rc));
    j->runs = true;
    return STATOR_OK;
}

stator_status kv_jobs_start(struct kv_jobs *j, const struct kvstore_options *o, const struct phase *phase,
                            struct ring *wake, stator_error *e) {
    CHECK(!j->runs && o->files == j->files);
    j->phase = phase;
    j->wake = wake;
    atomic_store(&j->stop, 0);
    stator_status st = kvstore_open(&j->store, o, j->index, e);
    if (st != STATOR_OK)
        return st;
    tell_of_store(j);
    st = start_thread(j, e);
    if (st != STATOR_OK)
        kvstore_close(&j->store);
    return st;
}

void kv_jobs_stop(struct kv_jobs *j) {
    if (!j->runs)
        return;
    atomic_store(&j->stop, 1);
    ring_wake(j->todo);
    int rc = pthread_join(j->thread, NULL);
    CHECK(rc == 0);
    j->runs = false;
    kvstore_close(&j->store);
}

struct kv_job *kv_jobs_take(struct kv_jobs *j, enum kv_job_class class, uint32_t spare) {
    return j->n_free[class] > spare ? &j->jobs[j->free[class][--j->n_free[class]]] : NULL;
}

void kv_jobs_push(struct kv_jobs *j, struct kv_job *job) {
    const uint32_t i = (uint32_t)(job - j->jobs);
    const bool pushed = ring_push(j->todo, &i);
    CHECK(pushed);
    j->outstanding++;
}

struct kv_job *kv_jobs_ended(struct kv_jobs *j, bool wait) {
    uint32_t i;
    while (!ring_pop(j->done, &i)) {
        if (!wait)
            return NULL;
        CHECK(j->outstanding > 0);
        ring_wait(j->done, UINT64_MAX);
    }
    j->outstanding--;
    return &j->jobs[i];
}

void kv_jobs_give_back(struct kv_jobs *j, struct kv_job *job) {
    CHECK(j->n_free[job->class] < j->n_of[job->class]);
    j->free[job->class][j->n_free[job->class]++] = (uint32_t)(job - j->jobs);
}
