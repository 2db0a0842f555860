#include "chat/chat_form.h"

#include "base/arith.h"
#include "chat/chat_parse.h"
#include "chat/jinja.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* The families whose tags are known, the more particular ones first. `hints` are texts that a template has
 * which tells its model to write calls so but does not render them itself; all of them must be there. */
struct family {
    struct chat_tags tags;
    const char *hints[4];
    const char *tools_name; /* of the variable; NULL: tools */
};

static const struct family families[] = {
    {{.syntax = CHAT_CHANNELS}, {"<|channel|>", "<|message|>", "functions.", "<|call|>"}, NULL},
    {{.syntax = CHAT_NAMED,
      .section_open = "<|tool_calls_section_begin|>",
      .section_close = "<|tool_calls_section_end|>",
      .call_open = "<|tool_call_begin|>",
      .name_end = "<|tool_call_argument_begin|>",
      .call_close = "<|tool_call_end|>"},
     {NULL},
     NULL},
    {{.syntax = CHAT_NAMED,
      .section_open = "<｜tool▁calls▁begin｜>",
      .section_close = "<｜tool▁calls▁end｜>",
      .call_open = "<｜tool▁call▁begin｜>",
      .name_end = "<｜tool▁sep｜>",
      .call_close = "<｜tool▁call▁end｜>"},
     {NULL},
     NULL},
    {{.syntax = CHAT_NAMED, .call_open = "[TOOL_CALLS]", .name_end = "[ARGS]"},
     {"[TOOL_CALLS]", "[ARGS]", "[AVAILABLE_TOOLS]", NULL},
     NULL},
    {{.syntax = CHAT_NAMED,
      .section_open = "<tool_calls>",
      .section_close = "</tool_calls>",
      .call_open = "<tool_call>",
      .name_end = "<tool_sep>",
      .call_close = "</tool_call>"},
     {NULL},
     NULL},
    {{.syntax = CHAT_NAMED,
      .section_open = "<tool_calls>",
      .section_close = "</tool_calls>",
      .call_open = "<tool_call>",
      .name_end = "\n",
      .call_close = "</tool_call>"},
     {NULL},
     NULL},
    {{.syntax = CHAT_GEMMA, .call_open = "<|tool_call>", .call_close = "<tool_call|>"}, {NULL}, NULL},
    {{.syntax = CHAT_KEYED,
      .section_open = "<tool_call>",
      .section_close = "</tool_call>",
      .call_open = "<function=",
      .name_end = ">",
      .call_close = "</function>",
      .key_open = "<parameter=",
      .key_close = ">",
      .value_close = "</parameter>",
      .value_lines = true},
     {"<tool_call>", "<function=", "<parameter=", "</parameter>"},
     NULL},
    {{.syntax = CHAT_KEYED,
      .section_open = "<seed:tool_call>",
      .section_close = "</seed:tool_call>",
      .call_open = "<function=",
      .name_end = ">",
      .call_close = "</function>",
      .key_open = "<parameter=",
      .key_close = ">",
      .value_close = "</parameter>"},
     {"<seed:tool_call>", "<function=", "<parameter=", "</parameter>"},
     NULL},
    {{.syntax = CHAT_KEYED,
      .call_open = "<tool_call>",
      .call_close = "</tool_call>",
      .key_open = "<arg_key>",
      .key_close = "</arg_key>",
      .value_open = "<arg_value>",
      .value_close = "</arg_value>"},
     {"<tool_call>", "<arg_key>", "<arg_value>", "</arg_value>"},
     NULL},
    {{.syntax = CHAT_KEYED,
      .section_open = "<minimax:tool_call>",
      .section_close = "</minimax:tool_call>",
      .call_open = "<invoke name=",
      .name_end = ">",
      .call_close = "</invoke>",
      .key_open = "<parameter name=",
      .key_close = ">",
      .value_close = "</parameter>"},
     {"<minimax:tool_call>", "<invoke name=", "<parameter name=", "</invoke>"},
     NULL},
    {{.syntax = CHAT_KEYED,
      .section_open = "<function_calls>",
      .section_close = "</function_calls>",
      .call_open = "<invoke name=",
      .name_end = ">",
      .call_close = "</invoke>",
      .key_open = "<parameter name=",
      .key_close = ">",
      .value_close = "</parameter>"},
     {NULL},
     NULL},
    {{.syntax = CHAT_KEYED,
      .section_open = "<｜DSML｜function_calls>",
      .section_close = "</｜DSML｜function_calls>",
      .call_open = "<｜DSML｜invoke name=",
      .name_end = ">",
      .call_close = "</｜DSML｜invoke>",
      .key_open = "<｜DSML｜parameter name=",
      .key_close = ">",
      .value_close = "</｜DSML｜parameter>"},
     {"｜DSML｜", "function_calls", "invoke name=", NULL},
     NULL},
    {{.syntax = CHAT_PYTHON, .section_open = "<|tool_call_start|>", .section_close = "<|tool_call_end|>"},
     {"<|tool_list_start|>", "<|tool_list_end|>", "List of tools", NULL},
     NULL},
    {{.syntax = CHAT_PYTHON, .section_open = "<function_calls>", .section_close = "</function_calls>"},
     {NULL},
     NULL},
    {{.syntax = CHAT_JSON, .section_open = "<tool_call>", .section_close = "</tool_call>"},
     {"<tool_call>", "</tool_call>", "xml_tools", "<tools>"},
     "xml_tools"},
    {{.syntax = CHAT_JSON, .section_open = "<|tool_call|>"},
     {"respond only with <|tool_call|> followed by a JSON list", NULL},
     NULL},
    {{.syntax = CHAT_JSON, .section_open = "<tool_call>", .section_close = "</tool_call>"},
     {"<tool_call>", "</tool_call>", "\"name\"", "\"arguments\""},
     NULL},
};

