/* How a model writes is found by rendering; its answers are taken apart, whole and damaged, in every cut. */
#include "testing.h"

#include "chat/chat_json.h"
#include "chat/chat_parse.h"
#include "chat/chat_write.h"
#include "chat_families.h"

#include <jansson.h>

static void find(const char *source, size_t n, struct chat_form *form) {
    void *memory = aligned_alloc(64, CHAT_FORM_BYTES);
    assert_non_null(memory);
    const struct tm now = {.tm_year = 126, .tm_mday = 20};
    const struct chat_form_input in = {.source = source,
                                       .length = n,
                                       .bos = "<s>",
                                       .bos_length = 3,
                                       .eos = "</s>",
                                       .eos_length = 4,
                                       .now = &now,
                                       .memory = memory};
    chat_form_find(&in, form);
    free(memory);
}

/* What came out, as one line: R(..) reasoning, T(..) content, C(name args). */
struct out {
    char text[4096];
    size_t n;
    char kind;
    bool in_call;
};

static void put(struct out *o, char kind, const char *p, size_t n) {
    if (o->kind != kind) {
        o->n +=
            (size_t)snprintf(o->text + o->n, sizeof o->text - o->n, "%s%c(", o->kind != 0 ? ")" : "", kind);
        o->kind = kind;
    }
    assert_true(o->n + n + 2 < sizeof o->text);
    memcpy(o->text + o->n, p, n);
    o->n += n;
    o->text[o->n] = '\0';
}

static void on_content(void *context, const char *p, size_t n) {
    assert_true(n > 0);
    put(context, 'T', p, n);
}
static void on_reasoning(void *context, const char *p, size_t n) {
    assert_true(n > 0);
    put(context, 'R', p, n);
}
static void on_call(void *context, const char *p, size_t n) {
    struct out *o = context;
    assert_false(o->in_call);
    o->in_call = true;
    put(o, 'C', p, n);
    put(o, 'C', " ", 1);
}
static void on_arguments(void *context, const char *p, size_t n) {
    assert_true(((struct out *)context)->in_call && n > 0);
    put(context, 'C', p, n);
}
static void on_end(void *context) {
    struct out *o = context;
    assert_true(o->in_call);
    o->in_call = false;
    put(o, 'C', ")", 1);
    o->kind = 0;
}

static void *resize(void *context, void *p, size_t n) {
    (void)context;
    if (n > 0)
        return realloc(p, n);
    free(p);
    return NULL;
}

/* w(city text, zip text, n number, b boolean or null, o object, any), f(x) */
static const char tools_text[] =
    "[{\"function\": {\"name\": \"w\", \"parameters\": {\"properties\": {\"city\": {\"type\": \"string\"}, "
    "\"zip\": {\"$ref\": "
    "\"#/$defs/z\"}, \"n\": {\"type\": \"integer\"}, \"b\": {\"type\": [\"boolean\", \"null\"]}, \"o\": "
    "{\"type\": \"object\"}, "
    "\"sn\": {\"anyOf\": [{\"type\": \"string\"}, {\"type\": \"null\"}]}, \"e\": {\"enum\": [\"1\", \"2\"]}, "
    "\"any\": {}}, "
    "\"$defs\": {\"z\": {\"type\": \"string\"}}}}}, {\"function\": {\"name\": \"f\"}}]";

struct rows {
    char p[1024];
    size_t n;
};
static void put_row(void *context, const char *p, size_t n) {
    struct rows *r = context;
    assert_true(r->n + n <= sizeof r->p);
    memcpy(r->p + r->n, p, n);
    r->n += n;
}

static void run(const struct chat_form *form, bool thinks, bool tools, const char *text, size_t n,
                size_t first, size_t second, struct out *o) {
    json_t *declared = json_loads(tools_text, 0, NULL);
    struct rows rows = {.n = 0};
    chat_types_write(declared, put_row, &rows);
    json_decref(declared);
    const struct chat_types types = {rows.p, rows.n};
    const struct chat_sink sink = {on_content, on_reasoning, on_call, on_arguments, on_end, o};
    struct chat_parse s;
    *o = (struct out){.n = 0};
    chat_parse_begin(&s, form, thinks, tools, &types, &sink, resize, NULL);
    if (first == 0) {
        for (size_t i = 0; i < n; i++)
            chat_parse_feed(&s, text + i, 1);
    } else {
        chat_parse_feed(&s, text, first);
        chat_parse_feed(&s, text + first, second - first);
        chat_parse_feed(&s, text + second, n - second);
    }
    chat_parse_end(&s);
    assert_false(s.failed);
    assert_false(o->in_call);
    chat_parse_free(&s);
    if (o->kind != 0)
        put(o, o->kind, ")", 1);
}

