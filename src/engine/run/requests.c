/* The public calls between start and close, from any thread: text to ids and back, submit, cancel; and poll,
 * from one at a time. */
#include "engine/engine.h"

#include "config/config_table.h"
#include "base/clock.h"
#include "engine/arguments.h"
#include "kernels/kernels.h"
#include "stator_bench.h"

#include <string.h>
#include <time.h>

static stator_status need_started(const struct stator *s, const char *call, stator_error *e) {
    if (!s->front.started)
        return error_set(e, STATOR_USAGE, "%s: call stator_start first", call);
    return STATOR_OK;
}

static stator_status need_prepared(const struct stator *s, const char *call, stator_error *e) {
    if (!s->start.prepared)
        return error_set(e, STATOR_USAGE, "%s: call stator_prepare or stator_start first", call);
    return STATOR_OK;
}

static stator_status need_tokenizer(const struct stator *s, const char *call, stator_error *e) {
    stator_status st = need_prepared(s, call, e);
    if (st != STATOR_OK)
        return st;
    if (s->tokenizer != NULL)
        return STATOR_OK;
    if (e != NULL)
        *e = s->tokenizer_error;
    return s->tokenizer_error.code;
}

stator_status stator_tokenize(const stator *s, const char *text, size_t length, int add_special,
                              int parse_special, int32_t *ids, size_t capacity, size_t *n, stator_error *e) {
    ARGUMENTS_NEED(s);
    ARGUMENTS_NEED(n);
    *n = 0;
    if (length > 0)
        ARGUMENTS_NEED(text);
    if (capacity > 0)
        ARGUMENTS_NEED(ids);
    stator_status st = need_tokenizer(s, "stator_tokenize", e);
    if (st != STATOR_OK)
        return st;
    /* The first says what the second would, where that can't be computed. */
    if (length > s->front.edge_work_bytes ||
        tokenizer_work_bytes(s->tokenizer, length) > s->front.edge_work_bytes)
        return error_set(e, STATOR_USAGE,
                         "a text of %zu bytes is more than the planned %llu bytes of work memory take: raise "
                         "memory.context, or "
                         "shorten the text",
                         length, (unsigned long long)s->front.edge_work_bytes);
    uint32_t flags =
        (add_special ? TOKENIZER_ADD_SPECIAL : 0) | (parse_special ? TOKENIZER_PARSE_SPECIAL : 0);
    uint64_t count = 0;
    pthread_mutex_t *lock =
        (pthread_mutex_t *)&s->front.edge_lock; /* the engine is the caller's in all but that */
    pthread_mutex_lock(lock);
    st = tokenizer_encode(s->tokenizer, text, length, flags, s->front.edge_work, s->front.edge_work_bytes,
                          ids, capacity, &count, e);
    pthread_mutex_unlock(lock);
    *n = count;
    uint64_t unknown = st == STATOR_OK ? tokenizer_count_unknown(s->tokenizer, ids, count) : 0;
    if (unknown > 0)
        log_write(&s->log, STATOR_LOG_WARN,
                  "the unknown token stands %llu times in the text: the model's vocabulary has nothing for "
                  "what is there",
                  (unsigned long long)unknown);
    return st;
}

stator_status stator_decode(const stator *s, stator_decoder *decoder, int32_t id, int special, char *out,
                            size_t capacity, size_t *n, stator_error *e) {
    ARGUMENTS_NEED(s);
    ARGUMENTS_NEED(n);
    *n = 0;
    ARGUMENTS_SIZED(decoder, started);
    if (capacity > 0)
        ARGUMENTS_NEED(out);
    stator_decoder *d = decoder;
    stator_status st = need_tokenizer(s, "stator_decode", e);
    if (st != STATOR_OK)
        return st;
    if (d->n_pending > 4)
        return error_set(e, STATOR_USAGE,
                         "stator_decode: decoder.n_pending is %u: all but the size must be "
                         "zero at first, and is then the library's",
                         d->n_pending);
    uint64_t need = 3 * (tokenizer_longest_piece(s->tokenizer) + 4);
    if (capacity < need)
        return error_set(e, STATOR_USAGE, "stator_decode: the buffer holds %zu bytes, a token may need %llu",
                         capacity, (unsigned long long)need);
    if (id >= (int32_t)tokenizer_vocab(s->tokenizer))
        return error_set(e, STATOR_USAGE, "token %d is outside the vocabulary of %u", id,
                         tokenizer_vocab(s->tokenizer));
    struct tokenizer_stream stream = {.pending = d->n_pending, .started = d->started != 0};
    memcpy(stream.tail, d->pending, sizeof stream.tail);
    *n = tokenizer_stream_next(s->tokenizer, &stream, id, special != 0, out);
    d->n_pending = stream.pending;
    d->started = stream.started;
    memcpy(d->pending, stream.tail, sizeof stream.tail);
    return STATOR_OK;
}

