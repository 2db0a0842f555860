/* OpenAI's API over the real engine, without sockets (fake_http.h): answers are the engine's, whatever
 * readers, clients and neighbours do, and nothing is left behind. */
#include "engine_harness.h"
#include "fake_http.h"

#include "base/clock.h"
#include "server/openai/api.h"
#include "server/http/edge_pool.h"

#include <jansson.h>
#include <time.h>

#define DEMO "configs/demo.gguf"
#define POOL (16u << 20)

static struct server server;
static void *memory;

static size_t used(void) {
    struct edge_pool_figures f;
    edge_pool_get_figures(&f);
    return f.used;
}

static void open_api(const char *const *sets) {
    stator_error e = {0};
    memory = aligned_alloc(4096, POOL);
    assert_non_null(memory);
    edge_pool_init(memory, POOL);
    edge_pool_serve_libraries();
    memset(&server, 0, sizeof server);
    server.engine = harness_start(DEMO, sets);
    server.info.size = sizeof server.info;
    assert_int_equal(stator_get_info(server.engine, &server.info, NULL), STATOR_OK);
    server.settings.default_max_tokens = 24;
    server.settings.refuse_unknown = true;
    server.settings.sampling.seed = 7;
    if (api_open(&server, &e) != STATOR_OK)
        fail_msg("%s", e.text);
}

static void close_api(void) {
    api_close(&server);
    stator_close(server.engine);
    free(memory);
}

static const char *const demo[] = {"memory.context=256",
                                   "memory.batch=32",
                                   "memory.sequences=4",
                                   "cpu.threads=1",
                                   "server.max_queue=4",
                                   "sampling.seed=7",
                                   NULL};

/* One turn of the loop: the engine's events; readers take `eat` bytes. */
static void turn(struct http_exchange *xs, size_t n, size_t eat) {
    struct timespec pause = {.tv_nsec = 200000};
    api_poll(&server);
    for (size_t i = 0; i < n; i++)
        fake_read(&xs[i], eat);
    nanosleep(&pause, NULL);
}

static void finish(struct http_exchange *xs, size_t n) {
    for (int i = 0; i < 200000; i++) {
        bool over = true;
        for (size_t k = 0; k < n; k++)
            over = over && xs[k].over;
        if (over)
            return;
        turn(xs, n, SIZE_MAX);
    }
    fail_msg("no end");
}

/* All requests are gone from the engine. */
static void quiet(void) {
    for (int i = 0; i < 200000; i++) {
        stator_stats stats = {.size = sizeof stats};
        assert_int_equal(stator_get_stats(server.engine, &stats, NULL), STATOR_OK);
        if (stats.running + stats.waiting + stats.ended == 0)
            return;
        turn(NULL, 0, 0);
    }
    fail_msg("requests are left");
}

static json_t *json_of(const char *text, size_t n) {
    json_error_t why;
    json_t *json = json_loadb(text, n, 0, &why);
    if (json == NULL)
        fail_msg("%s: %.*s", why.text, (int)n, text);
    return json;
}

static const json_t *choice(const json_t *answer, size_t i) {
    return json_array_get(json_object_get(answer, "choices"), i);
}

/* The text that the engine itself generates. */
static void reference(const char *prompt, int bos, uint32_t max_new, float temperature, uint64_t seed,
                      char *out, size_t size, struct harness_text *t) {
    int32_t ids[256];
    size_t n = 0, at = 0;
    assert_int_equal(stator_tokenize(server.engine, prompt, strlen(prompt), bos, 1, ids, 256, &n, NULL),
                     STATOR_OK);
    *t = (struct harness_text){.id = harness_submit(server.engine, ids, n, max_new, temperature, seed)};
    harness_collect(server.engine, t, 1);
    stator_decoder d = {.size = sizeof d, .started = 1};
    for (uint32_t i = 0; i <= t->n; i++) {
        char piece[1024];
        size_t bytes = 0;
        assert_int_equal(
            stator_decode(server.engine, &d, i < t->n ? t->ids[i] : -1, 0, piece, sizeof piece, &bytes, NULL),
            STATOR_OK);
        assert_true(at + bytes < size);
        memcpy(out + at, piece, bytes);
        at += bytes;
    }
    out[at] = '\0';
}

