/* Bodies of requests: what is taken, what is refused and by which name, and that nothing is left behind. */
#include "testing.h"

#include "chat_families.h"
#include "chat/chat_json.h"
#include "chat/chat_types.h"
#include "server/request/api_pictures.h"
#include "server/request/api_prompt.h"
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
                                 .default_max_tokens = 64,
                                 .refuse_unknown = true,
                                 .strict_model = true,
                                 .alias = "coder, qwen small"};
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

static void check_json(const json_t *v, const char *expected) {
    char text[512];
    const size_t n = json_dumpb(v, text, sizeof text - 1, JSON_COMPACT | JSON_ENCODE_ANY);
    assert_true(n < sizeof text);
    text[n] = '\0';
    assert_string_equal(text, expected);
}

#define USER "\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]"

/* Reads "{" USER or a prompt ", " fields "}". */
static bool read_by(const struct api_model *m, enum api_endpoint endpoint, const char *fields,
                    struct api_request *r, struct api_failure *why) {
    char body[4096];
    int n = snprintf(body, sizeof body, "{%s%s%s}", endpoint == API_COMPLETION ? "\"prompt\": \"x\"" : USER,
                     fields[0] != '\0' ? ", " : "", fields);
    return api_request_read(endpoint, body, (size_t)n, m, r, why);
}

