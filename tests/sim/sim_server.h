/* One run of the simulator with the server: clients speak HTTP over the simulated sockets of sim_net.h with
 * the real server loop, HTTP parser, API jobs and edge pool, which use the simulated engine. All of it takes
 * turns on one thread, in the order that the seed says.
 *
 * Checked: each text that a client gets against the naive model (sim_text.h); that each request that a client
 * sent whole is answered once, or the connection ends for a reason that the play knows; that errors have a
 * cause; the edge pool; that nothing is held when all have gone; that a server that is asked to end does. */
#ifndef STATOR_TESTS_SIM_SERVER_H
#define STATOR_TESTS_SIM_SERVER_H

#include "sim_net.h"

#include "server/http/edge_pool.h"
#include "server/http/edge_thread.h"
#include "server/http/http_inside.h"
#include "server/openai/api.h"
#include "server/request_log.h"
#include "server/server.h"

enum {
    WEB_CLIENTS = 12,
    WEB_REQUESTS = 3, /* of a connection, one behind the other */
    WEB_TEXT = 4096,
    WEB_OUT = 16384,
    WEB_IN = 65536,
    WEB_TEXTS = 5,
    WEB_STEPS = 40 /* requests of the engine that are known */
};

enum web_kind {
    WEB_WHOLE,
    WEB_STREAM,
    WEB_HEALTH,
    WEB_MODELS,
    WEB_METRICS,
    WEB_UNKNOWN,
    WEB_BAD_JSON,
    WEB_TOO_LONG,
    WEB_GARBAGE
};

struct web_request {
    enum web_kind kind;
    size_t end; /* in the client's output */
    uint32_t n_prompt, n_new;
    char text[WEB_TEXT]; /* the answer that is expected */
};

enum web_manner {
    WEB_READS,  /* at once */
    WEB_SLOW,   /* a few bytes at a time */
    WEB_STALLS, /* not at all before the drain */
    WEB_LEAVES, /* goes away at some time */
    WEB_HALF    /* ends its side behind its requests */
};

struct web_client {
    bool used, ended_side;
    int socket;
    enum web_manner manner;
    uint32_t n_requests, n_answered;
    struct web_request requests[WEB_REQUESTS];
    char out[WEB_OUT];
    size_t n_out, at_out;
    char in[WEB_IN];
    size_t n_in;
    bool closes;  /* the server said that it closes behind the last answer */
    bool excused; /* the server had a reason to refuse it or to cut it off */
};

static struct {
    struct server *server;
    atomic_int signal;
    struct web_client clients[WEB_CLIENTS];
    struct {
        uint32_t n;
        int32_t tokens[SIM_CONTEXT + 1];
    } texts[WEB_TEXTS];
    struct {
        uint64_t id;
        struct sim_text text;
    } steps[WEB_STEPS]; /* what the engine computes */
    struct sampler sampler;
    uint64_t rest_bytes; /* of the pool, with no client */
    uint64_t made;       /* engine's requests */
    bool drains, started, jumps, memory_fails, memory_failed;
    uint32_t comes_in; /* of a hundred turns */
    uint64_t lines, answers, whole, streams, refused, failed, cut, left;
} web;

/* --- the engine's requests */

static const struct sim_text *web_text_of(uint64_t id) {
    for (uint32_t i = 0; i < WEB_STEPS; i++)
        if (web.steps[i].id == id && id != 0)
            return &web.steps[i].text;
    return NULL;
}

static bool web_engine_has(uint64_t id) {
    for (uint32_t i = 0; i < sim.s->front.n_requests; i++)
        if (atomic_load(&sim.s->front.requests[i].id) == id)
            return true;
    return false;
}

