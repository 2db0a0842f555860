/* Histories with calls: every template of ../shared/templates renders an assistant's call so that it parses
 * back to that call, and takes every message that the server makes of what the model writes, cut anywhere;
 * or the request is refused by name. Nothing is lost silently. A last message of the assistant goes on. */
#include "testing.h"

#include "chat_families.h"
#include "chat/chat_parse.h"
#include "server/request/api_prompt.h"
#include "server/http/edge_pool.h"

#include <dirent.h>
#include <stdatomic.h>

#define BYTES  (16u << 20)
#define RENDER (8u << 20)

static unsigned char *memory, *room;
static atomic_int stop;

static int open_pool(void **state) {
    (void)state;
    memory = aligned_alloc(4096, BYTES);
    room = aligned_alloc(4096, RENDER);
    if (memory == NULL || room == NULL)
        return -1;
    edge_pool_init(memory, BYTES);
    edge_pool_serve_libraries();
    return 0;
}

static void find_form(struct api_model *m, const char *source, size_t n) {
    *m = (struct api_model){.name = "m",
                            .source = source,
                            .source_length = n,
                            .bos = "<s>",
                            .bos_length = 3,
                            .eos = "</s>",
                            .eos_length = 4,
                            .context = 100000,
                            .vocab = 1000};
    assert_int_equal(api_form_find(m, NULL), STATOR_OK);
}

#define TOOLS                                                                                                \
    "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"get_weather\", \"description\": "       \
    "\"d\", "                                                                                                \
    "\"parameters\": {\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\"}, \"days\": "   \
    "{\"type\": \"integer\"}}}}}]"
#define CALL(id, arguments)                                                                                  \
    "{\"id\": \"" id "\", \"type\": \"function\", \"function\": {\"name\": \"get_weather\", \"arguments\": " \
    "\"" arguments "\"}}"
#define ARGUMENTS "{\\\"city\\\": \\\"Oslo <b>\\\", \\\"days\\\": 3}"

/* The prompt of a body; NULL: it is refused, *why says it. */
static const char *render_body(const struct api_model *m, const char *body, size_t *n,
                               struct api_failure *why) {
    struct api_request r;
    if (!api_request_read(API_TEMPLATE, body, strlen(body), m, &r, why))
        return NULL;
    const char *text = NULL;
    const bool ok = api_prompt_render(m, &r, &stop, room, RENDER, true, &text, n, why);
    api_request_free(&r);
    return ok ? text : NULL;
}

/* The prompt of a body whose messages are `messages`; NULL: it is refused, *why says it. */
static const char *render(const struct api_model *m, const char *messages, bool prompt, size_t *n,
                          struct api_failure *why) {
    static char body[32768];
    const int length = snprintf(body, sizeof body, "{\"messages\": [%s], \"add_generation_prompt\": %s%s}",
                                messages, prompt ? "true" : "false", m->form.uses_tools ? ", " TOOLS : "");
    assert_true(length > 0 && (size_t)length < sizeof body);
    return render_body(m, body, n, why);
}

/* What the server tells of an answer. */
struct said {
    char content[8192], reasoning[8192], arguments[2][8192], names[2][256];
    size_t n_calls;
};

static void append(char *to, size_t size, const char *p, size_t n) {
    const size_t at = strlen(to);
    assert_true(at + n < size);
    memcpy(to + at, p, n);
    to[at + n] = '\0';
}
static void on_content(void *context, const char *p, size_t n) {
    append(((struct said *)context)->content, 8192, p, n);
}
static void on_reasoning(void *context, const char *p, size_t n) {
    append(((struct said *)context)->reasoning, 8192, p, n);
}
static void on_call(void *context, const char *p, size_t n) {
    struct said *s = context;
    assert_true(s->n_calls < 2);
    append(s->names[s->n_calls++], 256, p, n);
}
static void on_arguments(void *context, const char *p, size_t n) {
    struct said *s = context;
    append(s->arguments[s->n_calls - 1], 8192, p, n);
}
static void on_end(void *context) {
    (void)context;
}
static void *resize(void *context, void *p, size_t n) {
    (void)context;
    if (n > 0)
        return realloc(p, n);
    free(p);
    return NULL;
}

static void parse(const struct api_model *m, bool thinks, const char *p, size_t n, struct said *out) {
    static const char rows[] = "get_weather\0\0@get_weather\0city\0A"
                               "get_weather\0days\0B";
    const struct chat_types types = {rows, sizeof rows - 1};
    const struct chat_sink sink = {on_content, on_reasoning, on_call, on_arguments, on_end, out};
    struct chat_parse s;
    memset(out, 0, sizeof *out);
    chat_parse_begin(&s, &m->form, thinks, true, &types, &sink, resize, NULL);
    chat_parse_feed(&s, p, n);
    chat_parse_end(&s);
    chat_parse_free(&s);
}