#define N_FAMILIES (sizeof families / sizeof families[0])

/* --- texts of the template */

static bool has(const struct chat_form_input *in, const char *text) {
    return memmem(in->source, in->length, text, strlen(text)) != NULL;
}

/* As a whole word: `tools`, not `builtin_tools`. */
static bool has_word(const struct chat_form_input *in, const char *word) {
    const size_t length = strlen(word);
    const char *p = in->source, *end = p + in->length;
    for (const char *at = p; (at = memmem(at, (size_t)(end - at), word, length)) != NULL; at++) {
        const char *next = at + length;
        if (!(at > p && (isalnum((unsigned char)at[-1]) || at[-1] == '_')) &&
            !(next < end && (isalnum((unsigned char)*next) || *next == '_')))
            return true;
    }
    return false;
}

/* "</think>" at p, of at most n bytes: a closing tag whose name speaks of thinking. */
static bool is_closing(const char *p, size_t n, char close, char name[CHAT_TAG]) {
    size_t length = 0;
    while (length < n && length < 40 && p[length] != '\0' &&
           (isalnum((unsigned char)p[length]) || strchr("_:-", p[length])))
        length++;
    if (length == 0 || length == n || p[length] != close)
        return false;
    char lower[CHAT_TAG];
    for (size_t i = 0; i < length; i++) {
        name[i] = p[i];
        lower[i] = (char)tolower((unsigned char)p[i]);
    }
    name[length] = lower[length] = '\0';
    return strstr(lower, "think") != NULL || strstr(lower, "thought") != NULL ||
           strstr(lower, "reason") != NULL;
}

