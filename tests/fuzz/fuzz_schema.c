/* Any bytes as a JSON Schema and, behind the first NUL byte, as an instance: an answer or a refusal, and
 * never two answers that differ, however few nodes there are. A grammar that is accepted has a text. */
#include "fuzz.h"

#include "base/check.h"
#include "grammar/json_schema.h"

#include <stdlib.h>
#include <string.h>

const char *const fuzz_kinds[] = {"schema", "valid", "invalid", NULL};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint32_t nodes[] = {8192, 1024};
    const uint8_t *end = size > 0 ? memchr(data, '\0', size) : NULL;
    const size_t length = end != NULL ? (size_t)(end - data) : size;
    const size_t text_length = end != NULL ? size - length - 1 : 0;
    bool answers[2] = {false}, known[2] = {false};
    for (int i = 0; i < 2; i++) {
        void *memory = aligned_alloc(64, (json_schema_bytes(nodes[i]) + 63) / 64 * 64);
        struct regex *r = NULL;
        stator_error e = {0};
        CHECK(memory != NULL);
        const stator_status st =
            json_schema_compile(memory, nodes[i], (const char *)data, length, JSON_SCHEMA_COMPACT, &r, &e);
        CHECK(st == STATOR_OK || ((st == STATOR_USAGE || st == STATOR_DOES_NOT_FIT) && e.text[0] != '\0'));
        if (st == STATOR_OK) {
            CHECK(regex_start(r) != REGEX_DEAD);
            fuzz_accepted("schema");
        }
        known[i] = st == STATOR_OK &&
                   regex_matches(r, end != NULL ? end + 1 : data, text_length, &answers[i]) == REGEX_OK;
        if (known[i])
            fuzz_accepted(answers[i] ? "valid" : "invalid");
        free(memory);
    }
    CHECK(!known[0] || !known[1] || answers[0] == answers[1]);
    return 0;
}
