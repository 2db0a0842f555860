/* OpenAI's API over an engine that says what the test wants: calls of tools, reasoning, failures, in tokens
 * of any size, streamed and whole. Nothing of the real engine is linked. */
#include "chat_families.h"
#include "fake_http.h"

#include "base/clock.h"
#include "server/adapters/adapters.h"
#include "server/openai/api.h"
#include "server/http/edge_pool.h"

#include <jansson.h>
#include <sched.h>

#define POOL  (8u << 20) /* with the stack of the rendering thread, 4 MiB under TSan */
#define TURNS 1000000 /* of the loop until an answer is over: a rendering may take long on a busy machine */

static struct server server;
static const char *source; /* the chat template */

/* The engine: one request, whose text is cut into tokens of `step` bytes. */
static struct {
    const char *text;
    size_t step, at;
    bool running, cancelled;
    bool raw; /* the bytes of token i are byte i of the text, which may be a part of a character */
    stator_reason reason; /* at the end */
    uint64_t id;
    const stator_request_stats *tells; /* of the request; NULL: nothing */
} engine;

/* Where token number `id` begins: between characters, as the engine's decoder gives whole ones. */
static size_t token_begin(size_t id) {
    const size_t n = strlen(engine.text);
    size_t at = id * engine.step < n ? id * engine.step : n;
    while (at < n && ((unsigned char)engine.text[at] & 0xC0) == 0x80)
        at++;
    return at;
}

static size_t token_bytes(int32_t id, const char **p) {
    *p = engine.text + token_begin((size_t)id);
    return token_begin((size_t)id + 1) - token_begin((size_t)id);
}

stator_status stator_submit(stator *s, const stator_request *r, uint64_t *id, stator_error *e) {
    (void)s;
    (void)r;
    (void)e;
    assert_false(engine.running);
    engine.running = true;
    engine.cancelled = false;
    engine.at = 0;
    *id = ++engine.id;
    return STATOR_OK;
}

stator_status stator_slot_submit(stator *s, const stator_slot *slot, uint64_t *id, stator_error *e) {
    (void)s;
    (void)slot;
    (void)id;
    return error_set(e, STATOR_USAGE, "a script has no slots");
}

stator_status stator_poll(stator *s, uint64_t timeout, stator_event *ev, int *have, stator_error *e) {
    (void)s;
    (void)timeout;
    (void)e;
    *have = engine.running && engine.tells == NULL; /* a request that is asked about makes nothing */
    if (!*have)
        return STATOR_OK;
    *ev = (stator_event){.size = sizeof *ev, .request = engine.id, .n_prompt = 5, .n_cached = 3};
    const bool end = engine.cancelled || engine.at * engine.step >= strlen(engine.text);
    ev->kind = end ? STATOR_EVENT_DONE : STATOR_EVENT_TOKEN;
    ev->token = (int32_t)engine.at++;
    ev->logprob = -0.1f * (float)engine.at;
    ev->n_top = end ? 0 : 1;
    ev->top[0] = (stator_logprob){.token = ev->token, .logprob = ev->logprob};
    ev->reason = !end ? STATOR_REASON_NONE : engine.cancelled ? STATOR_REASON_CANCELLED : engine.reason;
    if (end && ev->reason == STATOR_REASON_FAILED) {
        ev->status = STATOR_DEVICE;
        strcpy(ev->text, "the device is lost");
    }
    engine.running = !end;
    return STATOR_OK;
}

void stator_cancel(stator *s, uint64_t id) {
    (void)s;
    engine.cancelled = engine.cancelled || id == engine.id;
}

stator_status stator_hold(stator *s, uint64_t id, int on, stator_error *e) {
    (void)s;
    (void)id;
    (void)on;
    (void)e;
    return STATOR_OK;
}

stator_status stator_get_stats(stator *s, stator_stats *stats, stator_error *e) {
    (void)s;
    (void)e;
    stats->capacity = 1;
    return STATOR_OK;
}

stator_status stator_get_request(stator *s, uint64_t id, stator_request_stats *stats, stator_error *e) {
    (void)s;
    (void)id;
    (void)e;
    if (engine.tells == NULL)
        return STATOR_USAGE;
    *stats = *engine.tells;
    return STATOR_OK;
}