static void find_thinking(const struct chat_form_input *in, struct chat_form *out) {
    char name[CHAT_TAG];
    const char *p = in->source;
    for (size_t i = 0; i + 2 < in->length; i++) {
        const bool angle = p[i] == '<';
        if ((angle || p[i] == '[') && p[i + 1] == '/' &&
            is_closing(p + i + 2, in->length - i - 2, angle ? '>' : ']', name)) {
            snprintf(out->think_open, CHAT_TAG, angle ? "<%.40s>" : "[%.40s]", name);
            snprintf(out->think_close, CHAT_TAG, angle ? "</%.40s>" : "[/%.40s]", name);
            return;
        }
    }
    if (has(in, "<think>")) { /* it is opened in the prompt, and closed by the model alone */
        snprintf(out->think_open, CHAT_TAG, "<think>");
        snprintf(out->think_close, CHAT_TAG, "</think>");
    }
}

/* --- rendering for trial */

#define FUNCTION "stator_probe"
#define SAID     "stator said"
#define THOUGHT  "stator thought"
#define ASKED    "stator asked"
#define RESULT   "stator result"

/* What a rendering has besides the user's message. */
struct trial {
    const char *content;        /* of the assistant; NULL: no such message, but a prompt for it */
    const char *arguments;      /* JSON; NULL: no call */
    const char *reasoning_name; /* NULL: no reasoning */
    int calls;
    bool as_text;
    bool null_content; /* of the assistant, in place of `content` */
    bool long_ids;
    bool result; /* a tool's message with the text RESULT follows */
};

static const char *id_of(const struct trial *t, int index) {
    static const char *const ids[] = {"stator001", "stator002"};
    return t->long_ids ? "call_stator_0001" : ids[index];
}

static json_t *make_call(const struct trial *t, int index) {
    json_t *arguments = json_loads(t->arguments, 0, NULL);
    if (t->as_text) {
        json_decref(arguments);
        arguments = json_string(t->arguments);
    }
    return json_pack("{s:s, s:s, s:{s:s, s:o}}", "id", id_of(t, index), "type", "function", "function",
                     "name", FUNCTION, "arguments", arguments);
}

static json_t *make_messages(const struct trial *t) {
    json_t *messages = json_pack("[{s:s, s:s}]", "role", "user", "content", ASKED);
    if (t->content != NULL) {
        json_t *one = json_pack("{s:s, s:s}", "role", "assistant", "content", t->content);
        if (t->null_content)
            json_object_set_new(one, "content", json_null());
        if (t->reasoning_name != NULL)
            json_object_set_new(one, t->reasoning_name, json_string(THOUGHT));
        if (t->arguments != NULL) {
            json_t *calls = json_array();
            for (int i = 0; i < t->calls; i++)
                json_array_append_new(calls, make_call(t, i));
            json_object_set_new(one, "tool_calls", calls);
        }
        json_array_append_new(messages, one);
        if (t->result)
            json_array_append_new(messages, json_pack("{s:s, s:s, s:s, s:s}", "role", "tool", "tool_call_id",
                                                      id_of(t, 0), "name", FUNCTION, "content", RESULT));
    }
    return messages;
}

/* Takes over messages. prompt: the answer is to begin behind them. */
static json_t *make_variables(const struct chat_form_input *in, const struct chat_form *form,
                              json_t *messages, bool prompt) {
    json_t *tools = json_pack("[{s:s, s:{s:s, s:s, s:{s:s, s:{s:{s:s}, s:{s:s}}}}}]", "type", "function",
                              "function", "name", FUNCTION, "description", "d", "parameters", "type",
                              "object", "properties", "a", "type", "string", "b", "type", "integer");
    json_t *v = json_pack("{s:o, s:o, s:b}", "messages", messages, form->tools_name, tools,
                          "add_generation_prompt", prompt);
    if (in->bos != NULL)
        json_object_set_new(v, "bos_token", json_stringn(in->bos, in->bos_length));
    if (in->eos != NULL)
        json_object_set_new(v, "eos_token", json_stringn(in->eos, in->eos_length));
    return v;
}

#define TEXT_MOST 65536 /* bytes of a rendering that are kept */

struct text {
    char p[TEXT_MOST];
    size_t n;
};

/* The template's text, which lies in `in->memory` until the next rendering; NULL: the template refuses it.
 * Takes over messages. */