stator_status stator_token_bytes(const stator *s, int32_t id, char *out, size_t capacity, size_t *n,
                                 stator_error *e) {
    ARGUMENTS_NEED(s);
    ARGUMENTS_NEED(n);
    *n = 0;
    if (capacity > 0)
        ARGUMENTS_NEED(out);
    stator_status st = need_tokenizer(s, "stator_token_bytes", e);
    if (st != STATOR_OK)
        return st;
    if (id < 0 || id >= (int32_t)tokenizer_vocab(s->tokenizer))
        return error_set(e, STATOR_USAGE, "token %d is outside the vocabulary of %u", id,
                         tokenizer_vocab(s->tokenizer));
    *n = tokenizer_piece(s->tokenizer, id, true, out, capacity);
    return STATOR_OK;
}

stator_status stator_get_infill_tokens(const stator *s, stator_infill_tokens *tokens, stator_error *e) {
    ARGUMENTS_NEED(s);
    ARGUMENTS_SIZED(tokens, file);
    stator_status st = need_tokenizer(s, "stator_get_infill_tokens", e);
    if (st != STATOR_OK)
        return st;
    const int32_t *ids = tokenizer_infill(s->tokenizer)->ids;
    stator_infill_tokens all = {.prefix = ids[INFILL_PREFIX],
                                .suffix = ids[INFILL_SUFFIX],
                                .middle = ids[INFILL_MIDDLE],
                                .repository = ids[INFILL_REPOSITORY],
                                .file = ids[INFILL_FILE]};
    ARGUMENTS_WRITE(tokens, &all);
    return STATOR_OK;
}

static stator_status check_kind(const struct shape *shape, const stator_request *r, stator_error *e) {
    if (r->kind != STATOR_GENERATE && r->kind != STATOR_LOGITS && r->kind != STATOR_EMBED)
        return error_set(e, STATOR_USAGE, "stator_submit: unknown kind of request %d", (int)r->kind);
    if (r->kind != STATOR_EMBED && shape->pooling != SHAPE_POOL_NONE)
        return error_set(
            e, STATOR_USAGE,
            "this model generates no text: its pooling is \"%s\" (the file's, or model.pooling), "
            "so it makes %s",
            shape_pooling_name(shape->pooling),
            shape_pools(shape) ? "embeddings: `stator embed`, /v1/embeddings"
                               : "scores of documents: /v1/rerank");
    if (r->dimensions == 0)
        return STATOR_OK;
    if (r->kind != STATOR_EMBED || !shape_pools(shape))
        return error_set(e, STATOR_USAGE, "stator_submit: request.dimensions is for embeddings");
    if (r->dimensions > shape->n_embd)
        return error_set(e, STATOR_USAGE, "dimensions is %u: this model's embeddings have %u values",
                         r->dimensions, shape->n_embd);
    return STATOR_OK;
}

/* Of the prompt with its pictures. */
static stator_status check_length(const struct stator *s, const stator_request *r, stator_error *e) {
    uint64_t n = 0;
    if (r->n_tokens > s->planning.want.context)
        return error_set(e, STATOR_USAGE,
                         "the prompt has %zu tokens, memory.context is %u: raise it, or shorten the prompt",
                         r->n_tokens, s->planning.want.context);
    stator_status st = pictures_count(s, r, &n, e);
    if (st == STATOR_OK && n > s->planning.want.context)
        return error_set(
            e, STATOR_USAGE,
            "the prompt has %zu tokens of text and %llu of %zu pictures, memory.context is %u: raise "
            "it, take fewer pictures, or lower vision.max_pixels",
            r->n_tokens - r->n_pictures, (unsigned long long)(n - (r->n_tokens - r->n_pictures)),
            r->n_pictures, s->planning.want.context);
    return st;
}

