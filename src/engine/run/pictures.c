#include "engine/run/pictures.h"

#include "base/clock.h"
#include "engine/cache/kv_disk.h"
#include "engine/engine.h"
#include "engine/arguments.h"
#include "engine/run/picture_patches.h"
#include "engine/run/step_fill.h"
#include "engine/run/step_writer.h"
#include "picture/picture.h"
#include "picture/picture_resize.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct tower *tower_of(const struct stator *s) {
    return s->planning.vision.tower;
}

/* Tokens of the text model for a row of the tower's. */
static uint32_t row_tokens(const struct stator *s, const struct tower_size *size) {
    return size->across + (tower_of(s)->projector == TOWER_PIXTRAL);
}

/* Of the text model in front of the tower's. */
static uint32_t tokens_before(const struct stator *s) {
    return tower_of(s)->projector == TOWER_GEMMA3;
}

/* As the projectors' preprocessors of transformers do it. */
static enum picture_filter filter_of(const struct stator *s) {
    return tower_of(s)->projector == TOWER_GEMMA3 ? PICTURE_BILINEAR : PICTURE_BICUBIC;
}

void pictures_lay_out(struct stator *s, struct carve *c) {
    const uint32_t n = s->planning.pictures.n;
    s->run.pictures.places = carve_take(c, n, sizeof *s->run.pictures.places);
    struct request_picture *of = carve_take(c, (uint64_t)s->front.n_requests * n, sizeof *of);
    for (uint32_t i = 0; i < s->front.n_requests && c->base != NULL; i++)
        s->front.requests[i].pictures = of + (size_t)i * n;
}

static stator_status find_token(const struct stator *s, const char *name, int32_t *id, stator_error *e) {
    uint64_t n = 0;
    stator_error why;
    stator_status st = tokenizer_encode(s->tokenizer, name, strlen(name), TOKENIZER_PARSE_SPECIAL,
                                        s->front.edge_work, s->front.edge_work_bytes, id, 1, &n, &why);
    return st == STATOR_OK && n == 1
               ? STATOR_OK
               : error_set(e, STATOR_USAGE,
                           "model.vision: the text model's vocabulary has no token %s, which pictures of the "
                           "projector %s need",
                           name, tower_projector_name(tower_of(s)->projector));
}

stator_status pictures_open(struct stator *s, void *memory, stator_error *e) {
    struct engine_pictures *p = &s->run.pictures;
    const struct planning_pictures *planned = &s->planning.pictures;
    for (uint32_t i = 0; i < planned->n; i++)
        p->places[i] = (struct picture_place){.memory = (uint8_t *)memory + i * planned->each};
    p->decode = (uint8_t *)memory + planned->n * planned->each;
    if (s->tokenizer == NULL)
        return error_set(e, STATOR_USAGE, "model.vision: pictures need the model's tokenizer: %s",
                         s->tokenizer_error.text);
    if (tower_of(s)->projector == TOWER_PIXTRAL) {
        p->text = p->marker_name = "[IMG]";
        stator_status st = find_token(s, "[IMG_BREAK]", &p->end_of_row, e);
        if (st == STATOR_OK)
            st = find_token(s, "[IMG_END]", &p->end, e);
        return st == STATOR_OK ? find_token(s, p->marker_name, &p->marker, e) : st;
    }
    if (tower_of(s)->projector == TOWER_GEMMA3) { /* the marker is the token before the picture's rows */
        p->text = "\n\n<start_of_image><end_of_image>\n\n";
        p->marker_name = "<start_of_image>";
        stator_status st = find_token(s, "<end_of_image>", &p->end, e);
        return st == STATOR_OK ? find_token(s, p->marker_name, &p->marker, e) : st;
    }
    const bool gemma4 = tower_of(s)->projector == TOWER_GEMMA4;
    const char *const ends[2] = {gemma4 ? "<|image>" : "<|vision_start|>",
                                 gemma4 ? "<image|>" : "<|vision_end|>"};
    p->text = gemma4 ? "<|image><|image|><image|>" : "<|vision_start|><|image_pad|><|vision_end|>";
    p->marker_name = gemma4 ? "<|image|>" : "<|image_pad|>";
    stator_status st = STATOR_OK;
    for (int i = 0; i < 2 && st == STATOR_OK; i++)
        st = find_token(s, ends[i], &p->marker, e);
    return st == STATOR_OK ? find_token(s, p->marker_name, &p->marker, e) : st;
}