stator_status __real_stator_submit(stator *s, const stator_request *q, uint64_t *id, stator_error *e);
stator_status __wrap_stator_submit(stator *s, const stator_request *q, uint64_t *id, stator_error *e);
/* Notes what the devices have to compute for the request. */
stator_status __wrap_stator_submit(stator *s, const stator_request *q, uint64_t *id, stator_error *e) {
    const stator_status st = __real_stator_submit(s, q, id, e);
    if (st != STATOR_OK)
        return st;
    uint32_t i = 0;
    while (i < WEB_STEPS && web.steps[i].id != 0 && web_engine_has(web.steps[i].id))
        i++;
    CHECK(i < WEB_STEPS && q->n_tokens <= SIM_CONTEXT);
    struct sim_text *t = &web.steps[i].text;
    memset(t, 0, sizeof *t);
    web.steps[i].id = *id;
    t->n = (uint32_t)q->n_tokens;
    memcpy(t->tokens, q->tokens, q->n_tokens * sizeof *q->tokens);
    const struct engine_request *r = sim.s->front.requests;
    while (atomic_load(&r->id) != *id)
        r++;
    float logits[SIM_VOCAB];
    sim_text_answer(&sim.shape, &web.sampler, &r->sampling, NULL, r->max_new, t);
    sim_text_logits(&sim.shape, t, t->n - 1, logits);
    web.made++;
    return st;
}

/* The server's thread is this one. */
stator_status __wrap_edge_thread_start(struct edge_thread *t, const char *what, void *(*run)(void *context),
                                       void *context, stator_error *e);
stator_status __wrap_edge_thread_start(struct edge_thread *t, const char *what, void *(*run)(void *context),
                                       void *context, stator_error *e) {
    (void)t;
    (void)what;
    (void)run;
    (void)context;
    (void)e;
    return STATOR_OK;
}

void __wrap_request_log_write(void *context, const struct http_log_line *line);
void __wrap_request_log_write(void *context, const struct http_log_line *line) {
    (void)context;
    web.lines++;
    CHECK(line->status != 0 || line->gone);
}

/* Memory of the edge pool that is refused, once a play says so. */
void *__real_edge_pool_alloc(size_t n);
void *__wrap_edge_pool_alloc(size_t n);
void *__wrap_edge_pool_alloc(size_t n) {
    return web.memory_fails && sim_net_fails() ? NULL : __real_edge_pool_alloc(n);
}

void *__real_edge_pool_zeroed(size_t n, size_t size);
void *__wrap_edge_pool_zeroed(size_t n, size_t size);
void *__wrap_edge_pool_zeroed(size_t n, size_t size) {
    return web.memory_fails && sim_net_fails() ? NULL : __real_edge_pool_zeroed(n, size);
}

void *__real_edge_pool_resize(void *p, size_t n);
void *__wrap_edge_pool_resize(void *p, size_t n);
void *__wrap_edge_pool_resize(void *p, size_t n) {
    return web.memory_fails && sim_net_fails() ? NULL : __real_edge_pool_resize(p, n);
}

/* --- models: attention alone, or with states; with a vocabulary of words, some of which are parts of
 * characters */

static void web_vocabulary(struct gguf_writer *w, uint32_t n) {
    static char texts[SIM_VOCAB][16];
    static const char *pointers[SIM_VOCAB];
    static int32_t types[SIM_VOCAB];
    static float scores[SIM_VOCAB];
    static const char *const firsts[] = {"<unk>",  "<s>",    "</s>",   "<0xC3>",
                                         "<0xA9>", "<0xE2>", "<0x82>", "<0xAC>"};
    for (uint32_t i = 0; i < n; i++) {
        if (i < 8)
            snprintf(texts[i], sizeof texts[i], "%s", firsts[i]);
        else
            snprintf(texts[i], sizeof texts[i], i % 5 == 0 ? "▁w%u\"" : i % 3 == 0 ? "é%u" : "▁w%u", i);
        pointers[i] = texts[i];
        types[i] = i == 0 ? 2 : i < 3 ? 3 : i < 8 ? 6 : 1;
        scores[i] = -(float)i;
    }
    gguf_writer_text(w, "tokenizer.ggml.model", "llama");
    gguf_writer_texts(w, "tokenizer.ggml.tokens", n, pointers);
    gguf_writer_array(w, "tokenizer.ggml.scores", GGUF_F32, n, scores, n * sizeof *scores);
    gguf_writer_array(w, "tokenizer.ggml.token_type", GGUF_I32, n, types, n * sizeof *types);
    gguf_writer_u32(w, "tokenizer.ggml.eos_token_id", 2);
}

