/* Bodies of requests: what is taken, what is refused and by which name, and that nothing is left behind. */
#include "testing.h"

#include "chat_families.h"
#include "chat/chat_json.h"
#include "chat/chat_types.h"
#include "server/openai/api_request.h"
#include "server/http/edge_pool.h"

#define BYTES (8u << 20)

static const char template[] = CHAT_FAMILIES_HERMES "{# reasoning_effort #}";
static struct api_model model = {.name = "demo",
                                 .source = template,
                                 .source_length = sizeof template - 1,
                                 .bos = "<s>",
                                 .bos_length = 3,
                                 .context = 128,
                                 .vocab = 1000,
                                 .default_max_tokens = 64};
static unsigned char *memory;

static int open_pool(void **state) {
    (void)state;
    memory = aligned_alloc(4096, BYTES);
    if (memory == NULL)
        return -1;
    edge_pool_init(memory, BYTES);
    edge_pool_serve_libraries();
    return api_form_find(&model, NULL) == STATOR_OK ? 0 : -1;
}

static size_t used(void) {
    struct edge_pool_figures f;
    edge_pool_get_figures(&f);
    return f.used;
}

#define USER "\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]"

/* Reads "{" USER or a prompt ", " fields "}". */
static bool read_with(enum api_endpoint endpoint, const char *fields, struct api_request *r,
                      struct api_failure *why) {
    char body[4096];
    int n = snprintf(body, sizeof body, "{%s%s%s}", endpoint == API_COMPLETION ? "\"prompt\": \"x\"" : USER,
                     fields[0] != '\0' ? ", " : "", fields);
    return api_request_read(endpoint, body, (size_t)n, &model, r, why);
}

struct refused {
    enum api_endpoint endpoint;
    const char *fields;
    int status;
    const char *param;
    const char *says;
};