/* --- who submits */

static struct picture_limits limits_of(const struct stator *s) {
    return (struct picture_limits){
        .side = PICTURE_SIDE_MAX,
        .pixels = ARITH_MIN(s->planning.pictures.decode_bytes / 4, (uint64_t)PICTURE_PIXELS_MAX)};
}

/* What a file becomes, from its headers; `which`: for the error. */
static stator_status look(const struct stator *s, const stator_picture *p, size_t which,
                          struct picture_head *head, struct tower_size *size, stator_error *e) {
    const struct picture_limits limits = limits_of(s);
    stator_status st = p->data != NULL
                           ? picture_look(p->data, p->length, &limits, head, e)
                           : error_set(e, STATOR_USAGE, "stator_submit: request.pictures[].data is NULL");
    if (st == STATOR_OK)
        st = tower_size_of(tower_of(s), head->width, head->height, s->planning.config.vision.max_pixels, size,
                           e);
    if (st != STATOR_OK) {
        error_prefix(e, "picture %zu", which);
        return st;
    }
    const uint64_t resize =
        picture_resize_bytes(head->width, head->height, size->width, size->height, filter_of(s));
    const uint64_t pixels = arith_round_up(head->pixel_bytes, CARVE_ALIGN);
    const uint64_t need = arith_must_add(pixels, ARITH_MAX(head->scratch_bytes, resize));
    if (need > s->planning.pictures.decode_bytes)
        return error_set(e, STATOR_USAGE,
                         "picture %zu: %" PRIu32 "x%" PRIu32 " pixels need %" PRIu64
                         " bytes to be decoded, vision.decode is %" PRIu64,
                         which, head->width, head->height, need, s->planning.pictures.decode_bytes);
    return STATOR_OK;
}

static uint64_t count_markers(const struct stator *s, const stator_request *r) {
    uint64_t n = 0;
    for (size_t i = 0; i < r->n_tokens; i++)
        n += r->tokens[i] == s->run.pictures.marker;
    return n;
}

static stator_status check(const struct stator *s, const stator_request *r, stator_error *e) {
    if (tower_of(s) == NULL)
        return error_set(e, STATOR_USAGE,
                         "the request has pictures, but model.vision names no vision tower: set it to the "
                         "model's mmproj file");
    if (r->pictures == NULL && r->loaded == NULL)
        return error_set(e, STATOR_USAGE, "stator_submit: request.pictures is NULL");
    if (r->n_pictures > s->planning.pictures.n)
        return error_set(e, STATOR_USAGE, "the request has %zu pictures, vision.pictures is %u: raise it",
                         r->n_pictures, s->planning.pictures.n);
    if (tower_sees_both(tower_of(s)) && s->planning.shape->pooling != SHAPE_POOL_NONE)
        return error_set(e, STATOR_USAGE,
                         "the request has pictures, which models with a pooling (model.pooling) and the "
                         "projector %s do not take yet",
                         tower_projector_name(tower_of(s)->projector));
    const uint64_t markers = count_markers(s, r);
    if (markers != r->n_pictures)
        return error_set(e, STATOR_USAGE,
                         "the prompt has %" PRIu64 " places for pictures (%s), the request %zu pictures",
                         markers, s->run.pictures.marker_name, r->n_pictures);
    return STATOR_OK;
}

/* A number for a loaded picture: its serial, and its place + 1. */
static uint64_t number_of(const struct stator *s, const struct picture_place *p) {
    return (uint64_t)(uint32_t)p->serial << 32 | (uint64_t)(p - s->run.pictures.places + 1);
}