static const char *render_messages(const struct chat_form_input *in, const struct chat_form *form,
                                   json_t *messages, bool prompt, size_t *n) {
    char *memory = (char *)in->memory + 8 * sizeof(struct text);
    json_t *variables = make_variables(in, form, messages, prompt);
    const struct jinja_input jinja = {
        .source = in->source, .length = in->length, .variables = variables, .now = in->now, .stop = in->stop};
    const char *text = NULL;
    stator_error e = {0};
    const stator_status st =
        jinja_render(&jinja, memory, CHAT_FORM_BYTES - 8 * sizeof(struct text), &text, n, &e);
    json_decref(variables);
    return st == STATOR_OK ? text : NULL;
}

/* Behind the user's message; false: the template refuses it. */
static bool render(const struct chat_form_input *in, const struct chat_form *form, const struct trial *t,
                   struct text *out) {
    size_t n = 0;
    const char *text = render_messages(in, form, make_messages(t), t->content == NULL, &n);
    const char *asked = text != NULL ? memmem(text, n, ASKED, strlen(ASKED)) : NULL;
    out->n = 0;
    if (asked == NULL)
        return false;
    asked += strlen(ASKED);
    n -= (size_t)(asked - text);
    if (n > sizeof out->p)
        return false;
    memcpy(out->p, asked, n);
    out->n = n;
    return true;
}

/* Where the assistant's text begins: behind what the prompt has, too. */
static size_t answer_begin(const struct text *prompt, const struct text *whole) {
    size_t n = 0;
    while (n < prompt->n && n < whole->n && prompt->p[n] == whole->p[n])
        n++;
    if (n < prompt->n) /* not within a tag that begins alike */
        while (n > 0 && strchr("\n>]", whole->p[n - 1]) == NULL)
            n--;
    return n;
}

/* --- does a syntax bring back the call? */

struct heard {
    char text[512]; /* name(arguments) of each call, blanks of the arguments left out */
    size_t n;
    bool other; /* content with a part of the call in it */
    char reasoning[64];
};

static void hear(struct heard *h, const char *p, size_t n, bool blanks) {
    for (size_t i = 0; i < n; i++)
        if ((blanks || p[i] != ' ') && h->n + 1 < sizeof h->text)
            h->text[h->n++] = p[i];
    h->text[h->n] = '\0';
}

static void on_content(void *context, const char *p, size_t n) {
    struct heard *h = context;
    h->other = h->other || memmem(p, n, FUNCTION, strlen(FUNCTION)) != NULL;
}

static void on_reasoning(void *context, const char *p, size_t n) {
    on_content(context, p, n);
}

static void on_call(void *context, const char *name, size_t n) {
    hear(context, name, n, true);
}

static void on_arguments(void *context, const char *p, size_t n) {
    hear(context, p, n, false);
}

static void on_end(void *context) {
    hear(context, ";", 1, true);
}

/* A fixed region for what the parser holds. */
static void *fixed(void *context, void *p, size_t n) {
    (void)p;
    return n <= TEXT_MOST ? context : NULL;
}

static const char rows[] = FUNCTION "\0\0@" FUNCTION "\0a\0A" FUNCTION "\0b\0B";

/* The text is a history's, which may have no reasoning although the prompt opens it. */
static bool brings_back(const struct chat_form_input *in, const struct chat_form *form,
                        const struct text *prompt, const struct text *t, const char *expected) {
    const size_t from = answer_begin(prompt, t);
    const bool thinks =
        chat_form_thinks(form, prompt->p, prompt->n) &&
        memmem(t->p + from, t->n - from, form->think_close, strlen(form->think_close)) != NULL;
    const struct chat_types types = {rows, sizeof rows - 1};
    struct heard h = {.n = 0};
    const struct chat_sink sink = {on_content, on_reasoning, on_call, on_arguments, on_end, &h};
    struct chat_parse s;
    chat_parse_begin(&s, form, thinks, true, &types, &sink, fixed, (char *)in->memory + 7 * sizeof *t);
    chat_parse_feed(&s, t->p + from, t->n - from);
    chat_parse_end(&s);
    return !s.failed && !h.other && strcmp(h.text, expected) == 0;
}

