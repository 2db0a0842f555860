/* What a chat template says about the answers of its model: the tags around its reasoning, and how it writes
 * calls of tools. Found in the template's text; no model is known by name. Pure. */
#ifndef STATOR_SERVER_API_STYLE_H
#define STATOR_SERVER_API_STYLE_H

#include <stdbool.h>
#include <stddef.h>

#define API_TAG 48 /* bytes of a tag, with the NUL */

enum api_calls_kind {
    API_CALLS_UNKNOWN, /* the template has no tools, or writes calls in a way that is not known here */
    API_CALLS_TAGGED,  /* <tool_call> .. </tool_call> around JSON (Qwen, Hermes) or XML (Qwen3-Coder) */
    API_CALLS_LISTED,  /* calls_open, then JSON up to the end (Granite, Mistral) */
    API_CALLS_JSON     /* the whole answer is JSON (Llama), calls_open may stand in front of it */
};

struct api_style {
    char think_open[API_TAG]; /* "": the template knows no reasoning */
    char think_close[API_TAG];
    enum api_calls_kind calls;
    char calls_open[API_TAG]; /* "": none */
    char calls_close[API_TAG];
    bool uses_tools;  /* the template looks at `tools` */
    bool uses_effort; /* and at `reasoning_effort` */
};

void api_style_find(const char *source, size_t n, struct api_style *out);
/* A rendered prompt whose end has opened the model's reasoning. */
bool api_style_thinks(const struct api_style *style, const char *prompt, size_t n);

#endif