static bool read_with(enum api_endpoint endpoint, const char *fields, struct api_request *r,
                      struct api_failure *why) {
    return read_by(&model, endpoint, fields, r, why);
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
    {API_CHAT, "\"stream\": true, \"stream_options\": {\"x\": true}", 400, "stream_options.x",
     "stream_options.x"},
    {API_CHAT, "\"stream\": true, \"stream_options\": {\"include_usage\": 1}", 400, "stream_options",
     "true or false"},
    {API_CHAT, "\"max_tokens\": -3", 400, "max_tokens", "-3"},
    {API_CHAT, "\"max_tokens\": 3, \"n_predict\": 4", 400, "max_tokens", "give one"},
    {API_CHAT, "\"repetition_penalty\": 0", 400, "repetition_penalty", "from 0.1"},
    {API_CHAT, "\"stop_token_ids\": [1000]", 400, "stop_token_ids", "from 0 to 999"},
    {API_CHAT, "\"stop_token_ids\": 7", 400, "stop_token_ids", "an array"},
    {API_CHAT, "\"top_k\": -2", 400, "top_k", "from 0"},
    {API_CHAT, "\"reasoning_budget_tokens\": -2", 400, "reasoning_budget_tokens", "from 0"},
    {API_COMPLETION, "\"reasoning_budget_tokens\": 2", 400, "reasoning_budget_tokens", "not known"},
    {API_CHAT, "\"n_probs\": 21", 400, "n_probs", "from 0 to 20"},
    {API_COMPLETION, "\"n_probs\": 3, \"post_sampling_probs\": true", 400, "post_sampling_probs",
     "before sampling"},
    {API_CHAT, "\"guided_regex\": 1", 400, "guided_regex", "a regular expression"},
    {API_CHAT, "\"guided_grammar\": 1", 400, "guided_grammar", "GBNF"},
    {API_COMPLETION, "\"guided_choice\": []", 400, "guided_choice", "one or more texts"},
    {API_CHAT, "\"guided_choice\": [\"a\", 2]", 400, "guided_choice[1]", "a text"},
    {API_CHAT, "\"guided_json\": [1]", 400, "guided_json", "a JSON Schema"},
    {API_CHAT, "\"guided_json\": {}, \"regex\": \"a\"", 400, "regex", "give one"},
    {API_CHAT, "\"structured_outputs\": {\"regex\": \"a\", \"json\": {}}", 400, "structured_outputs",
     "give one"},
    {API_CHAT, "\"structured_outputs\": {\"grammar\": 1}", 400, "structured_outputs.grammar", "GBNF"},
    {API_CHAT, "\"structured_outputs\": {\"regex\": \"a\", \"x\": 1}", 400, "structured_outputs.x",
     "not known"},
    {API_CHAT, "\"structured_outputs\": {\"regex\": null}", 400, "structured_outputs", "must match"},
    {API_CHAT, "\"json_schema\": {}, \"ignore_eos\": true", 400, "ignore_eos", "json_schema"},
    {API_CHAT, "\"tfs_z\": 0.5", 400, "tfs_z", "no such sampler"},
    {API_CHAT, "\"max_tokens\": 0", 400, "max_tokens", "from 1"},
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
    {API_CHAT, "\"temperature\": NaN", 400, "", "no JSON"},
    {API_CHAT, "\"temperature\": 1e999", 400, "temperature", "beyond 64 bits"},
    {API_CHAT, "\"temperature\": -0.1", 400, "temperature", "from 0 to"},
    {API_CHAT, "\"temperature\": 1e300", 400, "temperature", "from 0 to"},
    {API_CHAT, "\"temperature\": true", 400, "temperature", "a number"},
    {API_CHAT, "\"temperature\": 1, \"temperature\": 1", 400, "", "duplicate"},
    {API_CHAT, "\"top_p\": 1.01", 400, "top_p", "from 0 to 1"},
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
    {API_CHAT, "\"response_format\": {\"type\": \"grammar\"}", 400, "response_format", "json_object"},
    {API_CHAT, "\"response_format\": {\"type\": \"json_schema\", \"json_schema\": {}}", 400,
     "response_format.json_schema.schema", "missing"},
    {API_CHAT, "\"modalities\": [\"text\", \"audio\"]", 400, "modalities", "text"},
    {API_CHAT, "\"tool_choice\": \"required\"", 400, "tool_choice", "tools are missing"},
    {API_CHAT, "\"tool_choice\": {\"type\": \"function\"}", 400, "tool_choice", "auto"},
    {API_CHAT, "\"functions\": [{}]", 400, "functions", "tools"},
    {API_COMPLETION, "\"suffix\": \"x\"", 400, "suffix", "no tokens for filling in"},
    {API_COMPLETION, "\"suffix\": 5", 400, "suffix", "a text"},
    {API_COMPLETION, "\"input_extra\": [{\"text\": \"x\"}]", 400, "input_extra", "no tokens for filling in"},
    {API_COMPLETION, "\"input_extra\": [5]", 400, "input_extra", "input_extra[0]"},
    {API_CHAT, "\"suffix\": \"x\"", 400, "suffix", "/v1/completions"},
    {API_COMPLETION, "\"best_of\": 2", 400, "best_of", "none is chosen"},
    {API_CHAT, "\"tools\": {}", 400, "tools", "an array"},
    {API_CHAT, "\"tools\": [{\"type\": \"x\"}]", 400, "tools[0]", "function"},
    {API_CHAT, "\"tools\": [{\"type\": \"function\", \"function\": {}}]", 400, "tools[0]", "name"},
    {API_CHAT, "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": 1}}]",
     400, "tools[0]", "schema"},
    {API_CHAT, "\"continue_final_message\": 1", 400, "continue_final_message", "true or false"},
    {API_CHAT, "\"add_generation_prompt\": \"x\"", 400, "add_generation_prompt", "true or false"},
    {API_CHAT, "\"continue_final_message\": true", 400, "continue_final_message", "the last message"},
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
     "\"arguments\": [1]}}]}]}",
     400, "messages[0].tool_calls[0]", "a text of JSON"},
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