/* The place of such a number; NULL: it is none, or was dropped. Under `lock`. */
static struct picture_place *loaded_place(const struct stator *s, uint64_t number) {
    const uint64_t at = number & UINT32_MAX;
    if (at == 0 || at > s->planning.pictures.n)
        return NULL;
    struct picture_place *p = &s->run.pictures.places[at - 1];
    return p->filled && p->holders > 0 && number_of(s, p) == number ? p : NULL;
}

/* Tokens of picture i of the request. */
static stator_status tokens_of(const struct stator *s, const stator_request *r, size_t i, uint32_t *tokens,
                               stator_error *e) {
    struct picture_head head;
    struct tower_size size = {0};
    if (r->loaded == NULL) {
        stator_status st = look(s, &r->pictures[i], i, &head, &size, e);
        *tokens = size.tokens;
        return st;
    }
    pthread_mutex_t *lock = (pthread_mutex_t *)&s->run.pictures.lock; /* the caller's in all but that */
    pthread_mutex_lock(lock);
    const struct picture_place *p = loaded_place(s, r->loaded[i]);
    *tokens = p != NULL ? p->size.tokens : 0;
    pthread_mutex_unlock(lock);
    return p != NULL
               ? STATOR_OK
               : error_set(e, STATOR_USAGE,
                           "stator_submit: request.loaded[%zu] is no picture of stator_load_picture", i);
}

stator_status pictures_count(const struct stator *s, const stator_request *r, uint64_t *n, stator_error *e) {
    *n = r->n_tokens;
    if (r->n_pictures == 0)
        return STATOR_OK;
    stator_status st = check(s, r, e);
    for (size_t i = 0; i < r->n_pictures && st == STATOR_OK; i++) {
        uint32_t tokens = 0;
        st = tokens_of(s, r, i, &tokens, e);
        if (st == STATOR_OK)
            *n += tokens - 1; /* less its marker */
    }
    return st;
}

/* Into the place's memory, of the size that the tower sees. */
static stator_status decode(struct stator *s, const stator_picture *p, size_t which, struct picture_place *to,
                            stator_error *e) {
    struct picture_head head;
    struct picture picture;
    stator_status st = look(s, p, which, &head, &to->size, e);
    if (st != STATOR_OK)
        return st;
    const uint64_t pixels = arith_round_up(head.pixel_bytes, CARVE_ALIGN);
    uint8_t *scratch = s->run.pictures.decode + pixels;
    st = picture_decode(p->data, p->length, &head, s->run.pictures.decode, scratch, &picture, e);
    if (st != STATOR_OK) {
        error_prefix(e, "picture %zu", which);
        return st;
    }
    CHECK((uint64_t)to->size.width * to->size.height * 3 <= s->planning.pictures.each);
    picture_resize(&picture, to->size.width, to->size.height, filter_of(s), to->memory, scratch,
                   s->planning.pictures.decode_bytes - pixels);
    return STATOR_OK;
}

/* The place that has this picture, one holder more; NULL: there is none. Under `lock`. */
static struct picture_place *hold_known(struct stator *s, const uint8_t hash[SHA256_BYTES]) {
    for (uint32_t i = 0; i < s->planning.pictures.n; i++) {
        struct picture_place *p = &s->run.pictures.places[i];
        if (!p->filled || memcmp(p->hash, hash, SHA256_BYTES) != 0)
            continue;
        p->holders++;
        p->used = ++s->run.pictures.uses;
        return p;
    }
    return NULL;
}

/* The place that nobody has held for longest, emptied, with one holder; NULL: all are held. Under `lock`. */
static struct picture_place *hold_free(struct stator *s) {
    struct picture_place *oldest = NULL;
    for (uint32_t i = 0; i < s->planning.pictures.n; i++) {
        struct picture_place *p = &s->run.pictures.places[i];
        if (p->holders == 0 && (oldest == NULL || p->used < oldest->used))
            oldest = p;
    }
    if (oldest == NULL)
        return NULL;
    oldest->filled = false;
    oldest->holders = 1;
    oldest->used = ++s->run.pictures.uses;
    return oldest;
}