static const char *web_model(uint32_t kind) {
    static char paths[2][GGUF_WRITER_PATH];
    static struct gguf_writer writers[2];
    if (paths[kind][0] != '\0')
        return paths[kind];
    struct hybrid_model m = hybrid_model_usual();
    m.interval = kind + 1;
    writers[kind] = gguf_writer_new();
    hybrid_model_write(&writers[kind], m);
    web_vocabulary(&writers[kind], m.vocab);
    gguf_writer_finish(&writers[kind]);
    return gguf_writer_memory_path(&writers[kind], paths[kind]);
}

/* --- what clients send */

__attribute__((format(printf, 2, 3))) static void web_put(struct web_client *c, const char *format, ...) {
    va_list list;
    va_start(list, format);
    const int n = vsnprintf(c->out + c->n_out, sizeof c->out - c->n_out, format, list);
    va_end(list);
    CHECK(n >= 0 && c->n_out + (size_t)n < sizeof c->out);
    c->n_out += (size_t)n;
}

/* The text of an answer, as its reader should see it. */
static void web_decode(const int32_t *tokens, uint32_t n, char out[WEB_TEXT]) {
    stator_decoder d = {.size = sizeof d, .started = 1};
    size_t at = 0;
    for (uint32_t i = 0; i <= n; i++) {
        size_t bytes = 0;
        char piece[256];
        if (stator_decode(sim.s, &d, i < n ? tokens[i] : -1, 0, piece, sizeof piece, &bytes, NULL) !=
            STATOR_OK)
            sim_fail("decode is refused");
        CHECK(at + bytes < WEB_TEXT);
        memcpy(out + at, piece, bytes);
        at += bytes;
    }
    out[at] = '\0';
}

static void web_prompt(struct sim_text *t) {
    const uint32_t text = (uint32_t)sim_below(WEB_TEXTS + 1);
    const uint32_t most = sim.shape.context - 1;
    if (text < WEB_TEXTS) {
        t->n = ARITH_MIN(web.texts[text].n, most - 1);
        t->n = t->n > 0 && sim_below(3) == 0 ? (uint32_t)sim_below(t->n) : t->n;
        memcpy(t->tokens, web.texts[text].tokens, t->n * sizeof *t->tokens);
    }
    for (uint64_t more = 1 + sim_below(sim_below(2) ? 3 : 90); more > 0 && t->n < most; more--)
        t->tokens[t->n++] = (int32_t)(8 + sim_below(4));
}

/* The body of a completion, and the answer to it. */
static void web_completion(struct web_request *q, char *body, size_t size) {
    static struct sim_text t;
    struct sampler_settings set = {0};
    const struct config *config = &sim.s->planning.config;
    size_t at = 0;
    memset(&t, 0, sizeof t);
    web_prompt(&t);
    q->n_prompt = t.n;
#define SAMPLING_NUMBER(name, NAME, ...) set.name = (float)config->sampling.name;
#define SAMPLING_COUNT(name, NAME, ...)  set.name = (uint32_t)config->sampling.name;
#define SAMPLING_WINDOW                  SAMPLING_COUNT
#define SAMPLING_SEED(name, NAME, ...)   set.name = config->sampling.name;
#include "config/sampling.def"
    set.temperature = sim_below(2) ? 0 : 0.75f;
    set.seed = sim_below(100);
    set.top_k = (uint32_t)sim_below(20);
    at += (size_t)snprintf(body + at, size - at, "{\"prompt\":[");
    for (uint32_t i = 0; i < t.n; i++)
        at += (size_t)snprintf(body + at, size - at, "%s%d", i > 0 ? "," : "", t.tokens[i]);
    const uint32_t most = 1 + (uint32_t)sim_below(sim_below(4) ? 12 : SIM_CONTEXT);
    at += (size_t)snprintf(
        body + at, size - at,
        "],\"max_tokens\":%u,\"ignore_eos\":true,\"temperature\":%s,\"seed\":%llu,\"top_k\":%u%s}", most,
        set.temperature > 0 ? "0.75" : "0", (unsigned long long)set.seed, set.top_k,
        q->kind == WEB_STREAM ? ",\"stream\":true" : "");
    CHECK(at < size);
    /* The API cuts max_tokens to the room that the prompt leaves. */
    sim_text_answer(&sim.shape, &web.sampler, &set, NULL, most, &t);
    q->n_new = t.n - q->n_prompt;
    web_decode(t.tokens + q->n_prompt, q->n_new, q->text);
    const uint32_t to = (uint32_t)sim_below(WEB_TEXTS);
    web.texts[to].n = t.n;
    memcpy(web.texts[to].tokens, t.tokens, sizeof t.tokens);
}