static const struct refused by_field[] = {
    {API_CHAT, "\"frobnicate\": 1", 400, "frobnicate", "not known"},
    {API_CHAT, "\"prompt\": \"x\"", 400, "prompt", "not known"},
    {API_COMPLETION, "\"messages\": []", 400, "messages", "not known"},
    {API_CHAT, "\"model\": \"gpt-9\"", 404, "model", "\"demo\""},
    {API_CHAT, "\"model\": 3", 400, "model", "a text"},
    {API_CHAT, "\"stream\": 1", 400, "stream", "true or false"},
    {API_CHAT, "\"stream_options\": {\"include_usage\": true}", 400, "stream_options", "stream: true"},
    {API_CHAT, "\"stream\": true, \"stream_options\": {\"x\": true}", 400, "stream_options",
     "stream_options.x"},
    {API_CHAT, "\"max_tokens\": 0", 400, "max_tokens", "from 1"},
    {API_CHAT, "\"max_tokens\": -1", 400, "max_tokens", "-1"},
    {API_CHAT, "\"max_tokens\": 1.5", 400, "max_tokens", "whole number"},
    {API_CHAT, "\"max_tokens\": 9007199254740993", 400, "max_tokens", "2147483647"},
    {API_CHAT, "\"max_tokens\": 99999999999999999999", 400, "max_tokens", "a number beyond 64 bits"},
    {API_CHAT, "\"seed\": 18446744073709551616", 400, "seed", "64 bits"},
    {API_CHAT, "\"seed\": -9223372036854775809", 400, "seed", "64 bits"},
    {API_CHAT, "\"reasoning_effort\": 1e999", 400, "reasoning_effort", "a number beyond 64 bits"},
    {API_CHAT, "\"stop\": 12345678901234567890", 400, "stop", "a number beyond 64 bits"},
    {API_CHAT, "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"returns\": {}}}]", 400,
     "tools[0].function.returns", "tools[0].function.returns"},
    {API_CHAT, "\"max_tokens\": \"7\"", 400, "max_tokens", "a text"},
    {API_CHAT, "\"max_tokens\": 1, \"max_completion_tokens\": 2", 400, "max_tokens", "give one"},
    {API_COMPLETION, "\"max_completion_tokens\": 2", 400, "max_completion_tokens", "not known"},
    {API_CHAT, "\"temperature\": NaN", 400, "", "no JSON"},
    {API_CHAT, "\"temperature\": 1e999", 400, "temperature", "beyond 64 bits"},
    {API_CHAT, "\"temperature\": -0.1", 400, "temperature", "from 0 to"},
    {API_CHAT, "\"temperature\": 1e300", 400, "temperature", "from 0 to"},
    {API_CHAT, "\"temperature\": true", 400, "temperature", "a number"},
    {API_CHAT, "\"temperature\": 1, \"temperature\": 1", 400, "", "duplicate"},
    {API_CHAT, "\"top_p\": 1.01", 400, "top_p", "from 0 to 1"},
    {API_CHAT, "\"top_k\": -1", 400, "top_k", "from 0"},
    {API_CHAT, "\"repeat_penalty\": 0", 400, "repeat_penalty", "from 0.1"},
    {API_CHAT, "\"typical_p\": 1.5", 400, "typical_p", "from 0 to 1"},
    {API_CHAT, "\"dry_penalty_last_n\": -2", 400, "dry_penalty_last_n", "from 0"},
    {API_CHAT, "\"min_tokens\": -1", 400, "min_tokens", "from 0"},
    {API_CHAT, "\"dry_sequence_breakers\": []", 400, "dry_sequence_breakers", "leave the field out"},
    {API_CHAT, "\"dry_sequence_breakers\": [\"\\n\", \":\", \"*\", \"*\"]", 400, "dry_sequence_breakers",
     "they are always"},
    {API_CHAT, "\"mirostat\": 2", 400, "mirostat", "no such sampler"},
    {API_CHAT, "\"presence_penalty\": 11", 400, "presence_penalty", "from -10 to 10"},
    {API_CHAT, "\"seed\": 1.5", 400, "seed", "whole number of 64 bits"},
    {API_CHAT, "\"seed\": \"7\"", 400, "seed", "-1 for a random one"},
    {API_CHAT, "\"stop\": \"\"", 400, "stop", "0 bytes"},
    {API_CHAT, "\"stop\": [\"a\", 1]", 400, "stop", "a number"},
    {API_CHAT,
     "\"stop\": [\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\",\"10\",\"11\",\"12\",\"13\",\"14\","
     "\"15\",\"16\",\"17\"]",
     400, "stop", "at most 16"},
    {API_CHAT, "\"logprobs\": 3", 400, "logprobs", "true or false"},
    {API_CHAT, "\"top_logprobs\": 3", 400, "top_logprobs", "logprobs: true"},
    {API_CHAT, "\"logprobs\": true, \"top_logprobs\": 21", 400, "top_logprobs", "from 0 to 20"},
    {API_COMPLETION, "\"logprobs\": true", 400, "logprobs", "whole number"},
    {API_COMPLETION, "\"logprobs\": 1, \"echo\": true", 400, "echo", "logprobs"},
    {API_CHAT, "\"echo\": true", 400, "echo", "not known"},
    {API_CHAT, "\"n\": 0", 400, "n", "from 1 to 128"},
    {API_CHAT, "\"logit_bias\": {\"x\": 1}", 400, "logit_bias", "\"x\""},
    {API_CHAT, "\"logit_bias\": {\"1000\": 1}", 400, "logit_bias", "0 to 999"},
    {API_CHAT, "\"logit_bias\": {\"3\": 101}", 400, "logit_bias", "-100 to 100"},
    {API_CHAT, "\"logit_bias\": [1]", 400, "logit_bias", "an object"},
    {API_CHAT, "\"response_format\": {\"type\": \"json_object\"}", 400, "response_format", "grammar"},
    {API_CHAT, "\"response_format\": {\"type\": \"json_schema\", \"json_schema\": {}}", 400,
     "response_format", "text"},
    {API_CHAT, "\"modalities\": [\"text\", \"audio\"]", 400, "modalities", "text"},
    {API_CHAT, "\"tool_choice\": \"required\"", 400, "tool_choice", "auto"},
    {API_CHAT, "\"tool_choice\": {\"type\": \"function\"}", 400, "tool_choice", "auto"},
    {API_CHAT, "\"functions\": [{}]", 400, "functions", "tools"},
    {API_CHAT, "\"timings_per_token\": true", 400, "timings_per_token", "end"},
    {API_COMPLETION, "\"suffix\": \"x\"", 400, "suffix", "end of the prompt"},
    {API_COMPLETION, "\"best_of\": 2", 400, "best_of", "none is chosen"},
    {API_CHAT, "\"tools\": {}", 400, "tools", "an array"},
    {API_CHAT, "\"tools\": [{\"type\": \"x\"}]", 400, "tools[0]", "function"},
    {API_CHAT, "\"tools\": [{\"type\": \"function\", \"function\": {}}]", 400, "tools[0]", "name"},
    {API_CHAT, "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"strict\": true}}]",
     400, "tools[0]", "strict"},
    {API_CHAT, "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": 1}}]",
     400, "tools[0]", "schema"},
    {API_CHAT, "\"chat_template_kwargs\": 1", 400, "chat_template_kwargs", "an object"},
    {API_CHAT, "\"chat_template_kwargs\": {\"messages\": []}", 400, "chat_template_kwargs", "\"messages\""},
    {API_CHAT, "\"enable_thinking\": \"yes\"", 400, "enable_thinking", "true or false"},
    {API_CHAT, "\"reasoning_effort\": 1", 400, "reasoning_effort", "a text"},
};

