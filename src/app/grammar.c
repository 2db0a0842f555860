/* stator grammar FILE: whether a JSON Schema, a GBNF grammar or a regular expression is supported, what it
 * costs, and which lines of standard input match it. */
#include "app/commands.h"
#include "app/options/options.h"
#include "app/out.h"
#include "app/session.h"

#include "base/error.h"
#include "grammar/gbnf.h"
#include "grammar/json_schema.h"
#include "os/pages.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MEMORY_DEFAULT ((uint64_t)2 << 20)
#define MEMORY_MAX     ((uint64_t)1 << 30)

struct job {
    const char *path;
    bool regex, gbnf, free_space;
    uint64_t bytes; /* of the compiled grammar */
    uint32_t nodes;
    void *memory;
    struct regex *r;
};

static uint64_t bytes_for(const struct job *j, uint32_t nodes) {
    return j->regex ? regex_bytes(nodes) : j->gbnf ? gbnf_bytes(nodes) : json_schema_bytes(nodes);
}

static stator_status compile(struct job *j, const char *text, size_t n, stator_error *e) {
    for (j->nodes = REGEX_MIN_NODES; j->nodes < REGEX_MAX_NODES && bytes_for(j, 2 * j->nodes) <= j->bytes;)
        j->nodes *= 2;
    stator_status st = pages_map(bytes_for(j, j->nodes), "the grammar", &j->memory, e);
    if (st != STATOR_OK)
        return st;
    if (j->regex) {
        while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r'))
            n--; /* the end of the file's line is no part of the expression */
        return regex_compile(j->memory, j->nodes, text, n, REGEX_WHOLE, &j->r, e);
    }
    if (j->gbnf)
        return gbnf_compile(j->memory, j->nodes, text, n, &j->r, e);
    return json_schema_compile(j->memory, j->nodes, text, n,
                               j->free_space ? JSON_SCHEMA_FREE : JSON_SCHEMA_COMPACT, &j->r, e);
}

static bool read_hex(const char *s, size_t n, uint32_t *v) {
    *v = 0;
    for (size_t i = 0; i < 4; i++) {
        const char *digits = "0123456789abcdef0123456789ABCDEF";
        const char *at = i < n && s[i] != '\0' ? strchr(digits, s[i]) : NULL;
        if (at == NULL)
            return false;
        *v = *v << 4 | (uint32_t)((at - digits) % 16);
    }
    return true;
}

static size_t put_character(uint32_t v, char *out) {
    static const char letters[] = "\b\t\n\f\r\"\\", names[] = "btnfr\"\\";
    const char *letter = v < 0x80 && v != 0 ? strchr(letters, (int)v) : NULL;
    if (letter != NULL)
        return out[0] = '\\', out[1] = names[letter - letters], 2;
    if (v < ' ' || (v >= 0xD800 && v < 0xE000))
        return (size_t)snprintf(out, 7, "\\u%04x", v);
    if (v < 0x80)
        return out[0] = (char)v, 1;
    size_t n = v < 0x800 ? 2 : v < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; v >>= 6)
        out[i] = (char)(0x80 | (v & 0x3F));
    out[0] = (char)((n == 2 ? 0xC0 : n == 3 ? 0xE0 : 0xF0) | v);
    return n;
}

/* An escape at text, which begins with a backslash. Returns its length; *put: bytes that it becomes. */
static size_t spell_escape(const char *text, size_t n, char *out, size_t *put) {
    static const char names[] = "btnfr\"\\/", values[] = "\b\t\n\f\r\"\\/";
    uint32_t v, low;
    const char *name = n > 1 && text[1] != '\0' ? strchr(names, text[1]) : NULL;
    if (name != NULL) {
        *put = put_character((uint8_t)values[name - names], out);
        return 2;
    }
    if (n > 1 && text[1] == 'u' && read_hex(text + 2, n - 2, &v)) {
        if (v >= 0xD800 && v < 0xDC00 && n > 7 && text[6] == '\\' && text[7] == 'u' &&
            read_hex(text + 8, n - 8, &low) && low >= 0xDC00 && low < 0xE000) {
            *put = put_character(0x10000 + ((v - 0xD800) << 10) + (low - 0xDC00), out);
            return 12;
        }
        *put = put_character(v, out);
        return 6;
    }
    *out = *text; /* it is no JSON, and will not match */
    *put = 1;
    return 1;
}

/* A JSON document as a model would write it under the grammar: without white space between tokens, and with
 * escapes only where they are needed. In place: nothing becomes longer. */
