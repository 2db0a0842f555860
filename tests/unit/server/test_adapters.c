/* Requests of other APIs: each becomes what the same request of chat completions is; what Claude Code adds is
 * removed; and errors name what the client wrote. */
#include "testing.h"

#include "chat_families.h"
#include "server/adapters/anthropic.h"
#include "server/adapters/claude_markers.h"
#include "server/adapters/ollama.h"
#include "server/adapters/responses.h"
#include "server/http/edge_pool.h"

#define BYTES (8u << 20)

static const char template[] = CHAT_FAMILIES_HERMES "{# reasoning_effort #}";
static struct api_model model = {.name = "demo",
                                 .source = template,
                                 .source_length = sizeof template - 1,
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

#define USER "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"

struct same {
    const char *body, *chat; /* of the adapter, of chat completions */
    const char *ignored;     /* by the adapter */
};

static const struct same anthropic_same[] = {
    {"{\"max_tokens\":9,\"temperature\":0.5,\"top_k\":3,\"stream\":true,\"metadata\":{}," USER "}",
     "{\"max_tokens\":9,\"temperature\":0.5,\"top_k\":3,\"stream\":true," USER "}", ""},
    {"{\"system\":\"be kind\"," USER "}",
     "{\"messages\":[{\"role\":\"system\",\"content\":\"be kind\"},{\"role\":\"user\",\"content\":\"hi\"}]}",
     ""},
    {"{\"system\":[{\"type\":\"text\",\"text\":\"x-anthropic-billing-header: cch=1;\"},"
     "{\"type\":\"text\",\"text\":\"be\",\"cache_control\":{\"type\":\"ephemeral\"}},"
     "{\"type\":\"text\",\"text\":\"kind\\n\\n<total_tokens>15000 tokens left</total_tokens>\"}]," USER "}",
     "{\"messages\":[{\"role\":\"system\",\"content\":\"be\\nkind\"},{\"role\":\"user\",\"content\":\"hi\"}]"
     "}",
     ""},
    {"{\"system\":\"x-anthropic-billing-header: cch=1;\"," USER "}", "{" USER "}", ""},
    /* A turn with reasoning, text and a call; its answer, which failed; and what the user says to it. */
    {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\","
     "\"text\":\"b\"}]},"
     "{\"role\":\"assistant\",\"content\":[{\"type\":\"thinking\",\"thinking\":\"hm\",\"signature\":\"s\"},"
     "{\"type\":\"redacted_thinking\",\"data\":\"x\"},{\"type\":\"text\",\"text\":\"so\"},"
     "{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"f\",\"input\":{\"n\":12345678901234567890,\"x\":[1.0,"
     "null,\"\\u00e9\"]}}]},"
     "{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"t1\",\"is_error\":true,"
     "\"content\":[{\"type\":\"text\",\"text\":\"no\"}]},{\"type\":\"text\",\"text\":\"again\"}]}]}",
     "{\"messages\":[{\"role\":\"user\",\"content\":\"a\\nb\"},"
     "{\"role\":\"assistant\",\"reasoning_content\":\"hm\",\"content\":\"so\",\"tool_calls\":[{\"id\":\"t1\","
     "\"type\":\"function\","
     "\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"n\\\": 12345678901234567890, \\\"x\\\": [1.0, null, "
     "\\\"\\u00e9\\\"]}\"}}]},"
     "{\"role\":\"tool\",\"tool_call_id\":\"t1\",\"content\":\"Error:\\nno\"},{\"role\":\"user\",\"content\":"
     "\"again\"}]}",
     ""},
    /* A result without content; a message of nothing but a marker; the conversation goes on. */
    {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":[{\"type\":"
     "\"tool_use\",\"id\":\"t\","
     "\"name\":\"f\",\"input\":{}}]},{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_"
     "id\":\"t\"},"
     "{\"type\":\"text\",\"text\":\"<system_warning>Token usage: 5/9; 4 remaining</system_warning>\"}]}]}",
     "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"\",\"tool_"
     "calls\":[{\"id\":\"t\","
     "\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]},"
     "{\"role\":\"tool\",\"tool_call_id\":\"t\",\"content\":\"\"}]}",
     ""},
    {"{\"tools\":[{\"name\":\"f\",\"description\":\"d\",\"input_schema\":{\"type\":\"object\"},\"cache_"
     "control\":{}},"
     "{\"type\":\"web_search_20250305\",\"name\":\"web_search\",\"max_uses\":5}],"
     "\"tool_choice\":{\"type\":\"auto\",\"disable_parallel_tool_use\":true}," USER "}",
     "{\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"d\",\"parameters\":{"
     "\"type\":\"object\"}}}],"
     "\"tool_choice\":\"auto\",\"parallel_tool_calls\":false," USER "}",
     "tools.web_search_20250305"},
    {"{\"tools\":[{\"type\":\"computer_20250124\",\"name\":\"computer\"}]," USER "}", "{" USER "}",
     "tools.computer_20250124"},
    {"{\"output_config\":{\"effort\":\"low\"},\"context_management\":{\"edits\":[]}," USER "}",
     "{\"reasoning_effort\":\"low\"," USER "}", "context_management"},
    {"{\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":5}," USER "}",
     "{\"reasoning_budget_tokens\":5," USER "}", "thinking"},
};