static void check_refused(bool ok, const struct refused *c, const char *what, const struct api_failure *why) {
    if (ok)
        fail_msg("taken: %s", what);
    if (why->status != c->status || strcmp(why->param, c->param) != 0 || strstr(why->text, c->says) == NULL)
        fail_msg("%s: %d, \"%s\", \"%s\"", what, why->status, why->param, why->text);
}

static void fields_are_refused_by_name(void **state) {
    (void)state;
    const size_t before = used();
    for (size_t i = 0; i < sizeof by_field / sizeof by_field[0]; i++) {
        struct api_request r;
        struct api_failure why;
        check_refused(read_with(by_field[i].endpoint, by_field[i].fields, &r, &why), &by_field[i],
                      by_field[i].fields, &why);
        assert_int_equal(used(), before);
    }
}

static const struct refused bodies[] = {
    {API_CHAT, "", 400, "", "the body is empty"},
    {API_CHAT, "[]", 400, "", "a JSON object"},
    {API_CHAT, "{} x", 400, "", "no JSON"},
    {API_CHAT, "{\"a\": \"\\u0000\"}", 400, "messages", "missing"},
    {API_COMPLETION, "{\"prompt\": 12345678901234567890}", 400, "prompt", "a number beyond 64 bits"},
    {API_CHAT, "{\"a\": \"\xFF\"}", 400, "", "no JSON"},
    {API_CHAT, "{}", 400, "messages", "missing"},
    {API_COMPLETION, "{}", 400, "prompt", "missing"},
    {API_COMPLETION, "{\"prompt\": null}", 400, "prompt", "missing"},
    {API_COMPLETION, "{\"prompt\": []}", 400, "prompt", "empty"},
    {API_COMPLETION, "{\"prompt\": 1}", 400, "prompt", "a number"},
    {API_COMPLETION, "{\"prompt\": [1, \"x\"]}", 400, "prompt", "prompt[1]"},
    {API_COMPLETION, "{\"prompt\": [1, 1000]}", 400, "prompt", "vocabulary"},
    {API_COMPLETION, "{\"prompt\": [1, -1]}", 400, "prompt", "vocabulary"},
    {API_COMPLETION, "{\"prompt\": [[1], []]}", 400, "prompt", "prompt[1] is empty"},
    {API_COMPLETION, "{\"prompt\": [[1], \"x\"]}", 400, "prompt", "prompt[1]"},
    {API_COMPLETION, "{\"prompt\": [{}]}", 400, "prompt", "an object"},
    {API_CHAT, "{\"messages\": \"hi\"}", 400, "messages", "an array"},
    {API_CHAT, "{\"messages\": []}", 400, "messages", "0 messages"},
    {API_CHAT, "{\"messages\": [1]}", 400, "messages[0]", "an object"},
    {API_CHAT, "{\"messages\": [{\"role\": \"king\", \"content\": \"x\"}]}", 400, "messages[0]", "king"},
    {API_CHAT, "{\"messages\": [{\"role\": \"user\"}]}", 400, "messages[0].content", "missing"},
    {API_CHAT, "{\"messages\": [{\"role\": \"user\", \"content\": null}]}", 400, "messages[0].content",
     "null"},
    {API_CHAT, "{\"messages\": [{\"role\": \"user\", \"content\": \"x\", \"y\": 1}]}", 400, "messages[0].y",
     "not known"},
    {API_CHAT, "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\"}]}]}", 400,
     "messages[0].content[0]", "image_url"},
    {API_CHAT, "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\"}]}]}", 400,
     "messages[0].content[0]", "text"},
    {API_CHAT, "{\"messages\": [{\"role\": \"user\", \"content\": \"x\", \"tool_calls\": [{}]}]}", 400,
     "messages[0]", "assistant"},
    {API_CHAT, "{\"messages\": [{\"role\": \"assistant\", \"tool_calls\": [{}]}]}", 400,
     "messages[0].tool_calls[0]", "function"},
    {API_CHAT,
     "{\"messages\": [{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"name\": \"f\", "
     "\"arguments\": "
     "\"[1]\"}}]}]}",
     400, "messages[0].tool_calls[0]", "no JSON object"},
    {API_CHAT, "{\"messages\": [{\"role\": \"assistant\", \"content\": \"\", \"audio\": {\"id\": 1}}]}", 400,
     "messages[0]", "audio"},
};