stator_status stator_tokenize(const stator *s, const char *text, size_t length, int add_special,
                              int parse_special, int32_t *ids, size_t capacity, size_t *n, stator_error *e) {
    (void)s;
    (void)text;
    (void)add_special;
    (void)parse_special;
    (void)e;
    *n = length;
    for (size_t i = 0; i < length && i < capacity; i++)
        ids[i] = 0;
    return length > capacity ? STATOR_USAGE : STATOR_OK;
}

stator_status stator_decode(const stator *s, stator_decoder *d, int32_t id, int special, char *out,
                            size_t capacity, size_t *n, stator_error *e) {
    const char *p = "";
    (void)s;
    (void)d;
    (void)special;
    (void)e;
    *n = id >= 0 ? token_bytes(id, &p) : 0;
    assert_true(*n <= capacity);
    memcpy(out, p, *n);
    return STATOR_OK;
}

stator_status stator_token_bytes(const stator *s, int32_t id, char *out, size_t capacity, size_t *n,
                                 stator_error *e) {
    (void)s;
    (void)e;
    *n = engine.raw ? 1 : token_bytes(id, &(const char *){NULL});
    const size_t at = engine.raw ? (size_t)id : token_begin((size_t)id);
    assert_true(*n <= capacity);
    memcpy(out, engine.text + at, *n);
    return STATOR_OK;
}

stator_status stator_get_infill_tokens(const stator *s, stator_infill_tokens *tokens, stator_error *e) {
    (void)s;
    (void)e;
    tokens->prefix = tokens->suffix = tokens->middle = tokens->repository = tokens->file = -1;
    return STATOR_OK;
}

stator_status stator_get_chat_template(const stator *s, stator_chat_template *t, stator_error *e) {
    (void)s;
    (void)e;
    *t = (stator_chat_template){.size = sizeof *t, .text = source, .length = strlen(source), .file = ""};
    return STATOR_OK;
}

static void open_api(const char *template) {
    static void *memory;
    stator_error e = {0};
    if (memory == NULL)
        memory = aligned_alloc(4096, POOL);
    assert_non_null(memory);
    api_close(&server); /* of the template before this one */
    edge_pool_init(memory, POOL);
    edge_pool_serve_libraries();
    source = template;
    memset(&server, 0, sizeof server);
    server.info = (stator_info){.context = 4096, .vocab = 4096, .model_name = "scripted"};
    server.settings.default_max_tokens = 1000;
    if (api_open(&server, &e) != STATOR_OK)
        fail_msg("%s", e.text);
    adapters_add_routes(&server);
}

/* What an answer says, as one line. */
struct said {
    char content[8192], reasoning[8192], calls[8192], finish[16];
    bool done;
};

static void add(char *to, const json_t *text) {
    if (json_is_string(text))
        strcat(to, json_string_value(text));
}

static void add_calls(struct said *s, const json_t *calls, bool streamed) {
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *call = json_array_get(calls, i), *function = json_object_get(call, "function");
        const json_t *name = json_object_get(function, "name");
        if (name != NULL) {
            assert_string_equal(json_string_value(json_object_get(call, "type")), "function");
            assert_true(json_string_length(json_object_get(call, "id")) > 8);
            strcat(s->calls, "|");
            add(s->calls, name);
            strcat(s->calls, " ");
        }
        assert_int_equal(streamed, json_is_integer(json_object_get(call, "index")));
        add(s->calls, json_object_get(function, "arguments"));
    }
}

static void read_choice(struct said *s, const json_t *json, const char *member) {
    const json_t *c = json_array_get(json_object_get(json, "choices"), 0), *m = json_object_get(c, member);
    add(s->content, json_object_get(m, "content"));
    add(s->reasoning, json_object_get(m, "reasoning_content"));
    add_calls(s, json_object_get(m, "tool_calls"), strcmp(member, "delta") == 0);
    add(s->finish, json_object_get(c, "finish_reason"));
}