/* Pictures in the shapes of the APIs: the files' bytes, and the token in the message's text. */
static void pictures_are_taken(void **state) {
    (void)state;
    static const char body[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": ["
        "{\"type\": \"image_url\", \"image_url\": {\"url\": \"data:image/png;base64,aGVsbG8=\", \"detail\": "
        "\"auto\"}},"
        "{\"type\": \"text\", \"text\": \"a\"},"
        "{\"type\": \"input_image\", \"image_url\": \"data:;base64,-_8\"},"
        "{\"type\": \"image\", \"source\": {\"type\": \"base64\", \"data\": \"aG\\nk=\"}}]}]}";
    const size_t before = used();
    struct api_model seeing = model;
    struct api_request r;
    struct api_failure why;
    stator_picture files[API_PICTURES];
    seeing.pictures = 3;
    seeing.marker = "[IMG]";
    seeing.marker_length = 5;
    if (!api_request_read(API_CHAT, body, sizeof body - 1, &seeing, &r, &why))
        fail_msg("%s", why.text);
    assert_int_equal(api_pictures_files(&r, files), 3);
    assert_true(files[0].length == 5 && memcmp(files[0].data, "hello", 5) == 0);
    assert_true(files[1].length == 2 && memcmp(files[1].data, "\373\377", 2) == 0);
    assert_true(files[2].length == 2 && memcmp(files[2].data, "hi", 2) == 0);
    const json_t *message = json_array_get(json_object_get(r.variables[0], "messages"), 0);
    assert_string_equal(json_string_value(json_object_get(message, "content")), "[IMG]a[IMG][IMG]");
    api_request_free(&r);
    assert_int_equal(used(), before);
    seeing.pictures = 2;
    assert_false(api_request_read(API_CHAT, body, sizeof body - 1, &seeing, &r, &why));
    assert_non_null(strstr(why.text, "a request may have 2 pictures"));
    static const struct {
        const char *part, *what;
    } rows[] = {{"\"image_url\": \"http://a/b.png\"", "the server fetches no pictures"},
                {"\"image_url\": \"data:image/png,abc\"", "only data: URLs of base64"},
                {"\"image_url\": \"data:;base64,a\"", "no base64"},
                {"\"image_url\": \"data:;base64,a=b=\"", "no base64"},
                {"\"image_url\": \"data:;base64,\"", "no base64"},
                {"\"image_url\": {}", "a data: URL in image_url"},
                {"\"image_url\": \"data:;base64,aGk=\", \"x\": 1", "content[0].x"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[256];
        const int n =
            snprintf(text, sizeof text,
                     "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", %s}]}]}",
                     rows[i].part);
        seeing.refuse_unknown = true;
        assert_false(api_request_read(API_CHAT, text, (size_t)n, &seeing, &r, &why));
        if (strstr(why.text, rows[i].what) == NULL)
            fail_msg("expected \"%s\" in: %s", rows[i].what, why.text);
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

#define SCHEMA "{\"type\": \"string\", \"maxLength\": 5}"