static void bodies_are_refused_by_place(void **state) {
    (void)state;
    const size_t before = used();
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        struct api_request r;
        struct api_failure why;
        check_refused(api_request_read(bodies[i].endpoint, bodies[i].fields, strlen(bodies[i].fields), &model,
                                       &r, &why),
                      &bodies[i], bodies[i].fields, &why);
        assert_int_equal(used(), before);
    }
}

static void bounds(void **state) {
    (void)state;
    struct api_request r;
    struct api_failure why;
    const size_t before = used();
    char *body = malloc(200000);
    assert_non_null(body);
    memset(body, '[', 1000);
    assert_false(api_request_read(API_COMPLETION, body, 1000, &model, &r, &why));
    assert_int_equal(why.status, 400);
    assert_non_null(strstr(why.text, "1000 levels"));
    size_t n = (size_t)sprintf(body, "{\"prompt\": [1");
    for (int i = 0; i < 40000; i++, n += 2)
        memcpy(body + n, ",1", 2);
    memcpy(body + n, "]}", 2);
    assert_false(api_request_read(API_COMPLETION, body, n + 2, &model, &r, &why));
    assert_int_equal(why.status, 400);
    assert_non_null(strstr(why.text, "values"));
    free(body);
    /* No template: chats are refused, completions are not. */
    struct api_model without = model;
    without.source = NULL;
    assert_false(api_request_read(API_CHAT, "{" USER "}", sizeof "{" USER "}" - 1, &without, &r, &why));
    assert_non_null(strstr(why.text, "chat.template"));
    struct api_model plain = model;
    plain.form = (struct chat_form){.uses_tools = false};
    static const char tools[] =
        "{" USER ", \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]}";
    assert_false(api_request_read(API_CHAT, tools, sizeof tools - 1, &plain, &r, &why));
    assert_string_equal(why.param, "tools");
    assert_int_equal(used(), before);
}