/* The renderings that decide. */
struct renderings {
    struct text *prompt, *one, *two, *both; /* of an argument, two arguments, two calls */
    bool has_two, has_both;
};

static bool fits(const struct chat_form_input *in, const struct chat_form *form, const struct renderings *r) {
    static const char one[] = FUNCTION "{\"a\":\"va\"};", two[] = FUNCTION "{\"a\":\"v<a\",\"b\":12};";
    return brings_back(in, form, r->prompt, r->one, one) &&
           (!r->has_two || brings_back(in, form, r->prompt, r->two, two));
}

/* The tag that ends at p[n], behind which blanks may stand; "": none. */
static void tag_before(const char *p, size_t n, char out[CHAT_TAG]) {
    out[0] = '\0';
    while (n > 0 && strchr(" \t\r\n", p[n - 1]) != NULL)
        n--;
    size_t from = n;
    while (from > 0 && n - from < CHAT_TAG - 1 && strchr("<[\n", p[from - 1]) == NULL)
        from--;
    if (from == 0 || n - from >= CHAT_TAG - 2 || n == 0)
        return;
    if (p[from - 1] != '\n')
        from--;
    if (p[from] == '<' || p[from] == '[')
        snprintf(out, CHAT_TAG, "%.*s", (int)(n - from), p + from);
}

static void tag_behind(const char *p, size_t n, char out[CHAT_TAG]) {
    size_t i = 0, from;
    out[0] = '\0';
    while (i < n && strchr(" \t\r\n", p[i]) != NULL)
        i++;
    from = i;
    if (i == n || (p[i] != '<' && p[i] != '['))
        return;
    const char close = p[i] == '<' ? '>' : ']';
    while (i < n && p[i] != close && i - from < CHAT_TAG - 2)
        i++;
    if (i < n && p[i] == close)
        snprintf(out, CHAT_TAG, "%.*s", (int)(i + 1 - from), p + from);
}

/* JSON between tags that no family has: the tags are what stands around it. `said`: what stands behind a
 * text. */
static bool derive_json(const struct chat_form_input *in, struct chat_form *form, const struct renderings *r,
                        const struct text *said) {
    const struct text *t = r->one;
    const size_t begin = answer_begin(r->prompt, t);
    const char *name = memmem(t->p + begin, t->n - begin, "\"" FUNCTION "\"", strlen(FUNCTION) + 2);
    if (name == NULL)
        return false;
    size_t from = (size_t)(name - t->p), to = from;
    while (from > begin && t->p[from - 1] != '{')
        from--;
    from -= from > begin;
    size_t list = from;
    while (list > begin && strchr(" \n", t->p[list - 1]) != NULL)
        list--;
    const bool is_list = list > begin && t->p[list - 1] == '[';
    from = is_list ? list - 1 : from;
    for (int depth = 0; to < t->n; to++)
        if (t->p[to] == '}' && ++depth == 2)
            break;
    to += to < t->n;
    for (size_t i = to; is_list && i < t->n; i++)
        if (strchr(" \n]", t->p[i]) == NULL)
            break;
        else
            to = t->p[i] == ']' ? i + 1 : to;
    struct chat_tags *tags = &form->tags;
    *tags = (struct chat_tags){.syntax = CHAT_JSON};
    tag_before(t->p + begin, from - begin, tags->section_open);
    tag_behind(t->p + to, t->n - to, tags->section_close);
    const char *end = memmem(said->p, said->n, SAID, strlen(SAID));
    char usual[CHAT_TAG] = "";
    if (end != NULL)
        tag_behind(end + strlen(SAID), said->n - (size_t)(end - said->p) - strlen(SAID), usual);
    if (strcmp(usual, tags->section_close) == 0)
        tags->section_close[0] = '\0'; /* the end of any message */
    if (strcmp(tags->section_open, form->think_close) == 0)
        tags->section_open[0] = '\0';
    if (tags->section_open[0] == '\0') {
        tags->section_close[0] = '\0';
        snprintf(tags->section_open, CHAT_TAG, "<|python_tag|>");
    }
    return fits(in, form, r);
}