static size_t spell(char *text, size_t n) {
    size_t put = 0;
    bool inside = false;
    for (size_t at = 0; at < n;) {
        char c = text[at];
        if (inside && c == '\\') {
            char out[8];
            size_t bytes;
            at += spell_escape(text + at, n - at, out, &bytes);
            memcpy(text + put, out, bytes);
            put += bytes;
            continue;
        }
        at++;
        if (c == '"')
            inside = !inside;
        if (inside || (c != ' ' && c != '\t' && c != '\r'))
            text[put++] = c;
    }
    return put;
}

static const char *verdict(struct job *j, const char *text, size_t n) {
    bool matches = false;
    switch (regex_matches(j->r, text, n, &matches)) {
    case REGEX_OK:
        return matches ? "valid" : "invalid";
    case REGEX_FULL:
        return "undecided: the grammar's memory is too small for this text";
    case REGEX_STEPS:
        return "undecided: a byte takes too many steps";
    case REGEX_DEPTH:
        break;
    }
    return "undecided: nested too deep";
}

/* A line of output for each line of standard input. */
static stator_status check(struct job *j, bool *all, stator_error *e) {
    char *text = NULL;
    size_t n = 0, number = 0;
    stator_status st = session_read_file("-", SESSION_TEXT_LIMIT, &text, &n, e);
    for (size_t at = 0; st == STATOR_OK && at < n;) {
        char *line = text + at, *end = memchr(line, '\n', n - at);
        size_t length = end != NULL ? (size_t)(end - line) : n - at;
        at += length + 1;
        if (!j->regex && !j->gbnf && !j->free_space)
            length = spell(line, length);
        const char *says = verdict(j, line, length);
        *all = *all && strcmp(says, "valid") == 0;
        printf("%zu: %s\n", ++number, says);
    }
    free(text);
    return st;
}

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), n_end = strlen(end);
    return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

int grammar_command(int argc, char **argv) {
    struct job j = {.bytes = MEMORY_DEFAULT};
    const struct options_row rows[] = {
        {.name = "regex",
         .kind = OPTIONS_FLAG,
         .target = &j.regex,
         .help = "FILE is a regular expression (ECMA 262), which a whole text must match"},
        {.name = "gbnf",
         .kind = OPTIONS_FLAG,
         .target = &j.gbnf,
         .help = "FILE is a grammar of llama.cpp, as a FILE.gbnf is without this option"},
        {.name = "free-space",
         .kind = OPTIONS_FLAG,
         .target = &j.free_space,
         .help = "white space is allowed between the tokens of JSON, and texts are taken as they are"},
        {.name = "memory",
         .kind = OPTIONS_SIZE,
         .target = &j.bytes,
         .value = "SIZE",
         .min = 64 << 10,
         .max = MEMORY_MAX,
         .help = "memory of the compiled grammar (2MiB by default)"},
    };
    struct options o = {
        .command = "grammar",
        .usage = "SCHEMA.json | FILE.gbnf",
        .summary =
            "Says whether a JSON Schema, a GBNF grammar or a regular expression is supported and what it "
            "costs. "
            "Then it reads texts from standard input, one per line, and prints for each whether it is valid. "
            "For a JSON Schema these are JSON documents, with the properties of objects in the order of the "
            "schema. Exit code 0: all are valid; 1: some is not; 2: the grammar is not supported.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof rows[0]};
    int code = 0;
    const char *argument = NULL;
    if (!options_parse_one(&o, argc, argv, &argument, &code))
        return code;
    stator_error e = {0};
    char *text = NULL;
    size_t n = 0;
    bool all = true;
    stator_status st = STATOR_OK;
    j.path = argument;
    j.gbnf |= !j.regex && ends_with(j.path, ".gbnf");
    if (j.gbnf && j.regex)
        st = error_set(&e, STATOR_USAGE, "give one of --gbnf and --regex");
    if (st == STATOR_OK)
        st = session_read_file(j.path, JSON_SCHEMA_TEXT_LIMIT, &text, &n, &e);
    if (st == STATOR_OK) {
        st = compile(&j, text, n, &e);
        if (st != STATOR_OK)
            error_prefix(&e, "%s", j.path);
    }
    if (st == STATOR_OK) {
        printf("%s: accepted, %" PRIu32 " of %" PRIu32 " nodes\n", j.path, regex_nodes_used(j.r), j.nodes);
        if (isatty(STDIN_FILENO) == 0)
            st = check(&j, &all, &e);
    }
    if (j.memory != NULL)
        pages_unmap(j.memory, bytes_for(&j, j.nodes));
    free(text);
    code = out_end("grammar", st, &e);
    return code == 0 && !all ? 1 : code;
}
