/* The public calls between start and close, on the driver thread: text to ids and back, submit, poll, cancel.
 */
#include "engine/engine.h"

#include "config/config_table.h"

#include "kernels/kernels.h"

#include <string.h>
#include <time.h>

static stator_status need_started(const struct stator *s, const char *call, stator_error *e) {
    if (!s->started)
        return error_set(e, STATOR_USAGE, "%s: call stator_start first", call);
    return STATOR_OK;
}

static stator_status need_prepared(const struct stator *s, const char *call, stator_error *e) {
    if (!s->prepared)
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
    stator_status st = need_tokenizer(s, "stator_tokenize", e);
    if (st != STATOR_OK)
        return st;
    if (tokenizer_work_bytes(s->tokenizer, length) > s->edge_work_bytes)
        return error_set(e, STATOR_USAGE,
                         "a text of %zu bytes is more than the planned %llu bytes of work memory take: raise "
                         "memory.context, or "
                         "shorten the text",
                         length, (unsigned long long)s->edge_work_bytes);
    uint32_t flags =
        (add_special ? TOKENIZER_ADD_SPECIAL : 0) | (parse_special ? TOKENIZER_PARSE_SPECIAL : 0);
    uint64_t count = 0;
    st = tokenizer_encode(s->tokenizer, text, length, flags, s->edge_work, s->edge_work_bytes, ids, capacity,
                          &count, e);
    *n = count;
    return st;
}