static stator_status check_request(const struct stator *s, const stator_request *r, stator_error *e) {
    stator_status st = check_kind(s->planning.shape, r, e);
    if (st != STATOR_OK)
        return st;
    if (r->n_tokens == 0)
        return error_set(e, STATOR_USAGE, "the prompt is empty: at least one token is needed");
    if (r->tokens == NULL)
        return error_set(e, STATOR_USAGE, "stator_submit: request.tokens is NULL");
    if (r->logprobs > 1 || r->top_logprobs > STATOR_TOP_LOGPROBS || (r->top_logprobs > 0 && r->logprobs == 0))
        return error_set(
            e, STATOR_USAGE,
            "stator_submit: request.logprobs is %u, request.top_logprobs %u: 0 or 1, and with 1 at "
            "most %d of the likeliest, are expected",
            r->logprobs, r->top_logprobs, STATOR_TOP_LOGPROBS);
    if (r->logprobs && r->kind != STATOR_GENERATE)
        return error_set(e, STATOR_USAGE, "stator_submit: request.logprobs is for STATOR_GENERATE");
    st = check_length(s, r, e);
    if (st != STATOR_OK)
        return st;
    if (r->slot > s->planning.want.sequences)
        return error_set(e, STATOR_USAGE,
                         "stator_submit: request.slot is %u: 1 to memory.sequences (%u), or 0, is "
                         "expected",
                         r->slot, s->planning.want.sequences);
    for (size_t i = 0; i < r->n_tokens; i++)
        if (r->tokens[i] < 0 || (uint32_t)r->tokens[i] >= s->planning.shape->vocab)
            return error_set(e, STATOR_USAGE,
                             "token %zu of the prompt is %d: the model's vocabulary is 0 .. %u", i,
                             r->tokens[i], s->planning.shape->vocab - 1);
    return STATOR_OK;
}

static uint64_t clock_seed(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000007u + (uint64_t)t.tv_nsec;
}

static stator_status check_biases(const struct stator *s, const stator_sampling *w, stator_error *e) {
    if (w->n_logit_bias > STATOR_LOGIT_BIASES)
        return error_set(e, STATOR_USAGE, "logit_bias has %u tokens: at most %d are taken", w->n_logit_bias,
                         STATOR_LOGIT_BIASES);
    if (w->n_logit_bias > 0 && w->logit_bias == NULL)
        return error_set(e, STATOR_USAGE, "stator_submit: request.sampling.logit_bias is NULL");
    for (uint32_t i = 0; i < w->n_logit_bias; i++) {
        const stator_logit_bias *b = &w->logit_bias[i];
        if (b->token < 0 || (uint32_t)b->token >= s->planning.shape->vocab)
            return error_set(e, STATOR_USAGE, "logit_bias names token %d: the model's vocabulary is 0 .. %u",
                             b->token, s->planning.shape->vocab - 1);
        if (!(b->bias >= -1e6f && b->bias <= 1e6f))
            return error_set(e, STATOR_USAGE,
                             "logit_bias of token %d is %g: a number between -1e6 and 1e6 is expected",
                             b->token, (double)b->bias);
    }
    return STATOR_OK;
}

/* name: of a member of request.sampling. */
static stator_status check_tokens(const struct stator *s, const char *name, const int32_t *tokens, size_t n,
                                  stator_error *e) {
    if (n > 0 && tokens == NULL)
        return error_set(e, STATOR_USAGE, "stator_submit: request.sampling.%s is NULL", name);
    for (size_t i = 0; i < n; i++)
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= s->planning.shape->vocab)
            return error_set(e, STATOR_USAGE, "%s names token %d: the model's vocabulary is 0 .. %u", name,
                             tokens[i], s->planning.shape->vocab - 1);
    return STATOR_OK;
}

static stator_status check_forced(const struct stator *s, const char *name, const int32_t *tokens, size_t n,
                                  stator_error *e) {
    if (n > STATOR_FORCED)
        return error_set(e, STATOR_USAGE, "%s has %zu tokens: at most %d are taken", name, n, STATOR_FORCED);
    return check_tokens(s, name, tokens, n, e);
}