static const struct same responses_same[] = {
    {"{\"input\":\"hi\",\"messages\":[{\"role\":\"user\",\"content\":\"no\"}]}", "{" USER "}", "messages"},
    {"{\"input\":\"hi\",\"max_output_tokens\":9,\"temperature\":0.5,\"stream\":true,\"store\":false,"
     "\"previous_response_id\":null}",
     "{\"max_tokens\":9,\"temperature\":0.5,\"stream\":true," USER "}", ""},
    {"{\"input\":[],\"max_output_tokens\":1}",
     "{\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"\"}]}", ""},
    {"{\"instructions\":\"be kind\",\"input\":[{\"role\":\"developer\",\"content\":\"really\"},"
     "{\"type\":\"message\",\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"h\"},"
     "{\"type\":\"input_text\",\"text\":\"i\"}]}]}",
     "{\"messages\":[{\"role\":\"system\",\"content\":\"be "
     "kind\"},{\"role\":\"system\",\"content\":\"really\"},"
     "{\"role\":\"user\",\"content\":\"hi\"}]}",
     ""},
    /* Reasoning, a message and two calls are one turn. */
    {"{\"input\":[{\"role\":\"user\",\"content\":\"hi\"},"
     "{\"type\":\"reasoning\",\"id\":\"rs\",\"summary\":[],\"content\":[{\"type\":\"reasoning_text\","
     "\"text\":\"hm\"}]},"
     "{\"type\":\"reasoning\",\"summary\":[{\"type\":\"summary_text\",\"text\":\"ha\"}]},"
     "{\"type\":\"message\",\"role\":\"assistant\",\"id\":\"m\",\"content\":[{\"type\":\"output_text\","
     "\"text\":\"so\",\"annotations\":[]}]},"
     "{\"type\":\"function_call\",\"id\":\"fc\",\"call_id\":\"c1\",\"name\":\"f\",\"arguments\":\"{\\\"n\\\":"
     "1e400}\"},"
     "{\"type\":\"custom_tool_call\",\"call_id\":\"c2\",\"name\":\"g\",\"input\":\"x\"},"
     "{\"type\":\"web_search_call\",\"id\":\"w\"},"
     "{\"type\":\"function_call_output\",\"call_id\":\"c1\",\"output\":\"ok\"},"
     "{\"type\":\"custom_tool_call_output\",\"call_id\":\"c2\",\"output\":[{\"type\":\"input_text\",\"text\":"
     "\"no\"}]}]}",
     "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},"
     "{\"role\":\"assistant\",\"reasoning_content\":\"hm\\n\\nha\",\"content\":\"so\",\"tool_calls\":["
     "{\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"n\\\":1e400}\"}}"
     ","
     "{\"id\":\"c2\",\"type\":\"function\",\"function\":{\"name\":\"g\",\"arguments\":\"{\\\"input\\\": "
     "\\\"x\\\"}\"}}]},"
     "{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"ok\"},{\"role\":\"tool\",\"tool_call_id\":"
     "\"c2\",\"content\":\"no\"}]}",
     "input.web_search_call"},
    {"{\"input\":\"hi\",\"tools\":[{\"type\":\"function\",\"name\":\"f\",\"description\":\"d\","
     "\"parameters\":{\"type\":\"object\"},"
     "\"strict\":false},{\"type\":\"local_shell\"},{\"type\":\"custom\",\"name\":\"apply_patch\"}],\"tool_"
     "choice\":\"auto\","
     "\"parallel_tool_calls\":false}",
     "{\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"d\",\"parameters\":{"
     "\"type\":\"object\"},"
     "\"strict\":false}}],\"tool_choice\":\"auto\",\"parallel_tool_calls\":false," USER "}",
     "tools.local_shell, tools.custom"},
    {"{\"input\":\"hi\",\"reasoning\":{\"effort\":\"low\",\"summary\":\"auto\"},\"text\":{\"format\":{"
     "\"type\":\"text\"},"
     "\"verbosity\":\"low\"},\"include\":[\"reasoning.encrypted_content\"],\"prompt_cache_key\":\"k\","
     "\"truncation\":\"disabled\"}",
     "{\"reasoning_effort\":\"low\"," USER "}", "text.verbosity"},
};