/* A list of Python's calls, in no tags. */
static bool derive_python(const struct chat_form_input *in, struct chat_form *form,
                          const struct renderings *r) {
    form->tags = (struct chat_tags){
        .syntax = CHAT_PYTHON, .section_open = "<|python_start|>", .section_close = "<|python_end|>"};
    return fits(in, form, r);
}

/* The opening tags of a family are there: the parser would also do without. */
static bool tags_occur(const struct chat_tags *t, const struct text *one) {
    const char *const tags[] = {t->section_open, t->call_open};
    for (int i = 0; i < 2; i++)
        if (memmem(one->p, one->n, tags[i], strlen(tags[i])) == NULL)
            return false;
    return true;
}

static bool find_rendered(const struct chat_form_input *in, struct chat_form *form,
                          const struct renderings *r, const struct text *said) {
    for (size_t i = 0; i < N_FAMILIES; i++)
        for (int lines = 0; lines < (families[i].tags.syntax == CHAT_KEYED ? 2 : 1); lines++) {
            form->tags = families[i].tags;
            form->tags.value_lines = form->tags.value_lines != (lines == 1);
            if (tags_occur(&form->tags, r->one) && fits(in, form, r))
                return true;
        }
    if (derive_json(in, form, r, said) || derive_python(in, form, r))
        return true;
    form->tags = (struct chat_tags){.syntax = CHAT_UNKNOWN};
    return false;
}

/* A template that has tools but renders no calls. */
static void find_hinted(const struct chat_form_input *in, struct chat_form *form) {
    for (size_t i = 0; i < N_FAMILIES; i++) {
        bool all = families[i].hints[0] != NULL;
        for (int k = 0; k < 4 && families[i].hints[k] != NULL; k++)
            all = all && has(in, families[i].hints[k]);
        if (all) {
            form->tags = families[i].tags;
            if (families[i].tools_name != NULL)
                snprintf(form->tools_name, sizeof form->tools_name, "%s", families[i].tools_name);
            return;
        }
    }
}

/* The member of a message whose text the template renders as reasoning, and the tags around it. */
static void find_reasoning(const struct chat_form_input *in, struct chat_form *form, struct text *prompt,
                           struct text *t) {
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning", "thought"};
    find_thinking(in, form);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct trial with = {.content = SAID, .reasoning_name = names[i]};
        if (!has_word(in, names[i]) || !render(in, form, &with, t))
            continue;
        const char *at = memmem(t->p, t->n, THOUGHT, strlen(THOUGHT));
        if (at == NULL)
            continue;
        char open[CHAT_TAG], close[CHAT_TAG];
        const size_t before = (size_t)(at - t->p), behind = before + strlen(THOUGHT);
        tag_before(t->p, before, open);
        tag_behind(t->p + behind, t->n - behind, close);
        snprintf(form->reasoning_name, sizeof form->reasoning_name, "%s", names[i]);
        const bool ended = prompt->n >= before && memcmp(prompt->p, t->p, before) == 0;
        if (open[0] != '\0' && close[0] != '\0' && (!ended || form->think_open[0] == '\0') &&
            memmem(t->p + behind, t->n - behind, SAID, strlen(SAID)) != NULL &&
            strstr(open, "<|channel|>") == NULL) {
            snprintf(form->think_open, CHAT_TAG, "%s", open);
            snprintf(form->think_close, CHAT_TAG, "%s", close);
        }
        return;
    }
}

