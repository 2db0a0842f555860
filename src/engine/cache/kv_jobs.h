/* The thread that reads and writes the files of cache.kv_dir, and its jobs.
 *
 * The engine's thread takes a job with its buffer, fills it, pushes it, and gets it back when it has ended.
 * Jobs run in the order of the pushes, so a job finds the blocks that earlier jobs wrote. Buffers are
 * planned. The engine's thread never waits for a job while it runs steps.
 *
 * Owner of a job: this thread from the push to the job's end, else the engine's thread. */
#ifndef STATOR_ENGINE_KV_JOBS_H
#define STATOR_ENGINE_KV_JOBS_H

#include "base/carve.h"
#include "base/phase.h"
#include "engine/run/ring.h"
#include "kernels/shared/kv_layout.h"
#include "kvstore/kvstore.h"

#include <pthread.h>
#include <stdatomic.h>

#if defined(__SANITIZE_THREAD__) /* whose state is thread-local */
#define KV_JOBS_STACK (4096 * 1024)
#else
#define KV_JOBS_STACK (256 * 1024)
#endif

#define KV_JOBS_BLOCK      'k' /* a file with 32 tokens of the PAGED caches */
#define KV_JOBS_CHECKPOINT 'c' /* a file with the other caches at the end of these tokens */

/* What a block is found by: its tokens, and if pictures are among them, a hash of those. */
#define KV_JOBS_WORDS (KV_LAYOUT_BLOCK + SHA256_BYTES / sizeof(uint32_t))

enum kv_job_kind { KV_JOB_FIND, KV_JOB_READ, KV_JOB_WRITE, KV_JOB_SAVE };
enum kv_job_class { KV_JOBS_BLOCKS, KV_JOBS_CHECKPOINTS, KV_JOBS_FINDS, KV_JOBS_CLASSES };

struct kv_job {
    enum kv_job_class class; /* the class of its buffer */
    enum kv_job_kind kind;
    void *owner;               /* the caller's */
    struct kvstore_key before; /* key of the block before */
    /* READ, WRITE: of one block. */
    char what;
    uint32_t words[KV_JOBS_WORDS], n_words;
    uint8_t *data;
    uint64_t bytes;
    bool good; /* READ: the file was there */
    /* FIND: which blocks of a text have files, from block `first` on. Blocks below `known` need no file.
     * keys[i] becomes the key of block i. Of a text with pictures words_of writes what block `block` is found
     * by, and returns how many words; else it is NULL. */
    const int32_t *text;
    uint32_t (*words_of)(const void *context, const void *owner, uint32_t block, uint32_t out[KV_JOBS_WORDS]);
    const void *context;
    uint32_t first, known, last; /* READ: `first` is the caller's */
    bool checkpoints;            /* only blocks up to a checkpoint count */
    struct kvstore_key *keys;
    uint32_t found; /* the number of blocks from the text's beginning on; `first`: none was found */
    /* SAVE: FIND, then the text of n_text tokens is saved under a name. bytes: of the file. */
    const char *name;
    uint32_t n_text;
    char why[160]; /* not good: why */
    /* Of kv_moves.h: devices that copy to or from the buffer, by bits, and what comes then. */
    uint32_t moving;
    bool pushes;
};

struct kv_jobs {
    struct kvstore store; /* the thread's while it runs */
    void *index;
    uint32_t files;
    struct ring *todo, *done, *wake;
    struct kv_job *jobs;
    uint32_t n_jobs;
    uint32_t *free[KV_JOBS_CLASSES];
    uint32_t n_free[KV_JOBS_CLASSES], n_of[KV_JOBS_CLASSES];
    uint32_t outstanding;
    const struct phase *phase;
    void *stack;
    pthread_t thread;
    bool runs;
    _Atomic int stop;
    struct {
        _Atomic uint64_t files_read, bytes_read, read_ns;
        _Atomic uint64_t files_written, bytes_written, write_ns;
        _Atomic uint64_t bytes_held, files; /* of the folder; 0 in a process that only reads */
    } shown;
};

/* Lays out everything but the buffers. n[class]: jobs of each class. */
void kv_jobs_lay_out(struct kv_jobs *j, struct carve *c, const uint32_t n[KV_JOBS_CLASSES], uint32_t files);
/* Hands over the buffers: n[class] * bytes[class] bytes for every class. */
void kv_jobs_give_buffers(struct kv_jobs *j, uint8_t *memory, const uint64_t bytes[KV_JOBS_CLASSES]);
/* Opens the folder and starts the thread, which wakes the consumer of `wake` when a job has ended.
 * STATOR_FAILED: the folder cannot be used, or the thread not be started. */
stator_status kv_jobs_start(struct kv_jobs *j, const struct kvstore_options *o, const struct phase *phase,
                            struct ring *wake, stator_error *e);
/* Ends the thread after the jobs that were pushed. Nothing happens if it does not run. */
void kv_jobs_stop(struct kv_jobs *j);

/* What the thread does over and over: runs the next job that was pushed. False: there is none. The simulator
 * (tests/sim), which has no such thread, calls it. */
bool kv_jobs_turn(struct kv_jobs *j);

/* A free job of a class; NULL: all are in use, or only `spare` are left. */
struct kv_job *kv_jobs_take(struct kv_jobs *j, enum kv_job_class class, uint32_t spare);
void kv_jobs_push(struct kv_jobs *j, struct kv_job *job);
/* The next job that has ended, or NULL. wait: waits for it; a job must then be in flight. */
struct kv_job *kv_jobs_ended(struct kv_jobs *j, bool wait);
void kv_jobs_give_back(struct kv_jobs *j, struct kv_job *job);

#endif
