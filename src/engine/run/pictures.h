/* Pictures of requests: from a file's bytes to rows that stand in the prompt in place of embeddings.
 *
 * A picture has a place in planned memory. The thread that submits decodes and resizes into it, the engine's
 * thread runs the vision tower over it once, before the first step of a request that has it, and from then on
 * it holds the tower's rows. Places are found by the SHA-256 of the file's bytes, so that a picture that
 * comes again is neither decoded nor encoded again while its place lasts. A place that no request holds is
 * given to the next picture, the one that was held longest ago first.
 *
 * Invariants: a place with holders keeps its picture. Who looks at places or gives them back holds `lock`,
 * for moments only. Who decodes holds `decoding`, and the place as its only holder. The engine's thread takes
 * no lock, and writes only the memory and `encoded` of places that its requests hold. */
#ifndef STATOR_ENGINE_RUN_PICTURES_H
#define STATOR_ENGINE_RUN_PICTURES_H

#include "base/carve.h"
#include "engine/cache/kv_jobs.h"
#include "kvstore/sha256.h"
#include "kernels/shared/kv_layout.h"
#include "model/tower.h"
#include "stator.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define PICTURES_WORD UINT32_MAX /* of a token of a picture, in pictures_words */

struct stator;
struct engine_request;
struct engine_sequence;
struct step_header;
struct step_place;

struct picture_place {
    uint8_t hash[SHA256_BYTES]; /* of the file; valid if `filled` */
    bool filled;
    _Atomic uint32_t holders; /* requests, loaded pictures, and who decodes */
    uint64_t used;            /* when it was last taken, among all */
    struct tower_size size;
    _Atomic bool encoded;
    int32_t serial; /* of what it holds; no two are alike */
    void *memory;   /* planning_pictures.each: rgb bytes, row after row; encoded: float [tokens][width of the
                     text] */
};

/* A picture in a request's prompt. */
struct request_picture {
    uint32_t place;
    uint32_t first; /* token of the prompt */
};

struct engine_pictures {
    pthread_mutex_t decoding; /* taken before `lock`, where both are */
    pthread_mutex_t lock;
    struct picture_place *places; /* [planning.pictures.n] */
    uint8_t *decode;              /* planning.pictures.decode_bytes; under `decoding` */
    uint64_t uses;
    int32_t serials; /* given out */
    int32_t marker;  /* token of the text model in place of a picture, and of each row of the tower's */
    int32_t end_of_row, end;     /* pixtral's tokens behind them */
    uint8_t tower[SHA256_BYTES]; /* of the tower and what decides a picture's size, for files of blocks */
    const char *text;            /* stator_vision.text */
    const char *marker_name;
    _Atomic uint64_t encoded, encode_ns; /* pictures, and what the tower took for them */
};

/* Carves what a run needs beside the planned arena; `requests` of them. NULL tower: nothing. */
void pictures_lay_out(struct stator *s, struct carve *c);
/* Gives the places their memory (planning.pictures.bytes), and finds the tokens. STATOR_USAGE: the text model
 * has none of them. */
stator_status pictures_open(struct stator *s, void *memory, stator_error *e);

/* Tokens of a prompt with its pictures. STATOR_USAGE: a file that is no picture or needs too much memory, or
 * markers that are not as many as pictures. */
stator_status pictures_count(const struct stator *s, const stator_request *r, uint64_t *n, stator_error *e);
/* Holds a place for each picture of r, decoded: out[r->n_pictures]. STATOR_BUSY: all places are held. */
stator_status pictures_take(struct stator *s, const stator_request *r, struct request_picture *out,
                            stator_error *e);
void pictures_give(struct stator *s, const struct request_picture *pictures, uint32_t n);
/* The prompt's tokens with those of its pictures in place of the markers; sets out[].first. */
void pictures_expand(const struct stator *s, const stator_request *r, struct request_picture *out,
                     int32_t *tokens);

/* The place of r's token number `token`. With models that have three kinds of places (shape.rope_sections) a
 * picture's tokens all have the time of the first one, which is that behind the text before, and rows and
 * columns from there on; text goes on behind the largest of these numbers. */
struct step_place pictures_locate(const struct stator *s, const struct engine_request *r, uint32_t token);
/* The engine's thread: encodes what running requests have; errors are the device's. */
stator_status pictures_ready(struct stator *s, stator_error *e);
/* What block `block` of r's prompt is found by: its tokens, and in place of a picture's the picture. Points
 * to r's own tokens or into `out`. */
const int32_t *pictures_block(const struct stator *s, const struct engine_request *r, uint32_t block,
                              int32_t out[KV_LAYOUT_BLOCK]);
/* The same over restarts, for the files of cache.kv_dir: the block's tokens, where PICTURES_WORD stands for
 * each of a picture's, and then a hash of the tower, the pictures' files and where they begin. Returns how
 * many words. Any thread, while the request holds its pictures. */
uint32_t pictures_words(const struct stator *s, const struct engine_request *r, uint32_t block,
                        uint32_t out[KV_JOBS_WORDS]);
/* Pictures whose tokens see each other go into a step whole: how many tokens from `token` on come up to the
 * next such picture, or (*whole) are the rest of one. UINT32_MAX: there is none. What of a picture was
 * computed before needs no second time, as K and V of all of it are there. */
uint32_t pictures_together(const struct stator *s, const struct engine_request *r, uint32_t token,
                           bool *whole);
/* The last place up to `token`, at the end of a block if it is not `token`, where a prompt may be cut. */
uint32_t pictures_cut(const struct stator *s, const struct engine_request *r, uint32_t token);
/* Puts the rows of r's tokens position .. position + n - 1 into the step, where tokens begin at `first`. */
void pictures_fill(const struct stator *s, const struct engine_request *r, uint64_t step,
                   struct step_header *h, uint32_t first, uint32_t position, uint32_t n);

#endif