static stator_status check_budget(const struct stator *s, const stator_budget *b, stator_error *e) {
    if (b == NULL)
        return STATOR_OK;
    if (b->size != sizeof *b)
        return error_set(e, STATOR_USAGE,
                         "stator_submit: budget.size is %zu: sizeof the struct is expected (%zu)", b->size,
                         sizeof *b);
    stator_status st = check_forced(s, "budget.open", b->open, b->n_open, e);
    if (st == STATOR_OK)
        st = check_forced(s, "budget.close", b->close, b->n_close, e);
    if (st == STATOR_OK)
        st = check_forced(s, "budget.queue", b->queue, b->n_queue, e);
    if (st != STATOR_OK)
        return st;
    if (b->n_queue == 0)
        return error_set(e, STATOR_USAGE, "budget.queue is empty: the tokens that end the part are expected");
    if (b->n_open + b->n_close + b->n_queue > STATOR_FORCED)
        return error_set(e, STATOR_USAGE,
                         "budget has %zu tokens in open, close and queue: at most %d are taken",
                         b->n_open + b->n_close + b->n_queue, STATOR_FORCED);
    return STATOR_OK;
}

static stator_status check_grammar(struct stator *s, const stator_request *r, stator_error *e) {
    const stator_sampling *w = &r->sampling;
    if (w->grammar == NULL && w->n_grammar_after == 0 && w->grammar_open == NULL)
        return STATOR_OK;
    if (!grammar_slots_have(&s->front.grammars, w->grammar) || w->grammar->regex == NULL)
        return error_set(e, STATOR_USAGE,
                         "stator_submit: request.sampling.grammar is no grammar of stator_grammar_compile, "
                         "or was released");
    if (r->kind != STATOR_GENERATE || r->ignore_eos)
        return error_set(e, STATOR_USAGE,
                         "stator_submit: request.sampling.grammar is for STATOR_GENERATE without ignore_eos: "
                         "the answer ends "
                         "where its grammar does");
    if (w->n_grammar_after > STATOR_GRAMMAR_AFTER)
        return error_set(e, STATOR_USAGE, "grammar_after has %zu tokens: at most %d are taken",
                         w->n_grammar_after, STATOR_GRAMMAR_AFTER);
    if (w->grammar_open != NULL && w->n_grammar_after == 0)
        return error_set(e, STATOR_USAGE,
                         "grammar_open needs grammar_after, behind which the grammar begins then");
    stator_status st = check_tokens(s, "grammar_after", w->grammar_after, w->n_grammar_after, e);
    return st == STATOR_OK ? check_tokens(s, "grammar_open", w->grammar_open, w->grammar_open != NULL, e)
                           : st;
}