static const struct same ollama_same[] = {
    {"{\"model\":\"demo:latest\",\"options\":{\"num_predict\":9,\"temperature\":0.5,\"num_ctx\":99,\"x\":1},"
     "\"keep_alive\":\"5m\",\"truncate\":true," USER "}",
     "{\"max_tokens\":9,\"temperature\":0.5,\"stream\":true," USER "}", "options.x"},
    {"{\"stream\":false,\"think\":\"low\",\"format\":\"\"," USER "}",
     "{\"reasoning_effort\":\"low\"," USER "}", ""},
    {"{\"messages\":[{\"role\":\"user\",\"content\":\"hi\",\"images\":[]},{\"role\":\"assistant\","
     "\"content\":"
     "\"\",\"thinking\":\"hm\",\"tool_calls\":[{\"function\":{\"index\":0,\"name\":\"f\",\"arguments\":{"
     "\"n\":"
     "12345678901234567890}}}]},{\"role\":\"tool\",\"tool_name\":\"f\",\"content\":\"r\"}]}",
     "{\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},{\"role\":\"assistant\","
     "\"content\":"
     "\"\",\"reasoning_content\":\"hm\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":{\"n\":"
     "12345678901234567890}}}]},{\"role\":\"tool\",\"name\":\"f\",\"content\":\"r\"}]}",
     ""},
};

static const struct same generate_same[] = {
    {"{\"system\":\"be kind\",\"prompt\":\"hi\",\"stream\":false,\"options\":{\"seed\":3}}",
     "{\"seed\":3,\"messages\":[{\"role\":\"system\",\"content\":\"be kind\"},{\"role\":\"user\",\"content\":"
     "\"hi\"}]}",
     ""},
    {"{\"prompt\":\"hi\",\"think\":false,\"suffix\":\"\",\"context\":[]}",
     "{\"stream\":true,\"thinking\":{\"type\":\"disabled\"}," USER "}", "thinking"},
};

static void check_same(const struct same *s, api_translate *translate) {
    struct api_request got, want;
    struct api_failure why = {0};
    if (!api_request_read_other(translate, s->body, strlen(s->body), &model, &got, &why))
        fail_msg("%s: %s", s->body, why.text);
    if (!api_request_read(API_CHAT, s->chat, strlen(s->chat), &model, &want, &why))
        fail_msg("%s: %s", s->chat, why.text);
    assert_string_equal(got.ignored, s->ignored);
    for (int i = 0; i < API_VARIANTS; i++) {
        assert_true((got.variables[i] != NULL) == (want.variables[i] != NULL));
        if (want.variables[i] == NULL || json_equal((json_t *)got.variables[i], (json_t *)want.variables[i]))
            continue;
        char text[4096];
        text[json_dumpb(got.variables[i], text, sizeof text - 1, 0)] = '\0';
        fail_msg("%s became %s", s->body, text);
    }
    assert_int_equal(got.tools, want.tools);
    assert_int_equal(got.one_call, want.one_call);
    assert_int_equal(got.stream, want.stream);
    assert_int_equal(got.max_tokens, want.max_tokens);
    assert_int_equal(got.limits_reasoning, want.limits_reasoning);
    assert_int_equal(got.reasoning_budget, want.reasoning_budget);
    assert_int_equal(got.sampling.has, want.sampling.has);
    api_request_free(&got);
    api_request_free(&want);
}

static void requests_are_those_of_chats(void **state) {
    (void)state;
    const size_t before = used();
    for (size_t i = 0; i < sizeof anthropic_same / sizeof anthropic_same[0]; i++)
        check_same(&anthropic_same[i], anthropic_translate);
    for (size_t i = 0; i < sizeof responses_same / sizeof responses_same[0]; i++)
        check_same(&responses_same[i], responses_translate);
    for (size_t i = 0; i < sizeof ollama_same / sizeof ollama_same[0]; i++)
        check_same(&ollama_same[i], ollama_translate_chat);
    for (size_t i = 0; i < sizeof generate_same / sizeof generate_same[0]; i++)
        check_same(&generate_same[i], ollama_translate_generate);
    assert_int_equal(used(), before);
}

struct refused {
    const char *body, *param, *says;
};

static const struct refused anthropic_refused[] = {
    {"{}", "messages", "an array of messages"},
    {"{\"messages\":[]}", "messages", "0 messages"},
    {"{\"messages\":[{\"role\":\"tool\",\"content\":\"x\"}]}", "messages[0].role", "\"assistant\""},
    {"{\"messages\":[{\"role\":\"user\",\"content\":5}]}", "messages[0].content", "a number"},
    {"{\"messages\":[{\"role\":\"user\",\"content\":[5]}]}", "messages[0].content[0]", "a block"},
    {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\",\"source\":{}}]}]}",
     "messages[0].content[0]", "\"image\""},
    {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\"}]}]}",
     "messages[0].content[0]", "tool_use_id"},
    {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"t\","
     "\"content\":[{\"type\":\"image\"}]}]}]}",
     "messages[0].content[0][0]", "\"image\""},
    {"{\"messages\":[{\"role\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"name\":\"f\",\"input\":[]}"
     "]}]}",
     "messages[0].content[0]", "an object"},
    {"{\"system\":7," USER "}", "system", "a text"},
    {"{\"stop_sequences\":\"x\"," USER "}", "stop_sequences", "an array"},
    {"{\"tools\":[{\"input_schema\":{}}]," USER "}", "tools[0]", "missing"},
    {"{\"tool_choice\":\"auto\"," USER "}", "tool_choice", "\"any\""},
    {"{\"tool_choice\":{\"type\":\"tool\"}," USER "}", "tool_choice.name", "a tool's name"},
};

static const struct refused responses_refused[] = {
    {"{\"input\":7}", "input", "a number"},
    {"{\"input\":[7]}", "input[0]", "an item"},
    {"{\"input\":[{\"role\":\"tool\",\"content\":\"x\"}]}", "input[0].role", "\"developer\""},
    {"{\"input\":[{\"role\":\"user\",\"content\":[{\"type\":\"input_image\"}]}]}", "input[0].content[0]",
     "\"input_image\""},
    {"{\"input\":[{\"type\":\"function_call\",\"name\":\"f\"}]}", "input[0]", "arguments"},
    {"{\"input\":[{\"type\":\"function_call_output\",\"call_id\":\"c\"}]}", "input[0].output", "missing"},
    {"{\"input\":[{\"type\":\"item_reference\",\"id\":\"x\"}]}", "input[0]", "not kept here"},
    {"{\"input\":\"x\",\"previous_response_id\":\"resp_1\"}", "previous_response_id",
     "no response is stored"},
    {"{\"input\":\"x\",\"conversation\":\"c\"}", "conversation", "no conversation is stored"},
    {"{\"input\":\"x\",\"background\":true}", "background", "asked for later"},
    {"{\"input\":\"x\",\"tools\":[{\"name\":\"f\"}]}", "tools[0]", "a tool"},
    {"{\"input\":\"x\",\"tools\":[{\"type\":\"function\"}]}", "tools[0]", "name"},
    {"{\"input\":\"x\",\"tool_choice\":{\"type\":\"allowed_tools\"}}", "tool_choice", "can't be honoured"},
    {"{\"input\":\"x\",\"reasoning\":\"high\"}", "reasoning", "an object"},
};

static void check_refused(const struct refused *q, api_translate *translate) {
    struct api_request r;
    struct api_failure why = {0};
    if (api_request_read_other(translate, q->body, strlen(q->body), &model, &r, &why))
        fail_msg("%s is taken", q->body);
    assert_int_equal(why.status, 400);
    assert_string_equal(why.param, q->param);
    if (strstr(why.text, q->says) == NULL)
        fail_msg("%s: %s", q->body, why.text);
}

static void requests_are_refused_by_place(void **state) {
    (void)state;
    const size_t before = used();
    for (size_t i = 0; i < sizeof anthropic_refused / sizeof anthropic_refused[0]; i++)
        check_refused(&anthropic_refused[i], anthropic_translate);
    for (size_t i = 0; i < sizeof responses_refused / sizeof responses_refused[0]; i++)
        check_refused(&responses_refused[i], responses_translate);
    assert_int_equal(used(), before);
}

static void markers_go(void **state) {
    (void)state;
    static const char *const texts[][2] = {
        {"x-anthropic-billing-header: cc_version=2; cch=0;\nYou are", "You are"},
        {"x-anthropic-billing-header: a\n\nx", "x"},
        {"a\n\n<total_tokens>14,999 tokens left</total_tokens>\n<total_tokens>5 tokens left</total_tokens>",
         "a"},
        {"a\n<system-reminder>\n<total_tokens>1 tokens left</total_tokens>\n</system-reminder>\nb", "a\nb"},
        {"<system-reminder>\nToken usage: 1/2; 1 remaining\n</system-reminder>", ""},
        {"<system_warning>Token usage: 1/2; 1 remaining</system_warning>x", "x"},
    };
    static const char *const kept[] = {"say x-anthropic-billing-header: a",
                                       "<total_tokens>many tokens left</total_tokens>",
                                       "<total_tokens>5 tokens left",
                                       "<system-reminder>\nTodo\n</system-reminder>",
                                       "",
                                       "a < b"};
    char out[256];
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const size_t n = strlen(texts[i][0]);
        assert_true(claude_markers_in(texts[i][0], n));
        out[claude_markers_remove(texts[i][0], n, out)] = '\0';
        assert_string_equal(out, texts[i][1]);
    }
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        assert_false(claude_markers_in(kept[i], strlen(kept[i])));
        out[claude_markers_remove(kept[i], strlen(kept[i]), out)] = '\0';
        assert_string_equal(out, kept[i]);
    }
}