static void structures_are_read(void **state) {
    (void)state;
    static const struct {
        const char *fields;
        stator_grammar_kind kind;
        const char *field, *text; /* NULL: any answer is allowed */
    } all[] = {
        {"\"response_format\": {\"type\": \"text\"}, \"guided_json\": null, \"regex\": \"\"", 0, NULL, NULL},
        {"\"response_format\": {\"type\": \"json_object\"}", STATOR_GRAMMAR_JSON_SCHEMA, "response_format",
         "{\"type\": \"object\"}"},
        {"\"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"name\": \"n\", \"strict\": "
         "true, "
         "\"schema\": " SCHEMA "}}",
         STATOR_GRAMMAR_JSON_SCHEMA, "response_format", SCHEMA},
        {"\"response_format\": {\"type\": \"json_object\", \"schema\": " SCHEMA "}",
         STATOR_GRAMMAR_JSON_SCHEMA, "response_format", SCHEMA},
        {"\"json_schema\": " SCHEMA, STATOR_GRAMMAR_JSON_SCHEMA, "json_schema", SCHEMA},
        {"\"guided_json\": \"{\\\"maximum\\\": 1e400}\"", STATOR_GRAMMAR_JSON_SCHEMA, "guided_json",
         "{\"maximum\": 1e400}"},
        {"\"guided_json\": {\"b\": 12345678901234567890, \"a\": 1.0}", STATOR_GRAMMAR_JSON_SCHEMA,
         "guided_json", "{\"b\": 12345678901234567890, \"a\": 1.0}"},
        {"\"guided_regex\": \"a+\"", STATOR_GRAMMAR_REGEX, "guided_regex", "a+"},
        {"\"guided_choice\": [\"a.b\", \"\", \"{x|y}\\n\"]", STATOR_GRAMMAR_REGEX, "guided_choice",
         "a\\.b||\\{x\\|y\\}\n"},
        {"\"structured_outputs\": {\"json\": null, \"choice\": [\"a\"]}", STATOR_GRAMMAR_REGEX,
         "structured_outputs", "a"},
        {"\"tool_choice\": \"required\", \"parallel_tool_calls\": false, \"tools\": [{\"type\": "
         "\"function\", "
         "\"function\": {\"name\": \"f\"}}]",
         STATOR_GRAMMAR_PARTS, "tool_choice",
         "[[\"<tool_call>\"], [[{\"any\": [\"\\n\", \"\"]}, {\"any\": [{\"any\": [[\"{\\\"name\\\": \\\"\", "
         "\"f\", \"\\\", "
         "\\\"arguments\\\": \", {\"schema\": {\"additionalProperties\": false, \"type\": \"object\"}}, "
         "\"}\"]]}, [\"[\", "
         "{\"any\": [[\"{\\\"name\\\": \\\"\", \"f\", \"\\\", \\\"arguments\\\": \", {\"schema\": "
         "{\"additionalProperties\": "
         "false, \"type\": \"object\"}}, \"}\"]]}, \"]\"]]}, {\"any\": [\"\\n\", \"\"]}, "
         "[\"</tool_call>\"]], \"\"]]"},
        {"\"structured_outputs\": {\"json_object\": true}", STATOR_GRAMMAR_JSON_SCHEMA, "structured_outputs",
         "{\"type\": \"object\"}"},
    };
    for (size_t i = 0; i < 2 * (sizeof all / sizeof all[0]); i++) {
        struct api_request r;
        struct api_failure why;
        const size_t before = used();
        if (all[i / 2].kind == STATOR_GRAMMAR_PARTS && i % 2 == 0)
            continue; /* completions have no tools */
        if (!read_with(i % 2 ? API_CHAT : API_COMPLETION, all[i / 2].fields, &r, &why))
            fail_msg("%s: %s", all[i / 2].fields, why.text);
        const struct api_structure *s = &r.structure;
        assert_int_equal(s->field != NULL, all[i / 2].field != NULL);
        if (s->field != NULL) {
            assert_string_equal(s->field, all[i / 2].field);
            assert_int_equal(s->kind, all[i / 2].kind);
            if (s->text.n != strlen(all[i / 2].text))
                fail_msg("%s: %.*s", all[i / 2].fields, (int)s->text.n, s->text.p);
            assert_memory_equal(s->text.p, all[i / 2].text, s->text.n);
        }
        api_request_free(&r);
        assert_int_equal(used(), before);
    }
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

/* Fields that real clients send and that cannot change an answer, other spellings of what there is, and names
 * that nobody knows: what of them the answer's header names. */
static void a_tolerant_door(void **state) {
    (void)state;
    static const struct {
        enum api_endpoint endpoint;
        const char *fields, *ignored;
    } all[] = {
        {API_CHAT,
         "\"xtc_probability\": 0, \"dry_multiplier\": 0.0, \"mirostat\": 0, \"mirostat_tau\": 5, "
         "\"typical_p\": 1",
         ""},
        {API_CHAT,
         "\"top_k\": -1, \"min_tokens\": 0, \"n_probs\": 0, \"suffix\": null, \"stop\": \"\", \"tfs_z\": 1",
         ""},
        {API_CHAT,
         "\"timings_per_token\": true, \"return_progress\": true, \"id_slot\": -1, \"keep_alive\": \"5m\"",
         ""},
        {API_CHAT, "\"stream_options\": {\"include_usage\": true, \"continuous_usage_stats\": true}",
         "stream_options.continuous_usage_stats"},
        {API_CHAT, "\"model\": \"gpt-4o\", \"logit_bias\": [], \"best_of\": 1, \"logprobs\": false", ""},
        {API_CHAT,
         "\"reasoning\": {\"effort\": \"high\"}, \"thinking\": {\"type\": \"enabled\"}, \"verbosity\": "
         "\"low\"",
         "thinking, reasoning, verbosity"},
        {API_CHAT,
         "\"frobnicate\": 1, \"x\\u0001\\r\\nSet-Cookie: a\": 2, \"options\": {}, \"cache_control\": {}",
         "frobnicate, x???Set-Cookie??a, options"},
        {API_CHAT,
         "\"tools\": [{\"type\": \"function\", \"cache_control\": {}, \"function\": {\"name\": \"f\", "
         "\"strict\": true, \"returns\": {}}}, {\"type\": \"function\", \"function\": {\"name\": \"g\", "
         "\"returns\": 1}}]",
         "tools.function.returns"},
        {API_COMPLETION, "\"logprobs\": false, \"messages\": [], \"prompt_logprobs\": 0", "messages"},
    };
    struct api_model tolerant = model;
    tolerant.refuse_unknown = tolerant.strict_model = false;
    const size_t before = used();
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct api_request r;
        struct api_failure why;
        if (!read_by(&tolerant, all[i].endpoint, all[i].fields, &r, &why))
            fail_msg("%s: %s: %s", all[i].fields, why.param, why.text);
        assert_string_equal(r.ignored, all[i].ignored);
        api_request_free(&r);
        assert_int_equal(used(), before);
    }
    /* A template without reasoning_effort. */
    struct api_request r;
    struct api_failure why;
    tolerant.form.uses_effort = false;
    assert_true(read_by(&tolerant, API_CHAT, "\"reasoning_effort\": \"high\"", &r, &why));
    assert_string_equal(r.ignored, "reasoning_effort");
    assert_null(json_object_get(r.variables[0], "reasoning_effort"));
    api_request_free(&r);
    /* The list ends where there is no more room. */
    char list[API_IGNORED] = "";
    for (int i = 0; i < 100; i++) {
        char name[32];
        snprintf(name, sizeof name, "unknown_member_%d", i);
        api_request_ignore(list, name);
    }
    assert_true(strlen(list) < API_IGNORED && strcmp(list + strlen(list) - 4, ", ..") == 0);
    assert_null(strstr(list, ".., .."));
}