/* JSON's quotes around a text. */
static void quote(char *to, size_t size, const char *text) {
    json_t *v = json_string(text);
    if (v == NULL)
        fail_msg("no UTF-8: %s", text);
    const size_t n = json_dumpb(v, to, size - 1, JSON_ENCODE_ANY);
    assert_true(n < size);
    to[n] = '\0';
    json_decref(v);
}

#define ASK "{\"role\": \"user\", \"content\": \"Weather?\"}"

/* What was told of an answer is sent back as the server's message, with results for its calls. */
static bool send_back(const struct api_model *m, const struct said *s, struct api_failure *why) {
    static char messages[32768], content[9000], reasoning[9000], name[600], arguments[9000];
    size_t n = 0, at;
    quote(content, sizeof content, s->content);
    quote(reasoning, sizeof reasoning, s->reasoning);
    at = (size_t)snprintf(messages, sizeof messages, ASK ", {\"role\": \"assistant\", \"content\": %s",
                          s->content[0] != '\0' || s->n_calls == 0 ? content : "null");
    if (s->reasoning[0] != '\0')
        at += (size_t)snprintf(messages + at, sizeof messages - at, ", \"reasoning_content\": %s", reasoning);
    for (size_t i = 0; i < s->n_calls; i++) {
        quote(name, sizeof name, s->names[i]);
        quote(arguments, sizeof arguments, s->arguments[i]);
        at += (size_t)snprintf(messages + at, sizeof messages - at,
                               "%s{\"id\": \"call_%zu_%016x\", \"type\": \"function\", \"index\": %zu, "
                               "\"function\": {\"name\": %s, \"arguments\": %s}}",
                               i == 0 ? ", \"tool_calls\": [" : ", ", i, 77, i, name, arguments);
    }
    at += (size_t)snprintf(messages + at, sizeof messages - at, s->n_calls > 0 ? "]}" : "}");
    for (size_t i = 0; i < s->n_calls; i++)
        at += (size_t)snprintf(messages + at, sizeof messages - at,
                               ", {\"role\": \"tool\", \"tool_call_id\": \"call_%zu_%016x\", \"content\": "
                               "\"rain %zu\"}",
                               i, 77, i);
    if (s->n_calls == 0)
        at += (size_t)snprintf(messages + at, sizeof messages - at, ", " ASK);
    assert_true(at < sizeof messages);
    const char *text = render(m, messages, true, &n, why);
    for (size_t i = 0; text != NULL && i < s->n_calls; i++) {
        char result[32];
        snprintf(result, sizeof result, "rain %zu", i);
        if (memmem(text, n, s->names[i], strlen(s->names[i])) == NULL ||
            memmem(text, n, result, strlen(result)) == NULL)
            fail_msg("call %zu or its result is lost in: %.*s", i, (int)n, text);
    }
    return text != NULL;
}

/* The prompt of a conversation whose last message goes on ends with its text, and the answer's text is that
 * message's from its first byte on. */
static void check_goes_on(const char *name, const struct api_model *m) {
    static const char began[] = "It is **warm**, and ";
    struct api_failure why = {0};
    size_t n = 0;
    const char *text = render_body(
        m, "{\"messages\": [" ASK ", {\"role\": \"assistant\", \"content\": \"It is **warm**, and \"}]}", &n,
        &why);
    if (text == NULL || n < sizeof began - 1 ||
        memcmp(text + n - (sizeof began - 1), began, sizeof began - 1) != 0)
        fail_msg("%s: goes on behind: %.*s (%s)", name, text != NULL ? (int)n : 0, text, why.text);
    text = render_body(m,
                       "{\"messages\": [" ASK
                       ", {\"role\": \"assistant\", \"content\": \"\", \"reasoning_content\": \"Hm, it\"}]}",
                       &n, &why);
    const bool thinks = m->form.think_open[0] != '\0' || m->form.reasoning_name[0] != '\0';
    if (text == NULL || (thinks && (n < 6 || memcmp(text + n - 6, "Hm, it", 6) != 0)))
        fail_msg("%s: reasoning goes on behind: %.*s (%s)", name, text != NULL ? (int)n : 0, text, why.text);
}

/* Texts of system messages are in the prompt, wherever they stand. */
static void check_system(const char *name, const struct api_model *m) {
    struct api_failure why = {0};
    size_t n = 0;
    const char *text = render_body(
        m,
        "{\"messages\": [{\"role\": \"system\", \"content\": \"Rule one.\"}, {\"role\": \"developer\", "
        "\"content\": \"Rule two.\"}, " ASK
        ", {\"role\": \"assistant\", \"content\": \"Warm.\"}, {\"role\": \"system\", \"content\": "
        "\"Rule three.\"}, " ASK "]}",
        &n, &why);
    if (text == NULL)
        fail_msg("%s: system messages: %s", name, why.text);
    static const char *const rules[] = {"Rule one.", "Rule two.", "Rule three."};
    for (int i = 0; i < 3; i++)
        if (memmem(text, n, rules[i], strlen(rules[i])) == NULL)
            fail_msg("%s: %s is lost in: %.*s", name, rules[i], (int)n, text);
}