static void read_answer(const struct http_exchange *x, bool streams, struct said *s) {
    json_error_t why;
    memset(s, 0, sizeof *s);
    assert_int_equal(x->status, 200);
    if (!streams) {
        json_t *json = json_loadb(x->text, x->n, 0, &why);
        assert_non_null(json);
        read_choice(s, json, "message");
        json_decref(json);
        return;
    }
    for (const char *p = x->text; *p != '\0';) {
        const char *end = strstr(p, "\n\n");
        assert_non_null(end);
        assert_memory_equal(p, "data: ", 6);
        if (strncmp(p, "data: [DONE]", 12) == 0) {
            s->done = true;
        } else {
            json_t *json = json_loadb(p + 6, (size_t)(end - p) - 6, 0, &why);
            assert_non_null(json);
            read_choice(s, json, "delta");
            json_decref(json);
        }
        p = end + 2;
    }
    assert_true(s->done);
}

static void ask(struct http_exchange *x, const char *fields) {
    char body[2048];
    snprintf(body, sizeof body,
             "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], \"tools\": [{\"type\": "
             "\"function\", \"function\": "
             "{\"name\": \"f\", \"parameters\": {\"properties\": {\"zip\": {\"type\": \"string\"}}}}}]%s}",
             fields);
    fake_start(x, "/v1/chat/completions", body);
    for (int i = 0; i < TURNS && !x->over; i++) {
        api_poll(&server);
        fake_read(x, SIZE_MAX);
        sched_yield(); /* the rendering thread */
    }
    assert_true(x->over);
}

static const char opens[] = "{{ tools }}{{ messages[0].content }}{# <tool_call> </tool_call> \"name\" "
                            "\"arguments\" </think> #}<think>\n";

struct one {
    const char *template, *fields, *text;
    stator_reason reason;
    const char *content, *reasoning, *calls, *finish;
};

static const struct one cases[] = {
    {family_hermes, "", "plain \xC3\xA9\xE4\xB8\xAD text\n", STATOR_REASON_EOS,
     "plain \xC3\xA9\xE4\xB8\xAD text\n", "", "", "stop"},
    {family_hermes, "",
     "<think>\nhm\n</think>\n\nYes.<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": "
     "\"\xC3\xA9\"}}\n</tool_call>",
     STATOR_REASON_EOS, "Yes.", "hm", "|f {\"a\": \"\xC3\xA9\"}", "tool_calls"},
    {family_hermes, "",
     "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>\n<tool_call>{\"name\": \"g\", "
     "\"arguments\": "
     "{\"x\":1}}</tool_call>",
     STATOR_REASON_EOS, "", "", "|f {}|g {\"x\":1}", "tool_calls"},
    {family_hermes, ", \"parallel_tool_calls\": false",
     "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>\n<tool_call>{\"name\": \"g\", "
     "\"arguments\": "
     "{\"x\":1}}</tool_call>",
     STATOR_REASON_EOS, "", "", "|f {}", "tool_calls"},
    {family_hermes, ", \"tool_choice\": \"none\"",
     "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>", STATOR_REASON_EOS,
     "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>", "", "", "stop"},
    {family_hermes, "", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\"", STATOR_REASON_LENGTH, "", "",
     "|f {\"a\"}", "length"},
    {family_qwen, "", "<tool_call><function=f><parameter=zip>\n0123\n</parameter></function></tool_call>",
     STATOR_REASON_EOS, "", "", "|f {\"zip\": \"0123\"}", "tool_calls"},
    {family_harmony, "",
     "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary<|message|>I look."
     "<|end|><|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"zip\": "
     "\"1\"}<|call|>and what a model says after its end",
     STATOR_REASON_EOS, "I look.", "hm", "|f {\"zip\": \"1\"}", "tool_calls"},
    {family_harmony, ", \"tool_choice\": \"none\"",
     "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|return|>",
     STATOR_REASON_EOS, "Yes.", "hm", "", "stop"},
    {family_hermes, ", \"stop\": [\"END\"]", "one ENDless", STATOR_REASON_EOS, "one ", "", "", "stop"},
    {family_hermes, ", \"stop\": [\"END\"]", "one EN", STATOR_REASON_LENGTH, "one EN", "", "", "length"},
    {opens, "", "why\n</think>so", STATOR_REASON_EOS, "so", "why", "", "stop"},
    {opens, ", \"stop\": [\"x\"]", "why x", STATOR_REASON_EOS, "", "why ", "", "stop"},
    {family_llama, "", "{\"name\": \"f\", \"parameters\": {\"a\": [1, 2.50]}}", STATOR_REASON_EOS, "", "",
     "|f {\"a\": [1, 2.50]}", "tool_calls"},
    {family_llama, "", "{\"answer\": 1}", STATOR_REASON_EOS, "{\"answer\": 1}", "", "", "stop"},
};