/* Messages as clients keep them: a call without arguments, metadata, an answer or a result of nothing. */
static void messages_of_clients(void **state) {
    (void)state;
    static const char body[] = "{\"continue_final_message\": false, \"messages\": [{\"role\": \"user\", "
                               "\"id\": \"m1\", \"content\": "
                               "[{\"type\": \"input_text\", \"text\": \"a\", "
                               "\"cache_control\": {\"type\": \"ephemeral\"}}]}, "
                               "{\"role\": \"assistant\", \"content\": null, \"reasoning_details\": [1], "
                               "\"annotations\": [{}], \"prefix\": false, "
                               "\"refusal\": \"no\", \"tool_calls\": [{\"id\": \"1\", \"function\": "
                               "{\"name\": \"f\", \"arguments\": \"\"}}, "
                               "{\"id\": \"2\", \"function\": {\"name\": \"f\"}}]}, "
                               "{\"role\": \"tool\", \"tool_call_id\": \"1\", \"content\": null}, {\"role\": "
                               "\"assistant\", \"content\": null}]}";
    struct api_request r;
    struct api_failure why;
    if (!api_request_read(API_CHAT, body, sizeof body - 1, &model, &r, &why))
        fail_msg("%s: %s", why.param, why.text);
    static const char *const arguments[] = {"{}", "\"{}\"", "{}"};
    for (int i = 0; i < API_VARIANTS; i++) {
        const json_t *m = json_object_get(r.variables[i], "messages");
        check_json(json_array_get(m, 0), "{\"role\":\"user\",\"content\":\"a\"}");
        const json_t *calls = json_object_get(json_array_get(m, 1), "tool_calls");
        for (size_t k = 0; k < 2; k++)
            check_json(json_object_get(json_object_get(json_array_get(calls, k), "function"), "arguments"),
                       arguments[i]);
        check_json(json_object_get(json_array_get(m, 2), "content"), "\"\"");
        check_json(json_object_get(json_array_get(m, 3), "content"), "\"\"");
    }
    assert_string_equal(r.ignored, "");
    api_request_free(&r);
}