#define PROMPT "Once upon a time, there was a little fox"

/* The text of a stream's events, member by member; checks that each is JSON and the last is [DONE]. */
struct stream {
    char text[8192], reasoning[2048], finish[16];
    size_t events, comments, tokens;
    bool done, usage;
};

static void read_stream(const struct http_exchange *x, struct stream *s) {
    memset(s, 0, sizeof *s);
    for (const char *p = x->text; *p != '\0';) {
        const char *end = strstr(p, "\n\n");
        assert_non_null(end);
        assert_false(s->done);
        if (p[0] == ':') {
            s->comments++;
        } else if (strncmp(p, "data: [DONE]", 12) == 0) {
            s->done = true;
        } else {
            assert_memory_equal(p, "data: ", 6);
            json_t *json = json_of(p + 6, (size_t)(end - p) - 6);
            const json_t *c = choice(json, 0), *delta = json_object_get(c, "delta");
            const char *text = json_string_value(
                json_object_get(delta != NULL ? delta : c, delta != NULL ? "content" : "text"));
            const char *finish_reason = json_string_value(json_object_get(c, "finish_reason"));
            s->tokens += json_array_size(json_object_get(json_object_get(c, "logprobs"), "content"));
            strcat(s->text, text != NULL ? text : "");
            if (finish_reason != NULL)
                snprintf(s->finish, sizeof s->finish, "%s", finish_reason);
            s->usage = s->usage || json_is_object(json_object_get(json, "usage"));
            s->events++;
            json_decref(json);
        }
        p = end + 2;
    }
}

static void answers_are_the_engines(void **state) {
    (void)state;
    char expected[4096];
    struct harness_text t;
    struct http_exchange x;
    open_api(demo);
    reference(PROMPT, 1, 40, 0.9f, 11, expected, sizeof expected, &t);
    const size_t before = used();
    static const char body[] =
        "{\"prompt\": \"" PROMPT "\", \"max_tokens\": 40, \"temperature\": 0.9, \"seed\": 11, "
        "\"ignore_eos\": true%s}";
    char with[512];
    snprintf(with, sizeof with, body, "");
    fake_start(&x, "/v1/completions", with);
    finish(&x, 1);
    assert_int_equal(x.status, 200);
    json_t *json = json_of(x.text, x.n);
    assert_string_equal(json_string_value(json_object_get(choice(json, 0), "text")), expected);
    assert_string_equal(json_string_value(json_object_get(choice(json, 0), "finish_reason")), "length");
    assert_int_equal(json_integer_value(json_object_get(json_object_get(json, "usage"), "completion_tokens")),
                     40);
    assert_string_equal(x.account.reason, "length");
    assert_int_equal(x.account.n_generated, 40);
    json_decref(json);
    free(x.text);
    snprintf(with, sizeof with, body, ", \"stream\": true, \"stream_options\": {\"include_usage\": true}");
    fake_start(&x, "/v1/completions", with);
    finish(&x, 1);
    struct stream s;
    read_stream(&x, &s);
    assert_string_equal(s.text, expected);
    assert_string_equal(s.finish, "length");
    assert_true(s.done && s.usage);
    free(x.text);
    assert_int_equal(used(), before);
    assert_int_equal(api_jobs(&server), 0);
    close_api();
}

/* A body: the prompt, ignore_eos, and these fields. */
static const char *body_of(const char *fields) {
    static char body[4][2048];
    static int at;
    char *out = body[at++ % 4];
    snprintf(out, sizeof body[0], "{\"prompt\": \"" PROMPT "\", \"ignore_eos\": true, %s}", fields);
    return out;
}

static json_t *whole(const char *fields) {
    struct http_exchange x;
    fake_start(&x, "/v1/completions", body_of(fields));
    finish(&x, 1);
    if (x.status != 200)
        fail_msg("%s: %d %s", fields, x.status, x.text);
    json_t *json = json_of(x.text, x.n);
    free(x.text);
    return json;
}