/* Calls as the template renders them, in the form's way of writing a history. */
static bool render_call(const struct chat_form_input *in, const struct chat_form *form, const char *arguments,
                        int calls, struct text *out) {
    const struct trial t = {.content = "",
                            .arguments = arguments,
                            .calls = calls,
                            .as_text = form->arguments == CHAT_ARGUMENTS_TEXT,
                            .null_content = form->null_content};
    return render(in, form, &t, out) && memmem(out->p, out->n, FUNCTION, strlen(FUNCTION)) != NULL;
}

/* Finds results_rendered and short_ids by rendering a call with its result. */
static void find_history(const struct chat_form_input *in, struct chat_form *form, struct text *room) {
    struct trial t = {.content = form->calls_rendered ? "" : SAID,
                      .arguments = form->calls_rendered ? "{\"a\": \"va\"}" : NULL,
                      .calls = 1,
                      .as_text = form->arguments == CHAT_ARGUMENTS_TEXT,
                      .null_content = form->null_content,
                      .result = true};
    form->results_rendered =
        render(in, form, &t, room) && memmem(room->p, room->n, RESULT, strlen(RESULT)) != NULL;
    t.long_ids = true;
    form->short_ids = form->results_rendered && form->calls_rendered && !render(in, form, &t, room);
}

/* The template renders a conversation, given as its roles ("sua": system, user, assistant), with the texts of
 * all system messages. */
static bool takes_system(const struct chat_form_input *in, const struct chat_form *form, const char *roles) {
    json_t *messages = json_array();
    size_t n = 0;
    for (const char *at = roles; *at != '\0'; at++) {
        char text[24];
        snprintf(text, sizeof text, "stator said %d", (int)(at - roles));
        json_array_append_new(messages, json_pack("{s:s, s:s}", "role",
                                                  *at == 's'   ? "system"
                                                  : *at == 'u' ? "user"
                                                               : "assistant",
                                                  "content", text));
    }
    const char *p = render_messages(in, form, messages, true, &n);
    for (const char *at = roles; p != NULL && *at != '\0'; at++) {
        char text[24];
        const int length = snprintf(text, sizeof text, "stator said %d", (int)(at - roles));
        if (*at == 's' && memmem(p, n, text, (size_t)length) == NULL)
            return false;
    }
    return p != NULL;
}

static void find_system(const struct chat_form_input *in, struct chat_form *form) {
    if (takes_system(in, form, "ssuasu"))
        form->system = CHAT_SYSTEM_ANYWHERE;
    else
        form->system = takes_system(in, form, "su") ? CHAT_SYSTEM_FIRST : CHAT_SYSTEM_NOWHERE;
}

static void find_calls(const struct chat_form_input *in, struct chat_form *form, struct text *room) {
    struct renderings r = {.prompt = &room[0], .one = &room[1], .two = &room[2], .both = &room[3]};
    static const char one[] = "{\"a\": \"va\"}", two[] = "{\"a\": \"v<a\", \"b\": 12}";
    const struct trial said = {.content = SAID};
    (void)render(in, form, &said, &room[4]);
    struct chat_form unread = {.calls_rendered =
                                   false}; /* the first way that is rendered, but not understood */
    for (int way = 0; way < 4; way++) {
        form->arguments = way % 2 == 0 ? CHAT_ARGUMENTS_OBJECT : CHAT_ARGUMENTS_TEXT;
        form->null_content = way >= 2;
        if (!render_call(in, form, one, 1, r.one))
            continue;
        form->calls_rendered = true;
        r.has_two = render_call(in, form, two, 1, r.two);
        r.has_both = render_call(in, form, one, 2, r.both);
        form->one_call = !r.has_both;
        if (!find_rendered(in, form, &r, &room[4])) {
            if (!unread.calls_rendered)
                unread = *form;
            continue;
        }
        static const char twice[] = FUNCTION "{\"a\":\"va\"};" FUNCTION "{\"a\":\"va\"};";
        form->one_call = !r.has_both || !brings_back(in, form, r.prompt, r.both, twice);
        return;
    }
    form->arguments = CHAT_ARGUMENTS_OBJECT;
    form->null_content = false;
    if (unread.calls_rendered)
        *form = unread;
    else if (form->uses_tools)
        find_hinted(in, form);
}