struct one {
    const char *template;
    bool thinks, tools;
    const char *text, *expected;
};

#define HCALL                                                                                                \
    "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 0.10, \"s\": \"}</tool_call>\"}}\n</tool_call>"
#define HOUT "C(f {\"x\": 0.10, \"s\": \"}</tool_call>\"})"

static const struct one cases[] = {
    {family_hermes, false, false, "<think>\nwhy\nnot\n</think>\n\nBecause.\n", "R(why\nnot)T(Because.\n)"},
    {family_hermes, true, false, "\n a b \n</think>c", "R(a b)T(c)"},
    {family_hermes, true, false, "never ends\n", "R(never ends\n)"},
    {family_hermes, false, false, "no <think>tags</think>", "T(no <think>tags</think>)"},
    {family_hermes, false, false, "  ", "T(  )"},
    {family_hermes, false, true, "  ", "T(  )"},
    {family_hermes, false, false, HCALL, "T(" HCALL ")"},
    {family_hermes, false, true, HCALL, HOUT},
    {family_hermes, false, true, "Let me see.\n" HCALL "\n" HCALL "\nDone",
     "T(Let me see.)" HOUT HOUT "T(Done)"},
    {family_hermes, false, true,
     "<tool_call>{\"name\": \"g\", \"arguments\": \"{\\\"a\\\": [1]}\"}</tool_call>", "C(g {\"a\": [1]})"},
    {family_hermes, false, true, "<tool_call>{\"name\": \"g\"}</tool_call>", "C(g {})"},
    {family_hermes, false, true, "<tool_call>{\"name\": \"g\", \"arguments\": null}</tool_call>", "C(g {})"},
    {family_hermes, false, true, "<tool_call>{\"arguments\": {\"n\": 1e400}, \"name\": \"g\"}</tool_call>",
     "C(g {\"n\": 1e400})"},
    {family_hermes, false, true, "<tool_call>{\"name\": \"g\", \"arguments\": {\"n\": [1}\n</tool_call> x",
     "C(g {\"n\": [1}\n})T(x)"},
    {family_hermes, false, true, "<tool_call>{\"name\": \"g\", \"arguments\": {\"n\": {\"m\": 1}</tool_call>",
     "C(g {\"n\": {\"m\": 1}})"},
    {family_hermes, false, true, "<tool_call>{\"name\": \"g\", \"arguments\": {\"n\": 1}</tool_call>",
     "C(g {\"n\": 1})"},
    {family_hermes, false, true, "<tool_call>{\"name\": \"g\", \"arguments\": {\"n\": 1}}",
     "C(g {\"n\": 1})"},
    {family_hermes, false, true, "<tool_call>{\"name\": \"g\", \"arguments\": {\"n\": 18446744073709551617",
     "C(g {\"n\": 18446744073709551617})"},
    {family_hermes, false, true, "{\"name\": \"f\", \"arguments\": {}}\n</tool_call>", "C(f {})"},
    {family_hermes, false, true, "{\"name\": \"nobody\", \"arguments\": {}}",
     "T({\"name\": \"nobody\", \"arguments\": {}})"},
    {family_hermes, false, true, "<tool_call>{\"name\": \"f\"", "C(f {})"},
    {family_hermes, false, true, "<tool_call>{\"name\": \"f", "T(<tool_call>{\"name\": \"f)"},
    {family_hermes, false, true, "a <tool_call>what?</tool_call> b", "T(a <tool_call>what?</tool_call> b)"},
    {family_hermes, false, true, "x \n <tool_cal", "T(x \n <tool_cal)"},
    {family_hermes, false, true, "<think>call?</think>\n" HCALL, "R(call?)" HOUT},
    {family_qwen, false, true,
     "a\n<tool_call>\n<function=w>\n<parameter=city>\nNew\nYork\n</parameter>\n<parameter=zip>\n10001\n</"
     "parameter>\n"
     "<parameter=n>\n7\n</parameter>\n<parameter=any>\n\"x\"\n</parameter>\n</function>\n</tool_call>\nb",
     "T(a)C(w {\"city\": \"New\\nYork\", \"zip\": \"10001\", \"n\": 7, \"any\": \"\\\"x\\\"\"})T(b)"},
    {family_qwen, false, true, "<tool_call><function=w></function></tool_call>", "C(w {})"},
    {family_qwen, false, true, "<tool_call><function=w><parameter=city>a</function></tool_call>",
     "C(w {\"city\": \"a\"})"},
    {family_qwen, false, true, "<function=w>\n<parameter=n>\n1\n</parameter>\n</function>\n</tool_call>",
     "C(w {\"n\": 1})"},
    {family_qwen, false, true,
     "<tool_call>\n<function=w>\n<parameter=city>\nlost\n<parameter=n>\n3\n</parameter>\n</function>\n</"
     "tool_call>",
     "C(w {\"city\": \"lost\", \"n\": 3})"},
    {family_qwen, false, true,
     "<tool_call>\n<function=w>\n<parameter=city>\na</parameter>b</function>c</tool_call>d<parameter=q>e\n</"
     "parameter>\n"
     "</function>\n</tool_call>",
     "C(w {\"city\": \"a</parameter>b</function>c</tool_call>d<parameter=q>e\"})"},
    {family_qwen, false, true, "<tool_call>\n<function=w>\n<parameter=city>\nx\n</parameter>\n</function>",
     "C(w {\"city\": \"x\"})"},
    {family_qwen, false, true, "<tool_call>\n<function=w>\n<parameter=city>\nx", "C(w {\"city\": \"x\"})"},
    {family_qwen, false, true, "<tool_call>\n<function=w>\n<parameter=city>\nx\n</tool_call>",
     "C(w {\"city\": \"x\"})"},
    {family_qwen, false, true,
     "<tool_call>\n<function=w>\n<parameter=city>\nx\n</parameter>\n</"
     "tool_call>\n<tool_call>\n<function=f>\n</function>\n</tool_call>",
     "C(w {\"city\": \"x\"})C(f {})"},
    {family_qwen, false, true,
     "<tool_call><function=w><parameter=b>\nNone\n</parameter><parameter=sn>\n5\n</"
     "parameter><parameter=o>\n{\"a\": 1e400}\n"
     "</parameter><parameter=e>\n1\n</parameter></function></tool_call>",
     "C(w {\"b\": null, \"sn\": \"5\", \"o\": {\"a\": 1e400}, \"e\": \"1\"})"},
    {family_qwen, false, true,
     "<tool_call><function=w><parameter=b>\nTrue\n</parameter><parameter=sn>\nnull\n</parameter></function></"
     "tool_call>",
     "C(w {\"b\": true, \"sn\": null})"},
    {family_seed, false, true,
     "<seed:tool_call>\n<function=w>\n<parameter=city>\nx\n</parameter>\n</function>\n</seed:tool_call>",
     "C(w {\"city\": \"\\nx\\n\"})"},
    {family_glm, false, true,
     "ok\n<tool_call>w\n<arg_key>city</arg_key>\n<arg_value>a "
     "b</arg_value>\n<arg_key>n</arg_key>\n<arg_value>2</arg_value>\n</tool_call>",
     "T(ok)C(w {\"city\": \"a b\", \"n\": 2})"},
    {family_glm, false, true, "<tool_call>f</tool_call>\n<tool_call>f</tool_call>", "C(f {})C(f {})"},
    {family_glm, false, true, "w\n<arg_key>n</arg_key>\n<arg_value>2</arg_value>\n</tool_call>",
     "C(w {\"n\": 2})"},
    {family_glm, false, true, "<tool_call>w<arg_key>city</arg_key><arg_value>x", "C(w {\"city\": \"x\"})"},
    {family_glm, false, true, "what now", "T(what now)"},
    {family_minimax, false, true,
     "<minimax:tool_call>\n<invoke name=\"w\">\n<parameter name=\"city\">x</parameter>\n</invoke>\n<invoke "
     "name=\"f\">\n</invoke>\n"
     "</minimax:tool_call>",
     "C(w {\"city\": \"x\"})C(f {})"},
    {family_dsml, false, true,
     "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"u\">\n<｜DSML｜parameter name=\"a\" "
     "string=\"true\">1</｜DSML｜parameter>\n"
     "<｜DSML｜parameter name=\"b\" "
     "string=\"false\">2</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
     "C(u {\"a\": \"1\", \"b\": 2})"},
    {family_deepseek, false, true,
     "Hm<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>w<｜tool▁sep｜>{\"city\": "
     "\"x\"}<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>f<｜tool▁sep｜>{}"
     "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "T(Hm)C(w {\"city\": \"x\"})C(f {})"},
    {family_deepseek, false, true, "<｜tool▁call▁begin｜>w<｜tool▁sep｜><｜tool▁call▁end｜>", "C(w {})"},
    {family_deepseek_r1, false, true,
     "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>w\n```json\n{\"city\": "
     "\"```\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "C(w {\"city\": \"```\"})"},
    /* The prompt has opened reasoning, and a call stands in its place. */
    {family_deepseek, true, true,
     "\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>w<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
     "C(w {})"},
    {family_deepseek, true, false, "<｜tool▁calls▁begin｜>", "R(<｜tool▁calls▁begin｜>)"},
    {family_deepseek, true, true, "<｜tool▁calls", "R(<｜tool▁calls)"},
    {family_kimi, false, true,
     "<|tool_calls_section_begin|><|tool_call_begin|>functions.w:0<|tool_call_argument_begin|>{\"n\": "
     "1}<|tool_call_end|>"
     "<|tool_call_begin|>functions.f:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_"
     "end|>",
     "C(w {\"n\": 1})C(f {})"},
    {family_mistral, false, true, "Hi[TOOL_CALLS]w[ARGS]{\"n\": 1}[TOOL_CALLS]f[CALL_ID]abc[ARGS]{}",
     "T(Hi)C(w {\"n\": 1})C(f {})"},
    {family_mistral, false, true, "w[ARGS]{\"n\": 1}", "C(w {\"n\": 1})"},
    {family_nemo, false, true,
     "[TOOL_CALLS][{\"name\": \"w\", \"arguments\": {}}, {\"name\": \"f\", \"arguments\": {\"a\": 1}, "
     "\"id\": \"x\"}]",
     "C(w {})C(f {\"a\": 1})"},
    {family_nemo, false, true, "[TOOL_CALLS][]", "T([TOOL_CALLS][])"},
    {family_nemotron, false, true, "<TOOLCALL>[{\"name\": \"w\", \"arguments\": {}}]</TOOLCALL>", "C(w {})"},
    {family_llama, false, true, "{\"name\": \"f\", \"parameters\": {\"a\": \"}\"}}", "C(f {\"a\": \"}\"})"},
    {family_llama, false, true, " <|python_tag|>{\"name\": \"f\", \"parameters\": {}}\n", "C(f {})"},
    {family_llama, false, true,
     "{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"w\", \"parameters\": {}}", "C(f {})C(w {})"},
    {family_llama, false, true,
     "{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"a\": 1}}}",
     "C(f {\"a\": 1})"},
    {family_llama, false, true, "{\"answer\": 1} and more", "T({\"answer\": 1} and more)"},
    {family_llama, false, true, "Hi {}", "T(Hi {})"},
    {family_gemma, false, true,
     "<|tool_call>call:w{city:<|\"|>a\"b<|\"|>,n:-1.5,o:{x:[1,<|\"|>y<|\"|>],z:true}}<tool_call|><|tool_call>"
     "call:f{}<tool_call|>",
     "C(w {\"city\": \"a\\\"b\", \"n\": -1.5, \"o\": {\"x\": [1, \"y\"], \"z\": true}})C(f {})"},
    {family_gemma, false, true, "<|tool_call>call:w{city:<|\"|>cut", "C(w {\"city\": \"cut\"})"},
    {family_lfm, false, true,
     "<|tool_call_start|>[w(city='it\\'s \"x\"', n=2, b=True, o={'k': [None, \"v\"]}), "
     "f()]<|tool_call_end|>Checking.",
     "C(w {\"city\": \"it's \\\"x\\\"\", \"n\": 2, \"b\": true, \"o\": {\"k\": [null, \"v\"]}})C(f "
     "{})T(Checking.)"},
    {family_harmony, false, true,
     "<|channel|>analysis<|message|>Think.<|end|><|start|>assistant<|channel|>commentary<|message|>Wait.<|"
     "end|>"
     "<|start|>assistant<|channel|>commentary to=functions.w <|constrain|>json<|message|>{\"n\": 1}<|call|>",
     "R(Think.)T(Wait.)C(w {\"n\": 1})"},
    {family_harmony, false, true,
     " to=functions.w<|channel|>commentary json<|message|>{\"n\": 1}<|call|>rest", "C(w {\"n\": 1})"},
    {family_harmony, false, false,
     "<|channel|>analysis<|message|>a<b<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|return|>",
     "R(a<b)T(Yes.)"},
    {family_harmony, false, false, "<|channel|>final<|message|>Yes", "T(Yes)"},
    {family_harmony, false, false, "Just text.", "T(Just text.)"},
    {family_harmony, false, false, "<|channel|>analysis<|message|>a<|end|><|start|>assistant", "R(a)"},
    {family_harmony, false, false, "to=be or not", "T(to=be or not)"},
    {family_harmony, false, true, "<|channel|>commentary to=functions.f<|message|><|call|>", "C(f {})"},
    {family_harmony, false, true, "<|channel|>commentary to=functions.f<|message|>{\"a\": [1",
     "C(f {\"a\": [1]})"},
    {family_unknown, false, true, "(((call f with {} )))", "T((((call f with {} ))))"},
};

static void every_cut_gives_the_same(void **state) {
    (void)state;
    int wrong = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct one *c = &cases[i];
        struct chat_form form;
        struct out o;
        find(c->template, strlen(c->template), &form);
        const size_t n = strlen(c->text);
        bool ok = true;
        for (size_t first = 0; first <= n && ok; first++)
            for (size_t second = first; second <= n && ok; second += first == 0 ? n + 1 : n > 60 ? 7 : 1) {
                run(&form, c->thinks, c->tools, c->text, n, first, second, &o);
                ok = strcmp(o.text, c->expected) == 0;
                if (!ok)
                    print_message("case %zu \"%s\", cut at %zu and %zu:\n  got      %s\n  expected %s\n", i,
                                  c->text, first, second, o.text, c->expected);
            }
        wrong += !ok;
    }
    assert_int_equal(wrong, 0);
}

/* A name and the beginning of arguments are told while the call is still coming. */
static void calls_come_in_pieces(void **state) {
    (void)state;
    static const struct {
        const char *template, *text, *expected;
    } all[] = {
        {family_hermes, "<tool_call>{\"name\": \"f\", \"arguments\": {\"x\": \"ab", "C(f {\"x\": \"ab"},
        {family_qwen, "<tool_call><function=w><parameter=city>\nab", "C(w {\"city\": \"ab"},
        {family_glm, "<tool_call>w\n<arg_key>city</arg_key><arg_value>ab", "C(w {\"city\": \"ab"},
        {family_mistral, "[TOOL_CALLS]w[ARGS]{\"a\": 1", "C(w {\"a\": 1"},
        {family_gemma, "<|tool_call>call:w{city:<|\"|>ab", "C(w {\"city\": \"ab"},
        {family_lfm, "<|tool_call_start|>[w(city=\"ab", "C(w {\"city\": \"ab"},
        {family_harmony, "<|channel|>commentary to=functions.w<|message|>{\"a", "C(w {\"a"}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct chat_form form;
        struct out o = {.n = 0};
        static const char rows[] = "w\0\0@w\0city\0A";
        const struct chat_types types = {rows, sizeof rows - 1};
        const struct chat_sink sink = {on_content, on_reasoning, on_call, on_arguments, on_end, &o};
        struct chat_parse s;
        find(all[i].template, strlen(all[i].template), &form);
        chat_parse_begin(&s, &form, false, true, &types, &sink, resize, NULL);
        chat_parse_feed(&s, all[i].text, strlen(all[i].text));
        assert_string_equal(o.text, all[i].expected);
        chat_parse_free(&s);
    }
}

/* Where calls need their tags, what looks like one at the beginning is text. */
static void tagged_calls_need_their_tag(void **state) {
    (void)state;
    static const struct {
        const char *template, *text, *expected;
    } all[] = {
        {family_hermes, "{\"name\": \"w\", \"arguments\": {}}", "T({\"name\": \"w\", \"arguments\": {}}"},
        {family_hermes, "<tool_call>\n{\"name\": \"w\", \"arguments\": {}}\n</tool_call>", "C(w {}"},
        {family_mistral, "w[ARGS]{\"n\": 1}", "T(w[ARGS]{\"n\": 1}"}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct chat_form form;
        struct out o = {.n = 0};
        static const char rows[] = "w\0\0@";
        const struct chat_types types = {rows, sizeof rows - 1};
        const struct chat_sink sink = {on_content, on_reasoning, on_call, on_arguments, on_end, &o};
        struct chat_parse s;
        find(all[i].template, strlen(all[i].template), &form);
        chat_parse_begin(&s, &form, false, true, &types, &sink, resize, NULL);
        s.tagged = true;
        chat_parse_feed(&s, all[i].text, strlen(all[i].text));
        chat_parse_end(&s);
        if (strncmp(o.text, all[i].expected, strlen(all[i].expected)) != 0)
            fail_msg("%s: %s", all[i].text, o.text);
        chat_parse_free(&s);
    }
}

static void append(void *context, const char *p, size_t n) {
    strncat(context, p, n);
}

/* Calls that a template does not render are written as its model would have: they come back. */
static void written_calls_come_back(void **state) {
    (void)state;
    static const char *const all[] = {family_hermes, family_qwen,    family_seed,
                                      family_glm,    family_minimax, family_deepseek,
                                      family_kimi,   family_mistral, family_nemotron};
    static const char arguments[] =
        "{\"city\": \"Oslo <b>\\n2\", \"n\": 0.1, \"deep\": {\"x\": [12345678901234567890]}}";
    uint32_t seen[CHAT_CHANNELS + 1] = {0};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct chat_form form;
        find(all[i], strlen(all[i]), &form);
        assert_true(chat_write_can(&form));
        seen[form.tags.syntax]++;
        json_error_t why;
        json_t *object = chat_json_load(arguments, sizeof arguments - 1, 0, &why);
        assert_non_null(object);
        json_t *objects = json_pack("[{s:{s:s,s:O}},{s:{s:s,s:O}}]", "function", "name", "w", "arguments",
                                    object, "function", "name", "w", "arguments", object);
        json_t *texts = json_pack("[{s:{s:s,s:s}},{s:{s:s,s:s}}]", "function", "name", "w", "arguments",
                                  arguments, "function", "name", "w", "arguments", arguments);
        char text[4096] = "";
        chat_write_calls(&form, objects, texts, append, text);
        static const char rows[] = "w\0\0@w\0city\0A"
                                   "w\0n\0B"
                                   "w\0deep\0P";
        const struct chat_types types = {rows, sizeof rows - 1};
        struct out o = {.n = 0};
        const struct chat_sink sink = {on_content, on_reasoning, on_call, on_arguments, on_end, &o};
        struct chat_parse s;
        chat_parse_begin(&s, &form, false, true, &types, &sink, resize, NULL);
        chat_parse_feed(&s, text, strlen(text));
        chat_parse_end(&s);
        chat_parse_free(&s);
        const char *at = o.text;
        for (int call = 0; call < 2; call++) {
            at = strstr(at, "C(w ");
            if (at == NULL)
                fail_msg("family %zu: \"%s\" from \"%s\"", i, o.text, text);
            at += 4;
            json_t *back = chat_json_load(at, strcspn(at, ")"), 0, &why);
            if (back == NULL || !chat_json_same(back, object) || strstr(at, "12345678901234567890") == NULL)
                fail_msg("family %zu: \"%s\" from \"%s\"", i, o.text, text);
            json_decref(back);
        }
        json_decref(object);
        json_decref(objects);
        json_decref(texts);
    }
    assert_true(seen[CHAT_JSON] > 0 && seen[CHAT_KEYED] > 0 && seen[CHAT_NAMED] > 0);
}

static void templates_tell_their_form(void **state) {
    (void)state;
    static const struct {
        const char *name;
        enum chat_syntax syntax;
        const char *think, *reasoning;
        bool rendered;
    } real[] = {{"Qwen-Qwen3-0.6B", CHAT_JSON, "<think>", "reasoning_content", true},
                {"Qwen-Qwen2.5-7B-Instruct", CHAT_JSON, "", "", true},
                {"Qwen3.5-4B", CHAT_KEYED, "<think>", "reasoning_content", true},
                {"meta-llama-Llama-3.1-8B-Instruct", CHAT_JSON, "", "", true},
                {"meta-llama-Llama-3.2-3B-Instruct", CHAT_JSON, "", "", true},
                {"ibm-granite-granite-3.3-2B-Instruct", CHAT_JSON, "<think>", "", false},
                {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", CHAT_NAMED, "<think>", "", true},
                {"HuggingFaceTB-SmolLM3-3B", CHAT_UNKNOWN, "<think>", "", false},
                {"Mistral-Small-3.2-24B-Instruct-2506", CHAT_NAMED, "", "", true},
                {"google-gemma-2-2b-it", CHAT_UNKNOWN, "", "", false},
                {"microsoft-Phi-3.5-mini-instruct", CHAT_UNKNOWN, "", "", false},
                {"openai-gpt-oss-120b", CHAT_CHANNELS, "", "thinking", true}};
    TESTING_NEED_SHARED("templates");
    int wrong = 0;
    for (size_t i = 0; i < sizeof real / sizeof real[0]; i++) {
        char path[256];
        size_t n = 0;
        struct chat_form form;
        snprintf(path, sizeof path, "templates/%s.jinja", real[i].name);
        char *source = testing_read_file(testing_shared(path), &n);
        find(source, n, &form);
        free(source);
        if (form.tags.syntax != real[i].syntax || strcmp(form.think_open, real[i].think) != 0 ||
            strcmp(form.reasoning_name, real[i].reasoning) != 0 || form.calls_rendered != real[i].rendered) {
            print_message("%s: syntax %d \"%s\" \"%s\", think \"%s\", reasoning \"%s\", rendered %d\n", path,
                          (int)form.tags.syntax, form.tags.section_open, form.tags.section_close,
                          form.think_open, form.reasoning_name, form.calls_rendered);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

/* An answer that goes on with a message of the prompt: its first byte belongs to that message. */
static void a_message_goes_on(void **state) {
    (void)state;
    static const struct {
        const char *template;
        bool reasoning;
        const char *text, *expected;
    } all[] = {{family_hermes, false, " {\"a\": 1} <think>b", "T( {\"a\": 1} <think>b)"},
               {family_hermes, true, " so\n</think>\n\nYes", "R( so)T(Yes)"},
               {family_hermes, false, " look\n" HCALL, "T( look)" HOUT},
               {family_harmony, false, " warm<|return|>", "T( warm)"},
               {family_harmony, true, " so<|end|><|start|>assistant<|channel|>final<|message|>Yes<|return|>",
                "R( so)T(Yes)"}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        for (size_t step = 1; step < 4; step++) {
            struct chat_form form;
            struct chat_parse s;
            struct out o = {.n = 0};
            const struct chat_sink sink = {on_content, on_reasoning, on_call, on_arguments, on_end, &o};
            find(all[i].template, strlen(all[i].template), &form);
            chat_parse_begin(&s, &form, false, true, NULL, &sink, resize, NULL);
            chat_parse_go_on(&s, all[i].reasoning);
            for (const char *at = all[i].text; *at != '\0'; at += strnlen(at, step))
                chat_parse_feed(&s, at, strnlen(at, step));
            chat_parse_end(&s);
            chat_parse_free(&s);
            if (o.kind != 0)
                put(&o, o.kind, ")", 1);
            assert_string_equal(o.text, all[i].expected);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tagged_calls_need_their_tag), cmocka_unit_test(a_message_goes_on),
        cmocka_unit_test(every_cut_gives_the_same),    cmocka_unit_test(calls_come_in_pieces),
        cmocka_unit_test(written_calls_come_back),     cmocka_unit_test(templates_tell_their_form)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