/* Stop strings are cut out of the engine's own text, at every place of it, streamed and whole. */
static void stop_strings(void **state) {
    (void)state;
    char expected[4096];
    struct harness_text t;
    open_api(demo);
    reference(PROMPT, 1, 40, 0, 0, expected, sizeof expected, &t);
    const size_t n = strlen(expected);
    for (size_t at = 0; at + 4 < n; at += 3)
        for (size_t length = 1; length <= 7 && at + length <= n; length += 3) {
            char stop_text[16], fields[256], cut[4096];
            snprintf(stop_text, sizeof stop_text, "%.*s", (int)length, expected + at);
            if (strpbrk(stop_text, "\"\\\n") != NULL)
                continue;
            *strstr(strcpy(cut, expected), stop_text) = '\0';
            snprintf(fields, sizeof fields,
                     "\"max_tokens\": 40, \"temperature\": 0, \"logprobs\": 0, \"stop\": [\"%s\", "
                     "\"zzzz\"]",
                     stop_text);
            json_t *json = whole(fields);
            const json_t *c = choice(json, 0),
                         *offsets = json_object_get(json_object_get(c, "logprobs"), "text_offset");
            assert_string_equal(json_string_value(json_object_get(c, "text")), cut);
            assert_string_equal(json_string_value(json_object_get(c, "finish_reason")), "stop");
            for (size_t i = 0; i < json_array_size(offsets); i++)
                assert_true((size_t)json_integer_value(json_array_get(offsets, i)) < strlen(cut));
            json_decref(json);
            struct http_exchange x;
            struct stream s;
            strcat(fields, ", \"stream\": true");
            fake_start(&x, "/v1/completions", body_of(fields));
            finish(&x, 1);
            read_stream(&x, &s);
            assert_string_equal(s.text, cut);
            assert_string_equal(s.finish, "stop");
            free(x.text);
        }
    quiet();
    close_api();
}

/* n answers have the seeds seed, seed + 1, ..; several prompts are answered in order. */
static void several_answers(void **state) {
    (void)state;
    char expected[3][4096];
    struct harness_text t;
    open_api(demo);
    for (int i = 0; i < 3; i++)
        reference(PROMPT, 1, 20, 1, 11 + (uint64_t)i, expected[i], sizeof expected[0], &t);
    json_t *json = whole("\"max_tokens\": 20, \"temperature\": 1, \"seed\": 11, \"n\": 3");
    assert_int_equal(json_array_size(json_object_get(json, "choices")), 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(json_integer_value(json_object_get(choice(json, i), "index")), i);
        assert_string_equal(json_string_value(json_object_get(choice(json, i), "text")), expected[i]);
    }
    const json_t *usage = json_object_get(json, "usage");
    assert_int_equal(json_integer_value(json_object_get(usage, "completion_tokens")), 60);
    assert_true(json_integer_value(json_object_get(usage, "prompt_tokens")) < 30);
    json_decref(json);
    /* Without a seed the config's counts, and its followers. */
    reference(PROMPT, 1, 20, 1, 8, expected[1], sizeof expected[0], &t);
    json = whole("\"max_tokens\": 20, \"temperature\": 1, \"n\": 2");
    assert_string_equal(json_string_value(json_object_get(choice(json, 1), "text")), expected[1]);
    json_decref(json);
    struct http_exchange x;
    fake_start(&x, "/v1/completions",
               "{\"prompt\": [\"The cat\", \"" PROMPT
               "\"], \"n\": 2, \"max_tokens\": 20, \"temperature\": 1, \"seed\": "
               "11, \"ignore_eos\": true, \"echo\": true}");
    finish(&x, 1);
    json = json_of(x.text, x.n);
    assert_int_equal(json_array_size(json_object_get(json, "choices")), 4);
    char echoed[8192];
    snprintf(echoed, sizeof echoed, "%s%s", PROMPT, expected[0]);
    assert_string_equal(json_string_value(json_object_get(choice(json, 2), "text")), echoed);
    reference("The cat", 1, 20, 1, 12, expected[1], sizeof expected[0], &t);
    snprintf(echoed, sizeof echoed, "The cat%s", expected[1]);
    assert_string_equal(json_string_value(json_object_get(choice(json, 1), "text")), echoed);
    json_decref(json);
    free(x.text);
    close_api();
}

