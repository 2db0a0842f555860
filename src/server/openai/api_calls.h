/* Calls of tools in the text of an answer. Pure, but for the pool in which their texts lie. */
#ifndef STATOR_SERVER_API_CALLS_H
#define STATOR_SERVER_API_CALLS_H

#include "server/openai/api_json.h"

/* Parameters that the client's tools declare to be texts: "function\0parameter\0" one after the other. */
struct api_string_params {
    struct api_text names;
};
bool api_calls_is_string(const struct api_string_params *s, struct api_slice function,
                         struct api_slice param);

/* A call; both are texts of the pool. */
struct api_call {
    struct api_text name;
    struct api_text arguments; /* JSON text: the model's own bytes where it wrote JSON */
};
void api_calls_free(struct api_call *call);

/* Takes one call off the text, behind blanks: the object {"name": .., "arguments" or "parameters": {..}}.
 * Returns its bytes, or 0: there is none, and call is empty. call->name.failed: no memory. */
size_t api_calls_json(const char *p, size_t n, struct api_call *call);
/* All of p is <function=NAME> <parameter=KEY> VALUE </parameter> .. </function>, with blanks around. */
bool api_calls_xml(const char *p, size_t n, const struct api_string_params *strings, struct api_call *call);

#endif