static void web_post(struct web_client *c, const char *path, const char *body) {
    const size_t n = strlen(body);
    web_put(c, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n", path);
    if (sim_below(8) == 0)
        web_put(c, "Expect: 100-continue\r\n");
    if (sim_below(4) != 0) {
        web_put(c, "Content-Length: %zu\r\n\r\n%s", n, body);
        return;
    }
    web_put(c, "Transfer-Encoding: chunked\r\n\r\n");
    for (size_t at = 0; at < n;) {
        const size_t wanted = 1 + sim_below(300), some = ARITH_MIN(n - at, wanted);
        web_put(c, "%zx\r\n%.*s\r\n", some, (int)some, body + at);
        at += some;
    }
    web_put(c, "0\r\n\r\n");
}

static void web_make(struct web_client *c, struct web_request *q) {
    static char body[4096];
    const uint64_t what = sim_below(20);
    q->kind = what < 6    ? WEB_WHOLE
              : what < 13 ? WEB_STREAM
                          : (enum web_kind)(WEB_HEALTH + what - 13 > WEB_GARBAGE ? WEB_GARBAGE
                                                                                 : WEB_HEALTH + what - 13);
    switch (q->kind) {
    case WEB_WHOLE:
    case WEB_STREAM:
        web_completion(q, body, sizeof body);
        web_post(c, "/v1/completions", body);
        break;
    case WEB_HEALTH:
        web_put(c, "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        break;
    case WEB_MODELS:
        web_put(c, "GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        break;
    case WEB_METRICS:
        web_put(c, "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        break;
    case WEB_UNKNOWN:
        web_put(c, "GET /nothing HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        break;
    case WEB_BAD_JSON:
        web_post(c, "/v1/completions", "{\"prompt\":[1,2");
        break;
    case WEB_TOO_LONG:
        snprintf(body, sizeof body, "{\"prompt\":[%01000d]}", 0);
        for (size_t i = 11; i < 1011; i++)
            body[i] = i % 2 == 1 ? '9' : ',';
        body[1010] = '9';
        web_post(c, "/v1/completions", body);
        break;
    case WEB_GARBAGE:
        for (uint64_t n = 1 + sim_below(200); n > 0; n--)
            web_put(c, "%c", (char)(33 + sim_below(90)));
        web_put(c, "\r\n\r\n");
        break;
    }
    q->end = c->n_out;
}

/* A reason for which the server may refuse or cut what would be answered otherwise. */
static bool web_may_refuse(void) {
    struct http_figures f;
    struct edge_pool_figures pool;
    http_get_figures(web.server->http, &f);
    edge_pool_get_figures(&pool);
    return sim.faulted || web.drains || !web.started || web.server->phase != SERVER_READY ||
           web.memory_failed || f.connections_most < WEB_CLIENTS || pool.failures > 0 ||
           f.out_of_memory > 0 || web.jumps;
}

static void web_come(void) {
    struct web_client *c = web.clients;
    while (c < web.clients + WEB_CLIENTS && c->used)
        c++;
    if (c == web.clients + WEB_CLIENTS)
        return;
    memset(c, 0, sizeof *c);
    c->socket = sim_connect(sim_below(3) == 0 ? 100 + sim_below(600) : SIM_WINDOW);
    if (c->socket < 0)
        return;
    c->used = true;
    c->excused = web_may_refuse();
    c->manner = sim_below(3) == 0 ? (enum web_manner)(1 + sim_below(WEB_HALF)) : WEB_READS;
    c->n_requests = 1 + (uint32_t)sim_below(WEB_REQUESTS);
    for (uint32_t i = 0; i < c->n_requests; i++) {
        web_make(c, &c->requests[i]);
        if (c->requests[i].kind == WEB_GARBAGE)
            c->n_requests = i + 1;
    }
}

/* --- what they get */

/* A JSON string without its escapes. Its end, behind the closing quote. */
static const char *web_unescape(const char *p, const char *end, char *out, size_t *n, size_t size) {
    while (p < end && *p != '"') {
        unsigned code = 0;
        CHECK(*n + 4 < size);
        if (*p != '\\') {
            out[(*n)++] = *p++;
        } else if (p[1] == 'u' && sscanf(p + 2, "%4x", &code) == 1) {
            if (code < 0x80)
                out[(*n)++] = (char)code;
            else if (code < 0x800) {
                out[(*n)++] = (char)(0xC0 | code >> 6);
                out[(*n)++] = (char)(0x80 | (code & 63));
            } else {
                out[(*n)++] = (char)(0xE0 | code >> 12);
                out[(*n)++] = (char)(0x80 | (code >> 6 & 63));
                out[(*n)++] = (char)(0x80 | (code & 63));
            }
            p += 6;
        } else {
            out[(*n)++] = p[1] == 'n' ? '\n' : p[1] == 't' ? '\t' : p[1] == 'r' ? '\r' : p[1];
            p += 2;
        }
    }
    return p + 1;
}

/* All texts of a completion, or of the events of a stream, one behind the other. */
static size_t web_texts(const char *body, size_t n, char out[WEB_TEXT]) {
    static const char name[] = "\"text\":\"";
    const char *end = body + n;
    size_t at = 0;
    for (const char *p = body; (p = memmem(p, (size_t)(end - p), name, sizeof name - 1)) != NULL;)
        p = web_unescape(p + sizeof name - 1, end, out, &at, WEB_TEXT);
    out[at] = '\0';
    return at;
}

static void web_check_text(const struct web_request *q, const char *body, size_t n, bool whole) {
    static char text[WEB_TEXT];
    const size_t got = web_texts(body, n, text);
    if (whole ? strcmp(text, q->text) != 0 : strncmp(text, q->text, got) != 0)
        sim_fail("a client is told \"%s\", \"%s\" is expected", text, q->text);
}

static bool web_has(const char *body, size_t n, const char *what) {
    return memmem(body, n, what, strlen(what)) != NULL;
}

static void web_check_answer(const struct web_request *q, bool excused, int status, const char *body,
                             size_t n) {
    const bool completes = q->kind == WEB_WHOLE || q->kind == WEB_STREAM;
    web.answers++;
    if (status >= 500 && (q->kind == WEB_HEALTH || excused)) {
        web.failed++;
        return;
    }
    if (status == 500 && completes && web_has(body, n, "finite") && sim.damaged != 0) {
        web.failed++;
        return;
    }
    if (status == 408 && web.jumps) {
        web.cut++;
        return;
    }
    if (status == 429 && completes) {
        web.refused++;
        return;
    }
    const int expected = completes || q->kind <= WEB_METRICS ? 200 : q->kind == WEB_UNKNOWN ? 404 : 400;
    if (status != expected && !(q->kind == WEB_GARBAGE && status >= 400 && status < 600))
        sim_fail("a request of kind %d gets status %d: %.*s", (int)q->kind, status,
                 (int)ARITH_MIN(n, (size_t)300), body);
    if (q->kind == WEB_WHOLE) {
        web.whole++;
        web_check_text(q, body, n, true);
        char usage[128];
        snprintf(usage, sizeof usage, "\"prompt_tokens\":%u,\"completion_tokens\":%u,", q->n_prompt,
                 q->n_new);
        if (!web_has(body, n, "\"finish_reason\":\"length\"") || !web_has(body, n, usage))
            sim_fail("an answer without %s: %.*s", usage, (int)n, body);
    }
    if (q->kind != WEB_STREAM)
        return;
    const bool done = n > 14 && memcmp(body + n - 14, "data: [DONE]\n\n", 14) == 0;
    const bool error = web_has(body, n, "\"error\":{");
    if (done == error)
        sim_fail("a stream ends with neither [DONE] nor an error, or both: %.*s", (int)n, body);
    if (error && !excused && !(sim.damaged != 0 && web_has(body, n, "finite")))
        sim_fail("a stream ends with an error: %.*s", (int)n, body);
    web.streams++;
    web_check_text(q, body, n, done);
}

/* The body of a chunked answer in place of its chunks. Bytes of all; 0: it is not complete. */
static size_t web_dechunk(const char *p, size_t n, char *out, size_t *n_out) {
    size_t at = 0;
    *n_out = 0;
    for (;;) {
        const char *line = memchr(p + at, '\n', n - at);
        if (line == NULL)
            return 0;
        const size_t size = strtoul(p + at, NULL, 16);
        at = (size_t)(line - p) + 1;
        if (n - at < size + 2)
            return 0;
        memcpy(out + *n_out, p + at, size);
        *n_out += size;
        at += size + 2;
        if (size == 0)
            return at;
    }
}

/* Takes the first answer out of what came. False: it is not complete. */
static bool web_take_answer(struct web_client *c) {
    static char body[WEB_IN];
    int status = 0;
    c->in[c->n_in] = '\0';
    const char *end = strstr(c->in, "\r\n\r\n");
    if (end == NULL)
        return false;
    if (sscanf(c->in, "HTTP/1.1 %d ", &status) != 1)
        sim_fail("an answer begins with %.40s", c->in);
    const size_t head = (size_t)(end - c->in) + 4;
    size_t all = head, n = 0;
    if (status != 100) {
        const char *length = strstr(c->in, "Content-Length: ");
        const char *chunked = strstr(c->in, "Transfer-Encoding: chunked");
        const char *closes = strstr(c->in, "Connection: close");
        if (chunked != NULL && chunked < end) {
            const size_t used = web_dechunk(c->in + head, c->n_in - head, body, &n);
            if (used == 0)
                return false;
            all += used;
        } else if (length != NULL && length < end) {
            n = strtoul(length + 16, NULL, 10);
            all += n;
            if (c->n_in < all)
                return false;
            memcpy(body, c->in + head, n);
        } else
            sim_fail("an answer without a length: %.*s", (int)head, c->in);
        if (c->n_answered == c->n_requests)
            sim_fail("an answer to nothing: %.*s", (int)all, c->in);
        struct web_request *q = &c->requests[c->n_answered];
        c->closes = c->closes || (closes != NULL && closes < end);
        if (c->at_out < q->end && !c->closes)
            sim_fail("a request is answered before it was sent");
        web_check_answer(q, c->excused, status, body, n);
        c->n_answered++;
    }
    memmove(c->in, c->in + all, c->n_in - all);
    c->n_in -= all;
    return true;
}

/* What came of a stream whose connection ended is a part of the right text. */
static void web_check_part(struct web_client *c) {
    static char body[WEB_IN];
    size_t n = 0;
    c->in[c->n_in] = '\0';
    const char *end = strstr(c->in, "\r\n\r\n");
    if (c->n_answered == c->n_requests || end == NULL || c->requests[c->n_answered].kind != WEB_STREAM ||
        strncmp(c->in, "HTTP/1.1 200 ", 13) != 0)
        return;
    const size_t head = (size_t)(end - c->in) + 4;
    (void)web_dechunk(c->in + head, c->n_in - head, body, &n);
    const char *last = memrchr(body, '\n', n);
    web_check_text(&c->requests[c->n_answered], body, last != NULL ? (size_t)(last - body) : 0, false);
}

/* The connection is over. */
static void web_end(struct web_client *c, bool left) {
    struct sim_socket *k = &net.sockets[c->socket];
    web_check_part(c);
    const bool all = c->n_answered == c->n_requests;
    const bool refused = k->state == SIM_ENDED_BY_SERVER && c->n_answered == 0 && net.aborted > 0;
    if (!left && !all && !c->closes && !refused && !c->excused)
        sim_fail("a connection ends behind %u of %u answers; %zu of %zu bytes were sent; %zu came: %.*s",
                 c->n_answered, c->n_requests, c->at_out, c->n_out, c->n_in,
                 (int)ARITH_MIN(c->n_in, (size_t)300), c->in);
    web.left += left;
    sim_client_leave(c->socket);
    c->used = false;
}

static void web_send(struct web_client *c) {
    const size_t left = c->n_out - c->at_out;
    if (left == 0) {
        if (c->manner == WEB_HALF && !c->ended_side)
            net.sockets[c->socket].fin = c->ended_side = true;
        return;
    }
    const size_t some = sim_below(3) == 0 ? 1 + sim_below(left) : left;
    c->at_out += sim_client_send(c->socket, c->out + c->at_out, some);
}

static void web_read(struct web_client *c, size_t most) {
    const size_t room = sizeof c->in - 1 - c->n_in;
    c->n_in += sim_client_read(c->socket, c->in + c->n_in, ARITH_MIN(most, room));
    while (c->used && web_take_answer(c))
        ;
}

/* One thing that a client does. drains: it reads all, and does not leave. */
static void web_act(struct web_client *c, bool drains) {
    if (!c->used)
        return;
    c->excused = c->excused || web_may_refuse();
    if (c->manner == WEB_LEAVES && !drains && sim_below(30) == 0) {
        web_end(c, true);
        return;
    }
    if (drains || sim_below(2) == 0)
        web_send(c);
    if (drains || c->manner != WEB_STALLS)
        web_read(c, c->manner == WEB_SLOW && !drains ? 1 + sim_below(40) : WEB_IN);
    const bool over = c->n_answered == c->n_requests;
    if (over && (drains || sim_below(4) == 0))
        web_end(c, false);
    else if (sim_client_at_end(c->socket))
        web_end(c, false);
}

/* --- the run */

static void web_choose(char sets[SIM_SETS][64], const char *list[SIM_SETS]) {
    char engine[SIM_SETS][64];
    const char *some[SIM_SETS];
    sim_choose(engine, some);
    uint32_t n = 0;
    for (; some[n] != NULL; n++)
        snprintf(sets[n], 64, "%s", some[n]);
    web.comes_in = 2 + (uint32_t)sim_below(20);
    web.jumps = sim_below(4) == 0;
    net.fails_in = sim_below(2) ? 0 : (uint32_t)sim_below(60);
    snprintf(sets[n++], 64, "server.max_connections=%u", sim_below(4) ? (uint32_t)WEB_CLIENTS * 2 : 3);
    snprintf(sets[n++], 64, "server.port=0");
    snprintf(sets[n++], 64, "server.page=false");
    snprintf(sets[n++], 64, "server.log_requests=true");
    snprintf(sets[n++], 64, "server.request_timeout=%u", 20 + (uint32_t)sim_below(100));
    snprintf(sets[n++], 64, "sampling.seed=1");
    for (uint32_t i = 0; i < n; i++)
        list[i] = sets[i];
    list[n] = NULL;
    if (sim.fault == SIM_HANG)
        sim.fault = SIM_LOST; /* a jump of the clock would be one, too */
}

static uint64_t web_pool_used(void) {
    struct edge_pool_figures f;
    edge_pool_get_figures(&f);
    return f.used;
}

static void web_check_pool(void) {
    if (!edge_pool_is_whole())
        sim_fail("the edge pool is not whole");
}

static void web_open(const char *model, const char *const *list) {
    struct server_settings settings;
    const struct server_opening opening = {
        .engines = &sim.s, .settings = &settings, .n = 1, .signal = &web.signal};
    stator_error e = {0};
    size_t n = 0;
    while (list[n] != NULL)
        n++;
    if (server_read_settings(model, list, n, &settings, &e) != STATOR_OK ||
        server_open(&opening, &web.server, &e) != STATOR_OK)
        sim_fail("%s", e.text);
    net.listener = web.server->http->fd;
    web.rest_bytes = web_pool_used();
}

static void web_pass_time(void) {
    sim_pass_time();
    if (sim_below(20) == 0)
        sim.now_ns += sim_below(300000000);
    if (web.jumps && sim_below(200) == 0)
        sim.now_ns += sim_below(40) * 1000000000u;
}

static void web_turn(void) {
    const uint32_t what = (uint32_t)sim_below(100);
    if (what < web.comes_in)
        web_come();
    else if (what < 60)
        web_act(&web.clients[sim_below(WEB_CLIENTS)], false);
    else if (what < 75)
        web_pass_time();
    else if (what == 75 && !web.started) {
        web.started = true;
        server_started(web.server, STATOR_OK);
    } else if (what == 76 && sim_below(4) == 0)
        web.memory_failed |= web.memory_fails = sim_below(2) == 0;
    for (uint64_t n = sim_below(4); n > 0; n--)
        (void)sim_loop_once();
    for (uint64_t n = sim_below(3); n > 0; n--)
        sim_engine_round();
    if (sim.round % 16 == 0)
        web_check_pool();
}

static uint32_t web_n_clients(void) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < WEB_CLIENTS; i++)
        n += web.clients[i].used;
    return n;
}

/* Turns in which all clients read, until `over` says so. */
static void web_turns_until(bool (*over)(void), const char *what) {
    for (uint32_t i = 0; !over(); i++, sim.round++) {
        if (i == SIM_BOUND)
            sim_fail("%s, %u clients are left, the engine's thread %s", what, web_n_clients(),
                     eng.next == LOOP_COMMANDS ? "sleeps" : "runs");
        for (uint32_t k = 0; k < WEB_CLIENTS; k++)
            web_act(&web.clients[k], true);
        while (sim_below(4) != 0 && sim_loop_once())
            ;
        sim_engine_round();
        sim_pass_time();
        sim.now_ns += sim_below(20000000);
    }
}

/* The server has nothing to do any more; after a fault its loop may end by itself. */
static bool web_is_quiet(void) {
    struct http_figures f;
    if (net.loop_ended)
        return true;
    http_get_figures(web.server->http, &f);
    return web_n_clients() == 0 && f.connections == 0 && pipeline_is_empty(sim.s) &&
           api_jobs(web.server) == 0 && web_pool_used() <= web.rest_bytes;
}

static bool web_loop_has_ended(void) {
    return net.loop_ended;
}

/* The server is asked to end, perhaps while clients are there. */
static void web_stop(void) {
    stator_error e = {0};
    if (!web.started) {
        web.started = true;
        server_started(web.server, STATOR_OK);
    }
    web.memory_fails = false;
    if (sim_below(2) == 0 && !net.loop_ended)
        web_turns_until(web_is_quiet, "clients do not end");
    if (web.server->phase == SERVER_READY && web_is_quiet() && web_pool_used() != web.rest_bytes)
        sim_fail("the edge pool has %llu bytes in use, %llu before the first client",
                 (unsigned long long)web_pool_used(), (unsigned long long)web.rest_bytes);
    web.drains = true;
    atomic_store(&web.signal, 15);
    web_turns_until(web_loop_has_ended, "the server does not end");
    const stator_status st = server_wait(web.server, &e);
    if (st != STATOR_OK && !(st == STATOR_DEVICE && sim.faulted))
        sim_fail("the server ends with %d, %s", (int)st, e.text);
    web_check_pool();
    server_close(web.server);
    web_check_pool();
}

/* What was cancelled on its way leaves the engine. Nobody polls for it any more. */
static void web_settle(void) {
    stator_event ev = {.size = sizeof ev};
    int have = 1;
    stator_cancel(sim.s, 0);
    for (uint32_t i = 0; i < SIM_BOUND; i++) {
        stator_stats t = {.size = sizeof t};
        while (stator_poll(sim.s, 0, &ev, &have, NULL) == STATOR_OK && have)
            ;
        if (stator_get_stats(sim.s, &t, NULL) == STATOR_OK && t.running + t.waiting + t.ended == 0 &&
            pipeline_is_empty(sim.s))
            return;
        sim_engine_round();
        sim_pass_time();
    }
    sim_fail("requests are left in the engine");
}

/* A run of a script's turns. Everything follows from it. */
static void sim_play(const struct sim_script *script) {
    char sets[SIM_SETS][64];
    const char *list[SIM_SETS];
    memset(&web, 0, sizeof web);
    sim_net_begin();
    sim_begin(script->seed, web_text_of);
    web_choose(sets, list);
    const char *model = web_model((uint32_t)sim_below(2));
    sim_start(model, list, true);
    if (script->faultless) {
        sim.fault = SIM_NONE;
        net.fails_in = 0;
    }
    void *memory = sim_make_sampler(&web.sampler);
    web_open(model, list);
    interpose_reset(INTERPOSE_ABORT);
    for (uint32_t i = 0; i < script->turns && !net.loop_ended; i++) {
        sim.round = i;
        sim_deal(i);
        if (!script->left_out[i])
            web_turn();
    }
    sim_deal(SIM_TURNS);
    web_stop();
    web_settle();
    sim_check_released();
    sim_stop();
    free(memory);
}

#endif
