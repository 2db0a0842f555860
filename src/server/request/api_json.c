#include "server/request/api_json.h"

#include <stdbool.h>

void api_json_measure(const char *p, size_t n, uint32_t *depth, uint64_t *values) {
    uint32_t now = 0;
    bool inside = false; /* of a string */
    *depth = 0;
    *values = 1;
    for (size_t i = 0; i < n; i++) {
        const char c = p[i];
        if (inside) {
            i += c == '\\';
            inside = c != '"';
        } else if (c == '"') {
            inside = true;
        } else if (c == '{' || c == '[') {
            now++;
            *depth = now > *depth ? now : *depth;
            ++*values;
        } else if (c == '}' || c == ']') {
            now -= now > 0;
        } else if (c == ',' || c == ':') {
            ++*values;
        }
    }
}