static void answers_in_tokens_of_any_size(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (size_t step = 1; step < 40; step += 1 + step / 6)
            for (int streams = 0; streams < 2; streams++) {
                const struct one *c = &cases[i];
                char fields[256];
                struct http_exchange x;
                struct said s;
                struct edge_pool_figures before, after;
                open_api(c->template);
                edge_pool_get_figures(&before);
                engine.text = c->text;
                engine.step = step;
                engine.reason = c->reason;
                snprintf(fields, sizeof fields, "%s%s", c->fields, streams ? ", \"stream\": true" : "");
                ask(&x, fields);
                read_answer(&x, streams, &s);
                if (strcmp(s.content, c->content) != 0 || strcmp(s.reasoning, c->reasoning) != 0 ||
                    strcmp(s.calls, c->calls) != 0 || strcmp(s.finish, c->finish) != 0)
                    fail_msg("case %zu, tokens of %zu, stream %d: \"%s\" \"%s\" \"%s\" %s", i, step, streams,
                             s.content, s.reasoning, s.calls, s.finish);
                assert_non_null(strstr(x.text, "\"cache_n\":3,\"prompt_n\":2"));
                free(x.text);
                api_poll(&server);
                edge_pool_get_figures(&after);
                assert_int_equal(after.used, before.used);
            }
}

/* Arguments longer than a stream's buffer come in several events. */
static void long_arguments(void **state) {
    (void)state;
    static char text[80000], expected[70000];
    struct http_exchange x;
    size_t n = 0;
    for (int i = 0; i < 6000; i++)
        n += (size_t)snprintf(expected + n, sizeof expected - n, "%s\"\\u00e9%d\"", i > 0 ? "," : "", i % 10);
    snprintf(text, sizeof text, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": [%s]}}</tool_call>",
             expected);
    open_api(family_hermes);
    engine.text = text;
    engine.step = 16;
    engine.reason = STATOR_REASON_EOS;
    ask(&x, ", \"stream\": true");
    static char got[80000];
    n = 0;
    for (const char *p = x.text; (p = strstr(p, "\"arguments\":")) != NULL;) {
        json_error_t why;
        json_t *v = json_loads(p + 12, JSON_DECODE_ANY | JSON_DISABLE_EOF_CHECK, &why);
        assert_non_null(v);
        n += (size_t)snprintf(got + n, sizeof got - n, "%s", json_string_value(v));
        json_decref(v);
        p += 12;
    }
    snprintf(text, sizeof text, "{\"a\": [%s]}", expected);
    assert_string_equal(got, text);
    free(x.text);
}

/* Completions name tokens alike in `tokens` and `top_logprobs`: by their text, or their bytes. */
static void tokens_have_one_name(void **state) {
    (void)state;
    static const char *const names[] = {"a", "\"", "bytes:\\xc3", "bytes:\\xa9", "b"};
    struct http_exchange x;
    json_error_t why;
    open_api(family_hermes);
    engine.text = "a\"\xC3\xA9"
                  "b";
    engine.step = 1;
    engine.raw = true;
    engine.reason = STATOR_REASON_EOS;
    fake_start(&x, "/v1/completions", "{\"prompt\": \"x\", \"logprobs\": 1}");
    for (int i = 0; i < 100 && !x.over; i++)
        api_poll(&server);
    json_t *json = json_loadb(x.text, x.n, 0, &why);
    assert_non_null(json);
    const json_t *l = json_object_get(json_array_get(json_object_get(json, "choices"), 0), "logprobs");
    assert_int_equal(json_array_size(json_object_get(l, "tokens")), 5);
    for (size_t i = 0; i < 5; i++) {
        const json_t *top = json_array_get(json_object_get(l, "top_logprobs"), i);
        assert_string_equal(json_string_value(json_array_get(json_object_get(l, "tokens"), i)), names[i]);
        assert_true((float)json_real_value(json_object_get(top, names[i])) == -0.1f * (float)(i + 1));
    }
    json_decref(json);
    free(x.text);
    engine.text = "\xC3\xA9"; /* a whole character is no bytes */
    engine.step = 2;
    engine.raw = false;
    fake_start(&x, "/v1/completions", "{\"prompt\": \"x\", \"logprobs\": 1}");
    for (int i = 0; i < 100 && !x.over; i++)
        api_poll(&server);
    assert_non_null(strstr(x.text, "\"tokens\":[\"\xC3\xA9\"],"));
    assert_non_null(strstr(x.text, "\"top_logprobs\":[{\"\xC3\xA9\":-0.1}]"));
    free(x.text);
}

