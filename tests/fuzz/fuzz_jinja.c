/* Any bytes as a chat template, with the variables of a conversation: an error or a text, within its memory
 * and steps. */
#include "fuzz.h"

#include "chat/jinja.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const fuzz_kinds[] = {"template", NULL};

#define MEMORY (1u << 20)

static const char variables[] = "{\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": "
                                "\"user\", \"content\": [{\"type\": \"text\", "
                                "\"text\": \"\\u00e9 t\"}]}, {\"role\": \"assistant\", \"content\": null, "
                                "\"tool_calls\": [{\"function\": {\"name\": "
                                "\"f\", \"arguments\": {\"x\": 1.5, \"y\": [1, -2]}}}]}], \"tools\": [], "
                                "\"add_generation_prompt\": true, "
                                "\"bos_token\": \"<s>\", \"n\": 3}";

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
    static char first[MEMORY];
    size_t n_first = 0;
    bool rendered = false;
    /* In plenty of memory, and in so little that collections come often: the same text. */
    for (size_t bytes = MEMORY; bytes >= 1 << 14;
         bytes = bytes == MEMORY ? (1 << 14) + size % 61 * 1024 : 0) {
        const char *text = NULL;
        size_t n = 0;
        stator_error e = {0};
        stator_status st = jinja_render(&in, memory, bytes, &text, &n, &e);
        bool good = st == STATOR_OK
                        ? n <= bytes
                        : (e.code == STATOR_USAGE || e.code == STATOR_DOES_NOT_FIT) && e.text[0] != '\0';
        if (st == STATOR_OK && bytes < MEMORY && rendered)
            good = n == n_first && memcmp(text, first, n) == 0;
        if (!good) {
            fprintf(stderr, "fuzz_jinja: %d \"%s\" in %zu bytes\n", (int)st, e.text, bytes);
            abort();
        }
        if (st == STATOR_OK && bytes == MEMORY) {
            fuzz_accepted("template");
            rendered = true;
            n_first = n;
            memcpy(first, text, n);
        }
    }
    return 0;
}