static void other_spellings(void **state) {
    (void)state;
    struct api_request r;
    struct api_failure why;
    if (!read_with(
            API_CHAT,
            "\"n_predict\": 16.0, \"max_tokens\": 1.6e1, \"seed\": 42.0, \"repetition_penalty\": 1.25, "
            "\"stop\": [\"\", \"ab\"], \"stop_token_ids\": [3, 7.0], \"top_k\": -1.0, \"model\": \"qwen "
            "small\"",
            &r, &why))
        fail_msg("%s: %s", why.param, why.text);
    assert_int_equal(r.max_tokens, 16);
    assert_int_equal(r.sampling.seed, 42);
    assert_true(r.sampling.repeat_penalty == 1.25f && (r.sampling.has & STATOR_HAS_REPEAT_PENALTY) != 0);
    assert_true((r.sampling.has & STATOR_HAS_TOP_K) != 0 && r.sampling.top_k == 0);
    assert_int_equal(r.stops->n, 1);
    assert_true(r.n_stop_ids == 2 && r.stop_ids[0] == 3 && r.stop_ids[1] == 7);
    api_request_free(&r);
    for (int i = 1; i <= 2; i++) {
        char fields[64];
        snprintf(fields, sizeof fields, "\"max_tokens\": -%d, \"model\": \"%s\"", i,
                 i == 1 ? "coder" : "demo");
        assert_true(read_with(API_CHAT, fields, &r, &why));
        assert_true(r.max_tokens == API_REST);
        api_request_free(&r);
    }
}

