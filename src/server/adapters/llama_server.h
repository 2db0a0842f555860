/* llama-server's own API for texts, as
 * https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md describes it: /completion, and
 * /infill for models with tokens for that. */
#ifndef STATOR_SERVER_LLAMA_SERVER_H
#define STATOR_SERVER_LLAMA_SERVER_H

#include "server/http/http.h"
#include "server/openai/api_jobs.h"

/* Routes; context: struct api. */
http_function llama_completion, llama_infill;

/* input_prefix, prompt, input_suffix and input_extra as fields of completions. Other fields are handed on as
 * they are. */
api_translate llama_translate_infill;
/* As llama_translate_infill, of /completion: all fields are those of completions. */
api_translate llama_translate_completion;

#endif