/* -1 is another seed each time, whatever the config's; other negative numbers are seeds. */
static void negative_seeds(void **state) {
    (void)state;
    char expected[4096], first[4096] = "";
    struct harness_text t;
    open_api(demo);
    reference(PROMPT, 1, 60, 1, UINT64_MAX - 1, expected, sizeof expected, &t);
    json_t *json = whole("\"max_tokens\": 60, \"temperature\": 1, \"seed\": -2");
    assert_string_equal(json_string_value(json_object_get(choice(json, 0), "text")), expected);
    json_decref(json);
    for (int i = 0; i < 3; i++) {
        json = whole("\"max_tokens\": 60, \"temperature\": 1, \"seed\": -1, \"n\": 2");
        const char *text = json_string_value(json_object_get(choice(json, 0), "text"));
        const char *other = json_string_value(json_object_get(choice(json, 1), "text"));
        assert_true(strcmp(text, first) != 0 && strcmp(text, other) != 0);
        snprintf(first, sizeof first, "%s", text);
        json_decref(json);
    }
    close_api();
}

static void logprobs_are_the_engines(void **state) {
    (void)state;
    int32_t ids[64];
    size_t n = 0;
    open_api(demo);
    assert_int_equal(stator_tokenize(server.engine, PROMPT, strlen(PROMPT), 1, 1, ids, 64, &n, NULL),
                     STATOR_OK);
    stator_request q = {.size = sizeof q,
                        .kind = STATOR_GENERATE,
                        .tokens = ids,
                        .n_tokens = n,
                        .max_new = 10,
                        .ignore_eos = 1,
                        .logprobs = 1,
                        .top_logprobs = 3};
    q.sampling =
        (stator_sampling){.has = STATOR_HAS_TEMPERATURE | STATOR_HAS_SEED, .temperature = 1, .seed = 5};
    uint64_t id = 0;
    stator_event evs[10];
    assert_int_equal(stator_submit(server.engine, &q, &id, NULL), STATOR_OK);
    for (size_t got = 0;;) {
        stator_event ev = {.size = sizeof ev};
        int have = 0;
        assert_int_equal(stator_poll(server.engine, UINT64_MAX, &ev, &have, NULL), STATOR_OK);
        if (have && ev.kind == STATOR_EVENT_DONE)
            break;
        if (have)
            evs[got++] = ev;
    }
    json_t *json = whole("\"max_tokens\": 10, \"temperature\": 1, \"seed\": 5, \"logprobs\": 3");
    const json_t *l = json_object_get(choice(json, 0), "logprobs");
    for (size_t i = 0; i < 10; i++) {
        assert_true((float)json_real_value(json_array_get(json_object_get(l, "token_logprobs"), i)) ==
                    evs[i].logprob);
        const json_t *top = json_array_get(json_object_get(l, "top_logprobs"), i);
        for (uint32_t k = 0; k < 3; k++) {
            char piece[256];
            size_t bytes = 0;
            assert_int_equal(
                stator_token_bytes(server.engine, evs[i].top[k].token, piece, sizeof piece - 1, &bytes, NULL),
                STATOR_OK);
            piece[bytes] = '\0';
            const json_t *v = json_object_get(top, piece);
            if (v != NULL) /* else it is a part of a character */
                assert_true((float)json_real_value(v) == evs[i].top[k].logprob);
        }
    }
    json_decref(json);
    close_api();
}