/* How many tokens a request gets: all that it asks for, a default, or as many as there is room for. */
static void room_for_tokens(void **state) {
    (void)state;
    static const struct {
        uint32_t wanted, by_default;
        bool clamp;
        uint32_t gets; /* 0: refused */
    } all[] = {{5, 64, true, 5},     {0, 64, true, 64},   {0, 0, true, 119},          {119, 64, false, 119},
               {120, 64, true, 119}, {120, 64, false, 0}, {API_REST, 64, false, 119}, {0, 500, false, 119}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct api_model m = model;
        struct api_failure why = {0};
        uint32_t gets = 0;
        m.clamp_tokens = all[i].clamp;
        m.default_max_tokens = all[i].by_default;
        assert_int_equal(api_prompt_fits(&m, 10, all[i].wanted, &gets, &why), all[i].gets != 0);
        assert_int_equal(gets, all[i].gets);
        assert_true(all[i].gets != 0 || (why.status == 400 && strcmp(why.param, "max_tokens") == 0));
    }
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

static void templates_get_what_they_expect(void **state) {
    (void)state;
    static const char body[] = "{\"continue_final_message\": false, \"messages\": [{\"role\": \"developer\", "
                               "\"content\": [{\"type\": \"text\", "
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
    static const char *const content[] = {"\"\"", "\"\"", "null"};
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

/* The switches of reasoning that clients know, and what the template gets of them. */
static void reasoning_is_switched(void **state) {
    (void)state;
    static const struct {
        const char *source, *fields, *name;
        int is; /* -1: not given */
        const char *ignored;
    } all[] = {
        {"{{ enable_thinking }}", "\"thinking\": {\"type\": \"disabled\"}", "enable_thinking", 0, ""},
        {"{{ enable_thinking }}", "\"thinking\": {\"type\": \"enabled\", \"budget_tokens\": 5}",
         "enable_thinking", 1, ""},
        {"{{ enable_thinking }}", "\"thinking\": {\"type\": \"adaptive\"}", "enable_thinking", -1, ""},
        {"{{ enable_thinking }}", "\"thinking\": {\"type\": \"x\"}", "enable_thinking", -1, "thinking"},
        {"{{ enable_thinking }}", "\"thinking\": 1", "enable_thinking", -1, "thinking"},
        {"{{ enable_thinking }}", "\"reasoning_effort\": \"none\"", "enable_thinking", 0, ""},
        {"{{ enable_thinking }}", "\"reasoning_effort\": \"low\"", "enable_thinking", -1, "reasoning_effort"},
        /* What says more counts. */
        {"{{ enable_thinking }}", "\"thinking\": {\"type\": \"disabled\"}, \"enable_thinking\": true",
         "enable_thinking", 1, ""},
        {"{{ enable_thinking }}",
         "\"thinking\": {\"type\": \"disabled\"}, \"chat_template_kwargs\": {\"enable_thinking\": true}",
         "enable_thinking", 1, ""},
        {"{{ thinking }}", "\"thinking\": {\"type\": \"enabled\"}", "thinking", 1, ""},
        {"{{ thinking }}{{ enable_thinking }}", "\"thinking\": {\"type\": \"disabled\"}", "thinking", -1, ""},
        {"{{ reasoning_effort }}", "\"reasoning_effort\": \"none\"", "enable_thinking", -1, ""},
        {"{{ messages }}", "\"thinking\": {\"type\": \"disabled\"}, \"reasoning_effort\": \"none\"",
         "thinking", -1, "thinking, reasoning_effort"},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct api_model m = model;
        struct api_request r;
        struct api_failure why;
        m.source = all[i].source;
        m.source_length = strlen(m.source);
        m.refuse_unknown = false;
        assert_int_equal(api_form_find(&m, NULL), STATOR_OK);
        if (!read_by(&m, API_CHAT, all[i].fields, &r, &why))
            fail_msg("%s: %s: %s", all[i].fields, why.param, why.text);
        const json_t *v = json_object_get(r.variables[0], all[i].name);
        const int is = v == NULL ? -1 : json_is_true(v);
        if (is != all[i].is || strcmp(r.ignored, all[i].ignored) != 0)
            fail_msg("%s with %s: %d, ignored \"%s\"", all[i].source, all[i].fields, is, r.ignored);
        api_request_free(&r);
    }
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

/* The history of gpt-oss: the thought has its template's name, and no text beside it in a message with calls.
 */
static void thoughts_have_the_name_of_the_template(void **state) {
    (void)state;
    static const char *const members[] = {"reasoning_content", "reasoning", "thinking"};
    struct api_model harmony = model;
    harmony.source = family_harmony;
    harmony.source_length = sizeof family_harmony - 1;
    assert_int_equal(api_form_find(&harmony, NULL), STATOR_OK);
    assert_string_equal(harmony.form.reasoning_name, "thinking");
    const size_t before = used();
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        for (int calls = 0; calls < 2; calls++) {
            char body[1024];
            struct api_request r;
            struct api_failure why;
            const int n = snprintf(
                body, sizeof body,
                "{\"continue_final_message\": false, \"messages\": [{\"role\": \"user\", \"content\": "
                "\"hi\"}, "
                "{\"role\": \"assistant\", \"content\": \"said\", \"%s\": \"thought\"%s}], \"tools\": "
                "[{\"type\": \"function\", "
                "\"function\": {\"name\": \"f\"}}]}",
                members[i],
                calls ? ", \"tool_calls\": [{\"id\": \"1\", \"type\": \"function\", \"function\": {\"name\": "
                        "\"f\", \"arguments\": \"{}\"}}]"
                      : "");
            if (!api_request_read(API_CHAT, body, (size_t)n, &harmony, &r, &why))
                fail_msg("%s: %s", members[i], why.text);
            const json_t *v = r.variables[0], *m = json_array_get(json_object_get(v, "messages"), 1);
            const json_t *f = json_object_get(json_array_get(json_object_get(v, "tools"), 0), "function");
            assert_string_equal(json_string_value(json_object_get(m, "thinking")),
                                calls ? "thought\n\nsaid" : "thought");
            assert_string_equal(json_string_value(json_object_get(m, "content")), calls ? "" : "said");
            assert_string_equal(json_string_value(json_object_get(f, "description")), "");
            api_request_free(&r);
            assert_int_equal(used(), before);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_answers_hold_is_taken),
        cmocka_unit_test(fields_are_refused_by_name),
        cmocka_unit_test(bodies_are_refused_by_place),
        cmocka_unit_test(pictures_are_taken),
        cmocka_unit_test(bounds),
        cmocka_unit_test(memory_ends),
        cmocka_unit_test(fields_are_read),
        cmocka_unit_test(structures_are_read),
        cmocka_unit_test(a_tolerant_door),
        cmocka_unit_test(reasoning_is_switched),
        cmocka_unit_test(messages_of_clients),
        cmocka_unit_test(other_spellings),
        cmocka_unit_test(room_for_tokens),
        cmocka_unit_test(prompts),
        cmocka_unit_test(templates_get_what_they_expect),
        cmocka_unit_test(thoughts_have_the_name_of_the_template),
    };
    return cmocka_run_group_tests(tests, open_pool, NULL);
}