static void failures_are_told(void **state) {
    (void)state;
    struct http_exchange x;
    open_api(family_hermes);
    engine.text = "some text";
    engine.step = 2;
    engine.reason = STATOR_REASON_FAILED;
    ask(&x, "");
    assert_int_equal(x.status, 500);
    assert_non_null(strstr(x.text, "the device is lost"));
    free(x.text);
    ask(&x, ", \"stream\": true");
    assert_int_equal(x.status, 200);
    assert_non_null(strstr(x.text, "data: {\"error\":{\"message\":\"the device is lost\""));
    assert_null(strstr(x.text, "[DONE]"));
    free(x.text);
    /* A template that refuses. */
    open_api("{{ raise_exception('no ' ~ messages[0].role) }} tools <tool_call></tool_call> \"name\" "
             "\"arguments\"");
    ask(&x, "");
    assert_int_equal(x.status, 400);
    assert_non_null(strstr(x.text, "no user"));
    free(x.text);
}

/* Before a token a stream says what it waits for, and with tokens that it lives. */
static void a_stream_says_what_it_waits_for(void **state) {
    (void)state;
    static const struct {
        stator_request_stats is;
        const char *says;
    } told[] = {{{.state = STATOR_WAITING, .n_prompt = 5}, ": waiting for a free place\n\n"},
                {{.state = STATOR_RUNNING, .n_prompt = 5, .n_computed = 3}, ": prompt 3 of 5 tokens\n\n"},
                {{.state = STATOR_RUNNING, .n_prompt = 5, .n_computed = 5, .n_generated = 1}, ": ping\n\n"}};
    open_api(family_hermes);
    engine.text = "text";
    engine.step = 1;
    engine.reason = STATOR_REASON_EOS;
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        struct http_exchange x;
        engine.tells = &told[i].is;
        fake_start(&x, "/v1/completions", "{\"prompt\": \"x\", \"stream\": true}");
        api_tick(&server, clock_ns() + 2000000000u);
        assert_string_equal(x.text, told[i].says);
        engine.tells = NULL;
        for (int k = 0; k < 100 && !x.over; k++) {
            api_poll(&server);
            fake_read(&x, SIZE_MAX);
        }
        assert_true(x.over);
        free(x.text);
    }
}

/* Until the exchange is over. */
static void play(struct http_exchange *x) {
    for (int i = 0; i < TURNS && !x->over; i++) {
        api_poll(&server);
        fake_read(x, SIZE_MAX);
        sched_yield(); /* the rendering thread */
    }
    assert_true(x->over);
}

static const struct adapter {
    const char *path, *body, *whole; /* of a streamed request, and of one that is not */
    const char *begins, *pings;      /* of the stream, while a prompt is computed */
    const char *fails;               /* last event, when the device is lost */
    const char *ends;
} adapters[] = {
    {"/v1/messages", "{\"stream\": true, \"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}",
     "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}", "event: message_start\n",
     "event: ping\ndata: {\"type\":\"ping\"}\n\n",
     "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"the device is "
     "lost\"}}\n\n",
     "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"},
    {"/v1/responses", "{\"stream\": true, \"input\": \"x\"}", "{\"input\": \"x\"}",
     "event: response.created\n",
     "event: response.in_progress\ndata: {\"type\":\"response.in_progress\",\"sequence_number\":2,",
     "event: response.failed\ndata: {\"type\":\"response.failed\",", "event: response.completed\n"},
};