/* A reader of a few bytes at a time gets the same text, and a neighbour does not wait for it. */
static void slow_readers(void **state) {
    (void)state;
    char expected[4096];
    struct harness_text t;
    struct http_exchange xs[2];
    struct stream s;
    open_api(demo);
    reference(PROMPT, 1, 100, 0, 0, expected, sizeof expected, &t);
    const size_t before = used();
    const char *body = body_of("\"max_tokens\": 100, \"temperature\": 0, \"stream\": true, \"logprobs\": 5");
    fake_start(&xs[0], "/v1/completions", body);
    xs[0].window = 700; /* less than an event */
    fake_start(&xs[1], "/v1/completions", body);
    for (int i = 0; i < 200000 && !xs[1].over; i++)
        turn(&xs[1], 1, SIZE_MAX); /* nobody reads the first one */
    assert_true(xs[1].over && !xs[0].over);
    stator_stats stats = {.size = sizeof stats};
    for (int i = 0; i < 50; i++)
        turn(xs, 0, 0);
    assert_int_equal(stator_get_stats(server.engine, &stats, NULL), STATOR_OK);
    assert_int_equal(stats.running, 1);
    assert_true(stats.tokens_out < 280); /* the held one waits: of three times 100 */
    for (int i = 0; i < 200000 && !xs[0].over; i++)
        turn(&xs[0], 1, 300);
    for (int i = 0; i < 2; i++) {
        read_stream(&xs[i], &s);
        assert_string_equal(s.text, expected);
        assert_true(s.done);
        free(xs[i].text);
    }
    quiet();
    assert_int_equal(used(), before);
    close_api();
}

static void clients_leave_at_any_step(void **state) {
    (void)state;
    uint64_t seed = testing_seed("leave");
    open_api(demo);
    const size_t before = used();
    for (int round = 0; round < 60; round++) {
        struct http_exchange xs[4];
        const size_t n = 1 + testing_below(&seed, 4);
        for (size_t i = 0; i < n; i++)
            fake_start(&xs[i], "/v1/completions",
                       testing_below(&seed, 2) ? body_of("\"max_tokens\": 60, \"stream\": true, \"n\": 2")
                                               : body_of("\"max_tokens\": 60, \"logprobs\": 2"));
        for (uint64_t turns = testing_below(&seed, 40); turns > 0; turns--)
            turn(xs, n, SIZE_MAX);
        for (size_t i = 0; i < n; i++) {
            fake_leave(&xs[i]);
            free(xs[i].text);
        }
        assert_int_equal(api_jobs(&server), 0);
        if (round % 8 == 0) {
            quiet();
            assert_int_equal(used(), before);
        } else {
            api_poll(&server);
        }
        quiet();
    }
    assert_int_equal(used(), before);
    close_api();
}

static void expect_error(const char *path, const char *body, int status, const char *says) {
    struct http_exchange x;
    fake_start(&x, path, body);
    if (!x.over)
        finish(&x, 1);
    if (x.status != status || strstr(x.text, says) == NULL)
        fail_msg("%s: %d %s", body, x.status, x.text);
    free(x.text);
}

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    open_api(demo);
    const size_t before = used();
    expect_error("/v1/completions", body_of("\"max_tokens\": 1000"), 400, "together 10");
    expect_error("/v1/completions", body_of("\"max_tokens\": 1000"), 400, "holds 256 (memory.context)");
    expect_error("/v1/completions", body_of("\"n\": 9"), 400, "9 answers are asked for");
    expect_error("/v1/chat/completions", "{\"messages\": []}", 400, "chat.template");
    expect_error("/v1/embeddings", "{}", 501, "no embeddings");
    expect_error("/tokenize", "{}", 400, "content");
    expect_error("/tokenize", "{\"content\": \"a\", \"x\": 1}", 400, "\"x\" is not known");
    expect_error("/detokenize", "{\"tokens\": [99999]}", 400, "tokens[0]");
    char *body = malloc(20000);
    assert_non_null(body);
    size_t n = (size_t)sprintf(body, "{\"prompt\": \"");
    for (int i = 0; i < 2000; i++)
        n += (size_t)sprintf(body + n, "word ");
    sprintf(body + n, "\"}");
    expect_error("/v1/completions", body, 400, "tokens, but a sequence holds 256");
    /* The second of two prompts does not fit: the first one's request ends too. */
    n = (size_t)sprintf(body, "{\"prompt\": [\"a\", \"");
    for (int i = 0; i < 2000; i++)
        n += (size_t)sprintf(body + n, "word ");
    sprintf(body + n, "\"]}");
    expect_error("/v1/completions", body, 400, "tokens, but a sequence holds 256");
    quiet();
    free(body);
    /* The queue: 4 run and 4 wait. */
    struct http_exchange xs[4];
    for (int i = 0; i < 4; i++)
        fake_start(&xs[i], "/v1/completions", body_of("\"max_tokens\": 200, \"n\": 2"));
    expect_error("/v1/completions", body_of("\"max_tokens\": 2"), 429, "8 of 8 requests");
    for (uint32_t i = 0; i < 9; i++) {
        struct api_job job;
        stator_request_stats r = {.size = sizeof r};
        assert_int_equal(api_get_job(&server, i, &job), i < 8);
        if (i < 8)
            assert_int_equal(stator_get_request(server.engine, job.request, &r, NULL), STATOR_OK);
    }
    assert_int_equal(api_jobs(&server), 4);
    api_cancel_all(&server, "the server ends");
    for (int i = 0; i < 4; i++) {
        assert_int_equal(xs[i].status, 503);
        assert_string_equal(xs[i].text, ": the server ends");
        free(xs[i].text);
    }
    quiet();
    assert_int_equal(used(), before);
    close_api();
}