static void check_template(const char *name, const struct api_model *m) {
    check_goes_on(name, m);
    check_system(name, m);
    struct api_failure why = {0};
    struct said said;
    size_t n = 0, n_prompt = 0;
    static char prompt[RENDER / 4], whole[RENDER / 4];
    const char *text = render(m, ASK, true, &n_prompt, &why);
    if (text == NULL)
        fail_msg("%s: a plain message: %s", name, why.text);
    memcpy(prompt, text, n_prompt);
    const bool thinks = chat_form_thinks(&m->form, prompt, n_prompt);
    text = render(m,
                  ASK ", {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [" CALL("call_0_4d",
                                                                                              ARGUMENTS) "]}",
                  false, &n, &why);
    if (text == NULL) {
        print_message("%s: %s\n", name, why.text);
        assert_int_equal(why.status, 400);
        assert_true(strstr(why.param, "tool_calls") != NULL && !m->form.calls_rendered);
        return;
    }
    memcpy(whole, text, n);
    if (memmem(whole, n, "get_weather", 11) == NULL || memmem(whole, n, "Oslo", 4) == NULL)
        fail_msg("%s: the call is lost: %.*s", name, (int)n, whole);
    if (m->form.tags.syntax == CHAT_UNKNOWN) {
        print_message("%s: calls are rendered, but not in a known way\n", name);
        return;
    }
    size_t from = 0;
    while (from < n && from < n_prompt && whole[from] == prompt[from])
        from++;
    while (from < n_prompt && from > 0 && strchr("\n>]", whole[from - 1]) == NULL)
        from--;
    parse(m, thinks, whole + from, n - from, &said);
    json_t *arguments = json_loads(said.arguments[0], 0, NULL);
    if (said.n_calls != 1 || strcmp(said.names[0], "get_weather") != 0 ||
        strcmp(json_string_value(json_object_get(arguments, "city")), "Oslo <b>") != 0 ||
        json_integer_value(json_object_get(arguments, "days")) != 3)
        fail_msg("%s: %zu calls, \"%s\" \"%s\" from: %.*s", name, said.n_calls, said.names[0],
                 said.arguments[0], (int)(n - from), whole + from);
    json_decref(arguments);
    for (size_t end = from; end <= n; end++) {
        if (end < n && ((unsigned char)whole[end] & 0xC0) == 0x80)
            continue; /* a decoder gives whole characters */
        parse(m, thinks, whole + from, end - from, &said);
        if (!send_back(m, &said, &why))
            fail_msg("%s: cut behind %zu bytes: %s: %s", name, end - from, why.param, why.text);
    }
    /* Two calls, and a text beside them. */
    parse(m, thinks, whole + from, n - from, &said);
    said.n_calls = 2;
    snprintf(said.content, sizeof said.content, "Let me look.");
    memcpy(said.names[1], said.names[0], sizeof said.names[0]);
    memcpy(said.arguments[1], said.arguments[0], sizeof said.arguments[0]);
    if (!send_back(m, &said, &why))
        fail_msg("%s: two calls: %s: %s", name, why.param, why.text);
}

static void real_templates(void **state) {
    (void)state;
    TESTING_NEED_SHARED("templates");
    DIR *d = opendir(testing_shared("templates"));
    assert_non_null(d);
    size_t seen = 0;
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        char path[300];
        const size_t length = strlen(e->d_name);
        if (length < 6 || strcmp(e->d_name + length - 6, ".jinja") != 0)
            continue;
        snprintf(path, sizeof path, "templates/%s", e->d_name);
        size_t n = 0;
        char *source = testing_read_file(testing_shared(path), &n);
        struct api_model m;
        find_form(&m, source, n);
        check_template(e->d_name, &m);
        free(source);
        seen++;
    }
    closedir(d);
    assert_true(seen > 0);
}

static void families(void **state) {
    (void)state;
    static const char *const all[] = {family_hermes,  family_qwen, family_seed,     family_glm,
                                      family_minimax, family_dsml, family_deepseek, family_kimi,
                                      family_mistral, family_nemo, family_nemotron, family_llama,
                                      family_gemma,   family_lfm,  family_harmony};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        char name[16];
        struct api_model m;
        snprintf(name, sizeof name, "family %zu", i);
        find_form(&m, all[i], strlen(all[i]));
        check_template(name, &m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(families), cmocka_unit_test(real_templates)};
    return cmocka_run_group_tests(tests, open_pool, NULL);
}