/* The names that families have for the switch of reasoning: Qwen's and GLM's first, Granite's and DeepSeek's.
 * In gpt-oss's template the second is a member of messages. */
static void find_switch(const struct chat_form_input *in, struct chat_form *form) {
    static const char *const names[] = {"enable_thinking", "thinking"};
    for (int i = 0; i < 2 && form->thinking_name[0] == '\0' && form->tags.syntax != CHAT_CHANNELS; i++)
        if (has_word(in, names[i]))
            snprintf(form->thinking_name, sizeof form->thinking_name, "%s", names[i]);
}

void chat_form_find(const struct chat_form_input *in, struct chat_form *out) {
    static const char *const tools[] = {"tools", "xml_tools"};
    struct text *room = in->memory;
    *out = (struct chat_form){.uses_effort = has_word(in, "reasoning_effort")};
    for (int i = 0; i < 2 && !out->uses_tools; i++) {
        out->uses_tools = has_word(in, tools[i]);
        snprintf(out->tools_name, sizeof out->tools_name, "%s", tools[i]);
    }
    if (!out->uses_tools)
        snprintf(out->tools_name, sizeof out->tools_name, "tools");
    const struct trial prompt = {.content = NULL};
    const bool renders = render(in, out, &prompt, &room[0]);
    if (renders)
        find_reasoning(in, out, &room[0], &room[5]);
    else
        find_thinking(in, out);
    if (renders && (out->uses_tools || has_word(in, "tool_calls")))
        find_calls(in, out, room);
    else if (out->uses_tools)
        find_hinted(in, out);
    if (renders) {
        find_history(in, out, &room[5]);
        find_system(in, out);
    }
    if (out->tags.syntax == CHAT_UNKNOWN && has(in, "<|channel|>analysis") && has(in, "<|message|>") &&
        has(in, "<|start|>assistant"))
        out->tags.syntax = CHAT_CHANNELS; /* a template of gpt-oss without tools */
    find_switch(in, out);
    if (out->tags.syntax == CHAT_CHANNELS)
        out->think_open[0] = out->think_close[0] = '\0';
}

bool chat_form_thinks(const struct chat_form *form, const char *prompt, size_t n) {
    const size_t tag = strlen(form->think_open);
    while (n > 0 && strchr(" \t\r\n", prompt[n - 1]) != NULL && prompt[n - 1] != '\0')
        n--;
    return tag > 0 && n >= tag && memcmp(prompt + n - tag, form->think_open, tag) == 0;
}

size_t chat_form_marks(const struct chat_form *form, const char *marks[CHAT_FORM_MARKS]) {
    static const char *const channels[] = {"<|start|>", "<|end|>",       "<|message|>", "<|channel|>",
                                           "<|call|>",  "<|constrain|>", "<|return|>"};
    const struct chat_tags *t = &form->tags;
    const char *const all[] = {form->think_open, form->think_close, t->section_open, t->section_close,
                               t->call_open,     t->name_end,       t->call_close,   t->key_open,
                               t->key_close,     t->value_open,     t->value_close};
    size_t n = 0;
    if (t->syntax == CHAT_CHANNELS)
        for (size_t i = 0; i < sizeof channels / sizeof channels[0]; i++)
            marks[n++] = channels[i];
    for (size_t i = 0; i < sizeof all / sizeof all[0] && n < CHAT_FORM_MARKS - 2; i++)
        if (strlen(all[i]) > 2)
            marks[n++] = all[i];
    if (t->syntax == CHAT_GEMMA)
        marks[n++] = "<|\"|>";
    if (t->call_open[0] == '[')
        marks[n++] = "[CALL_ID]";
    return n;
}