#define ADAPTERS (sizeof adapters / sizeof adapters[0])

/* A stream begins before its first token, where there is something to wait for, and then goes on. */
static void adapters_say_that_they_live(void **state) {
    (void)state;
    const stator_request_stats is = {.state = STATOR_RUNNING, .n_prompt = 5, .n_computed = 3, .n_cached = 2};
    open_api(family_hermes);
    engine.text = "text";
    engine.step = 1;
    engine.reason = STATOR_REASON_EOS;
    for (size_t i = 0; i < ADAPTERS; i++) {
        struct http_exchange x;
        engine.tells = &is;
        fake_start(&x, adapters[i].path, adapters[i].body);
        for (int turn = 0; turn < TURNS && !engine.running; turn++) {
            api_poll(&server);
            sched_yield();
        }
        api_tick(&server, clock_ns() + 2000000000u);
        assert_memory_equal(x.text, adapters[i].begins, strlen(adapters[i].begins));
        assert_non_null(strstr(x.text, adapters[i].pings));
        engine.tells = NULL;
        play(&x);
        assert_null(strstr(x.text + 1, adapters[i].begins)); /* once */
        assert_non_null(strstr(x.text, adapters[i].ends));
        free(x.text);
    }
}

static void adapters_tell_failures(void **state) {
    (void)state;
    open_api(family_hermes);
    engine.text = "some text";
    engine.step = 2;
    engine.reason = STATOR_REASON_FAILED;
    for (size_t i = 0; i < ADAPTERS; i++) {
        struct http_exchange x;
        fake_start(&x, adapters[i].path, adapters[i].body);
        play(&x);
        assert_int_equal(x.status, 200);
        assert_non_null(strstr(x.text, adapters[i].fails));
        assert_non_null(strstr(x.text, "the device is lost"));
        assert_null(strstr(x.text, adapters[i].ends));
        free(x.text);
    }
}

/* Wherever memory ends within an answer, it is complete, or the client is told. */
static void adapters_without_memory(void **state) {
    (void)state;
    static char text[24000];
    static void *held[POOL / 1500];
    size_t n = (size_t)snprintf(text, sizeof text,
                                "<think>hm</think>yes<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"");
    while (n < 20000)
        text[n++] = 'x';
    snprintf(text + n, sizeof text - n, "\"}}</tool_call>");
    open_api(family_hermes);
    engine.text = text;
    engine.step = 500;
    engine.reason = STATOR_REASON_EOS;
    uint32_t complete = 0, told = 0;
    for (size_t i = 0; i < 2 * ADAPTERS; i++)
        for (size_t room = 4; room < 400; room += 3) {
            const struct adapter *a = &adapters[i / 2];
            struct http_exchange x;
            size_t n_held = 0;
            while (n_held < sizeof held / sizeof held[0] && (held[n_held] = edge_pool_alloc(1500)) != NULL)
                n_held++;
            for (size_t k = 0; k < room && n_held > 0; k++)
                edge_pool_free(held[--n_held]);
            fake_start(&x, a->path, i % 2 == 0 ? a->body : a->whole);
            play(&x);
            const bool ends = x.status == 200 && (i % 2 != 0 || strstr(x.text, a->ends) != NULL);
            complete += ends;
            told += !ends;
            assert_true(ends || x.status == 503 || strstr(x.text, "no room") != NULL);
            free(x.text);
            while (n_held > 0)
                edge_pool_free(held[--n_held]);
        }
    assert_true(complete > 0 && told > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_in_tokens_of_any_size),
        cmocka_unit_test(long_arguments),
        cmocka_unit_test(tokens_have_one_name),
        cmocka_unit_test(failures_are_told),
        cmocka_unit_test(a_stream_says_what_it_waits_for),
        cmocka_unit_test(adapters_say_that_they_live),
        cmocka_unit_test(adapters_tell_failures),
        cmocka_unit_test(adapters_without_memory),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    api_close(&server);
    return failed;
}
