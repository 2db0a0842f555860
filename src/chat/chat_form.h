/* How the model behind a chat template writes reasoning, calls of tools and content: what chat_parse.h needs
 * to take its answers apart, and what a history needs so that the template renders it.
 *
 * It is found by rendering the template with and without a call and by parsing what comes out with each known
 * syntax: a syntax counts only if the call comes back as it was. Templates that do not render calls are
 * decided by a table, which demands several texts of the template at once. */
#ifndef STATOR_CHAT_CHAT_FORM_H
#define STATOR_CHAT_CHAT_FORM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#define CHAT_TAG        56 /* bytes of a tag, with the NUL */
#define CHAT_FORM_MARKS 16
#define CHAT_SHORT_ID   9
#define CHAT_FORM_BYTES (8u << 20) /* of memory that chat_form_find needs */

enum chat_syntax {
    CHAT_UNKNOWN, /* the template has no tools, or writes calls in a way that is not known */
    CHAT_JSON,    /* {"name": .., "arguments": {..}}, or a list of these, between tags or bare */
    CHAT_KEYED,   /* a tag with the name, then a pair of tags for each argument */
    CHAT_NAMED,   /* the name, a separator, the arguments as JSON */
    CHAT_GEMMA,   /* call:NAME{key:<|"|>text<|"|>,..} */
    CHAT_PYTHON,  /* [name(key="text", ..), ..] */
    CHAT_CHANNELS /* gpt-oss */
};

/* The tags of a syntax; "": there is none. */
struct chat_tags {
    enum chat_syntax syntax;
    char section_open[CHAT_TAG], section_close[CHAT_TAG]; /* around all calls; JSON: around each */
    char call_open[CHAT_TAG], name_end[CHAT_TAG], call_close[CHAT_TAG];
    char key_open[CHAT_TAG], key_close[CHAT_TAG];
    char value_open[CHAT_TAG], value_close[CHAT_TAG];
    bool value_lines; /* KEYED: a value stands between line ends that are not its own */
};

/* How the messages of a history are to be written for this template. */
enum chat_arguments { CHAT_ARGUMENTS_OBJECT, CHAT_ARGUMENTS_TEXT };

/* Where the template renders messages of the role "system". Elsewhere it refuses or drops them. */
enum chat_system { CHAT_SYSTEM_ANYWHERE, CHAT_SYSTEM_FIRST /* one, at the beginning */, CHAT_SYSTEM_NOWHERE };

struct chat_form {
    char think_open[CHAT_TAG], think_close[CHAT_TAG]; /* "": the model does not think in tags */
    struct chat_tags tags;
    bool uses_tools;        /* the template looks at tools */
    bool uses_effort;       /* and at reasoning_effort */
    char thinking_name[24]; /* the variable that turns reasoning on and off; "": the template has none */
    /* The history: */
    char tools_name[24];     /* the variable for the tools */
    char reasoning_name[24]; /* the member of a message for its reasoning; "": the template has none */
    bool calls_rendered;     /* the template writes tool_calls; else they are written into the content */
    bool one_call;           /* it takes at most one call per message */
    bool null_content;       /* it writes calls only if the message's content is null */
    bool short_ids;          /* ids of calls must have CHAT_SHORT_ID letters and digits (Mistral) */
    bool results_rendered;   /* it writes messages of the role "tool" */
    enum chat_arguments arguments;
    enum chat_system system;
};

struct chat_form_input {
    const char *source; /* the template */
    size_t length;
    const char *bos, *eos; /* NULL: none */
    size_t bos_length, eos_length;
    const struct tm *now;
    const atomic_int *stop; /* as in jinja.h */
    void *memory;           /* CHAT_FORM_BYTES, aligned to 16 */
};

/* Never fails: what can't be determined stays unknown. Uses jansson. */
void chat_form_find(const struct chat_form_input *in, struct chat_form *out);

/* A rendered prompt whose end has opened the model's reasoning. */
bool chat_form_thinks(const struct chat_form *form, const char *prompt, size_t n);

/* Tags that may be single control tokens, whose names a decoder has to show; NULL behind the last one. */
size_t chat_form_marks(const struct chat_form *form, const char *marks[CHAT_FORM_MARKS]);

#endif