/* The pool is too small at every point in turn: 503, and everything is given back. */
static void memory_ends(void **state) {
    (void)state;
    static const char body[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}]}, "
        "{\"role\": "
        "\"assistant\", \"tool_calls\": [{\"id\": \"1\", \"function\": {\"name\": \"f\", \"arguments\": "
        "\"{}\"}}]}], "
        "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": "
        "{\"properties\": {\"x\": "
        "{\"type\": \"string\"}}}}}], \"stop\": [\"x\", \"y\"], \"logit_bias\": {\"1\": 1}}";
    struct api_request r;
    struct api_failure why;
    unsigned taken = 0, refused = 0;
    for (size_t bytes = 4096; bytes < 32768; bytes += 112) {
        edge_pool_init(memory, bytes);
        const size_t before = used();
        if (api_request_read(API_CHAT, body, sizeof body - 1, &model, &r, &why)) {
            taken++;
            api_request_free(&r);
        } else {
            refused++;
            assert_int_equal(why.status, 503);
        }
        assert_int_equal(used(), before);
    }
    assert_true(taken > 10 && refused > 10);
    edge_pool_init(memory, BYTES);
}

static void fields_are_read(void **state) {
    (void)state;
    struct api_request r;
    struct api_failure why;
    if (!read_with(
            API_CHAT,
            "\"model\": \"demo\", \"stream\": true, \"stream_options\": {\"include_usage\": true}, "
            "\"max_tokens\": "
            "7, \"temperature\": -0.0, \"top_k\": 3, \"top_p\": 0.5, \"min_p\": 0, \"repeat_penalty\": 1.5, "
            "\"presence_penalty\": 0.25, \"frequency_penalty\": -2, \"seed\": 9223372036854775807, \"stop\": "
            "[\"ab\", \"c\"], \"logprobs\": true, \"top_logprobs\": 2, \"n\": 3, \"logit_bias\": {\"5\": "
            "-100}, "
            "\"ignore_eos\": true, \"user\": \"u\", \"metadata\": {\"a\": 1}, \"store\": false, "
            "\"response_format\": {\"type\": \"text\"}, \"parallel_tool_calls\": false, \"tool_choice\": "
            "\"none\", \"min_tokens\": 4, \"dry_penalty_last_n\": -1, \"typical_p\": 0.5, "
            "\"dry_sequence_breakers\": [\"\\n\", \"*\", \":\", \"\\\"\"]",
            &r, &why))
        fail_msg("%s: %s", why.param, why.text);
    assert_true(r.stream && r.include_usage && r.logprobs && r.ignore_eos && r.one_call && !r.tools &&
                !r.echo);
    assert_int_equal(r.max_tokens, 7);
    assert_int_equal(r.n, 3);
    assert_int_equal(r.top_logprobs, 2);
    assert_int_equal(r.sampling.has,
                     255 | STATOR_HAS_MIN_TOKENS | STATOR_HAS_DRY_PENALTY_LAST_N | STATOR_HAS_TYPICAL_P);
    assert_true(r.sampling.min_tokens == 4 && r.sampling.dry_penalty_last_n == UINT32_MAX &&
                r.sampling.typical_p == 0.5f);
    assert_true(r.sampling.temperature == 0 && !__builtin_signbit(r.sampling.temperature));
    assert_true(r.sampling.top_p == 0.5f && r.sampling.frequency_penalty == -2 &&
                r.sampling.repeat_penalty == 1.5f);
    assert_true(r.sampling.seed == INT64_MAX && r.sampling.top_k == 3);
    assert_int_equal(r.sampling.n_logit_bias, 1);
    assert_int_equal(r.sampling.logit_bias[0].token, 5);
    assert_true(r.sampling.logit_bias[0].bias == -100);
    assert_int_equal(r.stops->n, 2);
    assert_memory_equal(r.stops->at[0].p, "ab", 2);
    api_request_free(&r);
    /* null is as if it were not there. */
    assert_true(
        read_with(API_CHAT, "\"temperature\": null, \"tools\": null, \"stop\": null, \"n\": null", &r, &why));
    assert_int_equal(r.sampling.has, 0);
    assert_int_equal(r.n, 1);
    api_request_free(&r);
    assert_true(read_with(API_COMPLETION, "\"logprobs\": 0, \"best_of\": 1, \"suffix\": \"\"", &r, &why));
    assert_true(r.logprobs && r.top_logprobs == 0);
    api_request_free(&r);
}