static void time_runs_out(void **state) {
    (void)state;
    struct http_exchange xs[2];
    open_api(demo);
    server.settings.request_timeout_ns = 5000000000000u; /* the test itself takes less, however slow */
    /* All places are taken by what nobody polls, so the stream waits for one as long as it is looked at. */
    fake_start(&xs[0], "/v1/completions", body_of("\"max_tokens\": 200, \"n\": 4"));
    fake_start(&xs[1], "/v1/completions", body_of("\"max_tokens\": 200, \"stream\": true"));
    const uint64_t now = clock_ns();
    api_tick(&server, now);
    assert_false(xs[0].over || xs[1].over);
    /* Before a token the stream says what it waits for. */
    api_tick(&server, now + 2000000000u);
    assert_true(xs[1].streams && xs[1].text[0] == ':');
    assert_non_null(strstr(xs[1].text, "waiting"));
    api_tick(&server, now + 6000000000000u);
    assert_true(xs[0].over && xs[1].over);
    assert_int_equal(xs[0].status, 504);
    /* The log says how far it was. */
    assert_string_equal(xs[0].account.reason, "timeout");
    assert_true(xs[0].account.n_prompt > 0);
    assert_non_null(strstr(xs[0].text, "5000 seconds"));
    assert_non_null(strstr(xs[1].text, "data: {\"error\":"));
    assert_null(strstr(xs[1].text, "[DONE]"));
    quiet();
    free(xs[0].text);
    free(xs[1].text);
    close_api();
}

/* The pool has nearly nothing left: 503, no crash, and others are served afterwards. */
static void memory_ends(void **state) {
    (void)state;
    struct http_exchange x;
    open_api(demo);
    const size_t before = used();
    for (size_t leave = 0; leave < 40000; leave += 977) {
        void *rest[64];
        size_t n = 0;
        for (size_t bytes; n < 64 && (bytes = edge_pool_largest()) > leave + 64; n++)
            rest[n] = edge_pool_alloc(bytes > 2 * leave + 128 ? bytes - leave - 64 : bytes);
        fake_start(&x, "/v1/completions",
                   body_of("\"max_tokens\": 100, \"logprobs\": 20, \"stop\": [\"qqqq\"]"));
        if (!x.over)
            finish(&x, 1);
        assert_true(x.status == 200 || x.status == 503);
        free(x.text);
        quiet();
        while (n > 0)
            edge_pool_free(rest[--n]);
        assert_int_equal(used(), before);
    }
    json_decref(whole("\"max_tokens\": 4"));
    close_api();
}

