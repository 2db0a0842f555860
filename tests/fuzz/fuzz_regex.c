/* Any bytes as a regular expression and, behind the first line end, as a text: an answer or a refusal, and
 * never two answers that differ, however few nodes there are. */
#include "fuzz.h"

#include "base/check.h"
#include "grammar/regex.h"

#include <stdlib.h>
#include <string.h>

const char *const fuzz_kinds[] = {"whole", "search", NULL};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint32_t nodes[] = {4096, REGEX_MIN_NODES};
    if (size == 0)
        return 0;
    enum regex_anchoring anchoring = data[0] & 1 ? REGEX_SEARCH : REGEX_WHOLE;
    const uint8_t *expression = data + 1, *end = memchr(expression, '\n', size - 1);
    size_t length = end != NULL ? (size_t)(end - expression) : size - 1;
    const uint8_t *text = expression + length;
    size_t text_length = (size_t)(data + size - text);
    bool answers[2] = {false}, known[2] = {false};
    for (int i = 0; i < 2; i++) {
        void *memory = aligned_alloc(64, regex_bytes(nodes[i]));
        struct regex *r = NULL;
        stator_error e = {0};
        CHECK(memory != NULL);
        stator_status st =
            regex_compile(memory, nodes[i], (const char *)expression, length, anchoring, &r, &e);
        CHECK(st == STATOR_OK || ((st == STATOR_USAGE || st == STATOR_DOES_NOT_FIT) && e.text[0] != '\0'));
        known[i] = st == STATOR_OK && regex_matches(r, text, text_length, &answers[i]) == REGEX_OK;
        if (known[i])
            fuzz_accepted(anchoring == REGEX_SEARCH ? "search" : "whole");
        if (known[i]) { /* once more, with what the first time has left behind */
            bool again = false;
            CHECK(regex_matches(r, text, text_length, &again) != REGEX_OK || again == answers[i]);
        }
        free(memory);
    }
    CHECK(!known[0] || !known[1] || answers[0] == answers[1]);
    return 0;
}
