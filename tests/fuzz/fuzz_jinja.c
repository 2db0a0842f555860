/* Any bytes as a chat template, with the variables of a conversation: an error or a text, within its memory
 * and steps. */
#include "chat/jinja.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY (1u << 20)

static const char variables[] = "{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": "
                                "\"user\", \"content\": [{\"type\": \"text\", "
                                "\"text\": \"\\u00e9 t\"}]}, {\"role\": \"assistant\", \"content\": null, "
                                "\"tool_calls\": [{\"function\": {\"name\": "
                                "\"f\", \"arguments\": {\"x\": 1.5, \"y\": [1, -2]}}}]}], \"tools\": [], "
                                "\"add_generation_prompt\": true, "
                                "\"bos_token\": \"<s>\", \"n\": 3}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static json_t *given;
    static void *memory;
    if (given == NULL) {
        json_error_t why;
        given = json_loads(variables, 0, &why);
        memory = aligned_alloc(64, MEMORY);
        if (given == NULL || memory == NULL)
            abort();
    }
    const struct tm now = {.tm_year = 126, .tm_mday = 1};
    const struct jinja_input in = {
        .source = (const char *)data, .length = size, .variables = given, .now = &now, .max_steps = 200000};
    const char *text = NULL;
    size_t n = 0;
    stator_error e = {0};
    stator_status st = jinja_render(&in, memory, MEMORY, &text, &n, &e);
    if (st == STATOR_OK ? n > MEMORY : e.code != STATOR_USAGE || e.text[0] == '\0') {
        fprintf(stderr, "fuzz_jinja: %d \"%s\"\n", (int)st, e.text);
        abort();
    }
    return 0;
}