/* A place for a picture that no place had a moment ago. Under `decoding`. */
static stator_status fill_one(struct stator *s, const stator_picture *p, size_t which,
                              const uint8_t hash[SHA256_BYTES], struct picture_place **out, stator_error *e) {
    pthread_mutex_lock(&s->run.pictures.lock);
    struct picture_place *known =
        hold_known(s, hash); /* the picture that was decoded before may have been this one */
    struct picture_place *place = known != NULL ? known : hold_free(s);
    pthread_mutex_unlock(&s->run.pictures.lock);
    if (place == NULL)
        return error_set(e, STATOR_BUSY,
                         "all %u places for pictures (vision.pictures) are in use: try again when a request "
                         "is done",
                         s->planning.pictures.n);
    *out = place;
    if (known != NULL)
        return STATOR_OK;
    stator_status st = decode(s, p, which, place, e);
    pthread_mutex_lock(&s->run.pictures.lock);
    CHECK(place->holders == 1 && !place->filled);
    if (st == STATOR_OK) {
        memcpy(place->hash, hash, SHA256_BYTES);
        atomic_store(&place->encoded, false);
        place->serial = s->run.pictures.serials = s->run.pictures.serials % INT32_MAX + 1;
        place->filled = true;
    } else {
        place->holders = 0;
    }
    pthread_mutex_unlock(&s->run.pictures.lock);
    return st;
}

static stator_status take_one(struct stator *s, const stator_picture *p, size_t which,
                              struct picture_place **out, stator_error *e) {
    uint8_t hash[SHA256_BYTES];
    struct sha256 h;
    sha256_init(&h);
    sha256_bytes(&h, p->data, p->length);
    sha256_final(&h, hash);
    pthread_mutex_lock(&s->run.pictures.lock);
    *out = hold_known(s, hash);
    pthread_mutex_unlock(&s->run.pictures.lock);
    if (*out != NULL)
        return STATOR_OK;
    pthread_mutex_lock(&s->run.pictures.decoding);
    stator_status st = fill_one(s, p, which, hash, out, e);
    pthread_mutex_unlock(&s->run.pictures.decoding);
    return st;
}

static stator_status take_loaded(struct stator *s, uint64_t number, size_t which, struct picture_place **out,
                                 stator_error *e) {
    pthread_mutex_lock(&s->run.pictures.lock);
    struct picture_place *p = *out = loaded_place(s, number);
    if (p != NULL) {
        p->holders++;
        p->used = ++s->run.pictures.uses;
    }
    pthread_mutex_unlock(&s->run.pictures.lock);
    return p != NULL
               ? STATOR_OK
               : error_set(e, STATOR_USAGE,
                           "stator_submit: request.loaded[%zu] is no picture of stator_load_picture", which);
}

void pictures_give(struct stator *s, const struct request_picture *pictures, uint32_t n) {
    if (n == 0)
        return;
    pthread_mutex_lock(&s->run.pictures.lock);
    for (uint32_t i = 0; i < n; i++) {
        CHECK(s->run.pictures.places[pictures[i].place].holders > 0);
        s->run.pictures.places[pictures[i].place].holders--;
    }
    pthread_mutex_unlock(&s->run.pictures.lock);
}

stator_status pictures_take(struct stator *s, const stator_request *r, struct request_picture *out,
                            stator_error *e) {
    stator_status st = STATOR_OK;
    uint32_t n = 0;
    while (n < r->n_pictures && st == STATOR_OK) {
        struct picture_place *place = NULL;
        st = r->loaded != NULL ? take_loaded(s, r->loaded[n], n, &place, e)
                               : take_one(s, &r->pictures[n], n, &place, e);
        if (st != STATOR_OK)
            break;
        CHECK(place != NULL);
        out[n++] = (struct request_picture){.place = (uint32_t)(place - s->run.pictures.places)};
    }
    if (st != STATOR_OK)
        pictures_give(s, out, n);
    return st;
}