static void texts(void **state) {
    (void)state;
    struct http_exchange x;
    open_api(demo);
    fake_start(&x, "/tokenize", "{\"content\": \"Once upon\", \"with_pieces\": true}");
    json_t *json = json_of(x.text, x.n);
    const json_t *tokens = json_object_get(json, "tokens");
    char joined[64] = "", back[256];
    size_t n = (size_t)snprintf(back, sizeof back, "{\"tokens\": [");
    for (size_t i = 0; i < json_array_size(tokens); i++) {
        strcat(joined, json_string_value(json_object_get(json_array_get(tokens, i), "piece")));
        n += (size_t)snprintf(back + n, sizeof back - n, "%s%d", i > 0 ? ", " : "",
                              (int)json_integer_value(json_object_get(json_array_get(tokens, i), "id")));
    }
    snprintf(back + n, sizeof back - n, "]}");
    assert_string_equal(joined, "Once upon");
    json_decref(json);
    free(x.text);
    fake_start(&x, "/detokenize", back);
    assert_string_equal(x.text, "{\"content\":\"Once upon\"}");
    free(x.text);
    close_api();
}

#define TEMPLATE                                                                                             \
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt "           \
    "%}<assistant>{% "                                                                                       \
    "endif %}{% if enable_thinking %}<think>\n{% endif %}{# </think> #}"

static void chats(void **state) {
    (void)state;
    char path[] = "/tmp/stator_template_XXXXXX", set[128], expected[4096];
    struct harness_text t;
    struct http_exchange x;
    struct stream s;
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, TEMPLATE, sizeof TEMPLATE - 1) == sizeof TEMPLATE - 1);
    close(fd);
    snprintf(set, sizeof set, "chat.template=%s", path);
    open_api((const char *const[]){"memory.context=256", "memory.batch=32", "memory.sequences=4",
                                   "cpu.threads=1", set, NULL});
    unlink(path);
    const size_t before = used();
    fake_start(&x, "/apply-template",
               "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"Once "
               "\"}, {\"type\": "
               "\"text\", \"text\": \"upon\"}]}], \"enable_thinking\": true}");
    finish(&x, 1);
    assert_string_equal(x.text, "{\"prompt\":\"<user>Once upon<assistant><think>\\n\"}");
    free(x.text);
    /* A template writes the tokens in front itself. */
    for (int thinks = 0; thinks < 2; thinks++) {
        char body[512];
        reference(thinks ? "<user>Once upon<assistant><think>\n" : "<user>Once upon<assistant>", 0, 30, 0, 0,
                  expected, sizeof expected, &t);
        snprintf(body, sizeof body,
                 "{\"messages\": [{\"role\": \"user\", \"content\": \"Once upon\"}], "
                 "\"max_completion_tokens\": 30, "
                 "\"temperature\": 0, \"ignore_eos\": true, \"logprobs\": true, \"enable_thinking\": %s",
                 thinks ? "true" : "false");
        const size_t n = strlen(body);
        strcpy(body + n, "}");
        fake_start(&x, "/v1/chat/completions", body);
        finish(&x, 1);
        json_t *json = json_of(x.text, x.n);
        const json_t *message = json_object_get(choice(json, 0), "message");
        const char *text =
            json_string_value(json_object_get(message, thinks ? "reasoning_content" : "content"));
        /* Blanks at the beginning of reasoning belong to the tag. */
        assert_string_equal(text, expected + (thinks ? strspn(expected, " \n") : 0));
        assert_string_equal(json_string_value(json_object_get(message, "content")), thinks ? "" : expected);
        assert_int_equal(
            json_array_size(json_object_get(json_object_get(choice(json, 0), "logprobs"), "content")), 30);
        json_decref(json);
        free(x.text);
        strcpy(body + n, ", \"stream\": true}");
        fake_start(&x, "/v1/chat/completions", body);
        finish(&x, 1);
        read_stream(&x, &s);
        assert_string_equal(s.text, thinks ? "" : expected);
        assert_int_equal(s.tokens, 30);
        assert_string_equal(s.finish, "length");
        free(x.text);
    }
    assert_int_equal(used(), before);
    close_api();
}

static const char *const pooled[] = {"memory.context=64",
                                     "memory.batch=32",
                                     "memory.sequences=2",
                                     "cpu.threads=1",
                                     "server.max_queue=8",
                                     "model.pooling=last",
                                     NULL};