stator_status stator_decode(const stator *s, stator_decoder *d, int32_t id, int special, char *out,
                            size_t capacity, size_t *n, stator_error *e) {
    *n = 0;
    stator_status st = need_tokenizer(s, "stator_decode", e);
    if (st != STATOR_OK)
        return st;
    if (d->size != sizeof *d || d->n_pending > 4)
        return error_set(
            e, STATOR_USAGE,
            "stator_decode: decoder.size must be sizeof(stator_decoder), the rest zero at first");
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

static stator_status check_request(const struct stator *s, const stator_request *r, stator_error *e) {
    if (r->size != sizeof *r)
        return error_set(e, STATOR_USAGE, "stator_submit: request.size must be sizeof(stator_request)");
    if (r->kind != STATOR_GENERATE && r->kind != STATOR_LOGITS)
        return error_set(e, STATOR_USAGE, "stator_submit: unknown kind of request %d", (int)r->kind);
    if (r->n_tokens == 0)
        return error_set(e, STATOR_USAGE, "the prompt is empty: at least one token is needed");
    if (r->tokens == NULL)
        return error_set(e, STATOR_USAGE, "stator_submit: request.tokens is NULL");
    if (r->n_tokens > s->want.context)
        return error_set(e, STATOR_USAGE,
                         "the prompt has %zu tokens, memory.context is %u: raise it, or shorten the prompt",
                         r->n_tokens, s->want.context);
    if (r->kind == STATOR_LOGITS && (r->n_depth != 0 || r->laps > 1))
        return error_set(e, STATOR_USAGE, "stator_submit: n_depth and laps are for STATOR_GENERATE");
    if (r->n_depth >= r->n_tokens)
        return error_set(
            e, STATOR_USAGE,
            "stator_submit: n_depth is %u, the prompt has %zu tokens: at least one must come after",
            r->n_depth, r->n_tokens);
    for (size_t i = 0; i < r->n_tokens; i++)
        if (r->tokens[i] < 0 || (uint32_t)r->tokens[i] >= s->shape->vocab)
            return error_set(e, STATOR_USAGE,
                             "token %zu of the prompt is %d: the model's vocabulary is 0 .. %u", i,
                             r->tokens[i], s->shape->vocab - 1);
    return STATOR_OK;
}

static uint64_t clock_seed(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000007u + (uint64_t)t.tv_nsec;
}

static stator_status resolve_sampling(const struct stator *s, const stator_sampling *w,
                                      struct sampler_settings *out, stator_error *e) {
    const struct config *c = &s->config;
    out->temperature = w->has & STATOR_HAS_TEMPERATURE ? w->temperature : (float)c->sampling.temperature;
    out->top_k = w->has & STATOR_HAS_TOP_K ? w->top_k : (uint32_t)c->sampling.top_k;
    out->top_p = w->has & STATOR_HAS_TOP_P ? w->top_p : (float)c->sampling.top_p;
    out->min_p = w->has & STATOR_HAS_MIN_P ? w->min_p : (float)c->sampling.min_p;
    out->repeat_penalty =
        w->has & STATOR_HAS_REPEAT_PENALTY ? w->repeat_penalty : (float)c->sampling.repeat_penalty;
    out->seed = w->has & STATOR_HAS_SEED ? w->seed : c->sampling.seed;
    if (!(w->has & STATOR_HAS_SEED) && out->seed == CONFIG_SEED_RANDOM)
        out->seed = clock_seed();
    const struct {
        enum config_key key;
        float v;
    } numbers[] = {{CONFIG_SAMPLING_TEMPERATURE, out->temperature},
                   {CONFIG_SAMPLING_TOP_P, out->top_p},
                   {CONFIG_SAMPLING_MIN_P, out->min_p},
                   {CONFIG_SAMPLING_REPEAT_PENALTY, out->repeat_penalty}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        stator_status st = config_table_check_number(numbers[i].key, (double)numbers[i].v, e);
        if (st != STATOR_OK)
            return st;
    }
    if (out->temperature > 0 && out->temperature < 1e-6f)
        out->temperature = 0; /* its reciprocal would overflow; the limit is greedy */
    return STATOR_OK;
}

stator_status stator_check(const stator *s, const stator_request *r, stator_error *e) {
    struct sampler_settings sampling;
    stator_status st = need_prepared(s, "stator_check", e);
    if (st == STATOR_OK)
        st = check_request(s, r, e);
    return st == STATOR_OK ? resolve_sampling(s, &r->sampling, &sampling, e) : st;
}

stator_status stator_submit(stator *s, const stator_request *r, uint64_t *id, stator_error *e) {
    stator_status st = need_started(s, "stator_submit", e);
    if (st == STATOR_OK)
        st = check_request(s, r, e);
    struct sampler_settings sampling;
    if (st == STATOR_OK)
        st = resolve_sampling(s, &r->sampling, &sampling, e);
    if (st != STATOR_OK)
        return st;
    struct engine_request *q = NULL;
    for (uint32_t i = 0; i < s->n_requests && q == NULL; i++)
        if (atomic_load(&s->requests[i].id) == 0)
            q = &s->requests[i];
    if (q == NULL)
        return error_set(e, STATOR_FAILED,
                         "the queue is full: %u requests run or wait; poll until one is done", s->n_requests);
    uint32_t n = (uint32_t)r->n_tokens;
    uint32_t room = s->want.context - n + 1;
    q->kind = r->kind;
    q->ignore_eos = r->ignore_eos != 0;
    q->n_prompt = q->n_tokens = n;
    q->max_new = r->kind == STATOR_LOGITS ? 0 : r->max_new != 0 ? ARITH_MIN(r->max_new, room) : room;
    q->n_depth = r->n_depth;
    q->laps = r->laps;
    q->sampling = sampling;
    memcpy(q->tokens, r->tokens, n * sizeof *q->tokens);
    atomic_store(&q->cancel, 0);
    *id = ++s->next_id;
    atomic_store(&q->id, *id);
    struct engine_command c = {.kind = ENGINE_SUBMIT, .request = (uint32_t)(q - s->requests)};
    bool pushed = ring_push(s->commands, &c);
    CHECK(pushed); /* the ring holds more than there are slots */
    return STATOR_OK;
}

static void give_rows_back(struct stator *s) {
    if (!s->owes_ack)
        return;
    struct engine_command c = {.kind = ENGINE_ACK};
    bool pushed = ring_push(s->commands, &c);
    CHECK(pushed);
    s->owes_ack = false;
}

static void to_public(struct stator *s, const struct engine_event *in, stator_event *out) {
    *out = (stator_event){.size = sizeof *out,
                          .request = in->id,
                          .token = in->token,
                          .position = in->position,
                          .time_ns = in->time_ns};
    switch (in->kind) {
    case ENGINE_TOKEN:
        out->kind = STATOR_EVENT_TOKEN;
        break;
    case ENGINE_LOGITS:
        out->kind = STATOR_EVENT_LOGITS;
        out->logits = in->logits;
        s->owes_ack = in->last_row;
        break;
    default:
        CHECK(in->kind == ENGINE_DONE || in->kind == ENGINE_LAP);
        out->kind = in->kind == ENGINE_DONE ? STATOR_EVENT_DONE : STATOR_EVENT_LAP;
        out->reason = in->reason;
        out->status = in->status;
        out->prompt_ns = in->a;
        out->generate_ns = in->b;
        out->n_prompt = in->n_prompt;
        out->n_generated = in->n_generated;
        memcpy(out->text, in->text, sizeof out->text);
        if (in->kind == ENGINE_DONE)
            s->served.requests++;
        s->served.prompt_tokens += in->n_prompt;
        s->served.prompt_ns += in->a;
        s->served.generated_tokens += in->n_generated;
        s->served.generate_ns += in->b;
        if (in->kind == ENGINE_DONE)
            atomic_store(&s->requests[in->request].id, 0); /* the slot is free again */
        break;
    }
}

stator_status stator_poll(stator *s, uint64_t timeout_ns, stator_event *event, int *have, stator_error *e) {
    *have = 0;
    stator_status st = need_started(s, "stator_poll", e);
    if (st != STATOR_OK)
        return st;
    give_rows_back(s);
    struct engine_event ev;
    bool got = ring_pop(s->events, &ev);
    if (!got && timeout_ns > 0) {
        ring_wait(s->events, timeout_ns);
        got = ring_pop(s->events, &ev);
    }
    while (got && ev.kind == ENGINE_PROGRESS) /* one that came late */
        got = ring_pop(s->events, &ev);
    if (got) {
        to_public(s, &ev, event);
        *have = 1;
    }
    return STATOR_OK;
}

void stator_cancel(stator *s, uint64_t id) {
    if (!atomic_load(&s->started)) {
        atomic_store(&s->cancel_start, 1);
        return;
    }
    for (uint32_t i = 0; i < s->n_requests; i++) {
        uint64_t here = atomic_load(&s->requests[i].id);
        if (here != 0 && (id == 0 || here == id))
            atomic_store(&s->requests[i].cancel, 1);
    }
    ring_wake(s->commands);
}