void pictures_expand(const struct stator *s, const stator_request *r, struct request_picture *out,
                     int32_t *tokens) {
    const struct engine_pictures *p = &s->run.pictures;
    uint32_t n = 0, which = 0;
    for (size_t i = 0; i < r->n_tokens; i++) {
        if (r->n_pictures == 0 || r->tokens[i] != p->marker) {
            tokens[n++] = r->tokens[i];
            continue;
        }
        const struct tower_size *size = &p->places[out[which].place].size;
        out[which++].first = n;
        if (tokens_before(s) > 0)
            tokens[n++] = p->marker;
        for (uint32_t y = 0; y < size->down; y++) {
            for (uint32_t x = 0; x < size->across; x++)
                tokens[n++] = p->marker;
            if (row_tokens(s, size) > size->across)
                tokens[n++] = y + 1 < size->down ? p->end_of_row : p->end;
        }
    }
    CHECK(which == r->n_pictures);
}

/* --- the engine's thread */

static stator_status encode(struct stator *s, struct picture_place *p, stator_error *e) {
    const uint64_t began = clock_ns();
    struct device *d = s->devices[planning_vision_at(&s->planning)].device;
    picture_patches_write(s, p, d->vtable->step_slot(d, 0));
    stator_status st = d->vtable->submit(d, 0, e);
    for (bool ended = false; st == STATOR_OK && !ended;)
        st = d->vtable->wait(d, 0, s->run.deadline_ns, &ended, e);
    if (st != STATOR_OK)
        return st;
    const size_t width = tower_row_width(tower_of(s));
    for (uint32_t k = 0; k < p->size.across * p->size.down; k++)
        memcpy((float *)p->memory + picture_patches_token(tower_of(s), &p->size, k) * width,
               d->vtable->logits(d, 0) + k * width, width * sizeof(float));
    atomic_store(&p->encoded, true);
    atomic_fetch_add(&s->run.pictures.encoded, 1);
    atomic_fetch_add(&s->run.pictures.encode_ns, clock_ns() - began);
    return STATOR_OK;
}

/* Whether a sequence has nothing of a picture left to compute, or waits for files that may bring it. */
static bool is_behind(const struct stator *s, const struct engine_sequence *q,
                      const struct request_picture *p) {
    return kv_disk_waits(q) || q->done >= p->first + s->run.pictures.places[p->place].size.tokens;
}

stator_status pictures_ready(struct stator *s, stator_error *e) {
    if (tower_of(s) == NULL)
        return STATOR_OK;
    for (uint32_t i = 0; i < s->planning.want.sequences; i++) {
        const struct engine_request *r = s->run.sequences[i].request;
        for (uint32_t k = 0; r != NULL && k < r->n_pictures; k++) {
            struct picture_place *p = &s->run.pictures.places[r->pictures[k].place];
            CHECK(p->holders > 0);
            if (atomic_load(&p->encoded) || step_fill_cancelled(r) ||
                is_behind(s, &s->run.sequences[i], &r->pictures[k]))
                continue;
            stator_status st = encode(s, p, e);
            if (st != STATOR_OK)
                return st;
        }
    }
    return STATOR_OK;
}

/* A negative number is no token. The rows of a picture need none of their own: a block is found by those
 * before it, too. */
const int32_t *pictures_block(const struct stator *s, const struct engine_request *r, uint32_t block,
                              int32_t out[KV_LAYOUT_BLOCK]) {
    const uint32_t from = block * KV_LAYOUT_BLOCK;
    if (r->n_pictures == 0)
        return r->tokens + from;
    memcpy(out, r->tokens + from, KV_LAYOUT_BLOCK * sizeof *out);
    for (uint32_t k = 0; k < r->n_pictures; k++) {
        const struct request_picture *at = &r->pictures[k];
        const struct picture_place *p = &s->run.pictures.places[at->place];
        const uint32_t end = ARITH_MIN(at->first + p->size.tokens, from + KV_LAYOUT_BLOCK);
        for (uint32_t i = ARITH_MAX(at->first, from); i < end; i++)
            out[i - from] = -p->serial;
    }
    return out;
}