static void check_memory_ends(const char *body, api_translate *translate) {
    const size_t before = used();
    void *held[4096];
    size_t n = 0;
    while (n < 4096 && (held[n] = edge_pool_alloc(2048)) != NULL)
        n++;
    bool refused = false;
    for (bool took = false; !took && n > 0; refused = refused || !took) {
        struct api_request r;
        struct api_failure why = {0};
        took = api_request_read_other(translate, body, strlen(body), &model, &r, &why);
        if (took)
            api_request_free(&r);
        else
            assert_int_equal(why.status, 503);
        edge_pool_free(held[--n]);
    }
    assert_true(n > 0 && refused);
    while (n > 0)
        edge_pool_free(held[--n]);
    assert_int_equal(used(), before);
}

/* What was kept of earlier answers: arguments as the model wrote them, and items that are referred to. */
static void what_was_kept_counts(void **state) {
    (void)state;
    static const char written[] = "{\"b\": 12345678901234567890, \"a\": [1.0, \"x\"]}";
    static const char item[] =
        "{\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\","
        "\"text\":\"so\"}]}";
    static const struct same same = {
        "{\"input\":[{\"role\":\"user\",\"content\":\"hi\"},{\"type\":\"reasoning\",\"summary\":[],"
        "\"encrypted_content\":\"stator:hm\"},{\"type\":\"item_reference\",\"id\":\"msg_1\"},"
        "{\"type\":\"function_call\",\"call_id\":\"c1\",\"name\":\"f\",\"arguments\":\"{\\\"a\\\":[1,"
        "\\\"x\\\"],"
        "\\\"b\\\":12345678901234567000}\"},"
        "{\"type\":\"function_call\",\"call_id\":\"c1\",\"name\":\"f\",\"arguments\":\"{\\\"a\\\":2}\"}]}",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"hi\"},"
        "{\"role\":\"assistant\",\"reasoning_content\":\"hm\",\"content\":\"so\",\"tool_calls\":["
        "{\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":"
        "\"{\\\"b\\\": 12345678901234567890, \\\"a\\\": [1.0, \\\"x\\\"]}\"}},"
        "{\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":2}\"}}]"
        "}]}",
        ""};
    static struct kept kept;
    assert_true(kept_open(&kept, 4096));
    kept_put(&kept, "c1", written, sizeof written - 1);
    kept_put(&kept, "msg_1", item, sizeof item - 1);
    const size_t before = used();
    model.kept = &kept;
    check_same(&same, responses_translate);
    /* Arguments are kept too, and a model can write one reference after the other. */
    static const char chain[] = "{\"type\":\"item_reference\",\"id\":\"msg_1\"}";
    static const char refers[] = "{\"input\":[{\"type\":\"item_reference\",\"id\":\"c2\"}]}";
    struct api_request r;
    struct api_failure why;
    kept_put(&kept, "c2", chain, sizeof chain - 1);
    assert_false(api_request_read_other(responses_translate, refers, sizeof refers - 1, &model, &r, &why));
    assert_int_equal(why.status, 400);
    assert_non_null(strstr(why.text, "another reference"));
    model.kept = NULL;
    assert_int_equal(used(), before);
}

/* Wherever memory ends, the client is told, and nothing is left behind. */
static void memory_ends(void **state) {
    (void)state;
    check_memory_ends(anthropic_same[4].body, anthropic_translate);
    check_memory_ends(responses_same[3].body, responses_translate);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_those_of_chats),
        cmocka_unit_test(requests_are_refused_by_place),
        cmocka_unit_test(markers_go),
        cmocka_unit_test(what_was_kept_counts),
        cmocka_unit_test(memory_ends),
    };
    return cmocka_run_group_tests(tests, open_pool, NULL);
}