static void prompts(void **state) {
    (void)state;
    static const struct {
        const char *body;
        uint32_t n;
        const char *text; /* of the last one; NULL: ids */
        size_t length;
    } all[] = {{"{\"prompt\": \"ab\"}", 1, "ab", 2},
               {"{\"prompt\": \"\"}", 1, "", 0},
               {"{\"prompt\": [\"a\", \"bcd\"]}", 2, "bcd", 3},
               {"{\"prompt\": [1, 2, 3]}", 1, NULL, 3},
               {"{\"prompt\": [[1, 2], [3]]}", 2, NULL, 1}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct api_request r;
        struct api_failure why;
        const char *text;
        size_t n;
        if (!api_request_read(API_COMPLETION, all[i].body, strlen(all[i].body), &model, &r, &why))
            fail_msg("%s: %s", all[i].body, why.text);
        assert_int_equal(api_request_prompts(&r), all[i].n);
        const json_t *ids = api_request_prompt(&r, all[i].n - 1, &text, &n);
        assert_int_equal(n, all[i].length);
        if (all[i].text != NULL) {
            assert_string_equal(text, all[i].text);
        } else {
            assert_null(text);
            assert_int_equal(json_integer_value(json_array_get(ids, n - 1)), 3);
        }
        api_request_free(&r);
    }
}

static void check_json(const json_t *v, const char *expected) {
    char text[512];
    const size_t n = json_dumpb(v, text, sizeof text - 1, JSON_COMPACT | JSON_ENCODE_ANY);
    assert_true(n < sizeof text);
    text[n] = '\0';
    assert_string_equal(text, expected);
}

static void templates_get_what_they_expect(void **state) {
    (void)state;
    static const char body[] = "{\"messages\": [{\"role\": \"developer\", \"content\": [{\"type\": \"text\", "
                               "\"text\": \"a\"}, {\"type\": "
                               "\"text\", \"text\": \"b\"}]}, {\"role\": \"assistant\", \"content\": null, "
                               "\"refusal\": null, \"annotations\": "
                               "[], \"tool_calls\": [{\"id\": \"1\", \"type\": \"function\", \"function\": "
                               "{\"name\": \"f\", \"arguments\": "
                               "\"{\\\"x\\\": 1}\"}}]}, {\"role\": \"tool\", \"tool_call_id\": \"1\", "
                               "\"content\": \"r\"}, {\"role\": "
                               "\"assistant\", \"content\": \"c\", \"reasoning_content\": \"t\", "
                               "\"tool_calls\": []}], \"tools\": [{\"type\": "
                               "\"function\", \"function\": {\"name\": \"f\", \"parameters\": "
                               "{\"properties\": {\"s\": {\"type\": \"string\"}, "
                               "\"i\": {\"type\": \"integer\"}}}}}], \"enable_thinking\": false, "
                               "\"chat_template_kwargs\": {\"k\": [1]}, "
                               "\"reasoning_effort\": \"low\"}";
    struct api_request r;
    struct api_failure why;
    const size_t before = used();
    if (!api_request_read(API_CHAT, body, sizeof body - 1, &model, &r, &why))
        fail_msg("%s: %s", why.param, why.text);
    assert_true(r.tools);
    static const char *const arguments[] = {"{\"x\":1}", "\"{\\\"x\\\": 1}\"", "{\"x\":1}"};
    static const char *const content[] = {"null", "null", "\"\""};
    for (int i = 0; i < API_VARIANTS; i++) {
        const json_t *v = r.variables[i], *m = json_object_get(v, "messages"), *call = json_array_get(m, 1);
        assert_non_null(v);
        check_json(json_array_get(m, 0), "{\"role\":\"system\",\"content\":\"ab\"}");
        check_json(json_array_get(m, 3),
                   "{\"role\":\"assistant\",\"content\":\"c\",\"reasoning_content\":\"t\"}");
        check_json(json_object_get(call, "content"), content[i]);
        check_json(json_object_get(
                       json_object_get(json_array_get(json_object_get(call, "tool_calls"), 0), "function"),
                       "arguments"),
                   arguments[i]);
        assert_true(json_is_true(json_object_get(v, "add_generation_prompt")));
        assert_true(json_is_false(json_object_get(v, "enable_thinking")));
        assert_string_equal(json_string_value(json_object_get(v, "bos_token")), "<s>");
        assert_null(json_object_get(v, "eos_token"));
        check_json(json_object_get(v, "k"), "[1]");
        assert_int_equal(json_array_size(json_object_get(v, "tools")), 1);
    }
    const struct chat_types types = {r.types.p, r.types.n};
    assert_int_equal(chat_types_find(&types, "f", "s", 1), CHAT_TYPE_STRING);
    api_request_free(&r);
    assert_int_equal(used(), before);
}

