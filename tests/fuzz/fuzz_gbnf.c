/* Any bytes as a GBNF grammar and, behind the first NUL byte, as a text: an answer or a refusal, and never
 * two answers that differ, however few nodes there are. */
#include "fuzz.h"

#include "base/check.h"
#include "grammar/gbnf.h"

#include <stdlib.h>
#include <string.h>

const char *const fuzz_kinds[] = {"grammar", "match", NULL};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint32_t nodes[] = {4096, REGEX_MIN_NODES};
    const uint8_t *end = size > 0 ? memchr(data, '\0', size) : NULL;
    size_t length = end != NULL ? (size_t)(end - data) : size;
    size_t text_length = end != NULL ? size - length - 1 : 0;
    bool answers[2] = {false}, known[2] = {false};
    for (int i = 0; i < 2; i++) {
        void *memory = aligned_alloc(64, (gbnf_bytes(nodes[i]) + 63) / 64 * 64);
        struct regex *r = NULL;
        stator_error e = {0};
        CHECK(memory != NULL);
        stator_status st = gbnf_compile(memory, nodes[i], (const char *)data, length, &r, &e);
        CHECK(st == STATOR_OK || ((st == STATOR_USAGE || st == STATOR_DOES_NOT_FIT) && e.text[0] != '\0'));
        if (st == STATOR_OK)
            fuzz_accepted("grammar");
        known[i] = st == STATOR_OK &&
                   regex_matches(r, end != NULL ? end + 1 : data, text_length, &answers[i]) == REGEX_OK;
        if (known[i] && answers[i])
            fuzz_accepted("match");
        free(memory);
    }
    CHECK(!known[0] || !known[1] || answers[0] == answers[1]);
    return 0;
}