static stator_status resolve_sampling(const struct stator *s, const stator_sampling *w,
                                      struct sampler_settings *out, stator_error *e) {
    const struct config *c = &s->planning.config;
    stator_status st = STATOR_OK;
#define SAMPLING_NUMBER(name, NAME, ...)                                                                     \
    out->name = w->has & STATOR_HAS_##NAME ? w->name : (float)c->sampling.name;                              \
    if (st == STATOR_OK)                                                                                     \
        st = config_table_check_number(CONFIG_SAMPLING_##NAME, (double)out->name, e);
#define SAMPLING_COUNT(name, NAME, ...)                                                                      \
    out->name = w->has & STATOR_HAS_##NAME ? w->name : (uint32_t)c->sampling.name;
#define SAMPLING_WINDOW SAMPLING_COUNT
#define SAMPLING_SEED(name, NAME, ...)                                                                       \
    out->name = w->has & STATOR_HAS_##NAME ? w->name : c->sampling.name;                                     \
    if (!(w->has & STATOR_HAS_##NAME) && out->name == CONFIG_SEED_RANDOM)                                    \
        out->name = clock_seed();
#include "config/sampling.def"
    if (st != STATOR_OK)
        return st;
    out->n_bias = w->n_logit_bias;
    out->bias = w->logit_bias;
    if (out->temperature > 0 && out->temperature < 1e-6f)
        out->temperature = 0; /* its reciprocal would overflow; the limit is greedy */
    st = check_biases(s, w, e);
    return st == STATOR_OK ? check_budget(s, w->budget, e) : st;
}

stator_status stator_check(const stator *s, const stator_request *request, stator_error *e) {
    ARGUMENTS_NEED(s);
    ARGUMENTS_SIZED(request, n_tokens);
    stator_request r;
    ARGUMENTS_READ(&r, request);
    struct sampler_settings sampling;
    stator_status st = need_prepared(s, "stator_check", e);
    if (st == STATOR_OK)
        st = check_request(s, &r, e);
    if (st == STATOR_OK)
        st = check_grammar((stator *)s, &r, e); /* its lock is the caller's */
    return st == STATOR_OK ? resolve_sampling(s, &r.sampling, &sampling, e) : st;
}

/* A filled slot goes to the engine. */
static void send(stator *s, struct engine_request *q, uint64_t *id) {
    q->submitted_ns = clock_ns();
    *id = ++s->front.last_id;
    atomic_store(&q->id, *id);
    struct engine_command c = {.submit = (uint32_t)(q - s->front.requests)};
    bool pushed = ring_push(s->front.commands, &c);
    CHECK(pushed); /* the ring holds more than there are slots */
}

/* Into a free slot. b: its size is 0 where nothing is measured. */
static void fill_slot(stator *s, struct engine_request *q, const stator_request *r, const stator_bench *b,
                      const struct sampler_settings *sampling, const struct request_picture *pictures) {
    uint32_t n = (uint32_t)r->n_tokens;
    q->n_pictures = (uint32_t)r->n_pictures;
    for (uint32_t i = 0; i < q->n_pictures; i++) {
        q->pictures[i] = pictures[i];
        n += s->run.pictures.places[pictures[i].place].size.tokens - 1;
    }
    uint32_t most_new = s->planning.want.context - n + 1;
    q->kind = r->kind;
    q->ignore_eos = r->ignore_eos != 0;
    q->n_prompt = q->n_tokens = n;
    q->dimensions = r->dimensions;
    q->max_new = r->kind != STATOR_GENERATE ? 0
                 : r->max_new != 0          ? ARITH_MIN(r->max_new, most_new)
                                            : most_new;
    q->n_depth = b->n_depth;
    q->laps = b->laps;
    q->measured = b->size != 0;
    q->guesses = b->guesses;
    q->accept = b->accept;
    q->n_replayed = 0;
    q->sampling = *sampling;
    if (sampling->n_bias > 0)
        memcpy(q->bias, sampling->bias, sampling->n_bias * sizeof *q->bias);
    q->sampling.bias = q->bias;
    forced_set(&q->forced, r->sampling.budget);
    constraint_set(&q->constraint, &r->sampling);
    grammar_slots_hold(&s->front.grammars, r->sampling.grammar);
    pictures_expand(s, r, q->pictures, q->tokens);
    q->logprobs = r->logprobs != 0;
    q->top_logprobs = r->top_logprobs;
    q->slot = r->slot - 1; /* 0: UINT32_MAX */
    q->slots = (struct engine_slot_action){.action = ACTION_NOT};
    memset(&q->shown, 0, sizeof q->shown);
    atomic_store(&q->shown.n_tokens, n);
    q->rows = NULL;
    q->rows_told = 0;
    atomic_store(&q->rows_read, 0);
    outbox_clear(&q->out);
}

/* Under submit_lock. */
static struct engine_request *free_request(stator *s) {
    for (uint32_t i = 0; i < s->front.n_requests; i++)
        if (atomic_load(&s->front.requests[i].id) == 0)
            return &s->front.requests[i];
    return NULL;
}

static stator_status tell_busy(const stator *s, stator_error *e) {
    return error_set(e, STATOR_BUSY,
                     "the queue is full: %u requests run or wait (memory.sequences and server.max_queue); "
                     "poll until one is done",
                     s->front.n_requests);
}

static stator_status submit(stator *s, const stator_request *r, const stator_bench *b, uint64_t *id,
                            stator_error *e) {
    stator_status st = check_request(s, r, e);
    struct sampler_settings sampling;
    if (st == STATOR_OK)
        st = check_grammar(s, r, e);
    if (st == STATOR_OK)
        st = resolve_sampling(s, &r->sampling, &sampling, e);
    struct request_picture pictures[CONFIG_MOST_PICTURES];
    if (st == STATOR_OK)
        st = pictures_take(s, r, pictures, e);
    if (st != STATOR_OK)
        return st;
    pthread_mutex_lock(&s->front.submit_lock);
    struct engine_request *q = free_request(s);
    if (q != NULL) {
        fill_slot(s, q, r, b, &sampling, pictures);
        send(s, q, id);
    }
    pthread_mutex_unlock(&s->front.submit_lock);
    if (q == NULL)
        pictures_give(s, pictures, (uint32_t)r->n_pictures);
    return q != NULL ? STATOR_OK : tell_busy(s, e);
}

/* Tokens of a file: its sum finds accidents, these are somebody's numbers. */
static bool are_known(const struct stator *s, const int32_t *tokens, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= s->planning.shape->vocab)
            return false;
    return true;
}

/* The text that is restored, into the request. */
static stator_status read_save(struct stator *s, struct engine_request *q, stator_error *e) {
    uint64_t bytes = 0;
    stator_status st = kvsave_read(&s->run.kv_disk.jobs.store, q->slots.name, &s->run.kv_disk.root, q->tokens,
                                   s->planning.want.context, &q->n_tokens, &bytes, e);
    if (st != STATOR_OK)
        return st;
    if (q->n_tokens == 0 || !are_known(s, q->tokens, q->n_tokens))
        return error_set(e, STATOR_USAGE, "the file of \"%s\" is damaged: it has no tokens of this model",
                         q->slots.name);
    q->slots.bytes = bytes;
    q->n_prompt = q->n_tokens;
    atomic_store(&q->shown.n_tokens, q->n_tokens);
    return STATOR_OK;
}

static stator_status check_slot(const struct stator *s, const stator_slot *a, stator_error *e) {
    if (s->planning.kv_disk.bytes == 0)
        return error_set(e, STATOR_USAGE,
                         "slots are saved in the folder cache.kv_dir, and the config names none");
    if (a->action != STATOR_SLOT_SAVE && a->action != STATOR_SLOT_RESTORE && a->action != STATOR_SLOT_ERASE)
        return error_set(e, STATOR_USAGE, "stator_slot_submit: unknown action %d", (int)a->action);
    if (a->slot >= s->planning.want.sequences)
        return error_set(e, STATOR_USAGE, "there is no slot %u: memory.sequences is %u, so slots are 0 to %u",
                         a->slot, s->planning.want.sequences, s->planning.want.sequences - 1);
    if (a->action == STATOR_SLOT_ERASE)
        return STATOR_OK;
    ARGUMENTS_NEED(a->name);
    const char *wrong = kvsave_name_is_wrong(a->name);
    return wrong == NULL
               ? STATOR_OK
               : error_set(e, STATOR_USAGE,
                           "the name of a save %s: expected is the name of a file, as in \"chat-1.bin\"",
                           wrong);
}

/* An action is a request that takes part in no step. */
static stator_status fill_action(stator *s, struct engine_request *q, const stator_slot *a, stator_error *e) {
    static const enum engine_action actions[] = {[STATOR_SLOT_SAVE] = ACTION_SAVE,
                                                 [STATOR_SLOT_RESTORE] = ACTION_RESTORE,
                                                 [STATOR_SLOT_ERASE] = ACTION_ERASE};
    const int32_t nothing = 0;
    const stator_request r = {.size = sizeof r, .kind = STATOR_GENERATE, .tokens = &nothing, .n_tokens = 1};
    fill_slot(s, q, &r, &(stator_bench){.laps = 1}, &(struct sampler_settings){0}, NULL);
    q->max_new = 0;
    q->slot = a->slot;
    q->slots = (struct engine_slot_action){.action = actions[a->action]};
    if (a->action != STATOR_SLOT_ERASE)
        snprintf(q->slots.name, sizeof q->slots.name, "%s", a->name);
    return a->action == STATOR_SLOT_RESTORE ? read_save(s, q, e) : STATOR_OK;
}

stator_status stator_slot_submit(stator *s, const stator_slot *slot, uint64_t *id, stator_error *e) {
    ARGUMENTS_NEED(s);
    ARGUMENTS_SIZED(slot, name);
    ARGUMENTS_NEED(id);
    stator_slot a;
    ARGUMENTS_READ(&a, slot);
    stator_status st = need_started(s, "stator_slot_submit", e);
    if (st == STATOR_OK)
        st = check_slot(s, &a, e);
    if (st != STATOR_OK)
        return st;
    pthread_mutex_lock(&s->front.submit_lock);
    struct engine_request *q = free_request(s);
    st = q != NULL ? fill_action(s, q, &a, e) : tell_busy(s, e);
    if (st == STATOR_OK)
        send(s, q, id);
    pthread_mutex_unlock(&s->front.submit_lock);
    return st;
}

stator_status stator_submit(stator *s, const stator_request *request, uint64_t *id, stator_error *e) {
    ARGUMENTS_NEED(s);
    ARGUMENTS_SIZED(request, n_tokens);
    ARGUMENTS_NEED(id);
    stator_request r;
    ARGUMENTS_READ(&r, request);
    stator_status st = need_started(s, "stator_submit", e);
    return st == STATOR_OK ? submit(s, &r, &(stator_bench){.laps = 1}, id, e) : st;
}

stator_status stator_bench_submit(stator *s, const stator_request *request, const stator_bench *bench,
                                  uint64_t *id, stator_error *e) {
    ARGUMENTS_NEED(s);
    ARGUMENTS_SIZED(request, n_tokens);
    ARGUMENTS_SIZED(bench, laps);
    ARGUMENTS_NEED(id);
    stator_request r;
    ARGUMENTS_READ(&r, request);
    stator_status st = need_started(s, "stator_bench_submit", e);
    if (st != STATOR_OK)
        return st;
    if (r.kind != STATOR_GENERATE)
        return error_set(e, STATOR_USAGE, "stator_bench_submit: n_depth and laps are for STATOR_GENERATE");
    if (bench->n_depth >= r.n_tokens)
        return error_set(
            e, STATOR_USAGE,
            "stator_bench_submit: n_depth is %u, the prompt has %zu tokens: at least one must come after",
            bench->n_depth, r.n_tokens);
    stator_bench b;
    ARGUMENTS_READ(&b, bench);
    if (b.guesses > STATOR_BENCH_REPLAY || !(b.accept >= 0 && b.accept <= 1))
        return error_set(e, STATOR_USAGE,
                         "stator_bench_submit: guesses is %d, accept %g: one of stator_bench_guesses, and a "
                         "number from 0 to 1, are expected",
                         (int)b.guesses, (double)b.accept);
    if (b.guesses == STATOR_BENCH_REPLAY && s->planning.want.guesses == 0)
        return error_set(
            e, STATOR_USAGE,
            "stator_bench_submit: draft tokens are to be tested, but speculation.mode is \"off\"");
    return submit(s, &r, &b, id, e);
}

/* The row of logits that the last poll gave out has been read. */
static void give_row_back(struct stator *s) {
    if (s->front.in_hand == NULL)
        return;
    atomic_fetch_add(&s->front.in_hand->rows_read, 1);
    s->front.in_hand = NULL;
    ring_wake(s->front.commands);
}

/* The end was told: the slot is free again. */
static void free_slot(struct stator *s, struct engine_request *r) {
    struct engine_rows *rows = r->rows;
    CHECK(atomic_load(&r->id) != 0 && (rows == NULL || atomic_load(&rows->taken)));
    grammar_slots_drop(&s->front.grammars, r->constraint.grammar);
    r->constraint.grammar = NULL;
    pictures_give(s, r->pictures, r->n_pictures);
    atomic_store(&r->id, 0);
    if (rows != NULL) {
        atomic_store(&rows->taken, false);
        ring_wake(s->front.commands); /* somebody may wait for them */
    }
}

static bool is_held(const struct engine_request *r, uint64_t id) {
    return atomic_load(&r->held) == id && atomic_load(&r->cancelled) != id;
}

static void to_public(const struct outbox_event *in, uint64_t id, stator_event *out) {
    CHECK(id != 0 && in->n_top <= STATOR_TOP_LOGPROBS);
    *out = (stator_event){.request = id,
                          .kind = in->kind,
                          .token = in->token,
                          .position = in->position,
                          .logits = in->logits,
                          .reason = in->reason,
                          .status = in->status,
                          .prompt_ns = in->prompt_ns,
                          .generate_ns = in->generate_ns,
                          .n_prompt = in->n_prompt,
                          .n_generated = in->n_generated,
                          .time_ns = in->time_ns,
                          .queue_ns = in->queue_ns,
                          .logprob = in->logprob,
                          .n_top = in->n_top,
                          .n_cached = in->n_cached,
                          .n_guessed = in->n_guessed,
                          .n_kept = in->n_kept,
                          .n_values = in->n_values,
                          .slot = in->slot,
                          .n_bytes = in->n_bytes};
    memcpy(out->top, in->top, in->n_top * sizeof *out->top);
}

/* The next event of those who have rung. */
static bool take(struct stator *s, stator_event *out) {
    for (uint32_t i = 0; bell_next(&s->front.bell, &i);) {
        CHECK(i < s->front.n_requests);
        struct engine_request *r = &s->front.requests[i];
        uint64_t id = atomic_load(&r->id);
        struct outbox_event ev;
        bool last = false;
        bool wake = false;
        if (id == 0 || is_held(r, id) || !outbox_pop(&r->out, &ev, &last, &wake))
            continue;
        to_public(&ev, id, out);
        if (wake)
            ring_wake(s->front.commands);
        if (ev.kind == STATOR_EVENT_LOGITS)
            s->front.in_hand = r;
        if (last) {
            memcpy(out->text, r->out.end_text, sizeof out->text);
            free_slot(s, r);
        } else if (!outbox_is_empty(&r->out)) {
            bell_keep(&s->front.bell, i);
        }
        return true;
    }
    return false;
}

/* take, once it has let the descriptor fall silent. */
static bool take_last(struct stator *s, stator_event *out) {
    if (!bell_quiet(&s->front.bell))
        return false;
    bool got = take(s, out);
    if (got)
        bell_signal_fd(&s->front.bell);
    return got;
}

static bool wait_for_event(struct stator *s, uint64_t timeout_ns, stator_event *out) {
    uint64_t begin = timeout_ns == UINT64_MAX ? 0 : clock_ns();
    for (;;) {
        uint32_t since = bell_now(&s->front.bell);
        if (take(s, out) || take_last(s, out))
            return true;
        uint64_t left = UINT64_MAX;
        if (timeout_ns != UINT64_MAX) {
            uint64_t passed = clock_ns() - begin;
            if (passed >= timeout_ns)
                return false;
            left = timeout_ns - passed;
        }
        bell_wait(&s->front.bell, since, left);
    }
}

stator_status stator_poll(stator *s, uint64_t timeout_ns, stator_event *event, int *have, stator_error *e) {
    ARGUMENTS_NEED(s);
    ARGUMENTS_NEED(have);
    *have = 0;
    ARGUMENTS_SIZED(event, request);
    stator_status st = need_started(s, "stator_poll", e);
    if (st != STATOR_OK)
        return st;
    if (atomic_exchange(&s->front.polled, true))
        return error_set(e, STATOR_USAGE, "stator_poll: another thread is in this call: one at a time polls");
    give_row_back(s);
    stator_event told;
    bool got =
        take(s, &told) || (timeout_ns == 0 ? take_last(s, &told) : wait_for_event(s, timeout_ns, &told));
    atomic_store(&s->front.polled, false);
    if (got)
        ARGUMENTS_WRITE(event, &told);
    *have = got;
    return STATOR_OK;
}

int stator_event_fd(stator *s) {
    if (s == NULL || !atomic_load(&s->front.started))
        return -1;
    bell_want_fd(&s->front.bell);
    return s->front.bell.fd;
}

/* Notes the id in a slot's field, unless a later one is there. */
static void note(_Atomic uint64_t *field, uint64_t id) {
    uint64_t was = atomic_load(field);
    while (was < id && !atomic_compare_exchange_weak(field, &was, id))
        ;
}

void stator_cancel(stator *s, uint64_t id) {
    if (s == NULL)
        return;
    if (!atomic_load(&s->front.started)) {
        if (id == 0)
            atomic_store(&s->start.cancel_start, 1);
        return;
    }
    for (uint32_t i = 0; i < s->front.n_requests; i++) {
        struct engine_request *r = &s->front.requests[i];
        uint64_t here = atomic_load(&r->id);
        if (here == 0 || (id != 0 && here != id))
            continue;
        note(&r->cancelled, here);
        bell_ring(&s->front.bell, i); /* it is held no longer */
    }
    ring_wake(s->front.commands);
}

stator_status stator_hold(stator *s, uint64_t id, int on, stator_error *e) {
    ARGUMENTS_NEED(s);
    stator_status st = need_started(s, "stator_hold", e);
    if (st != STATOR_OK)
        return st;
    for (uint32_t i = 0; i < s->front.n_requests; i++) {
        struct engine_request *r = &s->front.requests[i];
        uint64_t same = id;
        if (id == 0 || atomic_load(&r->id) != id)
            continue;
        if (on)
            note(&r->held, id);
        else if (atomic_compare_exchange_strong(&r->held, &same, 0))
            bell_ring(&s->front.bell, i);
        return STATOR_OK;
    }
    return error_set(e, STATOR_USAGE,
                     "stator_hold: there is no request %llu: its end was polled, or it never was",
                     (unsigned long long)id);
}