/* What the server writes, or a JSON schema may hold, is taken: numbers beyond 64 bits, halves of surrogate
 * pairs, \u0000. */
static void what_answers_hold_is_taken(void **state) {
    (void)state;
    static const char body[] =
        "{\"seed\": 9223372036854775808, \"messages\": [{\"role\": \"user\", \"content\": "
        "\"a\\u0000\\ud800\"}, "
        "{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"1\", \"type\": "
        "\"function\", "
        "\"function\": {\"name\": \"f\", \"arguments\": \"{\\\"x\\\": 12345678901234567890, \\\"y\\\": "
        "1e400, "
        "\\\"z\\\": \\\"\\\\ud800\\\\u0000\\\"}\"}}]}], \"tools\": [{\"type\": \"function\", \"function\": "
        "{\"name\": \"f\", \"parameters\": {\"properties\": {\"s\": {\"maximum\": "
        "18446744073709551615}}}}}]}";
    struct api_request r;
    struct api_failure why;
    if (!api_request_read(API_CHAT, body, sizeof body - 1, &model, &r, &why))
        fail_msg("%s: %s", why.param, why.text);
    assert_true(r.sampling.seed == (uint64_t)1 << 63);
    const json_t *messages = json_object_get(r.variables[0], "messages");
    assert_string_equal(json_string_value(json_object_get(json_array_get(messages, 0), "content")),
                        "a\xEF\xBF\xBD\xEF\xBF\xBD");
    const json_t *call = json_array_get(json_object_get(json_array_get(messages, 1), "tool_calls"), 0);
    const json_t *arguments = json_object_get(json_object_get(call, "function"), "arguments");
    size_t n = 0;
    assert_string_equal(chat_json_long_number(json_object_get(arguments, "x"), &n), "12345678901234567890");
    assert_string_equal(chat_json_long_number(json_object_get(arguments, "y"), &n), "1e400");
    assert_string_equal(json_string_value(json_object_get(arguments, "z")), "\xEF\xBF\xBD\xEF\xBF\xBD");
    api_request_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_answers_hold_is_taken),
        cmocka_unit_test(fields_are_refused_by_name),
        cmocka_unit_test(bodies_are_refused_by_place),
        cmocka_unit_test(bounds),
        cmocka_unit_test(memory_ends),
        cmocka_unit_test(fields_are_read),
        cmocka_unit_test(prompts),
        cmocka_unit_test(templates_get_what_they_expect),
    };
    return cmocka_run_group_tests(tests, open_pool, NULL);
}