uint32_t pictures_words(const struct stator *s, const struct engine_request *r, uint32_t block,
                        uint32_t out[KV_JOBS_WORDS]) {
    const uint32_t from = block * KV_LAYOUT_BLOCK;
    struct sha256 h;
    uint32_t n = KV_LAYOUT_BLOCK;
    memcpy(out, r->tokens + from, KV_LAYOUT_BLOCK * sizeof *out);
    for (uint32_t k = 0; k < r->n_pictures; k++) {
        const struct request_picture *at = &r->pictures[k];
        const struct picture_place *p = &s->run.pictures.places[at->place];
        const uint32_t begin = ARITH_MAX(at->first, from);
        const uint32_t end = ARITH_MIN(at->first + p->size.tokens, from + KV_LAYOUT_BLOCK);
        if (begin >= end)
            continue;
        if (n == KV_LAYOUT_BLOCK) {
            sha256_init(&h);
            sha256_bytes(&h, s->run.pictures.tower, SHA256_BYTES);
        }
        n = KV_JOBS_WORDS;
        sha256_u64(&h, (uint64_t)at->first - from); /* wraps around before the block */
        sha256_bytes(&h, p->hash, SHA256_BYTES);
        for (uint32_t i = begin; i < end; i++)
            out[i - from] = PICTURES_WORD;
    }
    if (n == KV_JOBS_WORDS)
        sha256_final(&h, (uint8_t *)(out + KV_LAYOUT_BLOCK));
    return n;
}

uint32_t pictures_together(const struct stator *s, const struct engine_request *r, uint32_t token,
                           bool *whole) {
    *whole = false;
    if (r->n_pictures == 0 || !tower_sees_both(tower_of(s)))
        return UINT32_MAX;
    for (uint32_t k = 0; k < r->n_pictures; k++) {
        const uint32_t begin = r->pictures[k].first + tokens_before(s);
        const uint32_t end = r->pictures[k].first + s->run.pictures.places[r->pictures[k].place].size.tokens;
        *whole = token >= begin && token < end;
        if (token < end)
            return *whole ? end - token : begin - token;
    }
    return UINT32_MAX;
}

uint32_t pictures_cut(const struct stator *s, const struct engine_request *r, uint32_t token) {
    for (uint32_t k = r->n_pictures; k-- > 0 && tower_sees_both(tower_of(s));) {
        const uint32_t begin = r->pictures[k].first + tokens_before(s);
        const uint32_t end = r->pictures[k].first + s->run.pictures.places[r->pictures[k].place].size.tokens;
        if (token > begin && token < end)
            token = begin / KV_LAYOUT_BLOCK * KV_LAYOUT_BLOCK;
    }
    return token;
}

struct step_place pictures_locate(const struct stator *s, const struct engine_request *r, uint32_t token) {
    uint32_t saved = 0; /* tokens of pictures before it beyond the numbers that they take */
    if (r->n_pictures == 0 || !tower_is_qwen(tower_of(s)))
        return step_writer_text(token);
    for (uint32_t k = 0; k < r->n_pictures && r->pictures[k].first <= token; k++) {
        const struct tower_size *size = &s->run.pictures.places[r->pictures[k].place].size;
        const uint32_t inside = token - r->pictures[k].first, begin = r->pictures[k].first - saved;
        if (inside < size->tokens)
            return (struct step_place){{begin, begin + inside / size->across, begin + inside % size->across}};
        saved += size->tokens - ARITH_MAX(size->across, size->down);
    }
    return step_writer_text(token - saved);
}