/* "input": n texts. Malloced. */
static char *texts_of(size_t n) {
    char *body = malloc(64 + 32 * n);
    assert_non_null(body);
    size_t at = (size_t)sprintf(body, "{\"input\": [");
    for (size_t i = 0; i < n; i++)
        at += (size_t)sprintf(body + at, "%s\"text %zu\"", i > 0 ? ", " : "", i);
    sprintf(body + at, "]}");
    return body;
}

/* A long answer goes out as its reader takes it; several jobs share a queue that is shorter than each of
 * them. */
static void vectors(void **state) {
    (void)state;
    enum { TEXTS = 150 };
    open_api(pooled);
    const size_t before = used();
    char *body = texts_of(TEXTS);
    struct http_exchange xs[3];
    for (size_t i = 0; i < 3; i++)
        fake_start(&xs[i], "/v1/embeddings", body);
    assert_int_equal(api_jobs(&server), 3);
    struct api_job job;
    assert_true(api_get_job(&server, 0, &job) && strcmp(job.path, "/v1/embeddings") == 0);
    for (int i = 0; i < 400000 && !(xs[0].over && xs[1].over && xs[2].over); i++) {
        turn(xs, 3, 3000);
        api_tick(&server, clock_ns());
    }
    for (size_t i = 0; i < 3; i++) {
        assert_true(xs[i].over && xs[i].status == 200 && xs[i].streams);
        json_t *json = json_of(xs[i].text, xs[i].n);
        assert_int_equal(json_array_size(json_object_get(json, "data")), TEXTS);
        json_decref(json);
        assert_string_equal(xs[i].account.reason, "stop");
        if (i > 0)
            assert_string_equal(xs[i].text, xs[0].text);
    }
    for (size_t i = 0; i < 3; i++)
        free(xs[i].text);
    assert_int_equal(api_jobs(&server), 0);
    assert_int_equal(used(), before);
    free(body);
    close_api();
}

static void vectors_end_early(void **state) {
    (void)state;
    uint64_t seed = 5;
    open_api(pooled);
    const size_t before = used();
    char *body = texts_of(40);
    struct http_exchange xs[2];
    for (int round = 0; round < 30; round++) {
        for (size_t i = 0; i < 2; i++)
            fake_start(&xs[i], "/v1/embeddings", body);
        for (uint64_t turns = testing_below(&seed, 30); turns > 0; turns--)
            turn(xs, 2, 500);
        if (round % 3 == 0)
            api_cancel_all(&server, "the end");
        for (size_t i = 0; i < 2; i++) {
            if (round % 3 == 0 && !xs[i].streams)
                assert_true(xs[i].over &&
                            (xs[i].status == 503 || xs[i].status == 429 || xs[i].status == 200));
            fake_leave(&xs[i]);
            free(xs[i].text);
        }
        assert_int_equal(api_jobs(&server), 0);
        assert_int_equal(used(), before);
    }
    quiet();
    /* Time runs out. */
    server.settings.request_timeout_ns = 1;
    fake_start(&xs[0], "/v1/embeddings", body);
    api_tick(&server, clock_ns() + 1000);
    assert_int_equal(xs[0].status, 504);
    free(xs[0].text);
    quiet();
    assert_int_equal(used(), before);
    free(body);
    /* More vectors than the pool has room for. */
    body = texts_of(2048);
    void *hoard = edge_pool_alloc(edge_pool_largest() - (600u << 10));
    assert_non_null(hoard);
    expect_error("/v1/embeddings", body, 503, "memory");
    edge_pool_free(hoard);
    assert_int_equal(used(), before);
    free(body);
    close_api();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_the_engines),
        cmocka_unit_test(stop_strings),
        cmocka_unit_test(negative_seeds),
        cmocka_unit_test(several_answers),
        cmocka_unit_test(logprobs_are_the_engines),
        cmocka_unit_test(slow_readers),
        cmocka_unit_test(clients_leave_at_any_step),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(time_runs_out),
        cmocka_unit_test(memory_ends),
        cmocka_unit_test(texts),
        cmocka_unit_test(chats),
        cmocka_unit_test(vectors),
        cmocka_unit_test(vectors_end_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