void pictures_fill(const struct stator *s, const struct engine_request *r, uint64_t step,
                   struct step_header *h, uint32_t first, uint32_t position, uint32_t n) {
    const size_t width = tower_row_width(tower_of(s));
    for (uint32_t k = 0; k < r->n_pictures; k++) {
        const struct request_picture *at = &r->pictures[k];
        const struct picture_place *p = &s->run.pictures.places[at->place];
        const uint32_t begin = ARITH_MAX(at->first, position);
        const uint32_t end = ARITH_MIN(at->first + p->size.tokens, position + n);
        if (begin >= end)
            continue;
        CHECK(atomic_load(&p->encoded));
        const uint32_t across = p->size.across, each = row_tokens(s, &p->size), lead = tokens_before(s);
        float *rows = step_writer_value(s, 0, s->planning.devices[0].graph.pictures,
                                        step % s->planning.devices[0].model.slots);
        int32_t *ids = (int32_t *)(void *)((uint8_t *)h + h->at_tokens);
        for (uint32_t i = begin; i < end; i++) {
            const uint32_t inside = i - at->first - lead, row = inside / each, column = inside % each;
            const uint32_t token = first + (i - position);
            if (i < at->first + lead || column == across) /* a token of the text model */
                continue;
            memcpy(rows + token * width, (const float *)p->memory + ((size_t)row * across + column) * width,
                   width * sizeof(float));
            ids[token] = GRAPH_PICTURE(s->run.pictures.marker);
        }
    }
}

/* --- public calls */

stator_status stator_get_vision(const stator *s, stator_vision *vision, stator_error *e) {
    ARGUMENTS_NEED(s);
    ARGUMENTS_SIZED(vision, pictures);
    stator_vision all = {0};
    if (tower_of(s) != NULL) {
        if (!s->start.prepared)
            return error_set(e, STATOR_USAGE, "stator_get_vision: call stator_prepare or stator_start first");
        all.pictures = s->planning.pictures.n;
        all.marker = s->run.pictures.marker;
        snprintf(all.text, sizeof all.text, "%s", s->run.pictures.text);
        all.encoded = atomic_load(&s->run.pictures.encoded);
        all.encode_ns = atomic_load(&s->run.pictures.encode_ns);
    }
    ARGUMENTS_WRITE(vision, &all);
    return STATOR_OK;
}

stator_status stator_measure_picture(const stator *s, const stator_picture *picture,
                                     stator_picture_size *size, stator_error *e) {
    ARGUMENTS_NEED(s);
    ARGUMENTS_NEED(picture);
    ARGUMENTS_SIZED(size, tokens);
    if (tower_of(s) == NULL)
        return error_set(e, STATOR_USAGE,
                         "model.vision names no vision tower: set it to the model's mmproj file");
    struct picture_head head;
    struct tower_size seen;
    stator_status st = look(s, picture, 0, &head, &seen, e);
    if (st != STATOR_OK)
        return st;
    const stator_picture_size all = {.width = head.width,
                                     .height = head.height,
                                     .seen_width = seen.width,
                                     .seen_height = seen.height,
                                     .tokens = seen.tokens};
    stator_picture_size out = all;
    ARGUMENTS_WRITE(size, &out);
    return STATOR_OK;
}

stator_status stator_load_picture(stator *s, const stator_picture *picture, uint64_t *loaded,
                                  stator_error *e) {
    ARGUMENTS_NEED(s);
    ARGUMENTS_NEED(picture);
    ARGUMENTS_NEED(loaded);
    *loaded = 0;
    if (!atomic_load(&s->front.started))
        return error_set(e, STATOR_USAGE, "stator_load_picture: call stator_start first");
    if (tower_of(s) == NULL)
        return error_set(e, STATOR_USAGE,
                         "model.vision names no vision tower: set it to the model's mmproj file");
    if (picture->data == NULL)
        return error_set(e, STATOR_USAGE, "stator_load_picture: picture.data is NULL");
    struct picture_place *place = NULL;
    stator_status st = take_one(s, picture, 0, &place, e);
    if (st == STATOR_OK)
        *loaded = number_of(s, place); /* its serial stays while it is held */
    return st;
}

void stator_drop_picture(stator *s, uint64_t loaded) {
    if (s == NULL || loaded == 0)
        return;
    pthread_mutex_lock(&s->run.pictures.lock);
    struct picture_place *p = loaded_place(s, loaded);
    CHECK(p != NULL);
    p->holders--;
    pthread_mutex_unlock(&s->run.pictures.lock);
}
